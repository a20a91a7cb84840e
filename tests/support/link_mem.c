/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/link_mem.h"

#include "common/base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A frame of our own: this library links common/base only. */
struct mem_frame {
    struct rs_frame base;
    struct iovec part;
    uint8_t bytes[];
};

struct mem_link {
    struct rs_link base;
    struct mem_link *next;
    struct mem_link *other; /* NULL: that end is gone */
    struct link_mem_loop *loop;
    struct rs_frame *under_way; /* what this end sent and the other has not taken */
    bool is_receiving, is_closing, is_cut, is_reported;
    bool is_taken; /* the message was taken: tell on_writable */
};

struct link_mem_loop {
    struct rs_loop base;
    struct mem_link *links;
    pthread_mutex_t lock;
    pthread_cond_t has_wake;
    bool is_awake;
};

static void release_frame(struct rs_frame *frame)
{
    rs_mem_free(frame);
}

static enum rs_status mem_send(struct rs_link *base, struct rs_view head, struct rs_view payload)
{
    struct mem_link *link = (struct mem_link *)base;
    if (link->is_closing || link->is_cut)
        return RS_UNREACHABLE;
    if (link->under_way || link->is_taken)
        return RS_AGAIN;
    struct mem_frame *frame = rs_mem_calloc(1, sizeof *frame + head.length + payload.length);
    if (!frame)
        return RS_UNREACHABLE;
    if (head.length)
        memcpy(frame->bytes, head.data, head.length);
    if (payload.length)
        memcpy(frame->bytes + head.length, payload.data, payload.length);
    frame->part = (struct iovec){.iov_base = frame->bytes, .iov_len = head.length + payload.length};
    frame->base = (struct rs_frame){.parts = &frame->part,
                                    .part_count = 1,
                                    .length = frame->part.iov_len,
                                    .release = release_frame};
    link->under_way = &frame->base;
    return RS_OK;
}

static void mem_resume(struct rs_link *base)
{
    ((struct mem_link *)base)->is_receiving = true;
}

static void mem_close(struct rs_link *base, enum rs_status status, const char *reason)
{
    (void)status;
    (void)reason;
    ((struct mem_link *)base)->is_closing = true;
}

static void mem_abort(struct rs_link *base)
{
    struct mem_link *link = (struct mem_link *)base;
    link->is_cut = true;
    if (link->other)
        link->other->is_cut = true;
}

static const struct rs_link_ops mem_ops = {
    .send = mem_send, .resume = mem_resume, .close = mem_close, .abort = mem_abort};

static bool deliver(struct mem_link *link)
{
    struct mem_link *other = link->other;
    if (link->is_taken && !link->is_closing && !link->is_cut) {
        link->is_taken = false;
        link->base.user->on_writable(link->base.self, &link->base);
        return true;
    }
    if (!link->under_way || !other || link->is_cut || !other->is_receiving)
        return false;
    struct rs_frame *frame = link->under_way;
    link->under_way = NULL;
    link->is_taken = true;
    if (other->is_closing) {
        frame->release(frame);
        return true;
    }
    other->is_receiving = false;
    if (other->base.user->on_message(other->base.self, &other->base, frame))
        other->is_receiving = true;
    return true;
}

/* An end is over when it was cut, or when both said they are through and nothing is under way. */
static bool finish(struct link_mem_loop *loop, struct mem_link *link)
{
    struct mem_link *other = link->other;
    if (!link->is_cut && !link->is_closing && other && other->is_closing && !other->under_way)
        link->is_closing = true; /* the other half closed: answer in kind */
    const bool is_through = link->is_closing &&
                            (!other || other->is_closing || other->is_reported) &&
                            !(other && other->under_way && !other->is_cut && !other->is_closing);
    if (!link->is_cut && !is_through)
        return false;
    struct mem_link **at = &loop->links;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    if (other)
        other->other = NULL;
    if (link->under_way)
        link->under_way->release(link->under_way);
    link->base.user->on_closed(link->base.self, &link->base, link->is_cut ? RS_UNREACHABLE : RS_OK,
                               link->is_cut ? "cut" : "");
    rs_mem_free(link);
    return true;
}

