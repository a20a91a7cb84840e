/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writing side: one log per open capture, streams and their positions, the catalogue
 * behind a lock.
 *
 * fdatasync makes the data and the length of a file durable, not its name: the folder is
 * synced when a segment is created.
 */
#include "aggregator/store/store.h"

#include "aggregator/store/store_priv.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/reclog.h"

#define RS_LOG_TAG "store"
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Appended bytes after which the disk is asked to begin: the sync that follows then overlaps with appends. */
enum { PUSH_BYTES = 1024 * 1024 };

/* One open capture's log. Streams are numbered in order of their first chunk. */
struct capture_log {
    char id[RS_STORE_ID_BYTES];
    char *dir;
    struct rs_reclog log; /* of the newest segment */
    uint32_t segment;     /* its number; 0: none yet */
    struct rs_store_stream **streams;
    bool *is_told; /* by stream: its record is in this segment */
    size_t stream_count, stream_capacity, told_capacity;
    bool is_dirty;
};

/* ---- streams --------------------------------------------------------------------------------------------- */

static size_t hash_stream(const char *run, uint32_t rank, const char *incarnation)
{
    uint64_t hash = 1469598103934665603u ^ rank;
    for (; *run; run++)
        hash = (hash ^ (uint8_t)*run) * 1099511628211u;
    hash = (hash ^ 0xff) * 1099511628211u;
    for (; *incarnation; incarnation++)
        hash = (hash ^ (uint8_t)*incarnation) * 1099511628211u;
    return (size_t)(hash ^ (hash >> 29));
}

static struct rs_store_stream **find_slot(struct rs_store_stream **slots, size_t slot_count,
                                          const char *run, uint32_t rank, const char *incarnation)
{
    size_t i = hash_stream(run, rank, incarnation) & (slot_count - 1);
    for (; slots[i]; i = (i + 1) & (slot_count - 1))
        if (slots[i]->rank == rank && strcmp(slots[i]->run, run) == 0 &&
            strcmp(slots[i]->incarnation, incarnation) == 0)
            break;
    return &slots[i];
}

static enum rs_status grow_streams(struct rs_store *store)
{
    if (store->slot_count && store->stream_count * 2 < store->slot_count)
        return RS_OK;
    const size_t slot_count = store->slot_count ? store->slot_count * 2 : 256;
    struct rs_store_stream **slots = rs_mem_calloc(slot_count, sizeof(struct rs_store_stream *));
    if (!slots)
        return RS_NOMEM;
    for (size_t i = 0; i < store->slot_count; i++) {
        struct rs_store_stream *stream = store->streams[i];
        if (stream)
            *find_slot(slots, slot_count, stream->run, stream->rank, stream->incarnation) = stream;
    }
    rs_mem_free(store->streams);
    store->streams = slots;
    store->slot_count = slot_count;
    return RS_OK;
}

static void free_stream(struct rs_store_stream *stream)
{
    if (!stream)
        return;
    union {
        const char *in;
        void *out;
    } run = {.in = stream->run}, incarnation = {.in = stream->incarnation};
    rs_mem_free(run.out);
    rs_mem_free(incarnation.out);
    rs_mem_free(stream);
}

