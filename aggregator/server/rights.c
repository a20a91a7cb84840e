/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may say what. One table; all refusals are counted and written to the audit log.
 *
 *     party        by                                    may
 *     local        unix socket: root, the aggregator's   everything
 *                  user; --insecure-loopback
 *     aggregator   its own certificate                   everything
 *     operator     certificate, token, unix socket       read; capture, stop, remove, archive, fetch, ask ranks why they hang; renew its own
 *     viewer       the same                              read; renew its own
 *     user         the same                              as an operator, with runs and captures of his name alone; renew its own
 *     node         certificate                           be the collector of the node of its name; renew its own
 *     guest        no certificate, the address to join   ask for its first certificate with an invite
 *
 * Who came with a token of one run (rankscope token new --run) may what its party may, with that run and its captures: others are
 * refused, and left out of lists; what is of the whole service (counters, the aggregators of a database) is refused, too.
 *
 * Whoever comes over the unix socket may be the collector of his own processes (rights_of_collector()).
 */
#include "aggregator/server/server_priv.h"

#include <stdio.h>
#include <string.h>

enum right { RIGHT_READ, RIGHT_OPERATE, RIGHT_RENEW };

/* What of it is a user's own. */
enum scope {
    SCOPE_ALL,     /* nothing */
    SCOPE_OWN,     /* who answers leaves out what is not */
    SCOPE_RUN,     /* the run that it names; without a name who answers chooses among them */
    SCOPE_CAPTURE, /* the capture that it names */
};

struct question {
    const char *what;
    enum right right;
    enum scope scope;
    const char *subject; /* lent by the question */
    bool
        is_written; /* in the audit log, when it is allowed; what only looks at the present is not */
};

/* The first that is not the session's one run; "": there is none. */
static const char *foreign_run(const struct session *session, const Rankscope__AskHistory *ask)
{
    for (size_t i = 0; i < ask->n_runs; i++)
        if (!rs_identity_is_of_run(&session->identity, ask->runs[i]))
            return ask->runs[i];
    return "";
}

static struct question question_of(const struct session *session, const Rankscope__Ask *ask)
{
    switch (ask->message_case) {
    case RANKSCOPE__ASK__MESSAGE_RANKS:
        return (struct question){"ranks", RIGHT_READ, SCOPE_OWN, ask->ranks->run, false};
    case RANKSCOPE__ASK__MESSAGE_START:
        return (struct question){
            ask->start->dry_run ? "capture.check" : "capture.start", RIGHT_OPERATE, SCOPE_RUN,
            ask->start->request ? ask->start->request->job_id : ask->start->run, true};
    case RANKSCOPE__ASK__MESSAGE_LIST:
        return (struct question){"capture.list", RIGHT_READ, SCOPE_OWN, ask->list->run, false};
    case RANKSCOPE__ASK__MESSAGE_CAPTURE:
        return (struct question){"capture.show", RIGHT_READ, SCOPE_CAPTURE, ask->capture->id,
                                 false};
    case RANKSCOPE__ASK__MESSAGE_STOP:
        return (struct question){"capture.stop", RIGHT_OPERATE, SCOPE_CAPTURE, ask->stop->id, true};
    case RANKSCOPE__ASK__MESSAGE_REMOVE:
        return (struct question){"capture.remove", RIGHT_OPERATE, SCOPE_CAPTURE, ask->remove->id,
                                 true};
    case RANKSCOPE__ASK__MESSAGE_ARCHIVE:
        return (struct question){ask->archive->restore ? "capture.restore" : "capture.archive",
                                 RIGHT_OPERATE, SCOPE_CAPTURE, ask->archive->id, true};
    case RANKSCOPE__ASK__MESSAGE_FETCH:
        return (struct question){"capture.fetch", RIGHT_OPERATE, SCOPE_CAPTURE, ask->fetch->id,
                                 true};
    case RANKSCOPE__ASK__MESSAGE_DOCUMENTS:
        return (struct question){"capture.read", RIGHT_READ, SCOPE_CAPTURE, ask->documents->capture,
                                 true};
    case RANKSCOPE__ASK__MESSAGE_DOCUMENT: /* a page of what was listed by the question above */
        return (struct question){"capture.read", RIGHT_READ, SCOPE_CAPTURE, ask->document->capture,
                                 false};
    case RANKSCOPE__ASK__MESSAGE_TABLE:
        return (struct question){"capture.table", RIGHT_READ, SCOPE_CAPTURE, ask->table->capture,
                                 true};
    case RANKSCOPE__ASK__MESSAGE_QUERY:
        return (struct question){"capture.query", RIGHT_READ, SCOPE_CAPTURE, ask->query->capture,
                                 true};
    case RANKSCOPE__ASK__MESSAGE_HISTORY:
        return (struct question){"history", RIGHT_READ, SCOPE_OWN,
                                 foreign_run(session, ask->history), true};
    case RANKSCOPE__ASK__MESSAGE_COUNTERS:
        return (struct question){"counters", RIGHT_READ, SCOPE_ALL, "", false};
    case RANKSCOPE__ASK__MESSAGE_AGGREGATORS:
        return (struct question){"aggregators", RIGHT_READ, SCOPE_ALL, "", false};
    case RANKSCOPE__ASK__MESSAGE_HANG:
        return (struct question){"hang", RIGHT_OPERATE, SCOPE_RUN, ask->hang->run, true};
    case RANKSCOPE__ASK__MESSAGE_CERTIFICATE:
        return (struct question){*ask->certificate->secret ? "join" : "renew", RIGHT_RENEW,
                                 SCOPE_OWN, ask->certificate->name, true};
    case RANKSCOPE__ASK__MESSAGE__NOT_SET:
    case RS_WIRE_ONEOF_SIZE(RANKSCOPE__ASK):
        break;
    }
    return (struct question){"unknown", RIGHT_READ, SCOPE_ALL, "", false};
}

