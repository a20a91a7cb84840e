/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From summaries to what the user gets: the part that `analyse`, `report DIR` and the aggregator share, so that the same
 * data gives the same files whichever way it came and wherever it is joined.
 *
 *     files --discover, reduce--> summaries --+
 *                                             +--merge by rank--> analysis --> report as text or JSON, deliverables in DIR
 *     a capture's folder -------> summaries --+
 *                                                                      rows in a store
 *     what was read, skipped, broken ------------------------------> manifest, lines for the user, is_partial
 *
 * One thread per call. Prints nothing: lines go to `tell` as they are found.
 */
#ifndef RS_DELIVER_DELIVER_H
#define RS_DELIVER_DELIVER_H

#include "aggregator/analysis/hang/hang.h"
#include "aggregator/output/output.h"
#include "aggregator/store/row_store.h"
#include "common/base/slots.h"
#include "common/reduce/summary.h"

/* One line for the user, without a line end: what is missing or wrong. Lent for the call. */
typedef void rs_deliver_print_fn(void *self, const char *line);

struct rs_deliver {
    rs_deliver_print_fn *print; /* NULL: nobody listens */
    void *print_self;
    struct rs_summary *summaries; /* one per rank */
    size_t summary_count, summary_capacity;
    struct rs_slots by_rank; /* summaries */
    struct rs_output_file *files;
    size_t file_count, file_capacity;
    size_t skipped_count;
    char **notes;
    size_t note_count, note_capacity;
    bool is_partial;           /* something is missing: exit code 1 */
    bool is_choice;            /* every rank that was asked for is there: others are not missing */
    bool has_reported_missing; /* ranks that are missing were named among the notes */
    size_t recording_count;    /* ranks of which only the steps so far are here */
    size_t waiting_count;      /* ranks that were left out: their summary is not here */
    size_t dropped_count;      /* summaries whose spans were read, and are gone */
};

enum rs_deliver_report { RS_DELIVER_NO_REPORT, RS_DELIVER_TEXT, RS_DELIVER_JSON };

/* A capture that is not closed, as whoever runs it knows it: its folder does not say this yet. */
struct rs_deliver_live {
    const char *id, *run, *source; /* source: "files", or kinds of ranks */
    bool is_summarised; /* every rank's summary is here, or will not come: findings are final */
    bool is_choice; /* every rank that was chosen records, or has recorded, what was asked for */
    const struct rs_deliver_absent *absent; /* ranks that will send nothing; by rank */
    size_t absent_count;
};
struct rs_deliver_absent {
    uint32_t rank;
    const char *why;
};

struct rs_deliver_options {
    const char *out_dir; /* NULL: no deliverables */
    const char *run;     /* NULL unknown; these three of rs_deliver_finish() only */
    const char *capture; /* NULL offline */
    const char *request; /* what it was asked for, a JSON document; NULL not known */
    const struct rs_capture_facts
        *facts; /* these three of rs_deliver_finish(), as of struct rs_output_input */
    const struct rs_row_stream *streams;
    size_t stream_count;
    bool is_triggered; /* profilers were switched on and off inside running programs */
    bool assume_common_clock;
    enum rs_deliver_report report; /* what `report` of the result holds */
    struct rs_output_style style;  /* of the text */
    struct rs_row_store *rows;     /* written with capture RS_ROWS_CAPTURE; NULL: no rows */
    const struct rs_deliver_live
        *live;           /* of a capture that is not closed; NULL: unknown, or closed */
    bool summaries_only; /* of a capture: ranks whose summary is not here are left out */
};

struct rs_deliver_result {
    struct rs_buf report;
    bool is_partial;     /* something is missing; it was told */
    bool is_provisional; /* of a capture that goes on; it was told */
    double *shares;      /* of a step, per finding, in the order of fixing */
    size_t share_count;
    struct rs_buf headline; /* the first finding as one line; empty: there is none */
    size_t rank_count;      /* ranks that were joined */
    size_t recording_count; /* of these, ranks of which some steps are here, and more will come */
    size_t waiting_count;   /* with summaries_only: ranks that were left out */
    int64_t last_step;      /* that all of them have; RS_STEP_NONE: none */
};

void rs_deliver_fini(struct rs_deliver *deliver);
void rs_deliver_result_fini(struct rs_deliver_result *result); /* of a zeroed struct is allowed */

/* A recording that was read. Takes the summary in any case (it is zeroed); later recordings of one rank must
 * come later. One that cannot be joined is reported and becomes a failed file. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_deliver_add(struct rs_deliver *deliver, const char *path,
                                            struct rs_summary *summary, struct rs_err *err);
/* Something that gave no summary: told (skipped ones only as far as they are few); a failed one makes the result
 * partial. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_deliver_file(struct rs_deliver *deliver, const char *path,
                                             enum rs_output_state state, const char *reason,
                                             struct rs_err *err);
/* A sentence for the user and the manifest. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_deliver_note(struct rs_deliver *deliver, const char *text);

/* Joins, writes the deliverables, renders the report. On RS_OK the result is the caller's (rs_deliver_result_fini()).
 * RS_IO, RS_NOMEM, RS_INVALID. */
RS_MUST_CHECK enum rs_status rs_deliver_finish(struct rs_deliver *deliver,
                                               const struct rs_deliver_options *options,
                                               struct rs_deliver_result *result_p,
                                               struct rs_err *err);

/* All of it for the capture in the folder `dir` of a store, open or closed (capture.c). RS_NOTFOUND: no capture, or no rank of
 * it can be read. */
RS_MUST_CHECK enum rs_status rs_deliver_capture(const char *dir,
                                                const struct rs_deliver_options *options,
                                                rs_deliver_print_fn *print, void *print_self,
                                                struct rs_deliver_result *result_p,
                                                struct rs_err *err);

/* The same for a capture of flight recorders (hang.c): who did not arrive. RS_END: the folder holds none. Every finding of a job that hangs costs all of a step. */
RS_MUST_CHECK enum rs_status rs_deliver_hang(const char *dir,
                                             const struct rs_deliver_options *options,
                                             rs_deliver_print_fn *print, void *print_self,
                                             struct rs_deliver_result *result_p,
                                             struct rs_err *err);
/* The same for dumps that are in memory, sorted. */
RS_MUST_CHECK enum rs_status
rs_deliver_hang_set(const struct rs_flight_set *set, const struct rs_hang_options *how,
                    const struct rs_deliver_options *options, rs_deliver_print_fn *print,
                    void *print_self, struct rs_deliver_result *result_p, struct rs_err *err);

#endif
