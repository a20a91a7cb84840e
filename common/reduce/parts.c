/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cutting and joining keep one invariant: the rows of a summary are prefixes in one order, that of the rank's launches
 * (`call_order`, `order`: one counter over operations and spans). A cut is a place in that order, found from an instant, and a
 * number of step rows. So any instants in rising order cut a summary into parts without a row lost or doubled, whatever the
 * times of strangers say.
 *
 *     slice   rows [a, b) of each table -> a new summary, with the names and groups that they use, in the order of use
 *     rest    rows [a, end) in place; names, groups, trace, devices and kernels stay whole
 *     join    the rest (if it is there) lends its names and groups: ids and indexes of the parts are mapped into them, so
 *             everything has the place that it had before it was cut
 */
#include "common/reduce/parts.h"

#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/reduce/summary_merge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- bytes -------------------------------------------------------------------------------------------------- */

static const uint8_t part_magic[8] = {'R', 'S', 'S', 'U', 'P', 'A', 'R', 'T'};

enum { PART_VERSION = 1, PART_CHECKED_FROM = 16, PART_HEAD_BYTES = 72, PART_IS_LAST = 1 };

bool rs_part_is(struct rs_view bytes)
{
    return bytes.length >= sizeof part_magic &&
           memcmp(bytes.data, part_magic, sizeof part_magic) == 0;
}

enum rs_status rs_part_encode(const struct rs_part_head *head, const struct rs_summary *summary,
                              struct rs_buf *buf, struct rs_err *err)
{
    const size_t start = buf->length;
    rs_buf_bytes(buf, part_magic, sizeof part_magic);
    rs_buf_u32(buf, PART_VERSION);
    rs_buf_u32(buf, 0);
    rs_buf_u32(buf, head->number);
    rs_buf_u32(buf, head->generation);
    rs_buf_u32(buf, head->is_last ? PART_IS_LAST : 0);
    rs_buf_u32(buf, 0);
    rs_buf_u64(buf, (uint64_t)head->first_step);
    rs_buf_u64(buf, (uint64_t)head->last_step);
    rs_buf_u64(buf, (uint64_t)head->from_ns);
    rs_buf_u64(buf, (uint64_t)head->until_ns);
    rs_buf_u64(buf, head->rows);
    if (buf->failed)
        return rs_err_set(err, RS_NOMEM, "no memory for a part of a summary");
    const uint32_t crc =
        rs_crc32c(0, buf->data + start + PART_CHECKED_FROM, PART_HEAD_BYTES - PART_CHECKED_FROM);
    for (int i = 0; i < 4; i++)
        buf->data[start + 12 + (size_t)i] = (uint8_t)(crc >> (8 * i));
    return rs_summary_encode(summary, buf, err);
}

static bool head_holds(const struct rs_part_head *head, uint32_t flags, uint32_t zero)
{
    const bool has_steps = head->first_step != RS_STEP_NONE;
    return !(flags & ~(uint32_t)PART_IS_LAST) && zero == 0 &&
           has_steps == (head->last_step != RS_STEP_NONE) && head->from_ns <= head->until_ns &&
           (head->number == 0) == (head->from_ns == RS_NS_MIN) &&
           head->is_last == (head->until_ns == RS_NS_MAX);
}

static enum rs_status read_head(struct rs_view bytes, struct rs_part_head *head, struct rs_err *err)
{
    struct rs_view view = bytes;
    (void)rs_view_take(&view, sizeof part_magic);
    const uint32_t version = rs_view_u32(&view);
    const uint32_t crc = rs_view_u32(&view);
    if (!rs_part_is(bytes) || view.failed)
        return rs_err_set(err, RS_FORMAT, "%zu bytes are no part of a summary", bytes.length);
    if (version != PART_VERSION)
        return rs_err_set(err, RS_VERSION,
                          "a part of a summary of version %" PRIu32 "; this program reads %d",
                          version, PART_VERSION);
    if (bytes.length < PART_HEAD_BYTES ||
        rs_crc32c(0, bytes.data + PART_CHECKED_FROM, PART_HEAD_BYTES - PART_CHECKED_FROM) != crc)
        return rs_err_set(err, RS_FORMAT, "the head of a part of a summary is damaged");
    head->number = rs_view_u32(&view);
    head->generation = rs_view_u32(&view);
    const uint32_t flags = rs_view_u32(&view);
    const uint32_t zero = rs_view_u32(&view);
    head->is_last = (flags & PART_IS_LAST) != 0;
    head->first_step = (int64_t)rs_view_u64(&view);
    head->last_step = (int64_t)rs_view_u64(&view);
    head->from_ns = (rs_ns)rs_view_u64(&view);
    head->until_ns = (rs_ns)rs_view_u64(&view);
    head->rows = rs_view_u64(&view);
    return head_holds(head, flags, zero)
               ? RS_OK
               : rs_err_set(err, RS_FORMAT,
                            "the head of part %" PRIu32 " of a summary makes no sense",
                            head->number);
}

