/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dump as bytes, and back.
 *
 * Strings of a dump are numbered in the order in which they are met: the number of one that is new is the count so far, and its
 * bytes follow the number at once. So neither side needs a table beforehand, and a hostile number is one that is too large.
 *
 * A call begins with a mask of what is known of it; what is not known takes no bytes. Times are differences: to the call
 * before (created), to its own creation (started, completed). Differences are taken modulo 2^64, so that no value overflows.
 */
#include "common/flight/pack.h"

#include "common/base/mem.h"
#include "common/base/view.h"

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include <limits.h>
#include <string.h>

enum {
    PACK_VERSION = 1,
    LEVEL = 1, /* of zstd: higher ones cost more than they save here */
    STRING_MAX = 1 << 20,
    ENTRY_MIN_BYTES =
        12 /* of a packed call: a hostile count cannot ask for more memory than that */
};

static const char magic[8] = {'R', 'S', 'F', 'L', 'I', 'G', 'H', '1'};

enum dump_flag {
    DUMP_TAKEN_KNOWN = 1,
    DUMP_PARTIAL = 2,
    DUMP_SPARSE = 4,
    DUMP_KNOWS_STARTS = 8,
    DUMP_HALF_BLIND = 16,
    DUMP_STACK = 32,
    DUMP_PROBLEM = 64,
    DUMP_PID = 128
};

enum known { /* of a call */
             KNOWN_CREATED = 1,
             KNOWN_STARTED = 2,
             KNOWN_COMPLETED = 4,
             KNOWN_DURATION = 8,
             KNOWN_TIMEOUT = 16,
             KNOWN_PEERS = 32
};

/* The difference, and its inverse, without overflow. */
static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* --- out -------------------------------------------------------------------------------------------------------- */

struct packer {
    const struct rs_flight_set *set;
    struct rs_buf buf;
    uint32_t *numbers; /* of each string of the set, from 1; 0 not met yet */
    uint32_t met;
};

static void put_bytes(struct rs_buf *buf, const char *text, size_t length)
{
    rs_buf_varint(buf, length);
    rs_buf_bytes(buf, text, length);
}

static void put_string(struct packer *packer, rs_str id)
{
    if (id >= packer->set->strings.count)
        id = RS_STR_EMPTY;
    const uint32_t number = packer->numbers[id];
    if (number) {
        rs_buf_varint(&packer->buf, number - 1);
        return;
    }
    rs_buf_varint(&packer->buf, packer->met);
    packer->numbers[id] = ++packer->met;
    size_t length = rs_strtab_length(&packer->set->strings, id);
    if (length > STRING_MAX)
        length = STRING_MAX;
    put_bytes(&packer->buf, rs_strtab_text(&packer->set->strings, id), length);
}

static void put_head(struct packer *packer, const struct rs_flight_dump *dump)
{
    struct rs_buf *buf = &packer->buf;
    rs_buf_u8(buf, PACK_VERSION);
    rs_buf_varint(
        buf, (dump->is_taken_known ? DUMP_TAKEN_KNOWN : 0U) |
                 (dump->is_partial ? DUMP_PARTIAL : 0U) | (dump->is_sparse ? DUMP_SPARSE : 0U) |
                 (dump->knows_starts ? DUMP_KNOWS_STARTS : 0U) |
                 (dump->is_half_blind ? DUMP_HALF_BLIND : 0U) | (dump->stack ? DUMP_STACK : 0U) |
                 (dump->problem ? DUMP_PROBLEM : 0U) | (dump->pid > 0 ? DUMP_PID : 0U));
    rs_buf_zigzag(buf, dump->rank);
    rs_buf_varint(buf, dump->rank_source);
    rs_buf_zigzag(buf, dump->taken_ns);
    rs_buf_zigzag(buf, dump->dropped);
    rs_buf_zigzag(buf, dump->bad_entries);
    put_bytes(buf, dump->path, strlen(dump->path));
    put_bytes(buf, dump->host, strlen(dump->host));
    if (dump->stack)
        put_bytes(buf, dump->stack, strlen(dump->stack));
    if (dump->problem)
        put_bytes(buf, dump->problem, strlen(dump->problem));
    if (dump->pid > 0)
        rs_buf_varint(buf, (uint64_t)dump->pid);
    put_string(packer, dump->version);
    put_string(packer, dump->backend);
}

