/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doors: open and close, declare, put, peek and acknowledge. What they stand on: index.c, segments.c, recover.c.
 */
#include "collector/spool/spool_priv.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- open and close ---------------------------------------------------------------------------------- */

static enum rs_status take_dir(struct rs_spool *spool, struct rs_err *err)
{
    enum rs_status status = rs_file_make_dirs(spool->dir, 0750, err);
    if (status < 0)
        return status;
    char *path = rs_file_join(spool->dir, "lock");
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory");
    spool->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (spool->lock_fd < 0)
        status = rs_err_errno(err, "cannot open %s", path);
    else if (flock(spool->lock_fd, LOCK_EX | LOCK_NB) < 0)
        status =
            rs_err_set(err, RS_EXISTS, "the spool %s is in use by another collector", spool->dir);
    rs_mem_free(path);
    return status;
}

static enum rs_status take_id(struct rs_spool *spool, struct rs_err *err)
{
    char *path = rs_file_join(spool->dir, "id");
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory");
    struct rs_buf buf = {0};
    enum rs_status status = rs_file_read(path, 64, &buf, NULL);
    if (status == RS_OK && buf.length == 32) {
        memcpy(spool->id, buf.data, 32);
    } else {
        uint8_t bytes[16];
        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
            status = rs_err_errno(err, "cannot get random bytes");
        else
            status = RS_OK;
        for (size_t i = 0; status == RS_OK && i < sizeof bytes; i++)
            (void)snprintf(spool->id + 2 * i, 3, "%02x", bytes[i]);
        if (status == RS_OK)
            status = rs_file_replace(path, spool->id, 32, true, err);
    }
    rs_buf_fini(&buf);
    rs_mem_free(path);
    return status;
}

enum rs_status rs_spool_open(const char *dir, const struct rs_spool_options *options,
                             struct rs_spool **spool_p, struct rs_err *err)
{
    struct rs_spool *spool = rs_mem_calloc(1, sizeof *spool);
    if (!spool)
        return rs_err_set(err, RS_NOMEM, "no memory for a spool");
    if (options)
        spool->options = *options;
    if (!spool->options.segment_bytes)
        spool->options.segment_bytes = (uint64_t)16 << 20;
    if (!spool->options.budget_bytes)
        spool->options.budget_bytes = (uint64_t)1 << 30;
    spool->lock_fd = -1;
    spool->log.fd = -1;
    spool->next_entry = 1;
    (void)pthread_mutex_init(&spool->write_lock, NULL);
    (void)pthread_mutex_init(&spool->lock, NULL);
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&spool->has_room, &attr);
    (void)pthread_condattr_destroy(&attr);
    spool->dir = rs_mem_strdup(dir);
    enum rs_status status = spool->dir ? RS_OK : RS_NOMEM;
    if (spool->options.segment_bytes < SEGMENT_MIN_BYTES ||
        spool->options.segment_bytes > (uint64_t)1 << 30 ||
        spool->options.budget_bytes < 4 * spool->options.segment_bytes)
        status = rs_err_set(err, RS_INVALID,
                            "a spool needs a budget of at least four segments of %llu bytes",
                            (unsigned long long)spool->options.segment_bytes);
    if (status == RS_OK)
        status = take_dir(spool, err);
    if (status == RS_OK)
        status = take_id(spool, err);
    if (status == RS_OK)
        status = spool_recover(spool, err);
    if (status < 0) {
        rs_spool_close(&spool);
        return status;
    }
    *spool_p = spool;
    return RS_OK;
}

