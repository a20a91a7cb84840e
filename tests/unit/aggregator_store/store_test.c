/* SPDX-License-Identifier: Apache-2.0 */
/* The store: what was synced is there after a crash, positions come from the data, captures explain themselves. */
#include "aggregator/store/store.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    tmp_dir_make(dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    tmp_dir_remove(dir);
    return 0;
}

static struct rs_store *open_store(void)
{
    struct rs_store *store = NULL;
    struct rs_err err = {0};
    const enum rs_status status = rs_store_open(dir, 2000, &store, &err);
    if (status < 0)
        print_error("%s\n", err.text);
    assert_ok(status);
    return store;
}

static void create(struct rs_store *store, const char *id)
{
    struct rs_capture_facts facts = {.world = 2};
    (void)snprintf(facts.id, sizeof facts.id, "%s", id);
    (void)snprintf(facts.run, sizeof facts.run, "r");
    (void)snprintf(facts.state, sizeof facts.state, "collecting");
    assert_ok(rs_store_create_capture(store, &facts, NULL));
}

static struct rs_store_stream *stream_of(struct rs_store *store, uint32_t rank)
{
    struct rs_store_stream *stream = NULL;
    assert_ok(rs_store_stream(store, "r", rank, "i", &stream, NULL));
    return stream;
}

static void append(struct rs_store *store, uint32_t rank, const char *capture, unsigned flags,
                   const char *text)
{
    struct rs_store_stream *stream = stream_of(store, rank);
    const struct rs_store_source source = {.host = "h", .origin = "o", .world = 2};
    union {
        const char *in;
        void *out;
    } bytes = {.in = text};
    const struct iovec part = {.iov_base = bytes.out, .iov_len = strlen(text)};
    assert_ok(rs_store_append(store, stream, capture, &source, stream->appended_seq + 1, flags,
                              &part, 1, NULL));
}

static void close_capture(struct rs_store *store, const char *id)
{
    struct rs_capture_facts facts;
    assert_ok(rs_store_find_capture(store, id, &facts, NULL));
    facts.is_closed = true;
    facts.closed_ns = 5;
    (void)snprintf(facts.state, sizeof facts.state, "complete");
    assert_ok(rs_store_close_capture(store, &facts, NULL));
}

static struct rs_stored *open_stored(const struct rs_store *store, const char *id)
{
    struct rs_stored *stored = NULL;
    char *path = rs_store_capture_dir(store, id);
    assert_ok(rs_store_open_capture(path, &stored, NULL));
    rs_mem_free(path);
    return stored;
}

static void nothing_is_durable_before_a_sync(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", 0, "one");
    assert_int_equal(stream_of(store, 0)->appended_seq, 1);
    assert_int_equal(stream_of(store, 0)->durable_seq, 0);
    assert_ok(rs_store_sync(store, NULL));
    assert_int_equal(stream_of(store, 0)->durable_seq, 1);
    rs_store_close(&store);
}

static void positions_are_found_in_the_segments_after_a_crash(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    for (int i = 0; i < 100; i++) { /* several segments of 2000 bytes */
        append(store, 0, "c1", 0, "some forty bytes of what is a chunk here");
        if (i < 50)
            append(store, 1, "c1", i == 49 ? RS_ENVELOPE_LAST : 0, "another");
    }
    rs_store_close(&store); /* without sync or close: as good as a kill */
    store = open_store();
    assert_int_equal(stream_of(store, 0)->durable_seq, 100);
    assert_false(stream_of(store, 0)->is_ended);
    assert_int_equal(stream_of(store, 1)->durable_seq, 50);
    assert_true(stream_of(store, 1)->is_ended);
    assert_string_equal(stream_of(store, 1)->capture, "c1");
    append(store, 0, "c1", RS_ENVELOPE_LAST, "the last");
    close_capture(store, "c1");
    struct rs_stored *stored = open_stored(store, "c1");
    assert_int_equal(rs_stored_stream_count(stored), 2);
    assert_int_equal(rs_stored_stream(stored, 0)->chunk_count, 101);
    assert_int_equal(rs_stored_stream(stored, 0)->missing_count, 0);
    assert_int_equal(rs_stored_stream(stored, 0)->repeated_count, 0);
    assert_true(rs_stored_stream(stored, 0)->is_ended);
    assert_string_equal(rs_stored_facts(stored)->state, "complete");
    assert_int_equal(rs_stored_damage(stored, NULL), 0);
    rs_stored_close(&stored);
    rs_store_close(&store);
}

