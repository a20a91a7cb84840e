/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/present.h"

#include "common/base/terminal.h"
#include "common/client/client.h"
#include "common/client/documents.h"

void rs_cli_note_line(void *noter, const char *line)
{
    const struct rs_cli_noter *own = noter;
    rs_cli_note(own->verb, "%s", line);
}

enum rs_deliver_report rs_cli_report_kind(const struct rs_report_options *options)
{
    return options->is_quiet  ? RS_DELIVER_NO_REPORT
           : options->as_json ? RS_DELIVER_JSON
                              : RS_DELIVER_TEXT;
}

struct rs_output_style rs_cli_style(void)
{
    return (struct rs_output_style){.width = rs_terminal_width(stdout),
                                    .has_colour = rs_terminal_wants_colour(stdout),
                                    .has_utf8 = rs_terminal_wants_utf8()};
}

static int print(const char *verb, const struct rs_buf *report, const char *out_dir, bool is_text)
{
    struct rs_err err = {0};
    if (fwrite(report->data, 1, report->length, stdout) != report->length ||
        (is_text && out_dir && printf("\nDeliverables are in %s\n", out_dir) < 0) ||
        fflush(stdout) != 0) {
        (void)rs_err_errno(&err, "cannot print the report");
        return rs_cli_fail(verb, &err);
    }
    return RS_EXIT_COMPLETE;
}

int rs_cli_present(const char *verb, const struct rs_deliver_result *result, const char *out_dir,
                   const struct rs_report_options *options)
{
    rs_cli_tell_of_link(verb, out_dir);
    const int printed = options->is_quiet
                            ? RS_EXIT_COMPLETE
                            : print(verb, &result->report, out_dir, !options->as_json);
    if (printed != RS_EXIT_COMPLETE)
        return printed;
    for (size_t i = 0; i < result->share_count && options->fail_above >= 0; i++)
        if (result->shares[i] > options->fail_above) {
            rs_cli_note(verb, "a finding costs %.2f %% of a step, more than %.2f %%",
                        result->shares[i] * 100, options->fail_above * 100);
            return RS_EXIT_THRESHOLD;
        }
    return result->is_partial ? RS_EXIT_PARTIAL : RS_EXIT_COMPLETE;
}

int rs_cli_report_remote(const char *verb, const struct rs_address *address, const char *capture,
                         const char *out_dir, const struct rs_report_options *options)
{
    struct rs_err err = {0};
    struct rs_client_documents documents = {.count = 0};
    struct rs_deliver_result result = {.is_partial = false};
    const struct rs_output_style style = rs_cli_style();
    const struct rs_client_document_options how = {.assume_common_clock =
                                                       options->assume_common_clock,
                                                   .has_deliverables = out_dir != NULL,
                                                   .dir = out_dir,
                                                   .report = rs_cli_report_kind(options),
                                                   .width = style.width,
                                                   .has_colour = style.has_colour,
                                                   .has_utf8 = style.has_utf8};
    const enum rs_status status =
        rs_client_documents_fetch(address, capture, &how, &documents, &result.report, &err);
    for (size_t i = 0; i < documents.line_count; i++)
        rs_cli_note(verb, "%s", documents.lines[i]);
    result.is_partial = documents.is_partial;
    result.is_provisional = documents.is_provisional;
    result.shares = documents.shares;
    result.share_count = documents.share_count;
    const int code =
        status == RS_OK ? rs_cli_present(verb, &result, out_dir, options) : rs_cli_fail(verb, &err);
    result.shares = NULL; /* they are the documents' */
    rs_deliver_result_fini(&result);
    rs_client_documents_fini(&documents);
    return code;
}
