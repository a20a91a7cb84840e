/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of the native source and its table of ranks.
 */
#include "collector/source/native.h"

#include "collector/lib/clock.h"
#include "collector/source/native_priv.h"
#define RS_LOG_TAG "native"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/run_delay.h"
#include "common/base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    EVENTS_PER_POLL = 64,
    KEEP_ENDED_S = 30,
    PROC_STAT_BYTES = 4096,
    FIELD_SESSION = 6,
    FIELD_START_TIME = 22,
    CLOCKS = 2,
};

static const rs_dur accept_pause_ns = 500 * (rs_dur)RS_NS_PER_MS;
static const rs_dur delay_every_ns = 500 * (rs_dur)RS_NS_PER_MS;

struct rs_native {
    int epoll_fd;
    int listen_fd;
    rs_ns accept_again_at; /* no descriptor was free: not looked at before; 0 it is */
    char path[sizeof((struct sockaddr_un){0}.sun_path)];
    struct native_process **processes; /* in order of arrival; addresses are stable */
    size_t count, capacity;
    struct native_process **named; /* those of them that said who they are, as of the last poll */
    size_t named_count, named_capacity;
    uint64_t next_id;
    struct rs_clock_map clocks[CLOCKS]; /* the system's, the processor's */
    size_t clock_count;
};

const char *rs_native_state_text(enum rs_native_state state)
{
    static const char *const texts[] = {"none",     "waiting", "armed", "recording",
                                        "captured", "missed",  "lost"};
    return texts[state];
}

const char *rs_native_life_text(enum rs_native_life life)
{
    static const char *const texts[] = {"alive", "finished", "died"};
    return texts[life];
}

/* ---- open and close ---- */

static enum rs_status fill_address(const char *path, struct sockaddr_un *address,
                                   struct rs_err *err)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof address->sun_path)
        return rs_err_set(err, RS_INVALID, "socket path %s: between 1 and %zu bytes", path,
                          sizeof address->sun_path - 1);
    memcpy(address->sun_path, path, length);
    return RS_OK;
}

