/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An uplink and aggregators that say what a test wants of them: streams of captures of others, what is kept until it is settled, and where
 * a collector is sent.
 */
#include "collector/uplink/uplink.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/wire/wire.h"
#include "tests/support/link_mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <string.h>

enum { OUTBOX = 64 };

struct played {
    char dir[64];
    struct rs_loop *loop;
    struct rs_spool *spool;
    struct rs_uplink *uplink;
    /* how it answers */
    bool settles, is_elsewhere, must_go;
    rs_dur heartbeat_ns; /* 0: a second */
    rs_ns sent_ns;       /* what it says of its clock */
    unsigned heartbeats;
    rs_seq durable;
    /* what came */
    struct rs_link *link;
    unsigned connects, opens, chunks;
    rs_seq seqs[16];
    unsigned flags[16];
    struct rs_loss loss; /* the last that was told */
    bool is_gone;        /* nobody is there */
    struct rs_buf outbox[OUTBOX];
    size_t first, count;
};

/* ---- the aggregator ---------------------------------------------------------------------------------------- */

static void pump(struct played *played)
{
    while (played->link && played->first < played->count) {
        const struct rs_buf *buf = &played->outbox[played->first];
        if (rs_link_send(played->link, rs_view_of(buf->data, buf->length), rs_view_of(NULL, 0)) !=
            RS_OK)
            return;
        rs_buf_fini(&played->outbox[played->first++]);
    }
}

static void say(struct played *played, const Rankscope__Down *down)
{
    assert_true(played->count < OUTBOX);
    rs_wire_pack(&down->base, &played->outbox[played->count]);
    assert_false(played->outbox[played->count++].failed);
    pump(played);
}

static void on_hello(struct played *played)
{
    static char go_to[] = "elsewhere";
    Rankscope__Version version;
    Rankscope__Welcome welcome = RANKSCOPE__WELCOME__INIT;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    rs_wire_own_version(&version);
    welcome.version = &version;
    welcome.credit_bytes = 1 << 20;
    welcome.settles = played->settles;
    welcome.heartbeat_ns = played->heartbeat_ns ? played->heartbeat_ns : (rs_dur)RS_NS_PER_S;
    welcome.sent_ns = played->sent_ns;
    if (played->must_go)
        welcome.go_to = go_to;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_WELCOME;
    down.welcome = &welcome;
    say(played, &down);
}

static void on_open(struct played *played, const Rankscope__Open *open)
{
    static char id[] = "00000000000000aa", address[] = "unix:/b";
    Rankscope__Opened opened = RANKSCOPE__OPENED__INIT;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    played->opens++;
    opened.handle = open->handle;
    opened.durable_seq = played->durable;
    opened.is_elsewhere = opened.hold = played->is_elsewhere;
    if (played->is_elsewhere) {
        opened.aggregator = id;
        opened.aggregator_address = address;
    }
    down.message_case = RANKSCOPE__DOWN__MESSAGE_OPENED;
    down.opened = &opened;
    say(played, &down);
}

static void on_chunk(struct played *played, struct rs_frame *frame)
{
    struct rs_chunk_message chunk;
    assert_ok(rs_wire_chunk_parse(frame, &chunk, NULL));
    assert_true(played->chunks < 16);
    if (chunk.flags & RS_ENVELOPE_LOSS) {
        uint8_t bytes[RS_LOSS_BYTES];
        assert_int_equal(chunk.payload_length, RS_LOSS_BYTES);
        assert_int_equal(rs_frame_copy(frame, chunk.payload_offset, bytes, sizeof bytes),
                         sizeof bytes);
        assert_ok(rs_loss_decode(bytes, sizeof bytes, &played->loss, NULL));
    }
    played->flags[played->chunks] = chunk.flags;
    played->seqs[played->chunks++] = chunk.seq;
    Rankscope__AckStream item = RANKSCOPE__ACK_STREAM__INIT;
    Rankscope__AckStream *items[] = {&item};
    Rankscope__Ack ack = RANKSCOPE__ACK__INIT;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    item.handle = chunk.handle;
    item.durable_seq = played->durable = chunk.seq;
    ack.streams = items;
    ack.n_streams = 1;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_ACK;
    down.ack = &ack;
    say(played, &down);
}

