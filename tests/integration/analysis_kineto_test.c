/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real traces in, operations of the job out: source, reduction and join together. A bundled job always, and where ../shared/data
 * is, more of them.
 */
#include "aggregator/analysis/analysis.h"
#include "collector/source/kineto.h"
#include "common/reduce/reduce.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DATA    "../shared/data/kineto/"
#define BUNDLED "docs/examples/slow-loader"

enum { RANKS_MAX = 8 };

struct job {
    struct rs_summary summaries[RANKS_MAX];
    const struct rs_summary *lent[RANKS_MAX];
    size_t count;
    struct rs_analysis *analysis;
};

static enum rs_status emit(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    return rs_reduce_add(self, batch, err);
}

static void add_rank(struct job *job, const char *path, int32_t rank)
{
    struct rs_source_stream stream;
    struct rs_reduce *reduce = NULL;
    struct rs_err err = {0};
    assert_ok(rs_source_stream_init(&stream));
    assert_ok(rs_reduce_new(&stream.strings, &stream.lanes, &reduce));
    const struct rs_sink sink = {emit, reduce};
    assert_ok(rs_kineto_read(path, 0, &stream, sink, &err));
    stream.info.rank = rank;
    assert_ok(rs_reduce_finish(reduce, &stream.info, &job->summaries[job->count], &err));
    rs_reduce_free(&reduce);
    rs_source_stream_fini(&stream);
    job->lent[job->count] = &job->summaries[job->count];
    job->count++;
}

static void read_folder(struct job *job, const char *folder, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char path[256];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        add_rank(job, path, (int32_t)i);
    }
}

static void run(struct job *job)
{
    const struct rs_analysis_options options = {0};
    struct rs_err err = {0};
    assert_ok(rs_analysis_new(job->lent, job->count, &options, &job->analysis, &err));
    for (size_t i = 0; i < job->analysis->note_count; i++) {
        print_message("note: %s\n", job->analysis->notes[i]);
    }
    const struct rs_diagnosis *diagnosis = job->analysis->diagnosis;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const struct rs_finding *finding = &diagnosis->findings[i];
        print_message("finding: %s rank %d cost %.3f ms share %.3f %s\n",
                      rs_finding_kind_text(finding->kind), (int)finding->places[0].rank,
                      (double)finding->cost_ns_per_step / 1e6, finding->share,
                      rs_confidence_text(finding->confidence));
    }
}

static void finish(struct job *job)
{
    rs_analysis_free(&job->analysis);
    for (size_t i = 0; i < job->count; i++) {
        rs_summary_fini(&job->summaries[i]);
    }
}

static const char *group_text(const struct rs_analysis *analysis, const struct rs_job_op *op)
{
    return op->group == RS_NO_GROUP ? "" : analysis->groups[op->group].text;
}

/* No wait or transfer below zero, and both together the operation's length. */
static void expect_sound(const struct rs_analysis *analysis)
{
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
            const struct rs_job_row *row = &analysis->rows[r];
            const struct rs_comm_op *own = &analysis->summaries[row->summary]->ops[row->op_index];
            assert_true(row->wait >= 0 && row->transfer >= 0);
            assert_int_equal(row->wait + row->transfer, own->end - own->start);
        }
    }
}

static size_t count_ops(const struct rs_analysis *analysis, size_t rows, bool is_p2p,
                        const char *group)
{
    size_t count = 0;
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        count += op->is_matched && op->row_count == rows && op->is_p2p == is_p2p &&
                 (group == NULL || strcmp(group_text(analysis, op), group) == 0);
    }
    return count;
}

static void expect_last(const struct rs_analysis *analysis, int32_t rank, size_t times)
{
    size_t count = 0;
    for (size_t i = 0; i < analysis->op_count; i++) {
        count += analysis->ops[i].last_rank == rank;
    }
    assert_int_equal(count, times);
}

static void read_dlrm(struct job *job)
{
    static const char *const names[] = {
        "worker0_step_12.1694128201545.pt.trace.json",
        "worker1_step_12.1694128201556.pt.trace.json",
        "worker2_step_12.1694128201554.pt.trace.json",
        "worker3_step_12.1694128201557.pt.trace.json",
        "worker4_step_12.1694128201547.pt.trace.json",
        "worker5_step_12.1694128201549.pt.trace.json",
        "worker6_step_12.1694128201553.pt.trace.json",
        "worker7_step_12.1694128201553.pt.trace.json",
    };
    read_folder(job, DATA "dlrm-8rank", names, 8);
}

