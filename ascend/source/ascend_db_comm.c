/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HCCL in the database: COMMUNICATION_OP rows are the operations, COMMUNICATION_TASK_INFO rows (with their times in TASK) what
 * they did.
 *
 *   load    before TASK is read, so that it can tell the devices of their connections
 *   hops    transfers, operation by operation; they tell peers and transports
 *   emit    the operations themselves
 */
#include "ascend/source/ascend_db_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { TASKS_MAX = 16 << 20 }; /* of one operation */

enum op_column {
    OP_START,
    OP_END,
    OP_NAME,
    OP_CONNECTION,
    OP_GROUP,
    OP_DTYPE,
    OP_COUNT,
    OP_DEVICE,
    OP_RANKS,
    OP_ID
};

/* "" when it has no name. */
static void hash_of(const char *name, char hash[RS_ASCEND_HASH_BYTES])
{
    hash[0] = '\0';
    if (*name && strcmp(name, "N/A") != 0)
        rs_ascend_group_key(name, hash);
}

static enum rs_status find_group(struct db_reader *reader, struct sqlite3_stmt *rows,
                                 int64_t rank_size, size_t *group_p)
{
    char hash[RS_ASCEND_HASH_BYTES];
    hash_of(db_string(reader, rows, OP_GROUP), hash);
    return ascend_group_find(&reader->a, hash, rank_size, group_p);
}

/* Transfers name places within their group: it has at least so many ranks. */
static enum rs_status load_places(struct db_reader *reader, struct rs_err *err)
{
    static const char *const table = "COMMUNICATION_TASK_INFO";
    struct sqlite3_stmt *rows = NULL;
    struct rs_buf sql = {0};
    if (!rs_ascend_db_has_column(reader->db, table, "groupName") ||
        !rs_ascend_db_has_column(reader->db, table, "srcRank") ||
        !rs_ascend_db_has_column(reader->db, table, "dstRank"))
        return RS_OK;
    rs_buf_string(&sql, "SELECT groupName, max(CASE WHEN srcRank < 4294967295 THEN srcRank END),"
                        " max(CASE WHEN dstRank < 4294967295 THEN dstRank END)"
                        " FROM COMMUNICATION_TASK_INFO GROUP BY groupName");
    enum rs_status status = db_prepare(reader, &sql, &rows, err);
    while (status == RS_OK && (status = rs_ascend_db_step(reader->db, rows, err)) == RS_OK) {
        char hash[RS_ASCEND_HASH_BYTES];
        hash_of(db_string(reader, rows, 0), hash);
        for (int column = 1; column <= 2 && status == RS_OK; column++)
            status = db_status(
                reader, ascend_group_has_place(&reader->a, hash, db_int(rows, column, -1)), err);
    }
    rs_ascend_db_finish(&rows);
    return status == RS_END ? RS_OK : status;
}

static enum rs_status load_op(struct db_reader *reader, struct sqlite3_stmt *rows)
{
    struct db_op op = {.op = {.peer = -1, .transport = RS_STR_NONE, .dtype = NULL}};
    if (!db_times(reader, rows, &op.op.start, &op.op.end))
        return RS_OK;
    op.op.connection = db_int(rows, OP_CONNECTION, -1);
    op.op.id = db_int(rows, OP_ID, -1);
    op.op.count = db_int(rows, OP_COUNT, -1);
    op.op.device = db_int(rows, OP_DEVICE, -1);
    op.has_device = op.op.device >= 0;
    const char *dtype = db_name(&reader->data_types, rows, OP_DTYPE);
    op.op.dtype = *dtype ? dtype : NULL; /* lives in data_types, or is the cell's text: */
    if (sqlite3_column_type(rows, OP_DTYPE) == SQLITE_TEXT)
        op.op.dtype = NULL;
    enum rs_status status = ascend_text(&reader->a, db_string(reader, rows, OP_NAME), &op.op.name);
    if (status == RS_OK)
        status = find_group(reader, rows, db_int(rows, OP_RANKS, -1), &op.op.group);
    if (status == RS_OK && op.op.connection >= 0) {
        struct db_connection *known;
        status = db_connection_add(&reader->connections, op.op.connection, &known);
        if (status == RS_OK)
            known->is_op = true;
    }
    if (status == RS_OK)
        status = rs_mem_grow((void **)&reader->ops, &reader->op_capacity, reader->op_count + 1,
                             sizeof *reader->ops);
    if (status == RS_OK) {
        op.op.name_text = rs_strtab_text(&reader->a.stream->strings, op.op.name);
        reader->ops[reader->op_count++] = op;
    }
    return status;
}

