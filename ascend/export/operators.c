/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operator_details.csv: what each operator took on the host and on the device, with and without the operators inside it.
 *
 * Operators of a thread are walked in the order of their starts, with a stack of those that are open. What an operator launched
 * itself is found over CONNECTION_IDS; what those inside it launched is added when they close. Where no connection of any
 * operator leads to device work, device cells are empty: nobody knows what was launched by whom.
 */
#include "ascend/export/export_priv.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 4096 };

struct open_operator {
    int64_t row, start, end, inside; /* ns of the operators directly inside */
    int64_t device_self, device_total;
};

struct walk {
    struct rs_export_ascend *e;
    sqlite3_stmt *put;
    struct open_operator open[DEPTH_MAX];
    size_t depth;
    bool has_device; /* some operator leads to device work */
};

static enum rs_status failed(const struct rs_export_ascend *e, struct rs_err *err)
{
    return rs_err_set(err, RS_IO, "cannot read back %s: %s", e->rows.path,
                      sqlite3_errmsg(e->rows.handle));
}

static enum rs_status close_one(struct walk *walk, struct rs_err *err)
{
    const struct open_operator *own = &walk->open[--walk->depth];
    if (walk->depth) {
        walk->open[walk->depth - 1].inside += own->end - own->start;
        walk->open[walk->depth - 1].device_total += own->device_total;
    }
    const int64_t total = own->end - own->start;
    const int64_t cells[] = {own->row, total > own->inside ? total - own->inside : 0, total,
                             own->device_self, own->device_total};
    for (int i = 0; i < (int)(sizeof cells / sizeof cells[0]); i++)
        (void)sqlite3_bind_int64(walk->put, i + 1, cells[i]);
    const int code = sqlite3_step(walk->put);
    (void)sqlite3_reset(walk->put);
    return code == SQLITE_DONE ? RS_OK : failed(walk->e, err);
}

static enum rs_status walk_all(struct walk *walk, sqlite3_stmt *rows, struct rs_err *err)
{
    int64_t thread = -1;
    int code;
    enum rs_status status = RS_OK;
    while (status == RS_OK && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        const struct open_operator own = {.row = sqlite3_column_int64(rows, 0),
                                          .start = sqlite3_column_int64(rows, 2),
                                          .end = sqlite3_column_int64(rows, 3),
                                          .device_self = sqlite3_column_int64(rows, 4),
                                          .device_total = sqlite3_column_int64(rows, 4)};
        const bool is_other_thread = sqlite3_column_int64(rows, 1) != thread;
        thread = sqlite3_column_int64(rows, 1);
        while (walk->depth && status == RS_OK &&
               (is_other_thread || walk->open[walk->depth - 1].end < own.end))
            status = close_one(walk, err);
        if (walk->depth == DEPTH_MAX)
            status =
                rs_err_set(err, RS_LIMIT, "operators that stand in more than %d others", DEPTH_MAX);
        if (status == RS_OK)
            walk->open[walk->depth++] = own;
        walk->has_device = walk->has_device || own.device_self > 0;
    }
    while (status == RS_OK && walk->depth)
        status = close_one(walk, err);
    return status == RS_OK && code != SQLITE_DONE ? failed(walk->e, err) : status;
}

static enum rs_status prepare(struct walk *walk, sqlite3_stmt **rows_p, struct rs_err *err)
{
    static const char sql[] =
        "SELECT p.rowid, p.globalTid, CAST(p.startNs AS INTEGER), CAST(p.endNs AS INTEGER), "
        "w.ns FROM PYTORCH_API p LEFT JOIN OperatorWork w ON w.id = p.connectionId "
        "WHERE p.type = 50001 ORDER BY 2, 3, 4 DESC, p.rowid";
    struct rs_export_ascend *e = walk->e;
    const enum rs_status status = db_run(
        &e->rows,
        "CREATE TEMP TABLE OperatorWork AS SELECT i.id AS id, sum(t.endNs - t.startNs) AS ns "
        "FROM CONNECTION_IDS i JOIN TASK t ON t.connectionId = i.connectionId GROUP BY i.id;"
        "CREATE INDEX temp.OperatorWorkIds ON OperatorWork (id);"
        "CREATE TEMP TABLE OperatorTime (id INTEGER PRIMARY KEY, hostSelf, hostTotal, "
        "deviceSelf, deviceTotal);",
        err);
    if (status != RS_OK)
        return status;
    return sqlite3_prepare_v2(e->rows.handle, "INSERT INTO OperatorTime VALUES (?,?,?,?,?)", -1,
                              &walk->put, NULL) == SQLITE_OK &&
                   sqlite3_prepare_v2(e->rows.handle, sql, -1, rows_p, NULL) == SQLITE_OK
               ? RS_OK
               : failed(e, err);
}

enum rs_status operators_settle(struct rs_export_ascend *e, struct rs_err *err)
{
    sqlite3_stmt *rows = NULL;
    if (kept_has(e, "operator_details"))
        return RS_OK;
    struct walk *walk = rs_mem_calloc(1, sizeof *walk);
    if (!walk)
        return no_room(RS_NOMEM, err);
    walk->e = e;
    enum rs_status status = prepare(walk, &rows, err);
    if (status == RS_OK)
        status = walk_all(walk, rows, err);
    (void)sqlite3_finalize(rows);
    (void)sqlite3_finalize(walk->put);
    if (status == RS_OK && !walk->has_device)
        status = db_run(&e->rows,
                        "UPDATE temp.OperatorTime SET deviceSelf = NULL, deviceTotal = NULL", err);
    rs_mem_free(walk);
    return status;
}
