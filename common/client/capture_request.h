/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said of a capture that is wanted becomes one request.
 *
 *     document (our own) | config (profiler_config.json) | the defaults of the command line
 *          <-- members that have names of their own <-- sets "MEMBER=VALUE", in their order
 *
 * What is wrong with it is found before anybody is connected to: every rule, not only the first.
 */
#ifndef RS_CLIENT_CAPTURE_REQUEST_H
#define RS_CLIENT_CAPTURE_REQUEST_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/wire/link.h"

#include <stdbool.h>
#include <stdint.h>

/* Names in messages are those of the command line's options. NULL, 0 and false: not said. */
struct rs_capture_wanted {
    const char *run, *ranks, *start_step, *roles, *on_busy, *raw; /* roles: a file */
    const char *config, *document;                                /* files to begin with */
    const char *const *sets;
    size_t set_count;
    int64_t steps, duration_ns, roundup, timeout_ns;
    bool must_shapes, has_no_shapes, with_stack, profile_memory, is_forced, is_dry;
    const char *origin; /* what it came from, where others have a file */
};

struct rs_capture_question;

/* `notes` gets a line for every rule that is broken, with line and column where a file said it, whatever is returned. RS_INVALID;
 * RS_REFUSED: a limit that is_forced overrides; RS_NOTFOUND: a file; RS_NOMEM. Lends from `wanted`. */
RS_MUST_CHECK enum rs_status rs_capture_question_new(const struct rs_capture_wanted *wanted,
                                                     struct rs_buf *notes,
                                                     struct rs_capture_question **question_p,
                                                     struct rs_err *err);
void rs_capture_question_free(struct rs_capture_question **question);

/* The message, lent. */
Rankscope__AskStart *rs_capture_question_message(struct rs_capture_question *question);

#endif
