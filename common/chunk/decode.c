/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An EVENTS body -> rows. Pairs with encode.c; trusts nothing: every length is checked where it is
 * read, every id before it is used as an index; what comes out passes rs_batch_check().
 */
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/chunk/chunk_priv.h"

#include <string.h>

struct decoder {
    struct rows rows;
    struct rs_batch batch;
    size_t capacity;  /* rows that everything below has room for */
    uint64_t *values; /* of one group */
    uint32_t *templates;
    struct memo by_name;
    struct memo by_lane;
    struct extra_coder *extra;
    uint64_t time_scale;
    struct rs_view directory;
    struct rs_view data;
};

void decoder_free(struct decoder **decoder_p)
{
    struct decoder *dec = *decoder_p;
    if (!dec)
        return;
    rows_fini(&dec->rows);
    rs_batch_fini(&dec->batch);
    rs_mem_free(dec->values);
    rs_mem_free(dec->templates);
    memo_fini(&dec->by_name);
    memo_fini(&dec->by_lane);
    extra_free(&dec->extra);
    rs_mem_free(dec);
    *decoder_p = NULL;
}

enum rs_status decoder_new(struct decoder **decoder_p)
{
    struct decoder *dec = rs_mem_calloc(1, sizeof *dec);
    if (!dec)
        return RS_NOMEM;
    *decoder_p = dec;
    return RS_OK;
}

/* Room for this many rows: rounded up, so that a stream's chunks soon find all they need. */
static enum rs_status reserve_rows(struct decoder *dec, const struct rs_chunk_reader *reader,
                                   size_t count)
{
    if (count <= dec->capacity)
        return RS_OK;
    size_t capacity = 1024;
    while (capacity < count)
        capacity *= 2;
    rows_fini(&dec->rows);
    rs_batch_fini(&dec->batch);
    extra_free(&dec->extra);
    rs_mem_free(dec->values);
    rs_mem_free(dec->templates);
    dec->capacity = 0;
    dec->values = rs_mem_calloc(capacity, sizeof *dec->values);
    dec->templates = rs_mem_calloc(capacity, sizeof *dec->templates);
    if (!dec->values || !dec->templates || rows_init(&dec->rows, capacity) != RS_OK ||
        extra_new(capacity, &dec->extra) != RS_OK ||
        rs_batch_init(&dec->batch, &reader->strings, &reader->lanes, capacity) != RS_OK)
        return RS_NOMEM;
    dec->capacity = capacity;
    return RS_OK;
}

static rs_str string_id(uint64_t value)
{
    return (rs_str)(uint32_t)(value - 1);
}

/* The value of a row that is decoded already. Only columns that are predicted from REFERENCE. */
static uint64_t value_at(const struct decoder *dec, enum column column, size_t row)
{
    switch ((int)column) {
    case COL_LANE:
        return dec->batch.lane[row];
    case COL_START:
        return (uint64_t)dec->batch.start[row];
    case COL_CORRELATION:
        return (uint64_t)dec->batch.correlation[row];
    default:
        return 0;
    }
}

/* values[]: what was stored -> what it means. `base` is what the first row is predicted from. */
static void restore_lane(struct decoder *dec, const struct group *group, bool is_end, uint64_t base)
{
    uint64_t before = base;
    memo_forget(&dec->by_lane);
    for (size_t i = 0; i < group->count; i++) {
        const size_t row = group->rows[i];
        struct memo_entry *entry = &dec->by_lane.entries[dec->batch.lane[row]];
        const uint64_t predicted = entry->stamp == dec->by_lane.stamp ? entry->value : before;
        const uint64_t value = predicted + unzigzag(dec->values[i]) * dec->time_scale;
        /* `end` still holds the length */
        const uint64_t newest = is_end ? value + (uint64_t)dec->batch.end[row] : value;
        *entry = (struct memo_entry){.value = newest, .stamp = dec->by_lane.stamp};
        dec->values[i] = value;
        before = value;
    }
}

static enum rs_status restore_name(struct decoder *dec, const struct group *group)
{
    memo_forget(&dec->by_name);
    for (size_t i = 0; i < group->count; i++) {
        struct memo_entry *entry = &dec->by_name.entries[dec->batch.name[group->rows[i]]];
        uint64_t value = dec->values[i];
        if (value)
            *entry = (struct memo_entry){.value = value, .stamp = dec->by_name.stamp};
        else if (entry->stamp == dec->by_name.stamp)
            value = entry->value;
        else
            return RS_FORMAT;
        dec->values[i] = value - 1;
    }
    return RS_OK;
}

static void restore_previous(struct decoder *dec, const struct group *group, uint64_t base,
                             uint64_t scale)
{
    uint64_t before = base;
    for (size_t i = 0; i < group->count; i++) {
        before += unzigzag(dec->values[i]) * scale;
        dec->values[i] = before;
    }
}

