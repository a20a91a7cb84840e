/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a diagnosis says, as data: who or what makes the job slow, what fixing it brings, how sure that is.
 * Sentences are made from this when a report is printed; rows of the tables finding, finding_place, evidence,
 * diagnosis, wait_cause and unjudged are made from this, too.
 *
 *   diagnosis
 *     findings[]          in the order of fixing: cost is what the job gains when this is fixed after those before
 *       places[]          the set that is named: ranks, a pair, a group, a stage, a host; more than one kind = mixed
 *       also[]            other names of the same set
 *       evidence[]        typed figures
 *     not_worth_fixing[]  real, but neither alone nor left over worth 1 % of a step
 *     loss, replay, waiting (caused[]), unjudged[], sensitivity
 *
 * Lengths are ns; RS_NULL is "not known" or "does not apply". Everything is owned by the diagnosis and
 * freed with it. Formulas: the comment of the file that fills a member names them.
 */
#ifndef RS_ANALYSIS_FINDINGS_H
#define RS_ANALYSIS_FINDINGS_H

#include "common/base/null.h"
#include "common/base/status.h"
#include "common/base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rs_finding_kind {
    RS_FINDING_SLOW_RANK,
    RS_FINDING_SLOW_LINK,
    RS_FINDING_SLOW_GROUP,
    RS_FINDING_SLOW_STAGE,
    RS_FINDING_SLOW_HOST,
    RS_FINDING_DATA_STALL,
    RS_FINDING_HOST_GAP,
    RS_FINDING_IMBALANCE,
    RS_FINDING_JITTER,
    RS_FINDING_OP,
    RS_FINDING_HANG,        /* these four: of rs_hang (hang/hang.h) */
    RS_FINDING_MISMATCH,    /* one call, and its members called different things */
    RS_FINDING_DEADLOCK,    /* two orders of calls that wait for each other */
    RS_FINDING_SILENT_RANK, /* everybody waits for it, and it left no dump */
};
const char *rs_finding_kind_text(enum rs_finding_kind kind); /* "slow_rank" */

enum rs_confidence {
    RS_CONFIDENCE_EXACT,   /* false alarms: at most 1 % of reports */
    RS_CONFIDENCE_BOUNDED, /* as sure of the name; clocks or the graph leave the cost less certain */
    RS_CONFIDENCE_PARTIAL, /* ranks are missing: the cost is between its bounds */
    RS_CONFIDENCE_WEAK     /* false alarms: at most 5 % of reports, or too few steps to know */
};
const char *rs_confidence_text(enum rs_confidence confidence);

enum rs_place_kind {
    RS_PLACE_RANK,
    RS_PLACE_PAIR,  /* two ranks, direction unknown */
    RS_PLACE_LINK,  /* from src to dst */
    RS_PLACE_GROUP, /* text: as in collectives.csv */
    RS_PLACE_STAGE,
    RS_PLACE_HOST,
    RS_PLACE_OP,     /* text: name of a kernel or operator */
    RS_PLACE_WORKER, /* of an operation table: data parallel copy and stage */
};
const char *rs_place_kind_text(enum rs_place_kind kind); /* "rank" */

struct rs_place {
    enum rs_place_kind kind;
    int32_t rank;     /* RANK; -1 else */
    int32_t src, dst; /* PAIR (src < dst), LINK; -1 else */
    int32_t stage;    /* STAGE, WORKER; -1 else */
    int32_t dp;       /* WORKER; -1 else */
    uint32_t group;   /* GROUP: index into rs_analysis.groups; UINT32_MAX else */
    char *text;       /* GROUP, HOST, OP; NULL else */
};

