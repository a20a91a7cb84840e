/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real traces through reader and reduction, against figures computed elsewhere: a bundled job always, and where
 * ../shared/data is, more of them.
 */
#include "collector/source/kineto.h"
#include "common/reduce/classify.h"
#include "common/reduce/reduce.h"
#include "tests/support/rs_test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KINETO  "../shared/data/kineto/"
#define BUNDLED "docs/examples/slow-loader"

static enum rs_status on_batch(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    return rs_reduce_add(self, batch, err);
}

static void load(const char *path, struct rs_summary *summary)
{
    struct rs_source_stream stream;
    struct rs_reduce *reduce;
    struct rs_err err = {0};
    assert_ok(rs_source_stream_init(&stream));
    assert_ok(rs_reduce_new(&stream.strings, &stream.lanes, &reduce));
    const struct rs_sink sink = {on_batch, reduce};
    assert_ok(rs_kineto_read(path, 0, &stream, sink, &err));
    assert_ok(rs_reduce_finish(reduce, &stream.info, summary, &err));
    rs_reduce_free(&reduce);
    rs_source_stream_fini(&stream);
}

/* The path of the file in `folder` whose name starts so. */
static const char *file_of(const char *folder, const char *prefix)
{
    static char path[512];
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    path[0] = '\0';
    struct dirent *entry;
    while ((entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe): one thread */
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    }
    (void)closedir(dir);
    assert_true(path[0] != '\0');
    return path;
}

static void assert_adds_up(const struct rs_summary *s)
{
    for (size_t i = 0; i < s->step_count; i++) {
        const struct rs_step_row *row = &s->steps[i];
        assert_int_equal(row->window_end - row->window_start,
                         row->window_computing + row->window_exposed + row->window_memory +
                             row->idle_head + row->idle_inside + row->idle_tail);
        assert_true(row->free >= 0 && row->idle_inside >= 0);
    }
}

/* Calls and spans are numbered through; every row that is no communication is in one span; what the spans of a CPU
 * rank say it computed is what the figures say. */
static void assert_spans_hold(const struct rs_summary *s)
{
    size_t op = 0, span = 0;
    int64_t rows = 0, want_rows = 0;
    rs_dur busy = 0;
    for (size_t i = 0; i < s->op_count + s->span_count; i++) {
        if (op < s->op_count && s->ops[op].call_order == (int64_t)i)
            op++;
        else if (span < s->span_count && s->spans[span].order == (int64_t)i)
            span++;
        else
            fail_msg("nothing has number %zu", i);
    }
    for (size_t i = 0; i < s->span_count; i++) {
        const struct rs_span_row *row = &s->spans[i];
        assert_true(row->busy <= row->end - row->start);
        rows += row->device >= 0 ? row->count : 0;
        busy += row->busy;
    }
    for (size_t i = 0; i < s->kernel_count; i++) {
        if (s->kernels[i].device >= 0 && s->kernels[i].work_class != RS_WORK_COMMUNICATION)
            want_rows += s->kernels[i].count;
    }
    assert_int_equal(rows, want_rows);
    for (size_t i = 0; i < s->device_count; i++) {
        if (s->devices[i].device < 0)
            assert_int_equal(busy, s->devices[i].computing);
    }
}

