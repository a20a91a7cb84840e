/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches made up from a seed: wild ones, where every column takes every value it may take, and
 * plausible ones, which look like a training step. The same seed makes the same batch.
 */
#ifndef RS_TESTS_SUPPORT_MAKE_BATCHES_H
#define RS_TESTS_SUPPORT_MAKE_BATCHES_H

#include "common/event/event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct make_random {
    uint64_t state;
};

static inline uint64_t make_next(struct make_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline size_t make_below(struct make_random *random, size_t limit)
{
    return (size_t)(make_next(random) % limit);
}

/* An integer of any length, the ends of the range included. */
static inline int64_t make_int(struct make_random *random)
{
    switch (make_below(random, 8)) {
    case 0:
        return INT64_MAX;
    case 1:
        return INT64_MIN;
    case 2:
        return -1;
    case 3:
        return 0;
    default:
        return (int64_t)(make_next(random) >> make_below(random, 64));
    }
}

/* One stream's tables and a batch on them. */
struct make_stream {
    struct make_random random;
    struct rs_strtab strings;
    struct rs_lanes lanes;
    struct rs_batch batch;
};

static inline void make_must(enum rs_status status)
{
    if (status == RS_OK)
        return;
    (void)fprintf(stderr, "a test's batch could not be made: %s\n", rs_status_text(status));
    abort();
}

static inline rs_str make_string(struct make_stream *stream, const char *text)
{
    rs_str id;
    make_must(rs_strtab_add(&stream->strings, text, strlen(text), &id));
    return id;
}

static inline uint32_t make_lane(struct make_stream *stream, uint8_t kind, int32_t device,
                                 int64_t process, int64_t thread)
{
    const struct rs_lane lane = {.kind = kind,
                                 .device = device,
                                 .process = process,
                                 .thread = thread,
                                 .process_text = RS_STR_NONE,
                                 .thread_text = RS_STR_NONE};
    uint32_t index;
    make_must(rs_lanes_find(&stream->lanes, &lane, &index));
    return index;
}

static inline void make_open(struct make_stream *stream, uint64_t seed, size_t capacity)
{
    *stream = (struct make_stream){.random = {seed}};
    make_must(rs_strtab_init(&stream->strings, 0));
    make_must(rs_batch_init(&stream->batch, &stream->strings, &stream->lanes, capacity));
}

static inline void make_close(struct make_stream *stream)
{
    rs_batch_fini(&stream->batch);
    rs_lanes_fini(&stream->lanes);
    rs_strtab_fini(&stream->strings);
}

/* Any string of the table, or none. */
static inline rs_str make_any_string(struct make_stream *stream)
{
    const size_t pick = make_below(&stream->random, stream->strings.count + 1);
    return pick == stream->strings.count ? RS_STR_NONE : (rs_str)pick;
}

static inline void make_wild_comm(struct make_stream *stream, size_t row)
{
    struct rs_comm *comm;
    make_must(rs_batch_comm(&stream->batch, row, &comm));
    struct make_random *random = &stream->random;
    comm->has = (uint32_t)make_next(random);
    comm->collective = make_any_string(stream);
    comm->dtype = make_any_string(stream);
    comm->group_name = make_any_string(stream);
    comm->group_description = make_any_string(stream);
    comm->group_ranks = make_any_string(stream);
    comm->in_split = make_any_string(stream);
    comm->out_split = make_any_string(stream);
    comm->transport = make_any_string(stream);
    comm->in_nelems = make_int(random);
    comm->out_nelems = make_int(random);
    comm->group_size = make_int(random);
    comm->src = make_int(random);
    comm->dst = make_int(random);
    comm->rank = make_int(random);
    comm->global_start = make_int(random);
    comm->global_stride = make_int(random);
    comm->seq = make_int(random);
    comm->comms_id = make_next(random);
    comm->bytes = make_int(random);
}

/* Text of every byte, or of numbers of every length and shape. */
static inline void make_wild_extra(struct make_stream *stream, size_t row)
{
    struct make_random *random = &stream->random;
    char text[96];
    size_t length;
    if (make_below(random, 2)) {
        length = 1 + make_below(random, sizeof text);
        for (size_t i = 0; i < length; i++)
            text[i] = (char)(make_below(random, 3) ? '0' + (char)make_below(random, 10)
                                                   : (char)make_below(random, 256));
    } else {
        length = (size_t)snprintf(text, sizeof text, "\"Ev Idx\": %zu, \"id\": %llu, \"x\": %05d",
                                  row, (unsigned long long)make_int(random), 7);
    }
    make_must(rs_batch_extra(&stream->batch, row, text, length));
}

static inline void make_wild_row(struct make_stream *stream)
{
    struct make_random *random = &stream->random;
    struct rs_batch *batch = &stream->batch;
    size_t row;
    make_must(rs_batch_row(batch, &row));
    batch->kind[row] = (uint8_t)make_below(random, RS_KIND_COUNT);
    batch->flags[row] = (uint8_t)make_next(random);
    batch->phase[row] = (uint8_t)make_next(random);
    batch->category[row] = make_any_string(stream);
    batch->name[row] = (rs_str)make_below(random, stream->strings.count);
    batch->lane[row] = (uint32_t)make_below(random, stream->lanes.count);
    const int64_t one = make_int(random);
    const int64_t other = make_int(random);
    batch->start[row] = one < other ? one : other;
    batch->end[row] = one < other ? other : one;
    batch->correlation[row] = make_int(random);
    batch->external_id[row] = make_int(random);
    batch->bytes[row] = make_int(random);
    batch->cpu_ns[row] = make_int(random);
    batch->input_dims[row] = make_any_string(stream);
    batch->input_types[row] = make_any_string(stream);
    batch->concrete_inputs[row] = make_any_string(stream);
    if (make_below(random, 3) == 0)
        make_wild_comm(stream, row);
    if (make_below(random, 2) == 0)
        make_wild_extra(stream, row);
}

/* Empties the batch and fills it with `count` rows where every column is extreme. */
static inline void make_wild(struct make_stream *stream, size_t count)
{
    for (size_t i = make_below(&stream->random, 40); i-- > 0;) {
        char text[64];
        const int length = snprintf(text, sizeof text, "name %llx",
                                    (unsigned long long)make_next(&stream->random) >> 32);
        text[5] = (char)make_below(&stream->random, 256);
        rs_str id;
        make_must(rs_strtab_add(&stream->strings, text, (size_t)length, &id));
    }
    for (size_t i = 1 + make_below(&stream->random, 5); i-- > 0;)
        (void)make_lane(stream, (uint8_t)make_below(&stream->random, 3),
                        (int32_t)make_below(&stream->random, 9) - 1, make_int(&stream->random),
                        make_int(&stream->random));
    rs_batch_reset(&stream->batch);
    for (size_t i = 0; i < count; i++)
        make_wild_row(stream);
}

/* What a plausible step has reached. */
struct make_clock {
    int64_t host, device, correlation, external;
};

static inline size_t make_row(struct make_stream *stream, enum rs_kind kind, const char *name,
                              uint32_t lane, int64_t start, int64_t length)
{
    size_t row;
    struct rs_batch *batch = &stream->batch;
    make_must(rs_batch_row(batch, &row));
    const bool is_flow = kind == RS_KIND_FLOW_START || kind == RS_KIND_FLOW_END;
    batch->kind[row] = (uint8_t)kind;
    batch->phase[row] = kind == RS_KIND_FLOW_START ? 's' : kind == RS_KIND_FLOW_END ? 'f' : 'X';
    batch->category[row] = make_string(stream, is_flow ? "ac2g" : rs_kind_text(kind));
    batch->name[row] = make_string(stream, name);
    batch->lane[row] = lane;
    batch->start[row] = start;
    batch->end[row] = start + length;
    return row;
}

/* A launch: op, runtime call, its flow, kernel, its flow: five rows as a profiler writes them. */
static inline void make_launch(struct make_stream *stream, struct make_clock *clock)
{
    static const char *const ops[] = {"aten::mm",     "aten::add_", "aten::relu",
                                      "aten::conv2d", "aten::view", "aten::empty"};
    struct make_random *random = &stream->random;
    struct rs_batch *batch = &stream->batch;
    const size_t op = make_below(random, sizeof ops / sizeof *ops);
    const uint32_t host = make_lane(stream, RS_LANE_HOST, -1, 542, 542);
    const uint32_t device = make_lane(stream, RS_LANE_DEVICE, 0, 0, 7);
    const int64_t length = 4000 + (int64_t)make_below(random, 4096);
    char text[64];
    size_t row = make_row(stream, RS_KIND_CPU_OP, ops[op], host, clock->host, length * 3);
    batch->external_id[row] = ++clock->external;
    batch->input_dims[row] = make_string(stream, op < 3 ? "[[128, 64], [64]]" : "[[], []]");
    int used = snprintf(text, sizeof text, "\"Ev Idx\": %lld", (long long)clock->external * 3);
    make_must(rs_batch_extra(batch, row, text, (size_t)used));
    clock->host += 700 + (int64_t)make_below(random, 512);
    clock->correlation += 1 + (int64_t)make_below(random, 3);
    for (int k = 0; k < 2; k++) {
        const int64_t start = k ? clock->device : clock->host;
        row = make_row(stream, k ? RS_KIND_KERNEL : RS_KIND_RUNTIME,
                       k ? ops[op] + 6 : "cudaLaunchKernel", k ? device : host, start, length);
        batch->correlation[row] = clock->correlation;
        batch->external_id[row] = clock->external;
        used = snprintf(text, sizeof text, "\"cbid\": %d, \"stream\": %d", k ? 0 : 211, 7 * k);
        make_must(rs_batch_extra(batch, row, text, (size_t)used));
        row = make_row(stream, k ? RS_KIND_FLOW_END : RS_KIND_FLOW_START, "ac2g", k ? device : host,
                       start, 0);
        batch->correlation[row] = clock->correlation;
    }
    clock->host += length + (int64_t)make_below(random, 2048);
    clock->device += length + 1000 + (int64_t)make_below(random, 256);
}

/* Empties the batch and fills it with launches, as many as fit. */
static inline void make_step(struct make_stream *stream, struct make_clock *clock)
{
    rs_batch_reset(&stream->batch);
    while (stream->batch.count + 5 <= stream->batch.capacity)
        make_launch(stream, clock);
}

#endif
