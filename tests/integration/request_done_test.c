/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Accepted" means done: every member of a request, for every way of triggering a rank.
 *
 *   a request at its defaults --+--> the answer for a rank of each adapter      --+
 *   the same but for one member-+--> the text its profiler is handed, the steps --+--> one of them differs
 *
 * When the answer to the second does not say that the member has no effect, then something it is told differs, or the text says what
 * was asked; else somebody asked for what nobody does, and was told yes.
 *
 * `rankscope hang` has no request: flight recorders are asked for what they hold, and nothing of it can be chosen.
 *
 * What the service itself does with a member shows in no text: `service` has for each what changes in the answer, and for the few
 * where nothing does, who holds it.
 */
#include "aggregator/capture/coordinator.h"
#include "ascend/adapter/ascend_priv.h"
#include "ascend/adapter/mindspore_priv.h"
#include "collector/agent/collect_kineto_priv.h"
#include "collector/agent/host_samples.h"
#include "common/wire/request_message.h"
#include "tests/support/rs_test.h"

#include <jansson.h>

#include <stdio.h>
#include <string.h>

/* Every member at another value than its default, with what it needs. */
static const struct change {
    const char *member, *value;
    const char *needs; /* settings of both requests; NULL */
} changes[] = {
    {"schedule.wait", "3", NULL},
    {"schedule.warmup", "2", NULL},
    {"schedule.active", "5", NULL},
    {"schedule.repeat", "2", NULL},
    {"schedule.skip_first", "4", NULL},
    {"activities", "CPU", NULL},
    {"record_shapes", "true", NULL},
    {"with_stack", "true", NULL},
    {"with_modules", "true", NULL},
    {"with_flops", "true", NULL},
    {"profile_memory", "true", NULL},
    {"experimental.export_type", "text,db", NULL},
    {"experimental.profiler_level", "Level2", NULL},
    {"experimental.aic_metrics", "MemoryUB", "experimental.profiler_level=Level1"},
    {"experimental.l2_cache", "true", NULL},
    {"experimental.op_attr", "true", "experimental.export_type=db"},
    {"experimental.record_op_args", "true", NULL},
    {"experimental.sys_io", "true", NULL},
    {"experimental.sys_interconnection", "true", NULL},
    {"experimental.data_simplification", "false", NULL},
    {"experimental.gc_detect_threshold_ms", "0.1", NULL},
    {"experimental.mstx", "true", NULL},
    {"experimental.mstx_domain_include", "a", "experimental.mstx=true"},
    {"experimental.mstx_domain_exclude", "d", "experimental.mstx=true"},
    {"experimental.host_sys", "cpu", NULL},
    {"experimental.extra", "{\"k\":\"v\"}", NULL},
    {"sample_hz", "50", "experimental.host_sys=cpu"},
    {"mindspore.op_time", "false", NULL},
    {"mindspore.profile_communication", "true", NULL},
    {"mindspore.aicore_metrics", "-1", NULL},
    {"mindspore.parallel_strategy", "true", NULL},
    {"mindspore.data_process", "false", NULL},
    {"mindspore.start_profile", "false", NULL},
    {"mindspore.sync_enable", "false", NULL},
    {"mindspore.profile_framework", "none", NULL},
    {"mindspore.analyse_mode", "1", NULL},
    {"timeline_limit_mb", "7", NULL},
    {"prof_dir", "/a/b", NULL},
    {"spool_dir", "/c", NULL},
    {"worker_name", "w_{rank}", NULL},
    {"analyse", "true", NULL},
    {"async_mode", "true", NULL},
    {"aggregate", "false", NULL},
    {"use_gzip", "true", NULL},
    {"pretty", "true", NULL},
    {"roundup", "70", NULL},
    {"env_allow", "HCCL_ALGO", NULL},
};

