/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the object scan that all vector paths share: 64 bytes as bit masks.
 *
 *     text      {"a": "x}y", "b": {} }
 *     quote     .1.1..1...1..1.1......
 *     in_string .11...1111...11.......   prefix xor of quote: opening quote in, closing quote out
 *     close     ....................1.1 & ~in_string
 *
 * Included by one file per path only; that file defines how masks are made.
 */
#ifndef RS_SOURCE_SCAN_MASKS_H
#define RS_SOURCE_SCAN_MASKS_H

#include "collector/source/scan.h"

struct scan_state {
    uint64_t in_string; /* all ones: the block starts inside a string */
    bool is_escaped;    /* the first byte of the block is behind a backslash */
    bool has_finished;
    bool quote_last; /* the block before ended with an opening quote */
    unsigned depth;
    unsigned marked;          /* blocks whose quotes are in the marks */
    struct scan_marks *marks; /* NULL: nobody needs them, or they cannot be known */
};

static inline void scan_mark(struct scan_state *state, uint64_t quote, uint64_t escape)
{
    if (!state->marks)
        return;
    if (escape || state->marked == SCAN_MARKED_BLOCKS)
        state->marks = NULL;
    else
        state->marks->quotes[state->marked++] = quote;
}

static inline void scan_end_marks(const struct scan_state *state, struct scan_marks *marks_p)
{
    if (marks_p)
        marks_p->are_known = state->marks != NULL;
}

/* Bits that stand behind an unescaped backslash. Blocks with backslashes are rare: a loop. */
static inline uint64_t scan_escaped_bits(uint64_t escape, bool *is_escaped_p)
{
    uint64_t escaped = 0;
    bool is_escaped = *is_escaped_p;
    if (is_escaped) {
        escaped = 1;
        escape &= ~(uint64_t)1;
        is_escaped = false;
    }
    while (escape) {
        const unsigned at = (unsigned)__builtin_ctzll(escape);
        if (at == 63) {
            is_escaped = true;
            break;
        }
        escaped |= (uint64_t)1 << (at + 1);
        escape &= ~((uint64_t)3 << at);
    }
    *is_escaped_p = is_escaped;
    return escaped;
}

/* Does one of the strings that start at the hits begin with "finished"? */
static inline bool scan_finished(const char *text, uint64_t hits)
{
    for (; hits; hits &= hits - 1) {
        if (memcmp(text + __builtin_ctzll(hits), "finished", 8) == 0)
            return true;
    }
    return false;
}

/* The bit of the brace that brings the depth to 0; -1 when it is not in this block. */
static inline int scan_depth(struct scan_state *state, uint64_t open, uint64_t close)
{
    if (!open && (unsigned)__builtin_popcountll(close) < state->depth) {
        state->depth -= (unsigned)__builtin_popcountll(close);
        return -1;
    }
    uint64_t both = open | close;
    while (both) {
        const int at = __builtin_ctzll(both);
        if (close >> at & 1) {
            if (--state->depth == 0)
                return at;
        } else {
            state->depth++;
        }
        both &= both - 1;
    }
    return -1;
}

#endif
