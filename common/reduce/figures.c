/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of a rank: per device over the whole capture, and per step and device.
 *
 * Two questions about a step, two answers (contracts section 4):
 *
 *   official figures   an operation counts whole in the first step whose [START, END) holds its start;
 *                      memory copies are no operations. Unions and gaps are taken among the step's
 *                      own operations.
 *   breakdown          windows E(k-1) .. E(k) tile the capture; all work is clipped to them, whoever
 *                      launched it, and every nanosecond is in exactly one of the six parts:
 *
 *     E(k-1)                                                                        E(k)
 *       | idle head | computing | exposed comm | idle inside | memory | ... | idle tail |
 *
 * Work before the first window or after the last is in the whole-capture figures only.
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

#include <stdlib.h>

/* All work of one device, as normal lists. `exposed`: communication \ computing; `bare`: memory under
 * neither. The three disjoint ones make up `busy`. */
struct device_lists {
    struct intervals computing, communication, memory, busy;
    struct intervals exposed, both, bare;
};

static void device_lists_fini(struct device_lists *lists)
{
    intervals_fini(&lists->computing);
    intervals_fini(&lists->communication);
    intervals_fini(&lists->memory);
    intervals_fini(&lists->busy);
    intervals_fini(&lists->exposed);
    intervals_fini(&lists->both);
    intervals_fini(&lists->bare);
}

static struct intervals *list_of_class(struct device_lists *lists, uint8_t work_class)
{
    return work_class == RS_WORK_COMPUTING       ? &lists->computing
           : work_class == RS_WORK_COMMUNICATION ? &lists->communication
                                                 : &lists->memory;
}

static enum rs_status device_lists_build(const struct rs_reduce *reduce, size_t slot,
                                         struct device_lists *lists)
{
    enum rs_status status = RS_OK;
    for (size_t i = reduce->slot_first[slot]; i < reduce->slot_first[slot + 1]; i++) {
        const struct reduce_work *work = &reduce->work.items[reduce->order[i]];
        status = intervals_push(list_of_class(lists, work->work_class), work->start, work->end);
        if (status == RS_OK)
            status = intervals_push(&lists->busy, work->start, work->end);
        if (status == RS_OK && work->work_class != RS_WORK_MEMORY)
            status = intervals_push(&lists->both, work->start, work->end);
        if (status != RS_OK)
            return status;
    }
    enum { ALL = 5 };
    struct intervals *const all[ALL] = {&lists->computing, &lists->communication, &lists->memory,
                                        &lists->busy, &lists->both};
    for (size_t i = 0; status == RS_OK && i < ALL; i++)
        status = intervals_normalise(all[i]);
    if (status == RS_OK)
        status = intervals_subtract(&lists->communication, &lists->computing, &lists->exposed);
    if (status == RS_OK)
        status = intervals_subtract(&lists->memory, &lists->both, &lists->bare);
    return status;
}

static enum rs_status push_device(struct rs_reduce *reduce, size_t slot,
                                  const struct device_lists *lists)
{
    struct rs_device_row row = {
        .device = reduce->slots[slot],
        .busy = intervals_length(&lists->busy),
        .computing = intervals_length(&lists->computing),
        .communication = intervals_length(&lists->communication),
        .memory = intervals_length(&lists->memory),
        .overlapped = intervals_overlap(&lists->computing, &lists->communication),
    };
    const size_t first = reduce->slot_first[slot];
    row.window_start = reduce->work.items[reduce->order[first]].start;
    row.window_end = row.window_start;
    for (size_t i = first; i < reduce->slot_first[slot + 1]; i++) {
        const rs_ns end = reduce->work.items[reduce->order[i]].end;
        row.window_end = end > row.window_end ? end : row.window_end;
    }
    struct rs_summary *summary = reduce->summary;
    const enum rs_status status = rs_mem_grow((void **)&summary->devices, &summary->device_capacity,
                                              summary->device_count + 1, sizeof *summary->devices);
    if (status == RS_OK)
        summary->devices[summary->device_count++] = row;
    return status;
}

/* ---- the nine official figures ---- */

/* Operations of one step on one device, by start. */
struct step_ops {
    struct intervals computing, communication;
    rs_ns first, last; /* extent of all, empty ones too */
    bool has_work;
};

