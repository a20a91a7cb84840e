/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job small enough to be checked by hand, with one of everything the tables have to show.
 *
 *     rank 0 (device 0)   step 5   all_reduce seq 0   send -> 1 seq 0      send -> 1 seq 0 (second name)
 *     rank 1 (device 0)   step 5   all_reduce seq 0   recv <- 0 seq 0
 *                         step 6   unfinished kernel without a call: unmatched, no bytes, cut step
 *
 *     op 0  unmatched, no group, step 6 comes last in OpId: see ops[] below
 */
#ifndef RS_TESTS_OUTPUT_FIXTURE_H
#define RS_TESTS_OUTPUT_FIXTURE_H

#include "aggregator/output/output.h"
#include "common/base/mem.h"

#include <string.h>

struct fixture {
    struct rs_summary summaries[2];
    const struct rs_summary *lent[2];
    struct rs_device_row devices[2];
    struct rs_step_row steps[3];
    struct rs_comm_op comm[2][3];
    struct rs_comm_task tasks[4];
    struct rs_job_group groups[1];
    int32_t group_ranks[2];
    struct rs_job_op ops[3];
    struct rs_job_row rows[5];
    struct rs_job_rank ranks[2];
    struct rs_job_link links[2];
    rs_dur p2p_wait[3];
    int32_t missing[1];
    struct rs_finding findings[1];
    struct rs_place places[1];
    struct rs_evidence evidence[1];
    struct rs_diagnosis diagnosis;
    char *notes[1];
    struct rs_analysis analysis;
};

static char fixture_group_text[] = "dp@0-1,3";
static char fixture_note[] = "a note with a | bar";

enum { FIXTURE_T0 = 1000000000 };
#define FIXTURE_BASE INT64_C(1700000000000000000)

static rs_str fixture_string(struct rs_summary *summary, const char *text)
{
    rs_str id = RS_STR_NONE;
    assert_ok(rs_strtab_add(&summary->strings, text, strlen(text), &id));
    return id;
}

static struct rs_comm_op fixture_op(uint8_t type, int64_t start, int64_t end, int64_t bytes)
{
    return (struct rs_comm_op){.step = 5,
                               .type = type,
                               .flags = RS_OP_ON_DEVICE,
                               .group = 0,
                               .peer = -1,
                               .root = -1,
                               .bytes = bytes,
                               .seq = -1,
                               .start = FIXTURE_BASE + start,
                               .end = FIXTURE_BASE + end,
                               .op_text = RS_STR_NONE,
                               .transport = RS_STR_NONE};
}

static void fixture_ranks(struct fixture *f)
{
    for (int i = 0; i < 2; i++) {
        struct rs_summary *s = &f->summaries[i];
        assert_ok(rs_strtab_init(&s->strings, 0));
        rs_trace_info_init(&s->trace);
        s->trace.rank = i;
        s->trace.rank_source = RS_RANK_METADATA;
        s->trace.world_size = 3;
        s->trace.has_time_base = true;
        s->trace.events_read = 100 + i;
        s->trace.rows_read = 110;
        s->trace.input_bytes = 1000;
        s->trace.raw_bytes = 5000;
        s->trace.generation = fixture_string(s, "kineto ns");
        s->step_origin = RS_STEPS_PROFILER_STEP;
        f->devices[i] = (struct rs_device_row){.device = 0,
                                               .window_start = FIXTURE_BASE,
                                               .window_end = FIXTURE_BASE + 100000,
                                               .busy = 90000,
                                               .computing = 60000,
                                               .communication = 40000,
                                               .memory = 5000,
                                               .overlapped = 15000};
        s->devices = &f->devices[i];
        s->device_count = 1;
        f->lent[i] = s;
    }
    f->summaries[1].trace.is_partial = true;
    f->summaries[1].trace.partial_reason = fixture_string(&f->summaries[1], "cut at byte 999");
    assert_ok(
        rs_trace_info_drop(&f->summaries[1].trace, &f->summaries[1].strings, "no duration", 7));
}

