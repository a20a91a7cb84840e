/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows -> an EVENTS body (FORMAT.md, "Events").
 *
 * Column by column, and inside a column group by group (rows of one kind): gather the values, choose
 * what to predict them from by trying each way on a sample, store the differences. A column that
 * is the same in every row costs three bytes.
 */
#include "common/base/mem.h"
#include "common/chunk/chunk_priv.h"

#include <string.h>

enum { SAMPLE = 256 };

struct encoder {
    struct rows rows;
    uint64_t *values; /* of one group of one column */
    uint64_t *stored; /* the same as they are written */
    struct memo by_name;
    struct memo by_lane;
    struct extra_coder *extra;
    struct rs_buf directory;
    struct rs_buf data;
    struct rs_buf body;
    uint64_t time_scale;
    /* of the running call */
    const struct rs_batch *batch;
    const uint32_t *templates;
};

/* What one group of one column is coded from. */
struct job {
    enum column column;
    const struct group *group;
    enum predictor predictor;
    size_t from, to; /* of the group's rows */
};

void encoder_free(struct encoder **encoder_p)
{
    struct encoder *enc = *encoder_p;
    if (!enc)
        return;
    rows_fini(&enc->rows);
    rs_mem_free(enc->values);
    rs_mem_free(enc->stored);
    memo_fini(&enc->by_name);
    memo_fini(&enc->by_lane);
    extra_free(&enc->extra);
    rs_buf_fini(&enc->directory);
    rs_buf_fini(&enc->data);
    rs_buf_fini(&enc->body);
    rs_mem_free(enc);
    *encoder_p = NULL;
}

enum rs_status encoder_new(size_t rows, struct encoder **encoder_p)
{
    struct encoder *enc = rs_mem_calloc(1, sizeof *enc);
    if (!enc)
        return RS_NOMEM;
    enc->values = rs_mem_calloc(rows, sizeof *enc->values);
    enc->stored = rs_mem_calloc(rows, sizeof *enc->stored);
    if (!enc->values || !enc->stored || rows_init(&enc->rows, rows) != RS_OK ||
        extra_new(rows, &enc->extra) != RS_OK) {
        encoder_free(&enc);
        return RS_NOMEM;
    }
    *encoder_p = enc;
    return RS_OK;
}

static uint64_t string_value(rs_str id)
{
    return (uint32_t)(id + 1u);
}

/* The value of one row as a uint64. */
static uint64_t value_at(const struct encoder *enc, enum column column, size_t row)
{
    const struct rs_batch *batch = enc->batch;
    switch (column) {
    case COL_NAME:
        return string_value(batch->name[row]);
    case COL_LANE:
        return batch->lane[row];
    case COL_DURATION:
        return (uint64_t)batch->end[row] - (uint64_t)batch->start[row];
    case COL_START:
        return (uint64_t)batch->start[row];
    case COL_CATEGORY:
        return string_value(batch->category[row]);
    case COL_FLAGS:
        return batch->flags[row];
    case COL_PHASE:
        return batch->phase[row];
    case COL_CORRELATION:
        return (uint64_t)batch->correlation[row];
    case COL_EXTERNAL_ID:
        return (uint64_t)batch->external_id[row];
    case COL_BYTES:
        return (uint64_t)batch->bytes[row];
    case COL_CPU_NS:
        return (uint64_t)batch->cpu_ns[row];
    case COL_INPUT_DIMS:
        return string_value(batch->input_dims[row]);
    case COL_INPUT_TYPES:
        return string_value(batch->input_types[row]);
    case COL_CONCRETE_INPUTS:
        return string_value(batch->concrete_inputs[row]);
    case COL_HAS_COMM:
        return batch->comm[row] != RS_NO_COMM;
    case COL_EXTRA_TEMPLATE:
        return enc->templates[row];
    case COLUMN_COUNT:
        break;
    }
    return 0;
}

static void gather_u8(const uint8_t *cells, const struct group *group, uint64_t *values)
{
    for (size_t i = 0; i < group->count; i++)
        values[i] = cells[group->rows[i]];
}

