/* SPDX-License-Identifier: Apache-2.0 */
/* Row structs become a SQLite file that is whole or not there, with every value as its column says. */
#include "aggregator/store/table_file.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <sqlite3.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *word(int64_t code)
{
    return code ? "one" : "zero";
}

#define C RS_FIELD
struct row {
#include "tests/unit/aggregator_store/values.def"
};
#undef C
#define C      RS_COLUMN
#define RS_ROW row
static const struct rs_column columns[] = {
#include "tests/unit/aggregator_store/values.def"
};
#undef C
static const struct rs_table table = {"Kinds", columns, sizeof columns / sizeof columns[0],
                                      sizeof(struct row)};

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    tmp_dir_make(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    tmp_dir_remove(folder);
    return 0;
}

static void query(const char *name, const char *sql, char *text, size_t size)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    char *path = rs_file_join(folder, name);
    size_t used = 0;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    rs_mem_free(path);
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    text[0] = '\0';
    while (sqlite3_step(statement) == SQLITE_ROW)
        for (int c = 0; c < sqlite3_column_count(statement); c++) {
            const unsigned char *cell = sqlite3_column_text(statement, c);
            used += (size_t)snprintf(text + used, size - used, "%s|",
                                     cell ? (const char *)cell : "NULL");
        }
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static struct rs_table_file *begin(const char *name)
{
    struct rs_table_file *file = NULL;
    assert_ok(rs_table_file_create(folder, name, &file, NULL));
    assert_ok(rs_table_file_add_table(file, &table, NULL));
    return file;
}

static void values_are_stored_as_their_columns_say(void **state)
{
    (void)state;
    char text[1024];
    struct rs_table_file *file = begin("values.db");
    struct row rows[3];
    for (int i = 0; i < 3; i++) {
        rs_row_clear(&table, &rows[i]);
        rows[i].key = i;
        rows[i].plain = 7;
    }
    rows[0] = (struct row){.key = 0,
                           .plain = RS_NULL,
                           .number = INT64_MAX,
                           .real = 2.5,
                           .text = "it's",
                           .digits = "1.50",
                           .bare = "01.50",
                           .us = 60000,
                           .ms = 1,
                           .mb = 4096000,
                           .code = 1,
                           .said = 1};
    rows[1].digits = "12 apples";
    rows[1].text = "";
    assert_ok(rs_table_file_put(file, &table, rows, 3, NULL));
    assert_ok(rs_table_file_close(&file, RS_OK, NULL));
    assert_null(file);
    query("values.db", "SELECT * FROM Kinds WHERE key = 0", text, sizeof text);
    assert_string_equal(text, "0|-9223372036854775808|9223372036854775807|2.5|it's|1.5|01.50|60|"
                              "1.0e-06|4.096|1|one|");
    query("values.db", "SELECT * FROM Kinds WHERE key = 1", text, sizeof text);
    assert_string_equal(text, "1|7|NULL|NULL||12 apples|NULL|NULL|NULL|NULL|NULL|NULL|");
    query("values.db",
          "SELECT typeof(us), typeof(digits), typeof(bare), typeof(said) FROM Kinds "
          "WHERE key = 0",
          text, sizeof text);
    assert_string_equal(text, "integer|real|text|text|");
    query("values.db", "PRAGMA integrity_check", text, sizeof text);
    assert_string_equal(text, "ok|");
    query("values.db", "SELECT count(*) FROM sqlite_master", text, sizeof text);
    assert_string_equal(text, "1|"); /* no trace of how the rows came in */
}

static void many_rows_come_in_pieces(void **state)
{
    (void)state;
    char text[256];
    enum { COUNT = 100000 };
    struct rs_table_file *file = begin("many.db");
    struct rs_table_rows rows = {.table = &table};
    for (int64_t i = 0; i < COUNT; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "name %d", (int)(i % 1000));
        struct row *row = rs_table_rows_add(&rows, file, NULL);
        assert_non_null(row);
        row->key = i;
        row->plain = i;
        rs_block_text(&rows.block, &row->text, name);
    }
    assert_ok(rs_table_rows_flush(&rows, file, NULL));
    rs_table_rows_fini(&rows);
    assert_ok(rs_table_file_close(&file, RS_OK, NULL));
    query("many.db", "SELECT count(*), sum(plain), count(DISTINCT text) FROM Kinds", text,
          sizeof text);
    assert_string_equal(text, "100000|4999950000|1000|");
}

static void a_key_that_is_there_is_refused(void **state)
{
    (void)state;
    char text[256];
    struct rs_err err = {0};
    struct rs_table_file *file = begin("twice.db");
    struct row rows[3];
    for (int i = 0; i < 3; i++) {
        rs_row_clear(&table, &rows[i]);
        rows[i].key = i == 2 ? 0 : i;
        rows[i].plain = i;
    }
    assert_status(rs_table_file_put(file, &table, rows, 3, &err), RS_EXISTS);
    bool is_empty = true;
    assert_ok(rs_table_file_is_empty(file, "Kinds", &is_empty, NULL));
    assert_false(is_empty);
    assert_ok(rs_table_file_close(&file, RS_OK, NULL));
    query("twice.db", "SELECT count(*) FROM Kinds", text, sizeof text);
    assert_string_equal(text, "2|");
}

static void what_fails_leaves_nothing(void **state)
{
    (void)state;
    struct rs_err err = {0};
    struct rs_table_file *file = begin("none.db");
    assert_status(rs_table_file_run(file, "CREATE NONSENSE", &err), RS_IO);
    assert_status(rs_table_file_close(&file, RS_IO, NULL), RS_IO);
    char *path = rs_file_join(folder, "none.db");
    assert_int_equal(access(path, F_OK), -1);
    rs_mem_free(path);
    assert_status(rs_table_file_create("/nowhere/at/all", "x.db", &file, &err), RS_IO);
    assert_null(file);
    rs_table_file_discard(&file);
}

static void a_table_of_the_callers_own_takes_rows(void **state)
{
    (void)state;
    char text[256];
    struct rs_table_file *file = NULL;
    struct row row;
    rs_row_clear(&table, &row);
    row.key = 5;
    row.plain = 1;
    assert_ok(rs_table_file_create(folder, "own.db", &file, NULL));
    assert_ok(
        rs_table_file_run(file, "CREATE TABLE Kinds (a, b, c, d, e, f, g, h, i, j, k, l)", NULL));
    assert_ok(rs_table_file_add_rows_of(file, &table, NULL));
    assert_ok(rs_table_file_put(file, &table, &row, 1, NULL));
    assert_ok(rs_table_file_close(&file, RS_OK, NULL));
    query("own.db", "SELECT a, b, c FROM Kinds", text, sizeof text);
    assert_string_equal(text, "5|1|NULL|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_stored_as_their_columns_say),
        cmocka_unit_test(many_rows_come_in_pieces),
        cmocka_unit_test(a_key_that_is_there_is_refused),
        cmocka_unit_test(what_fails_leaves_nothing),
        cmocka_unit_test(a_table_of_the_callers_own_takes_rows),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
