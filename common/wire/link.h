/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link: one end of a bidirectional stream of messages, and the loop it lives on.
 *
 *     user (uplink, session, command)          link                        the other end
 *        rs_link_send(head, payload) ----->  one message at a time  ----->  on_message(frame)
 *        on_writable()               <-----  accepted by flow control
 *        on_message(frame)           <-----  one receive at a time, while on_message says so
 *        rs_link_close() / abort()   ----->  ...
 *        on_closed(status, reason)   <-----  exactly once, the last call; then the link is gone
 *
 * A sent message is *accepted by flow control*, not arrived: only an Ack proves that. A user that
 * returns false from on_message gets nothing more until rs_link_resume(); pressure then runs
 * back to the sender by HTTP/2 flow control.
 *
 * A loop is one thread's: everything but rs_loop_wake() is called from it, and all callbacks come
 * from rs_loop_run(). link_grpc.c implements both over gRPC's completion queue, and
 * tests/support/link_mem.c in memory, for the same conversation without sockets.
 */
#ifndef RS_WIRE_LINK_H
#define RS_WIRE_LINK_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/base/view.h"
#include "common/trust/local.h"
#include "common/trust/trust.h"
#include "common/wire/wire.h"

struct rs_link;
struct rs_loop;

struct rs_link_user {
    /* Takes the frame. true: go on receiving. */
    bool (*on_message)(void *self, struct rs_link *link, struct rs_frame *frame);
    /* The last rs_link_send() is done; another may be called. */
    void (*on_writable)(void *self, struct rs_link *link);
    /* RS_OK: both sides were through. Else RS_UNREACHABLE, RS_CANCELLED, RS_REFUSED, RS_LIMIT with the
     * reason (lent). The link is freed after it returns. */
    void (*on_closed)(void *self, struct rs_link *link, enum rs_status status, const char *reason);
};

struct rs_link_ops {
    enum rs_status (*send)(struct rs_link *link, struct rs_view head, struct rs_view payload);
    void (*resume)(struct rs_link *link);
    void (*close)(struct rs_link *link, enum rs_status status, const char *reason);
    void (*abort)(struct rs_link *link);
};

struct rs_link {
    const struct rs_link_ops *ops;
    const struct rs_link_user *user; /* keeps a pointer to it */
    void *self;                      /* of the user */
    const char *peer;                /* for logs; lent by the link */
    struct rs_identity identity;     /* of the other side; of a server's links only */
    const char *distrust;            /* while it is accepted: why it is nobody; else NULL */
};

struct rs_loop_ops {
    enum rs_status (*run)(struct rs_loop *loop, rs_ns until);
    void (*wake)(struct rs_loop *loop);
};

struct rs_loop {
    const struct rs_loop_ops *ops;
};

/* Sends one message: head, then payload (may be empty); both are copied. RS_AGAIN: the last one is
 * still going out, wait for on_writable. RS_UNREACHABLE: the link is closing. */
RS_MUST_CHECK static inline enum rs_status rs_link_send(struct rs_link *link, struct rs_view head,
                                                        struct rs_view payload)
{
    return link->ops->send(link, head, payload);
}

/* Receives again after on_message returned false. */
static inline void rs_link_resume(struct rs_link *link)
{
    link->ops->resume(link);
}

/* Ends our side: a client says it has no more to send, a server answers with the status (RS_OK,
 * RS_REFUSED, RS_FORMAT, RS_LIMIT, RS_VERSION, RS_UNREACHABLE). on_closed follows when the other side is through, too. */
static inline void rs_link_close(struct rs_link *link, enum rs_status status, const char *reason)
{
    link->ops->close(link, status, reason);
}

/* Ends it now; on_closed follows. */
static inline void rs_link_abort(struct rs_link *link)
{
    link->ops->abort(link);
}

/* Handles what happened until `until` (rs_time_monotonic()), or returns RS_OK early after something was handled
 * or rs_loop_wake() was called; RS_AGAIN when the time was up. */
RS_MUST_CHECK static inline enum rs_status rs_loop_run(struct rs_loop *loop, rs_ns until)
{
    return loop->ops->run(loop, until);
}

/* Makes rs_loop_run() return soon. Any thread. */
static inline void rs_loop_wake(struct rs_loop *loop)
{
    loop->ops->wake(loop);
}

/* ---- addresses ------------------------------------------------------------------------------- */

enum { RS_ADDRESS_CERTS_BYTES = 1024 };

/* How links of an address are guarded. A unix socket is by the rights of its file, and by who the kernel says comes. */
enum rs_address_guard {
    RS_ADDRESS_UNGUARDED, /* nothing was decided: TCP is refused */
    RS_ADDRESS_LOCAL, /* a unix socket, or loopback that the user wants in plain text on both sides */
    RS_ADDRESS_MUTUAL, /* TLS, both sides with a certificate */
    RS_ADDRESS_JOIN,   /* TLS, only the server has one: for who has none yet */
};

