/* SPDX-License-Identifier: Apache-2.0 */
/* The form of what comes in some steps: a beat, a beginning; steps of which nothing is known contradict neither. */
#include "aggregator/analysis/diagnose/effects_priv.h"
#include "tests/support/rs_test.h"

#include <math.h>
#include <string.h>

enum { STEPS_MOST = 12 };

/* One letter per step: x hit, - healthy, ? unknown. */
static struct diag_element form_of(const char *steps)
{
    double z[STEPS_MOST];
    size_t count = 0;
    struct diag_element element = {0};
    for (; steps[count] != 0; count++) {
        z[count] = steps[count] == 'x' ? 1 : steps[count] == '-' ? 0 : (double)NAN;
    }
    effect_find_period(z, count, 0.5, &element);
    return element;
}

static void expect(const char *steps, size_t period, size_t phase, bool began)
{
    const struct diag_element element = form_of(steps);
    assert_int_equal(element.period, period);
    assert_int_equal(element.phase, phase);
    assert_int_equal(element.began, began);
}

static void a_beat_is_every_kth_step(void **state)
{
    (void)state;
    expect("x--x--x--x--", 3, 0, false);
    expect("-x--x--x--x-", 3, 1, false);
    expect("-x-x-x", 2, 1, false);
    expect("x--x---x--x-", 0, 0, false);
    expect("---x--x--x--", 0, 0, false); /* step 0 should have been hit */
}

static void unknown_steps_contradict_no_beat(void **state)
{
    (void)state;
    expect("?--x--x--x--", 3, 0, false);
    expect("?x--x--x--x-", 3, 1, false);
    expect("x--x--?--x--", 3, 0, false);
    assert_int_equal(form_of("?--x--x--x--").first, 3);
}

static void what_goes_on_to_the_end_began(void **state)
{
    (void)state;
    expect("----xxxx", 0, 0, true);
    expect("?---xxxx", 0, 0, true);
    expect("?xxx", 1, 0, false); /* nobody saw it healthy */
    expect("----xxx-", 0, 0, false);
}

static void a_step_of_which_nothing_is_known_hides_no_pause(void **state)
{
    (void)state;
    const double z[] = {(double)NAN, 0.1, -0.1, 9, 0, 0.1, 10};
    const uint8_t is_hit[] = {0, 0, 0, 1, 0, 0, 1};
    assert_true(effect_is_intermittent(z, is_hit, 7));
    const double all[] = {(double)NAN, 8, 9, 9, 8, 9, 10};
    assert_false(effect_is_intermittent(all, is_hit, 7));
}

/* One row per rank, one mark per step, as above. */
static double chance_of(const char *const ranks[4])
{
    struct diag_panel panel = {.n = 4, .steps = strlen(ranks[0]), .is_additive = true};
    struct diag_panel *panels[4] = {&panel, &panel, &panel, &panel};
    double z[4 * STEPS_MOST] = {0};
    uint8_t is_hit[4 * STEPS_MOST] = {0};
    for (size_t i = 0; i < panel.n * panel.steps; i++) {
        const char mark = ranks[i / panel.steps][i % panel.steps];
        is_hit[i] = mark == 'x';
        z[i] = mark == '?' ? (double)NAN : is_hit[i];
    }
    const struct hits hits = {.n = panel.n, .panel = panels, .z = z, .is_hit = is_hit};
    return effect_chance_of_all(&hits, 1, panel.steps);
}

static void pauses_in_all_steps_may_be_chance_where_many_pause(void **state)
{
    (void)state;
    /* four ranks, a third of the other cells: 4 / 27 */
    const double many = chance_of((const char *const[]){"x--", "xxx", "-x-", "--x"});
    assert_true(fabs(many - 4.0 / 27) < 1e-9);
    /* beside others that always pause, too, nobody pauses by chance */
    assert_true(chance_of((const char *const[]){"xxx", "xxx", "---", "---"}) <= 0);
    /* who does not always pause is judged by how often */
    assert_true(chance_of((const char *const[]){"x--", "xx-", "-x-", "--x"}) <= 0);
    const double unknown = chance_of((const char *const[]){"x--", "?xx", "-x-", "--x"});
    assert_true(fabs(unknown - 4.0 / 9) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_beat_is_every_kth_step),
        cmocka_unit_test(unknown_steps_contradict_no_beat),
        cmocka_unit_test(what_goes_on_to_the_end_began),
        cmocka_unit_test(pauses_in_all_steps_may_be_chance_where_many_pause),
        cmocka_unit_test(a_step_of_which_nothing_is_known_hides_no_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
