/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two databases: catalogue.db of the whole store, capture.db of one capture. Every
 * statement that is ever run stands in this file, and no other file knows SQLite.
 *
 * The tables of a capture are the same in both, so that a capture directory explains itself when it is
 * carried elsewhere.
 */
#include "aggregator/store/store_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* 1: positions by incarnation; 2: by lane and capture (0.2.0); 3: rows of closed captures are sealed. Older ones are read and brought up; newer ones are refused. */
enum { CATALOGUE_VERSION = 3, SEALED_SINCE = 3 };

/* clang-format off */
static const char schema_capture[] =
    /* One row per capture. Instants: Unix epoch ns; 0 is "not yet". */
    "CREATE TABLE IF NOT EXISTS capture("
    "  id TEXT PRIMARY KEY, run TEXT NOT NULL, key TEXT NOT NULL, source TEXT NOT NULL,"
    "  state TEXT NOT NULL, is_closed INTEGER NOT NULL, created_ns INTEGER NOT NULL,"
    "  closed_ns INTEGER NOT NULL, start_step INTEGER NOT NULL, steps INTEGER NOT NULL,"
    "  world INTEGER NOT NULL, settle_ns INTEGER NOT NULL, reason TEXT NOT NULL);"
    /* One row per rank that was asked, or that came. `state`: enum rs_progress_state. */
    "CREATE TABLE IF NOT EXISTS capture_rank("
    "  capture TEXT NOT NULL, rank INTEGER NOT NULL, incarnation TEXT NOT NULL,"
    "  host TEXT NOT NULL, state INTEGER NOT NULL, steps_done INTEGER NOT NULL,"
    "  text TEXT NOT NULL, PRIMARY KEY(capture, rank, incarnation)) WITHOUT ROWID;";
static const char schema_catalogue[] =
    /* Where streams of closed captures stand: what a re-sent chunk is compared with. */
    "CREATE TABLE IF NOT EXISTS stream_position("
    "  run TEXT NOT NULL, rank INTEGER NOT NULL, incarnation TEXT NOT NULL, lane INTEGER NOT NULL,"
    "  capture TEXT NOT NULL, seq INTEGER NOT NULL, is_ended INTEGER NOT NULL,"
    "  PRIMARY KEY(run, rank, incarnation, lane, capture)) WITHOUT ROWID;"
    /* As version 1 had it: one row per incarnation, of its newest capture. */
    "CREATE TABLE IF NOT EXISTS position("
    "  run TEXT NOT NULL, rank INTEGER NOT NULL, incarnation TEXT NOT NULL,"
    "  seq INTEGER NOT NULL, capture TEXT NOT NULL, is_ended INTEGER NOT NULL,"
    "  PRIMARY KEY(run, rank, incarnation)) WITHOUT ROWID;"
    "INSERT OR IGNORE INTO stream_position"
    "  SELECT run, rank, incarnation, 0, capture, seq, is_ended FROM position;"
    "DROP TABLE position;"
    /* Captures that were removed: what a collector still has of one is not wanted. */
    "CREATE TABLE IF NOT EXISTS removed(capture TEXT PRIMARY KEY) WITHOUT ROWID;"
    /* Of closed captures: XXH3 of their rows above (seal.c). */
    "CREATE TABLE IF NOT EXISTS seal("
    "  capture TEXT PRIMARY KEY, digest INTEGER NOT NULL) WITHOUT ROWID;";
static const char schema_streams[] =
    /* One row per stream of this capture, counted from the segments. */
    "CREATE TABLE stream("
    "  lane INTEGER NOT NULL," /* enum rs_stream_lane */
    "  run TEXT NOT NULL, rank INTEGER NOT NULL, incarnation TEXT NOT NULL, host TEXT NOT NULL,"
    "  origin TEXT NOT NULL, world INTEGER NOT NULL, first_seq INTEGER NOT NULL,"
    "  last_seq INTEGER NOT NULL, chunks INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    "  is_ended INTEGER NOT NULL, is_partial INTEGER NOT NULL, lost_chunks INTEGER NOT NULL,"
    "  lost_bytes INTEGER NOT NULL, lost_events INTEGER NOT NULL,"
    "  PRIMARY KEY(lane, rank, incarnation)) WITHOUT ROWID;";
/* clang-format on */

