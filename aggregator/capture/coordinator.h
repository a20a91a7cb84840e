/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator: who records what, when, and whether everything came.
 *
 * Knows every rank that a collector told of, and every capture that is open. Two kinds of captures:
 *
 *   live     start --PREPARE--> ARMING --all answered, or heard and silent for 5 s--> COMMIT(start step) --> RECORDING
 *              |                  ^  |                                | every rank is final
 *              | a rank is busy   |  +-- nobody can --> FAILED        +--> COMPLETE | PARTIAL | FAILED
 *              +--> QUEUED -------+ all its ranks are free; one per run
 *
 *   files    first chunk of a key --> COLLECTING --all ranks of the world ended, or nothing came
 *                                                  for the settle time--> COMPLETE | PARTIAL
 *
 * One rank on its way:  WAITING -> ARMED [-> DELIVERED] -> RECORDING [-> WRITTEN -> READING] -> SENDING
 *                       -> DONE | PARTIAL, and from each before DONE -> REFUSED | LOST.
 *                       In brackets: ranks whose profiler writes files.
 * DONE and PARTIAL mean durable: they come from ingest's word on the last chunk, never from a promise. A
 * rank that dies or stays silent is named and lost; the others finish. Chunks that come for a closed
 * capture open it again: data is never refused for being late.
 *
 * A partition is not an end. A process that ends closes its link at once; a link that breaks after a silence tells of a network or a
 * node that stands still. Its ranks are unreachable, and waited for (unreachable_ns): they may have recorded all that was
 * asked for, and where they have not answered yet, all are to begin together. The user sees since when, and can stop the
 * capture. While it waits to begin, everybody is asked again every few seconds, so that what was answered stays true and a collector
 * that comes back hears of it. When this process itself stood still, everybody is given time anew before anybody is given up.
 *
 * A request is validated by common/request for every live rank of the run (start.c): who is refused is in the capture with every
 * rule it breaks, the others go on. Nothing that was asked for is lost in silence: what waits is listed, and
 * what cannot be done any more is closed as failed with the reason.
 *
 * Ranks are planned for by what their adapter can do (common/request/adapter.h), never by which profiler it is.
 *
 * COMMIT that somebody does not hear of, because his link breaks just then, is taken back while nobody has begun (recall.c): ARMING
 * again.
 *
 * The start step is the largest step of any armed rank plus a margin: as many steps as fit into the lead
 * time (two round trips and a heartbeat), so that COMMIT reaches the slowest link before the fastest
 * rank gets there. Of ranks that look at a file now and then (POLLS) the interval of looking is in the margin; all that know
 * their step (KNOWS_STEP) begin at one.
 *
 * Ranks that do not tell their step and ask for work every few seconds (STEP_ROUNDUP, WALL_CLOCK) begin
 * together in one of two ways, chosen by the request:
 *
 *   steps     at the next multiple of R of each rank's own count of optimizer steps. All agree on the
 *             multiple only if R steps last much longer than the time between the first and the last rank's
 *             asking; so they are told within the shortest arc of the polling circle (deliver_from), and R comes from the
 *             step time: R steps last about CYCLE. A collector knows that time from an earlier capture of the run, else it
 *             has one rank record two steps before its ranks are armed (they say that they wait). Where even that tells
 *             nothing (no step was made), R = 500, unless the request says it.
 *   duration  at one wall-clock instant that the slowest asker can still make: its next poll, the
 *             profiler's own lead, and a margin. Ranks that know their step record those that fall
 *             into it.
 *
 * A pure state machine on one thread (server's): time is an argument, ranks are reached and rows are written
 * through the callbacks.
 */
#ifndef RS_CAPTURE_COORDINATOR_H
#define RS_CAPTURE_COORDINATOR_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/request/request.h"
#include "common/request/roles.h"
#include "common/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RS_COORD_ID_BYTES = 64,
    RS_COORD_TEXT_BYTES = 257, /* run, incarnation, host, node */
    RS_COORD_USER_BYTES = 64,  /* name of a user */
    RS_COORD_ACCOUNT_BYTES = 80,
    RS_COORD_REASON_BYTES = 512,
    RS_COORD_SOURCE_BYTES = 48,
    RS_COORD_RAW_BYTES = 1024,
    RS_COORD_ARCHIVE_BYTES = 1024,
    RS_COORD_TAKEN_BYTES = 320,
    RS_COORD_AGGREGATOR_BYTES = 17,
    RS_COORD_RANKS_MAX = 65536, /* of one capture */
};

