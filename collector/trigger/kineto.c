/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/kineto.h"

#include "collector/trigger/kineto_ipc.h"
#include "collector/trigger/kineto_msmonitor.h"
#include "collector/trigger/kineto_socket.h"
#include "collector/trigger/process_life.h"
#include "common/base/check.h"
#include "common/base/const.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/user_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RS_LOG_TAG "kineto"
#include "common/base/log.h"

enum {
    CLIENTS_MAX = 4096, /* one node; a stranger that forks more is not served beyond it */
    SERVE_MAX = 256,    /* datagrams per call, so that the owner's loop is not starved */
    PERIOD_DEFAULT_S = 5,
    SILENT_FORGET_S = 60,  /* no poll for so long, and the process is gone: forgotten */
    REPLY_WINDOW_MS = 100, /* a client waits 40 to 80 ms for our answer */
    LOOP_TICK_MS = 1000,   /* its request loop runs at 1 Hz */
    STUCK_WRITING_S = 60,  /* a .tmp that stopped growing for so long, its process alive */
    LET_GO_S = 60,         /* busy for longer after our trace: it records for somebody else */
    GIVEN_UP_POLLS = 2,    /* so many polls say idle after the .tmp came: it was given up */
};

struct slot {
    struct rs_kineto_client client;
    struct rs_process_hold hold;
    char *config; /* ARMED: waiting for the next poll */
    size_t config_length;
    char *dir;           /* folder of its trace, as this process opens it */
    char *stem;          /* the file's name without _PID.json */
    rs_ns deadline;      /* monotonic; 0 none */
    rs_ns deliver_from;  /* monotonic; 0 at once */
    rs_ns deliver_until; /* monotonic; 0 always */
    rs_ns grew_at;       /* when trace_bytes last changed */
    uint64_t checked;    /* of the trigger's registrations */
    socklen_t address_bytes;
    struct sockaddr_un
        address;      /* of its last poll: another one is another client, perhaps after an exec */
    bool is_by_steps; /* of the capture in hand: it begins at a count of steps */
    bool went_busy;   /* a poll without the ACTIVITIES bit came after delivery */
    unsigned idle_polls; /* polls with that bit since the empty temporary file was seen */
    bool takes_none;     /* its last poll had no ACTIVITIES bit: what is sent to it is not begun */
    rs_ns written_at; /* our trace was complete and no poll with that bit has come since; 0 none */
    bool
        is_gap_unknown; /* polls may have gone to the collector before us: the next gap says nothing */
};

struct rs_kineto_trigger {
    int fd;
    int msmonitor_fds[2]; /* HOME/dynolog.sock and dynolog_data.sock; -1 none */
    char *msmonitor_home;
    struct rs_msmonitor msmonitor;
    char *socket_dir;
    char *socket_name;
    rs_ns (*monotonic)(void);
    void (*before_delivery)(void *self, const struct rs_kineto_client *client);
    void *self;
    struct slot *slots; /* by (rank, pid) */
    size_t count;
    size_t capacity;
    uint64_t
        registered; /* how many came: whoever inherited a rank is judged again when it changes */
    struct rs_kineto_client *lent; /* a copy of the clients for callers */
    size_t lent_capacity;
    struct rs_kineto_counts counts;
};

const char *rs_kineto_state_text(enum rs_kineto_state state)
{
    switch (state) {
    case RS_KINETO_IDLE:
        return "idle";
    case RS_KINETO_ARMED:
        return "armed";
    case RS_KINETO_DELIVERED:
        return "delivered";
    case RS_KINETO_RECORDING:
        return "recording";
    case RS_KINETO_WRITING:
        return "writing";
    case RS_KINETO_WRITTEN:
        return "written";
    case RS_KINETO_FAILED:
        return "failed";
    }
    return "?";
}

static bool is_in_hand(enum rs_kineto_state state)
{
    return state == RS_KINETO_ARMED || state == RS_KINETO_DELIVERED ||
           state == RS_KINETO_RECORDING || state == RS_KINETO_WRITING;
}

static const char *const msmonitor_names[] = {"dynolog.sock", "dynolog_data.sock"};

static enum rs_status open_msmonitor(struct rs_kineto_trigger *trigger, const char *home,
                                     struct rs_err *err)
{
    trigger->msmonitor_home = rs_mem_strdup(home);
    if (!trigger->msmonitor_home)
        return rs_err_set(err, RS_NOMEM, "no memory for the kineto trigger");
    enum rs_status status = RS_OK;
    for (size_t i = 0; status == RS_OK && i < 2; i++)
        status = rs_kineto_socket_open_private(home, msmonitor_names[i], &trigger->msmonitor_fds[i],
                                               err);
    return status;
}

