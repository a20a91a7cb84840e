/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching the step time of a run: the states and the rule stand in step_watch.h.
 */
#include "common/client/step_watch.h"

#include "common/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double spreads_above = 4;
static const double spread_least = 0.02; /* of the median: less is no regression */
static const double mad_of_normal =
    1.4826; /* standard deviation of a normal over its median absolute deviation */

/* ---- the rule ---------------------------------------------------------------------------------------------------- */

static int by_length(const void *a_, const void *b_)
{
    const rs_dur a = *(const rs_dur *)a_, b = *(const rs_dur *)b_;
    return (a > b) - (a < b);
}

rs_dur rs_step_median(rs_dur *values, size_t count)
{
    qsort(values, count, sizeof *values, by_length);
    return count % 2 ? values[count / 2]
                     : values[count / 2 - 1] + (values[count / 2] - values[count / 2 - 1]) / 2;
}

static void push(struct rs_step_watch *watch, rs_dur sample, rs_dur delay)
{
    watch->samples[watch->next] = sample;
    watch->delays[watch->next] = delay;
    watch->next = (watch->next + 1) % RS_STEP_WATCH_SAMPLES;
    watch->count += watch->count < RS_STEP_WATCH_SAMPLES;
}

/* *usual_p: the median, set when enough was learnt. */
static bool is_longer(const struct rs_step_watch *watch, rs_dur sample, double above,
                      rs_dur *usual_p)
{
    rs_dur sorted[RS_STEP_WATCH_SAMPLES];
    *usual_p = 0;
    if (watch->count < (watch->learn ? watch->learn : RS_STEP_WATCH_LEARN))
        return false;
    memcpy(sorted, watch->samples, watch->count * sizeof *sorted);
    const rs_dur median = rs_step_median(sorted, watch->count);
    const rs_dur longest = sorted[watch->count - 1];
    for (size_t i = 0; i < watch->count; i++)
        sorted[i] = sorted[i] > median ? sorted[i] - median : median - sorted[i];
    double spread = mad_of_normal * (double)rs_step_median(sorted, watch->count);
    if (spread < spread_least * (double)median)
        spread = spread_least * (double)median;
    if (watch->count < RS_STEP_WATCH_LEARN)
        spread *= 1 + 10.0 / (double)watch->count; /* what few samples say is less sure */
    *usual_p = median;
    return sample > longest && (double)sample > above * (double)median &&
           (double)(sample - median) > spreads_above * spread;
}

/* Whether the time for which ranks had no core grew as much as the step did. */
static bool is_load(const struct rs_step_watch *watch, rs_dur longer_by, rs_dur delay)
{
    rs_dur sorted[RS_STEP_WATCH_SAMPLES];
    memcpy(sorted, watch->delays, watch->count * sizeof *sorted);
    return delay - rs_step_median(sorted, watch->count) >= longer_by;
}

static void take_doubts(struct rs_step_watch *watch)
{
    for (size_t i = 0; i < watch->doubt_count; i++)
        push(watch, watch->doubts[i], watch->doubt_delays[i]);
    watch->doubt_count = 0;
}

static void forget(struct rs_step_watch *watch, const struct rs_step_look *look)
{
    *watch = (struct rs_step_watch){.last = *look, .has_last = true, .learn = watch->learn};
}

static bool judge(struct rs_step_watch *watch, rs_dur sample, rs_dur delay, int64_t first,
                  int64_t last, double above, struct rs_step_alarm *alarm_p)
{
    rs_dur usual;
    if (!is_longer(watch, sample, above, &usual) || is_load(watch, sample - usual, delay)) {
        take_doubts(watch);
        push(watch, sample, delay);
        return false;
    }
    if (!watch->doubt_count)
        watch->first_longer = first;
    watch->doubt_delays[watch->doubt_count] = delay;
    watch->doubts[watch->doubt_count++] = sample;
    if (watch->doubt_count < RS_STEP_WATCH_CONFIRM)
        return false;
    *alarm_p = (struct rs_step_alarm){.before_ns = usual,
                                      .now_ns = rs_step_median(watch->doubts, watch->doubt_count),
                                      .first_step = watch->first_longer,
                                      .last_step = last,
                                      .samples = watch->count};
    return true;
}

bool rs_step_watch_see(struct rs_step_watch *watch, const struct rs_step_look *look, double above,
                       struct rs_step_alarm *alarm_p)
{
    if (look->step < 0)
        return false;
    const struct rs_step_look last = watch->last;
    if (watch->has_last && (look->step < last.step || look->stepping != last.stepping)) {
        forget(watch, look);
        return false;
    }
    if (!watch->has_last) {
        watch->last = *look;
        watch->has_last = true;
        return false;
    }
    if (look->step - last.step < RS_STEP_WATCH_STEPS || look->at <= last.at)
        return false;
    rs_dur sample = (look->at - last.at) / (look->step - last.step);
    if (look->step_ns > 0 && look->step_ns < sample)
        sample = look->step_ns;
    watch->last = *look;
    const rs_dur delay = look->delay_ns > last.delay_ns
                             ? (look->delay_ns - last.delay_ns) / (look->step - last.step)
                             : 0;
    if (!judge(watch, sample, delay, last.step, look->step, above, alarm_p))
        return false;
    forget(watch, look);
    return true;
}

void rs_step_watch_skip(struct rs_step_watch *watch)
{
    watch->has_last = false;
    watch->doubt_count = 0;
}

/* Ranks of one host stand together, mostly. */
static void add_delay(struct rs_step_gather *gather, const char *host, rs_dur delay_ns)
{
    if (strcmp(gather->host, host) != 0) {
        (void)snprintf(gather->host, sizeof gather->host, "%s", host);
        gather->host_delay_ns = 0;
    }
    gather->host_delay_ns += delay_ns;
    if (gather->host_delay_ns > gather->look.delay_ns)
        gather->look.delay_ns = gather->host_delay_ns;
}

enum rs_status rs_step_gather_add(struct rs_step_gather *gather, int64_t step, rs_ns at,
                                  rs_dur step_ns, rs_dur delay_ns, const char *host)
{
    struct rs_step_look *look = &gather->look;
    if (step < 0 || step_ns <= 0)
        return RS_OK;
    if (rs_mem_grow((void **)&gather->lengths, &gather->capacity, look->stepping + 1,
                    sizeof *gather->lengths) < 0)
        return RS_NOMEM;
    gather->lengths[look->stepping] = step_ns;
    if (look->stepping == 0 || step > look->step) {
        look->step = step;
        look->at = at;
    }
    look->stepping++;
    add_delay(gather, host, delay_ns);
    return RS_OK;
}

struct rs_step_look rs_step_gather_take(struct rs_step_gather *gather)
{
    struct rs_step_look look = gather->look;
    if (look.stepping)
        look.step_ns = rs_step_median(gather->lengths, look.stepping);
    else
        look.step = -1;
    gather->look = (struct rs_step_look){.step = -1};
    gather->host[0] = '\0';
    gather->host_delay_ns = 0;
    return look;
}

void rs_step_gather_fini(struct rs_step_gather *gather)
{
    rs_mem_free(gather->lengths);
    *gather = (struct rs_step_gather){.lengths = NULL};
}
