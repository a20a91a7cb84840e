/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks are one pipeline stage, and where a rank lies in the parallel sizes.
 *
 *     point-to-point groups that overlap           = one pipeline
 *     collective groups with two of a pipeline     cross stages: out
 *     the other collective groups that overlap     = one stage
 *
 * Which point-to-point groups make pipelines: those the metadata calls "pp..."; where it names none,
 * those without collectives of their own (a communicator that only sends and receives). With
 * --compat nothing is guessed and a rank without such collectives is in no stage.
 *
 * Ranks lie as in Megatron: rank = ((pp * DP + dp) * CP + cp) * TP + tp.
 */
#include "ascend/cluster/cluster_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <string.h>

/* Disjoint sets over all ranks that anyone names. */
struct unions {
    struct rank_set ranks;
    uint32_t *parents[2]; /* pipelines, stages; by index in ranks */
    bool *in_pipeline, *in_stage;
};

enum { PIPELINES, STAGES };

static size_t index_of(const struct unions *unions, int64_t rank)
{
    size_t low = 0, high = unions->ranks.count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (unions->ranks.ranks[middle] <= rank)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint32_t root_of(uint32_t *parents, uint32_t at)
{
    while (parents[at] != at) {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    return at;
}

static void unite(struct unions *unions, int which, const struct rank_set *set)
{
    uint32_t *parents = unions->parents[which];
    bool *flags = which == PIPELINES ? unions->in_pipeline : unions->in_stage;
    for (size_t i = 0; i < set->count; i++) {
        const size_t at = index_of(unions, set->ranks[i]);
        const uint32_t a = root_of(parents, (uint32_t)index_of(unions, set->ranks[0]));
        const uint32_t b = root_of(parents, (uint32_t)at);
        parents[a > b ? a : b] = a < b ? a : b; /* the lowest rank leads */
        flags[at] = true;
    }
}

enum pipe_kind { NAMED_PIPES, SEND_ONLY_PIPES, ANY_PIPES };

static bool is_pipe(const struct group *group, enum pipe_kind kind)
{
    if (group->by_any[SIDE_P2P].count == 0)
        return false;
    switch (kind) {
    case NAMED_PIPES:
        return strncmp(group->name, "pp", 2) == 0;
    case SEND_ONLY_PIPES:
        return group->by_any[SIDE_COLLECTIVE].count == 0;
    case ANY_PIPES:
        return true;
    }
    return false;
}

static bool find_pipes(const struct run *run, enum pipe_kind *kind_p)
{
    const int last = run->options->compat ? NAMED_PIPES : ANY_PIPES;
    for (int kind = NAMED_PIPES; kind <= last; kind++)
        for (size_t i = 0; i < run->group_count; i++)
            if (is_pipe(&run->groups[i], (enum pipe_kind)kind)) {
                *kind_p = (enum pipe_kind)kind;
                return true;
            }
    return false;
}

/* `seen` by root of the pipelines; cleared again before return. */
static bool crosses_stages(struct unions *unions, const struct rank_set *set, bool *seen)
{
    bool is_crossing = false;
    for (size_t i = 0; i < set->count; i++) {
        const uint32_t at = (uint32_t)index_of(unions, set->ranks[i]);
        const uint32_t root = root_of(unions->parents[PIPELINES], at);
        is_crossing |= unions->in_pipeline[at] && seen[root];
        seen[root] = true;
    }
    for (size_t i = 0; i < set->count; i++)
        seen[root_of(unions->parents[PIPELINES], (uint32_t)index_of(unions, set->ranks[i]))] =
            false;
    return is_crossing;
}

static void unite_all(const struct run *run, enum pipe_kind kind, struct unions *unions, bool *seen)
{
    for (size_t i = 0; i < run->group_count; i++)
        if (is_pipe(&run->groups[i], kind))
            unite(unions, PIPELINES, group_ranks(&run->groups[i], SIDE_P2P));
    for (size_t i = 0; i < run->group_count; i++) {
        const struct group *group = &run->groups[i];
        const struct rank_set *set = group_ranks(group, SIDE_COLLECTIVE);
        if (group->by_any[SIDE_COLLECTIVE].count && !crosses_stages(unions, set, seen))
            unite(unions, STAGES, set);
    }
    for (size_t i = 0; !run->options->compat && i < unions->ranks.count; i++)
        unions->in_stage[i] |= unions->in_pipeline[i];
}

static enum rs_status collect_stages(struct run *run, struct unions *unions)
{
    const size_t count = unions->ranks.count;
    uint32_t *stage_of = rs_mem_calloc(count, sizeof *stage_of);
    run->stages.sets = rs_mem_calloc(count, sizeof *run->stages.sets);
    enum rs_status status = stage_of && run->stages.sets ? RS_OK : RS_NOMEM;
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        const uint32_t root = root_of(unions->parents[STAGES], (uint32_t)i);
        if (!unions->in_stage[i])
            continue;
        if (stage_of[root] == 0)
            stage_of[root] = (uint32_t)++run->stages.count;
        status = rank_set_add(&run->stages.sets[stage_of[root] - 1], unions->ranks.ranks[i]);
    }
    rs_mem_free(stage_of);
    return status;
}

static enum rs_status list_ranks(const struct run *run, struct rank_set *ranks)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < run->group_count && status == RS_OK; i++)
        for (int side = 0; side < SIDES; side++) {
            const struct rank_set *set = group_ranks(&run->groups[i], (enum side)side);
            for (size_t r = 0; r < set->count && status == RS_OK; r++)
                status = rank_set_add(ranks, set->ranks[r]);
        }
    return status;
}

