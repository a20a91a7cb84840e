/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/trace/averages.h"

#include "common/base/buf.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text, *torch, *cuda; /* ours; torch's words for it */
} sorts[RS_AVERAGE_SORT_COUNT] = {
    [RS_AVERAGE_SELF_CPU] = {"self_cpu", "self_cpu_time_total", NULL},
    [RS_AVERAGE_CPU] = {"cpu", "cpu_time_total", NULL},
    [RS_AVERAGE_SELF_DEVICE] = {"self_device", "self_device_time_total", "self_cuda_time_total"},
    [RS_AVERAGE_DEVICE] = {"device", "device_time_total", "cuda_time_total"},
    [RS_AVERAGE_SELF_CPU_MEMORY] = {"self_cpu_memory", "self_cpu_memory_usage", NULL},
    [RS_AVERAGE_CPU_MEMORY] = {"cpu_memory", "cpu_memory_usage", NULL},
    [RS_AVERAGE_SELF_DEVICE_MEMORY] = {"self_device_memory", "self_device_memory_usage",
                                       "self_cuda_memory_usage"},
    [RS_AVERAGE_DEVICE_MEMORY] = {"device_memory", "device_memory_usage", "cuda_memory_usage"},
    [RS_AVERAGE_FLOPS] = {"flops", NULL, NULL},
    [RS_AVERAGE_COUNT] = {"count", NULL, NULL},
    [RS_AVERAGE_NAME] = {"name", NULL, NULL},
};

const char *rs_average_sort_text(enum rs_average_sort sort)
{
    return sorts[sort].text;
}

bool rs_average_sort_named(const char *word, enum rs_average_sort *sort_p)
{
    for (size_t i = 0; i < RS_AVERAGE_SORT_COUNT; i++) {
        if (strcmp(word, sorts[i].text) != 0 &&
            (!sorts[i].torch || strcmp(word, sorts[i].torch) != 0) &&
            (!sorts[i].cuda || strcmp(word, sorts[i].cuda) != 0))
            continue;
        *sort_p = (enum rs_average_sort)i;
        return true;
    }
    return false;
}

enum rs_status rs_averages_init(struct rs_averages *averages,
                                const struct rs_averages_options *options)
{
    *averages = (struct rs_averages){.options = *options};
    return rs_strtab_init(&averages->texts, 0);
}

void rs_averages_fini(struct rs_averages *averages)
{
    rs_strtab_fini(&averages->texts);
    rs_slots_fini(&averages->index);
    rs_mem_free(averages->items);
    *averages = (struct rs_averages){0};
}

/* ---- the row of a call --------------------------------------------------------------------------------------------- */

/* What is being added, and the texts of its rows. */
struct adding {
    struct rs_averages *averages;
    const struct rs_trace_calls *calls;
    const struct rs_strtab *strings;
    int32_t rank;
    struct rs_buf stack;
    uint32_t *behind; /* of each call: the first that is not in it any more */
    uint32_t
        *outer; /* of those that were added: who holds it and is of the same operator; RS_NO_CALL */
    struct last *last; /* of each operator */
    size_t last_count, last_capacity;
    struct rs_slots last_index;
};

/* The call of an operator that was looked at last. */
struct last {
    rs_str name, dims;
    uint32_t call;
};

static bool is_same(const void *self, uint32_t index, const void *wanted_)
{
    const struct rs_averages *averages = self;
    const struct rs_average *item = &averages->items[index], *wanted = wanted_;
    return item->rank == wanted->rank && item->name == wanted->name &&
           item->shapes == wanted->shapes && item->stack == wanted->stack &&
           item->is_device == wanted->is_device;
}

