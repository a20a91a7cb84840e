/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Did you mean": the nearest of the words that there are to the one that was typed.
 *
 *     struct rs_nearest nearest = rs_nearest(typed);
 *     for (...) rs_nearest_look(&nearest, word);
 *     if (nearest.best) ...
 */
#ifndef RS_CLI_NEAREST_H
#define RS_CLI_NEAREST_H

#include <stddef.h>

struct rs_nearest {
    const char *typed;
    const char *best; /* NULL: none is near enough; keeps a pointer to the word looked at */
    size_t distance;
};

struct rs_nearest rs_nearest(const char *typed);
void rs_nearest_look(struct rs_nearest *nearest, const char *word);

#endif
