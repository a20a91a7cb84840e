/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C of buffers long enough for the side-by-side lanes is that of the definition. */
#include "common/base/digest.h"
#include "tests/support/rs_test.h"

static uint8_t bytes[40000];

static uint32_t step(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    for (int bit = 0; bit < 8; bit++)
        crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
    return crc;
}

static void every_length_around_the_lanes_is_the_definition(void **state)
{
    (void)state;
    uint32_t random = 12345;
    for (size_t i = 0; i < sizeof bytes; i++) {
        random = random * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(random >> 24);
    }
    uint32_t crc = UINT32_MAX;
    for (size_t length = 0; length < sizeof bytes; length++) {
        /* around multiples of a lane and of three lanes, at two alignments */
        const size_t rest = length % 256;
        if (rest < 9 || rest > 248)
            assert_int_equal(rs_crc32c(0, bytes, length), ~crc);
        crc = step(crc, bytes[length]);
    }
}

static void a_long_buffer_in_two_parts_is_the_whole(void **state)
{
    (void)state;
    const uint32_t whole = rs_crc32c(0, bytes, sizeof bytes);
    for (size_t cut = 1; cut < sizeof bytes; cut += 1777)
        assert_int_equal(rs_crc32c(rs_crc32c(0, bytes, cut), bytes + cut, sizeof bytes - cut),
                         whole);
}

static void two_sums_joined_are_that_of_both_in_a_row(void **state)
{
    (void)state;
    for (size_t length = 0; length < sizeof bytes; length += length < 70 ? 1 : 3331) {
        const uint32_t whole = rs_crc32c(0, bytes, length);
        for (size_t cut = 0; cut <= length; cut += 1 + length / 60) {
            const uint32_t second = rs_crc32c(0, bytes + cut, length - cut);
            assert_int_equal(rs_crc32c_join(rs_crc32c(0, bytes, cut), second, length - cut), whole);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_around_the_lanes_is_the_definition),
        cmocka_unit_test(a_long_buffer_in_two_parts_is_the_whole),
        cmocka_unit_test(two_sums_joined_are_that_of_both_in_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
