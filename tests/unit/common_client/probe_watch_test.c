/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs whose ranks tell no steps, watched by probes: what is noticed, what is not, whom it records, and what it may cost.
 */
#include "common/client/probe_watch.h"

#include "tests/support/rs_test.h"

#include <string.h>

enum { RANKS_MAX = 64, SEEDS = 200 };

static const rs_dur s = RS_NS_PER_S;
static const struct rs_probe_rules rules = {.every_ns = 60 * (rs_dur)RS_NS_PER_S, .share = 0.01};

/* A job in lock step: whoever has most work of its own says how long a step is. */
struct job {
    struct rs_probe_watch watch;
    size_t ranks;
    rs_ns now;
    double factor[RANKS_MAX]; /* of the own work */
    double link;              /* ms a step for communication */
    double delayed;           /* part of the time for which ranks have no core */
    rs_dur delay_ns;
    uint32_t missing; /* rank that did not make it into the next probe; UINT32_MAX none */
    bool is_of_whole_jobs;
    size_t probes, alarms;
    rs_dur disturbed_ns;
    uint64_t seed;
    struct rs_run_alarm alarm;
    char asked[RS_PROBE_WATCH_EXPR_BYTES];
};

static double unit_of(struct job *job)
{
    job->seed = job->seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(job->seed >> 33) / (double)(1U << 31);
}

static struct job job_of(size_t ranks, uint64_t seed)
{
    struct job job = {
        .ranks = ranks, .seed = seed * 77 + 5, .now = 1000 * s, .link = 30, .missing = UINT32_MAX};
    for (size_t i = 0; i < RANKS_MAX; i++)
        job.factor[i] = 1;
    return job;
}

static size_t look(struct job *job)
{
    for (size_t i = 0; i < job->ranks; i++) {
        const struct rs_probe_member member = {.rank = (uint32_t)(job->ranks - 1 - i),
                                               .delay_ns = job->delay_ns,
                                               .host = "a",
                                               .pp = -1,
                                               .tp = -1,
                                               .is_of_whole_jobs = job->is_of_whole_jobs};
        assert_ok(rs_probe_watch_add(&job->watch, &member));
    }
    return rs_probe_watch_seen(&job->watch, &rules, job->now);
}

static void pass(struct job *job, rs_dur length)
{
    job->now += length;
    job->delay_ns += 1 + (rs_dur)((double)length * job->delayed);
    (void)look(job);
}

static void probe(struct job *job, double noise)
{
    struct rs_probe_figure figures[RANKS_MAX];
    struct rs_run_alarm alarm;
    double longest = 0;
    size_t count = 0;
    rs_probe_watch_begin(&job->watch, job->now, job->now, job->asked);
    pass(job, 8 * s);
    for (uint32_t i = 0; i < job->ranks; i++) {
        const double own =
            100e6 * job->factor[i] * (1 + noise * (2 * unit_of(job) - 1)) / (1 - job->delayed);
        longest = own > longest ? own : longest;
        if (i != job->missing)
            figures[count++] = (struct rs_probe_figure){.rank = i, .own_ns = (rs_dur)own};
    }
    for (size_t i = 0; i < count; i++)
        figures[i].step_ns = (rs_dur)(longest + job->link * 1e6);
    job->probes++;
    const struct rs_probe_told told = {
        .figures = figures, .count = count, .disturbed_ns = job->disturbed_ns};
    if (rs_probe_watch_take(&job->watch, &rules, &told, job->now, 1.15, &alarm)) {
        job->alarms++;
        job->alarm = alarm;
    }
}

/* Until so many were made; how long that took. */
static rs_dur probes(struct job *job, size_t count, double noise)
{
    const rs_ns begin = job->now;
    for (size_t all = job->probes + count; job->probes < all; pass(job, s))
        if (rs_probe_watch_is_due(&job->watch, job->now))
            probe(job, noise);
    return job->now - begin;
}

