/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request to a capture.
 *
 *   run --> its live ranks as a table --> rs_request_validate() --> refused: in the capture, with every rule
 *                                                              --> accepted: PREPARE goes out
 *                                                              --> a rank records already: the capture waits
 *
 * One request waits per run. Which ranks it is for is decided when it is asked, since that is what the
 * answer said; when its turn comes they are validated again, because a rank may be gone or past the start by then.
 */
#include "aggregator/capture/coord_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNKNOWN_LISTED_MAX = 256 }; /* ranks that are not there and stand in the capture */

/* ---- who is there ---------------------------------------------------------------------------------- */

/* The live ranks of a run, ascending, as the validation wants them; each with what was seen of it. */
struct table {
    struct rs_request_rank *ranks;
    const struct rs_coord_seen **seen;
    size_t count;
    uint32_t world;
};

static void table_fini(struct table *table)
{
    rs_mem_free(table->ranks);
    rs_mem_free(table->seen);
}

/* By rank; of one rank the newest first. */
static int by_rank(const void *left, const void *right)
{
    const struct rs_coord_seen *a = *(const struct rs_coord_seen *const *)left;
    const struct rs_coord_seen *b = *(const struct rs_coord_seen *const *)right;
    if (a->rank != b->rank)
        return a->rank > b->rank ? 1 : -1;
    return (a < b) - (a > b);
}

/* What a capture of so many steps of this rank comes to, as its last one did; 0 unknown. Packed bytes are fewer than those the
 * profiler writes: what is short of them is short in any case. */
static int64_t estimate_of(const struct rs_coord_seen *seen,
                           const struct rs_capture_request *request)
{
    const double steps = (double)request->schedule.active + request->schedule.warmup.value;
    return request->duration_ms ? 0 : (int64_t)fmin((double)seen->step_bytes * steps, 1e18);
}

/* What its profiler records, as far as its process has it; 0 unknown. */
static uint32_t activities_of(const struct rs_coord_seen *seen)
{
    const uint32_t known = rs_adapter_activities(seen->adapter.number);
    return seen->activities ? known & seen->activities : known;
}

static void fill_row(const struct rs_coord_seen *seen, const struct rs_capture_request *request,
                     struct rs_request_rank *rank)
{
    const bool is_known = seen->step >= 0;
    *rank = (struct rs_request_rank){.row = {.rank = seen->rank,
                                             .node = seen->host,
                                             .step_time_ns = seen->step_duration_ns,
                                             .self_time_ns = seen->self_time_ns},
                                     .adapter = &seen->adapter,
                                     .is_step_known = is_known,
                                     .step = is_known ? seen->step : 0,
                                     .world = seen->world,
                                     .activities = activities_of(seen),
                                     .free_disk_bytes = seen->free_disk_bytes,
                                     .free_memory_bytes = seen->free_memory_bytes,
                                     .glibc_major = (uint16_t)(seen->glibc >> 16),
                                     .glibc_minor = (uint16_t)(seen->glibc & 0xffff),
                                     .estimated_bytes = estimate_of(seen, request),
                                     .last_start = seen->last_start,
                                     .last_stop = seen->last_stop};
    memcpy(rank->row.role, seen->role, sizeof rank->row.role);
}

