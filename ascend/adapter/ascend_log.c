/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/adapter/ascend_log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 * 1024,
    LINE_MAX_BYTES = 4096,
    QUARTER_S = 900,
    YEAR_MAX = 2200,
    NEWS_MAX_BYTES = 4 * 1024 * 1024, /* a log is 200 KiB long at most: more at once is none */
};

/* A counter: what a double of the profiler's own documents can hold. */
static const int64_t number_max = INT64_C(1) << 53;

/* ---- a line ------------------------------------------------------------------------------------------------- */

/* `count` digits at `at`; -1 when they are none. */
static int64_t digits(const char *at, size_t count)
{
    int64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        if (at[i] < '0' || at[i] > '9')
            return -1;
        value = value * 10 + (at[i] - '0');
    }
    return value;
}

/* Days since 1970 of a date of the Gregorian calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    const int64_t y = month <= 2 ? year - 1 : year;
    const int64_t era = y / 400;
    const int64_t of_era = y - era * 400;
    const int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* "2026-11-21 13:18:12,068 " */
static bool parse_time(const char *text, size_t length, rs_ns *at)
{
    if (length < 24 || text[4] != '-' || text[7] != '-' || text[10] != ' ' || text[13] != ':' ||
        text[16] != ':' || text[19] != ',')
        return false;
    const int64_t year = digits(text, 4), month = digits(text + 5, 2), day = digits(text + 8, 2);
    const int64_t hour = digits(text + 11, 2), minute = digits(text + 14, 2);
    const int64_t second = digits(text + 17, 2), ms = digits(text + 20, 3);
    if (year < 1970 || year > YEAR_MAX || month < 1 || month > 12 || day < 1 || hour < 0 ||
        minute < 0 || second < 0 || ms < 0)
        return false;
    *at = (((days_of(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) *
              (int64_t)RS_NS_PER_S +
          ms * (int64_t)RS_NS_PER_MS;
    return true;
}

static const struct {
    enum ascend_line_kind kind;
    const char *before; /* of the number, or the whole */
    const char *after;  /* behind the number; NULL: there is none */
} sentences[] = {
    {ASCEND_LINE_CREATED, "shared memory is created", NULL},
    {ASCEND_LINE_CONNECTED, "shared memory is connected", NULL},
    {ASCEND_LINE_NOT_SHARED, "shared memory create failed", NULL},
    {ASCEND_LINE_MONITORS, "Dynamic monitor process has been created by rank", NULL},
    {ASCEND_LINE_READY, "no need to create process", NULL},
    {ASCEND_LINE_UNLINKED, "unlink shm", NULL},
    {ASCEND_LINE_POLL, "monitor process poll interval time change to ", "s"},
    {ASCEND_LINE_ACCEPTED, "Start step will be set to ", "."},
    {ASCEND_LINE_NOT_LISTED, "not in valid rank_list", NULL},
    {ASCEND_LINE_TORN, "Share memory bytes to json error", NULL},
    {ASCEND_LINE_STARTED, "Start Dynamic Profiler at ", " step"},
    {ASCEND_LINE_STOPPED, "Stop Dynamic Profiler at ", " step"},
};

static bool is_sentence(const char *text, const char *before, const char *after, int64_t *number)
{
    const char *at = strstr(text, before);
    char *end;
    if (!at || !after)
        return at != NULL;
    at += strlen(before);
    if (*at != '-' && !isdigit((unsigned char)*at))
        return false;
    errno = 0;
    const long long value = strtoll(at, &end, 10);
    if (errno != 0 || value > number_max || value < -number_max ||
        strncmp(end, after, strlen(after)) != 0)
        return false;
    *number = value;
    return true;
}

bool npu_line_parse(const char *text, size_t length, struct ascend_line *line)
{
    char copy[LINE_MAX_BYTES];
    *line = (struct ascend_line){.kind = ASCEND_LINE_OTHER, .number = -1};
    if (length == 0 || length >= sizeof copy || memchr(text, '\0', length))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    line->has_time = parse_time(copy, length, &line->at);
    if (!line->has_time) /* the second line of a message; nothing of ours has two */
        return false;
    for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++) {
        if (!is_sentence(copy, sentences[i].before, sentences[i].after, &line->number))
            continue;
        line->kind = sentences[i].kind;
        break;
    }
    line->is_denied = line->kind == ASCEND_LINE_NOT_SHARED && strstr(copy, "Permission denied");
    return true;
}

/* ---- the file ------------------------------------------------------------------------------------------------ */

void npu_tail_init(struct ascend_tail *tail, const char *path)
{
    *tail = (struct ascend_tail){.fd = -1};
    (void)snprintf(tail->path, sizeof tail->path, "%s", path);
}

void npu_tail_fini(struct ascend_tail *tail)
{
    if (tail->fd >= 0)
        (void)close(tail->fd);
    rs_buf_fini(&tail->rest);
    *tail = (struct ascend_tail){.fd = -1};
}

/* The last line was written when the file changed last; zones are whole quarters of an hour. */
static void find_zone(struct ascend_tail *tail, const char *text, size_t length)
{
    struct stat info;
    struct ascend_line line;
    rs_ns last = 0;
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        if (!end)
            break;
        if (npu_line_parse(text + at, (size_t)(end - text) - at, &line) && line.has_time)
            last = line.at;
        at = (size_t)(end - text) + 1;
    }
    if (last == 0 || fstat(tail->fd, &info) != 0)
        return;
    const int64_t ahead = last / RS_NS_PER_S - info.st_mtim.tv_sec;
    const int64_t quarters = (ahead + (ahead >= 0 ? QUARTER_S / 2 : -QUARTER_S / 2)) / QUARTER_S;
    if (quarters > -60 && quarters < 60)
        tail->zone = quarters * QUARTER_S * (rs_dur)RS_NS_PER_S;
}

static void give_lines(struct ascend_tail *tail, ascend_line_fn *on_line, void *self)
{
    const char *text = rs_buf_text(&tail->rest);
    size_t length = tail->rest.length;
    size_t at = 0;
    find_zone(tail, text, length);
    while (at < length) {
        const char *end = memchr(text + at, '\n', length - at);
        struct ascend_line line;
        if (!end)
            break;
        if (npu_line_parse(text + at, (size_t)(end - text) - at, &line)) {
            line.at -= tail->zone;
            on_line(self, &line);
        }
        at = (size_t)(end - text) + 1;
    }
    if (length - at > LINE_MAX_BYTES)
        at = length; /* no line of the log is so long */
    length -= at;
    if (length)
        memmove(tail->rest.data, tail->rest.data + at, length);
    tail->rest.length = length;
}

static void read_rest(struct ascend_tail *tail, ascend_line_fn *on_line, void *self)
{
    struct stat info;
    if (fstat(tail->fd, &info) == 0 && info.st_size - tail->offset > NEWS_MAX_BYTES) {
        tail->offset = info.st_size - NEWS_MAX_BYTES;
        rs_buf_reset(&tail->rest);
    }
    for (int done = 0; done < NEWS_MAX_BYTES; done += READ_BYTES) {
        uint8_t *room = rs_buf_reserve(&tail->rest, READ_BYTES);
        const ssize_t got = room ? pread(tail->fd, room, READ_BYTES, tail->offset) : -1;
        if (got <= 0)
            break;
        rs_buf_commit(&tail->rest, (size_t)got);
        tail->offset += got;
        give_lines(tail, on_line, self);
    }
    if (tail->rest.failed)
        rs_buf_reset(&tail->rest);
}

static bool open_log(struct ascend_tail *tail, const char *path)
{
    struct stat info;
    struct rs_as_user scope;
    if (tail->fd >= 0)
        (void)close(tail->fd);
    tail->fd = -1;
    tail->offset = 0;
    rs_buf_reset(&tail->rest);
    if (rs_as_user_begin(&tail->user, &scope, NULL) < 0)
        return false;
    tail->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    rs_as_user_end(&scope);
    if (tail->fd >= 0 && (fstat(tail->fd, &info) != 0 || !S_ISREG(info.st_mode))) {
        (void)close(tail->fd);
        tail->fd = -1;
    }
    if (tail->fd < 0)
        return false;
    tail->device = info.st_dev;
    tail->inode = info.st_ino;
    return true;
}

bool npu_tail_read(struct ascend_tail *tail, ascend_line_fn *on_line, void *self)
{
    char backup[sizeof tail->path + 4];
    struct stat info;
    if (tail->fd < 0) {
        (void)snprintf(backup, sizeof backup, "%s.1", tail->path);
        if (open_log(tail, backup))
            read_rest(tail, on_line, self);
        if (!open_log(tail, tail->path))
            return false;
    }
    /* Nothing new is the rule: one look tells it. */
    if (stat(tail->path, &info) == 0 && info.st_dev == tail->device && info.st_ino == tail->inode &&
        info.st_size == tail->offset)
        return true;
    read_rest(tail, on_line, self);
    if (stat(tail->path, &info) != 0)
        return true; /* between rotating and opening, or removed: what is open is still read */
    if (info.st_dev != tail->device || info.st_ino != tail->inode) {
        if (!open_log(tail, tail->path))
            return false;
        read_rest(tail, on_line, self);
    }
    return true;
}

/* ---- its name ------------------------------------------------------------------------------------------------ */

/* The number that ends at `end`, and where it begins; -2: there is none. "-1" is a number. */
static int64_t number_before(const char *begin, const char *end, const char **first_p)
{
    const char *at = end;
    while (at > begin && isdigit((unsigned char)at[-1]))
        at--;
    if (at == end || end - at > 18)
        return -2;
    const int64_t value = digits(at, (size_t)(end - at));
    if (at > begin && at[-1] == '-') {
        *first_p = at - 1;
        return value == 1 ? -1 : -2;
    }
    *first_p = at;
    return value;
}

/* True, and *end_p moved before it: the text before *end_p ends with `tail`. */
static bool cut(const char *begin, const char **end_p, const char *tail)
{
    const size_t length = strlen(tail);
    if ((size_t)(*end_p - begin) < length || memcmp(*end_p - length, tail, length) != 0)
        return false;
    *end_p -= length;
    return true;
}

bool npu_log_name_parse(const char *path, struct ascend_log_name *name)
{
    static const char head[] = "dp_";
    static const char monitor_head[] = "monitor_dp_";
    const char *slash = strrchr(path, '/');
    const char *begin = slash ? slash + 1 : path;
    const char *end = path + strlen(path);
    *name = (struct ascend_log_name){0};
    if (slash) {
        const char *folder = slash;
        name->dir_length = cut(path, &folder, "/log") ? (size_t)(folder - path) : 0;
        if (name->dir_length == 0)
            return false;
    }
    if (!cut(begin, &end, ".log"))
        return false;
    name->rank = number_before(begin, end, &end);
    if (name->rank < -1 || name->rank > INT32_MAX || !cut(begin, &end, "_rank_"))
        return false;
    name->pid = number_before(begin, end, &end);
    if (name->pid <= 0 || name->pid > INT32_MAX || !cut(begin, &end, "_"))
        return false;
    name->is_monitor = strncmp(begin, monitor_head, sizeof monitor_head - 1) == 0;
    if (!name->is_monitor && strncmp(begin, head, sizeof head - 1) != 0)
        return false;
    begin += name->is_monitor ? sizeof monitor_head - 1 : sizeof head - 1;
    if (begin > end)
        return false;
    name->host = begin;
    name->host_length = (size_t)(end - begin);
    return true;
}
