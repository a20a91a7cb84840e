/* SPDX-License-Identifier: Apache-2.0 */
/* Ingest: every chunk's bytes come back once, before it is durable; what is durable can be read with its checksums. */
#include "aggregator/ingest/ingest.h"

#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/base/reclog.h"
#include "common/chunk/chunk.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <glob.h>
#include <pthread.h>

enum { CHUNKS = 60, CHUNK_BYTES = 20000, PARTS = 3 };

static char dir[64];

/* A chunk and where it has come to. Guarded by table.lock behind the put. */
struct sent {
    struct rs_ingest_job job;
    unsigned spent_count, done_count;
    bool was_spent_first;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t has_news;
    struct sent sent[CHUNKS];
    size_t done_count;
    struct rs_buf chunk;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .has_news = PTHREAD_COND_INITIALIZER};

static void on_spent(void *self, struct rs_ingest_job *job)
{
    struct sent *sent = job->self;
    (void)self;
    (void)pthread_mutex_lock(&table.lock);
    sent->spent_count++;
    /* Nothing may look at them any more. */
    memset(job->parts, 0, sizeof job->parts);
    (void)pthread_mutex_unlock(&table.lock);
}

static void on_done(void *self, struct rs_ingest_job *jobs)
{
    (void)self;
    (void)pthread_mutex_lock(&table.lock);
    for (; jobs; jobs = jobs->next) {
        struct sent *sent = jobs->self;
        sent->was_spent_first = sent->spent_count == 1;
        sent->done_count++;
        table.done_count++;
    }
    (void)pthread_cond_signal(&table.has_news);
    (void)pthread_mutex_unlock(&table.lock);
}

static void wait_for(size_t count)
{
    (void)pthread_mutex_lock(&table.lock);
    while (table.done_count < count)
        (void)pthread_cond_wait(&table.has_news, &table.lock);
    (void)pthread_mutex_unlock(&table.lock);
}

static enum rs_status keep(void *self, struct rs_view chunk, const struct rs_chunk_header *header,
                           struct rs_err *err)
{
    struct rs_buf *kept = self;
    (void)err;
    if (header->kind == RS_CHUNK_SUMMARY)
        rs_buf_bytes(kept, chunk.data, chunk.length);
    return RS_OK;
}

/* One sealed chunk, of bytes that do not compress. */
static void make_chunk(struct rs_buf *buf)
{
    static uint8_t bytes[CHUNK_BYTES];
    struct rs_strtab strings;
    struct rs_lanes lanes = {0};
    struct rs_chunk_writer *writer = NULL;
    uint32_t random = 17;
    for (size_t i = 0; i < sizeof bytes; i++) {
        random = random * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(random >> 24);
    }
    const struct rs_chunk_writer_options options = {
        .strings = &strings, .lanes = &lanes, .put = keep, .put_self = buf};
    assert_ok(rs_strtab_init(&strings, 0));
    assert_ok(rs_chunk_writer_new(&options, &writer, NULL));
    assert_ok(rs_chunk_writer_summary(writer, rs_view_of(bytes, sizeof bytes), NULL));
    rs_chunk_writer_free(&writer);
    rs_strtab_fini(&strings);
    assert_true(buf->length > CHUNK_BYTES);
}

static int make_table(void **state)
{
    (void)state;
    tmp_dir_make(dir);
    memset(table.sent, 0, sizeof table.sent);
    table.done_count = 0;
    make_chunk(&table.chunk);
    return 0;
}

static int remove_table(void **state)
{
    (void)state;
    rs_buf_fini(&table.chunk);
    tmp_dir_remove(dir);
    return 0;
}

static struct rs_store *open_store(struct rs_store_stream **stream_p)
{
    struct rs_store *store = NULL;
    struct rs_capture_facts facts = {.id = "c1", .run = "r", .state = "collecting", .world = 1};
    const struct rs_store_key key = {.run = "r", .incarnation = "i", .capture = "c1"};
    assert_ok(rs_store_open(dir, 0, &store, NULL));
    assert_ok(rs_store_create_capture(store, &facts, NULL));
    assert_ok(rs_store_stream(store, &key, stream_p, NULL));
    return store;
}

/* The chunk in three pieces, the first of which ends in its header. */
static void put(struct rs_ingest *ingest, struct rs_store_stream *stream, size_t i, rs_seq seq)
{
    struct sent *sent = &table.sent[i];
    const size_t cuts[PARTS + 1] = {0, 10, 9000, table.chunk.length};
    sent->job = (struct rs_ingest_job){.kind = RS_INGEST_CHUNK,
                                       .self = sent,
                                       .stream = stream,
                                       .capture = "c1",
                                       .source = {.host = "h", .origin = "o", .world = 1},
                                       .seq = seq,
                                       .part_count = PARTS,
                                       .bytes = table.chunk.length};
    for (size_t k = 0; k < PARTS; k++)
        sent->job.parts[k] = (struct iovec){.iov_base = table.chunk.data + cuts[k],
                                            .iov_len = cuts[k + 1] - cuts[k]};
    rs_ingest_put(ingest, &sent->job);
}

