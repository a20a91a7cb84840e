/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching ranks' own work: the states and the rule stand in rank_watch.h.
 */
#include "common/client/rank_watch.h"

#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double spreads_above = 5, spreads_far = 8;
static const double spread_least = 0.02; /* of the median */
static const double excess_least = 0.03; /* of a step */
static const double nearly =
    0.9; /* of the limit: closer than what is usual can have moved since it was reckoned */
static const double mad_of_normal = 1.4826; /* as in step_watch.c */

enum { RENEW_EVERY = 8 };

struct rs_rank_track {
    uint32_t rank;
    bool has_last, is_seen;
    int64_t step; /* of the last sample */
    rs_dur own_ns;
    float samples[RS_RANK_WATCH_SAMPLES]; /* a ring of multiples of the median */
    size_t count, next;
    float doubts[RS_RANK_WATCH_CONFIRM];
    size_t doubt_count;
    unsigned weight; /* of the doubts: one each, two for one that is longer by far */
    int64_t first_longer;
    double now;  /* of this look: own work a step, ns */
    float usual; /* median of the samples as of `stale` samples ago; 0: not learnt */
    unsigned stale;
};

static int by_size(const void *a_, const void *b_)
{
    const float a = *(const float *)a_, b = *(const float *)b_;
    return (a > b) - (a < b);
}

