/* SPDX-License-Identifier: Apache-2.0 */
#include "common/client/config_watch.h"

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/client/client.h"
#include "common/request/request.h"
#include "common/wire/answer_message.h"
#include "common/wire/request_message.h"

#define RS_LOG_TAG "config"
#include "common/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char file_name[] = "profiler_config.json";
/* Metadata of the request: the file it came from, as the watcher names it. */
static const char file_key[] = "rankscope_config_file";

/* A folder that other hosts write to has no events: it is looked at. */
enum { LOOK_EVERY_MS = 1000, SETTLING_LOOK_MS = 50 };
static const rs_dur settle_ns = 200 * (rs_dur)RS_NS_PER_MS;
static const rs_dur torn_patience_ns = 2 * (rs_dur)RS_NS_PER_S;
static const rs_dur ask_timeout_ns = 10 * (rs_dur)RS_NS_PER_S;
static const rs_dur ask_again_ns = 2 * (rs_dur)RS_NS_PER_S;
static const rs_dur settle_in_ns =
    12 * (rs_dur)RS_NS_PER_S; /* longer than a collector waits to connect */

/* What stat() tells of the file. */
struct face {
    bool is_there, is_regular;
    dev_t device;
    ino_t inode;
    off_t bytes;
    rs_ns mtime_ns;
};

struct rs_config_watch {
    char *dir, *path, *run;
    struct rs_address address;
    bool (*was_written)(const char *sha, int64_t second);
    int inotify_fd, wake_fd;
    bool has_watch; /* inotify looks at the folder */
    atomic_bool must_stop;
    pthread_t thread;

    struct face face; /* of the version that was taken last; its digest */
    char sha[RS_SHA256_HEX_BYTES];
    struct face seen; /* of one that has not settled; since when it looks so */
    bool is_settling;
    rs_ns seen_at;

    struct rs_capture_request request; /* still to be asked for: nobody answered */
    bool is_asking, was_unreachable;
    rs_ns ask_at; /* monotonic */
};

/* ---- looking ----------------------------------------------------------------------------------------------- */

static struct face look(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) < 0)
        return (struct face){.is_there = false};
    return (struct face){.is_there = true,
                         .is_regular = S_ISREG(facts.st_mode),
                         .device = facts.st_dev,
                         .inode = facts.st_ino,
                         .bytes = facts.st_size,
                         .mtime_ns = rs_time_of(&facts.st_mtim)};
}

static bool is_same_face(const struct face *a, const struct face *b)
{
    if (!a->is_there || !b->is_there)
        return a->is_there == b->is_there;
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->mtime_ns == b->mtime_ns && a->is_regular == b->is_regular;
}

/* The folder may come later, or again. */
static void watch_folder(struct rs_config_watch *watch)
{
    if (watch->has_watch || watch->inotify_fd < 0)
        return;
    watch->has_watch =
        inotify_add_watch(watch->inotify_fd, watch->dir,
                          IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE |
                              IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF) >= 0;
}

/* Events only say that it is time to look: what they tell of is judged by the file itself. */
static void drain_events(struct rs_config_watch *watch)
{
    _Alignas(struct inotify_event) char bytes[4096];
    ssize_t length = 0;
    while ((length = read(watch->inotify_fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t at = 0; at < length;) {
            struct inotify_event event;
            memcpy(&event, bytes + at, sizeof event);
            at += (ssize_t)(sizeof event + event.len);
            if (event.mask & (IN_IGNORED | IN_MOVE_SELF))
                watch->has_watch = false;
        }
    }
}

/* ---- asking ------------------------------------------------------------------------------------------------- */

struct asked {
    struct rs_buf ranks; /* the answer by ranks, as --dry-run prints it */
    char capture[RS_REQUEST_ID_BYTES];
    char why[512];
    enum rs_status status; /* the answer's */
    uint32_t state;        /* of the capture */
    bool has_capture;
};

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct asked *asked = self;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_ANSWER) {
        const Rankscope__CaptureAnswer *answer = reply->answer;
        struct rs_request_answer by_rank = {0};
        rs_buf_reset(&asked->ranks);
        if (rs_answer_from_message(answer, &by_rank, NULL) == RS_OK)
            rs_request_answer_print(&by_rank, &asked->ranks);
        rs_request_answer_fini(&by_rank);
        asked->status = (enum rs_status)answer->status;
        (void)snprintf(asked->why, sizeof asked->why, "%.500s", answer->text);
        (void)snprintf(asked->capture, sizeof asked->capture, "%.63s", answer->capture);
        return true;
    }
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_CAPTURE) {
        asked->has_capture = true;
        asked->state = reply->capture->state;
        (void)snprintf(asked->capture, sizeof asked->capture, "%.63s", reply->capture->id);
    }
    return false;
}

