/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated jobs of one kind of trouble, and what the diagnosis says of each: one line of JSON a job.
 *
 *   bench_culprits KIND FIRST_SEED COUNT                     on summaries, in this process
 *   bench_culprits KIND FIRST_SEED COUNT --traces FOLDER     writes files; culprits.py runs `rankscope analyse` on them
 *   bench_culprits --kinds                                   names of all kinds
 *
 * A job counts when removing what was planted gains 2 % of a step or more (a second simulation with the same noise says
 * so) and, where several things were planted, each of them matters; others are drawn again. `culprits.py` judges.
 */
#include "aggregator/analysis/analysis.h"
#include "tests/bench/culprits/record.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum family {
    FAMILY_CLEAN,
    FAMILY_RANK,
    FAMILY_STALL,
    FAMILY_STAGE,
    FAMILY_MESSAGES,
    FAMILY_TENSOR_RING,
    FAMILY_DATA_RING,
    FAMILY_TWO_IN_STAGE,
    FAMILY_TWO_STAGES,
    FAMILY_HOST,
    FAMILY_RANK_AND_LINK,
};

enum option {
    OPTION_NONE = 0,
    OPTION_CLOCKS = 1,
    OPTION_OTHER_MISSING = 2,
    OPTION_CULPRIT_MISSING = 4,
    OPTION_HIDDEN = 8,
    OPTION_TWO_FABRICS = 16,
    OPTION_PAUSES = 32,
    OPTION_MOVING = 64,
    OPTION_CORRELATED = 128,
    OPTION_SPREAD_1 = 256,
    OPTION_SPREAD_3 = 512,
    OPTION_HEAVIER = 1024,
    OPTION_NO_ARGUMENTS = 2048,
    OPTION_ENDS = 8192,
    OPTION_ALONE = 4096, /* each stage is one rank: nobody has peers */
};

struct kind {
    const char *name;
    enum family family;
    double amount; /* factor, or ms */
    uint32_t every;
    unsigned options;
};

