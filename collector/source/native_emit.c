/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's records -> batches of events.
 *
 * Ids of the process become ids of the stream's string table the first time they are seen; ticks
 * become nanoseconds by the host's clock map. The time base is 0: times are Unix ns. A record whose
 * name or group the process never registered keeps its times and loses its name.
 *
 * When the process has died, what it had begun becomes unfinished rows that end with the last thing it did.
 */
#include "collector/source/native_priv.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_ROWS = 4096, SETTLE_NS = 10 * RS_NS_PER_MS };

static const rs_dur ring_wait_ns = 2 * (rs_dur)RS_NS_PER_S;

static const char *const type_texts[] = {
    "",       "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce",
    "gather", "scatter",    "barrier",    "send",           "recv",       "send_recv",
};
enum {
    TYPE_BROADCAST = 5,
    TYPE_REDUCE = 6,
    TYPE_GATHER = 7,
    TYPE_SCATTER = 8,
    TYPE_SEND = 10,
    TYPE_RECV = 11,
    TYPE_SEND_RECV = 12,
    TYPE_COUNT = 13,
};
static const char *const transport_texts[] = {"",     "TCP", "UNIX", "SHM", "NVLINK",
                                              "PCIE", "IB",  "ROCE", "HCCS"};
enum { TRANSPORT_COUNT = 9 };

/* What travels through rs_ring_drain() to emit_record(). */
struct emit {
    struct native_process *process;
    struct native_ring *ring;
    struct rs_sink sink;
    bool has_failed; /* here or in the sink, not in the ring */
};

static enum rs_status no_memory(struct rs_err *err)
{
    return rs_err_set(err, RS_NOMEM, "native capture: out of memory");
}

static enum rs_status add_text(struct rs_source_stream *stream, const char *text, size_t length,
                               rs_str *id_p, struct rs_err *err)
{
    enum rs_status status = rs_strtab_add(&stream->strings, text, length, id_p);
    if (status == RS_OK)
        return RS_OK;
    return rs_err_set(err, status, "native capture: names take too much memory");
}

/* ---- names and groups ---- */

static enum rs_status name_of(struct native_process *process, uint32_t id, rs_str *name_p,
                              struct rs_err *err)
{
    struct native_capture *capture = &process->capture;
    const struct rs_lib_name *name = rs_control_name(process->control, id);
    if (name == NULL) {
        *name_p = RS_STR_EMPTY;
        return RS_OK;
    }
    if (id >= capture->name_count) {
        if (rs_mem_grow((void **)&capture->names, &capture->name_capacity, (size_t)id + 1,
                        sizeof *capture->names) != RS_OK)
            return no_memory(err);
        while (capture->name_count <= id)
            capture->names[capture->name_count++] = RS_STR_NONE;
    }
    enum rs_status status = RS_OK;
    if (capture->names[id] == RS_STR_NONE)
        status = add_text(capture->stream, name->text, name->length, &capture->names[id], err);
    *name_p = capture->names[id];
    return status;
}

/* "[0, 1, 2]", as traces write it. */
static enum rs_status add_ranks(struct rs_source_stream *stream, const struct rs_lib_name *group,
                                rs_str *id_p, struct rs_err *err)
{
    struct rs_buf text = {0};
    rs_buf_string(&text, "[");
    for (size_t i = 0; i < group->rank_count; i++)
        rs_buf_printf(&text, "%s%d", i > 0 ? ", " : "", group->ranks[i]);
    rs_buf_string(&text, "]");
    enum rs_status status = text.failed
                                ? no_memory(err)
                                : add_text(stream, (const char *)text.data, text.length, id_p, err);
    rs_buf_fini(&text);
    return status;
}

