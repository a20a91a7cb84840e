/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form of a rank's directory -> batches.
 *
 *   trace_view.json      Python: steps; CANN: launches; Ascend Hardware: device work; HCCL: operations and their tasks;
 *                        a lossless reading has the operators, flows and counters, too, with their arguments
 *   communication.json   which communicator each operation belongs to (absent at Level0: then the last three digits
 *                        of its name find it among the groups of the metadata)
 *   kernel_details.csv   which device rows are operators; without it their task types tell
 *
 * Without a trace the operations of communication.json are all there is, with the sums of the step figures: ascend_text_steps.c
 * says what steps are made of then. The host is not known, so the rank is partial.
 *
 * Memory grows with device rows and operations: a row of a step's window is known only when all steps are.
 */
#include "ascend/source/ascend_text.h"

#include "common/base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum rs_status ascend_text_fail(const struct text_reader *reader, enum rs_status status,
                                struct rs_err *err)
{
    return status == RS_OK
               ? RS_OK
               : rs_err_set(err, status, "%s: %s", reader->a.rank->output, rs_status_text(status));
}

static enum rs_status no_memory(const struct text_reader *reader, enum rs_status status,
                                struct rs_err *err)
{
    return ascend_text_fail(reader, status, err);
}

void ascend_text_widen(struct text_reader *reader, rs_ns start, rs_ns end)
{
    reader->first = start < reader->first ? start : reader->first;
    reader->last = end > reader->last ? end : reader->last;
}

/* ---- rows of the trace ---- */

/* In a lossless reading the arguments of the row that was just emitted, as they stand there. Between members of a JSON text a line
 * break is a blank; in extra it is not. */
static enum rs_status put_args(struct text_reader *reader, const struct kineto_row *row, size_t at,
                               struct rs_err *err)
{
    struct rs_buf buf = {0};
    if (!reader->a.is_lossless || !row->args.length)
        return RS_OK;
    rs_buf_bytes(&buf, row->args.text, row->args.length);
    for (size_t i = 0; i < buf.length; i++)
        if (buf.data[i] == '\n')
            buf.data[i] = ' ';
    const enum rs_status status =
        buf.failed ? RS_NOMEM
                   : rs_batch_extra(&reader->a.batch, at, (const char *)buf.data, buf.length);
    rs_buf_fini(&buf);
    return no_memory(reader, status, err);
}

static enum rs_status take_launch(struct text_reader *reader, const struct kineto_row *row,
                                  rs_ns start, struct rs_err *err)
{
    struct ascend *a = &reader->a;
    struct ascend_row launch = {.kind = RS_KIND_RUNTIME,
                                .start = start,
                                .end = start + trace_length(row),
                                .correlation = trace_integer(row, "connection_id", -1),
                                .external_id = -1,
                                .bytes = -1};
    enum rs_status status = RS_OK;
    if (trace_starts_with(row->name, "Node@") && launch.correlation >= 0)
        PUSH(&reader->nodes, status,
             (struct node_row){launch.correlation, launch.start, launch.end});
    if (status == RS_OK)
        status = ascend_text_bytes(a, row->name.text, row->name.length, &launch.name);
    if (status == RS_OK)
        status = ascend_text(a, "cann", &launch.category);
    if (status == RS_OK)
        status = ascend_host_lane(a, row->pid.value, row->tid.value, &launch.lane);
    size_t at;
    if (status != RS_OK)
        return no_memory(reader, status, err);
    status = ascend_emit(a, &launch, &at, err);
    return status == RS_OK ? put_args(reader, row, at, err) : status;
}

/* Task types of operators; both spellings that CANN has used. */
static bool is_computing(const char *type)
{
    static const char *const types[] = {"AI_CORE",        "AI_CPU",       "AI_VECTOR_CORE",
                                        "MIX_AIC",        "MIX_AIV",      "KERNEL_AICORE",
                                        "KERNEL_AIVEC",   "KERNEL_AICPU", "KERNEL_MIX_AIC",
                                        "KERNEL_MIX_AIV", "DSA_SQE"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcasecmp(type, types[i]) == 0)
            return true;
    return false;
}

