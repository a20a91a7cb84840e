/* SPDX-License-Identifier: Apache-2.0 */
/* What heartbeats say of ranks: those of which something changed, and those that are armed or record. */
#include "collector/uplink/uplink.h"
#include "common/base/mem.h"
#include "tests/support/link_mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 3 };

struct beats {
    char dir[64];
    struct rs_loop *loop;
    struct rs_spool *spool;
    struct rs_uplink *uplink;
    struct rs_link *far; /* the aggregator's end */
    Rankscope__RankState states[RANKS], *pointers[RANKS];
    size_t heartbeats, told[RANKS];
};

static void welcome(struct beats *beats)
{
    Rankscope__Version version;
    rs_wire_own_version(&version);
    Rankscope__Welcome message = RANKSCOPE__WELCOME__INIT;
    message.version = &version;
    message.credit_bytes = 1 << 20;
    message.heartbeat_ns = RS_NS_PER_MS;
    Rankscope__Down down = RANKSCOPE__DOWN__INIT;
    down.message_case = RANKSCOPE__DOWN__MESSAGE_WELCOME;
    down.welcome = &message;
    struct rs_buf buf = {0};
    rs_wire_pack(&down.base, &buf);
    assert_ok(rs_link_send(beats->far, rs_view_of(buf.data, buf.length), rs_view_of(NULL, 0)));
    rs_buf_fini(&buf);
}

static bool on_frame(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct beats *beats = self;
    struct rs_message message;
    (void)link;
    assert_ok(rs_message_unpack(&message, &rankscope__up__descriptor, frame, NULL));
    const Rankscope__Up *up = (const Rankscope__Up *)message.body;
    if (up->message_case == RANKSCOPE__UP__MESSAGE_HELLO)
        welcome(beats);
    if (up->message_case == RANKSCOPE__UP__MESSAGE_HEARTBEAT) {
        beats->heartbeats++;
        for (size_t i = 0; i < up->heartbeat->n_ranks; i++)
            beats->told[up->heartbeat->ranks[i]->rank]++;
    }
    rs_message_fini(&message);
    rs_frame_free(&frame);
    return true;
}

static void on_writable(void *self, struct rs_link *link)
{
    (void)self;
    (void)link;
}

static void on_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    struct beats *beats = self;
    (void)link;
    (void)status;
    (void)reason;
    beats->far = NULL;
}

static const struct rs_link_user far_user = {
    .on_message = on_frame, .on_writable = on_writable, .on_closed = on_closed};

static bool take_link(void *self, struct rs_link *link, const char *method)
{
    struct beats *beats = self;
    (void)method;
    link->user = &far_user;
    link->self = beats;
    beats->far = link;
    return true;
}

static enum rs_status connect_link(void *self, const struct rs_link_user *user, void *user_self,
                                   struct rs_link **link_p, struct rs_err *err)
{
    struct beats *beats = self;
    (void)err;
    *link_p =
        link_mem_connect(beats->loop, user, user_self, RS_WIRE_METHOD_STREAM, take_link, beats);
    return RS_OK;
}

/* As an adapter does: the same table, and what changes all the time by itself. */
static size_t all_ranks(void *self, Rankscope__RankState ***states_p)
{
    struct beats *beats = self;
    for (size_t i = 0; i < RANKS; i++) {
        beats->states[i].seen_ns = rs_time_realtime();
        beats->states[i].free_memory_bytes++;
        beats->states[i].delay_ns++;
        beats->pointers[i] = &beats->states[i];
    }
    *states_p = beats->pointers;
    return RANKS;
}

static void begin(struct beats *beats)
{
    static char run[] = "r", incarnation[] = "i";
    char path[128];
    *beats = (struct beats){.far = NULL};
    tmp_dir_make(beats->dir);
    beats->loop = link_mem_loop_new();
    (void)snprintf(path, sizeof path, "%s/spool", beats->dir);
    assert_ok(rs_spool_open(path, NULL, &beats->spool, NULL));
    for (uint32_t i = 0; i < RANKS; i++) {
        rankscope__rank_state__init(&beats->states[i]);
        beats->states[i].rank = i;
        beats->states[i].run = run;
        beats->states[i].incarnation = incarnation;
    }
    const struct rs_uplink_options options = {.spool = beats->spool,
                                              .loop = beats->loop,
                                              .connect = connect_link,
                                              .connect_self = beats,
                                              .node = "node",
                                              .backoff_min_ns = RS_NS_PER_MS,
                                              .ranks = all_ranks,
                                              .self = beats};
    assert_ok(rs_uplink_new(&options, &beats->uplink, NULL));
}

static void finish(struct beats *beats)
{
    rs_uplink_close(beats->uplink);
    while (!rs_uplink_is_closed(beats->uplink))
        rs_uplink_step(beats->uplink, rs_time_monotonic() + RS_NS_PER_MS);
    rs_uplink_free(&beats->uplink);
    rs_spool_close(&beats->spool);
    link_mem_loop_free(&beats->loop);
    tmp_dir_remove(beats->dir);
}

static void hear(struct beats *beats, size_t more)
{
    for (const size_t until = beats->heartbeats + more; beats->heartbeats < until;)
        rs_uplink_step(beats->uplink, rs_time_monotonic() + RS_NS_PER_MS);
}

static void a_rank_is_told_of_when_something_of_it_changes(void **state)
{
    (void)state;
    struct beats beats;
    begin(&beats);
    const rs_ns begun = rs_time_monotonic();
    hear(&beats, 5);
    beats.states[1].step = 7;
    hear(&beats, 5);
    beats.states[2].state = RS_RANK_RECORDING;
    hear(&beats, 5);
    /* On a machine that stands still for so long all are told of once more, as they should be. */
    if (rs_time_monotonic() - begun < 4 * (rs_dur)RS_NS_PER_S) {
        assert_int_equal(beats.told[0], 1);
        assert_int_equal(beats.told[1], 2);
    }
    assert_true(beats.told[2] >= 5);
    finish(&beats);
}

static void all_are_told_of_over_a_new_link(void **state)
{
    (void)state;
    struct beats beats;
    begin(&beats);
    hear(&beats, 3);
    memset(beats.told, 0, sizeof beats.told);
    link_mem_cut_all(beats.loop);
    hear(&beats, 2);
    for (size_t i = 0; i < RANKS; i++)
        assert_true(beats.told[i] >= 1);
    finish(&beats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_is_told_of_when_something_of_it_changes),
        cmocka_unit_test(all_are_told_of_over_a_new_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
