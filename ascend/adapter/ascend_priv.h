/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The torch_npu trigger's back room.
 *
 *   ascend_find.c     which processes are ranks, which are monitors; what their logs say
 *   ascend_health.c   can the file reach them, and if not, why
 *   ascend_file.c     the file: its text, its time, other collectors that write the same one
 *   ascend_notice.c     one file on its way: taken, missed, too late, called back
 *   ascend_result.c   folders of results
 *   ascend.c          the door
 */
#ifndef RS_TRIGGER_ASCEND_PRIV_H
#define RS_TRIGGER_ASCEND_PRIV_H

#include "ascend/adapter/ascend.h"
#include "ascend/adapter/ascend_log.h"
#include "collector/trigger/process_life.h"

enum { ASCEND_BLOCK_BYTES = 64 };

/* A configuration folder: one file, and the ranks that listen to it. */
struct config_dir {
    char dir[RS_CONFIG_PATH_BYTES];   /* as its ranks see it */
    char local[RS_CONFIG_PATH_BYTES]; /* as we open it */
    dev_t device;
    ino_t inode;
    int64_t last_second; /* the latest time the file was seen or written with; 0 none */
    rs_dur poll;         /* of its monitor; the profiler's default until it said another */
    int64_t anchor_step; /* the counter of one of its ranks at anchor_at; -1 none */
    rs_ns anchor_at;
    /* What its ranks told last, and it stays when they end: ranks of one job count alike. */
    int64_t step; /* -1 unknown */
    rs_ns step_at;
    rs_dur step_ns;     /* 0 unknown */
    bool is_rate_clean; /* step_ns comes from steps without a profiler: these */
    int64_t rate_steps;
    rs_dur rate_ns;
};

enum notice_kind { NOTICE_CAPTURE, NOTICE_PROBE, NOTICE_CANCEL };

/* A file that was written, or is about to be, for some ranks. */
struct notice {
    struct notice *next;
    enum notice_kind kind;
    char id[RS_CONFIG_CAPTURE_BYTES];
    struct config_dir *config_dir;
    struct rs_user owner; /* the file is written with the rights of its ranks */
    struct rs_buf text;   /* the file but for start_step and the ranks */
    int64_t start_step;   /* -1 at once (probe), 0 never (cancel) */
    bool may_move, is_everybody;
    bool is_written;
    rs_ns written_at;  /* monotonic */
    rs_ns checked_at;  /* that the file is still ours */
    rs_ns deadline;    /* monotonic */
    uint32_t rewrites; /* because it was not taken, or missed */
    rs_ns first_start; /* monotonic: when the first of its ranks began; 0 none yet */
    int64_t missed_at; /* the counter is known to have been above it when it was taken; -1 no */
    char result[RS_CONFIG_PATH_BYTES];
};

enum member_phase { MEMBER_FREE, MEMBER_NOTIFIED, MEMBER_TAKEN, MEMBER_BEGAN, MEMBER_STOPPED };

struct member {
    struct rs_config_rank shown;
    struct rs_process_hold hold;
    struct ascend_tail tail;
    struct config_dir *config_dir;
    int64_t log_pid; /* in its own namespace */
    bool has_no_rank;
    bool has_log;
    rs_ns found_at; /* monotonic */

    /* what its log said */
    bool is_up, is_creator, is_not_shared, is_denied;
    bool says_taken; /* its version logs when it takes a file */
    bool is_profiling;
    int64_t began_step; /* of the last profile */
    rs_ns began_at;
    int64_t anchor_step; /* its counter at anchor_at, with nothing recorded since; -1 none */
    rs_ns anchor_at;

    /* the file it was reported; phase is FREE when tell is NULL */
    struct notice *notice;
    enum member_phase phase;
    bool was_unlisted, was_torn;
    bool has_taken_twice; /* the last file it took says the same as the one it had */
    int64_t taken_other;  /* it took another file with this start step meanwhile; -1 no */
    rs_ns taken_at;       /* monotonic */
    rs_ns stopped_at;     /* monotonic; 0 not yet */
    int probes_left;
};

