/* SPDX-License-Identifier: Apache-2.0 */
/* What MindSpore prints and names, the pair of steps in its file, and how far a result folder is. */
#include "ascend/adapter/mindspore_priv.h"
#include "common/base/file.h"
#include "tests/support/rs_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- texts -------------------------------------------------------------------------------------------------- */

static bool parse(const char *text, struct mindspore_line *line)
{
    return mindspore_line_parse(text, strlen(text), line);
}

static void three_lines_are_known_and_no_others(void **state)
{
    struct mindspore_line line;
    (void)state;
    assert_true(
        parse("[Dynamic Profiler] Init config json file: /a b/c/profiler_config.json", &line));
    assert_int_equal(line.kind, MINDSPORE_LINE_INIT);
    assert_string_equal(line.dir, "/a b/c");
    /* another rank's line right behind, before either had written its end */
    assert_true(parse("[Dynamic Profiler] Init config json file: /a b/c/profiler_config.json"
                      "[Dynamic Profiler] Init config json file: /d/profiler_config.json",
                      &line));
    assert_string_equal(line.dir, "/a b/c");
    assert_true(
        parse("[1,3]<stdout>: [Dynamic Profiler] Rank 3 Dynamic profiler start at step 20, will "
              "stop at step 22\r",
              &line));
    assert_int_equal(line.kind, MINDSPORE_LINE_START);
    assert_true(line.rank == 3 && line.start == 20 && line.stop == 22);
    assert_true(parse("[Dynamic Profiler] Rank 0 Dynamic profiler stop at step 22", &line));
    assert_int_equal(line.kind, MINDSPORE_LINE_STOP);
    assert_true(line.rank == 0 && line.stop == 22);
    static const char *const others[] = {
        "",
        "[Dynamic Profiler] ",
        "[Dynamic Profiler] Init config json file: relative/profiler_config.json",
        "[Dynamic Profiler] Init config json file: /profiler_config.json",
        "[Dynamic Profiler] Init config json file: /etc/passwd",
        "[Dynamic Profiler] Rank 0 create output path /x/rank0_start20_stop22",
        "[Dynamic Profiler] Rank x Dynamic profiler stop at step 22",
        "[Dynamic Profiler] Rank 0 Dynamic profiler stop at step 22 or so",
        "[Dynamic Profiler] Rank 0 Dynamic profiler start at step 20, will stop at step",
        "[Dynamic Profiler] Rank 0 Dynamic profiler stop at step 99999999999999999999",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(parse(others[i], &line));
}

static void a_line_that_is_too_long_is_none(void **state)
{
    char text[4096];
    struct mindspore_line line;
    (void)state;
    memset(text, 'x', sizeof text);
    const int head = snprintf(text, sizeof text, "[Dynamic Profiler] Init config json file: /");
    text[head] = 'x';
    const char tail[] = "/profiler_config.json";
    memcpy(text + sizeof text - sizeof tail, tail, sizeof tail);
    assert_false(mindspore_line_parse(text, sizeof text - 1, &line));
    text[head + 900] = '\0';
    memcpy(text + head + 900, tail, sizeof tail);
    assert_true(mindspore_line_parse(text, strlen(text), &line));
    assert_int_equal(strlen(line.dir), 901);
}

static void the_pair_is_read_from_half_a_file_too(void **state)
{
    static const struct {
        const char *text;
        bool is_there;
        int64_t start, stop;
    } cases[] = {
        {"{\"start_step\": 25, \"stop_step\": 27, \"is_valid\": true}", true, 25, 27},
        {"{\"stop_step\" :\n 27,\"start_step\":-1", true, -1, 27},
        {"{\"start_step\": 25, \"stop_", true, 25, -1},
        {"{\"start_step\": \"25\", \"stop_step\": 27.0}", false, -1, -1},
        {"{\"start_step\": 2e5}", false, -1, -1},
        {"", false, -1, -1},
        {"[1]", false, -1, -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mindspore_pair pair = {.start = 7, .stop = 7};
        assert_int_equal(mindspore_pair_read(cases[i].text, &pair), cases[i].is_there);
        assert_true(pair.start == cases[i].start && pair.stop == cases[i].stop);
    }
}

static void the_two_ways_differ_by_one_step(void **state)
{
    (void)state;
    const struct mindspore_pair step = mindspore_pair_for(20, 3, RS_MINDSPORE_WAY_STEP);
    const struct mindspore_pair callback = mindspore_pair_for(20, 3, RS_MINDSPORE_WAY_CALLBACK);
    assert_true(step.start == 19 && step.stop == 21);
    assert_true(callback.start == 20 && callback.stop == 22);
    assert_int_equal(mindspore_pair_first(&step, RS_MINDSPORE_WAY_STEP), 20);
    assert_int_equal(mindspore_pair_first(&callback, RS_MINDSPORE_WAY_CALLBACK), 20);
    enum rs_mindspore_way way = RS_MINDSPORE_WAY_UNKNOWN;
    assert_true(rs_mindspore_way_from_text("step", &way) && way == RS_MINDSPORE_WAY_STEP);
    assert_true(rs_mindspore_way_from_text("callback", &way) && way == RS_MINDSPORE_WAY_CALLBACK);
    assert_false(rs_mindspore_way_from_text("both", &way));
    assert_string_equal(rs_mindspore_way_text(way), "callback");
}

static void names_are_read_from_the_right(void **state)
{
    int64_t rank = -1, pid = -1;
    rs_ns made = 0;
    char name[32];
    struct mindspore_pair pair;
    (void)state;
    assert_true(mindspore_folder_name("rank12_start20_stop22", &rank, &pair));
    assert_true(rank == 12 && pair.start == 20 && pair.stop == 22);
    assert_false(mindspore_folder_name("rank12_start20_stop22x", &rank, &pair));
    assert_false(mindspore_folder_name("rank-1_start20_stop22", &rank, &pair));
    assert_false(mindspore_folder_name("rank_start20_stop22", &rank, &pair));
    assert_true(mindspore_result_name("my_host_4711_20261121183819687_ascend_ms", &pid, &made));
    assert_int_equal(pid, 4711);
    assert_int_equal(made, INT64_C(1795286299687000000)); /* date -u -d '2026-11-21 18:38:19.687' */
    assert_true(mindspore_result_name("h_1_20240229235959999_ascend_ms", &pid, &made));
    assert_int_equal(made, INT64_C(1709251199999000000));
    static const char *const others[] = {
        "h_4711_20261121183819687_ascend_pt",
        "h_4711_2026112118381968_ascend_ms",
        "h_x_20261121183819687_ascend_ms",
        "4711_20261121183819687_ascend_ms",
        "h_0_20261121183819687_ascend_ms",
        "h_4711_20261321183819687_ascend_ms",
        "_ascend_ms",
        "h_99999999999999_20261121183819687_ascend_ms",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(mindspore_result_name(others[i], &pid, &made));
    assert_true(mindspore_block_name("/dev/shm/DynamicProfileShm2026112118 (deleted)", name));
    assert_string_equal(name, "DynamicProfileShm2026112118");
    assert_false(mindspore_block_name("/dev/shm/DynamicProfileNpuShm2026112118", name));
    assert_false(mindspore_block_name("/dev/shm/DynamicProfileShm20261121181", name));
    assert_false(mindspore_block_name("/dev/shm/DynamicProfileShm2026112118x", name));
}

/* ---- results ------------------------------------------------------------------------------------------------ */

struct place {
    char root[64];
    char dir[256];
};

static int make_place(void **state)
{
    static struct place place;
    (void)snprintf(place.root, sizeof place.root, "/tmp/rs-mindspore-XXXXXX");
    if (!mkdtemp(place.root))
        return -1;
    (void)snprintf(place.dir, sizeof place.dir,
                   "%s/rank2_start20_stop22/host_4711_20261121183819687_ascend_ms", place.root);
    *state = &place;
    return 0;
}

static int remove_place(void **state)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", ((struct place *)*state)->root);
    return system(command); /* NOLINT: a path of our own making */
}

static void put(const struct place *place, const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", place->dir, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    assert_ok(rs_file_make_dirs(path, 0755, NULL));
    *slash = '/';
    assert_ok(rs_file_replace(path, text, strlen(text), false, NULL));
}

static bool look(const struct place *place, int64_t pid, struct mindspore_result *result)
{
    const struct mindspore_pair pair = {.start = 20, .stop = 22};
    return mindspore_result_look(place->root, &pair, pid, result);
}

static void a_result_is_followed_from_its_folder_to_its_end(void **state)
{
    const struct place *place = *state;
    struct mindspore_result result = {0};
    assert_false(look(place, 4711, &result));
    put(place, "logs/profiler_20261121183819_4711.log", "CpuProfiler start.\n");
    assert_false(look(place, 4712, &result));
    assert_true(look(place, 4711, &result));
    assert_string_equal(result.dir, place->dir);
    assert_true(result.collected_ns == 0 && !result.is_parsed && !result.has_output);
    put(place, "logs/profiler_20261121183819_4711.log",
        "CpuProfiler start.\nCpuProfiler stop.\nCpuProfiler finalize.\nCpuProfiler analyse.\n"
        "TaskManager run flow [cpu_flow] [pid: 9] start\nTaskManager run flow [npu_flow] [pid: 8] start\n"
        "TaskManager flow [cpu_flow] [pid: 9] join\n");
    assert_true(look(place, 4711, &result));
    assert_true(result.collected_ns > 0 && result.parsing_began && !result.is_parsed);
    put(place, "ASCEND_PROFILER_OUTPUT/trace_view.json", "[]");
    put(place, "logs/profiler_20261121183819_4711.log",
        "CpuProfiler finalize.\nTaskManager run flow [cpu_flow] [pid: 9] start\n"
        "TaskManager flow [cpu_flow] [pid: 9] join\n");
    assert_true(look(place, 4711, &result));
    assert_true(result.is_parsed && result.has_output);
    assert_int_equal(result.way, RS_MINDSPORE_WAY_UNKNOWN); /* a CPU's result does not tell */
}

static void a_device_tells_the_way_and_its_end_in_profiler_info(void **state)
{
    const struct place *place = *state;
    struct mindspore_result result = {0};
    put(place, "profiler_info_2.json",
        "{\"profiler_parameters\": {\"schedule\": {\"skip_first\": 1");
    assert_true(look(place, 4711, &result));
    assert_true(result.collected_ns == 0); /* half a file is no end */
    put(place, "profiler_info_2.json",
        "{\"profiler_parameters\": {\"schedule\": {\"skip_first\": 1}}, \"ms_version\": \"2.9\"}");
    assert_true(look(place, 4711, &result));
    assert_true(result.collected_ns > 0);
    assert_int_equal(result.way, RS_MINDSPORE_WAY_STEP);
    struct mindspore_result other = {0};
    put(place, "profiler_info_2.json",
        "{\"profiler_parameters\": {\"schedule\": {\"skip_first\": 0}}, \"ms_version\": \"2.9\"}");
    assert_true(look(place, 4711, &other));
    assert_int_equal(other.way, RS_MINDSPORE_WAY_CALLBACK);
}

/* ---- the file ----------------------------------------------------------------------------------------------- */

static struct mindspore_config_dir site_at(const struct place *place)
{
    struct mindspore_config_dir site = {.owner = {.uid = geteuid(), .gid = getegid()}};
    (void)snprintf(site.path, sizeof site.path, "%s/profiler_config.json", place->root);
    return site;
}

static void between_captures_the_file_says_what_it_said(void **state)
{
    struct mindspore_config_dir site = site_at(*state);
    const struct mindspore_pair never = {.start = -1, .stop = -1};
    struct rs_buf text = {0};
    rs_buf_string(&site.original,
                  "{\n  \"start_step\": 5, \"stop_step\": 6,\n  \"prof_path\": \"/x\"\n}\n");
    assert_ok(mindspore_resting_text(&site, &never, &text));
    assert_string_equal(
        rs_buf_text(&text),
        "{\n  \"start_step\": -1, \"stop_step\": -1,\n  \"prof_path\": \"/x\"\n}\n");
    rs_buf_reset(&text);
    rs_buf_reset(&site.original);
    rs_buf_string(&site.original, "not a word of JSON");
    assert_ok(mindspore_resting_text(&site, &mindspore_parking, &text));
    struct mindspore_pair pair;
    assert_true(mindspore_pair_read(rs_buf_text(&text), &pair));
    assert_true(mindspore_is_same_pair(&pair, &mindspore_parking));
    assert_non_null(strstr(rs_buf_text(&text), "\"sys_interconnection\"")); /* every key */
    rs_buf_fini(&text);
    rs_buf_fini(&site.original);
}

/* Its user may set any time: nothing is reckoned wrong by it. */
static void a_time_at_the_end_of_days_is_borne(void **state)
{
    (void)state;
    const struct timespec end = {.tv_sec = (time_t)INT64_MAX, .tv_nsec = 999999999};
    const struct timespec begin = {.tv_sec = (time_t)INT64_MIN};
    const struct timespec now = {.tv_sec = 1790857026, .tv_nsec = 5};
    assert_true(rs_time_of(&end) > INT64_C(7000000000000000000));
    assert_true(rs_time_of(&end) < RS_NS_MAX / 10 * 9);
    assert_true(rs_time_of(&begin) < 0);
    assert_true(rs_time_of(&now) == INT64_C(1790857026000000005));
}

static void a_file_that_another_replaced_is_noticed(void **state)
{
    struct mindspore_config_dir site = site_at(*state);
    struct mindspore_trigger trigger = {.realtime = rs_time_realtime};
    struct rs_buf text = {0};
    struct rs_err err;
    struct stat before, after;
    rs_buf_string(&text, "{\"start_step\": 5, \"stop_step\": 6}");
    assert_ok(mindspore_write(&trigger, &site, &text, &err));
    assert_false(mindspore_was_replaced(&site));
    assert_int_equal(stat(site.path, &before), 0);
    assert_ok(
        mindspore_write(&trigger, &site, &text, &err)); /* at once: another time all the same */
    assert_int_equal(stat(site.path, &after), 0);
    assert_false(before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
                 before.st_mtim.tv_nsec / 1000000 == after.st_mtim.tv_nsec / 1000000);
    /* the same words by another collector are ours */
    assert_ok(rs_file_replace(site.path, text.data, text.length, false, NULL));
    assert_false(mindspore_was_replaced(&site));
    assert_ok(rs_file_replace(site.path, "{}", 2, false, NULL));
    assert_true(mindspore_was_replaced(&site));
    assert_int_equal(unlink(site.path), 0);
    assert_false(mindspore_was_replaced(&site)); /* nobody reads what is not there */
    rs_buf_fini(&text);
    rs_buf_fini(&site.written);
}

/* ---- the counter --------------------------------------------------------------------------------------------------- */

static rs_ns unix_now;

static rs_ns fake_realtime(void)
{
    return unix_now;
}

/* A capture of `count` steps of 15 ms, whose end is written `late`. */
static void record(struct mindspore_member *member, int64_t first, int64_t count, rs_dur late)
{
    static const rs_dur step_ns = 15 * (rs_dur)RS_NS_PER_MS;
    member->result.begun_ns = RS_NS_PER_S + first * step_ns;
    member->result.collected_ns = RS_NS_PER_S + (first + count) * step_ns + late;
    mindspore_remember_step(member, first, count, true);
}

/* The busy machine writes an end so much later, and the pace up to the next capture looks twice as fast as it is. Whoever believes it for ever has
 * every start refused. */
static void the_counter_is_never_believed_to_be_further_than_it_is(void **state)
{
    static const struct mindspore_trigger trigger = {.realtime = fake_realtime};
    static const rs_dur lates[] = {0, RS_NS_PER_S / 2, RS_NS_PER_S};
    (void)state;
    for (size_t l = 0; l < sizeof lates / sizeof *lates; l++) {
        struct mindspore_member member = {.step = -1};
        int64_t first = 100;
        for (size_t capture = 0; capture < 40; capture++) {
            record(&member, first, 1, capture % 2 == 0 ? lates[l] : 0);
            for (int64_t later = 0; later < 100000; later = later * 3 + 7) {
                const int64_t step = first + 1 + later;
                unix_now = RS_NS_PER_S + step * 15 * (rs_ns)RS_NS_PER_MS;
                assert_true(mindspore_step_at_least(&trigger, &member) <= step);
            }
            first += 70; /* a second, and a bit */
        }
        /* a minute on, it is known to within a tenth */
        unix_now = RS_NS_PER_S + (first + 4000) * 15 * (rs_ns)RS_NS_PER_MS;
        assert_true(mindspore_step_at_least(&trigger, &member) > first + 3200);
        /* the script trains once more, from step 0: what was measured before is of another run */
        record(&member, 5, 1, 0);
        assert_int_equal(mindspore_step_at_least(&trigger, &member), 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_lines_are_known_and_no_others),
        cmocka_unit_test(the_counter_is_never_believed_to_be_further_than_it_is),
        cmocka_unit_test(a_line_that_is_too_long_is_none),
        cmocka_unit_test(the_pair_is_read_from_half_a_file_too),
        cmocka_unit_test(the_two_ways_differ_by_one_step),
        cmocka_unit_test(names_are_read_from_the_right),
        cmocka_unit_test_setup_teardown(a_result_is_followed_from_its_folder_to_its_end, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(a_device_tells_the_way_and_its_end_in_profiler_info,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(between_captures_the_file_says_what_it_said, make_place,
                                        remove_place),
        cmocka_unit_test(a_time_at_the_end_of_days_is_borne),
        cmocka_unit_test_setup_teardown(a_file_that_another_replaced_is_noticed, make_place,
                                        remove_place),
    };
    return cmocka_run_group_tests_name("mindspore", tests, NULL, NULL);
}
