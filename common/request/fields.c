/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of members, and what works on any of them.
 */
#include "common/base/mem.h"
#include "common/request/request_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAMES(...)                                                                                 \
    (sizeof((struct field_name[]){__VA_ARGS__}) / sizeof(struct field_name)),                      \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* clang-format off */
static const struct field_names dialects = {"", false, NAMES(
    {"ascend", RS_DIALECT_ASCEND}, {"mindspore", RS_DIALECT_MINDSPORE}, {"torch", RS_DIALECT_TORCH})};
static const struct field_names origins = {"", false, NAMES(
    {"config_file", RS_ORIGIN_CONFIG_FILE}, {"dp_start", RS_ORIGIN_DP_START},
    {"api", RS_ORIGIN_API}, {"cli", RS_ORIGIN_CLI})};
static const struct field_names on_busy_words = {"", false, NAMES(
    {"queue", RS_ON_BUSY_QUEUE}, {"refuse", RS_ON_BUSY_REFUSE})};
static const struct field_names activities = {"ProfilerActivity", true, NAMES(
    {"CPU", RS_ACTIVITY_CPU}, {"NPU", RS_ACTIVITY_NPU}, {"CUDA", RS_ACTIVITY_CUDA},
    {"XPU", RS_ACTIVITY_XPU}, {"MTIA", RS_ACTIVITY_MTIA})};
static const struct field_names export_types = {"ExportType", true, NAMES(
    {"text", RS_EXPORT_TEXT}, {"db", RS_EXPORT_DB})};
static const struct field_names levels = {"ProfilerLevel", false, NAMES(
    {"Level_none", RS_LEVEL_NONE}, {"Level0", RS_LEVEL_0}, {"Level1", RS_LEVEL_1},
    {"Level2", RS_LEVEL_2})};
static const struct field_names aic_metrics = {"AiCMetrics", false, NAMES(
    {"by_level", RS_AIC_BY_LEVEL}, {"AiCoreNone", RS_AIC_NONE},
    {"PipeUtilization", RS_AIC_PIPE_UTILIZATION},
    {"ArithmeticUtilization", RS_AIC_ARITHMETIC_UTILIZATION}, {"Memory", RS_AIC_MEMORY},
    {"MemoryL0", RS_AIC_MEMORY_L0}, {"ResourceConflictRatio", RS_AIC_RESOURCE_CONFLICT_RATIO},
    {"MemoryUB", RS_AIC_MEMORY_UB}, {"L2Cache", RS_AIC_L2_CACHE},
    {"MemoryAccess", RS_AIC_MEMORY_ACCESS})};
static const struct field_names host_systems = {"HostSystem", true, NAMES(
    {"cpu", RS_HOST_SYS_CPU}, {"mem", RS_HOST_SYS_MEM}, {"disk", RS_HOST_SYS_DISK},
    {"network", RS_HOST_SYS_NETWORK}, {"osrt", RS_HOST_SYS_OSRT})};
static const struct field_names frameworks = {"", false, NAMES(
    {"all", RS_FRAMEWORK_ALL}, {"time", RS_FRAMEWORK_TIME}, {"memory", RS_FRAMEWORK_MEMORY},
    {"none", RS_FRAMEWORK_NONE})};

#define AT(member) offsetof(struct rs_capture_request, member)
#define SIZE(member) sizeof(((struct rs_capture_request *)0)->member)
#define TEXT(group, name, member, by) {group, name, AT(member), SIZE(member), 0, 0, NULL, FIELD_TEXT, by}
#define BOOL(group, name, member, by) {group, name, AT(member), 0, 0, 0, NULL, FIELD_BOOL, by}
#define NUMBER(group, name, kind, member, min, max, by) {group, name, AT(member), 0, min, max, NULL, kind, by}
#define NAMED(group, name, kind, member, names, by) {group, name, AT(member), 0, 0, 0, &(names), kind, by}
#define LIST(group, name, kind, member, by) {group, name, AT(member), 0, 0, 0, NULL, kind, by}
#define STEPS_MAX INT32_MAX
#define STEP_MAX (INT64_C(1) << 53)

