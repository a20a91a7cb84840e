/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uplink and server in conversation: spool -> uplink -> link -> server -> ingest -> store, and back the acks. The same
 * talk over links in memory and over gRPC; cut in the middle; with a peer that lies.
 */
#include "aggregator/server/server.h"
#include "collector/uplink/uplink.h"
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "tests/support/link_mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct talk {
    char dir[64];
    bool is_grpc;
    struct rs_loop *loop; /* both ends run on it */
    struct rs_store *store;
    struct rs_server *server;
    struct rs_grpc_server *listener;
    struct rs_address address;
    struct rs_spool *spool;
    struct rs_uplink *uplink;
    unsigned prepares;
    bool has_long_list; /* of captures with many ranks */
    bool has_bad_names; /* the aggregator calls its captures what no capture may be called */
};

/* ---- a journal with one capture ------------------------------------------------------------------------------- */

static enum rs_status journal_name(void *self, struct rs_coord_capture *capture, struct rs_err *err)
{
    struct talk *talk = self;
    struct rs_capture_facts facts = {.created_ns = 1};
    (void)snprintf(facts.id, sizeof facts.id, "%s",
                   capture->id); /* of one that is taken up again */
    const enum rs_status status = rs_store_name_capture(talk->store, &facts, err);
    (void)snprintf(capture->id, sizeof capture->id, "%s%.40s", talk->has_bad_names ? "../" : "",
                   facts.id);
    return status;
}

/* On the thread that writes. */
static enum rs_status journal_create(void *self, struct rs_coord_capture *capture,
                                     struct rs_err *err)
{
    struct talk *talk = self;
    struct rs_capture_facts facts = {.created_ns = 1};
    (void)snprintf(facts.id, sizeof facts.id, "%s", capture->id + (talk->has_bad_names ? 3 : 0));
    (void)snprintf(facts.run, sizeof facts.run, "%s", capture->run);
    (void)snprintf(facts.state, sizeof facts.state, "collecting");
    (void)snprintf(facts.source, sizeof facts.source, "files");
    return rs_store_create_capture(talk->store, &facts, err);
}

static enum rs_status journal_save(void *self, const struct rs_coord_capture *capture,
                                   struct rs_err *err)
{
    (void)self;
    (void)capture;
    (void)err;
    return RS_OK;
}

static void journal_facts(void *self, const struct rs_coord_capture *capture,
                          struct rs_capture_facts *facts)
{
    (void)self;
    *facts = (struct rs_capture_facts){.is_closed = true, .created_ns = 1, .closed_ns = 2};
    (void)snprintf(facts->id, sizeof facts->id, "%s", capture->id);
    (void)snprintf(facts->state, sizeof facts->state, "%s", rs_capture_state_text(capture->state));
}

struct load {
    bool (*visit)(void *visitor, const struct rs_coord_capture *capture);
    void *visitor;
};

static bool list_one(void *self, const struct rs_capture_facts *facts)
{
    struct load *load = self;
    struct rs_coord_capture capture = {.is_files = true, .closed_ns = facts->closed_ns};
    capture.state = facts->is_closed ? RS_CAPTURE_COMPLETE : RS_CAPTURE_COLLECTING;
    (void)snprintf(capture.id, sizeof capture.id, "%s", facts->id);
    (void)snprintf(capture.run, sizeof capture.run, "%.200s", facts->run);
    (void)snprintf(capture.key, sizeof capture.key, "k");
    return load->visit(load->visitor, &capture);
}

enum { LONG_LIST = 60, LONG_LIST_RANKS = 1500 };

static void fill_long(struct rs_coord_capture *capture, const char *id)
{
    *capture = (struct rs_coord_capture){.state = RS_CAPTURE_COMPLETE, .closed_ns = 1};
    capture->ranks = rs_mem_calloc(LONG_LIST_RANKS, sizeof *capture->ranks);
    assert_non_null(capture->ranks);
    capture->rank_count = LONG_LIST_RANKS;
    for (uint32_t i = 0; i < LONG_LIST_RANKS; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        rank->rank = i;
        (void)snprintf(rank->incarnation, sizeof rank->incarnation, "node-%04u:12345:67890", i / 8);
        (void)snprintf(rank->text, sizeof rank->text, "its process ended before it began");
    }
    (void)snprintf(capture->id, sizeof capture->id, "%s", id);
}

