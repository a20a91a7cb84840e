/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communication kernels -> operations.
 *
 * A *call* is the outermost c10d row, argument row or annotation on a thread, with what lies inside:
 *
 *   c10d::allreduce_ [-------------------------------]      the type and the host's time
 *     record_param_comms [-------------------------]        elements, type, group, sequence
 *       nccl:all_reduce    [--------------------]           input tensors
 *         cudaLaunchKernel     [--]  -- correlation -->  ncclDevKernel_AllReduce_...
 *
 * Kernels launched inside one call on one device are one operation, from the first start to the last end.
 *
 * A coalesced batch (batch_isend_irecv, coalescing of collectives) launches after its calls, inside
 * "nccl:coalesced" or inside none: it takes the calls of this thread since the previous launch that
 * launched nothing themselves. Point-to-point ones become one send_recv; in one direction and with one peer, a
 * send or a receive.
 *
 * A kernel that its source calls communication (HCCL: one row per operation, with its own name) is an operation
 * whatever call it was launched in.
 *
 * DeepEP launches its kernels in no call: dispatch and combine are each an operation of all ranks that exchange tokens. A rank
 * arrives where its notify kernel begins, which waits for the others; how tokens are laid out is its own business:
 *
 *   get_dispatch_layout | notify_dispatch [ waits ] (host reads the counts) dispatch [------]      one all_to_all
 *                       |<------------------------------- operation ----------------------->|
 *
 * When no launch of a communication kernel is recorded at all, kernels and calls are paired in order, if there are as many of the
 * one as of the other and every pair fits. A kernel that finds no call and has no argument
 * columns is listed as RS_OP_NO_CALL.
 */
#include "common/base/mem.h"
#include "common/reduce/comm_expert.h"
#include "common/reduce/reduce_priv.h"

#include <string.h>

enum { COUNTED_PEERS = 64 }; /* a pipeline has few; beyond them batches bear no number */

struct call_root {
    rs_ns start, end;
    uint32_t lane;
    uint32_t first, count; /* its rows in `calls` */
    uint8_t type;          /* enum rs_op_type of the outermost row that tells */
    bool is_coalesced;     /* a launch of calls made before */
    bool is_used;
    uint32_t op; /* newest operation made of it, or REDUCE_NONE */
};

struct builder {
    struct rs_reduce *reduce;
    uint32_t *calls; /* indexes of calls by (lane, start, longest first) */
    size_t call_count;
    struct call_root *roots; /* by (lane, start) */
    size_t root_count;
    struct sort_item *by_external; /* external id -> root */
    size_t external_count;
    /* walking kernels by (lane, time) of their launch */
    uint32_t lane;
    size_t pending_from; /* roots before it are done with */
    uint32_t last_batch; /* op of the newest batch without a root, while no other root came */
    struct batch_count { /* batches of this lane that exchange with a peer, launched or not */
        int32_t peer;
        uint32_t group, count;
        size_t segment; /* the last that was counted: the root behind it */
    } counts[COUNTED_PEERS];
    size_t count_count;
    const struct reduce_work
        *notify; /* of the experts' next operation; NULL none. In reduce->work */
};

/* ---- calls ---- */

static bool is_coalesced_name(const struct rs_reduce *reduce, rs_str name)
{
    const char *text = rs_strtab_text(reduce->strings, name);
    return memmem(text, rs_strtab_length(reduce->strings, name), "coalesced", 9) != NULL;
}

static enum rs_status sort_calls(struct builder *b)
{
    const struct rs_reduce *reduce = b->reduce;
    const size_t count = reduce->calls.count;
    struct sort_item *items = rs_mem_calloc(count + 1, sizeof *items);
    b->calls = rs_mem_calloc(count + 1, sizeof *b->calls);
    if (!items || !b->calls) {
        rs_mem_free(items);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const struct reduce_call *call = &reduce->calls.items[i];
        if (call->host_name != RS_HOST_GLOO)
            items[b->call_count++] = (struct sort_item){call->start - call->end, i};
    }
    enum rs_status status = sort_items(items, b->call_count);
    for (size_t i = 0; i < b->call_count; i++)
        items[i].key = reduce->calls.items[items[i].value].start;
    if (status == RS_OK)
        status = sort_items(items, b->call_count);
    for (size_t i = 0; i < b->call_count; i++)
        items[i].key = reduce->calls.items[items[i].value].lane;
    if (status == RS_OK)
        status = sort_items(items, b->call_count);
    for (size_t i = 0; i < b->call_count; i++)
        b->calls[i] = (uint32_t)items[i].value;
    rs_mem_free(items);
    return status;
}