static void gather_u32(const uint32_t *cells, const struct group *group, uint64_t *values)
{
    for (size_t i = 0; i < group->count; i++)
        values[i] = cells[group->rows[i]];
}

static void gather_str(const rs_str *cells, const struct group *group, uint64_t *values)
{
    for (size_t i = 0; i < group->count; i++)
        values[i] = string_value(cells[group->rows[i]]);
}

static void gather_i64(const int64_t *cells, const struct group *group, uint64_t *values)
{
    for (size_t i = 0; i < group->count; i++)
        values[i] = (uint64_t)cells[group->rows[i]];
}

static void gather_computed(const struct encoder *enc, enum column column,
                            const struct group *group, uint64_t *values)
{
    for (size_t i = 0; i < group->count; i++)
        values[i] = value_at(enc, column, group->rows[i]);
}

static void gather_lengths(const struct rs_batch *batch, const struct group *group,
                           uint64_t *values)
{
    for (size_t i = 0; i < group->count; i++) {
        const size_t row = group->rows[i];
        values[i] = (uint64_t)batch->end[row] - (uint64_t)batch->start[row];
    }
}

/* value_at() of all rows of a group, without asking for the column at every row. */
static void gather(const struct encoder *enc, enum column column, const struct group *group,
                   uint64_t *values)
{
    const struct rs_batch *batch = enc->batch;
    switch (column) {
    case COL_NAME:
        gather_str(batch->name, group, values);
        return;
    case COL_LANE:
        gather_u32(batch->lane, group, values);
        return;
    case COL_DURATION:
        gather_lengths(batch, group, values);
        return;
    case COL_START:
        gather_i64(batch->start, group, values);
        return;
    case COL_CATEGORY:
        gather_str(batch->category, group, values);
        return;
    case COL_FLAGS:
        gather_u8(batch->flags, group, values);
        return;
    case COL_PHASE:
        gather_u8(batch->phase, group, values);
        return;
    case COL_CORRELATION:
        gather_i64(batch->correlation, group, values);
        return;
    case COL_EXTERNAL_ID:
        gather_i64(batch->external_id, group, values);
        return;
    case COL_BYTES:
        gather_i64(batch->bytes, group, values);
        return;
    case COL_CPU_NS:
        gather_i64(batch->cpu_ns, group, values);
        return;
    case COL_INPUT_DIMS:
        gather_str(batch->input_dims, group, values);
        return;
    case COL_INPUT_TYPES:
        gather_str(batch->input_types, group, values);
        return;
    case COL_CONCRETE_INPUTS:
        gather_str(batch->concrete_inputs, group, values);
        return;
    case COL_EXTRA_TEMPLATE:
        gather_u32(enc->templates, group, values);
        return;
    case COL_HAS_COMM:
    case COLUMN_COUNT:
        gather_computed(enc, column, group, values);
        return;
    }
}

/* Differences to what was predicted: first as they are, then (finish) scaled and in zigzag. */
static void predict_lane(struct encoder *enc, const struct job *job, uint64_t *stored)
{
    const struct rs_batch *batch = enc->batch;
    const uint32_t *rows = job->group->rows;
    const bool is_end = job->predictor == PREDICT_LANE_END;
    uint64_t before = enc->values[job->from ? job->from - 1 : 0];
    memo_forget(&enc->by_lane);
    for (size_t i = job->from; i < job->to; i++) {
        const uint64_t value = enc->values[i];
        const uint64_t newest = is_end ? (uint64_t)batch->end[rows[i]] : value;
        stored[i - job->from] =
            value - memo_swap(&enc->by_lane, batch->lane[rows[i]], newest, before);
        before = value;
    }
}

static void predict_name(struct encoder *enc, const struct job *job, uint64_t *stored)
{
    memo_forget(&enc->by_name);
    for (size_t i = job->from; i < job->to; i++) {
        const rs_str name = enc->batch->name[job->group->rows[i]];
        const uint64_t value = enc->values[i] + 1;
        stored[i - job->from] = memo_swap(&enc->by_name, name, value, 0) == value ? 0 : value;
    }
}

