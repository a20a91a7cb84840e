/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bandwidth as nccl-tests defines it, against figures worked out by hand; a rank's files in the vendor's shape; and the
 * steps that documents share.
 */
#include "aggregator/analysis/rows.h"
#include "aggregator/output/output_priv.h"
#include "aggregator/output/rank.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"
#include "tests/unit/aggregator_output/fixture.h"

#include <sqlite3.h>

#include <stdio.h>
#include <stdlib.h>

/* ---- one operation of n ranks, all there ---- */

enum { RANKS_MAX = 8 };
struct rig {
    struct rs_summary summaries[RANKS_MAX];
    const struct rs_summary *lent[RANKS_MAX];
    struct rs_comm_op ops[RANKS_MAX];
    struct rs_job_row rows[RANKS_MAX];
    struct rs_job_rank ranks[RANKS_MAX];
    struct rs_job_op op;
    struct rs_analysis analysis;
};

static void rig_init(struct rig *rig, enum rs_op_type type, uint32_t ranks, int64_t bytes,
                     rs_dur time)
{
    *rig = (struct rig){.op = {.type = (uint8_t)type,
                               .is_matched = true,
                               .ranks_expected = ranks,
                               .coverage = RS_COVERAGE_EXACT,
                               .group = RS_NO_GROUP,
                               .has_wait = true,
                               .row_count = ranks}};
    for (uint32_t i = 0; i < ranks; i++) {
        rig->ops[i] = (struct rs_comm_op){.type = (uint8_t)type,
                                          .bytes = bytes,
                                          .root = -1,
                                          .start = 1000000,
                                          .end = 1000000 + time,
                                          .transport = RS_STR_NONE,
                                          .op_text = RS_STR_NONE};
        rig->summaries[i] = (struct rs_summary){
            .trace = {.rank = (int32_t)i, .host = RS_STR_NONE, .partial_reason = RS_STR_NONE},
            .ops = &rig->ops[i],
            .op_count = 1};
        rig->ranks[i] = (struct rs_job_rank){.rank = (int32_t)i, .summary = i, .takes_part = true};
        rig->lent[i] = &rig->summaries[i];
        rig->rows[i] = (struct rs_job_row){.summary = i,
                                           .has_wait = true,
                                           .rank = (int32_t)i,
                                           .transfer = time - (rs_dur)i, /* the longest counts */
                                           .has_transfer = true};
    }
    rig->analysis = (struct rs_analysis){.summaries = rig->lent,
                                         .summary_count = ranks,
                                         .ranks = rig->ranks,
                                         .ops = &rig->op,
                                         .op_count = 1,
                                         .rows = rig->rows,
                                         .row_count = ranks};
}

static void assert_bus(enum rs_op_type type, uint32_t ranks, const char *expected)
{
    struct rig rig;
    char text[UNIT_TEXT_BYTES];
    rig_init(&rig, type, ranks, 8000000, 400000);
    const struct op_bandwidth band = op_bandwidth_of(&rig.analysis, &rig.op);
    assert_int_equal(band.bytes, 8000000);
    assert_int_equal(band.time, 400000);
    assert_string_equal(band.transport, "UNKNOWN");
    assert_true(op_bandwidth_has_bus(&band));
    op_bandwidth_bus(text, &band);
    assert_string_equal(text, expected);
}

/* 8,000,000 bytes in 400 us: 20 GB/s. */
static void the_factors_are_those_of_nccl_tests(void **state)
{
    (void)state;
    assert_bus(RS_OP_ALL_REDUCE, 4, "30");
    assert_bus(RS_OP_ALL_REDUCE, 2, "20");
    assert_bus(RS_OP_ALL_REDUCE, 8, "35");
    assert_bus(RS_OP_ALL_GATHER, 4, "15");
    assert_bus(RS_OP_REDUCE_SCATTER, 4, "15");
    assert_bus(RS_OP_ALL_TO_ALL, 8, "17.5");
    assert_bus(RS_OP_GATHER, 4, "15");
    assert_bus(RS_OP_SCATTER, 4, "15");
    assert_bus(RS_OP_BROADCAST, 4, "20");
    assert_bus(RS_OP_REDUCE, 4, "20");
    assert_bus(RS_OP_SEND, 2, "20");
    assert_bus(RS_OP_SEND_RECV, 2, "20");
    assert_bus(RS_OP_ALL_REDUCE, 3, "26.6666667");
}