static void dlrm_figures_are_exact(void **unused)
{
    (void)unused;
    static const struct {
        int rank;
        rs_dur window, busy, computing, communication, memory, overlapped; /* -1: not told */
    } want[] = {
        {0, 13009000, 6590000, 1034000, 5798000, -1, 261000},
        {3, 18853000, 10708000, 1240000, 9774000, 28000, 324000},
        {7, 10967000, -1, -1, -1, -1, -1},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct rs_summary s;
        char prefix[32];
        (void)snprintf(prefix, sizeof prefix, "worker%d_", want[i].rank);
        load(file_of(KINETO "dlrm-8rank", prefix), &s);
        assert_int_equal(s.trace.rank, want[i].rank);
        assert_int_equal(s.device_count, 1);
        const struct rs_device_row *row = &s.devices[0];
        assert_int_equal(row->window_end - row->window_start, want[i].window);
        if (want[i].busy >= 0) {
            assert_int_equal(row->busy, want[i].busy);
            assert_int_equal(row->computing, want[i].computing);
            assert_int_equal(row->communication, want[i].communication);
            assert_int_equal(row->overlapped, want[i].overlapped);
        }
        if (want[i].memory >= 0)
            assert_int_equal(row->memory, want[i].memory);
        assert_int_equal(s.step_count, 1);
        assert_int_equal(s.steps[0].step, 10);
        assert_int_equal(s.steps[0].bubble, 0);
        assert_adds_up(&s);
        assert_spans_hold(&s);
        assert_int_equal(s.op_count, 8);
        size_t all_to_all = 0;
        for (size_t k = 0; k < s.op_count; k++) {
            all_to_all += s.ops[k].type == RS_OP_ALL_TO_ALL;
            assert_true(s.ops[k].type == RS_OP_ALL_TO_ALL || s.ops[k].type == RS_OP_ALL_REDUCE);
            assert_true(s.ops[k].bytes > 0);
            assert_int_equal(s.ops[k].step, 10);
            assert_int_equal(s.ops[k].flags, RS_OP_ON_DEVICE);
        }
        assert_int_equal(all_to_all, 5);
        rs_summary_fini(&s);
    }
}

static void gloo_ranks_have_their_steps_and_operations(void **unused)
{
    (void)unused;
    static const char *const files[] = {"trace_6623", "trace_6624", "trace_6625", "trace_6626"};
    for (size_t i = 0; i < 4; i++) {
        struct rs_summary s;
        load(file_of(KINETO "gloo-ddp-4rank-ondemand", files[i]), &s);
        assert_int_equal(s.step_origin, RS_STEPS_OPTIMIZER_STEP);
        assert_int_equal(s.step_count, 3);
        size_t in_steps = 0;
        for (size_t k = 0; k < s.op_count; k++) {
            assert_int_equal(s.ops[k].type, RS_OP_ALL_REDUCE);
            assert_int_equal(s.ops[k].bytes, 67464 * 4);
            in_steps += s.ops[k].step != RS_STEP_NONE;
        }
        assert_int_equal(in_steps, 3);
        for (size_t k = 0; i == 2 && k < 3;
             k++) { /* it sleeps 20 ms before each step's first operation */
            assert_true(s.steps[k].preparing > 20000000 && s.steps[k].preparing < 21500000);
            assert_true(s.steps[k].free > 1300000 && s.steps[k].free < 4000000);
        }
        assert_adds_up(&s);
        assert_spans_hold(&s);
        rs_summary_fini(&s);
    }
    for (int rank = 0; rank < 4; rank++) {
        struct rs_summary s;
        char prefix[32];
        (void)snprintf(prefix, sizeof prefix, "rank%d.", rank);
        load(file_of(KINETO "gloo-ddp-4rank-api", prefix), &s);
        assert_int_equal(s.trace.rank, rank);
        assert_int_equal(s.step_count, 3);
        assert_spans_hold(&s);
        for (int k = 0; k < 3; k++)
            assert_int_equal(s.steps[k].step, 3 + k);
        for (size_t k = 0; k < s.op_count; k++) {
            if (s.ops[k].flags & RS_OP_UNFINISHED)
                assert_true(s.ops[k].end <= s.span_end);
        }
        rs_summary_fini(&s);
    }
}