/* Members of the service: the answer differs, or `held_by` says which test of a whole capture does. */
static const struct {
    struct change change;
    const char *held_by;
} service[] = {
    {{"capture_id", "another", NULL}, "e2e_capture_request: again"},
    {{"dialect", "torch", NULL}, "rules_test: WARMUP_NOT_SAID, EXTRA_DIALECT"},
    {{"origin", "api", NULL}, "request_test: defaults; rules_test: REPEAT_ADVICE, QUEUE_FULL"},
    {{"job_id", "run2", NULL}, "coordinator_test: two_runs_need_a_name"},
    {{"ranks", "1", NULL}, NULL},
    {{"is_rank", "true", "rank_list=1"}, NULL},
    {{"rank_list", "0", "is_rank=true"}, NULL},
    {{"start_step", "40", NULL}, NULL},
    {{"max_step", "2", "schedule.active=3"}, NULL},
    {{"start_time_ns", "5", NULL}, "coordinator_test: a_duration_and_its_start_become_steps"},
    {{"duration_ms", "700", NULL}, "the same"},
    {{"max_duration_s", "400", NULL}, NULL},
    {{"headroom_factor", "1000", NULL}, NULL},
    {{"force", "true", "max_duration_s=400"}, NULL},
    {{"on_busy", "refuse", NULL}, NULL},
    {{"timeout_ms", "60000", NULL}, "the same"},
    {{"metadata", "{\"distributed_args\": {\"tp\": 3}}", NULL}, NULL},
};

static void apply(struct rs_capture_request *request, const char *member, const char *value)
{
    struct rs_request_notes notes = {0};
    if (rs_request_set(request, member, value, &notes) != RS_OK)
        fail_msg("%s=%s: %s", member, value, notes.count ? notes.items[0].text : "");
    rs_request_notes_fini(&notes);
}

static void make_request(const struct change *change, bool is_changed, enum rs_origin origin,
                         struct rs_capture_request *request)
{
    assert_ok(rs_request_init(request, RS_DIALECT_ASCEND, origin));
    if (origin == RS_ORIGIN_CONFIG_FILE)
        request->start_step = -1;
    if (change->needs) {
        char member[64];
        const size_t name = strcspn(change->needs, "=");
        (void)snprintf(member, sizeof member, "%.*s", (int)name, change->needs);
        apply(request, member, change->needs + name + 1);
    }
    if (is_changed)
        apply(request, change->member, change->value);
}

/* ---- the answer ----------------------------------------------------------------------------------- */

/* Two ranks in step 50; the first records already, and disk is short. */
static void validate(const struct rs_capture_request *request, const struct rs_adapter *adapter,
                     struct rs_request_answer *answer)
{
    struct rs_request_rank ranks[2];
    struct rs_err err = {0};
    for (uint32_t i = 0; i < 2; i++)
        ranks[i] = (struct rs_request_rank){
            .row = {.rank = i, .node = "n0", .role = {-1, -1, -1, -1, -1}},
            .adapter = adapter,
            .is_busy = i == 0,
            .is_step_known = true,
            .step = 50,
            .world = 2,
            .activities = rs_adapter_activities(adapter->number),
            .free_disk_bytes = 100000000,
            .estimated_bytes = 1000000,
        };
    const enum rs_status status = rs_request_validate(request, ranks, 2, NULL, answer, &err);
    if (status != RS_OK && status != RS_PARTIAL && status != RS_REFUSED)
        fail_msg("%s", err.text);
}

static bool says(const struct rs_request_notes *notes, const char *member)
{
    for (size_t i = 0; i < notes->count; i++)
        if (strcmp(notes->items[i].field, member) == 0 &&
            rs_request_rule(notes->items[i].rule)->severity != RS_SEVERITY_WARNING)
            return true;
    return false;
}

/* ---- what a profiler is handed ---------------------------------------------------------------------- */

/* What the collector samples of a rank's host. */
static void put_plan(const struct rs_host_plan *plan, struct rs_buf *text)
{
    if (!rs_host_plan_is_empty(plan))
        rs_buf_printf(text, ", host_sys %x, sys_io %d at %u Hz", plan->set, plan->has_ports,
                      plan->hz);
}

