/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer can make the aggregator hold (aggregator/server/bounds.h), and that nobody waits for the disk but those who asked for
 * it. Over links in memory: what happens next is a step of ours, and no assertion is about time. The disk is a gate that the test opens.
 */
#include "aggregator/server/server.h"
#include "collector/uplink/uplink.h"
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "tests/support/link_mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const rs_dur patience =
    600 * (rs_dur)RS_NS_PER_S; /* a machine under load; nothing takes so long */

/* A sanitizer makes all of it ten times slower; what it looks for is in the first hundreds. */
#if defined(RS_TSAN) || defined(__SANITIZE_ADDRESS__)
enum { MANY_RANKS = 20000, MANY_CAPTURES = 200 };
#else
enum { MANY_RANKS = 210000, MANY_CAPTURES = 3000 };
#endif

struct rig {
    char dir[64];
    struct rs_loop *loop;
    struct rs_store *store;
    struct rs_server *server;
    struct rs_spool *spool;
    struct rs_uplink *uplink; /* NULL: none */
    pthread_mutex_t lock;     /* guards the gate and the count */
    pthread_cond_t is_open_now;
    bool is_shut; /* the disk: whoever writes a capture down waits */
    unsigned created, closed;
    unsigned synced;       /* how often the rows of new captures were made durable */
    unsigned refusals;     /* so many rows from now on the disk refuses */
    unsigned saved, final; /* rows written; ranks that were done in one of them */
    unsigned draws;        /* names asked for; the last one is kept */
    char drawn[RS_STORE_ID_BYTES];
    Rankscope__RankState *states, **pointers; /* of the uplink's table */
    char (*incarnations)[40];
    size_t rank_count;
};

/* ---- a journal behind a gate --------------------------------------------------------------------------------- */

static void pass_gate(struct rig *rig)
{
    (void)pthread_mutex_lock(&rig->lock);
    while (rig->is_shut)
        (void)pthread_cond_wait(&rig->is_open_now, &rig->lock);
    (void)pthread_mutex_unlock(&rig->lock);
}

static void set_gate(struct rig *rig, bool is_shut)
{
    (void)pthread_mutex_lock(&rig->lock);
    rig->is_shut = is_shut;
    (void)pthread_cond_broadcast(&rig->is_open_now);
    (void)pthread_mutex_unlock(&rig->lock);
}

static unsigned count_of(struct rig *rig, const unsigned *counter)
{
    (void)pthread_mutex_lock(&rig->lock);
    const unsigned count = *counter;
    (void)pthread_mutex_unlock(&rig->lock);
    return count;
}

static void count_up(struct rig *rig, unsigned *counter)
{
    (void)pthread_mutex_lock(&rig->lock);
    ++*counter;
    (void)pthread_mutex_unlock(&rig->lock);
}

static enum rs_status journal_name(void *self, struct rs_coord_capture *capture, struct rs_err *err)
{
    struct rig *rig = self;
    struct rs_capture_facts facts = {.created_ns = 1};
    (void)snprintf(facts.id, sizeof facts.id, "%s", capture->id);
    /* Random names do meet, of thousands in one second: here every second one is first the name before it. */
    if (!capture->id[0] && ++rig->draws % 3 == 2) {
        (void)snprintf(capture->id, sizeof capture->id, "%s", rig->drawn);
        return RS_OK;
    }
    const enum rs_status status = rs_store_name_capture(rig->store, &facts, err);
    (void)snprintf(rig->drawn, sizeof rig->drawn, "%s", facts.id);
    (void)snprintf(capture->id, sizeof capture->id, "%s", facts.id);
    return status;
}

static enum rs_status journal_create(void *self, struct rs_coord_capture *capture,
                                     struct rs_err *err)
{
    struct rig *rig = self;
    struct rs_capture_facts facts = {.created_ns = 1};
    pass_gate(rig);
    (void)snprintf(facts.id, sizeof facts.id, "%s", capture->id);
    (void)snprintf(facts.run, sizeof facts.run, "%s", capture->run);
    (void)snprintf(facts.state, sizeof facts.state, "collecting");
    (void)snprintf(facts.source, sizeof facts.source, "files");
    count_up(rig, &rig->created);
    return rs_store_create_capture(rig->store, &facts, err);
}

