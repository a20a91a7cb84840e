/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a table on stdout, as CSV or JSON, block by block as they come. Unknown is an empty cell or null.
 */
#ifndef RS_CLI_PRINT_ROWS_H
#define RS_CLI_PRINT_ROWS_H

#include "aggregator/model/columns.h"
#include "common/wire/link.h"

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
    bool is_partial, is_provisional, has_begun, is_there;
    struct rs_block block;
    enum rs_status status;
    struct rs_err err;
};

/* The first `count` rows of a block. */
void rs_rows_print(struct rs_rows_printer *printer, const struct rs_block *block, size_t count);
/* Asks the aggregator what is answered by pages of rows (AskTable, AskHistory), and prints them. What went wrong with printing is in
 * the printer. */
RS_MUST_CHECK enum rs_status rs_rows_ask(const struct rs_address *address, Rankscope__Ask *message,
                                         struct rs_rows_printer *printer, struct rs_err *err);
/* The end of the table, or what went wrong; the exit code. */
int rs_rows_finish(struct rs_rows_printer *printer, enum rs_status status,
                   const struct rs_err *err);
/* The JSON Schema of a row; the exit code. */
int rs_rows_print_schema(struct rs_rows_printer *printer);

#endif
