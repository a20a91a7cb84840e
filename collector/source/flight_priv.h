/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the flight reader share: values (of a pickle, or of JSON put in the same form) into a dump.
 */
#ifndef RS_SOURCE_FLIGHT_PRIV_H
#define RS_SOURCE_FLIGHT_PRIV_H

#include "collector/source/flight.h"
#include "collector/source/pickle.h"
#include "common/base/buf.h"

enum { FLIGHT_CACHE = 512, FLIGHT_WAYS = 4 /* places of a value */, FLIGHT_CALLS = 64 };

/* What a tree of values came out as, by its hash; or what bytes of the dump did, by themselves. */
struct flight_cached {
    uint64_t hash;
    const uint8_t *bytes; /* NULL: a tree */
    uint32_t length;
    bool is_used;
    rs_str id;
    int64_t numel; /* of sizes; of groups: the index */
};

/* What a text came out as that names a call. */
struct flight_name {
    struct rs_flight_name name;
    rs_str id;
    uint32_t text; /* its index */
    bool is_used;
};

struct rs_flight_reader {
    struct rs_pickle pickle;
    struct rs_buf text; /* for what is put together */
    struct rs_buf file;
    struct flight_cached sizes[FLIGHT_CACHE], names[FLIGHT_CACHE], frames[FLIGHT_CACHE],
        groups[FLIGHT_CACHE];
    struct flight_name calls[FLIGHT_CALLS];
    unsigned next_way;         /* of a full set: is driven out next */
    size_t memo_changes;       /* as far as the four caches know */
    struct rs_flight_set *set; /* while reading */
    bool is_json;              /* a time of 0 is none */
    bool is_eager;             /* for tests: pickles by the machine alone, code by code */
};

/* A dictionary that has a record_id and a call's name becomes a call of the set's last dump. True: it was one. */
bool flight_take_entry(void *self, struct rs_pickle *pickle, const struct rs_pickle_value *items,
                       size_t count, enum rs_status *status_p);
/* The outermost dictionary: version, groups, their state. RS_VERSION, RS_NOTFOUND (another thing's), RS_NOMEM. */
RS_MUST_CHECK enum rs_status flight_take_root(struct rs_flight_reader *reader,
                                              const struct rs_pickle_value *items, size_t count,
                                              struct rs_err *err);
/* JSON text as values; calls go through flight_take_entry() on the way. RS_PARTIAL: cut, what is whole was taken. */
RS_MUST_CHECK enum rs_status flight_read_json(struct rs_flight_reader *reader, const char *text,
                                              size_t length, struct rs_err *err);

#endif