static enum rs_status find_row(struct rs_averages *averages, const struct rs_average *wanted,
                               struct rs_average **row_p)
{
    uint64_t hash = rs_slots_mix(0, (uint64_t)(int64_t)wanted->rank);
    hash = rs_slots_mix(hash, wanted->name);
    hash = rs_slots_mix(hash, wanted->shapes);
    hash = rs_slots_mix(hash, (uint64_t)wanted->stack << 1 | wanted->is_device);
    uint32_t index = rs_slots_find(&averages->index, hash, is_same, averages, wanted);
    if (index == RS_SLOTS_NONE) {
        index = (uint32_t)averages->count;
        if (rs_mem_grow((void **)&averages->items, &averages->capacity, averages->count + 1,
                        sizeof *averages->items) != RS_OK)
            return RS_NOMEM;
        const enum rs_status status = rs_slots_put(&averages->index, hash, index);
        if (status != RS_OK)
            return status;
        averages->items[averages->count] = *wanted;
        averages->items[averages->count].min = RS_NS_MAX;
        averages->items[averages->count++].flops = -1;
    }
    *row_p = &averages->items[index];
    return RS_OK;
}

/* "ProfilerStep#12" and "Iteration#3" are one name each: what stands behind the last '#', where that is a number alone. */
static enum rs_status add_name(struct adding *adding, rs_str name, rs_str *id_p)
{
    const char *text = rs_strtab_text(adding->strings, name);
    const size_t length = rs_strtab_length(adding->strings, name);
    size_t stem = length;
    while (stem && text[stem - 1] >= '0' && text[stem - 1] <= '9')
        stem--;
    if (stem == length || stem < 2 || text[stem - 1] != '#' || length >= 256)
        return rs_strtab_add(&adding->averages->texts, text, length, id_p);
    char one[256];
    memcpy(one, text, stem - 1);
    one[stem - 1] = '*';
    return rs_strtab_add(&adding->averages->texts, one, stem, id_p);
}

/* The innermost Python frames around a call, the innermost first, a line each. */
static enum rs_status add_stack(struct adding *adding, const struct rs_trace_call *call,
                                rs_str *id_p)
{
    uint32_t left = adding->averages->options.stack_frames;
    rs_buf_reset(&adding->stack);
    for (uint32_t at = call->frame; left && at != RS_NO_CALL; at = adding->calls->items[at].frame) {
        const struct rs_trace_call *frame = &adding->calls->items[at];
        if (adding->stack.length)
            rs_buf_u8(&adding->stack, '\n');
        rs_buf_bytes(&adding->stack, rs_strtab_text(adding->strings, frame->name),
                     rs_strtab_length(adding->strings, frame->name));
        left--;
    }
    if (adding->stack.failed)
        return RS_NOMEM;
    return rs_strtab_add(&adding->averages->texts,
                         adding->stack.length ? (const char *)adding->stack.data : "",
                         adding->stack.length, id_p);
}

static void count_length(struct rs_average *row, rs_dur length)
{
    row->count++;
    row->min = length < row->min ? length : row->min;
    row->max = length > row->max ? length : row->max;
}

void rs_averages_add_up(int64_t *sum, int64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = more < 0 ? INT64_MIN : INT64_MAX;
}

static int64_t flops_of(const struct adding *adding, const struct rs_trace_call *call)
{
    if (call->kind != RS_KIND_CPU_OP || call->dims == RS_STR_NONE)
        return -1;
    return rs_flops_of(rs_strtab_text(adding->strings, call->name),
                       rs_strtab_text(adding->strings, call->dims),
                       rs_strtab_text(adding->strings, call->concrete));
}

static enum rs_status prepare(struct adding *adding)
{
    const size_t count = adding->calls->count;
    adding->behind = rs_mem_calloc(count + 1, sizeof *adding->behind);
    adding->outer = rs_mem_calloc(count + 1, sizeof *adding->outer);
    if (!adding->behind || !adding->outer)
        return RS_NOMEM;
    for (size_t i = count; i-- > 0;) {
        const uint32_t parent = adding->calls->items[i].parent;
        if (adding->behind[i] < i + 1)
            adding->behind[i] = (uint32_t)(i + 1);
        if (parent != RS_NO_CALL && adding->behind[parent] < adding->behind[i])
            adding->behind[parent] = adding->behind[i];
    }
    return RS_OK;
}

