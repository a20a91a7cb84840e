/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native COMM rows -> operations, their COMM_TASK rows -> tasks. The program itself said type, group,
 * sequence, bytes and peers. A task belongs to the operation with its correlation, or, on a device, to the
 * kernel with its external id; one whose operation was not recorded is dropped and counted.
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

static int32_t as_rank(int64_t value, bool is_known)
{
    return is_known && value >= 0 && value <= INT32_MAX ? (int32_t)value : -1;
}

/* Global ranks: a pair has both ends, broadcast and scatter the root as source, reduce and gather as
 * destination. */
static void set_ends(const struct rs_reduce *reduce, const struct rs_comm *comm,
                     struct rs_comm_op *op)
{
    const int32_t src = as_rank(comm->src, comm->has & RS_COMM_HAS_SRC);
    const int32_t dst = as_rank(comm->dst, comm->has & RS_COMM_HAS_DST);
    switch ((enum rs_op_type)op->type) {
    case RS_OP_SEND:
        op->peer = dst;
        return;
    case RS_OP_RECV:
        op->peer = src;
        return;
    case RS_OP_SEND_RECV:
        op->peer = dst >= 0 && dst != reduce->info->rank ? dst : src;
        op->flags |= RS_OP_IS_BATCH;
        return;
    case RS_OP_BROADCAST:
    case RS_OP_SCATTER:
    case RS_OP_REDUCE:
    case RS_OP_GATHER:
        op->root = src >= 0 ? src : dst;
        return;
    case RS_OP_UNKNOWN:
    case RS_OP_ALL_REDUCE:
    case RS_OP_ALL_GATHER:
    case RS_OP_REDUCE_SCATTER:
    case RS_OP_ALL_TO_ALL:
    case RS_OP_BARRIER:
    case RS_OP_TYPE_COUNT:
        return;
    }
}

static enum rs_status push_op(struct rs_reduce *reduce, const struct reduce_native *native)
{
    struct rs_comm_op op = comm_op_none();
    const int64_t thread = reduce->lanes->items[native->lane].thread;
    op.stream = thread;
    op.caller_thread = thread;
    op.name = native->name;
    op.start = native->start;
    op.end = native->end;
    op.call_start = native->start;
    op.flags = (native->flags & RS_EVENT_UNFINISHED) ? RS_OP_UNFINISHED : 0;
    op.step = comm_step(reduce, REDUCE_NS_UNKNOWN, native->start, -1);
    if (native->comm == REDUCE_NONE)
        return comm_op_push(reduce, &op);
    const struct rs_comm *comm = &reduce->comms.items[native->comm];
    if (comm->collective != RS_STR_NONE)
        op.type = (uint8_t)rs_op_type_of_text(rs_strtab_text(reduce->strings, comm->collective),
                                              rs_strtab_length(reduce->strings, comm->collective));
    const enum rs_status status = groups_find(reduce, comm, &op.group);
    if (status != RS_OK)
        return status;
    comm_set_identity(comm, &op);
    set_ends(reduce, comm, &op);
    op.transport = comm->transport;
    if ((comm->has & RS_COMM_HAS_BYTES) && comm->bytes >= 0 &&
        (comm->bytes > 0 || op.type != RS_OP_BARRIER))
        op.bytes = comm->bytes;
    return comm_op_push(reduce, &op);
}

/* By correlation, then by start. */
static enum rs_status sort_tasks(const struct rs_reduce *reduce, struct sort_item *items)
{
    const size_t count = reduce->native_tasks.count;
    for (size_t i = 0; i < count; i++)
        items[i] = (struct sort_item){reduce->native_tasks.items[i].start, i};
    enum rs_status status = sort_items(items, count);
    for (size_t i = 0; i < count; i++)
        items[i].key = reduce->native_tasks.items[items[i].value].correlation;
    if (status == RS_OK)
        status = sort_items(items, count);
    return status;
}

