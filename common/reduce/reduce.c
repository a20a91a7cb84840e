/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/reduce.h"

#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

#include <string.h>

enum rs_status rs_reduce_new(const struct rs_strtab *strings, const struct rs_lanes *lanes,
                             struct rs_reduce **reduce_p)
{
    struct rs_reduce *reduce = rs_mem_calloc(1, sizeof *reduce);
    if (!reduce)
        return RS_NOMEM;
    reduce->strings = strings;
    reduce->lanes = lanes;
    reduce->first_start = RS_NS_MAX;
    reduce->last_end = RS_NS_MIN;
    *reduce_p = reduce;
    return RS_OK;
}

void rs_reduce_free(struct rs_reduce **reduce_p)
{
    struct rs_reduce *reduce = *reduce_p;
    if (!reduce)
        return;
    *reduce_p = NULL;
    rs_mem_free(reduce->names);
    rs_mem_free(reduce->work.items);
    rs_mem_free(reduce->comm_rows.items);
    rs_mem_free(reduce->launches.items);
    rs_mem_free(reduce->calls.items);
    rs_mem_free(reduce->comms.items);
    rs_mem_free(reduce->native_comms.items);
    rs_mem_free(reduce->native_tasks.items);
    rs_mem_free(reduce->profiler_steps.items);
    rs_mem_free(reduce->optimizer_steps.items);
    rs_mem_free(reduce->native_steps.items);
    rs_mem_free(reduce->step_windows.items);
    rs_mem_free(reduce->kernel_ids.items);
    rs_mem_free(reduce->cpu_ops.items);
    rs_mem_free(reduce->cpu_times.items);
    rs_mem_free(reduce->losses.items);
    rs_mem_free(reduce->waits.items);
    rs_mem_free(reduce->stream_waits.items);
    rs_mem_free(reduce->syncs.items);
    intervals_fini(&reduce->inputs);
    rs_mem_free(reduce->steps.items);
    rs_mem_free(reduce->slots);
    rs_mem_free(reduce->slot_first);
    rs_mem_free(reduce->order);
    windows_fini(&reduce->host_windows);
    for (size_t i = 0; reduce->device_windows && i < reduce->slot_count; i++)
        windows_fini(&reduce->device_windows[i]);
    rs_mem_free(reduce->device_windows);
    rs_slots_fini(&reduce->group_slots);
    rs_slots_fini(&reduce->header_slots);
    rs_mem_free(reduce);
}

/* ---- adding ---- */

/* One row on its way in, its times clamped. */
struct row {
    const struct rs_batch *batch;
    size_t at;
    rs_ns start, end;
};

static enum rs_status room_for_names(struct rs_reduce *reduce, size_t count)
{
    if (count <= reduce->name_capacity)
        return RS_OK;
    size_t capacity = reduce->name_capacity ? reduce->name_capacity : 1024;
    while (capacity < count)
        capacity *= 2;
    struct reduce_name *names = rs_mem_calloc(capacity, sizeof *names);
    if (!names)
        return RS_NOMEM;
    for (size_t i = 0; i < reduce->name_capacity; i++)
        names[i] = reduce->names[i];
    rs_mem_free(reduce->names);
    reduce->names = names;
    reduce->name_capacity = capacity;
    return RS_OK;
}

static const struct reduce_name *host_name_of(struct rs_reduce *reduce, rs_str name)
{
    struct reduce_name *known = &reduce->names[name];
    if (known->host == RS_HOST_UNSEEN) {
        const char *text = rs_strtab_text(reduce->strings, name);
        const size_t length = rs_strtab_length(reduce->strings, name);
        known->host = (uint8_t)rs_classify_host(text, length);
        if (known->host == RS_HOST_CALL || known->host == RS_HOST_GLOO ||
            known->host == RS_HOST_ANNOTATION)
            known->type = (uint8_t)rs_op_type_of_name(text, length);
    }
    return known;
}

