/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of traceEvents: {"ph": "X", "cat": "kernel", "name": "...", "pid": 0, "tid": 7, "ts": ...,
 * "dur": ..., "args": {...}}, members in any order, blanks or none.
 *
 * The hot loop of the reader. What every row begins with in Kineto's own layout is taken on a short way (take_head()); behind it a member
 * is told by the four bytes behind its opening quote. Arguments are passed over with vectors and looked into later, if at all. A row that nobody wants is left as soon as
 * its phase and category say so.
 */
#include "collector/source/kineto_priv.h"

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#    define KEY4(a, b, c, d)                                                                       \
        ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#else
#    define KEY4(a, b, c, d)                                                                       \
        ((uint32_t)(d) << 24 | (uint32_t)(c) << 16 | (uint32_t)(b) << 8 | (uint32_t)(a))
#endif

static inline uint32_t key4(const char *text)
{
    uint32_t four;
    memcpy(&four, text, sizeof four);
    return four;
}

/* Behind the colon and blanks, when `text` (behind a key's closing quote) has them; else NULL. */
static inline const char *behind_colon(const char *text)
{
    if (text[0] == ':' && text[1] == ' ' && text[2] > ' ')
        return text + 2;
    text = scan_blanks(text);
    return *text == ':' ? scan_blanks(text + 1) : NULL;
}

static inline bool string_value(const struct kineto *kineto, const char *value,
                                struct kineto_span *span_p, bool *has_escape_p)
{
    if (*value != '"')
        return false;
    const char *quote = scan_string_end(value + 1, kineto->end, has_escape_p);
    if (!quote)
        return false;
    *span_p = (struct kineto_span){.text = value + 1, .length = (size_t)(quote - value - 1)};
    return true;
}

static inline bool is_of_no_use(const struct kineto *kineto, const struct kineto_row *row)
{
    if (kineto->is_lossless || !row->phase)
        return false;
    return (row->phase != 'X' && !kineto_is_half(row)) ||
           (row->category && !row->category->is_wanted);
}

bool kineto_row_is_unwanted(const struct kineto *kineto, const struct kineto_row *row)
{
    return is_of_no_use(kineto, row);
}

/* Behind phase and category, which alone tell. */
static inline void judge(const struct kineto *kineto, struct kineto_row *row)
{
    row->is_unwanted = !kineto->probe_left && is_of_no_use(kineto, row);
}

/* Where a category that begins so is remembered. The padding makes reading past a short one harmless. */
static inline size_t category_slot(const char *text)
{
    uint64_t head;
    memcpy(&head, text, sizeof head);
    return (head * 0x9e3779b97f4a7c15U) >> 60;
}
_Static_assert(KINETO_CATEGORY_SLOTS == 1 << (64 - 60), "the slot is the top bits of the product");

/* Each member function: behind its value, or NULL when the text is not what it should be (or ends). */
static inline const char *take_category(struct kineto *kineto, const char *value,
                                        struct kineto_row *row)
{
    struct kineto_span span;
    bool has_escape = false;
    if (!string_value(kineto, value, &span, &has_escape) || has_escape)
        return NULL;
    const struct kineto_category **slot = &kineto->category_slots[category_slot(span.text)];
    const struct kineto_category *known = *slot;
    if (!known || known->text.length != span.length ||
        !same_bytes(known->text.text, span.text, span.length)) {
        known = kineto_category_of(kineto, span.text, span.length);
        if (known != &kineto->spare_category)
            *slot = known;
    }
    row->category = known;
    judge(kineto, row);
    return known ? span.text + span.length + 1 : NULL;
}

static inline const char *take_name(struct kineto *kineto, const char *value,
                                    struct kineto_row *row)
{
    row->name_has_escape = false;
    row->has_name = string_value(kineto, value, &row->name, &row->name_has_escape);
    return row->has_name ? row->name.text + row->name.length + 1 : NULL;
}

