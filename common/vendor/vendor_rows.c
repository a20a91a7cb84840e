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

enum { LEAF = 0x0d, INTERIOR = 0x05, HEADER_BYTES = 100, SQL_MAX_BYTES = 1 << 16 };

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

/* ---- what SQLite says of a table ---------------------------------------------------------------- */

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

/* SQLite's rules of affinity, in their order. */
static bool is_real_type(const char *type)
{
    static const char *const others[] = {"INT", "CHAR", "CLOB", "TEXT", "BLOB"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcasestr(type, others[i]))
            return false;
    return strcasestr(type, "REAL") || strcasestr(type, "FLOA") || strcasestr(type, "DOUB");
}

/* Stored column `stored` has this name and type. False: more than we follow. */
static bool map_column(struct rs_vendor_rows *rows, int stored, const char *name, const char *type,
                       const char *const *columns)
{
    if (stored < 0 || stored >= RS_VENDOR_ROWS_STORED_MAX)
        return false;
    for (size_t i = 0; i < rows->column_count; i++)
        if (strcasecmp(name, columns[i]) == 0) {
            rows->wanted[stored] = (int8_t)i;
            rows->is_real[i] = is_real_type(type);
            if ((size_t)stored >= rows->stored_end)
                rows->stored_end = (size_t)stored + 1;
        }
    return true;
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
        if (map_column(rows, sqlite3_column_int(stmt, 0), rs_vendor_column_text(stmt, 1),
                       rs_vendor_column_text(stmt, 2), columns))
            continue;
        status = RS_AGAIN;
        break;
    }
    rs_vendor_db_finish(&stmt);
    return status == RS_END ? RS_OK : status;
}

/* The file as one buffer, if it is of the kind that is read so. */
static bool read_file(struct rs_vendor_rows *rows, struct rs_vendor_rows_file *file)
{
    const char *path = rs_vendor_db_path(rows->db);
    if (file->is_partial)
        return false;
    if (file->bytes.length == 0 &&
        rs_file_read(path, FILE_LIMIT_BYTES, &file->bytes, NULL) != RS_OK)
        rs_buf_reset(&file->bytes);
    return rs_vendor_pages_accept(file);
}

