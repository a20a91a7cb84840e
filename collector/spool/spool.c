/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two locks: `write_lock` makes puts one after the other and is held while a record is written;
 * `lock` guards the index and is held for moments. Order: write_lock, then lock.
 */
#include "collector/spool/spool.h"

#include "common/base/buf.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/reclog.h"

#define RS_LOG_TAG "spool"
#include "common/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { RECORD_ENTRY = 1, RECORD_CHUNK = 2 };
enum { CHUNK_MAX_BYTES = 1024 * 1024, TEXT_MAX_BYTES = 4096, SEGMENT_MIN_BYTES = 64 * 1024 };
enum { ENTRY_ENDED = 1, ENTRY_KEEPS = 2 }; /* flags of an ENTRY record */

/* One incarnation's numbers, shared by its entries. */
struct sequence {
    char *run, *incarnation;
    uint32_t rank;
    rs_seq last, acked;
    unsigned entry_count;
};

struct entry {
    uint32_t id;
    struct sequence *sequence;
    char *capture, *capture_key, *host, *origin;
    uint32_t world;
    rs_dur settle_ns;
    bool is_ended, keeps_sequence, is_dropped;
    rs_seq end_seq; /* its newest chunk */
    uint64_t put_count;
    struct rs_loss loss; /* to be told before the next chunk */
};

struct segment {
    uint32_t number;
    char *path;
    const uint8_t *map; /* the whole file and what it may grow to */
    size_t map_bytes;
    uint64_t length;
    uint64_t waiting_count; /* chunks not acknowledged */
};

/* A chunk in order of put. Its place in the array is its position - first_position. */
struct item {
    uint32_t entry;
    uint32_t segment; /* number */
    rs_seq seq;
    uint32_t payload_offset, payload_length;
    uint16_t flags;
    bool is_acked;
};

struct rs_spool {
    char *dir;
    char id[33];
    int lock_fd;
    struct rs_spool_options options;
    void (*on_put)(void *self);
    void *on_put_self;

    pthread_mutex_t write_lock;
    struct rs_reclog log; /* of the newest segment; guarded by write_lock */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t has_room;
    struct sequence **sequences;
    size_t sequence_count, sequence_capacity;
    struct entry **entries; /* by id */
    size_t entry_count, entry_capacity;
    uint32_t next_entry;
    struct segment *segments; /* oldest first; the last is written to */
    size_t segment_count, segment_capacity;
    struct item *items;
    size_t item_head, item_count, item_capacity; /* items[item_head ..] are in use */
    uint64_t first_position;                     /* of items[item_head] */
    struct rs_spool_stats stats;
};

/* ---- entries ------------------------------------------------------------------------------------- */