static uint8_t kernel_class_of(struct rs_reduce *reduce, rs_str name)
{
    struct reduce_name *known = &reduce->names[name];
    if (known->work_class == RS_WORK_NONE)
        known->work_class = (uint8_t)rs_classify_kernel(rs_strtab_text(reduce->strings, name),
                                                        rs_strtab_length(reduce->strings, name));
    return known->work_class;
}

/* What the source says, else what the name says. */
static uint8_t class_of_kernel(struct rs_reduce *reduce, const struct row *row)
{
    const uint8_t flags = row->batch->flags[row->at];
    if (flags & RS_EVENT_COMPUTING)
        return RS_WORK_COMPUTING;
    if (flags & RS_EVENT_COMMUNICATION)
        return RS_WORK_COMMUNICATION;
    return kernel_class_of(reduce, row->batch->name[row->at]);
}

/* Index of a copy of the row's communication columns; REDUCE_NONE when it has none. */
static enum rs_status keep_comm(struct rs_reduce *reduce, const struct row *row, uint32_t *comm_p)
{
    *comm_p = REDUCE_NONE;
    const uint32_t from = row->batch->comm[row->at];
    if (from == RS_NO_COMM)
        return RS_OK;
    enum rs_status status;
    REDUCE_PUSH(&reduce->comms, status, row->batch->comms[from]);
    if (status == RS_OK)
        *comm_p = (uint32_t)(reduce->comms.count - 1);
    return status;
}

static enum rs_status add_work(struct rs_reduce *reduce, const struct row *row, uint8_t work_class)
{
    const struct rs_batch *batch = row->batch;
    if (!reduce->has_device_work) { /* the CPU is not the device: its operators are not needed */
        reduce->has_device_work = true;
        rs_mem_free(reduce->cpu_ops.items);
        reduce->cpu_ops.items = NULL;
        reduce->cpu_ops.count = reduce->cpu_ops.capacity = 0;
    }
    if (reduce->work.count >= REDUCE_NONE - 1)
        return RS_LIMIT;
    enum rs_status status;
    if (work_class == RS_WORK_COMMUNICATION) {
        uint32_t comm;
        status = keep_comm(reduce, row, &comm);
        if (status != RS_OK)
            return status;
        REDUCE_PUSH(&reduce->comm_rows, status,
                    (struct reduce_comm_row){.work = (uint32_t)reduce->work.count,
                                             .comm = comm,
                                             .external_id = batch->external_id[row->at]});
        if (status != RS_OK)
            return status;
    }
    REDUCE_PUSH(&reduce->work, status,
                (struct reduce_work){.start = row->start,
                                     .end = row->end,
                                     .correlation = batch->correlation[row->at],
                                     .lane = batch->lane[row->at],
                                     .name = batch->name[row->at],
                                     .work_class = work_class,
                                     .flags = batch->flags[row->at],
                                     .step = REDUCE_NONE});
    return status;
}

/* A device that waits is idle, as while it waits for another stream (add_sync). */
static enum rs_status add_kernel(struct rs_reduce *reduce, const struct row *row)
{
    const uint8_t work_class = class_of_kernel(reduce, row);
    return work_class == RS_WORK_WAITING ? RS_OK : add_work(reduce, row, work_class);
}

static uint8_t who_waits(struct rs_reduce *reduce, rs_str name)
{
    struct reduce_name *known = &reduce->names[name];
    if (known->wait == REDUCE_WAITS_NOT_ASKED) {
        const char *text = rs_strtab_text(reduce->strings, name);
        const size_t length = rs_strtab_length(reduce->strings, name);
        known->wait = rs_classify_is_wait(text, length)          ? REDUCE_WAITS_HOST
                      : rs_classify_is_stream_wait(text, length) ? REDUCE_WAITS_STREAM
                                                                 : REDUCE_WAITS_NOBODY;
    }
    return known->wait;
}

static enum rs_status add_wait(struct rs_reduce *reduce, const struct row *row)
{
    enum rs_status status;
    REDUCE_PUSH(&reduce->waits, status,
                (struct reduce_wait){row->start, row->end, row->batch->correlation[row->at],
                                     row->batch->lane[row->at]});
    return status;
}

