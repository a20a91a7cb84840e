/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's small files through a stream and back: byte for byte, whatever their length; a database without its
 * events says the same of the rank; pieces that a stranger made up write nothing outside.
 */
#include "ascend/source/ascend_documents.h"

#include "ascend/format/db.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "tests/unit/ascend_source/ascend_support.h"

#include <sqlite3.h>

#include <unistd.h>

struct stream_copy {
    struct rs_ascend_documents *documents;
    size_t others;
};

static enum rs_status take(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct stream_copy *copy = self;
    assert_int_equal(rs_batch_check(batch, err), RS_OK);
    for (size_t i = 0; i < batch->count; i++)
        copy->others += batch->kind[i] != RS_KIND_METADATA;
    return rs_ascend_documents_take(copy->documents, batch, err);
}

/* Reads the place and puts what it says below BACK; how many documents came. */
static size_t there_and_back(const struct place *place, unsigned flags, const char *back)
{
    struct rs_ascend_list list;
    struct rs_source_stream stream;
    struct stream_copy copy = {0};
    struct rs_err err = {0};
    const char *path = place->rank;
    assert_int_equal(rs_ascend_discover(&path, 1, &list, &err), RS_OK);
    assert_int_equal(list.count, 1);
    assert_int_equal(rs_source_stream_init(&stream), RS_OK);
    assert_int_equal(rs_ascend_documents_new(back, &copy.documents, &err), RS_OK);
    const struct rs_sink sink = {.batch = take, .self = &copy};
    const enum rs_status status = rs_ascend_read(&list.ranks[0], flags, &stream, sink, &err);
    if (status != RS_OK && status != RS_PARTIAL)
        fail_msg("%s", err.text);
    const size_t count = rs_ascend_documents_count(copy.documents);
    rs_ascend_documents_free(&copy.documents);
    rs_source_stream_fini(&stream);
    rs_ascend_list_fini(&list);
    return count;
}

static void expect_same(const struct place *place, const char *back, const char *name)
{
    char theirs[600], ours[900];
    struct rs_buf a = {0}, b = {0};
    (void)snprintf(theirs, sizeof theirs, "%s/%s", place->rank, name);
    (void)snprintf(ours, sizeof ours, "%s%s/%s", back, strrchr(place->rank, '/'), name);
    assert_int_equal(rs_file_read(theirs, 1 << 24, &a, NULL), RS_OK);
    assert_int_equal(rs_file_read(ours, 1 << 24, &b, NULL), RS_OK);
    assert_int_equal(a.length, b.length);
    if (a.length)
        assert_memory_equal(a.data, b.data, a.length);
    rs_buf_fini(&a);
    rs_buf_fini(&b);
}

static void documents_come_back_as_they_were(void **state)
{
    (void)state;
    struct place place;
    char back[128];
    enum { LONG = 3000000 }; /* several pieces, though packed */
    char *text = rs_mem_calloc(1, LONG + 64);
    uint64_t random = 1;
    assert_non_null(text);
    make_place(&place, 2);
    (void)snprintf(back, sizeof back, "%s-back", place.root);
    (void)snprintf(text, LONG, "{\"step1\":{\"p2p\":{},\"collective\":{}},\"noise\":\"");
    for (size_t i = strlen(text); i < LONG; i++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        text[i] = (char)('a' + (random >> 59) % 26);
    }
    memcpy(text + LONG, "\"}", 3);
    put_file(place.output, "communication.json", text);
    put_file(place.output, "communication_matrix.json", "");
    put_file(place.output, "step_trace_time.csv", "Step,Computing\r\n1,2\t\n");
    put_file(place.rank, "profiler_metadata.json", "{\"a\": \"\\u00e9\\\"\"}");
    assert_int_equal(there_and_back(&place, 0, back), 0); /* only a lossless reading has them */
    assert_int_equal(there_and_back(&place, RS_SOURCE_LOSSLESS, back), 5);
    expect_same(&place, back, "ASCEND_PROFILER_OUTPUT/communication.json");
    expect_same(&place, back, "ASCEND_PROFILER_OUTPUT/communication_matrix.json");
    expect_same(&place, back, "ASCEND_PROFILER_OUTPUT/step_trace_time.csv");
    expect_same(&place, back, "profiler_metadata.json");
    expect_same(&place, back, "profiler_info_2.json");
    rs_mem_free(text);
    tmp_dir_remove(back);
    tmp_dir_remove(place.root);
}

