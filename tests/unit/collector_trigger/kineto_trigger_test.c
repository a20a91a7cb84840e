/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trigger against real processes: this program runs itself again as a client that follows the rules
 * of the real one (own socket, one poll per line on stdin, files as Kineto names them). A socket
 * name of the test's own keeps it away from any daemon on the machine.
 */
#include "collector/trigger/kineto.h"
#include "collector/trigger/kineto_ipc.h"
#include "tests/support/rs_test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char socket_name[64];
static char trace_root[64];

/* ---- the client: "client NAME"; each command byte on stdin is answered by one on stdout ---- */

static void client_address(struct sockaddr_un *address, socklen_t *bytes, const char *name)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%s", name);
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + 2);
}

static void client_touch(const char *config, const char *suffix, size_t bytes)
{
    char path[512] = "", from[520];
    const char *start = strstr(config, "ACTIVITIES_LOG_FILE=");
    if (!start)
        return;
    start += strlen("ACTIVITIES_LOG_FILE=");
    const char *json = strstr(start, ".json");
    (void)snprintf(path, sizeof path, "%.*s_%d.json%s", (int)(json - start), start, (int)getpid(),
                   suffix);
    if (!*suffix) {
        (void)snprintf(from, sizeof from, "%s.tmp", path);
        (void)rename(from, path);
        return;
    }
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    for (size_t i = 0; i < bytes; i++)
        (void)fputc('x', file);
    (void)fclose(file);
}

static size_t client_poll(int fd, const char *daemon, int32_t mask, char *text, size_t text_bytes)
{
    struct sockaddr_un to;
    socklen_t to_bytes;
    struct rs_buf out = {0};
    char type[RS_KINETO_TYPE_BYTES] = "req";
    client_address(&to, &to_bytes, daemon);
    rs_buf_u64(&out, 20);
    rs_buf_bytes(&out, type, sizeof type);
    rs_buf_u32(&out, (uint32_t)mask);
    rs_buf_u32(&out, 1);
    rs_buf_u64(&out, 0);
    rs_buf_u32(&out, (uint32_t)getpid());
    const ssize_t sent =
        sendto(fd, out.data, out.length, 0, (const struct sockaddr *)&to, to_bytes);
    rs_buf_fini(&out);
    char in[4096];
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (sent < 0 || poll(&ready, 1, 5000) != 1)
        return 0;
    const ssize_t got = recv(fd, in, sizeof in, 0);
    if (got < RS_KINETO_HEADER_BYTES)
        return 0;
    const size_t length = (size_t)got - RS_KINETO_HEADER_BYTES;
    (void)snprintf(text, text_bytes, "%.*s", (int)length, in + RS_KINETO_HEADER_BYTES);
    return (size_t)got;
}

static int client_main(const char *daemon)
{
    char name[64], text[2048] = "", config[2048] = "";
    struct sockaddr_un own;
    socklen_t own_bytes;
    const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    (void)snprintf(name, sizeof name, "%s-client-%d", daemon, (int)getpid());
    client_address(&own, &own_bytes, name);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&own, own_bytes) != 0)
        return 1;
    char command;
    while (read(STDIN_FILENO, &command, 1) == 1) {
        char answer = 'k';
        switch (command) {
        case 'p': /* idle poll: 'c' got a configuration, 'e' an empty answer, 'n' none */
        case 'b': /* busy poll */
            if (!client_poll(fd, daemon, command == 'p' ? 2 : 0, text, sizeof text))
                answer = 'n';
            else
                answer = *text ? 'c' : 'e';
            if (*text)
                (void)snprintf(config, sizeof config, "%s", text);
            break;
        case '0':
            client_touch(config, ".tmp", 0);
            break;
        case '1':
            client_touch(config, ".tmp", 100);
            break;
        case 'f':
            client_touch(config, "", 0);
            break;
        default:
            return 0;
        }
        if (write(STDOUT_FILENO, &answer, 1) != 1)
            return 1;
    }
    return 0;
}

/* ---- the test's side ---- */

struct child {
    pid_t pid;
    int to, from;
};

