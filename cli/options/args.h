/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar of a verb, from one table: parsing, checking, --help, completion and man pages read the same lines.
 *
 *     static const struct rs_arg options[] = {
 *         RS_OPT_TEXT("out", 'o', &words.out, "DIR", "write the deliverables into DIR"),
 *         ...
 *     };
 *     const struct rs_args rs_grammar_analyse = {.verb = "analyse", .operands = "PATH...", .summary = "...",
 *                                             RS_OPTIONS(options), .least = 1, .most = RS_ARGS_ANY, ...};
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
    union {           /* where it goes; the kind says which */
        void *target; /* any of them */
        bool *flag;
        const char **text;
        struct rs_arg_list *list;
        int64_t *number; /* whole numbers, durations, sizes */
        double *share;
    };
    const char *value;       /* word for the value in --help; NULL for flags */
    const char *help;        /* one sentence, no full stop */
    const char *environment; /* "RANKSCOPE_..." or NULL */
    int64_t min, max;        /* RS_ARG_INT */
    const char *
        with; /* the option without which this one does nothing, and is refused on the command line; NULL: it stands alone */
};

/* An option a line: its name, letter (0: none), target, the word for its value, its help; behind that any member by name. What is
 * not of the kind's type is refused by the compiler. */
#define RS_OPT_(name_, letter_, kind_, target_, value_, ...)                                       \
    {                                                                                              \
        .name = name_, .letter = letter_, .kind = RS_ARG_##kind_, target_, .value = value_,        \
        .help = __VA_ARGS__                                                                        \
    }
#define RS_OPT_FLAG(name, letter, target, ...)                                                     \
    RS_OPT_(name, letter, FLAG, .flag = target, NULL, __VA_ARGS__)
#define RS_OPT_TEXT(name, letter, target, value, ...)                                              \
    RS_OPT_(name, letter, TEXT, .text = target, value, __VA_ARGS__)
#define RS_OPT_LIST(name, letter, target, value, ...)                                              \
    RS_OPT_(name, letter, LIST, .list = target, value, __VA_ARGS__)
#define RS_OPT_TIME(name, letter, target, value, ...)                                              \
    RS_OPT_(name, letter, DURATION, .number = target, value, __VA_ARGS__)
#define RS_OPT_SIZE(name, letter, target, value, ...)                                              \
    RS_OPT_(name, letter, SIZE, .number = target, value, __VA_ARGS__)
#define RS_OPT_SHARE(name, letter, target, value, ...)                                             \
    RS_OPT_(name, letter, PERCENT, .share = target, value, __VA_ARGS__)
#define RS_OPT_INT(name, letter, target, value, min_, max_, ...)                                   \
    RS_OPT_(name, letter, INT, .number = target, value, __VA_ARGS__, .min = min_, .max = max_)
#define RS_OPTIONS(array) .items = array, .count = sizeof array / sizeof array[0]

enum { RS_ARGS_ANY = INT32_MAX };

struct rs_args {
    const char *verb;
    const char *operands; /* "PATH...", "" when there are none */
    const char *summary;  /* a sentence or two */
    const struct rs_arg *items;
    size_t count;
    const char *epilogue; /* examples; NULL none */
    bool
        is_launcher; /* options end at the first operand: what follows are another program's words */
    /* Of verbs that cli.h runs: how many operands there may be, and what is said when there are not so many; NULL: that the first of
     * those too many is not expected. */
    int least, most;
    const char *expected;
    void (*prepare)(
        void); /* sets defaults that are found out, before anything is parsed; NULL: none */
    /* What is done, with the targets set; NULL stands behind the last operand. One of both: the first's status becomes the exit code, and
     * its failure is printed; the second prints by itself and returns the exit code. */
    enum rs_status (*act)(char **operands, struct rs_err *err);
    int (*run)(char **operands);
};

/* RS_OK: *first_p is the index of the first operand in argv (operands were moved behind the options).
 * RS_END: --help was printed on stdout, exit 0. RS_INVALID with the sentence for the user. */
RS_MUST_CHECK enum rs_status rs_args_parse(const struct rs_args *args, int argc, char **argv,
                                           int *first_p, struct rs_err *err);

/* Whether the option stands on the command line that was parsed last, and not in the environment or a settings file. */
bool rs_args_was_given(const char *name);

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
