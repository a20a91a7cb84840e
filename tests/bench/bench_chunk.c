/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks: bytes per event, events per second and core, of traces given as arguments (else of a made-up
 * step). Batches are in memory before the clock starts; best of several rounds; one thread.
 *
 *     bench_chunk [TRACE.json[.gz] ...]
 *
 * One JSON line per trace and form; "without_extra" has everything but the column of untyped arguments:
 * names, streams, correlation, shapes and communication arguments are kept, dictionaries are counted.
 */
#include "collector/source/kineto.h"
#include "common/base/mem.h"
#include "common/base/time.h"
#include "common/chunk/chunk.h"
#include "tests/support/make_batches.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 15, BATCH_ROWS = 4 * 1024 };

struct kept {
    struct rs_source_stream stream;
    struct rs_batch *batches;
    size_t count, capacity;
    uint64_t rows, x_rows;
};

struct chunks {
    struct rs_buf bytes;
    size_t *ends;
    size_t count, capacity;
};

static void fail(const char *what, const struct rs_err *err)
{
    (void)fprintf(stderr, "bench_chunk: %s: %s\n", what, err->text);
    exit(1); /* NOLINT(concurrency-mt-unsafe): one thread */
}

static enum rs_status copy_row(struct rs_batch *to, const struct rs_batch *from, size_t row)
{
    size_t at;
    struct rs_comm *comm;
    if (rs_batch_row(to, &at) != RS_OK)
        return RS_LIMIT;
    to->kind[at] = from->kind[row];
    to->flags[at] = from->flags[row];
    to->phase[at] = from->phase[row];
    to->category[at] = from->category[row];
    to->name[at] = from->name[row];
    to->lane[at] = from->lane[row];
    to->start[at] = from->start[row];
    to->end[at] = from->end[row];
    to->correlation[at] = from->correlation[row];
    to->external_id[at] = from->external_id[row];
    to->bytes[at] = from->bytes[row];
    to->cpu_ns[at] = from->cpu_ns[row];
    to->input_dims[at] = from->input_dims[row];
    to->input_types[at] = from->input_types[row];
    to->concrete_inputs[at] = from->concrete_inputs[row];
    if (from->comm[row] != RS_NO_COMM) {
        if (rs_batch_comm(to, at, &comm) != RS_OK)
            return RS_NOMEM;
        *comm = from->comms[from->comm[row]];
    }
    return from->extra_length[row] ? rs_batch_extra(to, at, from->extra + from->extra_offset[row],
                                                    from->extra_length[row])
                                   : RS_OK;
}

/* A sink that keeps copies of all rows in batches of BATCH_ROWS. */
static enum rs_status keep_batch(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct kept *kept = self;
    for (size_t row = 0; row < batch->count; row++) {
        if (!kept->count || kept->batches[kept->count - 1].count == BATCH_ROWS) {
            if (rs_mem_grow((void **)&kept->batches, &kept->capacity, kept->count + 1,
                            sizeof *kept->batches) != RS_OK ||
                rs_batch_init(&kept->batches[kept->count], batch->strings, batch->lanes,
                              BATCH_ROWS) != RS_OK)
                return rs_err_set(err, RS_NOMEM, "no memory");
            kept->count++;
        }
        if (copy_row(&kept->batches[kept->count - 1], batch, row) != RS_OK)
            return rs_err_set(err, RS_NOMEM, "no memory");
        kept->rows++;
        kept->x_rows += batch->phase[row] == 'X';
    }
    return RS_OK;
}

