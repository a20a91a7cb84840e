/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/replace.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file on its way: complete under a name of its own, not yet under `path`. */
struct draft {
    char *name;
    int fd;
};

static enum rs_status draft_write(struct draft *draft, const char *path, const void *data,
                                  size_t length, struct rs_err *err)
{
    struct rs_buf name = {0};
    *draft = (struct draft){.fd = -1};
    rs_buf_printf(&name, "%s.tmp-XXXXXX", path);
    draft->name = name.failed ? NULL : rs_mem_strdup(rs_buf_text(&name));
    rs_buf_fini(&name);
    if (!draft->name)
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", path);
    draft->fd = mkostemp(draft->name, O_CLOEXEC);
    if (draft->fd < 0) {
        const enum rs_status status = rs_err_errno(err, "cannot create a file beside %s", path);
        rs_mem_free(draft->name);
        draft->name = NULL;
        return status;
    }
    return rs_file_write_all(draft->fd, data, length, draft->name, err);
}

/* Closes; removes what is still under the draft's name. */
static void draft_drop(struct draft *draft)
{
    if (draft->fd >= 0)
        (void)close(draft->fd);
    if (draft->name)
        (void)unlink(draft->name);
    rs_mem_free(draft->name);
    *draft = (struct draft){.fd = -1};
}

static enum rs_status sync_folder(const char *path, struct rs_err *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? rs_mem_strndup(path, slash == path ? 1 : (size_t)(slash - path))
                      : rs_mem_strdup(".");
    if (!dir)
        return rs_err_set(err, RS_NOMEM, "no memory to sync the folder of %s", path);
    const enum rs_status status = rs_file_sync_dir(dir, err);
    rs_mem_free(dir);
    return status;
}

static mode_t default_mode(void)
{
    const mode_t mask = umask(0);
    (void)umask(mask);
    return 0666 & ~mask & ~(mode_t)S_IWOTH;
}

enum rs_status rs_file_create(const char *path, const void *data, size_t length, struct rs_err *err)
{
    struct draft draft;
    enum rs_status status = draft_write(&draft, path, data, length, err);
    if (status == RS_OK && (fchmod(draft.fd, default_mode()) != 0 || fsync(draft.fd) != 0))
        status = rs_err_errno(err, "cannot write %s", path);
    /* link(2) refuses a name that is taken; rename(2) would not. */
    if (status == RS_OK && draft.name && link(draft.name, path) != 0) {
        if (errno == EEXIST)
            status = rs_err_set(err, RS_EXISTS, "%s is there already", path);
        else
            status = rs_err_errno(err, "cannot create %s", path);
    }
    draft_drop(&draft);
    return status == RS_OK ? sync_folder(path, err) : status;
}

struct before {
    bool is_there;
    struct stat info;
};

static enum rs_status look_before(const char *path, struct before *before, struct rs_err *err)
{
    before->is_there = lstat(path, &before->info) == 0;
    if (!before->is_there)
        return errno == ENOENT ? RS_OK : rs_err_errno(err, "cannot look at %s", path);
    if (S_ISREG(before->info.st_mode))
        return RS_OK;
    return rs_err_set(err, RS_REFUSED, "%s is %s", path,
                      S_ISLNK(before->info.st_mode) ? "a symbolic link" : "not a regular file");
}

static struct timespec newer_than(const struct before *before)
{
    const rs_ns now = rs_time_realtime();
    struct timespec when = {.tv_sec = now / RS_NS_PER_S, .tv_nsec = now % RS_NS_PER_S};
    if (before->is_there && before->info.st_mtim.tv_sec >= when.tv_sec)
        when = (struct timespec){.tv_sec = before->info.st_mtim.tv_sec + 1};
    return when;
}

static enum rs_status dress(const struct draft *draft, const struct before *before,
                            const struct timespec *when, const char *path, struct rs_err *err)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, *when};
    const mode_t mode = before->is_there ? before->info.st_mode & 07777 : default_mode();
    if (before->is_there && before->info.st_uid != geteuid() &&
        fchown(draft->fd, before->info.st_uid, before->info.st_gid) != 0 && geteuid() == 0)
        return rs_err_errno(err, "cannot give %s to its owner", path);
    if (fchmod(draft->fd, mode) != 0)
        return rs_err_errno(err, "cannot set the mode of %s", path);
    if (fsync(draft->fd) != 0)
        return rs_err_errno(err, "cannot sync %s", path);
    /* after the last write, or that would set another time */
    if (futimens(draft->fd, times) != 0)
        return rs_err_errno(err, "cannot set the time of %s", path);
    return RS_OK;
}

enum rs_status rs_file_replace_newer(const char *path, const void *data, size_t length,
                                     rs_ns *mtime_p, struct rs_err *err)
{
    struct before before;
    enum rs_status status = look_before(path, &before, err);
    if (status < 0)
        return status;
    struct draft draft;
    status = draft_write(&draft, path, data, length, err);
    const struct timespec when = newer_than(&before);
    if (status == RS_OK)
        status = dress(&draft, &before, &when, path, err);
    if (status == RS_OK && rename(draft.name, path) != 0)
        status = rs_err_errno(err, "cannot rename %s to %s", draft.name, path);
    if (status == RS_OK) {
        rs_mem_free(draft.name); /* it is the file now */
        draft.name = NULL;
    }
    draft_drop(&draft);
    if (status == RS_OK)
        status = sync_folder(path, err);
    if (status == RS_OK && mtime_p)
        *mtime_p = (rs_ns)when.tv_sec * RS_NS_PER_S + when.tv_nsec;
    return status;
}