static void predict_reference(struct encoder *enc, const struct job *job, uint64_t *stored)
{
    for (size_t i = job->from; i < job->to; i++) {
        const uint32_t reference = enc->rows.reference[job->group->rows[i]];
        const uint64_t predicted = reference ? value_at(enc, job->column, reference - 1) : 0;
        stored[i - job->from] = enc->values[i] - predicted;
    }
}

static void predict_previous(const struct encoder *enc, const struct job *job, uint64_t *stored)
{
    const uint64_t *values = enc->values + job->from;
    const size_t count = job->to - job->from;
    stored[0] = job->from ? values[0] - enc->values[job->from - 1] : 0;
    for (size_t i = 1; i < count; i++)
        stored[i] = values[i] - values[i - 1];
}

static void finish_differences(uint64_t *stored, size_t count, uint64_t scale)
{
    if (scale == 1) {
        for (size_t i = 0; i < count; i++)
            stored[i] = zigzag(stored[i]);
        return;
    }
    for (size_t i = 0; i < count; i++)
        stored[i] = zigzag((uint64_t)((int64_t)stored[i] / (int64_t)scale));
}

/* stored[] for the rows from..to (at least one) of the job's group, whose values are gathered. */
static void predict(struct encoder *enc, const struct job *job, uint64_t *stored)
{
    const bool is_time = column_specs[job->column].type == COLUMN_TIME;
    const uint64_t scale = is_time ? enc->time_scale : 1;
    const size_t count = job->to - job->from;
    switch (job->predictor) {
    case PREDICT_RAW:
        for (size_t i = 0; i < count; i++)
            stored[i] =
                scale == 1 ? enc->values[job->from + i] : enc->values[job->from + i] / scale;
        return;
    case PREDICT_SIGNED:
        memcpy(stored, enc->values + job->from, count * sizeof *stored);
        break;
    case PREDICT_PREVIOUS:
        predict_previous(enc, job, stored);
        break;
    case PREDICT_LANE:
    case PREDICT_LANE_END:
        predict_lane(enc, job, stored);
        break;
    case PREDICT_REFERENCE:
        predict_reference(enc, job, stored);
        break;
    case PREDICT_NAME:
        predict_name(enc, job, stored);
        return;
    case PREDICTOR_COUNT:
        return;
    }
    finish_differences(stored, count, scale);
}

/* The predictor whose differences need the fewest bits in a sample from the middle. */
static enum predictor choose_predictor(struct encoder *enc, struct job job)
{
    const unsigned tried = column_specs[job.column].predictors;
    const size_t count = job.group->count;
    const size_t taken = count < SAMPLE ? count : SAMPLE;
    uint64_t stored[SAMPLE] = {0};
    job.from = (count - taken) / 2;
    job.to = job.from + taken;
    enum predictor best = PREDICT_RAW;
    uint64_t best_bits = UINT64_MAX;
    for (enum predictor p = PREDICT_RAW; p < PREDICTOR_COUNT; p++) {
        if (!(tried & (1u << p)) || (p == PREDICT_REFERENCE && !kind_is_flow(job.group->code)))
            continue;
        job.predictor = p;
        if (tried == 1u << p)
            return p;
        predict(enc, &job, stored);
        uint64_t bits = 0;
        for (size_t i = 0; i < taken; i++)
            bits += 64u - (unsigned)__builtin_clzll(stored[i] | 1);
        if (bits < best_bits) {
            best = p;
            best_bits = bits;
        }
    }
    return best;
}

/* Is the first row predicted from a value that must be written first? */
static bool predictor_has_base(enum predictor predictor)
{
    return predictor == PREDICT_PREVIOUS || predictor == PREDICT_LANE ||
           predictor == PREDICT_LANE_END;
}

