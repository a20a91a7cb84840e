/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a capture directory: segments mapped, chunks indexed by (stream, seq), views lent.
 */
#include "aggregator/store/store_priv.h"
#include "common/base/mem.h"
#include "common/base/reclog.h"
#include "common/base/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stored_item {
    rs_seq seq;
    uint64_t offset;  /* of the record */
    uint32_t segment; /* index into readers */
    uint32_t stream;
    uint32_t length;
    uint16_t flags;
};

struct stored_stream {
    struct rs_stored_stream facts;
    struct stream_record record; /* owns the texts */
    uint32_t tag;
    size_t first_item;
};

struct rs_stored {
    struct rs_capture_facts facts;
    struct rs_capture_rank *ranks;
    size_t rank_count;
    struct rs_reclog_reader *readers;
    size_t reader_count, reader_capacity;
    struct stored_stream *streams;
    size_t stream_count, stream_capacity;
    struct rs_slots by_tag; /* streams, until they are sorted */
    struct stored_item *items;
    size_t item_count, item_capacity;
    size_t damage_count;
    char damage[RS_ERR_TEXT_BYTES];
};

static void note_damage(struct rs_stored *stored, const char *text)
{
    if (!stored->damage_count++)
        (void)snprintf(stored->damage, sizeof stored->damage, "%s", text);
}

static bool has_tag(const void *self, uint32_t index, const void *wanted)
{
    const struct stored_stream *streams = self;
    return streams[index].tag == *(const uint32_t *)wanted;
}

/* RS_SLOTS_NONE: there is none. */
static uint32_t find_stream(const struct rs_stored *stored, uint32_t tag)
{
    return rs_slots_find(&stored->by_tag, rs_slots_mix(0, tag), has_tag, stored->streams, &tag);
}

static enum rs_status add_stream(struct rs_stored *stored, uint32_t tag, struct rs_view payload,
                                 const char *path)
{
    if (find_stream(stored, tag) != RS_SLOTS_NONE)
        return RS_OK; /* every segment repeats it */
    struct stream_record record;
    enum rs_status status = stream_record_decode(payload, &record);
    if (status == RS_FORMAT) {
        char text[RS_ERR_TEXT_BYTES];
        (void)snprintf(text, sizeof text, "%.600s holds a broken stream record", path);
        note_damage(stored, text);
        return RS_OK;
    }
    if (status < 0)
        return status;
    status = rs_mem_grow((void **)&stored->streams, &stored->stream_capacity,
                         stored->stream_count + 1, sizeof *stored->streams);
    if (status == RS_OK)
        status =
            rs_slots_put(&stored->by_tag, rs_slots_mix(0, tag), (uint32_t)stored->stream_count);
    if (status < 0) {
        stream_record_fini(&record);
        return status;
    }
    stored->streams[stored->stream_count++] =
        (struct stored_stream){.tag = tag,
                               .record = record,
                               .facts = {.run = record.run,
                                         .incarnation = record.incarnation,
                                         .host = record.host,
                                         .origin = record.origin,
                                         .rank = record.rank,
                                         .world = record.world}};
    return RS_OK;
}

static enum rs_status add_item(struct rs_stored *stored, const struct rs_reclog_record *record,
                               uint64_t offset, size_t length)
{
    const uint32_t stream = find_stream(stored, record->tag);
    if (stream == RS_SLOTS_NONE) {
        note_damage(stored, "a chunk belongs to no stream");
        return RS_OK;
    }
    const enum rs_status status = rs_mem_grow((void **)&stored->items, &stored->item_capacity,
                                              stored->item_count + 1, sizeof *stored->items);
    if (status < 0)
        return status;
    stored->items[stored->item_count++] =
        (struct stored_item){.seq = record->seq,
                             .offset = offset,
                             .segment = (uint32_t)stored->reader_count - 1,
                             .stream = stream,
                             .length = (uint32_t)length,
                             .flags = record->flags};
    return RS_OK;
}

/* Steps over what cannot be read. RS_OK: there is more behind it. The torn end of the newest segment is no damage: it was
 * never acknowledged. */
static enum rs_status skip_damage(struct rs_stored *stored, struct rs_reclog_reader *reader,
                                  bool is_newest, const struct rs_err *what)
{
    const enum rs_status status = rs_reclog_resync(reader);
    if (status == RS_OK || !is_newest)
        note_damage(stored, what->text);
    return status;
}

