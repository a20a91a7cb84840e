/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members from JSON values and from words: types, ranges, names, and the place of what is wrong.
 *
 * Nothing here stops at the first mistake: what is wrong becomes a note, the member keeps its default, the reading
 * goes on.
 */
#include "common/base/mem.h"
#include "common/request/request_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t word_distance(const char *a, const char *b)
{
    enum { ROW = 32 };
    size_t row[ROW + 1];
    const size_t width = strnlen(b, ROW);
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 0; i < ROW && a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            const size_t above = row[j + 1];
            const size_t side = (above < row[j] ? above : row[j]) + 1;
            const size_t through = diagonal + (a[i] != b[j]);
            row[j + 1] = side < through ? side : through;
            diagonal = above;
        }
    }
    return row[width];
}

static const char *type_word(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number with a point";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "?";
}

/* What the functions below have in common. */
struct slot {
    struct reading *reading;
    const struct field *field;
    const char *key;
    struct json_place place; /* of the value, or of the element that is looked at */
};

static void wrong_type(const struct slot *slot, const char *wanted, const json_t *value)
{
    note_at(slot->reading->notes, RS_RULE_WRONG_TYPE, slot->key, &slot->place,
            "expected %s, found %s", wanted, type_word(value));
}

static void no_memory(const struct slot *slot)
{
    slot->reading->notes->failed = true;
}

/* Controls and over-long texts are noted. */
static bool is_good_text(const struct slot *slot, const char *text, size_t limit)
{
    const size_t length = strlen(text);
    if (length >= limit) {
        note_at(slot->reading->notes, RS_RULE_BAD_TEXT, slot->key, &slot->place,
                "at most %zu bytes, found %zu", limit - 1, length);
        return false;
    }
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            note_at(slot->reading->notes, RS_RULE_BAD_TEXT, slot->key, &slot->place, "byte 0x%02x",
                    (unsigned)(unsigned char)*p);
            return false;
        }
    return true;
}

static void read_text(const struct slot *slot, void *target, const json_t *value)
{
    if (!json_is_string(value)) {
        wrong_type(slot, "a string", value);
        return;
    }
    const char *text = json_string_value(value);
    if (is_good_text(slot, text, slot->field->size))
        memcpy(target, text, strlen(text) + 1);
}

static bool read_integer(const struct slot *slot, const json_t *value, const char *wanted,
                         int64_t *number_p)
{
    if (!json_is_integer(value)) {
        wrong_type(slot, wanted, value);
        return false;
    }
    const int64_t number = json_integer_value(value);
    if (number < slot->field->min || number > slot->field->max) {
        note_at(slot->reading->notes, RS_RULE_OUT_OF_RANGE, slot->key, &slot->place,
                "expected %" PRId64 " to %" PRId64 ", found %" PRId64, slot->field->min,
                slot->field->max, number);
        return false;
    }
    *number_p = number;
    return true;
}

static void read_number(const struct slot *slot, void *target, const json_t *value)
{
    int64_t number = 0;
    if (!read_integer(slot, value, "a whole number", &number))
        return;
    if (slot->field->kind == FIELD_U32)
        *(uint32_t *)target = (uint32_t)number;
    else if (slot->field->kind == FIELD_I32)
        *(int32_t *)target = (int32_t)number;
    else
        *(int64_t *)target = number;
}

static void read_optional(const struct slot *slot, void *target, const json_t *value)
{
    int64_t number = 0;
    if (slot->field->kind == FIELD_OPT_DOUBLE) {
        struct rs_optional_double *optional = target;
        if (json_is_null(value))
            *optional = (struct rs_optional_double){0};
        else if (json_is_number(value))
            *optional = (struct rs_optional_double){true, json_number_value(value)};
        else
            wrong_type(slot, "a number or null", value);
        return;
    }
    const bool is_set = !json_is_null(value);
    if (is_set && !read_integer(slot, value, "a whole number or null", &number))
        return;
    if (slot->field->kind == FIELD_OPT_U32)
        *(struct rs_optional_u32 *)target = (struct rs_optional_u32){is_set, (uint32_t)number};
    else
        *(struct rs_optional_u64 *)target = (struct rs_optional_u64){is_set, (uint64_t)number};
}

