/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A result folder of a told rank: waited for until the vendor's parser is through, read, packed into the spool, and removed.
 *
 * It is removed when it was read to its end and holds nothing but what was packed. Raw data (FRAMEWORK, PROF_*) is not packed:
 * with it the folder stays, unless raw data was given up (--discard-raw).
 */
#include "collector/agent/collect_config_priv.h"
#include "collector/agent/collect_trace.h"
#include "collector/pack/pack.h"
#include "collector/source/discover.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/user_file.h"

#define RS_LOG_TAG "config"
#include "common/base/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHANGE_MARK_DEPTH = 6 };

static const rs_dur look_every_ns = RS_NS_PER_S;
static const rs_dur settle_ns =
    5 * (rs_dur)RS_NS_PER_S; /* results without the vendor's last mark */

/* ---- waiting ------------------------------------------------------------------------------------------------------ */

/* A number that changes with the files of a folder. */
static uint64_t change_mark_of(int parent, const char *name, unsigned depth)
{
    uint64_t sum = 0;
    const int fd = depth < CHANGE_MARK_DEPTH
                       ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                       : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    if (fd >= 0 && !dir)
        (void)close(fd);
    while (dir && (entry = rs_dir_next(dir))) {
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        sum = sum * 31 + (uint64_t)info.st_size + (uint64_t)info.st_mtim.tv_nsec +
              (uint64_t)info.st_mtim.tv_sec * 1000003u + (uint64_t)info.st_ino;
        if (S_ISDIR(info.st_mode))
            sum += change_mark_of(dirfd(dir), entry->d_name, depth + 1);
    }
    if (dir)
        (void)closedir(dir);
    return sum;
}

/* With the rights of the folder's owner. */
static enum rs_status look_at_result(struct config_job *job, rs_ns now)
{
    struct rs_result_state state;
    const char *why = "";
    const rs_dur patience = job->parses ? job->config->options.parse_wait_ns : 0;
    if (rs_result_folder_state(job->path, &state, &why) == RS_OK &&
        (state.has_marker || state.changed_ns + settle_ns <= rs_time_realtime())) {
        job->written_ns = rs_trace_written_ns(state.changed_ns);
        return RS_OK;
    }
    const int64_t change_mark = (int64_t)change_mark_of(AT_FDCWD, job->path, 0);
    if (change_mark != job->change_mark) {
        job->change_mark = change_mark;
        job->changed_at = now;
    }
    if (rs_result_folder_state(job->path, &state, &why) == RS_OK)
        return RS_AGAIN; /* parsed, and not settled yet */
    return now < job->changed_at + patience ? RS_AGAIN : RS_NOTFOUND;
}

enum rs_status config_look_at_result(struct config_job *job, rs_ns now)
{
    struct rs_as_user scope;
    if (job->looked_at && now < job->looked_at + look_every_ns)
        return RS_AGAIN;
    job->looked_at = now;
    enum rs_status status = rs_file_as_owner_begin(job->path, RS_HOLD_ROOT_LINKS, &scope, NULL);
    if (status < 0 && status != RS_NOTFOUND)
        return RS_OK; /* read_job() meets the same, and says it */
    status = look_at_result(job, now);
    rs_as_user_end(&scope);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

/* Stands between the source and the pack: looks, and hands on. */
struct span {
    struct rs_sink next;
    rs_ns first, last;
};

static enum rs_status on_batch(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct span *span = self;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->start[i] < span->first)
            span->first = batch->start[i];
        if (batch->end[i] > span->last)
            span->last = batch->end[i];
    }
    return span->next.batch(span->next.self, batch, err);
}

static bool has_raw(const char *path)
{
    bool is_raw = false;
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && !is_raw && (entry = rs_dir_next(dir)))
        is_raw = strcmp(entry->d_name, "FRAMEWORK") == 0 || strncmp(entry->d_name, "PROF_", 5) == 0;
    if (dir)
        (void)closedir(dir);
    return is_raw;
}

