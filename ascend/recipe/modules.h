/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a rank with the calls that launched them, and what each module of the network runs: frames and statements that
 * recipes list, in this order. modules.c says what they make.
 */
#ifndef RS_RECIPE_MODULES_H
#define RS_RECIPE_MODULES_H

#include "ascend/recipe/recipe_priv.h"

extern const char modules_kernels_sql[], modules_shaped_kernels_sql[], modules_ranges_sql[],
    modules_calls_sql[], modules_backward_sql[], modules_grouped_sql[], modules_sql[],
    modules_shares_sql[], modules_shared_sql[];

/* What of it a rank may lack. */
#define MODULES_OPTIONAL                                                                           \
    "COMPUTE_TASK_INFO(globalTaskId,name) "                                                        \
    "COMMUNICATION_OP(opType,connectionId,startNs,endNs) "                                         \
    "COMMUNICATION_SCHEDULE_TASK_INFO(globalTaskId,name)"

/* A kernel and the framework call that launched it, ns; one kernel may have several calls, so several rows. */
#define KERNEL_COLUMNS                                                                             \
    "name:t start:i end:i op:t op_start:i op_end:i task:i types:t inputs:t outputs:t"
#define KERNELS_REQUIRE                                                                            \
    "PYTORCH_API.connectionId PYTORCH_API.name CONNECTION_IDS.id CONNECTION_IDS.connectionId"
#define FRAME_KERNELS(more, with)                                                                  \
    {                                                                                              \
        .name = "kernels", .columns = KERNEL_COLUMNS, .requires = KERNELS_REQUIRE more,            \
        .sql = with, .missing = "no kernels with framework calls", .is_passing = true              \
    }
/* mstx ranges of the domain Module. */
#define FRAME_RANGES(spare)                                                                        \
    {                                                                                              \
        .name = "ranges", .columns = "name:t start:i end:i",                                       \
        .requires = "MSTX_EVENTS.domainId MSTX_EVENTS.message MSTX_EVENTS.startNs "                \
                    "STRING_IDS.value",                                                            \
        .sql = modules_ranges_sql, .missing = "no ranges of the domain Module",                    \
        .is_passing = true, .spared_by = (spare)                                                   \
    }
/* Equal calls of one module over all its repetitions; `total` and `mean` are ns of its kernels. */
#define MODULE_COLUMNS "parent:t name:t op:t kernels:t total:r mean:r calls:i rank:i shares:t"
#define FRAME_MODULES(with)                                                                        \
    {                                                                                              \
        .name = "modules", .columns = MODULE_COLUMNS, .sql = with                                  \
    }
/* Of module_statistic; calibrate_npu_gpu starts from them. */
#define FRAMES_MODULES                                                                             \
    FRAME_KERNELS("", modules_kernels_sql), FRAME_RANGES(0), {.sql = modules_calls_sql},           \
        {.sql = modules_backward_sql}, {.sql = modules_grouped_sql}, FRAME_MODULES(modules_sql)

#endif
