/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Summaries in parts: whatever the cuts and the order of coming, joined parts are the bytes of the whole; parts that are taken
 * while rows come are those that the whole is cut into, unless a late row belongs in them.
 */
#include "common/reduce/parts.h"

#include "common/base/mem.h"
#include "common/reduce/reduce.h"
#include "tests/support/make_events.h"
#include "tests/support/rs_test.h"

#include <string.h>

static uint64_t random_state;

static uint64_t next_random(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static struct rs_buf bytes_of(const struct rs_summary *summary)
{
    struct rs_buf bytes = {0};
    struct rs_err err = {0};
    assert_ok(rs_summary_encode(summary, &bytes, &err));
    return bytes;
}

static void assert_same_bytes(const struct rs_buf *a, const struct rs_buf *b)
{
    assert_int_equal(a->length, b->length);
    assert_memory_equal(a->data, b->data, a->length);
}

/* ---- a native rank that records ------------------------------------------------------------------------------ */

enum { STEPS = 24, STEP_NS = 100000, PARTS_MAX = 64 };

struct job {
    struct make_events e;
    struct rs_reduce *reduce;
    struct rs_buf parts[PARTS_MAX]; /* as they were sent */
    struct rs_part_head heads[PARTS_MAX];
    size_t count, rows_added;
};

static void set_up(struct job *job, uint64_t seed)
{
    memset(job, 0, sizeof *job);
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    make_events_init(&job->e);
    job->e.info.host = make_string(&job->e, "node-1");
    assert_ok(rs_reduce_new(&job->e.strings, &job->e.lanes, &job->reduce));
}

static void tear_down(struct job *job)
{
    for (size_t i = 0; i < job->count; i++)
        rs_buf_fini(&job->parts[i]);
    rs_reduce_free(&job->reduce);
    make_events_fini(&job->e);
}

/* Hands what was made since to the reducer. */
static void flush(struct job *job)
{
    struct rs_err err = {0};
    assert_ok(rs_batch_check(&job->e.batch, &err));
    assert_ok(rs_reduce_add(job->reduce, &job->e.batch, &err));
    rs_batch_reset(&job->e.batch);
}

static bool take(struct job *job)
{
    struct rs_summary part = {0};
    struct rs_err err = {0};
    const enum rs_status status =
        rs_reduce_take_part(job->reduce, &job->e.info, &job->heads[job->count], &part, &err);
    if (status == RS_END)
        return false;
    assert_ok(status);
    assert_true(job->count < PARTS_MAX - 1);
    assert_int_equal(job->heads[job->count].number, job->count);
    assert_ok(rs_part_encode(&job->heads[job->count], &part, &job->parts[job->count], &err));
    job->count++;
    rs_summary_fini(&part);
    return true;
}

static void make_collective(struct job *job, uint32_t lane, int64_t number, rs_ns start, rs_ns end)
{
    struct make_events *e = &job->e;
    make_row(e, RS_KIND_COMM, "all_reduce", lane, start, end);
    make_correlation(e, number);
    struct rs_comm *comm = make_comm(e, "all_reduce");
    comm->group_name = make_string(e, number % 3 ? "world" : "pair");
    comm->group_ranks = make_string(e, number % 3 ? "[0, 1, 2, 3]" : "[0, 1]");
    comm->group_size = number % 3 ? 4 : 2;
    comm->seq = number;
    comm->bytes = 1024 * number;
    comm->has |= RS_COMM_HAS_GROUP_SIZE | RS_COMM_HAS_SEQ | RS_COMM_HAS_BYTES;
    make_row(e, RS_KIND_COMM_TASK, "hop", lane, start + 1, start + 5);
    make_correlation(e, number);
    comm = make_comm(e, "all_reduce");
    comm->src = 0;
    comm->dst = 1 + number % 3;
    comm->bytes = 64;
    comm->has |= RS_COMM_HAS_SRC | RS_COMM_HAS_DST | RS_COMM_HAS_BYTES;
}

/* Rows come when they end: operators and input on one thread, operations on another that may end in the next step. */
static void make_step(struct job *job, int64_t step, bool crosses)
{
    struct make_events *e = &job->e;
    const uint32_t main_lane = make_host_lane(e, 11), worker = make_host_lane(e, 12);
    static const char *const names[] = {"forward", "backward", "optimizer", "loss"};
    const rs_ns begin = step * STEP_NS;
    rs_ns at = begin + 10;
    if (step % 4 != 2)
        make_row(e, RS_KIND_RANGE, "dataloader", main_lane, at, at + 500);
    for (int i = 0; i < 6; i++) {
        const rs_ns length = (rs_ns)(1000 + next_random(9000));
        make_row(e, RS_KIND_OP, names[next_random(4)], main_lane, at, at + length);
        e->batch.cpu_ns[e->row] = length / 2;
        at += length + (rs_ns)next_random(2000);
        if (i % 2 == 0) {
            const rs_ns wait = (rs_ns)(500 + next_random(4000));
            make_collective(job, worker, step * 10 + i + 1, at, at + wait);
            at += wait - (rs_ns)next_random(300);
        }
    }
    if (crosses)
        make_collective(job, worker, step * 10 + 9, begin + STEP_NS - 200, begin + STEP_NS + 400);
    make_row(e, RS_KIND_STEP, "step", main_lane, begin, begin + STEP_NS);
    make_correlation(e, 100 + step);
    flush(job);
}

/* Cuts the whole where the parts were taken; says how many were other bytes; all of them go into `set`, in any order. */
static size_t cut_whole(struct job *job, struct rs_summary *whole, struct rs_parts *set)
{
    struct rs_err err = {0};
    struct rs_buf all[PARTS_MAX] = {{0}};
    size_t changed = 0, order[PARTS_MAX];
    for (size_t i = 0; i < job->count; i++) {
        struct rs_part_head head = job->heads[i];
        struct rs_summary slice = {0};
        assert_ok(rs_summary_slice(whole, &head, -1, &slice));
        assert_ok(rs_part_encode(&head, &slice, &all[i], &err));
        rs_summary_fini(&slice);
        if (all[i].length == job->parts[i].length &&
            memcmp(all[i].data, job->parts[i].data, all[i].length) == 0)
            continue;
        changed++;
        if (!job->parts[i].length)
            continue;
        assert_ok(rs_parts_add(set, rs_view_of(job->parts[i].data, job->parts[i].length), &err));
        head.generation = 1;
        rs_buf_reset(&all[i]);
        assert_ok(rs_summary_slice(whole, &head, -1, &slice));
        assert_ok(rs_part_encode(&head, &slice, &all[i], &err));
        rs_summary_fini(&slice);
    }
    struct rs_part_head last = {.number = (uint32_t)job->count,
                                .is_last = true,
                                .from_ns =
                                    job->count ? job->heads[job->count - 1].until_ns : RS_NS_MIN,
                                .until_ns = RS_NS_MAX};
    rs_summary_keep_rest(whole, &last);
    assert_ok(rs_part_encode(&last, whole, &all[job->count], &err));
    for (size_t i = 0; i <= job->count; i++)
        order[i] = i;
    for (size_t i = job->count; i > 0; i--) {
        const size_t other = next_random(i + 1), swap = order[i];
        order[i] = order[other];
        order[other] = swap;
    }
    for (size_t i = 0; i <= job->count; i++) {
        const struct rs_buf *part = &all[order[i]];
        assert_false(rs_parts_are_whole(set) && i < job->count && set->count <= job->count);
        assert_ok(rs_parts_add(set, rs_view_of(part->data, part->length), &err));
    }
    for (size_t i = 0; i <= job->count; i++)
        rs_buf_fini(&all[i]);
    return changed;
}

/* Whole, cut, joined: returns how many parts had to be sent again. */
static size_t finish(struct job *job)
{
    struct rs_summary whole = {0}, joined = {0};
    struct rs_parts set = {0};
    struct rs_err err = {0};
    assert_ok(rs_reduce_finish(job->reduce, &job->e.info, &whole, &err));
    struct rs_buf want = bytes_of(&whole);
    const size_t changed = cut_whole(job, &whole, &set);
    assert_true(rs_parts_are_whole(&set));
    assert_ok(rs_parts_join(&set, &joined, &err));
    struct rs_buf got = bytes_of(&joined);
    assert_same_bytes(&want, &got);
    rs_buf_fini(&want);
    rs_buf_fini(&got);
    rs_summary_fini(&whole);
    rs_summary_fini(&joined);
    return changed;
}

static void parts_taken_while_rows_come_are_those_of_the_whole(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct job job;
        set_up(&job, seed);
        for (int64_t step = 0; step < STEPS; step++) {
            make_step(&job, step, seed % 2 == 0 && step % 5 == 3);
            if (next_random(3))
                (void)take(&job);
        }
        assert_true(job.count >= 4);
        assert_int_equal(job.heads[0].first_step, 100);
        assert_int_equal(finish(&job), 0);
        tear_down(&job);
    }
}

