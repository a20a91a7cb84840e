/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files are profiles, and whose: paths in, one list of inputs out.
 *
 *   rs_discover()        PATH... -> a list of inputs, in order of their paths: candidates and skipped ones
 *   (caller)             rs_input_read() of each candidate, any number at a time, any thread
 *   rs_input_record()    what reading it reported; one call per candidate, each input by one thread
 *   rs_inputs_resolve()  rank and cycle of every input that was read; conflicts; what has to be noted
 *
 * A recording of another family (struct rs_source_format: a result directory of an Ascend profiler) is one input: what
 * lies in it is not looked at one by one.
 *
 * A rank is known only after reading, because a trace may name it behind its events. Nobody becomes rank 0 in
 * silence: map, then the file's own metadata, then a pattern of its name, then "the only input",
 * else RS_INVALID with a sentence that names the file and the two options.
 */
#ifndef RS_SOURCE_DISCOVER_H
#define RS_SOURCE_DISCOVER_H

#include "collector/source/source.h"
#include "common/base/buf.h"

enum { RS_DISCOVER_DEPTH = 8, RS_SOURCE_FORMATS_MAX = 8 };

enum rs_input_state {
    RS_INPUT_CANDIDATE, /* looks like a profile; not read yet */
    RS_INPUT_WHOLE,     /* read to its end */
    RS_INPUT_PARTIAL,   /* truncated or damaged; what is whole was read */
    RS_INPUT_SKIPPED, /* no profile, no rank (the map says so), no events, or replaced by a newer one */
    RS_INPUT_FAILED, /* looks like a profile and cannot be read */
};
const char *rs_input_state_text(enum rs_input_state state); /* "whole", "partial", "skipped", ... */

struct rs_input {
    char *path; /* as opened, but for `held` */
    const char
        *held; /* of a Kineto trace: the name of what is opened in its place; lent; NULL: path */
    const char *name; /* base name, inside `path` */
    const char
        *relative; /* behind the PATH argument that led here, inside `path`; = name for a file */
    int64_t size_bytes;
    int64_t modified_ns; /* of the file, Unix epoch */
    enum rs_input_state state;
    char *reason; /* sentence for skipped, failed and partial; NULL when there is nothing to say */
    const struct rs_source_format
        *format;           /* of a recording of another family; NULL: a Kineto trace */
    const void *recording; /* the format's own; lives as long as the inputs */
    bool is_mapped;        /* the map has a line for it: `rank` is settled before reading */

    /* from rs_input_record() */
    int32_t metadata_rank; /* -1 none */
    int32_t world_size;    /* -1 unknown */
    int64_t events_read;
    bool has_time_base;
    rs_ns first_ns, last_ns; /* of the events; Unix epoch when has_time_base */

    /* from rs_inputs_resolve(); for a mapped input already from rs_discover() */
    int32_t rank; /* -1: none (skipped, failed) */
    enum rs_rank_source rank_source;
    int32_t cycle; /* 0, 1, ... among the files of this rank, in order of time */
};

struct rs_inputs {
    struct rs_input *items; /* by path bytes */
    size_t count, capacity;
    char **
        notes; /* sentences for the person: assumed ranks, missing ranks, conflicts, mixed worlds */
    size_t note_count, note_capacity;
    struct rs_inputs_seen {
        char **paths; /* where recordings of this format were seen */
        size_t count, capacity;
        void *kept; /* the format's own, from find() */
    } seen[RS_SOURCE_FORMATS_MAX];
    char **patterns; /* --rank-from */
    size_t pattern_count, pattern_capacity;
    const char *held; /* from the options */
};

struct rs_discover_options {
    const char *rank_map_path; /* --rank-map FILE, or NULL */
    /* --rank-from PATTERN: the text before the number ("node-"), or with one '*' where it stands ("host*-gpu") */
    const char *const *rank_from;
    size_t rank_from_count;
    /* The one path is a file that the caller holds open: what is read is this name of it (user_file.h). Lent for the life of the
     * inputs; NULL: files are opened by their paths. */
    const char *held;
};

/* Looks for inputs. RS_NOTFOUND: a path does not exist. RS_INVALID: the map is bad, or a pattern is. RS_IO, RS_NOMEM.
 * An empty list is RS_OK here. `options` may be NULL. On RS_OK inputs_p is initialised. */
RS_MUST_CHECK enum rs_status rs_discover(const char *const *paths, size_t path_count,
                                         const struct rs_discover_options *options,
                                         struct rs_inputs *inputs_p, struct rs_err *err);
