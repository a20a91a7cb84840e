/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the segments of a capture hold: STREAM records (who), then CHUNK records (tag = the
 * stream's number in this capture, seq, flags, the sealed bytes).
 */
#include "aggregator/store/store_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX_BYTES = 4096 };

static void put_text(struct rs_buf *buf, const char *text)
{
    const size_t length = strnlen(text, TEXT_MAX_BYTES);
    rs_buf_varint(buf, length);
    rs_buf_bytes(buf, text, length);
}

void stream_record_encode(struct rs_buf *buf, const struct rs_store_stream *stream,
                          const struct rs_store_source *source)
{
    rs_buf_u32(buf, stream->rank);
    rs_buf_u32(buf, source->world);
    put_text(buf, stream->run);
    put_text(buf, stream->incarnation);
    put_text(buf, source->host);
    put_text(buf, source->origin);
}

static size_t take_text(struct rs_view *view, struct rs_buf *texts)
{
    const uint64_t length = rs_view_varint(view);
    const size_t at = texts->length;
    if (length > TEXT_MAX_BYTES) {
        view->failed = true;
        return at;
    }
    const struct rs_view text = rs_view_take(view, (size_t)length);
    if (!text.failed)
        rs_buf_bytes(texts, text.data, text.length);
    rs_buf_u8(texts, 0);
    return at;
}

enum rs_status stream_record_decode(struct rs_view view, struct stream_record *record_p)
{
    struct stream_record record = {.rank = rs_view_u32(&view)};
    record.world = rs_view_u32(&view);
    size_t places[4];
    for (size_t i = 0; i < 4; i++)
        places[i] = take_text(&view, &record.texts);
    if (view.failed || record.texts.failed) {
        const enum rs_status status = view.failed ? RS_FORMAT : RS_NOMEM;
        rs_buf_fini(&record.texts);
        return status;
    }
    const char *texts = (const char *)record.texts.data;
    record.run = texts + places[0];
    record.incarnation = texts + places[1];
    record.host = texts + places[2];
    record.origin = texts + places[3];
    *record_p = record;
    return RS_OK;
}

void stream_record_fini(struct stream_record *record)
{
    rs_buf_fini(&record->texts);
}

const char *lane_folder(enum rs_stream_lane lane)
{
    return lane == RS_STREAM_SUMMARY ? "summaries" : "segments";
}

char *segment_path(const char *dir, enum rs_stream_lane lane, uint32_t number)
{
    char name[40];
    (void)snprintf(name, sizeof name, "%s/%08u.seg", lane_folder(lane), number);
    return rs_file_join(dir, name);
}

static int by_number(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static bool has_lane(const char *dir, enum rs_stream_lane lane)
{
    char *path = rs_file_join(dir, lane_folder(lane));
    DIR *folder = path ? opendir(path) : NULL;
    if (folder)
        (void)closedir(folder);
    rs_mem_free(path);
    return folder != NULL;
}

enum rs_status list_segments(const char *dir, enum rs_stream_lane lane, uint32_t **numbers_p,
                             size_t *count_p, struct rs_err *err)
{
    char *path = rs_file_join(dir, lane_folder(lane));
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory to list %s", dir);
    DIR *folder = opendir(path);
    if (!folder) {
        const bool missing = errno == ENOENT || errno == ENOTDIR;
        /* An earlier program made no summary lane; who carried a capture elsewhere may have left an empty folder behind. */
        if (missing && (lane == RS_STREAM_SUMMARY || has_lane(dir, RS_STREAM_SUMMARY))) {
            rs_mem_free(path);
            *numbers_p = NULL;
            *count_p = 0;
            return RS_OK;
        }
        enum rs_status status = rs_err_errno(err, "cannot read %s", path);
        if (missing)
            status = rs_err_set(err, RS_NOTFOUND, "%s is no capture directory", dir);
        rs_mem_free(path);
        return status;
    }
    rs_mem_free(path);
    uint32_t *numbers = NULL;
    size_t count = 0;
    size_t capacity = 0;
    enum rs_status status = RS_OK;
    for (const struct dirent *item = rs_dir_next(folder); item && status == RS_OK;
         item = rs_dir_next(folder)) {
        char *end = NULL;
        const unsigned long number = strtoul(item->d_name, &end, 10);
        if (strlen(item->d_name) != SEGMENT_NAME_BYTES || strcmp(end, ".seg") != 0 || number == 0)
            continue;
        status = rs_mem_grow((void **)&numbers, &capacity, count + 1, sizeof *numbers);
        if (status == RS_OK)
            numbers[count++] = (uint32_t)number;
    }
    (void)closedir(folder);
    if (status < 0) {
        rs_mem_free(numbers);
        return rs_err_set(err, status, "no memory to list %s", dir);
    }
    if (count)
        qsort(numbers, count, sizeof *numbers, by_number);
    *numbers_p = numbers;
    *count_p = count;
    return RS_OK;
}
