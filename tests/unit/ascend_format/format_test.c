/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery and read-only databases, on trees and databases that the test makes itself.
 */
#include "ascend/format/format.h"

#include "ascend/format/db.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <sqlite3.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/rs-vendor-XXXXXX";

static const char *at(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

static void make_dirs(const char *name)
{
    assert_ok(rs_file_make_dirs(at(name), 0755, NULL));
}

static void make_file(const char *name, const char *text)
{
    assert_ok(rs_file_replace(at(name), text, strlen(text), false, NULL));
}

static void make_db(const char *name, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(at(name), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void find(const char *name, struct rs_ascend_list *list)
{
    const char *paths[] = {at(name)};
    assert_ok(rs_ascend_discover(paths, 1, list, NULL));
}

static bool has_note(const struct rs_ascend_list *list, enum rs_ascend_note_kind kind,
                     const char *path_part, const char *text_part)
{
    for (size_t i = 0; i < list->note_count; i++)
        if (list->notes[i].kind == kind && strstr(list->notes[i].path, path_part) &&
            strstr(list->notes[i].text, text_part))
            return true;
    return false;
}

#define INFO_ENDED "{\"rank_id\": \"3\", \"end_info\": {\"x\": 1}, \"cann_version\": \"8.3.RC1\"}"

static void rank_comes_from_info_then_database_then_map(void **state)
{
    (void)state;
    make_dirs("rank/a_1_20250615110640001_ascend_pt/ASCEND_PROFILER_OUTPUT");
    make_file("rank/a_1_20250615110640001_ascend_pt/profiler_info_3.json", INFO_ENDED);
    make_db(
        "rank/a_1_20250615110640001_ascend_pt/ASCEND_PROFILER_OUTPUT/"
        "ascend_pytorch_profiler_3.db",
        "CREATE TABLE RANK_DEVICE_MAP (rankId, deviceId); INSERT INTO RANK_DEVICE_MAP VALUES(3,5)");
    make_dirs("rank/b_2_20250615110640002_ascend_pt/ASCEND_PROFILER_OUTPUT");
    make_db("rank/b_2_20250615110640002_ascend_pt/ASCEND_PROFILER_OUTPUT/"
            "ascend_pytorch_profiler_4.db",
            "CREATE TABLE T (x)");
    make_dirs("rank/c_3_20250615110640003_ascend_pt/ASCEND_PROFILER_OUTPUT");
    make_file("rank/c_3_20250615110640003_ascend_pt/profiler_info.json", "{\"end_info\": {}}");
    make_db(
        "rank/c_3_20250615110640003_ascend_pt/ASCEND_PROFILER_OUTPUT/"
        "ascend_pytorch_profiler.db",
        "CREATE TABLE RANK_DEVICE_MAP (rankId, deviceId); INSERT INTO RANK_DEVICE_MAP VALUES(7,1)");
    make_file("rank/planted.json", "{}");
    struct rs_ascend_list list;
    find("rank", &list);
    assert_int_equal(list.count, 3);
    assert_int_equal(list.ranks[0].rank, 3);
    assert_string_equal(list.ranks[0].source, "profiler_info");
    assert_string_equal(list.ranks[0].cann_version, "8.3.RC1");
    assert_int_equal(list.ranks[0].stamp, 20250615110640001);
    assert_int_equal(list.ranks[0].state, RS_ASCEND_FINISHED);
    assert_int_equal(list.ranks[1].rank, 4);
    assert_string_equal(list.ranks[1].source, "database name");
    assert_int_equal(list.ranks[2].rank, 7);
    assert_string_equal(list.ranks[2].source, "RANK_DEVICE_MAP");
    struct rs_ascend_db *db = NULL;
    int64_t rank = 0, device = 0;
    assert_ok(rs_ascend_db_open(list.ranks[0].profiler_db, &db, NULL));
    assert_ok(rs_ascend_db_rank(db, &rank, &device, NULL));
    assert_int_equal(device, 5); /* a rank is not a device */
    rs_ascend_db_close(&db);
    rs_ascend_list_fini(&list);
}

static void newest_directory_of_a_rank_wins_and_the_other_is_reported(void **state)
{
    (void)state;
    for (int i = 1; i <= 2; i++) {
        char name[200];
        (void)snprintf(name, sizeof name,
                       "twice/host_x_1_2025061511064000%d_ascend_pt/ASCEND_PROFILER_OUTPUT", i);
        make_dirs(name);
        (void)snprintf(name, sizeof name,
                       "twice/host_x_1_2025061511064000%d_ascend_pt/profiler_info_3.json", i);
        make_file(name, INFO_ENDED);
        (void)snprintf(name, sizeof name,
                       "twice/host_x_1_2025061511064000%d_ascend_pt/ASCEND_PROFILER_OUTPUT/"
                       "step_trace_time.csv",
                       i);
        make_file(name, "Step\n");
    }
    struct rs_ascend_list list;
    find("twice", &list);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.ranks[0].stamp, 20250615110640002);
    assert_int_equal(list.ranks[0].forms, RS_ASCEND_F_TEXT);
    assert_true(has_note(&list, RS_ASCEND_NOTE_DUPLICATE, "20250615110640001", "rank 3"));
    rs_ascend_list_fini(&list);
}

static void unparsed_and_unfinished_are_told_apart(void **state)
{
    (void)state;
    make_dirs("states/raw_1_20250615110640001_ascend_pt/PROF_000001_2025_ABC");
    make_file("states/raw_1_20250615110640001_ascend_pt/profiler_info_0.json", INFO_ENDED);
    make_dirs("states/going_1_20250615110640001_ascend_pt/PROF_000001_2025_ABC");
    make_dirs("states/open_1_20250615110640001_ascend_pt/ASCEND_PROFILER_OUTPUT");
    make_file("states/open_1_20250615110640001_ascend_pt/profiler_info_2.json", "{\"rank_id\": 2}");
    make_file("states/open_1_20250615110640001_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json",
              "[");
    make_dirs("states/ms_1_20250615110640001_ascend_ms/ASCEND_PROFILER_OUTPUT");
    make_file("states/ms_1_20250615110640001_ascend_ms/profiler_info_5.json",
              "{\"ms_profiler_info\": {}, \"ms_version\": \"2.7\"}");
    make_file("states/ms_1_20250615110640001_ascend_ms/ASCEND_PROFILER_OUTPUT/trace_view.json",
              "[]");
    struct rs_ascend_list list;
    find("states", &list);
    assert_int_equal(list.count, 4);
    assert_int_equal(list.ranks[0].rank, RS_ASCEND_NO_RANK);
    assert_int_equal(list.ranks[0].state, RS_ASCEND_UNFINISHED);
    assert_int_equal(list.ranks[1].state, RS_ASCEND_UNPARSED);
    assert_int_equal(list.ranks[2].state, RS_ASCEND_UNFINISHED);
    assert_int_equal(list.ranks[3].framework, RS_ASCEND_MINDSPORE);
    assert_string_equal(list.ranks[3].framework_version, "2.7");
    assert_int_equal(list.ranks[3].state, RS_ASCEND_FINISHED);
    rs_ascend_list_fini(&list);
}

/* As MindSpore 2.10 writes them on a CPU: no profiler_info, no metadata. */
static void mindspore_on_a_cpu_names_its_rank_in_framework(void **state)
{
    (void)state;
    make_dirs("cpu/h_71_20250615110640001_ascend_ms/FRAMEWORK");
    make_dirs("cpu/h_71_20250615110640001_ascend_ms/ASCEND_PROFILER_OUTPUT");
    make_file("cpu/h_71_20250615110640001_ascend_ms/FRAMEWORK/cpu_op_type_info_9.csv", "x");
    make_file("cpu/h_71_20250615110640001_ascend_ms/FRAMEWORK/cpu_framework_3.txt", "x");
    make_file("cpu/h_71_20250615110640001_ascend_ms/ASCEND_PROFILER_OUTPUT/trace_view.json", "[]");
    struct rs_ascend_list list;
    find("cpu", &list);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.note_count, 0);
    assert_int_equal(list.ranks[0].rank, 3);
    assert_string_equal(list.ranks[0].source, "a name in FRAMEWORK");
    assert_int_equal(list.ranks[0].state, RS_ASCEND_FINISHED);
    rs_ascend_list_fini(&list);
}

/* Two processes that name no rank are not one; two results of one process are. */
static void without_a_rank_processes_are_told_apart(void **state)
{
    (void)state;
    static const char *const names[] = {"h_71_20250615110640001", "h_71_20250615110640002",
                                        "h_72_20250615110640001"};
    for (size_t i = 0; i < 3; i++) {
        char name[160];
        (void)snprintf(name, sizeof name, "nobody/%s_ascend_pt/ASCEND_PROFILER_OUTPUT", names[i]);
        make_dirs(name);
        (void)snprintf(name, sizeof name,
                       "nobody/%s_ascend_pt/ASCEND_PROFILER_OUTPUT/step_trace_time.csv", names[i]);
        make_file(name, "Step\n");
    }
    struct rs_ascend_list list;
    find("nobody", &list);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.ranks[0].rank, RS_ASCEND_NO_RANK);
    assert_int_equal(list.ranks[1].rank, RS_ASCEND_NO_RANK);
    assert_int_equal(list.ranks[0].stamp, 20250615110640002);
    assert_true(has_note(&list, RS_ASCEND_NOTE_DUPLICATE, "h_71_20250615110640001", "process"));
    assert_int_equal(list.note_count, 1);
    rs_ascend_list_fini(&list);
}