void rs_inputs_fini(struct rs_inputs *inputs); /* of a zeroed struct is allowed */

/* When a finished result folder last changed, and what tells it from an earlier one at the same path: newest change and
 * bytes of what was parsed. */
struct rs_result_state {
    int64_t changed_ns; /* Unix epoch */
    int64_t bytes;
    bool has_marker; /* the vendor's tool wrote its last file: no need to wait for silence */
};

/* A family of recordings beside Kineto's traces: what discovery and reading have to know of it. Functions are called from
 * any thread, also at the same time. */
struct rs_source_format {
    const char *name; /* "ascend" */
    /* Is this folder (or file) that the search came to a recording of the family, or part of one? */
    bool (*owns)(const char *path, bool is_folder);
    /* What was seen -> inputs, by rs_inputs_add(), rs_input_set(), rs_inputs_note(); *kept_p is what their `recording` points
     * into, given to free() with the inputs (also after a failure, if it was set). RS_NOMEM, or with a sentence. */
    enum rs_status (*find)(const char *const *paths, size_t count, struct rs_inputs *inputs,
                           void **kept_p, struct rs_err *err);
    void (*free)(void *kept);
    /* As rs_input_read() and rs_result_folder_state(). */
    enum rs_status (*read)(const struct rs_input *input, unsigned flags,
                           struct rs_source_stream *stream, struct rs_sink sink,
                           struct rs_err *err);
    enum rs_status (*folder_state)(const char *path, struct rs_result_state *state_p,
                                   const char **why);
};

/* The formats this program was built with; before any thread, once. At most RS_SOURCE_FORMATS_MAX; keeps pointers. */
void rs_source_formats_set(const struct rs_source_format *const *list, size_t count);

/* For find(): a candidate at `path`, lent until the next call; RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_inputs_add(struct rs_inputs *inputs, const char *path,
                                           struct rs_input **input_p);
/* Sets state and reason (replacing an older one). RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_input_set(struct rs_input *input, enum rs_input_state state,
                                          const char *format, ...) RS_PRINTF(3, 4);
/* Adds a sentence to inputs->notes. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_inputs_note(struct rs_inputs *inputs, const char *format, ...)
    RS_PRINTF(2, 3);

/* Is this folder one result of a profiler that writes folders (told by its name, or by what it holds)? */
bool rs_is_result_folder(const char *path);
/* RS_OK: finished, *state_p is set. RS_AGAIN: not finished yet (`why`, may be NULL, says in what state it is); RS_NOTFOUND:
 * there is nothing of a rank in it (yet); RS_NOMEM. */
RS_MUST_CHECK enum rs_status
rs_result_folder_state(const char *path, struct rs_result_state *state_p, const char **why);

/* Reads the input as what it is: rs_kineto_read() or its format's read(), whose statuses these are. */
RS_MUST_CHECK enum rs_status rs_input_read(const struct rs_input *input, unsigned flags,
                                           struct rs_source_stream *stream, struct rs_sink sink,
                                           struct rs_err *err);

/* What reading the candidate gave. `status` and `failure` (its sentence, may be NULL) are rs_input_read()'s; `info` is
 * stream->info with strings of `strings` (both may be NULL on failure); first and last are those of the events as
 * emitted: the base is added here. Copies what it needs. Different inputs may be recorded by different
 * threads at the same time. RS_NOMEM. */
struct rs_input_result {
    enum rs_status status;
    const struct rs_err *failure;
    const struct rs_trace_info *info;
    const struct rs_strtab *strings;
    rs_ns first, last;
};
RS_MUST_CHECK enum rs_status rs_input_record(struct rs_input *input,
                                             const struct rs_input_result *result);

/* Settles rank, rank_source and cycle of all inputs that were read, turns those that are no rank or were replaced into
 * skipped ones and fills `notes`. Of a
 * truncated file without any event nothing is left: it has failed. RS_OK, or RS_INVALID: an input with events has no rank (the sentence names it and
 * what to give). RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_inputs_resolve(struct rs_inputs *inputs, struct rs_err *err);

/* The rank in a file's name. Patterns first, anywhere in `relative` (a path is allowed); then, in its base name,
 * the number right after `rank`, else `worker`, else `device` (any case, as a word's end) with '_', '-' or nothing between. -1 when
 * there is none, or when the same word or pattern gives two different ones. */
int32_t rs_rank_of_name(const char *relative, const char *const *patterns, size_t pattern_count);

#endif
