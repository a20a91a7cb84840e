/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of a hang: who did not arrive, who waits for it, where its program was; as text, Markdown, JSON, and one page.
 *
 * Ids, times of day and paths are of the job here, not of the run of this program: the same dumps give the same bytes.
 */
#ifndef RS_OUTPUT_HANG_REPORT_H
#define RS_OUTPUT_HANG_REPORT_H

#include "aggregator/analysis/hang/hang.h"
#include "aggregator/output/style.h"
#include "common/base/buf.h"

enum { RS_HANG_SCHEMA_VERSION = 1 };

/* Each appends to `buf`. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_output_hang_text(const struct rs_hang *hang,
                                                 struct rs_output_style style, struct rs_buf *buf,
                                                 struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_output_hang_markdown(const struct rs_hang *hang, struct rs_buf *buf,
                                                     struct rs_err *err);
/* docs/schema/hang.schema.json */
RS_MUST_CHECK enum rs_status rs_output_hang_json(const struct rs_hang *hang, struct rs_buf *buf,
                                                 struct rs_err *err);
/* One page that needs nothing else: no script, no request. */
RS_MUST_CHECK enum rs_status rs_output_hang_html(const struct rs_hang *hang, struct rs_buf *buf,
                                                 struct rs_err *err);
/* hang.json, hang.md, hang.txt and report.html into `dir`, which is created. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_output_hang_write(const struct rs_hang *hang, const char *dir,
                                                  struct rs_err *err);

#endif