static const struct kind kinds[] = {
    {"rank-1.05", FAMILY_RANK, 1.05, 1, 0},
    {"rank-1.1", FAMILY_RANK, 1.1, 1, 0},
    {"rank-1.15", FAMILY_RANK, 1.15, 1, 0},
    {"rank-1.2", FAMILY_RANK, 1.2, 1, 0},
    {"rank-1.3", FAMILY_RANK, 1.3, 1, 0},
    {"rank-1.5", FAMILY_RANK, 1.5, 1, 0},
    {"rank-2.0", FAMILY_RANK, 2.0, 1, 0},
    {"stall-1ms", FAMILY_STALL, 1, 1, 0},
    {"stall-3ms", FAMILY_STALL, 3, 1, 0},
    {"stall-8ms", FAMILY_STALL, 8, 1, 0},
    {"stall-every-2", FAMILY_STALL, 8, 2, 0},
    {"stall-every-3", FAMILY_STALL, 8, 3, 0},
    {"stage-1.2", FAMILY_STAGE, 1.2, 1, 0},
    {"stage-1.5", FAMILY_STAGE, 1.5, 1, 0},
    {"stage-2.0", FAMILY_STAGE, 2.0, 1, 0},
    {"p2p-x3", FAMILY_MESSAGES, 3, 1, 0},
    {"p2p-x10", FAMILY_MESSAGES, 10, 1, 0},
    {"tp-ring-x6", FAMILY_TENSOR_RING, 6, 1, 0},
    {"dp-ring-x6", FAMILY_DATA_RING, 6, 1, 0},
    {"two-in-stage", FAMILY_TWO_IN_STAGE, 1.5, 1, 0},
    {"two-stages", FAMILY_TWO_STAGES, 1.5, 1, 0},
    {"host", FAMILY_HOST, 1.4, 1, 0},
    {"rank-and-link", FAMILY_RANK_AND_LINK, 1.5, 1, 0},
    {"rank-1.2-clocks", FAMILY_RANK, 1.2, 1, OPTION_CLOCKS},
    {"rank-1.2-other-missing", FAMILY_RANK, 1.2, 1, OPTION_OTHER_MISSING},
    {"rank-1.3-hidden", FAMILY_RANK, 1.3, 1, OPTION_HIDDEN},
    {"stall-3ms-hidden", FAMILY_STALL, 3, 1, OPTION_HIDDEN},
    {"clean", FAMILY_CLEAN, 0, 1, 0},
    {"clean-clocks", FAMILY_CLEAN, 0, 1, OPTION_CLOCKS},
    {"clean-two-fabrics", FAMILY_CLEAN, 0, 1, OPTION_TWO_FABRICS},
    {"clean-hidden", FAMILY_CLEAN, 0, 1, OPTION_HIDDEN},
    {"clean-heavier-stage", FAMILY_CLEAN, 0, 1, OPTION_HEAVIER},
    {"rank-1.2-heavier-stage", FAMILY_RANK, 1.2, 1, OPTION_HEAVIER},
    {"clean-no-arguments", FAMILY_CLEAN, 0, 1, OPTION_NO_ARGUMENTS},
    {"rank-1.5-no-arguments", FAMILY_RANK, 1.5, 1, OPTION_NO_ARGUMENTS},
    {"stage-1.5-no-arguments", FAMILY_STAGE, 1.5, 1, OPTION_NO_ARGUMENTS},
    {"pauses", FAMILY_CLEAN, 0, 1, OPTION_PAUSES},
    {"stall-moves", FAMILY_STALL, 8, 1, OPTION_MOVING},
    {"culprit-missing", FAMILY_RANK, 1.5, 1, OPTION_CULPRIT_MISSING},
    {"clean-correlated", FAMILY_CLEAN, 0, 1, OPTION_CORRELATED},
    {"rank-1.2-correlated", FAMILY_RANK, 1.2, 1, OPTION_CORRELATED},
    {"rank-1.2-spread-1", FAMILY_RANK, 1.2, 1, OPTION_SPREAD_1},
    {"clean-spread-1", FAMILY_CLEAN, 0, 1, OPTION_SPREAD_1},
    {"rank-1.2-spread-3", FAMILY_RANK, 1.2, 1, OPTION_SPREAD_3},
    {"clean-spread-3", FAMILY_CLEAN, 0, 1, OPTION_SPREAD_3},
    {"stall-every-3-alone", FAMILY_STALL, 8, 3, OPTION_ALONE},
    {"clean-alone", FAMILY_CLEAN, 0, 1, OPTION_ALONE},
    {"pauses-alone", FAMILY_CLEAN, 0, 1, OPTION_ALONE | OPTION_PAUSES},
    /* at the end: what a seed means depends on the place */
    {"clean-ends", FAMILY_CLEAN, 0, 1, OPTION_ENDS},
    {"rank-1.2-ends", FAMILY_RANK, 1.2, 1, OPTION_ENDS},
    {"stage-1.2-ends", FAMILY_STAGE, 1.2, 1, OPTION_ENDS},
    {"stage-1.5-ends", FAMILY_STAGE, 1.5, 1, OPTION_ENDS},
};

static const double least_gain = 0.02;

/* ---- drawing --------------------------------------------------------------------------------- */

struct dice {
    uint64_t seed, count;
};

static double draw(struct dice *dice)
{
    return job_uniform(dice->seed, 1, 2, dice->count++);
}

static uint32_t below(struct dice *dice, uint32_t limit)
{
    return (uint32_t)(draw(dice) * (double)limit);
}

