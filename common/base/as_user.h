/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Touching a user's files as that user.
 *
 * A collector of root opens, reads and removes what lies in folders of users, who may put links there and swap folders for links
 * while it does. So it does all that with the user's own rights: what he may not do himself is not done for him, wherever a
 * name leads by now. It is also what a network file system wants that takes root for nobody.
 *
 *     struct rs_as_user scope;
 *     enum rs_status status = rs_as_user_begin(&user, &scope, err);
 *     if (status == RS_OK) {
 *         ... open(), read, unlinkat() ...
 *         rs_as_user_end(&scope);
 *     }
 *
 * The file system user, group and groups of the calling thread change (setfsuid(2)), those of no other thread; who the process is
 * for signals, sockets and /proc does not change. No thread is started inside a scope: it would keep its rights. Scopes may be nested,
 * and end in the reverse order. A process that is not root's has nothing to give away: nothing changes then.
 */
#ifndef RS_BASE_AS_USER_H
#define RS_BASE_AS_USER_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { RS_USER_GROUPS_MAX = 256 };

/* Of more groups the first are taken: fewer rights, never others. */
struct rs_user {
    uid_t uid;
    gid_t gid; /* -1 not known: nobody's then */
    size_t group_count;
    gid_t groups[RS_USER_GROUPS_MAX];
};

/* Who runs a process: real user and group, and its groups, by the kernel's word. `uid` is whose it was when it was found; of a
 * process that is another's by now, or gone, the groups are not known. */
void rs_user_of_process(pid_t pid, uid_t uid, struct rs_user *user_p);
/* Who started a process: its real user, by the kernel's word. -1: it is gone. */
int64_t rs_user_id_of_process(pid_t pid);
/* A user by number, with the groups that the user database gives him; one it does not know has none. What it said is believed for ten
 * seconds: a database of a network is asked over that, and files of one user come one behind the other. */
void rs_user_of_uid(uid_t uid, struct rs_user *user_p);

struct rs_as_user {
    bool is_changed;
    bool was_other;      /* a scope was open around this one */
    struct rs_user user; /* whose */
};

/* From here on files are touched as `user`; when that is root, as ourselves. RS_REFUSED: this process may not change its file
 * system user (CAP_SETUID, CAP_SETGID); RS_IO. Nothing has changed then. */
RS_MUST_CHECK enum rs_status rs_as_user_begin(const struct rs_user *user, struct rs_as_user *scope,
                                              struct rs_err *err);
/* As ourselves, inside of a scope: for our own files while a user's are read. Cheap where there is none. */
void rs_as_self_begin(struct rs_as_user *scope);
/* Back to what was before. */
void rs_as_user_end(struct rs_as_user *scope);

#endif
