/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provenance: what the vendor's own tool says of a rank that it recorded. It is kept with the rank, so
 * that anyone can see how far its figures are from ours; nothing is ever computed from it.
 *
 *     versions     of the framework's profiler and of CANN
 *     steps[]      rows of step_trace_time.csv, or StepTraceTime
 *     comms[]      times of communication.json, or CommAnalyzerTime
 *
 * Times are whole picoseconds: finer than any clock of these files, coarser than the noise that their floats
 * carry. Strings are ids of the table that lies beside (a stream's, a summary's).
 */
#ifndef RS_EVENT_PROVENANCE_H
#define RS_EVENT_PROVENANCE_H

#include "common/base/status.h"
#include "common/base/strtab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RS_SAID_LIMIT   (INT64_C(1) << 62)
#define RS_SAID_UNKNOWN (-RS_SAID_LIMIT) /* of a time: the file does not have it */

enum { RS_SAID_STEP_FIELDS = 9 };

struct rs_said_step {
    rs_str step;    /* as the file has it: "50"; empty without step information */
    int64_t device; /* -1 unknown */
    /* in the order of the official columns: computing, communication_not_overlapped, overlapped, communication, free,
     * stage, bubble, communication_not_overlapped_and_exclude_receive, preparing */
    int64_t ps[RS_SAID_STEP_FIELDS];
};

struct rs_said_comm {
    rs_str step, group, name; /* "step50", decimal hash, "hcom_allReduce__586_0_1" */
    bool is_p2p;
    int64_t start;                                        /* Unix ns; RS_SAID_UNKNOWN */
    int64_t elapse, transit, wait, synchronization, idle; /* ps */
};

struct rs_provenance {
    rs_str framework;         /* "torch_npu", "MindSpore", "msmonitor"; RS_STR_NONE several */
    rs_str framework_version; /* RS_STR_NONE unknown, or several */
    rs_str cann_version;
    struct rs_said_step *steps; /* in the file's order */
    size_t step_count, step_capacity;
    struct rs_said_comm *comms;
    size_t comm_count, comm_capacity;
};

/* Nothing said; NULL: no memory. */
struct rs_provenance *rs_provenance_new(void);
void rs_provenance_free(struct rs_provenance **provenance_p); /* of NULL inside is allowed */

/* Adds what `from` (NULL: nothing) says behind what *to_p says, which is made when it is NULL; versions stay when both
 * have the same. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_provenance_add(struct rs_provenance **to_p,
                                               struct rs_strtab *to_strings,
                                               const struct rs_provenance *from,
                                               const struct rs_strtab *from_strings);

/* A time of a file -> ps (`ps_per_unit`: 1e6 of us, 1e9 of ms); RS_SAID_UNKNOWN when it does not fit. */
int64_t rs_said_ps(double value, double ps_per_unit);

#endif
