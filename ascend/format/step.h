/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's own step figures as the vendor computed them, and where the rank ran.
 *
 *     step_trace_time.csv, or StepTraceTime of analysis.db     rows of nine times, us
 *     HOST_INFO, RANK_DEVICE_MAP of the profiler database      host, device
 *
 * Columns by name, each optional; text is trimmed (the vendor writes tabs behind numbers), lines end in
 * LF or CRLF. Any thread.
 */
#ifndef RS_ASCEND_FORMAT_STEP_H
#define RS_ASCEND_FORMAT_STEP_H

#include "ascend/format/db.h"
#include "ascend/format/num.h"
#include "ascend/format/rows.h"

enum rs_ascend_step_field {
    RS_ASCEND_STEP_COMPUTING,
    RS_ASCEND_STEP_NOT_OVERLAPPED,
    RS_ASCEND_STEP_OVERLAPPED,
    RS_ASCEND_STEP_COMMUNICATION,
    RS_ASCEND_STEP_FREE,
    RS_ASCEND_STEP_STAGE,
    RS_ASCEND_STEP_BUBBLE,
    RS_ASCEND_STEP_NOT_OVERLAPPED_NOR_RECEIVE,
    RS_ASCEND_STEP_PREPARING,
    RS_ASCEND_STEP_FIELDS
};

/* Headings of step_trace_time.csv, columns of StepTraceTime. */
extern const char *const rs_ascend_step_headings[RS_ASCEND_STEP_FIELDS];
extern const char *const rs_ascend_step_columns[RS_ASCEND_STEP_FIELDS];

struct rs_ascend_step {
    char *step;                                         /* "50"; "" without step information */
    int64_t device;                                     /* -1 unknown */
    struct rs_ascend_num values[RS_ASCEND_STEP_FIELDS]; /* us; NONE: not there */
};

struct rs_ascend_steps {
    struct rs_ascend_step *rows; /* in the file's order */
    size_t count, capacity;
    struct rs_buf flaws; /* what stands there and cannot be used, as sentences; empty: nothing */
};

/* RS_NOTFOUND: no file or no table; RS_FORMAT; RS_NOMEM. *steps_p is set on RS_OK only. */
RS_MUST_CHECK enum rs_status
rs_ascend_steps_read_csv(const char *path, struct rs_ascend_steps *steps_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_ascend_steps_read_db(struct rs_ascend_db *db,
                                                     struct rs_ascend_steps *steps_p,
                                                     struct rs_err *err);
/* The csv's text; `name` is for sentences. */
RS_MUST_CHECK enum rs_status rs_ascend_steps_parse(const void *text, size_t length,
                                                   const char *name,
                                                   struct rs_ascend_steps *steps_p,
                                                   struct rs_err *err);
void rs_ascend_steps_fini(struct rs_ascend_steps *steps);

struct rs_ascend_place {
    char *host_uid, *host_name; /* NULL: HOST_INFO is not there */
    int64_t device;             /* -1 unknown */
};

/* What the database says; what it does not say stays unknown. RS_FORMAT, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status
rs_ascend_place_read(struct rs_ascend_db *db, struct rs_ascend_place *place_p, struct rs_err *err);
void rs_ascend_place_fini(struct rs_ascend_place *place);

#endif
