/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fixing something brings, where that is not a matter of one factor: work that is longer in part, steps of another program, hosts that
 * take long to launch, copies in the way.
 *
 * Four ranks that all meet after each of PIECES pieces of work, so that a step is the sum of the longest pieces.
 */
#include "common/base/mem.h"
#include "tests/unit/aggregator_analysis/join_rig.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, PIECES = 6, SLOW = 2, STREAM = 7, ALL = 24, STEPS = 8 };

#define US INT64_C(1000)

struct job {
    double even,
        odd; /* the slow rank takes so many times as long for pieces of an even and of an odd number */
    int64_t since;   /* but only from this step on */
    bool has_steady; /* another rank takes a little longer in every step */
    int64_t apart;   /* every so many steps there is one operation more; 0: never */
    rs_dur
        calls; /* the slow rank's host takes so long from calling an operation until it is launched */
    rs_dur copies; /* its first copy of a step takes so much longer, before all ranks meet */
    bool has_copies;
    rs_dur loads;       /* two ranks' hosts load data for so long before their first launch */
    bool is_alone;      /* in loading */
    bool load_varies;   /* from a tenth to twice as long */
    bool loses;         /* a row of another rank */
    bool runs_ahead;    /* the host launches all steps at once, and waits for nothing */
    const char *pauses; /* one letter per step: x, the slow rank's host pauses before it */
    bool has_events;    /* the host launches a piece when the last but one has ended */
    struct rig rig;
    uint64_t random;
    rs_ns now[RANKS], launch[RANKS];
    int64_t order[RANKS];
    uint32_t all[RANKS];
};

static struct rs_span_row *add_span(struct job *job, int32_t rank, uint8_t kind, rs_dur took)
{
    struct rs_summary *summary = &job->rig.ranks[rank];
    assert_ok(rs_mem_grow((void **)&summary->spans, &summary->span_capacity,
                          summary->span_count + 1, sizeof *summary->spans));
    struct rs_span_row *span = &summary->spans[summary->span_count++];
    job->launch[rank] += 5 * US;
    *span = (struct rs_span_row){.device = rank,
                                 .stream = STREAM,
                                 .thread = 1,
                                 .order = job->order[rank]++,
                                 .kind = kind,
                                 .launch_first = job->launch[rank],
                                 .launch_last = job->launch[rank],
                                 .start = job->now[rank],
                                 .end = job->now[rank] + took,
                                 .busy = took,
                                 .count = 3,
                                 .signature = 5,
                                 .top_name = RS_STR_NONE};
    job->now[rank] += took;
    return span;
}

static rs_dur about(struct job *job, rs_dur ns)
{
    return ns + make_random_range(&job->random, -ns / 100, ns / 100);
}

/* Nobody ends before the last has come. A host that is slow to launch comes later than its work. */
static void meet(struct job *job, int64_t step)
{
    const rs_dur calls = step >= job->since ? job->calls : 5 * US;
    rs_ns last = 0, came[RANKS];
    for (int32_t r = 0; r < RANKS; r++) {
        const rs_ns launched = job->launch[r] + 5 * US + (r == SLOW ? calls : 5 * US);
        came[r] = launched > job->now[r] ? launched : job->now[r];
        last = came[r] > last ? came[r] : last;
    }
    for (int32_t r = 0; r < RANKS; r++) {
        struct rs_summary *summary = &job->rig.ranks[r];
        const rs_ns end = last + 50 * US + make_random_range(&job->random, 0, 900);
        struct rs_comm_op *op = make_op(summary, RS_OP_ALL_REDUCE, came[r], end);
        job->launch[r] += 5 * US;
        op->step = step;
        op->flags = RS_OP_ON_DEVICE;
        op->device = r;
        op->stream = ALL;
        op->caller_thread = 1;
        op->call_order = job->order[r]++;
        op->call_start = job->launch[r];
        op->bytes = 24000;
        op->group = job->all[r];
        job->launch[r] += r == SLOW ? calls : 0;
        job->now[r] = end;
    }
}