static enum rs_status read_segment(struct rs_stored *stored, const char *path, bool is_newest,
                                   struct rs_err *err)
{
    enum rs_status status = rs_mem_grow((void **)&stored->readers, &stored->reader_capacity,
                                        stored->reader_count + 1, sizeof *stored->readers);
    if (status < 0)
        return rs_err_set(err, status, "no memory for a segment");
    struct rs_err local = {0};
    struct rs_reclog_reader *reader = &stored->readers[stored->reader_count];
    status = rs_reclog_reader_open(reader, path, &local);
    if (status == RS_FORMAT || status == RS_VERSION) {
        if (!is_newest)
            note_damage(stored, local.text);
        return RS_OK;
    }
    if (status < 0)
        return rs_err_set(err, status, "%s", local.text);
    stored->reader_count++;
    struct rs_reclog_record record;
    struct rs_view payload;
    uint64_t offset = 0;
    for (;;) {
        status = rs_reclog_next(reader, RS_RECLOG_CHECK_HEADER, &record, &payload, &offset, &local);
        if (status == RS_OK && record.kind == RECORD_STREAM &&
            rs_reclog_at(reader, offset, RS_RECLOG_CHECK_ALL, &record, &payload, &local) < 0)
            note_damage(stored, local.text);
        else if (status == RS_OK && record.kind == RECORD_STREAM)
            status = add_stream(stored, record.tag, payload, path);
        else if (status == RS_OK && record.kind == RECORD_CHUNK)
            status = add_item(stored, &record, offset, payload.length);
        else if (status == RS_OK)
            note_damage(stored, "a segment holds a record of an unknown kind");
        else if (status == RS_FORMAT)
            status = skip_damage(stored, reader, is_newest, &local);
        if (status != RS_OK)
            break;
    }
    if (status == RS_NOMEM)
        return rs_err_set(err, status, "no memory for the index of %s", path);
    return RS_OK;
}

static int by_who(const void *left, const void *right)
{
    const struct stored_stream *a = left;
    const struct stored_stream *b = right;
    if (a->facts.rank != b->facts.rank)
        return a->facts.rank < b->facts.rank ? -1 : 1;
    const int order = strcmp(a->facts.incarnation, b->facts.incarnation);
    return order ? order : strcmp(a->facts.run, b->facts.run);
}

static int by_seq(const void *left, const void *right)
{
    const struct stored_item *a = left;
    const struct stored_item *b = right;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    return 0;
}

/* The same chunk twice would be a bug of ours; it is counted and the first one kept. */
static void drop_repeats(struct rs_stored *stored)
{
    size_t kept = 0;
    for (size_t i = 0; i < stored->item_count; i++) {
        const struct stored_item *item = &stored->items[i];
        if (kept && by_seq(&stored->items[kept - 1], item) == 0) {
            stored->streams[item->stream].facts.repeated_count++;
            continue;
        }
        stored->items[kept++] = *item;
    }
    stored->item_count = kept;
}

static void add_loss(struct rs_stored *stored, const struct stored_item *item,
                     struct rs_stored_stream *facts)
{
    struct rs_reclog_record record;
    struct rs_view payload;
    struct rs_loss loss;
    if (rs_reclog_at(&stored->readers[item->segment], item->offset, RS_RECLOG_CHECK_ALL, &record,
                     &payload, NULL) < 0 ||
        rs_loss_decode(payload.data, payload.length, &loss, NULL) < 0) {
        note_damage(stored, "a loss record cannot be read");
        return;
    }
    facts->loss.chunks += loss.chunks;
    facts->loss.bytes += loss.bytes;
    facts->loss.events += loss.events;
    const rs_seq first = loss.first_seq && loss.first_seq < item->seq ? loss.first_seq : item->seq;
    if (facts->hole_count < RS_STORED_HOLES_MAX)
        facts->holes[facts->hole_count] =
            (struct rs_stored_hole){.first_seq = first, .last_seq = item->seq, .loss = loss};
    facts->hole_count++;
    /* Numbers that the record explains are not missing without a word. */
    const uint64_t explained = item->seq - first;
    facts->missing_count -= explained < facts->missing_count ? explained : facts->missing_count;
}

static void count_streams(struct rs_stored *stored)
{
    for (size_t i = 0; i < stored->item_count; i++) {
        const struct stored_item *item = &stored->items[i];
        struct rs_stored_stream *facts = &stored->streams[item->stream].facts;
        if (!facts->chunk_count) {
            stored->streams[item->stream].first_item = i;
            facts->first_seq = item->seq;
        } else {
            facts->missing_count += item->seq - facts->last_seq - 1;
        }
        facts->last_seq = item->seq;
        facts->chunk_count++;
        facts->bytes += item->length;
        if (item->flags & RS_ENVELOPE_LAST) {
            facts->is_ended = true;
            facts->is_partial = (item->flags & RS_ENVELOPE_PARTIAL) != 0;
        }
        if (item->flags & RS_ENVELOPE_LOSS)
            add_loss(stored, item, facts);
    }
}

/* Streams stand in the order in which they came; people want them by rank. */
static enum rs_status sort_all(struct rs_stored *stored)
{
    uint32_t *places = rs_mem_calloc(stored->stream_count, sizeof *places);
    if (!places)
        return RS_NOMEM;
    for (size_t i = 0; i < stored->stream_count; i++)
        stored->streams[i].first_item = i; /* the old place, for a moment */
    if (stored->stream_count)
        qsort(stored->streams, stored->stream_count, sizeof *stored->streams, by_who);
    for (size_t i = 0; i < stored->stream_count; i++)
        places[stored->streams[i].first_item] = (uint32_t)i;
    for (size_t i = 0; i < stored->item_count; i++)
        stored->items[i].stream = places[stored->items[i].stream];
    rs_mem_free(places);
    if (stored->item_count)
        qsort(stored->items, stored->item_count, sizeof *stored->items, by_seq);
    drop_repeats(stored);
    count_streams(stored);
    return RS_OK;
}

