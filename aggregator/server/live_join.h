/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures that go on, joined as their summaries come (live_join.c draws it): rows in captures/ID/rows.db, and what is known of them
 * for `capture show`. The server's thread.
 */
#ifndef RS_SERVER_LIVE_JOIN_H
#define RS_SERVER_LIVE_JOIN_H

#include "common/base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rs_server;

enum { LIVE_HEADLINE_BYTES = 512 };

/* What the last join found. */
struct live_join_facts {
    bool is_provisional;    /* ranks record still, or have no summary yet */
    size_t rank_count;      /* joined */
    size_t recording_count; /* of these, ranks that record still */
    int64_t last_step;      /* that all of them have; RS_STEP_NONE: none */
    size_t finding_count;
    rs_ns joined_ns;                    /* realtime */
    char headline[LIVE_HEADLINE_BYTES]; /* the first finding; "" none */
};

/* Something of its summaries became durable, or it was open when the last process ended. */
void live_join_due(struct rs_server *server, const char *id);
/* True: its rows say all that is stored. False: they are made, and a tick comes when they are. */
bool live_join_may_close(struct rs_server *server, const char *id);
void live_join_forget(struct rs_server *server, const char *id);
/* Starts what is due; when to call again at the latest. */
rs_ns live_join_tick(struct rs_server *server, rs_ns now);
void live_join_fini(struct rs_server *server);
/* NULL: it was not joined yet. Lent until the next call of a function of this file. */
const struct live_join_facts *live_join_facts(const struct rs_server *server, const char *id);

#endif
