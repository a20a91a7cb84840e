/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's end of Kineto's IPC: unmodified PyTorch processes started with KINETO_USE_DAEMON=1
 * poll us every few seconds; we answer each poll at once, and one of the answers starts a capture.
 *
 * There is no acknowledgement in the protocol. What can be seen is the arrival of polls, their busy bit,
 * the trace's temporary name, its final name, and the death of the process:
 *
 *    IDLE --arm()--> ARMED --poll answered--> DELIVERED --.tmp seen--> RECORDING --grows--> WRITING
 *                      |                         |                        |                   |
 *                      |                         |  final name seen: .----+-------------------'
 *                      |                         |                   v
 *                      |                         |                WRITTEN
 *                      `--deadline, death, refusal--> FAILED (with the reason in words)
 *
 *    every arrow but arm() and the answer is moved by rs_kineto_trigger_tick().
 *
 * A process that took a request for steps keeps it until it makes them: one that hangs may begin hours later. So such a request stays in
 * hand beyond its deadline (is_overdue), until it was carried out or the process ended: nothing records unattended.
 *
 * One that is RECORDING and overdue may never end. libkineto collects a trace of steps in a thread of its own, which it notes behind its start; where
 * the training's thread is kept from its core until that one is through and the loop's next tick (1 Hz) has come, the note is of a thread that is over, and
 * the next trace is never collected: its profiler is busy for good and records into the memory of its process (25 MB/s were seen with PyTorch 2.15 at
 * a load of 30, once in some 50 captures of 4 ranks). Nobody outside can end that but by ending the process; the script's own torch.profiler
 * does, when it starts. A busy profiler is asked nothing.
 *
 * Promises: exactly one answer per poll, from the bound socket, without waiting; a configuration only
 * when the client says it can take one, once per capture; never a word to a process that is no rank.
 * A stranger's datagram can cost its own answer only.
 *
 * Driven by its owner's poll loop; one thread.
 */
#ifndef RS_TRIGGER_KINETO_H
#define RS_TRIGGER_KINETO_H

#include "collector/trigger/kineto_config.h"
#include "collector/trigger/process.h"
#include "common/base/err.h"
#include "common/base/time.h"

#include <stdbool.h>
#include <stddef.h>

struct rs_kineto_trigger;

enum rs_kineto_state {
    RS_KINETO_IDLE,
    RS_KINETO_ARMED,
    RS_KINETO_DELIVERED,
    RS_KINETO_RECORDING, /* warming up or recording: the temporary file is empty */
    RS_KINETO_WRITING,   /* the temporary file grows */
    RS_KINETO_WRITTEN,
    RS_KINETO_FAILED,
};
const char *rs_kineto_state_text(enum rs_kineto_state state);

/* One registered process, as the last poll left it. */
struct rs_kineto_client {
    struct rs_process process;
    bool is_rank;                 /* false: a launcher, or a child that inherited its rank */
    const char *not_rank_because; /* static sentence, NULL for ranks */
    bool is_gone;                 /* the process has ended; the last tick saw it */
    bool is_busy;                 /* it records for somebody else: a capture is refused */
    bool is_overdue; /* DELIVERED or RECORDING, its deadline has passed, and it may go on yet */
    rs_ns first_poll, last_poll; /* monotonic */
    rs_dur poll_period;          /* as measured; the client's default of 5 s until two polls came */
    enum rs_kineto_state state;
    char capture_id[65];   /* of the capture in hand or the last one; "" none */
    char trace_path[1100]; /* WRITTEN: the final file as this process can open it */
    int64_t trace_bytes;   /* of the temporary or final file; -1 not seen */
    int64_t
        memory_at_begin_bytes; /* of the process, resident, when its file was seen first; -1 not known */
    char failure[256];         /* FAILED: why */
};

struct rs_kineto_trigger_options {
    const char *socket_dir;  /* KINETO_IPC_SOCKET_DIR of the ranks; NULL: abstract sockets */
    const char *socket_name; /* NULL: "dynolog", the only name that real clients ask */
    const char *
        msmonitor_home; /* NULL: none. Clients of msMonitor are answered at HOME/dynolog.sock, too */
    rs_ns (*monotonic)(void); /* NULL: the system's; a test brings its own */
    /* Called before a request is sent to a process, so that its owner can write down that it has it: once it is sent, it
     * cannot be called back. Must not wait: the process waits for 40 ms only. NULL: nobody asks. */
    void (*before_delivery)(void *self, const struct rs_kineto_client *client);
    void *self;
};

/* RS_EXISTS: another daemon serves this name; the sentence says which process. RS_IO. */
RS_MUST_CHECK enum rs_status rs_kineto_trigger_open(const struct rs_kineto_trigger_options *options,
                                                    struct rs_kineto_trigger **trigger_p,
                                                    struct rs_err *err);
void rs_kineto_trigger_close(struct rs_kineto_trigger **trigger_p);

int rs_kineto_trigger_fd(const struct rs_kineto_trigger *trigger); /* readable: call _serve() */
/* All of them: the one above, and those of msMonitor's clients; how many. */
enum { RS_KINETO_FDS_MAX = 3 };
size_t rs_kineto_trigger_fds(const struct rs_kineto_trigger *trigger, int fds[RS_KINETO_FDS_MAX]);

/* Answers every datagram that waits. Never blocks. */
void rs_kineto_trigger_serve(struct rs_kineto_trigger *trigger);

/* Looks at files and processes of captures in hand; forgets processes that are gone. Call about once a second. */
void rs_kineto_trigger_tick(struct rs_kineto_trigger *trigger);

/* The registered processes, in order of rank and pid. Lent until the next call on the trigger. */
const struct rs_kineto_client *rs_kineto_trigger_clients(const struct rs_kineto_trigger *trigger,
                                                         size_t *count_p);

/* When its next poll is expected (Unix ns); now, when it is overdue. */
rs_ns rs_kineto_trigger_next_poll(const struct rs_kineto_trigger *trigger,
                                  const struct rs_kineto_client *client);
/* From a poll that gets the answer to the first instant that client can record: the reply window, one tick of its
 * 1 Hz loop, the warm-up. */
rs_dur rs_kineto_trigger_lead(int32_t warmup_s);

/* The earliest start time (Unix ms) that this client can still make when armed now: the rest of its poll period, the
 * reply window, one tick of its 1 Hz loop, the warm-up. */
int64_t rs_kineto_trigger_earliest_ms(const struct rs_kineto_trigger *trigger,
                                      const struct rs_kineto_client *client, int32_t warmup_s);

struct rs_kineto_arm {
    pid_t pid;
    const char *capture_id; /* becomes trace id and folder name: letters, digits, '-', '_' */
    const char
        *trace_root; /* folder for traces: /tmp/... or below the rank's KINETO_ONDEMAND_TRACE_DIR */
    struct rs_kineto_config config; /* log_file and trace_id are filled in here */
    rs_dur deadline;                /* from now to WRITTEN; later it is FAILED, or overdue */
    /* Unix ns. Polls before `deliver_from` get nothing, so that all ranks are told soon after one another; nor do polls
     * after `deliver_until`, when the start could not be made any more: it is FAILED then. 0: no such limit. */
    rs_ns deliver_from, deliver_until;
};

/* Prepares the folder with the rank's owner and keeps the configuration for its next poll. RS_NOTFOUND: no such process;
 * RS_REFUSED: no rank, or busy; RS_EXISTS: a capture is in hand; RS_INVALID: path or numbers. */
RS_MUST_CHECK enum rs_status rs_kineto_trigger_arm(struct rs_kineto_trigger *trigger,
                                                   const struct rs_kineto_arm *arm,
                                                   struct rs_err *err);
/* A capture that a collector before this one had in hand, as that wrote it down. */
struct rs_kineto_adopt {
    struct rs_process process; /* pid, start_ticks, uid, rank, world_size and run count */
    struct rs_kineto_arm arm;  /* of what is delivered, the configuration does not count */
    bool is_delivered;         /* it has the request: only its files and its end are watched */
    rs_ns last_poll;           /* Unix ns */
    rs_dur poll_period;        /* 0: the client's default */
};

/* Goes on with it: also of a process that has ended meanwhile, whose trace may be complete; the next ticks tell. As
 * rs_kineto_trigger_arm() when it is not delivered. RS_NOTFOUND, RS_EXISTS, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_kineto_trigger_adopt(struct rs_kineto_trigger *trigger,
                                                     const struct rs_kineto_adopt *adopt,
                                                     struct rs_err *err);

/* Takes back what was not delivered yet: then RS_OK and IDLE. Delivered ones run to their end: RS_AGAIN. */
RS_MUST_CHECK enum rs_status rs_kineto_trigger_cancel(struct rs_kineto_trigger *trigger, pid_t pid);

/* Counts since open, for people and /metrics. */
struct rs_kineto_counts {
    int64_t polls, registrations, refused_datagrams, unanswerable, configs_sent;
    int64_t msmonitor_clients; /* now: see kineto_msmonitor.h */
    int64_t msmonitor_status_messages, msmonitor_data_messages, msmonitor_data_bytes;
};
struct rs_kineto_counts rs_kineto_trigger_counts(const struct rs_kineto_trigger *trigger);

#endif