static enum rs_status take_device(struct text_reader *reader, const struct kineto_row *row,
                                  rs_ns start, int64_t device)
{
    char type[32];
    trace_string(row, "Task Type", type, sizeof type);
    struct device_row made = {.start = start,
                              .end = start + trace_length(row),
                              .connection = trace_integer(row, "connection_id", -1),
                              .device = device,
                              .stream = row->tid.value == KINETO_NO_ID ? 0 : row->tid.value,
                              .is_computing = is_computing(type)};
    made.is_copy = trace_starts_with(row->name, "MEMCPY") || strncasecmp(type, "MEMCPY", 6) == 0;
    enum rs_status status =
        ascend_text_bytes(&reader->a, row->name.text, row->name.length, &made.name);
    if (status == RS_OK)
        PUSH(&reader->rows, status, made);
    return status;
}

static enum rs_status take_op(struct text_reader *reader, const struct kineto_row *row, rs_ns start,
                              int64_t device)
{
    struct hccl_op made = {.op = {.start = start,
                                  .end = start + trace_length(row),
                                  .device = device,
                                  .connection = trace_integer(row, "connection_id", -1),
                                  .id = (int64_t)reader->ops.count,
                                  .group = ASCEND_NO_GROUP,
                                  .count = trace_integer(row, "count", -1),
                                  .peer = -1,
                                  .transport = RS_STR_NONE},
                           .pid = row->pid.value,
                           .tid = row->tid.value,
                           .step = RS_ASCEND_NO_STEP};
    trace_string(row, "data_type", made.dtype, sizeof made.dtype);
    enum rs_status status =
        ascend_text_bytes(&reader->a, row->name.text, row->name.length, &made.op.name);
    if (status == RS_OK)
        PUSH(&reader->ops, status, made);
    return status;
}

static enum rs_status take_task(struct text_reader *reader, const struct kineto_row *row,
                                const struct trace_thread *plane, rs_ns start)
{
    char type[32];
    const struct trace_thread *group = trace_group_above(&reader->names, plane);
    struct small_task made = {.task = {.start = start,
                                       .end = start + trace_length(row),
                                       .plane = plane->plane,
                                       .src = trace_integer(row, "src rank", -1),
                                       .dst = trace_integer(row, "dst rank", -1),
                                       .size = trace_integer(row, "size(Byte)", -1)}};
    enum rs_status status = RS_OK;
    if (!group)
        return RS_OK;
    made.pid = group->pid;
    made.tid = group->tid;
    trace_string(row, "task type", type, sizeof type);
    trace_string(row, "link type", made.link, sizeof made.link);
    made.task.kind = (uint8_t)ascend_task_kind_of(type, "");
    made.task.src = made.task.src < UINT32_MAX ? made.task.src : -1;
    made.task.dst = made.task.dst < UINT32_MAX ? made.task.dst : -1;
    PUSH(&reader->tasks, status, made);
    return status;
}

static enum rs_status take_python(struct text_reader *reader, const struct kineto_row *row,
                                  rs_ns start, struct rs_err *err)
{
    struct ascend *a = &reader->a;
    enum rs_status status = RS_OK;
    int64_t number;
    if (trace_step(row, &number)) {
        PUSH(&reader->steps, status,
             (struct host_step){number, start, start + trace_length(row), RS_NS_MAX, RS_NS_MIN,
                                false});
        return no_memory(reader, status, err);
    }
    if (!a->is_lossless && !rs_event_is_input(row->name.text, row->name.length))
        return RS_OK;
    const bool is_op = row->category && span_is(row->category->text, "cpu_op");
    const bool is_frame = row->category && span_is(row->category->text, "python_function");
    struct ascend_row made = {.kind = is_op      ? RS_KIND_CPU_OP
                                      : is_frame ? RS_KIND_PYTHON
                                                 : RS_KIND_OTHER,
                              .category = row->category ? row->category->id : RS_STR_NONE,
                              .start = start,
                              .end = start + trace_length(row),
                              .correlation = -1,
                              .external_id = -1,
                              .bytes = -1};
    status = ascend_text_bytes(a, row->name.text, row->name.length, &made.name);
    if (status == RS_OK)
        status = ascend_host_lane(a, row->pid.value, row->tid.value, &made.lane);
    size_t at;
    if (status != RS_OK)
        return no_memory(reader, status, err);
    status = ascend_emit(a, &made, &at, err);
    return status == RS_OK ? put_args(reader, row, at, err) : status;
}

