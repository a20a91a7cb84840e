/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/kineto_ledger.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "tests/support/rs_test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64];

struct found {
    struct rs_kineto_job jobs[4];
    size_t count;
};

static void keep(void *self, const struct rs_kineto_job *job)
{
    struct found *found = self;
    assert_true(found->count < 4);
    found->jobs[found->count++] = *job;
}

static struct found read_all(void)
{
    struct found found = {0};
    assert_ok(rs_kineto_ledger_read(dir, keep, &found, NULL));
    return found;
}

static struct rs_kineto_job example(void)
{
    struct rs_kineto_job job = {.phase = RS_KINETO_JOB_READING,
                                .rank = 7,
                                .world = -1,
                                .pid = 4711,
                                .uid = 1000,
                                .start_ticks = UINT64_MAX,
                                .steps = 3,
                                .deadline = 1700000000123456789,
                                .deliver_from = -1,
                                .last_poll = 5,
                                .poll_period = 6,
                                .start_time_ms = INT64_MAX,
                                .duration_ms = 8,
                                .roundup = 500,
                                .warmup = 3,
                                .activities = 5,
                                .record_shapes = true,
                                .with_modules = true,
                                .first_seq = 99};
    (void)snprintf(job.capture, sizeof job.capture, "20260101-000000-abcdef");
    (void)snprintf(job.run, sizeof job.run, "a run with blanks = and #");
    (void)snprintf(job.host, sizeof job.host, "node1");
    (void)snprintf(job.incarnation, sizeof job.incarnation, "node1:4711:12/abc");
    (void)snprintf(job.trace_root, sizeof job.trace_root, "/tmp/traces");
    (void)snprintf(job.path, sizeof job.path, "/tmp/traces/c/u0/rank7_4711.json");
    return job;
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    const struct rs_kineto_job job = example();
    assert_ok(rs_kineto_ledger_write(dir, &job, NULL));
    const struct found found = read_all();
    assert_int_equal(found.count, 1);
    assert_memory_equal(&found.jobs[0], &job, sizeof job);
    rs_kineto_ledger_remove(dir, &job);
    assert_int_equal(read_all().count, 0);
}

static void the_last_phase_counts(void **state)
{
    (void)state;
    struct rs_kineto_job job = example();
    job.phase = RS_KINETO_JOB_ARMED;
    assert_ok(rs_kineto_ledger_write(dir, &job, NULL));
    job.phase = RS_KINETO_JOB_DELIVERED;
    assert_ok(rs_kineto_ledger_write(dir, &job, NULL));
    const struct found found = read_all();
    assert_int_equal(found.count, 1);
    assert_int_equal(found.jobs[0].phase, RS_KINETO_JOB_DELIVERED);
    rs_kineto_ledger_remove(dir, &job);
}

static void put(const char *name, const void *bytes, size_t length)
{
    char *path = rs_file_join(dir, name);
    assert_ok(rs_file_replace(path, bytes, length, false, NULL));
    free(path);
}

static void a_record_cut_anywhere_is_none(void **state)
{
    (void)state;
    const struct rs_kineto_job job = example();
    struct rs_buf whole = {0};
    char path[256];
    assert_ok(rs_kineto_ledger_write(dir, &job, NULL));
    (void)snprintf(path, sizeof path, "%s/%s.7.4711.job", dir, job.capture);
    assert_ok(rs_file_read(path, 1 << 20, &whole, NULL));
    rs_kineto_ledger_remove(dir, &job);
    for (size_t length = 0; length < whole.length; length++) {
        put("cut.job", whole.data, length);
        assert_int_equal(read_all().count, 0);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    put("whole.tmp-XYZ", whole.data, whole.length); /* what a write that was cut short leaves */
    assert_int_equal(read_all().count, 0);
    put("whole.job", whole.data, whole.length);
    assert_int_equal(read_all().count, 1);
    put("whole.job", "\0\0\0", 3);
    assert_int_equal(read_all().count, 0);
    rs_buf_fini(&whole);
}

static void another_start_of_the_node_is_seen(void **state)
{
    (void)state;
    static const char text[] =
        "rankscope-kineto-job 1\nphase delivered\nboot not-this-one\ncapture c\n"
        "pid 5\ntrace_root /tmp/t\nlater_member 1\nend\n";
    put("boot.job", text, sizeof text - 1);
    const struct found found = read_all();
    assert_int_equal(found.count, 1);
    assert_true(found.jobs[0].is_other_boot);
    assert_int_equal(found.jobs[0].pid, 5);
}

static void a_folder_that_is_not_there_holds_nothing(void **state)
{
    (void)state;
    struct found found = {0};
    assert_ok(rs_kineto_ledger_read("/nonexistent/folder", keep, &found, NULL));
    assert_int_equal(found.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(the_last_phase_counts),
        cmocka_unit_test(a_record_cut_anywhere_is_none),
        cmocka_unit_test(another_start_of_the_node_is_seen),
        cmocka_unit_test(a_folder_that_is_not_there_holds_nothing),
    };
    (void)snprintf(dir, sizeof dir, "/tmp/rs-ledger-XXXXXX");
    rs_log_set_level(RS_LOG_ERROR); /* a line for each cut is not read by anyone */
    if (!mkdtemp(dir))
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command) != 0 ? 1 : failed; /* NOLINT: a test's own folder */
}