static void what_is_not_known_gives_no_bandwidth(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, RS_OP_BARRIER, 4, 8000000, 400000);
    struct op_bandwidth band = op_bandwidth_of(&rig.analysis, &rig.op);
    assert_false(op_bandwidth_has_bus(&band));
    rig_init(&rig, RS_OP_ALL_REDUCE, 4, -1, 400000);
    band = op_bandwidth_of(&rig.analysis, &rig.op);
    assert_false(op_bandwidth_has_bus(&band));
    rig_init(&rig, RS_OP_ALL_REDUCE, 4, 8000000, 400000);
    rig.rows[2].has_transfer = false; /* an unfinished kernel */
    band = op_bandwidth_of(&rig.analysis, &rig.op);
    assert_int_equal(band.time, 0);
    assert_false(op_bandwidth_has_bus(&band));
    rig_init(&rig, RS_OP_ALL_REDUCE, 4, 8000000, 400000);
    rig.op.ranks_expected = -1;
    band = op_bandwidth_of(&rig.analysis, &rig.op);
    assert_false(op_bandwidth_has_bus(&band));
    rig.op.has_wait = false; /* several clocks */
    band = op_bandwidth_of(&rig.analysis, &rig.op);
    assert_int_equal(band.time, 0);
}

static void a_transport_is_named_only_when_it_is_known(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, RS_OP_ALL_REDUCE, 2, 8000000, 400000);
    for (int i = 0; i < 2; i++)
        assert_ok(rs_strtab_init(&rig.summaries[i].strings, 0));
    rig.ops[0].transport = fixture_string(&rig.summaries[0], "NVLINK");
    assert_string_equal(op_bandwidth_of(&rig.analysis, &rig.op).transport, "NVLINK");
    rig.ops[1].transport = fixture_string(&rig.summaries[1], "NVLINK");
    assert_string_equal(op_bandwidth_of(&rig.analysis, &rig.op).transport, "NVLINK");
    rig.ops[1].transport = fixture_string(&rig.summaries[1], "NET");
    assert_string_equal(op_bandwidth_of(&rig.analysis, &rig.op).transport, "SEVERAL");
    for (int i = 0; i < 2; i++)
        rs_strtab_fini(&rig.summaries[i].strings);
}

/* ---- links that nobody recorded ---- */

struct links {
    char text[1024];
    size_t used;
};

static enum rs_status note_link(void *self, const struct link_estimate *link, struct rs_err *err)
{
    struct links *links = self;
    (void)err;
    links->used +=
        (size_t)snprintf(links->text + links->used, sizeof links->text - links->used,
                         "%d-%d:%d*%d/%d %s\n", (int)link->src, (int)link->dst, (int)link->count,
                         (int)link->bytes, (int)link->time, link->estimated_by);
    return RS_OK;
}

static void assert_links(enum rs_op_type type, int32_t root, const char *expected)
{
    struct rig rig;
    struct rs_err err = {0};
    struct links links = {0};
    int32_t ranks[3] = {2, 5, 9};
    struct rs_job_group group = {.text = fixture_group_text, .ranks = ranks, .rank_count = 3};
    rig_init(&rig, type, 3, 9000, 400);
    rig.op.group = 0;
    for (int i = 0; i < 3; i++)
        rig.ops[i].root = root;
    rig.analysis.groups = &group;
    rig.analysis.group_count = 1;
    struct rs_row_store *rows = NULL;
    struct job *job = NULL;
    assert_ok(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &rows, &err));
    assert_ok(rs_analysis_rows(&rig.analysis, RS_ROWS_CAPTURE, rows, &err));
    assert_ok(job_open(rows, &job, &err));
    assert_ok(estimate_walk(job, note_link, &links, &err));
    job_close(&job);
    rs_row_store_close(&rows);
    assert_string_equal(links.text, expected);
}