static void unknown_name(const struct slot *slot, const char *text)
{
    const struct field_names *names = slot->field->names;
    const char *nearest = NULL;
    size_t best = WORD_NEAR;
    char all[200];
    size_t used = 0;
    for (size_t i = 0; i < names->count; i++) {
        if (slot->field == &request_fields[F_AIC] && slot->reading->is_config && i == 0)
            continue; /* "by_level" is ours */
        const size_t d = word_distance(text, names->items[i].name);
        if (d < best) {
            best = d;
            nearest = names->items[i].name;
        }
        const int wrote =
            snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", names->items[i].name);
        if (wrote > 0 && used + (size_t)wrote < sizeof all)
            used += (size_t)wrote;
    }
    all[used] = '\0';
    if (nearest)
        note_at(slot->reading->notes, RS_RULE_UNKNOWN_NAME, slot->key, &slot->place,
                "\"%.40s\"; did you mean \"%s\"?", text, nearest);
    else
        note_at(slot->reading->notes, RS_RULE_UNKNOWN_NAME, slot->key, &slot->place,
                "\"%.40s\"; known are %s", text, all);
}

static void read_enum(const struct slot *slot, void *target, const json_t *value)
{
    if (!json_is_string(value)) {
        wrong_type(slot, "a string", value);
        return;
    }
    const char *text = json_string_value(value);
    const struct field_names *names = slot->field->names;
    const size_t index = field_name_find(names, text);
    const bool is_ours = slot->reading->is_config && slot->field == &request_fields[F_AIC] &&
                         index < names->count && names->items[index].value == RS_AIC_BY_LEVEL;
    if (index == names->count || is_ours) {
        unknown_name(slot, text);
        return;
    }
    memcpy(target, &names->items[index].value, sizeof(uint32_t));
}

/* The elements of a list, or one value that stands for a list of it. */
static size_t element_count(const json_t *value)
{
    return json_is_array(value) ? json_array_size(value) : 1;
}

static json_t *element_at(json_t *value, size_t index)
{
    return json_is_array(value) ? json_array_get(value, index) : value;
}

struct element_walk {
    struct json_walk walk;
    bool is_list;
};

static struct element_walk elements_of(const struct slot *slot, const json_t *value)
{
    struct element_walk elements = {slot->reading->walk, json_is_array(value)};
    if (elements.is_list)
        json_walk_enter(&elements.walk);
    return elements;
}

static void next_element(struct element_walk *elements, struct slot *slot)
{
    if (!elements->is_list || !slot->reading->has_places)
        return;
    if (json_walk_element(&elements->walk))
        slot->place = elements->walk.place;
    json_walk_skip(&elements->walk);
}

/* What an unknown word in a set means differs by member: K-07, TN-168, TN-128. */
static bool unknown_in_set(struct slot *slot, const char *text)
{
    struct rs_request_notes *notes = slot->reading->notes;
    const bool is_dropped = slot->reading->is_config; /* as by those who read such files */
    if (is_dropped && slot->field == &request_fields[F_ACTIVITIES]) {
        note_at(notes, RS_RULE_ACTIVITY_UNKNOWN, slot->key, &slot->place, "\"%.40s\"", text);
        return true;
    }
    if (is_dropped && slot->field == &request_fields[F_EXPORT_TYPE]) {
        note_at(notes, RS_RULE_EXPORT_UNKNOWN, slot->key, &slot->place, "\"%.40s\"", text);
        return true;
    }
    unknown_name(slot, text);
    return false;
}

static bool is_known_here(const struct slot *slot, size_t index)
{
    const struct field_names *names = slot->field->names;
    if (index == names->count)
        return false;
    return slot->field != &request_fields[F_ACTIVITIES] || !slot->reading->is_config ||
           (names->items[index].value & (RS_ACTIVITY_CPU | RS_ACTIVITY_NPU)) != 0;
}

