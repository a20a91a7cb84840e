/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a rank's own work take longer, compared with the others'? And who is captured then.
 */
#include "common/client/run_watch.h"
#include "tests/support/rs_test.h"

#include <string.h>

enum { RANKS = 8, SEEDS = 40, STEPS_A_LOOK = 5 };

/* A job in lock step: ranks 0-3 are stage 0, with twice the work of stage 1. */
struct job {
    struct rs_run_watch watch;
    int64_t step;
    rs_ns now;
    rs_dur own[RANKS], delay;
    double factor[RANKS]; /* of the own work */
    double busy;          /* of all of it: a machine that others use, too */
    double delayed;       /* part of the own work that a rank waits for a core beside it */
    uint64_t seed;
    size_t alarms, ranks; /* ranks that tell */
    bool is_recording, has_roles;
    struct rs_run_alarm alarm;
};

static double unit_of(struct job *job)
{
    job->seed = job->seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(job->seed >> 33) / (double)(1U << 31);
}

static struct job job_of(uint64_t seed)
{
    struct job job = {.seed = seed * 77 + 5,
                      .busy = 1,
                      .ranks = RANKS,
                      .now = 1000 * (rs_ns)RS_NS_PER_S,
                      .has_roles = true};
    for (size_t i = 0; i < RANKS; i++)
        job.factor[i] = 1;
    return job;
}

static void look(struct job *job, rs_dur step_ns)
{
    struct rs_run_alarm alarm;
    for (uint32_t i = 0; i < job->ranks; i++) {
        const struct rs_run_member member = {.rank = i,
                                             .step = job->step,
                                             .at = job->now,
                                             .step_ns = step_ns,
                                             .own_ns = job->own[i],
                                             .delay_ns = job->delay,
                                             .host = i < 4 ? "a" : "b",
                                             .pp = job->has_roles ? (int32_t)i / 4 : -1,
                                             .tp = -1};
        assert_int_equal(rs_run_watch_add(&job->watch, &member), RS_OK);
    }
    if (rs_run_watch_see(&job->watch, job->is_recording, 1.15, &alarm)) {
        job->alarms++;
        job->alarm = alarm;
    }
}

/* `noise`: part of each length, evenly spread. */
static void make_steps(struct job *job, size_t count, double noise)
{
    for (size_t n = 0; n < count; n++) {
        double longest = 0;
        for (size_t i = 0; i < RANKS; i++) {
            const double own = (i < 4 ? 100e6 : 50e6) * job->factor[i] * job->busy *
                               (1 + job->delayed) * (1 + noise * (2 * unit_of(job) - 1));
            job->own[i] += (rs_dur)own;
            longest = own > longest ? own : longest;
        }
        job->delay += (rs_dur)(longest * job->delayed / (1 + job->delayed));
        job->now += (rs_ns)longest;
        job->step++;
        if (job->step % STEPS_A_LOOK == 0)
            look(job, (rs_dur)longest);
    }
}

static void fini(struct job *job)
{
    rs_run_watch_fini(&job->watch);
}

static void a_rank_that_turns_slow_is_suspected_within_twenty_steps(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct job job = job_of(seed);
        make_steps(&job, 203, 0.2);
        assert_int_equal(job.alarms, 0);
        job.factor[6] = 3; /* of stage 1, where others have more work */
        const int64_t changed = job.step;
        while (!job.alarms && job.step < changed + 60)
            make_steps(&job, 1, 0.2);
        assert_int_equal(job.alarms, 1);
        assert_true(job.step - changed <= 20);
        assert_int_equal(job.alarm.ranks.count, 1);
        const struct rs_rank_suspect *suspect = &job.alarm.ranks.suspects[0];
        assert_int_equal(suspect->rank, 6);
        assert_true(suspect->first_step >= changed - STEPS_A_LOOK &&
                    suspect->first_step <= changed + STEPS_A_LOOK);
        assert_true(suspect->before_ns > 40 * RS_NS_PER_MS &&
                    suspect->before_ns < 60 * RS_NS_PER_MS);
        assert_string_equal(job.alarm.chosen, "5,6");
        make_steps(&job, 600, 0.2); /* usual now */
        job.factor[6] = 1;
        make_steps(&job, 300, 0.2); /* as before */
        assert_int_equal(job.alarms, 1);
        fini(&job);
    }
}

static void ranks_that_vary_are_no_alarm(void **state)
{
    (void)state;
    size_t alarms = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct job job = job_of(seed);
        make_steps(&job, 9000,
                   0.5); /* a quarter of an hour of eight ranks, whose work varies by a half */
        alarms += job.alarms;
        fini(&job);
    }
    assert_int_equal(alarms, 0);
}