static void links_are_estimated_by_the_shape_of_the_operation(void **state)
{
    (void)state;
    assert_links(RS_OP_ALL_REDUCE, -1,
                 "2-5:1*12000/400 ring\n5-9:1*12000/400 ring\n9-2:1*12000/400 ring\n");
    assert_links(RS_OP_ALL_GATHER, -1,
                 "2-5:1*6000/400 ring\n5-9:1*6000/400 ring\n9-2:1*6000/400 ring\n");
    assert_links(RS_OP_BROADCAST, 5, "5-9:1*9000/400 chain\n9-2:1*9000/400 chain\n");
    assert_links(RS_OP_REDUCE, 5, "9-2:1*9000/400 chain\n2-5:1*9000/400 chain\n");
    assert_links(RS_OP_SCATTER, 9, "9-2:1*3000/400 star\n9-5:1*3000/400 star\n");
    assert_links(RS_OP_GATHER, 9, "2-9:1*3000/400 star\n5-9:1*3000/400 star\n");
    assert_links(RS_OP_ALL_TO_ALL, -1,
                 "2-5:1*3000/400 pairs\n2-9:1*3000/400 pairs\n5-2:1*3000/400 pairs\n"
                 "5-9:1*3000/400 pairs\n9-2:1*3000/400 pairs\n9-5:1*3000/400 pairs\n");
    assert_links(RS_OP_BROADCAST, -1, ""); /* nobody says who the root is */
    assert_links(RS_OP_SEND_RECV, -1, ""); /* its link is known */
}

/* ---- the job of the fixture ---- */

static void query(const char *dir, const char *sql, char *text, size_t size)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    char *path = rs_file_join(dir, "analysis.db");
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

static void remove_dir(const char *dir)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf -- %s", dir);
    assert_int_equal(system(command), 0); /* NOLINT: a folder of our own making */
}

/* 4,096,000 bytes, the longest transfer 5,001 ns, 3 ranks: 819.0362 and times 4/3 1092.0483 GB/s. */
static void the_table_has_a_row_per_operation(void **state)
{
    (void)state;
    struct fixture job;
    struct rs_err err = {0};
    char folder[] = "/tmp/rs-output-XXXXXX";
    char text[2048];
    fixture_init(&job);
    assert_non_null(mkdtemp(folder));
    const struct rs_output_input input = {.analysis = &job.analysis};
    struct rs_row_store *rows = NULL;
    assert_ok(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &rows, &err));
    struct job *facts = NULL;
    assert_ok(rs_output_rows(&input, rows, &err));
    assert_ok(job_open(rows, &facts, &err));
    assert_ok(database_write(&(struct view){.job = facts}, folder, &err));
    job_close(&facts);
    rs_row_store_close(&rows);
    query(folder,
          "SELECT op_id,op,ranks,bytes,time_ns,algorithm_bandwidth,round(bus_factor,6),"
          "bus_bandwidth,transport_type,coverage FROM CollectiveBandwidth ORDER BY op_id",
          text, sizeof text);
    assert_string_equal(text,
                        "0,all_reduce,3,4096000,5001,819.036193,1.333333,1092.04826,TCP,exact\n"
                        "1,send,2,5000000,10000,500,1.0,500,UNKNOWN,exact\n"
                        "2,all_reduce,NULL,NULL,NULL,NULL,NULL,NULL,UNKNOWN,partial\n");
    /* its all_reduce recorded hops: nothing is to be estimated */
    query(folder, "SELECT count(*) FROM LinkEstimate", text, sizeof text);
    assert_string_equal(text, "0\n");
    remove_dir(folder);
    fixture_fini(&job);
}

