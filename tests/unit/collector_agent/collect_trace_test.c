/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said of a trace that is not all that was asked for: each reason where it is true, and nowhere else.
 */
#include "collector/agent/collect_trace.h"

#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rig {
    char dir[64], path[128];
    struct rs_spool *spool;
    char text[512];
    unsigned said, packed;
};

static void before_end(void *self, const char *text)
{
    struct rig *rig = self;
    rig->said++;
    (void)snprintf(rig->text, sizeof rig->text, "%s", text);
}

static void on_packed(void *self)
{
    ((struct rig *)self)->packed++;
}

static struct rig *rig_new(void)
{
    static struct rig rig;
    char spool[128];
    rig = (struct rig){.said = 0};
    tmp_dir_make(rig.dir);
    (void)snprintf(rig.path, sizeof rig.path, "%s/rank0_1.json", rig.dir);
    (void)snprintf(spool, sizeof spool, "%s/spool", rig.dir);
    assert_ok(rs_spool_open(spool, NULL, &rig.spool, NULL));
    return &rig;
}

static void rig_free(struct rig *rig)
{
    rs_spool_close(&rig->spool);
    tmp_dir_remove(rig->dir);
}

/* A trace of `ops` operations and of `steps` whole optimizer steps; `is_cut`: its end is missing. */
static void write_trace(const struct rig *rig, int ops, int steps, bool is_cut)
{
    FILE *file = fopen(rig->path, "w");
    assert_non_null(file);
    (void)fprintf(file, "{\"schemaVersion\": 1, \"traceEvents\": [");
    for (int i = 0; i < ops + steps; i++)
        (void)fprintf(
            file,
            "%s{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 1, \"tid\": 1, "
            "\"ts\": %d.0, \"dur\": 5.0}",
            i ? ", " : "", i < ops ? "cpu_op" : "user_annotation",
            i < ops ? "aten::mm" : "Optimizer.step#SGD.step", 1000 + 10 * i);
    (void)fprintf(file, is_cut ? ", {\"ph\": \"X\", \"na" : "]}");
    assert_int_equal(fclose(file), 0);
}

static void take(struct rig *rig, uint32_t wanted_steps, rs_dur age_ns)
{
    static unsigned number;
    char capture[32];
    struct rs_err err = {0};
    (void)snprintf(capture, sizeof capture, "c%u", ++number);
    struct rs_trace_task task = {.spool = rig->spool,
                                 .source = {.run = "r",
                                            .incarnation = "i",
                                            .capture = capture,
                                            .capture_key = "",
                                            .host = "h",
                                            .origin = "o"},
                                 .path = rig->path,
                                 .wanted_steps = wanted_steps,
                                 .age_ns = age_ns,
                                 .before_end = before_end,
                                 .on_packed = on_packed,
                                 .self = rig};
    rig->text[0] = '\0';
    assert_ok(rs_trace_take(&task, &err));
}

static void what_is_whole_has_no_reason_and_goes(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    write_trace(rig, 20, 3, false);
    take(rig, 3, 0);
    assert_string_equal(rig->text, "");
    assert_int_equal(access(rig->path, F_OK), -1);
    /* The step at whose end the profiler is switched off is not whole in the trace. */
    write_trace(rig, 20, 2, false);
    take(rig, 3, 0);
    assert_string_equal(rig->text, "");
    write_trace(rig, 20, 0, false);
    take(rig, 0, 0);
    assert_string_equal(rig->text, "");
    assert_int_equal(rig->packed, 3);
    rig_free(rig);
}

/* Imports alone take minutes: a young process is not said to have no optimizer. */
static void who_has_not_stepped_is_said_to_step_none_only_when_it_had_time_to(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    write_trace(rig, 20, 0, false);
    take(rig, 3, 90 * (rs_dur)RS_NS_PER_S);
    assert_non_null(strstr(rig->text, "it has made no step in the 90 s since it was started"));
    write_trace(rig, 20, 0, false);
    take(rig, 3, 700 * (rs_dur)RS_NS_PER_S);
    assert_non_null(strstr(rig->text, "it steps no optimizer"));
    rig_free(rig);
}

static void fewer_steps_than_asked_are_counted(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    write_trace(rig, 20, 3, false);
    take(rig, 5, 0);
    assert_string_equal(rig->text, "its trace holds 3 of the 5 iterations asked for");
    /* The steps in which the profiler is switched on and off are in it, too. */
    write_trace(rig, 20, 5, false);
    take(rig, 3, 0);
    assert_string_equal(rig->text, "");
    /* Many more: it was asked before its first step, and recorded half a second. */
    write_trace(rig, 20, 9, false);
    take(rig, 3, 0);
    assert_non_null(strstr(rig->text, "it had not made a step yet when it was asked"));
    rig_free(rig);
}

static void a_duration_in_which_nothing_ended_says_why(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    write_trace(rig, 0, 0, false);
    take(rig, 0, 0);
    assert_non_null(strstr(rig->text, "nothing began and ended in the time that was recorded"));
    rig_free(rig);
}

static void what_is_damaged_stays_where_it_says(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    write_trace(rig, 20, 3, true);
    take(rig, 3, 0);
    assert_non_null(strstr(rig->text, "its trace is damaged and stays at "));
    assert_non_null(strstr(rig->text, rig->path));
    assert_int_equal(access(rig->path, F_OK), 0);
    assert_int_equal(rig->packed, 0);
    rig_free(rig);
}

/* Its user put a link in the place of the trace: what that leads to is neither read nor removed. */
static void a_link_in_the_place_of_a_trace_is_refused(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    char secret[128];
    struct rs_err err = {0};
    struct rs_trace_task task = {.path = rig->path};
    (void)snprintf(secret, sizeof secret, "%s/secret.json", rig->dir);
    write_trace(rig, 20, 3, false);
    assert_int_equal(rename(rig->path, secret), 0);
    assert_int_equal(symlink(secret, rig->path), 0);
    assert_status(rs_trace_measure(&task, &err), RS_REFUSED);
    assert_int_equal(access(secret, F_OK), 0);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_whole_has_no_reason_and_goes),
        cmocka_unit_test(who_has_not_stepped_is_said_to_step_none_only_when_it_had_time_to),
        cmocka_unit_test(fewer_steps_than_asked_are_counted),
        cmocka_unit_test(a_duration_in_which_nothing_ended_says_why),
        cmocka_unit_test(what_is_damaged_stays_where_it_says),
        cmocka_unit_test(a_link_in_the_place_of_a_trace_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
