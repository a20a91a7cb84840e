/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_npu's dynamic profiler: unmodified jobs started with PROF_CONFIG_PATH=DIR, or that call dp.init(DIR).
 *
 *   DIR/profiler_config.json   --mtime-->  monitor process  --shared block-->  every rank, at its next step
 *         ^ written here                   (one per node)                          |
 *   DIR/log/dp_HOST_PID_rank_R.log  <-- "Start step will be set to N", "Start ... at N", "Stop ... at N" --'
 *
 * Only the log answers, so nothing is believed before it is said there, and a silent rank is looked into: the block that it
 * has mapped, the monitor that serves it, and who these belong to, tell why it is unresponsive and what mends it.
 *
 * Promises: the file appears whole, with every key, never empty; its time is a whole second later than every earlier one and
 * than the second in which any rank of it began to listen, and never in the future (it waits for that second); one file
 * waits to be taken at a time on this host. Results go to a folder of the collector. Ranks that were not chosen are not
 * touched: the file names the chosen ones. Ranks parse beside the training (async_mode) when parsing is asked for,
 * because a file with a rank list turns the other way off.
 *
 * The counter of a job is not told by it. It is known from the lines of earlier profiles and of the monitor (step 11), and found out by
 * rs_config_trigger_probe().
 */
#ifndef RS_TRIGGER_ASCEND_H
#define RS_TRIGGER_ASCEND_H

#include "collector/trigger/config_trigger.h"

RS_MUST_CHECK enum rs_status rs_ascend_trigger_open(const struct rs_config_trigger_options *options,
                                                    struct rs_config_trigger **trigger_p,
                                                    struct rs_err *err);

#endif
