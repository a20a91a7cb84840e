/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions from many threads to one: each gets its own answers, whole and in order; who leaves and who stops waits for nobody.
 */
#include "aggregator/http/calls.h"

#include "common/base/mem.h"
#include "tests/support/link_mem.h"
#include "tests/support/rs_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A server: answers AskStop with as many captures as the ID says, named ID.0, ID.1, ...; "refuse" and "close" do that; "never"
 * is not answered. */
struct session {
    struct rs_link *link;
    char id[64];
    int sent, wanted;
    bool is_over;
};

struct server {
    struct rs_loop *loop;
    struct rs_calls *calls;
    atomic_bool must_stop;
    atomic_int open, refused;
    int limit; /* of sessions; more are not accepted */
};

static void pump(struct session *session)
{
    while (session->sent < session->wanted) {
        char id[80];
        struct rs_buf buf = {0};
        Rankscope__CaptureInfo info = RANKSCOPE__CAPTURE_INFO__INIT;
        Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
        (void)snprintf(id, sizeof id, "%s.%d", session->id, session->sent);
        info.id = id;
        reply.last = session->sent + 1 == session->wanted;
        reply.message_case = RANKSCOPE__REPLY__MESSAGE_CAPTURE;
        reply.capture = &info;
        rs_wire_pack(&reply.base, &buf);
        const enum rs_status status =
            rs_link_send(session->link, rs_view_of(buf.data, buf.length), rs_view_of(NULL, 0));
        rs_buf_fini(&buf);
        if (status == RS_AGAIN)
            return;
        session->sent++;
    }
    if (!session->is_over) {
        session->is_over = true;
        rs_link_close(session->link, RS_OK, "");
    }
}

static void refuse(struct session *session)
{
    char text[] = "nobody wants that";
    struct rs_buf buf = {0};
    Rankscope__Refusal refusal = RANKSCOPE__REFUSAL__INIT;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    refusal.status = RS_NOTFOUND;
    refusal.text = text;
    reply.last = true;
    reply.message_case = RANKSCOPE__REPLY__MESSAGE_REFUSAL;
    reply.refusal = &refusal;
    rs_wire_pack(&reply.base, &buf);
    assert_ok(rs_link_send(session->link, rs_view_of(buf.data, buf.length), rs_view_of(NULL, 0)));
    rs_buf_fini(&buf);
    session->is_over = true;
    rs_link_close(session->link, RS_OK, "");
}

static bool on_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct session *session = self;
    struct rs_message message;
    (void)link;
    assert_ok(rs_message_unpack(&message, &rankscope__ask__descriptor, frame, NULL));
    const Rankscope__Ask *ask = (const Rankscope__Ask *)message.body;
    assert_non_null(ask->version);
    (void)snprintf(session->id, sizeof session->id, "%s", ask->stop->id);
    rs_message_fini(&message);
    rs_frame_free(&frame);
    if (strcmp(session->id, "refuse") == 0) {
        refuse(session);
    } else if (strcmp(session->id, "close") == 0) {
        session->is_over = true;
        rs_link_close(session->link, RS_LIMIT, "it is too much");
    } else if (strcmp(session->id, "never") != 0) {
        session->wanted = (int)strtol(session->id, NULL, 10);
        pump(session);
    }
    return true;
}

static void on_writable(void *self, struct rs_link *link)
{
    (void)link;
    struct session *session = self;
    if (session->wanted)
        pump(session);
}

static struct server *the_server;

static void on_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    (void)link;
    (void)status;
    (void)reason;
    atomic_fetch_sub(&the_server->open, 1);
    rs_mem_free(self);
}

static const struct rs_link_user user = {
    .on_message = on_message, .on_writable = on_writable, .on_closed = on_closed};

static bool accept_call(void *self, struct rs_link *link, const char *method)
{
    struct server *server = self;
    assert_string_equal(method, RS_WIRE_METHOD_ASK);
    assert_string_equal(link->identity.name, "carol");
    assert_string_equal(link->peer, "http:10.0.0.7:1");
    if (atomic_load(&server->open) >= server->limit) {
        atomic_fetch_add(&server->refused, 1);
        return false;
    }
    struct session *session = rs_mem_calloc(1, sizeof *session);
    assert_non_null(session);
    session->link = link;
    link->user = &user;
    link->self = session;
    atomic_fetch_add(&server->open, 1);
    return true;
}

static void *serve(void *self)
{
    struct server *server = self;
    while (!atomic_load(&server->must_stop)) {
        if (rs_loop_run(server->loop, rs_time_monotonic() + RS_NS_PER_S) < 0)
            break;
        rs_calls_turn(server->calls);
    }
    return NULL;
}

struct rig {
    struct server server;
    pthread_t thread;
};

static void start(struct rig *rig)
{
    *rig = (struct rig){.server = {.loop = link_mem_loop_new(), .limit = 1000}};
    the_server = &rig->server;
    assert_ok(rs_calls_new(rig->server.loop, accept_call, &rig->server, &rig->server.calls, NULL));
    assert_int_equal(pthread_create(&rig->thread, NULL, serve, &rig->server), 0);
}

/* As the daemon stops: on the server's own thread, once no asker is there any more. */
static void stop(struct rig *rig)
{
    atomic_store(&rig->server.must_stop, true);
    rs_loop_wake(rig->server.loop);
    assert_int_equal(pthread_join(rig->thread, NULL), 0);
    rs_calls_stop(rig->server.calls);
    rs_calls_turn(rig->server.calls);
    assert_int_equal(atomic_load(&rig->server.open), 0);
    rs_calls_free(&rig->server.calls);
    link_mem_loop_free(&rig->server.loop);
}

