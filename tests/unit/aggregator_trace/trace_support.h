/* SPDX-License-Identifier: Apache-2.0 */
/* A recording made by hand, row by row, for what is made of its calls. Times are microseconds. */
#ifndef RS_TESTS_TRACE_SUPPORT_H
#define RS_TESTS_TRACE_SUPPORT_H

#include "aggregator/trace/calls.h"
#include "tests/support/rs_test.h"

#include <stdlib.h>
#include <string.h>

struct recording {
    struct rs_strtab strings;
    struct rs_lanes lanes;
    struct rs_batch batch;
    struct rs_trace_calls calls;
    uint32_t host, other, device;
};

static inline uint32_t recording_lane(struct recording *own, uint8_t kind, int32_t device,
                                      int64_t thread)
{
    const struct rs_lane lane = {.kind = kind,
                                 .device = device,
                                 .process = kind == RS_LANE_DEVICE ? device : 100,
                                 .thread = thread,
                                 .process_text = RS_STR_NONE,
                                 .thread_text = RS_STR_NONE};
    uint32_t index = 0;
    assert_ok(rs_lanes_find(&own->lanes, &lane, &index));
    return index;
}

static inline void recording_init(struct recording *own)
{
    *own = (struct recording){0};
    assert_ok(rs_strtab_init(&own->strings, 0));
    assert_ok(rs_batch_init(&own->batch, &own->strings, &own->lanes, 256));
    own->host = recording_lane(own, RS_LANE_HOST, -1, 1);
    own->other = recording_lane(own, RS_LANE_HOST, -1, 2);
    own->device = recording_lane(own, RS_LANE_DEVICE, 0, 7);
}

static inline void recording_fini(struct recording *own)
{
    rs_trace_calls_fini(&own->calls);
    rs_batch_fini(&own->batch);
    rs_lanes_fini(&own->lanes);
    rs_strtab_fini(&own->strings);
}

static inline rs_str recording_text(struct recording *own, const char *text)
{
    rs_str id = RS_STR_NONE;
    assert_ok(rs_strtab_add(&own->strings, text, strlen(text), &id));
    return id;
}

/* The newest row: more may be said of it. */
static inline size_t recording_row(struct recording *own, uint32_t lane, enum rs_kind kind,
                                   const char *name, rs_ns start_us, rs_ns end_us)
{
    size_t row = 0;
    assert_ok(rs_batch_row(&own->batch, &row));
    own->batch.kind[row] = (uint8_t)kind;
    own->batch.name[row] = recording_text(own, name);
    own->batch.lane[row] = lane;
    own->batch.start[row] = start_us * 1000;
    own->batch.end[row] = end_us * 1000;
    return row;
}

static inline void recording_memory(struct recording *own, rs_ns at_us, int64_t bytes,
                                    const char *extra)
{
    const size_t row = recording_row(own, recording_lane(own, RS_LANE_OTHER, -1, 1), RS_KIND_MEMORY,
                                     "[memory]", at_us, at_us);
    own->batch.bytes[row] = bytes;
    own->batch.flags[row] = RS_EVENT_NO_END;
    assert_ok(rs_batch_extra(&own->batch, row, extra, strlen(extra)));
}

static inline void recording_nest(struct recording *own)
{
    assert_ok(rs_trace_calls_add(&own->calls, &own->batch, NULL));
    assert_ok(rs_trace_calls_nest(&own->calls, NULL));
}

/* The first call of this name, in order of thread and start. */
static inline const struct rs_trace_call *recording_call(const struct recording *own,
                                                         const char *name)
{
    for (size_t i = 0; i < own->calls.count; i++)
        if (strcmp(rs_strtab_text(&own->strings, own->calls.items[i].name), name) == 0)
            return &own->calls.items[i];
    fail_msg("there is no call of %s", name);
    abort(); /* fail_msg() does not come back, which compilers do not know */
}

#endif