static void positions_of_closed_captures_are_in_the_catalogue(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", 0, "one");
    append(store, 0, "c1", RS_ENVELOPE_LAST, "two");
    close_capture(store, "c1");
    rs_store_close(&store);
    store = open_store();
    assert_int_equal(stream_of(store, 0)->durable_seq, 2);
    assert_true(stream_of(store, 0)->is_ended);
    /* the same incarnation, another capture: numbers go on */
    create(store, "c2");
    append(store, 0, "c2", RS_ENVELOPE_LAST, "three");
    close_capture(store, "c2");
    struct rs_stored *stored = open_stored(store, "c2");
    assert_int_equal(rs_stored_stream(stored, 0)->first_seq, 3);
    assert_int_equal(rs_stored_stream(stored, 0)->missing_count, 0);
    rs_stored_close(&stored);
    rs_store_close(&store);
}

static void a_closed_capture_opens_again_for_late_chunks(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", 0, "one");
    close_capture(store, "c1");
    append(store, 0, "c1", RS_ENVELOPE_LAST, "late");
    rs_store_close(&store); /* a crash while it is open again */
    store = open_store();
    assert_int_equal(stream_of(store, 0)->durable_seq, 2);
    struct rs_stored *stored = open_stored(store, "c1");
    assert_int_equal(rs_stored_stream(stored, 0)->chunk_count, 2);
    rs_stored_close(&stored);
    rs_store_close(&store);
}

static void a_torn_segment_gives_a_prefix_at_every_byte(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    for (int i = 0; i < 3; i++)
        append(store, 0, "c1", 0, "some bytes");
    rs_store_close(&store);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/captures/c1/segments/00000001.seg", dir);
    struct rs_buf whole = {0};
    assert_ok(rs_file_read(path, 1 << 20, &whole, NULL));
    rs_seq best = 0;
    for (size_t length = 0; length <= whole.length; length++) {
        assert_ok(rs_file_replace(path, whole.data, length, false, NULL));
        store = open_store();
        const rs_seq found = stream_of(store, 0)->durable_seq;
        assert_true(found >= best && found <= 3);
        best = found;
        append(store, 0, "c1", 0, "some bytes");
        struct rs_stored *stored = open_stored(store, "c1");
        assert_int_equal(rs_stored_stream(stored, 0)->chunk_count, found + 1);
        assert_int_equal(rs_stored_stream(stored, 0)->missing_count, 0);
        rs_stored_close(&stored);
        rs_store_close(&store);
    }
    assert_int_equal(best, 3);
    rs_buf_fini(&whole);
}

static void damage_inside_is_told_when_the_chunk_is_read(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", 0, "aaaaaaaa");
    append(store, 0, "c1", RS_ENVELOPE_LAST, "bbbbbbbb");
    close_capture(store, "c1");
    char path[256];
    (void)snprintf(path, sizeof path, "%s/captures/c1/segments/00000001.seg", dir);
    struct rs_buf whole = {0};
    assert_ok(rs_file_read(path, 1 << 20, &whole, NULL));
    uint8_t *found = memmem(whole.data, whole.length, "aaaaaaaa", 8);
    assert_non_null(found);
    found[3] = 'x';
    assert_ok(rs_file_replace(path, whole.data, whole.length, false, NULL));
    struct rs_stored *stored = open_stored(store, "c1");
    struct rs_stored_chunk chunk;
    assert_status(rs_stored_chunk(stored, 0, 0, true, &chunk, NULL), RS_FORMAT);
    assert_ok(rs_stored_chunk(stored, 0, 1, true, &chunk, NULL));
    assert_status(rs_stored_chunk(stored, 0, 2, true, &chunk, NULL), RS_END);
    rs_stored_close(&stored);
    rs_buf_fini(&whole);
    rs_store_close(&store);
}

static void an_id_cannot_leave_the_folder(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    struct rs_capture_facts facts = {.created_ns = 1};
    (void)snprintf(facts.id, sizeof facts.id, "../../x");
    assert_status(rs_store_create_capture(store, &facts, NULL), RS_INVALID);
    rs_store_close(&store);
}

static void data_has_one_writer(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    struct rs_store *second = NULL;
    assert_status(rs_store_open(dir, 0, &second, NULL), RS_EXISTS);
    rs_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_durable_before_a_sync, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(positions_are_found_in_the_segments_after_a_crash, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(positions_of_closed_captures_are_in_the_catalogue, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_closed_capture_opens_again_for_late_chunks, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_torn_segment_gives_a_prefix_at_every_byte, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(damage_inside_is_told_when_the_chunk_is_read, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(an_id_cannot_leave_the_folder, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(data_has_one_writer, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