void rs_spool_close(struct rs_spool **spool_p)
{
    struct rs_spool *spool = *spool_p;
    if (!spool)
        return;
    *spool_p = NULL;
    rs_reclog_close(&spool->log);
    for (size_t i = 0; i < spool->segment_count; i++)
        spool_unmap_segment(&spool->segments[i]);
    for (size_t i = 0; i < spool->entry_count; i++)
        spool_free_entry(spool->entries[i]);
    for (size_t i = 0; i < spool->sequence_count; i++)
        spool_free_sequence(spool->sequences[i]);
    rs_mem_free(spool->segments);
    rs_mem_free(spool->entries);
    rs_mem_free(spool->sequences);
    rs_mem_free(spool->items);
    if (spool->lock_fd >= 0)
        (void)close(spool->lock_fd);
    (void)pthread_cond_destroy(&spool->has_room);
    (void)pthread_mutex_destroy(&spool->lock);
    (void)pthread_mutex_destroy(&spool->write_lock);
    rs_mem_free(spool->dir);
    rs_mem_free(spool);
}

const char *rs_spool_id(const struct rs_spool *spool)
{
    return spool->id;
}

void rs_spool_on_put(struct rs_spool *spool, void (*on_put)(void *self), void *self)
{
    spool->on_put = on_put;
    spool->on_put_self = self;
}

/* ---- declare and put -------------------------------------------------------------------------------- */

static struct entry *find_source(const struct rs_spool *spool, const struct rs_spool_source *source)
{
    for (size_t i = 0; i < spool->entry_count; i++) {
        struct entry *entry = spool->entries[i];
        const struct sequence *sequence = entry->sequence;
        if (sequence->rank == source->rank && strcmp(sequence->run, source->run) == 0 &&
            strcmp(sequence->incarnation, source->incarnation) == 0 &&
            strcmp(entry->capture, source->capture) == 0)
            return entry;
    }
    return NULL;
}

enum rs_status rs_spool_declare(struct rs_spool *spool, const struct rs_spool_source *source,
                                uint32_t *entry_p, struct rs_err *err)
{
    const char *const texts[] = {source->run,         source->incarnation, source->capture,
                                 source->capture_key, source->host,        source->origin};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strnlen(texts[i], TEXT_MAX_BYTES) == TEXT_MAX_BYTES)
            return rs_err_set(err, RS_LIMIT, "a text of a stream is longer than %d bytes",
                              TEXT_MAX_BYTES - 1);
    enum rs_status status = RS_OK;
    (void)pthread_mutex_lock(&spool->write_lock);
    (void)pthread_mutex_lock(&spool->lock);
    struct entry *entry = find_source(spool, source);
    if (!entry && spool->log.length > spool->options.segment_bytes)
        status = spool_begin_segment(spool, err);
    if (!entry && status == RS_OK) {
        entry = spool_add_entry(spool, spool->next_entry, source);
        if (entry)
            status = spool_append_entry(&spool->log, entry, err);
        else
            status = rs_err_set(err, RS_NOMEM, "no memory for a spool entry");
        if (status == RS_OK) {
            spool->next_entry++;
        } else if (entry) {
            spool->entry_count--;
            if (--entry->sequence->entry_count == 0)
                spool_remove_sequence(spool, entry->sequence);
            spool_free_entry(entry);
        }
        struct segment *segment = &spool->segments[spool->segment_count - 1];
        spool->stats.disk_bytes += spool->log.length - segment->length;
        segment->length = spool->log.length;
    }
    if (status == RS_OK)
        *entry_p = entry->id;
    (void)pthread_mutex_unlock(&spool->lock);
    (void)pthread_mutex_unlock(&spool->write_lock);
    return status;
}

static void fill_entry(const struct entry *entry, struct rs_spool_entry *entry_p)
{
    const struct sequence *sequence = entry->sequence;
    *entry_p = (struct rs_spool_entry){.id = entry->id,
                                       .source = {.run = sequence->run,
                                                  .rank = sequence->rank,
                                                  .incarnation = sequence->incarnation,
                                                  .capture = entry->capture,
                                                  .capture_key = entry->capture_key,
                                                  .world = entry->world,
                                                  .host = entry->host,
                                                  .settle_ns = entry->settle_ns,
                                                  .origin = entry->origin,
                                                  .keeps_sequence = entry->keeps_sequence},
                                       .last_seq = sequence->last,
                                       .acked_seq = sequence->acked,
                                       .end_seq = entry->end_seq,
                                       .put_count = entry->put_count,
                                       .is_ended = entry->is_ended};
}

