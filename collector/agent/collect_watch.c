/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that appear: --watch DIR.
 *
 *   existing, IN_CLOSE_WRITE, IN_MOVED_TO --> queue --> look (whose is it?) --> pack (events, summary, end)
 *                                               |        |
 *                                               |        +-- rank only assumed: wait --settle, and take it only if
 *                                               |            it stayed the only profile of its folder
 *                                               +-- somebody writes it: wait
 *
 * A file counts when it is closed. Who has it open for writing is asked of the kernel (common/base/writers.h). Where that does not say, a file
 * that was closed or moved in while we looked counts at once; one that was there before, when its size and its time of change
 * stood still for --settle and, if it is JSON, its end is there; without an end, after ten times as long.
 *
 * A result folder of an Ascend profiler is taken as a whole, when its parser has said that it is done or nothing in
 * it changed for --settle: its files are not looked at one by one. It is asked once a second.
 *
 * A file is read twice: once quickly for its rank, world and trace id, which a trace may tell behind its
 * events, and once whole. It is identified by (host, path, size, time of change): after a crash the same
 * file makes the same incarnation and the same chunks, so what the spool or the aggregator has already
 * falls through. SPOOL/watched, a log of identities, keeps a file that was taken from being taken again, also under another name: who writes a
 * file under a name for the time being renames it when it is whole. Where such a name says so (.tmp, .part, .partial), the real one is waited for;
 * the first file that keeps such a name is told.
 */
#include "collector/agent/collect.h"
#include "collector/agent/collect_group.h"
#include "collector/pack/pack.h"
#include "collector/source/discover.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/reclog.h"
#include "common/base/thread.h"
#include "common/base/user_file.h"
#include "common/base/writers.h"

#define RS_LOG_TAG "watch"
#include "common/base/log.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, IDENTITY_BYTES = 17, LEDGER_FILE = 1 };
static const rs_dur look_again_ns =
    RS_NS_PER_S / 2; /* at a file that somebody writes; its close is told, too */

struct folder {
    int watch; /* inotify */
    char *path;
    unsigned depth;
};

/* A file that was seen and not yet taken. */
struct pending {
    char *path;
    bool is_assumed;   /* looked at: no rank but "the only input" */
    bool is_result;    /* a folder: the result of an Ascend profiler */
    bool is_temporary; /* its name says that it gets another one: only looked at whether it does */
    bool was_reported; /* that it waits */
    bool was_closed;   /* we saw that it was closed or moved in */
    rs_ns due_at;      /* monotonic */
    struct stat quiet; /* as it was when it last changed */
    rs_ns quiet_since; /* monotonic; 0: not looked at yet */
};

/* A file whose original goes when its stream is acknowledged. */
struct discard {
    char *path;
    struct stat seen; /* before it was read: only that very file goes */
    uint32_t entry;
};

struct rs_collect_watch {
    struct rs_spool *spool;
    char *dir, *run, *host, *rank_map;
    const char **patterns;
    size_t pattern_count;
    rs_dur settle_ns;
    bool must_discard;
    bool was_left_told; /* that a file kept its name for the time being */

    pthread_t thread;
    int inotify, wake;
    atomic_bool must_stop;
    struct folder *folders;
    size_t folder_count, folder_capacity;
    struct pending *pending; /* sorted by path when a scan added to it */
    size_t pending_count, pending_capacity;
    struct discard *discards;
    size_t discard_count, discard_capacity;
    struct rs_reclog ledger;
    uint64_t *taken; /* identities, sorted lazily: a scan is enough for thousands */
    size_t taken_count, taken_capacity;
    struct rs_collect_groups groups;
};

/* ---- the ledger ----------------------------------------------------------------------------------------- */

/* FNV-1a over what makes a file this file. */
static uint64_t identity_of(const struct rs_collect_watch *watch, const char *path,
                            const struct stat *info)
{
    char text[PATH_BYTES + 512];
    const int length =
        snprintf(text, sizeof text, "%.255s\n%.4095s\n%lld\n%lld.%09ld", watch->host, path,
                 (long long)info->st_size, (long long)info->st_mtim.tv_sec, info->st_mtim.tv_nsec);
    uint64_t hash = 1469598103934665603u;
    for (int i = 0; i < length && i < (int)sizeof text; i++)
        hash = (hash ^ (uint8_t)text[i]) * 1099511628211u;
    return hash;
}

