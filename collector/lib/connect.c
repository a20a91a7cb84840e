/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the collector: at most one attempt a second, at step boundaries, never blocking.
 *
 * Over a SOCK_SEQPACKET connection go a HELLO with the control file and one ATTACH per ring.
 * Nothing comes back: the collector answers by writing into the control file, and a closed connection
 * means that it went away or does not want us. After a reconnect everything is handed over
 * again, and the new collector goes on where the rings' tails stand.
 */
#include "collector/lib/client_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *setting(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): as libc's own users do */
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The runtime directories in order of preference; the first that holds a collector.sock wins, so that a
 * job started by a user finds a collector of the system, and the reverse. */
static int runtime_path(unsigned choice, char *path, size_t capacity)
{
    const char *directory = setting("RANKSCOPE_RUNTIME_DIR");
    if (directory != NULL)
        return choice == 0 ? snprintf(path, capacity, "%s/collector.sock", directory) : -1;
    switch (choice) {
    case 0:
        return snprintf(path, capacity, "/run/rankscope/collector.sock");
    case 1:
        directory = setting("XDG_RUNTIME_DIR");
        if (directory == NULL)
            return 0;
        return snprintf(path, capacity, "%s/rankscope/collector.sock", directory);
    case 2:
        return snprintf(path, capacity, "/tmp/rankscope-%u/collector.sock", (unsigned)getuid());
    default:
        return -1;
    }
}

int rankscope_priv_address(const char *path, struct sockaddr_un *address_p)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t capacity = sizeof address.sun_path;
    if (path != NULL) {
        if (strlen(path) >= capacity)
            return -ENAMETOOLONG;
        memcpy(address.sun_path, path, strlen(path));
        *address_p = address;
        return 0;
    }
    bool is_found = false;
    for (unsigned choice = 0; !is_found; choice++) {
        struct sockaddr_un candidate = {.sun_family = AF_UNIX};
        int length = runtime_path(choice, candidate.sun_path, capacity);
        if (length < 0)
            break;
        if (length == 0 || (size_t)length >= capacity)
            continue;
        is_found = access(candidate.sun_path, F_OK) == 0;
        if (is_found || address.sun_path[0] == '\0')
            address = candidate;
    }
    if (address.sun_path[0] == '\0')
        return -ENAMETOOLONG;
    *address_p = address;
    return 0;
}

static bool send_message(int socket_fd, const void *message, size_t bytes, int fd)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {.iov_len = bytes};
    memcpy(&part.iov_base, &message, sizeof message); /* sendmsg only reads it */
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&header);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    return sendmsg(socket_fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

bool rankscope_priv_send_ring(struct rankscope_priv_slot *slot)
{
    if (rankscope_priv_client.socket_fd < 0)
        return false;
    const struct rs_attach attach = {.magic = RS_ATTACH_MAGIC,
                                     .version = RS_LAYOUT_VERSION,
                                     .message_bytes = sizeof attach,
                                     .number = slot->number,
                                     .ring_bytes = slot->bytes};
    return send_message(rankscope_priv_client.socket_fd, &attach, sizeof attach, slot->fd);
}

static bool introduce(struct rankscope_priv_client *client)
{
    rankscope_priv_anchor(&client->hello.anchor_ticks, &client->hello.anchor_realtime_ns);
    if (!send_message(client->socket_fd, &client->hello, sizeof client->hello, client->control_fd))
        return false;
    for (size_t i = 0; i < RS_LIB_MAX_RINGS; i++) {
        struct rankscope_priv_slot *slot = &client->slots[i];
        if (slot->ring == NULL)
            continue;
        if (!rankscope_priv_send_ring(slot))
            return false;
        slot->is_sent = true;
    }
    return true;
}

/* Anyone may make a folder in /tmp under our name: there, the collector must be ours or root's. */
static bool is_trusted(int fd, const struct sockaddr_un *address)
{
    struct ucred peer = {.uid = 0};
    socklen_t length = sizeof peer;
    if (strncmp(address->sun_path, "/tmp/rankscope-", 15) != 0)
        return true;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           (peer.uid == 0 || peer.uid == getuid());
}

void rankscope_priv_connect(void)
{
    struct rankscope_priv_client *client = &rankscope_priv_client;
    if (!client->has_fixed_address) /* a collector may have come up elsewhere since */
        (void)rankscope_priv_address(NULL, &client->address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)&client->address, sizeof client->address) != 0 ||
        !is_trusted(fd, &client->address)) {
        close(fd);
        return;
    }
    rankscope_priv_lock(); /* a thread that makes a ring sends it itself */
    client->socket_fd = fd;
    bool is_done = introduce(client);
    if (!is_done)
        client->socket_fd = -1;
    rankscope_priv_unlock();
    if (!is_done)
        close(fd);
}

void rankscope_priv_disconnect(void)
{
    struct rankscope_priv_client *client = &rankscope_priv_client;
    rankscope_priv_lock();
    int fd = client->socket_fd;
    client->socket_fd = -1;
    rankscope_priv_unlock();
    if (fd >= 0)
        close(fd);
}

/* Rings that could not be sent when they were made (the connection's buffer was full) are tried again. */
static bool send_rest(struct rankscope_priv_client *client)
{
    bool is_alive = true;
    rankscope_priv_lock();
    for (size_t i = 0; i < RS_LIB_MAX_RINGS && is_alive; i++) {
        struct rankscope_priv_slot *slot = &client->slots[i];
        if (slot->ring == NULL || slot->is_sent)
            continue;
        slot->is_sent = rankscope_priv_send_ring(slot);
        is_alive = slot->is_sent || errno == EAGAIN;
    }
    rankscope_priv_unlock();
    return is_alive;
}

void rankscope_priv_check_connection(void)
{
    struct pollfd poll_fd = {.fd = rankscope_priv_client.socket_fd, .events = POLLIN};
    if (poll(&poll_fd, 1, 0) > 0 || !send_rest(&rankscope_priv_client))
        rankscope_priv_disconnect(); /* nothing is ever sent to us: readable means gone */
}
