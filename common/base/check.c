/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/check.h"

#include <stdio.h>
#include <stdlib.h>

static rs_check_fail_fn *fail_hook;

void rs_check_on_fail(rs_check_fail_fn *fail)
{
    fail_hook = fail;
}

_Noreturn void rs_check_failed(const char *expression, const char *file, int line,
                               const char *function)
{
    if (fail_hook)
        fail_hook(expression, file, line, function);
    (void)fprintf(stderr, "rankscope: bug: %s is false at %s:%d in %s\n", expression, file, line,
                  function);
    abort();
}
