/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the coordinator knows of an open capture, copied for a thread that makes documents or rows of it. The server's thread makes
 * it, any thread reads and frees it. Inside the room.
 */
#ifndef RS_SERVER_LIVE_H
#define RS_SERVER_LIVE_H

#include "aggregator/deliver/deliver.h"

struct live;
struct rs_server;

/* *live_p NULL: there is no open capture of that name. RS_NOMEM. */
RS_MUST_CHECK enum rs_status live_of(const struct rs_server *server, const char *id,
                                     struct live **live_p);
void live_free(struct live **live_p); /* of NULL is allowed */
/* NULL of NULL. */
const struct rs_deliver_live *live_facts_of(const struct live *live);

#endif