/* A socket file that nobody answers is left over from a collector that was killed. */
static enum rs_status remove_stale(const struct sockaddr_un *address, struct rs_err *err)
{
    struct stat stat;
    if (lstat(address->sun_path, &stat) != 0)
        return RS_OK;
    if (!S_ISSOCK(stat.st_mode))
        return rs_err_set(err, RS_EXISTS, "%s exists and is not a socket", address->sun_path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return rs_err_errno(err, "socket");
    int result = connect(fd, (const struct sockaddr *)address, sizeof *address);
    bool is_stale = result != 0 && (errno == ECONNREFUSED || errno == ENOENT);
    close(fd);
    if (!is_stale)
        return rs_err_set(err, RS_EXISTS, "%s is served by another collector", address->sun_path);
    unlink(address->sun_path);
    return RS_OK;
}

static enum rs_status listen_at(struct rs_native *native, const char *path, struct rs_err *err)
{
    struct sockaddr_un address;
    enum rs_status status = fill_address(path, &address, err);
    if (status == RS_OK)
        status = remove_stale(&address, err);
    if (status != RS_OK)
        return status;
    native->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (native->listen_fd < 0)
        return rs_err_errno(err, "socket");
    if (bind(native->listen_fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return rs_err_errno(err, "%s", path);
    memcpy(native->path, address.sun_path, sizeof native->path);
    /* Who may connect is the folder's business: jobs of other users find a system's collector. */
    if (chmod(path, 0666) != 0 || listen(native->listen_fd, 256) != 0)
        return rs_err_errno(err, "%s", path);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = native};
    if (epoll_ctl(native->epoll_fd, EPOLL_CTL_ADD, native->listen_fd, &event) != 0)
        return rs_err_errno(err, "epoll");
    return RS_OK;
}

static enum rs_status open_clocks(struct rs_native *native, struct rs_err *err)
{
    rankscope_priv_clock_init();
    enum rs_status status = rs_clock_map_init(&native->clocks[0], RS_CLOCK_MONOTONIC, err);
    native->clock_count = 1;
    for (uint32_t kind = RS_CLOCK_TSC; kind <= RS_CLOCK_CNTVCT && native->clock_count < CLOCKS;
         kind++)
        if (status == RS_OK && rs_clock_map_init(&native->clocks[1], kind, NULL) == RS_OK)
            native->clock_count = CLOCKS;
    return status;
}

enum rs_status rs_native_open(const char *path, struct rs_native **native_p, struct rs_err *err)
{
    struct rs_native *native = rs_mem_calloc(1, sizeof *native);
    if (native == NULL)
        return rs_err_set(err, RS_NOMEM, "collector socket: out of memory");
    native->listen_fd = -1;
    native->next_id = 1;
    native->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    enum rs_status status =
        native->epoll_fd < 0 ? rs_err_errno(err, "epoll") : open_clocks(native, err);
    if (status == RS_OK)
        status = listen_at(native, path, err);
    if (status != RS_OK) {
        rs_native_close(&native);
        return status;
    }
    *native_p = native;
    return RS_OK;
}

static void free_process(struct native_process *process)
{
    if (process->socket_fd >= 0)
        close(process->socket_fd);
    if (process->capture.stream != NULL)
        native_emit_end(process);
    for (size_t i = 0; i < process->ring_count; i++)
        rs_ring_reader_close(&process->rings[i].reader);
    rs_mem_free(process->rings);
    rs_control_close(&process->control);
    rs_mem_free(process);
}

void rs_native_close(struct rs_native **native_p)
{
    struct rs_native *native = *native_p;
    *native_p = NULL;
    if (native == NULL)
        return;
    for (size_t i = 0; i < native->count; i++) {
        struct native_process *process = native->processes[i];
        if (process->control != NULL && process->capture.stream != NULL)
            (void)rs_control_request(process->control, RS_LIB_START_NEXT, 0);
        free_process(process);
    }
    rs_mem_free(native->processes);
    rs_mem_free(native->named);
    if (native->listen_fd >= 0)
        close(native->listen_fd);
    if (native->path[0] != '\0')
        unlink(native->path);
    if (native->epoll_fd >= 0)
        close(native->epoll_fd);
    rs_mem_free(native);
}

int rs_native_fd(const struct rs_native *native)
{
    return native->epoll_fd;
}

/* ---- messages ---- */

/* Copies a fixed field of a message; what would steer a terminal becomes '?'. */
static void copy_text(char *to, size_t capacity, const char *from, size_t length)
{
    size_t used = strnlen(from, length);
    if (used >= capacity)
        used = capacity - 1;
    memcpy(to, from, used);
    to[used] = '\0';
    rs_utf8_plain(to);
}

/* Field `number` (from 1) of /proc/PID/stat; 0 when it cannot be had. */
static uint64_t proc_field(int64_t pid, int number)
{
    char path[64];
    struct rs_buf text = {0};
    uint64_t value = 0;
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (rs_file_read(path, PROC_STAT_BYTES, &text, NULL) == RS_OK) {
        const char *at = strrchr(rs_buf_text(&text), ')'); /* the name may hold anything */
        for (int field = 2; at != NULL && field < number; field++)
            at = strchr(at + 1, ' ');
        if (at != NULL)
            value = strtoull(at + 1, NULL, 10);
    }
    rs_buf_fini(&text);
    return value;
}

/* Contracts section 1: a run without a name is (host, session leader, its start time). */
static void name_run(struct rs_native_rank *shown)
{
    uint64_t session = proc_field(shown->pid, FIELD_SESSION);
    uint64_t start =
        session > 0 && session <= INT32_MAX ? proc_field((int64_t)session, FIELD_START_TIME) : 0;
    (void)snprintf(shown->run, sizeof shown->run, "%s-%" PRIu64 "-%" PRIu64, shown->host, session,
                   start);
}

static void show_hello(struct native_process *process, const struct rs_hello *hello)
{
    struct rs_native_rank *shown = &process->shown;
    shown->rank = hello->rank;
    shown->world_size = hello->world_size > 0 ? hello->world_size : -1;
    shown->dp = hello->dp >= 0 ? hello->dp : -1;
    shown->pp = hello->pp >= 0 ? hello->pp : -1;
    shown->tp = hello->tp >= 0 ? hello->tp : -1;
    shown->started_ns = hello->started_ns;
    copy_text(shown->run, sizeof shown->run, hello->run, sizeof hello->run);
    copy_text(shown->host, sizeof shown->host, hello->host, sizeof hello->host);
    copy_text(shown->program, sizeof shown->program, hello->program, sizeof hello->program);
    if (shown->run[0] == '\0')
        name_run(shown);
}

static const struct rs_clock_map *clock_of(const struct rs_native *native, uint32_t kind)
{
    for (size_t i = 0; i < native->clock_count; i++)
        if (native->clocks[i].kind == kind)
            return &native->clocks[i];
    return NULL;
}

static void warn_odd_clock(const struct native_process *process, const struct rs_hello *hello)
{
    rs_dur apart = rs_clock_map_ns(process->clock, hello->anchor_ticks) - hello->anchor_realtime_ns;
    if (apart > RS_NS_PER_MS || apart < -RS_NS_PER_MS)
        rs_log_warn("rank %d of run %s reads its clock %" PRId64 " us apart from ours", hello->rank,
                    process->shown.run, apart / RS_NS_PER_US);
}

/* The entry of an earlier incarnation that has ended and serves no capture goes. */
static void replace_ended(struct rs_native *native, const struct native_process *process)
{
    for (size_t i = 0; i < native->count; i++) {
        struct native_process *other = native->processes[i];
        if (other != process && other->socket_fd < 0 && other->capture.stream == NULL &&
            other->shown.rank == process->shown.rank &&
            strcmp(other->shown.run, process->shown.run) == 0)
            other->ended_ns = RS_NS_MIN / 2; /* long ago: forget_ended() */
    }
}

static enum rs_status take_hello(struct rs_native *native, struct native_process *process,
                                 const struct rs_hello *hello, int fd, struct rs_err *err)
{
    if (process->control != NULL)
        return rs_err_set(err, RS_FORMAT, "a second hello");
    if (hello->version != RS_LAYOUT_VERSION)
        return rs_err_set(err, RS_VERSION, "librankscope speaks version %" PRIu32 ", we speak %d",
                          hello->version, RS_LAYOUT_VERSION);
    if (hello->message_bytes != sizeof *hello || hello->rank < 0 ||
        (hello->world_size >= 0 && hello->rank >= hello->world_size))
        return rs_err_set(err, RS_FORMAT, "hello of rank %d of %d", hello->rank, hello->world_size);
    process->clock = clock_of(native, hello->clock_kind);
    if (process->clock == NULL)
        return rs_err_set(err, RS_VERSION, "hello with a clock that this machine does not have");
    enum rs_status status = rs_control_open(fd, hello->control_bytes, &process->control, err);
    if (status != RS_OK)
        return status;
    rs_control_progress(process->control, &process->progress);
    process->rings_before = process->progress.ring_count;
    show_hello(process, hello);
    warn_odd_clock(process, hello);
    /* Whatever a collector before us asked for is not ours to finish. */
    if (process->progress.capture_state == RS_LIB_ARMED ||
        process->progress.capture_state == RS_LIB_RECORDING)
        (void)rs_control_request(process->control, RS_LIB_START_NEXT, 0);
    replace_ended(native, process);
    rs_log_info("rank %d of run %s here, process %" PRId64, process->shown.rank, process->shown.run,
                process->shown.pid);
    return RS_OK;
}

static enum rs_status take_attach(struct native_process *process, const struct rs_attach *attach,
                                  int fd, struct rs_err *err)
{
    if (process->control == NULL)
        return rs_err_set(err, RS_FORMAT, "a ring before the hello");
    if (attach->version != RS_LAYOUT_VERSION || attach->message_bytes != sizeof *attach)
        return rs_err_set(err, RS_VERSION, "a ring of layout version %" PRIu32, attach->version);
    if (process->ring_count >= RS_LIB_MAX_RINGS)
        return rs_err_set(err, RS_LIMIT, "more than %d rings", RS_LIB_MAX_RINGS);
    if (rs_mem_grow((void **)&process->rings, &process->ring_capacity, process->ring_count + 1,
                    sizeof *process->rings) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "ring: out of memory");
    struct native_ring ring = {.lane = UINT32_MAX};
    enum rs_status status = rs_ring_reader_open(fd, attach->ring_bytes, &ring.reader, err);
    if (status == RS_OK)
        process->rings[process->ring_count++] = ring;
    if (status == RS_OK && attach->number < UINT32_MAX && process->rings_sent <= attach->number)
        process->rings_sent = attach->number + 1;
    return status;
}

union message {
    uint32_t magic;
    struct rs_hello hello;
    struct rs_attach attach;
};

/* The one descriptor that came along, or -1. Any others are closed: a stranger may send many. */
static int take_descriptor(struct msghdr *header)
{
    int taken = -1;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(header); head != NULL;
         head = CMSG_NXTHDR(header, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd = -1;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            if (taken < 0)
                taken = fd;
            else
                close(fd);
        }
    }
    return taken;
}

/* RS_OK: a message was taken. RS_AGAIN: none there. RS_END: the connection is closed. Else it must be. */
static enum rs_status read_message(struct rs_native *native, struct native_process *process,
                                   struct rs_err *err)
{
    union message message;
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = &message, .iov_len = sizeof message};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    memset(&message, 0, sizeof message);
    ssize_t length = recvmsg(process->socket_fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return RS_AGAIN;
    if (length <= 0)
        return RS_END;
    int fd = take_descriptor(&header);
    enum rs_status status = RS_OK;
    if (fd < 0 || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
        status = rs_err_set(err, RS_FORMAT, "a message without its memory");
    else if (message.magic == RS_HELLO_MAGIC && (size_t)length == sizeof message.hello)
        status = take_hello(native, process, &message.hello, fd, err);
    else if (message.magic == RS_ATTACH_MAGIC && (size_t)length == sizeof message.attach)
        status = take_attach(process, &message.attach, fd, err);
    else
        status = rs_err_set(err, RS_FORMAT, "a message of %zd bytes that is none of ours", length);
    if (fd >= 0)
        close(fd);
    return status;
}

/* ---- connections ---- */

static enum rs_status add_process(struct rs_native *native, int fd)
{
    if (native->count >= RS_NATIVE_MAX_PROCESSES ||
        rs_mem_grow((void **)&native->processes, &native->capacity, native->count + 1,
                    sizeof(struct native_process *)) != RS_OK ||
        rs_mem_grow((void **)&native->named, &native->named_capacity, native->count + 1,
                    sizeof(struct native_process *)) != RS_OK)
        return RS_LIMIT;
    struct native_process *process = rs_mem_calloc(1, sizeof *process);
    if (process == NULL)
        return RS_NOMEM;
    struct ucred peer = {.pid = 0};
    socklen_t length = sizeof peer;
    (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length);
    process->socket_fd = fd;
    process->shown.id = native->next_id++;
    process->shown.rank = -1;
    process->shown.pid = peer.pid;
    process->shown.uid = peer.uid;
    process->shown.start_time = proc_field(peer.pid, FIELD_START_TIME);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = process};
    if (epoll_ctl(native->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        rs_mem_free(process);
        return RS_IO;
    }
    native->processes[native->count++] = process;
    return RS_OK;
}

/* A connection that cannot be taken stays in the queue and would wake every poll: it is left there for a while. */
static void stop_accepting(struct rs_native *native, int why)
{
    struct rs_err err = {0};
    errno = why;
    (void)rs_err_errno(&err, "a process that wants to connect waits");
    rs_log_warn("%s", err.text);
    if (epoll_ctl(native->epoll_fd, EPOLL_CTL_DEL, native->listen_fd, NULL) == 0)
        native->accept_again_at = rs_time_monotonic() + accept_pause_ns;
}

/* Returns how long the poll may wait. */
static int accept_again(struct rs_native *native, int timeout_ms)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = native};
    const rs_dur left = native->accept_again_at - rs_time_monotonic();
    if (!native->accept_again_at)
        return timeout_ms;
    if (left > 0)
        return timeout_ms < 0 || left < timeout_ms * (rs_dur)RS_NS_PER_MS
                   ? (int)(left / RS_NS_PER_MS) + 1
                   : timeout_ms;
    if (epoll_ctl(native->epoll_fd, EPOLL_CTL_ADD, native->listen_fd, &event) == 0)
        native->accept_again_at = 0;
    return timeout_ms;
}