enum rs_status find_stages(struct run *run)
{
    struct unions unions = {0};
    enum pipe_kind kind = NAMED_PIPES;
    bool *seen = NULL;
    if (!find_pipes(run, &kind))
        return RS_OK;
    enum rs_status status = list_ranks(run, &unions.ranks);
    const size_t count = unions.ranks.count;
    if (status == RS_OK && count) {
        for (int i = 0; i < 2; i++) {
            unions.parents[i] = rs_mem_calloc(count, sizeof *unions.parents[i]);
            for (size_t r = 0; unions.parents[i] && r < count; r++)
                unions.parents[i][r] = (uint32_t)r;
        }
        unions.in_pipeline = rs_mem_calloc(count, sizeof(bool));
        unions.in_stage = rs_mem_calloc(count, sizeof(bool));
        seen = rs_mem_calloc(count, sizeof(bool));
        status =
            unions.parents[0] && unions.parents[1] && unions.in_pipeline && unions.in_stage && seen
                ? RS_OK
                : RS_NOMEM;
    }
    if (status == RS_OK && count) {
        unite_all(run, kind, &unions, seen);
        status = collect_stages(run, &unions);
    }
    rs_mem_free(seen);
    rs_mem_free(unions.in_pipeline);
    rs_mem_free(unions.in_stage);
    rs_mem_free(unions.parents[0]);
    rs_mem_free(unions.parents[1]);
    rs_mem_free(unions.ranks.ranks);
    return status;
}

bool stage_row(const struct run *run, const struct rank_set *stage, const char *step,
               double maxima_p[RS_ASCEND_STEP_FIELDS])
{
    bool is_found = false;
    for (size_t i = 0; i < stage->count; i++) {
        const struct rank_data *rank = find_rank(run, stage->ranks[i]);
        for (size_t r = 0; rank && r < rank->steps.count; r++) {
            const struct rs_ascend_step *row = &rank->steps.rows[r];
            if (strcmp(row->step, step) != 0)
                continue;
            for (int f = 0; f < RS_ASCEND_STEP_FIELDS; f++) {
                const double value = rs_ascend_num_known(&row->values[f]);
                if (!is_found || value > maxima_p[f] || isnan(value))
                    maxima_p[f] = value;
            }
            is_found = true;
        }
    }
    return is_found;
}

/* data_parallel_size counts without context parallelism; some jobs count it in. */
void find_layout(struct run *run)
{
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct rs_ascend_metadata *meta = &run->ranks[i].meta;
        if (!run->ranks[i].has_meta || !meta->has_sizes || meta->world_size <= 0)
            continue;
        const bool compat = run->options->compat;
        struct layout layout = {.tp = meta->tp > 0 ? meta->tp : 1,
                                .cp = meta->cp > 0 && !compat ? meta->cp : 1,
                                .pp = meta->pp > 0 ? meta->pp : 1};
        const int64_t limit = INT64_C(1) << 20;
        if (layout.tp > limit || layout.cp > limit || layout.pp > limit || meta->dp > limit)
            continue;
        const int64_t without_dp = layout.tp * layout.cp * layout.pp;
        layout.dp = meta->dp > 0 ? meta->dp : without_dp ? meta->world_size / without_dp : 1;
        if (without_dp * layout.dp != meta->world_size &&
            layout.tp * layout.pp * layout.dp == meta->world_size)
            layout.cp = 1;
        layout.is_known = layout.tp * layout.cp * layout.pp * layout.dp == meta->world_size;
        run->layout = layout;
        return;
    }
}

bool place_of(const struct layout *layout, int64_t rank, int64_t place_p[3])
{
    if (!layout->is_known || rank < 0)
        return false;
    const int64_t inner = layout->tp * layout->cp;
    place_p[0] = rank / inner % layout->dp;
    place_p[1] = rank / (inner * layout->dp);
    place_p[2] = rank % layout->tp;
    return true;
}
