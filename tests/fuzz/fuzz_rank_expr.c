/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a rank expression: what parses has a normal form that parses, is its own normal form and chooses
 * the same ranks; what is chosen is in the table.
 */
#include "common/base/check.h"
#include "common/request/rank_expr.h"
#include "common/request/roles.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 70 };

static void make_rows(struct rs_rank_row rows[ROWS])
{
    static const char *const nodes[] = {"n0", "n1", "host-2.local", NULL};
    const struct rs_role_sizes said = {
        .size = {[RS_ROLE_TP] = 2, [RS_ROLE_PP] = 4},
        .world = 64,
        .order = {RS_ROLE_TP, RS_ROLE_CP, RS_ROLE_EP, RS_ROLE_DP, RS_ROLE_PP}};
    struct rs_role_sizes sizes = said;
    RS_CHECK(rs_role_sizes_complete(&sizes, NULL) == RS_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        rows[i] = (struct rs_rank_row){.rank = (i * 37) % ROWS,
                                       .node = nodes[i % 4],
                                       .role = {-1, -1, -1, -1, -1},
                                       .step_time_ns = i % 7};
        (void)(rs_roles_derive(&sizes, rows[i].rank, rows[i].role) == RS_OK);
    }
}

static void evaluate(const struct rs_rank_expr *expr, struct rs_rank_set *set)
{
    struct rs_rank_row rows[ROWS];
    make_rows(rows);
    const enum rs_status status = rs_rank_expr_eval(expr, rows, ROWS, 1, set, NULL);
    RS_CHECK(status == RS_OK || status == RS_PARTIAL);
    for (size_t i = 0; i < set->count; i++)
        RS_CHECK(set->ranks[i] < ROWS && (!i || set->ranks[i - 1] < set->ranks[i]));
    for (size_t i = 0; i < set->unknown_count; i++)
        RS_CHECK(set->unknown[i].first >= ROWS && set->unknown[i].first <= set->unknown[i].last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rs_rank_expr *expr = NULL, *again = NULL;
    struct rs_rank_set first = {0}, second = {0};
    struct rs_buf normal = {0}, twice = {0};
    struct rs_err err;
    if (rs_rank_expr_parse((const char *)data, size, &expr, &err) != RS_OK)
        return 0;
    evaluate(expr, &first);
    if (rs_rank_expr_is_all(expr))
        RS_CHECK(first.count == ROWS);
    rs_rank_expr_print(expr, &normal);
    if (normal.length <= RS_RANK_EXPR_MAX_BYTES) { /* blanks around operators may lengthen it */
        RS_CHECK(rs_rank_expr_parse((const char *)normal.data, normal.length, &again, &err) ==
                 RS_OK);
        evaluate(again, &second);
        RS_CHECK(first.count == second.count);
        RS_CHECK(!first.count ||
                 memcmp(first.ranks, second.ranks, first.count * sizeof *first.ranks) == 0);
        rs_rank_expr_print(again, &twice);
        RS_CHECK(normal.length == twice.length &&
                 memcmp(normal.data, twice.data, normal.length) == 0);
    }
    rs_rank_expr_free(&expr);
    rs_rank_expr_free(&again);
    rs_rank_set_fini(&first);
    rs_rank_set_fini(&second);
    rs_buf_fini(&normal);
    rs_buf_fini(&twice);
    return 0;
}
