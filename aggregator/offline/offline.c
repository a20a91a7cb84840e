/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     discover --> candidates --take one--> worker: read -> reduce -> summary     (as many as jobs)
 *                                             |                 kept until all are read
 *                              ranks settled <+--> deliver
 *
 * Memory: the events of a recording exist only in its worker, batch by batch; what remains of a rank is its
 * summary. Threads: workers share a counter of the next candidate and the figures of the progress,
 * all atomic; each input and its slot belong to the worker that took it. One broken file stops nobody.
 */
#include "aggregator/offline/offline.h"

#include "common/base/mem.h"
#include "common/reduce/reduce.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What became of one input. */
struct slot {
    struct rs_summary summary;
    bool has_summary;
    enum rs_status status; /* of the machine (RS_NOMEM, ...), not of the file */
    struct rs_err err;
};

struct pool {
    const struct rs_offline_options *options;
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

/* --- one recording --------------------------------------------------------------------------------- */

static bool must_stop(const struct pool *pool)
{
    const atomic_int *flag = pool->options->must_stop;
    return flag && atomic_load_explicit(flag, memory_order_relaxed);
}

struct tap {
    struct rs_reduce *reduce;
    struct pool *pool;
    rs_ns first, last;
};

static enum rs_status emit(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct tap *tap = self;
    if (must_stop(tap->pool))
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
    const struct rs_sink sink = {.batch = emit, .self = &tap};
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
    if (input->state != RS_INPUT_CANDIDATE || must_stop(pool))
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

static void tell_progress(struct pool *pool, size_t candidates, rs_ns start, bool is_over)
{
    const struct rs_offline_progress progress = {.files = candidates,
                                                 .files_done = atomic_load(&pool->done),
                                                 .bytes = (uint64_t)atomic_load(&pool->bytes_done),
                                                 .events = (uint64_t)atomic_load(&pool->events),
                                                 .elapsed = rs_time_monotonic() - start,
                                                 .is_over = is_over};
    if (pool->options->progress)
        pool->options->progress(pool->options->self, &progress);
}

static void wait_for_workers(struct pool *pool, size_t candidates)
{
    const rs_ns start = rs_time_monotonic();
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
        if (pool->running)
            tell_progress(pool, candidates, start, false);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    tell_progress(pool, candidates, start, true);
}

/* A rank's arrays have the sizes of the rank's before it: they are taken from what that one left. Given back in between, each page would
 * be asked for anew, which costs more than what is done with it. */
static void keep_memory(void)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): before any thread */
    (void)mallopt(M_MMAP_THRESHOLD, 4 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 16 << 20);
    /* NOLINTEND(concurrency-mt-unsafe) */
}

static enum rs_status read_all(struct pool *pool, size_t jobs, struct rs_err *err)
{
    pthread_t threads[RS_OFFLINE_JOBS_MAX];
    size_t candidates = 0, started = 0;
    keep_memory();
    for (size_t i = 0; i < pool->inputs->count; i++)
        candidates += pool->inputs->items[i].state == RS_INPUT_CANDIDATE;
    jobs = jobs < candidates ? jobs : candidates;
    jobs = jobs < RS_OFFLINE_JOBS_MAX ? jobs : RS_OFFLINE_JOBS_MAX;
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
    if (must_stop(pool))
        return rs_err_set(err, RS_CANCELLED, "interrupted");
    for (size_t i = 0; i < pool->inputs->count; i++)
        if (pool->slots[i].status < 0) {
            *err = pool->slots[i].err;
            return pool->slots[i].status;
        }
    return RS_OK;
}

/* --- what was read --> deliver --------------------------------------------------------------------------- */

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

static enum rs_status add_one(struct rs_deliver *deliver, const struct rs_input *input,
                              struct slot *slot, struct rs_err *err)
{
    if (is_read(input) && slot->has_summary) {
        slot->summary.trace.rank = input->rank;
        slot->summary.trace.rank_source = input->rank_source;
        slot->has_summary = false;
        return rs_deliver_add(deliver, input->path, &slot->summary, err);
    }
    return rs_deliver_file(deliver, input->path,
                           input->state == RS_INPUT_SKIPPED ? RS_OUTPUT_SKIPPED : RS_OUTPUT_FAILED,
                           input->reason, err);
}

/* Recordings by rank and cycle, then the rest in the order of their paths. */
static enum rs_status add_all(struct rs_deliver *deliver, const struct pool *pool,
                              struct rs_err *err)
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
    for (size_t i = 0; i < inputs->note_count && status == RS_OK; i++)
        status = rs_deliver_note(deliver, inputs->notes[i]);
    for (size_t i = 0; i < inputs->count && status == RS_OK; i++)
        status =
            add_one(deliver, &inputs->items[turns[i].index], &pool->slots[turns[i].index], err);
    rs_mem_free(turns);
    return status;
}

static enum rs_status nothing_found(const struct rs_offline_options *options,
                                    const struct rs_inputs *inputs, struct rs_err *err)
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
    return rs_err_set(
        err, RS_NOTFOUND,
        "no profile was found in %.200s%s: expected are traces of Kineto (.json, also "
        "compressed) or results of Ascend's profilers (*_ascend_pt, *_ascend_ms, "
        "PROF_*)",
        options->paths[0], options->path_count > 1 ? " and the others" : "");
}

/* --- the door -------------------------------------------------------------------------------------------- */

static enum rs_status read_into(struct pool *pool, struct rs_deliver *deliver, struct rs_err *err)
{
    pool->slots = rs_mem_calloc(pool->inputs->count + 1, sizeof *pool->slots);
    if (!pool->slots)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    enum rs_status status = read_all(pool, pool->options->jobs, err);
    if (status == RS_OK)
        status = rs_inputs_resolve(pool->inputs, err);
    if (status == RS_OK)
        status = add_all(deliver, pool, err);
    if (status == RS_OK && !deliver->summary_count)
        status = nothing_found(pool->options, pool->inputs, err);
    return status;
}

enum rs_status rs_offline_read(const struct rs_offline_options *options, struct rs_deliver *deliver,
                               struct rs_err *err)
{
    struct rs_inputs inputs = {0};
    struct pool pool = {.options = options,
                        .inputs = &inputs,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .wake = PTHREAD_COND_INITIALIZER};
    enum rs_status status =
        rs_discover(options->paths, options->path_count, &options->discover, &inputs, err);
    if (status != RS_OK)
        return status;
    status = read_into(&pool, deliver, err);
    for (size_t i = 0; pool.slots && i < inputs.count; i++)
        if (pool.slots[i].has_summary)
            rs_summary_fini(&pool.slots[i].summary);
    rs_mem_free(pool.slots);
    rs_inputs_fini(&inputs);
    return status;
}
