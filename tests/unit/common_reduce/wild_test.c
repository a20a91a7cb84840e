/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events as a stranger could write them: every column takes every value, names and arguments mean
 * something to us. Nothing may crash, and the result can be written and read again.
 */
#include "common/reduce/reduce.h"
#include "tests/support/make_batches.h"
#include "tests/support/rs_test.h"

static const char *const telling[] = {
    "ProfilerStep#1",
    "ProfilerStep#99999999999999999",
    "Optimizer.step#A.step",
    "Optimizer.step#B.step",
    "gloo:all_reduce",
    "gloo:send",
    "gloo:recv",
    "gloo:scatter",
    "gloo:barrier",
    "nccl:all_reduce",
    "nccl:coalesced",
    "c10d::allreduce_",
    "c10d::send",
    "c10d::recv_",
    "c10d::scatter_",
    "c10d::_allgather_base_",
    "record_param_comms",
    "ncclDevKernel_SendRecv(...)",
    "ncclDevKernel_AllReduce_Sum(...)",
    "Memcpy HtoD",
    "send",
    "recv",
    "all_reduce",
    "broadcast",
    "[[1, 2], [], 3]",
    "[[[9223372036854775807, 9223372036854775807]]]",
    "[\"\", \"\", \"1\", \"2\"]",
    "[\"float\", \"TensorList\"]",
    "[0, 1, 2, ..., 29, ...]",
    "[4294967296, 1]",
    "Float",
    "[[",
};

/* Every row at its extremes; unless `far`, times and ids are close enough to meet. */
static void make_batch(struct make_stream *stream, bool far)
{
    make_wild(stream, 1000);
    for (size_t row = 0; row < 1000 && !far; row++) {
        const rs_ns start = (rs_ns)make_below(&stream->random, 100000);
        stream->batch.start[row] = start;
        stream->batch.end[row] = start + (rs_ns)make_below(&stream->random, 5000);
        stream->batch.correlation[row] = (int64_t)make_below(&stream->random, 400);
    }
}

static void reduce_wild(uint64_t seed, struct rs_summary *summary)
{
    struct make_stream stream;
    struct rs_reduce *reducer = NULL;
    struct rs_trace_info info;
    struct rs_err err;
    make_open(&stream, seed, 1000);
    for (size_t i = 0; i < sizeof telling / sizeof *telling; i++)
        (void)make_string(&stream, telling[i]);
    rs_trace_info_init(&info);
    info.has_time_base = true;
    info.base_ns = seed & 1 ? INT64_MAX : INT64_MIN;
    assert_ok(rs_reduce_new(&stream.strings, &stream.lanes, &reducer));
    for (int i = 0; i < 3; i++) {
        make_batch(&stream, seed % 3 == 0);
        assert_ok(rs_reduce_add(reducer, &stream.batch, &err));
    }
    assert_ok(rs_reduce_finish(reducer, &info, summary, &err));
    rs_reduce_free(&reducer);
    rs_trace_info_fini(&info);
    make_close(&stream);
}

static void wild_events_do_no_harm(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 80; seed++) {
        struct rs_summary summary, read;
        struct rs_buf bytes = {0};
        struct rs_err err;
        reduce_wild(seed, &summary);
        assert_ok(rs_summary_encode(&summary, &bytes, &err));
        assert_ok(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err));
        for (size_t i = 0; i < summary.step_count; i++) {
            const struct rs_step_row *row = &summary.steps[i];
            assert_int_equal(row->window_end - row->window_start,
                             row->window_computing + row->window_exposed + row->window_memory +
                                 row->idle_head + row->idle_inside + row->idle_tail);
        }
        rs_summary_fini(&summary);
        rs_summary_fini(&read);
        rs_buf_fini(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wild_events_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