enum rs_evidence_what {
    RS_EVIDENCE_OWN_WORK, /* value per step, reference = healthy peers; seen of: steps above the level */
    RS_EVIDENCE_STAGE_WORK, /* the same of a stage (rank: absent) */
    RS_EVIDENCE_TRANSFER, /* value, reference = peers' median; rank and peer of a pair, or group */
    RS_EVIDENCE_HOST_HEAD, /* value before the first launch of a step; bound = of it in data loading */
    RS_EVIDENCE_WAITING, /* value = waiting this caused; reference = all waiting */
    RS_EVIDENCE_LOOK_AT, /* rank, step, name, start_ns, dur_ns: what to open first */
    RS_EVIDENCE_KERNELS, /* value = kernels per step, reference = peers'; with a rank: operators of its */
    RS_EVIDENCE_REBALANCED, /* value = gain when stages share the work evenly */
    RS_EVIDENCE_LOAD, /* value = bytes of `name` per step that came to rank, which it makes longest; reference = to one in the middle */
    RS_EVIDENCE_SPREAD, /* value = differences among ranks in parts per million */
    /* Of rs_hang. group: index into rs_hang.groups; step: sequence number of the call in its group; name: the call. */
    RS_EVIDENCE_NOT_CALLED, /* rank did not make it; seen of: members that did; value = its last number there */
    RS_EVIDENCE_WAITS_FOR, /* rank waits in it for peer since start_ns, for dur_ns */
    RS_EVIDENCE_BLOCKED,   /* value = ranks that wait in the end, of = ranks of the job */
    RS_EVIDENCE_LAST_CALL, /* the last that rank recorded, at start_ns */
    RS_EVIDENCE_STACK, /* name = frames of rank, innermost first, a line each; peer: of the call it did not make */
    RS_EVIDENCE_DIFFERS, /* rank called name; seen of: members that called the same */
    RS_EVIDENCE_NO_DUMP, /* rank left none; value = ranks without one, of = ranks of the job */
    RS_EVIDENCE_OFF_COURSE, /* rank called name where it called another thing in each of `of` rounds before */
    RS_EVIDENCE_INSIDE, /* all are in (seen of) and nobody is through */
    RS_EVIDENCE_LATE, /* value = median lateness; bound = spread of its peers; seen of: calls in which it was last */
    RS_EVIDENCE_WITNESS, /* NCCL of rank: name = what it says; value = calls, reference = calls of its peers */
    RS_EVIDENCE_NOT_KNOWN, /* name = what; value of: how many ranks */
};
const char *rs_evidence_text(enum rs_evidence_what what); /* "own_work" */

enum rs_figure {
    RS_FIGURE_NONE,
    RS_FIGURE_COMPUTING,
    RS_FIGURE_HOST_HEAD,
    RS_FIGURE_HOST_INSIDE,
    RS_FIGURE_TRANSFER,
    RS_FIGURE_OWN, /* all that a rank does itself: computing and host of a CPU rank */
};
const char *rs_figure_text(enum rs_figure figure); /* "computing" */

struct rs_evidence {
    enum rs_evidence_what what;
    enum rs_figure figure;
    int64_t rank, peer, step;
    uint32_t group; /* index into rs_analysis.groups; UINT32_MAX absent */
    char *name;     /* kernel, or type of the operation; NULL absent */
    int64_t value, reference, bound;
    int64_t bytes;
    int64_t seen, of; /* "in 4 of 4 steps", "64 samples of 4 units" */
    int64_t start_ns, dur_ns;
};

/* The test that decided. */
struct rs_finding_test {
    double factor; /* own figure over the peers' level; 0 for additive ones */
    double noise;  /* standard error of the effect: relative, or ns for additive ones */
    double limit;  /* factor (or ns) above which it is called an effect */
    int64_t peers; /* how many were compared, itself included */
    double level;  /* false alarms per report at which the limit stands */
    double p;      /* of this effect, for all tests of the report together; at least 1e-12 */
};

struct rs_finding_steps {
    int64_t seen, hit; /* hit < seen: intermittent */
    int64_t period,
        phase;     /* every period-th, first at index phase of the recording; 0, 0 irregular */
    int64_t first; /* number of the first step hit; RS_NULL unknown */
    bool began;    /* steps before `first` were recorded, and were healthy */
};

struct rs_finding {
    enum rs_finding_kind kind;
    struct rs_place *places;
    size_t place_count;
    struct rs_place *also;
    size_t also_count;
    rs_dur cost_ns_per_step;
    rs_dur cost_low_ns, cost_high_ns;
    double share;             /* cost / mean step */
    rs_dur alone_ns_per_step; /* gain when this alone is fixed */
    rs_dur left_ns_per_step;  /* loss when all but this is fixed */
    double explains;          /* part of the recoverable loss */
    enum rs_confidence confidence;
    struct rs_finding_steps steps;
    struct rs_finding_test test;
    struct rs_evidence *evidence;
    size_t evidence_count;
    int64_t
        more_steps; /* weak ones: so many more would tell; 0: enough, or no number of steps would */
};

