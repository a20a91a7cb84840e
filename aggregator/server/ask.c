/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line's session: one Ask, then one Reply, or a Reply for every change of a capture
 * until it is closed. Changes coalesce: whoever reads slowly sees the newest state.
 */
#include "aggregator/server/live_join.h"
#include "aggregator/server/server_priv.h"
#include "aggregator/server/step_probe.h"
#include "common/base/lend.h"
#include "common/base/mem.h"
#include "common/wire/answer_message.h"
#include "common/wire/request_message.h"

#define RS_LOG_TAG "server"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

void ask_refuse(struct session *session, const struct rs_err *err)
{
    ask_redirect(session, err, "");
}

void ask_redirect(struct session *session, const struct rs_err *err, const char *address)
{
    char *text = rs_mem_strdup(err->text);
    rs_count(RS_COUNT_SERVER_REFUSALS, 1);
    Rankscope__Refusal refusal = RANKSCOPE__REFUSAL__INIT;
    refusal.status = err->status;
    refusal.aggregator = rs_lend(address);
    if (text)
        refusal.text = text;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    reply.last = true;
    reply.message_case = RANKSCOPE__REPLY__MESSAGE_REFUSAL;
    reply.refusal = &refusal;
    session->is_ended = true;
    session_post(session, &reply.base);
    rs_mem_free(text);
}

const char *ask_user_of(const struct session *session)
{
    return rs_identity_is_user(&session->identity) ? session->identity.name : NULL;
}

static void fill_rank(const struct rs_coord_rank *rank, Rankscope__CaptureRank *message)
{
    rankscope__capture_rank__init(message);
    message->rank = rank->rank;
    message->incarnation = rs_lend(rank->incarnation);
    message->host = rs_lend(rank->host);
    message->state = rank->state;
    message->steps_done = rank->steps_done;
    message->text = rs_lend(rank->text);
    message->chunks = rank->chunks;
    message->bytes = rank->bytes;
}

/* What a CaptureInfo lends from. Zeroed is empty. */
struct info_message {
    Rankscope__CaptureInfo info;
    Rankscope__CaptureRank *ranks;
    Rankscope__CaptureRank **pointers;
    Rankscope__CaptureRequest *request;
    Rankscope__CaptureFindings findings;
    char source[RS_COORD_SOURCE_BYTES];
    char rows[512];
};

static void info_fini(struct info_message *message)
{
    rs_mem_free(message->ranks);
    rs_mem_free(message->pointers);
    rs_request_message_free(&message->request);
}

static void fill_findings(const struct rs_server *server, struct info_message *message)
{
    const struct live_join_facts *facts = live_join_facts(server, message->info.id);
    Rankscope__CaptureFindings *findings = &message->findings;
    if (!facts ||
        message->info.closed_ns) /* closed: its report says them; the join goes a moment later */
        return;
    rankscope__capture_findings__init(findings);
    findings->is_provisional = facts->is_provisional;
    findings->ranks = (uint32_t)facts->rank_count;
    findings->recording = (uint32_t)facts->recording_count;
    findings->last_step = facts->last_step;
    findings->findings = (uint32_t)facts->finding_count;
    findings->headline = rs_lend(facts->headline);
    findings->joined_ns = facts->joined_ns;
    message->info.findings = findings;
}