/* The host stands until that piece has ended, however much was launched since. */
static void wait_for_event(struct job *job, int64_t step, int32_t rank, rs_ns ended)
{
    struct rs_span_row *wait = add_span(job, rank, RS_SPAN_HOST_WAIT, 0);
    wait->step = step;
    wait->stream = -1;
    wait->start = wait->launch_first = wait->launch_last = job->launch[rank];
    wait->end = job->launch[rank] = ended > job->launch[rank] ? ended : job->launch[rank];
    wait->busy = 0;
}

static void train(struct job *job, int64_t step)
{
    rs_ns ended[RANKS][2] = {{0}};
    rs_ns start[RANKS];
    for (int32_t r = 0; r < RANKS; r++) {
        start[r] = job->now[r];
        job->launch[r] = job->runs_ahead ? job->launch[r] : job->now[r] + 40 * US;
        const int64_t tenths = make_random_range(&job->random, 1, 20);
        const rs_dur loads = job->load_varies ? job->loads * tenths / 10 : job->loads;
        if (r >= SLOW && step >= job->since && (r == SLOW || !job->is_alone)) {
            job->launch[r] += loads;
            job->now[r] += loads;
        }
        if (r == SLOW && job->pauses != NULL && job->pauses[step - 1] == 'x') {
            job->launch[r] += 2000 * US;
            job->now[r] += 2000 * US;
        }
        job->now[r] += 60 * US;
        if (job->has_copies) {
            const rs_dur more = r == SLOW ? job->copies : 0;
            add_span(job, r, RS_SPAN_MEMORY, about(job, 100 * US + more))->step = step;
        }
    }
    if (job->has_copies) {
        meet(job, step);
    }
    const bool has_more = job->apart > 0 && step % job->apart == 0;
    for (int64_t p = 0; p < PIECES + (has_more ? 1 : 0); p++) {
        for (int32_t r = 0; r < RANKS; r++) {
            const bool is_slow = r == SLOW && step >= job->since;
            const double usual = r == 0 && job->has_steady ? 1.05 : 1;
            const double factor = !is_slow ? usual : p % 2 == 0 ? job->even : job->odd;
            const rs_dur took = (rs_dur)((double)about(job, 500 * US) * factor);
            if (job->has_events && p > 1) {
                wait_for_event(job, step, r, ended[r][p % 2]);
            }
            add_span(job, r, RS_SPAN_COMPUTING, took)->step = step;
            ended[r][p % 2] = job->now[r];
        }
        meet(job, step);
    }
    for (int32_t r = 0; r < RANKS && job->runs_ahead; r++) {
        add_span(job, r, RS_SPAN_COMPUTING, about(job, 100 * US))->step = step;
        make_step(&job->rig.ranks[r], step, start[r], job->now[r])->device = r;
    }
    for (int32_t r = 0; r < RANKS && !job->runs_ahead; r++) {
        struct rs_span_row *wait = add_span(job, r, RS_SPAN_HOST_WAIT, 0);
        wait->step = step;
        wait->stream = -1;
        wait->start = wait->launch_first = wait->launch_last = job->launch[r];
        wait->end = job->now[r];
        wait->busy = 0;
        job->now[r] += 5 * US;
        struct rs_step_row *row = make_step(&job->rig.ranks[r], step, start[r], job->now[r]);
        row->device = r;
        if (job->loads > 0) {
            /* most of the loading is behind work that still runs */
            row->input_ns = r >= SLOW ? 3 * job->loads : 20 * US;
        }
    }
}

/* A row of the rank that is not slow, in the middle of the recording. */
static void lose_row(struct rs_summary *summary)
{
    const size_t at = summary->op_count / 2;
    summary->op_count--;
    memmove(&summary->ops[at], &summary->ops[at + 1],
            (summary->op_count - at) * sizeof *summary->ops);
}