static enum rs_status build_roots(struct builder *b)
{
    const struct rs_reduce *reduce = b->reduce;
    b->roots = rs_mem_calloc(b->call_count + 1, sizeof *b->roots);
    b->by_external = rs_mem_calloc(b->call_count + 1, sizeof *b->by_external);
    if (!b->roots || !b->by_external)
        return RS_NOMEM;
    for (size_t i = 0; i < b->call_count; i++) {
        const struct reduce_call *call = &reduce->calls.items[b->calls[i]];
        struct call_root *root = b->root_count ? &b->roots[b->root_count - 1] : NULL;
        if (root && root->lane == call->lane && call->start < root->end) {
            root->count = (uint32_t)(i + 1 - root->first);
            if (root->type == RS_OP_UNKNOWN)
                root->type = call->type;
        } else if (call->type == RS_OP_UNKNOWN && call->host_name == RS_HOST_PARAM_COMMS) {
            continue; /* "wait", "init": no operation */
        } else {
            root = &b->roots[b->root_count++];
            *root = (struct call_root){.start = call->start,
                                       .end = call->end,
                                       .lane = call->lane,
                                       .first = (uint32_t)i,
                                       .count = 1,
                                       .type = call->type,
                                       .op = REDUCE_NONE};
            root->is_coalesced =
                call->type == RS_OP_UNKNOWN && is_coalesced_name(reduce, call->name);
        }
        if (call->external_id >= 0 && call->host_name != RS_HOST_ANNOTATION)
            b->by_external[b->external_count++] =
                (struct sort_item){call->external_id, b->root_count - 1};
    }
    return sort_items(b->by_external, b->external_count);
}

/* The call that holds a launch; root_count when none does. */
static size_t root_at(const struct builder *b, uint32_t lane, rs_ns instant)
{
    size_t low = 0, high = b->root_count; /* first behind (lane, instant) */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct call_root *root = &b->roots[middle];
        if (root->lane < lane || (root->lane == lane && root->start <= instant))
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return b->root_count;
    const struct call_root *root = &b->roots[low - 1];
    return root->lane == lane && instant <= root->end ? low - 1 : b->root_count;
}

/* By the id that older and newer profilers copy from the argument row to the kernel. An unlinked kernel of 2023
 * has its own correlation there. */
static size_t root_of_external(const struct builder *b, const struct reduce_comm_row *row,
                               const struct reduce_work *work)
{
    if (row->external_id < 0 || row->external_id == work_correlation(b->reduce, work))
        return b->root_count;
    size_t low = 0, high = b->external_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (b->by_external[middle].key < row->external_id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == b->external_count || b->by_external[low].key != row->external_id)
        return b->root_count;
    const size_t root = (size_t)b->by_external[low].value;
    return b->roots[root].start <= work->start ? root : b->root_count;
}

/* ---- one kernel -> its operation ---- */

static const struct rs_comm *comm_at(const struct rs_reduce *reduce, uint32_t comm)
{
    return comm == REDUCE_NONE ? NULL : &reduce->comms.items[comm];
}

/* The argument columns of a call; the outermost row that has some. */
static const struct rs_comm *comm_of_root(const struct builder *b, const struct call_root *root)
{
    for (uint32_t i = 0; i < root->count; i++) {
        const struct reduce_call *call = &b->reduce->calls.items[b->calls[root->first + i]];
        if (call->comm != REDUCE_NONE && call->type != RS_OP_UNKNOWN)
            return comm_at(b->reduce, call->comm);
    }
    return NULL;
}

/* Argument rows that follow each other inside one call (a coalesced collective of several tensors): their
 * elements together. Their number; 0 or 1: `message` is left alone. */
static uint32_t learn_siblings(const struct builder *b, const struct call_root *root,
                               struct message *message)
{
    struct message sum = message_none();
    uint32_t count = 0;
    rs_ns end = RS_NS_MIN;
    for (uint32_t i = 0; i < root->count; i++) {
        const struct reduce_call *call = &b->reduce->calls.items[b->calls[root->first + i]];
        struct message one = message_none();
        if (call->host_name != RS_HOST_PARAM_COMMS || call->type != root->type || call->start < end)
            continue;
        end = call->end;
        message_from_call(b->reduce, call, &one);
        if (!count++) {
            sum = one;
            continue;
        }
        const bool same = one.type_id == sum.type_id;
        sum.in_elements = same && one.in_elements >= 0 && sum.in_elements >= 0
                              ? sum_clamped(sum.in_elements, one.in_elements)
                              : -1;
        sum.out_elements = same && one.out_elements >= 0 && sum.out_elements >= 0
                               ? sum_clamped(sum.out_elements, one.out_elements)
                               : -1;
    }
    if (count > 1)
        *message = sum;
    return count;
}

