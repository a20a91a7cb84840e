/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/dims.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

enum { DEPTH_MAX = 8 };
#define ELEMENTS_MAX (INT64_C(1) << 50)

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct text trim(struct text text)
{
    while (text.length && is_blank(text.bytes[0])) {
        text.bytes++;
        text.length--;
    }
    while (text.length && is_blank(text.bytes[text.length - 1]))
        text.length--;
    return text;
}

static struct text without_quotes(struct text text)
{
    text = trim(text);
    if (text.length >= 2 && text.bytes[0] == '"' && text.bytes[text.length - 1] == '"') {
        text.bytes++;
        text.length -= 2;
    }
    return text;
}

/* Inside of a list; false when it is none. */
static bool inside(struct text list, struct text *inside_p)
{
    list = trim(without_quotes(list));
    if (list.length < 2 || list.bytes[0] != '[' || list.bytes[list.length - 1] != ']')
        return false;
    *inside_p = (struct text){list.bytes + 1, list.length - 2};
    return true;
}

/* Cuts the first element off `rest`; false at its end. */
static bool next_element(struct text *rest, struct text *element_p)
{
    if (!trim(*rest).length)
        return false;
    size_t depth = 0;
    bool quoted = false;
    size_t at = 0;
    for (; at < rest->length; at++) {
        const char c = rest->bytes[at];
        if (quoted && c == '\\') {
            at++;
            continue;
        }
        if (c == '"')
            quoted = !quoted;
        else if (!quoted && c == '[')
            depth++;
        else if (!quoted && c == ']' && depth)
            depth--;
        else if (!quoted && c == ',' && !depth)
            break;
    }
    if (at > rest->length)
        at = rest->length;
    *element_p = without_quotes((struct text){rest->bytes, at});
    const size_t used = at < rest->length ? at + 1 : at;
    rest->bytes += used;
    rest->length -= used;
    return true;
}

bool dims_element(struct text list, size_t index, struct text *element_p)
{
    struct text rest, element;
    if (!inside(list, &rest))
        return false;
    while (next_element(&rest, &element)) {
        if (index-- == 0) {
            *element_p = element;
            return true;
        }
    }
    return false;
}

size_t dims_count(struct text list)
{
    struct text rest, element;
    size_t count = 0;
    if (!inside(list, &rest))
        return 0;
    while (next_element(&rest, &element))
        count++;
    return count;
}

bool dims_integer(struct text text, int64_t *value_p)
{
    text = trim(text);
    size_t at = text.length && text.bytes[0] == '-' ? 1 : 0;
    const bool negative = at == 1;
    int64_t value = 0;
    if (at == text.length || text.length - at > 18)
        return false;
    for (; at < text.length; at++) {
        if (text.bytes[at] < '0' || text.bytes[at] > '9')
            return false;
        value = value * 10 + (text.bytes[at] - '0');
    }
    *value_p = negative ? -value : value;
    return true;
}

static int64_t elements_at(struct text dims, unsigned depth)
{
    struct text rest, element;
    if (depth > DEPTH_MAX || !inside(dims, &rest))
        return -1;
    int64_t product = 1, sum = 0;
    bool has_numbers = false, has_lists = false;
    while (next_element(&rest, &element)) {
        int64_t value;
        if (dims_integer(element, &value)) {
            has_numbers = true;
            if (value < 0 || __builtin_mul_overflow(product, value, &product))
                return -1;
        } else {
            has_lists = true;
            value = elements_at(element, depth + 1);
            if (value < 0 || __builtin_add_overflow(sum, value, &sum))
                return -1;
        }
    }
    const int64_t elements = has_lists ? sum : product;
    return has_numbers == has_lists || elements > ELEMENTS_MAX ? -1 : elements;
}

int64_t dims_elements(struct text dims)
{
    return elements_at(dims, 0);
}

struct dtype {
    int64_t bytes;
    const char *c10_name;
    const char *type_name;
};

static const struct dtype dtypes[] = {
#define X(bytes, c10_name, type_name) {bytes, c10_name, type_name},
#include "common/reduce/dtypes.def"
#undef X
};

static bool is_text(struct text text, const char *known)
{
    return strlen(known) == text.length && memcmp(known, text.bytes, text.length) == 0;
}

int64_t dims_type_bytes(struct text type, uint64_t *id_p)
{
    for (size_t i = 0; type.length && i < sizeof dtypes / sizeof *dtypes; i++) {
        if (!is_text(type, dtypes[i].c10_name) && !is_text(type, dtypes[i].type_name))
            continue;
        if (id_p)
            *id_p = XXH3_64bits(dtypes[i].c10_name, strlen(dtypes[i].c10_name));
        return dtypes[i].bytes;
    }
    if (id_p)
        *id_p = 0;
    return 0;
}
