/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of a process on its host: out of /proc, as rows of counters, the same ones after a kill. */
#include "collector/agent/host_samples.h"

#include "common/base/file.h"
#include "tests/support/rs_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROWS_MAX = 64 };
static const uint32_t all =
    RS_HOST_SYS_CPU | RS_HOST_SYS_MEM | RS_HOST_SYS_DISK | RS_HOST_SYS_NETWORK;

/* What came out. */
struct seen {
    struct {
        char name[48], args[48];
        rs_ns at;
        int64_t value;
    } rows[ROWS_MAX];
    size_t count;
};

static enum rs_status on_batch(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct seen *seen = self;
    assert_ok(rs_batch_check(batch, err));
    for (size_t i = 0; i < batch->count && seen->count < ROWS_MAX; i++) {
        assert_int_equal(batch->kind[i], RS_KIND_COUNTER);
        (void)snprintf(seen->rows[seen->count].name, sizeof seen->rows[0].name, "%s",
                       rs_strtab_text(batch->strings, batch->name[i]));
        (void)snprintf(seen->rows[seen->count].args, sizeof seen->rows[0].args, "%.*s",
                       (int)batch->extra_length[i], batch->extra + batch->extra_offset[i]);
        seen->rows[seen->count].at = batch->start[i];
        seen->rows[seen->count++].value = batch->bytes[i];
    }
    return RS_OK;
}

static void emit(struct rs_host_samples *samples, rs_ns base, rs_ns from, rs_ns to,
                 struct seen *seen)
{
    struct rs_source_stream stream;
    struct rs_err err = {0};
    const struct rs_sink sink = {.batch = on_batch, .self = seen};
    assert_ok(rs_source_stream_init(&stream));
    seen->count = 0;
    const struct rs_host_window window = {base, from, to};
    assert_ok(rs_host_samples_emit(samples, &stream, &window, sink, &err));
    rs_source_stream_fini(&stream);
}

static size_t count_of(const struct seen *seen, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < seen->count; i++)
        count += strcmp(seen->rows[i].name, name) == 0;
    return count;
}

static int64_t last_of(const struct seen *seen, const char *name)
{
    int64_t value = -1;
    for (size_t i = 0; i < seen->count; i++)
        if (strcmp(seen->rows[i].name, name) == 0)
            value = seen->rows[i].value;
    return value;
}

/* CPU time, and bytes that reach the disk, between two samples. */
static void work(const char *folder)
{
    char path[256];
    char block[4096] = {1};
    const clock_t until = clock() + CLOCKS_PER_SEC / 20;
    (void)snprintf(path, sizeof path, "%s/written", folder);
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    for (int i = 0; i < 64; i++)
        assert_int_equal(write(fd, block, sizeof block), sizeof block);
    (void)fsync(fd);
    (void)close(fd);
    (void)unlink(path);
    while (clock() < until)
        continue;
}

static struct rs_host_samples *two_samples(int64_t pid, uint32_t set, const char *folder)
{
    struct rs_host_samples *samples = NULL;
    const struct rs_host_plan plan = {.set = set, .hz = 100};
    assert_ok(rs_host_samples_new(pid, plan, &samples));
    rs_host_samples_look(samples);
    work(folder);
    rs_host_samples_look(samples);
    return samples;
}

static void a_process_is_sampled(void **state)
{
    struct seen seen;
    const rs_ns before = rs_time_realtime();
    struct rs_host_samples *samples = two_samples(getpid(), all, *state);
    emit(samples, before, RS_NS_MIN, RS_NS_MAX, &seen);
    assert_string_equal(rs_host_samples_why(samples), "");
    assert_int_equal(count_of(&seen, "process memory bytes"), 2);
    assert_int_equal(count_of(&seen, "process swap bytes"), 2);
    assert_true(last_of(&seen, "process memory bytes") > 100000);
    /* of the time since the one before: the first has none */
    assert_int_equal(count_of(&seen, "process CPU %"), 1);
    assert_in_range(last_of(&seen, "process CPU %"), 1, 200);
    assert_int_equal(count_of(&seen, "process disk read B/s"), 1);
    assert_int_equal(count_of(&seen, "process disk write B/s"), 1);
    assert_int_equal(count_of(&seen, "host network receive B/s"), 1);
    assert_int_equal(count_of(&seen, "host network transmit B/s"), 1);
    for (size_t i = 0; i < seen.count; i++) {
        char args[48];
        (void)snprintf(args, sizeof args, "\"value\":%lld", (long long)seen.rows[i].value);
        assert_string_equal(seen.rows[i].args, args);
        assert_in_range(seen.rows[i].at, 0, 600 * (rs_ns)RS_NS_PER_S); /* of the stream's base */
    }
    emit(samples, before, RS_NS_MIN, RS_NS_MAX, &seen);
    assert_int_equal(seen.count, 0); /* they were handed over */
    rs_host_samples_free(&samples);
}

