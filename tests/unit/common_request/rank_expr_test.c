/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank expressions: each operator, each error with its place, limits, and agreement with a brute-force evaluator
 * over random expressions and tables.
 */
#include "common/request/rank_expr.h"

#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORLD = 16 };

/* 16 ranks, tp 2 x dp 2 x pp 4 in Megatron's order, 4 a node n0..n3; rank r took 100 + (r * 7) % 16 ns. */
static void make_rows(struct rs_rank_row rows[WORLD])
{
    static const char *const nodes[] = {"n0", "n1", "n2", "n3"};
    for (uint32_t r = 0; r < WORLD; r++)
        rows[r] = (struct rs_rank_row){.rank = r,
                                       .node = nodes[r / 4],
                                       .role = {[RS_ROLE_TP] = (int32_t)(r % 2),
                                                [RS_ROLE_DP] = (int32_t)(r / 2 % 2),
                                                [RS_ROLE_PP] = (int32_t)(r / 4),
                                                [RS_ROLE_EP] = -1,
                                                [RS_ROLE_CP] = 0},
                                       .step_time_ns = 100 + (int64_t)(r * 7 % 16)};
}

/* Evaluates over the 16 ranks; the chosen ranks as text, then what is unknown. */
static char *chosen_by(const char *text, char *buffer, size_t size)
{
    struct rs_rank_row rows[WORLD];
    struct rs_rank_expr *expr = NULL;
    struct rs_rank_set set = {0};
    struct rs_err err = {0};
    struct rs_buf buf = {0};
    make_rows(rows);
    if (rs_rank_expr_parse(text, strlen(text), &expr, &err) < 0) {
        (void)snprintf(buffer, size, "%s", err.text);
        return buffer;
    }
    const enum rs_status status = rs_rank_expr_eval(expr, rows, WORLD, 1, &set, &err);
    assert_true(status >= 0);
    rs_rank_list_print(set.ranks, set.count, &buf);
    for (size_t i = 0; i < set.unknown_count; i++)
        rs_buf_printf(&buf, " ?%u-%u", set.unknown[i].first, set.unknown[i].last);
    for (size_t i = 0; i < set.remark_count; i++)
        rs_buf_printf(&buf, " !%s", set.remarks[i]);
    assert_int_equal(status, set.unknown_count || set.remark_count ? RS_PARTIAL : RS_OK);
    (void)snprintf(buffer, size, "%s", rs_buf_text(&buf));
    rs_buf_fini(&buf);
    rs_rank_set_fini(&set);
    rs_rank_expr_free(&expr);
    return buffer;
}

struct example {
    const char *text, *expected;
};

static void check_examples(const struct example *examples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char text[1024];
        if (strcmp(chosen_by(examples[i].text, text, sizeof text), examples[i].expected) != 0)
            print_error("%s: \"%s\", expected \"%s\"\n", examples[i].text, text,
                        examples[i].expected);
        assert_string_equal(text, examples[i].expected);
    }
}

#define CHECK(examples) check_examples(examples, sizeof(examples) / sizeof((examples)[0]))

static void each_atom_chooses_what_it_says(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {"all", "0-15"},
        {"3", "3"},
        {"0,3-7", "0,3-7"},
        {"0, 3 - 7", "0,3-7"},
        {"7,3,7,3-4", "3,4,7"},
        {"node=n2", "8-11"},
        {"node = n2", "8-11"},
        {"node=n*", "0-15"},
        {"node=*", "0-15"},
        {"tp=1", "1,3,5,7,9,11,13,15"},
        {"tp=0-1", "0-15"},
        {"dp=last", "2,3,6,7,10,11,14,15"},
        {"pp=last", "12-15"},
        {"pp=1-2", "4-11"},
        {"cp=0", "0-15"},
        {"one-per-node", "0,4,8,12"},
        {"every=8", "0,8"},
        {"every=1", "0-15"},
        {"every=5", "0,5,10,15"},
        {"slowest=2", "2,9"}, /* 7r mod 16: 15 is rank 9 (63), 14 is rank 2 (14) */
        {"slowest=16", "0-15"},
        {"slowest=99", "0-15"},
    };
    CHECK(examples);
}

