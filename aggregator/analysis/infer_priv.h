/* SPDX-License-Identifier: Apache-2.0 */
/* What infer.c (units from operations that name no group) and infer_check.c (is a unit one group?) share. */
#ifndef RS_ANALYSIS_INFER_PRIV_H
#define RS_ANALYSIS_INFER_PRIV_H

#include "aggregator/analysis/analysis_priv.h"

struct channel {
    struct join_member member;
    uint64_t class_key; /* only channels of one class can pair up: the name of the group, if any */
    uint32_t unit;      /* UINT32_MAX: free */
    bool is_on_device;
};

enum { REFUSERS = 64 };

struct infer {
    struct join *join;
    struct channel *channels; /* by summary */
    size_t count, capacity;
    size_t *first;            /* [summary_count + 1] channels of a summary */
    size_t *domain_ranks;     /* [domain] ranks that have channels */
    struct align_list list;   /* scratch: the unit that is being built */
    struct align_item *items; /* scratch [longest] */
    size_t *positions;
    uint32_t *ids;
    size_t longest;
    uint32_t
        refused_by[REFUSERS]; /* by class_key: the summary that no seed could be sure of last */
};

struct fit {
    struct align_result pairs;
    size_t possible;
};

/* How well a channel pairs up with in->list; in->items and in->positions are left as found. */
RS_MUST_CHECK enum rs_status infer_try_channel(struct infer *in, const struct channel *channel,
                                               bool has_clock, struct fit *fit_p);
RS_MUST_CHECK enum rs_status infer_new_unit(struct join *join, uint32_t *unit_p);
/* By summary. */
int infer_compare_members(const void *left, const void *right);

/* infer_check.c: cuts units that are several groups; where nobody can tell, they stay unmatched. */
RS_MUST_CHECK enum rs_status infer_check_units(struct infer *in, size_t first_unit);

#endif
