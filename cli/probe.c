/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/probe.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { EVERY_S = 10, PATIENCE_S = 5, SILENT_MAX = 2 };

void rs_probe_init(struct rs_probe *probe, const struct rs_address *address, rs_ns now)
{
    *probe = (struct rs_probe){
        .address = *address, .fd = -1, .next = now + EVERY_S * (rs_dur)RS_NS_PER_S};
}

void rs_probe_fini(struct rs_probe *probe)
{
    if (probe->fd >= 0)
        (void)close(probe->fd);
    probe->fd = -1;
}

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

/* Only loopback addresses are served without TLS, so looking the name up asks no network. */
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

static enum rs_status judge(struct rs_probe *probe, bool answered, rs_ns now, struct rs_err *err)
{
    rs_probe_fini(probe);
    probe->next = now + EVERY_S * (rs_dur)RS_NS_PER_S;
    probe->silent_count = answered ? 0 : probe->silent_count + 1;
    if (probe->silent_count < SILENT_MAX)
        return RS_OK;
    return rs_err_set(err, RS_UNREACHABLE,
                      "nobody answers on our own address %s any more (a listener that ran out of "
                      "file descriptors stays deaf); start the aggregator again, with a higher "
                      "limit of open files",
                      probe->address.text);
}

enum rs_status rs_probe_step(struct rs_probe *probe, rs_ns now, struct rs_err *err)
{
    if (probe->fd < 0) {
        if (now < probe->next)
            return RS_OK;
        probe->fd = knock(&probe->address);
        if (probe->fd < 0)
            return judge(probe, false, now, err);
        probe->deadline = now + PATIENCE_S * (rs_dur)RS_NS_PER_S;
        return RS_OK;
    }
    struct pollfd ready = {.fd = probe->fd, .events = POLLIN};
    char greeting;
    if (poll(&ready, 1, 0) == 1)
        return judge(probe, recv(probe->fd, &greeting, 1, MSG_DONTWAIT) == 1, now, err);
    return now < probe->deadline ? RS_OK : judge(probe, false, now, err);
}