/* `only`: the ranks that wait in this capture; NULL: all. */
static enum rs_status table_fill(const struct rs_coord *coord, const char *run,
                                 const struct rs_capture_request *request,
                                 const struct rs_coord_capture *only, struct table *table)
{
    table->seen = rs_mem_calloc(coord->seen.count + 1, sizeof(const struct rs_coord_seen *));
    table->ranks = rs_mem_calloc(coord->seen.count + 1, sizeof *table->ranks);
    if (!table->seen || !table->ranks)
        return RS_NOMEM;
    size_t count = 0;
    for (size_t i = 0; i < coord->seen.count; i++) {
        const struct rs_coord_seen *seen = &coord->seen.items[i];
        if (!seen_is_live(seen) || strcmp(seen->run, run) != 0)
            continue;
        if (seen->world > table->world)
            table->world = seen->world;
        const struct rs_coord_rank *member = only ? member_find(only, seen->rank, NULL) : NULL;
        if (!only || (member && member->state == RS_PROGRESS_WAITING))
            table->seen[count++] = seen;
    }
    if (count > 1)
        qsort(table->seen, count, sizeof(const struct rs_coord_seen *), by_rank);
    for (size_t i = 0; i < count; i++) {
        if (table->count && table->seen[table->count - 1]->rank == table->seen[i]->rank)
            continue;
        table->seen[table->count] = table->seen[i];
        fill_row(table->seen[i], request, &table->ranks[table->count++]);
    }
    return RS_OK;
}

static size_t table_find(const struct table *table, uint32_t rank)
{
    size_t low = 0;
    size_t high = table->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (table->ranks[middle].row.rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->count && table->ranks[low].row.rank == rank ? low : table->count;
}

/* What the ask, then its metadata, then the aggregator's file say, then its collector, then earlier captures; the first
 * that knows a role counts. */
static enum rs_status table_add_roles(struct rs_coord *coord, const struct rs_coord_ask *ask,
                                      struct table *table, struct rs_err *err)
{
    struct rs_roles roles[2] = {{0}, {0}};
    const struct rs_roles *all[3] = {seen_roles(coord, table->world), NULL, NULL};
    const struct rs_request_pairs *metadata = &ask->request->metadata;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < metadata->count; i++) {
        const char *value = metadata->items[i].value;
        /* That it gives no roles is a note of the validation. */
        if (strcmp(metadata->items[i].key, "distributed_args") == 0 &&
            rs_roles_from_json(value, strlen(value), table->world, &roles[0], NULL) == RS_OK)
            all[1] = &roles[0];
    }
    if (ask->roles && *ask->roles) {
        status = rs_roles_from_json(ask->roles, strlen(ask->roles), table->world, &roles[1], err);
        all[2] = status == RS_OK ? &roles[1] : NULL;
    }
    for (size_t k = 0; k < sizeof all / sizeof all[0] && status == RS_OK; k++)
        for (size_t i = 0; all[k] && i < table->count; i++)
            rs_roles_apply(all[k], &table->ranks[i].row);
    rs_roles_fini(&roles[0]);
    rs_roles_fini(&roles[1]);
    return status;
}

/* ---- who is busy ----------------------------------------------------------------------------------- */

static bool is_under_way(const struct rs_coord_capture *capture, const char *run)
{
    return !capture->is_files && !capture->is_closing &&
           (capture->state == RS_CAPTURE_ARMING || capture->state == RS_CAPTURE_RECORDING) &&
           strcmp(capture->run, run) == 0;
}

bool rank_is_busy(const struct rs_coord *coord, const char *run, uint32_t rank,
                  const struct rs_coord_capture *but)
{
    for (size_t i = 0; i < coord->capture_count; i++) {
        const struct rs_coord_capture *capture = coord->captures[i];
        if (capture != but && is_under_way(capture, run) && member_find_open(capture, rank))
            return true;
    }
    return false;
}

struct rs_coord_capture *queue_find(const struct rs_coord *coord, const char *run)
{
    for (size_t i = 0; i < coord->capture_count; i++) {
        struct rs_coord_capture *capture = coord->captures[i];
        if (capture->state == RS_CAPTURE_QUEUED && !capture->is_closing &&
            strcmp(capture->run, run) == 0)
            return capture;
    }
    return NULL;
}

static bool is_same_file(const struct rs_coord_capture *waiting, const struct rs_coord_ask *ask)
{
    return waiting && ask->origin_file && *ask->origin_file &&
           strcmp(waiting->key, ask->origin_file) == 0;
}

