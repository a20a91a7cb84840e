/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who did not arrive: small jobs built call by call, each with what must be said of it. All dumps are taken 600 s after the
 * last call unless said otherwise.
 */
#include "aggregator/analysis/hang/hang.h"

#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 4 };

struct job {
    struct rs_flight_set set;
    int64_t now;
};

static rs_str id(struct job *job, const char *text)
{
    rs_str value;
    assert_ok(rs_strtab_add(&job->set.strings, text, strlen(text), &value));
    return value;
}

static void begin(struct job *job, int32_t rank)
{
    struct rs_flight_dump *dump;
    assert_ok(rs_flight_begin(&job->set, "test", &dump));
    dump->rank = rank;
    dump->backend = id(job, "nccl");
    job->now = 1000000000000;
}

static uint32_t group(struct job *job, const char *name, const char *desc, const int32_t *ranks,
                      size_t count)
{
    uint32_t index;
    assert_ok(rs_flight_group_of(&job->set, id(job, name), id(job, desc), &index));
    struct rs_flight_group *about = &job->set.dumps[job->set.dump_count - 1].groups[index];
    about->ranks = rs_mem_calloc(count, sizeof *about->ranks);
    memcpy(about->ranks, ranks, count * sizeof *ranks);
    about->rank_count = count;
    return index;
}

static const int32_t everybody[RANKS] = {0, 1, 2, 3};

static uint32_t world(struct job *job)
{
    return group(job, "0", "default_pg", everybody, RANKS);
}

static struct rs_flight_entry *call(struct job *job, uint32_t in, int64_t seq, bool is_done)
{
    struct rs_flight_dump *dump = &job->set.dumps[job->set.dump_count - 1];
    job->now += 1000000;
    const struct rs_flight_entry entry = {.record_id = (int64_t)dump->entry_count + 100,
                                          .seq = seq,
                                          .group = in,
                                          .op = RS_FLIGHT_ALL_REDUCE,
                                          .name = id(job, "nccl:all_reduce"),
                                          .sizes = id(job, "[16]"),
                                          .in_numel = 16,
                                          .out_numel = 16,
                                          .created_ns = job->now,
                                          .started_ns = RS_FLIGHT_UNKNOWN,
                                          .completed_ns = RS_FLIGHT_UNKNOWN,
                                          .duration_ns = RS_FLIGHT_UNKNOWN,
                                          .timeout_ns = RS_FLIGHT_UNKNOWN,
                                          .peer_src = -1,
                                          .peer_dst = -1,
                                          .state =
                                              is_done ? RS_FLIGHT_COMPLETED : RS_FLIGHT_SCHEDULED};
    assert_ok(rs_flight_add(&job->set, &entry));
    return &job->set.entries[job->set.entry_count - 1];
}

static void end(struct job *job, int64_t after_ns)
{
    job->set.dumps[job->set.dump_count - 1].taken_ns = job->now + after_ns;
    rs_flight_end(&job->set);
}

#define LONG_AFTER INT64_C(600000000000)

/* Collectives first..done are over, `open` more are not. */
static void rank_of_world(struct job *job, int32_t rank, int64_t first, int64_t done, int open,
                          int64_t after_ns)
{
    begin(job, rank);
    const uint32_t in = world(job);
    for (int64_t seq = first; seq <= done; seq++)
        (void)call(job, in, seq, true);
    for (int i = 0; i < open; i++)
        (void)call(job, in, done + 1 + i, false);
    end(job, after_ns);
}

static struct rs_hang *judge(struct job *job)
{
    struct rs_hang *hang;
    struct rs_err err = {0};
    assert_ok(rs_flight_set_sort(&job->set));
    assert_ok(rs_hang_new(&job->set, NULL, &hang, &err));
    return hang;
}

static void close_job(struct job *job, struct rs_hang *hang)
{
    rs_hang_free(&hang);
    rs_flight_set_fini(&job->set);
}

