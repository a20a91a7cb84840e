/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/ingest/ingest.h"

#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/chunk/chunk.h"

#define RS_LOG_TAG "ingest"
#include "common/base/log.h"

#include <pthread.h>
#include <string.h>

/* Jobs whose chunks are written and not yet synced, in order. */
struct group {
    struct rs_ingest_job *first, **last_p;
    size_t count; /* chunks among them */
    struct rs_ingest_stats stats;
};

enum flush_state { FLUSH_IDLE, FLUSH_ASKED, FLUSH_DONE };

struct rs_ingest {
    struct rs_ingest_options options;
    pthread_t thread, sync_thread;
    pthread_mutex_t lock;     /* guards the queue, is_stopping, is_broken, stats, flush_state */
    pthread_cond_t has_work;  /* the worker's: a job, or a flush that is done */
    pthread_cond_t has_flush; /* the sync thread's */
    struct rs_ingest_job *first, **last_p;
    uint64_t queued_bytes;
    bool is_stopping, is_broken, is_over;
    struct rs_ingest_stats stats;
    enum flush_state flush_state;

    /* the worker's own, but for flush_run() while flush_state is ASKED */
    struct rs_store_flush flush;
    struct group flushing; /* the group that is being synced */
    rs_ns small_at;        /* not before is a small group synced, monotonic; the worker's own */
};

static void group_init(struct group *group)
{
    *group = (struct group){0};
    group->last_p = &group->first;
}

static void add_job(struct group *group, struct rs_ingest_job *job)
{
    job->next = NULL;
    *group->last_p = job;
    group->last_p = &job->next;
}

/* Everything in the group is durable, or nothing will be: everybody is reported. */
static void report_group(struct rs_ingest *ingest, struct group *group, enum rs_status status,
                         const struct rs_err *err)
{
    if (status < 0)
        rs_log_error("%s", err->text);
    for (struct rs_ingest_job *job = group->first; job; job = job->next) {
        if (status < 0 && job->status == RS_OK) {
            job->status = status;
            job->err = *err;
        }
        if (job->stream) {
            job->durable_seq = job->stream->durable_seq;
            job->is_ended = job->stream->is_ended;
            job->is_partial = job->stream->is_partial;
            job->is_empty = !job->stream->may_have_events && !job->stream->has_losses;
        }
    }
    (void)pthread_mutex_lock(&ingest->lock);
    ingest->stats.chunks += group->stats.chunks;
    ingest->stats.bytes += group->stats.bytes;
    ingest->stats.repeated += group->stats.repeated;
    ingest->stats.gaps += group->stats.gaps;
    ingest->stats.refused += group->stats.refused;
    ingest->stats.syncs += group->count ? 1 : 0;
    ingest->is_broken = ingest->is_broken || status < 0;
    (void)pthread_mutex_unlock(&ingest->lock);
    struct rs_ingest_job *jobs = group->first;
    group_init(group);
    if (jobs)
        ingest->options.done(ingest->options.self, jobs);
}

/* The flush under way is over: its group is reported. `may_wait` false: only if it is over already. */
static void end_flush(struct rs_ingest *ingest, bool may_wait)
{
    (void)pthread_mutex_lock(&ingest->lock);
    while (may_wait && ingest->flush_state == FLUSH_ASKED)
        (void)pthread_cond_wait(&ingest->has_work, &ingest->lock);
    const bool is_done = ingest->flush_state == FLUSH_DONE;
    if (is_done)
        ingest->flush_state = FLUSH_IDLE;
    (void)pthread_mutex_unlock(&ingest->lock);
    if (!is_done)
        return;
    rs_store_flush_end(ingest->options.store, &ingest->flush);
    report_group(ingest, &ingest->flushing, ingest->flush.status, &ingest->flush.err);
}

