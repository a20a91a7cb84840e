/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do steps take longer than before? A clock of its own: nothing here waits.
 */
#include "common/client/step_watch.h"

#include "tests/support/rs_test.h"

static const rs_dur ms = RS_NS_PER_MS;
enum { SEEDS = 200 };

/* A job whose foremost rank is looked at once a second: what it tells is late by up to a step, and a mean of its last steps. */
struct job {
    struct rs_step_watch watch;
    rs_ns now, next_look, step_began;
    int64_t step;
    double mean_ns;
    uint64_t seed;
    size_t stepping;
    size_t alarms;
    struct rs_step_alarm alarm;
};

static uint64_t next_random(struct job *job)
{
    job->seed = job->seed * 6364136223846793005U + 1442695040888963407U;
    return job->seed >> 33;
}

static double unit_of(struct job *job)
{
    return (double)next_random(job) / (double)(1U << 31);
}

static struct job job_of(uint64_t seed)
{
    return (struct job){.now = 1000 * (rs_ns)RS_NS_PER_S, .seed = seed * 77 + 5, .stepping = 8};
}

static void make_step(struct job *job, rs_dur length)
{
    job->now += length;
    job->step++;
    job->mean_ns = job->mean_ns > 0 ? job->mean_ns * 7 / 8 + (double)length / 8 : (double)length;
    while (job->next_look <= job->now) {
        struct rs_step_alarm alarm;
        const struct rs_step_look look = {.step = job->step,
                                          .at = job->now,
                                          .step_ns = (rs_dur)job->mean_ns,
                                          .stepping = job->stepping};
        if (rs_step_watch_see(&job->watch, &look, 1.15, &alarm)) {
            job->alarms++;
            job->alarm = alarm;
        }
        job->next_look = job->now + RS_NS_PER_S;
    }
}

/* `noise`: part of the length, evenly spread. */
static void make_steps(struct job *job, size_t count, rs_dur length, double noise)
{
    for (size_t i = 0; i < count; i++)
        make_step(job, (rs_dur)((double)length * (1 + noise * (2 * unit_of(job) - 1))));
}

static void steady_steps_are_no_alarm(void **state)
{
    (void)state;
    size_t alarms = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct job job = job_of(seed);
        make_steps(&job, 20000, 90 * ms, 0.5); /* 30 minutes */
        alarms += job.alarms;
    }
    assert_true(alarms <= 1); /* 100 hours of a job whose steps vary by a half */
}

static void longer_steps_are_told_once(void **state)
{
    (void)state;
    size_t late = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct job job = job_of(seed);
        make_steps(&job, 200, 400 * ms, 0.05);
        assert_int_equal(job.alarms, 0);
        const int64_t changed = job.step;
        while (job.alarms == 0 && job.step < changed + 100)
            make_steps(&job, 1, 800 * ms, 0.05);
        assert_int_equal(job.alarms, 1);
        late += job.step > changed + 20;
        assert_true(job.alarm.before_ns > 380 * ms && job.alarm.before_ns < 420 * ms);
        assert_true(job.alarm.now_ns > 500 * ms && job.alarm.now_ns < 850 * ms);
        assert_true(job.alarm.first_step >= changed - 8 && job.alarm.first_step <= changed + 8);
        make_steps(&job, 500, 800 * ms, 0.05); /* usual now */
        assert_int_equal(job.alarms, 1);
        make_steps(&job, 300, 400 * ms, 0.05); /* as before */
        assert_int_equal(job.alarms, 1);
    }
    assert_int_equal(late, 0);
}

/* A checkpoint every 150 steps takes as long as 40 of them. */
static void single_long_steps_are_no_alarm(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct job job = job_of(seed);
        for (int i = 0; i < 20; i++) {
            make_steps(&job, 150, 200 * ms, 0.1);
            make_steps(&job, 1, 8000 * ms, 0.1);
        }
        assert_int_equal(job.alarms, 0);
    }
}

static void little_is_no_alarm(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct job job = job_of(seed);
        make_steps(&job, 500, 200 * ms, 0.02);
        make_steps(&job, 500, 220 * ms, 0.02); /* 10 %, 15 are asked */
        assert_int_equal(job.alarms, 0);
    }
}

static void another_job_is_learnt_anew(void **state)
{
    (void)state;
    struct job job = job_of(1);
    make_steps(&job, 300, 100 * ms, 0.05);
    job.step = 0; /* started again, with longer steps */
    make_steps(&job, 300, 300 * ms, 0.05);
    assert_int_equal(job.alarms, 0);
    job.stepping = 16; /* with more ranks */
    make_steps(&job, 300, 900 * ms, 0.05);
    assert_int_equal(job.alarms, 0);
}

static void nothing_is_said_before_it_is_learnt(void **state)
{
    (void)state;
    struct job job = job_of(1);
    const struct rs_step_look mute = {.step = -1, .at = 5};
    struct rs_step_alarm alarm;
    assert_false(rs_step_watch_see(&job.watch, &mute, 1.15, &alarm));
    assert_int_equal(job.watch.count, 0);
    make_steps(&job, 15, 1000 * ms, 0.05); /* three samples */
    make_steps(&job, 40, 3000 * ms, 0.05);
    assert_int_equal(job.alarms, 0);
    assert_true(job.watch.count < RS_STEP_WATCH_LEARN);
}

/* What a capture costs the job is not compared, and breaks no series. */
static void what_is_skipped_is_not_compared(void **state)
{
    (void)state;
    struct job job = job_of(3);
    make_steps(&job, 300, 200 * ms, 0.05);
    job.now += 60 * (rs_ns)RS_NS_PER_S;
    job.step += 60;
    rs_step_watch_skip(&job.watch);
    const size_t known = job.watch.count;
    job.mean_ns = 0; /* those steps ended long ago */
    make_steps(&job, 5, 200 * ms, 0.05);
    assert_true(job.watch.count >= known && job.watch.count <= known + 2);
    make_steps(&job, 100, 200 * ms, 0.05);
    assert_int_equal(job.alarms, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_steps_are_no_alarm),
        cmocka_unit_test(longer_steps_are_told_once),
        cmocka_unit_test(single_long_steps_are_no_alarm),
        cmocka_unit_test(little_is_no_alarm),
        cmocka_unit_test(another_job_is_learnt_anew),
        cmocka_unit_test(nothing_is_said_before_it_is_learnt),
        cmocka_unit_test(what_is_skipped_is_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
