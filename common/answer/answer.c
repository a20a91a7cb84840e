/* SPDX-License-Identifier: Apache-2.0 */
#include "common/answer/answer.h"

#include "common/base/json_out.h"
#include "common/request/adapter.h"
#include "common/request/roles.h"
#include "common/wire/request_message.h"
#include "common/wire/wire.h"

#include <stdlib.h>
#include <string.h>

enum { SCHEMA_VERSION = 1 };

static void key_int(struct rs_json_out *json, const char *key, int64_t value, bool is_known)
{
    rs_json_out_key(json, key);
    if (is_known)
        rs_json_out_int(json, value);
    else
        rs_json_out_null(json);
}

static void key_text(struct rs_json_out *json, const char *key, const char *text)
{
    rs_json_out_key(json, key);
    rs_json_out_string(json, text);
}

/* "" is null. */
static void key_text_or_null(struct rs_json_out *json, const char *key, const char *text)
{
    rs_json_out_key(json, key);
    if (*text)
        rs_json_out_string(json, text);
    else
        rs_json_out_null(json);
}

static void rank_json(struct rs_json_out *json, const Rankscope__CaptureRank *rank)
{
    rs_json_out_object(json);
    key_int(json, "rank", rank->rank, true);
    key_text(json, "incarnation", rank->incarnation);
    key_text(json, "host", rank->host);
    key_text(json, "state", rs_progress_word((enum rs_progress_state)rank->state, rank->text));
    key_int(json, "steps_done", rank->steps_done, true);
    key_text_or_null(json, "reason", rank->text);
    rs_json_out_end(json);
}

/* The document of docs/schema/capture_request.schema.json. */
static void request_json(struct rs_json_out *json, const Rankscope__CaptureRequest *message)
{
    struct rs_capture_request request = {0};
    struct rs_buf document = {0};
    rs_json_out_key(json, "request");
    if (message && rs_request_from_message(message, &request, NULL) == RS_OK) {
        rs_request_to_json(&request, 0, &document);
        rs_json_out_number(json, rs_buf_text(&document)); /* JSON as it is */
    } else {
        rs_json_out_null(json);
    }
    rs_buf_fini(&document);
    rs_request_fini(&request);
}

static void findings_json(struct rs_json_out *json, const Rankscope__CaptureFindings *findings)
{
    rs_json_out_key(json, "findings");
    if (!findings) {
        rs_json_out_null(json);
        return;
    }
    rs_json_out_object(json);
    rs_json_out_key(json, "is_provisional");
    rs_json_out_bool(json, findings->is_provisional);
    key_int(json, "ranks", findings->ranks, true);
    key_int(json, "recording", findings->recording, true);
    key_int(json, "last_step", findings->last_step, findings->last_step != INT64_MIN);
    key_int(json, "count", findings->findings, true);
    key_text_or_null(json, "first", findings->headline);
    key_int(json, "joined_ns", findings->joined_ns, true);
    rs_json_out_end(json);
}

static void capture_members(struct rs_json_out *json, const Rankscope__CaptureInfo *info)
{
    key_text(json, "id", info->id);
    key_text(json, "run", info->run);
    key_text_or_null(json, "owner", info->owner);
    key_text(json, "state", rs_capture_state_text((enum rs_capture_state)info->state));
    key_text(json, "source", info->source);
    key_text(json, "directory", info->directory);
    key_int(json, "created_ns", info->created_ns, true);
    key_int(json, "closed_ns", info->closed_ns, info->closed_ns != 0);
    key_int(json, "start_step", info->start_step, info->start_step >= 0);
    key_int(json, "steps", info->steps, info->steps != 0);
    key_int(json, "duration_ns", info->duration_ns, info->duration_ns != 0);
    key_int(json, "start_time_ns", info->start_time_ns, info->start_time_ns != 0);
    key_int(json, "start_bound_ns", info->start_bound_ns, info->start_bound_ns != 0);
    key_int(json, "roundup", info->roundup, info->roundup != 0);
    key_int(json, "world", info->world, info->world != 0);
    key_text_or_null(json, "reason", info->reason);
    key_text(json, "raw", *info->raw ? info->raw : "all");
    if (*info->archive)
        key_text(json, "archive", info->archive);
    if (*info->rows)
        key_text(json, "rows", info->rows);
    if (*info->aggregator) {
        key_text(json, "aggregator", info->aggregator);
        key_text_or_null(json, "aggregator_address", info->aggregator_address);
    }
    /* An older aggregator counts none; it leaves none out either. */
    key_int(json, "rank_count", info->n_ranks ? (int64_t)info->n_ranks : info->rank_count, true);
    rs_json_out_key(json, "ranks");
    if (info->n_ranks < info->rank_count) {
        rs_json_out_null(json);
    } else {
        rs_json_out_array(json);
        for (size_t i = 0; i < info->n_ranks; i++)
            rank_json(json, info->ranks[i]);
        rs_json_out_end(json);
    }
    findings_json(json, info->findings);
    request_json(json, info->request);
}

