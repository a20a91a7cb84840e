/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why does the job hang? Every collector asks the ranks of its node for their flight recorders; what comes becomes a capture.
 *
 *   AskHang --> ASKING: FlightAsk to every collector --Flight, Flight, ... last--> all nodes are through, or the limit is over
 *                  |                                                                      |
 *                  | nobody has a rank of the run, or several runs: refused               v
 *                  +--> the asker                             WRITING (rs-store): folder, row, dumps.flight, rows of ranks
 *                                                                                         |
 *                                        the asker is told the capture <-- CLOSING (ingest) <-- done
 *
 * All collectors are asked, not only those that told of ranks: a job that was started without us has ranks, too. A node that
 * gives no answer in time is named, and its ranks, as far as they were known, are lost. The dumps are not looked at here:
 * whoever wants the verdict asks for the capture's report, which is made from them (aggregator/deliver).
 */
#include "aggregator/server/server_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/flight/pack.h"
#include "common/request/rank_expr.h"

#define RS_LOG_TAG "hang"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HANGS_MAX = 8, HANG_MAX_BYTES = 1 << 29, LIMIT_MS = 3500, GRACE_MS = 700 };

/* One rank's word. */
struct said {
    uint32_t rank, pid;
    char run[RS_COORD_TEXT_BYTES], host[RS_COORD_TEXT_BYTES], text[RS_COORD_REASON_BYTES];
    char way[32];
    rs_ns written_ns;
    struct rs_buf dump; /* empty: it could not be asked */
};

struct node {
    const void *link; /* NULL: it is through, or gone */
    char name[RS_COORD_TEXT_BYTES];
    bool has_answered;
    size_t open; /* said + 1 whose dump goes on with the next message; 0 none */
};

struct hang {
    struct hang *next;
    struct rs_coord_capture capture; /* its id names the question, too */
    char run[RS_COORD_TEXT_BYTES];   /* as asked; "" any */
    char *expression;                /* --ranks; NULL all */
    rs_ns until;                     /* monotonic */
    bool is_writing;
    rs_ns newer_than_ns;             /* not 0: only who wrote a dump since then; nothing is kept */
    bool is_own;                     /* of the standing watch: nobody waits for it */
    char why[RS_COORD_REASON_BYTES]; /* of the watch, for the capture's reason */
    struct node *nodes;
    size_t node_count;
    struct said *said;
    size_t said_count, said_capacity;
    size_t bytes;
};

/* The capture on its way to the disk. */
struct hang_job {
    struct pool_job base;
    struct hang *hang;
    struct rs_buf file;
    enum rs_status status;
    struct rs_err err;
};

static void free_hang(struct hang *hang)
{
    for (size_t i = 0; i < hang->said_count; i++)
        rs_buf_fini(&hang->said[i].dump);
    rs_mem_free(hang->said);
    rs_mem_free(hang->nodes);
    rs_mem_free(hang->expression);
    rs_coord_capture_fini(&hang->capture);
    rs_mem_free(hang);
}

static void forget(struct rs_server *server, struct hang *hang)
{
    struct hang **at = &server->hangs;
    while (*at && *at != hang)
        at = &(*at)->next;
    if (*at)
        *at = hang->next;
    free_hang(hang);
}

/* Who waits for it is told why there is nothing. */
static void refuse(struct rs_server *server, struct hang *hang, enum rs_status status,
                   const char *text)
{
    struct rs_err err = {0};
    (void)rs_err_set(&err, status, "%s", text);
    if (hang->is_own)
        hang_watch_asked(server, hang->run, NULL, text, false, true);
    ask_capture_created(server, hang->capture.id, &err);
    forget(server, hang);
}

/* ---- the question ----------------------------------------------------------------------------------------- */