static void sql(const char *path, const char *text)
{
    sqlite3 *db = NULL;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_database_travels_without_its_events(void **state)
{
    (void)state;
    struct place place;
    char back[128], path[900];
    struct rs_ascend_db *db = NULL;
    struct rs_ascend_metadata meta;
    struct rs_err err = {0};
    int64_t rank = -1, device = -1;
    char *uid = NULL, *name = NULL;
    make_place(&place, 2);
    (void)snprintf(back, sizeof back, "%s-back", place.root);
    (void)snprintf(path, sizeof path, "%s/ascend_pytorch_profiler_2.db", place.output);
    sql(path,
        "CREATE TABLE META_DATA (name TEXT, value TEXT);"
        "INSERT INTO META_DATA VALUES ('parallel_group_info', '{\"g\":{\"group_name\":\"tp\","
        "\"group_rank\":0,\"global_ranks\":[2,3]}}');"
        "CREATE TABLE HOST_INFO (hostUid TEXT, hostName TEXT);"
        "INSERT INTO HOST_INFO VALUES ('u1', 'it''s \"n7\"');"
        "CREATE TABLE RANK_DEVICE_MAP (rankId INTEGER, deviceId INTEGER, \"odd \"\"name\" TEXT);"
        "INSERT INTO RANK_DEVICE_MAP VALUES (2, 5, NULL);"
        "CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);");
    assert_int_equal(there_and_back(&place, RS_SOURCE_LOSSLESS, back), 2);
    (void)snprintf(path, sizeof path, "%s%s/ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_2.db",
                   back, strrchr(place.rank, '/'));
    if (rs_ascend_db_open(path, &db, &err) != RS_OK)
        fail_msg("%s", err.text);
    assert_false(rs_ascend_db_has_table(db, "STRING_IDS"));
    assert_int_equal(rs_ascend_db_rank(db, &rank, &device, NULL), RS_OK);
    assert_int_equal(rank, 2);
    assert_int_equal(device, 5);
    assert_int_equal(rs_ascend_db_host(db, &uid, &name, NULL), RS_OK);
    assert_string_equal(name, "it's \"n7\"");
    assert_int_equal(rs_ascend_db_metadata(db, &meta, NULL), RS_OK);
    assert_int_equal(meta.groups[0].ranks[1], 3);
    rs_ascend_metadata_fini(&meta);
    rs_mem_free(uid);
    rs_mem_free(name);
    rs_ascend_db_close(&db);
    tmp_dir_remove(back);
    tmp_dir_remove(place.root);
}

/* ---- strangers ---- */

static enum rs_status take_text(struct rs_ascend_documents *documents, const char *extra)
{
    struct rs_strtab strings;
    struct rs_lanes lanes = {0};
    struct rs_batch batch;
    struct rs_lane lane = {.kind = RS_LANE_HOST, .device = -1};
    struct rs_err err = {0};
    size_t at;
    assert_int_equal(rs_strtab_init(&strings, 0), RS_OK);
    assert_int_equal(rs_batch_init(&batch, &strings, &lanes, 4), RS_OK);
    assert_int_equal(rs_batch_row(&batch, &at), RS_OK);
    batch.kind[at] = RS_KIND_METADATA;
    assert_int_equal(rs_lanes_find(&lanes, &lane, &batch.lane[at]), RS_OK);
    assert_int_equal(rs_strtab_add(&strings, "vendor document", 15, &batch.name[at]), RS_OK);
    assert_int_equal(rs_batch_extra(&batch, at, extra, strlen(extra)), RS_OK);
    const enum rs_status status = rs_ascend_documents_take(documents, &batch, &err);
    rs_batch_fini(&batch);
    rs_lanes_fini(&lanes);
    rs_strtab_fini(&strings);
    return status;
}

#define PIECE(folder, name, bytes, part, parts, text)                                              \
    "\"folder\":\"" folder "\",\"document\":\"" name "\",\"bytes\":" bytes ",\"part\":" part       \
    ",\"parts\":" parts ",\"deflate\":\"" text "\""

static void made_up_pieces_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        PIECE("..", "analysis.db", "0", "0", "1", "eJwDAAAAAAE="),
        PIECE("../x", "analysis.db", "0", "0", "1", "eJwDAAAAAAE="),
        PIECE("/etc", "analysis.db", "0", "0", "1", "eJwDAAAAAAE="),
        PIECE("", "analysis.db", "0", "0", "1", "eJwDAAAAAAE="),
        PIECE("f", "../../passwd", "0", "0", "1", "eJwDAAAAAAE="),
        PIECE("f", "profiler_info_1/../x.json", "0", "0", "1", "eJwDAAAAAAE="),
        PIECE("f", "authorized_keys", "0", "0", "1", "eJwDAAAAAAE="),
        PIECE("f", "analysis.db", "1", "0", "1", "eJwDAAAAAAE="), /* not so long */
        PIECE("f", "analysis.db", "-1", "0", "1", "eJwDAAAAAAE="),
        PIECE("f", "analysis.db", "99999999999", "0", "1", "eJwDAAAAAAE="),
        PIECE("f", "analysis.db", "500000000", "0", "1", "eJwDAAAAAAE="), /* of 8 bytes? */
        PIECE("f", "analysis.db", "0", "1", "2", "eJwDAAAAAAE="),         /* without a first one */
        PIECE("f", "analysis.db", "0", "0", "0", "eJwDAAAAAAE="),
        PIECE("f", "analysis.db", "0", "0", "1", "eJwDAAAAAA"), /* cut */
        PIECE("f", "analysis.db", "0", "0", "1", "e=wDAAAAAAE="),
        PIECE("f", "analysis.db", "0", "0", "1", "!!!!"),
        "\"folder\":1",
        "",
        "}{",
    };
    struct rs_ascend_documents *documents = NULL;
    char root[64], path[128];
    struct rs_err err = {0};
    tmp_dir_make(root);
    (void)snprintf(path, sizeof path, "%s/back", root);
    assert_int_equal(rs_ascend_documents_new(path, &documents, &err), RS_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (take_text(documents, bad[i]) == RS_OK && *bad[i])
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(rs_ascend_documents_count(documents), 0);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(take_text(documents, PIECE("f", "analysis.db", "0", "0", "1", "eJwDAAAAAAE=")),
                     RS_OK);
    assert_int_equal(rs_ascend_documents_count(documents), 1);
    rs_ascend_documents_free(&documents);
    tmp_dir_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_come_back_as_they_were),
        cmocka_unit_test(a_database_travels_without_its_events),
        cmocka_unit_test(made_up_pieces_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
