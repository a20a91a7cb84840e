/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The datagram socket that Kineto's profilers look for ("dynolog", an abstract name, or a path in KINETO_IPC_SOCKET_DIR).
 *
 * One process of a machine can have it. Who has it is found by its inode in /proc/net/unix and the descriptors of processes, so that the refusal
 * names him. A path that nobody serves any more is removed and bound anew.
 */
#include "collector/trigger/kineto_socket.h"

#include "common/base/file.h"
#include "common/base/user_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum rs_status make_address(const char *dir, const char *name, struct sockaddr_un *address,
                                   socklen_t *bytes, struct rs_err *err)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const size_t room = sizeof address->sun_path;
    if (dir) {
        const int length = snprintf(address->sun_path, room, "%s/%s", dir, name);
        if (length < 0 || (size_t)length >= room)
            return rs_err_set(err, RS_INVALID, "the socket path %s/%s is longer than %zu bytes",
                              dir, name, room - 1);
        *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length + 1);
        return RS_OK;
    }
    const size_t length = strlen(name);
    if (length + 2 > room)
        return rs_err_set(err, RS_INVALID, "the socket name %s is too long", name);
    memcpy(address->sun_path + 1, name, length);
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 2);
    return RS_OK;
}

/* A line's path is this socket's: an abstract name starts with '@', and NULs inside it are shown as '@' too. */
static bool is_path_of(const char *path, const char *dir, const char *name)
{
    const size_t length = strlen(name);
    if (dir) {
        const size_t dir_length = strlen(dir);
        return strncmp(path, dir, dir_length) == 0 && path[dir_length] == '/' &&
               strcmp(path + dir_length + 1, name) == 0;
    }
    return path[0] == '@' && strncmp(path + 1, name, length) == 0 &&
           (path[1 + length] == '\0' || path[1 + length] == '@');
}

/* The inode of the bound socket, from /proc/net/unix; 0 when it is not listed. */
static unsigned long long find_inode(const char *dir, const char *name)
{
    FILE *list = fopen("/proc/net/unix", "re");
    if (!list)
        return 0;
    char line[512];
    unsigned long long inode = 0;
    while (!inode && fgets(line, sizeof line, list)) {
        unsigned long long number;
        char path[256];
        /* Num RefCount Protocol Flags Type St Inode Path. NOLINTNEXTLINE(cert-err34-c): the kernel wrote it */
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %llu %255s", &number, path) == 2 &&
            is_path_of(path, dir, name))
            inode = number;
    }
    (void)fclose(list);
    return inode;
}

static bool process_holds(const char *pid, unsigned long long inode)
{
    char path[300], wanted[64], link[128];
    (void)snprintf(wanted, sizeof wanted, "socket:[%llu]", inode);
    (void)snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *fds = opendir(path);
    if (!fds)
        return false;
    bool holds = false;
    struct dirent *entry;
    while (!holds && (entry = rs_dir_next(fds))) {
        const ssize_t length = readlinkat(dirfd(fds), entry->d_name, link, sizeof link - 1);
        if (length > 0) {
            link[length] = '\0';
            holds = strcmp(link, wanted) == 0;
        }
    }
    (void)closedir(fds);
    return holds;
}

bool rs_kineto_socket_holder(const char *dir, const char *name, pid_t *pid_p, char *text,
                             size_t text_bytes)
{
    const unsigned long long inode = find_inode(dir, name);
    *pid_p = 0;
    (void)snprintf(text, text_bytes, "a process that may not be looked at");
    DIR *proc = inode ? opendir("/proc") : NULL;
    if (!proc)
        return inode != 0;
    struct dirent *entry;
    while ((entry = rs_dir_next(proc))) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            !process_holds(entry->d_name, inode))
            continue;
        char path[300], command[64] = "";
        (void)snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file) {
            if (fgets(command, sizeof command, file))
                command[strcspn(command, "\n")] = '\0';
            (void)fclose(file);
        }
        *pid_p = (pid_t)strtol(entry->d_name, NULL, 10);
        (void)snprintf(text, text_bytes, "process %.20s (%s)", entry->d_name, command);
        break;
    }
    (void)closedir(proc);
    return true;
}

/* A pathname socket stays behind when its daemon dies: is anybody there? */
static bool is_served(const struct sockaddr_un *address, socklen_t bytes)
{
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    const bool served = connect(fd, (const struct sockaddr *)address, bytes) == 0;
    (void)close(fd);
    return served;
}

static enum rs_status bind_name(int fd, const char *dir, const char *name, struct rs_err *err)
{
    struct sockaddr_un address;
    socklen_t bytes;
    const enum rs_status status = make_address(dir, name, &address, &bytes, err);
    if (status != RS_OK)
        return status;
    bool bound = bind(fd, (const struct sockaddr *)&address, bytes) == 0;
    if (!bound && errno != EADDRINUSE)
        return rs_err_errno(err, "cannot bind the profiler socket \"%s\"", name);
    if (!bound && dir && !is_served(&address, bytes))
        bound = unlink(address.sun_path) == 0 &&
                bind(fd, (const struct sockaddr *)&address, bytes) == 0;
    if (!bound) {
        char holder[128] = "another daemon";
        pid_t pid;
        (void)rs_kineto_socket_holder(dir, name, &pid, holder, sizeof holder);
        return rs_err_set(err, RS_EXISTS,
                          "the profiler socket \"%s\" is served by %s; stop it, or run the "
                          "collector in a network namespace of its own",
                          name, holder);
    }
    return RS_OK;
}