static void put_group(struct packer *packer, const struct rs_flight_group *group)
{
    struct rs_buf *buf = &packer->buf;
    int64_t before = -1;
    put_string(packer, group->name);
    put_string(packer, group->desc);
    rs_buf_varint(buf, group->ranks ? group->rank_count + 1 : 0);
    for (size_t i = 0; group->ranks && i < group->rank_count; i++) {
        rs_buf_zigzag(buf, group->ranks[i] - before);
        before = group->ranks[i];
    }
    rs_buf_zigzag(buf, group->pg_id);
    rs_buf_zigzag(buf, group->last_enqueued);
    rs_buf_zigzag(buf, group->last_started);
    rs_buf_zigzag(buf, group->last_completed);
}

static unsigned known_of(const struct rs_flight_entry *entry)
{
    return (entry->created_ns != RS_FLIGHT_UNKNOWN ? KNOWN_CREATED : 0U) |
           (entry->started_ns != RS_FLIGHT_UNKNOWN ? KNOWN_STARTED : 0U) |
           (entry->completed_ns != RS_FLIGHT_UNKNOWN ? KNOWN_COMPLETED : 0U) |
           (entry->duration_ns != RS_FLIGHT_UNKNOWN ? KNOWN_DURATION : 0U) |
           (entry->timeout_ns != RS_FLIGHT_UNKNOWN ? KNOWN_TIMEOUT : 0U) |
           (entry->peer_src >= 0 || entry->peer_dst >= 0 ? KNOWN_PEERS : 0U);
}

static void put_entry(struct packer *packer, const struct rs_flight_entry *entry,
                      const struct rs_flight_entry *before)
{
    struct rs_buf *buf = &packer->buf;
    const unsigned known = known_of(entry);
    const int64_t created = known & KNOWN_CREATED ? entry->created_ns : before->created_ns;
    rs_buf_varint(buf, known);
    rs_buf_u8(buf, entry->op);
    rs_buf_u8(buf, (uint8_t)(entry->state | entry->flags << 2));
    rs_buf_zigzag(buf, minus(entry->record_id, before->record_id));
    rs_buf_zigzag(buf, minus(entry->seq, before->seq));
    if (known & KNOWN_CREATED)
        rs_buf_zigzag(buf, minus(created, before->created_ns));
    if (known & KNOWN_STARTED)
        rs_buf_zigzag(buf, minus(entry->started_ns, created));
    if (known & KNOWN_COMPLETED)
        rs_buf_zigzag(buf, minus(entry->completed_ns, created));
    if (known & KNOWN_DURATION)
        rs_buf_zigzag(buf, entry->duration_ns);
    if (known & KNOWN_TIMEOUT)
        rs_buf_zigzag(buf, entry->timeout_ns);
    if (known & KNOWN_PEERS) {
        rs_buf_zigzag(buf, entry->peer_src);
        rs_buf_zigzag(buf, entry->peer_dst);
    }
    rs_buf_varint(buf, entry->group);
    rs_buf_zigzag(buf, entry->in_numel);
    rs_buf_zigzag(buf, entry->out_numel);
    put_string(packer, entry->name);
    put_string(packer, entry->sizes);
    put_string(packer, entry->dtypes);
    put_string(packer, entry->frames);
}

static const struct rs_flight_entry first_before = {0};

static void put_dump(struct packer *packer, const struct rs_flight_dump *dump)
{
    put_head(packer, dump);
    rs_buf_varint(&packer->buf, dump->group_count);
    for (size_t i = 0; i < dump->group_count; i++)
        put_group(packer, &dump->groups[i]);
    rs_buf_varint(&packer->buf, dump->entry_count);
    struct rs_flight_entry before = first_before;
    for (size_t i = 0; i < dump->entry_count; i++) {
        const struct rs_flight_entry *entry = &packer->set->entries[dump->entry_first + i];
        const int64_t created = before.created_ns;
        put_entry(packer, entry, &before);
        before = *entry;
        if (before.created_ns == RS_FLIGHT_UNKNOWN)
            before.created_ns = created;
    }
}

