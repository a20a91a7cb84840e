/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of text as profilers write them: a header line, then rows; cells by the header's names.
 *
 * LF or CRLF; cells may be quoted, then they may hold commas, line breaks and doubled quotes; tabs and blanks around an
 * unquoted cell do not count. The table is read whole and cut up in place. One thread at a time.
 */
#ifndef RS_SOURCE_CSV_H
#define RS_SOURCE_CSV_H

#include "common/base/buf.h"
#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { CSV_COLUMNS_MAX = 512, CSV_NO_COLUMN = -1 };

struct csv {
    struct rs_buf text;
    char *at, *end;
    const char *header[CSV_COLUMNS_MAX];
    size_t header_count;
    const char *cells[CSV_COLUMNS_MAX]; /* of the row; NUL-terminated, 16 readable bytes follow */
    size_t cell_count;
    bool is_cut; /* the last row was inside quotes when the file ended */
};

/* RS_NOTFOUND, RS_IO, RS_LIMIT, RS_NOMEM. A file without a line is a table without rows. */
RS_MUST_CHECK enum rs_status csv_open(struct csv *csv, const char *path, struct rs_err *err);
void csv_close(struct csv *csv);

/* The number of the column with this name, or CSV_NO_COLUMN. Case counts. */
int csv_column(const struct csv *csv, const char *name);
/* The next row's cells; false at the end. Empty lines are passed over. */
bool csv_next(struct csv *csv);
/* "" where the row has no such cell. */
const char *csv_cell(const struct csv *csv, int column);

#endif
