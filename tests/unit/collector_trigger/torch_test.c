/* SPDX-License-Identifier: Apache-2.0 */
/* Which PyTorch a process runs: from its memory map, and a folder of the right name beside the library. */
#include "collector/trigger/torch.h"

#include "tests/support/rs_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void libraries_are_found_in_a_map(void **state)
{
    struct rs_torch torch = {0};
    (void)state;
    assert_false(rs_torch_from_maps("", &torch));
    assert_false(rs_torch_from_maps("7f00-7f01 r-xp 00000000 08:01 12  /usr/lib/libtorchive.so\n"
                                    "7f01-7f02 rw-p 00000000 00:00 0\n"
                                    "7f02-7f03 r--p 00000000 08:01 13  /data/libtorch\n",
                                    &torch));
    assert_true(
        rs_torch_from_maps("7f00-7f01 r-xp 00000000 08:01 12  /usr/lib/libc.so.6\n"
                           "7f00-7f01 r-xp 00000000 08:01 12  /usr/lib/libcuda.so.550\n"
                           "7f01-7f02 r-xp 00000000 08:01 14  /v/a b/torch/lib/libtorch_cpu.so",
                           &torch));
    assert_string_equal(torch.library, "/v/a b/torch/lib/libtorch_cpu.so");
    assert_true(torch.has_cuda);
}

static void versions_are_decided_by_the_table(void **state)
{
    static const struct {
        const char *version;
        bool has_cuda, can, has_sentence;
    } cases[] = {
        {"1.13.1", true, false, true},     {"2.0.1", false, false, true},
        {"2.1.0+cu118", true, true, true}, {"2.4.0", false, true, true},
        {"2.8.0", false, true, true},      {"2.10.0", false, true, false},
        {"2.15.0", true, true, false},     {"3.0", false, true, false},
        {"nightly", false, true, true},    {"2.x", false, true, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rs_torch torch = {.has_cuda = cases[i].has_cuda};
        const char *sentence = NULL;
        rs_torch_set_version(&torch, cases[i].version);
        assert_int_equal(rs_torch_can_attach(&torch, &sentence), cases[i].can);
        assert_int_equal(sentence != NULL, cases[i].has_sentence);
    }
}

static void our_own_map_with_a_faked_installation_tells_its_version(void **state)
{
    char root[] = "/tmp/rs-torch-test-XXXXXX";
    char path[256];
    struct rs_torch torch;
    (void)state;
    assert_int_equal(rs_torch_find(getpid(), &torch, NULL), RS_NOTFOUND);
    assert_non_null(mkdtemp(root));
    static const char *const folders[] = {"torch", "torch/lib", "torch-2.1.0+cpu.dist-info"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    (void)snprintf(path, sizeof path, "%s/torch/lib/libtorch_cpu.so", root);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_ok(rs_torch_find(getpid(), &torch, NULL));
    assert_string_equal(torch.library, path);
    assert_string_equal(torch.version, "2.1.0+cpu");
    assert_int_equal(torch.major, 2);
    assert_int_equal(torch.minor, 1);
    (void)munmap(map, 4096);
    (void)close(fd);
    (void)unlink(path);
    for (size_t i = 3; i-- > 0;) {
        (void)snprintf(path, sizeof path, "%s/%s", root, i == 1 ? "torch/lib" : folders[i]);
        (void)rmdir(path);
    }
    assert_int_equal(rmdir(root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libraries_are_found_in_a_map),
        cmocka_unit_test(versions_are_decided_by_the_table),
        cmocka_unit_test(our_own_map_with_a_faked_installation_tells_its_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
