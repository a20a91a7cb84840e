/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP API: routes over what the server answers. docs/http.md is its manual, GET /api/v1/openapi.json its description;
 * both follow the table of routes in routes.def.
 *
 *     common/http: a request, and who asks --> api.c: which route? --> capture.c, table.c, document.c, present.c
 *                                                                          |  Ask
 *                                                                          v
 *                                              calls.c --> the server's thread: rights, audit, answers
 *
 * A route asks what the command line could ask, with the identity of who came, and sends what --json prints. Nothing here opens
 * a file or a database, and nothing is decided here about who may do what, but that nobody may ask for nothing but its health.
 */
#ifndef RS_AGGREGATOR_API_H
#define RS_AGGREGATOR_API_H

#include "aggregator/http/calls.h"
#include "common/http/http.h"

struct rs_api;

RS_MUST_CHECK enum rs_status rs_api_new(struct rs_calls *calls, struct rs_api **api_p,
                                        struct rs_err *err);
/* When nothing serves it any more. */
void rs_api_free(struct rs_api **api_p);

/* The server's thread made a turn. Thread: the server's. */
void rs_api_turned(struct rs_api *api);
/* From now on it is not ready: the service stops. Any thread. */
void rs_api_drain(struct rs_api *api);

/* A handler of rs_http_options; `self` is the api. */
void rs_api_answer(void *self, const struct rs_http_request *request,
                   struct rs_http_answer *answer);

#endif