static void table_mark_busy(const struct rs_coord *coord, const char *run,
                            const struct rs_coord_ask *ask, struct table *table)
{
    const struct rs_coord_capture *waiting = queue_find(coord, run);
    for (size_t i = 0; i < coord->capture_count; i++) {
        const struct rs_coord_capture *capture = coord->captures[i];
        if (!is_under_way(capture, run))
            continue;
        for (size_t k = 0; k < capture->rank_count; k++) {
            const size_t at = table_find(table, capture->ranks[k].rank);
            if (at < table->count && !rs_progress_is_final(capture->ranks[k].state))
                table->ranks[at].is_busy = true;
        }
    }
    for (size_t i = 0; i < table->count; i++) {
        table->ranks[i].has_pending = waiting != NULL;
        table->ranks[i].is_pending_other = waiting && !is_same_file(waiting, ask);
    }
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static enum rs_status choose_run(const struct rs_coord *coord, const struct rs_coord_ask *ask,
                                 char *run, size_t bytes, struct rs_err *err)
{
    const char *asked = ask->request->job_id;
    const char *user = ask->user ? ask->user : "";
    char names[400];
    const size_t count = seen_name_runs(coord, user, names, sizeof names);
    if (count == 0)
        return rs_err_set(err, RS_NOTFOUND, "no live rank%s%s is known that can record",
                          *user ? " of " : "", user);
    if (!*asked && count > 1)
        return rs_err_set(err, RS_INVALID, "which run is not clear, give --run: %s", names);
    for (size_t i = 0; i < coord->seen.count; i++) {
        const struct rs_coord_seen *seen = &coord->seen.items[i];
        if (seen_is_live(seen) && (!*asked || strcmp(seen->run, asked) == 0) &&
            (!*user || strcmp(seen->user, user) == 0)) {
            (void)snprintf(run, bytes, "%s", seen->run);
            return RS_OK;
        }
    }
    if (ask->is_of_one_run)
        return rs_err_set(err, RS_NOTFOUND, "run %.60s has no live rank", asked);
    return rs_err_set(err, RS_NOTFOUND, "there is no run %.60s; there is: %s", asked, names);
}

/* ---- the answer -------------------------------------------------------------------------------------------- */

static bool has_rule(const struct rs_request_notes *notes, enum rs_request_rule rule)
{
    for (size_t i = 0; i < notes->count; i++)
        if (notes->items[i].rule == rule)
            return true;
    return false;
}

static size_t add_refusals(const struct rs_request_notes *notes, char *text, size_t bytes,
                           size_t used)
{
    for (size_t i = 0; i < notes->count && used < bytes; i++) {
        const struct rs_request_note *note = &notes->items[i];
        const struct rs_rule *rule = rs_request_rule(note->rule);
        if (rule->severity == RS_SEVERITY_REFUSED)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s%s%s", used ? "; " : "",
                                     rule->sentence, *note->text ? ": " : "", note->text);
    }
    return used;
}

/* Why this rank is refused: every rule. */
static void say_why(const struct rs_request_answer *answer, const struct rs_rank_answer *one,
                    char *text, size_t bytes)
{
    text[0] = '\0';
    const size_t used = add_refusals(&answer->notes, text, bytes, 0);
    (void)add_refusals(&one->notes, text, bytes, used);
}

/* The adapter of the first rank that can (or cannot) do it; NULL: none. */
static const struct rs_adapter *who_can(const struct table *table,
                                        const struct rs_request_answer *answer,
                                        enum rs_capability capability, bool is_able)
{
    for (size_t i = 0; i < answer->count; i++) {
        const size_t at = table_find(table, answer->ranks[i].rank);
        if (at < table->count && adapter_can(table->ranks[at].adapter, capability) == is_able)
            return table->ranks[at].adapter;
    }
    return NULL;
}

