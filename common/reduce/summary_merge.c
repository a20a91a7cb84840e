/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two summaries of one rank made one: parts that came while it recorded, or recordings that follow each other.
 *
 * Texts, groups, devices and kernels are found again by what they are, not by their number, which is each summary's own. Steps and operations
 * of the later one come behind those of the earlier, and their order counts on. What the earlier does not know of the rank the later one
 * may; one that is partial makes the whole partial. Counts add up, and stay at the largest there is.
 */
#include "common/reduce/summary_merge.h"

#include "common/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct merge {
    struct rs_summary *into;
    const struct rs_summary *later;
    rs_str *strings;  /* id of later -> id of into */
    uint32_t *groups; /* index of later -> index of into */
    int64_t step_shift;
    int64_t order_shift;
    size_t first_task; /* where later's tasks begin */
};

/* What strangers' files add up to stops at the largest number instead of wrapping. */
static int64_t sum_of(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}

/* Without a map the ids are those of `into` already. */
static rs_str string_of(const struct merge *m, rs_str id)
{
    return id == RS_STR_NONE || !m->strings ? id : m->strings[id];
}

static enum rs_status merge_strings(struct merge *m)
{
    const struct rs_strtab *from = &m->later->strings;
    m->strings = rs_mem_calloc(from->count + 1, sizeof *m->strings);
    if (!m->strings)
        return RS_NOMEM;
    for (size_t i = 0; i < from->count; i++) {
        const enum rs_status status = rs_strtab_add(&m->into->strings, from->entries[i].text,
                                                    from->entries[i].length, &m->strings[i]);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

/* --- groups ----------------------------------------------------------------------------------------- */

static bool is_same_group(const struct merge *m, const struct rs_group_info *a,
                          const struct rs_group_info *b)
{
    return a->name == string_of(m, b->name) && a->description == string_of(m, b->description) &&
           a->size == b->size && a->rank_count == b->rank_count &&
           (a->rank_count == 0 ||
            memcmp(a->ranks, b->ranks, a->rank_count * sizeof *a->ranks) == 0);
}

static enum rs_status add_group(struct merge *m, const struct rs_group_info *group)
{
    struct rs_summary *into = m->into;
    if (rs_mem_grow((void **)&into->groups, &into->group_capacity, into->group_count + 1,
                    sizeof *into->groups) != RS_OK)
        return RS_NOMEM;
    struct rs_group_info copy = *group;
    copy.name = string_of(m, group->name);
    copy.description = string_of(m, group->description);
    copy.ranks = NULL;
    if (group->rank_count) {
        copy.ranks = rs_mem_calloc(group->rank_count, sizeof *copy.ranks);
        if (!copy.ranks)
            return RS_NOMEM;
        memcpy(copy.ranks, group->ranks, group->rank_count * sizeof *copy.ranks);
    }
    into->groups[into->group_count++] = copy;
    return RS_OK;
}

static enum rs_status merge_groups(struct merge *m)
{
    m->groups = rs_mem_calloc(m->later->group_count + 1, sizeof *m->groups);
    if (!m->groups)
        return RS_NOMEM;
    for (size_t i = 0; i < m->later->group_count; i++) {
        const struct rs_group_info *group = &m->later->groups[i];
        size_t at = 0;
        while (at < m->into->group_count && !is_same_group(m, &m->into->groups[at], group))
            at++;
        if (at == m->into->group_count && add_group(m, group) != RS_OK)
            return RS_NOMEM;
        m->groups[i] = (uint32_t)at;
    }
    return RS_OK;
}

/* --- trace info --------------------------------------------------------------------------------------- */

static rs_str keep_if_same(rs_str a, rs_str b)
{
    return a == b ? a : RS_STR_NONE;
}

static enum rs_status merge_trace(struct merge *m)
{
    struct rs_trace_info *into = &m->into->trace;
    const struct rs_trace_info *later = &m->later->trace;
    into->world_size = later->world_size > into->world_size ? later->world_size : into->world_size;
    if (into->host == RS_STR_NONE)
        into->host = string_of(m, later->host);
    if (into->backend == RS_STR_NONE)
        into->backend = string_of(m, later->backend);
    if (into->metadata == RS_STR_NONE)
        into->metadata = string_of(m, later->metadata);
    into->trace_id = keep_if_same(into->trace_id, string_of(m, later->trace_id));
    if (!into->is_partial)
        into->partial_reason = string_of(m, later->partial_reason);
    into->is_partial = into->is_partial || later->is_partial;
    into->events_read = sum_of(into->events_read, later->events_read);
    into->rows_read = sum_of(into->rows_read, later->rows_read);
    into->input_bytes = sum_of(into->input_bytes, later->input_bytes);
    into->raw_bytes = sum_of(into->raw_bytes, later->raw_bytes);
    into->written_ns = later->written_ns > into->written_ns ? later->written_ns : into->written_ns;
    for (size_t i = 0; i < later->drop_count; i++) {
        const enum rs_status status = rs_trace_info_drop(
            into, &m->into->strings, rs_strtab_text(&m->later->strings, later->drops[i].reason),
            later->drops[i].count);
        if (status != RS_OK)
            return status;
    }
    return rs_provenance_add(&into->vendor, &m->into->strings, later->vendor, &m->later->strings);
}

/* --- figures ------------------------------------------------------------------------------------------ */

static int by_device(const void *a_, const void *b_)
{
    const struct rs_device_row *a = a_, *b = b_;
    return (a->device > b->device) - (a->device < b->device);
}

/* The recordings are disjoint in time, so unions add. */
static enum rs_status merge_devices(struct merge *m)
{
    struct rs_summary *into = m->into;
    for (size_t i = 0; i < m->later->device_count; i++) {
        const struct rs_device_row *row = &m->later->devices[i];
        size_t at = 0;
        while (at < into->device_count && into->devices[at].device != row->device)
            at++;
        if (at == into->device_count) {
            if (rs_mem_grow((void **)&into->devices, &into->device_capacity, at + 1,
                            sizeof *into->devices) != RS_OK)
                return RS_NOMEM;
            into->devices[into->device_count++] = *row;
            continue;
        }
        struct rs_device_row *to = &into->devices[at];
        to->window_start =
            row->window_start < to->window_start ? row->window_start : to->window_start;
        to->window_end = row->window_end > to->window_end ? row->window_end : to->window_end;
        to->busy = sum_of(to->busy, row->busy);
        to->computing = sum_of(to->computing, row->computing);
        to->communication = sum_of(to->communication, row->communication);
        to->memory = sum_of(to->memory, row->memory);
        to->overlapped = sum_of(to->overlapped, row->overlapped);
    }
    if (into->device_count)
        qsort(into->devices, into->device_count, sizeof *into->devices, by_device);
    return RS_OK;
}

static enum rs_status merge_steps(struct merge *m)
{
    struct rs_summary *into = m->into;
    if (rs_mem_grow((void **)&into->steps, &into->step_capacity,
                    into->step_count + m->later->step_count, sizeof *into->steps) != RS_OK)
        return RS_NOMEM;
    for (size_t i = 0; i < m->later->step_count; i++) {
        struct rs_step_row row = m->later->steps[i];
        row.step = sum_of(row.step, m->step_shift);
        into->steps[into->step_count++] = row;
    }
    return RS_OK;
}

static enum rs_status merge_tasks(struct merge *m)
{
    struct rs_summary *into = m->into;
    m->first_task = into->task_count;
    if (into->task_count + m->later->task_count > UINT32_MAX)
        return RS_LIMIT;
    if (rs_mem_grow((void **)&into->tasks, &into->task_capacity,
                    into->task_count + m->later->task_count, sizeof *into->tasks) != RS_OK)
        return RS_NOMEM;
    for (size_t i = 0; i < m->later->task_count; i++) {
        struct rs_comm_task task = m->later->tasks[i];
        task.transport = string_of(m, task.transport);
        into->tasks[into->task_count++] = task;
    }
    return RS_OK;
}

static enum rs_status merge_ops(struct merge *m)
{
    struct rs_summary *into = m->into;
    if (rs_mem_grow((void **)&into->ops, &into->op_capacity, into->op_count + m->later->op_count,
                    sizeof *into->ops) != RS_OK)
        return RS_NOMEM;
    for (size_t i = 0; i < m->later->op_count; i++) {
        struct rs_comm_op op = m->later->ops[i];
        op.step = op.step == RS_STEP_NONE ? op.step : sum_of(op.step, m->step_shift);
        op.group = op.group == RS_NO_GROUP || !m->groups ? op.group : m->groups[op.group];
        op.call_order = sum_of(op.call_order, m->order_shift);
        op.name = string_of(m, op.name);
        op.transport = string_of(m, op.transport);
        op.op_text = string_of(m, op.op_text);
        op.task_first += (uint32_t)m->first_task;
        into->ops[into->op_count++] = op;
    }
    return RS_OK;
}

static enum rs_status merge_spans(struct merge *m)
{
    struct rs_summary *into = m->into;
    if (rs_mem_grow((void **)&into->spans, &into->span_capacity,
                    into->span_count + m->later->span_count, sizeof *into->spans) != RS_OK)
        return RS_NOMEM;
    for (size_t i = 0; i < m->later->span_count; i++) {
        struct rs_span_row span = m->later->spans[i];
        span.step = span.step == RS_STEP_NONE ? span.step : sum_of(span.step, m->step_shift);
        span.order = sum_of(span.order, m->order_shift);
        span.top_name = string_of(m, span.top_name);
        into->spans[into->span_count++] = span;
    }
    return RS_OK;
}

/* --- kernels -------------------------------------------------------------------------------------------- */

static int by_identity(const void *a_, const void *b_)
{
    const struct rs_kernel_row *a = a_, *b = b_;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->name != b->name)
        return a->name < b->name ? -1 : 1;
    return (a->work_class > b->work_class) - (a->work_class < b->work_class);
}

struct named_kernel {
    struct rs_kernel_row row;
    const char *name;
};

static int by_total(const void *a_, const void *b_)
{
    const struct named_kernel *a = a_, *b = b_;
    if (a->row.device != b->row.device)
        return a->row.device < b->row.device ? -1 : 1;
    if (a->row.total != b->row.total)
        return a->row.total > b->row.total ? -1 : 1;
    const int name = strcmp(a->name, b->name);
    return name ? name
                : (a->row.work_class > b->row.work_class) - (a->row.work_class < b->row.work_class);
}

/* The order that a summary promises: device, total descending, name. */
static enum rs_status sort_kernels(struct rs_summary *summary)
{
    struct named_kernel *list = rs_mem_calloc(summary->kernel_count + 1, sizeof *list);
    if (!list)
        return RS_NOMEM;
    for (size_t i = 0; i < summary->kernel_count; i++)
        list[i] = (struct named_kernel){
            summary->kernels[i], rs_strtab_text(&summary->strings, summary->kernels[i].name)};
    qsort(list, summary->kernel_count, sizeof *list, by_total);
    for (size_t i = 0; i < summary->kernel_count; i++)
        summary->kernels[i] = list[i].row;
    rs_mem_free(list);
    return RS_OK;
}

static enum rs_status merge_kernels(struct merge *m)
{
    struct rs_summary *into = m->into;
    const size_t total = into->kernel_count + m->later->kernel_count;
    if (rs_mem_grow((void **)&into->kernels, &into->kernel_capacity, total,
                    sizeof *into->kernels) != RS_OK)
        return RS_NOMEM;
    for (size_t i = 0; i < m->later->kernel_count; i++) {
        struct rs_kernel_row row = m->later->kernels[i];
        row.name = string_of(m, row.name);
        into->kernels[into->kernel_count++] = row;
    }
    if (!total)
        return RS_OK;
    qsort(into->kernels, total, sizeof *into->kernels, by_identity);
    size_t kept = 0;
    for (size_t i = 1; i < total; i++) {
        struct rs_kernel_row *last = &into->kernels[kept];
        const struct rs_kernel_row *row = &into->kernels[i];
        if (by_identity(last, row) != 0) {
            into->kernels[++kept] = *row;
            continue;
        }
        last->count = sum_of(last->count, row->count);
        last->total = sum_of(last->total, row->total);
        last->min = row->min < last->min ? row->min : last->min;
        last->max = row->max > last->max ? row->max : last->max;
    }
    into->kernel_count = kept + 1;
    return sort_kernels(into);
}

/* --- whole ------------------------------------------------------------------------------------------------ */

static int64_t next_step(const struct rs_summary *summary)
{
    int64_t next = 0;
    for (size_t i = 0; i < summary->step_count; i++)
        next = summary->steps[i].step >= next ? sum_of(summary->steps[i].step, 1) : next;
    return next;
}

static int64_t next_order(const struct rs_summary *summary)
{
    int64_t next = 0;
    for (size_t i = 0; i < summary->op_count; i++)
        next = summary->ops[i].call_order >= next ? sum_of(summary->ops[i].call_order, 1) : next;
    for (size_t i = 0; i < summary->span_count; i++)
        next = summary->spans[i].order >= next ? sum_of(summary->spans[i].order, 1) : next;
    return next;
}

static enum rs_status merge_all(struct merge *m)
{
    enum rs_status (*const parts[])(struct merge *) = {merge_strings, merge_groups, merge_trace,
                                                       merge_devices, merge_steps,  merge_tasks,
                                                       merge_ops,     merge_spans,  merge_kernels};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const enum rs_status status = parts[i](m);
        if (status != RS_OK)
            return status;
    }
    if (m->later->span_end > m->into->span_end)
        m->into->span_end = m->later->span_end;
    return RS_OK;
}

