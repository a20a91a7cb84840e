/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     no certificate, --join   invite --> the aggregator's address to join --> DIR/{ca.crt, tls.crt, tls.key, crl.pem}
 *                                                                          \-> DIR/aggregator: where to send to
 *     a certificate            used; --join is passed over, so that a service can be started again with the same options
 */
#include "collector/agent/enrol.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/paths.h"
#include "common/client/certificate.h"

#define RS_LOG_TAG "enrol"
#include "common/base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { ADDRESS_FILE_MAX_BYTES = 256 };

static const rs_dur join_patience_ns = 30 * (rs_dur)RS_NS_PER_S;
static const rs_dur look_most_ns = 600 * (rs_dur)RS_NS_PER_S;
static const rs_dur look_least_ns = RS_NS_PER_S;

/* ---- joining ---------------------------------------------------------------------------------------------- */

/* The text itself, or what the file of that name holds. */
static enum rs_status read_invite(const char *given, struct rs_invite *invite_p, struct rs_err *err)
{
    struct rs_buf text = {0};
    enum rs_status status = RS_OK;
    if (strncmp(given, "rsi1.", 5) == 0)
        rs_buf_string(&text, given);
    else
        status = rs_file_read_regular(given, RS_INVITE_MAX_BYTES, &text, err);
    while (status == RS_OK && text.length && strchr(" \t\r\n", text.data[text.length - 1]))
        text.length--;
    if (status == RS_OK)
        status = text.failed ? rs_err_set(err, RS_NOMEM, "no memory for the invite")
                             : rs_invite_parse(rs_buf_text(&text), invite_p, err);
    rs_buf_fini(&text);
    return status;
}

static bool has_certificate(const char *dir)
{
    char *path = rs_file_join(dir, "tls.crt");
    const bool is_there = path && access(path, F_OK) == 0;
    rs_mem_free(path);
    return is_there;
}

static enum rs_status join(const struct rs_agent_options *options, struct rs_err *err)
{
    static const atomic_bool never;
    const struct rs_client_patience patience = {.until = rs_time_monotonic() + join_patience_ns,
                                                .must_stop = &never};
    char connect[RS_CLIENT_HOST_PORT_BYTES] = "";
    struct rs_invite invite = {.secret = ""};
    const char *node = options->node ? options->node : options->host;
    enum rs_status status = read_invite(options->invite, &invite, err);
    if (status == RS_OK)
        status =
            rs_client_join(options->join, &invite, node, options->certs, &patience, connect, err);
    rs_invite_fini(&invite);
    if (status < 0)
        return status;
    rs_log_warn("joined at %s as node %s: the certificate is in %s", options->join, node,
                options->certs);
    char *path = *connect ? rs_file_join(options->certs, "aggregator") : NULL;
    if (path)
        status = rs_file_replace(path, connect, strlen(connect), true, err);
    rs_mem_free(path);
    return status;
}

/* What joining left there; empty when nothing. */
static void read_address(const char *dir, char text_p[ADDRESS_FILE_MAX_BYTES])
{
    struct rs_buf text = {0};
    char *path = rs_file_join(dir, "aggregator");
    *text_p = '\0';
    if (path && rs_file_read_regular(path, ADDRESS_FILE_MAX_BYTES - 1, &text, NULL) == RS_OK)
        (void)snprintf(text_p, ADDRESS_FILE_MAX_BYTES, "%.*s", (int)text.length,
                       (const char *)text.data);
    rs_buf_fini(&text);
    rs_mem_free(path);
    text_p[strcspn(text_p, "\r\n")] = '\0';
}

enum rs_status rs_enrol(const struct rs_agent_options *options,
                        struct rs_aggregators *aggregators_p, char node_p[RS_IDENTITY_NAME_BYTES],
                        struct rs_err *err)
{
    struct rs_address *address_p = &aggregators_p->items[0].address;
    char known[ADDRESS_FILE_MAX_BYTES] = "";
    struct rs_trust *trust = NULL;
    enum rs_status status = RS_OK;
    const bool is_joined = options->certs && has_certificate(options->certs);
    if (options->join && !is_joined)
        status = join(options, err);
    if (status == RS_OK && !options->connect && options->certs)
        read_address(options->certs, known);
    if (status == RS_OK && *known) {
        aggregators_p->count = 1;
        status = rs_address_parse(known, address_p, err);
        if (status == RS_OK)
            status = rs_address_guard(address_p, options->certs, false, err);
    } else if (status == RS_OK) {
        status = rs_aggregators_parse(options->connect, aggregators_p, err);
    }
    (void)snprintf(node_p, RS_IDENTITY_NAME_BYTES, "%.63s", options->host);
    for (size_t i = 1; i < aggregators_p->count && address_p->guard != RS_ADDRESS_MUTUAL; i++)
        address_p = &aggregators_p->items[i].address;
    if (status < 0 || address_p->guard != RS_ADDRESS_MUTUAL)
        return status;
    status = rs_trust_open(address_p->certs, &trust, err);
    if (status == RS_OK) {
        const struct rs_identity own = rs_trust_own(trust);
        memcpy(node_p, own.name, RS_IDENTITY_NAME_BYTES);
        if (own.party != RS_PARTY_NODE)
            status = rs_err_set(
                err, RS_REFUSED,
                "%s holds the certificate of another party (%s): a collector needs one of a node "
                "(rankscope certs issue node NAME)",
                address_p->certs, rs_party_name(own.party));
    }
    rs_trust_close(&trust);
    return status;
}

