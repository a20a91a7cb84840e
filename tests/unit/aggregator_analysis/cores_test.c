/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Four ranks without a device that share cores, as PyTorch on CPUs is recorded: a step is a data loader (head), work, an all-reduce
 * that all wait for, and a little work behind it.
 *
 * The scheduler is simulated as it was seen on a crowded machine: it only adds, now to this rank, now to that, and favours one rank
 * less than others for many steps in turn.
 */
#include "common/base/mem.h"
#include "tests/unit/aggregator_analysis/join_rig.h"

enum { RANKS = 4, STEPS = 30, SEEDS = 40, OPERATORS = 400 };

static const rs_ns MS = 1000000;
static const rs_ns US = 1000;

enum trouble { NOTHING, STALL, EVERY_THIRD, MOVES, MORE_TO_DO, THREE_TIMES, SLOWER };

struct writer {
    struct rig rig;
    uint64_t random;
    enum trouble trouble;
    int32_t rank;    /* that has it */
    int32_t crowded; /* loses its core most often */
    rs_ns now[RANKS];
    int64_t order[RANKS];
    uint32_t group[RANKS];
};

static rs_dur up_to(struct writer *w, rs_dur most)
{
    return make_random_range(&w->random, 0, most);
}

/* What the scheduler adds to a stretch of own time. */
static rs_dur held(struct writer *w, int32_t rank, int64_t step)
{
    const bool is_crowded = rank == w->crowded && step >= STEPS / 3;
    const bool is_held = up_to(w, 9) < (is_crowded ? 8 : 3);
    return up_to(w, 100 * US) + (is_held ? up_to(w, 5 * MS) : 0);
}

static rs_dur stall(struct writer *w, int32_t rank, int64_t step, int32_t victim)
{
    const bool is_own = (w->trouble == STALL && rank == w->rank) ||
                        (w->trouble == EVERY_THIRD && rank == w->rank && step % 3 == 1) ||
                        (w->trouble == THREE_TIMES && rank == w->rank && step % 10 == 3) ||
                        (w->trouble == MOVES && rank == victim);
    return is_own ? 14 * MS : 0;
}

static void own_time(struct writer *w, int32_t rank, int64_t step, rs_dur idle, rs_dur busy,
                     int64_t operators)
{
    struct rs_summary *summary = &w->rig.ranks[rank];
    assert_ok(rs_mem_grow((void **)&summary->spans, &summary->span_capacity,
                          summary->span_count + 1, sizeof *summary->spans));
    summary->spans[summary->span_count++] = (struct rs_span_row){.step = step,
                                                                 .device = -1,
                                                                 .stream = -1,
                                                                 .thread = 1,
                                                                 .order = w->order[rank]++,
                                                                 .kind = RS_SPAN_COMPUTING,
                                                                 .launch_first = w->now[rank],
                                                                 .launch_last = w->now[rank],
                                                                 .start = w->now[rank],
                                                                 .end = w->now[rank] + idle + busy,
                                                                 .busy = busy,
                                                                 .count = operators,
                                                                 .top_name = RS_STR_NONE};
    w->now[rank] += idle + busy;
}

static void reduce_all(struct writer *w, int64_t step)
{
    rs_ns end = 0;
    for (int32_t r = 0; r < RANKS; r++) {
        end = w->now[r] > end ? w->now[r] : end;
    }
    for (int32_t r = 0; r < RANKS; r++) {
        struct rs_summary *summary = &w->rig.ranks[r];
        struct rs_comm_op *op = make_op(summary, RS_OP_ALL_REDUCE, w->now[r], end + 4 * MS);
        op->step = step;
        op->device = -1;
        op->caller_thread = 1;
        op->call_order = w->order[r]++;
        op->call_start = w->now[r];
        op->bytes = 1 << 20;
        op->group = w->group[r];
        w->now[r] = end + 4 * MS + up_to(w, 50 * US);
    }
}