static void accept_all(struct rs_native *native)
{
    for (;;) {
        int fd = accept4(native->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                stop_accepting(native, errno);
            return;
        }
        if (add_process(native, fd) != RS_OK) {
            rs_log_warn("a process was turned away: %zu are connected", native->count);
            close(fd);
        }
    }
}

static void hang_up(struct native_process *process)
{
    close(process->socket_fd);
    process->socket_fd = -1;
    process->ended_ns = rs_time_monotonic();
    if (process->control == NULL)
        return;
    rs_control_progress(process->control, &process->progress);
    process->shown.life = process->progress.is_finished ? RS_NATIVE_FINISHED : RS_NATIVE_DIED;
    rs_log_info("rank %d of run %s %s", process->shown.rank, process->shown.run,
                rs_native_life_text(process->shown.life));
}

static void serve(struct rs_native *native, struct native_process *process)
{
    struct rs_err err;
    enum rs_status status = RS_OK;
    /* Bounded: a stranger who writes without end gets no more than his turn. */
    for (int i = 0; i < EVENTS_PER_POLL && status == RS_OK; i++)
        status = read_message(native, process, &err);
    if (status == RS_OK || status == RS_AGAIN)
        return;
    if (status < 0)
        rs_log_warn("process %" PRId64 " is turned away: %s", process->shown.pid, err.text);
    hang_up(process);
}

