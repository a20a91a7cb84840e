/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A summary as bytes and back. SUMMARY.md draws it; the tables of columns below are the format: a row
 * table is written column by column, each value as the zigzag varint of its difference to a reference, modulo 2^64.
 *
 * The reader trusts nothing: header, length and checksum first; a count is believed only when the bytes
 * left could hold that many rows; every value must fit its field; ids, indexes, enums and instants are
 * checked before anyone sees the summary.
 */
#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/reduce/classify.h"
#include "common/reduce/summary.h"

#include <string.h>

enum {
    SUMMARY_VERSION_INPUT =
        5, /* and with input_inside_ns of steps; where that is 0 in all of them, of version 4 or 3 */
    SUMMARY_VERSION_WRITTEN =
        4, /* ends with trace.written_ns; one that does not know it is of version 3 */
    SUMMARY_VERSION = 3,
    SUMMARY_VERSION_WITHOUT_SPANS = 2,  /* and without input_ns of steps; still read */
    SUMMARY_VERSION_WITHOUT_VENDOR = 1, /* ends before the appendix, too; still read */
    VENDOR_VERSION = 2,
    VENDOR_VERSION_WITHOUT_DIGITS = 1,
    SUMMARY_HEADER_BYTES = 24,
    SUMMARY_CHECKED_FROM = 16, /* the checksum covers all from here */
};

static const uint8_t summary_magic[8] = {'R', 'S', 'S', 'U', 'M', 'M', 'R', 'Y'};

#define SUMMARY_MAX_BYTES ((uint64_t)1 << 30)
#define SUMMARY_NS_LIMIT  (INT64_C(1) << 62) /* of instants and lengths, either way */

/* ---- columns ---- */

enum width { U8, FLAG, I32, U32, I64, U64 };

enum against { NOTHING, ROW_BEFORE, COLUMN }; /* the reference of a value */

enum meaning { ANY, STRING, INSTANT, LENGTH };

struct column {
    size_t offset;
    enum width width;
    enum against against;
    size_t other; /* offset of the reference column, an I64 written before */
    enum meaning meaning;
};

#define PLAIN(type, member, width)                                                                 \
    {                                                                                              \
        offsetof(type, member), width, NOTHING, 0, ANY                                             \
    }
#define NAME(type, member)                                                                         \
    {                                                                                              \
        offsetof(type, member), U32, NOTHING, 0, STRING                                            \
    }
#define RISING(type, member, width)                                                                \
    {                                                                                              \
        offsetof(type, member), width, ROW_BEFORE, 0, ANY                                          \
    }
#define TIME(type, member)                                                                         \
    {                                                                                              \
        offsetof(type, member), I64, ROW_BEFORE, 0, INSTANT                                        \
    }
#define TIME_AFTER(type, member, other)                                                            \
    {                                                                                              \
        offsetof(type, member), I64, COLUMN, offsetof(type, other), INSTANT                        \
    }
#define LENGTH_OF(type, member)                                                                    \
    {                                                                                              \
        offsetof(type, member), I64, NOTHING, 0, LENGTH                                            \
    }

