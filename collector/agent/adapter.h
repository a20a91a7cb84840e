/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every adapter of a collector has: what it can do, a table of its ranks, messages in and out, and a thread that wakes for them.
 * Each adapter's own struct begins with this one.
 *
 *   uplink thread --Prepare, Commit, Cancel--> inbox --> the adapter's thread --Armed, Progress--> outbox --> uplink thread
 *                 <---------------- copy <--- table (under the lock) ----
 *
 * The agent knows adapters by this struct only: it hands a message to the one whose number it names, announces what they can do, and stops
 * them. A new one is a file that fills it in, and a line where it is started.
 */
#ifndef RS_AGENT_ADAPTER_H
#define RS_AGENT_ADAPTER_H

#include "collector/agent/mailbox.h"
#include "collector/spool/spool.h"
#include "collector/uplink/uplink.h"
#include "common/request/adapter.h"
#include "common/request/rank_expr.h"
#include "common/trust/local.h"

#include <stdatomic.h>

enum { RS_AGENT_TEXT_BYTES = 257 };

struct rs_agent_row {
    uint64_t id; /* the adapter's own */
    char run[RS_AGENT_TEXT_BYTES], host[RS_AGENT_TEXT_BYTES], incarnation[RS_AGENT_TEXT_BYTES];
    char capture[65];
    char user[RS_IDENTITY_NAME_BYTES]; /* whose process it is; "" unknown */
    int32_t role[RS_ROLE_COUNT];       /* -1 unknown; none is known: has_roles is false */
    bool has_roles;
    Rankscope__RankState state; /* without its texts and roles */
};

struct rs_agent_adapter_options {
    struct rs_adapter what;
    struct rs_spool *spool;
    const char *run; /* for processes that name none; "": their host. Copied, as host is */
    const char *host;
    void (*wake)(void *self); /* there is something to send; any thread */
    void *wake_self;
};

struct rs_agent_adapter {
    struct rs_adapter what;
    struct rs_spool *spool;
    char *run, *host;
    void (*wake)(void *self);
    void *wake_self;
    /* Thread: uplink. Ends captures, joins its threads, sends what is left, frees the whole. `uplink` NULL: there is none. */
    void (*stop)(struct rs_agent_adapter *self, struct rs_uplink *uplink);
    bool drops_when_down; /* what it says is old by the time the link is up again */

    int wake_fd; /* readable: something is in the inbox, or it is to stop */
    atomic_bool must_stop;
    struct rs_mailbox inbox, outbox;
    struct rs_mailbox
        news; /* of captures of a collector before us: kept until the link is up, sent first */
    pthread_mutex_t lock; /* guards the table, and what else the adapter says */
    struct rs_agent_row *table;
    size_t table_count, table_capacity;

    struct rs_agent_row *copy; /* the uplink thread's */
    Rankscope__RankState **copy_states;
    size_t copy_capacity, copy_state_capacity;
};

/* On failure, too, rs_agent_adapter_fini() is owed. RS_NOMEM, RS_IO. */
RS_MUST_CHECK enum rs_status rs_agent_adapter_init(struct rs_agent_adapter *adapter,
                                                   const struct rs_agent_adapter_options *options,
                                                   struct rs_err *err);
void rs_agent_adapter_fini(struct rs_agent_adapter *adapter);

/* ---- thread: uplink ---- */

/* A message in; it is copied. */
void rs_agent_adapter_put(struct rs_agent_adapter *adapter, const ProtobufCMessage *message);
/* Sends what waits. While the link is down it goes on waiting, unless the adapter drops it. */
void rs_agent_adapter_send(struct rs_agent_adapter *adapter, struct rs_uplink *uplink);
/* Sends all, link or no link. */
void rs_agent_adapter_send_last(struct rs_agent_adapter *adapter, struct rs_uplink *uplink);
/* The table; valid until the next call. */
size_t rs_agent_adapter_ranks(struct rs_agent_adapter *adapter, Rankscope__RankState ***states_p);

/* ---- the adapter's own threads ---- */

/* Calls one of the three for each message of the inbox. `self` is the adapter. */
struct rs_agent_handlers {
    void (*prepare)(void *self, const Rankscope__Prepare *prepare);
    void (*commit)(void *self, const Rankscope__Commit *commit);
    void (*cancel)(void *self, const Rankscope__Cancel *cancel);
};
void rs_agent_adapter_read(struct rs_agent_adapter *adapter,
                           const struct rs_agent_handlers *handlers);
/* Room for so many rows in the table, under the lock. False: no memory. */
bool rs_agent_adapter_grow(struct rs_agent_adapter *adapter, size_t rows);
/* A row with the texts of a rank and a state with its adapter's number. */
void rs_agent_adapter_fill(const struct rs_agent_adapter *adapter, struct rs_agent_row *row,
                           const char *run, const char *host, const char *incarnation,
                           const char *capture);
/* Whose process it is, by the number of its user; below 0: that is not known. */
void rs_agent_adapter_set_user(struct rs_agent_row *row, int64_t uid);
/* The run of a process that names `own` ("": none). Lent. */
const char *rs_agent_adapter_run(const struct rs_agent_adapter *adapter, const char *own);
/* host:pid:start, and a mark of the spool: its numbers begin at 1 again when the spool is another. */
void rs_agent_adapter_incarnation(const struct rs_agent_adapter *adapter, const char *host,
                                  int64_t pid, uint64_t start, char text[RS_AGENT_TEXT_BYTES]);
/* Messages out; any thread. */
void rs_agent_adapter_armed(struct rs_agent_adapter *adapter, const char *capture,
                            const Rankscope__ArmedRank *rank);
void rs_agent_adapter_progress(struct rs_agent_adapter *adapter, const char *capture,
                               const Rankscope__RankProgress *rank);
/* Refused: what is to be committed was prepared too long ago, or by a collector before this one. Nobody else would tell of it. */
void rs_agent_adapter_unknown(struct rs_agent_adapter *adapter, const char *capture, uint32_t rank);
/* Makes its thread look. */
void rs_agent_adapter_rouse(struct rs_agent_adapter *adapter);

#endif
