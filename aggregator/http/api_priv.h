/* SPDX-License-Identifier: Apache-2.0 */
/* The back room of the API. Everything runs on the thread of a connection. */
#ifndef RS_AGGREGATOR_API_PRIV_H
#define RS_AGGREGATOR_API_PRIV_H

#include "aggregator/http/api.h"

#include <stdatomic.h>

enum { API_PARAMETER_BYTES = 256 };

struct rs_api {
    struct rs_calls *calls;
    _Atomic rs_ns turned_at; /* monotonic */
    atomic_bool is_draining;
};

/* One request on its way through a route. */
struct api_ask {
    struct rs_api *api;
    const struct rs_http_request *request;
    struct rs_http_answer *answer;
    char id[API_PARAMETER_BYTES];   /* {id} */
    char rest[API_PARAMETER_BYTES]; /* {table}, {name...} */
};

/* api.c */
/* As rs_call_begin() and rs_call_next(), until the reply is there; what goes wrong becomes the answer, and NULL comes back. After
 * the last reply NULL comes back, too, with an answer that is untouched: `err` says which. */
struct rs_call *api_begin(struct api_ask *ask, Rankscope__Ask *message);
Rankscope__Reply *api_next(struct api_ask *ask, struct rs_call *call, struct rs_err *err);
/* The one reply of a question. NULL: the answer says why. */
Rankscope__Reply *api_ask(struct api_ask *ask, Rankscope__Ask *message,
                          Rankscope__Reply__MessageCase wanted);
/* Every reply of a question in order; `take` owns each, and fails with RS_NOMEM. False: the answer says why. */
bool api_each(struct api_ask *ask, Rankscope__Ask *message, Rankscope__Reply__MessageCase wanted,
              enum rs_status (*take)(void *self, Rankscope__Reply *reply), void *self);
/* Whether the time came before the service stops. */
bool api_sleep_until(const struct rs_api *api, rs_ns until);
/* A parameter that is "true" or "1", "false" or "0" or not there; anything else: false, and the answer says so. */
bool api_flag(struct api_ask *ask, const char *name, bool *value_p);
/* A parameter of digits; not there: *value_p stays. */
bool api_number(struct api_ask *ask, const char *name, uint64_t *value_p);
void api_json(struct api_ask *ask, struct rs_buf *body);
/* Messages only lend their texts. */
char *api_lend(const char *text);

/* The handlers of routes.def. */
#define R(method, path, handler, access, type, parameters, sentence)                               \
    void handler(struct api_ask *ask);
#include "aggregator/http/routes.def"
#undef R

/* openapi.c */
struct api_route {
    enum rs_http_method method;
    const char *path;
    void (*handler)(struct api_ask *ask);
    enum api_access { API_OPEN, API_READ, API_OPERATE } access;
    enum api_type { API_TEXT, API_PROM, API_JSON, API_EVENTS, API_HTML, API_BYTES } type;
    const char *parameters, *sentence;
};
extern const struct api_route api_routes[];
extern const size_t api_route_count;

#endif
