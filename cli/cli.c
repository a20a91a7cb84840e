/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every verb shares: exit codes, the form of a line on stderr.
 */
#include "cli/cli.h"

#include "common/base/utf8.h"
#include "common/reduce/classes.h"

#define RS_LOG_TAG "cli"
#include "common/base/log.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

enum rs_exit rs_exit_of(enum rs_status status)
{
    switch (status) {
    case RS_OK:
    case RS_END:
        return RS_EXIT_COMPLETE;
    case RS_AGAIN:
    case RS_PARTIAL:
        return RS_EXIT_PARTIAL;
    case RS_UNREACHABLE:
    case RS_TIMEOUT:
        return RS_EXIT_UNREACHABLE;
    case RS_REFUSED:
    case RS_IO:
    case RS_NOMEM:
    case RS_LIMIT:
        return RS_EXIT_REFUSED;
    case RS_CANCELLED:
        return RS_EXIT_INTERRUPTED;
    case RS_FORMAT:
    case RS_INVALID:
    case RS_NOTFOUND:
    case RS_EXISTS:
    case RS_VERSION:
        return RS_EXIT_BAD_REQUEST;
    }
    return RS_EXIT_BAD_REQUEST;
}

int rs_cli_fail(const char *verb, const struct rs_err *err)
{
    fprintf(stderr, "rankscope %s: %s\n", verb,
            err->text[0] ? err->text : rs_status_text(err->status));
    return (int)rs_exit_of(err->status);
}

int rs_cli_end(const char *verb, enum rs_status status, const struct rs_err *err)
{
    return status < 0 && status != RS_CANCELLED ? rs_cli_fail(verb, err) : (int)rs_exit_of(status);
}

enum rs_status rs_cli_print(struct rs_buf *buf, const char *what, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (buf->failed)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    else if ((buf->length && fwrite(buf->data, buf->length, 1, stdout) != 1) || fflush(stdout) != 0)
        status = rs_err_errno(err, "cannot print %s", what);
    rs_buf_fini(buf);
    return status;
}

void rs_cli_note(const char *verb, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rs_utf8_plain(text); /* file names must not steer the terminal */
    fprintf(stderr, "rankscope %s: %s\n", verb, text);
}

void rs_cli_tell_of_link(const char *verb, const char *dir)
{
    char name[PATH_MAX];
    struct stat about;
    const int length = dir ? snprintf(name, sizeof name, "%s", dir) : 0;
    if (length <= 0 || (size_t)length >= sizeof name)
        return;
    for (size_t i = (size_t)length; i > 1 && name[i - 1] == '/'; i--)
        name[i - 1] = '\0'; /* a link with a slash behind it is looked through */
    if (lstat(name, &about) != 0 || !S_ISLNK(about.st_mode))
        return;
    char *real = realpath(name, NULL);
    rs_cli_note(verb, "%s is a symbolic link: the files are in %s", name, real ? real : "?");
    free(real); /* the C library's */
}

enum rs_status rs_cli_set_up_daemon(const struct rs_cli_daemon *daemon, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (daemon->log_format)
        status = rs_log_set_format(daemon->log_format, err);
    if (status == RS_OK)
        status = rs_classes_load(daemon->classes, err);
    if (daemon->is_verbose)
        rs_log_set_level(RS_LOG_INFO);
    if (daemon->is_quiet)
        rs_log_set_level(RS_LOG_ERROR);
    return status;
}
