/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding again what a collector before this one left: folders, segments in order, entries, chunks.
 *
 *   torn tail            cut by the record log: nobody was told that it is there
 *   damage in between    the segment goes to DIR/damaged as it was found, what can be read of it takes its place; the
 *                        numbers that are missing then are told when the stream is sent
 *   a chunk of nobody    its entry's record was damaged: the segment goes to DIR/damaged, too
 *
 *   another version      left as it is, the spool is not opened: it is whole, and the program that wrote it can send it
 *
 * Damage stops the stream that it hit and no other: nothing else here refuses to open the spool but a disk that cannot be
 * read and memory that is not there.
 */
#include "collector/spool/spool_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "spool"
#include "common/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- records -------------------------------------------------------------------------------------- */

static void merge_entry(struct rs_spool *spool, struct entry *entry, const struct entry *found,
                        rs_seq last)
{
    if (spool->next_entry <= entry->id)
        spool->next_entry = entry->id + 1;
    entry->is_ended = entry->is_ended || found->is_ended;
    entry->keeps_sequence = found->keeps_sequence;
    entry->made_ns = found->made_ns;
    if (entry->sequence->last < last)
        entry->sequence->last = last;
    if (!entry->first_seq)
        entry->first_seq = found->first_seq;
    if (entry->acked_seq < found->acked_seq)
        entry->acked_seq = found->acked_seq;
    if (entry->end_seq < found->end_seq)
        entry->end_seq = found->end_seq;
    if (entry->put_count < found->put_count)
        entry->put_count = found->put_count;
}

/* RS_FORMAT: it makes no sense. */
static enum rs_status recover_entry(struct rs_spool *spool, struct folder *folder,
                                    const struct rs_reclog_record *record, struct rs_view view)
{
    struct rs_buf texts = {0};
    struct rs_spool_source source = {.rank = rs_view_u32(&view)};
    struct entry found = {.is_ended = (record->flags & ENTRY_ENDED) != 0,
                          .keeps_sequence = (record->flags & ENTRY_KEEPS) != 0};
    source.world = rs_view_u32(&view);
    source.settle_ns = (rs_dur)rs_view_u64(&view);
    const rs_seq last = rs_view_u64(&view);
    found.acked_seq = rs_view_u64(&view);
    found.end_seq = rs_view_u64(&view);
    found.put_count = rs_view_u64(&view);
    source.keeps_sequence = found.keeps_sequence;
    (void)rs_buf_reserve(&texts, view.length + 8); /* so that the texts do not move */
    source.run = spool_take_text(&view, &texts);
    source.incarnation = spool_take_text(&view, &texts);
    source.capture = spool_take_text(&view, &texts);
    source.capture_key = spool_take_text(&view, &texts);
    source.host = spool_take_text(&view, &texts);
    source.origin = spool_take_text(&view, &texts);
    uint32_t lane = RS_STREAM_RAW;
    if (record->flags & ENTRY_EXTENDED) {
        lane = rs_view_u32(&view);
        found.first_seq = rs_view_u64(&view);
        found.made_ns = (rs_ns)rs_view_u64(&view);
    }
    if (record->flags & ENTRY_OWNED)
        source.user = (int64_t)rs_view_u64(&view);
    enum rs_status status = RS_OK;
    if (view.failed || texts.failed || record->tag == 0 || found.end_seq > last ||
        lane >= RS_STREAM_LANE_COUNT)
        status = RS_FORMAT;
    source.lane = (enum rs_stream_lane)lane;
    struct entry *entry = status == RS_OK ? spool_find_entry(spool, record->tag) : NULL;
    if (entry && entry->folder != folder)
        status = RS_FORMAT;
    if (status == RS_OK && !entry) {
        entry = spool_add_entry(spool, record->tag, &source);
        status = entry ? RS_OK : RS_NOMEM;
        if (entry) {
            entry->folder = folder;
            /* What was put before the oldest segment that is there went with older ones: it is acknowledged. An earlier
             * program counted that over all captures of the incarnation. */
            if (!folder->has_lost_segment || !(record->flags & ENTRY_EXTENDED))
                found.acked_seq = found.end_seq;
        }
    }
    if (status == RS_OK)
        merge_entry(spool, entry, &found, last);
    rs_buf_fini(&texts);
    return status;
}

