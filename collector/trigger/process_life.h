/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a process live, and how did it end: the kernel's word, by a descriptor of the process (pidfd).
 *
 * /proc/PID/stat alone cannot tell: a file that cannot be read for the moment (no descriptor left, no memory,
 * another /proc mounted over ours) looks like a process that ended, and then every rank of a node "ends" at one
 * instant. So a death is only believed when the kernel says it: by the pidfd, or, on kernels without, when
 * /proc has no such process and a signal cannot be sent to it either.
 *
 * One thread at a time for one hold.
 */
#ifndef RS_TRIGGER_PROCESS_LIFE_H
#define RS_TRIGGER_PROCESS_LIFE_H

#include "collector/trigger/process.h"

#include <stddef.h>

struct rs_process_hold {
    pid_t pid;
    uint64_t start_ticks;
    int pidfd; /* -1: the kernel has none, or no descriptor was left; /proc is asked then */
};

/* Takes hold of the process that has this pid and this start time; when that has ended already, the hold says so. */
void rs_process_hold(struct rs_process_hold *hold, pid_t pid, uint64_t start_ticks);
/* Of a zeroed hold that was never taken: not allowed (0 is a descriptor); set pidfd to -1 first. */
void rs_process_release(struct rs_process_hold *hold);

enum rs_process_life {
    RS_PROCESS_LIVES,
    RS_PROCESS_ENDED,  /* a zombie has ended, too */
    RS_PROCESS_UNSEEN, /* nothing can be said now: no reason to give it up */
};
enum rs_process_life rs_process_life(const struct rs_process_hold *hold);

/* How it ended: "killed by signal 9 (Killed)", "exit code 1"; "" when that cannot be known (it needs Linux 6.15, or that
 * nobody has waited for it yet). */
void rs_process_end_text(const struct rs_process_hold *hold, char *text, size_t bytes);

#endif
