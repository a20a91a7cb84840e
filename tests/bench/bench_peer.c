/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One peer of a real aggregator that watches how soon it is answered.
 *
 *   bench_peer opens --connect ADDR [--streams 64] [--captures 1] [--seconds 60]
 *       Says Hello and, behind it at once, Open of so many streams: of one capture, or of one each (--captures). Prints when Welcome came and
 *       when the last of them was opened: {"welcome_ms", "streams", "opened", "refused", "opened_ms"}; opened_ms is null
 *       when they were not all opened in that time.
 *   bench_peer acks --connect ADDR [--every-ms 20] [--bytes 16384] [--seconds 10]
 *       A chunk every so many ms, each when the last one is acknowledged. Prints one line: {"acks", "median_ms", "p99_ms", "slowest_ms"}.
 *       A chunk that waits for its Ack at the end counts as long as it has waited.
 *
 * ADDR is unix:PATH or, in plain text, 127.0.0.1:PORT. Streams are of files, under names that nobody else has.
 */
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "common/wire/link.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES_MAX = 1 << 16, NAMED_MAX = 1 << 20 };

static struct {
    const char *connect;
    uint64_t streams, every_ms, bytes, seconds;
    bool has_captures; /* one for each stream */
} asked = {.streams = 64, .every_ms = 20, .bytes = 16384, .seconds = 10};

struct peer {
    struct rs_loop *loop;
    struct rs_link *link; /* NULL: not yet, or closed */
    bool is_writable;
    rs_ns welcome_at, opened_at; /* 0: not yet; of the last stream */
    uint64_t opened, refused;
    uint64_t durable_seq;
};

static void fail_with(const char *what, const char *why)
{
    fprintf(stderr, "bench_peer: %s: %s\n", what, why);
    exit(1);
}

/* ---- the link ------------------------------------------------------------------------------------------------ */

static bool on_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct peer *peer = self;
    struct rs_message message;
    struct rs_err err = {0};
    (void)link;
    if (rs_message_unpack(&message, &rankscope__down__descriptor, frame, &err) < 0)
        fail_with("a message", err.text);
    const Rankscope__Down *down = (const Rankscope__Down *)message.body;
    const rs_ns now = rs_time_monotonic();
    if (down->message_case == RANKSCOPE__DOWN__MESSAGE_WELCOME) {
        peer->welcome_at = now;
    } else if (down->message_case == RANKSCOPE__DOWN__MESSAGE_OPENED) {
        peer->opened_at = now;
        peer->refused += *down->opened->refused != '\0';
        peer->opened += *down->opened->refused == '\0';
    } else if (down->message_case == RANKSCOPE__DOWN__MESSAGE_ACK && down->ack->n_streams) {
        peer->durable_seq = down->ack->streams[0]->durable_seq;
        if (down->ack->streams[0]->refusal)
            fail_with("a chunk was refused", down->ack->streams[0]->reason);
    }
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
    struct peer *peer = self;
    (void)link;
    peer->link = NULL;
    if (status != RS_OK && status != RS_CANCELLED)
        fail_with("the link was closed", reason);
}

static void step(const struct peer *peer, rs_ns until)
{
    if (!peer->link || rs_loop_run(peer->loop, until) < 0)
        fail_with("the link", "it ended");
}

static void send_when_writable(struct peer *peer, struct rs_view head, struct rs_view payload)
{
    while (!peer->is_writable)
        step(peer, rs_time_monotonic() + RS_NS_PER_S);
    peer->is_writable = false;
    if (rs_link_send(peer->link, head, payload) != RS_OK)
        fail_with("the link", "it takes nothing");
}

static void say(struct peer *peer, const ProtobufCMessage *message)
{
    struct rs_buf buf = {0};
    rs_wire_pack(message, &buf);
    if (buf.failed)
        fail_with("a message", "out of memory");
    send_when_writable(peer, rs_view_of(buf.data, buf.length), rs_view_of(NULL, 0));
    rs_buf_fini(&buf);
}

