/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of a verb, from one table: parsing, checking and --help read the same lines.
 *
 *     static const struct rs_arg options[] = {
 *         {.name = "out", .letter = 'o', .kind = RS_ARG_TEXT, .target = &out, .value = "DIR",
 *          .help = "write the deliverables into DIR"},
 *         ...
 *     };
 *     const struct rs_args args = {.verb = "analyse", .operands = "PATH...", .summary = "...",
 *                                  .items = options, .count = ...};
 *     int first = 0;
 *     switch (rs_args_parse(&args, argc, argv, &first, &err)) ...
 *
 * --help is in every verb by itself. Options may stand before or behind operands; "--" ends
 * them. Where the option was not given, the environment's member named in the table counts, then the settings
 * files (cli/options/settings.h). Targets keep what they held (the default) when none of them says anything.
 * Man pages, completion and `config show` are made from the same tables: rs_args_describe_with().
 */
#ifndef RS_CLI_ARGS_H
#define RS_CLI_ARGS_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rs_arg_kind {
    RS_ARG_FLAG,     /* bool */
    RS_ARG_TEXT,     /* const char *: keeps a pointer into argv or the environment */
    RS_ARG_LIST,     /* struct rs_arg_list: may be given many times */
    RS_ARG_INT,      /* int64_t within min..max (both 0: any) */
    RS_ARG_DURATION, /* int64_t ns: "5s", "200ms", "2m", "1h", "30d"; a bare number is seconds */
    RS_ARG_SIZE,     /* int64_t bytes: "64MiB", "1GB", "4096" */
    RS_ARG_PERCENT,  /* double fraction: "5%", "5" and "0.05%" are 0.05, 0.05 and 0.0005 */
};

enum { RS_ARG_LIST_MAX = 64 };

struct rs_arg_list {
    const char *items[RS_ARG_LIST_MAX]; /* keeps pointers into argv */
    size_t count;
};

struct rs_arg {
    const char *name; /* without dashes */
    char letter;      /* 0: none */
    enum rs_arg_kind kind;
    void *target;
    const char *value;       /* word for the value in --help; NULL for flags */
    const char *help;        /* one sentence, no full stop */
    const char *environment; /* "RANKSCOPE_..." or NULL */
    int64_t min, max;        /* RS_ARG_INT */
    const char *
        with; /* the option without which this one does nothing, and is refused on the command line; NULL: it stands alone */
};

struct rs_args {
    const char *verb;
    const char *operands; /* "PATH...", "" when there are none */
    const char *summary;  /* a sentence or two */
    const struct rs_arg *items;
    size_t count;
    const char *epilogue; /* examples; NULL none */
};

/* RS_OK: *first_p is the index of the first operand in argv (operands were moved behind the options).
 * RS_END: --help was printed on stdout, exit 0. RS_INVALID with the sentence for the user. */
RS_MUST_CHECK enum rs_status rs_args_parse(const struct rs_args *args, int argc, char **argv,
                                           int *first_p, struct rs_err *err);

void rs_args_help(const struct rs_args *args);

/* From now on rs_args_parse() hands its table to `describe` and answers RS_END, as --help does; NULL ends that. So
 * whoever wants to know the options of a verb runs the verb. One thread. */
typedef void rs_args_describe_fn(void *self, const struct rs_args *args);
void rs_args_describe_with(rs_args_describe_fn *describe, void *self);

/* Where the value of an option that was not given on the command line comes from. */
enum rs_arg_source { RS_ARG_FROM_DEFAULT, RS_ARG_FROM_ENVIRONMENT, RS_ARG_FROM_FILE };
/* Takes it into the option's target; *file_p is the file it came from, lent as by rs_settings_find(). RS_INVALID with
 * the sentence for the user. Only after rs_settings_load(). */
RS_MUST_CHECK enum rs_status rs_args_fill(const struct rs_args *args, const struct rs_arg *item,
                                          enum rs_arg_source *source_p, const char **file_p,
                                          struct rs_err *err);

/* Whole-text numbers, for operands: RS_INVALID otherwise (*value_p untouched). */
RS_MUST_CHECK enum rs_status rs_args_int(const char *text, int64_t min, int64_t max,
                                         int64_t *value_p);
RS_MUST_CHECK enum rs_status rs_args_duration(const char *text, int64_t *ns_p);
RS_MUST_CHECK enum rs_status rs_args_size(const char *text, int64_t *bytes_p);
RS_MUST_CHECK enum rs_status rs_args_percent(const char *text, double *fraction_p);

#endif
