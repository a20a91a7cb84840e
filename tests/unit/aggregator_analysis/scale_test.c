/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thousand ranks: matched right, and the work grows with operations, not with pairs of ranks. Of eight times the
 * ranks pairs would cost 64 times as much: below 32 times it is no pairs, whatever else the machine does meanwhile.
 * And clocks of hosts, and of files with few rows, that share operations with few others only.
 * And many that are slow together.
 */
#include "aggregator/analysis/analysis.h"
#include "common/base/time.h"
#include "tests/support/make_summary.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RANKS = 1024, TENSOR = 8 };

static struct rs_summary summaries[RANKS];
static const struct rs_summary *lent[RANKS];

/* Half of the operations over all ranks, half over groups of 8; all look alike; starts within 100 us. */
static void make_job(size_t ranks, size_t ops, bool has_seq)
{
    int32_t *world = calloc(ranks, sizeof *world);
    assert_non_null(world);
    for (size_t i = 0; i < ranks; i++) {
        world[i] = (int32_t)i;
    }
    for (size_t s = 0; s < ranks; s++) {
        uint64_t random = s * 77 + 1;
        make_summary_init(&summaries[s], (int32_t)s, "n1");
        lent[s] = &summaries[s];
        const uint32_t all = make_group(&summaries[s], "0", world, ranks);
        const uint32_t few = make_group(&summaries[s], "tp", world + s / TENSOR * TENSOR, TENSOR);
        for (size_t k = 0; k < ops; k++) {
            const rs_ns base = (rs_ns)k * 1000000;
            struct rs_comm_op *op =
                make_op(&summaries[s], RS_OP_ALL_REDUCE,
                        base + make_random_range(&random, 0, 100000), base + 900000);
            op->group = k % 2 ? all : few;
            op->seq = has_seq ? (int64_t)(k / 2) : -1;
        }
    }
    free(world);
}

/* Of this process: what others do on the machine is no matter of ours. */
static rs_ns cpu_time(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (rs_ns)now.tv_sec * RS_NS_PER_S + now.tv_nsec;
}

static rs_dur time_analysis(size_t ranks, size_t ops, bool has_seq)
{
    const struct rs_analysis_options options = {0};
    struct rs_analysis *analysis = NULL;
    make_job(ranks, ops, has_seq);
    const rs_ns start = cpu_time();
    assert_ok(rs_analysis_new(lent, ranks, &options, &analysis, NULL));
    const rs_dur took = cpu_time() - start;
    assert_int_equal(analysis->op_count, ops / 2 + ops / 2 * (ranks / TENSOR));
    assert_int_equal(analysis->row_count, ranks * ops);
    for (size_t i = 0; i < analysis->op_count; i++) {
        assert_true(analysis->ops[i].is_matched);
        assert_int_equal(analysis->ops[i].coverage, RS_COVERAGE_EXACT);
    }
    rs_analysis_free(&analysis);
    for (size_t s = 0; s < ranks; s++) {
        make_summary_fini(&summaries[s]);
    }
    print_message("%zu ranks x %zu operations%s: %.0f ms of CPU\n", ranks, ops,
                  has_seq ? ", numbered" : "", (double)took / 1e6);
    return took;
}

static void work_grows_with_operations(void **state)
{
    (void)state;
    enum { FEWER = 8 };
    for (int numbered = 0; numbered < 2; numbered++) {
        const rs_dur part = time_analysis(RANKS / FEWER, 200, numbered);
        const rs_dur whole = time_analysis(RANKS, 200, numbered);
        assert_true(whole < part * FEWER * FEWER / 2);
    }
}

static void a_million_rows(void **state)
{
    (void)state;
    (void)time_analysis(RANKS, 1000, false);
}

/* Hosts with clocks of their own. All but the last ranks are one shard; each of the last ones shares operations with its replica, 64 ranks
 * below it, and with its like only, as hybrid sharding has it. Whom to hold a clock against has to be found among all ranks. */
enum { SHARD = 768, REPLICAS = 64, SHARDED = SHARD + REPLICAS, PER_HOST = 8 };

static rs_dur clock_of(size_t rank)
{
    return (rs_dur)(rank / PER_HOST) * 37 * RS_NS_PER_MS;
}

static void add_shared(size_t rank, const char *name, const int32_t *members, size_t count,
                       rs_ns from)
{
    enum { STEPS = 5 };
    uint64_t random = rank * 77 + (uint64_t)from + 1;
    const uint32_t group = make_group(&summaries[rank], name, members, count);
    for (int64_t step = 0; step < STEPS; step++) {
        const rs_ns end = clock_of(rank) + step * RS_NS_PER_S + step * step * 1371000 + from;
        struct rs_comm_op *op = make_op(&summaries[rank], RS_OP_ALL_REDUCE,
                                        end - make_random_range(&random, 100000, 900000), end);
        op->group = group;
        op->seq = step;
    }
}

