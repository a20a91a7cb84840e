/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope verify`: is everything there, once, and does it say what was said of it?
 *
 * Per stream: every record's checksum, every chunk's own header and body checksum, numbers without gap or
 * repeat, every chunk decoded, rows and chunks as the end mark counts them, and the summary computed again from
 * the events equal, byte by byte, to the stored one.
 */
#include "aggregator/store/store.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/place.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "common/reduce/reduce.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct request {
    const char *connect, *data;
    bool as_json, is_quiet;
};

/* What was found of one stream. */
struct finding {
    const struct rs_stored_stream *stream;
    uint64_t rows, bytes;
    uint64_t loss_records;
    bool has_end, has_summary;
    bool is_summary_equal;
    bool is_summary_checked;
    char wrong[RS_ERR_TEXT_BYTES]; /* "": nothing */
};

struct totals {
    uint64_t streams, chunks, bytes, rows, missing, repeated, damaged, lost_chunks, unfinished;
};

static void note(struct finding *finding, const char *text)
{
    if (!finding->wrong[0])
        (void)snprintf(finding->wrong, sizeof finding->wrong, "%s", text);
}

/* Reads one stream again. RS_NOMEM ends everything; what is wrong with the bytes stands in the finding. */
struct reading {
    struct rs_chunk_reader reader;
    struct rs_reduce *reduce;
    bool has_failed; /* the reducer gave up: the summary cannot be compared */
};

static void read_chunk(struct reading *reading, const struct rs_stored_chunk *chunk,
                       struct finding *finding)
{
    struct rs_err err = {0};
    struct rs_chunk_header header;
    const struct rs_batch *batch = NULL;
    finding->bytes += chunk->bytes.length;
    if (chunk->flags & RS_ENVELOPE_LOSS) {
        finding->loss_records++;
        return;
    }
    if (rs_chunk_verify(chunk->bytes, &header, &err) < 0 ||
        rs_chunk_read(&reading->reader, chunk->bytes, &batch, &header, &err) < 0) {
        char text[RS_ERR_TEXT_BYTES];
        (void)snprintf(text, sizeof text, "chunk %" PRIu64 ": %.700s", chunk->seq, err.text);
        note(finding, text);
        return;
    }
    if (!batch)
        return;
    finding->rows += batch->count;
    if (!reading->has_failed && rs_reduce_add(reading->reduce, batch, &err) < 0) {
        reading->has_failed = true;
        note(finding, err.text);
    }
}

/* The stored summary as we write it, and what only it holds (what the vendor said is in no event) put where the
 * one that is computed again takes it from. */
static enum rs_status read_stored(struct reading *reading, struct rs_buf *bytes, struct rs_err *err)
{
    struct rs_summary stored;
    enum rs_status status = rs_summary_decode(
        rs_view_of(reading->reader.summary.data, reading->reader.summary.length), &stored, err);
    if (status != RS_OK)
        return status;
    status = rs_summary_encode(&stored, bytes, err);
    if (status == RS_OK)
        status = rs_provenance_add(&reading->reader.info.said, &reading->reader.strings,
                                   stored.trace.said, &stored.strings);
    rs_summary_fini(&stored);
    return status;
}

static void compare_summary(struct reading *reading, struct finding *finding)
{
    struct rs_summary summary = {0};
    struct rs_buf bytes = {0}, stored = {0};
    struct rs_err err = {0};
    finding->has_end = reading->reader.has_end;
    finding->has_summary = reading->reader.has_summary;
    const bool is_cut = finding->stream->is_partial || finding->loss_records;
    if (finding->has_end && !is_cut && finding->rows != reading->reader.end.rows)
        note(finding, "the end mark counts other rows than there are");
    if (!finding->has_summary || reading->has_failed || is_cut)
        return; /* what was lost before it came here is in the stored one, or the stored one is not there */
    finding->is_summary_checked = true;
    if (read_stored(reading, &stored, &err) == RS_OK &&
        rs_reduce_finish(reading->reduce, &reading->reader.info, &summary, &err) == RS_OK &&
        rs_summary_encode(&summary, &bytes, &err) == RS_OK && !bytes.failed)
        finding->is_summary_equal =
            bytes.length == stored.length && memcmp(bytes.data, stored.data, bytes.length) == 0;
    if (!finding->is_summary_equal)
        note(finding, err.text[0] ? err.text : "the summary computed again is another");
    rs_buf_fini(&bytes);
    rs_buf_fini(&stored);
    rs_summary_fini(&summary);
}

static enum rs_status verify_stream(const struct rs_stored *stored, size_t index,
                                    struct finding *finding, struct rs_err *err)
{
    struct reading reading = {0};
    *finding = (struct finding){.stream = rs_stored_stream(stored, index)};
    enum rs_status status = rs_chunk_reader_init(&reading.reader, 0);
    if (status == RS_OK)
        status = rs_reduce_new(&reading.reader.strings, &reading.reader.lanes, &reading.reduce);
    if (status < 0)
        (void)rs_err_set(err, status, "no memory to read a stream");
    for (uint64_t i = 0; i < finding->stream->chunk_count && status == RS_OK; i++) {
        struct rs_stored_chunk chunk;
        struct rs_err wrong = {0};
        if (rs_stored_chunk(stored, index, i, true, &chunk, &wrong) < 0)
            note(finding, wrong.text);
        else
            read_chunk(&reading, &chunk, finding);
    }
    if (status == RS_OK) {
        if (finding->stream->missing_count)
            note(finding, "chunk numbers are missing");
        if (finding->stream->repeated_count)
            note(finding, "chunks are there more than once");
        if (!finding->stream->is_ended)
            note(finding, "its last chunk is not there");
        compare_summary(&reading, finding);
    }
    rs_reduce_free(&reading.reduce);
    rs_chunk_reader_fini(&reading.reader);
    return status;
}

/* ---- telling ------------------------------------------------------------------------------------------------ */

static void add_totals(struct totals *totals, const struct finding *finding)
{
    const struct rs_stored_stream *stream = finding->stream;
    totals->streams++;
    totals->chunks += stream->chunk_count;
    totals->bytes += finding->bytes;
    totals->rows += finding->rows;
    totals->missing += stream->missing_count;
    totals->repeated += stream->repeated_count;
    totals->lost_chunks += stream->loss.chunks;
    totals->unfinished += !stream->is_ended;
    totals->damaged += finding->wrong[0] != '\0';
}

static void json_stream(struct rs_json_out *json, const struct finding *finding)
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
    rs_json_out_key(json, "is_ended");
    rs_json_out_bool(json, stream->is_ended);
    rs_json_out_key(json, "is_partial");
    rs_json_out_bool(json, stream->is_partial);
    rs_json_out_key(json, "summary");
    rs_json_out_string(json, !finding->has_summary          ? "none"
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

static void print_stream(const struct finding *finding)
{
    const struct rs_stored_stream *stream = finding->stream;
    printf("rank %-5u %-30.60s chunks %" PRIu64 "-%" PRIu64 ", %" PRIu64 " rows, %" PRIu64
           " bytes%s%s%s\n",
           stream->rank, stream->incarnation, stream->first_seq, stream->last_seq, finding->rows,
           finding->bytes, finding->is_summary_equal ? ", summary equal" : "",
           stream->is_partial ? ", partial" : "", finding->wrong[0] ? ", WRONG" : "");
    if (stream->loss.chunks)
        printf("  the spool was full: %" PRIu64 " chunks, %" PRIu64
               " events lost before they came here\n",
               stream->loss.chunks, stream->loss.events);
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
}

static enum rs_status verify_all(const struct rs_stored *stored, const struct request *request,
                                 struct rs_json_out *json, struct totals *totals,
                                 struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < rs_stored_stream_count(stored) && status == RS_OK; i++) {
        struct finding finding;
        status = verify_stream(stored, i, &finding, err);
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
    struct rs_stored *stored = NULL;
    struct totals totals = {0};
    struct rs_buf buf = {0};
    struct rs_json_out json;
    enum rs_status status = rs_store_open_capture(dir, &stored, &err);
    if (status < 0)
        return rs_cli_fail("verify", &err);
    rs_json_out_init(&json, &buf, 2);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "schema_version");
    rs_json_out_int(&json, 1);
    rs_json_out_key(&json, "capture");
    rs_json_out_string(&json, rs_stored_facts(stored)->id);
    rs_json_out_key(&json, "streams");
    rs_json_out_array(&json);
    status = verify_all(stored, request, &json, &totals, &err);
    rs_json_out_end(&json);
    const char *damage = "";
    const size_t damaged_segments = rs_stored_damage(stored, &damage);
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
        rs_cli_tell("verify", "%zu segments are damaged: %s", damaged_segments, damage);
    if (status == RS_OK && !totals.streams)
        rs_cli_tell("verify", "%s holds no stream", dir);
    rs_stored_close(&stored);
    if (status < 0)
        return rs_cli_fail("verify", &err);
    return is_good ? RS_EXIT_COMPLETE : RS_EXIT_PARTIAL;
}

/* ---- which capture --------------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

struct found {
    char directory[RS_PLACE_BYTES];
};

static bool on_capture(void *self, const Rankscope__Reply *reply)
{
    struct found *found = self;
    if (reply->letter_case == RANKSCOPE__REPLY__LETTER_CAPTURE)
        (void)snprintf(found->directory, sizeof found->directory, "%s", reply->capture->directory);
    return false;
}

static enum rs_status find_dir(const struct request *request, const char *id, struct found *found,
                               struct rs_err *err)
{
    char data[RS_PLACE_BYTES];
    if (is_folder(id)) {
        (void)snprintf(found->directory, sizeof found->directory, "%s", id);
        return RS_OK;
    }
    if (request->data || (!request->connect && rs_place_data(data, NULL) == RS_OK)) {
        (void)snprintf(found->directory, sizeof found->directory, "%.3900s/captures/%.100s",
                       request->data ? request->data : data, id);
        if (is_folder(found->directory))
            return RS_OK;
        if (request->data)
            return rs_err_set(err, RS_NOTFOUND, "there is no capture %.100s in %.600s", id,
                              request->data);
    }
    found->directory[0] = '\0';
    union {
        const char *in;
        char *out;
    } lent = {.in = id};
    Rankscope__AskCapture ask_capture = RANKSCOPE__ASK_CAPTURE__INIT;
    ask_capture.id = lent.out;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.letter_case = RANKSCOPE__ASK__LETTER_CAPTURE;
    ask.capture = &ask_capture;
    struct rs_address address;
    enum rs_status status = rs_client_address(request->connect, &address, err);
    if (status == RS_OK)
        status = rs_client_ask(&address, &ask, on_capture, found, err);
    if (status == RS_OK && !is_folder(found->directory))
        status = rs_err_set(err, RS_NOTFOUND, "the folder %s of capture %.100s is not here",
                            found->directory, id);
    return status;
}

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
         .help = "the aggregator's data, where an ID is looked for"},
        {.name = "connect",
         .letter = 'c',
         .kind = RS_ARG_TEXT,
         .target = &request.connect,
         .value = "ADDR",
         .environment = "RANKSCOPE_CONNECT",
         .help = "the aggregator to ask where the capture is"},
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
            "capture. Events that a full spool lost are told, and are not damage.\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && argc - first != 1)
        status = rs_err_set(&err, RS_INVALID, "give one capture: its ID or its folder");
    struct found found = {{0}};
    if (status == RS_OK)
        status = find_dir(&request, argv[first], &found, &err);
    if (status < 0)
        return rs_cli_fail("verify", &err);
    return verify_dir(found.directory, &request);
}