/* Where there is no device, operators on the host are the work. */
static enum rs_status take_cpu_op(struct text_reader *reader, const struct kineto_row *row,
                                  rs_ns start, struct rs_err *err)
{
    struct ascend *a = &reader->a;
    struct ascend_row made = {.kind = RS_KIND_CPU_OP,
                              .start = start,
                              .end = start + trace_length(row),
                              .correlation = -1,
                              .external_id = -1,
                              .bytes = -1};
    enum rs_status status = ascend_text_bytes(a, row->name.text, row->name.length, &made.name);
    if (status == RS_OK)
        status = ascend_text(a, "cpu_op", &made.category);
    if (status == RS_OK)
        status = ascend_host_lane(a, row->pid.value, row->tid.value, &made.lane);
    size_t at;
    return status == RS_OK ? ascend_emit(a, &made, &at, err) : no_memory(reader, status, err);
}

/* Collections of garbage stand in a process of their own; no figure is made of them. */
static enum rs_status take_gc(struct text_reader *reader, const struct kineto_row *row,
                              struct rs_err *err)
{
    struct ascend *a = &reader->a;
    struct ascend_row made = {.kind = RS_KIND_OVERHEAD,
                              .category = RS_STR_NONE,
                              .correlation = -1,
                              .external_id = -1,
                              .bytes = -1};
    if (!a->is_lossless || !row->category || !span_is(row->category->text, "GC") ||
        !trace_start(row, &made.start))
        return RS_OK;
    made.end = made.start + trace_length(row);
    enum rs_status status = ascend_text(a, "GC", &made.name);
    if (status == RS_OK)
        status = ascend_host_lane(a, row->pid.value, row->tid.value, &made.lane);
    size_t at;
    return status == RS_OK ? ascend_emit(a, &made, &at, err) : no_memory(reader, status, err);
}

/* A value of a counter; its arguments are the value. */
static enum rs_status take_counter(struct text_reader *reader, const struct kineto_row *row,
                                   struct rs_err *err)
{
    struct ascend *a = &reader->a;
    struct ascend_row made = {.kind = RS_KIND_COUNTER,
                              .flags = RS_EVENT_NO_END,
                              .category = RS_STR_NONE,
                              .correlation = -1,
                              .external_id = -1,
                              .bytes = -1};
    if (!a->is_lossless || !trace_start(row, &made.start))
        return RS_OK;
    const struct trace_process *process = trace_process_of(&reader->names, row);
    made.end = made.start;
    enum rs_status status = ascend_text_bytes(a, row->name.text, row->name.length, &made.name);
    if (status == RS_OK)
        status = ascend_device_lane(a, process ? process->device : 0, 0, NULL, &made.lane);
    size_t at;
    if (status != RS_OK)
        return no_memory(reader, status, err);
    status = ascend_emit(a, &made, &at, err);
    return status == RS_OK ? put_args(reader, row, at, err) : status;
}

/* One end of a connection: of operators with each other (fwdbwd, async_task_queue), with device work (async_npu), of calls with it
 * (HostToDevice). No figure is made of them. */
static enum rs_status take_flow(struct text_reader *reader, const struct kineto_row *row,
                                struct rs_err *err)
{
    struct ascend *a = &reader->a;
    const struct trace_process *process = trace_process_of(&reader->names, row);
    struct ascend_row made = {.kind = row->phase == 's' ? RS_KIND_FLOW_START : RS_KIND_FLOW_END,
                              .flags = RS_EVENT_NO_END,
                              .category = row->category ? row->category->id : RS_STR_NONE,
                              .external_id = -1,
                              .bytes = -1};
    if (!a->is_lossless || !process || !trace_start(row, &made.start) ||
        !text_integer(row->id, &made.correlation))
        return RS_OK;
    made.end = made.start;
    enum rs_status status = ascend_text_bytes(a, row->name.text, row->name.length, &made.name);
    const bool is_of_device = process->layer == LAYER_HARDWARE || process->layer == LAYER_HCCL;
    if (status == RS_OK)
        status = is_of_device
                     ? ascend_device_lane(a, process->device >= 0 ? process->device : 0,
                                          row->tid.value == KINETO_NO_ID ? 0 : row->tid.value, NULL,
                                          &made.lane)
                     : ascend_host_lane(a, row->pid.value, row->tid.value, &made.lane);
    size_t at;
    return status == RS_OK ? ascend_emit(a, &made, &at, err) : no_memory(reader, status, err);
}