/* NULL in *group_p: no such group. */
static enum rs_status group_of(struct native_process *process, uint32_t id,
                               const struct native_group **group_p, struct rs_err *err)
{
    struct native_capture *capture = &process->capture;
    const struct rs_lib_name *group = rs_control_group(process->control, id);
    *group_p = NULL;
    if (group == NULL)
        return RS_OK;
    if (id >= capture->group_count) {
        if (rs_mem_grow((void **)&capture->groups, &capture->group_capacity, (size_t)id + 1,
                        sizeof *capture->groups) != RS_OK)
            return no_memory(err);
        while (capture->group_count <= id)
            capture->groups[capture->group_count++] = (struct native_group){.is_known = false};
    }
    struct native_group *known = &capture->groups[id];
    if (!known->is_known) {
        enum rs_status status =
            add_text(capture->stream, group->text, group->length, &known->name, err);
        if (status == RS_OK)
            status = add_ranks(capture->stream, group, &known->ranks, err);
        if (status != RS_OK)
            return status;
        known->size = (int64_t)group->rank_count;
        known->is_known = true;
    }
    *group_p = known;
    return RS_OK;
}

/* ---- rows ---- */

static enum rs_status hand_over(struct native_capture *capture, struct rs_sink sink,
                                struct rs_err *err)
{
    if (capture->batch.count == 0)
        return RS_OK;
    enum rs_status status = sink.batch(sink.self, &capture->batch, err);
    rs_batch_reset(&capture->batch);
    return status < 0 ? status : RS_OK;
}

static enum rs_status lane_of(struct native_process *process, struct native_ring *ring,
                              uint32_t *lane_p, struct rs_err *err)
{
    if (ring->lane == UINT32_MAX) {
        struct rs_source_stream *stream = process->capture.stream;
        const char *text = rs_ring_thread_name(ring->reader);
        struct rs_lane lane = {.kind = RS_LANE_HOST,
                               .device = -1,
                               .process = process->shown.pid,
                               .thread = rs_ring_thread(ring->reader),
                               .process_text = RS_STR_NONE,
                               .thread_text = RS_STR_NONE};
        enum rs_status status = RS_OK;
        if (text[0] != '\0')
            status = add_text(stream, text, strlen(text), &lane.thread_text, err);
        if (status != RS_OK)
            return status;
        if (rs_lanes_find(&stream->lanes, &lane, &ring->lane) != RS_OK)
            return no_memory(err);
    }
    *lane_p = ring->lane;
    return RS_OK;
}

static bool kind_of(uint8_t record_kind, enum rs_kind *kind_p)
{
    static const enum rs_kind kinds[] = {
        [RS_RECORD_STEP] = RS_KIND_STEP,       [RS_RECORD_OP] = RS_KIND_OP,
        [RS_RECORD_RANGE] = RS_KIND_RANGE,     [RS_RECORD_COMM] = RS_KIND_COMM,
        [RS_RECORD_TASK] = RS_KIND_COMM_TASK,  [RS_RECORD_MARK] = RS_KIND_MARK,
        [RS_RECORD_COUNTER] = RS_KIND_COUNTER, [RS_RECORD_LOSS] = RS_KIND_LOSS,
        [RS_RECORD_MEMORY] = RS_KIND_MEMORY,
    };
    if (record_kind < RS_RECORD_STEP || record_kind > RS_RECORD_MEMORY)
        return false;
    *kind_p = kinds[record_kind];
    return true;
}

/* Who sends and who receives, or who the root is, in the columns that traces use. */
static void set_ends(struct rs_comm *comm, const struct rs_ring_record *record, int32_t self)
{
    int32_t peer = record->more.peer;
    uint8_t type = record->more.type;
    bool is_task = record->slot.kind == RS_RECORD_TASK;
    bool is_send = is_task ? (record->slot.flags & RS_RECORD_IS_SEND) != 0
                           : type == TYPE_SEND || type == TYPE_SEND_RECV;
    bool is_pair = is_task || is_send || type == TYPE_RECV;
    if (peer < 0)
        return;
    if (is_pair || type == TYPE_BROADCAST || type == TYPE_SCATTER) {
        comm->src = is_send ? self : peer;
        comm->has |= RS_COMM_HAS_SRC;
    }
    if (is_pair || type == TYPE_REDUCE || type == TYPE_GATHER) {
        comm->dst = is_pair && !is_send ? self : peer;
        comm->has |= RS_COMM_HAS_DST;
    }
}