static void say_hello(struct peer *peer, char *name)
{
    Rankscope__Version version;
    rs_wire_own_version(&version);
    Rankscope__Hello hello = RANKSCOPE__HELLO__INIT;
    hello.version = &version;
    hello.node = hello.collector = name;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_HELLO;
    up.hello = &hello;
    say(peer, &up.base);
}

static void open_stream(struct peer *peer, char *name, uint64_t number)
{
    char key[80], incarnation[80];
    const uint64_t capture = asked.has_captures ? number : 0;
    (void)snprintf(key, sizeof key, "%.40s-%" PRIu64, name, capture);
    (void)snprintf(incarnation, sizeof incarnation, "%.40s:%" PRIu64, name, number);
    Rankscope__Open open = RANKSCOPE__OPEN__INIT;
    open.handle = (uint32_t)number + 1;
    open.rank = asked.has_captures ? 0 : (uint32_t)number;
    open.run = open.host = name;
    open.incarnation = incarnation;
    open.capture_key = key;
    open.settle_ns = 5 * (rs_dur)RS_NS_PER_S;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_OPEN;
    up.open = &open;
    say(peer, &up.base);
}

static void meet(struct peer *peer)
{
    static const struct rs_link_user user = {
        .on_message = on_message, .on_writable = on_writable, .on_closed = on_closed};
    struct rs_address address;
    struct rs_err err = {0};
    *peer = (struct peer){.is_writable = true};
    if (rs_address_parse(asked.connect, &address, &err) < 0 ||
        rs_address_guard(&address, NULL, true, &err) < 0 ||
        rs_grpc_loop_new(&peer->loop, &err) < 0 ||
        rs_grpc_connect(peer->loop, &address, RS_WIRE_METHOD_STREAM, &user, peer, &peer->link,
                        &err) < 0)
        fail_with("cannot connect", err.text);
}

static void part(struct peer *peer)
{
    if (peer->link)
        rs_link_abort(peer->link);
    while (peer->link)
        step(peer, rs_time_monotonic() + RS_NS_PER_S / 10);
    rs_grpc_loop_free(&peer->loop);
}

static double ms_between(rs_ns from, rs_ns to)
{
    return (double)(to - from) / (double)RS_NS_PER_MS;
}

/* ---- opens ------------------------------------------------------------------------------------------------------ */

static void opens(char *name)
{
    struct peer peer;
    const rs_ns begun = rs_time_monotonic();
    const rs_ns until = begun + (rs_dur)asked.seconds * RS_NS_PER_S;
    meet(&peer);
    say_hello(&peer, name);
    for (uint64_t i = 0; i < asked.streams; i++)
        open_stream(&peer, name, i);
    while (peer.opened + peer.refused < asked.streams && rs_time_monotonic() < until)
        step(&peer, until);
    if (!peer.welcome_at)
        fail_with("Welcome", "it did not come");
    printf("{\"welcome_ms\": %.1f, \"streams\": %" PRIu64 ", \"opened\": %" PRIu64
           ", \"refused\": %" PRIu64 ", \"opened_ms\": ",
           ms_between(begun, peer.welcome_at), asked.streams, peer.opened, peer.refused);
    if (peer.opened == asked.streams)
        printf("%.1f}\n", ms_between(begun, peer.opened_at));
    else
        printf("null}\n");
    part(&peer);
}

/* ---- acks ------------------------------------------------------------------------------------------------------- */

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
static struct rs_buf make_chunk(void)
{
    struct rs_buf chunk = {0};
    struct rs_strtab strings;
    struct rs_lanes lanes = {0};
    struct rs_chunk_writer *writer = NULL;
    uint8_t *bytes = rs_mem_calloc(asked.bytes, 1);
    uint32_t state = 1;
    for (size_t i = 0; bytes && i < asked.bytes; i++) {
        state = state * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(state >> 24);
    }
    const struct rs_chunk_writer_options options = {
        .strings = &strings, .lanes = &lanes, .put = put, .put_self = &chunk};
    if (!bytes || rs_strtab_init(&strings, 0) < 0 ||
        rs_chunk_writer_new(&options, &writer, NULL) < 0 ||
        rs_chunk_writer_summary(writer, rs_view_of(bytes, asked.bytes), NULL) < 0)
        fail_with("a chunk", "out of memory");
    rs_chunk_writer_free(&writer);
    rs_strtab_fini(&strings);
    rs_mem_free(bytes);
    return chunk;
}