/* Without a name: the only run that has live ranks. None known: whatever the collectors find. */
static enum rs_status choose_run(struct rs_coord *coord, const char *user, struct hang *hang,
                                 struct rs_err *err)
{
    for (size_t i = 0; i < rs_coord_seen_count(coord); i++) {
        const struct rs_coord_seen *seen = rs_coord_seen(coord, i);
        if (!seen->link || (user && strcmp(seen->user, user) != 0))
            continue;
        if (!*hang->run)
            (void)snprintf(hang->run, sizeof hang->run, "%s", seen->run);
        if (strcmp(seen->run, hang->run) != 0)
            return rs_err_set(err, RS_INVALID,
                              "several jobs run, say which with --run: %.100s, %.100s", hang->run,
                              seen->run);
    }
    if (user && !*hang->run)
        return rs_err_set(err, RS_NOTFOUND, "no run of %s is known", user);
    return RS_OK;
}

static size_t collector_count(const struct rs_server *server)
{
    size_t count = 0;
    for (const struct session *session = server->sessions; session; session = session->next)
        count += session->kind == SESSION_COLLECTOR && session->link && session->has_hello;
    return count;
}

static void ask_nodes(struct rs_server *server, struct hang *hang, rs_dur limit)
{
    Rankscope__FlightAsk ask = RANKSCOPE__FLIGHT_ASK__INIT;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    ask.id = hang->capture.id;
    ask.run = hang->run;
    ask.limit_ns = limit;
    ask.newer_than_ns = hang->newer_than_ns;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_FLIGHT_ASK;
    down.flight_ask = &ask;
    for (struct session *session = server->sessions; session; session = session->next) {
        if (session->kind != SESSION_COLLECTOR || !session->link || !session->has_hello)
            continue;
        struct node *node = &hang->nodes[hang->node_count++];
        node->link = session->link;
        memcpy(node->name, session->node, sizeof node->name);
    }
    for (size_t i = 0; i < hang->node_count; i++) {
        struct session *session = server_find_session(server, hang->nodes[i].link);
        if (session)
            session_post(session, &down.base);
    }
}

static enum rs_status check(const struct rs_server *server, const Rankscope__AskHang *ask,
                            struct rs_err *err)
{
    size_t count = 0;
    struct rs_rank_expr *expr = NULL;
    for (const struct hang *hang = server->hangs; hang; hang = hang->next)
        count++;
    enum rs_status status =
        rs_wire_check_text(ask->run, RS_COORD_TEXT_BYTES - 1, "the run's name", err);
    if (status == RS_OK && *ask->ranks)
        status = rs_rank_expr_parse(ask->ranks, strlen(ask->ranks), &expr, err);
    rs_rank_expr_free(&expr);
    if (status == RS_OK && (ask->limit_ns < 0 || ask->limit_ns > 3600 * (rs_dur)RS_NS_PER_S))
        status = rs_err_set(err, RS_INVALID, "the limit is not between 0 and an hour");
    if (status == RS_OK && count >= HANGS_MAX)
        status = rs_err_set(err, RS_REFUSED, "%d hangs are being looked at already", HANGS_MAX);
    if (status == RS_OK && !collector_count(server))
        status = rs_err_set(err, RS_REFUSED, "no collector is connected: nobody can ask the ranks");
    return status;
}