enum rs_status rs_part_decode(struct rs_view bytes, struct rs_part_head *head_p,
                              struct rs_summary *summary_p, struct rs_err *err)
{
    struct rs_part_head head = {0};
    const enum rs_status status = read_head(bytes, &head, err);
    if (status != RS_OK)
        return status;
    *head_p = head;
    return rs_summary_decode(
        rs_view_of(bytes.data + PART_HEAD_BYTES, bytes.length - PART_HEAD_BYTES), summary_p, err);
}

/* ---- cutting ------------------------------------------------------------------------------------------------ */

/* How many step rows end at or before an instant, before the first that does not. */
static size_t steps_until(const struct rs_summary *whole, rs_ns instant)
{
    size_t count = 0;
    while (count < whole->step_count && whole->steps[count].host_end <= instant)
        count++;
    return count;
}

static rs_ns begin_of(const struct rs_span_row *span)
{
    return span->launch_first == RS_SPAN_NO_LAUNCH ? span->start : span->launch_first;
}

/* The least place in the order of what begins at or behind an instant. */
static int64_t order_at(const struct rs_summary *whole, rs_ns instant)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < whole->op_count; i++)
        if (whole->ops[i].call_start >= instant && whole->ops[i].call_order < least)
            least = whole->ops[i].call_order;
    for (size_t i = 0; i < whole->span_count; i++)
        if (begin_of(&whole->spans[i]) >= instant && whole->spans[i].order < least)
            least = whole->spans[i].order;
    return least;
}

/* Rows [from, to) of each table. */
struct bounds {
    size_t step_from, step_to, op_from, op_to, span_from, span_to;
    int64_t order_from;
};

static struct bounds bounds_of(const struct rs_summary *whole, const struct rs_part_head *head)
{
    struct bounds b = {
        .step_to = whole->step_count, .op_to = whole->op_count, .span_to = whole->span_count};
    if (head->from_ns != RS_NS_MIN) {
        b.step_from = steps_until(whole, head->from_ns);
        b.order_from = order_at(whole, head->from_ns);
    }
    while (b.op_from < whole->op_count && whole->ops[b.op_from].call_order < b.order_from)
        b.op_from++;
    while (b.span_from < whole->span_count && whole->spans[b.span_from].order < b.order_from)
        b.span_from++;
    if (head->until_ns == RS_NS_MAX)
        return b;
    const int64_t order_to = order_at(whole, head->until_ns);
    b.step_to = steps_until(whole, head->until_ns);
    b.step_to = b.step_to > b.step_from ? b.step_to : b.step_from;
    for (b.op_to = b.op_from;
         b.op_to < whole->op_count && whole->ops[b.op_to].call_order < order_to;)
        b.op_to++;
    for (b.span_to = b.span_from;
         b.span_to < whole->span_count && whole->spans[b.span_to].order < order_to;)
        b.span_to++;
    return b;
}

static void set_steps(const struct rs_summary *whole, const struct bounds *b,
                      struct rs_part_head *head)
{
    head->first_step = head->last_step = RS_STEP_NONE;
    for (size_t i = b->step_from; i < b->step_to; i++) {
        const int64_t step = whole->steps[i].step;
        if (head->first_step == RS_STEP_NONE || step < head->first_step)
            head->first_step = step;
        head->last_step = step > head->last_step ? step : head->last_step;
    }
}

/* A slice under way. */
struct slicing {
    const struct rs_summary *whole;
    struct rs_summary *slice;
    uint32_t *groups; /* index of whole -> index of slice + 1; 0: not used yet */
    enum rs_status status;
};