static void operators_bind_as_the_grammar_says(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {"tp=0 & pp=last", "12,14"},
        {"tp=0&pp=last", "12,14"},
        {" tp = 0\t&\npp = last ", "12,14"},
        {"!tp=0", "1,3,5,7,9,11,13,15"},
        {"!!tp=0", "0,2,4,6,8,10,12,14"},
        {"!(tp=0 | pp=0-2)", "13,15"},
        {"!tp=0 & pp=0", "1,3"},
        {"0 | 1 & 2", "0"},
        {"(0 | 1) & 1", "1"},
        {"0,1 & 2", "0"},
        {"1 & 1,2", "1,2"},
        {"0|3,5", "0,3,5"},
        {"all & !node=n1 & !node=n2", "0-3,12-15"},
        {"!all", "none"},
        {"one-per-node & pp=last", "12"},
        {"((((3))))", "3"},
        {"tp=0 | 1", "0-2,4,6,8,10,12,14"},
        {"(tp=0), 1", "0-2,4,6,8,10,12,14"},
        {"0,tp=1&pp=3", "0,13,15"},
    };
    CHECK(examples);
}

static void what_is_not_there_is_listed(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {"14-17", "14,15 ?16-17"},
        {"1,99", "1 ?99-99"},
        {"99", "none ?99-99"},
        {"!99", "0-15 ?99-99"},
        {"20,18-19,30", "none ?18-20 ?30-30"},
        {"node=n9", "none !no rank is on a node \"n9\""},
        {"node=m*", "none !no rank is on a node \"m*\""},
        {"0 | node=n9 | node=n9", "0 !no rank is on a node \"n9\""},
        {"ep=0", "none !the ep of no rank is known"},
        {"ep=last", "none !the ep of no rank is known"},
        {"pp=4", "none !pp=4: the largest known is 3"},
        {"pp=3-9", "12-15"},
    };
    CHECK(examples);
}

static void errors_say_where_and_what_was_expected(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *column, *word;
    } examples[] = {
        {"", "column 1:", "found the end"},
        {"   ", "column 4:", "found the end"},
        {"0,", "column 3:", "found the end"},
        {"0,,1", "column 3:", "found \",1\""},
        {"5-3", "column 3:", "from 5 on, found 3"},
        {"5-", "column 3:", "last number"},
        {"16777217", "column 1:", "up to 16777216"},
        {"99999999999999999999999", "column 1:", "up to 16777216"},
        {"foo", "column 1:", "\"all\""},
        {"0 1", "column 3:", "an operator"},
        {"(0", "column 3:", "\")\""},
        {"0)", "column 2:", "an operator"},
        {"tp", "column 3:", "\"=\""},
        {"tp=", "column 4:", "\"last\""},
        {"tp=first", "column 4:", "\"last\""},
        {"tp=lastly", "column 4:", "\"last\""},
        {"node=", "column 6:", "name of a node"},
        {"node=!", "column 6:", "name of a node"},
        {"every=0", "column 7:", "from 1 on"},
        {"every=x", "column 7:", "from 1 on"},
        {"slowest=0", "column 9:", "from 1 on"},
        {"sample=1", "column 9:", "\"%\""},
        {"sample=0%", "column 8:", "above 0"},
        {"sample=100.1%", "column 8:", "up to 100"},
        {"sample=1.%", "column 10:", "a digit"},
        {"sample=1.0000001%", "column 16:", "six decimals"},
        {"& 0", "column 1:", "\"all\""},
        {"!", "column 2:", "found the end"},
        {"tp=0,1", "column 6:", "tp=0 | 1"},
        {"node=n1,2", "column 9:", "tp=0 | 1"},
        {"all=1", "column 4:", "an operator"},
        {"ALL", "column 1:", "\"all\""},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct rs_rank_expr *expr = NULL;
        struct rs_err err = {0};
        const char *text = examples[i].text;
        assert_status(rs_rank_expr_parse(text, strlen(text), &expr, &err), RS_INVALID);
        assert_null(expr);
        if (!strstr(err.text, examples[i].column) || !strstr(err.text, examples[i].word))
            fail_msg("\"%s\": %s", text, err.text);
    }
}

