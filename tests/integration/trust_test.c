/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What peers that are believed to be somebody may do to what is of others: the attacks that need a peer of our own, because
 * no program of ours would try them. Each is refused, and stands in the audit log. Over links in memory, whose identity
 * the test chooses; that a real link's identity is the right one is e2e_tls's and e2e_users' part.
 */
#include "aggregator/server/capture_journal.h"
#include "aggregator/server/quota.h"
#include "aggregator/server/server.h"
#include "aggregator/store/store.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "tests/support/link_mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <string.h>

static const rs_dur patience = 20 * (rs_dur)RS_NS_PER_S;

struct rig {
    char dir[64], audit[128];
    struct rs_loop *loop;
    struct rs_store *store;
    struct rs_capture_journal own;
    struct rs_server *server;
};

static struct rig *begin(const struct quota_limits *limits)
{
    struct rig *rig = rs_mem_calloc(1, sizeof *rig);
    assert_non_null(rig);
    tmp_dir_make(rig->dir);
    (void)snprintf(rig->audit, sizeof rig->audit, "%s/audit.jsonl", rig->dir);
    rig->loop = link_mem_loop_new();
    assert_ok(rs_store_open(rig->dir, 64 * 1024, &rig->store, NULL));
    rig->own.store = rig->store;
    const struct rs_server_journal journal = rs_capture_journal_interface(&rig->own);
    const struct rs_server_options options = {.loop = rig->loop,
                                              .store = rig->store,
                                              .journal = &journal,
                                              .limits = limits,
                                              .audit_path = rig->audit};
    assert_ok(rs_server_new(&options, &rig->server, NULL));
    return rig;
}

static void step(struct rig *rig)
{
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
    rs_server_drain(rig->server);
    link_mem_cut_all(rig->loop);
    STEP_UNTIL(rig, rs_server_session_count(rig->server) == 0);
    rs_server_free(&rig->server);
    rs_store_close(&rig->store);
    link_mem_loop_free(&rig->loop);
    tmp_dir_remove(rig->dir);
    rs_mem_free(rig);
}

/* Whether a line of the audit log has all three. Written on a thread of its own: ask again. */
static bool is_in_audit(const struct rig *rig, const char *who, const char *what, const char *why)
{
    struct rs_buf buf = {0};
    bool is_there = false;
    char quoted[2][96];
    assert_ok(rs_file_read(rig->audit, 1 << 20, &buf, NULL));
    (void)snprintf(quoted[0], sizeof quoted[0], "\"who\":\"%s\"", who);
    (void)snprintf(quoted[1], sizeof quoted[1], "\"what\":\"%s\"", what);
    char *rest = NULL;
    for (char *line = strtok_r((char *)buf.data, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        is_there = is_there || (strstr(line, quoted[0]) && strstr(line, quoted[1]) &&
                                strstr(line, "\"refused\"") && strstr(line, why));
    rs_buf_fini(&buf);
    return is_there;
}

/* ---- peers --------------------------------------------------------------------------------------------------------- */

static const struct rs_identity node_1 = {.party = RS_PARTY_NODE, .name = "n1"};
static const struct rs_identity node_2 = {.party = RS_PARTY_NODE, .name = "n2"};
static const struct rs_identity olga = {.party = RS_PARTY_OPERATOR, .name = "olga"};
static const struct rs_identity alice = {
    .party = RS_PARTY_USER, .name = "alice", .has_uid = true, .uid = 1001};
static const struct rs_identity bob = {
    .party = RS_PARTY_USER, .name = "bob", .has_uid = true, .uid = 1002};

struct peer {
    struct rs_link *link;
    struct rs_identity who;
    bool is_writable, is_closed, has_welcome, is_opened, has_last;
    char refused[600], capture[RS_COORD_ID_BYTES], reason[600];
    unsigned prepares, commits, refusals, captures, ranks;
    uint32_t rank_state;
    uint64_t durable_seq;
};

static void on_down(struct peer *peer, const Rankscope__Down *down)
{
    if (down->message_case == RANKSCOPE__DOWN__MESSAGE_WELCOME)
        peer->has_welcome = true;
    if (down->message_case == RANKSCOPE__DOWN__MESSAGE_OPENED) {
        peer->is_opened = true;
        (void)snprintf(peer->refused, sizeof peer->refused, "%s", down->opened->refused);
    }
    if (down->message_case == RANKSCOPE__DOWN__MESSAGE_PREPARE) {
        peer->prepares++;
        (void)snprintf(peer->capture, sizeof peer->capture, "%s", down->prepare->capture);
    }
    peer->commits += down->message_case == RANKSCOPE__DOWN__MESSAGE_COMMIT;
    for (size_t i = 0;
         down->message_case == RANKSCOPE__DOWN__MESSAGE_ACK && i < down->ack->n_streams; i++) {
        peer->durable_seq = down->ack->streams[i]->durable_seq;
        peer->refusals += down->ack->streams[i]->refusal != 0;
        if (down->ack->streams[i]->refusal)
            (void)snprintf(peer->refused, sizeof peer->refused, "%s",
                           down->ack->streams[i]->reason);
    }
}

static void on_reply(struct peer *peer, const Rankscope__Reply *reply)
{
    peer->has_last = peer->has_last || reply->last;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_RANKS)
        peer->ranks += (unsigned)reply->ranks->n_ranks;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_LIST)
        peer->captures += (unsigned)reply->list->n_captures;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_REFUSAL)
        (void)snprintf(peer->refused, sizeof peer->refused, "%s", reply->refusal->text);
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_CAPTURE)
        return;
    (void)snprintf(peer->capture, sizeof peer->capture, "%s", reply->capture->id);
    if (reply->capture->n_ranks)
        peer->rank_state = reply->capture->ranks[0]->state;
}

