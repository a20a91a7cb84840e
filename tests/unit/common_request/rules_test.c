/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every rule, both ways: something that violates it, and the same without that. No rule is without a line here.
 */
#include "common/base/mem.h"
#include "common/request/request.h"
#include "tests/support/rs_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void change_rank_fn(struct rs_request_rank *rank);
typedef void change_request_fn(struct rs_capture_request *request);
typedef void change_policy_fn(struct rs_request_policy *policy);

/* One violation. `settings` are "member=value" with ";" between; `calm` those under which all is well. */
struct violation {
    enum rs_request_rule rule;
    enum rs_dialect dialect;
    enum rs_origin origin;
    const char *settings, *calm;
    change_request_fn *request; /* what no setting can say */
    change_rank_fn *rank;
    change_policy_fn *policy;
    enum rs_profiler profiler;
};

static void apply(struct rs_capture_request *request, const char *settings)
{
    struct rs_request_notes notes = {0};
    while (settings && *settings) {
        char member[64], value[2048];
        const size_t length = strcspn(settings, ";");
        const size_t name = strcspn(settings, "=");
        assert_true(name < length && name < sizeof member && length - name - 1 < sizeof value);
        memcpy(member, settings, name);
        member[name] = '\0';
        memcpy(value, settings + name + 1, length - name - 1);
        value[length - name - 1] = '\0';
        if (rs_request_set(request, member, value, &notes) != RS_OK)
            fail_msg("%s=%s: %s", member, value, notes.count ? notes.items[0].text : "");
        settings += length + (settings[length] == ';');
    }
    rs_request_notes_fini(&notes);
}

/* A rank that can do everything and whose step is known: 50. */
static struct rs_request_rank make_rank(uint32_t number, enum rs_profiler profiler)
{
    static struct rs_adapter adapters[RS_PROFILER_IN_PROCESS + 1];
    assert_true(rs_adapter_known(profiler, &adapters[profiler]));
    return (struct rs_request_rank){
        .row = {.rank = number, .node = "n0", .role = {-1, -1, -1, -1, -1}},
        .adapter = &adapters[profiler],
        .is_step_known = true,
        .step = 50,
        .world = 4,
    };
}

static bool has_rule(const struct rs_request_notes *notes, enum rs_request_rule rule)
{
    for (size_t i = 0; i < notes->count; i++)
        if (notes->items[i].rule == rule)
            return true;
    return false;
}

/* True: the rule stands in the answer, for the request or for a rank. */
static bool is_reported(const struct violation *v, bool is_violated)
{
    struct rs_capture_request request;
    struct rs_request_rank ranks[4];
    struct rs_request_answer answer = {0};
    struct rs_request_policy policy = {0};
    struct rs_err err = {0};
    assert_ok(rs_request_init(&request, v->dialect, v->origin));
    for (uint32_t i = 0; i < 4; i++)
        ranks[i] = make_rank(i, v->profiler);
    apply(&request, is_violated ? v->settings : v->calm);
    if (is_violated && v->request)
        v->request(&request);
    if (is_violated && v->rank)
        v->rank(&ranks[2]);
    if (is_violated && v->policy)
        v->policy(&policy);
    const enum rs_status status = rs_request_validate(&request, ranks, 4, &policy, &answer, &err);
    assert_true(status == RS_OK || status == RS_PARTIAL || status == RS_REFUSED);
    bool reported = has_rule(&answer.notes, v->rule);
    for (size_t i = 0; i < answer.count; i++)
        reported = reported || has_rule(&answer.ranks[i].notes, v->rule);
    if (reported && rs_request_rule(v->rule)->severity == RS_SEVERITY_REFUSED)
        assert_true(answer.decision_count[RS_DECISION_REFUSED] > 0);
    rs_request_answer_fini(&answer);
    rs_request_fini(&request);
    return reported;
}

/* ---- changes that no setting can say ------------------------------------------------------------------------------ */

static void active_beyond(struct rs_capture_request *r)
{
    r->schedule.active = UINT32_MAX;
}
static void gc_nan(struct rs_capture_request *r)
{
    r->experimental.gc_detect_threshold_ms = (struct rs_optional_double){true, (double)NAN};
}
static void long_metadata(struct rs_capture_request *r)
{
    static char text[RS_REQUEST_VALUE_MAX_BYTES + 8];
    memset(text, '1', RS_REQUEST_VALUE_MAX_BYTES + 1);
    r->metadata.items = rs_mem_calloc(1, sizeof *r->metadata.items);
    r->metadata.capacity = r->metadata.count = 1;
    r->metadata.items[0].key = rs_mem_strdup("k");
    r->metadata.items[0].value = rs_mem_strdup(text);
}