/* An object with its version, and in it a list that is begun. */
static void begin_list(struct rs_json_out *json, unsigned indent, const char *name,
                       struct rs_buf *buf)
{
    rs_json_out_init(json, buf, indent);
    rs_json_out_object(json);
    key_int(json, "schema_version", SCHEMA_VERSION, true);
    rs_json_out_key(json, name);
    rs_json_out_array(json);
}

static void end_list(struct rs_json_out *json)
{
    rs_json_out_end(json);
    rs_json_out_end(json);
}

void rs_answer_capture(const Rankscope__CaptureInfo *info, unsigned indent, struct rs_buf *buf)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, indent);
    rs_json_out_object(&json);
    key_int(&json, "schema_version", SCHEMA_VERSION, true);
    capture_members(&json, info);
    rs_json_out_end(&json);
}

void rs_answer_captures(const Rankscope__CaptureInfo *const *captures, size_t count,
                        const char *away, unsigned indent, struct rs_buf *buf)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, indent);
    rs_json_out_object(&json);
    key_int(&json, "schema_version", SCHEMA_VERSION, true);
    if (*away)
        key_text(&json, "away", away);
    rs_json_out_key(&json, "captures");
    rs_json_out_array(&json);
    for (size_t i = 0; i < count; i++) {
        rs_json_out_object(&json);
        capture_members(&json, captures[i]);
        rs_json_out_end(&json);
    }
    end_list(&json);
}

/* ---- ranks ----------------------------------------------------------------------------------------------------- */

static int by_rank(const void *left, const void *right)
{
    const Rankscope__RankState *a = *(Rankscope__RankState *const *)left;
    const Rankscope__RankState *b = *(Rankscope__RankState *const *)right;
    const int order = strcmp(a->run, b->run);
    if (order)
        return order;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return strcmp(a->incarnation, b->incarnation);
}

void rs_answer_sort_ranks(Rankscope__RankState **ranks, size_t count)
{
    if (count)
        qsort(ranks, count, sizeof(Rankscope__RankState *), by_rank);
}

const char *rs_answer_adapter(const Rankscope__RankState *rank)
{
    return *rank->adapter ? rank->adapter : rs_adapter_name(rank->kind);
}

static void roles_json(struct rs_json_out *json, const Rankscope__RankState *rank)
{
    rs_json_out_key(json, "roles");
    if (!rank->n_role) {
        rs_json_out_null(json);
        return;
    }
    rs_json_out_object(json);
    for (size_t i = 0; i < rank->n_role && i < RS_ROLE_COUNT; i++)
        if (rank->role[i] >= 0)
            key_int(json, rs_rank_role_name((enum rs_rank_role_kind)i), rank->role[i], true);
    rs_json_out_end(json);
}

