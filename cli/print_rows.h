/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a table on stdout, as CSV or JSON, block by block as they come. Unknown is an empty cell or null.
 */
#ifndef RS_CLI_PRINT_ROWS_H
#define RS_CLI_PRINT_ROWS_H

#include "aggregator/model/columns.h"
#include "common/client/pages.h"

struct rs_rows_printer {
    const char *verb; /* these three are the caller's; the rest begins zeroed */
    const struct rs_table *table;
    bool as_json;
    /* Takes blocks instead of printing them; lent for the call. NULL: they are printed. */
    void (*take)(void *self, const struct rs_block *block);
    void *take_self;
    bool is_told; /* what lacks was said with another table: not again */
    struct rs_buf buf;
    uint64_t rows;
    bool is_partial, is_provisional, has_begun;
    struct rs_block block;
    enum rs_status status;
    struct rs_err err;
};

/* The first `count` rows of a block. */
void rs_rows_print(struct rs_rows_printer *printer, const struct rs_block *block, size_t count);
/* The same of a page, for rs_client_pages_ask(); `printer` is the struct. What went wrong with printing is in it. */
bool rs_rows_take_page(void *printer, const struct rs_client_page *page);
/* The end of the table, or what went wrong; the exit code. */
int rs_rows_finish(struct rs_rows_printer *printer, enum rs_status status,
                   const struct rs_err *err);
/* The JSON Schema of a row; the exit code. */
int rs_rows_print_schema(struct rs_rows_printer *printer);

#endif
