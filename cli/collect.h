/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wells of a collector, each on a thread of its own, all pouring into the spool.
 *
 *   rs-src-native   librankscope's processes: table, captures on request   (collect_native.c)
 *   rs-kineto       unmodified PyTorch processes: the same                 (collect_kineto.c, collect_trace.c)
 *   rs-ascend, ...  torch_npu and MindSpore processes      (collect_config.h)
 *   rs-src-watch    files that appear in a folder                          (collect_watch.c)
 *   rs-main         the uplink's loop; asks the first two for their tables and their letters
 */
#ifndef RS_CLI_COLLECT_H
#define RS_CLI_COLLECT_H

#include "collector/spool/spool.h"
#include "collector/uplink/uplink.h"

/* ---- native ------------------------------------------------------------------------------------------- */

struct rs_collect_native;

struct rs_collect_native_options {
    struct rs_spool *spool;
    const char *socket; /* collector.sock; copied */
    const char *run;    /* for processes that name none; "" : their host */
    const char *host;
    void (*wake)(void *self); /* there is something to send; any thread */
    void *wake_self;
};

/* Ends streams that a collector before this one left open, then starts. RS_EXISTS: the socket is served. */
RS_MUST_CHECK enum rs_status
rs_collect_native_start(const struct rs_collect_native_options *options,
                        struct rs_collect_native **native_p, struct rs_err *err);
/* Ends captures as they are (partial), then joins; says through the uplink why. */
void rs_collect_native_stop(struct rs_collect_native **native_p, struct rs_uplink *uplink);

/* Thread: uplink. Letters in; they are copied. */
void rs_collect_native_prepare(struct rs_collect_native *native, const Rankscope__Prepare *prepare);
void rs_collect_native_commit(struct rs_collect_native *native, const Rankscope__Commit *commit);
void rs_collect_native_cancel(struct rs_collect_native *native, const Rankscope__Cancel *cancel);
/* Letters out: sends what waits. */
void rs_collect_native_letters(struct rs_collect_native *native, struct rs_uplink *uplink);
/* The table; valid until the next call. */
size_t rs_collect_native_ranks(struct rs_collect_native *native, Rankscope__RankState ***states_p);

/* ---- unmodified PyTorch ------------------------------------------------------------------------------ */

struct rs_collect_kineto;

struct rs_collect_kineto_options {
    struct rs_spool *spool;
    const char *socket_dir;  /* NULL: abstract sockets; copied, as all texts here */
    const char *socket_name; /* NULL: the one that real clients ask */
    const char
        *msmonitor_home;   /* answer msMonitor's clients at HOME/dynolog.sock, too; NULL: not */
    const char *trace_dir; /* where ranks write; made when it is needed */
    const char *spool_dir; /* what is in hand is written down in its folder "kineto" */
    const char *run;       /* for processes that name none; "": their host */
    const char *host;
    void (*wake)(void *self); /* there is something to send; any thread */
    void *wake_self;
};

/* RS_EXISTS: another daemon serves the name; the sentence says which process. */
RS_MUST_CHECK enum rs_status
rs_collect_kineto_start(const struct rs_collect_kineto_options *options,
                        struct rs_collect_kineto **kineto_p, struct rs_err *err);
/* What no process has yet is told as lost; what was delivered cannot be called back, and the next start goes on with it. */
void rs_collect_kineto_stop(struct rs_collect_kineto **kineto_p, struct rs_uplink *uplink);

/* Thread: uplink. As with native ranks. */
void rs_collect_kineto_prepare(struct rs_collect_kineto *kineto, const Rankscope__Prepare *prepare);
void rs_collect_kineto_commit(struct rs_collect_kineto *kineto, const Rankscope__Commit *commit);
void rs_collect_kineto_cancel(struct rs_collect_kineto *kineto, const Rankscope__Cancel *cancel);
void rs_collect_kineto_letters(struct rs_collect_kineto *kineto, struct rs_uplink *uplink);
size_t rs_collect_kineto_ranks(struct rs_collect_kineto *kineto, Rankscope__RankState ***states_p);

/* ---- files -------------------------------------------------------------------------------------------- */

struct rs_collect_watch;

struct rs_collect_watch_options {
    struct rs_spool *spool;
    const char *spool_dir; /* for the ledger of files that were taken; the texts here are copied */
    const char *dir;       /* watched */
    const char *run;       /* "": the name of the file's folder */
    const char *host;
    const char *rank_map; /* NULL none */
    const char *const *rank_from;
    size_t rank_from_count;
    rs_dur settle_ns;
    bool must_discard; /* remove a file when all its chunks are acknowledged */
};

RS_MUST_CHECK enum rs_status rs_collect_watch_start(const struct rs_collect_watch_options *options,
                                                    struct rs_collect_watch **watch_p,
                                                    struct rs_err *err);
void rs_collect_watch_stop(struct rs_collect_watch **watch_p);

#endif
