/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/trace/calls.h"

#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* ---- rows --------------------------------------------------------------------------------------------------------- */

static bool is_call(const struct rs_batch *batch, size_t row)
{
    if (batch->lanes->items[batch->lane[row]].kind == RS_LANE_DEVICE ||
        batch->flags[row] & RS_EVENT_NO_END)
        return false;
    switch ((enum rs_kind)batch->kind[row]) {
    case RS_KIND_CPU_OP:
    case RS_KIND_USER_ANNOTATION:
    case RS_KIND_RUNTIME:
    case RS_KIND_DRIVER:
    case RS_KIND_PYTHON:
    case RS_KIND_STEP:
    case RS_KIND_RANGE:
    case RS_KIND_OP:
    case RS_KIND_COMM:
        return true;
    case RS_KIND_OTHER: /* categories that nobody knows may be anything, and may lie across all others */
    case RS_KIND_GPU_USER_ANNOTATION:
    case RS_KIND_KERNEL:
    case RS_KIND_MEMCPY:
    case RS_KIND_MEMSET:
    case RS_KIND_SYNC:
    case RS_KIND_DEVICE_EVENT:
    case RS_KIND_OVERHEAD:
    case RS_KIND_MEMORY:
    case RS_KIND_FLOW_START:
    case RS_KIND_FLOW_END:
    case RS_KIND_COUNTER:
    case RS_KIND_METADATA:
    case RS_KIND_INSTANT:
    case RS_KIND_TRACE_SPAN:
    case RS_KIND_COMM_TASK:
    case RS_KIND_MARK:
    case RS_KIND_LOSS:
    case RS_KIND_STEP_WINDOW:
    case RS_KIND_COUNT:
        return false;
    }
    return false;
}

/* Times of a stranger's file: how long such a row was cannot be said. */
static bool has_length(const struct rs_batch *batch, size_t row)
{
    rs_dur length;
    return !__builtin_sub_overflow(batch->end[row], batch->start[row], &length) && length >= 0;
}

/* Sums of what a stranger's file says stay at their ends. */
static void add_up(int64_t *sum, int64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = more < 0 ? INT64_MIN / 2 : INT64_MAX / 2;
}

static enum rs_status add_call(struct rs_trace_calls *calls, const struct rs_batch *batch,
                               size_t row)
{
    if (calls->count >= RS_NO_CALL)
        return RS_LIMIT;
    if (rs_mem_grow((void **)&calls->items, &calls->capacity, calls->count + 1,
                    sizeof *calls->items) != RS_OK)
        return RS_NOMEM;
    calls->items[calls->count++] = (struct rs_trace_call){.start = batch->start[row],
                                                          .end = batch->end[row],
                                                          .name = batch->name[row],
                                                          .dims = batch->input_dims[row],
                                                          .concrete = batch->concrete_inputs[row],
                                                          .lane = batch->lane[row],
                                                          .parent = RS_NO_CALL,
                                                          .op = RS_NO_CALL,
                                                          .frame = RS_NO_CALL,
                                                          .kind = batch->kind[row],
                                                          .external_id = batch->external_id[row],
                                                          .correlation = batch->correlation[row]};
    calls->has_python = calls->has_python || batch->kind[row] == RS_KIND_PYTHON;
    calls->has_dims = calls->has_dims || batch->input_dims[row] != RS_STR_NONE;
    calls->clipped += (batch->flags[row] & RS_EVENT_UNFINISHED) != 0;
    return RS_OK;
}

static enum rs_status add_device_row(struct rs_trace_calls *calls, const struct rs_batch *batch,
                                     size_t row)
{
    if (rs_mem_grow((void **)&calls->device_rows, &calls->device_capacity, calls->device_count + 1,
                    sizeof *calls->device_rows) != RS_OK)
        return RS_NOMEM;
    calls->device_rows[calls->device_count++] =
        (struct rs_trace_launched){.name = batch->name[row],
                                   .length = batch->end[row] - batch->start[row],
                                   .call = RS_NO_CALL,
                                   .external_id = batch->external_id[row],
                                   .correlation = batch->correlation[row]};
    return RS_OK;
}