/* A process that serves a block. */
struct monitor {
    struct rs_process_hold hold;
    char dir[RS_CONFIG_PATH_BYTES]; /* whose file it reads, as it sees it */
    dev_t device;
    ino_t inode; /* of that folder; 0 not there any more */
    char block[ASCEND_BLOCK_BYTES];
    dev_t block_device;
    ino_t block_inode;
};

struct trigger {
    struct rs_config_trigger base; /* first */
    char *result_root;
    char **dirs;
    size_t dir_count;
    rs_ns (*monotonic)(void);
    rs_ns (*realtime)(void);
    struct rs_config_scan *scan;
    rs_ns scanned_at, checked_at; /* monotonic; 0 never */
    struct member **members;
    size_t member_count, member_capacity;
    struct config_dir **config_dirs;
    size_t config_dir_count, config_dir_capacity;
    struct monitor *monitors;
    size_t monitor_count, monitor_capacity;
    struct notice *notices;
    struct rs_config_rank *shown;
    size_t shown_count, shown_capacity;
};

/* The counter of a folder's job now; -1 unknown. */
int64_t npu_step_now(const struct trigger *trigger, const struct config_dir *config_dir);

/* ---- ascend_find.c ---- */
void npu_find(struct trigger *trigger);   /* new processes, at its own pace */
void npu_listen(struct trigger *trigger); /* new lines of all logs; ends of processes */
void npu_listen_to(struct trigger *trigger, struct member *member);
void npu_forget_monitors(struct trigger *trigger); /* those that ended */
void npu_member_free(struct member *member);

/* ---- ascend_health.c ---- */
void npu_check_health(struct trigger *trigger, bool must); /* is_unresponsive of every rank */
/* The shared block that a process has mapped. */
struct block {
    char name[ASCEND_BLOCK_BYTES]; /* "DynamicProfileNpuShm2026112113"; "" none */
    dev_t device;
    ino_t inode;
    bool is_removed;
};
void npu_block_of(pid_t pid, struct block *block);
/* What should be known before a capture in this config_dir: "" nothing. */
void npu_config_dir_note(struct trigger *trigger, const struct config_dir *config_dir, char *note,
                         size_t bytes);

/* ---- ascend_file.c ---- */
RS_MUST_CHECK enum rs_status npu_text(const struct rs_capture_request *request, const char *id,
                                      const char *result, struct rs_buf *text, struct rs_err *err);
/* With the ranks that are in `tell`, those of other collectors for the same capture, and a new time. */
RS_MUST_CHECK enum rs_status npu_write(struct trigger *trigger, struct notice *notice,
                                       struct rs_err *err);
enum file_is { FILE_IS_OURS, FILE_LACKS_RANKS, FILE_IS_FOREIGN };
enum file_is npu_file_is(const struct trigger *trigger, const struct notice *notice);

/* ---- ascend_notice.c ---- */
/* The one that waits to be taken by a rank; NULL none. */
struct notice *npu_outstanding(const struct trigger *trigger);
/* A tell without ranks yet; in the list. NULL: no memory. */
struct notice *npu_notice_new(struct trigger *trigger, enum notice_kind kind, const char *id,
                              struct config_dir *config_dir);
void npu_notice_free(struct trigger *trigger, struct notice *notice);
void npu_notice_add(struct notice *notice, struct member *member);
void npu_notice_leave(struct member *member);
void npu_on_line(struct trigger *trigger, struct member *member, const struct ascend_line *line);
void npu_move(struct trigger *trigger); /* everything that is in hand */
/* Ranks that have taken a file whose profile is not wanted any more get one that never starts. */
void npu_call_back(struct trigger *trigger, struct notice *notice);
RS_MUST_CHECK enum rs_status npu_ask_step(struct trigger *trigger, struct member *member,
                                          struct rs_err *err);

/* ---- ascend_result.c ---- */
/* The newest folder of this rank below `notice->result`; false: none yet. */
bool npu_result_find(const struct member *member, const char *result,
                     char path_p[RS_CONFIG_PATH_BYTES]);
bool npu_result_is_complete(const char *path);
/* Whose it is: 1 ours, 0 somebody else's, -1 it does not say. */
int npu_result_owner(const char *path, const char *id);

#endif
