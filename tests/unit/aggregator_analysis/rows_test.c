/* SPDX-License-Identifier: Apache-2.0 */
/* What a diagnosis says comes back from the tables as it went in; what is absent stays absent. */
#include "aggregator/analysis/rows.h"

#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <string.h>

enum { CAPTURE = 3 };

static char kernel_name[] = "gemm, \"large\"", group_name[] = "tp@0-1", host_name[] = "n1";

static struct rs_place places[] = {
    {.kind = RS_PLACE_RANK,
     .rank = 3,
     .src = -1,
     .dst = -1,
     .stage = -1,
     .dp = -1,
     .group = UINT32_MAX},
    {.kind = RS_PLACE_HOST,
     .rank = -1,
     .src = -1,
     .dst = -1,
     .stage = -1,
     .dp = -1,
     .group = UINT32_MAX,
     .text = host_name},
    {.kind = RS_PLACE_GROUP,
     .rank = -1,
     .src = -1,
     .dst = -1,
     .stage = -1,
     .dp = -1,
     .group = 0,
     .text = group_name},
};

static struct rs_evidence evidence[] = {
    {.what = RS_EVIDENCE_OWN_WORK,
     .figure = RS_FIGURE_COMPUTING,
     .rank = 3,
     .peer = RS_NULL,
     .step = RS_NULL,
     .group = UINT32_MAX,
     .name = kernel_name,
     .value = 2680000,
     .reference = 100000,
     .bound = RS_NULL,
     .bytes = RS_NULL,
     .seen = 4,
     .of = 5,
     .start_ns = RS_NULL,
     .dur_ns = RS_NULL},
};

static struct rs_finding findings[] = {{.kind = RS_FINDING_SLOW_RANK,
                                        .places = places,
                                        .place_count = 1,
                                        .also = places + 1,
                                        .also_count = 1,
                                        .cost_ns_per_step = 2500000,
                                        .cost_low_ns = 2400000,
                                        .cost_high_ns = 2600000,
                                        .share = 0.25,
                                        .confidence = RS_CONFIDENCE_EXACT,
                                        .steps = {.seen = 5, .hit = 4, .first = 12},
                                        .evidence = evidence,
                                        .evidence_count = 1}};
static struct rs_finding small[] = {{.kind = RS_FINDING_SLOW_GROUP,
                                     .places = places + 2,
                                     .place_count = 1,
                                     .confidence = RS_CONFIDENCE_WEAK,
                                     .steps = {.first = RS_NULL}}};
static struct rs_wait_cause causes[] = {{.finding = 0, .caused_ns = 70, .indirect_ns = 7},
                                        {.finding = SIZE_MAX, .caused_ns = 30}};
static struct rs_unjudged unjudged[] = {
    {.rank = 5, .group = UINT32_MAX, .why = RS_UNJUDGED_NO_PEERS}};

static void assert_read(struct rs_row_store *store, enum rs_read read, const char *expected)
{
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    struct rs_buf buf = {0};
    const struct rs_read_args args = {.capture = CAPTURE};
    assert_ok(rs_read_open(store, read, &args, &cursor, NULL));
    while (rs_cursor_next(cursor, &block, NULL) == RS_OK)
        for (size_t i = 0; i < block.count; i++)
            rs_csv_row(block.table, rs_block_row(&block, i), &buf);
    rs_cursor_close(&cursor);
    rs_block_fini(&block);
    if (!strstr(rs_buf_text(&buf), expected))
        fail_msg("%s is not in: %s", expected, rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

static void a_diagnosis_comes_back_from_its_tables(void **state)
{
    (void)state;
    struct rs_job_group group = {.text = group_name, .size = 2};
    struct rs_diagnosis diagnosis = {.findings = findings,
                                     .finding_count = 1,
                                     .not_worth_fixing = small,
                                     .not_worth_count = 1,
                                     .unjudged = unjudged,
                                     .unjudged_count = 1};
    diagnosis.waiting.caused = causes;
    diagnosis.waiting.cause_count = 2;
    diagnosis.replay.is_known = true;
    diagnosis.loss.step_ns = 10000000;
    const struct rs_analysis analysis = {
        .groups = &group, .group_count = 1, .diagnosis = &diagnosis};
    struct rs_row_store *store = NULL;
    assert_ok(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &store, NULL));
    for (int round = 0; round < 2; round++) { /* written again, it replaces */
        assert_ok(rs_analysis_rows(&analysis, CAPTURE, store, NULL));
        assert_read(store, RS_READ_FINDINGS, "3,1,slow_rank,exact,1,2500000,2400000,2600000,0.25,");
        assert_read(store, RS_READ_FINDINGS, "3,2,slow_group,weak,0,");
        assert_read(store, RS_READ_FINDING_PLACES, "3,1,0,0,rank,3,,,,,,\n3,1,1,1,host,,,,,,,n1\n");
        assert_read(
            store, RS_READ_EVIDENCE,
            "3,1,0,own_work,computing,3,,,,\"gemm, \"\"large\"\"\",2680000,100000,,,4,5,,\n");
        assert_read(store, RS_READ_DIAGNOSIS, "3,loss_step_ns,10000000\n");
        assert_read(store, RS_READ_DIAGNOSIS, "3,waiting_total_ns,\n");
        assert_read(store, RS_READ_WAIT_CAUSES, "3,0,1,70,7\n3,1,,30,0\n");
        assert_read(store, RS_READ_UNJUDGED, "3,0,5,,no_peers\n");
        assert_read(store, RS_READ_COMM_GROUPS, ",tp@0-1,0,,2,0,0\n");
    }
    /* nobody could be judged: unknown, and not 0 */
    diagnosis.replay.is_known = false;
    assert_ok(rs_analysis_rows(&analysis, CAPTURE, store, NULL));
    assert_read(store, RS_READ_DIAGNOSIS, "3,loss_step_ns,\n");
    assert_read(store, RS_READ_DIAGNOSIS, "3,replay_nodes,\n");
    rs_row_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_diagnosis_comes_back_from_its_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
