/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collector's session: Hello, then streams of chunks, heartbeats, and the messages of captures.
 *
 *   Open --> job OPEN --> ingest says how far the stream is --> capture found or made --> Opened
 *   Chunk --> job CHUNK --> durable --> Ack (newest wins, one message for all streams)
 *                       \-> refused --> Ack of that stream: why, and the number that is wanted. What comes for it meanwhile
 *                                       is left unread; the other streams do not notice.
 */
#include "aggregator/server/lease.h"
#include "aggregator/server/live_join.h"
#include "aggregator/server/server_priv.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "server"
#include "common/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a capture that was begun elsewhere; as long as it takes a collector to find out that its aggregator is lost. */
static const rs_dur adopted_settle_ns = 30 * (rs_dur)RS_NS_PER_S;

static struct stream *find_stream(const struct session *session, uint32_t handle)
{
    size_t low = 0;
    size_t high = session->stream_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (session->streams[middle]->handle < handle)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < session->stream_count && session->streams[low]->handle == handle)
        return session->streams[low];
    return NULL;
}

static void free_stream(struct session *session, struct stream *stream)
{
    if (!stream)
        return;
    quota_give(session->quota, QUOTA_STREAMS);
    rs_mem_free(stream->run);
    rs_mem_free(stream->incarnation);
    rs_mem_free(stream->host);
    rs_mem_free(stream->origin);
    rs_mem_free(stream->key);
    rs_mem_free(stream->asked_capture);
    rs_mem_free(stream->reason);
    rs_mem_free(stream);
}

/* Another may open it from now on. */
static void let_go(const struct session *session, const struct stream *stream)
{
    if (stream->stored && stream->stored->held_by == session)
        stream->stored->held_by = NULL;
}

/* It is not open: nothing of it was taken, and its collector may open it again. */
static void remove_stream(struct session *session, struct stream *stream)
{
    size_t kept = 0;
    for (size_t i = 0; i < session->stream_count; i++)
        if (session->streams[i] != stream)
            session->streams[kept++] = session->streams[i];
    session->stream_count = kept;
    let_go(session, stream);
    free_stream(session, stream);
}

void collector_free_streams(struct session *session)
{
    for (size_t i = 0; i < session->stream_count; i++) {
        let_go(session, session->streams[i]);
        free_stream(session, session->streams[i]);
    }
    rs_mem_free(session->streams);
    rs_mem_free(session->adapters);
    homes_free(session);
    if (session->welcome)
        rankscope__welcome__free_unpacked(session->welcome, NULL);
}

/* ---- adapters --------------------------------------------------------------------------------------- */

static bool is_sound(const Rankscope__Adapter *adapter)
{
    return rs_adapter_is_name(adapter->name) &&
           rs_wire_check_text(adapter->title, RS_ADAPTER_TITLE_BYTES - 1, "title", NULL) == RS_OK;
}

/* What the collector can do, in its own words; one that announces nothing has what minor version 2 had. */
static enum rs_status take_adapters(struct session *session, const Rankscope__Hello *hello,
                                    struct rs_err *err)
{
    const size_t most = hello->n_adapters ? hello->n_adapters : RS_ADAPTER_SHIPPED;
    if (most > BOUND_ADAPTERS)
        return rs_err_set(err, RS_LIMIT, "a Hello announces more than %d adapters", BOUND_ADAPTERS);
    session->adapters = rs_mem_calloc(most, sizeof *session->adapters);
    if (!session->adapters)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    for (uint32_t i = 0; i < RS_ADAPTER_SHIPPED && !hello->n_adapters; i++)
        (void)rs_adapter_known(i, &session->adapters[session->adapter_count++]);
    for (size_t i = 0; i < hello->n_adapters; i++) {
        const Rankscope__Adapter *said = hello->adapters[i];
        struct rs_adapter *adapter = &session->adapters[session->adapter_count++];
        if (!is_sound(said))
            return rs_err_set(err, RS_FORMAT, "a Hello announces an adapter without a proper name");
        adapter->number = said->number;
        adapter->capabilities = said->capabilities;
        (void)snprintf(adapter->name, sizeof adapter->name, "%s", said->name);
        (void)snprintf(adapter->title, sizeof adapter->title, "%s", said->title);
        for (size_t k = 0; k < said->n_honours; k++)
            rs_adapter_add_honoured(adapter, said->honours[k]);
    }
    return RS_OK;
}

/* NULL: it announced none of that number. */
static const struct rs_adapter *find_adapter(const struct session *session, uint32_t number)
{
    for (size_t i = 0; i < session->adapter_count; i++)
        if (session->adapters[i].number == number)
            return &session->adapters[i];
    return NULL;
}

/* ---- Open ------------------------------------------------------------------------------------------ */

static enum rs_status check_open(const Rankscope__Open *open, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (open->handle == 0 || open->rank > RS_WIRE_RANK_MAX || open->settle_ns < 0)
        status = rs_err_set(err, RS_FORMAT, "an Open has a number out of range");
    if (status == RS_OK)
        status = rs_wire_check_text(open->run, RS_WIRE_TEXT_MAX_BYTES, "run", err);
    if (status == RS_OK)
        status = rs_wire_check_text(open->incarnation, RS_WIRE_TEXT_MAX_BYTES, "incarnation", err);
    if (status == RS_OK)
        status = rs_wire_check_text(open->host, RS_WIRE_TEXT_MAX_BYTES, "host", err);
    if (status == RS_OK)
        status = rs_wire_check_text(open->capture, RS_COORD_ID_BYTES - 1, "capture", err);
    if (status == RS_OK)
        status =
            rs_wire_check_text(open->capture_key, RS_WIRE_KEY_MAX_BYTES - 1, "capture key", err);
    if (status == RS_OK)
        status = rs_wire_check_text(open->origin, RS_WIRE_KEY_MAX_BYTES - 1, "origin", err);
    if (status == RS_OK && (!*open->run || !*open->incarnation))
        status = rs_err_set(err, RS_FORMAT, "an Open has no run or no incarnation");
    return status;
}

static struct stream *add_stream(struct session *session, const Rankscope__Open *open)
{
    if (rs_mem_grow((void **)&session->streams, &session->stream_capacity,
                    session->stream_count + 1, sizeof(struct stream *)) < 0)
        return NULL;
    struct stream *stream = rs_mem_calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    *stream = (struct stream){.handle = open->handle,
                              .rank = open->rank,
                              .world = open->world,
                              .lane = (enum rs_stream_lane)open->lane,
                              .first_seq = open->first_seq,
                              .settle_ns = open->settle_ns,
                              .run = rs_mem_strdup(open->run),
                              .incarnation = rs_mem_strdup(open->incarnation),
                              .host = rs_mem_strdup(open->host),
                              .origin = rs_mem_strdup(open->origin),
                              .key = rs_mem_strdup(open->capture_key),
                              .asked_capture = rs_mem_strdup(open->capture)};
    if (!stream->run || !stream->incarnation || !stream->host || !stream->origin || !stream->key ||
        !stream->asked_capture) {
        free_stream(session, stream);
        return NULL;
    }
    size_t at = session->stream_count++;
    for (; at > 0 && session->streams[at - 1]->handle > open->handle; at--)
        session->streams[at] = session->streams[at - 1];
    session->streams[at] = stream;
    return stream;
}

