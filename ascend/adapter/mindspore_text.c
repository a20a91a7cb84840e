/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/adapter/mindspore_text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *rs_mindspore_way_text(enum rs_mindspore_way way)
{
    switch (way) {
    case RS_MINDSPORE_WAY_UNKNOWN:
        return "unknown";
    case RS_MINDSPORE_WAY_STEP:
        return "step";
    case RS_MINDSPORE_WAY_CALLBACK:
        return "callback";
    }
    return "unknown";
}

bool rs_mindspore_way_from_text(const char *text, enum rs_mindspore_way *way_p)
{
    if (strcmp(text, "step") == 0)
        *way_p = RS_MINDSPORE_WAY_STEP;
    else if (strcmp(text, "callback") == 0)
        *way_p = RS_MINDSPORE_WAY_CALLBACK;
    else
        return false;
    return true;
}

/* A whole decimal number at *text_p, which moves behind it. */
static bool take_number(const char **text_p, int64_t *value_p)
{
    const char *at = *text_p;
    char *end = NULL;
    if (!isdigit((unsigned char)*at) && (*at != '-' || !isdigit((unsigned char)at[1])))
        return false;
    errno = 0;
    const long long value = strtoll(at, &end, 10);
    if (errno)
        return false;
    *value_p = value;
    *text_p = end;
    return true;
}

static bool take_text(const char **text_p, const char *expected)
{
    const size_t length = strlen(expected);
    if (strncmp(*text_p, expected, length) != 0)
        return false;
    *text_p += length;
    return true;
}

/* ---- the pair ----------------------------------------------------------------------------------------------- */

static bool member_number(const char *text, const char *key, int64_t *value_p)
{
    const char *at = strstr(text, key);
    if (!at)
        return false;
    at += strlen(key);
    at += strspn(at, " \t\r\n");
    if (*at != ':')
        return false;
    at++;
    at += strspn(at, " \t\r\n");
    if (!take_number(&at, value_p))
        return false;
    return *at != '.' && *at != 'e' && *at != 'E' && !isdigit((unsigned char)*at);
}

bool mindspore_pair_read(const char *text, struct mindspore_pair *pair_p)
{
    struct mindspore_pair pair = {.start = -1, .stop = -1};
    const bool has_start = member_number(text, "\"start_step\"", &pair.start);
    const bool has_stop = member_number(text, "\"stop_step\"", &pair.stop);
    if (!has_start)
        pair.start = -1;
    if (!has_stop)
        pair.stop = -1;
    *pair_p = pair;
    return has_start || has_stop;
}

struct mindspore_pair mindspore_pair_for(int64_t first, int64_t count, enum rs_mindspore_way way)
{
    const int64_t start = way == RS_MINDSPORE_WAY_STEP ? first - 1 : first;
    return (struct mindspore_pair){.start = start, .stop = start + count - 1};
}

int64_t mindspore_pair_first(const struct mindspore_pair *pair, enum rs_mindspore_way way)
{
    return way == RS_MINDSPORE_WAY_STEP ? pair->start + 1 : pair->start;
}

/* ---- lines -------------------------------------------------------------------------------------------------- */

/* Ranks that print to one file write a line and its end apart: another rank's line may stand right behind. */
static bool parse_init(const char *at, struct mindspore_line *line)
{
    static const char tail[] = "/profiler_config.json";
    static const char next[] = "[Dynamic Profiler] ";
    const char *other = strstr(at, next);
    const size_t length = other ? (size_t)(other - at) : strlen(at);
    const size_t tail_length = sizeof tail - 1;
    if (*at != '/' || length <= tail_length || length - tail_length >= sizeof line->dir ||
        memcmp(at + length - tail_length, tail, tail_length) != 0)
        return false;
    line->kind = MINDSPORE_LINE_INIT;
    (void)snprintf(line->dir, sizeof line->dir, "%.*s", (int)(length - tail_length), at);
    return true;
}

