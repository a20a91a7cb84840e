/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line in op_member.def and one assignment: the column is in CSV, JSON, schema, blocks, segments and what SQL reads.
 *
 * tests/CMakeLists.txt copies op_member.def, adds one line, and builds the model and the store against the copy; nothing
 * else is changed. The assignment is below.
 */
#include "aggregator/store/row_store.h"
#include "aggregator/store/table_file.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <string.h>

static struct rs_row_op_member member(int64_t rank)
{
    struct rs_row_op_member row;
    rs_row_clear(&rs_table_op_member, &row);
    row.capture = row.step = row.group_id = row.op = 1;
    row.op_no = row.member_no = row.stream = row.call_order = row.call_ns = row.is_partial = 0;
    row.start_ns = row.end_ns = 5;
    row.rank = rank;
    row.queue_ns = 1234567 + rank; /* the assignment */
    return row;
}

static void assert_has(struct rs_buf *buf, const char *what)
{
    if (!strstr(rs_buf_text(buf), what))
        fail_msg("%s is not in: %s", what, rs_buf_text(buf));
    rs_buf_fini(buf);
}

static void it_is_in_csv_json_and_schema(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    const struct rs_row_op_member row = member(3);
    rs_csv_head(&rs_table_op_member, &buf);
    assert_has(&buf, ",Queue(us)\n");
    rs_csv_row(&rs_table_op_member, &row, &buf);
    assert_has(&buf, ",1234.570\n");
    rs_json_row(&rs_table_op_member, &row, &buf);
    assert_has(&buf, ",\"queue_ns\":1234.570}");
    rs_json_schema(&rs_table_op_member, &buf);
    assert_has(&buf, "time in the device's queue");
    rs_sql_create(&rs_table_op_member, RS_CLICKHOUSE, &buf);
    assert_has(&buf, "queue_ns Nullable(Int64)");
}

/* Through a segment and SQL, as a read gives it to documents and to the wire. */
static void it_is_in_what_the_store_reads(enum rs_row_mode mode, const char *folder)
{
    struct rs_row_store *store = NULL;
    struct rs_writer *writer = NULL;
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    struct rs_buf buf = {0};
    const struct rs_unit unit = {.capture = 1, .kind = RS_UNIT_STEP, .a = 1};
    const struct rs_read_args args = {.capture = 1};
    const struct rs_row_op_member rows[] = {member(0), member(1)};
    assert_ok(rs_row_store_open(folder, mode, &store, NULL));
    assert_ok(rs_store_begin(store, &unit, &writer, NULL));
    assert_ok(rs_writer_put(writer, &rs_table_op_member, rows, 2, NULL));
    assert_ok(rs_writer_commit(&writer, NULL));
    assert_ok(rs_read_open(store, RS_READ_OP_MEMBERS, &args, &cursor, NULL));
    assert_ok(rs_cursor_next(cursor, &block, NULL));
    assert_int_equal(block.count, 2);
    rs_csv_row(block.table, rs_block_row(&block, 1), &buf);
    assert_has(&buf, ",1234.568\n");
    rs_block_put(block.table, block.rows, block.count, &buf);
    struct rs_block again = {0};
    assert_ok(rs_block_take(&rs_table_op_member, rs_view_of(buf.data, buf.length), &again, NULL));
    assert_int_equal(((const struct rs_row_op_member *)rs_block_row(&again, 0))->queue_ns, 1234567);
    rs_cursor_close(&cursor);
    rs_block_fini(&block);
    rs_block_fini(&again);
    rs_buf_fini(&buf);
    rs_row_store_close(&store);
}

static void it_is_in_memory_and_in_files(void **state)
{
    (void)state;
    char folder[64];
    tmp_dir_make(folder);
    it_is_in_what_the_store_reads(RS_ROWS_PRIVATE, NULL);
    it_is_in_what_the_store_reads(RS_ROWS_WRITE, folder);
    tmp_dir_remove(folder);
}

static void it_is_in_a_sqlite_file(void **state)
{
    (void)state;
    char folder[64];
    bool is_empty = true;
    struct rs_table_file *file = NULL;
    const struct rs_row_op_member row = member(0);
    tmp_dir_make(folder);
    assert_ok(rs_table_file_create(folder, "out.db", &file, NULL));
    assert_ok(rs_table_file_add_table(file, &rs_table_op_member, NULL));
    assert_ok(rs_table_file_put(file, &rs_table_op_member, &row, 1, NULL));
    assert_ok(rs_table_file_is_empty(file, "op_member WHERE queue_ns = 1234567", &is_empty, NULL));
    assert_false(is_empty);
    assert_ok(rs_table_file_close(&file, RS_OK, NULL));
    tmp_dir_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_in_csv_json_and_schema),
        cmocka_unit_test(it_is_in_memory_and_in_files),
        cmocka_unit_test(it_is_in_a_sqlite_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