#define CAPTURE_COLUMNS                                                                            \
    "id, run, key, source, state, is_closed, created_ns, closed_ns, start_step, steps, world, "    \
    "settle_ns, reason"

enum statement {
    PUT_CAPTURE,
    FIND_CAPTURE,
    LIST_CAPTURES,
    COUNT_CAPTURES,
    PUT_RANK,
    LIST_RANKS,
    COUNT_RANKS,
    PUT_POSITION,
    LIST_POSITIONS,
    FORGET_CAPTURE,
    FORGET_RANKS,
    FORGET_POSITIONS,
    PUT_REMOVED,
    FIND_REMOVED,
    LIST_REMOVED,
    PUT_SEAL,
    FORGET_SEAL,
    LIST_SEALS,
    STATEMENT_COUNT
};

static const char *const statement_texts[STATEMENT_COUNT] = {
    [PUT_CAPTURE] = "INSERT OR REPLACE INTO capture(" CAPTURE_COLUMNS
                    ") VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)",
    [FIND_CAPTURE] = "SELECT " CAPTURE_COLUMNS " FROM capture WHERE id = ?1",
    [LIST_CAPTURES] = "SELECT " CAPTURE_COLUMNS " FROM capture ORDER BY created_ns, id",
    [COUNT_CAPTURES] = "SELECT count(*), total(is_closed = 0) FROM capture",
    [PUT_RANK] = "INSERT OR REPLACE INTO capture_rank(capture, rank, incarnation, host, state, "
                 "steps_done, text) VALUES(?1,?2,?3,?4,?5,?6,?7)",
    [LIST_RANKS] = "SELECT rank, incarnation, host, state, steps_done, text FROM capture_rank "
                   "WHERE capture = ?1 ORDER BY rank, incarnation",
    [COUNT_RANKS] = "SELECT count(*) FROM capture_rank WHERE capture = ?1",
    [PUT_POSITION] = "INSERT OR REPLACE INTO stream_position(run, rank, incarnation, lane, "
                     "capture, seq, is_ended) VALUES(?1,?2,?3,?4,?5,?6,?7)",
    [LIST_POSITIONS] = "SELECT capture, seq, is_ended FROM stream_position WHERE run = ?1 AND "
                       "rank = ?2 AND incarnation = ?3 AND lane = ?4",
    [FORGET_CAPTURE] = "DELETE FROM capture WHERE id = ?1",
    [FORGET_RANKS] = "DELETE FROM capture_rank WHERE capture = ?1",
    [FORGET_POSITIONS] = "DELETE FROM stream_position WHERE capture = ?1",
    [PUT_REMOVED] = "INSERT OR IGNORE INTO removed(capture) VALUES(?1)",
    [FIND_REMOVED] = "SELECT 1 FROM removed WHERE capture = ?1",
    [LIST_REMOVED] = "SELECT capture FROM removed ORDER BY capture",
    [PUT_SEAL] = "INSERT OR REPLACE INTO seal(capture, digest) VALUES(?1,?2)",
    [FORGET_SEAL] = "DELETE FROM seal WHERE capture = ?1",
    [LIST_SEALS] = "SELECT c.id, c.is_closed, s.digest FROM capture c LEFT JOIN seal s ON "
                   "s.capture = c.id UNION ALL SELECT s.capture, 0, s.digest FROM seal s "
                   "WHERE s.capture NOT IN (SELECT id FROM capture)",
};

struct catalogue {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT_COUNT];
};

static enum rs_status sql_error(const struct catalogue *catalogue, struct rs_err *err)
{
    const char *path = catalogue->db ? sqlite3_db_filename(catalogue->db, "main") : NULL;
    return rs_err_set(err, RS_IO, "%s: %s", path && *path ? path : "a database in memory",
                      catalogue->db ? sqlite3_errmsg(catalogue->db) : "out of memory");
}

