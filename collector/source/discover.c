/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding inputs: walk the paths, look at the first bytes of what is there.
 */
#include "collector/source/discover.h"

#include "collector/source/discover_priv.h"
#include "collector/source/inflate.h"
#include "collector/source/kineto.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SNIFF_BYTES = 64 * 1024, INPUTS_MAX = 1024 * 1024, SENTENCE_BYTES = 1024 };

const char *rs_input_state_text(enum rs_input_state state)
{
    switch (state) {
    case RS_INPUT_CANDIDATE:
        return "candidate";
    case RS_INPUT_WHOLE:
        return "whole";
    case RS_INPUT_PARTIAL:
        return "partial";
    case RS_INPUT_SKIPPED:
        return "skipped";
    case RS_INPUT_FAILED:
        return "failed";
    }
    return "?";
}

/* --- formats -------------------------------------------------------------------------------------------- */

static struct {
    const struct rs_source_format *items[RS_SOURCE_FORMATS_MAX];
    size_t count;
} formats; /* written before any thread, by rs_source_formats_set() */

void rs_source_formats_set(const struct rs_source_format *const *list, size_t count)
{
    RS_CHECK(count <= RS_SOURCE_FORMATS_MAX);
    for (size_t i = 0; i < count; i++)
        formats.items[i] = list[i];
    formats.count = count;
}

bool rs_is_result_folder(const char *path)
{
    for (size_t i = 0; i < formats.count; i++) {
        if (formats.items[i]->owns(path, true))
            return true;
    }
    return false;
}

enum rs_status rs_result_folder_state(const char *path, struct rs_result_state *state_p,
                                      const char **why)
{
    for (size_t i = 0; i < formats.count; i++) {
        const enum rs_status status = formats.items[i]->folder_state(path, state_p, why);
        if (status != RS_NOTFOUND)
            return status;
    }
    return RS_NOTFOUND;
}

/* Keeps the path for the format it belongs to, if there is one. */
static enum rs_status note_format(struct rs_inputs *inputs, const char *path,
                                  const struct stat *about, bool *is_noted_p)
{
    size_t at = 0;
    *is_noted_p = false;
    if (!S_ISDIR(about->st_mode) && !S_ISREG(about->st_mode))
        return RS_OK;
    while (at < formats.count && !formats.items[at]->owns(path, S_ISDIR(about->st_mode)))
        at++;
    if (at == formats.count)
        return RS_OK;
    struct rs_inputs_seen *seen = &inputs->seen[at];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    const enum rs_status status =
        rs_mem_grow((void **)&seen->paths, &seen->capacity, seen->count + 1, sizeof *seen->paths);
    char *copy = status == RS_OK ? rs_mem_strndup(path, length) : NULL;
    if (!copy)
        return RS_NOMEM;
    seen->paths[seen->count++] = copy;
    *is_noted_p = true;
    return RS_OK;
}

/* The recordings in what was noted, as inputs. */
static enum rs_status find_formats(struct rs_inputs *inputs, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < formats.count && status == RS_OK; i++) {
        struct rs_inputs_seen *seen = &inputs->seen[i];
        if (seen->count)
            status = formats.items[i]->find((const char *const *)seen->paths, seen->count, inputs,
                                            &seen->kept, err);
    }
    return status == RS_NOMEM ? rs_err_set(err, status, "out of memory") : status;
}

enum rs_status rs_input_read(const struct rs_input *input, unsigned flags,
                             struct rs_source_stream *stream, struct rs_sink sink,
                             struct rs_err *err)
{
    return input->format
               ? input->format->read(input, flags, stream, sink, err)
               : rs_kineto_read(input->held ? input->held : input->path, flags, stream, sink, err);
}

/* --- the list ------------------------------------------------------------------------------------------- */

