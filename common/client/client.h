/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question to the aggregator, and its answers.
 */
#ifndef RS_CLIENT_H
#define RS_CLIENT_H

#include "common/wire/link.h"

#include <stdatomic.h>
#include <stdbool.h>

/* How links over TCP are guarded, for the whole process. The options --certs and --insecure-loopback write it, before there is
 * any second thread; nobody else does. */
struct rs_client_security {
    const char
        *certs; /* folder of our certificates; NULL: where they usually are, if there are any */
    bool is_insecure_loopback;
};
extern struct rs_client_security rs_client_security;

/* Guards a TCP address as the process wants it. RS_REFUSED as rs_address_guard(). */
RS_MUST_CHECK enum rs_status rs_client_guard(struct rs_address *address, struct rs_err *err);

/* The address to ask: `given` (--connect, RANKSCOPE_CONNECT; the first of several, which are for collectors), else the default socket, the first that is there.
 * RS_INVALID as rs_address_parse(), RS_REFUSED as rs_client_guard(). */
RS_MUST_CHECK enum rs_status rs_client_address(const char *given, struct rs_address *address_p,
                                               struct rs_err *err);

/* Whether somebody takes connections at this unix socket; true for TCP, where only asking tells. */
bool rs_client_is_there(const struct rs_address *address);

/* Asks and hands every answer to `on_reply` (lent) until the last, or until it returns false. Fills in the
 * version. A Refusal becomes the status and sentence it carries and is not handed on, unless it names unknown ranks. RS_UNREACHABLE;
 * RS_CANCELLED: Ctrl-C. A refusal that names who has what was asked for (another aggregator of the same database) is followed, once, where our
 * certificate allows it. Blocks SIGINT and SIGTERM in this process; one that came too late to cancel anything stays pending. */
RS_MUST_CHECK enum rs_status rs_client_ask(const struct rs_address *address, Rankscope__Ask *ask,
                                           bool (*on_reply)(void *self,
                                                            const Rankscope__Reply *reply),
                                           void *self, struct rs_err *err);

/* The same for a thread of a daemon: signals are not its own. */
struct rs_client_patience {
    rs_ns until;                  /* monotonic: RS_UNREACHABLE when there is no answer by then */
    const atomic_bool *must_stop; /* RS_CANCELLED within a fifth of a second */
};
RS_MUST_CHECK enum rs_status
rs_client_ask_within(const struct rs_address *address, Rankscope__Ask *ask,
                     const struct rs_client_patience *patience,
                     bool (*on_reply)(void *self, const Rankscope__Reply *reply), void *self,
                     struct rs_err *err);

#endif