enum rs_status rs_store_stream(struct rs_store *store, const char *run, uint32_t rank,
                               const char *incarnation, struct rs_store_stream **stream_p,
                               struct rs_err *err)
{
    if (grow_streams(store) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a stream");
    struct rs_store_stream **slot =
        find_slot(store->streams, store->slot_count, run, rank, incarnation);
    if (*slot) {
        *stream_p = *slot;
        return RS_OK;
    }
    struct rs_store_stream *stream = rs_mem_calloc(1, sizeof *stream);
    enum rs_status status = RS_NOMEM;
    if (stream) {
        stream->rank = rank;
        stream->run = rs_mem_strdup(run);
        stream->incarnation = rs_mem_strdup(incarnation);
    }
    if (stream && stream->run && stream->incarnation) {
        (void)pthread_mutex_lock(&store->lock);
        status = catalogue_find_position(store->catalogue, stream, err);
        (void)pthread_mutex_unlock(&store->lock);
    } else {
        (void)rs_err_set(err, RS_NOMEM, "no memory for a stream");
    }
    if (status < 0) {
        free_stream(stream);
        return status;
    }
    *slot = stream;
    store->stream_count++;
    *stream_p = stream;
    return RS_OK;
}

/* ---- logs ------------------------------------------------------------------------------------------------- */

static void free_log(struct capture_log *log)
{
    if (!log)
        return;
    rs_reclog_close(&log->log);
    rs_mem_free(log->streams);
    rs_mem_free(log->is_told);
    rs_mem_free(log->dir);
    rs_mem_free(log);
}

static enum rs_status log_stream(struct capture_log *log, struct rs_store_stream *stream,
                                 size_t *index_p)
{
    for (size_t i = log->stream_count; i > 0; i--) {
        if (log->streams[i - 1] == stream) {
            *index_p = i - 1;
            return RS_OK;
        }
    }
    if (rs_mem_grow((void **)&log->streams, &log->stream_capacity, log->stream_count + 1,
                    sizeof(struct rs_store_stream *)) < 0 ||
        rs_mem_grow((void **)&log->is_told, &log->told_capacity, log->stream_count + 1,
                    sizeof *log->is_told) < 0)
        return RS_NOMEM;
    log->streams[log->stream_count] = stream;
    log->is_told[log->stream_count] = false;
    *index_p = log->stream_count++;
    return RS_OK;
}

static enum rs_status add_log(struct rs_store *store, const char *id, struct capture_log **log_p,
                              struct rs_err *err)
{
    if (!store_is_id(id))
        return rs_err_set(err, RS_INVALID, "\"%.63s\" is no capture id", id);
    struct capture_log *log = rs_mem_calloc(1, sizeof *log);
    if (log) {
        (void)snprintf(log->id, sizeof log->id, "%s", id);
        log->dir = rs_store_capture_dir(store, id);
        log->log.fd = -1;
    }
    if (!log || !log->dir ||
        rs_mem_grow((void **)&store->logs, &store->log_capacity, store->log_count + 1,
                    sizeof(struct capture_log *)) < 0) {
        free_log(log);
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    }
    store->logs[store->log_count++] = log;
    *log_p = log;
    return RS_OK;
}

static struct capture_log *find_log(const struct rs_store *store, const char *id)
{
    for (size_t i = store->log_count; i > 0; i--)
        if (strcmp(store->logs[i - 1]->id, id) == 0)
            return store->logs[i - 1];
    return NULL;
}

/* A flush under way holds descriptors: the log is closed when it ends. */
static void retire_log(struct rs_store *store, struct rs_reclog *log)
{
    if (store->is_flushing && log->path &&
        rs_mem_grow((void **)&store->retired, &store->retired_capacity, store->retired_count + 1,
                    sizeof *store->retired) == RS_OK) {
        store->retired[store->retired_count++] = *log;
        *log = (struct rs_reclog){.fd = -1};
        return;
    }
    /* Without memory for the list the descriptor stays open rather than be another file's. */
    if (store->is_flushing && log->path)
        *log = (struct rs_reclog){.fd = -1};
    rs_reclog_close(log);
}

static enum rs_status begin_segment(struct rs_store *store, struct capture_log *log,
                                    struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (log->is_dirty)
        status = rs_reclog_sync(&log->log, err);
    char *path = segment_path(log->dir, log->segment + 1);
    char *folder = rs_file_join(log->dir, "segments");
    struct rs_reclog next = {.fd = -1};
    if (status == RS_OK && (!path || !folder))
        status = rs_err_set(err, RS_NOMEM, "no memory for a segment");
    if (status == RS_OK)
        status = rs_reclog_create(&next, path, err);
    if (status == RS_OK) {
        status = rs_file_sync_dir(folder, err);
        if (status < 0)
            rs_reclog_close(&next);
    }
    rs_mem_free(path);
    rs_mem_free(folder);
    if (status < 0)
        return status;
    retire_log(store, &log->log);
    log->log = next;
    log->segment++;
    for (size_t i = 0; i < log->stream_count; i++)
        log->is_told[i] = false;
    return RS_OK;
}

/* Finds the streams of a segment and how far they go. */
static enum rs_status scan_segment(struct rs_store *store, struct capture_log *log,
                                   const char *path, bool check_all, struct rs_err *err)
{
    struct rs_reclog_reader reader;
    enum rs_status status = rs_reclog_reader_open(&reader, path, err);
    if (status < 0)
        return status;
    /* Tags are numbers in order of first chunk, and every segment tells the streams it uses. */
    struct rs_reclog_record record;
    struct rs_view payload;
    for (size_t i = 0; i < log->stream_count; i++)
        log->is_told[i] = false;
    for (;;) {
        status = rs_reclog_next(&reader, check_all ? RS_RECLOG_CHECK_ALL : RS_RECLOG_CHECK_HEADER,
                                &record, &payload, NULL, err);
        if (status != RS_OK)
            break;
        if (record.kind == RECORD_STREAM) {
            struct stream_record who;
            struct rs_store_stream *stream = NULL;
            size_t index = 0;
            status = stream_record_decode(payload, &who);
            if (status < 0)
                break;
            status = rs_store_stream(store, who.run, who.rank, who.incarnation, &stream, err);
            stream_record_fini(&who);
            if (status == RS_OK)
                status = log_stream(log, stream, &index);
            if (status == RS_OK && index != record.tag)
                status =
                    rs_err_set(err, RS_FORMAT, "%s numbers its streams in another order", path);
            if (status < 0)
                break;
            log->is_told[index] = true;
        } else if (record.kind == RECORD_CHUNK && record.tag < log->stream_count) {
            struct rs_store_stream *stream = log->streams[record.tag];
            if (record.seq > stream->appended_seq) {
                stream->appended_seq = record.seq;
                (void)snprintf(stream->capture, sizeof stream->capture, "%s", log->id);
                stream->is_ended = (record.flags & RS_ENVELOPE_LAST) != 0;
            }
        }
    }
    rs_reclog_reader_close(&reader);
    return status == RS_END ? RS_OK : status;
}

/* Opens the log of a capture that has segments: the newest one is cut where it was torn, and synced, so
 * that what is told to be durable is. */
static enum rs_status recover_log(struct rs_store *store, struct capture_log *log,
                                  struct rs_err *err)
{
    uint32_t *numbers = NULL;
    size_t count = 0;
    enum rs_status status = list_segments(log->dir, &numbers, &count, err);
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        const bool is_newest = i + 1 == count;
        char *path = segment_path(log->dir, numbers[i]);
        uint64_t cut = 0;
        if (!path)
            status = rs_err_set(err, RS_NOMEM, "no memory for a segment");
        if (status == RS_OK && is_newest) {
            status = rs_reclog_open(&log->log, path, &cut, err);
            log->segment = numbers[i];
        }
        if (cut)
            rs_log_info("capture %s: %llu torn bytes cut", log->id, (unsigned long long)cut);
        if (status == RS_OK)
            status = scan_segment(store, log, path, false, err);
        rs_mem_free(path);
    }
    rs_mem_free(numbers);
    if (status == RS_OK && count)
        status = rs_reclog_sync(&log->log, err);
    for (size_t i = 0; i < log->stream_count && status == RS_OK; i++)
        log->streams[i]->durable_seq = log->streams[i]->appended_seq;
    return status;
}

