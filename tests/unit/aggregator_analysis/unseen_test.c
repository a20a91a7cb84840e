/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was not recorded, or not by its name: kernels that communicate under any name, ranks that are missing, how long a transfer took,
 * streams that wait for another, hosts that pause between the launches of one piece of work.
 *
 * Four ranks, two tensor parallel pairs {0,1} {2,3}, two data parallel ones {0,2} {1,3}. A step is LAYERS times work and an
 * operation of the tensor pair, then one of the data pair, then one of all. Rank 2 computes 1.3 times as long.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"
#include "tests/unit/aggregator_analysis/join_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, STEPS = 5, LAYERS = 6, SLOW = 2, WORK_US = 500, STREAM = 7, TENSOR = 20 };
enum { DATA = 24, ALL = 28, COPIES = 41, BARRIER = 45, EXPERTS = 49, HOT = 1, STRAY = 3 };

#define US INT64_C(1000)

struct writer {
    struct rig rig;
    uint64_t random;
    rs_ns now[RANKS], launch[RANKS];
    int64_t order[RANKS];
    uint32_t pair[RANKS], across[RANKS], all[RANKS];
    double factor;
    bool hides; /* the tensor pairs' operation is a kernel of unknown name */
    uint32_t
        others; /* kernels that have nothing to do with anybody, each by itself, before them in every step */
    bool packs;      /* the barrier is on the stream of the work, behind what its call fills */
    int32_t missing; /* -1 nobody */
    bool
        copies; /* a stream of copies waits for the work, and the tensor pair's operation for the copy */
    rs_dur
        pause_us; /* of the slow rank's host in every step, between two launches of its first work */
    bool
        has_barrier; /* at the end of a step the host waits for the stream of its work, and that for a barrier of all */
    bool
        begins_late; /* when the recording begins, work and an operation that were launched before are still under way */
    int64_t since; /* it is slow from this step on, and a little in one step before; 0: always */
    int64_t steps; /* 0: STEPS */
    bool loads;    /* that pause is in the data loader */
    bool slow_is_popular; /* and not HOT */
    double popularity;    /* of rank HOT's expert; 0: there are no experts */
    bool has_even_steps;  /* as many tokens come in every step */
    bool hardly_varies;   /* almost as many */
    uint64_t seed;
    bool is_alone;  /* in having an expert: tokens come to nobody else */
    bool is_skewed; /* of one rank a launch of the first step is noted a little behind its start */
    bool loses;     /* an operation of another rank in one step */
    bool checkpoints; /* every third step: one operation more, and the slow rank pauses then only */
    bool is_ring;     /* they hand blocks round, and all meet at the end of a step */
    bool
        begins_between; /* two ranks are recorded a little earlier, from before an operation of all on */
};

/* Tokens of a rank's expert in a layer of a step: 1 in the mean, more of them for the popular expert, in some jobs always as many. */
static double tokens_of(struct writer *w, int32_t rank)
{
    const double most = w->hardly_varies ? 0.01 : 0.3;
    const double varies =
        w->has_even_steps ? 0 : most * (double)make_random_range(&w->random, -300, 300) / 300;
    return (1 + varies) * (rank == (w->slow_is_popular ? SLOW : HOT) ? w->popularity : 1);
}

static struct rs_span_row *add_span(struct writer *w, int32_t rank, uint8_t kind, rs_ns start,
                                    rs_ns end)
{
    struct rs_summary *summary = &w->rig.ranks[rank];
    assert_ok(rs_mem_grow((void **)&summary->spans, &summary->span_capacity,
                          summary->span_count + 1, sizeof *summary->spans));
    struct rs_span_row *span = &summary->spans[summary->span_count++];
    w->launch[rank] += 5 * US;
    *span = (struct rs_span_row){.device = rank,
                                 .stream = kind == RS_SPAN_HOST_WAIT ? -1 : STREAM,
                                 .thread = 1,
                                 .order = w->order[rank]++,
                                 .kind = kind,
                                 .launch_first = w->launch[rank],
                                 .launch_last = w->launch[rank],
                                 .start = start,
                                 .end = end,
                                 .busy = kind == RS_SPAN_HOST_WAIT ? 0 : end - start,
                                 .count = 3,
                                 .signature = 5,
                                 .top_name = RS_STR_NONE};
    return span;
}

