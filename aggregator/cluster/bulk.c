/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See SQLite's "Database File Format": b-tree pages, records, overflow chains.
 */
#include "aggregator/cluster/bulk.h"

#include "common/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LEAF = 0x0d,
    INTERIOR = 0x05,
    LEAF_HEAD_BYTES = 8,
    INTERIOR_HEAD_BYTES = 12,
    LOCAL_MAX = BULK_PAGE_BYTES - 35,                   /* of a payload in a leaf */
    LOCAL_MIN = (BULK_PAGE_BYTES - 12) * 32 / 255 - 23, /* when it overflows */
    OVERFLOW_BYTES = BULK_PAGE_BYTES - 4,
    CHILDREN_MAX = 250, /* of an interior page: 249 cells of at most 15 bytes and the last child */
    HEAD_ROOM = 24,     /* before a row's values: more than most heads need */
};

static void put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value & 0xFFFF);
}

/* SQLite's varint: big end first, seven bits a byte, the ninth byte whole. */
static size_t put_varint(uint8_t *at, uint64_t value)
{
    uint8_t bytes[9];
    size_t count = 0;
    if (value < 0x80) { /* nearly always */
        at[0] = (uint8_t)value;
        return 1;
    }
    if (value >> 56) {
        at[8] = (uint8_t)value;
        value >>= 8;
        for (int i = 7; i >= 0; i--, value >>= 7)
            at[i] = (uint8_t)(value | 0x80);
        return 9;
    }
    do {
        bytes[count++] = (uint8_t)(value & 0x7F);
        value >>= 7;
    } while (value);
    for (size_t i = 0; i < count; i++)
        at[i] = (uint8_t)(bytes[count - 1 - i] | (i + 1 < count ? 0x80 : 0));
    return count;
}

static void fail_with(struct bulk *bulk, enum rs_status status)
{
    if (bulk->status == RS_OK)
        bulk->status = rs_err_set(&bulk->err, status, "cannot write %s: %s", bulk->path,
                                  rs_status_text(status));
}

enum rs_status bulk_open(struct bulk *bulk, const char *path)
{
    uint8_t head[100];
    struct stat st;
    *bulk = (struct bulk){.path = path};
    bulk->fd = open(path, O_RDWR | O_CLOEXEC);
    if (bulk->fd < 0 || fstat(bulk->fd, &st) != 0 ||
        pread(bulk->fd, head, sizeof head, 0) != (ssize_t)sizeof head)
        bulk->status = rs_err_errno(&bulk->err, "cannot write %s", path);
    else if (head[16] != BULK_PAGE_BYTES >> 8 || head[17] != 0 || head[20] != 0 ||
             st.st_size % BULK_PAGE_BYTES)
        bulk->status = rs_err_set(&bulk->err, RS_FORMAT, "%s has other pages", path);
    else
        bulk->page_count = (uint32_t)(st.st_size / BULK_PAGE_BYTES);
    return bulk->status;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Where `length` more bytes of the row at hand may be written; NULL: no memory. */
static uint8_t *room_for(struct bulk_rows *rows, size_t length)
{
    struct rs_buf *bytes = &rows->bytes;
    const size_t lead = rows->columns ? 0 : HEAD_ROOM;
    if (!bytes->data || lead + length > bytes->capacity - bytes->length) /* seldom */
        if (!rs_buf_reserve(bytes, lead + length)) {
            rows->status = RS_NOMEM;
            return NULL;
        }
    if (lead) {
        bytes->length += lead;
        rows->body = bytes->length;
    }
    return bytes->data + bytes->length;
}

static void add_type(struct bulk_rows *rows, uint64_t type)
{
    if (rows->columns == BULK_COLUMNS_MAX) {
        rows->status = RS_LIMIT;
        return;
    }
    if (type < 0x80) /* nearly always */
        rows->types[rows->types_length++] = (uint8_t)type;
    else
        rows->types_length += put_varint(rows->types + rows->types_length, type);
    rows->columns++;
}

void bulk_null(struct bulk_rows *rows)
{
    if (room_for(rows, 0))
        add_type(rows, 0);
}

/* The low `count` bytes, big end first. */
static void add_number(struct bulk_rows *rows, unsigned type, uint64_t value, unsigned count)
{
    uint8_t *at = room_for(rows, 8);
    if (!at)
        return;
    const uint64_t shifted = __builtin_bswap64(value << (64 - 8 * count));
    memcpy(at, &shifted, sizeof shifted); /* what is beyond `count` is nobody's yet */
    rows->bytes.length += count;
    add_type(rows, type);
}

void bulk_int(struct bulk_rows *rows, int64_t value)
{
    static const struct {
        unsigned bytes, type;
    } sizes[] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {6, 5}, {8, 6}};
    unsigned i = 0;
    if (value == 0 || value == 1) {
        if (room_for(rows, 0))
            add_type(rows, value ? 9 : 8);
        return;
    }
    while (i < 5 && (value < -(INT64_C(1) << (sizes[i].bytes * 8 - 1)) ||
                     value >= INT64_C(1) << (sizes[i].bytes * 8 - 1)))
        i++;
    add_number(rows, sizes[i].type, (uint64_t)value, sizes[i].bytes);
}

