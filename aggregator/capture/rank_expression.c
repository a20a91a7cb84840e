/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank expressions: "all", or numbers and ranges with commas between.
 */
#include "aggregator/capture/coordinator.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

static int by_value(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static bool take_number(const char **text_p, uint32_t *number_p)
{
    const char *text = *text_p;
    uint64_t number = 0;
    if (*text < '0' || *text > '9')
        return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        number = number * 10 + (uint64_t)(*text - '0');
        if (number > RS_WIRE_RANK_MAX)
            return false;
    }
    *number_p = (uint32_t)number;
    *text_p = text;
    return true;
}

struct number_list {
    uint32_t *items;
    size_t count, capacity;
};

static enum rs_status add_range(struct number_list *list, uint32_t first, uint32_t last,
                                struct rs_err *err)
{
    if (last - first >= RS_COORD_RANKS_MAX - list->count)
        return rs_err_set(err, RS_INVALID, "more than %d ranks were asked for", RS_COORD_RANKS_MAX);
    const size_t count = (size_t)(last - first) + 1;
    if (rs_mem_grow((void **)&list->items, &list->capacity, list->count + count,
                    sizeof *list->items) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for ranks");
    for (size_t i = 0; i < count; i++)
        list->items[list->count++] = first + (uint32_t)i;
    return RS_OK;
}

static enum rs_status parse(const char *text, struct number_list *list, struct rs_err *err)
{
    for (const char *at = text;; at++) {
        uint32_t first = 0;
        const char *start = at;
        bool is_good = take_number(&at, &first);
        uint32_t last = first;
        if (is_good && *at == '-') {
            at++;
            is_good = take_number(&at, &last) && last >= first;
        }
        if (!is_good || (*at && *at != ','))
            return rs_err_set(err, RS_INVALID,
                              "rank expression \"%.100s\": expected \"all\", a number or a range "
                              "a-b at \"%.20s\"",
                              text, start);
        const enum rs_status status = add_range(list, first, last, err);
        if (status < 0 || !*at)
            return status;
    }
}

enum rs_status rs_rank_expression(const char *text, bool *is_all_p, uint32_t **ranks_p,
                                  size_t *count_p, struct rs_err *err)
{
    if (strcmp(text, "all") == 0 || !*text) {
        *is_all_p = true;
        *ranks_p = NULL;
        *count_p = 0;
        return RS_OK;
    }
    struct number_list list = {0};
    const enum rs_status status = parse(text, &list, err);
    if (status < 0) {
        rs_mem_free(list.items);
        return status;
    }
    qsort(list.items, list.count, sizeof *list.items, by_value);
    size_t kept = 0;
    for (size_t i = 0; i < list.count; i++)
        if (!kept || list.items[kept - 1] != list.items[i])
            list.items[kept++] = list.items[i];
    *is_all_p = false;
    *ranks_p = list.items;
    *count_p = kept;
    return RS_OK;
}