static void busy(struct rs_request_rank *r)
{
    r->is_busy = true;
}
static void busy_twice(struct rs_request_rank *r)
{
    r->is_busy = r->has_pending = true;
}
static void busy_with_another_file(struct rs_request_rank *r)
{
    r->is_busy = r->has_pending = r->is_pending_other = true;
}
static void at_step_100(struct rs_request_rank *r)
{
    r->step = 100;
}
static void stepless(struct rs_request_rank *r)
{
    r->is_step_known = false;
}
static void cpu_only(struct rs_request_rank *r)
{
    r->activities = RS_ACTIVITY_CPU;
}
static void old_glibc(struct rs_request_rank *r)
{
    r->glibc_major = 2;
    r->glibc_minor = 33;
}
static void tight_disk(struct rs_request_rank *r)
{
    r->estimated_bytes = 1000;
    r->free_disk_bytes = 19999;
}
static void tight_memory(struct rs_request_rank *r)
{
    r->estimated_bytes = 1000;
    r->free_memory_bytes = 19999;
}
static void no_disk(struct rs_request_rank *r)
{
    r->estimated_bytes = 1000;
    r->free_disk_bytes = 1999;
}
static void reported_before(struct rs_request_rank *r)
{
    r->last_start = 100;
    r->last_stop = 102;
}

#define A     RS_DIALECT_ASCEND
#define M     RS_DIALECT_MINDSPORE
#define T     RS_DIALECT_TORCH
#define FILE_ RS_ORIGIN_CONFIG_FILE
#define CLI   RS_ORIGIN_CLI
#define API   RS_ORIGIN_API