static void call_back(struct session *session, const struct rs_coord_capture *stopped)
{
    rs_log_info("collector on %s came back with capture %s, which was stopped meanwhile",
                session->node, stopped->id);
    (void)snprintf(session->called_back, sizeof session->called_back, "%s", stopped->id);
    session_cancel(session, stopped, "stopped while its collector was away");
}

static void send_welcome(struct session *session)
{
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_WELCOME;
    /* Now, not when Hello came: it is echoed, and measures the clock of the host. */
    session->welcome->sent_ns = rs_time_realtime();
    down.welcome = session->welcome;
    session_post(session, &down.base);
    rankscope__welcome__free_unpacked(session->welcome, NULL);
    session->welcome = NULL;
    const struct rs_coord_capture *stopped =
        *session->call_back ? rs_coord_find(session->server->coord, session->call_back) : NULL;
    if (!stopped)
        return;
    call_back(session, stopped);
}

/* Adds one answer to a Welcome that waits. The memory is protobuf-c's own, freed with the message. */
static bool add_opened(Rankscope__Welcome *welcome, const Rankscope__Opened *opened)
{
    Rankscope__Opened *copy = malloc(sizeof *copy);
    if (!copy)
        return false;
    *copy = *opened;
    copy->refused = strdup(opened->refused);
    copy->aggregator = strdup(opened->aggregator);
    copy->aggregator_address = strdup(opened->aggregator_address);
    welcome->opened[welcome->n_opened++] = copy;
    return copy->refused && copy->aggregator && copy->aggregator_address;
}

static void send_opened(struct session *session, Rankscope__Opened *opened, bool is_of_hello)
{
    if (is_of_hello && session->welcome) {
        if (!add_opened(session->welcome, opened))
            session_fail(session, RS_NOMEM, "out of memory");
        if (--session->welcome_pending == 0)
            send_welcome(session);
    } else {
        Rankscope__Down down = RANKSCOPE__DOWN__INIT;
        down.message_case = RANKSCOPE__DOWN__MESSAGE_OPENED;
        down.opened = opened;
        session_post(session, &down.base);
    }
}

