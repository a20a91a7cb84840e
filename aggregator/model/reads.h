/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The named reads: what can be asked of a capture's rows. reads.def has the SQL; the store runs it.
 */
#ifndef RS_MODEL_READS_H
#define RS_MODEL_READS_H

#include "aggregator/model/tables.h"

enum rs_read {
#define R(code, name, sql, help) RS_READ_##code,
#include "aggregator/model/reads.def"
#undef R
    RS_READ_COUNT
};

struct rs_read_def {
    const char *name; /* "collectives": HTTP, Ask */
    const struct rs_table *result;
    const char *sql; /* NULL: all of the table; "": raw events */
    const char *help;
};
const struct rs_read_def *rs_read_def(enum rs_read read);
/* False: there is none of that name. */
bool rs_read_named(const char *name, enum rs_read *read_p);

/* Its rows are no store's: they are read from raw events. */
bool rs_read_is_raw(enum rs_read read);

/* Which rows of a whole table, or of raw events, are wanted; no numbers: all. */
struct rs_read_filter {
    const int64_t *steps;
    size_t step_count;
    const int32_t *ranks;
    size_t rank_count;
    int64_t from_ns, to_ns; /* of raw events: what overlaps it; Unix, on the ranks' own clocks */
};
enum { RS_READ_FILTER_MAX = 1024 /* numbers of each kind */, RS_READ_RAW_RANKS_MAX = 64 };
/* RS_INVALID: its rows have no step, or no rank, or it is no whole table; too many numbers. Of raw events: no rank is named, or
 * more than RS_READ_RAW_RANKS_MAX, or the stretch of time is none. */
RS_MUST_CHECK enum rs_status
rs_read_check_filter(enum rs_read read, const struct rs_read_filter *filter, struct rs_err *err);
/* The SQL of a read, also of those that are a whole table. The filter is a checked one. */
void rs_read_sql(enum rs_read read, const struct rs_read_filter *filter, struct rs_buf *buf);

#endif
