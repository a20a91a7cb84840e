/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and folders, with what POSIX leaves to the caller: a file is replaced whole or not at all (a name of the process's own beside it, sync,
 * rename, sync of the folder), removed by descriptor where somebody could put a link in its place, and what a process that was killed left
 * half written is swept away by the next one, which knows it by the dead process in its name.
 */
#include "common/base/file.h"

#include "common/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 256 * 1024 };

static enum rs_status read_all(int fd, const char *path, size_t limit_bytes, struct rs_buf *buf,
                               struct rs_err *err)
{
    const size_t start = buf->length;
    for (;;) {
        uint8_t *to = rs_buf_reserve(buf, READ_BYTES);
        if (!to)
            return rs_err_set(err, RS_NOMEM, "no memory to read %s", path);
        const ssize_t got = read(fd, to, READ_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return rs_err_errno(err, "cannot read %s", path);
        if (got == 0)
            return RS_OK;
        rs_buf_commit(buf, (size_t)got);
        if (buf->length - start > limit_bytes)
            return rs_err_set(err, RS_LIMIT, "%s is longer than %zu bytes", path, limit_bytes);
    }
}

static enum rs_status read_file(const char *path, bool is_regular, size_t limit_bytes,
                                struct rs_buf *buf, struct rs_err *err)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | (is_regular ? O_NONBLOCK | O_NOCTTY : 0));
    if (fd < 0) {
        const bool missing = errno == ENOENT;
        const enum rs_status status = rs_err_errno(err, "cannot open %s", path);
        if (missing && err)
            err->status = RS_NOTFOUND;
        return missing ? RS_NOTFOUND : status;
    }
    const size_t before = buf->length;
    enum rs_status status = RS_OK;
    if (is_regular && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)))
        status = rs_err_set(err, RS_REFUSED, "%s is not a regular file", path);
    if (status == RS_OK)
        status = read_all(fd, path, limit_bytes, buf, err);
    if (status != RS_OK)
        buf->length = before; /* what was read in vain */
    (void)close(fd);
    return status;
}

enum rs_status rs_file_read(const char *path, size_t limit_bytes, struct rs_buf *buf,
                            struct rs_err *err)
{
    return read_file(path, false, limit_bytes, buf, err);
}

enum rs_status rs_file_read_regular(const char *path, size_t limit_bytes, struct rs_buf *buf,
                                    struct rs_err *err)
{
    return read_file(path, true, limit_bytes, buf, err);
}

enum rs_status rs_file_write_all(int fd, const void *data, size_t length, const char *path,
                                 struct rs_err *err)
{
    const uint8_t *from = data;
    while (length) {
        const ssize_t wrote = write(fd, from, length);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return rs_err_errno(err, "cannot write %s", path);
        from += wrote;
        length -= (size_t)wrote;
    }
    return RS_OK;
}

static enum rs_status sync_parent(const char *path, struct rs_err *err)
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

enum rs_status rs_file_replace(const char *path, const void *data, size_t length, bool sync,
                               struct rs_err *err)
{
    struct rs_buf name = {0};
    rs_buf_printf(&name, "%s.tmp-%ld-XXXXXX", path, (long)getpid());
    if (name.failed) {
        rs_buf_fini(&name);
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", path);
    }
    char *temporary = (char *)name.data;
    temporary[name.length] = '\0';
    const int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        const enum rs_status status = rs_err_errno(err, "cannot create a file beside %s", path);
        rs_buf_fini(&name);
        return status;
    }
    enum rs_status status = rs_file_write_all(fd, data, length, temporary, err);
    if (status == RS_OK && fchmod(fd, RS_FILE_MODE) != 0)
        status = rs_err_errno(err, "cannot set the mode of %s", temporary);
    if (status == RS_OK && sync && fsync(fd) != 0)
        status = rs_err_errno(err, "cannot sync %s", temporary);
    if (close(fd) != 0 && status == RS_OK)
        status = rs_err_errno(err, "cannot close %s", temporary);
    if (status == RS_OK && rename(temporary, path) != 0)
        status = rs_err_errno(err, "cannot rename %s to %s", temporary, path);
    if (status != RS_OK)
        (void)unlink(temporary);
    else if (sync)
        status = sync_parent(path, err);
    rs_buf_fini(&name);
    return status;
}

