/* SPDX-License-Identifier: Apache-2.0 */
/* What damaged or made-up bytes do to the reader: a status, never more. */
#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "common/chunk/chunk_priv.h"
#include "tests/support/chunk_list.h"
#include "tests/support/make_batches.h"
#include "tests/support/rs_test.h"

struct fixture {
    struct make_stream stream;
    struct chunk_list list;
};

/* Dictionary, events, info and summary of a small wild stream. */
static int set_up(void **state)
{
    struct fixture *f = rs_mem_calloc(1, sizeof *f);
    struct rs_chunk_writer *writer;
    struct rs_trace_info info;
    make_open(&f->stream, 21, 300);
    make_wild(&f->stream, 300);
    const struct rs_chunk_writer_options options = {.strings = &f->stream.strings,
                                                    .lanes = &f->stream.lanes,
                                                    .put = chunk_list_put,
                                                    .put_self = &f->list};
    assert_ok(rs_chunk_writer_new(&options, &writer, NULL));
    rs_trace_info_init(&info);
    assert_ok(rs_trace_info_drop(&info, &f->stream.strings, "because", 2));
    assert_ok(rs_chunk_writer_add(writer, &f->stream.batch, NULL));
    assert_ok(rs_chunk_writer_info(writer, &info, true, NULL));
    assert_ok(rs_chunk_writer_summary(writer, rs_view_of("abc", 3), NULL));
    rs_chunk_writer_free(&writer);
    rs_trace_info_fini(&info);
    assert_int_equal(f->list.count, 4);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    chunk_list_fini(&f->list);
    make_close(&f->stream);
    rs_mem_free(f);
    return 0;
}

/* A reader that has read the chunks before `upto`. */
static void open_reader(const struct fixture *f, size_t upto, struct rs_chunk_reader *reader)
{
    const struct rs_batch *batch;
    assert_ok(rs_chunk_reader_init(reader, 0));
    for (size_t i = 0; i < upto; i++)
        assert_ok(rs_chunk_read(reader, chunk_list_at(&f->list, i), &batch, NULL, NULL));
}

static uint8_t *copy_of(struct rs_view chunk)
{
    uint8_t *copy = rs_mem_calloc(1, chunk.length);
    assert_non_null(copy);
    memcpy(copy, chunk.data, chunk.length);
    return copy;
}

