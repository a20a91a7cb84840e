/* SPDX-License-Identifier: Apache-2.0 */
/* Units are replaced whole, reads see one state of things, members come back from their segments. */
#include "aggregator/store/row_store.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <sqlite3.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CAPTURE = 7 };
static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    tmp_dir_make(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    tmp_dir_remove(folder);
    return 0;
}

static struct rs_row_store *open_store(enum rs_row_mode mode)
{
    struct rs_row_store *store = NULL;
    struct rs_err err = {0};
    if (rs_row_store_open(mode == RS_ROWS_PRIVATE ? NULL : folder, mode, &store, &err) != RS_OK)
        fail_msg("%s", err.text);
    return store;
}

static struct rs_writer *begin(struct rs_row_store *store, enum rs_unit_kind kind, int64_t a)
{
    struct rs_writer *writer = NULL;
    const struct rs_unit unit = {.capture = CAPTURE, .kind = kind, .a = a};
    assert_ok(rs_store_begin(store, &unit, &writer, NULL));
    return writer;
}

/* A read as CSV. */
static char *all_of(struct rs_row_store *store, enum rs_read read, const char *token)
{
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    struct rs_buf buf = {0};
    struct rs_err err = {0};
    const struct rs_read_args args = {.capture = CAPTURE, .token = token};
    if (rs_read_open(store, read, &args, &cursor, &err) != RS_OK)
        fail_msg("%s", err.text);
    enum rs_status status;
    while ((status = rs_cursor_next(cursor, &block, &err)) == RS_OK)
        for (size_t i = 0; i < block.count; i++)
            rs_csv_row(block.table, rs_block_row(&block, i), &buf);
    if (status != RS_END)
        fail_msg("%s", err.text);
    assert_status(rs_cursor_next(cursor, &block, &err), RS_END); /* and stays there */
    rs_cursor_close(&cursor);
    rs_block_fini(&block);
    char *text = rs_mem_strdup(rs_buf_text(&buf));
    rs_buf_fini(&buf);
    return text;
}

static void assert_read(struct rs_row_store *store, enum rs_read read, const char *expected)
{
    char *text = all_of(store, read, NULL);
    assert_string_equal(text, expected);
    rs_mem_free(text);
}

static struct rs_row_rank_device device_row(int64_t rank, int64_t device, int64_t busy)
{
    return (struct rs_row_rank_device){.capture = CAPTURE,
                                       .rank = rank,
                                       .device = device,
                                       .window_ns = 100,
                                       .busy_ns = busy,
                                       .communication_ns = 7,
                                       .overlapped_ns = 2};
}

static void a_unit_is_replaced_whole(void **state)
{
    (void)state;
    struct rs_row_store *store = open_store(RS_ROWS_PRIVATE);
    for (int64_t rank = 1; rank >= 0; rank--) {
        const struct rs_row_rank_device rows[] = {device_row(rank, 0, 10), device_row(rank, 1, 20)};
        struct rs_writer *writer = begin(store, RS_UNIT_RANK, rank);
        assert_ok(rs_writer_put(writer, &rs_table_rank_device, rows, 2, NULL));
        assert_ok(rs_writer_commit(&writer, NULL));
        assert_null(writer);
    }
    assert_read(store, RS_READ_RANK_BREAKDOWN,
                "0,0,100,10,90,0,7,0,2,5\n0,1,100,20,80,0,7,0,2,5\n"
                "1,0,100,10,90,0,7,0,2,5\n1,1,100,20,80,0,7,0,2,5\n");
    const struct rs_row_rank_device row = device_row(1, 0, 99);
    struct rs_writer *writer = begin(store, RS_UNIT_RANK, 1);
    assert_ok(rs_writer_put(writer, &rs_table_rank_device, &row, 1, NULL));
    rs_writer_abandon(&writer); /* nothing changed */
    assert_read(store, RS_READ_RANK_BREAKDOWN,
                "0,0,100,10,90,0,7,0,2,5\n0,1,100,20,80,0,7,0,2,5\n"
                "1,0,100,10,90,0,7,0,2,5\n1,1,100,20,80,0,7,0,2,5\n");
    writer = begin(store, RS_UNIT_RANK, 1);
    assert_ok(rs_writer_put(writer, &rs_table_rank_device, &row, 1, NULL));
    assert_ok(rs_writer_commit(&writer, NULL));
    assert_read(store, RS_READ_RANK_BREAKDOWN,
                "0,0,100,10,90,0,7,0,2,5\n0,1,100,20,80,0,7,0,2,5\n1,0,100,99,1,0,7,0,2,5\n");
    rs_row_store_close(&store);
    assert_null(store);
}

