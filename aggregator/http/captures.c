/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures: list, start, show, follow, stop, fetch; and a hang, which is one, too.
 */
#include "aggregator/http/api_priv.h"
#include "common/answer/answer.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/request/request.h"
#include "common/wire/answer_message.h"
#include "common/wire/request_message.h"
#include "common/wire/wire.h"

#include <jansson.h>

#include <stdio.h>
#include <string.h>

static const rs_dur keep_alive_ns = 10 * (rs_dur)RS_NS_PER_S;

static bool has_id(struct api_ask *ask)
{
    if (rs_wire_is_capture_id(ask->id))
        return true;
    rs_http_problem_as(ask->answer, 404, "that is no name of a capture");
    return false;
}

/* Answers with the capture in the reply, which is freed; of NULL does nothing. */
static void answer_capture(struct api_ask *ask, Rankscope__Reply *reply)
{
    struct rs_buf body = {0};
    if (!reply)
        return;
    rs_answer_capture(reply->capture, 0, &body);
    api_json(ask, &body);
    rankscope__reply__free_unpacked(reply, NULL);
}

/* ---- the list ------------------------------------------------------------------------------------------------------ */

struct list {
    Rankscope__Reply **replies;
    size_t reply_count, reply_capacity;
    const Rankscope__CaptureInfo **items; /* that are wanted, oldest first */
    size_t count, capacity;
    const char *state, *before;
    const char *away; /* lent by a reply; "": nothing lacks */
    uint64_t limit;   /* UINT64_MAX: all */
};

/* Takes the reply. */
static enum rs_status add_items(void *self, Rankscope__Reply *reply)
{
    struct list *list = self;
    const Rankscope__CaptureList *page = reply->list;
    if (rs_mem_grow((void **)&list->replies, &list->reply_capacity, list->reply_count + 1,
                    sizeof(Rankscope__Reply *)) < 0) {
        rankscope__reply__free_unpacked(reply, NULL);
        return RS_NOMEM;
    }
    list->replies[list->reply_count++] = reply;
    list->away = page->away;
    if (rs_mem_grow((void **)&list->items, &list->capacity, list->count + page->n_captures + 1,
                    sizeof(Rankscope__CaptureInfo *)) < 0)
        return RS_NOMEM;
    for (size_t i = 0; i < page->n_captures; i++)
        list->items[list->count++] = page->captures[i];
    return RS_OK;
}

static bool read_list(struct api_ask *ask, struct list *list)
{
    Rankscope__AskList question = RANKSCOPE__ASK_LIST__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    const char *run = rs_http_query(ask->request, "run");
    bool with_ranks = true;
    if (rs_http_query(ask->request, "ranks") && !api_flag(ask, "ranks", &with_ranks))
        return false;
    question.run = api_lend(run ? run : "");
    question.state = api_lend(list->state ? list->state : "");
    question.before = api_lend(list->before ? list->before : "");
    question.limit = list->limit >= UINT32_MAX ? 0 : list->limit ? (uint32_t)list->limit : 1;
    question.without_ranks = !with_ranks;
    message.message_case = RANKSCOPE__ASK__MESSAGE_LIST;
    message.list = &question;
    return api_each(ask, &message, RANKSCOPE__REPLY__MESSAGE_LIST, add_items, list);
}

void route_captures(struct api_ask *ask)
{
    struct list list = {.state = rs_http_query(ask->request, "state"),
                        .before = rs_http_query(ask->request, "before"),
                        .away = "",
                        .limit = UINT64_MAX};
    struct rs_buf body = {0};
    if (api_number(ask, "limit", &list.limit) && read_list(ask, &list)) {
        rs_answer_captures(list.items, list.limit ? list.count : 0, list.away, 0, &body);
        api_json(ask, &body);
    }
    for (size_t i = 0; i < list.reply_count; i++)
        rankscope__reply__free_unpacked(list.replies[i], NULL);
    rs_mem_free(list.replies);
    rs_mem_free(list.items);
}

/* ---- one ----------------------------------------------------------------------------------------------------------- */

