/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adapter of ranks that are notified by a profiler_config.json: torch_npu's and MindSpore's, one instance each.
 *
 *   rs-ascend, rs-mindspore   the trigger, the table, the messages      (collect_config.c)
 *   rs-config-read            reads results into the spool             (collect_config_read.c)
 */
#ifndef RS_AGENT_COLLECT_CONFIG_H
#define RS_AGENT_COLLECT_CONFIG_H

#include "collector/agent/adapter.h"
#include "collector/trigger/config_trigger.h"

struct rs_collect_config_options {
    const char *trace_dir; /* where results are written; copied */
    bool has_no_probe;     /* a step that is not known is not found out by a profile of one step */
    bool must_discard;     /* remove results although raw data lies in them that was not packed */
    rs_dur parse_wait_ns;  /* for the vendor's parser, since anything of a result changed */
};

/* Takes the trigger, also on failure. At its stop what did not begin yet is called back; what is recorded stays where it is,
 * and is reported. */
RS_MUST_CHECK enum rs_status rs_collect_config_start(
    const struct rs_agent_adapter_options *base, const struct rs_collect_config_options *options,
    struct rs_config_trigger *trigger, struct rs_agent_adapter **adapter_p, struct rs_err *err);

#endif