static void report_ranks(const struct rs_config_watch *watch, const char *lines)
{
    for (const char *line = lines; *line;) {
        const size_t length = strcspn(line, "\n");
        rs_log_warn("%s: %.*s", watch->path, (int)length, line);
        line += length + (line[length] == '\n');
    }
}

static void report_asked(const struct rs_config_watch *watch, struct asked *asked)
{
    if (asked->status < 0 || asked->status == RS_PARTIAL)
        report_ranks(watch, rs_buf_text(&asked->ranks));
    if (asked->has_capture)
        rs_log_info("%s: capture %s is %s%s%s", watch->path, asked->capture,
                    rs_capture_state_text((enum rs_capture_state)asked->state),
                    *asked->why ? ": " : "", asked->why);
    else if (asked->status < 0)
        rs_log_warn("%s: nothing is started: %s", watch->path, asked->why);
    else
        rs_log_info("%s: %s", watch->path, *asked->why ? asked->why : "nothing is to be started");
}

static bool on_ranks(void *self, const Rankscope__Reply *reply)
{
    (void)self;
    (void)reply;
    return false;
}

/* Nobody answered the last time. When somebody does again, collectors are given the time to come back to it, or the capture
 * would be of the ranks of those that came first. */
static void reach(struct rs_config_watch *watch)
{
    Rankscope__AskRanks ranks = RANKSCOPE__ASK_RANKS__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_RANKS;
    ask.ranks = &ranks;
    const rs_ns now = rs_time_monotonic();
    const struct rs_client_patience patience = {.until = now + ask_timeout_ns,
                                                .must_stop = &watch->must_stop};
    const enum rs_status status =
        rs_client_ask_within(&watch->address, &ask, &patience, on_ranks, NULL, NULL);
    watch->was_unreachable = status < 0;
    watch->ask_at = now + (status < 0 ? ask_again_ns : settle_in_ns);
}

static void end_asking(struct rs_config_watch *watch)
{
    rs_request_fini(&watch->request);
    watch->is_asking = false;
}

static void ask(struct rs_config_watch *watch)
{
    struct rs_err err = {0};
    struct asked asked = {0};
    Rankscope__CaptureRequest *message = NULL;
    Rankscope__AskStart start = RANKSCOPE__ASK_START__INIT;
    Rankscope__Ask question = RANKSCOPE__ASK__INIT;
    enum rs_status status = rs_request_to_message(&watch->request, &message, &err);
    if (status == RS_OK) {
        start.request = message;
        start.origin_file = watch->path;
        question.message_case = RANKSCOPE__ASK__MESSAGE_START;
        question.start = &start;
        const struct rs_client_patience patience = {.until = rs_time_monotonic() + ask_timeout_ns,
                                                    .must_stop = &watch->must_stop};
        status =
            rs_client_ask_within(&watch->address, &question, &patience, on_reply, &asked, &err);
    }
    rs_request_message_free(&message);
    if (status == RS_UNREACHABLE || status == RS_CANCELLED) {
        if (status == RS_UNREACHABLE)
            rs_log_warn("%s: %s; trying again until it is edited once more", watch->path, err.text);
        watch->was_unreachable = true;
        watch->ask_at = rs_time_monotonic() + ask_again_ns;
        rs_buf_fini(&asked.ranks);
        return;
    }
    if (status == RS_EXISTS || asked.status == RS_EXISTS)
        rs_log_info("%s: capture %s was asked for already", watch->path, watch->request.capture_id);
    else if (status < 0)
        rs_log_warn("%s: nothing is started: %s", watch->path, err.text);
    else
        report_asked(watch, &asked);
    rs_buf_fini(&asked.ranks);
    end_asking(watch);
}

/* ---- a version --------------------------------------------------------------------------------------------- */

