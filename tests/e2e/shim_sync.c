/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preload shim: writes down, in order, what the aggregator appends, syncs and acknowledges.
 *
 *     LD_PRELOAD=shim_sync.so SHIM_LOG=FILE rankscope aggregator ...
 *
 *     append FD SEQ LANE    pwritev() of a CHUNK record (common/base/reclog.h); the lane by the name of its folder
 *     sync FD               fdatasync() returned 0
 *     ack HANDLE SEQ        sendmsg() is about to be called with an Ack message (proto/rankscope.proto, Down.ack = 3)
 *
 * SHIM_DELAY_MS=N makes every fdatasync() and fsync() take N ms more, as a disk under load does.
 *
 * Calls are written down one after the other under one lock: before the call for acks, after it for the rest, so a
 * line "sync" above a line "ack" means that the sync was over before the ack was sent. For one rank only: an ack names a
 * handle, and the test has one of each lane.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;

static void write_line(const char *text, int length)
{
    if (log_fd < 0) {
        const char *path = getenv("SHIM_LOG");
        log_fd = open(path ? path : "shim.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    (void)!write(log_fd, text, (size_t)length);
}

static void *next_symbol(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static uint64_t load(const uint8_t *from, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

static void be_slow(void)
{
    const char *text = getenv("SHIM_DELAY_MS");
    const long ms = text ? strtol(text, NULL, 10) : 0;
    const struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    if (ms > 0)
        (void)nanosleep(&wait, NULL);
}

/* Folders, and SQLite's files. */
__attribute__((visibility("default"))) int fsync(int fd)
{
    static int (*real)(int);
    if (!real)
        *(void **)&real = next_symbol("fsync");
    be_slow();
    return real(fd);
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    static int (*real)(int);
    char line[64];
    if (!real)
        *(void **)&real = next_symbol("fdatasync");
    be_slow();
    const int result = real(fd);
    if (result == 0) {
        pthread_mutex_lock(&lock);
        write_line(line, snprintf(line, sizeof line, "sync %d\n", fd));
        pthread_mutex_unlock(&lock);
    }
    return result;
}

__attribute__((visibility("default"))) ssize_t pwritev(int fd, const struct iovec *parts, int count,
                                                       off_t at)
{
    static ssize_t (*real)(int, const struct iovec *, int, off_t);
    char line[64];
    if (!real)
        *(void **)&real = next_symbol("pwritev");
    const ssize_t result = real(fd, parts, count, at);
    const uint8_t *head = count > 0 ? parts[0].iov_base : NULL;
    if (result > 0 && parts[0].iov_len == 40 && memcmp(head, "RREC", 4) == 0 &&
        load(head + 8, 2) == 2) {
        char link[64];
        char path[512] = "";
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        (void)!readlink(link, path, sizeof path - 1);
        pthread_mutex_lock(&lock);
        write_line(line, snprintf(line, sizeof line, "append %d %llu %d\n", fd,
                                  (unsigned long long)load(head + 16, 8),
                                  strstr(path, "/summaries/") != NULL));
        pthread_mutex_unlock(&lock);
    }
    return result;
}

static int take_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        const uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return 1;
    }
    return 0;
}

/* AckStream { handle = 1; durable_seq = 2 }; 0 when it is something else. */
static uint64_t seq_of(const uint8_t *at, const uint8_t *end, uint64_t *handle)
{
    uint64_t seq = 0;
    if (at >= end || *at++ != 0x08 || !take_varint(&at, end, handle))
        return 0;
    if (at >= end || *at++ != 0x10 || !take_varint(&at, end, &seq) || at != end)
        return 0;
    return seq;
}

/* Down { opened = 2 { handle = 1 ... } }, likewise. */
static void find_opened(const uint8_t *bytes, size_t length)
{
    char line[64];
    for (size_t i = 0; i + 9 <= length; i++) {
        const uint8_t *at = bytes + i;
        if (at[0] != 0 || at[5] != 0x12)
            continue;
        const size_t message =
            ((size_t)at[1] << 24) | ((size_t)at[2] << 16) | ((size_t)at[3] << 8) | at[4];
        if (message < 4 || message > 4096 || i + 5 + message > length)
            continue;
        const uint8_t *end = at + 5 + message;
        uint64_t inside = 0;
        uint64_t handle = 0;
        at += 6;
        if (take_varint(&at, end, &inside) && at + inside == end && *at++ == 0x08 &&
            take_varint(&at, end, &handle))
            write_line(line,
                       snprintf(line, sizeof line, "opened %llu\n", (unsigned long long)handle));
    }
}

/* A gRPC message (0, u32 length) that is Down { ack = 3 { streams = 1 ... } } anywhere in the bytes. */
static void find_acks(const uint8_t *bytes, size_t length)
{
    char line[64];
    for (size_t i = 0; i + 9 < length; i++) {
        const uint8_t *at = bytes + i;
        if (at[0] != 0 || at[5] != 0x1a)
            continue;
        const size_t message =
            ((size_t)at[1] << 24) | ((size_t)at[2] << 16) | ((size_t)at[3] << 8) | at[4];
        if (message < 4 || message > 4096 || i + 5 + message > length)
            continue;
        const uint8_t *end = at + 5 + message;
        uint64_t inside = 0;
        uint64_t item = 0;
        at += 6;
        if (!take_varint(&at, end, &inside) || at + inside != end)
            continue;
        while (at < end && *at++ == 0x0a && take_varint(&at, end, &item) && at + item <= end) {
            uint64_t handle = 0;
            const uint64_t seq = seq_of(at, at + item, &handle);
            if (seq)
                write_line(line, snprintf(line, sizeof line, "ack %llu %llu\n",
                                          (unsigned long long)handle, (unsigned long long)seq));
            at += item;
        }
    }
}

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message,
                                                       int flags)
{
    static ssize_t (*real)(int, const struct msghdr *, int);
    static uint8_t bytes[1 << 20];
    if (!real)
        *(void **)&real = next_symbol("sendmsg");
    pthread_mutex_lock(&lock);
    size_t length = 0;
    for (size_t i = 0; i < (size_t)message->msg_iovlen; i++) {
        const struct iovec *part = &message->msg_iov[i];
        if (length + part->iov_len > sizeof bytes)
            break;
        memcpy(bytes + length, part->iov_base, part->iov_len);
        length += part->iov_len;
    }
    find_opened(bytes, length);
    find_acks(bytes, length);
    pthread_mutex_unlock(&lock);
    return real(fd, message, flags);
}