static void raw_data_outside_a_rank_is_named(void **state)
{
    (void)state;
    make_dirs("alone/PROF_000001_20250615110640001_ABCDEF/device_0/data");
    make_dirs("alone/PROF_notes/x"); /* somebody's own */
    struct rs_ascend_list list;
    find("alone", &list);
    assert_int_equal(list.count, 0);
    assert_int_equal(list.note_count, 1);
    assert_true(has_note(&list, RS_ASCEND_NOTE_FAILED, "PROF_000001", "not parsed"));
    rs_ascend_list_fini(&list);
}

static void links_are_not_followed_and_depth_is_bounded(void **state)
{
    (void)state;
    make_dirs("walk/1/2/3/4/5/6/7/8/9/x_1_20250615110640001_ascend_pt");
    make_dirs("elsewhere/x_1_20250615110640001_ascend_pt");
    assert_int_equal(symlink(at("elsewhere"), at("walk/link")), 0);
    struct rs_ascend_list list;
    find("walk", &list);
    assert_int_equal(list.count, 0);
    assert_true(has_note(&list, RS_ASCEND_NOTE_SKIPPED, "walk/link", "link"));
    assert_true(has_note(&list, RS_ASCEND_NOTE_SKIPPED, "/8/9", "deeper"));
    rs_ascend_list_fini(&list);
}