static bool is_last(const void *self, uint32_t index, const void *wanted_)
{
    const struct adding *adding = self;
    const struct last *last = &adding->last[index], *wanted = wanted_;
    return last->name == wanted->name && last->dims == wanted->dims;
}

/* The call of the same operator that was looked at before this one; from now on it is this one. */
static enum rs_status find_last(struct adding *adding, uint32_t index, uint32_t *before_p)
{
    const struct rs_trace_call *call = &adding->calls->items[index];
    const rs_str dims = adding->averages->options.by_shapes ? call->dims : RS_STR_NONE;
    const struct last wanted = {.name = call->name, .dims = dims, .call = index};
    const uint64_t hash = rs_slots_mix(rs_slots_mix(0, wanted.name), wanted.dims);
    const uint32_t found = rs_slots_find(&adding->last_index, hash, is_last, adding, &wanted);
    if (found != RS_SLOTS_NONE) {
        *before_p = adding->last[found].call;
        adding->last[found].call = index;
        return RS_OK;
    }
    *before_p = RS_NO_CALL;
    if (rs_mem_grow((void **)&adding->last, &adding->last_capacity, adding->last_count + 1,
                    sizeof wanted) != RS_OK)
        return RS_NOMEM;
    const enum rs_status status =
        rs_slots_put(&adding->last_index, hash, (uint32_t)adding->last_count);
    if (status == RS_OK)
        adding->last[adding->last_count++] = wanted;
    return status;
}

/* A call in one of the same row (recursion) is in that one's total already. Those of one operator that are over are passed once and never
 * again: as many steps as there are calls, however deep they lie in each other. */
static enum rs_status find_recursion(struct adding *adding, uint32_t index, bool *is_in_its_row_p)
{
    uint32_t outer = RS_NO_CALL;
    const enum rs_status status = find_last(adding, index, &outer);
    while (outer != RS_NO_CALL && adding->behind[outer] <= index)
        outer = adding->outer[outer];
    adding->outer[index] = outer;
    *is_in_its_row_p = outer != RS_NO_CALL;
    return status;
}

static enum rs_status add_call(struct adding *adding, uint32_t index)
{
    const struct rs_trace_call *call = &adding->calls->items[index];
    struct rs_averages *averages = adding->averages;
    bool is_in_its_row = false;
    struct rs_average wanted = {.rank = adding->rank, .shapes = RS_STR_NONE, .stack = RS_STR_NONE};
    struct rs_average *row = NULL;
    enum rs_status status = add_name(adding, call->name, &wanted.name);
    if (status == RS_OK && averages->options.by_shapes && call->dims != RS_STR_NONE)
        status = rs_strtab_add(&averages->texts, rs_strtab_text(adding->strings, call->dims),
                               rs_strtab_length(adding->strings, call->dims), &wanted.shapes);
    if (status == RS_OK && averages->options.stack_frames)
        status = add_stack(adding, call, &wanted.stack);
    if (status == RS_OK)
        status = find_recursion(adding, index, &is_in_its_row);
    if (status == RS_OK)
        status = find_row(averages, &wanted, &row);
    if (status != RS_OK)
        return status;
    count_length(row, call->end - call->start);
    rs_averages_add_up(&row->self_cpu, call->self);
    rs_averages_add_up(&row->self_device, call->device_self);
    rs_averages_add_up(&row->self_cpu_memory, call->memory_self);
    rs_averages_add_up(&row->self_device_memory, call->device_memory_self);
    if (!is_in_its_row) {
        rs_averages_add_up(&row->cpu, call->end - call->start);
        rs_averages_add_up(&row->device, call->device);
        rs_averages_add_up(&row->cpu_memory, call->memory);
        rs_averages_add_up(&row->device_memory, call->device_memory);
    }
    const int64_t flops = flops_of(adding, call);
    if (flops >= 0) {
        row->flops = row->flops < 0 ? 0 : row->flops;
        rs_averages_add_up(&row->flops, flops);
        averages->has_flops = true;
    }
    averages->has_memory = averages->has_memory || call->memory_self;
    averages->has_device_memory = averages->has_device_memory || call->device_memory_self;
    return RS_OK;
}

