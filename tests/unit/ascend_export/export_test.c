/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks made by hand, written as Ascend directories; the tables are asked with SQL. The database algorithm for
 * StepTraceTime is written down here a second time, in SQL and a few lines of C.
 */
#include "ascend/export/export.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/reduce/reduce.h"
#include "tests/support/make_events.h"
#include "tests/support/rs_test.h"

#include <sqlite3.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BASE INT64_C(1700000000000000000)

static char folder[64];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/rs-export-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf -- %s", folder);
    return system(command); /* NOLINT: a folder of our own making */
}

/* ---- one rank, alone ---- */

struct rank {
    struct make_events events;
    struct rs_reduce *reduce;
    struct rs_summary summary;
    const struct rs_summary *lent[1];
    struct rs_analysis *analysis;
    struct rs_row_store *rows;
    struct rs_export_result result;
    char *db; /* path */
};

static void rank_init(struct rank *rank)
{
    memset(rank, 0, sizeof *rank);
    make_events_init(&rank->events);
    rank->events.info.base_ns = BASE;
    rank->events.info.rank = 3;
    rank->events.info.host = make_string(&rank->events, "node 1");
}

static void rank_join(struct rank *rank)
{
    struct rs_err err = {0};
    struct make_events *e = &rank->events;
    assert_ok(rs_batch_check(&e->batch, &err));
    assert_ok(rs_reduce_new(&e->strings, &e->lanes, &rank->reduce));
    assert_ok(rs_reduce_add(rank->reduce, &e->batch, &err));
    assert_ok(rs_reduce_finish(rank->reduce, &e->info, &rank->summary, &err));
    rank->lent[0] = &rank->summary;
    const struct rs_analysis_options options = {0};
    assert_ok(rs_analysis_new(rank->lent, 1, &options, &rank->analysis, &err));
    assert_ok(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &rank->rows, &err));
    assert_ok(rs_analysis_rows(rank->analysis, RS_ROWS_CAPTURE, rank->rows, &err));
}

static void rank_export(struct rank *rank)
{
    struct rs_err err = {0};
    struct make_events *e = &rank->events;
    struct rs_export_ascend *export = NULL;
    char name[256];
    rank_join(rank);
    const struct rs_export_options options = {
        .analysis = rank->analysis, .rows = rank->rows, .out_dir = folder, .base_ns = BASE};
    assert_ok(rs_export_ascend_open(&options, &e->strings, &e->lanes, &export, &err));
    assert_ok(rs_export_ascend_add(export, &e->batch, &err));
    if (rs_export_ascend_finish(export, &e->info, &rank->result, &err) != RS_OK)
        fail_msg("%s", err.text);
    rs_export_ascend_free(&export);
    (void)snprintf(name, sizeof name, "ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_3.db");
    rank->db = rs_file_join(rank->result.dir, name);
}

static void rank_fini(struct rank *rank)
{
    rs_mem_free(rank->db);
    rs_mem_free(rank->result.dir);
    rs_row_store_close(&rank->rows);
    rs_analysis_free(&rank->analysis);
    rs_reduce_free(&rank->reduce);
    rs_summary_fini(&rank->summary);
    make_events_fini(&rank->events);
}