/* Mean step in ns. */
static rs_dur run(struct job *job, bool asks)
{
    static const int32_t everybody[] = {0, 1, 2, 3};
    job->random = 41;
    for (int32_t r = 0; r < RANKS; r++) {
        struct rs_summary *summary = rig_rank(&job->rig, r, "a");
        summary->trace.world_size = RANKS;
        summary->devices = rs_mem_calloc(1, sizeof *summary->devices);
        assert_non_null(summary->devices);
        summary->device_count = 1;
        summary->devices[0].device = r;
        job->all[r] = make_group(summary, "0", everybody, RANKS);
        job->now[r] = job->launch[r] = summary->span_start = 1000 * US;
    }
    for (int64_t k = 1; k <= STEPS; k++) {
        train(job, k);
    }
    if (job->loses) {
        lose_row(&job->rig.ranks[SLOW + 1]);
    }
    if (asks) {
        (void)rig_run(&job->rig, false);
    }
    return (job->now[0] - 1000 * US) / STEPS;
}

static void fini(struct job *job)
{
    for (int32_t r = 0; r < RANKS; r++) {
        rs_mem_free(job->rig.ranks[r].devices);
        job->rig.ranks[r].devices = NULL;
    }
    rig_fini(&job->rig);
}

/* Rank 2 is named, and its cost is what a run without its trouble takes less. */
static void expect_gain(struct job slow, enum rs_finding_kind kind)
{
    struct job healthy = slow;
    healthy.even = healthy.odd = 1;
    healthy.calls = 5 * US;
    healthy.copies = 0;
    const rs_dur without = run(&healthy, false);
    const rs_dur gain = run(&slow, true) - without;
    const struct rs_diagnosis *diagnosis = slow.rig.analysis->diagnosis;
    assert_true(gain > 300 * US);
    assert_int_equal(diagnosis->finding_count, 1);
    const struct rs_finding *finding = &diagnosis->findings[0];
    assert_int_equal(finding->kind, kind);
    assert_int_equal(finding->place_count, 1);
    assert_int_equal(finding->places[0].rank, SLOW);
    assert_int_equal(finding->confidence, RS_CONFIDENCE_EXACT);
    assert_true(finding->cost_ns_per_step > gain - gain / 20);
    assert_true(finding->cost_ns_per_step < gain + gain / 20);
    assert_true(diagnosis->replay.unexplained_share < 0.05);
    fini(&slow);
    fini(&healthy);
}

/* Half of its work takes twice as long: an equal factor over all of it would leave most of that, and shorten what nobody waits for. */
static void work_that_is_longer_in_part_is_fixed_where_it_is(void **state)
{
    (void)state;
    expect_gain((struct job){.even = 2, .odd = 1, .calls = 5 * US}, RS_FINDING_SLOW_RANK);
}

static void work_that_is_longer_everywhere_is_fixed_everywhere(void **state)
{
    (void)state;
    expect_gain((struct job){.even = 1.3, .odd = 1.3, .calls = 5 * US}, RS_FINDING_SLOW_RANK);
}

/* As where every second micro-batch is followed by the optimizer. */
static void steps_of_another_program_are_fixed_too(void **state)
{
    (void)state;
    expect_gain((struct job){.even = 1.3, .odd = 1.3, .calls = 5 * US, .apart = 3},
                RS_FINDING_SLOW_RANK);
}

/* From the call to the launch a slow host takes longer than its piece of work does. */
static void a_host_that_is_slow_to_launch_operations_is_fixed(void **state)
{
    (void)state;
    expect_gain((struct job){.even = 1, .odd = 1, .calls = 700 * US}, RS_FINDING_HOST_GAP);
}

/* What is copied on the computing stream is in the way of the operation behind it. */
static void a_copy_that_an_operation_waits_for_is_fixed(void **state)
{
    (void)state;
    expect_gain(
        (struct job){.even = 1, .odd = 1, .calls = 5 * US, .has_copies = true, .copies = 900 * US},
        RS_FINDING_SLOW_RANK);
}

/* What is launched last begins behind an operation, long after its launch: the host has nothing to do with that. */
static void a_host_that_runs_ahead_holds_nothing_up(void **state)
{
    (void)state;
    expect_gain((struct job){.even = 1.3, .odd = 1.3, .calls = 5 * US, .runs_ahead = true},
                RS_FINDING_SLOW_RANK);
}