static enum rs_status
list_long(bool (*visit)(void *visitor, const struct rs_coord_capture *capture), void *visitor)
{
    bool goes_on = true;
    for (int i = 0; i < LONG_LIST && goes_on; i++) {
        struct rs_coord_capture capture;
        char id[16];
        (void)snprintf(id, sizeof id, "c%d", i);
        fill_long(&capture, id);
        goes_on = visit(visitor, &capture);
        rs_coord_capture_fini(&capture);
    }
    return RS_OK;
}

static enum rs_status journal_find(void *self, const char *id, unsigned parts,
                                   struct rs_coord_capture *capture, struct rs_err *err)
{
    struct talk *talk = self;
    struct rs_capture_facts facts;
    (void)parts;
    if (talk->has_long_list) {
        fill_long(capture, id);
        return RS_OK;
    }
    const enum rs_status status = rs_store_find_capture(talk->store, id, &facts, err);
    if (status < 0)
        return status;
    *capture = (struct rs_coord_capture){.is_files = true, .state = RS_CAPTURE_PARTIAL};
    (void)snprintf(capture->id, sizeof capture->id, "%s", id);
    return RS_OK;
}

static enum rs_status
journal_list(void *self, bool (*visit)(void *visitor, const struct rs_coord_capture *capture),
             void *visitor, struct rs_err *err)
{
    struct talk *talk = self;
    struct load load = {.visit = visit, .visitor = visitor};
    if (talk->has_long_list)
        return list_long(visit, visitor);
    return rs_store_list_captures(talk->store, list_one, &load, err);
}

/* ---- both ends -------------------------------------------------------------------------------------------- */

static enum rs_status connect_link(void *self, const struct rs_link_user *user, void *user_self,
                                   struct rs_link **link_p, struct rs_err *err)
{
    struct talk *talk = self;
    if (talk->is_grpc)
        return rs_grpc_connect(talk->loop, &talk->address, RS_WIRE_METHOD_STREAM, user, user_self,
                               link_p, err);
    if (!talk->server)
        return rs_err_set(err, RS_UNREACHABLE, "nobody is there");
    *link_p = link_mem_connect(talk->loop, user, user_self, RS_WIRE_METHOD_STREAM, rs_server_accept,
                               talk->server);
    return RS_OK;
}

static size_t one_rank(void *self, Rankscope__RankState ***states_p)
{
    static char run[] = "r";
    static char incarnation[] = "i0";
    static Rankscope__RankState state;
    static Rankscope__RankState *states[] = {&state};
    (void)self;
    rankscope__rank_state__init(&state);
    state.run = run;
    state.incarnation = incarnation;
    state.step = 3;
    state.can_capture = true;
    *states_p = states;
    return 1;
}

static void on_prepare(void *self, const Rankscope__Prepare *prepare)
{
    struct talk *talk = self;
    assert_int_equal(prepare->n_ranks, 1);
    talk->prepares++;
}

static void start_gate(struct talk *talk)
{
    assert_ok(rs_store_open(talk->dir, 64 * 1024, &talk->store, NULL));
    const struct rs_server_journal journal = {.name = journal_name,
                                              .create = journal_create,
                                              .save = journal_save,
                                              .facts = journal_facts,
                                              .find = journal_find,
                                              .list = journal_list,
                                              .self = talk};
    const struct rs_server_options options = {
        .loop = talk->loop, .store = talk->store, .journal = &journal, .credit_bytes = 1};
    assert_ok(rs_server_new(&options, &talk->server, NULL));
    if (talk->is_grpc) {
        char text[160];
        (void)snprintf(text, sizeof text, "unix:%s/sock", talk->dir);
        assert_ok(rs_address_parse(text, &talk->address, NULL));
        assert_ok(rs_grpc_server_new(talk->loop, &talk->address, rs_server_accept, talk->server,
                                     &talk->listener, NULL));
    }
}

/* Ends the server's side; `is_crash`: as a kill would, from the uplink's point of view. */
static void stop_gate(struct talk *talk, bool is_crash)
{
    if (talk->is_grpc) {
        rs_grpc_server_stop(talk->listener);
        if (is_crash)
            rs_grpc_server_cancel(talk->listener);
    } else if (is_crash) {
        link_mem_cut_all(talk->loop);
    }
    if (!is_crash)
        rs_server_drain(talk->server);
    while (rs_server_session_count(talk->server) ||
           (talk->listener && !rs_grpc_server_is_stopped(talk->listener)))
        assert_ok(rs_server_step(talk->server, rs_time_monotonic() + RS_NS_PER_MS, NULL));
    rs_grpc_server_free(&talk->listener);
    rs_server_free(&talk->server);
    rs_store_close(&talk->store);
}

