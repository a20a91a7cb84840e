/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Root touches a user's files with the user's rights, by descriptor: what he may not do is not done for him.
 */
#include "common/base/user_file.h"

#include "common/base/file.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USER = 12345, OTHER = 12346 };

struct rig {
    char dir[64], real[200];
    char folder[300], file[400], secret[400];
};

static void write_file(const char *path, const char *text, uid_t owner, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
    assert_true(geteuid() != 0 || chown(path, owner, owner) == 0);
}

/* DIR/user (USER's) with a file of his, DIR/secret of root alone. */
static struct rig rig_new(void)
{
    struct rig rig = {.dir = ""};
    tmp_dir_make(rig.dir);
    assert_int_equal(chmod(rig.dir, 0755), 0);
    char *real = realpath(rig.dir, NULL);
    assert_non_null(real);
    (void)snprintf(rig.real, sizeof rig.real, "%s", real);
    free(real);
    (void)snprintf(rig.folder, sizeof rig.folder, "%s/user", rig.real);
    (void)snprintf(rig.file, sizeof rig.file, "%s/trace.json", rig.folder);
    (void)snprintf(rig.secret, sizeof rig.secret, "%s/secret", rig.real);
    assert_int_equal(mkdir(rig.folder, 0755), 0);
    assert_true(geteuid() != 0 || chown(rig.folder, USER, USER) == 0);
    write_file(rig.file, "his", USER, 0600);
    write_file(rig.secret, "kept", 0, 0600);
    return rig;
}

static bool can_open(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

static void *try_to_open(void *path)
{
    return can_open(path) ? path : NULL;
}

static void in_a_scope_this_thread_has_the_users_rights_and_no_other(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct rig rig = rig_new();
    const struct rs_user user = {.uid = USER, .gid = USER};
    struct rs_as_user scope, inner;
    pthread_t thread;
    void *opened = NULL;
    assert_ok(rs_as_user_begin(&user, &scope, NULL));
    assert_true(can_open(rig.file));
    assert_false(can_open(rig.secret));
    assert_int_equal(pthread_create(&thread, NULL, try_to_open, rig.secret), 0);
    assert_int_equal(pthread_join(thread, &opened), 0);
    assert_null(opened); /* a thread that is started in it has the rights of who started it */
    rs_as_self_begin(&inner);
    assert_true(can_open(rig.secret));
    rs_as_user_end(&inner);
    assert_false(can_open(rig.secret));
    rs_as_user_end(&scope);
    assert_true(can_open(rig.secret));
    tmp_dir_remove(rig.dir);
}

static void groups_are_the_users_too(void **state)
{
    (void)state;
    enum { GROUP = 23456 };
    if (geteuid() != 0)
        skip();
    struct rig rig = rig_new();
    struct rs_user user = {.uid = USER, .gid = USER};
    struct rs_as_user scope;
    /* Root's own group opens nothing for him; his do. */
    assert_int_equal(chmod(rig.secret, 0640), 0);
    assert_ok(rs_as_user_begin(&user, &scope, NULL));
    assert_false(can_open(rig.secret));
    rs_as_user_end(&scope);
    assert_int_equal(chown(rig.secret, 0, GROUP), 0);
    user.groups[user.group_count++] = GROUP;
    assert_ok(rs_as_user_begin(&user, &scope, NULL));
    assert_true(can_open(rig.secret));
    rs_as_user_end(&scope);
    tmp_dir_remove(rig.dir);
}

static void what_is_held_is_read_whatever_stands_in_its_place(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct rs_held held;
    struct rs_buf buf = {0};
    struct rs_err err = {0};
    assert_ok(rs_file_hold(rig.file, 0, &held, &err));
    assert_int_equal(unlink(rig.file), 0);
    assert_int_equal(symlink(rig.secret, rig.file), 0);
    assert_ok(rs_file_read(held.name, 100, &buf, &err));
    assert_string_equal(rs_buf_text(&buf), "his");
    assert_int_equal(held.about.st_uid, geteuid() == 0 ? USER : geteuid());
    /* and what stands there now is not taken for it */
    assert_status(rs_held_remove(rig.file, &held, 0, &err), RS_REFUSED);
    assert_true(can_open(rig.secret));
    rs_held_release(&held);
    rs_held_release(&held);
    assert_status(rs_file_hold(rig.file, 0, &held, &err), RS_REFUSED);
    rs_buf_fini(&buf);
    tmp_dir_remove(rig.dir);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct rs_held held;
    struct rs_err err = {0};
    char pipe[400];
    (void)snprintf(pipe, sizeof pipe, "%s/pipe", rig.folder);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_status(rs_file_hold(pipe, 0, &held, &err), RS_REFUSED);
    assert_status(rs_file_hold(rig.folder, 0, &held, &err), RS_REFUSED);
    assert_status(rs_file_hold(rig.file, RS_HOLD_FOLDER, &held, &err), RS_REFUSED);
    assert_status(rs_file_hold("/nowhere/at/all", 0, &held, &err), RS_NOTFOUND);
    assert_status(rs_file_hold("trace.json", 0, &held, &err), RS_INVALID);
    assert_ok(rs_file_hold(rig.folder, RS_HOLD_FOLDER, &held, &err));
    rs_held_release(&held);
    tmp_dir_remove(rig.dir);
}

/* Root's file, hard-linked or moved into a user's folder: with whose rights is it opened? His who could have put it there. */
static void a_file_of_root_in_a_users_folder_is_opened_as_the_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct rig rig = rig_new();
    struct rs_held held;
    struct rs_err err = {0};
    char inner[400], placed[500];
    (void)snprintf(inner, sizeof inner, "%s/of-root", rig.folder);
    (void)snprintf(placed, sizeof placed, "%s/trace.json", inner);
    assert_int_equal(mkdir(inner, 0755), 0);
    assert_int_equal(link(rig.secret, placed), 0);
    assert_status(rs_file_hold(placed, 0, &held, &err), RS_IO);
    assert_int_equal(chmod(placed, 0644), 0);
    assert_ok(rs_file_hold(placed, 0, &held, &err));
    assert_int_equal(held.user.uid, USER);
    /* He may not remove it from root's folder, so it is not removed for him. */
    assert_status(rs_held_remove(placed, &held, 0, &err), RS_IO);
    assert_true(can_open(placed));
    rs_held_release(&held);
    tmp_dir_remove(rig.dir);
}