enum rs_status rs_kineto_trigger_open(const struct rs_kineto_trigger_options *options,
                                      struct rs_kineto_trigger **trigger_p, struct rs_err *err)
{
    struct rs_kineto_trigger *trigger = rs_mem_calloc(1, sizeof *trigger);
    if (!trigger)
        return rs_err_set(err, RS_NOMEM, "no memory for the kineto trigger");
    trigger->fd = trigger->msmonitor_fds[0] = trigger->msmonitor_fds[1] = -1;
    trigger->monotonic = options->monotonic ? options->monotonic : rs_time_monotonic;
    trigger->before_delivery = options->before_delivery;
    trigger->self = options->self;
    trigger->socket_name = rs_mem_strdup(options->socket_name ? options->socket_name : "dynolog");
    trigger->socket_dir = options->socket_dir ? rs_mem_strdup(options->socket_dir) : NULL;
    enum rs_status status = RS_OK;
    if (!trigger->socket_name || (options->socket_dir && !trigger->socket_dir))
        status = rs_err_set(err, RS_NOMEM, "no memory for the kineto trigger");
    if (status == RS_OK)
        status =
            rs_kineto_socket_open(trigger->socket_dir, trigger->socket_name, &trigger->fd, err);
    if (status == RS_OK && options->msmonitor_home)
        status = open_msmonitor(trigger, options->msmonitor_home, err);
    if (status != RS_OK) {
        rs_kineto_trigger_close(&trigger);
        return status;
    }
    *trigger_p = trigger;
    return RS_OK;
}

static void drop_capture(struct slot *slot)
{
    rs_mem_free(slot->config);
    rs_mem_free(slot->dir);
    rs_mem_free(slot->stem);
    slot->config = slot->dir = slot->stem = NULL;
    slot->config_length = 0;
    slot->deadline = slot->deliver_from = slot->deliver_until = 0;
    slot->went_busy = slot->client.is_overdue = false;
    slot->idle_polls = 0;
}

void rs_kineto_trigger_close(struct rs_kineto_trigger **trigger_p)
{
    struct rs_kineto_trigger *trigger = *trigger_p;
    if (!trigger)
        return;
    for (size_t i = 0; i < trigger->count; i++) {
        drop_capture(&trigger->slots[i]);
        rs_process_release(&trigger->slots[i].hold);
    }
    if (trigger->fd >= 0)
        rs_kineto_socket_close(trigger->fd, trigger->socket_dir, trigger->socket_name);
    for (size_t i = 0; i < 2; i++)
        if (trigger->msmonitor_fds[i] >= 0)
            rs_kineto_socket_close(trigger->msmonitor_fds[i], trigger->msmonitor_home,
                                   msmonitor_names[i]);
    if (trigger->msmonitor.status_messages || trigger->msmonitor.data_messages)
        rs_log_info("from msMonitor's clients: %" PRId64 " states and %" PRId64
                    " messages of metrics (%" PRId64 " bytes), which nobody reads here",
                    trigger->msmonitor.status_messages, trigger->msmonitor.data_messages,
                    trigger->msmonitor.data_bytes);
    rs_msmonitor_fini(&trigger->msmonitor);
    rs_mem_free(trigger->msmonitor_home);
    rs_mem_free(trigger->slots);
    rs_mem_free(trigger->lent);
    rs_mem_free(trigger->socket_dir);
    rs_mem_free(trigger->socket_name);
    rs_mem_free(trigger);
    *trigger_p = NULL;
}

int rs_kineto_trigger_fd(const struct rs_kineto_trigger *trigger)
{
    return trigger->fd;
}

size_t rs_kineto_trigger_fds(const struct rs_kineto_trigger *trigger, int fds[RS_KINETO_FDS_MAX])
{
    size_t count = 0;
    fds[count++] = trigger->fd;
    for (size_t i = 0; i < 2; i++)
        if (trigger->msmonitor_fds[i] >= 0)
            fds[count++] = trigger->msmonitor_fds[i];
    return count;
}

struct rs_kineto_counts rs_kineto_trigger_counts(const struct rs_kineto_trigger *trigger)
{
    struct rs_kineto_counts counts = trigger->counts;
    counts.msmonitor_clients = (int64_t)trigger->msmonitor.count;
    counts.msmonitor_status_messages = trigger->msmonitor.status_messages;
    counts.msmonitor_data_messages = trigger->msmonitor.data_messages;
    counts.msmonitor_data_bytes = trigger->msmonitor.data_bytes;
    return counts;
}

