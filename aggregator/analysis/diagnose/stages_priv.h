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

/* Sorts and joins `rows`. totals[class]: ns of all its work; 0: it has none. RS_NOMEM. */
RS_MUST_CHECK enum rs_status alike_find(struct alike_row *rows, size_t count, const double *totals,
                                        size_t classes, struct alike *alike);
void alike_fini(struct alike *alike);
/* Index of a kind that all members have; SIZE_MAX: it is none. */
size_t alike_index(const struct alike *alike, uint64_t key);

#endif
