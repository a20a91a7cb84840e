/* SPDX-License-Identifier: Apache-2.0 */
/* Names keep their ids and their place; arrays grow without losing what they hold. */
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/base/strtab.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>

enum { MANY = 20000 };

static void ids_are_dense_in_order_of_first_appearance(void **state)
{
    (void)state;
    struct rs_strtab table;
    rs_str id;
    char text[32];
    assert_ok(rs_strtab_init(&table, 0));
    assert_int_equal(table.count, 1);
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 1; i <= MANY; i++) {
            const int length = snprintf(text, sizeof text, "name %u", i);
            assert_ok(rs_strtab_add(&table, text, (size_t)length, &id));
            assert_int_equal(id, i);
        }
    }
    assert_int_equal(table.count, MANY + 1);
    for (unsigned i = 1; i <= MANY; i++) {
        const int length = snprintf(text, sizeof text, "name %u", i);
        assert_int_equal(rs_strtab_find(&table, text, (size_t)length), i);
        assert_string_equal(rs_strtab_text(&table, i), text);
        assert_int_equal(rs_strtab_length(&table, i), length);
    }
    rs_strtab_fini(&table);
}

static void the_empty_string_is_0_and_none_reads_as_empty(void **state)
{
    (void)state;
    struct rs_strtab table;
    rs_str id = 9;
    assert_ok(rs_strtab_init(&table, 0));
    assert_ok(rs_strtab_add(&table, "", 0, &id));
    assert_int_equal(id, RS_STR_EMPTY);
    assert_string_equal(rs_strtab_text(&table, RS_STR_NONE), "");
    assert_int_equal(rs_strtab_length(&table, RS_STR_NONE), 0);
    assert_int_equal(rs_strtab_find(&table, "x", 1), RS_STR_NONE);
    rs_strtab_fini(&table);
}

static void strings_may_hold_any_byte_and_stay_where_they_are(void **state)
{
    (void)state;
    struct rs_strtab table;
    rs_str first, second, id;
    static char big[100000];
    assert_ok(rs_strtab_init(&table, 0));
    assert_ok(rs_strtab_add(&table, "a\0b", 3, &first));
    assert_ok(rs_strtab_add(&table, "a\0c", 3, &second));
    assert_int_not_equal(first, second);
    const char *text = rs_strtab_text(&table, first);
    memset(big, 'x', sizeof big);
    for (size_t i = 1; i < 50; i++)
        assert_ok(rs_strtab_add(&table, big, sizeof big - i, &id));
    assert_ptr_equal(rs_strtab_text(&table, first), text);
    assert_memory_equal(text, "a\0b", 4);
    rs_strtab_fini(&table);
}

static void a_full_table_refuses_the_new_and_knows_the_old(void **state)
{
    (void)state;
    struct rs_strtab table;
    rs_str id, other = 77;
    assert_ok(rs_strtab_init(&table, 8));
    assert_ok(rs_strtab_add(&table, "12345678", 8, &id));
    assert_status(rs_strtab_add(&table, "9", 1, &other), RS_LIMIT);
    assert_int_equal(other, 77);
    assert_ok(rs_strtab_add(&table, "12345678", 8, &other));
    assert_int_equal(other, id);
    rs_strtab_fini(&table);
}

static size_t blocks_of(const struct rs_strtab *table)
{
    /* Only that they are linked by their first member is known here. */
    struct link {
        struct link *next;
    };
    size_t count = 0;
    for (const struct link *link = (const void *)table->blocks; link; link = link->next)
        count++;
    return count;
}

static void a_table_made_for_its_strings_takes_what_they_need_and_grows(void **state)
{
    (void)state;
    struct rs_strtab table;
    rs_str id;
    char text[32];
    assert_ok(rs_strtab_init_for(&table, 3, 9));
    assert_int_equal(table.count, 1);
    for (rs_str i = 1; i <= 3; i++) {
        const int length = snprintf(text, sizeof text, "of%u", i);
        assert_ok(rs_strtab_add(&table, text, (size_t)length, &id));
        assert_int_equal(id, i);
    }
    assert_int_equal(blocks_of(&table), 1);
    assert_int_equal(table.capacity, 4);
    assert_int_equal(table.slot_count, 8);
    for (unsigned i = 4; i <= 1000; i++) {
        const int length = snprintf(text, sizeof text, "more %u", i);
        assert_ok(rs_strtab_add(&table, text, (size_t)length, &id));
        assert_int_equal(id, i);
    }
    assert_string_equal(rs_strtab_text(&table, 2), "of2");
    assert_string_equal(rs_strtab_text(&table, 1000), "more 1000");
    rs_strtab_reset(&table);
    assert_ok(rs_strtab_add(&table, "again", 5, &id));
    assert_int_equal(id, 1);
    rs_strtab_fini(&table);
    assert_ok(rs_strtab_init_for(&table, 0, 0));
    assert_ok(rs_strtab_add(&table, "x", 1, &id));
    assert_int_equal(id, 1);
    rs_strtab_fini(&table);
}