/* clang-format off */
#define CASE(id, way, from, bad, good, ...) {.rule = RS_RULE_##id, .dialect = way, .origin = from, .settings = bad, .calm = good, __VA_ARGS__}
static const struct violation violations[] = {
    CASE(OUT_OF_RANGE, A, CLI, "", "", .request = active_beyond),
    CASE(CAPTURE_ID, A, CLI, "capture_id=a b", "capture_id=a.b-c_9", .request = NULL),
    CASE(CAPTURE_ID, A, CLI, "capture_id=..", "capture_id=a..", .request = NULL),
    CASE(CAPTURE_ID, A, CLI, "capture_id=../x", "capture_id=x", .request = NULL),
    CASE(START_NEVER, A, FILE_, "start_step=0", "start_step=-1", .request = NULL),
    CASE(START_BELOW, A, CLI, "start_step=-2", "start_step=-1", .request = NULL),
    CASE(START_AND_TIME, A, CLI, "start_step=100;start_time_ns=5", "start_step=0;start_time_ns=5", .profiler = RS_PROFILER_KINETO),
    CASE(START_AFTER_MAX, A, CLI, "start_step=101;max_step=100", "start_step=100;max_step=100", .request = NULL),
    CASE(WARMUP_ZERO, A, CLI, "", "schedule.warmup=1", .request = NULL),
    CASE(WARMUP_NOT_SAID, T, API, "", "schedule.warmup=0", .request = NULL),
    CASE(REPEAT_ADVICE, A, CLI, "schedule.repeat=2", "schedule.repeat=1", .request = NULL),
    CASE(SCHEDULE_SHORT, A, CLI, "schedule.active=10;max_step=9", "schedule.active=10;max_step=10", .request = NULL),
    CASE(SCHEDULE_SHORT, A, API, "schedule.wait=1;schedule.active=9;schedule.repeat=10;schedule.skip_first=10;max_step=109", "schedule.wait=1;schedule.active=9;schedule.repeat=10;schedule.skip_first=10;max_step=110", .request = NULL),
    CASE(SHAPES_NEED_CPU, A, CLI, "activities=NPU;record_shapes=true", "record_shapes=true", .request = NULL),
    CASE(STACK_NEEDS_CPU, A, CLI, "activities=NPU;with_stack=true", "activities=CPU;with_stack=true", .request = NULL),
    CASE(MODULES_NEED_CPU, A, CLI, "activities=NPU;with_modules=true", "with_modules=true", .request = NULL),
    CASE(FLOPS_NEED_CPU, A, CLI, "activities=NPU;with_flops=true", "with_flops=true", .request = NULL),
    CASE(FLOPS_NOT_PARSED, A, CLI, "with_flops=true", "", .profiler = RS_PROFILER_ASCEND),
    CASE(STACK_INFLATES, A, CLI, "with_stack=true", "", .request = NULL),
    CASE(MODULES_INFLATE, A, CLI, "with_modules=true", "", .request = NULL),
    CASE(MEMORY_NO_LAYER, A, CLI, "activities=XPU;profile_memory=true", "activities=NPU;profile_memory=true", .request = NULL),
    CASE(LEVEL_NONE_NO_MSTX, A, CLI, "experimental.profiler_level=Level_none", "experimental.profiler_level=Level_none;experimental.mstx=true", .profiler = RS_PROFILER_ASCEND),
    CASE(AIC_RESET, A, CLI, "experimental.aic_metrics=Memory", "experimental.aic_metrics=Memory;experimental.profiler_level=Level1", .profiler = RS_PROFILER_ASCEND),
    CASE(OP_ATTR_NEEDS_DB, A, CLI, "experimental.op_attr=true", "experimental.op_attr=true;experimental.export_type=db", .profiler = RS_PROFILER_ASCEND),
    CASE(OP_ATTR_NEEDS_LEVEL, A, CLI, "experimental.op_attr=true;experimental.profiler_level=Level_none", "experimental.op_attr=true", .profiler = RS_PROFILER_ASCEND),
    CASE(OP_ARGS_ALONE, A, CLI, "experimental.record_op_args=true;record_shapes=true", "experimental.record_op_args=true", .profiler = RS_PROFILER_ASCEND),
    CASE(GC_NEGATIVE, A, CLI, "experimental.gc_detect_threshold_ms=-0.5", "experimental.gc_detect_threshold_ms=0.5", .request = NULL),
    CASE(GC_NEGATIVE, A, CLI, "", "", .request = gc_nan),
    CASE(GC_ZERO, A, CLI, "experimental.gc_detect_threshold_ms=0", "experimental.gc_detect_threshold_ms=1", .profiler = RS_PROFILER_ASCEND),
    CASE(INCLUDE_NEEDS_MSTX, A, CLI, "experimental.mstx_domain_include=a", "experimental.mstx_domain_include=a;experimental.mstx=true", .profiler = RS_PROFILER_ASCEND),
    CASE(EXCLUDE_NEEDS_MSTX, A, CLI, "experimental.mstx_domain_exclude=a", "experimental.mstx_domain_exclude=a;experimental.mstx=true", .profiler = RS_PROFILER_ASCEND),
    CASE(DOMAINS_BOTH, A, CLI, "experimental.mstx=true;experimental.mstx_domain_include=a;experimental.mstx_domain_exclude=b", "experimental.mstx=true;experimental.mstx_domain_include=a", .profiler = RS_PROFILER_ASCEND),
    CASE(OSRT_HEAVY, A, CLI, "experimental.host_sys=osrt", "experimental.host_sys=cpu", .profiler = RS_PROFILER_ASCEND),
    CASE(EXTRA_DIALECT, A, CLI, "experimental.extra.a=b", "", .request = NULL),
    CASE(MEMORY_OP_TIME, M, API, "mindspore.op_time=false;profile_memory=true", "mindspore.op_time=false", .request = NULL),
    CASE(COMM_OP_TIME, M, API, "mindspore.op_time=false;mindspore.profile_communication=true", "mindspore.profile_communication=true", .request = NULL),
    CASE(AICORE_OP_TIME, M, API, "mindspore.op_time=false;mindspore.aicore_metrics=1", "mindspore.aicore_metrics=1", .request = NULL),
    CASE(TIMELINE_OP_TIME, M, API, "mindspore.op_time=false;timeline_limit_mb=1", "mindspore.op_time=false", .request = NULL),
    CASE(PROF_DIR_PATH, A, CLI, "prof_dir=/a/../b", "prof_dir=/a.b/c_1/./d", .request = NULL),
    CASE(PROF_DIR_PATH, A, CLI, "prof_dir=", "prof_dir=./", .request = NULL),
    CASE(PROF_DIR_PATH, A, CLI, "prof_dir=/a-b", "prof_dir=/a_b", .request = NULL),
    CASE(SPOOL_DIR_PATH, A, CLI, "spool_dir=/a b", "spool_dir=/a", .request = NULL),
    CASE(WORKER_NAME_CHARS, A, CLI, "worker_name={rank}/x", "worker_name={hostname}-{pid}_{rank}.x", .request = NULL),
    CASE(WORKER_NAME_SHARED, A, CLI, "worker_name=x", "worker_name=x;ranks=1", .request = NULL),
    CASE(DURATION_FORCE, A, CLI, "max_duration_s=301", "max_duration_s=301;force=true", .request = NULL),
    CASE(DURATION_ABOVE, A, CLI, "max_duration_s=2;duration_ms=2001", "max_duration_s=2;duration_ms=2000", .profiler = RS_PROFILER_KINETO),
    CASE(METADATA_LONG, A, CLI, "", "metadata.k=1", .request = long_metadata),
    CASE(ROLES_SHAPE, A, CLI, "metadata.distributed_args={\"tp\":2}", "metadata.distributed_args={\"tp\":2,\"dp\":2}", .request = NULL),
    CASE(ENV_NAME, A, CLI, "env_allow=HCCL_*", "env_allow=HCCL_ALGO", .request = NULL),
    CASE(RANKS_EXPRESSION, A, CLI, "ranks=0,", "ranks=0", .request = NULL),
    CASE(RANK_LIST_IGNORED, A, CLI, "rank_list=1", "rank_list=1;is_rank=true", .request = NULL),
    CASE(RANK_LIST_EMPTY, A, CLI, "is_rank=true", "is_rank=true;rank_list=1", .request = NULL),
    CASE(NO_RANKS, A, CLI, "ranks=!all", "ranks=1", .request = NULL),
    CASE(UNKNOWN_RANKS, A, CLI, "ranks=1,99", "ranks=1,3", .request = NULL),
    CASE(UNKNOWN_RANKS, A, CLI, "is_rank=true;rank_list=1,99", "is_rank=true;rank_list=1", .request = NULL),
    CASE(UNKNOWN_NAMES, A, CLI, "ranks=node=nope", "ranks=node=n0", .request = NULL),
    CASE(ANALYSE_IS_RANK, A, FILE_, "start_step=-1;is_rank=true;rank_list=1;analyse=true", "start_step=-1;is_rank=true;rank_list=1;analyse=true;async_mode=true", .profiler = RS_PROFILER_ASCEND),
    CASE(PARSES_BESIDE, A, FILE_, "start_step=-1;analyse=true", "start_step=-1;analyse=true;async_mode=true", .profiler = RS_PROFILER_ASCEND),
    CASE(NOT_HONOURED, A, CLI, "experimental.l2_cache=true", "experimental.l2_cache=false", .profiler = RS_PROFILER_KINETO),
    CASE(BUSY, A, CLI, "on_busy=refuse", "on_busy=refuse", .rank = busy),
    CASE(QUEUED, A, CLI, "", "", .rank = busy),
    CASE(QUEUE_FULL, A, CLI, "", "", .rank = busy_twice),
    CASE(REPLACES, A, FILE_, "start_step=-1", "start_step=-1", .rank = busy_twice),
    CASE(QUEUE_FULL, A, FILE_, "start_step=-1", "start_step=-1", .rank = busy_with_another_file),
    CASE(START_PASSED, A, CLI, "start_step=100", "start_step=100", .rank = at_step_100),
    CASE(ENDS_EARLY, A, CLI, "start_step=-1;schedule.active=3;max_step=52", "start_step=-1;schedule.active=3;max_step=53", .request = NULL),
    CASE(STEP_UNKNOWN, A, CLI, "start_step=100", "start_step=100", .rank = stepless),
    CASE(NO_DURATION, A, CLI, "duration_ms=500", "", .profiler = RS_PROFILER_ASCEND),
    CASE(NO_START_TIME, A, CLI, "start_step=0;start_time_ns=5", "", .profiler = RS_PROFILER_MINDSPORE),
    CASE(ACTIVITY_MISSING, A, CLI, "activities=CPU,NPU", "activities=CPU,NPU", .rank = cpu_only),
    CASE(NO_ACTIVITY, A, CLI, "activities=NPU", "activities=NPU", .rank = cpu_only),
    CASE(GLIBC, A, CLI, "profile_memory=true", "profile_memory=true", .rank = old_glibc),
    CASE(HEADROOM_DISK, A, CLI, "", "", .rank = tight_disk),
    CASE(HEADROOM_MEMORY, A, CLI, "", "", .rank = tight_memory),
    CASE(HEADROOM_NONE, A, CLI, "", "", .rank = no_disk),
    CASE(MS_SUBSET, M, CLI, "ranks=0-2;start_step=100", "ranks=0-3;start_step=100", .profiler = RS_PROFILER_MINDSPORE),
    CASE(MS_SAME_PAIR, M, CLI, "start_step=100;schedule.active=3", "start_step=100;schedule.active=3", .rank = reported_before, .profiler = RS_PROFILER_MINDSPORE),
    CASE(MS_NO_STEP, M, CLI, "start_step=-1", "start_step=100", .profiler = RS_PROFILER_MINDSPORE),
};

