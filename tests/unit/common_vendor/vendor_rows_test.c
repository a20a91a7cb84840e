/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows from pages are the rows that SQLite gives, whatever is in them; damaged files are refused or
 * read as something, and always end.
 */
#include "common/vendor/vendor_rows.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "tests/support/rs_test.h"

#include <sqlite3.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/rs-vendor-rows-XXXXXX";

static const char *const columns[] = {"n", "missing", "t", "r", "i"};
enum { COLUMNS = 5 };

static void run(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

/* Small pages make the tree deep; texts of up to 3000 bytes make overflow chains. */
static void make(const char *pragmas, const char *declared)
{
    sqlite3 *db = NULL;
    char sql[1024];
    (void)unlink(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    run(db, pragmas);
    (void)snprintf(sql, sizeof sql, "CREATE TABLE T (%s)", declared);
    run(db, sql);
    run(db,
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3000) INSERT INTO "
        "T (i, r, t, n) SELECT x * x * x * (1 - 2 * (x % 2)) * 1000, x, substr(hex(zeroblob("
        "x % 7 * 200)) || 'text', 1, x % 3000), CASE x % 5 WHEN 0 THEN NULL WHEN 1 THEN x WHEN 2 "
        "THEN x / 7.0 WHEN 3 THEN 'n' || x ELSE x % 2 END FROM c");
    run(db, "DELETE FROM T WHERE rowid % 11 = 0");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void spell(const struct rs_vendor_cell *cell, struct rs_buf *out)
{
    rs_buf_u8(out, (uint8_t)('0' + cell->kind));
    if (cell->kind == RS_VENDOR_CELL_INT)
        rs_buf_printf(out, "%lld", (long long)cell->whole);
    if (cell->kind == RS_VENDOR_CELL_REAL)
        rs_buf_printf(out, "%.17g", cell->real);
    if (cell->kind == RS_VENDOR_CELL_TEXT)
        rs_buf_bytes(out, cell->text, cell->length);
    rs_buf_u8(out, ' ');
}

/* All rows as text, from pages or by SQLite; the number of rows. */
static size_t read_all(struct rs_vendor_db *db, bool by_sqlite, struct rs_buf *out)
{
    struct rs_vendor_rows_file file = {0};
    struct rs_vendor_rows rows;
    size_t count = 0;
    enum rs_status status;
    rs_buf_reset(out);
    if (by_sqlite) { /* what the room falls back to */
        rows = (struct rs_vendor_rows){.db = db, .column_count = COLUMNS};
        assert_ok(rs_vendor_db_prepare(db, "SELECT n, NULL, t, r, i FROM T ORDER BY rowid",
                                       &rows.stmt, NULL));
    } else {
        assert_ok(rs_vendor_rows_open(&rows, db, &file, "T", columns, COLUMNS, NULL));
    }
    while ((status = rs_vendor_rows_next(&rows, NULL)) == RS_OK && ++count)
        for (size_t i = 0; i < COLUMNS; i++)
            spell(&rows.cells[i], out);
    assert_status(status, RS_END);
    rs_vendor_rows_close(&rows);
    rs_buf_fini(&file.bytes);
    return count;
}

static bool is_from_pages(struct rs_vendor_db *db)
{
    struct rs_vendor_rows_file file = {0};
    struct rs_vendor_rows rows;
    assert_ok(rs_vendor_rows_open(&rows, db, &file, "T", columns, COLUMNS, NULL));
    const bool from_pages = rows.stmt == NULL;
    rs_vendor_rows_close(&rows);
    rs_buf_fini(&file.bytes);
    return from_pages;
}

static void expect_same(const char *pragmas, const char *declared, bool from_pages)
{
    struct rs_buf ours = {0}, theirs = {0};
    struct rs_vendor_db *db = NULL;
    make(pragmas, declared);
    assert_ok(rs_vendor_db_open(path, &db, NULL));
    assert_int_equal(is_from_pages(db), from_pages);
    const size_t count = read_all(db, false, &ours);
    assert_int_equal(count, read_all(db, true, &theirs));
    assert_int_equal(count, 3000 - 3000 / 11);
    assert_int_equal(ours.length, theirs.length);
    assert_memory_equal(ours.data, theirs.data, ours.length);
    rs_vendor_db_close(&db);
    rs_buf_fini(&ours);
    rs_buf_fini(&theirs);
}

static void rows_from_pages_are_those_of_sqlite(void **state)
{
    (void)state;
    expect_same("PRAGMA page_size=512", "i INTEGER, r REAL, t TEXT, n NUMERIC", true);
    expect_same("PRAGMA page_size=4096", "n NUMERIC, x, t TEXT, i INTEGER, r DOUBLE", true);
    expect_same("PRAGMA page_size=65536", "i, r, t, n", true);
}

static void tables_that_are_not_plain_are_read_by_sqlite(void **state)
{
    (void)state;
    expect_same("SELECT 1", "i INTEGER, r REAL DEFAULT 5, t TEXT, n NUMERIC", false);
    expect_same("PRAGMA encoding='UTF-16'", "i INTEGER, r REAL, t TEXT, n NUMERIC", false);
    expect_same("PRAGMA journal_mode=WAL", "i INTEGER, r REAL, t TEXT, n NUMERIC", false);
    expect_same("SELECT 1", "i INTEGER, r REAL, t TEXT, n NUMERIC, g AS (i + 1)", false);
}

static void no_such_table_is_said(void **state)
{
    struct rs_vendor_db *db = NULL;
    struct rs_vendor_rows_file file = {0};
    struct rs_vendor_rows rows;
    (void)state;
    make("SELECT 1", "i, r, t, n");
    assert_ok(rs_vendor_db_open(path, &db, NULL));
    assert_status(rs_vendor_rows_open(&rows, db, &file, "U", columns, COLUMNS, NULL), RS_NOTFOUND);
    rs_vendor_db_close(&db);
}

/* Bytes are changed behind an open handle: the schema is known, the pages lie. */
static void damaged_pages_end_in_one_way_or_the_other(void **state)
{
    struct rs_buf whole = {0};
    struct rs_vendor_db *db = NULL;
    uint32_t seed = 12345;
    (void)state;
    make("PRAGMA page_size=512", "i INTEGER, r REAL, t TEXT, n NUMERIC");
    assert_ok(rs_file_read(path, 1 << 26, &whole, NULL));
    assert_ok(rs_vendor_db_open(path, &db, NULL));
    struct rs_vendor_rows_file file = {0};
    struct rs_vendor_rows rows;
    assert_ok(rs_vendor_rows_open(&rows, db, &file, "T", columns, COLUMNS, NULL));
    const struct rs_vendor_rows fresh = rows;
    for (int round = 0; round < 300; round++) {
        enum rs_status status = RS_OK;
        rows = fresh;
        rows.payload = (struct rs_buf){0};
        memcpy(file.bytes.data, whole.data, whole.length);
        for (int i = 0; i < 1 + round % 40; i++) {
            seed = seed * 1664525U + 1013904223U;
            file.bytes.data[512 + seed % (whole.length - 512)] ^= (uint8_t)(seed >> 24 | 1);
        }
        for (size_t count = 0; status == RS_OK; count++) {
            assert_true(count < 1000000);
            status = rs_vendor_rows_next(&rows, NULL);
        }
        assert_true(status == RS_END || status == RS_FORMAT);
        rs_buf_fini(&rows.payload);
    }
    rows.payload = (struct rs_buf){0};
    rs_vendor_rows_close(&rows);
    rs_buf_fini(&file.bytes);
    rs_vendor_db_close(&db);
    rs_buf_fini(&whole);
}

static int make_name(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_name(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_from_pages_are_those_of_sqlite),
        cmocka_unit_test(tables_that_are_not_plain_are_read_by_sqlite),
        cmocka_unit_test(no_such_table_is_said),
        cmocka_unit_test(damaged_pages_end_in_one_way_or_the_other),
    };
    return cmocka_run_group_tests(tests, make_name, remove_name);
}