static void dlrm_rank_7_is_last_in_five_of_eight(void **state)
{
    struct job job = {0};
    (void)state;
    read_dlrm(&job);
    run(&job);
    const struct rs_analysis *analysis = job.analysis;
    assert_int_equal(analysis->op_count, 8);
    assert_int_equal(count_ops(analysis, 8, false, "g:0-7"), 8);
    expect_last(analysis, 7, 5);
    assert_int_equal(analysis->ranks[7].ops_last, 5);
    assert_int_equal(analysis->ranks[1].own_wait, 11125000);
    assert_true(analysis->one_clock && !analysis->clock_was_assumed);
    for (size_t s = 0; s < 8; s++) { /* measured, and left as they stand */
        assert_int_equal(analysis->clocks[s].offset_ns, 0);
        assert_true(analysis->clocks[s].bound_ns < 12000);
    }
    expect_sound(analysis);
    finish(&job);
}

static void shift_clock(struct rs_summary *summary, rs_dur by)
{
    for (size_t i = 0; i < summary->op_count; i++) {
        summary->ops[i].start += by;
        summary->ops[i].end += by;
        summary->ops[i].call_start += by;
    }
    summary->span_start += by;
    summary->span_end += by;
}

/* Clocks off by up to 50 ms, and drifting: the same waits, and the same last ranks where they are known. */
static void dlrm_with_wrong_clocks_waits_the_same(void **state)
{
    struct job whole = {0}, job = {0};
    (void)state;
    read_dlrm(&whole);
    run(&whole);
    read_dlrm(&job);
    for (size_t s = 1; s < 8; s++) {
        struct rs_summary *summary = &job.summaries[s];
        const rs_ns by = (s % 2 ? 1 : -1) * (rs_ns)(50000000 / s);
        for (size_t i = 0; i < summary->op_count; i++) { /* 35 ppm */
            summary->ops[i].start += (summary->ops[i].start - summary->span_start) * 35 / 1000000;
            summary->ops[i].end += (summary->ops[i].end - summary->span_start) * 35 / 1000000;
        }
        shift_clock(summary, by);
    }
    run(&job);
    assert_int_equal(count_ops(job.analysis, 8, false, "g:0-7"), 8);
    assert_true(job.analysis->one_clock && job.analysis->clock_was_aligned);
    assert_int_equal(job.analysis->row_count, whole.analysis->row_count);
    for (size_t i = 0; i < job.analysis->op_count; i++) {
        const int32_t last = job.analysis->ops[i].last_rank;
        assert_true(last == -1 || whole.analysis->ops[i].last_rank == -1 ||
                    last == whole.analysis->ops[i].last_rank);
    }
    for (size_t r = 0; r < job.analysis->row_count; r++) {
        const struct rs_job_row *a = &job.analysis->rows[r], *b = &whole.analysis->rows[r];
        if (a->has_wait && b->has_wait) {
            assert_true(a->wait - b->wait <= 12000 && b->wait - a->wait <= 12000);
        }
    }
    for (size_t s = 1; s < 8; s++) {
        const rs_dur by = (s % 2 ? 1 : -1) * (rs_dur)(50000000 / s);
        const rs_dur off = job.analysis->clocks[s].offset_ns - by;
        assert_true(off <= job.analysis->clocks[s].bound_ns &&
                    -off <= job.analysis->clocks[s].bound_ns);
    }
    finish(&whole);
    finish(&job);
}

static void dlrm_without_a_rank_is_partial(void **state)
{
    struct job job = {0};
    (void)state;
    read_dlrm(&job);
    rs_summary_fini(&job.summaries[--job.count]);
    run(&job);
    assert_int_equal(job.analysis->missing_count, 1);
    assert_int_equal(job.analysis->missing_ranks[0], 7);
    assert_int_equal(count_ops(job.analysis, 7, false, NULL), 8);
    for (size_t i = 0; i < job.analysis->op_count; i++) {
        assert_int_equal(job.analysis->ops[i].coverage, RS_COVERAGE_PARTIAL);
        assert_int_equal(job.analysis->ops[i].last_rank, -1);
    }
    finish(&job);
}