/* Member by member: copied as a whole it would be loaded wider than it was stored, which a processor waits for. */
static inline void clear_id(struct kineto_id *id)
{
    id->value = KINETO_NO_ID;
    id->text.text = NULL;
    id->text.length = 0;
    id->has_escape = false;
}

static inline const char *take_id(const struct kineto *kineto, const char *value,
                                  struct kineto_id *id)
{
    clear_id(id);
    if (*value == '"') {
        const bool is_string = string_value(kineto, value, &id->text, &id->has_escape);
        return is_string ? id->text.text + id->text.length + 1 : NULL;
    }
    const char *at = value;
    int64_t number = 0;
    while ((unsigned)(*at - '0') < 10 && at - value < 18)
        number = number * 10 + (*at++ - '0');
    if (at > value && (*at == ',' || *at == ' ' || *at == '}')) {
        id->value = number;
        return at;
    }
    struct kineto_decimal decimal;
    const char *end = text_decimal(value, &decimal);
    if (end)
        id->value = decimal.is_negative ? -decimal.whole : decimal.whole;
    return end;
}

static inline const char *take_time(const char *value, struct kineto_decimal *decimal,
                                    struct kineto_span *text, bool *has_p)
{
    const char *end = text_decimal(value, decimal);
    *text = (struct kineto_span){.text = value, .length = end ? (size_t)(end - value) : 0};
    *has_p = end != NULL;
    return end;
}

static inline const char *take_args(struct kineto *kineto, const char *value,
                                    struct kineto_row *row)
{
    if (*value != '{')
        return NULL;
    struct scan_close close;
    if (kineto->close(value + 1, kineto->limit, 1, &close, &kineto->marks) != SCAN_FOUND)
        return NULL;
    row->has_marks = kineto->marks.are_known;
    row->args = (struct kineto_span){.text = value + 1, .length = (size_t)(close.end - value - 2)};
    row->has_finished = close.has_finished;
    return close.end;
}

static inline const char *take_phase(const struct kineto *kineto, const char *value,
                                     struct kineto_row *row)
{
    if (value[0] != '"' || !value[1] || value[2] != '"')
        return NULL;
    row->phase = value[1];
    judge(kineto, row);
    return value + 3;
}

/* The members above with blanks between key and colon. NULL: it is none of those, or has an unusual value. */
static const char *take_spaced(const struct kineto *kineto, struct kineto_span key,
                               const char *value, struct kineto_row *row)
{
    if (span_is(key, "ts"))
        return take_time(value, &row->time, &row->time_text, &row->has_time);
    return span_is(key, "ph") ? take_phase(kineto, value, row) : NULL;
}

/* A member without a place of its own, or one of the above in an unusual shape. */
static const char *take_other(struct kineto *kineto, const char *key, struct kineto_row *row)
{
    bool has_escape = false;
    const char *quote = scan_string_end(key, kineto->end, &has_escape);
    const char *value = quote ? behind_colon(quote + 1) : NULL;
    if (!value)
        return NULL;
    const struct kineto_span name = {.text = key, .length = (size_t)(quote - key)};
    if ((span_is(name, "args") && *value == '{') || (span_is(name, "name") && *value == '"'))
        return NULL; /* take_usual() saw that it is cut or broken */
    const char *end = take_spaced(kineto, name, value, row);
    if (end)
        return end;
    end = text_value_end(value, kineto->end);
    const struct kineto_span text = {.text = value, .length = end ? (size_t)(end - value) : 0};
    if (!text.length)
        return end; /* the value is missing */
    if (!text_is_value(text))
        return NULL;
    if (span_is(name, "id"))
        row->id = text;
    if (row->other_count < KINETO_OTHERS_MAX)
        row->others[row->other_count++] =
            (struct kineto_span){.text = key - 1, .length = (size_t)(end - key + 1)};
    return end;
}

