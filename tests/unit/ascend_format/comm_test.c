/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communication of a rank: the same from text and from a database, whatever the order of the keys;
 * failures leave nothing behind; the blob gives back what went in and believes nobody. And steps.
 */
#include "ascend/format/comm.h"

#include "ascend/format/step.h"
#include "common/base/digest.h"
#include "tests/support/rs_test.h"

#include <sqlite3.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OP_A                                                                                       \
    "\"hcom_allReduce__606_0_1@8606\": {\"Communication Time Info\": {\"Start Timestamp(us)\": "   \
    "1750000000002233.5, \"Elapse Time(ms)\": 1.5, \"Transit Time(ms)\": 1, \"Wait Time(ms)\": "   \
    "0.25, \"Synchronization Time(ms)\": 0.125, \"Idle Time(ms)\": 0.25, \"Wait Time Ratio\": "    \
    "0.2, \"Synchronization Time Ratio\": 0.1111}, \"Communication Bandwidth Info\": {\"HCCS\": "  \
    "{\"Transit Size(MB)\": 4.5, \"Transit Time(ms)\": 0.5, \"Bandwidth(GB/s)\": 9.0, \"Large "    \
    "Packet Ratio\": 0, \"Size Distribution\": {\"4.5\": [1, 0.5]}}, \"SDMA\": {\"Transit "        \
    "Size(MB)\": 4.5, \"Transit Time(ms)\": 0.5, \"Bandwidth(GB/s)\": 9.0, \"Large Packet "        \
    "Ratio\": 0, \"Size Distribution\": {}}}}"
#define OPS "{\"step7\": {\"p2p\": {}, \"collective\": {" OP_A ", \"Total Op Info\": {\"x\": 1}}}}"
/* the same with every object's members the other way round, and members nobody knows */
#define OPS_TURNED                                                                                 \
    "{\"step7\": {\"other\": [1], \"collective\": {\"hcom_allReduce__606_0_1@8606\": {"            \
    "\"Communication Bandwidth Info\": {\"HCCS\": {\"Size Distribution\": {\"4.5\": [1, 0.5]}, "   \
    "\"Large Packet Ratio\": 0, \"New\": {}, \"Bandwidth(GB/s)\": 9.00, \"Transit Time(ms)\": "    \
    "5e-1, \"Transit Size(MB)\": 4.5}, \"SDMA\": {\"Transit Size(MB)\": 4.5, \"Transit "           \
    "Time(ms)\": 0.5, \"Bandwidth(GB/s)\": 9.0, \"Large Packet Ratio\": 0, "                       \
    "\"Size Distribution\": {}}}, \"Communication "                                                \
    "Time Info\": {\"Synchronization Time Ratio\": 0.1111, \"Wait Time Ratio\": 0.2, \"Idle "      \
    "Time(ms)\": 0.25, \"Synchronization Time(ms)\": 0.125, \"Wait Time(ms)\": 0.25, \"Transit "   \
    "Time(ms)\": 1, \"Elapse Time(ms)\": 1.5, \"Start Timestamp(us)\": 1750000000002233.5}}}}}"
#define LINKS                                                                                      \
    "{\"step7\": {\"p2p\": {}, \"collective\": {\"allreduce-top1@8606\": {\"0-1\": {\"Transport "  \
    "Type\": \"HCCS\", \"Transit Size(MB)\": 4.5, \"Transit Time(ms)\": 0.5, \"Bandwidth(GB/s)\":" \
    " 9.0, \"Op Name\": \"hcom_allReduce__606_0_1\"}}, \"allreduce-total@8606\": {\"1-1\": "       \
    "{\"Transport Type\": \"LOCAL\", \"Transit Size(MB)\": 2, \"Transit Time(ms)\": 1, "           \
    "\"Bandwidth(GB/s)\": 2}}}}}"