static struct rs_call *ask(struct rig *rig, const char *id)
{
    const struct rs_identity who = {.party = RS_PARTY_OPERATOR, .name = "carol"};
    char copy[64];
    struct rs_call *call = NULL;
    Rankscope__AskStop question = RANKSCOPE__ASK_STOP__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    (void)snprintf(copy, sizeof copy, "%s", id);
    question.id = copy;
    message.message_case = RANKSCOPE__ASK__MESSAGE_STOP;
    message.stop = &question;
    assert_ok(rs_call_begin(rig->server.calls, &who, "10.0.0.7:1", &message, &call, NULL));
    return call;
}

static enum rs_status next(struct rs_call *call, Rankscope__Reply **reply_p, struct rs_err *err)
{
    return rs_call_next(call, rs_time_monotonic() + 60 * (rs_dur)RS_NS_PER_S, reply_p, err);
}

static void read_all(struct rig *rig, int count)
{
    char id[16];
    Rankscope__Reply *reply = NULL;
    (void)snprintf(id, sizeof id, "%d", count);
    struct rs_call *call = ask(rig, id);
    for (int i = 0; i < count; i++) {
        char wanted[32];
        (void)snprintf(wanted, sizeof wanted, "%d.%d", count, i);
        assert_ok(next(call, &reply, NULL));
        assert_string_equal(reply->capture->id, wanted);
        assert_int_equal(reply->last, i + 1 == count);
        rankscope__reply__free_unpacked(reply, NULL);
    }
    assert_int_equal(next(call, &reply, NULL), RS_END);
    rs_call_end(&call);
}

static void answers_come_in_order(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    read_all(&rig, 1);
    read_all(&rig, 500);
    stop(&rig);
}

static void what_is_refused_is_told(void **state)
{
    (void)state;
    struct rig rig;
    struct rs_err err = {0};
    Rankscope__Reply *reply = NULL;
    start(&rig);
    struct rs_call *call = ask(&rig, "refuse");
    assert_int_equal(next(call, &reply, &err), RS_NOTFOUND);
    assert_string_equal(err.text, "nobody wants that");
    rs_call_end(&call);
    call = ask(&rig, "close");
    assert_int_equal(next(call, &reply, &err), RS_LIMIT);
    assert_string_equal(err.text, "it is too much");
    rs_call_end(&call);
    rig.server.limit = 0; /* before any call, as the daemon's bound */
    call = ask(&rig, "1");
    assert_int_equal(next(call, &reply, &err), RS_UNREACHABLE);
    assert_int_equal(atomic_load(&rig.server.refused), 1);
    rs_call_end(&call);
    stop(&rig);
}

static void who_waits_may_leave(void **state)
{
    (void)state;
    struct rig rig;
    Rankscope__Reply *reply = NULL;
    start(&rig);
    struct rs_call *call = ask(&rig, "never");
    assert_int_equal(rs_call_next(call, rs_time_monotonic() + RS_NS_PER_MS, &reply, NULL),
                     RS_AGAIN);
    rs_call_end(&call);
    call = ask(&rig, "500"); /* in the middle of its answers */
    assert_ok(next(call, &reply, NULL));
    rankscope__reply__free_unpacked(reply, NULL);
    rs_call_end(&call);
    call = ask(&rig, "3"); /* at once */
    rs_call_end(&call);
    stop(&rig);
}

static void *ask_often(void *self)
{
    for (int i = 1; i <= 40; i++)
        read_all(self, i % 7 + 1);
    return NULL;
}

static void many_threads_do_not_mix(void **state)
{
    (void)state;
    struct rig rig;
    pthread_t threads[8];
    start(&rig);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &rig), 0);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    stop(&rig);
}

static void *wait_for_ever(void *self)
{
    Rankscope__Reply *reply = NULL;
    struct rs_err err = {0};
    struct rs_call *call = self;
    assert_int_equal(next(call, &reply, &err), RS_UNREACHABLE);
    rs_call_end(&call);
    return NULL;
}

/* The server's thread ends the calls, and waits for their threads, as the daemon does. */
static void stopping_wakes_who_waits(void **state)
{
    (void)state;
    struct rig rig;
    pthread_t threads[4];
    start(&rig);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_ever, ask(&rig, "never")), 0);
    while (atomic_load(&rig.server.open) < 4)
        (void)sched_yield();
    atomic_store(&rig.server.must_stop, true);
    rs_loop_wake(rig.server.loop);
    assert_int_equal(pthread_join(rig.thread, NULL), 0);
    rs_calls_stop(rig.server.calls);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    rs_calls_turn(rig.server.calls);
    assert_int_equal(atomic_load(&rig.server.open), 0);
    const struct rs_identity who = {.party = RS_PARTY_OPERATOR, .name = "carol"};
    Rankscope__AskCounters question = RANKSCOPE__ASK_COUNTERS__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    struct rs_call *call = NULL;
    message.message_case = RANKSCOPE__ASK__MESSAGE_COUNTERS;
    message.counters = &question;
    assert_status(rs_call_begin(rig.server.calls, &who, "", &message, &call, NULL), RS_UNREACHABLE);
    rs_calls_free(&rig.server.calls);
    link_mem_loop_free(&rig.server.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_in_order),    cmocka_unit_test(what_is_refused_is_told),
        cmocka_unit_test(who_waits_may_leave),      cmocka_unit_test(many_threads_do_not_mix),
        cmocka_unit_test(stopping_wakes_who_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
