/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request survives its message, member by member; a peer's message that is no request is refused, whatever
 * is wrong in it.
 */
#include "common/wire/request_message.h"

#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/wire/wire.h"
#include "tests/support/rs_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Over the wire and back. */
static enum rs_status travel(const struct rs_capture_request *request,
                             struct rs_capture_request *back, struct rs_err *err)
{
    Rankscope__CaptureRequest *message = NULL;
    struct rs_buf buf = {0};
    struct rs_message arrived;
    assert_ok(rs_request_to_message(request, &message, err));
    rs_wire_pack(&message->base, &buf);
    assert_false(buf.failed);
    rs_request_message_free(&message);
    assert_null(message);
    struct rs_frame *frame = rs_frame_of(buf.data, buf.length);
    assert_ok(rs_message_unpack(&arrived, &rankscope__capture_request__descriptor, frame, err));
    const enum rs_status status =
        rs_request_from_message((const Rankscope__CaptureRequest *)arrived.body, back, err);
    rs_message_fini(&arrived);
    rs_frame_free(&frame);
    rs_buf_fini(&buf);
    return status;
}

/* Words to try on a member; the first that it takes and that is not its default is used. */
static const char *const words[] = {
    "true",           "false",  "7",        "2",        "1",     "c_1",
    "torch",          "api",    "refuse",   "0-7",      "1,3-5", "CPU,CUDA",
    "text,db",        "Level2", "MemoryUB", "cpu,osrt", "none",  "0.25",
    "{\"k\":\"[1]\"}"};

static bool change(struct rs_capture_request *request, const char *member)
{
    struct rs_capture_request before;
    bool is_changed = false;
    assert_ok(rs_request_copy(request, &before));
    for (size_t i = 0; i < sizeof words / sizeof words[0] && !is_changed; i++) {
        struct rs_request_notes notes = {0};
        is_changed = rs_request_set(request, member, words[i], &notes) == RS_OK &&
                     !rs_request_equal(request, &before);
        rs_request_notes_fini(&notes);
    }
    rs_request_fini(&before);
    return is_changed;
}

static void every_member_survives_the_message(void **state)
{
    (void)state;
    char member[RS_REQUEST_MEMBER_BYTES];
    size_t count = 0;
    for (; rs_request_member(count, member); count++) {
        struct rs_capture_request request;
        struct rs_capture_request back;
        struct rs_err err = {0};
        assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
        if (!change(&request, member))
            fail_msg("no word changes %s", member);
        if (travel(&request, &back, &err) < 0)
            fail_msg("%s: %s", member, err.text);
        if (!rs_request_equal(&request, &back))
            fail_msg("%s is lost on the way", member);
        rs_request_fini(&request);
        rs_request_fini(&back);
    }
    assert_true(count > 50);
}

static void all_members_at_once_make_the_same_document(void **state)
{
    (void)state;
    struct rs_capture_request request;
    struct rs_capture_request back;
    struct rs_buf sent = {0};
    struct rs_buf got = {0};
    char member[RS_REQUEST_MEMBER_BYTES];
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    for (size_t i = 0; rs_request_member(i, member); i++)
        assert_true(change(&request, member));
    assert_ok(travel(&request, &back, NULL));
    rs_request_to_json(&request, 2, &sent);
    rs_request_to_json(&back, 2, &got);
    assert_string_equal(rs_buf_text(&sent), rs_buf_text(&got));
    rs_buf_fini(&sent);
    rs_buf_fini(&got);
    rs_request_fini(&request);
    rs_request_fini(&back);
}

/* ---- hostile ------------------------------------------------------------------------------------------- */

