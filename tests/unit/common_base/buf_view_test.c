/* SPDX-License-Identifier: Apache-2.0 */
/* What rs_buf writes, rs_view reads; neither goes past an end. */
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/view.h"
#include "tests/support/rs_test.h"

#include <string.h>

static bool refuse(void)
{
    return false;
}

static void integers_come_back_and_are_little_endian(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    rs_buf_u8(&buf, 0xfe);
    rs_buf_u16(&buf, 0x0102);
    rs_buf_u32(&buf, 0x03040506);
    rs_buf_u64(&buf, UINT64_C(0x0708090a0b0c0d0e));
    const uint8_t expected[] = {0xfe, 2, 1, 6, 5, 4, 3, 0xe, 0xd, 0xc, 0xb, 0xa, 9, 8, 7};
    assert_int_equal(buf.length, sizeof expected);
    assert_memory_equal(buf.data, expected, sizeof expected);
    struct rs_view view = rs_view_of(buf.data, buf.length);
    assert_int_equal(rs_view_u8(&view), 0xfe);
    assert_int_equal(rs_view_u16(&view), 0x0102);
    assert_int_equal(rs_view_u32(&view), 0x03040506);
    assert_true(rs_view_u64(&view) == UINT64_C(0x0708090a0b0c0d0e));
    assert_false(view.failed);
    assert_int_equal(view.length, 0);
    rs_buf_fini(&buf);
}

static void varints_come_back_at_every_length(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    for (unsigned bit = 0; bit < 64; bit++) {
        const uint64_t one = UINT64_C(1) << bit;
        for (int k = -1; k <= 1; k++) {
            rs_buf_varint(&buf, one + (uint64_t)k);
            rs_buf_zigzag(&buf, (int64_t)(one + (uint64_t)k));
            rs_buf_zigzag(&buf, (int64_t) ~(one + (uint64_t)k));
        }
    }
    struct rs_view view = rs_view_of(buf.data, buf.length);
    for (unsigned bit = 0; bit < 64; bit++) {
        const uint64_t one = UINT64_C(1) << bit;
        for (int k = -1; k <= 1; k++) {
            assert_true(rs_view_varint(&view) == one + (uint64_t)k);
            assert_true(rs_view_zigzag(&view) == (int64_t)(one + (uint64_t)k));
            assert_true(rs_view_zigzag(&view) == (int64_t) ~(one + (uint64_t)k));
        }
    }
    assert_false(view.failed);
    assert_int_equal(view.length, 0);
    rs_buf_fini(&buf);
}

static void a_varint_past_64_bits_or_the_end_fails(void **state)
{
    (void)state;
    const uint8_t too_wide[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2};
    const uint8_t too_long[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
    const uint8_t cut[] = {0x80, 0x80};
    struct rs_view view = rs_view_of(too_wide, sizeof too_wide);
    assert_true(rs_view_varint(&view) == 0 && view.failed);
    view = rs_view_of(too_long, sizeof too_long);
    assert_true(rs_view_varint(&view) == 0 && view.failed);
    view = rs_view_of(cut, sizeof cut);
    assert_true(rs_view_varint(&view) == 0 && view.failed);
}

static void a_read_past_the_end_moves_nothing_and_stays_failed(void **state)
{
    (void)state;
    const uint8_t bytes[] = {1, 2, 3};
    struct rs_view view = rs_view_of(bytes, sizeof bytes);
    assert_int_equal(rs_view_u32(&view), 0);
    assert_true(view.failed);
    assert_int_equal(view.length, 3);
    assert_ptr_equal(view.data, bytes);
    assert_int_equal(rs_view_u8(&view), 0);
    const struct rs_view none = rs_view_take(&view, 1);
    assert_true(none.failed && none.length == 0);
}

static void take_gives_the_next_bytes_and_no_more(void **state)
{
    (void)state;
    const uint8_t bytes[] = {1, 2, 3, 4};
    struct rs_view view = rs_view_of(bytes, sizeof bytes);
    struct rs_view head = rs_view_take(&view, 3);
    assert_int_equal(head.length, 3);
    assert_int_equal(view.length, 1);
    assert_int_equal(rs_view_u8(&view), 4);
    assert_true(rs_view_take(&view, 1).failed);
    assert_int_equal(rs_view_u8(&head), 1);
}

static void text_has_a_nul_that_is_not_counted(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    assert_string_equal(rs_buf_text(&buf), "");
    rs_buf_string(&buf, "a=");
    rs_buf_printf(&buf, "%d, %s", 12, "b");
    assert_string_equal(rs_buf_text(&buf), "a=12, b");
    assert_int_equal(buf.length, 7);
    rs_buf_reset(&buf);
    assert_string_equal(rs_buf_text(&buf), "");
    rs_buf_fini(&buf);
    assert_null(buf.data);
}

static void a_failed_allocation_is_sticky_until_reset(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    rs_buf_string(&buf, "kept");
    rs_mem_set_gate(refuse);
    uint8_t *room = rs_buf_reserve(&buf, 1 << 20);
    rs_mem_set_gate(NULL);
    assert_null(room);
    rs_buf_u8(&buf, 1);
    rs_buf_printf(&buf, "%d", 1);
    assert_true(buf.failed);
    assert_int_equal(buf.length, 4);
    assert_memory_equal(buf.data, "kept", 4);
    rs_buf_reset(&buf);
    rs_buf_u8(&buf, 7);
    assert_false(buf.failed);
    assert_int_equal(buf.length, 1);
    rs_buf_fini(&buf);
}

static void a_length_that_overflows_fails(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    rs_buf_u8(&buf, 1);
    assert_null(rs_buf_reserve(&buf, SIZE_MAX));
    assert_true(buf.failed);
    rs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_come_back_and_are_little_endian),
        cmocka_unit_test(varints_come_back_at_every_length),
        cmocka_unit_test(a_varint_past_64_bits_or_the_end_fails),
        cmocka_unit_test(a_read_past_the_end_moves_nothing_and_stays_failed),
        cmocka_unit_test(take_gives_the_next_bytes_and_no_more),
        cmocka_unit_test(text_has_a_nul_that_is_not_counted),
        cmocka_unit_test(a_failed_allocation_is_sticky_until_reset),
        cmocka_unit_test(a_length_that_overflows_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