static void query(const struct rank *rank, const char *sql, char *text, size_t size)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *rows = NULL;
    size_t used = 0;
    assert_int_equal(sqlite3_open_v2(rank->db, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(db, sql, -1, &rows, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    text[0] = '\0';
    while (sqlite3_step(rows) == SQLITE_ROW) {
        for (int c = 0; c < sqlite3_column_count(rows); c++) {
            const unsigned char *cell = sqlite3_column_text(rows, c);
            used += (size_t)snprintf(text + used, size - used, "%s%s", c ? "|" : "",
                                     cell ? (const char *)cell : "NULL");
        }
        used += (size_t)snprintf(text + used, size - used, "\n");
    }
    sqlite3_finalize(rows);
    sqlite3_close(db);
}

static void assert_query(const struct rank *rank, const char *sql, const char *expected)
{
    char text[4096];
    query(rank, sql, text, sizeof text);
    assert_string_equal(text, expected);
}

static void assert_text(const struct rank *rank, const char *name, const char *expected)
{
    struct rs_buf buf = {0};
    struct rs_err err = {0};
    char relative[128];
    (void)snprintf(relative, sizeof relative, "ASCEND_PROFILER_OUTPUT/%s", name);
    char *path = rs_file_join(rank->result.dir, relative);
    assert_ok(rs_file_read(path, 1 << 20, &buf, &err));
    assert_string_equal(rs_buf_text(&buf), expected);
    rs_mem_free(path);
    rs_buf_fini(&buf);
}

/* ---- a device ---- */

/* Step 5 is [1000, 11000) on the host. Its kernels: 2000..4000 and the all-reduce of two kernels 5000..6000 and
 * 7000..9000; one more, launched across the step's end, starts at 1500. A copy and a set beside them. */
static void device_rank(struct rank *rank)
{
    rank_init(rank);
    struct make_events *e = &rank->events;
    const uint32_t host = make_host_lane(e, 1000), gpu = make_device_lane(e, 2, 7),
                   comm = make_device_lane(e, 2, 8);
    make_row(e, RS_KIND_TRACE_SPAN, "recording", host, 0, 20000);
    make_row(e, RS_KIND_USER_ANNOTATION, "ProfilerStep#5", host, 1000, 11000);
    make_row(e, RS_KIND_CPU_OP, "aten::mm", host, 1100, 1300);
    e->batch.external_id[e->row] = 77;
    make_inputs(e, "[[2, 3], [3, 4], []]", "[\"float\", \"float\", \"Scalar\"]", NULL);
    make_row(e, RS_KIND_RUNTIME, "cudaLaunchKernel", host, 1150, 1160);
    make_correlation(e, 1);
    e->batch.external_id[e->row] = 77;
    make_row(e, RS_KIND_KERNEL, "void gemm<float>(int)", gpu, 2000, 4000);
    make_correlation(e, 1);
    make_row(e, RS_KIND_RUNTIME, "cudaDeviceSynchronize", host, 1170, 1180);
    make_correlation(e, 2);
    make_row(e, RS_KIND_DRIVER, "cuLaunchKernel", host, 1152, 1158); /* inside the first call */
    make_correlation(e, 1);
    make_row(e, RS_KIND_RUNTIME, "cudaLaunchKernel", host, 10990, 11010); /* across the end */
    make_correlation(e, 3);
    make_row(e, RS_KIND_KERNEL, "void late_gemm<float>(int)", gpu, 1500, 1600);
    make_correlation(e, 3);
    make_row(e, RS_KIND_CPU_OP, "c10d::allreduce_", host, 1200, 1290);
    for (int i = 0; i < 2; i++) {
        make_row(e, RS_KIND_RUNTIME, "cudaLaunchKernel", host, 1210 + 10 * i, 1215 + 10 * i);
        make_correlation(e, 10 + i);
        make_row(e, RS_KIND_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", comm,
                 i ? 7000 : 5000, i ? 9000 : 6000);
        make_correlation(e, 10 + i);
    }
    make_row(e, RS_KIND_MEMCPY, "Memcpy HtoD (Pinned -> Device)", gpu, 4100, 4200);
    e->batch.bytes[e->row] = 4096;
    make_row(e, RS_KIND_MEMSET, "Memset (Device)", gpu, 4300, 4310);
}

static void tables_hold_what_the_rank_did(void **state)
{
    (void)state;
    struct rank rank;
    device_rank(&rank);
    rank_export(&rank);
    assert_query(&rank, "PRAGMA integrity_check", "ok\n");
    assert_query(&rank, "SELECT id, startNs, endNs FROM STEP_TIME",
                 "5|1700000000000001000|1700000000000011000\n");
    assert_query(&rank, "SELECT * FROM RANK_DEVICE_MAP", "3|2\n");
    assert_query(&rank,
                 "SELECT s.value, t.startNs - 1700000000000000000, t.endNs - 1700000000000000000, "
                 "t.deviceId, t.connectionId, t.streamId, t.globalPid FROM TASK t "
                 "JOIN STRING_IDS s ON s.id = t.taskType WHERE s.value NOT LIKE 'RANKSCOPE%' "
                 "ORDER BY t.startNs",
                 "KERNEL|1500|1600|2|3|7|1000\nKERNEL|2000|4000|2|1|7|1000\n"
                 "MEMCPY_ASYNC|4100|4200|2|4294967295|7|1000\n"
                 "MEMSET|4300|4310|2|4294967295|7|1000\n"
                 "KERNEL|5000|6000|2|10|8|1000\nKERNEL|7000|9000|2|11|8|1000\n");
    assert_query(
        &rank,
        "SELECT n.value, y.value, c.globalTaskId = t.globalTaskId FROM COMPUTE_TASK_INFO c "
        "JOIN TASK t USING (globalTaskId) JOIN STRING_IDS n ON n.id = c.name "
        "JOIN STRING_IDS y ON y.id = c.opType ORDER BY t.startNs",
        "void late_gemm<float>(int)|late_gemm|1\nvoid gemm<float>(int)|gemm|1\n");
    assert_query(&rank,
                 "SELECT size, o.name FROM MEMCPY_INFO m JOIN ENUM_MEMCPY_OPERATION o ON "
                 "o.id = m.memcpyOperation",
                 "4096|host to device\n");
    assert_query(
        &rank,
        "SELECT n.value, p.startNs, p.globalTid >> 32, p.globalTid & 4294967295, "
        "d.value, y.value, p.connectionId, typeof(p.startNs) FROM PYTORCH_API p "
        "JOIN STRING_IDS n ON n.id = p.name LEFT JOIN STRING_IDS d ON d.id = p.inputShapes "
        "LEFT JOIN STRING_IDS y ON y.id = p.inputDtypes WHERE n.value = 'aten::mm'",
        "aten::mm|1700000000000001100|1000|1000|2,3;\r\n3,4;\r\n|float;\r\nfloat;\r\n"
        "Scalar|77|text\n");
    assert_query(&rank, "SELECT * FROM CONNECTION_IDS", "77|1\n");
    /* the key of a call is its correlation; the driver's second row of one gets its own */
    assert_query(
        &rank,
        "SELECT n.value, e.name, connectionId IN (1, 2, 3, 10, 11) FROM CANN_API a "
        "JOIN STRING_IDS n ON n.id = a.name JOIN ENUM_API_TYPE e ON e.id = a.type "
        "WHERE n.value NOT LIKE 'rankscope%' ORDER BY a.startNs",
        "cudaLaunchKernel|node|1\ncuLaunchKernel|runtime|0\ncudaDeviceSynchronize|runtime|1\n"
        "cudaLaunchKernel|node|1\ncudaLaunchKernel|node|1\ncudaLaunchKernel|node|1\n");
    assert_query(&rank, "SELECT hostName FROM HOST_INFO", "node 1\n");
    assert_query(&rank, "SELECT value FROM META_DATA WHERE name = 'SCHEMA_VERSION'", "1.2.0\n");
    assert_query(&rank, "SELECT min(id) >= 1 << 28 FROM STRING_IDS WHERE value = 'aten::mm'",
                 "1\n");
    rank_fini(&rank);
}

static void tables_exist_only_with_rows(void **state)
{
    (void)state;
    struct rank rank;
    device_rank(&rank);
    rank_export(&rank);
    assert_query(&rank,
                 "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('MSTX_EVENTS', "
                 "'MEMORY_RECORD', 'COMMUNICATION_TASK_INFO', 'NPU_INFO')",
                 "");
    rank_fini(&rank);
}

/* Two kernels with a gap stay two rows, so that Communication stays the union of kernels. */
static void tables_of_text_are_asked_of_the_database(void **state)
{
    (void)state;
    struct rank rank;
    device_rank(&rank);
    rank_export(&rank);
    /* launched in step 5 or behind its end; a copy is no kernel, and what a stream's first one waited is not known */
    assert_text(
        &rank, "kernel_details.csv",
        "Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,"
        "Start Time(us),Duration(us),Wait Time(us),Block Num,Mix Block Num,HF32 Eligible,"
        "Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,"
        "Output Formats\n"
        "5,2,,,7,void late_gemm<float>(int),late_gemm,,GPU,1700000000000001.500,0.100,,,,,,,,,,\n"
        "5,2,,,7,void gemm<float>(int),gemm,,GPU,1700000000000002.000,2.000,0.400,,,,,,,,,\n"
        "5,2,,,,hcom_allReduce__0_-1_1,hcom_allReduce_,,COMMUNICATION,1700000000000005.000,1.000,,,,,,,,,,\n"
        "5,2,,,,hcom_allReduce__0_-1_1,hcom_allReduce_,,COMMUNICATION,1700000000000007.000,2.000,,,,,,,,,,\n");
    assert_text(
        &rank, "op_statistic.csv",
        "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),"
        "Ratio(%)\n"
        "2,gemm,GPU,1,2.000,2.000,2.000,2.000,95.238\n"
        "2,late_gemm,GPU,1,0.100,0.100,0.100,0.100,4.762\n");
    assert_text(&rank, "api_statistic.csv",
                "Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance\n"
                "host,node,cudaLaunchKernel,0.040,4,0.010,0.005,0.020,0.000\n"
                "host,runtime,cudaDeviceSynchronize,0.010,1,0.010,0.010,0.010,0.000\n"
                "host,runtime,cuLaunchKernel,0.006,1,0.006,0.006,0.006,0.000\n");
    /* aten::mm holds the c10d call, and launched 2 us of work itself */
    assert_text(&rank, "operator_details.csv",
                "Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),"
                "Device Self Duration(us),Device Total Duration(us),"
                "Device Self Duration With AICore(us),Device Total Duration With AICore(us)\n"
                "ProfilerStep#5,,,9.800,10.000,0.000,2.000,,\n"
                "aten::mm,\"2,3;\r\n3,4;\r\n\",,0.110,0.200,2.000,2.000,,\n"
                "c10d::allreduce_,,,0.090,0.090,0.000,0.000,,\n");
    rank_fini(&rank);
}

static void an_operation_of_two_kernels_keeps_its_gap(void **state)
{
    (void)state;
    struct rank rank;
    device_rank(&rank);
    rank_export(&rank);
    assert_int_equal(rank.summary.op_count, 1);
    assert_query(&rank,
                 "SELECT startNs - 1700000000000000000, endNs - 1700000000000000000, deviceId, "
                 "connectionId FROM COMMUNICATION_OP ORDER BY opId",
                 "5000|6000|2|10\n7000|9000|2|11\n");
    assert_query(&rank,
                 "SELECT DISTINCT substr(s.value, 1, 16) FROM COMMUNICATION_OP c JOIN "
                 "STRING_IDS s ON s.id = c.opName",
                 "hcom_allReduce__\n");
    assert_query(&rank,
                 "SELECT DISTINCT s.value FROM COMMUNICATION_OP c JOIN STRING_IDS s ON "
                 "s.id = c.opType",
                 "hcom_allReduce_\n");
    assert_query(&rank,
                 "SELECT type, startNs - 1700000000000000000, endNs - 1700000000000000000 FROM "
                 "OVERLAP_ANALYSIS WHERE type < 3 ORDER BY type, startNs",
                 "0|1500|1600\n0|2000|4000\n1|5000|6000\n1|7000|9000\n2|5000|6000\n2|7000|9000\n");
    rank_fini(&rank);
}

/* [START, END) as a reader of the tables finds it: calls fully inside the step, tasks of their connections. */
static const char window_sql[] =
    "SELECT min(t.startNs) - 1700000000000000000, max(max(t.endNs), s.endNs) - 1700000000000000000 "
    "FROM STEP_TIME s JOIN CANN_API a ON a.type = 10000 AND a.startNs >= s.startNs AND "
    "a.endNs <= s.endNs JOIN TASK t ON t.connectionId = a.connectionId";

static void a_window_that_the_calls_do_not_report_is_bounded(void **state)
{
    (void)state;
    struct rank rank;
    device_rank(&rank);
    rank_export(&rank);
    assert_int_equal(rank.result.windows_bounded, 1);
    assert_query(&rank, window_sql, "1500|11000\n");
    rank_fini(&rank);
    rank_init(&rank);
    struct make_events *e = &rank.events;
    const uint32_t host = make_host_lane(e, 1000), gpu = make_device_lane(e, 2, 7);
    make_row(e, RS_KIND_USER_ANNOTATION, "ProfilerStep#5", host, 1000, 11000);
    make_launched(e, "gemm", host, 1200, gpu, (struct make_span){2000, 15000});
    rank_export(&rank);
    assert_int_equal(rank.result.windows_bounded, 0);
    assert_query(&rank, window_sql, "2000|15000\n");
    assert_query(&rank, "SELECT count(*) FROM TASK", "1\n");
    rank_fini(&rank);
}

static void an_unfinished_kernel_ends_with_the_recording(void **state)
{
    (void)state;
    struct rank rank;
    rank_init(&rank);
    struct make_events *e = &rank.events;
    const uint32_t host = make_host_lane(e, 1000), gpu = make_device_lane(e, 0, 7);
    make_row(e, RS_KIND_TRACE_SPAN, "recording", host, 0, 5000);
    make_row(e, RS_KIND_KERNEL, "gemm", gpu, 1000, 2000);
    make_row(e, RS_KIND_KERNEL, "gemm", gpu, 3000, 900000);
    e->batch.flags[e->row] |= RS_EVENT_UNFINISHED;
    rank_export(&rank);
    assert_query(&rank, "SELECT endNs - 1700000000000000000 FROM TASK ORDER BY startNs",
                 "2000\n5000\n");
    rank_fini(&rank);
}

/* Members that have no column stand in the row's `extra`, as the source wrote them. */
static void members_of_extra_are_found(void **state)
{
    (void)state;
    static const char extra[] = "\"note\": \"a, \\\"grid\\\": b\", \"Sequence number\": 42 ,"
                                "\"grid\": [1, 2, 3], \"block\": [128,1,1]\n\"id\": 7, ";
    struct rank rank;
    rank_init(&rank);
    struct make_events *e = &rank.events;
    const uint32_t host = make_host_lane(e, 1000), gpu = make_device_lane(e, 0, 7);
    make_row(e, RS_KIND_CPU_OP, "aten::mm", host, 100, 200);
    assert_ok(rs_batch_extra(&e->batch, e->row, extra, sizeof extra - 1));
    make_row(e, RS_KIND_KERNEL, "gemm", gpu, 300, 400);
    assert_ok(rs_batch_extra(&e->batch, e->row, extra, sizeof extra - 1));
    make_row(e, RS_KIND_MEMORY, "[e->row]", host, 150, 150);
    static const char memory[] =
        "\"Total Allocated\": 2048, \"Device Id\": 0, \"Total Reserved\": 4096";
    assert_ok(rs_batch_extra(&e->batch, e->row, memory, sizeof memory - 1));
    make_row(e, RS_KIND_MEMORY, "[e->row]", host, 160, 160); /* of the host: not a device's */
    static const char other[] = "\"Total Allocated\": 1, \"Device Id\": -1,,,  ";
    assert_ok(rs_batch_extra(&e->batch, e->row, other, sizeof other - 1));
    rank_export(&rank);
    assert_query(&rank, "SELECT sequenceNumber FROM PYTORCH_API", "42\n");
    assert_query(&rank,
                 "SELECT g.value, b.value FROM COMPUTE_TASK_INFO c JOIN STRING_IDS g ON g.id = "
                 "c.gridDim JOIN STRING_IDS b ON b.id = c.blockDim",
                 "1, 2, 3|128,1,1\n");
    assert_query(&rank,
                 "SELECT s.value, totalAllocated, totalReserved, totalActive, deviceId FROM "
                 "MEMORY_RECORD m JOIN STRING_IDS s ON s.id = m.component",
                 "PTA|2048|4096|NULL|0\n");
    rank_fini(&rank);
}

/* ---- what an Ascend profiler had recorded ---- */

static void make_kept(struct make_events *e, const char *table, const char *extra)
{
    make_row(e, RS_KIND_COUNTER, "a counter", make_host_lane(e, 1000), 100, 100);
    e->batch.category[e->row] = make_string(e, table);
    if (*extra)
        assert_ok(rs_batch_extra(&e->batch, e->row, extra, strlen(extra)));
}

static void make_all_kept(struct make_events *e)
{
    make_kept(e, "NIC",
              "\"deviceId\":\"INTEGER\",\"timestampNs\":\"INTEGER PRIMARY KEY\",\"rxByteRate\":"
              "\"NUMERIC);DROP\",\"note\":\"\"");
    e->batch.kind[e->row] = RS_KIND_METADATA;
    e->batch.name[e->row] = make_string(e, "vendor table");
    make_kept(e, "ROCE", "\"deviceId\":\"INTEGER\""); /* announced, and without a row */
    e->batch.kind[e->row] = RS_KIND_METADATA;
    e->batch.name[e->row] = make_string(e, "vendor table");
    make_kept(e, "NIC", "\"deviceId\":0,\"timestampNs\":5,\"note\":\"a\"");
    make_kept(e, "NIC", ""); /* the second counter of that row */
    make_kept(e, "NIC", "\"deviceId\":0,\"timestampNs\":7,\"rxByteRate\":1.5");
    make_kept(e, "CONNECTION_IDS", "\"id\":4,\"connectionId\":900");
    make_kept(e, "PYTORCH_CALLCHAINS", "\"id\":6,\"stack\":\"a.py(7): f\",\"stackDepth\":0");
    make_kept(e, "TASK_PMU_INFO", "\"globalTaskId\":1,\"value\":3");
    make_kept(e, "MEMORY_RECORD",
              "\"component\":\"GE\",\"timestamp\":9");                /* not all of its columns */
    make_kept(e, "STEP_TIME", "\"id\":99,\"startNs\":1,\"endNs\":2"); /* ours is made of events */
    make_kept(e, "nic", "\"Device_id\":0,\"Timestamp(us)\":17.500,\"Note\":\"\"");
    make_kept(e, "nic", "\"Device_id\":0,\"Timestamp(us)\":18.000,\"Note\":\"a, \\\"b\\\"\"");
    make_kept(e, "DDR", "\"read\":1,\"Read\":2"); /* no columns of one table */
    make_kept(e, "QOS", "\"\":1");
    make_kept(e, "../nic", "\"Device_id\":0");
}

/* Tables as they were, also where we would make one of our own; texts have ids again. */
static void tables_of_its_profiler_come_back(void **state)
{
    (void)state;
    static const char extra[] =
        "\"Sequence number\":17,\"Fwd thread id\":3,\"Input type\":"
        "\"float;\\r\\nScalar\",\"Input Dims\":\"2,3;\\r\\n\",\"connectionId\":4,"
        "\"callchainId\":6";
    static const char mark[] = "\"eventType\":2,\"rangeId\":77,\"domain\":\"domain1\"";
    struct rank rank;
    rank_init(&rank);
    struct make_events *e = &rank.events;
    const uint32_t host = make_host_lane(e, 1000);
    make_row(e, RS_KIND_CPU_OP, "aten::mm", host, 100, 200);
    assert_ok(rs_batch_extra(&e->batch, e->row, extra, sizeof extra - 1));
    make_row(e, RS_KIND_OTHER, "Enqueue", host, 120, 130);
    e->batch.category[e->row] = make_string(e, "queue");
    make_row(e, RS_KIND_OTHER, "something else", host, 120, 130);
    make_row(e, RS_KIND_RANGE, "load", host, 140, 150);
    assert_ok(rs_batch_extra(&e->batch, e->row, mark, sizeof mark - 1));
    make_all_kept(e);
    e->info.metadata = make_string(
        e,
        "{\"ENV_VARIABLES\":{\"HCCL_ALGO\":\"ring\"},\"trace_id\":\"x\",\"lr\":0.5,\"note\":\"a\"}");
    rank_export(&rank);
    assert_query(&rank,
                 "SELECT * FROM META_DATA WHERE name NOT LIKE 'SCHEMA%' AND name <> 'rankscope'",
                 "ENV_VARIABLES|{\"HCCL_ALGO\": \"ring\"}\nlr|0.5\nnote|\"a\"\n");
    assert_text(
        &rank, "../profiler_metadata.json",
        "{\"parallel_group_info\":{},\"ENV_VARIABLES\":{\"HCCL_ALGO\": \"ring\"},\"lr\":0.5,"
        "\"note\":\"a\"}");
    assert_query(&rank, "SELECT name, type, pk FROM pragma_table_info('NIC')",
                 "deviceId|INTEGER|0\ntimestampNs|INTEGER|1\nrxByteRate|NUMERIC|0\nnote||0\n");
    assert_query(&rank, "SELECT * FROM NIC", "0|5|NULL|a\n0|7|1.5|NULL\n");
    assert_query(
        &rank,
        "SELECT n.value, p.type, p.sequenceNumber, p.fwdThreadId, d.value, s.value, c.connectionId, "
        "f.value, k.stackDepth FROM PYTORCH_API p JOIN STRING_IDS n ON n.id = p.name LEFT JOIN "
        "STRING_IDS d ON d.id = p.inputDtypes LEFT JOIN STRING_IDS s ON s.id = p.inputShapes LEFT JOIN "
        "CONNECTION_IDS c ON c.id = p.connectionId LEFT JOIN PYTORCH_CALLCHAINS k ON k.id = "
        "p.callchainId LEFT JOIN STRING_IDS f ON f.id = k.stack",
        "aten::mm|50001|17|3|float;\r\nScalar|2,3;\r\n|900|a.py(7): f|0\n"
        "Enqueue|50002|NULL|NULL|NULL|NULL|NULL|NULL|NULL\n");
    assert_query(
        &rank,
        "SELECT eventType, rangeId, category, d.value FROM MSTX_EVENTS m JOIN STRING_IDS d ON d.id = "
        "m.domainId",
        "2|77|4294967295|domain1\n");
    assert_query(&rank,
                 "SELECT name FROM sqlite_master WHERE name IN ('TASK_PMU_INFO', 'MEMORY_RECORD', "
                 "'STEP_TIME', 'ROCE', 'DDR', 'QOS')",
                 "");
    assert_text(&rank, "nic.csv",
                "Device_id,Timestamp(us),Note\n0,17.500,\n0,18.000,\"a, \"\"b\"\"\"\n");
    assert_int_equal(rank.result.kept_rows, 6);
    rank_fini(&rank);
}

/* Names are words of SQL, or SQLite's own; two keys, a key that is no number, types that declare more; numbers beyond 64 bits; a hundred
 * tables too many: each costs itself, and not the rank. */
static void tables_of_a_stranger_cost_nothing_else(void **state)
{
    (void)state;
    struct rank rank;
    rank_init(&rank);
    struct make_events *e = &rank.events;
    char name[32], column[400];
    make_row(e, RS_KIND_CPU_OP, "aten::mm", make_host_lane(e, 1000), 100, 200);
    make_kept(
        e, "ORDER",
        "\"a\":\"INTEGER PRIMARY KEY\",\"b\":\"INTEGER PRIMARY KEY\",\"c\":\"TEXT COLLATE nobody\","
        "\"d\":\"GENERATED ALWAYS AS\"");
    e->batch.kind[e->row] = RS_KIND_METADATA;
    e->batch.name[e->row] = make_string(e, "vendor table");
    make_kept(e, "ORDER", "\"a\":1,\"b\":2,\"c\":\"x\",\"d\":3");
    make_kept(e, "ORDER", "\"a\":\"no number\",\"b\":2");
    make_kept(e, "SQLITE_SEQUENCE", "\"a\":1");
    make_kept(e, "LONG", "");
    (void)snprintf(column, sizeof column, "\"%0300d\":1", 0);
    make_kept(e, "LONG", column);
    make_kept(e, "nic", "\"Address\":99999999999999999999999");
    for (unsigned i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof name, "T%u", i);
        make_kept(e, name, "\"a\":1");
    }
    rank_export(&rank);
    assert_query(&rank, "SELECT name, type, pk FROM pragma_table_info('ORDER')",
                 "a|INTEGER|1\nb|INTEGER|0\nc|TEXT|0\nd||0\n");
    assert_query(&rank, "SELECT * FROM \"ORDER\"", "1|2|x|3\n");
    assert_query(&rank, "SELECT name FROM sqlite_master WHERE name IN ('SQLITE_SEQUENCE', 'LONG')",
                 "");
    assert_query(&rank,
                 "SELECT COUNT(*) > 100 AND COUNT(*) < 128 FROM sqlite_master WHERE name LIKE 'T_' "
                 "OR name LIKE 'T__' OR name LIKE 'T1__'",
                 "1\n");
    assert_text(&rank, "nic.csv", "Address\n99999999999999999999999\n");
    rank_fini(&rank);
}

/* ---- the CPU as the device ---- */

static void native_rank(struct rank *rank)
{
    rank_init(rank);
    struct make_events *e = &rank->events;
    const uint32_t host = make_host_lane(e, 1000);
    make_row(e, RS_KIND_STEP, "step", host, 1000, 9000);
    make_correlation(e, 12);
    make_row(e, RS_KIND_OP, "forward", host, 1100, 3000);
    make_row(e, RS_KIND_OP, "inner", host, 1200, 1300);
    make_row(e, RS_KIND_RANGE, "load data", host, 1000, 1050);
    make_row(e, RS_KIND_MARK, "epoch", host, 1060, 1060);
    make_row(e, RS_KIND_COMM, "send", host, 4000, 6000);
    make_correlation(e, 1);
    struct rs_comm *comm = make_comm(e, "send");
    comm->group_name = make_string(e, "pp");
    comm->group_ranks = make_string(e, "[1, 3]");
    comm->group_size = 2;
    comm->dst = 1;
    comm->bytes = 1000;
    comm->seq = 0;
    comm->has = RS_COMM_HAS_GROUP_SIZE | RS_COMM_HAS_DST | RS_COMM_HAS_BYTES | RS_COMM_HAS_SEQ;
    make_row(e, RS_KIND_COMM_TASK, "send", host, 4500, 5500);
    make_correlation(e, 1);
    struct rs_comm *task = make_comm(e, NULL);
    task->src = 3;
    task->dst = 1;
    task->bytes = 1000;
    task->transport = make_string(e, "TCP");
    task->has = RS_COMM_HAS_SRC | RS_COMM_HAS_DST | RS_COMM_HAS_BYTES;
}

static void a_native_rank_has_marks_steps_and_hops(void **state)
{
    (void)state;
    struct rank rank;
    native_rank(&rank);
    rank_export(&rank);
    assert_query(&rank, "SELECT * FROM RANK_DEVICE_MAP", "3|0\n");
    assert_query(&rank, "SELECT id FROM STEP_TIME", "12\n");
    assert_query(&rank,
                 "SELECT count(*) FROM PYTORCH_API p JOIN STRING_IDS s ON s.id = p.name "
                 "WHERE s.value = 'ProfilerStep#12'",
                 "1\n");
    assert_query(&rank,
                 "SELECT s.value, y.name, m.endNs - m.startNs FROM MSTX_EVENTS m JOIN STRING_IDS s "
                 "ON s.id = m.message JOIN ENUM_MSTX_EVENT_TYPE y ON y.id = m.eventType ORDER BY 1",
                 "epoch|marker|0\nload data|push/pop|50\n");
    /* one stretch of computing on the thread, named after the one operator that holds it */
    assert_query(
        &rank,
        "SELECT n.value, y.value, t.endNs - t.startNs FROM COMPUTE_TASK_INFO c JOIN TASK t "
        "USING (globalTaskId) JOIN STRING_IDS n ON n.id = c.name JOIN STRING_IDS y ON "
        "y.id = c.taskType",
        "forward|CPU|1900\n");
    assert_query(&rank,
                 "SELECT d.name, o.count, o.rankSize FROM COMMUNICATION_OP o JOIN "
                 "ENUM_HCCL_DATA_TYPE d ON d.id = o.dataType",
                 "BYTE|1000|2\n");
    assert_query(&rank,
                 "SELECT y.value, c.srcRank, c.dstRank, c.size, l.name, c.bandwidth, c.opId FROM "
                 "COMMUNICATION_TASK_INFO c JOIN STRING_IDS y ON y.id = c.taskType JOIN "
                 "ENUM_HCCL_LINK_TYPE l ON l.id = c.linkType",
                 "Memcpy|1|0|1000|TCP|1000000000|1\n"); /* ranks 3 and 1 within the group */
    rank_fini(&rank);
}

static bool trace_holds(const struct rank *rank, const char *text)
{
    struct rs_buf buf = {0};
    char *path = rs_file_join(rank->result.dir, "ASCEND_PROFILER_OUTPUT/trace_view.json");
    assert_ok(rs_file_read(path, 1 << 20, &buf, NULL));
    const bool holds = strstr(rs_buf_text(&buf), text) != NULL;
    rs_mem_free(path);
    rs_buf_fini(&buf);
    return holds;
}

static void counters_of_programs_and_hosts_are_curves(void **state)
{
    (void)state;
    struct rank rank;
    native_rank(&rank);
    struct make_events *e = &rank.events;
    const uint32_t host = make_host_lane(e, 1000);
    make_row(e, RS_KIND_COUNTER, "tokens", host, 2000, 2000);
    e->batch.phase[e->row] = 0;
    e->batch.bytes[e->row] = -1; /* a value like any other */
    make_row(e, RS_KIND_COUNTER, "process memory bytes", host, 3000, 3000);
    e->batch.phase[e->row] = 'C';
    e->batch.category[e->row] = make_string(e, "host_sys");
    e->batch.bytes[e->row] = 4096;
    make_row(e, RS_KIND_COUNTER, "of a profiler", host, 4000, 4000);
    e->batch.phase[e->row] = 'C';
    e->batch.category[e->row] = make_string(e, "NIC");
    e->batch.bytes[e->row] = 5;
    rank_export(&rank);
    assert_query(&rank,
                 "SELECT s.value, c.timestampNs - 1700000000000000000, c.value FROM "
                 "RANKSCOPE_COUNTER c JOIN STRING_IDS s ON s.id = c.name ORDER BY 2",
                 "tokens|2000|-1\nprocess memory bytes|3000|4096\n");
    assert_true(trace_holds(&rank, "\"name\":\"tokens\""));
    assert_true(trace_holds(&rank, "\"ts\":\"1700000000000003.000\",\"args\":{\"value\":4096}"));
    assert_false(trace_holds(&rank, "of a profiler"));
    rank_fini(&rank);
}

static void its_files_are_there(void **state)
{
    (void)state;
    static const char *const names[] = {"profiler_info_3.json",
                                        "profiler_metadata.json",
                                        "ASCEND_PROFILER_OUTPUT/analyse.done",
                                        "ASCEND_PROFILER_OUTPUT/analysis.db",
                                        "ASCEND_PROFILER_OUTPUT/communication.json",
                                        "ASCEND_PROFILER_OUTPUT/communication_matrix.json",
                                        "ASCEND_PROFILER_OUTPUT/step_trace_time.csv",
                                        "ASCEND_PROFILER_OUTPUT/trace_view.json"};
    struct rank rank;
    native_rank(&rank);
    rank_export(&rank);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = rs_file_join(rank.result.dir, names[i]);
        if (access(path, R_OK) != 0)
            fail_msg("%s is not there", names[i]);
        rs_mem_free(path);
    }
    /* 2023-11-14 22:13:20 UTC */
    assert_non_null(strstr(rank.result.dir, "/node-1_1000_20231114221320000_ascend_pt"));
    struct rs_buf buf = {0};
    struct rs_err err = {0};
    char *path = rs_file_join(rank.result.dir, "profiler_metadata.json");
    assert_ok(rs_file_read(path, 1 << 20, &buf, &err));
    assert_non_null(strstr(rs_buf_text(&buf), "\"group_rank\":1,\"global_ranks\":[1,3]"));
    rs_mem_free(path);
    rs_buf_fini(&buf);
    rank_fini(&rank);
}

