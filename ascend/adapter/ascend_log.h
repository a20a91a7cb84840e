/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank's torch_npu says in its log, line by line: DIR/log/dp_HOST_PID_rank_R.log.
 *
 *     2026-11-21 13:18:12,068 [INFO] [14925] _dynamic_profiler_utils.py: Start Dynamic Profiler at 25 step.
 *
 * The text is what counts: names of files and levels changed between versions. Times are the rank's local time; the zone
 * is found by comparing the last line with the file's time of change. The file rotates (200 KiB, one backup): the one that
 * is open is read to its end before the new one is opened. One thread.
 */
#ifndef RS_TRIGGER_ASCEND_LOG_H
#define RS_TRIGGER_ASCEND_LOG_H

#include "common/base/as_user.h"
#include "common/base/buf.h"
#include "common/base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum ascend_line_kind {
    ASCEND_LINE_OTHER,
    ASCEND_LINE_CREATED,    /* it made the shared block */
    ASCEND_LINE_CONNECTED,  /* it found one */
    ASCEND_LINE_NOT_SHARED, /* it could not make or open one; denied is set when it may not */
    ASCEND_LINE_MONITORS,   /* its monitor process was started: it is ready */
    ASCEND_LINE_READY,      /* ready, somebody else monitors */
    ASCEND_LINE_UNLINKED,   /* it ended normally and took the block away */
    ASCEND_LINE_POLL,       /* number: seconds between looks; said after step 11 */
    ASCEND_LINE_ACCEPTED,   /* number: start step of the file it took */
    ASCEND_LINE_NOT_LISTED, /* number: its rank; the file was not for it */
    ASCEND_LINE_TORN,       /* what it took could not be read */
    ASCEND_LINE_STARTED,    /* number: its counter */
    ASCEND_LINE_STOPPED,    /* number: its counter */
};

struct ascend_line {
    enum ascend_line_kind kind;
    int64_t number;
    bool is_denied;
    bool has_time;
    rs_ns at; /* as written, read as if it were UTC; ascend_tail corrects it */
};

/* False: it is no line of the log. */
bool npu_line_parse(const char *text, size_t length, struct ascend_line *line);

struct ascend_tail {
    char path[1100];
    int fd; /* -1 not open */
    dev_t device;
    ino_t inode;
    off_t offset;
    rs_dur zone;         /* local - UTC */
    struct rs_buf rest;  /* an unfinished line */
    struct rs_user user; /* whose it is: it is opened with his rights; of zeroes: with our own */
};

void npu_tail_init(struct ascend_tail *tail, const char *path);
void npu_tail_fini(struct ascend_tail *tail);

/* Calls `on_line` for every new line, in order; the first call begins with the backup that is there. True: the log can be read. */
typedef void ascend_line_fn(void *self, const struct ascend_line *line);
bool npu_tail_read(struct ascend_tail *tail, ascend_line_fn *on_line, void *self);

/* "/x/log/dp_HOST_PID_rank_R.log": true when it is such a name. `dir` (RS_CONFIG_PATH_BYTES) is "/x", host lends from `path`. */
struct ascend_log_name {
    bool is_monitor; /* monitor_dp_... */
    int64_t pid, rank;
    const char *host;
    size_t host_length;
    size_t dir_length; /* of "/x" in path */
};
bool npu_log_name_parse(const char *path, struct ascend_log_name *name);

#endif
