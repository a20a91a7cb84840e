/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RS_ANALYSIS_MEDIAN_H
#define RS_ANALYSIS_MEDIAN_H

#include <stddef.h>

/* Of an even number the mean of the two in the middle; of none NAN. No value is NAN. Leaves them in some order; linear on average. */
double rs_median(double *values, size_t count);
/* values[k], k < count, as if they were sorted, with smaller ones before it and larger ones behind it. No value is NAN. */
double rs_nth(double *values, size_t count, size_t k);

#endif
