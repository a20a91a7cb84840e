/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching the step time of a run: the states and the rule stand in step_watch.h.
 */
#include "common/client/step_watch.h"

#include "common/base/mem.h"
#include "common/client/client.h"
#include "common/request/adapter.h"

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

static rs_dur median_of(rs_dur *values, size_t count)
{
    qsort(values, count, sizeof *values, by_length);
    return count % 2 ? values[count / 2]
                     : values[count / 2 - 1] + (values[count / 2] - values[count / 2 - 1]) / 2;
}

static void push(struct rs_step_watch *watch, rs_dur sample)
{
    watch->samples[watch->next] = sample;
    watch->next = (watch->next + 1) % RS_STEP_WATCH_SAMPLES;
    watch->count += watch->count < RS_STEP_WATCH_SAMPLES;
}

/* *usual_p: the median, set when enough was learnt. */
static bool is_longer(const struct rs_step_watch *watch, rs_dur sample, double above,
                      rs_dur *usual_p)
{
    rs_dur sorted[RS_STEP_WATCH_SAMPLES];
    *usual_p = 0;
    if (watch->count < RS_STEP_WATCH_LEARN)
        return false;
    memcpy(sorted, watch->samples, watch->count * sizeof *sorted);
    const rs_dur median = median_of(sorted, watch->count);
    const rs_dur longest = sorted[watch->count - 1];
    for (size_t i = 0; i < watch->count; i++)
        sorted[i] = sorted[i] > median ? sorted[i] - median : median - sorted[i];
    double spread = mad_of_normal * (double)median_of(sorted, watch->count);
    if (spread < spread_least * (double)median)
        spread = spread_least * (double)median;
    *usual_p = median;
    return sample > longest && (double)sample > above * (double)median &&
           (double)(sample - median) > spreads_above * spread;
}

static void take_doubts(struct rs_step_watch *watch)
{
    for (size_t i = 0; i < watch->doubt_count; i++)
        push(watch, watch->doubts[i]);
    watch->doubt_count = 0;
}

static void forget(struct rs_step_watch *watch, const struct rs_step_look *look)
{
    *watch = (struct rs_step_watch){.last = *look, .has_last = true};
}

static bool judge(struct rs_step_watch *watch, rs_dur sample, int64_t first, int64_t last,
                  double above, struct rs_step_alarm *alarm_p)
{
    rs_dur usual;
    if (!is_longer(watch, sample, above, &usual)) {
        take_doubts(watch);
        push(watch, sample);
        return false;
    }
    if (!watch->doubt_count)
        watch->first_longer = first;
    watch->doubts[watch->doubt_count++] = sample;
    if (watch->doubt_count < RS_STEP_WATCH_CONFIRM)
        return false;
    *alarm_p = (struct rs_step_alarm){.before_ns = usual,
                                      .now_ns = median_of(watch->doubts, watch->doubt_count),
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
    if (!judge(watch, sample, last.step, look->step, above, alarm_p))
        return false;
    forget(watch, look);
    return true;
}

void rs_step_watch_skip(struct rs_step_watch *watch)
{
    watch->has_last = false;
    watch->doubt_count = 0;
}

enum rs_status rs_step_gather_add(struct rs_step_gather *gather, int64_t step, rs_ns at,
                                  rs_dur step_ns)
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
    return RS_OK;
}

struct rs_step_look rs_step_gather_take(struct rs_step_gather *gather)
{
    struct rs_step_look look = gather->look;
    if (look.stepping)
        look.step_ns = median_of(gather->lengths, look.stepping);
    else
        look.step = -1;
    gather->look = (struct rs_step_look){.step = -1};
    return look;
}

void rs_step_gather_fini(struct rs_step_gather *gather)
{
    rs_mem_free(gather->lengths);
    *gather = (struct rs_step_gather){.lengths = NULL};
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

struct looking {
    struct rs_step_gather gather;
    char run[64];
    bool is_recording, has_failed, are_several;
};

static bool on_table(void *self, const Rankscope__Reply *reply)
{
    struct looking *looking = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_RANKS)
        return false;
    for (size_t i = 0; i < reply->ranks->n_ranks; i++) {
        const Rankscope__RankState *rank = reply->ranks->ranks[i];
        if (rank->state == RS_RANK_GONE)
            continue;
        if (!*looking->run)
            (void)snprintf(looking->run, sizeof looking->run, "%.63s", rank->run);
        looking->are_several = looking->are_several || strcmp(looking->run, rank->run) != 0;
        looking->is_recording = looking->is_recording || *rank->capture;
        /* A step that is reckoned from an earlier recording (torch_npu) says nothing of how long steps take now. */
        const uint32_t can = *rank->adapter
                                 ? rank->capabilities
                                 : rs_adapter_capabilities_of(rs_adapter_name(rank->kind));
        if ((can & RS_CAP_TELLS_STEP) &&
            rs_step_gather_add(&looking->gather, rank->step, rank->seen_ns,
                               rank->step_duration_ns) < 0) {
            looking->has_failed = true;
            return false;
        }
    }
    return true;
}

enum rs_status rs_client_step_look(const struct rs_address *address, const char *run,
                                   struct rs_step_look *look_p, char found[64],
                                   bool *is_recording_p, struct rs_err *err)
{
    struct looking looking = {.has_failed = false};
    Rankscope__AskRanks ranks = RANKSCOPE__ASK_RANKS__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    char *lent = rs_mem_strdup(run);
    if (!lent)
        return rs_err_set(err, RS_NOMEM, "no memory to look at ranks");
    ranks.run = lent;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_RANKS;
    ask.ranks = &ranks;
    enum rs_status status = rs_client_ask(address, &ask, on_table, &looking, err);
    if (status >= 0 && looking.has_failed)
        status = rs_err_set(err, RS_NOMEM, "no memory to look at ranks");
    else if (status >= 0 && looking.are_several)
        status = rs_err_set(err, RS_INVALID, "several runs are there: say which one is meant");
    *look_p = rs_step_gather_take(&looking.gather);
    *is_recording_p = looking.is_recording;
    (void)snprintf(found, 64, "%s", looking.run);
    rs_step_gather_fini(&looking.gather);
    rs_mem_free(lent);
    return status;
}
