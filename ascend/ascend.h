/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of the Ascend wing: what the program can do besides when it is built with it.
 *
 *   ascend/format   one reader of the vendor's files          ascend/cluster  cluster_analysis_output of a finished job
 *   ascend/source   result directories as event streams       ascend/recipe   the vendor's recipes
 *   ascend/adapter  torch_npu and MindSpore, asked to record  ascend/export   a capture as a result directory
 *                                                            ascend/verbs    cluster, recipe, export
 *
 * Nothing outside knows these rooms but through the tables that rs_ascend_install() fills: formats of discovery
 * (collector/source/discover.h), profilers that are told by a file (collector/trigger/config_trigger.h), verbs (cli/verbs.h).
 * Without it (-DRS_ASCEND=OFF) these tables are empty, and whoever asks for such a profiler is told so.
 */
#ifndef RS_ASCEND_ASCEND_H
#define RS_ASCEND_ASCEND_H

/* Once, before any thread. */
void rs_ascend_install(void);

#endif