static enum rs_status fill_comm(struct native_process *process, size_t row,
                                const struct rs_ring_record *record, struct rs_err *err)
{
    struct native_capture *capture = &process->capture;
    struct rs_comm *comm = NULL;
    const struct native_group *group = NULL;
    if (rs_batch_comm(&capture->batch, row, &comm) != RS_OK)
        return no_memory(err);
    enum rs_status status = group_of(process, record->more.group, &group, err);
    if (status != RS_OK)
        return status;
    const char *type = record->more.type < TYPE_COUNT ? type_texts[record->more.type] : "";
    status = add_text(capture->stream, type, strlen(type), &comm->collective, err);
    if (status == RS_OK && record->more.transport > 0 && record->more.transport < TRANSPORT_COUNT) {
        const char *transport = transport_texts[record->more.transport];
        status = add_text(capture->stream, transport, strlen(transport), &comm->transport, err);
    }
    if (group != NULL) {
        comm->group_name = group->name;
        comm->group_ranks = group->ranks;
        comm->group_size = group->size;
        comm->has |= RS_COMM_HAS_GROUP_SIZE;
    }
    if (record->more.seq <= INT64_MAX) {
        comm->seq = (int64_t)record->more.seq;
        comm->has |= RS_COMM_HAS_SEQ;
    }
    if (record->slot.value <= INT64_MAX) {
        comm->bytes = (int64_t)record->slot.value;
        comm->has |= RS_COMM_HAS_BYTES;
    }
    set_ends(comm, record, process->shown.rank);
    return status;
}

/* Communications of all rings of a process are told apart by one number: tasks name it. */
static int64_t comm_number(const struct native_ring *ring, uint64_t comm)
{
    uint64_t rings = RS_LIB_MAX_RINGS;
    if (comm == 0 || comm > INT64_MAX / rings - 1)
        return -1;
    return (int64_t)(comm * rings + rs_ring_number(ring->reader) % rings);
}

/* As Kineto's allocator rows are. */
static enum rs_status fill_memory(struct native_capture *capture, size_t row,
                                  const struct rs_ring_record *record, struct rs_err *err)
{
    struct rs_batch *batch = &capture->batch;
    char extra[96];
    memcpy(&batch->bytes[row], &record->slot.value, sizeof batch->bytes[row]);
    if (batch->bytes[row] == INT64_MIN) /* "unknown", in this column */
        batch->bytes[row]++;
    batch->flags[row] |= RS_EVENT_NO_END;
    const int length = snprintf(
        extra, sizeof extra, "\"Device Type\": %u, \"Device Id\": %" PRId32 ", \"Addr\": %" PRIu64,
        record->more.type, record->more.peer, record->more.seq);
    if (length < 0 || rs_batch_extra(batch, row, extra, (size_t)length) != RS_OK)
        return no_memory(err);
    return add_text(capture->stream, "[memory]", 8, &batch->name[row], err);
}

static enum rs_status fill_by_kind(struct emit *emit, size_t row,
                                   const struct rs_ring_record *record, struct rs_err *err)
{
    struct native_capture *capture = &emit->process->capture;
    struct rs_batch *batch = &capture->batch;
    switch ((enum rs_record_kind)record->slot.kind) {
    case RS_RECORD_STEP:
        if (record->more.seq <= INT64_MAX)
            batch->correlation[row] = (int64_t)record->more.seq;
        capture->last_step_start = record->slot.start;
        emit->process->shown.steps++;
        return add_text(capture->stream, "step", 4, &batch->name[row], err);
    case RS_RECORD_COMM:
    case RS_RECORD_TASK: {
        batch->correlation[row] = comm_number(emit->ring, record->more.comm);
        enum rs_status status = fill_comm(emit->process, row, record, err);
        if (status == RS_OK && batch->name[row] == RS_STR_EMPTY)
            batch->name[row] = batch->comms[batch->comm[row]].collective;
        return status;
    }
    case RS_RECORD_LOSS:
        batch->bytes[row] =
            record->slot.value > INT64_MAX ? INT64_MAX : (int64_t)record->slot.value;
        return add_text(capture->stream, "ring full", 9, &batch->name[row], err);
    case RS_RECORD_COUNTER:
        memcpy(&batch->bytes[row], &record->slot.value, sizeof batch->bytes[row]);
        return RS_OK;
    case RS_RECORD_MEMORY:
        return fill_memory(capture, row, record, err);
    case RS_RECORD_OP:
    case RS_RECORD_RANGE:
    case RS_RECORD_MARK:
        return RS_OK;
    }
    return RS_OK;
}

