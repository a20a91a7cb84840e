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
#include "common/base/thread.h"

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

/* One lane of an open capture: its log. Streams are numbered in order of their first chunk. */
struct capture_log {
    char id[RS_STORE_ID_BYTES];
    enum rs_stream_lane lane;
    char *dir;
    struct rs_reclog log; /* of the newest segment */
    uint32_t segment;     /* its number; 0: none yet */
    struct rs_store_stream **streams;
    bool *is_reported; /* by stream: its record is in this segment */
    size_t stream_count, stream_capacity, reported_capacity;
    bool is_dirty;
};

/* ---- streams --------------------------------------------------------------------------------------------- */

/* Streams of one incarnation and lane have one hash: they stand in one run of slots, and its end is an empty one. */
static size_t hash_stream(const char *run, uint32_t rank, const char *incarnation,
                          enum rs_stream_lane lane)
{
    uint64_t hash = 1469598103934665603u ^ rank ^ ((uint64_t)lane << 32);
    for (; *run; run++)
        hash = (hash ^ (uint8_t)*run) * 1099511628211u;
    hash = (hash ^ 0xff) * 1099511628211u;
    for (; *incarnation; incarnation++)
        hash = (hash ^ (uint8_t)*incarnation) * 1099511628211u;
    return (size_t)(hash ^ (hash >> 29));
}

static bool is_of_key(const struct rs_store_stream *stream, const struct rs_store_key *key)
{
    return stream->rank == key->rank && stream->lane == key->lane &&
           strcmp(stream->run, key->run) == 0 && strcmp(stream->incarnation, key->incarnation) == 0;
}

static void place_stream(struct rs_store_stream **slots, size_t slot_count,
                         struct rs_store_stream *stream)
{
    size_t i = hash_stream(stream->run, stream->rank, stream->incarnation, stream->lane) &
               (slot_count - 1);
    while (slots[i])
        i = (i + 1) & (slot_count - 1);
    slots[i] = stream;
}

