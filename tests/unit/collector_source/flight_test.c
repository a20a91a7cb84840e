/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flight recorder dumps: what a reader must get out of them, whole or cut, and whose they are.
 */
#include "collector/source/flight_priv.h"
#include "common/base/file.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- a dump in libtorch's form ---------------------------------------------------------------------------------- */

static void text(struct rs_buf *b, const char *t)
{
    rs_buf_u8(b, 'X');
    rs_buf_u32(b, (uint32_t)strlen(t));
    rs_buf_string(b, t);
}

static void number(struct rs_buf *b, int64_t n)
{
    rs_buf_u8(b, 0x8a);
    rs_buf_u8(b, 8);
    rs_buf_u64(b, (uint64_t)n);
}

static void pair(struct rs_buf *b, const char *key, int64_t n)
{
    text(b, key);
    number(b, n);
}

static void call(struct rs_buf *b, int64_t record, const char *name, int64_t size, bool done)
{
    rs_buf_string(b, "}(");
    text(b, "frames");
    rs_buf_string(b, "](}(");
    text(b, "name");
    text(b, "train_step");
    text(b, "filename");
    text(b, "train.py");
    pair(b, "line", 88);
    rs_buf_string(b, "ue");
    pair(b, "record_id", record);
    pair(b, "pg_id", 0);
    text(b, "process_group");
    text(b, "0");
    text(b, "default_pg");
    rs_buf_u8(b, 0x86);
    pair(b, "collective_seq_id", record + 1);
    pair(b, "p2p_seq_id", 0);
    text(b, "profiling_name");
    text(b, name);
    pair(b, "time_created_ns", 1000 + record);
    text(b, "input_sizes");
    rs_buf_string(b, "](](");
    number(b, size);
    number(b, 2);
    rs_buf_string(b, "ee");
    text(b, "state");
    text(b, done ? "completed" : "started");
    text(b, "a_field_of_tomorrow");
    rs_buf_u8(b, 'N');
    text(b, "retired");
    rs_buf_u8(b, done ? 0x88 : 0x89);
    rs_buf_u8(b, 'u');
}

static void dump(struct rs_buf *b, const char *version, int64_t first, int calls)
{
    rs_buf_u8(b, 0x80);
    rs_buf_u8(b, 2);
    rs_buf_string(b, "}(");
    text(b, "version");
    text(b, version);
    text(b, "pg_config");
    rs_buf_string(b, "}(");
    text(b, "0");
    rs_buf_string(b, "}(");
    text(b, "name");
    text(b, "0");
    text(b, "desc");
    text(b, "default_pg");
    text(b, "ranks");
    text(b, "[0, 1, 2, 3]");
    rs_buf_string(b, "uu");
    text(b, "entries");
    rs_buf_string(b, "](");
    for (int i = 0; i < calls; i++)
        call(b, first + i, "nccl:all_reduce", 16, i + 1 < calls);
    rs_buf_string(b, "eu.");
}

static enum rs_status read_bytes(const struct rs_buf *b, struct rs_flight_set *set,
                                 struct rs_err *err)
{
    struct rs_flight_reader *reader;
    assert_ok(rs_flight_set_init(set));
    assert_ok(rs_flight_reader_new(&reader));
    const enum rs_status status = rs_flight_read(reader, b->data, b->length, "test", set, err);
    rs_flight_reader_free(&reader);
    return status;
}

/* The same with the memo, as libtorch does it: a text is put at first sight and taken from there afterwards. */
static void memo_text(struct rs_buf *b, const char *t, bool is_first, uint8_t at)
{
    if (is_first) {
        text(b, t);
        rs_buf_u8(b, 'q');
    } else {
        rs_buf_u8(b, 'h');
    }
    rs_buf_u8(b, at);
}

