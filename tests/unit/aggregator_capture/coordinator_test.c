/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator: two phases, one start step, deadlines, and who is named when something is missing. */
#include "aggregator/capture/coordinator.h"

#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What the coordinator asked for, in words. */
static char said[4096];
static unsigned ids;
static const char link_a[1] = "a";
static const char link_b[1] = "b";

static void say(const char *word, const void *link, const uint32_t *ranks, size_t count)
{
    const size_t used = strlen(said);
    int at = snprintf(said + used, sizeof said - used, "%s %s", word, link == link_a ? "A" : "B");
    for (size_t i = 0; i < count; i++)
        at += snprintf(said + used + at, sizeof said - used - (size_t)at, " %u", ranks[i]);
    (void)snprintf(said + used + at, sizeof said - used - (size_t)at, "; ");
}

static void prepare(void *self, const void *link, const struct rs_coord_capture *capture,
                    enum rs_rank_kind kind, const uint32_t *ranks, size_t count)
{
    (void)self;
    (void)capture;
    (void)kind;
    say("prepare", link, ranks, count);
}

static void commit(void *self, const void *link, const struct rs_coord_capture *capture,
                   enum rs_rank_kind kind, const uint32_t *ranks, size_t count)
{
    (void)self;
    (void)capture;
    (void)kind;
    say("commit", link, ranks, count);
}

static void cancel(void *self, const void *link, const struct rs_coord_capture *capture,
                   const char *reason)
{
    (void)self;
    (void)capture;
    (void)reason;
    say("cancel", link, NULL, 0);
}

static enum rs_status create(void *self, struct rs_coord_capture *capture, struct rs_err *err)
{
    (void)self;
    (void)err;
    (void)snprintf(capture->id, sizeof capture->id, "c%u", ++ids);
    return RS_OK;
}

static void save(void *self, struct rs_coord_capture *capture)
{
    (void)self;
    (void)capture;
}

static void close_it(void *self, struct rs_coord_capture *capture)
{
    (void)self;
    (void)capture;
    (void)strncat(said, "close; ", sizeof said - strlen(said) - 1);
}

static const struct rs_coord_ops ops = {.prepare = prepare,
                                        .commit = commit,
                                        .cancel = cancel,
                                        .create = create,
                                        .save = save,
                                        .close = close_it};

static const rs_ns second = RS_NS_PER_S;

static struct rs_coord *new_coord(void)
{
    struct rs_coord *coord = NULL;
    const struct rs_coord_options options = {.ops = &ops};
    said[0] = '\0';
    ids = 0;
    assert_ok(rs_coord_new(&options, &coord, NULL));
    return coord;
}

static void see(struct rs_coord *coord, const char *run, uint32_t rank, const void *link,
                int64_t step, rs_dur duration)
{
    struct rs_coord_seen seen = {.rank = rank,
                                 .world = 4,
                                 .step = step,
                                 .step_duration_ns = duration,
                                 .can_capture = true,
                                 .link = link};
    (void)snprintf(seen.run, sizeof seen.run, "%s", run);
    (void)snprintf(seen.incarnation, sizeof seen.incarnation, "i%u", rank);
    assert_ok(rs_coord_see(coord, &seen, 0));
}

static struct rs_coord_capture *start(struct rs_coord *coord, const char *ranks)
{
    struct rs_coord_capture *capture = NULL;
    const struct rs_coord_request request = {.run = "", .ranks = ranks, .steps = 5};
    assert_ok(rs_coord_start(coord, &request, 0, &capture, NULL));
    return capture;
}

static void arm(struct rs_coord *coord, uint32_t rank, int64_t step, rs_dur duration,
                const char *refused)
{
    char incarnation[16];
    (void)snprintf(incarnation, sizeof incarnation, "i%u", rank);
    const struct rs_coord_armed armed = {.rank = rank,
                                         .incarnation = incarnation,
                                         .step = step,
                                         .step_duration_ns = duration,
                                         .refused = refused};
    rs_coord_armed(coord, "c1", &armed, second);
}

