/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One key of a profiler_config.json, changed where it stands: every other byte stays as it is.
 *
 *     {                                   {
 *         "active": 1,                        "active": 3,      the value's bytes are replaced
 *         "is_rank": false                    "is_rank": false,
 *     }                                       "warmup": 1       a key that is not there goes behind the last,
 *                                         }                     as far in as the last is
 */
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/request/config_priv.h"

#include <stdlib.h>
#include <string.h>

/* Where something is in the text. */
struct span {
    size_t start, end;
};

/* What is to be changed, taken apart. */
struct edit {
    const char *group; /* object the key is in; "" the outermost */
    const char *name;
    struct rs_buf value; /* JSON */
};

/* The object's members: the value of `name`; else where the last member ends and what stands before its key. */
struct found {
    bool has_member; /* `name` is there */
    bool is_object;
    size_t members;
    struct span value;  /* of `name` */
    struct span object; /* from "{" to behind "}" */
    size_t last_end;    /* behind the last member's value */
    size_t last_key;    /* where the last member's key starts */
};

static bool key_equals(const char *text, const struct json_place *key, size_t value_at,
                       const char *name)
{
    const size_t length = strlen(name);
    /* Keys of ours have no escapes; one that is written with escapes is found as unknown later. */
    return key->at + length + 2 <= value_at && text[key->at] == '"' &&
           memcmp(text + key->at + 1, name, length) == 0 && text[key->at + 1 + length] == '"';
}

static struct found look(const char *text, size_t length, size_t object_at, const char *name)
{
    struct found found = {.object = {object_at, object_at}};
    struct json_walk walk;
    struct json_place key;
    json_walk_init(&walk, text, length);
    while (walk.place.at < object_at && walk.place.at < length) { /* no lines are needed here */
        walk.place.at++;
    }
    found.is_object = object_at < length && text[object_at] == '{';
    if (!found.is_object)
        return found;
    json_walk_enter(&walk);
    while (json_walk_member(&walk, &key)) {
        const size_t value_at = walk.place.at;
        json_walk_skip(&walk);
        if (key_equals(text, &key, value_at, name)) {
            found.has_member = true;
            found.value = (struct span){value_at, walk.place.at};
        }
        found.members++;
        found.last_end = walk.place.at;
        found.last_key = key.at;
    }
    json_walk_leave(&walk);
    found.object.end = walk.place.at;
    return found;
}

static void put_span(struct rs_buf *buf, const char *text, size_t start, size_t end)
{
    if (end > start)
        rs_buf_bytes(buf, text + start, end - start);
}

/* The blanks that stand before the last member, from the line end on; "" when it is on the line of others. */
static struct span indent_of(const char *text, const struct found *found)
{
    size_t start = found->last_key;
    while (start && (text[start - 1] == ' ' || text[start - 1] == '\t'))
        start--;
    if (start && text[start - 1] == '\n') {
        start--;
        if (start && text[start - 1] == '\r')
            start--;
        return (struct span){start, found->last_key};
    }
    return (struct span){0, 0};
}

static void put_member(const char *name, const struct rs_buf *value, struct rs_buf *buf)
{
    rs_buf_u8(buf, '"');
    rs_buf_string(buf, name);
    rs_buf_string(buf, "\": ");
    rs_buf_bytes(buf, value->data, value->length);
}

static void put_change(const char *text, size_t length, const struct found *found,
                       const struct edit *edit, struct rs_buf *buf)
{
    if (found->has_member) {
        put_span(buf, text, 0, found->value.start);
        rs_buf_bytes(buf, edit->value.data, edit->value.length);
        put_span(buf, text, found->value.end, length);
        return;
    }
    if (!found->members) {
        put_span(buf, text, 0, found->object.start + 1);
        put_member(edit->name, &edit->value, buf);
        put_span(buf, text, found->object.end - 1, length);
        return;
    }
    const struct span indent = indent_of(text, found);
    put_span(buf, text, 0, found->last_end);
    rs_buf_u8(buf, ',');
    if (indent.end > indent.start)
        put_span(buf, text, indent.start, indent.end);
    else
        rs_buf_u8(buf, ' ');
    put_member(edit->name, &edit->value, buf);
    put_span(buf, text, found->last_end, length);
}

/* {"name": value}, to stand where a whole object is missing. */
static void wrap(struct edit *edit)
{
    struct rs_buf outer = {0};
    rs_buf_u8(&outer, '{');
    put_member(edit->name, &edit->value, &outer);
    rs_buf_u8(&outer, '}');
    rs_buf_fini(&edit->value);
    edit->value = outer;
    edit->name = edit->group;
    edit->group = "";
}

static enum rs_status apply(const char *text, size_t length, struct edit *edit, struct rs_buf *buf,
                            struct rs_err *err)
{
    size_t at = 0;
    while (at < length && text[at] != '{')
        at++;
    if (*edit->group) {
        const struct found outer = look(text, length, at, edit->group);
        if (outer.has_member && text[outer.value.start] == '{')
            at = outer.value.start;
        else
            wrap(edit); /* the group is not there, or is no object: it becomes one */
    }
    const struct found found = look(text, length, at, edit->name);
    if (!found.is_object || !found.object.end)
        return rs_err_set(err, RS_INVALID, "the text is not a JSON object");
    put_change(text, length, &found, edit, buf);
    return buf->failed || edit->value.failed
               ? rs_err_set(err, RS_NOMEM, "no memory for a configuration")
               : RS_OK;
}