void route_capture(struct api_ask *ask)
{
    Rankscope__AskCapture question = RANKSCOPE__ASK_CAPTURE__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    if (!has_id(ask))
        return;
    question.id = ask->id;
    message.message_case = RANKSCOPE__ASK__MESSAGE_CAPTURE;
    message.capture = &question;
    answer_capture(ask, api_ask(ask, &message, RANKSCOPE__REPLY__MESSAGE_CAPTURE));
}

void route_stop(struct api_ask *ask)
{
    Rankscope__AskStop question = RANKSCOPE__ASK_STOP__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    if (!has_id(ask))
        return;
    question.id = ask->id;
    message.message_case = RANKSCOPE__ASK__MESSAGE_STOP;
    message.stop = &question;
    answer_capture(ask, api_ask(ask, &message, RANKSCOPE__REPLY__MESSAGE_CAPTURE));
}

void route_remove(struct api_ask *ask)
{
    Rankscope__AskRemove question = RANKSCOPE__ASK_REMOVE__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    if (!has_id(ask))
        return;
    question.id = ask->id;
    message.message_case = RANKSCOPE__ASK__MESSAGE_REMOVE;
    message.remove = &question;
    answer_capture(ask, api_ask(ask, &message, RANKSCOPE__REPLY__MESSAGE_CAPTURE));
}

/* Progress is left out: the answer is the capture. */
static enum rs_status take_capture(void *self, Rankscope__Reply *reply)
{
    Rankscope__Reply **last_p = self;
    if (*last_p)
        rankscope__reply__free_unpacked(*last_p, NULL);
    *last_p = reply;
    return RS_OK;
}

static void move_capture(struct api_ask *ask, bool is_restore)
{
    Rankscope__AskArchive question = RANKSCOPE__ASK_ARCHIVE__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    Rankscope__Reply *last = NULL;
    if (!has_id(ask))
        return;
    question.id = ask->id;
    question.restore = is_restore;
    message.message_case = RANKSCOPE__ASK__MESSAGE_ARCHIVE;
    message.archive = &question;
    if (api_each(ask, &message, RANKSCOPE__REPLY__MESSAGE_CAPTURE, take_capture, &last))
        answer_capture(ask, last);
    else if (last)
        rankscope__reply__free_unpacked(last, NULL);
}

void route_archive(struct api_ask *ask)
{
    move_capture(ask, false);
}

void route_restore(struct api_ask *ask)
{
    move_capture(ask, true);
}

/* ---- bodies -------------------------------------------------------------------------------------------------------- */

/* An object whose members are all known, or NULL and the answer says why. An empty body is an empty object. */
static json_t *read_object(struct api_ask *ask, const char *const *known)
{
    const struct rs_view body = ask->request->body;
    struct rs_err err = {0};
    json_error_t why = {.line = 0};
    json_t *object =
        body.length ? json_loadb((const char *)body.data, body.length, JSON_REJECT_DUPLICATES, &why)
                    : json_object();
    const char *key = NULL;
    json_t *value = NULL;
    if (!object)
        (void)rs_err_set(&err, RS_FORMAT, "the body is no JSON: line %d: %s", why.line, why.text);
    else if (!json_is_object(object))
        (void)rs_err_set(&err, RS_FORMAT, "the body is no JSON object");
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (!known[i])
            (void)rs_err_set(&err, RS_INVALID, "the body has a member \"%.60s\" that is not known",
                             key);
        else if (!json_is_string(value) && !json_is_integer(value))
            (void)rs_err_set(&err, RS_INVALID, "\"%.60s\" is neither a text nor a whole number",
                             key);
    }
    if (err.status < 0) {
        rs_http_problem(ask->answer, &err);
        json_decref(object);
        return NULL;
    }
    return object;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

void route_fetch(struct api_ask *ask)
{
    static const char *const known[] = {"ranks", NULL};
    Rankscope__AskFetch question = RANKSCOPE__ASK_FETCH__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    json_t *object = has_id(ask) ? read_object(ask, known) : NULL;
    if (!object)
        return;
    question.id = ask->id;
    question.ranks = api_lend(text_of(object, "ranks"));
    message.message_case = RANKSCOPE__ASK__MESSAGE_FETCH;
    message.fetch = &question;
    answer_capture(ask, api_ask(ask, &message, RANKSCOPE__REPLY__MESSAGE_CAPTURE));
    json_decref(object);
}

