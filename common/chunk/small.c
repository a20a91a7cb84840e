/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small bodies: a lane of a DICTIONARY, the trace info of an INFO chunk. Members in order, as
 * varints (FORMAT.md, "Dictionary" and "Info").
 */
#include "common/base/mem.h"
#include "common/chunk/chunk_priv.h"

static void put_str(struct rs_buf *body, rs_str id)
{
    rs_buf_varint(body, (uint32_t)(id + 1u));
}

static rs_str take_str(struct rs_view *body)
{
    const uint64_t value = rs_view_varint(body);
    if (value > UINT32_MAX)
        body->failed = true;
    return (rs_str)(uint32_t)(value - 1);
}

static int32_t take_i32(struct rs_view *body)
{
    const int64_t value = rs_view_zigzag(body);
    if (value < INT32_MIN || value > INT32_MAX)
        body->failed = true;
    return (int32_t)value;
}

void lane_encode(const struct rs_lane *lane, struct rs_buf *body)
{
    rs_buf_u8(body, lane->kind);
    rs_buf_zigzag(body, lane->device);
    rs_buf_zigzag(body, lane->process);
    rs_buf_zigzag(body, lane->thread);
    put_str(body, lane->process_text);
    put_str(body, lane->thread_text);
}

void lane_decode(struct rs_view *body, struct rs_lane *lane_p)
{
    *lane_p = (struct rs_lane){.kind = rs_view_u8(body)};
    lane_p->device = take_i32(body);
    lane_p->process = rs_view_zigzag(body);
    lane_p->thread = rs_view_zigzag(body);
    lane_p->process_text = take_str(body);
    lane_p->thread_text = take_str(body);
    if (lane_p->kind > RS_LANE_OTHER)
        body->failed = true;
}

/* Members of struct rs_trace_info that are strings and numbers, in stored order. */
#define INFO_STRINGS(X) X(host) X(trace_id) X(backend) X(generation) X(metadata) X(partial_reason)
#define INFO_NUMBERS(X) X(base_ns) X(events_read) X(rows_read) X(input_bytes) X(raw_bytes)

void info_encode(const struct rs_trace_info *info, struct rs_buf *body)
{
    rs_buf_zigzag(body, info->rank);
    rs_buf_u8(body, (uint8_t)info->rank_source);
    rs_buf_zigzag(body, info->world_size);
    rs_buf_u8(body, (uint8_t)(info->has_time_base | info->is_partial << 1));
#define X(member) put_str(body, info->member);
    INFO_STRINGS(X)
#undef X
#define X(member) rs_buf_zigzag(body, info->member);
    INFO_NUMBERS(X)
#undef X
    rs_buf_varint(body, info->group_count);
    for (size_t i = 0; i < info->group_count; i++) {
        const struct rs_group_info *group = &info->groups[i];
        put_str(body, group->name);
        put_str(body, group->description);
        rs_buf_zigzag(body, group->size);
        rs_buf_varint(body, group->rank_count);
        for (size_t r = 0; r < group->rank_count; r++)
            rs_buf_zigzag(body, (int64_t)group->ranks[r] - (r ? group->ranks[r - 1] : 0));
    }
    rs_buf_varint(body, info->drop_count);
    for (size_t i = 0; i < info->drop_count; i++) {
        put_str(body, info->drops[i].reason);
        rs_buf_zigzag(body, info->drops[i].count);
    }
}

/* A count of things that take at least `least` bytes each. */
static size_t take_count(struct rs_view *body, size_t least)
{
    const uint64_t count = rs_view_varint(body);
    if (count > body->length / least)
        body->failed = true;
    return body->failed ? 0 : (size_t)count;
}

static enum rs_status take_group(struct rs_view *body, struct rs_trace_info *info)
{
    struct rs_group_info *group = &info->groups[info->group_count];
    *group = (struct rs_group_info){0};
    group->name = take_str(body);
    group->description = take_str(body);
    group->size = rs_view_zigzag(body);
    const size_t ranks = take_count(body, 1);
    group->ranks = rs_mem_calloc(ranks, sizeof *group->ranks);
    if (!group->ranks)
        return RS_NOMEM;
    info->group_count++;
    int64_t rank = 0;
    for (; group->rank_count < ranks; group->rank_count++) {
        if (__builtin_add_overflow(rank, rs_view_zigzag(body), &rank) || rank < INT32_MIN ||
            rank > INT32_MAX)
            return RS_FORMAT;
        group->ranks[group->rank_count] = (int32_t)rank;
    }
    return RS_OK;
}

static enum rs_status take_info(struct rs_view *body, struct rs_trace_info *info)
{
    info->rank = take_i32(body);
    const uint8_t rank_source = rs_view_u8(body);
    info->rank_source = (enum rs_rank_source)rank_source;
    info->world_size = take_i32(body);
    const uint8_t bits = rs_view_u8(body);
    info->has_time_base = (bits & 1) != 0;
    info->is_partial = (bits & 2) != 0;
    if (rank_source > RS_RANK_PROCESS || bits > 3)
        return RS_FORMAT;
#define X(member) info->member = take_str(body);
    INFO_STRINGS(X)
#undef X
#define X(member) info->member = rs_view_zigzag(body);
    INFO_NUMBERS(X)
#undef X
    const size_t groups = take_count(body, 4);
    if (rs_mem_grow((void **)&info->groups, &info->group_capacity, groups, sizeof *info->groups) !=
        RS_OK)
        return RS_NOMEM;
    for (size_t i = 0; i < groups; i++) {
        const enum rs_status status = take_group(body, info);
        if (status != RS_OK)
            return status;
    }
    const size_t drops = take_count(body, 2);
    if (rs_mem_grow((void **)&info->drops, &info->drop_capacity, drops, sizeof *info->drops) !=
        RS_OK)
        return RS_NOMEM;
    for (; info->drop_count < drops; info->drop_count++) {
        info->drops[info->drop_count].reason = take_str(body);
        info->drops[info->drop_count].count = rs_view_zigzag(body);
    }
    return body->failed ? RS_FORMAT : RS_OK;
}

enum rs_status info_decode(struct rs_view *body, struct rs_trace_info *info_p)
{
    struct rs_trace_info info;
    rs_trace_info_init(&info);
    const enum rs_status status = take_info(body, &info);
    if (status == RS_OK)
        *info_p = info;
    else
        rs_trace_info_fini(&info);
    return status;
}
