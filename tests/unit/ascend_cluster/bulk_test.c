/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that go in many at a time come out of SQLite as they went in, whatever their values; what cannot be written
 * is a failure of the file.
 */
#include "ascend/cluster/bulk.h"

#include "tests/support/rs_test.h"

#include <sqlite3.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/rs-cluster-bulk-XXXXXX";

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

/* In portions of uneven size; every other row begins with a start. */
static void fill(struct bulk_table *table, uint64_t count)
{
    static char text[20000];
    struct bulk_rows rows = {0};
    struct bulk_start start = {0};
    memset(text, 'x', sizeof text);
    for (uint64_t row = 0; row < count; row++) {
        bulk_int(&rows, integer_of(row));
        if (row % 4)
            bulk_real(&rows, (double)row / 7);
        else
            bulk_int(&rows, (int64_t)row);
        bulk_text(&rows, text, text_length(row));
        if (row % 2) {
            bulk_take_start(&rows, &start);
            bulk_put_start(&rows, &start);
        }
        bulk_null(&rows);
        bulk_end_row(&rows);
        if (row % 700 == 300) {
            bulk_add(table, &rows);
            bulk_rows_reset(&rows);
        }
    }
    bulk_add(table, &rows);
    bulk_rows_fini(&rows);
    bulk_start_fini(&start);
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
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void what_goes_in_comes_out(void **state)
{
    static const uint64_t sizes[] = {0, 1, 2, 100, 5000, 30000};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct bulk bulk;
        struct bulk_table table, other;
        (void)unlink(path);
        assert_ok(bulk_open(&bulk, path));
        bulk_begin(&other, &bulk, "A", 1);
        bulk_begin(&table, &bulk, "T", 4);
        fill(&table, sizes[i]);
        bulk_end(&table, "i INTEGER, r REAL, t TEXT, n");
        bulk_end(&other, NULL);
        assert_ok(bulk_close(&bulk));
        expect_rows(sizes[i]);
    }
}

static enum rs_status close_after(unsigned columns, unsigned second_row)
{
    struct bulk bulk;
    struct bulk_table table;
    struct bulk_rows rows = {0};
    (void)unlink(path);
    assert_ok(bulk_open(&bulk, path));
    bulk_begin(&table, &bulk, "T", 4);
    for (unsigned c = 0; c < columns; c++)
        bulk_int(&rows, 5);
    bulk_end_row(&rows);
    for (unsigned c = 0; c < second_row; c++)
        bulk_null(&rows);
    bulk_end_row(&rows);
    bulk_add(&table, &rows);
    bulk_end(&table, NULL);
    bulk_rows_fini(&rows);
    return bulk_close(&bulk);
}

/* A row of another length is a failure of the file, not a crash and not a row of something else. */
static void rows_of_other_lengths_are_refused(void **state)
{
    (void)state;
    assert_status(close_after(4, 4), RS_OK);
    assert_status(close_after(3, 3), RS_LIMIT);
    assert_status(close_after(4, 3), RS_LIMIT);
    assert_status(close_after(4, 5), RS_LIMIT);
    assert_status(close_after(BULK_COLUMNS_MAX + 1, 4), RS_LIMIT);
}

static void a_file_that_cannot_be_made_is_an_error(void **state)
{
    struct bulk bulk;
    (void)state;
    assert_status(bulk_open(&bulk, "/nowhere/at.all"), RS_IO);
    assert_status(bulk_close(&bulk), RS_IO);
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
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(rows_of_other_lengths_are_refused),
        cmocka_unit_test(a_file_that_cannot_be_made_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_name, remove_name);
}