static bool has_right(const struct rs_identity *identity, const struct question *question)
{
    if (question->right == RIGHT_RENEW)
        return identity->party == RS_PARTY_GUEST || *identity->serial;
    if (rs_identity_is_of_one_run(identity) && question->scope == SCOPE_ALL)
        return false;
    if (rs_identity_is_user(identity))
        return question->scope != SCOPE_ALL;
    return question->right == RIGHT_READ ? rs_identity_may_read(identity)
                                         : rs_identity_may_operate(identity);
}

/* Whether the capture is of the run that the session is bound to. */
static bool is_of_run(const struct session *session, const char *id)
{
    const struct rs_server *server = session->server;
    const struct rs_coord_capture *open = rs_coord_find(server->coord, id);
    char run[RS_COORD_TEXT_BYTES] = "";
    if (open)
        (void)snprintf(run, sizeof run, "%s", open->run);
    else if (server->journal.run)
        server->journal.run(server->journal.self, id, run);
    return *run && rs_identity_is_of_run(&session->identity, run);
}

const char *rights_run(const struct session *session, const char *asked)
{
    return *asked ? asked : session->identity.run;
}

/* Of its one run, for who is bound to one: what names none is answered with that one. */
static bool is_in_run(const struct session *session, const struct question *question)
{
    if (question->scope == SCOPE_CAPTURE)
        return is_of_run(session, question->subject);
    return !*question->subject || rs_identity_is_of_run(&session->identity, question->subject);
}

bool server_is_owner(const struct rs_server *server, const char *id, const char *user)
{
    const struct rs_coord_capture *open = rs_coord_find(server->coord, id);
    char owner[RS_COORD_USER_BYTES] = "";
    if (open)
        (void)snprintf(owner, sizeof owner, "%s", open->owner);
    else if (server->journal.owner)
        server->journal.owner(server->journal.self, id, owner);
    return strcmp(owner, user) == 0;
}

