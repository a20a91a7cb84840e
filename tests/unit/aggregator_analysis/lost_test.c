/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings that lost rows, or are cut: who is slow is named from what is left, and nobody else.
 *
 * Four ranks, two tensor parallel pairs {0,1} {2,3}, two data parallel ones {0,2} {1,3}. A step is LAYERS times work of KERNELS kernels
 * and an operation of the tensor pair, after every second one also an operation of the data pair; then one of all. Each row is lost with
 * a chance of its rank's: of an operation its own or that of its launch, of work a kernel. Then the spans are made as common/reduce
 * makes them: what was launched between two rows of operations that are left is one.
 */
#include "common/base/mem.h"
#include "tests/unit/aggregator_analysis/join_rig.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, STEPS = 6, LAYERS = 8, KERNELS = 12, SLOW = 2, OTHER = 1 };
enum { STREAM = 7, TENSOR = 20, DATA = 24, ALL = 28, EVENTS = 4096 };

#define US INT64_C(1000)

struct event {
    bool is_op, is_wait;
    int64_t step, stream;
    rs_ns launch, start, end;
    uint32_t group;
};

struct job {
    double factor;        /* the slow rank takes so many times as long */
    int64_t lost[RANKS];  /* of 1,000 rows */
    int64_t more_kernels; /* OTHER runs so many short kernels more in every piece of work */
    int64_t cut;          /* from this step on the rank `is_cut` has no rows; 0: all has */
    int32_t is_cut;
    struct rig rig;
    uint64_t random;
    struct event *events[RANKS]; /* by launch */
    size_t counts[RANKS];
    rs_ns now[RANKS], launch[RANKS];
    uint32_t pair[RANKS], across[RANKS], all[RANKS];
};

/* ---- what happens ---------------------------------------------------------------------------- */

static struct event *add_event(struct job *job, int32_t rank, int64_t step, rs_ns end)
{
    assert_true(job->counts[rank] < EVENTS);
    struct event *event = &job->events[rank][job->counts[rank]++];
    job->launch[rank] += 2 * US;
    *event = (struct event){.step = step,
                            .stream = STREAM,
                            .launch = job->launch[rank],
                            .start = job->now[rank],
                            .end = end};
    return event;
}

static void work(struct job *job, int64_t step, int32_t rank)
{
    const double factor = rank == SLOW ? job->factor : 1;
    for (int n = 0; n < KERNELS; n++) {
        const rs_dur usual = (20 + 10 * (n % 3)) * US;
        const rs_dur took = usual + make_random_range(&job->random, -usual / 30, usual / 30);
        const rs_ns end = job->now[rank] + (rs_dur)((double)took * factor);
        add_event(job, rank, step, end);
        job->now[rank] = end;
    }
    for (int64_t n = 0; rank == OTHER && n < job->more_kernels; n++) {
        add_event(job, rank, step, job->now[rank] + US);
        job->now[rank] += US;
    }
}

static void meet(struct job *job, int64_t step, unsigned mask, int64_t stream, rs_dur us)
{
    rs_ns last = 0;
    for (int32_t r = 0; r < RANKS; r++) {
        last = (mask >> r & 1) != 0 && job->now[r] > last ? job->now[r] : last;
    }
    for (int32_t r = 0; r < RANKS; r++) {
        if ((mask >> r & 1) == 0) {
            continue;
        }
        struct event *event =
            add_event(job, r, step, last + us * US + make_random_range(&job->random, 0, 900));
        event->is_op = true;
        event->stream = stream;
        event->group = stream == TENSOR ? job->pair[r]
                       : stream == DATA ? job->across[r]
                                        : job->all[r];
        job->now[r] = event->end;
    }
}