static void a_ranks_own_files_have_the_vendors_shape(void **state)
{
    (void)state;
    struct fixture job;
    struct rs_err err = {0};
    char folder[] = "/tmp/rs-output-XXXXXX";
    char text[4096];
    struct rs_buf buf = {0};
    fixture_init(&job);
    assert_non_null(mkdtemp(folder));
    struct rs_row_store *rows = NULL;
    assert_ok(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &rows, &err));
    assert_ok(rs_analysis_rows(&job.analysis, RS_ROWS_CAPTURE, rows, &err));
    assert_ok(
        rs_output_rank_write(rows, job.analysis.summaries[1]->trace.rank, true, folder, &err));
    rs_row_store_close(&rows);
    query(folder, "SELECT hccl_op_name,elapse_time,step,type FROM CommAnalyzerTime", text,
          sizeof text);
    assert_string_equal(text, "hcom_receive__163_0_1,0.0115,step5,p2p\n"
                              "hcom_allReduce__163_0_1,0.005001,step5,collective\n"
                              "hcom_allReduce__0_-1_1,0.0005,step6,collective\n");
    query(folder, "SELECT count(*) FROM pragma_table_info('CommAnalyzerTime')", text, sizeof text);
    assert_string_equal(text, "10\n");
    query(folder, "SELECT deviceId,step,computing,stage FROM StepTraceTime", text, sizeof text);
    assert_string_equal(text, "0,5,60,65\n"); /* step 6 launched nothing */
    query(folder, "SELECT name FROM sqlite_master WHERE name LIKE 'Coll%' OR name LIKE 'Rank%'",
          text, sizeof text);
    assert_string_equal(text, "");
    char *path = rs_file_join(folder, "communication.json");
    assert_ok(rs_file_read(path, 1 << 20, &buf, &err));
    assert_non_null(strstr(rs_buf_text(&buf),
                           "\"hcom_receive__163_0_1@8393583659006611163\":"
                           "{\"Communication Time Info\":{\"Start Timestamp(us)\""));
    rs_mem_free(path);
    rs_buf_fini(&buf);
    remove_dir(folder);
    fixture_fini(&job);
}

/* ---- the steps that documents share ---- */

/* What one document after the other sees of the job's operations, as text. */
static void spell_steps(struct rs_row_store *rows, struct step_shelf *shelf, struct rs_buf *text)
{
    struct step_rows *step = NULL;
    struct rs_err err = {0};
    bool has_step = false;
    rs_buf_reset(text);
    assert_ok(step_rows_open(rows, shelf, &step, &err));
    for (;;) {
        assert_ok(step_rows_next(step, &has_step, &err));
        if (!has_step)
            break;
        for (size_t i = 0; i < step->op_count; i++) {
            const struct step_op *op = &step->ops[i];
            rs_buf_printf(text, "%d %d %s %d:", (int)step->step, (int)op->row->op_id,
                          op->row->group_name, (int)(op->link_end - op->link_first));
            for (size_t m = op->member_first; m < op->member_end; m++)
                rs_buf_printf(text, " %d+%d", (int)step->members[m].row->rank,
                              (int)(step->members[m].packet_end - step->members[m].packet_first));
            rs_buf_u8(text, '\n');
        }
    }
    step_rows_close(&step);
}

static void spell_ops(const struct job *job, struct rs_buf *text)
{
    struct ops_reading ops = {0};
    const struct rs_row_job_op *op = NULL;
    struct rs_err err = {0};
    rs_buf_reset(text);
    assert_ok(ops_reading_open(&ops, job, &err));
    do {
        assert_ok(ops_reading_next(&ops, &op, &err));
        if (op)
            rs_buf_printf(text, "%d %d %s\n", (int)op->step, (int)op->op_id, op->group_name);
    } while (op);
    ops_reading_close(&ops);
}