/* Lends the capture. False: no memory; info_fini() either way. */
static bool fill_info(const struct rs_server *server, const struct rs_coord_capture *capture,
                      struct info_message *message)
{
    Rankscope__CaptureInfo *info = &message->info;
    *message = (struct info_message){
        .ranks = rs_mem_calloc(capture->rank_count + 1, sizeof *message->ranks),
        .pointers = rs_mem_calloc(capture->rank_count + 1, sizeof(Rankscope__CaptureRank *))};
    if (!message->ranks || !message->pointers ||
        (capture->request && rs_request_to_message(capture->request, &message->request, NULL) < 0))
        return false;
    rankscope__capture_info__init(info);
    for (size_t i = 0; i < capture->rank_count; i++) {
        fill_rank(&capture->ranks[i], &message->ranks[i]);
        message->pointers[i] = &message->ranks[i];
    }
    rs_coord_source(capture, message->source);
    info->id = rs_lend(capture->id);
    info->run = rs_lend(capture->run);
    info->owner = rs_lend(capture->owner);
    info->state = capture->state;
    info->directory = rs_lend(capture->directory);
    info->created_ns = capture->created_ns;
    info->closed_ns = capture->closed_ns;
    info->start_step = capture->start_step;
    info->steps = capture->steps;
    info->world = capture->world;
    info->source = message->source;
    info->duration_ns = capture->duration_ns;
    info->start_time_ns = capture->start_time_ns;
    info->start_bound_ns = capture->start_bound_ns;
    info->roundup =
        rs_coord_can(capture, RS_CAP_STEP_ROUNDUP) && capture->steps ? capture->profile.roundup : 0;
    info->step_ns = capture->step_ns;
    info->begin_by_ns = capture->begin_by_ns;
    info->reason = rs_lend(capture->reason);
    info->raw = rs_lend(capture->raw);
    info->archive = rs_lend(capture->archive);
    info->claim = capture->claim;
    info->taken_from = rs_lend(capture->taken_from);
    info->given_up_to = rs_lend(capture->given_up_to);
    rows_say(server, capture->directory, message->rows, sizeof message->rows);
    info->rows = message->rows;
    info->n_ranks = capture->rank_count;
    info->rank_count = (uint32_t)capture->rank_count;
    info->ranks = message->pointers;
    info->request = message->request;
    return true;
}