/* An operator around everything ends last: all that was told of computing was too little. */
static void a_late_row_makes_other_parts_and_the_same_whole(void **unused)
{
    (void)unused;
    struct job job;
    set_up(&job, 7);
    for (int64_t step = 0; step < STEPS; step++) {
        make_step(&job, step, false);
        (void)take(&job);
    }
    make_row(&job.e, RS_KIND_OP, "train", make_host_lane(&job.e, 11), 5, STEPS * STEP_NS - 5);
    flush(&job);
    assert_int_equal(finish(&job), STEPS - 1);
    tear_down(&job);
}

static void nothing_is_taken_of_what_rests_on_the_end(void **unused)
{
    (void)unused;
    struct job job;
    set_up(&job, 9);
    assert_false(take(&job));
    make_step(&job, 0, false);
    assert_false(take(&job)); /* nothing behind it yet */
    make_step(&job, 1, false);
    assert_true(take(&job));
    assert_false(take(&job)); /* told already */
    make_row(&job.e, RS_KIND_KERNEL, "gemm", make_device_lane(&job.e, 0, 7), 5, 10);
    make_step(&job, 2, false);
    assert_false(take(&job)); /* a device: its work belongs to steps that its launches tell */
    (void)finish(&job);
    tear_down(&job);
}

