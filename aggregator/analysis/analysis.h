/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The join: summaries of all ranks in, matched operations, waits and findings out.
 *
 *   summaries --group--> --match--> ops + rows --wait--> --links--> --findings-->
 *
 * Pure functions over memory: no clock, file or table is known here. Definitions: contracts
 * section 5 ("who waits for whom", matching, clocks, OpId). One thread per analysis.
 */
#ifndef RS_ANALYSIS_ANALYSIS_H
#define RS_ANALYSIS_ANALYSIS_H

#include "aggregator/analysis/findings.h"
#include "common/reduce/summary.h"

/* A process group of the job: name and sorted global ranks together are its identity. */
struct rs_job_group {
    char *text;        /* contracts section 5: "0", "name@0-3,8", "g:0-3,8"; "" unknown */
    int32_t *ranks;    /* sorted; NULL unknown */
    size_t rank_count; /* of the list; expected size in `size` (the list may be cut or unknown) */
    int64_t size;      /* -1 unknown */
    bool is_inferred;  /* from timing, not from the trace */
    bool is_ambiguous; /* two nameless communicators over the same ranks, told as one */
};

enum rs_coverage { RS_COVERAGE_EXACT, RS_COVERAGE_PARTIAL };

/* One operation of the job: a collective, a send with its recv, or one unmatched row. In OpId order. */
struct rs_job_op {
    int64_t step;   /* RS_STEP_NONE: outside every step */
    uint32_t group; /* index into groups; RS_NO_GROUP: empty */
    uint8_t type; /* enum rs_op_type; of a matched send/recv pair RS_OP_SEND; rows keep their own */
    bool is_p2p;
    bool is_matched;
    int64_t seq;            /* -1: unmatched, empty cell */
    int32_t last_rank;      /* -1: empty cell */
    int64_t ranks_expected; /* -1: empty cell */
    uint8_t coverage;       /* enum rs_coverage */
    bool has_wait; /* false: members in different clock domains; Wait, Transfer, LastRank empty */
    size_t row_first, row_count; /* rows, sorted by rank */
};

struct rs_job_row {
    uint32_t summary;  /* index into summaries */
    uint32_t op_index; /* into that summary's ops */
    int32_t rank;
    rs_dur wait, transfer; /* valid when the op has_wait */
    bool has_transfer;     /* false: unfinished row: its transfer is unknown */
    bool is_partial; /* the row's Coverage: the op's, or partial because this row is unfinished */
    bool
        has_wait; /* false: the op has none, or this one is smaller than its clocks are known to: empty cells */
};

enum rs_clock_method {
    RS_CLOCK_REFERENCE, /* the reference domain's own, or one host's: nothing to align */
    RS_CLOCK_ENDS,      /* from the ends of operations that members of both share */
    RS_CLOCK_ASSUMED,   /* --assume-common-clock */
    RS_CLOCK_NONE,      /* nothing to align it by: no time of it is compared with others' */
};
const char *rs_clock_method_text(enum rs_clock_method method);

/* A rank's clock against the reference (the domain of the lowest rank that takes part); see rs_analysis_time(). */
struct rs_job_clock {
    rs_ns at_ns;       /* own clock */
    rs_dur offset_ns;  /* own - reference at at_ns */
    int64_t drift_ppb; /* own runs faster than the reference by so much */
    rs_dur bound_ns;   /* offset_ns is right within this; 0 on the reference's host */
    uint8_t method;    /* enum rs_clock_method */
    uint32_t clock;    /* equal: one clock, nothing between them is off */
    uint32_t domain;   /* equal: instants can be compared, within the bound of the two */
};

/* Bytes and time over one directed pair of ranks, where both are known. */
struct rs_job_link {
    int32_t src, dst;
    const char *transport; /* lives in a summary's strings; "UNKNOWN" */
    int64_t bytes, count;
    rs_dur busy;               /* sum of transfer times that are known; -1: none is */
    double median_bytes_per_s; /* over its messages; 0 unknown */
    double fast_bytes_per_s;   /* what the fastest tenth of its messages reached; 0 unknown */
    bool is_estimated;         /* from the algorithm's shape, not from records */
};

/* Per rank: how often it came last in symmetric operations, and what that cost the others. */
struct rs_job_rank {
    int32_t rank;
    uint32_t summary;
    int64_t ops_last;   /* operations in which it was LastRank (more than one member) */
    rs_dur caused_wait; /* sum of the others' Wait in those */
    rs_dur own_wait;    /* sum of its Wait over all rows */
    rs_dur p2p_wait;    /* of these, point-to-point and batches: per step in step_p2p_wait */
    bool takes_part;    /* false: lost its time base; not matched */
    bool has_edges;     /* its first and last step are inflated: the next two are meant */
    int64_t edge_first, edge_last;
    bool has_clean_steps; /* there is a complete step between them */
    size_t step_base;     /* its first entry in step_p2p_wait */
};

/* How long was recorded, and from then until the profile was written to its end: of the rank where both took longest. */
struct rs_job_recording {
    size_t
        rank_count; /* where it is known: of ranks whose profile was written for us; 0: nowhere */
    int32_t rank;
    rs_dur recorded, writing;
};

struct rs_analysis_options {
    bool assume_common_clock; /* --assume-common-clock */
    bool is_triggered;        /* profilers were switched on and off inside running programs */
    /* The spans of that summary are not read again: they may go, before the diagnosis needs as much room for its own form of them. NULL:
     * nobody wants to know. */
    void (*spans_read)(void *self, const struct rs_summary *summary);
    void *self;
};

