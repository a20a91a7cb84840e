/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks: batches of events <-> compressed, checksummed bytes (FORMAT.md draws every byte).
 *
 *     source -> batch -> rs_chunk_writer -> chunk, chunk, chunk -> spool, wire, store
 *                                               |
 *                        rs_chunk_peek() looks at the header only (spool, ingest)
 *                        rs_chunk_reader gives the batches back (reduce, export, verify)
 *
 * A chunk is one sealed byte string of at most RS_CHUNK_MAX_BYTES. It says nothing of files, sockets,
 * ranks or sequence numbers: those belong to whoever carries it. The chunks of one stream in the order
 * in which they were put are:
 *
 *     DICTIONARY  strings and lanes id .. id + n, always before the first chunk that uses them;
 *                 reading one twice changes nothing
 *     EVENTS      rows, column by column
 *     SUMMARY     opaque bytes, part i of n (the rank summary; may come at any time)
 *     INFO        what is known of the whole recording; the last one of a stream carries the end mark
 *
 * Promises: lossless (every column of struct rs_batch, row order, every byte of `extra`); the same
 * batches give the same bytes; the reader believes nothing it is given. Not kept: where one batch ended
 * and the next began, comm and extra entries that no row refers to, and two rows' sharing of one.
 */
#ifndef RS_CHUNK_CHUNK_H
#define RS_CHUNK_CHUNK_H

#include "common/base/buf.h"
#include "common/base/view.h"
#include "common/event/event.h"

enum {
    RS_CHUNK_VERSION = 1,
    RS_CHUNK_HEADER_BYTES = 64,
    RS_CHUNK_MAX_BYTES = 1024 * 1024,           /* header and body */
    RS_CHUNK_RAW_MAX_BYTES = 16 * 1024 * 1024,  /* body after decompression */
    RS_CHUNK_ROWS_MAX = 64 * 1024,              /* of one EVENTS chunk */
    RS_CHUNK_EXTRA_MAX_BYTES = 8 * 1024 * 1024, /* extra text of one EVENTS chunk */
    RS_CHUNK_SUMMARY_MAX_BYTES = 256 * 1024 * 1024,
};

enum rs_chunk_kind {
    RS_CHUNK_DICTIONARY = 1,
    RS_CHUNK_EVENTS = 2,
    RS_CHUNK_INFO = 3,
    RS_CHUNK_SUMMARY = 4,
};
const char *rs_chunk_kind_text(enum rs_chunk_kind kind); /* "dictionary", ... */

enum rs_chunk_flag {
    RS_CHUNK_END = 1, /* INFO: nothing follows in this stream but, perhaps, a SUMMARY */
};

struct rs_chunk_header {
    enum rs_chunk_kind kind;
    uint16_t flags;       /* enum rs_chunk_flag */
    uint32_t chunk_bytes; /* header and body: where the next chunk would start */
    uint32_t body_bytes;  /* as stored */
    uint32_t raw_bytes;   /* body after decompression */
    uint32_t count;       /* EVENTS: rows. DICTIONARY: strings and lanes. else 0 */
    rs_ns
        first_ns; /* EVENTS: smallest start and largest end, from the stream's time base; else 0 */
    rs_ns last_ns;
    uint32_t part_index; /* SUMMARY: from 0; else 0 */
    uint32_t part_count; /* SUMMARY: >= 1; else 0 */
    uint32_t
        strings_count; /* EVENTS, INFO: strings and lanes it needs; DICTIONARY: known after it */
    uint32_t lanes_count;
    uint32_t body_crc; /* CRC-32C of the body as stored */
};

/* Reads and checks the header alone: magic, lengths, checksum, version, limits; does not touch the body,
 * which may be longer than the view (`bytes` needs RS_CHUNK_HEADER_BYTES). RS_FORMAT, RS_VERSION. */
RS_MUST_CHECK enum rs_status rs_chunk_peek(struct rs_view bytes, struct rs_chunk_header *header_p,
                                           struct rs_err *err);
/* As rs_chunk_peek(), and: `bytes` is exactly this chunk and its body has the right checksum.
 * Still decodes nothing. */
RS_MUST_CHECK enum rs_status rs_chunk_verify(struct rs_view bytes, struct rs_chunk_header *header_p,
                                             struct rs_err *err);

/* Where sealed chunks go. `chunk` is lent until the function returns. A status < 0 ends the stream: the
 * writer's call returns it. */
typedef enum rs_status rs_chunk_put_fn(void *self, struct rs_view chunk,
                                       const struct rs_chunk_header *header, struct rs_err *err);

