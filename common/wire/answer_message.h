/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to a capture request as a message, and back. Ranks with the same answer share one group, so that a
 * thousand accepted ranks are a few bytes.
 */
#ifndef RS_WIRE_ANSWER_MESSAGE_H
#define RS_WIRE_ANSWER_MESSAGE_H

#include "common/base/err.h"
#include "common/request/request.h"
#include "proto/rankscope.pb-c.h"

/* Lends the answer's texts, as rs_request_to_message(). RS_NOMEM. `status`, `text` and `capture` are the caller's to
 * fill. Freed by rs_answer_message_free(). */
RS_MUST_CHECK enum rs_status rs_answer_to_message(const struct rs_request_answer *answer,
                                                  Rankscope__CaptureAnswer **message_p,
                                                  struct rs_err *err);
void rs_answer_message_free(Rankscope__CaptureAnswer **message_p);

/* Fills `answer` (zeroed). A rule that this program does not know is reported as other-rule, with its name. RS_FORMAT:
 * ranks or decisions that are none. RS_NOMEM. The answer is zeroed then. */
RS_MUST_CHECK enum rs_status rs_answer_from_message(const Rankscope__CaptureAnswer *message,
                                                    struct rs_request_answer *answer,
                                                    struct rs_err *err);

#endif
