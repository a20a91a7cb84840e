/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands beside the rows: whose trace it is, and from when its times count.
 *
 * The text is read with the same tolerance as rows: a value may be missing ("rank": ,).
 */
#include "collector/source/kineto_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    RANKS_MAX = 4 * 1024 * 1024, /* of one group */
    GROUPS_MAX = 64 * 1024,
    /* us since the epoch of 1973: times beyond it are absolute, for a base counts from less than a season */
    ABSOLUTE_NS = 100000000 /* s, times 1e9 below */
};

/* One member or element of an object or array whose text is at hand. */
struct item {
    struct kineto_span key;   /* between its quotes; of an element: NULL */
    struct kineto_span value; /* as written; empty when it is missing */
};

/* The item at *at_p, which is moved behind it. False: there is none. */
static bool next_item(const char **at_p, const char *end, bool is_object, struct item *item)
{
    const char *at = scan_blanks(*at_p);
    *item = (struct item){0};
    if (at >= end)
        return false;
    if (is_object) {
        bool has_escape = false;
        const char *quote = *at == '"' ? scan_string_end(at + 1, end, &has_escape) : NULL;
        if (!quote)
            return false;
        item->key = (struct kineto_span){.text = at + 1, .length = (size_t)(quote - at - 1)};
        at = scan_blanks(quote + 1);
        if (at >= end || *at != ':')
            return false;
        at = scan_blanks(at + 1);
    }
    const char *value_end = text_value_end(at, end);
    if (!value_end)
        value_end = end;
    item->value = (struct kineto_span){.text = at, .length = (size_t)(value_end - at)};
    at = scan_blanks(value_end);
    *at_p = at < end && *at == ',' ? at + 1 : end;
    return true;
}

/* Inside the brackets of an object or array; empty when it is neither. */
static struct kineto_span inside(struct kineto_span value, char opening)
{
    if (value.length < 2 || value.text[0] != opening)
        return (struct kineto_span){.text = value.text, .length = 0};
    return (struct kineto_span){.text = value.text + 1, .length = value.length - 2};
}

static enum rs_status intern_string(struct kineto *kineto, struct kineto_span value, rs_str *id_p)
{
    const struct kineto_span text = inside(value, '"');
    if (!text.length)
        return RS_OK;
    return kineto_intern(kineto, text, memchr(text.text, '\\', text.length) != NULL, id_p);
}

static int32_t small_integer(struct kineto_span value)
{
    int64_t number;
    return text_integer(value, &number) && number >= 0 && number <= INT32_MAX ? (int32_t)number
                                                                              : -1;
}

/* [0, 1] or "[0, 1]" or "[0, ..., 29, ...]": the numbers that are there. */
static enum rs_status group_ranks(struct kineto_span value, struct rs_group_info *group)
{
    if (value.length && value.text[0] == '"')
        value = inside(value, '"');
    const struct kineto_span list = inside(value, '[');
    const char *at = list.text;
    size_t capacity = 0;
    struct item item;
    while (list.length && next_item(&at, list.text + list.length, false, &item)) {
        const int32_t rank = small_integer(item.value);
        if (rank < 0 || group->rank_count >= RANKS_MAX)
            continue;
        const enum rs_status status = rs_mem_grow((void **)&group->ranks, &capacity,
                                                  group->rank_count + 1, sizeof *group->ranks);
        if (status != RS_OK)
            return status;
        group->ranks[group->rank_count++] = rank;
    }
    return RS_OK;
}

static enum rs_status add_group(struct kineto *kineto, struct kineto_span object)
{
    struct rs_trace_info *info = &kineto->stream->info;
    enum rs_status status = rs_mem_grow((void **)&info->groups, &info->group_capacity,
                                        info->group_count + 1, sizeof *info->groups);
    if (status != RS_OK)
        return status;
    struct rs_group_info *group = &info->groups[info->group_count++];
    *group = (struct rs_group_info){.name = RS_STR_NONE, .description = RS_STR_NONE, .size = -1};
    const struct kineto_span members = inside(object, '{');
    const char *at = members.text;
    struct item item;
    while (status == RS_OK && next_item(&at, members.text + members.length, true, &item)) {
        if (span_is(item.key, "pg_name") ||
            (span_is(item.key, "uid") && group->name == RS_STR_NONE))
            status = intern_string(kineto, item.value, &group->name);
        else if (span_is(item.key, "pg_desc"))
            status = intern_string(kineto, item.value, &group->description);
        else if (span_is(item.key, "pg_size"))
            group->size = small_integer(item.value);
        else if (span_is(item.key, "ranks"))
            status = group_ranks(item.value, group);
    }
    return status;
}

