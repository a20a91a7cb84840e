/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/rs_test.h"
/**/
#include "common/base/late.h"

#include <string.h>

static void functions_stand_in_the_order_of_their_names(void **state)
{
    (void)state;
    static const char *const names[] = {"cos", "fabs"};
    double (*functions[2])(double) = {NULL, NULL};
    struct rs_err err = {0};
    assert_ok(rs_late_open("libm.so.6", names, 2, functions, &err));
    assert_true(functions[0](0.0) > 0.9);
    assert_true(functions[1](0.0) < 0.1);
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    static const char *const names[] = {"cos", "no_such_function"};
    void *functions[2];
    struct rs_err err = {0};
    assert_status(rs_late_open("libnosuch.so.1", names, 2, functions, &err), RS_IO);
    assert_non_null(strstr(err.text, "libnosuch.so.1"));
    assert_status(rs_late_open("libm.so.6", names, 2, functions, &err), RS_IO);
    assert_string_equal(err.text, "libm.so.6 has no no_such_function");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_stand_in_the_order_of_their_names),
        cmocka_unit_test(what_is_missing_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