static void loose_databases_and_odd_names(void **state)
{
    (void)state;
    make_dirs("loose");
    make_db("loose/msmonitor_812_20250615110640001_12.db", "CREATE TABLE T (x)");
    make_db("loose/msmonitor_812_20250615110640002_-1.db", "CREATE TABLE T (x)");
    make_file("loose/msmonitor_812_2025_12.db", "");
    make_file("loose/msmonitor_.db", "");
    struct rs_ascend_list list;
    find("loose", &list);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.ranks[0].rank, -1);
    assert_int_equal(list.ranks[1].rank, 12);
    assert_int_equal(list.ranks[1].framework, RS_ASCEND_MSMONITOR);
    rs_ascend_list_fini(&list);
    const char *missing[] = {at("not there")};
    assert_status(rs_ascend_discover(missing, 1, &list, NULL), RS_NOTFOUND);
    const char *no_profile[] = {at("loose/msmonitor_.db")};
    assert_status(rs_ascend_discover(no_profile, 1, &list, NULL), RS_INVALID);
}

static void broken_info_is_a_note_not_an_end(void **state)
{
    (void)state;
    make_dirs("broken/a'b\"c_1_20250615110640001_ascend_pt/ASCEND_PROFILER_OUTPUT");
    make_file("broken/a'b\"c_1_20250615110640001_ascend_pt/profiler_info_6.json", "{\"rank_id");
    struct rs_ascend_list list;
    find("broken", &list);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.ranks[0].rank, 6);
    assert_true(has_note(&list, RS_ASCEND_NOTE_FAILED, "profiler_info_6", "JSON"));
    rs_ascend_list_fini(&list);
}

