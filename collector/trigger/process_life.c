/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/process_life.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of linux/pidfd.h since 6.15, which the headers we build with need not have. */
struct pidfd_facts {
    uint64_t mask;
    uint64_t cgroup;
    uint32_t pid, group, parent;
    uint32_t ids[8];
    int32_t exit_code;
};
#define PIDFD_GET_FACTS _IOWR(0xFF, 11, struct pidfd_facts)
enum { PIDFD_FACTS_EXIT = 1 << 3 };
_Static_assert(sizeof(struct pidfd_facts) == 64, "the first version of the kernel's struct");

void rs_process_hold(struct rs_process_hold *hold, pid_t pid, uint64_t start_ticks)
{
    *hold = (struct rs_process_hold){.pid = pid, .start_ticks = start_ticks, .pidfd = -1};
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0u);
    if (fd < 0)
        return;
    /* Between the look at its start time and now the pid may have come to another process. */
    if (rs_process_look(pid, start_ticks) != RS_NOTFOUND)
        hold->pidfd = fd;
    else
        (void)close(fd);
}

void rs_process_release(struct rs_process_hold *hold)
{
    if (hold->pidfd >= 0)
        (void)close(hold->pidfd);
    hold->pidfd = -1;
}

enum rs_process_life rs_process_life(const struct rs_process_hold *hold)
{
    if (hold->pidfd >= 0) {
        struct pollfd ended = {.fd = hold->pidfd, .events = POLLIN};
        const int ready = poll(&ended, 1, 0);
        if (ready < 0 || (ended.revents & POLLNVAL))
            return RS_PROCESS_UNSEEN;
        return ready == 0 ? RS_PROCESS_LIVES : RS_PROCESS_ENDED;
    }
    const enum rs_status seen = rs_process_look(hold->pid, hold->start_ticks);
    if (seen == RS_NOTFOUND)
        return RS_PROCESS_ENDED;
    return seen == RS_OK ? RS_PROCESS_LIVES : RS_PROCESS_UNSEEN;
}

/* -1: not known. */
static int exit_status(const struct rs_process_hold *hold)
{
    struct pidfd_facts facts = {.mask = PIDFD_FACTS_EXIT};
    if (hold->pidfd >= 0 && ioctl(hold->pidfd, PIDFD_GET_FACTS, &facts) == 0 &&
        (facts.mask & PIDFD_FACTS_EXIT))
        return facts.exit_code;
    return rs_process_zombie_status(hold->pid, hold->start_ticks);
}

void rs_process_end_text(const struct rs_process_hold *hold, char *text, size_t bytes)
{
    const int status = exit_status(hold);
    text[0] = '\0';
    if (status >= 0 && WIFSIGNALED(status))
        (void)snprintf(text, bytes, "killed by signal %d (%s)", WTERMSIG(status),
                       sigdescr_np(WTERMSIG(status)) ? sigdescr_np(WTERMSIG(status)) : "?");
    else if (status >= 0 && WIFEXITED(status))
        (void)snprintf(text, bytes, "exit code %d", WEXITSTATUS(status));
}
