/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of a unit that is checked: who ended when in which operation. infer_crowd.c fills it, cuts it where members end apart;
 * infer_proof.c asks whether it is one group; infer_check.c does it for all units.
 */
#ifndef RS_ANALYSIS_INFER_CROWD_H
#define RS_ANALYSIS_INFER_CROWD_H

#include "aggregator/analysis/infer_priv.h"

enum {
    EVERY_PAIR_MAX = 128, /* members: up to here all pairs are compared, in all operations */
    CHECKED_SAMPLES_LEAST = 2,
    CHECKED_SAMPLES_MAX = 256,
};
#define CLOSEST_NS 2000.0 /* below this, closeness is noise and rounding */

struct edge {
    double distance; /* in the type that is looked at; < 0 unknown */
    uint32_t a, b;   /* members, a < b */
};

struct crowd {
    size_t count;       /* members */
    uint32_t *clocks;   /* [member] */
    size_t *places;     /* [member] of its rank among all, in strides of the unit's; rising */
    size_t world;       /* such places; 0: far more than members */
    size_t ids;         /* operations */
    rs_ns *starts;      /* [member * ids + id]; RS_NS_MIN: not there */
    rs_ns *ends;        /* the same */
    uint8_t *types;     /* [id] */
    struct edge *edges; /* pairs that are compared */
    size_t edge_count, edge_capacity;
    uint32_t *root; /* [count] cluster, called after its first member */
    uint32_t *size; /* [count] of the cluster of that name */
    uint32_t *best; /* [count] cluster of the best partition */
    double best_ratio;
    uint32_t *parts; /* [type * count] cluster where there are two left; `part_count` types */
    size_t part_count;
    uint32_t *label, *order; /* [count] scratch: class of a member; members by class */
    size_t samples_least;    /* operations that two members have to share */
    uint8_t *side;           /* [count] of the bipartition that is being tried */
    bool has_clocks;         /* more than one */
};

/* Matches the unit's members, which stand by rank, once more, and keeps who ended when. Also after a failure crowd_fini() is due. */
RS_MUST_CHECK enum rs_status crowd_fill(struct infer *in, const struct join_unit *unit,
                                        struct crowd *crowd);
void crowd_fini(struct crowd *crowd);
/* Median distance of the ends of two members in operations of one type; of two clocks, which may be off by a little, how much that
 * varies. < 0: too few. */
double crowd_distance(const struct crowd *crowd, size_t a, size_t b, uint8_t type);
/* Sets best and best_ratio, which is how much farther apart members of different clusters end than those of one, and parts. */
void crowd_cut(struct crowd *crowd);

/* infer_proof.c. Proven by times to be one group. A whole job whose ranks have one channel each is hardly several groups side by side:
 * there a side with a member missing counts, too, by what is seen of it. */
RS_MUST_CHECK enum rs_status crowd_is_one_group(struct crowd *crowd, bool is_everybody,
                                                bool is_soft, bool *is_one_p);

#endif
