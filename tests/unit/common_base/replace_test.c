/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are watched: new ones do not overwrite, later ones are newer by whole seconds, nothing is left behind.
 */
#include "common/base/replace.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "tests/support/rs_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[64];
static char path[128];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/rs-replace-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof path, "%s/file.json", folder);
    return 0;
}

static size_t entries(void)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir)) /* NOLINT(concurrency-mt-unsafe): one thread */
        count++;
    (void)closedir(dir);
    return count - 2;
}

static int drop_folder(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder); /* fails when a draft was left behind */
}

static struct stat look(void)
{
    struct stat info;
    assert_int_equal(lstat(path, &info), 0);
    return info;
}

static void assert_content(const char *expected)
{
    struct rs_buf buf = {0};
    assert_ok(rs_file_read(path, 1000, &buf, NULL));
    assert_string_equal(rs_buf_text(&buf), expected);
    rs_buf_fini(&buf);
}

static void a_file_that_is_there_is_not_created_again(void **state)
{
    (void)state;
    struct rs_err err = {0};
    assert_ok(rs_file_create(path, "one", 3, &err));
    assert_status(rs_file_create(path, "two", 3, &err), RS_EXISTS);
    assert_content("one");
    assert_int_equal(entries(), 1);
    assert_int_equal(look().st_mode & S_IWOTH, 0);
}

static void each_version_is_newer_by_a_whole_second(void **state)
{
    (void)state;
    struct rs_err err = {0};
    rs_ns reported = 0;
    time_t last = 0;
    for (int i = 0; i < 5; i++) { /* all within the same second, or nearly */
        char text[16];
        (void)snprintf(text, sizeof text, "%d", i);
        assert_ok(rs_file_replace_newer(path, text, 1, &reported, &err));
        const struct stat info = look();
        assert_true(info.st_mtim.tv_sec > last);
        assert_int_equal((rs_ns)info.st_mtim.tv_sec * RS_NS_PER_S + info.st_mtim.tv_nsec, reported);
        last = info.st_mtim.tv_sec;
        assert_content(text);
    }
    assert_int_equal(entries(), 1);
}

static void a_time_in_the_future_is_passed(void **state)
{
    (void)state;
    struct rs_err err = {0};
    rs_ns reported = 0;
    const time_t future = time(NULL) + 5000;
    const struct timespec times[2] = {{.tv_sec = future}, {.tv_sec = future, .tv_nsec = 5}};
    assert_ok(rs_file_create(path, "a", 1, &err));
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_ok(rs_file_replace_newer(path, "b", 1, &reported, &err));
    assert_int_equal(reported, (rs_ns)(future + 1) * RS_NS_PER_S);
}

static void an_old_file_gets_the_time_of_now(void **state)
{
    (void)state;
    struct rs_err err = {0};
    rs_ns reported = 0;
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_ok(rs_file_create(path, "a", 1, &err));
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    const rs_ns before = rs_time_realtime();
    assert_ok(rs_file_replace_newer(path, "b", 1, &reported, &err));
    assert_true(reported >= before && reported <= rs_time_realtime());
}

static void mode_stays_as_it_was(void **state)
{
    (void)state;
    struct rs_err err = {0};
    assert_ok(rs_file_create(path, "a", 1, &err));
    assert_int_equal(chmod(path, 0640), 0);
    assert_ok(rs_file_replace_newer(path, "b", 1, NULL, &err));
    assert_int_equal(look().st_mode & 07777, 0640);
}

static void a_link_is_refused_and_left_alone(void **state)
{
    (void)state;
    struct rs_err err = {0};
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_status(rs_file_replace_newer(path, "b", 1, NULL, &err), RS_REFUSED);
    assert_true(S_ISLNK(look().st_mode));
    assert_status(rs_file_create(path, "b", 1, &err), RS_EXISTS);
    assert_int_equal(entries(), 1);
}

static void a_folder_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    struct rs_err err = {0};
    assert_status(rs_file_create("/tmp/rs-no-such-folder/x", "b", 1, &err), RS_IO);
    assert_status(rs_file_replace_newer("/tmp/rs-no-such-folder/x", "b", 1, NULL, &err), RS_IO);
}

/* Whoever owns a file sets its time: whatever it is, a second can be added and the time of another one be subtracted. */
static void any_time_of_a_file_can_be_reckoned_with(void **state)
{
    (void)state;
    static const int64_t limits[] = {INT64_MAX, INT64_MAX / RS_NS_PER_S, INT64_C(1) << 40};
    struct stat info = {.st_mtim = {.tv_sec = 1700000000, .tv_nsec = 999999999}};
    assert_true(rs_file_changed_ns(&info) == INT64_C(1700000000999999999));
    info.st_mtim.tv_sec = -1;
    assert_true(rs_file_changed_ns(&info) == -1);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        info.st_mtim.tv_sec = limits[i];
        assert_true(rs_file_changed_ns(&info) == RS_FILE_CHANGED_LIMIT_NS);
        info.st_mtim.tv_sec = -limits[i];
        assert_true(rs_file_changed_ns(&info) == -RS_FILE_CHANGED_LIMIT_NS);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        TEST(a_file_that_is_there_is_not_created_again),
        TEST(each_version_is_newer_by_a_whole_second),
        TEST(a_time_in_the_future_is_passed),
        TEST(an_old_file_gets_the_time_of_now),
        TEST(mode_stays_as_it_was),
        TEST(a_link_is_refused_and_left_alone),
        TEST(a_folder_that_is_not_there_is_an_error),
        cmocka_unit_test(any_time_of_a_file_can_be_reckoned_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
