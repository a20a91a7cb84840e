/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step figures of an Ascend job against its own: from the databases to the nanosecond, from the text form to the resolution
 * of its floats. Two ranks that tests/support/ascend_job.py made (in the build folder), and where ../shared/data is, two real
 * ones. A real table holds the profiler's own sums of floats, a made one the exact figure: there they may differ by 0.25 us,
 * which is the step between two doubles that are us since 1970.
 */
#include "ascend/format/db.h"
#include "ascend/source/ascend.h"
#include "ascend/source/csv.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/reduce/reduce.h"
#include "tests/support/rs_test.h"

#include <sqlite3.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pair {
    const char *db, *text;
    double tolerance; /* us; of sums of floats */
    /* the first operation, in each form; both forms of the real pair are of different runs */
    const char *db_group, *db_first, *text_group, *text_first;
    int64_t bytes;
};

static const struct pair pairs[] = {
    {RS_TEST_PAIR "/db", RS_TEST_PAIR "/text", 0.2500001, "12473299700701680205",
     "hcom_allReduce__205_0_1", "12473299700701680205", "hcom_allReduce__205_0_1", 1 << 20},
    {"../shared/data/ascend/level1-db", "../shared/data/ascend/level1-text", 0,
     "17148521525495523210", "hcom_allReduce__210_0_1", "17522688603477080586",
     "hcom_allReduce__586_0_1", 4097000 * 4},
};

/* The made pair always, the real one where it is. */
static size_t pair_count(void)
{
    return access(pairs[1].db, F_OK) == 0 ? 2 : 1;
}

enum { FIGURES = 9 };
static const char *const columns[FIGURES] = {
    "Computing",  "Communication(Not Overlapped)",
    "Overlapped", "Communication",
    "Free",       "Stage",
    "Bubble",     "Communication(Not Overlapped and Exclude Receive)",
    "Preparing"};

