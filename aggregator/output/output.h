/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reading room: rows of one analysis in, the files that people and other tools read out.
 *
 *                     +--> rank_breakdown.csv  step_trace_time.csv  step_breakdown.csv  collectives.csv
 *     rs_analysis ----+--> communication.json  communication_matrix.json  analysis.db
 *                     +--> report.json  report.md  report.html   the same model as the text on a terminal
 *     + what was read ---> manifest.json                     last: it names and sums up all others
 *
 * Promises: each file appears whole or not at all, others in the folder are left alone; what is not
 * known is an empty cell or null, never 0; the same analysis gives the same bytes, since ids, paths
 * and sources stand in manifest.json (and the table RankManifest) only. Rows rest in a private store while
 * documents are made of them (some 20 bytes a member of an operation); else memory is that of one step's operations: buffers are
 * drained as they fill.
 * One thread per call.
 */
#ifndef RS_OUTPUT_OUTPUT_H
#define RS_OUTPUT_OUTPUT_H

#include "aggregator/analysis/analysis.h"
#include "aggregator/output/style.h"
#include "aggregator/store/row_store.h"
#include "aggregator/store/store.h"
#include "common/base/buf.h"

enum rs_output_state { RS_OUTPUT_WHOLE, RS_OUTPUT_PARTIAL, RS_OUTPUT_SKIPPED, RS_OUTPUT_FAILED };
const char *rs_output_state_text(enum rs_output_state state); /* "whole", "partial", ... */

/* One thing that was read or looked at, for the manifest. Owns its strings. */
struct rs_output_file {
    char *path;
    char *reason;     /* why it is not whole; NULL */
    char *generation; /* NULL unknown */
    char *host;       /* NULL unknown */
    char *
        framework; /* of the vendor whose profiler recorded it: "torch_npu"; NULL: another one did */
    char *framework_version, *cann_version; /* NULL unknown */
    enum rs_output_state state;
    int32_t rank; /* -1: none */
    enum rs_rank_source rank_source;
    enum rs_step_origin step_origin; /* of a rank that was read */
    bool has_time_base;
    int64_t events_read, rows_read, input_bytes, raw_bytes;
    struct rs_output_drop {
        char *reason;
        int64_t count;
    } * drops;
    size_t drop_count;
};

/* Copies path and reason. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_output_file_init(struct rs_output_file *file, const char *path,
                                                 enum rs_output_state state, const char *reason);
/* The same from what was read: state whole or partial, everything else from the summary's trace info. */
RS_MUST_CHECK enum rs_status rs_output_file_of(struct rs_output_file *file, const char *path,
                                               const struct rs_summary *summary);
void rs_output_file_fini(struct rs_output_file *file); /* of a zeroed struct is allowed */

struct rs_output_input {
    const struct rs_analysis *analysis;
    const struct rs_output_file *files; /* in the order in which they were found */
    size_t file_count;
    const char *run;          /* NULL unknown */
    const char *capture;      /* its id; NULL offline */
    const char *request;      /* what it was asked for, a JSON document; NULL not known */
    const char *const *notes; /* sentences for the manifest beside the analysis' own */
    size_t note_count;
    const struct rs_capture_facts *facts; /* of a store's capture; NULL: there is none */
    const struct rs_row_stream *streams;  /* what came of it; `capture` is not read */
    size_t stream_count;
};

/* The analysis and what was read as rows of capture RS_ROWS_CAPTURE: what documents are made from. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_output_rows(const struct rs_output_input *input,
                                            struct rs_row_store *store, struct rs_err *err);

/* All deliverables into `dir`, which is created. RS_IO, RS_NOMEM. What was written before a failure stays;
 * manifest.json is there only when everything is. */
RS_MUST_CHECK enum rs_status rs_output_write(const struct rs_output_input *input, const char *dir,
                                             struct rs_err *err);

/* The report as text, Markdown, HTML (one page that needs no network) or JSON, appended to `buf`. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_output_report_text(const struct rs_analysis *analysis,
                                                   struct rs_output_style style, struct rs_buf *buf,
                                                   struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_output_report_markdown(const struct rs_analysis *analysis,
                                                       struct rs_buf *buf, struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_output_report_html(const struct rs_analysis *analysis,
                                                   struct rs_buf *buf, struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_output_report_json(const struct rs_analysis *analysis,
                                                   struct rs_buf *buf, struct rs_err *err);

/* A finding as one line, as the report's list has it: who, what, how much of a step. Appended. */
void rs_output_finding_line(const struct rs_finding *finding, struct rs_buf *buf);

/* SCHEMA_VERSION of report.json and manifest.json; docs/schema/ describes it. */
enum { RS_OUTPUT_SCHEMA_VERSION = 1 };

#endif
