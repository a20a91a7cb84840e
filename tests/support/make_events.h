/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-built events: a rank's recording row by row, as a source would emit it.
 *
 *   struct make_events e;
 *   make_events_init(&e);
 *   const uint32_t gpu = make_device_lane(&e, 0, 7);
 *   make_row(&e, RS_KIND_KERNEL, "gemm", gpu, 100, 200);
 *   make_last(&e)->correlation ... is e.batch.correlation[e.row]
 *
 * Whoever fails here has a broken test or no memory: the program ends.
 */
#ifndef RS_TESTS_SUPPORT_MAKE_EVENTS_H
#define RS_TESTS_SUPPORT_MAKE_EVENTS_H

#include "common/event/event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct make_events {
    struct rs_strtab strings;
    struct rs_lanes lanes;
    struct rs_batch batch;
    struct rs_trace_info info;
    size_t row; /* the newest */
};

static inline void make_events_must(enum rs_status status)
{
    if (status == RS_OK)
        return;
    fprintf(stderr, "make_events: %s\n", rs_status_name(status));
    abort();
}

static inline void make_events_init(struct make_events *e)
{
    memset(e, 0, sizeof *e);
    make_events_must(rs_strtab_init(&e->strings, 0));
    make_events_must(rs_batch_init(&e->batch, &e->strings, &e->lanes, 8192));
    rs_trace_info_init(&e->info);
    e->info.rank = 0;
    e->info.rank_source = RS_RANK_METADATA;
    e->info.has_time_base = true;
}

static inline void make_events_fini(struct make_events *e)
{
    rs_batch_fini(&e->batch);
    rs_lanes_fini(&e->lanes);
    rs_strtab_fini(&e->strings);
    rs_trace_info_fini(&e->info);
}

static inline rs_str make_string(struct make_events *e, const char *text)
{
    rs_str id;
    make_events_must(rs_strtab_add(&e->strings, text, strlen(text), &id));
    return id;
}

static inline uint32_t make_lane(struct make_events *e, uint8_t kind, int32_t device,
                                 int64_t process, int64_t thread)
{
    const struct rs_lane lane = {.kind = kind,
                                 .device = device,
                                 .process = process,
                                 .thread = thread,
                                 .process_text = RS_STR_NONE,
                                 .thread_text = RS_STR_NONE};
    uint32_t index;
    make_events_must(rs_lanes_find(&e->lanes, &lane, &index));
    return index;
}

static inline uint32_t make_host_lane(struct make_events *e, int64_t thread)
{
    return make_lane(e, RS_LANE_HOST, -1, 1000, thread);
}

static inline uint32_t make_device_lane(struct make_events *e, int32_t device, int64_t stream)
{
    return make_lane(e, RS_LANE_DEVICE, device, device, stream);
}

static inline void make_row(struct make_events *e, enum rs_kind kind, const char *name,
                            uint32_t lane, rs_ns start, rs_ns end)
{
    make_events_must(rs_batch_row(&e->batch, &e->row));
    e->batch.kind[e->row] = (uint8_t)kind;
    e->batch.name[e->row] = make_string(e, name);
    e->batch.lane[e->row] = lane;
    e->batch.start[e->row] = start;
    e->batch.end[e->row] = end;
}

static inline void make_correlation(struct make_events *e, int64_t correlation)
{
    e->batch.correlation[e->row] = correlation;
}

/* "Input Dims", "Input type", "Concrete Inputs" of the newest row; NULL: not there. */
static inline void make_inputs(struct make_events *e, const char *dims, const char *types,
                               const char *concrete)
{
    if (dims)
        e->batch.input_dims[e->row] = make_string(e, dims);
    if (types)
        e->batch.input_types[e->row] = make_string(e, types);
    if (concrete)
        e->batch.concrete_inputs[e->row] = make_string(e, concrete);
}

static inline struct rs_comm *make_comm(struct make_events *e, const char *collective)
{
    struct rs_comm *comm;
    make_events_must(rs_batch_comm(&e->batch, e->row, &comm));
    if (collective)
        comm->collective = make_string(e, collective);
    return comm;
}

struct make_span {
    rs_ns start, end;
};

/* A launch on a host thread and the kernel it launched. */
static inline void make_launched(struct make_events *e, const char *name, uint32_t host,
                                 rs_ns launch, uint32_t device, struct make_span span)
{
    static int64_t correlation = 1;
    make_row(e, RS_KIND_RUNTIME, "cudaLaunchKernel", host, launch, launch + 1);
    make_correlation(e, correlation);
    make_row(e, RS_KIND_KERNEL, name, device, span.start, span.end);
    make_correlation(e, correlation++);
}

#endif
