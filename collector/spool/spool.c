/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doors: open and close, declare, put, peek and acknowledge. What they stand on: index.c, segments.c, recover.c.
 */
#include "collector/spool/spool_priv.h"
#include "common/base/as_user.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#define RS_LOG_TAG "spool"
#include "common/base/log.h"

/* Entries of which something is kept: each is a stream on a link, of which there is a bound. */
enum { KEPT_MAX = 4096 };

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
    if (!spool->options.keep_ns)
        spool->options.keep_ns = (rs_dur)24 * 3600 * RS_NS_PER_S;
    spool->lock_fd = -1;
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
    spool_free_all(spool);
    rs_mem_free(spool->lost);
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

/* ---- writing ---------------------------------------------------------------------------------------- */

/* Both locks, and as ourselves: who puts may be reading files as their user just now, and the spool's are ours. */
static void begin_write(struct rs_spool *spool, struct rs_as_user *scope)
{
    (void)pthread_mutex_lock(&spool->write_lock);
    (void)pthread_mutex_lock(&spool->lock);
    rs_as_self_begin(scope);
}

static void end_write(struct rs_spool *spool, struct rs_as_user *scope)
{
    rs_as_user_end(scope);
    (void)pthread_mutex_unlock(&spool->lock);
    (void)pthread_mutex_unlock(&spool->write_lock);
}

/* ---- declare and put -------------------------------------------------------------------------------- */

static struct entry *find_source(const struct rs_spool *spool, const struct rs_spool_source *source)
{
    for (size_t i = 0; i < spool->entry_count; i++) {
        struct entry *entry = spool->entries[i];
        const struct sequence *sequence = entry->sequence;
        if (sequence->rank == source->rank && sequence->lane == source->lane &&
            strcmp(sequence->run, source->run) == 0 &&
            strcmp(sequence->incarnation, source->incarnation) == 0 &&
            strcmp(entry->capture, source->capture) == 0)
            return entry;
    }
    return NULL;
}

/* What was appended to the newest segment counts. */
static void count_bytes(struct rs_spool *spool, struct folder *folder)
{
    struct segment *segment = &folder->segments[folder->segment_count - 1];
    spool->stats.disk_bytes += folder->log.length - segment->length;
    segment->length = folder->log.length;
}

/* A raw stream gets a folder of its own, which begins with its record; a summary stream a record in the summary lane. */
static enum rs_status write_entry(struct rs_spool *spool, struct entry *entry, struct rs_err *err)
{
    if (entry->sequence->lane == RS_STREAM_RAW) {
        entry->folder = spool_raw_folder_new(spool, entry->id, err);
        if (!entry->folder)
            return RS_IO;
        const enum rs_status status = spool_begin_segment(spool, entry->folder, err);
        if (status < 0)
            spool_folder_remove(spool, &entry->folder);
        return status;
    }
    entry->folder = spool->summary;
    struct folder *folder = spool->summary;
    if (folder->log.fd < 0 || folder->log.length > spool->options.segment_bytes)
        return spool_begin_segment(spool, folder, err);
    const enum rs_status status = spool_append_entry(&folder->log, entry, err);
    if (status == RS_OK)
        count_bytes(spool, folder);
    return status;
}

static enum rs_status declare_new(struct rs_spool *spool, const struct rs_spool_source *source,
                                  struct entry **entry_p, struct rs_err *err)
{
    struct entry *entry = spool_add_entry(spool, spool->next_entry, source);
    if (!entry)
        return rs_err_set(err, RS_NOMEM, "no memory for a spool entry");
    entry->first_seq = entry->sequence->last + 1;
    entry->made_ns = rs_time_realtime();
    const enum rs_status status = write_entry(spool, entry, err);
    if (status < 0) {
        spool_remove_entry(spool, entry);
        return status;
    }
    spool->next_entry++;
    *entry_p = entry;
    /* The one whose numbers this one goes on with need not be kept for them any more. */
    spool_retire_entries(spool);
    return RS_OK;
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
    struct rs_as_user scope;
    begin_write(spool, &scope);
    struct entry *entry = find_source(spool, source);
    if (!entry)
        status = declare_new(spool, source, &entry, err);
    if (status == RS_OK && entry)
        *entry_p = entry->id;
    end_write(spool, &scope);
    return status;
}

