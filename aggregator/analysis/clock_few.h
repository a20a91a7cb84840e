/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files without a host of which too few rows are left to vote: do they stand on the clock of those that are there?
 *
 * That a file stands as others do is one guess, not many: it holds when more of its rows than chance would end with a row of their kind.
 * The others' rows are sorted once, and each file then costs its own rows only.
 */
#ifndef RS_ANALYSIS_CLOCK_FEW_H
#define RS_ANALYSIS_CLOCK_FEW_H

#include "aggregator/analysis/analysis_priv.h"
#include "aggregator/analysis/clock_carrier.h"

struct clock_ended {
    uint64_t kind;
    rs_ns end;
};

struct clock_ended_kind {
    uint64_t kind;
    size_t from, count; /* of the rows */
    double chance;      /* that an instant is near one of them by accident */
};

/* Zeroed is empty: nobody stands there. */
struct clock_standing {
    struct clock_ended *rows; /* by kind and end */
    struct clock_ended_kind *kinds;
    size_t kind_count;
};

/* Whether s is such a file. `own` are its rows. */
bool clock_is_few(const struct join *join, const struct witnesses *own, size_t s);
/* Rows of the first ranks of the island (is_in, a flag for each) that stand on its clock as they are; witnesses: of each summary. The caller
 * ends it with clock_standing_fini, also after an error. */
RS_MUST_CHECK enum rs_status clock_standing_collect(const struct join *join,
                                                    const struct witnesses *witnesses,
                                                    const bool *is_in,
                                                    struct clock_standing *standing);
void clock_standing_fini(struct clock_standing *standing);
/* True: the file with these rows stands there, and *clock_p is its clock. */
bool clock_stands(const struct clock_standing *standing, const struct witnesses *own,
                  struct rs_job_clock *clock_p);

#endif