static enum rs_status take_row(void *self, const struct kineto_row *row, struct rs_err *err)
{
    struct text_reader *reader = self;
    rs_ns start;
    if (row->phase == 'C' && row->pid.value != KINETO_NO_ID)
        return take_counter(reader, row, err);
    if ((row->phase == 's' || row->phase == 'f') && row->pid.value != KINETO_NO_ID)
        return take_flow(reader, row, err);
    if (row->phase != 'X' || row->pid.value == KINETO_NO_ID)
        return RS_OK;
    const struct trace_process *process = trace_process_of(&reader->names, row);
    if (!process || process->layer == LAYER_OTHER)
        return take_gc(reader, row, err);
    if (process->layer == LAYER_OVERLAP)
        return RS_OK;
    if (!trace_start(row, &start)) {
        reader->a.rows_bad++;
        return RS_OK;
    }
    ascend_text_widen(reader, start, start + trace_length(row));
    const int64_t device = process->device >= 0 ? process->device : 0;
    if (process->layer == LAYER_PYTHON)
        return take_python(reader, row, start, err);
    if (process->layer == LAYER_CPU_OP)
        return take_cpu_op(reader, row, start, err);
    if (process->layer == LAYER_CANN)
        return take_launch(reader, row, start, err);
    if (process->layer == LAYER_HARDWARE)
        return no_memory(reader, take_device(reader, row, start, device), err);
    const struct trace_thread *thread =
        trace_thread_of(&reader->names, row->pid.value, row->tid.value);
    if (thread && thread->is_group)
        return no_memory(reader, take_op(reader, row, start, device), err);
    if (thread && thread->is_plane)
        return no_memory(reader, take_task(reader, row, thread, start), err);
    return RS_OK;
}

/* ---- steps ---- */

static int by_host_start(const void *a_, const void *b_)
{
    const struct host_step *a = a_, *b = b_;
    return (a->host_start > b->host_start) - (a->host_start < b->host_start);
}

static int by_connection(const void *a_, const void *b_)
{
    const struct node_row *a = a_, *b = b_;
    return (a->connection > b->connection) - (a->connection < b->connection);
}

static const struct node_row *node_of(const struct text_reader *reader, int64_t connection)
{
    const struct node_row key = {.connection = connection};
    return connection < 0 || !reader->nodes.count
               ? NULL
               : bsearch(&key, reader->nodes.items, reader->nodes.count, sizeof key, by_connection);
}

/* The step in which the launch lies fully; NULL: none. */
static struct host_step *step_of(const struct text_reader *reader, const struct node_row *node)
{
    size_t low = 0, high = reader->steps.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (reader->steps.items[middle].host_start <= node->start)
            low = middle + 1;
        else
            high = middle;
    }
    struct host_step *step = low ? &reader->steps.items[low - 1] : NULL;
    return step && node->end <= step->host_end ? step : NULL;
}

static void bound_step(struct text_reader *reader, int64_t connection, rs_ns start, rs_ns end)
{
    const struct node_row *node = node_of(reader, connection);
    struct host_step *step = node ? step_of(reader, node) : NULL;
    if (!step)
        return;
    step->start = start < step->start ? start : step->start;
    step->end = end > step->end ? end : step->end;
}

static enum rs_status emit_step(struct text_reader *reader, const struct host_step *step,
                                struct rs_err *err)
{
    struct ascend *a = &reader->a;
    char name[40];
    size_t at;
    struct ascend_row row = {.kind = RS_KIND_USER_ANNOTATION,
                             .flags = step->is_guess ? RS_EVENT_UNFINISHED : 0,
                             .start = step->host_start,
                             .end = step->host_end,
                             .correlation = -1,
                             .external_id = -1,
                             .bytes = -1};
    (void)snprintf(name, sizeof name, "ProfilerStep#%" PRId64, step->number);
    enum rs_status status = ascend_text(a, name, &row.name);
    if (status == RS_OK)
        status = ascend_text(a, "user_annotation", &row.category);
    if (status == RS_OK)
        status = ascend_host_lane(a, 0, 0, &row.lane);
    return status == RS_OK ? ascend_emit(a, &row, &at, err) : no_memory(reader, status, err);
}

