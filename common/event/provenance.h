/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provenance: what the vendor's own tool says of a rank that it recorded. It is kept with the rank: official tables
 * show it as it stands there, and anyone can see how far its figures are from ours; of a rank whose events are there no figure of ours
 * is computed from it.
 *
 *     versions     of the framework's profiler and of CANN
 *     steps[]      rows of step_trace_time.csv, or StepTraceTime
 *     comms[]      operations of communication.json, or CommAnalyzerTime
 *     bands[]      their transports and package sizes, or CommAnalyzerBandwidth: comms[0]'s band_count rows, then comms[1]'s, ...
 *     links[]      links of communication_matrix.json, or CommAnalyzerMatrix
 *
 * Every figure is kept as the digits that the file has; those that are compared with ours are also whole picoseconds: finer
 * than any clock of these files, coarser than the noise that their floats carry. Strings are ids of the table that
 * lies beside (a stream's, a summary's). RS_STR_NONE: the file does not have it.
 */
#ifndef RS_EVENT_PROVENANCE_H
#define RS_EVENT_PROVENANCE_H

#include "common/base/status.h"
#include "common/base/strtab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RS_VENDOR_LIMIT   (INT64_C(1) << 62)
#define RS_VENDOR_UNKNOWN (-RS_VENDOR_LIMIT) /* of a time: the file does not have it */

enum { RS_VENDOR_STEP_FIELDS = 9 };

struct rs_vendor_step {
    rs_str step;    /* as the file has it: "50"; empty without step information */
    int64_t device; /* -1 unknown */
    /* in the order of the official columns: computing, communication_not_overlapped, overlapped, communication, free,
     * stage, bubble, communication_not_overlapped_and_exclude_receive, preparing */
    int64_t ps[RS_VENDOR_STEP_FIELDS];
    rs_str digits[RS_VENDOR_STEP_FIELDS]; /* us */
};

/* Order of an operation's digits. */
enum rs_vendor_time {
    RS_VENDOR_START, /* us since 1970 */
    RS_VENDOR_ELAPSE,
    RS_VENDOR_TRANSIT,
    RS_VENDOR_WAIT,
    RS_VENDOR_SYNCHRONIZATION,
    RS_VENDOR_IDLE,
    RS_VENDOR_WAIT_RATIO, /* databases have no ratios */
    RS_VENDOR_SYNCHRONIZATION_RATIO,
    RS_VENDOR_TIMES
};

struct rs_vendor_comm {
    rs_str step, group, name; /* "step50", decimal hash, "hcom_allReduce__586_0_1" */
    bool is_p2p;
    bool is_total; /* "Total Op Info" of the step and class; group is empty */
    int64_t start; /* Unix ns; RS_VENDOR_UNKNOWN */
    int64_t elapse, transit, wait, synchronization, idle; /* ps */
    rs_str digits[RS_VENDOR_TIMES];                       /* us, then ms */
    uint32_t band_count;
};

/* One package size of one transport of an operation; a transport without packages has one row with package[0] NONE. */
enum { RS_VENDOR_BAND_FIELDS = 4, RS_VENDOR_PACKAGE_FIELDS = 3, RS_VENDOR_LINK_FIELDS = 3 };
struct rs_vendor_band {
    rs_str transport; /* "HCCS" */
    rs_str fields
        [RS_VENDOR_BAND_FIELDS]; /* transit size (MB), time (ms), bandwidth (GB/s), large packet ratio */
    rs_str package[RS_VENDOR_PACKAGE_FIELDS]; /* size (MB), count, total duration (ms) */
};

struct rs_vendor_link {
    rs_str step, group, kind; /* "step50", decimal hash, "allreduce-top1" */
    rs_str transport, op_name;
    bool is_p2p;
    int32_t src, dst;               /* within the group */
    int32_t global_src, global_dst; /* ranks of the job; -1: the group's ranks are not known */
    rs_str fields[RS_VENDOR_LINK_FIELDS]; /* transit size (MB), time (ms), bandwidth (GB/s) */
};

struct rs_provenance {
    rs_str framework;         /* "torch_npu", "MindSpore", "msmonitor"; RS_STR_NONE several */
    rs_str framework_version; /* RS_STR_NONE unknown, or several */
    rs_str cann_version;
    bool has_text_steps; /* of the text algorithm: its Free and Stage are other figures than ours */
    struct rs_vendor_step *steps; /* in the file's order */
    size_t step_count, step_capacity;
    struct rs_vendor_comm *comms;
    size_t comm_count, comm_capacity;
    struct rs_vendor_band *bands; /* by comms, in their order */
    size_t band_count, band_capacity;
    struct rs_vendor_link *links;
    size_t link_count, link_capacity;
};

/* Nothing vendor; NULL: no memory. */
struct rs_provenance *rs_provenance_new(void);
void rs_provenance_free(struct rs_provenance **provenance_p); /* of NULL inside is allowed */

/* Adds what `from` (NULL: nothing) says behind what *to_p says, which is made when it is NULL; versions stay when both
 * have the same. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_provenance_add(struct rs_provenance **to_p,
                                               struct rs_strtab *to_strings,
                                               const struct rs_provenance *from,
                                               const struct rs_strtab *from_strings);

/* A time of a file -> ps (`ps_per_unit`: 1e6 of us, 1e9 of ms); RS_VENDOR_UNKNOWN when it does not fit. */
int64_t rs_vendor_ps(double value, double ps_per_unit);

#endif
