/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that are no JSON, as writers before 2026 left them: `"name": "f("x")"`, `"name": "C:\"`.
 *
 * A row boundary is a closing brace, a comma, and an opening brace with a key that only rows have; the array's end is a
 * bracket behind which the document goes on in a known way. Between two boundaries lies one row: strings of it
 * end at the quote that is followed by what follows a value.
 */
#include "collector/source/kineto_priv.h"

static const char *const row_keys[] = {"ph",  "cat", "name", "pid", "tid", "ts",
                                       "dur", "id",  "s",    "bp",  "args"};
static const char *const document_keys[] = {"schemaVersion",
                                            "deviceProperties",
                                            "distributedInfo",
                                            "traceName",
                                            "displayTimeUnit",
                                            "baseTimeNanoseconds",
                                            "trace_id",
                                            "host_name",
                                            "INFO",
                                            "WARNING",
                                            "ERROR",
                                            "record_shapes",
                                            "with_stack",
                                            "profile_memory",
                                            "with_flops",
                                            "with_modules",
                                            "traceEvents"};

enum { KEY_WINDOW_BYTES = 64 };

/* Is the key at `text` (its opening quote) one of these, with a colon behind it? */
static bool is_key_of(const char *text, const char *end, const char *const *keys, size_t count)
{
    if (*text != '"')
        return false;
    const size_t room =
        end - text - 1 < KEY_WINDOW_BYTES ? (size_t)(end - text - 1) : (size_t)KEY_WINDOW_BYTES;
    const char *quote = memchr(text + 1, '"', room);
    if (!quote || *scan_blanks(quote + 1) != ':')
        return false;
    const struct kineto_span key = {.text = text + 1, .length = (size_t)(quote - text - 1)};
    for (size_t i = 0; i < count; i++) {
        if (span_is(key, keys[i]))
            return true;
    }
    return false;
}

static bool is_row_start(const char *text, const char *end)
{
    return *text == '{' &&
           is_key_of(scan_blanks(text + 1), end, row_keys, sizeof row_keys / sizeof row_keys[0]);
}

static bool is_array_end(const struct kineto *kineto, const char *text)
{
    if (*text != ']')
        return false;
    text = scan_blanks(text + 1);
    if (*text == ',')
        return is_key_of(scan_blanks(text + 1), kineto->end, document_keys,
                         sizeof document_keys / sizeof document_keys[0]);
    return *text == '}' && kineto->input.is_at_end && scan_blanks(text + 1) >= kineto->end;
}

enum kineto_parse kineto_resync(const struct kineto *kineto, const char *text,
                                const char **row_end_p, const char **next_p)
{
    const char *end = kineto->end;
    for (const char *from = text; from < end;) {
        const char *brace = memchr(from, '}', (size_t)(end - from));
        if (!brace)
            break;
        const char *next = scan_blanks(brace + 1);
        const char *row = *next == ',' ? scan_blanks(next + 1) : next;
        if (*next == ',' ? is_row_start(row, end) : is_array_end(kineto, next)) {
            *row_end_p = brace + 1;
            *next_p = row;
            return PARSE_OK;
        }
        if (end - row < (ptrdiff_t)2 * KEY_WINDOW_BYTES && !kineto->input.is_at_end) {
            *next_p = brace;
            return PARSE_MORE;
        }
        from = brace + 1;
    }
    *next_p = end;
    return PARSE_MORE;
}

/* Does what stands at `text`, behind a quote, follow a value? */
static bool follows_value(const char *text, const char *end)
{
    while (text < end && *text == '}')
        text = scan_blanks(text + 1);
    if (text >= end)
        return true;
    if (*text != ',')
        return false;
    text = scan_blanks(text + 1);
    if (text >= end || *text != '"')
        return false;
    const size_t room =
        end - text - 1 < KEY_WINDOW_BYTES ? (size_t)(end - text - 1) : (size_t)KEY_WINDOW_BYTES;
    const char *quote = memchr(text + 1, '"', room);
    return quote && *scan_blanks(quote + 1) == ':';
}

/* Quotes that were escaped count too (`"C:\"`): a quote that is meant as text is followed by text. */
const char *kineto_loose_string_end(const char *text, const char *end)
{
    while (text < end) {
        const char *quote = memchr(text, '"', (size_t)(end - text));
        if (!quote || follows_value(scan_blanks(quote + 1), end))
            return quote;
        text = quote + 1;
    }
    return NULL;
}