static void reply_capture(struct session *session, const struct rs_coord_capture *capture,
                          bool is_last)
{
    struct info_message message;
    if (!fill_info(session->server, capture, &message)) {
        info_fini(&message);
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    fill_findings(session->server, &message);
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    reply.last = is_last;
    reply.message_case = RANKSCOPE__REPLY__MESSAGE_CAPTURE;
    reply.capture = &message.info;
    session->is_ended = is_last;
    session_post(session, &reply.base);
    info_fini(&message);
}

/* An open capture as the coordinator has it, else as the journal has it (then *copy_p is to be freed). */
static const struct rs_coord_capture *find_capture(struct rs_server *server, const char *id,
                                                   struct rs_coord_capture **copy_p,
                                                   struct rs_err *err)
{
    const struct rs_coord_capture *open = rs_coord_find(server->coord, id);
    *copy_p = NULL;
    if (open)
        return open;
    struct rs_coord_capture *copy = rs_mem_calloc(1, sizeof *copy);
    if (!copy) {
        (void)rs_err_set(err, RS_NOMEM, "out of memory");
        return NULL;
    }
    if (server->journal.find(server->journal.self, id, RS_JOURNAL_ALL, copy, err) < 0) {
        rs_mem_free(copy);
        return NULL;
    }
    *copy_p = copy;
    return copy;
}

static void free_copy(struct rs_coord_capture *copy)
{
    if (copy)
        rs_coord_capture_fini(copy);
    rs_mem_free(copy);
}

void ask_pump(struct session *session)
{
    if (!session->is_follow_due || session->outbox || !session->link || session->is_ended)
        return;
    if (writing_is_creating(session->server, session->follow))
        return; /* told when it is there */
    struct rs_err err = {0};
    struct rs_coord_capture *copy = NULL;
    session->is_follow_due = false;
    const struct rs_coord_capture *capture =
        find_capture(session->server, session->follow, &copy, &err);
    if (capture)
        reply_capture(session, capture, session->is_follow_last);
    else
        ask_refuse(session, &err);
    free_copy(copy);
}

void ask_capture_created(struct rs_server *server, const char *id, const struct rs_err *err)
{
    for (struct session *session = server->sessions; session; session = session->next) {
        if (session->kind != SESSION_ASK || strcmp(session->follow, id) != 0)
            continue;
        if (err->status < 0 && session->link && !session->is_ended) {
            session->follow[0] = '\0';
            session->is_follow_due = false;
            ask_refuse(session, err);
        } else {
            ask_pump(session);
        }
    }
}

void ask_capture_changed(struct rs_server *server, const char *id, bool is_closed)
{
    for (struct session *session = server->sessions; session; session = session->next) {
        if (session->kind != SESSION_ASK || strcmp(session->follow, id) != 0)
            continue;
        session->is_follow_due = true;
        session->is_follow_last = session->is_follow_last || is_closed;
        ask_pump(session);
    }
}

void ask_capture_told(struct rs_server *server, const char *id,
                      const struct rs_coord_capture *capture)
{
    struct rs_coord_capture *nameless = rs_mem_calloc(1, sizeof *nameless);
    if (nameless) {
        *nameless = *capture;
        nameless->id[0] = '\0';
    }
    for (struct session *session = server->sessions; session; session = session->next)
        if (session->kind == SESSION_ASK && strcmp(session->follow, id) == 0 && session->link &&
            !session->is_ended && nameless)
            reply_capture(session, nameless, true);
    rs_mem_free(nameless);
}

/* ---- the asks ------------------------------------------------------------------------------------------- */

/* Left out when nothing is known. */
static void report_roles(struct rs_coord *coord, const struct rs_coord_seen *seen, int32_t *role,
                         Rankscope__RankState *state)
{
    bool is_known = false;
    memcpy(role, seen->role, sizeof seen->role);
    rs_coord_add_roles(coord, seen, role);
    for (size_t i = 0; i < RS_ROLE_COUNT; i++)
        is_known = is_known || role[i] >= 0;
    state->role = role;
    state->n_role = is_known ? RS_ROLE_COUNT : 0;
}

static void fill_rank_state(struct rs_coord *coord, const struct rs_coord_seen *seen, int32_t *role,
                            Rankscope__RankState *state)
{
    rankscope__rank_state__init(state);
    state->run = rs_lend(seen->run);
    state->rank = seen->rank;
    state->incarnation = rs_lend(seen->incarnation);
    state->world = seen->world;
    state->host = rs_lend(seen->host);
    state->pid = seen->pid;
    state->step = seen->step;
    state->step_duration_ns = seen->step_duration_ns;
    state->own_ns = seen->own_ns;
    state->delay_ns = seen->delay_ns;
    state->self_time_ns = seen->self_time_ns;
    state->state = seen->link ? seen->state : RS_RANK_GONE;
    state->events_dropped = seen->events_dropped;
    state->capture = rs_lend(seen->capture);
    state->seen_ns = rs_time_realtime() - (rs_time_monotonic() - seen->last_seen_ns);
    state->node = rs_lend(seen->node);
    state->user = rs_lend(seen->user);
    state->can_capture = seen->can_capture;
    state->kind = seen->adapter.number;
    state->adapter = rs_lend(seen->adapter.name);
    state->capabilities = seen->adapter.capabilities;
    state->free_disk_bytes = seen->free_disk_bytes;
    state->activities = seen->activities;
    report_roles(coord, seen, role, state);
}

/* Where a table of ranks goes on. Ranks are told of, and forgotten, between two pages: it goes on behind the rank that was last,
 * or, if that one is gone, where it stood. */
struct rank_cursor {
    char wanted[RS_COORD_TEXT_BYTES]; /* run; "" all */
    const char *user;                 /* of that one alone; NULL: of all. Lent by the session */
    size_t next;
    struct rs_coord_key last; /* of the rank before `next`; .run "" none */
};

void ask_cursor_free(struct session *session)
{
    rs_mem_free(session->rank_cursor);
    session->rank_cursor = NULL;
}

static void send_ranks(struct session *session, Rankscope__RankState **states, size_t count,
                       bool is_last)
{
    Rankscope__RankTable table = RANKSCOPE__RANK_TABLE__INIT;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    table.n_ranks = count;
    table.ranks = states;
    reply.last = is_last;
    reply.message_case = RANKSCOPE__REPLY__MESSAGE_RANKS;
    reply.ranks = &table;
    session->is_ended = is_last;
    session_post(session, &reply.base);
}

/* What a rank takes in a message at most. Counting exactly takes as long as packing it. */
static size_t most_bytes(const Rankscope__RankState *state)
{
    enum { NUMBERS_BYTES = 12 * 32 + 12 * RS_ROLE_COUNT };
    return NUMBERS_BYTES + strlen(state->run) + strlen(state->incarnation) + strlen(state->host) +
           strlen(state->node) + strlen(state->capture) + strlen(state->user) +
           strlen(state->adapter);
}

/* The next page, when the one before was taken. */
void ask_ranks_pump(struct session *session)
{
    struct rank_cursor *cursor = session->rank_cursor;
    if (!cursor || session->outbox || !session->link || session->is_ended || session->is_failed)
        return;
    struct rs_coord *coord = session->server->coord;
    const size_t bytes_max = session->server->options.reply_bytes;
    Rankscope__RankState *states = rs_mem_calloc(BOUND_REPLY_RANKS, sizeof *states);
    Rankscope__RankState **pointers =
        rs_mem_calloc(BOUND_REPLY_RANKS, sizeof(Rankscope__RankState *));
    int32_t *roles = rs_mem_calloc(BOUND_REPLY_RANKS, RS_ROLE_COUNT * sizeof *roles);
    size_t count = 0, bytes = 0;
    size_t at = rs_coord_seen_behind(coord, &cursor->last, cursor->next);
    const struct rs_coord_seen *seen = NULL;
    for (; states && pointers && roles && count < BOUND_REPLY_RANKS && bytes < bytes_max &&
           (seen = rs_coord_seen(coord, at));
         at++) {
        if ((*cursor->wanted && strcmp(cursor->wanted, seen->run) != 0) ||
            (cursor->user && strcmp(cursor->user, seen->user) != 0))
            continue;
        fill_rank_state(coord, seen, &roles[count * RS_ROLE_COUNT], &states[count]);
        pointers[count] = &states[count];
        bytes += most_bytes(&states[count]);
        count++;
    }
    if (states && pointers && roles) {
        cursor->next = at;
        const bool is_last = !rs_coord_seen(coord, at);
        if (at)
            rs_coord_key_of(rs_coord_seen(coord, at - 1), &cursor->last);
        send_ranks(session, pointers, count, is_last);
    } else {
        struct rs_err err = {0};
        (void)rs_err_set(&err, RS_NOMEM, "out of memory");
        ask_refuse(session, &err);
    }
    rs_mem_free(roles);
    rs_mem_free(pointers);
    rs_mem_free(states);
}

static void ask_ranks(struct session *session, const Rankscope__AskRanks *ask)
{
    struct rs_err err = {0};
    struct rank_cursor *cursor = rs_mem_calloc(1, sizeof *cursor);
    if (!cursor) {
        (void)rs_err_set(&err, RS_NOMEM, "out of memory");
        ask_refuse(session, &err);
        return;
    }
    (void)snprintf(cursor->wanted, sizeof cursor->wanted, "%s", rights_run(session, ask->run));
    cursor->user = ask_user_of(session);
    session->rank_cursor = cursor;
    rs_coord_infer_all_roles(session->server->coord);
    ask_ranks_pump(session);
}

/* What the command line of the previous minor version asks for. */
static enum rs_status request_of_old(const Rankscope__AskStart *ask,
                                     struct rs_capture_request *request, struct rs_err *err)
{
    const Rankscope__ProfilerOptions none = RANKSCOPE__PROFILER_OPTIONS__INIT;
    const Rankscope__ProfilerOptions *options = ask->options ? ask->options : &none;
    enum rs_status status = rs_wire_check_text(ask->run, RS_WIRE_TEXT_MAX_BYTES, "run", err);
    if (status == RS_OK)
        status = rs_wire_check_text(ask->ranks, RS_RANK_EXPR_MAX_BYTES, "ranks", err);
    if (status == RS_OK && !ask->steps && ask->duration_ns < RS_NS_PER_MS)
        status = rs_err_set(err, RS_INVALID, "neither a number of steps nor a duration is given");
    const rs_dur day = 86400 * (rs_dur)RS_NS_PER_S;
    if (status == RS_OK &&
        (ask->duration_ns > day || options->timeout_ns > day || options->timeout_ns < 0))
        status = rs_err_set(err, RS_INVALID, "a duration or timeout is not between 0 and a day");
    if (status == RS_OK && rs_request_init(request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory for a request");
    if (status < 0)
        return status;
    (void)snprintf(request->job_id, sizeof request->job_id, "%s", ask->run);
    if (*ask->ranks)
        (void)snprintf(request->ranks, sizeof request->ranks, "%s", ask->ranks);
    if (ask->steps)
        request->schedule.active = ask->steps;
    else
        request->duration_ms = (uint32_t)(ask->duration_ns / RS_NS_PER_MS);
    if (ask->has_start_step)
        request->start_step = ask->start_step;
    request->record_shapes = options->record_shapes;
    request->with_stack = options->with_stack;
    request->profile_memory = options->profile_memory;
    request->force = options->force;
    request->roundup = options->roundup;
    request->timeout_ms = (uint32_t)(options->timeout_ns / RS_NS_PER_MS);
    if (request->duration_ms / 1000 >= request->max_duration_s)
        request->max_duration_s = request->duration_ms / 1000 + 1;
    return RS_OK;
}

static void reply_answer(struct session *session, const struct rs_request_answer *answer,
                         const struct rs_coord_capture *capture, const struct rs_err *err)
{
    Rankscope__CaptureAnswer *message = NULL;
    if (rs_answer_to_message(answer, &message, NULL) < 0) {
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    message->status = err->status;
    message->text = rs_lend(err->text);
    message->capture = rs_lend(capture ? capture->id : "");
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    reply.last = capture == NULL;
    reply.message_case = RANKSCOPE__REPLY__MESSAGE_ANSWER;
    reply.answer = message;
    session->is_ended = reply.last;
    if (capture)
        writing_post(session->server, capture->id, session, &reply.base);
    else
        session_post(session, &reply.base);
    rs_answer_message_free(&message);
}

/* Whether one more capture of the run may be kept: on its owner's account, or, where it is nobody's, on that of who asks. */
static enum rs_status check_room(struct session *session, const char *run, struct rs_err *err)
{
    struct rs_server *server = session->server;
    char account[RS_IDENTITY_TEXT_BYTES];
    const char *owner = *run ? rs_coord_owner(server->coord, run) : "";
    if (*owner)
        (void)snprintf(account, sizeof account, "user/%s", owner);
    else
        rs_identity_text(&session->identity, account);
    return store_share_check(&server->shares, store_share_of(&server->shares, account), err);
}

static void start_capture(struct session *session, const Rankscope__AskStart *ask,
                          const struct rs_capture_request *request)
{
    struct rs_err err = {0};
    struct rs_request_answer answer = {0};
    struct rs_coord_capture *capture = NULL;
    if (!ask->dry_run &&
        quota_take(session->quota, QUOTA_CAPTURES, rs_time_monotonic(), &err) < 0) {
        rights_refused(session, "capture.start", request->job_id, err.text);
        err.status = RS_REFUSED;
        ask_refuse(session, &err);
        return;
    }
    if (!ask->dry_run && check_room(session, request->job_id, &err) < 0) {
        rights_refused(session, "capture.start", request->job_id, err.text);
        ask_refuse(session, &err);
        return;
    }
    char account[RS_IDENTITY_TEXT_BYTES];
    rs_identity_text(&session->identity, account);
    /* Lists leave probes out: a user's own watch may make them, and they stay in sight until it has removed them. */
    const bool may_hide = rs_identity_may_operate(&session->identity);
    const bool is_hidden = strcmp(ask->origin_file, rs_probe_watch_origin) == 0;
    const struct rs_coord_ask coord_ask = {
        .request = request,
        .account = account,
        .roles = ask->roles,
        .origin_file = is_hidden && !may_hide ? "" : ask->origin_file,
        .raw = ask->raw,
        .shapes_by_default = ask->shapes_by_default,
        .is_dry = ask->dry_run,
        .user = ask_user_of(session),
        .is_of_one_run = rs_identity_is_of_one_run(&session->identity)};
    const enum rs_status status = rs_coord_start(session->server->coord, &coord_ask,
                                                 rs_time_monotonic(), &answer, &capture, &err);
    const bool is_decided = answer.count || answer.notes.count || answer.chosen.unknown_count;
    if (status >= 0)
        err = (struct rs_err){.status = status};
    if (ask->request && (status >= 0 || is_decided))
        reply_answer(session, &answer, capture, &err);
    else if (status < 0)
        ask_refuse(session, &err);
    rs_request_answer_fini(&answer);
    if (!capture)
        return;
    (void)snprintf(session->follow, sizeof session->follow, "%s", capture->id);
    session->is_follow_due = true;
    ask_pump(session);
    server_tick_soon(session->server);
}

static void ask_start(struct session *session, const Rankscope__AskStart *ask)
{
    struct rs_err err = {0};
    struct rs_capture_request request = {.job_id = ""};
    enum rs_status status = rs_wire_check_text(ask->origin_file, RS_WIRE_KEY_MAX_BYTES - 1,
                                               "the name of the request's file", &err);
    if (status == RS_OK)
        status = ask->request ? rs_request_from_message(ask->request, &request, &err)
                              : request_of_old(ask, &request, &err);
    if (status < 0) {
        ask_refuse(session, &err);
        return;
    }
    if (!*request.job_id)
        (void)snprintf(request.job_id, sizeof request.job_id, "%s", rights_run(session, ""));
    start_capture(session, ask, &request);
    rs_request_fini(&request);
}

/* ---- one capture ----------------------------------------------------------------------------------------------------- */

Rankscope__CaptureInfo *ask_copy_info(const struct rs_server *server,
                                      const struct rs_coord_capture *capture, bool with_ranks,
                                      size_t *bytes_p)
{
    struct info_message message;
    Rankscope__CaptureInfo *copy = NULL;
    *bytes_p = 0;
    if (fill_info(server, capture, &message)) {
        fill_findings(server, &message);
        if (!with_ranks)
            message.info.n_ranks = 0;
        const size_t bytes = rankscope__capture_info__get_packed_size(&message.info);
        uint8_t *packed = rs_mem_calloc(bytes ? bytes : 1, 1);
        if (packed) {
            (void)rankscope__capture_info__pack(&message.info, packed);
            copy = rankscope__capture_info__unpack(NULL, bytes, packed);
            *bytes_p = bytes;
        }
        rs_mem_free(packed);
    }
    info_fini(&message);
    return copy;
}

bool ask_pack_info(const struct rs_server *server, const struct rs_coord_capture *capture,
                   bool with_ranks, struct rs_buf *buf)
{
    struct info_message message;
    const bool is_filled = fill_info(server, capture, &message);
    if (is_filled) {
        if (!with_ranks)
            message.info.n_ranks = 0;
        rs_wire_pack(&message.info.base, buf);
    }
    info_fini(&message);
    return is_filled && !buf->failed;
}

static void ask_capture(struct session *session, const Rankscope__AskCapture *ask)
{
    struct rs_err err = {0};
    struct rs_coord_capture *copy = NULL;
    const struct rs_coord_capture *capture = find_capture(session->server, ask->id, &copy, &err);
    if (!capture)
        ask_refuse(session, &err);
    else
        reply_capture(session, capture, !ask->follow || copy != NULL);
    if (capture && !copy && ask->follow)
        (void)snprintf(session->follow, sizeof session->follow, "%s", capture->id);
    free_copy(copy);
}

void ask_show(struct session *session, const char *id)
{
    struct rs_err err = {0};
    struct rs_coord_capture *copy = NULL;
    const struct rs_coord_capture *capture = find_capture(session->server, id, &copy, &err);
    if (capture)
        reply_capture(session, capture, true);
    else
        ask_refuse(session, &err);
    free_copy(copy);
}

enum rs_status ask_is_closed(struct session *session, const char *id, bool *is_closed_p,
                             struct rs_err *err)
{
    struct rs_coord_capture *copy = NULL;
    const struct rs_coord_capture *capture = find_capture(session->server, id, &copy, err);
    *is_closed_p = capture && copy;
    const enum rs_status status = capture ? RS_OK : RS_NOTFOUND;
    free_copy(copy);
    return status;
}

static void ask_stop(struct session *session, const Rankscope__AskStop *ask)
{
    struct rs_err err = {0};
    if (rs_coord_stop(session->server->coord, ask->id, rs_time_monotonic(), &err) < 0) {
        ask_refuse(session, &err);
        return;
    }
    (void)snprintf(session->follow, sizeof session->follow, "%s", ask->id);
    session->is_follow_due = true;
    ask_pump(session);
    server_tick_soon(session->server);
}

/* A closed capture is taken up again: it is closed anew when the raw data is there. */
static enum rs_status load_closed(struct rs_server *server, const char *id, struct rs_err *err)
{
    if (rs_coord_find(server->coord, id))
        return RS_OK;
    struct rs_coord_capture *closed = rs_mem_calloc(1, sizeof *closed);
    if (!closed)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    enum rs_status status =
        server->journal.find(server->journal.self, id, RS_JOURNAL_ALL, closed, err);
    if (status == RS_OK && *closed->archive) {
        status =
            rs_err_set(err, RS_REFUSED,
                       "capture %.60s is archived at %.200s: restore it first (rankscope restore "
                       "%.60s)",
                       id, closed->archive, id);
        rs_coord_capture_fini(closed);
    }
    if (status == RS_OK) {
        status = rs_coord_load(server->coord, closed, rs_time_monotonic(), err);
        rs_coord_capture_fini(closed);
    }
    rs_mem_free(closed);
    return status;
}

static void ask_fetch(struct session *session, const Rankscope__AskFetch *ask)
{
    struct rs_err err = {0};
    struct rs_server *server = session->server;
    enum rs_status status = load_closed(server, ask->id, &err);
    if (status == RS_OK)
        status = rs_coord_fetch(server->coord, ask->id, ask->ranks, rs_time_monotonic(), &err);
    server_tick_soon(server);
    if (status < 0) {
        ask_refuse(session, &err);
        return;
    }
    const struct rs_coord_capture *capture = rs_coord_find(server->coord, ask->id);
    for (struct session *other = server->sessions; other; other = other->next)
        if (other->kind == SESSION_COLLECTOR && other->link)
            collector_release(other, capture);
    (void)snprintf(session->follow, sizeof session->follow, "%s", ask->id);
    session->is_follow_due = true;
    ask_pump(session);
}

/* ---- removing --------------------------------------------------------------------------------------------------- */

struct remove_job {
    struct pool_job base;
    struct rs_coord_capture *capture; /* as it was */
    enum rs_status status;
    struct rs_err err;
};

/* On a thread that may take its time: files of gigabytes go. */
static void run_remove(struct rs_pool_job *pool_job)
{
    struct remove_job *job = (struct remove_job *)pool_job; /* its first member's first */
    struct rs_server_journal *journal = &job->base.server->journal;
    /* Rows first: they can be made again where it cannot go on from there, what is archived cannot. */
    job->status = rows_remove(job->base.server, job->capture->id, &job->err);
    if (job->status == RS_OK)
        job->status = archiving_remove(job->base.server, job->capture->id, &job->err);
    if (job->status == RS_OK)
        job->status = journal->remove(journal->self, job->capture->id, &job->err);
    if (job->status == RS_OK)
        feed_changed(job->base.server->feed, job->capture->id);
}

static void removed(struct pool_job *base)
{
    struct remove_job *job = (struct remove_job *)base;
    struct session *session = base->session;
    if (base->base.was_dropped)
        job->status = rs_err_set(&job->err, RS_UNREACHABLE, "the aggregator stops");
    if (job->status == RS_OK) {
        rs_log_info("capture %s is removed", job->capture->id);
        retention_soon(job->base.server); /* whose it was may keep more now */
    }
    if (session->link && job->status == RS_OK)
        reply_capture(session, job->capture, true);
    else if (session->link)
        ask_refuse(session, &job->err);
    free_copy(job->capture);
    rs_mem_free(job);
}

static void ask_remove(struct session *session, const Rankscope__AskRemove *ask)
{
    struct rs_server *server = session->server;
    struct rs_err err = {0};
    struct rs_coord_capture *copy = NULL;
    const struct rs_coord_capture *capture = find_capture(server, ask->id, &copy, &err);
    struct remove_job *job = NULL;
    if (!server->journal.remove) {
        (void)rs_err_set(&err, RS_REFUSED, "this aggregator removes nothing");
        capture = NULL;
    }
    if (capture && !copy)
        (void)rs_err_set(&err, RS_REFUSED, "capture %.60s goes on: stop it first", ask->id);
    if (capture && copy)
        job = rs_mem_calloc(1, sizeof *job);
    if (capture && copy && !job)
        (void)rs_err_set(&err, RS_NOMEM, "out of memory");
    if (job) {
        job->base.base.run = run_remove;
        job->base.finish = removed;
        job->capture = copy;
        if (server->options.rows) /* no rows come into the place behind its removal */
            (void)snprintf(job->base.base.key, sizeof job->base.base.key, "%s", copy->id);
        if (server_pool_put(session, server->join_pool ? server->join_pool : server->store_pool,
                            &job->base) == RS_OK)
            return;
        (void)rs_err_set(&err, RS_LIMIT, "too much waits to be done: try again");
        rs_mem_free(job);
    }
    free_copy(copy);
    ask_refuse(session, &err);
}

void ask_answer(struct session *session, const Rankscope__Ask *ask,
                const struct rs_fleet_captures *others, const char *away)
{
    struct rs_err err = {0};
    if (rights_to_ask(session, ask, &err) < 0) {
        ask_refuse(session, &err);
        return;
    }
    switch (ask->message_case) {
    case RANKSCOPE__ASK__MESSAGE_RANKS:
        ask_ranks(session, ask->ranks);
        return;
    case RANKSCOPE__ASK__MESSAGE_START:
        ask_start(session, ask->start);
        return;
    case RANKSCOPE__ASK__MESSAGE_LIST:
        ask_list(session, ask->list, others, away);
        return;
    case RANKSCOPE__ASK__MESSAGE_CAPTURE:
        ask_capture(session, ask->capture);
        return;
    case RANKSCOPE__ASK__MESSAGE_STOP:
        ask_stop(session, ask->stop);
        return;
    case RANKSCOPE__ASK__MESSAGE_REMOVE:
        ask_remove(session, ask->remove);
        return;
    case RANKSCOPE__ASK__MESSAGE_ARCHIVE:
        ask_archive(session, ask->archive);
        return;
    case RANKSCOPE__ASK__MESSAGE_FETCH:
        ask_fetch(session, ask->fetch);
        return;
    case RANKSCOPE__ASK__MESSAGE_DOCUMENTS:
        ask_documents(session, ask->documents, NULL);
        return;
    case RANKSCOPE__ASK__MESSAGE_DOCUMENT:
        ask_document(session, ask->document);
        return;
    case RANKSCOPE__ASK__MESSAGE_COUNTERS:
        ask_counters(session);
        return;
    case RANKSCOPE__ASK__MESSAGE_AGGREGATORS:
        ask_aggregators(session);
        return;
    case RANKSCOPE__ASK__MESSAGE_TABLE:
        ask_table(session, ask->table, NULL);
        return;
    case RANKSCOPE__ASK__MESSAGE_QUERY:
        ask_query(session, ask->query, NULL);
        return;
    case RANKSCOPE__ASK__MESSAGE_HISTORY:
        ask_history(session, ask->history, ask_user_of(session), others, away);
        return;
    case RANKSCOPE__ASK__MESSAGE_HANG:
        hang_ask(session, ask->hang);
        return;
    case RANKSCOPE__ASK__MESSAGE_CERTIFICATE:
        ask_certificate(session, ask->certificate);
        return;
    case RANKSCOPE__ASK__MESSAGE__NOT_SET:
    case RS_WIRE_ONEOF_SIZE(RANKSCOPE__ASK):
        break;
    }
    (void)rs_err_set(&err, RS_VERSION, "this aggregator does not know that question");
    ask_refuse(session, &err);
}

static bool on_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct session *session = self;
    struct rs_message message;
    struct rs_err err = {0};
    (void)link;
    if (session->has_hello) {
        session_fail(session, RS_FORMAT, "one question per link");
        rs_frame_free(&frame);
        return true;
    }
    session->has_hello = true;
    rs_count(RS_COUNT_SERVER_QUESTIONS, 1);
    if (rs_message_unpack(&message, &rankscope__ask__descriptor, frame, &err) < 0) {
        session_fail(session, err.status, err.text);
    } else {
        const Rankscope__Ask *ask = (const Rankscope__Ask *)message.body;
        if (rs_wire_check_version(ask->version, "the command line", &err) < 0)
            ask_refuse(session, &err);
        else if (!elsewhere_takes(session, ask))
            ask_answer(session, ask, NULL, "");
    }
    rs_message_fini(&message);
    rs_frame_free(&frame);
    return true;
}

static void on_writable(void *self, struct rs_link *link)
{
    struct session *session = self;
    (void)link;
    session_pump(session);
    ask_pump(session);
    ask_ranks_pump(session);
    ask_list_pump(session);
    ask_document_pump(session);
    ask_table_pump(session);
}

static void on_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    struct session *session = self;
    (void)link;
    (void)status;
    (void)reason;
    session->link = NULL;
    (void)session_reap(session);
}

const struct rs_link_user ask_user = {
    .on_message = on_message, .on_writable = on_writable, .on_closed = on_closed};