static void learn_root(const struct builder *b, const struct call_root *root,
                       struct message *message)
{
    const bool has_siblings = learn_siblings(b, root, message) > 1;
    /* the argument row first: it knows most */
    for (int pass = has_siblings; pass < 2; pass++) {
        for (uint32_t i = 0; i < root->count; i++) {
            const struct reduce_call *call = &b->reduce->calls.items[b->calls[root->first + i]];
            if (has_siblings && call->host_name != RS_HOST_CALL)
                continue;
            if ((call->host_name == RS_HOST_PARAM_COMMS) == (pass == 0))
                message_from_call(b->reduce, call, message);
        }
    }
}

static enum rs_op_type type_of_comm(const struct rs_reduce *reduce, const struct rs_comm *comm)
{
    if (!comm || comm->collective == RS_STR_NONE)
        return RS_OP_UNKNOWN;
    return rs_op_type_of_text(rs_strtab_text(reduce->strings, comm->collective),
                              rs_strtab_length(reduce->strings, comm->collective));
}

static enum rs_op_type type_of_work(const struct rs_reduce *reduce, const struct reduce_work *work)
{
    return rs_op_type_of_name(rs_strtab_text(reduce->strings, work->name),
                              rs_strtab_length(reduce->strings, work->name));
}

static enum comm_expert part_of_work(const struct rs_reduce *reduce, const struct reduce_work *work)
{
    return comm_expert_of(rs_strtab_text(reduce->strings, work->name),
                          rs_strtab_length(reduce->strings, work->name));
}

static bool is_vendors(const struct reduce_work *work)
{
    return (work->flags & RS_EVENT_COMMUNICATION) != 0;
}

/* Time, place and name of an operation's first kernel. */
static struct rs_comm_op op_of_work(const struct rs_reduce *reduce, const struct reduce_work *work)
{
    struct rs_comm_op op = comm_op_none();
    const struct rs_lane *lane = &reduce->lanes->items[work->lane];
    const struct reduce_launch *launch = work_launch(reduce, work);
    op.flags = RS_OP_ON_DEVICE;
    if (work->flags & RS_EVENT_UNFINISHED)
        op.flags |= RS_OP_UNFINISHED;
    op.device = lane->device;
    op.stream = lane->thread;
    op.name = work->name;
    op.op_text = is_vendors(work) ? work->name : RS_STR_NONE;
    op.start = work->start;
    op.end = work->end;
    op.call_start = launch ? launch->start : work->start;
    op.caller_thread = launch ? reduce->lanes->items[launch->lane].thread : -1;
    op.step =
        comm_step(reduce, launch ? launch->start : REDUCE_NS_UNKNOWN, work->start, lane->device);
    return op;
}

static void widen_op(struct rs_comm_op *op, const struct reduce_work *work)
{
    op->start = work->start < op->start ? work->start : op->start;
    op->end = work->end > op->end ? work->end : op->end;
    if (work->flags & RS_EVENT_UNFINISHED)
        op->flags |= RS_OP_UNFINISHED;
}

