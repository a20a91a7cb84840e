/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a greedy identity slows another's acknowledgements.
 *
 *   bench_greedy [--dir DIR] [--rounds N]
 *       One server with a real store. A node sends a chunk of 64 KiB, waits for its Ack, and so on; alone, and beside a node that
 *       has as many chunks of 256 KiB under way as it is read for. Rounds of 20 acks take turns, so that other load hits both alike.
 *       Prints one JSON line: medians in ms, their ratio, what the greedy one got through.
 *
 * Links are in memory: what is measured is the queue, the disk and the server's own turns, not the network.
 */
#include "aggregator/server/capture_journal.h"
#include "aggregator/server/server.h"
#include "aggregator/store/store.h"
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "tests/support/link_mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACKS = 20, ROUNDS_MAX = 64, SMALL = 64 * 1024, LARGE = 256 * 1024 };

static void need(bool is_fine, const char *what)
{
    if (is_fine)
        return;
    fprintf(stderr, "bench_greedy: %s\n", what);
    exit(1);
}

struct peer {
    struct rs_link *link;
    bool is_writable, is_closed, has_welcome, is_opened;
    uint64_t sent_seq, durable_seq;
    struct rs_buf chunk;
};

static bool on_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct peer *peer = self;
    struct rs_message message;
    (void)link;
    need(rs_message_unpack(&message, &rankscope__down__descriptor, frame, NULL) == RS_OK,
         "a message cannot be read");
    const Rankscope__Down *down = (const Rankscope__Down *)message.body;
    peer->has_welcome = peer->has_welcome || down->message_case == RANKSCOPE__DOWN__MESSAGE_WELCOME;
    peer->is_opened = peer->is_opened || down->message_case == RANKSCOPE__DOWN__MESSAGE_OPENED;
    if (down->message_case == RANKSCOPE__DOWN__MESSAGE_ACK && down->ack->n_streams)
        peer->durable_seq = down->ack->streams[0]->durable_seq;
    rs_message_fini(&message);
    rs_frame_free(&frame);
    return true;
}

static void on_writable(void *self, struct rs_link *link)
{
    (void)link;
    ((struct peer *)self)->is_writable = true;
}

static void on_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    (void)link;
    (void)status;
    (void)reason;
    ((struct peer *)self)->is_closed = true;
}

static const struct rs_link_user user = {
    .on_message = on_message, .on_writable = on_writable, .on_closed = on_closed};

struct rig {
    struct rs_loop *loop;
    struct rs_server *server;
    struct peer *greedy; /* NULL: it is quiet */
};

static void say_chunk(struct peer *peer)
{
    struct rs_buf head = {0};
    rs_wire_chunk_head(&head, 1, peer->sent_seq + 1, 0, peer->chunk.length);
    if (rs_link_send(peer->link, rs_view_of(head.data, head.length),
                     rs_view_of(peer->chunk.data, peer->chunk.length)) == RS_OK) {
        peer->sent_seq++;
        peer->is_writable = false;
    }
    rs_buf_fini(&head);
}

static void step(struct rig *rig)
{
    if (rig->greedy && rig->greedy->is_writable)
        say_chunk(rig->greedy);
    need(rs_server_step(rig->server, rs_time_monotonic() + RS_NS_PER_MS, NULL) == RS_OK, "step");
}

static void say(struct rig *rig, struct peer *peer, const ProtobufCMessage *message)
{
    struct rs_buf buf = {0};
    rs_wire_pack(message, &buf);
    while (!peer->is_writable)
        step(rig);
    peer->is_writable = false;
    need(rs_link_send(peer->link, rs_view_of(buf.data, buf.length), rs_view_of(NULL, 0)) == RS_OK,
         "send");
    rs_buf_fini(&buf);
}

static enum rs_status put(void *self, struct rs_view chunk, const struct rs_chunk_header *header,
                          struct rs_err *err)
{
    struct rs_buf *buf = self;
    (void)err;
    if (header->kind == RS_CHUNK_SUMMARY && !buf->length)
        rs_buf_bytes(buf, chunk.data, chunk.length);
    return RS_OK;
}

/* Of bytes that do not compress. */
static void make_chunk(struct rs_buf *buf, size_t bytes)
{
    struct rs_strtab strings;
    struct rs_lanes lanes = {0};
    struct rs_chunk_writer *writer = NULL;
    uint8_t *text = rs_mem_calloc(bytes, 1);
    uint32_t state = 1;
    for (size_t i = 0; text && i < bytes; i++) {
        state = state * 1664525 + 1013904223;
        text[i] = (uint8_t)(state >> 24);
    }
    const struct rs_chunk_writer_options options = {
        .strings = &strings, .lanes = &lanes, .put = put, .put_self = buf};
    need(text && rs_strtab_init(&strings, 0) == RS_OK &&
             rs_chunk_writer_new(&options, &writer, NULL) == RS_OK &&
             rs_chunk_writer_summary(writer, rs_view_of(text, bytes), NULL) == RS_OK,
         "a chunk");
    rs_chunk_writer_free(&writer);
    rs_strtab_fini(&strings);
    rs_mem_free(text);
}

