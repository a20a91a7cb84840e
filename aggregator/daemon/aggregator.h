/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregator's daemon: the one place where chunks become durable.
 *
 * The verb fills in the options; this room puts store, server (with ingest and the coordinator in it), the gRPC listener
 * and the signals together.
 */
#ifndef RS_DAEMON_AGGREGATOR_H
#define RS_DAEMON_AGGREGATOR_H

#include "aggregator/server/server.h"
#include "aggregator/store/clickhouse.h"

#include <stdint.h>

enum { RS_AGGREGATOR_LISTEN_MAX = 8 };

/* Texts are lent until rs_aggregator_run() returns. */
struct rs_aggregator_options {
    const char *const *listen; /* unix:PATH or HOST:PORT, at least one */
    size_t listen_count;
    const char *const *http; /* HOST:PORT where HTTP is served, any number */
    size_t http_count;
    const char *const *webhooks, *const *slack_webhooks; /* URLs, any number */
    size_t webhook_count, slack_count;
    const char *webhook_secret; /* file; NULL: webhooks are not signed */
    const char *join;           /* HOST:PORT where nodes with an invite come; NULL: nowhere */
    const char *certs;          /* folder of our certificate; NULL: "certs" in the data folder */
    const char *
        ca; /* folder of the authority, for joining and renewing; NULL: "ca" in the data folder, if it is there */
    bool is_insecure_loopback; /* plain text on TCP addresses of this machine */
    const char *data;          /* folder of captures and catalogue */
    /* A unix socket is 0660: its owner and this group may ask. NULL: the group of this process. */
    const char *group;
    /* Who may do what over it (common/trust/local.h). NULL: without `operators` those of the group are. */
    const char *operators, *viewers;
    bool
        is_for_users; /* the socket is 0666: every user of the machine may come, for his own runs */
    /* The folder of the socket when it is ours, so that the group may pass through it; NULL: it is not. */
    const char *runtime_dir;
    const char *profiler_config, *roles; /* folder to watch, file of roles; NULL: none */
    int64_t credit_bytes;                /* 0: the default */
    int64_t segment_bytes;               /* 0: the default */
    struct rs_clickhouse_options store;  /* where rows are; url NULL: in the captures' folders */
    const char *advertise; /* address at which others reach us; NULL: made from `listen` */
    struct rs_archive_options archive; /* url NULL: none */
    rs_dur
        archive_ns; /* closed captures go there so long after they were closed; 0: when told to */
    rs_dur keep_ns; /* of closed captures; 0: for ever */
    int64_t keep_bytes;                     /* of all captures; 0: no limit */
    int64_t keep_bytes_each;                /* of the captures of one user or node; 0: no limit */
    rs_dur drain_ns;                        /* how long SIGTERM waits for collectors */
    struct rs_server_hang_rules hang;       /* off unless it is switched on */
    struct rs_server_step_rules step_watch; /* the same */
    rs_dur missing_ns; /* webhooks are told of ranks that are missing for so long; 0: 30 s */
    /* Called for each address once all are served (a port of 0 is filled in); NULL: nobody wants to know. Thread: main. */
    void (*on_listening)(void *self, const char *address, bool is_for_joining);
    void *self;
};

/* Serves until SIGTERM or SIGINT. Call it before any thread and before gRPC: it takes over the process's signals. RS_REFUSED:
 * address or folder, or another aggregator is there. RS_INVALID, RS_IO, RS_UNREACHABLE: our own listener died. Thread: main. */
RS_MUST_CHECK enum rs_status rs_aggregator_run(const struct rs_aggregator_options *options,
                                               struct rs_err *err);

#endif