/* An operation of a call, or of the argument columns that the kernel carries itself. */
static enum rs_status push_op(struct builder *b, const struct reduce_work *work,
                              const struct rs_comm *comm, struct call_root *root)
{
    struct rs_reduce *reduce = b->reduce;
    struct rs_comm_op op = op_of_work(reduce, work);
    struct message message = message_none();
    const struct rs_comm *call_comm = root ? comm_of_root(b, root) : NULL;
    enum rs_op_type type = root ? (enum rs_op_type)root->type : RS_OP_UNKNOWN;
    if (type == RS_OP_UNKNOWN)
        type = type_of_comm(reduce, comm);
    if (type == RS_OP_UNKNOWN)
        type = type_of_work(reduce, work);
    op.type = (uint8_t)type;
    const struct rs_comm *named = comm ? comm : call_comm;
    enum rs_status status = named ? groups_find(reduce, named, &op.group) : RS_OK;
    if (status != RS_OK)
        return status;
    if (comm && (type_of_comm(reduce, comm) == type || !root))
        message_from_comm(reduce, comm, &message);
    if (root) {
        learn_root(b, root, &message);
        op.call_start = root->start;
        op.caller_thread = reduce->lanes->items[root->lane].thread;
    }
    if (comm)
        comm_set_identity(comm, &op);
    if (call_comm)
        comm_set_identity(call_comm, &op);
    comm_set_ends(reduce, comm, &message, &op);
    if (op.peer < 0 && op.root < 0)
        comm_set_ends(reduce, call_comm, &message, &op);
    message_size(&message, comm_group_size(reduce, op.group), &op);
    status = comm_op_push(reduce, &op);
    if (status == RS_OK && root) {
        root->is_used = true;
        root->op = (uint32_t)(reduce->summary->op_count - 1);
    }
    return status;
}

static enum rs_status push_no_call(struct builder *b, const struct reduce_work *work)
{
    struct rs_comm_op op = op_of_work(b->reduce, work);
    op.type = (uint8_t)type_of_work(b->reduce, work);
    op.flags |= RS_OP_NO_CALL;
    return comm_op_push(b->reduce, &op);
}

/* The operation of which this row is another stretch: same id, name and device, met of late. NULL: none. */
static struct rs_comm_op *op_so_far(const struct rs_reduce *reduce,
                                    const struct reduce_comm_row *row)
{
    enum { LATE = 64 }; /* stretches of other communicators may lie between */
    const struct reduce_work *work = &reduce->work.items[row->work];
    const size_t count = reduce->kernel_ids.count;
    for (size_t i = count; row->external_id >= 0 && i > 0 && count - i < LATE; i--) {
        const struct sort_item *known = &reduce->kernel_ids.items[i - 1];
        struct rs_comm_op *op = &reduce->summary->ops[known->value];
        if (known->key == row->external_id && op->name == work->name &&
            op->device == reduce->lanes->items[work->lane].device)
            return op;
    }
    return NULL;
}

/* Its hops find it by its external id (comm_native.c). */
static enum rs_status push_vendors(struct builder *b, const struct reduce_comm_row *row)
{
    struct rs_reduce *reduce = b->reduce;
    const struct reduce_work *work = &reduce->work.items[row->work];
    const struct rs_comm *comm = comm_at(reduce, row->comm);
    if (!comm)
        return push_no_call(b, work);
    struct rs_comm_op *known = op_so_far(reduce, row);
    if (known) {
        widen_op(known, work);
        return RS_OK;
    }
    enum rs_status status = push_op(b, work, comm, NULL);
    if (status != RS_OK)
        return status;
    const size_t at = reduce->summary->op_count - 1;
    reduce->summary->ops[at].transport = comm->transport;
    if (row->external_id >= 0)
        REDUCE_PUSH(&reduce->kernel_ids, status, (struct sort_item){row->external_id, at});
    return status;
}

/* ---- experts ---- */

/* What came before it began no operation after all: it is listed as it is. */
static enum rs_status drop_notify(struct builder *b)
{
    const struct reduce_work *notify = b->notify;
    b->notify = NULL;
    return notify ? push_no_call(b, notify) : RS_OK;
}

static bool belongs_to(const struct reduce_work *notify, const struct reduce_work *work)
{
    return notify && notify->lane == work->lane && notify->end <= work->start;
}

static enum rs_status take_expert(struct builder *b, const struct reduce_work *work,
                                  enum comm_expert part)
{
    if (part == COMM_EXPERT_LAYOUT)
        return RS_OK; /* the rank's own work, whatever class a file gives it */
    if (part == COMM_EXPERT_NOTIFY) {
        const enum rs_status status = drop_notify(b);
        b->notify = work;
        return status;
    }
    enum rs_status status = belongs_to(b->notify, work) ? RS_OK : drop_notify(b);
    if (status != RS_OK)
        return status;
    struct rs_comm_op op = op_of_work(b->reduce, b->notify ? b->notify : work);
    widen_op(&op, work);
    op.name = work->name;
    op.type = RS_OP_ALL_TO_ALL;
    b->notify = NULL;
    return comm_op_push(b->reduce, &op);
}

/* ---- coalesced batches ---- */

