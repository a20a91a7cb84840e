/* SPDX-License-Identifier: Apache-2.0 */
/* profiler_config.json as `rankscope config` makes it, changes it and tells what is wrong with it. */
#include "common/request/request.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>

static void assert_has(struct rs_buf *buf, const char *wanted)
{
    if (!strstr(rs_buf_text(buf), wanted))
        fail_msg("\"%s\" is not in:\n%s", wanted, rs_buf_text(buf));
}

static void make(enum rs_config_framework framework, struct rs_buf *buf)
{
    *buf = (struct rs_buf){0};
    assert_ok(rs_config_template(framework, buf, NULL));
}

static enum rs_status edit(struct rs_buf *text, const char *setting, struct rs_request_notes *notes,
                           struct rs_err *err)
{
    char word[80];
    char *settings[] = {word, NULL};
    (void)snprintf(word, sizeof word, "%s", setting);
    return rs_config_edit_all("a.json", text, RS_CONFIG_DETECT, settings, notes, err);
}

static void a_template_is_valid_and_taken_for_what_it_is(void **state)
{
    (void)state;
    static const enum rs_config_framework frameworks[] = {RS_CONFIG_TORCH_NPU, RS_CONFIG_MINDSPORE};
    for (size_t i = 0; i < 2; i++) {
        struct rs_buf text;
        struct rs_request_notes notes = {0};
        struct rs_capture_request request;
        enum rs_config_framework framework = RS_CONFIG_DETECT;
        make(frameworks[i], &text);
        assert_ok(rs_request_from_config(rs_buf_text(&text), text.length, &framework, &request,
                                         &notes, NULL));
        assert_int_equal(framework, frameworks[i]);
        rs_request_fini(&request);
        rs_request_notes_fini(&notes);
        rs_buf_fini(&text);
    }
}

static void keys_are_changed_one_after_the_other(void **state)
{
    (void)state;
    struct rs_buf text;
    struct rs_request_notes notes = {0};
    char start[] = "start_step=12", active[] = "active=3";
    char *settings[] = {start, active, NULL};
    make(RS_CONFIG_TORCH_NPU, &text);
    assert_ok(rs_config_edit_all("a.json", &text, RS_CONFIG_DETECT, settings, &notes, NULL));
    assert_has(&text, "\"start_step\": 12");
    assert_has(&text, "\"active\": 3");
    rs_request_notes_fini(&notes);
    rs_buf_fini(&text);
}

static void what_would_not_be_valid_is_refused_with_its_place(void **state)
{
    (void)state;
    struct rs_buf text, told = {0};
    struct rs_request_notes notes = {0};
    struct rs_err err = {0};
    make(RS_CONFIG_TORCH_NPU, &text);
    assert_status(edit(&text, "active=-2", &notes, &err), RS_INVALID);
    assert_string_equal(err.text, "a.json would not be valid and is left as it is");
    rs_request_notes_print("a.json", &notes, NULL, &told);
    assert_memory_equal(rs_buf_text(&told), "a.json:", 7);
    assert_has(&told, ": error: active: ");
    rs_buf_fini(&told);
    rs_request_notes_fini(&notes);
    rs_buf_fini(&text);
}

static void what_is_no_setting_or_no_object_is_said(void **state)
{
    (void)state;
    struct rs_buf text, other = {0};
    struct rs_request_notes notes = {0};
    struct rs_err err = {0};
    make(RS_CONFIG_TORCH_NPU, &text);
    assert_status(edit(&text, "active", &notes, &err), RS_INVALID);
    assert_string_equal(err.text, "KEY=VALUE is expected, not \"active\"");
    assert_status(edit(&text, "actve=1", &notes, &err), RS_NOTFOUND);
    rs_buf_string(&other, "[1]");
    assert_status(edit(&other, "active=1", &notes, &err), RS_INVALID);
    assert_string_equal(err.text, "a.json is not a JSON object; see config validate");
    rs_request_notes_fini(&notes);
    rs_buf_fini(&other);
    rs_buf_fini(&text);
}

static bool is_none(const struct rs_request_note *note)
{
    (void)note;
    return false;
}

static void only_notes_that_are_wanted_are_printed(void **state)
{
    (void)state;
    struct rs_buf text, told = {0};
    struct rs_request_notes notes = {0};
    make(RS_CONFIG_TORCH_NPU, &text);
    assert_status(edit(&text, "active=-2", &notes, NULL), RS_INVALID);
    assert_true(notes.count > 0);
    rs_request_notes_print("a.json", &notes, is_none, &told);
    assert_string_equal(rs_buf_text(&told), "");
    rs_request_notes_fini(&notes);
    rs_buf_fini(&told);
    rs_buf_fini(&text);
}

static void the_document_has_the_request_or_null(void **state)
{
    (void)state;
    struct rs_buf document = {0};
    const struct rs_request_notes notes = {0};
    struct rs_capture_request request;
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CONFIG_FILE));
    rs_config_document("a.json", RS_CONFIG_TORCH_NPU, &notes, &request, &document);
    assert_has(&document, "\"framework\": \"torch_npu\"");
    assert_has(&document, "\"valid\": true");
    assert_has(&document, "\"request\": {");
    rs_buf_reset(&document);
    rs_config_document("a.json", RS_CONFIG_DETECT, &notes, NULL, &document);
    assert_has(&document, "\"framework\": null");
    assert_has(&document, "\"valid\": false");
    assert_has(&document, "\"request\": null");
    rs_request_fini(&request);
    rs_buf_fini(&document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_is_valid_and_taken_for_what_it_is),
        cmocka_unit_test(keys_are_changed_one_after_the_other),
        cmocka_unit_test(what_would_not_be_valid_is_refused_with_its_place),
        cmocka_unit_test(what_is_no_setting_or_no_object_is_said),
        cmocka_unit_test(only_notes_that_are_wanted_are_printed),
        cmocka_unit_test(the_document_has_the_request_or_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