static void rank_state_json(struct rs_json_out *json, const Rankscope__RankState *rank)
{
    rs_json_out_object(json);
    key_text(json, "run", rank->run);
    key_int(json, "rank", rank->rank, true);
    key_int(json, "world", rank->world, rank->world != 0);
    key_text(json, "host", rank->host);
    key_text(json, "node", rank->node);
    key_text_or_null(json, "user", rank->user);
    key_int(json, "pid", rank->pid, true);
    key_text(json, "incarnation", rank->incarnation);
    key_text(json, "kind", rs_answer_adapter(rank));
    key_text(json, "state", rs_rank_state_text((enum rs_rank_state)rank->state));
    key_int(json, "step", rank->step, rank->step >= 0);
    key_int(json, "step_duration_ns", rank->step_duration_ns, rank->step_duration_ns != 0);
    key_int(json, "own_ns", rank->own_ns, rank->own_ns > 0);
    key_text_or_null(json, "capture", rank->capture);
    rs_json_out_key(json, "can_capture");
    rs_json_out_bool(json, rank->can_capture);
    key_int(json, "free_disk_bytes", (int64_t)rank->free_disk_bytes, rank->free_disk_bytes > 0);
    roles_json(json, rank);
    rs_json_out_key(json, "events_dropped");
    rs_json_out_uint(json, rank->events_dropped);
    key_int(json, "seen_ns", rank->seen_ns, true);
    rs_json_out_end(json);
}

void rs_answer_ranks(const Rankscope__RankState *const *ranks, size_t count, unsigned indent,
                     struct rs_buf *buf)
{
    struct rs_json_out json;
    begin_list(&json, indent, "ranks", buf);
    for (size_t i = 0; i < count; i++)
        rank_state_json(&json, ranks[i]);
    end_list(&json);
}

/* ---- counters -------------------------------------------------------------------------------------------------- */

void rs_answer_counters(const struct rs_counter_set *sets, size_t count, unsigned indent,
                        struct rs_buf *buf)
{
    struct rs_json_out json;
    begin_list(&json, indent, "daemons", buf);
    for (size_t i = 0; i < count; i++) {
        const struct rs_counter_set *set = &sets[i];
        rs_json_out_object(&json);
        key_text(&json, "daemon", set->daemon);
        key_text(&json, "node", set->node);
        key_text(&json, "collector", set->instance);
        rs_json_out_key(&json, "counters");
        rs_json_out_object(&json);
        for (unsigned k = 0; k < RS_COUNT_END; k++) {
            if (!set->has[k])
                continue;
            rs_json_out_key(&json, rs_counter_info((enum rs_counter)k)->name);
            rs_json_out_uint(&json, set->values[k]);
        }
        rs_json_out_end(&json);
        rs_json_out_end(&json);
    }
    end_list(&json);
}

void rs_answer_aggregators(const Rankscope__AggregatorTable *table, unsigned indent,
                           struct rs_buf *buf)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, indent);
    rs_json_out_object(&json);
    key_int(&json, "schema_version", SCHEMA_VERSION, true);
    key_text_or_null(&json, "away", table->away);
    key_int(&json, "now_ns", table->now_ns, true);
    rs_json_out_key(&json, "aggregators");
    rs_json_out_array(&json);
    for (size_t i = 0; i < table->n_aggregators; i++) {
        const Rankscope__AggregatorState *one = table->aggregators[i];
        rs_json_out_object(&json);
        key_text(&json, "id", one->id);
        key_text(&json, "state", one->state);
        key_text(&json, "host", one->host);
        key_text(&json, "address", one->address);
        key_text_or_null(&json, "http", one->http);
        key_text(&json, "version", one->version);
        key_int(&json, "epoch", (int64_t)one->epoch, true);
        key_int(&json, "began_ns", one->began_ns, true);
        key_int(&json, "seen_ns", one->seen_ns, true);
        key_int(&json, "captures", one->captures, one->captures >= 0);
        key_int(&json, "open", one->open, one->open >= 0);
        rs_json_out_key(&json, "is_self");
        rs_json_out_bool(&json, one->is_self);
        rs_json_out_key(&json, "is_double");
        rs_json_out_bool(&json, one->is_double);
        rs_json_out_end(&json);
    }
    rs_json_out_end(&json);
    rs_json_out_end(&json);
}
