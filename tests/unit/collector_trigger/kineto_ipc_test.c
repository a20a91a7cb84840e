/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages and configuration texts, byte by byte. The layouts are those that real clients sent: a poll of
 * PyTorch 2.15 is bundled, with ../shared/data/kineto-ipc beside the project those of other releases are read too.
 */
#include "collector/trigger/kineto_ipc.h"

#include "collector/trigger/kineto_config.h"
#include "common/base/file.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GOLDEN "../shared/data/kineto-ipc/"

static void put_poll(struct rs_buf *buf, uint64_t size, int32_t mask, int32_t count,
                     const int32_t *pids, size_t pid_count)
{
    char type[RS_KINETO_TYPE_BYTES] = "req";
    rs_buf_u64(buf, size);
    rs_buf_bytes(buf, type, sizeof type);
    rs_buf_u32(buf, (uint32_t)mask);
    rs_buf_u32(buf, (uint32_t)count);
    rs_buf_u64(buf, 4242);
    for (size_t i = 0; i < pid_count; i++)
        rs_buf_u32(buf, (uint32_t)pids[i]);
}

static enum rs_status parse(const struct rs_buf *buf, struct rs_kineto_message *message)
{
    return rs_kineto_message_parse(rs_view_of(buf->data, buf->length), message, NULL);
}

static void a_poll_is_read_field_by_field(void **state)
{
    (void)state;
    const int32_t pids[] = {26261, 26259, 1};
    struct rs_buf buf = {0};
    struct rs_kineto_message message;
    put_poll(&buf, 16 + 12, 2, 3, pids, 3);
    assert_ok(parse(&buf, &message));
    assert_int_equal(message.kind, RS_KINETO_POLL);
    assert_int_equal(message.mask, RS_KINETO_ACTIVITIES);
    assert_int_equal(message.job_id, 4242);
    assert_int_equal(message.pid_count, 3);
    assert_memory_equal(message.pids, pids, sizeof pids);
    rs_buf_fini(&buf);
}

static void counts_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    const int32_t pids[] = {1};
    const int32_t counts[] = {0, -1, 2, 1000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct rs_buf buf = {0};
        struct rs_kineto_message message;
        put_poll(&buf, 20, 2, counts[i], pids, 1);
        assert_status(parse(&buf, &message), RS_FORMAT);
        rs_buf_fini(&buf);
    }
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    const int32_t pids[] = {7, 8};
    struct rs_buf buf = {0};
    struct rs_kineto_message message;
    put_poll(&buf, 24, 3, 2, pids, 2);
    assert_ok(parse(&buf, &message));
    for (size_t length = 0; length < buf.length; length++)
        assert_status(rs_kineto_message_parse(rs_view_of(buf.data, length), &message, NULL),
                      RS_FORMAT);
    rs_buf_fini(&buf);
}

static void a_size_that_is_not_the_datagrams_is_refused(void **state)
{
    (void)state;
    const int32_t pids[] = {7};
    const uint64_t sizes[] = {0, 19, 21, 4096, 1ull << 62, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct rs_buf buf = {0};
        struct rs_kineto_message message;
        put_poll(&buf, sizes[i], 2, 1, pids, 1);
        assert_status(parse(&buf, &message), RS_FORMAT);
        rs_buf_fini(&buf);
    }
}

static void answers_are_exact(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    rs_kineto_reply_config(&buf, "", 0);
    uint8_t empty[40] = {0};
    memcpy(empty + 8, "req", 3);
    assert_int_equal(buf.length, sizeof empty);
    assert_memory_equal(buf.data, empty, sizeof empty);

    rs_buf_reset(&buf);
    rs_kineto_reply_config(&buf, "A=1\n", 4);
    assert_int_equal(buf.length, 44);
    assert_int_equal(buf.data[0], 4);
    assert_memory_equal(buf.data + 40, "A=1\n", 4);

    rs_buf_reset(&buf);
    rs_kineto_reply_register(&buf, 1);
    const uint8_t one[4] = {1, 0, 0, 0};
    assert_int_equal(buf.length, 44);
    assert_memory_equal(buf.data + 8, "ctxt", 5);
    assert_memory_equal(buf.data + 40, one, 4);
    rs_buf_fini(&buf);
}

