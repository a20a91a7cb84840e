/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/rs_test.h"
/**/
#include "collector/source/discover.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static int make_root(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/rs_discover_XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *about, int flag, struct FTW *walk)
{
    (void)about;
    (void)flag;
    (void)walk;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    char folder[256];
    (void)snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_ok(rs_file_make_dirs(folder, 0700, NULL));
    assert_ok(rs_file_replace(path, text, strlen(text), false, NULL));
}

#define TRACE_TEXT "{\"schemaVersion\": 1, \"traceEvents\": []}"

static struct rs_inputs found(const char *map_name)
{
    struct rs_inputs inputs = {0};
    char map[256];
    (void)snprintf(map, sizeof map, "%s/%s", root, map_name ? map_name : "");
    const struct rs_discover_options options = {.rank_map_path = map_name ? map : NULL};
    const char *const paths[] = {root};
    struct rs_err err = {0};
    const enum rs_status status = rs_discover(paths, 1, &options, &inputs, &err);
    if (status != RS_OK)
        print_error("%s\n", err.text);
    assert_int_equal(status, RS_OK);
    return inputs;
}

static struct rs_input *input_of(struct rs_inputs *inputs, const char *relative)
{
    for (size_t i = 0; i < inputs->count; i++) {
        if (strcmp(inputs->items[i].relative, relative) == 0)
            return &inputs->items[i];
    }
    print_error("no input %s\n", relative);
    fail();
    return NULL;
}

static bool was_reported(const struct rs_inputs *inputs, const char *part)
{
    for (size_t i = 0; i < inputs->note_count; i++) {
        if (strstr(inputs->notes[i], part))
            return true;
    }
    return false;
}

struct reading {
    int32_t rank, world;
    int64_t events;
    rs_ns first, last;
};

static void record(struct rs_input *input, struct reading reading)
{
    struct rs_strtab strings;
    struct rs_trace_info info;
    assert_ok(rs_strtab_init(&strings, 0));
    rs_trace_info_init(&info);
    info.rank = reading.rank;
    info.world_size = reading.world;
    info.events_read = reading.events;
    info.has_time_base = true;
    info.base_ns = 1000;
    const struct rs_input_result result = {.status = RS_OK,
                                           .info = &info,
                                           .strings = &strings,
                                           .first = reading.first,
                                           .last = reading.last};
    assert_ok(rs_input_record(input, &result));
    rs_trace_info_fini(&info);
    rs_strtab_fini(&strings);
}