/* "config-20260102-030405-<bytes and time>": the same version is the same capture, whoever saw it. */
static void name_capture(const struct face *face, const char *sha, char id[RS_REQUEST_ID_BYTES])
{
    char both[RS_SHA256_HEX_BYTES + 32];
    char digest[RS_SHA256_HEX_BYTES] = "";
    char day[32] = "";
    const time_t seconds = (time_t)(face->mtime_ns / RS_NS_PER_S);
    struct tm parts = {0};
    (void)snprintf(both, sizeof both, "%s %" PRId64, sha, face->mtime_ns);
    (void)!rs_sha256_hex(both, strlen(both), digest);
    if (gmtime_r(&seconds, &parts))
        (void)strftime(day, sizeof day, "%Y%m%d-%H%M%S", &parts);
    (void)snprintf(id, RS_REQUEST_ID_BYTES, "config-%s-%.8s", day, digest);
}

/* "error: ..." with its place, as `config validate` has it. */
static void report_notes(const struct rs_config_watch *watch, const struct rs_request_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++) {
        const struct rs_request_note *note = &notes->items[i];
        struct rs_buf text = {0};
        rs_buf_string(&text, watch->path);
        if (note->line)
            rs_buf_printf(&text, ":%u:%u", note->line, note->column);
        rs_buf_string(&text, ": ");
        rs_request_note_print(note, &text);
        rs_log_warn("%s", rs_buf_text(&text));
        rs_buf_fini(&text);
    }
    if (notes->left_off_count)
        rs_log_warn("%s: and %zu more", watch->path, notes->left_off_count);
}

/* The capture that an ascend trigger, of whatever host, wrote this file for; NULL: it is somebody's edit. */
static const char *written_for(const struct rs_capture_request *request)
{
    for (size_t i = 0; i < request->metadata.count; i++)
        if (strcmp(request->metadata.items[i].key, RS_ASCEND_METADATA_KEY) == 0)
            return request->metadata.items[i].value;
    return NULL;
}

static enum rs_status add_metadata(struct rs_capture_request *request, const char *key,
                                   const char *text)
{
    struct rs_request_pairs *pairs = &request->metadata;
    struct rs_buf value = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &value, 0);
    rs_json_out_string(&json, text);
    enum rs_status status = value.failed ? RS_NOMEM
                                         : rs_mem_grow((void **)&pairs->items, &pairs->capacity,
                                                       pairs->count + 1, sizeof *pairs->items);
    char *own_key = rs_mem_strdup(key);
    char *own_value = rs_mem_strdup(rs_buf_text(&value));
    rs_buf_fini(&value);
    if (status < 0 || !own_key || !own_value) {
        rs_mem_free(own_key);
        rs_mem_free(own_value);
        return RS_NOMEM;
    }
    pairs->items[pairs->count++] = (struct rs_request_pair){.key = own_key, .value = own_value};
    return RS_OK;
}

/* A collector of another host left MindSpore's file with a pair that is never reached. */
static bool is_parked(const struct rs_capture_request *request)
{
    return request->dialect == RS_DIALECT_MINDSPORE && request->start_step == RS_MINDSPORE_PARKED;
}

/* A valid version: takes the place of one that was not asked for yet. Owns `request`. */
static void apply(struct rs_config_watch *watch, struct rs_capture_request *request)
{
    const char *own = written_for(request);
    if (own || is_parked(request)) {
        rs_log_info("%s was written %s%s: no edit", watch->path,
                    own ? "for capture " : "by a collector of another host", own ? own : "");
        rs_request_fini(request);
        return;
    }
    name_capture(&watch->face, watch->sha, request->capture_id);
    (void)snprintf(request->job_id, sizeof request->job_id, "%.256s", watch->run);
    request->on_busy = RS_ON_BUSY_QUEUE;
    if (add_metadata(request, file_key, watch->path) < 0) {
        rs_log_error("%s: no memory for its request", watch->path);
        rs_request_fini(request);
        return;
    }
    if (watch->is_asking) {
        rs_log_warn("%s: capture %s was never asked for: the next edit takes its place",
                    watch->path, watch->request.capture_id);
        end_asking(watch);
    }
    rs_log_info("%s was edited: capture %s", watch->path, request->capture_id);
    watch->request = *request;
    watch->is_asking = true;
    watch->was_unreachable = false;
    watch->ask_at = 0;
}