/* Rules that only documents can violate: the text, and where it is reported. */
static const struct {
    enum rs_request_rule rule;
    enum rs_config_framework framework;
    const char *text;
    unsigned line, column;
    const char *field;
} documents[] = {
    {RS_RULE_SYNTAX, RS_CONFIG_TORCH_NPU, "{\n  \"active\": 1,\n}", 3, 1, ""},
    {RS_RULE_SYNTAX, RS_CONFIG_TORCH_NPU, "{\"active\": tru}", 1, 14, ""},
    {RS_RULE_SYNTAX, RS_CONFIG_TORCH_NPU, "{\"active\": 1,\n \"active\": 2}", 2, 9, ""},
    {RS_RULE_SYNTAX, RS_CONFIG_TORCH_NPU, "[1]", 1, 1, ""},
    {RS_RULE_SYNTAX, RS_CONFIG_TORCH_NPU, "{\"active\": 1", 1, 12, ""},
    {RS_RULE_EMPTY, RS_CONFIG_TORCH_NPU, "", 1, 1, ""},
    {RS_RULE_EMPTY, RS_CONFIG_TORCH_NPU, " \n\n", 1, 1, ""},
    {RS_RULE_UNKNOWN_KEY, RS_CONFIG_TORCH_NPU, "{\"active\": 1,\n   \"warmups\": 1}", 2, 4, "warmups"},
    {RS_RULE_UNKNOWN_KEY, RS_CONFIG_TORCH_NPU, "{\"stop_step\": 1}", 1, 2, "stop_step"},
    {RS_RULE_UNKNOWN_KEY, RS_CONFIG_TORCH_NPU, "{\"l2_cache\": true}", 1, 2, "l2_cache"},
    {RS_RULE_UNKNOWN_KEY, RS_CONFIG_TORCH_NPU, "{\"experimental_config\": {\"active\": 1}}", 1, 26, "active"},
    {RS_RULE_UNKNOWN_KEY, RS_CONFIG_MINDSPORE, "{\"rank_list\": []}", 1, 2, "rank_list"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_TORCH_NPU, "{\"active\": \"1\"}", 1, 12, "active"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_TORCH_NPU, "{\"active\": 1.0}", 1, 12, "active"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_TORCH_NPU, "{\"start_step\": true}", 1, 16, "start_step"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_TORCH_NPU, "{\"is_rank\": \"true\"}", 1, 13, "is_rank"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_TORCH_NPU, "{\"rank_list\": 3}", 1, 15, "rank_list"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_TORCH_NPU, "{\"rank_list\": [0,\n  1, \"2\"]}", 2, 6, "rank_list"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_TORCH_NPU, "{\"rank_list\": [true]}", 1, 16, "rank_list"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_TORCH_NPU, "{\"activities\": [1]}", 1, 17, "activities"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_TORCH_NPU, "{\"experimental_config\": [1]}", 1, 25, "experimental_config"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_TORCH_NPU, "{\"prof_dir\": null}", 1, 14, "prof_dir"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_TORCH_NPU, "{\"experimental_config\": {\"gc_detect_threshold\": \"1\"}}", 1, 49, "experimental_config.gc_detect_threshold"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_TORCH_NPU, "{\"metadata\": []}", 1, 14, "metadata"},
    {RS_RULE_WRONG_TYPE, RS_CONFIG_MINDSPORE, "{\"start_step\": \"1\", \"stop_step\": 2}", 1, 16, "start_step"},
    {RS_RULE_OUT_OF_RANGE, RS_CONFIG_TORCH_NPU, "{\"active\": 0}", 1, 12, "active"},
    {RS_RULE_OUT_OF_RANGE, RS_CONFIG_TORCH_NPU, "{\"warmup\": -1}", 1, 12, "warmup"},
    {RS_RULE_OUT_OF_RANGE, RS_CONFIG_TORCH_NPU, "{\"rank_list\": [\"\\\"]\", -1]}", 1, 23, "rank_list"},
    {RS_RULE_OUT_OF_RANGE, RS_CONFIG_MINDSPORE, "{\"analyse_mode\": 2}", 1, 18, "analyse_mode"},
    {RS_RULE_START_BELOW, RS_CONFIG_TORCH_NPU, "{\"start_step\": -2}", 1, 16, "start_step"},
    {RS_RULE_UNKNOWN_NAME, RS_CONFIG_TORCH_NPU, "{\"\\u0061ctive\": 1, \"experimental_config\": {\"profiler_level\": \"level1\"}}", 1, 62, "experimental_config.profiler_level"},
    {RS_RULE_UNKNOWN_NAME, RS_CONFIG_TORCH_NPU, "{\"experimental_config\": {\"aic_metrics\": \"by_level\"}}", 1, 41, "experimental_config.aic_metrics"},
    {RS_RULE_UNKNOWN_NAME, RS_CONFIG_TORCH_NPU, "{\"experimental_config\": {\"host_sys\": [\"cpu\", \"numa\"]}}", 1, 46, "experimental_config.host_sys"},
    {RS_RULE_UNKNOWN_NAME, RS_CONFIG_MINDSPORE, "{\"aic_metrics\": 8}", 1, 17, "aic_metrics"},
    {RS_RULE_BAD_TEXT, RS_CONFIG_TORCH_NPU, "{\"prof_dir\": \"a\\nb\"}", 1, 14, "prof_dir"},
    {RS_RULE_ACTIVITY_UNKNOWN, RS_CONFIG_TORCH_NPU, "{\"activities\": [\"CPU\", \"CUDA\"]}", 1, 24, "activities"},
    {RS_RULE_ACTIVITIES_NONE, RS_CONFIG_TORCH_NPU, "{\"activities\": [\"GPU\"]}", 1, 16, "activities"},
    {RS_RULE_EXPORT_UNKNOWN, RS_CONFIG_TORCH_NPU, "{\"experimental_config\": {\"export_type\": [\"db\", \"xml\"]}}", 1, 48, "experimental_config.export_type"},
    {RS_RULE_MSPROF_TX, RS_CONFIG_TORCH_NPU, "{\"experimental_config\": {\"msprof_tx\": true}}", 1, 39, "msprof_tx"},
    {RS_RULE_NUMBERED_NAME, RS_CONFIG_MINDSPORE, "{\"profiler_level\": 1}", 1, 20, "profiler_level"},
    {RS_RULE_STEP_PAIR, RS_CONFIG_MINDSPORE, "{\"start_step\": 5,\n\"stop_step\": 4}", 1, 16, "start_step"},
    {RS_RULE_STEP_PAIR, RS_CONFIG_MINDSPORE, "{\"stop_step\": 4}", 1, 15, "start_step"},
    {RS_RULE_STEP_PAIR, RS_CONFIG_MINDSPORE, "{\"start_step\": 0, \"stop_step\": 4}", 1, 16, "start_step"},
    {RS_RULE_PROF_DIR_PATH, RS_CONFIG_MINDSPORE, "{\"prof_path\": \"a/../b\"}", 1, 15, "prof_path"},
    {RS_RULE_AIC_RESET, RS_CONFIG_TORCH_NPU, "{\"\xc3\xa9\": 1, \"experimental_config\": {\"aic_metrics\": \"Memory\"}}", 1, 49, "experimental_config.aic_metrics"},
};
/* clang-format on */

