/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/deliver/rows.h"

#include "aggregator/analysis/rows.h"
#include "aggregator/analysis/spans.h"

enum rs_status rs_deliver_rows_open(const char *dir, bool assume_common_clock,
                                    rs_deliver_print_fn *print, void *print_self,
                                    struct rs_deliver_rows *rows_p, struct rs_err *err)
{
    struct rs_deliver_result result = {0};
    struct rs_deliver_options how = {.assume_common_clock = assume_common_clock};
    enum rs_status status = rs_row_store_open(NULL, RS_ROWS_PRIVATE, &how.rows, err);
    if (status == RS_OK)
        status = rs_deliver_capture(dir, &how, print, print_self, &result, err);
    if (status == RS_OK)
        *rows_p = (struct rs_deliver_rows){.store = how.rows,
                                           .is_partial = result.is_partial,
                                           .is_provisional = result.is_provisional};
    else
        rs_row_store_close(&how.rows);
    rs_deliver_result_fini(&result);
    return status;
}

void rs_deliver_rows_close(struct rs_deliver_rows *rows)
{
    rs_row_store_close(&rows->store);
}

/* Of a cursor, or of spans: whoever gives the next block. */
struct reading {
    struct rs_cursor *cursor;
    struct rs_spans *spans;
};

static enum rs_status hand_on(const struct reading *reading, const struct rs_deliver_read *how,
                              struct rs_err *err)
{
    struct rs_block block = {0};
    uint64_t left = how->limit ? how->limit : UINT64_MAX;
    enum rs_status status = RS_OK;
    bool goes_on = true;
    while (left && goes_on) {
        status = reading->cursor ? rs_cursor_next(reading->cursor, &block, err)
                                 : rs_spans_next(reading->spans, &block, err);
        if (status != RS_OK)
            break;
        const size_t count = block.count < left ? block.count : (size_t)left;
        goes_on = how->take(how->self, &block, count);
        left -= count;
    }
    rs_block_fini(&block);
    return status == RS_END ? RS_OK : status;
}

enum rs_status rs_deliver_read_rows(struct rs_row_store *store, const struct rs_deliver_read *how,
                                    struct rs_err *err)
{
    const struct rs_read_args args = {.capture = RS_ROWS_CAPTURE, .filter = how->filter};
    struct reading reading = {.cursor = NULL};
    enum rs_status status = rs_read_open(store, how->read, &args, &reading.cursor, err);
    if (status == RS_OK)
        status = hand_on(&reading, how, err);
    rs_cursor_close(&reading.cursor);
    return status;
}

enum rs_status rs_deliver_read_spans(const char *dir, const struct rs_deliver_read *how,
                                     struct rs_err *err)
{
    struct reading reading = {.spans = NULL};
    enum rs_status status = rs_spans_open(dir, how->read, &how->filter, NULL, &reading.spans, err);
    if (status == RS_OK)
        status = hand_on(&reading, how, err);
    rs_spans_close(&reading.spans);
    return status;
}