static void train(struct writer *w, int64_t step)
{
    const int32_t victim = (int32_t)up_to(w, RANKS - 1);
    rs_ns begin[RANKS];
    rs_dur head[RANKS];
    for (int32_t r = 0; r < RANKS; r++) {
        const bool has_more = w->trouble == MORE_TO_DO && r == w->rank;
        const bool is_slower = w->trouble == SLOWER && r == w->rank;
        begin[r] = w->now[r];
        head[r] = 20 * MS + held(w, r, step) + stall(w, r, step, victim);
        own_time(w, r, step, head[r],
                 8 * MS *
                         (is_slower  ? 4
                          : has_more ? 2
                                     : 1) +
                     held(w, r, step),
                 OPERATORS * (has_more ? 2 : 1));
    }
    reduce_all(w, step);
    for (int32_t r = 0; r < RANKS; r++) {
        own_time(w, r, step, 0, 2 * MS + held(w, r, step), OPERATORS / 4);
        struct rs_step_row *row = make_step(&w->rig.ranks[r], step, begin[r], w->now[r]);
        row->idle_head = head[r];
        row->input_ns = head[r];
    }
}

static void record_steps(struct writer *w, enum trouble trouble, uint64_t seed, int64_t steps)
{
    const int32_t members[RANKS] = {0, 1, 2, 3};
    *w = (struct writer){.random = seed * 0x9e3779b97f4a7c15U + 1,
                         .trouble = trouble,
                         .rank = (int32_t)(seed % RANKS),
                         .crowded = (int32_t)((seed + 1) % RANKS)};
    for (int32_t r = 0; r < RANKS; r++) {
        w->group[r] = make_group(rig_rank(&w->rig, r, "n1"), "world", members, RANKS);
        w->now[r] = 1000 * MS;
    }
    for (int64_t step = 0; step < steps; step++) {
        train(w, step);
    }
}

static void record(struct writer *w, enum trouble trouble, uint64_t seed)
{
    record_steps(w, trouble, seed, STEPS);
}

static const struct rs_diagnosis *diagnose(struct writer *w, enum trouble trouble, uint64_t seed)
{
    record(w, trouble, seed);
    return rig_run(&w->rig, false)->diagnosis;
}

static bool is_common(const struct rs_finding *finding)
{
    return finding->kind == RS_FINDING_JITTER || finding->kind == RS_FINDING_IMBALANCE;
}

/* The one finding above weak that names a rank; NULL: none. More than one fails. */
static const struct rs_finding *named(const struct rs_diagnosis *diagnosis)
{
    const struct rs_finding *found = NULL;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const struct rs_finding *finding = &diagnosis->findings[i];
        if (finding->confidence != RS_CONFIDENCE_WEAK && !is_common(finding)) {
            assert_null(found);
            found = finding;
        }
    }
    return found;
}

/* At least 95 of 100 seeds name the rank, and none names another. */
static void expect_named(enum trouble trouble, enum rs_finding_kind kind, int64_t period)
{
    size_t right = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct writer w;
        const struct rs_finding *finding = named(diagnose(&w, trouble, seed));
        if (finding != NULL) {
            assert_int_equal(finding->place_count, 1);
            assert_int_equal(finding->places[0].rank, w.rank);
            assert_int_equal(finding->kind, kind);
            right += finding->steps.period == period;
        }
        rig_fini(&w.rig);
    }
    assert_true(right * 100 >= SEEDS * 95);
}

static void a_crowded_rank_of_a_healthy_job_is_not_named(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct writer w;
        assert_null(named(diagnose(&w, NOTHING, seed)));
        rig_fini(&w.rig);
    }
}

/* Three pauses of 30 steps are equally far apart by chance, where all beats that could be are counted. */
static void three_pauses_are_no_beat(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct writer w;
        assert_null(named(diagnose(&w, THREE_TIMES, seed)));
        rig_fini(&w.rig);
    }
}

static void a_stall_of_every_step_is_named(void **state)
{
    (void)state;
    expect_named(STALL, RS_FINDING_DATA_STALL, 1);
}