/* The log of a capture that may be written to; opened again when it had been closed. */
static enum rs_status want_log(struct rs_store *store, const char *id, struct capture_log **log_p,
                               struct rs_err *err)
{
    struct capture_log *log = find_log(store, id);
    if (log) {
        *log_p = log;
        return RS_OK;
    }
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    if (!facts)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    enum rs_status status = rs_store_find_capture(store, id, facts, err);
    if (status == RS_OK && facts->is_closed) {
        facts->is_closed = false; /* before its data changes: the next open must scan it */
        facts->closed_ns = 0;
        status = store_put_durably(store, facts, err);
    }
    rs_mem_free(facts);
    if (status == RS_OK)
        status = add_log(store, id, &log, err);
    if (status < 0)
        return status;
    status = recover_log(store, log, err);
    if (status < 0) {
        store->log_count--;
        free_log(log);
        return status;
    }
    *log_p = log;
    return RS_OK;
}

static enum rs_status tell_stream(struct capture_log *log, size_t index,
                                  const struct rs_store_source *source, struct rs_err *err)
{
    if (log->is_told[index])
        return RS_OK;
    struct rs_buf buf = {0};
    stream_record_encode(&buf, log->streams[index], source);
    enum rs_status status = RS_NOMEM;
    if (!buf.failed) {
        const struct rs_reclog_record record = {.kind = RECORD_STREAM, .tag = (uint32_t)index};
        const struct iovec part = {.iov_base = buf.data, .iov_len = buf.length};
        status = rs_reclog_append(&log->log, &record, &part, 1, NULL, err);
    } else {
        (void)rs_err_set(err, RS_NOMEM, "no memory for a stream's record");
    }
    rs_buf_fini(&buf);
    if (status == RS_OK)
        log->is_told[index] = true;
    return status;
}

