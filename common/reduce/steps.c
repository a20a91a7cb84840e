/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which steps a recording holds, on the host's clock.
 *
 *   native STEP rows       their own numbers and windows
 *   ProfilerStep#N         window of its row; several rows of one N: from the first start to the last end
 *   Optimizer.step#Class   (end of the previous one, end of its own]; the first starts where the recording does;
 *                          numbered from 0. With several optimizers per step (rows of different names, each
 *                          about as often as the others) a step ends with the last of its round
 *   none of these          the whole recording is step 0
 *
 * A step is partial when its end is not in the recording: its row was unfinished, its round of
 * optimizers is not complete, or events of it were lost. In a damaged trace every step is: rows do not stand in
 * order of time, so nobody knows what is missing where.
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

static enum rs_status sort_marks(struct reduce_mark *marks, size_t count, bool by_end)
{
    if (!count)
        return RS_OK;
    struct sort_item *items = rs_mem_calloc(count, sizeof *items);
    struct reduce_mark *copy = rs_mem_calloc(count, sizeof *copy);
    enum rs_status status = items && copy ? RS_OK : RS_NOMEM;
    if (status == RS_OK) {
        for (size_t i = 0; i < count; i++) {
            copy[i] = marks[i];
            items[i] = (struct sort_item){by_end ? marks[i].end : marks[i].start, i};
        }
        status = sort_items(items, count);
    }
    if (status == RS_OK) {
        for (size_t i = 0; i < count; i++)
            marks[i] = copy[items[i].value];
    }
    rs_mem_free(items);
    rs_mem_free(copy);
    return status;
}

static enum rs_status push_step(struct rs_reduce *reduce, int64_t number, rs_ns start, rs_ns end,
                                bool is_partial)
{
    enum rs_status status;
    REDUCE_PUSH(&reduce->steps, status, (struct reduce_step){number, start, end, is_partial});
    return status;
}

/* The end of a mark; of an unfinished one not later than the recording's. */
static rs_ns mark_end(const struct rs_reduce *reduce, const struct reduce_mark *mark)
{
    const bool is_cut = (mark->flags & RS_EVENT_UNFINISHED) && mark->end > reduce->span_end;
    const rs_ns end = is_cut ? reduce->span_end : mark->end;
    return end > mark->start ? end : mark->start;
}

/* Steps that name themselves: one per number, in order of their first start. */
static enum rs_status numbered_steps(struct rs_reduce *reduce, struct reduce_mark *marks,
                                     size_t count)
{
    struct sort_item *by_number = rs_mem_calloc(count, sizeof *by_number);
    if (!by_number)
        return RS_NOMEM;
    for (size_t i = 0; i < count; i++)
        by_number[i] = (struct sort_item){marks[i].number, i};
    enum rs_status status = sort_items(by_number, count);
    size_t kept = 0; /* marks merged per number, collected in `marks` behind our back: copy first */
    struct reduce_mark *merged = rs_mem_calloc(count, sizeof *merged);
    if (!merged)
        status = RS_NOMEM;
    for (size_t i = 0; status == RS_OK && i < count; i++) {
        struct reduce_mark mark = marks[by_number[i].value];
        mark.end = mark_end(reduce, &mark);
        if (kept && merged[kept - 1].number == mark.number) {
            struct reduce_mark *same = &merged[kept - 1];
            same->start = mark.start < same->start ? mark.start : same->start;
            same->end = mark.end > same->end ? mark.end : same->end;
            same->flags |= mark.flags;
        } else {
            merged[kept++] = mark;
        }
    }
    if (status == RS_OK)
        status = sort_marks(merged, kept, false);
    for (size_t i = 0; status == RS_OK && i < kept; i++)
        status = push_step(reduce, merged[i].number, merged[i].start, merged[i].end,
                           merged[i].flags & RS_EVENT_UNFINISHED);
    rs_mem_free(merged);
    rs_mem_free(by_number);
    return status;
}

enum { OPTIMIZERS_MAX = 16 };

/* How many optimizers take turns in each step: 1, or the number of different names when each
 * is there as often as the others, but for a round that the recording cut. */