static void what_is_not_due_is_not_sampled(void **state)
{
    (void)state;
    struct seen seen;
    struct rs_host_samples *samples = NULL;
    const struct rs_host_plan plan = {.set = RS_HOST_SYS_MEM, .hz = 1};
    const rs_ns from = rs_time_monotonic();
    assert_ok(rs_host_samples_new(getpid(), plan, &samples));
    for (int i = 0; i < 100; i++)
        rs_host_samples_look(samples);
    const rs_dur took = rs_time_monotonic() - from;
    emit(samples, 0, RS_NS_MIN, RS_NS_MAX, &seen);
    assert_in_range(count_of(&seen, "process memory bytes"), 1, 1 + took / RS_NS_PER_S);
    rs_host_samples_free(&samples);
}

static void only_what_was_asked_for_and_lies_in_the_time(void **state)
{
    struct seen seen;
    struct rs_host_samples *samples = two_samples(getpid(), RS_HOST_SYS_MEM, *state);
    const rs_ns now = rs_time_realtime();
    emit(samples, 0, now, RS_NS_MAX, &seen);
    assert_int_equal(seen.count, 0);
    rs_host_samples_free(&samples);
    samples = two_samples(getpid(), RS_HOST_SYS_MEM, *state);
    emit(samples, 0, now, RS_NS_MAX, &seen);
    assert_int_equal(seen.count, 4);
    assert_int_equal(count_of(&seen, "process memory bytes"), 2);
    rs_host_samples_free(&samples);
}

static void a_process_that_is_gone_has_no_values(void **state)
{
    struct seen seen;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    struct rs_host_samples *samples = two_samples(pid, all, *state);
    emit(samples, 0, RS_NS_MIN, RS_NS_MAX, &seen);
    assert_int_equal(seen.count, 0);
    assert_non_null(strstr(rs_host_samples_why(samples), "/proc/PID/io"));
    rs_host_samples_free(&samples);
}

static void a_process_that_cannot_be_seen_has_no_values(void **state)
{
    struct seen seen;
    struct rs_host_samples *samples = two_samples(0, all, *state); /* to the kernel: ourselves */
    emit(samples, 0, RS_NS_MIN, RS_NS_MAX, &seen);
    assert_int_equal(seen.count, 0);
    assert_non_null(strstr(rs_host_samples_why(samples), "namespace"));
    rs_host_samples_free(&samples);
}

static void they_are_the_same_after_a_kill(void **state)
{
    char path[256];
    struct seen one, two;
    struct rs_err err = {0};
    struct rs_buf text = {0};
    struct rs_host_samples *samples = two_samples(getpid(), all, *state);
    struct rs_host_samples *read = NULL;
    (void)snprintf(path, sizeof path, "%s/samples", (const char *)*state);
    assert_ok(rs_host_samples_save(samples, path, &err));
    assert_ok(rs_host_samples_load(path, &read, &err));
    rs_host_samples_look(read); /* they take no more */
    emit(samples, 0, RS_NS_MIN, RS_NS_MAX, &one);
    emit(read, 0, RS_NS_MIN, RS_NS_MAX, &two);
    assert_true(one.count > 4);
    assert_int_equal(one.count, two.count);
    for (size_t i = 0; i < one.count; i++) {
        assert_string_equal(one.rows[i].name, two.rows[i].name);
        assert_int_equal(one.rows[i].value, two.rows[i].value);
        assert_int_equal(one.rows[i].at, two.rows[i].at);
    }
    rs_host_samples_free(&samples);
    rs_host_samples_free(&read);
    /* what was cut is none */
    assert_ok(rs_file_read(path, 1 << 20, &text, &err));
    assert_ok(rs_file_replace(path, text.data, text.length - 1, false, &err));
    assert_int_equal(rs_host_samples_load(path, &read, &err), RS_FORMAT);
    assert_ok(rs_file_replace(path, text.data, 3, false, &err));
    assert_int_equal(rs_host_samples_load(path, &read, &err), RS_FORMAT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rs_host_samples_load(path, &read, &err), RS_NOTFOUND);
    assert_null(read);
    rs_buf_fini(&text);
}

static void put_number(const char *folder, const char *name, const char *number)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(rs_file_replace(path, number, strlen(number), false, NULL));
}