/* All that it has sent. One poll serves 64 processes, and what is read here is the state in shared memory, which is newer than
 * any message: a rank may have recorded all of its steps into a ring of which nobody was told yet. */
static void serve_fully(struct rs_native *native, struct native_process *process)
{
    size_t before = 0;
    do {
        before = process->ring_count;
        serve(native, process);
    } while (process->socket_fd >= 0 && process->ring_count - before == EVENTS_PER_POLL);
}

/* ---- the table ---- */

static enum rs_native_state state_of(const struct native_process *process)
{
    const struct rs_lib_progress *progress = &process->progress;
    bool is_ended = process->shown.life != RS_NATIVE_ALIVE;
    if (process->capture.stream == NULL)
        return RS_NATIVE_NONE;
    if (progress->request_seq < process->capture.request_seq)
        return is_ended ? RS_NATIVE_LOST : RS_NATIVE_WAITING;
    switch (progress->capture_state) {
    case RS_LIB_IDLE:
    case RS_LIB_ARMED:
        return is_ended ? RS_NATIVE_LOST : RS_NATIVE_ARMED;
    case RS_LIB_RECORDING:
        return is_ended ? RS_NATIVE_LOST : RS_NATIVE_RECORDING;
    case RS_LIB_CAPTURED:
        return RS_NATIVE_CAPTURED;
    case RS_LIB_MISSED:
        return RS_NATIVE_MISSED;
    }
    return RS_NATIVE_LOST;
}

