/* SPDX-License-Identifier: Apache-2.0 */
/* A block from the wire: whatever the bytes, it is refused or its rows can be printed. */
#include "aggregator/model/tables.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rs_block block;
    static struct rs_buf out;
    if (!size)
        return 0;
    const struct rs_table *table = data[0] % 2 ? &rs_table_op_member : &rs_table_note;
    if (rs_block_take(table, rs_view_of(data + 1, size - 1), &block, NULL) != RS_OK)
        return 0;
    for (size_t i = 0; i < block.count; i++) {
        rs_csv_row(table, rs_block_row(&block, i), &out);
        rs_json_row(table, rs_block_row(&block, i), &out);
    }
    rs_buf_reset(&out);
    /* What was read can be written and read again: the same rows. */
    rs_block_put(table, block.rows, block.count, &out);
    struct rs_block again = {0};
    if (rs_block_take(table, rs_view_of(out.data, out.length), &again, NULL) != RS_OK ||
        again.count != block.count)
        abort();
    rs_block_fini(&again);
    rs_buf_reset(&out);
    return 0;
}