static void assert_named(const struct rs_hang *hang, enum rs_finding_kind kind, int32_t rank)
{
    assert_int_equal(hang->state, RS_HANG_HUNG);
    assert_int_equal(hang->finding_count, 1);
    assert_int_equal(hang->findings[0].kind, kind);
    assert_int_equal(hang->findings[0].places[0].rank, rank);
}

static void who_did_not_call_is_named(void **state)
{
    (void)state;
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < RANKS; rank++)
        rank_of_world(&job, rank, 1, 10, rank != 3, LONG_AFTER);
    struct rs_hang *hang = judge(&job);
    assert_named(hang, RS_FINDING_HANG, 3);
    assert_int_equal(hang->findings[0].confidence, RS_CONFIDENCE_EXACT);
    close_job(&job, hang);
}

static void what_a_ring_dropped_is_not_missing(void **state)
{
    (void)state;
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    rank_of_world(&job, 0, 1, 40, 0, LONG_AFTER);
    rank_of_world(&job, 1, 30, 40, 0, LONG_AFTER);
    rank_of_world(&job, 2, 5, 40, 0, LONG_AFTER);
    rank_of_world(&job, 3, 38, 40, 0, LONG_AFTER);
    struct rs_hang *hang = judge(&job);
    assert_int_equal(hang->state, RS_HANG_NOTHING);
    assert_int_equal(hang->finding_count, 0);
    close_job(&job, hang);
}

static void a_rank_without_a_dump_is_probable(void **state)
{
    (void)state;
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < 3; rank++)
        rank_of_world(&job, rank, 1, 10, 1, LONG_AFTER);
    struct rs_hang *hang = judge(&job);
    assert_named(hang, RS_FINDING_SILENT_RANK, 3);
    assert_int_equal(hang->findings[0].confidence, RS_CONFIDENCE_PARTIAL);
    close_job(&job, hang);
}

static void a_missing_dump_of_an_innocent_does_not_hide_the_culprit(void **state)
{
    (void)state;
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    rank_of_world(&job, 0, 1, 10, 1, LONG_AFTER);
    rank_of_world(&job, 1, 1, 10, 0, LONG_AFTER);
    rank_of_world(&job, 3, 1, 10, 1, LONG_AFTER);
    struct rs_hang *hang = judge(&job);
    assert_named(hang, RS_FINDING_HANG, 1);
    close_job(&job, hang);
}

static void nccl_says(struct job *job, int32_t rank, int32_t comm_size, int64_t count)
{
    const struct rs_flight_witness witness = {.kind = RS_WITNESS_RAS,
                                              .comm = id(job, comm_size == RANKS ? "0xa" : "0xb"),
                                              .host = id(job, rank < 3 ? "node-0" : "node-7"),
                                              .rank = rank,
                                              .comm_size = comm_size,
                                              .is_missing = count < 0,
                                              .is_dead = count < 0,
                                              .op = count < 0 ? RS_STR_EMPTY : id(job, "AllReduce"),
                                              .count = count < 0 ? RS_FLIGHT_UNKNOWN : count,
                                              .at_ns = RS_FLIGHT_UNKNOWN};
    assert_ok(rs_flight_witness_add(&job->set, &witness));
}

/* The only evidence of NCCL's in a finding. */
static const struct rs_evidence *word_of_nccl(const struct rs_finding *finding)
{
    const struct rs_evidence *found = NULL;
    for (size_t i = 0; i < finding->evidence_count; i++) {
        if (finding->evidence[i].what == RS_EVIDENCE_WITNESS) {
            assert_null(found);
            found = &finding->evidence[i];
        }
    }
    assert_non_null(found);
    return found;
}