/* Its correlation is that of the call that waits. */
static enum rs_status add_sync(struct rs_reduce *reduce, const struct row *row)
{
    static const char stream[] =
        "Stream Sync"; /* not "Stream Wait Event": there the device waits */
    enum rs_status status = RS_OK;
    const rs_str name = row->batch->name[row->at];
    const int64_t correlation = row->batch->correlation[row->at];
    if (correlation < 0 || rs_strtab_length(reduce->strings, name) < sizeof stream - 1 ||
        memcmp(rs_strtab_text(reduce->strings, name), stream, sizeof stream - 1) != 0)
        return RS_OK;
    REDUCE_PUSH(&reduce->syncs, status,
                (struct reduce_sync){correlation, row->batch->lane[row->at]});
    return status;
}

/* A range in which the host fetches its input: evidence for a data stall. */
static enum rs_status add_input(struct rs_reduce *reduce, const struct row *row)
{
    const rs_str name = row->batch->name[row->at];
    struct reduce_name *known = &reduce->names[name];
    if (known->input == REDUCE_NOT_ASKED)
        known->input = rs_event_is_input(rs_strtab_text(reduce->strings, name),
                                         rs_strtab_length(reduce->strings, name))
                           ? REDUCE_YES
                           : REDUCE_NO;
    return known->input == REDUCE_YES ? intervals_push(&reduce->inputs, row->start, row->end)
                                      : RS_OK;
}

static enum rs_status add_launch(struct rs_reduce *reduce, const struct row *row)
{
    enum rs_status status = RS_OK;
    const int64_t correlation = row->batch->correlation[row->at];
    const uint8_t waits = who_waits(reduce, row->batch->name[row->at]);
    if (waits == REDUCE_WAITS_HOST)
        status = add_wait(reduce, row);
    else if (waits == REDUCE_WAITS_STREAM)
        REDUCE_PUSH(&reduce->stream_waits, status, row->start);
    if (correlation < 0 || status != RS_OK)
        return status;
    REDUCE_PUSH(&reduce->launches, status,
                (struct reduce_launch){correlation, row->start, row->batch->lane[row->at]});
    return status;
}

static enum rs_status add_call(struct rs_reduce *reduce, const struct row *row, uint8_t host_name,
                               uint8_t type)
{
    const struct rs_batch *batch = row->batch;
    uint32_t comm;
    enum rs_status status = keep_comm(reduce, row, &comm);
    if (status != RS_OK)
        return status;
    if (host_name == RS_HOST_PARAM_COMMS && comm != REDUCE_NONE &&
        reduce->comms.items[comm].collective != RS_STR_NONE) {
        const rs_str collective = reduce->comms.items[comm].collective;
        type = (uint8_t)rs_op_type_of_text(rs_strtab_text(reduce->strings, collective),
                                           rs_strtab_length(reduce->strings, collective));
    }
    REDUCE_PUSH(&reduce->calls, status,
                (struct reduce_call){.start = row->start,
                                     .end = row->end,
                                     .external_id = batch->external_id[row->at],
                                     .lane = batch->lane[row->at],
                                     .name = batch->name[row->at],
                                     .dims = batch->input_dims[row->at],
                                     .types = batch->input_types[row->at],
                                     .concrete = batch->concrete_inputs[row->at],
                                     .comm = comm,
                                     .host_name = host_name,
                                     .type = type,
                                     .flags = batch->flags[row->at]});
    return status;
}

static enum rs_status add_profiler_step(struct rs_reduce *reduce, const struct row *row)
{
    enum rs_status status = RS_OK;
    const rs_str name = row->batch->name[row->at];
    struct reduce_mark step = {
        .start = row->start, .end = row->end, .name = name, .flags = row->batch->flags[row->at]};
    if (rs_profiler_step_number(rs_strtab_text(reduce->strings, name),
                                rs_strtab_length(reduce->strings, name), &step.number))
        REDUCE_PUSH(&reduce->profiler_steps, status, step);
    return status;
}

