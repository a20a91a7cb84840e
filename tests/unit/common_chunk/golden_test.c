/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes written once and for all: chunks of version 1 must be read as long as version 1 is. The hexdump in
 * FORMAT.md is one of them, so the document cannot drift from the code.
 *
 * `unit_common_chunk_golden_test --write` makes the files anew: only for a new version of the format.
 */
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "tests/support/chunk_list.h"
#include "tests/support/make_batches.h"
#include "tests/support/rs_test.h"

#define GOLDEN "tests/golden/chunk_v1"

static void dump_row(const struct rs_batch *batch, size_t row, struct rs_buf *text)
{
    const struct rs_strtab *strings = batch->strings;
    rs_buf_printf(text, "%s %s lane %u %lld..%lld phase %d flags %d cat %s corr %lld ext %lld",
                  rs_kind_text((enum rs_kind)batch->kind[row]),
                  rs_strtab_text(strings, batch->name[row]), batch->lane[row],
                  (long long)batch->start[row], (long long)batch->end[row], batch->phase[row],
                  batch->flags[row], rs_strtab_text(strings, batch->category[row]),
                  (long long)batch->correlation[row], (long long)batch->external_id[row]);
    rs_buf_printf(text, " bytes %lld cpu %lld dims %s types %s concrete %s extra <%.*s>\n",
                  (long long)batch->bytes[row], (long long)batch->cpu_ns[row],
                  rs_strtab_text(strings, batch->input_dims[row]),
                  rs_strtab_text(strings, batch->input_types[row]),
                  rs_strtab_text(strings, batch->concrete_inputs[row]),
                  (int)batch->extra_length[row],
                  batch->extra_length[row] ? batch->extra + batch->extra_offset[row] : "");
    if (batch->comm[row] == RS_NO_COMM)
        return;
    const struct rs_comm *comm = &batch->comms[batch->comm[row]];
    rs_buf_printf(text, "  comm has %u %s %s group %s of %lld in %lld out %lld src %lld dst %lld",
                  comm->has, rs_strtab_text(strings, comm->collective),
                  rs_strtab_text(strings, comm->dtype), rs_strtab_text(strings, comm->group_name),
                  (long long)comm->group_size, (long long)comm->in_nelems,
                  (long long)comm->out_nelems, (long long)comm->src, (long long)comm->dst);
    rs_buf_printf(text, " seq %lld id %llu bytes %lld\n", (long long)comm->seq,
                  (unsigned long long)comm->comms_id, (long long)comm->bytes);
}

/* Everything a reader knows after these chunks, as text. */
static void dump_stream(const struct chunk_list *list, struct rs_buf *text)
{
    struct rs_chunk_reader reader;
    struct rs_err err = {0};
    assert_ok(rs_chunk_reader_init(&reader, 0));
    for (size_t i = 0; i < list->count; i++) {
        const struct rs_batch *batch;
        struct rs_chunk_header header;
        if (rs_chunk_read(&reader, chunk_list_at(list, i), &batch, &header, &err) != RS_OK)
            fail_msg("chunk %zu: %s", i, err.text);
        rs_buf_printf(text, "%s: %u, %lld..%lld, %u strings, %u lanes\n",
                      rs_chunk_kind_text(header.kind), header.count, (long long)header.first_ns,
                      (long long)header.last_ns, header.strings_count, header.lanes_count);
        for (size_t row = 0; batch && row < batch->count; row++)
            dump_row(batch, row, text);
    }
    for (size_t id = 0; id < reader.strings.count; id++)
        rs_buf_printf(text, "string %zu <%s>\n", id, rs_strtab_text(&reader.strings, (rs_str)id));
    for (size_t i = 0; i < reader.lanes.count; i++) {
        const struct rs_lane *lane = &reader.lanes.items[i];
        rs_buf_printf(text, "lane %zu kind %d device %d %lld/%lld\n", i, lane->kind, lane->device,
                      (long long)lane->process, (long long)lane->thread);
    }
    if (reader.has_end)
        rs_buf_printf(text, "rank %d base %lld end after %llu rows %llu chunks\n", reader.info.rank,
                      (long long)reader.info.base_ns, (unsigned long long)reader.end.rows,
                      (unsigned long long)reader.end.chunks);
    if (reader.has_summary)
        rs_buf_printf(text, "summary <%.*s>\n", (int)reader.summary.length,
                      (const char *)reader.summary.data);
    rs_chunk_reader_fini(&reader);
}

