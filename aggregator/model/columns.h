/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns as data: a table is described once, and every form of it comes from that description.
 *
 *     tables/NAME.def   one line a column --+--> struct rs_row_NAME   what code fills and reads
 *     reads/NAME.def    (a read's result)   +--> rs_table_NAME        the descriptor
 *                                                    |
 *              CSV   JSON   JSON Schema   CREATE, INSERT   blocks (wire pages, segments)
 *
 * A column has a kind (how the struct holds it), a unit (what the number means, and how it is printed) and
 * flags. Absent is RS_NULL, NaN or a NULL pointer; it is printed as an empty cell or null, never as 0.
 * So a column is added by one line in a .def file and one assignment where the row is filled.
 *
 * Row structs lend their texts: whoever fills a row says how long they live. Everything here is a pure
 * function of its arguments; any thread. Failed allocations stick in the buffer (common/base/buf.h).
 */
#ifndef RS_MODEL_COLUMNS_H
#define RS_MODEL_COLUMNS_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/null.h"
#include "common/base/view.h"

#include <stddef.h>
#include <stdint.h>

/* How a row struct holds the value: int64_t, double, const char *, const char * with a decimal number in it. */
enum rs_column_kind { RS_I64, RS_F64, RS_TEXT, RS_DECIMAL };

enum rs_column_unit {
    RS_NONE,
    RS_NS,
    RS_US3, /* ns, printed as us with three decimals */
    RS_MS,  /* ns, printed as ms, exact, zeros behind the point cut */
    RS_BYTES,
    RS_MB, /* bytes, printed as 10^6 bytes, exact, zeros behind the point cut */
    RS_STEP,
    RS_RANK,
    RS_ENUM, /* printed by the column's text(), stored as its code */
};

enum rs_column_flag {
    RS_KEY = 1,
    RS_NULLABLE = 2,
    RS_PARTITION = 4,
    RS_NUMERIC =
        8, /* declared so in vendor-shaped tables; a number in its printed unit is stored */
    RS_COUNTED =
        16, /* of a read: not selected but counted from 0, one more whenever a key column changes */
    RS_UNIT = 32,   /* says which unit the row is written with: at most two, in order of columns */
    RS_HIDDEN = 64, /* of a read: not in CSV documents */
    RS_AS_TEXT = 128, /* of an enum in vendor-shaped tables: its word is stored */
};

struct rs_column {
    const char *name;  /* SQL, JSON */
    const char *title; /* CSV; NULL: as name */
    uint8_t kind, unit, flags;
    uint16_t offset;                   /* in the row struct */
    const char *(*text)(int64_t code); /* of RS_ENUM; never NULL for a code that is stored */
    const char *help;                  /* one sentence */
};

struct rs_table {
    const char *name;
    const struct rs_column *columns;
    size_t column_count, row_bytes;
};

/* C(c_type, name, title, kind, unit, flags, text, help) in a .def makes the struct and the descriptor: define C as
 * one of these, and RS_ROW as the struct's name for the second. */
#define RS_FIELD(ctype, name, title, kind, unit, flags, text, help) ctype name;
#define RS_COLUMN(ctype, name, title, kind, unit, flags, text, help)                               \
    {#name, title, RS_##kind, RS_##unit, flags, offsetof(struct RS_ROW, name), text, help},

/* --- one value ---------------------------------------------------------------------------------- */

int64_t rs_column_i64(const struct rs_column *column, const void *row);
double rs_column_f64(const struct rs_column *column, const void *row);
const char *rs_column_text(const struct rs_column *column, const void *row); /* TEXT, DECIMAL */
bool rs_column_is_null(const struct rs_column *column, const void *row);
void rs_column_set_i64(const struct rs_column *column, void *row, int64_t value);
void rs_column_set_f64(const struct rs_column *column, void *row, double value);
void rs_column_set_text(const struct rs_column *column, void *row, const char *text); /* lends */
void rs_column_set_null(const struct rs_column *column, void *row);
/* All columns absent. */
void rs_row_clear(const struct rs_table *table, void *row);
/* NULL: the table has no such column. */
const struct rs_column *rs_table_column(const struct rs_table *table, const char *name);

/* --- numbers as text: exact decimals of ns and bytes ------------------------------------------------ */

enum { RS_UNIT_TEXT_BYTES = 32 };
void rs_unit_us(char text[RS_UNIT_TEXT_BYTES], int64_t ns);    /* "-0.500": always three decimals */
void rs_unit_ms(char text[RS_UNIT_TEXT_BYTES], int64_t ns);    /* zeros behind the point cut */
void rs_unit_mb(char text[RS_UNIT_TEXT_BYTES], int64_t bytes); /* 10^6 bytes, zeros cut */
/* The double nearest to the decimal text of value / 10^decimals (3 or 6): what a NUMERIC column stores. */
double rs_unit_double(int64_t value, int decimals);

/* --- forms ------------------------------------------------------------------------------------------- */

enum rs_engine { RS_SQLITE, RS_CLICKHOUSE };

/* CREATE TABLE, without a semicolon. A single integer key without partition is SQLite's rowid; other keys make a
 * table WITHOUT ROWID; no key, a plain table. `generation` is appended for ClickHouse. */
void rs_sql_create(const struct rs_table *table, enum rs_engine engine, struct rs_buf *buf);
/* INSERT INTO name (columns) VALUES with one ? a column (SQLite), or FORMAT RowBinary (ClickHouse). */
void rs_sql_insert(const struct rs_table *table, enum rs_engine engine, struct rs_buf *buf);

/* Titles and a line end; RFC 4180: quoted where a comma, quote or line end is in it. */
void rs_csv_head(const struct rs_table *table, struct rs_buf *buf);
void rs_csv_row(const struct rs_table *table, const void *row, struct rs_buf *buf);

/* One object; keys are the columns' names. US3, MS, MB are numbers in their printed unit. */
void rs_json_row(const struct rs_table *table, const void *row, struct rs_buf *buf);
/* JSON Schema (2020-12) of such an object, with unit and help of each column. */
void rs_json_schema(const struct rs_table *table, struct rs_buf *buf);

/* --- blocks: rows column by column, for pages of the wire and segments ----------------------------------- */

enum { RS_BLOCK_ROWS_MAX = 16384, RS_BLOCK_BYTES_MAX = 64 << 20 };

/* Appends at most RS_BLOCK_ROWS_MAX rows (checked: a bug). docs: BLOCK.md beside this file. */
void rs_block_put(const struct rs_table *table, const void *rows, size_t count, struct rs_buf *buf);

/* Rows taken out of a block, and their texts. Zeroed: none. */
struct rs_block {
    const struct rs_table *table;
    void *rows; /* table->row_bytes each */
    size_t count, capacity;
    struct rs_buf texts; /* what the rows' texts lie in */
    bool has_failed;     /* between begin and end */
};
/* The rows of one block; replaces what `block` held, keeps its memory. Trusts nothing: RS_FORMAT for anything but
 * one whole block of this table (columns by name, kind and order), RS_LIMIT, RS_NOMEM; then the block is empty. */
RS_MUST_CHECK enum rs_status rs_block_take(const struct rs_table *table, struct rs_view bytes,
                                           struct rs_block *block, struct rs_err *err);
/* The same from elsewhere, row by row: begin, then add a row (all absent) and set its cells, then end; texts are
 * copied. NULL, or RS_NOMEM at the end: no memory. Rows and texts may be looked at after the end only. */
void rs_block_begin(struct rs_block *block, const struct rs_table *table);
void *rs_block_add(struct rs_block *block);
void rs_block_set_text(struct rs_block *block, const struct rs_column *column, void *row,
                       const char *text, size_t length);
/* The same for a field of the row's struct; NULL stays absent. */
void rs_block_text(struct rs_block *block, const char **field, const char *text);
RS_MUST_CHECK enum rs_status rs_block_end(struct rs_block *block);
/* Row `index`, below count. */
const void *rs_block_row(const struct rs_block *block, size_t index);
void rs_block_fini(struct rs_block *block);

#endif
