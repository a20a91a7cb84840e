/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     recordings --survey--> whose each is
 *          each of the ranks asked for --read--> calls --+--> operators (key_averages), summed up
 *                                            |           +--> stacks (export_stacks)
 *                                            |           +--> memory (export_memory_timeline)
 *                                            +----------------> chrome: the trace itself, as it was recorded
 */
#include "aggregator/trace/inspect.h"

#include "aggregator/trace/averages.h"
#include "aggregator/trace/memory.h"
#include "aggregator/trace/stacks.h"
#include "collector/source/kineto_write.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/request/numbers.h"

#include <zlib.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096,
    DRAIN_BYTES = 1 << 20,
    RANKS_MAX = 4096,
    ROWS_SHOWN = 30,
    FRAMES_MAX = 64,
    NAMES_MAX = 100 /* of temporary files that nobody may have */
};
/* Of a document with a limit: what stands behind its rows, and of that what is not the recording's own. */
enum { TAIL_BYTES = 64 << 10, TAIL_RESERVE = 512, LIMIT_LEAST = 1 << 20 };

enum what { OPERATORS, STACKS, MEMORY, CHROME, WHAT_COUNT };
static const char *const whats[WHAT_COUNT] = {"operators", "stacks", "memory", "chrome"};

struct job {
    const struct rs_inspect_options *how;
    enum what what;
    enum rs_average_sort sort;
    enum rs_stack_metric metric;
    struct rs_memory_device device;
    const char *out; /* NULL: stdout */
    char in_folder[PATH_BYTES];
    uint32_t ranks[RANKS_MAX];
    size_t rank_count; /* 0: all */
    struct rs_recordings *recordings;
    struct rs_averages averages;
    struct rs_buf *text;
    bool is_partial;
};

static void note(const struct job *job, const char *format, ...) RS_PRINTF(2, 3);

static void note(const struct job *job, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (job->how->note)
        job->how->note(job->how->note_self, line);
}

/* ---- a file that is written ---------------------------------------------------------------------------------------- */

/* Appears whole or not at all; compressed when its name ends in .gz. Until then it has no name where the file system can do that, so that
 * nothing of it stays behind whoever ends this process; else one that nobody has. */
struct file {
    char path[PATH_BYTES], temporary[PATH_BYTES + 48];
    int nameless;  /* -1: it has the temporary name */
    gzFile stream; /* NULL: stdout */
};

static bool ends_in(const char *text, const char *end)
{
    const size_t length = strlen(text), wanted = strlen(end);
    return length > wanted && strcmp(text + length - wanted, end) == 0;
}

/* -1: this file system knows no files without a name, or nobody could give it one later. */
static int open_nameless(const char *path)
{
    char folder[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    (void)snprintf(folder, sizeof folder, "%.*s/", slash ? (int)(slash - path) : 1,
                   slash ? path : ".");
    return access("/proc/self/fd", X_OK) == 0 ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0640)
                                              : -1;
}

/* A process that was killed may have had our number: in a container it is 1 each time. */
static void name_temporary(struct file *file, unsigned number)
{
    (void)snprintf(file->temporary, sizeof file->temporary, "%s.tmp-%ld-%u", file->path,
                   (long)getpid(), number);
}

static enum rs_status file_open(struct file *file, struct rs_err *err)
{
    int fd = open_nameless(file->path);
    file->nameless = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0 && file->nameless < 0) {
        (void)close(fd);
        fd = -1;
    }
    for (unsigned i = 0; fd < 0 && i < NAMES_MAX; i++) {
        name_temporary(file, i);
        fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0)
        return rs_err_errno(err, "cannot create %s", file->temporary);
    file->stream = gzdopen(fd, ends_in(file->path, ".gz") ? "wb6" : "wbT");
    if (file->stream)
        return RS_OK;
    (void)close(fd);
    if (file->nameless >= 0)
        (void)close(file->nameless);
    else
        (void)unlink(file->temporary);
    return rs_err_set(err, RS_NOMEM, "no memory to write %s", file->path);
}

