/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of numbers as people write them in a question: steps "12,13", ranks "0-3,8" (a rank expression of numbers, whether such
 * ranks are there or not). At most `max` numbers are put; `*count_p` says how many. NULL: none. RS_INVALID: it is no such list, or
 * one of more numbers, in a sentence. RS_NOMEM.
 */
#ifndef RS_REQUEST_NUMBERS_H
#define RS_REQUEST_NUMBERS_H

#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>

RS_MUST_CHECK enum rs_status rs_numbers_of_steps(const char *text, int64_t *steps, size_t max,
                                                 size_t *count_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_numbers_of_ranks(const char *text, uint32_t *ranks, size_t max,
                                                 size_t *count_p, struct rs_err *err);

#endif