/* A wait for an event is none for all that was launched: FSDP's hosts stay two layers ahead of their devices. */
static void a_host_that_waits_for_events_holds_nothing_up(void **state)
{
    (void)state;
    expect_gain((struct job){.even = 2, .odd = 2, .calls = 5 * US, .has_events = true},
                RS_FINDING_SLOW_RANK);
}

/* What other stalled ranks load is no measure of what a healthy one does. And what to look at is the gap, not the work behind it. */
static void ranks_that_stall_together_stall_for_data(void **state)
{
    struct job job = {.even = 1, .odd = 1, .calls = 5 * US, .loads = 2000 * US};
    (void)state;
    (void)run(&job, true);
    const struct rs_diagnosis *diagnosis = job.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->finding_count, 1);
    assert_int_equal(diagnosis->findings[0].kind, RS_FINDING_DATA_STALL);
    assert_int_equal(diagnosis->findings[0].place_count, 2);
    assert_int_equal(diagnosis->findings[0].places[0].rank, SLOW);
    fini(&job);
}

/* Of two ranks the one that loads for longer holds a step up, and none of that stays when the loaders are mended. */
static void what_a_stall_varies_by_goes_with_it(void **state)
{
    struct job slow = {
        .even = 1, .odd = 1, .calls = 5 * US, .loads = 2000 * US, .load_varies = true};
    struct job healthy = slow;
    (void)state;
    healthy.loads = 0;
    const rs_dur without = run(&healthy, false);
    const rs_dur gain = run(&slow, true) - without;
    const struct rs_diagnosis *diagnosis = slow.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->finding_count, 1);
    assert_int_equal(diagnosis->findings[0].place_count, 2);
    const rs_dur cost = diagnosis->findings[0].cost_ns_per_step;
    assert_true(gain > 2000 * US);
    assert_true(cost > gain - gain / 12 && cost < gain + gain / 12);
    fini(&slow);
    fini(&healthy);
}

/* A rank that is a little slower in every step is not hit eight times by accident: what falls on another since some step is none either. */
static void a_rank_that_becomes_slow_beside_one_that_always_is(void **state)
{
    struct job job = {
        .even = 1.3, .odd = 1.3, .calls = 5 * US, .since = STEPS - 2, .has_steady = true};
    const struct rs_finding *slow = NULL;
    (void)state;
    (void)run(&job, true);
    const struct rs_diagnosis *diagnosis = job.rig.analysis->diagnosis;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const struct rs_finding *finding = &diagnosis->findings[i];
        assert_int_not_equal(finding->kind, RS_FINDING_IMBALANCE);
        slow = finding->places[0].rank == SLOW ? finding : slow;
    }
    assert_non_null(slow);
    if (slow) { /* the compiler does not know that */
        assert_int_equal(slow->confidence, RS_CONFIDENCE_EXACT);
        assert_true(slow->steps.began);
        assert_int_equal(slow->steps.hit, 3);
    }
    fini(&job);
}

/* A recording that begins in the middle of a step has no host's time between two steps in its first one. */
static void expect_no_beginning(bool is_alone)
{
    struct job slow = {
        .even = 1, .odd = 1, .calls = 5 * US, .loads = 2000 * US, .since = 2, .is_alone = is_alone};
    struct job healthy = slow;
    healthy.loads = 0;
    const rs_dur without = run(&healthy, false);
    const rs_dur gain = (run(&slow, true) - without) * STEPS / (STEPS - 1);
    const struct rs_diagnosis *diagnosis = slow.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->finding_count, 1);
    const struct rs_finding *finding = &diagnosis->findings[0];
    assert_int_equal(finding->place_count, is_alone ? 1 : 2);
    assert_false(finding->steps.began);
    assert_true(finding->cost_ns_per_step > gain - gain / 20);
    assert_true(finding->cost_ns_per_step < gain + gain / 20);
    fini(&slow);
    fini(&healthy);
}