static struct talk *begin(bool is_grpc)
{
    struct talk *talk = rs_mem_calloc(1, sizeof *talk);
    assert_non_null(talk);
    tmp_dir_make(talk->dir);
    talk->is_grpc = is_grpc;
    if (is_grpc)
        assert_ok(rs_grpc_loop_new(&talk->loop, NULL));
    else
        talk->loop = link_mem_loop_new();
    start_gate(talk);
    char spool[128];
    (void)snprintf(spool, sizeof spool, "%s/spool", talk->dir);
    assert_ok(rs_spool_open(spool, NULL, &talk->spool, NULL));
    const struct rs_uplink_options options = {.spool = talk->spool,
                                              .loop = talk->loop,
                                              .connect = connect_link,
                                              .connect_self = talk,
                                              .node = "node",
                                              .backoff_min_ns = RS_NS_PER_MS,
                                              .backoff_max_ns = 20 * (rs_dur)RS_NS_PER_MS,
                                              .ranks = one_rank,
                                              .on_prepare = on_prepare,
                                              .self = talk};
    assert_ok(rs_uplink_new(&options, &talk->uplink, NULL));
    return talk;
}

static void step(struct talk *talk)
{
    rs_uplink_step(talk->uplink, rs_time_monotonic() + RS_NS_PER_MS);
    if (talk->server)
        assert_ok(rs_server_step(talk->server, rs_time_monotonic() + RS_NS_PER_MS, NULL));
}

static void finish(struct talk *talk)
{
    rs_uplink_close(talk->uplink);
    while (!rs_uplink_is_closed(talk->uplink))
        step(talk);
    if (talk->server)
        stop_gate(talk, false);
    rs_uplink_free(&talk->uplink);
    rs_spool_close(&talk->spool);
    if (talk->is_grpc)
        rs_grpc_loop_free(&talk->loop);
    else
        link_mem_loop_free(&talk->loop);
    tmp_dir_remove(talk->dir);
    rs_mem_free(talk);
}

/* ---- chunks --------------------------------------------------------------------------------------------- */

static enum rs_status put_chunk(void *self, struct rs_view chunk,
                                const struct rs_chunk_header *header, struct rs_err *err)
{
    struct rs_buf *buf = self;
    (void)err;
    if (header->kind == RS_CHUNK_SUMMARY && !buf->length)
        rs_buf_bytes(buf, chunk.data, chunk.length);
    return RS_OK;
}

/* A sealed chunk. */
static struct rs_buf make_chunk(void)
{
    struct rs_buf buf = {0};
    struct rs_strtab strings;
    struct rs_lanes lanes = {0};
    struct rs_chunk_writer *writer = NULL;
    static const char text[] = "some summary, which nobody opens here";
    assert_ok(rs_strtab_init(&strings, 0));
    const struct rs_chunk_writer_options options = {
        .strings = &strings, .lanes = &lanes, .put = put_chunk, .put_self = &buf};
    assert_ok(rs_chunk_writer_new(&options, &writer, NULL));
    assert_ok(rs_chunk_writer_summary(writer, rs_view_of(text, sizeof text), NULL));
    rs_chunk_writer_free(&writer);
    rs_strtab_fini(&strings);
    return buf;
}

static uint32_t declare(struct talk *talk, uint32_t rank, uint32_t world)
{
    char incarnation[16];
    uint32_t entry = 0;
    (void)snprintf(incarnation, sizeof incarnation, "i%u", rank);
    const struct rs_spool_source source = {.run = "r",
                                           .rank = rank,
                                           .incarnation = incarnation,
                                           .capture = "",
                                           .capture_key = "k",
                                           .world = world,
                                           .host = "h",
                                           .settle_ns = 1000 * (rs_dur)RS_NS_PER_S,
                                           .origin = "o"};
    assert_ok(rs_spool_declare(talk->spool, &source, &entry, NULL));
    return entry;
}

static void put(struct talk *talk, uint32_t entry, unsigned count, bool is_last)
{
    struct rs_buf chunk = make_chunk();
    for (unsigned i = 0; i < count; i++)
        assert_ok(rs_spool_put(talk->spool, entry, 0,
                               is_last && i + 1 == count ? RS_ENVELOPE_LAST : 0,
                               rs_view_of(chunk.data, chunk.length), NULL));
    rs_buf_fini(&chunk);
}

