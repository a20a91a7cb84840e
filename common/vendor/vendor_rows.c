/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table b-trees from the bytes of a database file; see SQLite's "Database File Format".
 *
 *     path[0] root .. path[level] leaf, each with its next cell; interior pages send down one child
 *     after another, the last one being the page's right-most pointer
 *
 * Nothing of the file is believed: pages must be within it, cells within their page, records within
 * their payload, the tree not deeper than RS_VENDOR_ROWS_LEVELS, and no more pages are visited than
 * the file has (a loop would go on for ever).
 */
#include "common/vendor/vendor_rows.h"

#include "common/base/file.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FILE_LIMIT_BYTES ((size_t)1 << 30) /* larger ones by SQLite, page by page */

enum { LEAF = 0x0d, INTERIOR = 0x05, HEADER_BYTES = 100 };

static uint32_t get16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t get32(const uint8_t *at)
{
    return get16(at) << 16 | get16(at + 2);
}

/* SQLite's varint; how many bytes it took, 0: it does not end before `end`. */
static size_t get_varint(const uint8_t *at, const uint8_t *end, uint64_t *value_p)
{
    uint64_t value = 0;
    if (at < end && at[0] < 0x80) { /* nearly always */
        *value_p = at[0];
        return 1;
    }
    for (size_t i = 0; i < 9 && at + i < end; i++) {
        if (i == 8) {
            *value_p = value << 8 | at[i];
            return 9;
        }
        value = value << 7 | (at[i] & 0x7F);
        if (!(at[i] & 0x80)) {
            *value_p = value;
            return i + 1;
        }
    }
    return 0;
}

static enum rs_status damaged(const struct rs_vendor_rows *rows, struct rs_err *err)
{
    return rs_err_set(err, RS_FORMAT, "%s: a page of a table is damaged",
                      rs_vendor_db_path(rows->db));
}

/* ---- opening ---------------------------------------------------------------------------------- */

/* Words of a CREATE TABLE after which the stored row is not simply the declared columns. */
static bool is_plain_sql(const char *sql)
{
    static const char *const words[] = {"PRIMARY", "GENERATED", "WITHOUT", "DEFAULT", " AS "};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasestr(sql, words[i]))
            return false;
    return true;
}

/* The root page of a plain table; 0: let SQLite read it. */
static enum rs_status find_root(struct rs_vendor_rows *rows, const char *table, uint32_t *root_p,
                                struct rs_err *err)
{
    sqlite3_stmt *stmt = NULL;
    enum rs_status status = rs_vendor_db_prepare(
        rows->db, "SELECT rootpage, sql FROM sqlite_master WHERE type = 'table' AND name = ?1",
        &stmt, err);
    *root_p = 0;
    if (status == RS_OK) {
        (void)sqlite3_bind_text(stmt, 1, table, -1, SQLITE_STATIC);
        status = rs_vendor_db_step(rows->db, stmt, err);
    }
    if (status == RS_END)
        status =
            rs_err_set(err, RS_NOTFOUND, "%s has no table %s", rs_vendor_db_path(rows->db), table);
    else if (status == RS_OK && is_plain_sql(rs_vendor_column_text(stmt, 1)))
        *root_p = (uint32_t)sqlite3_column_int64(stmt, 0);
    rs_vendor_db_finish(&stmt);
    return status;
}

static bool is_real_type(const char *type)
{
    return strcasestr(type, "REAL") || strcasestr(type, "FLOA") || strcasestr(type, "DOUB");
}

/* Which stored column is which wanted one. RS_AGAIN: more than we follow. */
static enum rs_status map_columns(struct rs_vendor_rows *rows, const char *table,
                                  const char *const *columns, struct rs_err *err)
{
    sqlite3_stmt *stmt = NULL;
    enum rs_status status = rs_vendor_db_prepare(
        rows->db, "SELECT cid, name, type FROM pragma_table_info(?1)", &stmt, err);
    memset(rows->wanted, -1, sizeof rows->wanted);
    if (status == RS_OK)
        (void)sqlite3_bind_text(stmt, 1, table, -1, SQLITE_STATIC);
    while (status == RS_OK && (status = rs_vendor_db_step(rows->db, stmt, err)) == RS_OK) {
        const int stored = sqlite3_column_int(stmt, 0);
        const char *name = rs_vendor_column_text(stmt, 1);
        if (stored < 0 || stored >= RS_VENDOR_ROWS_STORED_MAX) {
            status = RS_AGAIN;
            break;
        }
        for (size_t i = 0; i < rows->column_count; i++)
            if (strcasecmp(name, columns[i]) == 0) {
                rows->wanted[stored] = (int8_t)i;
                rows->is_real[i] = is_real_type(rs_vendor_column_text(stmt, 2));
            }
    }
    rs_vendor_db_finish(&stmt);
    return status == RS_END ? RS_OK : status;
}

