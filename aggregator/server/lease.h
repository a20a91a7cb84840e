/* SPDX-License-Identifier: Apache-2.0 */
/*
 * That this aggregator lives, told to the others of its database (aggregator/store/fleet.h), and who of them does.
 *
 *     rs-lease:  every 3 s a row of our own, and the rows of all --> the list, under a lock --> who asks, on any thread
 *                no answer? again in 3 s; the list stays as it was, and says since when nothing was told
 *     stop:      a row that says so; a database that is away is not waited for
 *
 * Nothing else waits for it: an aggregator whose database is away goes on as ever, and is gone for the others after the lease.
 */
#ifndef RS_SERVER_LEASE_H
#define RS_SERVER_LEASE_H

#include "aggregator/store/fleet.h"

struct rs_lease;

struct rs_lease_options {
    struct rs_clickhouse_options database; /* its texts are copied */
    const char *id;                        /* rs_fleet_id_take(); copied, as all texts */
    int64_t epoch;
    const char *host, *version;
    /* How many captures there are, and of these not closed; -1 unknown. On rs-lease. NULL: nobody counts. */
    void (*count)(void *self, int64_t *captures_p, int64_t *open_p);
    void *self;
    rs_dur every_ns; /* 0: 3 s */
};

/* Begins nothing yet. RS_INVALID, RS_REFUSED, RS_NOMEM: as clickhouse_link_open(). Thread: the server's, as of start and stop. */
RS_MUST_CHECK enum rs_status rs_lease_new(const struct rs_lease_options *options,
                                          struct rs_lease **lease_p, struct rs_err *err);
/* Where this aggregator is reached is known now; http "": it serves none. Once. RS_INVALID: they are no addresses. RS_IO: no thread. */
RS_MUST_CHECK enum rs_status rs_lease_start(struct rs_lease *lease, const char *address,
                                            const char *http, struct rs_err *err);
/* NULL and one that was not started are allowed. */
void rs_lease_stop(struct rs_lease **lease_p);

/* A copy of what the database told last; rs_fleet_list_fini(). *why_p: why it has not told since, "" it answers. RS_UNREACHABLE: it has not
 * told anything yet. RS_NOMEM. Any thread. */
RS_MUST_CHECK enum rs_status rs_lease_list(struct rs_lease *lease, struct rs_fleet_list *list_p,
                                           char *why_p, size_t size, struct rs_err *err);
/* Of our own data folder; any thread. */
const char *rs_lease_id(const struct rs_lease *lease);
int64_t rs_lease_epoch(const struct rs_lease *lease);
/* Where others than us are reached: the newest row of the id. RS_NOTFOUND: nobody has told of it within a week, or nothing was told yet. Any
 * thread. */
RS_MUST_CHECK enum rs_status rs_lease_find(struct rs_lease *lease, const char *id,
                                           struct rs_fleet_member *member_p);
/* The host name in our row. Any thread. */
const char *rs_lease_host(const struct rs_lease *lease);
/* Whether the row is of this process. Any thread. */
bool rs_lease_is_self(const struct rs_lease *lease, const struct rs_fleet_member *member);

#endif