static void fill_times(const struct native_process *process, struct native_capture *capture,
                       size_t row, const struct rs_ring_record *record)
{
    struct rs_batch *batch = &capture->batch;
    rs_ns start = rs_clock_map_ns(process->clock, record->slot.start);
    rs_ns end =
        record->is_open ? capture->last_ns : rs_clock_map_ns(process->clock, record->slot.end);
    batch->start[row] = start;
    batch->end[row] = end < start ? start : end;
    if (record->is_open)
        batch->flags[row] |= RS_EVENT_UNFINISHED;
    else if (end > capture->last_ns)
        capture->last_ns = end;
    if ((record->slot.flags & RS_RECORD_HAS_CPU) != 0 && record->slot.value <= INT64_MAX)
        batch->cpu_ns[row] = (int64_t)record->slot.value;
}

/* One record becomes one row. */
static enum rs_status add_row(struct emit *emit, const struct rs_ring_record *record,
                              struct rs_err *err)
{
    struct native_process *process = emit->process;
    struct native_capture *capture = &process->capture;
    enum rs_kind kind = RS_KIND_OTHER;
    if (!record->is_open && record->slot.end < process->progress.first_ticks)
        return RS_OK; /* late, from a recording before this one */
    if (!kind_of(record->slot.kind, &kind))
        return RS_OK;
    enum rs_status status = RS_OK;
    if (capture->batch.count == capture->batch.capacity)
        status = hand_over(capture, emit->sink, err);
    rs_str name = RS_STR_EMPTY;
    uint32_t lane = 0;
    if (status == RS_OK)
        status = name_of(process, record->slot.name, &name, err);
    if (status == RS_OK)
        status = lane_of(process, emit->ring, &lane, err);
    if (status != RS_OK)
        return status;
    size_t row = 0;
    status = rs_batch_row(&capture->batch, &row);
    if (status != RS_OK)
        return rs_err_set(err, status, "native capture: no row in the batch");
    capture->batch.kind[row] = (uint8_t)kind;
    capture->batch.name[row] = name;
    capture->batch.lane[row] = lane;
    fill_times(process, capture, row, record);
    process->shown.events++;
    return fill_by_kind(emit, row, record, err);
}

static enum rs_status emit_record(void *self, const struct rs_ring_record *record,
                                  struct rs_err *err)
{
    struct emit *emit = self;
    enum rs_status status = add_row(emit, record, err);
    emit->has_failed = status < 0;
    return status;
}

/* ---- begin, drain, end ---- */

enum rs_status native_emit_begin(struct native_process *process, const char *capture_id,
                                 struct rs_source_stream *stream, struct rs_err *err)
{
    struct native_capture *capture = &process->capture;
    *capture = (struct native_capture){.stream = stream};
    if (rs_batch_init(&capture->batch, &stream->strings, &stream->lanes, BATCH_ROWS) != RS_OK) {
        *capture = (struct native_capture){.stream = NULL};
        return no_memory(err);
    }
    enum rs_status status =
        add_text(stream, capture_id, strlen(capture_id), &stream->info.trace_id, err);
    if (status != RS_OK) {
        native_emit_end(process);
        return status;
    }
    for (size_t i = 0; i < process->ring_count; i++) {
        struct native_ring *ring = &process->rings[i];
        rs_ring_discard(ring->reader);
        ring->lane = UINT32_MAX;
        ring->lost_before = rs_ring_lost(ring->reader);
        ring->bad_before = rs_ring_bad(ring->reader);
    }
    capture->lost_without_ring_before = process->progress.lost_without_ring;
    process->shown.steps = 0;
    process->shown.events = 0;
    process->shown.lost = 0;
    return RS_OK;
}

