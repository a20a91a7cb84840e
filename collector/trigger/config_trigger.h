/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profilers that are told by a file: torch_npu's and MindSpore's dynamic profilers, behind one small interface.
 *
 *   ascend.c     torch_npu      profiler_config.json in PROF_CONFIG_PATH or dp.init(DIR); three log lines answer
 *   mindspore.c  MindSpore      profiler_config.json in the monitor's cfg_path; only the result folder answers
 *
 * One rank's way, moved by rs_config_trigger_tick() but for the first arrow:
 *
 *    IDLE --arm()--> TOLD --it took the file--> ACCEPTED --began--> RECORDING --ended, result complete--> WRITTEN
 *      ^               |                           |                    |                                  |
 *      |               '-- unresponsive, late, deadline, died, file replaced: --+--> FAILED (why) ----release()---'
 *      '--------------------------------------------------------------------------------------------------'
 *
 * Steps are absolute and the profiler's own: `start_step` is the first step that is recorded, or for torch_npu the
 * value of its counter when it begins (its label ProfilerStep#start_step is that of the first recorded step).
 *
 * There are no threads here and nothing waits: all is done in _tick(), _arm(), _probe() and _cancel(), which look at files and
 * processes. One thread at a time. Paths of ranks in containers are reached through /proc/PID/root.
 */
#ifndef RS_TRIGGER_CONFIG_TRIGGER_H
#define RS_TRIGGER_CONFIG_TRIGGER_H

#include "collector/trigger/process.h"
#include "common/base/as_user.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/time.h"
#include "common/request/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
    RS_CONFIG_PATH_BYTES = 1024,
    RS_CONFIG_WHY_BYTES = 512,
    RS_CONFIG_CAPTURE_BYTES = 65,
};

enum rs_config_state {
    RS_CONFIG_STATE_IDLE,
    RS_CONFIG_STATE_NOTIFIED,  /* the file is written */
    RS_CONFIG_STATE_ACCEPTED,  /* the rank said that it took it; it can still be called back */
    RS_CONFIG_STATE_RECORDING, /* warming up or recording */
    RS_CONFIG_STATE_WRITTEN,   /* result_dir is complete as collected; parsing may go on */
    RS_CONFIG_STATE_FAILED,    /* `why` says it */
};
const char *rs_config_state_text(enum rs_config_state state);

/* One rank as the last tick left it. */
struct rs_config_rank {
    struct rs_process process; /* pid and start time are its identity */
    int32_t rank;              /* as its profiler counts; -1: it has none and cannot be named */
    int32_t world;             /* -1 unknown */
    char run[RS_PROCESS_TEXT_BYTES];       /* "" unknown */
    char config_dir[RS_CONFIG_PATH_BYTES]; /* as the rank sees it */
    bool is_gone;                          /* the process has ended */
    rs_ns init_ns;                         /* Unix: when its profiler was set up; 0 unknown */

    /* Health: whether a file can reach it at all, and if not, why and what mends it. */
    bool is_unresponsive;
    char unresponsive_because[RS_CONFIG_WHY_BYTES];
    bool is_busy; /* it profiles for somebody else */

    /* Its counter, when it is known: `step` at the instant step_at (Unix); it goes on by one every step_ns. */
    int64_t step; /* -1 unknown */
    rs_ns step_at;
    rs_dur step_ns;     /* 0 unknown */
    rs_dur poll_period; /* estimate: how often its side looks at the file */
    bool is_probing;    /* probe() is under way; failure: `why` is set and step still -1 */

    /* The capture in hand, or the last one. */
    enum rs_config_state state;
    char capture_id[RS_CONFIG_CAPTURE_BYTES]; /* "" none */
    int64_t start_step;                       /* as asked for last: a rewrite may have moved it */
    int64_t started_step, stopped_step;       /* as the rank said; -1 not yet */
    uint32_t rewrite_count;
    char note[RS_CONFIG_WHY_BYTES]; /* what should be known of this capture; "" nothing */
    bool parses; /* the rank parses its result itself: wait for that before reading */
    char result_dir
        [RS_CONFIG_PATH_BYTES];    /* RECORDING, WRITTEN: as this process can open it; "" none */
    char why[RS_CONFIG_WHY_BYTES]; /* FAILED */
};

