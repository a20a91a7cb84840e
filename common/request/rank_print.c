/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The normal form of a rank expression, and lists of ranks as people write them.
 */
#include "common/base/mem.h"
#include "common/request/rank_expr.h"
#include "common/request/rank_expr_priv.h"

#include <inttypes.h>
#include <stdlib.h>

static int by_first(const void *left, const void *right)
{
    const struct rs_rank_range *a = left, *b = right;
    return a->first != b->first ? (a->first > b->first) - (a->first < b->first)
                                : (a->last > b->last) - (a->last < b->last);
}

size_t rank_ranges_merge(struct rs_rank_range *ranges, size_t count)
{
    size_t kept = 0;
    if (!ranges || !count)
        return 0;
    qsort(ranges, count, sizeof *ranges, by_first);
    for (size_t i = 0; i < count; i++) {
        struct rs_rank_range *last = kept ? &ranges[kept - 1] : NULL;
        if (!last || ranges[i].first > last->last + 1) /* numbers end at RS_RANK_MAX: no overflow */
            ranges[kept++] = ranges[i];
        else if (ranges[i].last > last->last)
            last->last = ranges[i].last;
    }
    return kept;
}

static void print_range(const struct rs_rank_range *range, struct rs_buf *buf)
{
    if (range->first == range->last)
        rs_buf_printf(buf, "%" PRIu32, range->first);
    else
        rs_buf_printf(buf, "%" PRIu32 "-%" PRIu32, range->first, range->last);
}

void rs_rank_list_print(const uint32_t *ranks, size_t count, struct rs_buf *buf)
{
    if (!count)
        rs_buf_string(buf, "none");
    for (size_t i = 0; i < count;) {
        struct rs_rank_range range = {ranks[i], ranks[i]};
        const size_t start = i;
        while (++i < count && ranks[i] == range.last + 1)
            range.last = ranks[i];
        if (start)
            rs_buf_u8(buf, ',');
        if (range.last == range.first + 1) { /* two: "3,4" reads better than "3-4" */
            rs_buf_printf(buf, "%" PRIu32 ",%" PRIu32, range.first, range.last);
        } else {
            print_range(&range, buf);
        }
    }
}

static void print_percent(uint64_t units, struct rs_buf *buf)
{
    rs_buf_printf(buf, "sample=%" PRIu64, units / 1000000);
    uint64_t rest = units % 1000000;
    if (rest) {
        unsigned digits = 6;
        for (; rest % 10 == 0; rest /= 10)
            digits--;
        rs_buf_printf(buf, ".%0*" PRIu64, (int)digits, rest);
    }
    rs_buf_u8(buf, '%');
}

static void print_node(const struct rs_rank_expr *expr, uint32_t index, bool is_inside,
                       struct rs_buf *buf);

/* The union's own numbers, sorted and merged; *ranges_p is freed by the caller. Returns how many. */
static size_t numbers_of(const struct rs_rank_expr *expr, uint32_t child,
                         struct rs_rank_range **ranges_p, struct rs_buf *buf)
{
    size_t count = 0, capacity = 0;
    for (uint32_t i = child; i != EXPR_NONE; i = expr->nodes[i].next) {
        const struct expr_node *node = &expr->nodes[i];
        if (node->kind != EXPR_RANGE)
            continue;
        if (rs_mem_grow((void **)ranges_p, &capacity, count + 1, sizeof **ranges_p) < 0) {
            buf->failed = true;
            break;
        }
        (*ranges_p)[count++] = (struct rs_rank_range){node->first, node->last};
    }
    return *ranges_p ? rank_ranges_merge(*ranges_p, count) : 0;
}

/* Numbers may merge into a single range: that is an atom and needs no parentheses. */
static void print_union(const struct rs_rank_expr *expr, const struct expr_node *node,
                        bool is_inside, struct rs_buf *buf)
{
    struct rs_rank_range *ranges = NULL;
    const size_t numbers = numbers_of(expr, node->child, &ranges, buf);
    size_t others = 0;
    for (uint32_t i = node->child; i != EXPR_NONE; i = expr->nodes[i].next)
        others += expr->nodes[i].kind != EXPR_RANGE;
    is_inside = is_inside && numbers + others > 1;
    if (is_inside)
        rs_buf_u8(buf, '(');
    for (size_t i = 0; i < numbers; i++) {
        if (i)
            rs_buf_u8(buf, ',');
        print_range(&ranges[i], buf);
    }
    bool is_behind = numbers > 0;
    for (uint32_t i = node->child; i != EXPR_NONE; i = expr->nodes[i].next) {
        if (expr->nodes[i].kind == EXPR_RANGE)
            continue;
        if (is_behind)
            rs_buf_string(buf, " | ");
        print_node(expr, i, false, buf);
        is_behind = true;
    }
    if (is_inside)
        rs_buf_u8(buf, ')');
    rs_mem_free(ranges);
}

static void print_both(const struct rs_rank_expr *expr, const struct expr_node *node,
                       bool is_inside, struct rs_buf *buf)
{
    if (is_inside)
        rs_buf_u8(buf, '(');
    for (uint32_t i = node->child; i != EXPR_NONE; i = expr->nodes[i].next) {
        if (i != node->child)
            rs_buf_string(buf, " & ");
        print_node(expr, i, expr->nodes[i].kind == EXPR_UNION, buf);
    }
    if (is_inside)
        rs_buf_u8(buf, ')');
}

static void print_role(const struct expr_node *node, struct rs_buf *buf)
{
    rs_buf_printf(buf, "%s=", rs_rank_role_name(node->role));
    if (node->is_last)
        rs_buf_string(buf, "last");
    else
        print_range(&(struct rs_rank_range){node->first, node->last}, buf);
}

/* `is_inside`: a union or a "both" needs parentheses here. */
static void print_node(const struct rs_rank_expr *expr, uint32_t index, bool is_inside,
                       struct rs_buf *buf)
{
    const struct expr_node *node = &expr->nodes[index];
    switch (node->kind) {
    case EXPR_UNION:
        print_union(expr, node, is_inside, buf);
        return;
    case EXPR_BOTH:
        print_both(expr, node, is_inside, buf);
        return;
    case EXPR_NOT:
        rs_buf_u8(buf, '!');
        print_node(expr, node->child, true, buf);
        return;
    case EXPR_ALL:
        rs_buf_string(buf, "all");
        return;
    case EXPR_RANGE:
        print_range(&(struct rs_rank_range){node->first, node->last}, buf);
        return;
    case EXPR_NODE:
        rs_buf_printf(buf, "node=%.*s%s", (int)node->length, &expr->text[node->name],
                      node->is_prefix ? "*" : "");
        return;
    case EXPR_ROLE:
        print_role(node, buf);
        return;
    case EXPR_ONE_PER_NODE:
        rs_buf_string(buf, "one-per-node");
        return;
    case EXPR_EVERY:
        rs_buf_printf(buf, "every=%" PRIu32, node->first);
        return;
    case EXPR_SAMPLE:
        print_percent(node->units, buf);
        return;
    case EXPR_SLOWEST:
        rs_buf_printf(buf, "slowest=%" PRIu32, node->first);
        return;
    }
}

void rs_rank_expr_print(const struct rs_rank_expr *expr, struct rs_buf *buf)
{
    print_node(expr, expr->root, false, buf);
}
