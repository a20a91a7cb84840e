/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of `rankscope capture`: capture.c (verbs, the conversation), capture_ask.c (options and files become one
 * request), capture_print.c (what people and programs read).
 */
#ifndef RS_CLI_CAPTURE_H
#define RS_CLI_CAPTURE_H

#include "cli/options/args.h"
#include "common/request/request.h"
#include "proto/rankscope.pb-c.h"

#include <stddef.h>

/* What was said on the command line. */
struct capture_words {
    const char *connect, *run, *ranks, *start_step, *out_dir, *roles, *on_busy, *raw, *wait;
    const char *config, *document; /* --config, --request */
    struct rs_arg_list sets;       /* --set */
    int64_t steps, duration_ns, roundup, timeout_ns;
    bool must_shapes, has_no_shapes, with_stack, profile_memory, is_forced;
    bool as_json, is_quiet, has_no_report, is_dry, must_cancel;
    bool assume_common_clock;
    double fail_above;
};

/* ---- capture.c ------------------------------------------------------------------------------------------------ */

/* Starts a capture, waits for it with progress, prints its report, as `rankscope capture` does; the exit code. `id` has the
 * capture, "" when none was started. */
int rs_capture_start(const struct capture_words *words, char id[64]);

/* ---- capture_ask.c ------------------------------------------------------------------------------------------- */

/* An AskStart and what it lends from. Zeroed is empty. */
struct capture_question {
    Rankscope__AskStart start;
    Rankscope__ProfilerOptions options;
    Rankscope__CaptureRequest *message;
    struct rs_capture_request request;
    struct rs_buf roles;
    char *origin_file;
};

/* Everything that can be known without an aggregator is refused here, and told on stderr: every rule that is broken, with
 * line and column where a file said it. RS_INVALID, RS_REFUSED (a limit that --force overrides), RS_NOTFOUND, RS_NOMEM. */
RS_MUST_CHECK enum rs_status capture_question_make(const struct capture_words *words,
                                                   struct capture_question *question,
                                                   struct rs_err *err);
void capture_question_fini(struct capture_question *question);

/* ---- capture_print.c ----------------------------------------------------------------------------------------- */

/* Freed by protobuf-c; NULL: no memory. */
Rankscope__CaptureInfo *capture_info_copy(const Rankscope__CaptureInfo *info);
void capture_print_info(const Rankscope__CaptureInfo *info, bool as_json);
void capture_print_list(const Rankscope__CaptureList *list, bool as_json);
/* Ranks that did not make it, on stderr. */
void capture_report_ranks(const Rankscope__CaptureInfo *info);
/* "ID recording from step 12, 3 armed, ..." */
void capture_progress_line(const Rankscope__CaptureInfo *info, char *line, size_t bytes);
/* The whole answer on stdout. */
void capture_print_answer(const struct rs_request_answer *answer, bool as_json);
/* On stderr, what is not simply accepted: advice that changes nothing is left out. */
void capture_report_answer(struct rs_request_answer *answer);

#endif
