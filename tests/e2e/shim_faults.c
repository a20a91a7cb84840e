/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preload shim: a disk that fails now and then.
 *
 *     LD_PRELOAD=shim_faults.so SHIM_PERMILLE=10 SHIM_PATH=/tmp/x/ rankscope aggregator ...
 *
 * So many of a thousand calls that write, sync, open for writing, rename or lengthen a file below SHIM_PATH fail, half of them with
 * EIO and half with ENOSPC; SHIM_SEED chooses which. Writes of some bytes are now and then short, as write(2) may be.
 * The first SHIM_AFTER of those calls pass, so that a daemon comes up. Files elsewhere, sockets and pipes are left alone.
 * SHIM_LOG: a line for each failure.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *next_symbol(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

/* Under the lock: xorshift. */
static uint64_t draw(void)
{
    static uint64_t state;
    if (!state)
        state = 0x9e3779b97f4a7c15u ^ (uint64_t)number("SHIM_SEED", 1) ^ ((uint64_t)getpid() << 32);
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int is_ours(const char *path)
{
    const char *below = getenv("SHIM_PATH");
    return path && below && strncmp(path, below, strlen(below)) == 0;
}

static void note(const char *call, const char *path, int error)
{
    const char *log = getenv("SHIM_LOG");
    char line[700];
    if (!log)
        return;
    int (*real)(const char *, int, ...);
    *(void **)&real = next_symbol("open");
    const int fd = real(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ssize_t (*real_write)(int, const void *, size_t);
    *(void **)&real_write = next_symbol("write");
    if (fd >= 0) {
        (void)!real_write(fd, line,
                          (size_t)snprintf(line, sizeof line, "%s %.600s: %s\n", call, path,
                                           error == EIO ? "EIO" : "ENOSPC"));
        close(fd);
    }
}

/* 0, or the errno it fails with. */
static int fails(const char *call, const char *path)
{
    static long passed;
    int error = 0;
    if (!is_ours(path))
        return 0;
    pthread_mutex_lock(&lock);
    const long after = number("SHIM_AFTER", 0);
    if (passed < after)
        passed++;
    else if ((long)(draw() % 1000) < number("SHIM_PERMILLE", 10))
        error = draw() & 1 ? EIO : ENOSPC;
    if (error)
        note(call, path, error);
    pthread_mutex_unlock(&lock);
    return error;
}

static int fails_fd(const char *call, int fd)
{
    char link[64];
    char path[600] = "";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    return length > 0 && path[0] == '/' ? fails(call, path) : 0;
}

#define FAIL_OR_GO_ON(error)                                                                       \
    do {                                                                                           \
        const int error_ = (error);                                                                \
        if (error_) {                                                                              \
            errno = error_;                                                                        \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)

VISIBLE int fsync(int fd)
{
    static int (*real)(int);
    if (!real)
        *(void **)&real = next_symbol("fsync");
    FAIL_OR_GO_ON(fails_fd("fsync", fd));
    return real(fd);
}

VISIBLE int fdatasync(int fd)
{
    static int (*real)(int);
    if (!real)
        *(void **)&real = next_symbol("fdatasync");
    FAIL_OR_GO_ON(fails_fd("fdatasync", fd));
    return real(fd);
}

VISIBLE ssize_t write(int fd, const void *bytes, size_t count)
{
    static ssize_t (*real)(int, const void *, size_t);
    if (!real)
        *(void **)&real = next_symbol("write");
    FAIL_OR_GO_ON(fails_fd("write", fd));
    return real(fd, bytes, count);
}

VISIBLE ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real)
        *(void **)&real = next_symbol("pwrite");
    FAIL_OR_GO_ON(fails_fd("pwrite", fd));
    return real(fd, bytes, count, at);
}

VISIBLE ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t at)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real)
        *(void **)&real = next_symbol("pwrite64");
    FAIL_OR_GO_ON(fails_fd("pwrite64", fd));
    return real(fd, bytes, count, at);
}

/* Half of what fails here has written some of its bytes first: a torn record. */
VISIBLE ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    static ssize_t (*real)(int, const struct iovec *, int, off_t);
    if (!real)
        *(void **)&real = next_symbol("pwritev");
    const int error = fails_fd("pwritev", fd);
    if (error && error == ENOSPC && count > 0 && parts[0].iov_len > 8)
        (void)!pwrite(fd, parts[0].iov_base, parts[0].iov_len / 2, at);
    FAIL_OR_GO_ON(error);
    return real(fd, parts, count, at);
}

VISIBLE int ftruncate(int fd, off_t length)
{
    static int (*real)(int, off_t);
    if (!real)
        *(void **)&real = next_symbol("ftruncate");
    FAIL_OR_GO_ON(fails_fd("ftruncate", fd));
    return real(fd, length);
}

VISIBLE int rename(const char *from, const char *to)
{
    static int (*real)(const char *, const char *);
    if (!real)
        *(void **)&real = next_symbol("rename");
    FAIL_OR_GO_ON(fails("rename", to));
    return real(from, to);
}

VISIBLE int open(const char *path, int flags, ...)
{
    static int (*real)(const char *, int, ...);
    va_list rest;
    va_start(rest, flags);
    const unsigned mode = flags & O_CREAT ? va_arg(rest, unsigned) : 0;
    va_end(rest);
    if (!real)
        *(void **)&real = next_symbol("open");
    if (flags & (O_CREAT | O_WRONLY | O_RDWR))
        FAIL_OR_GO_ON(fails("open", path));
    return real(path, flags, mode);
}
