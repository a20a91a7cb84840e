/* SPDX-License-Identifier: Apache-2.0 */
/* What verify says of a capture: of one that is whole, one whose numbers have a gap, and one that is empty. */
#include "aggregator/output/verify_report.h"

#include "aggregator/store/store.h"
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "common/reduce/reduce.h"
#include "tests/support/make_events.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <string.h>

static struct {
    char folder[64];
    char *dir; /* of the capture */
    struct rs_store *store;
    struct rs_store_stream *stream;
    const char *capture;
    rs_seq seq, left_out; /* a number that never comes; 0: none */
    struct rs_buf held;   /* the newest chunk: appended with the next one, or as the last */
    char lines[4096];
    size_t calls;
} made;

static void append_held(unsigned flags)
{
    const struct rs_store_source source = {.host = "n1", .origin = "made"};
    struct iovec part = {made.held.data, made.held.length};
    if (!made.held.length || ++made.seq == made.left_out)
        return;
    const struct rs_store_chunk chunk = {
        .seq = made.seq, .flags = flags, .parts = &part, .part_count = 1};
    assert_ok(rs_store_append(made.store, made.stream, made.capture, &source, &chunk, NULL));
}

static enum rs_status on_chunk(void *self, struct rs_view chunk,
                               const struct rs_chunk_header *header, struct rs_err *err)
{
    (void)self;
    (void)header;
    (void)err;
    append_held(0);
    rs_buf_reset(&made.held);
    rs_buf_bytes(&made.held, chunk.data, chunk.length);
    return RS_OK;
}

/* A kernel, the end and the summary. */
static void put_rank(void)
{
    struct make_events e;
    struct rs_chunk_writer *writer = NULL;
    struct rs_reduce *reduce = NULL;
    struct rs_summary summary;
    struct rs_buf bytes = {0};
    make_events_init(&e);
    make_row(&e, RS_KIND_KERNEL, "gemm", make_device_lane(&e, 0, 7), 100, 200);
    const struct rs_chunk_writer_options options = {
        .strings = &e.strings, .lanes = &e.lanes, .put = on_chunk};
    assert_ok(rs_reduce_new(&e.strings, &e.lanes, &reduce));
    assert_ok(rs_chunk_writer_new(&options, &writer, NULL));
    assert_ok(rs_reduce_add(reduce, &e.batch, NULL));
    assert_ok(rs_chunk_writer_add(writer, &e.batch, NULL));
    assert_ok(rs_chunk_writer_info(writer, &e.info, true, NULL));
    assert_ok(rs_reduce_finish(reduce, &e.info, &summary, NULL));
    assert_ok(rs_summary_encode(&summary, &bytes, NULL));
    assert_ok(rs_chunk_writer_summary(writer, rs_view_of(bytes.data, bytes.length), NULL));
    append_held(RS_ENVELOPE_LAST);
    rs_chunk_writer_free(&writer);
    rs_reduce_free(&reduce);
    rs_summary_fini(&summary);
    rs_buf_fini(&bytes);
    rs_buf_fini(&made.held);
    make_events_fini(&e);
}

static void make(bool has_rank, rs_seq left_out)
{
    struct rs_capture_facts facts = {.run = "r1", .source = "files", .state = "complete"};
    assert_ok(rs_store_open(made.folder, 0, &made.store, NULL));
    assert_ok(rs_store_create_capture(made.store, &facts, NULL));
    made.capture = facts.id;
    made.left_out = left_out;
    const struct rs_store_key key = {
        .run = facts.run, .incarnation = "n1:1", .rank = 3, .capture = facts.id};
    if (has_rank) {
        assert_ok(rs_store_stream(made.store, &key, &made.stream, NULL));
        put_rank();
    }
    assert_ok(rs_store_sync(made.store, NULL));
    assert_ok(rs_store_close_capture(made.store, &facts, NULL));
    made.dir = rs_store_capture_dir(made.store, facts.id);
    assert_non_null(made.dir);
    rs_store_close(&made.store);
}

static int setup(void **state)
{
    (void)state;
    memset(&made, 0, sizeof made);
    tmp_dir_make(made.folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rs_mem_free(made.dir);
    tmp_dir_remove(made.folder);
    return 0;
}

static void take(void *self, const char *text)
{
    (void)self;
    const size_t used = strlen(made.lines);
    (void)snprintf(made.lines + used, sizeof made.lines - used, "%s", text);
    made.calls++;
}

static struct rs_verify_totals verify(bool as_json)
{
    const struct rs_verify_report report = {.as_json = as_json, .print = take};
    struct rs_capture_data *data = NULL;
    struct rs_verify_totals totals;
    assert_ok(rs_capture_data_open(made.dir, &data, NULL));
    assert_ok(rs_output_verify(data, &report, &totals, NULL));
    rs_capture_data_close(&data);
    return totals;
}

static void assert_said(const char *wanted)
{
    if (!strstr(made.lines, wanted))
        fail_msg("\"%s\" is not in:\n%s", wanted, made.lines);
}

static void a_whole_capture_is_good_stream_by_stream(void **state)
{
    (void)state;
    make(true, 0);
    const struct rs_verify_totals totals = verify(false);
    assert_true(totals.is_good);
    assert_int_equal(totals.streams, 1);
    assert_int_equal(totals.rows, 1);
    assert_int_equal(made.calls, 2); /* as it is read, then the totals */
    assert_said("rank 3     n1:1");
    assert_said(", summary equal\n");
    assert_said("1 rows: 0 missing, 0 double, 0 streams unfinished, 0 with damage\n");
}

static void the_document_says_the_same_in_one_piece(void **state)
{
    (void)state;
    make(true, 0);
    assert_true(verify(true).is_good);
    assert_int_equal(made.calls, 1);
    assert_said("\"schema_version\": 1");
    assert_said("\"incarnation\": \"n1:1\"");
    assert_said("\"summary\": \"equal\"");
    assert_said("\"wrong\": null");
    assert_said("\"damage\": null");
    assert_said("\"is_good\": true\n}\n");
}

static void a_number_that_never_came_is_missing(void **state)
{
    (void)state;
    make(true, 1);
    const struct rs_verify_totals totals = verify(false);
    assert_false(totals.is_good);
    assert_said("WRONG");
}

static void no_stream_is_not_good(void **state)
{
    (void)state;
    make(false, 0);
    const struct rs_verify_totals totals = verify(false);
    assert_false(totals.is_good);
    assert_int_equal(totals.streams, 0);
    assert_said("0 streams, 0 chunks, 0 bytes, 0 rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_whole_capture_is_good_stream_by_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(the_document_says_the_same_in_one_piece, setup, teardown),
        cmocka_unit_test_setup_teardown(a_number_that_never_came_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(no_stream_is_not_good, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