/* --- members -------------------------------------------------------------------------------------------- */

static struct rs_row_op_member member_row(int64_t step, int64_t group, int64_t op, int64_t rank)
{
    struct rs_row_op_member row;
    rs_row_clear(&rs_table_op_member, &row);
    row.capture = CAPTURE;
    row.step = step;
    row.group_id = group;
    row.op_no = op;
    row.rank = rank;
    row.member_no = 0;
    row.op = 1;
    row.start_ns = 1000 * op + rank;
    row.end_ns = row.start_ns + 50;
    row.is_partial = 0;
    row.transport = rank % 2 ? "TCP" : NULL;
    return row;
}

/* `ops` operations of a group on `ranks` ranks in a step, and the operations themselves. */
static void put_ops(struct rs_writer *writer, int64_t step, int64_t group, int64_t ops,
                    int64_t ranks)
{
    for (int64_t op = 0; op < ops; op++) {
        struct rs_row_op row;
        rs_row_clear(&rs_table_op, &row);
        row.capture = CAPTURE;
        row.step = step;
        row.group_id = group;
        row.op_no = op;
        row.op = 1;
        row.is_p2p = row.is_matched = row.has_wait = row.is_partial = 0;
        row.ranks_seen = ranks;
        assert_ok(rs_writer_put(writer, &rs_table_op, &row, 1, NULL));
    }
    for (int64_t op = 0; op < ops; op++)
        for (int64_t rank = 0; rank < ranks; rank++) {
            const struct rs_row_op_member row = member_row(step, group, op, rank);
            assert_ok(rs_writer_put(writer, &rs_table_op_member, &row, 1, NULL));
        }
}

static void put_group(struct rs_row_store *store, int64_t group, const char *name)
{
    const struct rs_row_comm_group rows[] = {
        {.capture = CAPTURE, .group_id = group, .name = name, .size = 2}};
    struct rs_writer *writer = begin(store, RS_UNIT_CAPTURE, 0);
    assert_ok(rs_writer_put(writer, &rs_table_comm_group, rows, 1, NULL));
    assert_ok(rs_writer_commit(&writer, NULL));
}

static void put_step(struct rs_row_store *store, int64_t step, int64_t group, int64_t ops,
                     int64_t ranks)
{
    struct rs_writer *writer = begin(store, RS_UNIT_STEP, step);
    put_ops(writer, step, group, ops, ranks);
    assert_ok(rs_writer_commit(&writer, NULL));
}

static void expect_member(struct rs_buf *buf, int64_t step, int64_t group, int64_t op, int64_t rank)
{
    const struct rs_row_op_member row = member_row(step, group, op, rank);
    rs_csv_row(&rs_table_op_member, &row, buf);
}

