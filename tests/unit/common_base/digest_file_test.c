/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums against published values; files whole or not at all. */
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/rs_file_test_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char path[512];
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe): one thread */
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && unlink(path) != 0)
            (void)rmdir(path);
    }
    if (dir)
        (void)closedir(dir);
    return rmdir(folder);
}

static size_t files_in_folder(void)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while ((entry = readdir(dir))) /* NOLINT(concurrency-mt-unsafe): one thread */
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}

/* The polynomial's definition, bit by bit. */
static uint32_t crc_by_definition(const uint8_t *data, size_t length)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < length; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void crc32c_gives_the_values_of_rfc_3720(void **state)
{
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(rs_crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    assert_int_equal(rs_crc32c(0, bytes, 32), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = i;
    assert_int_equal(rs_crc32c(0, bytes, 32), 0x46dd794e);
    assert_int_equal(rs_crc32c(0, "123456789", 9), 0xe3069283);
}

static void crc32c_at_any_length_and_place_is_the_definition(void **state)
{
    (void)state;
    uint8_t bytes[128];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 151 + 7);
    for (size_t from = 0; from < 9; from++) {
        for (size_t length = 0; from + length <= sizeof bytes; length++) {
            const uint32_t whole = rs_crc32c(0, bytes + from, length);
            assert_int_equal(whole, crc_by_definition(bytes + from, length));
            const uint32_t half = rs_crc32c(0, bytes + from, length / 2);
            assert_int_equal(rs_crc32c(half, bytes + from + length / 2, length - length / 2),
                             whole);
        }
    }
}

static void sha256_gives_the_values_of_fips_180(void **state)
{
    (void)state;
    char hex[RS_SHA256_HEX_BYTES];
    char path[128];
    assert_ok(rs_sha256_hex("abc", 3, hex));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_ok(rs_sha256_hex("", 0, hex));
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    (void)snprintf(path, sizeof path, "%s/abc", folder);
    assert_ok(rs_file_replace(path, "abc", 3, false, NULL));
    assert_ok(rs_sha256_file(path, hex, NULL));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    struct rs_err err = {0};
    assert_status(rs_sha256_file("/nonexistent/x", hex, &err), RS_IO);
    assert_non_null(strstr(err.text, "/nonexistent/x"));
}

static void a_file_is_replaced_whole_and_leaves_nothing_beside_it(void **state)
{
    (void)state;
    char path[128];
    struct rs_buf buf = {0};
    (void)snprintf(path, sizeof path, "%s/file", folder);
    assert_ok(rs_file_replace(path, "old", 3, false, NULL));
    assert_ok(rs_file_replace(path, "newer", 5, true, NULL));
    rs_buf_string(&buf, ">");
    assert_ok(rs_file_read(path, 5, &buf, NULL));
    assert_string_equal(rs_buf_text(&buf), ">newer");
    assert_int_equal(files_in_folder(), 1);
    rs_buf_fini(&buf);
}

static void a_failed_replace_leaves_the_old_file_and_no_temporary(void **state)
{
    (void)state;
    char path[128];
    struct rs_err err = {0};
    (void)snprintf(path, sizeof path, "%s/taken", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_status(rs_file_replace(path, "x", 1, false, &err), RS_IO);
    assert_non_null(strstr(err.text, "rename"));
    assert_int_equal(files_in_folder(), 1);
    assert_status(rs_file_replace("/nonexistent/x", "x", 1, false, &err), RS_IO);
}

static void reading_says_what_is_missing_and_what_is_too_long(void **state)
{
    (void)state;
    char path[128];
    struct rs_buf buf = {0};
    struct rs_err err = {0};
    rs_buf_string(&buf, "before");
    (void)snprintf(path, sizeof path, "%s/none", folder);
    assert_status(rs_file_read(path, 10, &buf, &err), RS_NOTFOUND);
    assert_int_equal(err.status, RS_NOTFOUND);
    assert_ok(rs_file_replace(path, "0123456789", 10, false, NULL));
    assert_status(rs_file_read(path, 9, &buf, &err), RS_LIMIT);
    assert_string_equal(rs_buf_text(&buf), "before");
    assert_status(rs_file_read(folder, 10, &buf, &err), RS_IO);
    rs_buf_fini(&buf);
}

static void folders_are_made_with_their_parents(void **state)
{
    (void)state;
    char path[128], deep[256];
    struct stat info;
    struct rs_err err = {0};
    (void)snprintf(path, sizeof path, "%s/a", folder);
    (void)snprintf(deep, sizeof deep, "%s/b/", path);
    assert_ok(rs_file_make_dirs(deep, 0700, NULL));
    assert_ok(rs_file_make_dirs(deep, 0700, NULL));
    assert_int_equal(stat(deep, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_int_equal(rmdir(deep), 0);
    assert_int_equal(rmdir(path), 0);
    assert_ok(rs_file_replace(path, "x", 1, false, NULL));
    assert_true(rs_file_make_dirs(path, 0700, &err) < 0);
    assert_ok(rs_file_sync_dir(folder, NULL));
    assert_status(rs_file_sync_dir(path, NULL), RS_IO);
}

static unsigned mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(lstat(path, &info), 0);
    return info.st_mode & 07777;
}

static void modes_do_not_depend_on_the_umask(void **state)
{
    (void)state;
    static const mode_t masks[] = {0, 022, 077};
    char path[128], deep[256];
    (void)snprintf(path, sizeof path, "%s/m", folder);
    (void)snprintf(deep, sizeof deep, "%s/deep", path);
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        const mode_t before = umask(masks[i]);
        assert_ok(rs_file_make_dirs(deep, RS_FOLDER_MODE, NULL));
        assert_int_equal(mode_of(path), 0750);
        assert_int_equal(mode_of(deep), 0750);
        assert_int_equal(rmdir(deep), 0);
        assert_int_equal(chmod(path, 02770), 0); /* a folder that is there keeps what it has */
        assert_ok(rs_file_make_dirs(deep, RS_FOLDER_MODE, NULL));
        assert_int_equal(mode_of(path), 02770);
        assert_int_equal(mode_of(deep), 02750);
        assert_int_equal(rmdir(deep), 0);
        assert_int_equal(rmdir(path), 0);
        assert_ok(rs_file_replace(path, "x", 1, false, NULL));
        assert_int_equal(mode_of(path), 0640);
        assert_int_equal(chmod(path, 0666), 0);
        assert_ok(rs_file_set_mode(path, NULL));
        assert_int_equal(mode_of(path), 0640);
        assert_int_equal(unlink(path), 0);
        (void)umask(before);
    }
    assert_status(rs_file_set_mode(path, NULL), RS_IO);
}

static void who_else_can_change_a_folder_is_told(void **state)
{
    (void)state;
    char path[128];
    char others[RS_FILE_OTHERS_BYTES];
    (void)snprintf(path, sizeof path, "%s/open", folder);
    rs_file_others(path, others); /* it is not there */
    assert_string_equal(others, "");
    assert_false(rs_file_is_everybodys(path));
    assert_ok(rs_file_make_dirs(path, RS_FOLDER_MODE, NULL));
    rs_file_others(path, others);
    assert_string_equal(others, "");
    assert_int_equal(chmod(path, 0777), 0);
    rs_file_others(path, others);
    assert_string_equal(others, "everybody may write to it");
    assert_true(rs_file_is_everybodys(path));
    assert_int_equal(chmod(path, 0770), 0); /* a group is somebody's choice */
    rs_file_others(path, others);
    assert_string_equal(others, "");
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
        rs_file_others(path, others);
        assert_string_equal(others, "it belongs to user 12345");
    }
    assert_int_equal(rmdir(path), 0);
}

/* A process that is gone: a child that was waited for. */
static long dead_process(void)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return child;
}