static struct kineto_span between(const char *begin, const char *end)
{
    return (struct kineto_span){.text = begin, .length = (size_t)(end - begin)};
}

static void salvage_id(struct kineto_span value, struct kineto_id *id)
{
    if (value.length >= 2 && value.text[0] == '"') {
        id->text = between(value.text + 1, value.text + value.length - 1);
        id->has_escape = memchr(id->text.text, '\\', id->text.length) != NULL;
    } else if (!text_integer(value, &id->value)) {
        id->value = KINETO_NO_ID;
    }
}

static bool salvage_time(struct kineto_span value, struct kineto_decimal *decimal,
                         struct kineto_span *text)
{
    *text = value;
    return text_decimal(value.text, decimal) == value.text + value.length;
}

/* One member whose extent is known. False: the row cannot be used. */
static bool salvage_member(struct kineto *kineto, struct kineto_span key, struct kineto_span value,
                           struct kineto_row *row)
{
    const bool is_string = value.length >= 2 && value.text[0] == '"';
    struct kineto_span text = value;
    if (is_string)
        text = between(value.text + 1, value.text + value.length - 1);
    if (span_is(key, "ph") && is_string && text.length == 1) {
        row->phase = text.text[0];
    } else if (span_is(key, "name") && is_string) {
        row->name = text;
        row->has_name = true;
        row->name_has_escape = memchr(text.text, '\\', text.length) != NULL;
    } else if (span_is(key, "cat") && is_string) {
        row->category = kineto_category_of(kineto, text.text, text.length);
        return row->category != NULL;
    } else if (span_is(key, "pid")) {
        salvage_id(value, &row->pid);
    } else if (span_is(key, "tid")) {
        salvage_id(value, &row->tid);
    } else if (span_is(key, "ts")) {
        row->has_time = salvage_time(value, &row->time, &row->time_text);
        return row->has_time;
    } else if (span_is(key, "dur")) {
        row->has_duration = salvage_time(value, &row->duration, &row->duration_text);
        return row->has_duration;
    } else if (span_is(key, "args") && value.length >= 2 && value.text[0] == '{') {
        row->args = between(value.text + 1, value.text + value.length - 1);
        row->has_finished = true;
    } else {
        if (!text_is_value(value))
            return !value.length;
        if (span_is(key, "id"))
            row->id = value;
        if (row->other_count < KINETO_OTHERS_MAX)
            row->others[row->other_count++] = between(key.text - 1, value.text + value.length);
    }
    return true;
}

/* Behind the value at `text`; NULL: no telling. `row_end` stands on the row's last brace. Arguments are the last member of
 * their row in every generation. */
static const char *salvage_value_end(struct kineto_span key, const char *text, const char *row_end)
{
    if (*text == '"') {
        const char *quote = kineto_loose_string_end(text + 1, row_end);
        return quote ? quote + 1 : NULL;
    }
    if (span_is(key, "args") && *text == '{') {
        const char *brace = row_end - 1;
        while (brace > text && *brace != '}' && (unsigned char)*brace <= ' ')
            brace--;
        return *brace == '}' ? brace + 1 : NULL;
    }
    const char *end = text_value_end(text, row_end + 1);
    return end && end <= row_end ? end : NULL;
}

enum kineto_parse kineto_row_salvage(struct kineto *kineto, const char *text, const char *row_end,
                                     struct kineto_row *row)
{
    *row = (struct kineto_row){.begin = text, .end = row_end};
    row->pid.value = row->tid.value = KINETO_NO_ID;
    if (*text != '{' || row_end - text < 2)
        return PARSE_BAD;
    const char *last = row_end - 1;
    const char *at = scan_blanks(text + 1);
    while (at < last) {
        if (*at != '"')
            return PARSE_BAD;
        const char *quote = memchr(at + 1, '"', (size_t)(last - at - 1));
        if (!quote)
            return PARSE_BAD;
        const struct kineto_span key = between(at + 1, quote);
        const char *value = scan_blanks(quote + 1);
        if (*value != ':' || (value = scan_blanks(value + 1)) >= last)
            return PARSE_BAD;
        const char *value_end = salvage_value_end(key, value, last);
        if (!value_end || !salvage_member(kineto, key, between(value, value_end), row))
            return PARSE_BAD;
        at = scan_blanks(value_end);
        if (at < last && *at != ',')
            return PARSE_BAD;
        at = scan_blanks(at + (at < last));
    }
    return row->phase ? PARSE_OK : PARSE_BAD;
}
