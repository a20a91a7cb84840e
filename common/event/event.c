/* SPDX-License-Identifier: Apache-2.0 */
#include "common/event/event.h"

#include "common/base/check.h"
#include "common/base/mem.h"

#include <string.h>

const char *rs_kind_text(enum rs_kind kind)
{
    switch (kind) {
#define X(name, code, text, is_device_work, sentence)                                              \
    case RS_KIND_##name:                                                                           \
        return text;
#include "common/event/event_kinds.def"
#undef X
    case RS_KIND_COUNT:
        break;
    }
    return "?";
}

bool rs_kind_is_device_work(enum rs_kind kind)
{
    static const bool is_work[RS_KIND_COUNT] = {
#define X(name, code, text, is_device_work, sentence) [RS_KIND_##name] = (is_device_work) != 0,
#include "common/event/event_kinds.def"
#undef X
    };
    return (size_t)kind < RS_KIND_COUNT && is_work[kind];
}

const char *rs_rank_source_text(enum rs_rank_source source)
{
    switch (source) {
    case RS_RANK_UNKNOWN:
        return "unknown";
    case RS_RANK_MAP:
        return "map";
    case RS_RANK_METADATA:
        return "metadata";
    case RS_RANK_NAME:
        return "name";
    case RS_RANK_ASSUMED:
        return "assumed";
    case RS_RANK_PROCESS:
        return "process";
    }
    return "?";
}

/* Every column once: (member, "none" value). */
#define BATCH_COLUMNS(X)                                                                           \
    X(kind, RS_KIND_OTHER)                                                                         \
    X(flags, 0)                                                                                    \
    X(phase, 0)                                                                                    \
    X(category, RS_STR_NONE)                                                                       \
    X(name, RS_STR_EMPTY)                                                                          \
    X(lane, 0)                                                                                     \
    X(start, 0)                                                                                    \
    X(end, 0)                                                                                      \
    X(correlation, -1)                                                                             \
    X(external_id, -1)                                                                             \
    X(bytes, -1)                                                                                   \
    X(cpu_ns, -1)                                                                                  \
    X(input_dims, RS_STR_NONE)                                                                     \
    X(input_types, RS_STR_NONE)                                                                    \
    X(concrete_inputs, RS_STR_NONE)                                                                \
    X(comm, RS_NO_COMM)                                                                            \
    X(extra_offset, 0)                                                                             \
    X(extra_length, 0)

enum rs_status rs_batch_init(struct rs_batch *batch, const struct rs_strtab *strings,
                             const struct rs_lanes *lanes, size_t capacity)
{
    *batch = (struct rs_batch){.strings = strings, .lanes = lanes, .capacity = capacity};
    bool failed = false;
#define X(column, none)                                                                            \
    batch->column = rs_mem_calloc(capacity, sizeof *batch->column);                                \
    failed |= !batch->column;
    BATCH_COLUMNS(X)
#undef X
    if (!failed)
        return RS_OK;
    rs_batch_fini(batch);
    return RS_NOMEM;
}

void rs_batch_fini(struct rs_batch *batch)
{
#define X(column, none) rs_mem_free(batch->column);
    BATCH_COLUMNS(X)
#undef X
    rs_mem_free(batch->comms);
    rs_mem_free(batch->extra);
    *batch = (struct rs_batch){0};
}

void rs_batch_reset(struct rs_batch *batch)
{
    batch->count = 0;
    batch->comm_count = 0;
    batch->extra_bytes = 0;
}

enum rs_status rs_batch_row(struct rs_batch *batch, size_t *row_p)
{
    if (batch->count == batch->capacity)
        return RS_LIMIT;
    const size_t row = batch->count++;
#define X(column, none) batch->column[row] = (none);
    BATCH_COLUMNS(X)
#undef X
    *row_p = row;
    return RS_OK;
}

