/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank without a device: the CPU is the device, number -1.
 *
 *   communication  each gloo:* row, each native COMM row
 *   computing      per thread: union of its operators, without the calls (c10d::*) and without what
 *                  communicates on this same thread
 *
 * The pieces become work rows, so that everything behind this file sees one kind of rank.
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

#include <string.h>

struct lane_work {
    struct intervals ops, calls, comms, idle; /* idle: what is taken away from ops */
    struct intervals pieces;
};

static void lane_work_fini(struct lane_work *lane)
{
    intervals_fini(&lane->ops);
    intervals_fini(&lane->calls);
    intervals_fini(&lane->comms);
    intervals_fini(&lane->idle);
    intervals_fini(&lane->pieces);
}

static enum rs_status push_work(struct rs_reduce *reduce, struct interval span, uint32_t lane,
                                rs_str name, uint8_t work_class)
{
    enum rs_status status;
    REDUCE_PUSH(&reduce->work, status,
                (struct reduce_work){.start = span.start,
                                     .end = span.end,
                                     .correlation = -1,
                                     .lane = lane,
                                     .name = name,
                                     .work_class = work_class,
                                     .step = REDUCE_NONE});
    return status;
}

static enum rs_status push_computing(struct rs_reduce *reduce, struct lane_work *work,
                                     uint32_t lane)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; status == RS_OK && i < work->calls.count; i++)
        status = intervals_push(&work->idle, work->calls.items[i].start, work->calls.items[i].end);
    for (size_t i = 0; status == RS_OK && i < work->comms.count; i++)
        status = intervals_push(&work->idle, work->comms.items[i].start, work->comms.items[i].end);
    if (status == RS_OK)
        status = intervals_normalise(&work->idle);
    if (status == RS_OK)
        status = intervals_normalise(&work->ops);
    if (status == RS_OK)
        status = intervals_subtract(&work->ops, &work->idle, &work->pieces);
    for (size_t i = 0; status == RS_OK && i < work->pieces.count; i++)
        status = push_work(reduce, work->pieces.items[i], lane, RS_STR_NONE, RS_WORK_COMPUTING);
    return status;
}

static enum rs_status collect(struct rs_reduce *reduce, struct lane_work *lanes)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; status == RS_OK && i < reduce->cpu_ops.count; i++) {
        const struct reduce_cpu_op *op = &reduce->cpu_ops.items[i];
        struct lane_work *lane = &lanes[op->lane];
        status = intervals_push(op->is_call ? &lane->calls : &lane->ops, op->start, op->end);
    }
    for (size_t i = 0; status == RS_OK && i < reduce->calls.count; i++) {
        const struct reduce_call *call = &reduce->calls.items[i];
        const struct interval span = {call->start, call->end};
        if (call->host_name != RS_HOST_GLOO)
            continue;
        status = intervals_push(&lanes[call->lane].comms, span.start, span.end);
        if (status == RS_OK)
            status = push_work(reduce, span, call->lane, call->name, RS_WORK_COMMUNICATION);
    }
    for (size_t i = 0; status == RS_OK && i < reduce->native_comms.count; i++) {
        const struct reduce_native *comm = &reduce->native_comms.items[i];
        const struct interval span = {comm->start, comm->end};
        status = intervals_push(&lanes[comm->lane].comms, span.start, span.end);
        if (status == RS_OK)
            status = push_work(reduce, span, comm->lane, comm->name, RS_WORK_COMMUNICATION);
    }
    return status;
}

enum rs_status host_work_build(struct rs_reduce *reduce)
{
    const size_t count = reduce->lanes->count;
    if (reduce->has_device_work || !count)
        return RS_OK;
    struct lane_work *lanes = rs_mem_calloc(count, sizeof *lanes);
    if (!lanes)
        return RS_NOMEM;
    enum rs_status status = collect(reduce, lanes);
    for (size_t i = 0; status == RS_OK && i < count; i++)
        status = push_computing(reduce, &lanes[i], (uint32_t)i);
    for (size_t i = 0; i < count; i++)
        lane_work_fini(&lanes[i]);
    rs_mem_free(lanes);
    return status;
}
