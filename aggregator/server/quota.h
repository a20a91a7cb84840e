/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one identity may take of the aggregator, over all of its links: an account for each, and one table of limits by party.
 *
 *     rs_server_accept()   quota_open()      links at a time
 *     Hello, heartbeats    quota_take(RANKS)      ranks that are new, per minute
 *     Open                 quota_take(STREAMS), quota_give()   streams at a time
 *     captures             quota_take(CAPTURES)   captures begun, per minute
 *     chunks               quota_put(), quota_done(): bytes per second, and of the queue of ingest while others want it, too; and who
 *                          sends more than the others rests after each chunk, up to 1.5 times as long as that took: the disk is free most of the time
 *
 * Too many links, ranks, streams and captures are refused; too many bytes make a link wait, so that its collector's spool takes
 * them. Who is local (root, the aggregator's own user) is bounded by its links alone, but shares the queue like everybody.
 * Thread: the server's.
 */
#ifndef RS_SERVER_QUOTA_H
#define RS_SERVER_QUOTA_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/trust/identity.h"

#include <stddef.h>
#include <stdint.h>

struct quota;

enum quota_kind { QUOTA_LINKS, QUOTA_STREAMS, QUOTA_RANKS, QUOTA_CAPTURES, QUOTA_KIND_COUNT };

/* 0: no limit. */
struct quota_limits {
    uint32_t
        most[QUOTA_KIND_COUNT]; /* links and streams at a time; ranks and captures in a minute */
    uint64_t bytes_per_s;
};

/* Of all identities. Zeroed is empty. */
struct quotas {
    struct quota *first;
    const struct quota_limits *limits; /* of every party, for tests; NULL: the table */
    const struct quota *last;          /* whose chunk came last */
    rs_ns shared_until;                /* monotonic: chunks of more than one identity come */
};
void quotas_fini(struct quotas *quotas);
/* Accounts of who has been gone for a minute. */
void quotas_sweep(struct quotas *quotas, rs_ns now);

/* The account of an identity, with one link more. RS_LIMIT: it has too many; RS_NOMEM. */
RS_MUST_CHECK enum rs_status quota_open(struct quotas *quotas, const struct rs_identity *who,
                                        rs_ns now, struct quota **quota_p, struct rs_err *err);
/* A link less. Of NULL is allowed. */
void quota_close(struct quota *quota, rs_ns now);

/* One more. RS_LIMIT: it is one too many. */
RS_MUST_CHECK enum rs_status quota_take(struct quota *quota, enum quota_kind kind, rs_ns now,
                                        struct rs_err *err);
/* A stream less. */
void quota_give(struct quota *quota, enum quota_kind kind);

/* So many bytes of a chunk wait for ingest, or no longer. */
void quota_put(struct quotas *quotas, struct quota *quota, size_t bytes, rs_ns now);
void quota_done(const struct quotas *quotas, struct quota *quota, size_t bytes, rs_ns now);
/* Whether its links may be read. */
bool quota_may_read(const struct quotas *quotas, struct quota *quota, rs_ns now);
/* When to ask again at the latest: it rests until then. 0: it does not, and what it waits for is said by quota_done(), or time. */
rs_ns quota_rests_until(const struct quotas *quotas, const struct quota *quota, rs_ns now);

#endif
