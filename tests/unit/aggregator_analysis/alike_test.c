/* SPDX-License-Identifier: Apache-2.0 */
/* Which stages of a pipeline do the same work. */
#include "aggregator/analysis/diagnose/stages_priv.h"
#include "common/base/time.h"
#include "tests/support/rs_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 4, MOST_ROWS = 32 };

static const struct alike_limits usual = {.apart = DIAG_AS_OFTEN, .share = DIAG_COMMON_SHARE};

struct table {
    struct alike_row rows[MOST_ROWS];
    size_t count;
    double totals[CLASSES];
    struct alike alike;
};

static void runs(struct table *table, uint64_t key, const double often[CLASSES])
{
    for (uint32_t c = 0; c < CLASSES; c++) {
        if (often[c] > 0) {
            table->rows[table->count++] = (struct alike_row){key, c, often[c], often[c] * 10};
            table->totals[c] += often[c] * 10;
        }
    }
}

static void ask(struct table *table)
{
    assert_ok(alike_find(table->rows, table->count, table->totals, CLASSES, &usual, &table->alike));
}

static void expect(struct table *table, const char *members)
{
    for (size_t c = 0; c < CLASSES; c++) {
        assert_int_equal(table->alike.is_member[c], members[c] == 'x');
    }
    alike_fini(&table->alike);
}

static void what_all_run_equally_often_is_the_same_work(void **state)
{
    struct table table = {.count = 0};
    (void)state;
    runs(&table, 3, (const double[]){8, 8, 8, 8});
    runs(&table, 1, (const double[]){0, 0, 0, 2});
    runs(&table, 2, (const double[]){8, 8, 8, 9}); /* one more of a size that nobody knows */
    ask(&table);
    assert_int_equal(table.alike.count, 1);
    assert_int_equal(alike_index(&table.alike, 3), 0);
    assert_int_equal(alike_index(&table.alike, 2), SIZE_MAX);
    expect(&table, "xxxx");
}

static void the_middle_of_a_pipeline_is_alike(void **state)
{
    struct table table = {.count = 0};
    (void)state;
    runs(&table, 1, (const double[]){8, 0, 0, 0});
    runs(&table, 2, (const double[]){0, 8, 8, 0});
    runs(&table, 3, (const double[]){0, 0, 0, 8});
    runs(&table, 4, (const double[]){1, 1, 1, 1}); /* too little to compare by */
    ask(&table);
    assert_int_equal(table.alike.count, 2);
    expect(&table, "-xx-");
}

static void stages_of_other_layers_are_not_alike(void **state)
{
    struct table table = {.count = 0};
    (void)state;
    runs(&table, 1, (const double[]){4, 5, 6, 7});
    runs(&table, 2, (const double[]){8, 10, 12, 14});
    ask(&table);
    assert_int_equal(table.alike.members, 0);
    assert_int_equal(table.alike.count, 0);
    expect(&table, "----");
}

static void kernels_in_one_ratio_are_the_same_work(void **state)
{
    struct table table = {.count = 0};
    (void)state;
    runs(&table, 1, (const double[]){300, 300, 400, 300});
    runs(&table, 2, (const double[]){600, 600, 800, 600});
    runs(&table, 3,
         (const double[]){300, 300, 500,
                          300}); /* one more in each step, of a size that nobody knows */
    runs(&table, 4, (const double[]){10, 10, 10, 10});     /* of a step, not of a layer */
    runs(&table, 1, (const double[]){300, 300, 400, 300}); /* another rank's */
    assert_ok(stages_level_counts(table.rows, &table.count));
    ask(&table);
    assert_int_equal(table.alike.count, 2);
    assert_int_not_equal(alike_index(&table.alike, 2), SIZE_MAX);
    assert_int_equal(alike_index(&table.alike, 3), SIZE_MAX);
    assert_int_equal(alike_index(&table.alike, 4), SIZE_MAX);
    expect(&table, "xxxx");
}

/* Worker 1 runs twice as many of them, each half as long again. The third kernel is no common one. */
static void stages_are_compared_by_one_run_of_each_kernel(void **state)
{
    uint64_t keys[] = {1, 2};
    uint8_t members[] = {1, 1, 1};
    const struct alike alike = {.keys = keys, .count = 2, .is_member = members, .members = 3};
    struct diag_worker workers[] = {{.class_id = 0}, {.class_id = 1}, {.class_id = 2}};
    struct diag_name names[] = {{1, 0, 100, 1000, 8},  {2, 0, 100, 3000, 24}, {3, 0, 50, 5000, 9},
                                {1, 1, 200, 3000, 12}, {2, 1, 200, 9000, 36}, {3, 1, 99, 9, 1},
                                {1, 2, 100, 1000, 8}};
    const struct diag_model model = {
        .workers = workers, .worker_count = 3, .class_count = 3, .names = names, .name_count = 7};
    double means[3], fastest[3];
    (void)state;
    assert_ok(stages_level_sums(&model, &alike, means, fastest));
    assert_true(fabs(means[1] - means[0] - log(1.5)) < 1e-9);
    assert_true(fabs(fastest[1] - fastest[0] - log(1.5)) < 1e-9);
    assert_true(isnan(means[2])); /* it has no run of one of them */
}

/* A class without work takes no part and stands in nobody's way; rows of one kind come one by one. */
static void a_class_without_work_does_not_matter(void **state)
{
    struct table table = {.count = 0};
    (void)state;
    runs(&table, 1, (const double[]){2, 2, 2, 0});
    runs(&table, 1, (const double[]){3, 3, 3, 0});
    ask(&table);
    expect(&table, "xxx-");
}

/* Each stage has it almost as often as the one before; the last one has not. */
static void what_grows_from_stage_to_stage_is_not_equally_often(void **state)
{
    struct table table = {.count = 0};
    (void)state;
    runs(&table, 1, (const double[]){1000, 1009, 1018, 1027});
    ask(&table);
    expect(&table, "xx--");
}

/* Each stage has kinds of work that no other has. With pairs of stages times all kinds this takes seconds. */
static void many_stages_of_other_work_are_not_alike(void **state)
{
    enum { KINDS = 2000 };
    struct alike alike;
    struct alike_row *rows = calloc((size_t)STAGES_GROUPED * KINDS, sizeof *rows);
    double *totals = calloc(STAGES_GROUPED, sizeof *totals);
    (void)state;
    assert_true(rows != NULL && totals != NULL);
    for (size_t i = 0; i < (size_t)STAGES_GROUPED * KINDS; i++) {
        const uint32_t c = (uint32_t)(i % STAGES_GROUPED);
        rows[i] = (struct alike_row){i * 0x9e3779b97f4a7c15U, c, 1, 10};
        totals[c] += 10;
    }
    assert_ok(
        alike_find(rows, (size_t)STAGES_GROUPED * KINDS, totals, STAGES_GROUPED, &usual, &alike));
    assert_int_equal(alike.members, 0);
    alike_fini(&alike);
    free(rows);
    free(totals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_all_run_equally_often_is_the_same_work),
        cmocka_unit_test(the_middle_of_a_pipeline_is_alike),
        cmocka_unit_test(stages_of_other_layers_are_not_alike),
        cmocka_unit_test(kernels_in_one_ratio_are_the_same_work),
        cmocka_unit_test(stages_are_compared_by_one_run_of_each_kernel),
        cmocka_unit_test(a_class_without_work_does_not_matter),
        cmocka_unit_test(what_grows_from_stage_to_stage_is_not_equally_often),
        cmocka_unit_test(many_stages_of_other_work_are_not_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