static enum rs_status run_sql(struct catalogue *catalogue, const char *sql, struct rs_err *err)
{
    if (sqlite3_exec(catalogue->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return sql_error(catalogue, err);
    return RS_OK;
}

static enum rs_status open_db(const char *path, int flags, struct catalogue **catalogue_p,
                              struct rs_err *err)
{
    struct catalogue *catalogue = rs_mem_calloc(1, sizeof *catalogue);
    if (!catalogue)
        return rs_err_set(err, RS_NOMEM, "no memory for a database");
    if (sqlite3_open_v2(path, &catalogue->db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        const enum rs_status status =
            rs_err_set(err, RS_IO, "cannot open %s: %s", path,
                       catalogue->db ? sqlite3_errmsg(catalogue->db) : "out of memory");
        catalogue_close(&catalogue);
        return status;
    }
    if (flags & SQLITE_OPEN_CREATE) { /* the files that SQLite makes beside it follow */
        const enum rs_status status = rs_file_set_mode(path, err);
        if (status != RS_OK) {
            catalogue_close(&catalogue);
            return status;
        }
    }
    (void)sqlite3_busy_timeout(catalogue->db, 5000);
    *catalogue_p = catalogue;
    return RS_OK;
}

/* RS_FORMAT: SQLite finds pages or indices that contradict each other. */
static enum rs_status check_pages(struct catalogue *catalogue, struct rs_err *err)
{
    sqlite3_stmt *statement = NULL;
    bool is_good = false;
    if (sqlite3_prepare_v2(catalogue->db, "PRAGMA quick_check(1)", -1, &statement, NULL) !=
        SQLITE_OK)
        return sql_error(catalogue, err);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(statement, 0);
        is_good = text && strcmp((const char *)text, "ok") == 0;
    }
    (void)sqlite3_finalize(statement);
    return is_good ? RS_OK : rs_err_set(err, RS_FORMAT, "catalogue.db is damaged");
}

static enum rs_status set_version(struct catalogue *catalogue, struct rs_err *err)
{
    char text[64];
    (void)snprintf(text, sizeof text, "PRAGMA user_version=%d", CATALOGUE_VERSION);
    return run_sql(catalogue, text, err);
}

/* A newer program's catalogue is left as it is: neither read as if it were ours, nor taken for damage and made again. */
static enum rs_status check_version(struct catalogue *catalogue, const char *path, int *version_p,
                                    struct rs_err *err)
{
    sqlite3_stmt *statement = NULL;
    int version = 0;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it was opened */
    if (sqlite3_prepare_v2(catalogue->db, "PRAGMA user_version", -1, &statement, NULL) != SQLITE_OK)
        return sql_error(catalogue, err);
    if (sqlite3_step(statement) == SQLITE_ROW)
        version = sqlite3_column_int(statement, 0);
    (void)sqlite3_finalize(statement);
    *version_p = version;
    if (version <= CATALOGUE_VERSION)
        return RS_OK;
    return rs_err_set(
        err, RS_REFUSED,
        "%s was written by a newer Rankscope (format %d; this program knows up to %d): "
        "start the newer program, or give another --data",
        path, version, CATALOGUE_VERSION);
}

enum rs_status catalogue_open(const char *path, struct catalogue **catalogue_p, struct rs_err *err)
{
    struct catalogue *catalogue = NULL;
    enum rs_status status =
        open_db(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &catalogue, err);
    if (status < 0)
        return status;
    int version = 0;
    status = check_version(catalogue, path, &version, err);
    if (status == RS_OK)
        status = run_sql(catalogue, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", err);
    if (status == RS_OK)
        status = check_pages(catalogue, err);
    if (status == RS_OK)
        status = run_sql(catalogue, schema_capture, err);
    if (status == RS_OK)
        status = run_sql(catalogue, schema_catalogue, err);
    if (status == RS_OK)
        status = run_sql(catalogue, "BEGIN IMMEDIATE", err);
    if (status == RS_OK) /* a new one has none, and needs none */
        status = seals_check(catalogue, version < SEALED_SINCE, err);
    if (status == RS_OK)
        status = set_version(catalogue, err);
    if (status == RS_OK)
        status = run_sql(catalogue, "COMMIT", err);
    if (status < 0) {
        const int why = sqlite3_errcode(catalogue->db);
        if (why == SQLITE_CORRUPT || why == SQLITE_NOTADB)
            status = RS_FORMAT;
        catalogue_close(&catalogue);
        return status;
    }
    *catalogue_p = catalogue;
    return RS_OK;
}

enum rs_status catalogue_open_to_read(const char *path, struct catalogue **catalogue_p,
                                      struct rs_err *err)
{
    return open_db(path, SQLITE_OPEN_READONLY, catalogue_p, err);
}

void catalogue_close(struct catalogue **catalogue_p)
{
    struct catalogue *catalogue = *catalogue_p;
    if (!catalogue)
        return;
    *catalogue_p = NULL;
    for (int i = 0; i < STATEMENT_COUNT; i++)
        (void)sqlite3_finalize(catalogue->statements[i]);
    (void)sqlite3_close(catalogue->db);
    rs_mem_free(catalogue);
}

/* ---- statements --------------------------------------------------------------------------------------- */

static sqlite3_stmt *prepare(struct catalogue *catalogue, enum statement which, struct rs_err *err)
{
    sqlite3_stmt **statement = &catalogue->statements[which];
    if (!*statement && sqlite3_prepare_v3(catalogue->db, statement_texts[which], -1,
                                          SQLITE_PREPARE_PERSISTENT, statement, NULL) != SQLITE_OK)
        (void)sql_error(catalogue, err);
    if (*statement) {
        (void)sqlite3_reset(*statement);
        (void)sqlite3_clear_bindings(*statement);
    }
    return *statement;
}

static void bind_text(sqlite3_stmt *statement, int place, const char *text)
{
    (void)sqlite3_bind_text(statement, place, text, -1, SQLITE_TRANSIENT);
}

static void bind_int(sqlite3_stmt *statement, int place, int64_t value)
{
    (void)sqlite3_bind_int64(statement, place, value);
}

static void take_text(sqlite3_stmt *statement, int column, char *to, size_t bytes)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    (void)snprintf(to, bytes, "%s", text ? (const char *)text : "");
}

static enum rs_status finish(struct catalogue *catalogue, sqlite3_stmt *statement,
                             struct rs_err *err)
{
    const int result = sqlite3_step(statement);
    (void)sqlite3_reset(statement);
    if (result != SQLITE_DONE && result != SQLITE_ROW)
        return sql_error(catalogue, err);
    return RS_OK;
}

/* With NORMAL a commit survives kill -9 but perhaps not a power cut; FULL is for what acks depend on. */
enum rs_status catalogue_put_durably(struct catalogue *catalogue,
                                     const struct rs_capture_facts *facts, struct rs_err *err)
{
    enum rs_status status = run_sql(catalogue, "PRAGMA synchronous=FULL", err);
    if (status == RS_OK)
        status = catalogue_put(catalogue, facts, err);
    const enum rs_status back = run_sql(catalogue, "PRAGMA synchronous=NORMAL", err);
    return status < 0 ? status : back;
}

/* A commit that is synced has all before it synced: they are in one log. What it writes is there already. */
enum rs_status catalogue_sync(struct catalogue *catalogue, struct rs_err *err)
{
    enum rs_status status = run_sql(catalogue, "PRAGMA synchronous=FULL", err);
    if (status == RS_OK)
        status = set_version(catalogue, err);
    const enum rs_status back = run_sql(catalogue, "PRAGMA synchronous=NORMAL", err);
    return status < 0 ? status : back;
}

enum rs_status catalogue_begin(struct catalogue *catalogue, struct rs_err *err)
{
    return run_sql(catalogue, "BEGIN IMMEDIATE", err);
}

/* A commit that fails for want of room or of a disk leaves its transaction open: the next one could not begin. */
enum rs_status catalogue_commit(struct catalogue *catalogue, struct rs_err *err)
{
    const enum rs_status status = run_sql(catalogue, "COMMIT", err);
    if (status < 0)
        catalogue_rollback(catalogue);
    return status;
}

void catalogue_rollback(struct catalogue *catalogue)
{
    (void)run_sql(catalogue, "ROLLBACK", NULL);
}

static enum rs_status put_row(struct catalogue *catalogue, const struct rs_capture_facts *facts,
                              struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, PUT_CAPTURE, err);
    if (!statement)
        return RS_IO;
    bind_text(statement, 1, facts->id);
    bind_text(statement, 2, facts->run);
    bind_text(statement, 3, facts->key);
    bind_text(statement, 4, facts->source);
    bind_text(statement, 5, facts->state);
    bind_int(statement, 6, facts->is_closed);
    bind_int(statement, 7, facts->created_ns);
    bind_int(statement, 8, facts->closed_ns);
    bind_int(statement, 9, facts->start_step);
    bind_int(statement, 10, facts->steps);
    bind_int(statement, 11, facts->world);
    bind_int(statement, 12, facts->settle_ns);
    bind_text(statement, 13, facts->reason);
    return finish(catalogue, statement, err);
}

/* One statement about one capture. */
static enum rs_status run_of(struct catalogue *catalogue, enum statement which, const char *id,
                             struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, which, err);
    if (!statement)
        return RS_IO;
    bind_text(statement, 1, id);
    return finish(catalogue, statement, err);
}

