/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mindspore.c (telling), mindspore_file.c (the file), mindspore_capture.c (from the file to the results),
 * mindspore_find.c (who is there, can it be reported) and mindspore_result.c (what came of it) share.
 *
 *   member: one rank's process --attached to--> block: shared memory of one hour, with its monitor
 *                                                 block --its monitor reads--> config_dir: one configuration folder
 *   config_dir: one capture at a time ("in hand"); blocks and config_dirs are kept by index, members are moved when others go.
 */
#ifndef RS_TRIGGER_MINDSPORE_PRIV_H
#define RS_TRIGGER_MINDSPORE_PRIV_H

#include "ascend/adapter/mindspore.h"
#include "ascend/adapter/mindspore_text.h"
#include "collector/trigger/process_life.h"
#include "common/base/buf.h"

#include <sys/stat.h>

enum { MINDSPORE_NONE = -1, MINDSPORE_FILE_LIMIT_BYTES = 1024 * 1024 };

/* A result folder, as far as it is. */
struct mindspore_result {
    char dir[RS_CONFIG_PATH_BYTES]; /* "": not there yet */
    rs_ns begun_ns;                 /* Unix, from its name */
    rs_ns collected_ns;             /* Unix: recording ended; 0 not yet */
    rs_ns newest_ns;                /* Unix: youngest file; 0 not looked at */
    bool parsing_began, is_parsed;
    rs_ns parsed_ns;           /* Unix; 0 not yet */
    bool has_output;           /* ASCEND_PROFILER_OUTPUT has a file */
    enum rs_mindspore_way way; /* as profiler_info tells it; unknown without one */
};

struct mindspore_member {
    struct rs_config_rank shown;
    struct rs_process_hold hold;
    int64_t inner_pid; /* in its own count: what its results are called by */
    ptrdiff_t block;
    int block_fd; /* of the process */
    rs_ns began_ns;
    char own_dir[RS_CONFIG_PATH_BYTES]; /* as its stdout says; "" unknown */
    bool uses_msmonitor;

    /* Of the capture in hand. */
    bool is_target;
    struct mindspore_result result;
    int64_t log_offset; /* stdout; -1: it is no file */
    bool said_start, said_stop;
    rs_ns accepted_at; /* monotonic */
    rs_ns
        recorded_wait; /* monotonic: complete, waiting a moment for the line that tells the way; 0 */

    struct mindspore_pair last; /* that it began to record; start -1 none */

    /* What captures told of its counter: it was `step` at step_at (Unix). */
    int64_t step; /* -1 unknown */
    rs_ns step_at;
    rs_dur measured_ns; /* of a step, while it was recorded last */
    rs_dur pace_ns;     /* of a step from `anchor` to the last capture; 0 unknown */
    rs_dur pace_over;   /* the time between the two */
    /* Where a pace is measured from: the end of an earlier capture. */
    int64_t anchor_step; /* valid with anchor_at */
    rs_ns anchor_at;     /* Unix; 0 none */
};

/* A child of a rank that holds the block and has one thread: the monitor, or a parser, or a worker of a data set. */
struct mindspore_helper {
    pid_t pid, parent;
    uint64_t start_ticks;
    ptrdiff_t block;
    bool is_child; /* its parent had the block, too, when it was first seen: it never is a rank */
};

struct mindspore_block {
    dev_t device;
    ino_t inode;
    char name[32];
    rs_ns made_ns;
    pid_t monitor; /* 0: none lives */
    uint64_t monitor_ticks;
    bool is_orphan;     /* its rank is gone */
    bool had_monitor;   /* one was seen since this process looks */
    pid_t dead_monitor; /* ended, and its rank has not noticed; 0 */
    pid_t asked_log_of; /* monitor whose stdout was read */
    char monitor_dir[RS_CONFIG_PATH_BYTES];
    ptrdiff_t config_dir;
    struct mindspore_pair pair; /* as the block has it */
    bool is_pair_known;
};

enum mindspore_phase {
    MINDSPORE_FREE,
    MINDSPORE_NOTIFIED, /* a capture is in hand */
    MINDSPORE_LEAVING,  /* the file holds a pair that is never reached, until nobody records */
};

struct mindspore_file { /* as it was when we looked */
    dev_t device;
    ino_t inode;
    struct timespec mtime;
    off_t size;
};

struct mindspore_config_dir {
    char dir[RS_CONFIG_PATH_BYTES];  /* as the ranks see it */
    char path[RS_CONFIG_PATH_BYTES]; /* of the file, as this process opens it */
    struct rs_user owner;            /* of its ranks: the file is written with their rights */
    enum rs_mindspore_way way;

    enum mindspore_phase phase;
    char capture_id[RS_CONFIG_CAPTURE_BYTES];
    struct mindspore_pair pair;
    int64_t step_count;
    bool may_move, parses, parses_beside;
    char folder[RS_CONFIG_PATH_BYTES];
    rs_ns reported_ns;              /* Unix */
    rs_ns notified_at, deadline_at; /* monotonic */
    rs_ns left_at;                  /* monotonic: when the parking pair was written */
    struct rs_buf original;         /* the file before this capture */
    struct rs_buf written;          /* what we wrote last; empty: nothing that stands */
    struct mindspore_file seen;
    bool is_foreign; /* somebody else has replaced what we wrote */
    bool is_taken;   /* by the monitor: seen once */
    rs_dur slowest_take_ns;
};

