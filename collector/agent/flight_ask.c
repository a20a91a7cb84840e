/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the ranks of this node. The ways, in their order, stand in flight_ask.h.
 */
#include "collector/agent/flight_ask.h"

#include "collector/source/flight.h"
#include "collector/trigger/process.h"
#include "collector/trigger/torch.h"
#include "common/base/as_user.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/time.h"
#include "common/curl/curl.h"
#include "common/flight/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ANSWER_MAX_BYTES = 256 << 20,
    ENVIRON_MAX_BYTES = 1 << 20,
    LIST_MS = 1000,
    DUMP_MS = 4000,
    PIPE_MS = 4000,
    NODE_MS = 4000,
    THREADS_MAX = 16,
    RANKS_MAX = 4096
};

const char *rs_flight_way_text(enum rs_flight_way way)
{
    switch (way) {
    case RS_FLIGHT_WAY_NONE:
        return "none";
    case RS_FLIGHT_WAY_SOCKET:
        return "control plane";
    case RS_FLIGHT_WAY_PIPE:
        return "dump pipe";
    case RS_FLIGHT_WAY_FILE:
        return "file";
    }
    return "none";
}

/* --- as the rank's user ------------------------------------------------------------------------------------------- */

/* Names of sockets, pipes and files are the job's to choose, and links may stand there: they are opened with its user's rights. */
static enum rs_status begin_as(const struct rs_flight_offer *offer, struct rs_as_user *scope)
{
    struct rs_user user;
    rs_user_of_process(offer->pid, offer->uid, &user);
    return rs_as_user_begin(&user, scope, NULL);
}

/* --- the control plane ------------------------------------------------------------------------------------------ */

static size_t on_data(char *data, size_t size, size_t count, void *self)
{
    struct rs_buf *buf = self;
    if (buf->length + size * count > ANSWER_MAX_BYTES)
        return 0; /* more than any recorder has: curl ends with an error */
    rs_buf_bytes(buf, data, size * count);
    return buf->failed ? 0 : size * count;
}

/* What is left of a limit; 0: nothing. */
static long left_ms(rs_ns until, long most)
{
    const rs_dur left = (until - rs_time_monotonic()) / RS_NS_PER_MS;
    return left <= 0 ? 0 : left < most ? (long)left : most;
}

/* GET, or POST when `is_post`. RS_OK only for an answer 200. RS_TIMEOUT: the other side took the question and said nothing. */
static enum rs_status http_over(const struct rs_flight_offer *offer, const char *socket_path,
                                const char *path, bool is_post, long limit_ms,
                                struct rs_buf *answer)
{
    char url[160];
    struct rs_as_user scope;
    if (limit_ms <= 0)
        return RS_TIMEOUT;
    long code = 0;
    CURL *curl = curl_easy_init();
    if (!curl)
        return RS_NOMEM;
    (void)snprintf(url, sizeof url, "http://localhost/handler/%s", path);
    rs_buf_reset(answer);
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket_path);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, limit_ms);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    (void)curl_easy_setopt(curl, CURLOPT_PROXY, "");
    if (is_post) {
        (void)curl_easy_setopt(curl, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
    }
    if (begin_as(offer, &scope) < 0) {
        curl_easy_cleanup(curl);
        return RS_UNREACHABLE;
    }
    const CURLcode done = curl_easy_perform(curl);
    rs_as_user_end(&scope);
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_cleanup(curl);
    if (answer->failed)
        return RS_NOMEM;
    if (done == CURLE_OPERATION_TIMEDOUT)
        return RS_TIMEOUT;
    return done == CURLE_OK && code == 200 ? RS_OK : RS_UNREACHABLE;
}

/* A server that is torch's: its list names the handler that we need. */
static bool is_worker_server(const struct rs_flight_offer *offer, const char *socket_path,
                             rs_ns until, bool *is_silent_p)
{
    struct rs_buf answer = {0};
    const enum rs_status status =
        http_over(offer, socket_path, "", false, left_ms(until, LIST_MS), &answer);
    const bool is_one =
        status == RS_OK && strstr(rs_buf_text(&answer), "\"fr_trace_json\"") != NULL;
    *is_silent_p = status == RS_TIMEOUT;
    rs_buf_fini(&answer);
    return is_one;
}