static void work(struct writer *w, int64_t step, int32_t rank, rs_dur us)
{
    const rs_dur noise = make_random_range(&w->random, -us * US / 50, us * US / 50);
    const double part = step >= w->since ? 1 : step == STRAY ? 0.2 : 0;
    const double factor = rank == SLOW ? 1 + part * (w->factor - 1) : 1;
    const rs_dur took = (rs_dur)((double)(us * US + noise) * factor);
    add_span(w, rank, RS_SPAN_COMPUTING, w->now[rank], w->now[rank] + took)->step = step;
    w->now[rank] += took;
}

/* The host launches the last row of the newest span so much later that the device is idle for a while. */
static void pause_host(struct writer *w, int32_t rank)
{
    struct rs_summary *summary = &w->rig.ranks[rank];
    struct rs_span_row *span = &summary->spans[summary->span_count - 1];
    span->end += w->pause_us * US;
    span->launch_last = span->end - 10 * US;
    w->launch[rank] = span->launch_last;
    w->now[rank] = span->end;
}

static void copy(struct writer *w, int64_t step, int32_t rank)
{
    struct rs_span_row *span =
        add_span(w, rank, RS_SPAN_COMPUTING, w->now[rank] + 2 * US, w->now[rank] + 12 * US);
    span->step = step;
    span->stream = COPIES;
    span->signature = 6;
    w->now[rank] = span->end + US;
}

static void add_op(struct writer *w, int64_t step, int32_t rank, int64_t stream, uint32_t group,
                   rs_ns end)
{
    struct rs_summary *summary = &w->rig.ranks[rank];
    w->launch[rank] += 5 * US;
    struct rs_comm_op *op = make_op(
        summary, stream == EXPERTS ? RS_OP_ALL_TO_ALL : RS_OP_ALL_REDUCE, w->now[rank], end);
    op->step = step;
    op->flags = RS_OP_ON_DEVICE;
    op->device = rank;
    op->stream = stream;
    op->caller_thread = 1;
    op->call_order = w->order[rank]++;
    op->call_start = w->launch[rank];
    op->bytes = 1000 * stream;
    op->group = group;
}

/* The members of `mask` meet: nobody ends before the last has come. */
static void meet(struct writer *w, int64_t step, unsigned mask, int64_t stream, rs_dur us)
{
    rs_ns last = 0;
    for (int32_t r = 0; r < RANKS; r++) {
        last = (mask >> r & 1) != 0 && w->now[r] > last ? w->now[r] : last;
    }
    for (int32_t r = 0; r < RANKS; r++) {
        const rs_ns end = last + us * US + make_random_range(&w->random, 0, 900);
        const uint32_t group = stream == TENSOR ? w->pair[r]
                               : stream == DATA ? w->across[r]
                                                : w->all[r];
        if ((mask >> r & 1) == 0) {
            continue;
        }
        if (stream == TENSOR && w->hides) {
            struct rs_span_row *span = add_span(w, r, RS_SPAN_COMPUTING, w->now[r], end);
            span->step = step;
            span->stream = TENSOR;
            span->count = 1;
            span->signature = 99;
            if (w->is_skewed && step == 1 && r == STRAY) {
                span->launch_first = span->launch_last = span->start + US;
            }
        } else {
            add_op(w, step, r, stream, group, end);
        }
        w->now[r] = end;
    }
}

/* The barrier's call fills a tensor first: on a stream of its own, or on that of the work. */
static void pack_and_meet(struct writer *w, int64_t step)
{
    rs_ns came[RANKS];
    for (int32_t r = 0; r < RANKS; r++) {
        came[r] = w->now[r];
        w->now[r] += w->packs ? 10 * US : 0;
    }
    meet(w, step, 15, w->packs ? STREAM : BARRIER, 20);
    for (int32_t r = 0; r < RANKS && w->packs; r++) {
        add_span(w, r, RS_SPAN_COMPUTING, came[r] + US, came[r] + 9 * US)->step = step;
    }
}

