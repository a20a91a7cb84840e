/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows from pages are the rows that SQLite gives, whatever is in them; damaged files are refused or
 * read as something, and always end.
 */
#include "common/vendor/vendor_rows.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
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
static size_t read_all_of(struct rs_vendor_db *db, struct rs_vendor_rows_file *file, bool by_sqlite,
                          struct rs_buf *out)
{
    struct rs_vendor_rows rows;
    size_t count = 0;
    enum rs_status status;
    rs_buf_reset(out);
    if (by_sqlite) { /* what the room falls back to */
        rows = (struct rs_vendor_rows){.db = db, .column_count = COLUMNS};
        assert_ok(rs_vendor_db_prepare(db, "SELECT n, NULL, t, r, i FROM T ORDER BY rowid",
                                       &rows.stmt, NULL));
    } else {
        assert_ok(rs_vendor_rows_open(&rows, db, file, "T", columns, COLUMNS, NULL));
    }
    while ((status = rs_vendor_rows_next(&rows, NULL)) == RS_OK && ++count)
        for (size_t i = 0; i < COLUMNS; i++)
            spell(&rows.cells[i], out);
    assert_status(status, RS_END);
    rs_vendor_rows_close(&rows);
    return count;
}

static size_t read_all(struct rs_vendor_db *db, bool by_sqlite, struct rs_buf *out)
{
    struct rs_vendor_rows_file file = {0};
    const size_t count = read_all_of(db, &file, by_sqlite, out);
    rs_buf_fini(&file.bytes);
    return count;
}

/* The same with no SQLite at all, the file as a whole or page by page. */
static void expect_same_by_hand(const struct rs_buf *theirs, bool is_whole, bool by_hand)
{
    struct rs_vendor_rows_file file = {0};
    struct rs_vendor_db *db = NULL;
    struct rs_buf ours = {0};
    for (int round = 0; round < 2; round++) { /* the memory serves twice */
        assert_ok(rs_vendor_db_open_still(path, &file, is_whole, &db, NULL));
        assert_int_equal(read_all_of(db, &file, false, &ours), 3000 - 3000 / 11);
        assert_int_equal(rs_vendor_db_still(db) != NULL, by_hand);
        assert_int_equal(ours.length, theirs->length);
        assert_memory_equal(ours.data, theirs->data, ours.length);
        rs_vendor_db_close(&db);
        assert_null(db);
    }
    rs_buf_fini(&ours);
    rs_vendor_rows_file_fini(&file);
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
    expect_same_by_hand(&theirs, true, from_pages);
    expect_same_by_hand(&theirs, false, from_pages);
    rs_buf_fini(&ours);
    rs_buf_fini(&theirs);
}