static struct slot *find_slot(struct rs_kineto_trigger *trigger, pid_t pid)
{
    for (size_t i = 0; i < trigger->count; i++)
        if (trigger->slots[i].client.process.pid == pid)
            return &trigger->slots[i];
    return NULL;
}

static void remove_slot(struct rs_kineto_trigger *trigger, struct slot *slot)
{
    drop_capture(slot);
    rs_process_release(&slot->hold);
    const size_t index = (size_t)(slot - trigger->slots);
    trigger->registered++;
    memmove(slot, slot + 1, (trigger->count - index - 1) * sizeof *slot);
    trigger->count--;
}

static bool is_registered(void *self, pid_t pid, uint64_t start_ticks)
{
    struct rs_kineto_trigger *trigger = self;
    const struct slot *slot = find_slot(trigger, pid);
    return slot && slot->client.process.start_ticks == start_ticks;
}

/* Asked again at each poll: a trainer may register after the loader it forked, or a launcher exec. */
static void check_client(struct rs_kineto_trigger *trigger, struct rs_kineto_client *client)
{
    client->is_rank = false;
    if (!client->process.has_environ)
        client->not_rank_because = "its environment may not be read, so its rank is not known";
    else if (client->process.rank < 0)
        client->not_rank_because = "it has no rank variable (a launcher, or a single process)";
    else if (rs_process_rank_holder(&client->process, is_registered, trigger))
        client->not_rank_because = "it inherited the rank of its parent (a data loader or helper)";
    else {
        client->is_rank = true;
        client->not_rank_because = NULL;
    }
}

static int compare_slots(const void *left, const void *right)
{
    const struct rs_kineto_client *a = &((const struct slot *)left)->client;
    const struct rs_kineto_client *b = &((const struct slot *)right)->client;
    if (a->process.rank != b->process.rank)
        return a->process.rank < b->process.rank ? -1 : 1;
    return (a->process.pid > b->process.pid) - (a->process.pid < b->process.pid);
}

/* The slot of a client that has polled before, and of which nothing can have changed since. */
static struct slot *find_known(struct rs_kineto_trigger *trigger, const struct rs_kineto_peer *peer)
{
    struct slot *slot = peer->pid > 0 ? find_slot(trigger, peer->pid) : NULL;
    return slot && slot->address_bytes == peer->address_bytes &&
                   memcmp(&slot->address, &peer->address, peer->address_bytes) == 0 &&
                   rs_process_life(&slot->hold) == RS_PROCESS_LIVES
               ? slot
               : NULL;
}

/* NULL: the table is full. */
static struct slot *add_slot(struct rs_kineto_trigger *trigger, const struct rs_process *process)
{
    if (trigger->count >= CLIENTS_MAX ||
        rs_mem_grow((void **)&trigger->slots, &trigger->capacity, trigger->count + 1,
                    sizeof *trigger->slots) != RS_OK)
        return NULL;
    struct slot *slot = &trigger->slots[trigger->count++];
    *slot = (struct slot){
        .client =
            {
                .process = *process,
                .first_poll = trigger->monotonic(),
                .poll_period = (rs_dur)PERIOD_DEFAULT_S * RS_NS_PER_S,
                .trace_bytes = -1,
                .memory_at_begin_bytes = -1,
            },
    };
    rs_process_hold(&slot->hold, process->pid, process->start_ticks);
    rs_log_info("process %d registered, rank %d", (int)process->pid, process->rank);
    qsort(trigger->slots, trigger->count, sizeof *trigger->slots, compare_slots);
    trigger->registered++;
    return find_slot(trigger, process->pid);
}

/* The slot of the process that sent this, made when new. NULL: it is gone, or the table is full. */
static struct slot *register_peer(struct rs_kineto_trigger *trigger,
                                  const struct rs_kineto_peer *peer)
{
    struct rs_process process;
    const pid_t pid = peer->pid;
    struct slot *known = find_known(trigger, peer);
    if (known) {
        if (known->checked != trigger->registered)
            check_client(trigger, &known->client);
        known->checked = trigger->registered;
        return known;
    }
    if (pid <= 0 || rs_process_read(pid, &process, NULL) != RS_OK)
        return NULL;
    struct slot *slot = find_slot(trigger, pid);
    if (slot && slot->client.process.start_ticks != process.start_ticks) {
        remove_slot(trigger, slot); /* the pid was used again */
        slot = NULL;
    }
    if (!slot)
        slot = add_slot(trigger, &process);
    if (!slot)
        return NULL;
    slot->client.process = process;
    slot->address = peer->address;
    slot->address_bytes = peer->address_bytes;
    slot->checked = trigger->registered;
    check_client(trigger, &slot->client);
    return slot;
}

