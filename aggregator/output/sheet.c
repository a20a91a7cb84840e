/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/output/output_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SHEET_DRAIN_BYTES = 256 * 1024 };

enum rs_status sheet_names(const char *dir, const char *name, char **path_p, char **temporary_p,
                           struct rs_err *err)
{
    char short_name[96];
    (void)snprintf(short_name, sizeof short_name, ".%s.tmp-%ld", name, (long)getpid());
    char *path = rs_file_join(dir, name);
    char *temporary = rs_file_join(dir, short_name);
    if (!path || !temporary) {
        rs_mem_free(path);
        rs_mem_free(temporary);
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", name);
    }
    *path_p = path;
    *temporary_p = temporary;
    return RS_OK;
}

enum rs_status sheet_open(struct sheet *sheet, const char *dir, const char *name,
                          struct rs_err *err)
{
    *sheet = (struct sheet){.fd = -1};
    enum rs_status status = sheet_names(dir, name, &sheet->path, &sheet->temporary, err);
    if (status != RS_OK)
        return status;
    /* What lies there under our own process id was left by a dead process that had it before. */
    (void)unlink(sheet->temporary);
    sheet->fd = open(sheet->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (sheet->fd >= 0)
        return RS_OK;
    status = rs_err_errno(err, "cannot create %s", sheet->path);
    rs_mem_free(sheet->path);
    rs_mem_free(sheet->temporary);
    *sheet = (struct sheet){.fd = -1};
    return status;
}

static enum rs_status write_out(struct sheet *sheet, struct rs_err *err)
{
    if (sheet->buf.failed)
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", sheet->path);
    const enum rs_status status =
        rs_file_write_all(sheet->fd, sheet->buf.data, sheet->buf.length, sheet->path, err);
    rs_buf_reset(&sheet->buf);
    return status;
}

enum rs_status sheet_drain(struct sheet *sheet, struct rs_err *err)
{
    if (sheet->buf.length < SHEET_DRAIN_BYTES && !sheet->buf.failed)
        return RS_OK;
    return write_out(sheet, err);
}

enum rs_status sheet_close(struct sheet *sheet, enum rs_status status, struct rs_err *err)
{
    if (sheet->fd < 0)
        return status;
    if (status == RS_OK)
        status = write_out(sheet, err);
    if (close(sheet->fd) != 0 && status == RS_OK)
        status = rs_err_errno(err, "cannot close %s", sheet->path);
    if (status == RS_OK && rename(sheet->temporary, sheet->path) != 0)
        status = rs_err_errno(err, "cannot rename to %s", sheet->path);
    if (status != RS_OK)
        (void)unlink(sheet->temporary);
    rs_buf_fini(&sheet->buf);
    rs_mem_free(sheet->path);
    rs_mem_free(sheet->temporary);
    *sheet = (struct sheet){.fd = -1};
    return status;
}
