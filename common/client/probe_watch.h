/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run whose ranks do not tell their steps, watched by probes: captures of a few steps of a few ranks, now and then.
 *
 * PyTorch's on-demand profiler, torch_npu and MindSpore tell nobody how long a step takes while they run. So some of their ranks
 * are recorded for some steps; what is kept of it are two lengths a rank, a step and what of it is its own work (not communication
 * that nothing covers), and the capture goes. They are samples for the rules of run_watch.h, that of the run's step time and that of
 * ranks' own work, which are told here that they have few samples: they watch from the sixth probe on, and ask for more until there
 * are twenty.
 *
 *   WAITING --due--> UNDER WAY --rs_probe_watch_take(): read--> WAITING   after a doubt sooner than usual
 *      ^                 |
 *      +-- rs_probe_watch_failed(): each time in a row twice as long -----+
 *
 * **Who is recorded.** Eight ranks at most, the same ones each time so that their figures can be compared, spread evenly over
 * the run; all of a job whose profiler records all or none. In lock step whoever is slow makes everybody's steps longer, so the
 * others are seen by that, and then all are captured.
 *
 * **What it costs.** Two bounds, and the later one counts: a probe begins `every_ns` after the one before (a quarter of it after a
 * longer one), and not before the time in which ranks recorded and wrote is at most the part `share` of all time.
 *
 * A machine that gets busy is no alarm, as in run_watch.h: for how long ranks were ready and had no core is looked at from before a
 * probe until its end.
 */
#ifndef RS_CLIENT_PROBE_WATCH_H
#define RS_CLIENT_PROBE_WATCH_H

#include "common/client/run_watch.h"

enum {
    RS_PROBE_WATCH_RANKS = 8,
    RS_PROBE_WATCH_LEARN = 6,
    RS_PROBE_WATCH_STEPS = 4, /* of a probe; the median counts */
    RS_PROBE_WATCH_INSTANTS = 8,
    RS_PROBE_WATCH_EXPR_BYTES = 12 * RS_PROBE_WATCH_RANKS,
};

/* What the origin of such a capture is called where others have the file their request came from (struct rs_coord_ask): lists
 * leave it out, no webhook names it, and who asked for it removes it. */
extern const char rs_probe_watch_origin[];

struct rs_probe_rules {
    rs_dur every_ns; /* > 0 */
    double share;    /* > 0, < 1: part of the time that may be disturbed */
};

/* A rank that could be probed, as a look at the run shows it. */
struct rs_probe_member {
    uint32_t rank;
    rs_dur delay_ns; /* 0 unknown */
    const char *host;
    int32_t pp, tp;        /* -1 unknown */
    bool is_of_whole_jobs; /* its profiler records all ranks or none */
};

/* What a probe tells of a rank: medians over its whole steps. */
struct rs_probe_figure {
    uint32_t rank;
    rs_dur step_ns, own_ns; /* > 0; own_ns 0: unknown */
};

/* What a probe tells. */
struct rs_probe_told {
    const struct rs_probe_figure *figures; /* lent */
    size_t count;
    rs_dur disturbed_ns; /* for how long its ranks recorded and wrote */
};

struct rs_probe_rank {
    struct rs_rank_peer peer;
    rs_dur own_ns; /* of all samples, as the rule wants it */
};

/* Zeroed is empty. One thread. Instants are monotonic where nothing else is said. */
struct rs_probe_watch {
    struct rs_run_watch rule;
    struct rs_probe_rank ranks[RS_PROBE_WATCH_RANKS]; /* that are compared; ascending */
    size_t rank_count;
    struct rs_rank_peer *members; /* of this look, then of the last; owned */
    size_t member_count, member_capacity;
    bool is_of_whole_jobs;
    rs_dur delay_ns;                 /* so far, of the busiest host, by the last look */
    uint64_t read_count, told_count; /* that were read; as of the last one that told of all ranks */
    rs_ns instants[RS_PROBE_WATCH_INSTANTS]; /* realtime: when the last ones that were read began */
    rs_ns next_at;
    unsigned failures; /* in a row */
    /* of the one that is under way */
    bool is_under_way;
    rs_ns begun_at;
    rs_ns begun_ns; /* realtime */
    rs_dur begun_delay_ns;
};

/* ---- a look at the run: its ranks that tell no steps ---- */
RS_MUST_CHECK enum rs_status rs_probe_watch_add(struct rs_probe_watch *watch,
                                                const struct rs_probe_member *member);
/* That was all of them. Ranks that are others than before are another job: all is learnt anew, and it is left alone for `every_ns`.
 * Returns how many there are. */
size_t rs_probe_watch_seen(struct rs_probe_watch *watch, const struct rs_probe_rules *rules,
                           rs_ns now);
/* The look was cut off: what came of it is none. */
void rs_probe_watch_skip(struct rs_probe_watch *watch);

/* ---- a probe ---- */
bool rs_probe_watch_is_due(const struct rs_probe_watch *watch, rs_ns now);
/* One begins, and who is recorded: a rank expression, "all" for whole jobs. Then take() or failed(). */
void rs_probe_watch_begin(struct rs_probe_watch *watch, rs_ns now, rs_ns realtime,
                          char ranks[RS_PROBE_WATCH_EXPR_BYTES]);
/* It was read. `above` as in step_watch.h. True: *alarm_p is set. */
bool rs_probe_watch_take(struct rs_probe_watch *watch, const struct rs_probe_rules *rules,
                         const struct rs_probe_told *told, rs_ns now, double above,
                         struct rs_run_alarm *alarm_p);
/* It was refused, or told nothing; `disturbed_ns` as above, 0 none. */
void rs_probe_watch_failed(struct rs_probe_watch *watch, const struct rs_probe_rules *rules,
                           rs_dur disturbed_ns, rs_ns now);
void rs_probe_watch_fini(struct rs_probe_watch *watch);

/* The medians of a rank's steps: `lengths` and `own` of `count` steps each, which it puts in order. False: there is none. */
bool rs_probe_figure_of(uint32_t rank, rs_dur *lengths, rs_dur *own, size_t count,
                        struct rs_probe_figure *figure_p);

#endif
