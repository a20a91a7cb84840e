/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this room share: the columns, the order of rows inside a chunk, integer streams.
 * Everything with a number in it is drawn in FORMAT.md.
 */
#ifndef RS_CHUNK_CHUNK_PRIV_H
#define RS_CHUNK_CHUNK_PRIV_H

/* The loops of this room are short and run over long columns: let gcc vectorise them as clang does. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) &&                           \
    !defined(__SANITIZE_ADDRESS__)
#    pragma GCC optimize("O3")
#endif

#include "common/chunk/chunk.h"

enum {
    CHUNK_MAGIC = 0x4b435352, /* "RSCK" */
    CHUNK_STORED = 0,         /* enum of the header's compression byte */
    CHUNK_ZSTD = 1,
    /* a writer's cut: text of `extra` in one chunk; the reader allows RS_CHUNK_EXTRA_MAX_BYTES */
    CHUNK_EXTRA_CUT_BYTES = 4 * 1024 * 1024,
};

/* header.c */
void header_encode(const struct rs_chunk_header *header, uint8_t compression,
                   uint8_t bytes_p[RS_CHUNK_HEADER_BYTES]);
/* As rs_chunk_peek(); also how the body is stored. */
RS_MUST_CHECK enum rs_status header_decode(struct rs_view bytes, struct rs_chunk_header *header_p,
                                           uint8_t *compression_p, struct rs_err *err);

/* How a value of a column becomes a uint64. */
enum column_type {
    COLUMN_U8,
    COLUMN_U32,
    COLUMN_STR, /* id + 1 in 32 bits: RS_STR_NONE is 0 */
    COLUMN_I64,
    COLUMN_TIME, /* ns, divided by the chunk's time scale where only differences are stored */
};

/* From what a value is predicted; the difference is stored as zigzag. Codes are on disk. */
enum predictor {
    PREDICT_RAW = 0,      /* nothing: the value itself, unsigned */
    PREDICT_SIGNED = 1,   /* 0 */
    PREDICT_PREVIOUS = 2, /* the value before in the group */
    PREDICT_LANE = 3,     /* the newest value of the group on this lane, else PREVIOUS */
    PREDICT_LANE_END = 4, /* where the group's newest event on this lane ended, else PREVIOUS */
    PREDICT_REFERENCE =
        5,            /* the same column of the newest row before that is no flow; flows only */
    PREDICT_NAME = 6, /* stored 0: as the group's newest row of this name; else value + 1 */
    PREDICTOR_COUNT
};

/* How a stream of uint64 is written. Codes are on disk. */
enum encoding {
    ENCODE_CONST = 0,  /* all the same */
    ENCODE_VARINT = 1, /* LEB128 */
    ENCODE_PLANES = 2, /* all lowest bytes, then all second bytes, ... */
    ENCODE_INDEX = 3,  /* at most 256 different values: a list of them, then one byte each */
    ENCODING_COUNT
};

enum column {
#define X(name, type, grouping, predictors) COL_##name,
#include "common/chunk/columns.def"
#undef X
    COLUMN_COUNT
};

/* Rows of one kind are coded together. Correlation and external id go from a launch to its kernel,
 * so for these two columns calls and device work form one group in the order of rows. */
enum grouping { GROUP_KIND, GROUP_LINK, GROUPING_COUNT };

struct column_spec {
    enum column_type type;
    enum grouping grouping;
    unsigned predictors; /* bit per enum predictor */
};
extern const struct column_spec column_specs[COLUMN_COUNT];

static inline bool kind_is_flow(uint8_t kind)
{
    return kind == RS_KIND_FLOW_START || kind == RS_KIND_FLOW_END;
}

/* rows.c: which rows form which group. */
struct group {
    uint8_t code; /* enum rs_kind; the link group has RS_KIND_KERNEL */
    size_t count;
    const uint32_t *rows; /* ascending */
};

struct rows {
    size_t capacity;
    uint32_t *order[GROUPING_COUNT]; /* [capacity] */
    uint32_t *reference;             /* [capacity] of a flow: its reference row + 1, or 0 */
    struct group groups[GROUPING_COUNT][RS_KIND_COUNT]; /* not empty ones; flows come last */
    size_t group_count[GROUPING_COUNT];
};
RS_MUST_CHECK enum rs_status rows_init(struct rows *rows, size_t capacity);
void rows_fini(struct rows *rows);
void rows_sort(struct rows *rows, const uint8_t *kind, size_t count); /* kind < RS_KIND_COUNT */

/* rows.c: "the newest value of this lane or name", forgotten at once by a new stamp. */
struct memo {
    struct memo_entry {
        uint64_t value;
        uint64_t stamp;
    } * entries;
    size_t capacity;
    uint64_t stamp;
};
RS_MUST_CHECK enum rs_status memo_reserve(struct memo *memo, size_t count);
void memo_fini(struct memo *memo);