/* The file as one buffer, if it is of the kind that is read so. */
static bool read_file(struct rs_vendor_rows *rows, struct rs_vendor_rows_file *file)
{
    const char *path = rs_vendor_db_path(rows->db);
    if (file->bytes.length == 0 &&
        rs_file_read(path, FILE_LIMIT_BYTES, &file->bytes, NULL) != RS_OK)
        rs_buf_reset(&file->bytes);
    rows->file = &file->bytes;
    if (file->bytes.length < HEADER_BYTES)
        return false;
    const uint8_t *head = rows->file->data;
    const uint32_t stored = get16(head + 16);
    rows->page_bytes = stored == 1 ? 65536 : stored;
    rows->visits = rows->page_bytes ? rows->file->length / rows->page_bytes : 0;
    const bool is_power = rows->page_bytes >= 512 && !(rows->page_bytes & (rows->page_bytes - 1));
    /* no WAL (the newest pages may be there), no reserved bytes, UTF-8 */
    return is_power && head[18] == 1 && head[19] == 1 && head[20] == 0 && get32(head + 56) == 1 &&
           rows->file->length % rows->page_bytes == 0;
}

static enum rs_status open_statement(struct rs_vendor_rows *rows, const char *table,
                                     const char *const *columns, struct rs_err *err)
{
    struct rs_buf sql = {0};
    rs_buf_string(&sql, "SELECT ");
    for (size_t i = 0; i < rows->column_count; i++) {
        const bool is_there = rs_vendor_db_has_column(rows->db, table, columns[i]);
        rs_buf_printf(&sql, "%s%s", i ? ", " : "", is_there ? columns[i] : "NULL");
    }
    rs_buf_printf(&sql, " FROM %s ORDER BY rowid", table);
    const enum rs_status status =
        sql.failed ? rs_err_set(err, RS_NOMEM, "no memory to read %s", rs_vendor_db_path(rows->db))
                   : rs_vendor_db_prepare(rows->db, rs_buf_text(&sql), &rows->stmt, err);
    rs_buf_fini(&sql);
    return status;
}

/* The page's bytes and its number of cells; NULL: no such page, or not of a table. */
static const uint8_t *page_at(const struct rs_vendor_rows *rows, uint32_t number, unsigned *count_p)
{
    const size_t pages = rows->file->length / rows->page_bytes;
    if (number == 0 || number > pages)
        return NULL;
    const uint8_t *page = rows->file->data + (size_t)(number - 1) * rows->page_bytes;
    const uint8_t *head = number == 1 ? page + HEADER_BYTES : page;
    const size_t head_bytes = head[0] == INTERIOR ? 12 : 8, count = get16(head + 3);
    if ((head[0] != LEAF && head[0] != INTERIOR) ||
        (size_t)(head - page) + head_bytes + 2 * count > rows->page_bytes)
        return NULL;
    *count_p = (unsigned)count;
    return page;
}

static bool enter_page(struct rs_vendor_rows *rows, unsigned level, uint32_t number)
{
    unsigned count = 0;
    if (level >= RS_VENDOR_ROWS_LEVELS || number == 1 || rows->visits == 0 ||
        !page_at(rows, number, &count))
        return false; /* the first page is never part of a user's table */
    rows->visits--;
    rows->level = level;
    rows->path[level].page = number;
    rows->path[level].next = 0;
    rows->path[level].count = count;
    return true;
}

enum rs_status rs_vendor_rows_open(struct rs_vendor_rows *rows, struct rs_vendor_db *db,
                                   struct rs_vendor_rows_file *file, const char *table,
                                   const char *const *columns, size_t count, struct rs_err *err)
{
    uint32_t root = 0;
    *rows = (struct rs_vendor_rows){.db = db, .column_count = count};
    if (count > RS_VENDOR_ROWS_COLUMNS_MAX)
        return rs_err_set(err, RS_LIMIT, "more than %d columns", RS_VENDOR_ROWS_COLUMNS_MAX);
    enum rs_status status = find_root(rows, table, &root, err);
    if (status == RS_OK)
        status = map_columns(rows, table, columns, err);
    const bool is_direct = status == RS_OK && root > 1 && read_file(rows, file);
    if (is_direct && !enter_page(rows, 0, root))
        status = damaged(rows, err);
    if (!is_direct && status >= RS_OK)
        status = open_statement(rows, table, columns, err);
    if (status != RS_OK)
        rs_vendor_rows_close(rows);
    return status;
}

void rs_vendor_rows_close(struct rs_vendor_rows *rows)
{
    rs_vendor_db_finish(&rows->stmt);
    rs_buf_fini(&rows->payload);
}

