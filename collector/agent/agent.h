/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's daemon: one per node. Sources put what they record into the spool, the uplink drains it.
 *
 * The verb fills in the options, this room does the rest: spool, uplink, one thread per kind of rank (collect.h says who
 * is there), signals.
 */
#ifndef RS_AGENT_AGENT_H
#define RS_AGENT_AGENT_H

#include "common/base/err.h"
#include "common/base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Folders or patterns that an option may name many times; lent. */
struct rs_agent_list {
    const char *const *items;
    size_t count;
};

/* Texts are lent until rs_agent_run() returns; those that may be NULL say so. */
struct rs_agent_options {
    const char *connect; /* the aggregator's address; NULL: the usual socket */
    const char *spool;   /* folder */
    int64_t spool_bytes; /* budget; 0: the spool's default */
    rs_dur raw_keep_ns;  /* raw data that nobody asked for yet; 0: the spool's default */
    const char *host;
    const char *node; /* NULL: the one of our certificate, else the host */
    /* Where, and with what (text, or a file that holds it), a first certificate is asked for when there is none in `certs`,
     * the folder for it. All NULL: nowhere. */
    const char *join, *invite, *certs;
    const char *run;   /* NULL: each process names its own */
    rs_dur drain_ns;   /* after SIGTERM, for what is in the spool */
    bool must_discard; /* remove originals although raw data lies in them that was not packed */
    bool has_insecure_metrics; /* `metrics` below: as plain text, on this machine only */

    /* a folder of traces */
    const char *watch, *rank_map; /* NULL: none */
    struct rs_agent_list rank_from;
    rs_dur settle_ns;

    /* programs that link librankscope */
    bool has_no_native;
    const char *socket;

    /* PyTorch; `must_kineto`: refuse to start when another daemon serves the profiler's socket */
    bool has_no_kineto, must_kineto;
    const char *kineto_socket_dir, *msmonitor_home; /* NULL: abstract sockets; no msmonitor */
    const char *trace_dir;                          /* where ranks write traces that we ask for */

    /* torch_npu, MindSpore */
    bool has_no_ascend, has_no_ascend_probe, has_no_mindspore;
    struct rs_agent_list ascend_dirs, mindspore_dirs;
    const char *mindspore_way; /* "step", "callback"; NULL: not known */
    rs_dur parse_wait_ns;

    const char *profiler_config; /* folder whose profiler_config.json people edit; NULL: none */

    /* HOST:PORT where our counters are served, and the folder of a server's certificate for it; NULL: none */
    const char *metrics, *metrics_certs;
};

/* Serves until SIGTERM or SIGINT. Call it before any thread and before gRPC: it takes over the process's signals. RS_REFUSED,
 * RS_INVALID, RS_IO, RS_NOMEM: it could not start. Thread: main. */
RS_MUST_CHECK enum rs_status rs_agent_run(const struct rs_agent_options *options,
                                          struct rs_err *err);

#endif
