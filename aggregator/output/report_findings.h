/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings as sentences, for the terminal and Markdown, and as JSON. Inside the room.
 */
#ifndef RS_OUTPUT_REPORT_FINDINGS_H
#define RS_OUTPUT_REPORT_FINDINGS_H

#include "aggregator/output/doc.h"
#include "aggregator/output/report.h"
#include "common/base/json_out.h"

void report_put_findings(struct doc *doc, const struct report *report);
void report_put_waiting(struct doc *doc, const struct report *report);
/* What could not be judged, how small an effect would have been seen, how well the graph explains the run. */
void report_put_judged(struct doc *doc, const struct report *report);
/* Does a finding name this rank? */
bool report_names_rank(const struct rs_analysis *analysis, int32_t rank);

/* The diagnosis' members of report.json, into the open object. */
void report_json_diagnosis(struct rs_json_out *json, const struct rs_analysis *analysis);
/* Why nobody is named, as one sentence or two; "" when somebody is. */
void report_silence(const struct rs_analysis *analysis, struct rs_buf *buf);

#endif
