/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules that need no rank. One function per corner of the request; each looks at everything in its corner, so that
 * a refusal is complete.
 */
#include "common/request/roles.h"
#include "common/request/validate_priv.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void check_id(const struct rs_capture_request *r, struct rs_request_notes *notes)
{
    for (const char *p = r->capture_id; *p; p++)
        if (!is_word_char(*p) && (*p != '.' || p == r->capture_id) && *p != '-') {
            note_add(notes, RS_RULE_CAPTURE_ID, FIELD_COUNT, "\"%.40s\"", r->capture_id);
            return;
        }
}

static void check_start(const struct rs_capture_request *r, struct rs_request_notes *notes)
{
    const bool has_time = r->start_time_ns != 0;
    if (r->start_step < -1)
        note_add(notes, RS_RULE_START_BELOW, FIELD_COUNT, "found %" PRId64, r->start_step);
    if (r->start_step == 0 && !has_time && r->dialect != RS_DIALECT_TORCH &&
        r->origin != RS_ORIGIN_API && r->origin != RS_ORIGIN_DP_START)
        note_add(notes, RS_RULE_START_NEVER, FIELD_COUNT, NO_DETAIL);
    if (r->start_step > 0 && has_time)
        note_add(notes, RS_RULE_START_AND_TIME, FIELD_COUNT, "start_step is %" PRId64,
                 r->start_step);
    if (r->max_step.is_set && r->start_step > 0 && (uint64_t)r->start_step > r->max_step.value)
        note_add(notes, RS_RULE_START_AFTER_MAX, FIELD_COUNT,
                 "start_step %" PRId64 ", max_step %" PRIu64, r->start_step, r->max_step.value);
}

uint64_t schedule_steps(const struct rs_request_schedule *schedule)
{
    const uint64_t round =
        (uint64_t)schedule->wait + schedule->warmup.value + schedule->active; /* < 2^34 */
    return schedule->skip_first + round * (schedule->repeat ? schedule->repeat : 1);
}

static void check_schedule(const struct rs_capture_request *r, struct rs_request_notes *notes)
{
    const struct rs_request_schedule *s = &r->schedule;
    const uint64_t start = r->start_step > 0 ? (uint64_t)r->start_step : 0;
    if (r->dialect == RS_DIALECT_TORCH && r->origin == RS_ORIGIN_API && !s->warmup.is_set)
        note_add(notes, RS_RULE_WARMUP_NOT_SAID, FIELD_COUNT, NO_DETAIL);
    if (!s->warmup.value && r->dialect != RS_DIALECT_MINDSPORE && !r->duration_ms &&
        (r->start_step != 0 || r->origin == RS_ORIGIN_API))
        note_add(notes, RS_RULE_WARMUP_ZERO, FIELD_COUNT, NO_DETAIL);
    if (s->repeat != 1 && r->origin != RS_ORIGIN_API)
        note_add(notes, RS_RULE_REPEAT_ADVICE, FIELD_COUNT, "found %" PRIu32, s->repeat);
    if (r->max_step.is_set && start <= r->max_step.value &&
        schedule_steps(s) > r->max_step.value - start)
        note_add(notes, RS_RULE_SCHEDULE_SHORT, FIELD_COUNT,
                 "%" PRIu64 " steps from step %" PRIu64 " on, the training has %" PRIu64,
                 schedule_steps(s), start, r->max_step.value);
}

