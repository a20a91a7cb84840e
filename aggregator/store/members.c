/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments of members: MEMBERS.md says byte for byte what is in one. The virtual table over them is in
 * members_vtab.c.
 *
 * A member costs some 9 bytes here against 55 as a row of SQL, and a tenth of the time to write. The index of a
 * segment is the heads of its blocks, read once; a block is decoded when a row of it is asked for, and
 * stays decoded until another is.
 */
#include "aggregator/store/members_priv.h"
#include "common/base/const.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CODEC_NONE, CODEC_ZSTD, HEAD_BYTES = 28, RAW_MAX = RS_BLOCK_BYTES_MAX };
static const char magic[4] = {'R', 'S', 'M', '1'};

void segment_file_name(char name[SEGMENT_NAME_MAX], int64_t step, int64_t generation)
{
    (void)snprintf(name, SEGMENT_NAME_MAX, "%" PRId64 ".%" PRId64 ".seg", step, generation);
}

/* --- writing -------------------------------------------------------------------------------------------- */

void segment_begin(struct segment_writer *segment, int64_t capture, int64_t step,
                   int64_t generation, bool is_packed)
{
    *segment = (struct segment_writer){.is_packed = is_packed};
    rs_buf_bytes(&segment->bytes, magic, sizeof magic);
    rs_buf_u64(&segment->bytes, (uint64_t)capture);
    rs_buf_u64(&segment->bytes, (uint64_t)step);
    rs_buf_u64(&segment->bytes, (uint64_t)generation);
    rs_block_begin(&segment->block, &rs_table_op_member);
}

/* The bytes as they are, or packed where that is wanted; appended to `out`. */
static enum rs_status pack(const struct rs_buf *raw, bool is_packed, struct rs_buf *out)
{
    if (!is_packed) {
        rs_buf_bytes(out, raw->data, raw->length);
        return out->failed ? RS_NOMEM : RS_OK;
    }
    const size_t bound = ZSTD_compressBound(raw->length);
    uint8_t *to = rs_buf_reserve(out, bound);
    if (!to)
        return RS_NOMEM;
    const size_t length = ZSTD_compress(to, bound, raw->data, raw->length, 1);
    if (ZSTD_isError(length))
        return RS_NOMEM;
    rs_buf_commit(out, length);
    return RS_OK;
}

