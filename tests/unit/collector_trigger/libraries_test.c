/* SPDX-License-Identifier: Apache-2.0 */
/* What a process's libraries say of what it can be asked for: from maps, from banners, and of this process itself. */
#include "collector/trigger/libraries.h"

#include "common/request/request.h"
#include "tests/support/rs_test.h"

#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANY = RS_ACTIVITY_CPU | RS_ACTIVITY_NPU | RS_ACTIVITY_MTIA };

#define ROW "7f00-7f01 r-xp 00000000 08:01 12  "

static void a_map_says_what_pytorch_was_built_for(void **state)
{
    static const struct {
        const char *maps, *libc;
        uint32_t activities;
    } cases[] = {
        {"", "", 0},
        {"7f01-7f02 rw-p 00000000 00:00 0\n", "", 0},
        {ROW "/lib/libc.so.6\n" ROW "/v/a b/torch/lib/libtorch_cpu.so", "/lib/libc.so.6", ANY},
        {ROW "/t/libtorch_cpu.so\n" ROW "/t/libtorch_cuda.so\n" ROW "/l/libc-2.31.so\n",
         "/l/libc-2.31.so", ANY | RS_ACTIVITY_CUDA},
        {ROW "/t/libtorch_cuda_cu.so\n" ROW "/t/libtorch_cpu.so\n", "", ANY | RS_ACTIVITY_CUDA},
        {ROW "/t/libtorch_hip.so\n" ROW "/t/libtorch_cpu.so\n", "", ANY | RS_ACTIVITY_CUDA},
        {ROW "/t/libcuda.so.1\n" ROW "/t/libtorch_cpu.so\n", "", ANY | RS_ACTIVITY_CUDA},
        {ROW "/t/libtorch_xpu.so\n" ROW "/t/libtorch_cpu.so\n", "", ANY | RS_ACTIVITY_XPU},
        /* one library that may hold everything, and names that only look alike */
        {ROW "/t/libtorch.so\n", "", 0},
        {ROW "/t/mylibtorch_cpu.so\n" ROW "/t/libc.so.6.bak\n", "", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char libc[RS_LIBRARIES_PATH_BYTES];
        assert_int_equal(rs_libraries_from_maps(cases[i].maps, libc), cases[i].activities);
        assert_string_equal(libc, cases[i].libc);
    }
}

static uint32_t banner(const char *bytes)
{
    return rs_libraries_glibc(bytes, strlen(bytes));
}

static void a_c_library_says_its_version(void **state)
{
    (void)state;
    assert_int_equal(banner("xxGNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\n"),
                     2 << 16 | 36);
    assert_int_equal(banner("GNU C Library; GNU C Library 1 release version 2.5"), 2 << 16 | 5);
    assert_int_equal(banner("GNU C Library stable release version "), 0);
    assert_int_equal(banner("GNU C Library stable release version x"), 0);
    assert_int_equal(banner("release version 2.36"), 0);
    assert_int_equal(banner("GNU C Library"), 0);
    assert_int_equal(rs_libraries_glibc("", 0), 0);
}

static void a_process_is_looked_at_once_and_another_in_its_place_again(void **state)
{
    struct rs_library_cache *cache = rs_library_cache_new();
    unsigned major = 0, minor = 0;
    (void)state;
    assert_non_null(cache);
    assert_int_equal(sscanf(gnu_get_libc_version(), "%u.%u", &major, &minor), 2);
    const pid_t child = fork();
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    assert_int_equal(rs_libraries_of(cache, child, "n:1:1", 1).glibc, major << 16 | minor);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(rs_libraries_of(cache, child, "n:1:1", 2).glibc, major << 16 | minor);
    assert_int_equal(rs_libraries_of(cache, child, "n:1:2", 3).glibc, 0);
    assert_int_equal(rs_libraries_of(cache, 0, "n:0:1", 3).glibc, 0);
    rs_library_cache_free(&cache);
    assert_null(cache);
}

static void the_cache_forgets_who_is_not_asked_for_any_more(void **state)
{
    struct rs_library_cache *cache = rs_library_cache_new();
    const uint32_t own = rs_libraries_of(cache, getpid(), "own", 1).glibc;
    (void)state;
    assert_true(own >> 16 == 2);   /* glibc has been 2 since 1997 */
    for (int i = 0; i < 5000; i++) /* numbers that no process has */
        assert_int_equal(
            rs_libraries_of(cache, 5000000 + i, "gone", 2 + i * (rs_ns)RS_NS_PER_S).glibc, 0);
    assert_int_equal(rs_libraries_of(cache, getpid(), "own", 6000 * (rs_ns)RS_NS_PER_S).glibc, own);
    rs_library_cache_free(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_says_what_pytorch_was_built_for),
        cmocka_unit_test(a_c_library_says_its_version),
        cmocka_unit_test(a_process_is_looked_at_once_and_another_in_its_place_again),
        cmocka_unit_test(the_cache_forgets_who_is_not_asked_for_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
