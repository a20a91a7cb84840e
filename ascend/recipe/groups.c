/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicators of a run: what each rank says about its own, as rows of a frame. RESULT_KNOWN makes one of them.
 */
#include "ascend/recipe/recipe_priv.h"

#include <inttypes.h>

/* META_DATA of the profiler database, else (not in compat) profiler_metadata.json. */
enum rs_status rank_metadata(const struct inputs *in, struct rs_ascend_metadata *meta_p,
                             struct rs_err *err)
{
    enum rs_status status = RS_NOTFOUND;
    if (in->profiler)
        status = rs_ascend_db_metadata(in->profiler, meta_p, err);
    if (status != RS_NOTFOUND || in->run->options->compat)
        return status == RS_NOTFOUND
                   ? rs_err_set(err, status, "rank %" PRId64 " says nothing about groups",
                                in->of->rank)
                   : status;
    return rs_ascend_metadata_read(in->of->vendor, meta_p, err);
}

void groups_load(struct inputs *in, struct frame *groups)
{
    struct rs_ascend_metadata meta = {0};
    struct rs_buf ranks = {0};
    in->status = rank_metadata(in, &meta, &in->err);
    for (size_t i = 0; i < meta.group_count; i++) {
        const struct rs_ascend_group *group = &meta.groups[i];
        union frame_cell *row = frame_put(groups);
        rs_buf_reset(&ranks);
        for (size_t k = 0; k < group->count; k++)
            rs_buf_printf(&ranks, "%s%" PRId64, k ? "," : "", group->ranks[k]);
        row[0].t = frame_str(groups, group->hash);
        row[1].t = frame_str(groups, group->id);
        row[2].t = frame_str(groups, group->name);
        row[3].t = frame_str(groups, rs_buf_text(&ranks));
        row[4].i = in->of->rank;
        groups->failed |= ranks.failed;
    }
    rs_ascend_metadata_fini(&meta);
    rs_buf_fini(&ranks);
}

void groups_load_if_any(struct inputs *in, struct frame *groups)
{
    groups_load(in, groups);
    if (in->status != RS_OK && in->status != RS_NOTFOUND)
        run_add_problem(in->run, in->of->rank, true, "%s", in->err.text);
    in->status = RS_OK;
}
