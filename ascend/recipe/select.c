/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables by SQL: the frames of a run are tables of the output's connection, and each result is a SELECT over them.
 *
 *     frames of all ranks --> virtual tables --> SELECT --> INSERT into cluster_analysis.db, or csv
 *                                                  |
 *                                                  `- functions that sum and print as the peer's libraries do
 *
 * A frame gives its rows in any order that a statement asks for: equal rows in the order in which they came, texts by their
 * bytes, what is not there behind all texts. Sums depend on the order of what is summed, so that is a promise, and frames are
 * sorted here, not by SQLite. An order is kept for the next statement that asks for it. Thread: the caller's of rs_recipe_run(); functions also of connections to a rank's databases.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- frames as tables ---- */

struct vtab {
    sqlite3_vtab base; /* first: SQLite's */
    struct frame_table *source;
};

struct cursor {
    sqlite3_vtab_cursor base;        /* first: SQLite's */
    const struct frame_order *order; /* NULL: as they came */
    size_t at, count;
};

static const struct frame *frame_of(const sqlite3_vtab_cursor *cursor)
{
    return ((const struct vtab *)cursor->pVtab)->source->frame;
}

static int connect(sqlite3 *db, void *source, int argc, const char *const *argv,
                   sqlite3_vtab **vtab_p, char **error_p)
{
    struct vtab *vtab = rs_mem_calloc(1, sizeof *vtab);
    struct rs_buf sql = {0};
    (void)argc;
    (void)argv;
    (void)error_p;
    if (!vtab)
        return SQLITE_NOMEM;
    vtab->source = source;
    rs_buf_string(&sql, "CREATE TABLE x (");
    for (const char *word = vtab->source->columns; *word;) { /* "name:t duration:i" */
        const size_t length = strcspn(word, " "), name = strcspn(word, ":");
        rs_buf_printf(&sql, "%s%.*s", word == vtab->source->columns ? "" : ", ", (int)name, word);
        word += length + (word[length] == ' ');
    }
    rs_buf_u8(&sql, ')');
    const int code = sql.failed ? SQLITE_NOMEM : sqlite3_declare_vtab(db, rs_buf_text(&sql));
    rs_buf_fini(&sql);
    if (code != SQLITE_OK)
        rs_mem_free(vtab);
    else
        *vtab_p = &vtab->base;
    return code;
}

static int disconnect(sqlite3_vtab *vtab)
{
    rs_mem_free(vtab);
    return SQLITE_OK;
}

/* The order that is asked for becomes the plan's text, the keys of frame_order(). */
static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const double rows = (double)((struct vtab *)vtab)->source->frame->count;
    char keys[FRAME_COLUMNS_MAX + 1] = "";
    size_t count = 0;
    info->estimatedRows = (sqlite3_int64)rows;
    info->estimatedCost = rows;
    for (int i = 0; i < info->nOrderBy && count < FRAME_COLUMNS_MAX; i++) {
        if (info->aOrderBy[i].desc || info->aOrderBy[i].iColumn < 0)
            return SQLITE_OK; /* its own sorter then */
        keys[count++] = (char)(info->aOrderBy[i].iColumn + 1);
    }
    if (!count || (size_t)info->nOrderBy > count)
        return SQLITE_OK;
    info->idxStr = sqlite3_mprintf("%s", keys);
    info->needToFreeIdxStr = 1;
    info->orderByConsumed = 1;
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor_p)
{
    struct cursor *cursor = rs_mem_calloc(1, sizeof *cursor);
    (void)vtab;
    if (!cursor)
        return SQLITE_NOMEM;
    *cursor_p = &cursor->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    rs_mem_free((struct cursor *)base);
    return SQLITE_OK;
}

/* An order serves all statements that ask for it. */
static int find_order(struct frame_table *source, const char *keys,
                      const struct frame_order **order_p)
{
    for (size_t i = 0; i < source->order_count; i++)
        if (strcmp(source->orders[i].keys, keys) == 0) {
            *order_p = &source->orders[i];
            return SQLITE_OK;
        }
    struct frame_order *place = &source->orders[source->order_count];
    if (source->order_count == ORDERS_MAX || frame_order(source->frame, keys, place) != RS_OK)
        return SQLITE_NOMEM;
    source->order_count++;
    *order_p = place;
    return SQLITE_OK;
}

void select_forget(struct frame_table *source)
{
    for (size_t i = 0; i < source->order_count; i++)
        frame_order_fini(&source->orders[i]);
    source->order_count = 0;
}

static int filter(sqlite3_vtab_cursor *base, int number, const char *keys, int argc,
                  sqlite3_value **argv)
{
    struct cursor *cursor = (struct cursor *)base;
    (void)number;
    (void)argc;
    (void)argv;
    cursor->order = NULL;
    cursor->at = 0;
    cursor->count = frame_of(base)->count;
    return keys ? find_order(((struct vtab *)base->pVtab)->source, keys, &cursor->order)
                : SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *base)
{
    ((struct cursor *)base)->at++;
    return SQLITE_OK;
}

static int eof(sqlite3_vtab_cursor *base)
{
    return ((struct cursor *)base)->at >= ((struct cursor *)base)->count;
}

static size_t row_of(const sqlite3_vtab_cursor *base)
{
    const struct cursor *cursor = (const struct cursor *)base;
    return cursor->order ? cursor->order->rows[cursor->at] : cursor->at;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int index)
{
    const struct frame *frame = frame_of(base);
    const union frame_cell *cell = frame_row(frame, row_of(base)) + index;
    switch (frame->kinds[index]) {
    case 'i':
        if (cell->i != RS_NULL)
            sqlite3_result_int64(context, cell->i);
        break;
    case 'r':
        sqlite3_result_double(context, cell->r); /* NaN is NULL there, too */
        break;
    default:
        if (cell->t != RS_STR_NONE)
            sqlite3_result_text(context, frame_text(frame, cell->t),
                                (int)rs_strtab_length(&frame->texts, cell->t), SQLITE_STATIC);
        break;
    }
    return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid_p)
{
    *rowid_p = (sqlite3_int64)row_of(base);
    return SQLITE_OK;
}

int select_frame(sqlite3 *db, const char *name, struct frame_table *source)
{
    static const sqlite3_module module = {.iVersion = 1,
                                          .xCreate = connect,
                                          .xConnect = connect,
                                          .xBestIndex = best_index,
                                          .xDisconnect = disconnect,
                                          .xDestroy = disconnect,
                                          .xOpen = open_cursor,
                                          .xClose = close_cursor,
                                          .xFilter = filter,
                                          .xNext = next,
                                          .xEof = eof,
                                          .xColumn = column,
                                          .xRowid = rowid};
    int code = sqlite3_create_module(db, name, &module, source);
    /* of a name in several schemas SQLite takes temp's: what a stranger's file calls its tables does not matter then */
    char *sql = sqlite3_mprintf("CREATE VIRTUAL TABLE temp.\"%w\" USING \"%w\"", name, name);
    if (code == SQLITE_OK)
        code = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return code;
}

/* ---- aggregates over numbers: all of a group are gathered, in their order ---- */

static struct gathered *gathered_of(sqlite3_context *context, bool make)
{
    return sqlite3_aggregate_context(context, make ? sizeof(struct gathered) : 0);
}

static void gather(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct gathered *all = gathered_of(context, true);
    if (!all || sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    if (rs_mem_grow((void **)&all->values, &all->capacity, all->count + 1, sizeof *all->values) !=
            RS_OK ||
        (argc > 1 && rs_mem_grow((void **)&all->ranks, &all->rank_capacity, all->count + 1,
                                 sizeof *all->ranks) != RS_OK)) {
        all->failed = true;
        return;
    }
    if (argc > 1)
        all->ranks[all->count] = sqlite3_value_int64(argv[1]);
    if (argc > 2 && !all->count)
        (void)snprintf(all->separator, sizeof all->separator, "%s", sqlite3_value_text(argv[2]));
    all->values[all->count++] = sqlite3_value_double(argv[0]);
}

typedef void made_fn(sqlite3_context *context, struct gathered *all);

/* The end of an aggregate: NULL when nothing was gathered. */
static void conclude(sqlite3_context *context)
{
    made_fn *const made = *(made_fn *const *)sqlite3_user_data(context);
    struct gathered *all = gathered_of(context, false);
    if (all && all->failed)
        sqlite3_result_error_nomem(context);
    else if (all && all->count)
        made(context, all);
    if (all) {
        rs_mem_free(all->values);
        rs_mem_free(all->ranks);
    }
}

static void make_stats(sqlite3_context *context, struct gathered *all,
                       void of(const double *, size_t, double *, struct stats *))
{
    struct stats stats;
    double *sorted = rs_mem_calloc(all->count, sizeof *sorted);
    if (!sorted) {
        sqlite3_result_error_nomem(context);
        return;
    }
    of(all->values, all->count, sorted, &stats);
    sqlite3_result_blob(context, &stats, sizeof stats, SQLITE_TRANSIENT);
    rs_mem_free(sorted);
}

static void group_stats(sqlite3_context *context, struct gathered *all)
{
    make_stats(context, all, stats_of_group);
}

static void column_stats(sqlite3_context *context, struct gathered *all)
{
    make_stats(context, all, stats_of_column);
}

static void median(sqlite3_context *context, struct gathered *all)
{
    stats_sort(all->values, all->count);
    sqlite3_result_double(context, stats_median_sorted(all->values, all->count));
}

static void deviation(sqlite3_context *context, struct gathered *all)
{
    double mean;
    sqlite3_result_double(context, stats_std_population(all->values, all->count, &mean));
}

/* Is any beyond three deviations? */
static void has_outlier(sqlite3_context *context, struct gathered *all)
{
    double mean;
    const double std = stats_std_population(all->values, all->count, &mean);
    bool found = false;
    for (size_t i = 0; i < all->count && std > 0; i++)
        found |= all->values[i] > 3 * std + mean || all->values[i] < -3 * std + mean;
    sqlite3_result_int(context, found);
}

/* ---- sums ---- */

struct summed {
    struct stats_sum sum;
    bool is_any;
};

/* What rounding takes away is kept; with "doubled" every value is taken twice, which is not twice the sum. */
static void add_exact(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct summed *summed = sqlite3_aggregate_context(context, sizeof *summed);
    (void)argc;
    if (!summed || sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    summed->is_any = true;
    stats_add(&summed->sum, sqlite3_value_double(argv[0]));
    if (sqlite3_user_data(context))
        stats_add(&summed->sum, sqlite3_value_double(argv[0]));
}

static void add_plain(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct summed *summed = sqlite3_aggregate_context(context, sizeof *summed);
    (void)argc;
    if (!summed || sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    summed->is_any = true;
    summed->sum.sum += sqlite3_value_double(argv[0]);
}

static void tell_sum(sqlite3_context *context)
{
    const struct summed *summed = sqlite3_aggregate_context(context, 0);
    if (summed && summed->is_any)
        sqlite3_result_double(context, summed->sum.sum);
}

/* sum_firsts(name, value): of each name its first value, summed pairwise. */
struct firsts {
    struct rs_strtab names; /* made with the first value */
    struct gathered all;
};

static void add_first(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct firsts *firsts = sqlite3_aggregate_context(context, sizeof *firsts);
    const char *name = (const char *)sqlite3_value_text(argv[0]);
    rs_str id;
    (void)argc;
    if (!firsts || !name)
        return;
    if (!firsts->names.count)
        firsts->all.failed |= rs_strtab_init(&firsts->names, 0) != RS_OK;
    const size_t before = firsts->names.count;
    firsts->all.failed |=
        firsts->all.failed ||
        rs_strtab_add(&firsts->names, name, (size_t)sqlite3_value_bytes(argv[0]), &id) != RS_OK ||
        rs_mem_grow((void **)&firsts->all.values, &firsts->all.capacity, firsts->all.count + 1,
                    sizeof *firsts->all.values) != RS_OK;
    if (!firsts->all.failed && firsts->names.count > before)
        firsts->all.values[firsts->all.count++] = sqlite3_value_double(argv[1]);
}

static void tell_firsts(sqlite3_context *context)
{
    struct firsts *firsts = sqlite3_aggregate_context(context, 0);
    if (firsts && firsts->all.failed)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_double(
            context, firsts ? stats_pairwise_sum(firsts->all.values, firsts->all.count) : 0);
    if (firsts) {
        rs_strtab_fini(&firsts->names);
        rs_mem_free(firsts->all.values);
    }
}

/* first_text(x), last_of(x): of those that are not NULL, in their order. */
static void keep_value(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    sqlite3_value **kept = sqlite3_aggregate_context(context, sizeof(sqlite3_value *));
    const bool is_last = sqlite3_user_data(context) != NULL;
    (void)argc;
    if (!kept || sqlite3_value_type(argv[0]) == SQLITE_NULL || (*kept && !is_last))
        return;
    sqlite3_value_free(*kept);
    *kept = sqlite3_value_dup(argv[0]);
    if (!*kept) /* SQLite does not tell it by itself, and NULL would be an answer */
        sqlite3_result_error_nomem(context);
}

static void tell_value(sqlite3_context *context)
{
    sqlite3_value **kept = sqlite3_aggregate_context(context, 0);
    if (!kept || !*kept)
        return;
    sqlite3_result_value(context, *kept);
    sqlite3_value_free(*kept);
}

/* ---- a stack of ranges: window functions, over rows in order of time and ROWS UNBOUNDED PRECEDING ---- */

struct stack {
    int64_t (*items)[2]; /* id, end */
    size_t count, capacity;
    int64_t answer;
    bool has_answer, failed;
};

static void push(struct stack *stack, sqlite3_value *id, int64_t end)
{
    if (rs_mem_grow((void **)&stack->items, &stack->capacity, stack->count + 1,
                    sizeof *stack->items) != RS_OK) {
        stack->failed = true;
        return;
    }
    stack->items[stack->count][0] = sqlite3_value_int64(id);
    stack->items[stack->count++][1] = end;
}

static void look_at_top(struct stack *stack)
{
    stack->has_answer = stack->count != 0;
    stack->answer = stack->count ? stack->items[stack->count - 1][0] : 0;
}

/* around(id, end, until): the innermost range that is still open, NULL: none; those that end before `until` are not. Then
 * the row's own opens, unless its id is NULL. */
static void step_around(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct stack *stack = sqlite3_aggregate_context(context, sizeof *stack);
    (void)argc;
    if (!stack)
        return;
    while (stack->count && stack->items[stack->count - 1][1] < sqlite3_value_int64(argv[2]))
        stack->count--;
    look_at_top(stack);
    if (sqlite3_value_type(argv[0]) != SQLITE_NULL)
        push(stack, argv[0], sqlite3_value_int64(argv[1]));
}

/* partner(id, is_start): of a row that is no start the last start without one. */
static void step_partner(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct stack *stack = sqlite3_aggregate_context(context, sizeof *stack);
    (void)argc;
    if (!stack)
        return;
    stack->has_answer = false;
    if (sqlite3_value_int(argv[1])) {
        push(stack, argv[0], 0);
        return;
    }
    look_at_top(stack);
    stack->count -= stack->has_answer;
}

static void tell_top(sqlite3_context *context)
{
    const struct stack *stack = sqlite3_aggregate_context(context, 0);
    if (stack && stack->failed)
        sqlite3_result_error_nomem(context);
    else if (stack && stack->has_answer)
        sqlite3_result_int64(context, stack->answer);
}

static void end_stack(sqlite3_context *context)
{
    struct stack *stack = sqlite3_aggregate_context(context, 0);
    tell_top(context);
    if (stack)
        rs_mem_free(stack->items);
}

/* alone(at, a, b): the time so far in which more of a had begun than ended, and of b as many; both are added to at `at`. */
struct alone {
    int64_t at, a, b, time;
};

static void step_alone(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct alone *alone = sqlite3_aggregate_context(context, sizeof *alone);
    (void)argc;
    if (!alone)
        return;
    const int64_t at = sqlite3_value_int64(argv[0]);
    alone->time += alone->a > 0 && alone->b == 0 ? at - alone->at : 0;
    alone->at = at;
    alone->a += sqlite3_value_int64(argv[1]);
    alone->b += sqlite3_value_int64(argv[2]);
}

static void tell_alone(sqlite3_context *context)
{
    const struct alone *alone = sqlite3_aggregate_context(context, 0);
    sqlite3_result_int64(context, alone ? alone->time : 0);
}

/* No row ever leaves a window that begins with the first one. */
static void never(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    sqlite3_result_error(context, "only ROWS UNBOUNDED PRECEDING", -1);
}

/* ---- aggregates over (value, rank) ---- */

static size_t extreme_of(const struct gathered *all, bool is_most)
{
    size_t best = 0;
    for (size_t i = 1; i < all->count; i++)
        if (is_most ? all->values[i] > all->values[best] : all->values[i] < all->values[best])
            best = i;
    return best;
}

static void rank_of_least(sqlite3_context *context, struct gathered *all)
{
    sqlite3_result_int64(context, all->ranks[extreme_of(all, false)]);
}

static void rank_of_most(sqlite3_context *context, struct gathered *all)
{
    sqlite3_result_int64(context, all->ranks[extreme_of(all, true)]);
}

/* "3;6;4" of the places given, a number once where it stands several times in a row. */
static void print_list(sqlite3_context *context, const struct gathered *all, const uint32_t *places,
                       size_t count, const char *separator)
{
    struct rs_buf text = {0};
    for (size_t i = 0; i < count; i++)
        if (i == 0 || all->ranks[places[i]] != all->ranks[places[i - 1]])
            rs_buf_printf(&text, "%s%" PRId64, i ? separator : "", all->ranks[places[i]]);
    if (text.failed)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_text(context, rs_buf_text(&text), -1, SQLITE_TRANSIENT);
    rs_buf_fini(&text);
}

static int by_number(const void *a, const void *b, void *data)
{
    const int64_t *numbers = data;
    const uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
    if (numbers[p] != numbers[q])
        return numbers[p] < numbers[q] ? -1 : 1;
    return (p > q) - (p < q);
}

static int by_key(const void *a, const void *b, void *data)
{
    const double *keys = data;
    const uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
    if (keys[p] < keys[q] || keys[p] > keys[q])
        return keys[p] < keys[q] ? -1 : 1;
    return (p > q) - (p < q);
}

/* sum_.._by(value, number): in the order of the numbers, whatever SQLite's is. */
static void sum_by(sqlite3_context *context, struct gathered *all,
                   double sum(const double *values, size_t count))
{
    uint32_t *places = rs_mem_calloc(all->count, sizeof *places);
    double *values = rs_mem_calloc(all->count, sizeof *values);
    for (size_t i = 0; i < all->count && places; i++)
        places[i] = (uint32_t)i;
    if (places && values) {
        qsort_r(places, all->count, sizeof *places, by_number, all->ranks);
        for (size_t i = 0; i < all->count; i++)
            values[i] = all->values[places[i]];
        sqlite3_result_double(context, sum(values, all->count));
    } else {
        sqlite3_result_error_nomem(context);
    }
    rs_mem_free(places);
    rs_mem_free(values);
}

static double plain_sum(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

static double exact_sum(const double *values, size_t count)
{
    struct stats_sum sum = {0};
    for (size_t i = 0; i < count; i++)
        stats_add(&sum, values[i]);
    return sum.sum;
}

static void sum_plain_by(sqlite3_context *context, struct gathered *all)
{
    sum_by(context, all, plain_sum);
}

static void sum_exact_by(sqlite3_context *context, struct gathered *all)
{
    sum_by(context, all, exact_sum);
}

static void sum_pairs_by(sqlite3_context *context, struct gathered *all)
{
    sum_by(context, all, stats_pairwise_sum);
}

/* All that have a value equal to that of `of`, or with `of` NULL all, in the order of their values. */
static void print_some(sqlite3_context *context, struct gathered *all, const double *of,
                       const char *separator)
{
    uint32_t *places = rs_mem_calloc(all->count, sizeof *places);
    size_t count = 0;
    if (!places) {
        sqlite3_result_error_nomem(context);
        return;
    }
    for (size_t i = 0; i < all->count; i++)
        if (!of || (!(all->values[i] < *of) && !(all->values[i] > *of)))
            places[count++] = (uint32_t)i;
    qsort_r(places, count, sizeof *places, by_key, all->values);
    print_list(context, all, places, count, separator);
    rs_mem_free(places);
}

static void ranks_of_least(sqlite3_context *context, struct gathered *all)
{
    print_some(context, all, &all->values[extreme_of(all, false)], ", ");
}

static void ranks_of_most(sqlite3_context *context, struct gathered *all)
{
    print_some(context, all, &all->values[extreme_of(all, true)], ", ");
}

static void list(sqlite3_context *context, struct gathered *all)
{
    print_some(context, all, NULL, all->separator);
}

/* ---- functions ---- */

/* stat(s, n): the n-th of RESULT_STATS. */
static void stat(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct stats stats;
    (void)argc;
    if (sqlite3_value_bytes(argv[0]) != (int)sizeof stats)
        return;
    memcpy(&stats, sqlite3_value_blob(argv[0]), sizeof stats);
    const double values[] = {stats.mean,   stats.std, stats.min, stats.q1,
                             stats.median, stats.q3,  stats.max, stats.sum};
    const int at = sqlite3_value_int(argv[1]);
    if (at == 0)
        sqlite3_result_int64(context, (sqlite3_int64)stats.count);
    else if (at > 0 && (size_t)at <= sizeof values / sizeof values[0])
        sqlite3_result_double(context, values[at - 1]); /* NaN is NULL there */
}

/* Functions of a number and how many digits are wanted, and of what is printed; of NULL they are NULL. */
typedef double number_fn(double value, int digits);
typedef void print_fn(sqlite3_value **values, char *text, size_t size);

static void call_number(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    number_fn *const number = *(number_fn *const *)sqlite3_user_data(context);
    if (sqlite3_value_type(argv[0]) != SQLITE_NULL)
        sqlite3_result_double(context, number(sqlite3_value_double(argv[0]),
                                              argc > 1 ? sqlite3_value_int(argv[1]) : 0));
}

static void call_print(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    char text[400];
    (void)argc;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    (*(print_fn *const *)sqlite3_user_data(context))(argv, text, sizeof text);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static double root(double value, int digits)
{
    (void)digits;
    return sqrt(value);
}

static void us_text(sqlite3_value **values, char *text, size_t size)
{
    stats_print_us(sqlite3_value_int64(values[0]), text, size);
}

static void number_text(sqlite3_value **values, char *text, size_t size)
{
    stats_print(sqlite3_value_double(values[0]), text, size); /* as Python prints it */
}

static void fixed(sqlite3_value **values, char *text, size_t size)
{
    (void)snprintf(text, size, "%.*f", sqlite3_value_int(values[1]),
                   sqlite3_value_double(values[0]));
}

static void group_key(sqlite3_value **values, char *text, size_t size)
{
    char hash[RS_ASCEND_HASH_BYTES];
    rs_ascend_group_key((const char *)sqlite3_value_text(values[0]), hash);
    (void)snprintf(text, size, "%s", hash);
}

static void is_receive(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const char *name = (const char *)sqlite3_value_text(argv[0]);
    const int kind = pair_kind(name ? name : "");
    (void)argc;
    if (kind >= 0)
        sqlite3_result_int(context, kind);
}

static void alike_names(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const char *a = (const char *)sqlite3_value_text(argv[0]);
    const char *b = (const char *)sqlite3_value_text(argv[1]);
    const double ratio = alike(a ? a : "", b ? b : "", sqlite3_value_double(argv[2]));
    (void)argc;
    if (ratio < 0)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_double(context, ratio);
}

/* What is told to sqlite3_create_function(). */
struct function {
    const char *name;
    void (*call)(sqlite3_context *, int, sqlite3_value **);
    void (*step)(sqlite3_context *, int, sqlite3_value **);
    void (*end)(sqlite3_context *);
    void (*value)(sqlite3_context *); /* of a window; NULL: it is of groups only */
    int argc;
    bool is_twin; /* of the two that a step is written for the second one */
};

static int add_functions(sqlite3 *db, const struct function *functions, size_t count, void *data)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < count && code == SQLITE_OK; i++)
        code = functions[i].value
                   ? sqlite3_create_window_function(
                         db, functions[i].name, functions[i].argc, SQLITE_UTF8, data,
                         functions[i].step, functions[i].end, functions[i].value, never, NULL)
                   : sqlite3_create_function(db, functions[i].name, functions[i].argc,
                                             SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                             functions[i].is_twin ? db : data, functions[i].call,
                                             functions[i].step, functions[i].end);
    return code;
}

int select_functions(sqlite3 *db)
{
    static struct aggregate { /* not const: SQLite's data are not */
        const char *name;
        made_fn *made;
        int argc;
    } aggregates[] = {
        {"group_stats", group_stats, 1},
        {"column_stats", column_stats, 1},
        {"median", median, 1},
        {"deviation", deviation, 1},
        {"rank_of_least", rank_of_least, 2},
        {"rank_of_most", rank_of_most, 2},
        {"ranks_of_least", ranks_of_least, 2},
        {"ranks_of_most", ranks_of_most, 2},
        {"has_outlier", has_outlier, 1},
        {"slow_rows", slow_rows, 2},
        {"sum_plain_by", sum_plain_by, 2},
        {"sum_exact_by", sum_exact_by, 2},
        {"sum_pairs_by", sum_pairs_by, 2},
        {"list", list, 3}, /* (key, number, separator) */
    };
    static struct printer {
        const char *name;
        print_fn *print;
        int argc;
    } printers[] = {{"us_text", us_text, 1},
                    {"number_text", number_text, 1},
                    {"fixed", fixed, 2},
                    {"group_key", group_key, 1}};
    static struct number {
        const char *name;
        number_fn *number;
        int argc;
    } numbers[] = {
        {"round_even", stats_round, 2}, {"round_sql", stats_round_sql, 2}, {"root", root, 1}};
    static const struct function functions[] = {
        {.name = "around", .argc = 3, .step = step_around, .end = end_stack, .value = tell_top},
        {.name = "alone", .argc = 3, .step = step_alone, .end = tell_alone, .value = tell_alone},
        {.name = "partner", .argc = 2, .step = step_partner, .end = end_stack, .value = tell_top},
        {.name = "sum_plain", .argc = 1, .step = add_plain, .end = tell_sum, .value = tell_sum},
        {.name = "sum_exact", .argc = 1, .step = add_exact, .end = tell_sum},
        {.name = "sum_doubled", .argc = 1, .step = add_exact, .end = tell_sum, .is_twin = true},
        {.name = "sum_firsts", .argc = 2, .step = add_first, .end = tell_firsts},
        {.name = "first_of", .argc = 1, .step = keep_value, .end = tell_value},
        {.name = "last_of", .argc = 1, .step = keep_value, .end = tell_value, .is_twin = true},
        {.name = "stat", .argc = 2, .call = stat},
        {.name = "alike", .argc = 3, .call = alike_names},
        {.name = "is_receive", .argc = 1, .call = is_receive},
        {.name = "tokens", .argc = 1, .call = tokens},
        {.name = "bare", .argc = 3, .step = step_bare, .end = end_bare},
    };
    int code = add_functions(db, functions, COLUMN_COUNT(functions), NULL);
    for (size_t i = 0; i < COLUMN_COUNT(aggregates) && code == SQLITE_OK; i++) {
        const struct function one = {.name = aggregates[i].name,
                                     .argc = aggregates[i].argc,
                                     .step = gather,
                                     .end = conclude};
        code = add_functions(db, &one, 1, &aggregates[i].made);
    }
    for (size_t i = 0; i < COLUMN_COUNT(printers) && code == SQLITE_OK; i++) {
        const struct function one = {
            .name = printers[i].name, .argc = printers[i].argc, .call = call_print};
        code = add_functions(db, &one, 1, &printers[i].print);
    }
    for (size_t i = 0; i < COLUMN_COUNT(numbers) && code == SQLITE_OK; i++) {
        const struct function one = {
            .name = numbers[i].name, .argc = numbers[i].argc, .call = call_number};
        code = add_functions(db, &one, 1, &numbers[i].number);
    }
    return code;
}

void select_bind(const struct run *run, const struct inputs *in, int64_t rank, sqlite3_stmt *stmt)
{
    const struct {
        const char *name;
        int64_t value;
    } values[] = {{":compat", run->options->compat},
                  {":exclude_op_name", run->options->exclude_op_name},
                  {":step", run->options->step_id},
                  {":top", run->options->top_num > 0 ? run->options->top_num : run->recipe->top},
                  {":rank", rank},
                  {":from", in ? in->from : 0},
                  {":to", in ? in->to : 0},
                  {":number", in ? in->number : 0}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const int place = sqlite3_bind_parameter_index(stmt, values[i].name);
        if (place)
            (void)sqlite3_bind_int64(stmt, place, values[i].value);
    }
    const struct {
        const char *name, *value;
    } texts[] = {{":text", in ? in->text : run->options->baseline},
                 {":kinds", run->options->parallel_types}};
    for (size_t i = 0; i < COLUMN_COUNT(texts); i++) {
        const int place = sqlite3_bind_parameter_index(stmt, texts[i].name);
        if (place)
            (void)sqlite3_bind_text(stmt, place, texts[i].value, -1, SQLITE_STATIC);
    }
    const int figure = sqlite3_bind_parameter_index(stmt, ":figure");
    if (figure)
        (void)sqlite3_bind_double(stmt, figure, in ? in->figure : run->options->fuzzy_threshold);
}
