/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/daemon/http.h"

#include "aggregator/http/api.h"
#include "common/base/mem.h"
#include "common/trust/token.h"

#define RS_LOG_TAG "http"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

enum { LISTENERS_MAX = 8, ADDRESS_BYTES = 300 };

struct rs_daemon_http {
    struct rs_daemon_http_options options;
    struct rs_calls *calls;
    struct rs_api *api;
    struct rs_tokens *tokens;
    struct rs_http *listeners[LISTENERS_MAX];
    char addresses[LISTENERS_MAX][ADDRESS_BYTES];
    size_t count;
};

static enum rs_status take_token(void *self, const char *text, struct rs_identity *identity_p,
                                 struct rs_err *err)
{
    struct rs_daemon_http *http = self;
    return rs_tokens_identify(http->tokens, text, rs_time_realtime(), identity_p, err);
}

static enum rs_status check_token(void *self, const struct rs_identity *who, struct rs_err *err)
{
    struct rs_daemon_http *http = self;
    return rs_tokens_check(http->tokens, who, rs_time_realtime(), err);
}

static void answer(void *self, const struct rs_http_request *request,
                   struct rs_http_answer *answer_p)
{
    const struct rs_daemon_http *http = self;
    rs_api_answer(http->api, request, answer_p);
}

static void refused(void *self, const struct rs_identity *who, const char *from, const char *path,
                    const char *why)
{
    const struct rs_daemon_http *http = self;
    http->options.refused(http->options.self, who, from, path, why);
}

static enum rs_status listen_at(struct rs_daemon_http *http, const char *address,
                                struct rs_err *err)
{
    const struct rs_http_options options = {.address = address,
                                            .certs = http->options.certs,
                                            .is_insecure_loopback =
                                                http->options.is_insecure_loopback,
                                            .handler = answer,
                                            .token = take_token,
                                            .check_token = check_token,
                                            .refused = refused,
                                            .self = http};
    struct rs_http *listener = NULL;
    const enum rs_status status = rs_http_start(&options, &listener, err);
    if (status < 0)
        return status;
    (void)snprintf(http->addresses[http->count], ADDRESS_BYTES, "http%s://%s",
                   rs_http_is_plain(listener) ? "" : "s", rs_http_address(listener));
    http->listeners[http->count++] = listener;
    return RS_OK;
}

enum rs_status rs_daemon_http_start(const struct rs_daemon_http_options *options,
                                    struct rs_daemon_http **http_p, struct rs_err *err)
{
    *http_p = NULL;
    if (!options->count)
        return RS_OK;
    if (options->count > LISTENERS_MAX)
        return rs_err_set(err, RS_INVALID, "HTTP is served at %d addresses at most", LISTENERS_MAX);
    struct rs_daemon_http *http = rs_mem_calloc(1, sizeof *http);
    if (!http)
        return rs_err_set(err, RS_NOMEM, "no memory for HTTP");
    http->options = *options;
    enum rs_status status = rs_tokens_open(options->tokens, &http->tokens, err);
    if (status == RS_OK)
        status =
            rs_calls_new(options->loop, options->accept, options->accept_self, &http->calls, err);
    if (status == RS_OK)
        status = rs_api_new(http->calls, &http->api, err);
    for (size_t i = 0; i < options->count && status == RS_OK; i++)
        status = listen_at(http, options->addresses[i], err);
    if (status < 0) {
        rs_daemon_http_stop(http);
        rs_daemon_http_free(&http);
    }
    *http_p = http;
    return status;
}

void rs_daemon_http_turn(struct rs_daemon_http *http)
{
    if (!http)
        return;
    rs_api_turned(http->api);
    rs_calls_turn(http->calls);
}

const char *rs_daemon_http_address(const struct rs_daemon_http *http, size_t index)
{
    return http && index < http->count ? http->addresses[index] : NULL;
}

static bool is_token(const struct rs_identity *identity)
{
    return strncmp(identity->serial, rs_token_serial, strlen(rs_token_serial)) == 0;
}

enum rs_status rs_daemon_http_check(struct rs_daemon_http *http, const struct rs_identity *identity,
                                    struct rs_err *err)
{
    if (!http)
        return RS_OK;
    if (identity && is_token(identity))
        return rs_tokens_check(http->tokens, identity, rs_time_realtime(), err);
    for (size_t i = 0; i < http->count; i++) {
        if (!identity)
            rs_http_refresh(http->listeners[i]);
        else if (!rs_http_is_plain(http->listeners[i]))
            return rs_http_check(http->listeners[i], identity, err);
    }
    return RS_OK;
}

/* Handlers wait for answers of this very thread: first they are told that none comes any more. */
void rs_daemon_http_stop(struct rs_daemon_http *http)
{
    if (!http)
        return;
    if (http->api)
        rs_api_drain(http->api);
    if (http->calls)
        rs_calls_stop(http->calls);
    for (size_t i = 0; i < http->count; i++)
        rs_http_stop(&http->listeners[i]);
    http->count = 0;
    if (http->calls)
        rs_calls_turn(http->calls); /* what they asked is over */
}

void rs_daemon_http_free(struct rs_daemon_http **http_p)
{
    struct rs_daemon_http *http = *http_p;
    *http_p = NULL;
    if (!http)
        return;
    rs_calls_free(&http->calls);
    if (http->api)
        rs_api_free(&http->api);
    rs_tokens_close(&http->tokens);
    rs_mem_free(http);
}