static void end(struct rs_coord *coord, uint32_t rank, bool is_partial)
{
    char incarnation[16];
    (void)snprintf(incarnation, sizeof incarnation, "i%u", rank);
    rs_coord_ended(coord, "c1", rank, incarnation, is_partial, 2 * second);
}

static void every_rank_starts_at_one_step_beyond_the_foremost(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 10, 100 * RS_NS_PER_MS);
    see(coord, "r", 1, link_b, 12, 50 * RS_NS_PER_MS);
    struct rs_coord_capture *capture = start(coord, "all");
    assert_string_equal(said, "prepare A 0; prepare B 1; ");
    arm(coord, 0, 11, 100 * RS_NS_PER_MS, "");
    assert_int_equal(capture->state, RS_CAPTURE_ARMING);
    arm(coord, 1, 13, 50 * RS_NS_PER_MS, "");
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    /* half a second of lead is ten steps of 50 ms, and two for good measure */
    assert_int_equal(capture->start_step, 13 + 2 + 10);
    assert_non_null(strstr(said, "commit A 0; commit B 1; "));
    end(coord, 0, false);
    end(coord, 1, false);
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    assert_non_null(strstr(said, "close; "));
    rs_coord_free(&coord);
}

static void a_collectors_word_makes_nobody_done(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "");
    const struct rs_coord_told told = {
        .rank = 0, .steps_done = 5, .state = RS_PROGRESS_DONE, .text = ""};
    rs_coord_progress(coord, "c1", &told, second);
    assert_int_equal(capture->ranks[0].state, RS_PROGRESS_SENDING);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    rs_coord_free(&coord);
}

static void who_does_not_answer_is_lost_and_the_others_record(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "");
    assert_true(rs_coord_tick(coord, 4 * second) <= 5 * second);
    assert_int_equal(capture->state, RS_CAPTURE_ARMING);
    (void)rs_coord_tick(coord, 5 * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    assert_int_equal(capture->ranks[1].state, RS_PROGRESS_LOST);
    end(coord, 0, false);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_string_equal(capture->reason, "lost: rank 1");
    rs_coord_free(&coord);
}

static void a_rank_whose_collector_is_gone_is_named_after_a_while(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "");
    arm(coord, 1, 1, 0, "");
    end(coord, 0, false);
    rs_coord_link_gone(coord, link_b, 3 * second);
    (void)rs_coord_tick(coord, 17 * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    (void)rs_coord_tick(coord, 19 * second);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_string_equal(capture->ranks[1].text, "its collector is gone");
    rs_coord_free(&coord);
}

static void all_refusing_is_a_failure(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "no memory");
    assert_int_equal(capture->state, RS_CAPTURE_FAILED);
    assert_null(strstr(said, "commit"));
    rs_coord_free(&coord);
}

static void unknown_ranks_are_listed_and_the_known_ones_record(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    struct rs_coord_capture *capture = start(coord, "0,7-8");
    assert_int_equal(capture->rank_count, 3);
    arm(coord, 0, 1, 0, "");
    end(coord, 0, false);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_string_equal(capture->reason, "refused: rank 7, 8");
    rs_coord_free(&coord);
}

static void two_runs_need_a_name(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = NULL;
    struct rs_err err = {0};
    struct rs_coord_request request = {.run = "", .ranks = "all", .steps = 1};
    assert_status(rs_coord_start(coord, &request, 0, &capture, &err), RS_NOTFOUND);
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "s", 0, link_b, 1, 0);
    assert_status(rs_coord_start(coord, &request, 0, &capture, &err), RS_INVALID);
    assert_non_null(strstr(err.text, "r, s"));
    request.run = "s";
    assert_ok(rs_coord_start(coord, &request, 0, &capture, &err));
    assert_string_equal(said, "prepare B 0; ");
    rs_coord_free(&coord);
}

static void a_past_start_step_is_refused(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = NULL;
    see(coord, "r", 0, link_a, 10, 0);
    const struct rs_coord_request request = {
        .run = "r", .ranks = "all", .steps = 1, .has_start_step = true, .start_step = 10};
    assert_status(rs_coord_start(coord, &request, 0, &capture, NULL), RS_INVALID);
    rs_coord_free(&coord);
}