/* The inode of "socket:[123]". */
static uint64_t socket_inode(const char *target)
{
    return strncmp(target, "socket:[", 8) == 0 ? strtoull(target + 8, NULL, 10) : 0;
}

struct inodes {
    uint64_t items[1024];
    size_t count;
};

static void list_sockets(pid_t pid, struct inodes *inodes)
{
    char folder[64], path[400], target[64];
    (void)snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(folder);
    for (const struct dirent *item = dir ? rs_dir_next(dir) : NULL; item; item = rs_dir_next(dir)) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        const ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        const uint64_t inode = socket_inode(target);
        if (inode && inodes->count < sizeof inodes->items / sizeof inodes->items[0])
            inodes->items[inodes->count++] = inode;
    }
    if (dir)
        (void)closedir(dir);
}

/* Listening stream sockets of the process that have a name in its file system; the first that answers as torch does. */
static void find_socket(pid_t pid, rs_ns until, struct rs_flight_offer *offer)
{
    enum { ACCEPTS = 0x10000 }; /* __SO_ACCEPTCON, in the Flags column */
    struct inodes inodes = {.count = 0};
    char name[64], line[1024], path[400], full[RS_FLIGHT_PATH_BYTES];
    list_sockets(pid, &inodes);
    (void)snprintf(name, sizeof name, "/proc/%d/net/unix", (int)pid);
    FILE *file = fopen(name, "re");
    while (file && !offer->socket[0] && fgets(line, sizeof line, file)) {
        unsigned flags, type;
        uint64_t inode;
        /* Num: RefCount Protocol Flags Type St Inode Path */
        /* NOLINTNEXTLINE(cert-err34-c): lines of the kernel; what does not fit is left out */
        if (sscanf(line, "%*s %*x %*x %x %x %*x %" SCNu64 " %399s", &flags, &type, &inode, path) !=
                4 ||
            !(flags & ACCEPTS) || type != 1 || path[0] != '/')
            continue;
        for (size_t i = 0; i < inodes.count; i++) {
            if (inodes.items[i] != inode)
                continue;
            /* Short if it can be: an address holds 108 bytes. */
            (void)snprintf(full, sizeof full, "/proc/%d/root%s", (int)pid, path);
            if (strlen(full) >= 108)
                (void)snprintf(full, sizeof full, "%s", path);
            bool is_silent;
            if (is_worker_server(offer, full, until, &is_silent))
                (void)snprintf(offer->socket, sizeof offer->socket, "%s", full);
            else if (is_silent)
                (void)snprintf(offer->silent, sizeof offer->silent, "%s", path);
        }
    }
    if (file)
        (void)fclose(file);
}

/* --- files and pipes -------------------------------------------------------------------------------------------- */

struct settings { /* of the process' environment; each lives in `bytes` */
    struct rs_buf bytes;
    const char *temp_file, *pipe_file, *buffer_size, *home, *cache;
};

static const char *variable(const struct rs_buf *bytes, const char *name)
{
    const size_t length = strlen(name);
    const char *text = (const char *)bytes->data;
    for (size_t at = 0; at < bytes->length; at += strnlen(text + at, bytes->length - at) + 1)
        if (bytes->length - at > length && memcmp(text + at, name, length) == 0 &&
            text[at + length] == '=')
            return text + at + length + 1;
    return NULL;
}