static void depth_and_length_are_limited(void **state)
{
    (void)state;
    char text[RS_RANK_EXPR_MAX_BYTES + 2];
    struct rs_rank_expr *expr = NULL;
    struct rs_err err;
    memset(text, '(', sizeof text);
    memset(text + RS_RANK_EXPR_MAX_DEPTH, ')', sizeof text - RS_RANK_EXPR_MAX_DEPTH);
    text[RS_RANK_EXPR_MAX_DEPTH] = '0';
    assert_ok(rs_rank_expr_parse(text, 2 * RS_RANK_EXPR_MAX_DEPTH + 1, &expr, &err));
    rs_rank_expr_free(&expr);
    memset(text, '!', sizeof text);
    assert_status(rs_rank_expr_parse(text, RS_RANK_EXPR_MAX_DEPTH + 2, &expr, &err), RS_LIMIT);
    memset(text, ' ', sizeof text);
    text[0] = '0';
    assert_ok(rs_rank_expr_parse(text, RS_RANK_EXPR_MAX_BYTES, &expr, &err));
    rs_rank_expr_free(&expr);
    assert_status(rs_rank_expr_parse(text, RS_RANK_EXPR_MAX_BYTES + 1, &expr, &err), RS_LIMIT);
    text[3] = '\0';
    assert_status(rs_rank_expr_parse(text, 5, &expr, &err), RS_INVALID);
}

static void a_sample_is_so_many_and_the_same_each_time(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    struct rs_rank_row *rows = calloc(COUNT, sizeof *rows);
    static const struct {
        const char *text;
        size_t expected;
    } examples[] = {{"sample=1%", 10},       {"sample=100%", 1000}, {"sample=0.1%", 1},
                    {"sample=0.000001%", 1}, {"sample=0.15%", 2},   {"sample=50%", 500}};
    for (uint32_t r = 0; r < COUNT; r++)
        rows[r] = (struct rs_rank_row){.rank = (COUNT - 1 - r) * 3}; /* not in order, not dense */
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct rs_rank_expr *expr = NULL;
        struct rs_rank_set a = {0}, b = {0}, c = {0};
        assert_ok(rs_rank_expr_parse(examples[i].text, strlen(examples[i].text), &expr, NULL));
        assert_ok(rs_rank_expr_eval(expr, rows, COUNT, 7, &a, NULL));
        assert_ok(rs_rank_expr_eval(expr, rows, COUNT, 7, &b, NULL));
        assert_ok(rs_rank_expr_eval(expr, rows, COUNT, 8, &c, NULL));
        assert_int_equal(a.count, examples[i].expected);
        assert_int_equal(b.count, a.count);
        assert_memory_equal(a.ranks, b.ranks, a.count * sizeof *a.ranks);
        if (examples[i].expected == 10 || examples[i].expected == 500)
            assert_memory_not_equal(a.ranks, c.ranks, a.count * sizeof *a.ranks);
        rs_rank_set_fini(&a);
        rs_rank_set_fini(&b);
        rs_rank_set_fini(&c);
        rs_rank_expr_free(&expr);
    }
    free(rows);
}

static void ties_of_the_slowest_go_to_the_lower_rank(void **state)
{
    (void)state;
    struct rs_rank_row rows[4] = {
        {.rank = 3, .step_time_ns = 5}, {.rank = 1, .step_time_ns = 5}, {.rank = 2}, {.rank = 0}};
    struct rs_rank_expr *expr = NULL;
    struct rs_rank_set set = {0};
    assert_ok(rs_rank_expr_parse("slowest=1", 9, &expr, NULL));
    assert_ok(rs_rank_expr_eval(expr, rows, 4, 0, &set, NULL));
    assert_int_equal(set.count, 1);
    assert_int_equal(set.ranks[0], 1);
    rs_rank_expr_free(&expr);
    assert_ok(rs_rank_expr_parse("slowest=3", 9, &expr, NULL));
    assert_status(rs_rank_expr_eval(expr, rows, 4, 0, &set, NULL), RS_PARTIAL);
    assert_int_equal(set.count, 2); /* the step time of the others is not known */
    assert_int_equal(set.remark_count, 1);
    rs_rank_set_fini(&set);
    rs_rank_expr_free(&expr);
}