static void note_poll(struct rs_kineto_trigger *trigger, struct slot *slot, int32_t mask)
{
    struct rs_kineto_client *client = &slot->client;
    const rs_ns now = trigger->monotonic();
    const rs_dur gap = now - client->last_poll;
    /* A process with two clients polls twice per period: gaps below half a second say nothing. */
    if (client->last_poll && gap > RS_NS_PER_S / 2 && !slot->is_gap_unknown)
        client->poll_period = gap;
    slot->is_gap_unknown = false;
    client->last_poll = now;
    slot->takes_none = !(mask & RS_KINETO_ACTIVITIES);
    /* When its file has its name, a profiler has yet to free what it recorded: seconds on a busy machine. That is not
     * a profile of the script's own: the next capture is queued behind it. */
    if (!slot->takes_none || now - slot->written_at > (rs_dur)LET_GO_S * RS_NS_PER_S)
        slot->written_at = 0;
    client->is_busy = slot->takes_none && !slot->written_at;
    if (slot->takes_none &&
        (client->state == RS_KINETO_DELIVERED || client->state == RS_KINETO_RECORDING))
        slot->went_busy = true;
    /* A profiler makes the file when it begins, and is busy from then on; of a capture that is over between two polls none says so. One poll
     * may have been under way just then. */
    if (slot->takes_none || client->state != RS_KINETO_RECORDING)
        slot->idle_polls = 0;
    else if (gap > RS_NS_PER_S / 2)
        slot->idle_polls++;
}

static bool may_deliver(const struct slot *slot)
{
    const struct rs_kineto_client *client = &slot->client;
    return client->state == RS_KINETO_ARMED && client->is_rank && !slot->takes_none &&
           client->last_poll >= slot->deliver_from &&
           (!slot->deliver_until || client->last_poll <= slot->deliver_until);
}

static void answer_poll(struct rs_kineto_trigger *trigger, const struct rs_kineto_message *message,
                        const struct rs_kineto_peer *peer)
{
    struct rs_buf reply = {0};
    struct slot *slot = register_peer(trigger, peer);
    trigger->counts.polls++;
    if (slot)
        note_poll(trigger, slot, message->mask);
    const bool deliver = slot && may_deliver(slot);
    if (deliver)
        rs_kineto_reply_config(&reply, slot->config, slot->config_length);
    else
        rs_kineto_reply_config(&reply, "", 0);
    if (deliver && !reply.failed && trigger->before_delivery)
        trigger->before_delivery(trigger->self, &slot->client);
    if (reply.failed ||
        rs_kineto_socket_put(trigger->fd, reply.data, reply.length, peer) != RS_OK) {
        trigger->counts.unanswerable++; /* it stays armed: its next poll gets it */
    } else if (deliver) {
        trigger->counts.configs_sent++;
        slot->client.state = RS_KINETO_DELIVERED;
        slot->grew_at = trigger->monotonic();
    }
    rs_buf_fini(&reply);
}

static void answer_register(struct rs_kineto_trigger *trigger, const struct rs_kineto_peer *peer)
{
    struct rs_buf reply = {0};
    trigger->counts.registrations++;
    (void)register_peer(trigger, peer);
    int32_t instances = 0;
    for (size_t i = 0; i < trigger->count; i++)
        instances += trigger->slots[i].client.is_rank;
    rs_kineto_reply_register(&reply, instances ? instances : 1);
    if (reply.failed || rs_kineto_socket_put(trigger->fd, reply.data, reply.length, peer) != RS_OK)
        trigger->counts.unanswerable++;
    rs_buf_fini(&reply);
}

/* Only polls are answered, and never with a request: see kineto_msmonitor.h. */
static void serve_msmonitor(struct rs_kineto_trigger *trigger, int fd,
                            const struct rs_kineto_message *message,
                            const struct rs_kineto_peer *peer, size_t bytes)
{
    struct rs_buf reply = {0};
    rs_msmonitor_take(&trigger->msmonitor, peer, message, bytes, trigger->monotonic());
    if (message->kind != RS_KINETO_POLL)
        return;
    rs_kineto_reply_config(&reply, "", 0);
    if (reply.failed || rs_kineto_socket_put(fd, reply.data, reply.length, peer) != RS_OK)
        trigger->counts.unanswerable++;
    rs_buf_fini(&reply);
}