static void wait_empty(struct talk *talk)
{
    const rs_ns deadline = rs_time_monotonic() + 20 * (rs_dur)RS_NS_PER_S;
    while (rs_spool_stats(talk->spool).waiting_chunks && rs_time_monotonic() < deadline)
        step(talk);
    assert_int_equal(rs_spool_stats(talk->spool).waiting_chunks, 0);
}

struct only {
    char id[RS_STORE_ID_BYTES];
    unsigned count;
    bool is_closed;
};

static bool take_only(void *self, const struct rs_capture_facts *facts)
{
    struct only *only = self;
    memcpy(only->id, facts->id, sizeof only->id);
    only->is_closed = facts->is_closed;
    only->count++;
    return true;
}

/* Every stream of the one capture has `count` chunks, once. */
static void check_stored(struct talk *talk, unsigned streams, unsigned count)
{
    struct only only = {{0}, 0, false};
    struct rs_stored *stored = NULL;
    assert_ok(rs_store_list_captures(talk->store, take_only, &only, NULL));
    assert_int_equal(only.count, 1);
    char *dir = rs_store_capture_dir(talk->store, only.id);
    assert_ok(rs_store_open_capture(dir, &stored, NULL));
    assert_int_equal(rs_stored_stream_count(stored), streams);
    for (unsigned i = 0; i < streams; i++) {
        const struct rs_stored_stream *stream = rs_stored_stream(stored, i);
        assert_int_equal(stream->chunk_count, count);
        assert_int_equal(stream->missing_count, 0);
        assert_int_equal(stream->repeated_count, 0);
    }
    rs_stored_close(&stored);
    rs_mem_free(dir);
}

static void wait_closed(struct talk *talk)
{
    const rs_ns deadline = rs_time_monotonic() + 20 * (rs_dur)RS_NS_PER_S;
    struct only only = {{0}, 0, false};
    while (!only.is_closed && rs_time_monotonic() < deadline) {
        step(talk);
        assert_ok(rs_store_list_captures(talk->store, take_only, &only, NULL));
    }
    assert_true(only.is_closed);
}

/* ---- the talks ------------------------------------------------------------------------------------------- */

static void what_is_put_is_stored_acknowledged_and_closed(bool is_grpc)
{
    struct talk *talk = begin(is_grpc);
    const uint32_t first = declare(talk, 0, 2);
    const uint32_t second = declare(talk, 1, 2);
    put(talk, first, 100, true);
    put(talk, second, 100, true);
    wait_empty(talk);
    check_stored(talk, 2, 100);
    wait_closed(talk);
    finish(talk);
}

static void a_crash_of_the_aggregator_loses_and_doubles_nothing(bool is_grpc)
{
    struct talk *talk = begin(is_grpc);
    const uint32_t entry = declare(talk, 0, 1);
    for (int crash = 0; crash < 3; crash++) {
        put(talk, entry, 200, false);
        const uint64_t before = rs_spool_stats(talk->spool).waiting_chunks;
        while (rs_spool_stats(talk->spool).waiting_chunks > before - 40)
            step(talk);
        stop_gate(talk, true);
        for (int i = 0; i < 5; i++)
            step(talk);
        start_gate(talk);
    }
    put(talk, entry, 50, true);
    wait_empty(talk);
    check_stored(talk, 1, 650);
    assert_true(rs_uplink_stats(talk->uplink).connects >= 4);
    finish(talk);
}

/* One chunk's body is broken in the spool: it is offered twice, then named as lost. The link never closes, and the other
 * stream never notices. */
static void a_damaged_chunk_costs_itself_and_nothing_else(bool is_grpc)
{
    struct talk *talk = begin(is_grpc);
    const uint32_t hurt = declare(talk, 0, 2);
    const uint32_t whole = declare(talk, 1, 2);
    struct rs_buf chunk = make_chunk();
    put(talk, hurt, 3, false);
    chunk.data[chunk.length - 1] ^= 1;
    assert_ok(rs_spool_put(talk->spool, hurt, 0, 0, rs_view_of(chunk.data, chunk.length), NULL));
    put(talk, hurt, 3, true);
    put(talk, whole, 7, true);
    wait_empty(talk);
    check_stored(talk, 2, 7);
    wait_closed(talk);
    const struct rs_uplink_stats stats = rs_uplink_stats(talk->uplink);
    assert_int_equal(stats.connects, 1);
    assert_int_equal(stats.refused_chunks, 2);
    assert_int_equal(stats.loss_records, 1);
    struct only only = {{0}, 0, false};
    struct rs_stored *stored = NULL;
    assert_ok(rs_store_list_captures(talk->store, take_only, &only, NULL));
    char *dir = rs_store_capture_dir(talk->store, only.id);
    assert_ok(rs_store_open_capture(dir, &stored, NULL));
    const struct rs_stored_stream *stream = rs_stored_stream(stored, 0);
    assert_int_equal(stream->hole_count, 1);
    assert_int_equal(stream->holes[0].first_seq, 4);
    assert_int_equal(stream->holes[0].last_seq, 4);
    assert_int_equal(stream->holes[0].loss.cause, RS_LOSS_DAMAGED);
    assert_int_equal(stream->holes[0].loss.bytes, chunk.length);
    assert_int_equal(rs_stored_stream(stored, 1)->hole_count, 0);
    rs_stored_close(&stored);
    rs_mem_free(dir);
    rs_buf_fini(&chunk);
    finish(talk);
}

