/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler_config.json as `rankscope config` hands it out, edits it and tells what is wrong with it: texts only; who reads and writes
 * files says where they are (`path` is for messages).
 */
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/request/request.h"

#include <string.h>

void rs_request_notes_print(const char *path, const struct rs_request_notes *notes,
                            bool (*is_wanted)(const struct rs_request_note *note),
                            struct rs_buf *buf)
{
    for (size_t i = 0; i < notes->count; i++) {
        const struct rs_request_note *note = &notes->items[i];
        if (is_wanted && !is_wanted(note))
            continue;
        rs_buf_string(buf, path);
        if (note->line)
            rs_buf_printf(buf, ":%u:%u", note->line, note->column);
        rs_buf_string(buf, ": ");
        rs_request_note_print(note, buf);
        rs_buf_u8(buf, '\n');
    }
    if (notes->left_off_count && !is_wanted)
        rs_buf_printf(buf, "%s: and %zu more\n", path, notes->left_off_count);
}

enum rs_status rs_config_template(enum rs_config_framework framework, struct rs_buf *buf,
                                  struct rs_err *err)
{
    const bool is_mindspore = framework == RS_CONFIG_MINDSPORE;
    struct rs_capture_request request;
    enum rs_status status = rs_request_init(
        &request, is_mindspore ? RS_DIALECT_MINDSPORE : RS_DIALECT_ASCEND, RS_ORIGIN_CONFIG_FILE);
    if (status < 0)
        return rs_err_set(err, status, "no memory for a template");
    status = rs_request_to_config(&request, framework, buf, err);
    rs_request_fini(&request);
    return status;
}

void rs_config_document(const char *path, enum rs_config_framework framework,
                        const struct rs_request_notes *notes,
                        const struct rs_capture_request *request, struct rs_buf *buf)
{
    struct rs_json_out json;
    struct rs_buf document = {0};
    rs_json_out_init(&json, buf, 2);
    rs_json_out_object(&json);
    rs_json_put_int(&json, "schema_version", 1);
    rs_json_put_string(&json, "file", path);
    rs_json_put_text(&json, "framework",
                     framework == RS_CONFIG_DETECT ? NULL : rs_config_framework_name(framework));
    rs_json_put_bool(&json, "valid", request != NULL);
    rs_json_out_key(&json, "notes");
    rs_request_notes_to_json(notes, &json);
    rs_json_out_key(&json, "request");
    if (request)
        rs_request_to_json(request, 0, &document);
    rs_json_out_number(&json, request ? rs_buf_text(&document) : "null"); /* JSON as it is */
    rs_json_out_end(&json);
    rs_buf_u8(buf, '\n');
    rs_buf_fini(&document);
}

static enum rs_status edit_one(struct rs_buf *text, enum rs_config_framework framework,
                               const char *setting, struct rs_err *err)
{
    const char *equals = strchr(setting, '=');
    if (!equals || equals == setting)
        return rs_err_set(err, RS_INVALID, "KEY=VALUE is expected, not \"%.60s\"", setting);
    char *key = rs_mem_strndup(setting, (size_t)(equals - setting));
    struct rs_buf next = {0};
    const struct rs_config_text config = {(const char *)text->data, text->length, framework};
    const enum rs_status status = key ? rs_request_config_edit(&config, key, equals + 1, &next, err)
                                      : rs_err_set(err, RS_NOMEM, "no memory for a key");
    rs_mem_free(key);
    struct rs_buf *old = status < 0 ? &next : text;
    rs_buf_fini(old);
    if (status == RS_OK)
        *text = next;
    return status;
}

enum rs_status rs_config_edit_all(const char *path, struct rs_buf *text,
                                  enum rs_config_framework framework, char *const *settings,
                                  struct rs_request_notes *notes, struct rs_err *err)
{
    struct rs_request_notes before = {0};
    struct rs_capture_request request = {0};
    struct rs_err ignored;
    enum rs_status status = RS_OK;
    /* The framework of the text as it is; what is wrong with it may be what is about to be mended. */
    if (rs_request_from_config((const char *)text->data, text->length, &framework, &request,
                               &before, &ignored) == RS_OK)
        rs_request_fini(&request);
    rs_request_notes_fini(&before);
    if (framework == RS_CONFIG_DETECT)
        return rs_err_set(err, RS_INVALID, "%s is not a JSON object; see config validate", path);
    for (; *settings && status == RS_OK; settings++)
        status = edit_one(text, framework, *settings, err);
    if (status < 0)
        return status;
    status = rs_request_from_config((const char *)text->data, text->length, &framework, &request,
                                    notes, err);
    rs_request_fini(&request);
    return status == RS_INVALID
               ? rs_err_set(err, RS_INVALID, "%s would not be valid and is left as it is", path)
               : status;
}
