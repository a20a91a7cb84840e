/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/args.h"

#include "cli/options/nearest.h"
#include "cli/options/settings.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_MAX = 96, HELP_CODE = 1000, LONG_CODE = 1001 };

static struct {
    rs_args_describe_fn *describe;
    void *self;
} describer;

static struct {
    const struct rs_args *args;
    bool was_given[ITEMS_MAX];
} last;

bool rs_args_was_given(const char *name)
{
    for (size_t i = 0; last.args && i < last.args->count; i++)
        if (strcmp(last.args->items[i].name, name) == 0)
            return last.was_given[i];
    return false;
}

void rs_args_describe_with(rs_args_describe_fn *describe, void *self)
{
    describer.describe = describe;
    describer.self = self;
}

enum rs_status rs_args_int(const char *text, int64_t min, int64_t max, int64_t *value_p)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < min || value > max)
        return RS_INVALID;
    *value_p = value;
    return RS_OK;
}

struct suffix {
    const char *text;
    int64_t factor;
};

/* NUMBER SUFFIX with a decimal number; exact enough for settings, refused when it does not fit. */
static enum rs_status scaled(const char *text, const struct suffix *suffixes, size_t count,
                             int64_t *value_p)
{
    char *end = NULL;
    errno = 0;
    const double number = strtod(text, &end);
    if (errno || end == text || !isfinite(number) || number < 0)
        return RS_INVALID;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(end, suffixes[i].text) != 0)
            continue;
        const double value = number * (double)suffixes[i].factor;
        if (value >= 9e18)
            return RS_INVALID;
        *value_p = (int64_t)llround(value);
        return RS_OK;
    }
    return RS_INVALID;
}

enum rs_status rs_args_duration(const char *text, int64_t *ns_p)
{
    static const struct suffix units[] = {
        {"", 1000000000},
        {"s", 1000000000},
        {"ms", 1000000},
        {"us", 1000},
        {"ns", 1},
        {"m", 60000000000},
        {"min", 60000000000},
        {"h", 3600000000000},
        {"d", 86400000000000},
    };
    return scaled(text, units, sizeof units / sizeof units[0], ns_p);
}

enum rs_status rs_args_size(const char *text, int64_t *bytes_p)
{
    static const struct suffix units[] = {
        {"", 1},
        {"B", 1},
        {"kB", 1000},
        {"KB", 1000},
        {"MB", 1000000},
        {"GB", 1000000000},
        {"TB", 1000000000000},
        {"K", 1 << 10},
        {"KiB", 1 << 10},
        {"M", 1 << 20},
        {"MiB", 1 << 20},
        {"G", 1 << 30},
        {"GiB", 1 << 30},
        {"TiB", (int64_t)1 << 40},
    };
    return scaled(text, units, sizeof units / sizeof units[0], bytes_p);
}

enum rs_status rs_args_percent(const char *text, double *fraction_p)
{
    char *end = NULL;
    errno = 0;
    const double number = strtod(text, &end);
    if (errno || end == text || !isfinite(number) || number < 0)
        return RS_INVALID;
    if (*end && strcmp(end, "%") != 0)
        return RS_INVALID;
    *fraction_p = number / 100;
    return RS_OK;
}

static enum rs_status store(const struct rs_arg *item, const char *text, const char *said_by,
                            struct rs_err *err)
{
    enum rs_status status = RS_OK;
    switch (item->kind) {
    case RS_ARG_FLAG:
        *item->flag = true;
        return RS_OK;
    case RS_ARG_TEXT:
        *item->text = text;
        return RS_OK;
    case RS_ARG_LIST: {
        struct rs_arg_list *list = item->list;
        if (list->count == RS_ARG_LIST_MAX)
            return rs_err_set(err, RS_INVALID, "%s: at most %d times", said_by, RS_ARG_LIST_MAX);
        list->items[list->count++] = text;
        return RS_OK;
    }
    case RS_ARG_INT: {
        const bool any = item->min == 0 && item->max == 0;
        status = rs_args_int(text, any ? INT64_MIN : item->min, any ? INT64_MAX : item->max,
                             item->number);
        if (status != RS_OK && !any)
            return rs_err_set(err, RS_INVALID,
                              "%s wants a whole number from %" PRId64 " to %" PRId64 ", not \"%s\"",
                              said_by, item->min, item->max, text);
        break;
    }
    case RS_ARG_DURATION:
        status = rs_args_duration(text, item->number);
        break;
    case RS_ARG_SIZE:
        status = rs_args_size(text, item->number);
        break;
    case RS_ARG_PERCENT:
        status = rs_args_percent(text, item->share);
        break;
    }
    if (status == RS_OK)
        return RS_OK;
    static const char *const wanted[] = {"",
                                         "",
                                         "",
                                         "a whole number",
                                         "a duration such as 5s or 200ms",
                                         "a size such as 64MiB",
                                         "a percentage such as 5%"};
    return rs_err_set(err, RS_INVALID, "%s wants %s, not \"%s\"", said_by, wanted[item->kind],
                      text);
}

