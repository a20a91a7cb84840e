/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the diagnosis share: the model of a job, panels of figures, elements.
 *
 *   model     a graph, and what its nodes mean: whose work in which step at which position; transfers by unit
 *   panel     units x steps of one figure: who stands out of whom, against the noise that the panel shows
 *   element   something that can be fixed: which nodes' work it changes, by how much
 */
#ifndef RS_DIAGNOSE_DIAGNOSE_PRIV_H
#define RS_DIAGNOSE_DIAGNOSE_PRIV_H

#include "aggregator/analysis/diagnose/graph.h"
#include "aggregator/analysis/findings.h"
#include "common/base/strtab.h"

#define X(name, value, source, derived) static const double DIAG_##name = (value);
// NOLINTNEXTLINE(bugprone-suspicious-include)
#include "aggregator/analysis/diagnose/calibration.def"
#undef X

/* ---- model ----------------------------------------------------------------------------- */

struct diag_worker {
    int32_t rank;      /* of an operation table: its worker number */
    uint32_t summary;  /* GRAPH_NONE of an operation table */
    int32_t dp, stage; /* -1 unknown */
    uint32_t class_id;
    int32_t host; /* index; -1 unknown */
    bool has_device;
    bool is_judged; /* has work in complete steps; no_peers etc. is found later */
};

/* Work of one node that belongs to a worker. By (worker, step, position). There are several for each operation of a job: small. */
struct diag_item {
    uint32_t node, worker, step;
    uint32_t
        position; /* within its class's program; the same on all members in all steps; GRAPH_NONE: not known, since rows were lost */
    uint32_t type;   /* operation table: index of its type; 0 else */
    rs_str name;     /* with most time in its span, of its rank's summary; RS_STR_NONE: none */
    int32_t kernels; /* operators on a rank without a device; -1 unknown */
    uint8_t figure;  /* enum rs_figure: COMPUTING, HOST_HEAD, HOST_INSIDE */
    rs_dur
        input;   /* of a head, or of the first item of a host's step: in data loading; -1 unknown */
    rs_dur part; /* what the figure is, where it is only a part of the node's work; -1: all of it */
    uint64_t signature; /* equal: the same kernels in the same order; 0 unknown */
};

/* The transfer of one operation. By unit. */
struct diag_move {
    uint32_t unit, step;
    uint32_t key; /* moves of one key should take equally long */
    uint32_t type;
    bool is_back;                    /* from the pair's second rank to its first */
    bool has_way;                    /* is_back is known */
    int64_t bytes;                   /* -1 unknown */
    double ns;                       /* mean over members */
    uint32_t node_first, node_count; /* into move_nodes: the ends that it belongs to */
};

struct diag_unit {
    int32_t a, b;   /* workers of a pair, a < b; -1 of a group */
    uint32_t group; /* GRAPH_NONE of a pair */
    uint32_t panel; /* units of one panel are compared */
    uint32_t size;
};

struct diag_wait {
    uint32_t start, meeting; /* nodes */
    uint32_t worker, last;   /* who waits; who came last, GRAPH_NONE: several */
};

/* An all_to_all that says how much work came to a rank. */
struct diag_load {
    uint32_t worker, step;
    uint32_t slot; /* operations of the step before it */
    double bytes;
};

/* All that a worker ran of one computing kernel. */
struct diag_name {
    uint64_t key; /* of its name, equal on all ranks */
    uint32_t worker;
    double count, ns, fastest_ns;
};

