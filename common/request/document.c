/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request's own document: every member, in the order of the table, groups as objects.
 */
#include "common/base/json_out.h"
#include "common/request/request_priv.h"

#include <stdio.h>
#include <string.h>

enum { SCHEMA_VERSION = 1 };

void text_write_json(struct rs_json_out *json, const char *json_text)
{
    rs_json_out_number(json, json_text); /* raw: JSON that was read as such */
}

static void write_set(const struct field *field, uint32_t bits, struct rs_json_out *json)
{
    rs_json_out_array(json);
    for (size_t i = 0; i < field->names->count; i++)
        if (bits & field->names->items[i].value)
            rs_json_out_string(json, field->names->items[i].name);
    rs_json_out_end(json);
}

static void write_optional(const struct field *field, const void *value, struct rs_json_out *json)
{
    if (field->kind == FIELD_OPT_DOUBLE) {
        const struct rs_optional_double *optional = value;
        if (optional->is_set)
            rs_json_out_double(json, optional->value);
        else
            rs_json_out_null(json);
        return;
    }
    const struct rs_optional_u32 *narrow = value;
    const struct rs_optional_u64 *wide = value;
    const bool is_narrow = field->kind == FIELD_OPT_U32;
    if (is_narrow ? narrow->is_set : wide->is_set)
        rs_json_out_uint(json, is_narrow ? narrow->value : wide->value);
    else
        rs_json_out_null(json);
}

static void write_list(const struct field *field, const void *value, struct rs_json_out *json)
{
    rs_json_out_array(json);
    if (field->kind == FIELD_RANKS) {
        const struct rs_request_ranks *ranks = value;
        for (size_t i = 0; i < ranks->count; i++)
            rs_json_out_uint(json, ranks->items[i]);
    } else {
        const struct rs_request_texts *texts = value;
        for (size_t i = 0; i < texts->count; i++)
            rs_json_out_string(json, texts->items[i]);
    }
    rs_json_out_end(json);
}

static void write_pairs(const struct field *field, const struct rs_request_pairs *pairs,
                        struct rs_json_out *json)
{
    rs_json_out_object(json);
    for (size_t i = 0; i < pairs->count; i++) {
        rs_json_out_key(json, pairs->items[i].key);
        if (field->kind == FIELD_JSONS)
            text_write_json(json, pairs->items[i].value);
        else
            rs_json_out_string(json, pairs->items[i].value);
    }
    rs_json_out_end(json);
}

void field_write(const struct field *field, const struct rs_capture_request *request,
                 struct rs_json_out *json)
{
    const void *value = field_of(request, field);
    uint32_t word = 0;
    switch (field->kind) {
    case FIELD_TEXT:
        rs_json_out_string(json, value);
        return;
    case FIELD_BOOL:
        rs_json_out_bool(json, *(const bool *)value);
        return;
    case FIELD_U32:
        rs_json_out_uint(json, *(const uint32_t *)value);
        return;
    case FIELD_I32:
        rs_json_out_int(json, *(const int32_t *)value);
        return;
    case FIELD_I64:
        rs_json_out_int(json, *(const int64_t *)value);
        return;
    case FIELD_ENUM:
        memcpy(&word, value, sizeof word);
        rs_json_out_string(json, field_name_of(field->names, word));
        return;
    case FIELD_SET:
        write_set(field, *(const uint32_t *)value, json);
        return;
    case FIELD_OPT_U32:
    case FIELD_OPT_U64:
    case FIELD_OPT_DOUBLE:
        write_optional(field, value, json);
        return;
    case FIELD_RANKS:
    case FIELD_TEXTS:
        write_list(field, value, json);
        return;
    case FIELD_PAIRS:
    case FIELD_JSONS:
        write_pairs(field, value, json);
        return;
    }
}