static void make_sharded_job(void)
{
    int32_t shards[SHARDED];
    for (size_t s = 0; s < SHARDED; s++) {
        shards[s] = (int32_t)s;
    }
    for (size_t s = 0; s < SHARDED; s++) {
        char host[16];
        (void)snprintf(host, sizeof host, "n%03zu", s / PER_HOST);
        make_summary_init(&summaries[s], (int32_t)s, host);
        lent[s] = &summaries[s];
        if (s < SHARD) {
            add_shared(s, "shard0", shards, SHARD, 0);
        } else {
            add_shared(s, "shard1", shards + SHARD, REPLICAS, 0);
        }
        if (s >= SHARD - REPLICAS) {
            char name[16];
            const int32_t low = SHARD - REPLICAS + (int32_t)(s % REPLICAS);
            (void)snprintf(name, sizeof name, "replica%zu", s % REPLICAS);
            add_shared(s, name, (int32_t[]){low, low + REPLICAS}, 2, 50 * RS_NS_PER_MS);
        }
    }
}

static void clocks_are_aligned_through_any_rank(void **state)
{
    (void)state;
    const struct rs_analysis_options options = {0};
    struct rs_analysis *analysis = NULL;
    make_sharded_job();
    assert_ok(rs_analysis_new(lent, SHARDED, &options, &analysis, NULL));
    assert_true(analysis->one_clock);
    for (size_t s = 0; s < SHARDED; s++) {
        const rs_dur off = analysis->clocks[s].offset_ns - clock_of(s);
        assert_true(llabs(off) <= analysis->clocks[s].bound_ns);
    }
    for (size_t i = 0; i < analysis->op_count; i++) {
        assert_true(analysis->ops[i].is_matched && analysis->ops[i].has_wait);
    }
    rs_analysis_free(&analysis);
    for (size_t s = 0; s < SHARDED; s++) {
        make_summary_fini(&summaries[s]);
    }
}

/* Files that name no host, rows that have no number. Of the last rank two rows are left, both of its tensor group. */
struct few_job {
    size_t ranks;
    rs_dur apart;        /* operations of a group, one step each */
    rs_dur off;          /* the last rank's clock */
    rs_dur moved;        /* and the second of its rows besides */
    rs_dur apart_within; /* ends of one operation are within */
};

enum { FEW_STEPS = 9, FEW_FIRST = 3, FEW_SECOND = 7 };

static void add_ended(size_t rank, uint32_t group, rs_ns end, rs_dur within)
{
    uint64_t random = rank * 77 + (uint64_t)end;
    struct rs_comm_op *op =
        make_op(&summaries[rank], RS_OP_ALL_REDUCE, end - make_random_range(&random, 20000, 40000),
                end + make_random_range(&random, 0, within));
    op->group = group;
    op->flags = RS_OP_ON_DEVICE;
}

static void make_few_job(const struct few_job *job)
{
    int32_t world[RANKS];
    for (size_t s = 0; s < job->ranks; s++) {
        world[s] = (int32_t)s;
    }
    for (size_t s = 0; s < job->ranks; s++) {
        const bool is_few = s == job->ranks - 1;
        make_summary_init(&summaries[s], (int32_t)s, NULL);
        lent[s] = &summaries[s];
        summaries[s].trace.world_size = (int32_t)job->ranks;
        const uint32_t all = make_group(&summaries[s], "0", world, job->ranks);
        const uint32_t few = make_group(&summaries[s], "tp", world + s / TENSOR * TENSOR, TENSOR);
        for (int64_t k = 0; k < FEW_STEPS; k++) {
            const rs_ns end = RS_NS_PER_S + k * job->apart + k * k * job->apart / 27;
            if (!is_few) {
                add_ended(s, few, end, job->apart_within);
                add_ended(s, all, end + job->apart / 2, job->apart_within);
            } else if (k == FEW_FIRST || k == FEW_SECOND) {
                add_ended(s, few, end + job->off + (k == FEW_SECOND ? job->moved : 0),
                          job->apart_within);
            }
        }
    }
}

/* Whether the last rank's file stands as the others do; they do in any case. */
static bool few_stands(const struct few_job *job)
{
    const struct rs_analysis_options options = {0};
    struct rs_analysis *analysis = NULL;
    make_few_job(job);
    assert_ok(rs_analysis_new(lent, job->ranks, &options, &analysis, NULL));
    for (size_t s = 1; s + 1 < job->ranks; s++) {
        assert_int_equal(analysis->clocks[s].domain, analysis->clocks[0].domain);
        assert_true(llabs(analysis->clocks[s].offset_ns) <= analysis->clocks[s].bound_ns);
    }
    const struct rs_job_clock last = analysis->clocks[job->ranks - 1];
    const bool stands = last.domain == analysis->clocks[0].domain;
    assert_true(stands == analysis->one_clock);
    assert_true(!stands || (last.method == RS_CLOCK_ENDS && last.offset_ns == 0));
    rs_analysis_free(&analysis);
    for (size_t s = 0; s < job->ranks; s++) {
        make_summary_fini(&summaries[s]);
    }
    return stands;
}

static const size_t few_sizes[] = {16, 64, 72, 96, RANKS};
enum { FEW_SIZES = sizeof few_sizes / sizeof few_sizes[0] };