/* Hands the group to the sync thread, and goes on; waits for the group before it. */
static void begin_flush(struct rs_ingest *ingest, struct group *group)
{
    struct rs_err err = {0};
    end_flush(ingest, true);
    if (!group->first)
        return;
    if (!group->count) {
        report_group(ingest, group, RS_OK, &err);
        return;
    }
    if (rs_store_flush_begin(ingest->options.store, &ingest->flush, &err) < 0) {
        const enum rs_status status = rs_store_sync(ingest->options.store, &err);
        report_group(ingest, group, status, &err);
        return;
    }
    ingest->small_at = rs_time_monotonic() + RS_INGEST_PAUSE_MS * (rs_dur)RS_NS_PER_MS;
    ingest->flushing = *group; /* nothing is added to it any more: its last_p is of no use */
    group_init(group);
    (void)pthread_mutex_lock(&ingest->lock);
    ingest->flush_state = FLUSH_ASKED;
    (void)pthread_cond_signal(&ingest->has_flush);
    (void)pthread_mutex_unlock(&ingest->lock);
}

/* Everything written so far becomes durable before this returns. */
static void finish_group(struct rs_ingest *ingest, struct group *group)
{
    begin_flush(ingest, group);
    end_flush(ingest, true);
}

static void *sync_work(void *self)
{
    rs_thread_is(RS_THREAD_SYNC);
    struct rs_ingest *ingest = self;
    (void)pthread_mutex_lock(&ingest->lock);
    for (;;) {
        while (ingest->flush_state != FLUSH_ASKED && !ingest->is_over)
            (void)pthread_cond_wait(&ingest->has_flush, &ingest->lock);
        if (ingest->flush_state != FLUSH_ASKED)
            break;
        (void)pthread_mutex_unlock(&ingest->lock);
        rs_store_flush_run(&ingest->flush);
        (void)pthread_mutex_lock(&ingest->lock);
        ingest->flush_state = FLUSH_DONE;
        (void)pthread_cond_signal(&ingest->has_work);
    }
    (void)pthread_mutex_unlock(&ingest->lock);
    return NULL;
}

static void open_stream(struct rs_ingest *ingest, struct rs_ingest_job *job)
{
    struct rs_store_key key = {
        .run = job->run, .incarnation = job->incarnation, .rank = job->rank, .lane = job->lane};
    struct rs_store_stream *newest = NULL;
    job->status = rs_store_stream(ingest->options.store, &key, &newest, &job->err);
    job->stream = newest;
    key.capture = job->open_capture;
    if (job->status == RS_OK && key.capture)
        job->status = rs_store_stream(ingest->options.store, &key, &job->stream, &job->err);
    if (job->status < 0)
        return;
    /* Numbers run on over the captures of an incarnation. A collector of the previous minor version does not say where those
     * of this capture begin: behind all that came. */
    rs_store_stream_from(job->stream, job->first_seq ? job->first_seq - 1 : newest->appended_seq);
    if (key.capture && job->lane == RS_STREAM_RAW) {
        struct rs_store_stream *summary = NULL;
        key.lane = RS_STREAM_SUMMARY;
        if (rs_store_stream(ingest->options.store, &key, &summary, NULL) == RS_OK)
            job->is_summarised = summary->is_ended;
    } else if (key.capture) {
        struct rs_store_stream *raw = NULL;
        key.lane = RS_STREAM_RAW;
        if (rs_store_stream(ingest->options.store, &key, &raw, NULL) == RS_OK) {
            job->is_raw_ended = raw->is_ended;
            job->is_raw_partial = raw->is_partial;
        }
    }
    job->durable_seq = job->stream->durable_seq;
    job->is_ended = job->stream->is_ended;
    memcpy(job->capture_found, job->stream->capture, sizeof job->capture_found);
}

static size_t copy_head(const struct rs_ingest_job *job, uint8_t *head, size_t bytes)
{
    size_t have = 0;
    for (size_t i = 0; i < job->part_count && have < bytes; i++) {
        size_t take = job->parts[i].iov_len;
        if (take > bytes - have)
            take = bytes - have;
        memcpy(head + have, job->parts[i].iov_base, take);
        have += take;
    }
    return have;
}

