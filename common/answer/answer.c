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

static void rank_json(struct rs_json_out *json, const Rankscope__CaptureRank *rank)
{
    rs_json_out_object(json);
    rs_json_put_int(json, "rank", rank->rank);
    rs_json_put_string(json, "incarnation", rank->incarnation);
    rs_json_put_string(json, "host", rank->host);
    rs_json_put_string(json, "state",
                       rs_progress_word((enum rs_progress_state)rank->state, rank->text));
    rs_json_put_int(json, "steps_done", rank->steps_done);
    rs_json_put_text(json, "reason", rank->text);
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
    rs_json_put_int(json, "ranks", findings->ranks);
    rs_json_put_int(json, "recording", findings->recording);
    rs_json_put_known(json, "last_step", findings->last_step, findings->last_step != INT64_MIN);
    rs_json_put_int(json, "count", findings->findings);
    rs_json_put_text(json, "first", findings->headline);
    rs_json_put_int(json, "joined_ns", findings->joined_ns);
    rs_json_out_end(json);
}

static void capture_members(struct rs_json_out *json, const Rankscope__CaptureInfo *info)
{
    rs_json_put_string(json, "id", info->id);
    rs_json_put_string(json, "run", info->run);
    rs_json_put_text(json, "owner", info->owner);
    rs_json_put_string(json, "state", rs_capture_state_text((enum rs_capture_state)info->state));
    rs_json_put_string(json, "source", info->source);
    rs_json_put_string(json, "directory", info->directory);
    rs_json_put_int(json, "created_ns", info->created_ns);
    rs_json_put_known(json, "closed_ns", info->closed_ns, info->closed_ns != 0);
    rs_json_put_known(json, "start_step", info->start_step, info->start_step >= 0);
    rs_json_put_known(json, "steps", info->steps, info->steps != 0);
    rs_json_put_known(json, "duration_ns", info->duration_ns, info->duration_ns != 0);
    rs_json_put_known(json, "start_time_ns", info->start_time_ns, info->start_time_ns != 0);
    rs_json_put_known(json, "start_bound_ns", info->start_bound_ns, info->start_bound_ns != 0);
    rs_json_put_known(json, "roundup", info->roundup, info->roundup != 0);
    rs_json_put_known(json, "world", info->world, info->world != 0);
    rs_json_put_text(json, "reason", info->reason);
    rs_json_put_string(json, "raw", *info->raw ? info->raw : "all");
    if (*info->archive)
        rs_json_put_string(json, "archive", info->archive);
    if (*info->rows)
        rs_json_put_string(json, "rows", info->rows);
    if (*info->aggregator) {
        rs_json_put_string(json, "aggregator", info->aggregator);
        rs_json_put_text(json, "aggregator_address", info->aggregator_address);
    }
    if (*info->taken_from)
        rs_json_put_string(json, "taken_from", info->taken_from);
    if (*info->given_up_to)
        rs_json_put_string(json, "given_up_to", info->given_up_to);
    /* An older aggregator counts none; it leaves none out either. */
    rs_json_put_int(json, "rank_count", info->n_ranks ? (int64_t)info->n_ranks : info->rank_count);
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
    rs_json_put_int(json, "schema_version", SCHEMA_VERSION);
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
    rs_json_put_int(&json, "schema_version", SCHEMA_VERSION);
    capture_members(&json, info);
    rs_json_out_end(&json);
}

void rs_answer_captures(const Rankscope__CaptureInfo *const *captures, size_t count,
                        const char *away, unsigned indent, struct rs_buf *buf)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, indent);
    rs_json_out_object(&json);
    rs_json_put_int(&json, "schema_version", SCHEMA_VERSION);
    if (*away)
        rs_json_put_string(&json, "away", away);
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
            rs_json_put_int(json, rs_rank_role_name((enum rs_rank_role_kind)i), rank->role[i]);
    rs_json_out_end(json);
}

