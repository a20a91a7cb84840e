/* SPDX-License-Identifier: Apache-2.0 */
/* What row_store.c hands on when its rows are in ClickHouse (clickhouse.c). Inside the room. */
#ifndef RS_STORE_CLICKHOUSE_PRIV_H
#define RS_STORE_CLICKHOUSE_PRIV_H

#include "aggregator/store/clickhouse.h"

struct clickhouse_store;
struct clickhouse_writer;
struct clickhouse_cursor;

/* As rs_clickhouse_open(). */
RS_MUST_CHECK enum rs_status clickhouse_open(const struct rs_clickhouse_options *options,
                                             const char *capture, enum rs_row_mode mode,
                                             struct clickhouse_store **store_p, struct rs_err *err);
void clickhouse_close(struct clickhouse_store **store_p);

RS_MUST_CHECK enum rs_status clickhouse_begin(struct clickhouse_store *store,
                                              const struct rs_unit *unit,
                                              struct clickhouse_writer **writer_p,
                                              struct rs_err *err);
RS_MUST_CHECK enum rs_status clickhouse_put(struct clickhouse_writer *writer,
                                            const struct rs_table *table, const void *rows,
                                            size_t count, struct rs_err *err);
RS_MUST_CHECK enum rs_status clickhouse_commit(struct clickhouse_writer *writer,
                                               struct rs_err *err);
/* It holds no row any more, and is not told of. */
RS_MUST_CHECK enum rs_status clickhouse_remove(struct clickhouse_store *store,
                                               const struct rs_unit *unit, struct rs_err *err);
/* As rs_row_store_hold(), rs_row_store_release(). */
void clickhouse_hold(struct clickhouse_store *store);
RS_MUST_CHECK enum rs_status clickhouse_release(struct clickhouse_store *store, struct rs_err *err);
void clickhouse_writer_free(struct clickhouse_writer **writer_p);

/* *generation_p: of the rows that are seen; the same for all reads that are open at once. */
RS_MUST_CHECK enum rs_status clickhouse_read(struct clickhouse_store *store, enum rs_read read,
                                             const struct rs_read_args *args,
                                             struct clickhouse_cursor **cursor_p,
                                             int64_t *generation_p, struct rs_err *err);
/* The first `rows` rows are not wanted. Before the first clickhouse_next(). */
void clickhouse_skip(struct clickhouse_cursor *cursor, uint64_t rows);
RS_MUST_CHECK enum rs_status clickhouse_next(struct clickhouse_cursor *cursor,
                                             struct rs_block *block, struct rs_err *err);
void clickhouse_read_close(struct clickhouse_cursor **cursor_p);

/* row_store.c: the kind of unit a table is written with: a rank's has two columns of it, a step's one, the capture's none. */
enum rs_unit_kind row_unit_kind(const struct rs_table *table, const struct rs_column *units[2]);

#endif
