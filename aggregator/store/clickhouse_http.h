/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ClickHouse over HTTP: one statement, one answer (libcurl). Inside the room.
 *
 *     clickhouse://[USER@]HOST[:PORT]/DATABASE         HTTPS, port 8443
 *     clickhouse+http://[USER@]HOST[:PORT]/DATABASE    plain, port 8123; on this machine only
 *
 * A server that cannot be asked over TLS is not asked from elsewhere: rows of a job are nobody else's. The password stands in a file
 * (0600) or in RANKSCOPE_STORE_PASSWORD; with a certificate of one's own there may be none.
 *
 * A link belongs to one thread. Every answer is whole before its first byte comes (the server keeps it that long), so that an error
 * in its middle is told as one.
 */
#ifndef RS_STORE_CLICKHOUSE_HTTP_H
#define RS_STORE_CLICKHOUSE_HTTP_H

#include "aggregator/store/clickhouse.h"
#include "common/base/buf.h"

struct clickhouse_link;

/* Copies. Asks nobody yet. RS_INVALID: no such address; RS_REFUSED: plain text beyond this machine, or a file that others may read;
 * RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status clickhouse_link_open(const struct rs_clickhouse_options *options,
                                                  struct clickhouse_link **link_p,
                                                  struct rs_err *err);
void clickhouse_link_close(struct clickhouse_link **link_p);
/* A second one to the same server. RS_NOMEM. */
RS_MUST_CHECK enum rs_status clickhouse_link_twin(const struct clickhouse_link *link,
                                                  struct clickhouse_link **link_p,
                                                  struct rs_err *err);
/* A name: a-z, A-Z, 0-9, "_". */
const char *clickhouse_link_database(const struct clickhouse_link *link);

/* Runs `sql` with `body` behind it (NULL: none), once; what is answered (64 MiB at most) replaces `answer` (NULL: nothing is wanted).
 * has_database false: before there is one. RS_UNREACHABLE: it may have happened, or not. RS_REFUSED, RS_NOTFOUND (no such table or
 * database), RS_IO: the server says no; RS_LIMIT, RS_NOMEM. */
RS_MUST_CHECK enum rs_status clickhouse_run(struct clickhouse_link *link, const char *sql,
                                            const struct rs_buf *body, bool has_database,
                                            struct rs_buf *answer, struct rs_err *err);
/* The same of what changes nothing: tried again while the server cannot be reached, three times in all. */
RS_MUST_CHECK enum rs_status clickhouse_ask(struct clickhouse_link *link, const char *sql,
                                            struct rs_buf *answer, struct rs_err *err);

/* An answer of any length, piece by piece. Nothing else may be asked over the link until it has ended. */
RS_MUST_CHECK enum rs_status clickhouse_stream_begin(struct clickhouse_link *link, const char *sql,
                                                     struct rs_err *err);
/* Appends what comes next to `buf`, at least a byte. RS_END: that was all of it. As clickhouse_run(). */
RS_MUST_CHECK enum rs_status clickhouse_stream_next(struct clickhouse_link *link,
                                                    struct rs_buf *buf, struct rs_err *err);
void clickhouse_stream_end(struct clickhouse_link *link);

#endif
