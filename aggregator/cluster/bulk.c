/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See SQLite's "Database File Format": b-tree pages, records, overflow chains.
 */
#include "aggregator/cluster/bulk.h"

#include "common/base/file.h"
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
    WAITING_BYTES = 1 << 20,
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
        pread(bulk->fd, head, sizeof head, 0) != (ssize_t)sizeof head ||
        lseek(bulk->fd, 0, SEEK_END) < 0)
        bulk->status = rs_err_errno(&bulk->err, "cannot write %s", path);
    else if (head[16] != BULK_PAGE_BYTES >> 8 || head[17] != 0 || head[20] != 0 ||
             st.st_size % BULK_PAGE_BYTES)
        bulk->status = rs_err_set(&bulk->err, RS_FORMAT, "%s has other pages", path);
    else
        bulk->page_count = (uint32_t)(st.st_size / BULK_PAGE_BYTES);
    return bulk->status;
}

static void write_waiting(struct bulk *bulk)
{
    if (bulk->status == RS_OK)
        bulk->status = rs_file_write_all(bulk->fd, bulk->pages.data, bulk->pages.length, bulk->path,
                                         &bulk->err);
    rs_buf_reset(&bulk->pages);
}

/* At the end of the file; returns the page's number. */
static uint32_t append_page(struct bulk *bulk, const uint8_t *page)
{
    if (bulk->pages.length >= WAITING_BYTES)
        write_waiting(bulk);
    rs_buf_bytes(&bulk->pages, page, BULK_PAGE_BYTES);
    if (bulk->pages.failed)
        fail_with(bulk, RS_NOMEM);
    if (bulk->page_count == UINT32_MAX - 1)
        fail_with(bulk, RS_LIMIT);
    else
        bulk->page_count++;
    return bulk->page_count;
}

static void clear_page(struct bulk *bulk)
{
    memset(bulk->page, 0, sizeof bulk->page);
    bulk->cells = 0;
    bulk->content = BULK_PAGE_BYTES;
}

void bulk_begin(struct bulk *bulk, uint32_t root)
{
    clear_page(bulk);
    bulk->root = root;
    bulk->rowid = 0;
    bulk->child_count = 0;
    bulk->columns = 0;
    rs_buf_reset(&bulk->body);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void add_type(struct bulk *bulk, uint64_t type)
{
    if (bulk->columns == BULK_COLUMNS_MAX)
        fail_with(bulk, RS_LIMIT);
    else
        bulk->types[bulk->columns++] = type;
}

void bulk_null(struct bulk *bulk)
{
    add_type(bulk, 0);
}

static void add_big_endian(struct bulk *bulk, uint64_t value, unsigned count)
{
    uint8_t *at = rs_buf_reserve(&bulk->body, 8);
    if (!at)
        return;
    for (unsigned i = 0; i < count; i++)
        at[i] = (uint8_t)(value >> 8 * (count - 1 - i));
    rs_buf_commit(&bulk->body, count);
}

void bulk_int(struct bulk *bulk, int64_t value)
{
    static const struct {
        unsigned bytes, type;
    } sizes[] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {6, 5}, {8, 6}};
    unsigned i = 0;
    if (value == 0 || value == 1) {
        add_type(bulk, value ? 9 : 8);
        return;
    }
    while (i < 5 && (value < -(INT64_C(1) << (sizes[i].bytes * 8 - 1)) ||
                     value >= INT64_C(1) << (sizes[i].bytes * 8 - 1)))
        i++;
    add_type(bulk, sizes[i].type);
    add_big_endian(bulk, (uint64_t)value, sizes[i].bytes);
}

void bulk_real(struct bulk *bulk, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_type(bulk, 7);
    add_big_endian(bulk, bits, 8);
}

void bulk_text(struct bulk *bulk, const char *text, size_t length)
{
    add_type(bulk, (uint64_t)length * 2 + 13);
    rs_buf_bytes(&bulk->body, text, length);
}

/* The record's header: its own length first, so try one byte, else two. */
static size_t make_head(const struct bulk *bulk, uint8_t *head)
{
    uint8_t types[BULK_COLUMNS_MAX * 9];
    size_t length = 0;
    for (unsigned i = 0; i < bulk->columns; i++)
        length += put_varint(types + length, bulk->types[i]);
    const size_t own = length + 1 < 0x80 ? 1 : 2;
    const size_t used = put_varint(head, length + own);
    memcpy(head + used, types, length);
    return used + length;
}

/* What does not fit into the leaf goes to a chain of pages; returns the first. */
static uint32_t write_overflow(struct bulk *bulk, const uint8_t *rest, size_t length)
{
    uint8_t page[BULK_PAGE_BYTES];
    uint32_t first = 0;
    while (length && bulk->status == RS_OK) {
        const size_t part = length < OVERFLOW_BYTES ? length : OVERFLOW_BYTES;
        memset(page, 0, sizeof page);
        if (length > part)
            put32(page, bulk->page_count + 2); /* the one after this one */
        memcpy(page + 4, rest, part);
        const uint32_t number = append_page(bulk, page);
        first = first ? first : number;
        rest += part;
        length -= part;
    }
    return first;
}