static void on_heartbeat(struct played *played)
{
    Rankscope__Heartbeat heartbeat = RANKSCOPE__HEARTBEAT__INIT;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    played->heartbeats++;
    heartbeat.echo_sent_ns = played->sent_ns ? -played->sent_ns : 1;
    heartbeat.echo_received_ns = heartbeat.sent_ns = played->sent_ns;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_HEARTBEAT;
    down.heartbeat = &heartbeat;
    say(played, &down);
}

static bool on_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct played *played = self;
    struct rs_message message;
    (void)link;
    if (rs_wire_is_chunk(frame)) {
        on_chunk(played, frame);
        rs_frame_free(&frame);
        return true;
    }
    assert_ok(rs_message_unpack(&message, &rankscope__up__descriptor, frame, NULL));
    const Rankscope__Up *up = (const Rankscope__Up *)message.body;
    if (up->message_case == RANKSCOPE__UP__MESSAGE_HELLO)
        on_hello(played);
    else if (up->message_case == RANKSCOPE__UP__MESSAGE_OPEN)
        on_open(played, up->open);
    else if (up->message_case == RANKSCOPE__UP__MESSAGE_HEARTBEAT)
        on_heartbeat(played);
    rs_message_fini(&message);
    rs_frame_free(&frame);
    return true;
}

static void on_writable(void *self, struct rs_link *link)
{
    (void)link;
    pump(self);
}

static void on_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    struct played *played = self;
    (void)link;
    (void)status;
    (void)reason;
    played->link = NULL;
    while (played->first < played->count)
        rs_buf_fini(&played->outbox[played->first++]);
    played->first = played->count = 0;
}

static const struct rs_link_user played_user = {
    .on_message = on_message, .on_writable = on_writable, .on_closed = on_closed};

static bool accept_link(void *self, struct rs_link *link, const char *method)
{
    struct played *played = self;
    (void)method;
    link->user = &played_user;
    link->self = played;
    played->link = link;
    return true;
}

/* ---- the collector ----------------------------------------------------------------------------------------- */

static enum rs_status connect_link(void *self, const struct rs_link_user *user, void *user_self,
                                   struct rs_link **link_p, struct rs_err *err)
{
    struct played *played = self;
    if (played->is_gone)
        return rs_err_set(err, RS_UNREACHABLE, "nobody is there");
    played->connects++;
    *link_p =
        link_mem_connect(played->loop, user, user_self, RS_WIRE_METHOD_STREAM, accept_link, played);
    return RS_OK;
}

static unsigned owner(void *self, const char *id, const char *address)
{
    (void)self;
    return strcmp(id, "00000000000000aa") == 0 && strcmp(address, "unix:/b") == 0 ? 2 : 0;
}

static bool on_welcome(void *self, const Rankscope__Welcome *welcome)
{
    struct played *played = self;
    if (*welcome->go_to)
        played->must_go = false; /* the next one is another */
    return !*welcome->go_to;
}

static void put_chunks(struct played *played, unsigned count, bool is_last)
{
    static const uint8_t bytes[100];
    const struct rs_spool_source source = {.run = "r",
                                           .incarnation = "i",
                                           .capture = "c",
                                           .capture_key = "",
                                           .host = "h",
                                           .origin = "o"};
    uint32_t entry = 0;
    assert_ok(rs_spool_declare(played->spool, &source, &entry, NULL));
    for (unsigned i = 0; i < count; i++)
        assert_ok(rs_spool_put(played->spool, entry, 0,
                               is_last && i + 1 == count ? RS_ENVELOPE_LAST : 0,
                               rs_view_of(bytes, sizeof bytes), NULL));
}