static void what_nccl_says_of_a_rank_without_a_dump_is_told(void **state)
{
    (void)state;
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < 3; rank++) {
        rank_of_world(&job, rank, 1, 10, 1, LONG_AFTER);
        nccl_says(&job, rank, RANKS, 11);
    }
    nccl_says(&job, 3, RANKS, -1);
    struct rs_hang *hang = judge(&job);
    assert_named(hang, RS_FINDING_SILENT_RANK, 3);
    const struct rs_evidence *word = word_of_nccl(&hang->findings[0]);
    assert_int_equal(word->rank, 3);
    assert_string_equal(word->name, "ras: considered dead");
    /* No dump says where it runs: NCCL does, and that is the node to look at. */
    assert_int_equal(hang->findings[0].also_count, 1);
    assert_string_equal(hang->findings[0].also[0].text, "node-7");
    close_job(&job, hang);
}

static void a_count_that_lags_is_told_and_that_of_an_unknown_group_is_not(void **state)
{
    (void)state;
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < RANKS; rank++) {
        rank_of_world(&job, rank, 1, 10, rank != 3, LONG_AFTER);
        nccl_says(&job, rank, RANKS, rank == 3 ? 10 : 11);
        nccl_says(&job, rank, 2, 5 + rank); /* ranks of a smaller communicator: whose is not said */
    }
    struct rs_hang *hang = judge(&job);
    assert_named(hang, RS_FINDING_HANG, 3);
    const struct rs_evidence *word = word_of_nccl(&hang->findings[0]);
    assert_int_equal(word->rank, 3);
    assert_string_equal(word->name, "AllReduce");
    assert_int_equal(word->value, 10);
    assert_int_equal(word->reference, 11);
    close_job(&job, hang);
}

static void a_short_wait_is_no_hang(void **state)
{
    (void)state;
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < RANKS; rank++)
        rank_of_world(&job, rank, 1, 10, rank != 3, 3000000);
    struct rs_hang *hang = judge(&job);
    assert_int_equal(hang->state, RS_HANG_IN_FLIGHT);
    assert_int_equal(hang->finding_count, 0);
    close_job(&job, hang);
}

/* Naming its frames took five seconds: the calls are as fresh as those of a dump without. */
static void the_time_of_a_file_with_stacks_is_not_the_time_of_its_dump(void **state)
{
    (void)state;
    for (int has_frames = 0; has_frames < 2; has_frames++) {
        struct job job = {0};
        assert_ok(rs_flight_set_init(&job.set));
        for (int32_t rank = 0; rank < RANKS; rank++)
            rank_of_world(&job, rank, 1, 10, rank != 3, 5000000000);
        for (size_t i = 0; i < job.set.entry_count && has_frames; i++)
            job.set.entries[i].frames = id(&job, "step (train.py:1)");
        struct rs_hang *hang = judge(&job);
        assert_int_equal(hang->state, has_frames ? RS_HANG_IN_FLIGHT : RS_HANG_HUNG);
        close_job(&job, hang);
    }
}

/* A busy node: the others answer at once, rank 2 after some more calls, of which it waits in the last. */
static void calls_after_the_time_of_asking_are_no_long_wait(void **state)
{
    (void)state;
    for (int is_asked = 0; is_asked < 2; is_asked++) {
        struct job job = {0};
        assert_ok(rs_flight_set_init(&job.set));
        for (int32_t rank = 0; rank < RANKS; rank++) {
            rank_of_world(&job, rank, 1, 10, rank == 2, rank == 2 ? -1000000 : 1000000);
            job.set.dumps[job.set.dump_count - 1].is_taken_known = is_asked;
        }
        struct rs_hang *hang = judge(&job);
        assert_int_equal(hang->finding_count,
                         !is_asked); /* the time of a file is not believed then */
        close_job(&job, hang);
    }
}

static void an_older_dump_accuses_nobody(void **state)
{
    (void)state;
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < 3; rank++)
        rank_of_world(&job, rank, 1, 50, 1, LONG_AFTER);
    rank_of_world(&job, 3, 1, 20, 0, LONG_AFTER); /* the others saw it take part in 50 */
    struct rs_hang *hang = judge(&job);
    assert_int_equal(hang->state, RS_HANG_UNDECIDED);
    assert_int_equal(hang->finding_count, 0);
    assert_int_equal(hang->stale_dumps, 1);
    close_job(&job, hang);
}