static void two_rows_of_any_group_stand_as_the_others_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < FEW_SIZES; i++) {
        assert_true(few_stands(&(struct few_job){few_sizes[i], RS_NS_PER_MS, 0, 0, 0}));
        assert_true(few_stands(&(struct few_job){few_sizes[i], RS_NS_PER_MS, 0, 0, 2000}));
    }
}

/* In a large job as in a small one. */
static void two_rows_that_fit_by_accident_do_not_stand(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * FEW_SIZES; i++) {
        const size_t ranks = few_sizes[i / 2];
        const rs_dur within = i % 2 * 2000;
        /* another clock */
        assert_false(
            few_stands(&(struct few_job){ranks, RS_NS_PER_MS, 5 * RS_NS_PER_MS, 0, within}));
        /* one of the two ends with a row of its kind */
        assert_false(few_stands(&(struct few_job){ranks, RS_NS_PER_MS, 0, 100000, within}));
        /* both do, but so does a fifth of all instants: that two do has a chance of one to thirty */
        assert_false(few_stands(&(struct few_job){ranks, RS_NS_PER_MS / 10, 0, 0, within}));
    }
}

/* Data parallel. Of a hundred that work longer the others wait for the last: all together are worth fixing, none is alone. One works longer
 * still: it is worth fixing alone, and comes first. */
enum { SLOW_RANKS = 256, SLOW = 100, SLOWEST = 200 };

static rs_dur slow_work(size_t rank, bool has_slowest)
{
    return has_slowest && rank == SLOWEST ? 80 * RS_NS_PER_MS
           : rank < SLOW                  ? 65 * RS_NS_PER_MS
                                          : 50 * RS_NS_PER_MS;
}

static void add_slow_step(int64_t step, bool has_slowest, rs_ns start, uint64_t *random)
{
    rs_ns ready[SLOW_RANKS], last = 0;
    for (size_t s = 0; s < SLOW_RANKS; s++) {
        ready[s] = start + slow_work(s, has_slowest) + make_random_range(random, 0, 200000);
        last = ready[s] > last ? ready[s] : last;
    }
    for (size_t s = 0; s < SLOW_RANKS; s++) {
        const rs_ns end = last + RS_NS_PER_MS + make_random_range(random, 0, 5000);
        struct rs_comm_op *op = make_op(&summaries[s], RS_OP_ALL_REDUCE, ready[s], end);
        op->group = 0;
        op->step = op->seq = step;
        struct rs_step_row *row = make_step(&summaries[s], step, start, last + RS_NS_PER_MS + 5000);
        row->window_computing = ready[s] - start;
        row->window_exposed = end - ready[s];
        row->cpu_ns = row->window_computing;
    }
}

static void many_slow_ranks_are_one_finding(void **state)
{
    (void)state;
    int32_t world[SLOW_RANKS];
    for (size_t s = 0; s < SLOW_RANKS; s++) {
        world[s] = (int32_t)s;
    }
    for (size_t has_slowest = 0; has_slowest < 2; has_slowest++) {
        const struct rs_analysis_options options = {0};
        struct rs_analysis *analysis = NULL;
        uint64_t random = 99;
        for (size_t s = 0; s < SLOW_RANKS; s++) {
            make_summary_init(&summaries[s], (int32_t)s, "n1");
            lent[s] = &summaries[s];
            (void)make_group(&summaries[s], "0", world, SLOW_RANKS);
        }
        for (int64_t step = 0; step < 8; step++) {
            add_slow_step(step, has_slowest, (step + 1) * 100 * RS_NS_PER_MS, &random);
        }
        assert_ok(rs_analysis_new(lent, SLOW_RANKS, &options, &analysis, NULL));
        const struct rs_diagnosis *diagnosis = analysis->diagnosis;
        assert_int_equal(diagnosis->finding_count, 1 + has_slowest);
        assert_int_equal(diagnosis->not_worth_count, 0);
        const struct rs_finding *many = &diagnosis->findings[has_slowest];
        assert_int_equal(many->kind, RS_FINDING_SLOW_RANK);
        assert_int_equal(many->place_count, SLOW);
        assert_in_range(many->cost_ns_per_step, 14 * RS_NS_PER_MS, 16 * RS_NS_PER_MS);
        if (has_slowest) {
            assert_int_equal(diagnosis->findings[0].place_count, 1);
            assert_int_equal(diagnosis->findings[0].places[0].rank, SLOWEST);
        }
        rs_analysis_free(&analysis);
        for (size_t s = 0; s < SLOW_RANKS; s++) {
            make_summary_fini(&summaries[s]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_grows_with_operations),
        cmocka_unit_test(a_million_rows),
        cmocka_unit_test(clocks_are_aligned_through_any_rank),
        cmocka_unit_test(two_rows_of_any_group_stand_as_the_others_do),
        cmocka_unit_test(two_rows_that_fit_by_accident_do_not_stand),
        cmocka_unit_test(many_slow_ranks_are_one_finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
