/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every deliverable of a job that was joined by hand, compared as text.
 */
#include "common/base/file.h"
#include "tests/support/rs_test.h"
#include "tests/unit/aggregator_output/fixture.h"

#include <sqlite3.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The official hash of "dp@0-1,3", worked out apart from our code, and its last three digits. */
#define GROUP_HASH "8393583659006611163"
#define GROUP_LAST "163"

static struct fixture job;
static char folder[64];

static struct rs_buf slurp(const char *dir, const char *name)
{
    struct rs_buf buf = {0};
    struct rs_err err = {0};
    char *path = rs_file_join(dir, name);
    if (rs_file_read(path, (size_t)1 << 24, &buf, &err) != RS_OK)
        fail_msg("%s", err.text);
    rs_mem_free(path);
    (void)rs_buf_text(&buf);
    return buf;
}

static void assert_file(const char *name, const char *expected)
{
    struct rs_buf buf = slurp(folder, name);
    assert_string_equal(rs_buf_text(&buf), expected);
    rs_buf_fini(&buf);
}

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void write_into(const char *dir)
{
    struct rs_err err = {0};
    struct rs_output_file files[2];
    assert_ok(rs_output_file_of(&files[0], "/in/rank1.json", job.lent[1]));
    assert_ok(rs_output_file_init(&files[1], "/in/launcher.json", RS_OUTPUT_SKIPPED, "no events"));
    const struct rs_output_input input = {
        .analysis = &job.analysis, .files = files, .file_count = 2, .run = "r1"};
    if (rs_output_write(&input, dir, &err) != RS_OK)
        fail_msg("%s", err.text);
    rs_output_file_fini(&files[0]);
    rs_output_file_fini(&files[1]);
}

static void remove_dir(const char *dir)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf -- %s", dir);
    assert_int_equal(system(command), 0); /* NOLINT: a folder of our own making */
}

/* Rank 1 was recorded by a vendor's profiler, which has written about a step and an operation. */
static void say_something(struct rs_summary *summary)
{
    struct rs_provenance *vendor = summary->trace.vendor = rs_provenance_new();
    assert_non_null(vendor);
    vendor->framework = fixture_string(summary, "torch_npu");
    vendor->cann_version = fixture_string(summary, "8.3.RC1");
    vendor->steps = rs_mem_calloc(1, sizeof *vendor->steps);
    vendor->comms = rs_mem_calloc(1, sizeof *vendor->comms);
    assert_true(vendor->steps && vendor->comms);
    vendor->step_count = vendor->step_capacity = vendor->comm_count = vendor->comm_capacity = 1;
    vendor->steps[0] = (struct rs_vendor_step){.step = fixture_string(summary, "5"),
                                               .device = 2,
                                               .ps = {60250000, 1, -3000000, RS_VENDOR_UNKNOWN}};
    vendor->comms[0] =
        (struct rs_vendor_comm){.step = fixture_string(summary, "step5"),
                                .group = fixture_string(summary, "17"),
                                .name = fixture_string(summary, "hcom_allReduce__017_0_1"),
                                .start = FIXTURE_BASE + 1000,
                                .elapse = 8000000,
                                .transit = RS_VENDOR_UNKNOWN,
                                .wait = 1500000000};
}