/* True when the shape has what the kind needs. */
static bool draw_shape(struct dice *dice, const struct kind *kind, uint32_t most, struct job *job)
{
    static const uint32_t sizes[] = {8, 8, 8, 16, 16, 16, 32, 64};
    job->ranks = sizes[below(dice, 8)];
    job->ranks = job->ranks > most ? most : job->ranks;
    job->tp = 1U << below(dice, 3);
    job->pp = 1U << below(dice, 3);
    if ((kind->options & OPTION_ALONE) != 0) {
        job->tp = 1;
        job->ranks = job->pp;
    }
    if (job->tp * job->pp > job->ranks) {
        return false;
    }
    job->dp = job->ranks / (job->tp * job->pp);
    job->steps = 3 + below(dice, 6);
    job->steps =
        kind->every > 1 || (kind->options & OPTION_MOVING) != 0 ? 8 + below(dice, 5) : job->steps;
    if ((kind->options & OPTION_ALONE) != 0) {
        job->steps = 12 + below(dice, 8); /* what its own steps tell takes some */
    }
    job->micro = job->pp + below(dice, job->pp + 1);
    job->layers = 1 + below(dice, 3);
    job->host_size = job->ranks > 8 || draw(dice) < 0.7 ? 8 : 4;
    job->noise = 0.02 + 0.08 * draw(dice);
    job->has_sync = draw(dice) < 0.6;
    job->reads_norm = !job->has_sync || draw(dice) < 0.5;
    job->has_overlap = draw(dice) < 0.5;
    job->has_arguments = (kind->options & OPTION_NO_ARGUMENTS) == 0;
    job->has_hosts = draw(dice) < 0.5 && job->has_arguments;
    job->resolution = !job->has_arguments || draw(dice) < 0.3 ? 1000 : 1;
    job->missing = NOBODY;
    job->has_hidden = (kind->options & OPTION_HIDDEN) != 0;
    job->has_own_clocks = (kind->options & OPTION_CLOCKS) != 0;
    job->stall_moves = (kind->options & OPTION_MOVING) != 0;
    job->correlation = (kind->options & OPTION_CORRELATED) != 0 ? 0.95 : 0;
    job->spikes = (kind->options & OPTION_CORRELATED) != 0 ? 0.01 : 0;
    job->rank_spread = (kind->options & OPTION_SPREAD_1) != 0   ? 0.01
                       : (kind->options & OPTION_SPREAD_3) != 0 ? 0.03
                                                                : 0;
    job->has_ends = (kind->options & OPTION_ENDS) != 0;
    job->heavier_share = (kind->options & OPTION_HEAVIER) != 0 ? 0.3 + draw(dice) : 0;
    if ((kind->options & OPTION_PAUSES) != 0) {
        job->pause_share = 0.3;
        job->pause_ns = 3000000;
    }
    const bool has_hosts = job->ranks > job->host_size;
    const bool needs_hosts =
        (kind->options & (OPTION_CLOCKS | OPTION_TWO_FABRICS)) != 0 || kind->family == FAMILY_HOST;
    const bool needs_stages = kind->family == FAMILY_STAGE || kind->family == FAMILY_MESSAGES ||
                              kind->family == FAMILY_TWO_STAGES ||
                              kind->family == FAMILY_RANK_AND_LINK ||
                              (kind->options & (OPTION_TWO_FABRICS | OPTION_HEAVIER)) != 0;
    const bool needs_tensor = kind->family == FAMILY_TENSOR_RING || job->has_hidden;
    const bool has_class =
        (kind->options & OPTION_ALONE) != 0 ? job->pp > 1 : job_class_size(job) > 1;
    return has_class && (has_hosts || !needs_hosts) && (job->pp > 1 || !needs_stages) &&
           (job->tp > 1 || !needs_tensor) && (job->dp > 1 || kind->family != FAMILY_DATA_RING) &&
           (!job->has_own_clocks || job->has_arguments) &&
           ((kind->options & (OPTION_CULPRIT_MISSING | OPTION_OTHER_MISSING)) == 0 ||
            job->has_arguments);
}