static void rows_from_pages_are_those_of_sqlite(void **state)
{
    (void)state;
    expect_same("PRAGMA page_size=512", "i INTEGER, r REAL, t TEXT, n NUMERIC", true);
    expect_same("PRAGMA page_size=4096", "n NUMERIC, x, t TEXT, i INTEGER, r DOUBLE", true);
    expect_same("PRAGMA page_size=65536", "i, r, t, n", true);
    expect_same("PRAGMA page_size=1024", "\"i\" INT,r FLOAT , t TEXT,\n\tn NUMERIC", true);
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

static int try_sql(const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    const int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return code;
}

/* Another process' writer and reader; here the same one's, whose locks are of another open file. */
static void writers_wait_while_pages_are_read(void **state)
{
    struct rs_vendor_rows_file file = {0};
    struct rs_vendor_db *db = NULL;
    (void)state;
    make("SELECT 1", "i INTEGER, r REAL, t TEXT, n NUMERIC");
    assert_ok(rs_vendor_db_open_still(path, &file, true, &db, NULL));
    assert_non_null(rs_vendor_db_still(db));
    assert_int_equal(try_sql("SELECT count(*) FROM T"), SQLITE_OK);
    assert_int_equal(try_sql("DELETE FROM T"), SQLITE_BUSY);
    rs_vendor_db_close(&db);
    assert_int_equal(try_sql("DELETE FROM T"), SQLITE_OK);
    rs_vendor_rows_file_fini(&file);
}

/* A writer at work, or stopped: SQLite's business. */
static void a_database_in_writing_is_not_read_by_hand(void **state)
{
    struct rs_vendor_rows_file file = {0};
    sqlite3 *writer = NULL;
    (void)state;
    make("SELECT 1", "i INTEGER, r REAL, t TEXT, n NUMERIC");
    assert_int_equal(sqlite3_open(path, &writer), SQLITE_OK);
    run(writer, "BEGIN EXCLUSIVE; DELETE FROM T");
    assert_false(rs_vendor_pages_open(&file, path, true));
    run(writer, "ROLLBACK");
    assert_true(rs_vendor_pages_open(&file, path, true));
    rs_vendor_pages_close(&file);
    assert_int_equal(sqlite3_close(writer), SQLITE_OK);
    rs_vendor_rows_file_fini(&file);
}

/* What a statement is needed for comes by SQLite, from the same handle. */
static void sqlite_takes_over_when_it_is_needed(void **state)
{
    struct rs_vendor_rows_file file = {0};
    struct rs_vendor_db *db = NULL;
    struct rs_vendor_rows rows;
    struct rs_buf before = {0}, after = {0};
    (void)state;
    make("SELECT 1", "i INTEGER, r REAL, t TEXT, n NUMERIC");
    assert_ok(rs_vendor_db_open_still(path, &file, true, &db, NULL));
    assert_status(rs_vendor_rows_open(&rows, db, &file, "U", columns, COLUMNS, NULL), RS_NOTFOUND);
    assert_ptr_equal(rs_vendor_db_still(db), &file);
    (void)read_all_of(db, &file, false, &before);
    assert_true(rs_vendor_db_has_column(db, "T", "t"));
    assert_null(rs_vendor_db_still(db));
    (void)read_all_of(db, &file, false, &after);
    assert_int_equal(before.length, after.length);
    assert_memory_equal(before.data, after.data, after.length);
    rs_vendor_db_close(&db);
    rs_vendor_rows_file_fini(&file);
    rs_buf_fini(&before);
    rs_buf_fini(&after);
}

/* Small tables: the same answers with and without SQLite, whatever stands in the cells. */
static void small_tables_say_the_same_by_hand(void **state)
{
    static const char *const values[] = {"('a', 'b')", "(1, 2)", "(NULL, NULL)", "(x'41', 2.5)",
                                         ""};
    static const char *const kinds[] = {"TEXT", "INTEGER", "", "NUMERIC DEFAULT 3"};
    (void)state;
    for (size_t v = 0; v < 5; v++)
        for (size_t k = 0; k < 4; k++) {
            struct rs_vendor_rows_file file = {0};
            sqlite3 *writer = NULL;
            char sql[512];
            (void)unlink(path);
            assert_int_equal(sqlite3_open(path, &writer), SQLITE_OK);
            (void)snprintf(sql, sizeof sql,
                           "CREATE TABLE HOST_INFO (hostUid %s, hostName %s);"
                           "CREATE TABLE RANK_DEVICE_MAP (rankId %s, deviceId %s);"
                           "CREATE TABLE META_DATA (name %s, value %s)",
                           kinds[k], kinds[k], kinds[k], kinds[k], kinds[k], kinds[k]);
            run(writer, sql);
            for (int t = 0; t < 3 && values[v][0]; t++) {
                static const char *const tables[] = {"HOST_INFO", "RANK_DEVICE_MAP", "META_DATA"};
                (void)snprintf(sql, sizeof sql, "INSERT INTO %s VALUES %s", tables[t], values[v]);
                run(writer, sql);
            }
            assert_int_equal(sqlite3_close(writer), SQLITE_OK);
            char *uids[2] = {NULL, NULL}, *names[2] = {NULL, NULL}, *metas[2] = {NULL, NULL};
            int64_t ranks[2] = {-7, -7}, devices[2] = {-7, -7};
            enum rs_status host[2], rank[2], meta[2];
            for (int i = 0; i < 2; i++) {
                struct rs_vendor_db *db = NULL;
                if (i)
                    assert_ok(rs_vendor_db_open_still(path, &file, false, &db, NULL));
                else
                    assert_ok(rs_vendor_db_open(path, &db, NULL));
                meta[i] = rs_vendor_db_meta(db, "a", &metas[i], NULL);
                host[i] = rs_vendor_db_host(db, &uids[i], &names[i], NULL);
                rank[i] = rs_vendor_db_rank(db, &ranks[i], &devices[i], NULL);
                rs_vendor_db_close(&db);
            }
            assert_status(host[1], host[0]);
            assert_status(rank[1], rank[0]);
            assert_status(meta[1], meta[0]);
            assert_int_equal(ranks[0], ranks[1]);
            assert_int_equal(devices[0], devices[1]);
            for (int i = 0; i < 2; i++) {
                assert_string_equal(uids[i] ? uids[i] : "none", uids[0] ? uids[0] : "none");
                assert_string_equal(names[i] ? names[i] : "none", names[0] ? names[0] : "none");
                assert_string_equal(metas[i] ? metas[i] : "none", metas[0] ? metas[0] : "none");
            }
            for (int i = 0; i < 2; i++) {
                rs_mem_free(uids[i]);
                rs_mem_free(names[i]);
                rs_mem_free(metas[i]);
            }
            rs_vendor_rows_file_fini(&file);
        }
}

/* All bytes may lie, the schema's too; whoever reads such a file comes to an end. */
static void damaged_files_end_in_one_way_or_the_other(void **state)
{
    struct rs_buf whole = {0}, text = {0};
    uint32_t seed = 99;
    (void)state;
    make("PRAGMA page_size=512", "i INTEGER, r REAL, t TEXT, n NUMERIC");
    assert_ok(rs_file_read(path, 1 << 26, &whole, NULL));
    for (int round = 0; round < 300; round++) {
        struct rs_vendor_rows_file file = {0};
        struct rs_vendor_db *db = NULL;
        struct rs_vendor_rows rows;
        struct rs_buf bent = {0};
        rs_buf_bytes(&bent, whole.data, whole.length);
        for (int i = 0; i < 1 + round % 30; i++) {
            seed = seed * 1664525U + 1013904223U;
            const size_t range = round % 3 ? 1024 : whole.length; /* mostly header and schema */
            bent.data[(seed >> 8) % range] ^= (uint8_t)(1U << (seed >> 5) % 8);
        }
        assert_ok(rs_file_replace(path, bent.data, bent.length, false, NULL));
        enum rs_status status = rs_vendor_db_open_still(path, &file, round % 2, &db, NULL);
        if (status == RS_OK)
            status = rs_vendor_rows_open(&rows, db, &file, "T", columns, COLUMNS, NULL);
        if (status == RS_OK) {
            for (size_t count = 0; status == RS_OK; count++) {
                assert_true(count < 1000000);
                status = rs_vendor_rows_next(&rows, NULL);
                for (size_t i = 0; i < COLUMNS && status == RS_OK; i++)
                    spell(&rows.cells[i], &text); /* every byte lent is there */
                rs_buf_reset(&text);
            }
            rs_vendor_rows_close(&rows);
        }
        assert_true(status == RS_END || status == RS_FORMAT || status == RS_NOTFOUND ||
                    status == RS_IO);
        rs_vendor_db_close(&db);
        rs_vendor_rows_file_fini(&file);
        rs_buf_fini(&bent);
    }
    rs_buf_fini(&whole);
    rs_buf_fini(&text);
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
        cmocka_unit_test(writers_wait_while_pages_are_read),
        cmocka_unit_test(a_database_in_writing_is_not_read_by_hand),
        cmocka_unit_test(sqlite_takes_over_when_it_is_needed),
        cmocka_unit_test(small_tables_say_the_same_by_hand),
        cmocka_unit_test(damaged_files_end_in_one_way_or_the_other),
        cmocka_unit_test(damaged_pages_end_in_one_way_or_the_other),
    };
    return cmocka_run_group_tests(tests, make_name, remove_name);
}