/* clang-format off */
static const struct column info_columns[] = {
#define T struct rs_trace_info
    PLAIN(T, rank, I32), PLAIN(T, rank_source, U32), PLAIN(T, world_size, I32), NAME(T, host),
    NAME(T, trace_id), NAME(T, backend), NAME(T, generation), NAME(T, metadata),
    PLAIN(T, has_time_base, FLAG), PLAIN(T, base_ns, I64), PLAIN(T, is_partial, FLAG),
    NAME(T, partial_reason), PLAIN(T, events_read, I64), PLAIN(T, rows_read, I64),
    PLAIN(T, input_bytes, I64), PLAIN(T, raw_bytes, I64),
#undef T
};
static const struct column drop_columns[] = {
    NAME(struct rs_drop, reason), PLAIN(struct rs_drop, count, I64),
};
static const struct column group_columns[] = {
    NAME(struct rs_group_info, name), NAME(struct rs_group_info, description),
    PLAIN(struct rs_group_info, size, I64), PLAIN(struct rs_group_info, rank_count, U64),
};
static const struct column head_columns[] = {
#define T struct rs_summary
    PLAIN(T, step_origin, U32), TIME(T, span_start), TIME_AFTER(T, span_end, span_start),
#undef T
};
static const struct column device_columns[] = {
#define T struct rs_device_row
    PLAIN(T, device, I32), TIME(T, window_start), TIME_AFTER(T, window_end, window_start),
    LENGTH_OF(T, busy), LENGTH_OF(T, computing), LENGTH_OF(T, communication), LENGTH_OF(T, memory),
    LENGTH_OF(T, overlapped),
#undef T
};
static const struct column step_columns[] = {
#define T struct rs_step_row
    RISING(T, step, I64), PLAIN(T, device, I32), PLAIN(T, is_partial, FLAG), PLAIN(T, has_work, FLAG),
    TIME(T, host_start), TIME_AFTER(T, host_end, host_start), LENGTH_OF(T, computing),
    LENGTH_OF(T, communication_not_overlapped), LENGTH_OF(T, overlapped), LENGTH_OF(T, communication),
    LENGTH_OF(T, free), LENGTH_OF(T, stage), LENGTH_OF(T, bubble),
    LENGTH_OF(T, communication_not_overlapped_exclude_receive), LENGTH_OF(T, preparing),
    TIME(T, window_start), TIME_AFTER(T, window_end, window_start), LENGTH_OF(T, window_computing),
    LENGTH_OF(T, window_exposed), LENGTH_OF(T, window_memory), LENGTH_OF(T, idle_head),
    LENGTH_OF(T, idle_inside), LENGTH_OF(T, idle_tail), LENGTH_OF(T, cpu_ns),
    LENGTH_OF(T, input_ns), /* since version 3: the last one */
#undef T
};
static const struct column op_columns[] = {
#define T struct rs_comm_op
    RISING(T, step, I64), PLAIN(T, type, U8), PLAIN(T, flags, U8), PLAIN(T, device, I32),
    RISING(T, stream, I64), RISING(T, caller_thread, I64), PLAIN(T, group, U32), PLAIN(T, peer, I32),
    PLAIN(T, root, I32), PLAIN(T, bytes, I64), RISING(T, seq, I64), PLAIN(T, comms_id, U64),
    PLAIN(T, shape_hash, U64), RISING(T, call_order, I64), TIME(T, call_start),
    TIME_AFTER(T, start, call_start), TIME_AFTER(T, end, start), NAME(T, name), NAME(T, transport),
    NAME(T, op_text), RISING(T, task_first, U32), PLAIN(T, task_count, U32),
#undef T
};
static const struct column task_columns[] = {
#define T struct rs_comm_task
    PLAIN(T, src, I32), PLAIN(T, dst, I32), PLAIN(T, is_send, FLAG), PLAIN(T, bytes, I64),
    TIME(T, start), TIME_AFTER(T, end, start), NAME(T, transport),
#undef T
};
static const struct column kernel_columns[] = {
#define T struct rs_kernel_row
    NAME(T, name), PLAIN(T, device, I32), PLAIN(T, work_class, U8), PLAIN(T, count, I64),
    LENGTH_OF(T, total), LENGTH_OF(T, min), LENGTH_OF(T, max),
#undef T
};
static const struct column span_columns[] = {
#define T struct rs_span_row
    RISING(T, step, I64), PLAIN(T, device, I32), RISING(T, stream, I64), RISING(T, thread, I64),
    RISING(T, order, I64), PLAIN(T, kind, U8), TIME(T, launch_first), TIME_AFTER(T, launch_last, launch_first),
    TIME(T, start), TIME_AFTER(T, end, start), LENGTH_OF(T, busy), PLAIN(T, count, I64),
    PLAIN(T, signature, U64), NAME(T, top_name), LENGTH_OF(T, top_ns),
#undef T
};
static const struct column vendor_columns[] = {
#define T struct rs_provenance
    NAME(T, framework), NAME(T, framework_version), NAME(T, cann_version), PLAIN(T, has_text_steps, FLAG),
#undef T
};
enum { VENDOR_COLUMNS_WITHOUT_DIGITS = 3 };
static const struct column vendor_step_columns[] = {
#define T struct rs_vendor_step
    NAME(T, step), PLAIN(T, device, I64), LENGTH_OF(T, ps[0]), LENGTH_OF(T, ps[1]), LENGTH_OF(T, ps[2]),
    LENGTH_OF(T, ps[3]), LENGTH_OF(T, ps[4]), LENGTH_OF(T, ps[5]), LENGTH_OF(T, ps[6]), LENGTH_OF(T, ps[7]),
    LENGTH_OF(T, ps[8]), NAME(T, digits[0]), NAME(T, digits[1]), NAME(T, digits[2]), NAME(T, digits[3]),
    NAME(T, digits[4]), NAME(T, digits[5]), NAME(T, digits[6]), NAME(T, digits[7]), NAME(T, digits[8]),
#undef T
};
enum { SAID_STEP_COLUMNS_WITHOUT_DIGITS = 11 };
static const struct column vendor_comm_columns[] = {
#define T struct rs_vendor_comm
    NAME(T, step), NAME(T, group), NAME(T, name), PLAIN(T, is_p2p, FLAG), TIME(T, start), LENGTH_OF(T, elapse),
    LENGTH_OF(T, transit), LENGTH_OF(T, wait), LENGTH_OF(T, synchronization), LENGTH_OF(T, idle),
    PLAIN(T, is_total, FLAG), NAME(T, digits[0]), NAME(T, digits[1]), NAME(T, digits[2]), NAME(T, digits[3]),
    NAME(T, digits[4]), NAME(T, digits[5]), NAME(T, digits[6]), NAME(T, digits[7]), PLAIN(T, band_count, U32),
#undef T
};
enum { SAID_COMM_COLUMNS_WITHOUT_DIGITS = 10 };
static const struct column said_band_columns[] = {
#define T struct rs_vendor_band
    NAME(T, transport), NAME(T, fields[0]), NAME(T, fields[1]), NAME(T, fields[2]), NAME(T, fields[3]),
    NAME(T, package[0]), NAME(T, package[1]), NAME(T, package[2]),
#undef T
};
static const struct column said_link_columns[] = {
#define T struct rs_vendor_link
    NAME(T, step), NAME(T, group), NAME(T, kind), NAME(T, transport), NAME(T, op_name), PLAIN(T, is_p2p, FLAG),
    PLAIN(T, src, I32), PLAIN(T, dst, I32), PLAIN(T, global_src, I32), PLAIN(T, global_dst, I32),
    NAME(T, fields[0]), NAME(T, fields[1]), NAME(T, fields[2]),
#undef T
};
/* clang-format on */

