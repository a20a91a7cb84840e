/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the first line of a request to the handler:
 *
 *     headers --> who asks, under which name, from which page? --> body, bounded --> handler --> answer
 *                       '--> 401, 403, 413, 415, 421: the handler never sees it
 */
#include "common/base/counters.h"
#include "common/base/mem.h"
#include "common/http/http_priv.h"

#define RS_LOG_TAG "http"
#include "common/base/log.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One request, from its headers to its answer. */
struct state {
    struct rs_identity who;
    char from[80];
    struct rs_buf body;
    struct rs_http_answer answer; /* status not 200: refused already */
};

static const char bearer[] = "Bearer ";

/* ---- who asks ---------------------------------------------------------------------------------------------------- */

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static void find_from(struct MHD_Connection *connection, struct state *state)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    char host[NI_MAXHOST] = "?";
    char port[NI_MAXSERV] = "";
    if (info && info->client_addr) {
        const socklen_t length = info->client_addr->sa_family == AF_INET6
                                     ? sizeof(struct sockaddr_in6)
                                     : sizeof(struct sockaddr_in);
        (void)getnameinfo(info->client_addr, length, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV);
    }
    (void)snprintf(state->from, sizeof state->from,
                   strchr(host, ':') ? "[%.60s]:%.8s" : "%.60s:%.8s", host, port);
}

/* The certificate that the other side showed, if it did. RS_END: it did not. */
static enum rs_status peer_certificate(const struct rs_http *http,
                                       struct MHD_Connection *connection, struct rs_identity *who_p,
                                       struct rs_err *err)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    gnutls_session_t session = info ? info->tls_session : NULL;
    unsigned count = 0;
    const gnutls_datum_t *chain = session ? gnutls_certificate_get_peers(session, &count) : NULL;
    gnutls_datum_t pem = {0};
    unsigned flaws = 0;
    if (!chain || count == 0)
        return RS_END;
    /* That our authority signed it for a client; GnuTLS does not look by itself. */
    if (gnutls_certificate_verify_peers2(session, &flaws) < 0 || flaws)
        return rs_err_set(err, RS_REFUSED,
                          "the certificate is not of this service's authority, or not valid now");
    if (gnutls_pem_base64_encode2("CERTIFICATE", &chain[0], &pem) < 0)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    const enum rs_status status = rs_trust_identify(http->trust, rs_view_of(pem.data, pem.size),
                                                    rs_time_realtime(), who_p, err);
    gnutls_free(pem.data);
    return status;
}

/* A token counts before a certificate: who brings both means the token. */
static enum rs_status identify(const struct rs_http *http, struct MHD_Connection *connection,
                               struct rs_identity *who_p, struct rs_err *err)
{
    const char *words = header(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    const size_t prefix = sizeof bearer - 1;
    if (words && (strncasecmp(words, bearer, prefix) != 0 || !http->options.token))
        return rs_err_set(err, RS_REFUSED, "this service takes \"Authorization: Bearer TOKEN\"");
    if (words)
        return http->options.token(http->options.self, words + prefix, who_p, err);
    if (http->is_plain) {
        who_p->party = RS_PARTY_LOCAL;
        return RS_OK;
    }
    const enum rs_status status = peer_certificate(http, connection, who_p, err);
    return status == RS_END ? RS_OK : status; /* nobody: some things may be asked by nobody */
}

/* ---- from where -------------------------------------------------------------------------------------------------- */

/* The name in "NAME:PORT", "[::1]:PORT" or without a port. */
static bool is_loopback_name(const char *host)
{
    char name[64];
    struct in_addr four;
    const size_t length =
        *host == '[' ? strcspn(host, "]") + (strchr(host, ']') != NULL) : strcspn(host, ":");
    if (length >= sizeof name)
        return false;
    (void)snprintf(name, sizeof name, "%.*s", (int)length, host);
    return strcasecmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0 ||
           (inet_pton(AF_INET, name, &four) == 1 && (ntohl(four.s_addr) >> 24) == 127);
}

/* A page of our own says so; of another site it names that, and a program names none. */
static bool is_own_page(const struct rs_http *http, struct MHD_Connection *connection)
{
    const char *origin = header(connection, MHD_HTTP_HEADER_ORIGIN);
    const char *site = header(connection, "Sec-Fetch-Site");
    const char *host = header(connection, MHD_HTTP_HEADER_HOST);
    char own[RS_HTTP_TEXT_BYTES];
    if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
        return false;
    if (!origin)
        return true;
    (void)snprintf(own, sizeof own, "http%s://%.200s", http->is_plain ? "" : "s", host ? host : "");
    return strcasecmp(origin, own) == 0;
}

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    return type && strncasecmp(type, json, sizeof json - 1) == 0 &&
           strchr("; \t", type[sizeof json - 1]) != NULL;
}

