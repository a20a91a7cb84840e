/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose recording an input is: the map, the file's own word, its name, or that it is the only one.
 */
#include "collector/source/discover.h"
#include "collector/source/discover_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAP_MAX_BYTES = 64 * 1024 * 1024, RANK_DIGITS = 9, RANGES_REPORTED = 16 };

/* --- names ---------------------------------------------------------------------------------------------- */

/* The number at `text` (at most RANK_DIGITS digits), or -1; *end_p is behind it. */
static int32_t number_at(const char *text, const char **end_p)
{
    int32_t value = 0;
    size_t count = 0;
    while (text[count] >= '0' && text[count] <= '9' && count < RANK_DIGITS)
        value = value * 10 + (text[count++] - '0');
    *end_p = text + count;
    const bool is_longer = text[count] >= '0' && text[count] <= '9';
    return count && !is_longer ? value : -1;
}

enum { NAME_NOTHING = -1, NAME_AMBIGUOUS = -2 };

static int32_t join_rank(int32_t rank, int32_t found)
{
    if (found < 0 || rank == found)
        return rank;
    return rank == NAME_NOTHING ? found : NAME_AMBIGUOUS;
}

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static int32_t rank_after_word(const char *name, const char *word)
{
    int32_t rank = NAME_NOTHING;
    const size_t length = strlen(word);
    for (const char *at = name; (at = strcasestr(at, word)); at += length) {
        if (at > name && is_letter(at[-1]))
            continue;
        const char *digits = at + length;
        digits += *digits == '_' || *digits == '-';
        const char *end;
        rank = join_rank(rank, number_at(digits, &end));
    }
    return rank;
}

static int32_t rank_by_pattern(const char *name, const char *pattern)
{
    const char *star = strchr(pattern, '*');
    const size_t before = star ? (size_t)(star - pattern) : strlen(pattern);
    const char *behind = star ? star + 1 : "";
    int32_t rank = NAME_NOTHING;
    for (const char *at = name; *at; at++) {
        const char *end;
        if (strncmp(at, pattern, before) != 0)
            continue;
        if (!before && at > name && at[-1] >= '0' && at[-1] <= '9')
            continue;
        const int32_t found = number_at(at + before, &end);
        if (found >= 0 && strncmp(end, behind, strlen(behind)) == 0)
            rank = join_rank(rank, found);
    }
    return rank;
}

int32_t rs_rank_of_name(const char *relative, const char *const *patterns, size_t pattern_count)
{
    static const char *const words[] = {"rank", "worker", "device"};
    const char *slash = strrchr(relative, '/');
    const char *name = slash ? slash + 1 : relative;
    int32_t rank = NAME_NOTHING;
    for (size_t i = 0; i < pattern_count && rank == NAME_NOTHING; i++)
        rank = rank_by_pattern(relative, patterns[i]);
    for (size_t i = 0; i < 3 && rank == NAME_NOTHING; i++)
        rank = rank_after_word(name, words[i]);
    return rank >= 0 ? rank : -1;
}

/* --- the map -------------------------------------------------------------------------------------------- */

static enum rs_status check_map(json_t *map, const char *path, struct rs_err *err)
{
    if (!json_is_object(map))
        return rs_err_set(err, RS_INVALID, "--rank-map %s: expected {\"FILE\": RANK or null, ...}",
                          path);
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value)
    {
        const bool is_rank = json_is_integer(value) && json_integer_value(value) >= 0 &&
                             json_integer_value(value) <= INT32_MAX;
        if (!is_rank && !json_is_null(value))
            return rs_err_set(err, RS_INVALID,
                              "--rank-map %s: \"%s\" must be a rank (0, 1, ...) or null", path,
                              key);
    }
    return RS_OK;
}

/* The map's line for this file: by its path behind the argument, by its base name, with or without ".gz". */
static const json_t *map_line(const json_t *map, const struct rs_input *input)
{
    const json_t *line = json_object_get(map, input->relative);
    if (!line)
        line = json_object_get(map, input->name);
    if (!line)
        line = json_object_get(map, input->path);
    return line;
}

static enum rs_status apply_line(struct rs_input *input, const json_t *line)
{
    input->is_mapped = true;
    if (json_is_null(line))
        return rs_input_set(input, RS_INPUT_SKIPPED, "the rank map says that it is no rank");
    input->rank = (int32_t)json_integer_value(line);
    input->rank_source = RS_RANK_MAP;
    return RS_OK;
}

static enum rs_status apply_map(struct rs_inputs *inputs, json_t *map, const char *path,
                                struct rs_err *err)
{
    enum rs_status status = check_map(map, path, err);
    size_t used = 0;
    for (size_t i = 0; i < inputs->count && status == RS_OK; i++) {
        struct rs_input *input = &inputs->items[i];
        const json_t *line = map_line(map, input);
        used += line != NULL;
        if (line && input->state == RS_INPUT_CANDIDATE)
            status = apply_line(input, line);
    }
    const size_t lines = json_object_size(map);
    if (status == RS_OK && used < lines)
        status =
            rs_inputs_note(inputs, "--rank-map %s: %zu of its %zu lines name no file that is here",
                           path, lines - used, lines);
    return status;
}

