/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope verify`: aggregator/analysis/verify.h of every stream of a capture, told. */
#include "aggregator/analysis/verify.h"

#include "cli/cli.h"
#include "cli/options/args.h"
#include "cli/present.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/client/client.h"
#include "common/reduce/classes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct request {
    const char *connect, *data, *classes;
    bool as_json, is_quiet;
};

struct totals {
    uint64_t summary_only; /* streams without raw data */
    uint64_t streams, chunks, bytes, rows, missing, repeated, damaged, lost_chunks, unfinished;
};

/* ---- telling ------------------------------------------------------------------------------------------------ */

static void add_totals(struct totals *totals, const struct rs_verify_finding *finding)
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
    rs_json_out_key(json, "rank");
    rs_json_out_int(json, stream->rank);
    rs_json_out_key(json, "incarnation");
    rs_json_out_string(json, stream->incarnation);
    rs_json_out_key(json, "chunks");
    rs_json_out_uint(json, stream->chunk_count);
    rs_json_out_key(json, "first_seq");
    rs_json_out_uint(json, stream->first_seq);
    rs_json_out_key(json, "last_seq");
    rs_json_out_uint(json, stream->last_seq);
    rs_json_out_key(json, "bytes");
    rs_json_out_uint(json, finding->bytes);
    rs_json_out_key(json, "rows");
    rs_json_out_uint(json, finding->rows);
    rs_json_out_key(json, "missing");
    rs_json_out_uint(json, stream->missing_count);
    rs_json_out_key(json, "repeated");
    rs_json_out_uint(json, stream->repeated_count);
    rs_json_out_key(json, "lost_chunks");
    rs_json_out_uint(json, stream->loss.chunks);
    rs_json_out_key(json, "lost_events");
    rs_json_out_uint(json, stream->loss.events);
    rs_json_out_key(json, "losses");
    rs_json_out_array(json);
    for (size_t i = 0; i < stream->hole_count && i < RS_STORED_HOLES_MAX; i++) {
        const struct rs_stored_hole *hole = &stream->holes[i];
        rs_json_out_object(json);
        rs_json_out_key(json, "cause");
        rs_json_out_string(json, rs_loss_cause_text(hole->loss.cause));
        rs_json_out_key(json, "first_seq");
        rs_json_out_uint(json, hole->first_seq);
        rs_json_out_key(json, "last_seq");
        rs_json_out_uint(json, hole->last_seq);
        rs_json_out_key(json, "chunks");
        rs_json_out_uint(json, hole->loss.chunks);
        rs_json_out_key(json, "bytes");
        rs_json_out_uint(json, hole->loss.bytes);
        rs_json_out_key(json, "events");
        rs_json_out_uint(json, hole->loss.events);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
    rs_json_out_key(json, "is_ended");
    rs_json_out_bool(json, stream->is_ended);
    rs_json_out_key(json, "is_partial");
    rs_json_out_bool(json, stream->is_partial);
    rs_json_out_key(json, "summary");
    rs_json_out_string(json, finding->is_summary_only       ? "only"
                             : !finding->has_summary        ? "none"
                             : !finding->is_summary_checked ? "not comparable"
                             : finding->is_summary_equal    ? "equal"
                                                            : "differs");
    rs_json_out_key(json, "wrong");
    if (finding->wrong[0])
        rs_json_out_string(json, finding->wrong);
    else
        rs_json_out_null(json);
    rs_json_out_end(json);
}

static void print_stream(const struct rs_verify_finding *finding)
{
    const struct rs_stored_stream *stream = finding->stream;
    printf("rank %-5u %-30.60s chunks %" PRIu64 "-%" PRIu64 ", %" PRIu64 " rows, %" PRIu64
           " bytes%s%s%s\n",
           stream->rank, stream->incarnation, stream->first_seq, stream->last_seq, finding->rows,
           finding->bytes,
           finding->is_summary_only    ? ", summary only"
           : finding->is_summary_equal ? ", summary equal"
           : finding->is_summary_older ? ", summary of an older version, not compared"
                                       : "",
           stream->is_partial ? ", partial" : "", finding->wrong[0] ? ", WRONG" : "");
    for (size_t i = 0; i < stream->hole_count && i < RS_STORED_HOLES_MAX; i++) {
        const struct rs_stored_hole *hole = &stream->holes[i];
        printf("  lost (%s): %" PRIu64 " chunks, %" PRIu64 " bytes, %" PRIu64
               " events, numbers %" PRIu64 " to %" PRIu64 "\n",
               rs_loss_cause_text(hole->loss.cause), hole->loss.chunks, hole->loss.bytes,
               hole->loss.events, hole->first_seq, hole->last_seq);
    }
    if (stream->hole_count > RS_STORED_HOLES_MAX)
        printf("  and %zu more losses\n", stream->hole_count - RS_STORED_HOLES_MAX);
    if (finding->wrong[0])
        printf("  %s\n", finding->wrong);
}

static void print_totals(const struct totals *totals)
{
    printf("%" PRIu64 " streams, %" PRIu64 " chunks, %" PRIu64 " bytes, %" PRIu64 " rows: %" PRIu64
           " missing, %" PRIu64 " double, %" PRIu64 " streams unfinished, %" PRIu64
           " with damage\n",
           totals->streams, totals->chunks, totals->bytes, totals->rows, totals->missing,
           totals->repeated, totals->unfinished, totals->damaged);
    if (totals->summary_only)
        printf("summary only (raw held on %" PRIu64 " ranks)\n", totals->summary_only);
}

static enum rs_status verify_all(const struct rs_capture_data *data, const struct request *request,
                                 struct rs_json_out *json, struct totals *totals,
                                 struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < rs_capture_data_count(data) && status == RS_OK; i++) {
        struct rs_verify_finding finding;
        status = rs_verify_stream(data, i, &finding, err);
        if (status < 0)
            break;
        add_totals(totals, &finding);
        if (request->as_json)
            json_stream(json, &finding);
        else if (!request->is_quiet)
            print_stream(&finding);
    }
    return status;
}

static int verify_dir(const char *dir, const struct request *request)
{
    struct rs_err err = {0};
    struct rs_capture_data *data = NULL;
    struct totals totals = {0};
    struct rs_buf buf = {0};
    struct rs_json_out json;
    enum rs_status status = rs_capture_data_open(dir, &data, &err);
    if (status < 0)
        return rs_cli_fail("verify", &err);
    const struct rs_stored *stored = rs_capture_data_raw(data);
    rs_json_out_init(&json, &buf, 2);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "schema_version");
    rs_json_out_int(&json, 1);
    rs_json_out_key(&json, "capture");
    rs_json_out_string(&json, rs_stored_facts(stored)->id);
    rs_json_out_key(&json, "streams");
    rs_json_out_array(&json);
    status = verify_all(data, request, &json, &totals, &err);
    rs_json_out_end(&json);
    const char *damage = "";
    const char *summary_damage = "";
    size_t damaged_segments = rs_stored_damage(stored, &damage);
    const size_t damaged_summaries =
        rs_stored_damage(rs_capture_data_summaries(data), &summary_damage);
    damage = damaged_segments ? damage : summary_damage;
    damaged_segments += damaged_summaries;
    rs_json_out_key(&json, "damage");
    if (damaged_segments)
        rs_json_out_string(&json, damage);
    else
        rs_json_out_null(&json);
    const bool is_good = status == RS_OK && !totals.missing && !totals.repeated &&
                         !totals.damaged && !damaged_segments && totals.streams;
    rs_json_out_key(&json, "is_good");
    rs_json_out_bool(&json, is_good);
    rs_json_out_end(&json);
    if (status == RS_OK && request->as_json)
        printf("%s\n", rs_buf_text(&buf));
    else if (status == RS_OK && !request->is_quiet)
        print_totals(&totals);
    rs_buf_fini(&buf);
    if (status == RS_OK && damaged_segments)
        rs_cli_note("verify", "%zu segments are damaged: %s", damaged_segments, damage);
    if (status == RS_OK && !totals.streams)
        rs_cli_note("verify", "%s holds no stream", dir);
    rs_capture_data_close(&data);
    if (status < 0)
        return rs_cli_fail("verify", &err);
    return is_good ? RS_EXIT_COMPLETE : RS_EXIT_PARTIAL;
}

/* ---- the verb --------------------------------------------------------------------------------------------------- */

int rs_cmd_verify(int argc, char **argv)
{
    struct request request = {0};
    const struct rs_arg items[] = {
        {.name = "data",
         .letter = 'd',
         .kind = RS_ARG_TEXT,
         .target = &request.data,
         .value = "DIR",
         .environment = "RANKSCOPE_DATA",
         .help = "look for an ID in this data folder, without asking an aggregator"},
        RS_CLI_CONNECT_ARGS(&request.connect),
        RS_CLI_CLASSES_ARG(&request.classes),
        {.name = "json", .kind = RS_ARG_FLAG, .target = &request.as_json, .help = "print JSON"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &request.is_quiet,
         .help = "print nothing: the exit code says it"},
    };
    const struct rs_args args = {
        .verb = "verify",
        .operands = "ID | DIR",
        .summary =
            "Reads every chunk of a capture again: checksums, numbers without gap or repeat, "
            "decoding, and the rank summaries computed from the events against the stored "
            "ones. Nothing is changed.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue =
            "  rankscope verify 20260102-030405-a1b2c3\n"
            "  rankscope verify ./data/captures/20260102-030405-a1b2c3 --json\n"
            "\n"
            "Exit: 0 nothing missing, nothing double, nothing damaged; 1 something is; 2 no such\n"
            "capture. Events that a full spool lost are reported, and are not damage.\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && argc - first != 1)
        status = rs_err_set(&err, RS_INVALID, "give one capture: its ID or its folder");
    if (status == RS_OK)
        status = rs_classes_load(request.classes, &err);
    struct rs_cli_carried carried = {.dir = ""};
    if (status == RS_OK)
        status = rs_cli_capture_find(argv[first], request.data, request.connect, &carried, &err);
    if (status < 0)
        return rs_cli_fail("verify", &err);
    const int code = verify_dir(carried.dir, &request);
    rs_cli_carried_remove(&carried);
    return code;
}
