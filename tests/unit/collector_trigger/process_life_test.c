/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/process_life.h"

#include "collector/trigger/process.h"
#include "tests/support/rs_test.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t start_sleeper(uint64_t *ticks_p)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)pause();
        _exit(3);
    }
    struct rs_process process;
    assert_ok(rs_process_read(pid, &process, NULL));
    *ticks_p = process.start_ticks;
    return pid;
}

static void end_sleeper(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static void a_process_lives_until_it_is_killed(void **state)
{
    (void)state;
    uint64_t ticks = 0;
    char how[80];
    struct rs_process_hold hold;
    const pid_t pid = start_sleeper(&ticks);
    rs_process_hold(&hold, pid, ticks);
    assert_int_equal(rs_process_life(&hold), RS_PROCESS_LIVES);
    (void)kill(pid, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(rs_process_life(&hold), RS_PROCESS_ENDED); /* a zombie */
    rs_process_end_text(&hold, how, sizeof how);
    assert_non_null(strstr(how, "killed by signal 9"));
    end_sleeper(pid);
    assert_int_equal(rs_process_life(&hold), RS_PROCESS_ENDED);
    rs_process_release(&hold);
}

static void without_a_descriptor_it_is_looked_up(void **state)
{
    (void)state;
    uint64_t ticks = 0;
    const pid_t pid = start_sleeper(&ticks);
    const struct rs_process_hold hold = {.pid = pid, .start_ticks = ticks, .pidfd = -1};
    assert_int_equal(rs_process_life(&hold), RS_PROCESS_LIVES);
    end_sleeper(pid);
    assert_int_equal(rs_process_life(&hold), RS_PROCESS_ENDED);
}

static void another_start_time_is_another_process(void **state)
{
    (void)state;
    uint64_t ticks = 0;
    struct rs_process_hold hold;
    const pid_t pid = start_sleeper(&ticks);
    rs_process_hold(&hold, pid, ticks + 1);
    assert_int_equal(rs_process_life(&hold), RS_PROCESS_ENDED);
    rs_process_release(&hold);
    end_sleeper(pid);
}

/* No descriptor is left: nothing of /proc can be opened, and nobody is taken for dead because of that. */
static void what_cannot_be_seen_is_not_dead(void **state)
{
    (void)state;
    uint64_t ticks = 0;
    struct rlimit limit;
    struct rs_process_hold before, without;
    const pid_t pid = start_sleeper(&ticks);
    rs_process_hold(&before, pid, ticks);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    rs_process_hold(&without, pid, ticks);
    const enum rs_process_life life = rs_process_life(&without);
    const enum rs_process_life held = rs_process_life(&before);
    const bool is_alive = rs_process_is_alive(pid, ticks);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(without.pidfd, -1);
    assert_int_equal(life, RS_PROCESS_UNSEEN);
    assert_int_not_equal(held, RS_PROCESS_ENDED);
    assert_true(is_alive);
    rs_process_release(&before);
    end_sleeper(pid);
    assert_int_equal(rs_process_life(&without), RS_PROCESS_ENDED);
}

static void what_a_host_has_is_known(void **state)
{
    (void)state;
    assert_true(rs_process_free_memory() > 1 << 20);
    assert_true(rs_process_memory(getpid()) > 1 << 16);
    assert_int_equal(rs_process_memory(INT32_MAX), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_host_has_is_known),
        cmocka_unit_test(a_process_lives_until_it_is_killed),
        cmocka_unit_test(without_a_descriptor_it_is_looked_up),
        cmocka_unit_test(another_start_time_is_another_process),
        cmocka_unit_test(what_cannot_be_seen_is_not_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