static enum rs_status restore(struct decoder *dec, enum column column, const struct group *group,
                              enum predictor predictor, uint64_t base)
{
    const uint64_t scale = column_specs[column].type == COLUMN_TIME ? dec->time_scale : 1;
    switch (predictor) {
    case PREDICT_RAW:
        for (size_t i = 0; scale != 1 && i < group->count; i++)
            dec->values[i] *= scale;
        return RS_OK;
    case PREDICT_SIGNED:
        for (size_t i = 0; i < group->count; i++)
            dec->values[i] = unzigzag(dec->values[i]);
        return RS_OK;
    case PREDICT_PREVIOUS:
        restore_previous(dec, group, base, scale);
        return RS_OK;
    case PREDICT_LANE:
    case PREDICT_LANE_END:
        restore_lane(dec, group, predictor == PREDICT_LANE_END, base);
        return RS_OK;
    case PREDICT_REFERENCE:
        for (size_t i = 0; i < group->count; i++) {
            const uint32_t reference = dec->rows.reference[group->rows[i]];
            const uint64_t predicted = reference ? value_at(dec, column, reference - 1) : 0;
            dec->values[i] = predicted + unzigzag(dec->values[i]) * scale;
        }
        return RS_OK;
    case PREDICT_NAME:
        return restore_name(dec, group);
    case PREDICTOR_COUNT:
        break;
    }
    return RS_FORMAT;
}

/* Where a group's values go: all rows of a group, or (rows NULL) one value to all rows. */
struct target {
    const uint64_t *values;
    const uint32_t *rows;
    size_t count;
};

static void put_u8(const struct target *to, uint8_t *cells)
{
    if (!to->rows)
        memset(cells, (int)*to->values, to->count);
    for (size_t i = 0; to->rows && i < to->count; i++)
        cells[to->rows[i]] = (uint8_t)to->values[i];
}

static void put_u32(const struct target *to, uint32_t *cells)
{
    const uint32_t value = (uint32_t)*to->values;
    for (size_t i = 0; !to->rows && i < to->count; i++)
        cells[i] = value;
    for (size_t i = 0; to->rows && i < to->count; i++)
        cells[to->rows[i]] = (uint32_t)to->values[i];
}

static void put_str(const struct target *to, rs_str *cells)
{
    const rs_str value = string_id(*to->values);
    for (size_t i = 0; !to->rows && i < to->count; i++)
        cells[i] = value;
    for (size_t i = 0; to->rows && i < to->count; i++)
        cells[to->rows[i]] = string_id(to->values[i]);
}

static void put_i64(const struct target *to, int64_t *cells)
{
    const int64_t value = (int64_t)*to->values;
    for (size_t i = 0; !to->rows && i < to->count; i++)
        cells[i] = value;
    for (size_t i = 0; to->rows && i < to->count; i++)
        cells[to->rows[i]] = (int64_t)to->values[i];
}

/* Values -> the column's cells. */
static void put_cells(struct decoder *dec, enum column column, const struct target *to)
{
    struct rs_batch *batch = &dec->batch;
    switch (column) {
    case COL_NAME:
        put_str(to, batch->name);
        return;
    case COL_LANE:
        put_u32(to, batch->lane);
        return;
    case COL_DURATION: /* until the start is known */
        put_i64(to, batch->end);
        return;
    case COL_START:
        put_i64(to, batch->start);
        return;
    case COL_CATEGORY:
        put_str(to, batch->category);
        return;
    case COL_FLAGS:
        put_u8(to, batch->flags);
        return;
    case COL_PHASE:
        put_u8(to, batch->phase);
        return;
    case COL_CORRELATION:
        put_i64(to, batch->correlation);
        return;
    case COL_EXTERNAL_ID:
        put_i64(to, batch->external_id);
        return;
    case COL_BYTES:
        put_i64(to, batch->bytes);
        return;
    case COL_CPU_NS:
        put_i64(to, batch->cpu_ns);
        return;
    case COL_INPUT_DIMS:
        put_str(to, batch->input_dims);
        return;
    case COL_INPUT_TYPES:
        put_str(to, batch->input_types);
        return;
    case COL_CONCRETE_INPUTS:
        put_str(to, batch->concrete_inputs);
        return;
    case COL_HAS_COMM: /* until the rows are counted */
        put_u32(to, batch->comm);
        return;
    case COL_EXTRA_TEMPLATE:
        put_u32(to, dec->templates);
        return;
    case COLUMN_COUNT:
        return;
    }
}

/* How many values a column's cell may hold, counted from 0, or UINT64_MAX: any. Ids and lanes are
 * indexes of tables; a name may not be "none". */