/* Where its counter is at `now` (Unix), as far as is known; -1 unknown. */
int64_t rs_config_rank_step_at(const struct rs_config_rank *rank, rs_ns now);

struct rs_config_target {
    pid_t pid;
    uint64_t start_ticks;
};

struct rs_config_arm {
    const char *capture_id; /* letters, digits, '-', '_' */
    /* Lends. Its ranks, is_rank, rank_list, start_step, prof_dir, job_id are not looked at: what follows counts. */
    const struct rs_capture_request *request;
    int64_t start_step; /* > 0 */
    bool
        may_move; /* a start that was missed is moved on, as long as no rank began; the deadline stays */
    const struct rs_config_target *targets;
    size_t target_count;
    rs_dur deadline; /* from now to WRITTEN; later it is FAILED */
};

struct rs_config_trigger_options {
    const char *const *dirs; /* configuration folders named by the user; copied */
    size_t dir_count;
    const char *
        result_root; /* the collector's node-local folder: results go to ROOT/CAPTURE/uUID; copied */
    rs_ns (*monotonic)(void); /* NULL: the system's; a test brings its own */
    rs_ns (*realtime)(void);
    const char *way; /* of MindSpore jobs: "step", "callback"; NULL: learned from a result */
};

struct rs_config_trigger;

/* What a kind of profiler brings. A trigger begins with struct rs_config_trigger. */
struct rs_config_trigger_ops {
    const char *name;   /* "torch_npu" */
    bool selects_ranks; /* false: a file reaches every rank of its folder */
    void (*tick)(struct rs_config_trigger *trigger);
    const struct rs_config_rank *(*ranks)(const struct rs_config_trigger *trigger, size_t *count_p);
    enum rs_status (*arm)(struct rs_config_trigger *trigger, const struct rs_config_arm *arm,
                          struct rs_err *err);
    enum rs_status (*probe)(struct rs_config_trigger *trigger,
                            const struct rs_config_target *target, struct rs_err *err);
    enum rs_status (*cancel)(struct rs_config_trigger *trigger, const char *capture_id,
                             struct rs_err *err);
    void (*release)(struct rs_config_trigger *trigger, const struct rs_config_target *target);
    void (*close)(struct rs_config_trigger *trigger);
};
struct rs_config_trigger {
    const struct rs_config_trigger_ops *ops;
};

/* A kind of profiler that this program was built with. */
#define RS_CONFIG_TORCH_NPU_NAME "torch_npu"
#define RS_CONFIG_MINDSPORE_NAME "mindspore"
struct rs_config_kind {
    const char *name;
    /* RS_NOMEM; RS_INVALID: options->way is none of its own. */
    enum rs_status (*open)(const struct rs_config_trigger_options *options,
                           struct rs_config_trigger **trigger_p, struct rs_err *err);
};
/* Before any thread, once; keeps the pointer. */
void rs_config_kinds_set(const struct rs_config_kind *kinds, size_t count);
bool rs_config_has_kind(const char *name);
/* RS_NOTFOUND: the program was built without it. */
RS_MUST_CHECK enum rs_status rs_config_trigger_open(const char *kind,
                                                    const struct rs_config_trigger_options *options,
                                                    struct rs_config_trigger **trigger_p,
                                                    struct rs_err *err);
void rs_config_trigger_close(struct rs_config_trigger **trigger_p);

/* Looks for processes (at its own pace, some seconds), reads logs, looks at result folders, moves states, rewrites a file that was
 * missed. Call about every 50 ms while something is in hand, every 2 s else. */
void rs_config_trigger_tick(struct rs_config_trigger *trigger);

/* The ranks, in order of run, rank and pid. Lent until the next call on the trigger. */
const struct rs_config_rank *rs_config_trigger_ranks(const struct rs_config_trigger *trigger,
                                                     size_t *count_p);
/* By identity; NULL when it is not there (any more). Lent as above. */
const struct rs_config_rank *rs_config_trigger_find(const struct rs_config_trigger *trigger,
                                                    const struct rs_config_target *target);