static struct rs_ingest *start(struct rs_store *store)
{
    struct rs_ingest *ingest = NULL;
    const struct rs_ingest_options options = {.store = store, .spent = on_spent, .done = on_done};
    assert_ok(rs_ingest_start(&options, &ingest, NULL));
    return ingest;
}

/* Records of chunks in the capture's one segment, each held against both of its checksums. */
static size_t count_stored(void)
{
    char pattern[128];
    glob_t found;
    struct rs_reclog_reader reader;
    struct rs_reclog_record record;
    struct rs_view payload;
    struct rs_chunk_header header;
    size_t count = 0;
    (void)snprintf(pattern, sizeof pattern, "%s/captures/c1/*/*.seg", dir);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    assert_ok(rs_reclog_reader_open(&reader, found.gl_pathv[0], NULL));
    while (rs_reclog_next(&reader, RS_RECLOG_CHECK_ALL, &record, &payload, NULL, NULL) == RS_OK) {
        if (payload.length != table.chunk.length)
            continue;
        assert_ok(rs_chunk_peek(payload, &header, NULL));
        assert_memory_equal(payload.data, table.chunk.data, payload.length);
        assert_int_equal(record.seq, ++count);
    }
    assert_int_equal(reader.position, reader.length);
    rs_reclog_reader_close(&reader);
    globfree(&found);
    return count;
}

static void chunks_come_back_spent_and_then_durable(void **state)
{
    (void)state;
    struct rs_store_stream *stream = NULL;
    struct rs_store *store = open_store(&stream);
    struct rs_ingest *ingest = start(store);
    for (size_t i = 0; i < CHUNKS; i++)
        put(ingest, stream, i, i + 1);
    wait_for(CHUNKS);
    for (size_t i = 0; i < CHUNKS; i++) {
        assert_int_equal(table.sent[i].job.status, RS_OK);
        assert_int_equal(table.sent[i].spent_count, 1);
        assert_int_equal(table.sent[i].done_count, 1);
        assert_true(table.sent[i].was_spent_first);
        assert_true(table.sent[i].job.durable_seq >= i + 1);
    }
    const struct rs_ingest_stats stats = rs_ingest_stats(ingest);
    assert_int_equal(stats.chunks, CHUNKS);
    assert_int_equal(stats.bytes, CHUNKS * table.chunk.length);
    assert_in_range(stats.syncs, 1, CHUNKS);
    rs_ingest_stop(&ingest);
    rs_store_close(&store);
    assert_int_equal(count_stored(), CHUNKS);
}

/* Nothing follows that would fill the group, and nobody stops it: each is done all the same. */
static void chunks_one_by_one_wait_for_no_company(void **state)
{
    (void)state;
    struct rs_store_stream *stream = NULL;
    struct rs_store *store = open_store(&stream);
    struct rs_ingest *ingest = start(store);
    for (size_t i = 0; i < 5; i++) {
        put(ingest, stream, i, i + 1);
        wait_for(i + 1);
        assert_int_equal(table.sent[i].job.durable_seq, i + 1);
    }
    assert_int_equal(rs_ingest_stats(ingest).syncs, 5);
    rs_ingest_stop(&ingest);
    rs_store_close(&store);
}

static void what_is_repeated_or_damaged_comes_back_spent(void **state)
{
    (void)state;
    struct rs_store_stream *stream = NULL;
    struct rs_store *store = open_store(&stream);
    struct rs_ingest *ingest = start(store);
    put(ingest, stream, 0, 1);
    put(ingest, stream, 1, 1);
    wait_for(2);
    table.chunk.data[table.chunk.length / 2] ^= 4;
    put(ingest, stream, 2, 2);
    wait_for(3);
    assert_true(table.sent[1].job.is_repeated);
    assert_int_equal(table.sent[2].job.status, RS_FORMAT);
    assert_int_equal(table.sent[2].job.wanted_seq, 2);
    for (size_t i = 0; i < 3; i++)
        assert_true(table.sent[i].was_spent_first);
    rs_ingest_stop(&ingest);
    rs_store_close(&store);
    table.chunk.data[table.chunk.length / 2] ^= 4;
    assert_int_equal(count_stored(), 1);
}

/* What was put is done when the worker has stopped, also what waited for company. */
static void stopping_leaves_nothing_behind(void **state)
{
    (void)state;
    struct rs_store_stream *stream = NULL;
    struct rs_store *store = open_store(&stream);
    struct rs_ingest *ingest = start(store);
    for (size_t i = 0; i < 20; i++)
        put(ingest, stream, i, i + 1);
    rs_ingest_stop(&ingest);
    assert_int_equal(table.done_count, 20);
    assert_int_equal(stream->durable_seq, 20);
    rs_store_close(&store);
    assert_int_equal(count_stored(), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chunks_come_back_spent_and_then_durable, make_table,
                                        remove_table),
        cmocka_unit_test_setup_teardown(chunks_one_by_one_wait_for_no_company, make_table,
                                        remove_table),
        cmocka_unit_test_setup_teardown(what_is_repeated_or_damaged_comes_back_spent, make_table,
                                        remove_table),
        cmocka_unit_test_setup_teardown(stopping_leaves_nothing_behind, make_table, remove_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
