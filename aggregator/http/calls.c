/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/http/calls.h"

#include "common/base/check.h"
#include "common/base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* asked --turn()--> open: on_message() --rs_link_close()--> closed --turn(): on_closed()--> done: the asker's alone */
enum call_state { CALL_ASKED, CALL_OPEN, CALL_CLOSED, CALL_DONE };

struct rs_call {
    struct rs_link link; /* first: the server's end */
    struct rs_calls *calls;
    struct rs_call *next; /* of the server's list */
    char from[80];
    struct rs_buf ask; /* packed, until it is handed over */
    pthread_cond_t changed;
    /* guarded by calls->lock */
    enum call_state state;
    struct rs_buf reply; /* packed */
    bool has_reply;      /* not taken yet */
    bool is_taken;       /* to be told to the server */
    bool is_left;        /* the asker is through */
    enum rs_status status;
    char reason[RS_ERR_TEXT_BYTES];
};

struct rs_calls {
    struct rs_loop *loop;
    rs_accept_fn *accept;
    void *accept_self;
    pthread_mutex_t lock;
    bool is_stopping;      /* lock */
    struct rs_call *asked; /* lock; new ones, the newest first */
    struct rs_call *open;  /* the server's */
    atomic_bool has_news;  /* for turn() */
    atomic_size_t count;   /* calls that are not freed */
};

static void free_call(struct rs_call *call)
{
    atomic_fetch_sub(&call->calls->count, 1);
    rs_buf_fini(&call->ask);
    rs_buf_fini(&call->reply);
    (void)pthread_cond_destroy(&call->changed);
    rs_mem_free(call);
}

static void tell_server(struct rs_calls *calls)
{
    atomic_store(&calls->has_news, true);
    rs_loop_wake(calls->loop);
}

/* ---- the server's end: a link ------------------------------------------------------------------------------------- */

static enum rs_status call_send(struct rs_link *link, struct rs_view head, struct rs_view payload)
{
    struct rs_call *call = (struct rs_call *)link;
    struct rs_calls *calls = call->calls;
    enum rs_status status = RS_OK;
    (void)pthread_mutex_lock(&calls->lock);
    if (call->state != CALL_OPEN || call->is_left || calls->is_stopping) {
        status = RS_UNREACHABLE;
    } else if (call->has_reply || call->is_taken) {
        status = RS_AGAIN; /* on_writable() follows */
    } else {
        rs_buf_reset(&call->reply);
        rs_buf_bytes(&call->reply, head.data, head.length);
        rs_buf_bytes(&call->reply, payload.data, payload.length);
        call->has_reply = true;
        (void)pthread_cond_signal(&call->changed);
    }
    (void)pthread_mutex_unlock(&calls->lock);
    return status;
}

static void call_resume(struct rs_link *link)
{
    (void)link; /* there is one message, and it was taken */
}

static void call_close(struct rs_link *link, enum rs_status status, const char *reason)
{
    struct rs_call *call = (struct rs_call *)link;
    struct rs_calls *calls = call->calls;
    (void)pthread_mutex_lock(&calls->lock);
    if (call->state == CALL_OPEN) {
        call->state = CALL_CLOSED;
        call->status = status;
        (void)snprintf(call->reason, sizeof call->reason, "%s", reason);
        (void)pthread_cond_signal(&call->changed);
    }
    (void)pthread_mutex_unlock(&calls->lock);
    tell_server(calls); /* on_closed() comes from turn(), never from here */
}

static void call_abort(struct rs_link *link)
{
    call_close(link, RS_UNREACHABLE, "the service ended it");
}

static const struct rs_link_ops call_ops = {
    .send = call_send, .resume = call_resume, .close = call_close, .abort = call_abort};

static void refuse(struct rs_call *call, enum rs_status status, const char *reason)
{
    struct rs_calls *calls = call->calls;
    (void)pthread_mutex_lock(&calls->lock);
    call->state = CALL_DONE;
    call->status = status;
    (void)snprintf(call->reason, sizeof call->reason, "%s", reason);
    (void)pthread_cond_signal(&call->changed);
    const bool is_left = call->is_left;
    (void)pthread_mutex_unlock(&calls->lock);
    if (is_left)
        free_call(call);
}