/* A rank as its collector last told of it. */
struct rs_coord_seen {
    char run[RS_COORD_TEXT_BYTES], incarnation[RS_COORD_TEXT_BYTES], host[RS_COORD_TEXT_BYTES];
    char node[RS_COORD_TEXT_BYTES];
    char user[RS_COORD_USER_BYTES]; /* whose process it is; "" unknown */
    char capture[RS_COORD_ID_BYTES];
    uint32_t rank, world, pid;
    int64_t step; /* -1 not known, or before the first */
    rs_dur step_duration_ns;
    rs_dur
        own_ns; /* sum over its steps before that one, outside communication, told as it runs; 0 unknown. Not self_time_ns */
    rs_dur delay_ns;                            /* so far: ready, without a core; 0 unknown */
    int64_t free_disk_bytes, free_memory_bytes; /* 0 unknown */
    uint32_t glibc;                             /* major << 16 | minor; 0 unknown */
    uint32_t activities; /* set of enum rs_activity: what its process may have; 0 unknown */
    rs_dur
        self_time_ns; /* of one step, its own; an earlier capture told it; 0 unknown. The coordinator's own */
    int32_t role[RS_ROLE_COUNT]; /* -1 unknown: what was known before stays */
    enum rs_rank_state state;
    uint64_t events_dropped;
    bool can_capture;
    struct rs_adapter adapter;
    const void *link;   /* of its collector; NULL: that is gone */
    rs_ns last_seen_ns; /* monotonic: last message that named it */
    rs_dur clock_offset_ns,
        clock_bound_ns; /* its host's clock - ours, to within; bound 0: not known */
    rs_ns
        back_ns; /* monotonic: when its collector came back, over another link; 0 never. The coordinator's own */
    rs_dur
        silent_ns; /* without a link: how long nothing had come when it broke. The coordinator's own */
    int64_t
        step_bytes; /* packed, of a step of its last capture; 0 unknown. The coordinator's own */
    int64_t last_start,
        last_stop; /* NO_REPEAT: what it was told last; 0 none. The coordinator's own */
};

/* One rank in one capture. */
struct rs_coord_rank {
    uint32_t rank;
    char incarnation[RS_COORD_TEXT_BYTES], host[RS_COORD_TEXT_BYTES];
    char node
        [RS_COORD_TEXT_BYTES]; /* of the collector that was asked; "" nobody was, by this process */
    enum rs_progress_state state;
    int64_t steps_done;
    int64_t step; /* when armed */
    rs_dur step_duration_ns;
    struct rs_adapter adapter;
    rs_ns
        next_poll_ns; /* ranks that ask or look, when armed: its next poll (realtime; 0 any time), and how often */
    rs_dur poll_period_ns, lead_ns;
    rs_ns window_start_ns,
        window_end_ns; /* when its trace was read, on its host's clock; 0 unknown */
    rs_dur
        clock_offset_ns; /* its host's clock - ours, as measured when the capture is closed; 0 unknown */
    char text[RS_COORD_REASON_BYTES];
    uint64_t chunks, bytes; /* durable */
    uint64_t lost_chunks;   /* as its loss records say, since this process runs */
    rs_ns moved_at;         /* monotonic: last sign of life in this capture */
    rs_ns back_at;          /* monotonic; ARMING: heard again after it was out of reach; 0 never */
    bool is_summarised;     /* its last summary is durable */
    bool is_summary_short;  /* and says that less was recorded than was asked */
    bool is_told;           /* after COMMIT: its collector said that it knows */
    bool
        is_recalled; /* its start was moved: what is said of it is of the first try, until it answers */
    bool is_changed; /* since the journal last wrote it */
    uint32_t seen_at,
        seen_generation; /* its place in the coordinator's table, as of which generation of it; 0 not looked for */
};

