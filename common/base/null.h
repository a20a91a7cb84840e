/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a column of integers says that it does not know: never 0, which is a figure. Reals say NaN, texts NULL (or RS_STR_NONE).
 */
#ifndef RS_BASE_NULL_H
#define RS_BASE_NULL_H

#include <stdint.h>

#define RS_NULL INT64_MIN /* absent; printed as an empty cell or null */

#endif
