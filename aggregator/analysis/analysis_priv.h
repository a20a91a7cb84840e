/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this room share: the join while it is being made.
 *
 *   clock.c   which ranks share a clock; clock_fit.c   how those of different hosts stand to each other
 *   group.c   job groups; which local group of a summary is which
 *   infer.c   operations without a group -> units (channels of several ranks that pair up); infer_check.c: proven?
 *   align.c   two sequences of operations -> which belong together
 *   match.c   units -> operations of the job
 *   p2p.c     sends, receives and batches -> operations of the job
 *   wait.c    who waited for whom, and how long
 *   order.c   Seq, OpId
 *
 * A *flat* index numbers all operations of all summaries: op_base[summary] + op.
 */
#ifndef RS_ANALYSIS_ANALYSIS_PRIV_H
#define RS_ANALYSIS_ANALYSIS_PRIV_H

#include "aggregator/analysis/analysis.h"

/* Two clocks of one host, read by different devices and rounded to microseconds by some writers,
 * agree within this. Real 8-GPU traces: ends of one collective differ by 1 to 7 us. */
enum { RS_CLOCK_BOUND_NS = 10000 };

/* The operations of one rank that go into a unit, in the order of its calls. */
struct join_member {
    uint32_t summary;
    const uint32_t *ops; /* lent by a pool of the join */
    size_t count;
};

/* Operations of several ranks that belong to one communicator. */
struct join_unit {
    uint32_t group; /* job group; RS_NO_GROUP while it is being inferred */
    bool is_inferred;
    struct join_member *members; /* at most one per rank, by rank */
    size_t member_count, member_capacity;
};

/* What identifies a job group, beside what rs_job_group says. */
struct join_group_key {
    const char *name; /* lives in a summary; NULL without a name */
    size_t name_length;
    uint64_t hash;
    bool is_cut;    /* the list of ranks is shorter than the group */
    size_t seen_in; /* summary + 1: the last file with an entry of these ranks and no name */
};

struct join {
    struct rs_analysis *out;
    bool assume_common_clock;

    uint32_t *host;   /* [summary] whose clock it is: a host, or a file that names none */
    uint32_t *domain; /* [summary] hosts whose clocks are aligned: their times can be compared */
    size_t host_count, unknown_hosts;

    size_t *op_base;    /* [summary_count + 1] */
    uint32_t *op_group; /* [flat] job group; RS_NO_GROUP */
    uint8_t *op_done;   /* [flat] already part of an operation of the job */

    size_t *local_base;    /* [summary_count + 1] */
    uint32_t *local_group; /* [flat local group] job group; RS_NO_GROUP: ranks unknown */

    struct join_group_key *keys; /* parallel to out->groups */
    size_t key_capacity, group_capacity;
    uint32_t *group_slots; /* open addressing, index + 1 */
    size_t group_slot_count;

    struct join_unit *units;
    size_t unit_count, unit_capacity;
    uint32_t **pools; /* lists of operations that members lend from */
    size_t pool_count, pool_capacity;

    size_t op_capacity, row_capacity;
    size_t note_capacity;
};

static inline const struct rs_comm_op *join_op(const struct join *join, size_t summary, size_t op)
{
    return &join->out->summaries[summary]->ops[op];
}

/* Sums of what strangers recorded stay at the end of their range. */
static inline rs_dur join_sum(rs_dur a, rs_dur b)
{
    rs_dur sum;
    return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT64_MIN : INT64_MAX) : sum;
}

/* analysis.c */
RS_MUST_CHECK enum rs_status join_pool(struct join *join, size_t count, uint32_t **pool_p);
RS_MUST_CHECK enum rs_status join_note(struct join *join, const char *format, ...) RS_PRINTF(2, 3);

/* steps.c: edges, mean_step_ns and complete_steps; what is to be said of edges. */
/* An analysis of these ranks with what is counted of them and their steps, and without a join; from RS_OK on the summaries are its own.
 * RS_INVALID, RS_NOMEM. */
RS_MUST_CHECK enum rs_status analysis_begin(struct rs_summary *summaries, size_t count,
                                            bool is_triggered, struct rs_analysis **analysis_p,
                                            struct rs_err *err);