static void add_child(struct bulk *bulk, uint32_t page)
{
    if (rs_mem_grow((void **)&bulk->children, &bulk->child_capacity, bulk->child_count + 1,
                    sizeof *bulk->children) != RS_OK) {
        fail_with(bulk, RS_NOMEM);
        return;
    }
    bulk->children[bulk->child_count++] = (struct bulk_child){page, bulk->rowid};
}

static void finish_leaf(struct bulk *bulk)
{
    bulk->page[0] = LEAF;
    put16(bulk->page + 3, bulk->cells);
    put16(bulk->page + 5, bulk->content);
}

/* Writes the record into the leaf at hand, or a new one. */
static void add_cell(struct bulk *bulk, const uint8_t *record, size_t length)
{
    uint8_t lead[18];
    size_t local = length;
    if (length > LOCAL_MAX) {
        local = LOCAL_MIN + (length - LOCAL_MIN) % OVERFLOW_BYTES;
        local = local > LOCAL_MAX ? LOCAL_MIN : local;
    }
    size_t lead_length = put_varint(lead, length);
    lead_length += put_varint(lead + lead_length, (uint64_t)bulk->rowid + 1);
    const size_t need = lead_length + local + (local < length ? 4 : 0);
    if (LEAF_HEAD_BYTES + 2 * (bulk->cells + 1) + need > bulk->content) {
        finish_leaf(bulk);
        add_child(bulk, append_page(bulk, bulk->page));
        clear_page(bulk);
    }
    bulk->content -= (unsigned)need;
    uint8_t *at = bulk->page + bulk->content;
    memcpy(at, lead, lead_length);
    memcpy(at + lead_length, record, local);
    if (local < length)
        put32(at + lead_length + local, write_overflow(bulk, record + local, length - local));
    put16(bulk->page + LEAF_HEAD_BYTES + 2 * bulk->cells, bulk->content);
    bulk->cells++;
    bulk->rowid++;
}

void bulk_end_row(struct bulk *bulk)
{
    uint8_t small[LOCAL_MAX], head[BULK_COLUMNS_MAX * 9 + 2];
    const size_t head_length = make_head(bulk, head), length = head_length + bulk->body.length;
    if (bulk->body.failed)
        fail_with(bulk, RS_NOMEM);
    if (bulk->status == RS_OK) {
        uint8_t *record = length <= sizeof small ? small : rs_mem_calloc(length, 1);
        if (record) {
            memcpy(record, head, head_length);
            if (bulk->body.length)
                memcpy(record + head_length, bulk->body.data, bulk->body.length);
            add_cell(bulk, record, length);
        } else {
            fail_with(bulk, RS_NOMEM);
        }
        if (record != small)
            rs_mem_free(record);
    }
    bulk->columns = 0;
    rs_buf_reset(&bulk->body);
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
static void raise_level(struct bulk *bulk)
{
    uint8_t page[BULK_PAGE_BYTES];
    const size_t count = bulk->child_count, pages = (count + CHILDREN_MAX - 1) / CHILDREN_MAX;
    for (size_t i = 0; i < pages && bulk->status == RS_OK; i++) {
        const size_t from = count * i / pages, to = count * (i + 1) / pages;
        const int64_t last = bulk->children[to - 1].last;
        make_interior(page, bulk->children + from, to - from);
        bulk->children[i] = (struct bulk_child){append_page(bulk, page), last};
    }
    bulk->child_count = pages;
}

static void write_root(struct bulk *bulk, const uint8_t *page)
{
    const off_t at = (off_t)(bulk->root - 1) * BULK_PAGE_BYTES;
    if (bulk->status == RS_OK && pwrite(bulk->fd, page, BULK_PAGE_BYTES, at) != BULK_PAGE_BYTES)
        bulk->status = rs_err_errno(&bulk->err, "cannot write %s", bulk->path);
}

void bulk_end(struct bulk *bulk)
{
    uint8_t page[BULK_PAGE_BYTES];
    finish_leaf(bulk);
    if (bulk->child_count == 0) {
        write_root(bulk, bulk->page);
        return;
    }
    add_child(bulk, append_page(bulk, bulk->page));
    while (bulk->child_count > CHILDREN_MAX && bulk->status == RS_OK)
        raise_level(bulk);
    if (bulk->status != RS_OK)
        return;
    make_interior(page, bulk->children, bulk->child_count);
    write_root(bulk, page);
}

enum rs_status bulk_close(struct bulk *bulk)
{
    uint8_t count[4];
    if (bulk->fd >= 0) {
        write_waiting(bulk);
        put32(count, bulk->page_count);
        if (bulk->status == RS_OK && pwrite(bulk->fd, count, sizeof count, 28) != sizeof count)
            bulk->status = rs_err_errno(&bulk->err, "cannot write %s", bulk->path);
        if (close(bulk->fd) != 0 && bulk->status == RS_OK)
            bulk->status = rs_err_errno(&bulk->err, "cannot write %s", bulk->path);
    }
    bulk->fd = -1;
    rs_buf_fini(&bulk->pages);
    rs_buf_fini(&bulk->body);
    rs_mem_free(bulk->children);
    bulk->children = NULL;
    return bulk->status;
}