static void check_activities(const struct rs_capture_request *r, struct rs_request_notes *notes)
{
    const uint32_t set = r->activities;
    const bool has_cpu = !set || set & RS_ACTIVITY_CPU;
    if (r->record_shapes && !has_cpu)
        note_add(notes, RS_RULE_SHAPES_NEED_CPU, FIELD_COUNT, NO_DETAIL);
    if (r->with_stack && !has_cpu)
        note_add(notes, RS_RULE_STACK_NEEDS_CPU, FIELD_COUNT, NO_DETAIL);
    if (r->with_modules && !has_cpu)
        note_add(notes, RS_RULE_MODULES_NEED_CPU, FIELD_COUNT, NO_DETAIL);
    if (r->with_flops && !has_cpu)
        note_add(notes, RS_RULE_FLOPS_NEED_CPU, FIELD_COUNT, NO_DETAIL);
    if (r->with_flops && r->dialect == RS_DIALECT_ASCEND)
        note_add(notes, RS_RULE_FLOPS_NOT_PARSED, FIELD_COUNT, NO_DETAIL);
    if (r->with_stack)
        note_add(notes, RS_RULE_STACK_INFLATES, FIELD_COUNT, NO_DETAIL);
    if (r->with_modules)
        note_add(notes, RS_RULE_MODULES_INFLATE, FIELD_COUNT, NO_DETAIL);
    if (r->profile_memory && set && !(set & (RS_ACTIVITY_CPU | RS_ACTIVITY_NPU | RS_ACTIVITY_CUDA)))
        note_add(notes, RS_RULE_MEMORY_NO_LAYER, FIELD_COUNT, NO_DETAIL);
}

static bool has_company(const struct rs_capture_request *r)
{
    const struct rs_request_experimental *e = &r->experimental;
    return r->record_shapes || r->with_stack || r->with_modules || r->with_flops ||
           r->profile_memory || e->l2_cache || e->op_attr || e->sys_io || e->sys_interconnection ||
           e->mstx || e->host_sys || e->gc_detect_threshold_ms.is_set;
}

static void check_device(const struct rs_capture_request *r, struct rs_request_notes *notes)
{
    const struct rs_request_experimental *e = &r->experimental;
    const bool is_low = e->profiler_level == RS_LEVEL_NONE || e->profiler_level == RS_LEVEL_0;
    if (e->profiler_level == RS_LEVEL_NONE && !e->mstx)
        note_add(notes, RS_RULE_LEVEL_NONE_NO_MSTX, FIELD_COUNT, NO_DETAIL);
    if (is_low && e->aic_metrics != RS_AIC_BY_LEVEL && e->aic_metrics != RS_AIC_NONE)
        note_add(notes, RS_RULE_AIC_RESET, FIELD_COUNT, "%s",
                 field_name_of(request_fields[F_AIC].names, e->aic_metrics));
    if (e->op_attr && !(e->export_type & RS_EXPORT_DB))
        note_add(notes, RS_RULE_OP_ATTR_NEEDS_DB, FIELD_COUNT, NO_DETAIL);
    if (e->op_attr && e->profiler_level == RS_LEVEL_NONE)
        note_add(notes, RS_RULE_OP_ATTR_NEEDS_LEVEL, FIELD_COUNT, NO_DETAIL);
    if (e->record_op_args && has_company(r))
        note_add(notes, RS_RULE_OP_ARGS_ALONE, FIELD_COUNT, NO_DETAIL);
    if (e->extra.count && r->dialect != RS_DIALECT_TORCH)
        note_add(notes, RS_RULE_EXTRA_DIALECT, FIELD_COUNT, NO_DETAIL);
}

static void check_markers(const struct rs_capture_request *r, struct rs_request_notes *notes)
{
    const struct rs_request_experimental *e = &r->experimental;
    const bool has_mstx = e->mstx || e->profiler_level == RS_LEVEL_NONE; /* which turns it on */
    const struct rs_optional_double *gc = &e->gc_detect_threshold_ms;
    if (gc->is_set && !(isfinite(gc->value) && gc->value >= 0))
        note_add(notes, RS_RULE_GC_NEGATIVE, FIELD_COUNT, "found %g", gc->value);
    if (gc->is_set && gc->value == 0.0)
        note_add(notes, RS_RULE_GC_ZERO, FIELD_COUNT, NO_DETAIL);
    if (e->mstx_domain_include.count && !has_mstx)
        note_add(notes, RS_RULE_INCLUDE_NEEDS_MSTX, FIELD_COUNT, NO_DETAIL);
    if (e->mstx_domain_exclude.count && !has_mstx)
        note_add(notes, RS_RULE_EXCLUDE_NEEDS_MSTX, FIELD_COUNT, NO_DETAIL);
    if (e->mstx_domain_include.count && e->mstx_domain_exclude.count)
        note_add(notes, RS_RULE_DOMAINS_BOTH, FIELD_COUNT, NO_DETAIL);
    if (e->host_sys & RS_HOST_SYS_OSRT)
        note_add(notes, RS_RULE_OSRT_HEAVY, FIELD_COUNT, NO_DETAIL);
}