static enum rs_status add_cpu_op(struct rs_reduce *reduce, const struct row *row)
{
    enum rs_status status = RS_OK;
    const rs_str name = row->batch->name[row->at];
    const struct reduce_name *known = host_name_of(reduce, name);
    const bool is_call = known->host == RS_HOST_CALL;
    if (known->host == RS_HOST_PROFILER_STEP) /* older writers have no annotations */
        return add_profiler_step(reduce, row);
    if (is_call || known->host == RS_HOST_PARAM_COMMS)
        status = add_call(reduce, row, known->host, known->type);
    if (status == RS_OK && !reduce->has_device_work)
        REDUCE_PUSH(
            &reduce->cpu_ops, status,
            (struct reduce_cpu_op){.start = row->start,
                                   .end = row->end,
                                   .lane = row->batch->lane[row->at],
                                   .name = name,
                                   .is_call = is_call || known->host == RS_HOST_CALL_OTHER});
    return status;
}

static enum rs_status add_annotation(struct rs_reduce *reduce, const struct row *row)
{
    enum rs_status status = RS_OK;
    const rs_str name = row->batch->name[row->at];
    const struct reduce_name *known = host_name_of(reduce, name);
    const struct reduce_mark mark = {
        .start = row->start, .end = row->end, .name = name, .flags = row->batch->flags[row->at]};
    switch ((enum rs_host_name)known->host) {
    case RS_HOST_ANNOTATION:
    case RS_HOST_GLOO:
        return add_call(reduce, row, known->host, known->type);
    case RS_HOST_PROFILER_STEP:
        return add_profiler_step(reduce, row);
    case RS_HOST_OPTIMIZER_STEP:
        REDUCE_PUSH(&reduce->optimizer_steps, status, mark);
        return status;
    case RS_HOST_UNSEEN:
    case RS_HOST_PLAIN:
    case RS_HOST_CALL:
    case RS_HOST_CALL_OTHER:
    case RS_HOST_PARAM_COMMS:
        break;
    }
    return status;
}

static enum rs_status add_op(struct rs_reduce *reduce, const struct row *row)
{
    enum rs_status status;
    const int64_t cpu_ns = row->batch->cpu_ns[row->at];
    const uint32_t lane = row->batch->lane[row->at];
    reduce->has_native = true;
    if (cpu_ns >= 0) {
        REDUCE_PUSH(&reduce->cpu_times, status,
                    (struct reduce_cpu_time){row->start, row->end, cpu_ns, lane});
        if (status != RS_OK)
            return status;
    }
    REDUCE_PUSH(
        &reduce->cpu_ops, status,
        (struct reduce_cpu_op){
            .start = row->start, .end = row->end, .lane = lane, .name = row->batch->name[row->at]});
    return status;
}

static enum rs_status add_native(struct rs_reduce *reduce, const struct row *row, bool is_task)
{
    uint32_t comm;
    enum rs_status status = keep_comm(reduce, row, &comm);
    if (status != RS_OK)
        return status;
    const struct reduce_native native = {.start = row->start,
                                         .end = row->end,
                                         .correlation = row->batch->correlation[row->at],
                                         .external_id = row->batch->external_id[row->at],
                                         .lane = row->batch->lane[row->at],
                                         .name = row->batch->name[row->at],
                                         .comm = comm,
                                         .flags = row->batch->flags[row->at]};
    reduce->has_native = true;
    if (is_task)
        REDUCE_PUSH(&reduce->native_tasks, status, native);
    else
        REDUCE_PUSH(&reduce->native_comms, status, native);
    return status;
}

static enum rs_status add_step(struct rs_reduce *reduce, const struct row *row)
{
    enum rs_status status;
    REDUCE_PUSH(&reduce->native_steps, status,
                (struct reduce_mark){.start = row->start,
                                     .end = row->end,
                                     .number = row->batch->correlation[row->at],
                                     .name = row->batch->name[row->at],
                                     .flags = row->batch->flags[row->at]});
    return status;
}

