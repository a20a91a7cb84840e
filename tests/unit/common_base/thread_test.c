/* SPDX-License-Identifier: Apache-2.0 */
#undef NDEBUG /* the checks of debug builds are what is looked at */
#include "common/base/thread.h"

#include "tests/support/rs_test.h"

#include <pthread.h>
#include <setjmp.h>

static jmp_buf back;

static _Noreturn void jump_back(const char *expression, const char *file, int line,
                                const char *function)
{
    (void)expression;
    (void)file;
    (void)line;
    (void)function;
    longjmp(back, 1);
}

static void ingests_only(void)
{
    RS_ON_THREAD(INGEST);
}

static void never_on_links(void)
{
    RS_OFF_THREAD(LINKS);
}

static bool is_caught(void (*call)(void))
{
    volatile bool caught = true;
    rs_check_on_fail((rs_check_fail_fn *)jump_back);
    if (!setjmp(back)) {
        call();
        caught = false;
    }
    rs_check_on_fail(NULL);
    return caught;
}

static void *other(void *caught)
{
    rs_thread_is(RS_THREAD_LINKS);
    ((bool *)caught)[0] = is_caught(ingests_only);
    ((bool *)caught)[1] = is_caught(never_on_links);
    return NULL;
}

static void a_thread_that_another_function_belongs_to_is_caught(void **state)
{
    bool caught[2] = {false, false};
    pthread_t thread;
    (void)state;
    rs_thread_is(RS_THREAD_INGEST);
    assert_false(is_caught(ingests_only));
    assert_false(is_caught(never_on_links));
    assert_int_equal(pthread_create(&thread, NULL, other, caught), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(caught[0]);
    assert_true(caught[1]);
    assert_int_equal(rs_thread_here(), RS_THREAD_INGEST); /* the other's word is its own */
    rs_thread_is(RS_THREAD_ANY);
}

static void who_said_nothing_may_call_everything(void **state)
{
    (void)state;
    rs_thread_is(RS_THREAD_ANY);
    assert_false(is_caught(ingests_only));
    assert_false(is_caught(never_on_links));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_another_function_belongs_to_is_caught),
        cmocka_unit_test(who_said_nothing_may_call_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
