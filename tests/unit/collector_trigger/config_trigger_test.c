/* SPDX-License-Identifier: Apache-2.0 */
/* What the small interface of the file-told triggers lets through to a kind. */
#include "collector/trigger/config_trigger.h"

#include "tests/support/rs_test.h"

static enum rs_status take_all(struct rs_config_trigger *trigger, const struct rs_config_arm *arm,
                               struct rs_err *err)
{
    (void)trigger;
    (void)arm;
    (void)err;
    return RS_OK;
}

static const struct rs_config_trigger_ops ops = {.name = "test", .arm = take_all};

/* Every name that a capture may have (common/wire: rs_wire_is_capture_id()), and none that leaves its folder. */
static void a_captures_name_is_one_here_too(void **state)
{
    (void)state;
    static const char *const good[] = {"20260102-030405-a1b2c3", "exp_1.v2", "a", "-"};
    static const char *const bad[] = {"", "..", ".", ".x", "../x", "a/b", "a b", "a\nb"};
    struct rs_config_trigger trigger = {.ops = &ops};
    const struct rs_config_target target = {1, 1};
    struct rs_config_arm arm = {.start_step = 3, .targets = &target, .target_count = 1};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        arm.capture_id = good[i];
        assert_ok(rs_config_trigger_arm(&trigger, &arm, NULL));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        arm.capture_id = bad[i];
        assert_status(rs_config_trigger_arm(&trigger, &arm, NULL), RS_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_captures_name_is_one_here_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
