/* SPDX-License-Identifier: Apache-2.0 */
/* A capture that a verb starts: `capture` itself, and `watch`. */
#ifndef RS_CLI_CAPTURE_H
#define RS_CLI_CAPTURE_H

#include "cli/options/args.h"
#include "common/client/capture_request.h"

/* What was said on the command line. */
struct capture_words {
    struct rs_capture_wanted wanted;
    const char *connect, *out_dir, *wait;
    struct rs_arg_list sets; /* --set */
    bool as_json, is_quiet, has_no_report, must_cancel, assume_common_clock;
    double fail_above;
};

/* Starts a capture, waits for it with progress, prints its report, as `rankscope capture` does; the exit code. `id` has the
 * capture, "" when none was started. */
int rs_capture_start(const struct capture_words *words, char id[64]);

#endif