static void hash_joins_group_names(void **state)
{
    (void)state;
    char hash[RS_ASCEND_HASH_BYTES];
    rs_ascend_group_hash("group_name_0", hash);
    assert_string_equal(hash, "5862276093215481612");
    rs_ascend_group_hash("90.91.105.46%enp189s0f0_60000_0_1736410538306028", hash);
    assert_string_equal(hash, "17148521525495523210");
    assert_true(rs_ascend_is_p2p("hcom_batchSendRecv__1_2_1"));
    assert_false(rs_ascend_is_p2p("hcom_allReduce__1_2_1"));
}

static void metadata_names_groups_and_refuses_nonsense(void **state)
{
    (void)state;
    struct rs_ascend_metadata meta;
    assert_ok(rs_ascend_metadata_parse(
        "{\"group_name_0\": {\"group_name\": \"tp\", \"group_rank\": 1, \"global_ranks\": [5, 4]}}",
        "{\"tensor_model_parallel_size\": 2, \"rank\": \"5\"}", "{\"pp_type\": \"1f1b\"}", &meta,
        NULL));
    const struct rs_ascend_group *group = rs_ascend_group_find(&meta, "5862276093215481612");
    assert_non_null(group);
    assert_int_equal(group->count, 2);
    assert_int_equal(group->ranks[0], 4);
    assert_int_equal(group->own_rank, 1);
    assert_int_equal(meta.tp, 2);
    assert_int_equal(meta.rank, 5);
    assert_int_equal(meta.world_size, -1);
    assert_string_equal(meta.pp_type, "1f1b");
    rs_ascend_metadata_fini(&meta);
    static const char *const wrong[] = {"[", "[]", "{\"g\": 1}",
                                        "{\"g\": {\"global_ranks\": [-1]}}",
                                        "{\"g\": {\"global_ranks\": [\"x\"]}}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_status(rs_ascend_metadata_parse(wrong[i], NULL, NULL, &meta, NULL), RS_FORMAT);
}

static void tables_and_columns_are_asked_by_name(void **state)
{
    (void)state;
    make_db("names.db", "CREATE TABLE COMMUNICATION_OP (opName, startNs TEXT, waitNs);"
                        "CREATE VIEW TASK AS SELECT 1 AS startNs;"
                        "INSERT INTO COMMUNICATION_OP VALUES (7, '1750000000000000123', NULL);"
                        "INSERT INTO COMMUNICATION_OP VALUES (7, 'soon', 1.5);"
                        "CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);"
                        "INSERT INTO STRING_IDS VALUES (7, 'a'), (268435456, 'b'), (0, '')");
    struct rs_ascend_db *db = NULL;
    assert_ok(rs_ascend_db_open(at("names.db"), &db, NULL));
    assert_true(rs_ascend_db_has_column(db, "COMMUNICATION_OP", "startNs"));
    assert_false(rs_ascend_db_has_column(db, "COMMUNICATION_OP", "deviceId"));
    assert_false(rs_ascend_db_has_table(db, "TASK")); /* a view is no table */
    assert_false(rs_ascend_db_has_column(db, "META_DATA", "value"));
    struct rs_ascend_names names;
    assert_ok(rs_ascend_names_load(db, "STRING_IDS", &names, NULL));
    assert_string_equal(rs_ascend_names_find(&names, 268435456), "b");
    assert_string_equal(rs_ascend_names_find(&names, 0), "");
    assert_null(rs_ascend_names_find(&names, 8));
    rs_ascend_names_fini(&names);
    sqlite3_stmt *stmt = NULL;
    int64_t value = 0;
    assert_ok(
        rs_ascend_db_prepare(db, "SELECT startNs, waitNs FROM COMMUNICATION_OP", &stmt, NULL));
    assert_ok(rs_ascend_db_step(db, stmt, NULL));
    assert_true(rs_ascend_column_int(stmt, 0, &value));
    assert_int_equal(value, 1750000000000000123); /* TEXT digits, every one of them */
    assert_false(rs_ascend_column_int(stmt, 1, &value));
    assert_ok(rs_ascend_db_step(db, stmt, NULL));
    assert_false(rs_ascend_column_int(stmt, 0, &value));
    assert_false(rs_ascend_column_int(stmt, 1, &value));
    assert_status(rs_ascend_db_step(db, stmt, NULL), RS_END);
    rs_ascend_db_finish(&stmt);
    assert_status(rs_ascend_db_prepare(db, "SELECT nothing FROM COMMUNICATION_OP", &stmt, NULL),
                  RS_FORMAT);
    rs_ascend_db_close(&db);
}

static void many_names_are_all_found(void **state)
{
    (void)state;
    make_db("many.db",
            "CREATE TABLE ENUM_X (id INTEGER PRIMARY KEY, name TEXT);"
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)"
            "INSERT INTO ENUM_X SELECT i * 65537, 'n' || i FROM n");
    struct rs_ascend_db *db = NULL;
    struct rs_ascend_names names;
    assert_ok(rs_ascend_db_open(at("many.db"), &db, NULL));
    assert_ok(rs_ascend_names_load(db, "ENUM_X", &names, NULL));
    assert_int_equal(names.count, 10000);
    for (int64_t i = 0; i < 10000; i += 37) {
        char text[24];
        (void)snprintf(text, sizeof text, "n%lld", (long long)i);
        assert_string_equal(rs_ascend_names_find(&names, i * 65537), text);
    }
    rs_ascend_names_fini(&names);
    rs_ascend_db_close(&db);
}

