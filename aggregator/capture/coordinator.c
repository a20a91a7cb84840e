/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door's verbs that begin and end things, and the messages that come in between.
 */
#include "aggregator/capture/coord_priv.h"
#include "common/base/mem.h"
#include "common/base/thread.h"

#define RS_LOG_TAG "capture"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

static rs_dur or_default(rs_dur value, rs_dur fallback)
{
    return value ? value : fallback;
}

enum rs_status rs_coord_new(const struct rs_coord_options *options, struct rs_coord **coord_p,
                            struct rs_err *err)
{
    struct rs_coord *coord = rs_mem_calloc(1, sizeof *coord);
    if (!coord)
        return rs_err_set(err, RS_NOMEM, "no memory for the coordinator");
    coord->options = *options;
    coord->seen.generation = 1;
    struct rs_coord_options *own = &coord->options;
    own->arm_timeout_ns = or_default(own->arm_timeout_ns, 5 * (rs_dur)RS_NS_PER_S);
    own->silence_ns = or_default(own->silence_ns, 60 * (rs_dur)RS_NS_PER_S);
    own->gone_ns = or_default(own->gone_ns, 15 * (rs_dur)RS_NS_PER_S);
    own->unreachable_ns = or_default(own->unreachable_ns, 1200 * (rs_dur)RS_NS_PER_S);
    own->abandon_ns = or_default(own->abandon_ns, 60 * (rs_dur)RS_NS_PER_S);
    /* On a crowded node one quick answer says little of how long the next takes. */
    own->lead_ns = or_default(own->lead_ns, 1 * (rs_dur)RS_NS_PER_S);
    if (!own->realtime)
        own->realtime = rs_time_realtime;
    if (options->roles) {
        coord->roles = rs_mem_strdup(options->roles);
        if (!coord->roles) {
            rs_mem_free(coord);
            return rs_err_set(err, RS_NOMEM, "no memory for roles");
        }
    }
    *coord_p = coord;
    return RS_OK;
}

void rs_coord_free(struct rs_coord **coord_p)
{
    struct rs_coord *coord = *coord_p;
    if (!coord)
        return;
    *coord_p = NULL;
    for (size_t i = 0; i < coord->capture_count; i++)
        capture_free(coord->captures[i]);
    rs_mem_free(coord->captures);
    seen_fini(&coord->seen);
    rs_mem_free(coord->links);
    owners_fini(&coord->owners);
    rs_roles_fini(&coord->parsed);
    rs_mem_free(coord->roles);
    rs_mem_free(coord);
}

struct rs_coord_capture *rs_coord_find(struct rs_coord *coord, const char *id)
{
    for (size_t i = 0; i < coord->capture_count; i++)
        if (strcmp(coord->captures[i]->id, id) == 0)
            return coord->captures[i];
    return NULL;
}

/* How much a step of each of its ranks came to: the next request is held against the space that is left. */
static void remember_sizes(struct rs_coord *coord, const struct rs_coord_capture *capture)
{
    for (size_t i = 0; i < capture->rank_count && !capture->is_files; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        struct rs_coord_seen *seen =
            rank->bytes && rank->steps_done > 0 ? seen_of(coord, capture, rank) : NULL;
        if (seen)
            seen->step_bytes = (int64_t)(rank->bytes / (uint64_t)rank->steps_done);
    }
}

void rs_coord_closed(struct rs_coord *coord, const char *id)
{
    RS_ON_THREAD(LINKS);
    for (size_t i = 0; i < coord->capture_count; i++) {
        if (strcmp(coord->captures[i]->id, id) == 0) {
            remember_sizes(coord, coord->captures[i]);
            capture_free(coord->captures[i]);
            coord->captures[i] = coord->captures[--coord->capture_count];
            return;
        }
    }
}

/* ---- messages ------------------------------------------------------------------------------------------ */

/* Moves one capture on as far as its ranks allow; deadlines, and writing down, are the tick's. Cheap: it comes with every
 * message. */