#define SCHED "schedule"
#define EXP "experimental"
#define MS "mindspore"

const struct field request_fields[FIELD_COUNT] = {
    [F_CAPTURE_ID] = TEXT("", "capture_id", capture_id, BY_S),
    [F_DIALECT] = NAMED("", "dialect", FIELD_ENUM, dialect, dialects, BY_S),
    [F_ORIGIN] = NAMED("", "origin", FIELD_ENUM, origin, origins, BY_S),
    [F_JOB_ID] = TEXT("", "job_id", job_id, BY_S),
    [F_RANKS] = TEXT("", "ranks", ranks, BY_S),
    [F_IS_RANK] = BOOL("", "is_rank", is_rank, BY_S),
    [F_RANK_LIST] = NUMBER("", "rank_list", FIELD_RANKS, rank_list, 0, RS_RANK_MAX, BY_S),
    [F_START_STEP] = NUMBER("", "start_step", FIELD_I64, start_step, -STEP_MAX, STEP_MAX, BY_S),
    [F_MAX_STEP] = NUMBER("", "max_step", FIELD_OPT_U64, max_step, 1, STEP_MAX, BY_S),
    [F_START_TIME] = NUMBER("", "start_time_ns", FIELD_I64, start_time_ns, 0, INT64_MAX, BY_S),
    [F_DURATION] = NUMBER("", "duration_ms", FIELD_U32, duration_ms, 0, INT32_MAX, BY_S),
    [F_WAIT] = NUMBER(SCHED, "wait", FIELD_U32, schedule.wait, 0, STEPS_MAX, BY_N | BY_I),
    [F_WARMUP] = NUMBER(SCHED, "warmup", FIELD_OPT_U32, schedule.warmup, 0, STEPS_MAX, BY_N | BY_K | BY_A | BY_I),
    [F_ACTIVE] = NUMBER(SCHED, "active", FIELD_U32, schedule.active, 1, STEPS_MAX, BY_S),
    [F_REPEAT] = NUMBER(SCHED, "repeat", FIELD_U32, schedule.repeat, 0, STEPS_MAX, BY_I),
    [F_SKIP_FIRST] = NUMBER(SCHED, "skip_first", FIELD_U32, schedule.skip_first, 0, STEPS_MAX, BY_N | BY_I),
    [F_ACTIVITIES] = NAMED("", "activities", FIELD_SET, activities, activities, BY_K | BY_A | BY_M | BY_I),
    [F_RECORD_SHAPES] = BOOL("", "record_shapes", record_shapes, BY_K | BY_A | BY_M | BY_I),
    [F_WITH_STACK] = BOOL("", "with_stack", with_stack, BY_K | BY_A | BY_M | BY_I),
    [F_WITH_MODULES] = BOOL("", "with_modules", with_modules, BY_K | BY_A | BY_I),
    [F_WITH_FLOPS] = BOOL("", "with_flops", with_flops, BY_K | BY_A | BY_I),
    [F_PROFILE_MEMORY] = BOOL("", "profile_memory", profile_memory, BY_K | BY_A | BY_M | BY_I),
    [F_EXPORT_TYPE] = NAMED(EXP, "export_type", FIELD_SET, experimental.export_type, export_types, BY_A | BY_M | BY_I),
    [F_LEVEL] = NAMED(EXP, "profiler_level", FIELD_ENUM, experimental.profiler_level, levels, BY_A | BY_M | BY_I),
    [F_AIC] = NAMED(EXP, "aic_metrics", FIELD_ENUM, experimental.aic_metrics, aic_metrics, BY_A | BY_M | BY_I),
    [F_L2_CACHE] = BOOL(EXP, "l2_cache", experimental.l2_cache, BY_A | BY_M | BY_I),
    [F_OP_ATTR] = BOOL(EXP, "op_attr", experimental.op_attr, BY_A | BY_I),
    [F_RECORD_OP_ARGS] = BOOL(EXP, "record_op_args", experimental.record_op_args, BY_A | BY_I),
    [F_SYS_IO] = BOOL(EXP, "sys_io", experimental.sys_io, BY_N | BY_K | BY_A | BY_M | BY_I),
    [F_SYS_INTERCONNECTION] = BOOL(EXP, "sys_interconnection", experimental.sys_interconnection, BY_A | BY_M | BY_I),
    [F_DATA_SIMPLIFICATION] = BOOL(EXP, "data_simplification", experimental.data_simplification, BY_A | BY_M | BY_I),
    [F_GC] = NUMBER(EXP, "gc_detect_threshold_ms", FIELD_OPT_DOUBLE, experimental.gc_detect_threshold_ms, 0, 0, BY_A | BY_I),
    [F_MSTX] = BOOL(EXP, "mstx", experimental.mstx, BY_A | BY_M | BY_I),
    [F_MSTX_INCLUDE] = LIST(EXP, "mstx_domain_include", FIELD_TEXTS, experimental.mstx_domain_include, BY_A | BY_M | BY_I),
    [F_MSTX_EXCLUDE] = LIST(EXP, "mstx_domain_exclude", FIELD_TEXTS, experimental.mstx_domain_exclude, BY_A | BY_M | BY_I),
    [F_HOST_SYS] = NAMED(EXP, "host_sys", FIELD_SET, experimental.host_sys, host_systems, BY_N | BY_K | BY_A | BY_M | BY_I),
    [F_EXTRA] = LIST(EXP, "extra", FIELD_PAIRS, experimental.extra, BY_I),
    [F_SAMPLE_HZ] = NUMBER("", "sample_hz", FIELD_U32, sample_hz, 1, 100, BY_N | BY_K | BY_I),
    [F_OP_TIME] = BOOL(MS, "op_time", mindspore.op_time, BY_I),
    [F_COMMUNICATION] = BOOL(MS, "profile_communication", mindspore.profile_communication, BY_I),
    [F_AICORE] = NUMBER(MS, "aicore_metrics", FIELD_I32, mindspore.aicore_metrics, -1, 5, BY_I),
    [F_PARALLEL_STRATEGY] = BOOL(MS, "parallel_strategy", mindspore.parallel_strategy, BY_M | BY_I),
    [F_DATA_PROCESS] = BOOL(MS, "data_process", mindspore.data_process, BY_I),
    [F_START_PROFILE] = BOOL(MS, "start_profile", mindspore.start_profile, BY_I),
    [F_SYNC_ENABLE] = BOOL(MS, "sync_enable", mindspore.sync_enable, BY_I),
    [F_PROFILE_FRAMEWORK] = NAMED(MS, "profile_framework", FIELD_ENUM, mindspore.profile_framework, frameworks, BY_I),
    [F_ANALYSE_MODE] = NUMBER(MS, "analyse_mode", FIELD_I32, mindspore.analyse_mode, -1, 1, BY_M),
    [F_TIMELINE_LIMIT] = NUMBER("", "timeline_limit_mb", FIELD_U32, timeline_limit_mb, 1, INT32_MAX, BY_I),
    [F_PROF_DIR] = TEXT("", "prof_dir", prof_dir, BY_I),
    [F_SPOOL_DIR] = TEXT("", "spool_dir", spool_dir, BY_I),
    [F_WORKER_NAME] = TEXT("", "worker_name", worker_name, BY_I),
    [F_ANALYSE] = BOOL("", "analyse", analyse, BY_A | BY_M | BY_I),
    [F_ASYNC_MODE] = BOOL("", "async_mode", async_mode, BY_A | BY_M | BY_I),
    [F_AGGREGATE] = BOOL("", "aggregate", aggregate, BY_M | BY_I),
    [F_USE_GZIP] = BOOL("", "use_gzip", use_gzip, BY_I),
    [F_PRETTY] = BOOL("", "pretty", pretty, BY_I),
    [F_MAX_DURATION] = NUMBER("", "max_duration_s", FIELD_U32, max_duration_s, 1, 86400, BY_S),
    [F_HEADROOM] = NUMBER("", "headroom_factor", FIELD_U32, headroom_factor, 1, 1000, BY_S),
    [F_FORCE] = BOOL("", "force", force, BY_S),
    [F_ON_BUSY] = NAMED("", "on_busy", FIELD_ENUM, on_busy, on_busy_words, BY_S),
    [F_ROUNDUP] = NUMBER("", "roundup", FIELD_U32, roundup, 0, 1000000, BY_K),
    [F_TIMEOUT] = NUMBER("", "timeout_ms", FIELD_U32, timeout_ms, 0, INT32_MAX, BY_S),
    [F_METADATA] = LIST("", "metadata", FIELD_JSONS, metadata, BY_S),
    [F_ENV_ALLOW] = LIST("", "env_allow", FIELD_TEXTS, env_allow, BY_I),
};
/* clang-format on */