/* What the waiting calls come to. */
struct batch {
    size_t count;
    size_t first;                  /* root */
    uint8_t type;                  /* of all; RS_OP_SEND_RECV when point-to-point ones differ */
    bool mixed;                    /* not to be taken for one operation */
    int64_t sent, received, other; /* bytes; -1 unknown */
    int32_t peer;                  /* of all; -1 several */
    uint8_t peer_flag;
    uint32_t group;
};

static void add_bytes(int64_t *sum, int64_t bytes)
{
    *sum = *sum < 0 || bytes < 0 ? -1 : sum_clamped(*sum, bytes);
}

/* One call of a batch, as an operation of its own. */
static enum rs_status op_of_root(struct builder *b, const struct call_root *root,
                                 struct rs_comm_op *op_p)
{
    const struct rs_comm *comm = comm_of_root(b, root);
    struct message message = message_none();
    *op_p = comm_op_none();
    op_p->type = root->type;
    const enum rs_status status = comm ? groups_find(b->reduce, comm, &op_p->group) : RS_OK;
    if (status != RS_OK)
        return status;
    learn_root(b, root, &message);
    comm_set_ends(b->reduce, comm, &message, op_p);
    message_size(&message, comm_group_size(b->reduce, op_p->group), op_p);
    return RS_OK;
}

static enum rs_status gather_batch(struct builder *b, size_t until, struct batch *batch)
{
    *batch = (struct batch){.peer = -1, .group = RS_NO_GROUP};
    for (size_t i = b->pending_from; i < until; i++) {
        struct call_root *root = &b->roots[i];
        if (root->is_used || root->is_coalesced || root->type == RS_OP_UNKNOWN)
            continue;
        struct rs_comm_op op;
        const enum rs_status status = op_of_root(b, root, &op);
        if (status != RS_OK)
            return status;
        const bool is_p2p = rs_op_type_is_p2p((enum rs_op_type)op.type);
        if (!batch->count) {
            batch->first = i;
            batch->type = op.type;
            batch->group = op.group;
            batch->peer = op.peer;
            batch->peer_flag = op.flags & RS_OP_PEER_IN_GROUP;
        } else if (is_p2p && rs_op_type_is_p2p((enum rs_op_type)batch->type)) {
            batch->type = batch->type == op.type ? batch->type : RS_OP_SEND_RECV;
            if (batch->peer != op.peer)
                batch->peer = -1;
        } else if (batch->type != op.type) {
            batch->mixed = true;
        }
        if (batch->group != op.group)
            batch->group = RS_NO_GROUP;
        add_bytes(op.type == RS_OP_SEND   ? &batch->sent
                  : op.type == RS_OP_RECV ? &batch->received
                                          : &batch->other,
                  op.bytes);
        batch->count++;
    }
    return RS_OK;
}

static bool batch_fits(const struct rs_reduce *reduce, const struct batch *batch,
                       const struct reduce_work *work)
{
    if (!batch->count || batch->mixed)
        return false;
    const enum rs_op_type reported = type_of_work(reduce, work);
    return reported == RS_OP_UNKNOWN || reported == (enum rs_op_type)batch->type ||
           (reported == RS_OP_SEND_RECV && rs_op_type_is_p2p((enum rs_op_type)batch->type));
}

/* NULL: there are too many. */
static struct batch_count *count_of(struct builder *b, const struct rs_comm_op *one)
{
    size_t i = 0;
    while (i < b->count_count &&
           (b->counts[i].peer != one->peer || b->counts[i].group != one->group))
        i++;
    if (i == COUNTED_PEERS || one->peer < 0)
        return NULL;
    if (i == b->count_count)
        b->counts[b->count_count++] =
            (struct batch_count){.peer = one->peer, .group = one->group, .segment = SIZE_MAX};
    return &b->counts[i];
}

static int64_t number_with(struct builder *b, const struct rs_comm_op *one)
{
    const struct batch_count *count = count_of(b, one);
    return count ? (int64_t)count->count : -1;
}

/* One more batch with each peer that the calls from the first that waits to `until` name. */
static enum rs_status count_batch(struct builder *b, size_t until)
{
    for (size_t i = b->pending_from; i < until; i++) {
        const struct call_root *root = &b->roots[i];
        struct rs_comm_op one;
        if (root->is_used || root->is_coalesced || !rs_op_type_is_p2p((enum rs_op_type)root->type))
            continue;
        const enum rs_status status = op_of_root(b, root, &one);
        if (status != RS_OK)
            return status;
        struct batch_count *count = count_of(b, &one);
        if (count && count->segment != until) {
            count->segment = until;
            count->count++;
        }
    }
    return RS_OK;
}