/* Members of the steps and ranks that are asked for, in the order of their key; what has no such column is refused. */
static void rows_are_chosen(void **state)
{
    (void)state;
    struct rs_row_store *store = open_store(RS_ROWS_WRITE);
    static const int64_t written[] = {3, 4, -1, 9}, steps[] = {9, 3};
    static const int32_t ranks[] = {2, 0, 77};
    for (size_t i = 0; i < 4; i++)
        put_step(store, written[i], -5, 1500, 3);
    const struct rs_read_args args = {
        .capture = CAPTURE,
        .filter = {.steps = steps, .step_count = 2, .ranks = ranks, .rank_count = 3}};
    struct rs_buf expected = {0}, found = {0};
    for (size_t i = 0; i < 3000; i++)
        for (int64_t rank = 0; rank < 3; rank += 2)
            expect_member(&expected, i < 1500 ? 3 : 9, -5, (int64_t)(i % 1500), rank);
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    struct rs_err err = {0};
    char token[RS_TOKEN_BYTES];
    assert_ok(rs_read_open(store, RS_READ_OP_MEMBERS, &args, &cursor, &err));
    while (rs_cursor_next(cursor, &block, &err) == RS_OK) {
        for (size_t i = 0; i < block.count; i++)
            rs_csv_row(block.table, rs_block_row(&block, i), &found);
        /* Each page by a cursor of its own, which goes on where the last one was. */
        struct rs_read_args next = args;
        rs_cursor_token(cursor, token);
        next.token = token;
        rs_cursor_close(&cursor);
        assert_ok(rs_read_open(store, RS_READ_OP_MEMBERS, &next, &cursor, &err));
    }
    assert_int_equal(err.status, RS_OK);
    assert_string_equal(rs_buf_text(&found), rs_buf_text(&expected));
    rs_cursor_close(&cursor);

    static const enum rs_read none[] = {RS_READ_COLLECTIVES, RS_READ_LINKS, RS_READ_GROUPS};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_status(rs_read_open(store, none[i], &args, &cursor, &err), RS_INVALID);
    int64_t many[RS_READ_FILTER_MAX + 1] = {0};
    const struct rs_read_args over = {
        .capture = CAPTURE, .filter = {.steps = many, .step_count = RS_READ_FILTER_MAX + 1}};
    assert_status(rs_read_open(store, RS_READ_OP_MEMBERS, &over, &cursor, &err), RS_INVALID);
    rs_buf_fini(&expected);
    rs_buf_fini(&found);
    rs_block_fini(&block);
    rs_row_store_close(&store);
}

/* Some blocks a step, three steps, one of them outside every step. */
static void check_members(struct rs_row_store *store, enum rs_row_mode reader_mode)
{
    static const int64_t steps[] = {3, RS_NULL, -1};
    for (size_t i = 0; i < 3; i++)
        put_step(store, steps[i], -5, i == 1 ? 10000 : 3, 4);
    struct rs_row_store *reader = reader_mode == RS_ROWS_PRIVATE ? store : open_store(reader_mode);
    struct rs_buf expected = {0};
    for (int64_t op = 0; op < 10000; op++)
        for (int64_t rank = 0; rank < 4; rank++)
            expect_member(&expected, RS_NULL, -5, op, rank);
    for (int64_t k = 0; k < 24; k++)
        expect_member(&expected, k < 12 ? -1 : 3, -5, k % 12 / 4, k % 4);
    char *text = all_of(reader, RS_READ_OP_MEMBERS, NULL);
    assert_string_equal(text, rs_buf_text(&expected));
    rs_mem_free(text);
    rs_buf_fini(&expected);
    if (reader != store)
        rs_row_store_close(&reader);
}

static void members_come_back_from_memory(void **state)
{
    (void)state;
    struct rs_row_store *store = open_store(RS_ROWS_PRIVATE);
    check_members(store, RS_ROWS_PRIVATE);
    put_step(store, RS_NULL, -5, 1, 1); /* replaced by less */
    put_step(store, 3, -5, 0, 0);       /* and by nothing */
    put_step(store, -1, -5, 0, 0);
    struct rs_buf expected = {0};
    expect_member(&expected, RS_NULL, -5, 0, 0);
    assert_read(store, RS_READ_OP_MEMBERS, rs_buf_text(&expected));
    rs_buf_fini(&expected);
    rs_row_store_close(&store);
}

static size_t count_files(const char *dir)
{
    size_t count = 0;
    char *path = rs_file_join(folder, dir);
    DIR *stream = opendir(path);
    assert_non_null(stream);
    for (const struct dirent *item = readdir(stream); item; item = readdir(stream))
        count += item->d_name[0] != '.';
    (void)closedir(stream);
    rs_mem_free(path);
    return count;
}

