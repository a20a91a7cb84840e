/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/analysis/median.h"

#include <math.h>

/* Hoare's selection. */
double rs_nth(double *values, size_t count, size_t k)
{
    size_t low = 0, high = count - 1;
    while (low < high) {
        const double pivot = values[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (values[i] < pivot) {
                i++;
            }
            while (values[j] > pivot) {
                j--;
            }
            if (i >= j) {
                break;
            }
            const double kept = values[i];
            values[i++] = values[j];
            values[j--] = kept;
        }
        if (k <= j) {
            high = j;
        } else {
            low = j + 1;
        }
    }
    return values[k];
}

double rs_median(double *values, size_t count)
{
    if (count == 0) {
        return (double)NAN;
    }
    const double upper = rs_nth(values, count, count / 2);
    if (count % 2) {
        return upper;
    }
    double lower = values[0]; /* the largest of those before it */
    for (size_t i = 1; i < count / 2; i++) {
        lower = values[i] > lower ? values[i] : lower;
    }
    return (lower + upper) / 2;
}