/* contracts section 4's check: step of 100 us, compute [5,65), communication [40,80), receive [70,80). */
static void fixture_steps(struct fixture *f)
{
    const struct rs_step_row row = {.step = 5,
                                    .has_work = true,
                                    .computing = 60000,
                                    .communication_not_overlapped = 15000,
                                    .overlapped = 25000,
                                    .communication = 40000,
                                    .free = 0,
                                    .stage = 65000,
                                    .bubble = 10000,
                                    .communication_not_overlapped_exclude_receive = 5000,
                                    .preparing = 5000,
                                    .window_start = FIXTURE_BASE,
                                    .window_end = FIXTURE_BASE + 100000,
                                    .window_computing = 60000,
                                    .window_exposed = 15000,
                                    .window_memory = 0,
                                    .idle_head = 5000,
                                    .idle_tail = 20000};
    f->steps[0] = row;
    f->steps[1] = row;
    f->steps[2] = (struct rs_step_row){.step = 6,
                                       .is_partial = true,
                                       .stage = -1,
                                       .window_start = FIXTURE_BASE + 100000,
                                       .window_end = FIXTURE_BASE + 101000,
                                       .idle_head = 1000};
    f->summaries[0].steps = &f->steps[0];
    f->summaries[0].step_count = 1;
    f->summaries[1].steps = &f->steps[1];
    f->summaries[1].step_count = 2;
    f->p2p_wait[1] = 1500;
}

static void fixture_ops(struct fixture *f)
{
    f->comm[0][0] = fixture_op(RS_OP_ALL_REDUCE, 1000, 9000, 4096000);
    f->comm[1][0] = fixture_op(RS_OP_ALL_REDUCE, 4000, 9001, 4096000);
    f->comm[0][1] = fixture_op(RS_OP_SEND, 20000, 30000, 5000000);
    f->comm[1][1] = fixture_op(RS_OP_RECV, 18500, 30000, 5000000);
    f->comm[1][2] = fixture_op(RS_OP_ALL_REDUCE, 100500, 101000, -1);
    f->comm[1][2].flags = RS_OP_NO_CALL | RS_OP_UNFINISHED | RS_OP_ON_DEVICE;
    f->comm[1][2].step = 6;
    f->comm[1][2].group = RS_NO_GROUP;
    const rs_str tcp = fixture_string(&f->summaries[0], "TCP");
    const rs_str tcp1 = fixture_string(&f->summaries[1], "TCP");
    /* One hop each way; both ends recorded 0 -> 1, only the sender 1 -> 0. */
    f->tasks[0] = (struct rs_comm_task){0, 1, true, 2000000, 1000, 2000, tcp};
    f->tasks[1] = (struct rs_comm_task){0, 1, false, 2000000, 4000, 8000, tcp1};
    f->tasks[2] = (struct rs_comm_task){1, 0, true, 2000000, 8000, 8500, tcp1};
    f->comm[0][0].task_count = 1;
    f->comm[1][0].task_first = 1;
    f->comm[1][0].task_count = 2;
    for (int i = 0; i < 2; i++) {
        f->summaries[i].ops = f->comm[i];
        f->summaries[i].op_count = i == 0 ? 2 : 3;
        f->summaries[i].tasks = f->tasks;
        f->summaries[i].task_count = 3;
    }
}

static void fixture_join(struct fixture *f)
{
    f->group_ranks[0] = 0;
    f->group_ranks[1] = 1;
    f->groups[0] = (struct rs_job_group){
        .text = fixture_group_text, .ranks = f->group_ranks, .rank_count = 2, .size = 3};
    f->ops[0] = (struct rs_job_op){.step = 5,
                                   .type = RS_OP_ALL_REDUCE,
                                   .is_matched = true,
                                   .last_rank = 1,
                                   .ranks_expected = 3,
                                   .coverage = RS_COVERAGE_EXACT,
                                   .has_wait = true,
                                   .row_count = 2};
    f->ops[1] = (struct rs_job_op){.step = 5,
                                   .type = RS_OP_SEND,
                                   .is_p2p = true,
                                   .is_matched = true,
                                   .last_rank = 0,
                                   .ranks_expected = 2,
                                   .coverage = RS_COVERAGE_EXACT,
                                   .has_wait = true,
                                   .row_first = 2,
                                   .row_count = 2};
    f->ops[2] = (struct rs_job_op){.step = 6,
                                   .group = RS_NO_GROUP,
                                   .type = RS_OP_ALL_REDUCE,
                                   .seq = -1,
                                   .last_rank = -1,
                                   .ranks_expected = -1,
                                   .coverage = RS_COVERAGE_PARTIAL,
                                   .has_wait = true,
                                   .row_first = 4,
                                   .row_count = 1};
    f->rows[0] = (struct rs_job_row){0, 0, 0, 3000, 5000, true, false, true};
    f->rows[1] = (struct rs_job_row){1, 0, 1, 0, 5001, true, false, true};
    f->rows[2] = (struct rs_job_row){0, 1, 0, 0, 10000, true, false, true};
    f->rows[3] = (struct rs_job_row){1, 1, 1, 1500, 10000, true, false, true};
    f->rows[4] = (struct rs_job_row){1, 2, 1, 0, 0, false, true, true};
    f->ranks[0] = (struct rs_job_rank){.rank = 0, .own_wait = 3000, .takes_part = true};
    f->ranks[1] = (struct rs_job_rank){.rank = 1,
                                       .summary = 1,
                                       .ops_last = 1,
                                       .caused_wait = 3000,
                                       .own_wait = 1500,
                                       .step_base = 1,
                                       .p2p_wait = 1500,
                                       .takes_part = true};
    f->links[0] = (struct rs_job_link){.src = 0,
                                       .dst = 1,
                                       .transport = "TCP",
                                       .bytes = 7000000,
                                       .count = 2,
                                       .busy = 14000,
                                       .median_bytes_per_s = 5e8};
}