static void open_call(struct rs_calls *calls, struct rs_call *call)
{
    (void)pthread_mutex_lock(&calls->lock);
    const bool is_late = calls->is_stopping || call->is_left; /* nobody would see what came of it */
    (void)pthread_mutex_unlock(&calls->lock);
    if (is_late) {
        refuse(call, RS_UNREACHABLE, "the aggregator stops");
        return;
    }
    struct rs_frame *frame = rs_frame_of(call->ask.data, call->ask.length);
    rs_buf_fini(&call->ask);
    if (!frame) {
        refuse(call, RS_NOMEM, "out of memory");
        return;
    }
    if (!calls->accept(calls->accept_self, &call->link, RS_WIRE_METHOD_ASK)) {
        rs_frame_free(&frame);
        refuse(call, RS_UNREACHABLE, "the aggregator takes no more questions now");
        return;
    }
    (void)pthread_mutex_lock(&calls->lock);
    call->state = CALL_OPEN;
    (void)pthread_mutex_unlock(&calls->lock);
    call->next = calls->open;
    calls->open = call;
    (void)call->link.user->on_message(call->link.self, &call->link, frame);
}

/* What happened to one that is open. False: it is over, and no longer the server's. */
static bool turn_call(struct rs_calls *calls, struct rs_call *call)
{
    (void)pthread_mutex_lock(&calls->lock);
    const bool is_over = call->state == CALL_CLOSED || call->is_left || calls->is_stopping;
    const bool is_taken = call->is_taken;
    call->is_taken = false;
    (void)pthread_mutex_unlock(&calls->lock);
    if (!is_over) {
        if (is_taken)
            call->link.user->on_writable(call->link.self, &call->link);
        return true;
    }
    call->link.user->on_closed(call->link.self, &call->link, RS_OK, "");
    (void)pthread_mutex_lock(&calls->lock);
    const bool was_closed = call->state == CALL_CLOSED;
    call->state = CALL_DONE;
    if (!was_closed)
        call->status = RS_UNREACHABLE;
    (void)pthread_cond_signal(&call->changed);
    const bool is_left = call->is_left;
    (void)pthread_mutex_unlock(&calls->lock);
    if (is_left)
        free_call(call);
    return false;
}

void rs_calls_turn(struct rs_calls *calls)
{
    if (!atomic_exchange(&calls->has_news, false))
        return;
    (void)pthread_mutex_lock(&calls->lock);
    struct rs_call *asked = calls->asked;
    calls->asked = NULL;
    (void)pthread_mutex_unlock(&calls->lock);
    while (asked) {
        struct rs_call *next = asked->next;
        open_call(calls, asked);
        asked = next;
    }
    for (struct rs_call **at = &calls->open; *at;) {
        struct rs_call *call = *at;
        struct rs_call *next = call->next;
        if (turn_call(calls, call))
            at = &call->next;
        else
            *at = next;
    }
}

/* ---- the asker's end ----------------------------------------------------------------------------------------------- */

enum rs_status rs_call_begin(struct rs_calls *calls, const struct rs_identity *who,
                             const char *from, Rankscope__Ask *ask, struct rs_call **call_p,
                             struct rs_err *err)
{
    pthread_condattr_t monotonic;
    Rankscope__Version version;
    struct rs_call *call = rs_mem_calloc(1, sizeof *call);
    if (!call)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    *call = (struct rs_call){.link = {.ops = &call_ops, .identity = *who}, .calls = calls};
    (void)snprintf(call->from, sizeof call->from, "http:%.70s", from);
    call->link.peer = call->from;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&call->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    atomic_fetch_add(&calls->count, 1);
    rs_wire_own_version(&version);
    ask->version = &version;
    rs_wire_pack(&ask->base, &call->ask);
    ask->version = NULL;
    if (call->ask.failed) {
        free_call(call);
        return rs_err_set(err, RS_NOMEM, "out of memory");
    }
    (void)pthread_mutex_lock(&calls->lock);
    const bool is_stopping = calls->is_stopping;
    if (!is_stopping) {
        call->next = calls->asked;
        calls->asked = call;
    }
    (void)pthread_mutex_unlock(&calls->lock);
    if (is_stopping) {
        free_call(call);
        return rs_err_set(err, RS_UNREACHABLE, "the aggregator stops");
    }
    *call_p = call;
    tell_server(calls);
    return RS_OK;
}

