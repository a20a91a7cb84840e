/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the arguments that say how large a message is: "Input Dims", "Input type", "Concrete Inputs" and
 * lists of ranks. They are JSON text as a trace wrote it: nothing in it is trusted; what does not read is unknown.
 */
#ifndef RS_REDUCE_DIMS_H
#define RS_REDUCE_DIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    const char *bytes;
    size_t length;
};

/* The index-th element of a list "[a, b, ...]" (the list may stand in quotes); quotes of a string element are
 * taken off. False when there is none. */
bool dims_element(struct text list, size_t index, struct text *element_p);
/* Number of elements; 0 when it is no list. */
size_t dims_count(struct text list);

/* Elements of a tensor "[256, 256]" or of a list of tensors "[[10], [10]]" together. -1 unknown: an empty list says
 * nothing by itself (a number, a tensor without dimensions, or what the profiler does not describe). */
int64_t dims_elements(struct text dims);

/* A decimal integer, whole text; false when it is none. */
bool dims_integer(struct text text, int64_t *value_p);

/* Bytes of an element by either of its names; 0 unknown. *id_p (may be NULL): a number that is the same for both
 * names of a type, 0 unknown. */
int64_t dims_type_bytes(struct text type, uint64_t *id_p);

#endif