static enum rs_status grow_streams(struct rs_store *store)
{
    if (store->slot_count && store->stream_count * 2 < store->slot_count)
        return RS_OK;
    const size_t slot_count = store->slot_count ? store->slot_count * 2 : 256;
    struct rs_store_stream **slots = rs_mem_calloc(slot_count, sizeof(struct rs_store_stream *));
    if (!slots)
        return RS_NOMEM;
    for (size_t i = 0; i < store->slot_count; i++)
        if (store->streams[i])
            place_stream(slots, slot_count, store->streams[i]);
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

static struct rs_store_stream *add_stream(struct rs_store *store, const struct rs_store_key *key,
                                          const char *capture)
{
    struct rs_store_stream *stream =
        grow_streams(store) == RS_OK ? rs_mem_calloc(1, sizeof *stream) : NULL;
    if (!stream)
        return NULL;
    stream->rank = key->rank;
    stream->lane = key->lane;
    stream->run = rs_mem_strdup(key->run);
    stream->incarnation = rs_mem_strdup(key->incarnation);
    (void)snprintf(stream->capture, sizeof stream->capture, "%s", capture);
    if (!stream->run || !stream->incarnation) {
        free_stream(stream);
        return NULL;
    }
    place_stream(store->streams, store->slot_count, stream);
    store->stream_count++;
    return stream;
}

/* The one of key->capture, or the newest; *is_any_p: whether there is one at all of this incarnation and lane. */
static struct rs_store_stream *find_stream(const struct rs_store *store,
                                           const struct rs_store_key *key, bool *is_any_p)
{
    struct rs_store_stream *found = NULL;
    *is_any_p = false;
    if (!store->slot_count)
        return NULL;
    size_t i = hash_stream(key->run, key->rank, key->incarnation, key->lane);
    for (i &= store->slot_count - 1; store->streams[i]; i = (i + 1) & (store->slot_count - 1)) {
        struct rs_store_stream *stream = store->streams[i];
        if (!is_of_key(stream, key))
            continue;
        *is_any_p = true;
        const bool is_it = key->capture ? strcmp(stream->capture, key->capture) == 0
                                        : !found || stream->appended_seq > found->appended_seq;
        if (is_it)
            found = stream;
    }
    return found;
}

struct known_positions {
    struct rs_store *store;
    const struct rs_store_key *key;
    bool has_failed;
};

static bool add_known(void *self, const char *capture, rs_seq seq, int ended)
{
    struct known_positions *known = self;
    struct rs_store_stream *stream = add_stream(known->store, known->key, capture);
    known->has_failed = !stream;
    if (!stream)
        return false;
    stream->appended_seq = stream->durable_seq = seq;
    stream->may_have_events = true;
    stream->is_ended = ended != CATALOGUE_GOES_ON;
    stream->is_partial = ended == CATALOGUE_ENDED_EARLY;
    return true;
}

enum rs_status rs_store_stream(struct rs_store *store, const struct rs_store_key *key,
                               struct rs_store_stream **stream_p, struct rs_err *err)
{
    bool is_any = false;
    struct rs_store_stream *stream = find_stream(store, key, &is_any);
    if (!is_any) {
        struct known_positions known = {.store = store, .key = key};
        const enum rs_status status =
            catalogue_list_positions(catalogue_to_read(store), key, add_known, &known, err);
        catalogue_done(store);
        if (status < 0)
            return status;
        if (known.has_failed)
            return rs_err_set(err, RS_NOMEM, "no memory for a stream");
        stream = find_stream(store, key, &is_any);
    }
    if (!stream)
        stream = add_stream(store, key, key->capture ? key->capture : "");
    if (!stream)
        return rs_err_set(err, RS_NOMEM, "no memory for a stream");
    *stream_p = stream;
    return RS_OK;
}

void rs_store_stream_from(struct rs_store_stream *stream, rs_seq seq)
{
    if (stream->appended_seq < seq)
        stream->appended_seq = stream->durable_seq = seq;
}

/* ---- logs ------------------------------------------------------------------------------------------------- */

static void free_log(struct capture_log *log)
{
    if (!log)
        return;
    rs_reclog_close(&log->log);
    rs_mem_free(log->streams);
    rs_mem_free(log->is_reported);
    rs_mem_free(log->dir);
    rs_mem_free(log);
}

static enum rs_status add_number(struct capture_log *log, struct rs_store_stream *stream,
                                 size_t *index_p)
{
    if (rs_mem_grow((void **)&log->streams, &log->stream_capacity, log->stream_count + 1,
                    sizeof(struct rs_store_stream *)) < 0 ||
        rs_mem_grow((void **)&log->is_reported, &log->reported_capacity, log->stream_count + 1,
                    sizeof *log->is_reported) < 0)
        return RS_NOMEM;
    log->streams[log->stream_count] = stream;
    log->is_reported[log->stream_count] = false;
    *index_p = log->stream_count++;
    return RS_OK;
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
    return add_number(log, stream, index_p);
}

static enum rs_status add_log(struct rs_store *store, const char *id, enum rs_stream_lane lane,
                              struct capture_log **log_p, struct rs_err *err)
{
    if (!store_is_id(id))
        return rs_err_set(err, RS_INVALID, "\"%.63s\" is no capture id", id);
    struct capture_log *log = rs_mem_calloc(1, sizeof *log);
    if (log) {
        (void)snprintf(log->id, sizeof log->id, "%s", id);
        log->lane = lane;
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

static struct capture_log *find_log(const struct rs_store *store, const char *id,
                                    enum rs_stream_lane lane)
{
    for (size_t i = store->log_count; i > 0; i--)
        if (store->logs[i - 1]->lane == lane && strcmp(store->logs[i - 1]->id, id) == 0)
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

/* The names of a capture's folders, before anything in them is acknowledged. */
static enum rs_status sync_folders(const struct rs_store *store, const struct capture_log *log,
                                   struct rs_err *err)
{
    char *captures = rs_file_join(store->data_dir, "captures");
    enum rs_status status = captures ? rs_file_sync_dir(log->dir, err)
                                     : rs_err_set(err, RS_NOMEM, "no memory for a segment");
    if (status == RS_OK)
        status = rs_file_sync_dir(captures, err);
    rs_mem_free(captures);
    return status;
}

static enum rs_status begin_segment(struct rs_store *store, struct capture_log *log,
                                    struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (log->is_dirty)
        status = rs_reclog_sync(&log->log, err);
    char *path = segment_path(log->dir, log->lane, log->segment + 1);
    char *folder = rs_file_join(log->dir, lane_folder(log->lane));
    struct rs_reclog next = {.fd = -1};
    if (status == RS_OK && (!path || !folder))
        status = rs_err_set(err, RS_NOMEM, "no memory for a segment");
    if (status == RS_OK && !log->segment) /* a capture of an earlier program has no summary lane */
        status = rs_file_make_dirs(folder, 0750, err);
    if (status == RS_OK)
        status = rs_reclog_create(&next, path, err);
    if (status == RS_OK) {
        status = rs_file_sync_dir(folder, err);
        if (status == RS_OK && !log->segment)
            status = sync_folders(store, log, err);
        if (status < 0)
            rs_reclog_close(&next);
    }
    rs_mem_free(path);
    rs_mem_free(folder);
    if (status < 0)
        return status;
    retire_log(store, &log->log);
    log->log = next;
    log->log.is_reserving = true;
    log->segment++;
    for (size_t i = 0; i < log->stream_count; i++)
        log->is_reported[i] = false;
    return RS_OK;
}

/* A stream gets the number that its record says; numbers before it whose records cannot be read belong to nobody. */
static enum rs_status number_stream(struct capture_log *log, struct rs_store_stream *stream,
                                    uint32_t tag, struct rs_err *err)
{
    enum { TAG_MAX = 1 << 24 };
    if (tag < log->stream_count && log->streams[tag] == stream)
        return RS_OK;
    if (tag > TAG_MAX || (tag < log->stream_count && log->streams[tag])) {
        rs_log_error("capture %s: a record gives stream %u to another one: left unread", log->id,
                     tag);
        return RS_OK;
    }
    while (log->stream_count <= tag) {
        size_t index = 0;
        if (add_number(log, NULL, &index) < 0)
            return rs_err_set(err, RS_NOMEM, "no memory for a stream");
    }
    log->streams[tag] = stream;
    return RS_OK;
}

/* Another of its chunks is written. One that lost chunks is partial, whatever its last one says. */
static void move_on(struct rs_store_stream *stream, rs_seq seq, unsigned flags)
{
    stream->appended_seq = seq;
    stream->has_losses |= (flags & RS_ENVELOPE_LOSS) != 0;
    stream->is_ended = (flags & RS_ENVELOPE_LAST) != 0;
    stream->is_partial = stream->has_losses || flags & RS_ENVELOPE_PARTIAL;
}

/* One STREAM record, checked whole: a broken name would be another stream's. */
static enum rs_status scan_stream(struct rs_store *store, struct capture_log *log,
                                  const struct rs_reclog_reader *reader, uint64_t offset,
                                  struct rs_err *err)
{
    struct rs_reclog_record record;
    struct rs_view payload;
    struct stream_record who;
    enum rs_status status =
        rs_reclog_at(reader, offset, RS_RECLOG_CHECK_ALL, &record, &payload, err);
    if (status == RS_OK)
        status = stream_record_decode(payload, &who);
    if (status == RS_FORMAT) {
        rs_log_error("capture %s: the name of a stream cannot be read", log->id);
        return RS_OK;
    }
    if (status < 0)
        return rs_err_set(err, status, "no memory for a stream");
    const struct rs_store_key key = {.run = who.run,
                                     .incarnation = who.incarnation,
                                     .rank = who.rank,
                                     .lane = log->lane,
                                     .capture = log->id};
    struct rs_store_stream *stream = NULL;
    status = rs_store_stream(store, &key, &stream, err);
    stream_record_fini(&who);
    if (status == RS_OK)
        status = number_stream(log, stream, record.tag, err);
    if (status == RS_OK && record.tag < log->stream_count && log->streams[record.tag] == stream)
        log->is_reported[record.tag] = true;
    return status;
}

/* A chunk that came to this process is known already. */
static void scan_chunk(struct rs_store_stream *stream, const struct rs_reclog_record *record)
{
    /* A hole that no loss record explains was made here: what was there cannot be read any more. */
    if (stream->appended_seq && record->seq > stream->appended_seq + 1)
        stream->has_losses = true;
    if (record->seq <= stream->appended_seq)
        return;
    move_on(stream, record->seq, record->flags);
    stream->may_have_events = true;
}

/* Finds the streams of a segment and how far they go. */
static enum rs_status scan_segment(struct rs_store *store, struct capture_log *log,
                                   const char *path, struct rs_err *err)
{
    struct rs_reclog_reader reader;
    enum rs_status status = rs_reclog_reader_open(&reader, path, err);
    if (status < 0)
        return status;
    /* Tags are numbers in order of first chunk, and every segment tells the streams it uses. */
    struct rs_reclog_record record;
    struct rs_view payload;
    uint64_t offset = 0;
    for (size_t i = 0; i < log->stream_count; i++)
        log->is_reported[i] = false;
    for (;;) {
        status = rs_reclog_next(&reader, RS_RECLOG_CHECK_HEADER, &record, &payload, &offset, err);
        if (status == RS_FORMAT) {
            /* What was acknowledged and cannot be read any more is lost; what stands behind it is not. */
            rs_log_error("%s; going on behind it", err ? err->text : path);
            status = rs_reclog_resync(&reader);
            if (status == RS_OK)
                continue;
        }
        if (status != RS_OK)
            break;
        if (record.kind == RECORD_STREAM) {
            status = scan_stream(store, log, &reader, offset, err);
            if (status < 0)
                break;
        } else if (record.kind == RECORD_CHUNK && record.tag < log->stream_count &&
                   log->streams[record.tag]) {
            scan_chunk(log->streams[record.tag], &record);
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
    enum rs_status status = list_segments(log->dir, log->lane, &numbers, &count, err);
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        const bool is_newest = i + 1 == count;
        char *path = segment_path(log->dir, log->lane, numbers[i]);
        uint64_t cut = 0;
        if (!path)
            status = rs_err_set(err, RS_NOMEM, "no memory for a segment");
        if (status == RS_OK && is_newest) {
            status = rs_reclog_open(&log->log, path, &cut, err);
            log->log.is_reserving = status == RS_OK;
            log->segment = numbers[i];
        }
        if (cut)
            rs_log_info("capture %s: %llu torn bytes cut", log->id, (unsigned long long)cut);
        if (status == RS_OK)
            status = scan_segment(store, log, path, err);
        if (status == RS_FORMAT) {
            /* Not even the head of the file can be read: it stays as it is, and a new segment is begun behind it. */
            rs_log_error("capture %s: %s", log->id, err ? err->text : path);
            status = RS_OK;
        }
        rs_mem_free(path);
    }
    rs_mem_free(numbers);
    if (status == RS_OK && log->log.fd >= 0)
        status = rs_reclog_sync(&log->log, err);
    for (size_t i = 0; i < log->stream_count && status == RS_OK; i++)
        if (log->streams[i])
            log->streams[i]->durable_seq = log->streams[i]->appended_seq;
    return status;
}

/* The log of a capture that may be written to; opened again when it had been closed. */
static enum rs_status want_log(struct rs_store *store, const char *id, enum rs_stream_lane lane,
                               struct capture_log **log_p, struct rs_err *err)
{
    struct capture_log *log = find_log(store, id, lane);
    if (log) {
        *log_p = log;
        return RS_OK;
    }
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    if (!facts)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    enum rs_status status = rs_store_find_capture(store, id, facts, err);
    if (status == RS_OK && facts->is_closed) {
        rs_log_info("capture %s is opened again: a chunk came behind its close", id);
        facts->is_closed = false; /* before its data changes: the next open must scan it */
        facts->closed_ns = 0;
        status = store_put_durably(store, facts, err);
    }
    rs_mem_free(facts);
    if (status == RS_OK)
        status = add_log(store, id, lane, &log, err);
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

static enum rs_status report_stream(struct capture_log *log, size_t index,
                                    const struct rs_store_source *source, struct rs_err *err)
{
    if (log->is_reported[index])
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
        log->is_reported[index] = true;
    return status;
}

enum rs_status rs_store_append(struct rs_store *store, struct rs_store_stream *stream,
                               const char *capture, const struct rs_store_source *source,
                               const struct rs_store_chunk *chunk, struct rs_err *err)
{
    RS_ON_THREAD(INGEST);
    struct capture_log *log = NULL;
    size_t index = 0;
    RS_CHECK(chunk->seq > stream->appended_seq);
    RS_CHECK(!*stream->capture || strcmp(stream->capture, capture) == 0);
    enum rs_status status = want_log(store, capture, stream->lane, &log, err);
    if (status < 0)
        return status;
    RS_CHECK(log != NULL);
    if (log_stream(log, stream, &index) < 0 ||
        rs_mem_grow((void **)&store->dirty, &store->dirty_capacity, store->dirty_count + 1,
                    sizeof(struct rs_store_stream *)) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a stream");
    if (log->log.fd < 0 || log->log.length > store->segment_bytes)
        status = begin_segment(store, log, err);
    if (status == RS_OK)
        status = report_stream(log, index, source, err);
    const struct rs_reclog_record record = {.kind = RECORD_CHUNK,
                                            .flags = (uint16_t)chunk->flags,
                                            .tag = (uint32_t)index,
                                            .seq = chunk->seq,
                                            .has_payload_crc = chunk->has_crc,
                                            .payload_crc = chunk->crc};
    if (status == RS_OK)
        status = rs_reclog_append(&log->log, &record, chunk->parts, chunk->part_count, NULL, err);
    if (status < 0)
        return status;
    if (log->log.length - log->log.pushed >= PUSH_BYTES)
        rs_reclog_push(&log->log);
    log->is_dirty = true;
    if (!stream->is_dirty)
        store->dirty[store->dirty_count++] = stream;
    stream->is_dirty = true;
    move_on(stream, chunk->seq, chunk->flags);
    if (!*stream->capture)
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
    RS_ON_THREAD(INGEST);
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
    RS_ON_THREAD(INGEST);
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

static enum rs_status write_closed(struct rs_store *store, const struct rs_capture_facts *facts,
                                   struct rs_err *err)
{
    (void)pthread_mutex_lock(&store->lock);
    enum rs_status status = catalogue_begin(store->catalogue, err);
    for (int lane = 0; lane < RS_STREAM_LANE_COUNT; lane++) {
        const struct capture_log *log = find_log(store, facts->id, (enum rs_stream_lane)lane);
        for (size_t i = 0; log && i < log->stream_count && status == RS_OK; i++)
            if (log->streams[i])
                status = catalogue_put_position(store->catalogue, log->streams[i], err);
    }
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
    RS_ON_THREAD(INGEST);
    char *dir = rs_store_capture_dir(store, facts->id);
    struct rank_rows rows = {0};
    enum rs_status status = dir ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory to close a capture");
    if (status == RS_OK)
        status = rs_store_sync(store, err);
    if (status == RS_OK)
        status = rs_store_list_ranks(store, facts->id, add_row, &rows, err);
    if (status == RS_OK && rows.has_failed)
        status = rs_err_set(err, RS_NOMEM, "no memory to close a capture");
    if (status == RS_OK)
        status = facts_append(dir, facts, rows.items, rows.count, err);
    if (status == RS_OK)
        status = capture_db_write(dir, facts, rows.items, rows.count, err);
    if (status == RS_OK)
        status = write_closed(store, facts, err);
    for (int lane = 0; lane < RS_STREAM_LANE_COUNT && status == RS_OK; lane++)
        remove_log(store, find_log(store, facts->id, (enum rs_stream_lane)lane));
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

/* A power cut can take the folder of a capture whose row is there: nothing was acknowledged in it, or it would have been synced. */
static enum rs_status want_folder(const struct capture_log *log, struct rs_err *err)
{
    char *folder = rs_file_join(log->dir, lane_folder(log->lane));
    const enum rs_status status = folder ? rs_file_make_dirs(folder, 0750, err)
                                         : rs_err_set(err, RS_NOMEM, "no memory for a capture");
    rs_mem_free(folder);
    return status;
}

static bool add_open(void *self, const struct rs_capture_facts *facts)
{
    struct open_list *list = self;
    struct capture_log *log = NULL;
    for (int lane = 0; !facts->is_closed && lane < RS_STREAM_LANE_COUNT && list->status == RS_OK;
         lane++) {
        list->status = add_log(list->store, facts->id, (enum rs_stream_lane)lane, &log, list->err);
        if (list->status == RS_OK)
            list->status = want_folder(log, list->err);
    }
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
    (void)pthread_mutex_init(&store->read_lock, NULL);
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
    if (status == RS_OK)
        rs_file_sweep_own(store->data_dir); /* what died half-written */
    char *path = status == RS_OK ? rs_file_join(store->data_dir, "catalogue.db") : NULL;
    if (path)
        status = catalogue_open(path, &store->catalogue, err);
    if (path && status == RS_FORMAT) {
        status = store_put_catalogue_aside(path, err);
        if (status == RS_OK)
            status = catalogue_open(path, &store->catalogue, err);
    }
    if (status == RS_OK && store->catalogue)
        status = removed_load(store, err);
    if (status == RS_OK && store->catalogue)
        status = store_end_removals(store, err);
    if (status == RS_OK && store->catalogue)
        status = store_find_folders(store, err);
    if (status == RS_OK && store->catalogue)
        status = recover(store, err);
    if (status == RS_OK && store->catalogue)
        status = catalogue_open_to_read(path, &store->reading, err);
    rs_mem_free(path);
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
    catalogue_close(&store->reading);
    catalogue_close(&store->catalogue);
    (void)pthread_mutex_destroy(&store->read_lock);
    if (store->lock_fd >= 0)
        (void)close(store->lock_fd);
    (void)pthread_mutex_destroy(&store->lock);
    rs_mem_free(store->data_dir);
    rs_mem_free(store);
}
