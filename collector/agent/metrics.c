/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/agent/metrics.h"

#include "common/base/counters.h"
#include "common/base/mem.h"
#include "common/http/http.h"

#define RS_LOG_TAG "metrics"
#include "common/base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const rs_dur count_every_ns = RS_NS_PER_S;
static const rs_dur look_every_ns = 2 * (rs_dur)RS_NS_PER_S;
static const rs_dur hangs_after_ns = 30 * (rs_dur)RS_NS_PER_S;

struct rs_metrics {
    struct rs_metrics_options options;
    struct rs_http *listener;
    rs_ns counted_at, looked_at; /* monotonic; the turning thread's */
    _Atomic rs_ns turned_at;     /* monotonic */
};

/* ---- answers; any thread ------------------------------------------------------------------------------------------- */

static void say_counters(const struct rs_metrics *metrics, struct rs_http_answer *answer)
{
    struct rs_counter_set set = {
        .daemon = "collector", .node = metrics->options.node, .instance = ""};
    for (unsigned i = 0; i < RS_COUNT_END; i++) {
        set.has[i] = (rs_counter_info((enum rs_counter)i)->who & RS_COUNT_COLLECTOR) != 0;
        set.values[i] = rs_count_read((enum rs_counter)i);
    }
    answer->type = "text/plain; version=0.0.4; charset=utf-8";
    rs_counters_prometheus(&set, 1, &answer->body);
}

static void say_health(struct rs_metrics *metrics, struct rs_http_answer *answer)
{
    const bool is_turning = rs_time_monotonic() - atomic_load(&metrics->turned_at) < hangs_after_ns;
    answer->status = is_turning ? 200 : 503;
    answer->type = "text/plain; charset=utf-8";
    rs_buf_string(&answer->body, is_turning ? "ok\n" : "the collector's main thread hangs\n");
}

/* Who is nobody does not learn what there is. */
static void answer(void *self, const struct rs_http_request *request,
                   struct rs_http_answer *answer_p)
{
    struct rs_metrics *metrics = self;
    if (strcmp(request->path, "/healthz") == 0 && request->method == RS_HTTP_GET) {
        say_health(metrics, answer_p);
    } else if (request->who->party == RS_PARTY_NOBODY) {
        rs_http_problem_as(answer_p, 401,
                           "say who asks: with a client certificate (rankscope certs issue viewer "
                           "NAME)");
    } else if (!rs_identity_may_read(request->who)) {
        rs_http_problem_as(answer_p, 403,
                           "this takes a certificate of a viewer, an operator or an aggregator");
    } else if (strcmp(request->path, "/metrics") != 0) {
        rs_http_problem_as(answer_p, 404, "there is /metrics here, and /healthz");
    } else if (request->method != RS_HTTP_GET) {
        rs_http_problem_as(answer_p, 405, "this is not asked for in this way");
        answer_p->allow = "GET, HEAD";
    } else {
        say_counters(metrics, answer_p);
    }
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */

enum rs_status rs_metrics_start(const struct rs_metrics_options *options,
                                struct rs_metrics **metrics_p, struct rs_err *err)
{
    *metrics_p = NULL;
    if (!options->address)
        return RS_OK;
    if (options->certs && options->is_insecure_loopback)
        return rs_err_set(err, RS_INVALID,
                          "--metrics is served with a certificate or as plain text, not both");
    if (!options->certs && !options->is_insecure_loopback)
        return rs_err_set(err, RS_REFUSED,
                          "--metrics %.100s needs --metrics-certs DIR, a folder that \"rankscope "
                          "certs issue node NAME --host HOST\" made, or, on 127.0.0.1 and ::1, "
                          "--metrics-insecure-loopback",
                          options->address);
    struct rs_metrics *metrics = rs_mem_calloc(1, sizeof *metrics);
    if (!metrics)
        return rs_err_set(err, RS_NOMEM, "no memory for /metrics");
    metrics->options = *options;
    atomic_store(&metrics->turned_at, rs_time_monotonic());
    const struct rs_http_options http = {.address = options->address,
                                         .certs = options->certs,
                                         .is_insecure_loopback = options->is_insecure_loopback,
                                         .handler = answer,
                                         .self = metrics};
    const enum rs_status status = rs_http_start(&http, &metrics->listener, err);
    if (status < 0) {
        rs_mem_free(metrics);
        return status;
    }
    rs_log_info("http%s://%s/metrics", rs_http_is_plain(metrics->listener) ? "" : "s",
                rs_http_address(metrics->listener));
    *metrics_p = metrics;
    return RS_OK;
}

bool rs_metrics_turn(struct rs_metrics *metrics, rs_ns now)
{
    if (!metrics)
        return false;
    atomic_store(&metrics->turned_at, now);
    if (now - metrics->looked_at >= look_every_ns) {
        metrics->looked_at = now;
        rs_http_refresh(metrics->listener);
    }
    if (metrics->counted_at && now - metrics->counted_at < count_every_ns)
        return false;
    metrics->counted_at = now;
    return true;
}

void rs_metrics_stop(struct rs_metrics **metrics_p)
{
    struct rs_metrics *metrics = *metrics_p;
    *metrics_p = NULL;
    if (!metrics)
        return;
    rs_http_stop(&metrics->listener);
    rs_mem_free(metrics);
}