static void read_set(struct slot *slot, void *target, json_t *value)
{
    const struct json_place start = slot->place;
    struct element_walk elements = elements_of(slot, value);
    uint32_t bits = 0;
    bool is_good = true, has_unknown = false;
    const size_t count = element_count(value);
    for (size_t i = 0; i < count; i++) {
        const json_t *element = element_at(value, i);
        next_element(&elements, slot);
        if (!json_is_string(element)) {
            wrong_type(slot, "a list of strings", element);
            is_good = false;
            continue;
        }
        const size_t index = field_name_find(slot->field->names, json_string_value(element));
        if (is_known_here(slot, index)) {
            bits |= slot->field->names->items[index].value;
        } else {
            is_good = unknown_in_set(slot, json_string_value(element)) && is_good;
            has_unknown = true;
        }
    }
    slot->place = start;
    if (slot->field == &request_fields[F_EXPORT_TYPE] && (has_unknown || !bits))
        bits = RS_EXPORT_TEXT;
    if (slot->field == &request_fields[F_ACTIVITIES] && is_good && has_unknown && !bits)
        note_at(slot->reading->notes, RS_RULE_ACTIVITIES_NONE, slot->key, &start, NO_DETAIL);
    else if (is_good)
        memcpy(target, &bits, sizeof bits);
}

static void read_ranks(struct slot *slot, struct rs_request_ranks *ranks, json_t *value)
{
    if (!json_is_array(value)) {
        wrong_type(slot, "a list of ranks", value);
        return;
    }
    struct element_walk elements = elements_of(slot, value);
    ranks->count = 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        int64_t number = 0;
        next_element(&elements, slot);
        if (read_integer(slot, json_array_get(value, i), "a rank", &number) &&
            ranks_add(ranks, (uint32_t)number) < 0)
            no_memory(slot);
    }
}

static bool is_too_long(const struct slot *slot, size_t count)
{
    if (count <= RS_REQUEST_LIST_MAX)
        return false;
    note_at(slot->reading->notes, RS_RULE_TOO_MANY, slot->key, &slot->place,
            "at most %d, found %zu", RS_REQUEST_LIST_MAX, count);
    return true;
}

static void read_texts(struct slot *slot, struct rs_request_texts *texts, json_t *value)
{
    if (!json_is_array(value)) {
        wrong_type(slot, "a list of strings", value);
        return;
    }
    if (is_too_long(slot, json_array_size(value)))
        return;
    struct element_walk elements = elements_of(slot, value);
    texts_fini(texts);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *element = json_array_get(value, i);
        next_element(&elements, slot);
        if (!json_is_string(element))
            wrong_type(slot, "a string", element);
        else if (is_good_text(slot, json_string_value(element), 257) &&
                 texts_add(texts, json_string_value(element)) < 0)
            no_memory(slot);
    }
}

/* The value's own digits and spelling, without the blanks between: from the text, since a tree has lost them. */
static void take_json(const struct json_walk *walk, struct rs_buf *buf)
{
    struct json_walk end = *walk;
    json_walk_skip(&end);
    bool is_inside = false;
    rs_buf_reset(buf);
    for (size_t i = walk->place.at; i < end.place.at; i++) {
        const char c = walk->text[i];
        if (is_inside && c == '\\' && i + 1 < end.place.at) {
            rs_buf_u8(buf, (uint8_t)c);
            rs_buf_u8(buf, (uint8_t)walk->text[++i]);
            continue;
        }
        if (c == '"')
            is_inside = !is_inside;
        if (is_inside || !(c == ' ' || c == '\t' || c == '\r' || c == '\n'))
            rs_buf_u8(buf, (uint8_t)c);
    }
}

static void read_pair(struct slot *slot, struct rs_request_pairs *pairs, const char *name,
                      const json_t *value, const struct json_walk *walk)
{
    struct rs_buf text = {0};
    if (!is_good_text(slot, name, 257))
        return;
    if (slot->field->kind == FIELD_PAIRS) {
        if (!json_is_string(value)) {
            wrong_type(slot, "a string", value);
            return;
        }
        if (!is_good_text(slot, json_string_value(value), RS_REQUEST_VALUE_MAX_BYTES + 1))
            return;
        rs_buf_string(&text, json_string_value(value));
    } else {
        take_json(walk, &text);
    }
    if (text.failed || pairs_set(pairs, name, rs_buf_text(&text)) < 0)
        no_memory(slot);
    rs_buf_fini(&text);
}