/* Of each rank an operation of the step before, on a stream of its own, and a kernel, which the first work's launch takes up. */
static void leave_over(struct writer *w, int64_t step)
{
    for (int32_t r = 0; r < RANKS; r++) {
        add_op(w, step, r, DATA, w->across[r], w->now[r] + 30 * US);
        struct rs_summary *summary = &w->rig.ranks[r];
        struct rs_comm_op *op = &summary->ops[summary->op_count - 1];
        op->call_start = op->start;
        w->now[r] += 40 * US;
    }
}

/* Tokens go to the experts of all ranks and come back: what a rank gives back says how many had come. */
static void ask_experts(struct writer *w, int64_t step)
{
    double tokens[RANKS];
    meet(w, step, 15, EXPERTS, 40);
    for (int32_t r = 0; r < RANKS; r++) {
        tokens[r] = tokens_of(w, r);
        work(w, step, r, (rs_dur)(300 * tokens[r]));
    }
    meet(w, step, 15, EXPERTS, 40);
    for (int32_t r = 0; r < RANKS; r++) {
        struct rs_summary *summary = &w->rig.ranks[r];
        summary->ops[summary->op_count - 1].bytes =
            w->is_alone && r != HOT ? 0 : (int64_t)(4e6 * tokens[r]);
    }
}

/* Each rank hands a block to the next and takes one from that before, until each has had all. */
static void hand_round(struct writer *w, int64_t step)
{
    for (int turn = 1; turn < RANKS; turn++) {
        rs_ns sent[RANKS], came[RANKS];
        for (int32_t r = 0; r < RANKS; r++) {
            came[r] = w->now[r];
        }
        for (int32_t r = 0; r < RANKS; r++) {
            const int32_t from = (r + RANKS - 1) % RANKS;
            sent[r] = (came[r] > came[from] ? came[r] : came[from]) + 20 * US +
                      make_random_range(&w->random, 0, 900);
        }
        for (int32_t r = 0; r < RANKS; r++) {
            struct rs_summary *summary = &w->rig.ranks[r];
            for (int side = 0; side < 2; side++) {
                const int32_t peer = (r + (side == 0 ? 1 : RANKS - 1)) % RANKS;
                add_op(w, step, r, TENSOR + side, w->all[r], side == 0 ? sent[peer] : sent[r]);
                struct rs_comm_op *op = &summary->ops[summary->op_count - 1];
                op->type = side == 0 ? RS_OP_SEND : RS_OP_RECV;
                op->peer = peer;
                op->bytes = 4096;
            }
            w->now[r] = sent[r] > sent[(r + 1) % RANKS] ? sent[r] : sent[(r + 1) % RANKS];
        }
    }
}

static void train(struct writer *w, int64_t step)
{
    rs_ns start[RANKS];
    for (int32_t r = 0; r < RANKS; r++) {
        start[r] = w->now[r];
        w->launch[r] = w->now[r] + 50 * US;
        w->now[r] += 60 * US;
    }
    if (w->begins_late && step == 1) {
        leave_over(w, step);
    }
    for (int32_t r = 0; r < RANKS; r++) {
        for (uint32_t k = 0; k < w->others; k++) {
            work(w, step, r, 3);
            struct rs_summary *summary = &w->rig.ranks[r];
            summary->spans[summary->span_count - 1].count = 1;
            summary->spans[summary->span_count - 1].signature = 1000 + k;
        }
    }
    for (int l = 0; l < LAYERS; l++) {
        for (int32_t r = 0; r < RANKS; r++) {
            work(w, step, r, WORK_US);
            if (r == SLOW && l == 0 && w->pause_us > 0 && (!w->checkpoints || step % 3 == 0)) {
                pause_host(w, r);
            }
            if (w->copies) {
                copy(w, step, r);
            }
        }
        if (w->popularity > 0) {
            ask_experts(w, step);
        }
        if (w->is_ring) {
            hand_round(w, step);
            continue;
        }
        if (w->begins_between) {
            meet(w, step, 15, ALL, 60);
            continue;
        }
        meet(w, step, 3, TENSOR, 60);
        meet(w, step, 12, TENSOR, 60);
    }
    if (!w->begins_between && !w->is_ring) {
        meet(w, step, 5, DATA, 200);
        meet(w, step, 10, DATA, 200);
    }
    meet(w, step, 15, ALL, 20);
    if (w->checkpoints && step % 3 == 0) {
        meet(w, step, 15, ALL, 20);
    }
    for (int32_t r = 0; r < RANKS; r++) {
        work(w, step, r, 100);
    }
    if (w->has_barrier) {
        for (int32_t r = 0; r < RANKS; r++) {
            work(w, step, r, 2 * WORK_US);
        }
        pack_and_meet(w, step);
    }
    for (int32_t r = 0; r < RANKS; r++) {
        struct rs_span_row *wait = add_span(w, r, RS_SPAN_HOST_WAIT, w->launch[r], w->now[r]);
        wait->step = step;
        if (w->has_barrier) {
            wait->device = r;
            wait->stream = STREAM;
            wait->end += 3 * US;
            w->now[r] = wait->end;
        }
        wait->launch_first = wait->launch_last = wait->start;
        w->now[r] += 5 * US;
        struct rs_step_row *row = make_step(&w->rig.ranks[r], step, start[r], w->now[r]);
        row->device = r;
        if (w->loads) {
            row->input_ns = 20 * US;
            row->input_inside_ns = r == SLOW ? w->pause_us * US : 0;
        }
    }
}

