/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope analyse PATH...`: the whole stream in one process, one recording per worker thread.
 *
 *     discover --> candidates --take one--> worker: read -> reduce -> summary     (as many as --jobs)
 *                                             |                 kept until all are read
 *                              ranks settled <+--> deliver: join, report, files
 *
 * Memory: the events of a recording exist only in its worker, batch by batch; what remains of a rank is its
 * summary. Threads: workers share a counter of the next candidate and the figures for the progress line,
 * all atomic; each input and its slot belong to the worker that took it. One broken file stops nobody.
 */
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/deliver.h"
#include "collector/source/discover.h"
#include "common/base/mem.h"
#include "common/reduce/reduce.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char verb[] = "analyse";

enum { JOBS_MAX = 256 };

/* What became of one input. */
struct slot {
    struct rs_summary summary;
    bool has_summary;
    enum rs_status status; /* of the machine (RS_NOMEM, ...), not of the file */
    struct rs_err err;
};

struct pool {
    struct rs_inputs *inputs;
    struct slot *slots; /* one per input */
    atomic_size_t next;
    atomic_size_t done;
    atomic_llong bytes_done;
    atomic_llong events;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    size_t running; /* workers; guarded by lock, its change is told by wake */
};

static atomic_int interrupted;

static void on_interrupt(int number)
{
    (void)number;
    atomic_store(&interrupted, 1);
}

/* --- one recording --------------------------------------------------------------------------------- */

struct tap {
    struct rs_reduce *reduce;
    struct pool *pool;
    rs_ns first, last;
};

static enum rs_status pour(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct tap *tap = self;
    if (atomic_load_explicit(&interrupted, memory_order_relaxed))
        return rs_err_set(err, RS_CANCELLED, "interrupted");
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->flags[i] & RS_EVENT_NO_END)
            continue; /* metadata rows stand at time 0 */
        tap->first = batch->start[i] < tap->first ? batch->start[i] : tap->first;
        tap->last = batch->end[i] > tap->last ? batch->end[i] : tap->last;
    }
    (void)atomic_fetch_add_explicit(&tap->pool->events, (long long)batch->count,
                                    memory_order_relaxed);
    return rs_reduce_add(tap->reduce, batch, err);
}

/* Is this the file's fault, so that the others go on? */
static bool is_of_file(enum rs_status status)
{
    return status == RS_OK || status == RS_PARTIAL || status == RS_NOTFOUND ||
           status == RS_FORMAT || status == RS_IO || status == RS_LIMIT || status == RS_VERSION;
}

static enum rs_status reduce_file(struct pool *pool, struct rs_input *input, struct slot *slot,
                                  struct rs_source_stream *stream)
{
    struct tap tap = {.pool = pool, .first = RS_NS_MAX, .last = RS_NS_MIN};
    struct rs_err failure = {0};
    enum rs_status status = rs_reduce_new(&stream->strings, &stream->lanes, &tap.reduce);
    if (status != RS_OK)
        return rs_err_set(&slot->err, status, "no memory for %s", input->path);
    const struct rs_sink sink = {.batch = pour, .self = &tap};
    status = rs_input_read(input, 0, stream, sink, &failure);
    if (status == RS_OK || status == RS_PARTIAL) {
        const enum rs_status finished =
            rs_reduce_finish(tap.reduce, &stream->info, &slot->summary, &failure);
        slot->has_summary = finished == RS_OK;
        status = finished == RS_OK ? status : finished;
    }
    rs_reduce_free(&tap.reduce);
    if (!is_of_file(status))
        return rs_err_set(&slot->err, status, "%s", failure.text);
    const struct rs_input_result result = {.status = status,
                                           .failure = &failure,
                                           .info = &stream->info,
                                           .strings = &stream->strings,
                                           .first = tap.first,
                                           .last = tap.last};
    status = rs_input_record(input, &result);
    return status == RS_OK ? RS_OK
                           : rs_err_set(&slot->err, status, "no memory for %s", input->path);
}

static void read_input(struct pool *pool, size_t index)
{
    struct rs_input *input = &pool->inputs->items[index];
    struct slot *slot = &pool->slots[index];
    struct rs_source_stream stream;
    if (input->state != RS_INPUT_CANDIDATE || atomic_load(&interrupted))
        return;
    slot->status = rs_source_stream_init(&stream);
    if (slot->status != RS_OK) {
        (void)rs_err_set(&slot->err, slot->status, "no memory for %s", input->path);
        return;
    }
    slot->status = reduce_file(pool, input, slot, &stream);
    rs_source_stream_fini(&stream);
    (void)atomic_fetch_add(&pool->bytes_done, (long long)input->size_bytes);
    (void)atomic_fetch_add(&pool->done, 1);
}

/* --- workers and progress ------------------------------------------------------------------------------ */

static void *work(void *self)
{
    struct pool *pool = self;
    for (;;) {
        const size_t index = atomic_fetch_add(&pool->next, 1);
        if (index >= pool->inputs->count)
            break;
        read_input(pool, index);
    }
    (void)pthread_mutex_lock(&pool->lock);
    pool->running--;
    (void)pthread_cond_signal(&pool->wake);
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void show_progress(struct pool *pool, size_t candidates, rs_dur elapsed)
{
    const double seconds = (double)elapsed / 1e9;
    fprintf(stderr, "\r  %zu of %zu files, %.1f M events, %.0f MB/s \033[K",
            atomic_load(&pool->done), candidates, (double)atomic_load(&pool->events) / 1e6,
            (double)atomic_load(&pool->bytes_done) / 1e6 / seconds);
    (void)fflush(stderr);
}

/* Waits for the workers; on a terminal, and only after a second, a line tells how far they are. */
static void wait_for_workers(struct pool *pool, size_t candidates)
{
    const bool is_shown = isatty(STDERR_FILENO);
    const rs_ns start = rs_time_monotonic();
    bool was_shown = false;
    (void)pthread_mutex_lock(&pool->lock);
    while (pool->running) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)200 * RS_NS_PER_MS;
        if (until.tv_nsec >= RS_NS_PER_S) {
            until.tv_nsec -= RS_NS_PER_S;
            until.tv_sec++;
        }
        (void)pthread_cond_timedwait(&pool->wake, &pool->lock, &until);
        const rs_dur elapsed = rs_time_monotonic() - start;
        if (is_shown && elapsed > RS_NS_PER_S && pool->running) {
            show_progress(pool, candidates, elapsed);
            was_shown = true;
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    if (was_shown)
        fprintf(stderr, "\r\033[K");
}

static enum rs_status read_all(struct pool *pool, size_t jobs, struct rs_err *err)
{
    pthread_t threads[JOBS_MAX];
    size_t candidates = 0, started = 0;
    for (size_t i = 0; i < pool->inputs->count; i++)
        candidates += pool->inputs->items[i].state == RS_INPUT_CANDIDATE;
    jobs = jobs < candidates ? jobs : candidates;
    if (!jobs)
        return RS_OK;
    pool->running = jobs;
    for (; started < jobs; started++)
        if (pthread_create(&threads[started], NULL, work, pool) != 0)
            break;
    (void)pthread_mutex_lock(&pool->lock);
    pool->running -= jobs - started;
    (void)pthread_mutex_unlock(&pool->lock);
    if (!started)
        return rs_err_set(err, RS_NOMEM, "cannot start a thread");
    wait_for_workers(pool, candidates);
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    if (atomic_load(&interrupted))
        return rs_err_set(err, RS_CANCELLED, "interrupted");
    for (size_t i = 0; i < pool->inputs->count; i++)
        if (pool->slots[i].status < 0) {
            *err = pool->slots[i].err;
            return pool->slots[i].status;
        }
    return RS_OK;
}

/* --- what was read -> deliver ---------------------------------------------------------------------------- */

struct turn {
    int32_t rank, cycle;
    size_t index;
};

static int by_rank_and_cycle(const void *a_, const void *b_)
{
    const struct turn *a = a_, *b = b_;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->cycle != b->cycle)
        return a->cycle < b->cycle ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static bool is_read(const struct rs_input *input)
{
    return input->state == RS_INPUT_WHOLE || input->state == RS_INPUT_PARTIAL;
}

static enum rs_status add_one(struct deliver *deliver, const struct rs_input *input,
                              struct slot *slot, struct rs_err *err)
{
    if (is_read(input) && slot->has_summary) {
        slot->summary.trace.rank = input->rank;
        slot->summary.trace.rank_source = input->rank_source;
        slot->has_summary = false;
        return deliver_add(deliver, input->path, &slot->summary, err);
    }
    return deliver_file(deliver, input->path,
                        input->state == RS_INPUT_SKIPPED ? RS_OUTPUT_SKIPPED : RS_OUTPUT_FAILED,
                        input->reason, err);
}

/* Recordings by rank and cycle, then the rest in the order of their paths. */
static enum rs_status add_all(struct deliver *deliver, const struct pool *pool, struct rs_err *err)
{
    const struct rs_inputs *inputs = pool->inputs;
    struct turn *turns = rs_mem_calloc(inputs->count + 1, sizeof *turns);
    if (!turns)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    for (size_t i = 0; i < inputs->count; i++) {
        const bool is_rank = is_read(&inputs->items[i]) && pool->slots[i].has_summary;
        turns[i] = (struct turn){.rank = is_rank ? inputs->items[i].rank : INT32_MAX,
                                 .cycle = is_rank ? inputs->items[i].cycle : 0,
                                 .index = i};
    }
    qsort(turns, inputs->count, sizeof *turns, by_rank_and_cycle);
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < inputs->told_count && status == RS_OK; i++)
        status = deliver_note(deliver, inputs->told[i]);
    for (size_t i = 0; i < inputs->count && status == RS_OK; i++)
        status =
            add_one(deliver, &inputs->items[turns[i].index], &pool->slots[turns[i].index], err);
    rs_mem_free(turns);
    return status;
}

static enum rs_status nothing_found(const struct rs_inputs *inputs, struct rs_err *err)
{
    for (size_t i = 0; i < inputs->count; i++)
        if (inputs->items[i].state == RS_INPUT_FAILED)
            return rs_err_set(err, RS_FORMAT, "no profile could be read; %s",
                              inputs->items[i].reason ? inputs->items[i].reason
                                                      : inputs->items[i].path);
    for (size_t i = 0; i < inputs->count; i++)
        if (inputs->items[i].reason)
            return rs_err_set(err, RS_NOTFOUND, "no profile was found; %s: %s",
                              inputs->items[i].path, inputs->items[i].reason);
    return rs_err_set(err, RS_NOTFOUND, "no profile was found");
}

/* --- the verb ------------------------------------------------------------------------------------------- */

struct request {
    struct deliver_options deliver;
    const char *rank_map;
    struct rs_arg_list rank_from;
    int64_t jobs;
    bool is_cluster; /* the official cluster output, too */
};

static enum rs_status run(const struct request *request, struct pool *pool, struct deliver *deliver,
                          struct rs_err *err)
{
    pool->slots = rs_mem_calloc(pool->inputs->count + 1, sizeof *pool->slots);
    if (!pool->slots)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    enum rs_status status = read_all(pool, (size_t)request->jobs, err);
    if (status == RS_OK)
        status = rs_inputs_resolve(pool->inputs, err);
    if (status == RS_OK)
        status = add_all(deliver, pool, err);
    if (status == RS_OK && !deliver->summary_count)
        status = nothing_found(pool->inputs, err);
    return status;
}

static int analyse(const struct request *request, const char *const *paths, size_t path_count)
{
    struct rs_err err = {0};
    struct rs_inputs inputs = {0};
    struct deliver deliver = {.verb = verb, .has_told_missing = true};
    struct pool pool = {
        .inputs = &inputs, .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
    const struct rs_discover_options how = {.rank_map_path = request->rank_map,
                                            .rank_from = request->rank_from.items,
                                            .rank_from_count = request->rank_from.count};
    enum rs_status status = rs_discover(paths, path_count, &how, &inputs, &err);
    if (status != RS_OK)
        return rs_cli_fail(verb, &err);
    status = run(request, &pool, &deliver, &err);
    for (size_t i = 0; pool.slots && i < inputs.count; i++)
        if (pool.slots[i].has_summary)
            rs_summary_fini(&pool.slots[i].summary);
    rs_mem_free(pool.slots);
    rs_inputs_fini(&inputs);
    const int code =
        status == RS_OK ? deliver_finish(&deliver, &request->deliver) : rs_cli_fail(verb, &err);
    deliver_fini(&deliver);
    return code;
}

/* The graver of the two outcomes; a crossed threshold stays one. */
static int analyse_with_cluster(const struct request *request, const char *const *paths,
                                size_t path_count)
{
    int code = analyse(request, paths, path_count);
    if (!request->is_cluster ||
        (code != RS_EXIT_COMPLETE && code != RS_EXIT_PARTIAL && code != RS_EXIT_THRESHOLD))
        return code;
    const int cluster =
        rs_cli_cluster(paths, path_count, request->deliver.out_dir, (unsigned)request->jobs,
                       request->deliver.is_quiet || request->deliver.as_json);
    return cluster > code ? cluster : code;
}

static int64_t default_jobs(void)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > JOBS_MAX ? JOBS_MAX : online;
}

int rs_cmd_analyse(int argc, char **argv)
{
    struct request request = {.deliver = {.fail_above = -1}, .jobs = default_jobs()};
    const struct rs_arg options[] = {
        {.name = "out",
         .letter = 'o',
         .kind = RS_ARG_TEXT,
         .target = &request.deliver.out_dir,
         .value = "DIR",
         .help =
             "write the deliverables into DIR, which is created; without it only the report is printed"},
        {.name = "cluster",
         .kind = RS_ARG_FLAG,
         .target = &request.is_cluster,
         .help =
             "of Ascend results, also write the official DIR/cluster_analysis_output (see rankscope cluster)"},
        {.name = "rank-map",
         .kind = RS_ARG_TEXT,
         .target = &request.rank_map,
         .value = "FILE",
         .help = "JSON object: file name -> rank, or null for a file that is no rank"},
        {.name = "rank-from",
         .kind = RS_ARG_LIST,
         .target = &request.rank_from,
         .value = "PATTERN",
         .help =
             "text before the rank in a file name, such as \"node-\"; a '*' says where the number stands"},
        {.name = "run",
         .kind = RS_ARG_TEXT,
         .target = &request.deliver.run,
         .value = "NAME",
         .help = "name of the run, for the manifest"},
        {.name = "assume-common-clock",
         .kind = RS_ARG_FLAG,
         .target = &request.deliver.assume_common_clock,
         .help = "take the clocks of all hosts as one"},
        {.name = "jobs",
         .letter = 'j',
         .kind = RS_ARG_INT,
         .target = &request.jobs,
         .value = "N",
         .help = "read N files at a time; default: the processors online",
         .min = 1,
         .max = JOBS_MAX},
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &request.deliver.as_json,
         .help = "print report.json instead of the text"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &request.deliver.is_quiet,
         .help = "print nothing on stdout"},
        {.name = "fail-above",
         .kind = RS_ARG_PERCENT,
         .target = &request.deliver.fail_above,
         .value = "X%",
         .help = "exit with 5 when a finding costs more than X % of a step"},
    };
    const struct rs_args args = {
        .verb = verb,
        .operands = "PATH...",
        .summary =
            "Reads the per-rank profiles in PATH (files, or folders that are searched), joins them and "
            "says where step time goes, who arrives last and who is to blame.",
        .items = options,
        .count = sizeof options / sizeof options[0],
        .epilogue =
            "Exit: 0 complete, 1 partial (what is missing is named), 2 bad request or input, 3 refused,\n"
            "5 --fail-above.\n"
            "\nexample:\n  rankscope analyse traces/ -o out\n"};
    struct rs_err err = {0};
    int first = argc;
    const enum rs_status parsed = rs_args_parse(&args, argc, argv, &first, &err);
    if (parsed != RS_OK)
        return parsed == RS_END ? RS_EXIT_COMPLETE : rs_cli_fail(verb, &err);
    if (first == argc) {
        (void)rs_err_set(&err, RS_INVALID, "give a file or a folder; see rankscope analyse --help");
        return rs_cli_fail(verb, &err);
    }
    if (request.is_cluster && !request.deliver.out_dir) {
        (void)rs_err_set(&err, RS_INVALID, "say with --out where the cluster output goes");
        return rs_cli_fail(verb, &err);
    }
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &action, NULL);
    return analyse_with_cluster(&request, (const char *const *)argv + first,
                                (size_t)(argc - first));
}