enum rs_status catalogue_put(struct catalogue *catalogue, const struct rs_capture_facts *facts,
                             struct rs_err *err)
{
    /* Row and seal or neither, inside a transaction or not. */
    const bool is_alone = sqlite3_get_autocommit(catalogue->db) != 0;
    enum rs_status status = run_sql(catalogue, "SAVEPOINT put", err);
    if (status < 0)
        return status;
    status = run_of(catalogue, FORGET_SEAL, facts->id, err);
    if (status == RS_OK)
        status = put_row(catalogue, facts, err);
    if (status == RS_OK && facts->is_closed)
        status = seal_put(catalogue, facts->id, err);
    if (status == RS_OK)
        status = run_sql(catalogue, "RELEASE put", err);
    if (status < 0 && is_alone) /* its release is a commit */
        catalogue_rollback(catalogue);
    else if (status < 0)
        (void)run_sql(catalogue, "ROLLBACK TO put; RELEASE put", NULL);
    return status;
}

enum rs_status catalogue_put_seal(struct catalogue *catalogue, const char *id, uint64_t digest,
                                  struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, PUT_SEAL, err);
    if (!statement)
        return RS_IO;
    bind_text(statement, 1, id);
    bind_int(statement, 2, (int64_t)digest);
    return finish(catalogue, statement, err);
}