static enum rs_status flush_block(struct segment_writer *segment, struct rs_err *err)
{
    struct rs_buf raw = {0}, stored = {0};
    enum rs_status status = rs_block_end(&segment->block);
    const size_t count = segment->block.count;
    if (status == RS_OK && count) {
        const struct rs_row_op_member *first = rs_block_row(&segment->block, 0);
        const struct rs_row_op_member *last = rs_block_row(&segment->block, count - 1);
        rs_block_put(&rs_table_op_member, segment->block.rows, count, &raw);
        status = raw.failed ? RS_NOMEM : pack(&raw, segment->is_packed, &stored);
        rs_buf_u32(&segment->bytes, (uint32_t)count);
        rs_buf_u8(&segment->bytes, segment->is_packed ? CODEC_ZSTD : CODEC_NONE);
        rs_buf_u32(&segment->bytes, (uint32_t)stored.length);
        rs_buf_u32(&segment->bytes, (uint32_t)raw.length);
        rs_buf_u64(&segment->bytes, (uint64_t)first->group_id);
        rs_buf_u64(&segment->bytes, (uint64_t)first->op_no);
        rs_buf_u64(&segment->bytes, (uint64_t)last->group_id);
        rs_buf_u64(&segment->bytes, (uint64_t)last->op_no);
        rs_buf_u64(&segment->bytes, status == RS_OK ? XXH3_64bits(stored.data, stored.length) : 0);
        rs_buf_bytes(&segment->bytes, stored.data, stored.length);
    }
    if (segment->bytes.failed)
        status = RS_NOMEM;
    if (status == RS_OK && raw.length > RAW_MAX)
        status = RS_LIMIT;
    rs_buf_fini(&raw);
    rs_buf_fini(&stored);
    rs_block_begin(&segment->block, &rs_table_op_member);
    return status == RS_OK ? RS_OK
                           : rs_err_set(err, status, "cannot pack members of operations: %s",
                                        rs_status_text(status));
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_keys(const struct rs_row_op_member *a, const struct rs_row_op_member *b)
{
    if (a->group_id != b->group_id)
        return compare(a->group_id, b->group_id);
    if (a->op_no != b->op_no)
        return compare(a->op_no, b->op_no);
    if (a->rank != b->rank)
        return compare(a->rank, b->rank);
    return compare(a->member_no, b->member_no);
}

enum rs_status segment_put(struct segment_writer *segment, const struct rs_row_op_member *rows,
                           size_t count, struct rs_err *err)
{
    const struct rs_table *table = &rs_table_op_member;
    for (size_t i = 0; i < count; i++) {
        if (segment->rows && compare_keys(&segment->last, &rows[i]) >= 0)
            return rs_err_set(err, RS_INVALID, "members of operations are not in order");
        struct rs_row_op_member *row = rs_block_add(&segment->block);
        if (!row)
            return rs_err_set(err, RS_NOMEM, "no memory for members of operations");
        *row = rows[i];
        for (size_t c = 0; c < table->column_count; c++) {
            const struct rs_column *column = &table->columns[c];
            if (column->kind != RS_TEXT && column->kind != RS_DECIMAL)
                continue;
            const char *text = rs_column_text(column, &rows[i]);
            if (text)
                rs_block_set_text(&segment->block, column, row, text, strlen(text));
        }
        segment->last = rows[i];
        segment->rows++;
        if (segment->block.count == RS_BLOCK_ROWS_MAX) {
            const enum rs_status status = flush_block(segment, err);
            if (status != RS_OK)
                return status;
        }
    }
    return RS_OK;
}

enum rs_status segment_end(struct segment_writer *segment, struct rs_err *err)
{
    const enum rs_status status = flush_block(segment, err);
    rs_buf_u32(&segment->bytes, 0);
    rs_buf_u64(&segment->bytes, (uint64_t)segment->rows);
    if (status == RS_OK && segment->bytes.failed)
        return rs_err_set(err, RS_NOMEM, "no memory for members of operations");
    return status;
}

void segment_writer_fini(struct segment_writer *segment)
{
    rs_buf_fini(&segment->bytes);
    rs_block_fini(&segment->block);
    *segment = (struct segment_writer){0};
}

/* --- reading -------------------------------------------------------------------------------------------- */

static void segment_fini(struct segment *segment)
{
    if (segment->is_mapped && segment->bytes.length)
        (void)munmap(rs_const_away(segment->bytes.data), segment->bytes.length);
    rs_buf_fini(&segment->owned);
    rs_mem_free(segment->blocks);
    *segment = (struct segment){0};
}

static enum rs_status refuse(const struct segment *segment, const char *what, struct rs_err *err)
{
    return rs_err_set(err, RS_FORMAT,
                      "members of step %" PRId64 " (generation %" PRId64
                      "): %s; make the rows again",
                      segment->step, segment->generation, what);
}

static enum rs_status index_block(struct segment *segment, uint32_t rows, struct rs_view *view,
                                  struct rs_err *err)
{
    struct segment_block block = {.rows = rows, .codec = rs_view_u8(view)};
    const uint32_t stored = rs_view_u32(view);
    block.raw = rs_view_u32(view);
    block.first_group = (int64_t)rs_view_u64(view);
    block.first_op = (int64_t)rs_view_u64(view);
    block.last_group = (int64_t)rs_view_u64(view);
    block.last_op = (int64_t)rs_view_u64(view);
    block.sum = rs_view_u64(view);
    block.stored = rs_view_take(view, stored);
    if (view->failed || rows > RS_BLOCK_ROWS_MAX || block.raw > RAW_MAX || block.codec > CODEC_ZSTD)
        return refuse(segment, "a block is cut or too large", err);
    if (rs_mem_grow((void **)&segment->blocks, &segment->block_capacity, segment->block_count + 1,
                    sizeof *segment->blocks) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for members of operations");
    segment->blocks[segment->block_count++] = block;
    return RS_OK;
}

/* Reads the heads; the blocks themselves are checked when they are decoded. */
static enum rs_status index_segment(struct segment *segment, int64_t expected, struct rs_err *err)
{
    struct rs_view view = segment->bytes;
    const struct rs_view head = rs_view_take(&view, sizeof magic);
    if (head.failed || memcmp(head.data, magic, sizeof magic) != 0)
        return refuse(segment, "no segment begins there", err);
    if ((int64_t)rs_view_u64(&view) != segment->capture ||
        (int64_t)rs_view_u64(&view) != segment->step ||
        (int64_t)rs_view_u64(&view) != segment->generation)
        return refuse(segment, "it is another one", err);
    uint64_t rows = 0;
    enum rs_status status = RS_OK;
    uint32_t count;
    while (status == RS_OK && (count = rs_view_u32(&view)) != 0) {
        status = index_block(segment, count, &view, err);
        rows += count;
    }
    if (status == RS_OK &&
        (rs_view_u64(&view) != rows || view.failed || view.length || rows != (uint64_t)expected))
        status = refuse(segment, "it does not hold as many rows as it says", err);
    return status;
}

static enum rs_status unpack(const struct segment *segment, const struct segment_block *block,
                             struct rs_buf *raw, struct rs_err *err)
{
    if (XXH3_64bits(block->stored.data, block->stored.length) != block->sum)
        return refuse(segment, "a block's sum differs", err);
    uint8_t *to = rs_buf_reserve(raw, (size_t)block->raw + 1);
    if (!to)
        return rs_err_set(err, RS_NOMEM, "no memory for members of operations");
    size_t length = block->stored.length;
    if (block->codec == CODEC_ZSTD)
        length = ZSTD_decompress(to, block->raw, block->stored.data, block->stored.length);
    else if (length == block->raw)
        memcpy(to, block->stored.data, length);
    if (ZSTD_isError(length) || length != block->raw)
        return refuse(segment, "a block is not as long as it says", err);
    rs_buf_commit(raw, length);
    return RS_OK;
}

enum rs_status members_decode(struct members *members, size_t segment_index, size_t block_index)
{
    if (members->decoded_segment == segment_index && members->decoded_block == block_index)
        return RS_OK;
    const struct segment *segment = &members->segments[segment_index];
    const struct segment_block *block = &segment->blocks[block_index];
    struct rs_buf raw = {0};
    members->decoded_segment = SIZE_MAX;
    enum rs_status status = RS_OK;
    struct rs_view bytes = block->stored;
    if (block->codec != CODEC_NONE || segment->is_mapped) {
        status = unpack(segment, block, &raw, &members->err);
        bytes = rs_view_of(raw.data, raw.length);
    }
    if (status == RS_OK)
        status = rs_block_take(&rs_table_op_member, bytes, &members->decoded, &members->err);
    if (status == RS_OK && members->decoded.count != block->rows)
        status = refuse(segment, "a block holds another number of rows", &members->err);
    rs_buf_fini(&raw);
    if (status == RS_OK) {
        members->decoded_segment = segment_index;
        members->decoded_block = block_index;
    }
    return status;
}

/* Segments stand by step; where this one stands, or belongs. */
size_t members_find(const struct members *members, int64_t step, bool *found_p)
{
    size_t low = 0, high = members->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (members->segments[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    *found_p = low < members->count && members->segments[low].step == step;
    return low;
}

static void forget_decoded(struct members *members)
{
    members->decoded_segment = SIZE_MAX;
}

/* Takes the segment, in place of the one of its step. */
static enum rs_status insert(struct members *members, struct segment *segment, struct rs_err *err)
{
    bool is_there;
    const size_t at = members_find(members, segment->step, &is_there);
    forget_decoded(members);
    if (is_there) {
        segment_fini(&members->segments[at]);
        members->segments[at] = *segment;
        return RS_OK;
    }
    if (rs_mem_grow((void **)&members->segments, &members->capacity, members->count + 1,
                    sizeof *members->segments) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for members of operations");
    memmove(members->segments + at + 1, members->segments + at,
            (members->count - at) * sizeof *members->segments);
    members->segments[at] = *segment;
    members->count++;
    return RS_OK;
}

enum rs_status members_add(struct members *members, struct segment_writer *writer, int64_t capture,
                           int64_t step, int64_t generation, struct rs_err *err)
{
    struct segment segment = {.capture = capture,
                              .step = step,
                              .generation = generation,
                              .is_current = true,
                              .owned = writer->bytes};
    writer->bytes = (struct rs_buf){0};
    segment.bytes = rs_view_of(segment.owned.data, segment.owned.length);
    enum rs_status status = index_segment(&segment, writer->rows, err);
    if (status == RS_OK)
        status = insert(members, &segment, err);
    if (status != RS_OK)
        segment_fini(&segment);
    return status;
}

void members_remove(struct members *members, int64_t step)
{
    bool is_there;
    const size_t at = members_find(members, step, &is_there);
    if (!is_there)
        return;
    forget_decoded(members);
    segment_fini(&members->segments[at]);
    members->count--;
    memmove(members->segments + at, members->segments + at + 1,
            (members->count - at) * sizeof *members->segments);
}

static enum rs_status map_file(const char *path, struct segment *segment, struct rs_err *err)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return rs_err_errno(err, "cannot read %s", path);
    enum rs_status status = RS_OK;
    void *bytes = MAP_FAILED;
    if (fstat(fd, &info) != 0)
        status = rs_err_errno(err, "cannot read %s", path);
    else if (!S_ISREG(info.st_mode) || info.st_size < HEAD_BYTES)
        status = rs_err_set(err, RS_FORMAT, "%s is cut; make the rows again", path);
    else if ((bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) ==
             MAP_FAILED)
        status = rs_err_errno(err, "cannot map %s", path);
    (void)close(fd);
    if (status != RS_OK)
        return status;
    segment->is_mapped = true;
    segment->bytes = rs_view_of(bytes, (size_t)info.st_size);
    return RS_OK;
}

enum rs_status members_map(struct members *members, int64_t capture, int64_t step,
                           int64_t generation, int64_t rows, struct rs_err *err)
{
    bool is_there;
    char name[SEGMENT_NAME_MAX];
    const size_t at = members_find(members, step, &is_there);
    if (is_there && members->segments[at].generation == generation) {
        members->segments[at].is_current = true;
        return RS_OK;
    }
    struct segment segment = {
        .capture = capture, .step = step, .generation = generation, .is_current = true};
    segment_file_name(name, step, generation);
    char *path = rs_file_join(members->dir, name);
    enum rs_status status = path ? map_file(path, &segment, err)
                                 : rs_err_set(err, RS_NOMEM, "no memory to read %s", name);
    rs_mem_free(path);
    if (status == RS_OK)
        status = index_segment(&segment, rows, err);
    if (status == RS_OK)
        status = insert(members, &segment, err);
    if (status != RS_OK)
        segment_fini(&segment);
    return status;
}

void members_round_begin(struct members *members)
{
    for (size_t i = 0; i < members->count; i++)
        members->segments[i].is_current = false;
}

void members_round_end(struct members *members)
{
    size_t kept = 0;
    for (size_t i = 0; i < members->count; i++) {
        if (members->segments[i].is_current) {
            members->segments[kept++] = members->segments[i];
            continue;
        }
        segment_fini(&members->segments[i]);
        forget_decoded(members);
    }
    if (kept != members->count)
        forget_decoded(members);
    members->count = kept;
}

void members_fini(struct members *members)
{
    for (size_t i = 0; i < members->count; i++)
        segment_fini(&members->segments[i]);
    rs_mem_free(members->segments);
    rs_block_fini(&members->decoded);
    rs_mem_free(members->dir);
    *members = (struct members){0};
}
