/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files without a host of which too few rows are left to vote: do they stand on the clock of those that are there?
 *
 * That a file stands as others do is one guess, not many: it holds when more of its rows than chance would end with a row of their kind.
 *
 *   rows of one kind    |--|      |--|  |--|        |--|    of ranks that stand; what is near to one of them is
 *   a file's own             |                       |      so large a part of the time that they last: the chance of each row
 *
 * The chance is that of the rows which are looked at, and of each kind by itself: rows of more ranks lie near more of the time, and a file
 * has to show as much more. So it does not matter to it which ranks these are, as long as the ends do not choose them; they are the first
 * STANDING_SEEN of those that have a row of the kind. Where the kind names a group or a peer they were in that very operation, in a job
 * of any size. Where it names none they may have been in others: with the rows of all ranks there would be one at any time, and
 * none could say anything.
 *
 * Only kinds that such files have are kept, the rows of each are sorted once, and each file then costs its own rows only.
 */
#ifndef RS_ANALYSIS_CLOCK_FEW_H
#define RS_ANALYSIS_CLOCK_FEW_H

#include "aggregator/analysis/analysis_priv.h"
#include "aggregator/analysis/clock_carrier.h"
#include "common/base/slots.h"

struct clock_ended {
    uint32_t kind; /* which */
    rs_ns end;
};

/* A kind that a file with few rows has, and who of those that stand has it. */
struct clock_ended_kind {
    uint64_t kind;
    uint32_t look;      /* the one that the rest is of */
    uint32_t ranks;     /* whose rows are kept */
    size_t newest;      /* of these, summary */
    size_t from, count; /* of the rows */
    double chance;      /* that an instant is near one of them by accident */
};

/* Zeroed is empty: nobody stands there. */
struct clock_standing {
    struct clock_ended_kind *kinds;
    size_t kind_count;
    struct rs_slots slots; /* of the kinds */
    uint32_t look;
    struct clock_ended *rows; /* of the last look, by kind and end */
    size_t row_count, row_capacity;
};

/* Its file names no host, and its clock runs with that of its island's reference as closely as clocks of one host do. */
bool clock_runs_with_reference(const struct join *join, size_t s);
/* Whether s is such a file. `own` are its rows. */
bool clock_is_few(const struct join *join, const struct witnesses *own, size_t s);
/* Kinds of the files with few rows; nobody stands yet. witnesses: of each summary. The caller ends it with clock_standing_fini, also after
 * an error. */
RS_MUST_CHECK enum rs_status clock_standing_init(struct clock_standing *standing,
                                                 const struct join *join,
                                                 const struct witnesses *witnesses);
void clock_standing_fini(struct clock_standing *standing);
/* Rows of those of the island (is_in, a flag for each) that stand on its clock as they are, instead of those of the look before. */
RS_MUST_CHECK enum rs_status clock_standing_look(struct clock_standing *standing,
                                                 const struct join *join,
                                                 const struct witnesses *witnesses,
                                                 const bool *is_in);
/* True: the file with these rows stands there, and *clock_p is its clock. */
bool clock_stands(const struct clock_standing *standing, const struct witnesses *own,
                  struct rs_job_clock *clock_p);

#endif
