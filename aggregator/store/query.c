/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/store/query.h"

#include "aggregator/store/sqlite_priv.h"
#include "common/base/json_out.h"

#include <string.h>
#include <strings.h>

enum { OPCODES_BETWEEN_LOOKS = 1000, VALUE_BYTES_MAX = 1 << 20 };

/* What is looked at while SQLite works. */
struct watch {
    rs_ns until;
    int64_t memory_until;
    bool is_late, is_large;
};

static int look(void *self)
{
    struct watch *watch = self;
    watch->is_late = rs_time_monotonic() > watch->until;
    watch->is_large = sqlite3_memory_used() > watch->memory_until;
    return watch->is_late || watch->is_large;
}

/* Functions that do more than compute, where a build of SQLite has them. */
static bool is_closed_function(const char *name)
{
    static const char *const closed[] = {"load_extension", "readfile", "writefile",
                                         "edit",           "fsdir",    "fts3_tokenizer"};
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++)
        if (strcasecmp(name, closed[i]) == 0)
            return true;
    return false;
}

static int authorize(void *self, int action, const char *first, const char *second,
                     const char *database, const char *trigger)
{
    (void)self;
    (void)first;
    (void)database;
    (void)trigger;
    if (action == SQLITE_FUNCTION)
        return second && !is_closed_function(second) ? SQLITE_OK : SQLITE_DENY;
    return action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE
               ? SQLITE_OK
               : SQLITE_DENY;
}

/* SQLite is given less to chew than it could. */
static enum rs_status confine(sqlite3 *db, struct watch *watch, struct rs_err *err)
{
    static const int limits[][2] = {
        {SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX},
        {SQLITE_LIMIT_SQL_LENGTH, RS_QUERY_SQL_BYTES_MAX},
        {SQLITE_LIMIT_COLUMN, 256},
        {SQLITE_LIMIT_EXPR_DEPTH, 100},
        {SQLITE_LIMIT_COMPOUND_SELECT, 50},
        {SQLITE_LIMIT_VDBE_OP, 100000},
        {SQLITE_LIMIT_FUNCTION_ARG, 32},
        {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 1},
        {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    /* A virtual table is declared when it is used first, which the authorizer would refuse. */
    (void)sqlite3_exec(db, "SELECT 1 FROM op_member LIMIT 0", NULL, NULL, NULL);
    if (sqlite3_exec(db, "PRAGMA query_only=ON", NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) != SQLITE_OK ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL) != SQLITE_OK)
        return rs_err_set(err, RS_IO, "cannot confine a query: %s", sqlite3_errmsg(db));
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        (void)sqlite3_limit(db, limits[i][0], limits[i][1]);
    (void)sqlite3_set_authorizer(db, authorize, NULL);
    sqlite3_progress_handler(db, OPCODES_BETWEEN_LOOKS, look, watch);
    return RS_OK;
}

static enum rs_status failed(sqlite3 *db, const struct watch *watch,
                             const struct rs_query_limits *limits, struct rs_err *err)
{
    const int code = sqlite3_extended_errcode(db) & 0xff;
    if (code == SQLITE_INTERRUPT && watch->is_large)
        return rs_err_set(err, RS_LIMIT, "the query takes more than %lld MiB of memory",
                          (long long)(limits->memory_bytes >> 20));
    if (code == SQLITE_INTERRUPT)
        return rs_err_set(err, RS_TIMEOUT, "the query takes longer than %.3g s",
                          (double)limits->time_ns / RS_NS_PER_S);
    if (code == SQLITE_AUTH)
        return rs_err_set(err, RS_INVALID, "a query is one SELECT on the capture's tables: %s",
                          sqlite3_errmsg(db));
    switch (code) {
    case SQLITE_NOMEM:
        return rs_err_set(err, RS_NOMEM, "out of memory");
    case SQLITE_TOOBIG:
        return rs_err_set(err, RS_LIMIT, "a value of the query is larger than 1 MiB");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return rs_err_set(err, RS_FORMAT, "the rows cannot be read: %s", sqlite3_errmsg(db));
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_BUSY:
        return rs_err_set(err, RS_IO, "the rows cannot be read: %s", sqlite3_errmsg(db));
    default:
        return rs_err_set(err, RS_INVALID, "SQL: %s", sqlite3_errmsg(db));
    }
}

/* What follows the statement: blanks, a semicolon, comments are SQLite's matter. */
static bool is_all(sqlite3 *db, const char *tail)
{
    sqlite3_stmt *more = NULL;
    while (*tail) {
        if (sqlite3_prepare_v2(db, tail, -1, &more, &tail) != SQLITE_OK || more) {
            (void)sqlite3_finalize(more);
            return false;
        }
    }
    return true;
}

static void put_value(struct rs_json_out *out, sqlite3_stmt *statement, int column)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes;
    struct rs_buf hex = {0};
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        rs_json_out_int(out, sqlite3_column_int64(statement, column));
        break;
    case SQLITE_FLOAT:
        rs_json_out_double(out, sqlite3_column_double(statement, column));
        break;
    case SQLITE_TEXT:
        bytes = sqlite3_column_text(statement, column);
        rs_json_out_bytes(out, (const char *)bytes,
                          (size_t)sqlite3_column_bytes(statement, column));
        break;
    case SQLITE_BLOB:
        bytes = sqlite3_column_blob(statement, column);
        for (int i = 0; i < sqlite3_column_bytes(statement, column); i++) {
            rs_buf_u8(&hex, (uint8_t)digits[bytes[i] >> 4]);
            rs_buf_u8(&hex, (uint8_t)digits[bytes[i] & 15]);
        }
        rs_json_out_bytes(out, (const char *)hex.data, hex.length);
        rs_buf_fini(&hex);
        break;
    default:
        rs_json_out_null(out);
        break;
    }
}