static bool run_once(struct link_mem_loop *loop)
{
    bool did = false;
    for (struct mem_link *link = loop->links; link; link = link->next)
        did = deliver(link) || did;
    for (struct mem_link *link = loop->links; link;) {
        struct mem_link *next = link->next;
        if (finish(loop, link))
            return true; /* the list changed: begin again */
        link = next;
    }
    return did;
}

static enum rs_status mem_run(struct rs_loop *base, rs_ns until)
{
    struct link_mem_loop *loop = (struct link_mem_loop *)base;
    (void)until;
    if (run_once(loop))
        return RS_OK;
    struct timespec deadline;
    (void)clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_nsec += 2000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_nsec -= 1000000000;
        deadline.tv_sec++;
    }
    (void)pthread_mutex_lock(&loop->lock);
    if (!loop->is_awake)
        (void)pthread_cond_timedwait(&loop->has_wake, &loop->lock, &deadline);
    const bool was_awake = loop->is_awake;
    loop->is_awake = false;
    (void)pthread_mutex_unlock(&loop->lock);
    return was_awake ? RS_OK : RS_AGAIN;
}

static void mem_wake(struct rs_loop *base)
{
    struct link_mem_loop *loop = (struct link_mem_loop *)base;
    (void)pthread_mutex_lock(&loop->lock);
    loop->is_awake = true;
    (void)pthread_cond_signal(&loop->has_wake);
    (void)pthread_mutex_unlock(&loop->lock);
}

static const struct rs_loop_ops loop_ops = {.run = mem_run, .wake = mem_wake};

struct rs_loop *link_mem_loop_new(void)
{
    struct link_mem_loop *loop = rs_mem_calloc(1, sizeof *loop);
    if (!loop)
        abort();
    loop->base.ops = &loop_ops;
    (void)pthread_mutex_init(&loop->lock, NULL);
    (void)pthread_cond_init(&loop->has_wake, NULL);
    return &loop->base;
}

void link_mem_loop_free(struct rs_loop **loop_p)
{
    struct link_mem_loop *loop = (struct link_mem_loop *)*loop_p;
    *loop_p = NULL;
    (void)pthread_mutex_destroy(&loop->lock);
    (void)pthread_cond_destroy(&loop->has_wake);
    rs_mem_free(loop);
}

struct rs_link *link_mem_connect(
    struct rs_loop *base, const struct rs_link_user *user, void *self, const char *method,
    bool (*accept)(void *accept_self, struct rs_link *link, const char *method), void *accept_self)
{
    const struct rs_identity who = {.party = RS_PARTY_LOCAL};
    return link_mem_connect_as(&who, base, user, self, method, accept, accept_self);
}

struct rs_link *link_mem_connect_as(const struct rs_identity *who, struct rs_loop *base,
                                    const struct rs_link_user *user, void *self, const char *method,
                                    bool (*accept)(void *accept_self, struct rs_link *link,
                                                   const char *method),
                                    void *accept_self)
{
    struct link_mem_loop *loop = (struct link_mem_loop *)base;
    struct mem_link *client = rs_mem_calloc(1, sizeof *client);
    struct mem_link *server = rs_mem_calloc(1, sizeof *server);
    if (!client || !server)
        abort();
    *client = (struct mem_link){.base = {.ops = &mem_ops,
                                         .user = user,
                                         .self = self,
                                         .peer = "mem",
                                         .identity.party = RS_PARTY_LOCAL},
                                .other = server,
                                .loop = loop,
                                .is_receiving = true};
    *server = (struct mem_link){.base = {.ops = &mem_ops, .peer = "mem", .identity = *who},
                                .other = client,
                                .loop = loop,
                                .is_receiving = true};
    if (!accept(accept_self, &server->base, method)) {
        rs_mem_free(server);
        client->other = NULL;
        client->is_cut = true;
    } else {
        server->next = loop->links;
        loop->links = server;
    }
    client->next = loop->links;
    loop->links = client;
    return &client->base;
}

void link_mem_cut_all(struct rs_loop *base)
{
    for (struct mem_link *link = ((struct link_mem_loop *)base)->links; link; link = link->next)
        link->is_cut = true;
}
