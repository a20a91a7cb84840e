/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line's session: one Ask, then one Reply, or a Reply for every change of a capture
 * until it is closed. Changes coalesce: whoever reads slowly sees the newest state.
 */
#include "aggregator/gate/gate_priv.h"
#include "common/base/mem.h"
#include "common/wire/answer_letter.h"
#include "common/wire/request_letter.h"

#define RS_LOG_TAG "gate"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

static void reply_refusal(struct session *session, const struct rs_err *err)
{
    char *text = rs_mem_strdup(err->text);
    Rankscope__Refusal refusal = RANKSCOPE__REFUSAL__INIT;
    refusal.status = err->status;
    if (text)
        refusal.text = text;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    reply.last = true;
    reply.letter_case = RANKSCOPE__REPLY__LETTER_REFUSAL;
    reply.refusal = &refusal;
    session->is_ended = true;
    session_post(session, &reply.base);
    rs_mem_free(text);
}

/* Texts of letters point into what they tell of: packing only reads them. */
static char *lend(const char *text)
{
    union {
        const char *in;
        char *out;
    } both = {.in = text};
    return both.out;
}

static void fill_rank(const struct rs_coord_rank *rank, Rankscope__CaptureRank *letter)
{
    rankscope__capture_rank__init(letter);
    letter->rank = rank->rank;
    letter->incarnation = lend(rank->incarnation);
    letter->host = lend(rank->host);
    letter->state = rank->state;
    letter->steps_done = rank->steps_done;
    letter->text = lend(rank->text);
    letter->chunks = rank->chunks;
    letter->bytes = rank->bytes;
}

/* What a CaptureInfo lends from. Zeroed is empty. */
struct info_letter {
    Rankscope__CaptureInfo info;
    Rankscope__CaptureRank *ranks;
    Rankscope__CaptureRank **pointers;
    Rankscope__CaptureRequest *request;
    char source[RS_COORD_SOURCE_BYTES];
};

static void info_fini(struct info_letter *letter)
{
    rs_mem_free(letter->ranks);
    rs_mem_free(letter->pointers);
    rs_request_letter_free(&letter->request);
}

/* Lends the capture. False: no memory; info_fini() either way. */
static bool fill_info(const struct rs_coord_capture *capture, struct info_letter *letter)
{
    Rankscope__CaptureInfo *info = &letter->info;
    *letter = (struct info_letter){
        .ranks = rs_mem_calloc(capture->rank_count + 1, sizeof *letter->ranks),
        .pointers = rs_mem_calloc(capture->rank_count + 1, sizeof(Rankscope__CaptureRank *))};
    if (!letter->ranks || !letter->pointers ||
        (capture->request && rs_request_to_letter(capture->request, &letter->request, NULL) < 0))
        return false;
    rankscope__capture_info__init(info);
    for (size_t i = 0; i < capture->rank_count; i++) {
        fill_rank(&capture->ranks[i], &letter->ranks[i]);
        letter->pointers[i] = &letter->ranks[i];
    }
    rs_coord_source(capture, letter->source);
    info->id = lend(capture->id);
    info->run = lend(capture->run);
    info->state = capture->state;
    info->directory = lend(capture->directory);
    info->created_ns = capture->created_ns;
    info->closed_ns = capture->closed_ns;
    info->start_step = capture->start_step;
    info->steps = capture->steps;
    info->world = capture->world;
    info->source = letter->source;
    info->duration_ns = capture->duration_ns;
    info->start_time_ns = capture->start_time_ns;
    info->roundup =
        rs_coord_has_kind(capture, RS_RANK_KINETO) && capture->steps ? capture->profile.roundup : 0;
    info->reason = lend(capture->reason);
    info->n_ranks = capture->rank_count;
    info->ranks = letter->pointers;
    info->request = letter->request;
    return true;
}