/* What cannot be read stays as it was. */
static void look_at_delay(struct native_process *process)
{
    const rs_ns now = rs_time_monotonic();
    if (process->shown.pid <= 0 || now < process->delay_at)
        return;
    process->delay_at = now + delay_every_ns;
    const rs_dur delay = rs_run_delay(process->shown.pid);
    if (delay > 0)
        process->shown.delay_ns = delay;
}

static void refresh(struct native_process *process)
{
    struct rs_native_rank *shown = &process->shown;
    if (process->control == NULL)
        return;
    look_at_delay(process);
    rs_control_progress(process->control, &process->progress);
    shown->has_step = process->progress.step_count > 0;
    shown->step = process->progress.step;
    shown->mean_step_ns = process->progress.mean_step_ns;
    shown->own_ns = process->progress.own_ns;
    shown->heartbeat_ns = process->progress.heartbeat_ns;
    shown->first_step = process->progress.first_step;
    shown->next_step = process->progress.next_step;
    shown->state = state_of(process);
    shown->has_begun = process->capture.stream != NULL &&
                       process->progress.request_seq >= process->capture.request_seq &&
                       (process->progress.capture_state == RS_LIB_RECORDING ||
                        process->progress.capture_state == RS_LIB_CAPTURED);
}

static void forget_ended(struct rs_native *native)
{
    rs_ns now = rs_time_monotonic();
    size_t kept = 0;
    for (size_t i = 0; i < native->count; i++) {
        struct native_process *process = native->processes[i];
        bool is_stranger = process->control == NULL;
        bool is_old = now - process->ended_ns > (rs_ns)KEEP_ENDED_S * RS_NS_PER_S;
        if (process->socket_fd < 0 && process->capture.stream == NULL && (is_stranger || is_old))
            free_process(process);
        else
            native->processes[kept++] = process;
    }
    native->count = kept;
}