static void slow(struct job *job, const uint32_t *ranks, size_t count, double factor)
{
    struct trouble *trouble = &job->troubles[job->trouble_count++];
    *trouble =
        (struct trouble){.kind = TROUBLE_RANKS, .rank_count = count, .factor = factor, .every = 1};
    memcpy(trouble->ranks, ranks, count * sizeof *ranks);
}

static bool plant_group(struct dice *dice, struct job *job, int stream, double factor)
{
    const uint32_t group = job_group_of(job, below(dice, job->ranks), stream);
    size_t others = 0;
    for (size_t g = 0; g < job->group_count && group != NOBODY; g++) {
        others += g != group && job->groups[g].stream == stream &&
                  job->groups[g].crosses == job->groups[group].crosses;
    }
    job->troubles[job->trouble_count++] =
        (struct trouble){.kind = TROUBLE_GROUP, .group = group, .factor = factor, .every = 1};
    return group != NOBODY && others > 0;
}

/* A pair beside which there is another of its fabric. */
static bool plant_messages(struct dice *dice, struct job *job, double factor)
{
    const uint32_t width = job_class_size(job);
    const uint32_t from = below(dice, job->ranks - width);
    const bool crosses = job_host(job, from) != job_host(job, from + width);
    size_t others = 0;
    for (uint32_t r = 0; r + width < job->ranks; r++) {
        others += r != from && crosses == (job_host(job, r) != job_host(job, r + width));
    }
    job->troubles[job->trouble_count++] = (struct trouble){.kind = TROUBLE_MESSAGES,
                                                           .ranks = {from, from + width},
                                                           .rank_count = 2,
                                                           .factor = factor,
                                                           .way = draw(dice) < 0.5,
                                                           .every = 1};
    return others > 0;
}

static bool plant(struct dice *dice, const struct kind *kind, struct job *job)
{
    uint32_t list[64];
    const uint32_t one = below(dice, job->ranks), width = job_class_size(job);
    const uint32_t stage = job_stage(job, one);
    uint32_t other = stage * width + below(dice, width);
    switch (kind->family) {
    case FAMILY_CLEAN:
        return true;
    case FAMILY_RANK:
        slow(job, &one, 1, kind->amount);
        job->missing = (kind->options & OPTION_CULPRIT_MISSING) != 0 ? one
                       : (kind->options & OPTION_OTHER_MISSING) != 0
                           ? (one + 1 + below(dice, job->ranks - 1)) % job->ranks
                           : NOBODY;
        return (kind->options & OPTION_OTHER_MISSING) == 0 || width > 2 ||
               job_stage(job, job->missing) != stage;
    case FAMILY_STALL:
        job->troubles[job->trouble_count++] =
            (struct trouble){.kind = TROUBLE_STALL,
                             .ranks = {one},
                             .rank_count = 1,
                             .ns = (int64_t)(kind->amount * 1e6),
                             .every = kind->every,
                             .phase = kind->every > 1 ? below(dice, kind->every) : 0};
        return true;
    case FAMILY_STAGE:
        for (uint32_t i = 0; i < width && i < 64; i++) {
            list[i] = stage * width + i;
        }
        slow(job, list, width, kind->amount);
        return width <= 64;
    case FAMILY_MESSAGES:
        return plant_messages(dice, job, kind->amount);
    case FAMILY_TENSOR_RING:
        return plant_group(dice, job, STREAM_TENSOR, kind->amount);
    case FAMILY_DATA_RING:
        return plant_group(dice, job, STREAM_DATA, kind->amount);
    case FAMILY_TWO_IN_STAGE:
        slow(job, &one, 1, kind->amount);
        slow(job, &other, 1, kind->amount);
        return other != one && width > 3;
    case FAMILY_TWO_STAGES:
        other = (one + width) % job->ranks;
        slow(job, &one, 1, kind->amount);
        slow(job, &other, 1, kind->amount);
        return true;
    case FAMILY_HOST:
        for (uint32_t i = 0; i < job->host_size; i++) {
            list[i] = job_host(job, one) * job->host_size + i;
        }
        slow(job, list, job->host_size, kind->amount);
        /* A class of which more than half is slow has another level: what a whole stage is, another row says. */
        return job_stage(job, list[0]) != job_stage(job, list[job->host_size - 1]) ||
               2 * job->host_size <= width;
    case FAMILY_RANK_AND_LINK:
        slow(job, &one, 1, kind->amount);
        return plant_messages(dice, job, 10);
    }
    return false;
}

