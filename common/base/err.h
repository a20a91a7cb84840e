/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a person reads when something was not done.
 *
 * The one who decides which error it is writes the sentence (what, where, what was
 * expected); those who pass it up add nothing; the one who decides what to do about
 * it logs it, once. `err` is the last argument of a function, may be NULL, and is
 * untouched on success.
 */
#ifndef RS_BASE_ERR_H
#define RS_BASE_ERR_H

#include "common/base/status.h"

#include <stdarg.h>

enum { RS_ERR_TEXT_BYTES = 768 };

struct rs_err {
    enum rs_status status;
    char text[RS_ERR_TEXT_BYTES]; /* always terminated; control bytes are escaped */
};

/* Writes the sentence and returns `status`, so that `return rs_err_set(...)` reads well. */
enum rs_status rs_err_set(struct rs_err *err, enum rs_status status, const char *format, ...)
    RS_PRINTF(3, 4);

/* As rs_err_set(), with ": " and errno's text behind it. Status is RS_IO, or RS_NOMEM
 * when errno is ENOMEM. */
enum rs_status rs_err_errno(struct rs_err *err, const char *format, ...) RS_PRINTF(2, 3);

/* errno's text, for a line that is logged: "No space left on device". `text` may stay unused. Any thread. */
enum { RS_ERRNO_TEXT_BYTES = 128 };
const char *rs_errno_text(char text[RS_ERRNO_TEXT_BYTES]);
/* The same, valid until the end of the block it stands in. */
#define RS_ERRNO_TEXT() rs_errno_text((char[RS_ERRNO_TEXT_BYTES]){0})

/* The analyser of clang-tidy does not see into err.c and would go on as if the status could be RS_OK: most of its false reports.
 * For it alone the two yield their status in plain sight; the compiler sees the functions, which evaluate `status` once. */
#ifdef __clang_analyzer__
#    define rs_err_set(err, status, ...) ((void)rs_err_set(err, status, __VA_ARGS__), (status))
#    define rs_err_errno(err, ...)       ((void)rs_err_errno(err, __VA_ARGS__), RS_IO)
#endif

#endif