enum rs_status rs_store_append(struct rs_store *store, struct rs_store_stream *stream,
                               const char *capture, const struct rs_store_source *source,
                               rs_seq seq, unsigned flags, const struct iovec *parts,
                               size_t part_count, struct rs_err *err)
{
    struct capture_log *log = NULL;
    size_t index = 0;
    RS_CHECK(seq == stream->appended_seq + 1);
    enum rs_status status = want_log(store, capture, &log, err);
    if (status < 0)
        return status;
    if (log_stream(log, stream, &index) < 0 ||
        rs_mem_grow((void **)&store->dirty, &store->dirty_capacity, store->dirty_count + 1,
                    sizeof(struct rs_store_stream *)) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a stream");
    if (!log->segment || log->log.length > store->segment_bytes)
        status = begin_segment(store, log, err);
    if (status == RS_OK)
        status = tell_stream(log, index, source, err);
    const struct rs_reclog_record record = {
        .kind = RECORD_CHUNK, .flags = (uint16_t)flags, .tag = (uint32_t)index, .seq = seq};
    if (status == RS_OK)
        status = rs_reclog_append(&log->log, &record, parts, part_count, NULL, err);
    if (status < 0)
        return status;
    if (log->log.length - log->log.pushed >= PUSH_BYTES)
        rs_reclog_push(&log->log);
    log->is_dirty = true;
    if (!stream->is_dirty)
        store->dirty[store->dirty_count++] = stream;
    stream->is_dirty = true;
    stream->appended_seq = seq;
    stream->is_ended = (flags & RS_ENVELOPE_LAST) != 0;
    if (strcmp(stream->capture, capture) != 0)
        (void)snprintf(stream->capture, sizeof stream->capture, "%s", capture);
    return RS_OK;
}

static enum rs_status sync_log(struct capture_log *log, struct rs_err *err)
{
    if (!log->is_dirty)
        return RS_OK;
    const enum rs_status status = rs_reclog_sync(&log->log, err);
    if (status == RS_OK)
        log->is_dirty = false;
    return status;
}

enum rs_status rs_store_sync(struct rs_store *store, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    RS_CHECK(!store->is_flushing);
    for (size_t i = 0; i < store->log_count && status == RS_OK; i++)
        status = sync_log(store->logs[i], err);
    for (size_t i = 0; i < store->dirty_count && status == RS_OK; i++) {
        store->dirty[i]->durable_seq = store->dirty[i]->appended_seq;
        store->dirty[i]->is_dirty = false;
    }
    if (status == RS_OK)
        store->dirty_count = 0;
    return status;
}

enum rs_status rs_store_flush_begin(struct rs_store *store, struct rs_store_flush *flush,
                                    struct rs_err *err)
{
    RS_CHECK(!store->is_flushing);
    flush->fd_count = flush->stream_count = 0;
    flush->status = RS_OK;
    if (rs_mem_grow((void **)&flush->fds, &flush->fd_capacity, store->log_count,
                    sizeof *flush->fds) < 0 ||
        rs_mem_grow((void **)&flush->streams, &flush->stream_capacity, store->dirty_count,
                    sizeof *flush->streams) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a flush");
    for (size_t i = 0; i < store->log_count; i++) {
        struct capture_log *log = store->logs[i];
        if (log->is_dirty)
            flush->fds[flush->fd_count++] = log->log.fd;
        log->is_dirty = false;
    }
    for (size_t i = 0; i < store->dirty_count; i++) {
        struct rs_store_stream *stream = store->dirty[i];
        flush->streams[flush->stream_count++] =
            (struct rs_store_flushed){.stream = stream, .seq = stream->appended_seq};
        stream->is_dirty = false;
    }
    store->dirty_count = 0;
    store->is_flushing = true;
    return RS_OK;
}

void rs_store_flush_run(struct rs_store_flush *flush)
{
    for (size_t i = 0; i < flush->fd_count; i++)
        if (fdatasync(flush->fds[i]) < 0 && flush->status == RS_OK)
            flush->status = rs_err_errno(&flush->err, "cannot make chunks durable");
}

void rs_store_flush_end(struct rs_store *store, struct rs_store_flush *flush)
{
    RS_CHECK(store->is_flushing);
    store->is_flushing = false;
    for (size_t i = 0; i < flush->stream_count && flush->status == RS_OK; i++) {
        struct rs_store_flushed *flushed = &flush->streams[i];
        if (flushed->stream->durable_seq < flushed->seq)
            flushed->stream->durable_seq = flushed->seq;
    }
    for (size_t i = 0; i < store->retired_count; i++)
        rs_reclog_close(&store->retired[i]);
    store->retired_count = 0;
}

void rs_store_flush_fini(struct rs_store_flush *flush)
{
    rs_mem_free(flush->fds);
    rs_mem_free(flush->streams);
    *flush = (struct rs_store_flush){0};
}

/* ---- closing a capture --------------------------------------------------------------------------------- */

struct rank_rows {
    struct rs_capture_rank *items;
    size_t count, capacity;
    bool has_failed;
};

static bool add_row(void *self, const struct rs_capture_rank *rank)
{
    struct rank_rows *rows = self;
    if (rs_mem_grow((void **)&rows->items, &rows->capacity, rows->count + 1, sizeof *rows->items) <
        0) {
        rows->has_failed = true;
        return false;
    }
    rows->items[rows->count++] = *rank;
    return true;
}

static enum rs_status write_closed(struct rs_store *store, const struct capture_log *log,
                                   const struct rs_capture_facts *facts, struct rs_err *err)
{
    (void)pthread_mutex_lock(&store->lock);
    enum rs_status status = catalogue_begin(store->catalogue, err);
    for (size_t i = 0; log && i < log->stream_count && status == RS_OK; i++)
        status = catalogue_put_position(store->catalogue, log->streams[i], err);
    if (status == RS_OK)
        status = catalogue_put(store->catalogue, facts, err);
    if (status == RS_OK)
        status = catalogue_commit(store->catalogue, err);
    else
        catalogue_rollback(store->catalogue);
    (void)pthread_mutex_unlock(&store->lock);
    return status;
}

static void remove_log(struct rs_store *store, const struct capture_log *log)
{
    for (size_t i = 0; i < store->log_count; i++) {
        if (store->logs[i] == log) {
            free_log(store->logs[i]);
            store->logs[i] = store->logs[--store->log_count];
            return;
        }
    }
}

enum rs_status rs_store_close_capture(struct rs_store *store, const struct rs_capture_facts *facts,
                                      struct rs_err *err)
{
    struct capture_log *log = find_log(store, facts->id);
    char *dir = rs_store_capture_dir(store, facts->id);
    struct rank_rows rows = {0};
    enum rs_status status = dir ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory to close a capture");
    if (status == RS_OK && log)
        status = rs_store_sync(store, err);
    if (status == RS_OK)
        status = rs_store_list_ranks(store, facts->id, add_row, &rows, err);
    if (status == RS_OK && rows.has_failed)
        status = rs_err_set(err, RS_NOMEM, "no memory to close a capture");
    if (status == RS_OK)
        status = capture_db_write(dir, facts, rows.items, rows.count, err);
    if (status == RS_OK)
        status = write_closed(store, log, facts, err);
    if (status == RS_OK && log)
        remove_log(store, log);
    rs_mem_free(rows.items);
    rs_mem_free(dir);
    return status;
}

/* ---- open and close -------------------------------------------------------------------------------------- */

static enum rs_status take_dir(struct rs_store *store, struct rs_err *err)
{
    char *path = rs_file_join(store->data_dir, "captures");
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for a store");
    enum rs_status status = rs_file_make_dirs(path, 0750, err);
    rs_mem_free(path);
    if (status < 0)
        return status;
    path = rs_file_join(store->data_dir, "lock");
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for a store");
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (store->lock_fd < 0)
        status = rs_err_errno(err, "cannot open %s", path);
    else if (flock(store->lock_fd, LOCK_EX | LOCK_NB) < 0)
        status = rs_err_set(err, RS_EXISTS, "the data in %s is in use by another aggregator",
                            store->data_dir);
    rs_mem_free(path);
    return status;
}

struct open_list {
    struct rs_store *store;
    struct rs_err *err;
    enum rs_status status;
};

static bool add_open(void *self, const struct rs_capture_facts *facts)
{
    struct open_list *list = self;
    struct capture_log *log = NULL;
    if (!facts->is_closed)
        list->status = add_log(list->store, facts->id, &log, list->err);
    return list->status == RS_OK;
}

static enum rs_status recover(struct rs_store *store, struct rs_err *err)
{
    struct open_list list = {.store = store, .err = err};
    enum rs_status status = rs_store_list_captures(store, add_open, &list, err);
    if (status == RS_OK)
        status = list.status;
    for (size_t i = 0; i < store->log_count && status == RS_OK; i++)
        status = recover_log(store, store->logs[i], err);
    return status;
}

enum rs_status rs_store_open(const char *data_dir, uint64_t segment_bytes,
                             struct rs_store **store_p, struct rs_err *err)
{
    struct rs_store *store = rs_mem_calloc(1, sizeof *store);
    if (!store)
        return rs_err_set(err, RS_NOMEM, "no memory for a store");
    store->lock_fd = -1;
    store->segment_bytes = segment_bytes ? segment_bytes : (uint64_t)256 << 20;
    (void)pthread_mutex_init(&store->lock, NULL);
    enum rs_status status = rs_file_make_dirs(data_dir, 0750, err);
    char *real = status == RS_OK ? realpath(data_dir, NULL) : NULL;
    if (status == RS_OK && !real)
        status = rs_err_errno(err, "cannot find %s", data_dir);
    store->data_dir = real ? rs_mem_strdup(real) : NULL;
    free(real);
    if (status == RS_OK && !store->data_dir)
        status = rs_err_set(err, RS_NOMEM, "no memory for a store");
    if (status == RS_OK)
        status = take_dir(store, err);
    char *path = status == RS_OK ? rs_file_join(store->data_dir, "catalogue.db") : NULL;
    if (path)
        status = catalogue_open(path, &store->catalogue, err);
    rs_mem_free(path);
    if (status == RS_OK && store->catalogue)
        status = recover(store, err);
    if (status < 0 || !store->catalogue) {
        rs_store_close(&store);
        return status < 0 ? status : rs_err_set(err, RS_NOMEM, "no memory for a store");
    }
    *store_p = store;
    return RS_OK;
}

void rs_store_close(struct rs_store **store_p)
{
    struct rs_store *store = *store_p;
    if (!store)
        return;
    *store_p = NULL;
    for (size_t i = 0; i < store->log_count; i++)
        free_log(store->logs[i]);
    rs_mem_free(store->logs);
    for (size_t i = 0; i < store->slot_count; i++)
        free_stream(store->streams[i]);
    rs_mem_free(store->streams);
    rs_mem_free(store->dirty);
    rs_mem_free(store->retired);
    catalogue_close(&store->catalogue);
    if (store->lock_fd >= 0)
        (void)close(store->lock_fd);
    (void)pthread_mutex_destroy(&store->lock);
    rs_mem_free(store->data_dir);
    rs_mem_free(store);
}