struct diag_model {
    struct graph graph;
    struct diag_worker *workers;
    size_t worker_count;
    size_t class_count;
    bool *class_is_judged; /* [class] has two or more members with work */
    struct diag_item *items;
    size_t item_count, item_capacity;
    size_t *item_first; /* [worker + 1] */
    struct diag_unit *units;
    size_t unit_count, unit_capacity;
    size_t panel_count; /* of units */
    struct diag_move *moves;
    size_t move_count, move_capacity;
    size_t *move_first; /* [unit + 1] */
    size_t key_count;
    uint32_t *move_nodes;
    size_t move_node_count, move_node_capacity;
    struct diag_wait *waits;
    size_t wait_count, wait_capacity;
    bool waits_are_known; /* false: clocks or members missing hide some */
    rs_dur clock_bound;   /* within which all clocks are known; 0: one clock */
    size_t
        lost_ops; /* operations within the recording that lack rows of ranks that were recorded */
    bool has_lost_rows; /* of ranks that were recorded: what they did is known in part */
    double
        lost_doubt; /* how unequally much of their work the ranks of a class lack, as a logarithm, of the class in which they do most */
    double meetings; /* operations of a step in which a rank meets others, of the rank with most */
    int64_t *cpu;    /* [worker * steps] CPU time of its own work; NULL unless all know it */
    rs_dur *
        inputs; /* [worker * steps] time in data loading within what HOST_INSIDE is of; -1 unknown */
    struct diag_load *loads; /* where they differ between ranks or steps */
    size_t load_count, load_capacity;
    struct diag_name *names; /* by worker; none where there is only one class, or very many */
    size_t name_count, name_capacity;
    size_t lanes;   /* position of computing on a device: slot * lanes + lane */
    int64_t *steps; /* numbers */
    size_t step_count;
    rs_ns base;              /* instant of 0 in the graph */
    bool steps_are_separate; /* operation table: every step starts at 0, their lengths are summed */
    size_t type_count;       /* operation table: types of work */
    enum rs_confidence best; /* what coverage and clocks allow at most */
};

/* Sorts items and moves, counts classes; after it the model is read only. RS_NOMEM. */
RS_MUST_CHECK enum rs_status diag_model_finish(struct diag_model *model);
void diag_model_fini(struct diag_model *model);

/* Whether the ranks of a class are a stage of a pipeline: messages pass between ranks of the job. Else they only run a program of
 * their own, as far as was recorded, or ranks of several stages lack rows. */
bool diag_is_stage(const struct diag_model *model, uint32_t class_id);

/* Whether one end of a pair is on that host. */
static inline bool diag_unit_touches(const struct diag_model *model, size_t unit, int32_t host)
{
    const struct diag_unit *pair = &model->units[unit];
    return pair->a >= 0 &&
           (model->workers[pair->a].host == host || model->workers[pair->b].host == host);
}

/* What an item says of its figure. */
static inline rs_dur diag_value(const struct diag_model *model, const struct diag_item *item)
{
    return item->part >= 0 ? item->part : model->graph.work[item->node];
}

/* Ranks without a device: a transfer takes as long as its ends wait for a core, whatever is known of their own work. */
bool diag_runs_on_cores(const struct diag_model *model);
/* Ranks without a device whose own work is known by wall time alone: what other processes did on their cores is in it. */
bool diag_may_share_cores(const struct diag_model *model);

/* ends[step] of a replay: the latest instant of that step's nodes, never before an earlier step's. */
void diag_step_ends(const struct diag_model *model, const rs_ns *times, rs_ns *ends);
rs_ns diag_start(const struct diag_model *model);

/* ---- statistics (panel.c) --------------------------------------------------------------- */

double diag_t_above(double t, double dof);          /* P(T > t) */
double diag_t_quantile(double p_above, double dof); /* t with P(T > t) = p_above */
struct diag_half {
    double mean, variance, square_range;
};
struct diag_half diag_faster_half(size_t n);
double diag_median(double *values, size_t count); /* sorts them; rs_median() does not */

struct diag_panel {
    size_t n, steps;
    double *y;              /* [n * steps]; NAN: unknown */
    uint32_t *id;           /* [n] worker, class or unit */
    double *a;              /* [n] mean over steps; NAN: none */
    double *rest;           /* [n * steps] y - a - what all have in that step */
    bool is_additive;       /* ns; else logarithms */
    bool by_median;         /* a is the median over steps: the noise only adds */
    uint8_t *has_more_work; /* [n] more to do than the others: not part of the level */
    uint8_t figure;
    uint32_t class_id;
    double base, base_variance; /* level of the healthy, in units of one's own variance */
    double limit;               /* the healthy lie below it */
    double healthy,
        healthy_squares; /* how many, and their squares about the level; 0: too few for a mean */
    double *p_noise;     /* [n] chance of such an effect by noise, before counting tests */
    double *p_tau;       /* [n] chance of it by ordinary differences, over the pool's members */
};

