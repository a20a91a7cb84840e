/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plain path, and the choice of the best one.
 */
#include "collector/source/scan.h"

/* Behind the closing quote of the string whose text starts at `text`, or behind `end`; NULL: a line break is in it. */
static const char *pass_string(const char *text, const char *end)
{
    while (text < end && *text != '"') {
        const bool is_escape = *text == '\\';
        if (*text == '\n' || (is_escape && text + 1 < end && text[1] == '\n'))
            return NULL;
        text += is_escape ? 2 : 1;
    }
    return text + 1;
}

enum scan_outcome scan_close_scalar(const char *text, const char *end, unsigned depth,
                                    struct scan_close *close_p, struct scan_marks *marks_p)
{
    bool has_finished = false;
    if (marks_p)
        marks_p->are_known = false;
    while (text < end) {
        const char byte = *text++;
        if (byte == '{') {
            depth++;
        } else if (byte == '}') {
            if (--depth == 0) {
                *close_p = (struct scan_close){.end = text, .has_finished = has_finished};
                return SCAN_FOUND;
            }
        } else if (byte == '"') {
            has_finished = has_finished || memcmp(text, "finished", 8) == 0;
            text = pass_string(text, end);
            if (!text)
                return SCAN_BAD;
        } else if (byte == '\\' && (*text == '"' || *text == '\\')) {
            text++; /* no JSON; the vectors see it so */
        }
    }
    return SCAN_MORE;
}

scan_close_fn *scan_close_of(enum scan_path path)
{
    switch (path) {
    case SCAN_SCALAR:
        return scan_close_scalar;
    case SCAN_AVX2:
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul"))
            return scan_close_avx2;
#endif
        return NULL;
    case SCAN_NEON:
#if defined(__aarch64__)
        return scan_close_neon;
#else
        return NULL;
#endif
    case SCAN_PATH_COUNT:
        break;
    }
    return NULL;
}

scan_close_fn *scan_close_best(void)
{
    scan_close_fn *best = scan_close_of(SCAN_AVX2);
    if (!best)
        best = scan_close_of(SCAN_NEON);
    return best ? best : scan_close_scalar;
}

const char *scan_path_text(enum scan_path path)
{
    switch (path) {
    case SCAN_SCALAR:
        return "scalar";
    case SCAN_AVX2:
        return "avx2";
    case SCAN_NEON:
        return "neon";
    case SCAN_PATH_COUNT:
        break;
    }
    return "?";
}
