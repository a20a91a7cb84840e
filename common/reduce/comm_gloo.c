/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo:* rows -> operations.
 *
 *   caller thread    c10d::allreduce_ [--]                       tensors, peer, root
 *   worker thread                        gloo:all_reduce [-----------------]   the operation itself
 *
 * Nothing links the two but time, type and size: each gloo row, by start, takes the earliest call not taken that was made
 * before it started, is of a type it can be (a reduce_scatter runs as gloo:all_reduce) and does not
 * contradict its size. Rows of a group run in the order of its calls; where two groups have operations of one
 * type and size under way at once, two rows may take each other's call, which changes call_order and
 * nothing else. Send and receive run on the calling thread.
 *
 * Groups are not named. A process group has worker threads of its own, so what tells its size on a thread
 * (output to input of an all-gather, tensors of a root's scatter) holds for all rows of the thread.
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

/* A call that found no row among so many later ones is not looked at again. */
enum { CALLS_LOOKED_AT = 2048 };

struct gloo {
    struct rs_reduce *reduce;
    uint32_t *rows;  /* gloo rows by start */
    uint32_t *calls; /* c10d calls by start */
    uint32_t *call_of_row;
    int64_t *elements; /* of each call, as its row will show; -1 unknown */
    int64_t *size_of_lane;
    size_t row_count, call_count;
};

static enum rs_status sort_by_start(const struct rs_reduce *reduce, uint32_t *indexes, size_t count)
{
    struct sort_item *items = rs_mem_calloc(count + 1, sizeof *items);
    if (!items)
        return RS_NOMEM;
    for (size_t i = 0; i < count; i++)
        items[i] = (struct sort_item){reduce->calls.items[indexes[i]].start, indexes[i]};
    const enum rs_status status = sort_items(items, count);
    for (size_t i = 0; i < count; i++)
        indexes[i] = (uint32_t)items[i].value;
    rs_mem_free(items);
    return status;
}

static bool may_run_as(enum rs_op_type called, enum rs_op_type ran)
{
    return called == ran || ran == RS_OP_UNKNOWN ||
           (called == RS_OP_REDUCE_SCATTER && ran == RS_OP_ALL_REDUCE);
}

/* Elements that the annotation of this call shows: its inputs; of receivers, what they get. */
static int64_t shown_elements(const struct rs_reduce *reduce, const struct reduce_call *call)
{
    struct message message = message_none();
    message_from_call(reduce, call, &message);
    if (call->type == RS_OP_RECV)
        return message.out_elements;
    if (call->type == RS_OP_SCATTER) /* the root shows all, the others none */
        return -1;
    return message.in_elements;
}

static bool fits(const struct gloo *g, size_t call_at, const struct reduce_call *row,
                 int64_t row_elements)
{
    const struct reduce_call *call = &g->reduce->calls.items[g->calls[call_at]];
    const enum rs_op_type type = (enum rs_op_type)call->type;
    if (!may_run_as(type, (enum rs_op_type)row->type))
        return false;
    if ((type == RS_OP_SEND || type == RS_OP_RECV) && call->lane != row->lane)
        return false;
    const int64_t elements = g->elements[call_at];
    return elements < 0 || row_elements < 0 || elements == row_elements || type == RS_OP_BARRIER;
}

static void pair_rows(struct gloo *g)
{
    size_t oldest = 0; /* all calls before it are taken or given up */
    for (size_t i = 0; i < g->row_count; i++) {
        const struct reduce_call *row = &g->reduce->calls.items[g->rows[i]];
        const int64_t elements = shown_elements(g->reduce, row);
        g->call_of_row[i] = REDUCE_NONE;
        for (size_t k = oldest; k < g->call_count; k++) {
            struct reduce_call *call = &g->reduce->calls.items[g->calls[k]];
            if (call->start > row->start)
                break;
            if (k - oldest > CALLS_LOOKED_AT)
                oldest++;
            if (call->is_used || !fits(g, k, row, elements))
                continue;
            call->is_used = true;
            g->call_of_row[i] = g->calls[k];
            break;
        }
        while (oldest < g->call_count && g->reduce->calls.items[g->calls[oldest]].is_used)
            oldest++;
    }
}

static struct message message_of(const struct gloo *g, size_t row)
{
    struct message message = message_none();
    if (g->call_of_row[row] != REDUCE_NONE)
        message_from_call(g->reduce, &g->reduce->calls.items[g->call_of_row[row]], &message);
    message_from_call(g->reduce, &g->reduce->calls.items[g->rows[row]], &message);
    return message;
}

static enum rs_op_type type_of(const struct gloo *g, size_t row)
{
    const uint32_t call = g->call_of_row[row];
    return (enum rs_op_type)(call == REDUCE_NONE ? g->reduce->calls.items[g->rows[row]].type
                                                 : g->reduce->calls.items[call].type);
}

/* The group's size, where this operation tells it; else -1. */
static int64_t reported_size(const struct message *message, enum rs_op_type type)
{
    const int64_t in = message->in_elements, out = message->out_elements;
    if (type == RS_OP_ALL_GATHER && in > 0 && out >= in && out % in == 0)
        return out / in;
    if (type == RS_OP_REDUCE_SCATTER && out > 0 && in >= out && in % out == 0)
        return in / out;
    if (type == RS_OP_SCATTER && message->parts > 0)
        return message->parts;
    return -1;
}

static void learn_sizes(struct gloo *g)
{
    for (size_t i = 0; i < g->reduce->lanes->count; i++)
        g->size_of_lane[i] = -1;
    for (size_t i = 0; i < g->row_count; i++) {
        const struct message message = message_of(g, i);
        const int64_t size = reported_size(&message, type_of(g, i));
        int64_t *known = &g->size_of_lane[g->reduce->calls.items[g->rows[i]].lane];
        if (size > 0)
            *known = *known == -1 || *known == size ? size : -2; /* -2: contradictory, unknown */
    }
}

static enum rs_status push_row(struct gloo *g, size_t at)
{
    struct rs_reduce *reduce = g->reduce;
    const struct reduce_call *row = &reduce->calls.items[g->rows[at]];
    const uint32_t call_index = g->call_of_row[at];
    const struct reduce_call *call =
        call_index == REDUCE_NONE ? NULL : &reduce->calls.items[call_index];
    const struct message message = message_of(g, at);
    struct rs_comm_op op = comm_op_none();
    op.type = (uint8_t)type_of(g, at);
    op.flags = (row->flags & RS_EVENT_UNFINISHED) ? RS_OP_UNFINISHED : 0;
    op.stream = reduce->lanes->items[row->lane].thread;
    op.caller_thread = call ? reduce->lanes->items[call->lane].thread : -1;
    op.name = row->name;
    op.start = row->start;
    op.end = row->end;
    op.call_start = call ? call->start : row->start;
    op.step = comm_step(reduce, call ? call->start : REDUCE_NS_UNKNOWN, row->start, -1);
    comm_set_ends(reduce, NULL, &message, &op);
    message_size(&message, g->size_of_lane[row->lane], &op);
    return comm_op_push(reduce, &op);
}

static enum rs_status collect(struct gloo *g)
{
    struct rs_reduce *reduce = g->reduce;
    const size_t count = reduce->calls.count;
    g->rows = rs_mem_calloc(count + 1, sizeof *g->rows);
    g->calls = rs_mem_calloc(count + 1, sizeof *g->calls);
    g->call_of_row = rs_mem_calloc(count + 1, sizeof *g->call_of_row);
    g->elements = rs_mem_calloc(count + 1, sizeof *g->elements);
    g->size_of_lane = rs_mem_calloc(reduce->lanes->count + 1, sizeof *g->size_of_lane);
    if (!g->rows || !g->calls || !g->call_of_row || !g->elements || !g->size_of_lane)
        return RS_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const struct reduce_call *call = &reduce->calls.items[i];
        if (call->host_name == RS_HOST_GLOO)
            g->rows[g->row_count++] = (uint32_t)i;
        else if (call->host_name == RS_HOST_CALL && !call->is_used)
            g->calls[g->call_count++] = (uint32_t)i;
    }
    enum rs_status status = sort_by_start(reduce, g->rows, g->row_count);
    if (status == RS_OK)
        status = sort_by_start(reduce, g->calls, g->call_count);
    for (size_t i = 0; status == RS_OK && i < g->call_count; i++)
        g->elements[i] = shown_elements(reduce, &reduce->calls.items[g->calls[i]]);
    return status;
}

enum rs_status comm_gloo_build(struct rs_reduce *reduce)
{
    struct gloo g = {.reduce = reduce};
    enum rs_status status = collect(&g);
    if (status == RS_OK) {
        pair_rows(&g);
        learn_sizes(&g);
    }
    for (size_t i = 0; status == RS_OK && i < g.row_count; i++)
        status = push_row(&g, i);
    rs_mem_free(g.rows);
    rs_mem_free(g.calls);
    rs_mem_free(g.call_of_row);
    rs_mem_free(g.elements);
    rs_mem_free(g.size_of_lane);
    return status;
}