/* As PyTorch 2.15 sent it (KINETO_USE_DAEMON=1, SLURM_JOB_ID=42, process 44); and what hostile hands make of it. */
static void a_recorded_poll_is_understood(void **state)
{
    (void)state;
    static const char path[] = "tests/golden/kineto-ipc/torch-2.15-poll.bin";
    enum { PID_COUNT_AT = RS_KINETO_HEADER_BYTES + 4 };
    struct rs_buf buf = {0};
    struct rs_kineto_message message;
    assert_ok(rs_file_read(path, 4096, &buf, NULL));
    assert_ok(parse(&buf, &message));
    assert_int_equal(message.kind, RS_KINETO_POLL);
    assert_int_equal(message.mask, RS_KINETO_ACTIVITIES);
    assert_int_equal(message.job_id, 42);
    assert_int_equal(message.pid_count, 1);
    const int32_t pid = 44;
    assert_memory_equal(message.pids, &pid, sizeof pid);
    const size_t length = buf.length;
    for (buf.length = 0; buf.length < length; buf.length++)
        assert_status(parse(&buf, &message), RS_FORMAT);
    static const uint8_t counts[] = {0, 2, 0xFF};
    for (size_t i = 0; i < sizeof counts; i++) {
        buf.data[PID_COUNT_AT] = counts[i];
        assert_status(parse(&buf, &message), RS_FORMAT);
    }
    buf.data[PID_COUNT_AT] = 1;
    buf.data[7] = 0x40; /* a length of 2^62 */
    assert_status(parse(&buf, &message), RS_FORMAT);
    buf.data[7] = 0;
    memset(buf.data + 8, 'r', RS_KINETO_TYPE_BYTES); /* a type that does not end */
    assert_status(parse(&buf, &message), RS_FORMAT);
    rs_buf_fini(&buf);
}

static void golden_datagrams_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        enum rs_status status;
        int32_t mask;
        size_t pid_count;
    } cases[] = {
        {"head-114171df/01-client-req-type2-idle.bin", RS_OK, 2, 6},
        {"head-114171df/05-client-req-type0-busy.bin", RS_OK, 0, 6},
        {"head-114171df/07-client-req-pidns-n1.bin", RS_OK, 2, 1},
        {"k2026feb-a087858d/01-client-req-type3.bin", RS_OK, 3, 6},
        {"k2025-04c9e863/01-client-req-type3.bin", RS_OK, 3, 6},
        {"k2023-170d45a6/01-client-req-type3.bin", RS_OK, 3, 6},
        {"head-114171df/08-client-ctxt-gpu3-job42.bin", RS_OK, 0, 1},
        {"negative/short-39-bytes.bin", RS_FORMAT, 0, 0},
        {"negative/size-larger-than-datagram.bin", RS_FORMAT, 0, 0},
        {"negative/client-req-n-larger-than-body.bin", RS_FORMAT, 0, 0},
        {"negative/client-req-n-zero.bin", RS_FORMAT, 0, 0},
        {"negative/client-req-n-negative.bin", RS_FORMAT, 0, 0},
        {"negative/type-not-nul-terminated.bin", RS_FORMAT, 0, 0},
        {"negative/reply-header-size-2pow62.bin", RS_FORMAT, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[256];
        struct rs_buf buf = {0};
        struct rs_kineto_message message;
        (void)snprintf(path, sizeof path, GOLDEN "%s", cases[i].file);
        if (rs_file_read(path, 4096, &buf, NULL) == RS_NOTFOUND && access(GOLDEN, F_OK) != 0) {
            print_message(GOLDEN " is not here: only the bundled datagram was tried\n");
            return;
        }
        assert_status(parse(&buf, &message), cases[i].status);
        if (cases[i].status == RS_OK) {
            assert_int_equal(message.mask, cases[i].mask);
            assert_int_equal(message.pid_count, cases[i].pid_count);
        }
        rs_buf_fini(&buf);
    }
}

static const struct rs_kineto_config good_config = {
    .log_file = "/tmp/rs/c1/u0/rank3.json",
    .start_time_ms = 1795219512000,
    .duration_ms = 300,
    .start_iteration = -1,
    .trace_id = "c1",
};

static void a_duration_text_is_exact(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    assert_ok(rs_kineto_config_text(&good_config, &buf, NULL));
    assert_string_equal(rs_buf_text(&buf), "ACTIVITIES_LOG_FILE=/tmp/rs/c1/u0/rank3.json\n"
                                           "PROFILE_START_TIME=1795219512000\n"
                                           "ACTIVITIES_DURATION_MSECS=300\n"
                                           "ACTIVITIES_WARMUP_PERIOD_SECS=0\n"
                                           "REQUEST_TRACE_ID=c1\n");
    rs_buf_fini(&buf);
}

static void an_iteration_text_is_exact(void **state)
{
    (void)state;
    struct rs_kineto_config config = good_config;
    struct rs_buf buf = {0};
    config.start_time_ms = 0;
    config.duration_ms = 0;
    config.iterations = 2;
    config.iteration_roundup = 500;
    config.record_shapes = true;
    assert_ok(rs_kineto_config_text(&config, &buf, NULL));
    assert_string_equal(rs_buf_text(&buf), "ACTIVITIES_LOG_FILE=/tmp/rs/c1/u0/rank3.json\n"
                                           "PROFILE_START_ITERATION=0\n"
                                           "PROFILE_START_ITERATION_ROUNDUP=500\n"
                                           "ACTIVITIES_ITERATIONS=2\n"
                                           "ACTIVITIES_WARMUP_PERIOD_SECS=0\n"
                                           "PROFILE_REPORT_INPUT_SHAPES=true\n"
                                           "REQUEST_TRACE_ID=c1\n");
    rs_buf_fini(&buf);
}

