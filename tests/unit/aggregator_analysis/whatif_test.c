/* SPDX-License-Identifier: Apache-2.0 */
/* What-if of jobs small enough to be counted by hand. Times in ns. */
#include "aggregator/analysis/whatif/whatif.h"

#include "common/base/mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <math.h>
#include <string.h>

#define assert_near(got, expected) assert_true(fabs((got) - (expected)) < 1e-9)

static void add(struct rs_whatif_ops *ops, int32_t dp, int32_t stage, int64_t step,
                enum rs_whatif_type type, int64_t start, int64_t duration)
{
    assert_ok(
        rs_mem_grow((void **)&ops->items, &ops->capacity, ops->count + 1, sizeof *ops->items));
    ops->items[ops->count++] = (struct rs_whatif_op){.dp_rank = dp,
                                                     .stage = stage,
                                                     .step = step,
                                                     .type = type,
                                                     .start_ns = start,
                                                     .duration_ns = duration,
                                                     .seq = start,
                                                     .rank = -1};
}

/* Two copies: one computes 10, the other 16; reduce-scatter 1, optimizer 1. */
static void two_copies(struct rs_whatif_ops *ops, int64_t step, int64_t at)
{
    for (int32_t dp = 0; dp < 2; dp++) {
        const int64_t work = dp ? 16 : 10;
        add(ops, dp, 0, step, RS_WHATIF_FORWARD, at, work);
        add(ops, dp, 0, step, RS_WHATIF_GRADS_SCATTER, at + work, 17 - work);
        add(ops, dp, 0, step, RS_WHATIF_OPTIMIZER, at + 17, 1);
    }
}

static void slow_copy_is_named(void **state)
{
    (void)state;
    struct rs_whatif_ops ops = {0};
    struct rs_whatif *whatif = NULL;
    struct rs_err err = {0};
    two_copies(&ops, 7, INT64_C(1700000000000000000));
    two_copies(&ops, 8, INT64_C(1700000000000001000));
    assert_ok(rs_whatif_new(&ops, &whatif, &err));
    assert_near(whatif->step_ns, 18);
    assert_near(whatif->recorded_ns, 18);
    assert_near(whatif->ideal_ns, 15);
    assert_near(whatif->slowdown, 1.2);
    assert_near(whatif->m_w, 1);
    assert_near(whatif->m_s, 1); /* there is one stage */
    assert_int_equal(whatif->worst_count, 1);
    assert_int_equal(whatif->verdict, RS_WHATIF_WORKER);
    assert_int_equal(whatif->culprit.dp_rank, 1);
    assert_int_equal(whatif->culprit.stage, 0);
    assert_near(whatif->culprit.share, 1);
    assert_near(whatif->culprit.factor, 1.6);
    assert_near(whatif->workers[1].share, 0);
    assert_near(whatif->varying_share, 0);
    rs_whatif_free(&whatif);
    rs_whatif_ops_fini(&ops);
}

/* 10 + 1 + 20 + 20 + 1 + 10: with every stage at 15 the step is as long, so there is nothing to gain. */
static void pipeline(struct rs_whatif_ops *ops)
{
    add(ops, 0, 0, 1, RS_WHATIF_FORWARD, 0, 10);
    add(ops, 0, 0, 1, RS_WHATIF_FORWARD_SEND, 10, 1);
    add(ops, 0, 1, 1, RS_WHATIF_FORWARD_RECV, 0, 11);
    add(ops, 0, 1, 1, RS_WHATIF_FORWARD, 11, 20);
    add(ops, 0, 1, 1, RS_WHATIF_BACKWARD, 31, 20);
    add(ops, 0, 1, 1, RS_WHATIF_BACKWARD_SEND, 51, 1);
    add(ops, 0, 0, 1, RS_WHATIF_BACKWARD_RECV, 10, 42);
    add(ops, 0, 0, 1, RS_WHATIF_BACKWARD, 52, 10);
}

static void waiting_is_no_transfer(void **state)
{
    (void)state;
    struct rs_whatif_ops ops = {0};
    struct rs_whatif *whatif = NULL;
    struct rs_err err = {0};
    pipeline(&ops);
    assert_ok(rs_whatif_new(&ops, &whatif, &err));
    assert_near(whatif->step_ns, 62);
    assert_near(whatif->ideal_ns, 62);
    assert_int_equal(whatif->verdict, RS_WHATIF_NO_LOSS);
    assert_true(isnan(whatif->m_w));
    /* Only stage 0 keeps its own: 10 + 1 + 15 + 15 + 1 + 10. */
    assert_near(whatif->stages[0].slowdown, 52. / 62);
    assert_near(whatif->stages[1].slowdown, 72. / 62);
    rs_whatif_free(&whatif);
    rs_whatif_ops_fini(&ops);
}

