/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/demo/pipe.h"

#include "collector/lib/rankscope.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 16 * 1024, NS_PER_S = 1000000000 };

void pipe_fail(const char *what)
{
    fprintf(stderr, "minitrain: %s: %s\n", what,
            strerror(errno)); /* NOLINT(concurrency-mt-unsafe) */
    exit(1);                  /* NOLINT(concurrency-mt-unsafe) */
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* ---- connections ---- */

struct greeting {
    int32_t rank;
    int32_t use; /* enum pipe_use */
};

static double limit_of(const struct options *options, int src, int dst)
{
    for (int i = 0; i < options->slow_link_count; i++)
        if (options->slow_links[i].src == src && options->slow_links[i].dst == dst)
            return options->slow_links[i].mb_per_s * 1e6 / NS_PER_S;
    return 0.0;
}

static void no_delay(int fd)
{
    int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        pipe_fail("TCP_NODELAY");
}

static int call(uint16_t port, int rank, enum pipe_use use)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct greeting greeting = {.rank = rank, .use = (int32_t)use};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        pipe_fail("connect");
    if (send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) != (ssize_t)sizeof greeting)
        pipe_fail("greeting");
    no_delay(fd);
    return fd;
}

static int answer(int listener, struct greeting *greeting)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        pipe_fail("accept");
    if (recv(fd, greeting, sizeof *greeting, MSG_WAITALL) != (ssize_t)sizeof *greeting)
        pipe_fail("greeting");
    no_delay(fd);
    return fd;
}

void pipes_open(struct pipes *pipes, const struct options *o, const struct place *place,
                int listener, const uint16_t *ports)
{
    const struct pipe_end none = {.fd = -1, .peer = -1};
    *pipes = (struct pipes){none, none, none, none};
    int expected = 0;
    if (o->dp > 1) {
        pipes->ring_next.peer = place->pp * o->dp + (place->dp + 1) % o->dp;
        pipes->ring_next.fd = call(ports[pipes->ring_next.peer], place->rank, PIPE_RING);
        pipes->ring_next.bytes_per_ns = limit_of(o, place->rank, pipes->ring_next.peer);
        expected++;
    }
    if (place->pp + 1 < o->pp) {
        pipes->stage_next.peer = place->rank + o->dp;
        pipes->stage_next.fd = call(ports[pipes->stage_next.peer], place->rank, PIPE_STAGES);
        pipes->stage_next.bytes_per_ns = limit_of(o, place->rank, pipes->stage_next.peer);
    }
    expected += place->pp > 0 ? 1 : 0;
    for (int i = 0; i < expected; i++) {
        struct greeting greeting;
        int fd = answer(listener, &greeting);
        struct pipe_end *end = greeting.use == PIPE_RING ? &pipes->ring_prev : &pipes->stage_prev;
        *end = (struct pipe_end){.fd = fd,
                                 .peer = greeting.rank,
                                 .bytes_per_ns = limit_of(o, place->rank, greeting.rank)};
    }
}

void pipes_close(struct pipes *pipes)
{
    struct pipe_end *ends[] = {&pipes->ring_next, &pipes->ring_prev, &pipes->stage_next,
                               &pipes->stage_prev};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends[i]->fd >= 0)
            close(ends[i]->fd);
}

/* ---- bytes ---- */

/* One side of a transfer under way. */
struct flow {
    struct pipe_end *end;
    char *data; /* of a sender: only read */
    size_t bytes;
    size_t done;
    int64_t start_ns;
};

/* How long a limited sender must still be silent before its next piece. */
static int64_t silence_ns(const struct flow *flow)
{
    if (flow->end->bytes_per_ns <= 0.0)
        return 0;
    size_t next = flow->done + PIECE < flow->bytes ? flow->done + PIECE : flow->bytes;
    int64_t due = flow->start_ns + (int64_t)((double)next / flow->end->bytes_per_ns);
    int64_t left = due - now_ns();
    return left > 0 ? left : 0;
}

static bool push(struct flow *flow)
{
    if (flow->done == flow->bytes || silence_ns(flow) > 0)
        return false;
    size_t piece = flow->bytes - flow->done;
    if (flow->end->bytes_per_ns > 0.0 && piece > PIECE)
        piece = PIECE;
    ssize_t sent = send(flow->end->fd, flow->data + flow->done, piece, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        pipe_fail("send");
    if (sent > 0)
        flow->done += (size_t)sent;
    return sent > 0;
}

static bool pull(struct flow *flow)
{
    if (flow->done == flow->bytes)
        return false;
    ssize_t got =
        recv(flow->end->fd, flow->data + flow->done, flow->bytes - flow->done, MSG_DONTWAIT);
    if (got == 0) {
        errno = ECONNRESET;
        pipe_fail("a neighbour is gone");
    }
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        pipe_fail("receive");
    if (got > 0)
        flow->done += (size_t)got;
    return got > 0;
}

/* Sleeps until one of the two can go on. */
static void rest(const struct flow *out, const struct flow *in)
{
    struct pollfd fds[2];
    nfds_t count = 0;
    int64_t silence = -1;
    if (out->done < out->bytes) {
        silence = silence_ns(out);
        if (silence == 0)
            fds[count++] = (struct pollfd){.fd = out->end->fd, .events = POLLOUT};
    }
    if (in->done < in->bytes)
        fds[count++] = (struct pollfd){.fd = in->end->fd, .events = POLLIN};
    struct timespec limit = {.tv_sec = silence / NS_PER_S, .tv_nsec = silence % NS_PER_S};
    if (ppoll(fds, count, silence > 0 ? &limit : NULL, NULL) < 0 && errno != EINTR)
        pipe_fail("poll");
}

static void transfer(struct flow *out, struct flow *in, int out_task, int in_task)
{
    out->start_ns = now_ns();
    while (out->done < out->bytes || in->done < in->bytes) {
        bool has_moved = push(out);
        if (has_moved && out->done == out->bytes)
            rankscope_task_end(out_task);
        bool has_pulled = pull(in);
        if (has_pulled && in->done == in->bytes)
            rankscope_task_end(in_task);
        if (!has_moved && !has_pulled)
            rest(out, in);
    }
}

static char *writable(const void *data)
{
    char *bytes = NULL;
    memcpy(&bytes, &data, sizeof bytes); /* send() only reads it */
    return bytes;
}

void pipe_send(struct pipe_end *end, const void *data, size_t bytes)
{
    struct flow out = {.end = end, .data = writable(data), .bytes = bytes};
    struct flow in = {.end = end};
    transfer(&out, &in, -1, -1);
}

void pipe_receive(struct pipe_end *end, void *data, size_t bytes)
{
    struct flow out = {.end = end};
    struct flow in = {.end = end, .data = data, .bytes = bytes};
    transfer(&out, &in, -1, -1);
}

void pipe_hop(struct pipe_end *to, struct pipe_end *from, const struct hop *hop)
{
    struct flow out = {.end = to, .data = writable(hop->out), .bytes = hop->out_bytes};
    struct flow in = {.end = from, .data = hop->in, .bytes = hop->in_bytes};
    const struct rankscope_task sending = {
        .bytes = hop->out_bytes, .peer = to->peer, .is_send = 1, .transport = RANKSCOPE_TCP};
    const struct rankscope_task receiving = {
        .bytes = hop->in_bytes, .peer = from->peer, .transport = RANKSCOPE_TCP};
    int out_task = rankscope_task_begin(&sending);
    int in_task = rankscope_task_begin(&receiving);
    transfer(&out, &in, out_task, in_task);
}
