/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Summaries as the reducer would write them: kernels of one stream between two cuts (calls of operations, host waits,
 * bounds of steps, launches on another stream) are one span. See common/reduce/summary.h.
 */
#include "common/base/mem.h"
#include "common/reduce/classify.h"
#include "tests/bench/culprits/record.h"
#include "tests/support/make_summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCH_S = 1750000000 };

struct recorder {
    const struct job *job;
    uint32_t rank;
    struct rs_summary *summary;
    uint32_t *groups; /* [group] index in the summary; NOBODY */
    rs_str name;
    int64_t order;
    size_t open[STREAM_COUNT]; /* span of the stream since the last cut; SIZE_MAX */
    int newest;                /* stream that computed last since then; -1 */
};

int64_t record_stream(const struct item *item)
{
    static const int64_t streams[STREAM_COUNT] = {7, 20, 24, 28, 32, 36, 40, 44};
    return streams[item->stream];
}

static void must(bool ok)
{
    if (!ok) {
        (void)fprintf(stderr, "culprits: out of memory\n");
        abort();
    }
}

static rs_ns shown(const struct recorder *recorder, int64_t at)
{
    return job_clock(recorder->job, recorder->rank, at) + (rs_ns)EPOCH_S * RS_NS_PER_S;
}

static void cut(struct recorder *recorder)
{
    for (size_t s = 0; s < STREAM_COUNT; s++) {
        recorder->open[s] = SIZE_MAX;
    }
    recorder->newest = -1;
}

static struct rs_span_row *new_span(struct recorder *recorder)
{
    struct rs_summary *summary = recorder->summary;
    must(rs_mem_grow((void **)&summary->spans, &summary->span_capacity, summary->span_count + 1,
                     sizeof *summary->spans) == RS_OK);
    return &summary->spans[summary->span_count++];
}

/* Statistics by name: all that was launched together has one. */
static void count_kernel(struct recorder *recorder, uint32_t kernels, rs_dur length)
{
    struct rs_summary *summary = recorder->summary;
    char name[32];
    (void)snprintf(name, sizeof name, "work_%u", kernels);
    const rs_str id = make_text(summary, name);
    size_t i = 0;
    while (i < summary->kernel_count && summary->kernels[i].name != id) {
        i++;
    }
    if (i == summary->kernel_count) {
        must(rs_mem_grow((void **)&summary->kernels, &summary->kernel_capacity,
                         summary->kernel_count + 1, sizeof *summary->kernels) == RS_OK);
        summary->kernels[summary->kernel_count++] =
            (struct rs_kernel_row){.name = id,
                                   .device = (int32_t)(recorder->rank % recorder->job->host_size),
                                   .work_class = RS_WORK_COMPUTING,
                                   .min = length};
    }
    struct rs_kernel_row *row = &summary->kernels[i];
    row->count += kernels;
    row->total += length;
    row->min = length < row->min ? length : row->min;
    row->max = length > row->max ? length : row->max;
}

static void add_work(struct recorder *recorder, const struct item *item)
{
    struct rs_summary *summary = recorder->summary;
    if (recorder->newest >= 0 && recorder->newest != item->stream) {
        cut(recorder);
    }
    recorder->newest = item->stream;
    size_t *open = &recorder->open[item->stream];
    const rs_ns start = shown(recorder, item->start), end = shown(recorder, item->end);
    const uint32_t kernels = item->kind == ITEM_OP ? 1 : item->kernels;
    if (*open == SIZE_MAX) {
        struct rs_span_row *span = new_span(recorder);
        *open = (size_t)(span - summary->spans);
        *span = (struct rs_span_row){.step = item->step,
                                     .device = (int32_t)(recorder->rank % recorder->job->host_size),
                                     .stream = record_stream(item),
                                     .thread = 1,
                                     .order = recorder->order++,
                                     .kind = RS_SPAN_COMPUTING,
                                     .launch_first = shown(recorder, item->launch),
                                     .start = start,
                                     .signature = 1,
                                     .top_name = recorder->name};
    }
    struct rs_span_row *span = &summary->spans[*open];
    span->launch_last = shown(recorder, item->launch);
    span->end = end;
    span->busy += end - start;
    span->count += kernels;
    span->signature = span->signature * 31 + kernels;
    count_kernel(recorder, kernels, end - start);
    span->top_ns = end - start > span->top_ns ? end - start : span->top_ns;
}