/* The same, whatever its name. No path begins like this. */
static uint64_t identity_of_content(const struct rs_collect_watch *watch, const struct stat *info)
{
    char number[64];
    (void)snprintf(number, sizeof number, "inode %llu:%llu", (unsigned long long)info->st_dev,
                   (unsigned long long)info->st_ino);
    return identity_of(watch, number, info);
}

static bool is_taken(const struct rs_collect_watch *watch, uint64_t identity)
{
    for (size_t i = 0; i < watch->taken_count; i++)
        if (watch->taken[i] == identity)
            return true;
    return false;
}

static enum rs_status remember(struct rs_collect_watch *watch, uint64_t identity)
{
    const enum rs_status status = rs_mem_grow((void **)&watch->taken, &watch->taken_capacity,
                                              watch->taken_count + 1, sizeof *watch->taken);
    if (status == RS_OK)
        watch->taken[watch->taken_count++] = identity;
    return status;
}

static void mark_taken(struct rs_collect_watch *watch, uint64_t identity, const char *path)
{
    struct rs_err err = {0};
    const struct rs_reclog_record record = {.kind = LEDGER_FILE, .seq = identity};
    union {
        const char *in;
        void *out;
    } name = {.in = path};
    const struct iovec part = {.iov_base = name.out, .iov_len = strlen(path)};
    if (remember(watch, identity) < 0 ||
        rs_reclog_append(&watch->ledger, &record, &part, 1, NULL, &err) < 0)
        rs_log_warn("%s may be read again after a restart: %s", path, err.text);
}

/* A file, by its name or by another one. */
static bool is_taken_file(const struct rs_collect_watch *watch, const char *path,
                          const struct stat *info)
{
    return is_taken(watch, identity_of(watch, path, info)) ||
           is_taken(watch, identity_of_content(watch, info));
}

static enum rs_status open_ledger(struct rs_collect_watch *watch, const char *spool_dir,
                                  struct rs_err *err)
{
    char *path = rs_file_join(spool_dir, "watched");
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory");
    enum rs_status status = access(path, F_OK) == 0
                                ? rs_reclog_open(&watch->ledger, path, NULL, err)
                                : rs_reclog_create(&watch->ledger, path, err);
    struct rs_reclog_reader reader;
    if (status == RS_OK) {
        status = rs_reclog_reader_open(&reader, path, err);
        struct rs_reclog_record record;
        struct rs_view payload;
        while (status == RS_OK &&
               rs_reclog_next(&reader, RS_RECLOG_CHECK_ALL, &record, &payload, NULL, NULL) == RS_OK)
            status = remember(watch, record.seq);
        rs_reclog_reader_close(&reader);
    }
    rs_mem_free(path);
    return status;
}

/* ---- finding files --------------------------------------------------------------------------------------- */

/* Its writer gives it another name when it is whole, and that is told. */
static bool is_temporary(const char *path)
{
    static const char *const tails[] = {".tmp", ".part", ".partial"};
    const char *tail = strrchr(path, '.');
    for (size_t i = 0; tail && i < sizeof tails / sizeof *tails; i++)
        if (strcmp(tail, tails[i]) == 0)
            return true;
    return false;
}

static void add_pending(struct rs_collect_watch *watch, const char *path, bool is_result,
                        bool was_closed)
{
    for (size_t i = 0; i < watch->pending_count; i++) {
        if (strcmp(watch->pending[i].path, path) == 0) {
            if (is_result)
                return;                           /* asked again in any case */
            watch->pending[i].is_assumed = false; /* it changed: look again */
            watch->pending[i].was_closed |= was_closed;
            watch->pending[i].due_at = 0;
            return;
        }
    }
    char *copy = rs_mem_strdup(path);
    if (!copy || rs_mem_grow((void **)&watch->pending, &watch->pending_capacity,
                             watch->pending_count + 1, sizeof *watch->pending) < 0) {
        rs_log_error("no memory to take %s", path);
        rs_mem_free(copy);
        return;
    }
    watch->pending[watch->pending_count++] =
        (struct pending){.path = copy,
                         .is_result = is_result,
                         .is_temporary = !is_result && is_temporary(copy),
                         .was_closed = was_closed};
}

static void watch_folder(struct rs_collect_watch *watch, const char *path, unsigned depth);