static bool is_msmonitor(const struct rs_kineto_trigger *trigger, int fd,
                         const struct rs_kineto_message *message, const struct rs_kineto_peer *peer)
{
    return fd != trigger->fd || message->kind == RS_KINETO_DATA ||
           message->kind == RS_KINETO_STATUS ||
           (message->kind == RS_KINETO_REGISTER && message->job_id == 0) ||
           rs_msmonitor_find(&trigger->msmonitor, peer);
}

static void serve_one(struct rs_kineto_trigger *trigger, int fd, struct rs_view datagram,
                      const struct rs_kineto_peer *peer)
{
    struct rs_kineto_message message;
    struct rs_err err;
    if (rs_kineto_message_parse(datagram, &message, &err) != RS_OK) {
        trigger->counts.refused_datagrams++;
        rs_log_debug("process %d: %s", (int)peer->pid, err.text);
    } else if (is_msmonitor(trigger, fd, &message, peer)) {
        serve_msmonitor(trigger, fd, &message, peer, datagram.length - RS_KINETO_HEADER_BYTES);
    } else if (message.kind == RS_KINETO_POLL) {
        answer_poll(trigger, &message, peer);
    } else {
        answer_register(trigger, peer);
    }
}

static void serve_socket(struct rs_kineto_trigger *trigger, int fd)
{
    static _Thread_local unsigned char datagram[RS_KINETO_DATAGRAM_MAX];
    for (int i = 0; i < SERVE_MAX; i++) {
        size_t length;
        struct rs_kineto_peer peer;
        const enum rs_status status =
            rs_kineto_socket_take(fd, datagram, sizeof datagram, &length, &peer);
        if (status == RS_LIMIT) {
            trigger->counts.refused_datagrams++;
            continue;
        }
        if (status != RS_OK)
            return;
        serve_one(trigger, fd, rs_view_of(datagram, length), &peer);
    }
}

void rs_kineto_trigger_serve(struct rs_kineto_trigger *trigger)
{
    int fds[RS_KINETO_FDS_MAX];
    const size_t count = rs_kineto_trigger_fds(trigger, fds);
    for (size_t i = 0; i < count; i++)
        serve_socket(trigger, fds[i]);
}

static void fail(struct slot *slot, const char *reason)
{
    slot->client.state = RS_KINETO_FAILED;
    (void)snprintf(slot->client.failure, sizeof slot->client.failure, "%s", reason);
    drop_capture(slot);
}

/* Looks for STEM_<digits>.json[.tmp] in the capture's folder: the pid in the name is the one of the client's own
 * namespace, so it cannot be computed. */
static bool find_file(const struct slot *slot, bool temporary, char *path, size_t path_bytes,
                      int64_t *bytes)
{
    const char *suffix = temporary ? ".json.tmp" : ".json";
    const size_t stem = strlen(slot->stem);
    struct rs_held held;
    if (rs_file_hold(slot->dir, RS_HOLD_FOLDER | RS_HOLD_ROOT_LINKS, &held, NULL) < 0)
        return false;
    DIR *dir = fdopendir(held.fd);
    if (!dir) {
        rs_held_release(&held);
        return false;
    }
    bool found = false;
    struct dirent *entry;
    while (!found && (entry = rs_dir_next(dir))) {
        const char *name = entry->d_name;
        if (strncmp(name, slot->stem, stem) != 0 || name[stem] != '_')
            continue;
        const size_t digits = strspn(name + stem + 1, "0123456789");
        if (!digits || strcmp(name + stem + 1 + digits, suffix) != 0)
            continue;
        struct stat info;
        if (fstatat(dirfd(dir), name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode)) {
            (void)snprintf(path, path_bytes, "%s/%s", slot->dir, name);
            *bytes = info.st_size;
            found = true;
        }
    }
    (void)closedir(dir);
    return found;
}

/* What a process that has ended left half-written is nobody's trace. */
static void remove_temporary(const struct slot *slot)
{
    char path[sizeof slot->client.trace_path];
    struct rs_held held;
    struct rs_err err = {0};
    int64_t bytes;
    if (!slot->dir || !find_file(slot, true, path, sizeof path, &bytes))
        return;
    enum rs_status status = rs_file_hold(path, RS_HOLD_ROOT_LINKS, &held, &err);
    if (status == RS_OK) {
        status = rs_held_remove(path, &held, RS_HOLD_ROOT_LINKS, &err);
        rs_held_release(&held);
    }
    if (status < 0)
        rs_log_warn("what its process left behind stays: %s", err.text);
}

static void fail_ended(struct slot *slot)
{
    char how[80];
    const bool is_armed = slot->client.state == RS_KINETO_ARMED;
    rs_process_end_text(&slot->hold, how, sizeof how);
    remove_temporary(slot);
    fail(slot, is_armed ? "the process ended before it took the request"
                        : "the process ended before its trace was complete");
    const size_t used = strlen(slot->client.failure);
    if (*how)
        (void)snprintf(slot->client.failure + used, sizeof slot->client.failure - used, ": %s",
                       how);
}

