/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a profiler_config.json into a folder that belongs to somebody else.
 *
 * A collector of root writes where a user may put links, and swap folders for links, while it writes. So the folder is opened
 * once, and all that changes anything is done in it with the user's own rights (common/base/as_user.h).
 *
 *     open the folder --> become its user --> temporary file, mode, time, fsync --> rename --> become oneself again
 *
 * What was written is remembered (bytes and second), so that whoever watches the same file for edits by hand can tell.
 */
#include "collector/trigger/config_trigger.h"
#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITTEN_MAX = 64, TRIES = 8 };

/* ---- whose it is -------------------------------------------------------------------------------------------------- */

/* With whose rights the file is written: those of the ranks that read it. */
static void choose_writer(const struct rs_user *owner, const struct stat *folder,
                          struct rs_user *writer_p)
{
    *writer_p = *owner;
    if (owner->uid == 0) { /* in another's folder a job of root gets no more than he has */
        *writer_p = (struct rs_user){.uid = folder->st_uid, .gid = folder->st_gid};
        return;
    }
    if (owner->gid == (gid_t)-1 && folder->st_uid == owner->uid)
        writer_p->gid = folder->st_gid; /* his groups are not known any more; else nobody's */
}

/* ---- what was written ------------------------------------------------------------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    struct {
        char sha[RS_SHA256_HEX_BYTES];
        int64_t second;
    } items[WRITTEN_MAX]; /* a ring */
    size_t count;
} written = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void remember(const void *data, size_t length, int64_t second)
{
    char sha[RS_SHA256_HEX_BYTES];
    if (rs_sha256_hex(data, length, sha) < 0)
        return;
    (void)pthread_mutex_lock(&written.lock);
    memcpy(written.items[written.count % WRITTEN_MAX].sha, sha, sizeof sha);
    written.items[written.count++ % WRITTEN_MAX].second = second;
    (void)pthread_mutex_unlock(&written.lock);
}

bool rs_config_was_written(const char *sha, int64_t second)
{
    bool was = false;
    (void)pthread_mutex_lock(&written.lock);
    for (size_t i = 0; i < WRITTEN_MAX && i < written.count; i++)
        was |= written.items[i].second == second && strcmp(written.items[i].sha, sha) == 0;
    (void)pthread_mutex_unlock(&written.lock);
    return was;
}

/* ---- the file -------------------------------------------------------------------------------------------------------- */

struct target {
    int dir; /* its folder */
    char name[256], temporary[300];
    const char *path; /* for people */
    struct stat old;
    bool is_there;
};

