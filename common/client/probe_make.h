/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A probe (probe_watch.h) that a client makes, as the aggregator's standing watch makes its own (aggregator/server/step_probe.h):
 *
 *     AskStart, marked as a probe --progress: for how long ranks record--> closed --read()--> step and own work a rank
 *                                                                                 --AskRemove--> gone
 *
 * Only the capture that was started here is removed. One that is left behind (Ctrl-C, an aggregator that goes away) is no probe that
 * anybody waits for, and the aggregator removes it.
 */
#ifndef RS_CLIENT_PROBE_MAKE_H
#define RS_CLIENT_PROBE_MAKE_H

#include "common/client/probe_watch.h"

struct rs_probe_make {
    const struct rs_address *address;
    const char *run;
    struct rs_probe_rules rules;
    double above; /* as in step_watch.h */
    /* Reads what the capture tells of the ranks that are compared: a figure each, RS_PROBE_WATCH_RANKS at most; how many. */
    size_t (*read)(void *self, const char *capture, const struct rs_probe_watch *watch,
                   struct rs_probe_figure *figures, struct rs_err *err);
    void *self;
};

/* Makes one, and tells the rules what it told; waits until it is over. RS_OK; RS_END: *alarm_p is set; RS_PARTIAL: it came to nothing,
 * and `err` says why; RS_CANCELLED: Ctrl-C. */
RS_MUST_CHECK enum rs_status rs_client_probe_make(const struct rs_probe_make *how,
                                                  struct rs_probe_watch *watch,
                                                  struct rs_run_alarm *alarm_p, struct rs_err *err);

#endif