static void build_tables(const struct rs_args *args, struct option *longs, char *shorts)
{
    size_t n = 0;
    if (args->is_launcher)
        *shorts++ = '+';
    *shorts++ = ':'; /* we word the errors ourselves */
    for (size_t i = 0; i < args->count; i++) {
        const bool has_value = args->items[i].kind != RS_ARG_FLAG;
        longs[n++] = (struct option){.name = args->items[i].name,
                                     .has_arg = has_value ? required_argument : no_argument,
                                     .val = LONG_CODE + (int)i};
        if (args->items[i].letter) {
            *shorts++ = args->items[i].letter;
            if (has_value)
                *shorts++ = ':';
        }
    }
    longs[n++] = (struct option){.name = "help", .has_arg = no_argument, .val = HELP_CODE};
    longs[n] = (struct option){0};
    *shorts++ = 'h';
    *shorts = '\0';
}

static const struct rs_arg *item_of(const struct rs_args *args, int code)
{
    if (code >= LONG_CODE && (size_t)(code - LONG_CODE) < args->count)
        return &args->items[code - LONG_CODE];
    for (size_t i = 0; i < args->count; i++)
        if (args->items[i].letter && args->items[i].letter == code)
            return &args->items[i];
    return NULL;
}

static const char *nearest_option(const struct rs_args *args, const char *word)
{
    struct rs_nearest nearest = rs_nearest(word);
    for (size_t i = 0; i < args->count; i++)
        rs_nearest_look(&nearest, args->items[i].name);
    return nearest.best;
}

/* A flag in a file has a value, so that a later file can take it back. */
static enum rs_status store_flag(const struct rs_arg *item, const struct rs_setting *setting,
                                 const char *said_by, struct rs_err *err)
{
    static const char *const yes[] = {"yes", "true", "on", "1"};
    static const char *const no[] = {"no", "false", "off", "0"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (strcmp(setting->value, yes[i]) != 0 && strcmp(setting->value, no[i]) != 0)
            continue;
        *item->flag = strcmp(setting->value, yes[i]) == 0;
        return RS_OK;
    }
    return rs_err_set(err, RS_INVALID, "%s wants yes or no, not \"%.80s\"", said_by,
                      setting->value);
}

/* "a, b": commas separate the members of a list. The copies live as long as the process, as argv does. */
static enum rs_status store_list(const struct rs_arg *item, const struct rs_setting *setting,
                                 const char *said_by, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (const char *at = setting->value; *at && status == RS_OK;) {
        at += strspn(at, ", \t");
        const size_t length = strcspn(at, ",");
        char *text = length ? rs_mem_strndup(at, length) : NULL;
        if (length && !text)
            return rs_err_set(err, RS_NOMEM, "no memory for %s", said_by);
        if (text)
            status = store(item, text, said_by, err);
        at += length;
    }
    return status;
}

static enum rs_status from_file(const struct rs_arg *item, const struct rs_setting *setting,
                                struct rs_err *err)
{
    char said_by[256];
    (void)snprintf(said_by, sizeof said_by, "%.160s: [%.32s] %.48s", setting->file,
                   setting->section, setting->key);
    if (item->kind == RS_ARG_FLAG)
        return store_flag(item, setting, said_by, err);
    if (item->kind == RS_ARG_LIST)
        return store_list(item, setting, said_by, err);
    return store(item, setting->value, said_by, err);
}

