/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics with the roundings of the libraries that the peer uses, so that equal inputs give
 * equal digits: grouped columns are summed with compensation and their variance runs along;
 * single columns are summed pairwise and their variance takes two passes.
 */
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

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void stats_sort(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
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

/* The fewest digits that read back as the same number: "d.dddde+XX". */
static int shortest(double value, char *text, size_t size)
{
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, size, "%.*e", digits - 1, value);
        const double back = strtod(text, NULL);
        if (!(back < value) && !(back > value))
            return digits;
    }
    return 17;
}

void stats_print(double value, char *text, size_t size)
{
    char raw[40];
    if (isnan(value)) {
        (void)snprintf(text, size, "%s", "");
        return;
    }
    if (isinf(value)) {
        (void)snprintf(text, size, "%s", value < 0 ? "-inf" : "inf");
        return;
    }
    const int digits = shortest(value, raw, sizeof raw);
    const char *mark = strchr(raw, 'e');
    const int exponent = mark ? (int)strtol(mark + 1, NULL, 10) : 0;
    if (exponent < -4 || exponent >= 16) {
        (void)snprintf(text, size, "%.*e", digits - 1, value);
        return;
    }
    const int behind = digits - 1 - exponent;
    (void)snprintf(text, size, "%.*f", behind < 1 ? 1 : behind, value);
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

void stats_cells(const struct stats *stats, struct cell *cells)
{
    const double values[] = {stats->mean,   stats->std, stats->min, stats->q1,
                             stats->median, stats->q3,  stats->max, stats->sum};
    cells[0] = cell_int((int64_t)stats->count);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        cells[i + 1] = cell_real(values[i]);
}
