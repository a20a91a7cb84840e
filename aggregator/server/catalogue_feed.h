/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this aggregator has, written into the catalogue of its database, for the others (aggregator/store/fleet_captures.h).
 *
 *     RECONCILING   at start: what the database says of us, against what is here; what lacks or differs is CHANGED
 *         |
 *         v         something was written down of a capture, closed, removed, archived, its rows came
 *     FEEDING   <-- feed_changed(id), from any thread: CHANGED
 *         |         rs-catalogue: every two seconds the changed ones, as the journal has them now, in one request
 *         v         no answer? all of them again, as a newer version
 *     stop          once more, unless the database is away: the next start finds out what lacks
 *
 * Nothing of a capture waits for this. What others read is as old as the last request: two seconds, or as long as the database is away.
 */
#ifndef RS_SERVER_CATALOGUE_FEED_H
#define RS_SERVER_CATALOGUE_FEED_H

#include "common/base/err.h"

struct catalogue_feed;
struct rs_server;

/* When there is a place of rows and a lease; else *feed_p is NULL, and the rest does nothing. RS_IO, RS_NOMEM. Thread: the server's. */
RS_MUST_CHECK enum rs_status feed_start(struct rs_server *server, struct catalogue_feed **feed_p,
                                        struct rs_err *err);
void feed_stop(struct catalogue_feed **feed_p);
/* What is written down of the capture is another thing than before, or nothing any more. Any thread. */
void feed_changed(struct catalogue_feed *feed, const char *id);

#endif
