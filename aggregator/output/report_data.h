/* SPDX-License-Identifier: Apache-2.0 */
/* The data of report.html. Inside the room. */
#ifndef RS_OUTPUT_REPORT_DATA_H
#define RS_OUTPUT_REPORT_DATA_H

#include "aggregator/output/report.h"

/* How many rows of steps and of links a file has at most. More of them are chosen from, and the document says so. */
enum { REPORT_STEP_ROWS_MAX = 16384, REPORT_LINKS_MAX = 4096 };

/* Appends the capture as a JSON document, which may stand inside an HTML element as it is: it has no "<". RS_NOMEM. */
RS_MUST_CHECK enum rs_status report_put_data(const struct report *report, struct rs_buf *html);

#endif