static size_t countdown; /* of the allocation that fails; 0: none */

static bool fail_one(void)
{
    return countdown == 0 || --countdown > 0;
}

static enum rs_status fill(struct rs_strtab *table, size_t *added_p)
{
    enum rs_status status = rs_strtab_init(table, 0);
    rs_str id;
    char text[200] = {0};
    for (*added_p = 0; status == RS_OK && *added_p < 1500; ++*added_p) {
        (void)snprintf(text, sizeof text, "%zu", *added_p);
        status = rs_strtab_add(table, text, sizeof text, &id);
        if (status != RS_OK)
            break;
    }
    return status;
}

static void a_failed_allocation_leaves_the_table_as_it_was(void **state)
{
    (void)state;
    enum rs_status status = RS_NOMEM;
    size_t k = 1;
    for (; status != RS_OK; k++) {
        struct rs_strtab table;
        size_t added;
        countdown = k;
        rs_mem_set_gate(fail_one);
        status = fill(&table, &added);
        rs_mem_set_gate(NULL);
        if (status != RS_OK)
            assert_int_equal(status, RS_NOMEM);
        if (table.entries) {
            rs_str id;
            assert_int_equal(table.count, added + 1);
            assert_ok(rs_strtab_add(&table, "after", 5, &id));
            assert_int_equal(id, added + 1);
            assert_string_equal(rs_strtab_text(&table, id), "after");
        }
        rs_strtab_fini(&table);
        assert_true(k < 200);
    }
    assert_true(k > 8);
}

static jmp_buf after_check;

static _Noreturn void jump_back(const char *expression, const char *file, int line,
                                const char *function)
{
    (void)expression;
    (void)file;
    (void)line;
    (void)function;
    longjmp(after_check, 1);
}

static void no_id_beyond_the_table_is_read(void **state)
{
    (void)state;
    struct rs_strtab table;
    assert_ok(rs_strtab_init(&table, 0));
    rs_check_on_fail((rs_check_fail_fn *)jump_back);
    volatile bool was_caught = true;
    if (setjmp(after_check) == 0) {
        (void)rs_strtab_text(&table, 1);
        was_caught = false;
    }
    rs_check_on_fail(NULL);
    assert_true(was_caught);
    rs_strtab_fini(&table);
}

static void arrays_at_least_double_and_keep_what_they_hold(void **state)
{
    (void)state;
    uint32_t *items = NULL;
    size_t capacity = 0, grown = 0;
    for (size_t count = 0; count < 10000; count++) {
        const size_t before = capacity;
        assert_ok(rs_mem_grow((void **)&items, &capacity, count + 1, sizeof *items));
        assert_true(capacity == before || capacity >= 2 * before);
        grown += capacity != before;
        items[count] = (uint32_t)count;
    }
    for (size_t i = 0; i < 10000; i++)
        assert_int_equal(items[i], i);
    assert_true(grown < 16);
    rs_mem_free(items);
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    int *items = NULL;
    size_t capacity = 0;
    assert_status(rs_mem_grow((void **)&items, &capacity, SIZE_MAX, sizeof *items), RS_NOMEM);
    assert_null(items);
    assert_int_equal(capacity, 0);
    assert_null(rs_mem_calloc(SIZE_MAX, 2));
    assert_null(rs_mem_realloc(NULL, SIZE_MAX / 2, 4));
    assert_null(rs_mem_strndup("", SIZE_MAX));
}

static void nothing_is_still_an_address(void **state)
{
    (void)state;
    void *none = rs_mem_calloc(0, 8);
    assert_non_null(none);
    rs_mem_free(none);
    rs_mem_free(NULL);
    char *copy = rs_mem_strndup("abc", 2);
    assert_string_equal(copy, "ab");
    rs_mem_free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_dense_in_order_of_first_appearance),
        cmocka_unit_test(the_empty_string_is_0_and_none_reads_as_empty),
        cmocka_unit_test(strings_may_hold_any_byte_and_stay_where_they_are),
        cmocka_unit_test(a_full_table_refuses_the_new_and_knows_the_old),
        cmocka_unit_test(a_table_made_for_its_strings_takes_what_they_need_and_grows),
        cmocka_unit_test(a_failed_allocation_leaves_the_table_as_it_was),
        cmocka_unit_test(no_id_beyond_the_table_is_read),
        cmocka_unit_test(arrays_at_least_double_and_keep_what_they_hold),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(nothing_is_still_an_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