/* `refused` "": it is open. Its text is put into the answer for the call. */
static void post_opened(struct session *session, Rankscope__Opened *opened, const char *refused,
                        bool is_of_hello)
{
    char *text = rs_mem_strdup(refused);
    if (!text) {
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    opened->refused = text;
    send_opened(session, opened, is_of_hello);
    rs_mem_free(text);
}

static void post_refused(struct session *session, uint32_t handle, const char *why,
                         bool is_of_hello)
{
    Rankscope__Opened opened = RANKSCOPE__OPENED__INIT;
    opened.handle = handle;
    post_opened(session, &opened, why, is_of_hello);
}

static void post_stream(struct session *session, const struct stream *stream, const char *refused,
                        bool is_of_hello)
{
    Rankscope__Opened opened = RANKSCOPE__OPENED__INIT;
    opened.handle = stream->handle;
    opened.durable_seq = stream->durable_seq;
    opened.hold = stream->is_held;
    opened.is_settled = stream->is_settled;
    post_opened(session, &opened, refused, is_of_hello);
}

/* The stream is gone then. */
static void post_elsewhere(struct session *session, struct stream *stream,
                           const struct whose *whose, bool is_of_hello)
{
    const bool is_known = whose->kind == WHOSE_ANOTHERS;
    struct elsewhere_member member = whose->member;
    Rankscope__Opened opened = RANKSCOPE__OPENED__INIT;
    if (strcmp(session->told_elsewhere, stream->asked_capture) != 0)
        rs_log_info("capture %.63s stays with its collector on %.100s: %.300s",
                    stream->asked_capture, session->node,
                    is_known                    ? member.text
                    : whose->kind == WHOSE_LOST ? "it is not taken over yet"
                                                : whose->why);
    (void)snprintf(session->told_elsewhere, sizeof session->told_elsewhere, "%s",
                   stream->asked_capture);
    opened.handle = stream->handle;
    opened.hold = true;
    opened.is_elsewhere = true;
    opened.is_closed = is_known && whose->is_closed;
    if (is_known) {
        opened.aggregator = member.id;
        opened.aggregator_address = member.address;
    }
    send_opened(session, &opened, is_of_hello);
    remove_stream(session, stream);
}

/* Ingest says how far the stream is, and in which capture: open_done() is next. */
static void look_up(struct session *session, struct stream *stream, bool is_of_hello)
{
    struct chunk_job *job = server_job_new(session, RS_INGEST_OPEN);
    if (!job) {
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    job->stream = stream;
    job->is_of_hello = is_of_hello;
    job->base.run = stream->run;
    job->base.incarnation = stream->incarnation;
    job->base.rank = stream->rank;
    job->base.lane = stream->lane;
    job->base.first_seq = stream->first_seq;
    job->base.open_capture = *stream->asked_capture ? stream->asked_capture : NULL;
    server_job_put(session->server, job);
}

static void on_open(struct session *session, const Rankscope__Open *open, bool is_of_hello)
{
    struct rs_err err = {0};
    if (check_open(open, &err) < 0) {
        session_fail(session, RS_FORMAT, err.text);
        return;
    }
    if (find_stream(session, open->handle)) {
        session_fail(session, RS_FORMAT, "an Open repeats a handle");
        return;
    }
    if (open->lane >= RS_STREAM_LANE_COUNT || session->stream_count >= BOUND_STREAMS) {
        post_refused(session, open->handle,
                     open->lane >= RS_STREAM_LANE_COUNT
                         ? "a lane that this aggregator does not know"
                         : "this link has too many streams",
                     is_of_hello);
        return;
    }
    if (quota_take(session->quota, QUOTA_STREAMS, rs_time_monotonic(), &err) < 0) {
        rights_refused(session, "stream", open->run, err.text);
        post_refused(session, open->handle, err.text, is_of_hello);
        return;
    }
    struct stream *stream = add_stream(session, open);
    if (!stream) {
        quota_give(session->quota, QUOTA_STREAMS);
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    look_up(session, stream, is_of_hello);
}

/* Whether a capture that is closed has no use for the stream's raw data: then it is held, and the capture stays closed. */
static bool is_unwanted(const struct rs_server *server, const struct stream *stream, const char *id)
{
    if (stream->lane != RS_STREAM_RAW || !*id || rs_coord_find(server->coord, id))
        return false;
    struct rs_coord_capture *closed = rs_mem_calloc(1, sizeof *closed);
    if (!closed)
        return false;
    const bool is_found =
        server->journal.find(server->journal.self, id, RS_JOURNAL_ALL, closed, NULL) == RS_OK;
    const bool is_unwanted = is_found && !rs_coord_wants_raw(closed, stream->rank);
    if (is_found)
        rs_coord_capture_fini(closed);
    rs_mem_free(closed);
    return is_unwanted;
}

/* Whether a stream may go into a capture that was closed: what is owed may come late, and nothing else. Owed is what a member
 * of it has not sent to its end. */
static enum rs_status check_owed(const struct rs_coord_capture *closed, const struct stream *stream,
                                 struct rs_err *err)
{
    for (size_t i = 0; i < closed->rank_count; i++)
        if (closed->ranks[i].rank == stream->rank &&
            strcmp(closed->ranks[i].incarnation, stream->incarnation) == 0)
            return RS_OK;
    return rs_err_set(err, RS_REFUSED,
                      "capture %.63s is closed, and rank %u (%.100s) is none of its ranks",
                      closed->id, stream->rank, stream->incarnation);
}

/* Two collectors never write to one stream, and a user's collector writes into his captures alone. */
static enum rs_status check_stream(struct session *session, const struct stream *stream,
                                   struct rs_store_stream *stored, const char *capture,
                                   struct rs_err *err)
{
    const struct session *holder = stored->held_by;
    const char *own = rights_own_user(session);
    if (holder && holder != session && holder->link && !holder->is_failed &&
        (strcmp(holder->node, session->node) != 0 ||
         !rs_identity_is_same(&holder->identity, &session->identity)))
        return rs_err_set(err, RS_REFUSED,
                          "the collector on %.100s has that stream open (rank %u of run %.60s)",
                          holder->node, stream->rank, stream->run);
    const struct rs_coord_stream who = {.run = stream->run,
                                        .incarnation = stream->incarnation,
                                        .rank = stream->rank,
                                        .capture = capture};
    /* Who may do everything may have given his collector another name since. */
    if (session->identity.party != RS_PARTY_LOCAL &&
        !rs_coord_may_send(session->server->coord, &who, session->node))
        return rs_err_set(err, RS_REFUSED,
                          "rank %u of run %.60s is another node's, and not of %.100s", stream->rank,
                          stream->run, session->node);
    /* Of one that is not here the database says it, where there is one (adopt()). */
    if (own && *capture && !server_is_owner(session->server, capture, own) &&
        (!whose_is_shared(session->server) || elsewhere_is_here(session->server, capture)))
        return rs_err_set(err, RS_REFUSED, "capture %.63s is not of %s", capture, own);
    return RS_OK;
}

/* On whose account the stream's chunks will be, and whether more may be kept there. `id` "": files, which may begin a capture. */
static enum rs_status find_share(struct session *session, struct stream *stream, const char *id,
                                 struct rs_err *err)
{
    struct rs_server *server = session->server;
    const struct rs_coord_capture *open = *id ? rs_coord_find(server->coord, id) : NULL;
    char account[RS_COORD_ACCOUNT_BYTES] = "";
    if (!server->shares.limit_bytes)
        return RS_OK;
    if (open && *open->owner)
        (void)snprintf(account, sizeof account, "user/%s", open->owner);
    else if (open)
        (void)snprintf(account, sizeof account, "%s", open->account);
    else if (*id && server->journal.account)
        server->journal.account(server->journal.self, id, account);
    if (!*account)
        rs_identity_text(&session->identity, account);
    stream->share = store_share_of(&server->shares, account);
    return store_share_check(&server->shares, stream->share, err);
}

/* A capture that is not here, and never was. RS_AGAIN: nothing is decided about it; whose_of() says whether the answer comes, or the stream is
 * another aggregator's. */
static enum rs_status adopt(struct session *session, const struct stream *stream,
                            const struct rs_coord_stream *who, rs_ns now,
                            struct rs_coord_capture **capture_p, struct rs_err *err)
{
    struct rs_server *server = session->server;
    /* Of a name that it did not give, its chunks are here already. */
    if (!whose_is_shared(server) || strcmp(stream->asked_capture, who->capture) != 0)
        return rs_coord_adopt(server->coord, who, NULL, now, capture_p, err);
    const struct whose *whose = whose_of(server, who->capture);
    if (!whose || whose->kind == WHOSE_UNKNOWN)
        return RS_AGAIN;
    if (whose->kind == WHOSE_REMOVED)
        return rs_err_set(err, RS_REFUSED, "capture %.63s was removed", who->capture);
    if (who->user && strcmp(who->user, whose->owner) != 0)
        return rs_err_set(err, RS_REFUSED, "capture %.63s is not of %s", who->capture, who->user);
    if (whose->kind == WHOSE_ANOTHERS)
        return RS_AGAIN;
    if (whose->kind == WHOSE_LOST && whose->info.length) {
        const enum rs_status status = takeover(server, who->capture, whose, err);
        if (status < 0)
            rs_log_warn("capture %.63s is not taken over: %s", who->capture, err->text);
        if (status != RS_FORMAT)
            return status < 0 ? RS_AGAIN : RS_OK; /* its data stays where it is, and comes again */
    }
    /* Nobody has told which ranks are in it, and collectors come one after the other: it is not over when one of them is through. */
    struct rs_coord_stream patient = *who;
    patient.settle_ns = adopted_settle_ns;
    return rs_coord_adopt(server->coord, &patient,
                          whose->kind == WHOSE_LOST ? whose->member.text : NULL, now, capture_p,
                          err);
}

/* A stream of a capture that the coordinator does not have: closed, of an earlier process, lost with the aggregator's data, or another
 * aggregator's. RS_AGAIN as adopt(). */
static enum rs_status open_late(struct session *session, const struct stream *stream,
                                const struct rs_coord_stream *who,
                                struct rs_coord_capture **capture_p, struct rs_err *err)
{
    struct rs_server *server = session->server;
    const rs_ns now = rs_time_monotonic();
    struct rs_coord_capture *late = rs_mem_calloc(1, sizeof *late);
    if (!late)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    enum rs_status status =
        server->journal.find(server->journal.self, who->capture, RS_JOURNAL_ALL, late, err);
    if (status == RS_OK)
        status = late->closed_ns ? check_owed(late, stream, err) : RS_OK;
    if (status == RS_REFUSED)
        rights_refused(session, "capture.append", late->id, err->text);
    if (status == RS_OK)
        status = rs_coord_load(server->coord, late, now, err);
    else if (status == RS_NOTFOUND && server->journal.was_removed &&
             server->journal.was_removed(server->journal.self, who->capture))
        status = rs_err_set(err, RS_REFUSED, "capture %.63s was removed", who->capture);
    else if (status == RS_NOTFOUND && rs_wire_is_capture_id(who->capture))
        status = adopt(session, stream, who, now, capture_p, err);
    if (status == RS_OK)
        status = rs_coord_stream_opened(server->coord, who, now, capture_p, err);
    rs_coord_capture_fini(late);
    rs_mem_free(late);
    return status;
}

/* The store has the end of the other lane, or of this one: a collector does not say that again. */
static void find_ended(struct rs_server *server, const struct rs_coord_capture *capture,
                       const struct stream *stream, const struct rs_ingest_job *job, rs_ns now)
{
    if (job->is_summarised || (stream->lane == RS_STREAM_SUMMARY && job->is_ended))
        rs_coord_summarised(server->coord, capture->id, stream->rank, stream->incarnation, false,
                            now);
    if (job->is_raw_ended)
        rs_coord_found_ended(server->coord, capture->id, stream->rank, stream->incarnation,
                             job->is_raw_partial, now);
}

static bool is_whole(const struct rs_server *server, const char *id)
{
    char *dir = rs_store_capture_dir(server->options.store, id);
    const bool is = dir && rs_row_place_is_whole(server->options.rows, dir);
    rs_mem_free(dir);
    return is;
}

/* Finds the capture of a stream that ingest looked up. RS_AGAIN as adopt(). */
static enum rs_status place_stream(struct session *session, struct stream *stream,
                                   const struct rs_ingest_job *job, struct rs_err *err)
{
    struct rs_server *server = session->server;
    const bool is_same =
        !*stream->asked_capture || strcmp(stream->asked_capture, job->capture_found) == 0;
    const bool is_known = *job->capture_found && is_same;
    const char *id = is_known ? job->capture_found : stream->asked_capture;
    const enum rs_status checked =
        job->stream ? check_stream(session, stream, job->stream, id, err) : RS_OK;
    if (checked < 0) {
        rights_refused(session, "stream", id, err->text);
        return checked;
    }
    if (whose_is_given_up(server, id))
        return RS_AGAIN;
    if (job->stream)
        job->stream->held_by = session;
    if (!(is_known && job->is_ended) && find_share(session, stream, id, err) < 0) {
        rights_refused(session, "stream", *id ? id : stream->run, err->text);
        return err->status;
    }
    if (is_known && job->is_ended) {
        /* Everything is there: what still comes are repeats. */
        (void)snprintf(stream->capture, sizeof stream->capture, "%s", job->capture_found);
        stream->is_settled = session->must_settle && is_whole(server, stream->capture);
        return RS_OK;
    }
    if (session->minor >= 2 && !stream->is_held && is_unwanted(server, stream, id)) {
        (void)snprintf(stream->capture, sizeof stream->capture, "%s", id);
        stream->is_held = true;
        return RS_OK;
    }
    char account[RS_IDENTITY_TEXT_BYTES];
    rs_identity_text(&session->identity, account);
    const struct rs_coord_stream who = {
        .run = stream->run,
        .account = account,
        .incarnation = stream->incarnation,
        .host = stream->host,
        .rank = stream->rank,
        .world = stream->world,
        .capture = id,
        .key = stream->key,
        .user = rights_own_user(session),
        .settle_ns = stream->settle_ns,
    };
    const rs_ns now = rs_time_monotonic();
    struct rs_coord_capture *capture = NULL;
    /* One that begins a capture of its own is counted; the last one of a minute is told that it is too much. */
    enum rs_status status = RS_OK;
    if (!*id && !rs_coord_has_key(server->coord, &who)) {
        status = quota_take(session->quota, QUOTA_CAPTURES, now, err);
        if (status < 0)
            rights_refused(session, "capture.files", stream->run, err->text);
    }
    if (status == RS_OK)
        status = rs_coord_stream_opened(server->coord, &who, now, &capture, err);
    if (status == RS_NOTFOUND)
        status = open_late(session, stream, &who, &capture, err);
    if (status != RS_OK)
        return status;
    (void)snprintf(stream->capture, sizeof stream->capture, "%s", capture->id);
    find_ended(server, capture, stream, job, now);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it was opened for this job */
    stream->is_held = stream->lane == RS_STREAM_RAW && session->minor >= 2 &&
                      !rs_coord_wants_raw(capture, stream->rank);
    return RS_OK;
}

/* A collector that was away when its capture was stopped would go on with it. */
static void note_stopped(struct session *session, const Rankscope__RankState *state)
{
    if (!*state->capture ||
        rs_wire_check_text(state->capture, RS_COORD_ID_BYTES - 1, "capture", NULL) < 0)
        return;
    const struct rs_coord_capture *capture = rs_coord_find(session->server->coord, state->capture);
    if (capture && capture->is_stopped && !capture->is_closing)
        (void)snprintf(session->call_back, sizeof session->call_back, "%s", capture->id);
}

/* The same of one that does not tell of its ranks here, or whose capture was closed meanwhile: its stream says what they record. */
static void call_back_stream(struct session *session, const struct stream *stream)
{
    const struct rs_coord_capture *capture = rs_coord_find(session->server->coord, stream->capture);
    if (!capture || !capture->is_stopped || capture->is_closing ||
        strcmp(session->called_back, capture->id) == 0)
        return;
    if (session->welcome)
        (void)snprintf(session->call_back, sizeof session->call_back, "%s", capture->id);
    else
        call_back(session, capture);
}

/* It is looked up again when the database has said whose its capture is; or it is another aggregator's, and stays with its collector. */
static void wait_or_leave(struct session *session, struct stream *stream, bool is_of_hello)
{
    const struct whose *whose = whose_of(session->server, stream->asked_capture);
    if (!whose || whose_take_back(session->server, stream->asked_capture, whose)) {
        stream->is_asking = true;
        stream->is_of_hello = is_of_hello;
    } else if (session->minor < 2) {
        session_fail(session, RS_REFUSED,
                     "it has data of a capture of another aggregator, and cannot keep it apart");
    } else {
        post_elsewhere(session, stream, whose, is_of_hello);
    }
}

void collector_look_again(struct rs_server *server, const char *id)
{
    for (struct session *session = server->sessions; session; session = session->next)
        for (size_t i = 0; session->link && !session->is_failed && i < session->stream_count; i++) {
            struct stream *stream = session->streams[i];
            if (!stream->is_asking || strcmp(stream->asked_capture, id) != 0)
                continue;
            stream->is_asking = false;
            look_up(session, stream, stream->is_of_hello);
        }
}

static void open_done(struct session *session, struct chunk_job *job)
{
    struct stream *stream = job->stream;
    struct rs_err err = job->base.err;
    enum rs_status status = job->base.status;
    if (status == RS_OK)
        status = place_stream(session, stream, &job->base, &err);
    if (status != RS_OK && job->base.stream && job->base.stream->held_by == session)
        job->base.stream->held_by = NULL; /* it is not open: nobody would let go of it */
    if (status == RS_OK) {
        stream->stored = job->base.stream;
        stream->durable_seq = job->base.durable_seq;
    } else if (status == RS_AGAIN) {
        wait_or_leave(session, stream, job->is_of_hello);
        return;
    } else {
        rs_log_warn("stream of rank %u refused: %s", stream->rank, err.text);
    }
    if (status == RS_OK && writing_is_creating(session->server, stream->capture)) {
        stream->is_waiting = true;
        stream->is_of_hello = job->is_of_hello;
        return;
    }
    if (status == RS_OK && !job->base.is_ended)
        call_back_stream(session, stream);
    post_stream(session, stream, status == RS_OK ? "" : err.text, job->is_of_hello);
}

/* A held stream sends all the same: it was evicted, and says so. Its capture may be closed; it is opened for that word. */
static void take_up(struct session *session, struct stream *stream)
{
    struct rs_err err = {0};
    struct rs_ingest_job job = {.status = RS_OK};
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it was opened for this job */
    if (!stream->is_held)
        return;
    (void)snprintf(job.capture_found, sizeof job.capture_found, "%s", stream->capture);
    if (place_stream(session, stream, &job, &err) < 0)
        rs_log_warn("rank %u: %s", stream->rank, err.text);
    stream->is_held = false;
}

/* Its capture was closed while the stream was open: what is owed opens it again, as it does when the stream is opened then. */
static enum rs_status reopen(struct session *session, struct stream *stream, struct rs_err *err)
{
    struct rs_ingest_job job = {.status = RS_OK};
    if (stream->is_ended || !*stream->capture ||
        rs_coord_find(session->server->coord, stream->capture))
        return RS_OK;
    (void)snprintf(job.capture_found, sizeof job.capture_found, "%s", stream->capture);
    return place_stream(session, stream, &job, err);
}

void collector_settled(struct rs_server *server, const char *id)
{
    char name[RS_STORE_ID_BYTES];
    char *names[] = {name};
    Rankscope__Settled settled = RANKSCOPE__SETTLED__INIT;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    (void)snprintf(name, sizeof name, "%s", id);
    settled.captures = names;
    settled.n_captures = 1;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_SETTLED;
    down.settled = &settled;
    for (struct session *session = server->sessions; session; session = session->next)
        if (session->link && session->must_settle && !session->welcome)
            session_post(session, &down.base);
}

static bool has_stream_of(const struct session *session, const char *id)
{
    for (size_t i = 0; i < session->stream_count; i++)
        if (strcmp(session->streams[i]->capture, id) == 0)
            return true;
    return false;
}

void collector_give_up(struct rs_server *server, const char *id)
{
    char reason[] = "a capture was taken over by another aggregator";
    Rankscope__Goodbye goodbye = RANKSCOPE__GOODBYE__INIT;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    goodbye.reason = reason;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_GOODBYE;
    down.goodbye = &goodbye;
    for (struct session *session = server->sessions; session; session = session->next)
        if (session->link && !session->is_failed && has_stream_of(session, id))
            session_post(session, &down.base);
}

void collector_cancel_elsewhere(struct rs_server *server, const struct rs_coord_capture *capture,
                                const char *reason)
{
    for (struct session *session = server->sessions; session; session = session->next)
        if (session->link && !session->is_failed && session->is_delivery &&
            has_stream_of(session, capture->id))
            session_cancel(session, capture, reason);
}

void collector_release(struct session *session, const struct rs_coord_capture *capture)
{
    uint32_t *handles = rs_mem_calloc(session->stream_count + 1, sizeof *handles);
    size_t count = 0;
    for (size_t i = 0; handles && i < session->stream_count; i++) {
        struct stream *stream = session->streams[i];
        if (!stream->is_held || strcmp(stream->capture, capture->id) != 0 ||
            !rs_coord_wants_raw(capture, stream->rank))
            continue;
        stream->is_held = false;
        handles[count++] = stream->handle;
    }
    if (count) {
        Rankscope__Release release = RANKSCOPE__RELEASE__INIT;
        release.handles = handles;
        release.n_handles = count;
        Rankscope__Down down = RANKSCOPE__DOWN__INIT;
        down.message_case = RANKSCOPE__DOWN__MESSAGE_RELEASE;
        down.release = &release;
        session_post(session, &down.base);
    }
    rs_mem_free(handles);
}

void collector_capture_created(struct rs_server *server, const char *id, enum rs_status status,
                               const char *text)
{
    for (struct session *session = server->sessions; session; session = session->next)
        for (size_t i = 0; session->link && i < session->stream_count; i++) {
            struct stream *stream = session->streams[i];
            if (!stream->is_waiting || strcmp(stream->capture, id) != 0)
                continue;
            stream->is_waiting = false;
            if (status < 0) {
                stream->stored = NULL;
                rs_log_warn("stream of rank %u refused: %s", stream->rank, text);
            }
            post_stream(session, stream, status < 0 ? text : "", stream->is_of_hello);
        }
}

/* Whether a chunk is one of those behind a refused one. The wanted one, or a loss record that reaches it, ends that. */
static bool is_left_unread(struct stream *stream, const struct rs_chunk_message *message)
{
    if (!stream->is_refusing)
        return false;
    const bool is_wanted = message->flags & RS_ENVELOPE_LOSS ? message->seq >= stream->wanted_seq
                                                             : message->seq == stream->wanted_seq;
    stream->is_refusing = !is_wanted;
    return !is_wanted;
}

/* ---- chunks and acks -------------------------------------------------------------------------------- */

static void want_ack(struct session *session, struct stream *stream)
{
    if (stream->is_ack_due)
        return;
    stream->is_ack_due = true;
    session->ack_due_count++;
}

static enum rs_wire_refusal refusal_of(enum rs_status status)
{
    if (status == RS_INVALID)
        return RS_REFUSAL_GAP;
    return status == RS_FORMAT || status == RS_VERSION ? RS_REFUSAL_DAMAGED : RS_REFUSAL_STREAM;
}

/* The problem of one stream; a disk that fails is everybody's, and a collector of minor version 1 knows no refusal. */
static void refuse_chunk(struct session *session, struct stream *stream,
                         const struct chunk_job *job)
{
    const struct rs_ingest_job *base = &job->base;
    if (session->minor < 2 || base->status == RS_IO || base->status == RS_NOMEM) {
        session_fail(session, base->status, base->err.text);
        return;
    }
    if (job->generation != stream->generation)
        return; /* it was under way when the one before it was refused */
    rs_mem_free(stream->reason);
    stream->reason = rs_mem_strdup(base->err.text);
    stream->refusal = refusal_of(base->status);
    stream->wanted_seq = base->wanted_seq;
    stream->is_refusing = true;
    stream->generation++;
    rs_log_warn("rank %u of the collector on %.100s, chunk %llu: %s; %llu is wanted", stream->rank,
                session->node, (unsigned long long)base->seq, base->err.text,
                (unsigned long long)stream->wanted_seq);
    want_ack(session, stream);
}

/* The open stream that a chunk is of, when this link may send it. */
static enum rs_status stream_of_chunk(const struct session *session,
                                      const struct rs_chunk_message *message,
                                      struct stream **stream_p, struct rs_err *err)
{
    struct stream *stream = find_stream(session, message->handle);
    if (!stream || !stream->stored)
        return rs_err_set(err, RS_FORMAT, "a chunk came for a stream that is not open");
    if (stream->stored->held_by != session)
        return rs_err_set(err, RS_REFUSED,
                          "its collector opened the stream anew over another link");
    *stream_p = stream;
    return RS_OK;
}

/* The payload's place in the frame. One in more pieces than usual is copied into one: the frame is another then, or NULL. */
static enum rs_status slice_payload(const struct rs_chunk_message *message,
                                    struct rs_frame **frame_p, struct rs_ingest_job *base,
                                    struct rs_err *err)
{
    struct rs_frame *frame = *frame_p;
    const enum rs_status status =
        rs_frame_slice(frame, message->payload_offset, message->payload_length, base->parts,
                       RS_INGEST_PARTS_MAX, &base->part_count);
    if (status != RS_LIMIT)
        return status;
    uint8_t *bytes = rs_mem_calloc(frame->length, 1);
    if (bytes)
        (void)rs_frame_copy(frame, 0, bytes, frame->length);
    *frame_p = bytes ? rs_frame_of(bytes, frame->length) : NULL;
    rs_mem_free(bytes);
    rs_frame_free(&frame);
    if (!*frame_p)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    return rs_frame_slice(*frame_p, message->payload_offset, message->payload_length, base->parts,
                          RS_INGEST_PARTS_MAX, &base->part_count);
}

/* Whether the stream's capture may have more. */
static enum rs_status check_more(struct session *session, struct stream *stream, struct rs_err *err)
{
    enum rs_status status = reopen(session, stream, err);
    if (status < 0)
        return status;
    status = store_share_check(&session->server->shares, stream->share, err);
    if (status < 0 && !stream->is_refusing)
        rights_refused(session, "chunk", stream->capture, err->text);
    return status;
}

/* The disk never sees it. */
static void refuse_unstored(struct session *session, struct stream *stream, struct chunk_job *job,
                            uint64_t seq, const struct rs_err *err)
{
    job->base.status = RS_REFUSED;
    job->base.err = *err;
    job->base.seq = job->base.wanted_seq = seq;
    job->generation = stream->generation;
    refuse_chunk(session, stream, job);
    collector_post_acks(session);
}

/* The job has the frame from here on. */
static void store_chunk(struct session *session, struct stream *stream, struct chunk_job *job,
                        struct rs_frame *frame, const struct rs_chunk_message *message)
{
    job->stream = stream;
    job->frame = frame;
    job->generation = stream->generation;
    job->base.is_wide = session->minor < 2;
    job->base.stream = stream->stored;
    job->base.capture = stream->capture;
    job->base.source = (struct rs_store_source){
        .host = stream->host, .origin = stream->origin, .world = stream->world};
    job->base.seq = message->seq;
    job->base.flags = message->flags;
    job->base.bytes = message->payload_length;
    quota_put(&session->server->quotas, session->quota, job->base.bytes, rs_time_monotonic());
    server_job_put(session->server, job);
}

static bool on_chunk(struct session *session, struct rs_frame *frame)
{
    struct rs_err err = {0};
    struct rs_chunk_message message;
    struct stream *stream = NULL;
    enum rs_status status = rs_wire_chunk_parse(frame, &message, &err);
    if (status == RS_OK)
        status = stream_of_chunk(session, &message, &stream, &err);
    if (status == RS_OK && stream && is_left_unread(stream, &message)) {
        rs_frame_free(&frame);
        return true;
    }
    struct chunk_job *job = status == RS_OK ? server_job_new(session, RS_INGEST_CHUNK) : NULL;
    if (status == RS_OK && !job)
        status = rs_err_set(&err, RS_NOMEM, "out of memory");
    if (status == RS_OK)
        status = slice_payload(&message, &frame, &job->base, &err);
    if (status < 0) {
        rs_mem_free(job);
        if (frame)
            rs_frame_free(&frame);
        session_fail(session, status, err.text[0] ? err.text : "a chunk could not be taken");
        return true;
    }
    take_up(session, stream);
    if (check_more(session, stream, &err) < 0) {
        refuse_unstored(session, stream, job, message.seq, &err);
        rs_mem_free(job);
        rs_frame_free(&frame);
        return true;
    }
    store_chunk(session, stream, job, frame, &message);
    session->is_paused = !session_may_read(session);
    return !session->is_paused;
}

static void chunk_done(struct session *session, struct chunk_job *job)
{
    struct stream *stream = job->stream;
    const struct rs_ingest_job *base = &job->base;
    const rs_ns now = rs_time_monotonic();
    if (base->status < 0) {
        refuse_chunk(session, stream, job);
        return;
    }
    if (stream->durable_seq < base->durable_seq)
        stream->durable_seq = base->durable_seq;
    want_ack(session, stream);
    if (base->is_repeated)
        return;
    /* It was let in while its capture was being closed, and opened that again: somebody must close it. */
    struct rs_err err = {0};
    if (reopen(session, stream, &err) < 0)
        rs_log_warn("rank %u: %s", stream->rank, err.text);
    store_share_add(stream->share, base->bytes);
    const struct rs_coord_amount amount = {.chunks = 1, .bytes = base->bytes};
    rs_coord_stored(session->server->coord, stream->capture, stream->rank, stream->incarnation,
                    &amount, now);
    if (base->lost_chunks)
        rs_coord_lost(session->server->coord, stream->capture, stream->rank, stream->incarnation,
                      base->lost_chunks);
    const bool is_partial = base->is_partial;
    stream->is_ended = stream->is_ended || base->flags & RS_ENVELOPE_LAST;
    if (stream->lane == RS_STREAM_SUMMARY || base->flags & RS_ENVELOPE_LAST)
        live_join_due(session->server, stream->capture);
    if (base->flags & RS_ENVELOPE_LAST && stream->lane == RS_STREAM_SUMMARY)
        rs_coord_summarised(session->server->coord, stream->capture, stream->rank,
                            stream->incarnation, is_partial, now);
    /* A rank whose raw data is wanted is done when that is here; its summary is, by then. */
    if (base->flags & RS_ENVELOPE_LAST && stream->lane == RS_STREAM_RAW && is_partial &&
        base->is_empty)
        rs_coord_ended_empty(session->server->coord, stream->capture, stream->rank,
                             stream->incarnation, now);
    else if (base->flags & RS_ENVELOPE_LAST && stream->lane == RS_STREAM_RAW)
        rs_coord_ended(session->server->coord, stream->capture, stream->rank, stream->incarnation,
                       is_partial, now);
}

void collector_job_done(struct session *session, struct chunk_job *job)
{
    if (job->base.kind == RS_INGEST_OPEN)
        open_done(session, job);
    else
        chunk_done(session, job);
}

/* Streams that are ended and acknowledged go: a collector that lives for months opens more than a link may hold. */
static void forget_ended(struct session *session)
{
    size_t kept = 0;
    for (size_t i = 0; i < session->stream_count; i++) {
        struct stream *stream = session->streams[i];
        if (stream->is_ended && !stream->is_ack_due && !stream->job_count && !stream->is_refusing) {
            let_go(session, stream);
            free_stream(session, stream);
        } else {
            session->streams[kept++] = stream;
        }
    }
    session->stream_count = kept;
}

void collector_post_acks(struct session *session)
{
    if (!session->ack_due_count || session->outbox || !session->link)
        return;
    Rankscope__AckStream *items = rs_mem_calloc(session->ack_due_count, sizeof *items);
    Rankscope__AckStream **pointers =
        rs_mem_calloc(session->ack_due_count, sizeof(Rankscope__AckStream *));
    if (items && pointers) {
        size_t count = 0;
        for (size_t i = 0; i < session->stream_count; i++) {
            struct stream *stream = session->streams[i];
            if (!stream->is_ack_due)
                continue;
            stream->is_ack_due = false;
            rankscope__ack_stream__init(&items[count]);
            items[count].handle = stream->handle;
            items[count].durable_seq = stream->durable_seq;
            if (stream->refusal != RS_REFUSAL_NONE) {
                items[count].refusal = stream->refusal;
                items[count].wanted_seq = stream->wanted_seq;
                items[count].reason = stream->reason ? stream->reason : items[count].reason;
                stream->refusal = RS_REFUSAL_NONE;
            }
            pointers[count] = &items[count];
            count++;
        }
        session->ack_due_count = 0;
        Rankscope__Ack ack = RANKSCOPE__ACK__INIT;
        ack.n_streams = count;
        ack.streams = pointers;
        Rankscope__Down down = RANKSCOPE__DOWN__INIT;
        down.message_case = RANKSCOPE__DOWN__MESSAGE_ACK;
        down.ack = &ack;
        session_post(session, &down.base);
        forget_ended(session);
    }
    rs_mem_free(pointers);
    rs_mem_free(items);
}

/* ---- messages --------------------------------------------------------------------------------------------- */

static uint64_t credit_of(const struct rs_server *server)
{
    uint64_t credit = server->options.credit_bytes;
    const uint64_t share = server->options.credit_total_bytes / (server->session_count + 1);
    if (credit > share)
        credit = share;
    return credit < RS_WIRE_CHUNK_MAX_BYTES ? RS_WIRE_CHUNK_MAX_BYTES : credit;
}

static void see_roles(const Rankscope__RankState *state, int32_t role[RS_ROLE_COUNT])
{
    for (size_t i = 0; i < RS_ROLE_COUNT; i++) {
        const int32_t reported = i < state->n_role ? state->role[i] : -1;
        role[i] = reported >= 0 && reported <= RS_WIRE_RANK_MAX ? reported : -1;
    }
}

static const char another_node[] = "the collector of another node has it";
static const char another_user[] = "its run is another user's";

static bool has_fitting_texts(const Rankscope__RankState *state)
{
    return rs_wire_check_text(state->run, RS_WIRE_TEXT_MAX_BYTES, "run", NULL) >= 0 &&
           rs_wire_check_text(state->incarnation, RS_WIRE_TEXT_MAX_BYTES, "incarnation", NULL) >=
               0 &&
           rs_wire_check_text(state->host, RS_WIRE_TEXT_MAX_BYTES, "host", NULL) >= 0 &&
           rs_wire_check_text(state->user, RS_COORD_USER_BYTES - 1, "user", NULL) >= 0 &&
           rs_wire_check_text(state->capture, RS_COORD_ID_BYTES - 1, "capture", NULL) >= 0;
}

/* What a report says, and what only this side knows: whose its link is, its adapter, and its node's clock. */
static void seen_of(struct session *session, const Rankscope__RankState *state, rs_ns now,
                    struct rs_coord_seen *seen)
{
    /* Of an adapter that was not announced: it is seen, and cannot be told anything. */
    const struct rs_adapter *adapter = find_adapter(session, state->kind);
    const char *own = rights_own_user(session);
    *seen = (struct rs_coord_seen){
        .rank = state->rank,
        .world = state->world,
        .pid = state->pid,
        .step = state->step,
        .step_duration_ns = state->step_duration_ns,
        .own_ns = state->own_ns > 0 ? state->own_ns : 0,
        .delay_ns = state->delay_ns > 0 ? state->delay_ns : 0,
        .state =
            state->state < RS_RANK_STATE_COUNT ? (enum rs_rank_state)state->state : RS_RANK_IDLE,
        .adapter = adapter ? *adapter : (struct rs_adapter){.number = state->kind},
        .free_disk_bytes = state->free_disk_bytes > 0 ? state->free_disk_bytes : 0,
        .free_memory_bytes = state->free_memory_bytes > 0 ? state->free_memory_bytes : 0,
        .glibc = state->glibc,
        .activities = state->activities,
        .events_dropped = state->events_dropped,
        .can_capture = state->can_capture && adapter,
        .link = session->link};
    see_roles(state, seen->role);
    (void)snprintf(seen->user, sizeof seen->user, "%s", own ? own : state->user);
    (void)snprintf(seen->run, sizeof seen->run, "%s", state->run);
    (void)snprintf(seen->incarnation, sizeof seen->incarnation, "%s", state->incarnation);
    (void)snprintf(seen->host, sizeof seen->host, "%s", state->host);
    (void)snprintf(seen->capture, sizeof seen->capture, "%s", state->capture);
    (void)snprintf(seen->node, sizeof seen->node, "%s", session->node);
    (void)host_clock_offset(&session->clock, now, &seen->clock_offset_ns, &seen->clock_bound_ns);
}

static const char *why_left_out(enum rs_status status)
{
    return status == RS_INVALID   ? "no rank has that number"
           : status == RS_LIMIT   ? "there are too many ranks"
           : status == RS_REFUSED ? another_node
           : status == RS_EXISTS  ? another_user
                                  : "no memory";
}

/* Once a link: it comes again with every heartbeat. */
static void tell_left_out(struct session *session, const struct rs_coord_seen *seen,
                          enum rs_status status)
{
    if (session->has_warned)
        return;
    session->has_warned = true;
    rs_log_warn("rank %u of the collector on %.100s is left out: %s", seen->rank, session->node,
                why_left_out(status));
    if (status == RS_REFUSED || status == RS_EXISTS)
        rights_refused(session, "rank", seen->incarnation, why_left_out(status));
}

static void see_rank(struct session *session, const Rankscope__RankState *state)
{
    if (!has_fitting_texts(state))
        return;
    const rs_ns now = rs_time_monotonic();
    struct rs_coord_seen seen;
    seen_of(session, state, now, &seen);
    struct rs_err err = {0};
    enum rs_status status = rs_coord_knows(session->server->coord, &seen)
                                ? RS_OK
                                : quota_take(session->quota, QUOTA_RANKS, now, &err);
    if (status == RS_LIMIT && !session->has_warned)
        rights_refused(session, "rank", seen.incarnation, err.text);
    if (status == RS_OK)
        status = rs_coord_see(session->server->coord, &seen, now);
    if (status < 0)
        tell_left_out(session, &seen, status);
}

/* With room for so many answers; `go_to` NULL: it stays. NULL: no memory. */
static Rankscope__Welcome *new_welcome(const struct session *session, size_t open_count,
                                       const char *go_to)
{
    const struct rs_server *server = session->server;
    struct rs_lease *lease = server->options.lease;
    Rankscope__Welcome *welcome = malloc(sizeof *welcome);
    if (!welcome)
        return NULL;
    rankscope__welcome__init(welcome);
    welcome->version = malloc(sizeof *welcome->version);
    welcome->opened = calloc(open_count + 1, sizeof(Rankscope__Opened *));
    if (welcome->version) {
        rs_wire_own_version(welcome->version);
        welcome->version->program = strdup("rankscope " RS_PROGRAM_VERSION);
    }
    welcome->go_to = strdup(go_to ? go_to : "");
    welcome->aggregator = strdup(lease ? rs_lease_id(lease) : "");
    welcome->settles = session->must_settle;
    welcome->credit_bytes = credit_of(server);
    welcome->heartbeat_ns = server->options.heartbeat_ns;
    if (welcome->version && welcome->version->program && welcome->opened && welcome->go_to &&
        welcome->aggregator)
        return welcome;
    rankscope__welcome__free_unpacked(welcome, NULL);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it was freed as protobuf-c frees */
    return NULL;
}

static void on_hello(struct session *session, const Rankscope__Hello *hello)
{
    struct rs_err err = {0};
    char who[300];
    if (rs_wire_check_text(hello->node, RS_WIRE_TEXT_MAX_BYTES, "node", &err) < 0 ||
        rs_wire_check_text(hello->collector, RS_WIRE_TEXT_MAX_BYTES, "collector", &err) < 0) {
        session_fail(session, RS_FORMAT, err.text);
        return;
    }
    (void)snprintf(session->node, sizeof session->node, "%s", hello->node);
    (void)snprintf(session->collector, sizeof session->collector, "%s", hello->collector);
    (void)snprintf(who, sizeof who, "collector on %s", hello->node);
    if (rs_wire_check_version(hello->version, who, &err) < 0) {
        session_fail(session, RS_VERSION, err.text);
        return;
    }
    enum rs_status status = rights_of_collector(session, session->node, &err);
    if (status == RS_OK)
        status = take_adapters(session, hello, &err);
    if (status == RS_OK)
        status = homes_take(session, hello, &err);
    if (status < 0) {
        session_fail(session, status, err.text);
        return;
    }
    if (hello->n_opens > BOUND_STREAMS) {
        session_fail(session, RS_LIMIT, "a Hello opens too many streams");
        return;
    }
    session->has_hello = true;
    session->minor = hello->version ? hello->version->minor : 0;
    session->is_delivery = hello->is_delivery;
    session->must_settle =
        whose_is_shared(session->server) && (hello->n_aggregators > 1 || hello->is_delivery);
    rs_log_info("collector %.32s on %s is here with %zu streams", session->collector, session->node,
                hello->n_opens);
    const char *go_to = homes_before(session);
    session->welcome = new_welcome(session, go_to ? 0 : hello->n_opens, go_to);
    if (!session->welcome) {
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    if (go_to) {
        rs_log_debug("collector on %s belongs to %s", session->node, go_to);
        homes_free(session);
        send_welcome(session);
        return;
    }
    session->welcome_pending = hello->n_opens;
    for (size_t i = 0; i < hello->n_ranks; i++) {
        see_rank(session, hello->ranks[i]);
        note_stopped(session, hello->ranks[i]);
    }
    for (size_t i = 0; i < hello->n_opens && !session->is_failed; i++)
        on_open(session, hello->opens[i], true);
    if (hello->n_opens == 0)
        send_welcome(session);
}

static void on_heartbeat(struct session *session, const Rankscope__Heartbeat *heartbeat)
{
    session->peer_sent_ns = heartbeat->sent_ns;
    session->peer_received_ns = rs_time_realtime();
    host_clock_take(&session->clock, heartbeat->echo_sent_ns, heartbeat->echo_received_ns,
                    heartbeat->sent_ns, session->peer_received_ns, rs_time_monotonic());
    for (size_t i = 0; i < heartbeat->n_ranks; i++)
        see_rank(session, heartbeat->ranks[i]);
    if (session->link)
        rs_coord_see_link(session->server->coord, session->link, heartbeat->next_ns,
                          rs_time_monotonic());
    rs_count(RS_COUNT_SERVER_HEARTBEATS, 1);
    counters_take(session, heartbeat);
    Rankscope__Heartbeat answer = RANKSCOPE__HEARTBEAT__INIT;
    answer.echo_sent_ns = session->peer_sent_ns;
    answer.echo_received_ns = session->peer_received_ns;
    answer.sent_ns = rs_time_realtime();
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_HEARTBEAT;
    down.heartbeat = &answer;
    session_post(session, &down.base);
}

/* Whether it may speak for that member of the capture: only the collector that was asked, and a user's of his captures. */
static bool speaks_for(struct session *session, const char *capture, uint32_t rank)
{
    const char *own = rights_own_user(session);
    const bool is_others = own && !server_is_owner(session->server, capture, own);
    if (!is_others && rs_coord_may_report(session->server->coord, capture, rank, session->node))
        return true;
    if (!session->has_misreported)
        rights_refused(session, "report", capture,
                       is_others ? "the capture is another user's"
                                 : "that rank was asked through another collector");
    session->has_misreported = true;
    return false;
}

/* An instant on the clock of the collector's host, on ours. 0, any time, stays. */
static rs_ns on_our_clock(const struct session *session, rs_ns theirs)
{
    rs_dur offset = 0, bound = 0;
    rs_ns ours = 0;
    (void)host_clock_offset(&session->clock, rs_time_monotonic(), &offset, &bound);
    if (theirs <= 0 || __builtin_sub_overflow(theirs, offset, &ours) || ours <= 0)
        return theirs;
    return ours;
}

static void on_armed(struct session *session, const Rankscope__Armed *armed)
{
    for (size_t i = 0; i < armed->n_ranks; i++) {
        const Rankscope__ArmedRank *rank = armed->ranks[i];
        if (!speaks_for(session, armed->capture, rank->rank))
            continue;
        const struct rs_coord_armed reported = {.rank = rank->rank,
                                                .incarnation = rank->incarnation,
                                                .step = rank->step,
                                                .step_duration_ns = rank->step_duration_ns,
                                                .refused = rank->refused,
                                                .warning = rank->warning,
                                                .next_poll_ns =
                                                    on_our_clock(session, rank->next_poll_ns),
                                                .poll_period_ns = rank->poll_period_ns,
                                                .lead_ns = rank->lead_ns};
        rs_coord_armed(session->server->coord, armed->capture, &reported, rs_time_monotonic());
    }
    server_tick_soon(session->server);
}

static void on_progress(struct session *session, const Rankscope__Progress *progress)
{
    for (size_t i = 0; i < progress->n_ranks; i++) {
        const Rankscope__RankProgress *rank = progress->ranks[i];
        if (!speaks_for(session, progress->capture, rank->rank))
            continue;
        const struct rs_coord_report reported = {.rank = rank->rank,
                                                 .steps_done = rank->steps_done,
                                                 .state = (enum rs_progress_state)rank->state,
                                                 .text = rank->text,
                                                 .window_start_ns = rank->window_start_ns,
                                                 .window_end_ns = rank->window_end_ns};
        if (rank->state < RS_PROGRESS_COUNT)
            rs_coord_progress(session->server->coord, progress->capture, &reported,
                              rs_time_monotonic());
    }
    server_tick_soon(session->server);
}

static void on_message(struct session *session, const Rankscope__Up *up)
{
    const bool is_hello = up->message_case == RANKSCOPE__UP__MESSAGE_HELLO;
    if (is_hello == session->has_hello) {
        session_fail(session, RS_FORMAT, "the first message, and no other, must be Hello");
        return;
    }
    switch (up->message_case) {
    case RANKSCOPE__UP__MESSAGE_HELLO:
        on_hello(session, up->hello);
        return;
    case RANKSCOPE__UP__MESSAGE_OPEN:
        on_open(session, up->open, false);
        return;
    case RANKSCOPE__UP__MESSAGE_HEARTBEAT:
        on_heartbeat(session, up->heartbeat);
        return;
    case RANKSCOPE__UP__MESSAGE_ARMED:
        on_armed(session, up->armed);
        return;
    case RANKSCOPE__UP__MESSAGE_PROGRESS:
        on_progress(session, up->progress);
        return;
    case RANKSCOPE__UP__MESSAGE_GOODBYE:
        rs_log_info("collector on %s says goodbye", session->node);
        return;
    case RANKSCOPE__UP__MESSAGE_FLIGHT:
        hang_flight(session, up->flight);
        return;
    case RANKSCOPE__UP__MESSAGE_CHUNK:
    case RANKSCOPE__UP__MESSAGE__NOT_SET:
    case RS_WIRE_ONEOF_SIZE(RANKSCOPE__UP):
        break;
    }
    /* A message of a later minor version: it may be left unread. */
    rs_log_debug("a message of no known kind from %s", session->node);
}

static bool on_frame(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct session *session = self;
    (void)link;
    if (session->is_failed) {
        rs_frame_free(&frame);
        return true;
    }
    if (rs_wire_is_chunk(frame) && session->has_hello) {
        const bool goes_on = on_chunk(session, frame);
        session->is_choked = session->choked_at && !session->is_failed;
        return goes_on && !session->is_choked;
    }
    struct rs_message message;
    struct rs_err err = {0};
    if (rs_message_unpack(&message, &rankscope__up__descriptor, frame, &err) < 0)
        session_fail(session, err.status, err.text);
    else
        on_message(session, (const Rankscope__Up *)message.body);
    rs_message_fini(&message);
    rs_frame_free(&frame);
    session->is_choked = session->choked_at && !session->is_failed;
    return !session->is_choked;
}

static void on_writable(void *self, struct rs_link *link)
{
    struct session *session = self;
    (void)link;
    session_pump(session);
    collector_post_acks(session);
}

static void on_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    struct session *session = self;
    rs_log_info("collector on %s is gone%s%s", *session->node ? session->node : "an unnamed node",
                status < 0 ? ": " : "", status < 0 ? reason : "");
    rs_coord_link_gone(session->server->coord, link, status < 0, rs_time_monotonic());
    hang_link_gone(session->server, link);
    session->link = NULL;
    (void)session_reap(session);
}

const struct rs_link_user collector_user = {
    .on_message = on_frame, .on_writable = on_writable, .on_closed = on_closed};