enum rs_status inputs_apply_map(struct rs_inputs *inputs, const char *map_path, struct rs_err *err)
{
    struct rs_buf text = {0};
    enum rs_status status = rs_file_read(map_path, MAP_MAX_BYTES, &text, err);
    if (status != RS_OK) {
        rs_buf_fini(&text);
        return status;
    }
    json_error_t error;
    json_t *map = json_loadb((const char *)text.data, text.length, JSON_REJECT_DUPLICATES, &error);
    if (!map)
        status = rs_err_set(err, RS_INVALID, "--rank-map %s, line %d: %s", map_path, error.line,
                            error.text);
    else
        status = apply_map(inputs, map, map_path, err);
    if (status == RS_NOMEM)
        status = rs_err_set(err, status, "out of memory");
    json_decref(map);
    rs_buf_fini(&text);
    return status;
}

/* --- after reading -------------------------------------------------------------------------------------- */

static bool is_read(const struct rs_input *input)
{
    return input->state == RS_INPUT_WHOLE || input->state == RS_INPUT_PARTIAL;
}

static enum rs_status record_failure(struct rs_input *input, const struct rs_input_result *result)
{
    const char *text = result->failure && result->failure->text[0] ? result->failure->text
                                                                   : rs_status_text(result->status);
    return rs_input_set(input, result->status == RS_NOTFOUND ? RS_INPUT_SKIPPED : RS_INPUT_FAILED,
                        "%s", text);
}

enum rs_status rs_input_record(struct rs_input *input, const struct rs_input_result *result)
{
    if (result->status < 0)
        return record_failure(input, result);
    const struct rs_trace_info *info = result->info;
    input->metadata_rank = info->rank;
    input->world_size = info->world_size;
    input->events_read = info->events_read;
    input->has_time_base = info->has_time_base;
    input->first_ns = result->first;
    input->last_ns = result->last;
    if (info->has_time_base &&
        (__builtin_add_overflow(result->first, info->base_ns, &input->first_ns) ||
         __builtin_add_overflow(result->last, info->base_ns, &input->last_ns)))
        input->has_time_base = false;
    const bool is_partial = result->status == RS_PARTIAL;
    input->state = RS_INPUT_WHOLE;
    if (!is_partial)
        return RS_OK;
    return rs_input_set(input, RS_INPUT_PARTIAL, "%s",
                        rs_strtab_text(result->strings, info->partial_reason));
}

/* Without events nobody has a rank: the launcher's file, or one that was cut before its first event. */
static enum rs_status set_aside_empty(struct rs_inputs *inputs, struct rs_input *input)
{
    if (input->state == RS_INPUT_PARTIAL) {
        input->state = RS_INPUT_FAILED;
        return RS_OK;
    }
    const enum rs_status status =
        rs_input_set(input, RS_INPUT_SKIPPED, "it has no events, so it is no rank");
    return status == RS_OK
               ? rs_inputs_note(inputs, "%s has no events and counts as no rank", input->relative)
               : status;
}

static enum rs_status settle_rank(struct rs_inputs *inputs, struct rs_input *input, bool is_only,
                                  struct rs_err *err)
{
    if (input->rank >= 0)
        return RS_OK;
    input->rank = input->metadata_rank;
    input->rank_source = RS_RANK_METADATA;
    if (input->rank >= 0)
        return RS_OK;
    input->rank = rs_rank_of_name(input->relative, (const char *const *)inputs->patterns,
                                  inputs->pattern_count);
    input->rank_source = RS_RANK_NAME;
    if (input->rank >= 0)
        return RS_OK;
    input->rank_source = RS_RANK_UNKNOWN;
    if (!is_only)
        return rs_err_set(err, RS_INVALID,
                          "whose rank is %s? Its metadata and its name do not say: give --rank-map "
                          "FILE (a JSON object of file name to rank, null for no rank) or "
                          "--rank-from PATTERN (what stands before the number in the name)",
                          input->path);
    input->rank = 0;
    input->rank_source = RS_RANK_ASSUMED;
    return rs_inputs_note(inputs,
                          "%s names no rank; it is the only input, so it is taken for rank 0",
                          input->relative);
}

static enum rs_status settle_all(struct rs_inputs *inputs, struct rs_err *err)
{
    size_t count = 0;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < inputs->count && status == RS_OK; i++) {
        struct rs_input *input = &inputs->items[i];
        if (is_read(input) && !input->events_read)
            status = set_aside_empty(inputs, input);
        count += is_read(input) || input->state == RS_INPUT_FAILED;
    }
    for (size_t i = 0; i < inputs->count && status == RS_OK; i++) {
        if (is_read(&inputs->items[i]))
            status = settle_rank(inputs, &inputs->items[i], count == 1, err);
    }
    return status;
}

static int by_rank_and_time(const void *a, const void *b)
{
    const struct rs_input *one = *(const struct rs_input *const *)a;
    const struct rs_input *two = *(const struct rs_input *const *)b;
    if (one->rank != two->rank)
        return one->rank < two->rank ? -1 : 1;
    if (one->first_ns != two->first_ns)
        return one->first_ns < two->first_ns ? -1 : 1;
    return strcmp(one->path, two->path);
}