static void a_rank_that_turns_slow_is_suspected_beside_a_healthy_one(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct job job = job_of(4, seed);
        (void)look(&job);
        (void)probes(&job, RS_PROBE_WATCH_LEARN, 0.03);
        assert_int_equal(job.alarms, 0);
        job.factor[2] = 1.8;
        const rs_ns changed = job.now;
        const rs_dur took = probes(&job, 3, 0.03);
        assert_int_equal(job.alarms, 1);
        assert_true(took < 150 * s); /* the next one after a minute, the others sooner */
        assert_int_equal(job.alarm.ranks.count, 1);
        assert_int_equal(job.alarm.ranks.suspects[0].rank, 2);
        assert_int_equal(job.alarm.ranks.suspects[0].first_step, -1);
        assert_true(job.alarm.since_ns >= changed && job.alarm.since_ns <= changed + 61 * s);
        assert_string_equal(job.alarm.chosen, "1,2");
        char text[300];
        rs_run_alarm_text(&job.alarm, text, sizeof text);
        assert_non_null(strstr(text, "rank 2 takes "));
        assert_non_null(strstr(text, ", since 00:"));
        struct rs_buf json = {0};
        rs_run_alarm_json(&job.alarm, &json);
        assert_non_null(strstr(rs_buf_text(&json), "\"first_step\":null"));
        assert_non_null(strstr(rs_buf_text(&json), "\"since_ns\":"));
        rs_buf_fini(&json);
        (void)probes(&job, 40, 0.03); /* usual now */
        assert_int_equal(job.alarms, 1);
        rs_probe_watch_fini(&job.watch);
    }
}

static void ranks_that_vary_are_no_alarm(void **state)
{
    (void)state;
    size_t alarms = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct job job = job_of(4, seed);
        (void)look(&job);
        (void)probes(&job, 100, 0.25);
        alarms += job.alarms;
        rs_probe_watch_fini(&job.watch);
    }
    assert_int_equal(alarms, 0);
}

static void a_link_that_turns_slow_is_an_alarm_of_all(void **state)
{
    (void)state;
    struct job job = job_of(4, 1);
    (void)look(&job);
    (void)probes(&job, 12, 0.03);
    job.link = 110;
    (void)probes(&job, 3, 0.03);
    assert_int_equal(job.alarms, 1);
    assert_int_equal(job.alarm.ranks.count, 0);
    assert_string_equal(job.alarm.chosen, "");
    assert_int_equal(job.alarm.steps.first_step, -1);
    assert_true(job.alarm.since_ns > 0);
    rs_probe_watch_fini(&job.watch);
}

static void a_machine_that_gets_busy_is_no_alarm(void **state)
{
    (void)state;
    struct job job = job_of(4, 1);
    (void)look(&job);
    (void)probes(&job, 12, 0.03);
    job.delayed = 0.5; /* of all ranks alike: steps take twice as long */
    (void)probes(&job, 30, 0.03);
    assert_int_equal(job.alarms, 0);
    rs_probe_watch_fini(&job.watch);
}

static void one_long_probe_is_no_alarm(void **state)
{
    (void)state;
    struct job job = job_of(4, 1);
    (void)look(&job);
    (void)probes(&job, 12, 0.03);
    job.factor[1] = 3;
    (void)probes(&job, 1, 0.03);
    job.factor[1] = 1;
    (void)probes(&job, 30, 0.03);
    assert_int_equal(job.alarms, 0);
    rs_probe_watch_fini(&job.watch);
}

static void a_rank_that_is_not_in_every_probe_is_judged_all_the_same(void **state)
{
    (void)state;
    struct job job = job_of(4, 1);
    (void)look(&job);
    for (size_t i = 0; i < 12; i++) {
        job.missing = i % 3 ? UINT32_MAX : 1;
        (void)probes(&job, 1, 0.03);
    }
    assert_int_equal(job.alarms, 0);
    job.missing = UINT32_MAX;
    job.factor[1] = 2;
    (void)probes(&job, 3, 0.03);
    assert_int_equal(job.alarms, 1);
    assert_int_equal(job.alarm.ranks.suspects[0].rank, 1);
    rs_probe_watch_fini(&job.watch);
}

static void many_ranks_are_sampled_and_others_than_before_begin_anew(void **state)
{
    (void)state;
    struct job job = job_of(64, 1);
    assert_int_equal(look(&job), 64);
    (void)probes(&job, 12, 0.03);
    assert_string_equal(job.asked, "0,8,16,24,32,40,48,56");
    job.factor[3] = 2; /* nobody of the sample: all wait for it */
    (void)probes(&job, 3, 0.03);
    assert_int_equal(job.alarms, 1);
    assert_int_equal(job.alarm.ranks.count, 0);
    job.ranks = 32;
    assert_int_equal(look(&job), 32);
    assert_false(rs_probe_watch_is_due(&job.watch, job.now));
    job.factor[3] = 1;
    (void)probes(&job, 1, 0.03);
    assert_string_equal(job.asked, "0,4,8,12,16,20,24,28");
    job.is_of_whole_jobs = true;
    (void)probes(&job, 1, 0.03);
    assert_string_equal(job.asked, "all");
    assert_int_equal(job.alarms, 1);
    job.ranks = 0;
    assert_int_equal(look(&job), 0);
    assert_false(rs_probe_watch_is_due(&job.watch, job.now + 86400 * s));
    rs_probe_watch_fini(&job.watch);
}