static void a_stall_of_every_third_step_is_named_with_its_beat(void **state)
{
    (void)state;
    expect_named(EVERY_THIRD, RS_FINDING_DATA_STALL, 3);
}

static void a_stall_that_moves_is_jitter_and_nobodys(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct writer w;
        const struct rs_diagnosis *diagnosis = diagnose(&w, MOVES, seed);
        bool has_jitter = false;
        for (size_t i = 0; i < diagnosis->finding_count; i++) {
            has_jitter = has_jitter || diagnosis->findings[i].kind == RS_FINDING_JITTER;
        }
        assert_null(named(diagnosis));
        assert_true(has_jitter);
        rig_fini(&w.rig);
    }
}

/* 8 ms of 34 more by the clock are within what the scheduler does; twice the operators are not its doing. */
static void a_rank_that_runs_more_operators_is_named(void **state)
{
    (void)state;
    expect_named(MORE_TO_DO, RS_FINDING_SLOW_RANK, 1);
    struct writer w;
    const struct rs_finding *finding = named(diagnose(&w, MORE_TO_DO, 1));
    const struct rs_evidence *operators = NULL;
    for (size_t i = 0; finding != NULL && i < finding->evidence_count; i++) {
        operators =
            finding->evidence[i].what == RS_EVIDENCE_KERNELS ? &finding->evidence[i] : operators;
    }
    if (operators == NULL) {
        fail_msg("what it did more is no evidence");
        return;
    }
    assert_int_equal(operators->rank, w.rank);
    assert_int_equal(operators->value, OPERATORS * 2 + OPERATORS / 4);
    assert_int_equal(operators->reference, OPERATORS + OPERATORS / 4);
    rig_fini(&w.rig);
}

/* Four times as long with the same operators: in three steps a crowd may have done that, and it is a hint. In thirty it is named. */
static void a_rank_that_works_longer_in_few_steps_may_be_crowded(void **state)
{
    (void)state;
    size_t hints = 0, asks = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct writer w;
        record_steps(&w, SLOWER, seed, 3);
        const struct rs_diagnosis *diagnosis = rig_run(&w.rig, false)->diagnosis;
        assert_null(named(diagnosis));
        for (size_t i = 0; i < diagnosis->finding_count; i++) {
            const struct rs_finding *hint = &diagnosis->findings[i];
            hints += hint->kind == RS_FINDING_SLOW_RANK && hint->places[0].rank == w.rank;
            asks += hint->more_steps == 1;
        }
        rig_fini(&w.rig);
    }
    assert_true(hints > 0);
    assert_true(asks > 0);
    expect_named(SLOWER, RS_FINDING_SLOW_RANK, 1);
}

/* A summary may say so much of each part of a step; the sum is no number any more. */
static void loading_for_centuries_is_not_summed(void **state)
{
    (void)state;
    struct writer w;
    record(&w, STALL, 1);
    for (size_t r = 0; r < RANKS; r++) {
        for (size_t k = 0; k < w.rig.ranks[r].step_count; k++) {
            w.rig.ranks[r].steps[k].input_ns = w.rig.ranks[r].steps[k].input_inside_ns = INT64_C(1)
                                                                                         << 62;
        }
    }
    assert_non_null(rig_run(&w.rig, false)->diagnosis);
    rig_fini(&w.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowded_rank_of_a_healthy_job_is_not_named),
        cmocka_unit_test(three_pauses_are_no_beat),
        cmocka_unit_test(loading_for_centuries_is_not_summed),
        cmocka_unit_test(a_stall_of_every_step_is_named),
        cmocka_unit_test(a_stall_of_every_third_step_is_named_with_its_beat),
        cmocka_unit_test(a_stall_that_moves_is_jitter_and_nobodys),
        cmocka_unit_test(a_rank_that_runs_more_operators_is_named),
        cmocka_unit_test(a_rank_that_works_longer_in_few_steps_may_be_crowded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
