/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of other aggregators that write into the same database, as any of them answers.
 *
 *     a question of a capture that is not here --> rs-read: its row in the catalogue --+--> no such row: answered as ever, "there is none"
 *                                                                                      |
 *                                             rights, by its run and owner  <----------+
 *                                               |
 *         show                                  +--> what its owner wrote of it
 *         table, query, of rows that are there  +--> read from there, as of our own
 *         the report, of an owner that is gone  +--> made from those rows
 *         restore, of an owner that is gone     +--> from the archive, into our own folder
 *         anything else                         +--> refused, with the address of who has it: clients ask there (common/client)
 *
 *     a list, a history                        --> rs-read: the rows of all of them --> answered with them
 *
 * When the database is away, lists say so and have what is here; a question of one that is not here is refused.
 */
#include "aggregator/server/lease.h"
#include "aggregator/server/server_priv.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct elsewhere_job {
    struct pool_job base;
    Rankscope__Ask *ask;        /* a copy; freed as protobuf-c frees */
    char id[RS_STORE_ID_BYTES]; /* "": all of them are asked for */
    enum rs_status status;
    struct rs_err err;
    struct rs_fleet_captures found;
};

/* ---- who has it ----------------------------------------------------------------------------------------------------------- */

static bool is_of_one_machine(const char *address)
{
    struct rs_address parsed;
    return rs_address_parse(address, &parsed, NULL) < 0 || parsed.is_unix || parsed.is_loopback;
}

static void put_time(rs_ns at, char text[32])
{
    const time_t seconds = (time_t)(at / RS_NS_PER_S);
    struct tm parts = {0};
    if (!gmtime_r(&seconds, &parts) || !strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts))
        (void)snprintf(text, 32, "long ago");
}

void elsewhere_who(struct rs_server *server, const char *id, struct elsewhere_member *member_p)
{
    struct rs_lease *lease = server->options.lease;
    struct rs_fleet_member told;
    *member_p = (struct elsewhere_member){.id = ""};
    (void)snprintf(member_p->id, sizeof member_p->id, "%s", id);
    rs_utf8_plain(member_p->id); /* of a row that anybody may have written */
    if (rs_lease_find(lease, id, &told) < 0) {
        (void)snprintf(member_p->text, sizeof member_p->text,
                       "aggregator %.16s, which was not there for a week", member_p->id);
        return;
    }
    const bool is_near = strcmp(told.host, rs_lease_host(lease)) == 0;
    member_p->is_living = told.state == RS_FLEET_LIVING;
    if (!member_p->is_living) {
        char since[32];
        put_time(told.seen_ns, since);
        (void)snprintf(member_p->text, sizeof member_p->text,
                       "aggregator %.16s on %.200s, %s since %s", id, told.host,
                       told.state == RS_FLEET_STOPPED ? "which is stopped" : "which is gone",
                       since);
        return;
    }
    (void)snprintf(member_p->text, sizeof member_p->text,
                   "aggregator %.16s on %.100s at %.160s%s%.160s", id, told.host, told.address,
                   *told.http ? ", " : "", told.http);
    if (is_near || !is_of_one_machine(told.address))
        (void)snprintf(member_p->address, sizeof member_p->address, "%s", told.address);
}

/* Texts of messages that protobuf-c frees are the system's own. */
static bool set_text(char **text_p, const char *text)
{
    char *copy = strdup(text);
    if (copy)
        *text_p = copy;
    return copy != NULL;
}

/* Whoever may write into the database may have written it, and it is shown on terminals. The empty text is protobuf-c's own. */
static void make_plain(char *text)
{
    if (*text)
        rs_utf8_plain(text);
}

static void make_info_plain(Rankscope__CaptureInfo *info)
{
    char *const texts[] = {info->run,        info->directory,  info->source,  info->reason,
                           info->raw,        info->owner,      info->archive, info->rows,
                           info->taken_from, info->given_up_to};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        make_plain(texts[i]);
    if (info->findings)
        make_plain(info->findings->headline);
    for (size_t i = 0; i < info->n_ranks; i++) {
        make_plain(info->ranks[i]->incarnation);
        make_plain(info->ranks[i]->host);
        make_plain(info->ranks[i]->text);
    }
}

/* What it said last of a capture that goes on is as old as it is: that it records, say, is not known any more. */
static bool say_how_it_is(const struct elsewhere_member *member, Rankscope__CaptureInfo *info)
{
    return member->is_living || info->closed_ns || *info->reason ||
           set_text(&info->reason, member->text);
}