/* `user`: who asks, if he may ask for his own runs alone; NULL: for all. */
static enum rs_status begin(struct rs_server *server, const Rankscope__AskHang *ask, bool is_own,
                            const char *user, struct hang **hang_p, struct rs_err *err)
{
    enum rs_status status = check(server, ask, err);
    if (status < 0)
        return status;
    struct hang *hang = rs_mem_calloc(1, sizeof *hang);
    if (hang) {
        hang->nodes = rs_mem_calloc(collector_count(server), sizeof *hang->nodes);
        hang->expression = *ask->ranks ? rs_mem_strdup(ask->ranks) : NULL;
    }
    if (!hang || !hang->nodes || (*ask->ranks && !hang->expression)) {
        if (hang)
            free_hang(hang);
        return rs_err_set(err, RS_NOMEM, "no memory to look at a hang");
    }
    (void)snprintf(hang->run, sizeof hang->run, "%s", ask->run);
    hang->newer_than_ns = ask->newer_than_ns;
    hang->is_own = is_own;
    status = *hang->run || is_own ? RS_OK : choose_run(server->coord, user, hang, err);
    (void)snprintf(hang->capture.owner, sizeof hang->capture.owner, "%s",
                   rs_coord_owner(server->coord, hang->run));
    hang->capture.state = RS_CAPTURE_RECORDING;
    hang->capture.start_step = -1;
    rs_coord_set_source(&hang->capture, "flight");
    if (status == RS_OK && is_own && hang->newer_than_ns) /* nothing is kept: it takes no name */
        (void)snprintf(hang->capture.id, sizeof hang->capture.id, "hang-watch-%" PRId64,
                       rs_time_monotonic());
    else if (status == RS_OK)
        status = server->journal.name(server->journal.self, &hang->capture, err);
    if (status < 0) {
        free_hang(hang);
        return status;
    }
    *hang_p = hang;
    return RS_OK;
}

static void send(struct rs_server *server, struct hang *hang, rs_dur limit)
{
    hang->until = rs_time_monotonic() + limit + GRACE_MS * (rs_dur)RS_NS_PER_MS;
    hang->next = server->hangs;
    server->hangs = hang;
    ask_nodes(server, hang, limit);
    server_tick_soon(server);
}

void hang_ask(struct session *session, const Rankscope__AskHang *ask)
{
    struct rs_err err = {0};
    struct hang *hang = NULL;
    char run[RS_COORD_TEXT_BYTES];
    Rankscope__AskHang named = *ask;
    const char *user = rs_identity_is_user(&session->identity) ? session->identity.name : NULL;
    if (!*ask->run) {
        (void)snprintf(run, sizeof run, "%s", rights_run(session, ""));
        named.run = run;
    }
    if (begin(session->server, &named, false, user, &hang, &err) < 0) {
        ask_refuse(session, &err);
        return;
    }
    (void)snprintf(session->follow, sizeof session->follow, "%s", hang->capture.id);
    send(session->server, hang, ask->limit_ns ? ask->limit_ns : LIMIT_MS * (rs_dur)RS_NS_PER_MS);
}

enum rs_status hang_begin(struct rs_server *server, const char *run, rs_ns newer_than_ns,
                          const char *why, struct rs_err *err)
{
    Rankscope__AskHang ask = RANKSCOPE__ASK_HANG__INIT;
    char name[RS_COORD_TEXT_BYTES];
    struct hang *hang = NULL;
    (void)snprintf(name, sizeof name, "%s", run);
    ask.run = name;
    ask.newer_than_ns = newer_than_ns;
    const enum rs_status status = begin(server, &ask, true, NULL, &hang, err);
    if (status < 0)
        return status;
    (void)snprintf(hang->why, sizeof hang->why, "%s", why);
    send(server, hang, LIMIT_MS * (rs_dur)RS_NS_PER_MS);
    return RS_OK;
}

/* ---- the answers -------------------------------------------------------------------------------------------- */

static struct hang *find_hang(const struct rs_server *server, const char *id)
{
    struct hang *hang = server->hangs;
    while (hang && strcmp(hang->capture.id, id) != 0)
        hang = hang->next;
    return hang;
}

static struct node *find_node(const struct hang *hang, const void *link)
{
    for (size_t i = 0; i < hang->node_count; i++)
        if (hang->nodes[i].link == link)
            return &hang->nodes[i];
    return NULL;
}

static enum rs_status check_flight(const Rankscope__Flight *flight, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (flight->rank > RS_WIRE_RANK_MAX)
        status = rs_err_set(err, RS_FORMAT, "a Flight has a number out of range");
    if (status == RS_OK)
        status = rs_wire_check_text(flight->run, RS_COORD_TEXT_BYTES - 1, "run", err);
    if (status == RS_OK)
        status = rs_wire_check_text(flight->host, RS_COORD_TEXT_BYTES - 1, "host", err);
    if (status == RS_OK)
        status = rs_wire_check_text(flight->text, RS_COORD_REASON_BYTES - 1, "text", err);
    if (status == RS_OK)
        status = rs_wire_check_text(flight->way, 31, "way", err);
    return status;
}