static struct entry *find_entry(const struct rs_spool *spool, uint32_t id)
{
    size_t low = 0;
    size_t high = spool->entry_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (spool->entries[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < spool->entry_count && spool->entries[low]->id == id)
        return spool->entries[low];
    return NULL;
}

static struct sequence *find_sequence(const struct rs_spool *spool, const char *run, uint32_t rank,
                                      const char *incarnation)
{
    for (size_t i = 0; i < spool->sequence_count; i++) {
        struct sequence *sequence = spool->sequences[i];
        if (sequence->rank == rank && strcmp(sequence->run, run) == 0 &&
            strcmp(sequence->incarnation, incarnation) == 0)
            return sequence;
    }
    return NULL;
}

static void free_sequence(struct sequence *sequence)
{
    if (!sequence)
        return;
    rs_mem_free(sequence->run);
    rs_mem_free(sequence->incarnation);
    rs_mem_free(sequence);
}

static void free_entry(struct entry *entry)
{
    if (!entry)
        return;
    rs_mem_free(entry->capture);
    rs_mem_free(entry->capture_key);
    rs_mem_free(entry->host);
    rs_mem_free(entry->origin);
    rs_mem_free(entry);
}

static struct sequence *add_sequence(struct rs_spool *spool, const struct rs_spool_source *source)
{
    struct sequence *sequence =
        find_sequence(spool, source->run, source->rank, source->incarnation);
    if (sequence)
        return sequence;
    if (rs_mem_grow((void **)&spool->sequences, &spool->sequence_capacity,
                    spool->sequence_count + 1, sizeof(struct sequence *)) < 0)
        return NULL;
    sequence = rs_mem_calloc(1, sizeof *sequence);
    if (!sequence)
        return NULL;
    sequence->run = rs_mem_strdup(source->run);
    sequence->incarnation = rs_mem_strdup(source->incarnation);
    sequence->rank = source->rank;
    if (!sequence->run || !sequence->incarnation) {
        free_sequence(sequence);
        return NULL;
    }
    spool->sequences[spool->sequence_count++] = sequence;
    return sequence;
}

static void remove_sequence(struct rs_spool *spool, struct sequence *sequence)
{
    for (size_t i = 0; i < spool->sequence_count; i++) {
        if (spool->sequences[i] == sequence) {
            spool->sequences[i] = spool->sequences[--spool->sequence_count];
            free_sequence(sequence);
            return;
        }
    }
}

/* Adds an entry under this id, which is beyond all others. */
static struct entry *add_entry(struct rs_spool *spool, uint32_t id,
                               const struct rs_spool_source *source)
{
    if (rs_mem_grow((void **)&spool->entries, &spool->entry_capacity, spool->entry_count + 1,
                    sizeof(struct entry *)) < 0)
        return NULL;
    struct sequence *sequence = add_sequence(spool, source);
    struct entry *entry = sequence ? rs_mem_calloc(1, sizeof *entry) : NULL;
    if (!entry)
        return NULL;
    *entry = (struct entry){.id = id,
                            .sequence = sequence,
                            .capture = rs_mem_strdup(source->capture),
                            .capture_key = rs_mem_strdup(source->capture_key),
                            .host = rs_mem_strdup(source->host),
                            .origin = rs_mem_strdup(source->origin),
                            .world = source->world,
                            .settle_ns = source->settle_ns,
                            .keeps_sequence = source->keeps_sequence};
    if (!entry->capture || !entry->capture_key || !entry->host || !entry->origin) {
        free_entry(entry);
        return NULL;
    }
    sequence->entry_count++;
    spool->entries[spool->entry_count++] = entry;
    return entry;
}

/* Whether nothing of an entry will be asked for any more. */
static bool may_retire(const struct entry *entry)
{
    const bool is_through =
        (entry->is_ended || entry->is_dropped) && entry->end_seq <= entry->sequence->acked;
    const bool is_newest = entry->end_seq == entry->sequence->last;
    return is_through && !(entry->keeps_sequence && is_newest);
}

static void retire_entries(struct rs_spool *spool)
{
    size_t kept = 0;
    for (size_t i = 0; i < spool->entry_count; i++) {
        struct entry *entry = spool->entries[i];
        if (!may_retire(entry)) {
            spool->entries[kept++] = entry;
            continue;
        }
        struct sequence *sequence = entry->sequence;
        free_entry(entry);
        if (--sequence->entry_count == 0)
            remove_sequence(spool, sequence);
    }
    spool->entry_count = kept;
}

/* ---- records -------------------------------------------------------------------------------------- */

static void put_text(struct rs_buf *buf, const char *text)
{
    const size_t length = strlen(text);
    rs_buf_varint(buf, length);
    rs_buf_bytes(buf, text, length);
}

static void encode_entry(struct rs_buf *buf, const struct entry *entry)
{
    const struct sequence *sequence = entry->sequence;
    rs_buf_u32(buf, sequence->rank);
    rs_buf_u32(buf, entry->world);
    rs_buf_u64(buf, (uint64_t)entry->settle_ns);
    rs_buf_u64(buf, sequence->last);
    rs_buf_u64(buf, sequence->acked);
    rs_buf_u64(buf, entry->end_seq);
    rs_buf_u64(buf, entry->put_count);
    put_text(buf, sequence->run);
    put_text(buf, sequence->incarnation);
    put_text(buf, entry->capture);
    put_text(buf, entry->capture_key);
    put_text(buf, entry->host);
    put_text(buf, entry->origin);
}

static enum rs_status append_entry(struct rs_reclog *log, const struct entry *entry,
                                   struct rs_err *err)
{
    struct rs_buf buf = {0};
    encode_entry(&buf, entry);
    enum rs_status status = RS_NOMEM;
    if (!buf.failed) {
        const struct rs_reclog_record record = {
            .kind = RECORD_ENTRY,
            .flags = (uint16_t)((entry->is_ended ? ENTRY_ENDED : 0) |
                                (entry->keeps_sequence ? ENTRY_KEEPS : 0)),
            .tag = entry->id};
        const struct iovec part = {.iov_base = buf.data, .iov_len = buf.length};
        status = rs_reclog_append(log, &record, &part, 1, NULL, err);
    } else {
        (void)rs_err_set(err, RS_NOMEM, "no memory for a spool entry");
    }
    rs_buf_fini(&buf);
    return status;
}

/* A text from the log, in `texts`; false when it is too long. */
static const char *take_text(struct rs_view *view, struct rs_buf *texts)
{
    const uint64_t length = rs_view_varint(view);
    if (length > TEXT_MAX_BYTES) {
        view->failed = true;
        return "";
    }
    const struct rs_view text = rs_view_take(view, (size_t)length);
    const size_t at = texts->length;
    rs_buf_bytes(texts, text.data, text.failed ? 0 : text.length);
    rs_buf_u8(texts, 0);
    return texts->failed ? "" : (const char *)texts->data + at;
}

/* ---- segments -------------------------------------------------------------------------------------- */

static char *segment_path(const struct rs_spool *spool, uint32_t number)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%08u.seg", number);
    return rs_file_join(spool->dir, name);
}