static enum rs_status take_groups(struct kineto *kineto, struct kineto_span value)
{
    const struct kineto_span list = inside(value, '[');
    const char *at = list.text;
    struct item item;
    enum rs_status status = RS_OK;
    while (status == RS_OK && kineto->stream->info.group_count < GROUPS_MAX &&
           next_item(&at, list.text + list.length, false, &item)) {
        if (item.value.length && item.value.text[0] == '{')
            status = add_group(kineto, item.value);
    }
    return status;
}

static enum rs_status take_distributed(struct kineto *kineto, struct kineto_span value)
{
    struct rs_trace_info *info = &kineto->stream->info;
    const struct kineto_span members = inside(value, '{');
    const char *at = members.text;
    struct item item;
    enum rs_status status = RS_OK;
    while (status == RS_OK && next_item(&at, members.text + members.length, true, &item)) {
        if (span_is(item.key, "rank"))
            info->rank = small_integer(item.value);
        else if (span_is(item.key, "world_size"))
            info->world_size = small_integer(item.value);
        else if (span_is(item.key, "backend"))
            status = intern_string(kineto, item.value, &info->backend);
        else if (span_is(item.key, "pg_config"))
            status = take_groups(kineto, item.value);
    }
    if (info->rank >= 0)
        info->rank_source = RS_RANK_METADATA;
    return status;
}

static enum rs_status keep_member(struct kineto *kineto, struct kineto_span key,
                                  struct kineto_span value)
{
    struct rs_buf *buf = &kineto->metadata;
    rs_buf_string(buf, buf->length ? ", \"" : "{\"");
    rs_buf_bytes(buf, key.text, key.length);
    rs_buf_string(buf, "\": ");
    rs_buf_bytes(buf, value.text, value.length);
    return buf->failed ? RS_NOMEM : RS_OK;
}

enum rs_status kineto_member(struct kineto *kineto, struct kineto_span key,
                             struct kineto_span value)
{
    struct rs_trace_info *info = &kineto->stream->info;
    enum rs_status status = RS_OK;
    int64_t number;
    if (span_is(key, "schemaVersion") || span_is(key, "deviceProperties")) {
        kineto->looks_like_trace = true;
    } else if (span_is(key, "baseTimeNanoseconds")) {
        kineto->looks_like_trace = true;
        kineto->is_base_at_tail = kineto->is_behind_rows;
        if (text_integer(value, &number) && number >= 0) {
            kineto->has_base = true;
            kineto->base_ns = number;
        }
    } else if (span_is(key, "distributedInfo")) {
        kineto->looks_like_trace = true;
        status = take_distributed(kineto, value);
    } else if (span_is(key, "host_name")) {
        status = intern_string(kineto, value, &info->host);
    } else if (span_is(key, "trace_id")) {
        status = intern_string(kineto, value, &info->trace_id);
    }
    if (status == RS_OK && kineto->is_lossless && value.length)
        status = keep_member(kineto, key, value);
    return status;
}

static enum rs_status add_string(struct kineto *kineto, const char *text, rs_str *id_p)
{
    return rs_strtab_add(&kineto->stream->strings, text, strlen(text), id_p);
}

static enum rs_status conclude_generation(struct kineto *kineto, bool is_absolute)
{
    const char *base = "no time base";
    if (is_absolute)
        base = "absolute";
    else if (kineto->has_base)
        base = kineto->is_base_at_tail ? "base at tail" : "base at head";
    else if (kineto->is_closed)
        base = "from a moment of its own";
    const char *unit = kineto->has_fraction ? "us.nnn" : "integer us";
    if (kineto->is_unit_ns)
        unit = "integer ns";
    if (!kineto->is_unit_known)
        unit = "no times";
    char text[320];
    (void)snprintf(
        text, sizeof text, "kineto, %s, %s%s%s%s%s%s%s%s", unit, base,
        kineto->is_array ? ", rows alone" : "", kineto->has_old_names ? ", old category names" : "",
        kineto->rows_repaired ? ", unescaped quotes" : "",
        kineto->foreign_device[0] ? ", unknown device category " : "", kineto->foreign_device,
        kineto->unknown_category[0] ? ", unknown category " : "", kineto->unknown_category);
    return add_string(kineto, text, &kineto->stream->info.generation);
}

