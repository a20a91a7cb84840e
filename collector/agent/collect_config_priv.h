/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of collect_config share. collect_config.c tells the story.
 *
 * Thread: the adapter's own, unless another is said.
 */
#ifndef RS_AGENT_COLLECT_CONFIG_PRIV_H
#define RS_AGENT_COLLECT_CONFIG_PRIV_H

#include "collector/agent/adapter.h"
#include "collector/agent/collect_config.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CONFIG_TEXT_BYTES = RS_AGENT_TEXT_BYTES };

enum config_phase {
    CONFIG_ASKING,   /* its step is being found out */
    CONFIG_PREPARED, /* armed was answered */
    CONFIG_TURN,     /* COMMIT came; another file waits to be taken */
    CONFIG_NOTIFIED,
    CONFIG_PARSING, /* recorded; the vendor's parser is at work */
    CONFIG_QUEUED,
    CONFIG_READING,
    CONFIG_OVER,
};

/* What is to be told to the ranks of one folder. */
struct config_turn {
    struct config_turn *next;
    struct rs_capture_request request;
    char capture[65];
    char config_dir[RS_CONFIG_PATH_BYTES];
    int64_t start_step;
    bool may_move;
    rs_ns deadline; /* monotonic */
};

struct config_job {
    struct config_job *next;
    struct rs_collect_config *config;
    char capture[65];
    char run[CONFIG_TEXT_BYTES], host[CONFIG_TEXT_BYTES], incarnation[CONFIG_TEXT_BYTES];
    char config_dir[RS_CONFIG_PATH_BYTES];
    uint32_t rank;
    int32_t world;
    struct rs_config_target target;
    enum config_phase phase; /* under the lock: the reader looks at all of them */
    rs_ns prepared_at, said_at;
    bool is_prober;
    char warning[512];
    struct config_turn *turn;
    int64_t user; /* of its process: 1 + its number */
    int64_t start_step;
    enum rs_config_state shown;
    int64_t steps_done;
    bool parses;
    rs_ns looked_at, changed_at; /* of a result that is being parsed */
    rs_ns written_ns;    /* of the last file of a result that is whole, Unix ns; 0 not seen */
    int64_t change_mark; /* mark of its files: it changes while somebody writes */
    char path[RS_CONFIG_PATH_BYTES];
    char note[RS_CONFIG_WHY_BYTES];
    /* of the reader */
    rs_ns window_start_ns, window_end_ns;
    int64_t bytes;
    bool has_failed, is_kept;
    struct rs_err err;
};

struct rs_collect_config {
    struct rs_agent_adapter
        base; /* first; its lock guards phases of jobs, and the list while a reader looks */
    struct rs_collect_config_options options;
    char *trace_dir;
    const char *name; /* of the profiler, for people */
    struct rs_config_trigger *trigger;
    pthread_t thread, reader;
    bool has_thread, has_reader;
    struct config_job *jobs;
    struct config_turn *turns;
    int64_t last_bytes_per_step; /* of any rank; 0 none yet */
    pthread_cond_t queue_filled;
};

/* ---- who, and telling (collect_config.c) ---- */
const char *config_run_of(const struct rs_collect_config *config,
                          const struct rs_config_rank *rank);
void config_incarnation_of(const struct rs_collect_config *config,
                           const struct rs_config_rank *rank, char text[CONFIG_TEXT_BYTES]);
/* The newest living process of a rank. */
const struct rs_config_rank *config_find_rank(const struct rs_collect_config *config,
                                              const char *run, uint32_t rank);
/* Any thread. */
void config_report(struct config_job *job, enum rs_progress_state state, const char *text);
void config_refuse(struct rs_collect_config *config, const char *capture, uint32_t rank,
                   const char *incarnation, const char *why);

/* ---- messages (collect_config_ask.c) ---- */
extern const struct rs_agent_handlers config_handlers;
void config_ask_steps(struct rs_collect_config *config); /* moves ASKING */
void config_take_turns(struct rs_collect_config *config);

/* ---- jobs (collect_config_job.c) ---- */
enum config_phase config_phase_of(struct rs_collect_config *config, const struct config_job *job);
void config_set_phase(struct config_job *job, enum config_phase phase);
struct config_job *config_job_of(const struct rs_collect_config *config, pid_t pid);
void config_remove_job(struct rs_collect_config *config, struct config_job *job);
bool config_watch_jobs(struct rs_collect_config *config); /* true: something is in hand */

/* ---- reading (collect_config_read.c) ---- */
void *config_read_results(void *self); /* a reader thread's life */
/* What a result has come to. RS_OK: it can be read. RS_AGAIN: it is being parsed, perhaps; RS_NOTFOUND: only raw data, and
 * nothing changes any more. */
enum rs_status config_look_at_result(struct config_job *job, rs_ns now);

#endif