static void fill_entry(const struct entry *entry, struct rs_spool_entry *entry_p)
{
    const struct sequence *sequence = entry->sequence;
    *entry_p = (struct rs_spool_entry){
        .id = entry->id,
        .source = {.run = sequence->run,
                   .rank = sequence->rank,
                   .incarnation = sequence->incarnation,
                   .capture = entry->capture,
                   .capture_key = entry->capture_key,
                   .world = entry->world,
                   .host = entry->host,
                   .settle_ns = entry->settle_ns,
                   .origin = entry->origin,
                   .user = entry->user,
                   .lane = sequence->lane,
                   .keeps_sequence = entry->keeps_sequence},
        .first_seq = entry->first_seq,
        .last_seq = sequence->last,
        .acked_seq = entry->acked_seq > entry->stored_seq ? entry->acked_seq : entry->stored_seq,
        .settled_seq = entry->acked_seq,
        .end_seq = entry->end_seq,
        .put_count = entry->put_count,
        .is_ended = entry->is_ended,
        .is_held = entry->is_held,
        .is_evicted = entry->is_evicted};
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

/* Writes one record and enters it in the index under the number `seq`. Holds write_lock and lock; lock is let go while the
 * record of an entry that is not ended is written: nobody takes such an entry away, and the uplink need not wait. */
static enum rs_status write_chunk(struct rs_spool *spool, struct entry *entry, rs_seq seq,
                                  unsigned flags, struct rs_view chunk, struct rs_err *err)
{
    const bool may_let_go = !entry->is_ended;
    struct folder *folder = entry->folder;
    const struct rs_reclog_record record = {
        .kind = RECORD_CHUNK, .flags = (uint16_t)flags, .tag = entry->id, .seq = seq};
    union {
        const uint8_t *in;
        void *out;
    } bytes = {.in = chunk.data};
    const struct iovec part = {.iov_base = bytes.out, .iov_len = chunk.length};
    uint64_t offset = 0;
    if (may_let_go)
        (void)pthread_mutex_unlock(&spool->lock);
    enum rs_status status = rs_reclog_append(&folder->log, &record, &part, 1, &offset, err);
    if (may_let_go)
        (void)pthread_mutex_lock(&spool->lock);
    if (status < 0)
        return status;
    const struct item item = {
        .segment = folder->last_segment,
        .seq = seq,
        .payload_offset = (uint32_t)(offset + RS_RECLOG_RECORD_HEADER_BYTES),
        .payload_length = (uint32_t)chunk.length,
        .flags = (uint16_t)flags,
    };
    /* The record is on disk: without an index entry it will be found on the next open. */
    if (spool_add_item(spool, entry, &item) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory for the spool's index");
    else
        spool->stats.put_chunks++;
    count_bytes(spool, folder);
    if (entry->sequence->last < seq)
        entry->sequence->last = seq;
    entry->end_seq = seq;
    entry->put_count++;
    entry->is_ended = entry->is_ended || (flags & RS_ENVELOPE_LAST);
    if (entry->is_ended && folder->is_raw)
        rs_reclog_close(&folder->log); /* a thousand held streams need no descriptors */
    return status;
}

static uint64_t raw_bytes_of(const struct entry *entry)
{
    uint64_t bytes = 0;
    for (size_t i = 0; entry->folder && entry->folder->is_raw && i < entry->folder->segment_count;
         i++)
        bytes += entry->folder->segments[i].length;
    return bytes;
}

/* Whether raw data of other users is here, or comes, and this one's takes more than an equal part of what there is for all. Of users beyond
 * the first thirty-two none is counted: their parts are small enough. */
static bool is_over_share(const struct rs_spool *spool, int64_t user)
{
    enum { USERS_MAX = 32 };
    int64_t users[USERS_MAX];
    size_t count = 0;
    uint64_t own = 0;
    for (size_t i = 0; user && i < spool->entry_count; i++) {
        const struct entry *entry = spool->entries[i];
        const bool is_raw = entry->folder && entry->folder->is_raw;
        size_t at = 0;
        if (!entry->user || !is_raw || (entry->is_ended && entry->item_head == entry->item_count))
            continue;
        own += entry->user == user ? raw_bytes_of(entry) : 0;
        while (at < count && users[at] != entry->user)
            at++;
        if (at == count && count < USERS_MAX)
            users[count++] = entry->user;
    }
    return count > 1 && own > spool->options.budget_bytes / 8 * 7 / count;
}

/* The summary lane has an eighth of the budget to itself; the last chunk of a raw stream may use that, too. */
static bool has_room(const struct rs_spool *spool, uint64_t bytes, bool may_use_reserve)
{
    const uint64_t reserve = may_use_reserve ? 0 : spool->options.budget_bytes / 8;
    return spool->stats.disk_bytes + rs_reclog_record_bytes(bytes) <=
           spool->options.budget_bytes - reserve;
}

/* The last quarter is for who has less than his share. */
static bool has_room_for(const struct rs_spool *spool, const struct entry *entry, uint64_t bytes,
                         bool may_use_reserve)
{
    return has_room(spool, bytes, may_use_reserve) &&
           (may_use_reserve || has_room(spool, bytes + spool->options.budget_bytes / 4, false) ||
            !is_over_share(spool, entry->user));
}

static enum rs_status put_loss(struct rs_spool *spool, struct entry *entry, struct rs_err *err)
{
    if (!entry->loss.chunks)
        return RS_OK;
    uint8_t bytes[RS_LOSS_BYTES];
    rs_loss_encode(&entry->loss, bytes);
    const enum rs_status status =
        write_chunk(spool, entry, entry->sequence->last + 1, RS_ENVELOPE_LOSS,
                    rs_view_of(bytes, sizeof bytes), err);
    if (status == RS_OK)
        entry->loss = (struct rs_loss){0};
    return status;
}

/* ---- kept entries --------------------------------------------------------------------------------------- */

/* Items with a number beyond `from`, up to `to`. */
static size_t count_between(const struct entry *entry, rs_seq from, rs_seq to)
{
    size_t count = 0;
    for (size_t i = entry->item_head; i < entry->item_count; i++)
        count += entry->items[i].seq > from && entry->items[i].seq <= to;
    return count;
}

/* Of a stream that is through only the numbers are of use: they fit into a segment without a chunk. */
static void shrink(struct rs_spool *spool, struct entry *entry)
{
    struct rs_err err = {0};
    if (!entry->folder || !entry->folder->is_raw)
        return;
    if (spool_begin_segment(spool, entry->folder, &err) < 0)
        rs_log_warn("%s", err.text);
    rs_reclog_close(&entry->folder->log);
}

/* Its chunks up to `seq` go, and the entry with its last. Holds lock. */
static void settle(struct rs_spool *spool, struct entry *entry, rs_seq seq)
{
    const uint32_t id = entry->id;
    spool->stats.acked_chunks += count_between(entry, entry->stored_seq, seq);
    entry->acked_seq = seq;
    if (entry->sequence->last < seq)
        entry->sequence->last = seq;
    (void)spool_settle(spool, entry, seq);
    if (entry->folder)
        spool_free_segments(spool, entry->folder);
    if (!entry->is_ended || entry->end_seq > seq)
        return;
    spool_retire_entries(spool);
    entry = spool_find_entry(spool, id);
    if (entry)
        shrink(spool, entry);
}

static bool is_kept(const struct entry *entry)
{
    return entry->stored_seq > entry->acked_seq && entry->item_head < entry->item_count;
}

/* The oldest entry after `id` of which something is kept; NULL: there is none. */
static struct entry *next_kept(const struct rs_spool *spool, uint32_t id)
{
    for (size_t i = 0; i < spool->entry_count; i++)
        if (spool->entries[i]->id > id && is_kept(spool->entries[i]))
            return spool->entries[i];
    return NULL;
}

/* Lets go of what is kept, the oldest entries first, until there is room. Holds write_lock and lock. */
static void let_go_of_kept(struct rs_spool *spool, uint32_t wanting, uint64_t bytes)
{
    uint32_t id = 0;
    for (;;) {
        const struct entry *entry = spool_find_entry(spool, wanting);
        struct entry *kept = next_kept(spool, id);
        if (!kept || !entry || has_room_for(spool, entry, bytes, false))
            return;
        id = kept->id;
        settle(spool, kept, kept->stored_seq);
    }
}

/* What is kept for too long, and what is too much. The oldest entries come first. */
static void expire_kept(struct rs_spool *spool, rs_ns now)
{
    size_t count = 0;
    for (size_t i = 0; i < spool->entry_count; i++)
        count += is_kept(spool->entries[i]);
    for (size_t i = 0; i < spool->entry_count; i++) {
        struct entry *entry = spool->entries[i];
        if (!is_kept(entry) ||
            (count <= KEPT_MAX && now - entry->made_ns <= spool->options.keep_ns))
            continue;
        settle(spool, entry, entry->stored_seq);
        count--;
        i = SIZE_MAX; /* entries may be gone: from the first one again */
    }
}

/* ---- held entries ------------------------------------------------------------------------------------- */

static void note_lost(struct rs_spool *spool, const struct entry *entry)
{
    if (rs_mem_grow((void **)&spool->lost, &spool->lost_capacity, spool->lost_count + 1,
                    sizeof *spool->lost) == RS_OK)
        spool->lost[spool->lost_count++] = entry->id;
}

/* Its chunks go; what stays is a segment with one loss record, which ends the stream. The record is there before the chunks
 * go: a crash in between is seen by recovery. Holds write_lock and lock. */
static enum rs_status evict(struct rs_spool *spool, struct entry *entry, struct rs_err *err)
{
    const struct item *first = &entry->items[entry->item_head];
    struct rs_loss loss = {.first_seq = first->seq, .cause = RS_LOSS_EVICTED};
    for (size_t i = entry->item_head; i < entry->item_count; i++) {
        loss.chunks++;
        loss.bytes += entry->items[i].payload_length;
    }
    uint8_t bytes[RS_LOSS_BYTES];
    rs_loss_encode(&loss, bytes);
    const rs_seq end = entry->end_seq;
    enum rs_status status = spool_begin_segment(spool, entry->folder, err);
    if (status < 0)
        return status;
    spool_unput(spool, entry, loss.first_seq);
    status =
        write_chunk(spool, entry, end, RS_ENVELOPE_LOSS | RS_ENVELOPE_LAST | RS_ENVELOPE_PARTIAL,
                    rs_view_of(bytes, sizeof bytes), err);
    entry->is_evicted = true;
    entry->is_held = false;
    note_lost(spool, entry);
    spool_free_segments(spool, entry->folder);
    spool->stats.evicted_entries++;
    spool->stats.lost_chunks += loss.chunks;
    spool->stats.lost_bytes += loss.bytes;
    rs_log_warn("the raw data of rank %u of capture %.64s is evicted: %llu chunks, %llu bytes",
                entry->sequence->rank, entry->capture, (unsigned long long)loss.chunks,
                (unsigned long long)loss.bytes);
    return status;
}

static bool may_evict(const struct entry *entry)
{
    return entry->is_held && entry->is_ended && !entry->is_evicted && entry->folder &&
           entry->folder->is_raw && entry->item_head < entry->item_count;
}

/* Makes room by evicting held entries, those of who has more than his share first, and then the oldest: ids grow with time. Holds
 * write_lock and lock. */
static void make_room(struct rs_spool *spool, const struct entry *wanting, uint64_t bytes)
{
    /* Who has more than his share makes room with what is his alone. */
    const int rounds = is_over_share(spool, wanting->user) ? 1 : 2;
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < spool->entry_count && !has_room_for(spool, wanting, bytes, false);
             i++)
            if (may_evict(spool->entries[i]) &&
                (round > 0 || is_over_share(spool, spool->entries[i]->user)) &&
                evict(spool, spool->entries[i], NULL) < 0)
                return;
}

void rs_spool_expire(struct rs_spool *spool, rs_ns now)
{
    struct rs_as_user scope;
    begin_write(spool, &scope);
    for (size_t i = 0; i < spool->entry_count; i++) {
        struct entry *entry = spool->entries[i];
        if (may_evict(entry) && now - entry->made_ns > spool->options.keep_ns &&
            evict(spool, entry, NULL) < 0)
            break;
    }
    expire_kept(spool, now);
    end_write(spool, &scope);
}

void rs_spool_hold(struct rs_spool *spool, uint32_t id, bool is_held)
{
    RS_ON_THREAD(UPLINK);
    (void)pthread_mutex_lock(&spool->lock);
    struct entry *entry = spool_find_entry(spool, id);
    if (entry && !entry->is_evicted)
        entry->is_held = is_held;
    (void)pthread_mutex_unlock(&spool->lock);
}

bool rs_spool_was_lost(struct rs_spool *spool, uint32_t id)
{
    bool was_lost = false;
    (void)pthread_mutex_lock(&spool->lock);
    for (size_t i = 0; i < spool->lost_count && !was_lost; i++)
        was_lost = spool->lost[i] == id;
    (void)pthread_mutex_unlock(&spool->lock);
    return was_lost;
}

/* ---- put ------------------------------------------------------------------------------------------------ */

/* Whether the entry may be put. RS_END: it was put before, or nobody wants it. Holds write_lock and lock. */
static enum rs_status admit(struct rs_spool *spool, uint32_t id, rs_seq seq, unsigned flags,
                            size_t length, struct entry **entry_p, struct rs_err *err)
{
    struct entry *entry = spool_find_entry(spool, id);
    *entry_p = entry;
    if (!entry)
        return rs_err_set(err, RS_NOTFOUND, "the spool has no entry %u", id);
    if (seq && seq <= entry->sequence->last)
        return RS_END;
    if (seq > entry->sequence->last + 1)
        return rs_err_set(err, RS_INVALID, "chunk %llu follows %llu: there is a gap",
                          (unsigned long long)seq, (unsigned long long)entry->sequence->last);
    if (entry->is_dropped) {
        spool->stats.lost_chunks++;
        spool->stats.lost_bytes += length;
        entry->is_ended = entry->is_ended || (flags & RS_ENVELOPE_LAST);
        return RS_END;
    }
    if (entry->is_ended)
        return rs_err_set(err, RS_INVALID, "a chunk was put behind the last one");
    const bool may_use_reserve =
        entry->sequence->lane == RS_STREAM_SUMMARY || (flags & RS_ENVELOPE_LAST);
    if (!has_room_for(spool, entry, length, may_use_reserve))
        let_go_of_kept(spool, id, length);
    if (!has_room_for(spool, entry, length, may_use_reserve))
        make_room(spool, entry, length);
    if (!has_room_for(spool, entry, length, may_use_reserve) &&
        has_room(spool, length, may_use_reserve)) {
        spool->stats.over_share_chunks++;
        return rs_err_set(err, RS_LIMIT,
                          "user %lld has more than his share of the spool, and others need room",
                          (long long)entry->user - 1);
    }
    if (!has_room(spool, length, may_use_reserve))
        return rs_err_set(err, RS_LIMIT, "the spool's budget of %llu bytes is spent",
                          (unsigned long long)spool->options.budget_bytes);
    if (entry->folder->log.fd < 0 || entry->folder->log.length > spool->options.segment_bytes)
        return spool_begin_segment(spool, entry->folder, err);
    return RS_OK;
}

enum rs_status rs_spool_put(struct rs_spool *spool, uint32_t id, rs_seq seq, unsigned flags,
                            struct rs_view chunk, struct rs_err *err)
{
    if (chunk.length > CHUNK_MAX_BYTES)
        return rs_err_set(err, RS_LIMIT, "a chunk of %zu bytes is over the limit of %d",
                          chunk.length, CHUNK_MAX_BYTES);
    struct entry *entry = NULL;
    struct rs_as_user scope;
    begin_write(spool, &scope);
    enum rs_status status = admit(spool, id, seq, flags, chunk.length, &entry, err);
    if (status == RS_OK)
        status = put_loss(spool, entry, err);
    if (status == RS_OK)
        status = write_chunk(spool, entry, entry->sequence->last + 1, flags, chunk, err);
    end_write(spool, &scope);
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

/* Nothing is waited for when the entry is gone: the next put says that. */
static bool may_put(const struct rs_spool *spool, uint32_t id, uint64_t bytes)
{
    const struct entry *entry = spool_find_entry(spool, id);
    return !entry || has_room_for(spool, entry, bytes, false);
}

enum rs_status rs_spool_wait(struct rs_spool *spool, uint32_t id, uint64_t bytes, rs_ns until)
{
    const struct timespec deadline = {.tv_sec = until / RS_NS_PER_S,
                                      .tv_nsec = until % RS_NS_PER_S};
    int error = 0;
    struct rs_as_user scope;
    begin_write(spool, &scope);
    let_go_of_kept(spool, id, bytes);
    end_write(spool, &scope);
    (void)pthread_mutex_lock(&spool->lock);
    while (!may_put(spool, id, bytes) && error == 0)
        error = pthread_cond_timedwait(&spool->has_room, &spool->lock, &deadline);
    const bool is_there = may_put(spool, id, bytes);
    (void)pthread_mutex_unlock(&spool->lock);
    return is_there ? RS_OK : RS_TIMEOUT;
}

/* ---- peek and ack --------------------------------------------------------------------------------------- */

enum rs_status rs_spool_peek(struct rs_spool *spool, uint32_t id, rs_seq seq,
                             struct rs_spool_chunk *chunk_p)
{
    RS_ON_THREAD(UPLINK);
    enum rs_status status = RS_NOTFOUND;
    (void)pthread_mutex_lock(&spool->lock);
    const struct entry *entry = spool_find_entry(spool, id);
    size_t low = entry ? entry->item_head : 0;
    size_t high = entry ? entry->item_count : 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (entry->items[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    if (entry)
        status = RS_AGAIN;
    if (entry && low < entry->item_count) {
        const struct item *item = &entry->items[low];
        const struct segment *segment = spool_find_segment(entry->folder, item->segment);
        RS_CHECK(segment);
        *chunk_p = (struct rs_spool_chunk){
            .entry = id,
            .seq = item->seq,
            .flags = item->flags,
            .bytes = rs_view_of(segment->map + item->payload_offset, item->payload_length),
            .skipped_bytes = item->skipped_bytes};
        status = RS_OK;
    }
    (void)pthread_mutex_unlock(&spool->lock);
    return status;
}

bool rs_spool_has_summary(struct rs_spool *spool, uint32_t id)
{
    bool is_there = false;
    (void)pthread_mutex_lock(&spool->lock);
    const struct entry *raw = spool_find_entry(spool, id);
    for (size_t i = 0; raw && i < spool->entry_count && !is_there; i++) {
        const struct entry *entry = spool->entries[i];
        is_there = entry->sequence->lane == RS_STREAM_SUMMARY &&
                   count_between(entry, entry->stored_seq, UINT64_MAX) &&
                   entry->sequence->rank == raw->sequence->rank &&
                   strcmp(entry->capture, raw->capture) == 0 &&
                   strcmp(entry->sequence->incarnation, raw->sequence->incarnation) == 0 &&
                   strcmp(entry->sequence->run, raw->sequence->run) == 0;
    }
    (void)pthread_mutex_unlock(&spool->lock);
    return is_there;
}

void rs_spool_ack(struct rs_spool *spool, uint32_t id, rs_seq seq)
{
    RS_ON_THREAD(UPLINK);
    (void)pthread_mutex_lock(&spool->lock);
    struct entry *entry = spool_find_entry(spool, id);
    if (entry && seq > entry->acked_seq)
        settle(spool, entry, seq);
    (void)pthread_mutex_unlock(&spool->lock);
}

void rs_spool_stored(struct rs_spool *spool, uint32_t id, rs_seq seq)
{
    RS_ON_THREAD(UPLINK);
    (void)pthread_mutex_lock(&spool->lock);
    struct entry *entry = spool_find_entry(spool, id);
    if (entry) {
        if (entry->sequence->last < seq)
            entry->sequence->last = seq;
        spool->stats.acked_chunks += count_between(entry, entry->stored_seq, seq);
        entry->stored_seq = seq;
    }
    (void)pthread_mutex_unlock(&spool->lock);
}

void rs_spool_drop(struct rs_spool *spool, uint32_t id)
{
    struct rs_as_user scope;
    begin_write(spool, &scope);
    struct entry *entry = spool_find_entry(spool, id);
    if (entry && !entry->is_dropped) {
        entry->is_dropped = true;
        spool->stats.lost_chunks += count_between(entry, entry->stored_seq, UINT64_MAX);
        spool->stats.lost_bytes += spool_settle(spool, entry, UINT64_MAX);
        note_lost(spool, entry);
        if (entry->folder->is_raw)
            spool_folder_remove(spool, &entry->folder);
        else
            spool_free_segments(spool, entry->folder);
        spool_retire_entries(spool);
    }
    end_write(spool, &scope);
}

void rs_spool_forget(struct rs_spool *spool, const char *run, uint32_t rank,
                     const char *incarnation)
{
    struct rs_as_user scope;
    begin_write(spool, &scope);
    for (size_t i = 0; i < spool->entry_count; i++) {
        const struct sequence *sequence = spool->entries[i]->sequence;
        if (sequence->rank == rank && strcmp(sequence->run, run) == 0 &&
            strcmp(sequence->incarnation, incarnation) == 0)
            spool->entries[i]->keeps_sequence = false;
    }
    spool_retire_entries(spool);
    end_write(spool, &scope);
}

uint64_t rs_spool_put_count(struct rs_spool *spool)
{
    (void)pthread_mutex_lock(&spool->lock);
    const uint64_t count = spool->stats.put_chunks;
    (void)pthread_mutex_unlock(&spool->lock);
    return count;
}

struct rs_spool_stats rs_spool_stats(struct rs_spool *spool)
{
    (void)pthread_mutex_lock(&spool->lock);
    struct rs_spool_stats stats = spool->stats;
    for (size_t i = 0; i < spool->entry_count; i++) {
        const struct entry *entry = spool->entries[i];
        const bool is_held = entry->is_held && entry->item_head < entry->item_count;
        stats.held_entries += is_held;
        for (size_t k = entry->item_head; k < entry->item_count; k++) {
            const struct item *item = &entry->items[k];
            const bool is_kept = item->seq <= entry->stored_seq;
            if (!is_held && !is_kept)
                break;
            stats.held_bytes += is_held ? item->payload_length : 0;
            stats.kept_bytes += is_kept ? item->payload_length : 0;
            stats.waiting_chunks -= is_kept;
            stats.waiting_bytes -= is_kept ? item->payload_length : 0;
        }
    }
    (void)pthread_mutex_unlock(&spool->lock);
    return stats;
}