/* What all members of an operation say together. */
struct rs_job_op_figures {
    int64_t bytes;         /* nccl-tests' size; -1 unknown */
    rs_dur longest_ns;     /* longest transfer of a member; -1: a member's is unknown */
    const char *transport; /* lives in a summary; "SEVERAL": they differ; NULL unknown */
    int64_t root_no;       /* the root's place in the group; -1 unknown */
    bool has_hops;         /* a member recorded what it moved, hop by hop */
};

struct rs_analysis {
    const struct rs_summary *const *summaries; /* keeps pointers; sorted by rank */
    size_t summary_count;
    struct rs_job_rank *ranks;   /* one per summary, same order */
    struct rs_job_clock *clocks; /* one per summary, same order */
    int32_t world_size;          /* largest told, -1 unknown */
    int32_t *missing_ranks;      /* of the world, sorted */
    size_t missing_count;
    bool world_sizes_differ;

    struct rs_job_group *groups;
    size_t group_count;
    struct rs_job_op *ops; /* index is the OpId */
    size_t op_count;
    struct rs_job_row *rows; /* sorted by op, rank */
    size_t row_count;
    struct rs_job_op_figures
        *figures;             /* by operation, of an analysis that was read from rows; else NULL */
    int64_t unfinished_count; /* rows whose end is not in the recording */
    struct rs_job_recording recording;
    rs_dur *step_p2p_wait;     /* [sum over summaries of step_count], see rs_analysis_p2p_wait() */
    struct rs_job_link *links; /* sorted by src, dst */
    size_t link_count;

    bool one_clock;         /* all ranks that take part stand on one clock, or on aligned ones */
    bool clock_was_aligned; /* some stand on another host, or name none: see clocks */
    bool clock_was_assumed; /* by the option */
    rs_dur mean_step_ns;    /* over the steps that are in means, of all ranks; 0 unknown */
    int64_t complete_steps; /* distinct complete steps on all ranks */
    struct rs_diagnosis *diagnosis;
    char **notes; /* what else a reader must be told: sentences */
    size_t note_count;
    struct rs_analysis_options options; /* as they were given */
};

/* `summaries`: lent until rs_analysis_free(); any order, one per rank (several cycles of a rank are merged by
 * the caller). */
RS_MUST_CHECK enum rs_status rs_analysis_new(const struct rs_summary *const *summaries,
                                             size_t summary_count,
                                             const struct rs_analysis_options *options,
                                             struct rs_analysis **analysis_p, struct rs_err *err);
void rs_analysis_free(struct rs_analysis **analysis_p);

struct rs_job_recording rs_analysis_recording(const struct rs_summary *const *summaries,
                                              size_t count);

/* What one operation moved over one directed link, message by message: a send with its recv, or a hop
 * inside a collective. The same messages make rs_job_link. */
struct rs_job_message {
    int32_t src, dst;
    const char *transport; /* lives in a summary; "UNKNOWN" */
    int64_t bytes;         /* -1 unknown */
    rs_dur link_ns;        /* what the link took, nobody's lateness in it; -1 unknown */
    rs_dur sending_ns;     /* the sending side of that: no scheduling of the receiver; -1 unknown */
};
typedef enum rs_status rs_analysis_message_fn(void *self, const struct rs_job_message *message);
/* Calls visit for each, by (src, dst, order); stops at its first failure and returns that. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_analysis_messages(const struct rs_analysis *analysis,
                                                  size_t op_index, rs_analysis_message_fn *visit,
                                                  void *self);

struct rs_job_op_figures rs_analysis_op_figures(const struct rs_analysis *analysis,
                                                const struct rs_job_op *op);

/* Of a row of an operation of batches: how many exchanges it names (several may be with one rank), and the row, among analysis->rows,
 * that the n-th is with; SIZE_MAX: it is not here. */
size_t rs_analysis_partner_count(const struct rs_analysis *analysis, const struct rs_job_row *row);
size_t rs_analysis_partner_row(const struct rs_analysis *analysis, const struct rs_job_op *op,
                               const struct rs_job_row *row, size_t n);

/* The step is the first or the last that was recorded of a triggered rank: switching the profiler is in it. */
bool rs_analysis_is_inflated(const struct rs_analysis *analysis, size_t summary_index,
                             size_t step_index);
/* It is complete, and not inflated unless the rank has no other. */
bool rs_analysis_is_in_means(const struct rs_analysis *analysis, size_t summary_index,
                             size_t step_index);

/* An instant of this rank on the reference's clock: what instants of different ranks are compared by. As it is where the rank's
 * clock is the reference's, or cannot be aligned. */
rs_ns rs_analysis_time(const struct rs_analysis *analysis, size_t summary_index, rs_ns instant);

/* How far instants of two ranks may be off against each other on the reference's clock: 0 on one clock; RS_NS_MAX where they
 * cannot be compared. */
rs_dur rs_analysis_clock_bound(const struct rs_analysis *analysis, size_t a, size_t b);

/* Sum of Wait of point-to-point rows and batches that belong to step row `step_index` of a summary. */
rs_dur rs_analysis_p2p_wait(const struct rs_analysis *analysis, size_t summary_index,
                            size_t step_index);

#endif