/* Panels whose cells have the same noise. */
struct diag_pool {
    struct diag_panel **panels;
    size_t count;
    bool shares_cores; /* the members' ranks may compete for the CPU: their steps say how much */
    double noise;      /* of one cell */
    double dof;
    double tau, tau_dof;
    double apart_squares, apart_dof; /* of the healthy about their level, noise and differences */
};

/* Of a member's level by noise alone. */
double diag_own_variance(const struct diag_pool *pool, const struct diag_panel *panel);
RS_MUST_CHECK enum rs_status diag_panel_new(size_t n, size_t steps, struct diag_panel **panel_p);
void diag_panel_free(struct diag_panel **panel_p);
/* Noise and ordinary differences of the pool, then levels and p of every member. `tau_prior` in units of y,
 * `tests`: how many panels the report has in all. RS_NOMEM. */
RS_MUST_CHECK enum rs_status diag_pool_judge(struct diag_pool *pool, double tau_prior,
                                             double tests);

/* ---- elements (effects.c) ---------------------------------------------------------------- */

enum diag_what {
    DIAG_RANK, /* work of one worker */
    DIAG_HEAD, /* host time before a worker's first launch */
    DIAG_IDLE, /* host time inside a step: between launches; on CPU ranks, own time in which nothing computed */
    DIAG_STAGE,   /* work of a class */
    DIAG_UNIT,    /* transfers of a pair or group */
    DIAG_HEAVIER, /* stages with more kernels, all together */
    DIAG_LOADED,  /* ranks to which more work comes, all together */
    DIAG_SPREAD,  /* ordinary differences, all together */
    DIAG_JITTER,  /* hits that fall on many ranks */
};

struct diag_element {
    enum diag_what what;
    uint32_t id;       /* worker, class or unit */
    uint32_t position; /* GRAPH_NONE: all */
    double effect;     /* log factor, or ns */
    double se;
    bool is_additive;
    bool is_idle;         /* JITTER of own idle time */
    bool is_of_own_steps; /* HEAD, IDLE of a rank without peers: held against its other steps */
    int way; /* UNIT: 1 only from the first to the second rank, -1 only back, 0 both or unknown */
    double way_effects[2]; /* UNIT whose `way` is not 0: there and back, each its own */
    bool
        is_of_host; /* UNIT: all pairs of one host are slow, and these are a large part of its fabric */
    double *by_step;   /* [steps] effect in that step when it is intermittent; NULL: lasting */
    double p;          /* for all tests of the report */
    double p_ordinary; /* chance of it by what ranks differ by anyway */
    double limit, noise;
    double
        more_steps; /* that would make a lasting effect sure, were it only the noise that stands against it; 0: none */
    size_t peers;
    double own, healthy;               /* ns per step, for evidence */
    double operators, peers_operators; /* per step, where it has more of them to run; 0 else */
    double input;                      /* of `own`, in data loading; -1 unknown */
    double healthy_input;              /* the same of its peers; 0 unknown */
    size_t hits, period, phase, first;
    bool began;
    bool lacks_first; /* the beat is one without the first step, in which it was not seen */
    bool
        has_beat; /* period and phase by the chance of all beats that were tried: effects_cores.c */
    uint32_t *among; /* SPREAD, HEAVIER, LOADED, JITTER: ids of the workers meant */
    size_t among_count;
    double *among_effects; /* [among_count] or [among_count * steps] */
    double *
        among_loads; /* LOADED: so many times as much comes to it as to one in the middle, as a logarithm */
    double *
        by_place; /* [place_count] RANK whose work is longer at some positions than at others: effect at each */
    size_t place_count;
    double *
        excess_steps; /* [steps] HEAD, IDLE that lasts: effect in each, where it varies more than peers do; NULL: equal */
    double *
        idle_levels; /* [idle_level_count] IDLE: what its peers' hosts let pass at each slot, per step */
    size_t idle_level_count;
    double sum; /* evidence of SPREAD: largest difference */
};

