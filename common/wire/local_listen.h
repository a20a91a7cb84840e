/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of link_grpc.c: unix sockets are listened on here, not by gRPC, so that who comes is known by the kernel's
 * word (SO_PEERCRED) before a byte of it is read.
 *
 *     rs-accept   accept --> who? --> within its limits? --> a number for it --> gRPC, as "fd:NUMBER"
 *     the loop    a call of peer "fd:NUMBER" --> local_listen_find(): the identity of that number
 *
 * gRPC owns the descriptor from then on and closes it when it likes; the number may then be given to somebody else, while
 * a call of the old connection waits to be looked at. So a number that had one identity gets no other for a minute.
 */
#ifndef RS_WIRE_LOCAL_LISTEN_H
#define RS_WIRE_LOCAL_LISTEN_H

#include "common/base/err.h"
#include "common/trust/local.h"

enum { LOCAL_CONNECTIONS_MAX = 256 }; /* of one user who is not local, at a time */

struct local_listen;

struct local_listen_options {
    const char *path; /* of the socket; a stale one there is replaced: the caller has its lock */
    const struct rs_local_rules *rules; /* keeps a pointer to it; NULL: everybody is local */
    /* Takes the descriptor. On the thread of the listener. */
    void (*take)(void *self, int fd);
    void *self;
};

/* RS_IO: bind or listen. Then takes connections on a thread of its own. */
RS_MUST_CHECK enum rs_status local_listen_start(const struct local_listen_options *options,
                                                struct local_listen **listen_p, struct rs_err *err);
/* No connections any more; those there are stay known. May be called again. */
void local_listen_stop(struct local_listen *door);
/* Stops, and removes the socket. */
void local_listen_free(struct local_listen **listen_p);

/* Whose the connection is that gRPC calls `peer`; `text` (for logs and the audit log) says it in words. False: of nobody who
 * came here. Any thread. */
bool local_listen_find(struct local_listen *door, const char *peer, struct rs_identity *identity_p,
                       char *text, size_t bytes);

#endif
