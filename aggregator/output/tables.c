/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of reads; the four CSV files: a read each, printed by its columns. What stands in them is said in aggregator/model/reads.
 */
#include "aggregator/analysis/rows.h"
#include "aggregator/output/output_priv.h"

#include <stdio.h>
#include <string.h>

enum rs_status rows_reading_open(struct rows_reading *reading, struct rs_row_store *rows,
                                 enum rs_read read, struct rs_err *err)
{
    const struct rs_read_args args = {.capture = RS_ROWS_CAPTURE};
    *reading = (struct rows_reading){.at = 0};
    return rs_read_open(rows, read, &args, &reading->cursor, err);
}

enum rs_status rows_reading_next(struct rows_reading *reading, const void **row_p,
                                 struct rs_err *err)
{
    *row_p = NULL;
    if (reading->at >= reading->block.count && !reading->is_over) {
        const enum rs_status status = rs_cursor_next(reading->cursor, &reading->block, err);
        if (status < 0)
            return status;
        reading->is_over = status == RS_END;
        reading->at = 0;
    }
    if (!reading->is_over)
        *row_p = rs_block_row(&reading->block, reading->at++);
    return RS_OK;
}

void rows_reading_close(struct rows_reading *reading)
{
    rs_cursor_close(&reading->cursor);
    rs_block_fini(&reading->block);
}

enum rs_status table_of_read(struct rs_row_store *rows, enum rs_read read, struct output_file *file,
                             struct rs_err *err)
{
    const struct rs_read_args args = {.capture = RS_ROWS_CAPTURE};
    const struct rs_table *table = rs_read_def(read)->result;
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    rs_csv_head(table, &file->buf);
    enum rs_status status = rs_read_open(rows, read, &args, &cursor, err);
    while (status == RS_OK && (status = rs_cursor_next(cursor, &block, err)) == RS_OK) {
        for (size_t i = 0; i < block.count; i++)
            rs_csv_row(table, rs_block_row(&block, i), &file->buf);
        status = output_file_drain(file, err);
    }
    rs_cursor_close(&cursor);
    rs_block_fini(&block);
    return status == RS_END ? RS_OK : status;
}

enum { DIGITS_BYTES = 48 };

/* The vendor's digits, with zeros behind them up to the three decimals that the column has; NULL: not there. */
static const char *padded(const char *digits, char text[DIGITS_BYTES])
{
    static const char zeros[] = "000";
    if (!digits || strpbrk(digits, "eE") || strlen(digits) + sizeof ".000" > DIGITS_BYTES)
        return digits;
    const char *point = strchr(digits, '.');
    const size_t decimals = point ? strlen(point + 1) : 0;
    (void)snprintf(text, DIGITS_BYTES, "%s%s%s", digits, point ? "" : ".",
                   decimals < 3 ? zeros + decimals : "");
    return text;
}

static void put_vendor_row(const struct rs_row_vendor_official_step *from, struct rs_buf *buf)
{
    const struct rs_table *table = &rs_table_vendor_official_step;
    struct rs_row_vendor_official_step row = *from;
    char pads[16][DIGITS_BYTES];
    for (size_t i = 0; i < table->column_count; i++)
        if (table->columns[i].kind == RS_DECIMAL)
            rs_column_set_text(&table->columns[i], &row,
                               padded(rs_column_text(&table->columns[i], from), pads[i]));
    rs_csv_row(table, &row, buf);
}

/* Ranks in turn: the vendor's rows of those that have them, ours of the others; no rank is in both. */
static enum rs_status merge_steps(struct rows_reading *ours, struct rows_reading *theirs,
                                  struct output_file *file, struct rs_err *err)
{
    const void *own_row = NULL, *vendor_row = NULL;
    enum rs_status status = rows_reading_next(ours, &own_row, err);
    if (status == RS_OK)
        status = rows_reading_next(theirs, &vendor_row, err);
    while (status == RS_OK && (own_row || vendor_row)) {
        const struct rs_row_official_step *own = own_row;
        const struct rs_row_vendor_official_step *vendor = vendor_row;
        if (!vendor || (own && own->rank < vendor->rank)) {
            rs_csv_row(&rs_table_official_step, own, &file->buf);
            status = rows_reading_next(ours, &own_row, err);
        } else {
            put_vendor_row(vendor, &file->buf);
            status = rows_reading_next(theirs, &vendor_row, err);
        }
        if (status == RS_OK)
            status = output_file_drain(file, err);
    }
    return status;
}

enum rs_status table_step_trace_time(struct rs_row_store *rows, struct output_file *file,
                                     struct rs_err *err)
{
    struct rows_reading ours = {0}, theirs = {0};
    rs_csv_head(&rs_table_official_step, &file->buf);
    enum rs_status status = rows_reading_open(&ours, rows, RS_READ_OFFICIAL_STEP, err);
    if (status == RS_OK)
        status = rows_reading_open(&theirs, rows, RS_READ_VENDOR_OFFICIAL_STEP, err);
    if (status == RS_OK)
        status = merge_steps(&ours, &theirs, file, err);
    rows_reading_close(&ours);
    rows_reading_close(&theirs);
    return status;
}