/* `held`: the folder, open. */
static void scan_folder(struct rs_collect_watch *watch, const char *path,
                        const struct rs_held *held, unsigned depth)
{
    struct dirent **items = NULL;
    const int count = scandirat(held->fd, ".", &items, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char *child = items[i]->d_name[0] == '.' ? NULL : rs_file_join(path, items[i]->d_name);
        struct stat info;
        if (child && fstatat(held->fd, items[i]->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
            if (S_ISDIR(info.st_mode))
                watch_folder(watch, child, depth + 1);
            else if (S_ISREG(info.st_mode))
                add_pending(watch, child, false, false);
        }
        rs_mem_free(child);
        free(items[i]);
    }
    free((void *)items);
}

/* false: no memory. */
static bool remember_folder(struct rs_collect_watch *watch, const char *path, int number,
                            unsigned depth)
{
    bool is_known = false;
    for (size_t i = 0; i < watch->folder_count && !is_known; i++)
        is_known = watch->folders[i].watch == number;
    if (!is_known) {
        char *copy = rs_mem_strdup(path);
        if (!copy || rs_mem_grow((void **)&watch->folders, &watch->folder_capacity,
                                 watch->folder_count + 1, sizeof *watch->folders) < 0) {
            rs_mem_free(copy);
            return false;
        }
        watch->folders[watch->folder_count++] =
            (struct folder){.watch = number, .path = copy, .depth = depth};
    }
    return true;
}

/* Watch first, then scan: what appears in between is seen twice, not missed. */
static void watch_folder(struct rs_collect_watch *watch, const char *path, unsigned depth)
{
    if (depth > RS_DISCOVER_DEPTH)
        return;
    if (rs_is_result_folder(path)) {
        add_pending(watch, path, true, false);
        return;
    }
    struct rs_held held;
    struct rs_err err = {0};
    if (rs_file_hold(path, RS_HOLD_FOLDER, &held, &err) < 0) {
        if (err.status != RS_NOTFOUND)
            rs_log_error("cannot watch %s: %s", path, err.text);
        return;
    }
    const int number =
        inotify_add_watch(watch->inotify, held.name,
                          IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ONLYDIR | IN_EXCL_UNLINK);
    if (number < 0)
        rs_log_error("cannot watch %s: %s", path, RS_ERRNO_TEXT());
    else if (remember_folder(watch, path, number, depth))
        scan_folder(watch, path, &held, depth);
    rs_held_release(&held);
}

static void on_event(struct rs_collect_watch *watch, const struct inotify_event *event)
{
    if (event->mask & IN_Q_OVERFLOW) {
        watch_folder(watch, watch->dir, 0);
        return;
    }
    const struct folder *folder = NULL;
    for (size_t i = 0; i < watch->folder_count && !folder; i++)
        if (watch->folders[i].watch == event->wd)
            folder = &watch->folders[i];
    if (!folder || event->len == 0 || event->name[0] == '.')
        return;
    char *path = rs_file_join(folder->path, event->name);
    if (path && (event->mask & IN_ISDIR))
        watch_folder(watch, path, folder->depth + 1);
    else if (path && (event->mask & (IN_CLOSE_WRITE | IN_MOVED_TO)))
        add_pending(watch, path, false, true);
    rs_mem_free(path);
}

static void read_events(struct rs_collect_watch *watch)
{
    _Alignas(struct inotify_event) char bytes[16 * 1024];
    for (;;) {
        const ssize_t got = read(watch->inotify, bytes, sizeof bytes);
        if (got <= 0)
            return;
        for (ssize_t at = 0; at < got;) {
            struct inotify_event event;
            memcpy(&event, bytes + at, sizeof event);
            /* The name stands behind the struct: look at it where it lies. */
            on_event(watch, (const struct inotify_event *)(const void *)(bytes + at));
            at += (ssize_t)(sizeof event + event.len);
        }
    }
}

/* ---- looking ---------------------------------------------------------------------------------------------- */

struct span {
    rs_ns first, last;
    const atomic_bool *must_stop;
};

static enum rs_status measure(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct span *span = self;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->start[i] < span->first)
            span->first = batch->start[i];
        if (batch->end[i] > span->last)
            span->last = batch->end[i];
    }
    return atomic_load(span->must_stop) ? rs_err_set(err, RS_CANCELLED, "stopped") : RS_OK;
}

/* What the first reading tells. */
struct look {
    struct rs_inputs inputs; /* of this file alone */
    int32_t rank;
    enum rs_rank_source rank_source;
    int32_t world;
    char host[RS_WIRE_TEXT_MAX_BYTES];
    char trace_id[RS_WIRE_TEXT_MAX_BYTES];
};

static void take_text(const struct rs_strtab *strings, rs_str id, char *text, size_t bytes)
{
    text[0] = '\0';
    if (id != RS_STR_NONE)
        (void)snprintf(text, bytes, "%.255s", rs_strtab_text(strings, id));
}