/* Enumerations are read and written through the table as unsigned. */
_Static_assert(sizeof(enum rs_dialect) == sizeof(uint32_t), "enums are 32 bits");
_Static_assert(sizeof(enum rs_aic_metrics) == sizeof(uint32_t), "enums are 32 bits");

bool rs_request_member(size_t index, char name[RS_REQUEST_MEMBER_BYTES])
{
    if (index >= FIELD_COUNT)
        return false;
    field_path(&request_fields[index], name, RS_REQUEST_MEMBER_BYTES);
    return true;
}

void field_path(const struct field *field, char *path, size_t size)
{
    (void)snprintf(path, size, "%s%s%s", field->group, *field->group ? "." : "", field->name);
}

size_t field_find(const char *group, const char *name)
{
    size_t i = 0;
    while (i < FIELD_COUNT && (strcmp(request_fields[i].group, group) != 0 ||
                               strcmp(request_fields[i].name, name) != 0))
        i++;
    return i;
}

const char *field_name_of(const struct field_names *names, uint32_t value)
{
    for (size_t i = 0; i < names->count; i++)
        if (names->items[i].value == value)
            return names->items[i].name;
    return "?";
}

/* Past "torch_npu.profiler.ProfilerLevel.": a prefix that ends in the class and a dot. */
static const char *without_class(const struct field_names *names, const char *text)
{
    const char *dot = strrchr(text, '.');
    const size_t length = strlen(names->class_name);
    if (!dot || !length || (size_t)(dot - text) < length)
        return text;
    const char *class_at = dot - length;
    if (strncmp(class_at, names->class_name, length) != 0 ||
        (class_at > text && class_at[-1] != '.'))
        return text;
    return dot + 1;
}

