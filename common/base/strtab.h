/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names <-> small integers: the dictionary of one rank's events.
 *
 * Ids are dense from 0 in order of first appearance; id 0 is always the empty string.
 * Strings are bytes with a length: they may hold any byte, NUL too. Text returned stays where it is until
 * _fini (memory is taken in blocks, never moved). One thread at a time.
 */
#ifndef RS_BASE_STRTAB_H
#define RS_BASE_STRTAB_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef uint32_t rs_str; /* an id of a string table */

enum { RS_STR_EMPTY = 0 };
#define RS_STR_NONE UINT32_MAX /* "no string", where that differs from the empty one */

struct rs_strtab_entry {
    const char *text; /* NUL behind it, not counted */
    uint32_t length;
    uint32_t hash;
};

struct rs_strtab {
    struct rs_strtab_entry *entries; /* [count] by id */
    size_t count;
    size_t capacity;
    uint32_t *slots; /* open addressing: id + 1, 0 free; slot_count is a power of two */
    size_t slot_count;
    struct rs_strtab_block *blocks;
    size_t bytes;       /* of all strings */
    size_t limit_bytes; /* adding beyond it is RS_LIMIT */
};

/* limit_bytes 0: 256 MiB. */
RS_MUST_CHECK enum rs_status rs_strtab_init(struct rs_strtab *table, size_t limit_bytes);
/* The same for a table that is known to get `count` strings of `bytes` together, neither the empty one nor NULs counted: it takes no more
 * memory than these need, and still grows. Limit: 256 MiB. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_strtab_init_for(struct rs_strtab *table, size_t count,
                                                size_t bytes);
void rs_strtab_fini(struct rs_strtab *table);
/* Only the empty string is left; keeps the memory of an average table for the next use. */
void rs_strtab_reset(struct rs_strtab *table);

/* The id of these bytes, added when new (copies them). RS_NOMEM, RS_LIMIT. */
RS_MUST_CHECK enum rs_status rs_strtab_add(struct rs_strtab *table, const char *text, size_t length,
                                           rs_str *id_p);
/* RS_STR_NONE when it is not there. */
rs_str rs_strtab_find(const struct rs_strtab *table, const char *text, size_t length);

/* The text of an id of this table; "" for RS_STR_NONE. An id out of range is a bug. */
const char *rs_strtab_text(const struct rs_strtab *table, rs_str id);
size_t rs_strtab_length(const struct rs_strtab *table, rs_str id);

#endif