/* RS_OK: it is a profile with a rank. RS_NOTFOUND: it is none (reported). RS_INVALID: no rank can be found (told by the
 * sentence). */
static enum rs_status look_at(struct rs_collect_watch *watch, const char *path,
                              const struct rs_held *held, struct look *look, struct rs_err *err)
{
    const bool is_file = S_ISREG(held->about.st_mode);
    const struct rs_discover_options options = {.held = is_file ? held->name : NULL,
                                                .rank_map_path = watch->rank_map,
                                                .rank_from = watch->patterns,
                                                .rank_from_count = watch->pattern_count};
    struct rs_source_stream stream;
    struct rs_err failure = {0};
    struct span span = {.first = RS_NS_MAX, .last = RS_NS_MIN, .must_stop = &watch->must_stop};
    enum rs_status status = rs_discover(&path, 1, &options, &look->inputs, err);
    if (status < 0)
        return status;
    if (look->inputs.count != 1 || look->inputs.items[0].state != RS_INPUT_CANDIDATE)
        return rs_err_set(err, RS_NOTFOUND, "%s",
                          look->inputs.count && look->inputs.items[0].reason
                              ? look->inputs.items[0].reason
                              : "it is no profile");
    status = rs_source_stream_init(&stream);
    if (status < 0)
        return rs_err_set(err, status, "no memory to read %s", path);
    const struct rs_sink sink = {.batch = measure, .self = &span};
    const enum rs_status read_status =
        rs_input_read(&look->inputs.items[0], 0, &stream, sink, &failure);
    const struct rs_input_result result = {.status = read_status,
                                           .failure = &failure,
                                           .info = &stream.info,
                                           .strings = &stream.strings,
                                           .first = span.first,
                                           .last = span.last};
    if (read_status == RS_CANCELLED)
        status = rs_err_set(err, RS_CANCELLED, "stopped");
    else
        status = rs_input_record(&look->inputs.items[0], &result);
    if (status == RS_OK)
        status = rs_inputs_resolve(&look->inputs, err);
    const struct rs_input *input = &look->inputs.items[0];
    if (status == RS_OK && input->rank < 0)
        status =
            rs_err_set(err, RS_NOTFOUND, "%s", input->reason ? input->reason : "it is no rank");
    if (status == RS_OK) {
        look->rank = input->rank;
        look->rank_source = input->rank_source;
        look->world = stream.info.world_size;
        take_text(&stream.strings, stream.info.host, look->host, sizeof look->host);
        take_text(&stream.strings, stream.info.trace_id, look->trace_id, sizeof look->trace_id);
    }
    rs_source_stream_fini(&stream);
    return status;
}

/* ---- packing ---------------------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The folder of a file, and that folder's name. */
static void folder_of(const char *path, char *folder, size_t bytes)
{
    (void)snprintf(folder, bytes, "%.*s", (int)(base_name(path) - path - 1), path);
}

