/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several recordings of one rank, one after the other -> one summary; several parts of one recording -> one (parts.h).
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

/* Appends the steps, operations, hops and spans of a part of the same recording, numbered as they are; its names and groups are
 * found in those of `into`, or added. A part without a dictionary uses the ids and groups of `into`. RS_NOMEM, RS_LIMIT: `into`
 * may only be finished. */
RS_MUST_CHECK enum rs_status rs_summary_append(struct rs_summary *into,
                                               const struct rs_summary *part);

#endif
