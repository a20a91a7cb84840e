/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run's step time that is watched: says when steps take longer than before, and keep doing so.
 *
 * In lock step all ranks of a run have the same step time, so one series stands for the run. A sample is what steps took since
 * the sample before, four steps of the foremost rank at least. Each is held against the samples before it (128 at most):
 *
 *   LEARNING --`RS_STEP_WATCH_LEARN` samples--> WATCHING --a sample is longer--> DOUBTING --two more are--> alarm, LEARNING
 *                                                  ^                                |
 *                                                  +------ a sample is not ---------+   (those that were are usual from now on)
 *
 * A sample is longer when it is above the median by the factor that was asked for, by four times the spread (from the median
 * deviation, 2 % at least), above all of the samples it is held against, and by more than the time for which the ranks of a host
 * were ready and had no core grew, where that is known: a machine that gets busy is no change of the job. After an alarm the new length is learnt as the
 * usual one: a change is told once. Shorter steps are no alarm. A step number that goes back, or another number of ranks, is
 * another job: all is learnt anew.
 *
 * One long step (a checkpoint, an evaluation) is in one sample only: a sample is the smaller one of the two lengths known, the
 * time between two looks over the steps between them, which one long step spoils once, and the mean of the last steps that
 * ranks tell, which it spoils for many steps, but which is exact where only few steps lie between two looks.
 */
#ifndef RS_CLIENT_STEP_WATCH_H
#define RS_CLIENT_STEP_WATCH_H

#include "common/base/err.h"
#include "common/base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RS_STEP_WATCH_SAMPLES = 128,
    RS_STEP_WATCH_LEARN = 20,
    RS_STEP_WATCH_STEPS = 4,   /* of a sample, at least */
    RS_STEP_WATCH_CONFIRM = 3, /* samples in a row that make an alarm */
};

/* Pure: what is seen comes in, times are arguments. Zeroed is empty. */

/* What a look at the ranks of a run shows. */
struct rs_step_look {
    int64_t step;   /* of the foremost rank; -1: nobody tells one */
    rs_ns at;       /* when it told so: any clock that is always the same */
    rs_dur step_ns; /* median over ranks of the mean of their last steps; 0 unknown */
    rs_dur
        delay_ns; /* so far, of the busiest host: for how long its ranks were ready and had no core, together; 0 unknown */
    size_t stepping; /* ranks that tell steps while they run */
};

/* A look that is put together rank by rank. Zeroed is empty. */
struct rs_step_gather {
    struct rs_step_look look; /* step_ns comes with rs_step_gather_take() */
    rs_dur *lengths;
    size_t capacity;
    char host[64]; /* of the rank before */
    rs_dur host_delay_ns;
};
/* A rank that tells its steps while it runs. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_step_gather_add(struct rs_step_gather *gather, int64_t step,
                                                rs_ns at, rs_dur step_ns, rs_dur delay_ns,
                                                const char *host);
/* Of one value at least; puts them in order. */
rs_dur rs_step_median(rs_dur *values, size_t count);

/* The look; what was gathered is empty again. */
struct rs_step_look rs_step_gather_take(struct rs_step_gather *gather);
void rs_step_gather_fini(struct rs_step_gather *gather);

struct rs_step_watch {
    rs_dur samples[RS_STEP_WATCH_SAMPLES]; /* a ring */
    rs_dur delays[RS_STEP_WATCH_SAMPLES];  /* a step, beside them */
    size_t count, next;
    rs_dur doubts[RS_STEP_WATCH_CONFIRM], doubt_delays[RS_STEP_WATCH_CONFIRM];
    size_t doubt_count;
    int64_t first_longer; /* step at which the first doubt began */
    struct rs_step_look last;
    bool has_last;
    size_t
        learn; /* samples before it watches; 0: RS_STEP_WATCH_LEARN. Fewer of them say less for sure */
};

struct rs_step_alarm {
    rs_dur before_ns, now_ns;      /* usual length of a step; median of the longer samples */
    int64_t first_step, last_step; /* the longer samples' */
    size_t samples;                /* that the usual length is from */
};

/* `above`: factor over the usual length, over 1. True: *alarm_p is set. */
bool rs_step_watch_see(struct rs_step_watch *watch, const struct rs_step_look *look, double above,
                       struct rs_step_alarm *alarm_p);
/* Steps while somebody captured cost more: they are not compared, the rest stays learnt. */
void rs_step_watch_skip(struct rs_step_watch *watch);

#endif
