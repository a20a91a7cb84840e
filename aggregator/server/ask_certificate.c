/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates over the link: the first one of a node that was invited, the next one of an identity whose own ends soon.
 *
 *     guest --secret, name, request--> rs-read: the invite is used up --> signed as node NAME
 *     node, viewer, operator --request--> rs-read: signed as what it is, under its own name
 *
 * A renewed identity is the same: nobody becomes more by renewing. Aggregators are not renewed over the link: they have the
 * authority beside them, or ask the person who has.
 */
#include "aggregator/server/server_priv.h"
#include "common/base/mem.h"
#include "common/trust/invite.h"

#define RS_LOG_TAG "server"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

/* Of nodes, which renew by themselves; people's certificates are renewed as long as they were. */
static const rs_dur node_valid_ns = (rs_dur)14 * 86400 * RS_NS_PER_S;

struct certificate_job {
    struct pool_job base;
    struct rs_authority *authority;
    struct rs_identity identity; /* who renews; a guest joins */
    char secret[RS_INVITE_SECRET_BYTES], name[RS_IDENTITY_NAME_BYTES];
    struct rs_buf request, certificate, revoked;
    enum rs_status status;
    struct rs_err err;
};

static void free_job(struct certificate_job *job)
{
    rs_buf_fini(&job->request);
    rs_buf_fini(&job->certificate);
    rs_buf_fini(&job->revoked);
    rs_mem_free(job);
}

/* On rs-read. */
static void run(struct rs_pool_job *base)
{
    struct certificate_job *job = (struct certificate_job *)base;
    const bool joins = job->identity.party == RS_PARTY_GUEST;
    struct rs_certificate_wish wish = {.party = joins ? RS_PARTY_NODE : job->identity.party,
                                       .name = joins ? job->name : job->identity.name,
                                       .valid_ns = node_valid_ns};
    if (!joins) {
        const rs_dur was =
            job->identity.expires_at - job->identity.begins_at - RS_AUTHORITY_EARLY_NS;
        wish.valid_ns = was < RS_NS_PER_S ? RS_NS_PER_S : was;
    }
    job->status = joins ? rs_invite_take(job->authority, job->secret, job->name, rs_time_realtime(),
                                         &job->err)
                        : RS_OK;
    if (job->status == RS_OK)
        job->status = rs_authority_sign(job->authority, &wish,
                                        rs_view_of(job->request.data, job->request.length),
                                        &job->certificate, &job->err);
    if (job->status == RS_OK)
        job->status = rs_authority_revocations(job->authority, &job->revoked, &job->err);
}

static ProtobufCBinaryData lend(const void *data, size_t length)
{
    union {
        const void *in;
        uint8_t *out;
    } both = {.in = data};
    return (ProtobufCBinaryData){.data = both.out, .len = length};
}

static void reply(struct session *session, const struct certificate_job *job)
{
    const struct rs_server *server = session->server;
    const struct rs_view ca = rs_authority_ca(job->authority);
    char port[16];
    (void)snprintf(port, sizeof port, "%s",
                   server->options.stream_port ? server->options.stream_port : "");
    Rankscope__Certificate certificate = RANKSCOPE__CERTIFICATE__INIT;
    certificate.certificate = lend(job->certificate.data, job->certificate.length);
    certificate.ca = lend(ca.data, ca.length);
    certificate.revoked = lend(job->revoked.data, job->revoked.length);
    certificate.port = port;
    Rankscope__Reply answer = RANKSCOPE__REPLY__INIT;
    answer.message_case = RANKSCOPE__REPLY__MESSAGE_CERTIFICATE;
    answer.certificate = &certificate;
    answer.last = true;
    session_post(session, &answer.base);
    session->is_ended = true;
    session_pump(session);
}

static void finish(struct pool_job *base)
{
    struct certificate_job *job = (struct certificate_job *)base;
    struct session *session = base->session;
    const char *name = *job->name ? job->name : job->identity.name;
    if (base->base.was_dropped)
        job->status = rs_err_set(&job->err, RS_UNREACHABLE, "the aggregator stops");
    if (job->status == RS_OK)
        rs_log_info("a certificate was issued for %s/%s",
                    job->identity.party == RS_PARTY_GUEST ? "node"
                                                          : rs_party_name(job->identity.party),
                    name);
    else
        rs_log_warn("no certificate for %.64s: %s", name, job->err.text);
    if (job->status == RS_REFUSED)
        rights_refused(session, "join", name, job->err.text);
    if (session->link && job->status < 0)
        ask_refuse(session, &job->err);
    else if (session->link)
        reply(session, job);
    free_job(job);
}

static enum rs_status fill(struct session *session, const Rankscope__AskCertificate *ask,
                           struct certificate_job *job)
{
    job->authority = session->server->options.authority;
    job->identity = session->identity;
    if (!job->authority)
        return rs_err_set(&job->err, RS_REFUSED,
                          "this aggregator has no authority: certificates come from the host where "
                          "\"rankscope certs init\" was run");
    if (session->identity.party == RS_PARTY_AGGREGATOR)
        return rs_err_set(&job->err, RS_REFUSED, "aggregators do not renew over the link");
    if (session->identity.party == RS_PARTY_GUEST) {
        if (strlen(ask->secret) != RS_INVITE_SECRET_BYTES - 1 || !rs_identity_is_name(ask->name))
            return rs_err_set(&job->err, RS_REFUSED, "there is no such invite");
        (void)snprintf(job->secret, sizeof job->secret, "%s", ask->secret);
        (void)snprintf(job->name, sizeof job->name, "%s", ask->name);
    }
    rs_buf_bytes(&job->request, ask->request.data, ask->request.len);
    return job->request.failed ? rs_err_set(&job->err, RS_NOMEM, "out of memory") : RS_OK;
}

void ask_certificate(struct session *session, const Rankscope__AskCertificate *ask)
{
    struct certificate_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job) {
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    job->base.finish = finish;
    job->base.base.run = run;
    enum rs_status status = fill(session, ask, job);
    struct rs_pool *pool = session->server->read_pool;
    if (status == RS_OK && pool && server_pool_put(session, pool, &job->base) == RS_OK)
        return; /* finish() answers; the job is the pool's */
    if (status == RS_OK)
        status = rs_err_set(&job->err, RS_LIMIT, "too many ask this aggregator: try again");
    if (status == RS_REFUSED)
        rights_refused(session, "join", job->name, job->err.text);
    ask_refuse(session, &job->err);
    free_job(job);
}