static enum rs_status emit(struct config_job *job, const struct rs_input *input,
                           struct rs_source_stream *stream, struct rs_pack *pack,
                           struct rs_err *err)
{
    struct rs_err failure = {0};
    char text[RS_CONFIG_PATH_BYTES + 300] = "";
    struct span span = {.next = rs_pack_sink(pack), .first = RS_NS_MAX, .last = RS_NS_MIN};
    const struct rs_sink sink = {.batch = on_batch, .self = &span};
    const enum rs_status read_status =
        rs_input_read(input, RS_SOURCE_LOSSLESS, stream, sink, &failure);
    if (read_status < 0)
        return rs_err_set(err, read_status, "%s",
                          failure.text[0] ? failure.text : "its result cannot be read");
    const rs_ns base = stream->info.has_time_base ? stream->info.base_ns : 0;
    if (span.last > span.first) {
        job->window_start_ns = base + span.first;
        job->window_end_ns = base + span.last;
    }
    job->bytes = stream->info.input_bytes;
    stream->info.written_ns = job->written_ns;
    stream->info.rank = (int32_t)job->rank;
    stream->info.rank_source = RS_RANK_PROCESS;
    if (stream->info.world_size < 0)
        stream->info.world_size = job->world;
    const bool is_whole = read_status == RS_OK && !stream->info.is_partial;
    if (!is_whole)
        (void)snprintf(text, sizeof text, "its result is damaged and stays at %s: %.200s",
                       job->path,
                       stream->info.partial_reason == RS_STR_NONE
                           ? failure.text
                           : rs_strtab_text(&stream->strings, stream->info.partial_reason));
    else
        (void)snprintf(text, sizeof text, "%s", job->note);
    config_report(job, RS_PROGRESS_SENDING, text);
    const enum rs_status status = rs_pack_finish(pack, &stream->info, !is_whole, err);
    job->is_kept = !is_whole || (has_raw(job->path) && !job->config->options.must_discard);
    return status;
}

static enum rs_status take_input(struct config_job *job, const struct rs_input *input,
                                 struct rs_err *err)
{
    struct rs_collect_config *config = job->config;
    struct rs_source_stream stream;
    struct rs_pack *pack = NULL;
    if (rs_source_stream_init(&stream) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory to read %s", job->path);
    const struct rs_pack_options options = {
        .spool = config->base.spool,
        .source = {.run = job->run,
                   .rank = job->rank,
                   .incarnation = job->incarnation,
                   .capture = job->capture,
                   .capture_key = "",
                   .world = job->world > 0 ? (uint32_t)job->world : 0,
                   .host = job->host,
                   .origin = job->path,
                   .user = job->user,
                   .keeps_sequence = true},
        .flags = RS_PACK_WAITS,
        .strings = &stream.strings,
        .lanes = &stream.lanes,
        .must_stop = &config->base.must_stop};
    enum rs_status status = rs_pack_new(&options, &pack, err);
    if (status == RS_OK)
        status = emit(job, input, &stream, pack, err);
    rs_pack_free(&pack);
    rs_source_stream_fini(&stream);
    if (status < 0) {
        /* What is in the spool of it has no end: an end is put, so that nobody waits for one. */
        uint32_t entry = 0;
        struct rs_err ignored = {0};
        if (rs_spool_declare(config->base.spool, &options.source, &entry, NULL) == RS_OK &&
            rs_pack_cut_off(config->base.spool, entry, err->text, &ignored) < 0)
            rs_spool_drop(config->base.spool, entry);
    }
    return status;
}

/* With the rights of the folder's owner: what it is read from is opened by name. The spool is written as ourselves. */
static enum rs_status read_result(struct config_job *job)
{
    struct rs_inputs inputs;
    const char *path = job->path;
    enum rs_status status = rs_discover(&path, 1, NULL, &inputs, &job->err);
    if (status == RS_OK) {
        if (inputs.count == 1 && inputs.items[0].state == RS_INPUT_CANDIDATE)
            status = take_input(job, &inputs.items[0], &job->err);
        else
            status = rs_err_set(&job->err, RS_FORMAT, "%s",
                                inputs.count && inputs.items[0].reason
                                    ? inputs.items[0].reason
                                    : "its result is no profile of a rank");
        rs_inputs_fini(&inputs);
    }
    return status;
}

static void read_job(struct config_job *job)
{
    struct rs_as_user scope;
    config_report(job, RS_PROGRESS_READING, "");
    enum rs_status status =
        rs_file_as_owner_begin(job->path, RS_HOLD_ROOT_LINKS, &scope, &job->err);
    if (status == RS_OK) {
        status = read_result(job);
        rs_as_user_end(&scope);
    }
    if (status == RS_OK && !job->is_kept)
        rs_config_result_remove(job->path);
    job->has_failed = status < 0;
}

static struct config_job *next_queued(struct rs_collect_config *config)
{
    for (struct config_job *job = config->jobs; job; job = job->next)
        if (job->phase == CONFIG_QUEUED)
            return job;
    return NULL;
}

void *config_read_results(void *self)
{
    struct rs_collect_config *config = self;
    (void)pthread_mutex_lock(&config->base.lock);
    while (!atomic_load(&config->base.must_stop)) {
        struct config_job *job = next_queued(config);
        if (!job) {
            (void)pthread_cond_wait(&config->queue_filled, &config->base.lock);
            continue;
        }
        job->phase = CONFIG_READING;
        (void)pthread_mutex_unlock(&config->base.lock);
        read_job(job);
        (void)pthread_mutex_lock(&config->base.lock);
        job->phase = CONFIG_OVER;
        const uint64_t one = 1;
        (void)!write(config->base.wake_fd, &one, sizeof one);
    }
    (void)pthread_mutex_unlock(&config->base.lock);
    return NULL;
}