static void check_mindspore(const struct rs_capture_request *r, struct rs_request_notes *notes)
{
    if (r->dialect != RS_DIALECT_MINDSPORE || r->mindspore.op_time)
        return;
    if (r->profile_memory)
        note_add(notes, RS_RULE_MEMORY_OP_TIME, FIELD_COUNT, NO_DETAIL);
    if (r->mindspore.profile_communication)
        note_add(notes, RS_RULE_COMM_OP_TIME, FIELD_COUNT, NO_DETAIL);
    if (r->mindspore.aicore_metrics != 0)
        note_add(notes, RS_RULE_AICORE_OP_TIME, FIELD_COUNT, "found %" PRId32,
                 r->mindspore.aicore_metrics);
    if (r->timeline_limit_mb != 500)
        note_add(notes, RS_RULE_TIMELINE_OP_TIME, FIELD_COUNT, "found %" PRIu32,
                 r->timeline_limit_mb);
}

/* K-06. *bad_p: the component that is wrong. */
static bool is_good_path(const char *path, bool is_relaxed, const char **bad_p, size_t *length_p)
{
    for (const char *at = path; *at;) {
        const size_t length = strcspn(at, "/");
        bool is_good = !(length == 2 && memcmp(at, "..", 2) == 0);
        for (size_t i = 0; i < length && is_good; i++)
            is_good = is_word_char(at[i]) || at[i] == '.' ||
                      (is_relaxed && (at[i] == '-' || at[i] == ' '));
        if (!is_good) {
            *bad_p = at;
            *length_p = length;
            return false;
        }
        at += length + (at[length] == '/');
    }
    return true;
}

static void check_path(const char *path, enum rs_request_rule rule, bool is_relaxed,
                       struct rs_request_notes *notes)
{
    const char *bad = NULL;
    size_t length = 0;
    if (!is_good_path(path, is_relaxed, &bad, &length))
        note_add(notes, rule, FIELD_COUNT, "\"%.*s\"", length < 100 ? (int)length : 100, bad);
}

static void check_worker_name(const char *name, struct rs_request_notes *notes)
{
    static const char *const fillers[] = {"{hostname}", "{pid}", "{rank}"};
    for (const char *p = name; *p;) {
        size_t step = is_word_char(*p) || *p == '.' || *p == '-';
        for (size_t i = 0; i < 3 && !step; i++)
            if (strncmp(p, fillers[i], strlen(fillers[i])) == 0)
                step = strlen(fillers[i]);
        if (!step) {
            note_add(notes, RS_RULE_WORKER_NAME_CHARS, FIELD_COUNT, "at \"%.40s\"", p);
            return;
        }
        p += step;
    }
}

static void check_places(const struct rs_capture_request *r, bool is_relaxed,
                         struct rs_request_notes *notes)
{
    if (!*r->prof_dir)
        note_add(notes, RS_RULE_PROF_DIR_PATH, FIELD_COUNT, "it is empty");
    check_path(r->prof_dir, RS_RULE_PROF_DIR_PATH, is_relaxed, notes);
    check_path(r->spool_dir, RS_RULE_SPOOL_DIR_PATH, is_relaxed, notes);
    check_worker_name(r->worker_name, notes);
    if (r->max_duration_s > 300 && !r->force)
        note_add(notes, RS_RULE_DURATION_FORCE, FIELD_COUNT, "found %" PRIu32, r->max_duration_s);
    if (r->duration_ms > (uint64_t)r->max_duration_s * 1000)
        note_add(notes, RS_RULE_DURATION_ABOVE, FIELD_COUNT,
                 "%" PRIu32 " ms, at most %" PRIu32 " s", r->duration_ms, r->max_duration_s);
}

static void check_roles(const char *value, struct rs_request_notes *notes)
{
    struct rs_roles roles = {0};
    struct rs_err err;
    if (rs_roles_from_json(value, strlen(value), 0, &roles, &err) < 0)
        note_add(notes, RS_RULE_ROLES_SHAPE, FIELD_COUNT, "%.200s", err.text);
    rs_roles_fini(&roles);
}

