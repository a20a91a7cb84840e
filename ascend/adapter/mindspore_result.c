/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What came of a capture of MindSpore: its result folder, and its stdout where that is a file.
 *
 *   FOLDER/rankR_startA_stopB/HOST_PID_STAMP_ascend_ms/
 *     made                                     recording
 *     logs/profiler_*.log  "Profiler finalize."      collected (profiler_info_R.json too, where the device is an NPU)
 *                          "Profiler analyse."       the rank parses
 *                          "TaskManager run flow [", as many "] join"   parsed
 *     profiler_info_R.json   schedule.skip_first: 1 in the way of dp.step(), 0 as a callback
 *
 * Versions without such a log are told by their files.
 */
#include "ascend/adapter/mindspore_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/user_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LOG_LIMIT_BYTES = 1024 * 1024,
    INFO_LIMIT_BYTES = 1024 * 1024,
    ENTRIES_MAX = 4096,
    DEPTH_MAX = 8,
    CHUNK_BYTES = 64 * 1024,
};

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool ends_with(const char *text, const char *tail)
{
    const size_t length = strlen(text);
    const size_t tail_length = strlen(tail);
    return length >= tail_length && strcmp(text + length - tail_length, tail) == 0;
}

/* Calls `see` for each entry of a folder, up to a limit, until it returns false. */
typedef bool entry_fn(void *self, const char *folder, const char *name);
static void each_entry(const char *folder, entry_fn *see, void *self)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    const struct dirent *entry;
    for (int i = 0; i < ENTRIES_MAX; i++) {
        entry = rs_dir_next(dir);
        if (!entry)
            break;
        if (entry->d_name[0] == '.')
            continue;
        if (!see(self, folder, entry->d_name))
            break;
    }
    (void)closedir(dir);
}

/* ---- where it is -------------------------------------------------------------------------------------------- */

struct looking {
    const struct mindspore_pair *pair;
    int64_t inner_pid;
    struct mindspore_result *result;
};

static bool see_result(void *self, const char *folder, const char *name)
{
    struct looking *looking = self;
    int64_t pid = 0;
    rs_ns made = 0;
    if (!mindspore_result_name(name, &pid, &made) || pid != looking->inner_pid)
        return true;
    struct mindspore_result *result = looking->result;
    if (result->dir[0] && made < result->begun_ns)
        return true; /* of two, the newer */
    if (snprintf(result->dir, sizeof result->dir, "%s/%s", folder, name) >= (int)sizeof result->dir)
        result->dir[0] = '\0';
    result->begun_ns = made;
    return true;
}

static bool see_rank(void *self, const char *folder, const char *name)
{
    const struct looking *looking = self;
    struct mindspore_pair pair;
    int64_t rank = -1;
    char path[RS_CONFIG_PATH_BYTES];
    if (mindspore_folder_name(name, &rank, &pair) && pair.start == looking->pair->start &&
        pair.stop == looking->pair->stop &&
        snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path)
        each_entry(path, see_result, self);
    return true;
}

/* ---- how far it is ------------------------------------------------------------------------------------------ */

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + strlen(what), what))
        count++;
    return count;
}

static void read_log(const char *path, struct mindspore_result *result)
{
    struct rs_buf buf = {0};
    struct stat info;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
        rs_file_read_regular(path, LOG_LIMIT_BYTES, &buf, NULL) == RS_OK) {
        const char *text = rs_buf_text(&buf);
        const size_t flows = count_of(text, "TaskManager run flow [");
        /* collected_ns is set from files where they tell it better */
        if (strstr(text, "Profiler finalize.") && !result->collected_ns)
            result->collected_ns = rs_time_of(&info.st_mtim);
        result->parsing_began |= strstr(text, "Profiler analyse.") != NULL;
        result->is_parsed |= flows > 0 && count_of(text, "] join") >= flows;
        if (result->is_parsed && !result->parsed_ns)
            result->parsed_ns = rs_time_of(&info.st_mtim);
    }
    rs_buf_fini(&buf);
}

static bool see_log(void *self, const char *folder, const char *name)
{
    char path[RS_CONFIG_PATH_BYTES];
    if (starts_with(name, "profiler_") && ends_with(name, ".log") &&
        snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path)
        read_log(path, self);
    return true;
}

/* {"profiler_parameters": {.. "schedule": {.. "skip_first": 1 ..}}}: the only thing that differs between the two ways. */
static void read_info(const char *path, struct mindspore_result *result)
{
    static const char key[] = "\"skip_first\"";
    struct rs_buf buf = {0};
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) ||
        rs_file_read_regular(path, INFO_LIMIT_BYTES, &buf, NULL) != RS_OK) {
        rs_buf_fini(&buf);
        return;
    }
    const char *text = rs_buf_text(&buf);
    const char *at = strstr(text, key);
    /* written in place: whole when its last brace is there */
    const char *end = strrchr(text, '}');
    if (end && end[1 + strspn(end + 1, " \r\n")] == '\0' && strstr(text, "\"ms_version\""))
        result->collected_ns = rs_time_of(&info.st_mtim);
    if (at) {
        at += sizeof key - 1;
        at += strspn(at, " \t\r\n:");
        if (*at == '1')
            result->way = RS_MINDSPORE_WAY_STEP;
        else if (*at == '0')
            result->way = RS_MINDSPORE_WAY_CALLBACK;
    }
    rs_buf_fini(&buf);
}

static bool see_top(void *self, const char *folder, const char *name)
{
    char path[RS_CONFIG_PATH_BYTES];
    if (starts_with(name, "profiler_info_") && ends_with(name, ".json") &&
        snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path)
        read_info(path, self);
    return true;
}

