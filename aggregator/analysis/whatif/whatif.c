/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph played again with other times, and what follows from that.
 *
 * M_X = (T - T(X ideal)) / (T - T(all ideal)), T the mean step. The verdict is the smallest part whose M_X reaches ENOUGH: a
 * worker, else a stage, else a dp rank, else the fewest of the worst workers. Where none does, each worker's operations are
 * given their own mean: what then goes from the loss was variation, the rest lasting differences between many.
 */
#include "aggregator/analysis/whatif/whatif_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHARES_MAX = 256, SET_MAX = 8 }; /* workers fixed one by one; workers in a set */
#define ENOUGH        0.8  /* of the loss: then who is named explains it; as in calibration.def */
#define WORTH         0.01 /* of a step: less is not worth fixing */
#define MOSTLY        0.5
#define WORST_PERCENT 3

const char *rs_whatif_type_text(enum rs_whatif_type type)
{
    static const char *const texts[] = {
#define X(constant, name, is_mean) name,
#include "aggregator/analysis/whatif/op_types.def"
#undef X
    };
    return (unsigned)type < RS_WHATIF_TYPES ? texts[type] : "";
}

const char *rs_whatif_verdict_text(enum rs_whatif_verdict verdict)
{
    static const char *const texts[] = {"no_loss", "worker",  "stage", "dp_rank",
                                        "workers", "varying", "spread"};
    return (unsigned)verdict < sizeof texts / sizeof texts[0] ? texts[verdict] : "";
}

struct play {
    const struct whatif_graph *graph;
    double ideal[RS_WHATIF_TYPES];
    double *ends;   /* of the nodes of one step */
    double *means;  /* per worker and type, over steps and numbers */
    bool *selected; /* per worker and type: scratch of who is meant */
    double step_ns, ideal_ns;
};

enum how { SELECTED_IDEAL, OTHERS_IDEAL, ALL_THEIR_MEAN };

static size_t slot_of(const struct whatif_node *node)
{
    return (size_t)node->worker * RS_WHATIF_TYPES + node->type;
}

/* The mean step. */
static double replay(struct play *play, enum how how)
{
    const struct whatif_graph *graph = play->graph;
    double sum = 0;
    for (size_t step = 0; step < graph->step_count; step++) {
        const double *work = graph->work + step * graph->node_count;
        double last = 0;
        for (size_t at = 0; at < graph->node_count;) {
            const uint32_t meeting = graph->nodes[graph->order[at]].meeting;
            double begin = 0;
            size_t stop = at;
            for (; stop < graph->node_count; stop++) {
                const struct whatif_node *node = &graph->nodes[graph->order[stop]];
                if (node->meeting != meeting)
                    break;
                for (size_t p = 0; p < WHATIF_PREDS && node->pred[p] != WHATIF_NONE; p++)
                    begin = fmax(begin, play->ends[node->pred[p]]);
            }
            for (; at < stop; at++) {
                const uint32_t index = graph->order[at];
                const struct whatif_node *node = &graph->nodes[index];
                const size_t slot = slot_of(node);
                double time = work[index];
                if (how == ALL_THEIR_MEAN)
                    time = play->means[slot];
                else if (play->selected[slot] == (how == SELECTED_IDEAL))
                    time = play->ideal[node->type];
                play->ends[index] = begin + time;
                last = fmax(last, play->ends[index]);
            }
        }
        sum += last;
    }
    return sum / (double)graph->step_count;
}

static int by_value(const void *a_p, const void *b_p)
{
    const double a = *(const double *)a_p, b = *(const double *)b_p;
    return (a > b) - (a < b);
}

static enum rs_status find_ideal(struct play *play, struct rs_err *err)
{
    static const bool is_mean[] = {
#define X(constant, name, is_mean) is_mean,
#include "aggregator/analysis/whatif/op_types.def"
#undef X
    };
    const struct whatif_graph *graph = play->graph;
    double *values = rs_mem_calloc(graph->node_count * graph->step_count, sizeof *values);
    if (!values)
        return rs_err_set(err, RS_NOMEM, "no memory for the ideal of the operations");
    for (int type = 0; type < RS_WHATIF_TYPES; type++) {
        size_t count = 0;
        double sum = 0;
        for (size_t node = 0; node < graph->node_count; node++)
            for (size_t step = 0; (int)graph->nodes[node].type == type && step < graph->step_count;
                 step++) {
                values[count] = graph->work[step * graph->node_count + node];
                sum += values[count++];
            }
        if (!count)
            continue;
        qsort(values, count, sizeof *values, by_value);
        const double median = (values[(count - 1) / 2] + values[count / 2]) / 2;
        play->ideal[type] = is_mean[type] ? sum / (double)count : median;
    }
    rs_mem_free(values);
    for (size_t node = 0; node < graph->node_count; node++)
        for (size_t step = 0; step < graph->step_count; step++) {
            const size_t slot = slot_of(&graph->nodes[node]);
            play->means[slot] += graph->work[step * graph->node_count + node] /
                                 ((double)graph->counts[slot] * (double)graph->step_count);
        }
    return RS_OK;
}

