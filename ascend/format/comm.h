/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one rank's files say about its communication: operations and links.
 *
 *     communication.json         CommAnalyzerTime, CommAnalyzerBandwidth     --> ops
 *     communication_matrix.json  CommAnalyzerMatrix                          --> links
 *
 * Text and database give the same struct; PyTorch and MindSpore, every generation of the columns
 * (read by name, each may be absent). The vendor's own "Total Op Info" is left out, since sums are made anew, unless
 * keeps_totals asks for it.
 * Numbers stay as they stand in the file (num.h). Times are us (start) and ms, sizes are
 * MB = 10^6 bytes, bandwidth is GB/s, as the vendor has them.
 *
 * An operation is a row of fixed size and a packed record, so that a rank of a thousand operations
 * costs some hundred KB and a thousand ranks fit in memory:
 *
 *     op     at --> 8 numbers of time, count, then per transport: name, 4 numbers, count, then per
 *                   package size: its text, 2 numbers
 *     link   at --> size, time, bandwidth
 *
 * The struct encodes to a blob that stands alone (version, checksum) and decodes from anyone's bytes.
 * Different ranks on different threads; one comm is used by one thread at a time, or read by many.
 */
#ifndef RS_ASCEND_FORMAT_COMM_H
#define RS_ASCEND_FORMAT_COMM_H

#include "ascend/format/db.h"
#include "ascend/format/format.h"
#include "ascend/format/num.h"
#include "ascend/format/rows.h"
#include "common/base/buf.h"
#include "common/base/strtab.h"
#include "common/base/view.h"

enum rs_ascend_comm_part {
    RS_ASCEND_COMM_OPS = 1 << 0,
    RS_ASCEND_COMM_LINKS = 1 << 1,
};

/* Order of the numbers of an operation's time information. */
enum rs_ascend_comm_time {
    RS_ASCEND_COMM_START, /* us */
    RS_ASCEND_COMM_ELAPSE,
    RS_ASCEND_COMM_TRANSIT,
    RS_ASCEND_COMM_WAIT,
    RS_ASCEND_COMM_SYNC,
    RS_ASCEND_COMM_IDLE,
    RS_ASCEND_COMM_WAIT_RATIO, /* databases have no ratios: NONE */
    RS_ASCEND_COMM_SYNC_RATIO,
    RS_ASCEND_COMM_TIMES
};

/* Order of the numbers of a transport. */
enum rs_ascend_comm_band_field {
    RS_ASCEND_COMM_SIZE,
    RS_ASCEND_COMM_TIME,
    RS_ASCEND_COMM_BANDWIDTH,
    RS_ASCEND_COMM_LARGE_RATIO,
    RS_ASCEND_COMM_BAND_FIELDS
};

struct rs_ascend_comm_op {
    rs_str name;  /* "hcom_allReduce__586_0_1" */
    rs_str group; /* hash of the communicator, decimal */
    rs_str step;  /* "step50"; "step" without a number */
    bool is_p2p;
    uint16_t bands; /* where its transports begin, from `at` on; of this process only */
    size_t at;      /* of its record in `bytes` */
};

struct rs_ascend_comm_link {
    rs_str kind; /* "allreduce-top1" */
    rs_str group, step;
    rs_str transport; /* "HCCS" */
    rs_str op_name;   /* RS_STR_NONE: not named */
    int32_t src, dst; /* local ranks within the group */
    bool is_p2p;
    size_t at;
};

struct rs_ascend_comm {
    struct rs_strtab names;
    struct rs_ascend_comm_op *ops; /* in the file's order */
    size_t op_count, op_capacity;
    struct rs_ascend_comm_link *links;
    size_t link_count, link_capacity;
    struct rs_buf bytes;           /* packed records; only what unpacks whole is in here */
    unsigned parts;                /* enum rs_ascend_comm_part: what was there and is whole */
    struct rs_ascend_bands *bands; /* of the reader of databases; NULL: none yet */
    struct rs_buf
        flaws; /* what stands in the file and cannot be used, as sentences; empty: nothing */
    bool
        keeps_totals; /* for the reader: the vendor's "Total Op Info" is an operation without a group */
};

/* Grown arrays on their way from one rank to the next. Zeroed: none. */
struct rs_ascend_comm_memory {
    struct rs_ascend_comm_op *ops;
    size_t op_capacity;
    struct rs_ascend_comm_link *links;
    size_t link_capacity;
    struct rs_buf bytes;
    struct rs_ascend_bands *bands;
};
/* An initialised, empty comm takes what is in `memory` to grow in. */
void rs_ascend_comm_borrow(struct rs_ascend_comm *comm, struct rs_ascend_comm_memory *memory);
/* Gives it back: what was read stays in memory of just its size. */
void rs_ascend_comm_settle(struct rs_ascend_comm *comm, struct rs_ascend_comm_memory *memory);
void rs_ascend_comm_memory_fini(struct rs_ascend_comm_memory *memory);
void rs_ascend_bands_free(struct rs_ascend_bands **bands); /* comm_db.c's */

RS_MUST_CHECK enum rs_status rs_ascend_comm_init(struct rs_ascend_comm *comm);
void rs_ascend_comm_fini(struct rs_ascend_comm *comm);
/* Nothing is in it; keeps the memory for the next rank. */
void rs_ascend_comm_reset(struct rs_ascend_comm *comm);

/* Adds a part from its JSON file. On failure the part is left out and `comm` is as before.
 * RS_NOTFOUND: no file; RS_FORMAT, RS_IO, RS_LIMIT, RS_NOMEM. `scratch` holds the file's text (its
 * memory is kept for the next call). */