static uint32_t add_group(struct writer *w, int32_t rank, const char *name, int32_t a, int32_t b)
{
    const int32_t ranks[] = {a, b};
    return make_group(&w->rig.ranks[rank], name, ranks, 2);
}

static void lose_operation(struct rs_summary *summary, int64_t step)
{
    size_t at = 0;
    while (summary->ops[at].step != step) {
        at++;
    }
    summary->op_count--;
    memmove(&summary->ops[at], &summary->ops[at + 1],
            (summary->op_count - at) * sizeof *summary->ops);
}

/* Mean step in ns; the rig is analysed when `asks`. */
static rs_dur run_writer(struct writer *w, bool asks)
{
    static const int32_t everybody[] = {0, 1, 2, 3};
    static const char *const names[] = {"1", "1", "2", "2", "3", "4", "3", "4"};
    w->random = 77 + w->seed;
    for (int32_t r = 0; r < RANKS; r++) {
        struct rs_summary *summary = rig_rank(&w->rig, r, "a");
        summary->trace.world_size = RANKS;
        summary->devices = rs_mem_calloc(1, sizeof *summary->devices);
        assert_non_null(summary->devices);
        summary->device_count = 1;
        summary->devices[0].device = r;
        w->all[r] = make_group(summary, "0", everybody, RANKS);
        w->pair[r] = add_group(w, r, names[r], r / 2 * 2, r / 2 * 2 + 1);
        w->across[r] = add_group(w, r, names[RANKS + r], r % 2, r % 2 + 2);
        w->now[r] = 1000 * US;
        summary->span_start = w->now[r];
    }
    for (int32_t r = 0; r < RANKS && w->begins_between; r++) {
        w->now[r] += 40 * US;
        if (r % 2 == 0) {
            add_op(w, 0, r, ALL, w->all[r], w->now[r] + 20 * US);
        }
        w->now[r] += 20 * US;
    }
    const int64_t steps = w->steps > 0 ? w->steps : STEPS;
    for (int64_t k = 1; k <= steps; k++) {
        train(w, k);
    }
    if (w->loses) {
        lose_operation(&w->rig.ranks[STRAY], 3);
    }
    if (w->missing >= 0) {
        for (size_t i = (size_t)w->missing; i + 1 < w->rig.count; i++) {
            w->rig.lent[i] = w->rig.lent[i + 1];
        }
        w->rig.count--;
    }
    if (asks) {
        (void)rig_run(&w->rig, false);
    }
    return (w->now[0] - 1000 * US) / STEPS;
}

static void fini_writer(struct writer *w)
{
    w->rig.count = RANKS;
    for (int32_t r = 0; r < RANKS; r++) {
        rs_mem_free(w->rig.ranks[r].devices);
        w->rig.ranks[r].devices = NULL;
    }
    rig_fini(&w->rig);
}