static void read_pairs(struct slot *slot, struct rs_request_pairs *pairs, json_t *value)
{
    const char *name;
    json_t *item;
    if (!json_is_object(value)) {
        wrong_type(slot, "an object", value);
        return;
    }
    if (is_too_long(slot, json_object_size(value)))
        return;
    struct json_walk walk = slot->reading->walk;
    json_walk_enter(&walk);
    pairs_fini(pairs);
    json_object_foreach(value, name, item)
    {
        struct json_place key_place;
        if (!json_walk_member(&walk, &key_place))
            break;
        if (slot->reading->has_places)
            slot->place = walk.place;
        read_pair(slot, pairs, name, item, &walk);
        json_walk_skip(&walk);
    }
}

static void read_by_kind(struct slot *slot, void *target, json_t *value)
{
    switch (slot->field->kind) {
    case FIELD_TEXT:
        read_text(slot, target, value);
        return;
    case FIELD_BOOL:
        if (json_is_boolean(value))
            *(bool *)target = json_is_true(value);
        else
            wrong_type(slot, "true or false", value);
        return;
    case FIELD_U32:
    case FIELD_I32:
    case FIELD_I64:
        read_number(slot, target, value);
        return;
    case FIELD_OPT_U32:
    case FIELD_OPT_U64:
    case FIELD_OPT_DOUBLE:
        read_optional(slot, target, value);
        return;
    case FIELD_ENUM:
        read_enum(slot, target, value);
        return;
    case FIELD_SET:
        read_set(slot, target, value);
        return;
    case FIELD_RANKS:
        read_ranks(slot, target, value);
        return;
    case FIELD_TEXTS:
        read_texts(slot, target, value);
        return;
    case FIELD_PAIRS:
    case FIELD_JSONS:
        read_pairs(slot, target, value);
        return;
    }
}

void reading_value(struct reading *reading, size_t index, const char *key, json_t *value)
{
    const struct field *field = &request_fields[index];
    struct slot slot = {.reading = reading, .field = field, .key = key};
    if (reading->has_places)
        slot.place = reading->walk.place;
    reading->places[index] = slot.place;
    (void)snprintf(reading->keys[index], sizeof reading->keys[index], "%s", key);
    read_by_kind(&slot, field_at(reading->request, field), value);
    json_walk_skip(&reading->walk);
}

/* ---- the document around them ---------------------------------------------------------------------------------- */

enum rs_status reading_open(struct reading *reading, const char *text, size_t length,
                            json_t **root_p)
{
    static const struct json_place start = {.line = 1, .column = 1};
    json_error_t wrong;
    size_t blank = 0;
    json_walk_init(&reading->walk, text, length);
    reading->has_places = true;
    if (length > RS_REQUEST_TEXT_MAX_BYTES) {
        note_at(reading->notes, RS_RULE_TOO_LONG, "", &start, "%zu bytes", length);
        return RS_INVALID;
    }
    while (blank < length && strchr(" \t\r\n", text[blank]) && text[blank])
        blank++;
    if (blank == length) {
        note_at(reading->notes, RS_RULE_EMPTY, "", &start, NO_DETAIL);
        return RS_INVALID;
    }
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &wrong);
    if (!root) {
        const struct json_place place = {.line = wrong.line > 0 ? (unsigned)wrong.line : 1,
                                         .column = wrong.column > 0 ? (unsigned)wrong.column : 1};
        note_at(reading->notes, RS_RULE_SYNTAX, "", &place, "%.160s", wrong.text);
        return json_error_code(&wrong) == json_error_out_of_memory ? RS_NOMEM : RS_INVALID;
    }
    if (!json_is_object(root)) {
        note_at(reading->notes, RS_RULE_SYNTAX, "", &start, "found %s", type_word(root));
        json_decref(root);
        return RS_INVALID;
    }
    *root_p = root;
    return RS_OK;
}

