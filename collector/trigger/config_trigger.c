/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/config_trigger.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/user_file.h"

#define RS_LOG_TAG "config"
#include "common/base/log.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENVIRON_LIMIT_BYTES = 1024 * 1024, PIDS_MAX = 1 << 20 };

static const rs_dur young_ns = 30 * (rs_dur)RS_NS_PER_S;
static const rs_dur again_ns = 10 * (rs_dur)RS_NS_PER_S;

/* ---- kinds ------------------------------------------------------------------------------------------------ */

static const struct rs_config_kind *known_kinds;
static size_t known_kind_count;

void rs_config_kinds_set(const struct rs_config_kind *kinds, size_t count)
{
    known_kinds = kinds;
    known_kind_count = count;
}

static const struct rs_config_kind *find_kind(const char *name)
{
    for (size_t i = 0; i < known_kind_count; i++)
        if (strcmp(known_kinds[i].name, name) == 0)
            return &known_kinds[i];
    return NULL;
}

bool rs_config_has_kind(const char *name)
{
    return find_kind(name) != NULL;
}

enum rs_status rs_config_trigger_open(const char *kind,
                                      const struct rs_config_trigger_options *options,
                                      struct rs_config_trigger **trigger_p, struct rs_err *err)
{
    const struct rs_config_kind *found = find_kind(kind);
    return found ? found->open(options, trigger_p, err)
                 : rs_err_set(err, RS_NOTFOUND, "this program was built without %s", kind);
}

/* ---- the interface ------------------------------------------------------------------------------------------ */

const char *rs_config_state_text(enum rs_config_state state)
{
    switch (state) {
    case RS_CONFIG_STATE_IDLE:
        return "idle";
    case RS_CONFIG_STATE_NOTIFIED:
        return "notified";
    case RS_CONFIG_STATE_ACCEPTED:
        return "accepted";
    case RS_CONFIG_STATE_RECORDING:
        return "recording";
    case RS_CONFIG_STATE_WRITTEN:
        return "written";
    case RS_CONFIG_STATE_FAILED:
        return "failed";
    }
    return "unknown";
}

int64_t rs_config_rank_step_at(const struct rs_config_rank *rank, rs_ns now)
{
    if (rank->step < 0 || rank->step_ns <= 0 || now <= rank->step_at)
        return rank->step;
    return rank->step + (now - rank->step_at) / rank->step_ns;
}

void rs_config_trigger_close(struct rs_config_trigger **trigger_p)
{
    struct rs_config_trigger *trigger = *trigger_p;
    *trigger_p = NULL;
    if (trigger)
        trigger->ops->close(trigger);
}

void rs_config_trigger_tick(struct rs_config_trigger *trigger)
{
    trigger->ops->tick(trigger);
}

const struct rs_config_rank *rs_config_trigger_ranks(const struct rs_config_trigger *trigger,
                                                     size_t *count_p)
{
    return trigger->ops->ranks(trigger, count_p);
}

const struct rs_config_rank *rs_config_trigger_find(const struct rs_config_trigger *trigger,
                                                    const struct rs_config_target *target)
{
    size_t count = 0;
    const struct rs_config_rank *ranks = rs_config_trigger_ranks(trigger, &count);
    for (size_t i = 0; i < count; i++)
        if (ranks[i].process.pid == target->pid &&
            ranks[i].process.start_ticks == target->start_ticks)
            return &ranks[i];
    return NULL;
}

enum rs_status rs_config_trigger_arm(struct rs_config_trigger *trigger,
                                     const struct rs_config_arm *arm, struct rs_err *err)
{
    const size_t length = strlen(arm->capture_id);
    if (length == 0 || length >= RS_CONFIG_CAPTURE_BYTES)
        return rs_err_set(err, RS_INVALID, "the name of the capture is empty or too long");
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)arm->capture_id[i]) && arm->capture_id[i] != '-' &&
            arm->capture_id[i] != '_' && (arm->capture_id[i] != '.' || i == 0))
            return rs_err_set(err, RS_INVALID, "\"%s\" is no name of a capture", arm->capture_id);
    if (arm->target_count == 0 || arm->start_step <= 0)
        return rs_err_set(err, RS_INVALID, "a capture needs ranks and a start step above 0");
    return trigger->ops->arm(trigger, arm, err);
}

