/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the ends of things in JSON text, many bytes at a time.
 *
 * The text lies in a window that is followed by SCAN_PADDING zero bytes, so that a vector may be
 * loaded from any place before its end, and a comparison with an expected character
 * fails at the end by itself. What is found is always before `end`.
 *
 * Two things are worth vectors: the end of a string (names are 20 to 1000 bytes) and the end of an object that nobody
 * asked for (arguments are half of a trace). The second is chosen at run time: AVX2 where the
 * processor has it, NEON on aarch64, else plain C. All give the same answers; a test holds them together.
 */
#ifndef RS_SOURCE_SCAN_H
#define RS_SOURCE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#    include <emmintrin.h>
#endif

enum { SCAN_PADDING = 64 };

enum scan_outcome {
    SCAN_FOUND,
    SCAN_MORE, /* the window ends first */
    SCAN_BAD,  /* a line break inside a string: quotes are out of step */
};

/* Where an object ends, and what was seen on the way. */
struct scan_close {
    const char *end;   /* behind the closing brace */
    bool has_finished; /* a string that begins with "finished" was passed: read the arguments */
};

enum { SCAN_MARKED_BLOCKS = 32 };

/* The quotes that were passed, a bit for each byte from where the scan began: whoever reads the object then need not look for
 * them again. Known where the object is short and without a backslash, so that every quote begins or ends a string;
 * the plain path knows none. */
struct scan_marks {
    bool are_known;
    uint64_t
        quotes[SCAN_MARKED_BLOCKS]; /* in the last one there are those behind the object, too */
};

/* From `text`, outside of any string and `depth` (>= 1) braces deep, to behind the brace that brings
 * the depth to 0. marks_p: NULL, nobody needs them; else valid when the end is found. */
typedef enum scan_outcome scan_close_fn(const char *text, const char *end, unsigned depth,
                                        struct scan_close *close_p, struct scan_marks *marks_p);

enum scan_path { SCAN_SCALAR, SCAN_AVX2, SCAN_NEON, SCAN_PATH_COUNT };

/* NULL where this machine has no such path. */
scan_close_fn *scan_close_of(enum scan_path path);
/* The fastest that this machine has. Any thread. */
scan_close_fn *scan_close_best(void);
const char *scan_path_text(enum scan_path path);

scan_close_fn scan_close_scalar;
#if defined(__x86_64__)
scan_close_fn scan_close_avx2;
#elif defined(__aarch64__)
scan_close_fn scan_close_neon;
#endif

/* The first '"' or '\\' at or behind `text`, or `end` when there is none. */
static inline const char *scan_quote_or_escape(const char *text, const char *end)
{
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i escape = _mm_set1_epi8('\\');
    for (; text < end; text += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)text);
        const unsigned hits = (unsigned)_mm_movemask_epi8(
            _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, escape)));
        if (hits) {
            text += __builtin_ctz(hits);
            return text < end ? text : end;
        }
    }
    return end;
#else
    while (text < end && *text != '"' && *text != '\\')
        text++;
    return text;
#endif
}

/* The first quote, brace or bracket at or behind `text`, or `end` when there is none. */
static inline const char *scan_structure(const char *text, const char *end)
{
#if defined(__SSE2__)
    const __m128i no_case = _mm_set1_epi8(0x20); /* makes a brace of a bracket */
    for (; text < end; text += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)text);
        const __m128i braces = _mm_or_si128(bytes, no_case);
        const __m128i nested = _mm_or_si128(_mm_cmpeq_epi8(braces, _mm_set1_epi8('{')),
                                            _mm_cmpeq_epi8(braces, _mm_set1_epi8('}')));
        const unsigned hits = (unsigned)_mm_movemask_epi8(
            _mm_or_si128(nested, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'))));
        if (hits) {
            text += __builtin_ctz(hits);
            return text < end ? text : end;
        }
    }
    return end;
#else
    while (text < end && *text != '"' && *text != '{' && *text != '}' && *text != '[' &&
           *text != ']')
        text++;
    return text;
#endif
}

/* The closing quote of the string whose text starts at `text`; NULL when the window ends first.
 * *has_escape_p is set to true when a backslash was passed, else left alone. */
static inline const char *scan_string_end(const char *text, const char *end, bool *has_escape_p)
{
    for (;;) {
        text = scan_quote_or_escape(text, end);
        if (text >= end)
            return NULL;
        if (*text == '"')
            return text;
        *has_escape_p = true;
        text += 2;
    }
}

/* Behind blanks. Stops at the zero byte behind the window. No vectors: indents repeat, so a processor foresees where these loops
 * end, and reads on before it is there. */
static inline const char *scan_blanks(const char *text)
{
    for (;; text++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a place in the window */
        while (*text == ' ')
            text++;
        if (*text != '\n' && *text != '\r' && *text != '\t')
            return text;
    }
}

/* Behind the bytes that an integer or a decimal is made of: digits, '-', '.' and '/'. Stops at the zero byte behind the window. */
static inline const char *scan_number(const char *text)
{
#if defined(__SSE2__)
    for (;; text += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)text);
        const __m128i from_dash = _mm_sub_epi8(bytes, _mm_set1_epi8('-'));
        const __m128i width = _mm_set1_epi8('9' - '-');
        const unsigned numbers =
            (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(from_dash, width), from_dash));
        if (numbers != 0xffff)
            return text + __builtin_ctz(~numbers);
    }
#else
    while ((unsigned char)(*text - '-') <= '9' - '-')
        text++;
    return text;
#endif
}

#endif