static void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    fixture_ranks(f);
    fixture_steps(f);
    fixture_ops(f);
    fixture_join(f);
    f->missing[0] = 2;
    f->notes[0] = fixture_note;
    f->places[0] = (struct rs_place){.kind = RS_PLACE_RANK,
                                     .rank = 1,
                                     .src = -1,
                                     .dst = -1,
                                     .stage = -1,
                                     .dp = -1,
                                     .group = UINT32_MAX};
    f->evidence[0] = (struct rs_evidence){.what = RS_EVIDENCE_OWN_WORK,
                                          .figure = RS_FIGURE_COMPUTING,
                                          .rank = 1,
                                          .peer = RS_NULL,
                                          .step = RS_NULL,
                                          .group = UINT32_MAX,
                                          .value = 8010000,
                                          .reference = 4710000,
                                          .bound = RS_NULL,
                                          .bytes = RS_NULL,
                                          .seen = 1,
                                          .of = 1,
                                          .start_ns = RS_NULL,
                                          .dur_ns = RS_NULL};
    f->findings[0] = (struct rs_finding){.kind = RS_FINDING_SLOW_RANK,
                                         .places = f->places,
                                         .place_count = 1,
                                         .cost_ns_per_step = 3000,
                                         .cost_low_ns = 2900,
                                         .cost_high_ns = 3100,
                                         .share = 0.03,
                                         .explains = 0.9,
                                         .confidence = RS_CONFIDENCE_EXACT,
                                         .steps = {1, 1, 1, 0, 5, false},
                                         .test = {1.7, 0.004, 1.03, 2, 0.01, 1e-6},
                                         .evidence = f->evidence,
                                         .evidence_count = 1};
    f->diagnosis = (struct rs_diagnosis){.findings = f->findings,
                                         .finding_count = 1,
                                         .loss = {.step_ns = 100000,
                                                  .ideal_ns = 96667,
                                                  .recoverable_ns = 3333,
                                                  .slowdown = 1.0345,
                                                  .single_culprit = true,
                                                  .spread_share = 0.1},
                                         .silence = RS_SILENCE_NONE,
                                         .judged_ranks = 2,
                                         .judged_steps = 1};
    f->analysis = (struct rs_analysis){.summaries = f->lent,
                                       .summary_count = 2,
                                       .ranks = f->ranks,
                                       .world_size = 3,
                                       .missing_ranks = f->missing,
                                       .missing_count = 1,
                                       .groups = f->groups,
                                       .group_count = 1,
                                       .ops = f->ops,
                                       .op_count = 3,
                                       .rows = f->rows,
                                       .row_count = 5,
                                       .step_p2p_wait = f->p2p_wait,
                                       .links = f->links,
                                       .link_count = 1,
                                       .one_clock = true,
                                       .mean_step_ns = 100000,
                                       .complete_steps = 1,
                                       .diagnosis = &f->diagnosis,
                                       .notes = f->notes,
                                       .note_count = 1};
}

/* Rows are members of the fixture: only strings and trace info are on the heap. */
static void fixture_fini(struct fixture *f)
{
    for (int i = 0; i < 2; i++) {
        rs_strtab_fini(&f->summaries[i].strings);
        rs_trace_info_fini(&f->summaries[i].trace);
    }
}

#endif