/* Links replace nothing, so it has a temporary name for a moment. */
static enum rs_status give_name(struct file *file, struct rs_err *err)
{
    char link[64];
    int status = -1;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", file->nameless);
    for (unsigned i = 0; status < 0 && i < NAMES_MAX; i++) {
        name_temporary(file, i);
        status = linkat(AT_FDCWD, link, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW);
        if (status < 0 && errno != EEXIST)
            break;
    }
    return status < 0 ? rs_err_errno(err, "cannot name %s", file->temporary) : RS_OK;
}

/* Takes what is in the buffer. */
static enum rs_status file_write(struct file *file, struct rs_buf *buf, struct rs_err *err)
{
    if (buf->failed)
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", file->path);
    for (size_t done = 0; done < buf->length;) {
        const size_t left = buf->length - done;
        const unsigned part = left < DRAIN_BYTES ? (unsigned)left : DRAIN_BYTES;
        if (gzwrite(file->stream, buf->data + done, part) != (int)part)
            return rs_err_errno(err, "cannot write %s", file->path);
        done += part;
    }
    rs_buf_reset(buf);
    return RS_OK;
}

static enum rs_status file_close(struct file *file, enum rs_status status, struct rs_err *err)
{
    if (!file->stream)
        return status;
    const int closed = gzclose(file->stream);
    file->stream = NULL;
    if (status == RS_OK && closed != Z_OK)
        status = rs_err_errno(err, "cannot write %s", file->path);
    bool has_name = file->nameless < 0;
    if (status == RS_OK && !has_name) {
        status = give_name(file, err);
        has_name = status == RS_OK;
    }
    if (status == RS_OK && rename(file->temporary, file->path) < 0)
        status = rs_err_errno(err, "cannot name %s", file->path);
    if (status != RS_OK && has_name)
        (void)unlink(file->temporary);
    if (file->nameless >= 0)
        (void)close(file->nameless);
    return status;
}

/* The name of a recording's file: {rank} in --out is its rank, and "3-2" the second recording of rank 3. */
static enum rs_status name_file(const struct job *job, struct file *file, int32_t rank,
                                size_t cycle, struct rs_err *err)
{
    char number[48];
    const char *hole = strstr(job->out, "{rank}");
    (void)snprintf(number, sizeof number, cycle ? "%" PRId32 "-%zu" : "%" PRId32, rank, cycle + 1);
    const int length =
        hole ? snprintf(file->path, sizeof file->path, "%.*s%s%s", (int)(hole - job->out), job->out,
                        number, hole + strlen("{rank}"))
             : snprintf(file->path, sizeof file->path, "%s", job->out);
    return length >= 0 && (size_t)length < sizeof file->path
               ? RS_OK
               : rs_err_set(err, RS_INVALID, "--out is too long a name");
}

/* ---- one recording ------------------------------------------------------------------------------------------------- */

struct one {
    struct job *job;
    int32_t rank;
    struct file file;
    struct rs_buf buf;
    const struct rs_strtab *strings;
    struct rs_trace_calls calls;
    struct rs_kineto_writer writer;
    bool is_partial;
    uint64_t rows;
};

static enum rs_status one_begin(void *self, const struct rs_strtab *strings,
                                const struct rs_lanes *lanes, struct rs_err *err)
{
    struct one *one = self;
    (void)lanes;
    (void)err;
    one->strings = strings;
    if (one->job->what == CHROME) {
        rs_kineto_write_begin(&one->writer, &one->buf);
        one->writer.fills_in = true;
        one->writer.limit_bytes =
            one->job->how->limit_bytes ? (uint64_t)one->job->how->limit_bytes - TAIL_BYTES : 0;
    }
    return RS_OK;
}