static enum rs_status conclude_drops(struct kineto *kineto)
{
    struct rs_source_stream *stream = kineto->stream;
    const struct {
        const char *reason;
        int64_t count;
    } drops[] = {
        {"row that cannot be read", kineto->rows_bad},
        {"row over 4 MiB", kineto->rows_long},
        {"row without phase or time", kineto->rows_timeless},
        {"row without duration, name or category", kineto->rows_vague},
        {"device row without device and stream", kineto->rows_homeless},
        {"host row without process and thread", kineto->rows_threadless},
        {"row of an unknown category that may be a launch, an operator, a collective or a step",
         kineto->rows_foreign},
        {"row with an impossible duration", kineto->rows_clamped},
        {"member of the document that cannot be read", kineto->members_bad},
        {"begin or end of a span without the other",
         kineto->halves.lost + (int64_t)kineto->halves.count},
        {"row months away from all others", kineto->rows_far},
    };
    for (size_t i = 0; i < sizeof drops / sizeof drops[0]; i++) {
        if (!drops[i].count)
            continue;
        const enum rs_status status =
            rs_trace_info_drop(&stream->info, &stream->strings, drops[i].reason, drops[i].count);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

/* Why this is not the whole recording; "" when it is. */
static void partial_text(const struct kineto *kineto, char *text, size_t size)
{
    const char *slash = strrchr(kineto->path, '/');
    const char *name = slash ? slash + 1 : kineto->path;
    const int64_t raw = kineto->input.raw_bytes;
    const int64_t bad = kineto->rows_bad + kineto->rows_long;
    text[0] = '\0';
    if (!raw && !kineto->input.problem[0])
        (void)snprintf(text, size, "%s is empty: its process ended before the trace was written",
                       name);
    else if (kineto->input.problem[0])
        (void)snprintf(text, size, "%s: %s; %" PRId64 " bytes of text were whole", name,
                       kineto->input.problem, raw);
    else if (!kineto->is_closed)
        (void)snprintf(text, size, "%s is truncated: its text ends at byte %" PRId64 " %s", name,
                       raw,
                       kineto->is_behind_rows    ? "behind the events"
                       : kineto->has_rows_member ? "among the events"
                                                 : "before the events");
    else if (bad)
        (void)snprintf(text, size,
                       "%s: %" PRId64 " rows cannot be read, the first at byte %" PRId64
                       " of the text",
                       name, bad, kineto->first_bad_offset);
}

/* Single rows that were left out, or are not what their kind is, in a text that is whole: nothing is known to be missing
 * elsewhere, so the steps stay. */
static void flaw_text(const struct kineto *kineto, char *text, size_t size)
{
    const char *slash = strrchr(kineto->path, '/');
    const int64_t flawed = kineto->rows_timeless + kineto->rows_vague + kineto->rows_homeless +
                           kineto->rows_threadless + kineto->rows_foreign + kineto->rows_clamped +
                           kineto->rows_far + kineto->halves.lost + (int64_t)kineto->halves.count;
    if (flawed)
        (void)snprintf(text, size,
                       "%s: %" PRId64 " rows are not counted, or not as long as they were: the "
                       "manifest says under \"dropped\" what is wrong with them",
                       slash ? slash + 1 : kineto->path, flawed);
}

enum rs_status kineto_conclude(struct kineto *kineto)
{
    struct rs_trace_info *info = &kineto->stream->info;
    const bool is_absolute = kineto->latest >= (int64_t)ABSOLUTE_NS * 1000000000;
    info->input_bytes = kineto->input.file_bytes;
    info->raw_bytes = kineto->input.raw_bytes;
    /* a file that was cut may have lost its base; a whole one without it counts from a moment of its own */
    const bool is_whole = kineto->is_closed && !kineto->input.problem[0] && kineto->latest > 0;
    info->has_time_base = is_absolute || kineto->has_base || is_whole;
    if (is_whole && !is_absolute && !kineto->has_base)
        info->host = RS_STR_NONE; /* not its clock: no file of that host shares it */
    info->base_ns = is_absolute || !kineto->has_base ? 0 : kineto->base_ns;
    enum rs_status status = conclude_generation(kineto, is_absolute);
    if (status == RS_OK)
        status = conclude_drops(kineto);
    char reason[512];
    partial_text(kineto, reason, sizeof reason);
    if (!reason[0] && !kineto->take) {
        flaw_text(kineto, reason, sizeof reason);
        info->has_whole_steps = reason[0] != '\0';
    }
    info->is_partial = reason[0] != '\0';
    if (status == RS_OK && info->is_partial)
        status = add_string(kineto, reason, &info->partial_reason);
    if (status == RS_OK && kineto->metadata.length) {
        rs_buf_u8(&kineto->metadata, '}');
        status = kineto->metadata.failed
                     ? RS_NOMEM
                     : rs_strtab_add(&kineto->stream->strings, (const char *)kineto->metadata.data,
                                     kineto->metadata.length, &info->metadata);
    }
    return status;
}
