/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of collect_kineto share. collect_kineto.c tells the story.
 *
 * Thread: rs-kineto, unless another is said.
 */
#ifndef RS_CLI_COLLECT_KINETO_PRIV_H
#define RS_CLI_COLLECT_KINETO_PRIV_H

#include "cli/collect.h"
#include "cli/collect_mail.h"
#include "cli/collect_trace.h"
#include "collector/trigger/kineto.h"
#include "collector/trigger/kineto_ledger.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    KINETO_READER_COUNT = 2,
    KINETO_TEXT_BYTES = RS_KINETO_LEDGER_TEXT_BYTES,
    KINETO_WARMUP_S = 0,
};

enum job_phase { PREPARED, TOLD, QUEUED, READING, OVER };

struct job {
    struct job *next;
    struct rs_collect_kineto *kineto;
    struct rs_kineto_job
        facts;            /* who, and what is asked: as it is written down; PREPARED: not yet */
    enum job_phase phase; /* from QUEUED on under the lock */
    rs_ns prepared_at;
    enum rs_kineto_state shown;
    struct rs_trace_task task;
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

struct row {
    char run[KINETO_TEXT_BYTES], host[KINETO_TEXT_BYTES], incarnation[KINETO_TEXT_BYTES];
    char capture[65];
    Rankscope__RankState state;
};

struct rs_collect_kineto {
    struct rs_collect_kineto_options options;
    char *run, *host, *trace_dir, *ledger_dir;
    struct rs_kineto_trigger *trigger;
    int wake;
    atomic_bool must_stop;
    pthread_t thread, readers[KINETO_READER_COUNT];
    size_t reader_count;
    bool has_thread;
    struct job *jobs; /* of rs-kineto; readers see the one they took */
    struct memory *memories;
    size_t memory_count, memory_capacity;
    int64_t last_bytes_per_s; /* of any rank; 0 none yet */
    struct rs_mailbox inbox, outbox;

    pthread_mutex_t lock; /* guards phases of jobs, the queue, the table */
    pthread_cond_t queue_filled;
    struct row *table;
    size_t table_count, table_capacity;

    struct row *copy; /* the uplink thread's */
    Rankscope__RankState **copy_states;
    size_t copy_capacity, copy_state_capacity;
};

/* ---- who (collect_kineto.c) ---- */
const char *kineto_run_of(const struct rs_collect_kineto *kineto,
                          const struct rs_kineto_client *client);
/* host:pid:start, and a mark of the spool: its numbers begin at 1 again when the spool is another. */
void kineto_incarnation_of(const struct rs_collect_kineto *kineto,
                           const struct rs_kineto_client *client, char text[KINETO_TEXT_BYTES]);
const struct rs_kineto_client *kineto_find_client(const struct rs_collect_kineto *kineto, pid_t pid,
                                                  uint64_t start_ticks);
/* The newest living process of a rank. */
const struct rs_kineto_client *kineto_find_rank(const struct rs_collect_kineto *kineto,
                                                const char *run, uint32_t rank);
struct memory *kineto_memory_of(struct rs_collect_kineto *kineto, pid_t pid, uint64_t start_ticks);

/* ---- telling (collect_kineto.c); any thread ---- */
void kineto_wake_uplink(struct rs_collect_kineto *kineto);
void kineto_tell(struct job *job, enum rs_progress_state state, const char *text);
void kineto_tell_of(struct rs_collect_kineto *kineto, const char *capture, uint32_t rank,
                    enum rs_progress_state state, const char *text);

/* ---- letters (collect_kineto_ask.c) ---- */
void kineto_read_inbox(struct rs_collect_kineto *kineto);
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