/* In lock step all steps take as long as the slowest rank's. */
static void the_slowest_are_so_by_themselves_where_that_is_known_of_all(void **state)
{
    (void)state;
    struct rs_rank_row rows[3] = {{.rank = 0, .step_time_ns = 9, .self_time_ns = 2},
                                  {.rank = 1, .step_time_ns = 8, .self_time_ns = 7},
                                  {.rank = 2, .step_time_ns = 9, .self_time_ns = 3}};
    struct rs_rank_expr *expr = NULL;
    struct rs_rank_set set = {0};
    assert_ok(rs_rank_expr_parse("slowest=1", 9, &expr, NULL));
    assert_ok(rs_rank_expr_eval(expr, rows, 3, 0, &set, NULL));
    assert_int_equal(set.count, 1);
    assert_int_equal(set.ranks[0], 1);
    rows[2].self_time_ns = 0;
    assert_ok(rs_rank_expr_eval(expr, rows, 3, 0, &set, NULL));
    assert_int_equal(set.count, 1);
    assert_int_equal(set.ranks[0], 0);
    rs_rank_set_fini(&set);
    rs_rank_expr_free(&expr);
}

static void a_table_with_a_rank_twice_is_refused(void **state)
{
    (void)state;
    struct rs_rank_row rows[3] = {{.rank = 3}, {.rank = 1}, {.rank = 3}};
    struct rs_rank_expr *expr = NULL;
    struct rs_rank_set set = {0};
    assert_ok(rs_rank_expr_parse("all", 3, &expr, NULL));
    assert_status(rs_rank_expr_eval(expr, rows, 3, 0, &set, NULL), RS_INVALID);
    rows[2].rank = RS_RANK_MAX + 1;
    assert_status(rs_rank_expr_eval(expr, rows, 3, 0, &set, NULL), RS_INVALID);
    assert_ok(rs_rank_expr_eval(expr, rows, 0, 0, &set, NULL));
    assert_int_equal(set.count, 0);
    rs_rank_set_fini(&set);
    rs_rank_expr_free(&expr);
}

static void the_normal_form_is_short_and_reads_back(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {"3,1,2", "1-3"},
        {"7,0,3-5,4-6", "0,3-7"},
        {" tp=0&pp=last ", "tp=0 & pp=last"},
        {"((tp=0)|(1,2))", "1-2 | tp=0"},
        {"tp=0|pp=1&dp=0", "tp=0 | pp=1 & dp=0"},
        {"(tp=0|pp=1)&dp=0", "(tp=0 | pp=1) & dp=0"},
        {"(0,1)&dp=0", "0-1 & dp=0"},
        {"(0,2)&dp=0", "(0,2) & dp=0"},
        {"!(0,1)", "!0-1"},
        {"!!!all", "!all"},
        {"!(a", NULL},
        {"sample=01.500%", "sample=1.5%"},
        {"sample=0.000001%", "sample=0.000001%"},
        {"every=08,slowest=3,one-per-node,node=n*", "every=8 | slowest=3 | one-per-node | node=n*"},
        {"tp=1-1", "tp=1"},
        {"(0&(1&(2&3)))", "0 & 1 & 2 & 3"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct rs_rank_expr *expr = NULL;
        struct rs_buf buf = {0};
        const enum rs_status status =
            rs_rank_expr_parse(examples[i].text, strlen(examples[i].text), &expr, NULL);
        assert_int_equal(status, examples[i].expected ? RS_OK : RS_INVALID);
        if (status == RS_OK) {
            rs_rank_expr_print(expr, &buf);
            assert_string_equal(rs_buf_text(&buf), examples[i].expected);
        }
        rs_buf_fini(&buf);
        rs_rank_expr_free(&expr);
    }
}

static void all_is_recognised(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_all;
    } examples[] = {{"all", true}, {"0|all", true}, {"!!all", true},
                    {"0", false},  {"!all", false}, {"all & 0", false}};
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct rs_rank_expr *expr = NULL;
        assert_ok(rs_rank_expr_parse(examples[i].text, strlen(examples[i].text), &expr, NULL));
        assert_int_equal(rs_rank_expr_is_all(expr), examples[i].is_all);
        rs_rank_expr_free(&expr);
    }
}

/* ---- against brute force ------------------------------------------------------------------------------------- */

static uint64_t random_state;
static uint32_t pick(uint32_t limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % limit;
}

enum { TABLE_MAX = 40 };

/* The table's ranks as a set of booleans per row: the plainest evaluator there is. */
struct truth {
    bool of[TABLE_MAX];
};

static struct rs_rank_row table[TABLE_MAX];
static size_t table_count;

