/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that were set up otherwise than the others are told of, and nobody who was not.
 */
#include "tests/unit/aggregator_analysis/join_rig.h"

#include <stdio.h>
#include <string.h>

static void set_up(struct rig *rig, int32_t rank, const char *metadata)
{
    struct rs_summary *summary = rig_rank(rig, rank, "node1");
    if (metadata)
        assert_ok(
            rs_strtab_add(&summary->strings, metadata, strlen(metadata), &summary->trace.metadata));
}

/* The notes about settings, a line each. */
static void assert_notes(struct rig *rig, const char *expected)
{
    char text[4096] = "";
    const struct rs_analysis *analysis = rig_run(rig, true);
    for (size_t i = 0; i < analysis->note_count; i++)
        if (strstr(analysis->notes[i], "set up alike") || strstr(analysis->notes[i], "settings"))
            (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n",
                           analysis->notes[i]);
    assert_string_equal(text, expected);
    rig_fini(rig);
}

static void another_environment_is_told(void **state)
{
    (void)state;
    struct rig rig = {0};
    for (int rank = 0; rank < 6; rank++)
        set_up(&rig, rank,
               rank == 4   ? "{\"ENV_VARIABLES\":{\"HCCL_RDMA_TC\":\"132\",\"HCCL_ALGO\":\"ring\"}}"
               : rank == 5 ? NULL
                           : "{\"ENV_VARIABLES\":{\"HCCL_RDMA_TC\":\"\",\"HCCL_ALGO\":\"ring\"}}");
    assert_notes(&rig,
                 "HCCL_RDMA_TC is \"132\" on rank 4, and not set on 4 others: the ranks of a job "
                 "should be set up alike.\n");
}

/* One that lacks a variable, and one that has another value, stand against the others. */
static void each_value_is_told_with_its_ranks(void **state)
{
    (void)state;
    struct rig rig = {0};
    for (int rank = 0; rank < 8; rank++)
        set_up(&rig, rank,
               rank < 3    ? "{\"ENV_VARIABLES\":{\"ACLNN_CACHE_LIMIT\":\"10\"}}"
               : rank == 3 ? "{\"ENV_VARIABLES\":{}}"
                           : "{\"ENV_VARIABLES\":{\"ACLNN_CACHE_LIMIT\":4096}}");
    assert_notes(&rig,
                 "ACLNN_CACHE_LIMIT is not set on rank 3, and \"4096\" on 4 others: the ranks of a "
                 "job should be set up alike.\n"
                 "ACLNN_CACHE_LIMIT is \"10\" on ranks 0-2, and \"4096\" on 4 others: the ranks of "
                 "a job should be set up alike.\n");
}

static void what_is_each_ranks_own_is_not_told(void **state)
{
    (void)state;
    struct rig rig = {0};
    for (int rank = 0; rank < 4; rank++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "{\"trace_id\":\"%d\",\"distributed_args\":{\"rank\":%d},\"name\":\"r%d\","
                       "\"stage\":%d,\"lr\":%s}",
                       rank, rank, rank, rank / 2, rank == 2 ? "0.2" : "0.1");
        set_up(&rig, rank, text);
    }
    assert_notes(
        &rig, "lr is \"0.2\" on rank 2, and \"0.1\" on 3 others: the ranks of a job should be set "
              "up alike.\n");
}

static void two_ranks_are_no_majority(void **state)
{
    (void)state;
    struct rig rig = {0};
    set_up(&rig, 0, "{\"lr\":1}");
    set_up(&rig, 1, "{\"lr\":2}");
    assert_notes(&rig, "");
}

/* A stranger's metadata: not JSON, not an object, thousands of names. */
static void odd_metadata_is_passed_over(void **state)
{
    (void)state;
    struct rig rig = {0};
    char text[4096] = "{\"ENV_VARIABLES\":{";
    for (int i = 0; i < 40; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"V%02d\":\"x\"",
                       i ? "," : "", i);
    (void)snprintf(text + strlen(text), sizeof text - strlen(text), "}}");
    set_up(&rig, 0, "{");
    set_up(&rig, 1, "[1]");
    set_up(&rig, 2, "{\"ENV_VARIABLES\":7}");
    set_up(&rig, 3, "{\"ENV_VARIABLES\":{\"other\":null}}");
    set_up(&rig, 4, text);
    const struct rs_analysis *analysis = rig_run(&rig, true);
    size_t told = 0;
    for (size_t i = 0; i < analysis->note_count; i++) {
        told += strstr(analysis->notes[i], "set up alike") != NULL;
        if (strstr(analysis->notes[i], "settings"))
            assert_string_equal(analysis->notes[i],
                                "25 more values of settings differ between ranks.");
    }
    assert_int_equal(told, 16);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_environment_is_told),
        cmocka_unit_test(each_value_is_told_with_its_ranks),
        cmocka_unit_test(what_is_each_ranks_own_is_not_told),
        cmocka_unit_test(two_ranks_are_no_majority),
        cmocka_unit_test(odd_metadata_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