/* The integer behind `"key":` among members of a row; `otherwise` when there is none. No key of a memory row stands inside a text. */
static int64_t number_of(const char *extra, size_t length, const char *key, int64_t otherwise)
{
    const size_t key_length = strlen(key);
    for (size_t i = 0; i + key_length + 3 < length; i++) {
        if (extra[i] != '"' || memcmp(extra + i + 1, key, key_length) != 0 ||
            extra[i + 1 + key_length] != '"')
            continue;
        size_t at = i + key_length + 2;
        while (at < length && (extra[at] == ':' || extra[at] == ' '))
            at++;
        char digits[32];
        size_t count = 0;
        while (at < length && count < sizeof digits - 1 &&
               ((extra[at] >= '0' && extra[at] <= '9') || (extra[at] == '-' && count == 0)))
            digits[count++] = extra[at++];
        digits[count] = 0;
        return count ? strtoll(digits, NULL, 10) : otherwise;
    }
    return otherwise;
}

static enum rs_status add_memory_row(struct rs_trace_calls *calls, const struct rs_batch *batch,
                                     size_t row)
{
    const size_t length = batch->extra_length[row];
    const char *extra = length ? batch->extra + batch->extra_offset[row] : "";
    if (batch->bytes[row] == INT64_MIN)
        return RS_OK; /* nothing is said of how much */
    if (rs_mem_grow((void **)&calls->memory_rows, &calls->memory_capacity, calls->memory_count + 1,
                    sizeof *calls->memory_rows) != RS_OK)
        return RS_NOMEM;
    calls->memory_rows[calls->memory_count] = (struct rs_trace_memory){
        .time = batch->start[row],
        .bytes = batch->bytes[row],
        .address = number_of(extra, length, "Addr", -1),
        .total_allocated = number_of(extra, length, "Total Allocated", -1),
        .total_reserved = number_of(extra, length, "Total Reserved", -1),
        .lane = batch->lane[row],
        .order = (uint32_t)calls->memory_count,
        .device_type = (int32_t)number_of(extra, length, "Device Type", -1),
        .device = (int32_t)number_of(extra, length, "Device Id", -1)};
    calls->memory_count++;
    return RS_OK;
}

enum rs_status rs_trace_calls_add(struct rs_trace_calls *calls, const struct rs_batch *batch,
                                  struct rs_err *err)
{
    enum rs_status status = RS_OK;
    calls->lanes = batch->lanes;
    for (size_t row = 0; row < batch->count && status == RS_OK; row++) {
        const enum rs_kind kind = batch->kind[row];
        if (!has_length(batch, row))
            continue;
        if (kind == RS_KIND_MEMORY)
            status = add_memory_row(calls, batch, row);
        else if (batch->lanes->items[batch->lane[row]].kind == RS_LANE_DEVICE)
            status = rs_kind_is_device_work(kind) ? add_device_row(calls, batch, row) : RS_OK;
        else if (is_call(batch, row))
            status = add_call(calls, batch, row);
    }
    if (status == RS_LIMIT)
        return rs_err_set(err, status, "a recording of more than %u calls", RS_NO_CALL - 1);
    return status == RS_OK ? RS_OK
                           : rs_err_set(err, status, "no memory for the calls of a recording");
}

/* ---- who holds whom ------------------------------------------------------------------------------------------------ */

/* Of two rows at one time the longer one holds the other; of equal ones a Python frame, which is there before what it calls. */
static int by_lane_and_start(const void *a_, const void *b_)
{
    const struct rs_trace_call *a = a_, *b = b_;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->end != b->end)
        return a->end > b->end ? -1 : 1;
    const int frames = (b->kind == RS_KIND_PYTHON) - (a->kind == RS_KIND_PYTHON);
    if (frames)
        return frames;
    return (a->name > b->name) - (a->name < b->name);
}

static bool holds(const struct rs_trace_call *outer, const struct rs_trace_call *inner)
{
    return outer->lane == inner->lane && outer->start <= inner->start && outer->end >= inner->end;
}

/* The calls before one in order whose end is not over form a chain of parents: who holds it is the first of them that does. */
static void find_parents(struct rs_trace_calls *calls)
{
    for (size_t i = 0; i < calls->count; i++) {
        struct rs_trace_call *call = &calls->items[i];
        uint32_t outer = i ? (uint32_t)(i - 1) : RS_NO_CALL;
        while (outer != RS_NO_CALL && !holds(&calls->items[outer], call))
            outer = calls->items[outer].parent;
        call->parent = outer;
        if (outer == RS_NO_CALL)
            continue;
        /* What holds that one is known: nobody walks up however deep a stranger's rows lie in each other. */
        const bool is_frame = calls->items[outer].kind == RS_KIND_PYTHON;
        call->op = is_frame ? calls->items[outer].op : outer;
        call->frame = is_frame ? outer : calls->items[outer].frame;
    }
}