struct rs_chunk_writer_options {
    const struct rs_strtab *strings; /* keeps pointers to the stream's tables; they may grow */
    const struct rs_lanes *lanes;    /* between calls */
    rs_chunk_put_fn *put;
    void *put_self;
    size_t rows_per_chunk; /* 0: 16384; at most RS_CHUNK_ROWS_MAX */
    size_t target_bytes;   /* 0: 192 KiB: seal earlier when rows carry much text */
};

/* Counts of what was put so far. */
struct rs_chunk_totals {
    uint64_t rows;
    uint64_t chunks; /* of every kind */
    uint64_t bytes;  /* of all chunks */
    uint64_t dictionary_bytes, events_bytes, info_bytes, summary_bytes;
    uint64_t extra_raw_bytes; /* text of `extra` before encoding */
};

/* One stream's writer. One thread at a time. Memory is taken in _new and while the first chunks find
 * their size; after that adding rows allocates nothing. */
struct rs_chunk_writer;

RS_MUST_CHECK enum rs_status rs_chunk_writer_new(const struct rs_chunk_writer_options *options,
                                                 struct rs_chunk_writer **writer_p,
                                                 struct rs_err *err);
void rs_chunk_writer_free(struct rs_chunk_writer **writer_p); /* drops rows not flushed */

/* Adds the batch's rows; puts chunks when enough have come. The batch must pass rs_batch_check() and use
 * the writer's tables (RS_INVALID). RS_NOMEM; RS_LIMIT: one row does not fit a chunk; what put
 * answered. After a failure the stream is broken: every later call returns the same status. */
RS_MUST_CHECK enum rs_status rs_chunk_writer_add(struct rs_chunk_writer *writer,
                                                 const struct rs_batch *batch, struct rs_err *err);
/* Seals and puts what was added (because time has passed, or a step has ended). */
RS_MUST_CHECK enum rs_status rs_chunk_writer_flush(struct rs_chunk_writer *writer,
                                                   struct rs_err *err);
/* Flushes, then puts an INFO chunk. `is_end`: with the end mark and the totals before it. The strings of
 * `info` are ids of the writer's table. */
RS_MUST_CHECK enum rs_status rs_chunk_writer_info(struct rs_chunk_writer *writer,
                                                  const struct rs_trace_info *info, bool is_end,
                                                  struct rs_err *err);
/* Puts the bytes as SUMMARY chunks, at once (rows waiting stay waiting). */
RS_MUST_CHECK enum rs_status rs_chunk_writer_summary(struct rs_chunk_writer *writer,
                                                     struct rs_view bytes, struct rs_err *err);
struct rs_chunk_totals rs_chunk_writer_totals(const struct rs_chunk_writer *writer);
/* A sink whose batches go to rs_chunk_writer_add(). Keeps a pointer to the writer. */
struct rs_sink rs_chunk_writer_sink(struct rs_chunk_writer *writer);

/* One stream's reader: feed it the stream's chunks in order. One thread at a time. The members below
 * are for looking at; they belong to the reader. */
struct rs_chunk_reader {
    struct rs_strtab strings; /* ids are the writer's */
    struct rs_lanes lanes;
    struct rs_trace_info info; /* of the newest INFO chunk */
    bool has_info;
    bool has_end;                    /* the end mark was read */
    struct rs_chunk_totals end;      /* rows, chunks, bytes that the writer says came before it */
    uint64_t rows_read, chunks_read; /* by this reader, every kind; a repeated chunk counts again */
    struct rs_buf summary;           /* of the newest complete SUMMARY */
    bool has_summary;
    struct rs_chunk_reader_priv *priv;
};

/* strings_limit_bytes 0: rs_strtab_init()'s own. */
RS_MUST_CHECK enum rs_status rs_chunk_reader_init(struct rs_chunk_reader *reader,
                                                  size_t strings_limit_bytes);
void rs_chunk_reader_fini(struct rs_chunk_reader *reader); /* of a zeroed struct is allowed */

/* Takes in one whole chunk. EVENTS: *batch_p is lent until the next call and passes rs_batch_check();
 * every other kind: *batch_p is NULL and the members above have changed. header_p may be NULL.
 * RS_FORMAT (damaged, or a dictionary is missing), RS_VERSION, RS_LIMIT, RS_NOMEM: the reader is as it
 * was (dictionary entries before the damage may have been added). */
RS_MUST_CHECK enum rs_status rs_chunk_read(struct rs_chunk_reader *reader, struct rs_view bytes,
                                           const struct rs_batch **batch_p,
                                           struct rs_chunk_header *header_p, struct rs_err *err);

#endif
