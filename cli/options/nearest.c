/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/nearest.h"

#include <string.h>

static size_t min3(size_t a, size_t b, size_t c)
{
    const size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Edit distance (Levenshtein) of two short words; words longer than the row are compared by their beginning. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { ROW = 40 };
    size_t row[ROW + 1];
    const size_t width = strnlen(b, ROW);
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 0; a[i] && i < ROW; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            const size_t above = row[j + 1];
            row[j + 1] = min3(above + 1, row[j] + 1, diagonal + (a[i] != b[j]));
            diagonal = above;
        }
    }
    return row[width];
}

struct rs_nearest rs_nearest(const char *typed)
{
    /* A third of the word and one more may be wrong; further away it is another word, not a slip. */
    const size_t slips = strlen(typed) / 3 + 2;
    return (struct rs_nearest){.typed = typed, .distance = slips < 4 ? slips : 4};
}

void rs_nearest_look(struct rs_nearest *nearest, const char *word)
{
    const size_t distance = edit_distance(nearest->typed, word);
    if (distance >= nearest->distance)
        return;
    nearest->distance = distance;
    nearest->best = word;
}
