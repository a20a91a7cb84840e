/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope report DIR|ID`: the tables and the report from a capture of the aggregator, by the same code and
 * with the same bytes as `analyse` makes them from files.
 *
 *     capture directory --streams--> newest SUMMARY of each --> deliver: join, report, files
 *                                    (none came: its events are reduced here)
 */
#include "aggregator/store/store.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/deliver.h"
#include "cli/place.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "common/reduce/reduce.h"
#include "common/request/request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char verb[] = "report";

/* --- one stream -> one summary ------------------------------------------------------------------------ */

static bool is_chunk(const struct rs_stored_chunk *chunk)
{
    return !(chunk->flags & RS_ENVELOPE_LOSS);
}

/* Feeds the stream's SUMMARY chunks and nothing else: a handful, whatever the size of the stream. */
static enum rs_status read_summaries(const struct rs_stored *stored, size_t stream,
                                     struct rs_chunk_reader *reader, struct rs_err *err)
{
    const uint64_t count = rs_stored_stream(stored, stream)->chunk_count;
    for (uint64_t i = 0; i < count; i++) {
        struct rs_stored_chunk chunk;
        struct rs_chunk_header header;
        const struct rs_batch *batch = NULL;
        enum rs_status status = rs_stored_chunk(stored, stream, i, false, &chunk, err);
        if (status == RS_OK && !is_chunk(&chunk))
            continue;
        if (status == RS_OK)
            status = rs_chunk_peek(chunk.bytes, &header, err);
        if (status == RS_OK && header.kind == RS_CHUNK_SUMMARY)
            status = rs_chunk_read(reader, chunk.bytes, &batch, NULL, err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

static enum rs_status mark_broken(struct rs_chunk_reader *reader, struct rs_err *err)
{
    static const char why[] = "its stream broke off before its end came";
    reader->info.is_partial = true;
    if (reader->info.partial_reason != RS_STR_NONE)
        return RS_OK;
    const enum rs_status status =
        rs_strtab_add(&reader->strings, why, sizeof why - 1, &reader->info.partial_reason);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "no memory to read a stream");
}

/* Pours a stream's events into `reduce`, up to its end or to the first chunk that cannot be read. */
static enum rs_status pour_stream(const struct rs_stored *stored, size_t stream,
                                  struct rs_chunk_reader *reader, struct rs_reduce *reduce,
                                  struct rs_err *err)
{
    const uint64_t count = rs_stored_stream(stored, stream)->chunk_count;
    enum rs_status status = RS_OK;
    for (uint64_t i = 0; i < count && status == RS_OK; i++) {
        struct rs_stored_chunk chunk;
        const struct rs_batch *batch = NULL;
        if (rs_stored_chunk(stored, stream, i, true, &chunk, NULL) != RS_OK)
            return mark_broken(reader, err);
        if (!is_chunk(&chunk))
            continue;
        if (rs_chunk_read(reader, chunk.bytes, &batch, NULL, NULL) != RS_OK)
            return mark_broken(reader, err);
        if (batch)
            status = rs_reduce_add(reduce, batch, err);
    }
    return status == RS_OK && !reader->has_end ? mark_broken(reader, err) : status;
}

/* A stream whose summary never came. */
static enum rs_status reduce_stream(const struct rs_stored *stored, size_t stream,
                                    struct rs_chunk_reader *reader, struct rs_summary *summary_p,
                                    struct rs_err *err)
{
    struct rs_reduce *reduce = NULL;
    enum rs_status status = rs_reduce_new(&reader->strings, &reader->lanes, &reduce);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to read a stream");
    status = pour_stream(stored, stream, reader, reduce, err);
    if (status == RS_OK)
        status = rs_reduce_finish(reduce, &reader->info, summary_p, err);
    rs_reduce_free(&reduce);
    return status;
}

static enum rs_status stream_summary(const struct rs_stored *stored, size_t stream,
                                     struct rs_summary *summary_p, struct rs_err *err)
{
    struct rs_chunk_reader reader;
    enum rs_status status = rs_chunk_reader_init(&reader, 0);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to read a stream");
    status = read_summaries(stored, stream, &reader, err);
    if (status == RS_OK && reader.has_summary)
        status = rs_summary_decode(rs_view_of(reader.summary.data, reader.summary.length),
                                   summary_p, err);
    else if (status == RS_OK)
        status = reduce_stream(stored, stream, &reader, summary_p, err);
    rs_chunk_reader_fini(&reader);
    return status;
}

/* --- a capture ------------------------------------------------------------------------------------------ */

/* What a stream became, to be put in order: several incarnations of one rank follow each other in time. */
struct taken {
    struct rs_summary summary;
    bool has_summary;
    size_t stream;
};

static int by_rank_and_time(const void *a_, const void *b_)
{
    const struct taken *a = a_, *b = b_;
    const int32_t x = a->has_summary ? a->summary.trace.rank : INT32_MAX;
    const int32_t y = b->has_summary ? b->summary.trace.rank : INT32_MAX;
    if (x != y)
        return x < y ? -1 : 1;
    if (x != INT32_MAX && a->summary.span_start != b->summary.span_start)
        return a->summary.span_start < b->summary.span_start ? -1 : 1;
    return (a->stream > b->stream) - (a->stream < b->stream);
}

static void stream_path(const struct rs_stored_stream *stream, char *text, size_t size)
{
    if (stream->origin && *stream->origin)
        (void)snprintf(text, size, "%s", stream->origin);
    else
        (void)snprintf(text, size, "rank %" PRIu32 " of %s", stream->rank, stream->incarnation);
}

/* Says what the store itself knows to be missing. */
static enum rs_status tell_losses(struct deliver *deliver, const struct rs_stored_stream *stream)
{
    char text[256];
    if (!stream->missing_count && !stream->loss.chunks && stream->is_ended)
        return RS_OK;
    deliver->is_partial = true;
    if (stream->missing_count || stream->loss.chunks)
        (void)snprintf(text, sizeof text,
                       "rank %" PRIu32 " lacks %" PRIu64 " chunks and the spool dropped %" PRIu64
                       " (%" PRIu64 " events)",
                       stream->rank, stream->missing_count, stream->loss.chunks,
                       stream->loss.events);
    else
        (void)snprintf(text, sizeof text, "the stream of rank %" PRIu32 " has not ended",
                       stream->rank);
    return deliver_note(deliver, text);
}

static enum rs_status take_stream(const struct rs_stored *stored, size_t index,
                                  struct deliver *deliver, struct taken *taken, struct rs_err *err)
{
    const struct rs_stored_stream *stream = rs_stored_stream(stored, index);
    struct rs_err why = {0};
    char path[1024];
    *taken = (struct taken){.stream = index};
    if (tell_losses(deliver, stream) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    const enum rs_status status = stream_summary(stored, index, &taken->summary, &why);
    if (status == RS_OK) {
        taken->has_summary = true;
        taken->summary.trace.rank = (int32_t)stream->rank;
        return RS_OK;
    }
    if (status == RS_NOMEM)
        return rs_err_set(err, status, "%s", why.text);
    stream_path(stream, path, sizeof path);
    return deliver_file(deliver, path, RS_OUTPUT_FAILED, why.text, err);
}

/* Ranks that were asked for and sent nothing. */
static enum rs_status tell_absent(const struct rs_stored *stored, struct deliver *deliver)
{
    for (size_t i = 0; i < rs_stored_rank_count(stored); i++) {
        const struct rs_capture_rank *rank = rs_stored_rank(stored, i);
        bool is_there = false;
        for (size_t k = 0; k < rs_stored_stream_count(stored) && !is_there; k++)
            is_there = rs_stored_stream(stored, k)->rank == rank->rank;
        if (is_there)
            continue;
        char text[RS_STORE_TEXT_BYTES + 64];
        (void)snprintf(text, sizeof text, "rank %" PRIu32 " sent nothing%s%s", rank->rank,
                       *rank->text ? ": " : "", rank->text);
        deliver->is_partial = true;
        if (deliver_note(deliver, text) != RS_OK)
            return RS_NOMEM;
    }
    return RS_OK;
}

static enum rs_status take_all(const struct rs_stored *stored, struct deliver *deliver,
                               struct rs_err *err)
{
    const size_t count = rs_stored_stream_count(stored);
    struct taken *taken = rs_mem_calloc(count + 1, sizeof *taken);
    if (!taken)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    enum rs_status status = RS_OK;
    size_t made = 0;
    for (; made < count && status == RS_OK; made++)
        status = take_stream(stored, made, deliver, &taken[made], err);
    qsort(taken, made, sizeof *taken, by_rank_and_time);
    for (size_t i = 0; i < made; i++) {
        char path[1024];
        if (!taken[i].has_summary)
            continue;
        stream_path(rs_stored_stream(stored, taken[i].stream), path, sizeof path);
        if (status == RS_OK)
            status = deliver_add(deliver, path, &taken[i].summary, err);
        else
            rs_summary_fini(&taken[i].summary);
    }
    rs_mem_free(taken);
    if (status == RS_OK && tell_absent(stored, deliver) != RS_OK)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    return status;
}

static enum rs_status tell_damage(const struct rs_stored *stored, struct deliver *deliver,
                                  struct rs_err *err)
{
    const char *text = "";
    if (!rs_stored_damage(stored, &text))
        return RS_OK;
    deliver->is_partial = true;
    return deliver_note(deliver, text) == RS_OK ? RS_OK
                                                : rs_err_set(err, RS_NOMEM, "out of memory");
}

/* The request of the capture as one line of JSON, appended; nothing when there is none that can be read. */
static void read_request(const char *capture_dir, struct rs_buf *json)
{
    struct rs_capture_request request = {0};
    struct rs_request_notes notes = {0};
    struct rs_buf text = {0};
    char *path = rs_file_join(capture_dir, "request.json");
    if (path && rs_file_read(path, RS_REQUEST_TEXT_MAX_BYTES, &text, NULL) == RS_OK &&
        rs_request_from_json(rs_buf_text(&text), text.length, &request, &notes, NULL) == RS_OK)
        rs_request_to_json(&request, 0, json);
    rs_request_fini(&request);
    rs_request_notes_fini(&notes);
    rs_buf_fini(&text);
    rs_mem_free(path);
}

/* Profilers that live in the program are switched on and off within a step of it; librankscope's rings are always there. */
static bool is_triggered(const struct rs_capture_facts *facts)
{
    return facts && strcmp(facts->source, "files") != 0 && strcmp(facts->source, "native") != 0;
}

int rs_report_capture(const char *capture_dir, const char *out_dir,
                      const struct rs_report_options *options)
{
    struct rs_err err = {0};
    struct rs_stored *stored = NULL;
    struct deliver deliver = {.verb = verb};
    enum rs_status status = rs_store_open_capture(capture_dir, &stored, &err);
    if (status != RS_OK)
        return rs_cli_fail(verb, &err);
    status = tell_damage(stored, &deliver, &err);
    if (status == RS_OK)
        status = take_all(stored, &deliver, &err);
    if (status == RS_OK && !deliver.summary_count)
        status = rs_err_set(&err, RS_NOTFOUND, "%s holds no rank that could be read", capture_dir);
    const struct rs_capture_facts *facts = rs_stored_facts(stored);
    deliver.is_choice = facts && facts->is_closed && strcmp(facts->source, "files") != 0 &&
                        strcmp(facts->state, "complete") == 0;
    struct rs_buf request = {0};
    read_request(capture_dir, &request);
    const struct deliver_options how = {.out_dir = out_dir,
                                        .request = request.length ? rs_buf_text(&request) : NULL,
                                        .is_triggered = is_triggered(facts),
                                        .run = facts && *facts->run ? facts->run : NULL,
                                        .capture = facts && *facts->id ? facts->id : NULL,
                                        .as_json = options->as_json,
                                        .is_quiet = options->is_quiet,
                                        .assume_common_clock = options->assume_common_clock,
                                        .fail_above = options->fail_above};
    const int code = status == RS_OK ? deliver_finish(&deliver, &how) : rs_cli_fail(verb, &err);
    deliver_fini(&deliver);
    rs_stored_close(&stored);
    rs_buf_fini(&request);
    return code;
}

/* --- the verb --------------------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* DATA/captures/ID; DATA as the aggregator's own default. rs_mem_free(); NULL: no memory, or no home. */
static char *folder_of_id(const char *data, const char *id)
{
    struct rs_buf buf = {0};
    char place[RS_PLACE_BYTES];
    if (!data && rs_place_data(place, NULL) != RS_OK)
        return NULL;
    rs_buf_printf(&buf, "%s/captures/%s", data ? data : place, id);
    if (buf.failed) {
        rs_buf_fini(&buf);
        return NULL;
    }
    return (char *)buf.data;
}

struct answer {
    char *directory; /* of the capture; rs_mem_free() */
    bool has_failed;
};

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct answer *answer = self;
    if (reply->letter_case != RANKSCOPE__REPLY__LETTER_CAPTURE || answer->directory)
        return true;
    answer->directory = rs_mem_strdup(reply->capture->directory);
    answer->has_failed = !answer->directory;
    return !answer->has_failed;
}

/* Asks the aggregator where a capture lies. */
static enum rs_status ask_folder(const char *connect, char *id, char **path_p, struct rs_err *err)
{
    struct rs_address address;
    struct answer answer = {0};
    Rankscope__AskCapture ask_capture = RANKSCOPE__ASK_CAPTURE__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask_capture.id = id;
    ask.letter_case = RANKSCOPE__ASK__LETTER_CAPTURE;
    ask.capture = &ask_capture;
    enum rs_status status = rs_client_address(connect, &address, err);
    if (status == RS_OK)
        status = rs_client_ask(&address, &ask, on_reply, &answer, err);
    if (status == RS_OK && answer.has_failed)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    if (status == RS_OK && !answer.directory)
        status = rs_err_set(err, RS_NOTFOUND, "the aggregator knows no capture %s", id);
    if (status != RS_OK) {
        rs_mem_free(answer.directory);
        return status;
    }
    *path_p = answer.directory;
    return RS_OK;
}

struct source {
    char *operand; /* a folder or an id */
    const char *data, *connect;
};

/* Folder, else DATA/captures/ID, else where the aggregator says. rs_mem_free() *path_p. */
static enum rs_status find_folder(const struct source *source, char **path_p, struct rs_err *err)
{
    if (is_folder(source->operand)) {
        *path_p = rs_mem_strdup(source->operand);
        return *path_p ? RS_OK : rs_err_set(err, RS_NOMEM, "out of memory");
    }
    /* An id is one name, never a way out of the folder of captures. */
    if (strchr(source->operand, '/') || source->operand[0] == '.')
        return rs_err_set(err, RS_NOTFOUND, "there is no folder %s", source->operand);
    if (source->connect)
        return ask_folder(source->connect, source->operand, path_p, err);
    char *path = folder_of_id(source->data, source->operand);
    if (path && is_folder(path)) {
        *path_p = path;
        return RS_OK;
    }
    const enum rs_status status = source->data
                                      ? rs_err_set(err, RS_NOTFOUND, "there is no capture %s in %s",
                                                   source->operand, source->data)
                                      : ask_folder(NULL, source->operand, path_p, err);
    rs_mem_free(path);
    return status;
}

static int report_of(const struct source *source, const char *out_dir,
                     const struct rs_report_options *options)
{
    struct rs_err err = {0};
    char *path = NULL;
    if (find_folder(source, &path, &err) != RS_OK)
        return rs_cli_fail(verb, &err);
    const int code = rs_report_capture(path, out_dir, options);
    rs_mem_free(path);
    return code;
}

int rs_cmd_report(int argc, char **argv)
{
    struct source source = {0};
    const char *out_dir = NULL;
    struct rs_report_options how = {.fail_above = -1};
    const struct rs_arg options[] = {
        {.name = "out",
         .letter = 'o',
         .kind = RS_ARG_TEXT,
         .target = &out_dir,
         .value = "DIR",
         .help = "write the deliverables into DIR, which is created"},
        {.name = "data",
         .kind = RS_ARG_TEXT,
         .target = &source.data,
         .value = "DIR",
         .help = "the aggregator's data, where an ID is looked for",
         .environment = "RANKSCOPE_DATA"},
        {.name = "connect",
         .kind = RS_ARG_TEXT,
         .target = &source.connect,
         .value = "ADDR",
         .help =
             "ask this aggregator where the capture lies; default: its data here, then its socket",
         .environment = "RANKSCOPE_CONNECT"},
        {.name = "assume-common-clock",
         .kind = RS_ARG_FLAG,
         .target = &how.assume_common_clock,
         .help = "take the clocks of all hosts as one"},
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &how.as_json,
         .help = "print report.json instead of the text"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &how.is_quiet,
         .help = "print nothing on stdout"},
        {.name = "fail-above",
         .kind = RS_ARG_PERCENT,
         .target = &how.fail_above,
         .value = "X%",
         .help = "exit with 5 when a finding costs more than X % of a step"},
    };
    const struct rs_args args = {
        .verb = verb,
        .operands = "DIR|ID",
        .summary =
            "The report and the tables of a capture that the aggregator stored: its folder, or its id.",
        .items = options,
        .count = sizeof options / sizeof options[0],
        .epilogue =
            "  rankscope report 20260102-030405-a1b2c3 -o out\n"
            "  rankscope report /srv/rankscope/captures/20260102-030405-a1b2c3 --json\n"
            "\n"
            "Exit: 0 complete, 1 partial (what is missing is named), 2 no such capture, 3 refused,\n"
            "4 no aggregator answers, 5 --fail-above.\n"};
    struct rs_err err = {0};
    int first = argc;
    const enum rs_status parsed = rs_args_parse(&args, argc, argv, &first, &err);
    if (parsed != RS_OK)
        return parsed == RS_END ? RS_EXIT_COMPLETE : rs_cli_fail(verb, &err);
    if (argc - first != 1) {
        (void)rs_err_set(&err, RS_INVALID, "give one capture; see rankscope report --help");
        return rs_cli_fail(verb, &err);
    }
    source.operand = argv[first];
    return report_of(&source, out_dir, &how);
}