void route_hang(struct api_ask *ask)
{
    static const char *const known[] = {"run", "ranks", "limit_ms", NULL};
    Rankscope__AskHang question = RANKSCOPE__ASK_HANG__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    json_t *object = read_object(ask, known);
    if (!object)
        return;
    const int64_t limit_ms = json_integer_value(json_object_get(object, "limit_ms"));
    if (limit_ms < 0 || limit_ms > 600000) {
        rs_http_problem_as(ask->answer, 400, "limit_ms is from 0 to 600000");
    } else {
        question.run = api_lend(text_of(object, "run"));
        question.ranks = api_lend(text_of(object, "ranks"));
        question.limit_ns = limit_ms * RS_NS_PER_MS;
        message.message_case = RANKSCOPE__ASK__MESSAGE_HANG;
        message.hang = &question;
        answer_capture(ask, api_ask(ask, &message, RANKSCOPE__REPLY__MESSAGE_CAPTURE));
    }
    json_decref(object);
}

/* ---- starting ------------------------------------------------------------------------------------------------------ */

/* What the body asks for; every rule that it breaks is in the answer then. */
static bool read_request(struct api_ask *ask, struct rs_capture_request *request,
                         bool *shapes_by_default_p)
{
    const struct rs_view body = ask->request->body;
    struct rs_request_notes notes = {0};
    struct rs_err err = {0};
    struct rs_buf text = {0};
    enum rs_status status =
        rs_request_from_json((const char *)body.data, body.length, request, &notes, &err);
    for (size_t i = 0; status < 0 && i < notes.count; i++) {
        if (rs_request_rule(notes.items[i].rule)->severity != RS_SEVERITY_REFUSED)
            continue;
        rs_buf_printf(&text, "%s", text.length ? "; " : "");
        if (notes.items[i].line)
            rs_buf_printf(&text, "line %u: ", notes.items[i].line);
        rs_request_note_print(&notes.items[i], &text);
    }
    if (status < 0)
        rs_http_problem_as(ask->answer, status == RS_NOMEM ? 500 : 400,
                           text.length ? rs_buf_text(&text) : err.text);
    rs_buf_fini(&text);
    rs_request_notes_fini(&notes);
    if (status < 0)
        return false;
    /* As the command line: shapes are recorded unless somebody says that they are not. */
    json_t *object = json_loadb((const char *)body.data, body.length, 0, NULL);
    *shapes_by_default_p = !json_object_get(object, "record_shapes");
    json_decref(object);
    return true;
}

/* {"schema_version": 1, "capture": "ID", "answer": {...}}; a refusal is a problem with the same members. */
static void put_answer(struct api_ask *ask, const Rankscope__CaptureAnswer *message, bool is_dry)
{
    struct rs_request_answer answer = {0};
    struct rs_buf document = {0}, body = {0};
    struct rs_err err = {0};
    struct rs_json_out json;
    if (rs_answer_from_message(message, &answer, &err) < 0) {
        rs_http_problem(ask->answer, &err);
        return;
    }
    const bool is_refused = message->status < 0;
    rs_request_answer_to_json(&answer, 0, &document);
    rs_json_out_init(&json, &body, 0);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "schema_version");
    rs_json_out_int(&json, 1);
    if (is_refused) {
        rs_json_out_key(&json, "title");
        rs_json_out_string(&json, "Nothing is recorded");
        rs_json_out_key(&json, "status");
        rs_json_out_int(&json, 409);
        rs_json_out_key(&json, "detail");
        rs_json_out_string(&json, message->text);
    }
    rs_json_out_key(&json, "capture");
    if (*message->capture)
        rs_json_out_string(&json, message->capture);
    else
        rs_json_out_null(&json);
    rs_json_out_key(&json, "answer");
    rs_json_out_number(&json, rs_buf_text(&document)); /* JSON as it is */
    rs_json_out_end(&json);
    api_json(ask, &body);
    if (is_refused) {
        ask->answer->type = "application/problem+json";
        ask->answer->status = 409;
    } else if (!is_dry) {
        ask->answer->status = 201;
        (void)snprintf(ask->answer->location, sizeof ask->answer->location, "/api/v1/captures/%s",
                       message->capture);
    }
    rs_buf_fini(&document);
    rs_request_answer_fini(&answer);
}