/* Whom the calls before root `until` exchange with, into the tasks of `op`. One that is not known, or known in another way than the
 * others: none of them, since half of a batch would be taken for all of it. */
static enum rs_status add_peers(struct builder *b, size_t until, struct rs_comm_op *op)
{
    struct rs_summary *summary = b->reduce->summary;
    const size_t before = summary->task_count;
    bool is_known = true;
    for (size_t i = b->pending_from; i < until && is_known; i++) {
        const struct call_root *root = &b->roots[i];
        struct rs_comm_op one;
        if (root->is_used || root->is_coalesced || root->type == RS_OP_UNKNOWN)
            continue;
        enum rs_status status = op_of_root(b, root, &one);
        if (status == RS_OK)
            status = rs_mem_grow((void **)&summary->tasks, &summary->task_capacity,
                                 summary->task_count + 1, sizeof *summary->tasks);
        if (status != RS_OK)
            return status;
        const uint8_t flag = one.flags & RS_OP_PEER_IN_GROUP;
        const bool is_send = one.type == RS_OP_SEND;
        is_known = one.peer >= 0 && summary->task_count < UINT32_MAX &&
                   (summary->task_count == before || flag == (op->flags & RS_OP_PEER_IN_GROUP)) &&
                   !(flag && op->group == RS_NO_GROUP && one.group != RS_NO_GROUP);
        op->flags |= flag;
        summary->tasks[summary->task_count++] =
            (struct rs_comm_task){.src = is_send ? -1 : one.peer,
                                  .dst = is_send ? one.peer : -1,
                                  .is_send = is_send,
                                  .bytes = one.bytes,
                                  .start = op->start,
                                  .end = op->start + 1 + number_with(b, &one),
                                  .transport = RS_STR_NONE};
    }
    if (!is_known) {
        summary->task_count = before;
        op->flags &= (uint8_t)~RS_OP_PEER_IN_GROUP;
    }
    op->task_first = (uint32_t)before;
    op->task_count = (uint32_t)(summary->task_count - before);
    return RS_OK;
}

/* Calls before another batch's launch are that one's, also when its kernel was lost. */
static enum rs_status pass_lost_batches(struct builder *b, size_t until)
{
    enum rs_status status = RS_OK;
    for (size_t i = b->pending_from; i < until && status == RS_OK; i++)
        if (b->roots[i].is_coalesced) {
            status = count_batch(b, i);
            b->pending_from = i + 1;
        }
    return status;
}

/* What sends and receives come to as one operation. */
static enum rs_status exchange(struct builder *b, const struct batch *batch, size_t until,
                               bool is_rooted, struct rs_comm_op *op)
{
    enum rs_status status = RS_OK;
    /* Calls in one direction, with one peer, are a send or a receive, as a kernel of their own would be: it may end before the other begins. */
    op->type = batch->count > 1 && batch->peer < 0 ? RS_OP_SEND_RECV : batch->type;
    op->flags |= op->type == RS_OP_SEND_RECV ? RS_OP_IS_BATCH : 0;
    op->peer = batch->peer;
    op->seq = is_rooted ? number_with(b, op) : -1;
    op->flags |= batch->peer >= 0 ? batch->peer_flag : 0;
    if (batch->sent >= 0 && batch->received >= 0)
        op->bytes = batch->sent > batch->received ? batch->sent : batch->received;
    if (batch->peer < 0 && batch->count > 1)
        status = add_peers(b, until, op);
    return status == RS_OK && is_rooted ? count_batch(b, until) : status;
}

/* One operation of the calls waiting before root `until`. *done_p: there were some that fit. */
static enum rs_status push_batch(struct builder *b, const struct reduce_work *work, size_t until,
                                 struct call_root *root, bool *done_p)
{
    struct rs_reduce *reduce = b->reduce;
    struct batch batch = {0};
    enum rs_status status = root ? pass_lost_batches(b, until) : RS_OK;
    if (status == RS_OK)
        status = gather_batch(b, until, &batch);
    *done_p = status == RS_OK && batch_fits(reduce, &batch, work);
    if (!*done_p)
        return status;
    struct rs_comm_op op = op_of_work(reduce, work);
    const bool is_p2p = rs_op_type_is_p2p((enum rs_op_type)batch.type);
    op.type = batch.type;
    op.group = batch.group;
    op.call_start = b->roots[batch.first].start;
    op.caller_thread = reduce->lanes->items[b->roots[batch.first].lane].thread;
    if (is_p2p) {
        status = exchange(b, &batch, until, root != NULL, &op);
    } else {
        op.bytes = batch.other;
    }
    for (size_t i = b->pending_from; i < until; i++)
        b->roots[i].is_used = true;
    if (status == RS_OK)
        status = comm_op_push(reduce, &op);
    if (status == RS_OK && root) {
        root->is_used = true;
        root->op = (uint32_t)(reduce->summary->op_count - 1);
    }
    return status;
}

