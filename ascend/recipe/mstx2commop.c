/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mstx2commop: COMMUNICATION_OP made from marks, for ranks that were profiled without a level.
 *
 * Peer: a mark of MSTX_EVENTS whose message is JSON with streamId, count, dataType, groupName and opName, and the TASK rows
 * that go with it, are a communication operation "hcom_allReduce__123_0_1": the type, three digits of the group's hash, the
 * running number within group and type. Ranks that have the table already are left alone. The result is a copy of each
 * database with the new table and its names in STRING_IDS.
 *
 * Corrected: a mark goes with the task of its connection; the peer takes all tasks of its stream besides, so that n marks on
 * one stream are n * n operations. Numbers count in the order of time, not in the order in which rows happen to be
 * read. A data type that the file does not explain is empty; the peer loses the rank. The copy stands in a folder per rank,
 * Mstx2Commop/rankR_ascend_pt, and is the profiler's own layout (opId a key), so that every recipe reads it.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ?1 and ?2 are the step's window. */
#define OPS_SQL(more)                                                                               \
    "CREATE TEMP TABLE op AS SELECT t.startNs s, t.endNs e, t.connectionId c, m.type type, "        \
    "m.groupName groupName, lower(m.dataType) dataType, m.count count, m.type || '_' || "           \
    "substr(group_hash(m.groupName), -3) || '_' || (row_number() OVER (PARTITION BY m.groupName, "  \
    "m.type ORDER BY t.startNs, t.endNs, t.rowid) - 1) || '_1' AS name FROM (SELECT startNs, "      \
    "connectionId, json_extract(v, '$.opName') || '_' AS type, json_extract(v, '$.groupName') AS "  \
    "groupName, json_extract(v, '$.dataType') AS dataType, json_extract(v, '$.count') AS count, "   \
    "CAST(json_extract(v, '$.streamId') AS INTEGER) AS stream FROM (SELECT e.startNs, "             \
    "e.connectionId, replace(value, '\\\"', '\"') AS v FROM MSTX_EVENTS e JOIN STRING_IDS ON id = " \
    "message WHERE value LIKE '%streamId%' AND e.startNs >= ?1 AND e.startNs <= ?2) WHERE "         \
    "json_valid(v)) m JOIN TASK t ON m.connectionId = t.connectionId" more                          \
    " WHERE m.type IS NOT NULL AND m.groupName IS NOT NULL AND m.dataType IS NOT NULL AND "         \
    "m.count IS NOT NULL AND m.stream IS NOT NULL"

static const char make_sql[] =
    "INSERT INTO STRING_IDS (id, value) SELECT coalesce((SELECT max(id) FROM STRING_IDS), -1) + "
    "row_number() OVER (ORDER BY first), value FROM (SELECT value, min(at) first FROM "
    "(SELECT rowid * 3 AS at, type AS value FROM op UNION ALL SELECT rowid * 3 + 1, groupName "
    "FROM op UNION ALL SELECT rowid * 3 + 2, name FROM op) WHERE value NOT IN (SELECT value FROM "
    "STRING_IDS WHERE value IS NOT NULL) GROUP BY value);"
    "CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId "
    "INTEGER, groupName INTEGER, opId INTEGER PRIMARY KEY, relay INTEGER, retry INTEGER, dataType "
    "INTEGER, algType INTEGER, count NUMERIC, opType INTEGER);"
    "CREATE TEMP TABLE text AS SELECT value, min(id) id FROM STRING_IDS GROUP BY value;"
    "CREATE INDEX temp.text_value ON text (value);"
    "INSERT INTO COMMUNICATION_OP SELECT (SELECT id FROM text WHERE value = name), s, e, c, "
    "(SELECT id FROM text WHERE value = groupName), row_number() OVER (ORDER BY s, op.rowid) - 1, "
    "NULL, NULL, (SELECT id FROM ENUM_HCCL_DATA_TYPE d WHERE lower(d.name) = dataType LIMIT 1), "
    "NULL, count, (SELECT id FROM text WHERE value = type) FROM op ORDER BY s, op.rowid;";

/* group_hash(name): the decimal hash that operations of the group carry. */
static void group_hash(sqlite3_context *context, int count, sqlite3_value **values)
{
    char hash[RS_ASCEND_HASH_BYTES];
    const char *name = (const char *)sqlite3_value_text(values[0]);
    (void)count;
    rs_ascend_group_hash(name ? name : "", hash);
    sqlite3_result_text(context, hash, -1, SQLITE_TRANSIENT);
}

static enum rs_status failed(sqlite3 *db, const char *path, struct rs_err *err)
{
    const int code = sqlite3_errcode(db) & 0xff;
    return rs_err_set(err, code == SQLITE_NOMEM ? RS_NOMEM : RS_IO, "cannot make %s: %s", path,
                      sqlite3_errmsg(db));
}