static struct rs_ascend_list ranks_of(const char *tree)
{
    struct rs_err err = {0};
    struct rs_ascend_list list;
    if (rs_ascend_discover(&tree, 1, &list, &err) != RS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(list.count, 2);
    return list;
}

static enum rs_status emit(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    enum rs_status status = rs_batch_check(batch, err);
    return status == RS_OK ? rs_reduce_add(self, batch, err) : status;
}

static void summarise(const struct rs_ascend_rank *rank, unsigned flags,
                      struct rs_summary *summary_p)
{
    struct rs_err err = {0};
    struct rs_source_stream stream;
    struct rs_reduce *reduce = NULL;
    assert_int_equal(rs_source_stream_init(&stream), RS_OK);
    assert_int_equal(rs_reduce_new(&stream.strings, &stream.lanes, &reduce), RS_OK);
    const struct rs_sink sink = {.batch = emit, .self = reduce};
    enum rs_status status = rs_ascend_read(rank, flags, &stream, sink, &err);
    if (status == RS_OK)
        status = rs_reduce_finish(reduce, &stream.info, summary_p, &err);
    if (status != RS_OK)
        fail_msg("%s: %s", rank->dir, err.text);
    rs_reduce_free(&reduce);
    rs_source_stream_fini(&stream);
}

static void figures_of(const struct rs_step_row *row, int64_t figures[FIGURES])
{
    const int64_t all[FIGURES] = {
        row->computing,  row->communication_not_overlapped,
        row->overlapped, row->communication,
        row->free,       row->stage,
        row->bubble,     row->communication_not_overlapped_exclude_receive,
        row->preparing};
    memcpy(figures, all, sizeof all);
}

/* The file's own row, us with three decimals, as ns. */
static void own_row(const struct rs_ascend_rank *rank, int64_t step, int64_t figures[FIGURES])
{
    struct rs_err err = {0};
    struct rs_ascend_db *db = NULL;
    struct sqlite3_stmt *rows = NULL;
    char sql[512];
    if (rs_ascend_db_open(rank->analysis_db, &db, &err) != RS_OK)
        fail_msg("%s", err.text);
    (void)snprintf(sql, sizeof sql,
                   "SELECT computing, communication_not_overlapped, overlapped, communication, "
                   "free, stage, bubble, communication_not_overlapped_and_exclude_receive, "
                   "preparing FROM StepTraceTime WHERE step = '%" PRId64 "'",
                   step);
    if (rs_ascend_db_prepare(db, sql, &rows, &err) != RS_OK ||
        rs_ascend_db_step(db, rows, &err) != RS_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < FIGURES; i++)
        figures[i] = llround(sqlite3_column_double(rows, i) * 1000);
    rs_ascend_db_finish(&rows);
    rs_ascend_db_close(&db);
}

static void compare_with_own_row(const char *tree, unsigned flags)
{
    struct rs_ascend_list list = ranks_of(tree);
    for (size_t r = 0; r < list.count; r++) {
        struct rs_summary summary;
        int64_t ours[FIGURES], own[FIGURES];
        summarise(&list.ranks[r], flags, &summary);
        assert_int_equal(summary.step_count, 1);
        assert_int_equal(summary.step_origin, RS_STEPS_PROFILER_STEP);
        figures_of(&summary.steps[0], ours);
        own_row(&list.ranks[r], summary.steps[0].step, own);
        for (int i = 0; i < FIGURES; i++) {
            print_message("rank %zu step %" PRId64 " %-50s %" PRId64 " ns, own %" PRId64 " ns\n", r,
                          summary.steps[0].step, columns[i], ours[i], own[i]);
            assert_int_equal(ours[i], own[i]);
        }
        rs_summary_fini(&summary);
    }
    rs_ascend_list_fini(&list);
}

static void databases_give_their_own_step_row_to_the_nanosecond(void **state)
{
    (void)state;
    for (size_t p = 0; p < pair_count(); p++)
        compare_with_own_row(pairs[p].db, 0);
}

static void reading_all_rows_changes_no_figure(void **state)
{
    (void)state;
    for (size_t p = 0; p < pair_count(); p++)
        compare_with_own_row(pairs[p].db, RS_SOURCE_LOSSLESS);
}

static void figures_of_text(const struct rs_ascend_figures *row, double figures[FIGURES])
{
    const double all[FIGURES] = {row->computing,  row->communication_not_overlapped,
                                 row->overlapped, row->communication,
                                 row->free,       row->stage,
                                 row->bubble,     row->communication_not_overlapped_exclude_receive,
                                 row->preparing};
    memcpy(figures, all, sizeof all);
}

static void compare_trace_with_own_row(const struct pair *pair)
{
    struct rs_ascend_list list = ranks_of(pair->text);
    for (size_t r = 0; r < list.count; r++) {
        struct rs_err err = {0};
        struct rs_ascend_figures *figures = NULL;
        size_t count = 0;
        struct csv csv;
        double ours[FIGURES];
        char *trace = rs_file_join(list.ranks[r].output, "trace_view.json");
        char *table = rs_file_join(list.ranks[r].output, "step_trace_time.csv");
        if (rs_ascend_text_figures(trace, &figures, &count, &err) != RS_OK ||
            csv_open(&csv, table, &err) != RS_OK)
            fail_msg("%s", err.text);
        assert_int_equal(count, 1);
        assert_true(csv_next(&csv));
        assert_int_equal(strtoll(csv_cell(&csv, csv_column(&csv, "Step")), NULL, 10),
                         figures[0].step);
        figures_of_text(&figures[0], ours);
        for (int i = 0; i < FIGURES; i++) {
            const double own = strtod(csv_cell(&csv, csv_column(&csv, columns[i])), NULL);
            print_message("rank %zu %-50s %.17g, own %.17g\n", r, columns[i], ours[i], own);
            assert_true(fabs(ours[i] - own) <= pair->tolerance);
        }
        assert_false(csv_next(&csv));
        csv_close(&csv);
        rs_mem_free(figures);
        rs_mem_free(trace);
        rs_mem_free(table);
    }
    rs_ascend_list_fini(&list);
}

static void trace_gives_its_own_step_row_as_floats(void **state)
{
    (void)state;
    for (size_t p = 0; p < pair_count(); p++)
        compare_trace_with_own_row(&pairs[p]);
}

/* What both forms tell of the vendor's names must be there. */
static void compare_names(const struct pair *pair)
{
    const char *const trees[] = {pair->db, pair->text};
    const char *const groups[] = {pair->db_group, pair->text_group};
    const char *const firsts[] = {pair->db_first, pair->text_first};
    for (size_t t = 0; t < 2; t++) {
        struct rs_ascend_list list = ranks_of(trees[t]);
        for (size_t r = 0; r < list.count; r++) {
            struct rs_summary summary;
            summarise(&list.ranks[r], 0, &summary);
            assert_int_equal(summary.op_count, 4);
            assert_int_equal(summary.group_count, 1);
            const struct rs_comm_op *op = &summary.ops[0];
            assert_string_equal(rs_strtab_text(&summary.strings, op->op_text), firsts[t]);
            assert_string_equal(rs_strtab_text(&summary.strings, summary.groups[op->group].name),
                                groups[t]);
            assert_int_equal(op->type, RS_OP_ALL_REDUCE);
            assert_int_equal(op->bytes, pair->bytes);
            assert_int_equal(op->step, 50);
            rs_summary_fini(&summary);
        }
        rs_ascend_list_fini(&list);
    }
}

static void operations_keep_names_groups_and_sizes(void **state)
{
    (void)state;
    for (size_t p = 0; p < pair_count(); p++)
        compare_names(&pairs[p]);
}

/* Rows of the tables of memory, in a lossless reading. */
struct tally {
    size_t records, modules, up, down;
};

static enum rs_status count_rows(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct tally *tally = self;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->category[i] == RS_STR_NONE)
            continue;
        const char *category = rs_strtab_text(batch->strings, batch->category[i]);
        const bool is_first = batch->extra_length[i] > 0; /* of what a line became */
        tally->records += is_first && strcmp(category, "memory_record") == 0;
        tally->modules += is_first && strcmp(category, "npu_module_mem") == 0;
        tally->up += batch->kind[i] == RS_KIND_MEMORY && batch->bytes[i] > 0;
        tally->down += batch->kind[i] == RS_KIND_MEMORY && batch->bytes[i] < 0;
    }
    return rs_batch_check(batch, err);
}