static const char *const analysis_sql =
    "CREATE TABLE CommAnalyzerTime (hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, "
    "elapse_time NUMERIC, transit_time NUMERIC, wait_time NUMERIC, synchronization_time NUMERIC, "
    "idle_time NUMERIC, step TEXT, type TEXT);"
    "CREATE TABLE CommAnalyzerBandwidth (hccl_op_name TEXT, group_name TEXT, transport_type TEXT, "
    "transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, large_packet_ratio NUMERIC, "
    "package_size NUMERIC, count NUMERIC, total_duration NUMERIC, step TEXT, type TEXT);"
    "CREATE TABLE CommAnalyzerMatrix (hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank "
    "TEXT, transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, "
    "step TEXT, type TEXT, op_name TEXT);"
    "CREATE TABLE StepTraceTime (step TEXT, computing NUMERIC, communication NUMERIC, bubble "
    "NUMERIC);"
    "INSERT INTO CommAnalyzerTime VALUES ('hcom_allReduce__606_0_1', '8606', 1750000000002233.5, "
    "1.5, 1, 0.25, 0.125, 0.25, 'step7', 'collective');"
    "INSERT INTO CommAnalyzerBandwidth VALUES ('hcom_allReduce__606_0_1', '8606', 'HCCS', 4.5, 0.5, "
    "9.0, 0, 4.5, 1, 0.5, 'step7', 'collective'), ('hcom_allReduce__606_0_1', '8606', 'SDMA', 4.5, "
    "0.5, 9.0, 0, 0, 0, 0, 'step7', 'collective');"
    "INSERT INTO CommAnalyzerMatrix VALUES ('allreduce-top1', '8606', '0', '1', 'HCCS', 4.5, 0.5, 9, "
    "'step7', 'collective', 'hcom_allReduce__606_0_1'), ('allreduce-total', '8606', '1', '1', "
    "'LOCAL', 2, 1, 2, 'step7', 'collective', NULL);"
    "INSERT INTO StepTraceTime VALUES ('50', 8903.431, 102108.1, 0)";

static void parse(struct rs_ascend_comm *comm, enum rs_ascend_comm_part part, const char *text)
{
    struct rs_err err = {0};
    const enum rs_status status =
        rs_ascend_comm_parse(comm, part, text, strlen(text), "test", &err);
    if (status != RS_OK)
        fail_msg("%s", err.text);
}

/* Everything a comm says, as text; numbers as doubles, ratios left out (databases have none). */
static char *say(const struct rs_ascend_comm *comm, struct rs_buf *out)
{
    struct rs_ascend_num times[RS_ASCEND_COMM_TIMES], fields[RS_ASCEND_COMM_BAND_FIELDS], a, b;
    rs_buf_reset(out);
    for (size_t i = 0; i < comm->op_count; i++) {
        const struct rs_ascend_comm_op *op = &comm->ops[i];
        struct rs_ascend_comm_cursor cursor;
        rs_str id = 0;
        rs_ascend_comm_op_open(comm, op, &cursor, times);
        rs_buf_printf(out, "%s %s %s %d", rs_strtab_text(&comm->names, op->step),
                      rs_strtab_text(&comm->names, op->name),
                      rs_strtab_text(&comm->names, op->group), op->is_p2p);
        for (int t = 0; t <= RS_ASCEND_COMM_IDLE; t++)
            rs_buf_printf(out, " %.17g", rs_ascend_num_double(&times[t]));
        while (rs_ascend_comm_band(&cursor, &id, fields)) {
            rs_buf_printf(out, " %s", rs_strtab_text(&comm->names, id));
            for (int f = 0; f < RS_ASCEND_COMM_BAND_FIELDS; f++)
                rs_buf_printf(out, " %.17g", rs_ascend_num_double(&fields[f]));
            while (rs_ascend_comm_package(&cursor, &id, &a, &b))
                rs_buf_printf(out, " [%s %.17g %.17g]", rs_strtab_text(&comm->names, id),
                              rs_ascend_num_double(&a), rs_ascend_num_double(&b));
        }
        rs_buf_string(out, "\n");
    }
    for (size_t i = 0; i < comm->link_count; i++) {
        const struct rs_ascend_comm_link *link = &comm->links[i];
        rs_ascend_comm_link_open(comm, link, fields);
        rs_buf_printf(out, "%s %s %d-%d %s %s", rs_strtab_text(&comm->names, link->kind),
                      rs_strtab_text(&comm->names, link->group), link->src, link->dst,
                      rs_strtab_text(&comm->names, link->transport),
                      link->op_name == RS_STR_NONE ? "-"
                                                   : rs_strtab_text(&comm->names, link->op_name));
        for (int f = 0; f < 3; f++)
            rs_buf_printf(out, " %.17g", rs_ascend_num_double(&fields[f]));
        rs_buf_string(out, "\n");
    }
    char *text = strdup(rs_buf_text(out));
    assert_non_null(text);
    return text;
}

