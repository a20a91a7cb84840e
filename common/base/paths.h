/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where things are by default: contracts section 2, "Addresses".
 */
#ifndef RS_BASE_PATHS_H
#define RS_BASE_PATHS_H

#include "common/base/err.h"

#include <stdbool.h>

enum { RS_PATHS_BYTES = 4096 };

/* $RANKSCOPE_RUNTIME_DIR, else /run/rankscope (root, or when it is there and may be written), else
 * $XDG_RUNTIME_DIR/rankscope, else /tmp/rankscope-UID. With `create` it is made with mode 0700 (root: 0755) and must belong
 * to this user: RS_REFUSED. */
RS_MUST_CHECK enum rs_status rs_paths_runtime_dir(char dir_p[RS_PATHS_BYTES], bool create,
                                                  struct rs_err *err);
/* "unix:RUNTIME/aggregator.sock", and RUNTIME/collector.sock. */
RS_MUST_CHECK enum rs_status rs_paths_aggregator(char address_p[RS_PATHS_BYTES], bool create,
                                                 struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_paths_collector(char path_p[RS_PATHS_BYTES], bool create,
                                                struct rs_err *err);
/* /var/lib/rankscope for root, else $XDG_STATE_HOME/rankscope, else ~/.local/state/rankscope. */
RS_MUST_CHECK enum rs_status rs_paths_data_dir(char dir_p[RS_PATHS_BYTES], struct rs_err *err);
/* The folder of this user's certificates: $XDG_CONFIG_HOME/rankscope/certs or ~/.config/rankscope/certs when there is one in
 * it, else /etc/rankscope/certs, whether there is one or not; with `create` the first of them for users other than root. */
RS_MUST_CHECK enum rs_status rs_paths_certs(char dir_p[RS_PATHS_BYTES], bool create,
                                            struct rs_err *err);

#endif
