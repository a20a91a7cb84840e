/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP of the daemon: listeners, tokens, and the questions that go from their threads to the server's.
 */
#ifndef RS_DAEMON_HTTP_H
#define RS_DAEMON_HTTP_H

#include "common/trust/identity.h"
#include "common/wire/link.h"

struct rs_daemon_http;

struct rs_daemon_http_options {
    const char *const *addresses; /* HOST:PORT */
    size_t count;
    const char *certs, *tokens; /* folders */
    bool is_insecure_loopback;
    struct rs_loop *loop;
    rs_accept_fn *accept; /* of the server */
    void *accept_self;
    /* Somebody was refused before the server saw the question. Any thread. */
    void (*refused)(void *self, const struct rs_identity *who, const char *from, const char *path,
                    const char *why);
    void *self;
};

/* Serves. Texts and pointers are lent until rs_daemon_http_free(). With no address it serves nothing, and the rest does nothing.
 * Errors as rs_http_start(). Thread: the server's, as all of these. */
RS_MUST_CHECK enum rs_status rs_daemon_http_start(const struct rs_daemon_http_options *options,
                                                  struct rs_daemon_http **http_p,
                                                  struct rs_err *err);
/* After each turn of the loop. */
void rs_daemon_http_turn(struct rs_daemon_http *http);
/* As served, "http://..." or "https://..."; NULL: there are no more. */
const char *rs_daemon_http_address(const struct rs_daemon_http *http, size_t index);
/* Whether an identity that came over HTTP is believed still; NULL: look for new certificates and revocations. */
RS_MUST_CHECK enum rs_status rs_daemon_http_check(struct rs_daemon_http *http,
                                                  const struct rs_identity *identity,
                                                  struct rs_err *err);
/* Takes no more questions and ends those there are; returns when no thread of HTTP runs any more. */
void rs_daemon_http_stop(struct rs_daemon_http *http);
/* When the server has no session left. */
void rs_daemon_http_free(struct rs_daemon_http **http_p);

#endif