/* What is asked for and, after COMMIT, what was chosen. */
struct rs_coord_profile {
    uint32_t roundup;  /* 0: chosen */
    rs_dur timeout_ns; /* 0: chosen */
};

struct rs_coord_capture {
    char id[RS_COORD_ID_BYTES];
    char run[RS_COORD_TEXT_BYTES];
    char owner[RS_COORD_USER_BYTES]; /* the user whose run it is; "" unknown: nobody's own */
    char account
        [RS_COORD_ACCOUNT_BYTES]; /* on whose account it is kept when it is nobody's own; "" nobody's */
    char key[RS_WIRE_KEY_MAX_BYTES +
             1]; /* files: what they have in common; else the file the request came from, "" none */
    char directory[4096];
    bool is_files;
    enum rs_capture_state state;
    rs_ns created_ns, closed_ns; /* realtime */
    int64_t start_step;
    uint32_t steps, world;                /* steps: 0 with a duration */
    rs_dur duration_ns;                   /* by the wall clock; 0: steps */
    rs_ns start_time_ns, deliver_from_ns; /* of ranks that poll, after COMMIT; realtime, 0 none */
    rs_dur
        start_bound_ns; /* of start_time_ns: two hosts begin within so much, as their clocks are known; 0 unknown */
    /* Of iterations from a multiple, while it is open: how long one is, and until when all have begun (realtime); 0 unknown */
    rs_dur step_ns;
    rs_ns begin_by_ns;
    uint32_t counted_steps; /* what ranks that know their step record, of a duration too */
    uint32_t
        claim; /* how often it was taken over by another aggregator, this one the last; 0: it was begun here */
    struct rs_coord_profile profile;
    uint32_t capabilities;                /* of its ranks' adapters, together */
    char adapters[RS_COORD_SOURCE_BYTES]; /* their names: "native+kineto" */
    struct rs_capture_request *request;   /* owned; NULL: files, or it is not known any more */
    rs_dur settle_ns;
    char reason[RS_COORD_REASON_BYTES];
    char raw[RS_COORD_RAW_BYTES]; /* whose raw data is wanted: "all" (or ""), "none", "0,3-7" */
    char archive[RS_COORD_ARCHIVE_BYTES];  /* where it is archived; "": it is not */
    char taken_from[RS_COORD_TAKEN_BYTES]; /* for people: who had it before; "" nobody */
    char given_up_to
        [RS_COORD_AGGREGATOR_BYTES]; /* id of the aggregator that took it over from this one; "" none */
    struct rs_coord_rank *ranks;     /* owned */
    size_t rank_count, rank_capacity;
    /* the coordinator's own, while it is open; instants are monotonic */
    uint32_t *order; /* indices of ranks, ascending by rank number */
    size_t order_capacity;
    size_t counts[RS_PROGRESS_COUNT]; /* ranks by state */
    char remark
        [RS_COORD_REASON_BYTES]; /* goes before the reason when it is closed: stopped, replaced, ... */
    rs_ns opened_at, moved_at, committed_at;
    rs_ns asked_at;        /* ARMING: PREPARE was sent last; 0: it has to be sent once more */
    rs_dur answer_ns;      /* ARMING: how long the slowest of those that answer at once took */
    rs_dur lead_ns;        /* from COMMIT to the start, by the slowest to learn; 0 not known */
    unsigned moved_starts; /* how often it was called back and asked anew (recall.c) */
    uint32_t logged;       /* digest of the last line about a rank; 0: none */
    size_t logged_more;    /* ranks after it of which the same was to be said */
    size_t
        not_summarised; /* index of a rank that was seen without its last summary: where to look first */
    rs_ns recording_at; /* the first rank began; 0 not yet */
    rs_ns look_at;      /* RECORDING: when deadlines of its ranks are looked at next */
    rs_ns free_at;      /* it waits: since when no other capture needs its ranks; 0 one does */
    bool is_stopped;    /* its ranks were called back */
    bool was_stopped;   /* by request */
    bool is_orphan;     /* this process was started again between PREPARE and COMMIT */
    bool
        is_loaded; /* it was begun by an earlier process, or was closed: who was asked is not known */
    bool is_closing; /* the journal was asked to close it */
    bool is_written; /* the journal is at work on it: the server's own */
    bool
        is_unsaved; /* something of it could not be written, and no later row holds it: the server's own */
    bool
        is_refused; /* the last that was written was refused by the disk, and the log says so: the server's own */
    bool is_joining; /* to be closed when it is joined */
    bool is_changed;
};
/* What a copy owns: ranks, request. */
void rs_coord_capture_fini(struct rs_coord_capture *capture);
bool rs_coord_can(const struct rs_coord_capture *capture, enum rs_capability capability);

