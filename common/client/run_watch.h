/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that is watched: its step time (step_watch.h) and its ranks' own work (rank_watch.h), from what collectors tell of ranks
 * anyway. `rankscope watch` and the aggregator's standing watch decide with it.
 *
 * A rank whose own work takes longer is an alarm that has suspects: they and a healthy rank each are worth capturing. Steps that take
 * longer without anybody's own work (a link, all ranks alike) have none: the whole run is. Both of one change are told once: what the
 * one notices, the other learns anew.
 *
 * A machine that gets busy is nobody's change. Where collectors tell how long ranks were ready and had no core, steps that
 * are longer by no more than that grew are not held against the run.
 */
#ifndef RS_CLIENT_RUN_WATCH_H
#define RS_CLIENT_RUN_WATCH_H

#include "common/base/json_out.h"
#include "common/client/rank_watch.h"
#include "common/client/step_watch.h"
#include "common/wire/link.h"

enum { RS_RUN_WATCH_RANKS_BYTES = 16 * RS_RANK_WATCH_SUSPECTS };

/* A rank that tells its steps while it runs, as its collector told of it last. */
struct rs_run_member {
    uint32_t rank;
    int64_t step;
    rs_ns at;                         /* any clock that is always the same */
    rs_dur step_ns, own_ns, delay_ns; /* 0 unknown */
    const char *host;
    int32_t pp, tp; /* -1 unknown */
};

/* Zeroed is empty. One thread. */
struct rs_run_watch {
    struct rs_step_watch steps;
    struct rs_rank_watch ranks;
    struct rs_step_gather gather;
    struct rs_rank_peer *peers; /* of this look; owned */
    size_t peer_count, peer_capacity;
    struct rs_step_look look; /* the last one */
};

struct rs_run_alarm {
    struct rs_step_alarm steps; /* no suspects: of the run. samples 0: it is the suspects' */
    struct rs_rank_alarm ranks; /* count 0: nobody is suspected */
    char chosen[RS_RUN_WATCH_RANKS_BYTES]; /* who is to be captured; "" all */
    rs_ns
        since_ns; /* realtime; steps that were probed have no numbers (-1): the first longer ones were then. 0: they have */
};

RS_MUST_CHECK enum rs_status rs_run_watch_add(struct rs_run_watch *watch,
                                              const struct rs_run_member *member);
/* Decides on what was added since the last call. `above` as in step_watch.h. Steps that are recorded are not compared. */
bool rs_run_watch_see(struct rs_run_watch *watch, bool is_recording, double above,
                      struct rs_run_alarm *alarm_p);
/* The same of a look that was made otherwise (probe_watch.h); of the ranks only those that `ranks` was given since. */
bool rs_run_watch_judge(struct rs_run_watch *watch, const struct rs_step_look *look, double above,
                        struct rs_run_alarm *alarm_p);
/* Nobody could be asked: the time is not compared. */
void rs_run_watch_skip(struct rs_run_watch *watch);
void rs_run_watch_fini(struct rs_run_watch *watch);

/* "rank 3 takes 412.0 ms a step for its own work, 2.71 times as long as before (152.0 ms), from step 204 on". */
void rs_run_alarm_text(const struct rs_run_alarm *alarm, char *text, size_t bytes);
/* The alarm as a JSON object: reason, lengths, suspects. */
void rs_run_alarm_put(const struct rs_run_alarm *alarm, struct rs_json_out *json);
/* The same as a document of one line: what is kept with the capture that is started for it. */
void rs_run_alarm_json(const struct rs_run_alarm *alarm, struct rs_buf *buf);

/* ---- asking ---- */

struct rs_probe_watch;

struct rs_run_look {
    char found[64];    /* its name; "" there is none */
    bool is_recording; /* one of its ranks does */
    bool tells_steps;  /* one of them does, or will */
};

/* Adds the ranks of `run` ("" the only one) as the aggregator knows them now: those that tell their steps to `watch`, others to
 * `probe` (probe_watch.h; NULL: they are passed over). As rs_client_ask(); RS_INVALID: several runs, and none was named. */
RS_MUST_CHECK enum rs_status rs_client_run_look(const struct rs_address *address, const char *run,
                                                struct rs_run_watch *watch,
                                                struct rs_probe_watch *probe,
                                                struct rs_run_look *look_p, struct rs_err *err);

#endif