static void random_table(void)
{
    static const char *const nodes[] = {"a", "ab", "b1", "", NULL};
    table_count = pick(TABLE_MAX + 1);
    for (size_t i = 0; i < table_count; i++) {
        table[i] = (struct rs_rank_row){
            .rank = (uint32_t)i + pick(2) * 100, .node = nodes[pick(5)], .step_time_ns = pick(5)};
        for (int k = 0; k < RS_ROLE_COUNT; k++)
            table[i].role[k] = (int32_t)pick(4) - 1;
    }
    for (size_t i = table_count; i > 1; i--) { /* in no order */
        const size_t j = pick((uint32_t)i);
        const struct rs_rank_row swap = table[i - 1];
        table[i - 1] = table[j];
        table[j] = swap;
    }
}

static size_t beaten_by(size_t i)
{
    size_t count = 0;
    for (size_t j = 0; j < table_count; j++)
        count += table[j].step_time_ns > table[i].step_time_ns ||
                 (table[j].step_time_ns == table[i].step_time_ns && table[j].rank < table[i].rank);
    return count;
}

static bool is_first_of_node(size_t i)
{
    if (!table[i].node || !*table[i].node)
        return false;
    for (size_t j = 0; j < table_count; j++)
        if (table[j].node && strcmp(table[j].node, table[i].node) == 0 &&
            table[j].rank < table[i].rank)
            return false;
    return true;
}

static int32_t largest_role(int role)
{
    int32_t largest = -1;
    for (size_t i = 0; i < table_count; i++)
        largest = table[i].role[role] > largest ? table[i].role[role] : largest;
    return largest;
}

static void atom(struct rs_buf *text, struct truth *truth)
{
    static const char *const prefixes[] = {"a", "b", "ab", "zz"};
    const uint32_t a = pick(130), b = a + pick(20);
    const int role = (int)pick(RS_ROLE_COUNT);
    const int32_t value = (int32_t)pick(4);
    const char *prefix = prefixes[pick(4)];
    const uint32_t kind = pick(8);
    const char *name = rs_rank_role_name((enum rs_rank_role_kind)role);
    if (kind == 0)
        rs_buf_string(text, "all");
    else if (kind == 1)
        rs_buf_printf(text, "%u-%u", a, b);
    else if (kind == 2)
        rs_buf_printf(text, "%s=%d", name, value);
    else if (kind == 3)
        rs_buf_printf(text, "%s=last", name);
    else if (kind == 4)
        rs_buf_printf(text, "node=%s*", prefix);
    else if (kind == 5)
        rs_buf_string(text, "one-per-node");
    else if (kind == 6)
        rs_buf_printf(text, "every=%d", value + 1);
    else
        rs_buf_printf(text, "slowest=%d", value + 1);
    for (size_t i = 0; i < table_count; i++) {
        const struct rs_rank_row *row = &table[i];
        const bool results[] = {
            true,
            row->rank >= a && row->rank <= b,
            row->role[role] == value,
            row->role[role] >= 0 && row->role[role] == largest_role(role),
            row->node && *row->node && strncmp(row->node, prefix, strlen(prefix)) == 0,
            is_first_of_node(i),
            row->rank % (uint32_t)(value + 1) == 0,
            row->step_time_ns > 0 && beaten_by(i) < (size_t)value + 1,
        };
        truth->of[i] = results[kind];
    }
}

static void blank(struct rs_buf *text)
{
    static const char *const blanks[] = {"", "", " ", "\t", "  \n"};
    rs_buf_string(text, blanks[pick(5)]);
}

/* Writes a random expression and what it is true of. */
static void grow(unsigned depth, struct rs_buf *text, struct truth *truth)
{
    const uint32_t kind = depth ? pick(5) : 0;
    blank(text);
    if (kind <= 1) {
        atom(text, truth);
    } else if (kind == 2) {
        rs_buf_string(text, "!(");
        grow(depth - 1, text, truth);
        rs_buf_string(text, ")");
        for (size_t i = 0; i < table_count; i++)
            truth->of[i] = !truth->of[i];
    } else {
        struct truth right;
        rs_buf_string(text, "(");
        grow(depth - 1, text, truth);
        rs_buf_string(text, kind == 3 ? ")&(" : pick(2) ? ")|(" : "),(");
        grow(depth - 1, text, &right);
        rs_buf_string(text, ")");
        for (size_t i = 0; i < table_count; i++)
            truth->of[i] = kind == 3 ? truth->of[i] && right.of[i] : truth->of[i] || right.of[i];
    }
    blank(text);
}