RS_MUST_CHECK enum rs_status rs_ascend_comm_read_text(struct rs_ascend_comm *comm,
                                                      enum rs_ascend_comm_part part,
                                                      const char *path, struct rs_buf *scratch,
                                                      struct rs_err *err);
/* The same from JSON in memory; `name` is for sentences. */
RS_MUST_CHECK enum rs_status rs_ascend_comm_parse(struct rs_ascend_comm *comm,
                                                  enum rs_ascend_comm_part part, const void *text,
                                                  size_t length, const char *name,
                                                  struct rs_err *err);
/* The same from analysis.db or communication_analyzer.db. RS_NOTFOUND: no such table. */
RS_MUST_CHECK enum rs_status rs_ascend_comm_read_db(struct rs_ascend_comm *comm,
                                                    enum rs_ascend_comm_part part,
                                                    struct rs_ascend_db *db, struct rs_err *err);

/* Operations while they are read, for one who need not keep them: an operation, then each of its transports with
 * its packages. A status other than RS_OK ends the reading and is passed on. Texts are ids of the comm's names. */
struct rs_ascend_comm_visitor {
    void *context;
    enum rs_status (*op)(void *context, const struct rs_ascend_comm_op *op,
                         const struct rs_ascend_num times[RS_ASCEND_COMM_TIMES]);
    enum rs_status (*band)(void *context, rs_str transport,
                           const struct rs_ascend_num fields[RS_ASCEND_COMM_BAND_FIELDS]);
    enum rs_status (*package)(void *context, rs_str size, const struct rs_ascend_num *count,
                              const struct rs_ascend_num *duration);
};
/* The operations of rs_ascend_comm_read_db(); only names and parts of `comm` are filled. On failure the visitor
 * may have seen some. */
RS_MUST_CHECK enum rs_status rs_ascend_comm_visit_db(struct rs_ascend_comm *comm,
                                                     struct rs_ascend_db *db,
                                                     const struct rs_ascend_comm_visitor *visitor,
                                                     struct rs_err *err);

/* One operation, unpacked step by step: times first, then each transport, then its packages. */
struct rs_ascend_comm_cursor {
    const uint8_t *at, *end;
    uint64_t bands, packages; /* still to come */
};

/* Both cannot fail on a comm that was read or decoded. */
void rs_ascend_comm_op_open(const struct rs_ascend_comm *comm, const struct rs_ascend_comm_op *op,
                            struct rs_ascend_comm_cursor *cursor_p,
                            struct rs_ascend_num times_p[RS_ASCEND_COMM_TIMES]);
/* The same without the times. */
void rs_ascend_comm_bands_open(const struct rs_ascend_comm *comm,
                               const struct rs_ascend_comm_op *op,
                               struct rs_ascend_comm_cursor *cursor_p);
/* False: no more. Packages of the transport before must have been taken. */
bool rs_ascend_comm_band(struct rs_ascend_comm_cursor *cursor, rs_str *transport_p,
                         struct rs_ascend_num fields_p[RS_ASCEND_COMM_BAND_FIELDS]);
bool rs_ascend_comm_package(struct rs_ascend_comm_cursor *cursor, rs_str *size_p,
                            struct rs_ascend_num *count_p, struct rs_ascend_num *duration_p);
/* size, time, bandwidth. */
void rs_ascend_comm_link_open(const struct rs_ascend_comm *comm,
                              const struct rs_ascend_comm_link *link,
                              struct rs_ascend_num fields_p[3]);

/* The blob: "RSVC", u32 version, u64 body length, u32 CRC-32C of the body, body. Appends to `buf`. */
RS_MUST_CHECK enum rs_status rs_ascend_comm_encode(const struct rs_ascend_comm *comm,
                                                   struct rs_buf *buf, struct rs_err *err);
/* From anyone's bytes. RS_FORMAT, RS_VERSION, RS_NOMEM. Initialises *comm_p on RS_OK only. */
RS_MUST_CHECK enum rs_status rs_ascend_comm_decode(const void *bytes, size_t length,
                                                   struct rs_ascend_comm *comm_p,
                                                   struct rs_err *err);

/* For writers of a comm (the readers of this room): begin, then bands with their packages, then end. */
struct rs_ascend_comm_writer {
    struct rs_ascend_comm *comm;
    struct rs_ascend_comm_op op;
    size_t band_count_at, package_count_at;
    unsigned bands, packages;
};
void rs_ascend_comm_op_begin(struct rs_ascend_comm_writer *writer, struct rs_ascend_comm *comm,
                             const struct rs_ascend_num times[RS_ASCEND_COMM_TIMES]);
void rs_ascend_comm_band_begin(struct rs_ascend_comm_writer *writer, rs_str transport,
                               const struct rs_ascend_num fields[RS_ASCEND_COMM_BAND_FIELDS]);
void rs_ascend_comm_add_package(struct rs_ascend_comm_writer *writer, rs_str size,
                                const struct rs_ascend_num *count,
                                const struct rs_ascend_num *duration);
/* RS_NOMEM, RS_LIMIT (more than 255 transports, 65535 sizes); writer->op names what was written. */
RS_MUST_CHECK enum rs_status rs_ascend_comm_op_end(struct rs_ascend_comm_writer *writer);
RS_MUST_CHECK enum rs_status rs_ascend_comm_add_link(struct rs_ascend_comm *comm,
                                                     const struct rs_ascend_comm_link *link,
                                                     const struct rs_ascend_num fields[3]);

#endif