/* Who holds stands before who is held: the outermost of several in each other is known when the next one is looked at. */
static void find_again(struct rs_trace_calls *calls)
{
    for (size_t i = 0; i < calls->count; i++)
        if (calls->items[i].kind != RS_KIND_PYTHON && calls->items[i].op != RS_NO_CALL)
            calls->items[calls->items[i].op].inner_count++;
    for (size_t i = 0; i < calls->count; i++) {
        struct rs_trace_call *call = &calls->items[i];
        if (call->op == RS_NO_CALL)
            continue;
        if (calls->items[call->op].is_again)
            call->op = calls->items[call->op].op;
        struct rs_trace_call *outer = &calls->items[call->op];
        if (call->kind == RS_KIND_PYTHON || outer->inner_count != 1 || outer->name != call->name)
            continue;
        call->is_again = true;
        outer->inner_count = call->inner_count;
    }
}

static rs_dur less(rs_dur length, rs_dur inner)
{
    return length > inner ? length - inner : 0;
}

static void sum_host_times(struct rs_trace_calls *calls)
{
    for (size_t i = 0; i < calls->count; i++) {
        struct rs_trace_call *call = &calls->items[i];
        const rs_dur length = call->end - call->start;
        call->own = length;
        call->self = call->is_again ? 0 : length;
        if (call->parent != RS_NO_CALL)
            calls->items[call->parent].own = less(calls->items[call->parent].own, length);
        if (call->op != RS_NO_CALL && call->kind != RS_KIND_PYTHON && !call->is_again)
            calls->items[call->op].self = less(calls->items[call->op].self, length);
    }
}

/* ---- device work and its launches ---------------------------------------------------------------------------------- */

struct key {
    int64_t id;
    uint32_t call;
};

static int by_id(const void *a_, const void *b_)
{
    const struct key *a = a_, *b = b_;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return (a->call > b->call) - (a->call < b->call);
}

