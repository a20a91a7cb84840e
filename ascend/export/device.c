/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the device did: a row of TASK for each kernel, copy and set; COMPUTE_TASK_INFO says which are computing.
 *
 * On a rank without a device the CPU is the device: its tasks are the pieces of work that the figures are made of
 * (common/reduce), one per stretch of a thread.
 *
 * The window of a step. The database algorithm (docs: STEP_TIME, CANN_API, TASK) takes the calls that lie fully inside
 * the step on the host, and the tasks of their connections. Where that finds less than what our figures say the step
 * launched (a call across the step's end, a launch that was not recorded), two tasks of no length, named as ours, say the
 * rest, so that who recomputes the figures gets them.
 *
 *     step on the host   [------------------]
 *     its tasks               [==]  [===]
 *     window             .....|<----------------->|       |: a task of no length, where it is needed
 */
#include "ascend/export/export_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_OTHER = 65535 };

/* ---- rows ---- */

static enum rs_status note_device(struct rs_export_ascend *e, int32_t device, struct rs_err *err)
{
    for (size_t i = e->devices.count; i-- > 0;)
        if (e->devices.items[i] == device)
            return RS_OK;
    const enum rs_status status =
        no_room(rs_mem_grow((void **)&e->devices.items, &e->devices.capacity, e->devices.count + 1,
                            sizeof *e->devices.items),
                err);
    if (status == RS_OK)
        e->devices.items[e->devices.count++] = device;
    return status;
}

enum rs_status put_task(struct rs_export_ascend *e, const struct task *task, int64_t *id_p,
                        struct rs_err *err)
{
    int64_t type;
    enum rs_status status = text_id(e, SPACE_DEVICE, task->type, &type, err);
    if (status == RS_OK)
        status = note_device(e, device_number(task->device), err);
    if (status != RS_OK)
        return status;
    *id_p = e->next_task++;
    struct db_row row = db_row_begin(&e->rows, T_TASK);
    db_row_int(&row, epoch_ns(e, task->start), true);
    db_row_int(&row, epoch_ns(e, task->end), true);
    db_row_int(&row, device_number(task->device), true);
    db_row_int(&row, task->connection >= 0 ? task->connection : RS_EXPORT_NO_CONNECTION, true);
    db_row_int(&row, *id_p, true);
    db_row_int(&row, e->main_process, e->main_process >= 0);
    db_row_int(&row, type, true);
    db_row_int(&row, NO_STRING, true);
    db_row_int(&row, task->stream, true);
    db_row_int(&row, *id_p, true);
    db_row_int(&row, NO_STRING, true);
    e->result.tasks++;
    return db_row_end(&e->rows, &row, err);
}

/* Ids of STRING_IDS; -1 unknown. */
struct compute {
    int64_t task, name, core, type, dtypes, shapes, grid, block;
    int64_t blocks, mixed_blocks; /* counts */
    int64_t more[7];              /* compute_texts[] */
};

/* What only an Ascend profiler says of its operators, in the order of the columns. */
static const struct {
    const char *key;
    enum { IN_FORMATS, OUT_FORMATS, OUT_DTYPES, OUT_SHAPES, ATTRIBUTES, STATE, HF32 } at;
} compute_texts[] = {{"inputFormats", IN_FORMATS},    {"outputFormats", OUT_FORMATS},
                     {"outputDataTypes", OUT_DTYPES}, {"outputShapes", OUT_SHAPES},
                     {"attrInfo", ATTRIBUTES},        {"opState", STATE},
                     {"hf32Eligible", HF32}};

static enum rs_status put_compute(struct rs_export_ascend *e, const struct compute *own,
                                  struct rs_err *err)
{
    int64_t none;
    const enum rs_status status = text_id(e, SPACE_DEVICE, "N/A", &none, err);
    if (status != RS_OK)
        return status;
    struct db_row row = db_row_begin(&e->rows, T_COMPUTE);
    db_row_int(&row, own->name, true);
    db_row_int(&row, own->task, true);
    db_row_int(&row, own->blocks, own->blocks >= 0);
    db_row_int(&row, own->mixed_blocks, own->mixed_blocks >= 0);
    db_row_int(&row, own->core, true);
    db_row_int(&row, own->type, true);
    db_row_int(&row, own->more[IN_FORMATS] >= 0 ? own->more[IN_FORMATS] : none, true);
    db_row_int(&row, own->dtypes >= 0 ? own->dtypes : none, true);
    db_row_int(&row, own->shapes >= 0 ? own->shapes : none, true);
    for (int i = OUT_FORMATS; i <= HF32; i++)
        db_row_int(&row, own->more[i] >= 0 ? own->more[i] : none, true);
    db_row_int(&row, own->grid, own->grid >= 0);
    db_row_int(&row, own->block, own->block >= 0);
    return db_row_end(&e->rows, &row, err);
}

static enum rs_status string_of_extra(struct rs_export_ascend *e, const struct rs_batch *batch,
                                      size_t at, const char *key, int64_t *id_p, struct rs_err *err)
{
    const char *text;
    size_t length;
    *id_p = -1;
    if (!extra_find(batch, at, key, &text, &length))
        return RS_OK;
    if (length >= 2 && (*text == '"' || *text == '[')) {
        text++;
        length -= 2;
    }
    return string_id(e, SPACE_DEVICE, text, length, id_p, err);
}

/* "at::native::add" of "void at::native::add<float>(...)". */
static enum rs_status op_type_of(struct rs_export_ascend *e, const char *name, size_t length,
                                 int64_t *id_p, struct rs_err *err)
{
    if (length > 5 && memcmp(name, "void ", 5) == 0) {
        name += 5;
        length -= 5;
    }
    size_t end = 0;
    while (end < length && name[end] != '<' && name[end] != '(')
        end++;
    while (end && name[end - 1] == ' ')
        end--;
    return string_id(e, SPACE_DEVICE, name, end ? end : length, id_p, err);
}

/* The core that ran it, how many of them, formats, outputs: of an Ascend rank as recorded, else not known. */
static enum rs_status vendors_of_extra(struct rs_export_ascend *e, const struct rs_batch *batch,
                                       size_t at, struct compute *own, struct rs_err *err)
{
    struct rs_buf text = {0};
    int64_t core = -1;
    enum rs_status status = RS_OK;
    (void)extra_int(batch, at, "blockNum", &own->blocks);
    (void)extra_int(batch, at, "mixBlockNum", &own->mixed_blocks);
    for (size_t i = 0; i < sizeof compute_texts / sizeof compute_texts[0] && status == RS_OK; i++) {
        own->more[compute_texts[i].at] = -1;
        if (extra_text(batch, at, compute_texts[i].key, &text))
            status = string_id(e, SPACE_DEVICE, (const char *)text.data, text.length,
                               &own->more[compute_texts[i].at], err);
    }
    if (status == RS_OK && extra_text(batch, at, "taskType", &text))
        status = string_id(e, SPACE_DEVICE, (const char *)text.data, text.length, &core, err);
    own->core = core >= 0 ? core : own->core;
    if (status == RS_OK && text.failed)
        status = no_room(RS_NOMEM, err);
    rs_buf_fini(&text);
    return status;
}

static enum rs_status compute_row(struct rs_export_ascend *e, const struct rs_batch *batch,
                                  size_t at, int64_t task, struct rs_err *err)
{
    struct compute own = {
        .task = task, .dtypes = -1, .shapes = -1, .blocks = -1, .mixed_blocks = -1};
    const bool is_vendors = (batch->flags[at] & RS_EVENT_COMPUTING) != 0;
    const rs_str name = batch->name[at];
    enum rs_status status = stream_id(e, SPACE_DEVICE, name, &own.name, err);
    if (status == RS_OK)
        status = string_of_extra(e, batch, at, "opType", &own.type, err);
    if (status == RS_OK && own.type < 0)
        status =
            op_type_of(e, text_of(e, name), rs_strtab_length(e->strings, name), &own.type, err);
    if (status == RS_OK)
        status = text_id(e, SPACE_DEVICE, is_vendors ? "N/A" : "GPU", &own.core, err);
    if (status == RS_OK)
        status = vendors_of_extra(e, batch, at, &own, err);
    if (status == RS_OK)
        status = string_of_extra(e, batch, at, "grid", &own.grid, err);
    if (status == RS_OK)
        status = string_of_extra(e, batch, at, "block", &own.block, err);
    if (status == RS_OK && batch->input_dims[at] != RS_STR_NONE)
        status = stream_id(e, SPACE_DEVICE, batch->input_dims[at], &own.shapes, err);
    if (status == RS_OK && batch->input_types[at] != RS_STR_NONE)
        status = stream_id(e, SPACE_DEVICE, batch->input_types[at], &own.dtypes, err);
    return status == RS_OK ? put_compute(e, &own, err) : status;
}

static int64_t copy_kind(const char *name)
{
    static const struct {
        const char *word;
        int64_t kind;
    } words[] = {{"HtoD", 1},         {"DtoH", 2},           {"DtoD", 3},
                 {"PtoP", 3},         {"HtoH", 0},           {"HostToDevice", 1},
                 {"DeviceToHost", 2}, {"DeviceToDevice", 3}, {"HostToHost", 0}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(name, words[i].word))
            return words[i].kind;
    return COPY_OTHER;
}

static enum rs_status copy_row(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                               int64_t task, struct rs_err *err)
{
    if (batch->bytes[at] < 0) /* a row would say nothing but a size that is not known */
        return RS_OK;
    struct db_row row = db_row_begin(&e->rows, T_MEMCPY);
    db_row_int(&row, task, true);
    db_row_int(&row, batch->bytes[at], true);
    db_row_int(&row, copy_kind(text_of(e, batch->name[at])), true);
    return db_row_end(&e->rows, &row, err);
}

static enum rs_status note_piece(struct rs_export_ascend *e, const struct comm_piece *piece,
                                 struct rs_err *err)
{
    const enum rs_status status =
        no_room(rs_mem_grow((void **)&e->pieces.items, &e->pieces.capacity, e->pieces.count + 1,
                            sizeof *e->pieces.items),
                err);
    if (status == RS_OK)
        e->pieces.items[e->pieces.count++] = *piece;
    return status;
}

static enum rs_status note_comm(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                                struct rs_err *err)
{
    const struct rs_lane *lane = &e->lanes->items[batch->lane[at]];
    struct comm_piece piece = {.start = batch->start[at],
                               .end = batch->end[at],
                               .device = lane->device,
                               .stream = lane->thread,
                               .correlation = batch->correlation[at],
                               .dtype = RS_STR_NONE,
                               .in_nelems = -1,
                               .out_nelems = -1};
    if (batch->comm[at] != RS_NO_COMM) {
        const struct rs_comm *comm = &batch->comms[batch->comm[at]];
        piece.dtype = comm->dtype;
        piece.in_nelems = comm->has & RS_COMM_HAS_IN_NELEMS ? comm->in_nelems : -1;
        piece.out_nelems = comm->has & RS_COMM_HAS_OUT_NELEMS ? comm->out_nelems : -1;
    }
    return note_piece(e, &piece, err);
}

/* The same answer as common/reduce: what the source says, else the name. */
static enum rs_work_class class_of(struct rs_export_ascend *e, const struct rs_batch *batch,
                                   size_t at)
{
    const rs_str name = batch->name[at];
    if (batch->kind[at] != RS_KIND_KERNEL)
        return RS_WORK_MEMORY;
    if (batch->flags[at] & RS_EVENT_COMPUTING)
        return RS_WORK_COMPUTING;
    if (batch->flags[at] & RS_EVENT_COMMUNICATION)
        return RS_WORK_COMMUNICATION;
    if (e->classes[name] == RS_WORK_NONE)
        e->classes[name] =
            (uint8_t)rs_classify_kernel(text_of(e, name), rs_strtab_length(e->strings, name));
    return (enum rs_work_class)e->classes[name];
}

static enum rs_status note_work(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                                int64_t task, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (batch->correlation[at] >= 0) {
        status = no_room(rs_mem_grow((void **)&e->works.items, &e->works.capacity,
                                     e->works.count + 1, sizeof *e->works.items),
                         err);
        if (status == RS_OK)
            e->works.items[e->works.count++] =
                (struct launch){batch->correlation[at], batch->start[at], batch->end[at]};
    }
    if (status == RS_OK && (batch->flags[at] & RS_EVENT_UNFINISHED)) {
        status = no_room(rs_mem_grow((void **)&e->unfinished.items, &e->unfinished.capacity,
                                     e->unfinished.count + 1, sizeof *e->unfinished.items),
                         err);
        if (status == RS_OK)
            e->unfinished.items[e->unfinished.count++] =
                (struct unfinished){task, batch->start[at]};
    }
    return status;
}

enum rs_status device_row(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                          struct rs_err *err)
{
    const struct rs_lane *lane = &e->lanes->items[batch->lane[at]];
    const enum rs_work_class work_class = class_of(e, batch, at);
    const bool is_copy = batch->kind[at] == RS_KIND_MEMCPY;
    struct task task = {.start = batch->start[at],
                        .end = batch->end[at],
                        .device = lane->device,
                        .connection = batch->correlation[at],
                        .stream = lane->thread,
                        .type = is_copy                             ? "MEMCPY_ASYNC"
                                : batch->kind[at] == RS_KIND_MEMSET ? "MEMSET"
                                                                    : "KERNEL"};
    int64_t id;
    if (!e->has_device_work) {
        e->has_device_work = true;
        rs_mem_free(e->host_ops.items);
        memset(&e->host_ops, 0, sizeof e->host_ops);
    }
    if (work_class == RS_WORK_COMMUNICATION) {
        const enum rs_status status = note_comm(e, batch, at, err);
        /* HCCL's row is the operation, not a task of it */
        if (status != RS_OK || (batch->flags[at] & RS_EVENT_COMMUNICATION))
            return status == RS_OK ? note_device(e, device_number(lane->device), err) : status;
    }
    enum rs_status status = put_task(e, &task, &id, err);
    if (status == RS_OK)
        status = note_work(e, batch, at, id, err);
    if (status == RS_OK && is_copy)
        status = copy_row(e, batch, at, id, err);
    return status == RS_OK && work_class == RS_WORK_COMPUTING ? compute_row(e, batch, at, id, err)
                                                              : status;
}

/* ---- a CPU as the device ---- */

static int by_lane_start_longest(const void *a_, const void *b_)
{
    const struct host_op *a = a_, *b = b_;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (b->end > a->end) - (b->end < a->end);
}

/* Leaves the outermost operators of each thread. */
static void keep_outermost(struct rs_export_ascend *e)
{
    struct host_op *ops = e->host_ops.items;
    size_t kept = 0;
    if (!e->host_ops.count)
        return;
    qsort(ops, e->host_ops.count, sizeof *ops, by_lane_start_longest);
    for (size_t i = 1; i < e->host_ops.count; i++)
        if (ops[i].lane != ops[kept].lane || ops[i].end > ops[kept].end)
            ops[++kept] = ops[i];
    e->host_ops.count = kept + 1;
}

/* The operator that holds a piece alone; NULL: several, or none. */
static const char *name_of_piece(const struct rs_export_ascend *e, const struct rs_work *work)
{
    size_t low = 0, high = e->host_ops.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct host_op *op = &e->host_ops.items[middle];
        if (op->lane < work->lane || (op->lane == work->lane && op->start <= work->start))
            low = middle + 1;
        else
            high = middle;
    }
    const struct host_op *op = low ? &e->host_ops.items[low - 1] : NULL;
    return op && op->lane == work->lane && op->end >= work->end ? text_of(e, op->name) : NULL;
}