static const char said[] =
    "step7 hcom_allReduce__606_0_1 8606 0 1750000000002233.5 1.5 1 0.25 0.125 0.25 HCCS 4.5 0.5 9 0 "
    "[4.5 1 0.5] SDMA 4.5 0.5 9 0\n"
    "allreduce-top1 8606 0-1 HCCS hcom_allReduce__606_0_1 4.5 0.5 9\n"
    "allreduce-total 8606 1-1 LOCAL - 2 1 2\n";

static void expect_said(const struct rs_ascend_comm *comm)
{
    struct rs_buf out = {0};
    char *text = say(comm, &out);
    assert_string_equal(text, said);
    free(text);
    rs_buf_fini(&out);
}

static void text_is_read_whatever_the_order_of_its_members(void **state)
{
    static const char *const variants[] = {OPS, OPS_TURNED};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rs_ascend_comm comm;
        assert_ok(rs_ascend_comm_init(&comm));
        parse(&comm, RS_ASCEND_COMM_OPS, variants[i]);
        parse(&comm, RS_ASCEND_COMM_LINKS, LINKS);
        expect_said(&comm);
        assert_int_equal(comm.parts, RS_ASCEND_COMM_OPS | RS_ASCEND_COMM_LINKS);
        rs_ascend_comm_fini(&comm);
    }
}

/* The text with one word replaced, once. */
static char *changed(const char *text, const char *word, const char *by)
{
    const char *at = strstr(text, word);
    assert_non_null(at);
    const size_t room = strlen(text) + strlen(by) + 1;
    char *copy = malloc(room);
    assert_non_null(copy);
    (void)snprintf(copy, room, "%.*s%s%s", (int)(at - text), text, by, at + strlen(word));
    return copy;
}

static void expect_flaw(enum rs_ascend_comm_part part, const char *text, const char *word,
                        const char *by, const char *member)
{
    struct rs_ascend_comm comm;
    char *copy = changed(text, word, by);
    assert_ok(rs_ascend_comm_init(&comm));
    parse(&comm, part, text);
    assert_int_equal(comm.flaws.length, 0);
    parse(&comm, part, copy);
    assert_non_null(strstr(rs_buf_text(&comm.flaws), member));
    rs_ascend_comm_fini(&comm);
    free(copy);
}

