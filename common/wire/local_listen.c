/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/local_listen.h"

#include "common/base/counters.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "link"
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { NUMBERS_TRIED_MAX = 4096, PAUSE_MS = 100 };

static const rs_dur rest_ns =
    60 * (rs_dur)RS_NS_PER_S; /* of a number, before somebody else gets it */

/* A descriptor that was handed to gRPC. */
struct local_peer {
    struct rs_identity identity;
    pid_t pid;
    ino_t inode;   /* of its socket: another one, or none, and the connection is over */
    rs_ns over_at; /* when that was seen; 0: it was not yet */
};

struct local_listen {
    struct local_listen_options options;
    char path[108];
    int listen_fd, stop_fd;
    pthread_t thread;
    bool is_running;
    bool has_warned;
    pthread_mutex_t lock;      /* guards the table */
    struct local_peer **peers; /* by descriptor; NULL: never used */
    size_t count;
};

/* ---- the table ---------------------------------------------------------------------------------------------------- */

static bool is_over(struct local_peer *peer, int fd, rs_ns now)
{
    struct stat info;
    if (!peer->over_at &&
        (fstat(fd, &info) < 0 || !S_ISSOCK(info.st_mode) || info.st_ino != peer->inode))
        peer->over_at = now;
    return peer->over_at != 0;
}

static bool is_same_user(const struct rs_identity *a, const struct rs_identity *b)
{
    return a->uid == b->uid && a->party == b->party;
}

/* Whether the number can stand for that user: nobody else had it in the last minute. Under the lock. */
static bool may_have(struct local_listen *door, int fd, const struct rs_identity *who, rs_ns now)
{
    struct local_peer *peer = (size_t)fd < door->count ? door->peers[fd] : NULL;
    if (!peer || is_same_user(&peer->identity, who))
        return true;
    /* The descriptor is ours now, so whoever had it is gone; since when is not known. */
    if (!peer->over_at)
        peer->over_at = now;
    return now - peer->over_at > rest_ns;
}

static size_t count_of(struct local_listen *door, const struct rs_identity *who, rs_ns now)
{
    size_t count = 0;
    for (size_t fd = 0; fd < door->count; fd++)
        count += door->peers[fd] && is_same_user(&door->peers[fd]->identity, who) &&
                 !is_over(door->peers[fd], (int)fd, now);
    return count;
}

static bool make_room(struct local_listen *door, size_t fd)
{
    if (fd < door->count)
        return true;
    const size_t wanted = fd + 64;
    struct local_peer **peers = rs_mem_realloc(door->peers, wanted, sizeof(struct local_peer *));
    if (!peers)
        return false;
    for (size_t i = door->count; i < wanted; i++)
        peers[i] = NULL;
    door->peers = peers;
    door->count = wanted;
    return true;
}

static bool put(struct local_listen *door, int fd, const struct rs_identity *who, pid_t pid)
{
    struct stat info;
    if (fstat(fd, &info) < 0 || !make_room(door, (size_t)fd))
        return false;
    if (!door->peers[fd])
        door->peers[fd] = rs_mem_calloc(1, sizeof **door->peers);
    if (!door->peers[fd])
        return false;
    *door->peers[fd] = (struct local_peer){.identity = *who, .pid = pid, .inode = info.st_ino};
    return true;
}

/* A number for the descriptor that nobody else had lately: its own, or a higher one. -1: there is none, and it is closed. */
static int number_for(struct local_listen *door, int fd, const struct rs_identity *who)
{
    const rs_ns now = rs_time_monotonic();
    for (int i = 0; i < NUMBERS_TRIED_MAX; i++) {
        if (may_have(door, fd, who, now))
            return fd;
        const int next = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
        (void)close(fd);
        if (next < 0)
            return -1;
        fd = next;
    }
    (void)close(fd);
    return -1;
}

bool local_listen_find(struct local_listen *door, const char *peer, struct rs_identity *identity_p,
                       char *text, size_t bytes)
{
    char *end = NULL;
    if (strncmp(peer, "fd:", 3) != 0)
        return false;
    const unsigned long fd = strtoul(peer + 3, &end, 10);
    (void)pthread_mutex_lock(&door->lock);
    const struct local_peer *found =
        *end == '\0' && end > peer + 3 && fd < door->count ? door->peers[fd] : NULL;
    if (found) {
        *identity_p = found->identity;
        (void)snprintf(text, bytes, "unix:uid=%lu,pid=%ld", (unsigned long)found->identity.uid,
                       (long)found->pid);
    }
    (void)pthread_mutex_unlock(&door->lock);
    return found != NULL;
}

/* ---- the thread ---------------------------------------------------------------------------------------------------- */

static void turn_away(struct local_listen *door, int fd, const char *who, const char *why)
{
    (void)close(fd);
    rs_count(RS_COUNT_SERVER_LINKS_REFUSED, 1);
    if (!door->has_warned)
        rs_log_warn("a connection of %s to %s is turned away: %s", who, door->path, why);
    door->has_warned = true;
}