/* Of files, and of a capture that has a name: the aggregator that comes back knows neither. */
static void an_aggregator_that_lost_its_data_gets_the_rest(bool is_grpc)
{
    for (int named = 0; named < 2; named++) {
        struct talk *talk = begin(is_grpc);
        const struct rs_spool_source source = {.run = "r",
                                               .incarnation = "i0",
                                               .capture = "named-1",
                                               .capture_key = "",
                                               .world = 1,
                                               .host = "h",
                                               .origin = "native",
                                               .keeps_sequence = true};
        uint32_t entry = named ? 0 : declare(talk, 0, 1);
        if (named)
            assert_ok(rs_spool_declare(talk->spool, &source, &entry, NULL));
        put(talk, entry, 30, false);
        wait_empty(talk);
        stop_gate(talk, true);
        for (int i = 0; i < 5; i++)
            step(talk);
        char path[128];
        (void)snprintf(path, sizeof path, "%s/catalogue.db", talk->dir);
        (void)unlink(path);
        (void)snprintf(path, sizeof path, "%s/catalogue.db-wal", talk->dir);
        (void)unlink(path);
        (void)snprintf(path, sizeof path, "%s/captures", talk->dir);
        tmp_dir_remove(path);
        start_gate(talk);
        put(talk, entry, 10, true);
        wait_empty(talk);
        check_stored(talk, 1, 11); /* ten, and the record of the thirty */
        struct only only = {{0}, 0, false};
        struct rs_stored *stored = NULL;
        assert_ok(rs_store_list_captures(talk->store, take_only, &only, NULL));
        if (named)
            assert_string_equal(only.id, "named-1");
        char *dir = rs_store_capture_dir(talk->store, only.id);
        assert_ok(rs_store_open_capture(dir, &stored, NULL));
        const struct rs_stored_stream *stream = rs_stored_stream(stored, 0);
        assert_int_equal(stream->hole_count, 1);
        assert_int_equal(stream->holes[0].first_seq, 1);
        assert_int_equal(stream->holes[0].last_seq, 30);
        assert_int_equal(stream->holes[0].loss.cause, RS_LOSS_FORGOTTEN);
        assert_true(stream->is_ended);
        rs_stored_close(&stored);
        rs_mem_free(dir);
        finish(talk);
    }
}

/* A link of our own to the server, to say what an uplink never would. */
struct liar {
    struct rs_link *link;
    bool is_writable;
    enum rs_status status;
    bool is_closed, has_answer;
};

static bool liar_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct liar *liar = self;
    (void)link;
    liar->has_answer = true;
    rs_frame_free(&frame);
    return true;
}

static void liar_writable(void *self, struct rs_link *link)
{
    (void)link;
    ((struct liar *)self)->is_writable = true;
}

static void liar_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    struct liar *liar = self;
    (void)link;
    (void)reason;
    liar->status = status;
    liar->is_closed = true;
}

static const struct rs_link_user liar_user = {
    .on_message = liar_message, .on_writable = liar_writable, .on_closed = liar_closed};

