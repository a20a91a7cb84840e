/* SPDX-License-Identifier: Apache-2.0 */
/* When ranks that ask for work begin together: arcs of polls, round-ups, start times, and who strayed. */
#include "aggregator/capture/plan.h"

#include "tests/support/rs_test.h"

#include <string.h>

static const rs_ns ms = RS_NS_PER_MS, s = RS_NS_PER_S, now = 1000 * (rs_ns)RS_NS_PER_S;

enum { RANKS = 4 };

struct job {
    struct rs_coord_capture capture;
    struct rs_coord_rank ranks[RANKS];
};

/* Polls at now + at[i] ms, every 5 s. */
static void make(struct job *job, const int64_t *at, rs_dur step)
{
    *job = (struct job){
        .capture = {.capabilities = RS_CAP_STEP_ROUNDUP, .steps = 2, .rank_count = RANKS}};
    job->capture.ranks = job->ranks;
    for (uint32_t i = 0; i < RANKS; i++)
        job->ranks[i] = (struct rs_coord_rank){.rank = i,
                                               .adapter = {.capabilities = RS_CAP_STEP_ROUNDUP},
                                               .state = RS_PROGRESS_ARMED,
                                               .next_poll_ns = now + at[i] * ms,
                                               .poll_period_ns = 5 * s,
                                               .lead_ns = 1100 * ms,
                                               .step_duration_ns = step};
}

static void ranks_are_reported_in_the_shortest_arc(void **state)
{
    static const int64_t at[RANKS] = {4800, 4900, 1000, 1200};
    struct job job;
    (void)state;
    make(&job, at, 0);
    rs_coord_plan(&job.capture, now);
    /* 4.8, 4.9, 6.0, 6.2: the gap before 4.8 is the largest, a second before it is early enough */
    assert_int_equal(job.capture.deliver_from_ns, now + 3800 * ms);
    assert_int_equal(job.capture.profile.roundup, 500);
    assert_int_equal(job.capture.profile.timeout_ns, 600 * s);
    assert_int_equal(job.capture.start_time_ns, 0);
}

static void polls_that_cannot_be_made_count_from_the_next(void **state)
{
    static const int64_t at[RANKS] = {-4700, 290, 310, 5400};
    struct job job;
    (void)state;
    make(&job, at, 0);
    job.capture.steps = 0;
    job.capture.duration_ns = s;
    rs_coord_plan(&job.capture, now);
    /* 0.3, 5.29 (0.29 is too soon), 0.31, 5.4: the last can begin 1.1 s later; and two seconds of margin */
    assert_int_equal(job.capture.start_time_ns, now + (5400 + 1100 + 2000 + 1) * ms);
    assert_int_equal(job.capture.profile.roundup, 0);
    assert_int_equal(job.capture.deliver_from_ns, 0);
}

static void the_roundup_follows_the_step_time_and_the_spread(void **state)
{
    static const int64_t together[RANKS] = {1000, 1010, 1020, 1030};
    static const int64_t apart[RANKS] = {1000, 2000, 3000, 4000};
    static const int64_t near[RANKS] = {1000, 1050, 1100, 1150};
    struct job job;
    (void)state;
    make(&job, together, 40 * ms);
    rs_coord_plan(&job.capture, now);
    assert_int_equal(job.capture.profile.roundup, 200); /* 8 s / 40 ms */
    assert_int_equal(job.capture.step_ns, 40 * ms);
    /* a second before the first poll, the polls, and 200 steps */
    assert_int_equal(job.capture.begin_by_ns, now + 1000 * ms + 30 * ms + 8000 * ms);
    make(&job, together, s);
    rs_coord_plan(&job.capture, now);
    assert_int_equal(job.capture.profile.roundup, 8);
    /* slow steps: one of them is longer than the polls are apart; the deadline follows */
    make(&job, together, 20 * s);
    rs_coord_plan(&job.capture, now);
    assert_int_equal(job.capture.profile.roundup, 1);
    assert_int_equal(job.capture.profile.timeout_ns, (2 * 20 * 3 + 10 + 180) * s);
    make(&job, together, 190 * ms);
    rs_coord_plan(&job.capture, now);
    assert_int_equal(job.capture.profile.roundup, 43);
    make(&job, near, 40 * ms);
    rs_coord_plan(&job.capture, now);
    assert_int_equal(job.capture.profile.roundup, 200);
    make(&job, apart, 40 * ms);
    rs_coord_plan(&job.capture, now);
    assert_int_equal(job.capture.profile.roundup, 1500); /* 20 x 3 s / 40 ms */
    make(&job, apart, 40 * ms);
    job.ranks[2].step_duration_ns = 0; /* as fast as the others */
    rs_coord_plan(&job.capture, now);
    assert_int_equal(job.capture.profile.roundup, 1500);
    make(&job, apart, 40 * ms);
    job.capture.profile.roundup = 7;
    rs_coord_plan(&job.capture, now);
    assert_int_equal(job.capture.profile.roundup, 7);
}