enum rs_status rs_summary_merge(struct rs_summary *into, const struct rs_summary *later,
                                struct rs_err *err)
{
    if (!into->trace.has_time_base || !later->trace.has_time_base)
        return rs_err_set(err, RS_INVALID,
                          "two recordings of rank %" PRId32
                          " cannot be put in order: one has lost its time base",
                          into->trace.rank);
    if (later->span_start < into->span_end)
        return rs_err_set(err, RS_INVALID, "two recordings of rank %" PRId32 " overlap in time",
                          into->trace.rank);
    const bool counts =
        into->step_origin != RS_STEPS_PROFILER_STEP && into->step_origin != RS_STEPS_NATIVE;
    struct merge m = {.into = into,
                      .later = later,
                      .step_shift = counts ? next_step(into) : 0,
                      .order_shift = next_order(into)};
    const enum rs_status status = merge_all(&m);
    rs_mem_free(m.strings);
    rs_mem_free(m.groups);
    if (status != RS_OK)
        return rs_err_set(err, status, "cannot join the recordings of rank %" PRId32,
                          into->trace.rank);
    return RS_OK;
}

enum rs_status rs_summary_append(struct rs_summary *into, const struct rs_summary *part)
{
    struct merge m = {.into = into, .later = part};
    enum rs_status status = RS_OK;
    if (part->strings.count) {
        status = merge_strings(&m);
        if (status == RS_OK)
            status = merge_groups(&m);
    }
    if (status == RS_OK)
        status = merge_steps(&m);
    if (status == RS_OK)
        status = merge_tasks(&m);
    if (status == RS_OK)
        status = merge_ops(&m);
    if (status == RS_OK)
        status = merge_spans(&m);
    rs_mem_free(m.strings);
    rs_mem_free(m.groups);
    return status;
}