/* As the command line would: the rank is asked, through its collector, and the asker is reported. */
static void ask_for_capture(struct talk *talk)
{
    struct liar asker = {.is_closed = false};
    char run[] = "r";
    char ranks[] = "all";
    Rankscope__Version version;
    rs_wire_own_version(&version);
    Rankscope__AskStart start = RANKSCOPE__ASK_START__INIT;
    start.run = run;
    start.ranks = ranks;
    start.steps = 2;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.version = &version;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_START;
    ask.start = &start;
    struct rs_buf buf = {0};
    rs_wire_pack(&ask.base, &buf);
    if (talk->is_grpc)
        assert_ok(rs_grpc_connect(talk->loop, &talk->address, RS_WIRE_METHOD_ASK, &liar_user,
                                  &asker, &asker.link, NULL));
    else
        asker.link = link_mem_connect(talk->loop, &liar_user, &asker, RS_WIRE_METHOD_ASK,
                                      rs_server_accept, talk->server);
    assert_ok(rs_link_send(asker.link, rs_view_of(buf.data, buf.length), rs_view_of(NULL, 0)));
    const rs_ns deadline = rs_time_monotonic() + 10 * (rs_dur)RS_NS_PER_S;
    const unsigned expected = talk->has_bad_names ? 0 : 1;
    while ((talk->prepares < expected || !asker.has_answer) && rs_time_monotonic() < deadline)
        step(talk);
    const rs_ns settled = rs_time_monotonic() + RS_NS_PER_S / 5;
    while (rs_time_monotonic() < settled)
        step(talk);
    assert_int_equal(talk->prepares, expected);
    assert_true(asker.has_answer);
    rs_link_abort(asker.link);
    while (!asker.is_closed && rs_time_monotonic() < deadline)
        step(talk);
    assert_true(asker.is_closed);
    rs_buf_fini(&buf);
}

static void a_heartbeat_brings_the_ranks_and_a_capture_reaches_them(bool is_grpc)
{
    struct talk *talk = begin(is_grpc);
    const rs_ns deadline = rs_time_monotonic() + 20 * (rs_dur)RS_NS_PER_S;
    while (!rs_uplink_stats(talk->uplink).round_trip_ns && rs_time_monotonic() < deadline)
        step(talk);
    const struct rs_uplink_stats stats = rs_uplink_stats(talk->uplink);
    assert_true(stats.is_up);
    assert_true(stats.round_trip_ns > 0);
    /* one machine, one clock: the bound holds zero */
    assert_true(stats.clock_offset_ns <= stats.round_trip_ns &&
                stats.clock_offset_ns >= -stats.round_trip_ns);
    ask_for_capture(talk);
    finish(talk);
}

static void a_collector_does_not_follow_a_name_out_of_its_folder(bool is_grpc)
{
    struct talk *talk = begin(is_grpc);
    const rs_ns deadline = rs_time_monotonic() + 20 * (rs_dur)RS_NS_PER_S;
    talk->has_bad_names = true;
    while (!rs_uplink_stats(talk->uplink).round_trip_ns && rs_time_monotonic() < deadline)
        step(talk);
    ask_for_capture(talk);
    assert_true(rs_uplink_stats(talk->uplink).is_up);
    finish(talk);
}

struct reader {
    struct rs_link *link;
    size_t messages, captures;
    bool is_closed, has_last;
};

static bool read_list(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct reader *reader = self;
    struct rs_message message;
    (void)link;
    assert_ok(rs_message_unpack(&message, &rankscope__reply__descriptor, frame, NULL));
    const Rankscope__Reply *reply = (const Rankscope__Reply *)message.body;
    assert_int_equal(reply->message_case, RANKSCOPE__REPLY__MESSAGE_LIST);
    assert_false(reader->has_last);
    for (size_t i = 0; i < reply->list->n_captures; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "c%zu", reader->captures++);
        assert_string_equal(reply->list->captures[i]->id, id);
        assert_int_equal(reply->list->captures[i]->n_ranks, LONG_LIST_RANKS);
    }
    reader->messages++;
    reader->has_last = reply->last;
    rs_message_fini(&message);
    rs_frame_free(&frame);
    return true;
}

static void reader_writable(void *self, struct rs_link *link)
{
    (void)self;
    (void)link;
}

static void reader_closed(void *self, struct rs_link *link, enum rs_status status,
                          const char *reason)
{
    (void)link;
    (void)status;
    (void)reason;
    ((struct reader *)self)->is_closed = true;
}

static const struct rs_link_user reader_user = {
    .on_message = read_list, .on_writable = reader_writable, .on_closed = reader_closed};