static void watch_files(struct slot *slot, rs_ns now)
{
    struct rs_kineto_client *client = &slot->client;
    int64_t bytes;
    if (find_file(slot, false, client->trace_path, sizeof client->trace_path, &bytes)) {
        client->trace_bytes = bytes;
        client->state = RS_KINETO_WRITTEN;
        client->is_busy = false; /* what its last poll said was of this capture */
        slot->written_at = now;
        drop_capture(slot);
        return;
    }
    char path[sizeof client->trace_path];
    if (!find_file(slot, true, path, sizeof path, &bytes))
        return;
    if (bytes != client->trace_bytes)
        slot->grew_at = now;
    client->trace_bytes = bytes;
    if (client->memory_at_begin_bytes < 0)
        client->memory_at_begin_bytes = rs_process_memory(client->process.pid);
    client->state = bytes > 0 ? RS_KINETO_WRITING : RS_KINETO_RECORDING;
}

/* The common start can no longer be made. */
static const char *why_not_told(const struct slot *slot)
{
    return slot->takes_none
               ? "it was busy with another profile until the common start could no longer be made"
               : "it did not ask for work before the common start could no longer be made";
}

/* Its deadline has passed. */
static const char *why_late(const struct slot *slot)
{
    if (slot->client.state == RS_KINETO_DELIVERED)
        return "it took the request and never began: the start time had passed, another request "
               "was pending, or the folder could not be written";
    if (slot->client.state != RS_KINETO_ARMED)
        return "its trace was not complete in time";
    return slot->takes_none
               ? "it was busy with another profile until the time for the capture was over"
               : "it did not poll in time";
}

static void check_capture(struct slot *slot, bool alive, rs_ns now)
{
    struct rs_kineto_client *client = &slot->client;
    if (client->state != RS_KINETO_ARMED)
        watch_files(slot, now);
    if (!is_in_hand(client->state))
        return;
    if (!alive)
        fail_ended(slot);
    else if (client->state == RS_KINETO_RECORDING &&
             ((slot->went_busy && !slot->takes_none) || slot->idle_polls >= GIVEN_UP_POLLS))
        fail(slot, "the profiler gave up the capture: the script's own profiler started, or it was "
                   "cancelled");
    else if (client->state == RS_KINETO_WRITING &&
             now - slot->grew_at > (rs_dur)STUCK_WRITING_S * RS_NS_PER_S)
        fail(
            slot,
            "its trace stopped growing while the process runs: stuck in writing, as a process that "
            "leaves main during a write does; end it by hand");
    else if (client->state == RS_KINETO_ARMED && slot->deliver_until && now > slot->deliver_until)
        fail(slot, why_not_told(slot));
    else if (slot->deadline && now > slot->deadline && slot->is_by_steps &&
             (client->state == RS_KINETO_DELIVERED || client->state == RS_KINETO_RECORDING))
        client->is_overdue = true;
    else if (slot->deadline && now > slot->deadline)
        fail(slot, why_late(slot));
}

void rs_kineto_trigger_tick(struct rs_kineto_trigger *trigger)
{
    const rs_ns now = trigger->monotonic();
    rs_msmonitor_tick(&trigger->msmonitor, now);
    for (size_t i = trigger->count; i-- > 0;) {
        struct slot *slot = &trigger->slots[i];
        const bool alive = rs_process_life(&slot->hold) != RS_PROCESS_ENDED;
        slot->client.is_gone = !alive;
        /* A trainer that registered behind a helper of its own takes the rank from that, whenever that polls again. */
        if (alive && slot->checked != trigger->registered) {
            check_client(trigger, &slot->client);
            slot->checked = trigger->registered;
        }
        if (is_in_hand(slot->client.state))
            check_capture(slot, alive, now);
        const bool silent = now - slot->client.last_poll > (rs_dur)SILENT_FORGET_S * RS_NS_PER_S;
        if (!alive && silent && !is_in_hand(slot->client.state))
            remove_slot(trigger, slot);
    }
}

const struct rs_kineto_client *rs_kineto_trigger_clients(const struct rs_kineto_trigger *trigger,
                                                         size_t *count_p)
{
    /* The copy is a cache that no caller can see through: the trigger itself does not change. */
    struct rs_kineto_trigger *cache = rs_const_away(trigger);
    if (rs_mem_grow((void **)&cache->lent, &cache->lent_capacity, trigger->count,
                    sizeof *cache->lent) != RS_OK) {
        *count_p = 0;
        return NULL;
    }
    for (size_t i = 0; i < trigger->count; i++)
        cache->lent[i] = trigger->slots[i].client;
    *count_p = trigger->count;
    return cache->lent;
}