static enum rs_status put_piece(void *self, const struct rs_work *work, struct rs_err *err)
{
    struct rs_export_ascend *e = self;
    const struct rs_lane *lane = &e->lanes->items[work->lane];
    const struct task task = {.start = work->start,
                              .end = work->end,
                              .device = -1,
                              .connection = -1,
                              .stream = lane->thread >= 0 ? lane->thread : (int64_t)work->lane,
                              .type = "CPU"};
    int64_t id;
    if (work->device >= 0)
        return RS_OK;
    enum rs_status status = put_task(e, &task, &id, err);
    if (status != RS_OK)
        return status;
    if (work->work_class == RS_WORK_COMMUNICATION) {
        const struct comm_piece piece = {.start = work->start,
                                         .end = work->end,
                                         .device = -1,
                                         .stream = lane->thread,
                                         .correlation = -1,
                                         .dtype = RS_STR_NONE,
                                         .in_nelems = -1,
                                         .out_nelems = -1};
        return note_piece(e, &piece, err);
    }
    struct compute own = {.task = id, .dtypes = -1, .shapes = -1, .grid = -1, .block = -1};
    const char *name = name_of_piece(e, work);
    status = text_id(e, SPACE_DEVICE, name ? name : "operators", &own.name, err);
    own.type = own.name;
    if (status == RS_OK)
        status = text_id(e, SPACE_DEVICE, "CPU", &own.core, err);
    return status == RS_OK ? put_compute(e, &own, err) : status;
}