static struct played *begin(bool must_keep)
{
    struct played *played = rs_mem_calloc(1, sizeof *played);
    char spool[128];
    assert_non_null(played);
    rs_thread_is(RS_THREAD_UPLINK);
    tmp_dir_make(played->dir);
    (void)snprintf(spool, sizeof spool, "%s/spool", played->dir);
    played->loop = link_mem_loop_new();
    assert_ok(rs_spool_open(spool, NULL, &played->spool, NULL));
    const struct rs_uplink_options options = {.spool = played->spool,
                                              .loop = played->loop,
                                              .connect = connect_link,
                                              .connect_self = played,
                                              .node = "n",
                                              .backoff_min_ns = RS_NS_PER_MS,
                                              .backoff_max_ns = RS_NS_PER_MS,
                                              .on_welcome = on_welcome,
                                              .owner = owner,
                                              .must_keep = must_keep,
                                              .self = played};
    assert_ok(rs_uplink_new(&options, &played->uplink, NULL));
    return played;
}

static void step(struct played *played)
{
    rs_uplink_step(played->uplink, rs_time_monotonic() + RS_NS_PER_MS);
}

/* Steps until it is so, for ten seconds at most. */
#define UNTIL(played, condition)                                                                   \
    do {                                                                                           \
        const rs_ns until_deadline = rs_time_monotonic() + 10 * (rs_dur)RS_NS_PER_S;               \
        while (!(condition) && rs_time_monotonic() < until_deadline)                               \
            step(played);                                                                          \
        assert_true(condition);                                                                    \
    } while (0)

static void end(struct played *played)
{
    rs_uplink_close(played->uplink);
    UNTIL(played, rs_uplink_is_closed(played->uplink));
    for (int i = 0; i < 10; i++) /* the other end hears of it, too */
        assert_true(rs_loop_run(played->loop, rs_time_monotonic()) >= 0);
    rs_uplink_free(&played->uplink);
    rs_spool_close(&played->spool);
    link_mem_loop_free(&played->loop);
    tmp_dir_remove(played->dir);
    rs_mem_free(played);
}

static bool is_in_spool(const struct played *played)
{
    struct rs_spool_entry entry;
    return rs_spool_next_entry(played->spool, 0, &entry) == RS_OK;
}

/* ---- tests --------------------------------------------------------------------------------------------------- */

static void what_is_elsewhere_stays_and_is_asked_for_again(void **state)
{
    (void)state;
    struct played *played = begin(false);
    put_chunks(played, 3, true);
    played->is_elsewhere = true;
    UNTIL(played, played->opens == 1);
    UNTIL(played, rs_uplink_waits_for(played->uplink, 0) == 2);
    assert_int_equal(rs_uplink_owner_of(played->uplink, 1), 2);
    for (int i = 0; i < 50; i++)
        step(played);
    assert_int_equal(played->chunks, 0);
    assert_int_equal(rs_spool_stats(played->spool).waiting_chunks, 3);
    assert_int_equal(rs_spool_stats(played->spool).held_entries, 0); /* nobody evicts it */
    /* It was lost meanwhile, and the one that is asked has it now. */
    played->is_elsewhere = false;
    UNTIL(played, played->chunks == 3);
    assert_int_equal(played->opens, 2);
    assert_int_equal(rs_uplink_waits_for(played->uplink, 0), 0);
    UNTIL(played, !is_in_spool(played));
    end(played);
}