_Static_assert(sizeof(enum rs_rank_source) == 4 && sizeof(enum rs_step_origin) == 4 &&
                   sizeof(size_t) == 8 && sizeof(bool) == 1,
               "fields that columns read as integers");

static uint64_t get(const void *row, size_t offset, enum width width)
{
    const char *at = (const char *)row + offset;
    uint8_t small;
    uint32_t middle;
    int32_t middle_signed;
    uint64_t large;
    switch (width) {
    case U8:
    case FLAG:
        memcpy(&small, at, sizeof small);
        return small;
    case U32:
        memcpy(&middle, at, sizeof middle);
        return middle;
    case I32:
        memcpy(&middle_signed, at, sizeof middle_signed);
        return (uint64_t)(int64_t)middle_signed;
    case I64:
    case U64:
        memcpy(&large, at, sizeof large);
        return large;
    }
    return 0;
}

/* False when the value does not fit the field. */
static bool set(void *row, size_t offset, enum width width, uint64_t value)
{
    char *at = (char *)row + offset;
    const int64_t number = (int64_t)value;
    const uint8_t small = (uint8_t)value;
    const uint32_t middle = (uint32_t)value;
    switch (width) {
    case U8:
    case FLAG:
        if (value > (width == FLAG ? 1 : UINT8_MAX))
            return false;
        memcpy(at, &small, sizeof small);
        return true;
    case U32:
        if (value > UINT32_MAX)
            return false;
        memcpy(at, &middle, sizeof middle);
        return true;
    case I32:
        if (number < INT32_MIN || number > INT32_MAX)
            return false;
        memcpy(at, &middle, sizeof middle);
        return true;
    case I64:
    case U64:
        memcpy(at, &value, sizeof value);
        return true;
    }
    return false;
}

static uint64_t reference(const struct column *column, const char *row, const char *row_before)
{
    switch (column->against) {
    case NOTHING:
        return 0;
    case ROW_BEFORE:
        return row_before ? get(row_before, column->offset, column->width) : 0;
    case COLUMN:
        return get(row, column->other, I64);
    }
    return 0;
}

struct table {
    const struct column *columns;
    size_t column_count;
    size_t row_bytes;
};

#define TABLE(columns, type)                                                                       \
    ((struct table){columns, sizeof(columns) / sizeof *(columns), sizeof(type)})

static void write_rows(struct rs_buf *buf, struct table table, const void *rows, size_t count)
{
    for (size_t c = 0; c < table.column_count; c++) {
        const struct column *column = &table.columns[c];
        const char *before = NULL;
        for (size_t i = 0; i < count; i++) {
            const char *row = (const char *)rows + i * table.row_bytes;
            const uint64_t value = get(row, column->offset, column->width);
            rs_buf_zigzag(buf, (int64_t)(value - reference(column, row, before)));
            before = row;
        }
    }
}