Rankscope__CaptureInfo *elsewhere_info(struct rs_server *server,
                                       const struct rs_fleet_capture *capture,
                                       struct rs_view packed)
{
    struct elsewhere_member member;
    Rankscope__CaptureInfo *info = (Rankscope__CaptureInfo *)rs_wire_unpack(
        &rankscope__capture_info__descriptor, packed.data, packed.length);
    if (!info)
        return NULL;
    elsewhere_who(server, capture->aggregator, &member);
    make_info_plain(info);
    /* Only an owner of its own says what it is; what it was told by others is none of it. */
    if (strcmp(info->id, capture->id) == 0 && !*info->aggregator && !*info->aggregator_address &&
        say_how_it_is(&member, info) && set_text(&info->aggregator, member.id) &&
        (!*member.address || set_text(&info->aggregator_address, member.address)))
        return info;
    rankscope__capture_info__free_unpacked(info, NULL);
    return NULL;
}

/* ---- one capture ---------------------------------------------------------------------------------------------------------- */

static void redirect(struct session *session, const struct rs_fleet_capture *capture)
{
    struct elsewhere_member member;
    struct rs_err err = {0};
    elsewhere_who(session->server, capture->aggregator, &member);
    if (!member.is_living)
        (void)rs_err_set(&err, RS_UNREACHABLE,
                         "capture %.63s is of %s: only that one has what this takes", capture->id,
                         member.text);
    else
        (void)rs_err_set(&err, RS_REFUSED, "capture %.63s is of %s: ask that one%s", capture->id,
                         member.text,
                         *member.address ? "" : ", on its own machine (--advertise there)");
    ask_redirect(session, &err, member.address);
}

static void show(struct session *session, const struct rs_fleet_capture *capture)
{
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    struct rs_err err = {0};
    Rankscope__CaptureInfo *info = elsewhere_info(session->server, capture, capture->info);
    if (!info) {
        (void)rs_err_set(&err, RS_FORMAT,
                         "what the database says of capture %.63s cannot be read: it may be of a "
                         "newer program",
                         capture->id);
        ask_refuse(session, &err);
        return;
    }
    reply.last = true;
    reply.message_case = RANKSCOPE__REPLY__MESSAGE_CAPTURE;
    reply.capture = info;
    session->is_ended = true;
    session_post(session, &reply.base);
    rankscope__capture_info__free_unpacked(info, NULL);
}

/* Raw events are no rows, and rows on other clocks are made anew: both take the owner. */
static bool is_in_rows(const struct rs_fleet_capture *capture, const Rankscope__Ask *ask)
{
    enum rs_read read;
    if (capture->rows == RS_FLEET_ROWS_NONE)
        return false;
    if (ask->message_case == RANKSCOPE__ASK__MESSAGE_QUERY)
        return !ask->query->assume_common_clock;
    return ask->message_case == RANKSCOPE__ASK__MESSAGE_TABLE && !ask->table->assume_common_clock &&
           !(rs_read_named(ask->table->read, &read) && rs_read_is_raw(read));
}

/* What came back from the archive elsewhere has two rows: of who lives, if anybody does. */
static const struct rs_fleet_capture *choose(struct rs_server *server,
                                             const struct rs_fleet_captures *found)
{
    struct elsewhere_member member;
    for (size_t i = 0; i < found->count; i++) {
        elsewhere_who(server, found->items[i].aggregator, &member);
        if (member.is_living)
            return &found->items[i];
    }
    return &found->items[0];
}

/* Of an owner that is lost, what is in the archive can be brought here. */
static bool is_restored_here(struct rs_server *server, const Rankscope__Ask *ask,
                             const struct rs_fleet_capture *capture)
{
    struct elsewhere_member member;
    elsewhere_who(server, capture->aggregator, &member);
    return ask->message_case == RANKSCOPE__ASK__MESSAGE_ARCHIVE && ask->archive->restore &&
           !member.is_living;
}

static bool is_report_alone(const Rankscope__DocumentOptions *options)
{
    return options && options->report && !options->deliverables && !options->raw &&
           !options->assume_common_clock;
}

/* Of an owner that is lost, the report is what its rows say; all else of its documents takes the folder. */
static bool is_report_of_rows(struct rs_server *server, const Rankscope__Ask *ask,
                              const struct rs_fleet_capture *capture)
{
    struct elsewhere_member member;
    const bool is_list = ask->message_case == RANKSCOPE__ASK__MESSAGE_DOCUMENTS;
    if (capture->rows != RS_FLEET_ROWS_WHOLE || !server->documents ||
        (!is_list && ask->message_case != RANKSCOPE__ASK__MESSAGE_DOCUMENT) ||
        !is_report_alone(is_list ? ask->documents->options : ask->document->options))
        return false;
    elsewhere_who(server, capture->aggregator, &member);
    return !member.is_living;
}