/* Sends a message to the collector behind `link`, for those ranks of it, all of one adapter. */
typedef void rs_coord_message_fn(void *self, const void *link,
                                 const struct rs_coord_capture *capture,
                                 const struct rs_adapter *adapter, const uint32_t *ranks,
                                 size_t rank_count);

/* What the coordinator asks of others. `self` is the options' one. All calls come from inside a call of
 * the coordinator, on its thread. */
struct rs_coord_ops {
    rs_coord_message_fn *prepare;
    rs_coord_message_fn *commit;
    void (*cancel)(void *self, const void *link, const struct rs_coord_capture *capture,
                   const char *reason);
    /* The same, to collectors that are at another aggregator and bring what they have of it. NULL: there are none. */
    void (*cancel_elsewhere)(void *self, const struct rs_coord_capture *capture,
                             const char *reason);
    /* Writes a new capture down: fills id, directory, created_ns. */
    enum rs_status (*create)(void *self, struct rs_coord_capture *capture, struct rs_err *err);
    /* Writes what has changed (is_changed), and tells who follows it. False: the last of it is still being written, so not now;
     * it is asked again with a later tick. `must`: it is going to be closed, there is no later. */
    bool (*save)(void *self, struct rs_coord_capture *capture, bool must);
    /* Whether all that it has is joined; else it is tried again with the next tick after that. NULL: yes. */
    bool (*may_close)(void *self, const struct rs_coord_capture *capture);
    /* Makes it closed; rs_coord_closed() when that is durable. */
    void (*close)(void *self, struct rs_coord_capture *capture);
    /* What earlier captures of the run told of its ranks' roles; NULL: there is nobody to ask. On true `roles_p` is the
     * caller's: rs_roles_fini(). */
    bool (*earlier_roles)(void *self, const char *run, struct rs_roles *roles_p);
};

struct rs_coord_options {
    const struct rs_coord_ops *ops;
    void *self;
    rs_dur arm_timeout_ns; /* 0: 5 s */
    rs_dur silence_ns; /* rank that can be notified at any time, without a sign of life; 0: 60 s */
    rs_dur gone_ns;    /* after its process or collector went; 0: 15 s */
    rs_dur unreachable_ns; /* after the link to its collector broke in silence; 0: 20 min */
    rs_dur
        tick_ns; /* rs_coord_tick() is called this often at least: a longer gap is a time in which this process stood still;
                     * 0: that is not promised */
    rs_dur
        heartbeat_ns; /* collectors are heard this often; 0: nobody promises that, and no start is moved (recall.c) */
    rs_dur abandon_ns;       /* files: a stream that does not go on; 0: 60 s */
    rs_dur lead_ns;          /* 0: 1 s */
    rs_ns (*realtime)(void); /* NULL: the system's; a test brings its own */
    const char *roles; /* text of a file of roles (common/request/roles.h); NULL none; copied */
};

struct rs_coord;

