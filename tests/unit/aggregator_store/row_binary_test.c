/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as ClickHouse takes and gives them: what is put comes back, whatever is cut off or damaged. */
#include "aggregator/store/row_binary.h"

#include "aggregator/model/tables.h"
#include "tests/support/rs_test.h"

#include <string.h>

enum { COLUMNS = ROW_BINARY_COLUMNS_MAX };

static const struct rs_table *const table = &rs_table_evidence;
static const struct rs_column *columns[COLUMNS];
static struct row_binary_type types[COLUMNS];

/* The types that the table is created with. */
static int take_types(void **state)
{
    (void)state;
    for (size_t i = 0; i < table->column_count; i++) {
        columns[i] = &table->columns[i];
        types[i] = (struct row_binary_type){.kind = columns[i]->kind == RS_I64   ? ROW_BINARY_INT
                                                    : columns[i]->kind == RS_F64 ? ROW_BINARY_FLOAT
                                                                                 : ROW_BINARY_TEXT,
                                            .bytes = 8,
                                            .is_nullable = columns[i]->flags & RS_NULLABLE};
        assert_true(row_binary_fits(columns[i], &types[i]));
    }
    return 0;
}

static struct rs_row_evidence some_row(void)
{
    struct rs_row_evidence row;
    rs_row_clear(table, &row);
    row.capture = row.finding_no = 1;
    row.evidence_no = INT64_MIN + 1;
    row.what = "own_work";
    row.figure = "";
    row.name = "a \"name\", \xc3\xa9";
    row.value = INT64_MAX;
    return row;
}

static enum rs_status take(struct rs_view *view, struct rs_block *block)
{
    rs_block_begin(block, table);
    void *row = rs_block_add(block);
    assert_non_null(row);
    const enum rs_status status =
        row_binary_take(columns, types, table->column_count, view, row, block);
    assert_ok(rs_block_end(block));
    return status;
}

static void a_row_comes_back_and_a_cut_one_waits(void **state)
{
    (void)state;
    const struct rs_row_evidence row = some_row();
    struct rs_buf buf = {0}, text = {0}, again = {0};
    struct rs_block block = {0};
    assert_ok(row_binary_put(table, &row, 77, &buf));
    const size_t length = buf.length - 8; /* the generation is not read */
    for (size_t cut = 0; cut < length; cut++) {
        struct rs_view view = rs_view_of(buf.data, cut);
        assert_status(take(&view, &block), RS_AGAIN);
        assert_ptr_equal(view.data, buf.data); /* nothing was taken */
        assert_int_equal(view.length, cut);
        assert_int_equal(block.texts.length, 0); /* a half row's are not kept */
    }
    struct rs_view view = rs_view_of(buf.data, buf.length);
    assert_ok(take(&view, &block));
    assert_int_equal(view.length, 8);
    assert_int_equal(rs_view_u64(&view), 77);
    rs_csv_row(table, &row, &text);
    rs_csv_row(table, rs_block_row(&block, 0), &again);
    assert_string_equal(rs_buf_text(&again), rs_buf_text(&text));
    rs_buf_fini(&buf);
    rs_buf_fini(&text);
    rs_buf_fini(&again);
    rs_block_fini(&block);
}

static void what_must_not_be_absent_is_refused(void **state)
{
    (void)state;
    struct rs_row_evidence row = some_row();
    struct rs_buf buf = {0};
    row.what = NULL;
    assert_status(row_binary_put(table, &row, 1, &buf), RS_INVALID);
    rs_buf_fini(&buf);
}

static void damaged_cells_are_no_row(void **state)
{
    (void)state;
    const struct rs_row_evidence row = some_row();
    struct rs_buf buf = {0};
    struct rs_block block = {0};
    assert_ok(row_binary_put(table, &row, 1, &buf));
    uint8_t *text = memchr(buf.data, 'o', buf.length); /* of own_work */
    assert_non_null(text);
    *text = 0; /* texts hold no NUL */
    struct rs_view view = rs_view_of(buf.data, buf.length);
    assert_status(take(&view, &block), RS_FORMAT);
    text[-1] = 0xff; /* a length with more bytes behind it: above all that a text may have */
    memset(text, 0xff, 3);
    text[3] = 0x7f;
    view = rs_view_of(buf.data, buf.length);
    assert_status(take(&view, &block), RS_FORMAT);
    memset(text - 1, 0xff, 10); /* ten bytes, and no end: no length, whatever follows */
    const size_t begin = (size_t)(text - 1 - buf.data);
    for (size_t i = 0; i < 10; i++) {
        view = rs_view_of(buf.data, begin + i);
        assert_status(take(&view, &block), RS_AGAIN);
    }
    view = rs_view_of(buf.data, begin + 10);
    assert_status(take(&view, &block), RS_FORMAT);
    rs_buf_fini(&buf);
    rs_block_fini(&block);
}

static void types_are_those_of_our_columns(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "Int65",
                                      "Nullable(",
                                      "Nullable(Int64",
                                      "Array(Int64)",
                                      "Int64)",
                                      "DateTime",
                                      "Nullable(Nullable(Int64))"};
    struct row_binary_type type;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(row_binary_type_of(rs_view_of(bad[i], strlen(bad[i])), &type), RS_FORMAT);
    assert_ok(row_binary_type_of(rs_view_of("Nullable(UInt64)", 16), &type));
    assert_true(type.kind == ROW_BINARY_UINT && type.bytes == 8 && type.is_nullable);
    assert_false(row_binary_fits(rs_table_column(table, "what"), &type));
    const uint8_t large[] = {0, 0, 0, 0, 0, 0, 0, 0, 0x80}; /* 2^63 is no number of ours */
    const struct rs_column *value = rs_table_column(table, "value");
    struct rs_block block = {0};
    rs_block_begin(&block, table);
    struct rs_view view = rs_view_of(large, sizeof large);
    assert_status(row_binary_take(&value, &type, 1, &view, rs_block_add(&block), &block),
                  RS_FORMAT);
    rs_block_fini(&block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_comes_back_and_a_cut_one_waits),
        cmocka_unit_test(what_must_not_be_absent_is_refused),
        cmocka_unit_test(damaged_cells_are_no_row),
        cmocka_unit_test(types_are_those_of_our_columns),
    };
    return cmocka_run_group_tests(tests, take_types, NULL);
}