static struct child start_client(const char *rank)
{
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    char *emulator = getenv("RS_TEST_EMULATOR"), own_path[512] = ""; /* NOLINT: one thread */
    if (emulator && *emulator) {
        const ssize_t length = readlink("/proc/self/exe", own_path, sizeof own_path - 1);
        assert_true(length > 0);
        own_path[length] = '\0';
    }
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char variable[32];
        char *environment[] = {NULL, NULL, NULL};
        static char world[] = "WORLD_SIZE=4";
        (void)snprintf(variable, sizeof variable, "RANK=%s", rank);
        if (*rank) {
            environment[0] = variable;
            environment[1] = world;
        }
        char program[] = "client", *arguments[] = {program, socket_name, NULL};
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        if (emulator && *emulator) {
            char *emulated[] = {emulator, own_path, socket_name, NULL};
            (void)execvpe(emulator, emulated, environment);
            _exit(127);
        }
        (void)execve("/proc/self/exe", arguments, environment);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    return (struct child){.pid = pid, .to = in[1], .from = out[0]};
}

/* Sends one command and serves the trigger until its answer comes. */
static char command(struct rs_kineto_trigger *trigger, const struct child *child, char what)
{
    assert_int_equal(write(child->to, &what, 1), 1);
    for (int i = 0; i < 500; i++) {
        struct pollfd ready[] = {
            {.fd = rs_kineto_trigger_fd(trigger), .events = POLLIN},
            {.fd = child->from, .events = POLLIN},
        };
        assert_true(poll(ready, 2, 20) >= 0);
        rs_kineto_trigger_serve(trigger);
        char answer;
        if (ready[1].revents && read(child->from, &answer, 1) == 1)
            return answer;
    }
    fail_msg("no answer to command %c", what);
    return '?';
}

static void stop_client(const struct child *child)
{
    (void)close(child->to);
    (void)close(child->from);
    (void)kill(child->pid, SIGKILL);
    (void)waitpid(child->pid, NULL, 0);
}

static const struct rs_kineto_client *client_of(const struct rs_kineto_trigger *trigger, pid_t pid)
{
    size_t count;
    const struct rs_kineto_client *clients = rs_kineto_trigger_clients(trigger, &count);
    for (size_t i = 0; i < count; i++)
        if (clients[i].process.pid == pid)
            return &clients[i];
    fail_msg("process %d is not registered", (int)pid);
    return NULL;
}

static struct rs_kineto_trigger *open_trigger(void)
{
    struct rs_kineto_trigger *trigger;
    assert_ok(rs_kineto_trigger_open(
        &(struct rs_kineto_trigger_options){.socket_name = socket_name}, &trigger, NULL));
    return trigger;
}

static enum rs_status arm(struct rs_kineto_trigger *trigger, pid_t pid, const char *id,
                          struct rs_err *err)
{
    const struct rs_kineto_arm request = {
        .pid = pid,
        .capture_id = id,
        .trace_root = trace_root,
        .config = {.duration_ms = 200, .start_iteration = -1},
        .deadline = (rs_dur)30 * RS_NS_PER_S,
    };
    return rs_kineto_trigger_arm(trigger, &request, err);
}

static void a_capture_goes_from_armed_to_written(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_trigger();
    const struct child child = start_client("3");
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    assert_true(client_of(trigger, child.pid)->is_rank);
    assert_int_equal(client_of(trigger, child.pid)->process.rank, 3);
    assert_int_equal(client_of(trigger, child.pid)->process.world_size, 4);

    assert_ok(arm(trigger, child.pid, "c1", NULL));
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_ARMED);
    assert_int_equal(command(trigger, &child, 'p'), 'c');
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_DELIVERED);
    assert_int_equal(command(trigger, &child, 'b'), 'e');
    assert_true(client_of(trigger, child.pid)->is_busy);

    command(trigger, &child, '0');
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_RECORDING);
    command(trigger, &child, '1');
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_WRITING);
    command(trigger, &child, 'f');
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_WRITTEN);
    assert_int_equal(client_of(trigger, child.pid)->trace_bytes, 100);
    assert_non_null(strstr(client_of(trigger, child.pid)->trace_path, "/c1/"));
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

