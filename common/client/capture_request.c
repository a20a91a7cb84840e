/* SPDX-License-Identifier: Apache-2.0 */
#include "common/client/capture_request.h"

#include "common/base/file.h"
#include "common/base/lend.h"
#include "common/base/mem.h"
#include "common/base/time.h"
#include "common/request/request.h"
#include "common/request/roles.h"
#include "common/wire/request_message.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An AskStart and what it lends from. */
struct rs_capture_question {
    Rankscope__AskStart start;
    Rankscope__ProfilerOptions options;
    Rankscope__CaptureRequest *message;
    struct rs_capture_request request;
    struct rs_buf roles;
    char *origin_file;
    struct rs_buf *told; /* lent: what is wrong, a line each */
};

enum {
    ROLES_SENT_MAX_BYTES = 3 << 20, /* a message holds 4 MiB */
    LENGTH_MAX_S = 86400,
};

/* Everything that is refused, and what only who reads the file can say; all else is in the answer. */
static bool is_told(const struct rs_request_note *note)
{
    const enum rs_request_rule rule = note->rule;
    return rs_request_rule(rule)->severity == RS_SEVERITY_REFUSED ||
           rule == RS_RULE_ACTIVITY_UNKNOWN || rule == RS_RULE_EXPORT_UNKNOWN ||
           rule == RS_RULE_MSPROF_TX || rule == RS_RULE_NUMBERED_NAME;
}

/* ---- where it begins -------------------------------------------------------------------------------------- */

static enum rs_status read_file(const struct rs_capture_wanted *wanted,
                                struct rs_capture_question *question, struct rs_err *err)
{
    const char *path = wanted->config ? wanted->config : wanted->document;
    struct rs_buf text = {0};
    struct rs_request_notes notes = {0};
    enum rs_config_framework framework = RS_CONFIG_DETECT;
    enum rs_status status = rs_file_read(path, RS_REQUEST_READ_MAX_BYTES, &text, err);
    if (status == RS_OK && wanted->config)
        status = rs_request_from_config(rs_buf_text(&text), text.length, &framework,
                                        &question->request, &notes, err);
    else if (status == RS_OK)
        status =
            rs_request_from_json(rs_buf_text(&text), text.length, &question->request, &notes, err);
    if (status == RS_OK || status == RS_INVALID)
        rs_request_notes_print(path, &notes, is_told, question->told);
    if (status == RS_INVALID) {
        status = rs_err_set(err, RS_INVALID, "%s: %zu %s", path, notes.refusal_count,
                            notes.refusal_count == 1 ? "error" : "errors");
    }
    rs_request_notes_fini(&notes);
    rs_buf_fini(&text);
    if (status == RS_OK && wanted->config) {
        char whole[PATH_MAX];
        question->origin_file = rs_mem_strdup(realpath(path, whole) ? whole : path);
        if (!question->origin_file)
            status = rs_err_set(err, RS_NOMEM, "no memory for a request");
    }
    return status;
}