enum rs_status catalogue_list_seals(struct catalogue *catalogue,
                                    bool (*visit)(void *self, const char *id, bool is_closed,
                                                  const uint64_t *digest),
                                    void *self, struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, LIST_SEALS, err);
    if (!statement)
        return RS_IO;
    int result = sqlite3_step(statement);
    for (; result == SQLITE_ROW; result = sqlite3_step(statement)) {
        char id[RS_STORE_ID_BYTES];
        const uint64_t digest = (uint64_t)sqlite3_column_int64(statement, 2);
        take_text(statement, 0, id, sizeof id);
        if (!visit(self, id, sqlite3_column_int(statement, 1) != 0,
                   sqlite3_column_type(statement, 2) == SQLITE_NULL ? NULL : &digest))
            break;
    }
    (void)sqlite3_reset(statement);
    return result == SQLITE_DONE || result == SQLITE_ROW ? RS_OK : sql_error(catalogue, err);
}

enum rs_status catalogue_forget(struct catalogue *catalogue, const char *id, struct rs_err *err)
{
    static const enum statement all[] = {FORGET_CAPTURE, FORGET_RANKS, FORGET_POSITIONS,
                                         FORGET_SEAL};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && status == RS_OK; i++)
        status = run_of(catalogue, all[i], id, err);
    return status;
}

enum rs_status catalogue_put_removed(struct catalogue *catalogue, const char *id,
                                     struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, PUT_REMOVED, err);
    if (!statement)
        return RS_IO;
    bind_text(statement, 1, id);
    return finish(catalogue, statement, err);
}

bool catalogue_was_removed(struct catalogue *catalogue, const char *id)
{
    sqlite3_stmt *statement = prepare(catalogue, FIND_REMOVED, NULL);
    if (!statement)
        return false;
    bind_text(statement, 1, id);
    const bool is_there = sqlite3_step(statement) == SQLITE_ROW;
    (void)sqlite3_reset(statement);
    return is_there;
}

enum rs_status catalogue_list_removed(struct catalogue *catalogue,
                                      void (*visit)(void *self, const char *id), void *self,
                                      struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, LIST_REMOVED, err);
    if (!statement)
        return RS_IO;
    int result = sqlite3_step(statement);
    for (; result == SQLITE_ROW; result = sqlite3_step(statement)) {
        char id[RS_STORE_ID_BYTES];
        take_text(statement, 0, id, sizeof id);
        visit(self, id);
    }
    (void)sqlite3_reset(statement);
    return result == SQLITE_DONE ? RS_OK : sql_error(catalogue, err);
}

