/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defaults, rules and notes.
 */
#include "common/request/request.h"

#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/request/request_priv.h"

#include <stdio.h>
#include <string.h>

static void init_defaults(struct rs_capture_request *r, enum rs_dialect dialect,
                          enum rs_origin origin)
{
    const bool is_mindspore = dialect == RS_DIALECT_MINDSPORE;
    const bool is_file = origin == RS_ORIGIN_CONFIG_FILE || origin == RS_ORIGIN_DP_START;
    *r = (struct rs_capture_request){
        .dialect = dialect,
        .origin = origin,
        .ranks = "all",
        .start_step = origin == RS_ORIGIN_CLI ? -1 : 0,
        .schedule = {.active = 1, .repeat = origin == RS_ORIGIN_API ? 0 : 1},
        .experimental = {.export_type = RS_EXPORT_TEXT,
                         .profiler_level = RS_LEVEL_0,
                         .data_simplification = true},
        .sample_hz = 10,
        .mindspore = {.op_time = true,
                      .parallel_strategy = !is_file,
                      .data_process = true,
                      .start_profile = true,
                      .sync_enable = true,
                      .analyse_mode = -1},
        .timeline_limit_mb = 500,
        .analyse = origin == RS_ORIGIN_API, /* K-18: on for a handler, off in the file */
        .aggregate = true,
        .max_duration_s = 300,
        .headroom_factor = 20,
    };
    (void)snprintf(r->prof_dir, sizeof r->prof_dir, "%s",
                   is_mindspore && !is_file ? "./data" : "./");
}

enum rs_status rs_request_init(struct rs_capture_request *request, enum rs_dialect dialect,
                               enum rs_origin origin)
{
    static const char *const names[] = {"ASCEND_GLOBAL_LOG_LEVEL", "HCCL_RDMA_TC", "HCCL_RDMA_SL",
                                        "ACLNN_CACHE_LIMIT"};
    init_defaults(request, dialect, origin);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (texts_add(&request->env_allow, names[i]) < 0) {
            rs_request_fini(request);
            return RS_NOMEM;
        }
    return RS_OK;
}

void rs_request_fini(struct rs_capture_request *request)
{
    ranks_fini(&request->rank_list);
    texts_fini(&request->experimental.mstx_domain_include);
    texts_fini(&request->experimental.mstx_domain_exclude);
    pairs_fini(&request->experimental.extra);
    pairs_fini(&request->metadata);
    texts_fini(&request->env_allow);
    memset(request, 0, sizeof *request);
}

static enum rs_status copy_texts(const struct rs_request_texts *from, struct rs_request_texts *to)
{
    for (size_t i = 0; i < from->count; i++)
        if (texts_add(to, from->items[i]) < 0)
            return RS_NOMEM;
    return RS_OK;
}

static enum rs_status copy_pairs(const struct rs_request_pairs *from, struct rs_request_pairs *to)
{
    for (size_t i = 0; i < from->count; i++)
        if (pairs_set(to, from->items[i].key, from->items[i].value) < 0)
            return RS_NOMEM;
    return RS_OK;
}

enum rs_status rs_request_copy(const struct rs_capture_request *request,
                               struct rs_capture_request *copy)
{
    const struct rs_request_experimental *from = &request->experimental;
    struct rs_request_experimental *to = &copy->experimental;
    *copy = *request;
    copy->rank_list = (struct rs_request_ranks){0};
    copy->metadata = to->extra = (struct rs_request_pairs){0};
    copy->env_allow = to->mstx_domain_include = to->mstx_domain_exclude =
        (struct rs_request_texts){0};
    enum rs_status status = copy_texts(&from->mstx_domain_include, &to->mstx_domain_include);
    if (status == RS_OK)
        status = copy_texts(&from->mstx_domain_exclude, &to->mstx_domain_exclude);
    if (status == RS_OK)
        status = copy_pairs(&from->extra, &to->extra);
    if (status == RS_OK)
        status = copy_pairs(&request->metadata, &copy->metadata);
    if (status == RS_OK)
        status = copy_texts(&request->env_allow, &copy->env_allow);
    for (size_t i = 0; i < request->rank_list.count && status == RS_OK; i++)
        status = ranks_add(&copy->rank_list, request->rank_list.items[i]);
    if (status < 0)
        rs_request_fini(copy);
    return status;
}

enum rs_aic_metrics rs_request_aic_metrics(const struct rs_capture_request *request)
{
    const enum rs_profiler_level level = request->experimental.profiler_level;
    if (level == RS_LEVEL_NONE || level == RS_LEVEL_0)
        return RS_AIC_NONE;
    return request->experimental.aic_metrics == RS_AIC_BY_LEVEL ? RS_AIC_PIPE_UTILIZATION
                                                                : request->experimental.aic_metrics;
}

void rs_request_activity_names(uint32_t activities, char *text, size_t size)
{
    const struct field_names *names = request_fields[F_ACTIVITIES].names;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < names->count; i++) {
        if (!(activities & names->items[i].value))
            continue;
        const int wrote =
            snprintf(text + used, size - used, "%s%s", used ? ", " : "", names->items[i].name);
        if (wrote < 0 || used + (size_t)wrote >= size)
            return;
        used += (size_t)wrote;
    }
}

