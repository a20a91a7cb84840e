/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several recordings of one rank, one after the other -> one summary.
 */
#ifndef RS_REDUCE_SUMMARY_MERGE_H
#define RS_REDUCE_SUMMARY_MERGE_H

#include "common/reduce/summary.h"

/* Adds what a later recording of the same rank says (both with a time base, disjoint in time). Steps that
 * the profiler numbered keep their numbers; steps that count from 0 go on counting behind those of `into`.
 * The gap between the recordings is no step's and no device's work, but lies in the device's window.
 * RS_INVALID: one has no time base, or they overlap (`into` is as it was). RS_NOMEM, RS_LIMIT: `into`
 * may only be finished with rs_summary_fini(). */
RS_MUST_CHECK enum rs_status rs_summary_merge(struct rs_summary *into,
                                              const struct rs_summary *later, struct rs_err *err);

#endif
