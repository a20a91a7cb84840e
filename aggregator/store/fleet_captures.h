/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The catalogue of captures of all aggregators that write into one database: the table `catalogue`.
 *
 *     who has a capture    rs_fleet_put_captures() --> a row, each time that what is known of it changes
 *     any other            rs_fleet_heads(), rs_fleet_find() --> the newest row of each
 *
 * A row is its owner's alone (id and aggregator are the key), and newer ones have a larger version: written again, or late, an older one counts
 * for nothing. Of a capture that is removed there is a row that says so. What is in `head` and `info` is a message of the wire, which this room
 * does not read.
 *
 * Any thread.
 */
#ifndef RS_STORE_FLEET_CAPTURES_H
#define RS_STORE_FLEET_CAPTURES_H

#include "aggregator/store/row_place.h"

/* How far its rows are. */
enum rs_fleet_rows {
    RS_FLEET_ROWS_NONE,   /* not there, not all, or nobody knows: its owner makes them */
    RS_FLEET_ROWS_SO_FAR, /* it goes on */
    RS_FLEET_ROWS_WHOLE
};

/* Texts are lent: by who writes for the call, by the list that was read until it is freed. */
struct rs_fleet_capture {
    const char *id, *aggregator; /* the aggregator's id (fleet.h) */
    int64_t version;
    bool is_removed;
    const char *mark; /* its owner's own: what of it was written */
    const char *run, *owner, *state, *reason, *source;
    rs_ns created_ns, closed_ns; /* 0: not yet */
    int64_t world, rank_count;
    enum rs_fleet_rows rows;
    struct rs_view head,
        info; /* without its ranks, and with them; empty: they were not asked for */
    const char *
        notes; /* "partial" or "complete", then a line each, as in rows.at; of rows that are whole */
};

struct rs_fleet_captures {
    struct rs_fleet_capture *items; /* oldest first */
    size_t count, capacity;
    struct rs_buf bytes; /* that they lend from */
};
void rs_fleet_captures_fini(struct rs_fleet_captures *captures);

/* All of them at once. The table is made where it lacks. RS_UNREACHABLE: they may be there, or not; RS_REFUSED, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_fleet_put_captures(struct rs_row_place *place,
                                                   const struct rs_fleet_capture *captures,
                                                   size_t count, struct rs_err *err);
/* What that aggregator has written, removed ones, too: id, version and mark alone. RS_LIMIT: it is too much. */
RS_MUST_CHECK enum rs_status rs_fleet_marks(struct rs_row_place *place, const char *aggregator,
                                            struct rs_fleet_captures *captures_p,
                                            struct rs_err *err);
/* All but those of `aggregator`, without `info` and notes. RS_LIMIT: it is too much. */
RS_MUST_CHECK enum rs_status rs_fleet_heads(struct rs_row_place *place, const char *aggregator,
                                            struct rs_fleet_captures *captures_p,
                                            struct rs_err *err);
/* That one of another aggregator than `aggregator`, all of it; those that say that it was removed, too. None is RS_OK. */
RS_MUST_CHECK enum rs_status rs_fleet_find_all(struct rs_row_place *place, const char *id,
                                               const char *aggregator,
                                               struct rs_fleet_captures *captures_p,
                                               struct rs_err *err);
/* The same without those. RS_NOTFOUND. */
RS_MUST_CHECK enum rs_status rs_fleet_find(struct rs_row_place *place, const char *id,
                                           const char *aggregator,
                                           struct rs_fleet_captures *captures_p,
                                           struct rs_err *err);

#endif
