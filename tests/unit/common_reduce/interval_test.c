/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/interval.h"

#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <stdbool.h>
#include <string.h>

enum { LINE = 256 };

static uint64_t state = 1;

static uint64_t draw(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

/* The same set, nanosecond by nanosecond. */
static void paint(const struct intervals *list, bool *line)
{
    memset(line, 0, LINE);
    for (size_t i = 0; i < list->count; i++) {
        for (rs_ns at = list->items[i].start; at < list->items[i].end; at++)
            line[at] = true;
    }
}

static void fill(struct intervals *list, bool *line)
{
    list->count = 0;
    const size_t count = draw(2) ? draw(12) : draw(120); /* both ways of sorting */
    const uint64_t longest = 1 + draw(40);
    for (size_t i = 0; i < count; i++) {
        const rs_ns start = (rs_ns)draw(LINE - 41);
        assert_ok(intervals_push(list, start, start + (rs_ns)draw(longest)));
    }
    paint(list, line);
    assert_ok(intervals_normalise(list));
}

static void assert_normal(const struct intervals *list)
{
    for (size_t i = 0; i < list->count; i++) {
        assert_true(list->items[i].start < list->items[i].end);
        if (i)
            assert_true(list->items[i - 1].end <= list->items[i].start);
    }
}

static void sets_agree_with_counting_every_nanosecond(void **unused)
{
    (void)unused;
    struct intervals a = {0}, b = {0}, difference = {0};
    bool line_a[LINE], line_b[LINE], line[LINE];
    for (int round = 0; round < 3000; round++) {
        fill(&a, line_a);
        fill(&b, line_b);
        rs_dur in_a = 0, in_both = 0;
        for (int i = 0; i < LINE; i++) {
            in_a += line_a[i];
            in_both += line_a[i] && line_b[i];
        }
        assert_normal(&a);
        assert_int_equal(intervals_length(&a), in_a);
        assert_int_equal(intervals_overlap(&a, &b), in_both);
        assert_ok(intervals_subtract(&a, &b, &difference));
        assert_normal(&difference);
        assert_int_equal(intervals_length(&difference), in_a - in_both);
        paint(&difference, line);
        for (int i = 0; i < LINE; i++)
            assert_int_equal(line[i], line_a[i] && !line_b[i]);
    }
    intervals_fini(&a);
    intervals_fini(&b);
    intervals_fini(&difference);
}

static void touching_pieces_of_work_stay_two(void **unused)
{
    (void)unused;
    struct intervals list = {0};
    assert_ok(intervals_push(&list, 10, 20));
    assert_ok(intervals_push(&list, 0, 10));
    assert_ok(intervals_normalise(&list));
    assert_int_equal(list.count, 2);
    assert_int_equal(intervals_length(&list), 20);
    intervals_fini(&list);
}

static void sorting_is_stable_over_the_whole_range(void **unused)
{
    (void)unused;
    enum { COUNT = 1000 };
    struct sort_item items[COUNT];
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            const int64_t key = round % 2 ? (int64_t)(draw(7) << draw(60)) : (int64_t)draw(50) - 25;
            items[i] = (struct sort_item){draw(9) ? key : draw(2) ? INT64_MIN : INT64_MAX, i};
        }
        assert_ok(sort_items(items, COUNT));
        for (size_t i = 1; i < COUNT; i++) {
            assert_true(items[i - 1].key <= items[i].key);
            if (items[i - 1].key == items[i].key)
                assert_true(items[i - 1].value < items[i].value);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_agree_with_counting_every_nanosecond),
        cmocka_unit_test(touching_pieces_of_work_stay_two),
        cmocka_unit_test(sorting_is_stable_over_the_whole_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