static size_t optimizers_per_step(const struct reduce_mark *marks, size_t count)
{
    rs_str names[OPTIMIZERS_MAX];
    size_t counts[OPTIMIZERS_MAX];
    size_t kinds = 0;
    for (size_t i = 0; i < count; i++) {
        size_t kind = 0;
        while (kind < kinds && names[kind] != marks[i].name)
            kind++;
        if (kind == OPTIMIZERS_MAX)
            return 1;
        if (kind == kinds) {
            names[kinds] = marks[i].name;
            counts[kinds++] = 0;
        }
        counts[kind]++;
    }
    size_t least = count, most = 0;
    for (size_t kind = 0; kind < kinds; kind++) {
        least = counts[kind] < least ? counts[kind] : least;
        most = counts[kind] > most ? counts[kind] : most;
    }
    return most - least <= 1 ? kinds : 1;
}

/* Rows of one round that starts at `from`: up to the first name that is there already. */
static size_t round_length(const struct reduce_mark *marks, size_t count, size_t from, size_t most)
{
    size_t length = 1;
    for (; from + length < count && length < most; length++) {
        for (size_t i = 0; i < length; i++) {
            if (marks[from + i].name == marks[from + length].name)
                return length;
        }
    }
    return length;
}

static enum rs_status optimizer_steps(struct rs_reduce *reduce)
{
    struct reduce_mark *marks = reduce->optimizer_steps.items;
    const size_t count = reduce->optimizer_steps.count;
    enum rs_status status = sort_marks(marks, count, true);
    const size_t per_step = optimizers_per_step(marks, count);
    rs_ns start = reduce->span_start;
    int64_t number = 0;
    for (size_t i = 0; status == RS_OK && i < count;) {
        const size_t length = round_length(marks, count, i, per_step);
        const struct reduce_mark *last = &marks[i + length - 1];
        rs_ns end = mark_end(reduce, last);
        end = end > start ? end : start;
        const bool is_last = i + length == count;
        const bool is_partial =
            (last->flags & RS_EVENT_UNFINISHED) || (is_last && length < per_step && number > 0);
        status = push_step(reduce, number++, start, end, is_partial);
        start = end;
        i += length;
    }
    return status;
}

static void mark_partial(struct rs_reduce *reduce)
{
    const bool all = reduce->info->is_partial && !reduce->info->has_whole_steps &&
                     reduce->step_origin != RS_STEPS_NATIVE;
    for (size_t i = 0; i < reduce->steps.count; i++) {
        struct reduce_step *step = &reduce->steps.items[i];
        step->is_partial |= all;
        for (size_t k = 0; k < reduce->losses.count; k++) {
            const struct interval *loss = &reduce->losses.items[k];
            step->is_partial |= loss->start < step->host_end && loss->end >= step->host_start;
        }
    }
}

static enum rs_status build_windows(struct rs_reduce *reduce)
{
    const size_t count = reduce->steps.count;
    const enum rs_status status = windows_init(&reduce->host_windows, count);
    if (status != RS_OK)
        return status;
    const rs_ns edge = reduce->step_origin == RS_STEPS_OPTIMIZER_STEP ? 1 : 0;
    for (size_t i = 0; i < count; i++) {
        const struct reduce_step *step = &reduce->steps.items[i];
        reduce->host_windows.items[i] =
            (struct interval){step->host_start + (i ? edge : 0), step->host_end + edge};
    }
    if (reduce->step_origin == RS_STEPS_NONE && count)
        reduce->host_windows.items[0] = (struct interval){RS_NS_MIN, RS_NS_MAX};
    windows_index(&reduce->host_windows);
    return RS_OK;
}

enum rs_status steps_build(struct rs_reduce *reduce)
{
    enum rs_status status = RS_OK;
    if (reduce->native_steps.count) {
        reduce->step_origin = RS_STEPS_NATIVE;
        status = numbered_steps(reduce, reduce->native_steps.items, reduce->native_steps.count);
    } else if (reduce->profiler_steps.count) {
        reduce->step_origin = RS_STEPS_PROFILER_STEP;
        status = numbered_steps(reduce, reduce->profiler_steps.items, reduce->profiler_steps.count);
    } else if (reduce->optimizer_steps.count) {
        reduce->step_origin = RS_STEPS_OPTIMIZER_STEP;
        status = optimizer_steps(reduce);
    } else if (reduce->has_rows) {
        status = push_step(reduce, 0, reduce->span_start, reduce->span_end, false);
    }
    if (status != RS_OK)
        return status;
    mark_partial(reduce);
    return build_windows(reduce);
}
