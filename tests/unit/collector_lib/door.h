/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collector in twenty lines, for tests of librankscope: one connection, taken by hand.
 */
#ifndef RS_TESTS_COLLECTOR_LIB_DOOR_H
#define RS_TESTS_COLLECTOR_LIB_DOOR_H

#include "collector/lib/control_read.h"
#include "collector/lib/rankscope.h"
#include "collector/lib/ring_read.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { DOOR_RINGS = 32, DOOR_RECORDS = 8192 };

struct door {
    char folder[64];
    struct sockaddr_un address;
    int listen_fd;
    int fd;
    struct rs_hello hello;
    struct rs_control_reader *control;
    struct rs_ring_reader *rings[DOOR_RINGS];
    size_t ring_count;
    struct rs_ring_record records[DOOR_RECORDS];
    size_t record_count;
};

static inline void door_listen(struct door *door)
{
    door->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(door->listen_fd >= 0);
    assert_int_equal(bind(door->listen_fd, (struct sockaddr *)&door->address, sizeof door->address),
                     0);
    assert_int_equal(listen(door->listen_fd, 8), 0);
}

static inline void door_open(struct door *door)
{
    memset(door, 0, sizeof *door);
    snprintf(door->folder, sizeof door->folder, "/tmp/rs-door-XXXXXX");
    assert_non_null(mkdtemp(door->folder));
    door->address.sun_family = AF_UNIX;
    snprintf(door->address.sun_path, sizeof door->address.sun_path, "%s/collector.sock",
             door->folder);
    door->fd = -1;
    door_listen(door);
}

static inline void door_drop_rings(struct door *door)
{
    while (door->ring_count > 0)
        rs_ring_reader_close(&door->rings[--door->ring_count]);
}

/* What the collector's death does: connection, mappings, all gone. */
static inline void door_forget(struct door *door)
{
    if (door->fd >= 0)
        close(door->fd);
    door->fd = -1;
    rs_control_close(&door->control);
    door_drop_rings(door);
    door->record_count = 0;
}

static inline void door_close(struct door *door)
{
    door_forget(door);
    close(door->listen_fd);
    unlink(door->address.sun_path);
    rmdir(door->folder);
}

/* The next message and its descriptor; the length, or <= 0. */
static inline ssize_t door_read(struct door *door, void *message, size_t capacity, int *fd_p,
                                int flags)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = message, .iov_len = capacity};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    ssize_t length = recvmsg(door->fd, &header, flags);
    struct cmsghdr *head = CMSG_FIRSTHDR(&header);
    if (length > 0 && head == NULL)
        return -1;
    if (length > 0)
        memcpy(fd_p, CMSG_DATA(head), sizeof *fd_p);
    return length;
}

static inline void door_welcome(struct door *door)
{
    int fd = -1;
    door->fd = accept(door->listen_fd, NULL, NULL);
    assert_true(door->fd >= 0);
    assert_int_equal(door_read(door, &door->hello, sizeof door->hello, &fd, 0), sizeof door->hello);
    assert_ok(rs_control_open(fd, door->hello.control_bytes, &door->control, NULL));
    close(fd);
}

/* Takes the rings that have come so far. */
static inline void door_take_rings(struct door *door)
{
    struct rs_attach attach;
    int fd = -1;
    while (door_read(door, &attach, sizeof attach, &fd, MSG_DONTWAIT) == (ssize_t)sizeof attach) {
        assert_true(door->ring_count < DOOR_RINGS);
        assert_ok(rs_ring_reader_open(fd, attach.ring_bytes, &door->rings[door->ring_count], NULL));
        door->ring_count++;
        close(fd);
    }
}

static inline enum rs_status door_keep(void *self, const struct rs_ring_record *record,
                                       struct rs_err *err)
{
    struct door *door = self;
    (void)err;
    assert_true(door->record_count < DOOR_RECORDS);
    door->records[door->record_count++] = *record;
    return RS_OK;
}

static inline void door_drain(struct door *door)
{
    door_take_rings(door);
    for (size_t i = 0; i < door->ring_count; i++)
        assert_true(rs_ring_drain(door->rings[i], door_keep, door, NULL) >= 0);
}

static inline struct rankscope_config door_config(struct door *door)
{
    struct rankscope_config config = RANKSCOPE_CONFIG_INIT;
    config.rank = 3;
    config.world_size = 8;
    config.run = "test";
    config.socket_path = door->address.sun_path;
    config.ring_bytes = RS_RING_MIN_BYTES;
    return config;
}

static inline size_t door_count(const struct door *door, enum rs_record_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < door->record_count; i++)
        count += door->records[i].slot.kind == kind ? 1 : 0;
    return count;
}

#endif
