/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record log: an append-only file of checksummed records that survives kill -9.
 *
 * Spool and store both rest on it: what was appended whole is found again after a crash, and
 * what was torn is cut, so a file is always a prefix of what was appended.
 *
 *     file    | header 16 B | record | record | ... (torn tail: cut on open)
 *     header  | magic "RSRECLOG" | u32 version | u32 crc32c of the 12 bytes before |
 *     record  | u32 magic | u32 crc32c of the next 32 bytes | u16 kind | u16 flags | u32 tag |
 *             | u64 seq | u32 length | u32 crc32c of payload | u64 reserved, 0 | payload | 0 to 7 zero bytes |
 *
 * All integers little-endian; every record starts at a multiple of 8. `kind`, `flags`, `tag` and
 * `seq` mean what the user of the log says. One thread appends; readers map the file and see
 * the records that were whole when they opened it.
 */
#ifndef RS_BASE_RECLOG_H
#define RS_BASE_RECLOG_H

#include "common/base/err.h"
#include "common/base/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
    RS_RECLOG_VERSION = 1,
    RS_RECLOG_FILE_HEADER_BYTES = 16,
    RS_RECLOG_RECORD_HEADER_BYTES = 40,
    RS_RECLOG_PAYLOAD_MAX_BYTES = 8 * 1024 * 1024,
    RS_RECLOG_PARTS_MAX = 64, /* pieces of one payload */
};

struct rs_reclog_record {
    uint16_t kind;
    uint16_t flags;
    uint32_t tag;
    uint64_t seq;
    /* append only: the payload's CRC-32C, for who has it already; taken on trust */
    bool has_payload_crc;
    uint32_t payload_crc;
};

struct rs_reclog {
    int fd;          /* -1: not open */
    char *path;      /* owned */
    uint64_t length; /* bytes of whole records, header included */
    uint64_t pushed; /* the disk was asked to write up to here */
    bool is_broken;  /* a failed append could not be undone: only close is allowed */
    /* Set by the user behind create or open, for a log that may get long: places on the disk are asked for ahead, as many bytes as
     * it has, 16 MiB at the most. What is left of them is given back by close, or, after a crash, by the next open. The
     * file's length is never more than what was appended. */
    bool is_reserving;
    uint64_t reserved; /* there are places up to here; UINT64_MAX: none are to be had ahead */
};

/* Creates the file; RS_EXISTS when it is there. */
RS_MUST_CHECK enum rs_status rs_reclog_create(struct rs_reclog *log, const char *path,
                                              struct rs_err *err);
/* Opens for appending and cuts a torn tail; *cut_p (may be NULL) is how many bytes went. A record in the middle that cannot
 * be read is no torn tail: what stands behind it stays (rs_reclog_resync() finds it). A file too short to hold its header
 * becomes an empty log. RS_FORMAT when it is no record log. */
RS_MUST_CHECK enum rs_status rs_reclog_open(struct rs_reclog *log, const char *path,
                                            uint64_t *cut_p, struct rs_err *err);
void rs_reclog_close(struct rs_reclog *log); /* of a zeroed or closed log is allowed */

/* Appends one record whose payload is the parts in order; *offset_p (may be NULL) is where the record
 * starts. On failure (RS_IO, RS_LIMIT) the file is cut back to what it was. */
RS_MUST_CHECK enum rs_status rs_reclog_append(struct rs_reclog *log,
                                              const struct rs_reclog_record *record,
                                              const struct iovec *parts, size_t part_count,
                                              uint64_t *offset_p, struct rs_err *err);
/* fdatasync. */
RS_MUST_CHECK enum rs_status rs_reclog_sync(struct rs_reclog *log, struct rs_err *err);

/* Asks the disk to begin with what was appended since the last call, so that the next sync waits less. Promises
 * nothing. */
void rs_reclog_push(struct rs_reclog *log);

/* Bytes a record with such a payload takes in the file. */
uint64_t rs_reclog_record_bytes(uint64_t payload_bytes);

/* Reading: the whole file mapped. Views lent are valid until rs_reclog_reader_close(). */
struct rs_reclog_reader {
    const uint8_t *data;
    size_t length;
    size_t position;
    char *path;
};

RS_MUST_CHECK enum rs_status rs_reclog_reader_open(struct rs_reclog_reader *reader,
                                                   const char *path, struct rs_err *err);
void rs_reclog_reader_close(struct rs_reclog_reader *reader);

enum rs_reclog_check {
    RS_RECLOG_CHECK_HEADER, /* the header's checksum */
    RS_RECLOG_CHECK_ALL,    /* the payload's too */
};

/* The next record. RS_END at the end of the file; RS_FORMAT at one that is not whole: reader->position says where, and only
 * rs_reclog_resync() gets behind it. `offset_p` may be NULL. */
RS_MUST_CHECK enum rs_status rs_reclog_next(struct rs_reclog_reader *reader,
                                            enum rs_reclog_check check,
                                            struct rs_reclog_record *record_p,
                                            struct rs_view *payload_p, uint64_t *offset_p,
                                            struct rs_err *err);
/* Steps over bytes that hold no record, to the next one that is whole. RS_OK; RS_END: none follows, the rest of the file is a
 * torn tail or damage up to its end. */
RS_MUST_CHECK enum rs_status rs_reclog_resync(struct rs_reclog_reader *reader);
/* The record at an offset got from append or next, checked whole. */
RS_MUST_CHECK enum rs_status rs_reclog_at(const struct rs_reclog_reader *reader, uint64_t offset,
                                          enum rs_reclog_check check,
                                          struct rs_reclog_record *record_p,
                                          struct rs_view *payload_p, struct rs_err *err);

#endif