static enum rs_status pack_file(struct rs_collect_watch *watch, const char *path,
                                const struct rs_held *held, const struct stat *seen,
                                const struct look *look, struct rs_err *err)
{
    char folder[PATH_BYTES];
    char key[PATH_BYTES + 16];
    char incarnation[RS_WIRE_TEXT_MAX_BYTES];
    const char *host = *look->host ? look->host : watch->host;
    folder_of(path, folder, sizeof folder);
    if (look->inputs.items[0].format && *watch->run) /* local disks have no folder in common */
        (void)snprintf(key, sizeof key, "run:%.255s", watch->run);
    else if (rs_collect_group_key(&watch->groups, folder, look->trace_id, look->rank,
                                  rs_time_monotonic(), watch->settle_ns, key, sizeof key) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory to take %s", path);
    (void)snprintf(incarnation, sizeof incarnation, "%.120s:file:%016llx", watch->host,
                   (unsigned long long)identity_of(watch, path, seen));
    struct rs_source_stream stream;
    struct rs_pack *pack = NULL;
    struct rs_err failure = {0};
    if (rs_source_stream_init(&stream) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory to read %s", path);
    const struct rs_pack_options options = {
        .spool = watch->spool,
        .source = {.run = *watch->run ? watch->run : base_name(folder),
                   .rank = (uint32_t)look->rank,
                   .incarnation = incarnation,
                   .capture = "",
                   .capture_key = key,
                   .world = look->world > 0 ? (uint32_t)look->world : 0,
                   .host = host,
                   .settle_ns = watch->settle_ns,
                   .origin = path,
                   .user = (int64_t)held->user.uid + 1},
        .flags = RS_PACK_REPEATABLE,
        .strings = &stream.strings,
        .lanes = &stream.lanes,
        .must_stop = &watch->must_stop};
    uint32_t entry = 0;
    enum rs_status status = rs_pack_new(&options, &pack, err);
    if (status == RS_OK)
        status = rs_input_read(&look->inputs.items[0], RS_SOURCE_LOSSLESS, &stream,
                               rs_pack_sink(pack), &failure);
    const bool is_whole = status == RS_OK;
    if (status < 0 && failure.text[0])
        (void)rs_err_set(err, failure.status, "%s", failure.text);
    if (status == RS_OK || status == RS_PARTIAL) {
        stream.info.rank = look->rank;
        stream.info.rank_source = look->rank_source;
        status = rs_pack_finish(pack, &stream.info, false, err);
    }
    if (status == RS_OK) {
        const bool may_go = watch->must_discard && !look->inputs.items[0].format && is_whole;
        if (watch->must_discard && !is_whole)
            rs_log_warn("%s stays: it was not read whole", path);
        const struct rs_pack_totals totals = rs_pack_totals(pack);
        rs_log_info("%s: rank %d, %llu rows in %llu chunks, %llu bytes", path, look->rank,
                    (unsigned long long)totals.rows, (unsigned long long)totals.chunks,
                    (unsigned long long)totals.bytes);
        if (may_go && rs_spool_declare(watch->spool, &options.source, &entry, NULL) == RS_OK &&
            rs_mem_grow((void **)&watch->discards, &watch->discard_capacity,
                        watch->discard_count + 1, sizeof *watch->discards) == RS_OK)
            watch->discards[watch->discard_count++] =
                (struct discard){.path = rs_mem_strdup(path), .seen = *seen, .entry = entry};
    }
    rs_pack_free(&pack);
    rs_source_stream_fini(&stream);
    return status;
}

/* Whether another pending file stands in the same folder. */
static bool has_company(const struct rs_collect_watch *watch, const char *path)
{
    char folder[PATH_BYTES];
    char other[PATH_BYTES];
    folder_of(path, folder, sizeof folder);
    for (size_t i = 0; i < watch->pending_count; i++) {
        folder_of(watch->pending[i].path, other, sizeof other);
        if (!watch->pending[i].is_temporary && strcmp(folder, other) == 0 &&
            strcmp(watch->pending[i].path, path) != 0)
            return true;
    }
    return false;
}

/* A result folder: is it finished, and which one is it? false: it waits. */
static bool is_ready(struct rs_collect_watch *watch, struct pending *pending, struct stat *info)
{
    struct rs_result_state state;
    const char *why = "there is nothing of a rank in it yet";
    const enum rs_status status = rs_result_folder_state(pending->path, &state, &why);
    pending->due_at = rs_time_monotonic() + RS_NS_PER_S;
    if (status != RS_OK) {
        if (!pending->was_reported) /* raw data may wait for ever: nobody else would say so */
            rs_log_write(status == RS_AGAIN ? RS_LOG_WARN : RS_LOG_INFO, RS_LOG_TAG,
                         "%s is waited for: %s", pending->path, why);
        pending->was_reported = true;
        return false;
    }
    info->st_size = (off_t)state.bytes;
    info->st_mtim.tv_sec = (time_t)(state.changed_ns / RS_NS_PER_S);
    info->st_mtim.tv_nsec = (long)(state.changed_ns % RS_NS_PER_S);
    return state.has_marker || state.changed_ns + watch->settle_ns <= rs_time_realtime();
}

/* Whether a JSON text ends as one does. What is no JSON text has no end that could be told from its bytes. */
static bool has_end(const char *path, const struct rs_held *held)
{
    char tail[64];
    const char *dot = strrchr(path, '.');
    if (!dot || strcmp(dot, ".json") != 0)
        return true;
    const off_t size = held->about.st_size;
    const off_t from = size > (off_t)sizeof tail ? size - (off_t)sizeof tail : (off_t)0;
    ssize_t length = pread(held->fd, tail, sizeof tail, from);
    while (length > 0 && isspace((unsigned char)tail[length - 1]))
        length--;
    return length > 0 && (tail[length - 1] == '}' || tail[length - 1] == ']');
}

/* Size and time of change have stood still for long enough. */
static bool is_quiet(const struct rs_collect_watch *watch, struct pending *pending,
                     const struct rs_held *held)
{
    const rs_ns now = rs_time_monotonic();
    const struct stat *info = &held->about;
    if (!pending->quiet_since || pending->quiet.st_size != info->st_size ||
        pending->quiet.st_mtim.tv_sec != info->st_mtim.tv_sec ||
        pending->quiet.st_mtim.tv_nsec != info->st_mtim.tv_nsec) {
        pending->quiet = *info;
        pending->quiet_since = now;
        return false;
    }
    const rs_dur patience = has_end(pending->path, held) ? watch->settle_ns : 10 * watch->settle_ns;
    return now >= pending->quiet_since + patience;
}

/* Asked as its owner, who may. */
static enum rs_writers writers_of(const struct rs_held *held)
{
    struct rs_as_user scope;
    if (rs_as_user_begin(&held->user, &scope, NULL) < 0)
        return RS_WRITERS_UNKNOWN;
    const enum rs_writers writers = rs_file_writers(held->fd);
    rs_as_user_end(&scope);
    return writers;
}

/* false: somebody still writes it, so it waits. */
static bool is_closed(const struct rs_collect_watch *watch, struct pending *pending,
                      const struct rs_held *held)
{
    const enum rs_writers writers = writers_of(held);
    if (writers == RS_WRITERS_NONE ||
        (writers == RS_WRITERS_UNKNOWN && (pending->was_closed || is_quiet(watch, pending, held))))
        return true;
    if (!pending->was_reported)
        rs_log_debug("%s is being written: waited for", pending->path);
    pending->was_reported = true;
    pending->due_at = rs_time_monotonic() + look_again_ns;
    return false;
}

/* Of a plain file: whether it is one that is to be read, now. `*is_done_p`: it never will. */
static bool is_due_file(struct rs_collect_watch *watch, struct pending *pending,
                        struct rs_held *held, bool *is_done_p)
{
    *is_done_p = is_taken_file(watch, pending->path, &held->about);
    if (*is_done_p && watch->must_discard)
        rs_log_info("%s was taken by the collector before this one, and stays", pending->path);
    else if (*is_done_p && !is_taken(watch, identity_of(watch, pending->path, &held->about)))
        rs_log_info("%s was taken already, under another name", pending->path);
    if (*is_done_p || !is_closed(watch, pending, held))
        return false;
    /* What it is now that nobody writes it. */
    *is_done_p = fstat(held->fd, &held->about) != 0 || held->about.st_nlink == 0 ||
                 is_taken_file(watch, pending->path, &held->about);
    return !*is_done_p;
}

/* What is read of a file or folder that is held and has come to its end. false: it waits. */
static bool read_held(struct rs_collect_watch *watch, struct pending *pending,
                      const struct rs_held *held, const struct stat *info, uint64_t identity)
{
    struct look look = {.rank = -1, .world = -1};
    struct rs_err err = {0};
    const char *path = pending->path;
    bool is_done = true, is_over = false;
    enum rs_status status = look_at(watch, path, held, &look, &err);
    const bool is_assumed = status == RS_OK && look.rank_source == RS_RANK_ASSUMED;
    if (is_assumed && has_company(watch, path)) {
        rs_log_error("%s names no rank and is not the only profile: give --rank-map or "
                     "--rank-from",
                     path);
        is_over = true;
    } else if (is_assumed && !pending->is_assumed) {
        pending->is_assumed = true;
        pending->due_at = rs_time_monotonic() + watch->settle_ns;
        is_done = false;
    } else if (status == RS_OK) {
        if (is_assumed)
            rs_log_warn("%s names no rank; as it is the only one it is taken for rank 0", path);
        status = pack_file(watch, path, held, info, &look, &err);
        is_over = status == RS_OK;
    } else if (status == RS_NOTFOUND) {
        rs_log_info("%s is left alone: %s", path, err.text);
        is_over = true;
    }
    if (status < 0 && status != RS_NOTFOUND && status != RS_CANCELLED) {
        rs_log_error("%s cannot be taken: %s", path, err.text);
        is_over = status == RS_INVALID || status == RS_FORMAT;
    }
    if (is_over)
        mark_taken(watch, identity, path);
    if (is_over && !pending->is_result)
        mark_taken(watch, identity_of_content(watch, info), path);
    rs_inputs_fini(&look.inputs);
    return is_done;
}

/* In a folder files are opened by name, so all of it is done with its owner's rights. */
static bool take_result(struct rs_collect_watch *watch, struct pending *pending,
                        const struct rs_held *held)
{
    struct rs_as_user scope;
    struct rs_err err = {0};
    struct stat info = held->about;
    bool is_done = false;
    if (rs_as_user_begin(&held->user, &scope, &err) < 0) {
        rs_log_error("%s cannot be taken: %s", pending->path, err.text);
        return true;
    }
    if (is_ready(watch, pending, &info)) {
        const uint64_t identity = identity_of(watch, pending->path, &info);
        is_done = is_taken(watch, identity) || read_held(watch, pending, held, &info, identity);
    }
    rs_as_user_end(&scope);
    return is_done;
}

/* A writer that is done and keeps the name waits for a trace that is never taken: said of the first. true: it is done with. */
static bool look_at_temporary(struct rs_collect_watch *watch, struct pending *pending)
{
    struct stat info;
    if (lstat(pending->path, &info) < 0)
        return true; /* it has its other name */
    const rs_ns changed = info.st_ctim.tv_sec * (rs_ns)RS_NS_PER_S + info.st_ctim.tv_nsec;
    if (rs_time_realtime() < changed + 10 * watch->settle_ns) {
        pending->due_at = rs_time_monotonic() + RS_NS_PER_S;
        return false;
    }
    rs_log_write(watch->was_left_told ? RS_LOG_INFO : RS_LOG_WARN, RS_LOG_TAG,
                 "%s is not taken: names that end in .tmp, .part or .partial are of files that are "
                 "being written; give it another name when it is whole",
                 pending->path);
    watch->was_left_told = true;
    return true;
}

/* Takes one file, or result folder. true: it is done with; false: it waits. */
static bool take_file(struct rs_collect_watch *watch, struct pending *pending)
{
    struct rs_held held;
    struct rs_err err = {0};
    bool is_done = true;
    if (pending->is_temporary)
        return look_at_temporary(watch, pending);
    const enum rs_status status =
        rs_file_hold(pending->path, pending->is_result ? RS_HOLD_FOLDER : 0, &held, &err);
    if (status < 0) {
        if (status != RS_NOTFOUND)
            rs_log_error("%s cannot be taken: %s", pending->path, err.text);
        return true;
    }
    if (pending->is_result)
        is_done = take_result(watch, pending, &held);
    else if (is_due_file(watch, pending, &held, &is_done))
        is_done = read_held(watch, pending, &held, &held.about,
                            identity_of(watch, pending->path, &held.about));
    rs_held_release(&held);
    return is_done;
}

static void take_files(struct rs_collect_watch *watch)
{
    size_t i = 0;
    while (i < watch->pending_count && !atomic_load(&watch->must_stop)) {
        if (watch->pending[i].due_at > rs_time_monotonic()) {
            i++;
            continue;
        }
        if (!take_file(watch, &watch->pending[i])) {
            i++;
            continue;
        }
        rs_mem_free(watch->pending[i].path);
        watch->pending_count--;
        memmove(&watch->pending[i], &watch->pending[i + 1],
                (watch->pending_count - i) * sizeof *watch->pending);
        read_events(watch);
    }
}

/* Originals whose streams are stored go, if they were asked to. */
static void discard_files(struct rs_collect_watch *watch)
{
    size_t kept = 0;
    for (size_t i = 0; i < watch->discard_count; i++) {
        struct discard *discard = &watch->discards[i];
        struct rs_spool_entry entry;
        struct rs_err err = {0};
        const enum rs_status status = rs_spool_entry_of(watch->spool, discard->entry, &entry);
        if (status == RS_OK && !(entry.is_ended && entry.end_seq <= entry.acked_seq)) {
            watch->discards[kept++] = *discard;
            continue;
        }
        if (rs_spool_was_lost(watch->spool, discard->entry))
            rs_log_warn("%s stays: its data could not be kept for the aggregator", discard->path);
        else if (discard->path && rs_file_remove_same(discard->path, &discard->seen, &err) == RS_OK)
            rs_log_info("%s is stored and was removed", discard->path);
        else if (discard->path)
            rs_log_warn("%s is stored and stays: %s", discard->path, err.text);
        rs_mem_free(discard->path);
    }
    watch->discard_count = kept;
}

static void *work(void *self)
{
    rs_thread_is(RS_THREAD_WATCH);
    struct rs_collect_watch *watch = self;
    watch_folder(watch, watch->dir, 0);
    while (!atomic_load(&watch->must_stop)) {
        take_files(watch);
        discard_files(watch);
        struct pollfd fds[] = {{.fd = watch->inotify, .events = POLLIN},
                               {.fd = watch->wake, .events = POLLIN}};
        (void)poll(fds, 2, watch->pending_count || watch->discard_count ? 100 : 1000);
        read_events(watch);
    }
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

static void free_watch(struct rs_collect_watch *watch)
{
    if (watch->inotify >= 0)
        (void)close(watch->inotify);
    if (watch->wake >= 0)
        (void)close(watch->wake);
    rs_reclog_close(&watch->ledger);
    for (size_t i = 0; i < watch->folder_count; i++)
        rs_mem_free(watch->folders[i].path);
    for (size_t i = 0; i < watch->pending_count; i++)
        rs_mem_free(watch->pending[i].path);
    for (size_t i = 0; i < watch->discard_count; i++)
        rs_mem_free(watch->discards[i].path);
    rs_mem_free(watch->folders);
    rs_mem_free(watch->pending);
    rs_mem_free(watch->discards);
    rs_mem_free(watch->taken);
    rs_collect_groups_fini(&watch->groups);
    rs_mem_free(watch->patterns);
    rs_mem_free(watch->dir);
    rs_mem_free(watch->run);
    rs_mem_free(watch->host);
    rs_mem_free(watch->rank_map);
    rs_mem_free(watch);
}

static enum rs_status fill_watch(struct rs_collect_watch *watch,
                                 const struct rs_collect_watch_options *options, struct rs_err *err)
{
    char *real = realpath(options->dir, NULL);
    struct stat info;
    if (!real || stat(real, &info) < 0 || !S_ISDIR(info.st_mode)) {
        free(real);
        return rs_err_set(err, RS_INVALID, "--watch %s is no folder", options->dir);
    }
    watch->dir = rs_mem_strdup(real);
    free(real);
    watch->run = rs_mem_strdup(options->run);
    watch->host = rs_mem_strdup(options->host);
    watch->rank_map = options->rank_map ? rs_mem_strdup(options->rank_map) : NULL;
    watch->patterns = rs_mem_calloc(options->rank_from_count, sizeof *watch->patterns);
    if (!watch->dir || !watch->run || !watch->host || !watch->patterns ||
        (options->rank_map && !watch->rank_map))
        return rs_err_set(err, RS_NOMEM, "no memory to watch %s", options->dir);
    for (size_t i = 0; i < options->rank_from_count; i++)
        watch->patterns[i] = options->rank_from[i];
    watch->pattern_count = options->rank_from_count;
    watch->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    watch->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (watch->inotify < 0 || watch->wake < 0)
        return rs_err_errno(err, "cannot watch %s", options->dir);
    /* A bad map or pattern is told at the start, not at the first file. */
    struct rs_inputs inputs;
    const char *nothing = watch->dir;
    const struct rs_discover_options discover = {.rank_map_path = watch->rank_map,
                                                 .rank_from = watch->patterns,
                                                 .rank_from_count = watch->pattern_count};
    const enum rs_status status = rs_discover(&nothing, 1, &discover, &inputs, err);
    if (status == RS_OK)
        rs_inputs_fini(&inputs);
    return status;
}

enum rs_status rs_collect_watch_start(const struct rs_collect_watch_options *options,
                                      struct rs_collect_watch **watch_p, struct rs_err *err)
{
    struct rs_collect_watch *watch = rs_mem_calloc(1, sizeof *watch);
    if (!watch)
        return rs_err_set(err, RS_NOMEM, "no memory to watch %s", options->dir);
    watch->spool = options->spool;
    watch->settle_ns = options->settle_ns;
    watch->must_discard = options->must_discard;
    watch->inotify = watch->wake = watch->ledger.fd = -1;
    enum rs_status status = fill_watch(watch, options, err);
    if (status == RS_OK)
        status = open_ledger(watch, options->spool_dir, err);
    if (status == RS_OK && pthread_create(&watch->thread, NULL, work, watch) != 0)
        status = rs_err_set(err, RS_IO, "cannot start a thread");
    if (status < 0) {
        free_watch(watch);
        return status;
    }
    (void)pthread_setname_np(watch->thread, "rs-src-watch");
    *watch_p = watch;
    return RS_OK;
}

void rs_collect_watch_stop(struct rs_collect_watch **watch_p)
{
    struct rs_collect_watch *watch = *watch_p;
    if (!watch)
        return;
    *watch_p = NULL;
    atomic_store(&watch->must_stop, true);
    const uint64_t one = 1;
    (void)!write(watch->wake, &one, sizeof one);
    (void)pthread_join(watch->thread, NULL);
    free_watch(watch);
}