/* 90,000 ranks in one message would be more than any message may be. */
static void a_long_list_comes_in_messages_that_may_be_read(bool is_grpc)
{
    struct talk *talk = begin(is_grpc);
    struct reader reader = {.messages = 0};
    struct rs_buf buf = {0};
    Rankscope__Version version;
    rs_wire_own_version(&version);
    Rankscope__AskList list = RANKSCOPE__ASK_LIST__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.version = &version;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_LIST;
    ask.list = &list;
    rs_wire_pack(&ask.base, &buf);
    talk->has_long_list = true;
    if (is_grpc)
        assert_ok(rs_grpc_connect(talk->loop, &talk->address, RS_WIRE_METHOD_ASK, &reader_user,
                                  &reader, &reader.link, NULL));
    else
        reader.link = link_mem_connect(talk->loop, &reader_user, &reader, RS_WIRE_METHOD_ASK,
                                       rs_server_accept, talk->server);
    assert_ok(rs_link_send(reader.link, rs_view_of(buf.data, buf.length), rs_view_of(NULL, 0)));
    const rs_ns deadline = rs_time_monotonic() + 30 * (rs_dur)RS_NS_PER_S;
    while (!reader.has_last && !reader.is_closed && rs_time_monotonic() < deadline)
        step(talk);
    assert_true(reader.has_last);
    assert_int_equal(reader.captures, LONG_LIST);
    assert_true(reader.messages >= 6);
    if (!reader.is_closed)
        rs_link_abort(reader.link);
    while (!reader.is_closed && rs_time_monotonic() < deadline)
        step(talk);
    talk->has_long_list = false;
    rs_buf_fini(&buf);
    finish(talk);
}

static void send_and_wait(struct talk *talk, struct liar *liar, const struct rs_buf *buf)
{
    const rs_ns deadline = rs_time_monotonic() + 10 * (rs_dur)RS_NS_PER_S;
    liar->is_writable = false;
    assert_ok(rs_link_send(liar->link, rs_view_of(buf->data, buf->length), rs_view_of(NULL, 0)));
    while (!liar->is_writable && !liar->is_closed && rs_time_monotonic() < deadline)
        step(talk);
}

static void a_lie_closes_the_liars_link_and_no_other(bool is_grpc)
{
    static const char *const lies[] = {"no message at all", "", "\x7a\x02\x08\x01", "\x0a\x00",
                                       "\x1a\x00"};
    static const size_t lengths[] = {16, 0, 4, 2, 2};
    struct talk *talk = begin(is_grpc);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct liar liar = {.is_closed = false};
        struct rs_buf buf = {0};
        rs_buf_bytes(&buf, lies[i], lengths[i]);
        rs_buf_u8(&buf, 0);
        buf.length = lengths[i];
        assert_ok(connect_link(talk, &liar_user, &liar, &liar.link, NULL));
        send_and_wait(talk, &liar, &buf);
        const rs_ns deadline = rs_time_monotonic() + 10 * (rs_dur)RS_NS_PER_S;
        while (!liar.is_closed && rs_time_monotonic() < deadline)
            step(talk);
        assert_true(liar.is_closed);
        rs_buf_fini(&buf);
    }
    const uint32_t entry = declare(talk, 0, 1);
    put(talk, entry, 10, true);
    wait_empty(talk);
    check_stored(talk, 1, 10);
    finish(talk);
}

static void another_major_version_is_turned_away(bool is_grpc)
{
    struct talk *talk = begin(is_grpc);
    struct liar liar = {.is_closed = false};
    Rankscope__Version version;
    rs_wire_own_version(&version);
    version.major++;
    Rankscope__Hello hello = RANKSCOPE__HELLO__INIT;
    hello.version = &version;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_HELLO;
    up.hello = &hello;
    struct rs_buf buf = {0};
    rs_wire_pack(&up.base, &buf);
    assert_ok(connect_link(talk, &liar_user, &liar, &liar.link, NULL));
    send_and_wait(talk, &liar, &buf);
    const rs_ns deadline = rs_time_monotonic() + 10 * (rs_dur)RS_NS_PER_S;
    while (!liar.is_closed && rs_time_monotonic() < deadline)
        step(talk);
    assert_true(liar.is_closed);
    assert_false(liar.has_answer);
    if (is_grpc)
        assert_int_equal(liar.status, RS_VERSION);
    rs_buf_fini(&buf);
    finish(talk);
}

/* ---- each talk, both ways ----------------------------------------------------------------------------------- */

#define BOTH(name)                                                                                 \
    static void name##_in_memory(void **state)                                                     \
    {                                                                                              \
        (void)state;                                                                               \
        name(false);                                                                               \
    }                                                                                              \
    static void name##_over_grpc(void **state)                                                     \
    {                                                                                              \
        (void)state;                                                                               \
        name(true);                                                                                \
    }

