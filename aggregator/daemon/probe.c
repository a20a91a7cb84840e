/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/daemon/probe.h"

#include "common/base/counters.h"
#include "common/base/mem.h"
#include "common/base/thread.h"

#define RS_LOG_TAG "probe"
#include "common/base/log.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* TURNS_MIN: the loop turns once a second at least; fewer in the time of a knock, and it stood still. */
enum { EVERY_MS = 10000, PATIENCE_MS = 5000, SILENT_MAX = 2, TURNS_MIN = 2 };

struct rs_probe {
    struct rs_address address;
    pthread_t thread;
    int stop_fd;       /* readable: it is to stop */
    atomic_uint turns; /* of the loop */
    atomic_bool is_silent;
};

static int connect_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if ((size_t)snprintf(to.sun_path, sizeof to.sun_path, "%s", path) >= sizeof to.sun_path)
        return -1;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int connect_tcp(const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, port, &hints, &found) != 0)
        return -1;
    int fd = -1;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS) {
            (void)close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static int knock(const struct rs_address *address)
{
    char host[sizeof address->text];
    if (address->is_unix)
        return connect_unix(address->path);
    (void)snprintf(host, sizeof host, "%s", address->text);
    char *colon = strrchr(host, ':');
    if (!colon)
        return -1;
    *colon = '\0';
    char *name = host;
    if (*name == '[') { /* [::1]:7070 */
        name++;
        name[strcspn(name, "]")] = '\0';
    }
    return connect_tcp(name, colon + 1);
}

enum answer { ANSWER_GREETED, ANSWER_NONE, ANSWER_STOPPED };

/* Connects and waits for the greeting. A refused connection is no answer at once. Behind TLS the other side speaks first: a
 * connection that we end at once is ended by a listener that lives, too, and that is the answer. */
static enum answer ask(const struct rs_probe *probe)
{
    const int fd = knock(&probe->address);
    const bool is_tls =
        probe->address.guard == RS_ADDRESS_MUTUAL || probe->address.guard == RS_ADDRESS_JOIN;
    if (fd >= 0 && is_tls) {
        struct pollfd connected = {.fd = fd, .events = POLLOUT};
        (void)poll(&connected, 1, PATIENCE_MS);
        (void)shutdown(fd, SHUT_WR);
    }
    struct pollfd ready[] = {{.fd = probe->stop_fd, .events = POLLIN},
                             {.fd = fd, .events = POLLIN}};
    char greeting;
    enum answer answer = ANSWER_NONE;
    if (poll(ready, 2, PATIENCE_MS) > 0 && ready[0].revents)
        answer = ANSWER_STOPPED;
    else if (fd >= 0 && recv(fd, &greeting, 1, MSG_DONTWAIT) >= (is_tls ? 0 : 1))
        answer = ANSWER_GREETED;
    if (fd >= 0)
        (void)close(fd);
    return answer;
}

static void *watch(void *self)
{
    rs_thread_is(RS_THREAD_PROBE);
    struct rs_probe *probe = self;
    struct pollfd stop = {.fd = probe->stop_fd, .events = POLLIN};
    int silent_count = 0;
    while (poll(&stop, 1, EVERY_MS) <= 0) {
        const unsigned turns = atomic_load(&probe->turns);
        const enum answer answer = ask(probe);
        if (answer == ANSWER_STOPPED)
            break;
        rs_count(RS_COUNT_PROBE_KNOCKS, 1);
        rs_count(RS_COUNT_PROBE_SILENT, answer != ANSWER_GREETED);
        if (answer == ANSWER_GREETED)
            silent_count = 0;
        else if (atomic_load(&probe->turns) - turns < TURNS_MIN)
            /* The loop itself greets: when it was held up, silence says nothing about the listener. */
            rs_log_warn(
                "the loop was held up for some seconds: our own address is looked at again");
        else if (++silent_count >= SILENT_MAX)
            atomic_store(&probe->is_silent, true);
    }
    return NULL;
}

enum rs_status rs_probe_start(const struct rs_address *address, struct rs_probe **probe_p,
                              struct rs_err *err)
{
    struct rs_probe *probe = rs_mem_calloc(1, sizeof *probe);
    if (!probe)
        return rs_err_set(err, RS_NOMEM, "no memory for a thread");
    probe->address = *address;
    probe->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (probe->stop_fd < 0 || pthread_create(&probe->thread, NULL, watch, probe) != 0) {
        if (probe->stop_fd >= 0)
            (void)close(probe->stop_fd);
        rs_mem_free(probe);
        return rs_err_set(err, RS_IO, "cannot start the thread that looks at our own address");
    }
    (void)pthread_setname_np(probe->thread, "rs-probe");
    *probe_p = probe;
    return RS_OK;
}

void rs_probe_stop(struct rs_probe **probe_p)
{
    struct rs_probe *probe = *probe_p;
    const uint64_t one = 1;
    if (!probe)
        return;
    *probe_p = NULL;
    (void)!write(probe->stop_fd, &one, sizeof one);
    (void)pthread_join(probe->thread, NULL);
    (void)close(probe->stop_fd);
    rs_mem_free(probe);
}

enum rs_status rs_probe_turn(struct rs_probe *probe, struct rs_err *err)
{
    (void)atomic_fetch_add(&probe->turns, 1);
    if (!atomic_load(&probe->is_silent))
        return RS_OK;
    return rs_err_set(
        err, RS_UNREACHABLE,
        "nobody answers on our own address %s any more (a listener that ran out of "
        "file descriptors stays unresponsive); start the aggregator again, with a higher "
        "limit of open files",
        probe->address.text);
}