static void kineto_text(const struct rs_capture_request *request, struct rs_buf *text)
{
    Rankscope__Commit commit = RANKSCOPE__COMMIT__INIT;
    Rankscope__ProfilerOptions options = RANKSCOPE__PROFILER_OPTIONS__INIT;
    struct rs_kineto_job facts = {0};
    struct rs_kineto_config config;
    struct rs_err err = {0};
    assert_ok(rs_request_to_message(request, &commit.request, &err));
    commit.options = &options;
    options.record_shapes = request->record_shapes;
    options.with_stack = request->with_stack;
    options.profile_memory = request->profile_memory;
    options.roundup = request->roundup;
    commit.steps = request->schedule.active;
    kineto_take_request(&facts, &commit);
    kineto_fill_config(&facts, &config);
    config.log_file = "/tmp/r.json";
    config.trace_id = "c1";
    if (rs_kineto_config_text(&config, text, &err) != RS_OK)
        fail_msg("%s", err.text);
    const struct rs_host_plan plan = {
        .set = facts.host_sys, .hz = facts.sample_hz, .has_ports = facts.sys_io};
    put_plan(&plan, text);
    rs_request_message_free(&commit.request);
}

static void native_text(const struct rs_capture_request *request, const struct rs_adapter *adapter,
                        struct rs_buf *text)
{
    struct rs_capture_request copy = *request; /* its lists stay the caller's */
    const struct rs_coord_capture capture = {.start_step = 100, .request = &copy};
    Rankscope__CaptureRequest *message = NULL;
    struct rs_err err = {0};
    rs_buf_printf(text, "from %lld, %u steps", (long long)rs_coord_start_step(&capture, adapter),
                  request->schedule.active);
    assert_ok(rs_request_to_message(request, &message, &err));
    const struct rs_host_plan plan = rs_host_plan_of(message);
    put_plan(&plan, text);
    rs_request_message_free(&message);
}

static void text_for(const struct rs_capture_request *request, const struct rs_adapter *adapter,
                     struct rs_buf *text)
{
    struct rs_err err = {0};
    enum rs_status status = RS_OK;
    if (adapter->number == RS_PROFILER_NATIVE) {
        native_text(request, adapter, text);
    } else if (adapter->number == RS_PROFILER_KINETO) {
        kineto_text(request, text);
    } else if (adapter->number == RS_PROFILER_ASCEND) {
        status = npu_text(request, "c1", "/results", text, &err);
    } else {
        static struct mindspore_config_dir config_dir;
        (void)snprintf(config_dir.folder, sizeof config_dir.folder, "/results");
        config_dir.parses = request->analyse || request->aggregate;
        const struct mindspore_pair pair =
            mindspore_pair_for(100, request->schedule.active, RS_MINDSPORE_WAY_CALLBACK);
        status = mindspore_pair_text(&config_dir, request, &pair, text, &err);
    }
    if (status != RS_OK)
        fail_msg("%s: %s", adapter->name, err.text);
}

/* "analyse": true */
static bool says_what_was_asked(const char *text, const struct change *change)
{
    char words[160];
    const char *dot = strrchr(change->member, '.');
    (void)snprintf(words, sizeof words, "\"%s\": %s", dot ? dot + 1 : change->member,
                   change->value);
    return strstr(text, words) != NULL;
}

/* The order of a file's keys says nothing to who reads it. */
static bool say_the_same(const char *one, const char *two)
{
    json_t *a = json_loads(one, 0, NULL), *b = json_loads(two, 0, NULL);
    const bool is_same = a && b ? json_equal(a, b) : strcmp(one, two) == 0;
    json_decref(a);
    json_decref(b);
    return is_same;
}

static void hold_change(const struct change *change, const struct rs_adapter *adapter,
                        enum rs_origin origin)
{
    struct rs_capture_request before, after;
    struct rs_request_answer answer = {0};
    make_request(change, false, origin, &before);
    make_request(change, true, origin, &after);
    if (rs_request_equal(&before, &after)) /* on by default, from here */
        apply(&after, change->member, "false");
    validate(&after, adapter, &answer);
    const bool is_told = says(&answer.notes, change->member) ||
                         (answer.count == 2 && says(&answer.ranks[1].notes, change->member));
    if (!is_told) {
        struct rs_buf one = {0}, two = {0};
        text_for(&before, adapter, &one);
        text_for(&after, adapter, &two);
        if (say_the_same(rs_buf_text(&one), rs_buf_text(&two)) &&
            !says_what_was_asked(rs_buf_text(&two), change))
            fail_msg("%s=%s is accepted by %s and changes nothing", change->member, change->value,
                     adapter->title);
        rs_buf_fini(&one);
        rs_buf_fini(&two);
    }
    rs_request_answer_fini(&answer);
    rs_request_fini(&before);
    rs_request_fini(&after);
}