/* While the last is not there: what leads, and nothing behind a hole. */
static void what_came_so_far_is_a_summary(void **unused)
{
    (void)unused;
    struct job job;
    struct rs_parts set = {0};
    struct rs_summary some = {0};
    struct rs_err err = {0};
    set_up(&job, 3);
    for (int64_t step = 0; step < 8; step++) {
        make_step(&job, step, true);
        (void)take(&job);
    }
    assert_int_equal(job.count, 7);
    static const size_t come[] = {4, 0, 1, 2}; /* 3 is missing */
    for (size_t i = 0; i < sizeof come / sizeof *come; i++) {
        const struct rs_buf *part = &job.parts[come[i]];
        assert_ok(rs_parts_add(&set, rs_view_of(part->data, part->length), &err));
    }
    assert_false(rs_parts_are_whole(&set));
    assert_ok(rs_parts_join(&set, &some, &err));
    assert_int_equal(some.step_count, 3);
    assert_int_equal(some.steps[2].step, 102);
    assert_int_equal(some.step_origin, RS_STEPS_NATIVE);
    assert_int_equal(some.span_end, job.heads[2].until_ns + 400); /* an operation that went on */
    assert_true(some.op_count >= 9);
    assert_string_equal(rs_strtab_text(&some.strings, some.trace.host), "node-1");
    struct rs_buf bytes = bytes_of(&some);
    rs_summary_fini(&some);
    assert_ok(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &some, &err));
    rs_summary_fini(&some);
    rs_buf_fini(&bytes);

    assert_int_equal(rs_parts_join(&set, &some, &err), RS_NOTFOUND);
    assert_ok(rs_parts_add(&set, rs_view_of(job.parts[1].data, job.parts[1].length), &err));
    assert_int_equal(rs_parts_join(&set, &some, &err), RS_NOTFOUND);
    rs_parts_fini(&set);
    assert_ok(rs_parts_add(&set, rs_view_of(job.parts[0].data, job.parts[0].length), &err));
    rs_parts_fini(&set);
    struct rs_summary rest;
    assert_ok(rs_reduce_finish(job.reduce, &job.e.info, &rest, &err));
    rs_summary_fini(&rest);
    tear_down(&job);
}

/* ---- any summary, any cuts ------------------------------------------------------------------------------------ */