static void train(struct job *job, int64_t step)
{
    rs_ns start[RANKS];
    for (int32_t r = 0; r < RANKS; r++) {
        start[r] = job->now[r];
        job->launch[r] = job->now[r] + 50 * US;
        job->now[r] += 60 * US;
    }
    for (int l = 0; l < LAYERS; l++) {
        for (int32_t r = 0; r < RANKS; r++) {
            work(job, step, r);
        }
        meet(job, step, 3, TENSOR, 60);
        meet(job, step, 12, TENSOR, 60);
        if (l % 2 == 1) {
            meet(job, step, 5, DATA, 100);
            meet(job, step, 10, DATA, 100);
        }
    }
    meet(job, step, 15, ALL, 20);
    for (int32_t r = 0; r < RANKS; r++) {
        struct event *event = add_event(job, r, step, job->now[r]);
        event->is_wait = true;
        event->start = event->launch;
        job->now[r] += 5 * US;
        make_step(&job->rig.ranks[r], step, start[r], job->now[r])->device = r;
    }
}

/* ---- what is left of it ----------------------------------------------------------------------- */

static int by_launch(const void *left, const void *right)
{
    const struct event *a = left, *b = right;
    return (a->launch > b->launch) - (a->launch < b->launch);
}

static void lose_rows(struct job *job, int32_t rank)
{
    size_t kept = 0;
    struct event *events = job->events[rank];
    for (size_t i = 0; i < job->counts[rank]; i++) {
        const bool is_lost = make_random_range(&job->random, 0, 999) < job->lost[rank];
        const bool lacks_launch = make_random_range(&job->random, 0, 999) < job->lost[rank];
        if (is_lost) {
            continue;
        }
        events[kept] = events[i];
        if (events[i].is_op && lacks_launch) {
            events[kept].launch = events[i].start;
        }
        kept++;
    }
    job->counts[rank] = kept;
    qsort(events, kept, sizeof *events, by_launch);
}

static void add_op(struct job *job, int32_t rank, const struct event *event, int64_t order)
{
    struct rs_comm_op *op =
        make_op(&job->rig.ranks[rank], RS_OP_ALL_REDUCE, event->start, event->end);
    op->step = event->step;
    op->flags = RS_OP_ON_DEVICE;
    op->device = rank;
    op->stream = event->stream;
    op->caller_thread = 1;
    op->call_order = order;
    op->call_start = event->launch;
    op->bytes = 1000 * event->stream;
    op->group = event->group;
}

static struct rs_span_row *add_span(struct job *job, int32_t rank, const struct event *event,
                                    int64_t order)
{
    struct rs_summary *summary = &job->rig.ranks[rank];
    assert_ok(rs_mem_grow((void **)&summary->spans, &summary->span_capacity,
                          summary->span_count + 1, sizeof *summary->spans));
    struct rs_span_row *span = &summary->spans[summary->span_count++];
    *span = (struct rs_span_row){.step = event->step,
                                 .device = rank,
                                 .stream = event->is_wait ? -1 : STREAM,
                                 .thread = 1,
                                 .order = order,
                                 .kind = event->is_wait ? RS_SPAN_HOST_WAIT : RS_SPAN_COMPUTING,
                                 .launch_first = event->launch,
                                 .launch_last = event->launch,
                                 .start = event->start,
                                 .end = event->end,
                                 .top_name = RS_STR_NONE};
    return span;
}

static void summarise(struct job *job, int32_t rank)
{
    struct rs_span_row *open = NULL;
    int64_t order = 0;
    for (size_t i = 0; i < job->counts[rank]; i++) {
        const struct event *event = &job->events[rank][i];
        if (event->is_op || event->is_wait) {
            open = NULL;
        }
        if (event->is_op) {
            add_op(job, rank, event, order++);
        } else if (event->is_wait) {
            (void)add_span(job, rank, event, order++);
        } else {
            open = open != NULL ? open : add_span(job, rank, event, order++);
            open->launch_last = event->launch;
            open->end = event->end;
            open->busy += event->end - event->start;
            open->count++;
            open->signature = open->signature * 31 + 7;
        }
    }
}

