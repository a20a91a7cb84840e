/* SPDX-License-Identifier: Apache-2.0 */
/* What doctor found, as it tells it. */
#include "collector/agent/doctor.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>

static struct rs_doctor_patient patients[2];
static struct rs_doctor doctor;

static int make(void **state)
{
    (void)state;
    memset(patients, 0, sizeof patients);
    doctor = (struct rs_doctor){.trace_dir = "/tmp/traces", .patients = patients, .count = 2};
    doctor.folder.free_bytes = INT64_C(4) << 30;
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(patients[i].process.run, sizeof patients[i].process.run, "r1");
        patients[i].process.rank = (int32_t)i;
        patients[i].process.world_size = 4;
        patients[i].process.pid = 100 + (pid_t)i;
        patients[i].framework = "torch";
        patients[i].is_rank = true;
        patients[i].step = -1;
    }
    (void)snprintf(patients[1].reasons[0], sizeof patients[1].reasons[0],
                   "it was started without KINETO_USE_DAEMON=1");
    patients[1].reason_count = 1;
    return 0;
}

static void assert_says(struct rs_buf *buf, const char *wanted)
{
    if (!strstr(rs_buf_text(buf), wanted))
        fail_msg("\"%s\" is not in:\n%s", wanted, rs_buf_text(buf));
}

static void a_run_says_how_many_of_its_ranks_can_be_captured(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    rs_doctor_text(&doctor, 80, 80, &buf);
    assert_says(&buf, "\nrun r1: 2 of its 4 ranks are on this node, 1 of 2 can be captured\n");
    assert_says(&buf, "rank 0    process 100");
    assert_says(&buf, "cannot be captured\n            - it was started without");
    assert_says(&buf, "socket        abstract \"dynolog\": nobody answers; start");
    assert_says(&buf, "trace folder  /tmp/traces: 4096 MiB free\n");
    assert_says(&buf, "clock         its state may not be read\n");
    rs_buf_fini(&buf);
}

static void sentences_are_broken_between_words_and_stay_indented(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    rs_doctor_text(&doctor, 40, 1000, &buf);
    assert_says(&buf, "            - it was started without\n"
                      "              KINETO_USE_DAEMON=1\n");
    rs_buf_fini(&buf);
}

static void folders_that_everybody_may_write_to_are_named(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    (void)snprintf(doctor.open[0].path, sizeof doctor.open[0].path, "/srv/data");
    doctor.open[0].so_what = "captures can be changed there";
    doctor.open_count = 1;
    rs_doctor_text(&doctor, 80, 1000, &buf);
    assert_says(&buf,
                "rights        everybody may write to /srv/data: captures can be changed there "
                "(chmod o-w)\n");
    rs_buf_reset(&buf);
    rs_doctor_json(&doctor, &buf);
    assert_says(&buf, "\"open_folders\": [\n    \"/srv/data\"\n  ]");
    rs_buf_fini(&buf);
}

static void nobody_is_said(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    doctor.count = 0;
    rs_doctor_text(&doctor, 80, 80, &buf);
    assert_says(&buf, "\nno PyTorch, torch_npu or MindSpore process is seen\n");
    rs_buf_fini(&buf);
}

static void the_document_says_the_same_and_unknown_is_null(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    rs_doctor_json(&doctor, &buf);
    assert_says(&buf, "\"schema_version\": 1");
    assert_says(&buf, "\"directory\": null");
    assert_says(&buf, "\"synchronised\": null");
    assert_says(&buf, "\"step\": null");
    assert_says(&buf, "\"attachable\": true");
    assert_says(&buf, "\"attachable\": false");
    assert_says(&buf, "\"it was started without KINETO_USE_DAEMON=1\"");
    rs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_run_says_how_many_of_its_ranks_can_be_captured, make),
        cmocka_unit_test_setup(sentences_are_broken_between_words_and_stay_indented, make),
        cmocka_unit_test_setup(folders_that_everybody_may_write_to_are_named, make),
        cmocka_unit_test_setup(nobody_is_said, make),
        cmocka_unit_test_setup(the_document_says_the_same_and_unknown_is_null, make),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