/* What a document has besides its rows may be long, too: then it is left out. */
static enum rs_status write_end(struct one *one, const struct rs_trace_info *info,
                                struct rs_err *err)
{
    struct rs_trace_info shorter = *info;
    if (one->job->how->limit_bytes &&
        rs_strtab_length(one->strings, info->metadata) + TAIL_RESERVE > TAIL_BYTES) {
        shorter.metadata = RS_STR_NONE;
        one->is_partial = true;
        note(one->job, "rank %" PRId32 ": what its file said besides rows did not fit into --limit",
             one->rank);
    }
    rs_kineto_write_end(&one->writer, &shorter, one->strings);
    if (one->writer.dropped_rows) {
        one->is_partial = true;
        note(one->job, "rank %" PRId32 ": %" PRIu64 " of %" PRIu64 " rows did not fit into --limit",
             one->rank, one->writer.dropped_rows, one->rows);
    }
    return file_write(&one->file, &one->buf, err);
}

static enum rs_status one_batch(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct one *one = self;
    one->rows += batch->count;
    if (one->job->what != CHROME)
        return rs_trace_calls_add(&one->calls, batch, err);
    rs_kineto_write_rows(&one->writer, batch);
    return one->buf.length < DRAIN_BYTES ? RS_OK : file_write(&one->file, &one->buf, err);
}

static enum rs_status write_stacks(struct one *one, struct rs_err *err)
{
    const struct rs_stacks_form how = {.metric = one->job->metric};
    uint64_t lines = 0;
    const enum rs_status status =
        rs_stacks_write(&one->calls, one->strings, &how, &one->buf, &lines, err);
    if (status != RS_OK)
        return status;
    if (!one->calls.has_python)
        note(one->job,
             "rank %" PRId32
             ": no Python frames were recorded (with_stack): its stacks are of operators alone",
             one->rank);
    if (!lines)
        note(one->job, "rank %" PRId32 ": no stack has a microsecond of %s time", one->rank,
             one->job->metric == RS_STACK_SELF_CPU ? "its own" : "device");
    if (one->file.stream)
        return file_write(&one->file, &one->buf, err);
    rs_buf_bytes(one->job->text, one->buf.data, one->buf.length);
    return RS_OK; /* the buffer is whole: else there would be no lines */
}

/* Who records it how, whatever this recording is. */
static enum rs_status say_who_records_memory(const struct one *one,
                                             const struct rs_trace_info *info, struct rs_err *err)
{
    return rs_err_set(
        err, RS_NOTFOUND,
        "this recording (%.60s) has no row of an allocator. PyTorch records them with "
        "profile_memory (capture --profile-memory), a native program says them "
        "(rankscope_memory()); of Ascend results see memory_record.csv",
        rs_strtab_text(one->strings, info->generation));
}

static enum rs_status write_memory(struct one *one, const struct rs_trace_info *info,
                                   struct rs_err *err)
{
    struct rs_memory_timeline timeline = {0};
    struct rs_memory_device device = one->job->device;
    const rs_ns base_ns = info->has_time_base ? info->base_ns : 0;
    char title[128], name[32];
    if (!one->calls.memory_count)
        return say_who_records_memory(one, info, err);
    if (!one->job->how->device && !rs_memory_device_default(&one->calls, &device))
        device = (struct rs_memory_device){.type = 0, .index = -1};
    enum rs_status status = rs_memory_timeline_new(&one->calls, base_ns, &device, &timeline, err);
    if (status != RS_OK)
        return status;
    rs_memory_device_text(&device, name, sizeof name);
    (void)snprintf(title, sizeof title, "Rank %" PRId32 ": memory of %s", one->rank, name);
    if (timeline.unknown)
        note(one->job, "rank %" PRId32 ": %" PRIu64 " rows name no address or time; left out",
             one->rank, timeline.unknown);
    if (ends_in(one->file.path, ".html"))
        rs_memory_write_page(&timeline, title, &one->buf);
    else if (ends_in(one->file.path, ".raw.json.gz") || ends_in(one->file.path, ".raw.json"))
        rs_memory_write_events(&timeline, &one->buf);
    else
        rs_memory_write_sizes(&timeline, &one->buf);
    rs_memory_timeline_fini(&timeline);
    return file_write(&one->file, &one->buf, err);
}