static void each_violation_is_reported_and_its_absence_is_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof violations / sizeof violations[0]; i++) {
        const struct violation *v = &violations[i];
        const char *name = rs_request_rule(v->rule)->name;
        if (!is_reported(v, true))
            fail_msg("%s (%zu) is not reported", name, i);
        if (is_reported(v, false))
            fail_msg("%s (%zu) is reported without reason", name, i);
    }
}

static void each_mistake_in_a_document_has_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        enum rs_config_framework framework = documents[i].framework;
        struct rs_capture_request request;
        struct rs_request_notes notes = {0};
        struct rs_err err = {0};
        const struct rs_rule *rule = rs_request_rule(documents[i].rule);
        const enum rs_status status = rs_request_from_config(
            documents[i].text, strlen(documents[i].text), &framework, &request, &notes, &err);
        if (rule->severity == RS_SEVERITY_REFUSED)
            assert_status(status, RS_INVALID);
        const struct rs_request_note *note = NULL;
        for (size_t n = 0; n < notes.count && !note; n++)
            if (notes.items[n].rule == documents[i].rule)
                note = &notes.items[n];
        if (!note)
            fail_msg("%s: no %s", documents[i].text, rule->name);
        if (note->line != documents[i].line || note->column != documents[i].column ||
            strcmp(note->field, documents[i].field) != 0)
            fail_msg("%s: %s of \"%s\" at %u:%u", documents[i].text, rule->name, note->field,
                     note->line, note->column);
        rs_request_notes_fini(&notes);
        rs_request_fini(&request);
    }
}