static enum rs_status journal_sync(void *self, struct rs_err *err)
{
    struct rig *rig = self;
    count_up(rig, &rig->synced);
    return rs_store_sync_captures(rig->store, err);
}

static enum rs_status journal_save(void *self, const struct rs_coord_capture *capture,
                                   struct rs_err *err)
{
    struct rig *rig = self;
    pass_gate(rig);
    (void)pthread_mutex_lock(&rig->lock);
    const bool is_refused = rig->refusals > 0;
    rig->refusals -= is_refused;
    rig->saved += !is_refused;
    for (size_t i = 0; i < capture->rank_count && !is_refused; i++)
        rig->final += rs_progress_is_final(capture->ranks[i].state);
    (void)pthread_mutex_unlock(&rig->lock);
    return is_refused ? rs_err_set(err, RS_IO, "database: database or disk is full") : RS_OK;
}

static void journal_facts(void *self, const struct rs_coord_capture *capture,
                          struct rs_capture_facts *facts)
{
    (void)self;
    *facts = (struct rs_capture_facts){.is_closed = true, .created_ns = 1, .closed_ns = 2};
    (void)snprintf(facts->id, sizeof facts->id, "%s", capture->id);
    (void)snprintf(facts->state, sizeof facts->state, "%s", rs_capture_state_text(capture->state));
}

static enum rs_status journal_find(void *self, const char *id, unsigned parts,
                                   struct rs_coord_capture *capture, struct rs_err *err)
{
    (void)parts;
    (void)self;
    (void)capture;
    return rs_err_set(err, RS_NOTFOUND, "there is no capture %s", id);
}

static enum rs_status
journal_list(void *self, bool (*visit)(void *visitor, const struct rs_coord_capture *capture),
             void *visitor, struct rs_err *err)
{
    (void)self;
    (void)visit;
    (void)visitor;
    (void)err;
    return RS_OK;
}

static void journal_closed(void *self, const struct rs_capture_facts *facts)
{
    struct rig *rig = self;
    (void)facts;
    count_up(rig, &rig->closed);
}

/* ---- both ends ------------------------------------------------------------------------------------------------ */

static struct rig *begin(const struct rs_server_options *bounds, rs_dur gone_ns)
{
    struct rig *rig = rs_mem_calloc(1, sizeof *rig);
    assert_non_null(rig);
    tmp_dir_make(rig->dir);
    (void)pthread_mutex_init(&rig->lock, NULL);
    (void)pthread_cond_init(&rig->is_open_now, NULL);
    rig->loop = link_mem_loop_new();
    assert_ok(rs_store_open(rig->dir, 64 * 1024, &rig->store, NULL));
    const struct rs_server_journal journal = {.name = journal_name,
                                              .create = journal_create,
                                              .sync = journal_sync,
                                              .save = journal_save,
                                              .facts = journal_facts,
                                              .find = journal_find,
                                              .list = journal_list,
                                              .closed = journal_closed,
                                              .self = rig};
    const struct rs_coord_options coord = {.gone_ns = gone_ns};
    struct rs_server_options options = *bounds;
    options.loop = rig->loop;
    options.store = rig->store;
    options.journal = &journal;
    options.coord = &coord;
    options.heartbeat_ns = RS_NS_PER_MS;
    assert_ok(rs_server_new(&options, &rig->server, NULL));
    return rig;
}

static void step(struct rig *rig)
{
    if (rig->uplink)
        rs_uplink_step(rig->uplink, rs_time_monotonic() + RS_NS_PER_MS);
    assert_ok(rs_server_step(rig->server, rs_time_monotonic() + RS_NS_PER_MS, NULL));
}

/* Steps until `condition`; the deadline is for a broken program. */
#define STEP_UNTIL(rig, condition)                                                                 \
    do {                                                                                           \
        const rs_ns deadline_ = rs_time_monotonic() + patience;                                    \
        while (!(condition) && rs_time_monotonic() < deadline_)                                    \
            step(rig);                                                                             \
        assert_true(condition);                                                                    \
    } while (0)

