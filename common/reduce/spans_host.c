/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans of a rank without a device: its own time between operations, and where it waited for them.
 *
 *   computing   [====]   [==]            [=====]  [==]       any thread (host.c)
 *   operation        call|....runs.......|end
 *   pieces      [ own   ][own][  wait    ][   own    ]
 *
 * A recording does not say that a thread waits. It is inferred where no thread computes and an operation that was called
 * before ends: until that end the rank waited, from there on the time is its own again (a data loader that sleeps behind an
 * operation is not the operation's). Where several operations ended in one idle stretch, until the last of them.
 *
 * Linear in operators and operations but for the sorting; at most two pieces between two cuts per operation that ended.
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Self time of an operator, by its start. */
struct self_time {
    rs_ns start;
    rs_dur time;
    rs_str name;
};

struct host_spans {
    struct rs_reduce *reduce;
    const struct span_cuts *cuts;
    struct intervals busy; /* normal: at least one thread computes */
    size_t busy_at;
    struct sort_item *ends; /* operations by end */
    size_t end_at;
    struct self_time *selves; /* by start */
    size_t self_count, self_at;
    struct span_names names;
    size_t next_op; /* first operation called at or behind the piece */
};

/* ---- self times ---- */

static enum rs_status sort_ops(const struct rs_reduce *reduce, struct sort_item *items,
                               size_t *count_p)
{
    size_t count = 0;
    for (size_t i = 0; i < reduce->cpu_ops.count; i++) {
        const struct reduce_cpu_op *op = &reduce->cpu_ops.items[i];
        if (!op->is_call)
            items[count++] = (struct sort_item){op->start - op->end, i};
    }
    enum rs_status status = sort_items(items, count); /* longest first */
    for (size_t i = 0; i < count; i++)
        items[i].key = reduce->cpu_ops.items[items[i].value].start;
    if (status == RS_OK)
        status = sort_items(items, count);
    for (size_t i = 0; i < count; i++)
        items[i].key = reduce->cpu_ops.items[items[i].value].lane;
    if (status == RS_OK)
        status = sort_items(items, count);
    *count_p = count;
    return status;
}

static int64_t op_length(const struct reduce_cpu_op *op)
{
    return op->end - op->start;
}

/* Each operator without what lies inside it on its thread: the innermost open one pays for the next. */
static enum rs_status build_selves(struct host_spans *h)
{
    const struct rs_reduce *reduce = h->reduce;
    const size_t most = reduce->cpu_ops.count;
    struct sort_item *items = rs_mem_calloc(most + 1, sizeof *items);
    uint32_t *open = rs_mem_calloc(most + 1, sizeof *open); /* places in `selves` */
    struct self_time *unsorted = rs_mem_calloc(most + 1, sizeof *unsorted);
    h->selves = rs_mem_calloc(most + 1, sizeof *h->selves);
    enum rs_status status = items && open && unsorted && h->selves ? RS_OK : RS_NOMEM;
    size_t count = 0, depth = 0;
    if (status == RS_OK)
        status = sort_ops(reduce, items, &count);
    for (size_t i = 0; status == RS_OK && i < count; i++) {
        const struct reduce_cpu_op *op = &reduce->cpu_ops.items[items[i].value];
        while (depth) {
            const struct reduce_cpu_op *top = &reduce->cpu_ops.items[items[open[depth - 1]].value];
            if (top->lane == op->lane && op->start < top->end)
                break;
            depth--;
        }
        if (depth) {
            const struct reduce_cpu_op *top = &reduce->cpu_ops.items[items[open[depth - 1]].value];
            const rs_ns end = op->end < top->end ? op->end : top->end;
            unsorted[open[depth - 1]].time -= end - op->start;
        }
        unsorted[i] = (struct self_time){op->start, op_length(op), op->name};
        open[depth++] = (uint32_t)i;
    }
    for (size_t i = 0; i < count; i++)
        items[i] = (struct sort_item){unsorted[i].start, i};
    if (status == RS_OK)
        status = sort_items(items, count);
    for (size_t i = 0; status == RS_OK && i < count; i++)
        h->selves[i] = unsorted[items[i].value];
    h->self_count = count;
    rs_mem_free(items);
    rs_mem_free(open);
    rs_mem_free(unsorted);
    return status;
}

/* ---- pieces ---- */

static enum rs_status build_busy(struct host_spans *h)
{
    const struct rs_reduce *reduce = h->reduce;
    enum rs_status status = RS_OK;
    for (size_t i = 0; status == RS_OK && i < reduce->work.count; i++) {
        const struct reduce_work *work = &reduce->work.items[i];
        if (work->work_class == RS_WORK_COMPUTING)
            status = intervals_push(&h->busy, work->start, work->end);
    }
    return status == RS_OK ? intervals_normalise(&h->busy) : status;
}

static enum rs_status build_ends(struct host_spans *h)
{
    const struct rs_summary *summary = h->reduce->summary;
    h->ends = rs_mem_calloc(summary->op_count + 1, sizeof *h->ends);
    if (!h->ends)
        return RS_NOMEM;
    for (size_t i = 0; i < summary->op_count; i++)
        h->ends[i] = (struct sort_item){summary->ops[i].end, i};
    return sort_items(h->ends, summary->op_count);
}

/* The worker that ran an operation notes its end after it has woken whoever waits, on a busy machine much later: an idle
 * stretch of this length and more also ends with an operation whose end is noted so far behind it. */
enum { WAIT_LEAST_NS = 100000, WAIT_LATE_SHARE = 4 };

static rs_dur may_be_late(rs_dur idle)
{
    if (idle < WAIT_LEAST_NS)
        return 0;
    return idle / WAIT_LATE_SHARE > WAIT_LEAST_NS ? idle / WAIT_LATE_SHARE : WAIT_LEAST_NS;
}

/* How much of the idle stretch [from, to) was waiting: until the last end in it of an operation called at or before
 * `from`, or until `to`; `from` when nothing ended. Asked in order of time. */
static rs_ns waited_until(struct host_spans *h, rs_ns from, rs_ns to)
{
    const struct rs_summary *summary = h->reduce->summary;
    const rs_ns last = to + may_be_late(to - from);
    rs_ns until = from;
    while (h->end_at < summary->op_count && h->ends[h->end_at].key <= from)
        h->end_at++;
    for (size_t i = h->end_at; i < summary->op_count && h->ends[i].key <= last; i++) {
        if (summary->ops[h->ends[i].value].call_start <= from)
            until = h->ends[i].key;
    }
    return until < to ? until : to;
}

static struct rs_span_row new_piece(struct host_spans *h, rs_ns start, rs_ns end, uint8_t kind)
{
    const struct rs_reduce *reduce = h->reduce;
    const struct rs_summary *summary = reduce->summary;
    const uint32_t step = windows_find(&reduce->host_windows, start + (end - start) / 2);
    struct rs_span_row span = span_none();
    span.kind = kind;
    span.step = step == REDUCE_NONE ? RS_STEP_NONE : reduce->steps.items[step].number;
    span.start = span.launch_first = span.launch_last = start;
    span.end = end;
    while (h->next_op < summary->op_count && summary->ops[h->next_op].call_start < end)
        h->next_op++;
    if (h->next_op < summary->op_count)
        span.thread = summary->ops[h->next_op].caller_thread;
    return span;
}

static enum rs_status push_wait(struct host_spans *h, rs_ns start, rs_ns end)
{
    const struct rs_span_row span = new_piece(h, start, end, RS_SPAN_HOST_WAIT);
    return span_push(h->reduce, &span);
}

static enum rs_status push_own(struct host_spans *h, rs_ns start, rs_ns end, rs_dur busy)
{
    const struct rs_reduce *reduce = h->reduce;
    struct rs_span_row span = new_piece(h, start, end, RS_SPAN_COMPUTING);
    span.busy = busy;
    while (h->self_at < h->self_count && h->selves[h->self_at].start < start)
        h->self_at++;
    for (; h->self_at < h->self_count && h->selves[h->self_at].start < end; h->self_at++) {
        const struct self_time *self = &h->selves[h->self_at];
        const enum rs_status status =
            span_names_add(&h->names, self->name, self->time > 0 ? self->time : 0);
        if (status != RS_OK)
            return status;
        span.count++;
        span.signature += XXH64(rs_strtab_text(reduce->strings, self->name),
                                rs_strtab_length(reduce->strings, self->name), 0);
    }
    span_names_take(&h->names, reduce, &span);
    return span_push(h->reduce, &span);
}

/* The time between two cuts: own, wait, own, ... in turn. */
static enum rs_status take_between(struct host_spans *h, rs_ns from, rs_ns to)
{
    enum rs_status status = RS_OK;
    rs_ns own = from, at = from; /* where the open piece of own time began; what is done with */
    rs_dur busy = 0;
    while (status == RS_OK && at < to) {
        while (h->busy_at < h->busy.count && h->busy.items[h->busy_at].end <= at)
            h->busy_at++;
        const struct interval *next =
            h->busy_at < h->busy.count ? &h->busy.items[h->busy_at] : NULL;
        const rs_ns idle_end = !next || next->start >= to ? to : next->start;
        if (idle_end > at) {
            const rs_ns until = waited_until(h, at, idle_end);
            if (until > at) {
                if (at > own)
                    status = push_own(h, own, at, busy);
                if (status == RS_OK)
                    status = push_wait(h, at, until);
                own = until;
                busy = 0;
            }
            at = idle_end;
            continue;
        }
        const rs_ns end = next && next->end < to ? next->end : to;
        busy += end - at;
        at = end;
    }
    return status == RS_OK && to > own ? push_own(h, own, to, busy) : status;
}

static enum rs_status take_all(struct host_spans *h)
{
    const struct rs_reduce *reduce = h->reduce;
    if (!reduce->steps.count)
        return RS_OK;
    rs_ns from = reduce->steps.items[0].host_start, last = reduce->span_end;
    for (size_t i = 0; i < reduce->steps.count; i++)
        last = reduce->steps.items[i].host_end > last ? reduce->steps.items[i].host_end : last;
    from = reduce->span_start < from ? reduce->span_start : from;
    enum rs_status status = RS_OK;
    for (size_t i = 0; status == RS_OK && i < h->cuts->count; i++) {
        const rs_ns cut = h->cuts->items[i].key;
        if (cut <= from)
            continue;
        if (cut >= last)
            break;
        status = take_between(h, from, cut);
        from = cut;
    }
    return status == RS_OK && last > from ? take_between(h, from, last) : status;
}

enum rs_status spans_of_host(struct rs_reduce *reduce, const struct span_cuts *cuts)
{
    struct host_spans h = {.reduce = reduce, .cuts = cuts};
    enum rs_status status = span_names_init(&h.names, reduce);
    if (status == RS_OK)
        status = build_busy(&h);
    if (status == RS_OK)
        status = build_ends(&h);
    if (status == RS_OK)
        status = build_selves(&h);
    if (status == RS_OK)
        status = take_all(&h);
    span_names_fini(&h.names);
    intervals_fini(&h.busy);
    rs_mem_free(h.ends);
    rs_mem_free(h.selves);
    return status;
}
