/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of two small ranks made here: what is in the documents, and what is said of a rank that
 * is broken. (tests/e2e/test_cluster.py holds the room against the vendor's tool.)
 */
#include "ascend/cluster/cluster_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <jansson.h>
#include <sqlite3.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[] = "/tmp/rs-cluster-XXXXXX";

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", root, dir);
    assert_ok(rs_file_make_dirs(path, 0755, NULL));
    (void)snprintf(path, sizeof path, "%s/%s/%s", root, dir, name);
    assert_ok(rs_file_replace(path, text, strlen(text), false, NULL));
}

/* A rank that waited `wait` ms in one all-reduce with the other one and sent to itself and to it. */
static void make_rank(int rank, const char *wait)
{
    char dir[128], output[160], text[2048];
    (void)snprintf(dir, sizeof dir, "job/node_%d_2025061511064000%d_ascend_pt", 100 + rank, rank);
    (void)snprintf(output, sizeof output, "%s/ASCEND_PROFILER_OUTPUT", dir);
    (void)snprintf(text, sizeof text, "profiler_info_%d.json", rank);
    write_text(dir, text, "{\"end_info\": {}}");
    write_text(
        dir, "profiler_metadata.json",
        "{\"parallel_group_info\": {\"a\": {\"group_name\": \"dp\", \"global_ranks\": [0, 1]}}, "
        "\"distributed_args\": {\"tensor_model_parallel_size\": 1, "
        "\"pipeline_model_parallel_size\": 1, \"data_parallel_size\": 2, \"world_size\": 2}}");
    (void)snprintf(text, sizeof text,
                   "{\"step1\":{\"p2p\":{},\"collective\":{\"hcom_allReduce__497_0_1@%llu\":{"
                   "\"Communication Time Info\":{\"Start Timestamp(us)\":1750000000000070.5,"
                   "\"Elapse Time(ms)\":1.50,\"Transit Time(ms)\":1,\"Wait Time(ms)\":%s,"
                   "\"Synchronization Time(ms)\":0,\"Idle Time(ms)\":0,\"Wait Time Ratio\":0,"
                   "\"Synchronization Time Ratio\":0},"
                   "\"Communication Bandwidth Info\":{\"HCCS\":{\"Transit Size(MB)\":3,\"Transit "
                   "Time(ms)\":2,\"Bandwidth(GB/s)\":1.5,\"Large Packet Ratio\":0,\"Size "
                   "Distribution\":{\"3\":[1,2]}}}}}}}",
                   97ULL << 32 | 97, wait); /* the hash of "a" */
    write_text(output, "communication.json", text);
    (void)snprintf(text, sizeof text,
                   "{\"step1\":{\"p2p\":{},\"collective\":{\"allreduce-total@%llu\":{\"%d-%d\":{"
                   "\"Transport Type\":\"HCCS\",\"Transit Size(MB)\":3,\"Transit Time(ms)\":2,"
                   "\"Bandwidth(GB/s)\":1.5}}}}}",
                   97ULL << 32 | 97, rank, 1 - rank);
    write_text(output, "communication_matrix.json", text);
    write_text(
        output, "step_trace_time.csv",
        "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
        "Communication(Not Overlapped and Exclude Receive),Preparing\n1,10,,,1.5,,,,,\n");
}

static enum rs_status run_form(enum rs_cluster_form form, bool compat,
                               struct rs_cluster_result *result)
{
    char job[128], out[128];
    const char *paths[] = {job};
    (void)snprintf(job, sizeof job, "%s/job", root);
    (void)snprintf(out, sizeof out, "%s/out", root);
    const struct rs_cluster_options options = {
        .out = out, .form = form, .compat = compat, .jobs = 2};
    return rs_cluster_run(paths, 1, &options, result, NULL);
}

static enum rs_status run_all(bool compat, struct rs_cluster_result *result)
{
    return run_form(RS_CLUSTER_TEXT, compat, result);
}

static char *read_out(const char *name)
{
    char path[256];
    struct rs_buf buf = {0};
    (void)snprintf(path, sizeof path, "%s/out/cluster_analysis_output/%s", root, name);
    assert_ok(rs_file_read(path, 1 << 20, &buf, NULL));
    char *text = strdup(rs_buf_text(&buf));
    rs_buf_fini(&buf);
    return text;
}