static void steps_from_the_shelf_are_those_of_the_store(void **state)
{
    (void)state;
    struct fixture fixture;
    struct rs_err err = {0};
    struct rs_buf read = {0}, again = {0}, ops = {0}, ops_again = {0};
    struct rs_row_store *rows = NULL;
    struct job *job = NULL;
    fixture_init(&fixture);
    assert_ok(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &rows, &err));
    assert_ok(rs_analysis_rows(&fixture.analysis, RS_ROWS_CAPTURE, rows, &err));
    assert_ok(job_open(rows, &job, &err));
    spell_steps(rows, NULL, &read);
    assert_non_null(strstr(rs_buf_text(&read), "5 0 dp@0-1,3 "));
    spell_ops(job, &ops);
    spell_steps(rows, job->shelf, &again);
    assert_string_equal(rs_buf_text(&again), rs_buf_text(&read));
    assert_true(job->shelf->is_whole);
    spell_steps(NULL, job->shelf, &again); /* the store is not asked */
    assert_string_equal(rs_buf_text(&again), rs_buf_text(&read));
    job->rows = NULL;
    spell_ops(job, &ops_again);
    assert_string_equal(rs_buf_text(&ops_again), rs_buf_text(&ops));
    job_close(&job);
    rs_row_store_close(&rows);
    rs_buf_fini(&read);
    rs_buf_fini(&again);
    rs_buf_fini(&ops);
    rs_buf_fini(&ops_again);
    fixture_fini(&fixture);
}

static void steps_that_are_too_many_or_not_read_to_the_end_are_not_kept(void **state)
{
    (void)state;
    struct fixture fixture;
    struct rs_err err = {0};
    struct rs_buf read = {0}, again = {0};
    struct rs_row_store *rows = NULL;
    struct step_rows *step = NULL;
    struct step_shelf shelf = {.limit_bytes = 16 << 20};
    bool has_step = false;
    fixture_init(&fixture);
    assert_ok(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &rows, &err));
    assert_ok(rs_analysis_rows(&fixture.analysis, RS_ROWS_CAPTURE, rows, &err));
    spell_steps(rows, NULL, &read);
    assert_ok(step_rows_open(rows, &shelf, &step, &err)); /* a document that could not be written */
    assert_ok(step_rows_next(step, &has_step, &err));
    assert_ok(step_rows_next(step, &has_step, &err));
    assert_true(has_step);
    step_rows_close(&step);
    assert_false(shelf.is_whole);
    assert_int_equal(shelf.count, 0);
    spell_steps(rows, &shelf, &again);
    assert_true(shelf.is_whole);
    step_shelf_fini(&shelf);
    shelf.limit_bytes = 1;
    for (int i = 0; i < 2; i++) {
        spell_steps(rows, &shelf, &again);
        assert_string_equal(rs_buf_text(&again), rs_buf_text(&read));
        assert_false(shelf.is_whole);
        assert_int_equal(shelf.count, 0);
    }
    step_shelf_fini(&shelf);
    rs_row_store_close(&rows);
    rs_buf_fini(&read);
    rs_buf_fini(&again);
    fixture_fini(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_factors_are_those_of_nccl_tests),
        cmocka_unit_test(what_is_not_known_gives_no_bandwidth),
        cmocka_unit_test(a_transport_is_named_only_when_it_is_known),
        cmocka_unit_test(links_are_estimated_by_the_shape_of_the_operation),
        cmocka_unit_test(the_table_has_a_row_per_operation),
        cmocka_unit_test(a_ranks_own_files_have_the_vendors_shape),
        cmocka_unit_test(steps_from_the_shelf_are_those_of_the_store),
        cmocka_unit_test(steps_that_are_too_many_or_not_read_to_the_end_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