size_t field_name_find(const struct field_names *names, const char *text)
{
    const char *word = without_class(names, text);
    const bool folds = names->folds_case;
    for (size_t i = 0; i < names->count; i++)
        if ((folds ? strcasecmp(word, names->items[i].name) : strcmp(word, names->items[i].name)) ==
            0)
            return i;
    return names->count;
}

/* ---- lists --------------------------------------------------------------------------------------------------- */

void ranks_fini(struct rs_request_ranks *ranks)
{
    rs_mem_free(ranks->items);
    *ranks = (struct rs_request_ranks){0};
}

void texts_fini(struct rs_request_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        rs_mem_free(texts->items[i]);
    rs_mem_free(texts->items);
    *texts = (struct rs_request_texts){0};
}

void pairs_fini(struct rs_request_pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        rs_mem_free(pairs->items[i].key);
        rs_mem_free(pairs->items[i].value);
    }
    rs_mem_free(pairs->items);
    *pairs = (struct rs_request_pairs){0};
}

enum rs_status ranks_add(struct rs_request_ranks *ranks, uint32_t rank)
{
    size_t low = 0, high = ranks->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (ranks->items[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < ranks->count && ranks->items[low] == rank)
        return RS_OK;
    if (rs_mem_grow((void **)&ranks->items, &ranks->capacity, ranks->count + 1,
                    sizeof *ranks->items) < 0)
        return RS_NOMEM;
    memmove(&ranks->items[low + 1], &ranks->items[low],
            (ranks->count - low) * sizeof *ranks->items);
    ranks->items[low] = rank;
    ranks->count++;
    return RS_OK;
}

enum rs_status texts_add(struct rs_request_texts *texts, const char *text)
{
    for (size_t i = 0; i < texts->count; i++)
        if (strcmp(texts->items[i], text) == 0)
            return RS_OK;
    char *copy = rs_mem_strdup(text);
    if (!copy || rs_mem_grow((void **)&texts->items, &texts->capacity, texts->count + 1,
                             sizeof *texts->items) < 0) {
        rs_mem_free(copy);
        return RS_NOMEM;
    }
    texts->items[texts->count++] = copy;
    return RS_OK;
}

enum rs_status pairs_set(struct rs_request_pairs *pairs, const char *key, const char *value)
{
    char *value_copy = rs_mem_strdup(value);
    if (!value_copy)
        return RS_NOMEM;
    for (size_t i = 0; i < pairs->count; i++)
        if (strcmp(pairs->items[i].key, key) == 0) {
            rs_mem_free(pairs->items[i].value);
            pairs->items[i].value = value_copy;
            return RS_OK;
        }
    char *key_copy = rs_mem_strdup(key);
    if (!key_copy || rs_mem_grow((void **)&pairs->items, &pairs->capacity, pairs->count + 1,
                                 sizeof *pairs->items) < 0) {
        rs_mem_free(key_copy);
        rs_mem_free(value_copy);
        return RS_NOMEM;
    }
    pairs->items[pairs->count++] = (struct rs_request_pair){key_copy, value_copy};
    return RS_OK;
}

/* ---- comparison ------------------------------------------------------------------------------------------------ */

static bool texts_equal(const struct rs_request_texts *a, const struct rs_request_texts *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    return true;
}

static bool pairs_equal(const struct rs_request_pairs *a, const struct rs_request_pairs *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->items[i].key, b->items[i].key) != 0 ||
            strcmp(a->items[i].value, b->items[i].value) != 0)
            return false;
    return true;
}