static void end(struct rig *rig)
{
    if (rig->uplink) {
        rs_uplink_close(rig->uplink);
        STEP_UNTIL(rig, rs_uplink_is_closed(rig->uplink));
        rs_uplink_free(&rig->uplink);
        rs_spool_close(&rig->spool);
    }
    rs_server_drain(rig->server);
    STEP_UNTIL(rig, rs_server_session_count(rig->server) == 0);
    rs_server_free(&rig->server);
    rs_store_close(&rig->store);
    link_mem_loop_free(&rig->loop);
    (void)pthread_cond_destroy(&rig->is_open_now);
    (void)pthread_mutex_destroy(&rig->lock);
    tmp_dir_remove(rig->dir);
    rs_mem_free(rig->states);
    rs_mem_free(rig->pointers);
    rs_mem_free(rig->incarnations);
    rs_mem_free(rig);
}

static enum rs_status connect_link(void *self, const struct rs_link_user *user, void *user_self,
                                   struct rs_link **link_p, struct rs_err *err)
{
    struct rig *rig = self;
    (void)err;
    *link_p = link_mem_connect(rig->loop, user, user_self, RS_WIRE_METHOD_STREAM, rs_server_accept,
                               rig->server);
    return RS_OK;
}

static size_t give_ranks(void *self, Rankscope__RankState ***states_p)
{
    struct rig *rig = self;
    *states_p = rig->pointers;
    return rig->rank_count;
}

static void make_ranks(struct rig *rig, size_t count)
{
    static char run[] = "a run of many ranks";
    rig->states = rs_mem_calloc(count, sizeof *rig->states);
    rig->pointers = rs_mem_calloc(count, sizeof(Rankscope__RankState *));
    rig->incarnations = rs_mem_calloc(count, sizeof *rig->incarnations);
    assert_true(rig->states && rig->pointers && rig->incarnations);
    for (size_t i = 0; i < count; i++) {
        Rankscope__RankState *state = &rig->states[i];
        rankscope__rank_state__init(state);
        (void)snprintf(rig->incarnations[i], sizeof rig->incarnations[i], "host:%zu:1", i);
        state->run = run;
        state->rank = (uint32_t)i;
        state->incarnation = rig->incarnations[i];
        state->step = -1;
        rig->pointers[i] = state;
    }
    rig->rank_count = count;
}

static void start_uplink(struct rig *rig)
{
    char spool[128];
    (void)snprintf(spool, sizeof spool, "%s/spool", rig->dir);
    assert_ok(rs_spool_open(spool, NULL, &rig->spool, NULL));
    const struct rs_uplink_options options = {.spool = rig->spool,
                                              .loop = rig->loop,
                                              .connect = connect_link,
                                              .connect_self = rig,
                                              .node = "node",
                                              .backoff_min_ns = RS_NS_PER_MS,
                                              .backoff_max_ns = 20 * (rs_dur)RS_NS_PER_MS,
                                              .ranks = give_ranks,
                                              .self = rig};
    assert_ok(rs_uplink_new(&options, &rig->uplink, NULL));
}

static enum rs_status put_chunk(void *self, struct rs_view chunk,
                                const struct rs_chunk_header *header, struct rs_err *err)
{
    struct rs_buf *buf = self;
    (void)err;
    if (header->kind == RS_CHUNK_SUMMARY && !buf->length)
        rs_buf_bytes(buf, chunk.data, chunk.length);
    return RS_OK;
}

static struct rs_buf make_chunk(void)
{
    struct rs_buf buf = {0};
    struct rs_strtab strings;
    struct rs_lanes lanes = {0};
    struct rs_chunk_writer *writer = NULL;
    static const char text[] = "a summary, which nobody opens here";
    assert_ok(rs_strtab_init(&strings, 0));
    const struct rs_chunk_writer_options options = {
        .strings = &strings, .lanes = &lanes, .put = put_chunk, .put_self = &buf};
    assert_ok(rs_chunk_writer_new(&options, &writer, NULL));
    assert_ok(rs_chunk_writer_summary(writer, rs_view_of(text, sizeof text), NULL));
    rs_chunk_writer_free(&writer);
    rs_strtab_fini(&strings);
    return buf;
}