/* A file or a run of bytes -> the chunks in it, by their headers. */
static void split_chunks(struct chunk_list *list)
{
    while (list->offsets[list->count] < list->bytes.length) {
        struct rs_chunk_header header;
        const size_t at = list->offsets[list->count];
        const struct rs_view rest = rs_view_of(list->bytes.data + at, list->bytes.length - at);
        assert_ok(rs_chunk_peek(rest, &header, NULL));
        list->offsets[++list->count] = at + header.chunk_bytes;
    }
}

static void compare_with_text(const char *name)
{
    char path[128];
    struct chunk_list list = {0};
    struct rs_buf expected = {0}, text = {0};
    (void)snprintf(path, sizeof path, GOLDEN "_%s.bin", name);
    assert_ok(rs_file_read(path, RS_CHUNK_MAX_BYTES, &list.bytes, NULL));
    (void)snprintf(path, sizeof path, GOLDEN "_%s.txt", name);
    assert_ok(rs_file_read(path, RS_CHUNK_MAX_BYTES, &expected, NULL));
    split_chunks(&list);
    dump_stream(&list, &text);
    assert_string_equal(rs_buf_text(&text), rs_buf_text(&expected));
    rs_buf_fini(&text);
    rs_buf_fini(&expected);
    chunk_list_fini(&list);
}

