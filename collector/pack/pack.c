/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/pack/pack.h"

#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "common/reduce/reduce.h"

#define RS_LOG_TAG "pack"
#include "common/base/log.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

/* A part that was put. */
struct sent_part {
    struct rs_part_head head;
    uint64_t digest; /* of its summary's bytes */
    bool was_lost;   /* it found no room */
};

struct rs_pack {
    struct rs_pack_options options;
    uint32_t entry, summary_entry;     /* of the spool; the second 0 until the first part is put */
    rs_seq next_seq, next_summary_seq; /* repeatable streams: of the next chunk; else 0 */
    struct rs_chunk_writer *writer;
    struct rs_reduce *reduce;
    struct sent_part *parts;
    size_t part_count, part_capacity;
    rs_ns next_part_at;               /* monotonic */
    bool is_last_part, was_part_lost; /* of the summary that is being put */
    bool is_partial;
    bool has_lost_dictionary; /* events that follow could not be read: they are lost, too */
    struct rs_pack_totals totals;
};

enum { WAIT_NS = 200 * 1000 * 1000 };

/* Between two parts, and how many times what the last one cost (CPU time: how busy the node is does not make parts rarer). */
static const rs_dur part_every_ns = 200 * (rs_dur)RS_NS_PER_MS;
enum { PART_REST = 20 };

static bool can_wait(const struct rs_pack *pack)
{
    return (pack->options.flags & (RS_PACK_REPEATABLE | RS_PACK_WAITS)) != 0;
}

static enum rs_status put_waiting(struct rs_pack *pack, uint32_t entry, rs_seq seq, unsigned flags,
                                  struct rs_view chunk, struct rs_err *err)
{
    for (;;) {
        const enum rs_status status =
            rs_spool_put(pack->options.spool, entry, seq, flags, chunk, err);
        if (status != RS_LIMIT)
            return status;
        if (pack->options.must_stop && atomic_load(pack->options.must_stop))
            return rs_err_set(err, RS_CANCELLED, "stopped while the spool was full");
        /* Not for long at a time: a stop must be seen. */
        if (rs_spool_wait(pack->options.spool, entry, chunk.length, rs_time_monotonic() + WAIT_NS) <
            0)
            continue;
    }
}

/* A full spool loses the chunk, not the stream. */
static enum rs_status put_or_lose(struct rs_pack *pack, unsigned flags, struct rs_view chunk,
                                  const struct rs_chunk_header *header, struct rs_err *err)
{
    const bool is_events = header->kind == RS_CHUNK_EVENTS;
    enum rs_status status = RS_LIMIT;
    if (!(is_events && pack->has_lost_dictionary))
        status = rs_spool_put(pack->options.spool, pack->entry, 0, flags, chunk, err);
    if (status != RS_LIMIT)
        return status;
    if (header->kind == RS_CHUNK_DICTIONARY)
        pack->has_lost_dictionary = true;
    rs_spool_lost(pack->options.spool, pack->entry, chunk.length, is_events ? header->count : 0);
    if (pack->totals.lost_chunks++ == 0)
        rs_log_error("rank %u: the spool is full, events are lost", pack->options.source.rank);
    return RS_OK;
}

static enum rs_status put(void *self, struct rs_view chunk, const struct rs_chunk_header *header,
                          struct rs_err *err)
{
    struct rs_pack *pack = self;
    unsigned flags = 0;
    if (header->kind == RS_CHUNK_INFO && (header->flags & RS_CHUNK_END))
        flags = RS_ENVELOPE_LAST |
                (pack->is_partial || pack->totals.lost_chunks ? RS_ENVELOPE_PARTIAL : 0u);
    const enum rs_status status =
        can_wait(pack) ? put_waiting(pack, pack->entry, pack->next_seq, flags, chunk, err)
                       : put_or_lose(pack, flags, chunk, header, err);
    if (status < 0)
        return status;
    if (pack->next_seq)
        pack->next_seq++;
    pack->totals.chunks++;
    pack->totals.bytes += chunk.length;
    return RS_OK;
}

