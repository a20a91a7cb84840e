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
#ifndef RS_VENDOR_VENDOR_STEP_H
#define RS_VENDOR_VENDOR_STEP_H

#include "common/vendor/vendor_db.h"
#include "common/vendor/vendor_num.h"
#include "common/vendor/vendor_rows.h"

enum rs_vendor_step_field {
    RS_VENDOR_STEP_COMPUTING,
    RS_VENDOR_STEP_NOT_OVERLAPPED,
    RS_VENDOR_STEP_OVERLAPPED,
    RS_VENDOR_STEP_COMMUNICATION,
    RS_VENDOR_STEP_FREE,
    RS_VENDOR_STEP_STAGE,
    RS_VENDOR_STEP_BUBBLE,
    RS_VENDOR_STEP_NOT_OVERLAPPED_NOR_RECEIVE,
    RS_VENDOR_STEP_PREPARING,
    RS_VENDOR_STEP_FIELDS
};

/* Headings of step_trace_time.csv, columns of StepTraceTime. */
extern const char *const rs_vendor_step_headings[RS_VENDOR_STEP_FIELDS];
extern const char *const rs_vendor_step_columns[RS_VENDOR_STEP_FIELDS];

struct rs_vendor_step {
    char *step;                                         /* "50"; "" without step information */
    int64_t device;                                     /* -1 unknown */
    struct rs_vendor_num values[RS_VENDOR_STEP_FIELDS]; /* us; NONE: not there */
};

struct rs_vendor_steps {
    struct rs_vendor_step *rows; /* in the file's order */
    size_t count, capacity;
};

/* RS_NOTFOUND: no file or no table; RS_FORMAT; RS_NOMEM. *steps_p is set on RS_OK only. `file`: of
 * this database, see vendor_rows.h. */
RS_MUST_CHECK enum rs_status
rs_vendor_steps_read_csv(const char *path, struct rs_vendor_steps *steps_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_vendor_steps_read_db(struct rs_vendor_db *db,
                                                     struct rs_vendor_rows_file *file,
                                                     struct rs_vendor_steps *steps_p,
                                                     struct rs_err *err);
/* The csv's text; `name` is for sentences. */
RS_MUST_CHECK enum rs_status rs_vendor_steps_parse(const void *text, size_t length,
                                                   const char *name,
                                                   struct rs_vendor_steps *steps_p,
                                                   struct rs_err *err);
void rs_vendor_steps_fini(struct rs_vendor_steps *steps);

struct rs_vendor_place {
    char *host_uid, *host_name; /* NULL: HOST_INFO is not there */
    int64_t device;             /* -1 unknown */
};

/* What the database says; what it does not say stays unknown. RS_FORMAT, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status
rs_vendor_place_read(struct rs_vendor_db *db, struct rs_vendor_place *place_p, struct rs_err *err);
void rs_vendor_place_fini(struct rs_vendor_place *place);

#endif