static bool peer_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct peer *peer = self;
    struct rs_message message;
    const bool asks = peer->who.party == RS_PARTY_OPERATOR || strcmp(link->peer, "asks") == 0;
    const enum rs_status status = rs_message_unpack(
        &message, asks ? &rankscope__reply__descriptor : &rankscope__down__descriptor, frame, NULL);
    assert_int_equal(status, RS_OK);
    if (asks)
        on_reply(peer, (const Rankscope__Reply *)message.body);
    else
        on_down(peer, (const Rankscope__Down *)message.body);
    rs_message_fini(&message);
    rs_frame_free(&frame);
    return true;
}

static void peer_writable(void *self, struct rs_link *link)
{
    (void)link;
    ((struct peer *)self)->is_writable = true;
}

static void peer_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    struct peer *peer = self;
    (void)link;
    (void)status;
    (void)snprintf(peer->reason, sizeof peer->reason, "%s", reason);
    peer->is_closed = true;
}

static const struct rs_link_user peer_user = {
    .on_message = peer_message, .on_writable = peer_writable, .on_closed = peer_closed};

static void meet(struct rig *rig, struct peer *peer, const struct rs_identity *who,
                 const char *method)
{
    *peer = (struct peer){.is_writable = true, .who = *who};
    peer->link = link_mem_connect_as(who, rig->loop, &peer_user, peer, method, rs_server_accept,
                                     rig->server);
    if (strcmp(method, RS_WIRE_METHOD_ASK) == 0)
        peer->link->peer = "asks";
}

static void say_bytes(struct rig *rig, struct peer *peer, const struct rs_buf *buf)
{
    STEP_UNTIL(rig, peer->is_writable || peer->is_closed);
    if (peer->is_closed)
        return;
    peer->is_writable = false;
    assert_ok(rs_link_send(peer->link, rs_view_of(buf->data, buf->length), rs_view_of(NULL, 0)));
}

static void say(struct rig *rig, struct peer *peer, const ProtobufCMessage *message)
{
    struct rs_buf buf = {0};
    rs_wire_pack(message, &buf);
    assert_false(buf.failed);
    say_bytes(rig, peer, &buf);
    rs_buf_fini(&buf);
}

static char *edit(const char *text) /* protobuf-c wants it so, and only reads */
{
    union {
        const char *in;
        char *out;
    } both = {.in = text};
    return both.out;
}

static void fill_rank(Rankscope__RankState *state, const char *run, uint32_t rank,
                      const char *incarnation, const char *user)
{
    rankscope__rank_state__init(state);
    state->run = edit(run);
    state->rank = rank;
    state->incarnation = edit(incarnation);
    state->user = edit(user);
    state->step = 3;
    state->can_capture = true;
}