static void assert_same(const char *text, const struct rs_rank_set *set, const struct truth *truth)
{
    size_t count = 0;
    for (size_t i = 0; i < table_count; i++) {
        count += truth->of[i];
        if (rs_rank_set_has(set, table[i].rank) != truth->of[i])
            fail_msg("%s: rank %u is %s", text, table[i].rank,
                     truth->of[i] ? "missing" : "too many");
    }
    assert_int_equal(set->count, count);
}

static void random_expressions_agree_with_brute_force(void **state)
{
    (void)state;
    random_state = 20;
    for (int round = 0; round < 4000; round++) {
        struct rs_buf text = {0}, normal = {0}, again = {0};
        struct rs_rank_expr *expr = NULL;
        struct rs_rank_set set = {0};
        struct rs_err err = {0};
        struct truth truth = {0};
        random_table();
        grow(pick(6), &text, &truth);
        const char *words = rs_buf_text(&text);
        if (rs_rank_expr_parse(words, text.length, &expr, &err) < 0)
            fail_msg("%s: %s", words, err.text);
        assert_true(rs_rank_expr_eval(expr, table, table_count, 3, &set, &err) >= 0);
        assert_same(words, &set, &truth);
        rs_rank_expr_print(expr, &normal);
        rs_rank_expr_free(&expr);
        const char *short_words = rs_buf_text(&normal);
        if (rs_rank_expr_parse(short_words, normal.length, &expr, &err) < 0)
            fail_msg("%s -> %s: %s", words, short_words, err.text);
        assert_true(rs_rank_expr_eval(expr, table, table_count, 3, &set, &err) >= 0);
        assert_same(short_words, &set, &truth);
        rs_rank_expr_print(expr, &again);
        assert_string_equal(rs_buf_text(&again), short_words);
        rs_rank_expr_free(&expr);
        rs_rank_set_fini(&set);
        rs_buf_fini(&text);
        rs_buf_fini(&normal);
        rs_buf_fini(&again);
    }
}

static unsigned allowed;
static bool some_allocations(void)
{
    return allowed && allowed--;
}

static void lack_of_memory_is_a_status(void **state)
{
    (void)state;
    static const char text[] =
        "0,3-7,99 | !(tp=0 & one-per-node) & slowest=3 | sample=20% | node=zz";
    struct rs_rank_row rows[WORLD];
    make_rows(rows);
    for (unsigned k = 0;; k++) {
        struct rs_rank_expr *expr = NULL;
        struct rs_rank_set set = {0};
        allowed = k;
        rs_mem_set_gate(some_allocations);
        enum rs_status status = rs_rank_expr_parse(text, strlen(text), &expr, NULL);
        if (status == RS_OK)
            status = rs_rank_expr_eval(expr, rows, WORLD, 0, &set, NULL);
        rs_mem_set_gate(NULL);
        rs_rank_expr_free(&expr);
        if (status >= 0) {
            assert_int_equal(status, RS_PARTIAL);
            assert_true(k > 5);
            rs_rank_set_fini(&set);
            return;
        }
        assert_int_equal(status, RS_NOMEM);
        assert_int_equal(set.count, 0);
        assert_null(set.ranks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_atom_chooses_what_it_says),
        cmocka_unit_test(operators_bind_as_the_grammar_says),
        cmocka_unit_test(what_is_not_there_is_listed),
        cmocka_unit_test(errors_say_where_and_what_was_expected),
        cmocka_unit_test(depth_and_length_are_limited),
        cmocka_unit_test(a_sample_is_so_many_and_the_same_each_time),
        cmocka_unit_test(ties_of_the_slowest_go_to_the_lower_rank),
        cmocka_unit_test(the_slowest_are_so_by_themselves_where_that_is_known_of_all),
        cmocka_unit_test(a_table_with_a_rank_twice_is_refused),
        cmocka_unit_test(the_normal_form_is_short_and_reads_back),
        cmocka_unit_test(all_is_recognised),
        cmocka_unit_test(random_expressions_agree_with_brute_force),
        cmocka_unit_test(lack_of_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