static void take_part(struct hang *hang, struct node *node, const Rankscope__Flight *flight)
{
    const size_t index = node->open ? node->open - 1 : hang->said_count;
    if (!node->open) {
        if (rs_mem_grow((void **)&hang->said, &hang->said_capacity, hang->said_count + 1,
                        sizeof *hang->said) < 0)
            return;
        struct said *said = &hang->said[hang->said_count++];
        *said = (struct said){
            .rank = flight->rank, .pid = flight->pid, .written_ns = flight->written_ns};
        (void)snprintf(said->run, sizeof said->run, "%s", flight->run);
        (void)snprintf(said->host, sizeof said->host, "%s",
                       *flight->host ? flight->host : node->name);
        (void)snprintf(said->text, sizeof said->text, "%s", flight->text);
        (void)snprintf(said->way, sizeof said->way, "%s", flight->way);
    }
    struct said *said = &hang->said[index];
    const bool is_too_much = hang->bytes + flight->part.len > HANG_MAX_BYTES ||
                             said->dump.length + flight->part.len > RS_FLIGHT_PACK_MAX;
    if (is_too_much) {
        rs_buf_fini(&said->dump);
        (void)snprintf(said->text, sizeof said->text, "its recorder is larger than can be taken");
    } else if (flight->part.len) {
        rs_buf_bytes(&said->dump, flight->part.data, flight->part.len);
        hang->bytes += flight->part.len;
    }
    node->open = flight->has_more && !is_too_much ? index + 1 : 0;
}

void hang_flight(struct session *session, const Rankscope__Flight *flight)
{
    struct rs_err err = {0};
    struct hang *hang = find_hang(session->server, flight->id);
    struct node *node = hang ? find_node(hang, session->link) : NULL;
    if (!node || hang->is_writing)
        return; /* too late, or not asked */
    if (check_flight(flight, &err) < 0) {
        session_fail(session, RS_FORMAT, err.text);
        return;
    }
    if (!flight->is_last) {
        take_part(hang, node, flight);
        return;
    }
    node->has_answered = !*flight->text;
    if (*flight->text)
        rs_log_warn("node %s could not ask its ranks: %s", node->name, flight->text);
    node->link = NULL;
    server_tick_soon(session->server);
}

void hang_link_gone(struct rs_server *server, const void *link)
{
    for (struct hang *hang = server->hangs; hang; hang = hang->next) {
        struct node *node = find_node(hang, link);
        if (node)
            node->link = NULL;
    }
    server_tick_soon(server);
}

/* ---- the capture -------------------------------------------------------------------------------------------- */

static int by_rank(const void *a_, const void *b_)
{
    const struct said *a = a_, *b = b_;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->dump.length < b->dump.length) - (a->dump.length > b->dump.length);
}