static enum rs_status emit_window(struct text_reader *reader, const struct host_step *step,
                                  int64_t device, struct rs_err *err)
{
    const bool has_work = step->start != RS_NS_MAX;
    struct ascend_row row = {.kind = RS_KIND_STEP_WINDOW,
                             .category = RS_STR_NONE,
                             .start = has_work ? step->start : step->host_start,
                             .end = has_work && step->end > step->host_end ? step->end
                                                                           : step->host_end,
                             .correlation = step->number,
                             .external_id = -1,
                             .bytes = -1};
    size_t at;
    enum rs_status status = ascend_text(&reader->a, "ProfilerStep", &row.name);
    if (status == RS_OK)
        status = ascend_device_lane(&reader->a, device, 0, NULL, &row.lane);
    return status == RS_OK ? ascend_emit(&reader->a, &row, &at, err)
                           : no_memory(reader, status, err);
}

/* Is this process the first of its device among those that show hardware? */
static bool is_first_of_device(const struct text_reader *reader, size_t at)
{
    const struct trace_process *own = &reader->names.processes[at];
    for (size_t i = 0; i < at; i++)
        if (reader->names.processes[i].layer == LAYER_HARDWARE &&
            reader->names.processes[i].device == own->device)
            return false;
    return own->layer == LAYER_HARDWARE;
}

static enum rs_status emit_steps(struct text_reader *reader, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (reader->steps.count)
        qsort(reader->steps.items, reader->steps.count, sizeof *reader->steps.items, by_host_start);
    if (reader->nodes.count)
        qsort(reader->nodes.items, reader->nodes.count, sizeof *reader->nodes.items, by_connection);
    for (size_t i = 0; i < reader->rows.count; i++)
        bound_step(reader, reader->rows.items[i].connection, reader->rows.items[i].start,
                   reader->rows.items[i].end);
    for (size_t i = 0; i < reader->ops.count; i++)
        bound_step(reader, reader->ops.items[i].op.connection, reader->ops.items[i].op.start,
                   reader->ops.items[i].op.end);
    for (size_t i = 0; i < reader->steps.count && status == RS_OK; i++)
        status = emit_step(reader, &reader->steps.items[i], err);
    for (size_t p = 0; p < reader->names.process_count; p++) {
        const int64_t device = reader->names.processes[p].device;
        for (size_t i = 0; i < reader->steps.count && status == RS_OK; i++)
            if (is_first_of_device(reader, p))
                status =
                    emit_window(reader, &reader->steps.items[i], device >= 0 ? device : 0, err);
    }
    return status;
}

/* ---- operations ---- */

/* The digits behind "__" in hcom_allReduce__586_0_1: the last three of the group's hash. */
static const char *hash_by_name(const struct ascend *a, const char *name)
{
    char tail[8];
    const char *digits = strstr(name, "__");
    const size_t length = digits ? strspn(digits + 2, "0123456789") : 0;
    if (length < 3 || length >= sizeof tail)
        return NULL;
    memcpy(tail, digits + 2, length);
    tail[length] = '\0';
    return ascend_group_by_tail(a, tail);
}

static enum rs_status find_group(struct text_reader *reader, struct hccl_op *op)
{
    struct json_op *reported = json_ops_find(&reader->json, op->op.name, op->op.start);
    const char *hash = reported ? reported->hash : hash_by_name(&reader->a, op->op.name_text);
    if (reported)
        reported->is_used = true;
    return hash ? ascend_group_find(&reader->a, hash, -1, &op->op.group) : RS_OK;
}

static int by_group_thread(const void *a_, const void *b_)
{
    const struct small_task *a = a_, *b = b_;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    if (a->tid != b->tid)
        return a->tid < b->tid ? -1 : 1;
    return (a->task.start > b->task.start) - (a->task.start < b->task.start);
}

static int by_group_op(const void *a_, const void *b_)
{
    const struct hccl_op *a = a_, *b = b_;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    if (a->tid != b->tid)
        return a->tid < b->tid ? -1 : 1;
    if (a->op.start != b->op.start)
        return a->op.start < b->op.start ? -1 : 1;
    return (a->op.id > b->op.id) - (a->op.id < b->op.id);
}