/* ---- truth ------------------------------------------------------------------------------------- */

struct truth {
    int64_t step_ns, gain_ns;
    int64_t left_ns[4]; /* what is lost while only this one stays */
};

static void find_truth(struct job *job, struct truth *truth)
{
    const unsigned all = (1U << job->trouble_count) - 1;
    job_run(job, 0);
    const int64_t without = job_step_ns(job);
    for (size_t t = 0; t < job->trouble_count; t++) {
        truth->left_ns[t] = 0;
        if (job->trouble_count > 1) {
            job_run(job, 1U << t);
            truth->left_ns[t] = job_step_ns(job) - without;
        }
    }
    job_run(job, all);
    truth->step_ns = job_step_ns(job);
    truth->gain_ns = truth->step_ns - without;
    if (job->trouble_count == 1) {
        truth->left_ns[0] = truth->gain_ns;
    }
}

static bool counts(const struct kind *kind, const struct job *job, const struct truth *truth)
{
    const double least = least_gain * (double)truth->step_ns;
    if (kind->family == FAMILY_CLEAN) {
        return true;
    }
    for (size_t t = 0; t < job->trouble_count && kind->family != FAMILY_RANK_AND_LINK; t++) {
        if ((double)truth->left_ns[t] < least) {
            return false;
        }
    }
    return (double)truth->gain_ns >= least;
}

static void print_planted(const struct job *job, const struct truth *truth)
{
    for (size_t t = 0; t < job->trouble_count; t++) {
        const struct trouble *trouble = &job->troubles[t];
        static const char *const names[] = {"none", "ranks", "stall", "pair", "group"};
        const uint32_t *ranks =
            trouble->kind == TROUBLE_GROUP ? job->groups[trouble->group].ranks : trouble->ranks;
        const size_t count = trouble->kind == TROUBLE_GROUP ? job->groups[trouble->group].count
                                                            : trouble->rank_count;
        (void)printf("%s{\"what\": \"%s\", \"left_ns\": %lld, \"every\": %u, \"ranks\": [",
                     t > 0 ? ", " : "", names[trouble->kind], (long long)truth->left_ns[t],
                     trouble->every);
        for (size_t i = 0; i < count; i++) {
            (void)printf("%s%u", i > 0 ? ", " : "", ranks[i]);
        }
        (void)printf("]}");
    }
}

/* ---- what the diagnosis says --------------------------------------------------------------------- */

static void print_places(const struct job *job, const struct rs_analysis *analysis,
                         const struct rs_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct rs_place *place = &places[i];
        (void)printf("%s{\"place\": ", i > 0 ? ", " : "");
        switch (place->kind) {
        case RS_PLACE_RANK:
            (void)printf("\"rank\", \"ranks\": [%d]}", place->rank);
            break;
        case RS_PLACE_PAIR:
        case RS_PLACE_LINK:
            (void)printf("\"pair\", \"ranks\": [%d, %d]}", place->src, place->dst);
            break;
        case RS_PLACE_GROUP: {
            const struct rs_job_group *group = &analysis->groups[place->group];
            (void)printf("\"group\", \"ranks\": [");
            for (size_t r = 0; group->ranks != NULL && r < group->rank_count; r++) {
                (void)printf("%s%d", r > 0 ? ", " : "", group->ranks[r]);
            }
            (void)printf("]}");
            break;
        }
        case RS_PLACE_STAGE:
            (void)printf("\"stage\", \"ranks\": [");
            for (uint32_t r = 0; r < job_class_size(job); r++) {
                (void)printf("%s%u", r > 0 ? ", " : "",
                             (uint32_t)place->stage * job_class_size(job) + r);
            }
            (void)printf("]}");
            break;
        case RS_PLACE_HOST:
        case RS_PLACE_OP:
        case RS_PLACE_WORKER:
            (void)printf("\"other\", \"ranks\": []}");
            break;
        }
    }
}