/* Behind the colon of the key whose closing quote is `length` bytes behind its start; NULL: another key. */
static inline const char *value_of(const char *key, size_t length)
{
    return key[length] == '"' ? behind_colon(key + length + 1) : NULL;
}

/* The usual members in their usual shape; NULL: anything else, or cut. */
static inline const char *take_usual(struct kineto *kineto, const char *key, struct kineto_row *row)
{
    const char *value;
    switch (key4(key)) {
    case KEY4('p', 'h', '"', ':'):
        value = behind_colon(key + 3);
        return value ? take_phase(kineto, value, row) : NULL;
    case KEY4('c', 'a', 't', '"'):
        value = behind_colon(key + 4);
        return value ? take_category(kineto, value, row) : NULL;
    case KEY4('n', 'a', 'm', 'e'):
        value = value_of(key, 4);
        return value ? take_name(kineto, value, row) : NULL;
    case KEY4('p', 'i', 'd', '"'):
        value = behind_colon(key + 4);
        return value ? take_id(kineto, value, &row->pid) : NULL;
    case KEY4('t', 'i', 'd', '"'):
        value = behind_colon(key + 4);
        return value ? take_id(kineto, value, &row->tid) : NULL;
    case KEY4('t', 's', '"', ':'):
        value = behind_colon(key + 3);
        return value ? take_time(value, &row->time, &row->time_text, &row->has_time) : NULL;
    case KEY4('d', 'u', 'r', '"'):
        value = behind_colon(key + 4);
        return value ? take_time(value, &row->duration, &row->duration_text, &row->has_duration)
                     : NULL;
    case KEY4('a', 'r', 'g', 's'):
        value = value_of(key, 4);
        return value ? take_args(kineto, value, row) : NULL;
    default:
        return NULL;
    }
}

/* The member whose key starts at `key`; behind its value, or NULL. */
static inline const char *take_member(struct kineto *kineto, const char *key,
                                      struct kineto_row *row)
{
    const char *end = take_usual(kineto, key, row);
    return end ? end : take_other(kineto, key, row);
}

/* Behind `text`, when it stands at `at`; else NULL. Not a call: the length is known. */
#define BEHIND(at, text) (memcmp(at, text, sizeof(text) - 1) == 0 ? (at) + sizeof(text) - 1 : NULL)

/* At the value of this key, when it comes next: on the same line or on one of its own, as Kineto's generations write. */
static inline const char *next_value(const char *at, const char *same, size_t same_length,
                                     const char *own, size_t own_length)
{
    if (memcmp(at, same, same_length) == 0)
        return at + same_length;
    return memcmp(at, own, own_length) == 0 ? at + own_length : NULL;
}
#define NEXT_VALUE(at, key)                                                                        \
    next_value(at, ", \"" key "\": ", sizeof(", \"" key "\": ") - 1,                               \
               ",\n    \"" key "\": ", sizeof(",\n    \"" key "\": ") - 1)

/*
 * The members at the row's head in the order and with the blanks that Kineto writes, as far as they are so: what stands where is
 * known there, and nothing is looked for but the ends of strings and numbers. Behind the last value that was taken; NULL: none was.
 */
static inline const char *take_head(struct kineto *kineto, const char *text, struct kineto_row *row)
{
    const char *value = BEHIND(text, "{\n    \"ph\": ");
    const char *at = value ? take_phase(kineto, value, row) : NULL;
    const char *last = at;
    if (!at || row->phase != 'X')
        return at;
#define TAKE(key, expression)                                                                      \
    value = NEXT_VALUE(last, key);                                                                 \
    at = value ? (expression) : NULL;                                                              \
    if (!at)                                                                                       \
        return last;                                                                               \
    last = at;
    TAKE("cat", take_category(kineto, value, row))
    if (row->is_unwanted)
        return last;
    TAKE("name", take_name(kineto, value, row))
    TAKE("pid", take_id(kineto, value, &row->pid))
    TAKE("tid", take_id(kineto, value, &row->tid))
    TAKE("ts", take_time(value, &row->time, &row->time_text, &row->has_time))
    TAKE("dur", take_time(value, &row->duration, &row->duration_text, &row->has_duration))
    TAKE("args", take_args(kineto, value, row))
#undef TAKE
    return last;
}

