/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of stages that do the same work. Inside the room.
 */
#ifndef RS_DIAGNOSE_STAGES_PRIV_H
#define RS_DIAGNOSE_STAGES_PRIV_H

#include "aggregator/analysis/diagnose/diagnose_priv.h"

/* Of more classes only all of them together are asked whether they are alike. */
enum { STAGES_GROUPED = 64 };

/* One kind of work (a signature of spans, the name of a kernel) of one class, of one member in the mean. */
struct alike_row {
    uint64_t key;
    uint32_t class_id;
    double count, ns;
};

/* Classes that have enough kinds of work equally often, and those kinds. */
struct alike {
    uint64_t *keys; /* ascending */
    size_t count;
    uint8_t *is_member; /* [class] */
    size_t members;     /* 0: no two classes are alike */
};

struct alike_limits {
    double apart; /* counts that differ by no larger part are equal */
    double share; /* classes are alike that have so large a part of their work in common */
};

/* Sorts and joins `rows`. totals[class]: ns of all its work; 0: it has none. RS_NOMEM. */
RS_MUST_CHECK enum rs_status alike_find(struct alike_row *rows, size_t count, const double *totals,
                                        size_t classes, const struct alike_limits *limits,
                                        struct alike *alike);
void alike_fini(struct alike *alike);
/* Index of a kind that all members have; SIZE_MAX: it is none. */
size_t alike_index(const struct alike *alike, uint64_t key);

/* stages_level.c: counts as they would be if all classes ran as much. Joins `rows` of one class and key, *count_p of them. RS_NOMEM. */
RS_MUST_CHECK enum rs_status stages_level_counts(struct alike_row *rows, size_t *count_p);
/* Logarithms of what the runs of all common kernels would take each worker, at its mean and as fast as its fastest; NAN: it lacks some.
 * RS_NOMEM. */
RS_MUST_CHECK enum rs_status stages_level_sums(const struct diag_model *model,
                                               const struct alike *alike, double *means,
                                               double *fastest);

#endif