/* tp groups {0,1} and {2,3}, dp groups {0,2} and {1,3}: 3 stops before tp; 2 waits for it, 0 in dp for 2, 1 in tp for 0. */
static void the_sink_of_nested_groups_is_named(void **state)
{
    (void)state;
    struct job job = {0};
    static const int32_t tp[2][2] = {{0, 1}, {2, 3}}, dp[2][2] = {{0, 2}, {1, 3}};
    static const char *const tp_names[] = {"1", "2"}, *const dp_names[] = {"3", "4"};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < RANKS; rank++) {
        begin(&job, rank);
        const uint32_t t = group(&job, tp_names[rank / 2], "tp", tp[rank / 2], 2);
        const uint32_t d = group(&job, dp_names[rank % 2], "dp", dp[rank % 2], 2);
        (void)call(&job, t, 1, true);
        (void)call(&job, d, 1, true);
        if (rank == 2 || rank == 1)
            (void)call(&job, t, 2, false);
        if (rank == 0)
            (void)call(&job, d, 2, false);
        end(&job, LONG_AFTER);
    }
    struct rs_hang *hang = judge(&job);
    assert_named(hang, RS_FINDING_HANG, 3);
    close_job(&job, hang);
}

static void crossed_calls_are_a_deadlock(void **state)
{
    (void)state;
    struct job job = {0};
    static const int32_t two[2] = {0, 1};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < 2; rank++) {
        begin(&job, rank);
        const uint32_t a = group(&job, "1", "a", two, 2), b = group(&job, "2", "b", two, 2);
        (void)call(&job, a, 1, true);
        (void)call(&job, b, 1, true);
        (void)call(&job, rank ? b : a, 2, false);
        end(&job, LONG_AFTER);
    }
    struct rs_hang *hang = judge(&job);
    assert_named(hang, RS_FINDING_DEADLOCK, 0);
    assert_int_equal(hang->findings[0].place_count, 2);
    close_job(&job, hang);
}

/* However many groups a rank is in, it waits in each of them. */
static void a_wait_in_the_last_of_many_groups_counts(void **state)
{
    (void)state;
    enum { GROUPS = 300 };
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < RANKS; rank++) {
        begin(&job, rank);
        for (int i = 1; i <= GROUPS; i++) {
            char name[16];
            (void)snprintf(name, sizeof name, "%d", i);
            (void)call(&job, group(&job, name, "pair", everybody, RANKS), 1, true);
        }
        const uint32_t in = world(&job);
        (void)call(&job, in, 1, true);
        if (rank != 3)
            (void)call(&job, in, 2, false);
        end(&job, LONG_AFTER);
    }
    struct rs_hang *hang = judge(&job);
    assert_named(hang, RS_FINDING_HANG, 3);
    close_job(&job, hang);
}

/* Both calls are enqueued on both ranks: only their order differs. */
static void crossed_calls_that_are_enqueued_are_a_deadlock_too(void **state)
{
    (void)state;
    struct job job = {0};
    static const int32_t two[2] = {0, 1};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < 2; rank++) {
        begin(&job, rank);
        const uint32_t a = group(&job, "1", "a", two, 2), b = group(&job, "2", "b", two, 2);
        (void)call(&job, rank ? b : a, 1, false);
        (void)call(&job, rank ? a : b, 1, false);
        end(&job, LONG_AFTER);
    }
    struct rs_hang *hang = judge(&job);
    assert_named(hang, RS_FINDING_DEADLOCK, 0);
    close_job(&job, hang);
}

