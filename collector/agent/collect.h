/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adapters of a collector, each on a thread of its own, all emitting into the spool.
 *
 *   rs-src-native   librankscope's processes: table, captures on request   (collect_native.c)
 *   rs-kineto       unmodified PyTorch processes: the same                 (collect_kineto.c, collect_trace.c)
 *   rs-ascend, ...  torch_npu and MindSpore processes      (collect_config.h)
 *   rs-src-watch    files that appear in a folder                          (collect_watch.c)
 *   rs-flight       asks ranks for their flight recorders                  (collect_flight.h)
 *   rs-main         the uplink's loop; asks the first three for their tables and their messages (adapter.h)
 */
#ifndef RS_AGENT_COLLECT_H
#define RS_AGENT_COLLECT_H

#include "collector/agent/adapter.h"

/* ---- native ------------------------------------------------------------------------------------------- */

/* Ends streams that a collector before this one left open, then serves `socket`. RS_EXISTS: that is served already. At its stop
 * captures end as they are (partial), and it says why. */
RS_MUST_CHECK enum rs_status rs_collect_native_start(const struct rs_agent_adapter_options *options,
                                                     const char *socket,
                                                     struct rs_agent_adapter **adapter_p,
                                                     struct rs_err *err);

/* ---- unmodified PyTorch ------------------------------------------------------------------------------ */

struct rs_collect_kineto_options {
    const char *socket_dir;  /* NULL: abstract sockets; copied, as all texts here */
    const char *socket_name; /* NULL: the one that real clients ask */
    const char
        *msmonitor_home;   /* answer msMonitor's clients at HOME/dynolog.sock, too; NULL: not */
    const char *trace_dir; /* where ranks write; made when it is needed */
    const char *spool_dir; /* what is in hand is written down in its folder "kineto" */
};

/* RS_EXISTS: another daemon serves the name; the sentence says which process. At its stop what no process has yet is told as lost;
 * what was delivered cannot be called back, and the next start goes on with it. */
RS_MUST_CHECK enum rs_status
rs_collect_kineto_start(const struct rs_agent_adapter_options *base,
                        const struct rs_collect_kineto_options *options,
                        struct rs_agent_adapter **adapter_p, struct rs_err *err);

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
