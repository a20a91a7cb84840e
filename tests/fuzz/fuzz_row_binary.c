/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what ClickHouse answers: rows of them can be printed, and written again they are the same rows. */
#include "aggregator/model/tables.h"
#include "aggregator/store/row_binary.h"
#include "common/base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS_MAX = 64 };

static void check_again(const struct rs_table *table, const struct rs_column *const *columns,
                        const struct row_binary_type *types, const void *row)
{
    struct rs_buf buf = {0};
    struct rs_block block = {0};
    const enum rs_status put = row_binary_put(table, row, 1, &buf);
    struct rs_view view = rs_view_of(buf.data, buf.length);
    rs_block_begin(&block, table);
    RS_CHECK(put == RS_OK || put == RS_INVALID);
    if (put == RS_OK)
        RS_CHECK(row_binary_take(columns, types, table->column_count, &view, rs_block_add(&block),
                                 &block) == RS_OK);
    rs_buf_fini(&buf);
    rs_block_fini(&block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct rs_column *columns[ROW_BINARY_COLUMNS_MAX];
    struct row_binary_type types[ROW_BINARY_COLUMNS_MAX];
    struct rs_block block = {0};
    struct rs_buf text = {0};
    if (!size)
        return 0;
    const struct rs_table *table = data[0] % 2 ? &rs_table_op_member : &rs_table_finding;
    if (row_binary_type_of(rs_view_of(data, size), &types[0]) == RS_OK)
        RS_CHECK(types[0].bytes <= 8);
    for (size_t i = 0; i < table->column_count; i++) {
        columns[i] = &table->columns[i];
        types[i] = (struct row_binary_type){.kind = columns[i]->kind == RS_I64   ? ROW_BINARY_INT
                                                    : columns[i]->kind == RS_F64 ? ROW_BINARY_FLOAT
                                                                                 : ROW_BINARY_TEXT,
                                            .bytes = 8,
                                            .is_nullable = columns[i]->flags & RS_NULLABLE};
    }
    struct rs_view view = rs_view_of(data + 1, size - 1);
    enum rs_status status = RS_OK;
    rs_block_begin(&block, table);
    while (status == RS_OK && block.count < ROWS_MAX) {
        const struct rs_view before = view;
        status = row_binary_take(columns, types, table->column_count, &view, rs_block_add(&block),
                                 &block);
        RS_CHECK(status == RS_OK ? view.length < before.length : view.data == before.data);
    }
    if (status != RS_OK)
        block.count--;
    RS_CHECK(rs_block_end(&block) == RS_OK);
    for (size_t i = 0; i < block.count; i++) {
        rs_csv_row(table, rs_block_row(&block, i), &text);
        check_again(table, columns, types, rs_block_row(&block, i));
    }
    rs_buf_fini(&text);
    rs_block_fini(&block);
    return 0;
}