static void names_give_ranks_and_bare_numbers_do_not(void **state)
{
    static const struct {
        const char *name;
        int32_t rank;
    } cases[] = {
        {"rank0.pt.trace.json.gz", 0},
        {"worker7_step_12.1694128201553.pt.trace.json", 7},
        {"trace_rank-12.json", 12},
        {"rank_003.json", 3},
        {"a100-nccl-rank0of2.json.gz", 0},
        {"cpu-gloo-rank34of300.json.gz", 34},
        {"Device5.json", 5},
        {"device2_rank9.json", 9},
        {"rank3/rank_4.json", 4},
        {"rank1_rank2.json", -1},
        {"rank2_rank2.json", 2},
        {"trace_6575.json", -1},
        {"frank3.json", -1},
        {"rank__3.json", -1},
        {"rank.json", -1},
        {"rank12345678901.json", -1},
        {"1694128201553.json", -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int32_t rank = rs_rank_of_name(cases[i].name, NULL, 0);
        if (rank != cases[i].rank)
            print_error("%s\n", cases[i].name);
        assert_int_equal(rank, cases[i].rank);
    }
    static const char *const patterns[] = {"node-", "host*-gpu"};
    assert_int_equal(rs_rank_of_name("node-17.json", patterns, 2), 17);
    assert_int_equal(rs_rank_of_name("node-17/trace.json", patterns, 2), 17);
    assert_int_equal(rs_rank_of_name("host4-gpu.json", patterns, 2), 4);
    assert_int_equal(rs_rank_of_name("host4-cpu.json", patterns, 2), -1);
    assert_int_equal(rs_rank_of_name("node-3_rank5.json", patterns, 2), 3);
}

static void a_folder_is_searched_and_what_is_no_profile_is_skipped(void **state)
{
    (void)state;
    put("b/trace_1.json", TRACE_TEXT);
    put("a.json", TRACE_TEXT);
    put("ranks.json", "{\"trace_1.json\": 3}");
    put("train.log", "step 1\n");
    put("rank5.json.tmp", "");
    put("1/2/3/4/5/6/7/8/in.json", TRACE_TEXT);
    put("1/2/3/4/5/6/7/8/9/out.json", TRACE_TEXT);
    char link[256];
    (void)snprintf(link, sizeof link, "%s/link", root);
    assert_int_equal(symlink(".", link), 0);
    struct rs_inputs inputs = found("ranks.json");
    assert_int_equal(inputs.count, 6);
    assert_int_equal(input_of(&inputs, "a.json")->state, RS_INPUT_CANDIDATE);
    assert_int_equal(input_of(&inputs, "1/2/3/4/5/6/7/8/in.json")->state, RS_INPUT_CANDIDATE);
    assert_int_equal(input_of(&inputs, "rank5.json.tmp")->state, RS_INPUT_CANDIDATE);
    assert_int_equal(input_of(&inputs, "ranks.json")->state, RS_INPUT_SKIPPED);
    assert_int_equal(input_of(&inputs, "train.log")->state, RS_INPUT_SKIPPED);
    assert_non_null(input_of(&inputs, "train.log")->reason);
    const struct rs_input *mapped = input_of(&inputs, "b/trace_1.json");
    assert_int_equal(mapped->rank, 3);
    assert_int_equal(mapped->rank_source, RS_RANK_MAP);
    assert_string_equal(mapped->name, "trace_1.json");
    assert_true(was_reported(&inputs, "deeper than 8 folders"));
    rs_inputs_fini(&inputs);
}

static void null_in_the_map_is_no_rank(void **state)
{
    (void)state;
    put("trace_1.json", TRACE_TEXT);
    put("map.json", "{\"trace_1.json\": null, \"elsewhere.json\": 1}");
    struct rs_inputs inputs = found("map.json");
    assert_int_equal(input_of(&inputs, "trace_1.json")->state, RS_INPUT_SKIPPED);
    assert_true(was_reported(&inputs, "1 of its 2 lines"));
    rs_inputs_fini(&inputs);
}

static void a_bad_map_or_path_is_refused(void **state)
{
    static const char *const maps[] = {"[1]", "{\"a\": -1}", "{\"a\": \"0\"}", "{\"a\": 1", ""};
    (void)state;
    char map[256];
    (void)snprintf(map, sizeof map, "%s/map.json", root);
    const char *const paths[] = {root};
    const struct rs_discover_options options = {.rank_map_path = map};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        put("map.json", maps[i]);
        struct rs_inputs inputs = {0};
        struct rs_err err = {0};
        assert_status(rs_discover(paths, 1, &options, &inputs, &err), RS_INVALID);
        assert_non_null(strstr(err.text, "map.json"));
    }
    struct rs_inputs inputs = {0};
    const char *const missing[] = {"/nowhere/at/all"};
    assert_status(rs_discover(missing, 1, NULL, &inputs, NULL), RS_NOTFOUND);
    static const char *const pattern[] = {"a*b*c"};
    const struct rs_discover_options bad = {.rank_from = pattern, .rank_from_count = 1};
    assert_status(rs_discover(paths, 1, &bad, &inputs, NULL), RS_INVALID);
}

