/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A result on the terminal: the report on stdout, what is missing on stderr, the exit code. The same whether it was joined
 * here or by an aggregator.
 */
#ifndef RS_CLI_PRESENT_H
#define RS_CLI_PRESENT_H

#include "aggregator/deliver/deliver.h"
#include "cli/cli.h"
#include "common/wire/link.h"

/* For rs_deliver_print_fn: prints each line as rs_cli_note() does; self is the struct. */
struct rs_cli_noter {
    const char *verb;
};
void rs_cli_note_line(void *noter, const char *line);

/* What is to be rendered, and how: of this terminal. */
enum rs_deliver_report rs_cli_report_kind(const struct rs_report_options *options);
struct rs_output_style rs_cli_style(void);

/* Prints the rendered report (and where the deliverables are), judges --fail-above; the exit code. */
int rs_cli_present(const char *verb, const struct rs_deliver_result *result, const char *out_dir,
                   const struct rs_report_options *options);

/* Where a capture is joined: in this process, from its folder, or by the aggregator that holds it. */
struct rs_cli_place {
    char dir[4096];            /* "": ask */
    struct rs_address address; /* when dir is "" */
};
/* `word` is the capture's folder, or its ID: a folder of `data` when that is given; else the aggregator is asked, unless nobody
 * answers at the usual socket and the ID is a folder of the usual data. RS_NOTFOUND; RS_INVALID, RS_REFUSED: the address. */
RS_MUST_CHECK enum rs_status rs_cli_place_of(const char *word, const char *data,
                                             const char *connect, struct rs_cli_place *place_p,
                                             struct rs_err *err);

/* The report of a capture that the aggregator at `address` holds: made there, fetched (into `out_dir`, unless it is NULL),
 * printed here as a folder's is. The exit code; failures were told. */
int rs_cli_report_remote(const char *verb, const struct rs_address *address, const char *capture,
                         const char *out_dir, const struct rs_report_options *options);

/* The folder of a capture, for verbs that read raw data. */
struct rs_cli_carried {
    char dir[4096];    /* "": there is none */
    bool is_temporary; /* it was carried here, and goes with rs_cli_carried_remove() */
};
/* `word` is the capture's folder itself, else its ID: below DATA/captures when `data` is given; else the aggregator hands its
 * files out, into a new folder below $TMPDIR; else, when nobody answers at the usual socket, in the usual data folder.
 * RS_NOTFOUND: it names no capture. RS_UNREACHABLE, RS_REFUSED, RS_IO. */
RS_MUST_CHECK enum rs_status rs_cli_capture_find(const char *word, const char *data,
                                                 const char *connect,
                                                 struct rs_cli_carried *carried_p,
                                                 struct rs_err *err);
/* Whether `word` is a capture's folder, or no path and of the form of an ID. Nobody is asked. */
bool rs_cli_is_capture(const char *word);
/* Zeroed is allowed. */
void rs_cli_carried_remove(struct rs_cli_carried *carried);

#endif