static void write_table(struct rs_buf *buf, struct table table, const void *rows, size_t count)
{
    rs_buf_varint(buf, count);
    write_rows(buf, table, rows, count);
}

/* ---- writing ---- */

static void write_groups(struct rs_buf *buf, const struct rs_group_info *groups, size_t count)
{
    write_table(buf, TABLE(group_columns, struct rs_group_info), groups, count);
    for (size_t i = 0; i < count; i++) {
        int64_t before = 0;
        for (size_t k = 0; k < groups[i].rank_count; k++) {
            rs_buf_zigzag(buf, groups[i].ranks[k] - before);
            before = groups[i].ranks[k];
        }
    }
}

static void write_strings(struct rs_buf *buf, const struct rs_strtab *strings)
{
    rs_buf_varint(buf, strings->count - 1); /* without the empty one */
    for (size_t id = 1; id < strings->count; id++) {
        const size_t length = rs_strtab_length(strings, (rs_str)id);
        rs_buf_varint(buf, length);
        rs_buf_bytes(buf, rs_strtab_text(strings, (rs_str)id), length);
    }
}

/* The appendix. Version 0: nobody said anything. */
static void write_vendor(struct rs_buf *buf, const struct rs_provenance *vendor)
{
    rs_buf_varint(buf, vendor ? VENDOR_VERSION : 0);
    if (!vendor)
        return;
    write_rows(buf, TABLE(vendor_columns, struct rs_provenance), vendor, 1);
    write_table(buf, TABLE(vendor_step_columns, struct rs_vendor_step), vendor->steps,
                vendor->step_count);
    write_table(buf, TABLE(vendor_comm_columns, struct rs_vendor_comm), vendor->comms,
                vendor->comm_count);
    write_table(buf, TABLE(said_band_columns, struct rs_vendor_band), vendor->bands,
                vendor->band_count);
    write_table(buf, TABLE(said_link_columns, struct rs_vendor_link), vendor->links,
                vendor->link_count);
}

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static bool has_input_inside(const struct rs_summary *summary)
{
    for (size_t i = 0; i < summary->step_count; i++) {
        if (summary->steps[i].input_inside_ns > 0)
            return true;
    }
    return false;
}

enum rs_status rs_summary_encode(const struct rs_summary *summary, struct rs_buf *buf,
                                 struct rs_err *err)
{
    const size_t begin = buf->length;
    rs_buf_bytes(buf, summary_magic, sizeof summary_magic);
    const bool has_inside = has_input_inside(summary);
    rs_buf_u32(buf, has_inside                  ? SUMMARY_VERSION_INPUT
                    : summary->trace.written_ns ? SUMMARY_VERSION_WRITTEN
                                                : SUMMARY_VERSION);
    rs_buf_u32(buf, 0); /* checksum, below */
    rs_buf_u64(buf, 0); /* length of the body, below */
    write_strings(buf, &summary->strings);
    write_rows(buf, TABLE(info_columns, struct rs_trace_info), &summary->trace, 1);
    write_table(buf, TABLE(drop_columns, struct rs_drop), summary->trace.drops,
                summary->trace.drop_count);
    write_groups(buf, summary->trace.groups, summary->trace.group_count);
    write_rows(buf, TABLE(head_columns, struct rs_summary), summary, 1);
    write_table(buf, TABLE(device_columns, struct rs_device_row), summary->devices,
                summary->device_count);
    write_table(buf, TABLE(step_columns, struct rs_step_row), summary->steps, summary->step_count);
    write_groups(buf, summary->groups, summary->group_count);
    write_table(buf, TABLE(task_columns, struct rs_comm_task), summary->tasks, summary->task_count);
    write_table(buf, TABLE(op_columns, struct rs_comm_op), summary->ops, summary->op_count);
    write_table(buf, TABLE(kernel_columns, struct rs_kernel_row), summary->kernels,
                summary->kernel_count);
    write_table(buf, TABLE(span_columns, struct rs_span_row), summary->spans, summary->span_count);
    write_vendor(buf, summary->trace.vendor);
    if (summary->trace.written_ns || has_inside)
        rs_buf_zigzag(buf, summary->trace.written_ns);
    for (size_t i = 0; has_inside && i < summary->step_count; i++)
        rs_buf_zigzag(buf, summary->steps[i].input_inside_ns);
    if (buf->failed)
        return rs_err_set(err, RS_NOMEM, "no memory for the bytes of a rank summary");
    const uint64_t body = buf->length - begin - SUMMARY_HEADER_BYTES;
    if (body > SUMMARY_MAX_BYTES) {
        buf->length = begin;
        return rs_err_set(err, RS_LIMIT, "a rank summary of %llu bytes is over the limit of %llu",
                          (unsigned long long)body, (unsigned long long)SUMMARY_MAX_BYTES);
    }
    uint8_t *header = buf->data + begin;
    put_u32(header + 16, (uint32_t)body);
    put_u32(header + 20, (uint32_t)(body >> 32));
    put_u32(header + 12, rs_crc32c(0, header + SUMMARY_CHECKED_FROM,
                                   buf->length - begin - SUMMARY_CHECKED_FROM));
    return RS_OK;
}

