/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics with the roundings of the libraries that the peer uses, so that equal inputs give
 * equal digits: grouped columns are summed with compensation and their variance runs along;
 * single columns are summed pairwise and their variance takes two passes.
 */
#include "ascend/format/num.h"
#include "ascend/recipe/recipe_priv.h"

#include <sqlite3.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRWISE_BLOCK = 128, LANES = 8 };

void stats_add(struct stats_sum *sum, double value)
{
    const double corrected = value - sum->lost;
    const double next = sum->sum + corrected;
    sum->lost = next - sum->sum - corrected;
    sum->sum = next;
}

double stats_pairwise_sum(const double *values, size_t count)
{
    if (count < LANES) {
        double sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += values[i];
        return sum;
    }
    if (count > PAIRWISE_BLOCK) {
        const size_t half = count / 2 - count / 2 % LANES;
        return stats_pairwise_sum(values, half) + stats_pairwise_sum(values + half, count - half);
    }
    double lanes[LANES];
    memcpy(lanes, values, sizeof lanes);
    size_t i = LANES;
    for (; i + LANES <= count; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] += values[i + k];
    double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
                 ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    for (; i < count; i++)
        sum += values[i];
    return sum;
}

static void insert_sort(double *values, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const double value = values[i];
        size_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
}

/* Quicksort, the middle of three as the pivot: half the time of qsort(), which calls for every comparison. The larger part
 * goes on in the loop, so the depth is bounded; when the pivots are bad, qsort() takes over. */
static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle_of(double a, double b, double c)
{
    return a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
}

static void sort_part(double *values, size_t count, unsigned turns)
{
    enum { FEW = 16 };
    while (count > FEW) {
        if (turns-- == 0) {
            qsort(values, count, sizeof *values, by_value);
            return;
        }
        const double pivot = middle_of(values[0], values[count / 2], values[count - 1]);
        size_t low = 0, high = count - 1;
        for (;; low++, high--) {
            while (values[low] < pivot)
                low++;
            while (values[high] > pivot)
                high--;
            if (low >= high)
                break;
            const double swap = values[low];
            values[low] = values[high];
            values[high] = swap;
        }
        const size_t left = high + 1; /* 0..high are not above the pivot, the others not below */
        if (left < count - left) {
            sort_part(values, left, turns);
            values += left;
            count -= left;
        } else {
            sort_part(values + left, count - left, turns);
            count = left;
        }
    }
    insert_sort(values, count);
}

void stats_sort(double *values, size_t count)
{
    enum { TURNS_MAX = 60 };
    sort_part(values, count, TURNS_MAX);
}

double stats_quantile(const double *sorted, size_t count, double q)
{
    const double at = (double)(count - 1) * q;
    const size_t below = (size_t)at;
    if (below + 1 >= count)
        return sorted[count - 1];
    const double part = at - (double)below, step = sorted[below + 1] - sorted[below];
    return part >= 0.5 ? sorted[below + 1] - step * (1 - part) : sorted[below] + step * part;
}

static double quantile_from_below(const double *sorted, size_t count, double q)
{
    const double at = q * (double)(count - 1);
    const size_t below = (size_t)at;
    const double part = at - (double)below;
    if (!(part > 0) || below + 1 >= count)
        return sorted[below];
    return sorted[below] + (sorted[below + 1] - sorted[below]) * part;
}

double stats_median_sorted(const double *sorted, size_t count)
{
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

void stats_of_group(const double *values, size_t count, double *sorted, struct stats *stats_p)
{
    struct stats_sum sum = {0};
    double mean = 0, spread = 0;
    for (size_t i = 0; i < count; i++) {
        const double before = mean;
        stats_add(&sum, values[i]);
        mean += (values[i] - before) / (double)(i + 1);
        spread += (values[i] - mean) * (values[i] - before);
    }
    memcpy(sorted, values, count * sizeof *values);
    stats_sort(sorted, count);
    *stats_p = (struct stats){.count = count,
                              .mean = sum.sum / (double)count,
                              .std = count > 1 ? sqrt(spread / (double)(count - 1)) : (double)NAN,
                              .min = sorted[0],
                              .q1 = quantile_from_below(sorted, count, 0.25),
                              .median = quantile_from_below(sorted, count, 0.5),
                              .q3 = quantile_from_below(sorted, count, 0.75),
                              .max = sorted[count - 1],
                              .sum = sum.sum};
}

/* Squares of the distances to the mean, one after another: the deviation of a column is not summed
 * pairwise there, its mean is. */
static double spread_of(const double *values, size_t count)
{
    double sum = 0, spread = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    const double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        spread += (values[i] - mean) * (values[i] - mean);
    return spread;
}

void stats_of_column(const double *values, size_t count, double *sorted, struct stats *stats_p)
{
    const double sum = stats_pairwise_sum(values, count), mean = sum / (double)count;
    const double spread = spread_of(values, count);
    memcpy(sorted, values, count * sizeof *values);
    stats_sort(sorted, count);
    *stats_p = (struct stats){.count = count,
                              .mean = mean,
                              .std = count > 1 ? sqrt(spread / (double)(count - 1)) : (double)NAN,
                              .min = sorted[0],
                              .q1 = stats_quantile(sorted, count, 0.25),
                              .median = stats_quantile(sorted, count, 0.5),
                              .q3 = stats_quantile(sorted, count, 0.75),
                              .max = sorted[count - 1],
                              .sum = sum};
}

double stats_std_population(const double *values, size_t count, double *mean_p)
{
    const double mean = stats_pairwise_sum(values, count) / (double)count;
    struct stats_sum sum = {0};
    for (size_t i = 0; i < count; i++)
        stats_add(&sum, (values[i] - mean) * (values[i] - mean));
    *mean_p = mean;
    return sqrt(sum.sum / (double)count);
}

double stats_round(double value, int digits)
{
    const double scale = pow(10, digits);
    return rint(value * scale) / scale;
}

double stats_round_sql(double value, int digits)
{
    char text[400];
    /* what SQLite's own round() does: print with its printf, read back */
    (void)sqlite3_snprintf((int)sizeof text, text, "%!.*f", digits, value);
    return strtod(text, NULL);
}

void stats_print(double value, char *text, size_t size)
{
    char digits[RS_ASCEND_NUM_TEXT_BYTES];
    if (isfinite(value))
        (void)snprintf(text, size, "%.*s", (int)rs_ascend_num_print_double(value, digits), digits);
    else
        (void)snprintf(text, size, "%s", isnan(value) ? "" : value < 0 ? "-inf" : "inf");
}

void stats_print_us(int64_t ns, char *text, size_t size)
{
    const uint64_t whole = ns < 0 ? (uint64_t)0 - (uint64_t)ns : (uint64_t)ns;
    int used = snprintf(text, size, "%s%" PRIu64 ".%03u", ns < 0 ? "-" : "", whole / 1000,
                        (unsigned)(whole % 1000));
    while (used > 1 && (size_t)used < size && text[used - 1] == '0')
        text[--used] = '\0';
    if (used > 1 && (size_t)used < size && text[used - 1] == '.')
        text[used - 1] = '\0';
}