static void what_is_recorded_and_the_warm_up_are_said(void **state)
{
    (void)state;
    struct rs_kineto_config config = good_config;
    struct rs_buf buf = {0};
    config.start_time_ms = 0;
    config.duration_ms = 0;
    config.iterations = 2;
    config.iteration_roundup = 500;
    config.warmup_iterations = 3;
    config.activities = RS_ACTIVITY_CPU | RS_ACTIVITY_CUDA;
    assert_ok(rs_kineto_config_text(&config, &buf, NULL));
    assert_string_equal(rs_buf_text(&buf),
                        "ACTIVITIES_LOG_FILE=/tmp/rs/c1/u0/rank3.json\n"
                        "PROFILE_START_ITERATION=0\n"
                        "PROFILE_START_ITERATION_ROUNDUP=500\n"
                        "ACTIVITIES_WARMUP_ITERATIONS=3\n"
                        "ACTIVITIES_ITERATIONS=2\n"
                        "ACTIVITIES_WARMUP_PERIOD_SECS=0\n"
                        "ACTIVITY_TYPES=cpu_op,user_annotation,cpu_instant_event,python_function,"
                        "gpu_memcpy,gpu_memset,kernel,gpu_user_annotation,cuda_runtime,overhead\n"
                        "REQUEST_TRACE_ID=c1\n");
    rs_buf_fini(&buf);
}

static void paths_that_the_grammar_cannot_hold_are_refused(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "rel.json",         "/tmp/a=b.json",  "/tmp/a#b.json",      "/tmp/a b.json",
        "/tmp/../etc.json", "/tmp/a.json.gz", "/tmp/x.json/a.json", "/tmp/noext",
        "/tmp/a\nB=1.json", "/tmp/a\tb.json",
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct rs_kineto_config config = good_config;
        struct rs_buf buf = {0};
        config.log_file = paths[i];
        assert_status(rs_kineto_config_text(&config, &buf, NULL), RS_INVALID);
        assert_int_equal(buf.length, 0);
        rs_buf_fini(&buf);
    }
}

static void only_tmp_and_the_ranks_own_folder_are_allowed(void **state)
{
    (void)state;
    assert_true(rs_kineto_path_is_allowed("/tmp/a.json", ""));
    assert_false(rs_kineto_path_is_allowed("/tmpx/a.json", ""));
    assert_false(rs_kineto_path_is_allowed("/var/tmp/a.json", ""));
    assert_true(rs_kineto_path_is_allowed("/data/traces/a.json", "/data/traces"));
    assert_false(rs_kineto_path_is_allowed("/data/traces2/a.json", "/data/traces"));
    assert_false(rs_kineto_path_is_allowed("/tmp/../etc/a.json", ""));
}

static void a_state_of_msmonitor_is_read_field_by_field(void **state)
{
    (void)state;
    static const char *const types[] = {"npuTraceStatus", "npuMonitorStatus"};
    for (size_t i = 0; i < 2; i++) {
        struct rs_buf buf = {0};
        struct rs_kineto_message message;
        char type[RS_KINETO_TYPE_BYTES] = {0};
        (void)snprintf(type, sizeof type, "%s", types[i]);
        rs_buf_u64(&buf, 32);
        rs_buf_bytes(&buf, type, sizeof type);
        rs_buf_u32(&buf, (uint32_t)-1);
        rs_buf_u32(&buf, 120);
        rs_buf_u32(&buf, 121);
        rs_buf_u32(&buf, 130);
        rs_buf_u32(&buf, 4711);
        rs_buf_u32(&buf, 0);
        rs_buf_u64(&buf, 0);
        assert_ok(parse(&buf, &message));
        assert_int_equal(message.kind, RS_KINETO_STATUS);
        assert_int_equal(message.status, -1);
        assert_int_equal(message.current_step, 120);
        assert_int_equal(message.start_step, 121);
        assert_int_equal(message.stop_step, 130);
        assert_int_equal(message.pids[0], 4711);
        for (size_t length = 0; length < buf.length; length++)
            assert_status(rs_kineto_message_parse(rs_view_of(buf.data, length), &message, NULL),
                          RS_FORMAT);
        rs_buf_fini(&buf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_poll_is_read_field_by_field),
        cmocka_unit_test(counts_that_do_not_fit_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_size_that_is_not_the_datagrams_is_refused),
        cmocka_unit_test(a_state_of_msmonitor_is_read_field_by_field),
        cmocka_unit_test(answers_are_exact),
        cmocka_unit_test(a_recorded_poll_is_understood),
        cmocka_unit_test(golden_datagrams_are_understood),
        cmocka_unit_test(a_duration_text_is_exact),
        cmocka_unit_test(an_iteration_text_is_exact),
        cmocka_unit_test(what_is_recorded_and_the_warm_up_are_said),
        cmocka_unit_test(paths_that_the_grammar_cannot_hold_are_refused),
        cmocka_unit_test(only_tmp_and_the_ranks_own_folder_are_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