/* A stream of one chunk: the only one of its capture, or one of a capture of `world`. */
static void put_stream(struct rig *rig, const struct rs_buf *chunk, uint32_t number, uint32_t world)
{
    char incarnation[32], key[32];
    uint32_t entry = 0;
    (void)snprintf(incarnation, sizeof incarnation, "i%u", number);
    (void)snprintf(key, sizeof key, "k%u", world == 1 ? number : 0);
    const struct rs_spool_source source = {.run = "r",
                                           .rank = world == 1 ? 0 : number,
                                           .incarnation = incarnation,
                                           .capture = "",
                                           .capture_key = key,
                                           .world = world,
                                           .host = "h",
                                           .settle_ns = 1000 * (rs_dur)RS_NS_PER_S,
                                           .origin = "o"};
    assert_ok(rs_spool_declare(rig->spool, &source, &entry, NULL));
    assert_ok(rs_spool_put(rig->spool, entry, 0, RS_ENVELOPE_LAST,
                           rs_view_of(chunk->data, chunk->length), NULL));
}

/* ---- a peer of our own ------------------------------------------------------------------------------------------ */

struct peer {
    struct rs_link *link;
    bool takes; /* its messages */
    bool is_writable, is_closed, has_last;
    unsigned messages, heartbeats;
    size_t ranks, largest;
};

static bool peer_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct peer *peer = self;
    struct rs_message message;
    struct rs_err err = {0};
    (void)link;
    peer->messages++;
    if (frame->length > peer->largest)
        peer->largest = frame->length;
    if (rs_message_unpack(&message, &rankscope__reply__descriptor, frame, &err) == RS_OK) {
        const Rankscope__Reply *reply = (const Rankscope__Reply *)message.body;
        if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_RANKS)
            peer->ranks += reply->ranks->n_ranks;
        peer->has_last = peer->has_last || reply->last;
    }
    rs_message_fini(&message);
    rs_frame_free(&frame);
    return peer->takes;
}

static void peer_writable(void *self, struct rs_link *link)
{
    (void)link;
    ((struct peer *)self)->is_writable = true;
}

static void peer_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    (void)link;
    (void)status;
    (void)reason;
    ((struct peer *)self)->is_closed = true;
}

static const struct rs_link_user peer_user = {
    .on_message = peer_message, .on_writable = peer_writable, .on_closed = peer_closed};

static void meet(struct rig *rig, struct peer *peer, const char *method)
{
    *peer = (struct peer){.takes = true, .is_writable = true};
    peer->link =
        link_mem_connect(rig->loop, &peer_user, peer, method, rs_server_accept, rig->server);
}

static void say(struct rig *rig, struct peer *peer, const ProtobufCMessage *message)
{
    struct rs_buf buf = {0};
    rs_wire_pack(message, &buf);
    assert_false(buf.failed);
    STEP_UNTIL(rig, peer->is_writable || peer->is_closed);
    peer->is_writable = false;
    assert_ok(rs_link_send(peer->link, rs_view_of(buf.data, buf.length), rs_view_of(NULL, 0)));
    rs_buf_fini(&buf);
}

static void say_hello(struct rig *rig, struct peer *peer)
{
    static char node[] = "node", collector[] = "0123";
    Rankscope__Version version;
    rs_wire_own_version(&version);
    Rankscope__Hello hello = RANKSCOPE__HELLO__INIT;
    hello.version = &version;
    hello.node = node;
    hello.collector = collector;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_HELLO;
    up.hello = &hello;
    say(rig, peer, &up.base);
}

static void ask_ranks(struct rig *rig, struct peer *peer)
{
    Rankscope__Version version;
    rs_wire_own_version(&version);
    Rankscope__AskRanks ranks = RANKSCOPE__ASK_RANKS__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.version = &version;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_RANKS;
    ask.ranks = &ranks;
    meet(rig, peer, RS_WIRE_METHOD_ASK);
    say(rig, peer, &ask.base);
}

/* ---- the tests ------------------------------------------------------------------------------------------------- */