static enum rs_status add_step_window(struct rs_reduce *reduce, const struct row *row)
{
    const struct rs_lane *lane = &reduce->lanes->items[row->batch->lane[row->at]];
    enum rs_status status = RS_OK;
    if (lane->kind == RS_LANE_DEVICE)
        REDUCE_PUSH(&reduce->step_windows, status,
                    (struct reduce_step_window){
                        {row->start, row->end}, row->batch->correlation[row->at], lane->device});
    return status;
}

static enum rs_status add_loss(struct rs_reduce *reduce, const struct row *row)
{
    enum rs_status status;
    REDUCE_PUSH(&reduce->losses, status, (struct interval){row->start, row->end});
    return status;
}

static void add_trace_span(struct rs_reduce *reduce, const struct row *row)
{
    if (!reduce->has_trace_span || row->start < reduce->trace_start)
        reduce->trace_start = row->start;
    if (!reduce->has_trace_span || row->end > reduce->trace_end)
        reduce->trace_end = row->end;
    reduce->has_trace_span = true;
}

/* The recording's span, where no Trace row tells it, is that of the rows with a length. */
static void widen_span(struct rs_reduce *reduce, const struct row *row)
{
    if (row->batch->flags[row->at] & RS_EVENT_NO_END)
        return;
    if (row->start < reduce->first_start)
        reduce->first_start = row->start;
    if (row->end > reduce->last_end)
        reduce->last_end = row->end;
    reduce->has_rows = true;
}

static enum rs_status add_row(struct rs_reduce *reduce, const struct row *row)
{
    const enum rs_kind kind = (enum rs_kind)row->batch->kind[row->at];
    enum rs_status status;
    switch (kind) {
    case RS_KIND_TRACE_SPAN:
        add_trace_span(reduce, row);
        return RS_OK;
    case RS_KIND_METADATA:
    case RS_KIND_FLOW_START:
    case RS_KIND_FLOW_END:
    case RS_KIND_COUNTER:
    case RS_KIND_INSTANT:
    case RS_KIND_MEMORY:
    case RS_KIND_DEVICE_EVENT: /* these two are emitted by a lossless reading only: they must not tell the span */
    case RS_KIND_PYTHON:
    case RS_KIND_COUNT:
        return RS_OK;
    case RS_KIND_OTHER:
    case RS_KIND_GPU_USER_ANNOTATION:
    case RS_KIND_OVERHEAD:
    case RS_KIND_MARK:
        widen_span(reduce, row);
        return RS_OK;
    case RS_KIND_SYNC:
        widen_span(reduce, row);
        return add_sync(reduce, row);
    case RS_KIND_RANGE:
        widen_span(reduce, row);
        return add_input(reduce, row);
    case RS_KIND_CPU_OP:
        widen_span(reduce, row);
        status = add_input(reduce, row);
        return status == RS_OK ? add_cpu_op(reduce, row) : status;
    case RS_KIND_USER_ANNOTATION:
        widen_span(reduce, row);
        status = add_input(reduce, row);
        return status == RS_OK ? add_annotation(reduce, row) : status;
    case RS_KIND_KERNEL:
        widen_span(reduce, row);
        return add_kernel(reduce, row);
    case RS_KIND_MEMCPY:
    case RS_KIND_MEMSET:
        widen_span(reduce, row);
        return add_work(reduce, row, RS_WORK_MEMORY);
    case RS_KIND_RUNTIME:
    case RS_KIND_DRIVER:
        widen_span(reduce, row);
        return add_launch(reduce, row);
    case RS_KIND_STEP:
        widen_span(reduce, row);
        return add_step(reduce, row);
    case RS_KIND_OP:
        widen_span(reduce, row);
        return add_op(reduce, row);
    case RS_KIND_COMM:
        widen_span(reduce, row);
        return add_native(reduce, row, false);
    case RS_KIND_COMM_TASK:
        widen_span(reduce, row);
        return add_native(reduce, row, true);
    case RS_KIND_LOSS:
        return add_loss(reduce, row);
    case RS_KIND_STEP_WINDOW:
        return add_step_window(reduce, row);
    }
    return RS_OK;
}