static void take_facts(sqlite3_stmt *statement, struct rs_capture_facts *facts)
{
    *facts = (struct rs_capture_facts){0};
    take_text(statement, 0, facts->id, sizeof facts->id);
    take_text(statement, 1, facts->run, sizeof facts->run);
    take_text(statement, 2, facts->key, sizeof facts->key);
    take_text(statement, 3, facts->source, sizeof facts->source);
    take_text(statement, 4, facts->state, sizeof facts->state);
    facts->is_closed = sqlite3_column_int(statement, 5) != 0;
    facts->created_ns = sqlite3_column_int64(statement, 6);
    facts->closed_ns = sqlite3_column_int64(statement, 7);
    facts->start_step = sqlite3_column_int64(statement, 8);
    facts->steps = (uint32_t)sqlite3_column_int64(statement, 9);
    facts->world = (uint32_t)sqlite3_column_int64(statement, 10);
    facts->settle_ns = sqlite3_column_int64(statement, 11);
    take_text(statement, 12, facts->reason, sizeof facts->reason);
}

enum rs_status catalogue_find(struct catalogue *catalogue, const char *id,
                              struct rs_capture_facts *facts_p, struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, FIND_CAPTURE, err);
    if (!statement)
        return RS_IO;
    bind_text(statement, 1, id);
    const int result = sqlite3_step(statement);
    enum rs_status status = RS_OK;
    if (result == SQLITE_ROW)
        take_facts(statement, facts_p);
    else if (result == SQLITE_DONE)
        status = rs_err_set(err, RS_NOTFOUND, "there is no capture %.64s", id);
    else
        status = sql_error(catalogue, err);
    (void)sqlite3_reset(statement);
    return status;
}

enum rs_status catalogue_list(struct catalogue *catalogue,
                              bool (*visit)(void *self, const struct rs_capture_facts *facts),
                              void *self, struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, LIST_CAPTURES, err);
    if (!statement)
        return RS_IO;
    struct rs_capture_facts facts;
    int result = sqlite3_step(statement);
    for (; result == SQLITE_ROW; result = sqlite3_step(statement)) {
        take_facts(statement, &facts);
        if (!visit(self, &facts))
            break;
    }
    (void)sqlite3_reset(statement);
    return result == SQLITE_DONE || result == SQLITE_ROW ? RS_OK : sql_error(catalogue, err);
}

enum rs_status catalogue_put_rank(struct catalogue *catalogue, const char *id,
                                  const struct rs_capture_rank *rank, struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, PUT_RANK, err);
    if (!statement)
        return RS_IO;
    bind_text(statement, 1, id);
    bind_int(statement, 2, rank->rank);
    bind_text(statement, 3, rank->incarnation);
    bind_text(statement, 4, rank->host);
    bind_int(statement, 5, rank->state);
    bind_int(statement, 6, rank->steps_done);
    bind_text(statement, 7, rank->text);
    return finish(catalogue, statement, err);
}

enum rs_status catalogue_list_ranks(struct catalogue *catalogue, const char *id,
                                    bool (*visit)(void *self, const struct rs_capture_rank *rank),
                                    void *self, struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, LIST_RANKS, err);
    if (!statement)
        return RS_IO;
    bind_text(statement, 1, id);
    int result = sqlite3_step(statement);
    for (; result == SQLITE_ROW; result = sqlite3_step(statement)) {
        struct rs_capture_rank rank = {.rank = (uint32_t)sqlite3_column_int64(statement, 0)};
        take_text(statement, 1, rank.incarnation, sizeof rank.incarnation);
        take_text(statement, 2, rank.host, sizeof rank.host);
        rank.state = (uint32_t)sqlite3_column_int64(statement, 3);
        rank.steps_done = sqlite3_column_int64(statement, 4);
        take_text(statement, 5, rank.text, sizeof rank.text);
        if (!visit(self, &rank))
            break;
    }
    (void)sqlite3_reset(statement);
    return result == SQLITE_DONE || result == SQLITE_ROW ? RS_OK : sql_error(catalogue, err);
}