static bool is_there(const char *name)
{
    char *path = rs_file_join(folder, name);
    const bool there = access(path, F_OK) == 0;
    rs_mem_free(path);
    return there;
}

static void members_come_back_from_files(void **state)
{
    (void)state;
    struct rs_row_store *store = open_store(RS_ROWS_WRITE), *other = NULL;
    struct rs_err err = {0};
    check_members(store, RS_ROWS_READ);
    assert_status(rs_row_store_open(folder, RS_ROWS_WRITE, &other, &err), RS_EXISTS);
    assert_int_equal(count_files("members"), 3);
    put_step(store, 3, -5, 2, 2);
    assert_int_equal(count_files("members"), 4); /* a reader may still look at the old one */
    rs_row_store_close(&store);
    assert_int_equal(count_files("members"), 3);
    assert_false(is_there("rows.db-wal")); /* one plain file */
    store = open_store(RS_ROWS_WRITE);
    char *text = all_of(store, RS_READ_WRITE_UNITS, NULL);
    assert_non_null(
        strstr(text, "7,step,3,0,4,6,4\n")); /* generation 4: two operations, four members */
    rs_mem_free(text);
    rs_row_store_close(&store);
}

static void a_read_of_nothing_says_so(void **state)
{
    (void)state;
    struct rs_row_store *store = NULL;
    struct rs_err err = {0};
    assert_status(rs_row_store_open(folder, RS_ROWS_READ, &store, &err), RS_NOTFOUND);
    assert_null(store);
    store = open_store(RS_ROWS_PRIVATE);
    const struct rs_read_args args = {.capture = CAPTURE};
    struct rs_cursor *cursor = NULL;
    for (unsigned i = 0; i < RS_READ_COUNT;
         i++) /* and every read is SQL with the columns it says */
        if (!rs_read_is_raw((enum rs_read)i))
            assert_read(store, (enum rs_read)i, "");
        else
            assert_status(rs_read_open(store, (enum rs_read)i, &args, &cursor, &err), RS_INVALID);
    rs_row_store_close(&store);
}

static void tables_of_another_version_are_refused(void **state)
{
    (void)state;
    struct rs_row_store *store = open_store(RS_ROWS_WRITE);
    struct rs_err err = {0};
    rs_row_store_close(&store);
    char *path = rs_file_join(folder, "rows.db");
    struct rs_buf buf = {0};
    assert_ok(rs_file_read(path, 1 << 24, &buf, NULL));
    uint8_t *at = memmem(buf.data, buf.length, "note_no INTEGER", 15);
    assert_non_null(at);
    memcpy(at, "note_nO", 7);
    assert_ok(rs_file_replace(path, buf.data, buf.length, false, NULL));
    assert_status(rs_row_store_open(folder, RS_ROWS_READ, &store, &err), RS_VERSION);
    assert_non_null(strstr(err.text, "note"));
    rs_buf_fini(&buf);
    rs_mem_free(path);
}

/* One byte changed anywhere in a segment: the sentence says what to do, nothing is made up. */
static void a_damaged_segment_is_refused(void **state)
{
    (void)state;
    struct rs_row_store *store = open_store(RS_ROWS_WRITE);
    struct rs_buf buf = {0};
    put_step(store, 1, 2, 50, 4);
    char *path = rs_file_join(folder, "members/1.1.seg");
    char *good = all_of(store, RS_READ_OP_MEMBERS, NULL);
    rs_row_store_close(&store);
    assert_ok(rs_file_read(path, 1 << 24, &buf, NULL));
    for (size_t at = 0; at < buf.length; at++) {
        struct rs_cursor *cursor = NULL;
        struct rs_block block = {0};
        struct rs_err err = {0};
        buf.data[at] ^= 0x41;
        assert_ok(rs_file_replace(path, buf.data, buf.length, false, NULL));
        store = open_store(RS_ROWS_READ);
        const struct rs_read_args args = {.capture = CAPTURE};
        enum rs_status status = rs_read_open(store, RS_READ_OP_MEMBERS, &args, &cursor, &err);
        if (status == RS_OK)
            status = rs_cursor_next(cursor, &block, &err);
        /* The keys in a block's head only say where to look; no other byte may differ. */
        if (status != RS_FORMAT && !(at >= 28 + 13 && at < 28 + 13 + 32))
            fail_msg("byte %zu: %s", at, rs_status_name(status));
        rs_cursor_close(&cursor);
        rs_block_fini(&block);
        rs_row_store_close(&store);
        buf.data[at] ^= 0x41;
    }
    for (size_t length = 0; length < buf.length; length += 7) {
        struct rs_cursor *cursor = NULL;
        struct rs_err err = {0};
        assert_ok(rs_file_replace(path, buf.data, length, false, NULL));
        store = open_store(RS_ROWS_READ);
        const struct rs_read_args args = {.capture = CAPTURE};
        assert_status(rs_read_open(store, RS_READ_OP_MEMBERS, &args, &cursor, &err), RS_FORMAT);
        assert_non_null(strstr(err.text, "make the rows again"));
        rs_row_store_close(&store);
    }
    rs_mem_free(good);
    rs_buf_fini(&buf);
    rs_mem_free(path);
}