enum rs_status rs_spool_entry_of(struct rs_spool *spool, uint32_t id,
                                 struct rs_spool_entry *entry_p)
{
    (void)pthread_mutex_lock(&spool->lock);
    const struct entry *entry = spool_find_entry(spool, id);
    if (entry)
        fill_entry(entry, entry_p);
    (void)pthread_mutex_unlock(&spool->lock);
    return entry ? RS_OK : RS_NOTFOUND;
}

enum rs_status rs_spool_next_entry(struct rs_spool *spool, uint32_t after,
                                   struct rs_spool_entry *entry_p)
{
    enum rs_status status = RS_END;
    (void)pthread_mutex_lock(&spool->lock);
    for (size_t i = 0; i < spool->entry_count && status == RS_END; i++) {
        if (spool->entries[i]->id > after) {
            fill_entry(spool->entries[i], entry_p);
            status = RS_OK;
        }
    }
    (void)pthread_mutex_unlock(&spool->lock);
    return status;
}

/* Writes one record and enters it in the index. Holds write_lock. */
static enum rs_status write_chunk(struct rs_spool *spool, struct entry *entry, unsigned flags,
                                  struct rs_view chunk, struct rs_err *err)
{
    const rs_seq seq = entry->sequence->last + 1;
    const struct rs_reclog_record record = {
        .kind = RECORD_CHUNK, .flags = (uint16_t)flags, .tag = entry->id, .seq = seq};
    union {
        const uint8_t *in;
        void *out;
    } bytes = {.in = chunk.data};
    const struct iovec part = {.iov_base = bytes.out, .iov_len = chunk.length};
    uint64_t offset = 0;
    enum rs_status status = rs_reclog_append(&spool->log, &record, &part, 1, &offset, err);
    if (status < 0)
        return status;
    (void)pthread_mutex_lock(&spool->lock);
    struct segment *segment = &spool->segments[spool->segment_count - 1];
    const struct item item = {
        .entry = entry->id,
        .segment = segment->number,
        .seq = seq,
        .payload_offset = (uint32_t)(offset + RS_RECLOG_RECORD_HEADER_BYTES),
        .payload_length = (uint32_t)chunk.length,
        .flags = (uint16_t)flags,
    };
    /* The record is on disk: without an index entry it will be found on the next open. */
    if (spool_add_item(spool, &item) < 0) {
        status = rs_err_set(err, RS_NOMEM, "no memory for the spool's index");
    } else {
        segment->waiting_count++;
        spool->stats.put_chunks++;
    }
    spool->stats.disk_bytes += spool->log.length - segment->length;
    segment->length = spool->log.length;
    entry->sequence->last = seq;
    entry->end_seq = seq;
    entry->put_count++;
    entry->is_ended = entry->is_ended || (flags & RS_ENVELOPE_LAST);
    (void)pthread_mutex_unlock(&spool->lock);
    return status;
}

static bool has_room(const struct rs_spool *spool, uint64_t bytes, bool may_use_reserve)
{
    const uint64_t reserve = may_use_reserve ? spool->options.budget_bytes / 8 : 0;
    return spool->stats.disk_bytes + rs_reclog_record_bytes(bytes) <=
           spool->options.budget_bytes + reserve;
}

static enum rs_status put_loss(struct rs_spool *spool, struct entry *entry, struct rs_err *err)
{
    if (!entry->loss.chunks)
        return RS_OK;
    uint8_t bytes[RS_LOSS_BYTES];
    rs_loss_encode(&entry->loss, bytes);
    const enum rs_status status =
        write_chunk(spool, entry, RS_ENVELOPE_LOSS, rs_view_of(bytes, sizeof bytes), err);
    if (status == RS_OK)
        entry->loss = (struct rs_loss){0};
    return status;
}