static void only_what_the_dead_left_is_swept(void **state)
{
    (void)state;
    const long dead = dead_process(), own = getpid();
    const struct {
        const char *head, *tail;
        long process;
        bool is_old, stays;
    } files[] = {
        {".report.json.tmp-", "", dead, true, false},
        {"catalogue.tmp-", "-a1B2c3", dead, true, false},
        {".report.json.tmp-", "", own, true, true},  /* at work */
        {".young.json.tmp-", "", dead, false, true}, /* perhaps another node's */
        {"notes.tmp-of-", "", dead, true, true},     /* not ours */
        {"report-", ".json", dead, true, true},
        {".x.tmp-", "th", dead, true, true},
        {".x.tmp-99999999999", "", dead, true, true},
    };
    const struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char name[64], path[256];
        (void)snprintf(name, sizeof name, "%s%ld%s", files[i].head, files[i].process,
                       files[i].tail);
        (void)snprintf(path, sizeof path, "%s/%s", folder, name);
        assert_ok(rs_file_replace(path, "x", 1, false, NULL));
        if (files[i].is_old)
            assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    }
    rs_file_sweep(folder);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char name[64], path[256];
        (void)snprintf(name, sizeof name, "%s%ld%s", files[i].head, files[i].process,
                       files[i].tail);
        (void)snprintf(path, sizeof path, "%s/%s", folder, name);
        assert_int_equal(unlink(path) == 0, files[i].stays);
    }
    rs_file_sweep("/nonexistent");
}

