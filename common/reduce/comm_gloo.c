/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo:* rows -> operations.
 *
 *   caller thread    c10d::allreduce_ [--]                       tensors, peer, root
 *   worker thread                        gloo:all_reduce [-----------------]   the operation itself
 *
 * Nothing links the two but time, type and size. Rows and calls of one type and size are in one order; where there are more calls,
 * rows are missing, and which ones is told by the time between: the pairing in order that has most rows and the least of it
 * in all (a row that takes the call of a missing one before it would be an operation too late, and so would all behind it).
 * What is left, each row by start, takes the earliest call not taken that was made before it started, is of a type it can be (a
 * reduce_scatter runs as gloo:all_reduce) and does not contradict its size. Rows of a group run in the order of its
 * calls; where two groups have operations of one type and size under way at once, two rows may take each other's
 * call, which changes call_order and nothing else. Send and receive run on the calling thread, within their call: theirs is the newest.
 *
 * Groups are not named. A process group has worker threads of its own, so what tells its size on a thread
 * (output to input of an all-gather, tensors of a root's scatter) holds for all rows of the thread.
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* A call that found no row among so many later ones is not looked at again. */
enum { CALLS_LOOKED_AT = 2048 };

struct gloo {
    struct rs_reduce *reduce;
    uint32_t *rows;  /* gloo rows by start */
    uint32_t *calls; /* c10d calls by start */
    uint32_t *call_of_row;
    int64_t *elements;     /* of each call, as its row will show; -1 unknown */
    int64_t *row_elements; /* that each row shows */
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

/* ---- where rows are missing ---- */

/* A table beyond this is not made: what is left to the earliest call may be one too early then. */
enum { CELLS_MOST = 4000000 };

/* No row is left out to save time. */
static const int64_t row_lost = INT64_C(1) << 50;

/* Damaged times may be any distance apart: beyond this (18 minutes) all cost the same. A table has fewer rows than calls, so that no
 * more than 2^11 rows and 2^21 calls add up, which an int64_t holds. */
static const int64_t time_most = INT64_C(1) << 40;

/* Rows and calls of one type and size, as places in g->rows and g->calls. */
struct equals {
    uint32_t *rows, *calls;
    size_t row_count, call_count;
    int64_t usual; /* from a call to the next row */
    int64_t *cost; /* [2][call_count + 1] */
    uint8_t *from; /* [(row_count + 1) * (call_count + 1)] */
};

enum { FROM_PAIR, FROM_CALL_LOST, FROM_ROW_LOST };

static rs_ns row_start(const struct gloo *g, uint32_t at)
{
    return g->reduce->calls.items[g->rows[at]].start;
}

static rs_ns call_start(const struct gloo *g, uint32_t at)
{
    return g->reduce->calls.items[g->calls[at]].start;
}

static rs_dur time_between(rs_ns from, rs_ns to)
{
    rs_dur time;
    if (__builtin_sub_overflow(to, from, &time))
        return to < from ? -time_most : time_most;
    return time > time_most ? time_most : time;
}

static int compare_times(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Median over rows of the time since the newest call before it; `times` as many as rows. */
static int64_t usual_time(const struct gloo *g, const struct equals *e, int64_t *times)
{
    size_t next = 0, known = 0;
    for (size_t i = 0; i < e->row_count; i++) {
        while (next < e->call_count && call_start(g, e->calls[next]) <= row_start(g, e->rows[i]))
            next++;
        if (next)
            times[known++] =
                time_between(call_start(g, e->calls[next - 1]), row_start(g, e->rows[i]));
    }
    if (!known)
        return 0;
    qsort(times, known, sizeof *times, compare_times);
    return times[known / 2];
}

static void fill_row(const struct gloo *g, struct equals *e, size_t i)
{
    const size_t width = e->call_count + 1;
    int64_t *own = e->cost + (i % 2) * width;
    const int64_t *before = e->cost + ((i + 1) % 2) * width;
    for (size_t j = 0; j < width; j++) {
        const bool is_last = i == e->row_count; /* calls behind the last row cost nothing */
        int64_t best = i ? before[j] + row_lost : j ? own[j - 1] + e->usual : 0;
        uint8_t from = i ? FROM_ROW_LOST : FROM_CALL_LOST;
        if (i && j && own[j - 1] + (is_last ? 0 : e->usual) < best) {
            best = own[j - 1] + (is_last ? 0 : e->usual);
            from = FROM_CALL_LOST;
        }
        if (i && j) {
            const rs_dur time =
                time_between(call_start(g, e->calls[j - 1]), row_start(g, e->rows[i - 1]));
            if (time >= 0 && before[j - 1] + time < best) {
                best = before[j - 1] + time;
                from = FROM_PAIR;
            }
        }
        own[j] = best;
        e->from[i * width + j] = from;
    }
}

static void take_pairs(struct gloo *g, const struct equals *e)
{
    const size_t width = e->call_count + 1;
    for (size_t i = e->row_count, j = e->call_count; i > 0;) {
        const uint8_t from = e->from[i * width + j];
        if (from == FROM_PAIR) {
            struct reduce_call *call = &g->reduce->calls.items[g->calls[e->calls[j - 1]]];
            call->is_used = true;
            g->call_of_row[e->rows[i - 1]] = g->calls[e->calls[j - 1]];
        }
        i -= from != FROM_CALL_LOST;
        j -= from != FROM_ROW_LOST;
    }
}

static enum rs_status pair_equals(struct gloo *g, struct equals *e)
{
    const size_t width = e->call_count + 1;
    if (!e->row_count || e->call_count <= e->row_count || width > CELLS_MOST / (e->row_count + 1))
        return RS_OK;
    e->cost = rs_mem_calloc(2 * width + e->row_count, sizeof *e->cost);
    e->from = rs_mem_calloc((e->row_count + 1) * width, 1);
    const enum rs_status status = e->cost && e->from ? RS_OK : RS_NOMEM;
    if (status == RS_OK) {
        e->usual = usual_time(g, e, e->cost + 2 * width);
        for (size_t i = 0; i <= e->row_count; i++)
            fill_row(g, e, i);
        take_pairs(g, e);
    }
    rs_mem_free(e->cost);
    rs_mem_free(e->from);
    return status;
}

/* What can run as one type has one key; -1: only the earliest call is asked for. */
static int64_t key_of(const struct reduce_call *call)
{
    const enum rs_op_type type = (enum rs_op_type)call->type;
    /* sends and receives run on the caller's thread: nothing is queued there */
    if (type == RS_OP_UNKNOWN || type == RS_OP_SEND || type == RS_OP_RECV)
        return -1;
    return type == RS_OP_REDUCE_SCATTER ? RS_OP_ALL_REDUCE : type;
}

/* By key, then size, then time: as they come. */
static enum rs_status sort_equals(const struct gloo *g, struct sort_item *items, size_t count,
                                  bool are_rows)
{
    for (size_t i = 0; i < count; i++)
        items[i] = (struct sort_item){are_rows ? g->row_elements[i] : g->elements[i], i};
    enum rs_status status = sort_items(items, count);
    for (size_t i = 0; i < count; i++) {
        const uint32_t *indexes = are_rows ? g->rows : g->calls;
        items[i].key = key_of(&g->reduce->calls.items[indexes[items[i].value]]);
    }
    return status == RS_OK ? sort_items(items, count) : status;
}

static bool is_before(const struct gloo *g, const struct sort_item *call,
                      const struct sort_item *row)
{
    return call->key != row->key ? call->key < row->key
                                 : g->elements[call->value] < g->row_elements[row->value];
}

static size_t end_of_equals(const struct sort_item *items, size_t from, size_t count,
                            const int64_t *elements)
{
    size_t end = from;
    while (end < count && items[end].key == items[from].key &&
           elements[items[end].value] == elements[items[from].value])
        end++;
    return end;
}

static enum rs_status pair_where_rows_are_missing(struct gloo *g)
{
    struct sort_item *rows = rs_mem_calloc(g->row_count + 1, sizeof *rows);
    struct sort_item *calls = rs_mem_calloc(g->call_count + 1, sizeof *calls);
    uint32_t *places = rs_mem_calloc(g->row_count + g->call_count + 1, sizeof *places);
    enum rs_status status = rows && calls && places ? RS_OK : RS_NOMEM;
    if (status == RS_OK)
        status = sort_equals(g, rows, g->row_count, true);
    if (status == RS_OK)
        status = sort_equals(g, calls, g->call_count, false);
    for (size_t i = 0, j = 0, end; status == RS_OK && i < g->row_count; i = end) {
        end = end_of_equals(rows, i, g->row_count, g->row_elements);
        while (j < g->call_count && is_before(g, &calls[j], &rows[i]))
            j++;
        const bool has_calls = j < g->call_count && rows[i].key >= 0 &&
                               calls[j].key == rows[i].key &&
                               g->elements[calls[j].value] == g->row_elements[rows[i].value];
        const size_t calls_end =
            has_calls ? end_of_equals(calls, j, g->call_count, g->elements) : j;
        struct equals e = {.rows = places,
                           .calls = places + (end - i),
                           .row_count = end - i,
                           .call_count = calls_end - j};
        for (size_t k = i; k < end; k++)
            e.rows[k - i] = (uint32_t)rows[k].value;
        for (size_t k = j; k < calls_end; k++)
            e.calls[k - j] = (uint32_t)calls[k].value;
        status = pair_equals(g, &e);
        j = calls_end;
    }
    rs_mem_free(rows);
    rs_mem_free(calls);
    rs_mem_free(places);
    return status;
}

/* ---- the rest ---- */

static bool runs_on_caller(const struct reduce_call *row)
{
    return row->type == RS_OP_SEND || row->type == RS_OP_RECV;
}

/* Calls that were made before this instant. */
static size_t calls_before(const struct gloo *g, rs_ns instant)
{
    size_t low = 0, high = g->call_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (call_start(g, (uint32_t)middle) <= instant)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The call that a row of the caller's own thread runs within: the newest before it, or none at all. */
static void pair_on_caller(struct gloo *g, size_t i)
{
    const struct reduce_call *row = &g->reduce->calls.items[g->rows[i]];
    const size_t end = calls_before(g, row->start);
    for (size_t k = end; k-- > 0 && end - k <= CALLS_LOOKED_AT;) {
        struct reduce_call *call = &g->reduce->calls.items[g->calls[k]];
        if (call->lane != row->lane || !fits(g, k, row, g->row_elements[i]))
            continue;
        if (row->start <= call->end) {
            g->call_of_row[i] = call->is_used ? REDUCE_NONE : g->calls[k];
            call->is_used = true;
        }
        return;
    }
}

static void pair_rows(struct gloo *g)
{
    size_t oldest = 0; /* all calls before it are taken or given up */
    for (size_t i = 0; i < g->row_count; i++) {
        const struct reduce_call *row = &g->reduce->calls.items[g->rows[i]];
        const int64_t elements = g->row_elements[i];
        if (g->call_of_row[i] != REDUCE_NONE)
            continue;
        if (runs_on_caller(row)) {
            pair_on_caller(g, i);
            continue;
        }
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

/* allgather_ and _allgather_base_ run alike, one behind the other, but all members of an operation made the same call. 0, unknown: the
 * shape, or which of the recorded calls it was. */
static uint64_t hash_of_call(const struct gloo *g, const struct reduce_call *call, uint64_t shape)
{
    if (!g->call_count)
        return shape;
    if (!shape || !call)
        return 0;
    const char *name = rs_strtab_text(g->reduce->strings, call->name);
    return XXH3_64bits_withSeed(name, strlen(name), shape);
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
    op.shape_hash = hash_of_call(g, call, op.shape_hash);
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
    g->row_elements = rs_mem_calloc(count + 1, sizeof *g->row_elements);
    g->size_of_lane = rs_mem_calloc(reduce->lanes->count + 1, sizeof *g->size_of_lane);
    if (!g->rows || !g->calls || !g->call_of_row || !g->elements || !g->row_elements ||
        !g->size_of_lane)
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
    for (size_t i = 0; status == RS_OK && i < g->row_count; i++) {
        g->row_elements[i] = shown_elements(reduce, &reduce->calls.items[g->rows[i]]);
        g->call_of_row[i] = REDUCE_NONE;
    }
    return status;
}

enum rs_status comm_gloo_build(struct rs_reduce *reduce)
{
    struct gloo g = {.reduce = reduce};
    enum rs_status status = collect(&g);
    if (status == RS_OK)
        status = pair_where_rows_are_missing(&g);
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
    rs_mem_free(g.row_elements);
    rs_mem_free(g.size_of_lane);
    return status;
}