static uint64_t value_limit(const struct decoder *dec, enum column column)
{
    switch (column_specs[column].type) {
    case COLUMN_U8:
        return column == COL_HAS_COMM ? 2 : UINT8_MAX + 1;
    case COLUMN_U32:
        return column == COL_LANE ? dec->batch.lanes->count : (uint64_t)UINT32_MAX + 1;
    case COLUMN_STR:
        return dec->batch.strings->count + 1;
    case COLUMN_I64:
    case COLUMN_TIME:
        break;
    }
    return UINT64_MAX;
}

static bool values_are_in_range(const struct decoder *dec, enum column column,
                                const uint64_t *values, size_t count)
{
    const uint64_t limit = value_limit(dec, column);
    if (limit == UINT64_MAX)
        return true;
    bool is_bad = false;
    if (column == COL_NAME) {
        for (size_t i = 0; i < count; i++)
            is_bad |= values[i] - 1 >= limit - 1;
    } else {
        for (size_t i = 0; i < count; i++)
            is_bad |= values[i] >= limit;
    }
    return !is_bad;
}

static enum rs_status decode_group(struct decoder *dec, enum column column,
                                   const struct group *group)
{
    const uint8_t descriptor = rs_view_u8(&dec->directory);
    const enum predictor predictor = (enum predictor)(descriptor >> 4);
    const bool has_base =
        predictor == PREDICT_PREVIOUS || predictor == PREDICT_LANE || predictor == PREDICT_LANE_END;
    if (predictor >= PREDICTOR_COUNT || !(column_specs[column].predictors & (1u << predictor)) ||
        (predictor == PREDICT_REFERENCE && !kind_is_flow(group->code)))
        return RS_FORMAT;
    const uint64_t base = has_base ? (uint64_t)rs_view_zigzag(&dec->directory) : 0;
    if (ints_decode((enum encoding)(descriptor & 15), group->count, dec->values, &dec->directory,
                    &dec->data) != RS_OK ||
        restore(dec, column, group, predictor, base) != RS_OK ||
        !values_are_in_range(dec, column, dec->values, group->count))
        return RS_FORMAT;
    put_cells(dec, column,
              &(struct target){.values = dec->values, .rows = group->rows, .count = group->count});
    return RS_OK;
}

/* A column that is the same in all rows. */
static enum rs_status decode_const(struct decoder *dec, enum column column)
{
    const uint64_t value = rs_view_varint(&dec->directory);
    if (!values_are_in_range(dec, column, &value, 1))
        return RS_FORMAT;
    put_cells(dec, column, &(struct target){.values = &value, .count = dec->batch.count});
    return RS_OK;
}

static enum rs_status decode_column(struct decoder *dec, enum column column)
{
    const uint8_t mode = rs_view_u8(&dec->directory);
    if (mode == 0)
        return decode_const(dec, column);
    if (mode != 1)
        return RS_FORMAT;
    const enum grouping grouping = column_specs[column].grouping;
    for (size_t g = 0; g < dec->rows.group_count[grouping]; g++) {
        if (decode_group(dec, column, &dec->rows.groups[grouping][g]) != RS_OK)
            return RS_FORMAT;
    }
    return RS_OK;
}

static enum rs_status decode_kinds(struct decoder *dec)
{
    struct rs_batch *batch = &dec->batch;
    const uint8_t descriptor = rs_view_u8(&dec->directory);
    if (ints_decode((enum encoding)descriptor, batch->count, dec->values, &dec->directory,
                    &dec->data) != RS_OK)
        return RS_FORMAT;
    uint64_t largest = 0;
    for (size_t row = 0; row < batch->count; row++) {
        largest = dec->values[row] > largest ? dec->values[row] : largest;
        batch->kind[row] = (uint8_t)dec->values[row];
    }
    return largest < RS_KIND_COUNT ? RS_OK : RS_FORMAT;
}

/* comm: 0 or 1 -> RS_NO_COMM or the index into comms. */
static size_t number_comms(struct rs_batch *batch)
{
    uint32_t count = 0;
    for (size_t row = 0; row < batch->count; row++)
        batch->comm[row] = batch->comm[row] ? count++ : RS_NO_COMM;
    return count;
}

static enum rs_status decode_comm_values(struct decoder *dec, size_t count, uint64_t limit)
{
    const uint8_t descriptor = rs_view_u8(&dec->directory);
    const unsigned predictor = descriptor >> 4;
    if (ints_decode((enum encoding)(descriptor & 15), count, dec->values, &dec->directory,
                    &dec->data) != RS_OK ||
        (predictor != PREDICT_RAW && predictor != PREDICT_PREVIOUS))
        return RS_FORMAT;
    uint64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        if (predictor == PREDICT_PREVIOUS)
            dec->values[i] = before += unzigzag(dec->values[i]);
        if (dec->values[i] > limit)
            return RS_FORMAT;
    }
    return RS_OK;
}

