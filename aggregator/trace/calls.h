/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of one recording: what ran inside what on each host thread, which device work each of them launched, and what it allocated.
 *
 *     rows of a thread      step [................................]
 *                             frame [.........................]
 *                               aten::linear [............]
 *                                 aten::addmm   [.....]            launches a kernel, which is addmm's
 *
 * Rows come in any order; rs_trace_calls_nest() sorts them and finds who holds whom. A row that only overlaps another one is not held by it.
 * Names are ids of the recording's own strings. One thread at a time.
 */
#ifndef RS_TRACE_CALLS_H
#define RS_TRACE_CALLS_H

#include "common/event/event.h"

#define RS_NO_CALL UINT32_MAX

/* A row of a host thread that lasts: a framework's operator, a range, a call of a runtime, a Python frame, a native operation. */
struct rs_trace_call {
    rs_ns start, end;
    rs_str name, dims; /* dims: of its inputs as written, or RS_STR_NONE */
    rs_str concrete;   /* values of its inputs that are no tensors, as written */
    uint32_t lane;
    uint32_t parent; /* the innermost call that holds it; RS_NO_CALL */
    uint32_t op;     /* the innermost one that is no Python frame, and not `is_again` */
    uint32_t frame;  /* the innermost one that is a Python frame */
    uint8_t kind;    /* enum rs_kind */
    bool
        is_again; /* the only call in one of its own name (an overload that calls the next): torch counts the two as one, the outer */
    uint32_t inner_count;             /* of calls whose `op` it is */
    int64_t external_id, correlation; /* -1 none */
    rs_dur self;        /* its length without the calls in it; Python frames in it do not count */
    rs_dur own;         /* and where they do */
    rs_dur device_self; /* of the device work that it launched itself */
    rs_dur device;      /* and what the calls in it launched */
    int64_t memory_self, memory; /* bytes it allocated less those it freed: the host's */
    int64_t device_memory_self, device_memory; /* and a device's */
};

/* A row of a device that is work. */
struct rs_trace_launched {
    rs_str name;
    rs_dur length;
    uint32_t call; /* who launched it; RS_NO_CALL: not recorded */
    int64_t external_id, correlation;
};

/* A row of an allocator. */
struct rs_trace_memory {
    rs_ns time;
    int64_t bytes;                                    /* < 0: freed */
    int64_t address, total_allocated, total_reserved; /* -1 unknown; of the device, after it */
    uint32_t lane, order;                             /* order: in the recording */
    int32_t device_type; /* c10's number: 0 the host, 1 CUDA, ...; -1 unknown */
    int32_t device;
};

struct rs_trace_calls {
    struct rs_trace_call
        *items; /* after rs_trace_calls_nest(): by lane and start, who holds before who is held */
    size_t count, capacity;
    struct rs_trace_launched *device_rows; /* in the order of the recording */
    size_t device_count, device_capacity;
    struct rs_trace_memory *memory_rows; /* after rs_trace_calls_nest(): by time */
    size_t memory_count, memory_capacity;
    const struct rs_lanes
        *lanes;                /* of the recording; kept a pointer to until rs_trace_calls_nest() */
    bool has_python, has_dims; /* something was recorded of frames, of shapes */
    uint64_t clipped;          /* rows whose end is where the recording stopped */
};

/* Takes what it needs of the rows, copied, all of one recording; a zeroed struct is empty. RS_NOMEM, RS_LIMIT: more than 2^32 - 2 rows. */
RS_MUST_CHECK enum rs_status rs_trace_calls_add(struct rs_trace_calls *calls,
                                                const struct rs_batch *batch, struct rs_err *err);
/* Once, behind the last row. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_trace_calls_nest(struct rs_trace_calls *calls, struct rs_err *err);
void rs_trace_calls_fini(struct rs_trace_calls *calls);

#endif
