/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native source: processes that carry librankscope, their live table, and what they record.
 *
 *      job  --HELLO, ATTACH (memory files)-->  collector.sock  --> table of ranks
 *           <--- request in its control file --- rs_native_arm()
 *           ---- records in its rings ---------> rs_native_drain() --> batches --> sink
 *
 * The life of a capture of one rank; arrows are moved by the job's step boundaries, except those marked *:
 *
 *   NONE --arm*--> WAITING --> ARMED --> RECORDING --> CAPTURED --release*--> NONE
 *                     |          |           +--------> LOST       the process ended in the middle
 *                     |          +--> MISSED                       it was past the last step already
 *                     +-------------> LOST
 *
 * No thread of its own: everything happens in rs_native_poll() and _drain(), on the caller's thread. What comes
 * over the socket or stands in shared memory is hostile: it can only end its own connection.
 */
#ifndef RS_SOURCE_NATIVE_H
#define RS_SOURCE_NATIVE_H

#include "collector/source/source.h"

enum {
    RS_NATIVE_RUN_BYTES = 192,
    RS_NATIVE_TEXT_BYTES = 64,
    RS_NATIVE_MAX_PROCESSES = 1024,
};

enum rs_native_life {
    RS_NATIVE_ALIVE,
    RS_NATIVE_FINISHED, /* it said rankscope_fini() */
    RS_NATIVE_DIED,     /* it went away without */
};

enum rs_native_state {
    RS_NATIVE_NONE,
    RS_NATIVE_WAITING, /* asked; the process has not reached a step boundary since */
    RS_NATIVE_ARMED,
    RS_NATIVE_RECORDING,
    RS_NATIVE_CAPTURED,
    RS_NATIVE_MISSED,
    RS_NATIVE_LOST,
};
const char *rs_native_state_text(enum rs_native_state state); /* "none", "waiting", ... */
const char *rs_native_life_text(enum rs_native_life life);    /* "alive", "finished", "died" */

/* One rank's process as of the last rs_native_poll(). Texts are terminated and printable. */
struct rs_native_rank {
    uint64_t id; /* of this entry, never reused */
    char run[RS_NATIVE_RUN_BYTES];
    char host[RS_NATIVE_TEXT_BYTES];
    char program[RS_NATIVE_TEXT_BYTES];
    int32_t rank;
    int32_t world_size; /* -1 unknown, like the three below */
    int32_t dp, pp, tp;
    int64_t pid;         /* in our namespace; 0 when it cannot be seen from here */
    uint64_t start_time; /* of the process, clock ticks since boot; 0 unknown */
    rs_ns started_ns;    /* when it called rankscope_init() */
    int64_t uid;
    enum rs_native_life life;
    bool has_step;
    uint64_t step;       /* under way */
    rs_dur mean_step_ns; /* 0 unknown */
    rs_dur own_ns;       /* of its steps before that one, outside communication; 0 unknown */
    rs_dur delay_ns;    /* for which its main thread was ready and had no core, so far; 0 unknown */
    rs_ns heartbeat_ns; /* last step boundary; 0 none */
    /* the capture */
    enum rs_native_state state;
    bool has_begun;      /* it recorded, or records, for this capture */
    uint64_t first_step; /* valid when it has begun: may be later than asked */
    uint64_t next_step;  /* CAPTURED: the first step not recorded any more */
    int64_t steps;  /* emitted so far; fewer than next_step - first_step where its numbers jump */
    int64_t events; /* emitted so far */
    int64_t lost;   /* by full rings, since arming */
};

struct rs_native;

/* Listens at `path` (a socket that nobody serves is replaced). RS_EXISTS: someone serves it. RS_IO, RS_NOMEM,
 * RS_INVALID: path too long. */
RS_MUST_CHECK enum rs_status rs_native_open(const char *path, struct rs_native **native_p,
                                            struct rs_err *err);
void rs_native_close(struct rs_native **native_p); /* removes the socket; jobs go on unrecorded */

int rs_native_fd(const struct rs_native *native); /* readable: call rs_native_poll() */

/* Takes connections, messages and hang-ups, waiting at most timeout_ms (0: not) for the first, and refreshes
 * the table. RS_OK, also when nothing came. RS_IO. */
RS_MUST_CHECK enum rs_status rs_native_poll(struct rs_native *native, int timeout_ms,
                                            struct rs_err *err);

/* The table, in order of arrival. Entries are lent until the next call of poll, release or close. Ended processes without a
 * capture leave it after half a minute, or when their rank comes back. */
size_t rs_native_count(const struct rs_native *native);
const struct rs_native_rank *rs_native_at(const struct rs_native *native, size_t index);
const struct rs_native_rank *rs_native_find(const struct rs_native *native,
                                            uint64_t id); /* or NULL */

struct rs_native_request {
    const char *capture; /* the capture's id, becomes info.trace_id; copied */
    uint64_t start_step; /* 0: the next one */
    uint64_t stop_step;  /* first step not to record; with start_step 0: how many steps */
};

/* Asks a rank to record. Keeps a pointer to `stream` (initialised, empty) until rs_native_release(). RS_NOTFOUND: no
 * such entry. RS_EXISTS: it has a capture. RS_INVALID: nothing to record. RS_CANCELLED: it has ended. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_native_arm(struct rs_native *native, uint64_t id,
                                           const struct rs_native_request *request,
                                           struct rs_source_stream *stream, struct rs_err *err);

/* Asks it to stop at its next boundary; what is recorded stays. */
void rs_native_stop(struct rs_native *native, uint64_t id);

/* Emits what the rank's rings hold into the sink; call it often enough (1 MiB per thread holds some 30,000 events).
 * RS_OK: so far. RS_END: the capture is over (CAPTURED or MISSED), everything was emitted, stream->info is complete. RS_PARTIAL: the same, but
 * the process ended in the middle, or events were lost. RS_NOTFOUND: no entry, or no capture.
 * RS_NOMEM, or the sink's status. */
RS_MUST_CHECK enum rs_status rs_native_drain(struct rs_native *native, uint64_t id,
                                             struct rs_sink sink, struct rs_err *err);

/* The rank's capture is over for us: the stream is the caller's again. */
void rs_native_release(struct rs_native *native, uint64_t id);

#endif