static int by_size(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* How long it took until the chunk was durable there, or until then. */
static double time_ack(struct peer *peer, const struct rs_buf *chunk, uint64_t seq, rs_ns until)
{
    struct rs_buf head = {0};
    const rs_ns begun = rs_time_monotonic();
    rs_wire_chunk_head(&head, 1, seq, 0, chunk->length);
    send_when_writable(peer, rs_view_of(head.data, head.length),
                       rs_view_of(chunk->data, chunk->length));
    rs_buf_fini(&head);
    while (peer->durable_seq < seq && rs_time_monotonic() < until)
        step(peer, until);
    return ms_between(begun, rs_time_monotonic());
}

static void acks(char *name)
{
    static double ms[SAMPLES_MAX];
    struct peer peer;
    struct rs_buf chunk = make_chunk();
    uint64_t count = 0;
    meet(&peer);
    say_hello(&peer, name);
    open_stream(&peer, name, 0);
    while (!peer.opened)
        step(&peer, rs_time_monotonic() + RS_NS_PER_S);
    (void)time_ack(&peer, &chunk, 1, RS_NS_MAX); /* its files are made with the first */
    const rs_ns until = rs_time_monotonic() + (rs_dur)asked.seconds * RS_NS_PER_S;
    while (count < SAMPLES_MAX && rs_time_monotonic() < until) {
        const rs_ns next = rs_time_monotonic() + (rs_dur)asked.every_ms * RS_NS_PER_MS;
        ms[count] = time_ack(&peer, &chunk, count + 2, until);
        count++;
        while (rs_time_monotonic() < next)
            step(&peer, next);
    }
    qsort(ms, count, sizeof *ms, by_size);
    printf("{\"acks\": %" PRIu64 ", \"median_ms\": %.2f, \"p99_ms\": %.2f, \"slowest_ms\": %.2f}\n",
           count, ms[count / 2], ms[count * 99 / 100], ms[count - 1]);
    rs_buf_fini(&chunk);
    part(&peer);
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

static bool take_option(const char *name, const char *value)
{
    static const struct {
        const char *name;
        uint64_t *number;
    } numbers[] = {{"--streams", &asked.streams},
                   {"--every-ms", &asked.every_ms},
                   {"--bytes", &asked.bytes},
                   {"--seconds", &asked.seconds}};
    if (strcmp(name, "--connect") == 0)
        asked.connect = value;
    else if (strcmp(name, "--captures") == 0)
        asked.has_captures = strcmp(value, "0") != 0;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(name, numbers[i].name) != 0)
            continue;
        *numbers[i].number = strtoull(value, NULL, 10);
        return *numbers[i].number > 0 && *numbers[i].number < NAMED_MAX;
    }
    return strcmp(name, "--connect") == 0 || strcmp(name, "--captures") == 0;
}

int main(int count, char **words)
{
    char name[40];
    bool is_right = count > 1 && (strcmp(words[1], "opens") == 0 || strcmp(words[1], "acks") == 0);
    for (int i = 2; is_right && i < count; i += 2)
        is_right = i + 1 < count && take_option(words[i], words[i + 1]);
    if (!is_right || !asked.connect) {
        fprintf(stderr, "usage: bench_peer opens --connect ADDR [--streams N] [--captures 0|1] "
                        "[--seconds N]\n"
                        "       bench_peer acks --connect ADDR [--every-ms N] [--bytes N] "
                        "[--seconds N]\n");
        return 2;
    }
    (void)snprintf(name, sizeof name, "peer%ld", (long)getpid());
    if (strcmp(words[1], "opens") == 0)
        opens(name);
    else
        acks(name);
    return 0;
}