enum rs_status rs_batch_comm(struct rs_batch *batch, size_t row, struct rs_comm **comm_p)
{
    RS_CHECK(row < batch->count && batch->comm[row] == RS_NO_COMM);
    const enum rs_status status = rs_mem_grow((void **)&batch->comms, &batch->comm_capacity,
                                              batch->comm_count + 1, sizeof *batch->comms);
    if (status != RS_OK)
        return status;
    struct rs_comm *comm = &batch->comms[batch->comm_count];
    *comm = (struct rs_comm){
        .collective = RS_STR_NONE,
        .dtype = RS_STR_NONE,
        .group_name = RS_STR_NONE,
        .group_description = RS_STR_NONE,
        .group_ranks = RS_STR_NONE,
        .in_split = RS_STR_NONE,
        .out_split = RS_STR_NONE,
        .transport = RS_STR_NONE,
        .in_nelems = -1,
        .out_nelems = -1,
        .group_size = -1,
        .src = -1,
        .dst = -1,
        .rank = -1,
        .global_start = -1,
        .global_stride = -1,
        .seq = -1,
        .bytes = -1,
    };
    batch->comm[row] = (uint32_t)batch->comm_count++;
    *comm_p = comm;
    return RS_OK;
}

enum rs_status rs_batch_extra(struct rs_batch *batch, size_t row, const char *text, size_t length)
{
    RS_CHECK(row < batch->count);
    if (!batch->extra_length[row])
        batch->extra_offset[row] = (uint32_t)batch->extra_bytes;
    RS_CHECK(batch->extra_offset[row] + batch->extra_length[row] == batch->extra_bytes);
    if (length > UINT32_MAX - batch->extra_bytes)
        return RS_LIMIT;
    const enum rs_status status =
        rs_mem_grow((void **)&batch->extra, &batch->extra_capacity, batch->extra_bytes + length, 1);
    if (status != RS_OK)
        return status;
    if (length)
        memcpy(batch->extra + batch->extra_bytes, text, length);
    batch->extra_bytes += length;
    batch->extra_length[row] += (uint32_t)length;
    return RS_OK;
}

static bool is_string(const struct rs_batch *batch, rs_str id)
{
    return id == RS_STR_NONE || id < batch->strings->count;
}

static const char *broken_column(const struct rs_batch *batch, size_t row)
{
    if (batch->kind[row] >= RS_KIND_COUNT)
        return "kind";
    if (batch->end[row] < batch->start[row])
        return "end";
    if (batch->name[row] >= batch->strings->count)
        return "name";
    if (!is_string(batch, batch->category[row]))
        return "category";
    if (!is_string(batch, batch->input_dims[row]) || !is_string(batch, batch->input_types[row]) ||
        !is_string(batch, batch->concrete_inputs[row]))
        return "inputs";
    if (batch->lane[row] >= batch->lanes->count)
        return "lane";
    if (batch->comm[row] != RS_NO_COMM && batch->comm[row] >= batch->comm_count)
        return "comm";
    if ((uint64_t)batch->extra_offset[row] + batch->extra_length[row] > batch->extra_bytes &&
        batch->extra_length[row])
        return "extra";
    return NULL;
}

enum rs_status rs_batch_check(const struct rs_batch *batch, struct rs_err *err)
{
    if (batch->count > batch->capacity)
        return rs_err_set(err, RS_FORMAT, "a batch of %zu rows has room for %zu", batch->count,
                          batch->capacity);
    for (size_t row = 0; row < batch->count; row++) {
        const char *column = broken_column(batch, row);
        if (column)
            return rs_err_set(err, RS_FORMAT, "row %zu of a batch has a bad %s", row, column);
    }
    for (size_t i = 0; i < batch->comm_count; i++) {
        const struct rs_comm *comm = &batch->comms[i];
        if (!is_string(batch, comm->collective) || !is_string(batch, comm->dtype) ||
            !is_string(batch, comm->group_name) || !is_string(batch, comm->group_description) ||
            !is_string(batch, comm->group_ranks) || !is_string(batch, comm->in_split) ||
            !is_string(batch, comm->out_split) || !is_string(batch, comm->transport))
            return rs_err_set(err, RS_FORMAT, "communication row %zu of a batch has a bad string",
                              i);
    }
    return RS_OK;
}

static bool same_lane(const struct rs_lane *a, const struct rs_lane *b)
{
    return a->kind == b->kind && a->device == b->device && a->process == b->process &&
           a->thread == b->thread && a->process_text == b->process_text &&
           a->thread_text == b->thread_text;
}

enum { LANES_WALKED = 32 };

