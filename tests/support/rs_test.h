/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every unit test includes: cmocka, and assert_ok() for our statuses.
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
