/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank's own profiler wrote, value by value. It is a stranger's: what is no number of JSON is taken for
 * unknown here, once. Texts live in the summary.
 */
#ifndef RS_ANALYSIS_VENDOR_VALUES_H
#define RS_ANALYSIS_VENDOR_VALUES_H

#include "common/reduce/summary.h"

/* Is any of these known? Summaries of before the digits were kept have rows without them: nothing to show. */
bool rs_vendor_has_digits(const rs_str *digits, size_t count);
/* Does the recording have its own step_trace_time? */
bool rs_vendor_has_steps(const struct rs_summary *summary);
/* The digits as they came; NULL: not there, or no number. */
const char *rs_vendor_digits(const struct rs_summary *summary, rs_str id);
/* "" when there is none. */
const char *rs_vendor_text(const struct rs_summary *summary, rs_str id);
/* The row's device, else the only one of the rank's steps; -1 unknown. */
int64_t rs_vendor_device(const struct rs_summary *summary, const struct rs_vendor_step *step);
/* 12 of "12" and "step12"; RS_STEP_NONE of anything else. */
int64_t rs_vendor_step_number(const char *text);

#endif
