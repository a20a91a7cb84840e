/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of collect_kineto share. collect_kineto.c tells the story.
 *
 * Thread: rs-kineto, unless another is said.
 */
#ifndef RS_AGENT_COLLECT_KINETO_PRIV_H
#define RS_AGENT_COLLECT_KINETO_PRIV_H

#include "collector/agent/adapter.h"
#include "collector/agent/collect.h"
#include "collector/agent/collect_trace.h"
#include "collector/agent/host_samples.h"
#include "collector/trigger/kineto.h"
#include "collector/trigger/kineto_ledger.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    KINETO_READER_COUNT = 2,
    KINETO_TEXT_BYTES = RS_KINETO_LEDGER_TEXT_BYTES,
    KINETO_WARMUP_S = 0,
    KINETO_PROBE_FIRST = 1,
    KINETO_PROBE_STEPS = 2, /* two optimizers in a step count two: then it is a whole one */
};

enum job_phase { PREPARED, TOLD, QUEUED, READING, OVER };

struct job {
    struct job *next;
    struct rs_collect_kineto *kineto;
    struct rs_kineto_job
        facts;            /* who, and what is asked: as it is written down; PREPARED: not yet */
    enum job_phase phase; /* from QUEUED on under the lock */
    rs_ns prepared_at;
    bool is_probe; /* what it is told is the probe of the step time, not what was asked */
    bool
        is_called_back; /* nobody waits for it any more: a probe is removed when it is over, else the next watch does it */
    bool is_overdue;           /* told as lost; what it writes yet is taken all the same */
    bool is_waiting;           /* PREPARED: it answers when the probe on another rank is over */
    rs_ns said_at;             /* that it waits; monotonic */
    int64_t said_growth_bytes; /* overdue: of its process's memory, as it was logged last */
    char warning[512];         /* goes with its answer */
    enum rs_kineto_state shown;
    struct rs_trace_task task;
    struct rs_host_samples *samples; /* TOLD: taken here; behind that the reader's. NULL: none */
    bool is_written_down;
    bool is_left; /* to the next collector: its file and its folder stay */
    bool has_failed;
    struct rs_err err;
};

/* What an earlier capture told of a process. */
struct memory {
    pid_t pid;
    uint64_t start_ticks;
    rs_dur step_ns;
    int64_t bytes_per_s;
};

struct rs_collect_kineto {
    struct rs_agent_adapter base; /* first; its lock guards phases of jobs and the queue, too */
    char *trace_dir, *ledger_dir;
    struct rs_kineto_trigger *trigger;
    pthread_t thread, readers[KINETO_READER_COUNT];
    size_t reader_count;
    bool has_thread;
    struct job *jobs; /* of rs-kineto; readers see the one they took */
    struct memory *memories;
    size_t memory_count, memory_capacity;
    int64_t last_bytes_per_s; /* of any rank; 0 none yet */
    pthread_cond_t queue_filled;
};

/* ---- who (collect_kineto.c) ---- */
const char *kineto_run_of(const struct rs_collect_kineto *kineto,
                          const struct rs_kineto_client *client);
void kineto_incarnation_of(const struct rs_collect_kineto *kineto,
                           const struct rs_kineto_client *client, char text[KINETO_TEXT_BYTES]);
const struct rs_kineto_client *kineto_find_client(const struct rs_collect_kineto *kineto, pid_t pid,
                                                  uint64_t start_ticks);
/* The newest living process of a rank. */
const struct rs_kineto_client *kineto_find_rank(const struct rs_collect_kineto *kineto,
                                                const char *run, uint32_t rank);
/* Why a job that is overdue is: into `text`, as a sentence for whoever asked. */
void kineto_overdue_text(const struct rs_kineto_client *client, char *text, size_t bytes);
/* By how much the memory of its process has grown since it began to record; 0 not known, or not at all. */
int64_t kineto_growth(const struct rs_kineto_client *client);

/* How long a step of its run is, from captures and probes of that process, else of others of the run: ranks go in lock
 * step; 0 unknown. */
rs_dur kineto_step_of(struct rs_collect_kineto *kineto, const struct rs_kineto_client *client);
struct memory *kineto_memory_of(struct rs_collect_kineto *kineto, pid_t pid, uint64_t start_ticks);

/* ---- telling (collect_kineto.c); any thread ---- */
void kineto_report(struct job *job, enum rs_progress_state state, const char *text);
void kineto_report_of(struct rs_collect_kineto *kineto, const char *capture, uint32_t rank,
                      enum rs_progress_state state, const char *text);

/* ---- messages (collect_kineto_ask.c) ---- */
extern const struct rs_agent_handlers kineto_handlers;
/* Says that it is armed, with what is known of its step time. */
void kineto_answer_armed(struct rs_collect_kineto *kineto, struct job *job);
/* It will not record. */
void kineto_refuse(struct rs_collect_kineto *kineto, const char *capture, uint32_t rank,
                   const char *incarnation, const char *why);
/* Of those that wait for the step time of this capture, one is asked for a probe of so many iterations; all answer when
 * nobody can be asked. */
void kineto_probe_step(struct rs_collect_kineto *kineto, const char *capture, uint32_t steps);
/* What a COMMIT asks for, but for its times and places. */
void kineto_take_request(struct rs_kineto_job *facts, const Rankscope__Commit *commit);
void kineto_fill_config(const struct rs_kineto_job *facts, struct rs_kineto_config *config);

/* ---- jobs (collect_kineto_job.c) ---- */
enum job_phase kineto_phase_of(struct rs_collect_kineto *kineto, const struct job *job);
struct job *kineto_job_of_process(const struct rs_collect_kineto *kineto, pid_t pid);
/* Writes its facts down; what cannot be written is told in the log, and the capture goes on. */
void kineto_write_down(struct job *job, enum rs_kineto_phase phase);
/* Forgets it here and on disk. */
void kineto_remove_job(struct rs_collect_kineto *kineto, struct job *job);
/* true: something is in hand. */
bool kineto_watch_jobs(struct rs_collect_kineto *kineto);
/* A reader thread's life: takes queued jobs until the end. `self` is the collect_kineto. */
void *kineto_read_traces(void *self);
/* The trigger is about to hand a process its request. */
void kineto_before_delivery(void *self, const struct rs_kineto_client *client);
/* Goes on with what a collector before this one had in hand. Before any thread is started. */
void kineto_adopt_jobs(struct rs_collect_kineto *kineto);

#endif