static void the_minority_of_a_mismatch_is_named(void **state)
{
    (void)state;
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < RANKS; rank++) {
        begin(&job, rank);
        const uint32_t in = world(&job);
        (void)call(&job, in, 1, true);
        struct rs_flight_entry *entry = call(&job, in, 2, false);
        entry->in_numel = rank == 0 ? 23 : 16;
        end(&job, LONG_AFTER);
    }
    struct rs_hang *hang = judge(&job);
    assert_named(hang, RS_FINDING_MISMATCH, 0);
    close_job(&job, hang);
}

/* The first thirty of a hundred call with a size of their own each. */
static void a_minority_of_many_sizes_is_named(void **state)
{
    (void)state;
    enum { MANY = 100, ODD = 30 };
    int32_t all[MANY];
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < MANY; rank++)
        all[rank] = rank;
    for (int32_t rank = 0; rank < MANY; rank++) {
        begin(&job, rank);
        const uint32_t in = group(&job, "0", "default_pg", all, MANY);
        (void)call(&job, in, 1, true);
        struct rs_flight_entry *entry = call(&job, in, 2, false);
        entry->in_numel = rank < ODD ? 1000 + rank : 16;
        end(&job, LONG_AFTER);
    }
    struct rs_hang *hang = judge(&job);
    assert_named(hang, RS_FINDING_MISMATCH, 0);
    assert_int_equal(hang->findings[0].confidence, RS_CONFIDENCE_EXACT);
    size_t ranks = 0;
    for (size_t i = 0; i < hang->findings[0].place_count; i++)
        ranks += hang->findings[0].places[i].kind == RS_PLACE_RANK;
    assert_int_equal(ranks, ODD);
    close_job(&job, hang);
}

static void a_call_that_everybody_is_in_names_its_group(void **state)
{
    (void)state;
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < RANKS; rank++)
        rank_of_world(&job, rank, 1, 10, 1, LONG_AFTER);
    struct rs_hang *hang = judge(&job);
    assert_int_equal(hang->finding_count, 1);
    assert_int_equal(hang->findings[0].kind, RS_FINDING_HANG);
    assert_int_equal(hang->findings[0].places[0].kind, RS_PLACE_GROUP);
    close_job(&job, hang);
}

static void sends(struct job *job, uint32_t in, int64_t seq, int32_t from, int32_t to, bool is_send)
{
    struct rs_flight_entry *entry = call(job, in, seq, false);
    entry->op = is_send ? RS_FLIGHT_SEND : RS_FLIGHT_RECV;
    entry->peer_src = from;
    entry->peer_dst = to;
    entry->flags = RS_FLIGHT_P2P;
}

/* A pipeline of four, rank 2 without a dump. Rank 1 sends to it, and what rank 0 sends to rank 1 is behind that; or (`is_first`) is
 * what rank 1 waits in first: then nobody knows whether rank 2 or this transfer holds the job. */
static void what_stands_behind_a_wait_is_no_other_trouble(void **state)
{
    (void)state;
    for (int is_first = 0; is_first < 2; is_first++) {
        struct job job = {0};
        assert_ok(rs_flight_set_init(&job.set));
        begin(&job, 0);
        sends(&job, world(&job), 1, 0, 1, true);
        end(&job, LONG_AFTER);
        begin(&job, 1);
        uint32_t in = world(&job);
        if (is_first)
            sends(&job, in, 1, 0, 1, false);
        sends(&job, in, 2, 1, 2, true);
        if (!is_first)
            sends(&job, in, 3, 0, 1, false);
        end(&job, LONG_AFTER);
        begin(&job, 3);
        sends(&job, world(&job), 1, 2, 3, false);
        end(&job, LONG_AFTER);
        struct rs_hang *hang = judge(&job);
        if (is_first) {
            assert_int_equal(hang->finding_count, 0);
            assert_int_equal(hang->state, RS_HANG_UNDECIDED);
        } else {
            assert_named(hang, RS_FINDING_SILENT_RANK, 2);
        }
        close_job(&job, hang);
    }
}