static void read_settings(pid_t pid, struct settings *settings)
{
    char path[64];
    struct rs_err err = {0};
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    if (rs_file_read(path, ENVIRON_MAX_BYTES, &settings->bytes, &err) != RS_OK)
        return;
    (void)rs_buf_text(&settings->bytes); /* a NUL behind the last */
    const struct rs_buf *bytes = &settings->bytes;
    settings->temp_file = variable(bytes, "TORCH_FR_DUMP_TEMP_FILE");
    if (!settings->temp_file)
        settings->temp_file = variable(bytes, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE");
    settings->pipe_file = variable(bytes, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE");
    settings->buffer_size = variable(bytes, "TORCH_FR_BUFFER_SIZE");
    if (!settings->buffer_size)
        settings->buffer_size = variable(bytes, "TORCH_NCCL_TRACE_BUFFER_SIZE");
    settings->home = variable(bytes, "HOME");
    settings->cache = variable(bytes, "XDG_CACHE_HOME");
}

/* Is it there, a plain file, and younger than the process? */
static bool is_of(pid_t pid, const char *path)
{
    struct stat file, process;
    char proc[64];
    (void)snprintf(proc, sizeof proc, "/proc/%d", (int)pid);
    return stat(proc, &process) == 0 && lstat(path, &file) == 0 && S_ISREG(file.st_mode) &&
           file.st_size > 0 && file.st_mtim.tv_sec >= process.st_ctim.tv_sec;
}

static void find_file(pid_t pid, int32_t rank, const struct settings *settings,
                      struct rs_flight_offer *offer)
{
    char names[4][RS_FLIGHT_PATH_BYTES] = {"", "", "", ""};
    if (settings->temp_file)
        (void)snprintf(names[0], sizeof names[0], "/proc/%d/root%.400s%" PRId32, (int)pid,
                       settings->temp_file, rank);
    if (settings->cache && *settings->cache)
        (void)snprintf(names[1], sizeof names[1],
                       "/proc/%d/root%.300s/torch/comm_lib_trace_rank_%" PRId32, (int)pid,
                       settings->cache, rank);
    if (settings->home)
        (void)snprintf(names[2], sizeof names[2],
                       "/proc/%d/root%.300s/.cache/torch/comm_lib_trace_rank_%" PRId32, (int)pid,
                       settings->home, rank);
    (void)snprintf(names[3], sizeof names[3], "/proc/%d/root/tmp/nccl_trace_rank_%" PRId32,
                   (int)pid, rank);
    for (size_t i = 0; i < 4 && !offer->has_file; i++) {
        if (!names[i][0])
            continue;
        if (!offer->file[0])
            (void)snprintf(offer->file, sizeof offer->file, "%.511s", names[i]);
        if (is_of(pid, names[i])) {
            (void)snprintf(offer->file, sizeof offer->file, "%.511s", names[i]);
            offer->has_file = true;
        }
    }
}

static void find_pipe(const struct settings *settings, struct rs_flight_offer *offer)
{
    struct stat about;
    if (settings->pipe_file)
        (void)snprintf(offer->pipe, sizeof offer->pipe, "/proc/%d/root%.400s%" PRId32 ".pipe",
                       (int)offer->pid, settings->pipe_file, offer->rank);
    if (offer->pipe[0] && (lstat(offer->pipe, &about) != 0 || !S_ISFIFO(about.st_mode)))
        offer->pipe[0] = '\0';
}

static void find_files(const struct settings *settings, struct rs_flight_offer *offer)
{
    struct rs_as_user scope;
    if (begin_as(offer, &scope) < 0)
        return;
    find_file(offer->pid, offer->rank, settings, offer);
    find_pipe(settings, offer);
    rs_as_user_end(&scope);
}

static enum rs_status look(pid_t pid, rs_ns until, struct rs_flight_offer *offer_p,
                           struct rs_err *err)
{
    struct rs_process process;
    struct settings settings = {{0}, NULL, NULL, NULL, NULL, NULL};
    const enum rs_status status = rs_process_read(pid, &process, err);
    if (status != RS_OK)
        return status;
    *offer_p = (struct rs_flight_offer){.pid = pid, .uid = process.uid, .rank = process.rank};
    (void)snprintf(offer_p->run, sizeof offer_p->run, "%s", process.run);
    read_settings(pid, &settings);
    offer_p->is_off = settings.buffer_size && strcmp(settings.buffer_size, "0") == 0;
    find_socket(pid, until, offer_p);
    find_files(&settings, offer_p);
    offer_p->way = offer_p->is_off      ? RS_FLIGHT_WAY_NONE
                   : offer_p->socket[0] ? RS_FLIGHT_WAY_SOCKET
                   : offer_p->pipe[0]   ? RS_FLIGHT_WAY_PIPE
                   : offer_p->has_file  ? RS_FLIGHT_WAY_FILE
                                        : RS_FLIGHT_WAY_NONE;
    if (offer_p->is_off)
        (void)snprintf(offer_p->why, sizeof offer_p->why,
                       "its recorder is off (TORCH_FR_BUFFER_SIZE=0): leave that variable unset");
    else if (offer_p->way == RS_FLIGHT_WAY_NONE && offer_p->silent[0])
        (void)snprintf(offer_p->why, sizeof offer_p->why,
                       "it listens on %.200s and gave no answer there in time: it is stopped, or "
                       "this socket is no worker server of torch",
                       offer_p->silent);
    else if (offer_p->way == RS_FLIGHT_WAY_NONE)
        (void)snprintf(
            offer_p->why, sizeof offer_p->why,
            "it opens no worker server and no dump pipe, and has written no dump: start the job "
            "with rankscope run (NCCL: TORCH_NCCL_DEBUG_INFO_PIPE_FILE), or open "
            "torch.distributed's _WorkerServer on a unix socket in it");
    rs_buf_fini(&settings.bytes);
    return RS_OK;
}

enum rs_status rs_flight_offer(pid_t pid, struct rs_flight_offer *offer_p, struct rs_err *err)
{
    return look(pid, rs_time_monotonic() + NODE_MS * (rs_dur)RS_NS_PER_MS, offer_p, err);
}

/* --- asking ----------------------------------------------------------------------------------------------------- */

struct asking {
    struct rs_flight_reader *reader;
    struct rs_flight_set *set;
    const char *keep_dir;
    const char *host;
    rs_ns until; /* monotonic */
};

static enum rs_status keep(const struct asking *asking, const struct rs_flight_offer *offer,
                           const struct rs_buf *dump, struct rs_err *err)
{
    char name[400];
    if (!asking->keep_dir)
        return RS_OK;
    const bool is_json = dump->length && dump->data[0] == '{';
    (void)snprintf(name, sizeof name, "%s_rank_%" PRId32 "%s", asking->host, offer->rank,
                   is_json ? ".json" : "");
    char *path = rs_file_join(asking->keep_dir, name);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory");
    const enum rs_status status = rs_file_replace(path, dump->data, dump->length, false, err);
    rs_mem_free(path);
    return status;
}

/* The dump that was just read belongs to this rank and was made now. */
static enum rs_status settle(const struct asking *asking, const struct rs_flight_offer *offer,
                             int64_t taken_ns)
{
    struct rs_flight_dump *dump = &asking->set->dumps[asking->set->dump_count - 1];
    char *host = rs_mem_strdup(asking->host);
    if (!host)
        return RS_NOMEM;
    rs_mem_free(dump->host);
    dump->host = host;
    dump->rank = offer->rank;
    dump->pid = (int32_t)offer->pid;
    dump->rank_source = RS_FLIGHT_RANK_ASKED;
    dump->taken_ns = taken_ns;
    dump->is_taken_known = true;
    return RS_OK;
}

/* RS_AGAIN: it has nothing to give in this way. */
static enum rs_status take(const struct asking *asking, const struct rs_flight_offer *offer,
                           const struct rs_buf *bytes, const char *path, int64_t taken_ns,
                           struct rs_err *err)
{
    struct rs_err said = {0};
    enum rs_status status =
        rs_flight_read(asking->reader, bytes->data, bytes->length, path, asking->set, &said);
    if (status < 0)
        return status == RS_NOMEM ? rs_err_set(err, status, "%s", said.text) : RS_AGAIN;
    if (!asking->set->dumps[asking->set->dump_count - 1].entry_count) {
        rs_flight_drop_last(asking->set);
        return RS_AGAIN;
    }
    if (settle(asking, offer, taken_ns) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory");
    return keep(asking, offer, bytes, err);
}

/* faulthandler's text: the thread with the deepest Python is the program's. Lines become frames as a recorder has them. */
static char *frames_of_traceback(const char *text)
{
    struct rs_buf best = {0}, now = {0};
    size_t best_lines = 0, lines = 0;
    for (const char *line = text; *line;) {
        const size_t length = strcspn(line, "\n");
        char file[400], function[160];
        int number;
        if (length < 1000 &&
            /* NOLINTNEXTLINE(cert-err34-c): a line of Python's; what does not fit is left out */
            sscanf(line, "  File \"%399[^\"]\", line %d in %159[^\n]", file, &number, function) ==
                3) {
            rs_buf_printf(&now, "%s%s (%s:%d)", lines++ ? "\n" : "", function, file, number);
        } else if (length == 0 || strncmp(line, "Thread", 6) == 0) {
            lines = 0;
            rs_buf_reset(&now);
        }
        if (lines > best_lines) {
            best_lines = lines;
            rs_buf_reset(&best);
            rs_buf_bytes(&best, now.data, now.length);
        }
        line += length + (line[length] == '\n');
    }
    char *frames = best_lines && !best.failed ? rs_mem_strdup(rs_buf_text(&best)) : NULL;
    rs_buf_fini(&best);
    rs_buf_fini(&now);
    return frames;
}

static enum rs_status ask_socket(const struct asking *asking, const struct rs_flight_offer *offer,
                                 struct rs_err *err)
{
    static const char *const requests[] = {
        "dump_nccl_trace_json", "fr_trace_json?backend=nccl-legacy", "fr_trace_json?backend=gloo",
        "fr_trace_json?backend=xccl"};
    struct rs_buf answer = {0};
    enum rs_status status = RS_AGAIN;
    for (size_t i = 0; i < sizeof requests / sizeof requests[0] && status == RS_AGAIN; i++) {
        const int64_t now = rs_time_realtime();
        if (http_over(offer, offer->socket, requests[i], true, left_ms(asking->until, DUMP_MS),
                      &answer) == RS_OK)
            status = take(asking, offer, &answer, offer->socket, now, err);
    }
    if (status == RS_OK && http_over(offer, offer->socket, "dump_traceback", true,
                                     left_ms(asking->until, LIST_MS), &answer) == RS_OK)
        asking->set->dumps[asking->set->dump_count - 1].stack =
            frames_of_traceback(rs_buf_text(&answer));
    rs_buf_fini(&answer);
    return status;
}

static enum rs_status ask_file(const struct asking *asking, const struct rs_flight_offer *offer,
                               struct rs_err *err)
{
    struct rs_buf bytes = {0};
    struct rs_err said = {0};
    struct stat about;
    struct rs_as_user scope;
    enum rs_status status = begin_as(offer, &scope);
    if (status < 0)
        return RS_AGAIN;
    const bool is_read =
        stat(offer->file, &about) == 0 &&
        rs_file_read_regular(offer->file, ANSWER_MAX_BYTES, &bytes, &said) == RS_OK;
    rs_as_user_end(&scope);
    status = RS_AGAIN;
    if (is_read)
        status = take(asking, offer, &bytes, offer->file, rs_time_of(&about.st_mtim), err);
    rs_buf_fini(&bytes);
    return status;
}

enum rs_status rs_flight_take_left(int fd, const struct rs_flight_offer *offer, const char *host,
                                   struct rs_flight_set *set, struct rs_err *err)
{
    struct asking asking = {.set = set, .host = host};
    struct rs_buf bytes = {0};
    struct rs_err said = {0};
    struct stat about;
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd); /* from its beginning, each time */
    if (rs_flight_reader_new(&asking.reader) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory");
    enum rs_status status = RS_AGAIN;
    if (fstat(fd, &about) == 0 &&
        rs_file_read_regular(path, ANSWER_MAX_BYTES, &bytes, &said) == RS_OK)
        status = take(&asking, offer, &bytes, offer->file, rs_time_of(&about.st_mtim), err);
    if (status == RS_OK)
        set->dumps[set->dump_count - 1].pid = 0; /* nobody can be looked at any more */
    rs_buf_fini(&bytes);
    rs_flight_reader_free(&asking.reader);
    return status;
}

/* One byte into the pipe: a pipe that it is, and no file or device that somebody put in its place. */
static bool send_byte(const char *path)
{
    struct stat about;
    const int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    const bool is_sent =
        fd >= 0 && fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode) && write(fd, "1", 1) == 1;
    if (fd >= 0)
        (void)close(fd);
    return is_sent;
}

/* The file appears whole or grows: it can be read when its size rests. false: it did not appear. */
static bool make_dump(const struct asking *asking, const struct rs_flight_offer *offer)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    struct stat before = {0}, now = {0};
    (void)stat(offer->file, &before);
    const bool is_sent = send_byte(offer->pipe);
    off_t size = -1;
    for (int waited = 0; is_sent && waited < PIPE_MS && left_ms(asking->until, 1); waited += 50) {
        (void)nanosleep(&pause, NULL);
        if (stat(offer->file, &now) != 0 || (now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
                                             now.st_mtim.tv_nsec == before.st_mtim.tv_nsec))
            continue;
        if (now.st_size && now.st_size == size)
            return true;
        size = now.st_size;
    }
    return false;
}

static enum rs_status ask_pipe(const struct asking *asking, const struct rs_flight_offer *offer,
                               struct rs_err *err)
{
    struct rs_as_user scope;
    if (begin_as(offer, &scope) < 0)
        return RS_AGAIN;
    const bool is_there = make_dump(asking, offer);
    rs_as_user_end(&scope);
    return is_there ? ask_file(asking, offer, err) : RS_AGAIN;
}

static enum rs_status ask(const struct asking *asking, struct rs_flight_offer *offer,
                          struct rs_err *err)
{
    enum rs_status status = RS_AGAIN;
    if (offer->socket[0])
        status = ask_socket(asking, offer, err);
    if (status == RS_AGAIN && offer->pipe[0]) {
        offer->way = RS_FLIGHT_WAY_PIPE;
        status = ask_pipe(asking, offer, err);
    }
    if (status == RS_AGAIN && offer->has_file) {
        offer->way = RS_FLIGHT_WAY_FILE;
        status = ask_file(asking, offer, err);
    }
    if (status == RS_AGAIN && offer->way != RS_FLIGHT_WAY_NONE) {
        offer->way = RS_FLIGHT_WAY_NONE;
        (void)snprintf(offer->why, sizeof offer->why,
                       "it was asked, and has no call in its recorder (or did not answer in time)");
    }
    return status;
}

/* --- the node --------------------------------------------------------------------------------------------------- */

static bool is_torch(void *self, pid_t pid, uint64_t start_ticks)
{
    struct rs_torch torch;
    struct rs_err err = {0};
    (void)self;
    (void)start_ticks;
    return rs_torch_find(pid, &torch, &err) == RS_OK;
}

/* The ranks that are asked, by several threads: each takes the next. */
struct round {
    const struct rs_flight_ask_options *options;
    const char *host;
    rs_ns until;
    struct rs_process *ranks;
    size_t count, capacity;
    pthread_mutex_t lock; /* guards the two below, and the calls of on_rank */
    size_t next;
    struct rs_err failure; /* of the first that failed */
};

static bool is_wanted(const struct rs_flight_ask_options *options, int32_t rank, const char *run)
{
    if (options->run && strcmp(options->run, run) != 0)
        return false;
    if (!options->ranks)
        return true;
    for (size_t i = 0; i < options->rank_count; i++)
        if (options->ranks[i] == rank)
            return true;
    return false;
}

/* Processes with PyTorch and a rank, that are nobody's helper. */
static enum rs_status find_ranks(struct round *round, struct rs_err *err)
{
    const struct rs_flight_ask_options *options = round->options;
    enum rs_status status = RS_OK;
    DIR *dir = opendir("/proc");
    if (!dir)
        return rs_err_errno(err, "cannot open /proc");
    for (const struct dirent *item = rs_dir_next(dir); item && status == RS_OK;
         item = rs_dir_next(dir)) {
        struct rs_process process;
        struct rs_err said = {0};
        char *end;
        const long pid = strtol(item->d_name, &end, 10);
        if (*end || pid <= 0 || rs_process_read((pid_t)pid, &process, &said) != RS_OK ||
            process.rank < 0)
            continue;
        if (!*process.run && options->run_default)
            (void)snprintf(process.run, sizeof process.run, "%s", options->run_default);
        if (!is_wanted(options, process.rank, process.run) || !is_torch(NULL, (pid_t)pid, 0) ||
            rs_process_rank_holder(&process, is_torch, NULL) || round->count >= RANKS_MAX)
            continue;
        status = rs_mem_grow((void **)&round->ranks, &round->capacity, round->count + 1,
                             sizeof *round->ranks);
        if (status == RS_OK)
            round->ranks[round->count++] = process;
        else
            (void)rs_err_set(err, status, "no memory");
    }
    (void)closedir(dir);
    return status;
}

/* Did it write a dump since then? Only its files are looked at. */
static void look_for_file(const struct rs_process *process, rs_ns newer_than_ns,
                          struct rs_flight_offer *offer)
{
    struct settings settings = {{0}, NULL, NULL, NULL, NULL, NULL};
    struct stat about;
    struct rs_as_user scope;
    read_settings(process->pid, &settings);
    if (begin_as(offer, &scope) == RS_OK) {
        find_file(process->pid, process->rank, &settings, offer);
        if (offer->has_file && stat(offer->file, &about) == 0 &&
            rs_time_of(&about.st_mtim) > newer_than_ns) {
            offer->way = RS_FLIGHT_WAY_FILE;
            offer->written_ns = rs_time_of(&about.st_mtim);
        }
        rs_as_user_end(&scope);
    }
    rs_buf_fini(&settings.bytes);
}

static enum rs_status ask_one(const struct round *round, const struct rs_process *process,
                              struct rs_flight_offer *offer, struct rs_flight_set *set,
                              struct rs_err *err)
{
    struct asking asking = {.set = set,
                            .keep_dir = round->options->keep_dir,
                            .host = round->host,
                            .until = round->until};
    *offer =
        (struct rs_flight_offer){.pid = process->pid, .uid = process->uid, .rank = process->rank};
    (void)snprintf(offer->run, sizeof offer->run, "%s", process->run);
    if (round->options->newer_than_ns) {
        look_for_file(process, round->options->newer_than_ns, offer);
        return RS_OK;
    }
    if (rs_flight_reader_new(&asking.reader) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory");
    enum rs_status status = look(process->pid, round->until, offer, err);
    if (status == RS_OK)
        status = ask(&asking, offer, err);
    else
        (void)snprintf(offer->why, sizeof offer->why, "its process has ended");
    (void)snprintf(offer->run, sizeof offer->run, "%s", process->run);
    rs_flight_reader_free(&asking.reader);
    return status == RS_NOMEM || status == RS_IO ? status : RS_OK;
}

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void start_curl(void)
{
    (void)curl_global_init(
        CURL_GLOBAL_DEFAULT); /* before the threads: it is not safe in all of its versions */
}

static void *work(void *self)
{
    struct round *round = self;
    for (;;) {
        struct rs_flight_offer offer;
        struct rs_flight_set set;
        struct rs_err err = {0};
        (void)pthread_mutex_lock(&round->lock);
        const bool is_over = round->next >= round->count || round->failure.status < 0;
        const size_t index = round->next;
        round->next += !is_over;
        (void)pthread_mutex_unlock(&round->lock);
        if (is_over)
            return NULL;
        enum rs_status status = rs_flight_set_init(&set);
        if (status == RS_OK)
            status = ask_one(round, &round->ranks[index], &offer, &set, &err);
        (void)pthread_mutex_lock(&round->lock);
        if (status == RS_OK)
            status = round->options->on_rank(round->options->self, &offer, &set);
        if (status < 0 && round->failure.status >= 0)
            (void)rs_err_set(&round->failure, status, "%s", err.text[0] ? err.text : "no memory");
        (void)pthread_mutex_unlock(&round->lock);
        rs_flight_set_fini(&set);
    }
}

enum rs_status rs_flight_ask_ranks(const struct rs_flight_ask_options *options, size_t *count_p,
                                   struct rs_err *err)
{
    char host[256] = "unknown";
    const rs_dur limit = options->limit_ns > 0 ? options->limit_ns : NODE_MS * (rs_dur)RS_NS_PER_MS;
    struct round round = {
        .options = options, .host = options->host, .until = rs_time_monotonic() + limit};
    pthread_t threads[THREADS_MAX];
    size_t started = 0;
    *count_p = 0;
    if (!round.host) {
        (void)gethostname(host, sizeof host - 1);
        round.host = host;
    }
    enum rs_status status =
        options->keep_dir ? rs_file_make_dirs(options->keep_dir, RS_FOLDER_MODE, err) : RS_OK;
    if (status == RS_OK)
        status = find_ranks(&round, err);
    (void)pthread_once(&curl_once, start_curl);
    if (status == RS_OK) {
        (void)pthread_mutex_init(&round.lock, NULL);
        while (started + 1 < round.count && started < THREADS_MAX &&
               pthread_create(&threads[started], NULL, work, &round) == 0)
            started++;
        (void)work(&round); /* the calling thread is one of them */
        for (size_t i = 0; i < started; i++)
            (void)pthread_join(threads[i], NULL);
        (void)pthread_mutex_destroy(&round.lock);
        *count_p = round.count;
        if (round.failure.status < 0)
            status = rs_err_set(err, round.failure.status, "%s", round.failure.text);
    }
    rs_mem_free(round.ranks);
    return status;
}

/* --- one job of the node, into one set ---------------------------------------------------------------------------- */

struct joining {
    struct rs_flight_set *set;
    struct rs_flight_asked *asked;
};

static enum rs_status join_rank(void *self, const struct rs_flight_offer *offer,
                                const struct rs_flight_set *set)
{
    const struct joining *joining = self;
    struct rs_flight_asked *asked = joining->asked;
    struct rs_buf packed = {0};
    struct rs_err err = {0};
    enum rs_status status = rs_mem_grow((void **)&asked->offers, &asked->capacity, asked->count + 1,
                                        sizeof *asked->offers);
    if (status == RS_OK)
        asked->offers[asked->count++] = *offer;
    if (status == RS_OK && set->dump_count) {
        status = rs_flight_pack(set, &set->dumps[0], &packed, &err);
        if (status == RS_OK)
            status = rs_flight_unpack(packed.data, packed.length, joining->set, &err);
        asked->answered += status == RS_OK;
    }
    rs_buf_fini(&packed);
    return status;
}

static int by_rank(const void *a_, const void *b_)
{
    const struct rs_flight_offer *a = a_, *b = b_;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

enum rs_status rs_flight_ask_node(const char *run, const char *keep_dir, struct rs_flight_set *set,
                                  struct rs_flight_asked *asked_p, struct rs_err *err)
{
    struct joining joining = {.set = set, .asked = asked_p};
    const struct rs_flight_ask_options options = {
        .run = run, .keep_dir = keep_dir, .on_rank = join_rank, .self = &joining};
    size_t count = 0;
    *asked_p = (struct rs_flight_asked){0};
    enum rs_status status = rs_flight_ask_ranks(&options, &count, err);
    if (status == RS_OK && !count)
        status = rs_err_set(err, RS_NOTFOUND, "no rank of %s runs on this node",
                            run ? run : "a PyTorch job");
    if (asked_p->count)
        qsort(asked_p->offers, asked_p->count, sizeof *asked_p->offers, by_rank);
    for (size_t i = 1; i < asked_p->count && status == RS_OK; i++)
        if (strcmp(asked_p->offers[i].run, asked_p->offers[0].run) != 0)
            status = rs_err_set(err, RS_INVALID,
                                "several jobs run here, say which with --run: %.100s, %.100s",
                                asked_p->offers[0].run, asked_p->offers[i].run);
    if (status == RS_OK && rs_flight_set_sort(set) != RS_OK)
        status = rs_err_set(err, RS_NOMEM, "no memory");
    return status;
}

void rs_flight_asked_fini(struct rs_flight_asked *asked)
{
    rs_mem_free(asked->offers);
    *asked = (struct rs_flight_asked){0};
}
