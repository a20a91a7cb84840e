/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and answers from strangers: whatever a message becomes, it survives the way back, can be validated for ranks, printed
 * and read again. The first byte chooses which of the two it is.
 */
#include "common/base/check.h"
#include "common/wire/answer_message.h"
#include "common/wire/request_message.h"
#include "common/wire/wire.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void validate(const struct rs_capture_request *request)
{
    struct rs_request_answer answer = {0};
    struct rs_buf buf = {0};
    struct rs_request_rank ranks[RS_PROFILER_IN_PROCESS + 1];
    struct rs_adapter adapters[RS_PROFILER_IN_PROCESS + 1];
    for (uint32_t i = 0; i <= RS_PROFILER_IN_PROCESS; i++) {
        RS_CHECK(rs_adapter_known(i, &adapters[i]));
        ranks[i] = (struct rs_request_rank){.row = {.rank = i, .role = {-1, -1, -1, -1, -1}},
                                            .adapter = &adapters[i],
                                            .is_step_known = true,
                                            .step = 7};
    }
    const enum rs_status status =
        rs_request_validate(request, ranks, sizeof ranks / sizeof ranks[0], NULL, &answer, NULL);
    RS_CHECK(status != RS_INVALID);
    if (status != RS_NOMEM) {
        Rankscope__CaptureAnswer *message = NULL;
        struct rs_request_answer back;
        rs_request_answer_print(&answer, &buf);
        RS_CHECK(rs_answer_to_message(&answer, &message, NULL) == RS_OK);
        RS_CHECK(rs_answer_from_message(message, &back, NULL) == RS_OK);
        RS_CHECK(back.count == answer.count && back.notes.count == answer.notes.count);
        rs_request_answer_fini(&back);
        rs_answer_message_free(&message);
    }
    rs_buf_fini(&buf);
    rs_request_answer_fini(&answer);
}

static void try_request(const Rankscope__CaptureRequest *message)
{
    struct rs_capture_request request;
    struct rs_capture_request back;
    Rankscope__CaptureRequest *again = NULL;
    struct rs_buf json = {0};
    if (rs_request_from_message(message, &request, NULL) != RS_OK)
        return;
    RS_CHECK(rs_request_to_message(&request, &again, NULL) == RS_OK);
    RS_CHECK(rs_request_from_message(again, &back, NULL) == RS_OK);
    RS_CHECK(rs_request_equal(&request, &back));
    rs_request_message_free(&again);
    rs_request_fini(&back);
    rs_request_to_json(&request, 1, &json);
    validate(&request);
    rs_buf_fini(&json);
    rs_request_fini(&request);
}

static void try_answer(const Rankscope__CaptureAnswer *message)
{
    struct rs_request_answer answer;
    struct rs_buf json = {0};
    if (rs_answer_from_message(message, &answer, NULL) != RS_OK)
        return;
    if (answer.count < 4096) {
        rs_request_answer_to_json(&answer, 0, &json);
        rs_request_answer_print(&answer, &json);
    }
    rs_buf_fini(&json);
    rs_request_answer_fini(&answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rs_message message;
    if (!size)
        return 0;
    const bool is_answer = data[0] & 1;
    struct rs_frame *frame = rs_frame_of(data + 1, size - 1);
    if (!frame)
        return 0;
    if (rs_message_unpack(&message,
                          is_answer ? &rankscope__capture_answer__descriptor
                                    : &rankscope__capture_request__descriptor,
                          frame, NULL) == RS_OK) {
        if (is_answer)
            try_answer((const Rankscope__CaptureAnswer *)message.body);
        else
            try_request((const Rankscope__CaptureRequest *)message.body);
    }
    rs_message_fini(&message);
    rs_frame_free(&frame);
    return 0;
}