static void official_figures(const struct step_ops *ops, rs_dur bubble, struct rs_step_row *row)
{
    if (!ops->has_work)
        return;
    row->has_work = true;
    row->computing = intervals_length(&ops->computing);
    row->communication = intervals_length(&ops->communication);
    row->overlapped = intervals_overlap(&ops->computing, &ops->communication);
    row->communication_not_overlapped = row->communication - row->overlapped;
    const rs_dur extent = ops->last - ops->first;
    row->free = extent - (row->computing + row->communication_not_overlapped);
    row->bubble = bubble;
    row->stage = extent - bubble;
    const rs_dur rest = row->communication_not_overlapped - bubble;
    row->communication_not_overlapped_exclude_receive = rest > 0 ? rest : 0;
    row->preparing = ops->first - row->host_start;
}

static enum rs_status push_step_op(struct step_ops *ops, const struct reduce_work *work)
{
    if (!ops->has_work || work->start < ops->first)
        ops->first = work->start;
    if (!ops->has_work || work->end > ops->last)
        ops->last = work->end;
    ops->has_work = true;
    return intervals_push(work->work_class == RS_WORK_COMPUTING ? &ops->computing
                                                                : &ops->communication,
                          work->start, work->end);
}

/* Buckets: the operations of a device by step, each bucket by start. */
struct buckets {
    size_t *first;  /* [steps + 1] bounds in `work` */
    uint32_t *work; /* indexes of work rows */
};

static enum rs_status buckets_build(const struct rs_reduce *reduce, size_t slot,
                                    struct buckets *buckets)
{
    const size_t from = reduce->slot_first[slot], to = reduce->slot_first[slot + 1];
    const size_t steps = reduce->steps.count;
    uint32_t *step_of = rs_mem_calloc(to - from + 1, sizeof *step_of);
    buckets->first = rs_mem_calloc(steps + 2, sizeof *buckets->first);
    buckets->work = rs_mem_calloc(to - from + 1, sizeof *buckets->work);
    if (!step_of || !buckets->first || !buckets->work) {
        rs_mem_free(step_of);
        return RS_NOMEM;
    }
    for (size_t i = from; i < to; i++) {
        const struct reduce_work *work = &reduce->work.items[reduce->order[i]];
        const uint32_t step = work->work_class == RS_WORK_MEMORY
                                  ? REDUCE_NONE
                                  : windows_find(&reduce->device_windows[slot], work->start);
        step_of[i - from] = step;
        if (step != REDUCE_NONE)
            buckets->first[step + 2]++;
    }
    for (size_t step = 2; step < steps + 2; step++)
        buckets->first[step] += buckets->first[step - 1];
    for (size_t i = from; i < to; i++) { /* first[step + 1] is where the next of `step` goes */
        const uint32_t step = step_of[i - from];
        if (step != REDUCE_NONE)
            buckets->work[buckets->first[step + 1]++] = reduce->order[i];
    }
    rs_mem_free(step_of);
    return RS_OK;
}

/* Sum of single receives per step: what the official Bubble counts. */
static void sum_bubbles(const struct rs_reduce *reduce, size_t slot, rs_dur *bubbles)
{
    const struct rs_summary *summary = reduce->summary;
    for (size_t i = 0; i < summary->op_count; i++) {
        const struct rs_comm_op *op = &summary->ops[i];
        if (op->type != RS_OP_RECV || op->device != reduce->slots[slot])
            continue;
        const uint32_t step = windows_find(&reduce->device_windows[slot], op->start);
        if (step != REDUCE_NONE)
            bubbles[step] = sum_clamped(bubbles[step], op->end - op->start);
    }
}

static enum rs_status official_rows(const struct rs_reduce *reduce, size_t slot,
                                    struct rs_step_row *rows)
{
    const size_t steps = reduce->steps.count;
    struct buckets buckets = {0};
    struct step_ops ops = {0};
    rs_dur *bubbles = rs_mem_calloc(steps + 1, sizeof *bubbles);
    enum rs_status status = bubbles ? buckets_build(reduce, slot, &buckets) : RS_NOMEM;
    if (status == RS_OK)
        sum_bubbles(reduce, slot, bubbles);
    for (size_t step = 0; status == RS_OK && step < steps; step++) {
        ops.computing.count = ops.communication.count = 0;
        ops.has_work = false;
        for (size_t i = buckets.first[step]; status == RS_OK && i < buckets.first[step + 1]; i++)
            status = push_step_op(&ops, &reduce->work.items[buckets.work[i]]);
        if (status == RS_OK)
            status = intervals_normalise(&ops.computing);
        if (status == RS_OK)
            status = intervals_normalise(&ops.communication);
        if (status == RS_OK)
            official_figures(&ops, bubbles[step], &rows[step]);
    }
    intervals_fini(&ops.computing);
    intervals_fini(&ops.communication);
    rs_mem_free(buckets.first);
    rs_mem_free(buckets.work);
    rs_mem_free(bubbles);
    return status;
}

