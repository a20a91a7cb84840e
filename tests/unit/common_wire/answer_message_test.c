/* SPDX-License-Identifier: Apache-2.0 */
/* An answer reads the same on both sides of the wire; a peer's answer that is none is refused. */
#include "common/wire/answer_message.h"

#include "common/wire/wire.h"
#include "tests/support/rs_test.h"

#include <string.h>

enum { RANKS = 40 };

static void validate(struct rs_request_answer *answer)
{
    struct rs_request_rank ranks[RANKS];
    struct rs_capture_request request;
    struct rs_request_notes notes = {0};
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    assert_ok(rs_request_set(&request, "start_step", "100", &notes));
    assert_ok(rs_request_set(&request, "ranks", "0-38,70-75,90", &notes));
    assert_ok(rs_request_set(&request, "experimental.mstx", "true", &notes));
    struct rs_adapter adapters[2];
    assert_true(rs_adapter_known(RS_PROFILER_ASCEND, &adapters[0]));
    assert_true(rs_adapter_known(RS_PROFILER_KINETO, &adapters[1]));
    for (uint32_t i = 0; i < RANKS; i++)
        ranks[i] = (struct rs_request_rank){.row = {.rank = i, .role = {-1, -1, -1, -1, -1}},
                                            .adapter = &adapters[i % 3 != 0],
                                            .is_busy = i == 9,
                                            .is_step_known = true,
                                            .step = i == 11 ? 200 : 1};
    assert_status(rs_request_validate(&request, ranks, RANKS, NULL, answer, NULL), RS_PARTIAL);
    rs_request_notes_fini(&notes);
    rs_request_fini(&request);
}

static void an_answer_reads_the_same_on_both_sides(void **state)
{
    (void)state;
    struct rs_request_answer answer = {0};
    struct rs_request_answer back = {0};
    Rankscope__CaptureAnswer *message = NULL;
    struct rs_buf buf = {0};
    struct rs_buf texts[2] = {{0}, {0}};
    struct rs_message arrived;
    validate(&answer);
    assert_ok(rs_answer_to_message(&answer, &message, NULL));
    /* two profilers, one busy, one too late */
    assert_int_equal(message->n_groups, 4);
    rs_wire_pack(&message->base, &buf);
    rs_answer_message_free(&message);
    struct rs_frame *frame = rs_frame_of(buf.data, buf.length);
    assert_ok(rs_message_unpack(&arrived, &rankscope__capture_answer__descriptor, frame, NULL));
    assert_ok(rs_answer_from_message((const Rankscope__CaptureAnswer *)arrived.body, &back, NULL));
    rs_request_answer_to_json(&answer, 1, &texts[0]);
    rs_request_answer_to_json(&back, 1, &texts[1]);
    assert_string_equal(rs_buf_text(&texts[0]), rs_buf_text(&texts[1]));
    rs_buf_reset(&texts[0]);
    rs_buf_reset(&texts[1]);
    rs_request_answer_print(&answer, &texts[0]);
    rs_request_answer_print(&back, &texts[1]);
    assert_string_equal(rs_buf_text(&texts[0]), rs_buf_text(&texts[1]));
    rs_message_fini(&arrived);
    rs_frame_free(&frame);
    rs_buf_fini(&buf);
    rs_buf_fini(&texts[0]);
    rs_buf_fini(&texts[1]);
    rs_request_answer_fini(&answer);
    rs_request_answer_fini(&back);
}

static void what_is_no_answer_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t first, last, decision;
    } wrong[] = {{3, 2, 0}, {0, UINT32_MAX, 0}, {0, 1 << 23, 0}, {0, 0, 9}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct rs_request_answer back;
        Rankscope__RankRange range = RANKSCOPE__RANK_RANGE__INIT;
        Rankscope__RankRange *ranges[] = {&range};
        Rankscope__AnswerGroup group = RANKSCOPE__ANSWER_GROUP__INIT;
        Rankscope__AnswerGroup *groups[] = {&group};
        Rankscope__CaptureAnswer message = RANKSCOPE__CAPTURE_ANSWER__INIT;
        range.first = wrong[i].first;
        range.last = wrong[i].last;
        group.decision = wrong[i].decision;
        group.n_ranks = 1;
        group.ranks = ranges;
        message.n_groups = 1;
        message.groups = groups;
        assert_status(rs_answer_from_message(&message, &back, NULL), RS_FORMAT);
        assert_null(back.ranks);
    }
}

static void a_rule_of_a_later_program_is_still_reported(void **state)
{
    (void)state;
    struct rs_request_answer back;
    char rule[] = "moon-phase";
    char text[] = "waning";
    Rankscope__AnswerNote note = RANKSCOPE__ANSWER_NOTE__INIT;
    Rankscope__AnswerNote *notes[] = {&note};
    Rankscope__CaptureAnswer message = RANKSCOPE__CAPTURE_ANSWER__INIT;
    note.rule = rule;
    note.text = text;
    message.n_notes = 1;
    message.notes = notes;
    assert_ok(rs_answer_from_message(&message, &back, NULL));
    assert_string_equal(back.notes.items[0].text, "rule moon-phase: waning");
    rs_request_answer_fini(&back);
}

static void a_few_bytes_do_not_become_gigabytes(void **state)
{
    (void)state;
    enum { NOTES = 200 };
    struct rs_request_answer back = {0};
    Rankscope__AnswerNote note = RANKSCOPE__ANSWER_NOTE__INIT, *notes[NOTES];
    Rankscope__RankRange range = RANKSCOPE__RANK_RANGE__INIT, *ranges[] = {&range};
    Rankscope__AnswerGroup group = RANKSCOPE__ANSWER_GROUP__INIT, *groups[] = {&group};
    Rankscope__CaptureAnswer message = RANKSCOPE__CAPTURE_ANSWER__INIT;
    for (size_t i = 0; i < NOTES; i++)
        notes[i] = &note;
    group.notes = notes;
    group.n_notes = NOTES;
    group.ranks = ranges;
    group.n_ranks = 1;
    message.groups = groups;
    message.n_groups = 1;
    range.last = 99;
    assert_ok(rs_answer_from_message(&message, &back, NULL));
    assert_int_equal(back.count, 100);
    rs_request_answer_fini(&back);
    range.last = 9999; /* 700 MB */
    assert_status(rs_answer_from_message(&message, &back, NULL), RS_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_reads_the_same_on_both_sides),
        cmocka_unit_test(what_is_no_answer_is_refused),
        cmocka_unit_test(a_rule_of_a_later_program_is_still_reported),
        cmocka_unit_test(a_few_bytes_do_not_become_gigabytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