struct mindspore_trigger {
    struct rs_config_trigger base; /* first */
    char **dirs;
    size_t dir_count;
    char *result_root;
    enum rs_mindspore_way way;
    rs_ns (*monotonic)(void);
    rs_ns (*realtime)(void);
    struct rs_config_scan *scan;
    rs_ns scanned_at, checked_at;
    struct mindspore_member *members;
    size_t member_count, member_capacity;
    struct mindspore_helper *helpers;
    size_t helper_count, helper_capacity;
    struct mindspore_block *blocks;
    size_t block_count, block_capacity;
    struct mindspore_config_dir *config_dirs;
    size_t config_dir_count, config_dir_capacity;
    struct rs_config_rank *table; /* what callers see, in order */
    size_t table_count, table_capacity;
};

static inline struct mindspore_block *mindspore_block_of(const struct mindspore_trigger *trigger,
                                                         const struct mindspore_member *member)
{
    return &trigger->blocks[member->block];
}

/* NULL: the folder is not known. */
static inline struct mindspore_config_dir *
mindspore_config_dir_of(const struct mindspore_trigger *trigger,
                        const struct mindspore_member *member)
{
    const ptrdiff_t config_dir = trigger->blocks[member->block].config_dir;
    return config_dir == MINDSPORE_NONE ? NULL : &trigger->config_dirs[config_dir];
}

static inline bool mindspore_is_of(const struct mindspore_trigger *trigger,
                                   const struct mindspore_member *member,
                                   const struct mindspore_config_dir *config_dir)
{
    return mindspore_config_dir_of(trigger, member) == config_dir;
}

static inline bool mindspore_is_same_pair(const struct mindspore_pair *a,
                                          const struct mindspore_pair *b)
{
    return a->start == b->start && a->stop == b->stop;
}

/* ---- mindspore_file.c ------------------------------------------------------------------------------------------- */

/* A pair beyond any training, and a number that everybody can read. */
extern const struct mindspore_pair mindspore_parking;

/* Puts a text there, whole, and remembers it as ours. */
RS_MUST_CHECK enum rs_status mindspore_write(struct mindspore_trigger *trigger,
                                             struct mindspore_config_dir *config_dir,
                                             struct rs_buf *text, struct rs_err *err);
/* What stands there is not what we wrote. */
bool mindspore_was_replaced(struct mindspore_config_dir *config_dir);
/* config_dir->original with another pair; the template where that is none. */
RS_MUST_CHECK enum rs_status mindspore_resting_text(const struct mindspore_config_dir *config_dir,
                                                    const struct mindspore_pair *pair,
                                                    struct rs_buf *buf);
/* Writes it; what goes wrong is logged. */
void mindspore_rest(struct mindspore_trigger *trigger, struct mindspore_config_dir *config_dir,
                    const struct mindspore_pair *pair);
/* Other nodes may read the same file. */
bool mindspore_is_shared(const struct mindspore_config_dir *config_dir);

/* ---- mindspore_capture.c ---------------------------------------------------------------------------------------- */

/* A target that has neither a result nor failed. */
bool mindspore_is_under_way(const struct mindspore_member *member);
void mindspore_tick_notified(struct mindspore_trigger *trigger,
                             struct mindspore_config_dir *config_dir);
void mindspore_tick_leaving(struct mindspore_trigger *trigger,
                            struct mindspore_config_dir *config_dir);
/* The capture is given up: its pair goes, and with it what was not begun. */
void mindspore_leave(struct mindspore_trigger *trigger, struct mindspore_config_dir *config_dir);
/* Fills the rank's step, as it is at most. */
void mindspore_report_step(const struct mindspore_trigger *trigger,
                           struct mindspore_member *member);
/* What a whole capture of `count` steps from `first` on tells of the counter; is_beside: its result was parsed beside the training. */
void mindspore_remember_step(struct mindspore_member *member, int64_t first, int64_t count,
                             bool is_beside);
/* The counter as it is at least; -1 unknown. */
int64_t mindspore_step_at_least(const struct mindspore_trigger *trigger,
                                const struct mindspore_member *member);

/* ---- mindspore.c ---------------------------------------------------------------------------------------------------- */

/* The file for a pair: every key. Raw data of MindSpore can be read by its own parser only, so it parses. */
RS_MUST_CHECK enum rs_status mindspore_pair_text(const struct mindspore_config_dir *config_dir,
                                                 const struct rs_capture_request *request,
                                                 const struct mindspore_pair *pair,
                                                 struct rs_buf *text, struct rs_err *err);

/* ---- mindspore_find.c ------------------------------------------------------------------------------------------- */

/* Looks for processes that are new. */
void mindspore_find(struct mindspore_trigger *trigger);
/* Looks at those that are known: who lives, which monitor serves, which folder it reads, who is unresponsive and why. */
void mindspore_check_health(struct mindspore_trigger *trigger);
/* Reads the block's text as it is now; at most `bytes` - 1 of it. False: it cannot be read. */
bool mindspore_block_read(const struct mindspore_trigger *trigger,
                          const struct mindspore_block *block, char *text, size_t bytes);

/* ---- mindspore_result.c ------------------------------------------------------------------------------------------ */

/* Looks for the result of a pair below `folder`, of the process with this pid in its own count. False: not there yet. */
bool mindspore_result_look(const char *folder, const struct mindspore_pair *pair, int64_t inner_pid,
                           struct mindspore_result *result);
/* Fills newest_ns: walks the folder. */
void mindspore_result_age(struct mindspore_result *result);

/* Hands the lines of [offset, end) of a process's stdout to `take`, at most `limit_bytes` of them; where it ended. -1: it is no
 * file. A line that is not whole yet is left for the next time. */
typedef void mindspore_line_fn(void *self, const struct mindspore_line *line);
int64_t mindspore_stdout_lines(pid_t pid, int64_t offset, size_t limit_bytes,
                               mindspore_line_fn *take, void *self);
/* Its length; -1: it is no file. */
int64_t mindspore_stdout_length(pid_t pid);

#endif
