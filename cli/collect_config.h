/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The well of ranks that are told by a profiler_config.json: torch_npu's and MindSpore's, one instance each.
 *
 *   rs-ascend, rs-mindspore   the trigger, the table, the letters      (collect_config.c)
 *   rs-config-read            reads results into the spool             (collect_config_read.c)
 */
#ifndef RS_CLI_COLLECT_CONFIG_H
#define RS_CLI_COLLECT_CONFIG_H

#include "collector/spool/spool.h"
#include "collector/trigger/config_trigger.h"
#include "collector/uplink/uplink.h"
#include "common/wire/wire.h"

struct rs_collect_config;

struct rs_collect_config_options {
    struct rs_spool *spool;
    enum rs_rank_kind kind;
    const char *trace_dir; /* where results are written; the texts here are copied */
    const char *run;       /* for processes that name none; "": their host */
    const char *host;
    bool has_no_probe;    /* a step that is not known is not found out by a profile of one step */
    bool must_discard;    /* remove results although raw data lies in them that was not packed */
    rs_dur parse_wait_ns; /* for the vendor's parser, since anything of a result changed */
    void (*wake)(void *self); /* there is something to send; any thread */
    void *wake_self;
};

/* Takes the trigger, also on failure. */
RS_MUST_CHECK enum rs_status
rs_collect_config_start(const struct rs_collect_config_options *options,
                        struct rs_config_trigger *trigger, struct rs_collect_config **config_p,
                        struct rs_err *err);
/* What did not begin yet is called back; what is recorded stays where it is, and is told. */
void rs_collect_config_stop(struct rs_collect_config **config_p, struct rs_uplink *uplink);

/* Thread: uplink. Letters in; they are copied. */
void rs_collect_config_prepare(struct rs_collect_config *config, const Rankscope__Prepare *prepare);
void rs_collect_config_commit(struct rs_collect_config *config, const Rankscope__Commit *commit);
void rs_collect_config_cancel(struct rs_collect_config *config, const Rankscope__Cancel *cancel);
/* Letters out: sends what waits. */
void rs_collect_config_letters(struct rs_collect_config *config, struct rs_uplink *uplink);
/* The table; valid until the next call. */
size_t rs_collect_config_ranks(struct rs_collect_config *config, Rankscope__RankState ***states_p);

#endif