/* ---- key and value --------------------------------------------------------------------------------------------------- */

static enum rs_status no_such_key(enum rs_config_framework framework, const char *name,
                                  struct rs_err *err)
{
    const char *nearest = NULL;
    size_t best = WORD_NEAR;
    for (const struct config_key *key = config_keys(framework); key->name; key++) {
        const size_t d = word_distance(name, key->name);
        if (d < best) {
            best = d;
            nearest = key->name;
        }
    }
    return rs_err_set(err, RS_NOTFOUND, "%s has no key \"%.60s\"%s%s%s",
                      rs_config_framework_name(framework), name, nearest ? "; did you mean \"" : "",
                      nearest ? nearest : "", nearest ? "\"?" : "");
}

/* "experimental_config.mstx" or "mstx": no name stands in two groups. */
static const struct config_key *find_key(enum rs_config_framework framework, const char *text)
{
    for (const struct config_key *key = config_keys(framework); key->name; key++) {
        const size_t group = strlen(key->group);
        if (strcmp(text, key->name) == 0)
            return key;
        if (group && strncmp(text, key->group, group) == 0 && text[group] == '.' &&
            strcmp(text + group + 1, key->name) == 0)
            return key;
    }
    return NULL;
}

static bool is_json(const char *text)
{
    json_t *tree = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    const bool is_good = tree != NULL;
    json_decref(tree);
    return is_good;
}

static void put_string(struct rs_buf *buf, const char *text)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, 0);
    rs_json_out_string(&json, text);
}

/* JSON that goes in as it is; a bare 5 is an element where a list is wanted, and a name where a text is. Only MindSpore
 * has numbers for names; torch_npu's reader complains about them. */
static bool stands_for_itself(const struct field *field, const char *word)
{
    if (field->kind == FIELD_TEXT)
        return *word == '"';
    if (field->kind == FIELD_RANKS || field->kind == FIELD_TEXTS)
        return *word == '[';
    if (field->kind == FIELD_SET)
        return *word == '[' || (*word >= '0' && *word <= '9');
    return true;
}

static enum rs_status make_value(const struct config_key *key, const char *word, struct rs_buf *buf,
                                 struct rs_err *err)
{
    const struct field *field = &request_fields[key->field];
    const bool is_bare = field->kind == FIELD_TEXT || field->kind == FIELD_ENUM;
    if (is_json(word) && stands_for_itself(field, word)) {
        rs_buf_string(buf, word);
        return RS_OK;
    }
    if (is_bare) {
        put_string(buf, word);
        return RS_OK;
    }
    json_t *value = value_of_word(field, word);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    if (text)
        rs_buf_string(buf, text);
    json_decref(value);
    const bool is_good = text != NULL;
    free(text); /* jansson's */
    return is_good ? RS_OK : rs_err_set(err, RS_INVALID, "\"%.60s\" is no value", word);
}

static bool is_plain_name(const char *name)
{
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == '"' || *p == '\\')
            return false;
    return strlen(name) <= 256;
}

static enum rs_status check_text(const char *text, size_t length, struct rs_err *err)
{
    json_error_t wrong;
    json_t *root = json_loadb(length ? text : "", length, JSON_REJECT_DUPLICATES, &wrong);
    const bool is_object = json_is_object(root);
    json_decref(root);
    if (is_object)
        return RS_OK;
    if (root)
        return rs_err_set(err, RS_INVALID, "the text is not a JSON object");
    return rs_err_set(err, RS_INVALID, "line %d, column %d: %s", wrong.line, wrong.column,
                      wrong.text);
}

/* The key taken apart, the value as JSON. */
static enum rs_status make_edit(enum rs_config_framework framework, const char *key,
                                const char *value, struct edit *edit, struct rs_err *err)
{
    if (framework == RS_CONFIG_TORCH_NPU && strncmp(key, "metadata.", 9) == 0 && key[9]) {
        edit->group = "metadata";
        edit->name = key + 9;
        if (!is_plain_name(edit->name))
            return rs_err_set(err, RS_INVALID, "\"%.60s\" cannot be a key", edit->name);
        if (is_json(value))
            rs_buf_string(&edit->value, value);
        else
            put_string(&edit->value, value);
        return RS_OK;
    }
    const struct config_key *found = find_key(framework, key);
    if (!found)
        return no_such_key(framework, key, err);
    edit->group = found->group;
    edit->name = found->name;
    return make_value(found, value, &edit->value, err);
}

enum rs_status rs_request_config_edit(const struct rs_config_text *config, const char *key,
                                      const char *value, struct rs_buf *buf, struct rs_err *err)
{
    struct edit edit = {.group = ""};
    enum rs_status status = check_text(config->text, config->length, err);
    if (status == RS_OK)
        status = make_edit(config->framework, key, value, &edit, err);
    if (status == RS_OK)
        status = apply(config->text, config->length, &edit, buf, err);
    rs_buf_fini(&edit.value);
    return status;
}