/* What needs more than a line. */
static void limits_of_documents_hold(void **state)
{
    (void)state;
    enum rs_config_framework framework = RS_CONFIG_DETECT;
    struct rs_capture_request request;
    struct rs_request_notes notes = {0};
    struct rs_buf buf = {0};
    rs_buf_string(&buf, "{\"experimental_config\": {\"mstx\": true, \"mstx_domain_include\": [");
    for (int i = 0; i <= RS_REQUEST_LIST_MAX; i++)
        rs_buf_printf(&buf, "%s\"d%d\"", i ? "," : "", i);
    rs_buf_string(&buf, "]}}");
    assert_status(rs_request_from_config((const char *)buf.data, buf.length, &framework, &request,
                                         &notes, NULL),
                  RS_INVALID);
    assert_true(has_rule(&notes, RS_RULE_TOO_MANY));
    rs_request_notes_fini(&notes);
    while (buf.length <= RS_REQUEST_TEXT_MAX_BYTES)
        rs_buf_string(&buf, "                                                                ");
    assert_status(rs_request_from_config((const char *)buf.data, buf.length, &framework, &request,
                                         &notes, NULL),
                  RS_INVALID);
    assert_true(has_rule(&notes, RS_RULE_TOO_LONG));
    rs_request_notes_fini(&notes);
    static const char other[] = "{\"schema_version\": 2}";
    assert_status(rs_request_from_json(other, strlen(other), &request, &notes, NULL), RS_INVALID);
    assert_true(has_rule(&notes, RS_RULE_OTHER_VERSION));
    rs_request_notes_fini(&notes);
    rs_buf_fini(&buf);
}