void bulk_real(struct bulk_rows *rows, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_number(rows, 7, bits, 8);
}

void bulk_text(struct bulk_rows *rows, const char *text, size_t length)
{
    uint8_t *at = room_for(rows, length);
    if (!at)
        return;
    if (length)
        memcpy(at, text, length);
    rows->bytes.length += length;
    add_type(rows, (uint64_t)length * 2 + 13);
}

void bulk_take_start(struct bulk_rows *rows, struct bulk_start *start)
{
    struct rs_buf *bytes = &rows->bytes;
    rs_buf_reset(&start->body);
    if (rows->columns)
        rs_buf_bytes(&start->body, bytes->data + rows->body, bytes->length - rows->body);
    if (start->body.failed)
        rows->status = RS_NOMEM;
    memcpy(start->types, rows->types, rows->types_length);
    start->types_length = rows->types_length;
    start->columns = rows->columns;
    if (rows->columns)
        bytes->length = rows->body - HEAD_ROOM;
    rows->columns = 0;
    rows->types_length = 0;
}

void bulk_put_start(struct bulk_rows *rows, const struct bulk_start *start)
{
    const size_t length = start->body.length;
    uint8_t *at = rows->columns ? NULL : room_for(rows, length);
    if (!at)
        return;
    if (length)
        memcpy(at, start->body.data, length);
    rows->bytes.length += length;
    memcpy(rows->types, start->types, start->types_length);
    rows->types_length = start->types_length;
    rows->columns = start->columns;
}

/* A head that does not fit into its room: the values move on. */
static bool widen_head(struct bulk_rows *rows, size_t more)
{
    struct rs_buf *bytes = &rows->bytes;
    if (!rs_buf_reserve(bytes, more)) {
        rows->status = RS_NOMEM;
        return false;
    }
    memmove(bytes->data + rows->body + more, bytes->data + rows->body, bytes->length - rows->body);
    bytes->length += more;
    rows->body += more;
    return true;
}

/* The record's head: its own length first, so try one byte, else two. */
void bulk_end_row(struct bulk_rows *rows)
{
    const size_t own = rows->types_length + 1 < 0x80 ? 1 : 2, head = rows->types_length + own;
    if (!room_for(rows, 0) || (head > HEAD_ROOM && !widen_head(rows, head - HEAD_ROOM)) ||
        rs_mem_grow((void **)&rows->records, &rows->capacity, rows->count + 1,
                    sizeof *rows->records) != RS_OK) {
        rows->status = rows->status == RS_OK ? RS_NOMEM : rows->status;
    } else {
        uint8_t *at = rows->bytes.data + rows->body - head;
        memcpy(at + put_varint(at, head), rows->types, rows->types_length);
        rows->records[rows->count++] =
            (struct bulk_record){rows->body - head, rows->bytes.length - rows->body + head};
    }
    rows->columns = 0;
    rows->types_length = 0;
}

void bulk_rows_reset(struct bulk_rows *rows)
{
    rs_buf_reset(&rows->bytes);
    rows->count = 0;
    rows->columns = 0;
    rows->types_length = 0;
    rows->status = RS_OK;
}

void bulk_rows_fini(struct bulk_rows *rows)
{
    rs_buf_fini(&rows->bytes);
    rs_mem_free(rows->records);
    *rows = (struct bulk_rows){0};
}

/* ---- pages ---------------------------------------------------------------------------------- */

