/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From joined operations and spans to the model of a job. Inside the room.
 */
#ifndef RS_DIAGNOSE_BUILD_H
#define RS_DIAGNOSE_BUILD_H

#include "aggregator/analysis/analysis.h"
#include "aggregator/analysis/diagnose/diagnose_priv.h"
#include "common/base/slots.h"

/* Programs of a class whose dependencies are looked for: the usual one, and those of steps that are another for all (an evaluation, a
 * checkpoint), the most frequent first. */
enum { BUILD_VARIANTS = 4 };

enum line_what {
    LINE_SPAN, /* work that was recorded */
    LINE_GAP,  /* work between operations that nobody recorded: whatever lies between */
    LINE_OP,   /* an operation */
    LINE_WAIT, /* the host waits */
    LINE_LOST, /* an operation whose row was lost: lost.c. It has no times, only a place */
};

/* One row of a rank's program, in launch order. */
struct line {
    int64_t order;
    uint8_t what;          /* enum line_what */
    uint8_t rank_in_order; /* a gap stands before its operation */
    bool on_host : 1;      /* its time is the host's */
    bool has_launch : 1;
    bool is_all : 1;    /* LINE_WAIT: for all streams */
    bool is_copy : 1;   /* LINE_SPAN: copies and sets only */
    bool is_hidden : 1; /* LINE_OP that was recorded as a span: `index` is into spans */
    /* LINE_OP called before the recording began: no operation of its step's program; LINE_SPAN some of whose rows were launched before */
    bool is_early : 1;
    bool
        is_parted : 1; /* LINE_SPAN that lacks rows, or a cut, and stood idle: its end is a node of its own behind its work */
    bool
        lacks_rows : 1; /* LINE_SPAN of which rows were lost, or may have been: what it stands idle is no wait */
    bool
        is_astray : 1; /* LINE_SPAN beside an operation whose place is not known: it may be behind it, or before it, or both */
    uint32_t index;    /* into ops or spans; LINE_LOST: into builder->lost */
    uint32_t step, lane;
    uint32_t slot; /* operations of its step that were called in it, before it */
    uint32_t key;  /* of an operation, where rows were lost: the same in all steps of one program */
    rs_ns start, end, launch;
    rs_dur work; /* LINE_SPAN */
    union {
        rs_ns launch_last; /* LINE_SPAN on a device that has_launch: of its last row */
        rs_dur idle;       /* LINE_SPAN on_host: of its work, nothing computed */
    };
    uint32_t launch_node, first_node, end_node; /* GRAPH_NONE: has none */
    uint32_t
        work_node; /* LINE_SPAN: of its work, which its end may stand behind for its host's sake */
};

struct program {
    uint32_t summary, worker;
    struct line
        *lines; /* lent by the builder: room for `most`; NULL when edges_make() is done with them */
    size_t count, most;
    size_t *step_first; /* [steps + 1] into lines */
    int64_t *lanes;     /* stream of each lane, by first appearance */
    size_t lane_count, lane_capacity;
    struct rs_slots lane_slots; /* of lanes */
    uint64_t signature;         /* of most of its steps */
    uint64_t *step_signatures;  /* never 0 */
    bool is_host;               /* no device */
    bool has_launches;          /* of device work, that say something about the host */
    bool has_waits;             /* waits of the host were recorded */
    uint8_t *
        step_lacks_waits; /* [step] rows were lost, and it has fewer waits of the host than most; NULL: no rows were lost */
};

/* An operation of which others have a row and this worker has none. By worker. */
struct lost_op {
    uint32_t worker;
    uint32_t op; /* of the analysis */
    uint8_t type;
    int64_t group_size; /* as in the summaries of those who have a row; 0 unknown, or a message */
};

/* What is kept of an operation's line when the lines are gone. */
struct op_place {
    uint32_t end_node, step, slot; /* GRAPH_NONE: in no program */
};

/* A member of an operation that no name tells; those of one meeting follow one another. */
struct hidden_end {
    uint32_t meeting, worker, line;
};

/* Where a host is when it has launched something, if nothing else explains when that began. */
struct issue {
    uint32_t node, launch, to;
};

struct builder {
    const struct rs_analysis *analysis;
    struct diag_model *model;
    rs_ns base;               /* of all instants of the graph */
    struct program *programs; /* [worker] */
    uint32_t *worker_of;      /* [summary] GRAPH_NONE: not taken */
    size_t *op_base;          /* [summary + 1] */
    uint32_t
        *op_line; /* [flat op] line of its program; GRAPH_NONE. Until the lines are gone, then: */
    struct op_place *op_places; /* [flat op] */
    uint8_t *
        alike; /* [class * steps + step] all members run the same operations in it: one of the variants */
    uint64_t *
        variants; /* [class * BUILD_VARIANTS] signatures of its steps, the usual one first; 0: no more */
    struct line *lines; /* of all programs, one behind the other */
    size_t most_lanes;
    struct hidden_end *hidden;
    size_t hidden_count, hidden_capacity;
    struct issue *issues;
    size_t issue_count, issue_capacity;
    bool has_cut; /* a rank's file is cut, and steps before that are judged */
    struct lost_op *lost;
    size_t lost_count, lost_capacity;
};