/* A member under another name, without a number or not there at all is not the same as none of it. */
static void members_that_a_document_lacks_are_said(void **state)
{
    static const char *const times[] = {
        "\"Start Timestamp(us)\"", "\"Elapse Time(ms)\"",           "\"Transit Time(ms)\"",
        "\"Wait Time(ms)\"",       "\"Synchronization Time(ms)\"",  "\"Idle Time(ms)\"",
        "\"Wait Time Ratio\"",     "\"Synchronization Time Ratio\""};
    static const char *const bands[] = {"\"Communication Bandwidth Info\"", "\"Transit Size(MB)\"",
                                        "\"Bandwidth(GB/s)\"", "\"Large Packet Ratio\"",
                                        "\"Size Distribution\""};
    static const char *const links[] = {"\"Transport Type\"", "\"Transit Size(MB)\"",
                                        "\"Transit Time(ms)\"", "\"Bandwidth(GB/s)\""};
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        expect_flaw(RS_ASCEND_COMM_OPS, OPS, times[i], "\"other\"", times[i]);
    for (size_t i = 0; i < sizeof bands / sizeof bands[0]; i++)
        expect_flaw(RS_ASCEND_COMM_OPS, OPS, bands[i], "\"other\"", bands[i]);
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        expect_flaw(RS_ASCEND_COMM_LINKS, LINKS, links[i], "\"other\"", links[i]);
    expect_flaw(RS_ASCEND_COMM_OPS, OPS, "\"Wait Time(ms)\": 0.25", "\"Wait Time(ms)\": null",
                "Wait Time(ms)");
    expect_flaw(RS_ASCEND_COMM_OPS, OPS, "\"Idle Time(ms)\": 0.25, ", "", "Idle Time(ms)");
}

static void a_cut_document_leaves_the_comm_as_it_was(void **state)
{
    struct rs_ascend_comm comm;
    (void)state;
    assert_ok(rs_ascend_comm_init(&comm));
    parse(&comm, RS_ASCEND_COMM_OPS, OPS);
    parse(&comm, RS_ASCEND_COMM_LINKS, LINKS);
    for (size_t cut = 0; cut < strlen(OPS); cut++)
        assert_status(rs_ascend_comm_parse(&comm, RS_ASCEND_COMM_OPS, OPS, cut, "test", NULL),
                      RS_FORMAT);
    for (size_t cut = 0; cut < strlen(LINKS); cut++)
        assert_status(rs_ascend_comm_parse(&comm, RS_ASCEND_COMM_LINKS, LINKS, cut, "test", NULL),
                      RS_FORMAT);
    expect_said(&comm);
    rs_ascend_comm_fini(&comm);
}

static void a_database_says_the_same_as_text(void **state)
{
    char path[] = "/tmp/rs-vendor-comm-XXXXXX";
    struct rs_ascend_comm comm;
    struct rs_ascend_db *db = NULL;
    struct rs_ascend_steps steps;
    sqlite3 *handle = NULL;
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, analysis_sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(handle), SQLITE_OK);
    assert_ok(rs_ascend_comm_init(&comm));
    assert_ok(rs_ascend_db_open(path, &db, NULL));
    assert_ok(rs_ascend_comm_read_db(&comm, RS_ASCEND_COMM_OPS, db, NULL));
    assert_ok(rs_ascend_comm_read_db(&comm, RS_ASCEND_COMM_LINKS, db, NULL));
    expect_said(&comm);
    assert_ok(rs_ascend_steps_read_db(db, &steps, NULL));
    assert_int_equal(steps.count, 1);
    assert_string_equal(steps.rows[0].step, "50");
    assert_int_equal(steps.rows[0].device, -1);
    assert_true(rs_ascend_num_double(&steps.rows[0].values[RS_ASCEND_STEP_COMPUTING]) == 8903.431);
    assert_int_equal(steps.rows[0].values[RS_ASCEND_STEP_STAGE].kind, RS_ASCEND_NUM_NONE);
    rs_ascend_steps_fini(&steps);
    rs_ascend_comm_fini(&comm);
    rs_ascend_db_close(&db);
    (void)unlink(path);
}