static void memo_dump(struct rs_buf *b, int calls)
{
    static const char *const keys[] = {"record_id",         "pg_id",          "process_group",
                                       "collective_seq_id", "profiling_name", "time_created_ns",
                                       "input_sizes",       "input_dtypes",   "state",
                                       "retired",           "frames",         "tomorrow"};
    rs_buf_u8(b, 0x80);
    rs_buf_u8(b, 2);
    rs_buf_string(b, "}(");
    text(b, "version");
    text(b, "2.10");
    text(b, "entries");
    rs_buf_string(b, "](");
    for (int i = 0; i < calls; i++) {
        const bool first = i == 0;
        rs_buf_string(b, "}(");
        for (uint8_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            memo_text(b, keys[k], first, k);
            if (k == 2) {
                memo_text(b, "0", first, 20);
                memo_text(b, "default_pg", first, 21);
                rs_buf_u8(b, 0x86);
            } else if (k == 4) {
                memo_text(b, "nccl:all_reduce", first, 22);
            } else if (k == 5) {
                number(b, 1000 + i);
            } else if (k == 6) {
                rs_buf_string(b, "](](K");
                rs_buf_u8(b, (uint8_t)(4 + i % 3));
                rs_buf_string(b, "ee");
            } else if (k == 7) {
                rs_buf_string(b, "](");
                memo_text(b, "Float", first, 23);
                rs_buf_u8(b, 'e');
            } else if (k == 8) {
                memo_text(b, "completed", first, 24);
            } else if (k == 9) {
                rs_buf_u8(b, 0x88);
            } else if (k == 10) {
                rs_buf_string(b, "](");
                if (first) {
                    rs_buf_string(b, "}(");
                    text(b, "name");
                    text(b, "step");
                    rs_buf_string(b, "uq");
                    rs_buf_u8(b, 25);
                } else {
                    rs_buf_u8(b, 'h');
                    rs_buf_u8(b, 25);
                }
                rs_buf_u8(b, 'e');
            } else if (k == 11) {
                rs_buf_string(b, "](h");
                rs_buf_u8(b, i == calls / 2 ? 20 : 21);
                rs_buf_u8(b, 'e');
            } else { /* numbers */
                rs_buf_u8(b, 'K');
                rs_buf_u8(b, k == 1 ? 0 : (uint8_t)i);
            }
        }
        rs_buf_u8(b, 'u');
    }
    rs_buf_string(b, "eu.");
}

static enum rs_status read_way(const uint8_t *bytes, size_t length, bool is_eager,
                               struct rs_flight_set *set, struct rs_err *err)
{
    struct rs_flight_reader *reader;
    *err = (struct rs_err){0};
    assert_ok(rs_flight_set_init(set));
    assert_ok(rs_flight_reader_new(&reader));
    reader->is_eager = is_eager;
    const enum rs_status status = rs_flight_read(reader, bytes, length, "test", set, err);
    rs_flight_reader_free(&reader);
    return status;
}

static void calls_told_from_their_bytes_are_the_same(void **state)
{
    (void)state;
    struct rs_buf b = {0};
    struct rs_flight_set set;
    struct rs_err err;
    memo_dump(&b, 20);
    assert_ok(read_way(b.data, b.length, false, &set, &err));
    assert_int_equal(set.entry_count, 20);
    for (int i = 0; i < 20; i++) {
        const struct rs_flight_entry *entry = &set.entries[i];
        assert_int_equal(entry->record_id, i);
        assert_int_equal(entry->seq, i);
        assert_int_equal(entry->created_ns, 1000 + i);
        assert_int_equal(entry->in_numel, 4 + i % 3);
        assert_int_equal(entry->op, RS_FLIGHT_ALL_REDUCE);
        assert_int_equal(entry->state, RS_FLIGHT_COMPLETED);
        assert_int_equal(entry->group, 0);
        assert_string_equal(rs_strtab_text(&set.strings, entry->dtypes), "Float");
        assert_string_equal(rs_strtab_text(&set.strings, entry->frames), "step ()");
    }
    rs_flight_set_fini(&set);
    rs_buf_fini(&b);
}

