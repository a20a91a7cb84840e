/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packed records, their writer and cursors, and the blob.
 *
 *     record of an op:    num[8] | u8 bands | per band: u32 name | num[4] | u16 packages |
 *                         per package: u32 size text | num count | num duration
 *     record of a link:   num[3]
 *     body of the blob:   varint counts, strings, ops, links, then all records
 *
 * Everything that decodes is walked once from end to end before anyone may use a cursor on it.
 */
#include "ascend/format/comm.h"

#include "common/base/digest.h"
#include "common/base/mem.h"

#include <string.h>

enum {
    BLOB_VERSION = 1,
    BLOB_HEAD_BYTES = 20,
    BANDS_MAX = UINT8_MAX,
    PACKAGES_MAX = UINT16_MAX,
    NAMES_LIMIT_BYTES = 256 << 20,
};

enum rs_status rs_ascend_comm_init(struct rs_ascend_comm *comm)
{
    *comm = (struct rs_ascend_comm){0};
    return rs_strtab_init(&comm->names, NAMES_LIMIT_BYTES);
}

void rs_ascend_comm_fini(struct rs_ascend_comm *comm)
{
    rs_strtab_fini(&comm->names);
    rs_mem_free(comm->ops);
    rs_mem_free(comm->links);
    rs_buf_fini(&comm->bytes);
    rs_buf_fini(&comm->flaws);
    rs_ascend_bands_free(&comm->bands);
    *comm = (struct rs_ascend_comm){0};
}

void rs_ascend_comm_reset(struct rs_ascend_comm *comm)
{
    rs_strtab_reset(&comm->names);
    rs_buf_reset(&comm->bytes);
    rs_buf_reset(&comm->flaws);
    comm->op_count = comm->link_count = 0;
    comm->parts = 0;
}

void rs_ascend_comm_borrow(struct rs_ascend_comm *comm, struct rs_ascend_comm_memory *memory)
{
    comm->ops = memory->ops;
    comm->op_capacity = memory->op_capacity;
    comm->links = memory->links;
    comm->link_capacity = memory->link_capacity;
    comm->bytes = memory->bytes;
    comm->bands = memory->bands;
    *memory = (struct rs_ascend_comm_memory){0};
}

/* The array moves into memory of its size, the large one is left in `spare`; without memory it stays. */
static void settle(void **array, size_t *capacity, size_t count, size_t bytes, void **spare,
                   size_t *spare_capacity)
{
    void *exact = count ? rs_mem_realloc(NULL, count, bytes) : NULL;
    if (count && !exact)
        return;
    if (count)
        memcpy(exact, *array, count * bytes);
    *spare = *array;
    *spare_capacity = *capacity;
    *array = exact;
    *capacity = count;
}

void rs_ascend_comm_settle(struct rs_ascend_comm *comm, struct rs_ascend_comm_memory *memory)
{
    settle((void **)&comm->ops, &comm->op_capacity, comm->op_count, sizeof *comm->ops,
           (void **)&memory->ops, &memory->op_capacity);
    settle((void **)&comm->links, &comm->link_capacity, comm->link_count, sizeof *comm->links,
           (void **)&memory->links, &memory->link_capacity);
    settle((void **)&comm->bytes.data, &comm->bytes.capacity, comm->bytes.length, 1,
           (void **)&memory->bytes.data, &memory->bytes.capacity);
    memory->bands = comm->bands;
    comm->bands = NULL;
}

void rs_ascend_comm_memory_fini(struct rs_ascend_comm_memory *memory)
{
    rs_mem_free(memory->ops);
    rs_mem_free(memory->links);
    rs_buf_fini(&memory->bytes);
    rs_ascend_bands_free(&memory->bands);
    *memory = (struct rs_ascend_comm_memory){0};
}

/* ---- writing records --------------------------------------------------------------------- */

static void put_nums(struct rs_buf *buf, const struct rs_ascend_num *nums, size_t count)
{
    uint8_t *at = rs_buf_reserve(buf, count * RS_ASCEND_NUM_PACKED_BYTES);
    size_t used = 0;
    if (!at)
        return;
    for (size_t i = 0; i < count; i++)
        used += rs_ascend_num_pack(&nums[i], at + used);
    rs_buf_commit(buf, used);
}