/* ---- rows from pages ---------------------------------------------------------------------------- */

static int64_t get_signed(const uint8_t *at, size_t bytes)
{
    uint64_t value = at[0] & 0x80 ? ~UINT64_C(0) : 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return (int64_t)value;
}

/* Bytes of a value by its serial type; SIZE_MAX: a reserved type. */
static size_t size_of(uint64_t type)
{
    static const uint8_t sizes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
    if (type >= 12)
        return (size_t)((type - 12) / 2);
    return type < sizeof sizes ? sizes[type] : SIZE_MAX;
}

static void read_cell(struct rs_vendor_cell *cell, uint64_t type, const uint8_t *at, bool is_real)
{
    uint64_t bits = 0;
    *cell = (struct rs_vendor_cell){.kind = RS_VENDOR_CELL_NULL, .text = ""};
    if (type == 7) {
        for (size_t i = 0; i < 8; i++)
            bits = bits << 8 | at[i];
        cell->kind = RS_VENDOR_CELL_REAL;
        memcpy(&cell->real, &bits, sizeof bits);
        if (isnan(cell->real))
            cell->kind = RS_VENDOR_CELL_NULL; /* as SQLite reads it */
    } else if (type >= 13 && type % 2) {
        cell->kind = RS_VENDOR_CELL_TEXT;
        cell->text = (const char *)at;
        cell->length = size_of(type);
    } else if (type >= 1 && type <= 9) {
        const int64_t whole = type >= 8 ? (int64_t)type - 8 : get_signed(at, size_of(type));
        cell->kind = is_real ? RS_VENDOR_CELL_REAL : RS_VENDOR_CELL_INT;
        cell->whole = whole;
        cell->real = (double)whole;
    }
}

/* header length, serial types, values */
static enum rs_status read_record(struct rs_vendor_rows *rows, const uint8_t *at, size_t length,
                                  struct rs_err *err)
{
    const uint8_t *end = at + length;
    uint64_t head_length = 0, type = 0;
    const size_t own = get_varint(at, end, &head_length);
    if (!own || head_length < own || head_length > length)
        return damaged(rows, err);
    const uint8_t *types = at + own, *types_end = at + head_length, *value = types_end;
    for (size_t i = 0; i < rows->column_count; i++)
        rows->cells[i] = (struct rs_vendor_cell){.kind = RS_VENDOR_CELL_NULL, .text = ""};
    for (size_t stored = 0; types < types_end; stored++) {
        const size_t used = get_varint(types, types_end, &type);
        const size_t size = used ? size_of(type) : SIZE_MAX;
        if (size > (size_t)(end - value))
            return damaged(rows, err);
        const int wanted = stored < RS_VENDOR_ROWS_STORED_MAX ? rows->wanted[stored] : -1;
        if (wanted >= 0)
            read_cell(&rows->cells[wanted], type, value, rows->is_real[wanted]);
        types += used;
        value += size;
    }
    return RS_OK;
}

/* A payload that goes on in overflow pages, made whole. */
static enum rs_status join_payload(struct rs_vendor_rows *rows, const uint8_t *at, size_t local,
                                   uint64_t length, struct rs_err *err)
{
    const size_t pages = rows->file->length / rows->page_bytes;
    uint32_t next = get32(at + local);
    rs_buf_reset(&rows->payload);
    rs_buf_bytes(&rows->payload, at, local);
    while (rows->payload.length < length) {
        const uint64_t left = length - rows->payload.length;
        const size_t room = rows->page_bytes - 4;
        if (next == 0 || next > pages || rows->visits == 0)
            return damaged(rows, err);
        rows->visits--;
        const uint8_t *page = rows->file->data + (size_t)(next - 1) * rows->page_bytes;
        rs_buf_bytes(&rows->payload, page + 4, left < room ? (size_t)left : room);
        next = get32(page);
        if (rows->payload.failed)
            return rs_err_set(err, RS_NOMEM, "no memory to read %s", rs_vendor_db_path(rows->db));
    }
    return read_record(rows, rows->payload.data, rows->payload.length, err);
}