static enum rs_status add_device_row(struct adding *adding, const struct rs_trace_launched *device)
{
    struct rs_average wanted = {
        .rank = adding->rank, .shapes = RS_STR_NONE, .stack = RS_STR_NONE, .is_device = true};
    struct rs_average *row = NULL;
    enum rs_status status = add_name(adding, device->name, &wanted.name);
    if (status == RS_OK)
        status = find_row(adding->averages, &wanted, &row);
    if (status != RS_OK)
        return status;
    count_length(row, device->length);
    rs_averages_add_up(&row->self_device, device->length);
    rs_averages_add_up(&row->device, device->length);
    adding->averages->has_device = true;
    return RS_OK;
}

enum rs_status rs_averages_add(struct rs_averages *averages, int32_t rank,
                               const struct rs_trace_calls *calls, const struct rs_strtab *strings,
                               struct rs_err *err)
{
    struct adding adding = {.averages = averages, .calls = calls, .strings = strings, .rank = rank};
    enum rs_status status = prepare(&adding);
    for (size_t i = 0; i < calls->count && status == RS_OK; i++)
        if (calls->items[i].kind != RS_KIND_PYTHON && !calls->items[i].is_again)
            status = add_call(&adding, (uint32_t)i);
    for (size_t i = 0; i < calls->device_count && status == RS_OK; i++)
        status = add_device_row(&adding, &calls->device_rows[i]);
    rs_buf_fini(&adding.stack);
    rs_mem_free(adding.behind);
    rs_mem_free(adding.outer);
    rs_mem_free(adding.last);
    rs_slots_fini(&adding.last_index);
    return status == RS_OK
               ? RS_OK
               : rs_err_set(err, status, "no memory for the operators of rank %d", rank);
}

/* ---- order --------------------------------------------------------------------------------------------------------- */

static int64_t key_of(const struct rs_average *row, enum rs_average_sort sort)
{
    switch (sort) {
    case RS_AVERAGE_SELF_CPU:
        return row->self_cpu;
    case RS_AVERAGE_CPU:
        return row->cpu;
    case RS_AVERAGE_SELF_DEVICE:
        return row->self_device;
    case RS_AVERAGE_DEVICE:
        return row->device;
    case RS_AVERAGE_SELF_CPU_MEMORY:
        return row->self_cpu_memory;
    case RS_AVERAGE_CPU_MEMORY:
        return row->cpu_memory;
    case RS_AVERAGE_SELF_DEVICE_MEMORY:
        return row->self_device_memory;
    case RS_AVERAGE_DEVICE_MEMORY:
        return row->device_memory;
    case RS_AVERAGE_FLOPS:
        return row->flops;
    case RS_AVERAGE_COUNT:
        return (int64_t)row->count;
    case RS_AVERAGE_NAME:
    case RS_AVERAGE_SORT_COUNT:
        return 0;
    }
    return 0;
}

struct order {
    const struct rs_strtab *texts;
    enum rs_average_sort sort;
};

static int in_order(const void *a_, const void *b_, void *order_)
{
    const struct rs_average *a = a_, *b = b_;
    const struct order *order = order_;
    const int64_t x = key_of(a, order->sort), y = key_of(b, order->sort);
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (x != y)
        return x > y ? -1 : 1;
    const rs_str left[] = {a->name, a->shapes, a->stack}, right[] = {b->name, b->shapes, b->stack};
    for (size_t i = 0; i < 3; i++) {
        const int differs =
            strcmp(rs_strtab_text(order->texts, left[i]), rs_strtab_text(order->texts, right[i]));
        if (differs)
            return differs;
    }
    return a->is_device - b->is_device;
}

void rs_averages_sort(struct rs_averages *averages, enum rs_average_sort sort)
{
    struct order order = {.texts = &averages->texts, .sort = sort};
    if (averages->count)
        qsort_r(averages->items, averages->count, sizeof *averages->items, in_order, &order);
    rs_slots_fini(&averages->index); /* positions have changed; nothing is added any more */
}
