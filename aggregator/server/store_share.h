/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one identity keeps on the aggregator's disk: an account for each, and one limit for all (--keep-bytes-each).
 *
 * A capture is on one account: that of the user whose it is; where it is nobody's, of who asked for it, or of the node whose files it is made
 * of ("user/alice", "node/gpu-017"). What it takes is measured when captures are looked at for what may go (retention.c), about once a
 * minute; in between, chunks are added as they are stored.
 *
 *     look begins  store_shares_begin_look()     chunks from now on may be measured, or not: they count for a while more
 *     look ends    store_shares_end_look()       for each capture: store_share_of() -> measured
 *
 * Who keeps as much as he may begins no capture and opens no stream, and his open streams end where they are: refused with a sentence, counted,
 * in the audit log. Nothing that is kept is removed for it. Without a limit there are no accounts. Thread: the server's.
 */
#ifndef RS_SERVER_STORE_SHARE_H
#define RS_SERVER_STORE_SHARE_H

#include "common/base/err.h"
#include "common/trust/identity.h"

#include <stdint.h>

struct store_share {
    struct store_share *next;
    char name[RS_IDENTITY_TEXT_BYTES];
    uint64_t measured_bytes; /* by the last look */
    uint64_t before_bytes;   /* stored between that look and the one that is under way */
    uint64_t since_bytes;    /* stored since the last look began */
    uint64_t counted_bytes;  /* of the look that ends just now */
};

/* Zeroed is empty, and without a limit. */
struct store_shares {
    struct store_share *first;
    uint64_t limit_bytes; /* of each; 0: none, and no account is kept */
};
void store_shares_fini(struct store_shares *shares);

/* The account of that name, made when it is not there; it lives as long as `shares`. NULL: there is no limit, the name is "", or no memory. */
struct store_share *store_share_of(struct store_shares *shares, const char *name);
/* So much was stored. Of NULL is allowed. */
void store_share_add(struct store_share *share, uint64_t bytes);
/* Whether more may be stored. RS_REFUSED: it keeps as much as one may. Of NULL: RS_OK. */
RS_MUST_CHECK enum rs_status store_share_check(const struct store_shares *shares,
                                               const struct store_share *share, struct rs_err *err);

void store_shares_begin_look(struct store_shares *shares);
/* A capture that was looked at, and is kept. */
void store_share_count(struct store_share *share, uint64_t bytes);
void store_shares_end_look(struct store_shares *shares);

#endif