enum rs_status rs_flight_pack(const struct rs_flight_set *set, const struct rs_flight_dump *dump,
                              struct rs_buf *buf, struct rs_err *err)
{
    struct packer packer = {
        .set = set, .numbers = rs_mem_calloc(set->strings.count + 1, sizeof *packer.numbers)};
    enum rs_status status = RS_OK;
    if (!packer.numbers)
        return rs_err_set(err, RS_NOMEM, "no memory for a dump");
    put_dump(&packer, dump);
    rs_mem_free(packer.numbers);
    if (packer.buf.failed)
        status = RS_NOMEM;
    else if (packer.buf.length > RS_FLIGHT_PACK_RAW_MAX)
        status = RS_LIMIT;
    const size_t bound = status == RS_OK ? ZSTD_compressBound(packer.buf.length) : 0;
    uint8_t *room = status == RS_OK ? rs_buf_reserve(buf, bound) : NULL;
    if (room) {
        const size_t length = ZSTD_compress(room, bound, packer.buf.data, packer.buf.length, LEVEL);
        if (ZSTD_isError(length))
            status = RS_NOMEM;
        else if (length > RS_FLIGHT_PACK_MAX)
            status = RS_LIMIT;
        else
            rs_buf_commit(buf, length);
    } else if (status == RS_OK) {
        status = RS_NOMEM;
    }
    rs_buf_fini(&packer.buf);
    if (status == RS_LIMIT)
        return rs_err_set(err, status, "the dump of rank %d is too large to be sent", dump->rank);
    return status < 0 ? rs_err_set(err, status, "no memory for a dump") : RS_OK;
}

/* --- in --------------------------------------------------------------------------------------------------------- */

struct unpacker {
    struct rs_flight_set *set;
    struct rs_view view;
    rs_str *strings; /* by number */
    size_t met, capacity;
    enum rs_status status; /* RS_NOMEM, RS_LIMIT, RS_FORMAT: sticky */
};

static void fail(struct unpacker *unpacker, enum rs_status status)
{
    if (unpacker->status == RS_OK)
        unpacker->status = status;
}

static bool is_failed(struct unpacker *unpacker)
{
    if (unpacker->view.failed)
        fail(unpacker, RS_FORMAT);
    return unpacker->status != RS_OK;
}

/* A copy; NULL on failure. */
static char *take_bytes(struct unpacker *unpacker)
{
    const uint64_t length = rs_view_varint(&unpacker->view);
    if (length > STRING_MAX)
        fail(unpacker, RS_FORMAT);
    if (is_failed(unpacker))
        return NULL;
    const struct rs_view bytes = rs_view_take(&unpacker->view, (size_t)length);
    if (is_failed(unpacker))
        return NULL;
    char *text = rs_mem_calloc((size_t)length + 1, 1);
    if (!text)
        fail(unpacker, RS_NOMEM);
    else if (length)
        memcpy(text, bytes.data, (size_t)length);
    return text;
}

/* Replaces a text of the dump. */
static void take_text(struct unpacker *unpacker, char **text_p)
{
    char *text = take_bytes(unpacker);
    if (!text)
        return;
    rs_mem_free(*text_p);
    *text_p = text;
}

static rs_str take_string(struct unpacker *unpacker)
{
    const uint64_t number = rs_view_varint(&unpacker->view);
    if (!is_failed(unpacker) && number < unpacker->met)
        return unpacker->strings[number];
    if (number != unpacker->met)
        fail(unpacker, RS_FORMAT);
    if (is_failed(unpacker))
        return RS_STR_EMPTY;
    rs_str id = RS_STR_EMPTY;
    const uint64_t length = rs_view_varint(&unpacker->view);
    const struct rs_view bytes =
        rs_view_take(&unpacker->view, length <= STRING_MAX ? (size_t)length : SIZE_MAX);
    if (is_failed(unpacker))
        return RS_STR_EMPTY;
    enum rs_status status = rs_mem_grow((void **)&unpacker->strings, &unpacker->capacity,
                                        unpacker->met + 1, sizeof *unpacker->strings);
    if (status == RS_OK)
        status =
            rs_strtab_add(&unpacker->set->strings, (const char *)bytes.data, (size_t)length, &id);
    if (status != RS_OK)
        fail(unpacker, status);
    else
        unpacker->strings[unpacker->met++] = id;
    return id;
}

static int32_t take_rank(struct unpacker *unpacker)
{
    const int64_t rank = rs_view_zigzag(&unpacker->view);
    if (rank < -1 || rank > INT32_MAX)
        fail(unpacker, RS_FORMAT);
    return (int32_t)rank;
}