static rs_str use_string(struct slicing *s, rs_str id)
{
    rs_str ours = RS_STR_NONE;
    if (id == RS_STR_NONE || s->status != RS_OK)
        return RS_STR_NONE;
    s->status = rs_strtab_add(&s->slice->strings, rs_strtab_text(&s->whole->strings, id),
                              rs_strtab_length(&s->whole->strings, id), &ours);
    return ours;
}

static uint32_t use_group(struct slicing *s, uint32_t index)
{
    struct rs_summary *slice = s->slice;
    if (index == RS_NO_GROUP || s->status != RS_OK)
        return RS_NO_GROUP;
    if (s->groups[index])
        return s->groups[index] - 1;
    const struct rs_group_info *from = &s->whole->groups[index];
    int32_t *ranks = rs_mem_calloc(from->rank_count + 1, sizeof *ranks);
    s->status = ranks ? rs_mem_grow((void **)&slice->groups, &slice->group_capacity,
                                    slice->group_count + 1, sizeof *slice->groups)
                      : RS_NOMEM;
    if (s->status != RS_OK) {
        rs_mem_free(ranks);
        return RS_NO_GROUP;
    }
    if (from->rank_count)
        memcpy(ranks, from->ranks, from->rank_count * sizeof *ranks);
    struct rs_group_info *to = &slice->groups[slice->group_count++];
    *to = (struct rs_group_info){.name = RS_STR_NONE,
                                 .description = RS_STR_NONE,
                                 .size = from->size,
                                 .ranks = ranks,
                                 .rank_count = from->rank_count};
    to->name = use_string(s, from->name);
    to->description = use_string(s, from->description);
    s->groups[index] = (uint32_t)slice->group_count;
    return s->groups[index] - 1;
}

static void slice_op(struct slicing *s, const struct rs_comm_op *from, int64_t shift)
{
    struct rs_summary *slice = s->slice;
    struct rs_comm_op op = *from;
    if (s->status == RS_OK && slice->task_count + op.task_count > UINT32_MAX)
        s->status = RS_LIMIT;
    if (s->status == RS_OK)
        s->status = rs_mem_grow((void **)&slice->ops, &slice->op_capacity, slice->op_count + 1,
                                sizeof *slice->ops);
    if (s->status == RS_OK)
        s->status = rs_mem_grow((void **)&slice->tasks, &slice->task_capacity,
                                slice->task_count + op.task_count + 1, sizeof *slice->tasks);
    if (s->status != RS_OK)
        return;
    op.call_order += shift;
    op.group = use_group(s, op.group);
    op.name = use_string(s, op.name);
    op.transport = use_string(s, op.transport);
    op.op_text = use_string(s, op.op_text);
    op.task_first = (uint32_t)slice->task_count;
    for (uint32_t i = 0; i < op.task_count; i++) {
        struct rs_comm_task task = s->whole->tasks[from->task_first + i];
        task.transport = use_string(s, task.transport);
        slice->tasks[slice->task_count++] = task;
    }
    slice->ops[slice->op_count++] = op;
}

static void slice_rows(struct slicing *s, const struct bounds *b, int64_t shift)
{
    const struct rs_summary *whole = s->whole;
    struct rs_summary *slice = s->slice;
    s->status = rs_mem_grow((void **)&slice->steps, &slice->step_capacity,
                            b->step_to - b->step_from + 1, sizeof *slice->steps);
    if (s->status == RS_OK)
        s->status = rs_mem_grow((void **)&slice->spans, &slice->span_capacity,
                                b->span_to - b->span_from + 1, sizeof *slice->spans);
    for (size_t i = b->step_from; s->status == RS_OK && i < b->step_to; i++)
        slice->steps[slice->step_count++] = whole->steps[i];
    for (size_t i = b->op_from; s->status == RS_OK && i < b->op_to; i++)
        slice_op(s, &whole->ops[i], shift);
    for (size_t i = b->span_from; s->status == RS_OK && i < b->span_to; i++) {
        struct rs_span_row span = whole->spans[i];
        span.order += shift;
        span.top_name = use_string(s, span.top_name);
        slice->spans[slice->span_count++] = span;
    }
}