/* CRC-32C of everything behind the chunk's header. */
static uint32_t body_crc(const struct rs_ingest_job *job)
{
    size_t skip = RS_CHUNK_HEADER_BYTES;
    uint32_t crc = 0;
    for (size_t i = 0; i < job->part_count; i++) {
        const uint8_t *bytes = job->parts[i].iov_base;
        const size_t length = job->parts[i].iov_len;
        const size_t step = skip < length ? skip : length;
        crc = rs_crc32c(crc, bytes + step, length - step);
        skip -= step;
    }
    return crc;
}

/* Nothing is decoded, but what is acknowledged is what was sealed. The record's checksum is joined from the two of the chunk, so
 * that its bytes are read once, and what changes in memory behind this is found when it is read. */
static enum rs_status check_chunk(const struct rs_ingest_job *job, struct rs_loss *loss,
                                  struct rs_store_chunk *chunk, bool *has_events_p,
                                  struct rs_err *err)
{
    if (job->flags & ~(unsigned)RS_ENVELOPE_KNOWN)
        return rs_err_set(err, RS_FORMAT, "a chunk came with unknown flags %x", job->flags);
    uint8_t head[RS_CHUNK_HEADER_BYTES];
    const size_t have = copy_head(job, head, sizeof head);
    if (job->flags & RS_ENVELOPE_LOSS)
        return rs_loss_decode(head, job->bytes < have ? job->bytes : have, loss, err);
    struct rs_chunk_header header;
    const enum rs_status status = rs_chunk_peek(rs_view_of(head, have), &header, err);
    if (status == RS_OK && header.chunk_bytes != job->bytes)
        return rs_err_set(err, RS_FORMAT, "a chunk of %u bytes came in %zu", header.chunk_bytes,
                          job->bytes);
    if (status == RS_OK && header.body_crc != body_crc(job))
        return rs_err_set(err, RS_FORMAT, "the checksum of a chunk is wrong");
    *has_events_p = status == RS_OK && header.kind == RS_CHUNK_EVENTS;
    if (status == RS_OK) {
        chunk->has_crc = true;
        chunk->crc = rs_crc32c_join(rs_crc32c(0, head, sizeof head), header.body_crc,
                                    job->bytes - sizeof head);
    }
    return status;
}

/* Chunks of an earlier capture of the incarnation may have come since this stream was opened. */
static void follow_newest(struct rs_ingest *ingest, struct rs_store_stream *stream)
{
    const struct rs_store_key key = {.run = stream->run,
                                     .incarnation = stream->incarnation,
                                     .rank = stream->rank,
                                     .lane = stream->lane};
    struct rs_store_stream *newest = NULL;
    if (rs_store_stream(ingest->options.store, &key, &newest, NULL) == RS_OK)
        rs_store_stream_from(stream, newest->appended_seq);
}

/* Refusals say what is wanted instead: this stream goes on from there, the others never stopped. */
static void store_chunk(struct rs_ingest *ingest, struct group *group, struct rs_ingest_job *job)
{
    struct rs_store_stream *stream = job->stream;
    struct rs_loss loss = {0};
    struct rs_store_chunk chunk = {
        .seq = job->seq, .flags = job->flags, .parts = job->parts, .part_count = job->part_count};
    job->wanted_seq = stream->appended_seq + 1;
    if (job->seq <= stream->appended_seq) {
        job->is_repeated = true;
        group->stats.repeated++;
        return;
    }
    if (stream->is_ended && strcmp(stream->capture, job->capture) == 0) {
        group->stats.refused++;
        job->status = rs_err_set(&job->err, RS_REFUSED,
                                 "the last chunk of rank %u for capture %s is here: nothing is "
                                 "appended to it",
                                 stream->rank, stream->capture);
        return;
    }
    bool has_events = false;
    job->status = check_chunk(job, &loss, &chunk, &has_events, &job->err);
    if (job->status < 0) {
        group->stats.refused++;
        return;
    }
    const rs_seq first = loss.first_seq && loss.first_seq < job->seq ? loss.first_seq : job->seq;
    if (job->is_wide && first > stream->appended_seq + 1)
        follow_newest(ingest, stream);
    if (first > stream->appended_seq + 1) {
        group->stats.gaps++;
        job->status = rs_err_set(
            &job->err, RS_INVALID, "rank %u sent chunk %llu after %llu: there is a gap",
            stream->rank, (unsigned long long)first, (unsigned long long)stream->appended_seq);
        return;
    }
    job->status = rs_store_append(ingest->options.store, stream, job->capture, &job->source, &chunk,
                                  &job->err);
    if (job->status < 0)
        return;
    job->lost_chunks = loss.chunks;
    stream->may_have_events = stream->may_have_events || has_events;
    group->count++;
    group->stats.chunks++;
    group->stats.bytes += job->bytes;
}

