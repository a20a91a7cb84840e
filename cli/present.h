/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A result on the terminal: the report on stdout, what is missing on stderr, the exit code. The same whether it was joined
 * here or by an aggregator.
 */
#ifndef RS_CLI_PRESENT_H
#define RS_CLI_PRESENT_H

#include "aggregator/deliver/deliver.h"
#include "cli/cli.h"
#include "common/client/place.h"

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

/* The report of a capture that the aggregator at `address` holds: made there, fetched (into `out_dir`, unless it is NULL),
 * printed here as a folder's is. The exit code; failures were told. */
int rs_cli_report_remote(const char *verb, const struct rs_address *address, const char *capture,
                         const char *out_dir, const struct rs_report_options *options);

#endif