size_t catalogue_count_ranks(struct catalogue *catalogue, const char *id)
{
    sqlite3_stmt *statement = prepare(catalogue, COUNT_RANKS, NULL);
    size_t count = 0;
    if (!statement)
        return 0;
    bind_text(statement, 1, id);
    if (sqlite3_step(statement) == SQLITE_ROW)
        count = (size_t)sqlite3_column_int64(statement, 0);
    (void)sqlite3_reset(statement);
    return count;
}

enum rs_status catalogue_count(struct catalogue *catalogue, size_t *all_p, size_t *open_p,
                               struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, COUNT_CAPTURES, err);
    if (!statement)
        return RS_IO;
    const bool is_told = sqlite3_step(statement) == SQLITE_ROW;
    const enum rs_status status = is_told ? RS_OK : sql_error(catalogue, err);
    if (is_told) {
        *all_p = (size_t)sqlite3_column_int64(statement, 0);
        *open_p = (size_t)sqlite3_column_int64(statement, 1);
    }
    (void)sqlite3_reset(statement);
    return status;
}

enum rs_status catalogue_put_position(struct catalogue *catalogue,
                                      const struct rs_store_stream *stream, struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, PUT_POSITION, err);
    if (!statement)
        return RS_IO;
    bind_text(statement, 1, stream->run);
    bind_int(statement, 2, stream->rank);
    bind_text(statement, 3, stream->incarnation);
    bind_int(statement, 4, stream->lane);
    bind_text(statement, 5, stream->capture);
    bind_int(statement, 6, (int64_t)stream->durable_seq);
    bind_int(statement, 7,
             !stream->is_ended    ? CATALOGUE_GOES_ON
             : stream->is_partial ? CATALOGUE_ENDED_EARLY
                                  : CATALOGUE_ENDED);
    return finish(catalogue, statement, err);
}

enum rs_status catalogue_list_positions(struct catalogue *catalogue, const struct rs_store_key *key,
                                        bool (*visit)(void *self, const char *capture, rs_seq seq,
                                                      int ended),
                                        void *self, struct rs_err *err)
{
    sqlite3_stmt *statement = prepare(catalogue, LIST_POSITIONS, err);
    if (!statement)
        return RS_IO;
    bind_text(statement, 1, key->run);
    bind_int(statement, 2, key->rank);
    bind_text(statement, 3, key->incarnation);
    bind_int(statement, 4, key->lane);
    int result = sqlite3_step(statement);
    for (; result == SQLITE_ROW; result = sqlite3_step(statement)) {
        char capture[RS_STORE_ID_BYTES];
        take_text(statement, 0, capture, sizeof capture);
        if (!visit(self, capture, (rs_seq)sqlite3_column_int64(statement, 1),
                   sqlite3_column_int(statement, 2)))
            break;
    }
    (void)sqlite3_reset(statement);
    return result == SQLITE_ROW || result == SQLITE_DONE ? RS_OK : sql_error(catalogue, err);
}

/* ---- capture.db ------------------------------------------------------------------------------------------ */

static enum rs_status write_stream_row(struct catalogue *db, sqlite3_stmt *statement,
                                       enum rs_stream_lane lane,
                                       const struct rs_stored_stream *stream, struct rs_err *err)
{
    (void)sqlite3_reset(statement);
    bind_int(statement, 16, lane);
    bind_text(statement, 1, stream->run);
    bind_int(statement, 2, stream->rank);
    bind_text(statement, 3, stream->incarnation);
    bind_text(statement, 4, stream->host);
    bind_text(statement, 5, stream->origin);
    bind_int(statement, 6, stream->world);
    bind_int(statement, 7, (int64_t)stream->first_seq);
    bind_int(statement, 8, (int64_t)stream->last_seq);
    bind_int(statement, 9, (int64_t)stream->chunk_count);
    bind_int(statement, 10, (int64_t)stream->bytes);
    bind_int(statement, 11, stream->is_ended);
    bind_int(statement, 12, stream->is_partial);
    bind_int(statement, 13, (int64_t)stream->loss.chunks);
    bind_int(statement, 14, (int64_t)stream->loss.bytes);
    bind_int(statement, 15, (int64_t)stream->loss.events);
    return finish(db, statement, err);
}