static size_t lines_of(const struct rs_ascend_rank *rank, const char *name, const char *column)
{
    struct rs_err err = {0};
    struct csv csv;
    size_t lines = 0;
    char *path = rs_file_join(rank->output, name);
    if (csv_open(&csv, path, &err) != RS_OK)
        fail_msg("%s", err.text);
    const int at = csv_column(&csv, column);
    while (csv_next(&csv))
        lines += *csv_cell(&csv, at) != '\0';
    csv_close(&csv);
    rs_mem_free(path);
    return lines;
}

static void count_lines(const char *tree)
{
    struct rs_ascend_list list = ranks_of(tree);
    for (size_t r = 0; r < list.count; r++) {
        const struct rs_ascend_rank *rank = &list.ranks[r];
        struct rs_err err = {0};
        struct rs_source_stream stream;
        struct tally tally = {0};
        assert_int_equal(rs_source_stream_init(&stream), RS_OK);
        const struct rs_sink sink = {.batch = count_rows, .self = &tally};
        if (rs_ascend_read(rank, RS_SOURCE_LOSSLESS, &stream, sink, &err) != RS_OK)
            fail_msg("%s: %s", rank->dir, err.text);
        for (size_t i = 0; i < stream.info.drop_count;
             i++) /* every table here is known and whole */
            assert_null(
                strstr(rs_strtab_text(&stream.strings, stream.info.drops[i].reason), "table"));
        rs_source_stream_fini(&stream);
        print_message("rank %zu: %zu records of memory, %zu of modules, %zu allocations\n", r,
                      tally.records, tally.modules, tally.up);
        assert_true(tally.records > 0 && tally.up > 0);
        assert_int_equal(tally.records, lines_of(rank, "memory_record.csv", "Timestamp(us)"));
        assert_int_equal(tally.modules, lines_of(rank, "npu_module_mem.csv", "Timestamp(us)"));
        assert_int_equal(tally.up, lines_of(rank, "operator_memory.csv", "Allocation Time(us)"));
        assert_int_equal(tally.down, lines_of(rank, "operator_memory.csv", "Release Time(us)"));
    }
    rs_ascend_list_fini(&list);
}

static void every_line_of_a_table_is_emitted(void **state)
{
    (void)state;
    for (size_t p = 0; p < pair_count(); p++)
        count_lines(pairs[p].text);
}

/* What a collector sends and what `analyse` makes of the same folder: the same bytes. */
static void compare_readings(const struct pair *pair)
{
    const char *const trees[] = {pair->db, pair->text};
    for (size_t t = 0; t < 2; t++) {
        struct rs_ascend_list list = ranks_of(trees[t]);
        for (size_t r = 0; r < list.count; r++) {
            struct rs_err err = {0};
            struct rs_buf bytes[2] = {{0}, {0}};
            for (unsigned i = 0; i < 2; i++) {
                struct rs_summary summary;
                summarise(&list.ranks[r], i ? RS_SOURCE_LOSSLESS : 0, &summary);
                assert_non_null(summary.trace.vendor);
                assert_int_equal(summary.trace.vendor->step_count, 1);
                assert_true(summary.trace.vendor->comm_count > 0);
                assert_int_equal(rs_summary_encode(&summary, &bytes[i], &err), RS_OK);
                rs_summary_fini(&summary);
            }
            assert_int_equal(bytes[0].length, bytes[1].length);
            assert_memory_equal(bytes[0].data, bytes[1].data, bytes[0].length);
            rs_buf_fini(&bytes[0]);
            rs_buf_fini(&bytes[1]);
        }
        rs_ascend_list_fini(&list);
    }
}

static void both_readings_give_one_summary(void **state)
{
    (void)state;
    for (size_t p = 0; p < pair_count(); p++)
        compare_readings(&pairs[p]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(databases_give_their_own_step_row_to_the_nanosecond),
        cmocka_unit_test(reading_all_rows_changes_no_figure),
        cmocka_unit_test(trace_gives_its_own_step_row_as_floats),
        cmocka_unit_test(operations_keep_names_groups_and_sizes),
        cmocka_unit_test(every_line_of_a_table_is_emitted),
        cmocka_unit_test(both_readings_give_one_summary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