static void no_rule_is_without_a_test(void **state)
{
    (void)state;
    bool seen[RS_RULE_COUNT] = {[RS_RULE_TOO_MANY] = true,
                                [RS_RULE_TOO_LONG] = true,
                                [RS_RULE_OTHER_RULE] = true, /* of messages: answer_message_test */
                                [RS_RULE_OTHER_VERSION] = true}; /* limits_of_documents_hold */
    for (size_t i = 0; i < sizeof violations / sizeof violations[0]; i++)
        seen[violations[i].rule] = true;
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++)
        seen[documents[i].rule] = true;
    for (int i = 0; i < RS_RULE_COUNT; i++) {
        const struct rs_rule *rule = rs_request_rule((enum rs_request_rule)i);
        if (!seen[i])
            fail_msg("%s has no test", rule->name);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(rule->name, rs_request_rule((enum rs_request_rule)j)->name);
        assert_true(strlen(rule->sentence) > 10);
        assert_true(strlen(rule->source) > 1);
        char member[RS_REQUEST_MEMBER_BYTES];
        bool is_member = !*rule->field;
        for (size_t m = 0; rs_request_member(m, member); m++)
            is_member = is_member || strcmp(member, rule->field) == 0;
        assert_true(is_member);
    }
}

/* A refusal is complete, and says of each rank what is its own. */
static void a_refusal_lists_every_violated_rule(void **state)
{
    (void)state;
    struct rs_capture_request request;
    struct rs_request_answer answer = {0};
    struct rs_request_rank ranks[3];
    struct rs_err err = {0};
    for (uint32_t i = 0; i < 3; i++)
        ranks[i] = make_rank(i, RS_PROFILER_ASCEND);
    ranks[1].step = 500;
    ranks[1].is_busy = true;
    ranks[1].free_disk_bytes = 10;
    ranks[1].estimated_bytes = 10;
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    apply(&request, "start_step=100;on_busy=refuse;schedule.warmup=1");
    assert_status(rs_request_validate(&request, ranks, 3, NULL, &answer, &err), RS_PARTIAL);
    assert_int_equal(answer.decision_count[RS_DECISION_REFUSED], 1);
    assert_int_equal(answer.decision_count[RS_DECISION_ACCEPTED], 2);
    assert_int_equal(answer.ranks[1].decision, RS_DECISION_REFUSED);
    assert_true(has_rule(&answer.ranks[1].notes, RS_RULE_BUSY));
    assert_true(has_rule(&answer.ranks[1].notes, RS_RULE_START_PASSED));
    assert_true(has_rule(&answer.ranks[1].notes, RS_RULE_HEADROOM_NONE));
    assert_int_equal(answer.ranks[1].notes.refusal_count, 3);
    assert_string_equal(answer.ranks[1].notes.items[1].text, "start_step=100, current_step=500");
    assert_int_equal(answer.ranks[0].notes.count, 0);
    apply(&request, "max_duration_s=400;prof_dir=..;capture_id=!");
    assert_status(rs_request_validate(&request, ranks, 3, NULL, &answer, &err), RS_REFUSED);
    assert_int_equal(answer.notes.refusal_count, 3);
    assert_int_equal(answer.decision_count[RS_DECISION_REFUSED], 3);
    rs_request_answer_fini(&answer);
    rs_request_fini(&request);
}

static void room_is_enough_at_the_factor_itself(void **state)
{
    (void)state;
    struct rs_capture_request request;
    struct rs_request_rank rank = make_rank(0, RS_PROFILER_ASCEND);
    struct rs_request_answer answer = {0};
    rank.estimated_bytes = 1000;
    rank.free_disk_bytes = rank.free_memory_bytes = 20000;
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    apply(&request, "schedule.warmup=1");
    assert_ok(rs_request_validate(&request, &rank, 1, NULL, &answer, NULL));
    assert_int_equal(answer.ranks[0].notes.count, 0);
    rank.free_disk_bytes = 2000; /* twice: a warning still, no refusal */
    assert_ok(rs_request_validate(&request, &rank, 1, NULL, &answer, NULL));
    assert_int_equal(answer.ranks[0].decision, RS_DECISION_ACCEPTED);
    assert_true(has_rule(&answer.ranks[0].notes, RS_RULE_HEADROOM_DISK));
    rank.estimated_bytes = INT64_MAX; /* no overflow */
    assert_status(rs_request_validate(&request, &rank, 1, NULL, &answer, NULL), RS_REFUSED);
    rs_request_answer_fini(&answer);
    rs_request_fini(&request);
}