static float median_of(float *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- tracks ------------------------------------------------------------------------------------------------------ */

/* Where the rank stands, or would. */
static size_t place_of(const struct rs_rank_watch *watch, uint32_t rank)
{
    size_t low = 0, high = watch->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (watch->tracks[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct rs_rank_track *find(const struct rs_rank_watch *watch, uint32_t rank)
{
    const size_t place = place_of(watch, rank);
    return place < watch->count && watch->tracks[place].rank == rank ? &watch->tracks[place] : NULL;
}

static struct rs_rank_track *find_or_make(struct rs_rank_watch *watch, uint32_t rank)
{
    struct rs_rank_track *known = find(watch, rank);
    if (known)
        return known;
    const size_t place = place_of(watch, rank);
    if (rs_mem_grow((void **)&watch->tracks, &watch->capacity, watch->count + 1,
                    sizeof *watch->tracks) < 0)
        return NULL;
    memmove(&watch->tracks[place + 1], &watch->tracks[place],
            (watch->count - place) * sizeof *watch->tracks);
    watch->tracks[place] = (struct rs_rank_track){.rank = rank};
    watch->count++;
    watch->has_new = true;
    return &watch->tracks[place];
}

static void forget(struct rs_rank_track *track)
{
    *track = (struct rs_rank_track){.rank = track->rank, .is_seen = track->is_seen};
}

enum rs_status rs_rank_watch_add(struct rs_rank_watch *watch, const struct rs_rank_look *look)
{
    if (look->step < 0 || look->own_ns <= 0)
        return RS_OK;
    if (rs_mem_grow((void **)&watch->looks, &watch->look_capacity, watch->look_count + 1,
                    sizeof *watch->looks) < 0 ||
        !find_or_make(watch, look->rank))
        return RS_NOMEM;
    watch->looks[watch->look_count++] = *look;
    return RS_OK;
}

/* Ranks that came or went make other medians: all is learnt anew. */
static bool are_same_ranks(struct rs_rank_watch *watch)
{
    size_t seen = 0, kept = 0;
    for (size_t i = 0; i < watch->count; i++)
        watch->tracks[i].is_seen = false;
    for (size_t i = 0; i < watch->look_count; i++) {
        struct rs_rank_track *track = find(watch, watch->looks[i].rank);
        seen += !track->is_seen;
        track->is_seen = true;
    }
    if (seen == watch->count && !watch->has_new)
        return true;
    for (size_t i = 0; i < watch->count; i++)
        if (watch->tracks[i].is_seen) {
            watch->tracks[kept] = watch->tracks[i];
            forget(&watch->tracks[kept++]);
        }
    watch->count = kept;
    watch->has_new = false;
    return false;
}

/* ---- the rule ---------------------------------------------------------------------------------------------------- */

static void push(struct rs_rank_track *track, float sample)
{
    track->samples[track->next] = sample;
    track->next = (track->next + 1) % RS_RANK_WATCH_SAMPLES;
    track->count += track->count < RS_RANK_WATCH_SAMPLES;
    track->stale++;
}

static size_t learn_of(const struct rs_rank_watch *watch)
{
    return watch->learn ? watch->learn : RS_RANK_WATCH_LEARN;
}

/* Sorts now and then: thousands of ranks are looked at on the aggregator's one thread. */
static void renew_usual(struct rs_rank_track *track, size_t learn)
{
    float sorted[RS_RANK_WATCH_SAMPLES];
    if (track->count < learn || (track->usual > 0 && track->stale < RENEW_EVERY))
        return;
    memcpy(sorted, track->samples, track->count * sizeof *sorted);
    track->usual = median_of(sorted, track->count);
    track->stale = 0;
}

/* How much a sample counts for a doubt; 0: it is as before. `floor`: less than that is next to nothing. */
static unsigned weight_of(struct rs_rank_track *track, float sample, double above, double floor)
{
    float sorted[RS_RANK_WATCH_SAMPLES];
    if (track->usual <= 0 || (double)sample <= above * (double)track->usual * nearly)
        return 0;
    memcpy(sorted, track->samples, track->count * sizeof *sorted);
    const float median = median_of(sorted, track->count);
    const float longest = sorted[track->count - 1];
    for (size_t i = 0; i < track->count; i++)
        sorted[i] = sorted[i] > median ? sorted[i] - median : median - sorted[i];
    double spread = mad_of_normal * (double)median_of(sorted, track->count);
    spread *= 1 + 10.0 / (double)track->count; /* what few samples say is less sure */
    if (spread < spread_least * (double)median)
        spread = spread_least * (double)median;
    const double excess = (double)sample - (double)median;
    if (sample <= longest || (double)sample <= above * (double)median ||
        excess <= spreads_above * spread || excess < floor)
        return 0;
    track->usual = median;
    return excess > 2 * (above - 1) * (double)median && excess > spreads_far * spread ? 2 : 1;
}

/* True: it is a suspect. */
static bool judge(struct rs_rank_track *track, float sample, double above, double floor)
{
    const unsigned weight = weight_of(track, sample, above, floor);
    if (!weight) {
        for (size_t i = 0; i < track->doubt_count; i++)
            push(track, track->doubts[i]);
        track->doubt_count = track->weight = 0;
        push(track, sample);
        return false;
    }
    if (!track->doubt_count)
        track->first_longer = track->step;
    track->doubts[track->doubt_count++] = sample;
    track->weight += weight;
    return track->weight >= RS_RANK_WATCH_CONFIRM && track->doubt_count >= 2;
}

static int by_excess(const void *a_, const void *b_)
{
    const struct rs_rank_suspect *a = a_, *b = b_;
    const rs_dur of_a = a->now_ns - a->before_ns, of_b = b->now_ns - b->before_ns;
    if (of_a != of_b)
        return of_a < of_b ? 1 : -1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* How long every rank's own work took per step since its last sample. False: not all have made enough steps. */
static bool measure(struct rs_rank_watch *watch)
{
    bool is_enough = true;
    for (size_t i = 0; i < watch->look_count; i++) {
        const struct rs_rank_look *look = &watch->looks[i];
        struct rs_rank_track *track = find(watch, look->rank);
        if (track->has_last && (look->step < track->step || look->own_ns < track->own_ns))
            forget(track); /* its process was started again */
        if (!track->has_last) {
            track->has_last = true;
            track->step = look->step;
            track->own_ns = look->own_ns;
        }
        if (look->step - track->step < RS_RANK_WATCH_STEPS)
            is_enough = false; /* the others are noted all the same: all begin at one look */
        else
            track->now =
                (double)(look->own_ns - track->own_ns) / (double)(look->step - track->step);
    }
    return is_enough;
}

/* What own work of multiple 1 takes now: the median over ranks, each by its own multiple, so that stages of unequal work and a
 * rank that changes sides move nothing. Until most have learnt theirs, the plain median. 0: no memory. */
static double measure_of_all(struct rs_rank_watch *watch)
{
    float *lengths = rs_mem_calloc(watch->look_count, sizeof *lengths);
    size_t count = 0;
    for (size_t i = 0; lengths && i < watch->look_count; i++) {
        const struct rs_rank_track *track = find(watch, watch->looks[i].rank);
        if (track->usual > 0)
            lengths[count++] = (float)(track->now / (double)track->usual);
    }
    if (count * 2 < watch->look_count) {
        count = 0;
        for (size_t i = 0; lengths && i < watch->look_count; i++)
            lengths[count++] = (float)find(watch, watch->looks[i].rank)->now;
    }
    const double one = count ? (double)median_of(lengths, count) : 0;
    rs_mem_free(lengths);
    return one;
}

static void decide(struct rs_rank_watch *watch, double one, rs_dur step_ns, double above,
                   struct rs_rank_alarm *alarm)
{
    for (size_t i = 0; i < watch->look_count; i++) {
        const struct rs_rank_look *look = &watch->looks[i];
        struct rs_rank_track *track = find(watch, look->rank);
        const float sample = (float)(track->now / one);
        renew_usual(track, learn_of(watch));
        if (judge(track, sample, above, excess_least * (double)step_ns / one) &&
            alarm->count < RS_RANK_WATCH_SUSPECTS) {
            alarm->suspects[alarm->count++] =
                (struct rs_rank_suspect){.rank = look->rank,
                                         .before_ns = (rs_dur)((double)track->usual * one),
                                         .now_ns = (rs_dur)track->now,
                                         .first_step = track->first_longer,
                                         .last_step = look->step};
            forget(track);
            track->has_last = true;
        }
        track->step = look->step;
        track->own_ns = look->own_ns;
    }
}

bool rs_rank_watch_see(struct rs_rank_watch *watch, rs_dur step_ns, double above,
                       struct rs_rank_alarm *alarm_p)
{
    struct rs_rank_alarm alarm = {.count = 0};
    if (!watch->look_count) /* nobody told anything: that says nothing of who is there */
        return false;
    if (are_same_ranks(watch) && watch->look_count >= RS_RANK_WATCH_LEAST && measure(watch)) {
        const double one = measure_of_all(watch);
        if (one > 0)
            decide(watch, one, step_ns, above, &alarm);
    }
    watch->look_count = 0;
    if (!alarm.count)
        return false;
    qsort(alarm.suspects, alarm.count, sizeof *alarm.suspects, by_excess);
    *alarm_p = alarm;
    return true;
}

void rs_rank_watch_skip(struct rs_rank_watch *watch)
{
    watch->look_count = 0;
    for (size_t i = 0; i < watch->count; i++) {
        watch->tracks[i].has_last = false;
        watch->tracks[i].doubt_count = watch->tracks[i].weight = 0;
    }
}

bool rs_rank_watch_is_healthy(const struct rs_rank_watch *watch, uint32_t rank)
{
    const struct rs_rank_track *track = find(watch, rank);
    return track && track->count >= learn_of(watch) && !track->doubt_count;
}

bool rs_rank_watch_is_in_doubt(const struct rs_rank_watch *watch)
{
    for (size_t i = 0; i < watch->count; i++)
        if (watch->tracks[i].doubt_count)
            return true;
    return false;
}

void rs_rank_watch_fini(struct rs_rank_watch *watch)
{
    rs_mem_free(watch->tracks);
    rs_mem_free(watch->looks);
    *watch = (struct rs_rank_watch){.tracks = NULL};
}

/* ---- who is captured --------------------------------------------------------------------------------------------- */

static bool holds(const uint32_t *ranks, size_t count, uint32_t rank)
{
    for (size_t i = 0; i < count; i++)
        if (ranks[i] == rank)
            return true;
    return false;
}

static int64_t away(uint32_t a, uint32_t b)
{
    return a > b ? (int64_t)a - b : (int64_t)b - a;
}

/* Less is better: other work is worse than any distance. */
static int64_t distance(const struct rs_rank_peer *suspect, const struct rs_rank_peer *peer)
{
    const int64_t other_work = (int64_t)1 << 40;
    return away(suspect->rank, peer->rank) + (suspect->pp != peer->pp ? 2 * other_work : 0) +
           (suspect->tp != peer->tp ? other_work : 0);
}

/* NULL: none is left. */
static const struct rs_rank_peer *peer_of(const struct rs_rank_watch *watch,
                                          const struct rs_rank_peer *suspect,
                                          const struct rs_rank_peer *peers, size_t count,
                                          const uint32_t *taken, size_t taken_count)
{
    const struct rs_rank_peer *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (rs_rank_watch_is_healthy(watch, peers[i].rank) &&
            !holds(taken, taken_count, peers[i].rank) &&
            (!best || distance(suspect, &peers[i]) < distance(suspect, best) ||
             (distance(suspect, &peers[i]) == distance(suspect, best) &&
              peers[i].rank < best->rank)))
            best = &peers[i];
    return best;
}

static int by_number(const void *a_, const void *b_)
{
    const uint32_t a = *(const uint32_t *)a_, b = *(const uint32_t *)b_;
    return (a > b) - (a < b);
}

bool rs_rank_watch_chosen(const struct rs_rank_watch *watch, const struct rs_rank_alarm *alarm,
                          const struct rs_rank_peer *peers, size_t count, char *ranks, size_t bytes)
{
    uint32_t chosen[2 * RS_RANK_WATCH_SUSPECTS];
    size_t chosen_count = 0, used = 0;
    for (size_t i = 0; i < alarm->count; i++)
        chosen[chosen_count++] = alarm->suspects[i].rank;
    for (size_t i = 0; i < alarm->count; i++) {
        struct rs_rank_peer suspect = {.rank = alarm->suspects[i].rank, .pp = -1, .tp = -1};
        for (size_t k = 0; k < count; k++)
            if (peers[k].rank == suspect.rank)
                suspect = peers[k];
        const struct rs_rank_peer *peer =
            peer_of(watch, &suspect, peers, count, chosen, chosen_count);
        if (peer)
            chosen[chosen_count++] = peer->rank;
    }
    qsort(chosen, chosen_count, sizeof *chosen, by_number);
    for (size_t i = 0; i < chosen_count; i++) {
        const int written =
            snprintf(ranks + used, bytes - used, "%s%" PRIu32, i ? "," : "", chosen[i]);
        if (written < 0 || (size_t)written >= bytes - used)
            return false;
        used += (size_t)written;
    }
    return chosen_count > 0;
}