static void a_link_that_says_nothing_is_closed(void **state)
{
    (void)state;
    const struct rs_server_options bounds = {.first_message_ns = RS_NS_PER_MS};
    struct rig *rig = begin(&bounds, 0);
    struct peer collector, client;
    meet(rig, &collector, RS_WIRE_METHOD_STREAM);
    meet(rig, &client, RS_WIRE_METHOD_ASK);
    STEP_UNTIL(rig, collector.is_closed && client.is_closed);
    STEP_UNTIL(rig, rs_server_session_count(rig->server) == 0);
    end(rig);
}

static void a_peer_that_takes_no_answers_is_not_read_and_then_closed(void **state)
{
    (void)state;
    const struct rs_server_options bounds = {.outbox_bytes = 2048, .outbox_ns = RS_NS_PER_S / 5};
    struct rig *rig = begin(&bounds, 0);
    struct peer stalled;
    meet(rig, &stalled, RS_WIRE_METHOD_STREAM);
    stalled.takes = false; /* the first answer is the last that it takes */
    say_hello(rig, &stalled);
    unsigned sent = 0;
    size_t most = 0;
    const rs_ns deadline = rs_time_monotonic() + patience;
    while (!stalled.is_closed && rs_time_monotonic() < deadline) {
        if (stalled.is_writable) {
            Rankscope__Heartbeat heartbeat = RANKSCOPE__HEARTBEAT__INIT;
            heartbeat.sent_ns = rs_time_realtime();
            Rankscope__Up up = RANKSCOPE__UP__INIT;
            up.message_case = RANKSCOPE__UP__MESSAGE_HEARTBEAT;
            up.heartbeat = &heartbeat;
            say(rig, &stalled, &up.base);
            sent++;
        }
        step(rig);
        const size_t held = rs_server_held(rig->server).outbox_bytes;
        most = held > most ? held : most;
    }
    assert_true(stalled.is_closed);
    /* Each is answered by some 30 bytes: without the bound it would go on as long as it lives. */
    print_message("%u heartbeats, %zu bytes held at most\n", sent, most);
    assert_true(sent > 10 && sent < 400);
    assert_true(most > 2048 && most < 2048 + 256);
    end(rig);
}

static void streams_that_are_ended_are_forgotten(void **state)
{
    (void)state;
    enum { STREAMS = 300 };
    const struct rs_server_options bounds = {0};
    struct rig *rig = begin(&bounds, 0);
    struct rs_buf chunk = make_chunk();
    start_uplink(rig);
    for (uint32_t i = 0; i < STREAMS; i++)
        put_stream(rig, &chunk, i, STREAMS);
    STEP_UNTIL(rig, count_of(rig, &rig->closed) == 1);
    STEP_UNTIL(rig, rs_server_held(rig->server).streams == 0);
    STEP_UNTIL(rig, rs_spool_stats(rig->spool).waiting_chunks == 0); /* the last Ack is under way */
    assert_true(rs_uplink_stats(rig->uplink).is_up);
    assert_int_equal(rs_uplink_stats(rig->uplink).connects, 1);
    rs_buf_fini(&chunk);
    end(rig);
}

/* How it ended is written down before it is closed, however often the disk refuses that. */
static void what_the_disk_refuses_is_written_before_the_close(void **state)
{
    (void)state;
    enum { STREAMS = 3, REFUSALS = 2 };
    const struct rs_server_options bounds = {0};
    struct rig *rig = begin(&bounds, 0);
    struct rs_buf chunk = make_chunk();
    start_uplink(rig);
    (void)pthread_mutex_lock(&rig->lock);
    rig->refusals = REFUSALS;
    (void)pthread_mutex_unlock(&rig->lock);
    for (uint32_t i = 0; i < STREAMS; i++)
        put_stream(rig, &chunk, i, STREAMS);
    STEP_UNTIL(rig, count_of(rig, &rig->closed) == 1);
    assert_int_equal(count_of(rig, &rig->refusals), 0);
    assert_true(count_of(rig, &rig->saved) >= 1);
    assert_int_equal(count_of(rig, &rig->final), STREAMS);
    STEP_UNTIL(rig, rs_spool_stats(rig->spool).waiting_chunks == 0);
    rs_buf_fini(&chunk);
    end(rig);
}