static void documents_hold_every_rank_and_its_sums(void **state)
{
    struct rs_cluster_result result;
    (void)state;
    make_rank(0, "0.25");
    make_rank(1, "0");
    assert_ok(run_all(false, &result));
    assert_int_equal(result.rank_count, 2);
    assert_int_equal(result.op_count, 2);
    rs_cluster_result_fini(&result);
    char *text = read_out("cluster_communication.json");
    assert_non_null(
        strstr(text, "{\"(0, 1)\": {\"step1\": {\"hcom_allReduce__497_0_1@416611827809\": {\"0\": "
                     "{\"Communication Time Info\": {\"Start Timestamp(us)\": 1750000000000070.5, "
                     "\"Elapse Time(ms)\": 1.5, \"Transit Time(ms)\": 1, "
                     "\"Wait Time(ms)\": 0.25, "));
    assert_non_null(strstr(text,
                           "\"Total Op Info@416611827809\": {\"0\": {\"Communication Time Info\": "
                           "{\"Elapse Time(ms)\": 1.5, \"Transit Time(ms)\": 1.0, \"Wait "
                           "Time(ms)\": 0.25, \"Synchronization Time(ms)\": 0.0, \"Idle "
                           "Time(ms)\": 0.0, \"Wait Time Ratio\": 0.2, \"Synchronization Time "
                           "Ratio\": 0.0}"));
    json_t *tree = json_loads(text, 0, NULL);
    assert_non_null(tree);
    json_decref(tree);
    free(text);
    text = read_out("cluster_step_trace_time.csv");
    assert_non_null(strstr(text, "1,rank,1,10.0,,,1.5,,,,,,1,0,0\r\n"));
    free(text);
}

static void links_without_self_links_come_by_the_metadata(void **state)
{
    struct rs_cluster_result result;
    (void)state;
    make_rank(0, "0.25");
    make_rank(1, "0");
    assert_ok(run_all(false, &result));
    assert_int_equal(result.link_count, 2);
    rs_cluster_result_fini(&result);
    char *text = read_out("cluster_communication_matrix.json");
    assert_non_null(strstr(text, "\"1-0\": {\"Transport Type\": \"HCCS\", \"Transit Time(ms)\": 2, "
                                 "\"Transit Size(MB)\": 3, \"Op Name\": \"\", \"Bandwidth(GB/s)\": "
                                 "1.5}"));
    free(text);
    assert_status(run_all(true, &result), RS_PARTIAL);
    assert_int_equal(result.dropped_links, 2);
    rs_cluster_result_fini(&result);
}

static void a_broken_rank_is_named_and_the_other_one_complete(void **state)
{
    struct rs_cluster_result result;
    (void)state;
    make_rank(0, "0.25");
    make_rank(1, "0.2.5");
    assert_status(run_all(false, &result), RS_PARTIAL);
    assert_int_equal(result.ranks[0].state, RS_CLUSTER_WHOLE);
    assert_int_equal(result.ranks[1].state, RS_CLUSTER_PARTIAL);
    assert_non_null(strstr(result.ranks[1].reason, "communication.json"));
    assert_int_equal(result.op_count, 1);
    assert_int_equal(result.link_count, 2);
    rs_cluster_result_fini(&result);
}

/* In a database a number may be the least there is, whose size is none of its type. */
static void the_least_number_there_is_is_a_number(void **state)
{
    static const char sql[] =
        "CREATE TABLE CommAnalyzerTime (hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, "
        "elapse_time NUMERIC, transit_time NUMERIC, wait_time NUMERIC, synchronization_time NUMERIC, "
        "idle_time NUMERIC, step TEXT, type TEXT);"
        "INSERT INTO CommAnalyzerTime VALUES ('hcom_allReduce__497_0_1@1', '1', 7, 1.5, 1, "
        "-9223372036854775807 - 1, 0, 0, 'step1', 'collective');"
        "CREATE TABLE CommAnalyzerBandwidth (hccl_op_name TEXT, group_name TEXT, transport_type TEXT, "
        "transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, large_packet_ratio NUMERIC, "
        "package_size NUMERIC, count NUMERIC, total_duration NUMERIC, step TEXT, type TEXT);";
    struct rs_cluster_result result;
    char path[256];
    sqlite3 *db = NULL;
    sqlite3_stmt *rows = NULL;
    (void)state;
    make_rank(0, "0");
    make_rank(1, "0");
    (void)snprintf(path, sizeof path,
                   "%s/job/node_100_20250615110640000_ascend_pt/ASCEND_PROFILER_OUTPUT/analysis.db",
                   root);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    (void)run_form(RS_CLUSTER_DB, false, &result);
    rs_cluster_result_fini(&result);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/out/cluster_analysis_output/cluster_analysis.db", root);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT MIN(wait_time) FROM ClusterCommunicationTime",
                                        -1, &rows, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int64(rows, 0), INT64_MIN);
    (void)sqlite3_finalize(rows);
    (void)sqlite3_close(db);
    assert_int_equal(unlink(path), 0);
}