/* Cut anywhere, and with any byte another one: what comes out, and the sentence of what is wrong, does not depend on the way. */
static void both_ways_refuse_the_same(void **state)
{
    (void)state;
    struct rs_buf b = {0};
    memo_dump(&b, 6);
    for (size_t i = 0; i < 4 * b.length; i++) {
        static const uint8_t other[] = {'h', 'u', 0xff};
        struct rs_flight_set sets[2];
        struct rs_err errs[2];
        enum rs_status said[2];
        const size_t at = i % b.length, way = i / b.length;
        const uint8_t kept = b.data[at];
        if (way)
            b.data[at] = other[way - 1];
        for (int k = 0; k < 2; k++)
            said[k] = read_way(b.data, way ? b.length : at, k, &sets[k], &errs[k]);
        b.data[at] = kept;
        assert_int_equal(said[0], said[1]);
        assert_string_equal(errs[0].text, errs[1].text);
        assert_int_equal(sets[0].entry_count, sets[1].entry_count);
        for (size_t e = 0; e < sets[0].entry_count; e++) {
            assert_int_equal(sets[0].entries[e].seq, sets[1].entries[e].seq);
            assert_int_equal(sets[0].entries[e].in_numel, sets[1].entries[e].in_numel);
            assert_int_equal(sets[0].entries[e].created_ns, sets[1].entries[e].created_ns);
        }
        for (int k = 0; k < 2; k++)
            rs_flight_set_fini(&sets[k]);
    }
    rs_buf_fini(&b);
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static void calls_groups_and_frames_are_read(void **state)
{
    (void)state;
    struct rs_buf b = {0};
    struct rs_flight_set set;
    struct rs_err err = {0};
    dump(&b, "2.10", 500, 3);
    assert_ok(read_bytes(&b, &set, &err));
    assert_int_equal(set.entry_count, 3);
    assert_int_equal(set.dumps[0].dropped, 500);
    assert_int_equal(set.dumps[0].group_count, 1);
    assert_int_equal(set.dumps[0].groups[0].rank_count, 4);
    const struct rs_flight_entry *last = &set.entries[2];
    assert_int_equal(last->op, RS_FLIGHT_ALL_REDUCE);
    assert_int_equal(last->seq, 503);
    assert_int_equal(last->in_numel, 32);
    assert_int_equal(last->state, RS_FLIGHT_STARTED);
    assert_string_equal(rs_strtab_text(&set.strings, last->sizes), "[16, 2]");
    assert_string_equal(rs_strtab_text(&set.strings, last->frames), "train_step (train.py:88)");
    assert_string_equal(rs_strtab_text(&set.strings, set.dumps[0].backend), "nccl");
    rs_flight_set_fini(&set);
    rs_buf_fini(&b);
}

static void a_dump_cut_anywhere_gives_the_calls_that_are_whole(void **state)
{
    (void)state;
    struct rs_buf b = {0};
    dump(&b, "2.10", 0, 4);
    const size_t length = b.length;
    size_t before = 0;
    for (size_t cut = 3; cut < length; cut++) {
        struct rs_flight_set set;
        struct rs_err err = {0};
        b.length = cut;
        const enum rs_status status = read_bytes(&b, &set, &err);
        assert_true(status == RS_PARTIAL || status == RS_NOTFOUND);
        assert_true(set.entry_count >= before);
        before = set.entry_count;
        if (status == RS_PARTIAL)
            assert_non_null(set.dumps[0].problem);
        rs_flight_set_fini(&set);
    }
    assert_int_equal(before, 4);
    rs_buf_fini(&b);
}

static void formats_beyond_ours_are_refused_and_leave_nothing(void **state)
{
    (void)state;
    struct rs_buf b = {0};
    struct rs_flight_set set;
    struct rs_err err = {0};
    dump(&b, "3.0", 0, 2);
    assert_status(read_bytes(&b, &set, &err), RS_VERSION);
    assert_int_equal(set.dump_count, 0);
    assert_int_equal(set.entry_count, 0);
    rs_flight_set_fini(&set);
    rs_buf_fini(&b);
}

static const char json[] =
    "{\"version\": \"2.10\", \"pg_config\": {\"\": {\"name\": \"\", \"desc\": \"\", \"ranks\": \"[0, 1]\"}},"
    "\"pg_status\": {\"0\": {\"last_enqueued_collective\": \"21\"}}, \"entries\": ["
    "{\"record_id\": 0, \"pg_id\": 0, \"process_group\": [\"0\", \"default_pg\"], \"collective_seq_id\": 1,"
    "\"profiling_name\": \"gloo:all_reduce\", \"time_created_ns\": 5, \"input_sizes\": [[16]], \"state\": \"scheduled\","
    "\"retired\": true, \"time_discovered_completed_ns\": 0},"
    "{\"record_id\": 1, \"pg_id\": 0, \"process_group\": [\"0\", \"default_pg\"], \"collective_seq_id\": 2,"
    "\"profiling_name\": \"gloo:all_reduce\", \"time_created_ns\": 6, \"input_sizes\": [[16]], \"state\": \"scheduled\","
    "\"retired\": false, \"time_discovered_completed_ns\": 0}]}";

static void gloos_json_is_read_as_it_is(void **state)
{
    (void)state;
    struct rs_buf b = {0};
    struct rs_flight_set set;
    struct rs_err err = {0};
    rs_buf_string(&b, json);
    assert_ok(read_bytes(&b, &set, &err));
    assert_int_equal(set.entry_count, 2);
    assert_true(set.dumps[0].is_half_blind);
    assert_true(rs_flight_is_done(&set.dumps[0], &set.entries[0]));
    assert_false(rs_flight_is_done(&set.dumps[0], &set.entries[1]));
    assert_true(set.entries[0].completed_ns == RS_FLIGHT_UNKNOWN);
    assert_int_equal(set.dumps[0].groups[set.entries[0].group].last_enqueued, 21);
    rs_flight_set_fini(&set);
    b.length -= 20; /* in the middle of the second call */
    assert_status(read_bytes(&b, &set, &err), RS_PARTIAL);
    assert_int_equal(set.entry_count, 1);
    rs_flight_set_fini(&set);
    rs_buf_fini(&b);
}

/* --- names ------------------------------------------------------------------------------------------------------ */

static void put_file(const char *dir, const char *name, const void *data, size_t length)
{
    struct rs_err err = {0};
    char *path = rs_file_join(dir, name);
    assert_ok(rs_file_replace(path, data, length, false, &err));
    free(path);
}

static enum rs_status find_one(const char *name, const char *pattern, struct rs_flight_set *set,
                               struct rs_flight_found *found, struct rs_err *err)
{
    struct rs_buf b = {0};
    char dir[64];
    dump(&b, "2.10", 0, 2);
    tmp_dir_make(dir);
    put_file(dir, name, b.data, b.length);
    rs_buf_fini(&b);
    const char *paths[] = {dir};
    const struct rs_flight_find_options options = {.rank_from = &pattern,
                                                   .rank_from_count = pattern != NULL};
    assert_ok(rs_flight_set_init(set));
    const enum rs_status status = rs_flight_find(paths, 1, &options, set, found, err);
    tmp_dir_remove(dir);
    return status;
}

static void the_rank_stands_in_the_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *pattern;
        int32_t rank; /* -1: refused */
    } cases[] = {{"comm_lib_trace_rank_3", NULL, 3},
                 {"nccl_trace_rank_0", NULL, 0},
                 {"trace_node-17_2", NULL, 2},
                 {"trace_node-17_2.pickle", NULL, 2},
                 {"dump_n4r1", "r", 1},
                 {"node17x3", NULL, 3},
                 {"tracenode173", NULL, -1},
                 {"my_dump", NULL, -1},
                 {"gpu2-host9.pickle", "gpu*-host", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rs_flight_set set;
        struct rs_flight_found found;
        struct rs_err err = {0};
        const enum rs_status status = find_one(cases[i].name, cases[i].pattern, &set, &found, &err);
        if (cases[i].rank < 0) {
            assert_status(status, RS_INVALID);
            assert_non_null(strstr(err.text, "--rank-from"));
        } else {
            assert_ok(status);
            assert_int_equal(set.dumps[0].rank, cases[i].rank);
        }
        rs_flight_set_fini(&set);
    }
}

