/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches that exchange with several peers at once: a stage of an interleaved pipeline with the one before and the one behind it, a
 * rank with all others. One row on each rank, several pairs.
 *
 *     rank 0  [== 1, 3 ==]          pairs 0-1, 1-2, 2-3, 0-3  -->  one operation of four rows;
 *     rank 1   [== 0, 2 ==]         each waits for its own partners only
 *     rank 2    [== 1, 3 ==]
 *     rank 3  [== 0, 2 ==]
 *
 * p2p.c finds the pairs; here is who a row's partners are, and what its pairs come to.
 */
#ifndef RS_ANALYSIS_BATCH_H
#define RS_ANALYSIS_BATCH_H

#include "aggregator/analysis/analysis_priv.h"

struct batch_peer {
    int32_t peer;           /* as the operation's `peer` would be */
    int64_t sent, received; /* bytes; -1 unknown, 0 nothing */
    int64_t number;         /* of the batch among those with this peer; -1 unknown */
};
struct batch_peers {
    struct batch_peer *items; /* by peer, each once */
    size_t count, capacity;
};

/* Two rows, by flat index, that exchange something. */
struct batch_pair {
    size_t a, b;
    uint32_t group;
};
struct batch_pairs {
    struct batch_pair *items;
    size_t count, capacity;
};

/* A batch whose recording names more than one peer. */
bool batch_has_peers(const struct rs_comm_op *op);
RS_MUST_CHECK enum rs_status batch_peers_of(const struct rs_summary *summary,
                                            const struct rs_comm_op *op, struct batch_peers *peers);
/* What align_find() found stays where it alone can be meant: a row that was left over, and would fit a row that has another partner,
 * could be that partner, and so on along the pairs. */
RS_MUST_CHECK enum rs_status batch_keep_sure(struct align_side a, struct align_side b,
                                             const struct align_rules *rules, size_t *positions);
/* Both ranks call their batches with each other in the same order, also those whose rows were lost: so from pair to pair their numbers
 * (`seq` of the items) go up alike. Pairs whose numbers differ otherwise than those around them are no pairs. */
void batch_keep_in_step(struct align_side a, struct align_side b, size_t *positions);
/* Rows that pairs connect become operations. One that would hold two rows of a rank stays apart: which of them is meant nobody
 * knows. */
RS_MUST_CHECK enum rs_status batch_join(struct join *join, const struct batch_pairs *pairs);

/* How many ranks an operation of batches has: those of its rows, and all that they name. -1: one is not known. */
RS_MUST_CHECK enum rs_status batch_ranks_of(const struct join *join, const struct rs_job_op *op,
                                            int64_t *count_p);
/* The partner of row `row` that starts last, as an index of the operation's rows; SIZE_MAX: none is here. */
size_t batch_last_partner(const struct join *join, const struct rs_job_op *op, size_t row);

#endif