enum rs_status rs_config_trigger_probe(struct rs_config_trigger *trigger,
                                       const struct rs_config_target *target, struct rs_err *err)
{
    return trigger->ops->probe(trigger, target, err);
}

enum rs_status rs_config_trigger_cancel(struct rs_config_trigger *trigger, const char *capture_id,
                                        struct rs_err *err)
{
    return trigger->ops->cancel(trigger, capture_id, err);
}

void rs_config_trigger_release(struct rs_config_trigger *trigger,
                               const struct rs_config_target *target)
{
    trigger->ops->release(trigger, target);
}

/* ---- looking for processes ---------------------------------------------------------------------------------- */

struct seen {
    pid_t pid;
    bool wants_again;
    rs_ns first, shown; /* monotonic */
};

struct rs_config_scan {
    struct seen *seen; /* by pid */
    size_t count, capacity;
    struct seen *next; /* while one run builds it */
    size_t next_count, next_capacity;
};

struct rs_config_scan *rs_config_scan_new(void)
{
    return rs_mem_calloc(1, sizeof(struct rs_config_scan));
}

void rs_config_scan_free(struct rs_config_scan **scan_p)
{
    struct rs_config_scan *scan = *scan_p;
    *scan_p = NULL;
    if (!scan)
        return;
    rs_mem_free(scan->seen);
    rs_mem_free(scan->next);
    rs_mem_free(scan);
}

const char *rs_config_variable(const struct rs_config_visit *visit, const char *name)
{
    const size_t name_length = strlen(name);
    const char *end = visit->environ_bytes + visit->environ_length;
    for (const char *at = visit->environ_bytes; at < end;) {
        const size_t entry = strnlen(at, (size_t)(end - at));
        if (entry > name_length && at[name_length] == '=' && memcmp(at, name, name_length) == 0)
            return at + name_length + 1;
        at += entry + 1;
    }
    return NULL;
}

static int by_pid(const void *left, const void *right)
{
    const struct seen *a = left;
    const struct seen *b = right;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

/* The pids there are now, with what is remembered of them, into scan->next. */
static enum rs_status list_pids(struct rs_config_scan *scan, rs_ns now)
{
    DIR *dir = opendir("/proc");
    if (!dir)
        return RS_IO;
    scan->next_count = 0;
    enum rs_status status = RS_OK;
    const struct dirent *entry;
    while (status == RS_OK && scan->next_count < PIDS_MAX && (entry = rs_dir_next(dir))) {
        char *end = NULL;
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        const long pid = strtol(entry->d_name, &end, 10);
        if (*end || pid <= 0 || pid > INT32_MAX)
            continue;
        status = rs_mem_grow((void **)&scan->next, &scan->next_capacity, scan->next_count + 1,
                             sizeof *scan->next);
        if (status == RS_OK)
            scan->next[scan->next_count++] =
                (struct seen){.pid = (pid_t)pid, .first = now, .shown = -1};
    }
    (void)closedir(dir);
    if (scan->next_count)
        qsort(scan->next, scan->next_count, sizeof *scan->next, by_pid);
    size_t old = 0;
    for (size_t i = 0; i < scan->next_count; i++) {
        while (old < scan->count && scan->seen[old].pid < scan->next[i].pid)
            old++;
        if (old < scan->count && scan->seen[old].pid == scan->next[i].pid)
            scan->next[i] = scan->seen[old];
    }
    return status;
}

static bool is_due(const struct seen *seen, rs_ns now)
{
    if (seen->shown < 0 || now < seen->first + young_ns)
        return true;
    return seen->wants_again && now >= seen->shown + again_ns;
}

static void show(struct seen *seen, rs_ns now, struct rs_buf *buf, rs_config_visit_fn *visit,
                 void *self)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)seen->pid);
    rs_buf_reset(buf);
    if (rs_file_read(path, ENVIRON_LIMIT_BYTES, buf, NULL) != RS_OK)
        rs_buf_reset(buf);
    rs_buf_u8(buf, 0); /* also when the last variable has lost its end */
    const struct rs_config_visit shown = {.pid = seen->pid,
                                          .environ_bytes = rs_buf_text(buf),
                                          .environ_length = buf->failed ? 0 : buf->length - 1};
    seen->shown = now;
    seen->wants_again = visit(self, &shown);
}