static void do_job(struct rs_ingest *ingest, struct group *group, struct rs_ingest_job *job)
{
    job->status = RS_OK;
    switch (job->kind) {
    case RS_INGEST_OPEN:
        finish_group(ingest, group); /* its answer must not run ahead of what is durable */
        open_stream(ingest, job);
        break;
    case RS_INGEST_CHUNK:
        store_chunk(ingest, group, job);
        if (ingest->options.spent)
            ingest->options.spent(ingest->options.self, job);
        break;
    case RS_INGEST_CLOSE:
        finish_group(ingest, group);
        job->status = rs_store_close_capture(ingest->options.store, job->facts, &job->err);
        break;
    }
    add_job(group, job);
}

/* Waits for has_work; false: not any longer. Holds lock. */
static bool wait_for_work(struct rs_ingest *ingest, const struct group *group)
{
    if (ingest->is_stopping || ingest->flush_state == FLUSH_DONE)
        return false;
    if (!group->first || ingest->flush_state == FLUSH_ASKED) {
        (void)pthread_cond_wait(&ingest->has_work, &ingest->lock);
        return true;
    }
    const struct timespec until = {.tv_sec = ingest->small_at / RS_NS_PER_S,
                                   .tv_nsec = ingest->small_at % RS_NS_PER_S};
    return group->count && rs_time_monotonic() < ingest->small_at &&
           pthread_cond_timedwait(&ingest->has_work, &ingest->lock, &until) == 0;
}

/* The next job. Waits for one, for the flush under way, or for company of a small group. NULL: none came, or stopping. */
static struct rs_ingest_job *take_job(struct rs_ingest *ingest, const struct group *group,
                                      bool *is_over_p)
{
    (void)pthread_mutex_lock(&ingest->lock);
    while (!ingest->first && wait_for_work(ingest, group))
        continue;
    struct rs_ingest_job *job = ingest->first;
    if (job) {
        ingest->first = job->next;
        if (!ingest->first)
            ingest->last_p = &ingest->first;
        ingest->queued_bytes -= job->bytes;
    }
    *is_over_p = !job && ingest->is_stopping;
    (void)pthread_mutex_unlock(&ingest->lock);
    return job;
}

/* Whether the group is to be flushed now. `is_last`: nothing follows it for the time being. */
static bool is_due(struct rs_ingest *ingest, const struct group *group, bool is_last)
{
    (void)pthread_mutex_lock(&ingest->lock);
    const bool is_flushing = ingest->flush_state == FLUSH_ASKED;
    (void)pthread_mutex_unlock(&ingest->lock);
    if (is_flushing)
        return group->count >= RS_INGEST_GROUP_MAX ||
               group->stats.bytes >= RS_INGEST_GROUP_MAX_BYTES;
    if (group->count >= RS_INGEST_GROUP)
        return true;
    return is_last && (!group->count || rs_time_monotonic() >= ingest->small_at);
}

static void *work(void *self)
{
    rs_thread_is(RS_THREAD_INGEST);
    struct rs_ingest *ingest = self;
    struct group group;
    bool is_over = false;
    group_init(&group);
    while (!is_over || group.first) {
        struct rs_ingest_job *job = take_job(ingest, &group, &is_over);
        if (job)
            do_job(ingest, &group, job);
        end_flush(ingest, false);
        if (is_over || is_due(ingest, &group, !job))
            begin_flush(ingest, &group);
    }
    end_flush(ingest, true);
    return NULL;
}

