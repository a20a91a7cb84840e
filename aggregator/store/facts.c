/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the coordinator knows of a capture, beside its chunks: DIR/facts.seg, a record log like the segments.
 *
 *     each time it is closed:  FACTS (seq n, how many ranks) -> RANKS (seq n, at most 1,024) ..., then capture.db
 *     reading:                 the newest FACTS whose ranks are all there
 *
 * Not synced, as the databases are not: after a power cut the capture may be open again, and is closed again.
 *
 * Chunks do not say when a capture was asked for, by which words, and why a rank did not come. The databases are made from
 * both, so either can be lost or damaged and is made again with the same content (rebuild.c). Captures of earlier programs
 * have no such file: theirs is written from capture.db the first time they are rebuilt.
 */
#include "aggregator/store/store_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FACTS_VERSION = 1, RANKS_AT_ONCE = 1024, TEXT_MAX_BYTES = 4096 };

static const char file_name[] = FACTS_FILE;

/* ---- writing ---------------------------------------------------------------------------------------------- */

static void put_text(struct rs_buf *buf, const char *text)
{
    const size_t length = strnlen(text, TEXT_MAX_BYTES);
    rs_buf_varint(buf, length);
    rs_buf_bytes(buf, text, length);
}

void facts_encode(const struct rs_capture_facts *facts, size_t rank_count, struct rs_buf *buf)
{
    rs_buf_reset(buf);
    rs_buf_u8(buf, FACTS_VERSION);
    put_text(buf, facts->id);
    put_text(buf, facts->run);
    put_text(buf, facts->key);
    put_text(buf, facts->source);
    put_text(buf, facts->state);
    put_text(buf, facts->reason);
    rs_buf_u8(buf, facts->is_closed);
    rs_buf_zigzag(buf, facts->created_ns);
    rs_buf_zigzag(buf, facts->closed_ns);
    rs_buf_zigzag(buf, facts->start_step);
    rs_buf_u32(buf, facts->steps);
    rs_buf_u32(buf, facts->world);
    rs_buf_zigzag(buf, facts->settle_ns);
    rs_buf_varint(buf, rank_count);
}

void facts_encode_ranks(const struct rs_capture_rank *ranks, size_t count, struct rs_buf *buf)
{
    rs_buf_reset(buf);
    rs_buf_varint(buf, count);
    for (size_t i = 0; i < count; i++) {
        rs_buf_u32(buf, ranks[i].rank);
        put_text(buf, ranks[i].incarnation);
        put_text(buf, ranks[i].host);
        rs_buf_u32(buf, ranks[i].state);
        rs_buf_zigzag(buf, ranks[i].steps_done);
        put_text(buf, ranks[i].text);
    }
}

static enum rs_status append(struct rs_reclog *log, uint16_t kind, uint64_t seq,
                             const struct rs_buf *buf, struct rs_err *err)
{
    if (buf->failed)
        return rs_err_set(err, RS_NOMEM, "no memory for the facts of a capture");
    const struct rs_reclog_record record = {.kind = kind, .seq = seq};
    const struct iovec part = {.iov_base = buf->data, .iov_len = buf->length};
    return rs_reclog_append(log, &record, &part, 1, NULL, err);
}

/* One more than the newest that is there. */
static uint64_t next_seq(const char *path)
{
    struct rs_reclog_reader reader;
    struct rs_reclog_record record;
    struct rs_view payload;
    uint64_t newest = 0;
    if (rs_reclog_reader_open(&reader, path, NULL) != RS_OK)
        return 1;
    enum rs_status status;
    while ((status = rs_reclog_next(&reader, RS_RECLOG_CHECK_HEADER, &record, &payload, NULL,
                                    NULL)) == RS_OK ||
           (status == RS_FORMAT && rs_reclog_resync(&reader) == RS_OK))
        if (status == RS_OK && record.seq > newest)
            newest = record.seq;
    rs_reclog_reader_close(&reader);
    return newest + 1;
}

static enum rs_status open_log(const char *path, struct rs_reclog *log, struct rs_err *err)
{
    enum rs_status status = access(path, F_OK) == 0 ? rs_reclog_open(log, path, NULL, err)
                                                    : rs_reclog_create(log, path, err);
    if (status != RS_FORMAT && status != RS_VERSION)
        return status;
    if (unlink(path) < 0) /* no record log at all: nothing of it can be read */
        return rs_err_errno(err, "cannot replace %s", path);
    return rs_reclog_create(log, path, err);
}