void route_start(struct api_ask *ask)
{
    const char *raw = rs_http_query(ask->request, "raw");
    struct rs_capture_request request;
    Rankscope__CaptureRequest *body = NULL;
    Rankscope__AskStart question = RANKSCOPE__ASK_START__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    struct rs_err err = {0};
    bool is_dry = false, shapes_by_default = false;
    if (!api_flag(ask, "dry_run", &is_dry) || !read_request(ask, &request, &shapes_by_default))
        return;
    if (rs_request_to_message(&request, &body, &err) < 0) {
        rs_http_problem(ask->answer, &err);
        rs_request_fini(&request);
        return;
    }
    question.request = body;
    question.run = request.job_id; /* the audit log names it */
    question.dry_run = is_dry;
    question.shapes_by_default = shapes_by_default;
    question.raw = api_lend(raw ? raw : "");
    message.message_case = RANKSCOPE__ASK__MESSAGE_START;
    message.start = &question;
    Rankscope__Reply *reply = api_ask(ask, &message, RANKSCOPE__REPLY__MESSAGE_ANSWER);
    if (reply) {
        put_answer(ask, reply->answer, is_dry);
        rankscope__reply__free_unpacked(reply, NULL);
    } else if (ask->answer->status == 404) {
        /* The run, not this address, is what is not there. */
        char why[RS_HTTP_TEXT_BYTES];
        (void)snprintf(why, sizeof why, "%s", ask->answer->detail);
        rs_http_problem_as(ask->answer, 409, why);
    }
    rs_request_message_free(&body);
    rs_request_fini(&request);
}

/* ---- following: server-sent events --------------------------------------------------------------------------------- */

struct events {
    struct rs_call *call;
    Rankscope__Reply *first; /* that was waited for before the answer began */
    uint64_t count;
    bool is_over;
};

static void put_event(struct events *events, const char *name, const Rankscope__CaptureInfo *info,
                      struct rs_buf *buf)
{
    rs_buf_printf(buf, "id: %llu\nevent: %s\ndata: ", (unsigned long long)++events->count, name);
    rs_answer_capture(info, 0, buf);
    rs_buf_string(buf, "\n\n");
}

static enum rs_status next_event(void *self, struct rs_buf *buf)
{
    struct events *events = self;
    Rankscope__Reply *reply = events->first;
    struct rs_err err = {0};
    enum rs_status status = RS_OK;
    if (events->is_over)
        return RS_END;
    events->first = NULL;
    if (!reply)
        status = rs_call_next(events->call, rs_time_monotonic() + keep_alive_ns, &reply, &err);
    if (status == RS_AGAIN) {
        rs_buf_string(buf, ": nothing new\n\n"); /* a client that is gone is found out by this */
        return RS_OK;
    }
    if (status != RS_OK)
        return status == RS_END ? RS_END : status;
    events->is_over = reply->last;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_CAPTURE)
        put_event(events, reply->last ? "closed" : "capture", reply->capture, buf);
    rankscope__reply__free_unpacked(reply, NULL);
    return buf->failed ? RS_NOMEM : RS_OK;
}

static void end_events(void *self)
{
    struct events *events = self;
    rs_call_end(&events->call);
    if (events->first)
        rankscope__reply__free_unpacked(events->first, NULL);
    rs_mem_free(events);
}

void route_progress(struct api_ask *ask)
{
    Rankscope__AskCapture question = RANKSCOPE__ASK_CAPTURE__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    struct rs_err err = {0};
    if (!has_id(ask))
        return;
    struct events *events = rs_mem_calloc(1, sizeof *events);
    if (!events) {
        rs_http_problem_as(ask->answer, 500, "out of memory");
        return;
    }
    question.id = ask->id;
    question.follow = true;
    message.message_case = RANKSCOPE__ASK__MESSAGE_CAPTURE;
    message.capture = &question;
    events->call = api_begin(ask, &message);
    if (events->call)
        events->first = api_next(ask, events->call, &err);
    if (!events->first) {
        if (events->call && err.status >= 0)
            rs_http_problem_as(ask->answer, 500, "the aggregator gave no answer");
        end_events(events);
        return;
    }
    ask->answer->type = "text/event-stream";
    ask->answer->next = next_event;
    ask->answer->end = end_events;
    ask->answer->self = events;
}
