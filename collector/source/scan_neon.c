/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object scan with NEON: 64 bytes a turn, masks by pairwise addition of weighted bytes.
 */
#include "collector/source/scan_masks.h"

#if defined(__aarch64__)

#    include <arm_neon.h>

static inline uint64_t equal_bits(const uint8x16_t bytes[4], char byte)
{
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t wanted = vdupq_n_u8((uint8_t)byte);
    const uint8x16_t weight = vld1q_u8(weights);
    const uint8x16_t a = vandq_u8(vceqq_u8(bytes[0], wanted), weight);
    const uint8x16_t b = vandq_u8(vceqq_u8(bytes[1], wanted), weight);
    const uint8x16_t c = vandq_u8(vceqq_u8(bytes[2], wanted), weight);
    const uint8x16_t d = vandq_u8(vceqq_u8(bytes[3], wanted), weight);
    uint8x16_t sum = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
    sum = vpaddq_u8(sum, sum);
    return vgetq_lane_u64(vreinterpretq_u64_u8(sum), 0);
}

static inline uint64_t prefix_xor(uint64_t bits)
{
    for (unsigned shift = 1; shift < 64; shift *= 2)
        bits ^= bits << shift;
    return bits;
}

enum scan_outcome scan_close_neon(const char *text, const char *end, unsigned depth,
                                  struct scan_close *close_p, struct scan_marks *marks_p)
{
    struct scan_state state = {.depth = depth, .marks = marks_p};
    for (; text < end; text += 64) {
        const uint8_t *at_text = (const uint8_t *)text;
        const uint8x16_t bytes[4] = {vld1q_u8(at_text), vld1q_u8(at_text + 16),
                                     vld1q_u8(at_text + 32), vld1q_u8(at_text + 48)};
        uint64_t quote = equal_bits(bytes, '"');
        const uint64_t escape = equal_bits(bytes, '\\');
        if (escape || state.is_escaped)
            quote &= ~scan_escaped_bits(escape, &state.is_escaped);
        scan_mark(&state, quote, escape);
        const uint64_t in_string = prefix_xor(quote) ^ state.in_string;
        state.in_string = (uint64_t)((int64_t)in_string >> 63);
        const uint64_t opening = quote & in_string;
        const uint64_t hits = (opening << 1 | (uint64_t)state.quote_last) & equal_bits(bytes, 'f');
        state.quote_last = opening >> 63;
        const int at = scan_depth(&state, equal_bits(bytes, '{') & ~in_string,
                                  equal_bits(bytes, '}') & ~in_string);
        const uint64_t broken = equal_bits(bytes, '\n') & in_string;
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
