/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: growing arrays without overflow, and a seam where tests make allocation fail.
 *
 * Every allocation of ours goes through these three, so that tests/support can make the
 * k-th one fail. What they return is freed with rs_mem_free().
 */
#ifndef RS_BASE_MEM_H
#define RS_BASE_MEM_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Zeroed memory of count * size bytes; NULL when there is none, or the product overflows. */
void *rs_mem_calloc(size_t count, size_t size);
void *rs_mem_realloc(void *memory, size_t count, size_t size);
void rs_mem_free(void *memory);

/* A copy of `length` bytes with a NUL behind them. */
char *rs_mem_strndup(const char *text, size_t length);
char *rs_mem_strdup(const char *text);

/* Makes room for `need` elements in the array at *array_p (capacity *capacity_p), at least
 * doubling it. On RS_NOMEM nothing changed. New elements are not initialised.
 * Use: rs_mem_grow((void **)&v->items, &v->capacity, v->count + 1, sizeof *v->items) */
RS_MUST_CHECK enum rs_status rs_mem_grow(void **array_p, size_t *capacity_p, size_t need,
                                         size_t element_bytes);

/* For tests: called before each allocation; false makes it fail. NULL: never fail. */
typedef bool rs_mem_gate_fn(void);
void rs_mem_set_gate(rs_mem_gate_fn *gate);

#endif
