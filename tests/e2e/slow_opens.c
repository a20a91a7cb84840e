/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One peer opens 3,000 streams, each of a capture of its own, on a disk where every sync takes long (shim_sync.c, by LD_PRELOAD).
 * Another's heartbeats are answered meanwhile.
 *
 *     slow_opens DIR SECONDS     prints {"opens", "opened", "heartbeats", "slowest_ms"}
 *
 * Links are in memory: what is measured is the thread that serves them. It ends without waiting for the disk.
 */
#include "aggregator/server/capture_journal.h"
#include "aggregator/server/server.h"
#include "aggregator/store/store.h"
#include "tests/support/link_mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPENS = 3000, BEAT_MS = 50 };

static void need(bool is_fine, const char *what)
{
    if (is_fine)
        return;
    fprintf(stderr, "slow_opens: %s\n", what);
    _exit(1);
}

struct peer {
    struct rs_link *link;
    bool is_writable, has_welcome;
    unsigned opened, answered;
    rs_ns asked_at, slowest; /* asked_at 0: nothing is waited for */
};

static bool on_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct peer *peer = self;
    struct rs_message message;
    (void)link;
    need(rs_message_unpack(&message, &rankscope__down__descriptor, frame, NULL) == RS_OK,
         "a message cannot be read");
    const Rankscope__Down *down = (const Rankscope__Down *)message.body;
    peer->has_welcome |= down->message_case == RANKSCOPE__DOWN__MESSAGE_WELCOME;
    if (down->message_case == RANKSCOPE__DOWN__MESSAGE_OPENED)
        peer->opened += !*down->opened->refused;
    if (down->message_case == RANKSCOPE__DOWN__MESSAGE_HEARTBEAT && peer->asked_at &&
        down->heartbeat->echo_sent_ns == peer->asked_at) {
        const rs_dur took = rs_time_monotonic() - peer->asked_at;
        peer->slowest = took > peer->slowest ? took : peer->slowest;
        peer->answered++;
        peer->asked_at = 0;
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
    (void)self;
    (void)link;
    fprintf(stderr, "slow_opens: a link was closed (%d): %s\n", (int)status, reason);
    _exit(1);
}

static const struct rs_link_user user = {
    .on_message = on_message, .on_writable = on_writable, .on_closed = on_closed};

/* false: it takes nothing now. */
static bool say(struct peer *peer, const ProtobufCMessage *message)
{
    struct rs_buf buf = {0};
    if (!peer->is_writable)
        return false;
    rs_wire_pack(message, &buf);
    peer->is_writable = false;
    need(rs_link_send(peer->link, rs_view_of(buf.data, buf.length), rs_view_of(NULL, 0)) == RS_OK,
         "send");
    rs_buf_fini(&buf);
    return true;
}

static void meet(struct rs_loop *loop, struct rs_server *server, struct peer *peer, char *name)
{
    const struct rs_identity who = {.party = RS_PARTY_LOCAL, .name = "root"};
    char collector[40];
    Rankscope__Version version;
    (void)snprintf(collector, sizeof collector, "%s-0123", name);
    *peer = (struct peer){.is_writable = true};
    peer->link = link_mem_connect_as(&who, loop, &user, peer, RS_WIRE_METHOD_STREAM,
                                     rs_server_accept, server);
    rs_wire_own_version(&version);
    Rankscope__Hello hello = RANKSCOPE__HELLO__INIT;
    hello.version = &version;
    hello.node = name;
    hello.collector = collector;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_HELLO;
    up.hello = &hello;
    need(say(peer, &up.base), "hello");
    while (!peer->has_welcome)
        need(rs_server_step(server, rs_time_monotonic() + RS_NS_PER_MS, NULL) == RS_OK, "step");
}

static bool open_one(struct peer *peer, unsigned number)
{
    char text[32];
    Rankscope__Open open = RANKSCOPE__OPEN__INIT;
    (void)snprintf(text, sizeof text, "key-%u", number);
    open.handle = number + 1;
    open.run = open.incarnation = open.capture_key = open.host = text;
    open.settle_ns = 1000 * (rs_dur)RS_NS_PER_S;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_OPEN;
    up.open = &open;
    return say(peer, &up.base);
}

static void beat(struct peer *peer)
{
    const rs_ns now = rs_time_monotonic();
    Rankscope__Heartbeat heartbeat = RANKSCOPE__HEARTBEAT__INIT;
    heartbeat.sent_ns = now;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_HEARTBEAT;
    up.heartbeat = &heartbeat;
    if (say(peer, &up.base))
        peer->asked_at = now;
}

int main(int argc, char **argv)
{
    struct rs_store *store = NULL;
    struct rs_err err = {0};
    need(argc == 3, "DIR SECONDS");
    need(rs_store_open(argv[1], 0, &store, &err) == RS_OK, err.text);
    struct rs_capture_journal own = {.store = store};
    const struct rs_server_journal journal = rs_capture_journal_interface(&own);
    struct rs_loop *loop = link_mem_loop_new();
    struct rs_server *server = NULL;
    const struct rs_server_options options = {.loop = loop, .store = store, .journal = &journal};
    need(rs_server_new(&options, &server, &err) == RS_OK, err.text);
    static char names[2][8] = {"many", "quiet"};
    struct peer many, quiet;
    meet(loop, server, &many, names[0]);
    meet(loop, server, &quiet, names[1]);
    unsigned opens = 0;
    rs_ns next_beat = 0;
    const rs_ns until = rs_time_monotonic() + strtol(argv[2], NULL, 10) * (rs_ns)RS_NS_PER_S;
    while (rs_time_monotonic() < until) {
        while (opens < OPENS && open_one(&many, opens))
            opens++;
        if (!quiet.asked_at && rs_time_monotonic() >= next_beat) {
            beat(&quiet);
            next_beat = rs_time_monotonic() + BEAT_MS * (rs_dur)RS_NS_PER_MS;
        }
        need(rs_server_step(server, rs_time_monotonic() + RS_NS_PER_MS, NULL) == RS_OK, "step");
    }
    /* One that is still waited for counts as long as it has been. */
    const rs_dur open_wait = quiet.asked_at ? rs_time_monotonic() - quiet.asked_at : 0;
    const rs_dur slowest = open_wait > quiet.slowest ? open_wait : quiet.slowest;
    printf("{\"opens\": %u, \"opened\": %u, \"heartbeats\": %u, \"slowest_ms\": %.1f}\n", opens,
           many.opened, quiet.answered, (double)slowest / 1e6);
    (void)fflush(stdout);
    _exit(0);
}
