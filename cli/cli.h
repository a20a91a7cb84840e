/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: `rankscope VERB [...]`.
 *
 * One file per verb, one table of verbs in rankscope.c. A verb is a function with main's
 * signature (argv[0] is the verb) that returns one of the exit codes below. Results go
 * to stdout, what is missing or wrong to stderr.
 */
#ifndef RS_CLI_CLI_H
#define RS_CLI_CLI_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdio.h>

/* Contracts section 2. A bug (failed check) aborts instead. */
enum rs_exit {
    RS_EXIT_COMPLETE = 0,
    RS_EXIT_PARTIAL =
        1, /* a result, but something is missing: named on stderr and in the manifest */
    RS_EXIT_BAD_REQUEST = 2, /* bad request or input */
    RS_EXIT_REFUSED = 3,     /* policy, permission, space */
    RS_EXIT_UNREACHABLE = 4, /* the aggregator does not answer */
    RS_EXIT_THRESHOLD = 5,   /* --fail-above was crossed */
    RS_EXIT_INTERRUPTED = 130,
};

/* Status of a failure -> exit code. RS_OK is 0, RS_PARTIAL is 1. */
enum rs_exit rs_exit_of(enum rs_status status);

/* Prints "rankscope VERB: sentence" on stderr and returns the exit code of err->status. */
int rs_cli_fail(const char *verb, const struct rs_err *err);
/* A line on stderr in the same form, for what is told but stops nothing. */
void rs_cli_note(const char *verb, const char *format, ...) RS_PRINTF(2, 3);
/* Says where the files are when the folder that was named for them is a link. NULL: none was. */
void rs_cli_tell_of_link(const char *verb, const char *dir);

/* Colours and animation are for people: a terminal, NO_COLOR not set, TERM not "dumb". */
bool rs_cli_wants_colour(FILE *stream);
/* The stream's locale can show box drawings and blocks. */
bool rs_cli_wants_utf8(void);
/* Columns of the terminal, within 60..100; 96 when it is none. */
unsigned rs_cli_width(FILE *stream);

/* The verbs. */
int rs_cmd_analyse(int argc, char **argv);
int rs_cmd_report(int argc, char **argv);
int rs_cmd_query(int argc, char **argv);
int rs_cmd_history(int argc, char **argv);
int rs_cmd_table(int argc, char **argv);
int rs_cmd_aggregator(int argc, char **argv);
int rs_cmd_collector(int argc, char **argv);
int rs_cmd_ranks(int argc, char **argv);
int rs_cmd_capture(int argc, char **argv);
int rs_cmd_watch(int argc, char **argv);
int rs_cmd_counters(int argc, char **argv);
int rs_cmd_aggregators(int argc, char **argv);
int rs_cmd_fetch(int argc, char **argv);
int rs_cmd_verify(int argc, char **argv);
int rs_cmd_rebuild(int argc, char **argv);
/* `analyse --cluster`: all of the official cluster output into OUT/cluster_analysis_output; the exit code. A wing brings it. */
typedef int rs_cli_cluster_fn(const char *const *paths, size_t count, const char *out,
                              unsigned jobs, bool is_quiet);
void rs_cli_set_cluster(rs_cli_cluster_fn *cluster);
int rs_cmd_run(int argc, char **argv);
int rs_cmd_doctor(int argc, char **argv);
int rs_cmd_hang(int argc, char **argv);
int rs_cmd_whatif(int argc, char **argv);
/* Verbs of verbs: "certs init". Runs the one that argv[1] names; without one, or with --help, says which there are. */
struct rs_cli_subverb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *sentence;
};
int rs_cli_run_subverb(const char *verb, const char *summary, const struct rs_cli_subverb *subverbs,
                       size_t count, int argc, char **argv);
int rs_cmd_certs(int argc, char **argv);
int rs_cmd_token(int argc, char **argv);
int rs_cmd_rm(int argc, char **argv);
int rs_cmd_store(int argc, char **argv);
int rs_cmd_archive(int argc, char **argv);
int rs_cmd_restore(int argc, char **argv);
int rs_cmd_config(int argc, char **argv);
/* `config show`: every option of a verb, its value and where that comes from. */
int rs_cmd_config_show(int argc, char **argv);
int rs_cmd_completion(int argc, char **argv);

/* Of the verbs that read device rows: an option whose file goes to rs_classes_load() (common/reduce/classes.h). */
#define RS_CLI_CLASSES_ARG(path_p)                                                                 \
    {                                                                                              \
        .name = "classes", .kind = RS_ARG_TEXT, .target = (path_p), .value = "FILE",               \
        .environment = "RANKSCOPE_CLASSES",                                                        \
        .help = "kernels of your own libraries that communicate, compute, copy or wait: lines of " \
                "class, starts|contains, text and, of communication, its type"                     \
    }

/* Of the verbs that ask an aggregator: where it is, and how links over TCP are guarded (common/client/client.h). */
#define RS_CLI_CONNECT_ARGS(connect_p)                                                             \
    {.name = "connect",                                                                            \
     .letter = 'c',                                                                                \
     .kind = RS_ARG_TEXT,                                                                          \
     .target = (connect_p),                                                                        \
     .value = "ADDR",                                                                              \
     .environment = "RANKSCOPE_CONNECT",                                                           \
     .help = "the aggregator: unix:PATH or HOST:PORT (default: its default socket)"},              \
        {.name = "certs",                                                                          \
         .kind = RS_ARG_TEXT,                                                                      \
         .target = &rs_client_security.certs,                                                      \
         .value = "DIR",                                                                           \
         .environment = "RANKSCOPE_CERTS",                                                         \
         .help = "folder of certificates for HOST:PORT, as rankscope certs makes it (default: "    \
                 "~/.config/rankscope/certs, else /etc/rankscope/certs)"},                         \
    {                                                                                              \
        .name = "insecure-loopback", .kind = RS_ARG_FLAG,                                          \
        .target = &rs_client_security.is_insecure_loopback,                                        \
        .help = "plain text to an aggregator on 127.0.0.1 or ::1 that was started with the same "  \
                "option"                                                                           \
    }

struct rs_report_options {
    bool as_json;             /* report.json on stdout instead of the text */
    bool is_quiet;            /* nothing on stdout */
    bool assume_common_clock; /* --assume-common-clock */
    double fail_above; /* share (fraction) of a finding that makes the exit code 5; < 0: none */
};

#endif