/* A row again makes a second operation that never was. With and without bandwidth. */
static void an_operation_that_stands_twice_is_said(void **state)
{
    static const char *const extra[] = {
        "INSERT INTO CommAnalyzerTime SELECT * FROM CommAnalyzerTime",
        "DELETE FROM CommAnalyzerBandwidth; INSERT INTO CommAnalyzerTime SELECT * FROM "
        "CommAnalyzerTime",
        "INSERT INTO CommAnalyzerTime SELECT hccl_op_name, group_name, start_timestamp, elapse_time, "
        "transit_time, wait_time, synchronization_time, idle_time, 'step8', type FROM "
        "CommAnalyzerTime"};
    (void)state;
    for (size_t i = 0; i < sizeof extra / sizeof extra[0]; i++) {
        char path[] = "/tmp/rs-vendor-comm-XXXXXX";
        struct rs_ascend_comm comm;
        struct rs_ascend_db *db = NULL;
        sqlite3 *handle = NULL;
        const int fd = mkstemp(path);
        assert_true(fd >= 0 && close(fd) == 0);
        assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
        assert_int_equal(sqlite3_exec(handle, analysis_sql, NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_exec(handle, extra[i], NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_close(handle), SQLITE_OK);
        assert_ok(rs_ascend_comm_init(&comm));
        assert_ok(rs_ascend_db_open(path, &db, NULL));
        assert_ok(rs_ascend_comm_read_db(&comm, RS_ASCEND_COMM_OPS, db, NULL));
        if (i < 2)
            assert_non_null(
                strstr(rs_buf_text(&comm.flaws), "CommAnalyzerTime has an operation twice"));
        else
            assert_int_equal(comm.flaws.length, 0); /* of another step: another operation */
        rs_ascend_comm_fini(&comm);
        rs_ascend_db_close(&db);
        (void)unlink(path);
    }
}

/* Ranks after one another in one worker's memory. */
static void memory_goes_from_rank_to_rank(void **state)
{
    struct rs_ascend_comm_memory memory = {0};
    (void)state;
    for (int rank = 0; rank < 4; rank++) {
        struct rs_ascend_comm comm;
        assert_ok(rs_ascend_comm_init(&comm));
        rs_ascend_comm_borrow(&comm, &memory);
        if (rank != 2) { /* nothing in one of them */
            parse(&comm, RS_ASCEND_COMM_OPS, OPS);
            parse(&comm, RS_ASCEND_COMM_LINKS, LINKS);
        }
        rs_ascend_comm_settle(&comm, &memory);
        if (rank != 2)
            expect_said(&comm);
        assert_int_equal(comm.bytes.capacity, comm.bytes.length);
        rs_ascend_comm_fini(&comm);
    }
    rs_ascend_comm_memory_fini(&memory);
    struct rs_ascend_comm comm;
    assert_ok(rs_ascend_comm_init(&comm));
    for (int rank = 0; rank < 3; rank++) {
        parse(&comm, RS_ASCEND_COMM_OPS, OPS);
        parse(&comm, RS_ASCEND_COMM_LINKS, LINKS);
        expect_said(&comm);
        rs_ascend_comm_reset(&comm);
        assert_int_equal(comm.op_count + comm.link_count + comm.bytes.length + comm.parts, 0);
        assert_int_equal(comm.names.count, 1);
    }
    rs_ascend_comm_fini(&comm);
}

struct witness {
    struct rs_ascend_comm comm; /* names; what is seen is written into `kept` */
    struct rs_ascend_comm kept;
    struct rs_ascend_comm_writer writer;
    bool is_open;
    int calls, fail_at;
};

static enum rs_status witness_call(struct witness *w)
{
    return ++w->calls == w->fail_at ? RS_LIMIT : RS_OK;
}

static enum rs_status see_op(void *context, const struct rs_ascend_comm_op *op,
                             const struct rs_ascend_num *times)
{
    struct witness *w = context;
    if (w->is_open)
        assert_ok(rs_ascend_comm_op_end(&w->writer));
    rs_ascend_comm_op_begin(&w->writer, &w->kept, times);
    const size_t at = w->writer.op.at;
    w->writer.op = *op;
    w->writer.op.at = at;
    w->is_open = true;
    return witness_call(w);
}

static enum rs_status see_band(void *context, rs_str transport, const struct rs_ascend_num *fields)
{
    struct witness *w = context;
    rs_ascend_comm_band_begin(&w->writer, transport, fields);
    return witness_call(w);
}

static enum rs_status see_package(void *context, rs_str size, const struct rs_ascend_num *count,
                                  const struct rs_ascend_num *duration)
{
    struct witness *w = context;
    rs_ascend_comm_add_package(&w->writer, size, count, duration);
    return witness_call(w);
}

/* The visitor is shown what would have been kept, and may end it at any call. */
static void a_visitor_sees_what_would_be_kept(void **state)
{
    char path[] = "/tmp/rs-vendor-comm-XXXXXX";
    struct rs_ascend_db *db = NULL;
    struct rs_buf encoded = {0}, expected = {0};
    sqlite3 *handle = NULL;
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, analysis_sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(handle), SQLITE_OK);
    assert_ok(rs_ascend_db_open(path, &db, NULL));
    for (int fail_at = 0; fail_at <= 4; fail_at++) { /* an operation, two transports, a package */
        struct witness w = {.fail_at = fail_at};
        const struct rs_ascend_comm_visitor visitor = {&w, see_op, see_band, see_package};
        assert_ok(rs_ascend_comm_init(&w.comm));
        assert_ok(rs_ascend_comm_init(&w.kept));
        assert_status(rs_ascend_comm_visit_db(&w.comm, db, &visitor, NULL),
                      fail_at ? RS_LIMIT : RS_OK);
        assert_int_equal(w.comm.op_count, 0);
        assert_int_equal(w.comm.parts, fail_at ? 0 : RS_ASCEND_COMM_OPS);
        if (!fail_at) {
            struct rs_ascend_comm whole;
            assert_ok(rs_ascend_comm_op_end(&w.writer));
            assert_ok(rs_ascend_comm_init(&whole));
            assert_ok(rs_ascend_comm_read_db(&whole, RS_ASCEND_COMM_OPS, db, NULL));
            const struct rs_strtab own = w.kept.names;
            w.kept.names = w.comm.names;
            w.kept.parts = w.comm.parts;
            assert_ok(rs_ascend_comm_encode(&w.kept, &encoded, NULL));
            assert_ok(rs_ascend_comm_encode(&whole, &expected, NULL));
            assert_int_equal(encoded.length, expected.length);
            assert_memory_equal(encoded.data, expected.data, expected.length);
            w.kept.names = own;
            rs_ascend_comm_fini(&whole);
        }
        assert_int_equal(w.calls, fail_at ? fail_at : 4);
        rs_ascend_comm_fini(&w.comm);
        rs_ascend_comm_fini(&w.kept);
    }
    rs_buf_fini(&encoded);
    rs_buf_fini(&expected);
    rs_ascend_db_close(&db);
    (void)unlink(path);
}

static void blob(struct rs_buf *buf)
{
    struct rs_ascend_comm comm;
    assert_ok(rs_ascend_comm_init(&comm));
    parse(&comm, RS_ASCEND_COMM_OPS, OPS);
    parse(&comm, RS_ASCEND_COMM_LINKS, LINKS);
    assert_ok(rs_ascend_comm_encode(&comm, buf, NULL));
    rs_ascend_comm_fini(&comm);
}

static void the_blob_gives_back_what_went_in(void **state)
{
    struct rs_buf buf = {0}, again = {0};
    struct rs_ascend_comm comm;
    (void)state;
    blob(&buf);
    assert_ok(rs_ascend_comm_decode(buf.data, buf.length, &comm, NULL));
    expect_said(&comm);
    assert_ok(rs_ascend_comm_encode(&comm, &again, NULL));
    assert_int_equal(buf.length, again.length);
    assert_memory_equal(buf.data, again.data, buf.length);
    rs_ascend_comm_fini(&comm);
    rs_buf_fini(&buf);
    rs_buf_fini(&again);
}

/* Writes a right checksum over whatever the body is now. */
static void seal(struct rs_buf *buf)
{
    const uint32_t crc = rs_crc32c(0, buf->data + 20, buf->length - 20);
    for (int i = 0; i < 4; i++)
        buf->data[16 + i] = (uint8_t)(crc >> 8 * i);
}

static void damaged_blobs_are_refused_or_stand_alone(void **state)
{
    struct rs_buf buf = {0}, out = {0};
    struct rs_ascend_comm comm;
    (void)state;
    blob(&buf);
    for (size_t cut = 0; cut < buf.length; cut++)
        assert_true(rs_ascend_comm_decode(buf.data, cut, &comm, NULL) < 0);
    for (size_t at = 0; at < buf.length; at++) {
        buf.data[at] ^= 0x11;
        assert_true(rs_ascend_comm_decode(buf.data, buf.length, &comm, NULL) < 0);
        buf.data[at] ^= 0x11;
    }
    for (size_t at = 20; at < buf.length;
         at++) /* with a checksum that fits, reading must be safe */
        for (int bit = 0; bit < 8; bit++) {
            buf.data[at] ^= (uint8_t)(1 << bit);
            seal(&buf);
            if (rs_ascend_comm_decode(buf.data, buf.length, &comm, NULL) == RS_OK) {
                free(say(&comm, &out));
                rs_ascend_comm_fini(&comm);
            }
            buf.data[at] ^= (uint8_t)(1 << bit);
        }
    rs_buf_fini(&buf);
    rs_buf_fini(&out);
}

static void steps_csv_by_name_with_tabs_and_either_line_end(void **state)
{
    static const char text[] =
        "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,"
        "Bubble,Communication(Not Overlapped and Exclude Receive),Preparing\r\n"
        "5,50,8873.756000000001\t,101963.203,4028.6750000000175,105991.8,25744.05,136581.0,0,\"101963."
        "203\",17902.5\r\n\r\n";
    struct rs_ascend_steps steps;
    (void)state;
    assert_ok(rs_ascend_steps_parse(text, sizeof text - 1, "test", &steps, NULL));
    assert_int_equal(steps.count, 1);
    assert_int_equal(steps.rows[0].device, 5);
    assert_string_equal(steps.rows[0].step, "50");
    assert_true(rs_ascend_num_double(&steps.rows[0].values[RS_ASCEND_STEP_COMPUTING]) ==
                8873.756000000001);
    assert_true(
        rs_ascend_num_double(&steps.rows[0].values[RS_ASCEND_STEP_NOT_OVERLAPPED_NOR_RECEIVE]) ==
        101963.203);
    assert_true(rs_ascend_num_is_int(&steps.rows[0].values[RS_ASCEND_STEP_BUBBLE]));
    rs_ascend_steps_fini(&steps);
    assert_status(rs_ascend_steps_parse(text, 200, "test", &steps, NULL), RS_FORMAT);
    assert_status(rs_ascend_steps_parse("", 0, "test", &steps, NULL), RS_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_read_whatever_the_order_of_its_members),
        cmocka_unit_test(members_that_a_document_lacks_are_said),
        cmocka_unit_test(an_operation_that_stands_twice_is_said),
        cmocka_unit_test(a_cut_document_leaves_the_comm_as_it_was),
        cmocka_unit_test(a_database_says_the_same_as_text),
        cmocka_unit_test(memory_goes_from_rank_to_rank),
        cmocka_unit_test(a_visitor_sees_what_would_be_kept),
        cmocka_unit_test(the_blob_gives_back_what_went_in),
        cmocka_unit_test(damaged_blobs_are_refused_or_stand_alone),
        cmocka_unit_test(steps_csv_by_name_with_tabs_and_either_line_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