enum rs_status rs_reduce_add(struct rs_reduce *reduce, const struct rs_batch *batch,
                             struct rs_err *err)
{
    RS_CHECK(batch->strings == reduce->strings && batch->lanes == reduce->lanes);
    enum rs_status status = room_for_names(reduce, reduce->strings->count);
    struct row row = {.batch = batch};
    reduce->row_count += batch->count;
    for (; status == RS_OK && row.at < batch->count; row.at++) {
        row.start = ns_clamp(batch->start[row.at]);
        row.end = ns_clamp(batch->end[row.at]);
        status = add_row(reduce, &row);
    }
    if (status != RS_OK)
        return rs_err_set(err, status, "reducing a rank's events: %s", rs_status_text(status));
    return RS_OK;
}

/* ---- finishing ---- */

static void find_span(struct rs_reduce *reduce)
{
    if (reduce->has_trace_span) {
        reduce->span_start = reduce->trace_start;
        reduce->span_end = reduce->trace_end;
    } else if (reduce->has_rows) {
        reduce->span_start = reduce->first_start;
        reduce->span_end = reduce->last_end;
    }
}

/* The end of an unfinished row is not later than the recording's (contracts section 3). */
static void clamp_end(const struct rs_reduce *reduce, uint8_t flags, rs_ns start, rs_ns *end)
{
    if ((flags & RS_EVENT_UNFINISHED) && *end > reduce->span_end)
        *end = start > reduce->span_end ? start : reduce->span_end;
}

static void clamp_unfinished(struct rs_reduce *reduce)
{
    for (size_t i = 0; i < reduce->work.count; i++) {
        struct reduce_work *work = &reduce->work.items[i];
        clamp_end(reduce, work->flags, work->start, &work->end);
    }
    for (size_t i = 0; i < reduce->calls.count; i++) {
        struct reduce_call *call = &reduce->calls.items[i];
        clamp_end(reduce, call->flags, call->start, &call->end);
    }
    for (size_t i = 0; i < reduce->native_comms.count; i++) {
        struct reduce_native *native = &reduce->native_comms.items[i];
        clamp_end(reduce, native->flags, native->start, &native->end);
    }
}

static enum rs_status build(struct rs_reduce *reduce)
{
    static enum rs_status (*const stages[])(struct rs_reduce *) = {
        steps_build,     host_work_build,   place_work,   comm_device_build,
        comm_gloo_build, comm_native_build, comm_order,   figures_build,
        kernels_build,   spans_build,       seal_summary,
    };
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const enum rs_status status = stages[i](reduce);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

enum rs_status reduce_build(struct rs_reduce *reduce, const struct rs_trace_info *info,
                            struct rs_summary *summary_p)
{
    struct rs_summary summary;
    enum rs_status status = rs_summary_init(&summary);
    if (status != RS_OK)
        return status;
    reduce->info = info;
    reduce->summary = &summary;
    /* cut before its device's rows: what was launched is not there, and the CPU is not the device for that */
    reduce->has_device_work =
        reduce->has_device_work || (info->is_partial && reduce->launches.count > 0);
    find_span(reduce);
    clamp_unfinished(reduce);
    status = build(reduce);
    if (status == RS_OK)
        *summary_p = summary;
    else
        rs_summary_fini(&summary);
    return status;
}

enum rs_status rs_reduce_finish(struct rs_reduce *reduce, const struct rs_trace_info *info,
                                struct rs_summary *summary_p, struct rs_err *err)
{
    RS_CHECK(!reduce->summary);
    const enum rs_status status = reduce_build(reduce, info, summary_p);
    if (status != RS_OK)
        return rs_err_set(err, status, "reducing a rank's events: %s", rs_status_text(status));
    return RS_OK;
}