/* ---- the walk ---- */

static enum rs_status take_rooted(struct builder *b, const struct reduce_work *work,
                                  const struct rs_comm *comm, size_t at)
{
    struct call_root *root = &b->roots[at];
    struct rs_summary *summary = b->reduce->summary;
    if (root->op != REDUCE_NONE &&
        summary->ops[root->op].device == b->reduce->lanes->items[work->lane].device) {
        widen_op(&summary->ops[root->op], work);
        return RS_OK;
    }
    if (root->is_coalesced && !comm) {
        bool done;
        const enum rs_status status = push_batch(b, work, at, root, &done);
        if (status != RS_OK || done)
            return status;
    }
    return push_op(b, work, comm, root);
}

static enum rs_status take_rootless(struct builder *b, const struct reduce_work *work,
                                    const struct rs_comm *comm)
{
    struct rs_reduce *reduce = b->reduce;
    struct rs_summary *summary = reduce->summary;
    if (comm)
        return push_op(b, work, comm, NULL);
    const struct reduce_launch *launch = work_launch(reduce, work);
    if (!launch)
        return push_no_call(b, work);
    size_t until = b->pending_from;
    while (until < b->root_count && b->roots[until].lane == launch->lane &&
           b->roots[until].end <= launch->start)
        until++;
    bool done;
    enum rs_status status = push_batch(b, work, until, NULL, &done);
    if (status != RS_OK)
        return status;
    if (done) {
        b->last_batch = (uint32_t)(summary->op_count - 1);
        b->pending_from = until;
        return RS_OK;
    }
    if (b->last_batch != REDUCE_NONE && until == b->pending_from &&
        summary->ops[b->last_batch].device == reduce->lanes->items[work->lane].device &&
        type_of_work(reduce, work) == RS_OP_SEND_RECV) {
        widen_op(&summary->ops[b->last_batch], work);
        return RS_OK;
    }
    return push_no_call(b, work);
}

static enum rs_status take_row(struct builder *b, const struct reduce_comm_row *row)
{
    struct rs_reduce *reduce = b->reduce;
    const struct reduce_work *work = &reduce->work.items[row->work];
    const struct rs_comm *comm = comm_at(reduce, row->comm);
    size_t root = b->root_count;
    if (is_vendors(work))
        return push_vendors(b, row);
    const enum comm_expert part = comm ? COMM_EXPERT_NONE : part_of_work(reduce, work);
    if (part != COMM_EXPERT_NONE)
        return take_expert(b, work, part);
    const struct reduce_launch *launch = work_launch(reduce, work);
    if (launch) {
        if (b->lane != launch->lane) {
            b->lane = launch->lane;
            b->count_count = 0;
            b->last_batch = REDUCE_NONE;
            b->pending_from = 0;
            while (b->pending_from < b->root_count && b->roots[b->pending_from].lane < launch->lane)
                b->pending_from++;
        }
        root = root_at(b, launch->lane, launch->start);
    }
    const bool by_launch = root < b->root_count;
    if (!by_launch)
        root = root_of_external(b, row, work);
    if (root == b->root_count)
        return take_rootless(b, work, comm);
    const enum rs_status status = take_rooted(b, work, comm, root);
    if (by_launch && root >= b->pending_from) {
        b->pending_from = root + 1;
        b->last_batch = REDUCE_NONE;
    }
    return status;
}