static void a_busy_client_gets_its_request_when_it_is_idle(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_trigger();
    const struct child child = start_client("0");
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    assert_ok(arm(trigger, child.pid, "c2", NULL));
    assert_int_equal(command(trigger, &child, 'b'), 'e');
    assert_int_equal(command(trigger, &child, 'p'), 'c');
    assert_int_equal(command(trigger, &child, 'p'), 'e'); /* once per capture */
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

static void a_launcher_is_answered_and_never_armed(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_trigger();
    const struct child child = start_client("");
    struct rs_err err = {0};
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    assert_false(client_of(trigger, child.pid)->is_rank);
    assert_status(arm(trigger, child.pid, "c3", &err), RS_REFUSED);
    assert_non_null(strstr(err.text, "no rank"));
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

static void a_death_is_named(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_trigger();
    const struct child child = start_client("1");
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    assert_ok(arm(trigger, child.pid, "c4", NULL));
    assert_int_equal(command(trigger, &child, 'p'), 'c');
    command(trigger, &child, '0');
    stop_client(&child);
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_FAILED);
    assert_non_null(strstr(client_of(trigger, child.pid)->failure, "ended before"));
    rs_kineto_trigger_close(&trigger);
}

static struct rs_kineto_adopt adoption(const struct rs_kineto_client *client, const char *id,
                                       bool is_delivered)
{
    return (struct rs_kineto_adopt){.process = client->process,
                                    .arm = {.pid = client->process.pid,
                                            .capture_id = id,
                                            .trace_root = trace_root,
                                            .config = {.duration_ms = 200, .start_iteration = -1},
                                            .deadline = (rs_dur)30 * RS_NS_PER_S},
                                    .is_delivered = is_delivered,
                                    .last_poll = rs_time_realtime()};
}

static void another_trigger_goes_on_with_what_was_delivered(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_trigger();
    const struct child child = start_client("2");
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    assert_ok(arm(trigger, child.pid, "a1", NULL));
    assert_int_equal(command(trigger, &child, 'p'), 'c');
    const struct rs_kineto_adopt adopt = adoption(client_of(trigger, child.pid), "a1", true);
    rs_kineto_trigger_close(&trigger);

    trigger = open_trigger();
    assert_ok(rs_kineto_trigger_adopt(trigger, &adopt, NULL));
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_DELIVERED);
    assert_true(client_of(trigger, child.pid)->is_rank);
    assert_int_equal(command(trigger, &child, 'b'), 'e'); /* never a second time */
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    command(trigger, &child, '1');
    command(trigger, &child, 'f');
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_WRITTEN);
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

static void another_trigger_offers_again_what_was_not_delivered(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_trigger();
    const struct child child = start_client("2");
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    const struct rs_kineto_adopt adopt = adoption(client_of(trigger, child.pid), "a2", false);
    rs_kineto_trigger_close(&trigger);

    trigger = open_trigger();
    assert_ok(rs_kineto_trigger_adopt(trigger, &adopt, NULL));
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_ARMED);
    assert_int_equal(command(trigger, &child, 'p'), 'c');
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

static void the_dead_are_gone_on_with_too(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_trigger();
    const struct child whole = start_client("1");
    const struct child half = start_client("3");
    const struct child *both[] = {&whole, &half};
    struct rs_kineto_adopt adopt[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(command(trigger, both[i], 'p'), 'e');
        assert_ok(arm(trigger, both[i]->pid, "a3", NULL));
        assert_int_equal(command(trigger, both[i], 'p'), 'c');
        command(trigger, both[i], '1');
        adopt[i] = adoption(client_of(trigger, both[i]->pid), "a3", true);
    }
    command(trigger, &whole, 'f');
    stop_client(&whole);
    stop_client(&half);
    rs_kineto_trigger_close(&trigger);

    trigger = open_trigger();
    for (int i = 0; i < 2; i++)
        assert_ok(rs_kineto_trigger_adopt(trigger, &adopt[i], NULL));
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, whole.pid)->state, RS_KINETO_WRITTEN);
    assert_int_equal(client_of(trigger, half.pid)->state, RS_KINETO_FAILED);
    assert_non_null(strstr(client_of(trigger, half.pid)->failure, "ended before its trace"));
    char left[256];
    (void)snprintf(left, sizeof left, "%s/a3/u%u/rank3_%d.json.tmp", trace_root, (unsigned)getuid(),
                   (int)half.pid);
    assert_int_not_equal(access(left, F_OK), 0); /* half a trace is nobody's */
    rs_kineto_trigger_close(&trigger);
}