/* Those that the expression does not choose go. Roles are those that the coordinator knows. */
static enum rs_status keep_chosen(struct rs_server *server, struct hang *hang, struct rs_err *err)
{
    struct rs_rank_expr *expr = NULL;
    struct rs_rank_set set = {0};
    size_t count = 0, kept = 0;
    if (!hang->expression)
        return RS_OK;
    struct rs_rank_row *rows = rs_mem_calloc(hang->said_count + 1, sizeof *rows);
    if (!rows)
        return rs_err_set(err, RS_NOMEM, "no memory to choose ranks");
    for (size_t i = 0; i < hang->said_count; i++) {
        if (count && rows[count - 1].rank == hang->said[i].rank)
            continue;
        struct rs_rank_row *row = &rows[count++];
        *row = (struct rs_rank_row){.rank = hang->said[i].rank, .node = hang->said[i].host};
        for (size_t k = 0; k < RS_ROLE_COUNT; k++)
            row->role[k] = -1;
        for (size_t k = 0; k < rs_coord_seen_count(server->coord); k++) {
            const struct rs_coord_seen *seen = rs_coord_seen(server->coord, k);
            if (seen->rank != row->rank || strcmp(seen->run, hang->said[i].run) != 0)
                continue;
            memcpy(row->role, seen->role, sizeof row->role);
            rs_coord_add_roles(server->coord, seen, row->role);
        }
    }
    enum rs_status status =
        rs_rank_expr_parse(hang->expression, strlen(hang->expression), &expr, err);
    if (status == RS_OK)
        status = rs_rank_expr_eval(expr, rows, count, 0, &set, err);
    for (size_t i = 0; i < hang->said_count && status >= 0; i++) {
        if (rs_rank_set_has(&set, hang->said[i].rank))
            hang->said[kept++] = hang->said[i];
        else
            rs_buf_fini(&hang->said[i].dump);
    }
    if (status >= 0) {
        hang->said_count = kept;
        status = kept ? RS_OK
                      : rs_err_set(err, RS_REFUSED, "--ranks chooses none of the ranks that run");
    }
    rs_rank_set_fini(&set);
    rs_rank_expr_free(&expr);
    rs_mem_free(rows);
    return status;
}

/* One run, and somebody of it. */
static enum rs_status judge_answers(struct rs_server *server, struct hang *hang, struct rs_err *err)
{
    if (!hang->said_count)
        return rs_err_set(err, RS_NOTFOUND,
                          "no rank of %.100s runs on the %zu nodes that were asked",
                          *hang->run ? hang->run : "a PyTorch job", hang->node_count);
    for (size_t i = 1; i < hang->said_count; i++)
        if (strcmp(hang->said[i].run, hang->said[0].run) != 0)
            return rs_err_set(err, RS_INVALID,
                              "several jobs run, say which with --run: %.100s, %.100s",
                              hang->said[0].run, hang->said[i].run);
    qsort(hang->said, hang->said_count, sizeof *hang->said, by_rank);
    return keep_chosen(server, hang, err);
}

static struct rs_coord_rank *add_rank(struct rs_coord_capture *capture, uint32_t rank,
                                      enum rs_progress_state state, const char *host)
{
    if (rs_mem_grow((void **)&capture->ranks, &capture->rank_capacity, capture->rank_count + 1,
                    sizeof *capture->ranks) < 0)
        return NULL;
    struct rs_coord_rank *row = &capture->ranks[capture->rank_count++];
    *row = (struct rs_coord_rank){.rank = rank, .state = state, .step = -1, .is_changed = true};
    (void)snprintf(row->host, sizeof row->host, "%s", host);
    return row;
}

static bool has_rank(const struct hang *hang, uint32_t rank)
{
    for (size_t i = 0; i < hang->said_count; i++)
        if (hang->said[i].rank == rank)
            return true;
    return false;
}

/* Ranks that were known on nodes that said nothing. */
static enum rs_status add_lost(struct rs_server *server, struct hang *hang, size_t *lost_p)
{
    for (size_t n = 0; n < hang->node_count; n++) {
        const struct node *node = &hang->nodes[n];
        for (size_t i = 0; i < rs_coord_seen_count(server->coord) && !node->has_answered; i++) {
            const struct rs_coord_seen *seen = rs_coord_seen(server->coord, i);
            if (strcmp(seen->node, node->name) != 0 || strcmp(seen->run, hang->capture.run) != 0 ||
                has_rank(hang, seen->rank) || hang->expression)
                continue;
            struct rs_coord_rank *row =
                add_rank(&hang->capture, seen->rank, RS_PROGRESS_LOST, seen->host);
            if (!row)
                return RS_NOMEM;
            (void)snprintf(row->text, sizeof row->text, "its node gave no answer in time");
            ++*lost_p;
        }
    }
    return RS_OK;
}