bool rs_request_analyses(const struct rs_capture_request *request)
{
    return request->analyse && (!request->is_rank || request->async_mode);
}

bool rs_request_parses(const struct rs_capture_request *request)
{
    const bool is_file =
        request->origin == RS_ORIGIN_CONFIG_FILE || request->origin == RS_ORIGIN_DP_START;
    return !is_file || rs_request_analyses(request);
}

/* ---- rules ----------------------------------------------------------------------------------------------------- */

static const struct rs_rule rules[RS_RULE_COUNT] = {
#define X(id, name, severity, field, source, sentence)                                             \
    [RS_RULE_##id] = {name, RS_SEVERITY_##severity, field, source, sentence},
#include "common/request/rules.def"
#undef X
};

const struct rs_rule *rs_request_rule(enum rs_request_rule rule)
{
    return &rules[rule];
}

const char *rs_severity_name(enum rs_severity severity)
{
    switch (severity) {
    case RS_SEVERITY_WARNING:
        return "warning";
    case RS_SEVERITY_INEFFECTIVE:
        return "ineffective";
    case RS_SEVERITY_REFUSED:
        return "error";
    }
    return "?";
}

void rs_request_notes_fini(struct rs_request_notes *notes)
{
    rs_mem_free(notes->items);
    *notes = (struct rs_request_notes){0};
}

enum rs_status rs_request_notes_status(const struct rs_request_notes *notes)
{
    size_t limits = 0;
    for (size_t i = 0; i < notes->count; i++)
        limits += notes->items[i].rule == RS_RULE_DURATION_FORCE;
    if (!notes->refusal_count)
        return RS_OK;
    return limits == notes->refusal_count ? RS_REFUSED : RS_INVALID;
}

/* A note to be filled, or NULL: too many, or no memory. Counts in any case. */
static struct rs_request_note *new_note(struct rs_request_notes *notes, enum rs_request_rule rule)
{
    notes->refusal_count += rules[rule].severity == RS_SEVERITY_REFUSED;
    notes->ineffective_count += rules[rule].severity == RS_SEVERITY_INEFFECTIVE;
    if (notes->count == RS_REQUEST_NOTES_MAX) {
        notes->left_off_count++;
        return NULL;
    }
    if (rs_mem_grow((void **)&notes->items, &notes->capacity, notes->count + 1,
                    sizeof *notes->items) < 0) {
        notes->failed = true;
        return NULL;
    }
    struct rs_request_note *note = &notes->items[notes->count++];
    memset(note, 0, sizeof *note);
    note->rule = rule;
    return note;
}

/* Cuts a text that did not fit between characters, and control bytes out. */
static void tidy(char *text)
{
    size_t length = strlen(text);
    while (length && ((unsigned char)text[length - 1] & 0xc0) == 0x80)
        length--;
    if (length && (unsigned char)text[length - 1] >= 0xc0) {
        const unsigned char lead = (unsigned char)text[length - 1];
        const size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        if (strlen(text + length - 1) < wanted)
            text[length - 1] = '\0';
    }
    rs_utf8_plain(text);
}

static void fill_text(struct rs_request_note *note, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static void fill_text(struct rs_request_note *note, const char *format, va_list args)
{
    (void)vsnprintf(note->text, sizeof note->text, format, args);
    tidy(note->text);
    tidy(note->field);
}

void note_add(struct rs_request_notes *notes, enum rs_request_rule rule, size_t field,
              const char *format, ...)
{
    struct rs_request_note *note = new_note(notes, rule);
    if (!note)
        return;
    if (field < FIELD_COUNT)
        field_path(&request_fields[field], note->field, sizeof note->field);
    else
        (void)snprintf(note->field, sizeof note->field, "%s", rules[rule].field);
    va_list args;
    va_start(args, format);
    fill_text(note, format, args);
    va_end(args);
}

void note_at(struct rs_request_notes *notes, enum rs_request_rule rule, const char *key,
             const struct json_place *place, const char *format, ...)
{
    struct rs_request_note *note = new_note(notes, rule);
    if (!note)
        return;
    (void)snprintf(note->field, sizeof note->field, "%s", key);
    if (place) {
        note->line = place->line;
        note->column = place->column;
    }
    va_list args;
    va_start(args, format);
    fill_text(note, format, args);
    va_end(args);
}

void rs_request_note_print(const struct rs_request_note *note, struct rs_buf *buf)
{
    const struct rs_rule *rule = rs_request_rule(note->rule);
    rs_buf_printf(buf, "%s: ", rs_severity_name(rule->severity));
    if (*note->field)
        rs_buf_printf(buf, "%s: ", note->field);
    rs_buf_string(buf, rule->sentence);
    if (*note->text)
        rs_buf_printf(buf, ": %s", note->text);
    rs_buf_printf(buf, " [%s]", rule->name);
}