static void a_request_is_not_delivered_after_its_time(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_trigger();
    const struct child child = start_client("2");
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    const struct rs_kineto_arm request = {.pid = child.pid,
                                          .capture_id = "late",
                                          .trace_root = trace_root,
                                          .config = {.duration_ms = 200, .start_iteration = -1},
                                          .deadline = (rs_dur)30 * RS_NS_PER_S,
                                          .deliver_until = rs_time_realtime() - 1};
    assert_ok(rs_kineto_trigger_arm(trigger, &request, NULL));
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_FAILED);
    assert_non_null(strstr(client_of(trigger, child.pid)->failure, "common start"));
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

static void how_a_process_ended_is_reported(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_trigger();
    const struct child child = start_client("1");
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    assert_ok(arm(trigger, child.pid, "how", NULL));
    (void)kill(child.pid, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT), 0);
    rs_kineto_trigger_tick(trigger); /* it has ended, and nobody has waited for it yet */
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_FAILED);
    assert_non_null(strstr(client_of(trigger, child.pid)->failure, "killed by signal 9"));
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

static rs_ns fake_now = 1000 * (rs_ns)RS_NS_PER_S;
static rs_ns fake_monotonic(void)
{
    return fake_now;
}

static struct rs_kineto_trigger *open_at_fake_time(void)
{
    struct rs_kineto_trigger *trigger;
    assert_ok(
        rs_kineto_trigger_open(&(struct rs_kineto_trigger_options){.socket_name = socket_name,
                                                                   .monotonic = fake_monotonic},
                               &trigger, NULL));
    return trigger;
}

static void silence_past_the_deadline_is_named(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_at_fake_time();
    const struct child child = start_client("1");
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    assert_ok(arm(trigger, child.pid, "c5", NULL));
    fake_now += 29 * (rs_ns)RS_NS_PER_S;
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_ARMED);
    fake_now += 2 * (rs_ns)RS_NS_PER_S;
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_FAILED);
    assert_non_null(strstr(client_of(trigger, child.pid)->failure, "did not poll"));
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

/* A rank that hangs keeps a request for steps, and may carry it out whenever it goes on: somebody has to be there. */
static void a_request_for_steps_stays_in_hand_beyond_its_deadline(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_at_fake_time();
    const struct child child = start_client("1");
    const struct rs_kineto_arm request = {
        .pid = child.pid,
        .capture_id = "late",
        .trace_root = trace_root,
        .config = {.iterations = 2, .iteration_roundup = 10, .start_iteration = -1},
        .deadline = (rs_dur)30 * RS_NS_PER_S};
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    assert_ok(rs_kineto_trigger_arm(trigger, &request, NULL));
    assert_int_equal(command(trigger, &child, 'p'), 'c');
    rs_kineto_trigger_tick(trigger);
    assert_false(client_of(trigger, child.pid)->is_overdue);
    fake_now += 3600 * (rs_ns)RS_NS_PER_S;
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_DELIVERED);
    assert_true(client_of(trigger, child.pid)->is_overdue);
    assert_status(arm(trigger, child.pid, "next", NULL), RS_EXISTS);
    command(trigger, &child, '1');
    command(trigger, &child, 'f');
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_WRITTEN);
    assert_false(client_of(trigger, child.pid)->is_overdue);
    assert_ok(arm(trigger, child.pid, "next", NULL));
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

/* A profiler that misses the end of its recording is busy for good, and fills the memory of its process. */
static void a_recording_that_does_not_end_stays_in_hand_with_the_memory_it_began_with(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_at_fake_time();
    const struct child child = start_client("1");
    const struct rs_kineto_arm request = {
        .pid = child.pid,
        .capture_id = "endless",
        .trace_root = trace_root,
        .config = {.iterations = 2, .iteration_roundup = 10, .start_iteration = -1},
        .deadline = (rs_dur)30 * RS_NS_PER_S};
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    assert_ok(rs_kineto_trigger_arm(trigger, &request, NULL));
    assert_int_equal(command(trigger, &child, 'p'), 'c');
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->memory_at_begin_bytes, -1);
    command(trigger, &child, '0');
    rs_kineto_trigger_tick(trigger);
    const int64_t began = client_of(trigger, child.pid)->memory_at_begin_bytes;
    assert_true(began > 100000);
    for (int i = 0; i < 10; i++) {
        fake_now += 5 * (rs_ns)RS_NS_PER_S;
        assert_int_equal(command(trigger, &child, 'b'), 'e');
        rs_kineto_trigger_tick(trigger);
    }
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_RECORDING);
    assert_true(client_of(trigger, child.pid)->is_overdue);
    assert_int_equal(client_of(trigger, child.pid)->memory_at_begin_bytes, began);
    assert_status(arm(trigger, child.pid, "next", NULL), RS_EXISTS);
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