/* 112 rows of 34 operations, and one that is not finished; each paired with its call. */
static void gloo_groups_rows_are_all_there(void **unused)
{
    (void)unused;
    static const char *const files[] = {"trace_7539", "trace_7540", "trace_7541", "trace_7542"};
    size_t rows = 0, unfinished = 0, without_bytes = 0;
    size_t of_type[RS_OP_TYPE_COUNT] = {0};
    for (size_t i = 0; i < 4; i++) {
        struct rs_summary s;
        load(file_of(KINETO "gloo-groups-4rank-ondemand", files[i]), &s);
        assert_int_equal(s.step_count, 2);
        for (size_t k = 0; k < s.op_count; k++) {
            const struct rs_comm_op *op = &s.ops[k];
            rows++;
            unfinished += (op->flags & RS_OP_UNFINISHED) != 0;
            assert_int_not_equal(op->caller_thread, -1);
            assert_true(op->call_start <= op->start);
            if (!(op->flags & RS_OP_UNFINISHED))
                of_type[op->type]++;
            without_bytes +=
                op->bytes < 0 && op->type != RS_OP_BARRIER && op->type != RS_OP_SCATTER;
            assert_int_equal(op->peer >= 0, rs_op_type_is_p2p((enum rs_op_type)op->type));
        }
        assert_adds_up(&s);
        assert_spans_hold(&s);
        rs_summary_fini(&s);
    }
    assert_int_equal(rows, 113);
    assert_int_equal(unfinished, 1);
    assert_int_equal(without_bytes, 0);
    assert_int_equal(of_type[RS_OP_REDUCE_SCATTER], 8);
    assert_int_equal(of_type[RS_OP_SEND] + of_type[RS_OP_RECV], 8);
    assert_int_equal(of_type[RS_OP_BARRIER], 8);
    assert_int_equal(of_type[RS_OP_ALL_REDUCE], 16);
}

static void arguments_of_newer_traces_are_used(void **unused)
{
    (void)unused;
    struct rs_summary s;
    load(KINETO "a100-nccl-rank0of2.json.gz", &s);
    assert_int_equal(s.op_count, 21);
    assert_int_equal(s.group_count, 1);
    assert_int_equal(s.groups[0].rank_count, 2);
    assert_int_equal(s.ops[0].type, RS_OP_BROADCAST);
    assert_int_equal(s.ops[0].bytes, 53120 * 4);
    assert_adds_up(&s);
    assert_spans_hold(&s);
    rs_summary_fini(&s);
    load(KINETO "mi300-resnet-rank0of8.json.gz", &s);
    assert_int_equal(s.op_count, 17);
    size_t alone = 0;
    for (size_t i = 0; i < s.op_count; i++)
        alone += (s.ops[i].flags & RS_OP_NO_CALL) != 0;
    assert_int_equal(alone, 5); /* launched before the recording */
    assert_int_equal(s.step_count, 3);
    assert_adds_up(&s);
    assert_spans_hold(&s);
    rs_summary_fini(&s);
}

/* Cuts at instants of a small generator; the parts come last first. */
static void join_again(struct rs_summary *whole, uint64_t seed, size_t cuts)
{
    struct rs_parts set = {0};
    struct rs_buf want = {0}, got = {0};
    struct rs_err err = {0};
    struct rs_summary joined;
    struct rs_part_head head = {.from_ns = RS_NS_MIN};
    rs_ns at = whole->span_start;
    assert_ok(rs_summary_encode(whole, &want, &err));
    for (size_t i = 0; i <= cuts; i++) {
        struct rs_buf bytes = {0};
        struct rs_summary part = {0};
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
        at += (rs_ns)((seed >> 33) % (uint64_t)((whole->span_end - whole->span_start) / 3 + 2));
        head.number = (uint32_t)i;
        head.is_last = i == cuts;
        head.until_ns = i == cuts ? RS_NS_MAX : at;
        if (head.is_last) {
            rs_summary_keep_rest(whole, &head);
            assert_ok(rs_part_encode(&head, whole, &bytes, &err));
        } else {
            assert_ok(rs_summary_slice(whole, &head, -1, &part));
            assert_ok(rs_part_encode(&head, &part, &bytes, &err));
        }
        assert_ok(rs_parts_add(&set, rs_view_of(bytes.data, bytes.length), &err));
        rs_summary_fini(&part);
        rs_buf_fini(&bytes);
        head.from_ns = at;
    }
    assert_true(rs_parts_are_whole(&set));
    assert_ok(rs_parts_join(&set, &joined, &err));
    assert_ok(rs_summary_encode(&joined, &got, &err));
    assert_int_equal(want.length, got.length);
    assert_memory_equal(want.data, got.data, want.length);
    rs_summary_fini(&joined);
    rs_buf_fini(&want);
    rs_buf_fini(&got);
}

