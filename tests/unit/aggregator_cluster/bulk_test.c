/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables written as pages are whole for SQLite: its own check says so, and it reads back what went in.
 */
#include "aggregator/cluster/bulk.h"

#include "tests/support/rs_test.h"

#include <sqlite3.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/rs-cluster-bulk-XXXXXX";

static uint32_t make_table(void)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    (void)unlink(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "PRAGMA page_size=4096; CREATE TABLE A (x); INSERT INTO A VALUES "
                                  "(1); CREATE TABLE T (i INTEGER, r REAL, t TEXT, n)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT rootpage FROM sqlite_master WHERE name = 'T'",
                                        -1, &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    const uint32_t root = (uint32_t)sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return root;
}

/* Every size of integer, with its neighbours. */
static int64_t integer_of(uint64_t row)
{
    const unsigned shift = (unsigned)(row % 64);
    const uint64_t value = (UINT64_C(1) << shift) - row % 3;
    return row % 2 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

static size_t text_length(uint64_t row)
{
    return row % 997 == 0 ? 20000 : row % 101 == 0 ? 4000 + row % 200 : row % 40;
}

static void fill(struct bulk *bulk, uint64_t rows)
{
    static char text[20000];
    memset(text, 'x', sizeof text);
    for (uint64_t row = 0; row < rows; row++) {
        bulk_int(bulk, integer_of(row));
        if (row % 4)
            bulk_real(bulk, (double)row / 7);
        else
            bulk_int(bulk, (int64_t)row);
        bulk_text(bulk, text, text_length(row));
        bulk_null(bulk);
        bulk_end_row(bulk);
    }
}

static void expect_rows(uint64_t rows)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    uint64_t row = 0;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(stmt, 0), "ok");
    (void)sqlite3_finalize(stmt);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT rowid, i, r, t, n, typeof(r) FROM T", -1, &stmt, NULL),
        SQLITE_OK);
    for (; sqlite3_step(stmt) == SQLITE_ROW; row++) {
        assert_int_equal(sqlite3_column_int64(stmt, 0), row + 1);
        assert_int_equal(sqlite3_column_int64(stmt, 1), integer_of(row));
        assert_true(sqlite3_column_double(stmt, 2) == (row % 4 ? (double)row / 7 : (double)row));
        assert_int_equal(sqlite3_column_bytes(stmt, 3), text_length(row));
        assert_int_equal(sqlite3_column_type(stmt, 4), SQLITE_NULL);
        assert_string_equal((const char *)sqlite3_column_text(stmt, 5), "real");
    }
    assert_int_equal(row, rows);
    (void)sqlite3_finalize(stmt);
    /* and it goes on living */
    assert_int_equal(
        sqlite3_exec(db,
                     "INSERT INTO T VALUES (1, 2, 'x', 3); DELETE FROM T WHERE rowid % 2; "
                     "PRAGMA integrity_check",
                     NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void tables_of_every_depth_are_whole(void **state)
{
    static const uint64_t sizes[] = {0, 1, 2, 100, 5000, 30000, 200000};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct bulk *bulk = calloc(1, sizeof *bulk);
        assert_non_null(bulk);
        const uint32_t root = make_table();
        assert_ok(bulk_open(bulk, path));
        bulk_begin(bulk, root);
        fill(bulk, sizes[i]);
        bulk_end(bulk);
        assert_ok(bulk_close(bulk));
        free(bulk);
        expect_rows(sizes[i]);
    }
}

static void other_files_are_refused(void **state)
{
    struct bulk *bulk = calloc(1, sizeof *bulk);
    sqlite3 *db = NULL;
    (void)state;
    assert_non_null(bulk);
    assert_status(bulk_open(bulk, "/nowhere/at.all"), RS_IO);
    assert_status(bulk_close(bulk), RS_IO);
    (void)unlink(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "PRAGMA page_size=8192; CREATE TABLE T (x)", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_status(bulk_open(bulk, path), RS_FORMAT);
    assert_status(bulk_close(bulk), RS_FORMAT);
    free(bulk);
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
        cmocka_unit_test(tables_of_every_depth_are_whole),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_name, remove_name);
}