/* From its first poll to its file. */
static void take_capture(struct rs_kineto_trigger *trigger, const struct child *child)
{
    assert_int_equal(command(trigger, child, 'p'), 'e');
    assert_ok(arm(trigger, child->pid, "first", NULL));
    assert_int_equal(command(trigger, child, 'p'), 'c');
    command(trigger, child, '1');
    command(trigger, child, 'f');
    rs_kineto_trigger_tick(trigger);
}

/* The file has its name, and the profiler frees its memory yet: a capture right behind is queued, not refused. */
static void a_capture_is_queued_behind_the_one_that_was_written(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_at_fake_time();
    const struct child child = start_client("1");
    take_capture(trigger, &child);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_WRITTEN);
    assert_int_equal(command(trigger, &child, 'b'), 'e');
    assert_false(client_of(trigger, child.pid)->is_busy);
    assert_ok(arm(trigger, child.pid, "behind", NULL));
    assert_int_equal(command(trigger, &child, 'b'), 'e'); /* it would not begin now */
    assert_int_equal(command(trigger, &child, 'p'), 'c');

    /* A poll that says idle came since: who is busy then records for somebody else. */
    command(trigger, &child, '1');
    command(trigger, &child, 'f');
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    assert_int_equal(command(trigger, &child, 'b'), 'e');
    assert_true(client_of(trigger, child.pid)->is_busy);
    assert_status(arm(trigger, child.pid, "own", NULL), RS_REFUSED);
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

/* Nothing is let go of for ever: the script's own profile began in the moment ours ended. */
static void a_profile_of_its_own_is_told_from_letting_go(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_at_fake_time();
    const struct child child = start_client("1");
    take_capture(trigger, &child);
    assert_int_equal(command(trigger, &child, 'b'), 'e');
    assert_ok(arm(trigger, child.pid, "behind", NULL));
    fake_now += 61 * (rs_ns)RS_NS_PER_S;
    assert_int_equal(command(trigger, &child, 'b'), 'e');
    assert_true(client_of(trigger, child.pid)->is_busy);
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_FAILED);
    assert_non_null(strstr(client_of(trigger, child.pid)->failure, "busy with another profile"));
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

/* The script's own profiler ends ours, and its file stays as it was. A capture of two steps is over between two polls, so that none ever says
 * busy: then two that say idle behind the file are the proof, and the rank is not held for ever by what will never come. */
static void what_is_given_up_between_two_polls_is_found_out(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_at_fake_time();
    const struct child child = start_client("1");
    const struct rs_kineto_arm request = {
        .pid = child.pid,
        .capture_id = "between",
        .trace_root = trace_root,
        .config = {.iterations = 2, .start_iteration = -1, .iteration_roundup = 50},
        .deadline = 3600 * (rs_dur)RS_NS_PER_S};
    const rs_dur period = 5 * (rs_dur)RS_NS_PER_S;
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    assert_ok(rs_kineto_trigger_arm(trigger, &request, NULL));
    assert_int_equal(command(trigger, &child, 'p'), 'c');
    /* Before it begins it says idle however often it asks. */
    for (int i = 0; i < 5; i++, fake_now += period) {
        assert_int_equal(command(trigger, &child, 'p'), 'e');
        rs_kineto_trigger_tick(trigger);
    }
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_DELIVERED);
    command(trigger, &child, '0');
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_RECORDING);
    fake_now += period;
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_RECORDING);
    fake_now += period;
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_FAILED);
    assert_non_null(strstr(client_of(trigger, child.pid)->failure, "gave up the capture"));
    assert_ok(arm(trigger, child.pid, "next", NULL));
    assert_int_equal(command(trigger, &child, 'p'), 'c');
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