/* What the whole of it comes to when not one rank may go on, or all have to wait behind another that waits. */
static enum rs_status sum_up(const struct rs_coord *coord, const struct rs_coord_ask *ask,
                             const struct table *table, const char *run,
                             const struct rs_request_answer *answer, enum rs_status decided,
                             struct rs_err *err)
{
    const struct rs_capture_request *request = ask->request;
    char why[400];
    if (answer->notes.refusal_count) {
        why[0] = '\0';
        (void)add_refusals(&answer->notes, why, sizeof why, 0);
        return rs_err_set(err, rs_request_notes_status(&answer->notes), "%s", why);
    }
    if (has_rule(&answer->notes, RS_RULE_START_NEVER))
        return rs_err_set(err, RS_REFUSED, "start_step is 0: nothing is captured");
    const struct rs_adapter *stepless = who_can(table, answer, RS_CAP_KNOWS_STEP, false);
    if (stepless && request->start_step > 0)
        return rs_err_set(err, RS_INVALID,
                          "--start-step needs ranks that report their step; those of %s do not: "
                          "use --roundup",
                          stepless->title);
    if (stepless && request->start_time_ns && !request->duration_ms)
        return rs_err_set(err, RS_INVALID,
                          "start_time_ns goes with a duration: ranks of %s count steps from a "
                          "multiple of iterations",
                          stepless->title);
    for (size_t i = 0; i < answer->count; i++) {
        const struct rs_coord_capture *waiting = queue_find(coord, run);
        if (waiting && has_rule(&answer->ranks[i].notes, RS_RULE_QUEUE_FULL))
            return rs_err_set(err, RS_REFUSED,
                              "rank %u records already, and capture %s waits for its turn",
                              answer->ranks[i].rank, waiting->id);
    }
    return decided;
}

/* ---- making it ------------------------------------------------------------------------------------------- */

static enum rs_status add_answered(struct rs_coord_capture *capture, const struct table *table,
                                   const struct rs_request_answer *answer, rs_ns now)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < answer->count && status == RS_OK; i++) {
        const struct rs_rank_answer *one = &answer->ranks[i];
        const struct rs_coord_seen *seen = table->seen[table_find(table, one->rank)];
        struct rs_coord_rank rank = {
            .rank = one->rank, .step = seen->step, .adapter = seen->adapter};
        struct rs_coord_rank *member = NULL;
        (void)snprintf(rank.incarnation, sizeof rank.incarnation, "%s", seen->incarnation);
        (void)snprintf(rank.host, sizeof rank.host, "%s", seen->host);
        status = member_add(capture, &rank, now, &member);
        if (status == RS_OK && one->decision == RS_DECISION_REFUSED) {
            char why[RS_COORD_REASON_BYTES];
            say_why(answer, one, why, sizeof why);
            member_move(capture, member, RS_PROGRESS_REFUSED, why, now);
        } else if (status == RS_OK) {
            capture_add_adapter(capture, &seen->adapter);
        }
    }
    return status;
}

/* Named, and not there: they stand in the capture, so that it is not complete; very many only in its reason. */
static enum rs_status add_unknown(const struct rs_coord *coord, struct rs_coord_capture *capture,
                                  const struct rs_request_answer *answer, rs_ns now)
{
    const struct rs_rank_set *chosen = &answer->chosen;
    enum rs_status status = RS_OK;
    size_t listed = 0;
    uint64_t all = 0;
    for (size_t i = 0; i < chosen->unknown_count && status == RS_OK; i++) {
        const struct rs_rank_range *range = &chosen->unknown[i];
        all += (uint64_t)range->last - range->first + 1;
        for (uint32_t rank = range->first;
             rank <= range->last && listed < UNKNOWN_LISTED_MAX && status == RS_OK; rank++) {
            const struct rs_coord_seen *seen = seen_find(coord, capture->run, rank, NULL);
            const struct rs_coord_rank missing = {.rank = rank, .step = -1};
            struct rs_coord_rank *member = NULL;
            status = member_add(capture, &missing, now, &member);
            if (status < 0)
                break;
            listed++;
            member_move(capture, member, RS_PROGRESS_REFUSED,
                        !seen ? "there is no such live rank in this run"
                        : !seen->can_capture && seen->state != RS_RANK_GONE
                            ? "there is no such live rank in this run: it is known from files only"
                            : "there is no such live rank in this run: it has ended",
                        now);
        }
    }
    if (all > listed)
        (void)snprintf(capture->remark, sizeof capture->remark,
                       "%" PRIu64 " more ranks that were named are not in the run", all - listed);
    if (chosen->remark_count && !*capture->remark)
        (void)snprintf(capture->remark, sizeof capture->remark, "%.400s", chosen->remarks[0]);
    return status;
}

