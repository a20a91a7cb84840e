/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/pack/pack.h"

#include "common/base/mem.h"
#include "common/chunk/chunk.h"
#include "common/reduce/reduce.h"

#define RS_LOG_TAG "pack"
#include "common/base/log.h"

#include <string.h>

struct rs_pack {
    struct rs_pack_options options;
    uint32_t entry;
    rs_seq next_seq; /* repeatable streams: of the next chunk; else 0 */
    struct rs_chunk_writer *writer;
    struct rs_reduce *reduce;
    bool is_partial, is_finishing;
    bool has_lost_dictionary; /* events that follow could not be read: they are lost, too */
    struct rs_pack_totals totals;
};

enum { WAIT_NS = 200 * 1000 * 1000 };

static bool can_wait(const struct rs_pack *pack)
{
    return (pack->options.flags & (RS_PACK_REPEATABLE | RS_PACK_WAITS)) != 0;
}

static enum rs_status put_waiting(struct rs_pack *pack, unsigned flags, struct rs_view chunk,
                                  struct rs_err *err)
{
    for (;;) {
        const enum rs_status status =
            rs_spool_put(pack->options.spool, pack->entry, pack->next_seq, flags, chunk, err);
        if (status != RS_LIMIT)
            return status;
        if (pack->options.must_stop && atomic_load(pack->options.must_stop))
            return rs_err_set(err, RS_CANCELLED, "stopped while the spool was full");
        /* Not for long at a time: a stop must be seen. */
        if (rs_spool_wait(pack->options.spool, chunk.length, rs_time_monotonic() + WAIT_NS) < 0)
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
    const enum rs_status status = can_wait(pack) ? put_waiting(pack, flags, chunk, err)
                                                 : put_or_lose(pack, flags, chunk, header, err);
    if (status < 0)
        return status;
    if (pack->next_seq)
        pack->next_seq++;
    pack->totals.chunks++;
    pack->totals.bytes += chunk.length;
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

enum rs_status rs_pack_finish(struct rs_pack *pack, const struct rs_trace_info *info,
                              bool is_partial, struct rs_err *err)
{
    struct rs_summary summary = {0};
    struct rs_buf bytes = {0};
    pack->is_partial = is_partial;
    enum rs_status status = rs_reduce_finish(pack->reduce, info, &summary, err);
    if (status == RS_OK)
        status = rs_summary_encode(&summary, &bytes, err);
    if (status == RS_OK)
        status = rs_chunk_writer_flush(pack->writer, err);
    if (status == RS_OK)
        status = rs_chunk_writer_summary(pack->writer, rs_view_of(bytes.data, bytes.length), err);
    if (status == RS_OK)
        status = rs_chunk_writer_info(pack->writer, info, true, err);
    rs_buf_fini(&bytes);
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