/* Who has the folder's lock: of any process, of any age, in folders below too; never through a link, never a folder. */
static void what_died_half_written_goes_from_a_folder_of_ones_own(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool stays;
    } files[] = {
        {"request.json.tmp-1", false},        {"a/.report.json.tmp-1", false},
        {"a/b/rows.db.tmp-77-x1Y2z3", false}, {"a/b/rows.db", true},
        {"a/b/notes.tmp-of-yesterday", true},
    };
    char path[512];
    (void)snprintf(path, sizeof path, "%s/a/b/kept.tmp-5", folder);
    assert_ok(rs_file_make_dirs(path, 0750,
                                NULL)); /* a folder of such a name is nobody's half-written file */
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        assert_ok(rs_file_replace(path, "x", 1, false, NULL));
    }
    char outside[600], link_path[512];
    (void)snprintf(outside, sizeof outside, "%s/a", folder);
    (void)snprintf(link_path, sizeof link_path, "%s/own", folder);
    assert_ok(rs_file_make_dirs(link_path, 0750, NULL));
    (void)snprintf(link_path, sizeof link_path, "%s/own/link", folder);
    assert_int_equal(symlink(outside, link_path), 0);
    (void)snprintf(path, sizeof path, "%s/own", folder);
    rs_file_sweep_own(path);
    (void)snprintf(path, sizeof path, "%s/a/.report.json.tmp-1", folder);
    assert_int_equal(access(path, F_OK), 0);
    rs_file_sweep_own(folder);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        assert_int_equal(access(path, F_OK) == 0, files[i].stays);
    }
    (void)snprintf(path, sizeof path, "%s/a/b/kept.tmp-5", folder);
    assert_int_equal(access(path, F_OK), 0);
    assert_ok(rs_file_remove_tree(outside, NULL));
    rs_file_sweep_own("/nonexistent");
}

static void joined_paths_have_one_slash(void **state)
{
    (void)state;
    char *path = rs_file_join("a/", "b");
    assert_string_equal(path, "a/b");
    rs_mem_free(path);
    path = rs_file_join("a", "b");
    assert_string_equal(path, "a/b");
    rs_mem_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_gives_the_values_of_rfc_3720),
        cmocka_unit_test(crc32c_at_any_length_and_place_is_the_definition),
        cmocka_unit_test_setup_teardown(sha256_gives_the_values_of_fips_180, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_file_is_replaced_whole_and_leaves_nothing_beside_it,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_failed_replace_leaves_the_old_file_and_no_temporary,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(reading_says_what_is_missing_and_what_is_too_long,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(folders_are_made_with_their_parents, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(modes_do_not_depend_on_the_umask, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(who_else_can_change_a_folder_is_told, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(only_what_the_dead_left_is_swept, make_folder,
                                        remove_folder),
        cmocka_unit_test(what_died_half_written_goes_from_a_folder_of_ones_own),
        cmocka_unit_test(joined_paths_have_one_slash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