static void gloo_ondemand_rank_2_is_last_in_all(void **state)
{
    static const char *const names[] = {"trace_6623.json.gz", "trace_6624.json.gz",
                                        "trace_6625.json.gz", "trace_6626.json.gz"};
    struct job job = {0};
    (void)state;
    read_folder(&job, DATA "gloo-ddp-4rank-ondemand", names, 4);
    run(&job);
    assert_int_equal(count_ops(job.analysis, 4, false, "g:0-3"), 3);
    expect_last(job.analysis, 2, 3);
    expect_sound(job.analysis);
    const struct rs_diagnosis *diagnosis = job.analysis->diagnosis;
    /* Two complete steps: too few to accuse on such a machine, enough to say whom more would be about. */
    const struct rs_finding *who =
        diagnosis->finding_count > 0 ? diagnosis->findings : diagnosis->undecided;
    assert_int_equal(diagnosis->finding_count + diagnosis->undecided_count, 1);
    assert_int_equal(who->place_count, 1);
    assert_int_equal(who->places[0].rank, 2);
    assert_true(diagnosis->finding_count == 1 || who->more_steps > 0);
    finish(&job);
}

static void gloo_api_rank_2_is_last_in_steps_3_4_5(void **state)
{
    static const char *const names[] = {"rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz",
                                        "rank2.pt.trace.json.gz", "rank3.pt.trace.json.gz"};
    struct job job = {0};
    (void)state;
    read_folder(&job, DATA "gloo-ddp-4rank-api", names, 4);
    run(&job);
    const struct rs_analysis *analysis = job.analysis;
    int64_t step = 3;
    for (size_t i = 0; i < analysis->op_count; i++) {
        if (analysis->ops[i].is_matched && analysis->ops[i].row_count == 4) {
            assert_int_equal(analysis->ops[i].step, step++);
            assert_int_equal(analysis->ops[i].last_rank, 2);
            assert_string_equal(group_text(analysis, &analysis->ops[i]), "0");
        }
    }
    assert_int_equal(step, 6);
    finish(&job);
}

static void gloo_groups_are_told_apart(void **state)
{
    static const char *const names[] = {"trace_7539.json.gz", "trace_7540.json.gz",
                                        "trace_7541.json.gz", "trace_7542.json.gz"};
    struct job job = {0};
    (void)state;
    read_folder(&job, DATA "gloo-groups-4rank-ondemand", names, 4);
    run(&job);
    const struct rs_analysis *analysis = job.analysis;
    size_t rows = 0, unmatched = 0;
    for (size_t i = 0; i < analysis->op_count; i++) {
        rows += analysis->ops[i].is_matched ? analysis->ops[i].row_count : 0;
        unmatched += !analysis->ops[i].is_matched;
    }
    assert_int_equal(count_ops(analysis, 4, false, "g:0-3"), 22);
    assert_int_equal(count_ops(analysis, 2, false, "g:0-1"), 2);
    assert_int_equal(count_ops(analysis, 2, false, "g:2-3"), 2);
    assert_int_equal(count_ops(analysis, 2, false, "g:0,2"), 2);
    assert_int_equal(count_ops(analysis, 2, false, "g:1,3"), 2);
    assert_int_equal(count_ops(analysis, 2, true, "g:0-3"), 4);
    assert_int_equal(rows, 112);
    assert_int_equal(unmatched, 1);
    expect_sound(analysis);
    finish(&job);
}

/* Without shapes nothing but time tells tensor- and data-parallel groups apart. */
static void gloo_groups_are_told_apart_without_shapes(void **state)
{
    static const char *const names[] = {"trace_7539.json.gz", "trace_7540.json.gz",
                                        "trace_7541.json.gz", "trace_7542.json.gz"};
    struct job job = {0};
    (void)state;
    read_folder(&job, DATA "gloo-groups-4rank-ondemand", names, 4);
    for (size_t s = 0; s < job.count; s++) {
        for (size_t i = 0; i < job.summaries[s].op_count; i++) {
            job.summaries[s].ops[i].bytes = -1;
            job.summaries[s].ops[i].shape_hash = 0;
        }
    }
    run(&job);
    assert_int_equal(count_ops(job.analysis, 4, false, "g:0-3"), 22);
    assert_int_equal(count_ops(job.analysis, 2, false, "g:0-1"), 2);
    assert_int_equal(count_ops(job.analysis, 2, false, "g:2-3"), 2);
    assert_int_equal(count_ops(job.analysis, 2, false, "g:0,2"), 2);
    assert_int_equal(count_ops(job.analysis, 2, false, "g:1,3"), 2);
    assert_int_equal(count_ops(job.analysis, 2, true, "g:0-3"), 4);
    finish(&job);
}