/* Is the task of a group, or time, before the operation's? */
static bool is_before(const struct small_task *task, const struct hccl_op *op)
{
    if (task->pid != op->pid)
        return task->pid < op->pid;
    if (task->tid != op->tid)
        return task->tid < op->tid;
    return task->task.start < op->op.start;
}

/* Operations of one group follow each other, so a task belongs to the one in whose time it starts. Both are sorted:
 * `*at` goes through the tasks once. */
static enum rs_status emit_hops(struct text_reader *reader, struct hccl_op *op, size_t *at,
                                struct rs_err *err)
{
    LIST(struct ascend_task) run = {0};
    enum rs_status status = RS_OK;
    while (*at < reader->tasks.count && is_before(&reader->tasks.items[*at], op))
        (*at)++;
    for (; *at < reader->tasks.count && status == RS_OK; (*at)++) {
        const struct small_task *task = &reader->tasks.items[*at];
        if (task->pid != op->pid || task->tid != op->tid || task->task.start > op->op.end)
            break;
        struct ascend_task made = task->task;
        made.link = task->link;
        PUSH(&run, status, made);
    }
    status = no_memory(reader, status, err);
    if (status == RS_OK && run.count)
        status = ascend_emit_hops(&reader->a, &op->op, run.items, run.count, err);
    rs_mem_free(run.items);
    return status;
}

static enum rs_status emit_ops(struct text_reader *reader, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    size_t at = 0;
    if (reader->tasks.count)
        qsort(reader->tasks.items, reader->tasks.count, sizeof *reader->tasks.items,
              by_group_thread);
    if (reader->ops.count)
        qsort(reader->ops.items, reader->ops.count, sizeof *reader->ops.items, by_group_op);
    for (size_t i = 0; i < reader->ops.count && status == RS_OK; i++) {
        struct hccl_op *op = &reader->ops.items[i];
        op->op.name_text = rs_strtab_text(&reader->a.stream->strings, op->op.name);
        op->op.dtype = *op->dtype ? op->dtype : NULL;
        status = no_memory(reader, find_group(reader, op), err);
        if (status == RS_OK)
            status = reader->has_trace ? emit_hops(reader, op, &at, err)
                                       : ascend_text_link_hops(reader, op, err);
        if (status == RS_OK)
            status = ascend_emit_op(&reader->a, &op->op, err);
    }
    return status;
}

/* ---- the directory ---- */

static enum rs_status emit_span(struct text_reader *reader, struct rs_err *err)
{
    struct ascend_row row = {.kind = RS_KIND_TRACE_SPAN,
                             .category = RS_STR_NONE,
                             .start = reader->first,
                             .end = reader->last,
                             .correlation = -1,
                             .external_id = -1,
                             .bytes = -1};
    if (reader->last < reader->first)
        return RS_OK;
    size_t at;
    enum rs_status status = ascend_text(&reader->a, "Recording", &row.name);
    if (status == RS_OK)
        status = ascend_host_lane(&reader->a, 0, 0, &row.lane);
    return status == RS_OK ? ascend_emit(&reader->a, &row, &at, err)
                           : no_memory(reader, status, err);
}

/* The worker's name of HOST_PID_STAMP_ascend_pt is the host's name, when nobody gave another. */
static enum rs_status report_host(struct text_reader *reader)
{
    const struct rs_ascend_rank *rank = reader->a.rank;
    const char *slash = strrchr(rank->dir, '/');
    const char *name = slash ? slash + 1 : rank->dir;
    size_t length = strlen(name);
    if (rank->stamp < 0)
        return RS_OK;
    for (unsigned words = 4; length > 0; length--) /* _PID_STAMP_ascend_pt */
        if (name[length - 1] == '_' && --words == 0)
            break;
    return length > 1
               ? ascend_text_bytes(&reader->a, name, length - 1, &reader->a.stream->info.host)
               : RS_OK;
}

/* Damage is the file's own affair: what is whole stays. */
static enum rs_status settle(struct text_reader *reader, enum rs_status status,
                             const struct rs_err *why, struct rs_err *err)
{
    if (status == RS_OK || status == RS_NOTFOUND)
        return RS_OK;
    if (status == RS_PARTIAL || status == RS_FORMAT)
        return no_memory(reader, ascend_partial(&reader->a, why->text), err);
    return rs_err_set(err, status, "%s", why->text);
}