static void any_cuts_join_to_the_whole(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct rs_summary whole;
        struct job job;
        struct rs_parts set = {0};
        struct rs_err err = {0};
        set_up(&job, seed);
        for (int64_t step = 0; step < 6; step++)
            make_step(&job, step, step % 2 == 0);
        assert_ok(rs_reduce_finish(job.reduce, &job.e.info, &whole, &err));
        struct rs_buf want = bytes_of(&whole);
        const size_t cuts = next_random(8);
        rs_ns at = whole.span_start;
        for (size_t i = 0; i < cuts; i++) {
            const rs_ns from = i ? at : RS_NS_MIN;
            at += (rs_ns)next_random((uint64_t)(whole.span_end - whole.span_start) / 4 + 2);
            job.heads[i] =
                (struct rs_part_head){.number = (uint32_t)i, .from_ns = from, .until_ns = at};
        }
        job.count = cuts; /* nothing was sent before: all of them are new */
        assert_int_equal(cut_whole(&job, &whole, &set), cuts);
        struct rs_summary joined = {0};
        assert_ok(rs_parts_join(&set, &joined, &err));
        struct rs_buf got = bytes_of(&joined);
        assert_same_bytes(&want, &got);
        rs_buf_fini(&want);
        rs_buf_fini(&got);
        rs_summary_fini(&whole);
        rs_summary_fini(&joined);
        tear_down(&job);
    }
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static void a_head_that_makes_no_sense_is_refused(void **unused)
{
    (void)unused;
    struct rs_summary summary, again;
    struct rs_part_head head = {
        .from_ns = RS_NS_MIN, .until_ns = 100, .first_step = 3, .last_step = 5, .rows = 12};
    struct rs_part_head read;
    struct rs_buf bytes = {0};
    struct rs_err err = {0};
    assert_ok(rs_summary_init(&summary));
    assert_ok(rs_part_encode(&head, &summary, &bytes, &err));
    assert_true(rs_part_is(rs_view_of(bytes.data, bytes.length)));
    assert_ok(rs_part_decode(rs_view_of(bytes.data, bytes.length), &read, &again, &err));
    assert_int_equal(read.number, head.number);
    assert_int_equal(read.generation, head.generation);
    assert_int_equal(read.is_last, head.is_last);
    assert_int_equal(read.first_step, head.first_step);
    assert_int_equal(read.last_step, head.last_step);
    assert_int_equal(read.from_ns, head.from_ns);
    assert_int_equal(read.until_ns, head.until_ns);
    assert_int_equal(read.rows, head.rows);
    rs_summary_fini(&again);
    for (size_t length = 0; length < 80; length++)
        assert_true(rs_part_decode(rs_view_of(bytes.data, length), &read, &again, &err) < 0);
    for (size_t i = 0; i < 72; i++) {
        bytes.data[i] ^= 0x10;
        assert_true(rs_part_decode(rs_view_of(bytes.data, bytes.length), &read, &again, &err) < 0);
        bytes.data[i] ^= 0x10;
    }
    static const struct rs_part_head bad[] = {
        {.number = 1, .from_ns = RS_NS_MIN, .until_ns = 1, .first_step = 1, .last_step = 1},
        {.number = 0, .from_ns = 1, .until_ns = 2, .first_step = 1, .last_step = 1},
        {.number = 1, .from_ns = 2, .until_ns = 1, .first_step = 1, .last_step = 1},
        {.number = 1, .from_ns = 2, .until_ns = 9, .first_step = RS_STEP_NONE, .last_step = 1},
        {.number = 1,
         .from_ns = 2,
         .until_ns = 9,
         .is_last = true,
         .first_step = 1,
         .last_step = 1},
        {.number = 1, .from_ns = 2, .until_ns = RS_NS_MAX, .first_step = 1, .last_step = 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rs_buf_reset(&bytes);
        assert_ok(rs_part_encode(&bad[i], &summary, &bytes, &err));
        assert_int_equal(rs_part_decode(rs_view_of(bytes.data, bytes.length), &read, &again, &err),
                         RS_FORMAT);
    }
    rs_buf_fini(&bytes);
    rs_summary_fini(&summary);
}

static void parts_of_different_cuts_are_not_joined(void **unused)
{
    (void)unused;
    struct rs_summary summary, joined;
    struct rs_parts set = {0};
    struct rs_buf bytes = {0};
    struct rs_err err = {0};
    const struct rs_part_head heads[] = {
        {.number = 0, .from_ns = RS_NS_MIN, .until_ns = 50, .first_step = 1, .last_step = 1},
        {.number = 1, .from_ns = 60, .until_ns = 80, .first_step = 1, .last_step = 1}};
    assert_ok(rs_summary_init(&summary));
    for (size_t i = 0; i < 2; i++) {
        rs_buf_reset(&bytes);
        assert_ok(rs_part_encode(&heads[i], &summary, &bytes, &err));
        assert_ok(rs_parts_add(&set, rs_view_of(bytes.data, bytes.length), &err));
    }
    assert_int_equal(rs_parts_join(&set, &joined, &err), RS_FORMAT);
    rs_parts_fini(&set);
    rs_buf_fini(&bytes);
    rs_summary_fini(&summary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_taken_while_rows_come_are_those_of_the_whole),
        cmocka_unit_test(a_late_row_makes_other_parts_and_the_same_whole),
        cmocka_unit_test(nothing_is_taken_of_what_rests_on_the_end),
        cmocka_unit_test(what_came_so_far_is_a_summary),
        cmocka_unit_test(any_cuts_join_to_the_whole),
        cmocka_unit_test(a_head_that_makes_no_sense_is_refused),
        cmocka_unit_test(parts_of_different_cuts_are_not_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