/* docs/examples/record.py: eight steps of two all-reduces, of which rank 2 comes late to the first by its slow loader. */
static void read_bundled(struct job *job)
{
    static const char *const names[] = {"rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz",
                                        "rank2.pt.trace.json.gz", "rank3.pt.trace.json.gz"};
    read_folder(job, BUNDLED, names, 4);
}

static void bundled_rank_2_is_last_in_each_step(void **state)
{
    struct job job = {0};
    bool is_seen[14] = {false};
    (void)state;
    read_bundled(&job);
    run(&job);
    assert_int_equal(count_ops(job.analysis, 4, false, NULL), 16);
    size_t late = 0;
    for (size_t i = 0; i < job.analysis->op_count; i++) {
        const struct rs_job_op *op = &job.analysis->ops[i];
        assert_true(op->is_matched && op->step >= 6 && op->step < 14);
        if (!is_seen[op->step])
            late += op->last_rank == 2;
        is_seen[op->step] = true;
    }
    assert_int_equal(late, 8);
    expect_sound(job.analysis);
    assert_true(job.analysis->diagnosis->finding_count > 0);
    assert_int_equal(job.analysis->diagnosis->findings[0].place_count, 1);
    assert_int_equal(job.analysis->diagnosis->findings[0].places[0].rank, 2);
    finish(&job);
}

static void bundled_without_a_rank_is_partial(void **state)
{
    struct job job = {0};
    (void)state;
    read_bundled(&job);
    rs_summary_fini(&job.summaries[--job.count]);
    run(&job);
    assert_int_equal(job.analysis->missing_count, 1);
    assert_int_equal(job.analysis->missing_ranks[0], 3);
    assert_int_equal(count_ops(job.analysis, 3, false, NULL), 16);
    for (size_t i = 0; i < job.analysis->op_count; i++) {
        assert_int_equal(job.analysis->ops[i].coverage, RS_COVERAGE_PARTIAL);
        assert_int_equal(job.analysis->ops[i].last_rank, -1);
    }
    finish(&job);
}

static void one_rank_of_two_matches_nothing(void **state)
{
    struct job job = {0};
    (void)state;
    add_rank(&job, DATA "a100-nccl-rank0of2.json.gz", 0);
    run(&job);
    assert_true(job.analysis->op_count >= 21);
    for (size_t i = 0; i < job.analysis->op_count; i++) {
        assert_false(job.analysis->ops[i].is_matched);
    }
    assert_int_equal(job.analysis->diagnosis->finding_count, 0);
    finish(&job);
}

int main(void)
{
    const struct CMUnitTest bundled[] = {
        cmocka_unit_test(bundled_rank_2_is_last_in_each_step),
        cmocka_unit_test(bundled_without_a_rank_is_partial),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dlrm_rank_7_is_last_in_five_of_eight),
        cmocka_unit_test(dlrm_with_wrong_clocks_waits_the_same),
        cmocka_unit_test(dlrm_without_a_rank_is_partial),
        cmocka_unit_test(gloo_ondemand_rank_2_is_last_in_all),
        cmocka_unit_test(gloo_api_rank_2_is_last_in_steps_3_4_5),
        cmocka_unit_test(gloo_groups_are_told_apart),
        cmocka_unit_test(gloo_groups_are_told_apart_without_shapes),
        cmocka_unit_test(one_rank_of_two_matches_nothing),
    };
    const int failed = cmocka_run_group_tests(bundled, NULL, NULL);
    if (access(DATA, R_OK) != 0) {
        print_message("%s is not here: only the bundled job was tried\n", DATA);
        return failed;
    }
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