void reading_unknown(struct reading *reading, const char *key, const struct json_place *place,
                     const char *const *names)
{
    const char *nearest = NULL;
    size_t best = WORD_NEAR;
    for (; *names; names++) {
        const size_t d = word_distance(key, *names);
        if (d < best) {
            best = d;
            nearest = *names;
        }
    }
    char shown[64];
    (void)snprintf(shown, sizeof shown, "%.60s", key);
    if (nearest)
        note_at(reading->notes, RS_RULE_UNKNOWN_KEY, shown, place, "did you mean \"%s\"?", nearest);
    else
        note_at(reading->notes, RS_RULE_UNKNOWN_KEY, shown, place, NO_DETAIL);
}

/* In the order of the text; what has no place comes last. Few notes, and nearly sorted: by insertion. */
static void sort_notes(struct rs_request_note *notes, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const struct rs_request_note note = notes[i];
        size_t at = i;
        while (at && note.line &&
               (!notes[at - 1].line || notes[at - 1].line > note.line ||
                (notes[at - 1].line == note.line && notes[at - 1].column > note.column))) {
            notes[at] = notes[at - 1];
            at--;
        }
        notes[at] = note;
    }
}

void reading_place_notes(struct reading *reading, size_t first)
{
    struct rs_request_notes *notes = reading->notes;
    for (size_t i = first; i < notes->count; i++) {
        struct rs_request_note *note = &notes->items[i];
        for (size_t f = 0; f < FIELD_COUNT && !note->line; f++) {
            char path[RS_REQUEST_MEMBER_BYTES];
            field_path(&request_fields[f], path, sizeof path);
            if (strcmp(path, note->field) != 0 || !reading->places[f].line)
                continue;
            note->line = reading->places[f].line;
            note->column = reading->places[f].column;
            (void)snprintf(note->field, sizeof note->field, "%s", reading->keys[f]);
        }
    }
    if (notes->count > first)
        sort_notes(notes->items + first, notes->count - first);
}

enum rs_status reading_result(const struct rs_request_notes *notes, struct rs_err *err)
{
    if (notes->failed)
        return rs_err_set(err, RS_NOMEM, "no memory to read a request");
    if (!notes->refusal_count)
        return RS_OK;
    for (size_t i = 0; i < notes->count; i++) {
        const struct rs_request_note *note = &notes->items[i];
        const struct rs_rule *rule = rs_request_rule(note->rule);
        if (rule->severity != RS_SEVERITY_REFUSED)
            continue;
        char place[48] = "";
        if (note->line)
            (void)snprintf(place, sizeof place, "line %u, column %u: ", note->line, note->column);
        return rs_err_set(err, RS_INVALID, "%s%s%s%s%s%s", place, note->field,
                          *note->field ? ": " : "", rule->sentence, *note->text ? ": " : "",
                          note->text);
    }
    return rs_err_set(err, RS_INVALID, "%zu rules are violated", notes->refusal_count);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static json_t *list_of_words(const char *word)
{
    json_t *list = json_array();
    for (const char *at = word; list && *at;) {
        const size_t length = strcspn(at, ",");
        if (length && json_array_append_new(list, json_stringn(at, length)) != 0) {
            json_decref(list);
            return NULL;
        }
        at += length + (at[length] == ',');
    }
    return list;
}

static bool take_rank(const char **at_p, json_int_t *rank_p)
{
    const char *at = *at_p;
    json_int_t rank = 0;
    if (*at < '0' || *at > '9')
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        rank = rank * 10 + (*at - '0');
        if (rank > RS_RANK_MAX)
            return false;
    }
    *at_p = at;
    *rank_p = rank;
    return true;
}

/* "1,3-5"; NULL: it is something else, or too much of it. */
static json_t *list_of_ranks(const char *word)
{
    enum { MOST = 1 << 16 };
    json_t *list = json_array();
    for (const char *at = word; list && *at;) {
        json_int_t first = 0, last = 0;
        bool is_good = take_rank(&at, &first);
        last = first;
        if (is_good && *at == '-') {
            at++;
            is_good = take_rank(&at, &last) && last >= first;
        }
        is_good = is_good && (!*at || *at == ',') &&
                  json_array_size(list) + (size_t)(last - first) < MOST;
        for (json_int_t rank = first; is_good && rank <= last; rank++)
            is_good = json_array_append_new(list, json_integer(rank)) == 0;
        if (!is_good) {
            json_decref(list);
            return NULL;
        }
        at += *at == ',';
    }
    return list;
}