static void unmap_segment(struct segment *segment)
{
    if (segment->map) {
        union {
            const uint8_t *in;
            void *out;
        } map = {.in = segment->map};
        (void)munmap(map.out, segment->map_bytes);
    }
    rs_mem_free(segment->path);
    *segment = (struct segment){0};
}

static enum rs_status map_segment(struct rs_spool *spool, uint32_t number, char *path,
                                  uint64_t length, struct rs_err *err)
{
    if (rs_mem_grow((void **)&spool->segments, &spool->segment_capacity, spool->segment_count + 1,
                    sizeof *spool->segments) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a segment");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rs_err_errno(err, "cannot open %s", path);
    const size_t bytes = (size_t)(length + spool->options.segment_bytes + 4 * CHUNK_MAX_BYTES);
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED)
        return rs_err_errno(err, "cannot map %s", path);
    spool->segments[spool->segment_count++] = (struct segment){
        .number = number, .path = path, .map = map, .map_bytes = bytes, .length = length};
    spool->stats.disk_bytes += length;
    return RS_OK;
}

static struct segment *find_segment(const struct rs_spool *spool, uint32_t number)
{
    for (size_t i = 0; i < spool->segment_count; i++)
        if (spool->segments[i].number == number)
            return &spool->segments[i];
    return NULL;
}

/* Old segments whose chunks are all acknowledged go; the newest stays. */
static void free_segments(struct rs_spool *spool)
{
    size_t gone = 0;
    while (gone + 1 < spool->segment_count && spool->segments[gone].waiting_count == 0) {
        struct segment *segment = &spool->segments[gone];
        if (unlink(segment->path) < 0)
            rs_log_warn("cannot remove %s: %s", segment->path, strerror(errno));
        spool->stats.disk_bytes -= segment->length;
        unmap_segment(segment);
        gone++;
    }
    if (!gone)
        return;
    spool->segment_count -= gone;
    memmove(spool->segments, spool->segments + gone,
            spool->segment_count * sizeof *spool->segments);
    (void)pthread_cond_broadcast(&spool->has_room);
}

/* Begins a new segment with all entries in it. Holds write_lock and lock. */
static enum rs_status begin_segment(struct rs_spool *spool, struct rs_err *err)
{
    const uint32_t number =
        spool->segment_count ? spool->segments[spool->segment_count - 1].number + 1 : 1;
    char *path = segment_path(spool, number);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for a segment");
    struct rs_reclog log;
    enum rs_status status = rs_reclog_create(&log, path, err);
    if (status < 0) {
        rs_mem_free(path);
        return status;
    }
    retire_entries(spool);
    for (size_t i = 0; i < spool->entry_count && status == RS_OK; i++)
        status = append_entry(&log, spool->entries[i], err);
    if (status == RS_OK)
        status = map_segment(spool, number, path, log.length, err);
    if (status < 0) {
        (void)unlink(path);
        rs_reclog_close(&log);
        rs_mem_free(path);
        return status;
    }
    rs_reclog_close(&spool->log);
    spool->log = log;
    free_segments(spool);
    return RS_OK;
}