/* Reads a version that has settled. False: it may be half of one, look again. */
static bool take(struct rs_config_watch *watch, rs_ns now)
{
    struct rs_buf text = {0};
    struct rs_err err = {0};
    struct rs_request_notes notes = {0};
    struct rs_capture_request request = {0};
    enum rs_config_framework framework = RS_CONFIG_DETECT;
    char sha[RS_SHA256_HEX_BYTES] = "";
    const bool is_patient = now < watch->seen_at + torn_patience_ns;
    enum rs_status status =
        watch->seen.is_regular
            ? rs_file_read_regular(watch->path, RS_REQUEST_READ_MAX_BYTES, &text, &err)
            : rs_err_set(&err, RS_INVALID, "%s is no file", watch->path);
    const struct face after = look(watch->path);
    const bool is_torn = !is_same_face(&after, &watch->seen);
    if (status == RS_OK)
        status = rs_sha256_hex(text.data, text.length, sha);
    /* Before anything is found in it: what a trigger writes need not be what a person may. */
    const bool is_own = status == RS_OK && watch->was_written &&
                        watch->was_written(sha, watch->seen.mtime_ns / RS_NS_PER_S);
    const bool is_old = is_own || (status == RS_OK && strcmp(sha, watch->sha) == 0 &&
                                   watch->seen.mtime_ns == watch->face.mtime_ns);
    if (status == RS_OK && !is_torn && !is_old)
        status = rs_request_from_config((const char *)text.data, text.length, &framework, &request,
                                        &notes, &err);
    rs_buf_fini(&text);
    if (is_torn || (status < 0 && is_patient)) {
        rs_request_fini(&request);
        rs_request_notes_fini(&notes);
        return false;
    }
    watch->face = watch->seen;
    memcpy(watch->sha, sha, sizeof watch->sha);
    if (is_own)
        rs_log_info("%s was written by a trigger of this collector: no edit", watch->path);
    if (!is_old)
        report_notes(watch, &notes);
    if (status < 0)
        rs_log_error("%s was edited and is not valid, nothing is started: %s", watch->path,
                     err.text);
    else if (!is_old)
        apply(watch, &request);
    rs_request_notes_fini(&notes);
    return true;
}

/* Takes the version that is there when it has settled. */
static void look_again(struct rs_config_watch *watch)
{
    const rs_ns now = rs_time_monotonic();
    const struct face face = look(watch->path);
    if (!watch->is_settling && is_same_face(&face, &watch->face))
        return;
    if (!watch->is_settling || !is_same_face(&face, &watch->seen)) {
        watch->seen = face;
        watch->seen_at = now;
        watch->is_settling = true;
        return;
    }
    if (now < watch->seen_at + settle_ns)
        return;
    if (!face.is_there) {
        /* Moved away or removed: what comes next is an edit, with whatever time. */
        rs_log_info("%s is gone", watch->path);
        watch->face = face;
        watch->sha[0] = '\0';
        watch->is_settling = false;
        return;
    }
    if (take(watch, now))
        watch->is_settling = false;
}

/* ---- the thread ---------------------------------------------------------------------------------------------- */

static void *work(void *self)
{
    struct rs_config_watch *watch = self;
    struct pollfd fds[] = {{.fd = watch->wake_fd, .events = POLLIN},
                           {.fd = watch->inotify_fd, .events = POLLIN}};
    while (!atomic_load(&watch->must_stop)) {
        watch_folder(watch);
        (void)poll(fds, watch->inotify_fd >= 0 ? 2 : 1,
                   watch->is_settling ? SETTLING_LOOK_MS : LOOK_EVERY_MS);
        if (watch->inotify_fd >= 0)
            drain_events(watch);
        if (atomic_load(&watch->must_stop))
            break;
        look_again(watch);
        if (!watch->is_asking || rs_time_monotonic() < watch->ask_at)
            continue;
        if (watch->was_unreachable)
            reach(watch);
        else
            ask(watch);
    }
    return NULL;
}

static void free_watch(struct rs_config_watch *watch)
{
    if (watch->inotify_fd >= 0)
        (void)close(watch->inotify_fd);
    if (watch->wake_fd >= 0)
        (void)close(watch->wake_fd);
    rs_request_fini(&watch->request);
    rs_mem_free(watch->dir);
    rs_mem_free(watch->path);
    rs_mem_free(watch->run);
    rs_mem_free(watch);
}