struct rs_address {
    bool is_unix, is_loopback; /* this machine and no other */
    enum rs_address_guard guard;
    char text[160];   /* as people write it: "unix:PATH", "HOST:PORT" */
    char target[192]; /* as gRPC wants it */
    char path[108];   /* unix only */
    const struct rs_local_rules *
        local_rules; /* unix, of a server: who may what; keeps a pointer to it. NULL: all are local */
    char certs
        [RS_ADDRESS_CERTS_BYTES]; /* MUTUAL, JOIN of a server: folder of certificates (common/trust/trust.h) */
    const struct rs_view *ca; /* JOIN of a client: PEM of the authority; keeps a pointer to it */
};

/* "unix:PATH" or "HOST:PORT", HOST a name, an IPv4 address or "[IPv6]". RS_INVALID when it is neither. A unix
 * socket is guarded by its rights; TCP is unguarded until rs_address_guard(). */
RS_MUST_CHECK enum rs_status rs_address_parse(const char *text, struct rs_address *address_p,
                                              struct rs_err *err);

/* Decides how links of a TCP address are guarded; a unix socket stays as it is. `certs` is the folder of our
 * certificates, NULL or "" none. RS_REFUSED: there are none, or plain text is wanted beyond this machine. */
RS_MUST_CHECK enum rs_status rs_address_guard(struct rs_address *address, const char *certs,
                                              bool is_insecure_loopback, struct rs_err *err);

/* ---- over gRPC (link_grpc.c) ------------------------------------------------------------------ */

/*
 * What the other side may send of a stream before it is read here: two of the largest chunks. gRPC would measure it (its "BDP
 * probe"), and let windows grow until what waits in them leaves the processor's caches: that costs a tenth of both
 * sides' CPU over loopback, with certificates and without. A fixed window carries 40 MB/s over a way of 50 ms, and is all that
 * waits of a link that is not read.
 */
enum { RS_GRPC_LOOKAHEAD_BYTES = 2 * RS_WIRE_CHUNK_MAX_BYTES };

/* Block signals before the first loop: gRPC's helper threads inherit the mask. */
RS_MUST_CHECK enum rs_status rs_grpc_loop_new(struct rs_loop **loop_p, struct rs_err *err);
/* All links and servers of the loop must be gone. */
void rs_grpc_loop_free(struct rs_loop **loop_p);

/* A link that is being opened; failure to reach the other side comes as on_closed(RS_UNREACHABLE), one that does not prove
 * to be an aggregator as RS_REFUSED. Certificates are read now, so that a renewed one counts with the next link. Keeps
 * pointers to user and self until on_closed. RS_REFUSED, RS_NOTFOUND, RS_FORMAT: as rs_trust_open(), or an unguarded address. */
RS_MUST_CHECK enum rs_status rs_grpc_connect(struct rs_loop *loop, const struct rs_address *address,
                                             const char *method, const struct rs_link_user *user,
                                             void *self, struct rs_link **link_p,
                                             struct rs_err *err);

struct rs_grpc_server;

/* Who takes new links: sets link->user and link->self, or returns false to refuse it. */
typedef bool rs_accept_fn(void *self, struct rs_link *link, const char *method);

/* Listens. RS_EXISTS when the address is served already (unix: PATH.lock is held; TCP: bound). The bound
 * port of "HOST:0" is in *address. Who comes has an identity (link->identity) when it is handed to `accept`; one whose
 * certificate does not count is nobody (link->distrust says why), and refused whatever `accept` answers. Errors of certificates as rs_grpc_connect(). */
RS_MUST_CHECK enum rs_status rs_grpc_server_new(struct rs_loop *loop, struct rs_address *address,
                                                rs_accept_fn *accept, void *self,
                                                struct rs_grpc_server **server_p,
                                                struct rs_err *err);
/* No new links; those there are go on until closed, or until rs_grpc_server_cancel(). */
void rs_grpc_server_stop(struct rs_grpc_server *server);
void rs_grpc_server_cancel(struct rs_grpc_server *server);
/* Whether everything is over after stop (run the loop until it is). */
bool rs_grpc_server_is_stopped(const struct rs_grpc_server *server);
void rs_grpc_server_free(struct rs_grpc_server **server_p);
/* Looks for new revocations; touches the disk. */
void rs_grpc_server_refresh(struct rs_grpc_server *server);
/* Whether an identity that one of its links had still counts (Unix epoch): RS_REFUSED, expired or revoked. */
RS_MUST_CHECK enum rs_status rs_grpc_server_check(struct rs_grpc_server *server,
                                                  const struct rs_identity *identity, rs_ns now,
                                                  struct rs_err *err);

/* The reason of on_closed for people: the transport's text without what it says of itself. Lends a part of `reason`, or a text
 * that stays. */
const char *rs_link_plain(const char *reason);

/* Raises RLIMIT_NOFILE to its hard limit; the limit then. */
uint64_t rs_grpc_raise_file_limit(void);

#endif