/* From the first to the last of its own rows: the recording's own span is not known before its end. */
static void span_of_rows(struct rs_summary *slice)
{
    rs_ns first = RS_NS_MAX, last = RS_NS_MIN;
    for (size_t i = 0; i < slice->step_count; i++) {
        first = slice->steps[i].host_start < first ? slice->steps[i].host_start : first;
        last = slice->steps[i].host_end > last ? slice->steps[i].host_end : last;
    }
    for (size_t i = 0; i < slice->op_count; i++) {
        first = slice->ops[i].start < first ? slice->ops[i].start : first;
        last = slice->ops[i].end > last ? slice->ops[i].end : last;
    }
    for (size_t i = 0; i < slice->span_count; i++) {
        first = slice->spans[i].start < first ? slice->spans[i].start : first;
        last = slice->spans[i].end > last ? slice->spans[i].end : last;
    }
    slice->span_start = first <= last ? first : 0;
    slice->span_end = first <= last ? last : 0;
}

enum rs_status rs_summary_slice(const struct rs_summary *whole, struct rs_part_head *head,
                                int64_t first_order, struct rs_summary *slice_p)
{
    struct rs_summary slice;
    struct slicing s = {.whole = whole, .slice = &slice};
    const struct bounds b = bounds_of(whole, head);
    enum rs_status status = rs_summary_init(&slice);
    if (status != RS_OK)
        return status;
    s.groups = rs_mem_calloc(whole->group_count + 1, sizeof *s.groups);
    if (!s.groups) {
        rs_summary_fini(&slice);
        return RS_NOMEM;
    }
    slice.trace.rank = whole->trace.rank;
    slice.trace.rank_source = whole->trace.rank_source;
    slice.trace.world_size = whole->trace.world_size;
    slice.trace.has_time_base = whole->trace.has_time_base;
    slice.trace.base_ns = whole->trace.base_ns;
    slice.trace.host = use_string(&s, whole->trace.host);
    slice.step_origin = whole->step_origin;
    if (s.status == RS_OK)
        slice_rows(&s, &b, first_order < 0 ? 0 : first_order - b.order_from);
    rs_mem_free(s.groups);
    if (s.status != RS_OK) {
        rs_summary_fini(&slice);
        return s.status;
    }
    span_of_rows(&slice);
    set_steps(whole, &b, head);
    *slice_p = slice;
    return RS_OK;
}

void rs_summary_keep_rest(struct rs_summary *whole, struct rs_part_head *head)
{
    const struct bounds b = bounds_of(whole, head);
    set_steps(whole, &b, head);
    /* Hops stand in the order of their operations: what is left of them is the end of the list. */
    const uint32_t first = b.op_from < whole->op_count ? whole->ops[b.op_from].task_first
                                                       : (uint32_t)whole->task_count;
    whole->step_count -= b.step_from;
    whole->op_count -= b.op_from;
    whole->span_count -= b.span_from;
    whole->task_count -= first;
    if (whole->step_count)
        memmove(whole->steps, whole->steps + b.step_from, whole->step_count * sizeof *whole->steps);
    if (whole->op_count)
        memmove(whole->ops, whole->ops + b.op_from, whole->op_count * sizeof *whole->ops);
    if (whole->span_count)
        memmove(whole->spans, whole->spans + b.span_from, whole->span_count * sizeof *whole->spans);
    if (whole->task_count)
        memmove(whole->tasks, whole->tasks + first, whole->task_count * sizeof *whole->tasks);
    for (size_t i = 0; i < whole->op_count; i++)
        whole->ops[i].task_first -= first;
}

/* ---- joining ------------------------------------------------------------------------------------------------ */

void rs_parts_fini(struct rs_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        rs_summary_fini(&parts->items[i].summary);
    rs_mem_free(parts->items);
    *parts = (struct rs_parts){0};
}

enum rs_status rs_parts_add(struct rs_parts *parts, struct rs_view bytes, struct rs_err *err)
{
    struct rs_part part = {0};
    enum rs_status status = rs_part_decode(bytes, &part.head, &part.summary, err);
    if (status != RS_OK)
        return status;
    size_t at = parts->count; /* they come nearly in order */
    while (at && parts->items[at - 1].head.number > part.head.number)
        at--;
    if (at && parts->items[at - 1].head.number == part.head.number) {
        struct rs_part *same = &parts->items[at - 1];
        if (part.head.generation < same->head.generation) {
            rs_summary_fini(&part.summary);
            return RS_OK;
        }
        rs_summary_fini(&same->summary);
        *same = part;
        return RS_OK;
    }
    if (rs_mem_grow((void **)&parts->items, &parts->capacity, parts->count + 1,
                    sizeof *parts->items) < 0) {
        rs_summary_fini(&part.summary);
        return rs_err_set(err, RS_NOMEM, "no memory for a part of a summary");
    }
    memmove(parts->items + at + 1, parts->items + at, (parts->count - at) * sizeof *parts->items);
    parts->items[at] = part;
    parts->count++;
    return RS_OK;
}