static void a_flipped_bit_is_found(void **state)
{
    const struct fixture *f = *state;
    for (size_t i = 0; i < f->list.count; i++) {
        struct rs_chunk_reader reader;
        struct rs_chunk_header header;
        const struct rs_view chunk = chunk_list_at(&f->list, i);
        const struct rs_batch *batch;
        uint8_t *copy = copy_of(chunk);
        open_reader(f, i, &reader);
        /* every bit of the header, every 13th of the body */
        for (size_t bit = 0; bit < chunk.length * 8;
             bit += bit < (size_t)RS_CHUNK_HEADER_BYTES * 8 ? 1 : 13) {
            copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
            const struct rs_view flipped = rs_view_of(copy, chunk.length);
            assert_status(rs_chunk_read(&reader, flipped, &batch, NULL, NULL), RS_FORMAT);
            if (bit < (size_t)RS_CHUNK_HEADER_BYTES * 8)
                assert_status(rs_chunk_peek(flipped, &header, NULL), RS_FORMAT);
            copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        assert_ok(rs_chunk_read(&reader, rs_view_of(copy, chunk.length), &batch, NULL, NULL));
        rs_chunk_reader_fini(&reader);
        rs_mem_free(copy);
    }
}

static void a_truncation_is_found(void **state)
{
    const struct fixture *f = *state;
    for (size_t i = 0; i < f->list.count; i++) {
        struct rs_chunk_reader reader;
        const struct rs_view chunk = chunk_list_at(&f->list, i);
        const struct rs_batch *batch;
        open_reader(f, i, &reader);
        for (size_t length = 0; length < chunk.length; length += length < 300 ? 1 : 7) {
            uint8_t *cut =
                rs_mem_calloc(1, length); /* its own memory, so that ASan sees a read past it */
            memcpy(cut, chunk.data, length);
            assert_status(rs_chunk_read(&reader, rs_view_of(cut, length), &batch, NULL, NULL),
                          RS_FORMAT);
            rs_mem_free(cut);
        }
        rs_chunk_reader_fini(&reader);
    }
}

static void a_missing_dictionary_is_named(void **state)
{
    const struct fixture *f = *state;
    struct rs_chunk_reader reader;
    struct rs_err err = {0};
    const struct rs_batch *batch;
    open_reader(f, 0, &reader);
    assert_status(rs_chunk_read(&reader, chunk_list_at(&f->list, 1), &batch, NULL, &err),
                  RS_FORMAT);
    assert_non_null(strstr(err.text, "dictionary chunk is missing"));
    assert_int_equal(reader.rows_read, 0);
    rs_chunk_reader_fini(&reader);
}

/* A chunk around a body that is not compressed, with right checksums: only the decoder can object. */
static struct rs_view seal_body(struct rs_buf *to, struct rs_chunk_header header,
                                const struct rs_buf *body)
{
    uint8_t bytes[RS_CHUNK_HEADER_BYTES];
    header.body_bytes = header.raw_bytes = (uint32_t)body->length;
    header.body_crc = rs_crc32c(0, body->data, body->length);
    header_encode(&header, CHUNK_STORED, bytes);
    rs_buf_reset(to);
    rs_buf_bytes(to, bytes, sizeof bytes);
    rs_buf_bytes(to, body->data, body->length);
    return rs_view_of(to->data, to->length);
}

static void the_header_refuses_what_no_writer_writes(void **state)
{
    (void)state;
    static const struct rs_chunk_header good = {.kind = RS_CHUNK_EVENTS, .count = 1};
    struct rs_chunk_header cases[] = {good, good, good, good, good, good, good};
    cases[0].kind = (enum rs_chunk_kind)9;
    cases[1].count = RS_CHUNK_ROWS_MAX + 1;
    cases[2].count = 0;
    cases[3].flags = RS_CHUNK_END;
    cases[4].last_ns = -1;
    cases[5].part_count = 1;
    cases[6].body_bytes = cases[6].raw_bytes = RS_CHUNK_MAX_BYTES;
    uint8_t bytes[RS_CHUNK_HEADER_BYTES];
    struct rs_chunk_header header;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        header_encode(&cases[i], CHUNK_STORED, bytes);
        assert_status(rs_chunk_peek(rs_view_of(bytes, sizeof bytes), &header, NULL), RS_FORMAT);
    }
    header_encode(&good, CHUNK_STORED, bytes);
    assert_ok(rs_chunk_peek(rs_view_of(bytes, sizeof bytes), &header, NULL));
    header_encode(&good, 2, bytes);
    assert_status(rs_chunk_peek(rs_view_of(bytes, sizeof bytes), &header, NULL), RS_FORMAT);
}

static void another_version_is_told_from_damage(void **state)
{
    (void)state;
    const struct rs_chunk_header good = {.kind = RS_CHUNK_EVENTS, .count = 1};
    struct rs_chunk_header header;
    uint8_t bytes[RS_CHUNK_HEADER_BYTES];
    header_encode(&good, CHUNK_STORED, bytes);
    bytes[4] = 2;
    const uint32_t crc = rs_crc32c(0, bytes, 60);
    for (int i = 0; i < 4; i++)
        bytes[60 + i] = (uint8_t)(crc >> (8 * i));
    assert_status(rs_chunk_peek(rs_view_of(bytes, sizeof bytes), &header, NULL), RS_VERSION);
}

/* Every byte of an events body set to several values, with right checksums around it: what is not refused
 * passes rs_batch_check(). */
