/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may say what. One table; all refusals are counted and written to the audit log.
 *
 *     party        by                                    may
 *     local        unix socket, --insecure-loopback      everything: who gets there was let in by the rights of the socket
 *     aggregator   its own certificate                   everything
 *     operator     certificate                           read; capture, stop, remove, fetch, ask ranks why they hang; renew its own
 *     viewer       certificate                           read; renew its own
 *     node         certificate                           be the collector of the node of its name; renew its own
 *     guest        no certificate, the address to join   ask for its first certificate with an invite
 */
#include "aggregator/server/server_priv.h"

#include <stdio.h>
#include <string.h>

enum right { RIGHT_READ, RIGHT_OPERATE, RIGHT_RENEW };

struct question {
    const char *what;
    enum right right;
    const char *subject; /* lent by the question */
    bool
        is_written; /* in the audit log, when it is allowed; what only looks at the present is not */
};

static struct question question_of(const Rankscope__Ask *ask)
{
    switch (ask->message_case) {
    case RANKSCOPE__ASK__MESSAGE_RANKS:
        return (struct question){"ranks", RIGHT_READ, ask->ranks->run, false};
    case RANKSCOPE__ASK__MESSAGE_START:
        return (struct question){ask->start->dry_run ? "capture.check" : "capture.start",
                                 RIGHT_OPERATE, ask->start->run, true};
    case RANKSCOPE__ASK__MESSAGE_LIST:
        return (struct question){"capture.list", RIGHT_READ, ask->list->run, false};
    case RANKSCOPE__ASK__MESSAGE_CAPTURE:
        return (struct question){"capture.show", RIGHT_READ, ask->capture->id, false};
    case RANKSCOPE__ASK__MESSAGE_STOP:
        return (struct question){"capture.stop", RIGHT_OPERATE, ask->stop->id, true};
    case RANKSCOPE__ASK__MESSAGE_REMOVE:
        return (struct question){"capture.remove", RIGHT_OPERATE, ask->remove->id, true};
    case RANKSCOPE__ASK__MESSAGE_FETCH:
        return (struct question){"capture.fetch", RIGHT_OPERATE, ask->fetch->id, true};
    case RANKSCOPE__ASK__MESSAGE_DOCUMENTS:
        return (struct question){"capture.read", RIGHT_READ, ask->documents->capture, true};
    case RANKSCOPE__ASK__MESSAGE_DOCUMENT: /* a page of what was listed by the question above */
        return (struct question){"capture.read", RIGHT_READ, ask->document->capture, false};
    case RANKSCOPE__ASK__MESSAGE_TABLE:
        return (struct question){"capture.table", RIGHT_READ, ask->table->capture, true};
    case RANKSCOPE__ASK__MESSAGE_QUERY:
        return (struct question){"capture.query", RIGHT_READ, ask->query->capture, true};
    case RANKSCOPE__ASK__MESSAGE_COUNTERS:
        return (struct question){"counters", RIGHT_READ, "", false};
    case RANKSCOPE__ASK__MESSAGE_HANG:
        return (struct question){"hang", RIGHT_OPERATE, ask->hang->run, true};
    case RANKSCOPE__ASK__MESSAGE_CERTIFICATE:
        return (struct question){*ask->certificate->secret ? "join" : "renew", RIGHT_RENEW,
                                 ask->certificate->name, true};
    case RANKSCOPE__ASK__MESSAGE__NOT_SET:
    case RS_WIRE_ONEOF_SIZE(RANKSCOPE__ASK):
        break;
    }
    return (struct question){"unknown", RIGHT_READ, "", false};
}

static bool has_right(const struct rs_identity *identity, enum right right)
{
    if (right == RIGHT_RENEW)
        return identity->party == RS_PARTY_GUEST || *identity->serial;
    return right == RIGHT_READ ? rs_identity_may_read(identity) : rs_identity_may_operate(identity);
}

static const char *from_of(const struct session *session)
{
    return session->link ? session->link->peer : "";
}

static void write_down(const struct session *session, const char *what, const char *subject,
                       const char *why)
{
    const struct rs_audit_line line = {.who = &session->identity,
                                       .from = from_of(session),
                                       .what = what,
                                       .subject = subject,
                                       .why = why};
    rs_audit_put(session->server->audit, &line);
}

void rights_refused(const struct session *session, const char *what, const char *subject,
                    const char *why)
{
    rs_count(RS_COUNT_SERVER_FORBIDDEN, 1);
    write_down(session, what, subject, why);
}

enum rs_status rights_to_ask(struct session *session, const Rankscope__Ask *ask, struct rs_err *err)
{
    const struct question question = question_of(ask);
    char who[RS_IDENTITY_TEXT_BYTES];
    struct rs_err why = {0};
    if (has_right(&session->identity, question.right)) {
        if (question.is_written)
            write_down(session, question.what, question.subject, NULL);
        return RS_OK;
    }
    rs_identity_text(&session->identity, who);
    (void)rs_err_set(&why, RS_REFUSED, "%s may not ask for this (%s): it takes a certificate of %s",
                     who, question.what,
                     question.right == RIGHT_OPERATE ? "an operator" : "a viewer or an operator");
    rights_refused(session, question.what, question.subject, why.text);
    return rs_err_set(err, RS_REFUSED, "%s", why.text);
}

enum rs_status rights_of_collector(struct session *session, const char *node, struct rs_err *err)
{
    const struct rs_identity *identity = &session->identity;
    char who[RS_IDENTITY_TEXT_BYTES];
    struct rs_err why = {0};
    enum rs_status status = RS_OK;
    rs_identity_text(identity, who);
    if (identity->party != RS_PARTY_LOCAL && identity->party != RS_PARTY_NODE)
        status = rs_err_set(&why, RS_REFUSED,
                            "%s may not send profiles: it takes a certificate of a node", who);
    else if (identity->party == RS_PARTY_NODE && strcmp(identity->name, node) != 0)
        status =
            rs_err_set(&why, RS_REFUSED,
                       "the certificate is of node %s, and the collector says that it is on %.60s",
                       identity->name, node);
    if (status < 0) {
        rights_refused(session, "collector", node, why.text);
        return rs_err_set(err, RS_REFUSED, "%s", why.text);
    }
    if (identity->party == RS_PARTY_NODE)
        write_down(session, "collector", node, NULL);
    return RS_OK;
}

void rs_server_refused(struct rs_server *server, const struct rs_identity *who, const char *from,
                       const char *what, const char *why)
{
    const struct rs_audit_line line = {
        .who = who, .from = from, .what = "http", .subject = what, .why = why};
    rs_count(RS_COUNT_SERVER_FORBIDDEN, 1);
    rs_audit_put(server->audit, &line);
}
