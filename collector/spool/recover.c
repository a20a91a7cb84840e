/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding again what a collector before this one left: segments in order, entries, chunks.
 *
 * A torn tail is cut by the record log; a record that is whole and makes no sense is an error, because going on would
 * give its numbers to something else.
 */
#include "collector/spool/spool_priv.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "spool"
#include "common/base/log.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

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
    source.run = spool_take_text(&view, &texts);
    source.incarnation = spool_take_text(&view, &texts);
    source.capture = spool_take_text(&view, &texts);
    source.capture_key = spool_take_text(&view, &texts);
    source.host = spool_take_text(&view, &texts);
    source.origin = spool_take_text(&view, &texts);
    enum rs_status status = RS_OK;
    if (view.failed || texts.failed || record->tag == 0 || acked > last || end_seq > last) {
        status = rs_err_set(err, RS_FORMAT, "the spool in %s holds a broken entry", spool->dir);
    } else {
        struct entry *entry = spool_find_entry(spool, record->tag);
        if (!entry && record->tag >= spool->next_entry)
            entry = spool_add_entry(spool, record->tag, &source);
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
    struct entry *entry = spool_find_entry(spool, record->tag);
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
    if (spool_add_item(spool, &item) < 0)
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
    char *path = spool_segment_path(spool, number);
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
    status = spool_map_segment(spool, number, path, log.length, err);
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

enum rs_status spool_recover(struct rs_spool *spool, struct rs_err *err)
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
        if (item->seq <= spool_find_entry(spool, item->entry)->sequence->acked)
            spool_settle_item(spool, item);
    }
    spool->stats.acked_chunks = 0;
    spool_drop_head(spool);
    return count ? RS_OK : spool_begin_segment(spool, err);
}