static void put_columns(sqlite3_stmt *statement, struct rs_buf *json)
{
    struct rs_json_out out;
    rs_buf_string(json, "\"columns\": ");
    rs_json_out_init(&out, json, 0);
    rs_json_out_array(&out);
    for (int i = 0; i < sqlite3_column_count(statement); i++)
        rs_json_out_string(&out, sqlite3_column_name(statement, i));
    rs_json_out_end(&out);
}

static int put_rows(sqlite3_stmt *statement, const struct rs_query_limits *limits,
                    struct rs_buf *json, struct rs_query_facts *facts)
{
    struct rs_buf row = {0};
    int code;
    rs_buf_string(json, ", \"rows\": [");
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct rs_json_out out;
        rs_buf_reset(&row);
        rs_json_out_init(&out, &row, 0);
        rs_json_out_array(&out);
        for (int i = 0; i < sqlite3_column_count(statement); i++)
            put_value(&out, statement, i);
        rs_json_out_end(&out);
        facts->is_cut =
            facts->rows == limits->rows || json->length + row.length + 4 > limits->bytes;
        if (facts->is_cut || row.failed)
            break;
        rs_buf_string(json, facts->rows ? ",\n" : "\n");
        rs_buf_bytes(json, row.data, row.length);
        facts->rows++;
    }
    rs_buf_string(json, "]");
    json->failed = json->failed || row.failed;
    rs_buf_fini(&row);
    return code == SQLITE_ROW ? SQLITE_DONE : code;
}

static enum rs_status run(sqlite3 *db, const char *sql, struct watch *watch,
                          const struct rs_query_limits *limits, struct rs_buf *json,
                          struct rs_query_facts *facts, struct rs_err *err)
{
    sqlite3_stmt *statement = NULL;
    const char *tail = NULL;
    enum rs_status status = confine(db, watch, err);
    if (status < 0)
        return status;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, &tail) != SQLITE_OK)
        status = failed(db, watch, limits, err);
    else if (!statement || !is_all(db, tail) || !sqlite3_stmt_readonly(statement))
        status = rs_err_set(err, RS_INVALID, "a query is one SELECT");
    if (status == RS_OK) {
        put_columns(statement, json);
        if (put_rows(statement, limits, json, facts) != SQLITE_DONE)
            status = failed(db, watch, limits, err);
    }
    (void)sqlite3_finalize(statement);
    (void)sqlite3_set_authorizer(db, NULL, NULL);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    if (status == RS_OK && json->failed)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    return status;
}

enum rs_status rs_row_store_query(struct rs_row_store *store, const char *sql,
                                  const struct rs_query_limits *limits, struct rs_buf *json,
                                  struct rs_query_facts *facts, struct rs_err *err)
{
    struct watch watch = {.until = rs_time_monotonic() + limits->time_ns,
                          .memory_until = sqlite3_memory_used() + limits->memory_bytes};
    sqlite3 *db = NULL;
    *facts = (struct rs_query_facts){0};
    enum rs_status status = row_store_lend(store, &db, err);
    if (status == RS_OK)
        status = run(db, sql, &watch, limits, json, facts, err);
    const enum rs_status own = row_store_take_back(store, err);
    return own < 0 ? own : status;
}