/* Options are parsed before there is any second thread. */
enum rs_status rs_args_fill(const struct rs_args *args, const struct rs_arg *item,
                            enum rs_arg_source *source_p, const char **file_p, struct rs_err *err)
{
    const char *text = item->environment
                           ? getenv(item->environment) /* NOLINT(concurrency-mt-unsafe) */
                           : NULL;
    const struct rs_setting *setting = rs_settings_find(args->verb, item->name);
    *file_p = NULL;
    *source_p = RS_ARG_FROM_DEFAULT;
    if (text && *text) {
        *source_p = RS_ARG_FROM_ENVIRONMENT;
        return store(item, text, item->environment, err);
    }
    if (!setting)
        return RS_OK;
    *source_p = RS_ARG_FROM_FILE;
    *file_p = setting->file;
    return from_file(item, setting, err);
}

/* A key of the verb's own section that is no option of it is a slip of the pen, and said. */
static enum rs_status check_settings(const struct rs_args *args, struct rs_err *err)
{
    const struct rs_setting *setting = NULL;
    for (size_t i = 0; (setting = rs_settings_at(i)); i++) {
        if (strcmp(setting->section, args->verb) != 0)
            continue;
        bool is_known = false;
        for (size_t k = 0; k < args->count && !is_known; k++)
            is_known = strcmp(args->items[k].name, setting->key) == 0;
        if (is_known)
            continue;
        const char *nearest = nearest_option(args, setting->key);
        return rs_err_set(err, RS_INVALID, "%s: [%s] has no option \"%.60s\"%s%s%s", setting->file,
                          args->verb, setting->key, nearest ? "; did you mean \"" : "",
                          nearest ? nearest : "", nearest ? "\"?" : "");
    }
    return RS_OK;
}

/* What the command line left open; `is_set`: it says something, or the environment or a file does. */
static enum rs_status fill_rest(const struct rs_args *args, const bool *was_given, bool *is_set,
                                struct rs_err *err)
{
    enum rs_status status = rs_settings_load(err);
    if (status == RS_OK)
        status = check_settings(args, err);
    for (size_t i = 0; i < args->count && status == RS_OK; i++) {
        enum rs_arg_source source = RS_ARG_FROM_DEFAULT;
        const char *file = NULL;
        if (!was_given[i])
            status = rs_args_fill(args, &args->items[i], &source, &file, err);
        is_set[i] = was_given[i] || source != RS_ARG_FROM_DEFAULT;
    }
    return status;
}

/* Nobody types what shall do nothing. In a settings file it may stand, for the day on which the other one is switched on. */
static enum rs_status check_with(const struct rs_args *args, const bool *was_given,
                                 const bool *is_set, struct rs_err *err)
{
    for (size_t i = 0; i < args->count; i++) {
        const char *with = args->items[i].with;
        bool is_there = !with || !was_given[i], is_known = !with;
        for (size_t other = 0; other < args->count && !is_known; other++) {
            const struct rs_arg *item = &args->items[other];
            is_known = strcmp(item->name, with) == 0;
            if (is_known && is_set[other])
                is_there |= item->kind != RS_ARG_FLAG || *item->flag;
        }
        RS_CHECK(is_known);
        if (!is_there)
            return rs_err_set(err, RS_INVALID,
                              "--%s does nothing without --%s; see rankscope %s --help",
                              args->items[i].name, with, args->verb);
    }
    return RS_OK;
}

/* getopt gave `word` up: what is wrong with it. `code` is its optopt: the letter, or an option that takes no value. */
static enum rs_status not_understood(const struct rs_args *args, const char *word, int code,
                                     struct rs_err *err)
{
    const char *name = strncmp(word, "--", 2) == 0 ? word + 2 : "";
    const size_t length = strcspn(name, "=");
    const struct rs_arg *first = NULL;
    const struct rs_arg *second = NULL;
    const struct rs_arg *plain = code >= LONG_CODE ? item_of(args, code) : NULL;
    if (plain || code == HELP_CODE)
        return rs_err_set(err, RS_INVALID, "--%s takes no value: %.80s",
                          plain ? plain->name : "help", word);
    if (code)
        return rs_err_set(err, RS_INVALID, "there is no option -%c; see rankscope %s --help", code,
                          args->verb);
    for (size_t i = 0; i < args->count && length; i++) {
        if (strncmp(args->items[i].name, name, length) != 0)
            continue;
        if (!first)
            first = &args->items[i];
        else if (!second)
            second = &args->items[i];
    }
    if (second)
        return rs_err_set(err, RS_INVALID, "%.80s may be --%s or --%s; see rankscope %s --help",
                          word, first->name, second->name, args->verb);
    char cut[64];
    (void)snprintf(cut, sizeof cut, "%.*s", (int)(length < 60 ? length : 60), name);
    const char *nearest = length ? nearest_option(args, cut) : NULL;
    if (nearest)
        return rs_err_set(err, RS_INVALID,
                          "there is no option %.80s; did you mean --%s? See rankscope %s --help",
                          word, nearest, args->verb);
    return rs_err_set(err, RS_INVALID, "there is no option %.80s; see rankscope %s --help", word,
                      args->verb);
}