/* What a name says to be a rank's dump is a damaged one when its bytes are nothing; a stranger's file is passed over. */
static void a_damaged_dump_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *bytes;
        size_t failed;
    } cases[] = {{"comm_lib_trace_rank_7", "\x17\x99 no dump at all", 1},
                 {"nccl_trace_rank_7", "\x80\x02K\x07.", 1},
                 {"trace_rank_7.json", "{\"traceEvents\": []}", 0},
                 {"trace_rank_7.json", "[1, 2]", 0},
                 {"loss_7", "\x17\x99 another's file", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[64];
        tmp_dir_make(folder);
        const char *const paths[] = {folder};
        struct rs_flight_set set;
        struct rs_flight_found found;
        struct rs_err err = {0};
        put_file(folder, cases[i].name, (const uint8_t *)cases[i].bytes, strlen(cases[i].bytes));
        assert_ok(rs_flight_set_init(&set));
        const enum rs_status status = rs_flight_find(paths, 1, NULL, &set, &found, &err);
        assert_int_equal(found.failed, cases[i].failed);
        assert_int_equal(found.skipped, 1 - cases[i].failed);
        assert_status(status, cases[i].failed ? RS_PARTIAL : RS_OK);
        assert_int_equal(set.note_count, cases[i].failed);
        if (cases[i].failed) {
            assert_non_null(strstr(set.notes[0], cases[i].name));
            assert_non_null(strstr(set.notes[0], "damaged"));
        }
        rs_flight_set_fini(&set);
        tmp_dir_remove(folder);
    }
}

