/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profiler_config.json that people edit by hand: every edit asks the aggregator for a capture.
 *
 *     editor, cp, scp, `config set` --> DIR/profiler_config.json --inotify, or a look every second--> settled?
 *           --> read, validated (errors with line and column; then nothing is started) --> AskStart
 *
 * An edit is a version of the file with another time or other bytes than the one before. The version that is there at
 * start is not an edit. Half-written files are waited for: a version counts when it did not change for a while, one
 * that is no valid file only when it stays so for longer.
 *
 * The last edit wins. While a capture of this file runs, the next edit waits in the aggregator; an edit after that takes the place of
 * the one that waits. Several collectors (and the aggregator) may watch one shared folder: the capture's id is made from the bytes
 * and the time of the version, and the same id asked for twice is the same capture.
 *
 * Ranks whose own profiler reads this very file (torch_npu, MindSpore: PROF_CONFIG_PATH is DIR) are told by it already:
 * rs_config_watch_is_file_of() lets their trigger stay away. And what that trigger writes into its folder is no edit.
 *
 * One thread of its own, started and stopped by the daemon's main thread.
 */
#ifndef RS_CLIENT_CONFIG_WATCH_H
#define RS_CLIENT_CONFIG_WATCH_H

#include "common/base/time.h"
#include "common/wire/link.h"
#include "proto/rankscope.pb-c.h"

struct rs_config_watch;

struct rs_config_watch_options {
    const char *dir;                  /* copied, as all here */
    const char *run;                  /* of the captures; "": the only one */
    const struct rs_address *address; /* of the aggregator */
    /* Whether this process itself wrote the text with this SHA-256 in this second: then it is no edit. NULL: it writes none. Any
     * thread. */
    bool (*was_written)(const char *sha, int64_t second);
};

/* RS_NOTFOUND: there is no such folder. RS_INVALID: not a folder. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_config_watch_start(const struct rs_config_watch_options *options,
                                                   struct rs_config_watch **watch_p,
                                                   struct rs_err *err);
void rs_config_watch_stop(struct rs_config_watch **watch_p); /* of NULL is allowed */

/* Whether this request came from the profiler_config.json in `dir` (as this process can open it): then a rank whose profiler
 * watches `dir` has read it itself. Any thread. */
bool rs_config_watch_is_file_of(const Rankscope__CaptureRequest *request, const char *dir);

#endif