static int by_id(const void *a_, const void *b_)
{
    const struct db_op *a = a_, *b = b_;
    if (a->op.id != b->op.id)
        return a->op.id < b->op.id ? -1 : 1;
    return (a->op.start > b->op.start) - (a->op.start < b->op.start);
}

enum rs_status db_load_ops(struct db_reader *reader, struct rs_err *err)
{
    static const char *const columns[] = {"startNs",      "endNs",     "opName",
                                          "connectionId", "groupName", "dataType",
                                          "count",        "deviceId",  "rankSize"};
    struct sqlite3_stmt *rows = NULL;
    struct rs_buf sql = {0};
    if (!rs_ascend_db_has_table(reader->db, "COMMUNICATION_OP"))
        return RS_OK;
    const bool has_id = rs_ascend_db_has_column(reader->db, "COMMUNICATION_OP", "opId");
    rs_buf_string(&sql, "SELECT ");
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        db_put_column(reader, &sql, "COMMUNICATION_OP", "t", columns[i]);
    rs_buf_printf(&sql, ",%s FROM COMMUNICATION_OP t", has_id ? "t.opId" : "t.rowid");
    enum rs_status status = load_places(reader, err);
    if (status == RS_OK)
        status = db_prepare(reader, &sql, &rows, err);
    else
        rs_buf_fini(&sql);
    while (status == RS_OK && (status = rs_ascend_db_step(reader->db, rows, err)) == RS_OK)
        status = db_status(reader, load_op(reader, rows), err);
    rs_ascend_db_finish(&rows);
    if (status != RS_END && status != RS_OK)
        return status;
    if (reader->op_count)
        qsort(reader->ops, reader->op_count, sizeof *reader->ops, by_id);
    return RS_OK;
}

void db_settle_devices(struct db_reader *reader)
{
    for (size_t i = 0; i < reader->op_count; i++) {
        struct db_op *op = &reader->ops[i];
        const struct db_connection *known =
            op->op.connection >= 0 ? db_connection_find(&reader->connections, op->op.connection)
                                   : NULL;
        if (op->has_device)
            continue;
        if (known && known->device >= 0)
            op->op.device = known->device;
        else if (reader->device_count == 1)
            op->op.device = reader->devices[0];
        else
            op->op.device = reader->map_device >= 0 ? reader->map_device : 0;
    }
}

/* ---- transfers ---- */

enum hop_column {
    HOP_START,
    HOP_END,
    HOP_OP,
    HOP_TYPE,
    HOP_PLANE,
    HOP_SRC,
    HOP_DST,
    HOP_SIZE,
    HOP_LINK,
    HOP_RDMA
};

struct tasks {
    struct ascend_task *items;
    size_t count, capacity;
};