RS_MUST_CHECK enum rs_status rs_coord_new(const struct rs_coord_options *options,
                                          struct rs_coord **coord_p, struct rs_err *err);
void rs_coord_free(struct rs_coord **coord_p);

/* ---- ranks ----------------------------------------------------------------------------------------- */

/* A collector told of a rank: copies it. RS_INVALID: no rank has that number; RS_LIMIT: there are too many; RS_NOMEM;
 * RS_REFUSED: the collector of another node is connected and has that very process; RS_EXISTS: the run is another user's. */
RS_MUST_CHECK enum rs_status rs_coord_see(struct rs_coord *coord, const struct rs_coord_seen *seen,
                                          rs_ns now);
/* Whether that process is in the table already. */
bool rs_coord_knows(const struct rs_coord *coord, const struct rs_coord_seen *seen);
/* Whether the collector of the node may report of that member of a capture: only who was asked for it, and of captures that
 * an earlier process began not when the live table has it of another node. What is no open member is nobody's: true. */
bool rs_coord_may_report(struct rs_coord *coord, const char *id, uint32_t rank, const char *node);
/* Whose run it is: "" while no collector said. Lent until the next call that changes the table. */
const char *rs_coord_owner(const struct rs_coord *coord, const char *run);

/* A heartbeat came over it, whatever ranks that named: one that is not named any more has ended, and is not behind a partition.
 * `next_ns`: it said that the next follows within so long; <= 0: within `heartbeat_ns` of the options. */
void rs_coord_see_link(struct rs_coord *coord, const void *link, rs_dur next_ns, rs_ns now);
/* A collector's link closed, by both sides or (`is_broken`) without an end: its ranks are kept for a while, without a link. */
void rs_coord_link_gone(struct rs_coord *coord, const void *link, bool is_broken, rs_ns now);
size_t rs_coord_seen_count(const struct rs_coord *coord);
const struct rs_coord_seen *rs_coord_seen(const struct rs_coord *coord, size_t index);
/* Who a rank of the table is, to find the place behind it again after others have left. */
struct rs_coord_key {
    char run[RS_COORD_TEXT_BYTES], incarnation[RS_COORD_TEXT_BYTES];
    uint32_t rank;
};
void rs_coord_key_of(const struct rs_coord_seen *seen, struct rs_coord_key *key);
/* The index behind that rank; `otherwise` when it has left (or .run is ""), or the table's end when that is before it. */
size_t rs_coord_seen_behind(const struct rs_coord *coord, const struct rs_coord_key *key,
                            size_t otherwise);

/* Asks what earlier captures told of the run's ranks; it stands with them from then on, where nothing else is known. */
void rs_coord_infer_roles(struct rs_coord *coord, const char *run);
/* Of every run with live ranks (of the first 64). */
void rs_coord_infer_all_roles(struct rs_coord *coord);
/* Writes into `role` what the coordinator's file of roles says of a rank; the rest stays. */
void rs_coord_add_roles(struct rs_coord *coord, const struct rs_coord_seen *seen,
                        int32_t role[RS_ROLE_COUNT]);

/* ---- captures -------------------------------------------------------------------------------------- */

struct rs_coord_ask {
    const struct rs_capture_request *request; /* lends; job_id "": the only run */
    const char *roles;       /* text of a file of roles, for this capture only; NULL, "" none */
    const char *origin_file; /* NULL, "" none: what waits from the same file is replaced */
    bool shapes_by_default;  /* record_shapes is on where there are PyTorch ranks */
    const char *raw;         /* raw policy: "all" (NULL, ""), "none", a rank expression */
    bool is_dry;             /* validate only */
    const char *user;        /* among the runs of that user; NULL, "": among all */
    const char *account; /* on whose it is kept when the run is nobody's own; NULL, "" nobody's */
    bool is_of_one_run;  /* who asks may not know of runs but the one of the request */
};

