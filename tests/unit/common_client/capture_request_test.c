/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a capture that is wanted becomes one request, or is refused before anybody is asked. */
#include "common/client/capture_request.h"

#include "tests/support/rs_test.h"

#include <string.h>

static struct rs_capture_question *make(const struct rs_capture_wanted *wanted)
{
    struct rs_capture_question *question = NULL;
    struct rs_buf notes = {0};
    assert_ok(rs_capture_question_new(wanted, &notes, &question, NULL));
    assert_string_equal(rs_buf_text(&notes), "");
    rs_buf_fini(&notes);
    return question;
}

/* `noted`: in the lines that are told; NULL: none is. */
static void assert_refused(const struct rs_capture_wanted *wanted, enum rs_status status,
                           const char *says, const char *noted)
{
    struct rs_capture_question *question = NULL;
    struct rs_buf notes = {0};
    struct rs_err err = {0};
    assert_status(rs_capture_question_new(wanted, &notes, &question, &err), status);
    assert_null(question);
    if (!strstr(err.text, says))
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    if (noted ? !strstr(rs_buf_text(&notes), noted) : notes.length > 0)
        fail_msg("told was: %s", rs_buf_text(&notes));
    rs_buf_fini(&notes);
}

static void steps_and_flags_are_in_the_message(void **state)
{
    (void)state;
    const char *sets[] = {"schedule.warmup=1"};
    const struct rs_capture_wanted wanted = {.run = "r1",
                                             .ranks = "0,3-7",
                                             .start_step = "500",
                                             .raw = "none",
                                             .sets = sets,
                                             .set_count = 1,
                                             .steps = 10,
                                             .with_stack = true,
                                             .is_dry = true};
    struct rs_capture_question *question = make(&wanted);
    const Rankscope__AskStart *start = rs_capture_question_message(question);
    assert_string_equal(start->request->job_id, "r1");
    assert_string_equal(start->request->ranks, "0,3-7");
    assert_int_equal(start->request->start_step, 500);
    assert_int_equal(start->request->schedule->active, 10);
    assert_int_equal(start->request->schedule->warmup->value, 1);
    assert_true(start->request->with_stack);
    assert_true(start->shapes_by_default);
    assert_string_equal(start->raw, "none");
    assert_true(start->dry_run);
    assert_int_equal(start->steps, 0); /* an older aggregator must find nothing to start */
    rs_capture_question_free(&question);
    assert_null(question);
}

static void a_length_of_time_is_its_own_limit(void **state)
{
    (void)state;
    const struct rs_capture_wanted wanted = {.duration_ns = 500 * (rs_dur)RS_NS_PER_MS,
                                             .must_shapes = true};
    struct rs_capture_question *question = make(&wanted);
    const Rankscope__AskStart *start = rs_capture_question_message(question);
    assert_int_equal(start->request->duration_ms, 500);
    assert_false(start->shapes_by_default);
    rs_capture_question_free(&question);
}

static void where_it_came_from_is_told(void **state)
{
    (void)state;
    const struct rs_capture_wanted wanted = {.steps = 4, .origin = "a probe"};
    struct rs_capture_question *question = make(&wanted);
    assert_string_equal(rs_capture_question_message(question)->origin_file, "a probe");
    rs_capture_question_free(&question);
}

static void what_contradicts_itself_is_refused(void **state)
{
    (void)state;
    const rs_dur day = 86400 * (rs_dur)RS_NS_PER_S;
    const struct {
        struct rs_capture_wanted wanted;
        const char *says;
    } cases[] = {
        {{.raw = "all"}, "how many steps to record"},
        {{.steps = 3, .duration_ns = RS_NS_PER_S}, "not both"},
        {{.duration_ns = 1000}, "shorter than a millisecond"},
        {{.duration_ns = 2 * day}, "at most a day"},
        {{.steps = 3, .timeout_ns = 2 * day}, "at most a day"},
        {{.steps = 3, .must_shapes = true, .has_no_shapes = true}, "exclude each other"},
        {{.steps = 3, .on_busy = "perhaps"}, "queue or refuse"},
        {{.steps = 3, .start_step = "soon"}, "neither a step"},
        {{.steps = 3, .start_step = "0"}, "neither a step"},
        {{.config = "a", .document = "b"}, "exclude each other"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(&cases[i].wanted, RS_INVALID, cases[i].says, NULL);
}

static void every_rule_that_is_broken_is_noted(void **state)
{
    (void)state;
    const char *sets[] = {"schedule.warmup=x", "nothing=1"};
    const struct rs_capture_wanted wanted = {.steps = 3, .sets = sets, .set_count = 2};
    const char *loose[] = {"warmup"};
    const struct rs_capture_wanted other = {.steps = 3, .sets = loose, .set_count = 1};
    assert_refused(&wanted, RS_INVALID, "2 errors in --set", "--set: error: ");
    assert_refused(&other, RS_INVALID, "expected MEMBER=VALUE", NULL);
}

static void a_file_that_is_not_there_is_refused(void **state)
{
    (void)state;
    const struct rs_capture_wanted config = {.config = "/no/such.json"};
    const struct rs_capture_wanted roles = {.steps = 3, .roles = "/no/such.json"};
    assert_refused(&config, RS_NOTFOUND, "/no/such.json", NULL);
    assert_refused(&roles, RS_NOTFOUND, "/no/such.json", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_and_flags_are_in_the_message),
        cmocka_unit_test(a_length_of_time_is_its_own_limit),
        cmocka_unit_test(where_it_came_from_is_told),
        cmocka_unit_test(what_contradicts_itself_is_refused),
        cmocka_unit_test(every_rule_that_is_broken_is_noted),
        cmocka_unit_test(a_file_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