static bool is_newer(const struct rs_input *a, const struct rs_input *b)
{
    const bool has_times = a->has_time_base && b->has_time_base;
    if (has_times && a->last_ns != b->last_ns)
        return a->last_ns > b->last_ns;
    if (a->modified_ns != b->modified_ns)
        return a->modified_ns > b->modified_ns;
    return strcmp(a->path, b->path) > 0;
}

static enum rs_status set_aside_older(struct rs_inputs *inputs, struct rs_input *older,
                                      const struct rs_input *newer)
{
    const enum rs_status status = rs_input_set(older, RS_INPUT_SKIPPED,
                                               "another recording of rank %" PRId32
                                               " that overlaps with it in time was kept: %s",
                                               older->rank, newer->relative);
    if (status != RS_OK)
        return status;
    return rs_inputs_note(
        inputs, "two recordings of rank %" PRId32 " overlap in time: %s was kept, %s was not",
        older->rank, newer->relative, older->relative);
}

/* `sorted` by rank and time. Disjoint recordings of one rank are its cycles; of overlapping ones the newest stays. */
static enum rs_status number_cycles(struct rs_inputs *inputs, struct rs_input **sorted,
                                    size_t count)
{
    struct rs_input *last = NULL; /* the one kept before, of the same rank */
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        struct rs_input *input = sorted[i];
        if (!last || last->rank != input->rank) {
            input->cycle = 0;
            last = input;
        } else if (last->has_time_base && input->has_time_base &&
                   input->first_ns >= last->last_ns) {
            input->cycle = last->cycle + 1;
            last = input;
        } else if (is_newer(input, last)) {
            input->cycle = last->cycle;
            status = set_aside_older(inputs, last, input);
            last = input;
        } else {
            status = set_aside_older(inputs, input, last);
        }
    }
    return status;
}

/* "3, 5-7": the ranks of [0, world) that nobody in `sorted` has. */
static int64_t missing_ranks(struct rs_input *const *sorted, size_t count, int32_t world,
                             struct rs_buf *text)
{
    int64_t missing = 0;
    int32_t next = 0;
    unsigned reported = 0;
    for (size_t i = 0; i <= count; i++) {
        const int32_t rank = i < count ? sorted[i]->rank : world;
        if (i < count && !is_read(sorted[i]))
            continue;
        const int32_t end = rank < world ? rank : world;
        if (end > next && reported++ < RANGES_REPORTED) {
            rs_buf_printf(text, "%s%" PRId32, text->length ? ", " : "", next);
            if (end - next > 1)
                rs_buf_printf(text, "-%" PRId32, end - 1);
        } else if (end > next && reported == RANGES_REPORTED + 1) {
            rs_buf_string(text, ", ...");
        }
        missing += end > next ? end - next : 0;
        next = rank >= next && rank < INT32_MAX ? rank + 1 : next;
    }
    return missing;
}

static enum rs_status report_worlds(struct rs_inputs *inputs, struct rs_input *const *sorted,
                                    size_t count)
{
    int32_t world = -1;
    int32_t other = -1;
    for (size_t i = 0; i < count; i++) {
        const int32_t size = is_read(sorted[i]) ? sorted[i]->world_size : -1;
        if (size > world) {
            other = world;
            world = size;
        } else if (size >= 0 && size != world) {
            other = size;
        }
    }
    if (world < 0)
        return RS_OK;
    enum rs_status status = RS_OK;
    if (other >= 0)
        status = rs_inputs_note(inputs,
                                "the inputs disagree on the world size: %" PRId32 " and %" PRId32
                                " ranks; perhaps they are of different jobs",
                                world, other);
    struct rs_buf text = {0};
    const int64_t missing = missing_ranks(sorted, count, world, &text);
    if (status == RS_OK && missing)
        status = rs_inputs_note(inputs, "%" PRId64 " of %" PRId32 " ranks are missing: %s", missing,
                                world, rs_buf_text(&text));
    rs_buf_fini(&text);
    return status;
}

enum rs_status rs_inputs_resolve(struct rs_inputs *inputs, struct rs_err *err)
{
    enum rs_status status = settle_all(inputs, err);
    if (status != RS_OK)
        return status == RS_NOMEM ? rs_err_set(err, status, "out of memory") : status;
    struct rs_input **sorted = rs_mem_calloc(inputs->count + 1, sizeof(struct rs_input *));
    if (!sorted)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    size_t count = 0;
    for (size_t i = 0; i < inputs->count; i++) {
        if (is_read(&inputs->items[i]))
            sorted[count++] = &inputs->items[i];
    }
    qsort(sorted, count, sizeof(struct rs_input *), by_rank_and_time);
    status = number_cycles(inputs, sorted, count);
    if (status == RS_OK)
        status = report_worlds(inputs, sorted, count);
    rs_mem_free(sorted);
    return status == RS_NOMEM ? rs_err_set(err, status, "out of memory") : status;
}