static enum rs_status recover_chunk(struct rs_spool *spool, const struct folder *folder,
                                    const struct segment *segment,
                                    const struct rs_reclog_record *record, struct rs_view payload,
                                    uint64_t offset, uint64_t skipped_bytes)
{
    struct entry *entry = spool_find_entry(spool, record->tag);
    if (!entry || entry->folder != folder || record->seq == 0)
        return RS_FORMAT;
    struct rs_loss loss = {0};
    if (record->flags & RS_ENVELOPE_LOSS &&
        rs_loss_decode(payload.data, payload.length, &loss, NULL) < 0)
        return RS_FORMAT;
    if (loss.cause == RS_LOSS_EVICTED && (!loss.first_seq || loss.first_seq > record->seq))
        return RS_FORMAT;
    if (loss.cause == RS_LOSS_EVICTED) {
        /* A crash came between the loss record and the end of what it stands for. */
        spool_unput(spool, entry, loss.first_seq);
        entry->is_evicted = true;
        if (entry->acked_seq >= loss.first_seq)
            entry->acked_seq = loss.first_seq - 1;
    } else if (entry->item_count > entry->item_head &&
               record->seq <= entry->items[entry->item_count - 1].seq) {
        return RS_OK;
    }
    if (!entry->first_seq) /* of an earlier program: the first that is there */
        entry->first_seq = record->seq;
    if (record->seq > entry->sequence->last)
        entry->sequence->last = record->seq;
    if (record->seq > entry->end_seq) {
        entry->end_seq = record->seq;
        entry->put_count++;
    }
    entry->is_ended = entry->is_ended || (record->flags & RS_ENVELOPE_LAST);
    if (record->seq <= entry->acked_seq)
        return RS_OK;
    const struct item item = {
        .seq = record->seq,
        .segment = segment->number,
        .payload_offset = (uint32_t)(offset + RS_RECLOG_RECORD_HEADER_BYTES),
        .payload_length = (uint32_t)payload.length,
        .skipped_bytes = (uint32_t)skipped_bytes,
        .flags = record->flags,
    };
    return spool_add_item(spool, entry, &item);
}

/* ---- segments ------------------------------------------------------------------------------------- */

/* RS_FORMAT: it holds chunks of no entry, or records that make no sense; those are left out. */
static enum rs_status read_segment(struct rs_spool *spool, struct folder *folder,
                                   struct segment *segment, struct rs_err *err)
{
    struct rs_reclog_reader reader;
    enum rs_status status = rs_reclog_reader_open(&reader, segment->path, err);
    if (status < 0)
        return status;
    bool has_strays = false;
    uint64_t skipped = 0;
    for (;;) {
        struct rs_reclog_record record;
        struct rs_view payload;
        uint64_t offset = 0;
        const size_t before = reader.position;
        status = rs_reclog_next(&reader, RS_RECLOG_CHECK_ALL, &record, &payload, &offset, NULL);
        if (status == RS_FORMAT) {
            status = rs_reclog_resync(&reader);
            skipped += reader.position - before;
            if (status == RS_OK)
                continue;
        }
        if (status != RS_OK)
            break;
        status = record.kind == RECORD_ENTRY
                     ? recover_entry(spool, folder, &record, payload)
                     : recover_chunk(spool, folder, segment, &record, payload, offset, skipped);
        if (status == RS_NOMEM)
            break;
        has_strays = has_strays || status == RS_FORMAT;
        if (record.kind == RECORD_CHUNK)
            skipped = 0;
    }
    rs_reclog_reader_close(&reader);
    if (status == RS_NOMEM)
        return rs_err_set(err, status, "no memory for the spool's index");
    return has_strays ? RS_FORMAT : RS_OK;
}