static void what_is_accepted_is_handed_on(void **state)
{
    (void)state;
    for (uint32_t number = RS_PROFILER_NATIVE; number < RS_ADAPTER_SHIPPED; number++) {
        struct rs_adapter adapter;
        assert_true(rs_adapter_known(number, &adapter));
        for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
            hold_change(&changes[i], &adapter, RS_ORIGIN_CLI);
            hold_change(&changes[i], &adapter, RS_ORIGIN_CONFIG_FILE);
        }
    }
}

static void what_the_service_does_shows_in_its_answer(void **state)
{
    (void)state;
    struct rs_adapter adapter;
    assert_true(rs_adapter_known(RS_PROFILER_NATIVE, &adapter));
    for (size_t i = 0; i < sizeof service / sizeof service[0]; i++) {
        struct rs_capture_request request;
        struct rs_buf text[2] = {{0}, {0}};
        for (int k = 0; k < 2 && !service[i].held_by; k++) {
            struct rs_request_answer answer = {0};
            make_request(&service[i].change, k == 1, RS_ORIGIN_CLI, &request);
            validate(&request, &adapter, &answer);
            rs_request_answer_to_json(&answer, 0, &text[k]);
            rs_request_answer_fini(&answer);
            rs_request_fini(&request);
        }
        if (!service[i].held_by && strcmp(rs_buf_text(&text[0]), rs_buf_text(&text[1])) == 0)
            fail_msg("%s=%s changes nothing in the answer", service[i].change.member,
                     service[i].change.value);
        rs_buf_fini(&text[0]);
        rs_buf_fini(&text[1]);
    }
}

static void no_member_is_left_out(void **state)
{
    (void)state;
    char member[RS_REQUEST_MEMBER_BYTES];
    for (size_t m = 0; rs_request_member(m, member); m++) {
        size_t found = 0;
        for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
            found += strcmp(member, changes[i].member) == 0;
        for (size_t i = 0; i < sizeof service / sizeof service[0]; i++)
            found += strcmp(member, service[i].change.member) == 0;
        if (found != 1)
            fail_msg("%s stands in %zu rows", member, found);
    }
}

/* What is torch_npu's own is not told of ranks that have another profiler, in one and the same request. */
static void a_rank_hears_of_its_own_profiler(void **state)
{
    (void)state;
    struct rs_capture_request request;
    struct rs_adapter adapters[2];
    struct rs_request_answer answer = {0};
    struct rs_request_rank ranks[2];
    struct rs_err err = {0};
    assert_true(rs_adapter_known(RS_PROFILER_KINETO, &adapters[0]));
    assert_true(rs_adapter_known(RS_PROFILER_ASCEND, &adapters[1]));
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    apply(&request, "with_flops", "true");
    apply(&request, "experimental.mstx_domain_include", "a");
    for (uint32_t i = 0; i < 2; i++)
        ranks[i] =
            (struct rs_request_rank){.row = {.rank = i, .node = "n0", .role = {-1, -1, -1, -1, -1}},
                                     .adapter = &adapters[i]};
    assert_ok(rs_request_validate(&request, ranks, 2, NULL, &answer, &err));
    for (size_t i = 0; i < 2; i++) {
        bool has_flops = false, has_include = false;
        for (size_t k = 0; k < answer.ranks[i].notes.count; k++) {
            has_flops |= answer.ranks[i].notes.items[k].rule == RS_RULE_FLOPS_NOT_PARSED;
            has_include |= answer.ranks[i].notes.items[k].rule == RS_RULE_INCLUDE_NEEDS_MSTX;
        }
        assert_int_equal(has_flops, i == 1);
        assert_int_equal(has_include, i == 1);
    }
    for (size_t k = 0; k < answer.notes.count; k++)
        assert_int_not_equal(answer.notes.items[k].rule, RS_RULE_FLOPS_NOT_PARSED);
    rs_request_answer_fini(&answer);
    rs_request_fini(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_accepted_is_handed_on),
        cmocka_unit_test(what_the_service_does_shows_in_its_answer),
        cmocka_unit_test(no_member_is_left_out),
        cmocka_unit_test(a_rank_hears_of_its_own_profiler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