void native_emit_end(struct native_process *process)
{
    struct native_capture *capture = &process->capture;
    rs_batch_fini(&capture->batch);
    rs_mem_free(capture->names);
    rs_mem_free(capture->groups);
    *capture = (struct native_capture){.stream = NULL};
}

uint64_t native_lost(const struct native_process *process)
{
    const struct native_capture *capture = &process->capture;
    uint64_t lost = capture->lost_closed + process->progress.lost_without_ring -
                    capture->lost_without_ring_before;
    for (size_t i = 0; i < process->ring_count; i++)
        lost += rs_ring_lost(process->rings[i].reader) - process->rings[i].lost_before;
    return lost > INT64_MAX ? INT64_MAX : lost; /* the job's own figures */
}

static void drop_ring(struct native_process *process, size_t index)
{
    struct native_ring *ring = &process->rings[index];
    process->capture.lost_closed += rs_ring_lost(ring->reader) - ring->lost_before;
    process->capture.bad_closed += rs_ring_bad(ring->reader) - ring->bad_before;
    rs_ring_reader_close(&ring->reader);
    process->rings[index] = process->rings[--process->ring_count];
}

static enum rs_status drain_rings(struct native_process *process, struct rs_sink sink,
                                  struct rs_err *err)
{
    for (size_t i = 0; i < process->ring_count;) {
        struct emit emit = {process, &process->rings[i], sink, false};
        enum rs_status status = rs_ring_drain(process->rings[i].reader, emit_record, &emit, err);
        if (status == RS_FORMAT && !emit.has_failed) {
            process->capture.bad_closed++; /* the rest of this ring cannot be known */
            drop_ring(process, i);
        } else if (status == RS_END && process->shown.life == RS_NATIVE_ALIVE) {
            drop_ring(process, i);
        } else if (status < 0) {
            return status;
        } else {
            i++;
        }
    }
    return hand_over(&process->capture, sink, err);
}

static enum rs_status emit_open_step(struct native_process *process, struct rs_sink sink,
                                     struct rs_err *err)
{
    const struct rs_lib_progress *progress = &process->progress;
    if (progress->step_start_ticks == 0 || process->ring_count == 0 ||
        progress->step_start_ticks == process->capture.last_step_start ||
        progress->step_start_ticks < progress->first_ticks)
        return RS_OK;
    struct emit emit = {process, &process->rings[0], sink, false};
    const struct rs_ring_record record = {
        .slot = {.kind = RS_RECORD_STEP, .slots = 2, .start = progress->step_start_ticks},
        .more = {.peer = -1, .seq = progress->step},
        .is_open = true};
    return emit_record(&emit, &record, err);
}

/* What was begun and never ended. */
static enum rs_status emit_open(struct native_process *process, struct rs_sink sink,
                                struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (process->shown.state == RS_NATIVE_LOST)
        status = emit_open_step(process, sink, err);
    for (size_t i = 0; i < process->ring_count && status >= 0; i++) {
        struct emit emit = {process, &process->rings[i], sink, false};
        status = rs_ring_open_entries(process->rings[i].reader, process->progress.epoch,
                                      emit_record, &emit, err);
    }
    return status < 0 ? status : hand_over(&process->capture, sink, err);
}