enum rs_status rs_inputs_note(struct rs_inputs *inputs, const char *format, ...)
{
    char text[SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const enum rs_status status = rs_mem_grow((void **)&inputs->notes, &inputs->note_capacity,
                                              inputs->note_count + 1, sizeof *inputs->notes);
    if (status != RS_OK)
        return status;
    char *copy = rs_mem_strdup(text);
    if (!copy)
        return RS_NOMEM;
    inputs->notes[inputs->note_count++] = copy;
    return RS_OK;
}

enum rs_status rs_input_set(struct rs_input *input, enum rs_input_state state, const char *format,
                            ...)
{
    char text[SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *copy = rs_mem_strdup(text);
    if (!copy)
        return RS_NOMEM;
    rs_mem_free(input->reason);
    input->reason = copy;
    input->state = state;
    return RS_OK;
}

/* --- is it a profile? ----------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *tail)
{
    const size_t length = strlen(name);
    const size_t tail_length = strlen(tail);
    return length >= tail_length && strcmp(name + length - tail_length, tail) == 0;
}

/* Names that Kineto and its callers give. */
static bool is_trace_name(const char *name)
{
    static const char *const tails[] = {".json",     ".json.gz", ".json.tmp", ".json.gz.tmp",
                                        ".json.zst", ".json.xz", ".json.bz2"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        if (ends_with(name, tails[i]))
            return true;
    }
    return false;
}

static bool has_hint(const char *text, size_t length)
{
    static const char *const hints[] = {"\"traceEvents\"", "\"schemaVersion\"",
                                        "\"deviceProperties\"", "\"distributedInfo\"",
                                        "\"baseTimeNanoseconds\""};
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        if (memmem(text, length, hints[i], strlen(hints[i])))
            return true;
    }
    return false;
}

static enum rs_status classify_text(struct rs_input *input, const char *text, size_t length,
                                    bool is_all)
{
    const char *end = text + length;
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    while (text < end && strchr(" \t\r\n", *text) && *text)
        text++;
    const bool is_trace = is_trace_name(input->name);
    if (text == end)
        return is_trace ? RS_OK : rs_input_set(input, RS_INPUT_SKIPPED, "it is empty");
    const char *foreign = foreign_profile(text, (size_t)(end - text));
    if (foreign)
        return rs_input_set(input, RS_INPUT_FAILED, "%s is %s, which is not read", input->relative,
                            foreign);
    if (*text != '{' && *text != '[')
        return rs_input_set(input, RS_INPUT_SKIPPED, "it is no JSON object, so no profile");
    if (*text == '[' && is_trace && memmem(text, (size_t)(end - text), "\"ph\"", 4))
        return RS_OK;
    if (*text == '{' && has_hint(text, (size_t)(end - text)))
        return RS_OK;
    while (end > text && (unsigned char)end[-1] <= ' ')
        end--;
    const bool is_closed = end[-1] == '}';
    if ((is_all && is_closed) || !is_trace)
        return rs_input_set(input, RS_INPUT_SKIPPED,
                            "it is JSON without trace events, so no profile");
    return RS_OK;
}

/* Looks into the file; a candidate stays one only if it may be a profile. */
static enum rs_status sniff(struct rs_input *input)
{
    struct input file;
    struct rs_err err = {0};
    enum rs_status status = input_open(&file, input->held ? input->held : input->path, &err);
    if (status == RS_NOMEM)
        return status;
    if (status != RS_OK)
        return rs_input_set(input, RS_INPUT_FAILED, "%s", err.text);
    char *text = rs_mem_calloc(SNIFF_BYTES, 1);
    size_t length = 0;
    status = text ? input_read(&file, text, SNIFF_BYTES, &length, &err) : RS_NOMEM;
    if (status == RS_OK && file.problem[0] && !length && !is_trace_name(input->name))
        status = rs_input_set(input, RS_INPUT_SKIPPED, "%s", file.problem);
    else if (status == RS_OK)
        status = classify_text(input, text, length, length < SNIFF_BYTES && !file.problem[0]);
    else if (status != RS_NOMEM)
        status = rs_input_set(input, RS_INPUT_FAILED, "%s: %s", input->path, err.text);
    rs_mem_free(text);
    input_close(&file);
    return status;
}

/* --- the walk ------------------------------------------------------------------------------------------- */

enum rs_status rs_inputs_add(struct rs_inputs *inputs, const char *path, struct rs_input **input_p)
{
    if (inputs->count >= INPUTS_MAX)
        return RS_LIMIT;
    struct stat about = {0};
    (void)stat(path, &about);
    enum rs_status status = rs_mem_grow((void **)&inputs->items, &inputs->capacity,
                                        inputs->count + 1, sizeof *inputs->items);
    char *copy = status == RS_OK ? rs_mem_strdup(path) : NULL;
    if (!copy)
        return RS_NOMEM;
    const char *slash = strrchr(copy, '/');
    struct rs_input *input = &inputs->items[inputs->count++];
    *input = (struct rs_input){
        .path = copy,
        .name = slash && slash[1] ? slash + 1 : copy,
        .size_bytes = S_ISREG(about.st_mode) ? about.st_size : 0,
        .modified_ns = rs_file_changed_ns(&about),
        .state = RS_INPUT_CANDIDATE,
        .metadata_rank = -1,
        .world_size = -1,
        .rank = -1,
        .rank_source = RS_RANK_UNKNOWN,
    };
    input->relative = input->name;
    *input_p = input;
    return RS_OK;
}

static enum rs_status add_input(struct rs_inputs *inputs, const char *path, size_t prefix)
{
    struct rs_input *input = NULL;
    const enum rs_status status = rs_inputs_add(inputs, path, &input);
    if (status != RS_OK)
        return status;
    if (prefix)
        input->relative = input->path + prefix;
    input->held = inputs->held;
    return sniff(input);
}

/* Links are not followed; one that leads to a recording is an input that could not be read. */
static enum rs_status note_link(struct rs_inputs *inputs, const char *path)
{
    struct stat about;
    struct rs_input *input = NULL;
    const bool is_there = stat(path, &about) == 0;
    bool is_owned = false;
    for (size_t i = 0; i < formats.count && is_there; i++)
        is_owned = is_owned || formats.items[i]->owns(path, S_ISDIR(about.st_mode));
    if (!is_owned)
        return RS_OK;
    const enum rs_status status = rs_inputs_add(inputs, path, &input);
    return status == RS_OK ? rs_input_set(input, RS_INPUT_FAILED,
                                          "%s is a recording behind a link: name it on the command "
                                          "line to have it read",
                                          path)
                           : status;
}

static enum rs_status walk_dir(struct rs_inputs *inputs, const char *path, size_t prefix,
                               unsigned depth, struct rs_err *err);

static enum rs_status walk_entry(struct rs_inputs *inputs, const char *path, size_t prefix,
                                 unsigned depth, struct rs_err *err)
{
    struct stat about;
    if (lstat(path, &about) < 0)
        return RS_OK; /* gone since it was listed */
    if (S_ISLNK(about.st_mode))
        return note_link(inputs, path);
    bool is_noted;
    const enum rs_status status = note_format(inputs, path, &about, &is_noted);
    if (status != RS_OK || is_noted)
        return status;
    if (S_ISREG(about.st_mode))
        return add_input(inputs, path, prefix);
    if (!S_ISDIR(about.st_mode))
        return RS_OK;
    if (depth >= RS_DISCOVER_DEPTH)
        return rs_inputs_note(inputs, "%s lies deeper than %d folders and was not searched", path,
                              RS_DISCOVER_DEPTH);
    return walk_dir(inputs, path, prefix, depth + 1, err);
}

static enum rs_status walk_dir(struct rs_inputs *inputs, const char *path, size_t prefix,
                               unsigned depth, struct rs_err *err)
{
    DIR *dir = opendir(path);
    if (!dir && depth) {
        struct rs_err why = {0};
        (void)rs_err_errno(&why, "%s cannot be searched", path);
        return rs_inputs_note(inputs, "%s", why.text);
    }
    if (!dir)
        return rs_err_errno(err, "cannot search %s", path);
    enum rs_status status = RS_OK;
    struct dirent *entry;
    while (status == RS_OK && (entry = rs_dir_next(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *child = rs_file_join(path, entry->d_name);
        status = child ? walk_entry(inputs, child, prefix, depth, err) : RS_NOMEM;
        rs_mem_free(child);
    }
    (void)closedir(dir);
    return status;
}

static enum rs_status walk_path(struct rs_inputs *inputs, const char *path, struct rs_err *err)
{
    struct stat about;
    if (stat(path, &about) < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return rs_err_set(err, RS_NOTFOUND, "there is no file or folder %s", path);
        return rs_err_errno(err, "cannot look at %s", path);
    }
    bool is_noted;
    const enum rs_status status = note_format(inputs, path, &about, &is_noted);
    if (status != RS_OK || is_noted)
        return status;
    if (!S_ISDIR(about.st_mode))
        return add_input(inputs, path, 0);
    /* rs_file_join() puts exactly one slash behind the folder */
    char *joined = rs_file_join(path, "");
    const size_t prefix = joined ? strlen(joined) : 0;
    rs_mem_free(joined);
    return prefix ? walk_dir(inputs, path, prefix, 0, err) : RS_NOMEM;
}

static int by_path(const void *a, const void *b)
{
    const struct rs_input *one = a;
    const struct rs_input *two = b;
    return strcmp(one->path, two->path);
}

static void input_fini(struct rs_input *input)
{
    rs_mem_free(input->path);
    rs_mem_free(input->reason);
}

/* A file that two paths lead to is one input. */
static void sort_and_unite(struct rs_inputs *inputs)
{
    if (inputs->count)
        qsort(inputs->items, inputs->count, sizeof *inputs->items, by_path);
    size_t kept = 0;
    for (size_t i = 0; i < inputs->count; i++) {
        if (kept && strcmp(inputs->items[kept - 1].path, inputs->items[i].path) == 0)
            input_fini(&inputs->items[i]);
        else
            inputs->items[kept++] = inputs->items[i];
    }
    inputs->count = kept;
}

static enum rs_status keep_patterns(struct rs_inputs *inputs,
                                    const struct rs_discover_options *options, struct rs_err *err)
{
    for (size_t i = 0; i < options->rank_from_count; i++) {
        const char *pattern = options->rank_from[i];
        const char *star = strchr(pattern, '*');
        if (!*pattern || (star && strchr(star + 1, '*')))
            return rs_err_set(err, RS_INVALID,
                              "--rank-from \"%s\": give the text before the number, or one * where "
                              "the number stands",
                              pattern);
        const enum rs_status status =
            rs_mem_grow((void **)&inputs->patterns, &inputs->pattern_capacity,
                        inputs->pattern_count + 1, sizeof *inputs->patterns);
        char *copy = status == RS_OK ? rs_mem_strdup(pattern) : NULL;
        if (!copy)
            return rs_err_set(err, RS_NOMEM, "out of memory");
        inputs->patterns[inputs->pattern_count++] = copy;
    }
    return RS_OK;
}

static enum rs_status discover(struct rs_inputs *inputs, const char *const *paths,
                               size_t path_count, const struct rs_discover_options *options,
                               struct rs_err *err)
{
    enum rs_status status = options ? keep_patterns(inputs, options, err) : RS_OK;
    inputs->held = options ? options->held : NULL;
    for (size_t i = 0; i < path_count && status == RS_OK; i++) {
        status = walk_path(inputs, paths[i], err);
        if (status == RS_NOMEM || status == RS_LIMIT)
            return rs_err_set(err, status, "%s: %s while it was searched", paths[i],
                              rs_status_text(status));
    }
    if (status == RS_OK)
        status = find_formats(inputs, err);
    if (status != RS_OK)
        return status;
    sort_and_unite(inputs);
    if (options && options->rank_map_path)
        status = inputs_apply_map(inputs, options->rank_map_path, err);
    return status;
}

enum rs_status rs_discover(const char *const *paths, size_t path_count,
                           const struct rs_discover_options *options, struct rs_inputs *inputs_p,
                           struct rs_err *err)
{
    struct rs_inputs inputs = {0};
    const enum rs_status status = discover(&inputs, paths, path_count, options, err);
    if (status == RS_OK)
        *inputs_p = inputs;
    else
        rs_inputs_fini(&inputs);
    return status;
}

void rs_inputs_fini(struct rs_inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++)
        input_fini(&inputs->items[i]);
    for (size_t i = 0; i < inputs->note_count; i++)
        rs_mem_free(inputs->notes[i]);
    for (size_t i = 0; i < inputs->pattern_count; i++)
        rs_mem_free(inputs->patterns[i]);
    for (size_t i = 0; i < RS_SOURCE_FORMATS_MAX; i++) {
        struct rs_inputs_seen *seen = &inputs->seen[i];
        for (size_t k = 0; k < seen->count; k++)
            rs_mem_free(seen->paths[k]);
        rs_mem_free(seen->paths);
        if (seen->kept)
            formats.items[i]->free(seen->kept);
    }
    rs_mem_free(inputs->items);
    rs_mem_free(inputs->notes);
    rs_mem_free(inputs->patterns);
    *inputs = (struct rs_inputs){0};
}
