/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a capture into its folder, from any store:
 *
 *     from --unit by unit--> FOLDER/.copy.PID --whole--> FOLDER/rows.db       what killed ones have left goes first
 */
#include "aggregator/store/row_store.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char making_prefix[] = ".copy.";

/* What a copy has left, whole or not. */
static enum rs_status remove_making(const char *making, enum rs_status status, struct rs_err *err)
{
    struct rs_err second = {0};
    return access(making, F_OK) == 0 ? rs_file_remove_tree(making, status == RS_OK ? err : &second)
                                     : RS_OK;
}

/* Whether nobody writes into what a copy made: its process is gone, and with it the lock of who writes rows. */
static bool is_left(const char *path, long pid)
{
    char *members = rs_file_join(path, "members");
    const bool is_gone = pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
    const int fd = members && is_gone ? open(members, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    const bool is_free = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        (void)close(fd);
    rs_mem_free(members);
    return is_gone && is_free;
}

static void tell_swept(const struct rs_row_copy_into *copy, const char *path, enum rs_status status)
{
    char line[4200];
    (void)snprintf(line, sizeof line, "%.4000s is of a copy that was killed%s", path,
                   status < 0 ? ", and cannot be removed" : ": removed");
    copy->print(copy->self, line);
}

/* What copies into the folder have left that were killed. */
static void sweep_makings(const struct rs_row_copy_into *copy)
{
    struct rs_err err = {0};
    DIR *stream = opendir(copy->dir);
    for (const struct dirent *item = stream ? rs_dir_next(stream) : NULL; item;
         item = rs_dir_next(stream)) {
        char *end = NULL;
        if (strncmp(item->d_name, making_prefix, sizeof making_prefix - 1) != 0)
            continue;
        const long pid = strtol(item->d_name + sizeof making_prefix - 1, &end, 10);
        char *path = *end ? NULL : rs_file_join(copy->dir, item->d_name);
        if (path && is_left(path, pid))
            tell_swept(copy, path, rs_file_remove_tree(path, &err));
        rs_mem_free(path);
    }
    if (stream)
        (void)closedir(stream);
}

enum rs_status rs_row_store_copy_into(const struct rs_row_copy_into *copy, uint64_t *rows_p,
                                      struct rs_err *err)
{
    struct rs_row_store *to = NULL;
    char name[32];
    (void)snprintf(name, sizeof name, "%s%ld", making_prefix, (long)getpid());
    char *making = rs_file_join(copy->dir, name);
    enum rs_status status = making ? RS_OK : rs_err_set(err, RS_NOMEM, "out of memory");
    if (status == RS_OK && access(copy->dir, F_OK) < 0)
        status = rs_err_errno(err, "cannot copy into %s", copy->dir);
    if (status == RS_OK)
        sweep_makings(copy);
    if (status == RS_OK)
        status = remove_making(making, RS_OK, err);
    if (status == RS_OK)
        status = rs_file_make_dirs(making, 0750, err);
    if (status == RS_OK)
        status = rs_row_store_open(making, RS_ROWS_WRITE, &to, err);
    if (status == RS_OK)
        status = rs_row_store_copy(copy->from, to, copy->capture, rows_p, err);
    rs_row_store_close(&to);
    if (status == RS_OK)
        status = rs_row_store_move(making, copy->dir, err);
    const enum rs_status removed = making ? remove_making(making, status, err) : RS_OK;
    rs_mem_free(making);
    return status == RS_OK ? removed : status;
}
