/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stranger's SELECT: what it gives, what it may not, and what ends it.
 */
#include "aggregator/store/query.h"

#include "common/base/mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <string.h>
#include <sys/stat.h>

enum { CAPTURE = 7 };
static char folder[64];
static const struct rs_query_limits some = {
    .rows = 100, .bytes = 1 << 16, .time_ns = (rs_dur)30 * RS_NS_PER_S, .memory_bytes = 64 << 20};

static void put(struct rs_row_store *store, enum rs_unit_kind kind, int64_t a,
                const struct rs_table *table, const void *rows, size_t count)
{
    struct rs_writer *writer = NULL;
    const struct rs_unit unit = {.capture = CAPTURE, .kind = kind, .a = a};
    assert_ok(rs_store_begin(store, &unit, &writer, NULL));
    assert_ok(rs_writer_put(writer, table, rows, count, NULL));
    assert_ok(rs_writer_commit(&writer, NULL));
}

static int make_rows(void **state)
{
    (void)state;
    struct rs_row_store *store = NULL;
    struct rs_row_op_member members[2];
    tmp_dir_make(folder);
    assert_ok(rs_row_store_open(folder, RS_ROWS_WRITE, &store, NULL));
    for (int64_t rank = 0; rank < 2; rank++) {
        const struct rs_row_rank_device row = {
            .capture = CAPTURE, .rank = rank, .window_ns = 100, .busy_ns = 10 + rank};
        put(store, RS_UNIT_RANK, rank, &rs_table_rank_device, &row, 1);
        rs_row_clear(&rs_table_op_member, &members[rank]);
        members[rank].capture = CAPTURE;
        members[rank].step = 3;
        members[rank].group_id = members[rank].op_no = members[rank].member_no = 0;
        members[rank].rank = rank;
        members[rank].op = 1;
        members[rank].start_ns = INT64_C(1700000000000000001);
        members[rank].end_ns = members[rank].start_ns + 50;
        members[rank].is_partial = 0;
    }
    put(store, RS_UNIT_STEP, 3, &rs_table_op_member, members, 2);
    rs_row_store_close(&store);
    return 0;
}

static int remove_rows(void **state)
{
    (void)state;
    tmp_dir_remove(folder);
    return 0;
}

static enum rs_status ask(const char *sql, const struct rs_query_limits *limits, struct rs_buf *buf,
                          struct rs_query_facts *facts, struct rs_err *err)
{
    struct rs_row_store *store = NULL;
    assert_ok(rs_row_store_open(folder, RS_ROWS_READ, &store, NULL));
    const enum rs_status status = rs_row_store_query(store, sql, limits, buf, facts, err);
    rs_row_store_close(&store);
    return status;
}

static void gives(const char *sql, const char *expected)
{
    struct rs_buf buf = {0};
    struct rs_query_facts facts;
    struct rs_err err = {0};
    if (ask(sql, &some, &buf, &facts, &err) != RS_OK)
        fail_msg("%s: %s", sql, err.text);
    assert_string_equal(rs_buf_text(&buf), expected);
    assert_false(facts.is_cut);
    rs_buf_fini(&buf);
}

static void values_come_as_they_are(void **state)
{
    (void)state;
    gives("SELECT rank, busy_ns FROM rank_device ORDER BY rank DESC; -- a remark",
          "\"columns\": [\"rank\",\"busy_ns\"], \"rows\": [\n[1,11],\n[0,10]]");
    gives("SELECT NULL, 0.5, 'a\"b', x'00ff', 9007199254740993 AS n",
          "\"columns\": [\"NULL\",\"0.5\",\"'a\\\"b'\",\"x'00ff'\",\"n\"], \"rows\": [\n"
          "[null,0.5,\"a\\\"b\",\"00ff\",9007199254740993]]");
    gives("SELECT rank, start_ns FROM op_member WHERE step = 3 AND rank = 1",
          "\"columns\": [\"rank\",\"start_ns\"], \"rows\": [\n[1,1700000000000000001]]");
    gives("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) "
          "SELECT sum(i), avg(i) FROM n",
          "\"columns\": [\"sum(i)\",\"avg(i)\"], \"rows\": [\n[6,2]]");
    gives("SELECT rank FROM rank_device WHERE rank > 5", "\"columns\": [\"rank\"], \"rows\": []");
}