static void a_table_of_210000_ranks_comes_and_is_read_by_pages(void **state)
{
    (void)state;
    const struct rs_server_options bounds = {0};
    struct rig *rig = begin(&bounds, 100 * (rs_dur)RS_NS_PER_MS);
    struct peer reader;
    make_ranks(rig, MANY_RANKS);
    start_uplink(rig);
    size_t seen = 0;
    const rs_ns deadline = rs_time_monotonic() + patience;
    while (seen < MANY_RANKS && rs_time_monotonic() < deadline) {
        for (int i = 0; i < 50; i++)
            step(rig);
        ask_ranks(rig, &reader);
        STEP_UNTIL(rig, reader.is_closed);
        assert_true(reader.has_last);
        assert_true(reader.largest < RS_WIRE_MESSAGE_MAX_BYTES);
        seen = reader.ranks;
    }
    assert_int_equal(seen, MANY_RANKS);
    assert_true(reader.messages > MANY_RANKS / 16384);
    /* One that stops taking in the middle has one page waiting, not the rest of the table. */
    ask_ranks(rig, &reader);
    reader.takes = false;
    STEP_UNTIL(rig, reader.messages == 1);
    for (int i = 0; i < 50; i++)
        step(rig);
    assert_true(rs_server_held(rig->server).outbox_bytes < RS_WIRE_MESSAGE_MAX_BYTES);
    rs_link_abort(reader.link);
    STEP_UNTIL(rig, reader.is_closed);
    /* They go, and the table with them. */
    rig->rank_count = 0;
    rs_uplink_close(rig->uplink);
    STEP_UNTIL(rig, rs_uplink_is_closed(rig->uplink));
    rs_uplink_free(&rig->uplink);
    rs_spool_close(&rig->spool);
    do {
        ask_ranks(rig, &reader);
        STEP_UNTIL(rig, reader.is_closed);
    } while (reader.ranks && rs_time_monotonic() < deadline);
    assert_int_equal(reader.ranks, 0);
    end(rig);
}

static void three_thousand_captures_of_one_peer_hold_no_heartbeat_up(void **state)
{
    (void)state;
    const struct rs_server_options bounds = {0};
    struct rig *rig = begin(&bounds, 0);
    struct rs_buf chunk = make_chunk();
    struct peer reader;
    start_uplink(rig);
    set_gate(rig, true);
    for (uint32_t i = 0; i < MANY_CAPTURES; i++)
        put_stream(rig, &chunk, i, 1);
    STEP_UNTIL(rig, rs_server_held(rig->server).streams == MANY_CAPTURES);
    /* The disk has not finished the first: heartbeats come and go, and others are answered. */
    assert_int_equal(count_of(rig, &rig->created), 0);
    for (int i = 0; i < 5; i++) {
        const uint64_t before = rs_uplink_stats(rig->uplink).heartbeats;
        STEP_UNTIL(rig, rs_uplink_stats(rig->uplink).heartbeats > before);
        ask_ranks(rig, &reader);
        STEP_UNTIL(rig, reader.is_closed);
        assert_true(reader.has_last);
    }
    assert_int_equal(count_of(rig, &rig->created), 0);
    set_gate(rig, false);
    STEP_UNTIL(rig, count_of(rig, &rig->closed) == MANY_CAPTURES);
    assert_int_equal(count_of(rig, &rig->synced), 1); /* those that came at once wait for one */
    STEP_UNTIL(rig, rs_server_held(rig->server).streams == 0);
    STEP_UNTIL(rig, rs_spool_stats(rig->spool).waiting_chunks == 0); /* the last Ack is under way */
    assert_int_equal(rs_uplink_stats(rig->uplink).connects, 1);
    rs_buf_fini(&chunk);
    end(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_that_says_nothing_is_closed),
        cmocka_unit_test(a_peer_that_takes_no_answers_is_not_read_and_then_closed),
        cmocka_unit_test(streams_that_are_ended_are_forgotten),
        cmocka_unit_test(what_the_disk_refuses_is_written_before_the_close),
        cmocka_unit_test(a_table_of_210000_ranks_comes_and_is_read_by_pages),
        cmocka_unit_test(three_thousand_captures_of_one_peer_hold_no_heartbeat_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
