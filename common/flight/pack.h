/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dump as bytes, for the wire and for rest: a collector packs what a rank of its node said, the aggregator unpacks the
 * dumps of all ranks into one set.
 *
 *   dump = head | strings, each once | groups | calls, a difference to the one before where that is shorter     (zstd)
 *
 * About 10 bytes a call instead of the 230 of a pickle. What is not known stays unknown. Bytes from outside are hostile:
 * every count is held against the bytes that are there, and a dump may not become larger than RS_FLIGHT_PACK_RAW_MAX.
 */
#ifndef RS_FLIGHT_PACK_H
#define RS_FLIGHT_PACK_H

#include "common/base/buf.h"
#include "common/flight/flight.h"

enum {
    RS_FLIGHT_PACK_RAW_MAX = 64 << 20, /* before it is compressed */
    RS_FLIGHT_PACK_MAX = 16 << 20,     /* after */
};

/* Appends the dump. RS_LIMIT: it is larger than the limits. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_flight_pack(const struct rs_flight_set *set,
                                            const struct rs_flight_dump *dump, struct rs_buf *buf,
                                            struct rs_err *err);
/* The dump as the set's last one. RS_FORMAT, RS_VERSION, RS_LIMIT, RS_NOMEM: nothing was added. */
RS_MUST_CHECK enum rs_status rs_flight_unpack(const void *bytes, size_t length,
                                              struct rs_flight_set *set, struct rs_err *err);

/* The name of such a file in a capture's folder. */
#define RS_FLIGHT_FILE_NAME "dumps.flight"

/* Dumps and notes of a set as one file: magic, then a record each, and a checksum behind them. RS_LIMIT, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_flight_file_begin(struct rs_buf *file);
RS_MUST_CHECK enum rs_status rs_flight_file_dump(struct rs_buf *file, const void *packed,
                                                 size_t length);
RS_MUST_CHECK enum rs_status rs_flight_file_note(struct rs_buf *file, const char *text);
RS_MUST_CHECK enum rs_status rs_flight_file_end(struct rs_buf *file);
/* Into the set, which is sorted then. A record that cannot be read becomes a note and is counted in *damaged_p. RS_FORMAT:
 * this is no such file, or its checksum is wrong. RS_VERSION, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_flight_file_read(const void *bytes, size_t length,
                                                 struct rs_flight_set *set, size_t *damaged_p,
                                                 struct rs_err *err);

#endif