static void put_str(struct rs_buf *buf, rs_str id)
{
    rs_buf_u32(buf, id);
}

void rs_ascend_comm_op_begin(struct rs_ascend_comm_writer *writer, struct rs_ascend_comm *comm,
                             const struct rs_ascend_num times[RS_ASCEND_COMM_TIMES])
{
    *writer = (struct rs_ascend_comm_writer){.comm = comm, .op.at = comm->bytes.length};
    put_nums(&comm->bytes, times, RS_ASCEND_COMM_TIMES);
    writer->band_count_at = comm->bytes.length;
    rs_buf_u8(&comm->bytes, 0);
}

/* Counts are written when they are known. */
static void close_band(struct rs_ascend_comm_writer *writer)
{
    struct rs_buf *buf = &writer->comm->bytes;
    if (!writer->bands || buf->failed)
        return;
    buf->data[writer->package_count_at] = (uint8_t)writer->packages;
    buf->data[writer->package_count_at + 1] = (uint8_t)(writer->packages >> 8);
}

void rs_ascend_comm_band_begin(struct rs_ascend_comm_writer *writer, rs_str transport,
                               const struct rs_ascend_num fields[RS_ASCEND_COMM_BAND_FIELDS])
{
    struct rs_buf *buf = &writer->comm->bytes;
    close_band(writer);
    writer->bands++;
    writer->packages = 0;
    put_str(buf, transport);
    put_nums(buf, fields, RS_ASCEND_COMM_BAND_FIELDS);
    writer->package_count_at = buf->length;
    rs_buf_u16(buf, 0);
}

void rs_ascend_comm_add_package(struct rs_ascend_comm_writer *writer, rs_str size,
                                const struct rs_ascend_num *count,
                                const struct rs_ascend_num *duration)
{
    const struct rs_ascend_num nums[2] = {*count, *duration};
    put_str(&writer->comm->bytes, size);
    put_nums(&writer->comm->bytes, nums, 2);
    writer->packages++;
    if (writer->packages > PACKAGES_MAX)
        writer->bands = BANDS_MAX + 1; /* over a limit: op_end says so */
}

enum rs_status rs_ascend_comm_op_end(struct rs_ascend_comm_writer *writer)
{
    struct rs_ascend_comm *comm = writer->comm;
    if (writer->bands > BANDS_MAX)
        return RS_LIMIT;
    close_band(writer);
    if (comm->bytes.failed || rs_mem_grow((void **)&comm->ops, &comm->op_capacity,
                                          comm->op_count + 1, sizeof *comm->ops) != RS_OK)
        return RS_NOMEM;
    comm->bytes.data[writer->band_count_at] = (uint8_t)writer->bands;
    writer->op.bands = (uint16_t)(writer->band_count_at - writer->op.at);
    comm->ops[comm->op_count++] = writer->op;
    return RS_OK;
}

enum rs_status rs_ascend_comm_add_link(struct rs_ascend_comm *comm,
                                       const struct rs_ascend_comm_link *link,
                                       const struct rs_ascend_num fields[3])
{
    const size_t at = comm->bytes.length;
    if (rs_mem_grow((void **)&comm->links, &comm->link_capacity, comm->link_count + 1,
                    sizeof *comm->links) != RS_OK)
        return RS_NOMEM;
    put_nums(&comm->bytes, fields, 3);
    if (comm->bytes.failed)
        return RS_NOMEM;
    comm->links[comm->link_count] = *link;
    comm->links[comm->link_count++].at = at;
    return RS_OK;
}

/* ---- reading records --------------------------------------------------------------------- */

static bool take_num(struct rs_ascend_comm_cursor *cursor, struct rs_ascend_num *num_p)
{
    const size_t used = rs_ascend_num_unpack(cursor->at, (size_t)(cursor->end - cursor->at), num_p);
    cursor->at += used;
    return used > 0;
}

static bool take_nums(struct rs_ascend_comm_cursor *cursor, struct rs_ascend_num *nums,
                      size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!take_num(cursor, &nums[i]))
            return false;
    return true;
}

static bool take_le(struct rs_ascend_comm_cursor *cursor, size_t bytes, uint32_t *value_p)
{
    if ((size_t)(cursor->end - cursor->at) < bytes)
        return false;
    uint32_t value = 0;
    for (size_t i = bytes; i-- > 0;)
        value = value << 8 | cursor->at[i];
    cursor->at += bytes;
    *value_p = value;
    return true;
}

