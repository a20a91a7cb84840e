/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of a run whose own work is watched: says which one begins to take longer than before, compared with the others.
 *
 * In lock step all ranks have one step time, and whoever is slow makes the others wait. What a step takes outside communication,
 * though, is a rank's own: it is long on the slow one, and the same as before on those that wait. A sample of a rank is what its
 * own work took per step since the sample before, four steps at least, as a multiple of the ranks' median: a machine that gets busy,
 * or work that grows for all, makes all of them longer and moves no multiple. Each rank is held against its own past
 * (128 samples at most), so ranks may do different work:
 *
 *   LEARNING --RS_RANK_WATCH_LEARN samples--> WATCHING --a sample is longer--> DOUBTING --three in a row, or two by far--> SUSPECT
 *                                                ^                                |                                        |
 *                                                +------ a sample is not ---------+      (told once; learns anew) <--------+
 *
 * A sample is longer when it is above the rank's median by the factor that was asked for, by five times its spread (from the median
 * deviation, 2 % at least, more where few samples say it), above all that it is held against, and what it is longer by is 3 % of a step at least: what is next to
 * nothing is nobody's trouble. It is longer by far with twice the excess and eight times the spread.
 *
 * Whoever tells no own work is not watched, and with fewer than three that do nobody is: of two nobody can say which one is usual.
 */
#ifndef RS_CLIENT_RANK_WATCH_H
#define RS_CLIENT_RANK_WATCH_H

#include "common/base/err.h"
#include "common/base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RS_RANK_WATCH_SAMPLES = 128,
    RS_RANK_WATCH_LEARN = 20,
    RS_RANK_WATCH_STEPS = 4,   /* of a sample, at least */
    RS_RANK_WATCH_CONFIRM = 3, /* samples in a row that make a suspect */
    RS_RANK_WATCH_LEAST = 3,   /* ranks that are compared */
    RS_RANK_WATCH_SUSPECTS = 16,
};

/* One rank, as a look shows it. */
struct rs_rank_look {
    uint32_t rank;
    int64_t step;
    rs_dur own_ns; /* of all its steps before that one; 0: it does not tell */
};

struct rs_rank_track; /* what is known of one rank */

/* Zeroed is empty. One thread. */
struct rs_rank_watch {
    struct rs_rank_track *tracks; /* ascending by rank; owned */
    size_t count, capacity;
    struct rs_rank_look *looks; /* of this look; owned */
    size_t look_count, look_capacity;
    bool has_new; /* a rank that was not there in the last look */
    size_t learn; /* samples of a rank before it is watched; 0: RS_RANK_WATCH_LEARN */
};

struct rs_rank_suspect {
    uint32_t rank;
    rs_dur before_ns,
        now_ns; /* its own work a step: as it would usually be among the others now, and as it is */
    int64_t first_step, last_step;
};

/* Suspects of one look: the one that is longer by most first. */
struct rs_rank_alarm {
    struct rs_rank_suspect suspects[RS_RANK_WATCH_SUSPECTS];
    size_t count;
};

/* A rank of this look. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_rank_watch_add(struct rs_rank_watch *watch,
                                               const struct rs_rank_look *look);
/* Decides on what was added since the last call. `step_ns`: how long a step takes now, 0 unknown; `above`: factor over the usual,
 * over 1. True: *alarm_p is set. */
bool rs_rank_watch_see(struct rs_rank_watch *watch, rs_dur step_ns, double above,
                       struct rs_rank_alarm *alarm_p);
/* Steps while somebody captured cost more: they are not compared, the rest stays learnt. */
void rs_rank_watch_skip(struct rs_rank_watch *watch);
/* Whether the rank has learnt enough to be suspected, and is in no doubt. */
bool rs_rank_watch_is_healthy(const struct rs_rank_watch *watch, uint32_t rank);
/* Whether a rank's last sample was longer, and it is not decided yet. */
bool rs_rank_watch_is_in_doubt(const struct rs_rank_watch *watch);
void rs_rank_watch_fini(struct rs_rank_watch *watch);

/* ---- who is captured ---- */

/* A rank that could be the peer of a suspect. */
struct rs_rank_peer {
    uint32_t rank;
    int32_t pp, tp; /* -1 unknown */
};

/* The suspects and one healthy rank each that does the same work (same stage and tensor slice, where they are known; the nearest
 * number), as a rank expression: "2-3,17". False: it has no room. */
bool rs_rank_watch_chosen(const struct rs_rank_watch *watch, const struct rs_rank_alarm *alarm,
                          const struct rs_rank_peer *peers, size_t count, char *ranks,
                          size_t bytes);

#endif