static void fill_facts(struct rs_stored *stored, const char *dir)
{
    if (facts_read(dir, &stored->facts, &stored->ranks, &stored->rank_count, NULL) == RS_OK ||
        capture_db_read(dir, &stored->facts, &stored->ranks, &stored->rank_count, NULL) == RS_OK)
        return;
    stored->facts = (struct rs_capture_facts){0};
    const char *slash = strrchr(dir, '/');
    (void)snprintf(stored->facts.id, sizeof stored->facts.id, "%.63s", slash ? slash + 1 : dir);
    (void)snprintf(stored->facts.state, sizeof stored->facts.state, "open");
    if (!stored->stream_count)
        return;
    (void)snprintf(stored->facts.run, sizeof stored->facts.run, "%.511s",
                   stored->streams[0].facts.run);
    stored->facts.world = stored->streams[0].facts.world;
}

enum rs_status rs_store_open_capture(const char *dir, struct rs_stored **stored_p,
                                     struct rs_err *err)
{
    return rs_store_open_lane(dir, RS_STREAM_RAW, stored_p, err);
}

enum rs_status rs_store_open_lane(const char *dir, enum rs_stream_lane lane,
                                  struct rs_stored **stored_p, struct rs_err *err)
{
    uint32_t *numbers = NULL;
    size_t count = 0;
    enum rs_status status = list_segments(dir, lane, &numbers, &count, err);
    if (status < 0)
        return status;
    struct rs_stored *stored = rs_mem_calloc(1, sizeof *stored);
    if (!stored)
        status = rs_err_set(err, RS_NOMEM, "no memory to read %s", dir);
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        char *path = segment_path(dir, lane, numbers[i]);
        status = path ? read_segment(stored, path, i + 1 == count, err)
                      : rs_err_set(err, RS_NOMEM, "no memory to read %s", dir);
        rs_mem_free(path);
    }
    rs_mem_free(numbers);
    if (stored)
        rs_slots_fini(&stored->by_tag);
    if (status == RS_OK && sort_all(stored) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory to read %s", dir);
    if (status < 0) {
        rs_stored_close(&stored);
        return status;
    }
    fill_facts(stored, dir);
    *stored_p = stored;
    return RS_OK;
}

void rs_stored_close(struct rs_stored **stored_p)
{
    struct rs_stored *stored = *stored_p;
    if (!stored)
        return;
    *stored_p = NULL;
    for (size_t i = 0; i < stored->reader_count; i++)
        rs_reclog_reader_close(&stored->readers[i]);
    for (size_t i = 0; i < stored->stream_count; i++)
        stream_record_fini(&stored->streams[i].record);
    rs_mem_free(stored->readers);
    rs_mem_free(stored->streams);
    rs_mem_free(stored->items);
    rs_mem_free(stored->ranks);
    rs_mem_free(stored);
}

const struct rs_capture_facts *rs_stored_facts(const struct rs_stored *stored)
{
    return &stored->facts;
}

size_t rs_stored_rank_count(const struct rs_stored *stored)
{
    return stored->rank_count;
}

const struct rs_capture_rank *rs_stored_rank(const struct rs_stored *stored, size_t index)
{
    return index < stored->rank_count ? &stored->ranks[index] : NULL;
}

size_t rs_stored_stream_count(const struct rs_stored *stored)
{
    return stored->stream_count;
}

const struct rs_stored_stream *rs_stored_stream(const struct rs_stored *stored, size_t stream)
{
    return stream < stored->stream_count ? &stored->streams[stream].facts : NULL;
}

enum rs_status rs_stored_chunk(const struct rs_stored *stored, size_t stream, uint64_t index,
                               bool check, struct rs_stored_chunk *chunk_p, struct rs_err *err)
{
    if (stream >= stored->stream_count || index >= stored->streams[stream].facts.chunk_count)
        return RS_END;
    const struct stored_item *item = &stored->items[stored->streams[stream].first_item + index];
    struct rs_reclog_record record;
    struct rs_view payload;
    const enum rs_status status =
        rs_reclog_at(&stored->readers[item->segment], item->offset,
                     check ? RS_RECLOG_CHECK_ALL : RS_RECLOG_CHECK_HEADER, &record, &payload, err);
    if (status < 0)
        return status;
    *chunk_p = (struct rs_stored_chunk){.seq = item->seq, .flags = item->flags, .bytes = payload};
    return RS_OK;
}

size_t rs_stored_damage(const struct rs_stored *stored, const char **text_p)
{
    if (text_p)
        *text_p = stored->damage;
    return stored->damage_count;
}
