/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links that are slow together. Three or four stages of three ranks, each stage on a host of its own; what a stage has worked on goes to the next
 * one, and at the end of a step all meet. No link alone makes a step shorter: those beside it are as slow.
 */
#include "common/base/mem.h"
#include "tests/unit/aggregator_analysis/join_rig.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES = 3, STAGES_MOST = 4, RANKS_MOST = COPIES * STAGES_MOST, STEPS = 6, BATCHES = 4 };
enum { STREAM = 7, SENDS = 40, RECEIVES = 41, ALL = 24 };

#define US INT64_C(1000)

struct job {
    int32_t stages;
    rs_dur took[STAGES_MOST - 1]; /* a message from this stage to the next */
    struct rig rig;
    uint64_t random;
    rs_ns now[RANKS_MOST], launch[RANKS_MOST], sent[RANKS_MOST];
    int64_t order[RANKS_MOST];
    uint32_t all[RANKS_MOST];
};

static void add_span(struct job *job, int64_t step, int32_t rank, uint8_t kind, rs_ns start,
                     rs_ns end)
{
    struct rs_summary *summary = &job->rig.ranks[rank];
    const bool is_wait = kind == RS_SPAN_HOST_WAIT;
    assert_ok(rs_mem_grow((void **)&summary->spans, &summary->span_capacity,
                          summary->span_count + 1, sizeof *summary->spans));
    job->launch[rank] += 2 * US;
    summary->spans[summary->span_count++] =
        (struct rs_span_row){.step = step,
                             .device = rank % COPIES,
                             .stream = is_wait ? -1 : STREAM,
                             .thread = 1,
                             .order = job->order[rank]++,
                             .kind = kind,
                             .launch_first = is_wait ? start : job->launch[rank],
                             .launch_last = is_wait ? start : job->launch[rank],
                             .start = start,
                             .end = end,
                             .busy = is_wait ? 0 : end - start,
                             .count = 3,
                             .signature = 5,
                             .top_name = RS_STR_NONE};
}

static void work(struct job *job, int64_t step, int32_t rank)
{
    const rs_dur took = 300 * US + make_random_range(&job->random, -3 * US, 3 * US);
    add_span(job, step, rank, RS_SPAN_COMPUTING, job->now[rank], job->now[rank] + took);
    job->now[rank] += took;
}

static struct rs_comm_op *add_op(struct job *job, int64_t step, int32_t rank, enum rs_op_type type,
                                 int64_t stream, rs_ns start, rs_ns end)
{
    struct rs_comm_op *op = make_op(&job->rig.ranks[rank], type, start, end);
    job->launch[rank] += 2 * US;
    op->step = step;
    op->flags = RS_OP_ON_DEVICE;
    op->device = rank % COPIES;
    op->stream = stream;
    op->caller_thread = 1;
    op->call_order = job->order[rank]++;
    op->call_start = job->launch[rank];
    op->bytes = type == RS_OP_ALL_REDUCE ? 1000 : 8000000;
    op->group = job->all[rank];
    return op;
}

/* From a rank to the one of the next stage; the sender goes on working meanwhile. */
static void pass(struct job *job, int64_t step, int32_t rank)
{
    const int32_t to = rank + COPIES;
    const rs_ns ready = job->sent[rank] > job->now[rank] ? job->sent[rank] : job->now[rank];
    const rs_ns met = ready > job->now[to] ? ready : job->now[to];
    const rs_dur took = job->took[rank / COPIES] + make_random_range(&job->random, 0, 2 * US);
    add_op(job, step, rank, RS_OP_SEND, SENDS, ready, met + took)->peer = to;
    add_op(job, step, to, RS_OP_RECV, RECEIVES, job->now[to], met + took)->peer = rank;
    job->sent[rank] = job->now[to] = met + took;
}

static void train(struct job *job, int64_t step)
{
    rs_ns start[RANKS_MOST], last = 0;
    for (int32_t r = 0; r < job->stages * COPIES; r++) {
        start[r] = job->now[r];
        job->launch[r] = job->now[r] + 5 * US;
        job->now[r] += 100 * US;
    }
    for (int b = 0; b < BATCHES; b++) {
        for (int32_t r = 0; r < job->stages * COPIES; r++) {
            work(job, step, r);
            if (r / COPIES + 1 < job->stages) {
                pass(job, step, r);
            }
        }
    }
    for (int32_t r = 0; r < job->stages * COPIES; r++) {
        job->now[r] = job->sent[r] > job->now[r] ? job->sent[r] : job->now[r];
        last = job->now[r] > last ? job->now[r] : last;
    }
    for (int32_t r = 0; r < job->stages * COPIES; r++) {
        add_op(job, step, r, RS_OP_ALL_REDUCE, ALL, job->now[r], last + 20 * US);
        add_span(job, step, r, RS_SPAN_HOST_WAIT, job->launch[r] + 2 * US, last + 20 * US);
        job->now[r] = last + 25 * US;
        make_step(&job->rig.ranks[r], step, start[r], job->now[r])->device = r % COPIES;
    }
}