/* Starts a capture of live ranks, or puts it into the queue. `answer` (zeroed) says what every chosen rank is reported, in all cases but
 * RS_NOMEM and where there is no run. RS_OK; RS_PARTIAL (some are refused, or unknown). *capture_p is lent; NULL
 * when nothing was started. RS_INVALID (bad request; the run is not clear: the sentence names the runs), RS_NOTFOUND (no
 * such run), RS_REFUSED (all of them, nobody is chosen, the queue is full), RS_EXISTS (its name), RS_IO. */
RS_MUST_CHECK enum rs_status rs_coord_start(struct rs_coord *coord, const struct rs_coord_ask *ask,
                                            rs_ns now, struct rs_request_answer *answer,
                                            struct rs_coord_capture **capture_p,
                                            struct rs_err *err);

/* What a stream says of itself when it opens. */
struct rs_coord_stream {
    const char *run, *incarnation, *host;
    uint32_t rank, world;
    const char *capture; /* id it was recorded for, or that its chunks are in already; "" */
    const char *key;     /* files */
    const char *user;    /* files: whose they are; NULL, "": unknown */
    const char
        *account; /* files: on whose account a capture that they begin is kept; NULL, "" nobody's */
    rs_dur settle_ns;
};
/* Whether no rank of the collector behind `link` records, or is in a capture that is not closed. */
bool rs_coord_is_idle(const struct rs_coord *coord, const void *link);
/* Whether the collector of the node may send what that process recorded, for the capture (""; or one that is not open: any): not when
 * another one was asked for it, or has the process in the live table. */
bool rs_coord_may_send(struct rs_coord *coord, const struct rs_coord_stream *stream,
                       const char *node);
/* The capture its chunks go to: the one named, the open one of the key, or a new one. RS_NOTFOUND: a capture is
 * named that does not exist (load it with rs_coord_load() and ask again). */
RS_MUST_CHECK enum rs_status rs_coord_stream_opened(struct rs_coord *coord,
                                                    const struct rs_coord_stream *stream, rs_ns now,
                                                    struct rs_coord_capture **capture_p,
                                                    struct rs_err *err);
/* Whether an open capture takes the files of that stream; else it would begin one. */
bool rs_coord_has_key(const struct rs_coord *coord, const struct rs_coord_stream *stream);
/* A stream names a capture that nobody knows: this aggregator's data was replaced, or lost its catalogue. It is begun again
 * under that name, as one whose chunks come by themselves; rs_coord_stream_opened() finds it then. `from`: who had it and is lost, for
 * people; NULL: nobody is known. RS_IO, RS_NOMEM, RS_INVALID (the name is none). */
RS_MUST_CHECK enum rs_status rs_coord_adopt(struct rs_coord *coord,
                                            const struct rs_coord_stream *stream, const char *from,
                                            rs_ns now, struct rs_coord_capture **capture_p,
                                            struct rs_err *err);
/* ---- raw data by policy (raw_policy.c) */

/* Whether a text is a raw policy. RS_INVALID says where it is none. */
RS_MUST_CHECK enum rs_status rs_coord_check_raw(const char *text, struct rs_err *err);
/* What is not wanted stays with its collector. */
bool rs_coord_wants_raw(const struct rs_coord_capture *capture, uint32_t rank);
/* The raw data of these ranks ("" all) is wanted now. The capture is one that is open, or was loaded. RS_NOTFOUND,
 * RS_INVALID, RS_LIMIT, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_coord_fetch(struct rs_coord *coord, const char *id,
                                            const char *ranks, rs_ns now, struct rs_err *err);
/* The last summary of rank `number` is durable. */
void rs_coord_summarised(struct rs_coord *coord, const char *id, uint32_t number,
                         const char *incarnation, bool is_partial, rs_ns now);

/* What became durable at once. */
struct rs_coord_amount {
    uint64_t chunks, bytes;
};
/* Chunks of a rank became durable. */
void rs_coord_stored(struct rs_coord *coord, const char *id, uint32_t number,
                     const char *incarnation, const struct rs_coord_amount *amount, rs_ns now);