static bool is_there(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/out/cluster_analysis_output/%s", root, name);
    return access(path, F_OK) == 0;
}

/* The form follows the input; when databases turn out to be none, text is written after all, complete. */
static void unreadable_databases_leave_the_text_form(void **state)
{
    struct rs_cluster_result result;
    char path[512];
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        make_rank(rank, "0.25");
        (void)snprintf(path, sizeof path,
                       "job/node_%d_2025061511064000%d_ascend_pt/ASCEND_PROFILER_OUTPUT",
                       100 + rank, rank);
        write_text(path, "analysis.db", "SQLite format 3, it says");
    }
    (void)snprintf(path, sizeof path, "%s/out/cluster_analysis_output/cluster_communication.json",
                   root);
    (void)unlink(path);
    assert_status(run_form(RS_CLUSTER_AUTO, false, &result), RS_OK);
    assert_int_equal(result.op_count, 2);
    assert_int_equal(result.link_count, 2);
    assert_true(is_there("cluster_communication.json"));
    assert_false(is_there("cluster_analysis.db"));
    assert_false(is_there(".cluster_analysis.db.part"));
    rs_cluster_result_fini(&result);
}

/* ---- stages and places ---------------------------------------------------------------------- */

static void add_group(struct run *run, enum side side, const char *name, int64_t first,
                      int64_t stride, int count)
{
    struct group *group = &run->groups[run->group_count++];
    group->name = name;
    for (int i = 0; i < count; i++)
        assert_ok(rank_set_add(&group->by_any[side], first + i * stride));
}

static void stages_are_what_pipelines_do_not_cross(void **state)
{
    struct rs_cluster_options options = {.out = NULL};
    struct group groups[16] = {{0}};
    struct run run = {.options = &options, .groups = groups};
    (void)state;
    for (int64_t r = 0; r < 4; r++)
        add_group(&run, SIDE_P2P, "", r, 4, 2); /* 0-4, 1-5, 2-6, 3-7; the metadata says nothing */
    for (int64_t r = 0; r < 8; r += 2)
        add_group(&run, SIDE_COLLECTIVE, "", r, 1, 2); /* tp */
    add_group(&run, SIDE_COLLECTIVE, "", 0, 2, 2);     /* dp: 0-2 */
    add_group(&run, SIDE_COLLECTIVE, "", 4, 2, 2);     /* dp: 4-6 */
    add_group(&run, SIDE_COLLECTIVE, "", 0, 1, 8);     /* everyone */
    assert_ok(find_stages(&run));
    assert_int_equal(run.stages.count, 2);
    assert_int_equal(run.stages.sets[0].count, 4);
    assert_int_equal(run.stages.sets[1].ranks[0], 4);
    for (size_t i = 0; i < run.stages.count; i++)
        rs_mem_free(run.stages.sets[i].ranks);
    rs_mem_free(run.stages.sets);
    run.stages = (struct stages){0};
    options.compat = true;
    assert_ok(find_stages(&run));
    assert_int_equal(run.stages.count, 0);
    for (size_t i = 0; i < run.group_count; i++)
        for (int side = 0; side < SIDES; side++)
            rs_mem_free(groups[i].by_any[side].ranks);
}

static void places_count_context_parallelism(void **state)
{
    const struct layout layout = {.is_known = true, .tp = 2, .cp = 2, .dp = 3, .pp = 2};
    const struct layout unknown = {.is_known = false};
    int64_t place[3];
    (void)state;
    for (int64_t rank = 0; rank < 24; rank++) {
        assert_true(place_of(&layout, rank, place));
        const int64_t cp = rank / 2 % 2;
        assert_int_equal(((place[1] * 3 + place[0]) * 2 + cp) * 2 + place[2], rank);
    }
    assert_false(place_of(&unknown, 3, place));
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_hold_every_rank_and_its_sums),
        cmocka_unit_test(links_without_self_links_come_by_the_metadata),
        cmocka_unit_test(a_broken_rank_is_named_and_the_other_one_complete),
        cmocka_unit_test(the_least_number_there_is_is_a_number),
        cmocka_unit_test(unreadable_databases_leave_the_text_form),
        cmocka_unit_test(stages_are_what_pipelines_do_not_cross),
        cmocka_unit_test(places_count_context_parallelism),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