static bool open_record(const struct rs_ascend_comm *comm, size_t at,
                        struct rs_ascend_comm_cursor *cursor)
{
    if (at > comm->bytes.length)
        return false;
    *cursor = (struct rs_ascend_comm_cursor){.at = comm->bytes.data + at,
                                             .end = comm->bytes.data + comm->bytes.length};
    return true;
}

static bool open_op(const struct rs_ascend_comm *comm, size_t at,
                    struct rs_ascend_comm_cursor *cursor, struct rs_ascend_num *times)
{
    uint32_t bands = 0;
    if (!open_record(comm, at, cursor) || !take_nums(cursor, times, RS_ASCEND_COMM_TIMES) ||
        !take_le(cursor, 1, &bands))
        return false;
    cursor->bands = bands;
    return true;
}

void rs_ascend_comm_op_open(const struct rs_ascend_comm *comm, const struct rs_ascend_comm_op *op,
                            struct rs_ascend_comm_cursor *cursor_p,
                            struct rs_ascend_num times_p[RS_ASCEND_COMM_TIMES])
{
    if (!open_op(comm, op->at, cursor_p, times_p))
        cursor_p->bands = 0;
}

void rs_ascend_comm_bands_open(const struct rs_ascend_comm *comm,
                               const struct rs_ascend_comm_op *op,
                               struct rs_ascend_comm_cursor *cursor_p)
{
    uint32_t bands = 0;
    if (!open_record(comm, op->at + op->bands, cursor_p) || !take_le(cursor_p, 1, &bands))
        bands = 0;
    cursor_p->bands = bands;
}

bool rs_ascend_comm_band(struct rs_ascend_comm_cursor *cursor, rs_str *transport_p,
                         struct rs_ascend_num fields_p[RS_ASCEND_COMM_BAND_FIELDS])
{
    uint32_t packages = 0;
    if (cursor->bands == 0 || !take_le(cursor, 4, transport_p) ||
        !take_nums(cursor, fields_p, RS_ASCEND_COMM_BAND_FIELDS) || !take_le(cursor, 2, &packages))
        return false;
    cursor->bands--;
    cursor->packages = packages;
    return true;
}

bool rs_ascend_comm_package(struct rs_ascend_comm_cursor *cursor, rs_str *size_p,
                            struct rs_ascend_num *count_p, struct rs_ascend_num *duration_p)
{
    if (cursor->packages == 0 || !take_le(cursor, 4, size_p) || !take_num(cursor, count_p) ||
        !take_num(cursor, duration_p))
        return false;
    cursor->packages--;
    return true;
}

static bool open_link(const struct rs_ascend_comm *comm, size_t at, struct rs_ascend_num *fields)
{
    struct rs_ascend_comm_cursor cursor;
    return open_record(comm, at, &cursor) && take_nums(&cursor, fields, 3);
}

void rs_ascend_comm_link_open(const struct rs_ascend_comm *comm,
                              const struct rs_ascend_comm_link *link,
                              struct rs_ascend_num fields_p[3])
{
    memset(fields_p, 0, 3 * sizeof *fields_p);
    (void)open_link(comm, link->at, fields_p);
}

/* ---- the blob ---------------------------------------------------------------------------- */

static void encode_body(const struct rs_ascend_comm *comm, struct rs_buf *buf)
{
    rs_buf_varint(buf, comm->parts);
    rs_buf_varint(buf, comm->names.count);
    rs_buf_varint(buf, comm->op_count);
    rs_buf_varint(buf, comm->link_count);
    rs_buf_varint(buf, comm->bytes.length);
    for (size_t i = 1; i < comm->names.count; i++) {
        const size_t length = rs_strtab_length(&comm->names, (rs_str)i);
        rs_buf_varint(buf, length);
        rs_buf_bytes(buf, rs_strtab_text(&comm->names, (rs_str)i), length);
    }
    for (size_t i = 0; i < comm->op_count; i++) {
        const struct rs_ascend_comm_op *op = &comm->ops[i];
        rs_buf_varint(buf, op->name);
        rs_buf_varint(buf, op->group);
        rs_buf_varint(buf, op->step);
        rs_buf_u8(buf, op->is_p2p);
        rs_buf_varint(buf, op->at);
    }
    for (size_t i = 0; i < comm->link_count; i++) {
        const struct rs_ascend_comm_link *link = &comm->links[i];
        rs_buf_varint(buf, link->kind);
        rs_buf_varint(buf, link->group);
        rs_buf_varint(buf, link->step);
        rs_buf_varint(buf, link->transport);
        rs_buf_varint(buf, link->op_name);
        rs_buf_zigzag(buf, link->src);
        rs_buf_zigzag(buf, link->dst);
        rs_buf_u8(buf, link->is_p2p);
        rs_buf_varint(buf, link->at);
    }
    rs_buf_bytes(buf, comm->bytes.data, comm->bytes.length);
}