static void members_out_of_order_are_refused(void **state)
{
    (void)state;
    struct rs_row_store *store = open_store(RS_ROWS_PRIVATE);
    struct rs_writer *writer = begin(store, RS_UNIT_STEP, 1);
    const struct rs_row_op_member rows[] = {member_row(1, 2, 0, 1), member_row(1, 2, 0, 0)};
    assert_status(rs_writer_put(writer, &rs_table_op_member, rows, 2, NULL), RS_INVALID);
    rs_writer_abandon(&writer);
    assert_read(store, RS_READ_OP_MEMBERS, "");
    rs_row_store_close(&store);
}

/* --- reads ------------------------------------------------------------------------------------------------ */

static void operations_are_numbered_as_they_come(void **state)
{
    (void)state;
    struct rs_row_store *store = open_store(RS_ROWS_PRIVATE);
    put_group(store, 9, "dp,\"x\"");
    put_step(store, 2, 9, 1, 2);
    put_step(store, 1, 9, 2, 2);
    put_step(store, RS_NULL, 9, 1, 1);
    assert_read(store, RS_READ_COLLECTIVES,
                ",\"dp,\"\"x\"\"\",all_reduce,,0,0,0,50,,,,,1,,exact\n"
                "1,\"dp,\"\"x\"\"\",all_reduce,,1,0,0,50,,,,,2,,exact\n"
                "1,\"dp,\"\"x\"\"\",all_reduce,,1,1,1,51,,,,,2,,exact\n"
                "1,\"dp,\"\"x\"\"\",all_reduce,,2,0,1000,1050,,,,,2,,exact\n"
                "1,\"dp,\"\"x\"\"\",all_reduce,,2,1,1001,1051,,,,,2,,exact\n"
                "2,\"dp,\"\"x\"\"\",all_reduce,,3,0,0,50,,,,,2,,exact\n"
                "2,\"dp,\"\"x\"\"\",all_reduce,,3,1,1,51,,,,,2,,exact\n");
    rs_row_store_close(&store);
}