/* Of what is not there a user hears the same as of what is another's. */
static bool is_own(const struct session *session, const struct question *question)
{
    if (question->scope == SCOPE_CAPTURE)
        return server_is_owner(session->server, question->subject, session->identity.name);
    if (question->scope != SCOPE_RUN || !*question->subject)
        return true;
    return strcmp(rs_coord_owner(session->server->coord, question->subject),
                  session->identity.name) == 0;
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

/* What the session may not have of a question that it may ask. */
struct scope_answer {
    bool is_out;    /* of its one run */
    bool is_others; /* of another user */
};

static enum rs_status decide(struct session *session, const struct question *asked,
                             struct scope_answer scope, struct rs_err *err)
{
    const struct question question = *asked;
    char who[RS_IDENTITY_TEXT_BYTES];
    struct rs_err why = {0};
    const bool may = has_right(&session->identity, &question);
    const bool is_out = may && scope.is_out, is_others = may && scope.is_others;
    if (may && !is_others && !is_out) {
        if (question.is_written)
            write_down(session, question.what, question.subject, NULL);
        return RS_OK;
    }
    rs_identity_text(&session->identity, who);
    if (is_out ||
        (!may && rs_identity_is_of_one_run(&session->identity) && question.scope == SCOPE_ALL))
        (void)rs_err_set(&why, RS_REFUSED, "the token of %s is of run %.127s alone (%s%s%.60s)",
                         who, session->identity.run, question.what, *question.subject ? " of " : "",
                         question.subject);
    else if (is_others)
        (void)rs_err_set(&why, RS_REFUSED, "%s has no %s %.100s (%s)", who,
                         question.scope == SCOPE_RUN ? "run" : "capture", question.subject,
                         question.what);
    else
        (void)rs_err_set(
            &why, RS_REFUSED, "%s may not ask for this (%s): it takes a certificate of %s", who,
            question.what,
            question.right == RIGHT_OPERATE ? "an operator" : "a viewer or an operator");
    rights_refused(session, question.what, question.subject, why.text);
    return rs_err_set(err, RS_REFUSED, "%s", why.text);
}

enum rs_status rights_to_ask(struct session *session, const Rankscope__Ask *ask, struct rs_err *err)
{
    const struct question question = question_of(session, ask);
    const struct rs_identity *identity = &session->identity;
    const bool may = has_right(identity, &question);
    const struct scope_answer scope = {
        .is_out = may && rs_identity_is_of_one_run(identity) && !is_in_run(session, &question),
        .is_others = may && rs_identity_is_user(identity) && !is_own(session, &question)};
    return decide(session, &question, scope, err);
}

enum rs_status rights_to_ask_other(struct session *session, const Rankscope__Ask *ask,
                                   const char *run, const char *owner, struct rs_err *err)
{
    const struct question question = question_of(session, ask);
    const struct rs_identity *identity = &session->identity;
    const struct scope_answer scope = {
        .is_out = rs_identity_is_of_one_run(identity) && !rs_identity_is_of_run(identity, run),
        .is_others = rs_identity_is_user(identity) && strcmp(owner, identity->name) != 0};
    return decide(session, &question, scope, err);
}

bool rights_may(const struct session *session, const Rankscope__Ask *ask)
{
    const struct question question = question_of(session, ask);
    return has_right(&session->identity, &question);
}

const char *rights_capture_of(const struct session *session, const Rankscope__Ask *ask)
{
    const struct question question = question_of(session, ask);
    return question.scope == SCOPE_CAPTURE ? question.subject : NULL;
}

enum rs_status rights_of_collector(struct session *session, const char *node, struct rs_err *err)
{
    const struct rs_identity *identity = &session->identity;
    char who[RS_IDENTITY_TEXT_BYTES];
    struct rs_err why = {0};
    enum rs_status status = RS_OK;
    rs_identity_text(identity, who);
    if (identity->party != RS_PARTY_LOCAL && identity->party != RS_PARTY_NODE && !identity->has_uid)
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
    if (identity->party != RS_PARTY_LOCAL)
        write_down(session, "collector", node, NULL);
    return RS_OK;
}

const char *rights_own_user(const struct session *session)
{
    const struct rs_identity *identity = &session->identity;
    return identity->has_uid && identity->party != RS_PARTY_LOCAL ? identity->name : NULL;
}

void rs_server_refused(struct rs_server *server, const struct rs_identity *who, const char *from,
                       const char *what, const char *why)
{
    const struct rs_audit_line line = {
        .who = who, .from = from, .what = "http", .subject = what, .why = why};
    rs_count(RS_COUNT_SERVER_FORBIDDEN, 1);
    rs_audit_put(server->audit, &line);
}