static bool all_equal(const uint64_t *values, size_t count)
{
    return memcmp(values, values + 1, (count - 1) * sizeof *values) == 0;
}

static void encode_group(struct encoder *enc, enum column column, const struct group *group)
{
    const struct column_spec *spec = &column_specs[column];
    struct job job = {.column = column, .group = group, .to = group->count};
    gather(enc, column, group, enc->values);
    const bool is_plain = spec->predictors & (1u << PREDICT_RAW);
    if (!is_plain || !all_equal(enc->values, group->count))
        job.predictor = choose_predictor(enc, job);
    const bool is_copy =
        job.predictor == PREDICT_RAW && (spec->type != COLUMN_TIME || enc->time_scale == 1);
    if (!is_copy)
        predict(enc, &job, enc->stored);
    const size_t at = enc->directory.length;
    rs_buf_u8(&enc->directory, 0);
    if (predictor_has_base(job.predictor))
        rs_buf_zigzag(&enc->directory, (int64_t)enc->values[0]);
    const bool may_index =
        job.predictor == PREDICT_RAW && (spec->type == COLUMN_STR || spec->type == COLUMN_U32);
    const enum encoding encoding = ints_encode(is_copy ? enc->values : enc->stored, group->count,
                                               may_index, &enc->directory, &enc->data);
    if (!enc->directory.failed)
        enc->directory.data[at] = (uint8_t)((unsigned)job.predictor << 4 | encoding);
}

#define SAME_CELLS(cells) (memcmp((cells), (cells) + 1, (count - 1) * sizeof *(cells)) == 0)

static bool column_is_const(const struct encoder *enc, enum column column)
{
    const struct rs_batch *batch = enc->batch;
    const size_t count = batch->count;
    switch (column) {
    case COL_NAME:
        return SAME_CELLS(batch->name);
    case COL_LANE:
        return SAME_CELLS(batch->lane);
    case COL_DURATION:
    case COL_START:
        return SAME_CELLS(batch->start) && SAME_CELLS(batch->end);
    case COL_CATEGORY:
        return SAME_CELLS(batch->category);
    case COL_FLAGS:
        return SAME_CELLS(batch->flags);
    case COL_PHASE:
        return SAME_CELLS(batch->phase);
    case COL_CORRELATION:
        return SAME_CELLS(batch->correlation);
    case COL_EXTERNAL_ID:
        return SAME_CELLS(batch->external_id);
    case COL_BYTES:
        return SAME_CELLS(batch->bytes);
    case COL_CPU_NS:
        return SAME_CELLS(batch->cpu_ns);
    case COL_INPUT_DIMS:
        return SAME_CELLS(batch->input_dims);
    case COL_INPUT_TYPES:
        return SAME_CELLS(batch->input_types);
    case COL_CONCRETE_INPUTS:
        return SAME_CELLS(batch->concrete_inputs);
    case COL_HAS_COMM:
        return batch->comm[0] == RS_NO_COMM && SAME_CELLS(batch->comm);
    case COL_EXTRA_TEMPLATE:
        return SAME_CELLS(enc->templates);
    case COLUMN_COUNT:
        break;
    }
    return false;
}

static void encode_column(struct encoder *enc, enum column column)
{
    if (column_is_const(enc, column)) {
        rs_buf_u8(&enc->directory, 0);
        rs_buf_varint(&enc->directory, value_at(enc, column, 0));
        return;
    }
    rs_buf_u8(&enc->directory, 1);
    const enum grouping grouping = column_specs[column].grouping;
    for (size_t g = 0; g < enc->rows.group_count[grouping]; g++)
        encode_group(enc, column, &enc->rows.groups[grouping][g]);
}

static void encode_kinds(struct encoder *enc)
{
    const struct rs_batch *batch = enc->batch;
    for (size_t row = 0; row < batch->count; row++)
        enc->values[row] = batch->kind[row];
    const size_t at = enc->directory.length;
    rs_buf_u8(&enc->directory, 0);
    const enum encoding encoding =
        ints_encode(enc->values, batch->count, false, &enc->directory, &enc->data);
    if (!enc->directory.failed)
        enc->directory.data[at] = (uint8_t)encoding;
}