static enum rs_status write_streams(struct catalogue *db, const char *dir, enum rs_stream_lane lane,
                                    struct rs_err *err)
{
    struct rs_stored *stored = NULL;
    enum rs_status status = rs_store_open_lane(dir, lane, &stored, err);
    if (status < 0)
        return status;
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db->db,
                           "INSERT INTO stream VALUES(?16,?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,"
                           "?13,?14,?15)",
                           -1, &statement, NULL) != SQLITE_OK)
        status = sql_error(db, err);
    for (size_t i = 0; i < rs_stored_stream_count(stored) && status == RS_OK; i++)
        status = write_stream_row(db, statement, lane, rs_stored_stream(stored, i), err);
    (void)sqlite3_finalize(statement);
    rs_stored_close(&stored);
    return status;
}

static enum rs_status fill_capture_db(struct catalogue *db, const char *dir,
                                      const struct rs_capture_facts *facts,
                                      const struct rs_capture_rank *ranks, size_t rank_count,
                                      struct rs_err *err)
{
    enum rs_status status =
        run_sql(db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;", err);
    if (status == RS_OK)
        status = run_sql(db, schema_capture, err);
    if (status == RS_OK)
        status = run_sql(db, schema_streams, err);
    if (status == RS_OK)
        status = put_row(db, facts, err);
    for (size_t i = 0; i < rank_count && status == RS_OK; i++)
        status = catalogue_put_rank(db, facts->id, &ranks[i], err);
    for (int lane = 0; lane < RS_STREAM_LANE_COUNT && status == RS_OK; lane++)
        status = write_streams(db, dir, (enum rs_stream_lane)lane, err);
    if (status == RS_OK)
        status = run_sql(db, "PRAGMA user_version=1; COMMIT;", err);
    return status;
}

enum rs_status capture_db_write(const char *dir, const struct rs_capture_facts *facts,
                                const struct rs_capture_rank *ranks, size_t rank_count,
                                struct rs_err *err)
{
    char *path = rs_file_join(dir, "capture.db");
    char *temporary = rs_file_join(dir, "capture.db.new");
    enum rs_status status = RS_OK;
    struct catalogue *db = NULL;
    if (!path || !temporary) {
        status = rs_err_set(err, RS_NOMEM, "no memory for capture.db");
        goto done;
    }
    (void)unlink(temporary);
    status = open_db(temporary, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &db, err);
    if (status == RS_OK)
        status = fill_capture_db(db, dir, facts, ranks, rank_count, err);
    catalogue_close(&db);
    if (status == RS_OK && rename(temporary, path) < 0)
        status = rs_err_errno(err, "cannot rename %s", temporary);
done:
    rs_mem_free(path);
    rs_mem_free(temporary);
    return status;
}

struct rank_list {
    struct rs_capture_rank *items;
    size_t count, capacity;
    bool has_failed;
};

static bool add_rank(void *self, const struct rs_capture_rank *rank)
{
    struct rank_list *list = self;
    if (rs_mem_grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items) <
        0) {
        list->has_failed = true;
        return false;
    }
    list->items[list->count++] = *rank;
    return true;
}

static bool keep_facts(void *self, const struct rs_capture_facts *facts)
{
    *(struct rs_capture_facts *)self = *facts;
    return true;
}

enum rs_status capture_db_read(const char *dir, struct rs_capture_facts *facts_p,
                               struct rs_capture_rank **ranks_p, size_t *rank_count_p,
                               struct rs_err *err)
{
    char *path = rs_file_join(dir, "capture.db");
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for capture.db");
    if (access(path, F_OK) < 0) {
        rs_mem_free(path);
        return rs_err_set(err, RS_NOTFOUND, "%s has no capture.db", dir);
    }
    struct catalogue *db = NULL;
    struct rank_list list = {0};
    enum rs_status status = open_db(path, SQLITE_OPEN_READONLY, &db, err);
    if (status == RS_OK)
        status = catalogue_list(db, keep_facts, facts_p, err);
    if (status == RS_OK)
        status = catalogue_list_ranks(db, facts_p->id, add_rank, &list, err);
    if (list.has_failed)
        status = rs_err_set(err, RS_NOMEM, "no memory for the ranks of a capture");
    catalogue_close(&db);
    rs_mem_free(path);
    if (status < 0) {
        rs_mem_free(list.items);
        return status;
    }
    *ranks_p = list.items;
    *rank_count_p = list.count;
    return RS_OK;
}
