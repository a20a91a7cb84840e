/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the hang analysis share. All arrays are of one analysis and freed with it (hang.c).
 */
#ifndef RS_ANALYSIS_HANG_PRIV_H
#define RS_ANALYSIS_HANG_PRIV_H

#include "aggregator/analysis/hang/hang.h"
#include "common/base/buf.h"

#define HANG_NO_NODE UINT32_MAX

/* One member's calls of one group. */
struct hang_member {
    uint32_t node;         /* of the rank */
    uint32_t local;        /* the group's index in its dump; RS_FLIGHT_NO_GROUP: none */
    size_t first, count;   /* in hang_work.calls: its collectives there, by seq */
    int64_t last_seq;      /* highest it is known to have called; -1 none */
    bool has_unknown_tail; /* its dump ends before its last calls, or leaves some out */
};

struct hang_team { /* a group of the job, with its members; parallel to rs_hang.groups */
    struct hang_member *members; /* by rank, as in ranks */
    size_t member_count;
    int64_t
        done_seq; /* highest collective that somebody saw end and that needs everybody; -1 none */
};

/* A rank of the job. */
struct hang_node {
    int32_t rank;
    int32_t dump;    /* index; -1 silent */
    uint32_t *teams; /* team of each group of its dump */
    bool is_stale;   /* its dump is older than what others saw it take part in */
    bool is_blind;   /* silent, stale, or its last calls are lost: its absence proves nothing */
    bool waits;      /* it has a call that is open and that nobody saw end */
    bool
        is_inside; /* and one of them is held by nobody: all are in, and no call stands before it */
    size_t edge_first, edge_count;
    uint32_t in_count; /* ranks that wait for it */
    int64_t gap_ns;    /* longest pause between two of its calls; 0 unknown */
    int64_t taken_ns;  /* when its dump was made, when that is believable; RS_NULL */
};

enum hang_edge_kind {
    HANG_NOT_CALLED, /* the other did not make the call */
    HANG_BEHIND,     /* it did, behind another that is open */
    HANG_UNKNOWN,    /* it cannot be judged, and everybody else is in */
};

struct hang_edge {
    uint32_t from, to;
    uint32_t entry; /* of `from`, in the set */
    uint8_t kind;
};

/* The state of one collective of one group, looked at once. */
struct hang_op {
    uint32_t team;
    int64_t seq;
    bool is_done;                        /* somebody saw it end, and it needs everybody */
    bool is_started;                     /* somebody's device began it */
    size_t missing_first, missing_count; /* members (indices), in hang_work.lists */
    size_t blind_first, blind_count;
    size_t in_count;
    bool differs;
};

struct hang_work {
    struct rs_hang *hang;
    const struct rs_flight_set *set;
    const struct rs_hang_options *options;
    struct hang_team *teams;
    struct hang_node *nodes; /* by rank */
    size_t node_count;
    uint32_t *calls; /* entries, by team and member */
    struct hang_op *ops;
    size_t op_count, op_capacity;
    uint32_t *lists;
    size_t list_count, list_capacity;
    struct hang_edge *edges; /* by from */
    size_t edge_count, edge_capacity;
    bool has_open_mismatch; /* what waits behind it is its consequence */
};

/* groups.c: groups, members, their calls. */
RS_MUST_CHECK enum rs_status hang_find_groups(struct hang_work *work);
/* The member of this rank, or NULL. */
struct hang_member *hang_member_of(const struct hang_work *work, uint32_t team, int32_t rank);
uint32_t hang_node_of(const struct hang_work *work, int32_t rank); /* HANG_NO_NODE */
/* The member's first collective of this number, or NULL. */
const struct rs_flight_entry *hang_call(const struct hang_work *work,
                                        const struct hang_member *member, int64_t seq);
static inline const struct rs_flight_dump *hang_dump(const struct hang_work *work,
                                                     const struct hang_node *node)
{
    return node->dump < 0 ? NULL : &work->set->dumps[node->dump];
}
/* No member ends before all have begun. */
bool hang_is_symmetric(const struct rs_flight_entry *entry);

/* arrive.c: edges and waits of every open call. */
RS_MUST_CHECK enum rs_status hang_find_edges(struct hang_work *work);
/* The collective's state, found at the first question. NULL: no memory. */
struct hang_op *hang_op_of(struct hang_work *work, uint32_t team, int64_t seq);
/* The other rank's node of a send or receive; HANG_NO_NODE unknown. */
uint32_t hang_peer(const struct hang_work *work, const struct hang_node *node,
                   const struct rs_flight_entry *entry);

/* graph.c: `component` of each node, sinks and cycles. */
struct hang_graph {
    uint32_t *component; /* of each node */
    uint32_t *size;      /* of each component */
    uint8_t *leaves;     /* an edge leads out of it */
    size_t component_count;
    uint32_t *waiting; /* of each component: nodes that reach it, itself left out */
};
RS_MUST_CHECK enum rs_status hang_graph_new(const struct hang_work *work,
                                            struct hang_graph *graph_p);
void hang_graph_fini(struct hang_graph *graph);

/* build.c: findings. NULL: no memory. The name is copied. */
struct rs_finding *hang_add_finding(struct rs_hang *hang, enum rs_finding_kind kind,
                                    enum rs_confidence confidence);
RS_MUST_CHECK enum rs_status hang_add_rank(struct rs_finding *finding, int32_t rank);
RS_MUST_CHECK enum rs_status hang_add_host(struct rs_finding *finding, const char *host);
RS_MUST_CHECK enum rs_status hang_add_group(const struct rs_hang *hang, struct rs_finding *finding,
                                            uint32_t group);
RS_MUST_CHECK enum rs_status hang_add_evidence(struct rs_finding *finding,
                                               struct rs_evidence evidence, const char *name);
struct rs_evidence hang_evidence(enum rs_evidence_what what); /* all absent */

/* mismatch.c: a finding for the first collective of each group whose members called different things. */
RS_MUST_CHECK enum rs_status hang_find_mismatches(struct hang_work *work);
/* course.c: the first of its last calls with which this rank never went on before from that place; NULL: none. *rounds_p: how
 * often it was there. */
const struct rs_flight_entry *hang_off_course(const struct hang_work *work,
                                              const struct hang_node *node, size_t *rounds_p);
/* late.c: ranks that come late again and again. */
RS_MUST_CHECK enum rs_status hang_find_late(struct hang_work *work);
/* "all_reduce [16] Float" */
void hang_describe(const struct hang_work *work, const struct rs_flight_entry *entry,
                   struct rs_buf *text);

#endif
