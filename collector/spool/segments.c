/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of segments: record logs that are written at the end and read through a map.
 *
 * Each segment begins with every entry of its folder that is still of use, so that older ones can go without a stream's
 * numbers.
 */
#include "collector/spool/spool_priv.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "spool"
#include "common/base/file.h"
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
    rs_buf_u64(buf, entry->acked_seq);
    rs_buf_u64(buf, entry->end_seq);
    rs_buf_u64(buf, entry->put_count);
    put_text(buf, sequence->run);
    put_text(buf, sequence->incarnation);
    put_text(buf, entry->capture);
    put_text(buf, entry->capture_key);
    put_text(buf, entry->host);
    put_text(buf, entry->origin);
    rs_buf_u32(buf, sequence->lane);
    rs_buf_u64(buf, entry->first_seq);
    rs_buf_u64(buf, (uint64_t)entry->made_ns);
    rs_buf_u64(buf, (uint64_t)entry->user);
}

enum rs_status spool_append_entry(struct rs_reclog *log, const struct entry *entry,
                                  struct rs_err *err)
{
    struct rs_buf buf = {0};
    encode_entry(&buf, entry);
    enum rs_status status = RS_NOMEM;
    if (!buf.failed) {
        const struct rs_reclog_record record = {
            .kind = RECORD_ENTRY,
            .flags = (uint16_t)(ENTRY_EXTENDED | ENTRY_OWNED | (entry->is_ended ? ENTRY_ENDED : 0) |
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

const char *spool_take_text(struct rs_view *view, struct rs_buf *texts)
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

/* ---- folders -------------------------------------------------------------------------------------- */

struct folder *spool_folder_new(struct rs_spool *spool, const char *name, struct rs_err *err)
{
    struct folder *folder = rs_mem_calloc(1, sizeof *folder);
    if (folder)
        folder->dir = *name ? rs_file_join(spool->dir, name) : rs_mem_strdup(spool->dir);
    if (!folder || !folder->dir) {
        rs_mem_free(folder);
        (void)rs_err_set(err, RS_NOMEM, "no memory for a folder of the spool");
        return NULL;
    }
    folder->log.fd = -1;
    if (rs_file_make_dirs(folder->dir, 0750, err) < 0)
        spool_folder_free(&folder);
    return folder;
}

struct folder *spool_raw_folder_new(struct rs_spool *spool, uint32_t entry, struct rs_err *err)
{
    char name[32];
    (void)snprintf(name, sizeof name, "raw/%08u", entry);
    struct folder *folder = spool_folder_new(spool, name, err);
    if (folder)
        folder->is_raw = true;
    return folder;
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

void spool_folder_free(struct folder **folder_p)
{
    struct folder *folder = *folder_p;
    if (!folder)
        return;
    *folder_p = NULL;
    rs_reclog_close(&folder->log);
    for (size_t i = 0; i < folder->segment_count; i++)
        unmap_segment(&folder->segments[i]);
    rs_mem_free(folder->segments);
    rs_mem_free(folder->dir);
    rs_mem_free(folder);
}

void spool_folder_remove(struct rs_spool *spool, struct folder **folder_p)
{
    struct folder *folder = *folder_p;
    if (!folder)
        return;
    for (size_t i = 0; i < folder->segment_count; i++) {
        if (unlink(folder->segments[i].path) < 0)
            rs_log_warn("cannot remove %s: %s", folder->segments[i].path, RS_ERRNO_TEXT());
        spool->stats.disk_bytes -= folder->segments[i].length;
    }
    if (folder->is_raw && rmdir(folder->dir) < 0)
        rs_log_warn("cannot remove %s: %s", folder->dir, RS_ERRNO_TEXT());
    spool_folder_free(folder_p);
    (void)pthread_cond_broadcast(&spool->has_room);
}

/* ---- segments -------------------------------------------------------------------------------------- */

char *spool_segment_path(const struct folder *folder, uint32_t number)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%08u.seg", number);
    return rs_file_join(folder->dir, name);
}

enum rs_status spool_map_segment(struct rs_spool *spool, struct folder *folder, uint32_t number,
                                 char *path, uint64_t length, struct rs_err *err)
{
    if (rs_mem_grow((void **)&folder->segments, &folder->segment_capacity,
                    folder->segment_count + 1, sizeof *folder->segments) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a segment");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rs_err_errno(err, "cannot open %s", path);
    const size_t bytes =
        (size_t)(length + spool->options.segment_bytes + (uint64_t)4 * CHUNK_MAX_BYTES);
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED)
        return rs_err_errno(err, "cannot map %s", path);
    folder->segments[folder->segment_count++] = (struct segment){
        .number = number, .path = path, .map = map, .map_bytes = bytes, .length = length};
    folder->last_segment = number;
    spool->stats.disk_bytes += length;
    return RS_OK;
}

struct segment *spool_find_segment(const struct folder *folder, uint32_t number)
{
    for (size_t i = folder->segment_count; i-- > 0;)
        if (folder->segments[i].number == number)
            return &folder->segments[i];
    return NULL;
}

void spool_free_segments(struct rs_spool *spool, struct folder *folder)
{
    size_t gone = 0;
    while (gone + 1 < folder->segment_count && folder->segments[gone].waiting_count == 0) {
        struct segment *segment = &folder->segments[gone];
        if (unlink(segment->path) < 0)
            rs_log_warn("cannot remove %s: %s", segment->path, RS_ERRNO_TEXT());
        spool->stats.disk_bytes -= segment->length;
        unmap_segment(segment);
        gone++;
    }
    if (!gone)
        return;
    folder->segment_count -= gone;
    memmove(folder->segments, folder->segments + gone,
            folder->segment_count * sizeof *folder->segments);
    (void)pthread_cond_broadcast(&spool->has_room);
}

/* The record that says whose chunks follow. In the folder of one entry it stands twice: without it the whole segment
 * would belong to nobody. */
static enum rs_status append_entries(const struct rs_spool *spool, const struct folder *folder,
                                     struct rs_reclog *log, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < spool->entry_count && status == RS_OK; i++) {
        const struct entry *entry = spool->entries[i];
        if (entry->folder != folder)
            continue;
        status = spool_append_entry(log, entry, err);
        if (status == RS_OK && folder->is_raw)
            status = spool_append_entry(log, entry, err);
    }
    return status;
}

enum rs_status spool_begin_segment(struct rs_spool *spool, struct folder *folder,
                                   struct rs_err *err)
{
    const uint32_t number = folder->last_segment + 1;
    char *path = spool_segment_path(folder, number);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for a segment");
    struct rs_reclog log;
    enum rs_status status = rs_reclog_create(&log, path, err);
    if (status < 0) {
        rs_mem_free(path);
        return status;
    }
    status = append_entries(spool, folder, &log, err);
    if (status == RS_OK)
        status = spool_map_segment(spool, folder, number, path, log.length, err);
    if (status < 0) {
        (void)unlink(path);
        rs_reclog_close(&log);
        rs_mem_free(path);
        return status;
    }
    rs_reclog_close(&folder->log);
    folder->log = log;
    spool_free_segments(spool, folder);
    return RS_OK;
}
