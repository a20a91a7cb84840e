/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cell of a CSV file, as RFC 4180 has it. Any thread.
 */
#ifndef RS_BASE_CSV_OUT_H
#define RS_BASE_CSV_OUT_H

struct rs_buf;

/* Appends the text, quoted where a comma, a quote or a line end is in it. Whoever looks at the table in a terminal is not
 * steered by a name from outside: controls but line ends are written \u001b, bytes that are not UTF-8 \xHH. Out of memory:
 * buf->failed. */
void rs_csv_text(struct rs_buf *buf, const char *text);

#endif