enum rs_status device_host_work(struct rs_export_ascend *e, struct rs_err *err)
{
    if (e->has_device_work)
        return RS_OK;
    keep_outermost(e);
    return rs_reduce_work(e->reduce, put_piece, e, err);
}

/* ---- windows of steps ---- */

static enum rs_status take_window(void *self, const struct rs_work_window *window,
                                  struct rs_err *err)
{
    struct rs_export_ascend *e = self;
    struct step_bound *last = e->bounds.count ? &e->bounds.items[e->bounds.count - 1] : NULL;
    if (window->start == RS_NS_MIN || window->step < 0)
        return RS_OK; /* no steps */
    if (last && last->step == window->step) {
        if (last->start != window->start || last->end != window->end)
            e->result.windows_differ++;
        last->start = window->start < last->start ? window->start : last->start;
        last->end = window->end > last->end ? window->end : last->end;
        return RS_OK;
    }
    const enum rs_status status =
        no_room(rs_mem_grow((void **)&e->bounds.items, &e->bounds.capacity, e->bounds.count + 1,
                            sizeof *e->bounds.items),
                err);
    if (status == RS_OK)
        e->bounds.items[e->bounds.count++] = (struct step_bound){.step = window->step,
                                                                 .host_start = window->host_start,
                                                                 .host_end = window->host_end,
                                                                 .start = window->start,
                                                                 .end = window->end};
    return status;
}