static enum rs_status read_leaf_cell(struct rs_vendor_rows *rows, const uint8_t *page,
                                     unsigned index, struct rs_err *err)
{
    const uint8_t *end = page + rows->page_bytes;
    const size_t offset = get16(page + 8 + 2 * (size_t)index);
    uint64_t length = 0, rowid = 0;
    if (offset < 8 || offset >= rows->page_bytes)
        return damaged(rows, err);
    const uint8_t *at = page + offset;
    size_t used = get_varint(at, end, &length);
    at += used;
    const size_t more = used ? get_varint(at, end, &rowid) : 0;
    at += more;
    if (!more || length > rows->file->length)
        return damaged(rows, err);
    const size_t most = rows->page_bytes - 35, least = (rows->page_bytes - 12) * 32 / 255 - 23;
    size_t local = (size_t)length;
    if (local > most) {
        local = least + (local - least) % (rows->page_bytes - 4);
        local = local > most ? least : local;
    }
    if (local + (local < length ? 4 : 0) > (size_t)(end - at))
        return damaged(rows, err);
    return local < length ? join_payload(rows, at, local, length, err)
                          : read_record(rows, at, local, err);
}

/* Down from an interior page into its next child; RS_END: it has no more. */
static enum rs_status descend(struct rs_vendor_rows *rows, const uint8_t *page, struct rs_err *err)
{
    const unsigned level = rows->level, index = rows->path[level].next++;
    uint32_t child = 0;
    if (index > rows->path[level].count)
        return RS_END;
    if (index == rows->path[level].count) {
        child = get32(page + 8);
    } else {
        const size_t offset = get16(page + 12 + 2 * (size_t)index);
        if (offset + 4 > rows->page_bytes)
            return damaged(rows, err);
        child = get32(page + offset);
    }
    return enter_page(rows, level + 1, child) ? RS_OK : damaged(rows, err);
}

static enum rs_status next_from_pages(struct rs_vendor_rows *rows, struct rs_err *err)
{
    for (;;) {
        unsigned count = 0;
        const uint8_t *page = page_at(rows, rows->path[rows->level].page, &count);
        if (!page)
            return damaged(rows, err);
        if (page[0] == LEAF && rows->path[rows->level].next < count)
            return read_leaf_cell(rows, page, rows->path[rows->level].next++, err);
        const enum rs_status status = page[0] == LEAF ? RS_END : descend(rows, page, err);
        if (status < 0)
            return status;
        if (status == RS_END) {
            if (rows->level == 0)
                return RS_END;
            rows->level--;
        }
    }
}

/* ---- rows from SQLite --------------------------------------------------------------------------- */

static enum rs_status next_from_statement(struct rs_vendor_rows *rows, struct rs_err *err)
{
    const enum rs_status status = rs_vendor_db_step(rows->db, rows->stmt, err);
    for (size_t i = 0; i < rows->column_count && status == RS_OK; i++) {
        struct rs_vendor_cell *cell = &rows->cells[i];
        const int column = (int)i, type = sqlite3_column_type(rows->stmt, column);
        *cell = (struct rs_vendor_cell){.kind = RS_VENDOR_CELL_NULL, .text = ""};
        if (type == SQLITE_INTEGER) {
            cell->kind = RS_VENDOR_CELL_INT;
            cell->whole = sqlite3_column_int64(rows->stmt, column);
        } else if (type == SQLITE_FLOAT) {
            cell->kind = RS_VENDOR_CELL_REAL;
            cell->real = sqlite3_column_double(rows->stmt, column);
        } else if (type == SQLITE_TEXT) {
            cell->kind = RS_VENDOR_CELL_TEXT;
            cell->text = rs_vendor_column_text(rows->stmt, column);
            cell->length = (size_t)sqlite3_column_bytes(rows->stmt, column);
        }
    }
    return status;
}

enum rs_status rs_vendor_rows_next(struct rs_vendor_rows *rows, struct rs_err *err)
{
    return rows->stmt ? next_from_statement(rows, err) : next_from_pages(rows, err);
}

/* ---- cells -------------------------------------------------------------------------------------- */

struct rs_vendor_num rs_vendor_cell_num(const struct rs_vendor_cell *cell)
{
    struct rs_vendor_num num = {0};
    switch (cell->kind) {
    case RS_VENDOR_CELL_INT:
        return rs_vendor_num_of_int(cell->whole);
    case RS_VENDOR_CELL_REAL:
        return rs_vendor_num_of_double(cell->real);
    case RS_VENDOR_CELL_TEXT:
        if (cell->length && rs_vendor_num_scan(cell->text, cell->length) == cell->length &&
            rs_vendor_num_parse(cell->text, cell->length, &num) != RS_OK)
            num = (struct rs_vendor_num){0};
        break;
    case RS_VENDOR_CELL_NULL:
        break;
    }
    return num;
}

bool rs_vendor_cell_int(const struct rs_vendor_cell *cell, int64_t *value_p)
{
    const struct rs_vendor_num num = rs_vendor_cell_num(cell);
    const double value = rs_vendor_num_double(&num);
    if (num.kind == RS_VENDOR_NUM_NONE || value != floor(value) || fabs(value) > 1e15)
        return false;
    *value_p = (int64_t)value;
    return true;
}