size_t rs_config_scan_run(struct rs_config_scan *scan, rs_ns now, rs_config_visit_fn *visit,
                          void *self)
{
    struct rs_buf buf = {0};
    size_t shown = 0;
    if (list_pids(scan, now) < 0)
        return 0;
    struct seen *items = scan->next;
    const size_t capacity = scan->next_capacity;
    scan->next = scan->seen;
    scan->next_capacity = scan->capacity;
    scan->seen = items;
    scan->capacity = capacity;
    scan->count = scan->next_count;
    for (size_t i = 0; i < scan->count; i++) {
        if (!is_due(&scan->seen[i], now))
            continue;
        show(&scan->seen[i], now, &buf, visit, self);
        shown++;
    }
    rs_buf_fini(&buf);
    return shown;
}

/* ---- files of a rank ---------------------------------------------------------------------------------------- */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

enum rs_status rs_config_path_of(pid_t pid, const char *path, char path_p[RS_CONFIG_PATH_BYTES],
                                 struct rs_err *err)
{
    char through[RS_CONFIG_PATH_BYTES + 64];
    struct stat ours, theirs;
    const bool has_ours = stat(path, &ours) == 0;
    (void)snprintf(through, sizeof through, "/proc/%d/root%s", (int)pid, path);
    const bool has_theirs = path[0] == '/' && stat(through, &theirs) == 0;
    const bool is_closed = !has_theirs && (errno == EACCES || errno == EPERM);
    const char *found = NULL;
    if (has_ours && (is_closed || (has_theirs && is_same_file(&ours, &theirs))))
        found = path; /* one that may not be looked at is taken to see what we see */
    else if (has_theirs)
        found = through;
    else if (is_closed)
        return rs_err_set(err, RS_REFUSED,
                          "the files of process %d may not be looked at: run the collector as the "
                          "same user or as root",
                          (int)pid);
    if (!found)
        return rs_err_set(err, RS_NOTFOUND, "%s is not there for process %d", path, (int)pid);
    if (strlen(found) >= RS_CONFIG_PATH_BYTES)
        return rs_err_set(err, RS_LIMIT, "%.100s... is too long a path", found);
    (void)snprintf(path_p, RS_CONFIG_PATH_BYTES, "%.*s", RS_CONFIG_PATH_BYTES - 1, found);
    return RS_OK;
}

enum rs_status rs_config_result_folder(const char *root, const char *capture_id,
                                       const struct rs_process *process,
                                       char path_p[RS_CONFIG_PATH_BYTES], struct rs_err *err)
{
    char path[RS_CONFIG_PATH_BYTES];
    char theirs[RS_CONFIG_PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s/u%u", root, capture_id, (unsigned)process->uid) >=
        (int)sizeof path)
        return rs_err_set(err, RS_LIMIT, "the path of the result folder below %.200s is too long",
                          root);
    const enum rs_status status = rs_file_make_dirs(path, 0755, err);
    if (status < 0)
        return status;
    const enum rs_status given = rs_process_give_folder(path, process, err);
    if (given < 0)
        return given;
    if (rs_config_path_of(process->pid, path, theirs, NULL) < 0 || strcmp(theirs, path) != 0)
        return rs_err_set(err, RS_REFUSED,
                          "its process does not see the folder %s (another mount namespace): give "
                          "the collector a --trace-dir that both see",
                          root);
    (void)snprintf(path_p, RS_CONFIG_PATH_BYTES, "%s", path);
    return RS_OK;
}

/* ---- removing results ---------------------------------------------------------------------------------------- */

void rs_config_result_remove(const char *path)
{
    struct rs_err err = {0};
    const enum rs_status status = rs_file_remove_tree_of_user(path, RS_HOLD_ROOT_LINKS, &err);
    if (status < 0 && status != RS_NOTFOUND)
        rs_log_warn("a result that was read stays: %s", err.text);
}