BOTH(what_is_put_is_stored_acknowledged_and_closed)
BOTH(a_crash_of_the_aggregator_loses_and_doubles_nothing)
BOTH(a_damaged_chunk_costs_itself_and_nothing_else)
BOTH(an_aggregator_that_lost_its_data_gets_the_rest)
BOTH(a_heartbeat_brings_the_ranks_and_a_capture_reaches_them)
BOTH(a_collector_does_not_follow_a_name_out_of_its_folder)
BOTH(a_long_list_comes_in_messages_that_may_be_read)
BOTH(a_lie_closes_the_liars_link_and_no_other)
BOTH(another_major_version_is_turned_away)

static void a_served_address_is_not_served_twice(void **state)
{
    (void)state;
    struct talk *talk = begin(true);
    struct rs_grpc_server *second = NULL;
    struct rs_err err = {0};
    assert_status(rs_grpc_server_new(talk->loop, &talk->address, rs_server_accept, talk->server,
                                     &second, &err),
                  RS_EXISTS);
    struct rs_address tcp;
    struct rs_grpc_server *first = NULL;
    assert_ok(rs_address_parse("127.0.0.1:0", &tcp, NULL));
    assert_status(
        rs_grpc_server_new(talk->loop, &tcp, rs_server_accept, talk->server, &first, NULL),
        RS_REFUSED); /* nobody decided how it is guarded */
    assert_ok(rs_address_guard(&tcp, NULL, true, NULL));
    assert_ok(rs_grpc_server_new(talk->loop, &tcp, rs_server_accept, talk->server, &first, NULL));
    assert_null(strstr(tcp.text, ":0"));
    assert_status(
        rs_grpc_server_new(talk->loop, &tcp, rs_server_accept, talk->server, &second, NULL),
        RS_EXISTS);
    rs_grpc_server_stop(first);
    while (!rs_grpc_server_is_stopped(first))
        step(talk);
    rs_grpc_server_free(&first);
    finish(talk);
}

static void an_unknown_method_is_answered(void **state)
{
    (void)state;
    struct talk *talk = begin(true);
    struct liar liar = {.is_closed = false};
    assert_ok(rs_grpc_connect(talk->loop, &talk->address, "/rankscope.Rankscope/Sing", &liar_user,
                              &liar, &liar.link, NULL));
    const rs_ns deadline = rs_time_monotonic() + 10 * (rs_dur)RS_NS_PER_S;
    while (!liar.is_closed && rs_time_monotonic() < deadline)
        step(talk);
    assert_true(liar.is_closed);
    assert_int_equal(liar.status, RS_VERSION); /* UNIMPLEMENTED */
    finish(talk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_stored_acknowledged_and_closed_in_memory),
        cmocka_unit_test(what_is_put_is_stored_acknowledged_and_closed_over_grpc),
        cmocka_unit_test(a_crash_of_the_aggregator_loses_and_doubles_nothing_in_memory),
        cmocka_unit_test(a_crash_of_the_aggregator_loses_and_doubles_nothing_over_grpc),
        cmocka_unit_test(a_damaged_chunk_costs_itself_and_nothing_else_in_memory),
        cmocka_unit_test(a_damaged_chunk_costs_itself_and_nothing_else_over_grpc),
        cmocka_unit_test(an_aggregator_that_lost_its_data_gets_the_rest_in_memory),
        cmocka_unit_test(an_aggregator_that_lost_its_data_gets_the_rest_over_grpc),
        cmocka_unit_test(a_heartbeat_brings_the_ranks_and_a_capture_reaches_them_in_memory),
        cmocka_unit_test(a_heartbeat_brings_the_ranks_and_a_capture_reaches_them_over_grpc),
        cmocka_unit_test(a_collector_does_not_follow_a_name_out_of_its_folder_in_memory),
        cmocka_unit_test(a_collector_does_not_follow_a_name_out_of_its_folder_over_grpc),
        cmocka_unit_test(a_long_list_comes_in_messages_that_may_be_read_in_memory),
        cmocka_unit_test(a_long_list_comes_in_messages_that_may_be_read_over_grpc),
        cmocka_unit_test(a_lie_closes_the_liars_link_and_no_other_in_memory),
        cmocka_unit_test(a_lie_closes_the_liars_link_and_no_other_over_grpc),
        cmocka_unit_test(another_major_version_is_turned_away_in_memory),
        cmocka_unit_test(another_major_version_is_turned_away_over_grpc),
        cmocka_unit_test(a_served_address_is_not_served_twice),
        cmocka_unit_test(an_unknown_method_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