/* The summary lane has room of its own: only a spool that is full of summaries refuses one. */
static enum rs_status put_part(void *self, struct rs_view chunk,
                               const struct rs_chunk_header *header, struct rs_err *err)
{
    struct rs_pack *pack = self;
    const bool is_last = pack->is_last_part && header->part_index + 1 == header->part_count;
    const unsigned flags =
        !is_last ? 0u
                 : RS_ENVELOPE_LAST |
                       (pack->is_partial || pack->totals.lost_chunks ? RS_ENVELOPE_PARTIAL : 0u);
    enum rs_status status;
    if (can_wait(pack)) {
        status = put_waiting(pack, pack->summary_entry, pack->next_summary_seq, flags, chunk, err);
    } else {
        status = rs_spool_put(pack->options.spool, pack->summary_entry, 0, flags, chunk, err);
        if (status == RS_LIMIT && !pack->is_last_part) {
            pack->was_part_lost = true; /* it is put again at the end */
            status = RS_OK;
        } else if (status == RS_LIMIT) {
            rs_spool_lost(pack->options.spool, pack->summary_entry, chunk.length, 0);
            rs_log_error("rank %u: the spool is full, its summary is lost",
                         pack->options.source.rank);
            status = RS_OK;
        }
    }
    if (status == RS_OK && pack->next_summary_seq)
        pack->next_summary_seq++;
    return status;
}

/* A stream that is given again has the numbers that it had. */
static enum rs_status declare_summary(struct rs_pack *pack, struct rs_err *err)
{
    struct rs_spool_source source = pack->options.source;
    struct rs_spool_entry entry;
    if (pack->summary_entry)
        return RS_OK;
    source.lane = RS_STREAM_SUMMARY;
    enum rs_status status =
        rs_spool_declare(pack->options.spool, &source, &pack->summary_entry, err);
    if (status != RS_OK || !(pack->options.flags & RS_PACK_REPEATABLE))
        return status;
    if (rs_spool_entry_of(pack->options.spool, pack->summary_entry, &entry) < 0)
        return rs_err_set(err, RS_NOTFOUND, "the place of a summary in the spool is gone");
    pack->next_summary_seq = entry.first_seq;
    return RS_OK;
}