/* Rank 2 and nobody else is named, and what fixing it brings is what a run without it takes less. */
static void expect_rank(struct writer slow, enum rs_finding_kind kind)
{
    struct writer healthy = slow;
    healthy.factor = 1;
    healthy.pause_us = 0;
    const rs_dur without = run_writer(&healthy, false);
    const rs_dur gain = run_writer(&slow, true) - without;
    const struct rs_diagnosis *diagnosis = slow.rig.analysis->diagnosis;
    assert_true(gain > LAYERS * 100 * US);
    assert_int_equal(diagnosis->finding_count, 1);
    const struct rs_finding *finding = &diagnosis->findings[0];
    assert_int_equal(finding->kind, kind);
    assert_int_equal(finding->place_count, 1);
    assert_int_equal(finding->places[0].rank, SLOW);
    assert_int_not_equal(finding->confidence, RS_CONFIDENCE_WEAK);
    assert_true(finding->cost_ns_per_step > gain - gain / 10);
    assert_true(finding->cost_ns_per_step < gain + gain / 10);
    assert_true(slow.missing >= 0 || diagnosis->replay.unexplained_share < 0.01);
    assert_int_equal(finding->steps.hit, STEPS);
    fini_writer(&slow);
    fini_writer(&healthy);
}

static void expect_slow_rank(bool hides, int32_t missing)
{
    expect_rank((struct writer){.factor = 1.3, .hides = hides, .missing = missing},
                RS_FINDING_SLOW_RANK);
}

/* What the operation waits for is a copy, and the copy waits for the work by an event that was not recorded. */
static void a_stream_that_waits_for_another_passes_on_its_delay(void **state)
{
    (void)state;
    expect_rank((struct writer){.factor = 1.3, .missing = -1, .copies = true},
                RS_FINDING_SLOW_RANK);
}

/* Nothing parts the work at the pause: that its last row was launched late says where the time went. */
static void a_host_that_pauses_inside_a_piece_of_work_is_named(void **state)
{
    (void)state;
    expect_rank((struct writer){.factor = 1, .missing = -1, .pause_us = 900}, RS_FINDING_HOST_GAP);
}

/* The next micro batch is loaded when work is launched already, or after zero_grad. */
static void a_host_that_loads_data_within_a_step_stalls(void **state)
{
    (void)state;
    expect_rank((struct writer){.factor = 1, .missing = -1, .pause_us = 900, .loads = true},
                RS_FINDING_DATA_STALL);
}

/* The step ends with a barrier that only an event ties to the stream that the host waits for: the next step follows it. */
static void a_host_that_waits_for_a_barrier_passes_on_its_delay(void **state)
{
    (void)state;
    expect_rank((struct writer){.factor = 1.3, .missing = -1, .has_barrier = true},
                RS_FINDING_SLOW_RANK);
}

/* What the call launches before its operation is behind it in the order of launches, and no later work of the stream. */
static void a_barrier_on_the_stream_of_the_work_passes_on_its_delay(void **state)
{
    (void)state;
    expect_rank((struct writer){.factor = 1.3, .missing = -1, .has_barrier = true, .packs = true},
                RS_FINDING_SLOW_RANK);
}

/* An operation more at the head of the first step does not make it a step of another program. */
static void what_was_launched_before_the_recording_is_no_part_of_its_program(void **state)
{
    (void)state;
    expect_rank((struct writer){.factor = 1.3, .missing = -1, .copies = true, .begins_late = true},
                RS_FINDING_SLOW_RANK);
}

/* To one rank's expert come more tokens: the others wait for it, and it is not slow. */
static void expect_more_to_do(bool has_even_steps, enum rs_confidence confidence)
{
    struct writer w = {
        .factor = 1, .missing = -1, .popularity = 1.5, .has_even_steps = has_even_steps};
    (void)run_writer(&w, true);
    const struct rs_diagnosis *diagnosis = w.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->finding_count, 1);
    const struct rs_finding *finding = &diagnosis->findings[0];
    assert_int_equal(finding->kind, RS_FINDING_IMBALANCE);
    assert_int_equal(finding->place_count, 1);
    assert_int_equal(finding->places[0].rank, HOT);
    assert_int_equal(finding->confidence, confidence);
    assert_int_equal(finding->evidence[0].what, RS_EVIDENCE_LOAD);
    assert_true(finding->evidence[0].value > finding->evidence[0].reference * 5 / 4);
    fini_writer(&w);
}