static void use_file(struct rs_vendor_rows *rows, struct rs_vendor_rows_file *file)
{
    rows->file = file;
    rows->page_bytes = file->page_bytes;
    rows->visits = file->bytes.length / file->page_bytes;
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

/* Makes path[level] the page at hand. False: no such page, or not one of a table. */
static bool look_at_page(struct rs_vendor_rows *rows)
{
    const uint32_t number = rows->path[rows->level].page;
    const uint8_t *page = rs_vendor_page(rows->file, number);
    const size_t head = number == 1 ? HEADER_BYTES : 0;
    if (!page || (page[head] != LEAF && page[head] != INTERIOR))
        return false;
    const size_t head_bytes = page[head] == INTERIOR ? 12 : 8, count = get16(page + head + 3);
    if (head + head_bytes + 2 * count > rows->page_bytes)
        return false;
    rows->page = page;
    rows->head = head;
    rows->is_leaf = page[head] == LEAF;
    rows->path[rows->level].count = (unsigned)count;
    return true;
}

/* The first page is never part of a user's table; it is where the schema's starts. */
static bool enter_page(struct rs_vendor_rows *rows, unsigned level, uint32_t number)
{
    if (level >= RS_VENDOR_ROWS_LEVELS || rows->visits == 0)
        return false;
    rows->visits--;
    rows->level = level;
    rows->path[level].page = number;
    rows->path[level].next = 0;
    return look_at_page(rows);
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

static void set_null(struct rs_vendor_cell *cell)
{
    cell->kind = RS_VENDOR_CELL_NULL;
    cell->text = "";
    cell->length = 0;
}

/* Sets what the kind makes valid, no more: this runs for every cell. */
static void read_cell(struct rs_vendor_cell *cell, uint64_t type, const uint8_t *at, size_t size,
                      bool is_real)
{
    uint64_t bits = 0;
    if (type >= 13 && type % 2) {
        cell->kind = RS_VENDOR_CELL_TEXT;
        cell->text = (const char *)at;
        cell->length = size;
    } else if (type == 7) {
        for (size_t i = 0; i < 8; i++) /* compilers make one load of it */
            bits = bits << 8 | at[i];
        memcpy(&cell->real, &bits, sizeof bits);
        if (isnan(cell->real))
            set_null(cell); /* as SQLite reads it */
        else
            cell->kind = RS_VENDOR_CELL_REAL;
    } else if (type >= 1 && type <= 9) {
        cell->whole = type >= 8 ? (int64_t)type - 8 : get_signed(at, size);
        cell->real = (double)cell->whole;
        cell->kind = is_real ? RS_VENDOR_CELL_REAL : RS_VENDOR_CELL_INT;
    } else {
        set_null(cell); /* NULL, a blob */
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
    size_t stored = 0;
    for (; types < types_end && stored < rows->stored_end; stored++) {
        size_t used = 1;
        type = *types;
        if (type >= 0x80)
            used = get_varint(types, types_end, &type);
        const size_t size = used ? size_of(type) : SIZE_MAX;
        if (size > (size_t)(end - value))
            return damaged(rows, err);
        const int wanted = rows->wanted[stored];
        if (wanted >= 0)
            read_cell(&rows->cells[wanted], type, value, size, rows->is_real[wanted]);
        types += used;
        value += size;
    }
    for (; stored < rows->stored_end; stored++) /* a row from before these columns were added */
        if (rows->wanted[stored] >= 0)
            set_null(&rows->cells[rows->wanted[stored]]);
    return RS_OK;
}

/* A payload that goes on in overflow pages, made whole. */
static enum rs_status join_payload(struct rs_vendor_rows *rows, const uint8_t *at, size_t local,
                                   uint64_t length, struct rs_err *err)
{
    uint32_t next = get32(at + local);
    rs_buf_reset(&rows->payload);
    rs_buf_bytes(&rows->payload, at, local);
    while (rows->payload.length < length) {
        const uint64_t left = length - rows->payload.length;
        const size_t room = rows->page_bytes - 4;
        const uint8_t *page = rows->visits ? rs_vendor_page(rows->file, next) : NULL;
        if (!page)
            return damaged(rows, err);
        rows->visits--;
        rs_buf_bytes(&rows->payload, page + 4, left < room ? (size_t)left : room);
        next = get32(page);
        if (rows->payload.failed)
            return rs_err_set(err, RS_NOMEM, "no memory to read %s", rs_vendor_db_path(rows->db));
    }
    return read_record(rows, rows->payload.data, rows->payload.length, err);
}

static enum rs_status read_leaf_cell(struct rs_vendor_rows *rows, unsigned index,
                                     struct rs_err *err)
{
    const uint8_t *page = rows->page, *end = page + rows->page_bytes;
    const size_t offset = get16(page + rows->head + 8 + 2 * (size_t)index);
    uint64_t length = 0, rowid = 0;
    if (offset < 8 || offset >= rows->page_bytes)
        return damaged(rows, err);
    const uint8_t *at = page + offset;
    size_t used = get_varint(at, end, &length);
    at += used;
    const size_t more = used ? get_varint(at, end, &rowid) : 0;
    at += more;
    if (!more || length > rows->file->bytes.length)
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
static enum rs_status descend(struct rs_vendor_rows *rows, struct rs_err *err)
{
    const uint8_t *page = rows->page, *head = page + rows->head;
    const unsigned level = rows->level, index = rows->path[level].next++;
    uint32_t child = 0;
    if (index > rows->path[level].count)
        return RS_END;
    if (index == rows->path[level].count) {
        child = get32(head + 8);
    } else {
        const size_t offset = get16(head + 12 + 2 * (size_t)index);
        if (offset + 4 > rows->page_bytes)
            return damaged(rows, err);
        child = get32(page + offset);
    }
    return child != 1 && enter_page(rows, level + 1, child) ? RS_OK : damaged(rows, err);
}

static enum rs_status next_from_pages(struct rs_vendor_rows *rows, struct rs_err *err)
{
    for (;;) {
        const unsigned level = rows->level;
        if (rows->is_leaf && rows->path[level].next < rows->path[level].count)
            return read_leaf_cell(rows, rows->path[level].next++, err);
        const enum rs_status status = rows->is_leaf ? RS_END : descend(rows, err);
        if (status < 0)
            return status;
        if (status == RS_OK)
            continue;
        if (level == 0)
            return RS_END;
        rows->level--;
        if (!look_at_page(rows))
            return damaged(rows, err);
    }
}

/* ---- the schema by hand ------------------------------------------------------------------------ */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The next word, or text in double quotes, NUL-terminated; false: something else. */
static bool take_word(const char **at, const char *end, char word_p[RS_VENDOR_ROWS_WORD_BYTES])
{
    size_t used = 0;
    while (*at < end && is_space(**at))
        ++*at;
    const bool is_quoted = *at < end && **at == '"';
    *at += is_quoted;
    while (*at < end && (is_quoted ? **at != '"' && **at : is_word(**at))) {
        if (used + 1 == RS_VENDOR_ROWS_WORD_BYTES)
            return false;
        word_p[used++] = *(*at)++;
    }
    word_p[used] = '\0';
    if (is_quoted && (*at == end || *(*at)++ != '"' || (*at < end && **at == '"')))
        return false; /* not closed, or a quote within */
    return used > 0;
}

/* The one character that must come next. */
static char take_mark(const char **at, const char *end)
{
    while (*at < end && is_space(**at))
        ++*at;
    return *at < end ? *(*at)++ : '\0';
}

static bool is_known_type(const char *word)
{
    static const char *const types[] = {"INTEGER", "INT",  "BIGINT", "REAL",   "FLOAT",
                                        "DOUBLE",  "TEXT", "BLOB",   "NUMERIC"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcasecmp(word, types[i]) == 0)
            return true;
    return false;
}

/* "CREATE TABLE name (column TYPE, ...)" and nothing else: no keys, defaults, checks, comments. */
static bool parse_columns(struct rs_vendor_rows *rows, const char *at, size_t length,
                          const char *const *columns)
{
    char word[RS_VENDOR_ROWS_WORD_BYTES], type[RS_VENDOR_ROWS_WORD_BYTES];
    const char *end = at + length;
    char mark = ',';
    if (!take_word(&at, end, word) || strcasecmp(word, "CREATE") != 0 ||
        !take_word(&at, end, word) || strcasecmp(word, "TABLE") != 0 ||
        !take_word(&at, end, word) || take_mark(&at, end) != '(')
        return false;
    for (int stored = 0; mark == ','; stored++) {
        if (!take_word(&at, end, word))
            return false;
        mark = take_mark(&at, end);
        type[0] = '\0';
        if (is_word(mark)) {
            at--;
            if (!take_word(&at, end, type) || !is_known_type(type))
                return false;
            mark = take_mark(&at, end);
        }
        if (!map_column(rows, stored, word, type, columns))
            return false;
    }
    return mark == ')' && take_mark(&at, end) == '\0';
}

static bool cell_is(const struct rs_vendor_cell *cell, const char *text)
{
    return cell->kind == RS_VENDOR_CELL_TEXT && cell->length == strlen(text) &&
           memcmp(cell->text, text, cell->length) == 0;
}

static void start(struct rs_vendor_rows *rows, struct rs_vendor_db *db, size_t count)
{
    *rows = (struct rs_vendor_rows){.db = db, .column_count = count};
    memset(rows->wanted, -1, sizeof rows->wanted);
    for (size_t i = 0; i < RS_VENDOR_ROWS_COLUMNS_MAX; i++)
        rows->cells[i].text = "";
}

/* RS_NOTFOUND: the schema is whole and has no such table. RS_AGAIN: SQLite may know better. */
static enum rs_status open_from_schema(struct rs_vendor_rows *rows,
                                       struct rs_vendor_rows_file *file, const char *table,
                                       const char *const *columns)
{
    enum { S_TYPE, S_NAME, S_ROOT, S_SQL, S_COLUMNS };
    struct rs_vendor_rows schema;
    const struct rs_vendor_cell *cells = schema.cells;
    enum rs_status status = RS_AGAIN;
    start(&schema, rows->db, S_COLUMNS);
    use_file(&schema, file);
    schema.wanted[0] = S_TYPE; /* type, name, tbl_name, rootpage, sql */
    schema.wanted[1] = S_NAME;
    schema.wanted[3] = S_ROOT;
    schema.wanted[4] = S_SQL;
    schema.stored_end = 5;
    if (enter_page(&schema, 0, 1))
        while ((status = next_from_pages(&schema, NULL)) == RS_OK)
            if (cell_is(&cells[S_TYPE], "table") && cell_is(&cells[S_NAME], table))
                break;
    if (status == RS_END)
        status = RS_NOTFOUND;
    else if (status != RS_OK || cells[S_ROOT].kind != RS_VENDOR_CELL_INT ||
             cells[S_ROOT].whole < 2 || cells[S_ROOT].whole > UINT32_MAX ||
             cells[S_SQL].kind != RS_VENDOR_CELL_TEXT || cells[S_SQL].length > SQL_MAX_BYTES ||
             !parse_columns(rows, cells[S_SQL].text, cells[S_SQL].length, columns))
        status = RS_AGAIN;
    if (status == RS_OK) {
        use_file(rows, file);
        status = enter_page(rows, 0, (uint32_t)cells[S_ROOT].whole) ? RS_OK : RS_AGAIN;
    }
    rs_vendor_rows_close(&schema);
    return status;
}

/* ---- opening, in one way or the other ----------------------------------------------------------- */

/* With SQLite's help: the root page and the columns, and if need be all of it. */
static enum rs_status open_with_sqlite(struct rs_vendor_rows *rows,
                                       struct rs_vendor_rows_file *file, const char *table,
                                       const char *const *columns, struct rs_err *err)
{
    uint32_t root = 0;
    enum rs_status status = find_root(rows, table, &root, err);
    if (status == RS_OK)
        status = map_columns(rows, table, columns, err);
    const bool is_direct = status == RS_OK && root > 1 && read_file(rows, file);
    if (is_direct)
        use_file(rows, file);
    if (is_direct && !enter_page(rows, 0, root))
        status = damaged(rows, err);
    if (!is_direct && status >= RS_OK)
        status = open_statement(rows, table, columns, err);
    return status;
}

enum rs_status rs_vendor_rows_open(struct rs_vendor_rows *rows, struct rs_vendor_db *db,
                                   struct rs_vendor_rows_file *file, const char *table,
                                   const char *const *columns, size_t count, struct rs_err *err)
{
    enum rs_status status = RS_AGAIN;
    start(rows, db, count);
    if (count > RS_VENDOR_ROWS_COLUMNS_MAX)
        return rs_err_set(err, RS_LIMIT, "more than %d columns", RS_VENDOR_ROWS_COLUMNS_MAX);
    if (rs_vendor_db_still(db) == file) {
        status = open_from_schema(rows, file, table, columns);
        if (status == RS_NOTFOUND)
            (void)rs_err_set(err, RS_NOTFOUND, "%s has no table %s", rs_vendor_db_path(db), table);
    }
    if (status == RS_AGAIN) {
        start(rows, db, count);
        status = open_with_sqlite(rows, file, table, columns, err);
    }
    if (status != RS_OK)
        rs_vendor_rows_close(rows);
    return status;
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
