/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.json, as docs/schema/clock.schema.json describes it: how each rank's clock stands to the reference, that of the lowest
 * rank. `one_clock`: instants of all ranks can be compared. A rank of method "none" has no offset: nobody knows.
 */
#include "aggregator/output/output_priv.h"
#include "common/base/json_out.h"

#include <string.h>

static void put_int(struct rs_json_out *json, const char *key, int64_t value)
{
    rs_json_out_key(json, key);
    if (value != RS_NULL)
        rs_json_out_int(json, value);
    else
        rs_json_out_null(json);
}

static void put_rank(struct rs_json_out *json, const struct rs_row_clock *clock)
{
    rs_json_out_object(json);
    put_int(json, "rank", clock->rank);
    put_int(json, "at_ns", clock->at_ns);
    put_int(json, "offset_ns", clock->offset_ns);
    rs_json_out_key(json, "drift_ppm");
    if (clock->drift_ppb != RS_NULL)
        rs_json_out_double(json, (double)clock->drift_ppb / 1000);
    else
        rs_json_out_null(json);
    put_int(json, "bound_ns", clock->bound_ns);
    rs_json_out_key(json, "method");
    rs_json_out_string(json, clock->method);
    rs_json_out_end(json);
}

static void put_head(struct rs_json_out *json, const struct rs_row_capture *capture)
{
    put_int(json, "schema_version", RS_OUTPUT_SCHEMA_VERSION);
    put_int(json, "reference_rank", capture->reference_rank);
    rs_json_out_key(json, "one_clock");
    rs_json_out_bool(json, strcmp(capture->clock, "several") != 0);
}

enum rs_status clock_document(struct rs_row_store *rows, struct output_file *file,
                              struct rs_err *err)
{
    struct rs_json_out json;
    struct rows_reading captures = {0}, clocks = {0};
    const void *row = NULL;
    enum rs_status status = rows_reading_open(&captures, rows, RS_READ_CAPTURE, err);
    if (status == RS_OK)
        status = rows_reading_next(&captures, &row, err);
    if (status == RS_OK && !row)
        status = rs_err_set(err, RS_NOTFOUND, "there is no capture in the rows");
    if (status == RS_OK)
        status = rows_reading_open(&clocks, rows, RS_READ_CLOCKS, err);
    if (status == RS_OK) {
        rs_json_out_init(&json, &file->buf, 2);
        rs_json_out_object(&json);
        put_head(&json, row);
        rs_json_out_key(&json, "ranks");
        rs_json_out_array(&json);
        while ((status = rows_reading_next(&clocks, &row, err)) == RS_OK && row)
            put_rank(&json, row);
        rs_json_out_end(&json);
        rs_json_out_end(&json);
        rs_buf_u8(&file->buf, '\n');
    }
    rows_reading_close(&captures);
    rows_reading_close(&clocks);
    if (status == RS_OK && file->buf.failed)
        status = rs_err_set(err, RS_NOMEM, "no memory for clock.json");
    return status;
}
