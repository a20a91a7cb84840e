/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/user_file.h"

#include "common/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the way there ---------------------------------------------------------------------------------------------------- */

/* A way through folders, from "/" on. */
struct walk {
    int fd; /* O_PATH: the folder we are in */
    uid_t
        owner; /* of it, or, of folders of root, of the nearest above: who could put something else in a name's place */
    bool takes_links; /* of root, in folders that are root's alone up to here */
};

static bool is_link_of_root(const struct walk *walk, const char *part)
{
    struct stat folder, link;
    if (walk->takes_links && geteuid() != 0)
        return true; /* with one's own rights anybody may go where he likes */
    return walk->takes_links && walk->owner == 0 && fstat(walk->fd, &folder) == 0 &&
           (!(folder.st_mode & (S_IWGRP | S_IWOTH)) || (folder.st_mode & S_ISVTX)) &&
           fstatat(walk->fd, part, &link, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(link.st_mode) &&
           link.st_uid == 0;
}

static enum rs_status walk_into(struct walk *walk, const char *part, const char *path,
                                struct rs_err *err)
{
    struct stat about;
    int next = openat(walk->fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 && (errno == ENOTDIR || errno == ELOOP)) {
        if (!is_link_of_root(walk, part))
            return rs_err_set(err, RS_REFUSED, "%s is not reached by folders alone: %s is a link",
                              path, part);
        next = openat(walk->fd, part, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    if (next < 0)
        return rs_err_set(err, errno == ENOENT ? RS_NOTFOUND : RS_IO, "cannot open %s of %s", part,
                          path);
    (void)close(walk->fd);
    walk->fd = next;
    if (fstat(next, &about) == 0 && about.st_uid != 0)
        walk->owner = about.st_uid;
    return RS_OK;
}

/* To the folder of an absolute path, part by part, with no symbolic link on the way; *name_p is the last part, lent. On RS_OK
 * walk_p->fd is the caller's. */
static enum rs_status walk_to_folder(const char *path, unsigned flags, struct walk *walk_p,
                                     const char **name_p, struct rs_err *err)
{
    char part[256];
    struct walk walk = {.takes_links = flags & RS_HOLD_ROOT_LINKS};
    const char *at = path;
    enum rs_status status = RS_OK;
    if (*path != '/')
        return rs_err_set(err, RS_INVALID, "%s is not an absolute path", path);
    walk.fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (walk.fd < 0)
        return rs_err_errno(err, "cannot open /");
    for (;;) {
        at += strspn(at, "/");
        const size_t length = strcspn(at, "/");
        if (length == 0 || length >= sizeof part)
            status = rs_err_set(err, RS_INVALID, "%s is no path of a file", path);
        if (status < 0 || at[length] == '\0')
            break;
        (void)snprintf(part, sizeof part, "%.*s", (int)length, at);
        status = walk_into(&walk, part, path, err);
        at += length;
    }
    if (status < 0) {
        (void)close(walk.fd);
        return status;
    }
    *walk_p = walk;
    *name_p = at;
    return RS_OK;
}

/* ---- removing --------------------------------------------------------------------------------------------------------- */

/* With the rights of this thread. */
static enum rs_status remove_same(int fd, const char *name, const char *path,
                                  const struct stat *seen, struct rs_err *err)
{
    struct stat now;
    if (fstatat(fd, name, &now, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? rs_err_set(err, RS_NOTFOUND, "%s is not there", path)
                               : rs_err_errno(err, "cannot look at %s", path);
    if (!S_ISREG(now.st_mode) || now.st_dev != seen->st_dev || now.st_ino != seen->st_ino ||
        now.st_size != seen->st_size || now.st_mtim.tv_sec != seen->st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != seen->st_mtim.tv_nsec)
        return rs_err_set(err, RS_REFUSED, "%s is another file by now", path);
    if (unlinkat(fd, name, 0) < 0)
        return rs_err_errno(err, "cannot remove %s", path);
    return RS_OK;
}

static enum rs_status remove_as_owner(const char *path, const struct stat *seen, unsigned flags,
                                      struct rs_err *err)
{
    const char *name = NULL;
    struct walk walk;
    struct rs_user user;
    struct rs_as_user scope;
    enum rs_status status = walk_to_folder(path, flags, &walk, &name, err);
    if (status < 0)
        return status;
    rs_user_of_uid(walk.owner, &user);
    status = rs_as_user_begin(&user, &scope, err);
    if (status == RS_OK) {
        status = remove_same(walk.fd, name, path, seen, err);
        rs_as_user_end(&scope);
    }
    (void)close(walk.fd);
    return status;
}

enum rs_status rs_file_remove_same(const char *path, const struct stat *seen, struct rs_err *err)
{
    return remove_as_owner(path, seen, 0, err);
}

/* ---- held files ------------------------------------------------------------------------------------------------------- */

/* What `fd` (O_PATH) refers to, opened for reading with the rights of this thread: the very same, whatever its name means by now. */
static enum rs_status reopen(int fd, int flags, const char *path, int *fd_p, struct rs_err *err)
{
    char name[RS_HELD_NAME_BYTES];
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    *fd_p = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    return *fd_p < 0 ? rs_err_errno(err, "cannot open %s", path) : RS_OK;
}

static enum rs_status check_kind(const struct stat *about, unsigned flags, const char *path,
                                 struct rs_err *err)
{
    if ((flags & RS_HOLD_FOLDER) && !S_ISDIR(about->st_mode))
        return rs_err_set(err, RS_REFUSED, "%s is not a folder", path);
    if (!(flags & RS_HOLD_FOLDER) && !S_ISREG(about->st_mode))
        return rs_err_set(err, RS_REFUSED, "%s is not a regular file", path);
    return RS_OK;
}

/* Finds what the path names, and whose it is; *fd_p (O_PATH) is the caller's. */
static enum rs_status find_plain(const char *path, unsigned flags, struct rs_held *held, int *fd_p,
                                 struct rs_err *err)
{
    const char *name = NULL;
    struct walk walk;
    enum rs_status status = walk_to_folder(path, flags, &walk, &name, err);
    if (status < 0)
        return status;
    const int fd = openat(walk.fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        status = rs_err_set(err, RS_NOTFOUND, "%s is not there", path);
    else if (fd < 0 || fstat(fd, &held->about) != 0)
        status = rs_err_errno(err, "cannot open %s", path);
    else
        status = check_kind(&held->about, flags, path, err);
    (void)close(walk.fd);
    if (status < 0) {
        if (fd >= 0)
            (void)close(fd);
        return status;
    }
    rs_user_of_uid(held->about.st_uid ? held->about.st_uid : walk.owner, &held->user);
    *fd_p = fd;
    return RS_OK;
}

enum rs_status rs_file_hold(const char *path, unsigned flags, struct rs_held *held_p,
                            struct rs_err *err)
{
    struct rs_as_user scope;
    struct rs_held held = {.fd = -1};
    int fd = -1;
    enum rs_status status = find_plain(path, flags, &held, &fd, err);
    if (status < 0)
        return status;
    status = rs_as_user_begin(&held.user, &scope, err);
    if (status == RS_OK) {
        status = reopen(fd, flags & RS_HOLD_FOLDER ? O_DIRECTORY : 0, path, &held.fd, err);
        rs_as_user_end(&scope);
    }
    (void)close(fd);
    (void)snprintf(held.name, sizeof held.name, "/proc/self/fd/%d", held.fd);
    if (status == RS_OK)
        *held_p = held;
    return status;
}

void rs_held_release(struct rs_held *held)
{
    if (held->fd >= 0)
        (void)close(held->fd);
    held->fd = -1;
}

enum rs_status rs_held_remove(const char *path, const struct rs_held *held, unsigned flags,
                              struct rs_err *err)
{
    return remove_as_owner(path, &held->about, flags, err);
}

enum rs_status rs_file_as_owner_begin(const char *path, unsigned flags, struct rs_as_user *scope,
                                      struct rs_err *err)
{
    struct rs_held held = {.fd = -1};
    int fd = -1;
    *scope = (struct rs_as_user){.is_changed = false};
    if (geteuid() != 0)
        return RS_OK;
    const enum rs_status status = find_plain(path, flags | RS_HOLD_FOLDER, &held, &fd, err);
    if (status < 0)
        return status;
    (void)close(fd);
    return rs_as_user_begin(&held.user, scope, err);
}

/* Its contents with the rights of its owner, itself with those of the owner of the folder it lies in. */
enum rs_status rs_file_remove_tree_of_user(const char *path, unsigned flags, struct rs_err *err)
{
    const char *name = NULL;
    struct walk walk;
    struct stat about;
    struct rs_user user;
    struct rs_as_user scope;
    enum rs_status status = walk_to_folder(path, flags, &walk, &name, err);
    if (status < 0)
        return status;
    if (fstatat(walk.fd, name, &about, AT_SYMLINK_NOFOLLOW) != 0)
        status = rs_err_set(err, errno == ENOENT ? RS_NOTFOUND : RS_IO, "cannot look at %s", path);
    rs_user_of_uid(status == RS_OK && about.st_uid ? about.st_uid : walk.owner, &user);
    if (status == RS_OK)
        status = rs_as_user_begin(&user, &scope, err);
    if (status == RS_OK) {
        status = rs_file_empty_folder(walk.fd, name, path, err);
        rs_as_user_end(&scope);
    }
    rs_user_of_uid(walk.owner, &user);
    if (status == RS_OK)
        status = rs_as_user_begin(&user, &scope, err);
    if (status == RS_OK) {
        if (unlinkat(walk.fd, name, AT_REMOVEDIR) != 0)
            status = rs_err_errno(err, "cannot remove %s", path);
        rs_as_user_end(&scope);
    }
    (void)close(walk.fd);
    return status;
}