static void print_findings(const struct job *job, const struct rs_analysis *analysis)
{
    const struct rs_diagnosis *diagnosis = analysis->diagnosis;
    (void)printf(", \"unexplained\": %.4f, \"mean_step_ns\": %lld, \"findings\": [",
                 diagnosis->replay.unexplained_share, (long long)diagnosis->loss.step_ns);
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const struct rs_finding *finding = &diagnosis->findings[i];
        (void)printf(
            "%s{\"kind\": \"%s\", \"confidence\": \"%s\", \"cost_ns\": %lld, \"low_ns\": %lld, "
            "\"high_ns\": %lld, \"factor\": %.3f, \"p\": %.3g, \"period\": %lld, \"places\": [",
            i > 0 ? ", " : "", rs_finding_kind_text(finding->kind),
            rs_confidence_text(finding->confidence), (long long)finding->cost_ns_per_step,
            (long long)finding->cost_low_ns, (long long)finding->cost_high_ns, finding->test.factor,
            finding->test.p, (long long)finding->steps.period);
        print_places(job, analysis, finding->places, finding->place_count);
        (void)printf("]}");
    }
    (void)printf("]");
}

static bool analyse(const struct job *job)
{
    struct rs_summary *summaries = calloc(job->ranks, sizeof *summaries);
    const struct rs_summary **lent = calloc(job->ranks, sizeof(struct rs_summary *));
    const struct rs_analysis_options options = {0};
    struct rs_analysis *analysis = NULL;
    size_t count = 0;
    if (summaries == NULL || lent == NULL) {
        abort();
    }
    for (uint32_t r = 0; r < job->ranks; r++) {
        if (r != job->missing) {
            record_summary(job, r, &summaries[count]);
            lent[count] = &summaries[count];
            count++;
        }
    }
    const enum rs_status status = rs_analysis_new(lent, count, &options, &analysis, NULL);
    if (status == RS_OK) {
        size_t matched = 0;
        for (size_t i = 0; i < analysis->op_count; i++) {
            matched += analysis->ops[i].is_matched;
        }
        (void)printf(", \"matched\": %.3f, \"one_clock\": %d",
                     analysis->op_count > 0 ? (double)matched / (double)analysis->op_count : 0,
                     analysis->one_clock);
        print_findings(job, analysis);
        rs_analysis_free(&analysis);
    }
    for (size_t i = 0; i < count; i++) {
        record_summary_fini(&summaries[i]);
    }
    free(summaries);
    free(lent);
    return status == RS_OK;
}

/* ---- the door -------------------------------------------------------------------------------------- */

