/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both daemons need: signals as a flag and a wake, and how loud to be.
 */
#ifndef RS_DAEMON_H
#define RS_DAEMON_H

#include "common/base/err.h"

#include <stdbool.h>

struct rs_daemon;

/* Blocks SIGTERM, SIGINT and SIGHUP in this thread and all that it starts later (call it before any
 * thread, and before gRPC), ignores SIGPIPE, and starts a thread that takes them. */
RS_MUST_CHECK enum rs_status rs_daemon_start(struct rs_daemon **daemon_p, struct rs_err *err);
/* Called on the signal thread when one came: must only wake somebody. */
void rs_daemon_on_signal(struct rs_daemon *daemon, void (*wake)(void *self), void *self);
/* How many SIGTERM or SIGINT came: 1 is stop, 2 is stop now. */
unsigned rs_daemon_stop_count(const struct rs_daemon *daemon);
void rs_daemon_end(struct rs_daemon **daemon_p);

#endif