static void chunks_of_version_1_are_read(void **state)
{
    (void)state;
    compare_with_text("stream");
    compare_with_text("step");
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The bytes of lines "0010  aa bb ..  |text|" between the two hexdump marks. */
static void extract_hexdump(const char *text, struct rs_buf *bytes)
{
    const char *at = strstr(text, "<!-- hexdump -->");
    const char *const end = strstr(text, "<!-- end of hexdump -->");
    assert_non_null(at);
    assert_non_null(end);
    for (at = strchr(at, '\n'); at && at < end; at = strchr(at + 1, '\n')) {
        if (hex_digit(at[1]) < 0)
            continue;
        for (const char *cell = at + 7;; cell += 3) {
            rs_buf_u8(bytes, (uint8_t)(hex_digit(cell[0]) * 16 + hex_digit(cell[1])));
            if (cell[2] != ' ')
                break;
        }
    }
}

static void the_hexdump_in_the_format_document_is_read(void **state)
{
    (void)state;
    struct rs_buf document = {0}, text = {0};
    struct chunk_list list = {0};
    assert_ok(rs_file_read("common/chunk/FORMAT.md", RS_CHUNK_MAX_BYTES, &document, NULL));
    extract_hexdump(rs_buf_text(&document), &list.bytes);
    split_chunks(&list);
    assert_int_equal(list.count, 2);
    dump_stream(&list, &text);
    /* the document shows the same dump under the bytes */
    assert_non_null(strstr(rs_buf_text(&document), rs_buf_text(&text)));
    assert_non_null(strstr(rs_buf_text(&text), "kernel gemm lane 1 5000..9000"));
    rs_buf_fini(&text);
    rs_buf_fini(&document);
    chunk_list_fini(&list);
}

/* What the golden files hold. */

static void small_rows(struct make_stream *stream)
{
    const uint32_t host = make_lane(stream, RS_LANE_HOST, -1, 542, 542);
    const uint32_t device = make_lane(stream, RS_LANE_DEVICE, 0, 0, 7);
    struct rs_batch *batch = &stream->batch;
    size_t row = make_row(stream, RS_KIND_RUNTIME, "launch", host, 1000, 2000);
    batch->correlation[row] = 77;
    make_must(rs_batch_extra(batch, row, "\"cbid\": 211", 11));
    row = make_row(stream, RS_KIND_FLOW_START, "ac2g", host, 1000, 0);
    batch->correlation[row] = 77;
    row = make_row(stream, RS_KIND_KERNEL, "gemm", device, 5000, 4000);
    batch->correlation[row] = 77;
}

static void one_of_each_kind(struct make_stream *stream)
{
    struct rs_batch *batch = &stream->batch;
    small_rows(stream);
    for (int k = 0; k < RS_KIND_COUNT; k++) {
        const size_t row = make_row(stream, (enum rs_kind)k, "of its kind", (uint32_t)k % 2,
                                    1000000007 * (int64_t)k, 1 + (int64_t)k);
        batch->flags[row] = (uint8_t)(k % 8);
        batch->external_id[row] = k * 3;
        batch->bytes[row] = k == RS_KIND_MEMORY ? INT64_MIN : -1;
        batch->cpu_ns[row] = k == RS_KIND_OP ? 12345 : -1;
        batch->input_dims[row] = k < 4 ? make_string(stream, "[[8, 8]]") : RS_STR_NONE;
        batch->input_types[row] = k < 4 ? make_string(stream, "[\"float\"]") : RS_STR_NONE;
    }
    for (int k = 0; k < 3; k++) {
        const size_t row = make_row(stream, RS_KIND_COMM, "all_reduce", 0, 2000000000 + k, 900);
        struct rs_comm *comm;
        make_must(rs_batch_comm(batch, row, &comm));
        comm->has = RS_COMM_HAS_IN_NELEMS | RS_COMM_HAS_SEQ;
        comm->collective = make_string(stream, "allreduce");
        comm->dtype = make_string(stream, "Float");
        comm->group_name = make_string(stream, "0");
        comm->in_nelems = comm->out_nelems = INT64_C(7875584) << k;
        comm->seq = k - 1;
        comm->comms_id = UINT64_MAX - (uint64_t)k;
    }
}

static struct rs_chunk_writer *golden_writer(const struct make_stream *stream,
                                             struct chunk_list *list)
{
    struct rs_chunk_writer *writer;
    const struct rs_chunk_writer_options options = {.strings = &stream->strings,
                                                    .lanes = &stream->lanes,
                                                    .put = chunk_list_put,
                                                    .put_self = list};
    assert_ok(rs_chunk_writer_new(&options, &writer, NULL));
    assert_ok(rs_chunk_writer_add(writer, &stream->batch, NULL));
    assert_ok(rs_chunk_writer_flush(writer, NULL));
    return writer;
}

static void write_golden(const char *name, const struct chunk_list *list)
{
    char path[128];
    struct rs_buf text = {0};
    dump_stream(list, &text);
    (void)snprintf(path, sizeof path, GOLDEN "_%s.bin", name);
    assert_ok(rs_file_replace(path, list->bytes.data, list->bytes.length, false, NULL));
    (void)snprintf(path, sizeof path, GOLDEN "_%s.txt", name);
    assert_ok(rs_file_replace(path, text.data, text.length, false, NULL));
    rs_buf_fini(&text);
}

static void make_stream_file(struct chunk_list *list)
{
    struct make_stream stream;
    struct rs_trace_info info;
    make_open(&stream, 1, 64);
    one_of_each_kind(&stream);
    struct rs_chunk_writer *writer = golden_writer(&stream, list);
    rs_trace_info_init(&info);
    info.rank = 5;
    info.base_ns = INT64_C(1712195495749263800);
    assert_ok(rs_chunk_writer_summary(writer, rs_view_of("a summary", 9), NULL));
    assert_ok(rs_chunk_writer_info(writer, &info, true, NULL));
    rs_chunk_writer_free(&writer);
    make_close(&stream);
}

/* Large enough for every encoding and predictor to be chosen somewhere. */
static void make_step_file(struct chunk_list *list)
{
    struct make_stream stream;
    struct make_clock clock = {0};
    make_open(&stream, 1, 200);
    make_step(&stream, &clock);
    struct rs_chunk_writer *writer = golden_writer(&stream, list);
    rs_chunk_writer_free(&writer);
    make_close(&stream);
}

static void make_small_file(struct chunk_list *list)
{
    struct make_stream stream;
    make_open(&stream, 1, 3);
    small_rows(&stream);
    struct rs_chunk_writer *writer = golden_writer(&stream, list);
    rs_chunk_writer_free(&writer);
    make_close(&stream);
}

static int write_all(void)
{
    struct chunk_list lists[3] = {0};
    struct rs_buf text = {0};
    make_stream_file(&lists[0]);
    write_golden("stream", &lists[0]);
    make_step_file(&lists[1]);
    write_golden("step", &lists[1]);
    make_small_file(&lists[2]); /* for FORMAT.md, by hand */
    for (size_t i = 0; i < lists[2].bytes.length; i++) {
        if (i % 16 == 0)
            rs_buf_printf(&text, "%s%04zx ", i ? "\n" : "", i);
        rs_buf_printf(&text, " %02x", lists[2].bytes.data[i]);
    }
    rs_buf_printf(&text, "\n");
    dump_stream(&lists[2], &text);
    (void)fputs(rs_buf_text(&text), stdout);
    rs_buf_fini(&text);
    for (int i = 0; i < 3; i++)
        chunk_list_fini(&lists[i]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--write") == 0)
        return write_all();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_of_version_1_are_read),
        cmocka_unit_test(the_hexdump_in_the_format_document_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