static bool see_any(void *self, const char *folder, const char *name)
{
    (void)folder;
    (void)name;
    *(bool *)self = true;
    return false;
}

/* Files of the framework are written when recording ends: their time is that instant. */
static bool see_framework(void *self, const char *folder, const char *name)
{
    rs_ns *end = self;
    char path[RS_CONFIG_PATH_BYTES];
    struct stat info;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
        stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
        rs_time_of(&info.st_mtim) > *end)
        *end = rs_time_of(&info.st_mtim);
    return true;
}

static bool inside(char *path, const struct mindspore_result *result, const char *name)
{
    return snprintf(path, RS_CONFIG_PATH_BYTES, "%s/%s", result->dir, name) < RS_CONFIG_PATH_BYTES;
}

/* With the rights of the folder's owner. */
static bool look_at_result(const char *folder, const struct mindspore_pair *pair, int64_t inner_pid,
                           struct mindspore_result *result)
{
    char path[RS_CONFIG_PATH_BYTES];
    if (!result->dir[0]) {
        struct looking looking = {.pair = pair, .inner_pid = inner_pid, .result = result};
        each_entry(folder, see_rank, &looking);
        if (!result->dir[0])
            return false;
    }
    each_entry(result->dir, see_top, result);
    if (inside(path, result, "logs"))
        each_entry(path, see_log, result);
    if (inside(path, result, "ASCEND_PROFILER_OUTPUT"))
        each_entry(path, see_any, &result->has_output);
    rs_ns end = 0;
    if (result->collected_ns && inside(path, result, "FRAMEWORK"))
        each_entry(path, see_framework, &end);
    if (end > result->begun_ns && end < result->collected_ns)
        result->collected_ns = end;
    return true;
}

bool mindspore_result_look(const char *folder, const struct mindspore_pair *pair, int64_t inner_pid,
                           struct mindspore_result *result)
{
    struct rs_as_user scope;
    if (rs_file_as_owner_begin(folder, RS_HOLD_ROOT_LINKS, &scope, NULL) < 0)
        return false;
    const bool is_there = look_at_result(folder, pair, inner_pid, result);
    rs_as_user_end(&scope);
    return is_there;
}

struct aging {
    rs_ns newest_ns;
    int depth, entry_count;
};

static bool see_age(void *self, const char *folder, const char *name)
{
    struct aging *aging = self;
    char path[RS_CONFIG_PATH_BYTES];
    struct stat info;
    if (++aging->entry_count > ENTRIES_MAX)
        return false;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path ||
        lstat(path, &info) != 0)
        return true;
    if (rs_time_of(&info.st_mtim) > aging->newest_ns)
        aging->newest_ns = rs_time_of(&info.st_mtim);
    if (S_ISDIR(info.st_mode) && aging->depth < DEPTH_MAX) {
        aging->depth++;
        each_entry(path, see_age, aging); /* NOLINT(misc-no-recursion): DEPTH_MAX deep */
        aging->depth--;
    }
    return true;
}

void mindspore_result_age(struct mindspore_result *result)
{
    struct aging aging = {.newest_ns = result->begun_ns};
    struct rs_as_user scope;
    if (rs_file_as_owner_begin(result->dir, RS_HOLD_ROOT_LINKS, &scope, NULL) == RS_OK) {
        each_entry(result->dir, see_age, &aging);
        rs_as_user_end(&scope);
    }
    result->newest_ns = aging.newest_ns;
}

/* ---- stdout ------------------------------------------------------------------------------------------------- */

/* Its stdout when that is a regular file: only such a one can be read without taking anything from anybody. */
static int open_stdout(pid_t pid, struct stat *info)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd/1", (int)pid);
    if (stat(path, info) != 0 || !S_ISREG(info->st_mode))
        return -1;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, info) != 0 || !S_ISREG(info->st_mode))) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

int64_t mindspore_stdout_length(pid_t pid)
{
    struct stat info;
    const int fd = open_stdout(pid, &info);
    if (fd < 0)
        return -1;
    (void)close(fd);
    return info.st_size;
}

/* Lines of a piece; how much of it was used: up to the last end of a line. */
static size_t take_lines(const char *text, size_t length, mindspore_line_fn *take, void *self)
{
    size_t used = 0;
    while (used < length) {
        const char *end = memchr(text + used, '\n', length - used);
        struct mindspore_line line;
        if (!end)
            break;
        if (mindspore_line_parse(text + used, (size_t)(end - text) - used, &line))
            take(self, &line);
        used = (size_t)(end - text) + 1;
    }
    return used;
}

int64_t mindspore_stdout_lines(pid_t pid, int64_t offset, size_t limit_bytes,
                               mindspore_line_fn *take, void *self)
{
    struct stat info;
    const int fd = open_stdout(pid, &info);
    if (fd < 0)
        return -1;
    char *text = rs_mem_calloc(1, CHUNK_BYTES);
    if (offset > info.st_size) /* it was cut: from its start */
        offset = 0;
    for (size_t done = 0; text && done < limit_bytes;) {
        const ssize_t got = pread(fd, text, CHUNK_BYTES, offset);
        if (got <= 0)
            break;
        size_t used = take_lines(text, (size_t)got, take, self);
        if (used == 0 && got == CHUNK_BYTES)
            used = CHUNK_BYTES; /* a line as long as this is none of ours */
        if (used == 0)
            break;
        offset += (int64_t)used;
        done += used;
    }
    rs_mem_free(text);
    (void)close(fd);
    return offset;
}