static void a_rank_with_a_popular_expert_is_not_slow(void **state)
{
    (void)state;
    expect_more_to_do(false, RS_CONFIDENCE_EXACT);
    expect_more_to_do(true, RS_CONFIDENCE_WEAK);
}

/* Of some places noise hides that they follow the load, of others not: that is no reason to call the rank slow. */
static void a_load_that_hardly_varies_makes_nobody_slow(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct writer w = {.factor = 1,
                           .missing = -1,
                           .popularity = 1.5,
                           .hardly_varies = true,
                           .seed = seed * 7919,
                           .steps = 10};
        (void)run_writer(&w, true);
        const struct rs_diagnosis *diagnosis = w.rig.analysis->diagnosis;
        assert_int_equal(diagnosis->finding_count, 1);
        assert_int_equal(diagnosis->findings[0].kind, RS_FINDING_IMBALANCE);
        assert_int_equal(diagnosis->findings[0].places[0].rank, HOT);
        fini_writer(&w);
    }
}

/* As many times as much as nothing is as many as you like. */
static void a_load_that_comes_to_one_rank_only_makes_it_not_slow(void **state)
{
    (void)state;
    struct writer w = {.factor = 1, .missing = -1, .popularity = 1.5, .is_alone = true};
    (void)run_writer(&w, true);
    const struct rs_diagnosis *diagnosis = w.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->finding_count, 1);
    assert_int_equal(diagnosis->findings[0].kind, RS_FINDING_IMBALANCE);
    assert_int_equal(diagnosis->findings[0].places[0].rank, HOT);
    assert_int_equal(diagnosis->findings[0].evidence[0].what, RS_EVIDENCE_LOAD);
    assert_int_equal(diagnosis->findings[0].evidence[0].reference, 0);
    fini_writer(&w);
}

/* What is known of the load in the other steps holds in that one as well. */
static void a_load_that_is_not_known_in_one_step_is_told_once(void **state)
{
    (void)state;
    struct writer w = {.factor = 1, .missing = -1, .popularity = 3, .loses = true};
    (void)run_writer(&w, true);
    const struct rs_diagnosis *diagnosis = w.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->finding_count, 1);
    assert_int_equal(diagnosis->findings[0].evidence[0].what, RS_EVIDENCE_LOAD);
    fini_writer(&w);
}

/* A fifth more comes to the slow rank, in every step: that does not make it twice as slow, whatever the load takes. */
static void a_rank_far_slower_than_its_load_is_named(void **state)
{
    (void)state;
    struct writer w = {.factor = 2,
                       .missing = -1,
                       .popularity = 1.2,
                       .has_even_steps = true,
                       .slow_is_popular = true};
    (void)run_writer(&w, true);
    const struct rs_diagnosis *diagnosis = w.rig.analysis->diagnosis;
    assert_true(diagnosis->finding_count > 0);
    assert_int_equal(diagnosis->findings[0].kind, RS_FINDING_SLOW_RANK);
    assert_int_equal(diagnosis->findings[0].places[0].rank, SLOW);
    assert_int_equal(diagnosis->findings[0].confidence, RS_CONFIDENCE_BOUNDED);
    fini_writer(&w);
}

static void a_slow_rank_beside_a_popular_expert_is_named(void **state)
{
    (void)state;
    struct writer w = {.factor = 1.3, .missing = -1, .popularity = 1.5};
    (void)run_writer(&w, true);
    const struct rs_diagnosis *diagnosis = w.rig.analysis->diagnosis;
    size_t slow = 0;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const struct rs_finding *finding = &diagnosis->findings[i];
        slow += finding->kind == RS_FINDING_SLOW_RANK;
        assert_true(finding->kind == RS_FINDING_IMBALANCE || finding->places[0].rank == SLOW);
        assert_true(finding->kind == RS_FINDING_IMBALANCE ||
                    fabs(finding->test.factor - 1.3) < 0.03);
    }
    assert_int_equal(slow, 1);
    fini_writer(&w);
}