/* What rows are to be told apart by was not recorded: they are one row each. */
static void note_what_lacks(const struct one *one)
{
    if (one->job->how->by_shapes && !one->calls.has_dims)
        note(one->job,
             "rank %" PRId32 ": no shapes were recorded (record_shapes): rows are by name alone",
             one->rank);
    if (one->job->how->stack_frames && !one->calls.has_python)
        note(one->job,
             "rank %" PRId32
             ": no Python frames were recorded (with_stack): rows are not told apart by them",
             one->rank);
}

static enum rs_status one_end(void *self, const struct rs_trace_info *info, struct rs_err *err)
{
    struct one *one = self;
    one->is_partial = info->is_partial;
    if (!one->rows)
        return rs_err_set(err, RS_NOTFOUND,
                          "none of its events are here (of a capture without raw data: rankscope "
                          "fetch ID)");
    if (one->job->what == CHROME)
        return write_end(one, info, err);
    const enum rs_status status = rs_trace_calls_nest(&one->calls, err);
    if (status != RS_OK)
        return status;
    switch (one->job->what) {
    case OPERATORS:
        note_what_lacks(one);
        return rs_averages_add(&one->job->averages, one->rank, &one->calls, one->strings, err);
    case STACKS:
        return write_stacks(one, err);
    case MEMORY:
        return write_memory(one, info, err);
    case CHROME:
    case WHAT_COUNT:
        break;
    }
    return RS_OK;
}

/* Nobody loses his recording to what is made of it. */
static enum rs_status check_target(const struct job *job, const char *path, struct rs_err *err)
{
    struct stat target, input;
    if (stat(path, &target) < 0)
        return RS_OK;
    for (size_t i = 0; i < job->recordings->inputs.count; i++)
        if (stat(job->recordings->inputs.items[i].path, &input) == 0 &&
            input.st_dev == target.st_dev && input.st_ino == target.st_ino)
            return rs_err_set(err, RS_INVALID, "-o %s is one of the recordings that are read",
                              path);
    return RS_OK;
}

/* What cannot be written of one recording stops nobody else. */
static enum rs_status do_one(struct job *job, const struct rs_recording *recording, size_t cycle,
                             struct rs_err *err)
{
    struct one one = {.job = job, .rank = recording->rank, .file = {.nameless = -1}};
    const struct rs_taker to = {one_begin, one_batch, one_end, &one};
    struct rs_err why = {0};
    enum rs_status status = RS_OK;
    if (job->out) {
        status = name_file(job, &one.file, recording->rank, cycle, err);
        if (status == RS_OK)
            status = check_target(job, one.file.path, err);
        if (status == RS_OK)
            status = file_open(&one.file, err);
        if (status != RS_OK)
            return status;
    }
    status = rs_recording_read(job->recordings, recording, RS_SOURCE_LOSSLESS, &to, &why);
    job->is_partial = job->is_partial || one.is_partial || status == RS_PARTIAL;
    if (status == RS_PARTIAL || (one.is_partial && !one.writer.dropped_rows))
        note(job, "rank %" PRId32 ": its recording is not whole", recording->rank);
    status = file_close(&one.file, status == RS_PARTIAL ? RS_OK : status, &why);
    if (status == RS_OK && job->out)
        rs_buf_printf(job->text, "rank %" PRId32 ": %s\n", recording->rank, one.file.path);
    rs_trace_calls_fini(&one.calls);
    rs_buf_fini(&one.buf);
    if (status == RS_NOMEM || status == RS_IO || status == RS_INVALID)
        return rs_err_set(err, status, "%s", why.text);
    if (status != RS_OK) {
        job->is_partial = true;
        note(job, "rank %" PRId32 ": %s", recording->rank, why.text);
    }
    return RS_OK;
}

/* ---- all of them --------------------------------------------------------------------------------------------------- */

static bool is_wanted(const struct job *job, int32_t rank)
{
    for (size_t i = 0; i < job->rank_count; i++)
        if ((int64_t)job->ranks[i] == rank)
            return true;
    return rank >= 0 && !job->rank_count;
}