/* Mean step in ns. */
static rs_dur run(struct job *job, bool asks)
{
    static const char *const hosts[] = {"a", "b", "c", "d"};
    int32_t everybody[RANKS_MOST];
    job->random = 41;
    for (int32_t r = 0; r < job->stages * COPIES; r++) {
        everybody[r] = r;
    }
    for (int32_t r = 0; r < job->stages * COPIES; r++) {
        struct rs_summary *summary = rig_rank(&job->rig, r, hosts[r / COPIES]);
        summary->trace.world_size = job->stages * COPIES;
        summary->devices = rs_mem_calloc(1, sizeof *summary->devices);
        assert_non_null(summary->devices);
        summary->device_count = 1;
        summary->devices[0].device = r % COPIES;
        job->all[r] = make_group(summary, "0", everybody, (size_t)(job->stages * COPIES));
        job->now[r] = job->sent[r] = summary->span_start = 1000 * US;
    }
    for (int64_t k = 1; k <= STEPS; k++) {
        train(job, k);
    }
    if (asks) {
        (void)rig_run(&job->rig, true);
    }
    return (job->now[0] - 1000 * US) / STEPS;
}

static void fini(struct job *job)
{
    for (int32_t r = 0; r < job->stages * COPIES; r++) {
        rs_mem_free(job->rig.ranks[r].devices);
        job->rig.ranks[r].devices = NULL;
    }
    rig_fini(&job->rig);
}

static void all_links_of_a_host_are_named_together(void **state)
{
    struct job slow = {.stages = 3, .took = {1500 * US, 150 * US}};
    struct job healthy = {.stages = 3, .took = {150 * US, 150 * US}};
    (void)state;
    const rs_dur without = run(&healthy, false);
    const rs_dur gain = run(&slow, true) - without;
    const struct rs_diagnosis *diagnosis = slow.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->finding_count, 1);
    const struct rs_finding *finding = &diagnosis->findings[0];
    assert_int_equal(finding->kind, RS_FINDING_SLOW_LINK);
    assert_int_equal(finding->place_count, COPIES);
    for (size_t i = 0; i < COPIES; i++) {
        assert_int_equal(finding->places[i].dst, finding->places[i].src + COPIES);
        assert_true(finding->places[i].src < COPIES);
    }
    assert_int_equal(finding->also_count, 1);
    assert_int_equal(finding->also[0].kind, RS_PLACE_HOST);
    assert_string_equal(finding->also[0].text, "a");
    assert_int_equal(finding->confidence, RS_CONFIDENCE_BOUNDED);
    assert_true(finding->cost_ns_per_step > gain - gain / 20);
    assert_true(finding->cost_ns_per_step < gain + gain / 20);
    fini(&slow);
    fini(&healthy);
}

/* Two thirds of the fabric are slow, and all of that is one host's. */
static void expect_host_in_the_middle(rs_dur took, enum rs_confidence confidence)
{
    struct job slow = {.stages = 4, .took = {took, took, 150 * US}};
    struct job healthy = {.stages = 4, .took = {150 * US, 150 * US, 150 * US}};
    const rs_dur without = run(&healthy, false);
    const rs_dur gain = run(&slow, true) - without;
    const struct rs_diagnosis *diagnosis = slow.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->finding_count, 1);
    const struct rs_finding *finding = &diagnosis->findings[0];
    assert_int_equal(finding->kind, RS_FINDING_SLOW_LINK);
    assert_int_equal(finding->place_count, 2 * COPIES);
    assert_int_equal(finding->confidence, confidence);
    assert_int_equal(finding->also_count, 1);
    assert_string_equal(finding->also[0].text, "b");
    assert_true(finding->cost_ns_per_step > gain - gain / 10);
    assert_true(finding->cost_ns_per_step < gain + gain / 10);
    fini(&slow);
    fini(&healthy);
}

/* It may be that host, or the other two stand in one rack. */
static void a_host_with_most_of_the_links_is_a_hint(void **state)
{
    (void)state;
    expect_host_in_the_middle(450 * US, RS_CONFIDENCE_WEAK);
}

static void a_host_in_the_middle_that_is_slower_than_racks_make_it_is_named(void **state)
{
    (void)state;
    expect_host_in_the_middle(1500 * US, RS_CONFIDENCE_BOUNDED);
}

/* Of a network nobody says how fast it should be. */
static void links_that_are_all_alike_are_the_network(void **state)
{
    struct job slow = {.stages = 3, .took = {1500 * US, 1500 * US}};
    (void)state;
    (void)run(&slow, true);
    assert_int_equal(slow.rig.analysis->diagnosis->finding_count, 0);
    fini(&slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_links_of_a_host_are_named_together),
        cmocka_unit_test(a_host_with_most_of_the_links_is_a_hint),
        cmocka_unit_test(a_host_in_the_middle_that_is_slower_than_racks_make_it_is_named),
        cmocka_unit_test(links_that_are_all_alike_are_the_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