/* A file that ends in the middle of a step: profilers write the device's rows last, in order of time, so the steps are all there. */
static void cut_file(struct job *job)
{
    struct rs_summary *summary = &job->rig.ranks[job->is_cut];
    size_t kept = 0;
    while (kept < job->counts[job->is_cut] && job->events[job->is_cut][kept].step < job->cut) {
        kept++;
    }
    job->counts[job->is_cut] = kept + LAYERS;
    summary->trace.is_partial = true;
    for (size_t i = 0; i < summary->step_count; i++) {
        summary->steps[i].is_partial = true;
    }
}

/* ---- the job ------------------------------------------------------------------------------------ */

static uint32_t add_group(struct job *job, int32_t rank, const char *name, int32_t a, int32_t b)
{
    const int32_t ranks[] = {a, b};
    return make_group(&job->rig.ranks[rank], name, ranks, 2);
}

static const struct rs_diagnosis *run(struct job *job, uint64_t seed)
{
    static const int32_t everybody[] = {0, 1, 2, 3};
    static const char *const names[] = {"1", "1", "2", "2", "3", "4", "3", "4"};
    job->random = seed;
    for (int32_t r = 0; r < RANKS; r++) {
        struct rs_summary *summary = rig_rank(&job->rig, r, "a");
        summary->trace.world_size = RANKS;
        summary->devices = rs_mem_calloc(1, sizeof *summary->devices);
        job->events[r] = rs_mem_calloc(EVENTS, sizeof **job->events);
        assert_non_null(summary->devices);
        assert_non_null(job->events[r]);
        summary->device_count = 1;
        summary->devices[0].device = r;
        job->all[r] = make_group(summary, "0", everybody, RANKS);
        job->pair[r] = add_group(job, r, names[r], r / 2 * 2, r / 2 * 2 + 1);
        job->across[r] = add_group(job, r, names[RANKS + r], r % 2, r % 2 + 2);
        job->now[r] = summary->span_start = 1000 * US;
    }
    for (int64_t k = 1; k <= STEPS; k++) {
        train(job, k);
    }
    for (int32_t r = 0; r < RANKS; r++) {
        lose_rows(job, r);
        if (job->cut > 0 && r == job->is_cut) {
            cut_file(job);
        }
        summarise(job, r);
    }
    (void)rig_run(&job->rig, false);
    return job->rig.analysis->diagnosis;
}

static void fini(struct job *job)
{
    for (int32_t r = 0; r < RANKS; r++) {
        rs_mem_free(job->events[r]);
        rs_mem_free(job->rig.ranks[r].devices);
        job->rig.ranks[r].devices = NULL;
    }
    rig_fini(&job->rig);
}

enum { SEEDS = 5 };

static rs_dur mean_step(const struct job *job)
{
    return (job->now[0] - 1000 * US) / STEPS;
}

static void a_slow_rank_is_named_though_every_step_lost_rows(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job = {.factor = 1.3, .lost = {50, 50, 50, 50}}, healthy = {.factor = 1};
        const struct rs_diagnosis *diagnosis = run(&job, seed);
        (void)run(&healthy, seed);
        const rs_dur gain = mean_step(&job) - mean_step(&healthy);
        assert_int_equal(diagnosis->judged_ranks, RANKS);
        assert_int_equal(diagnosis->finding_count, 1);
        const struct rs_finding *finding = &diagnosis->findings[0];
        assert_int_equal(finding->kind, RS_FINDING_SLOW_RANK);
        assert_int_equal(finding->place_count, 1);
        assert_int_equal(finding->places[0].rank, SLOW);
        assert_int_equal(finding->confidence, RS_CONFIDENCE_PARTIAL);
        assert_true(finding->cost_ns_per_step > gain / 2);
        assert_true(finding->cost_ns_per_step < gain + gain / 10);
        fini(&job);
        fini(&healthy);
    }
}

static void expect_nobody(const struct job *made)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job = *made;
        const struct rs_diagnosis *diagnosis = run(&job, seed);
        assert_int_equal(diagnosis->judged_ranks, RANKS);
        for (size_t i = 0; i < diagnosis->finding_count; i++) {
            assert_int_equal(diagnosis->findings[i].confidence, RS_CONFIDENCE_WEAK);
        }
        fini(&job);
    }
}

