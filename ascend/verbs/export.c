/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope export ascend PATH...|CAPTURE`: ranks of any kind as directories that Ascend's tools open.
 *
 *     files or streams --read--> summaries --join--> analysis
 *                      --read again, the ranks asked for--> ascend/export --> DIR/HOST_PID_STAMP_ascend_pt
 *
 * Every rank is read, since who waited for whom is in every rank's communication.json; only those asked for are
 * written. Events are never kept: they are read twice.
 */
#include "ascend/export/export.h"

#include "aggregator/analysis/capture_data.h"
#include "aggregator/offline/recordings.h"
#include "ascend/verbs/verbs.h"
#include "cli/cli.h"
#include "cli/options/args.h"
#include "cli/present.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/client/client.h"
#include "common/client/place.h"
#include "common/reduce/classes.h"
#include "common/reduce/reduce.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char verb[] = "export";

/* A recording, and what the first reading of it gave. */
struct recording {
    const struct rs_recording *of;
    rs_ns base_ns, start;
    bool has_base;
    struct rs_summary summary;
    bool has_summary;
};

struct job {
    const char *const *paths;
    size_t path_count;
    const char *out_dir, *rank_map, *data, *classes;
    struct rs_arg_list rank_from, ranks;
    bool as_json, is_quiet, assume_common_clock;

    struct rs_recordings recordings;
    struct recording *items;
    size_t count;
    struct rs_cli_noter noter;
    struct rs_client_carried carried; /* of a capture */
    const char *connect;
    struct rs_deliver deliver; /* joins recordings of one rank, tells what is missing */
    struct rs_buf written;     /* of --json: the elements of an array */
    struct rs_json_out json;
    size_t written_count;
};

/* ---- first reading: summaries ---- */

struct reducing {
    struct rs_reduce *reduce;
    struct recording *recording;
};

static enum rs_status reduce_begin(void *self, const struct rs_strtab *strings,
                                   const struct rs_lanes *lanes, struct rs_err *err)
{
    struct reducing *r = self;
    const enum rs_status status = rs_reduce_new(strings, lanes, &r->reduce);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "out of memory");
}

static enum rs_status reduce_batch(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    const struct reducing *r = self;
    return rs_reduce_add(r->reduce, batch, err);
}

static enum rs_status reduce_end(void *self, const struct rs_trace_info *info, struct rs_err *err)
{
    struct reducing *r = self;
    struct recording *own = r->recording;
    const enum rs_status status = rs_reduce_finish(r->reduce, info, &own->summary, err);
    own->has_summary = status == RS_OK;
    own->has_base = info->has_time_base;
    own->base_ns = info->base_ns;
    own->start = own->has_summary ? own->summary.span_start : 0;
    return status;
}

static enum rs_status summarise(struct job *job, struct rs_recording *of,
                                struct recording *recording, struct rs_err *err)
{
    struct reducing r = {.recording = recording};
    const struct rs_taker to = {reduce_begin, reduce_batch, reduce_end, &r};
    *recording = (struct recording){.of = of};
    const enum rs_status status = rs_recordings_survey(&job->recordings, of, &to, err);
    rs_reduce_free(&r.reduce);
    return status;
}

static int by_rank_and_start(const void *a_, const void *b_)
{
    const struct recording *a = a_, *b = b_;
    if (a->of->rank != b->of->rank)
        return a->of->rank < b->of->rank ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->of->stream > b->of->stream) - (a->of->stream < b->of->stream);
}

/* Hands copies of what was summarised to deliver, which joins the recordings of a rank. */
static enum rs_status join_all(struct job *job, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    qsort(job->items, job->count, sizeof *job->items, by_rank_and_start);
    for (size_t i = 0; i < job->count && status == RS_OK; i++) {
        struct recording *own = &job->items[i];
        if (!own->has_summary || own->of->rank < 0)
            continue;
        own->summary.trace.rank = own->of->rank;
        own->has_summary = false;
        status = rs_deliver_add(&job->deliver, own->of->input ? own->of->input->path : "a stream",
                                &own->summary, err);
    }
    if (status == RS_OK && !job->deliver.summary_count)
        status = rs_err_set(err, RS_NOTFOUND, "no profile was found");
    return status;
}

static enum rs_status report_unread(struct job *job, const struct rs_input *input,
                                    struct rs_err *err)
{
    return rs_deliver_file(&job->deliver, input->path,
                           input->state == RS_INPUT_SKIPPED ? RS_OUTPUT_SKIPPED : RS_OUTPUT_FAILED,
                           input->reason, err);
}

static enum rs_status settle_files(struct job *job, struct rs_err *err)
{
    const struct rs_inputs *inputs = &job->recordings.inputs;
    enum rs_status status = rs_recordings_settle(&job->recordings, err);
    for (size_t i = 0; i < inputs->note_count && status == RS_OK; i++)
        status = rs_deliver_note(&job->deliver, inputs->notes[i]);
    for (size_t i = 0; i < inputs->count && status == RS_OK; i++) {
        const struct rs_input *input = &inputs->items[i];
        if (input->state != RS_INPUT_WHOLE && input->state != RS_INPUT_PARTIAL)
            status = report_unread(job, input, err);
    }
    return status;
}

/* What a rank's own profiler says of it is in the summary that came with it, not among its events: official tables show it. */
static enum rs_status take_vendor(const struct rs_capture_data *data, struct recording *own,
                                  struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < rs_capture_data_count(data) && own->has_summary && status == RS_OK;
         i++) {
        const struct rs_capture_stream *stream = rs_capture_data_stream(data, i);
        struct rs_summary summary;
        struct rs_err why = {0};
        if (!stream->raw || stream->raw_index != own->of->stream)
            continue;
        status = rs_capture_data_summary(data, i, false, &summary, NULL, &why);
        if (status != RS_OK)
            return status == RS_NOMEM ? rs_err_set(err, status, "%s", why.text) : RS_OK;
        if (!own->summary.trace.vendor)
            status = rs_provenance_add(&own->summary.trace.vendor, &own->summary.strings,
                                       summary.trace.vendor, &summary.strings);
        rs_summary_fini(&summary);
    }
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "out of memory");
}

static enum rs_status take_vendors(struct job *job, struct rs_err *err)
{
    struct rs_capture_data *data = NULL;
    enum rs_status status = rs_capture_data_open(job->carried.dir, &data, err);
    for (size_t i = 0; i < job->count && status == RS_OK; i++)
        status = take_vendor(data, &job->items[i], err);
    rs_capture_data_close(&data);
    return status;
}

static enum rs_status load(struct job *job, struct rs_err *err)
{
    struct rs_recordings *recordings = &job->recordings;
    enum rs_status status = RS_OK;
    job->items = rs_mem_calloc(recordings->count + 1, sizeof *job->items);
    if (!job->items)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    for (size_t i = 0; i < recordings->count && status == RS_OK; i++)
        status = summarise(job, &recordings->items[i], &job->items[job->count++], err);
    if (status != RS_OK)
        return status;
    return recordings->stored ? take_vendors(job, err) : settle_files(job, err);
}

/* ---- second reading: the ranks asked for ---- */

struct exporting {
    struct rs_export_options options;
    struct rs_export_ascend *export;
    struct rs_export_result result;
};

static enum rs_status export_begin(void *self, const struct rs_strtab *strings,
                                   const struct rs_lanes *lanes, struct rs_err *err)
{
    struct exporting *x = self;
    return rs_export_ascend_open(&x->options, strings, lanes, &x->export, err);
}

static enum rs_status export_batch(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct exporting *x = self;
    return rs_export_ascend_add(x->export, batch, err);
}

static enum rs_status export_end(void *self, const struct rs_trace_info *info, struct rs_err *err)
{
    struct exporting *x = self;
    return rs_export_ascend_finish(x->export, info, &x->result, err);
}

static void report_written(struct job *job, const struct recording *recording,
                           const struct rs_export_result *result)
{
    const struct {
        const char *key;
        uint64_t value;
    } counts[] = {{"tasks", result->tasks},
                  {"operations", result->ops},
                  {"host_rows", result->host_rows},
                  {"api_rows", result->api_rows},
                  {"kept_rows", result->kept_rows},
                  {"windows_bounded", result->windows_bounded},
                  {"windows_differ", result->windows_differ}};
    job->written_count++;
    if (result->windows_differ)
        rs_cli_note(verb,
                    "rank %" PRId32 ": its devices see %" PRIu64
                    " steps differently; the tables hold one window for all",
                    recording->of->rank, result->windows_differ);
    if (!job->as_json && !job->is_quiet)
        printf("rank %" PRId32 ": %s (%" PRIu64 " tasks, %" PRIu64 " operations)\n",
               recording->of->rank, result->dir, result->tasks, result->ops);
    rs_json_out_object(&job->json);
    rs_json_out_key(&job->json, "rank");
    rs_json_out_int(&job->json, recording->of->rank);
    rs_json_out_key(&job->json, "directory");
    rs_json_out_string(&job->json, result->dir);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        rs_json_out_key(&job->json, counts[i].key);
        rs_json_out_uint(&job->json, counts[i].value);
    }
    rs_json_out_end(&job->json);
}

/* A recording that cannot be written stops nobody else. */
static enum rs_status export_one(struct job *job, const struct rs_analysis *analysis,
                                 struct rs_row_store *rows, const struct recording *recording,
                                 struct rs_err *err)
{
    struct rs_err why = {0};
    struct exporting x = {.options = {.analysis = analysis,
                                      .rows = rows,
                                      .out_dir = job->out_dir,
                                      .base_ns = recording->base_ns}};
    while (x.options.summary < analysis->summary_count &&
           analysis->summaries[x.options.summary]->trace.rank != recording->of->rank)
        x.options.summary++;
    if (x.options.summary == analysis->summary_count)
        return RS_OK;
    const struct rs_taker to = {export_begin, export_batch, export_end, &x};
    const enum rs_status status =
        rs_recording_read(&job->recordings, recording->of, RS_SOURCE_LOSSLESS, &to, &why);
    rs_export_ascend_free(&x.export);
    if (status == RS_OK || status == RS_PARTIAL) {
        report_written(job, recording, &x.result);
        rs_mem_free(x.result.dir);
        return RS_OK;
    }
    if (status == RS_NOMEM || status == RS_IO)
        return rs_err_set(err, status, "%s", why.text);
    job->deliver.is_partial = true;
    rs_cli_note(verb, "failed: rank %" PRId32 ": %s", recording->of->rank, why.text);
    return RS_OK;
}

static bool is_wanted(const struct job *job, int32_t rank)
{
    for (size_t i = 0; i < job->ranks.count; i++) {
        int64_t number;
        if (strcmp(job->ranks.items[i], "all") == 0 ||
            (rs_args_int(job->ranks.items[i], 0, INT32_MAX, &number) == RS_OK && number == rank))
            return true;
    }
    return !job->ranks.count;
}

static enum rs_status check_ranks(const struct job *job, struct rs_err *err)
{
    for (size_t i = 0; i < job->ranks.count; i++) {
        int64_t number;
        bool is_there = strcmp(job->ranks.items[i], "all") == 0;
        if (is_there)
            continue;
        if (rs_args_int(job->ranks.items[i], 0, INT32_MAX, &number) != RS_OK)
            return rs_err_set(err, RS_INVALID, "--rank is a number or all, not \"%.40s\"",
                              job->ranks.items[i]);
        for (size_t k = 0; k < job->count; k++)
            is_there = is_there || job->items[k].of->rank == number;
        if (!is_there)
            return rs_err_set(err, RS_NOTFOUND, "there is no rank %" PRId64 " in what was read",
                              number);
    }
    return RS_OK;
}

static int by_rank(const void *a_, const void *b_)
{
    const struct rs_summary *const *a = a_, *const *b = b_;
    return ((*a)->trace.rank > (*b)->trace.rank) - ((*a)->trace.rank < (*b)->trace.rank);
}

static enum rs_status export_all(struct job *job, struct rs_err *err)
{
    struct rs_deliver *deliver = &job->deliver;
    struct rs_analysis *analysis = NULL;
    struct rs_row_store *rows = NULL;
    const struct rs_summary **lent =
        rs_mem_calloc(deliver->summary_count + 1, sizeof(const struct rs_summary *));
    if (!lent)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    for (size_t i = 0; i < deliver->summary_count; i++)
        lent[i] = &deliver->summaries[i];
    qsort(lent, deliver->summary_count, sizeof(const struct rs_summary *), by_rank);
    const struct rs_analysis_options how = {.assume_common_clock = job->assume_common_clock};
    enum rs_status status = rs_analysis_new(lent, deliver->summary_count, &how, &analysis, err);
    if (status == RS_OK)
        status = rs_row_store_open(NULL, RS_ROWS_PRIVATE, &rows, err);
    if (status == RS_OK)
        status = rs_analysis_rows(analysis, RS_ROWS_CAPTURE, rows, err);
    for (size_t i = 0; i < job->count && status == RS_OK; i++)
        if (job->items[i].of->rank >= 0 && is_wanted(job, job->items[i].of->rank))
            status = export_one(job, analysis, rows, &job->items[i], err);
    if (status == RS_OK &&
        (analysis->missing_count || analysis->world_size > (int64_t)analysis->summary_count))
        job->deliver.is_partial = true; /* the waiting of those that are there is not all known */
    if (status == RS_OK && !job->written_count)
        status = rs_err_set(err, RS_FORMAT, "no rank could be written");
    rs_row_store_close(&rows);
    rs_analysis_free(&analysis);
    rs_mem_free(lent);
    return status;
}

/* ---- the verb ---- */

static enum rs_status find(struct job *job, struct rs_err *err)
{
    const struct rs_discover_options how = {.rank_map_path = job->rank_map,
                                            .rank_from = job->rank_from.items,
                                            .rank_from_count = job->rank_from.count};
    if (job->path_count == 1) {
        const char *word = job->paths[0];
        const enum rs_status status =
            rs_client_carry(word, job->data, job->connect, &job->carried, err);
        if (status == RS_OK)
            return rs_recordings_of_capture(job->carried.dir, &job->recordings, err);
        if (access(word, F_OK) != 0 && (status != RS_NOTFOUND || job->connect || job->data))
            return status; /* else it is a path */
    }
    return rs_recordings_of_files(job->paths, job->path_count, &how, &job->recordings, err);
}

static enum rs_status run(struct job *job, struct rs_err *err)
{
    enum rs_status status = find(job, err);
    if (status == RS_OK)
        status = load(job, err);
    if (status == RS_OK)
        status = check_ranks(job, err);
    if (status == RS_OK)
        status = join_all(job, err);
    return status == RS_OK ? export_all(job, err) : status;
}

static int export(struct job *job)
{
    struct rs_err err = {0};
    job->noter = (struct rs_cli_noter){.verb = verb};
    job->deliver = (struct rs_deliver){
        .print = rs_cli_note_line, .print_self = &job->noter, .has_reported_missing = true};
    rs_json_out_init(&job->json, &job->written, 2);
    rs_json_out_array(&job->json);
    const enum rs_status status = run(job, &err);
    rs_json_out_end(&job->json);
    if (status == RS_OK && job->as_json)
        printf("%s\n", rs_buf_text(&job->written));
    const int code = status != RS_OK           ? rs_cli_fail(verb, &err)
                     : job->deliver.is_partial ? RS_EXIT_PARTIAL
                                               : RS_EXIT_COMPLETE;
    for (size_t i = 0; i < job->count; i++)
        if (job->items[i].has_summary)
            rs_summary_fini(&job->items[i].summary);
    rs_mem_free(job->items);
    rs_deliver_fini(&job->deliver);
    rs_recordings_close(&job->recordings);
    rs_client_carried_remove(&job->carried);
    rs_buf_fini(&job->written);
    return code;
}

int rs_cmd_export(int argc, char **argv)
{
    struct job job = {0};
    const struct rs_arg items[] = {
        {.name = "out",
         .letter = 'o',
         .kind = RS_ARG_TEXT,
         .target = &job.out_dir,
         .value = "DIR",
         .help = "where the directories are made; it is created"},
        {.name = "rank",
         .kind = RS_ARG_LIST,
         .target = &job.ranks,
         .value = "R|all",
         .help = "only this rank; may be given many times (default: all)"},
        {.name = "rank-map",
         .kind = RS_ARG_TEXT,
         .target = &job.rank_map,
         .value = "FILE",
         .help = "JSON object: file name -> rank, or null for a file that is no rank"},
        {.name = "rank-from",
         .kind = RS_ARG_LIST,
         .target = &job.rank_from,
         .value = "PATTERN",
         .help = "text before the rank in a file name; a '*' says where the number stands"},
        RS_CLI_CLASSES_ARG(&job.classes),
        {.name = "data",
         .letter = 'd',
         .kind = RS_ARG_TEXT,
         .target = &job.data,
         .value = "DIR",
         .environment = "RANKSCOPE_DATA",
         .help = "the aggregator's data, where a capture's ID is looked for"},
        RS_CLI_CONNECT_ARGS(&job.connect),
        {.name = "assume-common-clock",
         .kind = RS_ARG_FLAG,
         .target = &job.assume_common_clock,
         .help = "take the clocks of different hosts as one"},
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &job.as_json,
         .help = "print what was written as JSON"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &job.is_quiet,
         .help = "print nothing on stdout"},
    };
    const struct rs_args args = {
        .verb = verb,
        .operands = "ascend PATH...|CAPTURE",
        .summary =
            "Write ranks of any kind as *_ascend_pt directories, which MindStudio Insight opens. All "
            "ranks are read, so that waiting is known; those asked for are written.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue =
            "  rankscope export ascend traces/ --rank 3 -o /tmp/insight\n"
            "  rankscope export ascend 20260102-030405-a1b2c3 -o /tmp/insight\n"
            "\n"
            "Exit: 0 complete, 1 partial (what is missing is named), 2 bad request or input, 3 cannot\n"
            "write, 4 no aggregator answers.\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && (argc - first < 2 || strcmp(argv[first], "ascend") != 0))
        status = rs_err_set(&err, RS_INVALID,
                            "say what to write and from what: export ascend PATH... -o DIR");
    if (status == RS_OK && !job.out_dir)
        status = rs_err_set(&err, RS_INVALID, "say where to: -o DIR");
    if (status == RS_OK)
        status = rs_classes_load(job.classes, &err);
    if (status != RS_OK)
        return rs_cli_fail(verb, &err);
    job.paths = (const char *const *)argv + first + 1;
    job.path_count = (size_t)(argc - first - 1);
    rs_cli_tell_of_link(verb, job.out_dir);
    return export(&job);
}