/* How many parts there are before the first that is missing. */
static size_t leading(const struct rs_parts *parts)
{
    size_t count = 0;
    while (count < parts->count && parts->items[count].head.number == count &&
           (count == 0 || !parts->items[count - 1].head.is_last))
        count++;
    return count;
}

bool rs_parts_are_whole(const struct rs_parts *parts)
{
    const size_t count = leading(parts);
    return count > 0 && parts->items[count - 1].head.is_last;
}

static enum rs_status check_fit(const struct rs_parts *parts, size_t count, struct rs_err *err)
{
    for (size_t i = 1; i < count; i++)
        if (parts->items[i].head.from_ns != parts->items[i - 1].head.until_ns ||
            parts->items[i].summary.trace.has_time_base !=
                parts->items[0].summary.trace.has_time_base)
            return rs_err_set(err, RS_FORMAT,
                              "part %zu of a summary does not begin where the one before ends", i);
    return RS_OK;
}

/* Its own rows step aside, so that those of the parts before it come first. */
static struct rs_summary take_rows(struct rs_summary *from)
{
    const struct rs_summary rows = {
        .steps = from->steps,
        .step_count = from->step_count,
        .ops = from->ops,
        .op_count = from->op_count,
        .tasks = from->tasks,
        .task_count = from->task_count,
        .spans = from->spans,
        .span_count = from->span_count,
    };
    from->steps = NULL;
    from->ops = NULL;
    from->tasks = NULL;
    from->spans = NULL;
    from->step_count = from->step_capacity = from->op_count = from->op_capacity = 0;
    from->task_count = from->task_capacity = from->span_count = from->span_capacity = 0;
    return rows;
}

static void widen(struct rs_summary *into, const struct rs_summary *part)
{
    if (!part->step_count && !part->op_count && !part->span_count)
        return;
    into->span_start = part->span_start < into->span_start ? part->span_start : into->span_start;
    into->span_end = part->span_end > into->span_end ? part->span_end : into->span_end;
}

enum rs_status rs_parts_join(struct rs_parts *parts, struct rs_summary *summary_p,
                             struct rs_err *err)
{
    const size_t count = leading(parts);
    const bool is_whole = rs_parts_are_whole(parts);
    if (!count)
        return rs_err_set(err, RS_NOTFOUND, "the first part of a summary is not there");
    enum rs_status status = check_fit(parts, count, err);
    if (status != RS_OK)
        return status;
    const size_t base = is_whole ? count - 1 : 0; /* whose names and groups come first */
    struct rs_summary into = parts->items[base].summary;
    parts->items[base].summary = (struct rs_summary){0};
    struct rs_summary rest = {0};
    if (is_whole)
        rest = take_rows(&into);
    for (size_t i = is_whole ? 0 : 1; status == RS_OK && i < (is_whole ? count - 1 : count); i++) {
        status = rs_summary_append(&into, &parts->items[i].summary);
        if (!is_whole)
            widen(&into, &parts->items[i].summary);
    }
    if (status == RS_OK)
        status = rs_summary_append(&into, &rest);
    rs_mem_free(rest.steps);
    rs_mem_free(rest.ops);
    rs_mem_free(rest.tasks);
    rs_mem_free(rest.spans);
    rs_parts_fini(parts);
    for (size_t i = 1; status == RS_OK && i < into.span_count; i++)
        if (into.spans[i].order <= into.spans[i - 1].order)
            status = RS_FORMAT; /* the codec would not read it back */
    if (status != RS_OK) {
        rs_summary_fini(&into);
        return rs_err_set(err, status, "the parts of a summary cannot be joined: %s",
                          rs_status_text(status));
    }
    *summary_p = into;
    return RS_OK;
}
