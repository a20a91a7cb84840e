/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: `rankscope VERB [...]`.
 *
 * One file per verb: its grammar (struct rs_args rs_grammar_NAME, of which cli/verbs.def makes the table), and what is run with the
 * operands that are left, which returns one of the exit codes below. Results go to stdout, what is missing or wrong to stderr.
 */
#ifndef RS_CLI_CLI_H
#define RS_CLI_CLI_H

#include "cli/options/args.h"
#include "common/base/buf.h"

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

/* How a verb ended: the exit code of `status`. What failed is printed, an interruption is not. */
int rs_cli_end(const char *verb, enum rs_status status, const struct rs_err *err);
/* All of a buffer on stdout; then it is freed. RS_NOMEM: it has failed. RS_IO: "cannot print WHAT". */
RS_MUST_CHECK enum rs_status rs_cli_print(struct rs_buf *buf, const char *what, struct rs_err *err);

/* `analyse --cluster`: all of the official cluster output into OUT/cluster_analysis_output; the exit code. A wing brings it. */
typedef int rs_cli_cluster_fn(const char *const *paths, size_t count, const char *out,
                              unsigned jobs, bool is_quiet);
void rs_cli_set_cluster(rs_cli_cluster_fn *cluster);
/* Options of several verbs. clang-format would break the lines. */
/* clang-format off */
/* Of those that read device rows: its file goes to rs_classes_load() (common/reduce/classes.h). */
#define RS_CLI_CLASSES_ARG(path_p) RS_OPT_TEXT("classes", 0, path_p, "FILE", "kernels of your own libraries that communicate, compute, copy or wait: lines of class, starts|contains, text and, of communication, its type", .environment = "RANKSCOPE_CLASSES")
/* Of those that ask an aggregator: where it is, and how links over TCP are guarded (common/client/client.h). */
#define RS_CLI_CONNECT_ARGS(connect_p) \
    RS_OPT_TEXT("connect", 'c', connect_p, "ADDR", "the aggregator: unix:PATH or HOST:PORT (default: its default socket). Of several, A,B, a collector goes to the first that lives; other commands ask the first", .environment = "RANKSCOPE_CONNECT"), \
    RS_OPT_TEXT("certs", 0, &rs_client_security.certs, "DIR", "folder of certificates for HOST:PORT, as rankscope certs makes it (default: ~/.config/rankscope/certs, else /etc/rankscope/certs)", .environment = "RANKSCOPE_CERTS"), \
    RS_OPT_FLAG("insecure-loopback", 0, &rs_client_security.is_insecure_loopback, "plain text to an aggregator on 127.0.0.1 or ::1 that was started with the same option")
#define RS_CLI_JSON_ARG(flag_p) RS_OPT_FLAG("json", 0, flag_p, "print JSON")
#define RS_CLI_QUIET_ARG(flag_p) RS_OPT_FLAG("quiet", 'q', flag_p, "print nothing but errors")
#define RS_CLI_FAIL_ABOVE_ARG(share_p) RS_OPT_SHARE("fail-above", 0, share_p, "X%", "exit with 5 when a finding costs more than X % of a step")
#define RS_CLI_COMMON_CLOCK_ARG(flag_p) RS_OPT_FLAG("assume-common-clock", 0, flag_p, "take the clocks of all hosts as one")
#define RS_CLI_DATA_ARG(path_p) RS_OPT_TEXT("data", 0, path_p, "DIR", "read the capture from this data folder, without asking an aggregator", .environment = "RANKSCOPE_DATA")
/* clang-format on */

/* What both daemons take of a command line beside their own options. */
struct rs_cli_daemon {
    bool is_verbose, is_quiet;
    const char *log_format, *classes;
};
/* Sets up logging and kernel classes. RS_INVALID, or as rs_classes_load(). */
RS_MUST_CHECK enum rs_status rs_cli_set_up_daemon(const struct rs_cli_daemon *daemon,
                                                  struct rs_err *err);

struct rs_report_options {
    bool as_json;             /* report.json on stdout instead of the text */
    bool is_quiet;            /* nothing on stdout */
    bool assume_common_clock; /* --assume-common-clock */
    double fail_above; /* share (fraction) of a finding that makes the exit code 5; < 0: none */
};

#endif