/* ---- the breakdown that adds up ---- */

/* A walk over a normal list by windows that follow each other. */
struct walk {
    const struct intervals *list;
    size_t at;
};

/* Length of the list inside [start, end); its first start and last end there when there is any. */
static rs_dur walk_window(struct walk *walk, rs_ns start, rs_ns end, rs_ns *first_p, rs_ns *last_p)
{
    rs_dur length = 0;
    const struct intervals *list = walk->list;
    while (walk->at < list->count && list->items[walk->at].end <= start)
        walk->at++;
    for (size_t i = walk->at; i < list->count && list->items[i].start < end; i++) {
        const rs_ns from = list->items[i].start > start ? list->items[i].start : start;
        const rs_ns to = list->items[i].end < end ? list->items[i].end : end;
        if (to <= from)
            continue;
        if (!length)
            *first_p = from;
        *last_p = to;
        length += to - from;
        if (list->items[i].end <= end)
            walk->at = i + 1;
    }
    return length;
}

/* On a host a worker thread notes the end of an operation after the rank has gone on, so that it may reach into the next
 * step: what runs on from before `start` is not that step's first work. Idle time from there to the first that begins. */
static rs_dur idle_before_first(const struct walk *walk, rs_ns start, rs_ns end)
{
    const struct intervals *list = walk->list;
    size_t i = walk->at;
    while (i < list->count && list->items[i].end <= start)
        i++;
    rs_ns from = start;
    if (i < list->count && list->items[i].start < start)
        from = list->items[i++].end;
    if (i < list->count && list->items[i].start < end)
        return list->items[i].start - from;
    return from > start ? 0 : end - start; /* behind the last work: the tail */
}

/* E(k): the latest end of the work that each step launched on this device. */
static void latest_ends(const struct rs_reduce *reduce, size_t slot, rs_ns *ends)
{
    for (size_t step = 0; step < reduce->steps.count; step++)
        ends[step] = RS_NS_MIN;
    for (size_t i = reduce->slot_first[slot]; i < reduce->slot_first[slot + 1]; i++) {
        const struct reduce_work *work = &reduce->work.items[reduce->order[i]];
        const bool bounds = work_is_linked(work) || reduce->step_origin == RS_STEPS_NONE;
        if (bounds && work->step != REDUCE_NONE && work->end > ends[work->step])
            ends[work->step] = work->end;
    }
}

static enum rs_status breakdown_rows(const struct rs_reduce *reduce, size_t slot,
                                     const struct device_lists *lists, struct rs_step_row *rows)
{
    const size_t steps = reduce->steps.count;
    rs_ns *ends = rs_mem_calloc(steps + 1, sizeof *ends);
    if (!ends)
        return RS_NOMEM;
    if (reduce->has_device_work)
        latest_ends(reduce, slot, ends);
    struct walk computing = {.list = &lists->computing}, exposed = {.list = &lists->exposed},
                memory = {.list = &lists->bare}, busy = {.list = &lists->busy};
    rs_ns start = steps ? reduce->steps.items[0].host_start : 0;
    for (size_t step = 0; step < steps; step++) {
        struct rs_step_row *row = &rows[step];
        rs_ns end = reduce->steps.items[step].host_end;
        if (reduce->has_device_work && ends[step] != RS_NS_MIN)
            end = ends[step];
        end = end > start ? end : start;
        rs_ns first = end, last = end;
        rs_ns ignored_first, ignored_last;
        row->window_start = start;
        row->window_end = end;
        row->window_computing = walk_window(&computing, start, end, &ignored_first, &ignored_last);
        row->window_exposed = walk_window(&exposed, start, end, &ignored_first, &ignored_last);
        row->window_memory = walk_window(&memory, start, end, &ignored_first, &ignored_last);
        const rs_dur head = idle_before_first(&busy, start, end);
        const rs_dur work = walk_window(&busy, start, end, &first, &last);
        row->idle_tail = end - last;
        row->idle_head = reduce->has_device_work ? first - start : head;
        row->idle_inside = (end - start) - work - row->idle_head - row->idle_tail;
        start = end;
    }
    rs_mem_free(ends);
    return RS_OK;
}