/* Whether the request may be looked at: else the answer says why not. */
static bool may_pass(struct rs_http *http, struct MHD_Connection *connection,
                     enum rs_http_method method, struct state *state)
{
    const char *host = header(connection, MHD_HTTP_HEADER_HOST);
    const char *length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    struct rs_err err = {0};
    find_from(connection, state);
    if (http->is_plain && (!host || !is_loopback_name(host))) {
        rs_http_problem_as(&state->answer, 421,
                           "in plain text this service answers under localhost, 127.0.0.1 and "
                           "[::1] only");
        return false;
    }
    const enum rs_status status = identify(http, connection, &state->who, &err);
    const bool is_wrong_token =
        status == RS_REFUSED && header(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    if (is_wrong_token && http_wrong_token(http, state->from, rs_time_monotonic())) {
        rs_count(RS_COUNT_HTTP_WRONG_TOKENS, 1);
        rs_http_problem_as(&state->answer, 429, "too many wrong tokens come from this address");
        return false;
    }
    if (status < 0) {
        rs_http_problem_as(&state->answer, status == RS_REFUSED ? 401 : 500, err.text);
        return false;
    }
    if (method == RS_HTTP_OTHER) {
        rs_http_problem_as(&state->answer, 405, "GET, HEAD, POST and DELETE are known here");
        state->answer.allow = "GET, HEAD, POST, DELETE";
        return false;
    }
    if (method != RS_HTTP_GET && !is_own_page(http, connection)) {
        rs_http_problem_as(&state->answer, 403, "the request comes from a page of another site");
        return false;
    }
    if (method == RS_HTTP_POST && !is_json(header(connection, MHD_HTTP_HEADER_CONTENT_TYPE))) {
        rs_http_problem_as(&state->answer, 415, "a POST says \"Content-Type: application/json\"");
        return false;
    }
    if (length && strtoull(length, NULL, 10) > RS_HTTP_BODY_MAX_BYTES) {
        rs_http_problem_as(&state->answer, 413, "a body has at most 4 MiB");
        return false;
    }
    return true;
}

/* ---- the way through --------------------------------------------------------------------------------------------- */

static enum rs_http_method method_of(const char *method)
{
    if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
        return RS_HTTP_GET;
    if (strcmp(method, MHD_HTTP_METHOD_POST) == 0)
        return RS_HTTP_POST;
    return strcmp(method, MHD_HTTP_METHOD_DELETE) == 0 ? RS_HTTP_DELETE : RS_HTTP_OTHER;
}

static void take_body(struct state *state, const char *upload, size_t *upload_bytes)
{
    const bool is_refused = state->answer.status != 200;
    if (!is_refused && *upload_bytes > RS_HTTP_BODY_MAX_BYTES - state->body.length) {
        rs_http_problem_as(&state->answer, 413, "a body has at most 4 MiB");
        rs_buf_fini(&state->body);
    } else if (!is_refused) {
        rs_buf_bytes(&state->body, upload, *upload_bytes);
    }
    *upload_bytes = 0; /* taken, or thrown away */
}

static void ask_handler(struct rs_http *http, struct MHD_Connection *connection, const char *path,
                        enum rs_http_method method, struct state *state)
{
    const struct rs_http_request request = {.method = method,
                                            .path = path,
                                            .body =
                                                rs_view_of(state->body.data, state->body.length),
                                            .who = &state->who,
                                            .from = state->from,
                                            .connection = connection,
                                            .listener = http};
    if (state->body.failed)
        rs_http_problem_as(&state->answer, 500, "out of memory");
    else
        http->options.handler(http->options.self, &request, &state->answer);
}

enum MHD_Result http_on_request(void *self, struct MHD_Connection *connection, const char *path,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_bytes, void **state_p)
{
    struct rs_http *http = self;
    struct state *state = *state_p;
    (void)version;
    if (!state) {
        state = rs_mem_calloc(1, sizeof *state);
        if (!state)
            return MHD_NO; /* the connection ends */
        *state_p = state;
        state->answer.status = 200;
        rs_count(RS_COUNT_HTTP_REQUESTS, 1);
        if (!may_pass(http, connection, method_of(method), state)) {
            if (http->options.refused && state->answer.status != 429)
                http->options.refused(http->options.self, &state->who, state->from, path,
                                      state->answer.detail);
            /* A body that is on its way is not waited for. */
            return http_send(connection, &state->answer);
        }
        return MHD_YES;
    }
    if (*upload_bytes) {
        take_body(state, upload, upload_bytes);
        return MHD_YES;
    }
    if (state->answer.status == 200)
        ask_handler(http, connection, path, method_of(method), state);
    return http_send(connection, &state->answer);
}

void http_on_completed(void *self, struct MHD_Connection *connection, void **state_p,
                       enum MHD_RequestTerminationCode how)
{
    struct state *state = *state_p;
    (void)self;
    (void)connection;
    (void)how;
    *state_p = NULL;
    if (!state)
        return;
    rs_buf_fini(&state->body);
    rs_buf_fini(&state->answer.body);
    rs_mem_free(state);
}

void rs_http_tell_refused(const struct rs_http_request *request,
                          const struct rs_http_answer *answer)
{
    const struct rs_http_options *options = &request->listener->options;
    if (options->refused)
        options->refused(options->self, request->who, request->from, request->path, answer->detail);
}

const char *rs_http_query(const struct rs_http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *rs_http_header(const struct rs_http_request *request, const char *name)
{
    return header(request->connection, name);
}