/* Times of a stranger: far away, but written, and no difference overflows (the sanitizer builds say so). */
static void wild_times_are_written(void **state)
{
    (void)state;
    struct rank rank;
    rank_init(&rank);
    struct make_events *e = &rank.events;
    const uint32_t host = make_host_lane(e, 1000), gpu = make_device_lane(e, 0, 7);
    make_row(e, RS_KIND_USER_ANNOTATION, "ProfilerStep#1", host, INT64_MIN, INT64_MAX);
    make_row(e, RS_KIND_CPU_OP, "aten::mm", host, INT64_MIN, INT64_MAX);
    make_launched(e, "gemm", host, 100, gpu, (struct make_span){INT64_MIN, INT64_MAX});
    make_launched(e, "ncclDevKernel_AllReduce", host, 100, gpu, (struct make_span){5, INT64_MAX});
    rank_export(&rank);
    assert_query(&rank, "SELECT count(*) FROM TASK WHERE endNs >= startNs AND streamId = 7", "2\n");
    rank_fini(&rank);
}

/* ---- what goes wrong ---- */

static size_t entries(void)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *item; (item = readdir(dir));)
        count += strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0;
    (void)closedir(dir);
    return count;
}

static void nothing_remains_without_a_finish(void **state)
{
    (void)state;
    struct rank rank;
    struct rs_err err = {0};
    struct rs_export_ascend *export = NULL;
    struct rs_export_result result;
    device_rank(&rank);
    rank_join(&rank);
    const struct rs_export_options options = {
        .analysis = rank.analysis, .rows = rank.rows, .out_dir = folder, .base_ns = BASE};
    assert_ok(
        rs_export_ascend_open(&options, &rank.events.strings, &rank.events.lanes, &export, &err));
    assert_ok(rs_export_ascend_add(export, &rank.events.batch, &err));
    assert_int_equal(entries(), 1);
    rs_export_ascend_free(&export);
    assert_int_equal(entries(), 0);
    /* a recording without its time base cannot be placed */
    assert_ok(
        rs_export_ascend_open(&options, &rank.events.strings, &rank.events.lanes, &export, &err));
    rank.events.info.has_time_base = false;
    assert_status(rs_export_ascend_finish(export, &rank.events.info, &result, &err), RS_INVALID);
    rs_export_ascend_free(&export);
    assert_int_equal(entries(), 0);
    rank_fini(&rank);
}

