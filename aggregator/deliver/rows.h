/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a capture, for who reads them once: a folder's are joined into a store of this process; a named read of a store, or the raw spans of
 * a folder, are handed on block by block.
 */
#ifndef RS_DELIVER_ROWS_H
#define RS_DELIVER_ROWS_H

#include "aggregator/deliver/deliver.h"
#include "aggregator/model/reads.h"

/* Zeroed is empty. */
struct rs_deliver_rows {
    struct rs_row_store *store; /* the capture is RS_ROWS_CAPTURE in it */
    bool is_partial, is_provisional;
};

/* As rs_deliver_capture(), without documents. */
RS_MUST_CHECK enum rs_status rs_deliver_rows_open(const char *dir, bool assume_common_clock,
                                                  rs_deliver_print_fn *print, void *print_self,
                                                  struct rs_deliver_rows *rows_p,
                                                  struct rs_err *err);
void rs_deliver_rows_close(struct rs_deliver_rows *rows);

/* The report of a capture whose rows are here and whose folder need not be: `report` of the options, and their style. As rs_analysis_read(). */
RS_MUST_CHECK enum rs_status rs_deliver_report_of_rows(struct rs_row_store *store,
                                                       const struct rs_deliver_options *options,
                                                       struct rs_deliver_result *result_p,
                                                       struct rs_err *err);

struct rs_deliver_read {
    enum rs_read read;
    struct rs_read_filter filter; /* checked: rs_read_check_filter() */
    uint64_t limit;               /* rows; 0: all */
    /* The first `count` rows of the block; false: no more. */
    bool (*take)(void *self, const struct rs_block *block, size_t count);
    void *self;
};

/* RS_OK: all that was wanted was handed on. As rs_read_open() and rs_cursor_next(). */
RS_MUST_CHECK enum rs_status rs_deliver_read_rows(struct rs_row_store *store,
                                                  const struct rs_deliver_read *how,
                                                  struct rs_err *err);
/* The same of a raw read (rs_read_is_raw()) in the capture's folder, as rs_spans_open(). */
RS_MUST_CHECK enum rs_status
rs_deliver_read_spans(const char *dir, const struct rs_deliver_read *how, struct rs_err *err);

#endif
