/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last touch: instants get the time base, strings move to the summary's own dictionary (in the order in which
 * rows name them, so that the same events give the same summary), and what the source knows is copied.
 * The source's metadata text stays behind, since chunks keep it; but for an Ascend profiler's: how a rank was set up is held
 * against the others' (aggregator/analysis).
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

#include <string.h>

struct renamer {
    struct rs_reduce *reduce;
    rs_str *names; /* by the stream's id: ours, or RS_STR_NONE while not named */
    enum rs_status status;
};

static void rename_string(struct renamer *r, rs_str *id)
{
    if (*id == RS_STR_NONE || r->status != RS_OK)
        return;
    rs_str *ours = &r->names[*id];
    if (*ours == RS_STR_NONE)
        r->status =
            rs_strtab_add(&r->reduce->summary->strings, rs_strtab_text(r->reduce->strings, *id),
                          rs_strtab_length(r->reduce->strings, *id), ours);
    *id = *ours;
}

static enum rs_status copy_group(const struct rs_group_info *from, struct rs_group_info *to)
{
    *to = *from;
    to->ranks = rs_mem_calloc(from->rank_count ? from->rank_count : 1, sizeof *to->ranks);
    if (!to->ranks)
        return RS_NOMEM;
    if (from->rank_count)
        memcpy(to->ranks, from->ranks, from->rank_count * sizeof *to->ranks);
    return RS_OK;
}

static enum rs_status copy_info(struct renamer *r)
{
    const struct rs_trace_info *info = r->reduce->info;
    struct rs_trace_info *copy = &r->reduce->summary->trace;
    *copy = *info;
    if (info->backend == RS_STR_NONE ||
        strcmp(rs_strtab_text(r->reduce->strings, info->backend), "hccl") != 0)
        copy->metadata = RS_STR_NONE;
    copy->base_ns = ns_clamp(info->base_ns);
    copy->groups = NULL;
    copy->group_count = copy->group_capacity = 0;
    copy->drops = NULL;
    copy->drop_count = copy->drop_capacity = 0;
    copy->vendor = NULL;
    rename_string(r, &copy->host);
    rename_string(r, &copy->trace_id);
    rename_string(r, &copy->backend);
    rename_string(r, &copy->generation);
    rename_string(r, &copy->metadata);
    rename_string(r, &copy->partial_reason);
    for (size_t i = 0; i < info->group_count; i++) {
        enum rs_status status = rs_mem_grow((void **)&copy->groups, &copy->group_capacity,
                                            copy->group_count + 1, sizeof *copy->groups);
        if (status == RS_OK)
            status = copy_group(&info->groups[i], &copy->groups[copy->group_count]);
        if (status != RS_OK)
            return status;
        struct rs_group_info *group = &copy->groups[copy->group_count++];
        rename_string(r, &group->name);
        rename_string(r, &group->description);
    }
    for (size_t i = 0; i < info->drop_count; i++) {
        const enum rs_status status = rs_mem_grow((void **)&copy->drops, &copy->drop_capacity,
                                                  copy->drop_count + 1, sizeof *copy->drops);
        if (status != RS_OK)
            return status;
        copy->drops[copy->drop_count] = info->drops[i];
        rename_string(r, &copy->drops[copy->drop_count++].reason);
    }
    if (r->status == RS_OK)
        r->status = rs_provenance_add(&copy->vendor, &r->reduce->summary->strings, info->vendor,
                                      r->reduce->strings);
    if (r->status == RS_OK && r->reduce->lost_tasks)
        return rs_trace_info_drop(copy, &r->reduce->summary->strings,
                                  "a communication task whose operation was not recorded",
                                  r->reduce->lost_tasks);
    return r->status;
}

static void rename_rows(struct renamer *r)
{
    struct rs_summary *summary = r->reduce->summary;
    for (size_t i = 0; i < summary->op_count; i++) {
        rename_string(r, &summary->ops[i].name);
        rename_string(r, &summary->ops[i].transport);
        rename_string(r, &summary->ops[i].op_text);
    }
    for (size_t i = 0; i < summary->task_count; i++)
        rename_string(r, &summary->tasks[i].transport);
    for (size_t i = 0; i < summary->kernel_count; i++)
        rename_string(r, &summary->kernels[i].name);
    for (size_t i = 0; i < summary->span_count; i++)
        rename_string(r, &summary->spans[i].top_name);
    for (size_t i = 0; i < summary->group_count; i++) {
        rename_string(r, &summary->groups[i].name);
        rename_string(r, &summary->groups[i].description);
    }
}

static void shift_rows(struct rs_summary *summary, rs_ns base)
{
    summary->span_start += base;
    summary->span_end += base;
    for (size_t i = 0; i < summary->device_count; i++) {
        summary->devices[i].window_start += base;
        summary->devices[i].window_end += base;
    }
    for (size_t i = 0; i < summary->step_count; i++) {
        struct rs_step_row *row = &summary->steps[i];
        row->host_start += base;
        row->host_end += base;
        row->window_start += base;
        row->window_end += base;
    }
    for (size_t i = 0; i < summary->op_count; i++) {
        struct rs_comm_op *op = &summary->ops[i];
        op->call_start += base;
        op->start += base;
        op->end += base;
    }
    for (size_t i = 0; i < summary->task_count; i++) {
        summary->tasks[i].start += base;
        summary->tasks[i].end += base;
    }
    for (size_t i = 0; i < summary->span_count; i++) {
        struct rs_span_row *span = &summary->spans[i];
        span->start += base;
        span->end += base;
        if (span->launch_first == RS_SPAN_NO_LAUNCH)
            continue;
        span->launch_first += base;
        span->launch_last += base;
    }
}

enum rs_status seal_summary(struct rs_reduce *reduce)
{
    struct rs_summary *summary = reduce->summary;
    struct renamer renamer = {.reduce = reduce};
    renamer.names = rs_mem_calloc(reduce->strings->count + 1, sizeof *renamer.names);
    if (!renamer.names)
        return RS_NOMEM;
    for (size_t i = 0; i < reduce->strings->count; i++)
        renamer.names[i] = RS_STR_NONE;
    summary->step_origin = reduce->step_origin;
    summary->span_start = reduce->span_start;
    summary->span_end = reduce->span_end;
    if (reduce->info->has_time_base)
        shift_rows(summary, ns_clamp(reduce->info->base_ns));
    enum rs_status status = copy_info(&renamer);
    if (status == RS_OK) {
        rename_rows(&renamer);
        status = renamer.status;
    }
    rs_mem_free(renamer.names);
    return status;
}
