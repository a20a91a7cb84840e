/* SPDX-License-Identifier: Apache-2.0 */
/* Rank summaries by hand: see the header. */
#include "tests/support/make_summary.h"

#include "common/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(bool ok)
{
    if (!ok) {
        (void)fprintf(stderr, "make_summary: out of memory\n");
        abort();
    }
}

void make_summary_init(struct rs_summary *summary, int32_t rank, const char *host)
{
    memset(summary, 0, sizeof *summary);
    need(rs_strtab_init(&summary->strings, 0) == RS_OK);
    summary->trace = (struct rs_trace_info){
        .rank = rank,
        .rank_source = RS_RANK_METADATA,
        .world_size = -1,
        .host = host != NULL ? make_text(summary, host) : RS_STR_NONE,
        .trace_id = RS_STR_NONE,
        .backend = RS_STR_NONE,
        .generation = RS_STR_NONE,
        .metadata = RS_STR_NONE,
        .partial_reason = RS_STR_NONE,
        .has_time_base = true,
    };
    summary->step_origin = RS_STEPS_NATIVE;
}

void make_summary_fini(struct rs_summary *summary)
{
    for (size_t i = 0; i < summary->group_count; i++) {
        rs_mem_free(summary->groups[i].ranks);
    }
    rs_mem_free(summary->groups);
    rs_mem_free(summary->ops);
    rs_mem_free(summary->tasks);
    rs_mem_free(summary->steps);
    rs_mem_free(summary->spans);
    rs_strtab_fini(&summary->strings);
    memset(summary, 0, sizeof *summary);
}

rs_str make_text(struct rs_summary *summary, const char *text)
{
    rs_str id;
    need(rs_strtab_add(&summary->strings, text, strlen(text), &id) == RS_OK);
    return id;
}

uint32_t make_group(struct rs_summary *summary, const char *name, const int32_t *ranks,
                    size_t count)
{
    need(rs_mem_grow((void **)&summary->groups, &summary->group_capacity, summary->group_count + 1,
                     sizeof *summary->groups) == RS_OK);
    struct rs_group_info *group = &summary->groups[summary->group_count];
    *group = (struct rs_group_info){
        .name = name != NULL ? make_text(summary, name) : RS_STR_NONE,
        .description = RS_STR_NONE,
        .size = count > 0 ? (int64_t)count : -1,
        .rank_count = count,
    };
    if (count > 0) {
        group->ranks = rs_mem_calloc(count, sizeof *group->ranks);
        need(group->ranks != NULL);
        memcpy(group->ranks, ranks, count * sizeof *ranks);
    }
    return (uint32_t)summary->group_count++;
}

struct rs_comm_op *make_op(struct rs_summary *summary, enum rs_op_type type, rs_ns start, rs_ns end)
{
    need(rs_mem_grow((void **)&summary->ops, &summary->op_capacity, summary->op_count + 1,
                     sizeof *summary->ops) == RS_OK);
    struct rs_comm_op *op = &summary->ops[summary->op_count];
    *op = (struct rs_comm_op){
        .step = RS_STEP_NONE,
        .type = (uint8_t)type,
        .device = -1,
        .caller_thread = -1,
        .group = RS_NO_GROUP,
        .peer = -1,
        .root = -1,
        .bytes = -1,
        .seq = -1,
        .call_order = (int64_t)summary->op_count,
        .call_start = start,
        .start = start,
        .end = end,
        .name = RS_STR_EMPTY,
        .transport = RS_STR_NONE,
        .op_text = RS_STR_NONE,
        .task_first = (uint32_t)summary->task_count,
    };
    if (summary->op_count == 0 || start < summary->span_start) {
        summary->span_start = start;
    }
    summary->span_end = end > summary->span_end ? end : summary->span_end;
    summary->op_count++;
    return op;
}

void make_task(struct rs_summary *summary, const struct rs_comm_task *task)
{
    need(rs_mem_grow((void **)&summary->tasks, &summary->task_capacity, summary->task_count + 1,
                     sizeof *summary->tasks) == RS_OK);
    summary->tasks[summary->task_count++] = *task;
    summary->ops[summary->op_count - 1].task_count++;
}

struct rs_step_row *make_step(struct rs_summary *summary, int64_t step, rs_ns start, rs_ns end)
{
    need(rs_mem_grow((void **)&summary->steps, &summary->step_capacity, summary->step_count + 1,
                     sizeof *summary->steps) == RS_OK);
    struct rs_step_row *row = &summary->steps[summary->step_count++];
    *row = (struct rs_step_row){
        .step = step,
        .device = -1,
        .has_work = true,
        .host_start = start,
        .host_end = end,
        .window_start = start,
        .window_end = end,
        .idle_inside = end - start,
        .cpu_ns = -1,
        .input_ns = -1,
        .input_inside_ns = -1,
    };
    return row;
}

uint64_t make_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * 0x2545f4914f6cdd1dU;
}

int64_t make_random_range(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)((make_random(state) >> 1) % (uint64_t)(high - low + 1));
}
