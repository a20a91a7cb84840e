/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/classes.h"

#include "common/base/file.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <string.h>

static enum rs_status load(const char *text, size_t length, struct rs_err *err)
{
    char dir[64], path[128];
    tmp_dir_make(dir);
    (void)snprintf(path, sizeof path, "%s/classes.conf", dir);
    assert_ok(rs_file_replace(path, text, length, false, err));
    const enum rs_status status = rs_classes_load(path, err);
    tmp_dir_remove(dir);
    return status;
}

static enum rs_work_class class_of(const char *name)
{
    return rs_classify_kernel(name, strlen(name));
}

static enum rs_op_type type_of(const char *name)
{
    return rs_op_type_of_name(name, strlen(name));
}

static void a_users_lines_stand_before_the_table(void **unused)
{
    (void)unused;
    static const char text[] = "# our own\n"
                               "\n"
                               "communication contains our::a2a_  all_to_all # of experts\r\n"
                               "communication starts\tOurPush\n"
                               "computing contains allreduce_fusion\n"
                               "waiting starts spin_until";
    struct rs_err err = {0};
    assert_int_equal(class_of("void our::a2a_send<1>(int)"), RS_WORK_COMPUTING);
    assert_int_equal(load(text, sizeof text - 1, &err), RS_OK);
    assert_int_equal(class_of("void our::a2a_send<1>(int)"), RS_WORK_COMMUNICATION);
    assert_int_equal(type_of("void our::a2a_send<1>(int)"), RS_OP_ALL_TO_ALL);
    /* no type in the line: the name's words tell it */
    assert_int_equal(class_of("OurPushAllGather"), RS_WORK_COMMUNICATION);
    assert_int_equal(type_of("OurPushAllGather"), RS_OP_ALL_GATHER);
    assert_int_equal(class_of("NotOurPush"), RS_WORK_COMPUTING);
    /* what the built-in table calls communication, the user may call computing */
    assert_int_equal(class_of("allreduce_fusion_kernel"), RS_WORK_COMPUTING);
    assert_int_equal(class_of("spin_until_flag"), RS_WORK_WAITING);
    assert_int_equal(class_of("ncclDevKernel_AllReduce"), RS_WORK_COMMUNICATION);
    rs_classes_forget();
    assert_int_equal(class_of("spin_until_flag"), RS_WORK_COMPUTING);
    assert_int_equal(rs_classes_load(NULL, &err), RS_OK);
}

static void a_wrong_line_is_named(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"communication contains\n", "classes.conf:1: expected: class, where, text"},
        {"\ncommunication contains a b all_reduce\n", "classes.conf:2: expected: class"},
        {"comm contains a\n", "classes.conf:1: the class is computing"},
        {"memory ends a\n", "classes.conf:1: where is starts or contains"},
        {"computing starts a all_reduce\n", "classes.conf:1: only communication has a type"},
        {"communication starts a allreduce\n", "classes.conf:1: there is no such type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rs_err err = {0};
        assert_int_equal(load(cases[i].text, strlen(cases[i].text), &err), RS_INVALID);
        print_message("%s\n", err.text);
        assert_non_null(strstr(err.text, cases[i].said));
    }
    /* nothing of a wrong file is taken */
    struct rs_err err = {0};
    static const char half[] = "communication starts Half\nwrong\n";
    assert_int_equal(load(half, sizeof half - 1, &err), RS_INVALID);
    assert_int_equal(class_of("HalfKernel"), RS_WORK_COMPUTING);
    assert_int_equal(load("a\0b", 3, &err), RS_INVALID);
    assert_int_equal(rs_classes_load("/nowhere/classes.conf", &err), RS_NOTFOUND);
}

static void a_file_has_limits(void **unused)
{
    (void)unused;
    struct rs_err err = {0};
    struct rs_buf buf = {0};
    for (int i = 0; i <= RS_CLASSES_MAX; i++)
        rs_buf_printf(&buf, "memory starts k%d\n", i);
    assert_int_equal(load(rs_buf_text(&buf), buf.length, &err), RS_INVALID);
    assert_non_null(strstr(err.text, ":1025: more than 1024 lines"));
    rs_buf_reset(&buf);
    rs_buf_string(&buf, "memory starts ");
    for (int i = 0; i <= RS_CLASSES_TEXT_MAX; i++)
        rs_buf_u8(&buf, 'x');
    assert_int_equal(load(rs_buf_text(&buf), buf.length, &err), RS_INVALID);
    assert_non_null(strstr(err.text, "longer than 200"));
    rs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_users_lines_stand_before_the_table),
        cmocka_unit_test(a_wrong_line_is_named),
        cmocka_unit_test(a_file_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