/* ---- reading ---- */

struct reader {
    struct rs_view view;
    struct rs_summary *summary;
    uint32_t version;
    enum rs_status status; /* first failure */
    const char *what;      /* what was being read then */
};

static void fail(struct reader *reader, enum rs_status status, const char *what)
{
    if (reader->status != RS_OK)
        return;
    reader->status = status;
    reader->what = what;
}

static bool is_in_limit(int64_t value)
{
    return value >= -SUMMARY_NS_LIMIT && value <= SUMMARY_NS_LIMIT;
}

static bool has_meaning(const struct reader *reader, const struct column *column, uint64_t value)
{
    switch (column->meaning) {
    case ANY:
        return true;
    case STRING:
        return value == RS_STR_NONE || value < reader->summary->strings.count;
    case INSTANT:
    case LENGTH:
        return is_in_limit((int64_t)value);
    }
    return false;
}

static void read_rows(struct reader *reader, struct table table, void *rows, size_t count,
                      const char *what)
{
    for (size_t c = 0; c < table.column_count; c++) {
        const struct column *column = &table.columns[c];
        const char *before = NULL;
        for (size_t i = 0; i < count; i++) {
            char *row = (char *)rows + i * table.row_bytes;
            const uint64_t value =
                (uint64_t)rs_view_zigzag(&reader->view) + reference(column, row, before);
            if (reader->view.failed || !set(row, column->offset, column->width, value) ||
                !has_meaning(reader, column, value)) {
                fail(reader, RS_FORMAT, what);
                return;
            }
            before = row;
        }
    }
}

/* A count that the bytes left can hold, at `least` bytes each. */
static size_t read_count(struct reader *reader, size_t least, const char *what)
{
    const uint64_t count = rs_view_varint(&reader->view);
    if (reader->status != RS_OK)
        return 0;
    if (reader->view.failed || count > reader->view.length / least) {
        fail(reader, RS_FORMAT, what);
        return 0;
    }
    return (size_t)count;
}

/* Rows in fresh memory, NULL when there are none. */
static void *read_table(struct reader *reader, struct table table, size_t *count_p,
                        const char *what)
{
    const size_t count = read_count(reader, table.column_count, what);
    if (!count)
        return NULL;
    void *rows = rs_mem_calloc(count, table.row_bytes);
    if (!rows) {
        fail(reader, RS_NOMEM, what);
        return NULL;
    }
    read_rows(reader, table, rows, count, what);
    *count_p = count;
    return rows;
}

/* Where the strings end nobody says: their lengths do, in front of each. A copy of the view is read. */
static size_t bytes_of_strings(struct rs_view view, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count && !view.failed; i++) {
        const uint64_t length = rs_view_varint(&view);
        if (view.failed || length > view.length)
            break;
        bytes += (size_t)length;
        (void)rs_view_take(&view, (size_t)length);
    }
    return bytes;
}

/* A job has a table for each of its ranks: it is made for the strings that are in it. None of them is empty. */
static void read_strings(struct reader *reader)
{
    struct rs_strtab *strings = &reader->summary->strings;
    const size_t count = read_count(reader, 1, "strings");
    const size_t bytes = bytes_of_strings(reader->view, count);
    if (reader->status == RS_OK &&
        rs_strtab_init_for(strings, count < bytes ? count : bytes, bytes) != RS_OK)
        fail(reader, RS_NOMEM, "strings");
    for (size_t i = 0; reader->status == RS_OK && i < count; i++) {
        const uint64_t length = rs_view_varint(&reader->view);
        if (reader->view.failed || length > reader->view.length) {
            fail(reader, RS_FORMAT, "strings");
            return;
        }
        const struct rs_view text = rs_view_take(&reader->view, (size_t)length);
        rs_str id;
        const enum rs_status status =
            rs_strtab_add(strings, (const char *)text.data, text.length, &id);
        if (status != RS_OK)
            fail(reader, status, "strings");
        else if (id != i + 1) /* twice the same */
            fail(reader, RS_FORMAT, "strings");
    }
}