static void fill_capture(struct rs_coord_capture *capture, const struct rs_coord_ask *ask,
                         const struct table *table, rs_ns now)
{
    const struct rs_capture_request *request = capture->request;
    capture->steps = request->duration_ms ? 0 : request->schedule.active;
    capture->duration_ns = (rs_dur)request->duration_ms * RS_NS_PER_MS;
    capture->profile = (struct rs_coord_profile){
        .roundup = request->roundup, .timeout_ns = (rs_dur)request->timeout_ms * RS_NS_PER_MS};
    capture->start_step = request->start_step > 0 ? request->start_step : -1;
    capture->world = table->world;
    capture->opened_at = capture->moved_at = now;
    (void)snprintf(capture->id, sizeof capture->id, "%s", request->capture_id);
    (void)snprintf(capture->key, sizeof capture->key, "%s",
                   ask->origin_file ? ask->origin_file : "");
}

/* The capture, not yet in the coordinator's list. */
static enum rs_status make_capture(const struct rs_coord *coord, const struct rs_coord_ask *ask,
                                   const struct table *table, const char *run,
                                   const struct rs_request_answer *answer, rs_ns now,
                                   struct rs_coord_capture **capture_p)
{
    struct rs_coord_capture *capture = capture_new();
    struct rs_capture_request *request = rs_mem_calloc(1, sizeof *request);
    enum rs_status status = capture && request ? rs_request_copy(ask->request, request) : RS_NOMEM;
    if (status < 0) {
        rs_mem_free(request);
        capture_free(capture);
        return RS_NOMEM;
    }
    capture->request = request;
    (void)snprintf(capture->run, sizeof capture->run, "%s", run);
    (void)snprintf(capture->owner, sizeof capture->owner, "%s", rs_coord_owner(coord, run));
    (void)snprintf(capture->account, sizeof capture->account, "%s",
                   ask->account ? ask->account : "");
    (void)snprintf(request->job_id, sizeof request->job_id, "%s", run);
    if (ask->shapes_by_default && who_can(table, answer, RS_CAP_SHAPES_FOR_BYTES, true))
        request->record_shapes = true;
    fill_capture(capture, ask, table, now);
    status = add_answered(capture, table, answer, now);
    if (status == RS_OK)
        status = add_unknown(coord, capture, answer, now);
    if (status < 0)
        capture_free(capture);
    else
        *capture_p = capture;
    return status;
}

/* What the first busy rank records for. */
static const char *busy_with(const struct rs_coord *coord, const struct rs_coord_capture *waiting)
{
    for (size_t i = 0; i < coord->capture_count; i++) {
        const struct rs_coord_capture *capture = coord->captures[i];
        if (capture == waiting || !is_under_way(capture, waiting->run))
            continue;
        for (size_t k = 0; k < waiting->rank_count; k++)
            if (member_find_open(capture, waiting->ranks[k].rank))
                return capture->id;
    }
    return "another";
}

static void replace_waiting(struct rs_coord *coord, struct rs_coord_capture *waiting,
                            const struct rs_coord_ask *ask, const char *by, rs_ns now)
{
    char why[RS_COORD_REASON_BYTES];
    if (!waiting || waiting->is_closing || !is_same_file(waiting, ask))
        return;
    (void)snprintf(why, sizeof why, "replaced before it began: a later edit of %.200s %s%.60s",
                   ask->origin_file, by ? "is capture " : "asks for nothing", by ? by : "");
    queue_drop(coord, waiting, why, now);
}