/* With the lock, which is let go while it waits. */
static enum rs_status wait_for_reply(struct rs_call *call, rs_ns until)
{
    const struct timespec deadline = {.tv_sec = (time_t)(until / RS_NS_PER_S),
                                      .tv_nsec = (long)(until % RS_NS_PER_S)};
    for (;;) {
        if (call->calls->is_stopping)
            return RS_UNREACHABLE;
        if (call->has_reply)
            return RS_OK;
        if (call->state == CALL_CLOSED || call->state == CALL_DONE)
            return call->status == RS_OK ? RS_END : call->status;
        if (pthread_cond_timedwait(&call->changed, &call->calls->lock, &deadline) != 0 &&
            !call->has_reply && call->state < CALL_CLOSED && !call->calls->is_stopping)
            return RS_AGAIN;
    }
}

enum rs_status rs_call_next(struct rs_call *call, rs_ns until, Rankscope__Reply **reply_p,
                            struct rs_err *err)
{
    struct rs_calls *calls = call->calls;
    struct rs_buf packed = {0};
    *reply_p = NULL;
    (void)pthread_mutex_lock(&calls->lock);
    const enum rs_status status = wait_for_reply(call, until);
    if (status == RS_OK) {
        packed = call->reply;
        call->reply = (struct rs_buf){0};
        call->has_reply = false;
        call->is_taken = true;
    }
    if (status < 0)
        (void)rs_err_set(err, status, "%s", *call->reason ? call->reason : "the aggregator stops");
    (void)pthread_mutex_unlock(&calls->lock);
    if (status != RS_OK)
        return status;
    tell_server(calls);
    Rankscope__Reply *reply =
        packed.failed ? NULL : rankscope__reply__unpack(NULL, packed.length, packed.data);
    rs_buf_fini(&packed);
    if (!reply)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_REFUSAL) {
        const enum rs_status why =
            reply->refusal->status < 0 ? (enum rs_status)reply->refusal->status : RS_REFUSED;
        (void)rs_err_set(err, why, "%s", reply->refusal->text);
        rankscope__reply__free_unpacked(reply, NULL);
        return why;
    }
    *reply_p = reply;
    return RS_OK;
}

void rs_call_end(struct rs_call **call_p)
{
    struct rs_call *call = *call_p;
    *call_p = NULL;
    if (!call)
        return;
    struct rs_calls *calls = call->calls;
    (void)pthread_mutex_lock(&calls->lock);
    call->is_left = true;
    const bool is_done = call->state == CALL_DONE;
    (void)pthread_mutex_unlock(&calls->lock);
    if (is_done)
        free_call(call);
    else
        tell_server(calls);
}

/* ---- life ----------------------------------------------------------------------------------------------------------- */

enum rs_status rs_calls_new(struct rs_loop *loop, rs_accept_fn *accept, void *accept_self,
                            struct rs_calls **calls_p, struct rs_err *err)
{
    struct rs_calls *calls = rs_mem_calloc(1, sizeof *calls);
    if (!calls)
        return rs_err_set(err, RS_NOMEM, "no memory for questions over HTTP");
    calls->loop = loop;
    calls->accept = accept;
    calls->accept_self = accept_self;
    (void)pthread_mutex_init(&calls->lock, NULL);
    *calls_p = calls;
    return RS_OK;
}

void rs_calls_stop(struct rs_calls *calls)
{
    (void)pthread_mutex_lock(&calls->lock);
    calls->is_stopping = true;
    for (struct rs_call *call = calls->asked; call; call = call->next)
        (void)pthread_cond_signal(&call->changed);
    for (struct rs_call *call = calls->open; call; call = call->next)
        (void)pthread_cond_signal(&call->changed);
    (void)pthread_mutex_unlock(&calls->lock);
    tell_server(calls);
}

void rs_calls_free(struct rs_calls **calls_p)
{
    struct rs_calls *calls = *calls_p;
    *calls_p = NULL;
    if (!calls)
        return;
    RS_CHECK(atomic_load(&calls->count) == 0);
    (void)pthread_mutex_destroy(&calls->lock);
    rs_mem_free(calls);
}