static void free_ingest(struct rs_ingest *ingest)
{
    rs_store_flush_fini(&ingest->flush);
    (void)pthread_cond_destroy(&ingest->has_flush);
    (void)pthread_cond_destroy(&ingest->has_work);
    (void)pthread_mutex_destroy(&ingest->lock);
    rs_mem_free(ingest);
}

static void end_sync_thread(struct rs_ingest *ingest)
{
    (void)pthread_mutex_lock(&ingest->lock);
    ingest->is_over = true;
    (void)pthread_cond_signal(&ingest->has_flush);
    (void)pthread_mutex_unlock(&ingest->lock);
    (void)pthread_join(ingest->sync_thread, NULL);
}

enum rs_status rs_ingest_start(const struct rs_ingest_options *options, struct rs_ingest **ingest_p,
                               struct rs_err *err)
{
    struct rs_ingest *ingest = rs_mem_calloc(1, sizeof *ingest);
    if (!ingest)
        return rs_err_set(err, RS_NOMEM, "no memory for ingest");
    ingest->options = *options;
    if (!ingest->options.queue_bytes)
        ingest->options.queue_bytes = (uint64_t)64 << 20;
    ingest->last_p = &ingest->first;
    group_init(&ingest->flushing);
    (void)pthread_mutex_init(&ingest->lock, NULL);
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&ingest->has_work, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)pthread_cond_init(&ingest->has_flush, NULL);
    if (pthread_create(&ingest->sync_thread, NULL, sync_work, ingest) != 0) {
        free_ingest(ingest);
        return rs_err_set(err, RS_IO, "cannot start the sync thread");
    }
    if (pthread_create(&ingest->thread, NULL, work, ingest) != 0) {
        end_sync_thread(ingest);
        free_ingest(ingest);
        return rs_err_set(err, RS_IO, "cannot start the ingest thread");
    }
    (void)pthread_setname_np(ingest->thread, "rs-ingest-0");
    (void)pthread_setname_np(ingest->sync_thread, "rs-sync-0");
    *ingest_p = ingest;
    return RS_OK;
}

void rs_ingest_stop(struct rs_ingest **ingest_p)
{
    struct rs_ingest *ingest = *ingest_p;
    if (!ingest)
        return;
    *ingest_p = NULL;
    (void)pthread_mutex_lock(&ingest->lock);
    ingest->is_stopping = true;
    (void)pthread_cond_signal(&ingest->has_work);
    (void)pthread_mutex_unlock(&ingest->lock);
    (void)pthread_join(ingest->thread, NULL);
    end_sync_thread(ingest);
    free_ingest(ingest);
}

void rs_ingest_put(struct rs_ingest *ingest, struct rs_ingest_job *job)
{
    job->next = NULL;
    (void)pthread_mutex_lock(&ingest->lock);
    *ingest->last_p = job;
    ingest->last_p = &job->next;
    ingest->queued_bytes += job->bytes;
    (void)pthread_cond_signal(&ingest->has_work);
    (void)pthread_mutex_unlock(&ingest->lock);
}

bool rs_ingest_is_full(struct rs_ingest *ingest)
{
    (void)pthread_mutex_lock(&ingest->lock);
    const bool is_full = ingest->queued_bytes >= ingest->options.queue_bytes;
    (void)pthread_mutex_unlock(&ingest->lock);
    return is_full;
}

bool rs_ingest_is_broken(struct rs_ingest *ingest)
{
    (void)pthread_mutex_lock(&ingest->lock);
    const bool is_broken = ingest->is_broken;
    (void)pthread_mutex_unlock(&ingest->lock);
    return is_broken;
}

struct rs_ingest_stats rs_ingest_stats(struct rs_ingest *ingest)
{
    (void)pthread_mutex_lock(&ingest->lock);
    const struct rs_ingest_stats stats = ingest->stats;
    (void)pthread_mutex_unlock(&ingest->lock);
    return stats;
}
