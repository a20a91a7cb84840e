/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/err.h"

#include "common/base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#undef rs_err_set /* here they are made */
#undef rs_err_errno

/* A stranger's file name or bytes may be quoted in a sentence: they must not steer a terminal. */
static void RS_PRINTF(2, 0) print_text(struct rs_err *err, const char *format, va_list args)
{
    if (vsnprintf(err->text, sizeof err->text, format, args) < 0)
        err->text[0] = '\0';
    rs_utf8_plain(err->text);
}

enum rs_status rs_err_set(struct rs_err *err, enum rs_status status, const char *format, ...)
{
    if (!err)
        return status;
    va_list args;
    va_start(args, format);
    print_text(err, format, args);
    va_end(args);
    err->status = status;
    return status;
}

const char *rs_errno_text(char text[RS_ERRNO_TEXT_BYTES])
{
    /* GNU strerror_r: it may return a string of its own and leave `text` alone. */
    return strerror_r(errno, text, RS_ERRNO_TEXT_BYTES);
}

enum rs_status rs_err_errno(struct rs_err *err, const char *format, ...)
{
    const int number = errno;
    const enum rs_status status = number == ENOMEM ? RS_NOMEM : RS_IO;
    if (!err)
        return status;
    va_list args;
    va_start(args, format);
    print_text(err, format, args);
    va_end(args);
    const size_t used = strlen(err->text);
    char reason[RS_ERRNO_TEXT_BYTES];
    errno = number;
    (void)snprintf(err->text + used, sizeof err->text - used, ": %s", rs_errno_text(reason));
    err->status = status;
    return status;
}