static enum rs_status check_ranks(const struct job *job, struct rs_err *err)
{
    for (size_t i = 0; i < job->rank_count; i++) {
        bool is_there = false;
        for (size_t k = 0; k < job->recordings->count; k++)
            is_there = is_there || job->recordings->items[k].rank == (int64_t)job->ranks[i];
        if (!is_there)
            return rs_err_set(err, RS_NOTFOUND, "there is no rank %" PRIu32 " in what was read",
                              job->ranks[i]);
    }
    return RS_OK;
}

static int by_rank(const void *a_, const void *b_)
{
    const struct rs_recording *a = a_, *b = b_;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->input && b->input && a->input->cycle != b->input->cycle)
        return a->input->cycle < b->input->cycle ? -1 : 1;
    return (a->stream > b->stream) - (a->stream < b->stream);
}

/* Several files need several names. */
static enum rs_status check_names(const struct job *job, struct rs_err *err)
{
    size_t count = 0;
    for (size_t i = 0; i < job->recordings->count; i++)
        count += is_wanted(job, job->recordings->items[i].rank);
    if (!count)
        return rs_err_set(err, RS_NOTFOUND, "no profile of a rank was found");
    if (count == 1 || job->what == OPERATORS || (job->out && strstr(job->out, "{rank}")))
        return RS_OK;
    return rs_err_set(
        err, RS_INVALID,
        "%zu recordings are meant: choose one with --ranks, or say -o with {rank} in the name",
        count);
}

/* Most reasons begin with the path. */
static void tell_failed(const struct job *job, const struct rs_input *input)
{
    const char *reason = input->reason ? input->reason : "cannot be read";
    if (strncmp(reason, input->path, strlen(input->path)) == 0)
        note(job, "%s", reason);
    else
        note(job, "%s: %s", input->path, reason);
}

static enum rs_status survey(struct job *job, struct rs_err *err)
{
    struct rs_recordings *recordings = job->recordings;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < recordings->count && status == RS_OK; i++)
        status = rs_recordings_survey(recordings, &recordings->items[i], NULL, err);
    if (status == RS_OK && !recordings->stored)
        status = rs_recordings_settle(recordings, err);
    for (size_t i = 0; status == RS_OK && i < recordings->inputs.count; i++) {
        const struct rs_input *input = &recordings->inputs.items[i];
        if (input->state != RS_INPUT_FAILED)
            continue;
        job->is_partial = true;
        tell_failed(job, input);
    }
    qsort(recordings->items, recordings->count, sizeof *recordings->items, by_rank);
    return status;
}

/* Rows of the operators that were asked for. */
static enum rs_status keep_names(const struct rs_inspect_options *how, struct rs_averages *averages,
                                 struct rs_err *err)
{
    size_t kept = 0;
    if (!how->name_count)
        return RS_OK;
    for (size_t i = 0; i < averages->count; i++) {
        const char *name = rs_strtab_text(&averages->texts, averages->items[i].name);
        bool is_meant = false;
        for (size_t k = 0; k < how->name_count; k++)
            is_meant = is_meant || strcmp(name, how->names[k]) == 0;
        if (is_meant)
            averages->items[kept++] = averages->items[i];
    }
    averages->count = kept;
    return kept ? RS_OK
                : rs_err_set(err, RS_NOTFOUND,
                             "nothing that was recorded has the name \"%.100s\"%s; without --name "
                             "all are listed",
                             how->names[0], how->name_count > 1 ? ", nor another one" : "");
}

