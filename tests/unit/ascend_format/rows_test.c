/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All rows of a table come by name and rowid, whatever is in them and however the file is made; damaged files are
 * refused or read as something, and always end.
 */
#include "ascend/format/rows.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <sqlite3.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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

static void spell(const struct rs_ascend_cell *cell, struct rs_buf *out)
{
    rs_buf_u8(out, (uint8_t)('0' + cell->kind));
    if (cell->kind == RS_ASCEND_CELL_INT)
        rs_buf_printf(out, "%lld", (long long)cell->whole);
    if (cell->kind == RS_ASCEND_CELL_REAL)
        rs_buf_printf(out, "%.17g", cell->real);
    if (cell->kind == RS_ASCEND_CELL_TEXT)
        rs_buf_bytes(out, cell->text, cell->length);
    rs_buf_u8(out, ' ');
}

/* All rows as text; the number of rows. */
static size_t read_all(struct rs_ascend_db *db, struct rs_buf *out)
{
    struct rs_ascend_rows rows;
    size_t count = 0;
    enum rs_status status;
    rs_buf_reset(out);
    assert_ok(rs_ascend_rows_open(&rows, db, "T", columns, COLUMNS, NULL));
    while ((status = rs_ascend_rows_next(&rows, NULL)) == RS_OK && ++count)
        for (size_t i = 0; i < COLUMNS; i++)
            spell(&rows.cells[i], out);
    assert_status(status, RS_END);
    rs_ascend_rows_close(&rows);
    return count;
}

/* What a statement of the test's own gives. */
static size_t expect_all(struct rs_buf *out)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    size_t count = 0;
    rs_buf_reset(out);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT n, NULL, t, r, i FROM T ORDER BY rowid", -1, &stmt, NULL),
        SQLITE_OK);
    for (; sqlite3_step(stmt) == SQLITE_ROW; count++)
        for (int i = 0; i < COLUMNS; i++) {
            const int type = sqlite3_column_type(stmt, i);
            struct rs_ascend_cell cell = {.text = ""};
            cell.kind = type == SQLITE_INTEGER ? RS_ASCEND_CELL_INT
                        : type == SQLITE_FLOAT ? RS_ASCEND_CELL_REAL
                        : type == SQLITE_TEXT  ? RS_ASCEND_CELL_TEXT
                                               : RS_ASCEND_CELL_NULL;
            cell.whole = sqlite3_column_int64(stmt, i);
            cell.real = sqlite3_column_double(stmt, i);
            if (type == SQLITE_TEXT) {
                cell.text = (const char *)sqlite3_column_text(stmt, i);
                cell.length = (size_t)sqlite3_column_bytes(stmt, i);
            }
            spell(&cell, out);
        }
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return count;
}

/* The host of attached files, which is otherwise empty. */
static sqlite3 *open_host(void)
{
    sqlite3 *host = NULL;
    assert_int_equal(sqlite3_open_v2(":memory:", &host,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI,
                                     NULL),
                     SQLITE_OK);
    return host;
}

static void expect_same(const char *pragmas, const char *declared)
{
    struct rs_buf ours = {0}, theirs = {0};
    struct rs_ascend_db *db = NULL;
    make(pragmas, declared);
    assert_ok(rs_ascend_db_open(path, &db, NULL));
    const size_t count = read_all(db, &ours);
    assert_int_equal(count, 3000 - 3000 / 11);
    rs_ascend_db_close(&db);
    assert_int_equal(count, expect_all(&theirs));
    assert_int_equal(ours.length, theirs.length);
    assert_memory_equal(ours.data, theirs.data, ours.length);
    rs_buf_fini(&ours);
    rs_buf_fini(&theirs);
}

static void rows_of_every_kind_of_file_are_read(void **state)
{
    (void)state;
    expect_same("PRAGMA page_size=512", "i INTEGER, r REAL, t TEXT, n NUMERIC");
    expect_same("PRAGMA page_size=65536", "n NUMERIC, x, t TEXT, i INTEGER, r DOUBLE");
    expect_same("SELECT 1", "i, r REAL DEFAULT 5, t TEXT, n NUMERIC");
    expect_same("PRAGMA encoding='UTF-16'", "i INTEGER, r REAL, t TEXT, n NUMERIC");
    expect_same("PRAGMA journal_mode=WAL", "i INTEGER, r REAL, t TEXT, n NUMERIC");
    expect_same("SELECT 1", "i INTEGER, r REAL, t TEXT, n NUMERIC, g AS (i + 1)");
}