/* A host with one RDMA card of two ports, of which the second has no counters. */
static void network_cards_are_sampled_port_by_port(void **state)
{
    char root[128], counters[256], other[256], path[256];
    struct seen seen, again;
    struct rs_err err = {0};
    struct rs_host_samples *samples = NULL, *read = NULL;
    (void)snprintf(root, sizeof root, "%s/sys", (const char *)*state);
    (void)snprintf(counters, sizeof counters, "%s/class/infiniband/mlx5_0/ports/1/counters", root);
    (void)snprintf(other, sizeof other, "%s/class/infiniband/mlx5_0/ports/2", root);
    assert_ok(rs_file_make_dirs(counters, 0750, NULL));
    assert_ok(rs_file_make_dirs(other, 0750, NULL));
    put_number(counters, "port_rcv_data", "1000000\n");
    put_number(counters, "port_xmit_data", "5\n");
    const struct rs_host_plan plan = {.hz = 100, .has_ports = true, .sys_root = root};
    assert_ok(rs_host_samples_new(getpid(), plan, &samples));
    rs_host_samples_look(samples);
    put_number(counters, "port_rcv_data", "2000000\n"); /* words of four bytes */
    work(*state);
    const rs_ns before = rs_time_realtime();
    rs_host_samples_look(samples);
    (void)snprintf(path, sizeof path, "%s/samples", (const char *)*state);
    assert_ok(rs_host_samples_save(samples, path, &err));
    assert_ok(rs_host_samples_load(path, &read, &err));
    emit(samples, 0, before, RS_NS_MAX, &seen);
    emit(read, 0, before, RS_NS_MAX, &again);
    /* 4 MB in the time between, which was 50 ms at least and 30 s at most */
    assert_in_range(last_of(&seen, "RDMA mlx5_0/1 receive B/s"), 4000000 / 30, 4000000 * 20);
    assert_int_equal(last_of(&seen, "RDMA mlx5_0/1 transmit B/s"), 0);
    assert_int_equal(last_of(&again, "RDMA mlx5_0/1 receive B/s"),
                     last_of(&seen, "RDMA mlx5_0/1 receive B/s"));
    assert_int_equal(count_of(&seen, "RDMA mlx5_0/2 receive B/s"), 0);
    assert_int_equal(count_of(&seen, "NIC lo receive B/s"), 0);
    for (size_t i = 0; i < seen.count; i++) /* and nothing that was not asked for */
        assert_true(strncmp(seen.rows[i].name, "RDMA ", 5) == 0 ||
                    strncmp(seen.rows[i].name, "NIC ", 4) == 0);
    rs_host_samples_free(&samples);
    rs_host_samples_free(&read);
}

static void a_request_says_what_is_sampled(void **state)
{
    (void)state;
    Rankscope__CaptureRequest request = RANKSCOPE__CAPTURE_REQUEST__INIT;
    Rankscope__RequestExperimental experimental = RANKSCOPE__REQUEST_EXPERIMENTAL__INIT;
    assert_int_equal(rs_host_plan_of(NULL).set, 0);
    assert_int_equal(rs_host_plan_of(&request).set, 0);
    request.experimental = &experimental;
    experimental.host_sys = all | RS_HOST_SYS_OSRT;
    request.sample_hz = 1000; /* whoever sent that */
    assert_int_equal(rs_host_plan_of(&request).set, all);
    assert_int_equal(rs_host_plan_of(&request).hz, 100);
    request.sample_hz = 0;
    assert_int_equal(rs_host_plan_of(&request).hz, 1);
    assert_false(rs_host_plan_of(&request).has_ports);
    experimental.host_sys = RS_HOST_SYS_OSRT;
    const struct rs_host_plan none = rs_host_plan_of(&request);
    assert_true(rs_host_plan_is_empty(&none));
    experimental.sys_io = true;
    const struct rs_host_plan ports = rs_host_plan_of(&request);
    assert_false(rs_host_plan_is_empty(&ports));
}

static int make_folder(void **state)
{
    static char folder[64];
    (void)snprintf(folder, sizeof folder, "/tmp/rs-host-XXXXXX");
    *state = mkdtemp(folder);
    return *state ? 0 : -1;
}

static int remove_folder(void **state)
{
    return rs_file_remove_tree(*state, NULL) == RS_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_sampled),
        cmocka_unit_test(what_is_not_due_is_not_sampled),
        cmocka_unit_test(only_what_was_asked_for_and_lies_in_the_time),
        cmocka_unit_test(a_process_that_is_gone_has_no_values),
        cmocka_unit_test(a_process_that_cannot_be_seen_has_no_values),
        cmocka_unit_test(they_are_the_same_after_a_kill),
        cmocka_unit_test(network_cards_are_sampled_port_by_port),
        cmocka_unit_test(a_request_says_what_is_sampled),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
