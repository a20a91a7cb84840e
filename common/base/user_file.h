/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in folders of users, for a process of root.
 *
 * A user may put a link in the place of a file, or of a folder above it, between any two looks at its name. So a name is walked once,
 * part by part, following no link; what it leads to is held by descriptor; and it is touched with the rights of the user who could have
 * put it there (common/base/as_user.h). Any thread.
 */
#ifndef RS_BASE_USER_FILE_H
#define RS_BASE_USER_FILE_H

#include "common/base/as_user.h"

#include <sys/stat.h>

/* Removes the very file that `seen` describes (device, inode, size, time of its data). The absolute path is walked without following
 * any link: in folders of others one may stand anywhere by now. Done with the rights of the folder's owner, or, where that is root,
 * of the nearest other owner above it. RS_REFUSED: there is a link on the way, or another file, or his rights cannot be taken.
 * RS_NOTFOUND, RS_IO, RS_INVALID: the path. */
RS_MUST_CHECK enum rs_status rs_file_remove_same(const char *path, const struct stat *seen,
                                                 struct rs_err *err);

/* Opens a regular file of a user (or a folder) for reading, by an absolute path on which nothing is a link, and holds it: what is
 * read through `fd`, or by `name`, is that very one, whatever is put in its place. It is opened with the rights of its owner, or, where
 * that is root, of the nearest other owner of a folder above it, who could have put it there. rs_held_release() closes it.
 * RS_REFUSED: a link, pipe or device, or his rights cannot be taken; RS_NOTFOUND, RS_IO, RS_INVALID: the path. */
enum { RS_HELD_NAME_BYTES = 32 };
enum rs_hold_flag {
    RS_HOLD_FOLDER = 1,
    RS_HOLD_ROOT_LINKS =
        2, /* a link of root's in folders of root's alone is followed: /scratch, set up by who runs the machine */
};
struct rs_held {
    int fd;
    char name[RS_HELD_NAME_BYTES]; /* "/proc/self/fd/N": opens it anew, from its beginning */
    struct stat about;             /* when it was opened */
    struct rs_user user;           /* with whose rights */
};
RS_MUST_CHECK enum rs_status rs_file_hold(const char *path, unsigned flags, struct rs_held *held_p,
                                          struct rs_err *err);
void rs_held_release(struct rs_held *held); /* of one that is closed is allowed */
/* rs_file_remove_same() of what is held. */
RS_MUST_CHECK enum rs_status rs_held_remove(const char *path, const struct rs_held *held,
                                            unsigned flags, struct rs_err *err);
/* rs_as_user_begin() as the owner of a folder that is reached like that: for readers that open what is in it by name. */
RS_MUST_CHECK enum rs_status rs_file_as_owner_begin(const char *path, unsigned flags,
                                                    struct rs_as_user *scope, struct rs_err *err);
/* Removes a folder with all that is in it: its contents with the rights of its owner, itself with those of the owner of the folder
 * it lies in. Follows no link. What cannot be removed stays. RS_NOTFOUND, RS_REFUSED, RS_IO, RS_INVALID: the path. */
RS_MUST_CHECK enum rs_status rs_file_remove_tree_of_user(const char *path, unsigned flags,
                                                         struct rs_err *err);

#endif
