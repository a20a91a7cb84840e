/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/output/output_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OUTPUT_FILE_DRAIN_BYTES = 256 * 1024 };

enum rs_status output_file_names(const char *dir, const char *name, char **path_p,
                                 char **temporary_p, struct rs_err *err)
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

enum rs_status output_file_open(struct output_file *file, const char *dir, const char *name,
                                struct rs_err *err)
{
    *file = (struct output_file){.fd = -1};
    enum rs_status status = output_file_names(dir, name, &file->path, &file->temporary, err);
    if (status != RS_OK)
        return status;
    /* What lies there under our own process id was left by a dead process that had it before. */
    (void)unlink(file->temporary);
    file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, RS_FILE_MODE);
    if (file->fd >= 0 && fchmod(file->fd, RS_FILE_MODE) == 0)
        return RS_OK;
    status = rs_err_errno(err, "cannot create %s", file->path);
    if (file->fd >= 0)
        (void)close(file->fd);
    rs_mem_free(file->path);
    rs_mem_free(file->temporary);
    *file = (struct output_file){.fd = -1};
    return status;
}

static enum rs_status write_out(struct output_file *file, struct rs_err *err)
{
    if (file->buf.failed)
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", file->path);
    const enum rs_status status =
        rs_file_write_all(file->fd, file->buf.data, file->buf.length, file->path, err);
    rs_buf_reset(&file->buf);
    return status;
}

enum rs_status output_file_drain(struct output_file *file, struct rs_err *err)
{
    if (file->buf.length < OUTPUT_FILE_DRAIN_BYTES && !file->buf.failed)
        return RS_OK;
    return write_out(file, err);
}

enum rs_status output_file_close(struct output_file *file, enum rs_status status,
                                 struct rs_err *err)
{
    if (file->fd < 0)
        return status;
    if (status == RS_OK)
        status = write_out(file, err);
    if (close(file->fd) != 0 && status == RS_OK)
        status = rs_err_errno(err, "cannot close %s", file->path);
    if (status == RS_OK && rename(file->temporary, file->path) != 0)
        status = rs_err_errno(err, "cannot rename to %s", file->path);
    if (status != RS_OK)
        (void)unlink(file->temporary);
    rs_buf_fini(&file->buf);
    rs_mem_free(file->path);
    rs_mem_free(file->temporary);
    *file = (struct output_file){.fd = -1};
    return status;
}
