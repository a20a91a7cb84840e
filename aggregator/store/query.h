/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody's own SELECT on the rows of a capture. The statement is a stranger's: it reads and computes, and nothing else.
 *
 *     authorizer    SELECT, columns, recursion and functions that only compute; no ATTACH, PRAGMA, temporary tables, transactions
 *     limits        of time (a progress handler), memory (SQLite's, of this process, since the query began), rows and bytes of
 *                   the answer, and of what SQLite is made to parse
 *     connection    read-only, temporary data in memory: nothing is written anywhere
 *
 * The handle is used up: it is good for rs_row_store_close() afterwards.
 */
#ifndef RS_STORE_QUERY_H
#define RS_STORE_QUERY_H

#include "aggregator/store/row_store.h"
#include "common/base/buf.h"
#include "common/base/time.h"

struct rs_query_limits {
    uint64_t rows; /* of the answer; what lies behind it is cut off */
    size_t bytes;  /* of its text, the same */
    rs_dur time_ns;
    int64_t memory_bytes;
};

struct rs_query_facts {
    uint64_t rows;
    bool is_cut; /* there are more rows than were asked for, or fit */
};

enum { RS_QUERY_SQL_BYTES_MAX = 64 << 10 };

/* Appends `"columns": ["rank", ...], "rows": [[0, ...], ...]`: no value is null, whole numbers are whole, bytes are hexadecimal.
 * `store` is one that was opened to read. RS_INVALID: SQLite does not understand it, it is not one SELECT, or not allowed.
 * RS_TIMEOUT, RS_LIMIT (memory, a value of more than 1 MiB), RS_FORMAT, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_row_store_query(struct rs_row_store *store, const char *sql,
                                                const struct rs_query_limits *limits,
                                                struct rs_buf *json, struct rs_query_facts *facts,
                                                struct rs_err *err);

#endif