/* Who may send to a socket file; of an abstract name everybody may. */
static enum rs_status set_rights(const char *dir, const char *name, bool is_private,
                                 struct rs_err *err)
{
    struct sockaddr_un address;
    socklen_t bytes;
    struct stat home, info;
    char own[64];
    enum rs_status status = make_address(dir, name, &address, &bytes, err);
    if (status != RS_OK)
        return status;
    /* The folder may be a user's, who may put a link in the place of the socket: what is held is what is changed. */
    const int fd = open(address.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    (void)snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    /* Ranks of other users must be able to send, whatever our umask is. */
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISSOCK(info.st_mode))
        status = rs_err_set(err, RS_IO, "%s is no socket any more", address.sun_path);
    else if (chmod(own, is_private ? 0600 : 0666) != 0)
        status = rs_err_errno(err, "cannot set the mode of %s", address.sun_path);
    else if (is_private && geteuid() == 0 && stat(dir, &home) == 0 && info.st_uid != home.st_uid &&
             fchownat(fd, "", home.st_uid, home.st_gid, AT_EMPTY_PATH) != 0)
        status = rs_err_errno(err, "cannot give %s to its user", address.sun_path);
    if (fd >= 0)
        (void)close(fd);
    return status;
}

static enum rs_status open_socket(const char *dir, const char *name, bool is_private, int *fd_p,
                                  struct rs_err *err)
{
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return rs_err_errno(err, "cannot create the profiler socket");
    struct rs_as_user scope = {.is_changed = false};
    /* In a user's own folder with his rights: it is his then, and nothing of others' goes. */
    enum rs_status status =
        is_private ? rs_file_as_owner_begin(dir, RS_HOLD_ROOT_LINKS, &scope, err) : RS_OK;
    if (status == RS_OK)
        status = bind_name(fd, dir, name, err);
    if (status == RS_OK && dir)
        status = set_rights(dir, name, is_private, err);
    rs_as_user_end(&scope);
    const int on = 1;
    if (status == RS_OK && setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
        status = rs_err_errno(err, "cannot ask for credentials on the profiler socket");
    if (status != RS_OK) {
        (void)close(fd);
        return status;
    }
    *fd_p = fd;
    return RS_OK;
}

enum rs_status rs_kineto_socket_open(const char *dir, const char *name, int *fd_p,
                                     struct rs_err *err)
{
    return open_socket(dir, name, false, fd_p, err);
}

enum rs_status rs_kineto_socket_open_private(const char *dir, const char *name, int *fd_p,
                                             struct rs_err *err)
{
    return open_socket(dir, name, true, fd_p, err);
}

void rs_kineto_socket_close(int fd, const char *dir, const char *name)
{
    struct sockaddr_un address;
    socklen_t bytes;
    struct rs_as_user scope;
    if (dir && make_address(dir, name, &address, &bytes, NULL) == RS_OK &&
        rs_file_as_owner_begin(dir, RS_HOLD_ROOT_LINKS, &scope, NULL) == RS_OK) {
        (void)unlink(address.sun_path);
        rs_as_user_end(&scope);
    }
    (void)close(fd);
}

enum rs_status rs_kineto_socket_take(int fd, void *data, size_t capacity, size_t *length_p,
                                     struct rs_kineto_peer *peer_p)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(64 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = data, .iov_len = capacity};
    struct rs_kineto_peer peer = {0};
    struct msghdr message = {
        .msg_name = &peer.address,
        .msg_namelen = sizeof peer.address,
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };
    ssize_t got;
    do {
        got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN ? RS_AGAIN : RS_IO;
    for (struct cmsghdr *part_of = CMSG_FIRSTHDR(&message); part_of;
         part_of = CMSG_NXTHDR(&message, part_of)) {
        if (part_of->cmsg_level != SOL_SOCKET)
            continue;
        if (part_of->cmsg_type == SCM_CREDENTIALS &&
            part_of->cmsg_len >= CMSG_LEN(sizeof(struct ucred))) {
            struct ucred who;
            memcpy(&who, CMSG_DATA(part_of), sizeof who);
            peer.pid = who.pid;
            peer.uid = who.uid;
        } else if (part_of->cmsg_type == SCM_RIGHTS) {
            /* Nobody asked for descriptors: a stranger could fill our table with them. */
            const size_t count = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < count; i++) {
                int given;
                memcpy(&given, CMSG_DATA(part_of) + i * sizeof given, sizeof given);
                (void)close(given);
            }
        }
    }
    peer.address_bytes = message.msg_namelen;
    if (message.msg_flags & MSG_TRUNC)
        return RS_LIMIT;
    *length_p = (size_t)got;
    *peer_p = peer;
    return RS_OK;
}

enum rs_status rs_kineto_socket_put(int fd, const void *data, size_t length,
                                    const struct rs_kineto_peer *peer)
{
    ssize_t sent;
    do {
        sent = sendto(fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL,
                      (const struct sockaddr *)&peer->address, peer->address_bytes);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)length ? RS_OK : RS_AGAIN;
}
