/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP: an address that is served, and who asks there. The daemons say what is answered.
 *
 *     connection --> libmicrohttpd, a thread each --> who is it?  --> handler(request, answer) --> whole, or piece by piece
 *                                                     |
 *                 client certificate (TLS)            |  rs_trust_identify(): the same function as for gRPC
 *                 Authorization: Bearer TOKEN  -------+  rs_http_options.token
 *                 neither: nobody, or, where plain text is served to this machine, local
 *
 * What every answer has, and no handler has to think of: strict headers, ETag and 304, gzip and zstd, problem+json (RFC 9457)
 * for what goes wrong, bounds on headers, bodies, connections and time. A request that changes something must say that its body
 * is JSON and may not come from another site's page; plain text on loopback is answered under the names of loopback only, so
 * that no page of another name reaches it.
 */
#ifndef RS_HTTP_H
#define RS_HTTP_H

#include "common/base/buf.h"
#include "common/trust/trust.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    RS_HTTP_BODY_MAX_BYTES = 4 << 20, /* of a request: roles of 100,000 ranks fit */
    RS_HTTP_ETAG_BYTES = 80,
    RS_HTTP_TEXT_BYTES = 256,
};

enum rs_http_method { RS_HTTP_GET, RS_HTTP_POST, RS_HTTP_DELETE, RS_HTTP_OTHER };

/* All of it is lent for the call of the handler. HEAD comes as GET; its body is left out on the way. */
struct rs_http_request {
    enum rs_http_method method;
    const char *path; /* "/api/v1/ranks", decoded */
    struct rs_view body;
    const struct rs_identity *who; /* RS_PARTY_NOBODY: it did not say */
    const char *from;              /* "127.0.0.1:51234" */
    void *connection;              /* of libmicrohttpd */
    struct rs_http *listener;      /* lives as long as a handler or a `next` runs */
};
/* A parameter behind "?", decoded; NULL: it is not there. */
const char *rs_http_query(const struct rs_http_request *request, const char *name);
/* A header; NULL: it is not there. */
const char *rs_http_header(const struct rs_http_request *request, const char *name);

/* A handler fills it in; zeroed but for status 200 before. */
struct rs_http_answer {
    unsigned status;
    const char *type;   /* of the body; constant text */
    struct rs_buf body; /* whole; taken over */
    /* Instead of a body: appends what comes next, waits for it if it must. RS_OK: there may be more. RS_END: that was all.
     * Below 0: it cannot be gone on with, and the client sees that it is cut off. Then, in any case, `end` once. Thread: the connection's. */
    enum rs_status (*next)(void *self, struct rs_buf *buf);
    void (*end)(void *self);
    void *self;
    char
        etag[RS_HTTP_ETAG_BYTES]; /* without quotes; empty: of the body's digest, none for pieces */
    char location[RS_HTTP_TEXT_BYTES];
    const char *allow;               /* of 405; constant text */
    char detail[RS_HTTP_TEXT_BYTES]; /* of a problem, as far as it fits: for logs */
    char file[RS_HTTP_TEXT_BYTES];   /* to be saved under this name; empty: to be shown */
    const char *
        script_sha256; /* of a document: it may run the one script of this digest (base64), apart from all that is
                                        ours here; NULL: none. Lives as long as the answer */
    bool is_page; /* a file of our own page: it may run its script and ask us */
};

/* What went wrong as problem+json, with the HTTP status that belongs to err->status. */
void rs_http_problem(struct rs_http_answer *answer, const struct rs_err *err);
/* The same with a status of one's own; `detail` is for people. */
void rs_http_problem_as(struct rs_http_answer *answer, unsigned status, const char *detail);

struct rs_http_options {
    const char *address; /* HOST:PORT */
    const char *certs;   /* folder of our certificate; NULL: none */
    bool is_insecure_loopback;
    unsigned timeout_s; /* without a byte of a request, or of an answer that is not taken; 0: 60 */
    void (*handler)(void *self, const struct rs_http_request *request,
                    struct rs_http_answer *answer);
    /* Whose token it is: RS_REFUSED when it is nobody's. NULL: there are no tokens. Any thread. */
    enum rs_status (*token)(void *self, const char *text, struct rs_identity *identity_p,
                            struct rs_err *err);
    /* Whether who came with a token is believed still. NULL: for ever. Any thread. */
    enum rs_status (*check_token)(void *self, const struct rs_identity *who, struct rs_err *err);
    /* Somebody was refused: before a handler saw the request, or by rs_http_tell_refused(). NULL: nobody wants to know. Any thread. */
    void (*refused)(void *self, const struct rs_identity *who, const char *from, const char *path,
                    const char *why);
    void *self;
};

struct rs_http;

/* Serves until rs_http_stop(). RS_INVALID: the address. RS_REFUSED: it takes a certificate, or may not be plain text. RS_EXISTS:
 * the address is taken. As rs_trust_open() for the certificate. Block signals before: it starts threads. */
RS_MUST_CHECK enum rs_status rs_http_start(const struct rs_http_options *options,
                                           struct rs_http **http_p, struct rs_err *err);
/* The address with the port that it has: "HOST:PORT". */
const char *rs_http_address(const struct rs_http *http);
bool rs_http_is_plain(const struct rs_http *http);
/* Looks for a renewed certificate and for revocations; touches the disk. */
void rs_http_refresh(struct rs_http *http);
/* Whether who came with a certificate or a token is believed still: what goes on for long asks again. RS_REFUSED. Any thread. */
RS_MUST_CHECK enum rs_status rs_http_check(struct rs_http *http, const struct rs_identity *who,
                                           struct rs_err *err);
/* Tells rs_http_options.refused of a request that the handler answers with the problem in `answer`. */
void rs_http_tell_refused(const struct rs_http_request *request,
                          const struct rs_http_answer *answer);
/* Ends all connections; returns when no handler and no `next` runs any more: they must not wait for the caller. */
void rs_http_stop(struct rs_http **http_p);

#endif
