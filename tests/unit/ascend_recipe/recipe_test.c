/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that recipes share, and recipes on small databases made here.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <sqlite3.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[] = "/tmp/rs-recipe-XXXXXX";

static const char *at(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* The profiler database of a rank below `tree`. */
static void make_rank(const char *tree, int rank, const char *sql)
{
    char dir[300], path[400];
    (void)snprintf(dir, sizeof dir,
                   "%s/%s/h_%d_20250615110640%03d_ascend_pt/ASCEND_PROFILER_OUTPUT", root, tree,
                   rank, rank);
    assert_ok(rs_file_make_dirs(dir, 0755, NULL));
    (void)snprintf(path, sizeof path, "%s/ascend_pytorch_profiler_%d.db", dir, rank);
    run_sql(path, sql);
}

static char *answer(const char *tree, const char *sql)
{
    char path[400];
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    struct rs_buf text = {0};
    (void)snprintf(path, sizeof path, "%s/%s/cluster_analysis_output/cluster_analysis.db", root,
                   tree);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        for (int c = 0; c < sqlite3_column_count(stmt); c++)
            rs_buf_printf(&text, "%s%s", c ? "," : "",
                          sqlite3_column_text(stmt, c) ? (const char *)sqlite3_column_text(stmt, c)
                                                       : "NULL");
        rs_buf_u8(&text, '\n');
    }
    (void)sqlite3_finalize(stmt);
    (void)sqlite3_close(db);
    char *copy = rs_mem_strdup(rs_buf_text(&text));
    rs_buf_fini(&text);
    return copy;
}

static void assert_answer(const char *tree, const char *sql, const char *expected)
{
    char *got = answer(tree, sql);
    assert_string_equal(got, expected);
    rs_mem_free(got);
}

static enum rs_status run_recipe(const char *name, const char *tree,
                                 struct rs_recipe_options options, struct rs_recipe_result *result,
                                 struct rs_err *err)
{
    const char *paths[] = {at(tree)};
    return rs_recipe_run(name, paths, 1, &options, result, err);
}

