/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int level_now = RS_LOG_WARN;

void rs_log_set_level(enum rs_log_level level)
{
    atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

enum rs_log_level rs_log_level(void)
{
    return (enum rs_log_level)atomic_load_explicit(&level_now, memory_order_relaxed);
}

void rs_log_write(enum rs_log_level level, const char *tag, const char *format, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    if (level > rs_log_level())
        return;
    char line[1024];
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    struct tm utc = {0};
    (void)gmtime_r(&now.tv_sec, &utc);
    int used = snprintf(line, sizeof line, "%02d:%02d:%02d.%03ld %s %s: ", utc.tm_hour, utc.tm_min,
                        utc.tm_sec, now.tv_nsec / 1000000, names[level], tag);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    size_t length = strlen(line);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[length++] = '\n';
    /* One write, so that lines of several threads do not mix. There is nobody to tell of a
     * failure to log. */
    if (write(STDERR_FILENO, line, length) < 0)
        return;
}
