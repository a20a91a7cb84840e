/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that are read again, as JSON and as lines. Text is handed on stream by stream: a large capture takes its time.
 */
#include "aggregator/output/verify_report.h"

#include "common/base/json_out.h"

#include <inttypes.h>

static void add_totals(struct rs_verify_totals *totals, const struct rs_verify_finding *finding)
{
    const struct rs_stored_stream *stream = finding->stream;
    totals->streams++;
    totals->summary_only += finding->is_summary_only;
    totals->chunks += stream->chunk_count;
    totals->bytes += finding->bytes;
    totals->rows += finding->rows;
    totals->missing += stream->missing_count;
    totals->repeated += stream->repeated_count;
    totals->lost_chunks += stream->loss.chunks;
    totals->unfinished += !stream->is_ended;
    totals->damaged += finding->wrong[0] != '\0';
}

static void json_stream(struct rs_json_out *json, const struct rs_verify_finding *finding)
{
    const struct rs_stored_stream *stream = finding->stream;
    rs_json_out_object(json);
    rs_json_put_int(json, "rank", stream->rank);
    rs_json_put_string(json, "incarnation", stream->incarnation);
    rs_json_put_uint(json, "chunks", stream->chunk_count);
    rs_json_put_uint(json, "first_seq", stream->first_seq);
    rs_json_put_uint(json, "last_seq", stream->last_seq);
    rs_json_put_uint(json, "bytes", finding->bytes);
    rs_json_put_uint(json, "rows", finding->rows);
    rs_json_put_uint(json, "missing", stream->missing_count);
    rs_json_put_uint(json, "repeated", stream->repeated_count);
    rs_json_put_uint(json, "lost_chunks", stream->loss.chunks);
    rs_json_put_uint(json, "lost_events", stream->loss.events);
    rs_json_put_array(json, "losses");
    for (size_t i = 0; i < stream->hole_count && i < RS_STORED_HOLES_MAX; i++) {
        const struct rs_stored_hole *hole = &stream->holes[i];
        rs_json_out_object(json);
        rs_json_put_string(json, "cause", rs_loss_cause_text(hole->loss.cause));
        rs_json_put_uint(json, "first_seq", hole->first_seq);
        rs_json_put_uint(json, "last_seq", hole->last_seq);
        rs_json_put_uint(json, "chunks", hole->loss.chunks);
        rs_json_put_uint(json, "bytes", hole->loss.bytes);
        rs_json_put_uint(json, "events", hole->loss.events);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
    rs_json_put_bool(json, "is_ended", stream->is_ended);
    rs_json_put_bool(json, "is_partial", stream->is_partial);
    rs_json_put_string(json, "summary",
                       finding->is_summary_only       ? "only"
                       : !finding->has_summary        ? "none"
                       : !finding->is_summary_checked ? "not comparable"
                       : finding->is_summary_equal    ? "equal"
                                                      : "differs");
    rs_json_put_text(json, "wrong", finding->wrong);
    rs_json_out_end(json);
}

static void put_stream(const struct rs_verify_finding *finding, struct rs_buf *buf)
{
    const struct rs_stored_stream *stream = finding->stream;
    rs_buf_printf(buf,
                  "rank %-5u %-30.60s chunks %" PRIu64 "-%" PRIu64 ", %" PRIu64 " rows, %" PRIu64
                  " bytes%s%s%s\n",
                  stream->rank, stream->incarnation, stream->first_seq, stream->last_seq,
                  finding->rows, finding->bytes,
                  finding->is_summary_only    ? ", summary only"
                  : finding->is_summary_equal ? ", summary equal"
                  : finding->is_summary_older ? ", summary of an older version, not compared"
                                              : "",
                  stream->is_partial ? ", partial" : "", finding->wrong[0] ? ", WRONG" : "");
    for (size_t i = 0; i < stream->hole_count && i < RS_STORED_HOLES_MAX; i++) {
        const struct rs_stored_hole *hole = &stream->holes[i];
        rs_buf_printf(buf,
                      "  lost (%s): %" PRIu64 " chunks, %" PRIu64 " bytes, %" PRIu64
                      " events, numbers %" PRIu64 " to %" PRIu64 "\n",
                      rs_loss_cause_text(hole->loss.cause), hole->loss.chunks, hole->loss.bytes,
                      hole->loss.events, hole->first_seq, hole->last_seq);
    }
    if (stream->hole_count > RS_STORED_HOLES_MAX)
        rs_buf_printf(buf, "  and %zu more losses\n", stream->hole_count - RS_STORED_HOLES_MAX);
    if (finding->wrong[0])
        rs_buf_printf(buf, "  %s\n", finding->wrong);
}

static void put_totals(const struct rs_verify_totals *totals, struct rs_buf *buf)
{
    rs_buf_printf(buf,
                  "%" PRIu64 " streams, %" PRIu64 " chunks, %" PRIu64 " bytes, %" PRIu64
                  " rows: %" PRIu64 " missing, %" PRIu64 " double, %" PRIu64
                  " streams unfinished, %" PRIu64 " with damage\n",
                  totals->streams, totals->chunks, totals->bytes, totals->rows, totals->missing,
                  totals->repeated, totals->unfinished, totals->damaged);
    if (totals->summary_only)
        rs_buf_printf(buf, "summary only (raw held on %" PRIu64 " ranks)\n", totals->summary_only);
}

/* Damage of either lane; that of raw data is named first. */
static void find_damage(const struct rs_capture_data *data, struct rs_verify_totals *totals)
{
    const char *raw = "", *summary = "";
    const size_t raw_count = rs_stored_damage(rs_capture_data_raw(data), &raw);
    totals->damaged_segments =
        raw_count + rs_stored_damage(rs_capture_data_summaries(data), &summary);
    totals->damage = raw_count ? raw : summary;
}

static void hand_on(const struct rs_verify_report *report, struct rs_buf *buf)
{
    if (report->print && buf->length)
        report->print(report->self, rs_buf_text(buf));
    rs_buf_reset(buf);
}

static enum rs_status verify_all(const struct rs_capture_data *data,
                                 const struct rs_verify_report *report, struct rs_json_out *json,
                                 struct rs_verify_totals *totals, struct rs_err *err)
{
    for (size_t i = 0; i < rs_capture_data_count(data); i++) {
        struct rs_verify_finding finding;
        const enum rs_status status = rs_verify_stream(data, i, &finding, err);
        if (status < 0)
            return status;
        add_totals(totals, &finding);
        if (report->as_json) {
            json_stream(json, &finding);
        } else {
            put_stream(&finding, json->buf);
            hand_on(report, json->buf);
        }
    }
    return RS_OK;
}

enum rs_status rs_output_verify(const struct rs_capture_data *data,
                                const struct rs_verify_report *report,
                                struct rs_verify_totals *totals_p, struct rs_err *err)
{
    struct rs_verify_totals totals = {0};
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 2);
    if (report->as_json) {
        rs_json_out_object(&json);
        rs_json_put_int(&json, "schema_version", 1);
        rs_json_put_string(&json, "capture", rs_stored_facts(rs_capture_data_raw(data))->id);
        rs_json_put_array(&json, "streams");
    }
    enum rs_status status = verify_all(data, report, &json, &totals, err);
    find_damage(data, &totals);
    totals.is_good = status == RS_OK && !totals.missing && !totals.repeated && !totals.damaged &&
                     !totals.damaged_segments && totals.streams;
    if (report->as_json) {
        rs_json_out_end(&json);
        rs_json_put_text(&json, "damage", totals.damaged_segments ? totals.damage : NULL);
        rs_json_put_bool(&json, "is_good", totals.is_good);
        rs_json_out_end(&json);
        rs_buf_u8(&buf, '\n');
    } else {
        put_totals(&totals, &buf);
    }
    if (status == RS_OK)
        hand_on(report, &buf);
    rs_buf_fini(&buf);
    *totals_p = totals;
    return status;
}