/* Whatever the umask is. The group that a folder hands down to what is made in it stays; so does what others own. */
static enum rs_status set_mode(const char *path, mode_t mode, struct rs_err *err)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return rs_err_errno(err, "cannot see %s", path);
    if (about.st_uid != geteuid() || chmod(path, mode | (about.st_mode & S_ISGID)) == 0)
        return RS_OK;
    return rs_err_errno(err, "cannot set the mode of %s", path);
}

rs_ns rs_file_changed_ns(const struct stat *info)
{
    const int64_t limit_s = RS_FILE_CHANGED_LIMIT_NS / RS_NS_PER_S;
    if (info->st_mtim.tv_sec >= limit_s)
        return RS_FILE_CHANGED_LIMIT_NS;
    if (info->st_mtim.tv_sec <= -limit_s)
        return -RS_FILE_CHANGED_LIMIT_NS;
    return (rs_ns)info->st_mtim.tv_sec * RS_NS_PER_S + info->st_mtim.tv_nsec;
}

enum rs_status rs_file_set_mode(const char *path, struct rs_err *err)
{
    return set_mode(path, RS_FILE_MODE, err);
}

enum rs_status rs_file_make_dirs(const char *path, unsigned mode, struct rs_err *err)
{
    char *copy = rs_mem_strdup(path);
    if (!copy)
        return rs_err_set(err, RS_NOMEM, "no memory to create %s", path);
    enum rs_status status = RS_OK;
    for (char *p = copy + 1; status == RS_OK && *copy; p++) {
        const char keep = *p;
        if (keep != '/' && keep != '\0')
            continue;
        *p = '\0';
        const bool is_made = mkdir(copy, (mode_t)mode) == 0;
        if (!is_made && errno != EEXIST)
            status = rs_err_errno(err, "cannot create the folder %s", copy);
        else if (is_made)
            status = set_mode(copy, (mode_t)mode, err);
        *p = keep;
        if (keep == '\0')
            break;
    }
    struct stat info;
    if (status == RS_OK && (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)))
        status = rs_err_set(err, RS_IO, "%s is not a folder", path);
    rs_mem_free(copy);
    return status;
}

bool rs_file_is_everybodys(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && info.st_mode & S_IWOTH;
}

void rs_file_others(const char *path, char text[RS_FILE_OTHERS_BYTES])
{
    struct stat info;
    text[0] = '\0';
    if (stat(path, &info) != 0)
        return;
    if (info.st_uid != geteuid() && info.st_uid != 0)
        (void)snprintf(text, RS_FILE_OTHERS_BYTES, "it belongs to user %u", (unsigned)info.st_uid);
    else if (rs_file_is_everybodys(path))
        (void)snprintf(text, RS_FILE_OTHERS_BYTES, "everybody may write to it");
}

enum rs_status rs_file_sync_dir(const char *path, struct rs_err *err)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return rs_err_errno(err, "cannot open the folder %s", path);
    enum rs_status status = RS_OK;
    if (fsync(fd) != 0)
        status = rs_err_errno(err, "cannot sync the folder %s", path);
    (void)close(fd);
    return status;
}

char *rs_file_join(const char *dir, const char *name)
{
    struct rs_buf path = {0};
    const size_t length = strlen(dir);
    rs_buf_printf(&path, "%s%s%s", dir, length && dir[length - 1] == '/' ? "" : "/", name);
    if (path.failed) {
        rs_buf_fini(&path);
        return NULL;
    }
    return (char *)path.data; /* rs_buf_printf() left a NUL behind the text */
}

enum { SWEEP_AGE_S = 60 };