/* ---- the index --------------------------------------------------------------------------------------- */

static enum rs_status add_item(struct rs_spool *spool, const struct item *item)
{
    if (spool->item_head && spool->item_head >= spool->item_count / 2 + 64) {
        spool->item_count -= spool->item_head;
        memmove(spool->items, spool->items + spool->item_head,
                spool->item_count * sizeof *spool->items);
        spool->item_head = 0;
    }
    if (rs_mem_grow((void **)&spool->items, &spool->item_capacity, spool->item_count + 1,
                    sizeof *spool->items) < 0)
        return RS_NOMEM;
    spool->items[spool->item_count++] = *item;
    spool->stats.waiting_chunks++;
    spool->stats.waiting_bytes += item->payload_length;
    return RS_OK;
}

static void settle_item(struct rs_spool *spool, struct item *item)
{
    if (item->is_acked)
        return;
    item->is_acked = true;
    spool->stats.waiting_chunks--;
    spool->stats.waiting_bytes -= item->payload_length;
    spool->stats.acked_chunks++;
    struct segment *segment = find_segment(spool, item->segment);
    RS_CHECK(segment && segment->waiting_count > 0);
    segment->waiting_count--;
}

static void drop_head(struct rs_spool *spool)
{
    while (spool->item_head < spool->item_count && spool->items[spool->item_head].is_acked) {
        spool->item_head++;
        spool->first_position++;
    }
    if (spool->item_head == spool->item_count)
        spool->item_head = spool->item_count = 0;
    free_segments(spool);
}

/* ---- finding again --------------------------------------------------------------------------------- */

static enum rs_status recover_entry(struct rs_spool *spool, const struct rs_reclog_record *record,
                                    struct rs_view view, struct rs_err *err)
{
    struct rs_buf texts = {0};
    struct rs_spool_source source = {.rank = rs_view_u32(&view)};
    source.world = rs_view_u32(&view);
    source.settle_ns = (rs_dur)rs_view_u64(&view);
    const rs_seq last = rs_view_u64(&view);
    const rs_seq acked = rs_view_u64(&view);
    const rs_seq end_seq = rs_view_u64(&view);
    const uint64_t put_count = rs_view_u64(&view);
    source.keeps_sequence = (record->flags & ENTRY_KEEPS) != 0;
    (void)rs_buf_reserve(&texts, view.length + 8); /* so that the texts do not move */
    source.run = take_text(&view, &texts);
    source.incarnation = take_text(&view, &texts);
    source.capture = take_text(&view, &texts);
    source.capture_key = take_text(&view, &texts);
    source.host = take_text(&view, &texts);
    source.origin = take_text(&view, &texts);
    enum rs_status status = RS_OK;
    if (view.failed || texts.failed || record->tag == 0 || acked > last || end_seq > last) {
        status = rs_err_set(err, RS_FORMAT, "the spool in %s holds a broken entry", spool->dir);
    } else {
        struct entry *entry = find_entry(spool, record->tag);
        if (!entry && record->tag >= spool->next_entry)
            entry = add_entry(spool, record->tag, &source);
        else if (!entry)
            status = rs_err_set(err, RS_FORMAT, "the spool in %s holds entry %u out of order",
                                spool->dir, record->tag);
        if (entry) {
            if (spool->next_entry <= record->tag)
                spool->next_entry = record->tag + 1;
            entry->is_ended = entry->is_ended || (record->flags & ENTRY_ENDED);
            entry->keeps_sequence = source.keeps_sequence;
            if (entry->sequence->last < last)
                entry->sequence->last = last;
            if (entry->sequence->acked < acked)
                entry->sequence->acked = acked;
            if (entry->end_seq < end_seq)
                entry->end_seq = end_seq;
            if (entry->put_count < put_count)
                entry->put_count = put_count;
        } else if (status == RS_OK) {
            status = rs_err_set(err, RS_NOMEM, "no memory for the spool's entries");
        }
    }
    rs_buf_fini(&texts);
    return status;
}

