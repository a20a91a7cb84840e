/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: whole reads with a limit, writes that appear whole or not at all.
 */
#ifndef RS_BASE_FILE_H
#define RS_BASE_FILE_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/time.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of data and of results, whatever the umask is: the group may read, nobody else. Folders: 0750. */
enum { RS_FILE_MODE = 0640, RS_FOLDER_MODE = 0750 };

/* Appends the file to `buf`. RS_NOTFOUND, RS_IO, RS_LIMIT (longer than limit_bytes), RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_file_read(const char *path, size_t limit_bytes, struct rs_buf *buf,
                                          struct rs_err *err);

/* The same of a regular file only, for names in folders of others: a pipe or a device there is RS_REFUSED, and never waited
 * for. */
RS_MUST_CHECK enum rs_status rs_file_read_regular(const char *path, size_t limit_bytes,
                                                  struct rs_buf *buf, struct rs_err *err);

/* All of it, over short writes and EINTR. */
RS_MUST_CHECK enum rs_status rs_file_write_all(int fd, const void *data, size_t length,
                                               const char *path, struct rs_err *err);

/* Writes `path` by way of a temporary name in the same folder and rename(2): readers see
 * the old file or the new one. With `sync`, file and folder are fsynced first. */
RS_MUST_CHECK enum rs_status rs_file_replace(const char *path, const void *data, size_t length,
                                             bool sync, struct rs_err *err);

struct stat;
/* When it was written last, Unix ns. Its owner may set any time: what is beyond +-RS_FILE_CHANGED_LIMIT_NS is that, so that
 * seconds can be added to it and times be subtracted. */
#define RS_FILE_CHANGED_LIMIT_NS ((INT64_C(1) << 62) - 1)
rs_ns rs_file_changed_ns(const struct stat *info);

/* Gives a file RS_FILE_MODE, if it is ours. RS_IO. */
RS_MUST_CHECK enum rs_status rs_file_set_mode(const char *path, struct rs_err *err);

/* mkdir -p. Mode is for what is created, whatever the umask is. */
RS_MUST_CHECK enum rs_status rs_file_make_dirs(const char *path, unsigned mode, struct rs_err *err);

/* Who else can change what is in a folder (or a file) that this process relies on: "everybody may write to it", "it belongs to user 1000";
 * "": nobody but this user and root, or it cannot be seen. */
enum { RS_FILE_OTHERS_BYTES = 64 };
void rs_file_others(const char *path, char text[RS_FILE_OTHERS_BYTES]);
bool rs_file_is_everybodys(
    const char *path); /* everybody may write to it; false, too, when it cannot be seen */

/* Removes a folder with all that is in it, as deep as 16 folders; follows no link. What cannot be removed stays: RS_IO. */
RS_MUST_CHECK enum rs_status rs_file_remove_tree(const char *path, struct rs_err *err);

/* Removes all that is in the folder `name` of the folder `parent` (a descriptor), and not itself; `path` is for people. RS_IO. */
RS_MUST_CHECK enum rs_status rs_file_empty_folder(int parent, const char *name, const char *path,
                                                  struct rs_err *err);

/* What a folder and all that is in it take on disk, as far as it can be seen. */
uint64_t rs_file_tree_bytes(const char *path);

/* fsync of a folder, so that names in it survive a power cut. */
RS_MUST_CHECK enum rs_status rs_file_sync_dir(const char *path, struct rs_err *err);

/* "dir/name" in freshly allocated memory (rs_mem_free); NULL when there is none. */
char *rs_file_join(const char *dir, const char *name);

/* Removes what processes that are gone left half-written in the folder: NAME.tmp-PID and NAME.tmp-PID-ANYTHING of a PID that
 * does not run here, not touched for a minute (the folder may be shared with other nodes). Nothing else, and no word about what cannot be removed. */
void rs_file_sweep(const char *dir);
/* The same in the folder and those below it, whatever the process and the age: for who has just taken the folder's lock, so that nobody else
 * writes there, and has written nothing itself. Links are not followed. */
void rs_file_sweep_own(const char *dir);

/* readdir() of a stream that this thread opened: what it gives is the stream's own, until the next call. */
static inline struct dirent *rs_dir_next(DIR *stream)
{
    return readdir(stream); /* NOLINT(concurrency-mt-unsafe): glibc keeps one entry a stream */
}

#endif