static void what_only_the_first_step_lacks_is_no_beginning(void **state)
{
    (void)state;
    expect_no_beginning(true);
    expect_no_beginning(false);
}

static void what_to_look_at_of_a_host_is_its_gap(void **state)
{
    struct job job = {.even = 1, .odd = 1, .calls = 700 * US};
    const struct rs_evidence *look = NULL;
    (void)state;
    (void)run(&job, true);
    const struct rs_finding *finding = &job.rig.analysis->diagnosis->findings[0];
    assert_int_equal(finding->kind, RS_FINDING_HOST_GAP);
    for (size_t i = 0; i < finding->evidence_count; i++) {
        look = finding->evidence[i].what == RS_EVIDENCE_LOOK_AT ? &finding->evidence[i] : look;
    }
    assert_non_null(look);
    if (look) {
        assert_null(look->name);
        assert_true(look->dur_ns > 600 * US); /* no piece of work is as long */
    }
    fini(&job);
}

static void expect_pauses(const char *pauses, size_t period, enum rs_confidence confidence)
{
    struct job job = {.even = 1, .odd = 1, .calls = 5 * US, .pauses = pauses};
    (void)run(&job, true);
    const struct rs_diagnosis *diagnosis = job.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->finding_count, 1);
    const struct rs_finding *finding = &diagnosis->findings[0];
    assert_int_equal(finding->kind, RS_FINDING_HOST_GAP);
    assert_int_equal(finding->places[0].rank, SLOW);
    assert_int_equal(finding->steps.hit, 2);
    assert_int_equal(finding->steps.period, period);
    assert_int_equal(finding->confidence, confidence);
    fini(&job);
}

/* A rank that saves every third step does so behind a step, and the recording began behind that. */
static void a_beat_before_the_recording_is_not_missed_in_its_first_step(void **state)
{
    (void)state;
    expect_pauses("---x--x-", 3, RS_CONFIDENCE_EXACT);
}

/* Two may fall on one rank by chance. But nobody else has any, and that time is lost there. */
static void few_pauses_of_one_rank_are_a_hint(void **state)
{
    (void)state;
    expect_pauses("--x-x---", 0, RS_CONFIDENCE_WEAK);
}

/* Whom its cost hangs on may be behind the row that is missing. */
static void a_row_that_was_lost_makes_costs_partial(void **state)
{
    struct job job = {.even = 1.3, .odd = 1.3, .calls = 5 * US, .loses = true};
    (void)state;
    (void)run(&job, true);
    const struct rs_diagnosis *diagnosis = job.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->lost_ops, 1);
    assert_int_equal(diagnosis->finding_count, 1);
    assert_int_equal(diagnosis->findings[0].places[0].rank, SLOW);
    assert_int_equal(diagnosis->findings[0].confidence, RS_CONFIDENCE_PARTIAL);
    fini(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_that_is_longer_in_part_is_fixed_where_it_is),
        cmocka_unit_test(work_that_is_longer_everywhere_is_fixed_everywhere),
        cmocka_unit_test(steps_of_another_program_are_fixed_too),
        cmocka_unit_test(a_host_that_is_slow_to_launch_operations_is_fixed),
        cmocka_unit_test(a_copy_that_an_operation_waits_for_is_fixed),
        cmocka_unit_test(a_host_that_runs_ahead_holds_nothing_up),
        cmocka_unit_test(a_host_that_waits_for_events_holds_nothing_up),
        cmocka_unit_test(ranks_that_stall_together_stall_for_data),
        cmocka_unit_test(what_a_stall_varies_by_goes_with_it),
        cmocka_unit_test(a_rank_that_becomes_slow_beside_one_that_always_is),
        cmocka_unit_test(what_only_the_first_step_lacks_is_no_beginning),
        cmocka_unit_test(what_to_look_at_of_a_host_is_its_gap),
        cmocka_unit_test(a_beat_before_the_recording_is_not_missed_in_its_first_step),
        cmocka_unit_test(few_pauses_of_one_rank_are_a_hint),
        cmocka_unit_test(a_row_that_was_lost_makes_costs_partial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