static int by_host_start(const void *a_, const void *b_)
{
    const struct step_bound *a = a_, *b = b_;
    if (a->host_start != b->host_start)
        return a->host_start < b->host_start ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

static int by_correlation(const void *a_, const void *b_)
{
    const struct launch *a = a_, *b = b_;
    return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

/* What a reader of the tables will find: the step whose host window holds the call fully. */
static size_t step_of_call(const struct rs_export_ascend *e, const struct launch *call)
{
    size_t low = 0, high = e->bounds.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (e->bounds.items[middle].host_start <= call->start)
            low = middle + 1;
        else
            high = middle;
    }
    return low && call->end <= e->bounds.items[low - 1].host_end ? low - 1 : e->bounds.count;
}

struct found {
    rs_ns start, end;
};

/* The windows that the tables give as they are. */
static void find_windows(const struct rs_export_ascend *e, struct found *found)
{
    for (size_t i = 0; i < e->bounds.count; i++)
        found[i] = (struct found){RS_NS_MAX, RS_NS_MIN};
    for (size_t i = 0; i < e->launches.count; i++) {
        const struct launch *call = &e->launches.items[i];
        const size_t step = step_of_call(e, call);
        size_t low = 0, high = e->works.count;
        if (step == e->bounds.count)
            continue;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            if (e->works.items[middle].correlation < call->correlation)
                low = middle + 1;
            else
                high = middle;
        }
        for (; low < e->works.count && e->works.items[low].correlation == call->correlation;
             low++) {
            const struct launch *work = &e->works.items[low];
            found[step].start = work->start < found[step].start ? work->start : found[step].start;
            found[step].end = work->end > found[step].end ? work->end : found[step].end;
        }
    }
}