static uint32_t find_key(const struct key *keys, size_t count, int64_t id)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (keys[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && keys[low].id == id ? keys[low].call : RS_NO_CALL;
}

static bool is_launch(const struct rs_trace_call *call)
{
    return (call->kind == RS_KIND_RUNTIME || call->kind == RS_KIND_DRIVER) &&
           call->correlation >= 0;
}

static bool is_operator(const struct rs_trace_call *call)
{
    return call->kind == RS_KIND_CPU_OP && call->external_id >= 0;
}

/* The calls for which `is_meant`, by the id that device rows name them by. */
static enum rs_status index_calls(const struct rs_trace_calls *calls,
                                  bool (*is_meant)(const struct rs_trace_call *call),
                                  bool by_correlation, struct key **keys_p, size_t *count_p)
{
    size_t count = 0;
    struct key *keys = rs_mem_calloc(calls->count + 1, sizeof *keys);
    if (!keys)
        return RS_NOMEM;
    for (size_t i = 0; i < calls->count; i++)
        if (is_meant(&calls->items[i]))
            keys[count++] = (struct key){by_correlation ? calls->items[i].correlation
                                                        : calls->items[i].external_id,
                                         (uint32_t)i};
    qsort(keys, count, sizeof *keys, by_id);
    *keys_p = keys;
    *count_p = count;
    return RS_OK;
}

/* Device work is its launch's operator's; of a launch that is not recorded, the operator's that it names. */
static enum rs_status give_device_rows(struct rs_trace_calls *calls)
{
    struct key *launches = NULL, *operators = NULL;
    size_t launch_count = 0, operator_count = 0;
    if (!calls->device_count)
        return RS_OK;
    enum rs_status status = index_calls(calls, is_launch, true, &launches, &launch_count);
    if (status == RS_OK)
        status = index_calls(calls, is_operator, false, &operators, &operator_count);
    for (size_t i = 0; i < calls->device_count && status == RS_OK; i++) {
        struct rs_trace_launched *row = &calls->device_rows[i];
        uint32_t call =
            row->correlation < 0 ? RS_NO_CALL : find_key(launches, launch_count, row->correlation);
        if (call != RS_NO_CALL && calls->items[call].op != RS_NO_CALL)
            call = calls->items[call].op;
        else if (row->external_id > 0 && operator_count) {
            const uint32_t named = find_key(operators, operator_count, row->external_id);
            call = named != RS_NO_CALL ? named : call;
        }
        if (call != RS_NO_CALL && calls->items[call].is_again)
            call = calls->items[call].op;
        row->call = call;
        if (call != RS_NO_CALL)
            add_up(&calls->items[call].device_self, row->length);
    }
    rs_mem_free(launches);
    rs_mem_free(operators);
    return status;
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

static int by_time(const void *a_, const void *b_)
{
    const struct rs_trace_memory *a = a_, *b = b_;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

/* The innermost call of this thread at that time that is no Python frame. */
static uint32_t call_at(const struct rs_trace_calls *calls, uint32_t lane, rs_ns time)
{
    size_t low = 0, high = calls->count;
    while (low < high) { /* behind the last one that began by then */
        const size_t middle = low + (high - low) / 2;
        const struct rs_trace_call *call = &calls->items[middle];
        if (call->lane < lane || (call->lane == lane && call->start <= time))
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t at = low ? (uint32_t)(low - 1) : RS_NO_CALL;
    if (at != RS_NO_CALL && calls->items[at].lane != lane)
        return RS_NO_CALL;
    while (at != RS_NO_CALL &&
           (calls->items[at].end < time || calls->items[at].kind == RS_KIND_PYTHON))
        at = calls->items[at].parent;
    return at != RS_NO_CALL && calls->items[at].is_again ? calls->items[at].op : at;
}

/* An allocator's row names the thread, and lies in a lane of its own. */
static uint32_t host_lane(const struct rs_lanes *lanes, uint32_t of)
{
    const struct rs_lane *wanted = &lanes->items[of];
    for (size_t i = 0; i < lanes->count; i++)
        if (lanes->items[i].kind == RS_LANE_HOST && lanes->items[i].process == wanted->process &&
            lanes->items[i].thread == wanted->thread)
            return (uint32_t)i;
    return of;
}

static void give_memory_rows(struct rs_trace_calls *calls)
{
    if (calls->memory_count)
        qsort(calls->memory_rows, calls->memory_count, sizeof *calls->memory_rows, by_time);
    for (size_t i = 0, from = SIZE_MAX, lane = 0; i < calls->memory_count; i++) {
        const struct rs_trace_memory *row = &calls->memory_rows[i];
        if (row->lane != from) {
            from = row->lane;
            lane = host_lane(calls->lanes, row->lane);
        }
        const uint32_t at = call_at(calls, (uint32_t)lane, row->time);
        if (at == RS_NO_CALL)
            continue;
        add_up(row->device_type > 0 ? &calls->items[at].device_memory_self
                                    : &calls->items[at].memory_self,
               row->bytes);
    }
}

/* Who is held stands behind who holds it: backwards, every sum is whole when it is handed on. */
static void sum_up(struct rs_trace_calls *calls)
{
    for (size_t i = calls->count; i-- > 0;) {
        struct rs_trace_call *call = &calls->items[i];
        add_up(&call->device, call->device_self);
        add_up(&call->memory, call->memory_self);
        add_up(&call->device_memory, call->device_memory_self);
        if (call->op == RS_NO_CALL)
            continue;
        struct rs_trace_call *outer = &calls->items[call->op];
        add_up(&outer->device, call->device);
        add_up(&outer->memory, call->memory);
        add_up(&outer->device_memory, call->device_memory);
    }
}

enum rs_status rs_trace_calls_nest(struct rs_trace_calls *calls, struct rs_err *err)
{
    if (calls->count)
        qsort(calls->items, calls->count, sizeof *calls->items, by_lane_and_start);
    find_parents(calls);
    find_again(calls);
    sum_host_times(calls);
    if (give_device_rows(calls) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory to find who launched what");
    give_memory_rows(calls);
    sum_up(calls);
    calls->lanes = NULL;
    return RS_OK;
}

void rs_trace_calls_fini(struct rs_trace_calls *calls)
{
    rs_mem_free(calls->items);
    rs_mem_free(calls->device_rows);
    rs_mem_free(calls->memory_rows);
    *calls = (struct rs_trace_calls){0};
}
