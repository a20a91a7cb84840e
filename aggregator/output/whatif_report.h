/* SPDX-License-Identifier: Apache-2.0 */
/* A what-if analysis as text for people and as JSON (docs/schema/whatif.schema.json). Shares are fractions, times ns. */
#ifndef RS_OUTPUT_WHATIF_REPORT_H
#define RS_OUTPUT_WHATIF_REPORT_H

#include "aggregator/analysis/whatif/whatif.h"
#include "common/base/buf.h"

/* Append; RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_output_whatif_text(const struct rs_whatif *whatif,
                                                   struct rs_buf *buf, struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_output_whatif_json(const struct rs_whatif *whatif,
                                                   struct rs_buf *buf, struct rs_err *err);

#endif