/* Slow from a step on, healthy before but for a little in one step: since that, not since this. */
static void a_rank_that_becomes_slow_is_told_since_when(void **state)
{
    (void)state;
    struct writer w = {.factor = 1.3, .missing = -1, .since = 7, .steps = 12};
    (void)run_writer(&w, true);
    const struct rs_diagnosis *diagnosis = w.rig.analysis->diagnosis;
    assert_true(diagnosis->finding_count > 0);
    const struct rs_finding *finding = &diagnosis->findings[0];
    assert_int_equal(finding->kind, RS_FINDING_SLOW_RANK);
    assert_int_equal(finding->places[0].rank, SLOW);
    assert_int_equal(finding->steps.first, 7);
    assert_true(finding->steps.began);
    fini_writer(&w);
}

static void slow_rank_among_named_operations(void **state)
{
    (void)state;
    expect_slow_rank(false, -1);
}

/* Rank 3 waits for rank 2 in a kernel that says nothing of it: rank 3 is not slow, nor is their half of the job. */
static void a_kernel_that_waits_for_its_partner_is_no_work(void **state)
{
    (void)state;
    expect_slow_rank(true, -1);
}

/* Nor where one is noted to start before its launch: it is an operation of that step as well. */
static void a_kernel_that_waits_is_found_beside_a_clock_that_is_a_little_off(void **state)
{
    (void)state;
    struct writer w = {.factor = 1.3,
                       .hides = true,
                       .is_skewed = true,
                       .missing = -1,
                       .rig = {.keeps_spans = true}};
    (void)run_writer(&w, true);
    struct diag_model model = {.step_count = 0};
    assert_ok(diag_build(w.rig.analysis, &model));
    uint32_t most[RANKS][STEPS] = {0};
    for (size_t i = 0; i < model.item_count; i++) {
        const struct diag_item *item = &model.items[i];
        uint32_t *own = &most[item->worker][item->step];
        *own = item->position > *own ? item->position : *own;
    }
    for (size_t k = 0; k < STEPS; k++) {
        assert_int_equal(most[STRAY][k], most[0][k]);
        assert_int_equal(most[STRAY][k], most[STRAY][1]);
    }
    diag_model_fini(&model);
    fini_writer(&w);
}

/* Nor where a program has many kernels. */
static void a_kernel_that_waits_is_found_among_many(void **state)
{
    (void)state;
    expect_rank((struct writer){.factor = 1.3, .hides = true, .others = 100, .missing = -1},
                RS_FINDING_SLOW_RANK);
}

static void kernels_that_wait_name_nobody_in_a_healthy_job(void **state)
{
    (void)state;
    struct writer w = {.factor = 1, .hides = true, .missing = -1};
    (void)run_writer(&w, true);
    assert_int_equal(w.rig.analysis->diagnosis->finding_count, 0);
    fini_writer(&w);
}

/* Rank 1 waits for rank 3, which nobody recorded, and which waited for rank 2 before: the gain goes through it. */
static void a_missing_rank_passes_on_what_it_waited_for(void **state)
{
    (void)state;
    expect_slow_rank(false, 3);
}

static size_t timed_transfers(const struct rs_analysis *analysis)
{
    struct diag_model model = {.step_count = 0};
    assert_ok(diag_build(analysis, &model));
    const size_t count = model.move_count;
    diag_model_fini(&model);
    return count;
}

/* Two ranks stand on another host: of what they share with the others nobody knows how long it took, unless clocks are known well enough. */
static void a_transfer_is_timed_by_clocks_that_are_known(void **state)
{
    static const struct {
        rs_dur bound;
        size_t in_a_step;
    } cases[] = {{0, 2 * LAYERS + 3}, {US / 2, 2 * LAYERS + 3}, {1000 * US, 2 * LAYERS}};
    struct writer w = {.rig = {.keeps_spans = true}, .factor = 1, .missing = -1};
    (void)state;
    (void)run_writer(&w, true);
    for (size_t i = 0; i < 3; i++) {
        for (size_t s = 2; s < RANKS; s++) {
            w.rig.analysis->clocks[s].clock = w.rig.analysis->clocks[0].clock + 1;
            w.rig.analysis->clocks[s].bound_ns = cases[i].bound;
        }
        assert_int_equal(timed_transfers(w.rig.analysis), STEPS * cases[i].in_a_step);
    }
    fini_writer(&w);
}