static enum rs_status sum_up(struct job *job, struct rs_err *err)
{
    const struct rs_inspect_options *how = job->how;
    const bool is_table = !how->as_json && !how->as_csv;
    const int64_t limit = how->row_limit ? how->row_limit : is_table ? ROWS_SHOWN : -1;
    const struct rs_averages_form form = {.row_limit = limit < 0 ? SIZE_MAX : (size_t)limit,
                                          .form = how->as_json  ? RS_AVERAGES_JSON
                                                  : how->as_csv ? RS_AVERAGES_CSV
                                                                : RS_AVERAGES_TEXT};
    const enum rs_status status = keep_names(how, &job->averages, err);
    if (status != RS_OK)
        return status;
    if (job->sort == RS_AVERAGE_SORT_COUNT)
        job->sort = job->averages.has_device ? RS_AVERAGE_SELF_DEVICE : RS_AVERAGE_SELF_CPU;
    rs_averages_sort(&job->averages, job->sort);
    rs_averages_write(&job->averages, &form, job->text);
    return RS_OK;
}

static enum rs_status run(struct job *job, struct rs_err *err)
{
    size_t cycle = 0;
    enum rs_status status = survey(job, err);
    if (status == RS_OK)
        status = check_ranks(job, err);
    if (status == RS_OK)
        status = check_names(job, err);
    for (size_t i = 0; i < job->recordings->count && status == RS_OK; i++) {
        const struct rs_recording *own = &job->recordings->items[i];
        if (!is_wanted(job, own->rank))
            continue;
        cycle = i && own[-1].rank == own->rank ? cycle + 1 : 0;
        status = do_one(job, own, cycle, err);
    }
    return status == RS_OK && job->what == OPERATORS ? sum_up(job, err) : status;
}

/* ---- what was asked for ------------------------------------------------------------------------------------------- */

static enum rs_status find_what(const char *word, enum what *what_p, struct rs_err *err)
{
    for (unsigned i = 0; i < WHAT_COUNT; i++) {
        *what_p = (enum what)i;
        if (strcmp(word, whats[i]) == 0)
            return RS_OK;
    }
    return rs_err_set(
        err, RS_INVALID,
        "say what of the trace, operators, stacks, memory or chrome, and not \"%.40s\"", word);
}

/* An option of another word would do nothing. */
static enum rs_status check_options(const struct job *job, struct rs_err *err)
{
    const struct rs_inspect_options *how = job->how;
    const enum what what = job->what;
    const struct {
        const char *name;
        bool is_given, is_meant;
    } options[] = {
        {"sort-by", how->sort_by, what == OPERATORS},
        {"row-limit", how->row_limit, what == OPERATORS},
        {"by-shape", how->by_shapes, what == OPERATORS},
        {"by-stack", how->stack_frames, what == OPERATORS},
        {"json", how->as_json, what == OPERATORS},
        {"csv", how->as_csv, what == OPERATORS},
        {"name", how->name_count, what == OPERATORS},
        {"limit", how->limit_bytes, what == CHROME},
        {"metric", how->metric, what == STACKS},
        {"device", how->device, what == MEMORY},
        {"out", how->out, what != OPERATORS},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].is_given && !options[i].is_meant)
            return rs_err_set(err, RS_INVALID, "--%s is not for trace %s", options[i].name,
                              whats[what]);
    if (how->as_json && how->as_csv)
        return rs_err_set(err, RS_INVALID, "--json or --csv, not both");
    if (how->stack_frames < 0 || how->stack_frames > FRAMES_MAX)
        return rs_err_set(err, RS_INVALID, "--by-stack is at most %d", FRAMES_MAX);
    if (how->limit_bytes && how->limit_bytes < LIMIT_LEAST)
        return rs_err_set(err, RS_INVALID, "--limit is 1MiB at least");
    return RS_OK;
}

/* In a folder files have the usual names: TensorBoard shows what is called *.pt.trace.json.gz in its --logdir. */
static enum rs_status name_in_folder(struct job *job, struct rs_err *err)
{
    static const char *const usual[WHAT_COUNT] = {
        [STACKS] = ".stacks", [MEMORY] = ".memory.html", [CHROME] = ".pt.trace.json.gz"};
    struct stat info;
    job->out = job->how->out;
    if (!job->out || !usual[job->what] || stat(job->out, &info) < 0 || !S_ISDIR(info.st_mode))
        return RS_OK;
    const int length = snprintf(job->in_folder, sizeof job->in_folder, "%s/rank{rank}%s", job->out,
                                usual[job->what]);
    if (length < 0 || (size_t)length >= sizeof job->in_folder)
        return rs_err_set(err, RS_INVALID, "--out is too long a name");
    job->out = job->in_folder;
    return RS_OK;
}

