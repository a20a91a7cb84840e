/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder that told ranks write their traces to: on this node, never on a network file system.
 *
 *     /tmp/rankscope-traces-UID/      0711, the collector's user
 *         CAPTURE/u1000/              0700, the rank's user: rankN_PID.json
 *
 * Below /tmp because PyTorch since 2026-06 takes no other place unless the job was started with
 * KINETO_ONDEMAND_TRACE_DIR; not inside the runtime directory, which other users' ranks may not enter.
 */
#ifndef RS_AGENT_TRACEDIR_H
#define RS_AGENT_TRACEDIR_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RS_TRACEDIR_BYTES = 512 };

void rs_tracedir_default(char path_p[RS_TRACEDIR_BYTES]);
/* Creates it. RS_REFUSED: it is another user's, or others may write to it. RS_IO. */
RS_MUST_CHECK enum rs_status rs_tracedir_prepare(const char *path, struct rs_err *err);

/* Removes the folders of a capture as far as they are empty: when no rank is to write into them any more. */
void rs_tracedir_clean(const char *path, const char *capture);

struct rs_tracedir_facts {
    int64_t free_bytes;  /* for this user */
    const char *network; /* its kind when it is a network file system ("NFS"), else NULL; static */
};
/* Of the folder, or of the nearest one above that is there. */
RS_MUST_CHECK enum rs_status rs_tracedir_look(const char *path, struct rs_tracedir_facts *facts_p,
                                              struct rs_err *err);

/* Is there room for so many bytes? RS_REFUSED with the sentence: less than twice as much is free, or the folder is on a
 * network; never with `is_forced`. Else RS_OK, and a sentence in `warning` when less than 20 times as
 * much is free (that is: it takes more than 5 % of it), or what was forced; "" else. */
RS_MUST_CHECK enum rs_status rs_tracedir_check(const char *path, int64_t bytes, bool is_forced,
                                               char *warning, size_t warning_bytes,
                                               struct rs_err *err);

#endif