enum rs_status rs_pack_new(const struct rs_pack_options *options, struct rs_pack **pack_p,
                           struct rs_err *err)
{
    struct rs_pack *pack = rs_mem_calloc(1, sizeof *pack);
    if (!pack)
        return rs_err_set(err, RS_NOMEM, "no memory to pack a stream");
    pack->options = *options;
    if (options->flags & RS_PACK_REPEATABLE)
        pack->next_seq = options->first_seq ? options->first_seq : 1;
    enum rs_status status = rs_spool_declare(options->spool, &options->source, &pack->entry, err);
    const struct rs_chunk_writer_options writer_options = {
        .strings = options->strings, .lanes = options->lanes, .put = put, .put_self = pack};
    if (status == RS_OK)
        status = rs_chunk_writer_new(&writer_options, &pack->writer, err);
    if (status == RS_OK && rs_reduce_new(options->strings, options->lanes, &pack->reduce) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory to reduce a stream");
    if (status < 0) {
        rs_pack_free(&pack);
        return status;
    }
    *pack_p = pack;
    return RS_OK;
}

void rs_pack_free(struct rs_pack **pack_p)
{
    struct rs_pack *pack = *pack_p;
    if (!pack)
        return;
    *pack_p = NULL;
    rs_chunk_writer_free(&pack->writer);
    rs_reduce_free(&pack->reduce);
    rs_mem_free(pack->parts);
    rs_mem_free(pack);
}

static enum rs_status take_batch(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct rs_pack *pack = self;
    if (pack->options.must_stop && atomic_load(pack->options.must_stop) && can_wait(pack))
        return rs_err_set(err, RS_CANCELLED, "stopped");
    const enum rs_status status = rs_reduce_add(pack->reduce, batch, err);
    if (status < 0)
        return status;
    pack->totals.rows += batch->count;
    return rs_chunk_writer_add(pack->writer, batch, err);
}

struct rs_sink rs_pack_sink(struct rs_pack *pack)
{
    return (struct rs_sink){.batch = take_batch, .self = pack};
}

enum rs_status rs_pack_flush(struct rs_pack *pack, struct rs_err *err)
{
    return rs_chunk_writer_flush(pack->writer, err);
}

/* A whole summary, or a part of one. */
static enum rs_status put_summary(struct rs_pack *pack, struct rs_view bytes, bool is_last,
                                  struct rs_err *err)
{
    struct rs_chunk_writer *writer = NULL;
    const struct rs_chunk_writer_options options = {.strings = pack->options.strings,
                                                    .lanes = pack->options.lanes,
                                                    .put = put_part,
                                                    .put_self = pack};
    pack->is_last_part = is_last;
    pack->was_part_lost = false;
    enum rs_status status = declare_summary(pack, err);
    if (status == RS_OK)
        status = rs_chunk_writer_new(&options, &writer, err);
    if (status == RS_OK)
        status = rs_chunk_writer_summary(writer, bytes, err);
    rs_chunk_writer_free(&writer);
    return status;
}

/* ---- parts --------------------------------------------------------------------------------------------- */

/* Bytes of a part; their digest is that of the summary in it: the head says when it was made as well. */
static enum rs_status encode_part(const struct rs_part_head *head, const struct rs_summary *part,
                                  struct rs_buf *bytes, uint64_t *digest_p, struct rs_err *err)
{
    struct rs_buf summary = {0};
    enum rs_status status = rs_summary_encode(part, &summary, err);
    if (status == RS_OK) {
        *digest_p = XXH3_64bits(summary.data, summary.length);
        rs_buf_reset(bytes);
        status = rs_part_encode(head, part, bytes, err);
    }
    rs_buf_fini(&summary);
    return status;
}

static enum rs_status put_new_part(struct rs_pack *pack, const struct rs_part_head *head,
                                   const struct rs_summary *part, struct rs_err *err)
{
    struct rs_buf bytes = {0};
    struct sent_part sent = {.head = *head};
    enum rs_status status = rs_mem_grow((void **)&pack->parts, &pack->part_capacity,
                                        pack->part_count + 1, sizeof *pack->parts) < 0
                                ? rs_err_set(err, RS_NOMEM, "no memory for parts of a summary")
                                : encode_part(head, part, &bytes, &sent.digest, err);
    if (status == RS_OK)
        status = put_summary(pack, rs_view_of(bytes.data, bytes.length), false, err);
    sent.was_lost = pack->was_part_lost;
    if (status == RS_OK)
        pack->parts[pack->part_count++] = sent;
    rs_buf_fini(&bytes);
    return status;
}

enum rs_status rs_pack_part(struct rs_pack *pack, const struct rs_trace_info *info,
                            struct rs_err *err)
{
    struct rs_part_head head;
    struct rs_summary part = {0};
    const rs_dur begin = rs_time_thread_cpu();
    if (rs_time_monotonic() < pack->next_part_at)
        return RS_OK;
    enum rs_status status = rs_reduce_take_part(pack->reduce, info, &head, &part, err);
    if (status == RS_END)
        return RS_OK;
    if (status == RS_OK)
        status = put_new_part(pack, &head, &part, err);
    rs_summary_fini(&part);
    const rs_dur rest = PART_REST * (rs_time_thread_cpu() - begin);
    pack->next_part_at = rs_time_monotonic() + (rest > part_every_ns ? rest : part_every_ns);
    return status;
}

/* The part as the whole recording has it; put again unless it is what was put. */
static enum rs_status check_part(struct rs_pack *pack, const struct sent_part *sent,
                                 const struct rs_summary *whole, struct rs_err *err)
{
    struct rs_part_head head = sent->head;
    struct rs_summary part = {0};
    struct rs_buf bytes = {0};
    uint64_t digest = 0;
    enum rs_status status = rs_summary_slice(whole, &head, -1, &part);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory for a part of a summary");
    head.generation++;
    status = encode_part(&head, &part, &bytes, &digest, err);
    if (status == RS_OK && (sent->was_lost || digest != sent->digest)) {
        status = put_summary(pack, rs_view_of(bytes.data, bytes.length), false, err);
        if (status == RS_OK && pack->was_part_lost) {
            rs_spool_lost(pack->options.spool, pack->summary_entry, bytes.length, 0);
            rs_log_error("rank %u: the spool is full, a part of its summary is lost",
                         pack->options.source.rank);
        }
    }
    rs_summary_fini(&part);
    rs_buf_fini(&bytes);
    return status;
}

/* What remains after the parts; uses the summary up. */
static enum rs_status put_rest(struct rs_pack *pack, struct rs_summary *whole, struct rs_err *err)
{
    struct rs_buf bytes = {0};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < pack->part_count && status == RS_OK; i++)
        status = check_part(pack, &pack->parts[i], whole, err);
    struct rs_part_head head = {.number = (uint32_t)pack->part_count,
                                .is_last = true,
                                .from_ns = pack->parts[pack->part_count - 1].head.until_ns,
                                .until_ns = RS_NS_MAX,
                                .rows = pack->totals.rows};
    rs_summary_keep_rest(whole, &head);
    if (status == RS_OK)
        status = rs_part_encode(&head, whole, &bytes, err);
    if (status == RS_OK)
        status = put_summary(pack, rs_view_of(bytes.data, bytes.length), true, err);
    rs_buf_fini(&bytes);
    return status;
}

