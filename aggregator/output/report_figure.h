/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures of report.html. Inside the room. */
#ifndef RS_OUTPUT_REPORT_FIGURE_H
#define RS_OUTPUT_REPORT_FIGURE_H

#include "aggregator/output/report.h"

/* Appends a heading, the picture as SVG and what it means; nothing for one rank, or without steps. RS_NOMEM. */
RS_MUST_CHECK enum rs_status report_put_figure(const struct report *report, struct rs_buf *html);

#endif
