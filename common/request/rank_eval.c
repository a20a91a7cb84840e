/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks an expression means, for one table of ranks.
 *
 * The rows are put in order of rank once; a set is then a bit per row, and a node of the expression fills the
 * bits its caller gives it. Depth of the recursion is that of the expression, bounded by the parser.
 */
#include "common/base/mem.h"
#include "common/request/rank_expr.h"
#include "common/request/rank_expr_priv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BITS = 64 };

struct table {
    const struct rs_rank_row **rows; /* by rank, ascending */
    size_t count;
    size_t words; /* of a set */
    uint64_t seed;
    struct rs_rank_set *set; /* for what is unknown */
};

void rs_rank_set_fini(struct rs_rank_set *set)
{
    rs_mem_free(set->ranks);
    rs_mem_free(set->unknown);
    for (size_t i = 0; i < set->remark_count; i++)
        rs_mem_free(set->remarks[i]);
    rs_mem_free(set->remarks);
    *set = (struct rs_rank_set){0};
}

bool rs_rank_set_has(const struct rs_rank_set *set, uint32_t rank)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (set->ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->ranks[low] == rank;
}

static void put(uint64_t *bits, size_t index)
{
    bits[index / WORD_BITS] |= UINT64_C(1) << (index % WORD_BITS);
}

static bool has(const uint64_t *bits, size_t index)
{
    return bits[index / WORD_BITS] >> (index % WORD_BITS) & 1;
}

static enum rs_status remark(const struct table *table, const char *format, ...) RS_PRINTF(2, 3);
static enum rs_status remark(const struct table *table, const char *format, ...)
{
    struct rs_rank_set *set = table->set;
    char text[RS_RANK_EXPR_NODE_MAX_BYTES + 160];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (size_t i = 0; i < set->remark_count; i++)
        if (strcmp(set->remarks[i], text) == 0)
            return RS_OK;
    if (rs_mem_grow((void **)&set->remarks, &set->remark_capacity, set->remark_count + 1,
                    sizeof *set->remarks) < 0)
        return RS_NOMEM;
    char *copy = rs_mem_strdup(text);
    if (!copy)
        return RS_NOMEM;
    set->remarks[set->remark_count++] = copy;
    return RS_OK;
}

static enum rs_status add_unknown(struct rs_rank_set *set, uint32_t first, uint32_t last)
{
    if (rs_mem_grow((void **)&set->unknown, &set->unknown_capacity, set->unknown_count + 1,
                    sizeof *set->unknown) < 0)
        return RS_NOMEM;
    set->unknown[set->unknown_count++] = (struct rs_rank_range){first, last};
    return RS_OK;
}