static uint64_t lane_hash(const struct rs_lane *lane)
{
    uint64_t hash = rs_slots_mix((uint64_t)lane->kind, (uint64_t)(uint32_t)lane->device);
    hash = rs_slots_mix(hash, (uint64_t)lane->process);
    hash = rs_slots_mix(hash, (uint64_t)lane->thread);
    return rs_slots_mix(hash, (uint64_t)lane->process_text << 32 | lane->thread_text);
}

static bool is_lane(const void *self, uint32_t index, const void *wanted)
{
    const struct rs_lanes *lanes = self;
    return same_lane(&lanes->items[index], wanted);
}

/* The first `count` lanes are in the index then; who adds lanes without looking for them does not keep it. */
static enum rs_status index_lanes(struct rs_lanes *lanes, size_t count)
{
    enum rs_status status = RS_OK;
    while (status == RS_OK && lanes->index.count < count) {
        const uint32_t next = (uint32_t)lanes->index.count;
        status = rs_slots_put(&lanes->index, lane_hash(&lanes->items[next]), next);
    }
    return status;
}

enum rs_status rs_lanes_find(struct rs_lanes *lanes, const struct rs_lane *lane, uint32_t *index_p)
{
    /* A trace has tens of lanes and neighbours share one: newest first is enough. Of many, the older ones are in the index. */
    const size_t older = lanes->count > LANES_WALKED ? lanes->count - LANES_WALKED : 0;
    for (size_t i = lanes->count; i-- > older;) {
        if (same_lane(&lanes->items[i], lane)) {
            *index_p = (uint32_t)i;
            return RS_OK;
        }
    }
    enum rs_status status = index_lanes(lanes, older);
    if (status != RS_OK)
        return status;
    *index_p = rs_slots_find(&lanes->index, lane_hash(lane), is_lane, lanes, lane);
    if (*index_p != RS_SLOTS_NONE)
        return RS_OK;
    if (lanes->count == UINT32_MAX)
        return RS_LIMIT;
    status = rs_mem_grow((void **)&lanes->items, &lanes->capacity, lanes->count + 1,
                         sizeof *lanes->items);
    if (status != RS_OK)
        return status;
    lanes->items[lanes->count] = *lane;
    *index_p = (uint32_t)lanes->count++;
    return RS_OK;
}

void rs_lanes_fini(struct rs_lanes *lanes)
{
    rs_mem_free(lanes->items);
    rs_slots_fini(&lanes->index);
    *lanes = (struct rs_lanes){0};
}

void rs_trace_info_init(struct rs_trace_info *info)
{
    *info = (struct rs_trace_info){
        .rank = -1,
        .world_size = -1,
        .host = RS_STR_NONE,
        .trace_id = RS_STR_NONE,
        .backend = RS_STR_NONE,
        .generation = RS_STR_NONE,
        .metadata = RS_STR_NONE,
        .partial_reason = RS_STR_NONE,
    };
}

void rs_trace_info_fini(struct rs_trace_info *info)
{
    for (size_t i = 0; i < info->group_count; i++)
        rs_mem_free(info->groups[i].ranks);
    rs_mem_free(info->groups);
    rs_mem_free(info->drops);
    rs_provenance_free(&info->vendor);
    rs_trace_info_init(info);
}

enum rs_status rs_trace_info_drop(struct rs_trace_info *info, struct rs_strtab *strings,
                                  const char *reason, int64_t count)
{
    rs_str id;
    enum rs_status status = rs_strtab_add(strings, reason, strlen(reason), &id);
    if (status != RS_OK)
        return status;
    for (size_t i = 0; i < info->drop_count; i++) {
        if (info->drops[i].reason == id) {
            info->drops[i].count += count;
            return RS_OK;
        }
    }
    status = rs_mem_grow((void **)&info->drops, &info->drop_capacity, info->drop_count + 1,
                         sizeof *info->drops);
    if (status != RS_OK)
        return status;
    info->drops[info->drop_count++] = (struct rs_drop){.reason = id, .count = count};
    return RS_OK;
}

bool rs_event_is_input(const char *name, size_t length)
{
    return memmem(name, length, "DataLoader", 10) != NULL ||
           memmem(name, length, "dataloader", 10) != NULL ||
           memmem(name, length, "data_loader", 11) != NULL;
}
