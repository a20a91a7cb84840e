/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Result directories of Ascend profilers among the inputs. Which ranks lie in them, in what state, and which of
 * two results of one rank is kept, is the knowledge of ascend/format; here they become inputs like others.
 */
#include "ascend/source/ascend.h"
#include "collector/source/discover.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char output_name[] = "ASCEND_PROFILER_OUTPUT";

static bool ends_with(const char *text, size_t length, const char *tail)
{
    const size_t tail_length = strlen(tail);
    return length >= tail_length && memcmp(text + length - tail_length, tail, tail_length) == 0;
}

static size_t bare_length(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    return length;
}

/* PROF_NUMBER_TIME_ID: what CANN records, alone or inside a rank's folder. */
static bool is_raw_folder(const char *path, size_t length)
{
    const char *at = path + length;
    while (at > path && at[-1] != '/')
        at--;
    if (strncmp(at, "PROF_", 5) != 0)
        return false;
    at += 5;
    const size_t number = strspn(at, "0123456789");
    const size_t time = at[number] == '_' ? strspn(at + number + 1, "0123456789") : 0;
    return number && time && at[number + 1 + time] == '_';
}

static bool is_result_folder(const char *path)
{
    const size_t length = bare_length(path);
    if (is_raw_folder(path, length))
        return true;
    if (ends_with(path, length, "_ascend_pt") || ends_with(path, length, "_ascend_ms") ||
        ends_with(path, length, output_name))
        return true;
    char *child = rs_file_join(path, output_name);
    const bool has_output = child && access(child, F_OK) == 0;
    rs_mem_free(child);
    return has_output;
}

/* Newest change and bytes of the files in a folder, one level deep. */
static void add_files(const char *path, struct rs_result_state *state)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = rs_dir_next(dir))) {
        struct stat about;
        if (fstatat(dirfd(dir), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(about.st_mode))
            continue;
        const int64_t changed = rs_file_changed_ns(&about);
        state->changed_ns = changed > state->changed_ns ? changed : state->changed_ns;
        state->bytes += about.st_size;
    }
    if (dir)
        (void)closedir(dir);
}

static enum rs_status folder_state(const char *path, struct rs_result_state *state_p,
                                   const char **why)
{
    struct rs_ascend_list list;
    struct rs_result_state state = {0};
    enum rs_status status = rs_ascend_discover(&path, 1, &list, NULL);
    if (status != RS_OK)
        return status == RS_NOMEM ? status : RS_NOTFOUND;
    const struct rs_ascend_rank *rank = list.count == 1 ? &list.ranks[0] : NULL;
    if (!rank && is_raw_folder(path, bare_length(path))) {
        status = RS_AGAIN;
        if (why)
            *why = "it is raw data of CANN's own profiler, not parsed by the vendor's tool yet";
    } else if (!rank) {
        status = RS_NOTFOUND;
    } else if (rank->state == RS_ASCEND_FINISHED) {
        add_files(rank->dir, &state);
        if (rank->output)
            add_files(rank->output, &state);
        state.has_marker = rank->has_done;
        *state_p = state;
    } else {
        status = RS_AGAIN;
        if (why)
            *why = rank->state == RS_ASCEND_UNPARSED
                       ? "it holds raw data only, not parsed by the vendor's tool yet"
                       : "it is not finished yet";
    }
    rs_ascend_list_fini(&list);
    return status;
}

/* A loose database of msmonitor, or a file inside a result directory that was named itself. */
static bool is_result_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (strncmp(name, "msmonitor_", 10) == 0 && ends_with(name, strlen(name), ".db"))
        return true;
    return slash && ends_with(path, (size_t)(slash - path), output_name);
}

static bool owns(const char *path, bool is_folder)
{
    return is_folder ? is_result_folder(path) : is_result_file(path);
}

static enum rs_status add_rank(struct rs_inputs *inputs, const struct rs_ascend_rank *rank)
{
    struct rs_input *input = NULL;
    const bool is_loose = rank->framework == RS_ASCEND_MSMONITOR;
    enum rs_status status = rs_inputs_add(inputs, is_loose ? rank->profiler_db : rank->dir, &input);
    if (status != RS_OK)
        return status;
    input->format = &rs_ascend_source_format;
    input->recording = rank;
    struct stat about;
    if (rank->profiler_db && stat(rank->profiler_db, &about) == 0)
        input->size_bytes = about.st_size;
    switch (rank->state) {
    case RS_ASCEND_FINISHED:
        return RS_OK;
    case RS_ASCEND_UNPARSED:
        return rs_input_set(input, RS_INPUT_FAILED,
                            "it holds raw data only, not parsed by the vendor's tool yet");
    case RS_ASCEND_UNFINISHED:
        return rs_input_set(input, RS_INPUT_FAILED,
                            "it is not finished: still being recorded or parsed, or broken off");
    }
    return RS_OK;
}

static enum rs_status add_note(struct rs_inputs *inputs, const struct rs_ascend_note *note)
{
    struct rs_input *input = NULL;
    if (note->kind == RS_ASCEND_NOTE_SKIPPED)
        return rs_inputs_note(inputs, "%s was not looked at: %s", note->path, note->text);
    enum rs_status status = rs_inputs_add(inputs, note->path, &input);
    if (status == RS_OK)
        status = rs_input_set(
            input, note->kind == RS_ASCEND_NOTE_FAILED ? RS_INPUT_FAILED : RS_INPUT_SKIPPED, "%s",
            note->text);
    if (status == RS_OK && note->kind == RS_ASCEND_NOTE_DUPLICATE)
        status = rs_inputs_note(inputs, "%s was not kept: %s", note->path, note->text);
    return status;
}

static enum rs_status find(const char *const *paths, size_t count, struct rs_inputs *inputs,
                           void **kept_p, struct rs_err *err)
{
    struct rs_ascend_list *list = rs_mem_calloc(1, sizeof *list);
    enum rs_status status = list ? rs_ascend_discover(paths, count, list, err) : RS_NOMEM;
    if (status != RS_OK) {
        rs_mem_free(list);
        return status;
    }
    *kept_p = list;
    for (size_t i = 0; i < list->count && status == RS_OK; i++)
        status = add_rank(inputs, &list->ranks[i]);
    for (size_t i = 0; i < list->note_count && status == RS_OK; i++)
        status = add_note(inputs, &list->notes[i]);
    return status;
}

static void free_list(void *kept)
{
    struct rs_ascend_list *list = kept;
    rs_ascend_list_fini(list);
    rs_mem_free(list);
}

static enum rs_status read_input(const struct rs_input *input, unsigned flags,
                                 struct rs_source_stream *stream, struct rs_sink sink,
                                 struct rs_err *err)
{
    return rs_ascend_read(input->recording, flags, stream, sink, err);
}

const struct rs_source_format rs_ascend_source_format = {
    .name = "ascend",
    .owns = owns,
    .find = find,
    .free = free_list,
    .read = read_input,
    .folder_state = folder_state,
};
