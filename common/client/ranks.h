/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live table of ranks, asked for by pages, and those of it that an expression means.
 */
#ifndef RS_CLIENT_RANKS_H
#define RS_CLIENT_RANKS_H

#include "common/base/buf.h"
#include "common/request/rank_expr.h"
#include "common/wire/link.h"

/* Zeroed is empty. */
struct rs_client_ranks {
    Rankscope__RankState *
        *items; /* lent from the pages; anybody may sort them, or leave some out */
    size_t count, capacity;
    Rankscope__RankTable **pages; /* owned */
    size_t page_count, page_capacity;
};

/* Those of a run ("": of all), behind what is there. As rs_client_ask(); RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_client_ranks_ask(const struct rs_address *address, const char *run,
                                                 struct rs_client_ranks *ranks, struct rs_err *err);

/* Leaves those that the expression means, run by run; they are sorted by run and rank. `roles` is JSON that says which rank has which
 * (common/request/roles.h); empty: what the aggregator knows. Hands on a line for each that is named and not there, and returns RS_PARTIAL
 * then. RS_INVALID, RS_NOMEM. `print` NULL: nothing is handed on. */
RS_MUST_CHECK enum rs_status rs_client_ranks_choose(struct rs_client_ranks *ranks,
                                                    const struct rs_rank_expr *expr,
                                                    struct rs_buf *roles,
                                                    void (*print)(void *self, const char *line),
                                                    void *self, struct rs_err *err);
void rs_client_ranks_fini(struct rs_client_ranks *ranks);

#endif