static void select_none(struct play *play)
{
    memset(play->selected, 0, play->graph->worker_count * RS_WHATIF_TYPES * sizeof *play->selected);
}

/* dp and stage are indices; SIZE_MAX means all. */
static void select_part(struct play *play, size_t dp, size_t stage)
{
    const size_t stages = play->graph->stage_count;
    for (size_t worker = 0; worker < play->graph->worker_count; worker++)
        if ((dp == SIZE_MAX || worker / stages == dp) &&
            (stage == SIZE_MAX || worker % stages == stage))
            for (size_t type = 0; type < RS_WHATIF_TYPES; type++)
                play->selected[worker * RS_WHATIF_TYPES + type] = true;
}

static double slowdown_of(struct play *play)
{
    return replay(play, OTHERS_IDEAL) / play->ideal_ns;
}

static double share_of(struct play *play)
{
    const double loss = play->step_ns - play->ideal_ns;
    return loss > 0 ? (play->step_ns - replay(play, SELECTED_IDEAL)) / loss : (double)NAN;
}

/* Computing time of the part's workers over that of its peers: the same stages elsewhere, of a stage the other stages. */
static double factor_of(const struct play *play, size_t dp, size_t stage)
{
    const struct whatif_graph *graph = play->graph;
    double own = 0, others = 0;
    size_t own_count = 0, other_count = 0;
    for (size_t worker = 0; worker < graph->worker_count; worker++) {
        const size_t base = worker * RS_WHATIF_TYPES;
        const double time = play->means[base + RS_WHATIF_FORWARD] *
                                (double)graph->counts[base + RS_WHATIF_FORWARD] +
                            play->means[base + RS_WHATIF_BACKWARD] *
                                (double)graph->counts[base + RS_WHATIF_BACKWARD];
        const bool in_dp = dp == SIZE_MAX || worker / graph->stage_count == dp;
        const bool in_stage = stage == SIZE_MAX || worker % graph->stage_count == stage;
        if (in_dp && in_stage) {
            own += time;
            own_count++;
        } else if (in_stage || dp == SIZE_MAX) {
            others += time;
            other_count++;
        }
    }
    if (!own_count || !other_count || others <= 0)
        return (double)NAN;
    return own / (double)own_count / (others / (double)other_count);
}

static struct rs_whatif_part part_of(struct play *play, size_t dp, size_t stage)
{
    const struct whatif_graph *graph = play->graph;
    select_none(play);
    select_part(play, dp, stage);
    const bool is_worker = dp != SIZE_MAX && stage != SIZE_MAX;
    return (struct rs_whatif_part){.dp_rank = dp == SIZE_MAX ? -1 : graph->dps[dp],
                                   .stage = stage == SIZE_MAX ? -1 : graph->stages[stage],
                                   .rank = is_worker ? graph->ranks[dp * graph->stage_count + stage]
                                                     : -1,
                                   .slowdown = is_worker ? (double)NAN : slowdown_of(play),
                                   .share = is_worker ? (double)NAN : share_of(play),
                                   .factor = factor_of(play, dp, stage)};
}

static int worse_part(const void *a_p, const void *b_p)
{
    const struct rs_whatif_part *a = a_p, *b = b_p;
    if (a->slowdown != b->slowdown)
        return a->slowdown > b->slowdown ? -1 : 1;
    if (a->dp_rank != b->dp_rank)
        return a->dp_rank < b->dp_rank ? -1 : 1;
    return (a->stage > b->stage) - (a->stage < b->stage);
}

static size_t number_of(const int32_t *numbers, int32_t number)
{
    size_t i = 0;
    while (numbers[i] != number)
        i++;
    return i;
}

/* The share of the first `count` of the workers together. */
static double share_of_worst(struct play *play, const struct rs_whatif *whatif, size_t count)
{
    select_none(play);
    for (size_t i = 0; i < count; i++)
        select_part(play, number_of(play->graph->dps, whatif->workers[i].dp_rank),
                    number_of(play->graph->stages, whatif->workers[i].stage));
    return share_of(play);
}