static void numbers_are_printed_as_python_prints_them(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0.0"},
                 {1, "1.0"},
                 {-2.5, "-2.5"},
                 {0.1, "0.1"},
                 {1e15, "1000000000000000.0"},
                 {1e16, "1e+16"},
                 {1e-4, "0.0001"},
                 {1e-5, "1e-05"},
                 {1.5e300, "1.5e+300"},
                 {1.0 / 3, "0.3333333333333333"},
                 {123456.789, "123456.789"},
                 {0.024484000000000002, "0.024484000000000002"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        stats_print(cases[i].value, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
    static const struct {
        int64_t ns;
        const char *text;
    } times[] = {{0, "0"},       {1, "0.001"},      {1000, "1"},
                 {1500, "1.5"},  {-1234, "-1.234"}, {1750000000201716331, "1750000000201716.331"},
                 {100000, "100"}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        char text[64];
        stats_print_us(times[i].ns, text, sizeof text);
        assert_string_equal(text, times[i].text);
    }
}

static void rounding_follows_its_library(void **state)
{
    (void)state;
    assert_true(stats_round(0.25, 1) == 0.2);     /* half to even */
    assert_true(stats_round_sql(0.25, 1) == 0.3); /* away from zero */
    assert_true(stats_round(1.00005, 4) == 1.0001 || stats_round(1.00005, 4) == 1.0);
    assert_true(stats_round_sql(46.755, 2) == 46.76 || stats_round_sql(46.755, 2) == 46.75);
}

static void group_statistics_by_hand(void **state)
{
    (void)state;
    const double values[] = {4, 1, 3, 2};
    double sorted[4];
    struct stats stats;
    stats_of_group(values, 4, sorted, &stats);
    assert_true(stats.mean == 2.5 && stats.min == 1 && stats.max == 4 && stats.sum == 10);
    assert_true(stats.q1 == 1.75 && stats.median == 2.5 && stats.q3 == 3.25);
    assert_true(fabs(stats.std - 1.2909944487358056) < 1e-15);
    stats_of_group(values, 1, sorted, &stats);
    assert_true(isnan(stats.std) && stats.q1 == 4 && stats.median == 4);
    stats_of_column(values, 4, sorted, &stats);
    assert_true(stats.q1 == 1.75 && stats.q3 == 3.25 &&
                fabs(stats.std - 1.2909944487358056) < 1e-15);
}

static void compensated_sum_keeps_small_values(void **state)
{
    (void)state;
    struct stats_sum sum = {0, 0};
    stats_add(&sum, 1e16);
    for (int i = 0; i < 10; i++)
        stats_add(&sum, 1);
    assert_true(sum.sum == 1e16 + 10);
    double many[1000];
    for (size_t i = 0; i < 1000; i++)
        many[i] = 0.1;
    assert_true(fabs(stats_pairwise_sum(many, 1000) - 100) < 1e-12);
    assert_true(stats_pairwise_sum(many, 0) == 0);
}

static void frames_join_their_texts_and_sort_by_bytes(void **state)
{
    (void)state;
    struct frame a, b;
    struct frame_order order;
    static const char *const words[] = {"b", "a", "B", "aa"};
    assert_ok(frame_init(&a, "ti"));
    assert_ok(frame_init(&b, "ti"));
    for (int i = 0; i < 4; i++) {
        struct frame *to = i % 2 ? &b : &a;
        union frame_cell *row = frame_add(to);
        assert_non_null(row);
        row[0].t = frame_str(to, words[i]);
        row[1].i = i;
    }
    union frame_cell *none = frame_add(&b);
    none[0].t = RS_STR_NONE;
    assert_ok(frame_append(&a, &b));
    assert_ok(frame_order(&a, "\1\2", &order));
    static const char *const sorted[] = {"B", "a", "aa", "b"};
    assert_int_equal(order.count, 5);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(frame_text(&a, frame_row(&a, order.rows[i])[0].t), sorted[i]);
    assert_int_equal(frame_row(&a, order.rows[4])[0].t, RS_STR_NONE); /* no text comes last */
    frame_order_fini(&order);
    frame_fini(&a);
    frame_fini(&b);
}

static size_t allowed;

static bool gate(void)
{
    return allowed && allowed--;
}

static void frame_survives_failing_allocations(void **state)
{
    (void)state;
    for (size_t k = 0; k < 12; k++) {
        struct frame frame = {0};
        struct frame_order order = {0};
        allowed = k;
        rs_mem_set_gate(gate);
        const bool done = frame_init(&frame, "ti") == RS_OK && frame_add(&frame) &&
                          frame_str(&frame, "x") != RS_STR_NONE &&
                          frame_order(&frame, "\1", &order) == RS_OK;
        assert_true(done || allowed == 0);
        rs_mem_set_gate(NULL);
        frame_order_fini(&order);
        frame_fini(&frame);
    }
}

#define OPS_DDL                                                                                    \
    "CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);"                                \
    "CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, "              \
    "groupName INTEGER, opId INTEGER PRIMARY KEY, opType INTEGER);"                                \
    "CREATE TABLE COMMUNICATION_TASK_INFO (opId INTEGER, groupName INTEGER, taskType INTEGER, "    \
    "srcRank INTEGER, dstRank INTEGER);"                                                           \
    "INSERT INTO STRING_IDS VALUES (1, 'Notify_Wait'), (2, 'g1'), (3, 'g2'), "                     \
    "(10, 'hcom_send__111_0_1'), (11, 'hcom_send__111_1_1'), (12, 'hcom_receive__111_2_1'), "      \
    "(13, 'hcom_send__222_0_1'), (14, 'hcom_allReduce__111_3_1'), (15, 'hcom_send__111'), "        \
    "(16, 'hcom_send_'), (17, 'hcom_batchSendRecv__111_4_1');"
#define OP(name, id, group, src, dst)                                                              \
    "INSERT INTO COMMUNICATION_OP VALUES (" #name ", " #id "000, " #id "500, " #group ", " #id     \
    ", 16); INSERT INTO COMMUNICATION_TASK_INFO VALUES (" #id ", " #group ", 1, " #src ", " #dst   \
    ");"

static void pairs_count_per_group_and_direction(void **state)
{
    (void)state;
    struct rs_recipe_result result;
    make_rank("pairs", 0,
              OPS_DDL OP(10, 1, 2, 0, 1) OP(13, 2, 3, 0, 1) OP(11, 3, 2, 0, 1) OP(12, 4, 2, 0, 1)
                  OP(14, 5, 2, 0, 1) OP(15, 6, 2, 0, 1));
    assert_ok(run_recipe("p2p_pairing", "pairs", (struct rs_recipe_options){.step_id = -1}, &result,
                         NULL));
    rs_recipe_result_fini(&result);
    assert_answer("pairs", "SELECT opName, opConnectionId FROM P2PPairing",
                  "hcom_send__111_0_1,111_0_1_0\nhcom_send__222_0_1,222_0_1_0\n"
                  "hcom_send__111_1_1,111_0_1_1\nhcom_receive__111_2_1,111_1_0_0\n");
    assert_ok(run_recipe("p2p_pairing", "pairs",
                         (struct rs_recipe_options){.step_id = -1, .compat = true}, &result, NULL));
    rs_recipe_result_fini(&result);
    /* the peer lets the groups share their counter */
    assert_answer("pairs", "SELECT opConnectionId FROM P2PPairing",
                  "111_0_1_0\n222_0_1_1\n111_0_1_2\n111_1_0_0\n");
}

static void operations_whose_tasks_disagree_have_no_pair(void **state)
{
    (void)state;
    struct rs_recipe_result result;
    struct rs_err err = {0};
    make_rank(
        "unpaired", 0,
        OPS_DDL OP(10, 1, 2, 0, 1) "INSERT INTO COMMUNICATION_TASK_INFO VALUES (1, 2, 1, 0, 2);" OP(
            11, 2, 2, 4294967295, 4294967295));
    assert_status(run_recipe("p2p_pairing", "unpaired", (struct rs_recipe_options){.step_id = -1},
                             &result, &err),
                  RS_NOTFOUND);
    rs_recipe_result_fini(&result);
}

static void ranks_are_reduced_in_the_order_asked_for(void **state)
{
    (void)state;
    struct rs_recipe_result result;
    for (int rank = 0; rank < 9; rank++)
        make_rank("order", rank, OPS_DDL OP(14, 1, 2, 0, 1));
    assert_ok(run_recipe(
        "hccl_sum", "order",
        (struct rs_recipe_options){
            .step_id = -1, .compat = true, .rank_list = "7,3,8,0,1,2,6,5,4", .threads = 5},
        &result, NULL));
    assert_int_equal(result.rank_count, 9);
    rs_recipe_result_fini(&result);
    assert_answer("order", "SELECT Ranks FROM HcclGroupNameMap", "7;3;8;0;1;2;6;5;4\n");
    assert_ok(
        run_recipe("hccl_sum", "order",
                   (struct rs_recipe_options){.step_id = -1, .rank_list = "7,3,0", .threads = 2},
                   &result, NULL));
    rs_recipe_result_fini(&result);
    assert_answer("order", "SELECT Ranks FROM HcclGroupNameMap", "0;3;7\n");
}

static void a_broken_rank_is_named_and_the_others_stay(void **state)
{
    (void)state;
    struct rs_recipe_result result;
    make_rank("broken", 0, OPS_DDL OP(14, 1, 2, 0, 1));
    make_rank("broken", 1, OPS_DDL OP(14, 1, 2, 0, 1));
    make_rank("broken", 2, OPS_DDL);
    assert_int_equal(truncate(at("broken/h_1_20250615110640001_ascend_pt/ASCEND_PROFILER_OUTPUT/"
                                 "ascend_pytorch_profiler_1.db"),
                              5000),
                     0);
    assert_status(
        run_recipe("hccl_sum", "broken", (struct rs_recipe_options){.step_id = -1}, &result, NULL),
        RS_PARTIAL);
    assert_int_equal(result.rank_count, 1);
    assert_int_equal(result.problem_count, 2);
    bool is_cut = false, is_empty = false;
    for (size_t i = 0; i < result.problem_count; i++) {
        is_cut =
            is_cut || (result.problems[i].rank == 1 && strstr(result.problems[i].text, "cut off"));
        is_empty = is_empty || result.problems[i].rank == 2;
    }
    assert_true(is_cut && is_empty);
    rs_recipe_result_fini(&result);
}

static void failure_leaves_the_result_as_it_was(void **state)
{
    (void)state;
    struct rs_recipe_result result;
    make_rank("kept", 0, OPS_DDL OP(14, 1, 2, 0, 1));
    assert_ok(
        run_recipe("hccl_sum", "kept", (struct rs_recipe_options){.step_id = -1}, &result, NULL));
    rs_recipe_result_fini(&result);
    assert_status(
        run_recipe("hccl_sum", "kept", (struct rs_recipe_options){.step_id = 99}, &result, NULL),
        RS_OK); /* no STEP_TIME: reported, all of it is taken */
    assert_int_equal(result.problem_count, 1);
    rs_recipe_result_fini(&result);
    assert_status(run_recipe("cann_api_sum", "kept", (struct rs_recipe_options){.step_id = -1},
                             &result, NULL),
                  RS_NOTFOUND);
    rs_recipe_result_fini(&result);
    assert_answer("kept", "SELECT count(*) FROM HcclAllRankStats", "1\n");
    assert_status(
        run_recipe("none", "kept", (struct rs_recipe_options){.step_id = -1}, &result, NULL),
        RS_INVALID);
    rs_recipe_result_fini(&result);
}

/* Numbers of Python's difflib.SequenceMatcher(None, a, b).ratio(). */
static void names_are_alike_as_difflib_measures_it(void **state)
{
    char long_a[300], long_b[300], turned_a[300] = "", turned_b[300] = "xyz";
    (void)state;
    assert_true(fabs(alike("TransformerBlock/Attention", "TransformerBlock/SelfAttention", 0) -
                     0.9285714285714286) < 1e-15);
    assert_true(fabs(alike("abcd", "bcde", 0) - 0.75) < 1e-15);
    assert_true(fabs(alike("", "", 0) - 1) < 1e-15);
    assert_true(alike("abc", "xyz", 0.5) <= 0);
    /* in a long text the frequent bytes start no stretch: "xyz" is all that matches */
    memset(long_a, 'a', 250);
    memcpy(long_b, long_a, 250);
    long_b[249] = 'b';
    long_a[250] = long_b[250] = '\0';
    assert_true(fabs(alike(long_a, long_b, 0) - 0.996) < 1e-15);
    for (size_t i = 0; i < 120; i++) {
        memcpy(turned_a + 2 * i, "ab", 2);
        memcpy(turned_b + 3 + 2 * i, "ab", 2);
    }
    memcpy(turned_a + 240, "xyz", 4);
    turned_b[243] = '\0';
    assert_true(fabs(alike(turned_a, turned_b, 0) - 0.012345679012345678) < 1e-15);
}

static void every_recipe_is_listed_once(void **state)
{
    (void)state;
    assert_int_equal(rs_recipe_count(), 23);
    for (size_t i = 0; i < rs_recipe_count(); i++)
        assert_ptr_equal(rs_recipe_find(rs_recipe_at(i)->name), rs_recipe_at(i));
    assert_null(rs_recipe_at(23));
    assert_null(rs_recipe_find("all"));
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[600];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_printed_as_python_prints_them),
        cmocka_unit_test(rounding_follows_its_library),
        cmocka_unit_test(group_statistics_by_hand),
        cmocka_unit_test(compensated_sum_keeps_small_values),
        cmocka_unit_test(frames_join_their_texts_and_sort_by_bytes),
        cmocka_unit_test(frame_survives_failing_allocations),
        cmocka_unit_test(pairs_count_per_group_and_direction),
        cmocka_unit_test(operations_whose_tasks_disagree_have_no_pair),
        cmocka_unit_test(ranks_are_reduced_in_the_order_asked_for),
        cmocka_unit_test(a_broken_rank_is_named_and_the_others_stay),
        cmocka_unit_test(failure_leaves_the_result_as_it_was),
        cmocka_unit_test(every_recipe_is_listed_once),
        cmocka_unit_test(names_are_alike_as_difflib_measures_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