rs_ns rs_kineto_trigger_next_poll(const struct rs_kineto_trigger *trigger,
                                  const struct rs_kineto_client *client)
{
    const rs_dur since = trigger->monotonic() - client->last_poll;
    return rs_time_realtime() + (since < client->poll_period ? client->poll_period - since : 0);
}

rs_dur rs_kineto_trigger_lead(int32_t warmup_s)
{
    return (rs_dur)(REPLY_WINDOW_MS + LOOP_TICK_MS) * RS_NS_PER_MS + (rs_dur)warmup_s * RS_NS_PER_S;
}

int64_t rs_kineto_trigger_earliest_ms(const struct rs_kineto_trigger *trigger,
                                      const struct rs_kineto_client *client, int32_t warmup_s)
{
    return (rs_kineto_trigger_next_poll(trigger, client) + rs_kineto_trigger_lead(warmup_s)) /
               RS_NS_PER_MS +
           1;
}

/* Creates ROOT/CAPTURE/u<uid> for the rank's user alone. The path is the one the rank sees. */
static enum rs_status prepare_dir(const struct rs_process *process, const char *dir,
                                  struct rs_err *err)
{
    const enum rs_status status = rs_file_make_dirs(dir, 0755, err);
    return status == RS_OK ? rs_process_give_folder(dir, process, err) : status;
}

/* Where its trace will be: the folder and the stem of the name. */
static enum rs_status name_files(const struct rs_kineto_arm *arm, const struct rs_process *process,
                                 struct slot *fresh, struct rs_err *err)
{
    struct rs_buf dir = {0}, stem = {0};
    rs_buf_printf(&dir, "%s/%s/u%u", arm->trace_root, arm->capture_id, (unsigned)process->uid);
    rs_buf_printf(&stem, "rank%d", process->rank);
    fresh->dir = dir.failed ? NULL : rs_mem_strdup(rs_buf_text(&dir));
    fresh->stem = stem.failed ? NULL : rs_mem_strdup(rs_buf_text(&stem));
    rs_buf_fini(&dir);
    rs_buf_fini(&stem);
    return fresh->dir && fresh->stem ? RS_OK
                                     : rs_err_set(err, RS_NOMEM, "no memory to prepare a capture");
}

static enum rs_status prepare_capture(const struct rs_kineto_arm *arm,
                                      const struct rs_process *process, struct slot *fresh,
                                      struct rs_err *err)
{
    struct rs_buf file = {0}, text = {0};
    struct rs_kineto_config config = arm->config;
    enum rs_status status = name_files(arm, process, fresh, err);
    if (status == RS_OK)
        rs_buf_printf(&file, "%s/%s.json", fresh->dir, fresh->stem);
    config.log_file = rs_buf_text(&file);
    config.trace_id = arm->capture_id;
    if (status == RS_OK && file.failed)
        status = rs_err_set(err, RS_NOMEM, "no memory to prepare a capture");
    if (status == RS_OK && !rs_kineto_path_is_allowed(config.log_file, process->trace_dir))
        status = rs_err_set(err, RS_INVALID,
                            "rank %d writes traces below /tmp or its KINETO_ONDEMAND_TRACE_DIR "
                            "only, not to %s",
                            process->rank, config.log_file);
    if (status == RS_OK)
        status = rs_kineto_config_text(&config, &text, err);
    if (status == RS_OK)
        status = prepare_dir(process, fresh->dir, err);
    if (status == RS_OK) {
        fresh->config = rs_mem_strndup((const char *)text.data, text.length);
        fresh->config_length = text.length;
        if (!fresh->config)
            status = rs_err_set(err, RS_NOMEM, "no memory to prepare a capture");
    }
    rs_buf_fini(&file);
    rs_buf_fini(&text);
    return status;
}

static void begin_capture(struct rs_kineto_trigger *trigger, struct slot *slot,
                          const struct slot *fresh, const struct rs_kineto_arm *arm)
{
    struct rs_kineto_client *client = &slot->client;
    drop_capture(slot);
    slot->dir = fresh->dir;
    slot->stem = fresh->stem;
    slot->config = fresh->config;
    slot->config_length = fresh->config_length;
    const rs_ns monotonic = trigger->monotonic();
    const rs_ns realtime = rs_time_realtime();
    slot->is_by_steps = arm->config.iterations > 0;
    slot->deadline = arm->deadline ? monotonic + arm->deadline : 0;
    slot->deliver_from = arm->deliver_from ? monotonic + (arm->deliver_from - realtime) : 0;
    slot->deliver_until = arm->deliver_until ? monotonic + (arm->deliver_until - realtime) : 0;
    client->state = RS_KINETO_ARMED;
    client->trace_bytes = client->memory_at_begin_bytes = -1;
    client->trace_path[0] = client->failure[0] = '\0';
    (void)snprintf(client->capture_id, sizeof client->capture_id, "%s", arm->capture_id);
}

