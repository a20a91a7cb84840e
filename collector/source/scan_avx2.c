/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object scan with AVX2 and a carry-less multiplication: 64 bytes a turn.
 */
#include "collector/source/scan_masks.h"

#if defined(__x86_64__)

#    include <immintrin.h>

#    define AVX2 __attribute__((target("avx2,pclmul,bmi,popcnt,lzcnt")))

AVX2 static inline uint64_t equal_bits(__m256i low, __m256i high, char byte)
{
    const __m256i wanted = _mm256_set1_epi8(byte);
    const uint32_t a = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted));
    const uint32_t b = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted));
    return (uint64_t)b << 32 | a;
}

AVX2 static inline uint64_t prefix_xor(uint64_t bits)
{
    const __m128i product =
        _mm_clmulepi64_si128(_mm_set_epi64x(0, (long long)bits), _mm_set1_epi8((char)0xff), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

AVX2 enum scan_outcome scan_close_avx2(const char *text, const char *end, unsigned depth,
                                       struct scan_close *close_p, struct scan_marks *marks_p)
{
    struct scan_state state = {.depth = depth, .marks = marks_p};
    for (; text < end; text += 64) {
        const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)text);
        const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(text + 32));
        uint64_t quote = equal_bits(low, high, '"');
        const uint64_t escape = equal_bits(low, high, '\\');
        if (escape || state.is_escaped)
            quote &= ~scan_escaped_bits(escape, &state.is_escaped);
        scan_mark(&state, quote, escape);
        const uint64_t in_string = prefix_xor(quote) ^ state.in_string;
        state.in_string = (uint64_t)((int64_t)in_string >> 63);
        const uint64_t opening = quote & in_string;
        const uint64_t hits =
            (opening << 1 | (uint64_t)state.quote_last) & equal_bits(low, high, 'f');
        state.quote_last = opening >> 63;
        const int at = scan_depth(&state, equal_bits(low, high, '{') & ~in_string,
                                  equal_bits(low, high, '}') & ~in_string);
        const uint64_t broken = equal_bits(low, high, '\n') & in_string;
        if (at >= 0 && text + at < end) {
            const uint64_t before = ((uint64_t)2 << at) - 1;
            if (broken & before)
                return SCAN_BAD;
            close_p->end = text + at + 1;
            close_p->has_finished = state.has_finished || scan_finished(text, hits & before);
            scan_end_marks(&state, marks_p);
            return SCAN_FOUND;
        }
        if (broken)
            return SCAN_BAD;
        if (at >= 0)
            return SCAN_MORE;
        state.has_finished = state.has_finished || scan_finished(text, hits);
    }
    return SCAN_MORE;
}

#endif
