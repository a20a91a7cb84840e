/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flight recorder dumps of PyTorch, 2.0 to 2.x, and what NCCL's own tools say of the same ranks, into one set.
 *
 *   PATH... --rs_flight_find()--> files --look at the first bytes--> pickle, JSON, RAS, Inspector
 *                                                                        \___ struct rs_flight_set
 *
 * A dump says nothing of its rank: it stands in the file's name (--rank-map, --rank-from, a number behind "rank", else
 * the number at the very end, which is where PyTorch puts it). A truncated dump gives the calls that are whole. A pickle
 * with a code that libtorch does not write is refused, and the file with it. One thread.
 */
#ifndef RS_SOURCE_FLIGHT_H
#define RS_SOURCE_FLIGHT_H

#include "common/flight/flight.h"

enum { RS_FLIGHT_FILE_MAX = 512 << 20 };

struct rs_flight_reader; /* memory that is used again from file to file */
RS_MUST_CHECK enum rs_status rs_flight_reader_new(struct rs_flight_reader **reader_p);
void rs_flight_reader_free(struct rs_flight_reader **reader_p);

/* The bytes of one dump, pickle or JSON, as the last dump of the set (its rank is the caller's). RS_PARTIAL: truncated,
 * what is whole is there. RS_NOTFOUND: no flight recorder dump. RS_FORMAT, RS_VERSION, RS_LIMIT: looks like one and is
 * refused; nothing was added. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_flight_read(struct rs_flight_reader *reader, const void *data,
                                            size_t length, const char *path,
                                            struct rs_flight_set *set, struct rs_err *err);

/* `ncclras` status (JSON) or a log of NCCL Inspector, as witnesses. RS_NOTFOUND: neither. RS_FORMAT, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_flight_read_witness(const char *text, size_t length,
                                                    const char *path, struct rs_flight_set *set,
                                                    struct rs_err *err);

struct rs_flight_find_options {
    const char *rank_map_path;
    const char *const *rank_from;
    size_t rank_from_count;
};

struct rs_flight_found {
    size_t dumps, partial, failed, skipped, witnesses; /* files */
};

/* Reads what is below the paths (folders: depth 8, links not followed), sorts the set. A file that cannot be read is a
 * note and counted. RS_PARTIAL: some files failed or were cut. RS_NOTFOUND: a path does not exist. RS_INVALID: the map or a
 * pattern is bad, or a dump whose rank nobody knows, with its name. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_flight_find(const char *const *paths, size_t path_count,
                                            const struct rs_flight_find_options *options,
                                            struct rs_flight_set *set,
                                            struct rs_flight_found *found_p, struct rs_err *err);

#endif