/* Whether a segment can be read from its first to its last record; `damaged_p`: bytes that cannot. */
static enum rs_status look_at_segment(const char *path, uint64_t *damaged_p, struct rs_err *err)
{
    struct rs_reclog_reader reader;
    struct rs_reclog_record record;
    struct rs_view payload;
    enum rs_status status = rs_reclog_reader_open(&reader, path, err);
    *damaged_p = 0;
    while (status == RS_OK) {
        const size_t before = reader.position;
        status = rs_reclog_next(&reader, RS_RECLOG_CHECK_ALL, &record, &payload, NULL, err);
        if (status == RS_FORMAT) {
            status = rs_reclog_resync(&reader);
            *damaged_p += reader.position - before;
        }
    }
    rs_reclog_reader_close(&reader);
    return status == RS_END ? RS_OK : status;
}

/* The file as it was found stays under another name: somebody may want to look at it. */
static void keep_aside(struct rs_spool *spool, const struct folder *folder, const char *path,
                       uint64_t bytes, const char *why)
{
    const char *base = strrchr(folder->dir, '/');
    const char *name = strrchr(path, '/');
    char aside[64];
    char *dir = rs_file_join(spool->dir, "damaged");
    (void)snprintf(aside, sizeof aside, "%.24s-%.24s", base ? base + 1 : folder->dir,
                   name ? name + 1 : path);
    char *to = dir ? rs_file_join(dir, aside) : NULL;
    if (!to || rs_file_make_dirs(dir, 0750, NULL) < 0 || (link(path, to) < 0 && errno != EEXIST))
        rs_log_error("%s cannot be kept aside: %s", path, RS_ERRNO_TEXT());
    rs_log_error("%s: %s; it is kept as %s", path, why, to ? to : "nothing");
    spool->stats.damaged_segments++;
    spool->stats.damaged_bytes += bytes;
    rs_mem_free(to);
    rs_mem_free(dir);
}

static enum rs_status recover_segment(struct rs_spool *spool, struct folder *folder,
                                      uint32_t number, struct rs_err *err)
{
    struct rs_reclog log = {.fd = -1};
    struct rs_err why = {0};
    uint64_t cut = 0;
    uint64_t damaged = 0;
    char *path = spool_segment_path(folder, number);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for a segment");
    if (folder->last_segment < number)
        folder->last_segment = number;
    enum rs_status status = rs_reclog_open(&log, path, &cut, &why);
    if (status == RS_OK)
        status = look_at_segment(path, &damaged, &why);
    if (status == RS_FORMAT) {
        keep_aside(spool, folder, path, 0, why.text);
        folder->has_lost_segment = true;
        (void)unlink(path);
        rs_mem_free(path);
        rs_reclog_close(&log);
        return RS_OK;
    }
    if (status == RS_VERSION) { /* the head's checksum is right: this is no damage */
        rs_mem_free(path);
        rs_reclog_close(&log);
        return rs_err_set(
            err, RS_REFUSED,
            "%s: start the Rankscope that wrote it, which sends what is in it, or give another --spool",
            why.text);
    }
    if (damaged)
        keep_aside(spool, folder, path, damaged, why.text);
    spool->stats.cut_bytes += cut;
    if (cut)
        rs_log_info("%s: %llu torn bytes cut", path, (unsigned long long)cut);
    const uint64_t length = log.length;
    rs_reclog_close(&log);
    if (status == RS_OK)
        status = spool_map_segment(spool, folder, number, path, length, &why);
    if (status < 0) {
        rs_mem_free(path);
        return rs_err_set(err, status, "%s", why.text);
    }
    status = read_segment(spool, folder, &folder->segments[folder->segment_count - 1], err);
    if (status == RS_FORMAT) {
        if (!damaged)
            keep_aside(spool, folder, path, 0, "it holds records of streams that are not known");
        status = RS_OK;
    }
    return status;
}

/* ---- folders -------------------------------------------------------------------------------------- */