static int setup(void **state)
{
    (void)state;
    fixture_init(&job);
    say_something(&job.summaries[1]);
    (void)snprintf(folder, sizeof folder, "/tmp/rs-output-XXXXXX");
    assert_non_null(mkdtemp(folder));
    write_into(folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    remove_dir(folder);
    fixture_fini(&job);
    return 0;
}

static void rank_breakdown_is_exact(void **state)
{
    (void)state;
    assert_file(
        "rank_breakdown.csv",
        "Rank,Device,Window(ns),Busy(ns),Idle(ns),Computing(ns),Communication(ns),Memory(ns),"
        "Overlapped(ns),ExposedCommunication(ns)\n"
        "0,0,100000,90000,10000,60000,40000,5000,15000,25000\n"
        "1,0,100000,90000,10000,60000,40000,5000,15000,25000\n");
}

static void step_trace_time_has_us_with_three_decimals(void **state)
{
    (void)state;
    assert_file(
        "step_trace_time.csv",
        "Rank,Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,"
        "Free,Stage,Bubble,Communication(Not Overlapped and Exclude Receive),Preparing,"
        "P2PWait\n"
        "0,0,5,60.000,15.000,25.000,40.000,0.000,65.000,10.000,5.000,5.000,0.000\n"
        "1,0,5,60.000,15.000,25.000,40.000,0.000,65.000,10.000,5.000,5.000,1.500\n"
        "1,0,6,0.000,0.000,0.000,0.000,0.000,-0.001,0.000,0.000,,0.000\n");
}

static void step_breakdown_adds_up(void **state)
{
    (void)state;
    assert_file("step_breakdown.csv",
                "Rank,Device,Step,Window(ns),Computing(ns),ExposedCommunication(ns),Memory(ns),"
                "IdleHead(ns),IdleInside(ns),IdleTail(ns)\n"
                "0,0,5,100000,60000,15000,0,5000,0,20000\n"
                "1,0,5,100000,60000,15000,0,5000,0,20000\n"
                "1,0,6,1000,0,0,0,1000,0,0\n");
}

static void collectives_leave_the_unknown_empty(void **state)
{
    (void)state;
    assert_file(
        "collectives.csv",
        "Step,Group,Op,Seq,OpId,Rank,Start(ns),End(ns),Bytes,Wait(ns),Transfer(ns),LastRank,RanksSeen,"
        "RanksExpected,Coverage\n"
        "5,\"dp@0-1,3\",all_reduce,0,0,0,1700000000000001000,1700000000000009000,4096000,3000,5000,1,2,"
        "3,exact\n"
        "5,\"dp@0-1,3\",all_reduce,0,0,1,1700000000000004000,1700000000000009001,4096000,0,5001,1,2,3,"
        "exact\n"
        "5,\"dp@0-1,3\",send,0,1,0,1700000000000020000,1700000000000030000,5000000,0,10000,0,2,2,exact\n"
        "5,\"dp@0-1,3\",recv,0,1,1,1700000000000018500,1700000000000030000,5000000,1500,10000,0,2,2,"
        "exact\n"
        "6,,all_reduce,,2,1,1700000000000100500,1700000000000101000,,0,,,1,,partial\n");
}

/* Other domains: no wait, no transfer, no sum of waits. */
static void what_crosses_clocks_stays_empty(void **state)
{
    (void)state;
    job.ops[1].has_wait = job.rows[2].has_wait = job.rows[3].has_wait = false;
    job.ops[1].last_rank = -1;
    write_into(folder);
    struct rs_buf buf = slurp(folder, "collectives.csv");
    assert_contains(rs_buf_text(&buf),
                    ",recv,0,1,1,1700000000000018500,1700000000000030000,5000000,,,,2,"
                    "2,exact\n");
    rs_buf_fini(&buf);
    buf = slurp(folder, "step_trace_time.csv");
    assert_contains(rs_buf_text(&buf),
                    "1,0,5,60.000,15.000,25.000,40.000,0.000,65.000,10.000,5.000,"
                    "5.000,\n");
    assert_contains(rs_buf_text(&buf), "-0.001,0.000,0.000,,0.000\n");
    rs_buf_fini(&buf);
    buf = slurp(folder, "communication.json");
    assert_contains(rs_buf_text(&buf), "\"Transit Time(ms)\":null,\"Wait Time(ms)\":null");
    rs_buf_fini(&buf);
}

static void communication_json_is_as_the_contract_draws_it(void **state)
{
    (void)state;
    struct rs_buf buf = slurp(folder, "communication.json");
    const char *text = rs_buf_text(&buf);
    assert_contains(text,
                    "{\"step5\":{\"p2p\":{\"send__" GROUP_LAST "_0_1@" GROUP_HASH "\":{\"0\":{"
                    "\"Communication Time Info\":{\"Start Timestamp(us)\":1700000000000020.000,"
                    "\"Elapse Time(ms)\":0.01,\"Transit Time(ms)\":0.01,\"Wait Time(ms)\":0,"
                    "\"Synchronization Time(ms)\":0,\"Idle Time(ms)\":0,\"Wait Time Ratio\":0,"
                    "\"Synchronization Time Ratio\":0},\"Communication Bandwidth Info\":{"
                    "\"UNKNOWN\":{\"Transit Size(MB)\":5,\"Transit Time(ms)\":0.01,"
                    "\"Bandwidth(GB/s)\":500,\"Large Packet Ratio\":0,"
                    "\"Size Distribution\":{\"5\":[1,0.01]}}}}},\"recv__");
    assert_contains(text, "\"Wait Time Ratio\":0.1304"); /* 1500 / 11500 */
    assert_contains(text,
                    "\"collective\":{\"all_reduce__" GROUP_LAST "_0_1@" GROUP_HASH "\":{\"0\":");
    /* rank 1 sent 2 MB in 500 ns of hops and received as much: what it sent counts */
    assert_contains(text, "\"TCP\":{\"Transit Size(MB)\":2,\"Transit Time(ms)\":0.0005,"
                          "\"Bandwidth(GB/s)\":4000");
    assert_contains(text, "\"Total Op Info\":{\"0\":{\"Communication Time Info\":{"
                          "\"Elapse Time(ms)\":0.008");
    /* unmatched, unfinished: no seq, no group, no transfer, no bytes */
    assert_contains(text,
                    "\"step6\":{\"p2p\":{},\"collective\":{\"all_reduce__0_-1_1@0\":{\"1\":{");
    assert_contains(text, "\"Transit Time(ms)\":null,\"Wait Time(ms)\":0,");
    assert_contains(text, "\"Communication Bandwidth Info\":{}}}");
    rs_buf_fini(&buf);
}

static void matrix_counts_each_hop_once(void **state)
{
    (void)state;
    struct rs_buf buf = slurp(folder, "communication_matrix.json");
    const char *text = rs_buf_text(&buf);
    /* 0 -> 1 from both ends (the receiver's 4 us count), 1 -> 0 from one end only: no time */
    assert_contains(text, "\"collective\":{\"allreduce-top1@" GROUP_HASH "\":{"
                          "\"0-1\":{\"Transport Type\":\"TCP\",\"Transit Size(MB)\":2,"
                          "\"Transit Time(ms)\":0.004,\"Bandwidth(GB/s)\":500,"
                          "\"Op Name\":\"all_reduce__" GROUP_LAST "_0_1\"},"
                          "\"1-0\":{\"Transport Type\":\"TCP\",\"Transit Size(MB)\":2,"
                          "\"Transit Time(ms)\":null,\"Bandwidth(GB/s)\":null,");
    assert_contains(text,
                    "\"allreduce-total@" GROUP_HASH "\":{\"0-1\":{\"Transport Type\":\"TCP\","
                    "\"Transit Size(MB)\":2,\"Transit Time(ms)\":0.004,\"Bandwidth(GB/s)\":500}");
    assert_contains(text, "\"p2p\":{\"send-top1@" GROUP_HASH "\":{\"0-1\":{");
    assert_null(strstr(text, "bottom2"));
    rs_buf_fini(&buf);
}

static void query(const char *sql, char *text, size_t size)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    char *path = rs_file_join(folder, "analysis.db");
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    rs_mem_free(path);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    size_t used = 0;
    text[0] = '\0';
    while (sqlite3_step(statement) == SQLITE_ROW) {
        for (int c = 0; c < sqlite3_column_count(statement); c++) {
            const unsigned char *cell = sqlite3_column_text(statement, c);
            used += (size_t)snprintf(text + used, size - used, "%s%s", c ? "," : "",
                                     cell ? (const char *)cell : "NULL");
        }
        used += (size_t)snprintf(text + used, size - used, "\n");
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static void database_has_the_official_columns_then_rank_id(void **state)
{
    (void)state;
    char text[2048];
    query("SELECT group_concat(name) FROM (SELECT name FROM pragma_table_info('StepTraceTime'))",
          text, sizeof text);
    assert_string_equal(text,
                        "deviceId,step,computing,communication_not_overlapped,overlapped,"
                        "communication,free,stage,bubble,"
                        "communication_not_overlapped_and_exclude_receive,preparing,rank_id\n");
    query("SELECT group_concat(name) FROM pragma_table_info('CommAnalyzerTime')", text,
          sizeof text);
    assert_string_equal(text, "hccl_op_name,group_name,start_timestamp,elapse_time,transit_time,"
                              "wait_time,synchronization_time,idle_time,step,type,rank_id\n");
    query("SELECT group_concat(name) FROM pragma_table_info('CommAnalyzerBandwidth')", text,
          sizeof text);
    assert_string_equal(text, "hccl_op_name,group_name,transport_type,transit_size,transit_time,"
                              "bandwidth,large_packet_ratio,package_size,count,total_duration,step,"
                              "type,rank_id\n");
    query("SELECT group_concat(name) FROM pragma_table_info('CommAnalyzerMatrix')", text,
          sizeof text);
    assert_string_equal(text,
                        "hccl_op_name,group_name,src_rank,dst_rank,transport_type,transit_size,"
                        "transit_time,bandwidth,step,type,op_name,rank_id\n");
}

static void database_rows_have_official_units(void **state)
{
    (void)state;
    char text[4096];
    query("SELECT * FROM StepTraceTime WHERE rank_id = 1", text, sizeof text);
    assert_string_equal(text, "0,5,60,15,25,40,0,65,10,5,5,1\n0,6,0,0,0,0,0,-0.001,0,0,NULL,1\n");
    query("SELECT hccl_op_name, group_name, elapse_time, transit_time, wait_time, "
          "synchronization_time, idle_time, step, type, rank_id FROM CommAnalyzerTime",
          text, sizeof text);
    assert_string_equal(
        text,
        "send__" GROUP_LAST "_0_1," GROUP_HASH ",0.01,0.01,0,0,0,step5,p2p,0\n"
        "recv__" GROUP_LAST "_0_1," GROUP_HASH ",0.0115,0.01,0.0015,0.0015,0,step5,p2p,1\n"
        "all_reduce__" GROUP_LAST "_0_1," GROUP_HASH
        ",0.008,0.005,0.003,0.003,0,step5,collective,0\n"
        "all_reduce__" GROUP_LAST "_0_1," GROUP_HASH ",0.005001,0.005001,0,0,0,step5,collective,1\n"
        "all_reduce__0_-1_1,0,0.0005,NULL,0,0,0,step6,collective,1\n");
    query("SELECT * FROM Collective", text, sizeof text);
    assert_string_equal(text, "0,5,dp@0-1,3,all_reduce,0,1,4096000,1,2,3,exact,1700000000000001000,"
                              "1700000000000009001,3000,10001\n"
                              "1,5,dp@0-1,3,send,0,1,5000000,0,2,2,exact,1700000000000018500,"
                              "1700000000000030000,1500,20000\n"
                              "2,6,,all_reduce,NULL,0,NULL,NULL,1,NULL,partial,1700000000000100500,"
                              "1700000000000101000,0,NULL\n");
    /* rank 1 has vendor's rows of before the digits were kept: nothing to show, so ours stand */
    query("SELECT * FROM DerivedStepTraceTime", text, sizeof text);
    assert_string_equal(text, "");
    query("SELECT framework, framework_version, cann_version FROM RankManifest", text, sizeof text);
    assert_string_equal(text, "torch_npu,NULL,8.3.RC1\nNULL,NULL,NULL\n");
    query("SELECT rank_id, path, state, reason, dropped FROM RankManifest", text, sizeof text);
    assert_string_equal(text, "1,/in/rank1.json,partial,cut at byte 999,7\n"
                              "NULL,/in/launcher.json,skipped,no events,NULL\n");
}

static void manifest_vouches_for_every_deliverable(void **state)
{
    (void)state;
    struct rs_buf buf = slurp(folder, "manifest.json");
    static const char *const names[] = {
        "rank_breakdown.csv", "step_trace_time.csv", "step_breakdown.csv",
        "collectives.csv",    "communication.json",  "communication_matrix.json",
        "report.json",        "report.md",           "report.html",
        "analysis.db",        "clock.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_contains(rs_buf_text(&buf), names[i]);
    assert_contains(rs_buf_text(&buf), "\"reason\": \"no events\"");
    assert_contains(rs_buf_text(&buf), "\"no duration\": 7");
    assert_contains(rs_buf_text(&buf), "\"framework\": \"torch_npu\"");
    assert_contains(rs_buf_text(&buf), "\"framework_version\": null");
    assert_contains(rs_buf_text(&buf), "\"cann_version\": \"8.3.RC1\"");
    rs_buf_fini(&buf);
}

/* ---- the vendor's documents -------------------------------------------------------------------- */

/* What the vendor wrote of rank 1: digits of all sorts, unknown ones, one that is no number, a link within a group. */
static void say_digits(struct rs_summary *summary)
{
    static const char *const step[RS_VENDOR_STEP_FIELDS] = {
        "60.2500000000001", "0", "2e-05", NULL, "1,\"x\":2", "NaN", "-3", "0.0", "7"};
    static const char *const times[RS_VENDOR_TIMES] = {"1.5e+15", "8", "0.1", NULL,
                                                       "0",       "0", "0.5"};
    struct rs_provenance *vendor = summary->trace.vendor;
    for (size_t i = 0; i < RS_VENDOR_STEP_FIELDS; i++)
        vendor->steps[0].digits[i] = step[i] ? fixture_string(summary, step[i]) : RS_STR_NONE;
    for (size_t i = 0; i < RS_VENDOR_TIMES; i++)
        vendor->comms[0].digits[i] = times[i] ? fixture_string(summary, times[i]) : RS_STR_NONE;
    vendor->comms[0].band_count = 3;
    vendor->bands = rs_mem_calloc(3, sizeof *vendor->bands);
    vendor->links = rs_mem_calloc(2, sizeof *vendor->links);
    assert_true(vendor->bands && vendor->links);
    vendor->band_count = vendor->band_capacity = 3;
    vendor->link_count = vendor->link_capacity = 2;
    const rs_str hccs = fixture_string(summary, "HCCS"), sdma = fixture_string(summary, "SDMA"),
                 one = fixture_string(summary, "1"), two = fixture_string(summary, "2.50"),
                 zero = fixture_string(summary, "0");
    vendor->bands[0] = (struct rs_vendor_band){
        .transport = hccs, .fields = {one, two, one, zero}, .package = {one, one, two}};
    vendor->bands[1] = (struct rs_vendor_band){
        .transport = hccs, .fields = {one, two, one, zero}, .package = {two, one, one}};
    vendor->bands[2] = (struct rs_vendor_band){.transport = sdma,
                                               .fields = {zero, zero, zero, zero},
                                               .package = {RS_STR_NONE, RS_STR_NONE, RS_STR_NONE}};
    for (int i = 0; i < 2; i++)
        vendor->links[i] =
            (struct rs_vendor_link){.step = fixture_string(summary, "step5"),
                                    .group = fixture_string(summary, "17"),
                                    .kind = fixture_string(summary, "allreduce-top1"),
                                    .transport = hccs,
                                    .op_name = RS_STR_NONE,
                                    .src = 0,
                                    .dst = i,
                                    .global_src = -1,
                                    .global_dst = -1,
                                    .fields = {one, two, RS_STR_NONE}};
}

static void official_tables_show_the_vendors_rows(void **state)
{
    (void)state;
    char text[4096];
    say_digits(&job.summaries[1]);
    write_into(folder);
    struct rs_buf buf = slurp(folder, "step_trace_time.csv");
    assert_contains(rs_buf_text(&buf), "0,0,5,60.000,15.000,25.000,");
    assert_contains(rs_buf_text(&buf),
                    "1,2,5,60.2500000000001,0.000,2e-05,,,,-3.000,0.000,7.000,1.500\n");
    assert_null(strstr(rs_buf_text(&buf), "1,0,6,")); /* ours of a rank with its own document */
    rs_buf_fini(&buf);
    query("SELECT * FROM StepTraceTime WHERE rank_id = 1", text, sizeof text);
    assert_string_equal(text, "2,5,60.2500000000001,0,2.0e-05,NULL,NULL,NULL,-3,0,7,1\n");
    query("SELECT step, rank_id FROM DerivedStepTraceTime", text, sizeof text);
    assert_string_equal(text, "5,1\n6,1\n");
    query("SELECT count(*), min(rank_id), max(rank_id) FROM DerivedCommTime", text, sizeof text);
    assert_string_equal(text, "3,1,1\n");
    query("SELECT * FROM CommAnalyzerTime WHERE rank_id = 1", text, sizeof text);
    assert_string_equal(
        text, "hcom_allReduce__017_0_1,17,1500000000000000,8,0.1,NULL,0,0,step5,collective,1\n");
    query("SELECT * FROM CommAnalyzerBandwidth WHERE rank_id = 1", text, sizeof text);
    assert_string_equal(text,
                        "hcom_allReduce__017_0_1,17,HCCS,1,2.5,1,0,1,1,2.5,step5,collective,1\n"
                        "hcom_allReduce__017_0_1,17,HCCS,1,2.5,1,0,2.5,1,1,step5,collective,1\n");
    query("SELECT * FROM CommAnalyzerMatrix WHERE rank_id = 1", text, sizeof text);
    /* 0-0 in the file of rank 1: place 0 of this group is rank 1; nobody says who place 1 is */
    assert_string_equal(text, "allreduce-top1,17,1,1,HCCS,1,2.5,NULL,step5,collective,,1\n"
                              "allreduce-top1,17,1,?1,HCCS,1,2.5,NULL,step5,collective,,1\n");
    buf = slurp(folder, "communication.json");
    assert_contains(rs_buf_text(&buf),
                    "\"hcom_allReduce__017_0_1@17\":{\"1\":{\"Communication Time Info\":{\"Start "
                    "Timestamp(us)\":1.5e+15,\"Elapse Time(ms)\":8,\"Transit Time(ms)\":0.1,\"Wait "
                    "Time(ms)\":null,");
    assert_contains(
        rs_buf_text(&buf),
        "\"HCCS\":{\"Transit Size(MB)\":1,\"Transit Time(ms)\":2.50,\"Bandwidth(GB/s)\":1,"
        "\"Large Packet Ratio\":0,\"Size Distribution\":{\"1\":[1,2.50],\"2.50\":[1,1]}},"
        "\"SDMA\":{");
    assert_null(strstr(rs_buf_text(&buf), "recv__"));          /* ours of rank 1 */
    assert_contains(rs_buf_text(&buf), "\"send__" GROUP_LAST); /* of rank 0, who has no document */
    rs_buf_fini(&buf);
}

static void same_input_gives_the_same_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {
        "rank_breakdown.csv", "collectives.csv", "communication.json", "communication_matrix.json",
        "report.json",        "report.md",       "report.html",        "analysis.db",
        "manifest.json"};
    char second[] = "/tmp/rs-output-XXXXXX";
    assert_non_null(mkdtemp(second));
    write_into(second);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct rs_buf a = slurp(folder, names[i]), b = slurp(second, names[i]);
        assert_int_equal(a.length, b.length);
        assert_memory_equal(a.data, b.data, a.length);
        rs_buf_fini(&a);
        rs_buf_fini(&b);
    }
    remove_dir(second);
}

static void other_files_in_the_folder_are_left_alone(void **state)
{
    (void)state;
    struct rs_err err = {0};
    char *path = rs_file_join(folder, "notes.txt");
    assert_ok(rs_file_replace(path, "mine", 4, false, &err));
    write_into(folder);
    assert_file("notes.txt", "mine");
    rs_mem_free(path);
}

static void a_folder_that_cannot_be_made_is_an_error(void **state)
{
    (void)state;
    struct rs_err err = {0};
    char *path = rs_file_join(folder, "report.md");
    const struct rs_output_input input = {.analysis = &job.analysis};
    assert_status(rs_output_write(&input, path, &err), RS_IO);
    assert_contains(err.text, "report.md");
    rs_mem_free(path);
}

static void text_report(char *text, size_t size, struct rs_output_style style)
{
    struct rs_buf buf = {0};
    assert_ok(rs_output_report_text(&job.analysis, style, &buf, NULL));
    (void)snprintf(text, size, "%s", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

static void the_first_lines_name_the_culprit(void **state)
{
    (void)state;
    char text[16384];
    text_report(text, sizeof text, (struct rs_output_style){.width = 96});
    const char *culprit = strstr(text, "Rank 1 is slow");
    assert_non_null(culprit);
    assert_true(culprit - text < 200);
    assert_contains(text, "the same work takes 1.70 times as long as on its peers.");
    assert_contains(text, "Fixing it saves 3.00 us per step (2.90 us to 3.10 us), 3.0 % of a step");
    assert_contains(text, "Rank 1: own work of 8.01 ms a step, 4.71 ms on its healthy peers.");
    assert_contains(text, "1 of 3 ranks were not seen: 2.");
    assert_contains(text, "0 -> 1");
    assert_contains(text, "0.500 GB/s");
    assert_null(strchr(text, '\033'));
    for (const char *p = text; *p; p++)
        assert_true((unsigned char)*p < 0x80);
}

static void no_line_is_wider_than_asked_for(void **state)
{
    (void)state;
    char text[32768];
    for (unsigned width = 60; width <= 100; width += 10) {
        text_report(text, sizeof text, (struct rs_output_style){.width = width});
        for (char *line = text, *end; *line; line = end + 1) {
            end = strchr(line, '\n');
            assert_non_null(end);
            assert_true((size_t)(end - line) <= width);
        }
    }
}

static void colours_come_only_when_asked_for(void **state)
{
    (void)state;
    char text[32768];
    text_report(text, sizeof text,
                (struct rs_output_style){.width = 96, .has_colour = true, .has_utf8 = true});
    assert_contains(text, "\033[1;31m");
    assert_contains(text, "\xe2\x96\x88");
}

static void a_strangers_name_cannot_steer_the_terminal(void **state)
{
    (void)state;
    char text[32768];
    char evil[] = "host\033[2Jx\xc2\x9b|";
    job.places[0].kind = RS_PLACE_HOST;
    job.places[0].text = evil;
    text_report(text, sizeof text, (struct rs_output_style){.width = 96});
    assert_null(strchr(text, '\033'));
    assert_contains(text, "Host host?[2Jx??|");
    struct rs_buf buf = {0};
    assert_ok(rs_output_report_markdown(&job.analysis, &buf, NULL));
    assert_contains(rs_buf_text(&buf), "host?\\[2Jx??\\|");
    rs_buf_fini(&buf);
}

/* All of them, or how many more there are. */
static void findings_name_every_rank(void **state)
{
    (void)state;
    enum { MANY = 300 };
    static struct rs_place places[MANY];
    for (int32_t apart = 1; apart <= 2; apart++) {
        char text[32768];
        for (int32_t i = 0; i < MANY; i++) {
            places[i] = job.places[0];
            places[i].kind = RS_PLACE_RANK;
            places[i].rank = 1000 + i * apart;
        }
        job.findings[0].places = places;
        job.findings[0].place_count = MANY;
        text_report(text, sizeof text, (struct rs_output_style){.width = 2000});
        assert_contains(text, apart == 1 ? "Ranks 1000-1299 are slow" : "1124,1126 and 236 more");
    }
    fixture_fini(&job);
    fixture_init(&job);
}

/* Compared with what comes to one in the middle, and where nothing comes to that one; measured or not. */
static void a_load_is_told_in_words(void **state)
{
    (void)state;
    static const struct {
        int64_t usual;
        double factor;
        const char *says;
    } cases[] = {{1000, 1.25, "brings it 2.00 times as much; that takes 1.25 times as long"},
                 {0, 1.25, "brings it data, and most of the others none; that takes 1.25 times"},
                 {1000, 1, "brings it 2.00 times as much; that takes longer"}};
    for (size_t i = 0; i < 3; i++) {
        char name[] = "all_to_all";
        struct rs_evidence load = {.what = RS_EVIDENCE_LOAD,
                                   .rank = RS_NULL,
                                   .group = UINT32_MAX,
                                   .step = RS_NULL,
                                   .bytes = RS_NULL,
                                   .name = name,
                                   .value = 2000,
                                   .reference = cases[i].usual};
        struct rs_finding finding = job.findings[0];
        struct rs_buf buf = {0};
        finding.kind = RS_FINDING_IMBALANCE;
        finding.place_count = 1;
        finding.test.factor = cases[i].factor;
        finding.evidence = &load;
        finding.evidence_count = 1;
        rs_output_finding_line(&finding, &buf);
        assert_contains(rs_buf_text(&buf), cases[i].says);
        assert_null(strstr(rs_buf_text(&buf), "longer as long"));
        rs_buf_fini(&buf);
    }
}

/* Nobody can take the work away from a stage that has more of it. */
static void a_stage_with_more_to_do_is_not_fixed(void **state)
{
    (void)state;
    char text[16384];
    struct rs_finding *finding = &job.findings[0];
    const struct rs_finding before = *finding;
    struct rs_place stage = {.kind = RS_PLACE_STAGE, .stage = 1};
    finding->kind = RS_FINDING_IMBALANCE;
    finding->places = &stage;
    finding->place_count = 1;
    text_report(text, sizeof text, (struct rs_output_style){.width = 500});
    *finding = before;
    assert_contains(text, "Pipeline stage 1 has more to do than the rest of the pipeline.");
    assert_contains(text, "With no more to do than the others it would save 3.00 us per step");
}

/* A rank whose recording is cut has peers; it is its steps that are missing. */
static void why_a_rank_was_not_judged_is_said(void **state)
{
    (void)state;
    char text[16384];
    struct rs_unjudged unjudged[] = {{0, UINT32_MAX, RS_UNJUDGED_NO_PEERS},
                                     {1, UINT32_MAX, RS_UNJUDGED_NO_STEPS}};
    struct rs_unjudged *before = job.diagnosis.unjudged;
    const size_t count = job.diagnosis.unjudged_count;
    job.diagnosis.unjudged = unjudged;
    job.diagnosis.unjudged_count = 2;
    text_report(text, sizeof text, (struct rs_output_style){.width = 500});
    job.diagnosis.unjudged = before;
    job.diagnosis.unjudged_count = count;
    assert_contains(text, "since nobody does the same work beside them: rank 0.");
    assert_contains(text, "since no step of their recording is complete: rank 1.");
}

/* Of many links the first few; the host that they are all of says the rest. */
static void links_of_a_host_are_told_in_short(void **state)
{
    (void)state;
    char host[] = "n3";
    struct rs_place links[6], also = {.kind = RS_PLACE_HOST, .text = host};
    struct rs_finding finding = job.findings[0];
    struct rs_buf buf = {0};
    for (int32_t i = 0; i < 6; i++) {
        links[i] = (struct rs_place){.kind = RS_PLACE_PAIR, .src = i, .dst = i + 8};
    }
    finding.kind = RS_FINDING_SLOW_LINK;
    finding.places = links;
    finding.place_count = 6;
    finding.also = &also;
    finding.also_count = 1;
    rs_output_finding_line(&finding, &buf);
    assert_contains(rs_buf_text(&buf), "the link between ranks 3 and 11 and 2 more");
    assert_contains(rs_buf_text(&buf), "(all the links of host n3)");
    assert_null(strstr(rs_buf_text(&buf), "ranks 4 and 12"));
    rs_buf_fini(&buf);
}

static void without_findings_the_reason_stands_first(void **state)
{
    (void)state;
    char text[16384];
    const char *reason = "Nobody stands out of 2 ranks that could be judged, in 1 complete step.";
    job.diagnosis.finding_count = 0;
    job.diagnosis.silence = RS_SILENCE_NOTHING;
    text_report(text, sizeof text, (struct rs_output_style){.width = 96});
    assert_contains(text, "NOBODY IS NAMED\n  Nobody stands out of 2 ranks");
    struct rs_buf buf = {0};
    assert_ok(rs_output_report_json(&job.analysis, &buf, NULL));
    assert_contains(rs_buf_text(&buf), "\"findings\": []");
    assert_contains(rs_buf_text(&buf), reason);
    rs_buf_fini(&buf);
    fixture_fini(&job);
    fixture_init(&job);
}

/* A cost that a replay does not see is none, unless it does not see much. */
static void a_small_cost_is_not_known_where_little_is_explained(void **state)
{
    (void)state;
    char text[16384];
    job.diagnosis.not_worth_fixing = job.diagnosis.findings;
    job.diagnosis.not_worth_count = 1;
    job.diagnosis.finding_count = 0;
    job.diagnosis.silence = RS_SILENCE_NOTHING;
    job.diagnosis.replay.unexplained_share = 0.2;
    text_report(text, sizeof text, (struct rs_output_style){.width = 500});
    assert_contains(text, "NOBODY IS WORTH FIXING");
    assert_contains(text, "nobody is worth fixing.");
    assert_contains(text, "not worth it.");
    job.diagnosis.replay.unexplained_share = 0.61;
    text_report(text, sizeof text, (struct rs_output_style){.width = 500});
    assert_contains(text, "NOBODY IS NAMED");
    assert_contains(text, "is not known, since 61 % of the critical path is unexplained.");
    assert_contains(text, "what fixing that brings is not known.");
    assert_null(strstr(text, "worth"));
    job.diagnosis.replay.unexplained_share = 0.01;
    job.diagnosis.lost_ops = 3;
    text_report(text, sizeof text, (struct rs_output_style){.width = 500});
    assert_contains(text, "is not known, since rows of ranks are missing in 3 operations.");
    assert_null(strstr(text, "worth"));
    job.diagnosis.not_worth_fixing = NULL;
    job.diagnosis.not_worth_count = 0;
    fixture_fini(&job);
    fixture_init(&job);
}

/* Of the rank where it took longest; a time before the recording's end is none. */
static void what_the_recording_cost_is_said_where_it_is_known(void **state)
{
    (void)state;
    char text[16384];
    struct rs_buf buf = {0};
    struct rs_summary *first = &job.summaries[0], *second = &job.summaries[1];
    text_report(text, sizeof text, (struct rs_output_style){.width = 500});
    assert_null(strstr(text, "Recording took up to"));
    assert_ok(rs_output_report_json(&job.analysis, &buf, NULL));
    assert_null(strstr(rs_buf_text(&buf), "\"recording\""));
    first->span_start = FIXTURE_BASE;
    first->span_end = FIXTURE_BASE + 3 * (rs_dur)RS_NS_PER_S;
    second->span_start = FIXTURE_BASE;
    second->span_end = FIXTURE_BASE + 2 * (rs_dur)RS_NS_PER_S;
    first->trace.written_ns = first->span_end + 4 * (rs_dur)RS_NS_PER_S;
    second->trace.written_ns = second->span_end + 7 * (rs_dur)RS_NS_PER_S;
    job.analysis.recording =
        rs_analysis_recording(job.analysis.summaries, job.analysis.summary_count);
    text_report(text, sizeof text, (struct rs_output_style){.width = 500});
    assert_contains(text, "Recording took up to 9.00 s,");
    assert_contains(text, "2.00 s were recorded, and the profile was written to its end 7.00 s "
                          "later (rank 1; known of 2 ranks).");
    rs_buf_reset(&buf);
    assert_ok(rs_output_report_json(&job.analysis, &buf, NULL));
    assert_contains(rs_buf_text(&buf), "\"longest_on_rank\": 1,");
    assert_contains(rs_buf_text(&buf), "\"recorded_ns\": 2000000000,");
    assert_contains(rs_buf_text(&buf), "\"writing_ns\": 7000000000");
    second->trace.written_ns = second->span_end - 1;
    job.analysis.recording =
        rs_analysis_recording(job.analysis.summaries, job.analysis.summary_count);
    text_report(text, sizeof text, (struct rs_output_style){.width = 500});
    assert_contains(text, "(rank 0; known of 1 rank).");
    rs_buf_fini(&buf);
    fixture_fini(&job);
    fixture_init(&job);
}

static void report_json_has_what_the_contract_names(void **state)
{
    (void)state;
    struct rs_buf buf = slurp(folder, "report.json");
    static const char *const parts[] = {
        "\"schema_version\": 1",
        "\"ranks_seen\": 2",
        "\"ranks_expected\": 3",
        "\"steps\": 2",
        "\"events\": 201",
        "\"dropped\": 7",
        "\"where\": {",
        "\"cost_ns_per_step\": 3000",
        "\"share\": 0.03",
        "\"confidence\": \"exact\"",
        "\"no_finding_because\": null",
        "\"exposed_communication_ns\": 15000",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_contains(rs_buf_text(&buf), parts[i]);
    rs_buf_fini(&buf);
}

static void two_operations_of_one_name_on_one_rank_are_told_apart(void **state)
{
    (void)state;
    /* A second pair with the same seq: rank 0 sends twice, so its second send is number 2. */
    struct rs_job_op ops[4] = {job.ops[0], job.ops[1], job.ops[1], job.ops[2]};
    job.analysis.ops = ops;
    job.analysis.op_count = 4;
    write_into(folder);
    struct rs_buf buf = slurp(folder, "communication.json");
    assert_contains(rs_buf_text(&buf), "\"send__" GROUP_LAST "_0_1@" GROUP_HASH "\"");
    assert_contains(rs_buf_text(&buf), "\"send__" GROUP_LAST "_0_2@" GROUP_HASH "\"");
    rs_buf_fini(&buf);
}

int main(void)
{
#define EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        EACH(rank_breakdown_is_exact),
        EACH(step_trace_time_has_us_with_three_decimals),
        EACH(step_breakdown_adds_up),
        EACH(collectives_leave_the_unknown_empty),
        EACH(what_crosses_clocks_stays_empty),
        EACH(communication_json_is_as_the_contract_draws_it),
        EACH(matrix_counts_each_hop_once),
        EACH(database_has_the_official_columns_then_rank_id),
        EACH(database_rows_have_official_units),
        EACH(manifest_vouches_for_every_deliverable),
        EACH(official_tables_show_the_vendors_rows),
        EACH(same_input_gives_the_same_bytes),
        EACH(other_files_in_the_folder_are_left_alone),
        EACH(a_folder_that_cannot_be_made_is_an_error),
        EACH(the_first_lines_name_the_culprit),
        EACH(no_line_is_wider_than_asked_for),
        EACH(colours_come_only_when_asked_for),
        EACH(a_strangers_name_cannot_steer_the_terminal),
        EACH(findings_name_every_rank),
        EACH(a_load_is_told_in_words),
        EACH(without_findings_the_reason_stands_first),
        EACH(a_stage_with_more_to_do_is_not_fixed),
        EACH(links_of_a_host_are_told_in_short),
        EACH(why_a_rank_was_not_judged_is_said),
        EACH(a_small_cost_is_not_known_where_little_is_explained),
        EACH(what_the_recording_cost_is_said_where_it_is_known),
        EACH(report_json_has_what_the_contract_names),
        EACH(two_operations_of_one_name_on_one_rank_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