/* docs/examples/record.py: a model of 525,568 parameters, so many floats in each step's two all-reduces; rank 2 waits 60 ms more for
 * its data. */
static void bundled_ranks_have_their_steps_and_operations(void **unused)
{
    (void)unused;
    enum { STEPS = 8, FIRST_STEP = 6 };
    for (int rank = 0; rank < 4; rank++) {
        struct rs_summary s;
        char prefix[32];
        int64_t bytes[STEPS] = {0};
        (void)snprintf(prefix, sizeof prefix, "rank%d.", rank);
        load(file_of(BUNDLED, prefix), &s);
        assert_int_equal(s.trace.rank, rank);
        assert_int_equal(s.step_origin, RS_STEPS_PROFILER_STEP);
        assert_int_equal(s.step_count, STEPS);
        assert_int_equal(s.op_count, 2 * STEPS);
        for (size_t k = 0; k < s.op_count; k++) {
            assert_int_equal(s.ops[k].type, RS_OP_ALL_REDUCE);
            assert_in_range(s.ops[k].step, FIRST_STEP, FIRST_STEP + STEPS - 1);
            bytes[s.ops[k].step - FIRST_STEP] += s.ops[k].bytes;
        }
        for (int k = 0; k < STEPS; k++) {
            assert_int_equal(s.steps[k].step, FIRST_STEP + k);
            assert_int_equal(bytes[k], 525568 * 4);
            assert_true((s.steps[k].preparing > 80000000) == (rank == 2));
        }
        assert_adds_up(&s);
        assert_spans_hold(&s);
        rs_summary_fini(&s);
    }
}

static void bundled_summaries_join_from_any_cut(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct rs_summary whole;
        load(file_of(BUNDLED, seed % 2 ? "rank0." : "rank2."), &whole);
        assert_true(whole.op_count > 0);
        join_again(&whole, seed, (size_t)seed % 6);
        rs_summary_fini(&whole);
    }
}

static void real_summaries_join_from_any_cut(void **unused)
{
    (void)unused;
    static const char *const files[][2] = {{KINETO "dlrm-8rank", "worker0_"},
                                           {KINETO "dlrm-8rank", "worker7_"},
                                           {KINETO "gloo-ddp-4rank-ondemand", "trace_6623"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        for (uint64_t seed = 1; seed <= 12; seed++) {
            struct rs_summary whole;
            load(file_of(files[i][0], files[i][1]), &whole);
            assert_true(whole.op_count > 0);
            join_again(&whole, seed, (size_t)seed % 6);
            rs_summary_fini(&whole);
        }
    }
}

int main(void)
{
    const struct CMUnitTest bundled[] = {
        cmocka_unit_test(bundled_ranks_have_their_steps_and_operations),
        cmocka_unit_test(bundled_summaries_join_from_any_cut),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dlrm_figures_are_exact),
        cmocka_unit_test(gloo_ranks_have_their_steps_and_operations),
        cmocka_unit_test(gloo_groups_rows_are_all_there),
        cmocka_unit_test(arguments_of_newer_traces_are_used),
        cmocka_unit_test(real_summaries_join_from_any_cut),
    };
    const int failed = cmocka_run_group_tests(bundled, NULL, NULL);
    if (access(KINETO, R_OK) != 0) {
        print_message("%s is not here: only the bundled job was tried\n", KINETO);
        return failed;
    }
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