static size_t first_task(const struct sort_item *items, size_t count, int64_t correlation)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (items[middle].key < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum rs_status push_task(struct rs_reduce *reduce, const struct reduce_native *native)
{
    struct rs_summary *summary = reduce->summary;
    struct rs_comm_task task = {.src = -1,
                                .dst = -1,
                                .bytes = -1,
                                .start = native->start,
                                .end = native->end,
                                .transport = RS_STR_NONE};
    if (native->comm != REDUCE_NONE) {
        const struct rs_comm *comm = &reduce->comms.items[native->comm];
        task.src = as_rank(comm->src, comm->has & RS_COMM_HAS_SRC);
        task.dst = as_rank(comm->dst, comm->has & RS_COMM_HAS_DST);
        task.transport = comm->transport;
        if ((comm->has & RS_COMM_HAS_BYTES) && comm->bytes >= 0)
            task.bytes = comm->bytes;
    }
    task.is_send = task.src >= 0 && task.src == reduce->info->rank;
    if (summary->task_count >= REDUCE_NONE - 1)
        return RS_LIMIT;
    const enum rs_status status = rs_mem_grow((void **)&summary->tasks, &summary->task_capacity,
                                              summary->task_count + 1, sizeof *summary->tasks);
    if (status == RS_OK)
        summary->tasks[summary->task_count++] = task;
    return status;
}

/* The hops of device operations; `items` is scratch for all tasks. */
static enum rs_status build_device_tasks(struct rs_reduce *reduce, struct sort_item *items)
{
    struct rs_summary *summary = reduce->summary;
    const size_t tasks = reduce->native_tasks.count;
    if (!reduce->kernel_ids.count)
        return RS_OK;
    for (size_t i = 0; i < tasks; i++)
        items[i] = (struct sort_item){reduce->native_tasks.items[i].start, i};
    enum rs_status status = sort_items(items, tasks);
    for (size_t i = 0; i < tasks; i++)
        items[i].key = reduce->native_tasks.items[items[i].value].external_id;
    if (status == RS_OK)
        status = sort_items(items, tasks);
    for (size_t i = 0; status == RS_OK && i < reduce->kernel_ids.count; i++) {
        const struct sort_item *kernel = &reduce->kernel_ids.items[i];
        struct rs_comm_op *op = &summary->ops[kernel->value];
        const uint32_t first = (uint32_t)summary->task_count;
        size_t at = first_task(items, tasks, kernel->key);
        for (; status == RS_OK && at < tasks && items[at].key == kernel->key; at++) {
            struct reduce_native *task = &reduce->native_tasks.items[items[at].value];
            if (task->is_taken)
                continue;
            task->is_taken = true;
            status = push_task(reduce, task);
        }
        op->task_first = first;
        op->task_count = (uint32_t)summary->task_count - first;
    }
    return status;
}

enum rs_status comm_native_build(struct rs_reduce *reduce)
{
    struct rs_summary *summary = reduce->summary;
    const size_t tasks = reduce->native_tasks.count;
    struct sort_item *items = rs_mem_calloc(tasks + 1, sizeof *items);
    enum rs_status status = items ? sort_tasks(reduce, items) : RS_NOMEM;
    for (size_t i = 0; status == RS_OK && i < reduce->native_comms.count; i++) {
        const struct reduce_native *native = &reduce->native_comms.items[i];
        status = push_op(reduce, native);
        if (status != RS_OK || native->correlation < 0)
            continue;
        const uint32_t first = (uint32_t)summary->task_count;
        size_t at = first_task(items, tasks, native->correlation);
        for (; status == RS_OK && at < tasks && items[at].key == native->correlation; at++) {
            struct reduce_native *task = &reduce->native_tasks.items[items[at].value];
            if (task->is_taken) /* two operations of one number: the first has the tasks */
                continue;
            task->is_taken = true;
            status = push_task(reduce, task);
        }
        struct rs_comm_op *op = &summary->ops[summary->op_count - 1];
        op->task_first = first;
        op->task_count = (uint32_t)summary->task_count - first;
    }
    if (status == RS_OK)
        status = build_device_tasks(reduce, items);
    for (size_t i = 0; i < tasks; i++)
        reduce->lost_tasks += !reduce->native_tasks.items[i].is_taken;
    rs_mem_free(items);
    return status;
}
