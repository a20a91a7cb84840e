/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregator knocks at its own door: does anybody still answer there?
 *
 * A gRPC listener that once ran out of file descriptors never accepts again, even when they are free;
 * collectors then wait for ever, and nothing in the process knows. So every ten seconds a plain connection is made to
 * the own address; a living listener greets at once (an HTTP/2 SETTINGS frame). Two knocks in a row without an
 * answer: the caller ends the process, and whoever supervises it starts it again. Spools keep the data meanwhile.
 *
 * Never blocks; stepped by the aggregator's loop, one thread.
 */
#ifndef RS_CLI_PROBE_H
#define RS_CLI_PROBE_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/wire/link.h"

struct rs_probe {
    struct rs_address address;
    int fd;         /* -1: none under way */
    rs_ns next;     /* monotonic: when to knock */
    rs_ns deadline; /* of the knock under way */
    int silent_count;
};

void rs_probe_init(struct rs_probe *probe, const struct rs_address *address, rs_ns now);
void rs_probe_fini(struct rs_probe *probe);

/* RS_OK: nothing to complain of. RS_UNREACHABLE: the listener is dead, with the sentence. */
RS_MUST_CHECK enum rs_status rs_probe_step(struct rs_probe *probe, rs_ns now, struct rs_err *err);

#endif