static void advance(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    if (capture->is_closing || capture->state == RS_CAPTURE_QUEUED)
        return;
    if (capture->state == RS_CAPTURE_ARMING) {
        if (capture->counts[RS_PROGRESS_WAITING] == 0)
            (void)tick_arming(coord, capture, now);
    } else if (members_final(capture) == capture->rank_count) {
        (void)(capture->is_files ? tick_collecting(coord, capture, now)
                                 : tick_recording(coord, capture, now));
    }
}

/* It need not find its step out first, nor look at a file. */
static bool answers_at_once(const struct rs_adapter *adapter)
{
    return adapter_can(adapter, RS_CAP_KNOWS_STEP) && !adapter_can(adapter, RS_CAP_POLLS);
}

void rs_coord_armed(struct rs_coord *coord, const char *id, const struct rs_coord_armed *armed,
                    rs_ns now)
{
    RS_ON_THREAD(LINKS);
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    struct rs_coord_rank *rank =
        capture ? member_find(capture, armed->rank, armed->incarnation) : NULL;
    /* An armed one that is asked again tells where it is now. */
    if (!rank || rank->state > RS_PROGRESS_ARMED || capture->state != RS_CAPTURE_ARMING)
        return;
    rank->is_recalled = false;
    if (capture->asked_at && answers_at_once(&rank->adapter) && !member_is_unreachable(rank) &&
        now - capture->asked_at > capture->answer_ns)
        capture->answer_ns = now - capture->asked_at;
    rank->step = reported_step(armed->step);
    rank->step_duration_ns = reported_length(armed->step_duration_ns);
    rank->next_poll_ns = reported_instant(armed->next_poll_ns,
                                          coord->options.realtime() + 3600 * (rs_dur)RS_NS_PER_S);
    rank->poll_period_ns = reported_length(armed->poll_period_ns);
    rank->lead_ns = reported_length(armed->lead_ns);
    if (*armed->refused)
        member_move(capture, rank, RS_PROGRESS_REFUSED, armed->refused, now);
    else
        member_move(capture, rank, RS_PROGRESS_ARMED, armed->warning ? armed->warning : "", now);
    advance(coord, capture, now);
}

void rs_coord_progress(struct rs_coord *coord, const char *id,
                       const struct rs_coord_report *reported, rs_ns now)
{
    RS_ON_THREAD(LINKS);
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    struct rs_coord_rank *rank = capture ? member_find_open(capture, reported->rank) : NULL;
    enum rs_progress_state state = reported->state;
    if (!rank || capture->state == RS_CAPTURE_QUEUED || rank->is_recalled)
        return;
    rank->is_told = true;
    if (rank->steps_done < reported->steps_done)
        rank->steps_done = reported->steps_done;
    if (reported->window_end_ns > reported->window_start_ns && reported->window_start_ns >= 0) {
        rank->window_start_ns = reported->window_start_ns;
        rank->window_end_ns = reported->window_end_ns;
    }
    /* Only what is durable makes a rank done; a collector's word is not enough. */
    if (state == RS_PROGRESS_DONE || state == RS_PROGRESS_PARTIAL)
        state = RS_PROGRESS_SENDING;
    if (state >= rank->state && (unsigned)state < RS_PROGRESS_COUNT)
        member_move(capture, rank, state, reported->text, now);
    if (!capture->recording_at && state >= RS_PROGRESS_RECORDING && !rs_progress_is_final(state))
        capture->recording_at = now;
    advance(coord, capture, now);
}

static const char stopped_text[] = "stopped by request";

enum rs_status rs_coord_stop(struct rs_coord *coord, const char *id, rs_ns now, struct rs_err *err)
{
    RS_ON_THREAD(LINKS);
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    if (!capture || capture->is_closing)
        return rs_err_set(err, RS_NOTFOUND,
                          "capture %.63s is not running: there is none such, or it has ended", id);
    if (capture->state == RS_CAPTURE_QUEUED) {
        queue_drop(coord, capture, "stopped by request before it began", now);
        return RS_OK;
    }
    capture->was_stopped = true;
    capture->look_at = 0; /* nobody is waited for any more */
    /* Who is armed already must not be told to begin, either: there is no COMMIT behind a CANCEL. */
    const enum rs_progress_state last = capture->is_files                     ? RS_PROGRESS_SENDING
                                        : capture->state == RS_CAPTURE_ARMING ? RS_PROGRESS_ARMED
                                                                              : RS_PROGRESS_WAITING;
    if (!capture->is_files) {
        capture->is_stopped = true;
        messages_cancel_all(coord, capture, stopped_text);
    }
    for (size_t i = 0; i < capture->rank_count; i++)
        if (capture->ranks[i].state <= last)
            member_move(capture, &capture->ranks[i], RS_PROGRESS_LOST, stopped_text, now);
    if (capture->is_files)
        capture_close(coord, capture);
    else
        (void)rs_coord_tick(coord, now);
    return RS_OK;
}