/* ---- CPU time of native operations ---- */

/* Into rows[step].cpu_ns: of each thread's outermost operations that measured it. */
static enum rs_status sum_cpu_times(const struct rs_reduce *reduce, struct rs_step_row *rows)
{
    const size_t count = reduce->cpu_times.count;
    struct sort_item *items = rs_mem_calloc(count + 1, sizeof *items);
    rs_ns *busy_until = rs_mem_calloc(reduce->lanes->count + 1, sizeof *busy_until);
    enum rs_status status = items && busy_until ? RS_OK : RS_NOMEM;
    if (status == RS_OK) {
        for (size_t i = 0; i < reduce->lanes->count; i++)
            busy_until[i] = RS_NS_MIN;
        for (size_t i = 0; i < count;
             i++) /* longest first, so that of one start the outermost leads */
            items[i] = (struct sort_item){
                -(reduce->cpu_times.items[i].end - reduce->cpu_times.items[i].start), i};
        status = sort_items(items, count);
    }
    if (status == RS_OK) {
        for (size_t i = 0; i < count; i++)
            items[i].key = reduce->cpu_times.items[items[i].value].start;
        status = sort_items(items, count);
    }
    for (size_t i = 0; status == RS_OK && i < count; i++) {
        const struct reduce_cpu_time *time = &reduce->cpu_times.items[items[i].value];
        const uint32_t step = windows_find(&reduce->host_windows, time->start);
        if (time->start < busy_until[time->lane])
            continue;
        busy_until[time->lane] = time->end;
        if (step == REDUCE_NONE)
            continue;
        rows[step].cpu_ns =
            sum_clamped(rows[step].cpu_ns < 0 ? 0 : rows[step].cpu_ns, time->cpu_ns);
    }
    rs_mem_free(items);
    rs_mem_free(busy_until);
    return status;
}

/* ---- all of it ---- */

static void init_rows(const struct rs_reduce *reduce, size_t slot, struct rs_step_row *rows)
{
    for (size_t i = 0; i < reduce->steps.count; i++) {
        const struct reduce_step *step = &reduce->steps.items[i];
        rows[i] = (struct rs_step_row){
            .step = step->number,
            .device = reduce->slots[slot],
            .is_partial = step->is_partial,
            .host_start = step->host_start,
            .host_end = step->host_end,
            .cpu_ns = -1,
            .input_ns = -1,
            .input_inside_ns = -1,
        };
    }
}

static enum rs_status build_slot(struct rs_reduce *reduce, size_t slot, struct rs_step_row *rows)
{
    struct device_lists lists = {0};
    init_rows(reduce, slot, rows);
    enum rs_status status = device_lists_build(reduce, slot, &lists);
    if (status == RS_OK)
        status = push_device(reduce, slot, &lists);
    if (status == RS_OK)
        status = official_rows(reduce, slot, rows);
    if (status == RS_OK)
        status = breakdown_rows(reduce, slot, &lists, rows);
    if (status == RS_OK && !reduce->has_device_work)
        status = sum_cpu_times(reduce, rows);
    device_lists_fini(&lists);
    return status;
}

enum rs_status figures_build(struct rs_reduce *reduce)
{
    struct rs_summary *summary = reduce->summary;
    const size_t steps = reduce->steps.count;
    const size_t slots = reduce->slot_count;
    struct rs_step_row *rows = rs_mem_calloc(steps + 1, sizeof *rows);
    enum rs_status status = rows ? RS_OK : RS_NOMEM;
    if (status == RS_OK && steps > 0 && slots > 0)
        status = rs_mem_grow((void **)&summary->steps, &summary->step_capacity, steps * slots,
                             sizeof *summary->steps);
    for (size_t slot = 0; status == RS_OK && slot < slots; slot++) {
        status = build_slot(reduce, slot, rows);
        for (size_t step = 0; status == RS_OK && step < steps; step++)
            summary->steps[step * slots + slot] = rows[step];
    }
    if (status == RS_OK)
        summary->step_count = steps * slots;
    rs_mem_free(rows);
    return status;
}