/* Rows by (lane, time) of their launch; those without one last, by their own start. */
static enum rs_status sort_rows(const struct rs_reduce *reduce, uint32_t *order)
{
    const size_t count = reduce->comm_rows.count;
    struct sort_item *items = rs_mem_calloc(count + 1, sizeof *items);
    if (!items)
        return RS_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const struct reduce_work *work = &reduce->work.items[reduce->comm_rows.items[i].work];
        items[i] = (struct sort_item){work->start, i};
    }
    enum rs_status status = sort_items(items, count);
    for (int pass = 0; status == RS_OK && pass < 2; pass++) {
        for (size_t i = 0; i < count; i++) {
            const struct reduce_work *work =
                &reduce->work.items[reduce->comm_rows.items[items[i].value].work];
            const struct reduce_launch *launch = work_launch(reduce, work);
            if (pass == 0)
                items[i].key = launch ? launch->start : 0;
            else
                items[i].key = launch ? (int64_t)launch->lane : INT64_MAX;
        }
        status = sort_items(items, count);
    }
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)items[i].value;
    rs_mem_free(items);
    return status;
}

/* ---- pairing in order, where nothing links kernels to calls ---- */

static bool may_be(enum rs_op_type reported, enum rs_op_type called)
{
    return reported == RS_OP_UNKNOWN || called == RS_OP_UNKNOWN || reported == called ||
           (reported == RS_OP_SEND_RECV &&
            (called == RS_OP_ALL_TO_ALL || called == RS_OP_SEND || called == RS_OP_RECV ||
             called == RS_OP_GATHER || called == RS_OP_SCATTER)) ||
           (reported == RS_OP_ALL_REDUCE && called == RS_OP_BARRIER);
}

static bool nothing_links(const struct builder *b)
{
    const struct rs_reduce *reduce = b->reduce;
    for (size_t i = 0; i < reduce->comm_rows.count; i++) {
        const struct reduce_comm_row *row = &reduce->comm_rows.items[i];
        const struct reduce_work *work = &reduce->work.items[row->work];
        if (work->is_launched || row->comm != REDUCE_NONE || is_vendors(work) ||
            root_of_external(b, row, work) < b->root_count)
            return false;
    }
    return true;
}

/* *done_p: kernels and calls were paired one to one. */
static enum rs_status pair_in_order(struct builder *b, const uint32_t *order, bool *done_p)
{
    struct rs_reduce *reduce = b->reduce;
    const size_t count = reduce->comm_rows.count;
    *done_p = false;
    if (!count || count != b->root_count || !nothing_links(b))
        return RS_OK;
    struct sort_item *roots = rs_mem_calloc(count, sizeof *roots);
    if (!roots)
        return RS_NOMEM;
    for (size_t i = 0; i < count; i++)
        roots[i] = (struct sort_item){b->roots[i].start, i};
    enum rs_status status = sort_items(roots, count);
    bool fits = status == RS_OK;
    for (size_t i = 0; fits && i < count; i++) {
        const struct reduce_work *work =
            &reduce->work.items[reduce->comm_rows.items[order[i]].work];
        const struct call_root *root = &b->roots[roots[i].value];
        fits = root->start <= work->start &&
               may_be(type_of_work(reduce, work), (enum rs_op_type)root->type);
    }
    for (size_t i = 0; fits && status == RS_OK && i < count; i++) {
        const struct reduce_work *work =
            &reduce->work.items[reduce->comm_rows.items[order[i]].work];
        status = push_op(b, work, NULL, &b->roots[roots[i].value]);
    }
    *done_p = fits;
    rs_mem_free(roots);
    return status;
}

enum rs_status comm_device_build(struct rs_reduce *reduce)
{
    const size_t count = reduce->comm_rows.count;
    if (!count)
        return RS_OK;
    struct builder b = {.reduce = reduce, .lane = REDUCE_NONE, .last_batch = REDUCE_NONE};
    uint32_t *order = rs_mem_calloc(count, sizeof *order);
    enum rs_status status = order ? sort_calls(&b) : RS_NOMEM;
    if (status == RS_OK)
        status = build_roots(&b);
    if (status == RS_OK)
        status = sort_rows(reduce, order);
    bool done = false;
    if (status == RS_OK)
        status = pair_in_order(&b, order, &done);
    for (size_t i = 0; status == RS_OK && !done && i < count; i++)
        status = take_row(&b, &reduce->comm_rows.items[order[i]]);
    if (status == RS_OK)
        status = drop_notify(&b);
    for (size_t i = 0; status == RS_OK && i < b.root_count; i++) {
        for (uint32_t k = 0; b.roots[i].is_used && k < b.roots[i].count; k++)
            reduce->calls.items[b.calls[b.roots[i].first + k]].is_used = true;
    }
    rs_mem_free(order);
    rs_mem_free(b.calls);
    rs_mem_free(b.roots);
    rs_mem_free(b.by_external);
    return status;
}
