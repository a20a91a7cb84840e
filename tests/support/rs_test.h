/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every unit test includes: cmocka, and assert_ok() for our statuses.
 *
 * A case that calls skip() has not run, and a program with such a case does not count as passed: it ends with RS_TEST_SKIP
 * (unless another case failed), which ctest shows as "Skipped" and tests/lint/skips.py holds against the list of skips that
 * are allowed. cmocka alone would print SKIPPED and exit 0.
 */
#ifndef RS_TESTS_SUPPORT_RS_TEST_H
#define RS_TESTS_SUPPORT_RS_TEST_H

/* cmocka wants these four, in this order, before itself. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

#include "common/base/status.h"

/* Exit code by which a test program says "skipped"; print why first. */
enum { RS_TEST_SKIP = 77 };

static int rs_test_skipped; /* cases of this program that did not run */

/* A program's exit code from what cmocka says of its group: the number of failures, < 0 when the group's own setup failed. */
static inline int rs_test_exit_code(int failed)
{
    if (failed != 0)
        return 1; /* never the number: 77 failures are no skip */
    if (rs_test_skipped > 0)
        print_message("%d case(s) did not run: this is no pass\n", rs_test_skipped);
    return rs_test_skipped > 0 ? RS_TEST_SKIP : 0;
}

#undef skip
#define skip() (rs_test_skipped++, _skip(__FILE__, __LINE__))
#undef cmocka_run_group_tests_name
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
    rs_test_exit_code(                                                                             \
        _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown))
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cmocka_run_group_tests_name(#tests, tests, setup, teardown)

#define assert_status(expression, expected)                                                        \
    do {                                                                                           \
        const enum rs_status status_ = (expression);                                               \
        if (status_ != (expected)) {                                                               \
            print_error("%s is %s, expected %s\n", #expression, rs_status_name(status_),           \
                        rs_status_name(expected));                                                 \
            fail();                                                                                \
        }                                                                                          \
    } while (0)
#define assert_ok(expression) assert_status(expression, RS_OK)

#endif
