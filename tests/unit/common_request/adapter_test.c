/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters: what ours can do, and texts that name several. */
#include "common/request/adapter.h"

#include "common/request/request.h"
#include "tests/support/rs_test.h"

#include <string.h>

static void ours_are_described(void **state)
{
    (void)state;
    struct rs_adapter adapter;
    for (uint32_t number = 0; number < RS_ADAPTER_SHIPPED; number++) {
        assert_true(rs_adapter_known(number, &adapter));
        assert_int_equal(adapter.number, number);
        assert_true(rs_adapter_is_name(adapter.name));
        assert_string_equal(adapter.name, rs_adapter_name(number));
        assert_true(*adapter.title);
        /* a start is given in one way at least */
        assert_true(adapter.capabilities & (RS_CAP_KNOWS_STEP | RS_CAP_STEP_ROUNDUP));
        assert_true(rs_adapter_capabilities_of(adapter.name) == adapter.capabilities);
    }
    assert_false(rs_adapter_known(99, &adapter));
    assert_int_equal(adapter.capabilities, 0);
    assert_string_equal(rs_adapter_name(99), "unknown");
}

static size_t member_of(const char *wanted)
{
    char name[RS_REQUEST_MEMBER_BYTES];
    size_t at = 0;
    while (rs_request_member(at, name) && strcmp(name, wanted) != 0)
        at++;
    return at;
}

static void members_are_announced_by_name(void **state)
{
    (void)state;
    struct rs_adapter kineto, said = {0};
    char name[RS_REQUEST_MEMBER_BYTES];
    assert_true(rs_adapter_known(RS_PROFILER_KINETO, &kineto));
    assert_true(rs_adapter_honours(&kineto, member_of("record_shapes")));
    assert_false(rs_adapter_honours(&kineto, member_of("experimental.l2_cache")));
    assert_false(rs_adapter_honours(&kineto, SIZE_MAX));
    for (size_t i = 0; rs_request_member(i, name); i++)
        if (rs_adapter_honours(&kineto, i))
            rs_adapter_add_honoured(&said, name);
    rs_adapter_add_honoured(&said, "of_a_later_version");
    assert_memory_equal(said.honours, kineto.honours, sizeof said.honours);
}

static void several_are_named_in_the_order_of_their_numbers(void **state)
{
    (void)state;
    char names[48] = "";
    rs_adapter_add_name("mindspore", names, sizeof names);
    rs_adapter_add_name("replay", names, sizeof names);
    rs_adapter_add_name("native", names, sizeof names);
    rs_adapter_add_name("kineto", names, sizeof names);
    rs_adapter_add_name("native", names, sizeof names);
    rs_adapter_add_name("", names, sizeof names);
    assert_string_equal(names, "native+kineto+mindspore+replay");
    assert_true(rs_adapter_capabilities_of(names) & RS_CAP_STEP_ROUNDUP);
    assert_int_equal(rs_adapter_capabilities_of("files"), 0);
    assert_int_equal(rs_adapter_capabilities_of("nativ+kinetos+"), 0);
    char small[12] = "";
    rs_adapter_add_name("native", small, sizeof small);
    rs_adapter_add_name("kineto", small, sizeof small); /* has no room */
    assert_string_equal(small, "native");
}

static void a_name_is_a_word(void **state)
{
    (void)state;
    assert_true(rs_adapter_is_name("torch_npu-2"));
    assert_false(rs_adapter_is_name(""));
    assert_false(rs_adapter_is_name("a+b"));
    assert_false(rs_adapter_is_name("A"));
    assert_false(rs_adapter_is_name("an_adapter_with_a_long_name"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ours_are_described),
        cmocka_unit_test(members_are_announced_by_name),
        cmocka_unit_test(several_are_named_in_the_order_of_their_numbers),
        cmocka_unit_test(a_name_is_a_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
