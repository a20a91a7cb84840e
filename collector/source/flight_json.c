/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON form of a dump: read by jansson, then put into the form of pickled values, so that one piece of code
 * understands both. It lacks frames, says 0 where a time is not known, and some of its numbers are texts.
 *
 * A truncated text is mended first: it is cut behind the last value that is whole and closed again.
 */
#include "collector/source/flight_priv.h"
#include "common/base/mem.h"

#include <jansson.h>

#include <string.h>

enum { DEPTH_MAX = 16 };

static enum rs_status value_of(struct rs_flight_reader *reader, json_t *json, unsigned depth,
                               struct rs_pickle_value *value_p);

/* Items go to a small array of their own first: the arena moves while they are made. */
static enum rs_status container_of(struct rs_flight_reader *reader, json_t *json, unsigned depth,
                                   struct rs_pickle_value *value_p)
{
    struct rs_pickle *pickle = &reader->pickle;
    const bool is_object = json_is_object(json);
    const size_t count = is_object ? 2 * json_object_size(json) : json_array_size(json);
    struct rs_pickle_value *items = rs_mem_calloc(count + 1, sizeof *items);
    enum rs_status status = items ? RS_OK : RS_NOMEM;
    size_t at = 0;
    if (is_object) {
        const char *key;
        json_t *member;
        json_object_foreach(json, key, member)
        {
            if (status == RS_OK)
                status = rs_pickle_add_text(pickle, key, strlen(key), &items[at++]);
            if (status == RS_OK)
                status = value_of(reader, member, depth + 1, &items[at++]);
        }
    } else {
        for (size_t i = 0; i < count && status == RS_OK; i++)
            status = value_of(reader, json_array_get(json, i), depth + 1, &items[at++]);
    }
    const enum rs_pickle_kind kind = is_object ? RS_PICKLE_DICT : RS_PICKLE_LIST;
    const bool is_taken =
        status == RS_OK && is_object && flight_take_entry(reader, pickle, items, count, &status);
    if (status == RS_OK)
        status = rs_pickle_add_object(pickle, kind, items, is_taken ? 0 : count, value_p);
    rs_mem_free(items);
    return status;
}

static enum rs_status value_of(struct rs_flight_reader *reader, json_t *json, unsigned depth,
                               struct rs_pickle_value *value_p)
{
    *value_p = (struct rs_pickle_value){0};
    if (depth > DEPTH_MAX)
        return RS_LIMIT;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        return container_of(reader, json, depth, value_p);
    case JSON_STRING:
        return rs_pickle_add_text(&reader->pickle, json_string_value(json),
                                  json_string_length(json), value_p);
    case JSON_INTEGER:
        *value_p =
            (struct rs_pickle_value){.kind = RS_PICKLE_INT, .number = json_integer_value(json)};
        return RS_OK;
    case JSON_REAL:
        *value_p = (struct rs_pickle_value){.kind = RS_PICKLE_FLOAT, .real = json_real_value(json)};
        return RS_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        *value_p = (struct rs_pickle_value){.kind = RS_PICKLE_BOOL, .number = json_is_true(json)};
        return RS_OK;
    case JSON_NULL:
        return RS_OK;
    }
    return RS_OK;
}

/* --- truncated text --------------------------------------------------------------------------------------------- */

struct brackets {
    char open[DEPTH_MAX];
    unsigned depth;
};

/* The longest beginning behind which only brackets are missing: it ends behind a whole call (an object in a list), or a
 * whole member of the outermost object. */
static size_t whole_length(const char *text, size_t length, struct brackets *brackets)
{
    struct brackets now = {.depth = 0};
    size_t best = 0;
    bool in_text = false;
    for (size_t i = 0; i < length; i++) {
        const char byte = text[i];
        if (in_text) {
            i += byte == '\\';
            in_text = byte != '"';
            continue;
        }
        in_text = byte == '"';
        if (byte == '{' || byte == '[') {
            if (now.depth == DEPTH_MAX)
                break;
            now.open[now.depth++] = byte;
        } else if (byte == '}' || byte == ']') {
            if (!now.depth)
                break;
            now.depth--;
            if (byte == '}' && now.depth && (now.depth == 1 || now.open[now.depth - 1] == '[')) {
                best = i + 1;
                *brackets = now;
            }
        }
    }
    return best;
}

static json_t *mended(struct rs_flight_reader *reader, const char *text, size_t length)
{
    struct brackets brackets = {.depth = 0};
    const size_t whole = whole_length(text, length, &brackets);
    if (!whole || !brackets.depth)
        return NULL;
    rs_buf_reset(&reader->text);
    rs_buf_bytes(&reader->text, text, whole);
    while (brackets.depth)
        rs_buf_u8(&reader->text, brackets.open[--brackets.depth] == '{' ? '}' : ']');
    json_t *json = json_loadb(rs_buf_text(&reader->text), reader->text.length, 0, NULL);
    rs_buf_reset(&reader->text);
    return json;
}

enum rs_status flight_read_json(struct rs_flight_reader *reader, const char *text, size_t length,
                                struct rs_err *err)
{
    json_error_t wrong;
    enum rs_status whole = RS_OK;
    json_t *json = json_loadb(text, length, 0, &wrong);
    if (!json) {
        json = mended(reader, text, length);
        if (!json)
            return rs_err_set(err, RS_NOTFOUND, "no JSON: line %d: %s", wrong.line, wrong.text);
        whole = rs_err_set(err, RS_PARTIAL, "the JSON ends too early, at byte %zu", length);
    }
    struct rs_pickle_value root;
    size_t count;
    rs_pickle_reset(&reader->pickle);
    enum rs_status status = json_is_object(json)
                                ? value_of(reader, json, 0, &root)
                                : rs_err_set(err, RS_NOTFOUND, "JSON, but no flight recorder dump");
    if (status == RS_OK) {
        const struct rs_pickle_value *items = rs_pickle_items(&reader->pickle, root, &count);
        status = flight_take_root(reader, items, count, err);
    }
    if (status == RS_LIMIT)
        (void)rs_err_set(err, status, "the JSON is beyond a limit of depth or size");
    json_decref(json);
    return status == RS_OK ? whole : status;
}