static bool optionals_equal(const struct field *field, const void *a, const void *b)
{
    if (field->kind == FIELD_OPT_U32) {
        const struct rs_optional_u32 *x = a, *y = b;
        return x->is_set == y->is_set && x->value == y->value;
    }
    if (field->kind == FIELD_OPT_U64) {
        const struct rs_optional_u64 *x = a, *y = b;
        return x->is_set == y->is_set && x->value == y->value;
    }
    const struct rs_optional_double *x = a, *y = b;
    return x->is_set == y->is_set && x->value == y->value;
}

bool field_equal(const struct field *field, const struct rs_capture_request *a,
                 const struct rs_capture_request *b)
{
    const void *x = field_of(a, field);
    const void *y = field_of(b, field);
    switch (field->kind) {
    case FIELD_TEXT:
        return strcmp(x, y) == 0;
    case FIELD_BOOL:
        return *(const bool *)x == *(const bool *)y;
    case FIELD_U32:
    case FIELD_I32:
    case FIELD_ENUM:
    case FIELD_SET:
        return memcmp(x, y, sizeof(uint32_t)) == 0;
    case FIELD_I64:
        return *(const int64_t *)x == *(const int64_t *)y;
    case FIELD_OPT_U32:
    case FIELD_OPT_U64:
    case FIELD_OPT_DOUBLE:
        return optionals_equal(field, x, y);
    case FIELD_RANKS: {
        const struct rs_request_ranks *p = x, *q = y;
        return p->count == q->count &&
               (!p->count || memcmp(p->items, q->items, p->count * sizeof *p->items) == 0);
    }
    case FIELD_TEXTS:
        return texts_equal(x, y);
    case FIELD_PAIRS:
    case FIELD_JSONS:
        return pairs_equal(x, y);
    }
    return false;
}

bool rs_request_equal(const struct rs_capture_request *a, const struct rs_capture_request *b)
{
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (!field_equal(&request_fields[i], a, b))
            return false;
    return true;
}