/* The group's first operation has two of its four members. All four are its class all the same. */
static void who_is_recorded_later_belongs_to_its_group(void **state)
{
    struct writer w = {.factor = 1.3, .missing = -1, .begins_between = true};
    (void)state;
    (void)run_writer(&w, true);
    const struct rs_diagnosis *diagnosis = w.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->finding_count, 1);
    assert_int_equal(diagnosis->findings[0].places[0].rank, SLOW);
    assert_int_equal(diagnosis->judged_ranks, RANKS);
    for (size_t i = 0; i < diagnosis->unjudged_count; i++) {
        assert_int_not_equal(diagnosis->unjudged[i].why, RS_UNJUDGED_NO_PEERS);
    }
    fini_writer(&w);
}

/* All of them send and receive in the same order: no pipeline, they are held against each other. */
static void a_slow_rank_of_a_ring_is_named(void **state)
{
    struct writer w = {.factor = 1.3, .missing = -1, .is_ring = true};
    (void)state;
    (void)run_writer(&w, true);
    const struct rs_diagnosis *diagnosis = w.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->finding_count, 1);
    assert_int_equal(diagnosis->findings[0].kind, RS_FINDING_SLOW_RANK);
    assert_int_equal(diagnosis->findings[0].places[0].rank, SLOW);
    assert_int_equal(diagnosis->judged_ranks, RANKS);
    fini_writer(&w);
}

/* Steps of another program are nothing to hold their work against, but all ranks have them. */
static void a_host_that_pauses_at_every_checkpoint_is_named(void **state)
{
    struct writer w = {
        .factor = 1, .missing = -1, .steps = 30, .pause_us = 2000, .checkpoints = true};
    (void)state;
    (void)run_writer(&w, true);
    const struct rs_diagnosis *diagnosis = w.rig.analysis->diagnosis;
    assert_int_equal(diagnosis->finding_count, 1);
    assert_int_equal(diagnosis->findings[0].kind, RS_FINDING_HOST_GAP);
    assert_int_equal(diagnosis->findings[0].places[0].rank, SLOW);
    assert_int_equal(diagnosis->findings[0].steps.period, 3);
    assert_true(llabs(diagnosis->findings[0].cost_ns_per_step - 2000 * US / 3) < 100 * US);
    fini_writer(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_rank_among_named_operations),
        cmocka_unit_test(a_kernel_that_waits_for_its_partner_is_no_work),
        cmocka_unit_test(a_kernel_that_waits_is_found_among_many),
        cmocka_unit_test(a_kernel_that_waits_is_found_beside_a_clock_that_is_a_little_off),
        cmocka_unit_test(kernels_that_wait_name_nobody_in_a_healthy_job),
        cmocka_unit_test(a_missing_rank_passes_on_what_it_waited_for),
        cmocka_unit_test(a_transfer_is_timed_by_clocks_that_are_known),
        cmocka_unit_test(a_stream_that_waits_for_another_passes_on_its_delay),
        cmocka_unit_test(a_host_that_pauses_inside_a_piece_of_work_is_named),
        cmocka_unit_test(a_rank_with_a_popular_expert_is_not_slow),
        cmocka_unit_test(a_load_that_hardly_varies_makes_nobody_slow),
        cmocka_unit_test(a_load_that_is_not_known_in_one_step_is_told_once),
        cmocka_unit_test(a_load_that_comes_to_one_rank_only_makes_it_not_slow),
        cmocka_unit_test(a_slow_rank_beside_a_popular_expert_is_named),
        cmocka_unit_test(a_rank_far_slower_than_its_load_is_named),
        cmocka_unit_test(a_rank_that_becomes_slow_is_told_since_when),
        cmocka_unit_test(a_host_that_loads_data_within_a_step_stalls),
        cmocka_unit_test(a_host_that_waits_for_a_barrier_passes_on_its_delay),
        cmocka_unit_test(a_barrier_on_the_stream_of_the_work_passes_on_its_delay),
        cmocka_unit_test(what_was_launched_before_the_recording_is_no_part_of_its_program),
        cmocka_unit_test(who_is_recorded_later_belongs_to_its_group),
        cmocka_unit_test(a_slow_rank_of_a_ring_is_named),
        cmocka_unit_test(a_host_that_pauses_at_every_checkpoint_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