enum rs_status rs_kineto_trigger_arm(struct rs_kineto_trigger *trigger,
                                     const struct rs_kineto_arm *arm, struct rs_err *err)
{
    struct slot *slot = find_slot(trigger, arm->pid);
    if (!slot)
        return rs_err_set(err, RS_NOTFOUND, "process %d has not registered", (int)arm->pid);
    struct rs_kineto_client *client = &slot->client;
    if (client->is_gone)
        return rs_err_set(err, RS_NOTFOUND, "process %d has ended", (int)arm->pid);
    if (!client->is_rank)
        return rs_err_set(err, RS_REFUSED, "process %d is no rank: %s", (int)arm->pid,
                          client->not_rank_because);
    if (is_in_hand(client->state))
        return rs_err_set(err, RS_EXISTS, "rank %d is %s for capture %s", client->process.rank,
                          rs_kineto_state_text(client->state), client->capture_id);
    if (client->is_busy)
        return rs_err_set(err, RS_REFUSED, "rank %d is busy with a profile of its own",
                          client->process.rank);
    struct slot fresh = {0};
    const enum rs_status status = prepare_capture(arm, &client->process, &fresh, err);
    if (status != RS_OK) {
        drop_capture(&fresh);
        return status;
    }
    begin_capture(trigger, slot, &fresh, arm);
    return RS_OK;
}

/* What was delivered by the collector before us: only the folder is looked at. */
static enum rs_status adopt_delivered(struct rs_kineto_trigger *trigger, struct slot *slot,
                                      const struct rs_kineto_arm *arm, struct rs_err *err)
{
    struct slot fresh = {0};
    const enum rs_status status = name_files(arm, &slot->client.process, &fresh, err);
    if (status != RS_OK) {
        drop_capture(&fresh);
        return status;
    }
    begin_capture(trigger, slot, &fresh, arm);
    slot->client.state = RS_KINETO_DELIVERED;
    slot->grew_at = trigger->monotonic();
    return RS_OK;
}

enum rs_status rs_kineto_trigger_adopt(struct rs_kineto_trigger *trigger,
                                       const struct rs_kineto_adopt *adopt, struct rs_err *err)
{
    struct rs_process process;
    const struct rs_process *known = &adopt->process;
    const bool lives = rs_process_read(known->pid, &process, NULL) == RS_OK &&
                       process.start_ticks == known->start_ticks;
    struct slot *slot = find_slot(trigger, known->pid);
    if (slot && slot->client.process.start_ticks != known->start_ticks)
        return rs_err_set(err, RS_NOTFOUND, "its process ended, and its pid is another's now");
    if (!slot)
        slot = add_slot(trigger, lives ? &process : known);
    if (!slot)
        return rs_err_set(err, RS_NOMEM, "no memory for a process");
    struct rs_kineto_client *client = &slot->client;
    if (is_in_hand(client->state))
        return rs_err_set(err, RS_EXISTS, "rank %d is %s for capture %s", client->process.rank,
                          rs_kineto_state_text(client->state), client->capture_id);
    client->is_rank = true;
    client->is_gone = rs_process_life(&slot->hold) == RS_PROCESS_ENDED;
    client->poll_period = adopt->poll_period > 0 ? adopt->poll_period : client->poll_period;
    client->last_poll = trigger->monotonic() - (rs_time_realtime() - adopt->last_poll);
    slot->is_gap_unknown = true;
    return adopt->is_delivered ? adopt_delivered(trigger, slot, &adopt->arm, err)
                               : rs_kineto_trigger_arm(trigger, &adopt->arm, err);
}

enum rs_status rs_kineto_trigger_cancel(struct rs_kineto_trigger *trigger, pid_t pid)
{
    struct slot *slot = find_slot(trigger, pid);
    if (!slot)
        return RS_NOTFOUND;
    if (slot->client.state != RS_KINETO_ARMED)
        return is_in_hand(slot->client.state) ? RS_AGAIN : RS_OK;
    drop_capture(slot);
    slot->client.state = RS_KINETO_IDLE;
    return RS_OK;
}
