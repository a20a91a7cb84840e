/* SPDX-License-Identifier: Apache-2.0 */
/* The index beside an array: everything put is found, of equals the first, in whatever order the places came to lie. */
#include "common/base/slots.h"

#include "tests/support/rs_test.h"

#include <string.h>

struct items {
    uint32_t values[5000];
};

static bool is_value(const void *self, uint32_t index, const void *wanted)
{
    const struct items *items = self;
    return items->values[index] == *(const uint32_t *)wanted;
}

static void all_that_was_put_is_found(void **state)
{
    (void)state;
    static struct items items;
    struct rs_slots slots = {0};
    for (uint32_t i = 0; i < 5000; i++) {
        items.values[i] = i * 7919;
        const uint32_t absent = i * 7919;
        assert_int_equal(rs_slots_find(&slots, rs_slots_mix(0, absent), is_value, &items, &absent),
                         RS_SLOTS_NONE);
        assert_int_equal(rs_slots_put(&slots, rs_slots_mix(0, absent), i), RS_OK);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        const uint32_t wanted = i * 7919;
        assert_int_equal(rs_slots_find(&slots, rs_slots_mix(0, wanted), is_value, &items, &wanted),
                         i);
    }
    rs_slots_fini(&slots);
    assert_null(slots.items);
}

/* Equal hashes at the table's end run on at its beginning, and growing must not change who is first. */
static void of_equals_the_first_put_is_found(void **state)
{
    (void)state;
    static struct items items;
    for (uint32_t home = 0; home < 64; home++) {
        struct rs_slots slots = {0};
        const uint64_t hash = home | UINT64_C(0xffffff00);
        for (uint32_t i = 0; i < 300; i++) {
            items.values[i] = i / 3; /* three of each, all of one hash */
            assert_int_equal(rs_slots_put(&slots, hash, i), RS_OK);
            const uint32_t other = i; /* and others between them */
            assert_int_equal(rs_slots_put(&slots, hash + 1 + other % 5, 4999), RS_OK);
        }
        for (uint32_t value = 0; value < 100; value++)
            assert_int_equal(rs_slots_find(&slots, hash, is_value, &items, &value), value * 3);
        rs_slots_fini(&slots);
    }
}

static void the_last_number_is_no_position(void **state)
{
    (void)state;
    struct rs_slots slots = {0};
    assert_int_equal(rs_slots_put(&slots, 1, RS_SLOTS_NONE), RS_LIMIT);
    assert_int_equal(slots.count, 0);
    rs_slots_fini(&slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_was_put_is_found),
        cmocka_unit_test(of_equals_the_first_put_is_found),
        cmocka_unit_test(the_last_number_is_no_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