static enum rs_status read_json(struct text_reader *reader, struct rs_err *err)
{
    struct rs_err why = {0};
    char *path = rs_file_join(reader->a.rank->output, "communication.json");
    if (!path)
        return no_memory(reader, RS_NOMEM, err);
    const enum rs_status status = json_ops_read(&reader->json, &reader->a, path, &why);
    rs_mem_free(path);
    return settle(reader, status, &why, err);
}

static enum rs_status read_trace(struct text_reader *reader, const char *path, struct rs_err *err)
{
    struct rs_err why = {0};
    enum rs_status status = trace_names_read(&reader->names, path, &why);
    if (status == RS_OK || status == RS_PARTIAL)
        status = kineto_rows(path, reader->a.stream, take_row, reader, &why);
    return settle(reader, status, &why, err);
}

static enum rs_status read_all(struct text_reader *reader, const char *trace, struct rs_err *err)
{
    struct stat about;
    const bool is_there = stat(trace, &about) == 0, has_trace = is_there && S_ISREG(about.st_mode);
    enum rs_status status = no_memory(reader, report_host(reader), err);
    if (is_there && !has_trace)
        ascend_flaw(&reader->a, "trace_view.json is not a regular file");
    if (status == RS_OK)
        status = read_json(reader, err);
    reader->has_trace = reader->a.is_counted = has_trace;
    if (status == RS_OK && has_trace)
        status = read_trace(reader, trace, err);
    else if (status == RS_OK && !reader->json.count)
        status = no_memory(reader, json_ops_of_vendor(&reader->json, &reader->a), err);
    if (status == RS_OK && !has_trace)
        status = no_memory(reader, json_ops_moved(&reader->json, &reader->a), err);
    if (status == RS_OK && !has_trace)
        status = ascend_text_ops_of_json(reader, err);
    if (status == RS_OK && !has_trace)
        status = ascend_text_links(reader, err);
    if (status == RS_OK && !has_trace)
        status = ascend_text_count_types(reader, err);
    if (status == RS_OK)
        status = ascend_text_kernels(reader, err);
    if (status == RS_OK)
        status = ascend_text_rest(reader, err);
    if (status == RS_OK && !has_trace)
        status = ascend_text_settle_steps(reader, err);
    if (status == RS_OK)
        status = emit_steps(reader, err);
    if (status == RS_OK)
        status = emit_ops(reader, err);
    if (status == RS_OK)
        status = emit_span(reader, err);
    return status == RS_OK ? ascend_emit_tables(&reader->a, reader->first, reader->last, err)
                           : status;
}

static void reader_fini(struct text_reader *reader)
{
    trace_names_fini(&reader->names);
    json_ops_fini(&reader->json);
    rs_mem_free(reader->steps.items);
    rs_mem_free(reader->rows.items);
    rs_mem_free(reader->nodes.items);
    rs_mem_free(reader->ops.items);
    rs_mem_free(reader->tasks.items);
    rs_mem_free(reader->listed.items);
    rs_mem_free(reader->links.items);
    rs_mem_free(reader->types.items);
    ascend_close(&reader->a);
}

enum rs_status rs_ascend_text_read(const struct rs_ascend_rank *rank, unsigned flags,
                                   struct rs_source_stream *stream, struct rs_sink sink,
                                   struct rs_err *err)
{
    struct text_reader reader = {.first = RS_NS_MAX, .last = RS_NS_MIN};
    if (!rank->output)
        return rs_err_set(err, RS_NOTFOUND, "%s holds no parsed result", rank->dir);
    char *trace = rs_file_join(rank->output, "trace_view.json");
    enum rs_status status = ascend_open(&reader.a, rank, flags, stream, sink, err);
    if (status == RS_OK && !trace)
        status = no_memory(&reader, RS_NOMEM, err);
    if (status == RS_OK)
        status = read_all(&reader, trace, err);
    if (status == RS_OK && !reader.has_trace)
        status = ascend_text_report_no_trace(&reader, err);
    if (status == RS_OK)
        status = ascend_finish(&reader.a, reader.has_trace ? "text" : "text, no trace", err);
    rs_mem_free(trace);
    reader_fini(&reader);
    return status;
}