static enum rs_status keep_chunk(void *self, struct rs_view chunk,
                                 const struct rs_chunk_header *header, struct rs_err *err)
{
    struct chunks *chunks = self;
    (void)header;
    rs_buf_bytes(&chunks->bytes, chunk.data, chunk.length);
    if (chunks->bytes.failed || rs_mem_grow((void **)&chunks->ends, &chunks->capacity,
                                            chunks->count + 1, sizeof *chunks->ends) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory");
    chunks->ends[chunks->count++] = chunks->bytes.length;
    return RS_OK;
}

/* Encodes everything once more; ns of the writer's calls alone. */
static rs_dur encode(const struct kept *kept, struct chunks *chunks,
                     struct rs_chunk_totals *totals_p)
{
    struct rs_err err = {0};
    struct rs_chunk_writer *writer;
    const struct rs_chunk_writer_options options = {.strings = &kept->stream.strings,
                                                    .lanes = &kept->stream.lanes,
                                                    .put = keep_chunk,
                                                    .put_self = chunks};
    if (rs_chunk_writer_new(&options, &writer, &err) != RS_OK)
        fail("writer", &err);
    /* the first pass takes memory: a collector runs for days after it */
    rs_ns start = 0;
    for (int pass = 0; pass < 2; pass++) {
        rs_buf_reset(&chunks->bytes);
        chunks->count = 0;
        *totals_p = rs_chunk_writer_totals(writer);
        start = rs_time_monotonic();
        for (size_t i = 0; i < kept->count; i++) {
            if (rs_chunk_writer_add(writer, &kept->batches[i], &err) != RS_OK)
                fail("add", &err);
        }
        if (rs_chunk_writer_flush(writer, &err) != RS_OK)
            fail("flush", &err);
        if (pass == 0)
            *totals_p = rs_chunk_writer_totals(writer);
    }
    const rs_dur took = rs_time_monotonic() - start;
    const struct rs_chunk_totals second = rs_chunk_writer_totals(writer);
    *totals_p = (struct rs_chunk_totals){.rows = second.rows / 2,
                                         .dictionary_bytes = second.dictionary_bytes,
                                         .events_bytes = second.events_bytes / 2,
                                         .extra_raw_bytes = second.extra_raw_bytes / 2,
                                         .chunks = chunks->count};
    rs_chunk_writer_free(&writer);
    return took;
}

/* Decodes the events chunks; the dictionary comes from a first pass over one whole stream. */
static rs_dur decode(const struct chunks *whole, const struct chunks *events)
{
    struct rs_err err = {0};
    struct rs_chunk_reader reader;
    const struct rs_batch *batch;
    if (rs_chunk_reader_init(&reader, 0) != RS_OK)
        fail("reader", &err);
    size_t from = 0;
    for (size_t i = 0; i < whole->count; from = whole->ends[i++]) {
        if (rs_chunk_read(&reader, rs_view_of(whole->bytes.data + from, whole->ends[i] - from),
                          &batch, NULL, &err) != RS_OK)
            fail("read", &err);
    }
    const rs_ns start = rs_time_monotonic();
    from = 0;
    for (size_t i = 0; i < events->count; from = events->ends[i++]) {
        if (rs_chunk_read(&reader, rs_view_of(events->bytes.data + from, events->ends[i] - from),
                          &batch, NULL, &err) != RS_OK)
            fail("read", &err);
    }
    const rs_dur took = rs_time_monotonic() - start;
    rs_chunk_reader_fini(&reader);
    return took;
}

/* A stream from its beginning, dictionaries included. */
static void encode_whole(const struct kept *kept, struct chunks *chunks)
{
    struct rs_err err = {0};
    struct rs_chunk_writer *writer;
    const struct rs_chunk_writer_options options = {.strings = &kept->stream.strings,
                                                    .lanes = &kept->stream.lanes,
                                                    .put = keep_chunk,
                                                    .put_self = chunks};
    if (rs_chunk_writer_new(&options, &writer, &err) != RS_OK)
        fail("writer", &err);
    for (size_t i = 0; i < kept->count; i++) {
        if (rs_chunk_writer_add(writer, &kept->batches[i], &err) != RS_OK)
            fail("add", &err);
    }
    if (rs_chunk_writer_flush(writer, &err) != RS_OK)
        fail("flush", &err);
    rs_chunk_writer_free(&writer);
}

static void measure(const char *name, const struct kept *kept, const char *form)
{
    struct chunks whole = {0};
    struct chunks events = {0};
    struct rs_chunk_totals totals = {0};
    rs_dur best_encode = INT64_MAX;
    rs_dur best_decode = INT64_MAX;
    encode_whole(kept, &whole);
    for (int round = 0; round < ROUNDS; round++) {
        const rs_dur encoded = encode(kept, &events, &totals);
        best_encode = encoded < best_encode ? encoded : best_encode;
        const rs_dur decoded = decode(&whole, &events);
        best_decode = decoded < best_decode ? decoded : best_decode;
    }
    const double rows = (double)kept->rows;
    const double bytes = (double)(totals.dictionary_bytes + totals.events_bytes);
    printf("{\"bench\": \"chunk\", \"trace\": \"%s\", \"form\": \"%s\", \"rows\": %llu, "
           "\"x_rows\": %llu, \"bytes_per_row\": %.3f, \"bytes_per_x_row\": %.3f, "
           "\"dictionary_bytes_per_row\": %.3f, \"extra_text_bytes_per_row\": %.1f, "
           "\"encode_m_rows_per_s\": %.1f, \"decode_m_rows_per_s\": %.1f}\n",
           name, form, (unsigned long long)kept->rows, (unsigned long long)kept->x_rows,
           bytes / rows, bytes / (double)kept->x_rows, (double)totals.dictionary_bytes / rows,
           (double)totals.extra_raw_bytes / rows, rows * 1e3 / (double)best_encode,
           rows * 1e3 / (double)best_decode);
    (void)fflush(stdout);
    rs_buf_fini(&whole.bytes);
    rs_buf_fini(&events.bytes);
    rs_mem_free(whole.ends);
    rs_mem_free(events.ends);
}

static void drop_extra(struct kept *kept)
{
    for (size_t i = 0; i < kept->count; i++) {
        memset(kept->batches[i].extra_length, 0,
               kept->batches[i].count * sizeof *kept->batches[i].extra_length);
        kept->batches[i].extra_bytes = 0;
    }
}

static void measure_both(const char *name, struct kept *kept)
{
    if (kept->rows) {
        measure(name, kept, "with_extra");
        drop_extra(kept);
        measure(name, kept, "without_extra");
    }
    for (size_t i = 0; i < kept->count; i++)
        rs_batch_fini(&kept->batches[i]);
    rs_mem_free(kept->batches);
}

static void measure_made_up(void)
{
    struct rs_err err = {0};
    struct make_stream made;
    struct make_clock clock = {0};
    struct kept kept = {0};
    make_open(&made, 1, BATCH_ROWS);
    for (int i = 0; i < 8; i++) {
        make_step(&made, &clock);
        if (keep_batch(&kept, &made.batch, &err) != RS_OK)
            fail("keep", &err);
    }
    kept.stream.strings = made.strings;
    kept.stream.lanes = made.lanes;
    for (size_t i = 0; i < kept.count; i++) {
        kept.batches[i].strings = &kept.stream.strings;
        kept.batches[i].lanes = &kept.stream.lanes;
    }
    measure_both("made up", &kept);
    make_close(&made);
}

int main(int argc, char **argv)
{
    struct rs_err err = {0};
    if (argc < 2)
        measure_made_up();
    for (int i = 1; i < argc; i++) {
        struct kept kept = {0};
        const char *slash = strrchr(argv[i], '/');
        if (rs_source_stream_init(&kept.stream) != RS_OK)
            return 1;
        if (rs_kineto_read(argv[i], RS_SOURCE_LOSSLESS, &kept.stream,
                           (struct rs_sink){.batch = keep_batch, .self = &kept}, &err) < RS_OK)
            fail(argv[i], &err);
        measure_both(slash ? slash + 1 : argv[i], &kept);
        rs_source_stream_fini(&kept.stream);
    }
    return 0;
}