static int by_number(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Names of the form 00000001SUFFIX. A directory that is not there has none. */
static enum rs_status list_numbers(const char *path, const char *suffix, uint32_t **numbers_p,
                                   size_t *count_p, struct rs_err *err)
{
    *numbers_p = NULL;
    *count_p = 0;
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? RS_OK : rs_err_errno(err, "cannot read %s", path);
    uint32_t *numbers = NULL;
    size_t count = 0;
    size_t capacity = 0;
    enum rs_status status = RS_OK;
    for (const struct dirent *item = rs_dir_next(dir); item && status == RS_OK;
         item = rs_dir_next(dir)) {
        char *end = NULL;
        const unsigned long number = strtoul(item->d_name, &end, 10);
        if (strlen(item->d_name) != 8 + strlen(suffix) || !end || strcmp(end, suffix) != 0 ||
            number == 0)
            continue;
        status = rs_mem_grow((void **)&numbers, &capacity, count + 1, sizeof *numbers);
        if (status == RS_OK)
            numbers[count++] = (uint32_t)number;
    }
    (void)closedir(dir);
    if (status < 0) {
        rs_mem_free(numbers);
        return rs_err_set(err, status, "no memory to list %s", path);
    }
    if (count)
        qsort(numbers, count, sizeof *numbers, by_number);
    *numbers_p = numbers;
    *count_p = count;
    return RS_OK;
}

static enum rs_status recover_folder(struct rs_spool *spool, struct folder *folder,
                                     struct rs_err *err)
{
    uint32_t *numbers = NULL;
    size_t count = 0;
    enum rs_status status = list_numbers(folder->dir, ".seg", &numbers, &count, err);
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = recover_segment(spool, folder, numbers[i], err);
    rs_mem_free(numbers);
    return status;
}

static enum rs_status recover_raw(struct rs_spool *spool, uint32_t id, struct rs_err *err)
{
    struct folder *folder = spool_raw_folder_new(spool, id, err);
    if (!folder)
        return RS_IO;
    if (spool->next_entry <= id)
        spool->next_entry = id + 1;
    const enum rs_status status = recover_folder(spool, folder, err);
    const struct entry *entry = spool_find_entry(spool, id);
    if (entry && entry->folder == folder)
        return status;
    /* Nobody's: what was in it is kept aside, if there was anything. */
    spool_folder_remove(spool, &folder);
    return status;
}

/* The next segment of a shared folder begins with what is of use; it is begun at once, so that there is one. */
static enum rs_status recover_shared(struct rs_spool *spool, struct folder *folder,
                                     struct rs_err *err)
{
    const enum rs_status status = recover_folder(spool, folder, err);
    return status == RS_OK && folder == spool->summary && !folder->segment_count
               ? spool_begin_segment(spool, folder, err)
               : status;
}

enum rs_status spool_recover(struct rs_spool *spool, struct rs_err *err)
{
    uint32_t *numbers = NULL;
    size_t count = 0;
    enum rs_status status = list_numbers(spool->dir, ".seg", &numbers, &count, err);
    rs_mem_free(numbers);
    if (status == RS_OK && count) {
        spool->earlier = spool_folder_new(spool, "", err);
        status = spool->earlier ? recover_shared(spool, spool->earlier, err) : RS_IO;
    }
    if (status == RS_OK) {
        spool->summary = spool_folder_new(spool, "summary", err);
        status = spool->summary ? recover_shared(spool, spool->summary, err) : RS_IO;
    }
    char *raw = rs_file_join(spool->dir, "raw");
    if (status == RS_OK && !raw)
        status = rs_err_set(err, RS_NOMEM, "no memory to open a spool");
    numbers = NULL;
    count = 0;
    if (status == RS_OK)
        status = list_numbers(raw, "", &numbers, &count, err);
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = recover_raw(spool, numbers[i], err);
    rs_mem_free(numbers);
    rs_mem_free(raw);
    if (status == RS_OK)
        spool_retire_entries(spool);
    return status;
}