static enum rs_status recover_chunk(struct rs_spool *spool, struct segment *segment,
                                    const struct rs_reclog_record *record, struct rs_view payload,
                                    uint64_t offset, struct rs_err *err)
{
    struct entry *entry = find_entry(spool, record->tag);
    if (!entry)
        return rs_err_set(err, RS_FORMAT, "%s holds a chunk of no entry", segment->path);
    struct sequence *sequence = entry->sequence;
    if (record->seq > sequence->last)
        sequence->last = record->seq;
    if (record->seq > entry->end_seq) {
        entry->end_seq = record->seq;
        entry->put_count++;
    }
    entry->is_ended = entry->is_ended || (record->flags & RS_ENVELOPE_LAST);
    const struct item item = {
        .entry = record->tag,
        .segment = segment->number,
        .seq = record->seq,
        .payload_offset = (uint32_t)(offset + RS_RECLOG_RECORD_HEADER_BYTES),
        .payload_length = (uint32_t)payload.length,
        .flags = record->flags,
    };
    if (add_item(spool, &item) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for the spool's index");
    segment->waiting_count++;
    return RS_OK;
}

static enum rs_status recover_segment(struct rs_spool *spool, struct segment *segment,
                                      struct rs_err *err)
{
    struct rs_reclog_reader reader;
    enum rs_status status = rs_reclog_reader_open(&reader, segment->path, err);
    if (status < 0)
        return status;
    struct rs_reclog_record record;
    struct rs_view payload;
    uint64_t offset = 0;
    for (;;) {
        status = rs_reclog_next(&reader, RS_RECLOG_CHECK_ALL, &record, &payload, &offset, err);
        if (status != RS_OK)
            break;
        if (record.kind == RECORD_ENTRY)
            status = recover_entry(spool, &record, payload, err);
        else if (record.kind == RECORD_CHUNK)
            status = recover_chunk(spool, segment, &record, payload, offset, err);
        else
            status = rs_err_set(err, RS_FORMAT, "%s holds a record of kind %u", segment->path,
                                record.kind);
        if (status < 0)
            break;
    }
    rs_reclog_reader_close(&reader);
    return status == RS_END ? RS_OK : status;
}

static int by_number(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static enum rs_status list_segments(const struct rs_spool *spool, uint32_t **numbers_p,
                                    size_t *count_p, struct rs_err *err)
{
    DIR *dir = opendir(spool->dir);
    if (!dir)
        return rs_err_errno(err, "cannot read %s", spool->dir);
    uint32_t *numbers = NULL;
    size_t count = 0;
    size_t capacity = 0;
    enum rs_status status = RS_OK;
    for (const struct dirent *item = readdir(dir); item && status == RS_OK; item = readdir(dir)) {
        char *end = NULL;
        const unsigned long number = strtoul(item->d_name, &end, 10);
        if (strlen(item->d_name) != 12 || !end || strcmp(end, ".seg") != 0 || number == 0)
            continue;
        status = rs_mem_grow((void **)&numbers, &capacity, count + 1, sizeof *numbers);
        if (status == RS_OK)
            numbers[count++] = (uint32_t)number;
    }
    (void)closedir(dir);
    if (status < 0) {
        rs_mem_free(numbers);
        return rs_err_set(err, status, "no memory to list %s", spool->dir);
    }
    if (count)
        qsort(numbers, count, sizeof *numbers, by_number);
    *numbers_p = numbers;
    *count_p = count;
    return RS_OK;
}

static enum rs_status recover_one(struct rs_spool *spool, uint32_t number, bool is_last,
                                  struct rs_err *err)
{
    char *path = segment_path(spool, number);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for a segment");
    struct rs_reclog log;
    uint64_t cut = 0;
    enum rs_status status = rs_reclog_open(&log, path, &cut, err);
    if (status < 0) {
        rs_mem_free(path);
        return status;
    }
    spool->stats.cut_bytes += cut;
    if (cut)
        rs_log_info("%s: %llu torn bytes cut", path, (unsigned long long)cut);
    status = map_segment(spool, number, path, log.length, err);
    if (status < 0) {
        rs_mem_free(path);
        rs_reclog_close(&log);
        return status;
    }
    status = recover_segment(spool, &spool->segments[spool->segment_count - 1], err);
    if (is_last && status == RS_OK)
        spool->log = log;
    else
        rs_reclog_close(&log);
    return status;
}

static enum rs_status recover(struct rs_spool *spool, struct rs_err *err)
{
    uint32_t *numbers = NULL;
    size_t count = 0;
    enum rs_status status = list_segments(spool, &numbers, &count, err);
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = recover_one(spool, numbers[i], i + 1 == count, err);
    rs_mem_free(numbers);
    if (status < 0)
        return status;
    for (size_t i = 0; i < spool->item_count; i++) {
        struct item *item = &spool->items[i];
        if (item->seq <= find_entry(spool, item->entry)->sequence->acked)
            settle_item(spool, item);
    }
    spool->stats.acked_chunks = 0;
    drop_head(spool);
    return count ? RS_OK : begin_segment(spool, err);
}

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
        status = recover(spool, err);
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
        unmap_segment(&spool->segments[i]);
    for (size_t i = 0; i < spool->entry_count; i++)
        free_entry(spool->entries[i]);
    for (size_t i = 0; i < spool->sequence_count; i++)
        free_sequence(spool->sequences[i]);
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
        status = begin_segment(spool, err);
    if (!entry && status == RS_OK) {
        entry = add_entry(spool, spool->next_entry, source);
        if (entry)
            status = append_entry(&spool->log, entry, err);
        else
            status = rs_err_set(err, RS_NOMEM, "no memory for a spool entry");
        if (status == RS_OK) {
            spool->next_entry++;
        } else if (entry) {
            spool->entry_count--;
            if (--entry->sequence->entry_count == 0)
                remove_sequence(spool, entry->sequence);
            free_entry(entry);
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
    const struct entry *entry = find_entry(spool, id);
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
    if (add_item(spool, &item) < 0) {
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
    struct entry *entry = find_entry(spool, id);
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
        status = begin_segment(spool, err);
    *entry_p = find_entry(spool, id);
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
    struct entry *entry = find_entry(spool, id);
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
        const struct segment *segment = find_segment(spool, item->segment);
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
    struct entry *entry = find_entry(spool, id);
    if (entry && seq > entry->sequence->acked) {
        struct sequence *sequence = entry->sequence;
        sequence->acked = seq;
        if (sequence->last < seq)
            sequence->last = seq;
        /* Acks come in order of put, nearly: what is acknowledged stands at the head. */
        for (size_t i = spool->item_head; i < spool->item_count; i++) {
            struct item *item = &spool->items[i];
            const struct entry *owner = item->is_acked ? NULL : find_entry(spool, item->entry);
            if (owner && owner->sequence == sequence) {
                if (item->seq > seq)
                    break;
                settle_item(spool, item);
            }
        }
        drop_head(spool);
    }
    (void)pthread_mutex_unlock(&spool->lock);
}

void rs_spool_drop(struct rs_spool *spool, uint32_t id)
{
    (void)pthread_mutex_lock(&spool->write_lock);
    (void)pthread_mutex_lock(&spool->lock);
    struct entry *entry = find_entry(spool, id);
    if (entry) {
        entry->is_dropped = true;
        for (size_t i = spool->item_head; i < spool->item_count; i++) {
            struct item *item = &spool->items[i];
            if (item->entry != id || item->is_acked)
                continue;
            spool->stats.lost_chunks++;
            spool->stats.lost_bytes += item->payload_length;
            settle_item(spool, item);
        }
        entry->end_seq = entry->sequence->acked;
        drop_head(spool);
    }
    (void)pthread_mutex_unlock(&spool->lock);
    (void)pthread_mutex_unlock(&spool->write_lock);
}

void rs_spool_forget(struct rs_spool *spool, const char *run, uint32_t rank,
                     const char *incarnation)
{
    (void)pthread_mutex_lock(&spool->write_lock);
    (void)pthread_mutex_lock(&spool->lock);
    const struct sequence *sequence = find_sequence(spool, run, rank, incarnation);
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
