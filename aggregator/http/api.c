/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/http/api.h"

#include "aggregator/http/api_priv.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* As long as a connection may wait for its answer (common/http): the joins of large captures take their time. */
static const rs_dur slice_ns = RS_NS_PER_S;
/* A main thread that made no turn for so long hangs: it makes one a second. */
static const rs_dur hangs_after_ns = 15 * (rs_dur)RS_NS_PER_S;

const struct api_route api_routes[] = {
#define R(method, path, handler, access, type, parameters, sentence)                               \
    {RS_HTTP_##method, path, handler, API_##access, API_##type, parameters, sentence},
#include "aggregator/http/routes.def"
#undef R
};
const size_t api_route_count = sizeof api_routes / sizeof api_routes[0];

/* ---- routes ------------------------------------------------------------------------------------------------------- */

static bool copy_segment(char to[API_PARAMETER_BYTES], const char *from, size_t length)
{
    if (length == 0 || length >= API_PARAMETER_BYTES)
        return false;
    memcpy(to, from, length);
    to[length] = '\0';
    return true;
}

/* Whether the path is of the route's form; its parameters are taken. */
static bool matches(const char *form, const char *path, struct api_ask *ask)
{
    for (;;) {
        const size_t wanted = strcspn(form + 1, "/") + 1;
        const size_t given = *path == '/' ? strcspn(path + 1, "/") + 1 : 0;
        if (!given)
            return false;
        if (form[1] == '{') {
            const bool is_rest = memcmp(form + wanted - 4, "...}", 4) == 0;
            const bool is_id = memcmp(form, "/{id}", 5) == 0;
            if (!copy_segment(is_id ? ask->id : ask->rest, path + 1,
                              is_rest ? strlen(path + 1) : given - 1))
                return false;
            if (is_rest)
                return true;
        } else if (wanted != given || memcmp(form, path, given) != 0) {
            return false;
        }
        form += wanted;
        path += given;
        if (!*form || !*path)
            return *form == *path;
    }
}

static const char *const method_names[] = {"GET, HEAD", "POST", "DELETE"};

static const struct api_route *find_route(struct api_ask *ask, const char **allow_p)
{
    *allow_p = NULL;
    for (size_t i = 0; i < api_route_count; i++) {
        const struct api_route *route = &api_routes[i];
        ask->id[0] = ask->rest[0] = '\0';
        if (!matches(route->path, ask->request->path, ask))
            continue;
        if (route->method == ask->request->method)
            return route;
        if (!*allow_p)
            *allow_p = method_names[route->method];
    }
    return NULL;
}

void rs_api_answer(void *self, const struct rs_http_request *request, struct rs_http_answer *answer)
{
    struct api_ask ask = {.api = self, .request = request, .answer = answer};
    const char *allow = NULL;
    const struct api_route *route = find_route(&ask, &allow);
    /* Who is nobody does not learn what there is. */
    if (request->who->party == RS_PARTY_NOBODY && !(route && route->access == API_OPEN)) {
        rs_http_problem_as(answer, 401,
                           "say who asks: with a client certificate (rankscope certs issue viewer "
                           "NAME), or \"Authorization: Bearer TOKEN\" (rankscope token new NAME)");
        rs_http_tell_refused(request, answer);
    } else if (route) {
        route->handler(&ask);
    } else if (allow) {
        rs_http_problem_as(answer, 405, "this is not asked for in this way");
        answer->allow = allow;
    } else {
        rs_http_problem_as(answer, 404, "there is nothing here; see /api/v1/openapi.json");
    }
}

/* ---- asking the server --------------------------------------------------------------------------------------------- */

char *api_lend(const char *text)
{
    union {
        const char *in;
        char *out;
    } both = {.in = text};
    return both.out;
}

struct rs_call *api_begin(struct api_ask *ask, Rankscope__Ask *message)
{
    struct rs_call *call = NULL;
    struct rs_err err = {0};
    if (rs_call_begin(ask->api->calls, ask->request->who, ask->request->from, message, &call,
                      &err) < 0)
        rs_http_problem(ask->answer, &err);
    return call;
}

Rankscope__Reply *api_next(struct api_ask *ask, struct rs_call *call, struct rs_err *err)
{
    Rankscope__Reply *reply = NULL;
    enum rs_status status = RS_AGAIN;
    *err = (struct rs_err){.status = RS_OK};
    while (status == RS_AGAIN)
        status = rs_call_next(call, rs_time_monotonic() + slice_ns, &reply, err);
    if (status < 0)
        rs_http_problem(ask->answer, err);
    return status == RS_OK ? reply : NULL;
}

Rankscope__Reply *api_ask(struct api_ask *ask, Rankscope__Ask *message,
                          Rankscope__Reply__MessageCase wanted)
{
    struct rs_err err;
    struct rs_call *call = api_begin(ask, message);
    if (!call)
        return NULL;
    Rankscope__Reply *reply = api_next(ask, call, &err);
    if (!reply && err.status >= 0)
        rs_http_problem_as(ask->answer, 500, "the aggregator gave no answer");
    if (reply && reply->message_case != wanted) {
        rs_http_problem_as(ask->answer, 500, "the aggregator gave another answer");
        rankscope__reply__free_unpacked(reply, NULL);
        reply = NULL;
    }
    rs_call_end(&call);
    return reply;
}

bool api_each(struct api_ask *ask, Rankscope__Ask *message, Rankscope__Reply__MessageCase wanted,
              enum rs_status (*take)(void *self, Rankscope__Reply *reply), void *self)
{
    struct rs_err err = {0};
    struct rs_call *call = api_begin(ask, message);
    Rankscope__Reply *reply = NULL;
    if (!call)
        return false;
    while ((reply = api_next(ask, call, &err)) != NULL) {
        if (reply->message_case != wanted) {
            rankscope__reply__free_unpacked(reply, NULL);
        } else if (take(self, reply) < 0) {
            (void)rs_err_set(&err, RS_NOMEM, "out of memory");
            rs_http_problem(ask->answer, &err);
            break;
        }
    }
    rs_call_end(&call);
    return err.status >= 0;
}

bool api_sleep_until(const struct rs_api *api, rs_ns until)
{
    const struct timespec nap = {.tv_nsec = RS_NS_PER_S / 20};
    while (!atomic_load(&api->is_draining) && rs_time_monotonic() < until)
        (void)nanosleep(&nap, NULL);
    return !atomic_load(&api->is_draining);
}

/* ---- parameters ---------------------------------------------------------------------------------------------------- */

static void wrong(struct api_ask *ask, const char *name, const char *what)
{
    struct rs_err err = {0};
    (void)rs_err_set(&err, RS_INVALID, "%s is %s", name, what);
    rs_http_problem(ask->answer, &err);
}

bool api_flag(struct api_ask *ask, const char *name, bool *value_p)
{
    const char *text = rs_http_query(ask->request, name);
    const bool is_true = text && (strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
    const bool is_false = !text || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
    *value_p = is_true;
    if (!is_true && !is_false)
        wrong(ask, name, "true or false");
    return is_true || is_false;
}

bool api_number(struct api_ask *ask, const char *name, uint64_t *value_p)
{
    const char *text = rs_http_query(ask->request, name);
    char *end = NULL;
    if (!text)
        return true;
    const unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value > INT64_MAX) {
        wrong(ask, name, "a number from 0 on");
        return false;
    }
    *value_p = value;
    return true;
}

void api_json(struct api_ask *ask, struct rs_buf *body)
{
    rs_buf_u8(body, '\n');
    ask->answer->type = "application/json";
    ask->answer->body = *body;
    *body = (struct rs_buf){0};
}

/* ---- health --------------------------------------------------------------------------------------------------------- */

static void say(struct api_ask *ask, unsigned status, const char *text)
{
    ask->answer->status = status;
    ask->answer->type = "text/plain; charset=utf-8";
    rs_buf_string(&ask->answer->body, text);
}

static bool is_turning(const struct rs_api *api)
{
    return rs_time_monotonic() - atomic_load(&api->turned_at) < hangs_after_ns;
}

void route_health(struct api_ask *ask)
{
    if (is_turning(ask->api))
        say(ask, 200, "ok\n");
    else
        say(ask, 503, "the aggregator's main thread hangs\n");
}

void route_ready(struct api_ask *ask)
{
    if (atomic_load(&ask->api->is_draining))
        say(ask, 503, "the aggregator stops\n");
    else
        route_health(ask);
}

void rs_api_turned(struct rs_api *api)
{
    atomic_store(&api->turned_at, rs_time_monotonic());
}

void rs_api_drain(struct rs_api *api)
{
    atomic_store(&api->is_draining, true);
}

enum rs_status rs_api_new(struct rs_calls *calls, struct rs_api **api_p, struct rs_err *err)
{
    struct rs_api *api = rs_mem_calloc(1, sizeof *api);
    if (!api)
        return rs_err_set(err, RS_NOMEM, "no memory for the HTTP API");
    api->calls = calls;
    rs_api_turned(api);
    *api_p = api;
    return RS_OK;
}

void rs_api_free(struct rs_api **api_p)
{
    rs_mem_free(*api_p);
    *api_p = NULL;
}
