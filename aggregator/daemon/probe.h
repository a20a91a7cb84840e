/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregator knocks at its own door: does anybody still answer there?
 *
 * A gRPC listener that once ran out of file descriptors never accepts again, even when they are free;
 * collectors then wait for ever, and nothing in the process knows. So every ten seconds a plain connection is made to
 * the own address; a living listener greets at once (an HTTP/2 SETTINGS frame). Two knocks in a row without an
 * answer: the caller ends the process, and whoever supervises it starts it again. Spools keep the data meanwhile.
 *
 *     QUIET --10 s--> KNOCKED --greeted--------------------------> QUIET, nobody silent
 *                        |-- 5 s, and the loop stood still meanwhile --> QUIET, as before: it says nothing about the listener
 *                        |-- 5 s, the loop turned ------------------> QUIET, once more silent --twice--> is_silent
 *
 * A thread of its own, rs-probe, so that neither a name's look-up nor the wait holds the loop up.
 */
#ifndef RS_DAEMON_PROBE_H
#define RS_DAEMON_PROBE_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/wire/link.h"

struct rs_probe;

/* RS_NOMEM, RS_IO: there is no thread to be had. */
RS_MUST_CHECK enum rs_status rs_probe_start(const struct rs_address *address,
                                            struct rs_probe **probe_p, struct rs_err *err);
/* Within a moment, whatever is under way. */
void rs_probe_stop(struct rs_probe **probe_p);

/* Thread: the loop's, with each of its turns. RS_OK: nothing to complain of. RS_UNREACHABLE: the listener is dead, with the
 * sentence. */
RS_MUST_CHECK enum rs_status rs_probe_turn(struct rs_probe *probe, struct rs_err *err);

#endif