static enum rs_status put_whole(struct rs_pack *pack, const struct rs_summary *whole,
                                struct rs_err *err)
{
    struct rs_buf bytes = {0};
    enum rs_status status = rs_summary_encode(whole, &bytes, err);
    if (status == RS_OK)
        status = put_summary(pack, rs_view_of(bytes.data, bytes.length), true, err);
    rs_buf_fini(&bytes);
    return status;
}

enum rs_status rs_pack_finish(struct rs_pack *pack, const struct rs_trace_info *info,
                              bool is_partial, struct rs_err *err)
{
    struct rs_summary summary = {0};
    pack->is_partial = is_partial;
    enum rs_status status = rs_reduce_finish(pack->reduce, info, &summary, err);
    if (status == RS_OK)
        status = pack->part_count ? put_rest(pack, &summary, err) : put_whole(pack, &summary, err);
    if (status == RS_OK)
        status = rs_chunk_writer_flush(pack->writer, err);
    if (status == RS_OK)
        status = rs_chunk_writer_info(pack->writer, info, true, err);
    rs_summary_fini(&summary);
    return status;
}

struct rs_pack_totals rs_pack_totals(const struct rs_pack *pack)
{
    return pack->totals;
}

/* ---- cutting off --------------------------------------------------------------------------------------- */

struct cutting {
    struct rs_spool *spool;
    uint32_t entry;
};

static enum rs_status put_cut(void *self, struct rs_view chunk,
                              const struct rs_chunk_header *header, struct rs_err *err)
{
    const struct cutting *cutting = self;
    if (header->kind != RS_CHUNK_INFO)
        return RS_OK; /* its dictionary would not fit the stream's */
    return rs_spool_put(cutting->spool, cutting->entry, 0, RS_ENVELOPE_LAST | RS_ENVELOPE_PARTIAL,
                        chunk, err);
}

enum rs_status rs_pack_cut_off(struct rs_spool *spool, uint32_t entry, const char *reason,
                               struct rs_err *err)
{
    struct rs_strtab strings = {0};
    struct rs_lanes lanes = {0};
    struct cutting cutting = {.spool = spool, .entry = entry};
    struct rs_trace_info info;
    struct rs_chunk_writer *writer = NULL;
    rs_trace_info_init(&info);
    info.is_partial = true;
    rs_log_warn("a stream is cut off: %s", reason);
    enum rs_status status = rs_strtab_init(&strings, 0);
    const struct rs_chunk_writer_options options = {
        .strings = &strings, .lanes = &lanes, .put = put_cut, .put_self = &cutting};
    if (status == RS_OK)
        status = rs_chunk_writer_new(&options, &writer, err);
    if (status == RS_OK)
        status = rs_chunk_writer_info(writer, &info, true, err);
    rs_chunk_writer_free(&writer);
    rs_trace_info_fini(&info);
    rs_lanes_fini(&lanes);
    rs_strtab_fini(&strings);
    return status;
}
