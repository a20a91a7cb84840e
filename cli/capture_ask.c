/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options and files become one request.
 *
 *     --request FILE (our document) | --config FILE (profiler_config.json) | the defaults of the command line
 *          <-- the flags that have names of their own <-- --set MEMBER=VALUE, in the order they were given
 *
 * What is wrong with it is found before anybody is connected to: every rule, not only the first.
 */
#include "cli/capture.h"
#include "cli/cli.h"
#include "common/base/file.h"
#include "common/base/lend.h"
#include "common/base/mem.h"
#include "common/base/time.h"
#include "common/request/roles.h"
#include "common/wire/request_message.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROLES_SENT_MAX_BYTES = 3 << 20, /* a message holds 4 MiB */
    LENGTH_MAX_S = 86400,
};

/* What only who reads the file can say; all else is in the answer. */
static bool is_of_reading(enum rs_request_rule rule)
{
    return rule == RS_RULE_ACTIVITY_UNKNOWN || rule == RS_RULE_EXPORT_UNKNOWN ||
           rule == RS_RULE_MSPROF_TX || rule == RS_RULE_NUMBERED_NAME;
}

/* "FILE:LINE:COLUMN: error: ..." of everything that is refused, "warning: ..." of what the file says and the request does not. */
static void report_notes(const char *path, const struct rs_request_notes *notes)
{
    struct rs_buf buf = {0};
    for (size_t i = 0; i < notes->count; i++) {
        const struct rs_request_note *note = &notes->items[i];
        if (rs_request_rule(note->rule)->severity != RS_SEVERITY_REFUSED &&
            !is_of_reading(note->rule))
            continue;
        rs_buf_string(&buf, path);
        if (note->line)
            rs_buf_printf(&buf, ":%u:%u", note->line, note->column);
        rs_buf_string(&buf, ": ");
        rs_request_note_print(note, &buf);
        rs_buf_u8(&buf, '\n');
    }
    fprintf(stderr, "%s", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

/* ---- where it begins -------------------------------------------------------------------------------------- */

static enum rs_status read_file(const struct capture_words *words,
                                struct capture_question *question, struct rs_err *err)
{
    const char *path = words->config ? words->config : words->document;
    struct rs_buf text = {0};
    struct rs_request_notes notes = {0};
    enum rs_config_framework framework = RS_CONFIG_DETECT;
    enum rs_status status = rs_file_read(path, RS_REQUEST_READ_MAX_BYTES, &text, err);
    if (status == RS_OK && words->config)
        status = rs_request_from_config(rs_buf_text(&text), text.length, &framework,
                                        &question->request, &notes, err);
    else if (status == RS_OK)
        status =
            rs_request_from_json(rs_buf_text(&text), text.length, &question->request, &notes, err);
    if (status == RS_OK || status == RS_INVALID)
        report_notes(path, &notes);
    if (status == RS_INVALID) {
        status = rs_err_set(err, RS_INVALID, "%s: %zu %s", path, notes.refusal_count,
                            notes.refusal_count == 1 ? "error" : "errors");
    }
    rs_request_notes_fini(&notes);
    rs_buf_fini(&text);
    if (status == RS_OK && words->config) {
        char whole[PATH_MAX];
        question->origin_file = rs_mem_strdup(realpath(path, whole) ? whole : path);
        if (!question->origin_file)
            status = rs_err_set(err, RS_NOMEM, "no memory for a request");
    }
    return status;
}

static enum rs_status begin(const struct capture_words *words, struct capture_question *question,
                            struct rs_err *err)
{
    if (words->config && words->document)
        return rs_err_set(err, RS_INVALID, "--config and --request exclude each other");
    if (words->config || words->document)
        return read_file(words, question, err);
    if (rs_request_init(&question->request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a request");
    return RS_OK;
}

/* ---- flags ------------------------------------------------------------------------------------------------- */

static bool sets(const struct capture_words *words, const char *member)
{
    const size_t length = strlen(member);
    for (size_t i = 0; i < words->sets.count; i++)
        if (strncmp(words->sets.items[i], member, length) == 0 &&
            words->sets.items[i][length] == '=')
            return true;
    return false;
}

static enum rs_status check_words(const struct capture_words *words, struct rs_err *err)
{
    const bool is_from_file = words->config || words->document;
    const bool has_length = is_from_file || sets(words, "schedule.active") ||
                            sets(words, "duration_ms") || words->steps || words->duration_ns;
    if (words->must_shapes && words->has_no_shapes)
        return rs_err_set(err, RS_INVALID,
                          "--record-shapes and --no-record-shapes exclude each other");
    if (!has_length || (words->steps && words->duration_ns))
        return rs_err_set(err, RS_INVALID,
                          "give how many steps to record (--steps N), or how long (--duration D)%s",
                          has_length ? ", not both" : "");
    if (words->duration_ns && words->duration_ns < RS_NS_PER_MS)
        return rs_err_set(err, RS_INVALID, "--duration is shorter than a millisecond");
    if (words->duration_ns > LENGTH_MAX_S * (rs_dur)RS_NS_PER_S ||
        words->timeout_ns > LENGTH_MAX_S * (rs_dur)RS_NS_PER_S)
        return rs_err_set(err, RS_INVALID, "--duration and --timeout are at most a day");
    if (words->on_busy && strcmp(words->on_busy, "queue") != 0 &&
        strcmp(words->on_busy, "refuse") != 0)
        return rs_err_set(err, RS_INVALID, "--on-busy is queue or refuse, not \"%.40s\"",
                          words->on_busy);
    return RS_OK;
}

static enum rs_status take_texts(const struct capture_words *words, struct rs_capture_request *r,
                                 struct rs_err *err)
{
    if (words->run && strlen(words->run) >= sizeof r->job_id)
        return rs_err_set(err, RS_INVALID, "--run is longer than %zu bytes", sizeof r->job_id - 1);
    if (words->ranks && strlen(words->ranks) >= sizeof r->ranks)
        return rs_err_set(err, RS_INVALID, "--ranks is longer than %zu bytes", sizeof r->ranks - 1);
    if (words->run)
        (void)snprintf(r->job_id, sizeof r->job_id, "%s", words->run);
    if (words->ranks)
        (void)snprintf(r->ranks, sizeof r->ranks, "%s", words->ranks);
    return RS_OK;
}

static enum rs_status take_start(const struct capture_words *words, struct rs_capture_request *r,
                                 struct rs_err *err)
{
    int64_t step = -1;
    if (!words->start_step)
        return RS_OK;
    if (strcmp(words->start_step, "next") != 0 &&
        rs_args_int(words->start_step, 1, INT64_C(1) << 53, &step) < 0)
        return rs_err_set(err, RS_INVALID,
                          "--start-step %.40s is neither a step (from 1 on) nor \"next\"",
                          words->start_step);
    r->start_step = step;
    return RS_OK;
}

static enum rs_status take_flags(const struct capture_words *words, struct rs_capture_request *r,
                                 struct rs_err *err)
{
    enum rs_status status = take_texts(words, r, err);
    if (status == RS_OK)
        status = take_start(words, r, err);
    if (status < 0)
        return status;
    if (words->steps) {
        r->schedule.active = (uint32_t)words->steps;
        r->duration_ms = 0;
    }
    if (words->duration_ns)
        r->duration_ms = (uint32_t)((words->duration_ns + RS_NS_PER_MS - 1) / RS_NS_PER_MS);
    if (words->roundup)
        r->roundup = (uint32_t)words->roundup;
    if (words->timeout_ns)
        r->timeout_ms = (uint32_t)((words->timeout_ns + RS_NS_PER_MS - 1) / RS_NS_PER_MS);
    if (words->must_shapes || words->has_no_shapes)
        r->record_shapes = words->must_shapes;
    r->with_stack = r->with_stack || words->with_stack;
    r->profile_memory = r->profile_memory || words->profile_memory;
    r->force = r->force || words->is_forced;
    if (words->on_busy)
        r->on_busy = strcmp(words->on_busy, "refuse") == 0 ? RS_ON_BUSY_REFUSE : RS_ON_BUSY_QUEUE;
    return RS_OK;
}

static enum rs_status take_sets(const struct capture_words *words, struct rs_capture_request *r,
                                struct rs_err *err)
{
    struct rs_request_notes notes = {0};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < words->sets.count && status == RS_OK; i++) {
        const char *equals = strchr(words->sets.items[i], '=');
        char member[RS_REQUEST_MEMBER_BYTES];
        if (!equals || (size_t)(equals - words->sets.items[i]) >= sizeof member)
            status = rs_err_set(err, RS_INVALID, "--set %.60s: expected MEMBER=VALUE",
                                words->sets.items[i]);
        if (status < 0)
            break;
        (void)snprintf(member, sizeof member, "%.*s", (int)(equals - words->sets.items[i]),
                       words->sets.items[i]);
        /* Every one is looked at: what is wrong comes together. */
        if (rs_request_set(r, member, equals + 1, &notes) == RS_NOMEM)
            status = rs_err_set(err, RS_NOMEM, "no memory for a request");
    }
    if (status == RS_OK && notes.refusal_count) {
        report_notes("--set", &notes);
        status = rs_err_set(err, RS_INVALID, "%zu %s in --set", notes.refusal_count,
                            notes.refusal_count == 1 ? "error" : "errors");
    }
    rs_request_notes_fini(&notes);
    return status;
}

/* A duration that was asked for is its own limit: whether it may be so long is --force's matter. */
static void widen_limit(const struct capture_words *words, struct rs_capture_request *r)
{
    const uint32_t seconds = (r->duration_ms + 999) / 1000;
    if (words->duration_ns && !sets(words, "max_duration_s") && seconds > r->max_duration_s)
        r->max_duration_s = seconds < 86400 ? seconds : 86400;
}

static enum rs_status check_request(const struct rs_capture_request *request, struct rs_err *err)
{
    struct rs_request_notes notes = {0};
    enum rs_status status = rs_request_check(request, NULL, &notes);
    if (status == RS_INVALID) {
        report_notes("request", &notes);
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

static enum rs_status read_roles(const char *path, struct capture_question *question,
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
static void fill_old(struct capture_question *question, bool is_dry)
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

enum rs_status capture_question_make(const struct capture_words *words,
                                     struct capture_question *question, struct rs_err *err)
{
    struct rs_capture_request *request = &question->request;
    const bool is_from_file = words->config || words->document;
    enum rs_status status = check_words(words, err);
    if (status == RS_OK)
        status = begin(words, question, err);
    if (status == RS_OK)
        status = take_flags(words, request, err);
    if (status == RS_OK)
        status = take_sets(words, request, err);
    if (status == RS_OK) {
        widen_limit(words, request);
        status = check_request(request, err);
    }
    if (status == RS_OK && words->roles)
        status = read_roles(words->roles, question, err);
    if (status == RS_OK)
        status = rs_request_to_message(request, &question->message, err);
    if (status < 0)
        return status;
    rankscope__ask_start__init(&question->start);
    question->start.request = question->message;
    question->start.dry_run = words->is_dry;
    question->start.shapes_by_default = !is_from_file && !words->must_shapes &&
                                        !words->has_no_shapes && !sets(words, "record_shapes");
    question->start.raw = rs_lend(words->raw ? words->raw : "");
    question->start.roles = rs_lend(words->roles ? rs_buf_text(&question->roles) : "");
    question->start.origin_file = rs_lend(question->origin_file ? question->origin_file : "");
    fill_old(question, words->is_dry);
    return RS_OK;
}

void capture_question_fini(struct capture_question *question)
{
    rs_request_message_free(&question->message);
    rs_request_fini(&question->request);
    rs_buf_fini(&question->roles);
    rs_mem_free(question->origin_file);
}
