/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's own counters over HTTP, for a Prometheus that asks every node itself: it sees a node whose link to the aggregator is
 * down, which the aggregator's /metrics cannot tell of.
 *
 *     GET /metrics    Prometheus' text; who may read: viewers, operators, aggregators (certificates), or, in plain text, this machine
 *     GET /healthz    "ok" while the uplink's thread turns; anybody
 *
 * Tokens are the aggregator's, and not known here.
 */
#ifndef RS_AGENT_METRICS_H
#define RS_AGENT_METRICS_H

#include "common/base/err.h"
#include "common/base/time.h"

#include <stdbool.h>

/* Lent until rs_metrics_stop(). */
struct rs_metrics_options {
    const char *address;       /* HOST:PORT; NULL: not served */
    const char *certs;         /* folder with a server's certificate; NULL: none */
    bool is_insecure_loopback; /* plain text, on this machine only */
    const char *node;
};

struct rs_metrics;

/* As rs_http_start(). Nothing is asked for: RS_OK and NULL. Block signals before: it starts threads. */
RS_MUST_CHECK enum rs_status rs_metrics_start(const struct rs_metrics_options *options,
                                              struct rs_metrics **metrics_p, struct rs_err *err);
/* Now and then, from the thread whose health is told: looks for renewed certificates and revocations. NULL is allowed.
 * True: a second has gone by, and what is counted elsewhere should be put into the table of counters. */
bool rs_metrics_turn(struct rs_metrics *metrics, rs_ns now);
/* Ends all connections. */
void rs_metrics_stop(struct rs_metrics **metrics_p);

#endif