static void what_one_acknowledged_is_sent_to_the_next(void **state)
{
    (void)state;
    struct played *played = begin(true);
    put_chunks(played, 3, true);
    played->settles = true;
    UNTIL(played, rs_spool_stats(played->spool).kept_bytes == 300);
    assert_int_equal(rs_spool_stats(played->spool).waiting_chunks, 0);
    assert_int_equal(played->chunks, 3);
    /* It is lost, and the next one has nothing. */
    played->durable = 0;
    played->chunks = 0;
    link_mem_cut_all(played->loop);
    UNTIL(played, played->chunks == 3);
    for (rs_seq i = 0; i < 3; i++)
        assert_int_equal(played->seqs[i], i + 1);
    UNTIL(played, rs_spool_stats(played->spool).kept_bytes == 300);
    /* Of another capture: nothing is said of this one. */
    char other[] = "another", own[] = "c";
    char *captures[] = {other};
    Rankscope__Settled settled = RANKSCOPE__SETTLED__INIT;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    settled.captures = captures;
    settled.n_captures = 1;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_SETTLED;
    down.settled = &settled;
    say(played, &down);
    for (int i = 0; i < 20; i++)
        step(played);
    assert_true(is_in_spool(played));
    captures[0] = own;
    say(played, &down);
    UNTIL(played, !is_in_spool(played));
    end(played);
}

static void what_could_not_be_kept_is_told(void **state)
{
    (void)state;
    struct played *played = begin(true);
    put_chunks(played, 3, false);
    played->settles = true;
    UNTIL(played, rs_spool_stats(played->spool).kept_bytes == 300);
    rs_spool_ack(played->spool, 1, 2); /* as the spool does when it needs the room */
    played->durable = 0;
    played->chunks = 0;
    link_mem_cut_all(played->loop);
    put_chunks(played, 1, true);
    UNTIL(played, played->chunks == 3);
    assert_int_equal(played->seqs[0], 2);
    assert_true(played->flags[0] & RS_ENVELOPE_LOSS);
    assert_int_equal(played->loss.first_seq, 1);
    assert_int_equal(played->loss.chunks, 2);
    assert_int_equal(played->loss.cause, RS_LOSS_FORGOTTEN);
    assert_int_equal(played->seqs[1], 3);
    assert_int_equal(played->seqs[2], 4);
    assert_true(played->flags[2] & RS_ENVELOPE_LAST);
    end(played);
}

static void nothing_is_kept_of_one_that_does_not_settle(void **state)
{
    (void)state;
    struct played *played = begin(true);
    put_chunks(played, 3, true);
    UNTIL(played, !is_in_spool(played));
    end(played);
    played = begin(false); /* nor where there is nobody else */
    played->settles = true;
    put_chunks(played, 3, true);
    UNTIL(played, !is_in_spool(played));
    end(played);
}

static void nothing_is_sent_to_one_that_sends_on(void **state)
{
    (void)state;
    struct played *played = begin(false);
    put_chunks(played, 3, true);
    played->must_go = true;
    UNTIL(played, played->connects == 2);
    assert_int_equal(played->opens, 0);
    UNTIL(played, played->chunks == 3);
    assert_int_equal(played->connects, 2);
    end(played);
}

/* Numbers of a peer that are no lengths and no instants. */
static void an_aggregator_with_impossible_clocks_is_served(void **state)
{
    (void)state;
    struct played *played = begin(false);
    played->heartbeat_ns = INT64_MAX;
    played->sent_ns = INT64_MAX;
    put_chunks(played, 3, true);
    UNTIL(played, played->chunks == 3 && played->heartbeats == 1);
    UNTIL(played, rs_uplink_stats(played->uplink).heartbeats == 1);
    rs_uplink_beat(played->uplink);
    UNTIL(played, rs_uplink_stats(played->uplink).heartbeats == 2);
    assert_int_equal(rs_uplink_stats(played->uplink).round_trip_ns, 0);
    end(played);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_elsewhere_stays_and_is_asked_for_again),
        cmocka_unit_test(what_one_acknowledged_is_sent_to_the_next),
        cmocka_unit_test(what_could_not_be_kept_is_told),
        cmocka_unit_test(nothing_is_kept_of_one_that_does_not_settle),
        cmocka_unit_test(nothing_is_sent_to_one_that_sends_on),
        cmocka_unit_test(an_aggregator_with_impossible_clocks_is_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