/* Hello of a node with one rank; `run` "": with none. */
static void say_hello(struct rig *rig, struct peer *peer, const char *node, const char *run,
                      uint32_t rank, const char *incarnation, const char *user)
{
    Rankscope__Version version;
    Rankscope__RankState state, *states[] = {&state};
    rs_wire_own_version(&version);
    Rankscope__Hello hello = RANKSCOPE__HELLO__INIT;
    fill_rank(&state, run, rank, incarnation, user);
    hello.version = &version;
    hello.node = edit(node);
    hello.collector = edit("0123");
    hello.ranks = states;
    hello.n_ranks = *run ? 1 : 0;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_HELLO;
    up.hello = &hello;
    say(rig, peer, &up.base);
    STEP_UNTIL(rig, peer->has_welcome || peer->is_closed);
}

static void say_open(struct rig *rig, struct peer *peer, uint32_t handle, const char *run,
                     const char *incarnation, const char *capture, const char *key)
{
    Rankscope__Open open = RANKSCOPE__OPEN__INIT;
    open.handle = handle;
    open.run = edit(run);
    open.incarnation = edit(incarnation);
    open.capture = edit(capture);
    open.capture_key = edit(key);
    open.host = edit("h");
    open.origin = edit("o");
    open.world = 1;
    open.settle_ns = RS_NS_PER_MS;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_OPEN;
    up.open = &open;
    peer->is_opened = false;
    peer->refused[0] = '\0';
    say(rig, peer, &up.base);
    STEP_UNTIL(rig, peer->is_opened || peer->is_closed);
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

static void say_chunk(struct rig *rig, struct peer *peer, uint32_t handle, uint64_t seq,
                      bool is_last)
{
    struct rs_buf chunk = {0}, buf = {0};
    struct rs_strtab strings;
    struct rs_lanes lanes = {0};
    struct rs_chunk_writer *writer = NULL;
    static const char text[] = "a summary, which nobody opens here";
    assert_ok(rs_strtab_init(&strings, 0));
    const struct rs_chunk_writer_options options = {
        .strings = &strings, .lanes = &lanes, .put = put_chunk, .put_self = &chunk};
    assert_ok(rs_chunk_writer_new(&options, &writer, NULL));
    assert_ok(rs_chunk_writer_summary(writer, rs_view_of(text, sizeof text), NULL));
    rs_chunk_writer_free(&writer);
    rs_strtab_fini(&strings);
    rs_wire_chunk_head(&buf, handle, seq, is_last ? RS_ENVELOPE_LAST : 0, chunk.length);
    rs_buf_bytes(&buf, chunk.data, chunk.length);
    say_bytes(rig, peer, &buf);
    rs_buf_fini(&buf);
    rs_buf_fini(&chunk);
}

static void ask(struct rig *rig, struct peer *peer, const struct rs_identity *who,
                Rankscope__Ask *question)
{
    Rankscope__Version version;
    rs_wire_own_version(&version);
    question->version = &version;
    meet(rig, peer, who, RS_WIRE_METHOD_ASK);
    say(rig, peer, &question->base);
}

static void ask_start(struct rig *rig, struct peer *peer, const struct rs_identity *who,
                      const char *run)
{
    Rankscope__Ask question = RANKSCOPE__ASK__INIT;
    Rankscope__AskStart start = RANKSCOPE__ASK_START__INIT;
    start.run = edit(run);
    start.steps = 3;
    question.message_case = RANKSCOPE__ASK__MESSAGE_START;
    question.start = &start;
    ask(rig, peer, who, &question);
}

static void ask_capture(struct rig *rig, struct peer *peer, const struct rs_identity *who,
                        const char *id)
{
    Rankscope__Ask question = RANKSCOPE__ASK__INIT;
    Rankscope__AskCapture capture = RANKSCOPE__ASK_CAPTURE__INIT;
    capture.id = edit(id);
    question.message_case = RANKSCOPE__ASK__MESSAGE_CAPTURE;
    question.capture = &capture;
    ask(rig, peer, who, &question);
    STEP_UNTIL(rig, peer->has_last);
}

static void ask_stop(struct rig *rig, struct peer *peer, const struct rs_identity *who,
                     const char *id)
{
    Rankscope__Ask question = RANKSCOPE__ASK__INIT;
    Rankscope__AskStop stop = RANKSCOPE__ASK_STOP__INIT;
    stop.id = edit(id);
    question.message_case = RANKSCOPE__ASK__MESSAGE_STOP;
    question.stop = &stop;
    ask(rig, peer, who, &question);
}

static void say_armed(struct rig *rig, struct peer *peer, const char *capture,
                      const char *incarnation)
{
    Rankscope__ArmedRank rank = RANKSCOPE__ARMED_RANK__INIT, *ranks[] = {&rank};
    Rankscope__Armed armed = RANKSCOPE__ARMED__INIT;
    rank.incarnation = edit(incarnation);
    rank.step = 5;
    armed.capture = edit(capture);
    armed.ranks = ranks;
    armed.n_ranks = 1;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_ARMED;
    up.armed = &armed;
    say(rig, peer, &up.base);
}

static void say_lost(struct rig *rig, struct peer *peer, const char *capture)
{
    Rankscope__RankProgress rank = RANKSCOPE__RANK_PROGRESS__INIT, *ranks[] = {&rank};
    Rankscope__Progress progress = RANKSCOPE__PROGRESS__INIT;
    rank.state = RS_PROGRESS_LOST;
    rank.text = edit("forged");
    progress.capture = edit(capture);
    progress.ranks = ranks;
    progress.n_ranks = 1;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_PROGRESS;
    up.progress = &progress;
    say(rig, peer, &up.base);
}

/* ---- the attacks --------------------------------------------------------------------------------------------------- */

static void armed_and_progress_of_who_was_not_asked_are_refused(void **state)
{
    struct rig *rig = begin(NULL);
    struct peer victim, liar, asker, look;
    (void)state;
    meet(rig, &victim, &node_1, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &victim, "n1", "r", 0, "i0", "alice");
    meet(rig, &liar, &node_2, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &liar, "n2", "", 0, "", "");
    ask_start(rig, &asker, &olga, "r");
    STEP_UNTIL(rig, victim.prepares == 1);
    say_armed(rig, &liar, victim.capture, "i0");
    say_lost(rig, &liar, victim.capture);
    STEP_UNTIL(rig, is_in_audit(rig, "node/n2", "report", victim.capture));
    ask_capture(rig, &look, &olga, victim.capture);
    assert_int_equal(look.rank_state, RS_PROGRESS_WAITING);
    assert_int_equal(victim.commits, 0);
    say_armed(rig, &victim, victim.capture, "i0");
    STEP_UNTIL(rig, victim.commits == 1);
    say_lost(rig, &liar, victim.capture);
    ask_capture(rig, &look, &olga, victim.capture);
    assert_int_equal(look.rank_state, RS_PROGRESS_ARMED);
    assert_int_equal(liar.commits + liar.prepares, 0);
    end(rig);
}

static bool take_name(void *self, const char *name)
{
    (void)snprintf(self, RS_COORD_ID_BYTES, "%s", name);
    return false;
}

/* A capture of one file of n1, closed. */
static void close_one(struct rig *rig, struct peer *peer, char id_p[RS_COORD_ID_BYTES])
{
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    assert_non_null(facts);
    meet(rig, peer, &node_1, RS_WIRE_METHOD_STREAM);
    say_hello(rig, peer, "n1", "", 0, "", "");
    say_open(rig, peer, 1, "r", "i0", "", "k");
    assert_string_equal(peer->refused, "");
    say_chunk(rig, peer, 1, 1, true);
    STEP_UNTIL(rig, peer->durable_seq == 1);
    assert_ok(rs_store_list_folders(rig->store, take_name, id_p, NULL));
    STEP_UNTIL(rig,
               rs_store_find_capture(rig->store, id_p, facts, NULL) == RS_OK && facts->is_closed);
    rs_mem_free(facts);
}

static void a_closed_capture_takes_what_is_owed_and_nothing_else(void **state)
{
    struct rig *rig = begin(NULL);
    struct peer owner, liar;
    char id[RS_COORD_ID_BYTES];
    (void)state;
    close_one(rig, &owner, id);
    const struct rs_ingest_stats before = rs_server_ingest_stats(rig->server);
    meet(rig, &liar, &node_2, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &liar, "n2", "", 0, "", "");
    say_open(rig, &liar, 1, "r", "another", id, "");
    assert_non_null(strstr(liar.refused, "is closed"));
    STEP_UNTIL(rig, is_in_audit(rig, "node/n2", "capture.append", id));
    /* the same stream again: what was stored is acknowledged, what is new is not taken */
    say_open(rig, &owner, 2, "r", "i0", id, "");
    assert_string_equal(owner.refused, "");
    owner.durable_seq = 0;
    say_chunk(rig, &owner, 2, 1, true);
    STEP_UNTIL(rig, owner.durable_seq == 1);
    say_chunk(rig, &owner, 2, 2, false);
    STEP_UNTIL(rig, owner.refusals == 1 || owner.is_closed);
    assert_non_null(strstr(owner.refused, "nothing is appended"));
    const struct rs_ingest_stats after = rs_server_ingest_stats(rig->server);
    assert_int_equal(after.chunks, before.chunks);
    assert_int_equal(after.repeated, before.repeated + 1);
    end(rig);
}

static void a_stream_is_of_one_link_at_a_time(void **state)
{
    struct rig *rig = begin(NULL);
    struct peer owner, liar, again;
    (void)state;
    meet(rig, &owner, &node_1, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &owner, "n1", "", 0, "", "");
    say_open(rig, &owner, 1, "r", "i0", "", "k");
    meet(rig, &liar, &node_2, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &liar, "n2", "", 0, "", "");
    say_open(rig, &liar, 1, "r", "i0", "", "k");
    assert_non_null(strstr(liar.refused, "has that stream open"));
    STEP_UNTIL(rig, is_in_audit(rig, "node/n2", "stream", "n1"));
    say_chunk(rig, &owner, 1, 1, false);
    STEP_UNTIL(rig, owner.durable_seq == 1);
    /* its own collector, back before the old link was missed, may go on; the old link may not */
    meet(rig, &again, &node_1, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &again, "n1", "", 0, "", "");
    say_open(rig, &again, 1, "r", "i0", "", "k");
    assert_string_equal(again.refused, "");
    say_chunk(rig, &again, 1, 2, true);
    STEP_UNTIL(rig, again.durable_seq == 2);
    say_chunk(rig, &owner, 1, 3, false);
    STEP_UNTIL(rig, owner.is_closed);
    end(rig);
}

/* Its collector is away, or has not opened its stream yet: nobody else ends it with a chunk of his own. */
static void nobody_sends_what_another_node_was_asked_for(void **state)
{
    struct rig *rig = begin(NULL);
    struct peer victim, liar, asker;
    (void)state;
    meet(rig, &victim, &node_1, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &victim, "n1", "r", 0, "i0", "alice");
    meet(rig, &liar, &node_2, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &liar, "n2", "", 0, "", "");
    ask_start(rig, &asker, &olga, "r");
    STEP_UNTIL(rig, victim.prepares == 1);
    say_armed(rig, &victim, victim.capture, "i0");
    STEP_UNTIL(rig, victim.commits == 1);
    say_open(rig, &liar, 1, "r", "i0", victim.capture, "");
    assert_non_null(strstr(liar.refused, "another node's"));
    STEP_UNTIL(rig, is_in_audit(rig, "node/n2", "stream", victim.capture));
    say_open(rig, &liar, 2, "r", "i0", "", "k"); /* nor as files */
    assert_non_null(strstr(liar.refused, "another node's"));
    say_open(rig, &victim, 1, "r", "i0", victim.capture, "");
    assert_string_equal(victim.refused, "");
    say_chunk(rig, &victim, 1, 1, true);
    STEP_UNTIL(rig, victim.durable_seq == 1);
    end(rig);
}

static unsigned ranks_of(struct rig *rig, const struct rs_identity *who)
{
    struct peer peer;
    Rankscope__Ask question = RANKSCOPE__ASK__INIT;
    Rankscope__AskRanks ranks = RANKSCOPE__ASK_RANKS__INIT;
    question.message_case = RANKSCOPE__ASK__MESSAGE_RANKS;
    question.ranks = &ranks;
    ask(rig, &peer, who, &question);
    STEP_UNTIL(rig, peer.has_last);
    return peer.ranks;
}

static unsigned captures_of(struct rig *rig, const struct rs_identity *who)
{
    struct peer peer;
    Rankscope__Ask question = RANKSCOPE__ASK__INIT;
    Rankscope__AskList list = RANKSCOPE__ASK_LIST__INIT;
    question.message_case = RANKSCOPE__ASK__MESSAGE_LIST;
    question.list = &list;
    ask(rig, &peer, who, &question);
    STEP_UNTIL(rig, peer.has_last);
    return peer.captures;
}

static void a_user_sees_and_captures_his_own_runs(void **state)
{
    struct rig *rig = begin(NULL);
    struct peer node, other, asker, look;
    (void)state;
    meet(rig, &node, &node_1, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &node, "n1", "hers", 0, "i0", "alice");
    meet(rig, &other, &node_2, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &other, "n2", "his", 0, "i1", "bob");
    assert_int_equal(ranks_of(rig, &olga), 2);
    assert_int_equal(ranks_of(rig, &alice), 1);
    ask_start(rig, &asker, &bob, "hers");
    STEP_UNTIL(rig, asker.has_last);
    assert_non_null(strstr(asker.refused, "has no run hers"));
    STEP_UNTIL(rig, is_in_audit(rig, "user/bob", "capture.start", "hers"));
    ask_start(rig, &asker, &alice, ""); /* which one is clear: her only one */
    STEP_UNTIL(rig, node.prepares == 1);
    assert_int_equal(other.prepares, 0);
    STEP_UNTIL(rig, captures_of(rig, &alice) == 1);
    assert_int_equal(captures_of(rig, &bob), 0);
    ask_capture(rig, &look, &bob, node.capture);
    assert_non_null(strstr(look.refused, "has no capture"));
    ask_stop(rig, &look, &bob, node.capture);
    STEP_UNTIL(rig, look.has_last);
    assert_non_null(strstr(look.refused, "has no capture"));
    STEP_UNTIL(rig, is_in_audit(rig, "user/bob", "capture.stop", node.capture));
    ask_capture(rig, &look, &alice, node.capture);
    assert_string_equal(look.refused, "");
    end(rig);
}

static void a_users_collector_speaks_for_his_processes_alone(void **state)
{
    struct rig *rig = begin(NULL);
    struct peer node, his, asker;
    (void)state;
    meet(rig, &node, &node_1, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &node, "n1", "hers", 0, "i0", "alice");
    ask_start(rig, &asker, &alice, "");
    STEP_UNTIL(rig, node.prepares == 1);
    /* on the same node: a rank of her run, said to be hers; progress of her capture; a stream into it */
    meet(rig, &his, &bob, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &his, "n1", "hers", 1, "i9", "alice");
    STEP_UNTIL(rig, is_in_audit(rig, "user/bob", "rank", "another user"));
    assert_int_equal(ranks_of(rig, &olga), 1);
    say_lost(rig, &his, node.capture);
    STEP_UNTIL(rig, is_in_audit(rig, "user/bob", "report", node.capture));
    say_open(rig, &his, 1, "hers", "i0", node.capture, "");
    assert_non_null(strstr(his.refused, "is not of bob"));
    STEP_UNTIL(rig, is_in_audit(rig, "user/bob", "stream", "is not of bob"));
    end(rig);
}

static void one_identity_takes_its_share_and_no_more(void **state)
{
    static const struct quota_limits few = {
        .most = {[QUOTA_LINKS] = 2, [QUOTA_STREAMS] = 2, [QUOTA_RANKS] = 1, [QUOTA_CAPTURES] = 1}};
    struct rig *rig = begin(&few);
    struct peer node, second, third, other;
    (void)state;
    meet(rig, &node, &node_1, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &node, "n1", "r", 0, "i0", "alice");
    meet(rig, &second, &node_1, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &second, "n1", "r", 1, "i1", "alice");
    STEP_UNTIL(rig, is_in_audit(rig, "node/n1", "rank", "new ranks in a minute"));
    meet(rig, &third, &node_1, RS_WIRE_METHOD_STREAM);
    STEP_UNTIL(rig, third.is_closed);
    STEP_UNTIL(rig, is_in_audit(rig, "node/n1", "connect", "links at a time"));
    say_open(rig, &node, 1, "r", "i0", "", "k");
    assert_string_equal(node.refused, "");
    say_open(rig, &second, 1, "r", "i1", "", "another");
    assert_non_null(strstr(second.refused, "new captures in a minute"));
    say_open(rig, &second, 2, "r", "i2", "", "k");
    assert_non_null(strstr(second.refused, "streams at a time"));
    /* others do not notice */
    meet(rig, &other, &node_2, RS_WIRE_METHOD_STREAM);
    say_hello(rig, &other, "n2", "r2", 0, "i5", "bob");
    say_open(rig, &other, 1, "r2", "i5", "", "k");
    assert_string_equal(other.refused, "");
    assert_int_equal(ranks_of(rig, &olga), 2);
    end(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(armed_and_progress_of_who_was_not_asked_are_refused),
        cmocka_unit_test(a_closed_capture_takes_what_is_owed_and_nothing_else),
        cmocka_unit_test(a_stream_is_of_one_link_at_a_time),
        cmocka_unit_test(nobody_sends_what_another_node_was_asked_for),
        cmocka_unit_test(a_user_sees_and_captures_his_own_runs),
        cmocka_unit_test(a_users_collector_speaks_for_his_processes_alone),
        cmocka_unit_test(one_identity_takes_its_share_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
