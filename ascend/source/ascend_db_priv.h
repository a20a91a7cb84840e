/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the database reader share.
 */
#ifndef RS_SOURCE_ASCEND_DB_PRIV_H
#define RS_SOURCE_ASCEND_DB_PRIV_H

#include "ascend/format/db.h"
#include "ascend/source/ascend_priv.h"
#include "common/base/buf.h"

#include <sqlite3.h>

/* A step on the host, and what its launches did on the device. */
struct db_step {
    int64_t number;
    rs_ns host_start, host_end;
    rs_ns start, end; /* of the device work; RS_NS_MAX, RS_NS_MIN: none */
};

#define DB_NO_STEP        UINT32_MAX
#define DB_DEVICE_UNKNOWN (-1)
#define DB_DEVICE_SEVERAL (-2)

/* What is known of a connection: launches of a step, operations of HCCL. */
struct db_connection {
    int64_t id;
    uint32_t step; /* of the node row that launched it, when it lies inside one */
    bool is_used, is_op;
    int32_t device; /* of its tasks */
};

struct db_connections {
    struct db_connection *slots; /* open addressing; slot_count is a power of two */
    size_t slot_count, count;
};

/* Time that tasks of one operation cover without a gap. */
struct db_stretch {
    rs_ns start, end;
};

struct db_op {
    struct ascend_op op;
    bool has_device;
    size_t stretch_first, stretch_count; /* in stretches */
};

struct db_reader {
    struct ascend a;
    struct rs_ascend_db *db;
    struct rs_ascend_names strings, api_types, link_types, data_types, rdma_types;
    struct db_step *steps; /* by start */
    size_t step_count, step_capacity;
    struct db_connections connections;
    struct db_op *ops; /* by id */
    size_t op_count, op_capacity;
    struct db_stretch *stretches; /* by operation, then by start */
    size_t stretch_count, stretch_capacity;
    int64_t comm_marks; /* of MSTX_EVENTS: marks that tell of a communication operation */
    bool has_stretches; /* operations are what their tasks cover: ascend_db_stretch.c */
    int32_t *devices;   /* seen in TASK */
    size_t device_count, device_capacity;
    int64_t map_device; /* RANK_DEVICE_MAP; -1 unknown */
};

/* NULL: not there. */
struct db_connection *db_connection_find(const struct db_connections *map, int64_t id);
RS_MUST_CHECK enum rs_status db_connection_add(struct db_connections *map, int64_t id,
                                               struct db_connection **connection_p);

/* The column, or NULL where this generation has none, for an SQL text: `alias.column AS column`. */
void db_put_column(struct db_reader *reader, struct rs_buf *sql, const char *table,
                   const char *alias, const char *column);
/* A cell that holds an id of STRING_IDS, or the text itself. Never NULL. Lends until the next step. */
const char *db_string(struct db_reader *reader, struct sqlite3_stmt *rows, int column);
/* The same through a table of names; "" when it is none. */
const char *db_name(const struct rs_ascend_names *names, struct sqlite3_stmt *rows, int column);
int64_t db_int(struct sqlite3_stmt *rows, int column, int64_t absent);
/* Start and end from columns 0 and 1; false (and counted) when one is missing. */
bool db_times(struct db_reader *reader, struct sqlite3_stmt *rows, rs_ns *start_p, rs_ns *end_p);
/* Prepares and frees `sql`. */
RS_MUST_CHECK enum rs_status db_prepare(struct db_reader *reader, struct rs_buf *sql,
                                        struct sqlite3_stmt **rows_p, struct rs_err *err);

/* RS_OK, or the status with the database's name. */
RS_MUST_CHECK enum rs_status db_status(const struct db_reader *reader, enum rs_status status,
                                       struct rs_err *err);
/* N of ProfilerStep#N; false when it is none. */
bool db_step_number(const char *name, int64_t *number_p);
/* Rows of a table, with the columns named (NULL ends them), through `each`; a table that is not there has none. */
typedef enum rs_status db_row_fn(struct db_reader *reader, struct sqlite3_stmt *rows,
                                 struct rs_err *err);
RS_MUST_CHECK enum rs_status db_emit_table(struct db_reader *reader, const char *table,
                                           const char *const *columns, db_row_fn *each,
                                           struct rs_err *err);
/* The same of the rows that a clause (" WHERE t.x ...", may be "") leaves. */
RS_MUST_CHECK enum rs_status db_emit_rows(struct db_reader *reader, const char *table,
                                          const char *const *columns, const char *where,
                                          db_row_fn *each, struct rs_err *err);

/* ascend_db_check.c: what is not there or holds something else becomes a flaw of the rank. */
RS_MUST_CHECK enum rs_status db_check(struct db_reader *reader, struct rs_err *err);

/* A column of a row under the name that its member of extra has. */
struct db_member {
    int column;
    bool is_text; /* an id of STRING_IDS */
    const char *key;
};

/* ascend_db_rest.c */

/* In a lossless reading: what else a row says, into extra of the batch's newest row. NULL is no member. */
RS_MUST_CHECK enum rs_status db_put_members(struct db_reader *reader, struct sqlite3_stmt *rows,
                                            const struct db_member *members, size_t count,
                                            size_t at);
RS_MUST_CHECK enum rs_status db_read_marks(struct db_reader *reader, struct rs_err *err);
RS_MUST_CHECK enum rs_status db_read_operators(struct db_reader *reader, struct rs_err *err);
RS_MUST_CHECK enum rs_status db_read_rest(struct db_reader *reader, struct rs_err *err);

/* ascend_db_tables.c: what no other file reads. */
RS_MUST_CHECK enum rs_status db_read_tables(struct db_reader *reader, struct rs_err *err);

/* ascend_db_comm.c: COMMUNICATION_OP into ops; the transfers; the operations themselves, when their devices
 * are known. */
RS_MUST_CHECK enum rs_status db_load_ops(struct db_reader *reader, struct rs_err *err);
RS_MUST_CHECK enum rs_status db_emit_hops(struct db_reader *reader, struct rs_err *err);
RS_MUST_CHECK enum rs_status db_emit_ops(struct db_reader *reader, struct rs_err *err);
void db_settle_devices(struct db_reader *reader);

/* ascend_db_stretch.c: what the tasks of an operation, by start, cover; and, when all are known, whether operations are that. */
RS_MUST_CHECK enum rs_status db_stretch_op(struct db_reader *reader, struct db_op *op,
                                           const struct ascend_task *tasks, size_t count);
RS_MUST_CHECK enum rs_status db_choose_stretches(struct db_reader *reader);

#endif