/* ---- streams ------------------------------------------------------------------------------------------- */

static const char *user_of(const struct rs_coord_stream *stream)
{
    return stream->user ? stream->user : "";
}

/* Files of one user never end up in another's capture, whatever they are called. */
static struct rs_coord_capture *find_key(const struct rs_coord *coord, const char *run,
                                         const char *key, const char *user)
{
    for (size_t i = 0; i < coord->capture_count; i++) {
        struct rs_coord_capture *capture = coord->captures[i];
        if (capture->is_files && !capture->is_closing && strcmp(capture->run, run) == 0 &&
            strcmp(capture->key, key) == 0 && strcmp(capture->owner, user) == 0)
            return capture;
    }
    return NULL;
}

bool rs_coord_has_key(const struct rs_coord *coord, const struct rs_coord_stream *stream)
{
    return find_key(coord, stream->run, stream->key, user_of(stream)) != NULL;
}

static enum rs_status begin_files(struct rs_coord *coord, const struct rs_coord_stream *stream,
                                  rs_ns now, struct rs_coord_capture **capture_p,
                                  struct rs_err *err)
{
    struct rs_coord_capture *capture = capture_new();
    if (!capture)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    (void)snprintf(capture->run, sizeof capture->run, "%s", stream->run);
    (void)snprintf(capture->key, sizeof capture->key, "%s", stream->key);
    (void)snprintf(capture->id, sizeof capture->id, "%s", stream->capture);
    (void)snprintf(capture->owner, sizeof capture->owner, "%s", user_of(stream));
    (void)snprintf(capture->account, sizeof capture->account, "%s",
                   stream->account ? stream->account : "");
    capture->is_files = true;
    capture->state = RS_CAPTURE_COLLECTING;
    capture->start_step = -1;
    capture->settle_ns = stream->settle_ns;
    capture->opened_at = capture->moved_at = now;
    capture->is_changed = true;
    enum rs_status status = coord->options.ops->create(coord->options.self, capture, err);
    if (status == RS_OK && capture_add(coord, capture) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory for a capture");
    if (status < 0) {
        capture_free(capture);
        return status;
    }
    *capture_p = capture;
    return RS_OK;
}

enum rs_status rs_coord_adopt(struct rs_coord *coord, const struct rs_coord_stream *stream,
                              const char *from, rs_ns now, struct rs_coord_capture **capture_p,
                              struct rs_err *err)
{
    RS_ON_THREAD(LINKS);
    struct rs_coord_stream unnamed = *stream;
    unnamed.key = "";
    if (unnamed.settle_ns <= 0)
        unnamed.settle_ns = 5 * (rs_dur)RS_NS_PER_S;
    const enum rs_status status = begin_files(coord, &unnamed, now, capture_p, err);
    if (status != RS_OK)
        return status;
    if (from)
        (void)snprintf((*capture_p)->remark, sizeof(*capture_p)->remark,
                       "begun at %.300s; what that one had acknowledged may lack", from);
    else
        (void)snprintf((*capture_p)->remark, sizeof(*capture_p)->remark,
                       "this aggregator had no record of it when its data came");
    rs_log_warn("capture %s of run %.60s is not known here: its data is taken all the same%s%.300s",
                (*capture_p)->id, stream->run, from ? "; it was begun at " : "", from ? from : "");
    return RS_OK;
}

/* The rank a stream is of, which may be new to the capture. */
static struct rs_coord_rank *member_of_stream(struct rs_coord_capture *capture,
                                              const struct rs_coord_stream *stream, rs_ns now)
{
    struct rs_coord_rank *rank = member_find(capture, stream->rank, stream->incarnation);
    struct rs_coord_rank fresh = {.rank = stream->rank, .step = -1};
    if (rank)
        return rank;
    (void)snprintf(fresh.incarnation, sizeof fresh.incarnation, "%s", stream->incarnation);
    (void)snprintf(fresh.host, sizeof fresh.host, "%s", stream->host);
    return member_add(capture, &fresh, now, &rank) < 0 ? NULL : rank;
}

/* What the aggregator before this one told last may be older than the end of the recording. */
static bool is_only_sent(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                         struct rs_coord_rank *rank)
{
    const struct rs_coord_seen *seen = capture->claim ? seen_of(coord, capture, rank) : NULL;
    return seen && strcmp(seen->capture, capture->id) != 0;
}

enum rs_status rs_coord_stream_opened(struct rs_coord *coord, const struct rs_coord_stream *stream,
                                      rs_ns now, struct rs_coord_capture **capture_p,
                                      struct rs_err *err)
{
    RS_ON_THREAD(LINKS);
    struct rs_coord_capture *capture = NULL;
    enum rs_status status = RS_OK;
    if (*stream->capture) {
        capture = rs_coord_find(coord, stream->capture);
        if (!capture)
            return rs_err_set(err, RS_NOTFOUND, "there is no capture %.63s", stream->capture);
    } else {
        capture = find_key(coord, stream->run, stream->key, user_of(stream));
        if (!capture)
            status = begin_files(coord, stream, now, &capture, err);
    }
    if (status < 0)
        return status;
    struct rs_coord_rank *rank = member_of_stream(capture, stream, now);
    if (!rank)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture's ranks");
    if (rank->state < RS_PROGRESS_SENDING &&
        (capture->is_files || is_only_sent(coord, capture, rank)))
        member_move(capture, rank, RS_PROGRESS_SENDING, "", now);
    if (stream->world > capture->world)
        capture->world = stream->world;
    if (stream->settle_ns > capture->settle_ns)
        capture->settle_ns = stream->settle_ns;
    capture->moved_at = now;
    capture->is_changed = true;
    capture_save(coord, capture);
    *capture_p = capture;
    return RS_OK;
}

void rs_coord_stored(struct rs_coord *coord, const char *id, uint32_t number,
                     const char *incarnation, const struct rs_coord_amount *amount, rs_ns now)
{
    RS_ON_THREAD(LINKS);
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    struct rs_coord_rank *rank = capture ? member_find(capture, number, incarnation) : NULL;
    if (!rank)
        return;
    rank->chunks += amount->chunks;
    rank->bytes += amount->bytes;
    rank->moved_at = now;
    capture->moved_at = now;
}

void rs_coord_lost(struct rs_coord *coord, const char *id, uint32_t number, const char *incarnation,
                   uint64_t chunks)
{
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    struct rs_coord_rank *rank = capture ? member_find(capture, number, incarnation) : NULL;
    if (rank)
        rank->lost_chunks += chunks;
}

void rs_coord_ended(struct rs_coord *coord, const char *id, uint32_t number,
                    const char *incarnation, bool is_partial, rs_ns now)
{
    RS_ON_THREAD(LINKS);
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    struct rs_coord_rank *rank = capture ? member_find(capture, number, incarnation) : NULL;
    if (!rank)
        return;
    if (rs_progress_is_final(rank->state) && !rs_coord_wants_raw(capture, number)) {
        /* It was done without its raw data; that is not there any more, and nobody asked for it. */
        (void)snprintf(rank->text, sizeof rank->text,
                       "its raw data was evicted before it was fetched");
        rank->is_changed = capture->is_changed = true;
        return;
    }
    if (capture->steps && !is_partial && adapter_can(&rank->adapter, RS_CAP_STEP_PARTS))
        rank->steps_done = capture->steps;
    char text[RS_COORD_REASON_BYTES];
    /* What it recorded is not what the others do: its start was taken back (recall.c) before its node knew, or its collector has
     * refused. */
    const bool is_alone = rank->is_recalled || rank->state == RS_PROGRESS_REFUSED;
    /* It was given up, or not reached, and is there after all: what was said of that is not true any more. */
    if (rank->state == RS_PROGRESS_LOST)
        rank->text[0] = '\0';
    if (rank->is_recalled && rank->state != RS_PROGRESS_REFUSED)
        (void)snprintf(rank->text, sizeof rank->text,
                       "it began alone: its node was out of reach when the start was moved for "
                       "the others");
    (void)member_set_unreachable(capture, rank, false, 0, 0);
    const bool is_short = member_lacks_steps(capture, rank);
    is_partial = is_partial || is_alone || rank->lost_chunks;
    if (rank->lost_chunks)
        (void)snprintf(text, sizeof text,
                       "%llu chunks of it were lost: rankscope verify says which%s%.300s",
                       (unsigned long long)rank->lost_chunks, *rank->text ? "; " : "", rank->text);
    else if (is_short && !*rank->text)
        (void)snprintf(text, sizeof text, "it recorded %lld of %u steps",
                       (long long)rank->steps_done, capture->steps);
    else if (is_partial && !*rank->text)
        (void)snprintf(text, sizeof text,
                       "it ended early, or chunks of it were lost: rankscope verify says which");
    else
        (void)snprintf(text, sizeof text, "%s", rank->text);
    member_move(capture, rank, is_partial || is_short ? RS_PROGRESS_PARTIAL : RS_PROGRESS_DONE,
                text, now);
    advance(coord, capture, now);
}

void rs_coord_ended_empty(struct rs_coord *coord, const char *id, uint32_t number,
                          const char *incarnation, rs_ns now)
{
    RS_ON_THREAD(LINKS);
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    struct rs_coord_rank *rank = capture ? member_find(capture, number, incarnation) : NULL;
    char text[RS_COORD_REASON_BYTES];
    if (!rank)
        return;
    (void)member_set_unreachable(capture, rank, false, 0, 0);
    (void)snprintf(text, sizeof text, "nothing of what it recorded is here%s%.400s",
                   *rank->text ? ": " : "", rank->text);
    if (!rs_progress_is_final(rank->state)) /* else it is named for something else */
        member_move(capture, rank, RS_PROGRESS_LOST, text, now);
    advance(coord, capture, now);
}

void rs_coord_found_ended(struct rs_coord *coord, const char *id, uint32_t number,
                          const char *incarnation, bool is_partial, rs_ns now)
{
    const struct rs_coord_capture *capture = rs_coord_find(coord, id);
    const struct rs_coord_rank *rank = capture ? member_find(capture, number, incarnation) : NULL;
    if (rank && !rs_progress_is_final(rank->state))
        rs_coord_ended(coord, id, number, incarnation, is_partial, now);
}

/* ---- after a restart ------------------------------------------------------------------------------------- */

static enum rs_status copy_open(const struct rs_coord_capture *from, rs_ns now,
                                struct rs_coord_capture *capture)
{
    struct rs_coord_rank *rank = NULL;
    *capture = *from;
    capture->ranks = NULL;
    capture->order = NULL;
    capture->request = NULL;
    capture->rank_count = capture->rank_capacity = capture->order_capacity = 0;
    memset(capture->counts, 0, sizeof capture->counts);
    capture->is_closing = false;
    capture->look_at = 0;
    capture->opened_at = capture->moved_at = capture->committed_at = now;
    enum rs_status status = RS_OK;
    if (from->request) {
        capture->request = rs_mem_calloc(1, sizeof *capture->request);
        status = capture->request ? rs_request_copy(from->request, capture->request) : RS_NOMEM;
    }
    for (size_t i = 0; i < from->rank_count && status == RS_OK; i++) {
        status = member_add(capture, &from->ranks[i], now, &rank);
        /* Rows do not say the adapter; of a capture with one that is ours it is clear. */
        struct rs_adapter adapter;
        for (uint32_t number = 0; number < RS_ADAPTER_SHIPPED && status == RS_OK; number++)
            if (rs_adapter_known(number, &adapter) && strcmp(adapter.name, capture->adapters) == 0)
                rank->adapter = adapter;
    }
    return status;
}

static const char given_up_text[] = "its capture was taken over by another aggregator";

/* Of a capture that was given up, and is taken back: whoever was lost by that may be recording. */
static bool revive_given_up(struct rs_coord_capture *capture, rs_ns now)
{
    bool is_any = false;
    for (size_t i = 0; i < capture->rank_count && !*capture->given_up_to; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (rank->state != RS_PROGRESS_LOST || strcmp(rank->text, given_up_text) != 0)
            continue;
        member_move(capture, rank, RS_PROGRESS_RECORDING, "", now);
        is_any = true;
    }
    if (is_any) {
        capture->closed_ns = 0;
        capture->reason[0] = '\0';
        capture->is_changed = true;
    }
    return is_any;
}

enum rs_status rs_coord_load(struct rs_coord *coord, const struct rs_coord_capture *from, rs_ns now,
                             struct rs_err *err)
{
    RS_ON_THREAD(LINKS);
    if (rs_coord_find(coord, from->id))
        return RS_OK;
    struct rs_coord_capture *capture = capture_new();
    if (!capture)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    enum rs_status status = copy_open(from, now, capture);
    if (capture->is_files)
        capture->state = RS_CAPTURE_COLLECTING;
    else if (status == RS_OK && revive_given_up(capture, now))
        capture->state = RS_CAPTURE_RECORDING;
    else if (rs_capture_state_is_closed(from->state))
        capture->state = RS_CAPTURE_SUMMARISED;
    capture->is_orphan = capture->state == RS_CAPTURE_ARMING;
    capture->is_stopped = from->state == RS_CAPTURE_STOPPED; /* who records on is called back */
    capture->is_loaded = true;
    if (status == RS_OK)
        status = capture_add(coord, capture);
    if (status < 0) {
        capture_free(capture);
        return rs_err_set(err, status, "no memory for a capture");
    }
    return RS_OK;
}

/* ---- from one aggregator to another ----------------------------------------------------------------------- */

/* Whatever was durable there is to come again. */
static void begin_again(struct rs_coord_capture *capture, rs_ns now)
{
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        rank->is_changed = true;
        if (rank->state == RS_PROGRESS_DONE || rank->state == RS_PROGRESS_PARTIAL) {
            rank->steps_done = 0;
            member_move(capture, rank, RS_PROGRESS_SENDING, "", now);
        }
    }
}

