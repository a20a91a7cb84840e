/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From summaries to what the user gets: the part that `analyse` and `report` share, so that the same data
 * gives the same files whichever way it came.
 *
 *     summaries of all recordings --merge by rank--> analysis --> report on stdout, deliverables in DIR
 *     what was read, skipped, broken -----------------------------> manifest, stderr, exit code
 */
#ifndef RS_CLI_DELIVER_H
#define RS_CLI_DELIVER_H

#include "aggregator/output/output.h"
#include "common/reduce/summary.h"

struct deliver {
    const char *verb;             /* for lines on stderr */
    struct rs_summary *summaries; /* one per rank */
    size_t summary_count, summary_capacity;
    struct rs_output_file *files;
    size_t file_count, file_capacity;
    size_t skipped_count;
    char **notes;
    size_t note_count, note_capacity;
    bool is_partial;       /* something is missing: exit code 1 */
    bool is_choice;        /* every rank that was asked for is there: others are not missing */
    bool has_told_missing; /* ranks that are missing were named among the notes */
};

struct deliver_options {
    const char *out_dir; /* NULL: no deliverables */
    const char *run;     /* NULL unknown */
    const char *capture; /* NULL offline */
    const char *request; /* what it was asked for, a JSON document; NULL not known */
    bool is_triggered;   /* profilers were switched on and off inside running programs */
    bool as_json;
    bool is_quiet;
    bool assume_common_clock;
    double fail_above; /* fraction; < 0: none */
};

void deliver_fini(struct deliver *deliver);

/* A recording that was read. Takes the summary in any case (it is zeroed); later recordings of one rank must
 * come later. One that cannot be joined is told and becomes a failed file. RS_NOMEM. */
RS_MUST_CHECK enum rs_status deliver_add(struct deliver *deliver, const char *path,
                                         struct rs_summary *summary, struct rs_err *err);
/* Something that gave no summary: told on stderr (skipped ones only as far as they are few); a failed one
 * makes the result partial. RS_NOMEM. */
RS_MUST_CHECK enum rs_status deliver_file(struct deliver *deliver, const char *path,
                                          enum rs_output_state state, const char *reason,
                                          struct rs_err *err);
/* A sentence for stderr and the manifest. RS_NOMEM. */
RS_MUST_CHECK enum rs_status deliver_note(struct deliver *deliver, const char *text);

/* Joins, writes, prints. Returns the exit code; failures were told. */
int deliver_finish(struct deliver *deliver, const struct deliver_options *options);

#endif