/* A brace that ends a row is followed by a comma or the array's end; if not, a name held a quote and a brace. */
static inline enum kineto_parse end_row(const struct kineto *kineto, const char *end,
                                        struct kineto_row *row, enum kineto_parse outcome)
{
    row->end = end;
    const char *next = scan_blanks(end);
    if (*next == ',' || *next == ']')
        return outcome;
    if (next < kineto->end)
        return PARSE_BAD;
    return kineto->input.is_at_end ? outcome : PARSE_MORE;
}

static enum kineto_parse skip_rest(const struct kineto *kineto, const char *text,
                                   struct kineto_row *row)
{
    struct scan_close close;
    switch (kineto->close(text, kineto->limit, 1, &close, NULL)) {
    case SCAN_FOUND:
        return end_row(kineto, close.end, row, PARSE_SKIP);
    case SCAN_MORE:
        return PARSE_MORE;
    case SCAN_BAD:
        break;
    }
    return PARSE_BAD;
}

/* Where a comparison failed: did the window end, or is the text wrong? A string that runs to the window's end may be either:
 * the caller asks for more until the row is too long. */
static enum kineto_parse why_stopped(const struct kineto *kineto, const char *key)
{
    if (!key)
        return PARSE_MORE;
    struct scan_close close;
    return kineto->close(key, kineto->limit, 1, &close, NULL) == SCAN_MORE ? PARSE_MORE : PARSE_BAD;
}

/* The members behind the value that ends at `at`, to the row's end. */
static inline enum kineto_parse take_members(struct kineto *kineto, const char *at,
                                             struct kineto_row *row)
{
    for (;;) {
        at = scan_blanks(at);
        if (*at == '}')
            return end_row(kineto, at + 1, row, row->is_unwanted ? PARSE_SKIP : PARSE_OK);
        if (*at != ',')
            return at >= kineto->end ? PARSE_MORE : PARSE_BAD;
        if (row->is_unwanted)
            return skip_rest(kineto, at, row);
        const char *key = scan_blanks(at + 1);
        if (*key != '"')
            return key >= kineto->end ? PARSE_MORE : PARSE_BAD;
        at = take_member(kineto, key + 1, row);
        if (!at)
            return why_stopped(kineto, key);
    }
}

/* A row with another head than Kineto writes. */
static enum kineto_parse take_all(struct kineto *kineto, const char *text, struct kineto_row *row)
{
    const char *key = scan_blanks(text + 1);
    if (*key == '}')
        return end_row(kineto, key + 1, row, PARSE_OK);
    if (*key != '"')
        return key >= kineto->end ? PARSE_MORE : PARSE_BAD;
    const char *at = take_member(kineto, key + 1, row);
    return at ? take_members(kineto, at, row) : why_stopped(kineto, key);
}

enum kineto_parse kineto_row_parse(struct kineto *kineto, const char *text, struct kineto_row *row)
{
    kineto->limit = kineto->end;
    if (kineto->is_suspicious && kineto->end - text > KINETO_SUSPICIOUS_BYTES)
        kineto->limit = text + KINETO_SUSPICIOUS_BYTES;
    row->begin = text;
    row->phase = 0;
    row->has_name = row->has_finished = row->has_time = row->has_duration = false;
    row->is_odd = row->name_has_escape = row->is_unwanted = row->has_marks = false;
    row->category = NULL;
    clear_id(&row->pid);
    clear_id(&row->tid);
    row->name = row->id = row->args = (struct kineto_span){0};
    row->other_count = 0;
    const char *at = take_head(kineto, text, row);
    return at ? take_members(kineto, at, row) : take_all(kineto, text, row);
}
