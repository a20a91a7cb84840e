/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what a peer filled in is a request at all: enumerations have a name, lists an order and an end,
 * texts no control bytes. The readers of documents see to it while they read; bytes of a message have nobody who does.
 *
 * What is merely forbidden is not looked at here: that is rs_request_check()'s, which lists every rule.
 */
#include "common/request/request_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_clean(const char *text)
{
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    return true;
}

static const char *texts_fault(const struct rs_request_texts *texts)
{
    if (texts->count > RS_REQUEST_LIST_MAX)
        return "has too many items";
    for (size_t i = 0; i < texts->count; i++)
        if (!is_clean(texts->items[i]))
            return "holds a control byte";
    return NULL;
}

static int by_key(const void *left, const void *right)
{
    const struct rs_request_pair *const *a = left;
    const struct rs_request_pair *const *b = right;
    return strcmp((*a)->key, (*b)->key);
}

static const char *pairs_fault(const struct rs_request_pairs *pairs)
{
    const struct rs_request_pair *sorted[RS_REQUEST_LIST_MAX];
    if (pairs->count > RS_REQUEST_LIST_MAX)
        return "has too many members";
    for (size_t i = 0; i < pairs->count; i++) {
        /* Values are escaped when written, or are looked at below: any byte may stand in them. */
        if (!is_clean(pairs->items[i].key))
            return "has a control byte in a name";
        sorted[i] = &pairs->items[i];
    }
    if (pairs->count > 1)
        qsort(sorted, pairs->count, sizeof(const struct rs_request_pair *), by_key);
    for (size_t i = 1; i < pairs->count; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0)
            return "has a name twice";
    return NULL;
}

/* They are written as they are, wherever the request is written. */
static const char *jsons_fault(const struct rs_request_pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        json_t *tree =
            json_loads(pairs->items[i].value, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
        const bool is_json = tree != NULL;
        json_decref(tree);
        if (!is_json)
            return "has a value that is not JSON";
    }
    return NULL;
}

static const char *ranks_fault(const struct rs_request_ranks *ranks)
{
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->items[i] > RS_RANK_MAX || (i && ranks->items[i - 1] >= ranks->items[i]))
            return "is not a list of ascending ranks";
    return NULL;
}

static bool has_name(const struct field_names *names, uint32_t value)
{
    for (size_t i = 0; i < names->count; i++)
        if (names->items[i].value == value)
            return true;
    return false;
}

static bool has_only(const struct field_names *names, uint32_t bits)
{
    for (size_t i = 0; i < names->count; i++)
        bits &= ~names->items[i].value;
    return bits == 0;
}

/* NULL: the member is one. Numbers out of range are a rule's matter. */
static const char *field_fault(const struct field *field, const void *value)
{
    switch (field->kind) {
    case FIELD_TEXT:
        if (memchr(value, 0, field->size) == NULL)
            return "is too long";
        return is_clean(value) ? NULL : "holds a control byte";
    case FIELD_ENUM:
        return has_name(field->names, *(const uint32_t *)value) ? NULL : "has no such value";
    case FIELD_SET:
        if (field == &request_fields[F_EXPORT_TYPE] && !*(const uint32_t *)value)
            return "is empty";
        return has_only(field->names, *(const uint32_t *)value) ? NULL : "has no such value";
    case FIELD_OPT_DOUBLE:
        return isfinite(((const struct rs_optional_double *)value)->value) ? NULL : "is no number";
    case FIELD_RANKS:
        return ranks_fault(value);
    case FIELD_TEXTS:
        return texts_fault(value);
    case FIELD_PAIRS:
        return pairs_fault(value);
    case FIELD_JSONS: {
        const char *fault = pairs_fault(value);
        return fault ? fault : jsons_fault(value);
    }
    case FIELD_BOOL:
    case FIELD_U32:
    case FIELD_I32:
    case FIELD_I64:
    case FIELD_OPT_U32:
    case FIELD_OPT_U64:
        return NULL;
    }
    return NULL;
}

enum rs_status rs_request_is_sound(const struct rs_capture_request *request, struct rs_err *err)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct field *field = &request_fields[i];
        const char *fault = field_fault(field, field_of(request, field));
        char path[RS_REQUEST_MEMBER_BYTES];
        if (!fault)
            continue;
        field_path(field, path, sizeof path);
        return rs_err_set(err, RS_INVALID, "%s %s", path, fault);
    }
    return RS_OK;
}