static void odd_steps_are_left_out(void **state)
{
    (void)state;
    struct rs_whatif_ops ops = {0};
    struct rs_whatif *whatif = NULL;
    struct rs_err err = {0};
    two_copies(&ops, 1, 0);
    ops.count--; /* the recording began within step 1 */
    two_copies(&ops, 2, 100);
    two_copies(&ops, 3, 200);
    assert_int_equal(rs_whatif_new(&ops, &whatif, &err), RS_PARTIAL);
    assert_int_equal(whatif->step_count, 2);
    assert_int_equal(whatif->skipped_steps, 1);
    assert_int_equal(whatif->first_skipped, 1);
    assert_near(whatif->slowdown, 1.2);
    rs_whatif_free(&whatif);
    rs_whatif_ops_fini(&ops);
}

static void what_cannot_be_played_is_said(void **state)
{
    (void)state;
    struct rs_whatif_ops ops = {0};
    struct rs_whatif *whatif = NULL;
    struct rs_err err = {0};
    assert_int_equal(rs_whatif_new(&ops, &whatif, &err), RS_INVALID);
    two_copies(&ops, 1, 0);
    add(&ops, 1, 0, 1, RS_WHATIF_OPTIMIZER, 17, 1);
    assert_int_equal(rs_whatif_new(&ops, &whatif, &err), RS_INVALID);
    assert_non_null(strstr(err.text, "is there twice"));
    ops.count = 0;
    two_copies(&ops, 1, 0);
    add(&ops, 1, 0, 1, RS_WHATIF_OPTIMIZER, 19, 1);
    assert_int_equal(rs_whatif_new(&ops, &whatif, &err), RS_INVALID);
    assert_non_null(strstr(err.text, "must do the same"));
    ops.count = 0;
    two_copies(&ops, 1, 0);
    add(&ops, 5, 3, 1, RS_WHATIF_FORWARD, 0, 1); /* places without operations */
    assert_int_equal(rs_whatif_new(&ops, &whatif, &err), RS_INVALID);
    assert_null(whatif);
    rs_whatif_ops_fini(&ops);
}

static enum rs_status read_text(const char *text, struct rs_whatif_ops *ops, struct rs_err *err)
{
    char folder[64], path[80];
    tmp_dir_make(folder);
    (void)snprintf(path, sizeof path, "%s/ops.csv", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    const enum rs_status status = rs_whatif_read(path, ops, err);
    tmp_dir_remove(folder);
    return status;
}

#define HEADER "dp_rank,stage,rank,step,optype,start_ns,duration_ns,seq_id,mb_id\n"

static void rows_are_read(void **state)
{
    (void)state;
    struct rs_whatif_ops ops = {0};
    struct rs_err err = {0};
    assert_ok(read_text(HEADER "1,2,9,4,optimizer,1700000000000000001,5,3,-1\r\n\n", &ops, &err));
    assert_int_equal(ops.count, 1);
    assert_int_equal(ops.items[0].dp_rank, 1);
    assert_int_equal(ops.items[0].stage, 2);
    assert_int_equal(ops.items[0].rank, 9);
    assert_int_equal(ops.items[0].step, 4);
    assert_int_equal(ops.items[0].type, RS_WHATIF_OPTIMIZER);
    assert_true(ops.items[0].start_ns == INT64_C(1700000000000000001));
    assert_int_equal(ops.items[0].seq, 3);
    rs_whatif_ops_fini(&ops);
    assert_ok(
        read_text("step,stage,dp_rank,duration,start_ts,optype\n4,2,1,0.25,1.5,gc", &ops, &err));
    assert_int_equal(ops.items[0].start_ns, 1500000000);
    assert_int_equal(ops.items[0].duration_ns, 250000000);
    assert_int_equal(ops.items[0].rank, -1);
    rs_whatif_ops_fini(&ops);
}

static void bad_rows_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"", "no operation"},
        {HEADER, "no operation"},
        {"a,b\n", "ops.csv:1: the header has no column dp_rank"},
        {"dp_rank,dp_rank\n", "twice"},
        {HEADER "1,2,9,4,optimizer,1,5,3\n", "ops.csv:2: 8 cells"},
        {HEADER "-1,2,9,4,optimizer,1,5,3,0\n", "dp_rank is \"-1\""},
        {HEADER "1,2,9,4,sleep,1,5,3,0\n", "optype is \"sleep\""},
        {HEADER "1,2,9,4,gc,1,-5,3,0\n", "duration_ns is \"-5\""},
        {HEADER "1,2,9,4,gc,99999999999999999999,5,3,0\n", "start_ns"},
        {HEADER "1,2,9,4,gc,1.5,5,3,0\n", "start_ns"},
        {"step,stage,dp_rank,duration,start_ts,optype\n4,2,1,nan,1.5,gc", "seconds"},
        {"step,stage,dp_rank,duration,start_ts,optype\n4,2,1,1,1e300,gc", "seconds"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rs_whatif_ops ops = {0};
        struct rs_err err = {0};
        assert_int_equal(read_text(cases[i].text, &ops, &err), RS_FORMAT);
        assert_non_null(strstr(err.text, cases[i].said));
        rs_whatif_ops_fini(&ops);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_copy_is_named),     cmocka_unit_test(waiting_is_no_transfer),
        cmocka_unit_test(odd_steps_are_left_out), cmocka_unit_test(what_cannot_be_played_is_said),
        cmocka_unit_test(rows_are_read),          cmocka_unit_test(bad_rows_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