void rs_request_to_json(const struct rs_capture_request *request, unsigned indent_count,
                        struct rs_buf *buf)
{
    struct rs_json_out json;
    const char *group = "";
    rs_json_out_init(&json, buf, indent_count);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "schema_version");
    rs_json_out_int(&json, SCHEMA_VERSION);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct field *field = &request_fields[i];
        if (strcmp(field->group, group) != 0) { /* members of a group stand together */
            if (*group)
                rs_json_out_end(&json);
            group = field->group;
            if (*group) {
                rs_json_out_key(&json, group);
                rs_json_out_object(&json);
            }
        }
        rs_json_out_key(&json, field->name);
        field_write(field, request, &json);
    }
    if (*group)
        rs_json_out_end(&json);
    rs_json_out_end(&json);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool is_group(const char *key)
{
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (*request_fields[i].group && strcmp(request_fields[i].group, key) == 0)
            return true;
    return false;
}

static void unknown_key(struct reading *reading, const char *group, const char *key,
                        const struct json_place *place)
{
    const char *names[FIELD_COUNT + 5];
    size_t count = 0;
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (strcmp(request_fields[i].group, group) == 0)
            names[count++] = request_fields[i].name;
    if (!*group) {
        names[count++] = "schedule";
        names[count++] = "experimental";
        names[count++] = "mindspore";
    }
    names[count] = NULL;
    reading_unknown(reading, key, place, names);
}

static void read_version(struct reading *reading, const json_t *value)
{
    if (!json_is_integer(value) || json_integer_value(value) != SCHEMA_VERSION)
        note_at(reading->notes, RS_RULE_OTHER_VERSION, "schema_version", &reading->walk.place,
                "expected %d", SCHEMA_VERSION);
    json_walk_skip(&reading->walk);
}

static void read_members(struct reading *reading, const char *group, json_t *object);

static void read_group(struct reading *reading, const char *key, json_t *value)
{
    if (json_is_object(value)) {
        read_members(reading, key, value);
        return;
    }
    note_at(reading->notes, RS_RULE_WRONG_TYPE, key, &reading->walk.place, "expected an object");
    json_walk_skip(&reading->walk);
}

static void read_members(struct reading *reading, const char *group, json_t *object)
{
    const char *key;
    json_t *value;
    json_walk_enter(&reading->walk);
    json_object_foreach(object, key, value)
    {
        struct json_place place;
        char path[RS_REQUEST_MEMBER_BYTES];
        if (!json_walk_member(&reading->walk, &place))
            break;
        const size_t field = field_find(group, key);
        (void)snprintf(path, sizeof path, "%s%s%.30s", group, *group ? "." : "", key);
        if (field < FIELD_COUNT) {
            reading_value(reading, field, path, value);
        } else if (!*group && strcmp(key, "schema_version") == 0) {
            read_version(reading, value);
        } else if (!*group && is_group(key)) {
            read_group(reading, key, value);
        } else {
            unknown_key(reading, group, key, &place);
            json_walk_skip(&reading->walk);
        }
    }
    json_walk_leave(&reading->walk);
}

/* Which defaults hold has to be known before anything is read; what is wrong with the two is noted when they are. */
static uint32_t peek_name(const json_t *root, size_t field, uint32_t otherwise)
{
    const struct field_names *names = request_fields[field].names;
    const char *text = json_string_value(json_object_get(root, request_fields[field].name));
    const size_t index = text ? field_name_find(names, text) : names->count;
    return index < names->count ? names->items[index].value : otherwise;
}

enum rs_status rs_request_from_json(const char *text, size_t length,
                                    struct rs_capture_request *request,
                                    struct rs_request_notes *notes, struct rs_err *err)
{
    struct reading reading = {.request = request, .notes = notes};
    json_t *root = NULL;
    memset(request, 0, sizeof *request);
    enum rs_status status = reading_open(&reading, text, length, &root);
    if (status == RS_OK) {
        status =
            rs_request_init(request, (enum rs_dialect)peek_name(root, F_DIALECT, RS_DIALECT_ASCEND),
                            (enum rs_origin)peek_name(root, F_ORIGIN, RS_ORIGIN_CLI));
        if (status == RS_OK) {
            const size_t first = notes->count;
            read_members(&reading, "", root);
            status = rs_request_check(request, NULL, notes);
            reading_place_notes(&reading, first);
        }
        json_decref(root);
    }
    if (status == RS_NOMEM)
        notes->failed = true;
    status = reading_result(notes, err);
    if (status < 0)
        rs_request_fini(request);
    return status;
}