static enum rs_status fill_groups(struct native_process *process, struct rs_err *err)
{
    struct rs_source_stream *stream = process->capture.stream;
    struct rs_trace_info *info = &stream->info;
    const struct rs_lib_name *group = NULL;
    for (uint32_t id = 1; (group = rs_control_group(process->control, id)) != NULL; id++) {
        if (rs_mem_grow((void **)&info->groups, &info->group_capacity, info->group_count + 1,
                        sizeof *info->groups) != RS_OK)
            return no_memory(err);
        struct rs_group_info entry = {.description = RS_STR_NONE,
                                      .size = (int64_t)group->rank_count};
        enum rs_status status = add_text(stream, group->text, group->length, &entry.name, err);
        if (status != RS_OK)
            return status;
        entry.ranks = rs_mem_calloc(group->rank_count + 1, sizeof *entry.ranks);
        if (entry.ranks == NULL)
            return no_memory(err);
        memcpy(entry.ranks, group->ranks, group->rank_count * sizeof *entry.ranks);
        entry.rank_count = group->rank_count;
        info->groups[info->group_count++] = entry;
    }
    return RS_OK;
}

static void write_coordinate(struct rs_json_out *json, const char *key, int32_t value)
{
    if (value < 0)
        return;
    rs_json_out_key(json, key);
    rs_json_out_int(json, value);
}

/* What the program said of its run. A value that is no JSON is not the library's doing, and is left out. */
static void write_own(struct rs_json_out *json, const struct rs_control_reader *control)
{
    json_t *all = json_object();
    const struct rs_lib_name *name = NULL;
    for (uint32_t id = 1; all && (name = rs_control_name(control, id)) != NULL; id++) {
        const char *end = memchr(name->text, '\0', name->length);
        if (!(name->flags & RS_LIB_ENTRY_METADATA) || !end)
            continue;
        const size_t key = (size_t)(end - name->text) + 1;
        json_t *value = json_loadb(name->text + key, name->length - key, JSON_DECODE_ANY, NULL);
        if (value)
            (void)json_object_set_new(all, name->text, value); /* the last one counts */
    }
    char *text = all && json_object_size(all) ? json_dumps(all, JSON_COMPACT) : NULL;
    if (text) {
        rs_json_out_key(json, "metadata");
        rs_json_out_number(json, text);
    }
    free(text); /* jansson's */
    json_decref(all);
}

static enum rs_status fill_metadata(struct native_process *process, struct rs_err *err)
{
    const struct rs_native_rank *shown = &process->shown;
    struct rs_buf text = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &text, 0);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "run");
    rs_json_out_string(&json, shown->run);
    rs_json_out_key(&json, "program");
    rs_json_out_string(&json, shown->program);
    rs_json_out_key(&json, "pid");
    rs_json_out_int(&json, shown->pid);
    rs_json_out_key(&json, "start_time");
    rs_json_out_uint(&json, shown->start_time);
    rs_json_out_key(&json, "first_step");
    rs_json_out_uint(&json, process->progress.first_step);
    write_coordinate(&json, "dp", shown->dp);
    write_coordinate(&json, "pp", shown->pp);
    write_coordinate(&json, "tp", shown->tp);
    write_own(&json, process->control);
    rs_json_out_end(&json);
    struct rs_source_stream *stream = process->capture.stream;
    enum rs_status status = text.failed ? no_memory(err)
                                        : add_text(stream, (const char *)text.data, text.length,
                                                   &stream->info.metadata, err);
    rs_buf_fini(&text);
    return status;
}

/* A thread made a ring, and could not send it: the connection was full. It tries again at its next step. */
static bool lacks_ring(const struct native_process *process)
{
    const uint32_t made = process->progress.ring_count;
    return made > process->rings_before && made > process->rings_sent;
}