static void ncclras_is_a_witness(void **state)
{
    (void)state;
    static const char ras[] =
        "{\"nccl_version\": \"2.29\", \"communicators\": [{\"hash\": \"0xab\", \"size\": 4, \"ranks\": ["
        "{\"rank\": 0, \"host\": \"n0\", \"status\": {\"async_error\": \"ncclSuccess\"}, \"collective_counts\": "
        "{\"AllReduce\": 10}}], \"missing_ranks\": [{\"rank\": 3, \"host\": \"n1\", \"considered_dead\": true}]}]}";
    struct rs_flight_set set;
    struct rs_err err = {0};
    assert_ok(rs_flight_set_init(&set));
    assert_ok(rs_flight_read_witness(ras, sizeof ras - 1, "ras.json", &set, &err));
    assert_int_equal(set.witness_count, 2);
    assert_int_equal(set.witnesses[0].count, 10);
    assert_int_equal(set.witnesses[0].error, RS_STR_EMPTY);
    assert_true(set.witnesses[1].is_missing && set.witnesses[1].is_dead);
    rs_flight_set_fini(&set);
}

static void inspectors_last_number_of_a_rank_counts(void **state)
{
    (void)state;
    static const char log[] =
        "{\"header\": {\"id\": \"0x1\", \"rank\": 2, \"n_ranks\": 4}, \"metadata\": {\"hostname\": \"n0\", "
        "\"dump_timestamp_us\": 7}, \"coll_perf\": {\"coll\": \"AllReduce\", \"coll_sn\": 8}}\n"
        "{\"header\": {\"id\": \"0x1\", \"rank\": 2, \"n_ranks\": 4}, \"coll_perf\": {\"coll\": \"AllReduce\", \"coll_sn\": 9}}\n"
        "{\"header\": {\"id\": \"0x1\", \"ra";
    struct rs_flight_set set;
    struct rs_err err = {0};
    assert_ok(rs_flight_set_init(&set));
    assert_ok(rs_flight_read_witness(log, sizeof log - 1, "a.log", &set, &err));
    assert_int_equal(set.witness_count, 1);
    assert_int_equal(set.witnesses[0].count, 9);
    assert_int_equal(set.witnesses[0].at_ns, 7000);
    rs_flight_set_fini(&set);
}

static void names_of_calls_are_split_at_the_last_colon(void **state)
{
    (void)state;
    const char recv[] = "nccl:recv 3<-0", oop[] = "nccl:_reduce_scatter_base",
               group[] = "nccl:all_gather:coalesced";
    struct rs_flight_name name = rs_flight_name_read(recv, sizeof recv - 1);
    assert_int_equal(name.op, RS_FLIGHT_RECV);
    assert_int_equal(name.src, 0);
    assert_int_equal(name.dst, 3);
    name = rs_flight_name_read(oop, sizeof oop - 1);
    assert_int_equal(name.op, RS_FLIGHT_REDUCE_SCATTER);
    name = rs_flight_name_read(group, sizeof group - 1);
    assert_int_equal(name.op, RS_FLIGHT_COALESCED);
    assert_int_equal(name.backend_length, 4);
    name = rs_flight_name_read("gloo:recv 3<-?", 14);
    assert_int_equal(name.src, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_groups_and_frames_are_read),
        cmocka_unit_test(calls_told_from_their_bytes_are_the_same),
        cmocka_unit_test(both_ways_refuse_the_same),
        cmocka_unit_test(a_dump_cut_anywhere_gives_the_calls_that_are_whole),
        cmocka_unit_test(formats_beyond_ours_are_refused_and_leave_nothing),
        cmocka_unit_test(gloos_json_is_read_as_it_is),
        cmocka_unit_test(the_rank_stands_in_the_name),
        cmocka_unit_test(a_damaged_dump_is_named),
        cmocka_unit_test(ncclras_is_a_witness),
        cmocka_unit_test(inspectors_last_number_of_a_rank_counts),
        cmocka_unit_test(names_of_calls_are_split_at_the_last_colon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