static void ranks_that_do_not_take_part_change_nothing(void **state)
{
    static const int64_t at[RANKS] = {1000, 1010, 4900, 1030};
    struct job job;
    (void)state;
    make(&job, at, 0);
    job.ranks[2].state = RS_PROGRESS_REFUSED;
    job.ranks[3].adapter.capabilities = RS_CAP_KNOWS_STEP;
    rs_coord_plan(&job.capture, now);
    assert_int_equal(job.capture.deliver_from_ns, now);
    memset(&job, 0, sizeof job);
    rs_coord_plan(&job.capture, now);
    assert_int_equal(job.capture.start_time_ns, 0);
    assert_int_equal(job.capture.deliver_from_ns, 0);
}

static void who_recorded_another_time_is_named(void **state)
{
    static const int64_t at[RANKS] = {0, 0, 0, 0};
    struct job job;
    char text[200];
    (void)state;
    make(&job, at, 0);
    for (size_t i = 0; i < RANKS; i++) {
        job.ranks[i].state = RS_PROGRESS_DONE;
        job.ranks[i].window_start_ns = now + (rs_ns)i * ms;
        job.ranks[i].window_end_ns = now + 100 * ms;
    }
    assert_int_equal(rs_coord_strays(&job.capture, text, sizeof text), 0);
    assert_string_equal(text, "");
    job.ranks[1].window_start_ns = now - 12300 * ms;
    job.ranks[1].window_end_ns = now - 12200 * ms;
    assert_int_equal(rs_coord_strays(&job.capture, text, sizeof text), 1);
    assert_string_equal(text, "rank 1 recorded 12.3 s earlier");
    job.ranks[1].clock_offset_ns = 1; /* a nanosecond is no tenth of a second */
    assert_int_equal(rs_coord_strays(&job.capture, text, sizeof text), 1);
    assert_string_equal(text, "rank 1 recorded 12.3 s earlier");
    job.ranks[1].clock_offset_ns = -1;
    assert_int_equal(rs_coord_strays(&job.capture, text, sizeof text), 1);
    assert_string_equal(text, "rank 1 recorded 12.3 s earlier");
    job.ranks[1].clock_offset_ns = -12300 * ms; /* its host's clock is behind by just that */
    assert_int_equal(rs_coord_strays(&job.capture, text, sizeof text), 0);
    job.ranks[1].clock_offset_ns = INT64_MIN; /* nonsense: it has no window */
    assert_int_equal(rs_coord_strays(&job.capture, text, sizeof text), 0);
    job.ranks[1].clock_offset_ns = 0;
    job.ranks[1].state = RS_PROGRESS_LOST; /* it is named for that already */
    assert_int_equal(rs_coord_strays(&job.capture, text, sizeof text), 0);
    job.ranks[1].state = RS_PROGRESS_SENDING; /* its summary may not be whole yet */
    assert_int_equal(rs_coord_strays(&job.capture, text, sizeof text), 0);
    job.ranks[1].is_summarised = true; /* raw data goes on: findings are made of what is there */
    assert_int_equal(rs_coord_strays(&job.capture, text, sizeof text), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_reported_in_the_shortest_arc),
        cmocka_unit_test(polls_that_cannot_be_made_count_from_the_next),
        cmocka_unit_test(the_roundup_follows_the_step_time_and_the_spread),
        cmocka_unit_test(ranks_that_do_not_take_part_change_nothing),
        cmocka_unit_test(who_recorded_another_time_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