static struct db_op *op_of(const struct db_reader *reader, int64_t id)
{
    size_t low = 0, high = reader->op_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (reader->ops[middle].op.id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < reader->op_count && reader->ops[low].op.id == id ? &reader->ops[low] : NULL;
}

static enum rs_status emit_run(struct db_reader *reader, int64_t id, struct tasks *tasks,
                               struct rs_err *err)
{
    struct db_op *op = op_of(reader, id);
    const size_t count = tasks->count;
    tasks->count = 0;
    if (!op || !count)
        return RS_OK;
    const enum rs_status status =
        db_status(reader, db_stretch_op(reader, op, tasks->items, count), err);
    if (status != RS_OK)
        return status;
    return ascend_emit_hops(&reader->a, &op->op, tasks->items, count, err);
}

/* 4294967295 says "none". */
static int64_t rank_or_none(struct sqlite3_stmt *rows, int column)
{
    const int64_t rank = db_int(rows, column, -1);
    return rank >= 0 && rank < UINT32_MAX ? rank : -1;
}

static enum rs_status take_task(struct db_reader *reader, struct sqlite3_stmt *rows,
                                struct tasks *tasks)
{
    struct ascend_task task = {.src = rank_or_none(rows, HOP_SRC),
                               .dst = rank_or_none(rows, HOP_DST),
                               .size = db_int(rows, HOP_SIZE, -1),
                               .plane = db_int(rows, HOP_PLANE, -1),
                               .link = ""};
    if (!db_times(reader, rows, &task.start, &task.end))
        return RS_OK;
    task.kind = (uint8_t)ascend_task_kind_of(db_string(reader, rows, HOP_TYPE),
                                             db_name(&reader->rdma_types, rows, HOP_RDMA));
    if (sqlite3_column_type(rows, HOP_LINK) == SQLITE_INTEGER)
        task.link = db_name(&reader->link_types, rows, HOP_LINK);
    if (tasks->count >= TASKS_MAX)
        return RS_LIMIT;
    const enum rs_status status = rs_mem_grow((void **)&tasks->items, &tasks->capacity,
                                              tasks->count + 1, sizeof *tasks->items);
    if (status == RS_OK)
        tasks->items[tasks->count++] = task;
    return status;
}

static enum rs_status walk_tasks(struct db_reader *reader, struct sqlite3_stmt *rows,
                                 struct rs_err *err)
{
    struct tasks tasks = {0};
    int64_t id = -1;
    enum rs_status status;
    while ((status = rs_ascend_db_step(reader->db, rows, err)) == RS_OK) {
        const int64_t next = db_int(rows, HOP_OP, -1);
        if (next != id)
            status = emit_run(reader, id, &tasks, err);
        id = next;
        if (status == RS_OK)
            status = db_status(reader, take_task(reader, rows, &tasks), err);
        if (status != RS_OK)
            break;
    }
    if (status == RS_END)
        status = emit_run(reader, id, &tasks, err);
    rs_mem_free(tasks.items);
    return status;
}

enum rs_status db_emit_hops(struct db_reader *reader, struct rs_err *err)
{
    static const char *const table = "COMMUNICATION_TASK_INFO";
    static const char *const columns[] = {"opId",    "taskType", "planeId",  "srcRank",
                                          "dstRank", "size",     "linkType", "rdmaType"};
    struct sqlite3_stmt *rows = NULL;
    struct rs_buf sql = {0};
    if (!reader->op_count || !rs_ascend_db_has_column(reader->db, table, "opId") ||
        !rs_ascend_db_has_column(reader->db, table, "globalTaskId") ||
        !rs_ascend_db_has_table(reader->db, "TASK"))
        return RS_OK;
    rs_buf_string(&sql, "SELECT t.startNs,t.endNs");
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        db_put_column(reader, &sql, table, "c", columns[i]);
    rs_buf_string(&sql, " FROM COMMUNICATION_TASK_INFO c JOIN TASK t"
                        " ON t.globalTaskId = c.globalTaskId ORDER BY c.opId, t.startNs, t.endNs");
    enum rs_status status = db_prepare(reader, &sql, &rows, err);
    if (status == RS_OK)
        status = walk_tasks(reader, rows, err);
    rs_ascend_db_finish(&rows);
    return status;
}

/* ---- the operations ---- */

enum rs_status db_emit_ops(struct db_reader *reader, struct rs_err *err)
{
    enum rs_status status = db_status(reader, db_choose_stretches(reader), err);
    for (size_t i = 0; i < reader->op_count && status == RS_OK; i++) {
        struct db_op *op = &reader->ops[i];
        const size_t rows = reader->has_stretches ? op->stretch_count : 0;
        for (size_t k = 0; k < rows && status == RS_OK;
             k++) { /* rows of one id are one operation */
            op->op.start = reader->stretches[op->stretch_first + k].start;
            op->op.end = reader->stretches[op->stretch_first + k].end;
            status = ascend_emit_op(&reader->a, &op->op, err);
        }
        if (!rows && status == RS_OK)
            status = ascend_emit_op(&reader->a, &op->op, err);
    }
    return status;
}