static enum rs_status note_silent_nodes(const struct hang *hang, struct rs_buf *file,
                                        size_t *silent_p)
{
    char text[RS_COORD_TEXT_BYTES + 80];
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < hang->node_count && status == RS_OK; i++) {
        if (hang->nodes[i].has_answered)
            continue;
        (void)snprintf(text, sizeof text, "node %s gave no answer in time", hang->nodes[i].name);
        status = rs_flight_file_note(file, text);
        ++*silent_p;
    }
    return status;
}

/* The capture's rows and its file. */
static enum rs_status put_together(struct rs_server *server, struct hang *hang, struct rs_buf *file)
{
    struct rs_coord_capture *capture = &hang->capture;
    size_t refused = 0, lost = 0, silent = 0;
    enum rs_status status = rs_flight_file_begin(file);
    for (size_t i = 0; i < hang->said_count && status == RS_OK; i++) {
        struct said *said = &hang->said[i];
        const bool is_there = said->dump.length && !said->dump.failed;
        struct rs_coord_rank *row = add_rank(
            capture, said->rank, is_there ? RS_PROGRESS_DONE : RS_PROGRESS_REFUSED, said->host);
        if (!row)
            return RS_NOMEM;
        (void)snprintf(row->incarnation, sizeof row->incarnation, "%.200s:%" PRIu32, said->host,
                       said->pid);
        (void)snprintf(row->text, sizeof row->text, "%s", is_there ? said->way : said->text);
        if (is_there) {
            row->chunks = 1;
            row->bytes = said->dump.length;
            status = rs_flight_file_dump(file, said->dump.data, said->dump.length);
        } else {
            char text[RS_COORD_REASON_BYTES + RS_COORD_TEXT_BYTES + 80];
            refused++;
            (void)snprintf(text, sizeof text,
                           "rank %" PRIu32 " on %s (process %" PRIu32 ") cannot be asked: %s",
                           said->rank, said->host, said->pid, said->text);
            status = rs_flight_file_note(file, text);
        }
    }
    if (status == RS_OK)
        status = add_lost(server, hang, &lost);
    if (status == RS_OK)
        status = note_silent_nodes(hang, file, &silent);
    capture->world = (uint32_t)capture->rank_count;
    capture->closed_ns = rs_time_realtime();
    capture->state = refused == hang->said_count ? RS_CAPTURE_FAILED
                     : refused || lost || silent ? RS_CAPTURE_PARTIAL
                                                 : RS_CAPTURE_COMPLETE;
    int used =
        *hang->why ? snprintf(capture->reason, sizeof capture->reason, "%.200s", hang->why) : 0;
    if (capture->state != RS_CAPTURE_COMPLETE && used >= 0)
        (void)snprintf(capture->reason + used, sizeof capture->reason - (size_t)used,
                       "%s%zu of %zu ranks cannot be asked, %zu of %zu nodes gave no answer",
                       used ? "; " : "", refused, hang->said_count, silent, hang->node_count);
    return status == RS_OK ? rs_flight_file_end(file) : status;
}

/* On rs-store. */
static void write_down(struct rs_pool_job *pool_job)
{
    struct hang_job *job = (struct hang_job *)pool_job; /* its first member's first */
    struct rs_server_journal *journal = &job->base.server->journal;
    struct rs_coord_capture *capture = &job->hang->capture;
    const enum rs_capture_state state = capture->state;
    capture->state = RS_CAPTURE_RECORDING; /* until it is whole */
    job->status = journal->create(journal->self, capture, &job->err);
    char *path =
        job->status == RS_OK ? rs_file_join(capture->directory, RS_FLIGHT_FILE_NAME) : NULL;
    if (job->status == RS_OK && !path)
        job->status = rs_err_set(&job->err, RS_NOMEM, "no memory to write dumps");
    if (job->status == RS_OK)
        job->status = rs_file_replace(path, job->file.data, job->file.length, true, &job->err);
    capture->state = state;
    if (job->status == RS_OK)
        job->status = journal->save(journal->self, capture, &job->err);
    rs_mem_free(path);
}