RS_MUST_CHECK enum rs_status count_steps(struct rs_analysis *out, bool is_triggered);
RS_MUST_CHECK enum rs_status note_edges(struct join *join);
/* apart.c: who recorded at another time than most. */
RS_MUST_CHECK enum rs_status note_apart(struct join *join);
/* vendor.c: where official figures are not those of the recording. */
RS_MUST_CHECK enum rs_status vendor_notes(struct join *join);
/* settings.c: ranks that were set up otherwise than the others. */
RS_MUST_CHECK enum rs_status settings_notes(struct join *join);
/* A new operation; its rows follow by join_row(), in order of rank, before the next one. */
RS_MUST_CHECK enum rs_status join_new_op(struct join *join, struct rs_job_op **op_p);
RS_MUST_CHECK enum rs_status join_row(struct join *join, size_t summary, uint32_t op_index);

/* clock.c */
RS_MUST_CHECK enum rs_status clock_domains(struct join *join);
bool clock_names_host(const struct join *join, size_t summary);
bool clock_crosses(const struct join *join, const struct rs_job_op *op);

/* clock_fit.c */
/* A first guess of out->clocks, and domains that can be compared by them. */
RS_MUST_CHECK enum rs_status clock_align(struct join *join);
/* From what this round matched: better clocks, and their bounds. */
RS_MUST_CHECK enum rs_status clock_refine(struct join *join);
rs_ns join_time(const struct join *join, size_t summary, rs_ns instant);
/* Two summaries of one domain: how far an instant of the one may be off against the other's. 0 on one host. */
rs_dur join_bound(const struct join *join, size_t a, size_t b);

/* group.c */
RS_MUST_CHECK enum rs_status group_collect(struct join *join);
RS_MUST_CHECK enum rs_status group_add(struct join *join, const struct rs_job_group *wanted,
                                       const struct join_group_key *key, uint32_t *index_p);
/* The job group of these sorted ranks found by timing: the only named one with these ranks, else a nameless
 * one. */
RS_MUST_CHECK enum rs_status group_for_ranks(struct join *join, const int32_t *ranks, size_t count,
                                             uint32_t *index_p);
RS_MUST_CHECK enum rs_status group_texts(struct join *join);
/* Global rank of a rank within the group of this operation; -1 unknown. */
int32_t group_global_rank(const struct join *join, size_t summary, const struct rs_comm_op *op,
                          uint32_t group, int32_t rank_in_group);
int32_t group_rank_of(const struct rs_analysis *out, size_t summary_index,
                      const struct rs_comm_op *op, uint32_t group, int32_t rank_in_group);
void group_fini(struct join *join);

/* infer.c: units from operations whose group is unknown. */
RS_MUST_CHECK enum rs_status infer_units(struct join *join);

/* match.c */
RS_MUST_CHECK enum rs_status match_known_units(struct join *join);
RS_MUST_CHECK enum rs_status match_units(struct join *join);
RS_MUST_CHECK enum rs_status match_leftovers(struct join *join);
RS_MUST_CHECK enum rs_status unit_add_member(struct join_unit *unit,
                                             const struct join_member *member);
void units_fini(struct join *join);
bool match_is_collective(const struct rs_comm_op *op);
/* Of some of its operations on devices the call was lost, of others it was not. */
bool match_lacks_calls(const struct rs_summary *summary);

/* p2p.c */
RS_MUST_CHECK enum rs_status match_p2p(struct join *join);

/* wait.c */
RS_MUST_CHECK enum rs_status wait_all(struct join *join);

/* order.c */
RS_MUST_CHECK enum rs_status order_ops(struct join *join);

/* ---- links.c: speaks from the finished join ---------------------------------- */