bool mindspore_line_parse(const char *line, size_t length, struct mindspore_line *line_p)
{
    static const char mark[] = "[Dynamic Profiler] ";
    const char *found = memmem(line, length, mark, sizeof mark - 1);
    char text[RS_CONFIG_PATH_BYTES + 128];
    *line_p = (struct mindspore_line){.rank = -1, .start = -1, .stop = -1};
    if (!found) /* launchers put a prefix before it */
        return false;
    const size_t rest = length - (size_t)(found - line) - (sizeof mark - 1);
    if (rest >= sizeof text)
        return false;
    memcpy(text, found + sizeof mark - 1, rest);
    text[rest] = '\0';
    if (rest && text[rest - 1] == '\r')
        text[rest - 1] = '\0';
    const char *at = text;
    if (take_text(&at, "Init config json file: "))
        return parse_init(at, line_p);
    if (!take_text(&at, "Rank ") || !take_number(&at, &line_p->rank) ||
        !take_text(&at, " Dynamic profiler "))
        return false;
    line_p->kind = MINDSPORE_LINE_START;
    if (take_text(&at, "start at step "))
        return take_number(&at, &line_p->start) && take_text(&at, ", will stop at step ") &&
               take_number(&at, &line_p->stop) && !*at;
    line_p->kind = MINDSPORE_LINE_STOP;
    return take_text(&at, "stop at step ") && take_number(&at, &line_p->stop) && !*at;
}

/* ---- names -------------------------------------------------------------------------------------------------- */

bool mindspore_folder_name(const char *name, int64_t *rank_p, struct mindspore_pair *pair_p)
{
    const char *at = name;
    return take_text(&at, "rank") && take_number(&at, rank_p) && take_text(&at, "_start") &&
           take_number(&at, &pair_p->start) && take_text(&at, "_stop") &&
           take_number(&at, &pair_p->stop) && !*at && *rank_p >= 0;
}

/* Days from 1970-01-01 to a day of the Gregorian calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    const int64_t y = month <= 2 ? year - 1 : year;
    const int64_t era = (y >= 0 ? y : y - 399) / 400;
    const int64_t year_of_era = y - era * 400;
    const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    const int64_t day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static int64_t digits(const char *text, int count)
{
    int64_t value = 0;
    for (int i = 0; i < count; i++)
        value = value * 10 + (text[i] - '0');
    return value;
}

static bool stamp_ns(const char *stamp, rs_ns *ns_p)
{
    const int64_t month = digits(stamp + 4, 2);
    const int64_t day = digits(stamp + 6, 2);
    const int64_t hour = digits(stamp + 8, 2);
    const int64_t minute = digits(stamp + 10, 2);
    const int64_t second = digits(stamp + 12, 2);
    const int64_t year = digits(stamp, 4);
    if (year < 1970 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 ||
        minute > 59 || second > 60)
        return false;
    const int64_t seconds = days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    *ns_p = seconds * RS_NS_PER_S + digits(stamp + 14, 3) * RS_NS_PER_MS;
    return true;
}

bool mindspore_result_name(const char *name, int64_t *pid_p, rs_ns *made_p)
{
    static const char tail[] = "_ascend_ms";
    enum { STAMP_DIGITS = 17 };
    const size_t length = strlen(name);
    if (length < sizeof tail + STAMP_DIGITS + 2 ||
        strcmp(name + length - (sizeof tail - 1), tail) != 0)
        return false;
    const char *stamp = name + length - (sizeof tail - 1) - STAMP_DIGITS;
    if (strspn(stamp, "0123456789") != STAMP_DIGITS || stamp[-1] != '_')
        return false;
    const char *pid = stamp - 1; /* behind its last digit */
    while (pid > name && isdigit((unsigned char)pid[-1]))
        pid--;
    if (pid == stamp - 1 || pid == name || pid[-1] != '_' || stamp - pid > 11)
        return false;
    const char *at = pid;
    return take_number(&at, pid_p) && *pid_p > 0 && stamp_ns(stamp, made_p);
}

bool mindspore_block_name(const char *path, char name_p[32])
{
    static const char stem[] = "DynamicProfileShm";
    enum { HOUR_DIGITS = 10 };
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const size_t stem_length = sizeof stem - 1;
    if (strncmp(name, stem, stem_length) != 0)
        return false;
    const size_t count = strspn(name + stem_length, "0123456789");
    const char *rest = name + stem_length + count;
    if (count != HOUR_DIGITS || (*rest && strcmp(rest, " (deleted)") != 0))
        return false;
    (void)snprintf(name_p, 32, "%.*s", (int)(stem_length + count), name);
    return true;
}