static enum rs_status begin_capture(struct rs_coord *coord, const struct rs_coord_ask *ask,
                                    struct rs_coord_capture *capture, bool must_wait, rs_ns now,
                                    struct rs_err *err)
{
    struct rs_coord_capture *waiting = queue_find(coord, capture->run);
    capture->state = must_wait ? RS_CAPTURE_QUEUED : RS_CAPTURE_ARMING;
    if (must_wait)
        (void)snprintf(capture->reason, sizeof capture->reason, "waits for capture %s",
                       busy_with(coord, capture));
    enum rs_status status = coord->options.ops->create(coord->options.self, capture, err);
    if (status == RS_OK && capture_add(coord, capture) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory for a capture");
    if (status < 0)
        return status;
    replace_waiting(coord, waiting, ask, capture->id, now);
    capture->is_changed = true;
    capture_save(coord, capture);
    capture->asked_at = now;
    if (!must_wait)
        messages_send(coord, capture, RS_PROGRESS_WAITING, coord->options.ops->prepare);
    return RS_OK;
}

static enum rs_status set_raw(struct rs_coord_capture *capture, const struct rs_coord_ask *ask,
                              const struct table *table, struct rs_err *err)
{
    struct rs_rank_row *rows = rs_mem_calloc(table->count + 1, sizeof *rows);
    if (!rows)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    for (size_t i = 0; i < table->count; i++)
        rows[i] = table->ranks[i].row;
    const enum rs_status status = raw_policy_set(capture, ask->raw, rows, table->count, err);
    rs_mem_free(rows);
    return status;
}

static enum rs_status start_in_run(struct rs_coord *coord, const struct rs_coord_ask *ask,
                                   const char *run, rs_ns now, struct table *table,
                                   struct rs_request_answer *answer,
                                   struct rs_coord_capture **capture_p, struct rs_err *err)
{
    rs_coord_infer_roles(coord, run);
    enum rs_status status = ask->raw ? rs_coord_check_raw(ask->raw, err) : RS_OK;
    if (status < 0)
        return status;
    status = table_fill(coord, run, ask->request, NULL, table);
    if (status == RS_OK)
        status = table_add_roles(coord, ask, table, err);
    if (status < 0)
        return status == RS_NOMEM ? rs_err_set(err, status, "no memory for a capture") : status;
    table_mark_busy(coord, run, ask, table);
    status = rs_request_validate(ask->request, table->ranks, table->count, NULL, answer, err);
    if (status != RS_NOMEM)
        status = sum_up(coord, ask, table, run, answer, status, err);
    if (!ask->is_dry && (has_rule(&answer->notes, RS_RULE_START_NEVER) ||
                         has_rule(&answer->notes, RS_RULE_RANK_LIST_EMPTY)))
        replace_waiting(coord, queue_find(coord, run), ask, NULL, now);
    if (status < 0 || ask->is_dry)
        return status;
    struct rs_coord_capture *capture = NULL;
    if (make_capture(coord, ask, table, run, answer, now, &capture) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    const enum rs_status raw = set_raw(capture, ask, table, err);
    if (raw < 0) {
        capture_free(capture);
        return raw;
    }
    const bool must_wait = answer->decision_count[RS_DECISION_QUEUED] > 0;
    const enum rs_status begun = begin_capture(coord, ask, capture, must_wait, now, err);
    if (begun < 0) {
        capture_free(capture);
        return begun;
    }
    *capture_p = capture;
    return status;
}

enum rs_status rs_coord_start(struct rs_coord *coord, const struct rs_coord_ask *ask, rs_ns now,
                              struct rs_request_answer *answer, struct rs_coord_capture **capture_p,
                              struct rs_err *err)
{
    char run[RS_COORD_TEXT_BYTES];
    struct table table = {0};
    *capture_p = NULL;
    enum rs_status status = choose_run(coord, ask, run, sizeof run, err);
    if (status == RS_OK)
        status = start_in_run(coord, ask, run, now, &table, answer, capture_p, err);
    table_fini(&table);
    return status;
}

/* ---- its turn ---------------------------------------------------------------------------------------------- */

/* A rank that waited, now: as it is seen, or refused. */
static enum rs_status renew_member(struct rs_coord_capture *capture, size_t index,
                                   const struct table *table,
                                   const struct rs_request_answer *answer, rs_ns now)
{
    struct rs_coord_rank *member = &capture->ranks[index];
    const size_t at = table_find(table, member->rank);
    if (at == table->count) {
        member_move(capture, member, RS_PROGRESS_LOST, "it ended while the capture waited", now);
        return RS_OK;
    }
    const struct rs_coord_seen *seen = table->seen[at];
    if (strcmp(seen->incarnation, member->incarnation) != 0) {
        struct rs_coord_rank fresh = {.rank = seen->rank};
        (void)snprintf(fresh.incarnation, sizeof fresh.incarnation, "%s", seen->incarnation);
        (void)snprintf(fresh.host, sizeof fresh.host, "%s", seen->host);
        member_move(capture, member, RS_PROGRESS_LOST,
                    "its process was started again while the capture waited", now);
        if (member_add(capture, &fresh, now, &member) < 0)
            return RS_NOMEM;
    }
    member->adapter = seen->adapter;
    member->step = seen->step;
    member->moved_at = now;
    /* answer->ranks and the table hold the same ranks, ascending: "all" was validated. */
    const struct rs_rank_answer *one = &answer->ranks[at];
    if (one->decision == RS_DECISION_REFUSED) {
        char why[RS_COORD_REASON_BYTES];
        say_why(answer, one, why, sizeof why);
        member_move(capture, member, RS_PROGRESS_REFUSED, why, now);
    } else {
        capture_add_adapter(capture, &seen->adapter);
    }
    return RS_OK;
}

static enum rs_status validate_again(const struct rs_coord *coord, struct rs_coord_capture *capture,
                                     rs_ns now)
{
    struct rs_capture_request request;
    struct rs_request_answer answer = {0};
    struct table table = {0};
    enum rs_status status = rs_request_copy(capture->request, &request);
    if (status < 0)
        return status;
    (void)snprintf(request.ranks, sizeof request.ranks, "all");
    request.is_rank = false;
    request.on_busy = RS_ON_BUSY_REFUSE;
    status = table_fill(coord, capture->run, capture->request, capture, &table);
    if (status == RS_OK)
        status = rs_request_validate(&request, table.ranks, table.count, NULL, &answer, NULL);
    const size_t count = capture->rank_count; /* without those that are added */
    for (size_t i = 0; i < count && status != RS_NOMEM; i++)
        if (capture->ranks[i].state == RS_PROGRESS_WAITING &&
            renew_member(capture, i, &table, &answer, now) < 0)
            status = RS_NOMEM;
    rs_request_answer_fini(&answer);
    table_fini(&table);
    rs_request_fini(&request);
    return status == RS_NOMEM ? status : RS_OK;
}

void queue_start(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    if (validate_again(coord, capture, now) < 0) {
        queue_drop(coord, capture, "no memory to begin it", now);
        return;
    }
    capture->reason[0] = '\0';
    capture->opened_at = capture->moved_at = capture->asked_at = now;
    capture->is_changed = true;
    if (!capture->counts[RS_PROGRESS_WAITING]) {
        capture_close(coord, capture);
        return;
    }
    capture->state = RS_CAPTURE_ARMING;
    capture_save(coord, capture);
    messages_send(coord, capture, RS_PROGRESS_WAITING, coord->options.ops->prepare);
}
