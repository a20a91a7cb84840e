/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `rankscope collector` is told on its command line.
 */
#ifndef RS_CLI_COLLECTOR_SETTINGS_H
#define RS_CLI_COLLECTOR_SETTINGS_H

#include "cli/args.h"
#include "cli/place.h"
#include "cli/tracedir.h"
#include "collector/trigger/mindspore.h"
#include "common/base/err.h"

#include <stdbool.h>

struct collector_settings {
    const char *connect, *spool, *watch, *socket, *run, *rank_map, *node;
    const char *kineto_socket_dir, *trace_dir, *profiler_config;
    struct rs_arg_list rank_from;
    int64_t settle_ns, spool_bytes, drain_ns;
    bool must_discard, is_verbose, is_quiet, has_no_native;
    bool must_kineto, has_no_kineto;
    const char *msmonitor_home;
    char spool_default[RS_PLACE_BYTES], socket_default[RS_PLACE_BYTES], host[256];
    char trace_default[RS_TRACEDIR_BYTES];
    bool has_no_ascend, has_no_ascend_probe, has_no_mindspore;
    struct rs_arg_list ascend_dirs, mindspore_dirs;
    const char *mindspore_way_text;
    enum rs_mindspore_way mindspore_way;
    int64_t parse_wait_ns;
};

/* Options, then defaults for what was not said. RS_END: --help was asked for and printed. Texts are argv's or the
 * struct's own: it must stay where it is. */
RS_MUST_CHECK enum rs_status collector_settings_read(struct collector_settings *settings, int argc,
                                                     char **argv, struct rs_err *err);

#endif