/* program.c */
RS_MUST_CHECK enum rs_status program_make(struct builder *builder, struct program *program);
/* Sorts its lines by step and order, and finds the steps' bounds. */
void program_sort(struct program *program, size_t steps);
/* Slots, signatures, and where each operation's line is: lines are in place. */
RS_MUST_CHECK enum rs_status program_sign(struct builder *builder, struct program *program);
void program_fini(struct program *program);
/* lost.c: operations that lack rows, where rows of ranks that were recorded were lost. Before program_make(). */
RS_MUST_CHECK enum rs_status lost_find(struct builder *builder);
/* Rows that were lost of one worker. */
size_t lost_of(const struct builder *builder, uint32_t worker);
/* lost_work.c: work of which rows were lost is as long as with all of them. After hidden_find(). */
RS_MUST_CHECK enum rs_status lost_mend_work(struct builder *builder);
/* lost.c: they become LINE_LOST, in their places. After program_make() of all. */
RS_MUST_CHECK enum rs_status lost_put_back(struct builder *builder);
/* classes.c: class of every worker, hosts, steps in which a class is alike. */
RS_MUST_CHECK enum rs_status classes_find(struct builder *builder);
/* hidden.c: spans that are operations become LINE_OP. After classes_find(). */
RS_MUST_CHECK enum rs_status hidden_find(struct builder *builder);
/* How many lines a rank's program has at most. */
size_t program_most_lines(const struct rs_summary *summary);
/* names.c: model->names. After classes_find(). */
RS_MUST_CHECK enum rs_status names_take(struct builder *builder);
/* loads.c: model->loads. After hidden_find(), before the lines are gone. */
RS_MUST_CHECK enum rs_status loads_take(struct builder *builder);
/* edges.c: nodes and edges of all programs; meetings; what was inferred. Lets go of all lines: a graph is sealed without them. */
RS_MUST_CHECK enum rs_status edges_make(struct builder *builder);
/* edges_rank.c: nodes, items and facts of one rank. */
RS_MUST_CHECK enum rs_status edges_of_rank(struct builder *builder, struct program *program);
/* edges_meetings.c: who waits for whom. */
RS_MUST_CHECK enum rs_status edges_of_meetings(struct builder *builder);
/* edges_lost.c: where rows were lost, what a rank waited for inside its spans. Inferred edges. */
RS_MUST_CHECK enum rs_status edges_of_lost(struct builder *builder);
/* edges_lost.c: of a sealed graph of such a recording, delays that nothing explains are left out. */
void edges_loosen(struct builder *builder);
/* edges_inputs.c: streams that wait for another. Inferred edges. */
RS_MUST_CHECK enum rs_status edges_of_inputs(struct builder *builder);
/* edges_outputs.c: who depends on operations. Inferred edges. */
RS_MUST_CHECK enum rs_status edges_of_outputs(struct builder *builder);
/* ghosts.c: where ranks that were not recorded came late, as far as the others show it. Inferred edges. */
RS_MUST_CHECK enum rs_status ghosts_make(struct builder *builder);
/* moves.c: transfers by unit. */
RS_MUST_CHECK enum rs_status moves_make(struct builder *builder);

/* The whole model. `model` is initialised on RS_OK; with fewer than 1 step or worker it has none. */
RS_MUST_CHECK enum rs_status diag_build(const struct rs_analysis *analysis,
                                        struct diag_model *model);

/* An operation of its step's program, by which slots are counted. */
static inline bool line_counts(const struct line *line)
{
    return (line->what == LINE_OP && !line->is_early) || line->what == LINE_LOST;
}

/* The worker of a rank; GRAPH_NONE: it has none. */
static inline uint32_t build_worker_of(const struct builder *builder, int32_t rank)
{
    size_t low = 0, high = builder->model->worker_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (builder->model->workers[middle].rank < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < builder->model->worker_count && builder->model->workers[low].rank == rank
               ? (uint32_t)low
               : GRAPH_NONE;
}

static inline const struct rs_comm_op *
line_op(const struct builder *builder, const struct program *program, const struct line *line)
{
    return &builder->analysis->summaries[program->summary]->ops[line->index];
}

#endif