static void a_rank_list_means_what_the_documents_say(void **state)
{
    (void)state;
    struct rs_capture_request request;
    struct rs_request_answer answer = {0};
    struct rs_request_rank ranks[8];
    struct rs_err err = {0};
    for (uint32_t i = 0; i < 8; i++)
        ranks[i] = make_rank(7 - i, RS_PROFILER_ASCEND);
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    apply(&request, "is_rank=true;rank_list=3,1,3,99;schedule.warmup=1");
    assert_status(rs_request_validate(&request, ranks, 8, NULL, &answer, &err), RS_PARTIAL);
    assert_int_equal(answer.count, 2);
    assert_int_equal(answer.ranks[0].rank, 1);
    assert_int_equal(answer.ranks[1].rank, 3);
    assert_int_equal(answer.chosen.unknown_count, 1);
    assert_int_equal(answer.chosen.unknown[0].first, 99);
    apply(&request, "ranks=2-5"); /* both must hold */
    assert_status(rs_request_validate(&request, ranks, 8, NULL, &answer, &err), RS_PARTIAL);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.ranks[0].rank, 3);
    apply(&request, "ranks=all;rank_list=");
    assert_status(rs_request_validate(&request, ranks, 8, NULL, &answer, &err), RS_REFUSED);
    assert_int_equal(answer.count, 0);
    assert_true(has_rule(&answer.notes, RS_RULE_RANK_LIST_EMPTY));
    apply(&request, "is_rank=false;rank_list=3");
    assert_ok(rs_request_validate(&request, ranks, 8, NULL, &answer, &err));
    assert_int_equal(answer.count, 8);
    rs_request_answer_fini(&answer);
    rs_request_fini(&request);
}

static void the_answer_is_printed_by_kinds_of_ranks(void **state)
{
    (void)state;
    struct rs_capture_request request;
    struct rs_request_answer answer = {0};
    struct rs_request_rank ranks[6];
    struct rs_err err = {0};
    struct rs_buf buf = {0};
    for (uint32_t i = 0; i < 6; i++)
        ranks[i] = make_rank(i, RS_PROFILER_ASCEND);
    ranks[2].is_busy = true;
    ranks[5].activities = RS_ACTIVITY_CPU;
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    apply(&request, "schedule.warmup=1;activities=NPU");
    assert_status(rs_request_validate(&request, ranks, 6, NULL, &answer, &err), RS_PARTIAL);
    rs_request_answer_print(&answer, &buf);
    assert_string_equal(
        rs_buf_text(&buf),
        "ranks 0-1,3-4: accepted\n"
        "ranks 2: queued\n"
        "  warning: on_busy: the rank records already: this request runs next [queued]\n"
        "ranks 5: refused\n"
        "  error: activities: the rank has none of the activities: NPU [no-activity]\n"
        "6 ranks: 4 accepted, 1 queued, 0 ineffective, 1 refused\n");
    rs_buf_reset(&buf);
    rs_request_answer_to_json(&answer, 0, &buf);
    assert_non_null(strstr(rs_buf_text(&buf), "{\"rank\":2,\"verdict\":\"queued\",\"notes\":[{"
                                              "\"rule\":\"queued\",\"severity\":\"warning\""));
    rs_buf_fini(&buf);
    rs_request_answer_fini(&answer);
    rs_request_fini(&request);
}

static unsigned allowed;
static bool some_allocations(void)
{
    return allowed && allowed--;
}

static void lack_of_memory_is_a_status(void **state)
{
    (void)state;
    struct rs_capture_request request;
    struct rs_request_rank ranks[4];
    for (uint32_t i = 0; i < 4; i++)
        ranks[i] = make_rank(i, RS_PROFILER_KINETO);
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    apply(&request, "is_rank=true;rank_list=1,2,9;ranks=0-2,17|node=x;experimental.l2_cache=true");
    for (unsigned k = 0;; k++) {
        struct rs_request_answer answer = {0};
        allowed = k;
        rs_mem_set_gate(some_allocations);
        const enum rs_status status = rs_request_validate(&request, ranks, 4, NULL, &answer, NULL);
        rs_mem_set_gate(NULL);
        if (status != RS_NOMEM) {
            assert_int_equal(status, RS_PARTIAL);
            assert_true(k > 10);
            rs_request_answer_fini(&answer);
            break;
        }
        assert_null(answer.ranks);
        assert_null(answer.notes.items);
    }
    rs_request_fini(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_violation_is_reported_and_its_absence_is_not),
        cmocka_unit_test(each_mistake_in_a_document_has_its_place),
        cmocka_unit_test(limits_of_documents_hold),
        cmocka_unit_test(no_rule_is_without_a_test),
        cmocka_unit_test(a_refusal_lists_every_violated_rule),
        cmocka_unit_test(room_is_enough_at_the_factor_itself),
        cmocka_unit_test(a_rank_list_means_what_the_documents_say),
        cmocka_unit_test(the_answer_is_printed_by_kinds_of_ranks),
        cmocka_unit_test(lack_of_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
