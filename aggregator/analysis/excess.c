/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does one rank stand out of its peers, step after step?
 *
 * Peers do the same work, so in each step the median of the others says what this rank's figure should have
 * been. What it lies above that is its excess. The others' own deviations from that median are
 * the noise of this machine in this recording: no assumption about its shape is made, the 95th
 * percentile is read off. With two ranks there are no others to read noise from; the variation of the
 * excess itself over the steps stands in.
 */
#include "aggregator/analysis/findings_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

struct scratch {
    rs_dur *row;    /* [peers] figures of one step */
    rs_dur *own;    /* [steps] excess of the candidate */
    rs_dur *middle; /* [steps] median of the others */
    rs_dur *others; /* [peers * steps] deviations of the others */
};

static int compare_durations(const void *left, const void *right)
{
    const rs_dur a = *(const rs_dur *)left, b = *(const rs_dur *)right;
    return (a > b) - (a < b);
}

/* Sorts. The lower of the two middle ones when there are two: a tie is no excess. */
static rs_dur median(rs_dur *values, size_t count)
{
    if (count == 0) {
        return 0;
    }
    qsort(values, count, sizeof *values, compare_durations);
    return values[(count - 1) / 2];
}

static rs_dur magnitude(rs_dur value)
{
    return value < 0 ? -value : value;
}

/* Median of the class without `rank`, in one step. */
static rs_dur median_of_others(const struct figures *fg, const size_t *class_range,
                               enum figure figure, size_t rank, size_t step, rs_dur *row)
{
    size_t count = 0;
    for (size_t i = class_range[0]; i < class_range[1]; i++) {
        if (fg->peer_order[i] != rank) {
            row[count++] = figure_of(fg, fg->peer_order[i], step, figure);
        }
    }
    return median(row, count);
}

/* The rank whose sum over the steps is largest: the only one that can stand out most. */
static size_t pick(const struct figures *fg, const size_t *range, enum figure figure)
{
    size_t best = fg->peer_order[range[0]];
    rs_dur best_sum = INT64_MIN;
    for (size_t i = range[0]; i < range[1]; i++) {
        rs_dur sum = 0;
        for (size_t k = 0; k < fg->step_count; k++) {
            sum = join_sum(sum, figure_of(fg, fg->peer_order[i], k, figure));
        }
        if (sum > best_sum) {
            best_sum = sum;
            best = fg->peer_order[i];
        }
    }
    return best;
}

static void measure(const struct figures *fg, const size_t *range, enum figure figure,
                    struct scratch *s, struct excess *excess)
{
    size_t deviations = 0;
    rs_dur sum = 0;
    for (size_t k = 0; k < fg->step_count; k++) {
        s->middle[k] = median_of_others(fg, range, figure, excess->rank, k, s->row);
        s->own[k] = figure_of(fg, excess->rank, k, figure) - s->middle[k];
        sum = join_sum(sum, s->own[k]);
        for (size_t i = range[0]; i < range[1]; i++) {
            if (fg->peer_order[i] != excess->rank) {
                s->others[deviations++] =
                    magnitude(figure_of(fg, fg->peer_order[i], k, figure) - s->middle[k]);
            }
        }
    }
    qsort(s->others, deviations, sizeof *s->others, compare_durations);
    excess->noise = s->others[(deviations - 1) * 95 / 100];
    excess->mean = sum / (rs_dur)fg->step_count;
    excess->peers_typical = median(s->middle, fg->step_count);
    memcpy(s->row, s->own, fg->step_count * sizeof *s->row);
    excess->typical = median(s->row, fg->step_count);
    for (size_t k = 0; k < fg->step_count; k++) {
        s->row[k] = magnitude(s->own[k] - excess->typical);
        excess->hits += s->own[k] > excess->noise;
    }
    excess->wobble = median(s->row, fg->step_count) * 3 / 2;
}

enum rs_status excess_of(const struct figures *fg, size_t rank, enum figure figure,
                         struct excess *excess_p)
{
    const uint32_t class = fg->peers[rank];
    const size_t range[2] = {fg->peer_first[class], fg->peer_first[class + 1]};
    const size_t peers = range[1] - range[0];
    const size_t longest = peers > fg->step_count ? peers : fg->step_count;
    struct scratch s = {
        .row = rs_mem_calloc(longest + 1, sizeof *s.row),
        .own = rs_mem_calloc(fg->step_count + 1, sizeof *s.own),
        .middle = rs_mem_calloc(fg->step_count + 1, sizeof *s.middle),
        .others = rs_mem_calloc(peers * fg->step_count + 1, sizeof *s.others),
    };
    enum rs_status status = RS_NOMEM;
    if (s.row != NULL && s.own != NULL && s.middle != NULL && s.others != NULL) {
        *excess_p = (struct excess){.class = class, .rank = rank};
        if (peers >= 2 && fg->step_count > 0) {
            measure(fg, range, figure, &s, excess_p);
        }
        status = RS_OK;
    }
    rs_mem_free(s.row);
    rs_mem_free(s.own);
    rs_mem_free(s.middle);
    rs_mem_free(s.others);
    return status;
}

enum rs_status excess_find(const struct figures *fg, uint32_t class, enum figure figure,
                           bool *found_p, struct excess *excess_p)
{
    const size_t range[2] = {fg->peer_first[class], fg->peer_first[class + 1]};
    *found_p = range[1] - range[0] >= 2 && fg->step_count > 0;
    return *found_p ? excess_of(fg, pick(fg, range, figure), figure, excess_p) : RS_OK;
}