/* It is written: closed through ingest, which tells who follows it. */
static void written(struct pool_job *base)
{
    struct hang_job *job = (struct hang_job *)base;
    struct rs_server *server = base->server;
    struct hang *hang = job->hang;
    struct chunk_job *closing = job->status == RS_OK ? server_job_new(NULL, RS_INGEST_CLOSE) : NULL;
    struct rs_capture_facts *facts = closing ? rs_mem_calloc(1, sizeof *facts) : NULL;
    if (job->status == RS_OK && !facts)
        job->status = rs_err_set(&job->err, RS_NOMEM, "no memory to close a capture");
    if (job->status == RS_OK) {
        rs_log_info("capture %s holds the flight recorders of %zu ranks of run %.60s",
                    hang->capture.id, hang->said_count, hang->capture.run);
        server->journal.facts(server->journal.self, &hang->capture, facts);
        closing->facts = facts;
        closing->base.facts = facts;
        server_job_put(server, closing);
        hang_watch_asked(server, hang->capture.run, hang->capture.id, "",
                         hang->capture.state != RS_CAPTURE_FAILED, hang->is_own);
        forget(server, hang);
    } else {
        rs_log_error("capture %s cannot be written: %s", hang->capture.id, job->err.text);
        rs_mem_free(closing);
        refuse(server, hang, job->status, job->err.text);
    }
    rs_buf_fini(&job->file);
    rs_mem_free(job);
}

/* Who wrote a dump: told, and forgotten. */
static void finish_probe(struct rs_server *server, struct hang *hang)
{
    for (size_t i = 0; i < hang->said_count; i++) {
        const struct said *said = &hang->said[i];
        if (strcmp(said->way, "file") != 0)
            continue;
        (void)add_rank(&hang->capture, said->rank, RS_PROGRESS_DONE, said->host);
        if (hang->is_own) /* older collectors do not tell the time */
            hang_watch_dump(server, said->run,
                            said->written_ns > 0 ? said->written_ns : hang->newer_than_ns + 1);
    }
    if (hang->is_own)
        hang_watch_looked(server);
    ask_capture_told(server, hang->capture.id, &hang->capture);
    forget(server, hang);
}

static void finish(struct rs_server *server, struct hang *hang)
{
    struct rs_err err = {0};
    if (hang->newer_than_ns) {
        finish_probe(server, hang);
        return;
    }
    enum rs_status status = judge_answers(server, hang, &err);
    struct hang_job *job = status == RS_OK ? rs_mem_calloc(1, sizeof *job) : NULL;
    if (status == RS_OK) {
        (void)snprintf(hang->capture.run, sizeof hang->capture.run, "%s", hang->said[0].run);
        if (!job || put_together(server, hang, &job->file) < 0)
            status = rs_err_set(&err, RS_NOMEM, "no memory for the dumps of all ranks");
    }
    if (status < 0 || !job) {
        if (job)
            rs_buf_fini(&job->file);
        rs_mem_free(job);
        refuse(server, hang, status, err.text);
        return;
    }
    hang->is_writing = true;
    job->hang = hang;
    job->base.server = server;
    job->base.finish = written;
    job->base.base.run = write_down;
    rs_pool_put_wait(server->store_pool, &job->base.base);
}

rs_ns hang_tick(struct rs_server *server, rs_ns now)
{
    rs_ns next = RS_NS_MAX;
    for (struct hang *hang = server->hangs; hang;) {
        struct hang *following = hang->next;
        bool is_through = true;
        for (size_t i = 0; i < hang->node_count; i++)
            is_through = is_through && !hang->nodes[i].link;
        if (!hang->is_writing && (is_through || now >= hang->until))
            finish(server, hang);
        else if (!hang->is_writing && hang->until < next)
            next = hang->until;
        hang = following;
    }
    return next;
}

void hang_fini(struct rs_server *server)
{
    while (server->hangs)
        forget(server, server->hangs);
}