static void answer_of(struct session *session, const Rankscope__Ask *ask,
                      const struct rs_fleet_capture *capture)
{
    const bool is_show = ask->message_case == RANKSCOPE__ASK__MESSAGE_CAPTURE;
    struct rs_err err = {0};
    if (rights_to_ask_other(session, ask, capture->run, capture->owner, &err) < 0)
        ask_refuse(session, &err);
    else if (is_restored_here(session->server, ask, capture))
        ask_archive(session, ask->archive);
    else if (is_show && (!ask->capture->follow || capture->closed_ns))
        show(session, capture);
    else if (is_report_of_rows(session->server, ask, capture) &&
             ask->message_case == RANKSCOPE__ASK__MESSAGE_DOCUMENTS)
        ask_documents(session, ask->documents, capture);
    else if (is_report_of_rows(session->server, ask, capture))
        ask_document(session, ask->document);
    else if (!is_in_rows(capture, ask))
        redirect(session, capture);
    else if (ask->message_case == RANKSCOPE__ASK__MESSAGE_TABLE)
        ask_table(session, ask->table, capture);
    else
        ask_query(session, ask->query, capture);
}

/* ---- asking the database --------------------------------------------------------------------------------------------------- */

static void free_job(struct elsewhere_job *job)
{
    rankscope__ask__free_unpacked(job->ask, NULL);
    rs_fleet_captures_fini(&job->found);
    rs_mem_free(job);
}

/* On rs-read. */
static void run_look(struct rs_pool_job *pool_job)
{
    struct elsewhere_job *job = (struct elsewhere_job *)pool_job; /* its first member's first */
    const struct rs_server_options *options = &job->base.server->options;
    const char *own = rs_lease_id(options->lease);
    job->status = *job->id ? rs_fleet_find(options->rows, job->id, own, &job->found, &job->err)
                           : rs_fleet_heads(options->rows, own, &job->found, &job->err);
}

static void looked(struct pool_job *base)
{
    struct elsewhere_job *job = (struct elsewhere_job *)base; /* its first member */
    struct session *session = base->session;
    struct rs_err err = {0};
    if (base->base.was_dropped)
        job->status = rs_err_set(&job->err, RS_UNREACHABLE, "the aggregator stops");
    if (!session->link)
        job->status = RS_CANCELLED; /* nobody is there to be told */
    else if (!*job->id)
        ask_answer(session, job->ask, &job->found, job->status < 0 ? job->err.text : "");
    else if (job->status == RS_OK)
        answer_of(session, job->ask, choose(base->server, &job->found));
    else if (job->status == RS_NOTFOUND)
        ask_answer(session, job->ask, NULL, "");
    else {
        (void)rs_err_set(&err, job->status,
                         "capture %.63s is not here, and whether another aggregator has it is not "
                         "known: %.500s",
                         job->id, job->err.text);
        ask_refuse(session, &err);
    }
    free_job(job);
}

/* The question outlives the message that it came in. */
static Rankscope__Ask *copy_ask(const Rankscope__Ask *ask)
{
    struct rs_buf packed = {0};
    rs_wire_pack(&ask->base, &packed);
    Rankscope__Ask *copy =
        packed.failed ? NULL : rankscope__ask__unpack(NULL, packed.length, packed.data);
    rs_buf_fini(&packed);
    return copy;
}

bool elsewhere_is_here(struct rs_server *server, const char *id)
{
    struct rs_coord_capture *capture = NULL;
    if (rs_coord_find(server->coord, id) ||
        (server->journal.was_removed && server->journal.was_removed(server->journal.self, id)))
        return true;
    capture = rs_mem_calloc(1, sizeof *capture);
    const bool is_found =
        capture && server->journal.find(server->journal.self, id, 0, capture, NULL) == RS_OK;
    const bool is_given_up = is_found && *capture->given_up_to; /* another one has it now */
    if (is_found)
        rs_coord_capture_fini(capture);
    const bool is_unknown = !capture;
    rs_mem_free(capture);
    return (is_found && !is_given_up) || is_unknown;
}

bool elsewhere_takes(struct session *session, const Rankscope__Ask *ask)
{
    struct rs_server *server = session->server;
    const bool is_of_all = ask->message_case == RANKSCOPE__ASK__MESSAGE_LIST ||
                           ask->message_case == RANKSCOPE__ASK__MESSAGE_HISTORY;
    if (!server->options.rows || !server->options.lease || !server->read_pool ||
        !rights_may(session, ask))
        return false;
    const char *id = is_of_all ? "" : rights_capture_of(session, ask);
    if (!id || (!is_of_all && (!rs_wire_is_capture_id(id) || elsewhere_is_here(server, id))))
        return false;
    struct elsewhere_job *job = rs_mem_calloc(1, sizeof *job);
    struct rs_err err = {0};
    enum rs_status status = RS_NOMEM;
    if (job)
        job->ask = copy_ask(ask);
    if (job && job->ask) {
        (void)snprintf(job->id, sizeof job->id, "%s", id);
        job->base.finish = looked;
        job->base.base.run = run_look;
        status = server_pool_put(session, server->read_pool, &job->base);
    }
    if (status == RS_OK)
        return true;
    if (status == RS_LIMIT)
        (void)rs_err_set(&err, RS_LIMIT, "too many read from this aggregator: try again");
    else
        (void)rs_err_set(&err, RS_NOMEM, "out of memory");
    ask_refuse(session, &err);
    if (job)
        free_job(job);
    return true;
}