static void cut_off_and_foreign_files_are_refused_by_name(void **state)
{
    (void)state;
    struct rs_ascend_db *db = NULL;
    struct rs_err err = {0};
    make_db("cut.db", "CREATE TABLE T (x); INSERT INTO T VALUES (zeroblob(100000))");
    assert_int_equal(truncate(at("cut.db"), 40000), 0);
    assert_status(rs_ascend_db_open(at("cut.db"), &db, &err), RS_FORMAT);
    assert_non_null(strstr(err.text, "cut.db"));
    assert_non_null(strstr(err.text, "40000"));
    make_file("text.db", "not a database at all");
    assert_status(rs_ascend_db_open(at("text.db"), &db, &err), RS_FORMAT);
    make_file("empty.db", "");
    assert_status(rs_ascend_db_open(at("empty.db"), &db, &err), RS_FORMAT);
    assert_status(rs_ascend_db_open(at("no.db"), &db, &err), RS_NOTFOUND);
    make_db("hot.db", "CREATE TABLE T (x)");
    make_file("hot.db-journal", "\xd9\xd5\x05\xf9 not rolled back");
    assert_status(rs_ascend_db_open(at("hot.db"), &db, &err), RS_FORMAT);
    assert_non_null(strstr(err.text, "middle of a write"));
    assert_null(db);
}

static void digest_of(const char *name, struct rs_buf *buf)
{
    assert_ok(rs_file_read(at(name), 1 << 20, buf, NULL));
}