/* The same, and no ring has the call before it any more: that one may have been a mismatch. */
static void a_call_behind_lost_ones_is_told_with_less_confidence(void **state)
{
    (void)state;
    for (int64_t done = 10; done <= 11; done++) {
        struct job job = {0};
        assert_ok(rs_flight_set_init(&job.set));
        for (int32_t rank = 0; rank < RANKS; rank++)
            rank_of_world(&job, rank, 11, done, 1, LONG_AFTER);
        struct rs_hang *hang = judge(&job);
        assert_int_equal(hang->finding_count, 1);
        assert_int_equal(hang->findings[0].places[0].kind, RS_PLACE_GROUP);
        assert_int_equal(hang->findings[0].confidence,
                         done == 10 ? RS_CONFIDENCE_PARTIAL : RS_CONFIDENCE_EXACT);
        close_job(&job, hang);
    }
}

/* Its clock is ahead by 5 ms: starts and ends are late by the same. */
static void a_clock_that_is_ahead_is_no_lateness(void **state)
{
    (void)state;
    for (int is_late = 0; is_late < 2; is_late++) {
        struct job job = {0};
        assert_ok(rs_flight_set_init(&job.set));
        for (int32_t rank = 0; rank < RANKS; rank++) {
            begin(&job, rank);
            const uint32_t in = world(&job);
            for (int64_t seq = 1; seq <= 40; seq++) {
                struct rs_flight_entry *entry = call(&job, in, seq, true);
                entry->completed_ns = entry->created_ns + 7000000 + seq % 3 * 1000;
                entry->created_ns += rank == 3 ? 5000000 : 0;
                entry->completed_ns += rank == 3 && !is_late ? 5000000 : 0;
            }
            end(&job, LONG_AFTER);
        }
        struct rs_hang *hang = judge(&job);
        assert_int_equal(hang->finding_count, is_late);
        if (is_late) {
            assert_int_equal(hang->findings[0].kind, RS_FINDING_SLOW_RANK);
            assert_int_equal(hang->findings[0].places[0].rank, 3);
        }
        close_job(&job, hang);
    }
}

/* Three times three: rank 1 comes 10 ms late to its row's calls; who waits for it there comes as late to its column's. */
static void who_is_late_because_it_waited_is_not_named(void **state)
{
    (void)state;
    enum { STEPS = 30, SIDE = 3 };
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < SIDE * SIDE; rank++) {
        const int32_t row = rank / SIDE, column = rank % SIDE;
        const int32_t rows[SIDE] = {row * SIDE, row * SIDE + 1, row * SIDE + 2};
        const int32_t columns[SIDE] = {column, column + SIDE, column + 2 * SIDE};
        const char *const names[] = {"1", "2", "3", "4", "5", "6"};
        begin(&job, rank);
        const uint32_t shard = group(&job, names[row], "shard", rows, SIDE);
        const uint32_t copies = group(&job, names[SIDE + column], "replicate", columns, SIDE);
        for (int64_t step = 0; step < STEPS; step++) {
            const int64_t at = INT64_C(1000000000000) + step * 100000000;
            struct rs_flight_entry *entry = call(&job, shard, step, true);
            entry->created_ns = at + rank * 10000 + (rank == 1 ? 10000000 : 0);
            entry->completed_ns = at + (row ? 1000000 : 11000000) + step * 1000;
            entry = call(&job, copies, step, true);
            entry->created_ns = at + (row ? 1000000 : 11000000) + 200000 + rank * 10000;
            entry->completed_ns = at + 12000000 + step * 2000;
            job.now = entry->completed_ns;
        }
        end(&job, 50000000);
    }
    struct rs_hang *hang = judge(&job);
    assert_int_equal(hang->finding_count, 1);
    assert_int_equal(hang->findings[0].kind, RS_FINDING_SLOW_RANK);
    assert_int_equal(hang->findings[0].places[0].rank, 1);
    close_job(&job, hang);
}