static void judge_kinds(struct play *play, struct rs_whatif *whatif)
{
    for (int type = 0; type < RS_WHATIF_TYPES; type++) {
        if (type == RS_WHATIF_FORWARD_RECV || type == RS_WHATIF_BACKWARD_RECV)
            continue; /* with its send */
        const bool is_forward = type == RS_WHATIF_FORWARD_SEND;
        const bool is_transfer = is_forward || type == RS_WHATIF_BACKWARD_SEND;
        const int recv = is_forward ? RS_WHATIF_FORWARD_RECV : RS_WHATIF_BACKWARD_RECV;
        bool is_there = false;
        select_none(play);
        for (size_t slot = 0; slot < play->graph->worker_count * RS_WHATIF_TYPES; slot++) {
            const int of = (int)(slot % RS_WHATIF_TYPES);
            if (of != type && !(is_transfer && of == recv))
                continue;
            play->selected[slot] = true;
            is_there |= play->graph->counts[slot] > 0;
        }
        if (!is_there)
            continue;
        struct rs_whatif_kind kind = {.name = rs_whatif_type_text((enum rs_whatif_type)type)};
        if (is_transfer)
            kind.name = is_forward ? "forward-pp-comm" : "backward-pp-comm";
        kind.slowdown = slowdown_of(play);
        kind.share = share_of(play);
        size_t at = whatif->kind_count++;
        for (; at && whatif->kinds[at - 1].slowdown < kind.slowdown; at--)
            whatif->kinds[at] = whatif->kinds[at - 1];
        whatif->kinds[at] = kind;
    }
}