static void a_body_with_right_checksums_and_wrong_bytes_is_refused_or_lawful(void **state)
{
    const struct fixture *f = *state;
    struct rs_chunk_reader reader;
    struct encoder *encoder;
    struct rs_view body;
    struct rs_buf changed = {0}, chunk = {0};
    struct rs_chunk_header header;
    const struct rs_batch *batch;
    size_t refused = 0;
    open_reader(f, 1, &reader);
    assert_ok(rs_chunk_peek(chunk_list_at(&f->list, 1), &header, NULL));
    assert_ok(encoder_new(300, &encoder));
    assert_ok(encoder_run(encoder, &f->stream.batch, &body));
    static const uint8_t values[] = {0, 1, 2, 0x20, 0x7f, 0x80, 0xff};
    for (size_t at = 0; at < body.length; at++) {
        for (size_t v = 0; v < sizeof values; v++) {
            rs_buf_reset(&changed);
            rs_buf_bytes(&changed, body.data, body.length);
            changed.data[at] = values[v];
            const enum rs_status status =
                rs_chunk_read(&reader, seal_body(&chunk, header, &changed), &batch, NULL, NULL);
            if (status == RS_OK)
                assert_ok(rs_batch_check(batch, NULL));
            else
                assert_int_equal(status, RS_FORMAT);
            refused += status != RS_OK;
        }
        if (at == 3000) /* the directory and the first columns; the rest is bytes of values */
            at = body.length > 3500 ? body.length - 500 : at;
    }
    assert_true(refused > 0);
    encoder_free(&encoder);
    rs_buf_fini(&changed);
    rs_buf_fini(&chunk);
    rs_chunk_reader_fini(&reader);
}

static void a_dictionary_that_contradicts_itself_is_refused(void **state)
{
    const struct fixture *f = *state;
    struct rs_chunk_reader reader;
    struct rs_buf body = {0}, chunk = {0};
    const struct rs_batch *batch;
    const struct rs_chunk_header header = {.kind = RS_CHUNK_DICTIONARY, .count = 1};
    static const char *const bodies[] = {
        "\0\1\1\1\0\0X",              /* another text for id 1 */
        "\0\x7f\x7f\x7f\x7f",         /* more strings than bytes */
        "\0\1\1\xff\xff\xff\x7f\0\0", /* a string longer than the chunk */
        "\2",                         /* unknown form */
        "\1\1\5\3ab",                 /* a piece that does not begin at 0 */
        "\0\1\0\0\1\3\0\0\0\0\0",     /* an unknown kind of lane */
    };
    static const size_t lengths[] = {7, 5, 9, 1, 6, 11};
    open_reader(f, 1, &reader);
    const size_t strings = reader.strings.count;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        rs_buf_reset(&body);
        rs_buf_bytes(&body, bodies[i], lengths[i]);
        assert_status(rs_chunk_read(&reader, seal_body(&chunk, header, &body), &batch, NULL, NULL),
                      RS_FORMAT);
    }
    assert_int_equal(reader.strings.count, strings);
    rs_buf_fini(&body);
    rs_buf_fini(&chunk);
    rs_chunk_reader_fini(&reader);
}

static void strings_beyond_the_readers_limit_are_refused(void **state)
{
    const struct fixture *f = *state;
    struct rs_chunk_reader reader;
    const struct rs_batch *batch;
    assert_ok(rs_chunk_reader_init(&reader, 16));
    assert_status(rs_chunk_read(&reader, chunk_list_at(&f->list, 0), &batch, NULL, NULL), RS_LIMIT);
    rs_chunk_reader_fini(&reader);
}

/* The allocation that fails, counted down; 0: none. */
static size_t failing_allocation;

static bool fail_one(void)
{
    return failing_allocation == 0 || --failing_allocation > 0;
}

static enum rs_status write_all(const struct fixture *f, struct chunk_list *list)
{
    struct rs_chunk_writer *writer;
    struct rs_trace_info info;
    const struct rs_chunk_writer_options options = {.strings = &f->stream.strings,
                                                    .lanes = &f->stream.lanes,
                                                    .put = chunk_list_put,
                                                    .put_self = list};
    enum rs_status status = rs_chunk_writer_new(&options, &writer, NULL);
    if (status != RS_OK)
        return status;
    rs_trace_info_init(&info);
    status = rs_chunk_writer_add(writer, &f->stream.batch, NULL);
    if (status == RS_OK)
        status = rs_chunk_writer_info(writer, &info, true, NULL);
    rs_chunk_writer_free(&writer);
    return status;
}

static void every_allocation_of_the_writer_may_fail(void **state)
{
    const struct fixture *f = *state;
    enum rs_status status = RS_NOMEM;
    rs_mem_set_gate(fail_one);
    size_t k = 1;
    for (; status != RS_OK; k++) {
        struct chunk_list list = {0};
        failing_allocation = k;
        status = write_all(f, &list);
        failing_allocation = 0;
        chunk_list_fini(&list);
        if (status != RS_OK)
            assert_int_equal(status, RS_NOMEM);
        assert_true(k < 1000);
    }
    rs_mem_set_gate(NULL);
    assert_true(k > 20);
}

