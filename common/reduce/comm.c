/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all communication operations have in common, wherever they were found; and their order.
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

struct rs_comm_op comm_op_none(void)
{
    return (struct rs_comm_op){
        .step = RS_STEP_NONE,
        .type = RS_OP_UNKNOWN,
        .device = -1,
        .stream = -1,
        .caller_thread = -1,
        .group = RS_NO_GROUP,
        .peer = -1,
        .root = -1,
        .bytes = -1,
        .seq = -1,
        .name = RS_STR_NONE,
        .transport = RS_STR_NONE,
        .op_text = RS_STR_NONE,
    };
}

int64_t comm_step(const struct rs_reduce *reduce, rs_ns call, rs_ns start, int32_t device)
{
    uint32_t step = windows_find(&reduce->host_windows, call == REDUCE_NS_UNKNOWN ? start : call);
    for (size_t slot = 0; step == REDUCE_NONE && slot < reduce->slot_count; slot++) {
        if (reduce->slots[slot] == device)
            step = windows_find(&reduce->device_windows[slot], start);
    }
    return step == REDUCE_NONE ? RS_STEP_NONE : reduce->steps.items[step].number;
}

enum rs_status comm_op_push(struct rs_reduce *reduce, const struct rs_comm_op *op)
{
    struct rs_summary *summary = reduce->summary;
    if (summary->op_count >= REDUCE_NONE - 1)
        return RS_LIMIT;
    const enum rs_status status = rs_mem_grow((void **)&summary->ops, &summary->op_capacity,
                                              summary->op_count + 1, sizeof *summary->ops);
    if (status == RS_OK)
        summary->ops[summary->op_count++] = *op;
    return status;
}

static int32_t as_rank(int64_t value)
{
    return value >= 0 && value <= INT32_MAX ? (int32_t)value : -1;
}

/* The other end or the root, from a rank within the group: global where the group's list tells, else
 * told to be within the group. */
static void set_in_group(const struct rs_reduce *reduce, struct rs_comm_op *op, int64_t rank)
{
    const bool is_p2p = rs_op_type_is_p2p((enum rs_op_type)op->type);
    const int32_t global = groups_global_rank(reduce, op->group, rank);
    int32_t *member = is_p2p ? &op->peer : &op->root;
    *member = global >= 0 ? global : as_rank(rank);
    if (global < 0 && *member >= 0)
        op->flags |= is_p2p ? RS_OP_PEER_IN_GROUP : RS_OP_ROOT_IN_GROUP;
}

static bool has_root(const struct rs_comm_op *op)
{
    return op->type == RS_OP_BROADCAST || op->type == RS_OP_REDUCE || op->type == RS_OP_GATHER ||
           op->type == RS_OP_SCATTER;
}

void comm_set_ends(const struct rs_reduce *reduce, const struct rs_comm *comm,
                   const struct message *message, struct rs_comm_op *op)
{
    const unsigned has = comm ? comm->has : 0;
    if (op->type == RS_OP_SEND && (has & RS_COMM_HAS_DST) && as_rank(comm->dst) >= 0)
        op->peer = as_rank(comm->dst);
    else if (op->type == RS_OP_RECV && (has & RS_COMM_HAS_SRC) && as_rank(comm->src) >= 0)
        op->peer = as_rank(comm->src);
    else if (op->type == RS_OP_SEND || op->type == RS_OP_RECV) {
        if (message->peer >= 0)
            set_in_group(reduce, op, message->peer);
        else if (has & RS_COMM_HAS_RANK)
            set_in_group(reduce, op, comm->rank);
    } else if (has_root(op)) {
        if (message->root >= 0)
            set_in_group(reduce, op, message->root);
        else if (has & RS_COMM_HAS_RANK)
            set_in_group(reduce, op, comm->rank);
    }
}

void comm_set_identity(const struct rs_comm *comm, struct rs_comm_op *op)
{
    if (op->seq < 0 && (comm->has & RS_COMM_HAS_SEQ) && comm->seq >= 0)
        op->seq = comm->seq;
    /* Of point-to-point the id is no identity: each rank counts for itself. */
    if (!op->comms_id && (comm->has & RS_COMM_HAS_COMMS_ID) &&
        !rs_op_type_is_p2p((enum rs_op_type)op->type))
        op->comms_id = comm->comms_id;
}

int64_t comm_group_size(const struct rs_reduce *reduce, uint32_t group)
{
    return group == RS_NO_GROUP ? -1 : reduce->summary->groups[group].size;
}

enum rs_status rs_summary_order_tasks(struct rs_summary *summary)
{
    size_t kept = 0, total = 0;
    for (size_t i = 0; i < summary->op_count; i++)
        total += summary->ops[i].task_count;
    if (total != summary->task_count) /* a stranger's: hops of several operations, or of none */
        return RS_OK;
    struct rs_comm_task *ordered = rs_mem_calloc(summary->task_count + 1, sizeof *ordered);
    if (!ordered)
        return RS_NOMEM;
    for (size_t i = 0; i < summary->op_count; i++) {
        struct rs_comm_op *op = &summary->ops[i];
        const struct rs_comm_task *from = summary->tasks + op->task_first;
        op->task_first = (uint32_t)kept;
        for (uint32_t k = 0; k < op->task_count; k++)
            ordered[kept++] = from[k];
    }
    rs_mem_free(summary->tasks);
    summary->tasks = ordered;
    summary->task_capacity = summary->task_count + 1;
    return RS_OK;
}

/* By the call's time, then by the operation's own. */
enum rs_status comm_order(struct rs_reduce *reduce)
{
    struct rs_summary *summary = reduce->summary;
    const size_t count = summary->op_count;
    if (!count)
        return RS_OK;
    struct sort_item *items = rs_mem_calloc(count, sizeof *items);
    struct rs_comm_op *copy = rs_mem_calloc(count, sizeof *copy);
    enum rs_status status = items && copy ? RS_OK : RS_NOMEM;
    if (status == RS_OK) {
        for (size_t i = 0; i < count; i++) {
            copy[i] = summary->ops[i];
            items[i] = (struct sort_item){copy[i].start, i};
        }
        status = sort_items(items, count);
    }
    if (status == RS_OK) {
        for (size_t i = 0; i < count; i++)
            items[i].key = copy[items[i].value].call_start;
        status = sort_items(items, count);
    }
    for (size_t i = 0; status == RS_OK && i < count; i++) {
        summary->ops[i] = copy[items[i].value];
        summary->ops[i].call_order = (int64_t)i;
    }
    if (status == RS_OK)
        status = rs_summary_order_tasks(summary);
    rs_mem_free(items);
    rs_mem_free(copy);
    return status;
}