static void only_links_of_root_in_folders_of_root_are_followed(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct rig rig = rig_new();
    struct rs_held held;
    struct rs_err err = {0};
    char scratch[400], through[500], away[400];
    (void)snprintf(scratch, sizeof scratch, "%s/scratch", rig.real);
    (void)snprintf(through, sizeof through, "%s/trace.json", scratch);
    assert_int_equal(symlink(rig.folder, scratch), 0);
    assert_status(rs_file_hold(through, 0, &held, &err), RS_REFUSED);
    assert_ok(rs_file_hold(through, RS_HOLD_ROOT_LINKS, &held, &err));
    rs_held_release(&held);
    assert_int_equal(lchown(scratch, OTHER, OTHER), 0);
    assert_status(rs_file_hold(through, RS_HOLD_ROOT_LINKS, &held, &err), RS_REFUSED);
    /* Also root's, where a user can move it to. */
    (void)snprintf(away, sizeof away, "%s/away", rig.folder);
    (void)snprintf(through, sizeof through, "%s/secret", away);
    assert_int_equal(symlink(rig.real, away), 0);
    assert_status(rs_file_hold(through, RS_HOLD_ROOT_LINKS, &held, &err), RS_REFUSED);
    tmp_dir_remove(rig.dir);
}

static void a_users_folder_is_emptied_with_his_rights(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct rig rig = rig_new();
    struct rs_err err = {0};
    char link[400], closed[400], kept[500];
    (void)snprintf(link, sizeof link, "%s/link", rig.folder);
    (void)snprintf(closed, sizeof closed, "%s/closed", rig.folder);
    (void)snprintf(kept, sizeof kept, "%s/kept", closed);
    assert_int_equal(symlink(rig.real, link), 0);
    assert_int_equal(mkdir(closed, 0755), 0);
    write_file(kept, "of root", 0, 0644);
    assert_int_not_equal(rs_file_remove_tree_of_user(rig.folder, 0, &err), RS_OK);
    assert_true(can_open(kept) && can_open(rig.secret));
    assert_int_equal(access(rig.file, F_OK), -1); /* what he may remove is gone */
    assert_int_equal(chown(closed, USER, USER), 0);
    assert_ok(rs_file_remove_tree_of_user(rig.folder, 0, &err));
    assert_int_equal(access(rig.folder, F_OK), -1);
    assert_true(can_open(rig.secret));
    tmp_dir_remove(rig.dir);
}

static void a_process_is_its_real_users(void **state)
{
    (void)state;
    struct rs_user user;
    rs_user_of_process(getpid(), getuid(), &user);
    assert_int_equal(user.uid, getuid());
    assert_int_equal(user.gid, getgid());
    /* Another's by now: nothing is known of its groups. */
    rs_user_of_process(getpid(), getuid() + 1, &user);
    assert_int_equal(user.gid, (gid_t)-1);
    assert_int_equal(user.group_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_scope_this_thread_has_the_users_rights_and_no_other),
        cmocka_unit_test(groups_are_the_users_too),
        cmocka_unit_test(what_is_held_is_read_whatever_stands_in_its_place),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(a_file_of_root_in_a_users_folder_is_opened_as_the_user),
        cmocka_unit_test(only_links_of_root_in_folders_of_root_are_followed),
        cmocka_unit_test(a_users_folder_is_emptied_with_his_rights),
        cmocka_unit_test(a_process_is_its_real_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
