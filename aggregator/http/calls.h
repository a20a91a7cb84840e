/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the server from other threads of its process: each is a link that ends here instead of at a socket, so that it
 * has the same rights, bounds, audit and answers as one over gRPC.
 *
 *     thread of a connection                              thread of the server
 *     rs_call_begin(who, Ask) ---- list, wake ----------> rs_calls_turn(): a link is accepted, on_message(Ask)
 *     rs_call_next() <------------ one Reply at a time --- rs_link_send(); the next when this one was taken
 *     rs_call_end() ------------- is_left, wake ---------> on_closed()
 *
 * A call has two owners, the asker and the server's thread; who is the second to be through frees it.
 */
#ifndef RS_AGGREGATOR_CALLS_H
#define RS_AGGREGATOR_CALLS_H

#include "common/wire/link.h"

struct rs_calls;
struct rs_call;

/* `accept` takes the links as it takes a listener's. Keeps a pointer to the loop and to accept_self. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_calls_new(struct rs_loop *loop, rs_accept_fn *accept,
                                          void *accept_self, struct rs_calls **calls_p,
                                          struct rs_err *err);
/* Hands over what was asked and taken since. Thread: the server's, after each turn of its loop. */
void rs_calls_turn(struct rs_calls *calls);
/* From now on every rs_call_next() returns RS_UNREACHABLE at once. Thread: the server's. */
void rs_calls_stop(struct rs_calls *calls);
/* After rs_calls_stop(), when every call has ended and a last rs_calls_turn() was made. Thread: the server's. */
void rs_calls_free(struct rs_calls **calls_p);

/* Asks; the message is packed before it returns. `from` is an address, for logs. RS_UNREACHABLE: the service stops. RS_NOMEM.
 * Any thread but the server's. */
RS_MUST_CHECK enum rs_status rs_call_begin(struct rs_calls *calls, const struct rs_identity *who,
                                           const char *from, Rankscope__Ask *ask,
                                           struct rs_call **call_p, struct rs_err *err);
/* The next reply, freed by the caller with rankscope__reply__free_unpacked(, NULL). RS_AGAIN: none came until `until` (monotonic).
 * RS_END: that was the last one. Below 0: a refusal, or the end of the service. */
RS_MUST_CHECK enum rs_status rs_call_next(struct rs_call *call, rs_ns until,
                                          Rankscope__Reply **reply_p, struct rs_err *err);
/* Whatever is still on its way is not wanted. Of NULL is allowed. */
void rs_call_end(struct rs_call **call_p);

#endif
