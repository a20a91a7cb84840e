/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/log.h"

#include "common/base/counters.h"
#include "common/base/json_out.h"
#include "common/base/utf8.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

static atomic_int level_now = RS_LOG_WARN;
static atomic_int format_now = RS_LOG_AUTO;
static const char *const level_names[] = {"error", "warn", "info", "debug"};

void rs_log_set_level(enum rs_log_level level)
{
    atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

enum rs_log_level rs_log_level(void)
{
    return (enum rs_log_level)atomic_load_explicit(&level_now, memory_order_relaxed);
}

enum rs_status rs_log_set_format(const char *name, struct rs_err *err)
{
    static const char *const names[] = {"auto", "text", "json", "journal"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (strcmp(name, names[i]) == 0) {
            atomic_store_explicit(&format_now, i, memory_order_relaxed);
            return RS_OK;
        }
    return rs_err_set(err, RS_INVALID,
                      "the log format \"%s\" is not known; there are auto, text, json and journal",
                      name);
}

/* A service's stderr is a socket of the journal when $JOURNAL_STREAM names its device and inode: sd-daemon(3). A child that
 * inherits the variable, but not the socket, is told apart by them. */
static bool is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat about;
    char own[64];
    if (!stream || fstat(STDERR_FILENO, &about) != 0)
        return false;
    (void)snprintf(own, sizeof own, "%ju:%ju", (uintmax_t)about.st_dev, (uintmax_t)about.st_ino);
    return strcmp(stream, own) == 0;
}

static enum rs_log_format format(void)
{
    int now = atomic_load_explicit(&format_now, memory_order_relaxed);
    if (now == RS_LOG_AUTO) {
        now = is_journal() ? RS_LOG_JOURNAL : RS_LOG_TEXT;
        atomic_store_explicit(&format_now, now, memory_order_relaxed);
    }
    return (enum rs_log_format)now;
}

static void print_time(char *text, size_t size)
{
    struct timespec now = {0};
    struct tm utc = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    const size_t used = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(text + used, size - used, ".%03ldZ", now.tv_nsec / 1000000);
}

/* One write, so that lines of several threads do not mix. There is nobody to tell of a failure to log. */
static void put(const char *line, size_t length)
{
    if (write(STDERR_FILENO, line, length) < 0)
        return;
}

static void put_json(enum rs_log_level level, const char *tag, const char *message)
{
    char when[40];
    struct rs_buf text = {0};
    struct rs_json_out json;
    print_time(when, sizeof when);
    rs_json_out_init(&json, &text, 0);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "time");
    rs_json_out_string(&json, when);
    rs_json_out_key(&json, "level");
    rs_json_out_string(&json, level_names[level]);
    rs_json_out_key(&json, "tag");
    rs_json_out_string(&json, tag);
    rs_json_out_key(&json, "message");
    rs_json_out_string(&json, message);
    rs_json_out_end(&json);
    rs_buf_string(&text, "\n");
    put(rs_buf_text(&text), text.length);
    rs_buf_fini(&text);
}

static void put_line(enum rs_log_level level, const char *tag, const char *message, bool to_journal)
{
    static const int priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
    char line[LINE_BYTES + 128], when[40];
    print_time(when, sizeof when);
    int used =
        to_journal
            ? snprintf(line, sizeof line, "<%d>%s: %s", priorities[level], tag, message)
            : snprintf(line, sizeof line, "%s %s %s: %s", when, level_names[level], tag, message);
    if (used >= (int)sizeof line)
        used = (int)sizeof line - 1;
    rs_utf8_plain(line);
    line[used++] = '\n';
    put(line, (size_t)used);
}

void rs_log_write(enum rs_log_level level, const char *tag, const char *text, ...)
{
    if (level <= RS_LOG_WARN)
        rs_count(level == RS_LOG_ERROR ? RS_COUNT_LOG_ERRORS : RS_COUNT_LOG_WARNINGS, 1);
    if (level > rs_log_level())
        return;
    char message[LINE_BYTES];
    va_list args;
    va_start(args, text);
    (void)vsnprintf(message, sizeof message, text, args);
    va_end(args);
    const enum rs_log_format form = format();
    if (form == RS_LOG_JSON)
        put_json(level, tag, message);
    else
        put_line(level, tag, message, form == RS_LOG_JOURNAL);
}