enum rs_status rs_ascend_comm_encode(const struct rs_ascend_comm *comm, struct rs_buf *buf,
                                     struct rs_err *err)
{
    struct rs_buf body = {0};
    encode_body(comm, &body);
    if (!body.failed) {
        rs_buf_string(buf, "RSVC");
        rs_buf_u32(buf, BLOB_VERSION);
        rs_buf_u64(buf, body.length);
        rs_buf_u32(buf, rs_crc32c(0, body.data, body.length));
        rs_buf_bytes(buf, body.data, body.length);
    }
    const bool is_failed = body.failed || buf->failed;
    rs_buf_fini(&body);
    return is_failed ? rs_err_set(err, RS_NOMEM, "no memory to encode communication") : RS_OK;
}

static enum rs_status bad_blob(struct rs_err *err, const char *what)
{
    return rs_err_set(err, RS_FORMAT, "communication of a rank: %s", what);
}

static enum rs_status decode_names(struct rs_view *view, uint64_t count,
                                   struct rs_ascend_comm *comm, struct rs_err *err)
{
    for (uint64_t i = 1; i < count; i++) {
        const uint64_t length = rs_view_varint(view);
        if (view->failed || length > view->length)
            return bad_blob(err, "names cut off");
        const struct rs_view text = rs_view_take(view, (size_t)length);
        rs_str id = 0;
        const enum rs_status status =
            rs_strtab_add(&comm->names, (const char *)text.data, text.length, &id);
        if (status != RS_OK)
            return rs_err_set(err, status, "communication of a rank: %s", rs_status_text(status));
        if (id != i)
            return bad_blob(err, "a name twice");
    }
    return RS_OK;
}

static bool is_name(const struct rs_ascend_comm *comm, uint64_t id)
{
    return id < comm->names.count;
}

/* Walks the whole record: every number unpacks, every name is one of the table's. */
static bool op_is_whole(const struct rs_ascend_comm *comm, struct rs_ascend_comm_op *op)
{
    struct rs_ascend_comm_cursor cursor;
    struct rs_ascend_num times[RS_ASCEND_COMM_TIMES], fields[RS_ASCEND_COMM_BAND_FIELDS], a, b;
    rs_str id = 0;
    if (!is_name(comm, op->name) || !is_name(comm, op->group) || !is_name(comm, op->step) ||
        !open_op(comm, op->at, &cursor, times))
        return false;
    op->bands = (uint16_t)(cursor.at - 1 - (comm->bytes.data + op->at));
    while (cursor.bands) {
        if (!rs_ascend_comm_band(&cursor, &id, fields) || !is_name(comm, id))
            return false;
        while (cursor.packages)
            if (!rs_ascend_comm_package(&cursor, &id, &a, &b) || !is_name(comm, id))
                return false;
    }
    return true;
}

static bool link_is_whole(const struct rs_ascend_comm *comm, const struct rs_ascend_comm_link *link)
{
    struct rs_ascend_num fields[3];
    return is_name(comm, link->kind) && is_name(comm, link->group) && is_name(comm, link->step) &&
           is_name(comm, link->transport) &&
           (link->op_name == RS_STR_NONE || is_name(comm, link->op_name)) &&
           open_link(comm, link->at, fields);
}

static rs_str take_id(struct rs_view *view)
{
    const uint64_t id = rs_view_varint(view);
    if (id > UINT32_MAX)
        view->failed = true;
    return (rs_str)id;
}