static enum rs_status check_ending(const struct job *job, struct rs_err *err)
{
    const bool is_memory = job->what == MEMORY, is_chrome = job->what == CHROME;
    if (!is_memory && !is_chrome)
        return RS_OK;
    if (!job->out)
        return rs_err_set(err, RS_INVALID, "say where to: -o FILE");
    if (ends_in(job->out, ".json") || ends_in(job->out, ".json.gz") ||
        (is_memory && ends_in(job->out, ".html")))
        return RS_OK;
    return is_chrome ? rs_err_set(err, RS_INVALID, "-o is NAME.json or NAME.json.gz")
                     : rs_err_set(err, RS_INVALID,
                                  "-o says the kind of file: NAME.html, NAME.json, NAME.json.gz or "
                                  "NAME.raw.json.gz");
}

static enum rs_status read_words(struct job *job, struct rs_err *err)
{
    const struct rs_inspect_options *how = job->how;
    job->sort = RS_AVERAGE_SORT_COUNT; /* by what there is */
    if (how->sort_by && !rs_average_sort_named(how->sort_by, &job->sort))
        return rs_err_set(err, RS_INVALID,
                          "--sort-by: there is no \"%.40s\"; --help says what there is",
                          how->sort_by);
    if (how->metric && !rs_stack_metric_named(how->metric, &job->metric))
        return rs_err_set(err, RS_INVALID, "--metric is self_cpu or self_device, not \"%.40s\"",
                          how->metric);
    if (how->device && !rs_memory_device_named(how->device, &job->device))
        return rs_err_set(err, RS_INVALID,
                          "--device is cpu, cuda, npu, xpu or mtia, and :NUMBER, not \"%.40s\"",
                          how->device);
    return how->ranks
               ? rs_numbers_of_ranks(how->ranks, job->ranks, RANKS_MAX, &job->rank_count, err)
               : RS_OK;
}

static enum rs_status prepare(struct job *job, const struct rs_inspect_options *options,
                              struct rs_err *err)
{
    job->how = options;
    enum rs_status status = find_what(options->what, &job->what, err);
    if (status == RS_OK)
        status = check_options(job, err);
    if (status == RS_OK)
        status = name_in_folder(job, err);
    if (status == RS_OK)
        status = check_ending(job, err);
    return status == RS_OK ? read_words(job, err) : status;
}

static enum rs_status new_job(struct job **job_p, struct rs_err *err)
{
    *job_p = rs_mem_calloc(1, sizeof **job_p);
    return *job_p ? RS_OK : rs_err_set(err, RS_NOMEM, "out of memory");
}

enum rs_status rs_inspect_check(const struct rs_inspect_options *options, struct rs_err *err)
{
    struct job *job = NULL;
    enum rs_status status = new_job(&job, err);
    if (status == RS_OK)
        status = prepare(job, options, err);
    rs_mem_free(job);
    return status;
}

enum rs_status rs_inspect(struct rs_recordings *recordings,
                          const struct rs_inspect_options *options, struct rs_buf *text,
                          struct rs_err *err)
{
    const struct rs_averages_options how = {.by_shapes = options->by_shapes,
                                            .stack_frames = (uint32_t)options->stack_frames};
    struct job *job = NULL;
    enum rs_status status = new_job(&job, err);
    if (status != RS_OK)
        return status;
    job->recordings = recordings;
    job->text = text;
    status = prepare(job, options, err);
    if (status == RS_OK && rs_averages_init(&job->averages, &how) != RS_OK)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    if (status == RS_OK)
        status = run(job, err);
    if (status == RS_OK && job->is_partial)
        status = RS_PARTIAL;
    rs_averages_fini(&job->averages);
    rs_mem_free(job);
    return status;
}
