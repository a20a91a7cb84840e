/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a rank's summary while the rank still records.
 *
 *   steps   |  before  |  neighbour  | ended, not told yet .. | ended: the one behind | open ...
 *   rows                [------------ copied, if they end here or later -----------------------
 *   part                              [======================)
 *
 * The copied rows go through the stages that the whole recording goes through at its end, and the part is cut out of what
 * comes of them. The step before it is there because windows of figures begin where the one before ended, and operations
 * that began in it may end here; the step behind, because a thread that waits, or a worker that notes an end, may be late. That
 * is enough for what usually happens, not for all that can: who wants to be sure cuts the whole summary at the same instant.
 *
 * Rows are in order of their coming, so a list's rows that had ended before the neighbour step are a prefix but for stragglers:
 * each list is looked at from its first row that had not. Cost: rows of the window, and what lies behind a row that is long.
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

/* Steps that come in order, told by the program itself, and nothing that rests on the whole recording. */
static bool can_take(struct rs_reduce *reduce)
{
    struct reduce_taking *taking = &reduce->taking;
    if (reduce->has_device_work || reduce->has_trace_span || reduce->calls.count ||
        reduce->profiler_steps.count || reduce->optimizer_steps.count || reduce->waits.count ||
        reduce->step_windows.count)
        taking->is_impossible = true;
    return !taking->is_impossible && reduce->native_steps.count >= 2;
}

/* Whether the steps behind those that were told follow each other in time and number. */
static bool are_in_order(const struct rs_reduce *reduce)
{
    const struct reduce_mark *steps = reduce->native_steps.items;
    const size_t done = reduce->taking.steps_done;
    for (size_t i = done; i < reduce->native_steps.count; i++) {
        if ((steps[i].flags & RS_EVENT_UNFINISHED) || steps[i].end <= steps[i].start)
            return false;
        if (i && (steps[i].number <= steps[i - 1].number || steps[i].start < steps[i - 1].end))
            return false;
    }
    return true;
}

/* ---- the window's rows ------------------------------------------------------------------------------------------ */

static void widen(struct rs_reduce *window, rs_ns start, rs_ns end)
{
    window->first_start = start < window->first_start ? start : window->first_start;
    window->last_end = end > window->last_end ? end : window->last_end;
    window->has_rows = true;
}

/* Copies the rows of a list that end at `since` or later, from *from_p on, which goes on over those that do not. */
#define COPY_ROWS(list, from_p, since, status)                                                     \
    do {                                                                                           \
        size_t *const from_ = (from_p);                                                            \
        while (*from_ < reduce->list.count && reduce->list.items[*from_].end < (since))            \
            (*from_)++;                                                                            \
        for (size_t i_ = *from_; (status) == RS_OK && i_ < reduce->list.count; i_++) {             \
            if (reduce->list.items[i_].end < (since))                                              \
                continue;                                                                          \
            REDUCE_PUSH(&window->list, status, reduce->list.items[i_]);                            \
            widen(window, reduce->list.items[i_].start, reduce->list.items[i_].end);               \
        }                                                                                          \
    } while (0)

static enum rs_status copy_steps(const struct rs_reduce *reduce, struct rs_reduce *window)
{
    enum rs_status status = RS_OK;
    const size_t done = reduce->taking.steps_done;
    for (size_t i = done ? done - 1 : 0; status == RS_OK && i < reduce->native_steps.count; i++) {
        const struct reduce_mark *step = &reduce->native_steps.items[i];
        REDUCE_PUSH(&window->native_steps, status, *step);
        widen(window, step->start, step->end);
    }
    return status;
}

/* That there was input at all changes what is said of steps without: the first range is always there. */
static enum rs_status copy_inputs(struct rs_reduce *reduce, struct rs_reduce *window, rs_ns since)
{
    enum rs_status status = RS_OK;
    size_t *from = &reduce->taking.inputs_from;
    while (*from < reduce->inputs.count && reduce->inputs.items[*from].end < since)
        (*from)++;
    for (size_t i = *from ? *from - 1 : 0; status == RS_OK && i < reduce->inputs.count; i++)
        status = intervals_push(&window->inputs, reduce->inputs.items[i].start,
                                reduce->inputs.items[i].end);
    return status;
}

static enum rs_status copy_rows(struct rs_reduce *reduce, struct rs_reduce *window)
{
    struct reduce_taking *taking = &reduce->taking;
    const rs_ns since =
        taking->steps_done ? reduce->native_steps.items[taking->steps_done - 1].start : RS_NS_MIN;
    enum rs_status status = copy_steps(reduce, window);
    COPY_ROWS(cpu_ops, &taking->cpu_ops_from, since, status);
    COPY_ROWS(cpu_times, &taking->cpu_times_from, since, status);
    COPY_ROWS(native_comms, &taking->comms_from, since, status);
    COPY_ROWS(native_tasks, &taking->tasks_from, since, status);
    COPY_ROWS(losses, &taking->losses_from, since, status);
    if (status == RS_OK)
        status = copy_inputs(reduce, window, since);
    window->has_native = reduce->has_native;
    /* read, and found again by the next part: what names mean, and the columns of communication rows */
    window->names = reduce->names;
    window->name_capacity = reduce->name_capacity;
    window->comms.items = reduce->comms.items;
    window->comms.count = reduce->comms.count;
    return status;
}

static void free_window(struct rs_reduce **window_p)
{
    struct rs_reduce *window = *window_p;
    window->names = NULL;
    window->comms.items = NULL;
    rs_reduce_free(window_p);
}

/* ---- a part ------------------------------------------------------------------------------------------------------ */

static rs_ns absolute(const struct rs_trace_info *info, rs_ns instant)
{
    return info->has_time_base ? instant + ns_clamp(info->base_ns) : instant;
}

static int64_t next_order(const struct rs_summary *part, int64_t before)
{
    int64_t next = before;
    if (part->op_count && part->ops[part->op_count - 1].call_order >= next)
        next = part->ops[part->op_count - 1].call_order + 1;
    if (part->span_count && part->spans[part->span_count - 1].order >= next)
        next = part->spans[part->span_count - 1].order + 1;
    return next;
}

static enum rs_status take(struct rs_reduce *reduce, const struct rs_trace_info *info, rs_ns until,
                           struct rs_part_head *head, struct rs_summary *part_p)
{
    struct reduce_taking *taking = &reduce->taking;
    struct rs_reduce *window = NULL;
    struct rs_summary around = {0};
    enum rs_status status = rs_reduce_new(reduce->strings, reduce->lanes, &window);
    if (status != RS_OK)
        return status;
    *head =
        (struct rs_part_head){.number = taking->count,
                              .from_ns = taking->count ? absolute(info, taking->until) : RS_NS_MIN,
                              .until_ns = absolute(info, until),
                              .rows = reduce->row_count};
    status = copy_rows(reduce, window);
    if (status == RS_OK)
        status = reduce_build(window, info, &around);
    if (status == RS_OK) {
        status = rs_summary_slice(&around, head, taking->next_order, part_p);
        rs_summary_fini(&around);
    }
    free_window(&window);
    return status;
}

enum rs_status rs_reduce_take_part(struct rs_reduce *reduce, const struct rs_trace_info *info,
                                   struct rs_part_head *head_p, struct rs_summary *part_p,
                                   struct rs_err *err)
{
    struct reduce_taking *taking = &reduce->taking;
    if (!can_take(reduce) || taking->steps_done + 1 >= reduce->native_steps.count)
        return RS_END;
    if (!are_in_order(reduce)) {
        taking->is_impossible = true;
        return RS_END;
    }
    const size_t done = reduce->native_steps.count - 1; /* the last one is the neighbour behind */
    const rs_ns until = reduce->native_steps.items[done - 1].end;
    const enum rs_status status = take(reduce, info, until, head_p, part_p);
    if (status != RS_OK)
        return rs_err_set(err, status, "reducing a rank's steps: %s", rs_status_text(status));
    taking->next_order = next_order(part_p, taking->next_order);
    taking->steps_done = done;
    taking->until = until;
    taking->count++;
    return RS_OK;
}
