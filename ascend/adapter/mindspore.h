/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MindSpore's dynamic profiler (DynamicProfilerMonitor), told by a file: config_trigger.h's other kind.
 *
 * A job of MindSpore that made a DynamicProfilerMonitor(cfg_path, output_path) has, on each node, one monitor process: a
 * child of the rank that came first. It looks at cfg_path/profiler_config.json every few seconds and copies it into a block of
 * shared memory, /dev/shm/DynamicProfileShmYYYYmmddHH, that all ranks look at in every step.
 *
 *   our file --rename--> monitor --copies--> block --read each step--> rank --makes--> rankR_startA_stopB/..._ascend_ms
 *              TOLD                 ACCEPTED                                   RECORDING, then its log: WRITTEN
 *
 * What is known of it (and why this file is careful) was seen in runs of MindSpore 2.10.0:
 *   - a file that is torn, empty or no JSON object ends the monitor for good: a file appears whole, or not at all;
 *   - the block can be read from outside and shows what the monitor took: that is ACCEPTED; ranks say nothing but
 *     by a result folder (and on stdout, when that is a file);
 *   - A and B name other steps in the two ways of using it: with dp.step() steps A+1 to B+1 are recorded, as a callback
 *     A to B. Callers speak of the first step that is recorded; here it is turned into A and B once the way is known;
 *   - no rank can be left out; a pair while another runs cuts that one short; -1/-1 while a callback records lets it run to
 *     the end of the job. So: one capture at a time, of all ranks of the folder, and the file is set back to -1/-1 only
 *     when nobody records; until then, and on a shared file system, it holds a pair that is never reached.
 *
 * The counter of steps cannot be seen: it is known only after a capture of the same process (name and end of its result), with an
 * error that grows; then start_step is to be given. The configuration folder is found when stdout of a rank is a file (MindSpore
 * prints "Init config json file: ..." there); otherwise it has to be named.
 */
#ifndef RS_TRIGGER_MINDSPORE_H
#define RS_TRIGGER_MINDSPORE_H

#include "collector/trigger/config_trigger.h"

enum rs_mindspore_way {
    RS_MINDSPORE_WAY_UNKNOWN,  /* learned from a result where that is possible */
    RS_MINDSPORE_WAY_STEP,     /* the training calls dp.step() */
    RS_MINDSPORE_WAY_CALLBACK, /* the monitor is a callback of Model.train() */
};
const char *rs_mindspore_way_text(enum rs_mindspore_way way); /* "step", "callback", "unknown" */
/* "step", "callback"; false: another word. */
bool rs_mindspore_way_from_text(const char *text, enum rs_mindspore_way *way_p);

/* options->dirs: folders (cfg_path) for jobs whose folder cannot be found. RS_NOMEM; RS_INVALID: options->way. */
RS_MUST_CHECK enum rs_status
rs_mindspore_trigger_open(const struct rs_config_trigger_options *options,
                          struct rs_config_trigger **trigger_p, struct rs_err *err);

#endif