static void add_wait(struct recorder *recorder, const struct item *item)
{
    cut(recorder);
    struct rs_span_row *span = new_span(recorder);
    const rs_ns start = shown(recorder, item->start);
    *span = (struct rs_span_row){.step = item->step,
                                 .device = (int32_t)(recorder->rank % recorder->job->host_size),
                                 .stream = -1,
                                 .thread = 1,
                                 .order = recorder->order++,
                                 .kind = RS_SPAN_HOST_WAIT,
                                 .launch_first = start,
                                 .launch_last = start,
                                 .start = start,
                                 .end = shown(recorder, item->end),
                                 .top_name = RS_STR_NONE};
}

static uint32_t group_of(struct recorder *recorder, uint32_t group)
{
    const struct group *own = &recorder->job->groups[group];
    if (recorder->groups[group] == NOBODY) {
        int32_t *ranks = rs_mem_calloc(own->count, sizeof *ranks);
        must(ranks != NULL);
        for (size_t i = 0; i < own->count; i++) {
            ranks[i] = (int32_t)own->ranks[i];
        }
        recorder->groups[group] = make_group(recorder->summary, own->name, ranks, own->count);
        rs_mem_free(ranks);
    }
    return recorder->groups[group];
}

static void add_op(struct recorder *recorder, const struct item *item)
{
    static const enum rs_op_type types[] = {RS_OP_ALL_REDUCE, RS_OP_REDUCE_SCATTER,
                                            RS_OP_ALL_GATHER, RS_OP_SEND, RS_OP_RECV};
    const struct job *job = recorder->job;
    cut(recorder);
    struct rs_comm_op *op = make_op(recorder->summary, types[item->op],
                                    shown(recorder, item->start), shown(recorder, item->end));
    op->step = item->step;
    op->flags = RS_OP_ON_DEVICE;
    op->device = (int32_t)(recorder->rank % job->host_size);
    op->stream = record_stream(item);
    op->caller_thread = 1;
    op->call_order = recorder->order++;
    op->call_start = shown(recorder, item->launch);
    if (job->has_arguments) {
        op->bytes = item->bytes;
        op->peer = item->group == NOBODY ? (int32_t)item->peer : -1;
        const uint32_t group =
            item->group != NOBODY ? group_of(recorder, item->group) : RS_NO_GROUP;
        recorder->summary->ops[recorder->summary->op_count - 1].group = group;
        op = &recorder->summary->ops[recorder->summary->op_count - 1];
        if (job->has_hosts && item->group != NOBODY) {
            op->seq = job->meetings[item->meeting].first; /* grows within each group */
        }
    }
}

static void add_steps(struct recorder *recorder)
{
    const struct job *job = recorder->job;
    for (uint32_t k = 1; k <= job->steps; k++) {
        const size_t at = (size_t)recorder->rank * (job->steps + 1) + k;
        struct rs_step_row *row =
            make_step(recorder->summary, k, shown(recorder, job->step_start[at]),
                      shown(recorder, job->step_end[at]));
        row->device = (int32_t)(recorder->rank % job->host_size);
        row->input_ns = job->inputs[at];
    }
}

void record_summary(const struct job *job, uint32_t rank, struct rs_summary *summary)
{
    char host[32];
    (void)snprintf(host, sizeof host, "node%03u", job_host(job, rank));
    make_summary_init(summary, (int32_t)rank, job->has_hosts ? host : NULL);
    summary->trace.world_size = (int32_t)job->ranks;
    struct recorder recorder = {.job = job, .rank = rank, .summary = summary};
    recorder.name = make_text(summary, "gemm");
    recorder.groups = rs_mem_calloc(job->group_count + 1, sizeof *recorder.groups);
    summary->devices = rs_mem_calloc(1, sizeof *summary->devices);
    must(recorder.groups != NULL && summary->devices != NULL);
    for (size_t g = 0; g < job->group_count; g++) {
        recorder.groups[g] = NOBODY;
    }
    summary->device_count = 1;
    summary->devices[0].device = (int32_t)(rank % job->host_size);
    uint32_t step = 0;
    for (size_t i = job->first[rank]; i < job->first[rank + 1]; i++) {
        const struct item *item = &job->items[i];
        if (item->step == 0) {
            continue;
        }
        if (item->step != step) {
            cut(&recorder);
            step = item->step;
        }
        if (item->kind == ITEM_SYNC) {
            add_wait(&recorder, item);
        } else if (item->kind == ITEM_WORK || item->is_hidden) {
            add_work(&recorder, item);
        } else {
            add_op(&recorder, item);
        }
    }
    add_steps(&recorder);
    summary->span_start = summary->steps[0].host_start;
    rs_mem_free(recorder.groups);
}

void record_summary_fini(struct rs_summary *summary)
{
    rs_mem_free(summary->devices);
    summary->devices = NULL;
    make_summary_fini(summary);
}