static void the_map_wins_over_metadata_and_metadata_over_the_name(void **state)
{
    (void)state;
    put("rank1.json", TRACE_TEXT);
    put("rank2.json", TRACE_TEXT);
    put("rank3.json", TRACE_TEXT);
    put("map.json", "{\"rank1.json\": 10}");
    struct rs_inputs inputs = found("map.json");
    record(input_of(&inputs, "rank1.json"), (struct reading){20, 30, 5, 0, 9});
    record(input_of(&inputs, "rank2.json"), (struct reading){21, 30, 5, 0, 9});
    record(input_of(&inputs, "rank3.json"), (struct reading){-1, -1, 5, 0, 9});
    assert_ok(rs_inputs_resolve(&inputs, NULL));
    assert_int_equal(input_of(&inputs, "rank1.json")->rank, 10);
    assert_int_equal(input_of(&inputs, "rank1.json")->rank_source, RS_RANK_MAP);
    assert_int_equal(input_of(&inputs, "rank2.json")->rank, 21);
    assert_int_equal(input_of(&inputs, "rank2.json")->rank_source, RS_RANK_METADATA);
    assert_int_equal(input_of(&inputs, "rank3.json")->rank, 3);
    assert_int_equal(input_of(&inputs, "rank3.json")->rank_source, RS_RANK_NAME);
    assert_true(was_reported(&inputs, "27 of 30 ranks are missing: 0-2, 4-9, 11-20, 22-29"));
    rs_inputs_fini(&inputs);
}

static void an_only_input_is_taken_for_rank_0_and_reported(void **state)
{
    (void)state;
    put("trace_1.json", TRACE_TEXT);
    put("trace_2.json", TRACE_TEXT);
    struct rs_inputs inputs = found(NULL);
    record(input_of(&inputs, "trace_1.json"), (struct reading){-1, -1, 5, 0, 9});
    record(input_of(&inputs, "trace_2.json"), (struct reading){-1, -1, 0, 0, 0});
    assert_ok(rs_inputs_resolve(&inputs, NULL));
    const struct rs_input *one = input_of(&inputs, "trace_1.json");
    assert_int_equal(one->rank, 0);
    assert_int_equal(one->rank_source, RS_RANK_ASSUMED);
    assert_int_equal(one->first_ns, 1000);
    assert_true(was_reported(&inputs, "taken for rank 0"));
    assert_int_equal(input_of(&inputs, "trace_2.json")->state, RS_INPUT_SKIPPED);
    assert_true(was_reported(&inputs, "trace_2.json has no events"));
    rs_inputs_fini(&inputs);
}

static void two_inputs_without_rank_are_an_error_that_says_what_to_give(void **state)
{
    (void)state;
    put("trace_1.json", TRACE_TEXT);
    put("trace_2.json", TRACE_TEXT);
    struct rs_inputs inputs = found(NULL);
    struct rs_err err = {0};
    record(input_of(&inputs, "trace_1.json"), (struct reading){-1, -1, 5, 0, 9});
    record(input_of(&inputs, "trace_2.json"), (struct reading){-1, -1, 5, 0, 9});
    assert_status(rs_inputs_resolve(&inputs, &err), RS_INVALID);
    assert_non_null(strstr(err.text, "trace_1.json"));
    assert_non_null(strstr(err.text, "--rank-map"));
    assert_non_null(strstr(err.text, "--rank-from"));
    rs_inputs_fini(&inputs);
}