#define CELL_U32(value) ((uint32_t)(value))
#define CELL_STR(value) string_id(value)
#define CELL_I64(value) ((int64_t)(value))
#define CELL_U64(value) (value)
#define LIMIT_U32       UINT32_MAX
#define LIMIT_STR       (dec->batch.strings->count)
#define LIMIT_I64       UINT64_MAX
#define LIMIT_U64       UINT64_MAX

/* One function for each member: its values into all communication rows. */
/* clang-format off */
#define X(member, type)                                                                            \
    static enum rs_status decode_comm_##member(struct decoder *dec, size_t count)                  \
    {                                                                                              \
        if (decode_comm_values(dec, count, LIMIT_##type) != RS_OK)                                 \
            return RS_FORMAT;                                                                      \
        for (size_t i = 0; i < count; i++)                                                         \
            dec->batch.comms[i].member = CELL_##type(dec->values[i]);                              \
        return RS_OK;                                                                              \
    }
COMM_COLUMNS(X)
#undef X
/* clang-format on */

static enum rs_status decode_comms(struct decoder *dec)
{
    static enum rs_status (*const members[])(struct decoder *, size_t) = {
#define X(member, type) decode_comm_##member,
        COMM_COLUMNS(X)
#undef X
    };
    struct rs_batch *batch = &dec->batch;
    const size_t count = number_comms(batch);
    batch->comm_count = 0;
    if (!count)
        return RS_OK;
    if (rs_mem_grow((void **)&batch->comms, &batch->comm_capacity, count, sizeof *batch->comms) !=
        RS_OK)
        return RS_NOMEM;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (members[i](dec, count) != RS_OK)
            return RS_FORMAT;
    }
    batch->comm_count = count;
    return RS_OK;
}

/* end: length -> instant; false when one lies before its start. */
static bool lengths_become_ends(struct rs_batch *batch)
{
    bool is_bad = false;
    for (size_t row = 0; row < batch->count; row++) {
        const int64_t start = batch->start[row];
        const int64_t end = (int64_t)((uint64_t)start + (uint64_t)batch->end[row]);
        is_bad |= end < start;
        batch->end[row] = end;
    }
    return !is_bad;
}

static enum rs_status decode_body(struct decoder *dec)
{
    struct rs_batch *batch = &dec->batch;
    dec->time_scale = rs_view_varint(&dec->directory);
    if ((dec->time_scale != 1 && dec->time_scale != 1000) || decode_kinds(dec) != RS_OK)
        return RS_FORMAT;
    rows_sort(&dec->rows, batch->kind, batch->count);
    for (enum column column = 0; column < COLUMN_COUNT; column++) {
        if (decode_column(dec, column) != RS_OK)
            return RS_FORMAT;
    }
    if (!lengths_become_ends(batch))
        return RS_FORMAT;
    enum rs_status status = decode_comms(dec);
    if (status == RS_OK)
        status = extra_decode(dec->extra, dec->templates, batch, &dec->directory, &dec->data);
    if (status == RS_OK && (dec->directory.failed || dec->directory.length || dec->data.length))
        status = RS_FORMAT;
    return status;
}

enum rs_status decoder_run(struct decoder *dec, const struct rs_chunk_reader *reader,
                           struct rs_view body, size_t count, const struct rs_batch **batch_p,
                           struct rs_err *err)
{
    if (!reader->lanes.count)
        return rs_err_set(err, RS_FORMAT, "an events chunk comes before any lane was named");
    if (reserve_rows(dec, reader, count) != RS_OK ||
        memo_reserve(&dec->by_name, reader->strings.count) != RS_OK ||
        memo_reserve(&dec->by_lane, reader->lanes.count) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for %zu rows of a chunk", count);
    const uint32_t directory_bytes = rs_view_u32(&body);
    dec->directory = rs_view_take(&body, directory_bytes);
    dec->data = body;
    if (dec->directory.failed || body.failed)
        return rs_err_set(err, RS_FORMAT, "an events chunk's directory is cut");
    rs_batch_reset(&dec->batch);
    dec->batch.count = count;
    const enum rs_status status = decode_body(dec);
    if (status != RS_OK)
        return rs_err_set(err, status,
                          status == RS_NOMEM ? "no memory for the rows of a chunk"
                                             : "an events chunk's columns contradict each other");
    /* each column was checked as it came; this only says so once more in debug builds */
    RS_DCHECK(rs_batch_check(&dec->batch, NULL) == RS_OK);
    *batch_p = &dec->batch;
    return RS_OK;
}