enum rs_status rs_args_parse(const struct rs_args *args, int argc, char **argv, int *first_p,
                             struct rs_err *err)
{
    struct option longs[ITEMS_MAX + 2];
    char shorts[2 * ITEMS_MAX + 5];
    bool *was_given = last.was_given;
    bool is_set[ITEMS_MAX] = {false};
    RS_CHECK(args->count <= ITEMS_MAX);
    if (describer.describe) {
        describer.describe(describer.self, args);
        return RS_END;
    }
    last.args = args;
    memset(last.was_given, 0, sizeof last.was_given);
    build_tables(args, longs, shorts);
    optind = 0; /* glibc: start afresh */
    opterr = 0;
    for (;;) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
        const int code = getopt_long(argc, argv, shorts, longs, NULL);
        if (code == -1)
            break;
        if (code == HELP_CODE || code == 'h') {
            rs_args_help(args);
            return RS_END;
        }
        const char *word = argv[optind > 0 ? optind - 1 : 0];
        if (code == ':')
            return rs_err_set(err, RS_INVALID, "%s needs a value; see rankscope %s --help", word,
                              args->verb);
        const struct rs_arg *item = code == '?' ? NULL : item_of(args, code);
        if (!item)
            return not_understood(args, word, optopt, err);
        char said_by[64];
        (void)snprintf(said_by, sizeof said_by, "--%s", item->name);
        const enum rs_status status = store(item, optarg, said_by, err);
        if (status != RS_OK)
            return status;
        was_given[item - args->items] = true;
    }
    enum rs_status status = fill_rest(args, was_given, is_set, err);
    if (status == RS_OK)
        status = check_with(args, was_given, is_set, err);
    if (status == RS_OK)
        *first_p = optind;
    return status;
}

enum { HELP_INDENT = 29, HELP_WIDTH = 88 };

/* `text` in lines of at most HELP_WIDTH, the second and later ones indented. */
static void print_wrapped(const char *text, int column, int indent)
{
    bool is_first = true;
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (!is_first && column + 1 + length > HELP_WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (!is_first) {
            putchar(' ');
            column++;
        }
        printf("%.*s", length, text);
        column += length;
        is_first = false;
        text += length;
        while (*text == ' ')
            text++;
    }
    putchar('\n');
}

static void print_item(const struct rs_arg *item)
{
    char left[64];
    char letter[8] = "    ";
    if (item->letter)
        (void)snprintf(letter, sizeof letter, "-%c, ", item->letter);
    int used = snprintf(left, sizeof left, "  %s--%s%s%s", letter, item->name,
                        item->value ? " " : "", item->value ? item->value : "");
    printf("%s", left);
    if (used >= HELP_INDENT - 1) {
        putchar('\n');
        used = 0;
    }
    printf("%*s", HELP_INDENT - used, "");
    if (!item->environment) {
        print_wrapped(item->help, HELP_INDENT, HELP_INDENT);
        return;
    }
    char text[512];
    (void)snprintf(text, sizeof text, "%s [%s]", item->help, item->environment);
    print_wrapped(text, HELP_INDENT, HELP_INDENT);
}

void rs_args_help(const struct rs_args *args)
{
    printf("usage: rankscope %s [OPTION...]%s%s\n\n", args->verb, *args->operands ? " " : "",
           args->operands);
    print_wrapped(args->summary, 0, 0);
    printf("\noptions:\n");
    for (size_t i = 0; i < args->count; i++)
        print_item(&args->items[i]);
    printf("  -h, --help                 print this and stop\n");
    if (args->epilogue)
        printf("\n%s", args->epilogue);
}