/* Do forward and backward of a microbatch vary together? They do where microbatches hold unequal work. */
static double correlate(const struct play *play)
{
    const struct whatif_graph *graph = play->graph;
    double xx = 0, yy = 0, xy = 0;
    for (size_t worker = 0; worker < graph->worker_count; worker++) {
        const size_t f = worker * RS_WHATIF_TYPES + RS_WHATIF_FORWARD;
        const size_t b = worker * RS_WHATIF_TYPES + RS_WHATIF_BACKWARD;
        for (size_t i = 0; i < graph->counts[f] && i < graph->counts[b]; i++)
            for (size_t step = 0; step < graph->step_count; step++) {
                const double *work = graph->work + step * graph->node_count;
                const double x = work[graph->first[f] + i] - play->means[f];
                const double y = work[graph->first[b] + i] - play->means[b];
                xx += x * x;
                yy += y * y;
                xy += x * y;
            }
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : (double)NAN;
}

static const struct rs_whatif_part *largest(const struct rs_whatif_part *parts, size_t count)
{
    const struct rs_whatif_part *best = parts;
    for (size_t i = 1; i < count; i++)
        if (isnan(best->share) || parts[i].share > best->share)
            best = &parts[i];
    return best;
}

static bool name_part(struct rs_whatif *whatif, const struct rs_whatif_part *parts, size_t count,
                      enum rs_whatif_verdict verdict)
{
    const struct rs_whatif_part *best = largest(parts, count);
    if (count < 2 || !(best->share >= ENOUGH))
        return false;
    whatif->culprit = *best;
    whatif->verdict = verdict;
    return true;
}

static void decide(struct play *play, struct rs_whatif *whatif)
{
    const double loss = play->step_ns - play->ideal_ns;
    whatif->varying_share =
        loss > 0 ? (play->step_ns - replay(play, ALL_THEIR_MEAN)) / loss : (double)NAN;
    whatif->microbatch_correlation = correlate(play);
    if (loss < WORTH * play->step_ns) {
        whatif->verdict = RS_WHATIF_NO_LOSS;
        return;
    }
    if (name_part(whatif, whatif->workers, whatif->worker_count, RS_WHATIF_WORKER) ||
        name_part(whatif, whatif->stages, whatif->stage_count, RS_WHATIF_STAGE) ||
        name_part(whatif, whatif->dp_ranks, whatif->dp_count, RS_WHATIF_DP_RANK))
        return;
    for (size_t count = 2; count <= SET_MAX && count * 4 <= whatif->worker_count; count++) {
        const double share = share_of_worst(play, whatif, count);
        if (share < ENOUGH)
            continue;
        whatif->verdict = RS_WHATIF_WORKERS;
        whatif->set_count = count;
        whatif->set_share = share;
        return;
    }
    whatif->verdict = whatif->varying_share >= MOSTLY ? RS_WHATIF_VARYING : RS_WHATIF_SPREAD;
}

static double recorded_step(const struct whatif_graph *graph)
{
    double sum = 0;
    for (size_t step = 0; step < graph->step_count; step++) {
        const size_t base = step * graph->node_count;
        double first = graph->start[base], last = graph->end[base];
        for (size_t i = 1; i < graph->node_count; i++) {
            first = fmin(first, graph->start[base + i]);
            last = fmax(last, graph->end[base + i]);
        }
        sum += last - first;
    }
    return sum / (double)graph->step_count;
}

static enum rs_status judge(struct play *play, struct rs_whatif *whatif, struct rs_err *err)
{
    const struct whatif_graph *graph = play->graph;
    const size_t slots = graph->worker_count * RS_WHATIF_TYPES;
    play->ends = rs_mem_calloc(graph->node_count, sizeof *play->ends);
    play->means = rs_mem_calloc(slots, sizeof *play->means);
    play->selected = rs_mem_calloc(slots, sizeof *play->selected);
    whatif->workers = rs_mem_calloc(graph->worker_count, sizeof *whatif->workers);
    whatif->stages = rs_mem_calloc(graph->stage_count, sizeof *whatif->stages);
    whatif->dp_ranks = rs_mem_calloc(graph->dp_count, sizeof *whatif->dp_ranks);
    if (!play->ends || !play->means || !play->selected || !whatif->workers || !whatif->stages ||
        !whatif->dp_ranks)
        return rs_err_set(err, RS_NOMEM, "no memory for the what-if analysis");
    whatif->worker_count = graph->worker_count;
    whatif->stage_count = graph->stage_count;
    whatif->dp_count = graph->dp_count;
    enum rs_status status = find_ideal(play, err);
    if (status != RS_OK)
        return status;
    whatif->recorded_ns = recorded_step(graph);
    whatif->step_ns = play->step_ns = replay(play, SELECTED_IDEAL); /* nobody is selected */
    whatif->ideal_ns = play->ideal_ns = replay(play, OTHERS_IDEAL);
    if (!(play->ideal_ns > 0))
        return rs_err_set(err, RS_INVALID, "the operations take no time");
    whatif->slowdown = play->step_ns / play->ideal_ns;
    for (size_t i = 0; i < graph->dp_count; i++)
        whatif->dp_ranks[i] = part_of(play, i, SIZE_MAX);
    for (size_t i = 0; i < graph->stage_count; i++)
        whatif->stages[i] = part_of(play, SIZE_MAX, i);
    for (size_t i = 0; i < graph->worker_count; i++) {
        /* A graph with workers has stages: NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
        const size_t dp = i / graph->stage_count, stage = i % graph->stage_count;
        whatif->workers[i] = part_of(play, dp, stage);
        whatif->workers[i].slowdown =
            fmin(whatif->dp_ranks[dp].slowdown, whatif->stages[stage].slowdown);
    }
    qsort(whatif->workers, whatif->worker_count, sizeof *whatif->workers, worse_part);
    for (size_t i = 0; i < whatif->worker_count && i < SHARES_MAX; i++) {
        struct rs_whatif_part *worker = &whatif->workers[i];
        select_none(play);
        select_part(play, number_of(graph->dps, worker->dp_rank),
                    number_of(graph->stages, worker->stage));
        worker->share = share_of(play);
    }
    whatif->worst_count = (graph->worker_count * WORST_PERCENT + 99) / 100;
    whatif->m_w = share_of_worst(play, whatif, whatif->worst_count);
    whatif->m_s = whatif->stages[whatif->stage_count - 1].share;
    judge_kinds(play, whatif);
    decide(play, whatif);
    return RS_OK;
}

enum rs_status rs_whatif_new(struct rs_whatif_ops *ops, struct rs_whatif **whatif_p,
                             struct rs_err *err)
{
    struct whatif_graph graph = {0};
    struct play play = {.graph = &graph};
    struct rs_whatif *whatif = rs_mem_calloc(1, sizeof *whatif);
    enum rs_status status =
        whatif ? whatif_graph_build(ops, &graph, err) : rs_err_set(err, RS_NOMEM, "no memory");
    if (status == RS_OK)
        status = judge(&play, whatif, err);
    if (status == RS_OK) {
        whatif->step_count = graph.step_count;
        whatif->skipped_steps = graph.skipped_steps;
        whatif->first_skipped = graph.first_skipped;
        *whatif_p = whatif;
        status = whatif->skipped_steps ? RS_PARTIAL : RS_OK;
    } else {
        rs_whatif_free(&whatif);
    }
    rs_mem_free(play.ends);
    rs_mem_free(play.means);
    rs_mem_free(play.selected);
    whatif_graph_fini(&graph);
    return status;
}

void rs_whatif_free(struct rs_whatif **whatif_p)
{
    if (!*whatif_p)
        return;
    rs_mem_free((*whatif_p)->workers);
    rs_mem_free((*whatif_p)->stages);
    rs_mem_free((*whatif_p)->dp_ranks);
    rs_mem_free(*whatif_p);
    *whatif_p = NULL;
}