static struct rs_coord_capture *open_file(struct rs_coord *coord, const char *key, uint32_t rank,
                                          uint32_t world, rs_ns now)
{
    char incarnation[16];
    (void)snprintf(incarnation, sizeof incarnation, "i%u", rank);
    const struct rs_coord_stream stream = {.run = "r",
                                           .incarnation = incarnation,
                                           .host = "h",
                                           .rank = rank,
                                           .world = world,
                                           .capture = "",
                                           .key = key,
                                           .settle_ns = 5 * second};
    struct rs_coord_capture *capture = NULL;
    assert_ok(rs_coord_stream_opened(coord, &stream, now, &capture, NULL));
    return capture;
}

static void files_of_one_key_are_one_capture_closed_when_the_world_is_there(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = open_file(coord, "k", 0, 2, 0);
    assert_ptr_equal(open_file(coord, "k", 1, 2, 0), capture);
    assert_ptr_not_equal(open_file(coord, "other", 1, 2, 0), capture);
    end(coord, 0, false);
    assert_int_equal(capture->state, RS_CAPTURE_COLLECTING);
    end(coord, 1, false);
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    rs_coord_free(&coord);
}

static void files_without_a_world_are_closed_when_nothing_came(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = open_file(coord, "k", 0, 0, 0);
    end(coord, 0, false); /* at 2 s */
    (void)rs_coord_tick(coord, 6 * second);
    assert_int_equal(capture->state, RS_CAPTURE_COLLECTING);
    (void)rs_coord_tick(coord, 7 * second);
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    rs_coord_free(&coord);
}

static void a_stream_under_way_keeps_its_capture_open_longer(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = open_file(coord, "k", 0, 2, 0);
    (void)rs_coord_tick(coord, 30 * second);
    assert_int_equal(capture->state, RS_CAPTURE_COLLECTING);
    (void)rs_coord_tick(coord, 61 * second);
    assert_int_equal(capture->state, RS_CAPTURE_FAILED);
    assert_non_null(strstr(capture->reason, "1 of 2 ranks came"));
    rs_coord_free(&coord);
}

static void expressions_are_numbers_ranges_or_all(void **state)
{
    (void)state;
    static const char *const wrong[] = {"x",  "1,",   ",1",         "3-1",  "1-",
                                        "-1", "1--2", "0-99999999", "all,1"};
    uint32_t *ranks = NULL;
    size_t count = 0;
    bool is_all = false;
    assert_ok(rs_rank_expression("3-5,0,4", &is_all, &ranks, &count, NULL));
    assert_false(is_all);
    const uint32_t expected[] = {0, 3, 4, 5};
    assert_int_equal(count, 4);
    assert_memory_equal(ranks, expected, sizeof expected);
    rs_mem_free(ranks);
    assert_ok(rs_rank_expression("all", &is_all, &ranks, &count, NULL));
    assert_true(is_all);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_status(rs_rank_expression(wrong[i], &is_all, &ranks, &count, NULL), RS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_starts_at_one_step_beyond_the_foremost),
        cmocka_unit_test(a_collectors_word_makes_nobody_done),
        cmocka_unit_test(who_does_not_answer_is_lost_and_the_others_record),
        cmocka_unit_test(a_rank_whose_collector_is_gone_is_named_after_a_while),
        cmocka_unit_test(all_refusing_is_a_failure),
        cmocka_unit_test(unknown_ranks_are_listed_and_the_known_ones_record),
        cmocka_unit_test(two_runs_need_a_name),
        cmocka_unit_test(a_past_start_step_is_refused),
        cmocka_unit_test(files_of_one_key_are_one_capture_closed_when_the_world_is_there),
        cmocka_unit_test(files_without_a_world_are_closed_when_nothing_came),
        cmocka_unit_test(a_stream_under_way_keeps_its_capture_open_longer),
        cmocka_unit_test(expressions_are_numbers_ranges_or_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