/* At the end of the file; returns the first one's number. */
static uint32_t append_pages(struct bulk *bulk, const uint8_t *pages, size_t count)
{
    const off_t from = (off_t)bulk->page_count * BULK_PAGE_BYTES;
    const size_t length = count * BULK_PAGE_BYTES;
    const uint32_t first = bulk->page_count + 1;
    if (count >= UINT32_MAX - 1 - bulk->page_count)
        fail_with(bulk, RS_LIMIT);
    for (size_t done = 0; bulk->status == RS_OK && done < length;) {
        const ssize_t wrote = pwrite(bulk->fd, pages + done, length - done, from + (off_t)done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            bulk->status = rs_err_errno(&bulk->err, "cannot write %s", bulk->path);
        done += wrote < 0 ? 0 : (size_t)wrote;
    }
    if (bulk->status == RS_OK)
        bulk->page_count += (uint32_t)count;
    return first;
}

/* What does not fit into the leaf goes to a chain of pages; returns the first. */
static uint32_t write_overflow(struct bulk *bulk, const uint8_t *rest, size_t length)
{
    uint8_t page[BULK_PAGE_BYTES];
    const uint32_t first = bulk->page_count + 1;
    while (length && bulk->status == RS_OK) {
        const size_t part = length < OVERFLOW_BYTES ? length : OVERFLOW_BYTES;
        memset(page, 0, sizeof page);
        if (length > part)
            put32(page, bulk->page_count + 2); /* the one after this one */
        memcpy(page + 4, rest, part);
        (void)append_pages(bulk, page, 1);
        rest += part;
        length -= part;
    }
    return first;
}

static void add_child(struct bulk_table *table, uint32_t page, int64_t last)
{
    if (rs_mem_grow((void **)&table->children, &table->child_capacity, table->child_count + 1,
                    sizeof *table->children) != RS_OK) {
        fail_with(table->bulk, RS_NOMEM);
        return;
    }
    table->children[table->child_count++] = (struct bulk_child){page, last};
}

static uint8_t *leaf_at(const struct bulk_table *table)
{
    return table->leaves + table->leaf_count * BULK_PAGE_BYTES;
}

static void begin_leaf(struct bulk_table *table)
{
    table->cells = 0;
    table->content = BULK_PAGE_BYTES;
}

static void write_leaves(struct bulk_table *table)
{
    const uint32_t first = append_pages(table->bulk, table->leaves, table->leaf_count);
    for (size_t i = 0; i < table->leaf_count; i++)
        add_child(table, first + (uint32_t)i, table->lasts[i]);
    table->leaf_count = 0;
}

/* Head, and zeros between the pointers and the cells. */
static void finish_leaf(struct bulk_table *table)
{
    uint8_t *page = leaf_at(table);
    const size_t used = LEAF_HEAD_BYTES + 2 * (size_t)table->cells;
    memset(page, 0, LEAF_HEAD_BYTES);
    page[0] = LEAF;
    put16(page + 3, table->cells);
    put16(page + 5, table->content);
    memset(page + used, 0, table->content - used);
}

static void next_leaf(struct bulk_table *table)
{
    finish_leaf(table);
    table->lasts[table->leaf_count++] = table->rowid;
    if (table->leaf_count == BULK_LEAVES)
        write_leaves(table);
    begin_leaf(table);
}

/* Puts the record into the leaf at hand, or a new one. */
static void add_cell(struct bulk_table *table, const uint8_t *record, size_t length)
{
    uint8_t lead[18];
    size_t local = length;
    if (length > LOCAL_MAX) {
        local = LOCAL_MIN + (length - LOCAL_MIN) % OVERFLOW_BYTES;
        local = local > LOCAL_MAX ? LOCAL_MIN : local;
    }
    size_t lead_length = put_varint(lead, length);
    lead_length += put_varint(lead + lead_length, (uint64_t)table->rowid + 1);
    const size_t need = lead_length + local + (local < length ? 4 : 0);
    if (LEAF_HEAD_BYTES + 2 * (table->cells + 1) + need > table->content)
        next_leaf(table);
    table->content -= (unsigned)need;
    uint8_t *page = leaf_at(table), *at = page + table->content;
    memcpy(at, lead, lead_length);
    memcpy(at + lead_length, record, local);
    if (local < length)
        put32(at + lead_length + local,
              write_overflow(table->bulk, record + local, length - local));
    put16(page + LEAF_HEAD_BYTES + 2 * table->cells, table->content);
    table->cells++;
    table->rowid++;
}

void bulk_begin(struct bulk_table *table, struct bulk *bulk, uint32_t root)
{
    *table = (struct bulk_table){.bulk = bulk, .root = root};
    table->leaves = rs_mem_realloc(NULL, BULK_LEAVES, BULK_PAGE_BYTES);
    if (!table->leaves)
        fail_with(bulk, RS_NOMEM);
    begin_leaf(table);
}

void bulk_add(struct bulk_table *table, const struct bulk_rows *rows)
{
    if (rows->status != RS_OK)
        fail_with(table->bulk, rows->status);
    for (size_t i = 0; i < rows->count && table->bulk->status == RS_OK; i++)
        add_cell(table, rows->bytes.data + rows->records[i].at, rows->records[i].length);
}

/* ---- the pages above ------------------------------------------------------------------------- */

static void make_interior(uint8_t *page, const struct bulk_child *children, size_t count)
{
    unsigned content = BULK_PAGE_BYTES;
    memset(page, 0, BULK_PAGE_BYTES);
    page[0] = INTERIOR;
    for (size_t i = 0; i + 1 < count; i++) {
        uint8_t cell[13];
        put32(cell, children[i].page);
        const size_t length = 4 + put_varint(cell + 4, (uint64_t)children[i].last);
        content -= (unsigned)length;
        memcpy(page + content, cell, length);
        put16(page + INTERIOR_HEAD_BYTES + 2 * i, content);
    }
    put16(page + 3, (unsigned)count - 1);
    put16(page + 5, content);
    put32(page + 8, children[count - 1].page);
}

/* One level up: as many pages as needed, of even size, so that none has a single child. */
static void raise_level(struct bulk_table *table)
{
    uint8_t page[BULK_PAGE_BYTES];
    const size_t count = table->child_count, pages = (count + CHILDREN_MAX - 1) / CHILDREN_MAX;
    for (size_t i = 0; i < pages && table->bulk->status == RS_OK; i++) {
        const size_t from = count * i / pages, to = count * (i + 1) / pages;
        const int64_t last = table->children[to - 1].last;
        make_interior(page, table->children + from, to - from);
        table->children[i] = (struct bulk_child){append_pages(table->bulk, page, 1), last};
    }
    table->child_count = pages;
}

static void write_root(struct bulk_table *table, const uint8_t *page)
{
    struct bulk *bulk = table->bulk;
    const off_t at = (off_t)(table->root - 1) * BULK_PAGE_BYTES;
    if (bulk->status == RS_OK && pwrite(bulk->fd, page, BULK_PAGE_BYTES, at) != BULK_PAGE_BYTES)
        bulk->status = rs_err_errno(&bulk->err, "cannot write %s", bulk->path);
}

static void end_table(struct bulk_table *table)
{
    uint8_t page[BULK_PAGE_BYTES];
    if (table->child_count == 0 && table->leaf_count == 0) {
        finish_leaf(table);
        write_root(table, table->leaves);
        return;
    }
    next_leaf(table);
    write_leaves(table);
    while (table->child_count > CHILDREN_MAX && table->bulk->status == RS_OK)
        raise_level(table);
    if (table->bulk->status != RS_OK)
        return;
    make_interior(page, table->children, table->child_count);
    write_root(table, page);
}

void bulk_end(struct bulk_table *table)
{
    if (table->bulk && table->bulk->status == RS_OK)
        end_table(table);
    rs_mem_free(table->leaves);
    rs_mem_free(table->children);
    *table = (struct bulk_table){0};
}

enum rs_status bulk_close(struct bulk *bulk)
{
    uint8_t count[4];
    if (bulk->fd >= 0) {
        put32(count, bulk->page_count);
        if (bulk->status == RS_OK && pwrite(bulk->fd, count, sizeof count, 28) != sizeof count)
            bulk->status = rs_err_errno(&bulk->err, "cannot write %s", bulk->path);
        if (close(bulk->fd) != 0 && bulk->status == RS_OK)
            bulk->status = rs_err_errno(&bulk->err, "cannot write %s", bulk->path);
    }
    bulk->fd = -1;
    return bulk->status;
}