static void
disjoint_files_of_a_rank_are_cycles_and_of_overlapping_ones_the_newest_stays(void **state)
{
    (void)state;
    put("rank0_a.json", TRACE_TEXT);
    put("rank0_b.json", TRACE_TEXT);
    put("rank0_c.json", TRACE_TEXT);
    put("rank1.json", TRACE_TEXT);
    struct rs_inputs inputs = found(NULL);
    record(input_of(&inputs, "rank0_a.json"), (struct reading){-1, 2, 5, 500, 600});
    record(input_of(&inputs, "rank0_b.json"), (struct reading){-1, 2, 5, 100, 200});
    record(input_of(&inputs, "rank0_c.json"), (struct reading){-1, 2, 5, 550, 700});
    record(input_of(&inputs, "rank1.json"), (struct reading){-1, 4, 5, 0, 900});
    assert_ok(rs_inputs_resolve(&inputs, NULL));
    assert_int_equal(input_of(&inputs, "rank0_b.json")->cycle, 0);
    assert_int_equal(input_of(&inputs, "rank0_c.json")->cycle, 1);
    assert_int_equal(input_of(&inputs, "rank0_c.json")->state, RS_INPUT_WHOLE);
    assert_int_equal(input_of(&inputs, "rank0_a.json")->state, RS_INPUT_SKIPPED);
    assert_true(was_reported(&inputs, "overlap in time"));
    assert_true(was_reported(&inputs, "world size: 2 and 4") ||
                was_reported(&inputs, "world size: 4 and 2"));
    assert_true(was_reported(&inputs, "2 of 4 ranks are missing: 2-3"));
    rs_inputs_fini(&inputs);
}

static void a_failed_input_is_its_own_error_only(void **state)
{
    (void)state;
    put("rank0.json", TRACE_TEXT);
    put("rank1.json", TRACE_TEXT);
    struct rs_inputs inputs = found(NULL);
    struct rs_err failure = {0};
    (void)rs_err_set(&failure, RS_IO, "the disk is gone");
    const struct rs_input_result result = {.status = RS_IO, .failure = &failure};
    assert_ok(rs_input_record(input_of(&inputs, "rank1.json"), &result));
    record(input_of(&inputs, "rank0.json"), (struct reading){0, 2, 5, 0, 9});
    assert_ok(rs_inputs_resolve(&inputs, NULL));
    assert_int_equal(input_of(&inputs, "rank1.json")->state, RS_INPUT_FAILED);
    assert_string_equal(input_of(&inputs, "rank1.json")->reason, "the disk is gone");
    assert_true(was_reported(&inputs, "1 of 2 ranks are missing: 1"));
    rs_inputs_fini(&inputs);
}

static long allocations_left;
static bool count_down(void)
{
    return allocations_left-- > 0;
}

static void without_memory_it_says_so_and_leaks_nothing(void **state)
{
    (void)state;
    put("rank0.json", TRACE_TEXT);
    put("b/rank1.json", TRACE_TEXT);
    put("map.json", "{\"rank0.json\": null}");
    char map[256];
    (void)snprintf(map, sizeof map, "%s/map.json", root);
    static const char *const patterns[] = {"node"};
    const struct rs_discover_options options = {
        .rank_map_path = map, .rank_from = patterns, .rank_from_count = 1};
    const char *const paths[] = {root};
    for (long k = 0;; k++) {
        struct rs_inputs inputs = {0};
        allocations_left = k;
        rs_mem_set_gate(count_down);
        const enum rs_status status = rs_discover(paths, 1, &options, &inputs, NULL);
        rs_mem_set_gate(NULL);
        rs_inputs_fini(&inputs);
        if (status == RS_OK)
            break;
        assert_status(status, RS_NOMEM);
        assert_true(k < 1000);
    }
}

#define IN_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_give_ranks_and_bare_numbers_do_not),
        IN_ROOT(a_folder_is_searched_and_what_is_no_profile_is_skipped),
        IN_ROOT(null_in_the_map_is_no_rank),
        IN_ROOT(a_bad_map_or_path_is_refused),
        IN_ROOT(the_map_wins_over_metadata_and_metadata_over_the_name),
        IN_ROOT(an_only_input_is_taken_for_rank_0_and_reported),
        IN_ROOT(two_inputs_without_rank_are_an_error_that_says_what_to_give),
        IN_ROOT(disjoint_files_of_a_rank_are_cycles_and_of_overlapping_ones_the_newest_stays),
        IN_ROOT(a_failed_input_is_its_own_error_only),
        IN_ROOT(without_memory_it_says_so_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
