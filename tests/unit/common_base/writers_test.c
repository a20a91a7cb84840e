/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/writers.h"

#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void who_has_it_open_for_writing_is_seen(void **state)
{
    (void)state;
    char dir[64];
    char path[512];
    tmp_dir_make(dir);
    (void)snprintf(path, sizeof path, "%s/file", dir);
    const int writer = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(writer >= 0);
    const int reader = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(reader >= 0);
    const enum rs_writers found = rs_file_writers(reader);
    (void)close(writer);
    const int other = open(path, O_RDONLY | O_CLOEXEC);
    const enum rs_writers after = rs_file_writers(reader);
    (void)close(other);
    if (after == RS_WRITERS_UNKNOWN) {
        print_message("the file system has no leases\n");
    } else {
        assert_int_equal(found, RS_WRITERS_SOME);
        assert_int_equal(after, RS_WRITERS_NONE); /* a reader does not count */
    }
    /* It is given back: a writer does not wait. */
    const int again = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(again >= 0);
    (void)close(again);
    (void)close(reader);
    tmp_dir_remove(dir);
}

static void what_is_no_regular_file_is_not_known(void **state)
{
    (void)state;
    char dir[64];
    char path[512];
    tmp_dir_make(dir);
    (void)snprintf(path, sizeof path, "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(rs_file_writers(fd), RS_WRITERS_UNKNOWN);
    (void)close(fd);
    assert_int_equal(rs_file_writers(-1), RS_WRITERS_UNKNOWN);
    tmp_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_it_open_for_writing_is_seen),
        cmocka_unit_test(what_is_no_regular_file_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
