/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the questions about culprits share: a table of figures per rank and step, who is whose
 * peer, and the way to say what was found.
 *
 * Each question is one file: slow_rank.c (computing, data, host gaps), slow_link.c, one_step.c. It adds
 * findings, or a sentence that says why there is none.
 */
#ifndef RS_ANALYSIS_FINDINGS_PRIV_H
#define RS_ANALYSIS_FINDINGS_PRIV_H

#include "aggregator/analysis/analysis_priv.h"
#include "common/base/buf.h"

enum figure {
    FIGURE_CPU,       /* CPU time inside the rank's own operations; only native ranks know it */
    FIGURE_COMPUTING, /* device time, or wall time of the CPU's operations */
    FIGURE_HEAD,      /* waiting for the host or the data before the step's first work */
    FIGURE_INSIDE,    /* gaps between work, memory copies and the tail */
    FIGURE_EXPOSED,   /* communication that nothing covers: waiting for others is in it */
    FIGURE_COUNT
};

enum last { LAST_UNKNOWN, LAST_OTHER, LAST_SELF };

/* [rank][step][figure], steps that are complete on every rank that takes part. */
struct figures {
    const struct rs_analysis *analysis;
    size_t rank_count, step_count;
    uint32_t *summaries; /* [rank] */
    int64_t *steps;      /* [step] numbers */
    rs_dur *values;
    uint8_t *was_last; /* [rank][step] enum last: in the operation that made its group wait most */
    bool has_cpu;      /* every rank knows FIGURE_CPU */
    rs_dur mean_step;  /* of these steps */
    uint32_t *peers;   /* [rank] class: ranks of one class do the same work */
    uint32_t *peer_order; /* ranks sorted by class */
    size_t *peer_first;   /* [class + 1] into peer_order */
    size_t peer_classes;
};

static inline rs_dur figure_of(const struct figures *figures, size_t rank, size_t step,
                               enum figure figure)
{
    return figures->values[(rank * figures->step_count + step) * FIGURE_COUNT + (size_t)figure];
}

/* SIZE_MAX: not one of the steps that count. */
size_t figures_step(const struct figures *figures, int64_t step);

struct verdicts {
    struct rs_analysis *analysis;
    size_t capacity;
    struct rs_buf reasons; /* sentences: why not */
};

/* A new finding, all unknown, confidence as coverage and clocks allow. */
RS_MUST_CHECK enum rs_status verdict_add(struct verdicts *verdicts, enum rs_finding_kind kind,
                                         struct rs_finding **finding_p);
RS_MUST_CHECK enum rs_status verdict_say(struct rs_finding *finding, const char *format, ...)
    RS_PRINTF(2, 3);
double as_ms(rs_dur length);
double as_percent(double part, double whole);

/* How far one rank stands out of its peers in one figure. */
struct excess {
    uint32_t class;
    size_t rank;          /* index */
    rs_dur typical;       /* median over steps of (own - median of the other peers) */
    rs_dur mean;          /* mean over steps of the same */
    rs_dur peers_typical; /* median over steps of the other peers' median */
    rs_dur noise;         /* 95 of 100 of the other peers' own deviations are below this */
    rs_dur wobble; /* how much the excess itself varies over steps (scaled median deviation) */
    size_t hits;   /* steps in which the excess exceeds the noise */
};

/* All zero when the rank has no peers. */
RS_MUST_CHECK enum rs_status excess_of(const struct figures *figures, size_t rank,
                                       enum figure figure, struct excess *excess_p);
/* The rank of this class that stands out most. False when the class has nobody to compare with. */
RS_MUST_CHECK enum rs_status excess_find(const struct figures *figures, uint32_t class,
                                         enum figure figure, bool *found_p,
                                         struct excess *excess_p);

RS_MUST_CHECK enum rs_status slow_rank_ask(const struct figures *figures,
                                           struct verdicts *verdicts);
RS_MUST_CHECK enum rs_status slow_link_ask(const struct figures *figures,
                                           const struct link_messages *messages,
                                           struct verdicts *verdicts);
RS_MUST_CHECK enum rs_status one_step_ask(const struct figures *figures, struct verdicts *verdicts);

/* Fewer steps than this prove no habit: one_step.c speaks, weakly. */
enum { STEPS_FOR_A_HABIT = 3 };

#endif