/* Finds the entry and whether it may be put. RS_END: it was put before. Holds write_lock. */
static enum rs_status admit(struct rs_spool *spool, uint32_t id, rs_seq seq, unsigned flags,
                            size_t length, struct entry **entry_p, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    (void)pthread_mutex_lock(&spool->lock);
    struct entry *entry = spool_find_entry(spool, id);
    if (!entry)
        status = rs_err_set(err, RS_NOTFOUND, "the spool has no entry %u", id);
    else if (seq && seq <= entry->sequence->last)
        status = RS_END;
    else if (seq > entry->sequence->last + 1)
        status = rs_err_set(err, RS_INVALID, "chunk %llu follows %llu: there is a gap",
                            (unsigned long long)seq, (unsigned long long)entry->sequence->last);
    else if (entry->is_ended)
        status = rs_err_set(err, RS_INVALID, "a chunk was put behind the last one");
    else if (!has_room(spool, length, flags & RS_ENVELOPE_LAST))
        status = rs_err_set(err, RS_LIMIT, "the spool's budget of %llu bytes is spent",
                            (unsigned long long)spool->options.budget_bytes);
    else if (spool->log.length > spool->options.segment_bytes)
        status = spool_begin_segment(spool, err);
    *entry_p = spool_find_entry(spool, id);
    (void)pthread_mutex_unlock(&spool->lock);
    return status;
}

enum rs_status rs_spool_put(struct rs_spool *spool, uint32_t id, rs_seq seq, unsigned flags,
                            struct rs_view chunk, struct rs_err *err)
{
    if (chunk.length > CHUNK_MAX_BYTES)
        return rs_err_set(err, RS_LIMIT, "a chunk of %zu bytes is over the limit of %d",
                          chunk.length, CHUNK_MAX_BYTES);
    struct entry *entry = NULL;
    (void)pthread_mutex_lock(&spool->write_lock);
    enum rs_status status = admit(spool, id, seq, flags, chunk.length, &entry, err);
    if (status == RS_OK)
        status = put_loss(spool, entry, err);
    if (status == RS_OK)
        status = write_chunk(spool, entry, flags, chunk, err);
    (void)pthread_mutex_unlock(&spool->write_lock);
    if (status == RS_OK && spool->on_put)
        spool->on_put(spool->on_put_self);
    return status == RS_END ? RS_OK : status;
}

void rs_spool_lost(struct rs_spool *spool, uint32_t id, uint64_t bytes, uint64_t events)
{
    (void)pthread_mutex_lock(&spool->write_lock);
    (void)pthread_mutex_lock(&spool->lock);
    struct entry *entry = spool_find_entry(spool, id);
    if (entry) {
        entry->loss.chunks++;
        entry->loss.bytes += bytes;
        entry->loss.events += events;
    }
    spool->stats.lost_chunks++;
    spool->stats.lost_bytes += bytes;
    (void)pthread_mutex_unlock(&spool->lock);
    (void)pthread_mutex_unlock(&spool->write_lock);
}

enum rs_status rs_spool_wait(struct rs_spool *spool, uint64_t bytes, rs_ns until)
{
    const struct timespec deadline = {.tv_sec = until / RS_NS_PER_S,
                                      .tv_nsec = until % RS_NS_PER_S};
    int error = 0;
    (void)pthread_mutex_lock(&spool->lock);
    while (!has_room(spool, bytes, false) && error == 0)
        error = pthread_cond_timedwait(&spool->has_room, &spool->lock, &deadline);
    const bool is_there = has_room(spool, bytes, false);
    (void)pthread_mutex_unlock(&spool->lock);
    return is_there ? RS_OK : RS_TIMEOUT;
}

