/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module_statistic: which kernels each module of the network launches, and how long they run.
 *
 * Peer: modules.c. Text form: the peer writes xlsx, here csv. Nothing to correct in the values.
 */
#include "ascend/recipe/modules.h"

#include <inttypes.h>
#include <stdio.h>

enum rs_status modules_map(struct run *run, const struct inputs *in, void **part_p,
                           struct rs_err *err)
{
    const struct modules_want want = {.has_backward = true, .compat = run->options->compat};
    struct frame *kernels = frame_new(KERNEL_KINDS), *part = frame_new(MODULE_KINDS);
    enum rs_status status = kernels && part ? modules_kernels(in, false, kernels, err) : RS_NOMEM;
    if (status == RS_OK)
        status = modules_sum(in, kernels, &want, part, err);
    if (kernels)
        frame_drop(kernels);
    return frame_part(part, status, part_p, err);
}

static size_t rank_end(const struct frame_rows *rows, size_t rank, size_t from)
{
    const int64_t own = frame_row(rows->frame, from)[rank].i;
    size_t end = from;
    while (end < rows->end && frame_row(rows->frame, end)[rank].i == own)
        end++;
    return end;
}

enum rs_status modules_write(struct run *run, const struct table *table,
                             const struct frame_rows *rows, size_t rank, size_t text_columns,
                             struct rs_err *err)
{
    if (!run->options->as_text)
        return table_of_frame(run, table, rows, err);
    enum rs_status status = RS_OK;
    for (size_t at = rows->from, end; at < rows->end && status == RS_OK; at = end) {
        char name[64];
        const struct table one = {table->name, name, table->columns, text_columns, 0, false};
        end = rank_end(rows, rank, at);
        (void)snprintf(name, sizeof name, "%s_%" PRId64 ".csv", table->file,
                       frame_row(rows->frame, at)[rank].i);
        status = table_of_frame(run, &one,
                                &(struct frame_rows){rows->frame, rows->columns, at, end}, err);
    }
    return status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    static const struct column columns[] = {
        {"parentModule", 't', "Parent Module"},
        {"module", 't', "Module"},
        {"opName", 't', "Op Name"},
        {"kernelList", 't', "Kernel List"},
        {"totalKernelDuration(ns)", 'r', "Total Kernel Duration(ns)"},
        {"avgKernelDuration(ns)", 'r', "Avg Kernel Duration(ns)"},
        {"opCount", 'i', "Op Count"},
        {"rankID", 'i', NULL}};
    static const struct table table = {
        "ModuleStatistic", "module_statistic", columns, COLUMN_COUNT(columns), 0, false};
    const struct frame *rows = &((const struct frame_state *)run->state)->rows;
    return modules_write(run, &table, &(struct frame_rows){rows, NULL, 0, rows->count}, MODULE_RANK,
                         COLUMN_COUNT(columns) - 1, err);
}

const struct recipe recipe_module_statistic = {
    .info = {"module_statistic", "kernels of each module of the network", "ModuleStatistic"},
    .folder = "ModuleStatistic",
    .needs = NEED_PROFILER,
    .state_bytes = sizeof(struct frame_state),
    .kinds = MODULE_KINDS,
    FRAME_RECIPE,
    .map = modules_map,
    .finish = finish,
};