static void on_connection(struct local_listen *door, int fd)
{
    struct ucred peer = {.pid = 0};
    socklen_t length = sizeof peer;
    struct rs_identity who;
    char text[RS_IDENTITY_TEXT_BYTES];
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0) {
        turn_away(door, fd, "somebody", "the kernel does not say who it is");
        return;
    }
    rs_local_identify(door->options.rules, peer.uid, peer.gid, &who);
    rs_identity_text(&who, text);
    (void)pthread_mutex_lock(&door->lock);
    const bool is_within = who.party == RS_PARTY_LOCAL ||
                           count_of(door, &who, rs_time_monotonic()) < LOCAL_CONNECTIONS_MAX;
    int number = is_within ? number_for(door, fd, &who) : fd;
    const bool is_taken = is_within && number >= 0 && put(door, number, &who, peer.pid);
    (void)pthread_mutex_unlock(&door->lock);
    if (is_taken)
        door->options.take(door->options.self, number);
    else
        turn_away(door, number, text,
                  is_within ? "no descriptor is free for it" : "it has too many already");
}

/* A connection that cannot be taken stays in the queue and would wake every poll. */
static void pause_a_little(struct local_listen *door)
{
    struct pollfd stop = {.fd = door->stop_fd, .events = POLLIN};
    if (!door->has_warned)
        rs_log_warn("connections to %s wait: %s", door->path,
                    errno == EMFILE || errno == ENFILE ? "no descriptor is free"
                                                       : "the system has no room for them");
    door->has_warned = true;
    (void)poll(&stop, 1, PAUSE_MS);
}

static void *work(void *self)
{
    struct local_listen *door = self;
    struct pollfd fds[2] = {{.fd = door->listen_fd, .events = POLLIN},
                            {.fd = door->stop_fd, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents)
            break;
        const int fd = accept4(door->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            on_connection(door, fd);
        else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            pause_a_little(door);
    }
    return NULL;
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */

/* What lies there without a server is of one that was killed. */
static enum rs_status bind_socket(struct local_listen *door, struct rs_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat info;
    _Static_assert(sizeof address.sun_path >= sizeof door->path, "a path of ours fits");
    memcpy(address.sun_path, door->path, sizeof door->path);
    if (lstat(door->path, &info) == 0 && !S_ISSOCK(info.st_mode))
        return rs_err_set(err, RS_EXISTS, "%s is there and is no socket", door->path);
    (void)unlink(door->path);
    door->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (door->listen_fd < 0 ||
        bind(door->listen_fd, (const struct sockaddr *)&address, sizeof address) < 0)
        return rs_err_errno(err, "cannot listen on unix:%s", door->path);
    if (listen(door->listen_fd, SOMAXCONN) < 0)
        return rs_err_errno(err, "cannot listen on unix:%s", door->path);
    return RS_OK;
}

enum rs_status local_listen_start(const struct local_listen_options *options,
                                  struct local_listen **listen_p, struct rs_err *err)
{
    struct local_listen *door = rs_mem_calloc(1, sizeof *door);
    if (!door)
        return rs_err_set(err, RS_NOMEM, "no memory to listen");
    door->options = *options;
    (void)snprintf(door->path, sizeof door->path, "%s", options->path);
    door->options.path = door->path;
    door->listen_fd = -1;
    door->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&door->lock, NULL);
    enum rs_status status =
        door->stop_fd < 0 ? rs_err_errno(err, "no event descriptor") : bind_socket(door, err);
    if (status == RS_OK && pthread_create(&door->thread, NULL, work, door) != 0)
        status = rs_err_set(err, RS_NOMEM, "no thread to listen on %s", door->path);
    door->is_running = status == RS_OK;
    if (status < 0)
        local_listen_free(&door);
    else
        *listen_p = door;
    return status;
}

void local_listen_stop(struct local_listen *door)
{
    if (!door->is_running)
        return;
    (void)eventfd_write(door->stop_fd, 1);
    (void)pthread_join(door->thread, NULL);
    door->is_running = false;
    (void)close(door->listen_fd);
    door->listen_fd = -1;
    (void)unlink(door->path);
}

void local_listen_free(struct local_listen **listen_p)
{
    struct local_listen *door = *listen_p;
    if (!door)
        return;
    *listen_p = NULL;
    local_listen_stop(door);
    if (door->listen_fd >= 0)
        (void)close(door->listen_fd);
    if (door->stop_fd >= 0)
        (void)close(door->stop_fd);
    for (size_t i = 0; i < door->count; i++)
        rs_mem_free(door->peers[i]);
    rs_mem_free(door->peers);
    (void)pthread_mutex_destroy(&door->lock);
    rs_mem_free(door);
}