static void check_metadata(const struct rs_capture_request *r, struct rs_request_notes *notes)
{
    size_t total = 0;
    for (size_t i = 0; i < r->metadata.count; i++) {
        const struct rs_request_pair *pair = &r->metadata.items[i];
        const size_t length = strlen(pair->value);
        total += strlen(pair->key) + length;
        if (length > RS_REQUEST_VALUE_MAX_BYTES)
            note_add(notes, RS_RULE_METADATA_LONG, FIELD_COUNT, "\"%.40s\" has %zu", pair->key,
                     length);
        if (strcmp(pair->key, "distributed_args") == 0)
            check_roles(pair->value, notes);
    }
    if (total > RS_REQUEST_METADATA_MAX_BYTES)
        note_add(notes, RS_RULE_METADATA_LONG, FIELD_COUNT, "all together %zu", total);
    for (size_t i = 0; i < r->env_allow.count; i++) {
        const char *name = r->env_allow.items[i];
        bool is_good = *name && !(*name >= '0' && *name <= '9');
        for (const char *p = name; *p && is_good; p++)
            is_good = is_word_char(*p);
        if (!is_good)
            note_add(notes, RS_RULE_ENV_NAME, FIELD_COUNT, "\"%.40s\"", name);
    }
}

static void check_ranks(const struct rs_capture_request *r, struct rs_request_notes *notes)
{
    struct rs_rank_expr *expr = NULL;
    struct rs_err err;
    const enum rs_status status = rs_rank_expr_parse(r->ranks, strlen(r->ranks), &expr, &err);
    if (status == RS_NOMEM)
        notes->failed = true;
    else if (status < 0)
        note_add(notes, RS_RULE_RANKS_EXPRESSION, FIELD_COUNT, "%.240s", err.text);
    rs_rank_expr_free(&expr);
    if (r->rank_list.count && !r->is_rank)
        note_add(notes, RS_RULE_RANK_LIST_IGNORED, FIELD_COUNT, NO_DETAIL);
    if (!r->rank_list.count && r->is_rank)
        note_add(notes, RS_RULE_RANK_LIST_EMPTY, FIELD_COUNT, NO_DETAIL);
    if (r->analyse && !rs_request_analyses(r))
        note_add(notes, RS_RULE_ANALYSE_IS_RANK, FIELD_COUNT, NO_DETAIL);
}

/* A program may have filled the struct itself: what documents are held to holds for it, too. */
static void check_ranges(const struct rs_capture_request *r, struct rs_request_notes *notes)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct field *field = &request_fields[i];
        const void *value = field_of(r, field);
        int64_t number = 0;
        if (field->kind == FIELD_U32)
            number = *(const uint32_t *)value;
        else if (field->kind == FIELD_I32)
            number = *(const int32_t *)value;
        else if (field->kind == FIELD_I64)
            number = *(const int64_t *)value;
        else if (field->kind == FIELD_OPT_U32 && ((const struct rs_optional_u32 *)value)->is_set)
            number = ((const struct rs_optional_u32 *)value)->value;
        else
            continue;
        if (i != F_START_STEP && (number < field->min || number > field->max))
            note_add(notes, RS_RULE_OUT_OF_RANGE, i,
                     "expected %" PRId64 " to %" PRId64 ", found %" PRId64, field->min, field->max,
                     number);
    }
}

enum rs_status rs_request_check(const struct rs_capture_request *request,
                                const struct rs_request_policy *policy,
                                struct rs_request_notes *notes)
{
    const size_t refusals = notes->refusal_count;
    check_ranges(request, notes);
    check_id(request, notes);
    check_start(request, notes);
    check_schedule(request, notes);
    check_activities(request, notes);
    check_device(request, notes);
    check_markers(request, notes);
    check_mindspore(request, notes);
    check_places(request, policy && policy->is_path_relaxed, notes);
    check_metadata(request, notes);
    check_ranks(request, notes);
    if (notes->failed)
        return RS_NOMEM;
    return notes->refusal_count > refusals ? RS_INVALID : RS_OK;
}