void rs_coord_ended(struct rs_coord *coord, const char *id, uint32_t number,
                    const char *incarnation, bool is_partial, rs_ns now);
/* The same of one that ended early and of which no event is there: whatever steps it told, it is lost. */
void rs_coord_ended_empty(struct rs_coord *coord, const char *id, uint32_t number,
                          const char *incarnation, rs_ns now);
/* The store has the end of its raw lane, and the capture may not know: as rs_coord_ended(), unless the rank is final. */
void rs_coord_found_ended(struct rs_coord *coord, const char *id, uint32_t number,
                          const char *incarnation, bool is_partial, rs_ns now);
/* So many chunks of a rank, of whichever lane, are not there any more, as a loss record says: it will end partial. */
void rs_coord_lost(struct rs_coord *coord, const char *id, uint32_t number, const char *incarnation,
                   uint64_t chunks);

/* Messages. What they change is written down with the next tick, once for all of them. */
struct rs_coord_armed {
    uint32_t rank;
    const char *incarnation;
    int64_t step;
    rs_dur step_duration_ns;
    const char *refused; /* "": armed */
    const char *warning; /* NULL, "": nothing */
    rs_ns next_poll_ns;  /* POLLS: see struct rs_coord_rank */
    rs_dur poll_period_ns, lead_ns;
};
void rs_coord_armed(struct rs_coord *coord, const char *id, const struct rs_coord_armed *armed,
                    rs_ns now);
struct rs_coord_report {
    uint32_t rank;
    int64_t steps_done;
    enum rs_progress_state state;
    const char *text;
    rs_ns window_start_ns, window_end_ns; /* 0 unknown */
};
void rs_coord_progress(struct rs_coord *coord, const char *id,
                       const struct rs_coord_report *reported, rs_ns now);

/* Ends it at the next step boundary; what is recorded stays. What waits is dropped. RS_NOTFOUND: not open. */
RS_MUST_CHECK enum rs_status rs_coord_stop(struct rs_coord *coord, const char *capture, rs_ns now,
                                           struct rs_err *err);

/* "files", "flight" (flight recorders, not events), or names of adapters ("native", "kineto", "ascend+mindspore", ...), and back: of adapters that do not come with
 * this program the capabilities are not known then. */
void rs_coord_source(const struct rs_coord_capture *capture, char text[RS_COORD_SOURCE_BYTES]);
void rs_coord_set_source(struct rs_coord_capture *capture, const char *source);

/* The step at which ranks of that adapter begin to record; -1: they are not told one, or it is not fixed yet. */
int64_t rs_coord_start_step(const struct rs_coord_capture *capture,
                            const struct rs_adapter *adapter);

/* An open capture, or NULL. */
struct rs_coord_capture *rs_coord_find(struct rs_coord *coord, const char *id);
/* A capture that was open or waited when the last process ended, or that gets late chunks: copies it (ranks too). */
RS_MUST_CHECK enum rs_status rs_coord_load(struct rs_coord *coord,
                                           const struct rs_coord_capture *capture, rs_ns now,
                                           struct rs_err *err);
/* A capture of another aggregator, which is lost, as that one told of it last: copies it (ranks too), and writes it down here. What its ranks
 * sent to the other one has to come again. RS_IO, RS_NOMEM; RS_EXISTS: there is one of that name. */
RS_MUST_CHECK enum rs_status rs_coord_take_over(struct rs_coord *coord,
                                                const struct rs_coord_capture *capture, rs_ns now,
                                                struct rs_err *err);
/* The other way round: `aggregator`, an id, has it now; `who` it is, for people. It is closed here with what came. */
void rs_coord_give_up(struct rs_coord *coord, const char *id, const char *aggregator,
                      const char *who, rs_ns now);
/* The journal has closed it: forgets it. */
void rs_coord_closed(struct rs_coord *coord, const char *id);

/* Moves what time moves; when to call again at the latest. */
rs_ns rs_coord_tick(struct rs_coord *coord, rs_ns now);

#endif
