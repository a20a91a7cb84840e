/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the clocks' fit share: rows as witnesses, points of a line, scratch. Inside the room.
 */
#ifndef RS_ANALYSIS_CLOCK_FIT_PRIV_H
#define RS_ANALYSIS_CLOCK_FIT_PRIV_H

#include "aggregator/analysis/analysis_priv.h"
#include "aggregator/analysis/clock_carrier.h"

enum {
    VOTE_ROWS = 192, /* rows of one side that vote */
    VOTE_NEAR = 96,  /* rows of the other side that each is held against, either way */
    VOTE_LEAST = 3,  /* rows that have to agree */
};

/* NCCL's ends agree within microseconds, those of some writers are rounded to whole ones. */
#define LEAST_BOUND_NS 3000
/* A spread beyond this says nothing about the last ten microseconds. */
#define SETTLED_BOUND_NS 20000

struct votes {
    double difference;
    uint32_t row;
};

struct point {
    double at, value; /* ns from the fit's `at`; what it says of the offset */
};

struct fitting {
    struct join *join;
    bool has_steps;             /* rows of one number of step only are held against each other */
    struct witnesses *rows;     /* [summary] */
    struct votes *votes;        /* scratch */
    uint32_t *seen;             /* [VOTE_ROWS] scratch */
    struct point *points;       /* scratch */
    double *sorted;             /* scratch */
    size_t scratch;             /* of points and sorted */
    struct clock_carrier lanes; /* follow() looks at rows of these only; 0, 0: at all */
    size_t told; /* pairs that follow() found of rows that say more than their type */
};

struct line {
    double offset, drift; /* value = offset + drift * at */
    double spread; /* median absolute distance of the points from it, as a standard deviation */
    size_t used;
};

struct estimate {
    struct line line;
    rs_ns at; /* on b's own clock */
    size_t pairs;
};

/* clock_vote.c */
/* Rows of every rank by end; `fit->rows` is there. */
RS_MUST_CHECK enum rs_status fit_collect_witnesses(struct fitting *fit);
/* Room for `count` points. False: no memory. */
RS_MUST_CHECK bool fit_need_scratch(struct fitting *fit, size_t count);
/* Least squares without outliers; `sorted` is scratch for as many as there are points. */
struct line fit_robust_line(double *sorted, const struct point *points, size_t count);
/* The clock of summary s against that of t, both as recorded. */
RS_MUST_CHECK enum rs_status fit_two(struct fitting *fit, size_t t, size_t s,
                                     struct estimate *estimate_p, bool *found_p);

#endif
