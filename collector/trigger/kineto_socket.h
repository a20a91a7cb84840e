/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The datagram socket that Kineto's clients know: its address, and who holds it when we cannot.
 */
#ifndef RS_TRIGGER_KINETO_SOCKET_H
#define RS_TRIGGER_KINETO_SOCKET_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct rs_kineto_peer {
    struct sockaddr_un address;
    socklen_t address_bytes;
    pid_t pid; /* the kernel's word, in our namespaces; 0 when it gave none */
    uid_t uid;
};

/* A bound, non-blocking socket with credentials switched on. `dir` NULL: the abstract name, whose address ends in
 * one more NUL that belongs to it; else DIR/name with mode 0666. RS_EXISTS names the process that serves it. */
RS_MUST_CHECK enum rs_status rs_kineto_socket_open(const char *dir, const char *name, int *fd_p,
                                                   struct rs_err *err);
/* DIR/name for the processes of the folder's owner alone: mode 0600, and given to him when we are root. As msMonitor's
 * daemon has it in the home of its user. */
RS_MUST_CHECK enum rs_status rs_kineto_socket_open_private(const char *dir, const char *name,
                                                           int *fd_p, struct rs_err *err);
/* Who serves the name, in words, and its pid (0: may not be looked at). False: nobody. Binds nothing. */
bool rs_kineto_socket_holder(const char *dir, const char *name, pid_t *pid_p, char *text,
                             size_t text_bytes);
void rs_kineto_socket_close(int fd, const char *dir, const char *name);

/* One datagram. RS_AGAIN: none waits. RS_LIMIT: it was longer than `capacity` and is dropped. */
RS_MUST_CHECK enum rs_status rs_kineto_socket_take(int fd, void *data, size_t capacity,
                                                   size_t *length_p, struct rs_kineto_peer *peer_p);

/* Sends without waiting. RS_AGAIN: the peer's queue is full or it is gone. */
RS_MUST_CHECK enum rs_status rs_kineto_socket_put(int fd, const void *data, size_t length,
                                                  const struct rs_kineto_peer *peer);

#endif