static void take_head(struct unpacker *unpacker, struct rs_flight_dump *dump)
{
    struct rs_view *view = &unpacker->view;
    if (rs_view_u8(view) != PACK_VERSION)
        fail(unpacker, RS_VERSION);
    const uint64_t flags = rs_view_varint(view);
    dump->is_taken_known = flags & DUMP_TAKEN_KNOWN;
    dump->is_partial = flags & DUMP_PARTIAL;
    dump->is_sparse = flags & DUMP_SPARSE;
    dump->knows_starts = flags & DUMP_KNOWS_STARTS;
    dump->is_half_blind = flags & DUMP_HALF_BLIND;
    dump->rank = take_rank(unpacker);
    const uint64_t source = rs_view_varint(view);
    if (source > RS_FLIGHT_RANK_ASKED)
        fail(unpacker, RS_FORMAT);
    dump->rank_source = (enum rs_flight_rank_source)(source & 7);
    dump->taken_ns = rs_view_zigzag(view);
    dump->dropped = rs_view_zigzag(view);
    dump->bad_entries = rs_view_zigzag(view);
    take_text(unpacker, &dump->path);
    take_text(unpacker, &dump->host);
    if (flags & DUMP_STACK)
        take_text(unpacker, &dump->stack);
    if (flags & DUMP_PROBLEM)
        take_text(unpacker, &dump->problem);
    const uint64_t pid = flags & DUMP_PID ? rs_view_varint(view) : 0;
    if (pid > INT32_MAX)
        fail(unpacker, RS_FORMAT);
    dump->pid = (int32_t)(pid & INT32_MAX);
    dump->version = take_string(unpacker);
    dump->backend = take_string(unpacker);
}

static void take_members(struct unpacker *unpacker, struct rs_flight_group *group)
{
    const uint64_t count = rs_view_varint(&unpacker->view);
    int64_t before = -1;
    if (!count || is_failed(unpacker))
        return;
    if (count - 1 > unpacker->view.length) {
        fail(unpacker, RS_FORMAT);
        return;
    }
    group->ranks = rs_mem_calloc((size_t)count, sizeof *group->ranks);
    if (!group->ranks) {
        fail(unpacker, RS_NOMEM);
        return;
    }
    group->rank_count = (size_t)count - 1;
    for (size_t i = 0; i < group->rank_count; i++) {
        before = plus(before, rs_view_zigzag(&unpacker->view));
        if (before < 0 || before > INT32_MAX) {
            fail(unpacker, RS_FORMAT);
            return;
        }
        group->ranks[i] = (int32_t)before;
    }
}

static void take_group(struct unpacker *unpacker)
{
    struct rs_flight_dump *dump = &unpacker->set->dumps[unpacker->set->dump_count - 1];
    const rs_str name = take_string(unpacker), desc = take_string(unpacker);
    const size_t before = dump->group_count;
    uint32_t index = 0;
    if (is_failed(unpacker))
        return;
    const enum rs_status status = rs_flight_group_of(unpacker->set, name, desc, &index);
    if (status != RS_OK || dump->group_count == before) {
        fail(unpacker, status != RS_OK ? status : RS_FORMAT); /* twice the same */
        return;
    }
    struct rs_flight_group *group = &dump->groups[index];
    take_members(unpacker, group);
    group->pg_id = rs_view_zigzag(&unpacker->view);
    group->last_enqueued = rs_view_zigzag(&unpacker->view);
    group->last_started = rs_view_zigzag(&unpacker->view);
    group->last_completed = rs_view_zigzag(&unpacker->view);
}

