/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in which a profiler is switched on or off are said to be inflated and stay out of means. */
#include "aggregator/analysis/analysis.h"
#include "tests/support/make_summary.h"
#include "tests/support/rs_test.h"

#include <string.h>

static const rs_ns MS = 1000000;

/* Steps from 10 on: the first and the last take 30 ms, those between 10 ms. */
static void add_steps(struct rs_summary *summary, int64_t count)
{
    rs_ns at = 0;
    for (int64_t i = 0; i < count; i++) {
        const rs_dur length = i == 0 || i == count - 1 ? 30 * MS : 10 * MS;
        (void)make_step(summary, 10 + i, at, at + length);
        at += length;
    }
}

struct two {
    struct rs_summary ranks[2];
    struct rs_analysis *analysis;
};

static void join_two(struct two *two, int64_t steps_0, int64_t steps_1, bool is_triggered)
{
    const struct rs_analysis_options options = {.is_triggered = is_triggered};
    const struct rs_summary *lent[] = {&two->ranks[0], &two->ranks[1]};
    for (int32_t rank = 0; rank < 2; rank++) {
        make_summary_init(&two->ranks[rank], rank, "n");
        add_steps(&two->ranks[rank], rank == 0 ? steps_0 : steps_1);
    }
    assert_ok(rs_analysis_new(lent, 2, &options, &two->analysis, NULL));
}

static void end(struct two *two)
{
    rs_analysis_free(&two->analysis);
    make_summary_fini(&two->ranks[0]);
    make_summary_fini(&two->ranks[1]);
}

static bool is_said(const struct rs_analysis *analysis, const char *words)
{
    for (size_t i = 0; i < analysis->note_count; i++)
        if (strstr(analysis->notes[i], words))
            return true;
    return false;
}

static void edges_of_a_triggered_capture_are_out_of_the_means(void **state)
{
    (void)state;
    struct two two;
    join_two(&two, 5, 5, true);
    assert_int_equal(two.analysis->mean_step_ns, 10 * MS);
    assert_int_equal(two.analysis->complete_steps, 5); /* they are complete, and in every table */
    assert_true(rs_analysis_is_inflated(two.analysis, 0, 0));
    assert_true(rs_analysis_is_inflated(two.analysis, 1, 4));
    assert_false(rs_analysis_is_inflated(two.analysis, 1, 2));
    assert_false(rs_analysis_is_in_means(two.analysis, 0, 0));
    assert_true(rs_analysis_is_in_means(two.analysis, 0, 1));
    assert_true(is_said(two.analysis, "they are not in the means"));
    end(&two);
}

static void a_rank_with_nothing_else_keeps_them_and_that_is_said(void **state)
{
    (void)state;
    struct two two;
    join_two(&two, 2, 3, true);
    assert_int_equal(two.analysis->mean_step_ns, (30 + 30 + 10) * MS / 3);
    assert_true(rs_analysis_is_in_means(two.analysis, 0, 0));
    assert_false(rs_analysis_is_in_means(two.analysis, 1, 0));
    assert_true(is_said(two.analysis, "1 of 2 ranks have no other step"));
    end(&two);
}

static void other_captures_have_no_edges(void **state)
{
    (void)state;
    struct two two;
    join_two(&two, 5, 5, false);
    assert_int_equal(two.analysis->mean_step_ns, (30 + 10 + 10 + 10 + 30) * MS / 5);
    assert_false(rs_analysis_is_inflated(two.analysis, 0, 0));
    assert_false(is_said(two.analysis, "inflated"));
    end(&two);
}

/* Another multiple of the round-up came for one rank: nothing of it is held against others, and the reader hears why. */
static void who_recorded_at_another_time_is_named(void **state)
{
    (void)state;
    struct rs_summary ranks[3];
    const struct rs_summary *lent[3];
    static const rs_dur later[] = {0, 8700, 3};
    static const rs_ns far = (INT64_C(1) << 62) - 1;
    for (int32_t rank = 0; rank < 3; rank++) {
        make_summary_init(&ranks[rank], rank, "n");
        for (int64_t i = 0; i < 3; i++)
            (void)make_step(&ranks[rank], i, (later[rank] + 10 * i) * MS,
                            (later[rank] + 10 * i + 10) * MS);
        lent[rank] = &ranks[rank];
    }
    const struct rs_analysis_options options = {0};
    struct rs_analysis *analysis;
    assert_ok(rs_analysis_new(lent, 3, &options, &analysis, NULL));
    assert_true(is_said(analysis, "Not recorded at the time of most ranks: rank 1 (8.7 s later)."));
    rs_analysis_free(&analysis);
    assert_ok(rs_analysis_new(lent, 2, &options, &analysis, NULL)); /* of two, none is most */
    assert_true(is_said(analysis, "Not recorded at the time of rank 0: rank 1 (8.7 s later)."));
    rs_analysis_free(&analysis);
    for (size_t i = 0; i < 3; i++) { /* as far away as a hostile summary may put it */
        ranks[1].steps[i].window_start = far - 10 * MS;
        ranks[1].steps[i].window_end = far;
    }
    ranks[0].steps[0].window_start = -far;
    assert_ok(rs_analysis_new(lent, 3, &options, &analysis, NULL));
    assert_true(is_said(analysis, "Not recorded at the time of most ranks: rank 1 ("));
    rs_analysis_free(&analysis);
    assert_ok(
        rs_analysis_new(&lent[1], 1, &options, &analysis, NULL)); /* nobody to be apart from */
    assert_false(is_said(analysis, "Not recorded at the time"));
    rs_analysis_free(&analysis);
    for (int32_t rank = 0; rank < 3; rank++)
        make_summary_fini(&ranks[rank]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_recorded_at_another_time_is_named),
        cmocka_unit_test(edges_of_a_triggered_capture_are_out_of_the_means),
        cmocka_unit_test(a_rank_with_nothing_else_keeps_them_and_that_is_said),
        cmocka_unit_test(other_captures_have_no_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
