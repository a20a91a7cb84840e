/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A probe of `rankscope watch`: a short capture of ranks that tell no steps, read and removed.
 */
#ifndef RS_CLI_WATCH_PROBE_H
#define RS_CLI_WATCH_PROBE_H

#include "common/client/probe_watch.h"

struct watch_probe {
    const char *connect;
    const struct rs_address *address;
    const char *run;
    struct rs_probe_rules rules;
    double above;
};

/* Makes one, and tells the rules what it told; waits until it is over. RS_OK; RS_END: *alarm_p is set; RS_PARTIAL: it came to nothing,
 * and `err` says why; RS_CANCELLED: Ctrl-C. */
RS_MUST_CHECK enum rs_status watch_probe_make(const struct watch_probe *how,
                                              struct rs_probe_watch *watch,
                                              struct rs_run_alarm *alarm_p, struct rs_err *err);

#endif