/* Index of the first row whose rank is `rank` or above. */
static size_t lower_bound(const struct table *table, uint32_t rank)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (table->rows[middle]->rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum rs_status choose_range(const struct table *table, const struct expr_node *node,
                                   uint64_t *bits)
{
    uint32_t next = node->first; /* the lowest number not yet accounted for */
    for (size_t i = lower_bound(table, node->first); i < table->count; i++) {
        const uint32_t rank = table->rows[i]->rank;
        if (rank > node->last)
            break;
        if (rank > next && add_unknown(table->set, next, rank - 1) < 0)
            return RS_NOMEM;
        next = rank + 1;
        put(bits, i);
    }
    return next <= node->last ? add_unknown(table->set, next, node->last) : RS_OK;
}

static const char *node_of(const struct rs_rank_row *row)
{
    return row->node ? row->node : "";
}

static enum rs_status choose_node(const struct table *table, const struct rs_rank_expr *expr,
                                  const struct expr_node *node, uint64_t *bits)
{
    const char *name = &expr->text[node->name];
    bool is_known = false;
    for (size_t i = 0; i < table->count; i++) {
        const char *other = node_of(table->rows[i]);
        if (!*other || strncmp(other, name, node->length) != 0 ||
            (!node->is_prefix && other[node->length]))
            continue;
        put(bits, i);
        is_known = true;
    }
    if (is_known)
        return RS_OK;
    return remark(table, "no rank is on a node \"%.*s%s\"", (int)node->length, name,
                  node->is_prefix ? "*" : "");
}

static enum rs_status choose_role(const struct table *table, const struct expr_node *node,
                                  uint64_t *bits)
{
    const char *name = rs_rank_role_name(node->role);
    int32_t largest = -1;
    size_t chosen = 0, ignorant = 0;
    for (size_t i = 0; i < table->count; i++) {
        const int32_t value = table->rows[i]->role[node->role];
        ignorant += value < 0;
        largest = value > largest ? value : largest;
    }
    if (largest < 0)
        return table->count ? remark(table, "the %s of no rank is known", name) : RS_OK;
    const uint32_t first = node->is_last ? (uint32_t)largest : node->first;
    const uint32_t last = node->is_last ? (uint32_t)largest : node->last;
    for (size_t i = 0; i < table->count; i++) {
        const int32_t value = table->rows[i]->role[node->role];
        if (value < 0 || (uint32_t)value < first || (uint32_t)value > last)
            continue;
        put(bits, i);
        chosen++;
    }
    if (!chosen &&
        remark(table, "%s=%" PRIu32 ": the largest known is %" PRId32, name, first, largest) < 0)
        return RS_NOMEM;
    return ignorant ? remark(table, "the %s of %zu ranks is not known", name, ignorant) : RS_OK;
}

static int by_node_then_place(const void *left, const void *right)
{
    const struct rs_rank_row *a = *(const struct rs_rank_row *const *)left;
    const struct rs_rank_row *b = *(const struct rs_rank_row *const *)right;
    const int order = strcmp(node_of(a), node_of(b));
    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

/* Longest step first; the lower rank first among equals. */
static int by_step_time(const void *left, const void *right)
{
    const struct rs_rank_row *a = *(const struct rs_rank_row *const *)left;
    const struct rs_rank_row *b = *(const struct rs_rank_row *const *)right;
    if (a->step_time_ns != b->step_time_ns)
        return a->step_time_ns < b->step_time_ns ? 1 : -1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* What is a rank's own may be compared only when it is known of all. */
static int by_self_time(const void *left, const void *right)
{
    const struct rs_rank_row *a = *(const struct rs_rank_row *const *)left;
    const struct rs_rank_row *b = *(const struct rs_rank_row *const *)right;
    if (a->self_time_ns != b->self_time_ns)
        return a->self_time_ns < b->self_time_ns ? 1 : -1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static bool knows_self_times(const struct table *table)
{
    size_t known = 0;
    while (known < table->count && table->rows[known]->self_time_ns > 0)
        known++;
    return known == table->count;
}

static const struct rs_rank_row **sorted_rows(const struct table *table,
                                              int (*order)(const void *, const void *))
{
    const struct rs_rank_row **rows =
        rs_mem_calloc(table->count ? table->count : 1, sizeof(const struct rs_rank_row *));
    if (!rows)
        return NULL;
    if (table->count) {
        memcpy(rows, table->rows, table->count * sizeof(const struct rs_rank_row *));
        qsort(rows, table->count, sizeof(const struct rs_rank_row *), order);
    }
    return rows;
}

static enum rs_status choose_one_per_node(const struct table *table, uint64_t *bits)
{
    const struct rs_rank_row **rows = sorted_rows(table, by_node_then_place);
    if (!rows)
        return RS_NOMEM;
    size_t homeless = 0;
    for (size_t i = 0; i < table->count; i++) {
        if (!*node_of(rows[i]))
            homeless++;
        else if (!i || strcmp(node_of(rows[i]), node_of(rows[i - 1])) != 0)
            put(bits, lower_bound(table, rows[i]->rank));
    }
    rs_mem_free(rows);
    return homeless ? remark(table, "the node of %zu ranks is not known", homeless) : RS_OK;
}

static enum rs_status choose_slowest(const struct table *table, const struct expr_node *node,
                                     uint64_t *bits)
{
    const bool by_self = knows_self_times(table);
    const struct rs_rank_row **rows = sorted_rows(table, by_self ? by_self_time : by_step_time);
    if (!rows)
        return RS_NOMEM;
    size_t chosen = 0;
    while (chosen < table->count && chosen < node->first &&
           (by_self || rows[chosen]->step_time_ns > 0))
        put(bits, lower_bound(table, rows[chosen++]->rank));
    rs_mem_free(rows);
    if (chosen == node->first || chosen == table->count)
        return RS_OK;
    return remark(table, "slowest=%" PRIu32 ": the step time of only %zu ranks is known",
                  node->first, chosen);
}

/* A well-mixed number from seed and rank (the finaliser of splitmix64): fixed for ever, since a sample has to be
 * the same wherever it is drawn. */
static uint64_t draw(uint64_t seed, uint32_t rank)
{
    uint64_t x = seed + UINT64_C(0x9e3779b97f4a7c15) * ((uint64_t)rank + 1);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

struct ticket {
    uint64_t number;
    size_t index;
};

static int by_ticket(const void *left, const void *right)
{
    const struct ticket *a = left, *b = right;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static enum rs_status choose_sample(const struct table *table, const struct expr_node *node,
                                    uint64_t *bits)
{
    if (!table->count)
        return RS_OK;
    struct ticket *tickets = rs_mem_calloc(table->count, sizeof *tickets);
    if (!tickets)
        return RS_NOMEM;
    for (size_t i = 0; i < table->count; i++)
        tickets[i] = (struct ticket){draw(table->seed, table->rows[i]->rank), i};
    qsort(tickets, table->count, sizeof *tickets, by_ticket);
    /* at most 2^24 ranks times 10^8: no overflow */
    const uint64_t wanted = (table->count * node->units + SAMPLE_WHOLE - 1) / SAMPLE_WHOLE;
    for (size_t i = 0; i < wanted; i++)
        put(bits, tickets[i].index);
    rs_mem_free(tickets);
    return RS_OK;
}

static enum rs_status choose(const struct table *table, const struct rs_rank_expr *expr,
                             uint32_t index, uint64_t *bits);

static enum rs_status choose_many(const struct table *table, const struct rs_rank_expr *expr,
                                  const struct expr_node *node, uint64_t *bits)
{
    uint64_t *one = rs_mem_calloc(table->words, sizeof *one);
    if (!one)
        return RS_NOMEM;
    enum rs_status status = RS_OK;
    for (uint32_t i = node->child; i != EXPR_NONE && status == RS_OK; i = expr->nodes[i].next) {
        memset(one, 0, table->words * sizeof *one);
        status = choose(table, expr, i, one);
        for (size_t w = 0; w < table->words; w++)
            bits[w] =
                node->kind == EXPR_UNION || i == node->child ? bits[w] | one[w] : bits[w] & one[w];
    }
    rs_mem_free(one);
    return status;
}

static void choose_all(const struct table *table, uint64_t *bits)
{
    for (size_t i = 0; i < table->count; i++)
        put(bits, i);
}

static enum rs_status choose_not(const struct table *table, const struct rs_rank_expr *expr,
                                 const struct expr_node *node, uint64_t *bits)
{
    const enum rs_status status = choose(table, expr, node->child, bits);
    for (size_t w = 0; w < table->words; w++)
        bits[w] = ~bits[w];
    if (table->count % WORD_BITS)
        bits[table->count / WORD_BITS] &= (UINT64_C(1) << (table->count % WORD_BITS)) - 1;
    else
        bits[table->count / WORD_BITS] = 0; /* the spare word */
    return status;
}

/* `bits` come in zeroed. RS_OK or RS_NOMEM. */
static enum rs_status choose(const struct table *table, const struct rs_rank_expr *expr,
                             uint32_t index, uint64_t *bits)
{
    const struct expr_node *node = &expr->nodes[index];
    switch (node->kind) {
    case EXPR_UNION:
    case EXPR_BOTH:
        return choose_many(table, expr, node, bits);
    case EXPR_NOT:
        return choose_not(table, expr, node, bits);
    case EXPR_ALL:
        choose_all(table, bits);
        return RS_OK;
    case EXPR_RANGE:
        return choose_range(table, node, bits);
    case EXPR_NODE:
        return choose_node(table, expr, node, bits);
    case EXPR_ROLE:
        return choose_role(table, node, bits);
    case EXPR_ONE_PER_NODE:
        return choose_one_per_node(table, bits);
    case EXPR_EVERY:
        for (size_t i = 0; i < table->count; i++)
            if (table->rows[i]->rank % node->first == 0)
                put(bits, i);
        return RS_OK;
    case EXPR_SAMPLE:
        return choose_sample(table, node, bits);
    case EXPR_SLOWEST:
        return choose_slowest(table, node, bits);
    }
    return RS_OK;
}

static int by_rank(const void *left, const void *right)
{
    const struct rs_rank_row *a = *(const struct rs_rank_row *const *)left;
    const struct rs_rank_row *b = *(const struct rs_rank_row *const *)right;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static enum rs_status make_table(const struct rs_rank_row *rows, size_t count, struct table *table,
                                 struct rs_err *err)
{
    table->rows = rs_mem_calloc(count ? count : 1, sizeof(const struct rs_rank_row *));
    if (!table->rows)
        return rs_err_set(err, RS_NOMEM, "no memory for %zu ranks", count);
    for (size_t i = 0; i < count; i++)
        table->rows[i] = &rows[i];
    if (count)
        qsort(table->rows, count, sizeof(const struct rs_rank_row *), by_rank);
    table->count = count;
    table->words = count / WORD_BITS + 1;
    for (size_t i = 0; i < count; i++) {
        const uint32_t rank = table->rows[i]->rank;
        if (rank > RS_RANK_MAX)
            return rs_err_set(err, RS_INVALID, "rank %" PRIu32 " is beyond %d", rank, RS_RANK_MAX);
        if (i && rank == table->rows[i - 1]->rank)
            return rs_err_set(err, RS_INVALID, "rank %" PRIu32 " is in the table twice", rank);
    }
    return RS_OK;
}

static enum rs_status take_chosen(const struct table *table, const uint64_t *bits,
                                  struct rs_rank_set *set)
{
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++)
        count += has(bits, i);
    if (count && rs_mem_grow((void **)&set->ranks, &set->capacity, count, sizeof *set->ranks) < 0)
        return RS_NOMEM;
    for (size_t i = 0; i < table->count; i++)
        if (has(bits, i))
            set->ranks[set->count++] = table->rows[i]->rank;
    return RS_OK;
}

enum rs_status rs_rank_expr_eval(const struct rs_rank_expr *expr, const struct rs_rank_row *rows,
                                 size_t row_count, uint64_t seed, struct rs_rank_set *set,
                                 struct rs_err *err)
{
    rs_rank_set_fini(set);
    struct table table = {.seed = seed, .set = set};
    uint64_t *bits = NULL;
    enum rs_status status = make_table(rows, row_count, &table, err);
    if (status == RS_OK) {
        bits = rs_mem_calloc(table.words, sizeof *bits);
        status = bits ? choose(&table, expr, expr->root, bits) : RS_NOMEM;
        if (status == RS_OK)
            status = take_chosen(&table, bits, set);
        if (status < 0)
            (void)rs_err_set(err, status, "no memory to choose among %zu ranks", row_count);
    }
    if (status < 0) {
        rs_rank_set_fini(set);
    } else {
        set->unknown_count = rank_ranges_merge(set->unknown, set->unknown_count);
        if (set->unknown_count || set->remark_count)
            status = RS_PARTIAL;
    }
    rs_mem_free(bits);
    rs_mem_free(table.rows);
    return status;
}