struct rs_wait_cause {
    size_t finding;     /* index into findings; behind these into not_worth_fixing */
    rs_dur caused_ns;   /* over the whole recording */
    rs_dur indirect_ns; /* of it through at least one other rank */
};

enum rs_unjudged_why {
    RS_UNJUDGED_NO_PEERS,       /* no other rank runs the same program in the same groups */
    RS_UNJUDGED_NO_STEPS,       /* no step that is complete on it and its peers */
    RS_UNJUDGED_NO_TIME_BASE,   /* its recording lost its time base */
    RS_UNJUDGED_NO_WORK,        /* nothing of its own work was recorded */
    RS_UNJUDGED_NO_STAGE_ALIKE, /* held against its peers; but whether all of them, its stage, are slow is not known: no other stage does the same work */
    RS_UNJUDGED_ONE_OF_ITS_KIND, /* a group or pair: no other of its kind to compare with */
};
const char *rs_unjudged_text(enum rs_unjudged_why why); /* "no_peers" */

struct rs_unjudged {
    int64_t rank;   /* RS_NULL: a group */
    uint32_t group; /* index into rs_analysis.groups; UINT32_MAX: a rank */
    enum rs_unjudged_why why;
};

/* Why nobody is named. */
enum rs_silence {
    RS_SILENCE_NONE,      /* there are findings above weak */
    RS_SILENCE_FEW_RANKS, /* fewer than two ranks with complete steps */
    RS_SILENCE_NO_STEP,   /* no step is complete on all ranks */
    RS_SILENCE_NO_PEERS,  /* every rank is one of its kind */
    RS_SILENCE_NOTHING,   /* judged, and nothing stands out */
};
const char *rs_silence_text(enum rs_silence silence); /* "few_ranks" */

struct rs_diagnosis {
    struct rs_finding *findings;
    size_t finding_count;
    struct rs_finding *not_worth_fixing;
    size_t not_worth_count;
    struct {
        rs_dur step_ns;                  /* known with the replay; the others: */
        bool is_known;                   /* false: nobody could be judged */
        rs_dur ideal_ns, recoverable_ns; /* per step */
        double slowdown;                 /* step / ideal; 0 unknown */
        bool single_culprit;
        double
            spread_share; /* part of the recoverable loss that no finding explains; of no loss: 0 */
    } loss;
    struct {
        bool is_known; /* false: no complete step, or nothing in it to replay */
        double error_share,
            unexplained_share; /* of the critical path: what does not wait for anything that the recording shows */
        int64_t nodes, edges, inferred_edges, refuted, cycles;
        rs_dur
            clock_bound_ns; /* within which clocks are known, where a cost may be off for it by much; 0 else */
        double clock_meetings; /* and at how many operations of a step that counts */
    } replay;
    struct {
        bool is_known;
        rs_dur total_ns, by_design_ns, absorbed_ns;
        struct rs_wait_cause *caused;
        size_t cause_count;
    } waiting;
    struct rs_unjudged *unjudged;
    size_t unjudged_count;
    struct {
        double smallest_factor; /* a rank less slow than this would not have been seen; 0 unknown */
        rs_dur smallest_cost_ns; /* nor a cost below this per step */
    } sensitivity;
    enum rs_silence silence;
    struct rs_finding *undecided; /* who came closest when nobody is named: more_steps would tell */
    size_t undecided_count;
    size_t judged_ranks;
    int64_t judged_steps;
    size_t
        lost_ops; /* operations that lack rows of ranks that were recorded: costs may be higher */
};

struct rs_analysis;
/* Who makes this job slow. `analysis` needs its operations, waits and groups; nothing of it is kept. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_diagnosis_new(const struct rs_analysis *analysis,
                                              struct rs_diagnosis **diagnosis_p);
void rs_diagnosis_free(struct rs_diagnosis **diagnosis_p);

#endif