struct diag_effects {
    struct diag_element *elements;
    size_t count, capacity;
    struct diag_element spread, heavier, loaded, jitter; /* among_count 0: none */
    double smallest_factor;                              /* that would have been seen */
    size_t judged_workers;
    uint8_t *is_stage_compared; /* [class] held against other classes; NULL: there are none */
    bool has_close;             /* somebody stands out, but not enough to be named */
    struct diag_element close;
    double close_more_steps;
};

RS_MUST_CHECK enum rs_status diag_effects_find(const struct diag_model *model,
                                               struct diag_effects *effects);
void diag_effects_fini(struct diag_effects *effects);
/* work[] as it is when the element's lasting excess is gone; `scale`: of the effect, 1 = all of it. */
void diag_apply(const struct diag_model *model, const struct diag_element *element, double shift,
                rs_dur *work);
/* Everything at its level: random variation gone, too. */
RS_MUST_CHECK enum rs_status diag_ideal(const struct diag_model *model,
                                        const struct diag_effects *effects, rs_dur *work);

/* ---- stages.c ------------------------------------------------------------------------------ */

struct diag_stages {
    double *
        total; /* [class * steps] logarithm of all computing of a step, median of the faster half; NAN */
    double *same;         /* of what all compared stages run */
    double *kernels;      /* [class] per step and rank; 0 unknown */
    bool are_alike;       /* all run equally many */
    uint8_t *is_compared; /* [class] it is held against others */
    bool is_by_names;     /* `same` is of kernels by name, not of spans */
};

RS_MUST_CHECK enum rs_status diag_stages_measure(const struct diag_model *model,
                                                 struct diag_stages *stages);
void diag_stages_fini(struct diag_stages *stages);
/* effects->heavier, when the elements are known. RS_NOMEM. */
RS_MUST_CHECK enum rs_status diag_stages_heavier(const struct diag_model *model,
                                                 const struct diag_stages *stages,
                                                 struct diag_effects *effects);
/* work[] when all stages share the work evenly. */
void diag_stages_share(const struct diag_model *model, rs_dur *work);

/* ---- decide.c, blame.c -------------------------------------------------------------------- */

/* A finding while it is decided: the elements of its set. */
struct diag_set {
    size_t *members; /* lent */
    size_t count;
    enum rs_finding_kind kind;
    rs_dur cost, alone, left, low, high; /* per step */
    bool is_worth;
    bool is_spread, is_heavier, is_loaded, is_jitter;
    rs_dur rebalanced; /* HEAVIER: gain when all stages share the work */
    rs_dur
        clock_doubt; /* by which clocks alone may have hidden a part of the cost, or have made it up; per step */
};

struct diag_verdict {
    struct diag_set *sets;
    size_t count, capacity;
    size_t *members; /* of all sets */
    size_t member_count;
    size_t worth_count; /* the first so many are findings, the rest is not worth fixing */
    rs_dur step_ns, ideal_ns;
    double error_share, unexplained_share;
    rs_dur close_gain; /* of effects->close */
};

/* Of stages with more to do only those stay in `effects` that the others wait for. The caller ends the verdict with diag_verdict_fini; after
 * an error it is empty. */
RS_MUST_CHECK enum rs_status diag_decide(const struct diag_model *model,
                                         struct diag_effects *effects,
                                         struct diag_verdict *verdict);
void diag_verdict_fini(struct diag_verdict *verdict);

struct diag_blame {
    bool is_known;
    rs_dur total, by_design, absorbed;
    rs_dur *caused, *indirect; /* [set] */
};
RS_MUST_CHECK enum rs_status diag_blame_waits(const struct diag_model *model,
                                              const struct diag_effects *effects,
                                              const struct diag_verdict *verdict,
                                              struct diag_blame *blame);

#endif
