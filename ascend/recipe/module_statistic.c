/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module_statistic: which kernels each module of the network launches, and how long they run.
 *
 * Peer: modules.c. Text form: the peer writes xlsx, here csv. Nothing to correct in the values.
 */
#include "ascend/recipe/modules.h"

#define COLUMNS                                                                                    \
    "parentModule:t=Parent Module|module:t=Module|opName:t=Op Name|kernelList:t=Kernel List|"      \
    "totalKernelDuration(ns):r=Total Kernel Duration(ns)|"                                         \
    "avgKernelDuration(ns):r=Avg Kernel Duration(ns)|opCount:i=Op Count"
#define ROWS "SELECT parent, name, op, kernels, total, mean, calls"

static const struct result results[] = {{.name = "ModuleStatistic",
                                         .columns = COLUMNS "|rankID:i",
                                         .sql = ROWS ", rank FROM modules",
                                         .is_only_db = true},
                                        {.name = "ModuleStatistic",
                                         .file = "module_statistic",
                                         .columns = COLUMNS,
                                         .sql = ROWS " FROM modules WHERE rank = :rank",
                                         .by_rank = true,
                                         .is_only_text = true}};

const struct recipe recipe_module_statistic = {
    .info = {"module_statistic", "kernels of each module of the network", "ModuleStatistic"},
    .folder = "ModuleStatistic",
    .needs = NEED_PROFILER,
    .optional = MODULES_OPTIONAL,
    .frames = {FRAMES_MODULES},
    RESULTS(results),
};