/* What went from one rank to another at once: a send with its recv, or a hop inside a collective. */
struct link_message {
    int32_t src, dst;
    int64_t step;
    int64_t bytes;         /* -1 unknown */
    rs_dur link_ns;        /* what it took, nobody's lateness in it; -1 unknown */
    rs_dur sending_ns;     /* the sending side of that: no scheduling of the receiver in it */
    bool is_lower_bound;   /* sending_ns may have been longer: the receiver came in the middle */
    const char *transport; /* lives in a summary; "UNKNOWN" */
    uint8_t op_type;       /* enum rs_op_type of the operation that it belongs to */
};

struct link_messages {
    struct link_message *items; /* by (src, dst, step, as found) */
    size_t count, capacity;
};

/* Fills analysis->links; the caller frees the messages' items. */
RS_MUST_CHECK enum rs_status links_collect(struct rs_analysis *analysis,
                                           struct link_messages *messages);
/* ---- align.c ------------------------------------------------------------------------ */

/* An operation, or several that were found to be one: what it allows to join it. */
struct align_item {
    /* on the reference's clock */
    rs_ns max_start, min_end;   /* over its members; min_end RS_NS_MAX when no end is known */
    rs_ns root_start, root_end; /* valid with has_root */
    rs_ns end;                  /* latest end seen; RS_NS_MIN unknown */
    rs_dur bound; /* how far these instants may be off against the reference's clock */
    int64_t step; /* RS_STEP_NONE when numbers of steps mean nothing across ranks */
    int64_t bytes;
    int64_t seq;
    uint64_t comms_id, shape_hash;
    uint32_t id;          /* the operation's, stable while lists grow */
    uint32_t last_member; /* who joined last; UINT32_MAX nobody */
    uint8_t type;
    bool has_root, is_on_device;
};

struct align_list {
    struct align_item *items; /* in order */
    size_t count, capacity;
    uint32_t next_id;
};

enum align_kind { ALIGN_COLLECTIVE, ALIGN_P2P };

struct align_rules {
    enum align_kind kind;
    bool has_clock;    /* both sides are on one clock: feasibility and ends count */
    bool is_one_group; /* files say that all are members of one group */
    rs_dur
        tolerance; /* with a clock: ends of one operation differ by less; 0: found from the rows */
    bool ends_say_nothing; /* a host's sends end when they like: their order alone counts */
    rs_ns b_span_start;    /* p2p: when b's recording began; earlier sends may have no receive */
};

#define ALIGN_NONE SIZE_MAX

/* Messages of one size on all members; an all_gather or all_to_all may be uneven. */
bool align_is_even(uint8_t type);
void align_item_from(const struct join *join, size_t summary, const struct rs_comm_op *op,
                     struct align_item *item_p);
bool align_items_fit(const struct align_item *a, const struct align_item *b,
                     const struct align_rules *rules);
/* The same type, message and step, as far as both know them. */
bool align_same_kind(const struct align_item *a, const struct align_item *b);
struct align_side {
    const struct align_item *items;
    size_t count;
};

struct align_result {
    size_t found;
    double cost; /* mean distance of ends of the pairs found */
};

/* positions[i] = position in `a` of b's i-th, or ALIGN_NONE; increasing. */
RS_MUST_CHECK enum rs_status align_find(struct align_side a, struct align_side b,
                                        const struct align_rules *rules, size_t *positions,
                                        struct align_result *result_p);
/* Is there a difference of the clocks with which nobody of these pairs ends before a start that it needs? */
bool align_some_clock_fits(struct align_side a, struct align_side b,
                           const struct align_rules *rules, const size_t *positions);
/* align_shift.c, without a clock: b[i] is a[i + shift]; of all shifts the one that leaves the fewest rows alone. false, positions without
 * a meaning: there is none, or several. */
bool align_find_shift(struct align_side a, struct align_side b, const struct align_rules *rules,
                      size_t *positions, ptrdiff_t *shift_p);
/* Joins b into the list: pairs merge, the others are inserted where they belong, by time where both are on one clock.
 * ids[i] = id of b[i]. */
RS_MUST_CHECK enum rs_status align_merge(struct align_list *list, const struct align_item *b,
                                         size_t b_count, bool has_clock, const size_t *positions,
                                         uint32_t *ids);
void align_item_merge(struct align_item *into, const struct align_item *other);
void align_list_fini(struct align_list *list);

#endif
