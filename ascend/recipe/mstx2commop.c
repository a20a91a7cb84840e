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

/* clang-format off */
#define MARK(as) "json_extract(v, '$." as "') AS " as
static const char ops_sql[] =
    "CREATE TEMP TABLE op AS SELECT t.startNs s, t.endNs e, t.connectionId c, m.type type, m.groupName groupName, "
    "lower(m.dataType) dataType, m.count count, m.type || '_' || substr(group_hash(m.groupName), -3) || '_' || "
    "(row_number() OVER (PARTITION BY m.groupName, m.type ORDER BY t.startNs, t.endNs, t.rowid) - 1) || '_1' AS "
    "name FROM (SELECT startNs, connectionId, json_extract(v, '$.opName') || '_' AS type, " MARK("groupName") ", "
    MARK("dataType") ", " MARK("count") ", CAST(json_extract(v, '$.streamId') AS INTEGER) AS stream FROM (SELECT "
    "e.startNs, e.connectionId, replace(value, '\\\"', '\"') AS v FROM MSTX_EVENTS e JOIN STRING_IDS ON id = "
    "message WHERE value LIKE '%streamId%' AND e.startNs >= ?1 AND e.startNs <= ?2) WHERE json_valid(v)) m JOIN "
    "TASK t ON m.connectionId = t.connectionId OR ?3 AND m.stream = t.streamId WHERE m.type IS NOT NULL AND "
    "m.groupName IS NOT NULL AND m.dataType IS NOT NULL AND m.count IS NOT NULL AND m.stream IS NOT NULL";
static const char make_sql[] =
    "INSERT INTO STRING_IDS (id, value) "
    "SELECT coalesce((SELECT max(id) FROM STRING_IDS), -1) + row_number() OVER (ORDER BY first), value FROM (SELECT "
    "value, min(at) first FROM (SELECT rowid * 3 AS at, type AS value FROM op UNION ALL "
    "SELECT rowid * 3 + 1, groupName FROM op UNION ALL "
    "SELECT rowid * 3 + 2, name FROM op) WHERE value NOT IN (SELECT value FROM STRING_IDS WHERE value IS NOT NULL) "
    "GROUP BY value);CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId "
    "INTEGER, groupName INTEGER, opId INTEGER PRIMARY KEY, relay INTEGER, retry INTEGER, dataType INTEGER, algType "
    "INTEGER, count NUMERIC, opType INTEGER);CREATE TEMP TABLE text AS SELECT value, min(id) id FROM STRING_IDS "
    "GROUP BY value;CREATE INDEX temp.text_value ON text (value);INSERT INTO COMMUNICATION_OP SELECT (SELECT id "
    "FROM text WHERE value = name), s, e, c, (SELECT id FROM text WHERE value = groupName), row_number() OVER "
    "(ORDER BY s, op.rowid) - 1, NULL, NULL, (SELECT id FROM ENUM_HCCL_DATA_TYPE d WHERE lower(d.name) = dataType "
    "LIMIT 1), NULL, count, (SELECT id FROM text WHERE value = type) FROM op ORDER BY s, op.rowid; "
    "COMMIT";
/* clang-format on */

/* group_hash(name): the decimal hash that operations of the group carry. */
static void group_hash(sqlite3_context *context, int count, sqlite3_value **values)
{
    char hash[RS_ASCEND_HASH_BYTES];
    const char *name = (const char *)sqlite3_value_text(values[0]);
    (void)count;
    rs_ascend_group_hash(name ? name : "", hash);
    sqlite3_result_text(context, hash, -1, SQLITE_TRANSIENT);
}

/* A whole copy of the rank's database at `path`. */
static void copy_database(struct inputs *in, const char *path)
{
    (void)unlink(path);
    in->text = path;
    sqlite3_stmt *stmt = in_ask(in, in->profiler, "VACUUM INTO :text");
    (void)in_step(in, in->profiler, stmt);
    rs_ascend_db_finish(&stmt);
    if (in->status == RS_OK)
        in->status = rs_file_set_mode(path, &in->err);
}

/* Adds the table; how many rows it has. */
static uint64_t add_ops(struct inputs *in, const char *path)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    uint64_t rows = 0;
    bool done = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
                sqlite3_create_function(db, "group_hash", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                        NULL, group_hash, NULL, NULL) == SQLITE_OK &&
                sqlite3_exec(db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN", NULL,
                             NULL, NULL) == SQLITE_OK &&
                sqlite3_prepare_v2(db, ops_sql, -1, &stmt, NULL) == SQLITE_OK;
    if (done) {
        (void)sqlite3_bind_int64(stmt, 1, in->from);
        (void)sqlite3_bind_int64(stmt, 2, in->to);
        (void)sqlite3_bind_int64(stmt, 3, in->run->options->compat);
        done = sqlite3_step(stmt) == SQLITE_DONE;
        rows = (uint64_t)sqlite3_changes64(db);
    }
    if (!done || sqlite3_exec(db, make_sql, NULL, NULL, NULL) != SQLITE_OK)
        in_fail(in, (sqlite3_errcode(db) & 0xff) == SQLITE_NOMEM ? RS_NOMEM : RS_IO,
                "cannot make %s: %s", path, sqlite3_errmsg(db));
    (void)sqlite3_finalize(stmt);
    (void)sqlite3_close(db);
    return rows;
}

static void write_copy(struct inputs *in, struct rank_files *files)
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
    in->status = rank_file_path(in->run, name, &path, &in->err);
    if (in->status == RS_OK)
        in->status = rank_file_path(in->run, temporary, &work, &in->err);
    if (in->status == RS_OK)
        copy_database(in, work);
    if (in->status == RS_OK)
        rows = add_ops(in, work);
    if (in->status == RS_OK && rename(work, path) != 0)
        in_fail(in, RS_IO, "cannot make %s", path);
    if (in->status == RS_OK)
        rank_files_add(in, files, name, rows);
    else if (work)
        (void)unlink(work);
    rs_mem_free(path);
    rs_mem_free(work);
}

/* Ranks that have the table already are left alone. */
static void check_table(struct inputs *in, struct frame *frame)
{
    (void)frame;
    if (rs_ascend_db_has_table(in->profiler, "COMMUNICATION_OP"))
        in_fail(in, RS_NOTFOUND, "%s has COMMUNICATION_OP already",
                rs_ascend_db_path(in->profiler));
}

const struct recipe recipe_mstx2commop = {
    .info = {"mstx2commop", "copies of databases with the operations that marks tell of",
             "COMMUNICATION_OP of each copy"},
    .folder = "Mstx2Commop",
    .needs = NEED_PROFILER,
    .frames = {{.name = "marks",
                .columns = "message:i",
                .requires = "MSTX_EVENTS.message MSTX_EVENTS.startNs MSTX_EVENTS.connectionId "
                            "TASK.connectionId TASK.startNs TASK.endNs TASK.streamId "
                            "STRING_IDS.value ENUM_HCCL_DATA_TYPE.name",
                .before = check_table,
                .sql = "SELECT message FROM MSTX_EVENTS JOIN STRING_IDS ON id = message "
                       "WHERE value LIKE '%streamId%' LIMIT 1",
                .missing = "no marks of communication",
                .is_passing = true}},
    .write = write_copy,
};