/* Work of which a tenth is missing is no shorter. */
static void who_lost_more_rows_is_not_faster_than_the_others(void **state)
{
    (void)state;
    expect_nobody(&(struct job){.factor = 1, .lost = {10, 100, 20, 100}});
}

/* A rank that runs more kernels by design makes those slow who do not, if each of them is said to lack some. */
static void who_runs_fewer_kernels_lacks_none(void **state)
{
    (void)state;
    expect_nobody(&(struct job){.factor = 1, .lost = {5, 5, 5, 5}, .more_kernels = 3});
    expect_nobody(&(struct job){.factor = 1, .lost = {50, 50, 50, 50}, .more_kernels = 3});
}

/* Of which hardly anything is left: it may be left out, and the others are compared. */
static void who_lost_half_of_its_rows_hides_nobody_else(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job = {.factor = 1.5, .lost = {20, 20, 20, 500}};
        const struct rs_diagnosis *diagnosis = run(&job, seed);
        assert_int_equal(diagnosis->finding_count, 1);
        assert_int_equal(diagnosis->findings[0].place_count, 1);
        assert_int_equal(diagnosis->findings[0].places[0].rank, SLOW);
        fini(&job);
    }
}

static void expect_slow_rank_of(int32_t is_cut, int64_t cut, size_t judged)
{
    struct job job = {.factor = 1.3, .is_cut = is_cut, .cut = cut};
    const struct rs_diagnosis *diagnosis = run(&job, 1);
    const bool is_named = judged == RANKS || is_cut != SLOW;
    assert_int_equal(diagnosis->judged_ranks, judged);
    assert_int_equal(diagnosis->finding_count, is_named);
    if (is_named) {
        assert_int_equal(diagnosis->findings[0].place_count, 1);
        assert_int_equal(diagnosis->findings[0].places[0].rank, SLOW);
        assert_int_equal(diagnosis->findings[0].confidence, RS_CONFIDENCE_PARTIAL);
    }
    fini(&job);
}

static void a_file_that_is_cut_tells_of_the_steps_before_that(void **state)
{
    (void)state;
    expect_slow_rank_of(SLOW, STEPS - 1, RANKS);
    expect_slow_rank_of(OTHER, STEPS - 1, RANKS);
}

/* Where that are few steps, all steps of the others tell more. */
static void a_file_that_is_cut_early_is_left_out(void **state)
{
    (void)state;
    expect_slow_rank_of(SLOW, 2, RANKS - 1);
    expect_slow_rank_of(OTHER, 2, RANKS - 1);
}

static size_t allocations_left;

static bool allow(void)
{
    return allocations_left > 0 && allocations_left-- > 0;
}

/* Every single allocation fails once. */
static void failing_memory_is_a_status(void **state)
{
    const struct rs_analysis_options options = {0};
    struct job job = {.factor = 1.3, .lost = {50, 50, 50, 50}, .is_cut = OTHER, .cut = STEPS - 1};
    (void)state;
    (void)run(&job, 1);
    enum rs_status status = RS_NOMEM;
    for (size_t k = 0; status != RS_OK; k++) {
        assert_in_range(k, 0, 20000);
        rs_analysis_free(&job.rig.analysis);
        allocations_left = k;
        rs_mem_set_gate(allow);
        status = rs_analysis_new(job.rig.lent, job.rig.count, &options, &job.rig.analysis, NULL);
        rs_mem_set_gate(NULL);
        assert_true(status == RS_OK || status == RS_NOMEM);
        assert_true((status == RS_OK) == (job.rig.analysis != NULL));
    }
    fini(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_rank_is_named_though_every_step_lost_rows),
        cmocka_unit_test(who_lost_more_rows_is_not_faster_than_the_others),
        cmocka_unit_test(who_runs_fewer_kernels_lacks_none),
        cmocka_unit_test(who_lost_half_of_its_rows_hides_nobody_else),
        cmocka_unit_test(a_file_that_is_cut_tells_of_the_steps_before_that),
        cmocka_unit_test(a_file_that_is_cut_early_is_left_out),
        cmocka_unit_test(failing_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