static void read_groups(struct reader *reader, struct rs_group_info **groups_p, size_t *count_p)
{
    size_t count = 0;
    struct rs_group_info *groups =
        read_table(reader, TABLE(group_columns, struct rs_group_info), &count, "groups");
    *groups_p = groups;
    *count_p = count;
    for (size_t i = 0; i < count; i++) { /* each list is NULL until read */
        const uint64_t ranks = groups[i].rank_count;
        groups[i].rank_count = 0;
        if (reader->status != RS_OK)
            continue;
        if (ranks > reader->view.length) {
            fail(reader, RS_FORMAT, "groups");
            continue;
        }
        groups[i].ranks = rs_mem_calloc(ranks ? (size_t)ranks : 1, sizeof *groups[i].ranks);
        if (!groups[i].ranks) {
            fail(reader, RS_NOMEM, "groups");
            continue;
        }
        groups[i].rank_count = (size_t)ranks;
        uint64_t rank = 0;
        for (size_t k = 0; k < groups[i].rank_count; k++) {
            rank += (uint64_t)rs_view_zigzag(&reader->view);
            if (reader->view.failed || (int64_t)rank < INT32_MIN || (int64_t)rank > INT32_MAX) {
                fail(reader, RS_FORMAT, "groups");
                break;
            }
            groups[i].ranks[k] = (int32_t)(int64_t)rank;
        }
    }
}

/* Version 1 had no digits, transports or links. */
static void read_vendor_without_digits(struct reader *reader, struct rs_provenance *vendor,
                                       const char *what)
{
    struct table steps = TABLE(vendor_step_columns, struct rs_vendor_step);
    struct table comms = TABLE(vendor_comm_columns, struct rs_vendor_comm);
    steps.column_count = SAID_STEP_COLUMNS_WITHOUT_DIGITS;
    comms.column_count = SAID_COMM_COLUMNS_WITHOUT_DIGITS;
    vendor->steps = read_table(reader, steps, &vendor->step_count, what);
    vendor->comms = read_table(reader, comms, &vendor->comm_count, what);
    for (size_t i = 0; i < vendor->step_count; i++)
        for (size_t k = 0; k < RS_VENDOR_STEP_FIELDS; k++)
            vendor->steps[i].digits[k] = RS_STR_NONE;
    for (size_t i = 0; i < vendor->comm_count; i++)
        for (size_t k = 0; k < RS_VENDOR_TIMES; k++)
            vendor->comms[i].digits[k] = RS_STR_NONE;
}

static void read_vendor_tables(struct reader *reader, struct rs_provenance *vendor,
                               const char *what)
{
    vendor->steps = read_table(reader, TABLE(vendor_step_columns, struct rs_vendor_step),
                               &vendor->step_count, what);
    vendor->comms = read_table(reader, TABLE(vendor_comm_columns, struct rs_vendor_comm),
                               &vendor->comm_count, what);
    vendor->bands = read_table(reader, TABLE(said_band_columns, struct rs_vendor_band),
                               &vendor->band_count, what);
    vendor->links = read_table(reader, TABLE(said_link_columns, struct rs_vendor_link),
                               &vendor->link_count, what);
    uint64_t bands = 0;
    for (size_t i = 0; i < vendor->comm_count; i++)
        bands += vendor->comms[i].band_count;
    if (bands != vendor->band_count)
        fail(reader, RS_FORMAT, what);
}

static void read_vendor(struct reader *reader)
{
    static const char what[] = "vendor's figures";
    if (reader->status != RS_OK || reader->version == SUMMARY_VERSION_WITHOUT_VENDOR)
        return;
    const uint64_t version = rs_view_varint(&reader->view);
    if (reader->view.failed || version > VENDOR_VERSION) {
        fail(reader, reader->view.failed ? RS_FORMAT : RS_VERSION, what);
        return;
    }
    if (!version)
        return;
    struct rs_provenance *vendor = rs_provenance_new();
    if (!vendor) {
        fail(reader, RS_NOMEM, what);
        return;
    }
    reader->summary->trace.vendor = vendor;
    struct table head = TABLE(vendor_columns, struct rs_provenance);
    if (version == VENDOR_VERSION_WITHOUT_DIGITS)
        head.column_count = VENDOR_COLUMNS_WITHOUT_DIGITS;
    read_rows(reader, head, vendor, 1, what);
    if (version == VENDOR_VERSION_WITHOUT_DIGITS)
        read_vendor_without_digits(reader, vendor, what);
    else
        read_vendor_tables(reader, vendor, what);
    vendor->step_capacity = vendor->step_count;
    vendor->comm_capacity = vendor->comm_count;
    vendor->band_capacity = vendor->band_count;
    vendor->link_capacity = vendor->link_count;
}

