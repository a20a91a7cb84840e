/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who did not arrive: the flight recorders of a job's ranks in, findings out.
 *
 *   set --groups--> who called what in which group, and from where to where his ring reaches
 *       --arrive--> of every call that is not over: who is in, who is not, of whom nobody can know
 *       --graph---> who waits for whom; its sinks are the culprits, its cycles deadlocks
 *       --mismatch, late--> calls that differ; ranks that come late again and again
 *       --hang----> findings with typed evidence, the same structs as those of a slow job
 *
 * What it holds to: a call that a ring dropped is not a call that was not made; nobody is accused by a dump that is older
 * than the others', truncated or missing unless everything else points there; a wait that is not longer than the job's own
 * pauses is no hang. Pure function over memory: no clock, no file. One thread per analysis.
 */
#ifndef RS_ANALYSIS_HANG_H
#define RS_ANALYSIS_HANG_H

#include "aggregator/analysis/findings.h"
#include "common/base/err.h"
#include "common/flight/flight.h"

struct rs_hang_options {
    int64_t min_wait_ns;      /* shorter waits are no hang; 0: 2 s */
    bool assume_common_clock; /* --assume-common-clock: lateness as the clocks stand */
};

/* A process group of the job: name and sorted global ranks are its identity. */
struct rs_hang_group {
    char *text; /* "tp:7", "7@0-3" when the name means several rank sets */
    rs_str name, desc;
    int32_t *ranks; /* sorted */
    size_t rank_count;
    bool is_inferred; /* from the ranks that call it: the dumps do not say */
};

enum rs_hang_state {
    RS_HANG_NOTHING, /* no call is open, or none has waited long */
    RS_HANG_HUNG,    /* findings say who */
    RS_HANG_IN_FLIGHT, /* calls are open, and have not waited long: slow or between two calls, not hung */
    RS_HANG_UNDECIDED, /* calls wait, and those who did not arrive cannot be judged */
};
const char *
rs_hang_state_text(enum rs_hang_state state); /* "nothing", "hung", "in_flight", "undecided" */

/* One call that a rank waits in: rows of the report's table. */
struct rs_hang_wait {
    int32_t rank;
    uint32_t group;
    int64_t seq;
    int32_t for_rank; /* the first it waits for; -1: all are in */
    size_t for_count;
    int64_t since_ns;  /* RS_NULL */
    int64_t waited_ns; /* until its dump was made; RS_NULL */
    enum rs_flight_op op;
    bool is_p2p;
};

struct rs_hang {
    const struct rs_flight_set *set; /* keeps a pointer */
    enum rs_hang_state state;
    struct rs_hang_group *groups;
    size_t group_count;
    struct rs_finding *findings; /* the culprit first */
    size_t finding_count;
    size_t untold_count; /* ranks and circles that others wait for, and of which no finding tells */
    struct rs_hang_wait *waits; /* sorted by rank */
    size_t wait_count;
    int32_t *silent; /* ranks of the job without a dump, sorted */
    size_t silent_count;
    int32_t world_size;      /* ranks known: dumps and members of groups */
    int64_t longest_wait_ns; /* RS_NULL unknown */
    int64_t limit_ns;        /* a wait longer than this is a hang */
    int64_t dropped_calls;   /* that rings did not keep */
    size_t stale_dumps, partial_dumps;
    bool is_half_blind; /* gloo: point-to-point is not recorded */
    bool has_timed_out; /* a watchdog gave up on a call */
};

/* RS_NOMEM. The set must be sorted (rs_flight_set_sort()) and outlive the result. */
RS_MUST_CHECK enum rs_status rs_hang_new(const struct rs_flight_set *set,
                                         const struct rs_hang_options *options,
                                         struct rs_hang **hang_p, struct rs_err *err);
void rs_hang_free(struct rs_hang **hang_p);

#endif