static void a_trace_that_stops_growing_is_named(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_at_fake_time();
    const struct child child = start_client("1");
    const struct rs_kineto_arm request = {.pid = child.pid,
                                          .capture_id = "stuck",
                                          .trace_root = trace_root,
                                          .config = {.duration_ms = 200, .start_iteration = -1},
                                          .deadline = (rs_dur)3600 * RS_NS_PER_S};
    assert_int_equal(command(trigger, &child, 'p'), 'e');
    assert_ok(rs_kineto_trigger_arm(trigger, &request, NULL));
    assert_int_equal(command(trigger, &child, 'p'), 'c');
    command(trigger, &child, '1');
    rs_kineto_trigger_tick(trigger);
    fake_now += 59 * (rs_ns)RS_NS_PER_S;
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_WRITING);
    fake_now += 2 * (rs_ns)RS_NS_PER_S;
    rs_kineto_trigger_tick(trigger);
    assert_int_equal(client_of(trigger, child.pid)->state, RS_KINETO_FAILED);
    assert_non_null(strstr(client_of(trigger, child.pid)->failure, "stuck in writing"));
    stop_client(&child);
    rs_kineto_trigger_close(&trigger);
}

static void a_second_daemon_is_reported_who_serves(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_trigger(), *second = NULL;
    struct rs_err err = {0};
    char own[32];
    (void)snprintf(own, sizeof own, "process %d (", (int)getpid());
    assert_status(
        rs_kineto_trigger_open(&(struct rs_kineto_trigger_options){.socket_name = socket_name},
                               &second, &err),
        RS_EXISTS);
    assert_non_null(strstr(err.text, own));
    rs_kineto_trigger_close(&trigger);
}

static void a_strangers_bytes_cost_nothing(void **state)
{
    (void)state;
    struct rs_kineto_trigger *trigger = open_trigger();
    struct sockaddr_un to;
    socklen_t bytes;
    unsigned char noise[300];
    const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    client_address(&to, &bytes, socket_name);
    unsigned seed = 7;
    for (int round = 0; round < 2000; round++) {
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (unsigned char)((seed = seed * 1103515245u + 12345u) >> 16);
        if (round % 2)
            memcpy(noise + 8, "req\0", 4);
        (void)sendto(fd, noise, (size_t)round % sizeof noise, MSG_DONTWAIT,
                     (const struct sockaddr *)&to, bytes);
        rs_kineto_trigger_serve(trigger);
    }
    size_t count;
    (void)rs_kineto_trigger_clients(trigger, &count);
    assert_int_equal(count, 0);
    assert_true(rs_kineto_trigger_counts(trigger).refused_datagrams > 0);
    (void)close(fd);
    rs_kineto_trigger_close(&trigger);
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return client_main(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_capture_goes_from_armed_to_written),
        cmocka_unit_test(a_busy_client_gets_its_request_when_it_is_idle),
        cmocka_unit_test(a_capture_is_queued_behind_the_one_that_was_written),
        cmocka_unit_test(a_profile_of_its_own_is_told_from_letting_go),
        cmocka_unit_test(a_launcher_is_answered_and_never_armed),
        cmocka_unit_test(a_death_is_named),
        cmocka_unit_test(another_trigger_goes_on_with_what_was_delivered),
        cmocka_unit_test(another_trigger_offers_again_what_was_not_delivered),
        cmocka_unit_test(the_dead_are_gone_on_with_too),
        cmocka_unit_test(a_request_is_not_delivered_after_its_time),
        cmocka_unit_test(how_a_process_ended_is_reported),
        cmocka_unit_test(silence_past_the_deadline_is_named),
        cmocka_unit_test(a_request_for_steps_stays_in_hand_beyond_its_deadline),
        cmocka_unit_test(what_is_given_up_between_two_polls_is_found_out),
        cmocka_unit_test(a_recording_that_does_not_end_stays_in_hand_with_the_memory_it_began_with),
        cmocka_unit_test(a_trace_that_stops_growing_is_named),
        cmocka_unit_test(a_second_daemon_is_reported_who_serves),
        cmocka_unit_test(a_strangers_bytes_cost_nothing),
    };
    (void)snprintf(socket_name, sizeof socket_name, "rs-test-%d", (int)getpid());
    (void)snprintf(trace_root, sizeof trace_root, "/tmp/rs-test-XXXXXX");
    if (!mkdtemp(trace_root))
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command_line[128];
    (void)snprintf(command_line, sizeof command_line, "rm -rf '%s'", trace_root);
    if (system(command_line) != 0) /* NOLINT: a test's own folder */
        return 1;
    return failed;
}
