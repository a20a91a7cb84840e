/* SPDX-License-Identifier: Apache-2.0 */
/* What a recording shows of a run: as rank summaries, or as files in Kineto form. */
#ifndef RS_BENCH_CULPRITS_RECORD_H
#define RS_BENCH_CULPRITS_RECORD_H

#include "common/reduce/summary.h"
#include "tests/bench/culprits/job.h"

/* The rank's summary; freed by record_summary_fini(). */
void record_summary(const struct job *job, uint32_t rank, struct rs_summary *summary);
void record_summary_fini(struct rs_summary *summary);
/* FOLDER/rankNNNNN.pt.trace.json and ranks.json of all recorded ranks. False: could not write (said on stderr). */
bool record_traces(const struct job *job, const char *folder);

/* Device stream as recorded. */
int64_t record_stream(const struct item *item);

#endif