static enum rs_status begin(const struct rs_capture_wanted *wanted,
                            struct rs_capture_question *question, struct rs_err *err)
{
    if (wanted->config && wanted->document)
        return rs_err_set(err, RS_INVALID, "--config and --request exclude each other");
    if (wanted->config || wanted->document)
        return read_file(wanted, question, err);
    if (rs_request_init(&question->request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a request");
    return RS_OK;
}

/* ---- flags ------------------------------------------------------------------------------------------------- */

static bool sets(const struct rs_capture_wanted *wanted, const char *member)
{
    const size_t length = strlen(member);
    for (size_t i = 0; i < wanted->set_count; i++)
        if (strncmp(wanted->sets[i], member, length) == 0 && wanted->sets[i][length] == '=')
            return true;
    return false;
}

static enum rs_status check_words(const struct rs_capture_wanted *wanted, struct rs_err *err)
{
    const bool is_from_file = wanted->config || wanted->document;
    const bool has_length = is_from_file || sets(wanted, "schedule.active") ||
                            sets(wanted, "duration_ms") || wanted->steps || wanted->duration_ns;
    if (wanted->must_shapes && wanted->has_no_shapes)
        return rs_err_set(err, RS_INVALID,
                          "--record-shapes and --no-record-shapes exclude each other");
    if (!has_length || (wanted->steps && wanted->duration_ns))
        return rs_err_set(err, RS_INVALID,
                          "give how many steps to record (--steps N), or how long (--duration D)%s",
                          has_length ? ", not both" : "");
    if (wanted->duration_ns && wanted->duration_ns < RS_NS_PER_MS)
        return rs_err_set(err, RS_INVALID, "--duration is shorter than a millisecond");
    if (wanted->duration_ns > LENGTH_MAX_S * (rs_dur)RS_NS_PER_S ||
        wanted->timeout_ns > LENGTH_MAX_S * (rs_dur)RS_NS_PER_S)
        return rs_err_set(err, RS_INVALID, "--duration and --timeout are at most a day");
    if (wanted->on_busy && strcmp(wanted->on_busy, "queue") != 0 &&
        strcmp(wanted->on_busy, "refuse") != 0)
        return rs_err_set(err, RS_INVALID, "--on-busy is queue or refuse, not \"%.40s\"",
                          wanted->on_busy);
    return RS_OK;
}

static enum rs_status take_texts(const struct rs_capture_wanted *wanted,
                                 struct rs_capture_request *r, struct rs_err *err)
{
    if (wanted->run && strlen(wanted->run) >= sizeof r->job_id)
        return rs_err_set(err, RS_INVALID, "--run is longer than %zu bytes", sizeof r->job_id - 1);
    if (wanted->ranks && strlen(wanted->ranks) >= sizeof r->ranks)
        return rs_err_set(err, RS_INVALID, "--ranks is longer than %zu bytes", sizeof r->ranks - 1);
    if (wanted->run)
        (void)snprintf(r->job_id, sizeof r->job_id, "%s", wanted->run);
    if (wanted->ranks)
        (void)snprintf(r->ranks, sizeof r->ranks, "%s", wanted->ranks);
    return RS_OK;
}

static bool take_step(const char *text, int64_t *step_p)
{
    char *end = NULL;
    errno = 0;
    const long long step = strtoll(text, &end, 10);
    if (errno || end == text || *end || step < 1 || step > INT64_C(1) << 53)
        return false;
    *step_p = step;
    return true;
}

static enum rs_status take_start(const struct rs_capture_wanted *wanted,
                                 struct rs_capture_request *r, struct rs_err *err)
{
    int64_t step = -1;
    if (!wanted->start_step)
        return RS_OK;
    if (strcmp(wanted->start_step, "next") != 0 && !take_step(wanted->start_step, &step))
        return rs_err_set(err, RS_INVALID,
                          "--start-step %.40s is neither a step (from 1 on) nor \"next\"",
                          wanted->start_step);
    r->start_step = step;
    return RS_OK;
}

static enum rs_status take_flags(const struct rs_capture_wanted *wanted,
                                 struct rs_capture_request *r, struct rs_err *err)
{
    enum rs_status status = take_texts(wanted, r, err);
    if (status == RS_OK)
        status = take_start(wanted, r, err);
    if (status < 0)
        return status;
    if (wanted->steps) {
        r->schedule.active = (uint32_t)wanted->steps;
        r->duration_ms = 0;
    }
    if (wanted->duration_ns)
        r->duration_ms = (uint32_t)((wanted->duration_ns + RS_NS_PER_MS - 1) / RS_NS_PER_MS);
    if (wanted->roundup)
        r->roundup = (uint32_t)wanted->roundup;
    if (wanted->timeout_ns)
        r->timeout_ms = (uint32_t)((wanted->timeout_ns + RS_NS_PER_MS - 1) / RS_NS_PER_MS);
    if (wanted->must_shapes || wanted->has_no_shapes)
        r->record_shapes = wanted->must_shapes;
    r->with_stack = r->with_stack || wanted->with_stack;
    r->profile_memory = r->profile_memory || wanted->profile_memory;
    r->force = r->force || wanted->is_forced;
    if (wanted->on_busy)
        r->on_busy = strcmp(wanted->on_busy, "refuse") == 0 ? RS_ON_BUSY_REFUSE : RS_ON_BUSY_QUEUE;
    return RS_OK;
}

static enum rs_status take_sets(const struct rs_capture_wanted *wanted,
                                struct rs_capture_question *question, struct rs_err *err)
{
    struct rs_capture_request *r = &question->request;
    struct rs_request_notes notes = {0};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < wanted->set_count && status == RS_OK; i++) {
        const char *equals = strchr(wanted->sets[i], '=');
        char member[RS_REQUEST_MEMBER_BYTES];
        if (!equals || (size_t)(equals - wanted->sets[i]) >= sizeof member)
            status =
                rs_err_set(err, RS_INVALID, "--set %.60s: expected MEMBER=VALUE", wanted->sets[i]);
        if (status < 0)
            break;
        (void)snprintf(member, sizeof member, "%.*s", (int)(equals - wanted->sets[i]),
                       wanted->sets[i]);
        /* Every one is looked at: what is wrong comes together. */
        if (rs_request_set(r, member, equals + 1, &notes) == RS_NOMEM)
            status = rs_err_set(err, RS_NOMEM, "no memory for a request");
    }
    if (status == RS_OK && notes.refusal_count) {
        rs_request_notes_print("--set", &notes, is_told, question->told);
        status = rs_err_set(err, RS_INVALID, "%zu %s in --set", notes.refusal_count,
                            notes.refusal_count == 1 ? "error" : "errors");
    }
    rs_request_notes_fini(&notes);
    return status;
}

/* A duration that was asked for is its own limit: whether it may be so long is --force's matter. */
static void widen_limit(const struct rs_capture_wanted *wanted, struct rs_capture_request *r)
{
    const uint32_t seconds = (r->duration_ms + 999) / 1000;
    if (wanted->duration_ns && !sets(wanted, "max_duration_s") && seconds > r->max_duration_s)
        r->max_duration_s = seconds < 86400 ? seconds : 86400;
}

static enum rs_status check_request(const struct rs_capture_question *question, struct rs_err *err)
{
    struct rs_request_notes notes = {0};
    enum rs_status status = rs_request_check(&question->request, NULL, &notes);
    if (status == RS_INVALID) {
        rs_request_notes_print("request", &notes, is_told, question->told);
        status = rs_err_set(err, rs_request_notes_status(&notes),
                            "the request breaks %zu %s; nothing was started", notes.refusal_count,
                            notes.refusal_count == 1 ? "rule" : "rules");
    } else if (status < 0) {
        status = rs_err_set(err, status, "no memory for a request");
    }
    rs_request_notes_fini(&notes);
    return status;
}

/* ---- the message ---------------------------------------------------------------------------------------------- */

static enum rs_status read_roles(const char *path, struct rs_capture_question *question,
                                 struct rs_err *err)
{
    struct rs_roles roles = {0};
    enum rs_status status = rs_file_read(path, ROLES_SENT_MAX_BYTES, &question->roles, err);
    if (status == RS_OK) {
        struct rs_err why = {0};
        status = rs_roles_from_json(rs_buf_text(&question->roles), question->roles.length,
                                    RS_ROLES_WORLD_OPEN, &roles, &why);
        if (status < 0)
            status = rs_err_set(err, status, "%s: %.600s", path, why.text);
    }
    rs_roles_fini(&roles);
    return status;
}

/* An aggregator of the previous version reads these; it does not know a dry run and must find nothing to start. */
static void fill_old(struct rs_capture_question *question, bool is_dry)
{
    const struct rs_capture_request *r = &question->request;
    Rankscope__AskStart *start = &question->start;
    rankscope__profiler_options__init(&question->options);
    question->options.record_shapes = r->record_shapes || start->shapes_by_default;
    question->options.with_stack = r->with_stack;
    question->options.profile_memory = r->profile_memory;
    question->options.force = r->force;
    question->options.roundup = r->roundup;
    question->options.timeout_ns = (rs_dur)r->timeout_ms * RS_NS_PER_MS;
    start->options = &question->options;
    start->run = rs_lend(r->job_id);
    start->ranks = rs_lend(r->ranks);
    start->has_start_step = r->start_step > 0;
    start->start_step = r->start_step > 0 ? r->start_step : 0;
    if (is_dry)
        return;
    start->steps = r->duration_ms ? 0 : r->schedule.active;
    start->duration_ns = (rs_dur)r->duration_ms * RS_NS_PER_MS;
}

/* RS_OK: its request is whole. */
static enum rs_status fill_request(const struct rs_capture_wanted *wanted,
                                   struct rs_capture_question *question, struct rs_err *err)
{
    struct rs_capture_request *request = &question->request;
    enum rs_status status = check_words(wanted, err);
    if (status == RS_OK)
        status = begin(wanted, question, err);
    if (status == RS_OK)
        status = take_flags(wanted, request, err);
    if (status == RS_OK)
        status = take_sets(wanted, question, err);
    if (status == RS_OK) {
        widen_limit(wanted, request);
        status = check_request(question, err);
    }
    if (status == RS_OK && wanted->roles)
        status = read_roles(wanted->roles, question, err);
    return status == RS_OK ? rs_request_to_message(request, &question->message, err) : status;
}

enum rs_status rs_capture_question_new(const struct rs_capture_wanted *wanted, struct rs_buf *notes,
                                       struct rs_capture_question **question_p, struct rs_err *err)
{
    struct rs_capture_question *question = rs_mem_calloc(1, sizeof *question);
    if (!question)
        return rs_err_set(err, RS_NOMEM, "no memory for a request");
    question->told = notes;
    enum rs_status status = fill_request(wanted, question, err);
    if (status < 0) {
        rs_capture_question_free(&question);
        return status;
    }
    const bool is_from_file = wanted->config || wanted->document;
    const char *origin = question->origin_file ? question->origin_file : wanted->origin;
    Rankscope__AskStart *start = &question->start;
    rankscope__ask_start__init(start);
    start->request = question->message;
    start->dry_run = wanted->is_dry;
    start->shapes_by_default = !is_from_file && !wanted->must_shapes && !wanted->has_no_shapes &&
                               !sets(wanted, "record_shapes");
    start->raw = rs_lend(wanted->raw ? wanted->raw : "");
    start->roles = rs_lend(wanted->roles ? rs_buf_text(&question->roles) : "");
    start->origin_file = rs_lend(origin ? origin : "");
    fill_old(question, wanted->is_dry);
    *question_p = question;
    return RS_OK;
}

void rs_capture_question_free(struct rs_capture_question **question_p)
{
    struct rs_capture_question *question = *question_p;
    if (!question)
        return;
    rs_request_message_free(&question->message);
    rs_request_fini(&question->request);
    rs_buf_fini(&question->roles);
    rs_mem_free(question->origin_file);
    rs_mem_free(question);
    *question_p = NULL;
}

Rankscope__AskStart *rs_capture_question_message(struct rs_capture_question *question)
{
    return &question->start;
}