/* All of them take longer, and so do steps: no rank is suspected, the run is told. */
static void more_work_for_all_is_the_runs(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct job job = job_of(seed);
        make_steps(&job, 300, 0.1);
        job.busy = 1.6;
        make_steps(&job, 100, 0.1);
        assert_int_equal(job.alarms, 1);
        assert_int_equal(job.alarm.ranks.count, 0);
        assert_string_equal(job.alarm.chosen, "");
        fini(&job);
    }
}

/* The same lengths, but ranks were ready and had no core. */
static void a_machine_that_gets_busy_is_no_alarm(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct job job = job_of(seed);
        make_steps(&job, 300, 0.1);
        for (int i = 0; i < 5; i++) {
            job.delayed = 0.6;
            make_steps(&job, 100, 0.1);
            job.delayed = 0;
            make_steps(&job, 100, 0.1);
        }
        assert_int_equal(job.alarms, 0);
        fini(&job);
    }
}

static void one_long_step_is_no_alarm(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct job job = job_of(seed);
        for (int i = 0; i < 20; i++) {
            make_steps(&job, 150, 0.1);
            job.factor[0] = 80; /* rank 0 writes a checkpoint */
            make_steps(&job, 1, 0.1);
            job.factor[0] = 1;
        }
        assert_int_equal(job.alarms, 0);
        fini(&job);
    }
}

/* Three times nothing is nothing: rank 5 takes 3 ms instead of 1 in steps of 100. */
static void what_is_next_to_nothing_is_no_alarm(void **state)
{
    (void)state;
    struct job job = job_of(1);
    job.factor[5] = 0.02;
    make_steps(&job, 300, 0.05);
    job.factor[5] = 0.06;
    make_steps(&job, 300, 0.05);
    assert_int_equal(job.alarms, 0);
    fini(&job);
}

static void what_is_recorded_is_not_compared(void **state)
{
    (void)state;
    struct job job = job_of(1);
    make_steps(&job, 300, 0.05);
    job.is_recording = true;
    job.factor[3] = 4; /* its profiler is dear */
    make_steps(&job, 50, 0.05);
    job.is_recording = false;
    job.factor[3] = 1;
    make_steps(&job, 100, 0.05);
    assert_int_equal(job.alarms, 0);
    fini(&job);
}

static void other_ranks_are_learnt_anew(void **state)
{
    (void)state;
    struct job job = job_of(1);
    job.ranks = 6;
    make_steps(&job, 300, 0.05);
    job.ranks = 8; /* two more come: other medians */
    make_steps(&job, 300, 0.05);
    job.step = 0; /* the job was started again, slower at rank 2 */
    for (size_t i = 0; i < RANKS; i++)
        job.own[i] = 0;
    job.factor[2] = 5;
    make_steps(&job, 300, 0.05);
    assert_int_equal(job.alarms, 0);
    fini(&job);
}

/* Of two nobody can say which one is usual; of none that tell, nothing. */
static void few_that_tell_suspect_nobody(void **state)
{
    (void)state;
    struct job job = job_of(1);
    job.ranks = 2;
    make_steps(&job, 300, 0.05);
    job.factor[1] = 1.05;
    make_steps(&job, 100, 0.05);
    assert_int_equal(job.alarms, 0);
    fini(&job);
}

static void several_suspects_have_a_peer_each(void **state)
{
    (void)state;
    struct job job = job_of(7);
    job.has_roles = false;
    make_steps(&job, 300, 0.05);
    job.factor[1] = job.factor[6] = 4;
    while (!job.alarms && job.step < 400)
        make_steps(&job, 1, 0.05);
    assert_int_equal(job.alarm.ranks.count, 2);
    assert_int_equal(job.alarm.ranks.suspects[0].rank, 1); /* by more */
    assert_string_equal(job.alarm.chosen, "0,1,5,6");
    struct rs_buf json = {0};
    rs_run_alarm_json(&job.alarm, &json);
    assert_non_null(strstr(rs_buf_text(&json), "{\"reason\":\"rank 1 takes "));
    assert_non_null(strstr(rs_buf_text(&json), "(and 1 more rank)\""));
    assert_non_null(strstr(rs_buf_text(&json), "\"suspects\":[{\"rank\":1,"));
    rs_buf_fini(&json);
    fini(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_turns_slow_is_suspected_within_twenty_steps),
        cmocka_unit_test(ranks_that_vary_are_no_alarm),
        cmocka_unit_test(more_work_for_all_is_the_runs),
        cmocka_unit_test(a_machine_that_gets_busy_is_no_alarm),
        cmocka_unit_test(one_long_step_is_no_alarm),
        cmocka_unit_test(what_is_next_to_nothing_is_no_alarm),
        cmocka_unit_test(what_is_recorded_is_not_compared),
        cmocka_unit_test(other_ranks_are_learnt_anew),
        cmocka_unit_test(few_that_tell_suspect_nobody),
        cmocka_unit_test(several_suspects_have_a_peer_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