json_t *value_of_word(const struct field *field, const char *word)
{
    const bool is_json = *word == '[' || *word == '{' || *word == '"';
    json_t *value = NULL;
    switch (field->kind) {
    case FIELD_TEXT:
    case FIELD_ENUM:
        return json_string(word);
    case FIELD_BOOL:
        if (strcmp(word, "true") == 0 || strcmp(word, "on") == 0)
            return json_true();
        if (strcmp(word, "false") == 0 || strcmp(word, "off") == 0)
            return json_false();
        break;
    case FIELD_SET:
    case FIELD_TEXTS:
        if (!is_json)
            return list_of_words(word);
        value = json_loads(word, JSON_DECODE_ANY, NULL);
        break;
    case FIELD_RANKS:
        value = is_json ? json_loads(word, JSON_DECODE_ANY, NULL) : list_of_ranks(word);
        break;
    case FIELD_U32:
    case FIELD_I32:
    case FIELD_I64:
    case FIELD_OPT_U32:
    case FIELD_OPT_U64:
    case FIELD_OPT_DOUBLE:
    case FIELD_PAIRS:
    case FIELD_JSONS:
        value = json_loads(word, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
        break;
    }
    return value ? value : json_string(word);
}

static const char *const *member_names(char (*names)[RS_REQUEST_MEMBER_BYTES],
                                       const char **pointers)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        (void)rs_request_member(i, names[i]);
        pointers[i] = names[i];
    }
    pointers[FIELD_COUNT] = NULL;
    return pointers;
}

/* metadata.NAME=JSON, or a word. */
static void set_pair(struct rs_request_pairs *pairs, bool is_json, const char *name,
                     const char *word, struct rs_request_notes *notes)
{
    json_t *value =
        is_json ? json_loads(word, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL) : NULL;
    char *quoted = NULL;
    if (is_json && !value) {
        json_t *text = json_string(word);
        quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
        json_decref(text);
    }
    if (!*name || strlen(name) > 256 || strlen(word) > RS_REQUEST_VALUE_MAX_BYTES)
        note_at(notes, RS_RULE_BAD_TEXT, is_json ? "metadata" : "experimental.extra", NULL,
                NO_DETAIL);
    else if ((is_json && !value && !quoted) || pairs_set(pairs, name, quoted ? quoted : word) < 0)
        notes->failed = true;
    free(quoted); /* jansson's */
    json_decref(value);
}

enum rs_status rs_request_set(struct rs_capture_request *request, const char *member,
                              const char *value, struct rs_request_notes *notes)
{
    struct reading reading = {.request = request, .notes = notes};
    const size_t refusals = notes->refusal_count;
    size_t field = 0;
    char path[RS_REQUEST_MEMBER_BYTES];
    while (rs_request_member(field, path) && strcmp(path, member) != 0)
        field++;
    if (field < FIELD_COUNT) {
        json_t *tree = value_of_word(&request_fields[field], value);
        json_walk_init(&reading.walk, value, strlen(value));
        if (tree)
            reading_value(&reading, field, member, tree);
        else
            notes->failed = true;
        json_decref(tree);
    } else if (strncmp(member, "metadata.", 9) == 0) {
        set_pair(&request->metadata, true, member + 9, value, notes);
    } else if (strncmp(member, "experimental.extra.", 19) == 0) {
        set_pair(&request->experimental.extra, false, member + 19, value, notes);
    } else {
        char names[FIELD_COUNT][RS_REQUEST_MEMBER_BYTES];
        const char *pointers[FIELD_COUNT + 1];
        reading_unknown(&reading, member, NULL, member_names(names, pointers));
    }
    if (notes->failed)
        return RS_NOMEM;
    return notes->refusal_count > refusals ? RS_INVALID : RS_OK;
}
