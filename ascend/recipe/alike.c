/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How alike two names are, as Python's difflib measures it (Ratcliff and Obershelp): the longest common stretch, then the same
 * to its left and right; twice what matched over what there is. Bytes stand for characters. In a second text of 200 bytes or
 * more a byte that makes up over a hundredth does not start a stretch.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <string.h>

enum { LENGTH_MAX = 1024, POPULAR_LENGTH = 200 };

struct texts {
    const char *a, *b;
    bool is_popular[256]; /* bytes of b */
    uint16_t *run, *next; /* [length of b + 1] */
};

struct stretch {
    size_t a, b, length;
};

/* The longest common stretch of a[alo..ahi) and b[blo..bhi), the first one of several. */
static struct stretch find_longest(const struct texts *texts, size_t alo, size_t ahi, size_t blo,
                                   size_t bhi)
{
    struct stretch best = {alo, blo, 0};
    uint16_t *run = texts->run, *next = texts->next;
    memset(run + blo, 0, (bhi - blo + 1) * sizeof *run);
    for (size_t i = alo; i < ahi; i++) {
        next[blo] = 0;
        for (size_t j = blo; j < bhi; j++) {
            next[j + 1] = 0;
            if (texts->a[i] != texts->b[j] || texts->is_popular[(unsigned char)texts->b[j]])
                continue;
            next[j + 1] = (uint16_t)(run[j] + 1);
            if (next[j + 1] > best.length)
                best = (struct stretch){i + 1 - next[j + 1], j + 1 - next[j + 1], next[j + 1]};
        }
        uint16_t *swap = run;
        run = next;
        next = swap;
    }
    while (best.a > alo && best.b > blo && texts->a[best.a - 1] == texts->b[best.b - 1])
        best = (struct stretch){best.a - 1, best.b - 1, best.length + 1};
    while (best.a + best.length < ahi && best.b + best.length < bhi &&
           texts->a[best.a + best.length] == texts->b[best.b + best.length])
        best.length++;
    return best;
}

/* Bytes that match; depth is bounded, every stretch shortens both sides. */
static size_t count_matches(const struct texts *texts, size_t alo, size_t ahi, size_t blo,
                            size_t bhi)
{
    size_t count = 0;
    while (alo < ahi && blo < bhi) { /* the right side goes on in the loop */
        const struct stretch best = find_longest(texts, alo, ahi, blo, bhi);
        if (!best.length)
            break;
        count += best.length + count_matches(texts, alo, best.a, blo, best.b);
        alo = best.a + best.length;
        blo = best.b + best.length;
    }
    return count;
}

double alike(const char *a, const char *b, double least)
{
    size_t in_b[256] = {0}, in_a[256] = {0}, common = 0;
    const size_t length_a = strlen(a), length_b = strlen(b);
    struct texts texts = {.a = a, .b = b};
    for (size_t i = 0; i < length_a; i++)
        in_a[(unsigned char)a[i]]++;
    for (size_t i = 0; i < length_b; i++)
        in_b[(unsigned char)b[i]]++;
    for (size_t c = 0; c < 256; c++) {
        common += in_a[c] < in_b[c] ? in_a[c] : in_b[c];
        texts.is_popular[c] = length_b >= POPULAR_LENGTH && in_b[c] > length_b / 100 + 1;
    }
    const double all = (double)(length_a + length_b);
    if (all <= 0)
        return 1;
    if (length_a > LENGTH_MAX || length_b > LENGTH_MAX || 2.0 * (double)common / all < least)
        return 0; /* bytes in any order are not enough */
    texts.run = rs_mem_calloc(length_b + 1, sizeof *texts.run);
    texts.next = rs_mem_calloc(length_b + 1, sizeof *texts.next);
    const double ratio = texts.run && texts.next
                             ? 2.0 * (double)count_matches(&texts, 0, length_a, 0, length_b) / all
                             : -1;
    rs_mem_free(texts.run);
    rs_mem_free(texts.next);
    return ratio;
}