/* One member of all communication rows: as it is, or (numbers) as difference to the one before. */
static void encode_comm_values(struct encoder *enc, size_t count, bool is_signed)
{
    uint64_t before = 0;
    for (size_t i = 0; is_signed && i < count; i++) {
        enc->stored[i] = zigzag(enc->values[i] - before);
        before = enc->values[i];
    }
    const size_t at = enc->directory.length;
    rs_buf_u8(&enc->directory, 0);
    const enum encoding encoding = ints_encode(is_signed ? enc->stored : enc->values, count,
                                               !is_signed, &enc->directory, &enc->data);
    if (!enc->directory.failed)
        enc->directory.data[at] =
            (uint8_t)((unsigned)(is_signed ? PREDICT_PREVIOUS : PREDICT_RAW) << 4 | encoding);
}

#define VALUE_U32(value) ((value))
#define VALUE_STR(value) string_value(value)
#define VALUE_I64(value) ((uint64_t)(value))
#define VALUE_U64(value) ((value))
enum { SIGNED_U32 = 0, SIGNED_STR = 0, SIGNED_I64 = 1, SIGNED_U64 = 0 };

static void encode_comms(struct encoder *enc)
{
    const struct rs_batch *batch = enc->batch;
    uint32_t *comms = enc->rows.reference; /* flows are done with it */
    size_t count = 0;
    for (size_t row = 0; row < batch->count; row++) {
        if (batch->comm[row] != RS_NO_COMM)
            comms[count++] = batch->comm[row];
    }
    if (!count)
        return;
#define X(member, type)                                                                            \
    for (size_t i = 0; i < count; i++)                                                             \
        enc->values[i] = VALUE_##type(batch->comms[comms[i]].member);                              \
    encode_comm_values(enc, count, SIGNED_##type != 0);
    COMM_COLUMNS(X)
#undef X
}

/* 1000 when every instant and length is a whole number of microseconds, else 1. */
static uint64_t time_scale_of(const struct rs_batch *batch)
{
    const int64_t limit = INT64_MAX / 4; /* differences of such instants do not overflow */
    for (size_t row = 0; row < batch->count; row++) {
        const int64_t start = batch->start[row];
        const int64_t end = batch->end[row];
        if (start % 1000 || end % 1000 || start < -limit || end > limit)
            return 1;
    }
    return 1000;
}

enum rs_status encoder_run(struct encoder *enc, const struct rs_batch *batch,
                           struct rs_view *body_p)
{
    if (memo_reserve(&enc->by_name, batch->strings->count) != RS_OK ||
        memo_reserve(&enc->by_lane, batch->lanes->count) != RS_OK ||
        extra_split(enc->extra, batch, &enc->templates) != RS_OK)
        return RS_NOMEM;
    enc->batch = batch;
    enc->time_scale = time_scale_of(batch);
    rs_buf_reset(&enc->directory);
    rs_buf_reset(&enc->data);
    rs_buf_reset(&enc->body);
    rows_sort(&enc->rows, batch->kind, batch->count);
    rs_buf_varint(&enc->directory, enc->time_scale);
    encode_kinds(enc);
    for (enum column column = 0; column < COLUMN_COUNT; column++)
        encode_column(enc, column);
    encode_comms(enc);
    extra_encode(enc->extra, batch->count, &enc->directory, &enc->data);
    if (enc->directory.length > UINT32_MAX)
        return RS_LIMIT;
    rs_buf_u32(&enc->body, (uint32_t)enc->directory.length);
    rs_buf_bytes(&enc->body, enc->directory.data, enc->directory.length);
    rs_buf_bytes(&enc->body, enc->data.data, enc->data.length);
    if (enc->directory.failed || enc->data.failed || enc->body.failed)
        return RS_NOMEM;
    *body_p = rs_view_of(enc->body.data, enc->body.length);
    return RS_OK;
}