static bool show(const struct kind *kind, const struct job *job, const struct truth *truth,
                 const char *folder)
{
    (void)printf(
        "{\"kind\": \"%s\", \"seed\": %llu, \"ranks\": %u, \"tp\": %u, \"pp\": %u, \"dp\": %u, \"steps\": %u, "
        "\"micro\": %u, \"layers\": %u, "
        "\"host_size\": %u, \"noise\": %.4f, \"sync\": %d, \"norm\": %d, \"overlap\": %d, \"arguments\": %d, \"hosts\": %d, "
        "\"missing\": %d, \"step_ns\": %lld, \"gain_ns\": %lld, \"planted\": [",
        kind->name, (unsigned long long)job->seed, job->ranks, job->tp, job->pp, job->dp,
        job->steps, job->micro, job->layers, job->host_size, job->noise, job->has_sync,
        job->reads_norm, job->has_overlap, job->has_arguments, job->has_hosts,
        job->missing == NOBODY ? -1 : (int)job->missing, (long long)truth->step_ns,
        (long long)truth->gain_ns);
    print_planted(job, truth);
    (void)printf("]");
    bool is_good = true;
    if (folder != NULL) {
        char path[3072];
        (void)snprintf(path, sizeof path, "%s/%s-%llu", folder, kind->name,
                       (unsigned long long)job->seed);
        is_good = mkdir(path, 0700) == 0 || errno == EEXIST;
        is_good = is_good && record_traces(job, path);
        (void)printf(", \"folder\": \"%s\"", path);
    } else {
        is_good = analyse(job);
    }
    (void)printf("}\n");
    return is_good && fflush(stdout) == 0;
}

static int run_kind(const struct kind *kind, uint64_t seed, long count, const char *folder)
{
    const uint32_t most = folder != NULL ? 16 : 64;
    uint64_t tried = 0;
    for (long done = 0; done < count;) {
        struct dice dice = {.seed = seed + (uint64_t)(kind - kinds) * 1000003};
        struct job job = {.seed = seed++};
        struct truth truth = {0};
        if (++tried > (uint64_t)count * 500 + 1000) {
            (void)fprintf(stderr, "culprits: %s: only %ld of %ld jobs count\n", kind->name, done,
                          count);
            return 1;
        }
        if (!draw_shape(&dice, kind, most, &job)) {
            continue;
        }
        job_make(&job);
        if (plant(&dice, kind, &job)) {
            find_truth(&job, &truth);
            if (counts(kind, &job, &truth)) {
                if (!show(kind, &job, &truth, folder)) {
                    job_free(&job);
                    return 1;
                }
                done++;
            }
        }
        job_free(&job);
    }
    return 0;
}

/* ---- scale ------------------------------------------------------------------------------------------ */

/* Of /proc/self/status, in KiB; -1 where there is none. */
static long memory_kib(const char *field)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    long kib = -1;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, strlen(field)) == 0) {
            kib = strtol(line + strlen(field), NULL, 10);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return kib;
}

/* The peak is counted from here on, so that what the simulation took is not in it. */
static void forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "we");
    if (file != NULL) {
        (void)fputs("5", file);
        (void)fclose(file);
    }
}

