/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables written as pages are whole for SQLite: its own check says so, and it reads back what went in.
 */
#include "aggregator/cluster/bulk.h"

#include "tests/support/rs_test.h"

#include <sqlite3.h>

#include <inttypes.h>
#include <stdio.h>
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

/* In portions of uneven size. */
static void fill(struct bulk_table *table, uint64_t count)
{
    static char text[20000];
    struct bulk_rows rows = {0};
    memset(text, 'x', sizeof text);
    for (uint64_t row = 0; row < count; row++) {
        bulk_int(&rows, integer_of(row));
        if (row % 4)
            bulk_real(&rows, (double)row / 7);
        else
            bulk_int(&rows, (int64_t)row);
        bulk_text(&rows, text, text_length(row));
        bulk_null(&rows);
        bulk_end_row(&rows);
        if (row % 700 == 300) {
            bulk_add(table, &rows);
            bulk_rows_reset(&rows);
        }
    }
    bulk_add(table, &rows);
    bulk_rows_fini(&rows);
}

/* Heads longer than the room left for them, up to all columns. */
static void heads_of_every_length_are_whole(void **state)
{
    (void)state;
    for (unsigned columns = 1; columns <= BULK_COLUMNS_MAX; columns++) {
        struct bulk bulk;
        struct bulk_table table;
        struct bulk_rows rows = {0};
        sqlite3 *db = NULL;
        sqlite3_stmt *stmt = NULL;
        char sql[512] = "CREATE TABLE T (c0";
        static char text[9000];
        memset(text, 'y', sizeof text);
        for (unsigned c = 1; c < columns; c++)
            (void)snprintf(sql + strlen(sql), sizeof sql - strlen(sql), ",c%u", c);
        (void)snprintf(sql + strlen(sql), sizeof sql - strlen(sql), ")");
        (void)unlink(path);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_ok(bulk_open(&bulk, path));
        bulk_begin(&table, &bulk, 2);
        for (unsigned row = 0; row < 3; row++) {
            for (unsigned c = 0; c < columns; c++)
                bulk_text(&rows, text, row == 0 ? c : row == 1 ? 100 + c : 8500 + c);
            bulk_end_row(&rows);
        }
        bulk_add(&table, &rows);
        bulk_end(&table);
        bulk_rows_fini(&rows);
        assert_ok(bulk_close(&bulk));
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM T", -1, &stmt, NULL), SQLITE_OK);
        for (unsigned row = 0; row < 3; row++) {
            assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
            for (unsigned c = 0; c < columns; c++)
                assert_int_equal(sqlite3_column_bytes(stmt, (int)c), row == 0   ? c
                                                                     : row == 1 ? 100 + c
                                                                                : 8500 + c);
        }
        assert_int_equal(sqlite3_step(stmt), SQLITE_DONE);
        (void)sqlite3_finalize(stmt);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
    }
}

/* One column too many is a failure of the file, not a crash. */
static void too_many_columns_are_refused(void **state)
{
    struct bulk bulk;
    struct bulk_table table;
    struct bulk_rows rows = {0};
    (void)state;
    const uint32_t root = make_table();
    assert_ok(bulk_open(&bulk, path));
    bulk_begin(&table, &bulk, root);
    for (unsigned c = 0; c <= BULK_COLUMNS_MAX; c++)
        bulk_int(&rows, 5);
    bulk_end_row(&rows);
    bulk_add(&table, &rows);
    bulk_end(&table);
    bulk_rows_fini(&rows);
    assert_status(bulk_close(&bulk), RS_LIMIT);
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
        struct bulk bulk;
        struct bulk_table table;
        const uint32_t root = make_table();
        assert_ok(bulk_open(&bulk, path));
        bulk_begin(&table, &bulk, root);
        fill(&table, sizes[i]);
        bulk_end(&table);
        assert_ok(bulk_close(&bulk));
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
        cmocka_unit_test(heads_of_every_length_are_whole),
        cmocka_unit_test(too_many_columns_are_refused),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_name, remove_name);
}