static void take_entry(struct unpacker *unpacker, struct rs_flight_entry *entry)
{
    struct rs_view *view = &unpacker->view;
    const struct rs_flight_entry before = *entry;
    const uint64_t known = rs_view_varint(view);
    *entry = (struct rs_flight_entry){.created_ns = RS_FLIGHT_UNKNOWN,
                                      .started_ns = RS_FLIGHT_UNKNOWN,
                                      .completed_ns = RS_FLIGHT_UNKNOWN,
                                      .duration_ns = RS_FLIGHT_UNKNOWN,
                                      .timeout_ns = RS_FLIGHT_UNKNOWN,
                                      .group = RS_FLIGHT_NO_GROUP,
                                      .peer_src = -1,
                                      .peer_dst = -1};
    entry->op = rs_view_u8(view);
    const uint8_t state = rs_view_u8(view);
    entry->state = state & 3;
    entry->flags = state >> 2;
    if (entry->op > RS_FLIGHT_COALESCED || entry->state > RS_FLIGHT_COMPLETED ||
        entry->flags > (RS_FLIGHT_RETIRED | RS_FLIGHT_P2P | RS_FLIGHT_TIMED_OUT))
        fail(unpacker, RS_FORMAT);
    entry->record_id = plus(before.record_id, rs_view_zigzag(view));
    entry->seq = plus(before.seq, rs_view_zigzag(view));
    if (known & KNOWN_CREATED)
        entry->created_ns = plus(before.created_ns, rs_view_zigzag(view));
    const int64_t created = known & KNOWN_CREATED ? entry->created_ns : before.created_ns;
    if (known & KNOWN_STARTED)
        entry->started_ns = plus(created, rs_view_zigzag(view));
    if (known & KNOWN_COMPLETED)
        entry->completed_ns = plus(created, rs_view_zigzag(view));
    if (known & KNOWN_DURATION)
        entry->duration_ns = rs_view_zigzag(view);
    if (known & KNOWN_TIMEOUT)
        entry->timeout_ns = rs_view_zigzag(view);
    if (known & KNOWN_PEERS) {
        entry->peer_src = take_rank(unpacker);
        entry->peer_dst = take_rank(unpacker);
    }
    const uint64_t group = rs_view_varint(view);
    if (group >= unpacker->set->dumps[unpacker->set->dump_count - 1].group_count)
        fail(unpacker, RS_FORMAT);
    entry->group = (uint32_t)group;
    entry->in_numel = rs_view_zigzag(view);
    entry->out_numel = rs_view_zigzag(view);
    entry->name = take_string(unpacker);
    entry->sizes = take_string(unpacker);
    entry->dtypes = take_string(unpacker);
    entry->frames = take_string(unpacker);
}

static void take_entries(struct unpacker *unpacker)
{
    const uint64_t count = rs_view_varint(&unpacker->view);
    struct rs_flight_entry entry = first_before;
    int64_t created = 0, record_id = 0;
    if (count > unpacker->view.length / ENTRY_MIN_BYTES + 1)
        fail(unpacker, RS_FORMAT);
    for (uint64_t i = 0; i < count && !is_failed(unpacker); i++) {
        entry.created_ns = created;
        take_entry(unpacker, &entry);
        if (entry.created_ns != RS_FLIGHT_UNKNOWN)
            created = entry.created_ns;
        if (is_failed(unpacker))
            return;
        if (i && entry.record_id < record_id)
            fail(unpacker, RS_FORMAT); /* the order that everybody relies on */
        record_id = entry.record_id;
        const enum rs_status status = rs_flight_add(unpacker->set, &entry);
        if (status != RS_OK)
            fail(unpacker, status);
    }
}

static void take_dump(struct unpacker *unpacker)
{
    struct rs_flight_dump *dump;
    const enum rs_status status = rs_flight_begin(unpacker->set, "", &dump);
    if (status != RS_OK) {
        fail(unpacker, status);
        return;
    }
    take_head(unpacker, dump);
    const uint64_t groups = rs_view_varint(&unpacker->view);
    for (uint64_t i = 0; i < groups && !is_failed(unpacker); i++)
        take_group(unpacker);
    if (!is_failed(unpacker))
        take_entries(unpacker);
    if (!is_failed(unpacker) && unpacker->view.length)
        fail(unpacker, RS_FORMAT);
    if (is_failed(unpacker))
        rs_flight_drop_last(unpacker->set);
}

static enum rs_status complain(enum rs_status status, struct rs_err *err)
{
    if (status == RS_OK)
        return RS_OK;
    if (status == RS_NOMEM)
        return rs_err_set(err, status, "no memory for a dump");
    if (status == RS_VERSION)
        return rs_err_set(err, status, "a packed dump of another version");
    if (status == RS_LIMIT)
        return rs_err_set(err, status, "a packed dump is larger than %d MiB",
                          RS_FLIGHT_PACK_RAW_MAX >> 20);
    return rs_err_set(err, status, "this is no packed dump, or it is damaged");
}

