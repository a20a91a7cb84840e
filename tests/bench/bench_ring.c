/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's end of a ring: records drained, and rows emitted into batches, per second.
 *
 * One process fills its own ring and empties it in turns; only the emptying is timed. Beside it, what a plain
 * memcpy of the same bytes takes. JSON lines on stdout; best of the rounds.
 */
#include "collector/lib/client_priv.h"
#include "collector/lib/ring_read.h"
#include "collector/source/native.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 100, EVENTS = 16000 };

static uint64_t checksum;

static enum rs_status look(void *self, const struct rs_ring_record *record, struct rs_err *err)
{
    (void)self;
    (void)err;
    checksum += record->slot.end;
    return RS_OK;
}

static enum rs_status count_rows(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    (void)err;
    *(int64_t *)self += (int64_t)batch->count;
    return RS_OK;
}

static void fail(const char *what, const struct rs_err *err)
{
    fprintf(stderr, "bench_ring: %s: %s\n", what, err->text);
    exit(1);
}

static void fill(uint32_t name)
{
    for (int i = 0; i < EVENTS; i++) {
        rankscope_op_begin(name);
        rankscope_op_end();
    }
}

static uint64_t now_ns(void)
{
    return rankscope_priv_system_ns(CLOCK_MONOTONIC);
}

static void report(const char *what, uint64_t best_ns)
{
    printf("{\"bench\":\"ring\",\"what\":\"%s\",\"ns_per_record\":%.2f,\"million_per_s\":%.1f}\n",
           what, (double)best_ns / EVENTS, EVENTS * 1e3 / (double)best_ns);
}

int main(void)
{
    struct rs_err err = {0};
    struct rs_native *native = NULL;
    struct rs_source_stream stream;
    char path[64];
    snprintf(path, sizeof path, "/tmp/rankscope-bench-ring-%d.sock", (int)getpid());
    struct rankscope_config config = RANKSCOPE_CONFIG_INIT;
    config.rank = 0;
    config.run = "bench";
    config.socket_path = path;
    if (rs_native_open(path, &native, &err) != RS_OK || rankscope_init(&config) != 0 ||
        rs_native_poll(native, 1000, &err) != RS_OK || rs_native_poll(native, 100, &err) != RS_OK ||
        rs_native_count(native) != 1 || rs_source_stream_init(&stream) != RS_OK)
        fail("no connection", &err);
    uint64_t id = rs_native_at(native, 0)->id;
    struct rs_native_request request = {.capture = "bench", .stop_step = 1000};
    if (rs_native_arm(native, id, &request, &stream, &err) != RS_OK)
        fail("arm", &err);
    uint32_t name = rankscope_name("op", 0);
    rankscope_step(1);
    int64_t rows = 0;
    struct rs_sink sink = {.batch = count_rows, .self = &rows};
    uint64_t best_emit = UINT64_MAX;
    uint64_t best_drain = UINT64_MAX;
    uint64_t best_copy = UINT64_MAX;
    struct rs_ring_reader *reader = NULL;
    static struct rs_slot copy[EVENTS];
    for (int round = 0; round < ROUNDS; round++) {
        fill(name);
        if (rs_native_poll(native, 0, &err) < 0)
            fail("poll", &err);
        uint64_t start = now_ns();
        if (rs_native_drain(native, id, sink, &err) < 0)
            fail("drain", &err);
        uint64_t took = now_ns() - start;
        best_emit = took < best_emit ? took : best_emit;
    }
    const struct rankscope_priv_slot *slot = &rankscope_priv_client.slots[0];
    if (rs_ring_reader_over(slot->ring, slot->bytes, &reader, &err) != RS_OK)
        fail("reader", &err);
    for (int round = 0; round < ROUNDS; round++) {
        fill(name);
        uint64_t start = now_ns();
        if (rs_ring_drain(reader, look, NULL, &err) < 0)
            fail("drain", &err);
        uint64_t took = now_ns() - start;
        best_drain = took < best_drain ? took : best_drain;
        start = now_ns();
        memcpy(copy, (const char *)slot->ring + RS_RING_HEADER_BYTES, sizeof copy);
        took = now_ns() - start;
        best_copy = took < best_copy ? took : best_copy;
        checksum += copy[round].start;
    }
    report("memcpy of as many slots", best_copy);
    report("drain", best_drain);
    report("drain, convert, emit into batches", best_emit);
    printf("{\"bench\":\"ring\",\"rows\":%" PRId64 ",\"lost\":%" PRIu64 ",\"checksum\":%" PRIu64
           "}\n",
           rows, rankscope_lost_count(), checksum);
    rankscope_fini();
    rs_ring_reader_close(&reader);
    rs_native_close(&native);
    rs_source_stream_fini(&stream);
    return 0;
}
