/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the native source: native.c keeps connections and the table, native_emit.c turns one rank's records into batches.
 */
#ifndef RS_SOURCE_NATIVE_PRIV_H
#define RS_SOURCE_NATIVE_PRIV_H

#include "collector/lib/clock_map.h"
#include "collector/lib/control_read.h"
#include "collector/lib/ring_read.h"
#include "collector/source/native.h"

/* One ring of a process. */
struct native_ring {
    struct rs_ring_reader *reader;
    uint64_t lost_before; /* counted before the capture */
    uint64_t bad_before;
    uint32_t lane; /* in the capture's stream; UINT32_MAX: not yet */
};

/* What a capture needs while it lasts. */
struct native_capture {
    struct rs_source_stream *stream; /* NULL: no capture */
    struct rs_batch batch;
    rs_str *names; /* [name_count] by id of the process; RS_STR_NONE: not looked up yet */
    size_t name_count, name_capacity;
    struct native_group {
        bool is_known;
        rs_str name, ranks;
        int64_t size;
    } * groups; /* [group_count] by id */
    size_t group_count, group_capacity;
    uint64_t request_seq;
    rs_ns captured_ns;        /* monotonic: since when the state is CAPTURED; 0 not yet */
    bool is_over;             /* open entries and info are done */
    uint64_t last_step_start; /* ticks of the last STEP record */
    rs_ns last_ns;            /* latest end seen: where unfinished rows end */
    uint64_t lost_closed;     /* of rings that ended during the capture */
    uint64_t bad_closed;
    uint64_t lost_without_ring_before;
};

struct native_process {
    struct rs_native_rank shown;
    int socket_fd;                     /* -1: gone */
    struct rs_control_reader *control; /* NULL: no HELLO yet */
    const struct rs_clock_map *clock;
    struct rs_lib_progress progress;
    rs_ns ended_ns; /* monotonic */
    rs_ns delay_at; /* monotonic: no look at its scheduling before */
    struct native_ring *rings;
    size_t ring_count, ring_capacity;
    uint32_t
        rings_before;    /* made before its HELLO: of threads that ended, nothing comes any more */
    uint32_t rings_sent; /* the highest number of a ring that came, and one */
    struct native_capture capture;
};

/* Prepares the capture's batch and tables. RS_NOMEM. */
enum rs_status native_emit_begin(struct native_process *process, const char *capture_id,
                                 struct rs_source_stream *stream, struct rs_err *err);
/* As rs_native_drain(). */
enum rs_status native_emit(struct native_process *process, struct rs_sink sink, struct rs_err *err);
void native_emit_end(struct native_process *process);

/* Losses since the capture began. */
uint64_t native_lost(const struct native_process *process);

#endif
