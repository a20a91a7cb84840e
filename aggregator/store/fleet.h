/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aggregators that write into one ClickHouse database: who of them lives, and where the others reach it.
 *
 *     rs_fleet_renew()   a row of our own into the table `aggregator` --> the newest row of every process --> who lives
 *
 * A row counts for RS_FLEET_LEASE_S by the database's clock, which is the only one that all of them have in common: a process that did
 * not write for longer is gone, or cannot reach the database, which is the same to the others. Rows are small, and older ones of a process
 * go when the server merges its parts.
 *
 * Whose rows they are is a number of the data folder (DATA/aggregator.id), made once: it is the same after a restart and at another
 * address. It is not who may write where: a capture's rows are written by the one that has its folder.
 */
#ifndef RS_STORE_FLEET_H
#define RS_STORE_FLEET_H

#include "aggregator/store/clickhouse.h"

#define RS_FLEET_ID_FILE "aggregator.id"

enum {
    RS_FLEET_LEASE_S = 10,
    RS_FLEET_ID_BYTES = 17,       /* 16 hex digits */
    RS_FLEET_EPOCH_MAX = 1 << 22, /* a version is an epoch and a count of 40 bits */
    RS_FLEET_HOST_BYTES = 256,
    RS_FLEET_ADDRESS_BYTES = 256,
    RS_FLEET_VERSION_BYTES = 32
};

enum rs_fleet_state {
    RS_FLEET_LIVING,
    RS_FLEET_STOPPED, /* it said so */
    RS_FLEET_GONE     /* its lease ended without a word */
};

/* "living", "stopped", "gone". */
const char *rs_fleet_state_text(enum rs_fleet_state state);

struct rs_fleet_member {
    char id[RS_FLEET_ID_BYTES];       /* of the data folder */
    char instance[RS_FLEET_ID_BYTES]; /* of the process */
    int64_t epoch;                    /* how often the data folder was begun with */
    char host[RS_FLEET_HOST_BYTES];
    char address[RS_FLEET_ADDRESS_BYTES]; /* "HOST:PORT", "unix:PATH" on its host */
    char http[RS_FLEET_ADDRESS_BYTES];    /* "https://HOST:PORT"; "": it serves none */
    char version[RS_FLEET_VERSION_BYTES];
    int64_t captures, open;  /* in its data folder, and of these not closed yet; -1 unknown */
    rs_ns began_ns, seen_ns; /* by the database's clock, which has whole seconds */
    enum rs_fleet_state state;
    bool is_double; /* another living process has the same id */
};

/* As the database told it. */
struct rs_fleet_list {
    struct rs_fleet_member *items; /* by id */
    size_t count, capacity;
    rs_ns now_ns; /* by the database's clock */
};
void rs_fleet_list_fini(struct rs_fleet_list *list);

/* The id in DATA, made when there is none, with the next epoch: durable. Who has the data folder's lock calls it once. RS_FORMAT: the file
 * is none of ours. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_fleet_id_take(const char *data_dir, char id_p[RS_FLEET_ID_BYTES],
                                              int64_t *epoch_p, struct rs_err *err);

/* A connection to the database; of one thread. */
struct rs_fleet;

/* Copies. Asks nobody yet. As clickhouse_link_open(). */
RS_MUST_CHECK enum rs_status rs_fleet_open(const struct rs_clickhouse_options *options,
                                           struct rs_fleet **fleet_p, struct rs_err *err);
void rs_fleet_close(struct rs_fleet **fleet_p);

/* Writes `self` (its state is LIVING or STOPPED; began_ns is not read, `served_ns` says for how long it has served) and replaces the list by
 * the aggregators that were seen within the last week. The table is made where it lacks. On failure the list is as it was.
 * RS_UNREACHABLE, RS_REFUSED, RS_IO, RS_FORMAT, RS_NOMEM; RS_INVALID: a text of self that is no name or address. */
RS_MUST_CHECK enum rs_status rs_fleet_renew(struct rs_fleet *fleet,
                                            const struct rs_fleet_member *self, rs_dur served_ns,
                                            struct rs_fleet_list *list, struct rs_err *err);

#endif