static void a_read_goes_on_elsewhere(void **state)
{
    (void)state;
    struct rs_row_store *store = open_store(RS_ROWS_WRITE);
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    struct rs_buf first = {0};
    struct rs_err err = {0};
    char token[RS_TOKEN_BYTES];
    const struct rs_read_args args = {.capture = CAPTURE};
    put_group(store, 9, "dp");
    put_step(store, 1, 9, 2000, 3);
    assert_ok(rs_read_open(store, RS_READ_COLLECTIVES, &args, &cursor, NULL));
    assert_ok(rs_cursor_next(cursor, &block, NULL));
    assert_int_equal(block.count, RS_CURSOR_ROWS);
    for (size_t i = 0; i < block.count; i++)
        rs_csv_row(block.table, rs_block_row(&block, i), &first);
    rs_cursor_token(cursor, token);
    rs_cursor_close(&cursor);
    struct rs_row_store *reader = open_store(RS_ROWS_READ);
    char *rest = all_of(reader, RS_READ_COLLECTIVES, token);
    char *whole = all_of(reader, RS_READ_COLLECTIVES, NULL);
    rs_buf_string(&first, rest);
    assert_string_equal(rs_buf_text(&first), whole);
    put_step(store, 2, 9, 1, 1);
    const struct rs_read_args again = {.capture = CAPTURE, .token = token};
    assert_status(rs_read_open(reader, RS_READ_COLLECTIVES, &again, &cursor, &err), RS_AGAIN);
    static const char *const wrong[] = {"", "x", "1", "1.2x", "1.2.3"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct rs_read_args bad = {.capture = CAPTURE, .token = wrong[i]};
        assert_status(rs_read_open(reader, RS_READ_COLLECTIVES, &bad, &cursor, &err), RS_INVALID);
    }
    rs_mem_free(rest);
    rs_mem_free(whole);
    rs_buf_fini(&first);
    rs_block_fini(&block);
    rs_row_store_close(&reader);
    rs_row_store_close(&store);
}

static void a_reader_keeps_what_it_began_with(void **state)
{
    (void)state;
    struct rs_row_store *store = open_store(RS_ROWS_WRITE);
    put_group(store, 9, "dp");
    put_step(store, 1, 9, 1500, 4);
    struct rs_row_store *reader = open_store(RS_ROWS_READ);
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    size_t rows = 0;
    const struct rs_read_args args = {.capture = CAPTURE};
    assert_ok(rs_read_open(reader, RS_READ_COLLECTIVES, &args, &cursor, NULL));
    assert_ok(rs_cursor_next(cursor, &block, NULL));
    rows += block.count;
    put_step(store, 1, 9, 3, 4); /* replaced, and a step more, while it reads */
    put_step(store, 2, 9, 3, 4);
    char *during = all_of(reader, RS_READ_WRITE_UNITS, NULL); /* also what it opens now */
    assert_null(strstr(during, "step,2,"));
    while (rs_cursor_next(cursor, &block, NULL) == RS_OK)
        rows += block.count;
    assert_int_equal(rows, 6000);
    rs_cursor_close(&cursor);
    char *after = all_of(reader, RS_READ_WRITE_UNITS, NULL);
    assert_non_null(strstr(after, "step,2,"));
    rs_mem_free(during);
    rs_mem_free(after);
    rs_block_fini(&block);
    rs_row_store_close(&reader);
    rs_row_store_close(&store);
}

/* --- reads while a writer writes ------------------------------------------------------------------------------ */

enum { ROUNDS = 60, READERS = 2 };
static atomic_bool is_over;

/* Every round writes step 1 with `round` operations and says so in the group's size: a reader sees both or neither of a
 * unit; within a step operations and members always agree. */
static void *read_all_the_time(void *result_)
{
    size_t *reads = result_;
    struct rs_row_store *reader = open_store(RS_ROWS_READ);
    struct rs_block block = {0};
    bool is_last;
    do {
        is_last = atomic_load(&is_over); /* one more read after the last write */
        struct rs_cursor *ops = NULL, *members = NULL;
        const struct rs_read_args args = {.capture = CAPTURE};
        size_t op_rows = 0, member_rows = 0;
        assert_ok(rs_read_open(reader, RS_READ_OPS, &args, &ops, NULL));
        assert_ok(rs_read_open(reader, RS_READ_OP_MEMBERS, &args, &members, NULL));
        while (rs_cursor_next(ops, &block, NULL) == RS_OK)
            op_rows += block.count;
        while (rs_cursor_next(members, &block, NULL) == RS_OK)
            member_rows += block.count;
        assert_int_equal(member_rows, op_rows * 2);
        rs_cursor_close(&ops);
        rs_cursor_close(&members);
        ++*reads;
    } while (!is_last);
    rs_block_fini(&block);
    rs_row_store_close(&reader);
    return NULL;
}