static enum rs_status make_temporary(struct target *target, int *fd_p, struct rs_err *err)
{
    static atomic_uint count;
    for (int i = 0; i < TRIES; i++) {
        (void)snprintf(target->temporary, sizeof target->temporary, "%s.tmp-%d-%u-%llx",
                       target->name, (int)getpid(), atomic_fetch_add(&count, 1u),
                       (unsigned long long)rs_time_realtime());
        *fd_p = openat(target->dir, target->temporary,
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (*fd_p >= 0 || errno != EEXIST)
            break;
    }
    return *fd_p >= 0 ? RS_OK : rs_err_errno(err, "cannot create a file beside %s", target->path);
}

static enum rs_status dress(const struct target *target, int fd, const struct timespec *when,
                            struct rs_err *err)
{
    const struct timespec times[2] = {*when, *when};
    const struct stat *old = &target->old;
    /* What was another's becomes the writer's where his rights do not do it. */
    if (target->is_there && fchown(fd, old->st_uid, old->st_gid) != 0)
        (void)!fchown(fd, (uid_t)-1, old->st_gid);
    if (fchmod(fd, target->is_there ? old->st_mode & 0777 : 0640) != 0)
        return rs_err_errno(err, "cannot set the mode of %s", target->path);
    if (fsync(fd) != 0)
        return rs_err_errno(err, "cannot sync %s", target->path);
    /* last: a write after it would set another time */
    if (futimens(fd, times) != 0)
        return rs_err_errno(err, "cannot set the time of %s", target->path);
    return RS_OK;
}

static enum rs_status put(struct target *target, const void *data, size_t length,
                          const struct timespec *when, struct rs_err *err)
{
    int fd = -1;
    target->is_there = fstatat(target->dir, target->name, &target->old, AT_SYMLINK_NOFOLLOW) == 0;
    if (target->is_there && !S_ISREG(target->old.st_mode))
        return rs_err_set(err, RS_REFUSED, "%s is not a regular file", target->path);
    enum rs_status status = make_temporary(target, &fd, err);
    if (status < 0)
        return status;
    status = rs_file_write_all(fd, data, length, target->path, err);
    if (status == RS_OK)
        status = dress(target, fd, when, err);
    if (close(fd) != 0 && status == RS_OK)
        status = rs_err_errno(err, "cannot close %s", target->path);
    if (status == RS_OK && renameat(target->dir, target->temporary, target->dir, target->name) != 0)
        status = rs_err_errno(err, "cannot replace %s", target->path);
    if (status < 0)
        (void)unlinkat(target->dir, target->temporary, 0);
    else if (fsync(target->dir) != 0)
        status = rs_err_errno(err, "cannot sync the folder of %s", target->path);
    return status;
}

/* Where a link leads; the path itself when it is none, or root's own and another's link. */
static enum rs_status resolve(const char *path, char real[RS_CONFIG_PATH_BYTES], struct rs_err *err)
{
    struct stat info;
    const bool is_link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    char *resolved = is_link ? realpath(path, NULL) : NULL;
    const char *found = resolved ? resolved : path;
    const bool is_long = strlen(found) >= RS_CONFIG_PATH_BYTES;
    (void)snprintf(real, RS_CONFIG_PATH_BYTES, "%.*s", RS_CONFIG_PATH_BYTES - 1, found);
    free(resolved);
    if (is_long)
        return rs_err_set(err, RS_LIMIT, "%.100s... is too long a path", real);
    return RS_OK;
}

static enum rs_status open_folder(const char *real, struct target *target, struct stat *folder,
                                  struct rs_err *err)
{
    char dir[RS_CONFIG_PATH_BYTES];
    (void)snprintf(dir, sizeof dir, "%.*s", (int)sizeof dir - 1, real);
    char *slash = strrchr(dir, '/');
    const char *name = slash ? real + (slash - dir) + 1 : real;
    const size_t length = strlen(name);
    if (!length || length >= sizeof target->name)
        return rs_err_set(err, RS_INVALID, "%.200s is no name of a file", real);
    memcpy(target->name, name, length + 1);
    if (slash)
        slash[slash == dir] = '\0';
    target->dir = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (target->dir < 0 || fstat(target->dir, folder) != 0)
        return rs_err_errno(err, "cannot open the folder of %s", real);
    return RS_OK;
}

enum rs_status rs_config_write(const char *path, const void *data, size_t length,
                               const struct timespec *when, const struct rs_user *owner,
                               struct rs_err *err)
{
    char real[RS_CONFIG_PATH_BYTES];
    struct stat folder, link;
    struct rs_user writer;
    struct rs_as_user scope;
    struct target target = {.dir = -1, .path = path};
    enum rs_status status = resolve(path, real, err);
    remember(data, length, when->tv_sec); /* before it can be seen */
    if (status == RS_OK)
        status = open_folder(real, &target, &folder, err);
    if (status == RS_OK) {
        choose_writer(owner, &folder, &writer);
        status = rs_as_user_begin(&writer, &scope, err);
    }
    if (status == RS_OK) {
        if (geteuid() == 0 && writer.uid == 0 && strcmp(real, path) != 0 &&
            (lstat(path, &link) != 0 || link.st_uid != 0))
            status = rs_err_set(err, RS_REFUSED, "%s is another user's link into a folder of root",
                                path);
        else
            status = put(&target, data, length, when, err);
        rs_as_user_end(&scope);
    }
    if (target.dir >= 0)
        (void)close(target.dir);
    return status;
}

enum rs_status rs_config_read(const char *path, const struct rs_user *owner, size_t limit_bytes,
                              struct rs_buf *buf, struct rs_err *err)
{
    char real[RS_CONFIG_PATH_BYTES];
    struct stat folder;
    struct rs_user reader;
    struct rs_as_user scope;
    struct target target = {.dir = -1, .path = path};
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return rs_err_set(err, RS_NOTFOUND, "%s is not there", path);
    enum rs_status status = resolve(path, real, err);
    if (status == RS_OK)
        status = open_folder(real, &target, &folder, err);
    if (status == RS_OK) {
        choose_writer(owner, &folder, &reader);
        status = rs_as_user_begin(&reader, &scope, err);
    }
    if (status == RS_OK) {
        status = rs_file_read_regular(path, limit_bytes, buf, err);
        rs_as_user_end(&scope);
    }
    if (target.dir >= 0)
        (void)close(target.dir);
    return status;
}