static enum rs_status fill_drops(struct native_process *process, struct rs_err *err)
{
    struct rs_source_stream *stream = process->capture.stream;
    uint64_t bad = process->capture.bad_closed;
    for (size_t i = 0; i < process->ring_count; i++)
        bad += rs_ring_bad(process->rings[i].reader) - process->rings[i].bad_before;
    int64_t lost = process->shown.lost;
    if (lost > 0 && rs_trace_info_drop(&stream->info, &stream->strings, "ring full", lost) != RS_OK)
        return no_memory(err);
    if (bad > 0 && rs_trace_info_drop(&stream->info, &stream->strings, "record damaged",
                                      bad > INT64_MAX ? INT64_MAX : (int64_t)bad) != RS_OK)
        return no_memory(err);
    const char *reason = "";
    if (process->shown.state == RS_NATIVE_LOST)
        reason = "the process ended while it was recorded";
    else if (process->shown.state == RS_NATIVE_MISSED)
        reason = "the steps asked for had passed";
    else if (lost > 0)
        reason = "events were lost in a full ring";
    else if (bad > 0)
        reason = "records were damaged";
    else if (lacks_ring(process))
        reason = "the events of a thread did not come";
    stream->info.is_partial = reason[0] != '\0';
    if (!stream->info.is_partial)
        return RS_OK;
    return add_text(stream, reason, strlen(reason), &stream->info.partial_reason, err);
}

static enum rs_status fill_info(struct native_process *process, struct rs_err *err)
{
    struct rs_source_stream *stream = process->capture.stream;
    struct rs_trace_info *info = &stream->info;
    static const char generation[] = "librankscope ring 1";
    info->rank = process->shown.rank;
    info->rank_source = RS_RANK_METADATA;
    info->world_size = process->shown.world_size;
    info->has_time_base = true;
    info->base_ns = 0;
    info->events_read = process->shown.events;
    info->rows_read = process->shown.events;
    enum rs_status status =
        add_text(stream, process->shown.host, strlen(process->shown.host), &info->host, err);
    if (status == RS_OK)
        status = add_text(stream, "native", 6, &info->backend, err);
    if (status == RS_OK)
        status = add_text(stream, generation, sizeof generation - 1, &info->generation, err);
    if (status == RS_OK)
        status = fill_metadata(process, err);
    if (status == RS_OK)
        status = fill_groups(process, err);
    return status == RS_OK ? fill_drops(process, err) : status;
}

/* Whether nothing more can come: other threads may be a moment behind the one that stopped the recording. */
static bool is_settled(struct native_process *process)
{
    enum rs_native_state state = process->shown.state;
    if (state == RS_NATIVE_LOST || state == RS_NATIVE_MISSED)
        return true;
    if (state != RS_NATIVE_CAPTURED)
        return false;
    rs_ns now = rs_time_monotonic();
    if (process->capture.captured_ns == 0)
        process->capture.captured_ns = now;
    if (process->shown.life != RS_NATIVE_ALIVE)
        return true;
    const rs_dur since = now - process->capture.captured_ns;
    return since >= SETTLE_NS && (!lacks_ring(process) || since >= ring_wait_ns);
}

enum rs_status native_emit(struct native_process *process, struct rs_sink sink, struct rs_err *err)
{
    enum rs_native_state state = process->shown.state;
    if (state == RS_NATIVE_WAITING || state == RS_NATIVE_ARMED)
        return RS_OK; /* the rings were emptied at arming; where the recording starts is not known */
    if (!process->capture.is_over) {
        bool is_last = is_settled(process);
        enum rs_status status = rs_control_names(process->control, err);
        if (status == RS_NOMEM)
            return status;
        if (state != RS_NATIVE_MISSED)
            status = drain_rings(process, sink, err);
        process->shown.lost = (int64_t)native_lost(process);
        if (status < 0 || !is_last)
            return status < 0 ? status : RS_OK;
        if (state != RS_NATIVE_MISSED)
            status = emit_open(process, sink, err);
        if (status >= 0)
            status = fill_info(process, err);
        if (status < 0)
            return status;
        process->capture.is_over = true;
        /* What did not come is told. Its thread may have ended, and then it never will: the next capture does not wait for it. */
        process->rings_before = process->progress.ring_count;
    }
    return process->capture.stream->info.is_partial && state != RS_NATIVE_MISSED ? RS_PARTIAL
                                                                                 : RS_END;
}
