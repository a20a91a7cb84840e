/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stretches of time that many ranks recorded: which of them most others share.
 *
 *     rank 0          ===========
 *     rank 1           ==========      most shared: rank 0's or rank 1's
 *     rank 2   ===                     apart from it
 */
#ifndef RS_BASE_STRETCH_H
#define RS_BASE_STRETCH_H

#include "common/base/err.h"
#include "common/base/time.h"

#include <stdbool.h>
#include <stddef.h>

/* [start, end), on one clock; none where end <= start. */
struct rs_stretch {
    rs_ns start, end;
};

bool rs_stretch_is_known(const struct rs_stretch *stretch);
bool rs_stretch_overlaps(const struct rs_stretch *a, const struct rs_stretch *b);

/* From one to another, at most RS_NS_MAX: instants come from files and peers. */
rs_dur rs_stretch_between(rs_ns from, rs_ns to);
/* Its size in tenths of a second, to the nearest: 1.99 s are two seconds for who reads it. */
int64_t rs_stretch_tenths(rs_dur between);

/* Index of the stretch that overlaps most of all, the lowest on ties. RS_NOTFOUND: none is known; RS_NOMEM. Any thread; n log n. */
RS_MUST_CHECK enum rs_status rs_stretch_most_shared(const struct rs_stretch *stretches,
                                                    size_t count, size_t *index_p);

#endif