static void wal_left_behind_is_read_and_left_as_it_was(void **state)
{
    (void)state;
    /* a writer that never came to its checkpoint: copy the files while it is open */
    sqlite3 *writer = NULL;
    make_dirs("wal");
    assert_int_equal(sqlite3_open(at("wal/live.db"), &writer), SQLITE_OK);
    assert_int_equal(sqlite3_exec(writer,
                                  "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;"
                                  "CREATE TABLE T (x); INSERT INTO T VALUES (42)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    struct rs_buf body = {0}, wal = {0}, after = {0};
    digest_of("wal/live.db", &body);
    digest_of("wal/live.db-wal", &wal);
    assert_int_equal(sqlite3_close(writer), SQLITE_OK);
    assert_ok(rs_file_replace(at("wal/left.db"), body.data, body.length, false, NULL));
    assert_ok(rs_file_replace(at("wal/left.db-wal"), wal.data, wal.length, false, NULL));
    struct rs_ascend_db *db = NULL;
    sqlite3_stmt *stmt = NULL;
    int64_t value = 0;
    assert_ok(rs_ascend_db_open(at("wal/left.db"), &db, NULL));
    assert_ok(rs_ascend_db_prepare(db, "SELECT x FROM T", &stmt, NULL));
    assert_ok(rs_ascend_db_step(db, stmt, NULL));
    assert_true(rs_ascend_column_int(stmt, 0, &value));
    assert_int_equal(value, 42);
    rs_ascend_db_finish(&stmt);
    rs_ascend_db_close(&db);
    digest_of("wal/left.db-wal", &after);
    assert_int_equal(after.length, wal.length);
    assert_memory_equal(after.data, wal.data, wal.length);
    assert_int_not_equal(access(at("wal/left.db-shm"), F_OK), 0);
    /* in WAL mode with nothing waiting: read in place, and no -shm appears */
    make_db("wal/calm.db", "PRAGMA journal_mode=WAL; CREATE TABLE T (x)");
    assert_ok(rs_ascend_db_open(at("wal/calm.db"), &db, NULL));
    assert_true(rs_ascend_db_has_table(db, "T"));
    rs_ascend_db_close(&db);
    assert_int_not_equal(access(at("wal/calm.db-shm"), F_OK), 0);
    rs_buf_fini(&body);
    rs_buf_fini(&wal);
    rs_buf_fini(&after);
}

static void metadata_and_host_come_from_the_database(void **state)
{
    (void)state;
    make_db("meta?.db", "CREATE TABLE META_DATA (name TEXT, value TEXT);"
                        "INSERT INTO META_DATA VALUES ('distributed_args', '{\"world_size\": 8}');"
                        "CREATE TABLE HOST_INFO (hostUid TEXT, hostName TEXT);"
                        "INSERT INTO HOST_INFO VALUES ('1000', 'node''s')");
    struct rs_ascend_db *db = NULL;
    struct rs_ascend_metadata meta;
    char *uid = NULL, *name = NULL;
    assert_ok(rs_ascend_db_open(at("meta?.db"), &db, NULL)); /* the name survives the URI */
    assert_ok(rs_ascend_db_metadata(db, &meta, NULL));
    assert_int_equal(meta.world_size, 8);
    assert_false(meta.has_groups);
    rs_ascend_metadata_fini(&meta);
    assert_ok(rs_ascend_db_host(db, &uid, &name, NULL));
    assert_string_equal(name, "node's");
    rs_mem_free(uid);
    rs_mem_free(name);
    rs_ascend_db_close(&db);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[600];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_comes_from_info_then_database_then_map),
        cmocka_unit_test(newest_directory_of_a_rank_wins_and_the_other_is_reported),
        cmocka_unit_test(unparsed_and_unfinished_are_told_apart),
        cmocka_unit_test(mindspore_on_a_cpu_names_its_rank_in_framework),
        cmocka_unit_test(without_a_rank_processes_are_told_apart),
        cmocka_unit_test(raw_data_outside_a_rank_is_named),
        cmocka_unit_test(links_are_not_followed_and_depth_is_bounded),
        cmocka_unit_test(loose_databases_and_odd_names),
        cmocka_unit_test(broken_info_is_a_note_not_an_end),
        cmocka_unit_test(hash_joins_group_names),
        cmocka_unit_test(metadata_names_groups_and_refuses_nonsense),
        cmocka_unit_test(tables_and_columns_are_asked_by_name),
        cmocka_unit_test(many_names_are_all_found),
        cmocka_unit_test(cut_off_and_foreign_files_are_refused_by_name),
        cmocka_unit_test(wal_left_behind_is_read_and_left_as_it_was),
        cmocka_unit_test(metadata_and_host_come_from_the_database),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