/* ---- peek and ack --------------------------------------------------------------------------------------- */

enum rs_status rs_spool_peek(struct rs_spool *spool, uint64_t *position_p,
                             struct rs_spool_chunk *chunk_p)
{
    enum rs_status status = RS_AGAIN;
    (void)pthread_mutex_lock(&spool->lock);
    uint64_t position = *position_p;
    if (position < spool->first_position)
        position = spool->first_position;
    size_t index = spool->item_head + (size_t)(position - spool->first_position);
    while (index < spool->item_count && spool->items[index].is_acked) {
        index++;
        position++;
    }
    *position_p = position;
    if (index < spool->item_count) {
        const struct item *item = &spool->items[index];
        const struct segment *segment = spool_find_segment(spool, item->segment);
        RS_CHECK(segment);
        *chunk_p = (struct rs_spool_chunk){
            .entry = item->entry,
            .seq = item->seq,
            .flags = item->flags,
            .bytes = rs_view_of(segment->map + item->payload_offset, item->payload_length)};
        status = RS_OK;
    }
    (void)pthread_mutex_unlock(&spool->lock);
    return status;
}

void rs_spool_ack(struct rs_spool *spool, uint32_t id, rs_seq seq)
{
    (void)pthread_mutex_lock(&spool->lock);
    struct entry *entry = spool_find_entry(spool, id);
    if (entry && seq > entry->sequence->acked) {
        struct sequence *sequence = entry->sequence;
        sequence->acked = seq;
        if (sequence->last < seq)
            sequence->last = seq;
        /* Acks come in order of put, nearly: what is acknowledged stands at the head. */
        for (size_t i = spool->item_head; i < spool->item_count; i++) {
            struct item *item = &spool->items[i];
            const struct entry *owner =
                item->is_acked ? NULL : spool_find_entry(spool, item->entry);
            if (owner && owner->sequence == sequence) {
                if (item->seq > seq)
                    break;
                spool_settle_item(spool, item);
            }
        }
        spool_drop_head(spool);
    }
    (void)pthread_mutex_unlock(&spool->lock);
}

void rs_spool_drop(struct rs_spool *spool, uint32_t id)
{
    (void)pthread_mutex_lock(&spool->write_lock);
    (void)pthread_mutex_lock(&spool->lock);
    struct entry *entry = spool_find_entry(spool, id);
    if (entry) {
        entry->is_dropped = true;
        for (size_t i = spool->item_head; i < spool->item_count; i++) {
            struct item *item = &spool->items[i];
            if (item->entry != id || item->is_acked)
                continue;
            spool->stats.lost_chunks++;
            spool->stats.lost_bytes += item->payload_length;
            spool_settle_item(spool, item);
        }
        entry->end_seq = entry->sequence->acked;
        spool_drop_head(spool);
    }
    (void)pthread_mutex_unlock(&spool->lock);
    (void)pthread_mutex_unlock(&spool->write_lock);
}

void rs_spool_forget(struct rs_spool *spool, const char *run, uint32_t rank,
                     const char *incarnation)
{
    (void)pthread_mutex_lock(&spool->write_lock);
    (void)pthread_mutex_lock(&spool->lock);
    const struct sequence *sequence = spool_find_sequence(spool, run, rank, incarnation);
    for (size_t i = 0; sequence && i < spool->entry_count; i++)
        if (spool->entries[i]->sequence == sequence)
            spool->entries[i]->keeps_sequence = false;
    (void)pthread_mutex_unlock(&spool->lock);
    (void)pthread_mutex_unlock(&spool->write_lock);
}

struct rs_spool_stats rs_spool_stats(struct rs_spool *spool)
{
    (void)pthread_mutex_lock(&spool->lock);
    const struct rs_spool_stats stats = spool->stats;
    (void)pthread_mutex_unlock(&spool->lock);
    return stats;
}