/* Small ones are attached as bytes, large ones and those in WAL mode themselves. */
static void attached_files_have_the_same_rows(void **state)
{
    static const struct {
        const char *pragmas, *more;
    } files[] = {{"PRAGMA page_size=512", "SELECT 1"},
                 {"PRAGMA page_size=65536", "SELECT 1"},
                 {"PRAGMA journal_mode=WAL", "SELECT 1"},
                 {"PRAGMA page_size=32768",
                  "CREATE TABLE Large (b); INSERT INTO Large VALUES (zeroblob(17 << 20))"}};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct rs_buf ours = {0}, theirs = {0};
        struct rs_ascend_db *db = NULL;
        sqlite3 *host = open_host(), *file = NULL;
        make(files[i].pragmas, "i INTEGER, r REAL, t TEXT, n NUMERIC");
        assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
        run(file, files[i].more);
        assert_int_equal(sqlite3_close(file), SQLITE_OK);
        for (int again = 0; again < 2; again++) { /* detached, it leaves nothing behind */
            assert_ok(rs_ascend_db_attach(path, host, "rank", &db, NULL));
            assert_int_equal(read_all(db, &ours), expect_all(&theirs));
            assert_int_equal(ours.length, theirs.length);
            assert_memory_equal(ours.data, theirs.data, ours.length);
            rs_ascend_db_close(&db);
            run(host, "DETACH rank");
        }
        assert_int_equal(sqlite3_close(host), SQLITE_OK);
        rs_buf_fini(&ours);
        rs_buf_fini(&theirs);
    }
}

/* Of another process: locks of our own would not be in our way. */
static void what_is_being_written_is_not_attached_as_it_stands(void **state)
{
    int ready[2], done[2];
    char byte = 0;
    struct rs_ascend_db *db = NULL;
    struct rs_ascend_rows rows;
    sqlite3 *host = open_host();
    (void)state;
    make("SELECT 1", "i INTEGER, r REAL, t TEXT, n NUMERIC");
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(done), 0);
    const pid_t child = fork();
    if (child == 0) {
        sqlite3 *writer = NULL;
        const bool is_locked =
            sqlite3_open(path, &writer) == SQLITE_OK &&
            sqlite3_exec(writer, "PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE; DELETE FROM T", NULL,
                         NULL, NULL) == SQLITE_OK;
        byte = is_locked ? 'y' : 'n';
        (void)!write(ready[1], &byte, 1);
        (void)!read(done[0], &byte, 1);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    enum rs_status status = rs_ascend_db_attach(path, host, "rank", &db, NULL);
    if (status == RS_OK)
        status = rs_ascend_rows_open(&rows, db, "T", columns, COLUMNS, NULL);
    assert_true(status < 0);
    rs_ascend_db_close(&db);
    assert_int_equal(write(done[1], &byte, 1), 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (int i = 0; i < 2; i++) {
        (void)close(ready[i]);
        (void)close(done[i]);
    }
    assert_int_equal(sqlite3_close(host), SQLITE_OK);
}

static void no_such_table_is_said(void **state)
{
    struct rs_ascend_db *db = NULL;
    struct rs_ascend_rows rows;
    (void)state;
    make("CREATE TABLE X (i); CREATE VIEW V AS SELECT * FROM X", "i, r, t, n");
    assert_ok(rs_ascend_db_open(path, &db, NULL));
    assert_status(rs_ascend_rows_open(&rows, db, "U", columns, COLUMNS, NULL), RS_NOTFOUND);
    assert_status(rs_ascend_rows_open(&rows, db, "V", columns, COLUMNS, NULL), RS_NOTFOUND);
    rs_ascend_db_close(&db);
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
        struct rs_ascend_db *db = NULL;
        struct rs_ascend_rows rows;
        struct rs_buf bent = {0};
        rs_buf_bytes(&bent, whole.data, whole.length);
        for (int i = 0; i < 1 + round % 30; i++) {
            seed = seed * 1664525U + 1013904223U;
            const size_t range = round % 3 ? 1024 : whole.length; /* mostly header and schema */
            bent.data[(seed >> 8) % range] ^= (uint8_t)(1U << (seed >> 5) % 8);
        }
        assert_ok(rs_file_replace(path, bent.data, bent.length, false, NULL));
        sqlite3 *host = round % 2 ? open_host() : NULL;
        enum rs_status status = host ? rs_ascend_db_attach(path, host, "rank", &db, NULL)
                                     : rs_ascend_db_open(path, &db, NULL);
        if (status == RS_OK)
            status = rs_ascend_rows_open(&rows, db, "T", columns, COLUMNS, NULL);
        if (status == RS_OK) {
            for (size_t count = 0; status == RS_OK; count++) {
                assert_true(count < 1000000);
                status = rs_ascend_rows_next(&rows, NULL);
                for (size_t i = 0; i < COLUMNS && status == RS_OK; i++)
                    spell(&rows.cells[i], &text); /* every byte lent is there */
                rs_buf_reset(&text);
            }
            rs_ascend_rows_close(&rows);
        }
        assert_true(status == RS_END || status == RS_FORMAT || status == RS_NOTFOUND ||
                    status == RS_IO || (host && status == RS_INVALID));
        rs_ascend_db_close(&db);
        assert_int_equal(sqlite3_close(host), SQLITE_OK);
        rs_buf_fini(&bent);
    }
    rs_buf_fini(&whole);
    rs_buf_fini(&text);
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
        cmocka_unit_test(rows_of_every_kind_of_file_are_read),
        cmocka_unit_test(attached_files_have_the_same_rows),
        cmocka_unit_test(what_is_being_written_is_not_attached_as_it_stands),
        cmocka_unit_test(no_such_table_is_said),
        cmocka_unit_test(damaged_files_end_in_one_way_or_the_other),
    };
    return cmocka_run_group_tests(tests, make_name, remove_name);
}