enum rs_status rs_coord_take_over(struct rs_coord *coord, const struct rs_coord_capture *from,
                                  rs_ns now, struct rs_err *err)
{
    RS_ON_THREAD(LINKS);
    struct rs_coord_capture *capture = capture_new();
    if (!capture)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    enum rs_status status = copy_open(from, now, capture);
    if (status < 0)
        (void)rs_err_set(err, status, "no memory for a capture");
    begin_again(capture, now);
    capture->state = capture->is_files ? RS_CAPTURE_COLLECTING : RS_CAPTURE_RECORDING;
    capture->closed_ns = 0;
    capture->reason[0] = '\0';
    capture->is_loaded = capture->is_changed = true;
    if (status == RS_OK)
        status = coord->options.ops->create(coord->options.self, capture, err);
    if (status == RS_OK && capture_add(coord, capture) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory for a capture");
    if (status < 0) {
        capture_free(capture);
        return status;
    }
    rs_log_warn("capture %s of run %.60s is taken over from %s", capture->id, capture->run,
                capture->taken_from);
    return RS_OK;
}

void rs_coord_give_up(struct rs_coord *coord, const char *id, const char *aggregator,
                      const char *who, rs_ns now)
{
    RS_ON_THREAD(LINKS);
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    if (!capture || capture->is_closing)
        return;
    (void)snprintf(capture->given_up_to, sizeof capture->given_up_to, "%s", aggregator);
    (void)snprintf(capture->remark, sizeof capture->remark, "taken over by %.400s", who);
    for (size_t i = 0; i < capture->rank_count; i++)
        if (!rs_progress_is_final(capture->ranks[i].state))
            member_move(capture, &capture->ranks[i], RS_PROGRESS_LOST, given_up_text, now);
    capture_close(coord, capture);
}