static enum rs_status read_all(const struct fixture *f, struct rs_chunk_reader *reader)
{
    const struct rs_batch *batch;
    enum rs_status status = rs_chunk_reader_init(reader, 0);
    for (size_t i = 0; status == RS_OK && i < f->list.count; i++)
        status = rs_chunk_read(reader, chunk_list_at(&f->list, i), &batch, NULL, NULL);
    return status;
}

static void every_allocation_of_the_reader_may_fail(void **state)
{
    const struct fixture *f = *state;
    enum rs_status status = RS_NOMEM;
    rs_mem_set_gate(fail_one);
    size_t k = 1;
    for (; status != RS_OK; k++) {
        struct rs_chunk_reader reader;
        failing_allocation = k;
        status = read_all(f, &reader);
        failing_allocation = 0;
        if (status != RS_OK)
            assert_int_equal(status, RS_NOMEM);
        rs_chunk_reader_fini(&reader);
        assert_true(k < 1000);
    }
    rs_mem_set_gate(NULL);
    assert_true(k > 20);
}

/* A reader that ran out of memory in the middle goes on where it was. */
static void a_reader_goes_on_after_a_failed_allocation(void **state)
{
    const struct fixture *f = *state;
    const struct rs_batch *batch;
    for (size_t k = 1; k < 60; k++) {
        struct rs_chunk_reader reader;
        open_reader(f, 1, &reader);
        rs_mem_set_gate(fail_one);
        failing_allocation = k;
        (void)!rs_chunk_read(&reader, chunk_list_at(&f->list, 1), &batch, NULL, NULL);
        failing_allocation = 0;
        rs_mem_set_gate(NULL);
        assert_ok(rs_chunk_read(&reader, chunk_list_at(&f->list, 1), &batch, NULL, NULL));
        assert_int_equal(batch->count, 300);
        assert_null(row_difference(&f->stream.batch, 299, batch, 299));
        rs_chunk_reader_fini(&reader);
    }
}

static size_t allocations;

static bool count_allocations(void)
{
    allocations++;
    return true;
}

static void steady_state_allocates_nothing(void **state)
{
    struct fixture *f = *state;
    struct rs_chunk_writer *writer;
    struct rs_chunk_reader reader;
    struct chunk_list list = {0};
    const struct rs_batch *batch;
    const struct rs_chunk_writer_options options = {.strings = &f->stream.strings,
                                                    .lanes = &f->stream.lanes,
                                                    .put = chunk_list_put,
                                                    .put_self = &list};
    open_reader(f, 1, &reader);
    assert_ok(rs_chunk_writer_new(&options, &writer, NULL));
    for (int round = 0; round < 4; round++) {
        list.count = 0;
        rs_buf_reset(&list.bytes);
        if (round >= 2)
            rs_mem_set_gate(count_allocations);
        assert_ok(rs_chunk_writer_add(writer, &f->stream.batch, NULL));
        assert_ok(rs_chunk_writer_flush(writer, NULL));
        for (size_t i = 0; i < list.count; i++)
            assert_ok(rs_chunk_read(&reader, chunk_list_at(&list, i), &batch, NULL, NULL));
        rs_mem_set_gate(NULL);
    }
    assert_int_equal(allocations, 0);
    rs_chunk_writer_free(&writer);
    rs_chunk_reader_fini(&reader);
    chunk_list_fini(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_flipped_bit_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_truncation_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_missing_dictionary_is_named, set_up, tear_down),
        cmocka_unit_test(the_header_refuses_what_no_writer_writes),
        cmocka_unit_test(another_version_is_told_from_damage),
        cmocka_unit_test_setup_teardown(
            a_body_with_right_checksums_and_wrong_bytes_is_refused_or_lawful, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_dictionary_that_contradicts_itself_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(strings_beyond_the_readers_limit_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(every_allocation_of_the_writer_may_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_allocation_of_the_reader_may_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reader_goes_on_after_a_failed_allocation, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(steady_state_allocates_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