/* What is there now was there before us. */
static void remember(struct rs_config_watch *watch)
{
    struct rs_buf text = {0};
    watch->face = look(watch->path);
    if (watch->face.is_there && watch->face.is_regular &&
        rs_file_read_regular(watch->path, RS_REQUEST_TEXT_MAX_BYTES, &text, NULL) == RS_OK)
        (void)!rs_sha256_hex(text.data, text.length, watch->sha);
    rs_buf_fini(&text);
}

static enum rs_status check_folder(const char *dir, struct rs_err *err)
{
    struct stat facts;
    if (stat(dir, &facts) < 0)
        return rs_err_set(err, errno == ENOENT ? RS_NOTFOUND : RS_IO, "--profiler-config %s: %s",
                          dir, errno == ENOENT ? "there is no such folder" : RS_ERRNO_TEXT());
    if (!S_ISDIR(facts.st_mode))
        return rs_err_set(err, RS_INVALID,
                          "--profiler-config %s is no folder: give the one that %s is in", dir,
                          file_name);
    if (facts.st_mode & S_IWOTH)
        rs_log_warn("%s can be written by everybody: whoever does starts captures", dir);
    return RS_OK;
}

enum rs_status rs_config_watch_start(const struct rs_config_watch_options *options,
                                     struct rs_config_watch **watch_p, struct rs_err *err)
{
    enum rs_status status = check_folder(options->dir, err);
    if (status < 0)
        return status;
    struct rs_config_watch *watch = rs_mem_calloc(1, sizeof *watch);
    if (!watch)
        return rs_err_set(err, RS_NOMEM, "no memory to watch %s", options->dir);
    watch->address = *options->address;
    watch->was_written = options->was_written;
    watch->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    watch->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watch->dir = rs_mem_strdup(options->dir);
    watch->path = rs_file_join(options->dir, file_name);
    watch->run = rs_mem_strdup(options->run);
    if (!watch->dir || !watch->path || !watch->run)
        status = rs_err_set(err, RS_NOMEM, "no memory to watch %s", options->dir);
    else if (watch->wake_fd < 0)
        status = rs_err_errno(err, "eventfd");
    if (status == RS_OK) {
        /* First the watch, then the look: nothing falls between. */
        watch_folder(watch);
        remember(watch);
        if (pthread_create(&watch->thread, NULL, work, watch) != 0)
            status = rs_err_set(err, RS_IO, "cannot start a thread");
    }
    if (status < 0) {
        free_watch(watch);
        return status;
    }
    (void)pthread_setname_np(watch->thread, "rs-config");
    rs_log_info("%s: an edit starts a capture; %s", watch->path,
                watch->face.is_there ? "the version that is there is not one"
                                     : "there is none yet (rankscope config init -o makes one)");
    *watch_p = watch;
    return RS_OK;
}

void rs_config_watch_stop(struct rs_config_watch **watch_p)
{
    struct rs_config_watch *watch = *watch_p;
    if (!watch)
        return;
    *watch_p = NULL;
    atomic_store(&watch->must_stop, true);
    const uint64_t one = 1;
    (void)!write(watch->wake_fd, &one, sizeof one);
    (void)pthread_join(watch->thread, NULL);
    if (watch->is_asking)
        rs_log_warn("%s: capture %s was not asked for before the end", watch->path,
                    watch->request.capture_id);
    free_watch(watch);
}

/* ---- who reads it himself ----------------------------------------------------------------------------------- */

bool rs_config_watch_is_file_of(const Rankscope__CaptureRequest *request, const char *dir)
{
    for (size_t i = 0; request && i < request->n_metadata; i++) {
        const Rankscope__RequestPair *pair = request->metadata[i];
        const size_t length = strlen(pair->value);
        if (strcmp(pair->key, file_key) != 0 || length < 3 || length > 4096)
            continue;
        /* A JSON string; a path that needs escapes is compared by its end only. */
        char *own = rs_mem_strndup(pair->value + 1, length - 2);
        char *other = rs_file_join(dir, file_name);
        struct stat own_stat;
        struct stat other_stat;
        const bool is_it =
            own && other &&
            (strcmp(own, other) == 0 ||
             (stat(own, &own_stat) == 0 && stat(other, &other_stat) == 0 &&
              own_stat.st_dev == other_stat.st_dev && own_stat.st_ino == other_stat.st_ino));
        rs_mem_free(own);
        rs_mem_free(other);
        return is_it;
    }
    return false;
}
