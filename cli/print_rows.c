/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print_rows.h"

#include "cli/cli.h"

#include <stdio.h>

enum { SCHEMA_VERSION = 1, FLUSH_BYTES = 1 << 16 };

static void flush(struct rs_rows_printer *printer)
{
    if (printer->buf.failed)
        printer->status = rs_err_set(&printer->err, RS_NOMEM, "out of memory");
    else if (fwrite(printer->buf.data, 1, printer->buf.length, stdout) != printer->buf.length)
        printer->status = rs_err_errno(&printer->err, "cannot print the table");
    rs_buf_reset(&printer->buf);
}

static void begin(struct rs_rows_printer *printer)
{
    printer->has_begun = true;
    if (!printer->as_json) {
        rs_csv_head(printer->table, &printer->buf);
        return;
    }
    rs_buf_printf(&printer->buf, "{\"schema_version\": %d, \"table\": \"%s\", \"rows\": [",
                  SCHEMA_VERSION, printer->table->name);
}

void rs_rows_print(struct rs_rows_printer *printer, const struct rs_block *block, size_t count)
{
    if (printer->take) {
        if (count)
            printer->take(printer->take_self, block);
        return;
    }
    if (!printer->has_begun)
        begin(printer);
    for (size_t i = 0; i < count && printer->status == RS_OK; i++) {
        if (printer->as_json) {
            rs_buf_string(&printer->buf, printer->rows ? ",\n" : "\n");
            rs_json_row(printer->table, rs_block_row(block, i), &printer->buf);
        } else {
            rs_csv_row(printer->table, rs_block_row(block, i), &printer->buf);
        }
        printer->rows++;
        if (printer->buf.length > FLUSH_BYTES)
            flush(printer);
    }
}

static void end(struct rs_rows_printer *printer)
{
    if (printer->take)
        return;
    if (!printer->has_begun)
        begin(printer);
    if (printer->as_json) /* what lacks is known with the last of the rows */
        rs_buf_printf(&printer->buf, "\n], \"is_partial\": %s, \"is_provisional\": %s}\n",
                      printer->is_partial ? "true" : "false",
                      printer->is_provisional ? "true" : "false");
    flush(printer);
    if (printer->status == RS_OK && fflush(stdout) != 0)
        printer->status = rs_err_errno(&printer->err, "cannot print the table");
}

int rs_rows_finish(struct rs_rows_printer *printer, enum rs_status status, const struct rs_err *err)
{
    if (status == RS_OK)
        end(printer);
    int code = printer->is_partial ? RS_EXIT_PARTIAL : RS_EXIT_COMPLETE;
    if (status < 0)
        code = rs_cli_fail(printer->verb, err);
    else if (printer->status < 0)
        code = rs_cli_fail(printer->verb, &printer->err);
    rs_buf_fini(&printer->buf);
    rs_block_fini(&printer->block);
    return code;
}

bool rs_rows_take_page(void *self, const struct rs_client_page *page)
{
    struct rs_rows_printer *printer = self;
    printer->is_partial = page->is_partial;
    printer->is_provisional = page->is_provisional;
    for (size_t i = 0; i < page->line_count && !printer->is_told; i++)
        rs_cli_note(printer->verb, "%s", page->lines[i]);
    if (page->block.length)
        printer->status =
            rs_block_take(printer->table, page->block, &printer->block, &printer->err);
    if (printer->status == RS_FORMAT)
        printer->status = rs_err_set(&printer->err, RS_VERSION,
                                     "the aggregator's table \"%s\" has other columns than this "
                                     "program knows: use a program of its version",
                                     printer->table->name);
    if (printer->status == RS_OK)
        rs_rows_print(printer, &printer->block, page->block.length ? printer->block.count : 0);
    return printer->status == RS_OK;
}

int rs_rows_print_schema(struct rs_rows_printer *printer)
{
    rs_json_schema(printer->table, &printer->buf);
    flush(printer);
    rs_buf_fini(&printer->buf);
    return printer->status < 0 ? rs_cli_fail(printer->verb, &printer->err) : RS_EXIT_COMPLETE;
}