static void decode_rows(struct rs_view *view, struct rs_ascend_comm *comm)
{
    for (size_t i = 0; i < comm->op_count && !view->failed; i++) {
        struct rs_ascend_comm_op *op = &comm->ops[i];
        op->name = take_id(view);
        op->group = take_id(view);
        op->step = take_id(view);
        op->is_p2p = rs_view_u8(view) != 0;
        op->at = (size_t)rs_view_varint(view);
    }
    for (size_t i = 0; i < comm->link_count && !view->failed; i++) {
        struct rs_ascend_comm_link *link = &comm->links[i];
        link->kind = take_id(view);
        link->group = take_id(view);
        link->step = take_id(view);
        link->transport = take_id(view);
        link->op_name = take_id(view);
        const int64_t src = rs_view_zigzag(view), dst = rs_view_zigzag(view);
        if (src < INT32_MIN || src > INT32_MAX || dst < INT32_MIN || dst > INT32_MAX)
            view->failed = true;
        link->src = (int32_t)src;
        link->dst = (int32_t)dst;
        link->is_p2p = rs_view_u8(view) != 0;
        link->at = (size_t)rs_view_varint(view);
    }
}

static enum rs_status decode_body(struct rs_view *view, struct rs_ascend_comm *comm,
                                  struct rs_err *err)
{
    comm->parts = (unsigned)rs_view_varint(view) & (RS_ASCEND_COMM_OPS | RS_ASCEND_COMM_LINKS);
    const uint64_t names = rs_view_varint(view), ops = rs_view_varint(view);
    const uint64_t links = rs_view_varint(view), bytes = rs_view_varint(view);
    /* a name is at least a byte of the body, an op 5, a link 9: no larger count is honest */
    if (view->failed || names == 0 || names - 1 > view->length || ops > view->length / 5 ||
        links > view->length / 9 || bytes > view->length)
        return bad_blob(err, "counts that the bytes cannot hold");
    const enum rs_status status = decode_names(view, names, comm, err);
    if (status != RS_OK)
        return status;
    comm->ops = ops ? rs_mem_calloc((size_t)ops, sizeof *comm->ops) : NULL;
    comm->links = links ? rs_mem_calloc((size_t)links, sizeof *comm->links) : NULL;
    if ((ops && !comm->ops) || (links && !comm->links))
        return rs_err_set(err, RS_NOMEM, "no memory for the communication of a rank");
    comm->op_count = comm->op_capacity = (size_t)ops;
    comm->link_count = comm->link_capacity = (size_t)links;
    decode_rows(view, comm);
    if (view->failed || view->length != bytes)
        return bad_blob(err, "rows cut off");
    rs_buf_bytes(&comm->bytes, view->data, view->length);
    if (comm->bytes.failed)
        return rs_err_set(err, RS_NOMEM, "no memory for the communication of a rank");
    for (size_t i = 0; i < comm->op_count; i++)
        if (!op_is_whole(comm, &comm->ops[i]))
            return bad_blob(err, "an operation's record is damaged");
    for (size_t i = 0; i < comm->link_count; i++)
        if (!link_is_whole(comm, &comm->links[i]))
            return bad_blob(err, "a link's record is damaged");
    return RS_OK;
}

enum rs_status rs_ascend_comm_decode(const void *bytes, size_t length,
                                     struct rs_ascend_comm *comm_p, struct rs_err *err)
{
    struct rs_view view = rs_view_of(bytes, length);
    if (length < BLOB_HEAD_BYTES || memcmp(bytes, "RSVC", 4) != 0)
        return bad_blob(err, "not such a blob");
    (void)rs_view_take(&view, 4);
    const uint32_t version = rs_view_u32(&view);
    const uint64_t body_length = rs_view_u64(&view);
    const uint32_t crc = rs_view_u32(&view);
    if (version != BLOB_VERSION)
        return rs_err_set(err, RS_VERSION, "communication of a rank: version %u, not %d", version,
                          BLOB_VERSION);
    if (body_length != view.length || crc != rs_crc32c(0, view.data, view.length))
        return bad_blob(err, "length or checksum is wrong");
    struct rs_ascend_comm comm;
    enum rs_status status = rs_ascend_comm_init(&comm);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory for the communication of a rank");
    status = decode_body(&view, &comm, err);
    if (status != RS_OK) {
        rs_ascend_comm_fini(&comm);
        return status;
    }
    *comm_p = comm;
    return RS_OK;
}