static void reads_answer_while_a_writer_writes(void **state)
{
    (void)state;
    struct rs_row_store *store = open_store(RS_ROWS_WRITE);
    pthread_t threads[READERS];
    size_t reads[READERS] = {0};
    put_step(store, 1, 9, 1, 2);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_all_the_time, &reads[i]), 0);
    for (int64_t round = 1; round <= ROUNDS; round++)
        put_step(store, round % 3, 9, round * 7 % 50 + 1, 2);
    atomic_store(&is_over, true);
    for (int i = 0; i < READERS; i++) {
        (void)pthread_join(threads[i], NULL);
        assert_true(reads[i] > 0);
    }
    rs_row_store_close(&store);
}

/* --- copies --------------------------------------------------------------------------------------------- */

static void put_some_of_all_kinds(void)
{
    struct rs_row_store *store = open_store(RS_ROWS_WRITE);
    put_group(store, 9, "dp");
    put_step(store, 1, 9, 20, 2);
    put_step(store, 2, 9, 3, 2);
    for (int64_t rank = 0; rank < 2; rank++) {
        const struct rs_row_rank_device rows[] = {device_row(rank, 0, 10), device_row(rank, 1, 20)};
        struct rs_writer *writer = begin(store, RS_UNIT_RANK, rank);
        assert_ok(rs_writer_put(writer, &rs_table_rank_device, rows, 2, NULL));
        assert_ok(rs_writer_commit(&writer, NULL));
    }
    rs_row_store_close(&store);
}

static void run_sql(const char *sql)
{
    char path[128];
    sqlite3 *db = NULL;
    (void)snprintf(path, sizeof path, "%s/rows.db", folder);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), 1);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* All of what the folder holds, into memory. */
static enum rs_status copy_of(uint64_t *rows_p, struct rs_err *err)
{
    struct rs_row_store *from = open_store(RS_ROWS_READ), *to = open_store(RS_ROWS_PRIVATE);
    const enum rs_status status = rs_row_store_copy(from, to, CAPTURE, rows_p, err);
    if (status == RS_OK)
        for (enum rs_read read = 0; read < RS_READ_COUNT; read++) {
            if (rs_read_is_raw(read) || read == RS_READ_WRITE_UNITS)
                continue;
            char *text = all_of(from, read, NULL);
            assert_read(to, read, text);
            rs_mem_free(text);
        }
    rs_row_store_close(&from);
    rs_row_store_close(&to);
    return status;
}

static void a_copy_is_whole_or_fails(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *why;
    } damages[] = {
        {"UPDATE write_unit SET rows = rows + 1 WHERE unit_kind = 0 AND a = 1", "unit rank 1 0"},
        {"UPDATE write_unit SET members = 5 WHERE unit_kind = 0 AND a = 1", "unit rank 1 0"},
        {"DELETE FROM write_unit WHERE unit_kind = 0 AND a = 0", "unit rank 1 0 has 0 rows, not 2"},
        {"DELETE FROM write_unit WHERE unit_kind = 0 AND a = 1",
         "rows of rank_device are of no unit"},
        {"DELETE FROM write_unit WHERE unit_kind = 2", "rows of comm_group are of no unit"},
        {"UPDATE op SET step = 7 WHERE step = 2 AND op_no = 2", "unit step 2 0 has"},
    };
    uint64_t rows = 0;
    put_some_of_all_kinds();
    assert_ok(copy_of(&rows, NULL));
    assert_int_equal(rows, 1 + 20 + 40 + 3 + 6 + 4);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct rs_err err = {0};
        rs_row_store_remove(folder);
        put_some_of_all_kinds();
        run_sql(damages[i].sql);
        assert_status(copy_of(&rows, &err), RS_FORMAT);
        if (!strstr(err.text, damages[i].why))
            fail_msg("%s: %s", damages[i].sql, err.text);
    }
}

static void take_line(void *self, const char *line)
{
    char *lines = self;
    const size_t used = strlen(lines);
    (void)snprintf(lines + used, 512 - used, "%s\n", line);
}