enum rs_status rs_native_poll(struct rs_native *native, int timeout_ms, struct rs_err *err)
{
    struct epoll_event events[EVENTS_PER_POLL];
    timeout_ms = accept_again(native, timeout_ms);
    int count = epoll_wait(native->epoll_fd, events, EVENTS_PER_POLL, timeout_ms);
    if (count < 0 && errno != EINTR)
        return rs_err_errno(err, "epoll");
    for (int i = 0; i < count; i++)
        if (events[i].data.ptr == native)
            accept_all(native);
        else
            serve(native, events[i].data.ptr);
    for (size_t i = 0; i < native->clock_count; i++)
        rs_clock_map_add_now(&native->clocks[i]);
    forget_ended(native);
    /* Connections that have not said who they are do not show: they stand in the list all the same. */
    native->named_count = 0;
    for (size_t i = 0; i < native->count; i++) {
        refresh(native->processes[i]);
        if (native->processes[i]->control != NULL)
            native->named[native->named_count++] = native->processes[i];
    }
    return RS_OK;
}

size_t rs_native_count(const struct rs_native *native)
{
    return native->named_count;
}

const struct rs_native_rank *rs_native_at(const struct rs_native *native, size_t index)
{
    return index < native->named_count ? &native->named[index]->shown : NULL;
}

/* Ids ascend in order of arrival. */
static struct native_process *find(const struct rs_native *native, uint64_t id)
{
    size_t low = 0;
    size_t high = native->named_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (native->named[middle]->shown.id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < native->named_count && native->named[low]->shown.id == id ? native->named[low]
                                                                           : NULL;
}

const struct rs_native_rank *rs_native_find(const struct rs_native *native, uint64_t id)
{
    const struct native_process *process = find(native, id);
    return process != NULL ? &process->shown : NULL;
}

/* ---- captures ---- */

enum rs_status rs_native_arm(struct rs_native *native, uint64_t id,
                             const struct rs_native_request *request,
                             struct rs_source_stream *stream, struct rs_err *err)
{
    struct native_process *process = find(native, id);
    if (process == NULL)
        return rs_err_set(err, RS_NOTFOUND, "no such process any more");
    if (process->capture.stream != NULL)
        return rs_err_set(err, RS_EXISTS, "rank %d of run %s is being recorded already",
                          process->shown.rank, process->shown.run);
    if (process->socket_fd < 0)
        return rs_err_set(err, RS_CANCELLED, "rank %d of run %s has ended", process->shown.rank,
                          process->shown.run);
    if (request->stop_step <= request->start_step)
        return rs_err_set(err, RS_INVALID, "steps %" PRIu64 " to %" PRIu64 " are none",
                          request->start_step, request->stop_step);
    enum rs_status status = native_emit_begin(process, request->capture, stream, err);
    if (status != RS_OK)
        return status;
    process->capture.request_seq =
        rs_control_request(process->control, request->start_step, request->stop_step);
    refresh(process);
    return RS_OK;
}

void rs_native_stop(struct rs_native *native, uint64_t id)
{
    struct native_process *process = find(native, id);
    if (process != NULL && process->capture.stream != NULL &&
        (process->shown.state == RS_NATIVE_WAITING || process->shown.state == RS_NATIVE_ARMED ||
         process->shown.state == RS_NATIVE_RECORDING))
        (void)rs_control_request(process->control, RS_LIB_START_NEXT, 0);
}

enum rs_status rs_native_drain(struct rs_native *native, uint64_t id, struct rs_sink sink,
                               struct rs_err *err)
{
    struct native_process *process = find(native, id);
    if (process == NULL || process->capture.stream == NULL)
        return rs_err_set(err, RS_NOTFOUND, "no capture of that rank");
    refresh(process);
    if (process->shown.state == RS_NATIVE_CAPTURED && process->socket_fd >= 0)
        serve_fully(native, process);
    return native_emit(process, sink, err);
}

void rs_native_release(struct rs_native *native, uint64_t id)
{
    struct native_process *process = find(native, id);
    if (process == NULL || process->capture.stream == NULL)
        return;
    rs_native_stop(native, id);
    native_emit_end(process);
    refresh(process);
}