/* Versions before 3 have one column less. */
static void read_steps(struct reader *reader)
{
    struct rs_summary *s = reader->summary;
    struct table table = TABLE(step_columns, struct rs_step_row);
    const bool has_input = reader->version > SUMMARY_VERSION_WITHOUT_SPANS;
    table.column_count -= !has_input;
    s->steps = read_table(reader, table, &s->step_count, "steps");
    for (size_t i = 0; !has_input && i < s->step_count; i++)
        s->steps[i].input_ns = -1;
}

/* Before version 5 it is 0 wherever input_ns is known. */
static void read_input_inside(struct reader *reader)
{
    struct rs_summary *s = reader->summary;
    const bool is_given = reader->version >= SUMMARY_VERSION_INPUT;
    for (size_t i = 0; i < s->step_count && reader->status == RS_OK; i++) {
        struct rs_step_row *row = &s->steps[i];
        row->input_inside_ns = is_given            ? rs_view_zigzag(&reader->view)
                               : row->input_ns < 0 ? -1
                                                   : 0;
        if (reader->view.failed || row->input_inside_ns < -1 || !is_in_limit(row->input_inside_ns))
            fail(reader, RS_FORMAT, "input within a step");
    }
}

static void read_body(struct reader *reader)
{
    struct rs_summary *s = reader->summary;
    read_strings(reader);
    if (reader->status != RS_OK)
        return;
    read_rows(reader, TABLE(info_columns, struct rs_trace_info), &s->trace, 1, "trace");
    s->trace.drops =
        read_table(reader, TABLE(drop_columns, struct rs_drop), &s->trace.drop_count, "drops");
    read_groups(reader, &s->trace.groups, &s->trace.group_count);
    read_rows(reader, TABLE(head_columns, struct rs_summary), s, 1, "head");
    s->devices = read_table(reader, TABLE(device_columns, struct rs_device_row), &s->device_count,
                            "devices");
    read_steps(reader);
    read_groups(reader, &s->groups, &s->group_count);
    s->tasks =
        read_table(reader, TABLE(task_columns, struct rs_comm_task), &s->task_count, "tasks");
    s->ops = read_table(reader, TABLE(op_columns, struct rs_comm_op), &s->op_count, "operations");
    s->kernels = read_table(reader, TABLE(kernel_columns, struct rs_kernel_row), &s->kernel_count,
                            "kernels");
    if (reader->version > SUMMARY_VERSION_WITHOUT_SPANS)
        s->spans =
            read_table(reader, TABLE(span_columns, struct rs_span_row), &s->span_count, "spans");
    s->span_capacity = s->span_count;
    s->trace.drop_capacity = s->trace.drop_count;
    s->trace.group_capacity = s->trace.group_count;
    s->device_capacity = s->device_count;
    s->step_capacity = s->step_count;
    s->group_capacity = s->group_count;
    s->task_capacity = s->task_count;
    s->op_capacity = s->op_count;
    s->kernel_capacity = s->kernel_count;
    read_vendor(reader);
    if (reader->status == RS_OK && reader->version >= SUMMARY_VERSION_WRITTEN) {
        const rs_ns least = reader->version == SUMMARY_VERSION_WRITTEN; /* else 0 is not known */
        s->trace.written_ns = rs_view_zigzag(&reader->view);
        if (reader->view.failed || s->trace.written_ns < least || !is_in_limit(s->trace.written_ns))
            fail(reader, RS_FORMAT, "end of writing");
    }
    read_input_inside(reader);
    if (reader->status == RS_OK && reader->view.length)
        fail(reader, RS_FORMAT, "end");
}

/* ---- what rows promise each other ---- */

static bool steps_hold(const struct rs_summary *s)
{
    for (size_t i = 0; i < s->step_count; i++) {
        const struct rs_step_row *row = &s->steps[i];
        if (row->host_end < row->host_start || row->window_end < row->window_start)
            return false;
    }
    for (size_t i = 0; i < s->device_count; i++) {
        if (s->devices[i].window_end < s->devices[i].window_start)
            return false;
    }
    return true;
}