enum rs_status rs_flight_unpack(const void *bytes, size_t length, struct rs_flight_set *set,
                                struct rs_err *err)
{
    const unsigned long long size = ZSTD_getFrameContentSize(bytes, length);
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || !size)
        return complain(RS_FORMAT, err);
    if (size > RS_FLIGHT_PACK_RAW_MAX || length > RS_FLIGHT_PACK_MAX)
        return complain(RS_LIMIT, err);
    uint8_t *raw = rs_mem_calloc((size_t)size, 1);
    if (!raw)
        return complain(RS_NOMEM, err);
    struct unpacker unpacker = {.set = set};
    if (ZSTD_decompress(raw, (size_t)size, bytes, length) != size) {
        unpacker.status = RS_FORMAT;
    } else {
        unpacker.view = rs_view_of(raw, (size_t)size);
        take_dump(&unpacker);
    }
    rs_mem_free(unpacker.strings);
    rs_mem_free(raw);
    return complain(unpacker.status, err);
}

/* --- a file of them --------------------------------------------------------------------------------------------- */

enum record_kind { RECORD_DUMP = 'D', RECORD_NOTE = 'N', RECORD_END = 'E' };

static enum rs_status put_record(struct rs_buf *file, enum record_kind kind, const void *bytes,
                                 size_t length)
{
    if (length > UINT32_MAX)
        return RS_LIMIT;
    rs_buf_u8(file, (uint8_t)kind);
    rs_buf_u32(file, (uint32_t)length);
    rs_buf_bytes(file, bytes, length);
    return file->failed ? RS_NOMEM : RS_OK;
}

enum rs_status rs_flight_file_begin(struct rs_buf *file)
{
    rs_buf_bytes(file, magic, sizeof magic);
    return file->failed ? RS_NOMEM : RS_OK;
}

enum rs_status rs_flight_file_dump(struct rs_buf *file, const void *packed, size_t length)
{
    return put_record(file, RECORD_DUMP, packed, length);
}

enum rs_status rs_flight_file_note(struct rs_buf *file, const char *text)
{
    return put_record(file, RECORD_NOTE, text, strlen(text));
}

enum rs_status rs_flight_file_end(struct rs_buf *file)
{
    const uint64_t sum = file->failed ? 0 : XXH64(file->data, file->length, 0);
    rs_buf_u8(file, RECORD_END);
    rs_buf_u64(file, sum);
    return file->failed ? RS_NOMEM : RS_OK;
}

static enum rs_status take_note(struct rs_flight_set *set, const struct rs_view *record)
{
    return rs_flight_note(set, "%.*s", (int)(record->length > 1000 ? 1000 : record->length),
                          (const char *)record->data);
}

enum rs_status rs_flight_file_read(const void *bytes, size_t length, struct rs_flight_set *set,
                                   size_t *damaged_p, struct rs_err *err)
{
    enum { TAIL = 9 };
    struct rs_view view = rs_view_of(bytes, length);
    enum rs_status status = RS_OK;
    *damaged_p = 0;
    if (length < sizeof magic + TAIL || memcmp(bytes, magic, sizeof magic) != 0)
        return rs_err_set(err, RS_FORMAT, "this is no file of flight recorder dumps");
    struct rs_view tail = rs_view_of((const uint8_t *)bytes + length - TAIL, TAIL);
    if (rs_view_u8(&tail) != RECORD_END || rs_view_u64(&tail) != XXH64(bytes, length - TAIL, 0))
        return rs_err_set(err, RS_FORMAT, "the file of dumps is damaged: its checksum is wrong");
    (void)rs_view_take(&view, sizeof magic);
    while (view.length > TAIL && !view.failed && status == RS_OK) {
        struct rs_err why = {0};
        const uint8_t kind = rs_view_u8(&view);
        const struct rs_view record = rs_view_take(&view, rs_view_u32(&view));
        if (view.failed)
            break;
        if (kind == RECORD_NOTE) {
            status = take_note(set, &record);
        } else if (kind == RECORD_DUMP) {
            status = rs_flight_unpack(record.data, record.length, set, &why);
            if (status < 0 && status != RS_NOMEM) {
                ++*damaged_p;
                status = rs_flight_note(set, "a dump cannot be read: %s", why.text);
            }
        }
    }
    if (status == RS_OK)
        status = rs_flight_set_sort(set);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "no memory for the dumps");
}