static enum rs_status put_bound(struct rs_export_ascend *e, rs_ns instant, int64_t connection,
                                struct rs_err *err)
{
    int64_t id;
    const struct task task = {.start = instant,
                              .end = instant,
                              .device = e->devices.count ? e->devices.items[0] : 0,
                              .connection = connection,
                              .type = "RANKSCOPE_STEP_WINDOW"};
    return put_task(e, &task, &id, err);
}

static enum rs_status bound_step(struct rs_export_ascend *e, const struct step_bound *bound,
                                 const struct found *found, struct rs_err *err)
{
    const rs_ns start = found->start == RS_NS_MAX ? bound->host_start : found->start;
    const rs_ns end = found->end > bound->host_end ? found->end : bound->host_end;
    if (start == bound->start && end == bound->end)
        return RS_OK;
    const int64_t connection = e->next_connection++;
    e->result.windows_bounded++;
    enum rs_status status = host_bound_api(e, bound->host_start, connection, err);
    if (status == RS_OK)
        status = put_bound(e, bound->start, connection, err);
    return status == RS_OK && end != bound->end ? put_bound(e, bound->end, connection, err)
                                                : status;
}

static enum rs_status bound_windows(struct rs_export_ascend *e, struct rs_err *err)
{
    struct found *found = rs_mem_calloc(e->bounds.count + 1, sizeof *found);
    if (!found)
        return no_room(RS_NOMEM, err);
    if (e->works.count)
        qsort(e->works.items, e->works.count, sizeof *e->works.items, by_correlation);
    if (e->bounds.count)
        qsort(e->bounds.items, e->bounds.count, sizeof *e->bounds.items, by_host_start);
    find_windows(e, found);
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < e->bounds.count && status == RS_OK; i++)
        status = bound_step(e, &e->bounds.items[i], &found[i], err);
    rs_mem_free(found);
    return status;
}

/* An unfinished row ends where the recording does. */
static enum rs_status end_unfinished(struct rs_export_ascend *e, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < e->unfinished.count && status == RS_OK; i++) {
        char sql[192];
        const int64_t start = epoch_ns(e, e->unfinished.items[i].start);
        const int64_t end = e->own.span_end > start ? e->own.span_end : start;
        (void)snprintf(sql, sizeof sql,
                       "UPDATE TASK SET endNs = %" PRId64 " WHERE rowid = %" PRId64
                       " AND endNs > %" PRId64,
                       end, e->unfinished.items[i].task + 1, end); /* tasks count from 0 */
        status = db_run(&e->rows, sql, err);
    }
    return status;
}

enum rs_status device_settle(struct rs_export_ascend *e, struct rs_err *err)
{
    enum rs_status status = end_unfinished(e, err);
    if (status == RS_OK)
        status = rs_reduce_windows(e->reduce, take_window, e, err);
    return status == RS_OK ? bound_windows(e, err) : status;
}