static void reply_capture(struct session *session, const struct rs_coord_capture *capture,
                          bool is_last)
{
    struct info_letter letter;
    if (!fill_info(capture, &letter)) {
        info_fini(&letter);
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    reply.last = is_last;
    reply.letter_case = RANKSCOPE__REPLY__LETTER_CAPTURE;
    reply.capture = &letter.info;
    session->is_ended = is_last;
    session_post(session, &reply.base);
    info_fini(&letter);
}

/* An open capture as the coordinator has it, else as the book has it (then *copy_p is to be freed). */
static const struct rs_coord_capture *find_capture(struct rs_gate *gate, const char *id,
                                                   struct rs_coord_capture **copy_p,
                                                   struct rs_err *err)
{
    const struct rs_coord_capture *open = rs_coord_find(gate->coord, id);
    *copy_p = NULL;
    if (open)
        return open;
    struct rs_coord_capture *copy = rs_mem_calloc(1, sizeof *copy);
    if (!copy) {
        (void)rs_err_set(err, RS_NOMEM, "out of memory");
        return NULL;
    }
    if (gate->book.find(gate->book.self, id, copy, err) < 0) {
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
    struct rs_err err = {0};
    struct rs_coord_capture *copy = NULL;
    session->is_follow_due = false;
    const struct rs_coord_capture *capture =
        find_capture(session->gate, session->follow, &copy, &err);
    if (capture)
        reply_capture(session, capture, session->is_follow_last);
    else
        reply_refusal(session, &err);
    free_copy(copy);
}

void ask_capture_changed(struct rs_gate *gate, const char *id, bool is_closed)
{
    for (struct session *session = gate->sessions; session; session = session->next) {
        if (session->kind != SESSION_ASK || strcmp(session->follow, id) != 0)
            continue;
        session->is_follow_due = true;
        session->is_follow_last = session->is_follow_last || is_closed;
        ask_pump(session);
    }
}

/* ---- the asks ------------------------------------------------------------------------------------------- */

/* Left out when nothing is known. */
static void tell_roles(struct rs_coord *coord, const struct rs_coord_seen *seen, int32_t *role,
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

static void ask_ranks(struct session *session, const Rankscope__AskRanks *ask)
{
    struct rs_coord *coord = session->gate->coord;
    const size_t count = rs_coord_seen_count(coord);
    Rankscope__RankState *states = rs_mem_calloc(count, sizeof *states);
    Rankscope__RankState **pointers = rs_mem_calloc(count, sizeof(Rankscope__RankState *));
    int32_t *roles = rs_mem_calloc(count, RS_ROLE_COUNT * sizeof *roles);
    Rankscope__RankTable table = RANKSCOPE__RANK_TABLE__INIT;
    const rs_ns now = rs_time_monotonic();
    rs_coord_learn_all_roles(coord);
    for (size_t i = 0; states && pointers && roles && i < count; i++) {
        const struct rs_coord_seen *seen = rs_coord_seen(coord, i);
        if (*ask->run && strcmp(ask->run, seen->run) != 0)
            continue;
        Rankscope__RankState *state = &states[table.n_ranks];
        rankscope__rank_state__init(state);
        state->run = lend(seen->run);
        state->rank = seen->rank;
        state->incarnation = lend(seen->incarnation);
        state->world = seen->world;
        state->host = lend(seen->host);
        state->pid = seen->pid;
        state->step = seen->step;
        state->step_duration_ns = seen->step_duration_ns;
        state->state = seen->link ? seen->state : RS_RANK_GONE;
        state->events_dropped = seen->events_dropped;
        state->capture = lend(seen->capture);
        state->seen_ns = rs_time_realtime() - (now - seen->heard_at);
        state->node = lend(seen->node);
        state->can_capture = seen->can_capture;
        state->kind = seen->kind;
        state->free_disk_bytes = seen->free_disk_bytes;
        tell_roles(coord, seen, &roles[i * RS_ROLE_COUNT], state);
        pointers[table.n_ranks++] = state;
    }
    table.ranks = pointers;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    reply.last = true;
    reply.letter_case = RANKSCOPE__REPLY__LETTER_RANKS;
    reply.ranks = &table;
    session->is_ended = true;
    session_post(session, &reply.base);
    rs_mem_free(roles);
    rs_mem_free(pointers);
    rs_mem_free(states);
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
    Rankscope__CaptureAnswer *letter = NULL;
    if (rs_answer_to_letter(answer, &letter, NULL) < 0) {
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    letter->status = err->status;
    letter->text = lend(err->text);
    letter->capture = lend(capture ? capture->id : "");
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    reply.last = capture == NULL;
    reply.letter_case = RANKSCOPE__REPLY__LETTER_ANSWER;
    reply.answer = letter;
    session->is_ended = reply.last;
    session_post(session, &reply.base);
    rs_answer_letter_free(&letter);
}

static void start_capture(struct session *session, const Rankscope__AskStart *ask,
                          const struct rs_capture_request *request)
{
    struct rs_err err = {0};
    struct rs_request_answer answer = {0};
    struct rs_coord_capture *capture = NULL;
    const struct rs_coord_ask coord_ask = {.request = request,
                                           .roles = ask->roles,
                                           .origin_file = ask->origin_file,
                                           .shapes_by_default = ask->shapes_by_default,
                                           .is_dry = ask->dry_run};
    const enum rs_status status = rs_coord_start(session->gate->coord, &coord_ask,
                                                 rs_time_monotonic(), &answer, &capture, &err);
    const bool is_judged = answer.count || answer.notes.count || answer.chosen.unknown_count;
    if (status >= 0)
        err = (struct rs_err){.status = status};
    if (ask->request && (status >= 0 || is_judged))
        reply_answer(session, &answer, capture, &err);
    else if (status < 0)
        reply_refusal(session, &err);
    rs_request_answer_fini(&answer);
    if (!capture)
        return;
    (void)snprintf(session->follow, sizeof session->follow, "%s", capture->id);
    session->is_follow_due = true;
    ask_pump(session);
    gate_tick_soon(session->gate);
}

static void ask_start(struct session *session, const Rankscope__AskStart *ask)
{
    struct rs_err err = {0};
    struct rs_capture_request request;
    enum rs_status status = rs_wire_check_text(ask->origin_file, RS_WIRE_KEY_MAX_BYTES - 1,
                                               "the name of the request's file", &err);
    if (status == RS_OK)
        status = ask->request ? rs_request_from_letter(ask->request, &request, &err)
                              : request_of_old(ask, &request, &err);
    if (status < 0) {
        reply_refusal(session, &err);
        return;
    }
    start_capture(session, ask, &request);
    rs_request_fini(&request);
}

/* What one letter of a list holds at most, unless one capture alone is more: both ends' limits are well above. */
enum { LIST_MAX_BYTES = 2 << 20, LIST_MAX_RANKS = 16384 };

struct listing {
    struct session *session;
    const char *run;
    Rankscope__CaptureInfo **items; /* of the next letter */
    size_t count, capacity, bytes, rank_count;
    bool has_failed;
};

static void drop_items(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        rankscope__capture_info__free_unpacked(listing->items[i], NULL);
    listing->count = listing->bytes = listing->rank_count = 0;
}

static void send_items(struct listing *listing, bool is_last)
{
    Rankscope__CaptureList list = RANKSCOPE__CAPTURE_LIST__INIT;
    list.n_captures = listing->count;
    list.captures = listing->items;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    reply.last = is_last;
    reply.letter_case = RANKSCOPE__REPLY__LETTER_LIST;
    reply.list = &list;
    listing->session->is_ended = is_last;
    session_post(listing->session, &reply.base);
    drop_items(listing);
}

/* Packing happens after the visit, so copies are made. */
static bool list_one(void *self, const struct rs_coord_capture *capture)
{
    struct listing *listing = self;
    if (*listing->run && strcmp(listing->run, capture->run) != 0)
        return true;
    const struct rs_coord_capture *open = rs_coord_find(listing->session->gate->coord, capture->id);
    struct info_letter letter;
    Rankscope__CaptureInfo *copy = NULL;
    size_t bytes = 0;
    if (fill_info(open ? open : capture, &letter)) {
        bytes = rankscope__capture_info__get_packed_size(&letter.info);
        uint8_t *packed = rs_mem_calloc(bytes ? bytes : 1, 1);
        if (packed) {
            (void)rankscope__capture_info__pack(&letter.info, packed);
            copy = rankscope__capture_info__unpack(NULL, bytes, packed);
        }
        rs_mem_free(packed);
    }
    info_fini(&letter);
    if (!copy || rs_mem_grow((void **)&listing->items, &listing->capacity, listing->count + 1,
                             sizeof(Rankscope__CaptureInfo *)) < 0) {
        if (copy)
            rankscope__capture_info__free_unpacked(copy, NULL);
        listing->has_failed = true;
        return false;
    }
    if (listing->count && (listing->bytes + bytes > LIST_MAX_BYTES ||
                           listing->rank_count + copy->n_ranks > LIST_MAX_RANKS))
        send_items(listing, false);
    listing->items[listing->count++] = copy;
    listing->bytes += bytes;
    listing->rank_count += copy->n_ranks;
    return true;
}

static void ask_list(struct session *session, const Rankscope__AskList *ask)
{
    struct rs_err err = {0};
    struct listing listing = {.session = session, .run = ask->run};
    struct rs_gate *gate = session->gate;
    enum rs_status status = gate->book.list(gate->book.self, list_one, &listing, &err);
    if (listing.has_failed)
        status = rs_err_set(&err, RS_NOMEM, "out of memory");
    if (status == RS_OK)
        send_items(&listing, true);
    else
        reply_refusal(session, &err);
    drop_items(&listing);
    rs_mem_free(listing.items);
}

static void ask_capture(struct session *session, const Rankscope__AskCapture *ask)
{
    struct rs_err err = {0};
    struct rs_coord_capture *copy = NULL;
    const struct rs_coord_capture *capture = find_capture(session->gate, ask->id, &copy, &err);
    if (!capture)
        reply_refusal(session, &err);
    else
        reply_capture(session, capture, !ask->follow || copy != NULL);
    if (capture && !copy && ask->follow)
        (void)snprintf(session->follow, sizeof session->follow, "%s", capture->id);
    free_copy(copy);
}

static void ask_stop(struct session *session, const Rankscope__AskStop *ask)
{
    struct rs_err err = {0};
    if (rs_coord_stop(session->gate->coord, ask->id, rs_time_monotonic(), &err) < 0) {
        reply_refusal(session, &err);
        return;
    }
    (void)snprintf(session->follow, sizeof session->follow, "%s", ask->id);
    session->is_follow_due = true;
    ask_pump(session);
    gate_tick_soon(session->gate);
}

static void on_ask(struct session *session, const Rankscope__Ask *ask)
{
    struct rs_err err = {0};
    if (rs_wire_check_version(ask->version, "the command line", &err) < 0) {
        reply_refusal(session, &err);
        return;
    }
    switch (ask->letter_case) {
    case RANKSCOPE__ASK__LETTER_RANKS:
        ask_ranks(session, ask->ranks);
        return;
    case RANKSCOPE__ASK__LETTER_START:
        ask_start(session, ask->start);
        return;
    case RANKSCOPE__ASK__LETTER_LIST:
        ask_list(session, ask->list);
        return;
    case RANKSCOPE__ASK__LETTER_CAPTURE:
        ask_capture(session, ask->capture);
        return;
    case RANKSCOPE__ASK__LETTER_STOP:
        ask_stop(session, ask->stop);
        return;
    case RANKSCOPE__ASK__LETTER__NOT_SET:
    case _RANKSCOPE__ASK__LETTER__CASE_IS_INT_SIZE:
        break;
    }
    (void)rs_err_set(&err, RS_VERSION, "this aggregator does not know that question");
    reply_refusal(session, &err);
}

static bool on_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct session *session = self;
    struct rs_letter letter;
    struct rs_err err = {0};
    (void)link;
    if (session->has_hello) {
        session_fail(session, RS_FORMAT, "one question per link");
        rs_frame_free(&frame);
        return true;
    }
    session->has_hello = true;
    if (rs_letter_unpack(&letter, &rankscope__ask__descriptor, frame, &err) < 0)
        session_fail(session, err.status, err.text);
    else
        on_ask(session, (const Rankscope__Ask *)letter.message);
    rs_letter_fini(&letter);
    rs_frame_free(&frame);
    return true;
}

static void on_writable(void *self, struct rs_link *link)
{
    struct session *session = self;
    (void)link;
    session_pump(session);
    ask_pump(session);
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