static bool ops_hold(const struct rs_summary *s)
{
    for (size_t i = 0; i < s->op_count; i++) {
        const struct rs_comm_op *op = &s->ops[i];
        if (op->type >= RS_OP_TYPE_COUNT || op->end < op->start || op->bytes < -1 ||
            (op->group != RS_NO_GROUP && op->group >= s->group_count) ||
            op->task_first > s->task_count || op->task_count > s->task_count - op->task_first)
            return false;
    }
    for (size_t i = 0; i < s->task_count; i++) {
        if (s->tasks[i].end < s->tasks[i].start || s->tasks[i].bytes < -1)
            return false;
    }
    return true;
}

static bool spans_hold(const struct rs_summary *s)
{
    for (size_t i = 0; i < s->span_count; i++) {
        const struct rs_span_row *span = &s->spans[i];
        if (span->kind >= RS_SPAN_KIND_COUNT || span->end < span->start || span->busy < 0 ||
            span->count < 0 || span->launch_last < span->launch_first ||
            (i && span->order <= s->spans[i - 1].order))
            return false;
    }
    return true;
}

static void check_rows(struct reader *reader)
{
    const struct rs_summary *s = reader->summary;
    if (reader->status != RS_OK)
        return;
    if (s->trace.rank_source > RS_RANK_PROCESS || s->step_origin > RS_STEPS_NATIVE ||
        !is_in_limit(s->trace.base_ns))
        fail(reader, RS_FORMAT, "trace");
    if (!steps_hold(s))
        fail(reader, RS_FORMAT, "steps");
    if (!ops_hold(s))
        fail(reader, RS_FORMAT, "operations");
    if (!spans_hold(s))
        fail(reader, RS_FORMAT, "spans");
    for (size_t i = 0; i < s->kernel_count; i++) {
        if (s->kernels[i].work_class >= RS_WORK_CLASS_COUNT || s->kernels[i].count < 0)
            fail(reader, RS_FORMAT, "kernels");
    }
}

static enum rs_status check_header(struct rs_view bytes, struct reader *reader, struct rs_err *err)
{
    struct rs_view view = bytes;
    const struct rs_view magic = rs_view_take(&view, sizeof summary_magic);
    const uint32_t version = rs_view_u32(&view);
    const uint32_t checksum = rs_view_u32(&view);
    const uint64_t length = rs_view_u64(&view);
    if (view.failed || memcmp(magic.data, summary_magic, sizeof summary_magic) != 0)
        return rs_err_set(err, RS_FORMAT, "%zu bytes are no rank summary", bytes.length);
    if (version < SUMMARY_VERSION_WITHOUT_VENDOR || version > SUMMARY_VERSION_INPUT)
        return rs_err_set(err, RS_VERSION, "a rank summary of version %u; this program reads %d",
                          version, SUMMARY_VERSION_INPUT);
    if (length > SUMMARY_MAX_BYTES)
        return rs_err_set(err, RS_LIMIT, "a rank summary of %llu bytes is over the limit of %llu",
                          (unsigned long long)length, (unsigned long long)SUMMARY_MAX_BYTES);
    if (length != view.length)
        return rs_err_set(err, RS_FORMAT, "a rank summary says %llu bytes and has %zu",
                          (unsigned long long)length, view.length);
    if (rs_crc32c(0, bytes.data + SUMMARY_CHECKED_FROM, bytes.length - SUMMARY_CHECKED_FROM) !=
        checksum)
        return rs_err_set(err, RS_FORMAT, "a rank summary's checksum does not fit its bytes");
    reader->view = view;
    reader->version = version;
    return RS_OK;
}

enum rs_status rs_summary_decode(struct rs_view bytes, struct rs_summary *summary_p,
                                 struct rs_err *err)
{
    struct reader reader = {0};
    enum rs_status status = check_header(bytes, &reader, err);
    if (status != RS_OK)
        return status;
    struct rs_summary summary = {.is_of_older_format = reader.version < SUMMARY_VERSION};
    rs_trace_info_init(&summary.trace);
    reader.summary = &summary;
    read_body(&reader);
    check_rows(&reader);
    if (reader.status != RS_OK) {
        rs_summary_fini(&summary);
        return rs_err_set(err, reader.status, "a rank summary's %s: %s", reader.what,
                          rs_status_text(reader.status));
    }
    *summary_p = summary;
    return RS_OK;
}