/* Writes the file for these ranks. All or nothing: RS_NOTFOUND: one is not there; RS_REFUSED: one is unresponsive, busy, or cannot reach
 * the result folder; RS_EXISTS: another file waits to be taken on this host (ask again when it was); RS_INVALID, RS_IO. */
RS_MUST_CHECK enum rs_status rs_config_trigger_arm(struct rs_config_trigger *trigger,
                                                   const struct rs_config_arm *arm,
                                                   struct rs_err *err);
/* Finds out the step of a rank by a profile of one step, whose result is removed: is_probing until step is known or `why` is
 * set. RS_REFUSED: this kind cannot, or the rank is unresponsive or busy; RS_EXISTS as above. */
RS_MUST_CHECK enum rs_status rs_config_trigger_probe(struct rs_config_trigger *trigger,
                                                     const struct rs_config_target *target,
                                                     struct rs_err *err);
/* Takes back what did not begin yet: then these ranks are IDLE. RS_AGAIN: some record and run to their end. */
RS_MUST_CHECK enum rs_status rs_config_trigger_cancel(struct rs_config_trigger *trigger,
                                                      const char *capture_id, struct rs_err *err);
/* The result was taken, or the failure told: WRITTEN, FAILED -> IDLE. Files are the caller's to remove. */
void rs_config_trigger_release(struct rs_config_trigger *trigger,
                               const struct rs_config_target *target);

/* Removes a result folder with all that is in it, with its owner's rights, following no links. */
void rs_config_result_remove(const char *path);

/* ---- for the kinds ------------------------------------------------------------------------------------------ */

/* Which processes may be ranks: every one whose environment can be read is shown to `visit` when it is new, again while it
 * is young (exec brings another environment), and every 10 s for which `visit` returned true. Cheap when nothing is new: one
 * reading of /proc. */
struct rs_config_scan;
struct rs_config_visit {
    pid_t pid;
    const char *environ_bytes; /* NUL-separated, NUL at the end; lent; may be empty */
    size_t environ_length;
};
typedef bool rs_config_visit_fn(void *self, const struct rs_config_visit *visit);
struct rs_config_scan *rs_config_scan_new(void); /* NULL: no memory */
void rs_config_scan_free(struct rs_config_scan **scan_p);
/* `now` is monotonic. Returns how many were shown. */
size_t rs_config_scan_run(struct rs_config_scan *scan, rs_ns now, rs_config_visit_fn *visit,
                          void *self);
/* Value of a variable of the visited process; NULL. Lent. */
const char *rs_config_variable(const struct rs_config_visit *visit, const char *name);

/* `path` of the process as this process can open it: itself when both mean the same, else below /proc/PID/root. RS_NOTFOUND;
 * RS_REFUSED: it may not be looked at. */
RS_MUST_CHECK enum rs_status rs_config_path_of(pid_t pid, const char *path,
                                               char path_p[RS_CONFIG_PATH_BYTES],
                                               struct rs_err *err);

/* Makes ROOT/CAPTURE/uUID for a rank (0700, its owner) and checks that the rank sees the same folder. */
RS_MUST_CHECK enum rs_status rs_config_result_folder(const char *root, const char *capture_id,
                                                     const struct rs_process *process,
                                                     char path_p[RS_CONFIG_PATH_BYTES],
                                                     struct rs_err *err);

/* ---- the file (config_write.c); any thread ------------------------------------------------------------------- */

/* Replaces DIR/profiler_config.json by way of a temporary file, fsync, utimensat and rename. Its time is `when` (Unix). The old
 * file's mode is kept, and its owner where the writer may; without one it is `owner`'s. A link is followed. A collector of root
 * does all this with the rights of `owner`. */
RS_MUST_CHECK enum rs_status rs_config_write(const char *path, const void *data, size_t length,
                                             const struct timespec *when,
                                             const struct rs_user *owner, struct rs_err *err);

/* Reads such a file with the same rights. As rs_file_read_regular(). */
RS_MUST_CHECK enum rs_status rs_config_read(const char *path, const struct rs_user *owner,
                                            size_t limit_bytes, struct rs_buf *buf,
                                            struct rs_err *err);

/* Whether this process has written these bytes (SHA-256 in hex) with a time in this second, lately: then it is nobody's edit. */
bool rs_config_was_written(const char *sha, int64_t second);

#endif
