/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a profiler_config.json, a request document, a roles file, and as a file that is edited. The first byte says
 * which. What is accepted is written and reads back the same; what is refused says why, with a place inside the text.
 */
#include "common/base/check.h"
#include "common/request/request.h"
#include "common/request/roles.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_notes(const struct rs_request_notes *notes, enum rs_status status,
                        const char *text, size_t size)
{
    size_t lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    RS_CHECK((status == RS_OK) == (notes->refusal_count == 0));
    for (size_t i = 0; i < notes->count; i++) {
        const struct rs_request_note *note = &notes->items[i];
        RS_CHECK(note->line <= lines && note->column <= size + 1);
        RS_CHECK(memchr(note->text, '\0', sizeof note->text) != NULL);
    }
}

static void read_config(const char *text, size_t size, enum rs_config_framework framework)
{
    struct rs_capture_request request, again;
    struct rs_request_notes notes = {0};
    struct rs_buf buf = {0};
    struct rs_err err;
    const enum rs_status status =
        rs_request_from_config(text, size, &framework, &request, &notes, &err);
    check_notes(&notes, status, text, size);
    rs_request_notes_fini(&notes);
    if (status != RS_OK)
        return;
    RS_CHECK(rs_request_to_config(&request, framework, &buf, &err) == RS_OK);
    if (buf.length < RS_REQUEST_TEXT_MAX_BYTES) {
        RS_CHECK(rs_request_from_config((const char *)buf.data, buf.length, &framework, &again,
                                        &notes, &err) == RS_OK);
        rs_request_notes_fini(&notes);
        rs_buf_reset(&buf);
        rs_request_to_json(&again, 0, &buf);
        rs_request_fini(&again);
        RS_CHECK(rs_request_from_json((const char *)buf.data, buf.length, &again, &notes, &err) ==
                 RS_OK);
        rs_request_notes_fini(&notes);
        rs_request_fini(&again);
    }
    rs_buf_fini(&buf);
    rs_request_fini(&request);
}

static void read_document(const char *text, size_t size)
{
    struct rs_capture_request request, again;
    struct rs_request_notes notes = {0};
    struct rs_buf first = {0}, second = {0};
    struct rs_err err;
    const enum rs_status status = rs_request_from_json(text, size, &request, &notes, &err);
    check_notes(&notes, status, text, size);
    rs_request_notes_fini(&notes);
    if (status != RS_OK)
        return;
    rs_request_to_json(&request, 2, &first);
    RS_CHECK(rs_request_from_json((const char *)first.data, first.length, &again, &notes, &err) ==
             RS_OK);
    RS_CHECK(rs_request_equal(&request, &again));
    rs_request_to_json(&again, 2, &second);
    RS_CHECK(first.length == second.length && memcmp(first.data, second.data, first.length) == 0);
    rs_request_notes_fini(&notes);
    rs_request_fini(&request);
    rs_request_fini(&again);
    rs_buf_fini(&first);
    rs_buf_fini(&second);
}

static void edit(const char *text, size_t size)
{
    static const char *const settings[][2] = {{"active", "7"},
                                              {"experimental_config.mstx", "true"},
                                              {"metadata.k", "v"},
                                              {"rank_list", "1,3"}};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        struct rs_buf once = {0}, twice = {0};
        struct rs_err err;
        const struct rs_config_text given = {text, size, RS_CONFIG_TORCH_NPU};
        if (rs_request_config_edit(&given, settings[i][0], settings[i][1], &once, &err) == RS_OK) {
            /* what came out is an object again, and setting the same once more changes nothing */
            const struct rs_config_text next = {(const char *)once.data, once.length,
                                                RS_CONFIG_TORCH_NPU};
            RS_CHECK(rs_request_config_edit(&next, settings[i][0], settings[i][1], &twice, &err) ==
                     RS_OK);
            RS_CHECK(once.length == twice.length &&
                     memcmp(once.data, twice.data, once.length) == 0);
        }
        rs_buf_fini(&once);
        rs_buf_fini(&twice);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const char *text = (const char *)data + 1;
    struct rs_roles roles;
    struct rs_err err;
    switch (data[0] % 5) {
    case 0:
        read_config(text, size - 1, RS_CONFIG_TORCH_NPU);
        break;
    case 1:
        read_config(text, size - 1, RS_CONFIG_MINDSPORE);
        break;
    case 2:
        read_document(text, size - 1);
        break;
    case 3:
        edit(text, size - 1);
        break;
    default:
        if (rs_roles_from_json(text, size - 1, 64, &roles, &err) == RS_OK) {
            struct rs_rank_row row = {.rank = 5, .role = {-1, -1, -1, -1, -1}};
            rs_roles_apply(&roles, &row);
            rs_roles_fini(&roles);
        }
        break;
    }
    return 0;
}
