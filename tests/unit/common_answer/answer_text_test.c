/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as people read them. */
#include "common/answer/answer_text.h"

#include "common/base/time.h"
#include "common/wire/wire.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 8 };

/* A capture of RANKS ranks; texts are of the test. */
static struct {
    Rankscope__CaptureInfo info;
    Rankscope__CaptureRank ranks[RANKS];
    Rankscope__CaptureRank *items[RANKS];
    char lines[2048]; /* what was told */
} made;

static char id[] = "20260102-030405-a1b2c3", run[] = "r1", gone[] = "its process is gone";

static int make(void **state)
{
    (void)state;
    memset(&made, 0, sizeof made);
    rankscope__capture_info__init(&made.info);
    made.info.id = id;
    made.info.run = run;
    made.info.state = RS_CAPTURE_COMPLETE;
    made.info.ranks = made.items;
    made.info.n_ranks = RANKS;
    made.info.start_step = -1;
    for (uint32_t i = 0; i < RANKS; i++) {
        rankscope__capture_rank__init(&made.ranks[i]);
        made.ranks[i].rank = i;
        made.ranks[i].state = RS_PROGRESS_DONE;
        made.items[i] = &made.ranks[i];
    }
    return 0;
}

static void take(void *self, const char *line)
{
    (void)self;
    const size_t used = strlen(made.lines);
    (void)snprintf(made.lines + used, sizeof made.lines - used, "%s\n", line);
}

static void lose(uint32_t rank)
{
    made.ranks[rank].state = RS_PROGRESS_LOST;
    made.ranks[rank].text = gone;
}

static void ranks_that_are_done_are_not_told(void **state)
{
    (void)state;
    rs_answer_capture_ends(&made.info, take, NULL);
    assert_string_equal(made.lines, "");
}

static void a_few_lost_ranks_are_named_each(void **state)
{
    (void)state;
    lose(2);
    lose(5);
    rs_answer_capture_ends(&made.info, take, NULL);
    assert_string_equal(made.lines, "rank 2 is lost: its process is gone\n"
                                    "rank 5 is lost: its process is gone\n");
}

static void many_that_ended_alike_are_one_line(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < RANKS; i++)
        if (i != 4)
            lose(i);
    rs_answer_capture_ends(&made.info, take, NULL);
    assert_string_equal(made.lines, "ranks 0-3,5-7 are lost: its process is gone\n");
}

static void what_all_say_of_their_end_is_said_once(void **state)
{
    (void)state;
    static char late[] = "it began a step late";
    for (uint32_t i = 0; i < 3; i++)
        made.ranks[i].text = late;
    rs_answer_capture_ends(&made.info, take, NULL);
    assert_string_equal(made.lines, "rank 0 and 2 more: it began a step late\n");
}

static void progress_counts_ranks_by_state(void **state)
{
    (void)state;
    char line[256];
    made.info.state = RS_CAPTURE_RECORDING;
    made.info.start_step = 12;
    made.info.steps = 5;
    for (uint32_t i = 0; i < 3; i++) {
        made.ranks[i].state = RS_PROGRESS_RECORDING;
        made.ranks[i].steps_done = 2 + (int64_t)i;
    }
    rs_answer_capture_line(&made.info, line, sizeof line);
    assert_string_equal(line, "20260102-030405-a1b2c3 recording from step 12, 3 recording, 5 done "
                              "(slowest 2 of 5 steps)");
}

static void a_line_of_progress_is_cut_and_not_beyond_its_room(void **state)
{
    (void)state;
    char line[32], guard[32];
    memset(line, 'x', sizeof line);
    memset(guard, 'x', sizeof guard);
    rs_answer_capture_line(&made.info, line, 16);
    assert_int_equal(strlen(line), 15);
    assert_memory_equal(line + 16, guard, 16);
}

static void a_partial_capture_says_partial_once(void **state)
{
    (void)state;
    static char reason[] = "partial: 1 of 8 ranks is lost";
    struct rs_buf buf = {0};
    made.info.state = RS_CAPTURE_PARTIAL;
    made.info.reason = reason;
    rs_answer_capture_text(&made.info, &buf);
    assert_non_null(strstr(rs_buf_text(&buf), "state      partial: 1 of 8 ranks is lost\n"));
    assert_non_null(strstr(rs_buf_text(&buf), "closed     -\n"));
    rs_buf_fini(&buf);
}

static void a_table_of_ranks_is_cut_where_a_screen_ends(void **state)
{
    (void)state;
    static Rankscope__RankState ranks[3];
    const Rankscope__RankState *items[3];
    struct rs_buf buf = {0};
    for (size_t i = 0; i < 3; i++) {
        rankscope__rank_state__init(&ranks[i]);
        ranks[i].run = run;
        ranks[i].rank = (uint32_t)i;
        ranks[i].step = -1;
        ranks[i].seen_ns = rs_time_realtime();
        items[i] = &ranks[i];
    }
    rs_answer_ranks_text(items, 3, false, 2, &buf);
    assert_non_null(strstr(rs_buf_text(&buf), "... and 1 more; --ranks slowest=2 shows"));
    assert_null(strstr(rs_buf_text(&buf), "ROLES"));
    rs_buf_reset(&buf);
    rs_answer_ranks_text(NULL, 0, true, 0, &buf);
    assert_string_equal(rs_buf_text(&buf), "no rank is meant by that\n");
    rs_buf_reset(&buf);
    rs_answer_ranks_text(NULL, 0, false, 0, &buf);
    assert_string_equal(rs_buf_text(&buf), "no rank is known\n");
    rs_buf_fini(&buf);
}

static void no_capture_is_said(void **state)
{
    (void)state;
    Rankscope__CaptureList list = RANKSCOPE__CAPTURE_LIST__INIT;
    Rankscope__CaptureInfo *items[] = {&made.info};
    struct rs_buf buf = {0};
    rs_answer_captures_text(&list, &buf);
    assert_string_equal(rs_buf_text(&buf), "no capture\n");
    rs_buf_reset(&buf);
    list.captures = items;
    list.n_captures = 1;
    rs_answer_captures_text(&list, &buf);
    assert_null(strstr(rs_buf_text(&buf), "AGGREGATOR"));
    assert_non_null(strstr(rs_buf_text(&buf), "20260102-030405-a1b2c3 r1"));
    rs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ranks_that_are_done_are_not_told, make),
        cmocka_unit_test_setup(a_few_lost_ranks_are_named_each, make),
        cmocka_unit_test_setup(many_that_ended_alike_are_one_line, make),
        cmocka_unit_test_setup(what_all_say_of_their_end_is_said_once, make),
        cmocka_unit_test_setup(progress_counts_ranks_by_state, make),
        cmocka_unit_test_setup(a_line_of_progress_is_cut_and_not_beyond_its_room, make),
        cmocka_unit_test_setup(a_partial_capture_says_partial_once, make),
        cmocka_unit_test_setup(a_table_of_ranks_is_cut_where_a_screen_ends, make),
        cmocka_unit_test_setup(no_capture_is_said, make),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
