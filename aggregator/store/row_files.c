/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a folder as files: removed, or put in the place of others.
 *
 * rows.db is what says that there are rows, so it goes first and comes last: cut off in between there are none, and they are made
 * again.
 */
#include "aggregator/store/row_store.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static const char rows_name[] = "rows.db";
static const char members_name[] = "members";

void rs_row_store_remove(const char *dir)
{
    static const char *const names[] = {"rows.db", "rows.db-wal", "rows.db-shm", "rows.db-journal"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = rs_file_join(dir, names[i]);
        if (path)
            (void)unlink(path);
        rs_mem_free(path);
    }
}

static enum rs_status move(const char *from, const char *dir, const char *name, struct rs_err *err)
{
    char *old = rs_file_join(from, name), *new = rs_file_join(dir, name);
    enum rs_status status = RS_OK;
    if (!old || !new)
        status = rs_err_set(err, RS_NOMEM, "no memory for rows");
    else if (rename(old, new) < 0)
        status = rs_err_errno(err, "cannot rename %s to %s", old, new);
    rs_mem_free(old);
    rs_mem_free(new);
    return status;
}

enum rs_status rs_row_store_move(const char *from, const char *dir, struct rs_err *err)
{
    char *members = rs_file_join(dir, members_name);
    enum rs_status status = members ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory for rows");
    rs_row_store_remove(dir);
    if (status == RS_OK && access(members, F_OK) == 0)
        status = rs_file_remove_tree(members, err);
    rs_mem_free(members);
    if (status == RS_OK)
        status = move(from, dir, members_name, err);
    if (status == RS_OK)
        status = move(from, dir, rows_name, err);
    return status;
}