/* ---- renewing ----------------------------------------------------------------------------------------------- */

struct rs_renewal {
    struct rs_address addresses[RS_AGGREGATORS_MAX]; /* all with one folder of certificates */
    size_t count;
    pthread_t thread;
    int stop_fd; /* readable: it is to stop */
    atomic_bool must_stop;
    bool has_failed; /* said once */
};

/* By the first that does. */
static enum rs_status renew(struct rs_renewal *renewal, struct rs_err *err)
{
    enum rs_status status = RS_UNREACHABLE;
    for (size_t i = 0; i < renewal->count && status < 0 && status != RS_CANCELLED; i++) {
        const struct rs_client_patience patience = {.until = rs_time_monotonic() + join_patience_ns,
                                                    .must_stop = &renewal->must_stop};
        status = rs_client_renew(&renewal->addresses[i], &patience, err);
    }
    return status;
}

/* When to look again. */
static rs_dur renew_if_due(struct rs_renewal *renewal)
{
    struct rs_err err = {0};
    struct rs_trust *trust = NULL;
    struct rs_identity own = {.party = RS_PARTY_NOBODY};
    enum rs_status status = rs_trust_open(renewal->addresses[0].certs, &trust, &err);
    if (status == RS_OK)
        own = rs_trust_own(trust);
    rs_trust_close(&trust);
    const rs_dur left = rs_client_renew_at(&own) - rs_time_realtime();
    rs_dur next = left;
    if (status == RS_OK && left <= 0) {
        status = renew(renewal, &err);
        next = (own.expires_at - rs_time_realtime()) / 8; /* again, if it did not work */
        if (status == RS_OK)
            rs_log_info("the certificate of node %s was renewed", own.name);
    }
    if (status < 0 && status != RS_CANCELLED && !renewal->has_failed)
        rs_log_warn("the certificate in %s is not renewed: %s; trying again",
                    renewal->addresses[0].certs, err.text);
    renewal->has_failed = status < 0;
    next = next < look_least_ns ? look_least_ns : next;
    return next > look_most_ns ? look_most_ns : next;
}

static void *watch(void *self)
{
    struct rs_renewal *renewal = self;
    struct pollfd stop = {.fd = renewal->stop_fd, .events = POLLIN};
    int wait_ms = 0;
    while (poll(&stop, 1, wait_ms) <= 0)
        wait_ms = (int)(renew_if_due(renewal) / RS_NS_PER_MS);
    return NULL;
}

enum rs_status rs_renewal_start(const struct rs_aggregators *aggregators,
                                struct rs_renewal **renewal_p, struct rs_err *err)
{
    *renewal_p = NULL;
    struct rs_renewal *renewal = rs_mem_calloc(1, sizeof *renewal);
    if (!renewal)
        return rs_err_set(err, RS_NOMEM, "no memory for a thread");
    for (size_t i = 0; i < aggregators->count; i++)
        if (aggregators->items[i].address.guard == RS_ADDRESS_MUTUAL)
            renewal->addresses[renewal->count++] = aggregators->items[i].address;
    if (!renewal->count) {
        rs_mem_free(renewal);
        return RS_OK;
    }
    renewal->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (renewal->stop_fd < 0 || pthread_create(&renewal->thread, NULL, watch, renewal) != 0) {
        if (renewal->stop_fd >= 0)
            (void)close(renewal->stop_fd);
        rs_mem_free(renewal);
        return rs_err_set(err, RS_IO, "cannot start the thread that renews our certificate");
    }
    (void)pthread_setname_np(renewal->thread, "rs-renew");
    *renewal_p = renewal;
    return RS_OK;
}

void rs_renewal_stop(struct rs_renewal **renewal_p)
{
    struct rs_renewal *renewal = *renewal_p;
    const uint64_t one = 1;
    if (!renewal)
        return;
    *renewal_p = NULL;
    atomic_store(&renewal->must_stop, true);
    (void)!write(renewal->stop_fd, &one, sizeof one);
    (void)pthread_join(renewal->thread, NULL);
    (void)close(renewal->stop_fd);
    rs_mem_free(renewal);
}