static double seconds_of(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Takes that share of a rank's operations, and of its kernels, out of the recording: as profilers do whose buffers are full. */
static void lose_rows(struct rs_summary *summary, uint64_t rank, double share)
{
    size_t kept = 0;
    for (size_t i = 0; i < summary->op_count; i++) {
        if (job_uniform(7, 910, rank, i) >= share) {
            summary->ops[kept++] = summary->ops[i];
        }
    }
    summary->op_count = kept;
    for (size_t i = 0; i < summary->span_count; i++) {
        struct rs_span_row *span = &summary->spans[i];
        if (span->count > 1 && job_uniform(7, 911, rank, i) < share * (double)span->count) {
            span->busy -= span->busy / span->count;
            span->count--;
            span->signature ^= i + 1;
        }
    }
}

/* Tensor 8, pipeline 4; five recorded steps of 296 to 300 operations on each rank; rank 17 computes 1.2 times as long. */
static int run_scale(uint32_t ranks, double lost)
{
    enum { TENSOR = 8, STAGES = 4, SLOW = 17 };
    if (ranks > 1024 || ranks < 2 * TENSOR * STAGES || ranks % (TENSOR * STAGES) != 0) {
        (void)fprintf(stderr, "culprits: 64 to 1024 ranks, in multiples of 32\n");
        return 2;
    }
    struct job job = {.seed = 7,
                      .tp = TENSOR,
                      .pp = STAGES,
                      .dp = ranks / (TENSOR * STAGES),
                      .ranks = ranks,
                      .steps = 5,
                      .micro = 8,
                      .layers = 8,
                      .host_size = 8,
                      .noise = 0.03,
                      .resolution = 1,
                      .has_sync = true,
                      .has_overlap = true,
                      .has_hosts = true,
                      .has_arguments = true,
                      .missing = NOBODY};
    const uint32_t slow_rank = SLOW;
    slow(&job, &slow_rank, 1, 1.2);
    job_make(&job);
    job_run(&job, 1);
    struct rs_summary *summaries = calloc(ranks, sizeof *summaries);
    const struct rs_summary **lent = calloc(ranks, sizeof(struct rs_summary *));
    if (summaries == NULL || lent == NULL) {
        abort();
    }
    size_t rows = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        record_summary(&job, r, &summaries[r]);
        lose_rows(&summaries[r], r, lost);
        lent[r] = &summaries[r];
        rows += summaries[r].op_count;
    }
    job_free(&job);
    (void)malloc_trim(0);
    forget_peak();
    const struct rs_analysis_options options = {0};
    struct rs_analysis *analysis = NULL;
    const long before = memory_kib("VmRSS:");
    const double start = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    if (rs_analysis_new(lent, ranks, &options, &analysis, NULL) != RS_OK) {
        abort();
    }
    const double took = seconds_of(CLOCK_MONOTONIC) - start;
    const double worked = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    const struct rs_diagnosis *diagnosis = analysis->diagnosis;
    const bool is_named = diagnosis->finding_count > 0 && diagnosis->findings[0].place_count == 1 &&
                          diagnosis->findings[0].places[0].kind == RS_PLACE_RANK &&
                          diagnosis->findings[0].places[0].rank == SLOW;
    (void)printf(
        "{\"ranks\": %u, \"rows_per_step\": %zu, \"seconds\": %.2f, \"cpu_seconds\": %.2f, "
        "\"summaries_mib\": %ld, \"findings_mib\": %ld, \"first_is_right\": %s}\n",
        ranks, rows / ranks / job.steps, took, worked, before / 1024,
        (memory_kib("VmHWM:") - before) / 1024, is_named ? "true" : "false");
    rs_analysis_free(&analysis);
    for (uint32_t r = 0; r < ranks; r++) {
        record_summary_fini(&summaries[r]);
    }
    free(summaries);
    free(lent);
    return 0;
}

int main(int count, char **words)
{
    const size_t all = sizeof kinds / sizeof kinds[0];
    const bool asks = count == 2 && strcmp(words[1], "--kinds") == 0;
    for (size_t k = 0; k < all && asks; k++) {
        (void)puts(kinds[k].name);
    }
    if (asks) {
        return 0;
    }
    if ((count == 3 || (count == 5 && strcmp(words[3], "--lost") == 0)) &&
        strcmp(words[1], "--scale") == 0) {
        return run_scale((uint32_t)strtoul(words[2], NULL, 10),
                         count == 5 ? strtod(words[4], NULL) : 0);
    }
    if (count < 4 || (count > 4 && (count != 6 || strcmp(words[4], "--traces") != 0))) {
        (void)fprintf(
            stderr,
            "usage: bench_culprits KIND FIRST_SEED COUNT [--traces FOLDER] | --kinds | --scale RANKS [--lost SHARE]\n");
        return 2;
    }
    for (size_t k = 0; k < all; k++) {
        if (strcmp(words[1], kinds[k].name) == 0) {
            return run_kind(&kinds[k], strtoull(words[2], NULL, 10), strtol(words[3], NULL, 10),
                            count == 6 ? words[5] : NULL);
        }
    }
    (void)fprintf(stderr, "culprits: no kind \"%s\"\n", words[1]);
    return 2;
}
