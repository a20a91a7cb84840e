/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that is watched: when it hangs, what its ranks know is taken before somebody ends the job.
 *
 *   WATCHING --no rank that tells its steps moved for `ratio` x the median step--> INCIDENT
 *      ^     \--a rank wrote a flight recorder dump (a watchdog gave up)---------> SETTLING --other ranks' dumps--> INCIDENT
 *      |                                                                                                              |
 *      |                                                               AskHang: all ranks are asked, a capture is kept
 *      |                                                                                                              v
 *      +--- a rank moved, or wrote another dump ------------------------------------------------------------------- OVER
 *
 * One capture an incident, and `budget` of them; then it is over. Ranks that tell no steps (unmodified PyTorch) are watched by
 * their dumps alone.
 */
#ifndef RS_CLIENT_HANG_WATCH_H
#define RS_CLIENT_HANG_WATCH_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/wire/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- do the ranks move? Pure: time is an argument (monotonic). ---- */

struct rs_hang_step {
    uint32_t rank;
    int64_t step;
    rs_dur step_ns; /* length of its last steps, when it moved last */
};

struct rs_hang_steps {
    struct rs_hang_step *items; /* by rank */
    size_t count, capacity;
    rs_ns newest; /* when one moved last; 0: none is known */
};

/* A rank tells its step (-1: it has none yet, nothing happens). RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_hang_steps_see(struct rs_hang_steps *steps, uint32_t rank,
                                               int64_t step, rs_dur step_ns, rs_ns now);
/* How long no rank has moved; 0: nobody tells steps. *limit_p: longer than this is an incident: ratio x the median of the ranks'
 * steps, at least floor. */
rs_dur rs_hang_steps_still(const struct rs_hang_steps *steps, double ratio, rs_dur floor_ns,
                           rs_ns now, rs_dur *limit_p);
void rs_hang_steps_fini(struct rs_hang_steps *steps);

/* ---- the watch ---- */

struct rs_hang_watch_options {
    const struct rs_address *address;
    const char *run; /* "": the only one */
    double ratio;    /* 0: 10 */
    rs_dur floor_ns; /* 0: 10 s */
    unsigned budget; /* captures; 0: 5 */
    /* An incident, and what was kept of it; `capture` NULL: nothing could be, `why` says the reason. */
    void (*on_incident)(void *self, const char *what, const char *capture, const char *why);
    void *self;
};

/* Until the budget is spent: RS_OK. RS_CANCELLED: Ctrl-C. RS_UNREACHABLE: the aggregator is gone. */
RS_MUST_CHECK enum rs_status rs_client_hang_watch(const struct rs_hang_watch_options *options,
                                                  struct rs_err *err);
/* Asks all ranks now; `id` has the capture. `ranks` is an expression, "" all. As rs_client_ask(). */
RS_MUST_CHECK enum rs_status rs_client_hang(const struct rs_address *address, const char *run,
                                            const char *ranks, char id[64], struct rs_err *err);

#endif