/* A whole copy of the rank's database at `path`. */
static enum rs_status copy_database(struct rs_ascend_db *db, const char *path, struct rs_err *err)
{
    sqlite3_stmt *stmt = NULL;
    (void)unlink(path);
    enum rs_status status = rs_ascend_db_prepare(db, "VACUUM INTO ?1", &stmt, err);
    if (status == RS_OK) {
        (void)sqlite3_bind_text(stmt, 1, path, -1, SQLITE_STATIC);
        status = rs_ascend_db_step(db, stmt, err);
    }
    rs_ascend_db_finish(&stmt);
    return status == RS_END ? rs_file_set_mode(path, err) : status;
}

/* Adds the table. `rows_p`: of it. */
static enum rs_status add_ops(const struct run *run, const struct inputs *in, const char *path,
                              uint64_t *rows_p, struct rs_err *err)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    enum rs_status status = RS_OK;
    int code = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_function(db, "group_hash", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                       NULL, group_hash, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN", NULL,
                            NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(
            db, run->options->compat ? OPS_SQL(" OR m.stream = t.streamId") : OPS_SQL(""), -1,
            &stmt, NULL);
    if (code == SQLITE_OK) {
        (void)sqlite3_bind_int64(stmt, 1, in->from);
        (void)sqlite3_bind_int64(stmt, 2, in->to);
        code = sqlite3_step(stmt) == SQLITE_DONE ? SQLITE_OK : SQLITE_ERROR;
        *rows_p = (uint64_t)sqlite3_changes64(db);
    }
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, make_sql, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    if (code != SQLITE_OK)
        status = failed(db, path, err);
    (void)sqlite3_finalize(stmt);
    (void)sqlite3_close(db);
    return status;
}

static enum rs_status count_marks(const struct inputs *in, struct rs_err *err)
{
    struct frame count = {0};
    const struct frame_query query = {
        .sql = "SELECT count(*) FROM MSTX_EVENTS JOIN STRING_IDS ON id = "
               "message WHERE value LIKE '%streamId%'"};
    enum rs_status status = frame_init(&count, "i");
    if (status == RS_OK)
        status = frame_load(&count, in->profiler, &query, err);
    if (status == RS_OK && frame_row(&count, 0)->i == 0)
        status = rs_err_set(err, RS_NOTFOUND, "%s has no marks of communication",
                            rs_ascend_db_path(in->profiler));
    frame_fini(&count);
    return status;
}

static enum rs_status make(struct run *run, const struct inputs *in, struct rank_files *files,
                           struct rs_err *err)
{
    char name[320], temporary[360];
    char *path = NULL, *work = NULL;
    uint64_t rows = 0;
    const char *source = in->of->vendor->profiler_db;
    const bool is_ms = in->of->vendor->framework == RS_ASCEND_MINDSPORE;
    (void)snprintf(name, sizeof name, "rank%" PRId64 "_ascend_%s/ASCEND_PROFILER_OUTPUT/%.200s",
                   in->of->rank, is_ms ? "ms" : "pt",
                   strrchr(source, '/') ? strrchr(source, '/') + 1 : source);
    (void)snprintf(temporary, sizeof temporary, "%s.tmp-%d", name, (int)getpid());
    enum rs_status status = rank_file_path(run, name, &path, err);
    if (status == RS_OK)
        status = rank_file_path(run, temporary, &work, err);
    if (status == RS_OK)
        status = copy_database(in->profiler, work, err);
    if (status == RS_OK)
        status = add_ops(run, in, work, &rows, err);
    if (status == RS_OK && rename(work, path) != 0)
        status = rs_err_set(err, RS_IO, "cannot make %s", path);
    if (status == RS_OK)
        status = rank_files_add(files, name, rows);
    else if (work)
        (void)unlink(work);
    rs_mem_free(path);
    rs_mem_free(work);
    return status;
}

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    enum rs_status status = db_requires(
        in->profiler,
        "MSTX_EVENTS.message MSTX_EVENTS.startNs MSTX_EVENTS.connectionId TASK.connectionId "
        "TASK.startNs TASK.endNs TASK.streamId STRING_IDS.value ENUM_HCCL_DATA_TYPE.name",
        err);
    if (status == RS_OK && rs_ascend_db_has_table(in->profiler, "COMMUNICATION_OP"))
        status = rs_err_set(err, RS_NOTFOUND, "%s has COMMUNICATION_OP already",
                            rs_ascend_db_path(in->profiler));
    if (status == RS_OK)
        status = count_marks(in, err);
    struct rank_files *files = status == RS_OK ? rs_mem_calloc(1, sizeof *files) : NULL;
    if (status == RS_OK && !files)
        status = rs_err_set(err, RS_NOMEM, "no memory for a list of files");
    if (status == RS_OK)
        status = make(run, in, files, err);
    if (status == RS_OK)
        *part_p = files;
    else if (files)
        rank_files_drop(files);
    return status;
}

const struct recipe recipe_mstx2commop = {
    .info = {"mstx2commop", "copies of databases with the operations that marks tell of",
             "COMMUNICATION_OP of each copy"},
    .folder = "Mstx2Commop",
    .needs = NEED_PROFILER,
    FILES_RECIPE,
    .map = map,
};
