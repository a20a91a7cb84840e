/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module_statistic: which kernels each module of the network launches, and how long they run.
 *
 * Peer: modules.c. Text form: the peer writes xlsx, here csv. Nothing to correct in the values.
 */
#include "ascend/recipe/modules.h"

void modules_fill(struct inputs *in, struct frame *frames)
{
    const struct modules_want want = {.has_backward = true, .compat = in->run->options->compat};
    struct frame kernels;
    if (frame_init(&kernels, KERNEL_KINDS) != RS_OK)
        in_fail(in, RS_NOMEM, "no memory for kernels");
    if (in->status == RS_OK)
        in->status = modules_kernels(in, false, &kernels, &in->err);
    if (in->status == RS_OK)
        in->status = modules_sum(in, &kernels, &want, &frames[0], &in->err);
    frame_fini(&kernels);
}

#define COLUMNS                                                                                    \
    "parentModule:t=Parent Module|module:t=Module|opName:t=Op Name|kernelList:t=Kernel List|"      \
    "totalKernelDuration(ns):r=Total Kernel Duration(ns)|"                                         \
    "avgKernelDuration(ns):r=Avg Kernel Duration(ns)|opCount:i=Op Count"
#define ROWS "SELECT parent, name, op, kernels, total, mean, calls"

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    static const struct result all = {.name = "ModuleStatistic",
                                      .columns = COLUMNS "|rankID:i",
                                      .sql = ROWS ", rank FROM modules"};
    static const struct result each = {.name = "ModuleStatistic",
                                       .file = "module_statistic",
                                       .columns = COLUMNS,
                                       .sql = ROWS " FROM modules WHERE rank = :rank"};
    return result_write_by_rank(run, &all, &each, err);
}

const struct recipe recipe_module_statistic = {
    .info = {"module_statistic", "kernels of each module of the network", "ModuleStatistic"},
    .folder = "ModuleStatistic",
    .needs = NEED_PROFILER,
    .frames = {{.name = "modules", .columns = MODULE_COLUMNS}},
    .fill = modules_fill,
    .finish = finish,
};