static Rankscope__CaptureRequest *message_of(struct rs_capture_request *request)
{
    Rankscope__CaptureRequest *message = NULL;
    assert_ok(rs_request_init(request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    assert_ok(rs_request_to_message(request, &message, NULL));
    return message;
}

static void refused(struct rs_capture_request *request, Rankscope__CaptureRequest *message,
                    const char *said)
{
    static const struct rs_capture_request zero;
    struct rs_capture_request back;
    struct rs_err err = {0};
    assert_int_equal(rs_request_from_message(message, &back, &err), RS_INVALID);
    if (!strstr(err.text, said))
        fail_msg("\"%s\" does not speak of %s", err.text, said);
    assert_memory_equal(&back, &zero, sizeof back);
    rs_request_message_free(&message);
    rs_request_fini(request);
}

static void what_is_no_request_is_refused(void **state)
{
    (void)state;
    struct rs_capture_request request;
    Rankscope__CaptureRequest *message = message_of(&request);
    message->schedule = NULL;
    refused(&request, message, "parts");
    message = message_of(&request);
    message->dialect = 17;
    refused(&request, message, "dialect");
    message = message_of(&request);
    message->activities = 1u << 20;
    refused(&request, message, "activities");
    message = message_of(&request);
    Rankscope__MaybeDouble gc = RANKSCOPE__MAYBE_DOUBLE__INIT;
    gc.value = (double)NAN;
    message->experimental->gc_detect_threshold_ms = &gc;
    refused(&request, message, "gc_detect_threshold_ms");
    message = message_of(&request);
    Rankscope__MaybeUint warmup = RANKSCOPE__MAYBE_UINT__INIT;
    warmup.value = UINT64_MAX;
    message->schedule->warmup = &warmup;
    refused(&request, message, "warmup");
    message = message_of(&request);
    uint32_t ranks[] = {3, 2};
    message->n_rank_list = 2;
    message->rank_list = ranks;
    refused(&request, message, "rank_list");
    message = message_of(&request);
    char controls[] = "a\nb";
    message->job_id = controls;
    refused(&request, message, "job_id");
}

static void texts_and_lists_have_an_end(void **state)
{
    (void)state;
    struct rs_capture_request request;
    static char huge[8192];
    memset(huge, 'x', sizeof huge - 1);
    Rankscope__CaptureRequest *message = message_of(&request);
    message->ranks = huge;
    refused(&request, message, "ranks");
    message = message_of(&request);
    static char *names[RS_REQUEST_LIST_MAX + 1];
    for (size_t i = 0; i < RS_REQUEST_LIST_MAX + 1; i++)
        names[i] = huge;
    message->n_env_allow = RS_REQUEST_LIST_MAX + 1;
    message->env_allow = names;
    refused(&request, message, "env_allow");
    message = message_of(&request);
    Rankscope__RequestPair twice = RANKSCOPE__REQUEST_PAIR__INIT;
    Rankscope__RequestPair *pairs[] = {&twice, &twice};
    message->n_metadata = 2;
    message->metadata = pairs;
    refused(&request, message, "metadata");
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static long allocations_left;

static bool gate(void)
{
    return allocations_left-- > 0;
}

static void no_allocation_is_trusted(void **state)
{
    (void)state;
    struct rs_capture_request request;
    char member[RS_REQUEST_MEMBER_BYTES];
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    for (size_t i = 0; rs_request_member(i, member); i++)
        assert_true(change(&request, member));
    for (long k = 0;; k++) {
        struct rs_capture_request back = {0};
        struct rs_capture_request copy = {0};
        Rankscope__CaptureRequest *message = NULL;
        allocations_left = k;
        rs_mem_set_gate(gate);
        enum rs_status status = rs_request_to_message(&request, &message, NULL);
        if (status == RS_OK)
            status = rs_request_from_message(message, &back, NULL);
        if (status == RS_OK)
            status = rs_request_copy(&back, &copy);
        rs_mem_set_gate(NULL);
        assert_true(status == RS_OK || status == RS_NOMEM);
        assert_true(status < 0 || rs_request_equal(&request, &copy));
        rs_request_message_free(&message);
        rs_request_fini(&back);
        rs_request_fini(&copy);
        if (status == RS_OK)
            break;
    }
    rs_request_fini(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_survives_the_message),
        cmocka_unit_test(all_members_at_once_make_the_same_document),
        cmocka_unit_test(what_is_no_request_is_refused),
        cmocka_unit_test(texts_and_lists_have_an_end),
        cmocka_unit_test(no_allocation_is_trusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