enum rs_status facts_append(const char *dir, const struct rs_capture_facts *facts,
                            const struct rs_capture_rank *ranks, size_t rank_count,
                            struct rs_err *err)
{
    struct rs_reclog log = {.fd = -1};
    struct rs_buf buf = {0};
    char *path = rs_file_join(dir, file_name);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for the facts of a capture");
    const uint64_t seq = next_seq(path);
    enum rs_status status = open_log(path, &log, err);
    if (status == RS_OK) {
        facts_encode(facts, rank_count, &buf);
        status = append(&log, RECORD_FACTS, seq, &buf, err);
    }
    for (size_t i = 0; i < rank_count && status == RS_OK; i += RANKS_AT_ONCE) {
        const size_t left = rank_count - i;
        facts_encode_ranks(ranks + i, left < RANKS_AT_ONCE ? left : RANKS_AT_ONCE, &buf);
        status = append(&log, RECORD_RANKS, seq, &buf, err);
    }
    rs_reclog_close(&log);
    rs_buf_fini(&buf);
    rs_mem_free(path);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------------------------- */

static void take_text(struct rs_view *view, char *to, size_t bytes)
{
    const uint64_t length = rs_view_varint(view);
    if (length >= bytes) {
        view->failed = true;
        return;
    }
    const struct rs_view text = rs_view_take(view, (size_t)length);
    if (view->failed || text.failed)
        return;
    memcpy(to, text.data, (size_t)length);
    to[length] = '\0';
}

/* What was read up to now of one closing. */
struct reading {
    uint64_t seq; /* 0: nothing */
    struct rs_capture_facts facts;
    uint64_t wanted; /* ranks */
    struct rs_capture_rank *ranks;
    size_t count, capacity;
};

static enum rs_status take_facts(struct rs_view view, uint64_t seq, struct reading *reading)
{
    struct rs_capture_facts *facts = &reading->facts;
    *facts = (struct rs_capture_facts){0};
    reading->seq = 0;
    reading->count = 0;
    if (rs_view_u8(&view) != FACTS_VERSION)
        return RS_FORMAT;
    take_text(&view, facts->id, sizeof facts->id);
    take_text(&view, facts->run, sizeof facts->run);
    take_text(&view, facts->key, sizeof facts->key);
    take_text(&view, facts->source, sizeof facts->source);
    take_text(&view, facts->state, sizeof facts->state);
    take_text(&view, facts->reason, sizeof facts->reason);
    facts->is_closed = rs_view_u8(&view) != 0;
    facts->created_ns = rs_view_zigzag(&view);
    facts->closed_ns = rs_view_zigzag(&view);
    facts->start_step = rs_view_zigzag(&view);
    facts->steps = rs_view_u32(&view);
    facts->world = rs_view_u32(&view);
    facts->settle_ns = rs_view_zigzag(&view);
    reading->wanted = rs_view_varint(&view);
    if (view.failed || view.length)
        return RS_FORMAT;
    reading->seq = seq;
    return RS_OK;
}

static enum rs_status take_ranks(struct rs_view view, uint64_t seq, struct reading *reading)
{
    const uint64_t count = rs_view_varint(&view);
    if (seq != reading->seq || !seq || count > RANKS_AT_ONCE)
        return RS_FORMAT;
    for (uint64_t i = 0; i < count && !view.failed; i++) {
        if (rs_mem_grow((void **)&reading->ranks, &reading->capacity, reading->count + 1,
                        sizeof *reading->ranks) != RS_OK)
            return RS_NOMEM;
        struct rs_capture_rank *rank = &reading->ranks[reading->count++];
        *rank = (struct rs_capture_rank){.rank = rs_view_u32(&view)};
        take_text(&view, rank->incarnation, sizeof rank->incarnation);
        take_text(&view, rank->host, sizeof rank->host);
        rank->state = rs_view_u32(&view);
        rank->steps_done = rs_view_zigzag(&view);
        take_text(&view, rank->text, sizeof rank->text);
    }
    if (!view.failed && !view.length)
        return RS_OK;
    reading->seq = 0;
    return RS_FORMAT;
}

/* Damage costs the closing that it is in, no other. */
static enum rs_status take_record(const struct rs_reclog_record *record, struct rs_view payload,
                                  struct reading *now, struct reading *best)
{
    enum rs_status status = RS_OK;
    if (record->kind == RECORD_FACTS)
        status = take_facts(payload, record->seq, now);
    else if (record->kind == RECORD_RANKS)
        status = take_ranks(payload, record->seq, now);
    if (status == RS_OK && now->seq && now->count == now->wanted) {
        const struct reading swap = *best;
        *best = *now;
        *now = (struct reading){.ranks = swap.ranks, .capacity = swap.capacity};
    }
    return status == RS_NOMEM ? RS_NOMEM : RS_OK;
}

static enum rs_status read_log(struct rs_reclog_reader *reader, struct reading *best)
{
    struct reading now = {0};
    enum rs_status status = RS_OK;
    while (status == RS_OK) {
        struct rs_reclog_record record;
        struct rs_view payload;
        status = rs_reclog_next(reader, RS_RECLOG_CHECK_ALL, &record, &payload, NULL, NULL);
        if (status == RS_OK) {
            status = take_record(&record, payload, &now, best);
        } else if (status == RS_FORMAT) {
            now.seq = 0;
            status = rs_reclog_resync(reader);
        }
    }
    rs_mem_free(now.ranks);
    return status == RS_NOMEM ? RS_NOMEM : RS_OK;
}

enum rs_status facts_read(const char *dir, struct rs_capture_facts *facts_p,
                          struct rs_capture_rank **ranks_p, size_t *rank_count_p,
                          struct rs_err *err)
{
    struct rs_reclog_reader reader;
    struct reading *best = rs_mem_calloc(1, sizeof *best);
    char *path = rs_file_join(dir, file_name);
    enum rs_status status = RS_OK;
    if (!path || !best)
        status = rs_err_set(err, RS_NOMEM, "no memory for the facts of a capture");
    else if (access(path, F_OK) < 0)
        status = rs_err_set(err, RS_NOTFOUND, "%s has no %s", dir, file_name);
    if (status == RS_OK)
        status = rs_reclog_reader_open(&reader, path, err);
    if (status == RS_OK) {
        status = read_log(&reader, best);
        rs_reclog_reader_close(&reader);
        if (status < 0)
            status = rs_err_set(err, status, "no memory for the facts of a capture");
        else if (!best->seq)
            status = rs_err_set(err, RS_FORMAT, "%s holds no facts that can be read", path);
    }
    if (status == RS_OK) {
        *facts_p = best->facts;
        *ranks_p = best->ranks;
        *rank_count_p = best->count;
    } else if (best) {
        rs_mem_free(best->ranks);
    }
    rs_mem_free(best);
    rs_mem_free(path);
    return status;
}