static void what_it_disturbs_stays_within_its_share(void **state)
{
    (void)state;
    struct job job = job_of(4, 1);
    (void)look(&job);
    assert_false(rs_probe_watch_is_due(&job.watch, job.now)); /* a job that begins is left alone */
    assert_true(rs_probe_watch_is_due(&job.watch, job.now + 60 * s));
    job.disturbed_ns = s / 10;
    const rs_dur brief = probes(&job, 10, 0.03);
    assert_true(brief > 540 * s && brief < 660 * s); /* by the minute */
    job.disturbed_ns = 3 * s;
    (void)probes(&job, 1, 0.03);
    const rs_dur longer = probes(&job, 10, 0.03);
    assert_true(10 * 3.0 / ((double)longer / 1e9) < 0.0101); /* by the share */
    assert_int_equal(job.alarms, 0);
    rs_probe_watch_fini(&job.watch);
}

static void what_is_refused_again_and_again_is_asked_less_often(void **state)
{
    (void)state;
    struct job job = job_of(4, 1);
    (void)look(&job);
    rs_ns begin = job.now;
    rs_dur before = 0;
    for (size_t i = 0; i < 12; i++) {
        while (!rs_probe_watch_is_due(&job.watch, job.now))
            pass(&job, s);
        const rs_dur pause = job.now - begin;
        assert_true(pause >= before && pause <= 3660 * s);
        before = pause;
        begin = job.now;
        rs_probe_watch_begin(&job.watch, job.now, job.now, job.asked);
        assert_false(rs_probe_watch_is_due(&job.watch, job.now + 86400 * s));
        rs_probe_watch_failed(&job.watch, &rules, 0, job.now);
    }
    assert_true(before > 1800 * s);
    (void)probes(&job, 1, 0.03);
    assert_true(probes(&job, 1, 0.03) < 70 * s);
    rs_probe_watch_fini(&job.watch);
}

static void a_figure_is_the_median_of_its_steps(void **state)
{
    (void)state;
    rs_dur lengths[] = {900, 100, 104}, own[] = {90, 10, 12};
    struct rs_probe_figure figure;
    assert_true(rs_probe_figure_of(3, lengths, own, 3, &figure));
    assert_int_equal(figure.rank, 3);
    assert_int_equal(figure.step_ns, 104);
    assert_int_equal(figure.own_ns, 12);
    assert_false(rs_probe_figure_of(3, lengths, own, 0, &figure));
}

/* The aggregator went away while it named its ranks: those come again, and are not there twice. */
static void a_look_that_was_cut_off_counts_nobody(void **state)
{
    struct job job = job_of(4, 1);
    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) {
        const struct rs_probe_member member = {.rank = rank, .host = "a", .pp = -1, .tp = -1};
        assert_ok(rs_probe_watch_add(&job.watch, &member));
    }
    rs_probe_watch_skip(&job.watch);
    assert_int_equal(look(&job), 4);
    rs_probe_watch_fini(&job.watch);
}

/* A run of that name had a profiler that records all ranks or none; its next job has another. */
static void whole_jobs_are_of_the_ranks_that_are_there(void **state)
{
    struct job job = job_of(16, 1);
    char ranks[RS_PROBE_WATCH_EXPR_BYTES];
    (void)state;
    job.is_of_whole_jobs = true;
    assert_int_equal(look(&job), 16);
    rs_probe_watch_begin(&job.watch, job.now, 0, ranks);
    assert_string_equal(ranks, "all");
    job.is_of_whole_jobs = false;
    assert_int_equal(look(&job), 16);
    rs_probe_watch_begin(&job.watch, job.now, 0, ranks);
    assert_string_not_equal(ranks, "all");
    rs_probe_watch_fini(&job.watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_turns_slow_is_suspected_beside_a_healthy_one),
        cmocka_unit_test(ranks_that_vary_are_no_alarm),
        cmocka_unit_test(a_link_that_turns_slow_is_an_alarm_of_all),
        cmocka_unit_test(a_machine_that_gets_busy_is_no_alarm),
        cmocka_unit_test(one_long_probe_is_no_alarm),
        cmocka_unit_test(a_rank_that_is_not_in_every_probe_is_judged_all_the_same),
        cmocka_unit_test(many_ranks_are_sampled_and_others_than_before_begin_anew),
        cmocka_unit_test(what_it_disturbs_stays_within_its_share),
        cmocka_unit_test(what_is_refused_again_and_again_is_asked_less_often),
        cmocka_unit_test(a_look_that_was_cut_off_counts_nobody),
        cmocka_unit_test(whole_jobs_are_of_the_ranks_that_are_there),
        cmocka_unit_test(a_figure_is_the_median_of_its_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