static void meet(struct rig *rig, struct peer *peer, char *name, size_t bytes)
{
    struct rs_identity who = {.party = RS_PARTY_NODE};
    char collector[] = "0123";
    Rankscope__Version version;
    (void)snprintf(who.name, sizeof who.name, "%s", name);
    *peer = (struct peer){.is_writable = true};
    make_chunk(&peer->chunk, bytes);
    peer->link = link_mem_connect_as(&who, rig->loop, &user, peer, RS_WIRE_METHOD_STREAM,
                                     rs_server_accept, rig->server);
    rs_wire_own_version(&version);
    Rankscope__Hello hello = RANKSCOPE__HELLO__INIT;
    hello.version = &version;
    hello.node = name;
    hello.collector = collector;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_HELLO;
    up.hello = &hello;
    say(rig, peer, &up.base);
    while (!peer->has_welcome)
        step(rig);
    Rankscope__Open open = RANKSCOPE__OPEN__INIT;
    open.handle = 1;
    open.run = open.incarnation = open.capture_key = open.host = name;
    open.settle_ns = 1000 * (rs_dur)RS_NS_PER_S;
    up.message_case = RANKSCOPE__UP__MESSAGE_OPEN;
    up.open = &open;
    say(rig, peer, &up.base);
    while (!peer->is_opened)
        step(rig);
}

static int by_size(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

static void measure(struct rig *rig, struct peer *peer, double *ms)
{
    for (int i = 0; i < ACKS; i++) {
        while (!peer->is_writable)
            step(rig);
        const rs_ns start = rs_time_monotonic();
        say_chunk(peer);
        while (peer->durable_seq < peer->sent_seq)
            step(rig);
        ms[i] = (double)(rs_time_monotonic() - start) / 1e6;
    }
}

int main(int argc, char **argv)
{
    const char *dir = ".";
    long rounds = 5;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--dir") == 0)
            dir = argv[i + 1];
        else if (strcmp(argv[i], "--rounds") == 0)
            rounds = strtol(argv[i + 1], NULL, 10);
    }
    need(rounds > 0 && rounds <= ROUNDS_MAX, "--rounds is 1 to 64");
    struct rs_store *store = NULL;
    struct rs_err err = {0};
    char data[4200];
    (void)snprintf(data, sizeof data, "%.4000s/greedy-data", dir);
    need(rs_store_open(data, 0, &store, &err) == RS_OK, err.text);
    struct rs_capture_journal own = {.store = store};
    const struct rs_server_journal journal = rs_capture_journal_interface(&own);
    struct rig rig = {.loop = link_mem_loop_new()};
    const struct rs_server_options options = {
        .loop = rig.loop, .store = store, .journal = &journal};
    need(rs_server_new(&options, &rig.server, &err) == RS_OK, err.text);
    static char names[2][8] = {"polite", "greedy"};
    struct peer polite, greedy;
    meet(&rig, &polite, names[0], SMALL);
    meet(&rig, &greedy, names[1], LARGE);
    static double alone[ROUNDS_MAX * ACKS], beside[ROUNDS_MAX * ACKS];
    double greedy_s = 0;
    for (long round = 0; round < rounds; round++) {
        measure(&rig, &polite, alone + round * ACKS);
        rig.greedy = &greedy;
        const rs_ns start = rs_time_monotonic();
        while (greedy.sent_seq < greedy.durable_seq + 8) /* its queue is full */
            step(&rig);
        measure(&rig, &polite, beside + round * ACKS);
        greedy_s += (double)(rs_time_monotonic() - start) / 1e9;
        rig.greedy = NULL;
        while (greedy.durable_seq < greedy.sent_seq)
            step(&rig);
    }
    const size_t count = (size_t)rounds * ACKS;
    qsort(alone, count, sizeof *alone, by_size);
    qsort(beside, count, sizeof *beside, by_size);
    printf("{\"alone_ms\": %.3f, \"beside_ms\": %.3f, \"ratio\": %.2f, \"p95_alone_ms\": %.3f, "
           "\"p95_beside_ms\": %.3f, \"greedy_mb_s\": %.1f}\n",
           alone[count / 2], beside[count / 2], beside[count / 2] / alone[count / 2],
           alone[count * 95 / 100], beside[count * 95 / 100],
           (double)greedy.sent_seq * LARGE / greedy_s / 1e6);
    rs_server_drain(rig.server);
    link_mem_cut_all(rig.loop);
    while (rs_server_session_count(rig.server))
        step(&rig);
    rs_server_free(&rig.server);
    rs_store_close(&store);
    link_mem_loop_free(&rig.loop);
    rs_buf_fini(&polite.chunk);
    rs_buf_fini(&greedy.chunk);
    return 0;
}