static void it_only_reads(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "   ;",
        "-- nothing",
        "DELETE FROM rank_device",
        "INSERT INTO rank_device DEFAULT VALUES",
        "UPDATE rank_device SET busy_ns = 0",
        "DROP TABLE rank_device",
        "CREATE TEMP TABLE t AS SELECT 1",
        "CREATE TABLE t (a)",
        "CREATE TEMP VIEW v AS SELECT 1",
        "ATTACH 'other.db' AS other",
        "VACUUM INTO 'other.db'",
        "PRAGMA query_only=OFF",
        "PRAGMA table_info(rank_device)",
        "SELECT * FROM pragma_database_list",
        "BEGIN",
        "SELECT 1; SELECT 2",
        "SELECT 1; DELETE FROM rank_device",
        "SELECT load_extension('x')",
        "SELECT writefile('x', 'y')",
        "SELECT * FROM nothing",
        "SELECT busy FROM rank_device",
        "SELECT ?, ?",
        "SELEC 1",
    };
    struct stat before, after;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/rows.db", folder);
    assert_int_equal(stat(path, &before), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct rs_buf buf = {0};
        struct rs_query_facts facts;
        struct rs_err err = {0};
        if (ask(wrong[i], &some, &buf, &facts, &err) != RS_INVALID)
            fail_msg("%s: %s", wrong[i], rs_buf_text(&buf));
        assert_true(*err.text);
        rs_buf_fini(&buf);
    }
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    gives("SELECT count(*) FROM rank_device", "\"columns\": [\"count(*)\"], \"rows\": [\n[2]]");
}

static void it_ends(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        enum rs_status status;
    } wrong[] = {
        {"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n",
         RS_TIMEOUT},
        {"WITH RECURSIVE n(i, t) AS (SELECT 1, zeroblob(100000) UNION ALL "
         "SELECT i + 1, zeroblob(100000) FROM n) SELECT i, t FROM n ORDER BY t, i DESC",
         RS_LIMIT},
        {"SELECT zeroblob(100000000)", RS_LIMIT},
    };
    static const struct rs_query_limits tight = {
        .rows = 10, .bytes = 1 << 16, .time_ns = RS_NS_PER_S / 5, .memory_bytes = 4 << 20};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct rs_buf buf = {0};
        struct rs_query_facts facts;
        struct rs_err err = {0};
        const bool is_time = wrong[i].status == RS_TIMEOUT;
        const enum rs_status status =
            ask(wrong[i].sql, is_time ? &tight : &some, &buf, &facts, &err);
        if (status != wrong[i].status)
            fail_msg("%s: %s %s", wrong[i].sql, rs_status_name(status), err.text);
        rs_buf_fini(&buf);
    }
}

static void an_answer_is_cut_where_it_is_full(void **state)
{
    (void)state;
    static const char many[] = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                               "WHERE i < 100000) SELECT i, 'some text' FROM n";
    const struct rs_query_limits few = {
        .rows = 2, .bytes = 1 << 16, .time_ns = some.time_ns, .memory_bytes = 64 << 20};
    const struct rs_query_limits small = {
        .rows = 100000, .bytes = 300, .time_ns = some.time_ns, .memory_bytes = 64 << 20};
    struct rs_buf buf = {0};
    struct rs_query_facts facts;
    assert_ok(ask(many, &few, &buf, &facts, NULL));
    assert_int_equal(facts.rows, 2);
    assert_true(facts.is_cut);
    assert_string_equal(
        rs_buf_text(&buf),
        "\"columns\": [\"i\",\"'some text'\"], \"rows\": [\n[1,\"some text\"],\n[2,\"some text\"]]");
    rs_buf_reset(&buf);
    assert_ok(ask(many, &small, &buf, &facts, NULL));
    assert_true(facts.is_cut && facts.rows > 2 && buf.length <= 301);
    rs_buf_reset(&buf);
    assert_ok(ask("SELECT 1 UNION ALL SELECT 2", &few, &buf, &facts, NULL));
    assert_false(facts.is_cut);
    rs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_as_they_are),
        cmocka_unit_test(it_only_reads),
        cmocka_unit_test(it_ends),
        cmocka_unit_test(an_answer_is_cut_where_it_is_full),
    };
    return cmocka_run_group_tests(tests, make_rows, remove_rows);
}