/* A group of thousands is looked at, too. Its ranks are those that have it. */
static void who_is_late_among_thousands_is_named(void **state)
{
    (void)state;
    enum { MANY = 5000, CALLS = 24, LATE = 4321 };
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < MANY; rank++) {
        uint32_t in;
        begin(&job, rank);
        assert_ok(rs_flight_group_of(&job.set, id(&job, "0"), id(&job, "default_pg"), &in));
        for (int64_t seq = 1; seq <= CALLS; seq++) {
            struct rs_flight_entry *entry = call(&job, in, seq, true);
            const int64_t at = entry->created_ns;
            entry->created_ns += rank == LATE ? 5000000 : (rank * 7 + seq) % 100 * 100;
            entry->completed_ns = at + 6000000 + seq % 3 * 1000;
        }
        end(&job, 50000000);
    }
    struct rs_hang *hang = judge(&job);
    assert_int_equal(hang->finding_count, 1);
    assert_int_equal(hang->findings[0].kind, RS_FINDING_SLOW_RANK);
    assert_int_equal(hang->findings[0].places[0].rank, LATE);
    close_job(&job, hang);
}

/* Each is missing from a call of its own: sixteen are told, and how many more there are. */
static void causes_that_are_not_told_are_counted(void **state)
{
    (void)state;
    enum { PAIRS = 20 };
    struct job job = {0};
    assert_ok(rs_flight_set_init(&job.set));
    for (int32_t rank = 0; rank < 2 * PAIRS; rank++) {
        const int32_t pair[2] = {rank / 2 * 2, rank / 2 * 2 + 1};
        char name[16];
        (void)snprintf(name, sizeof name, "%" PRId32, rank / 2);
        begin(&job, rank);
        const uint32_t in = group(&job, name, "pair", pair, 2);
        (void)call(&job, in, 1, true);
        if (rank % 2 == 0)
            (void)call(&job, in, 2, false);
        end(&job, LONG_AFTER);
    }
    struct rs_hang *hang = judge(&job);
    assert_int_equal(hang->state, RS_HANG_HUNG);
    assert_int_equal(hang->finding_count, 16);
    assert_int_equal(hang->untold_count, PAIRS - 16);
    close_job(&job, hang);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_did_not_call_is_named),
        cmocka_unit_test(what_a_ring_dropped_is_not_missing),
        cmocka_unit_test(a_rank_without_a_dump_is_probable),
        cmocka_unit_test(a_missing_dump_of_an_innocent_does_not_hide_the_culprit),
        cmocka_unit_test(what_nccl_says_of_a_rank_without_a_dump_is_told),
        cmocka_unit_test(a_count_that_lags_is_told_and_that_of_an_unknown_group_is_not),
        cmocka_unit_test(a_short_wait_is_no_hang),
        cmocka_unit_test(the_time_of_a_file_with_stacks_is_not_the_time_of_its_dump),
        cmocka_unit_test(calls_after_the_time_of_asking_are_no_long_wait),
        cmocka_unit_test(an_older_dump_accuses_nobody),
        cmocka_unit_test(the_sink_of_nested_groups_is_named),
        cmocka_unit_test(a_wait_in_the_last_of_many_groups_counts),
        cmocka_unit_test(crossed_calls_are_a_deadlock),
        cmocka_unit_test(crossed_calls_that_are_enqueued_are_a_deadlock_too),
        cmocka_unit_test(the_minority_of_a_mismatch_is_named),
        cmocka_unit_test(a_minority_of_many_sizes_is_named),
        cmocka_unit_test(a_call_that_everybody_is_in_names_its_group),
        cmocka_unit_test(a_call_behind_lost_ones_is_told_with_less_confidence),
        cmocka_unit_test(what_stands_behind_a_wait_is_no_other_trouble),
        cmocka_unit_test(a_clock_that_is_ahead_is_no_lateness),
        cmocka_unit_test(who_is_late_because_it_waited_is_not_named),
        cmocka_unit_test(who_is_late_among_thousands_is_named),
        cmocka_unit_test(causes_that_are_not_told_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