static inline void memo_forget(struct memo *memo)
{
    memo->stamp++;
}

static inline uint64_t memo_swap(struct memo *memo, size_t index, uint64_t value,
                                 uint64_t otherwise)
{
    struct memo_entry *entry = &memo->entries[index];
    const uint64_t old = entry->stamp == memo->stamp ? entry->value : otherwise;
    *entry = (struct memo_entry){.value = value, .stamp = memo->stamp};
    return old;
}

/* ints.c: streams of uint64. */
static inline uint64_t zigzag(uint64_t difference)
{
    return (difference << 1) ^ (uint64_t) - (int64_t)(difference >> 63);
}

static inline uint64_t unzigzag(uint64_t stored)
{
    return (stored >> 1) ^ (uint64_t) - (int64_t)(stored & 1);
}

/* Chooses an encoding for count >= 1 values, appends its parameters to `directory` and its bytes
 * to `data`. `may_index`: ENCODE_INDEX is allowed. Returns the encoding. */
enum encoding ints_encode(const uint64_t *values, size_t count, bool may_index,
                          struct rs_buf *directory, struct rs_buf *data);
/* Pairs with ints_encode(). RS_FORMAT. */
RS_MUST_CHECK enum rs_status ints_decode(enum encoding encoding, size_t count, uint64_t *values_p,
                                         struct rs_view *directory, struct rs_view *data);
void ints_varints(const uint64_t *values, size_t count, struct rs_buf *buf);
RS_MUST_CHECK enum rs_status ints_read_varints(struct rs_view *view, size_t count,
                                               uint64_t *values_p);

/* extra.c: texts -> templates and numbers, and back. */
struct extra_coder;
RS_MUST_CHECK enum rs_status extra_new(size_t rows, struct extra_coder **coder_p);
void extra_free(struct extra_coder **coder_p);
/* Splits the texts of all rows; *templates_p lends per row 0 (no text) or template + 1. RS_NOMEM. */
RS_MUST_CHECK enum rs_status extra_split(struct extra_coder *coder, const struct rs_batch *batch,
                                         const uint32_t **templates_p);
void extra_encode(struct extra_coder *coder, size_t rows, struct rs_buf *directory,
                  struct rs_buf *data);
/* Rebuilds extra, extra_offset and extra_length of batch->count rows. RS_FORMAT, RS_NOMEM. */
RS_MUST_CHECK enum rs_status extra_decode(struct extra_coder *coder, const uint32_t *templates,
                                          struct rs_batch *batch, struct rs_view *directory,
                                          struct rs_view *data);

/* encode.c, decode.c: rows <-> an EVENTS body before compression. */
struct encoder;
RS_MUST_CHECK enum rs_status encoder_new(size_t rows, struct encoder **encoder_p);
void encoder_free(struct encoder **encoder_p);
/* Lends the body until the next call. RS_NOMEM. */
RS_MUST_CHECK enum rs_status encoder_run(struct encoder *encoder, const struct rs_batch *batch,
                                         struct rs_view *body_p);

struct decoder;
RS_MUST_CHECK enum rs_status decoder_new(struct decoder **decoder_p);
void decoder_free(struct decoder **decoder_p);
/* Lends a batch of `count` rows until the next call. RS_FORMAT, RS_NOMEM. */
RS_MUST_CHECK enum rs_status decoder_run(struct decoder *decoder,
                                         const struct rs_chunk_reader *reader, struct rs_view body,
                                         size_t count, const struct rs_batch **batch_p,
                                         struct rs_err *err);

/* small.c: the bodies of DICTIONARY and INFO. */
void info_encode(const struct rs_trace_info *info, struct rs_buf *body);
RS_MUST_CHECK enum rs_status info_decode(struct rs_view *body, struct rs_trace_info *info_p);
void lane_encode(const struct rs_lane *lane, struct rs_buf *body);
void lane_decode(struct rs_view *body, struct rs_lane *lane_p);

/* The communication arguments, in stored order: X(member, type). */
#define COMM_COLUMNS(X)                                                                            \
    X(has, U32)                                                                                    \
    X(collective, STR)                                                                             \
    X(dtype, STR)                                                                                  \
    X(group_name, STR)                                                                             \
    X(group_description, STR)                                                                      \
    X(group_ranks, STR)                                                                            \
    X(in_split, STR)                                                                               \
    X(out_split, STR)                                                                              \
    X(transport, STR)                                                                              \
    X(in_nelems, I64)                                                                              \
    X(out_nelems, I64)                                                                             \
    X(group_size, I64)                                                                             \
    X(src, I64)                                                                                    \
    X(dst, I64)                                                                                    \
    X(rank, I64)                                                                                   \
    X(global_start, I64)                                                                           \
    X(global_stride, I64)                                                                          \
    X(seq, I64)                                                                                    \
    X(comms_id, U64)                                                                               \
    X(bytes, I64)

#endif