static void two_recordings_of_one_moment_have_two_names(void **state)
{
    (void)state;
    struct rank a, b;
    device_rank(&a);
    rank_export(&a);
    device_rank(&b);
    rank_export(&b);
    assert_string_not_equal(a.result.dir, b.result.dir);
    assert_int_equal(entries(), 2);
    rank_fini(&a);
    rank_fini(&b);
}

static int64_t allocations_left;
static bool gate(void)
{
    return allocations_left-- > 0;
}

/* Every allocation may fail: nothing leaks (the sanitizer builds say so), nothing stays on disk. */
static void no_memory_leaves_nothing(void **state)
{
    (void)state;
    struct rank rank;
    device_rank(&rank);
    make_all_kept(&rank.events);
    rank_join(&rank);
    const struct rs_export_options options = {
        .analysis = rank.analysis, .rows = rank.rows, .out_dir = folder, .base_ns = BASE};
    for (int64_t limit = 0;; limit++) {
        struct rs_err err = {0};
        struct rs_export_ascend *export = NULL;
        struct rs_export_result result = {0};
        assert_true(limit < 5000);
        allocations_left = limit;
        rs_mem_set_gate(gate);
        enum rs_status status = rs_export_ascend_open(&options, &rank.events.strings,
                                                      &rank.events.lanes, &export, &err);
        if (status == RS_OK)
            status = rs_export_ascend_add(export, &rank.events.batch, &err);
        if (status == RS_OK)
            status = rs_export_ascend_finish(export, &rank.events.info, &result, &err);
        rs_mem_set_gate(NULL);
        rs_export_ascend_free(&export);
        if (status == RS_OK) {
            rs_mem_free(result.dir);
            break;
        }
        assert_int_equal(status, RS_NOMEM);
        assert_int_equal(entries(), 0);
    }
    assert_int_equal(entries(), 1);
    rank_fini(&rank);
}

int main(void)
{
#define EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        EACH(tables_hold_what_the_rank_did),
        EACH(tables_exist_only_with_rows),
        EACH(tables_of_its_profiler_come_back),
        EACH(tables_of_a_stranger_cost_nothing_else),
        EACH(tables_of_text_are_asked_of_the_database),
        EACH(an_operation_of_two_kernels_keeps_its_gap),
        EACH(a_window_that_the_calls_do_not_report_is_bounded),
        EACH(an_unfinished_kernel_ends_with_the_recording),
        EACH(members_of_extra_are_found),
        EACH(a_native_rank_has_marks_steps_and_hops),
        EACH(counters_of_programs_and_hosts_are_curves),
        EACH(its_files_are_there),
        EACH(wild_times_are_written),
        EACH(nothing_remains_without_a_finish),
        EACH(two_recordings_of_one_moment_have_two_names),
        EACH(no_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