/* Into a folder of a capture that has rows already, and what a copy left that was killed. */
static void a_copy_into_a_folder_replaces_its_rows_and_sweeps(void **state)
{
    (void)state;
    char into[128], left[192], wanted[256], lines[512] = "";
    uint64_t rows = 0, again = 0;
    const pid_t dead = fork();
    if (dead == 0)
        _exit(0);
    assert_int_equal(waitpid(dead, NULL, 0), dead);
    (void)snprintf(into, sizeof into, "%s/into", folder);
    (void)snprintf(left, sizeof left, "%s/.copy.%ld", into, (long)dead);
    (void)snprintf(wanted, sizeof wanted, "%s is of a copy that was killed: removed\n", left);
    assert_int_equal(mkdir(into, 0700), 0);
    assert_int_equal(mkdir(left, 0700), 0);
    put_some_of_all_kinds();
    struct rs_row_copy_into copy = {
        .capture = CAPTURE, .dir = into, .print = take_line, .self = lines};
    for (int i = 0; i < 2; i++) {
        struct rs_row_store *from = open_store(RS_ROWS_READ);
        copy.from = from;
        assert_ok(rs_row_store_copy_into(&copy, &rows, NULL));
        rs_row_store_close(&from);
        assert_int_equal(rows, 74);
    }
    assert_string_equal(lines, wanted);
    assert_int_equal(access(left, F_OK), -1);
    struct rs_row_store *from = NULL, *to = open_store(RS_ROWS_PRIVATE);
    assert_ok(rs_row_store_open(into, RS_ROWS_READ, &from, NULL));
    assert_ok(rs_row_store_copy(from, to, CAPTURE, &again, NULL));
    assert_int_equal(again, 74);
    rs_row_store_close(&from);
    copy.from = to;
    copy.dir = "/no/such/folder";
    assert_status(rs_row_store_copy_into(&copy, &rows, NULL), RS_IO);
    rs_row_store_close(&to);
}

/* A second copy is what the source has, not what both ever had: a step, its members and a rank are gone. */
static void a_copy_takes_away_what_the_source_lost(void **state)
{
    (void)state;
    uint64_t rows = 0;
    struct rs_row_store *to = open_store(RS_ROWS_PRIVATE);
    put_some_of_all_kinds();
    struct rs_row_store *from = open_store(RS_ROWS_READ);
    assert_ok(rs_row_store_copy(from, to, CAPTURE, &rows, NULL));
    rs_row_store_close(&from);
    assert_int_equal(rows, 74);
    rs_row_store_remove(folder);
    from = open_store(RS_ROWS_WRITE);
    put_group(from, 9, "dp");
    put_step(from, 1, 9, 20, 2);
    rs_row_store_close(&from);
    from = open_store(RS_ROWS_READ);
    assert_ok(rs_row_store_copy(from, to, CAPTURE, &rows, NULL));
    assert_int_equal(rows, 61);
    for (enum rs_read read = 0; read < RS_READ_COUNT; read++) {
        if (rs_read_is_raw(read) || read == RS_READ_WRITE_UNITS)
            continue;
        char *text = all_of(from, read, NULL);
        assert_read(to, read, text);
        rs_mem_free(text);
    }
    char *units = all_of(to, RS_READ_WRITE_UNITS, NULL);
    size_t count = 0;
    for (const char *at = units; *at; at++)
        count += *at == '\n';
    assert_int_equal(count, 2);
    rs_mem_free(units);
    rs_row_store_close(&from);
    rs_row_store_close(&to);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        EACH(a_unit_is_replaced_whole),
        EACH(members_come_back_from_memory),
        EACH(members_come_back_from_files),
        EACH(a_read_of_nothing_says_so),
        EACH(tables_of_another_version_are_refused),
        EACH(a_damaged_segment_is_refused),
        EACH(members_out_of_order_are_refused),
        EACH(operations_are_numbered_as_they_come),
        EACH(rows_are_chosen),
        EACH(a_read_goes_on_elsewhere),
        EACH(a_reader_keeps_what_it_began_with),
        EACH(reads_answer_while_a_writer_writes),
        EACH(a_copy_is_whole_or_fails),
        EACH(a_copy_into_a_folder_replaces_its_rows_and_sweeps),
        EACH(a_copy_takes_away_what_the_source_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