/* What its profiler can record, as far as its process does not rule it out; null where there is nothing to choose. */
static void activities_json(struct rs_json_out *json, const Rankscope__RankState *rank)
{
    const uint32_t all = rs_adapter_activities(rank->kind);
    const uint32_t some = rank->activities ? all & rank->activities : all;
    rs_json_out_key(json, "activities");
    if (!all || !rank->can_capture) {
        rs_json_out_null(json);
        return;
    }
    rs_json_out_array(json);
    for (uint32_t bit = 1; bit <= some; bit <<= 1) {
        char name[16];
        rs_request_activity_names(some & bit, name, sizeof name);
        if (*name)
            rs_json_out_string(json, name);
    }
    rs_json_out_end(json);
}

static void rank_state_json(struct rs_json_out *json, const Rankscope__RankState *rank)
{
    rs_json_out_object(json);
    rs_json_put_string(json, "run", rank->run);
    rs_json_put_int(json, "rank", rank->rank);
    rs_json_put_known(json, "world", rank->world, rank->world != 0);
    rs_json_put_string(json, "host", rank->host);
    rs_json_put_string(json, "node", rank->node);
    rs_json_put_text(json, "user", rank->user);
    rs_json_put_int(json, "pid", rank->pid);
    rs_json_put_string(json, "incarnation", rank->incarnation);
    rs_json_put_string(json, "kind", rs_answer_adapter(rank));
    rs_json_put_string(json, "state", rs_rank_state_text((enum rs_rank_state)rank->state));
    rs_json_put_known(json, "step", rank->step, rank->step >= 0);
    rs_json_put_known(json, "step_duration_ns", rank->step_duration_ns,
                      rank->step_duration_ns != 0);
    rs_json_put_known(json, "own_ns", rank->own_ns, rank->own_ns > 0);
    rs_json_put_text(json, "capture", rank->capture);
    rs_json_out_key(json, "can_capture");
    rs_json_out_bool(json, rank->can_capture);
    activities_json(json, rank);
    rs_json_put_known(json, "free_disk_bytes", (int64_t)rank->free_disk_bytes,
                      rank->free_disk_bytes > 0);
    roles_json(json, rank);
    rs_json_out_key(json, "events_dropped");
    rs_json_out_uint(json, rank->events_dropped);
    rs_json_put_int(json, "seen_ns", rank->seen_ns);
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
        rs_json_put_string(&json, "daemon", set->daemon);
        rs_json_put_string(&json, "node", set->node);
        rs_json_put_string(&json, "collector", set->instance);
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
    rs_json_put_int(&json, "schema_version", SCHEMA_VERSION);
    rs_json_put_text(&json, "away", table->away);
    rs_json_put_int(&json, "now_ns", table->now_ns);
    rs_json_out_key(&json, "aggregators");
    rs_json_out_array(&json);
    for (size_t i = 0; i < table->n_aggregators; i++) {
        const Rankscope__AggregatorState *one = table->aggregators[i];
        rs_json_out_object(&json);
        rs_json_put_string(&json, "id", one->id);
        rs_json_put_string(&json, "state", one->state);
        rs_json_put_string(&json, "host", one->host);
        rs_json_put_string(&json, "address", one->address);
        rs_json_put_text(&json, "http", one->http);
        rs_json_put_string(&json, "version", one->version);
        rs_json_put_int(&json, "epoch", (int64_t)one->epoch);
        rs_json_put_int(&json, "began_ns", one->began_ns);
        rs_json_put_int(&json, "seen_ns", one->seen_ns);
        rs_json_put_known(&json, "captures", one->captures, one->captures >= 0);
        rs_json_put_known(&json, "open", one->open, one->open >= 0);
        rs_json_out_key(&json, "is_self");
        rs_json_out_bool(&json, one->is_self);
        rs_json_out_key(&json, "is_double");
        rs_json_out_bool(&json, one->is_double);
        rs_json_out_end(&json);
    }
    rs_json_out_end(&json);
    rs_json_out_end(&json);
}
