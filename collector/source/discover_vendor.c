/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Result directories of Ascend profilers among the inputs. Which ranks lie in them, in what state, and which of
 * two results of one rank is kept, is the knowledge of common/vendor; here they become inputs like others.
 */
#include "collector/source/ascend.h"
#include "collector/source/discover_priv.h"
#include "collector/source/kineto.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
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

bool rs_is_result_folder(const char *path)
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
    while (dir && (entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe): own DIR */
        struct stat about;
        if (fstatat(dirfd(dir), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(about.st_mode))
            continue;
        const int64_t changed = (int64_t)about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
        state->changed_ns = changed > state->changed_ns ? changed : state->changed_ns;
        state->bytes += about.st_size;
    }
    if (dir)
        (void)closedir(dir);
}

enum rs_status rs_result_folder_state(const char *path, struct rs_result_state *state_p,
                                      const char **why)
{
    struct rs_vendor_list list;
    struct rs_result_state state = {0};
    enum rs_status status = rs_vendor_discover(&path, 1, &list, NULL);
    if (status != RS_OK)
        return status == RS_NOMEM ? status : RS_NOTFOUND;
    const struct rs_vendor_rank *rank = list.count == 1 ? &list.ranks[0] : NULL;
    if (!rank && is_raw_folder(path, bare_length(path))) {
        status = RS_AGAIN;
        if (why)
            *why = "it is raw data of CANN's own profiler, not parsed by the vendor's tool yet";
    } else if (!rank) {
        status = RS_NOTFOUND;
    } else if (rank->state == RS_VENDOR_FINISHED) {
        add_files(rank->dir, &state);
        if (rank->output)
            add_files(rank->output, &state);
        state.has_marker = rank->has_done;
        *state_p = state;
    } else {
        status = RS_AGAIN;
        if (why)
            *why = rank->state == RS_VENDOR_UNPARSED
                       ? "it holds raw data only, not parsed by the vendor's tool yet"
                       : "it is not finished yet";
    }
    rs_vendor_list_fini(&list);
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

enum rs_status inputs_note_vendor(struct rs_inputs *inputs, const char *path,
                                  const struct stat *about, bool *is_vendor_p)
{
    *is_vendor_p = S_ISDIR(about->st_mode)   ? rs_is_result_folder(path)
                   : S_ISREG(about->st_mode) ? is_result_file(path)
                                             : false;
    if (!*is_vendor_p)
        return RS_OK;
    const enum rs_status status =
        rs_mem_grow((void **)&inputs->vendor_paths, &inputs->vendor_path_capacity,
                    inputs->vendor_path_count + 1, sizeof *inputs->vendor_paths);
    char *copy = status == RS_OK ? rs_mem_strndup(path, bare_length(path)) : NULL;
    if (!copy)
        return RS_NOMEM;
    inputs->vendor_paths[inputs->vendor_path_count++] = copy;
    return RS_OK;
}

static enum rs_status add_path(struct rs_inputs *inputs, const char *path,
                               struct rs_input **input_p)
{
    struct stat about = {0};
    (void)stat(path, &about);
    if (rs_mem_grow((void **)&inputs->items, &inputs->capacity, inputs->count + 1,
                    sizeof *inputs->items) != RS_OK)
        return RS_NOMEM;
    char *copy = rs_mem_strdup(path);
    if (!copy)
        return RS_NOMEM;
    const char *slash = strrchr(copy, '/');
    struct rs_input *input = &inputs->items[inputs->count++];
    *input = (struct rs_input){
        .path = copy,
        .name = slash && slash[1] ? slash + 1 : copy,
        .size_bytes = S_ISREG(about.st_mode) ? about.st_size : 0,
        .modified_ns = (int64_t)about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec,
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

static enum rs_status add_rank(struct rs_inputs *inputs, const struct rs_vendor_rank *rank)
{
    struct rs_input *input = NULL;
    const bool is_loose = rank->framework == RS_VENDOR_MSMONITOR;
    enum rs_status status = add_path(inputs, is_loose ? rank->profiler_db : rank->dir, &input);
    if (status != RS_OK)
        return status;
    input->vendor = rank;
    struct stat about;
    if (rank->profiler_db && stat(rank->profiler_db, &about) == 0)
        input->size_bytes = about.st_size;
    switch (rank->state) {
    case RS_VENDOR_FINISHED:
        return RS_OK;
    case RS_VENDOR_UNPARSED:
        return input_set(input, RS_INPUT_FAILED,
                         "it holds raw data only, not parsed by the vendor's tool yet");
    case RS_VENDOR_UNFINISHED:
        return input_set(input, RS_INPUT_FAILED,
                         "it is not finished: still being recorded or parsed, or broken off");
    }
    return RS_OK;
}

static enum rs_status add_note(struct rs_inputs *inputs, const struct rs_vendor_note *note)
{
    struct rs_input *input = NULL;
    if (note->kind == RS_VENDOR_NOTE_SKIPPED)
        return inputs_tell(inputs, "%s was not looked at: %s", note->path, note->text);
    enum rs_status status = add_path(inputs, note->path, &input);
    if (status == RS_OK)
        status = input_set(input,
                           note->kind == RS_VENDOR_NOTE_FAILED ? RS_INPUT_FAILED : RS_INPUT_SKIPPED,
                           "%s", note->text);
    if (status == RS_OK && note->kind == RS_VENDOR_NOTE_DUPLICATE)
        status = inputs_tell(inputs, "%s was not kept: %s", note->path, note->text);
    return status;
}

enum rs_status inputs_add_vendors(struct rs_inputs *inputs, struct rs_err *err)
{
    if (!inputs->vendor_path_count)
        return RS_OK;
    enum rs_status status = rs_vendor_discover((const char *const *)inputs->vendor_paths,
                                               inputs->vendor_path_count, &inputs->vendors, err);
    for (size_t i = 0; i < inputs->vendors.count && status == RS_OK; i++)
        status = add_rank(inputs, &inputs->vendors.ranks[i]);
    for (size_t i = 0; i < inputs->vendors.note_count && status == RS_OK; i++)
        status = add_note(inputs, &inputs->vendors.notes[i]);
    return status == RS_NOMEM ? rs_err_set(err, status, "out of memory") : status;
}

enum rs_status rs_input_read(const struct rs_input *input, unsigned flags,
                             struct rs_source_stream *stream, struct rs_sink sink,
                             struct rs_err *err)
{
    return input->vendor ? rs_ascend_read(input->vendor, flags, stream, sink, err)
                         : rs_kineto_read(input->path, flags, stream, sink, err);
}