/* The process in NAME.tmp-PID and NAME.tmp-PID-ANYTHING; -1: another name. */
static long process_in_name(const char *name)
{
    const char *tail = NULL;
    for (const char *at = name; (at = strstr(at, ".tmp-")); at++)
        tail = at + 5;
    char *end;
    if (!tail || *tail < '1' || *tail > '9')
        return -1;
    errno = 0;
    const long process = strtol(tail, &end, 10);
    return (*end && *end != '-') || errno || process > INT32_MAX ? -1 : process;
}

void rs_file_sweep(const char *dir)
{
    DIR *list = opendir(dir);
    struct dirent *entry;
    while (list && (entry = rs_dir_next(list))) {
        struct stat about;
        const long process = process_in_name(entry->d_name);
        if (process < 0 || kill((pid_t)process, 0) == 0 || errno != ESRCH)
            continue;
        if (fstatat(dirfd(list), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(about.st_mode) && about.st_mtim.tv_sec + SWEEP_AGE_S < time(NULL))
            (void)unlinkat(dirfd(list), entry->d_name, 0);
    }
    if (list)
        (void)closedir(list);
}

enum { SWEEP_DEPTH_MAX = 8 };

/* `fd` is closed. */
static void sweep_below(int fd, int depth)
{
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    if (!list) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(list))) { /* NOLINT(concurrency-mt-unsafe): own DIR */
        struct stat about;
        const bool is_dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (is_dots || fstatat(dirfd(list), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISREG(about.st_mode) && process_in_name(entry->d_name) >= 0)
            (void)unlinkat(dirfd(list), entry->d_name, 0);
        else if (S_ISDIR(about.st_mode) && depth < SWEEP_DEPTH_MAX)
            sweep_below(
                openat(dirfd(list), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                depth + 1);
    }
    (void)closedir(list);
}

void rs_file_sweep_own(const char *dir)
{
    sweep_below(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0);
}

/* ---- trees ------------------------------------------------------------------------------------------------------------ */

enum { TREE_DEPTH_MAX = 16 };

static int remove_below(int parent, const char *name, int depth);

/* errno of the first thing in the folder that could not be removed; 0: all is gone. */
static int empty_folder(int parent, const char *name, int depth)
{
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    int why = 0;
    if (!stream) {
        why = errno;
        if (fd >= 0)
            (void)close(fd);
        return why;
    }
    for (const struct dirent *entry = rs_dir_next(stream); entry; entry = rs_dir_next(stream)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int failure = unlinkat(dirfd(stream), entry->d_name, 0) < 0 ? errno : 0;
        if ((failure == EISDIR || failure == EPERM) && depth < TREE_DEPTH_MAX)
            failure = remove_below(dirfd(stream), entry->d_name, depth + 1);
        why = why ? why : failure;
    }
    (void)closedir(stream);
    return why;
}

/* The same, and the folder itself. */
static int remove_below(int parent, const char *name, int depth)
{
    const int why = empty_folder(parent, name, depth);
    if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && !why)
        return errno;
    return why;
}

enum rs_status rs_file_remove_tree(const char *path, struct rs_err *err)
{
    errno = remove_below(AT_FDCWD, path, 0);
    return errno ? rs_err_errno(err, "cannot remove %s", path) : RS_OK;
}

enum rs_status rs_file_empty_folder(int parent, const char *name, const char *path,
                                    struct rs_err *err)
{
    errno = empty_folder(parent, name, 0);
    return errno ? rs_err_errno(err, "cannot remove what is in %s", path) : RS_OK;
}

static uint64_t bytes_below(int parent, const char *name, int depth)
{
    struct stat info;
    uint64_t bytes = 0;
    if (fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    bytes = (uint64_t)info.st_blocks * 512;
    const int fd = S_ISDIR(info.st_mode) && depth < TREE_DEPTH_MAX
                       ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                       : -1;
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (!stream) {
        if (fd >= 0)
            (void)close(fd);
        return bytes;
    }
    for (const struct dirent *entry = rs_dir_next(stream); entry; entry = rs_dir_next(stream))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            bytes += bytes_below(dirfd(stream), entry->d_name, depth + 1);
    (void)closedir(stream);
    return bytes;
}

uint64_t rs_file_tree_bytes(const char *path)
{
    return bytes_below(AT_FDCWD, path, 0);
}
