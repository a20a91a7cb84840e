/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units in, named reads out, over ClickHouse.
 *
 *     put      rows are kept as RowBinary until the unit is whole
 *     commit   generation G --> INSERT each table's rows --> INSERT (unit, G) into write_unit: now they count
 *              no answer? It may have happened or not: all of it again, as generation G + 1
 *     read     SELECT on what counts up to the snapshot: of every table
 *              (SELECT * FROM t WHERE (unit, generation) IN (SELECT unit, max(generation) FROM write_unit ...))
 *
 * So a request that arrives after all changes nothing that anybody sees, and a reader sees a unit whole or not at all. A generation
 * is the second in which it was made, by the server's clock, and a counter: newer is larger, over restarts, too (the newest that is
 * there is asked for, and two that begin in one second differ by chance). What no snapshot of the last ten minutes can see is deleted
 * when a capture is opened for writing: the same clock says which those are, whoever's clock is wrong.
 *
 * A unit that is gone has a row in write_unit as others do, of rows -1: nothing of it counts, and no read shows it.
 *
 * Whoever joins a capture again and again (struct rs_clickhouse_known) sends units that are as they were only once.
 *
 * Statements are those of 2018 and of today: no column that is not named, one JOIN a SELECT, types by DESCRIBE.
 */
#include "aggregator/store/clickhouse_http.h"
#include "aggregator/store/clickhouse_priv.h"
#include "aggregator/store/row_binary.h"
#include "aggregator/store/row_unit_set.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/base/time.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum {
    TABLES_MAX = 64,
    TRIES = 3,
    KEPT_S = 600,
    SWEEP_EVERY_S = 300, /* of a capture that is joined again and again */
    ROWS_GONE = -1,
    COUNTER_BITS = 32,
    KEYS_MAX = 8,
    HELD_MAX_BYTES = 64 << 20
};

/* Rows of one table that wait for the commit. */
struct waiting {
    struct rs_buf bytes;
    size_t *ends; /* of its rows: the eight bytes before are the generation */
    size_t count, capacity;
};

struct held_unit {
    struct rs_unit unit;
    int64_t rows, members;
    struct unit_digest digest;
};

struct rs_clickhouse_known {
    int64_t generation; /* the newest that was there when they were written */
    rs_ns swept_at;     /* monotonic; 0: never */
    struct unit_set units;
};

struct clickhouse_store {
    struct clickhouse_link *link;
    int64_t capture;                   /* its number in the database */
    int64_t generation;                /* the newest that was given, or is there */
    int64_t snapshot;                  /* of the reads that are open */
    int64_t ahead_s;                   /* the server's clock, less our monotonic one */
    struct rs_clickhouse_known *known; /* lent; NULL: nothing is */
    unsigned cursor_count;
    rs_dur retry_ns;
    /* units that are committed and do not count yet: all at once, and of one generation */
    bool is_held;
    struct waiting tables[TABLES_MAX]; /* by place in rs_tables */
    struct held_unit *units;
    size_t unit_count, unit_capacity;
};

struct clickhouse_writer {
    struct clickhouse_store *store;
    struct held_unit unit;
    struct waiting tables[TABLES_MAX]; /* by place in rs_tables */
};

struct clickhouse_cursor {
    struct clickhouse_store *store;
    struct clickhouse_link *link; /* its own */
    const struct rs_table *result;
    int64_t capture; /* as who reads numbers it */
    const struct rs_column *columns[ROW_BINARY_COLUMNS_MAX];
    struct row_binary_type types[ROW_BINARY_COLUMNS_MAX];
    size_t count; /* of both: the result's but for those that are counted */
    struct rs_buf bytes;
    size_t at; /* in bytes */
    int64_t keys[KEYS_MAX];
    int64_t counted; /* -1: no row yet */
    uint64_t skip;
    bool is_over;
};

/* ---- names and numbers ---------------------------------------------------------------------------------------------- */

static int64_t number_of(const char *capture)
{
    const int64_t number = (int64_t)(XXH3_64bits(capture, strlen(capture)) >> 1);
    return number ? number : 1;
}

/* By the server's clock. */
static int64_t seconds_now(const struct clickhouse_store *store)
{
    return rs_time_monotonic() / RS_NS_PER_S + store->ahead_s;
}

static int64_t next_generation(struct clickhouse_store *store)
{
    const int64_t now = seconds_now(store) << COUNTER_BITS;
    uint32_t chance = 0;
    if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        chance = 0;
    store->generation = store->generation < now ? now | (chance >> 1) : store->generation + 1;
    return store->generation;
}

static enum rs_status no_memory(struct rs_err *err)
{
    return rs_err_set(err, RS_NOMEM, "no memory for rows");
}

/* Runs a printf-like statement whose answer is one number. */
static enum rs_status ask_number(struct clickhouse_store *store, const struct rs_buf *sql,
                                 int64_t *number_p, struct rs_err *err)
{
    struct rs_buf answer = {0};
    enum rs_status status = sql->failed ? no_memory(err) : RS_OK;
    if (status == RS_OK)
        status = clickhouse_ask(store->link, (const char *)sql->data, &answer, err);
    if (status == RS_OK)
        *number_p = strtoll(rs_buf_text(&answer), NULL, 10);
    rs_buf_fini(&answer);
    return status;
}

/* And what time it is there. */
static enum rs_status newest(struct clickhouse_store *store, int64_t *generation_p,
                             struct rs_err *err)
{
    struct rs_buf sql = {0}, answer = {0};
    rs_buf_printf(&sql,
                  "SELECT max(generation), toUnixTimestamp(now()) FROM write_unit "
                  "WHERE capture = %" PRId64 " FORMAT TabSeparated",
                  store->capture);
    const char *text = rs_buf_text(&sql);
    enum rs_status status =
        sql.failed ? no_memory(err) : clickhouse_ask(store->link, text, &answer, err);
    if (status == RS_OK) {
        char *rest = NULL;
        *generation_p = strtoll(rs_buf_text(&answer), &rest, 10);
        const int64_t now = strtoll(rest, NULL, 10);
        store->ahead_s = now - rs_time_monotonic() / RS_NS_PER_S;
        if (now <= 0)
            status = rs_err_set(err, RS_FORMAT, "ClickHouse does not say what time it is");
    }
    rs_buf_fini(&sql);
    rs_buf_fini(&answer);
    return status;
}

/* ---- tables ----------------------------------------------------------------------------------------------------------- */

/* "a Int64, b Nullable(String), generation Int64" of a table as it is to be. */
static void put_columns(const struct rs_table *table, struct rs_buf *buf)
{
    static const char behind[] = ") ENGINE";
    struct rs_buf sql = {0};
    rs_sql_create(table, RS_CLICKHOUSE, &sql);
    const char *text = rs_buf_text(&sql);
    const char *begin = strchr(text, '('), *end = strstr(text, behind);
    RS_CHECK(begin && end && begin < end);
    rs_buf_bytes(buf, begin + 1, (size_t)(end - begin - 1));
    buf->failed = buf->failed || sql.failed;
    rs_buf_fini(&sql);
}

/* Lines "table, name, type" by tabs: how many are of the table, and whether one of them is this one. */
static size_t count_lines(const char *lines, const char *table, struct rs_view column,
                          bool *is_there_p)
{
    const size_t length = strlen(table);
    size_t count = 0;
    for (const char *line = lines; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, table, length) != 0 || line[length] != '\t')
            continue;
        const struct rs_view told = rs_view_of(line + length + 1, strcspn(line + length + 1, "\n"));
        count++;
        *is_there_p = *is_there_p || (told.length == column.length &&
                                      memcmp(told.data, column.data, column.length) == 0);
    }
    return count;
}

/* Whether the server has these columns, in whatever order (statements name them). *count_p: how many it has; 0: no such table. */
static bool is_as_wanted(struct rs_buf *wanted, const char *lines, const char *table,
                         size_t *count_p)
{
    size_t count = 0;
    bool are_there = true;
    *count_p = count_lines(lines, table, rs_view_of("", 0), &are_there);
    for (char *column = (char *)wanted->data; *column; count++) {
        bool is_there = false;
        const char *end = strstr(column, ", ");
        const size_t length = end ? (size_t)(end - column) : strlen(column);
        char *space = memchr(column, ' ', length);
        RS_CHECK(space);
        *space = '\t';
        (void)count_lines(lines, table, rs_view_of(column, length), &is_there);
        are_there = are_there && is_there;
        column += length + (end ? 2 : 0);
    }
    return are_there && count == *count_p;
}

static enum rs_status create_table(struct clickhouse_store *store, const struct rs_table *table,
                                   struct rs_err *err)
{
    static const char create[] = "CREATE TABLE ";
    struct rs_buf sql = {0}, safe = {0};
    rs_sql_create(table, RS_CLICKHOUSE, &sql);
    rs_buf_printf(&safe, "%sIF NOT EXISTS %s", create, rs_buf_text(&sql) + sizeof create - 1);
    const enum rs_status status =
        sql.failed || safe.failed
            ? no_memory(err)
            : clickhouse_run(store->link, rs_buf_text(&safe), NULL, true, NULL, err);
    rs_buf_fini(&sql);
    rs_buf_fini(&safe);
    return status;
}

/* One that is not there is made, or left out: a table that is newer than the rows that are read. */
static enum rs_status check_table(struct clickhouse_store *store, const struct rs_table *table,
                                  const char *lines, enum rs_row_mode mode, bool *is_there_p,
                                  struct rs_err *err)
{
    struct rs_buf wanted = {0};
    enum rs_status status = RS_OK;
    size_t count = 0;
    put_columns(table, &wanted);
    (void)rs_buf_text(&wanted);
    const bool is_fine = !wanted.failed && is_as_wanted(&wanted, lines, table->name, &count);
    *is_there_p = *is_there_p || count || mode == RS_ROWS_WRITE;
    if (wanted.failed)
        status = no_memory(err);
    else if (!count && mode == RS_ROWS_WRITE)
        status = create_table(store, table, err);
    else if (count && !is_fine)
        status = rs_err_set(err, RS_VERSION,
                            "table %s of the database %s has other columns than this program's: "
                            "use another database",
                            table->name, clickhouse_link_database(store->link));
    rs_buf_fini(&wanted);
    return status;
}

static enum rs_status create_database(struct clickhouse_store *store, struct rs_err *err)
{
    struct rs_buf sql = {0};
    rs_buf_printf(&sql, "CREATE DATABASE IF NOT EXISTS %s", clickhouse_link_database(store->link));
    const enum rs_status status =
        sql.failed ? no_memory(err)
                   : clickhouse_run(store->link, rs_buf_text(&sql), NULL, false, NULL, err);
    rs_buf_fini(&sql);
    return status;
}

/* A database is made only where there is none: who may write into it need not have the right to make one. */
static enum rs_status check_tables(struct clickhouse_store *store, enum rs_row_mode mode,
                                   struct rs_err *err)
{
    static const char columns[] = "SELECT table, name, type FROM system.columns "
                                  "WHERE database = currentDatabase() FORMAT TabSeparated";
    struct rs_buf answer = {0};
    enum rs_status status = clickhouse_ask(store->link, columns, &answer, err);
    if (status == RS_NOTFOUND && mode == RS_ROWS_WRITE) {
        status = create_database(store, err);
        if (status == RS_OK)
            status = clickhouse_ask(store->link, columns, &answer, err);
    }
    bool is_there = false;
    for (size_t i = 0; rs_tables[i] && status == RS_OK; i++)
        status = check_table(store, rs_tables[i], rs_buf_text(&answer), mode, &is_there, err);
    if (status == RS_OK && !is_there)
        status = rs_err_set(err, RS_NOTFOUND, "no rows were written into the database %s",
                            clickhouse_link_database(store->link));
    rs_buf_fini(&answer);
    return status;
}

/* "(rank, part, generation)", "(step, generation)" or "generation"; of write_unit: all of its key. */
static void put_unit_columns(const struct rs_table *table, struct rs_buf *buf)
{
    const struct rs_column *units[2] = {NULL, NULL};
    if (table == &rs_table_write_unit)
        rs_buf_string(buf, "(unit_kind, a, b, generation)");
    else
        switch (row_unit_kind(table, units)) {
        case RS_UNIT_RANK:
            rs_buf_printf(buf, "(%s, %s, generation)", units[0]->name, units[1]->name);
            break;
        case RS_UNIT_STEP:
            rs_buf_printf(buf, "(%s, generation)", units[0]->name);
            break;
        case RS_UNIT_CAPTURE:
            rs_buf_string(buf, "generation");
        }
}

/* The units that count, and their generations, as columns of the same form, in a snapshot. */
static void put_current(const struct rs_table *table, int64_t capture, int64_t snapshot,
                        struct rs_buf *buf)
{
    const struct rs_column *units[2] = {NULL, NULL};
    const bool is_units = table == &rs_table_write_unit;
    const enum rs_unit_kind kind = is_units ? RS_UNIT_CAPTURE : row_unit_kind(table, units);
    const char *const keys = is_units               ? "unit_kind, a, b"
                             : kind == RS_UNIT_RANK ? "a, b"
                             : kind == RS_UNIT_STEP ? "a"
                                                    : NULL;
    rs_buf_printf(buf,
                  "(SELECT %s%smax(generation) FROM write_unit WHERE capture = %" PRId64
                  " AND generation <= %" PRId64,
                  keys ? keys : "", keys ? ", " : "", capture, snapshot);
    if (!is_units)
        rs_buf_printf(buf, " AND unit_kind = %d", (int)kind);
    rs_buf_printf(buf, "%s%s)", keys ? " GROUP BY " : "", keys ? keys : "");
}

/* What nobody sees any more who began to read in the last ten minutes; the server does it when it has the time. */
static enum rs_status sweep(struct clickhouse_store *store, struct rs_err *err)
{
    const int64_t limit = (seconds_now(store) - KEPT_S) << COUNTER_BITS;
    const rs_ns now = rs_time_monotonic();
    int64_t replaced = 0;
    if (store->known && store->known->swept_at &&
        now - store->known->swept_at < SWEEP_EVERY_S * (rs_dur)RS_NS_PER_S)
        return RS_OK;
    struct rs_buf sql = {0};
    rs_buf_printf(&sql,
                  "SELECT count(*) FROM write_unit WHERE capture = %" PRId64
                  " AND generation < %" PRId64 " AND ",
                  store->capture, limit);
    put_unit_columns(&rs_table_write_unit, &sql);
    rs_buf_string(&sql, " NOT IN ");
    put_current(&rs_table_write_unit, store->capture, limit, &sql);
    (void)rs_buf_text(&sql);
    enum rs_status status = ask_number(store, &sql, &replaced, err);
    for (size_t i = 0; rs_tables[i] && status == RS_OK && replaced; i++) {
        rs_buf_reset(&sql);
        rs_buf_printf(&sql,
                      "ALTER TABLE %s DELETE WHERE capture = %" PRId64 " AND generation < %" PRId64
                      " AND ",
                      rs_tables[i]->name, store->capture, limit);
        put_unit_columns(rs_tables[i], &sql);
        rs_buf_string(&sql, " NOT IN ");
        put_current(rs_tables[i], store->capture, limit, &sql);
        status = sql.failed ? no_memory(err)
                            : clickhouse_run(store->link, rs_buf_text(&sql), NULL, true, NULL, err);
    }
    rs_buf_fini(&sql);
    if (store->known && status == RS_OK)
        store->known->swept_at = now;
    return status;
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

static void forget_known(struct clickhouse_store *store)
{
    if (!store->known)
        return;
    unit_set_fini(&store->known->units);
    store->known->generation = store->generation;
}

struct rs_clickhouse_known *rs_clickhouse_known_new(void)
{
    return rs_mem_calloc(1, sizeof(struct rs_clickhouse_known));
}

void rs_clickhouse_known_free(struct rs_clickhouse_known **known_p)
{
    if (*known_p)
        unit_set_fini(&(*known_p)->units);
    rs_mem_free(*known_p);
    *known_p = NULL;
}

/* Whatever is there of the capture, or nothing. */
static enum rs_status open_tables(const struct rs_clickhouse_options *options, const char *capture,
                                  enum rs_row_mode mode, struct clickhouse_store **store_p,
                                  struct rs_err *err)
{
    struct clickhouse_store *store = rs_mem_calloc(1, sizeof *store);
    if (!store)
        return no_memory(err);
    RS_CHECK(mode != RS_ROWS_PRIVATE);
    store->capture = number_of(capture);
    store->retry_ns = options->retry_ns ? options->retry_ns : 500 * (rs_dur)RS_NS_PER_MS;
    enum rs_status status = clickhouse_link_open(options, &store->link, err);
    if (status == RS_OK)
        status = check_tables(store, mode, err);
    if (status == RS_OK)
        *store_p = store;
    else
        clickhouse_close(&store);
    return status;
}

enum rs_status clickhouse_open(const struct rs_clickhouse_options *options, const char *capture,
                               enum rs_row_mode mode, struct clickhouse_store **store_p,
                               struct rs_err *err)
{
    struct clickhouse_store *store = NULL;
    enum rs_status status = open_tables(options, capture, mode, &store, err);
    if (status == RS_OK)
        status = newest(store, &store->generation, err);
    if (status == RS_OK && mode == RS_ROWS_READ && !store->generation)
        status = rs_err_set(err, RS_NOTFOUND, "no rows of %s were written into the database %s",
                            capture, clickhouse_link_database(store->link));
    if (status == RS_OK && mode == RS_ROWS_WRITE && options->known) {
        store->known = options->known;
        if (store->known->generation != store->generation) /* somebody else was here, or nobody */
            forget_known(store);
    }
    if (status == RS_OK && mode == RS_ROWS_WRITE)
        status = sweep(store, err);
    if (status == RS_OK)
        *store_p = store;
    else
        clickhouse_close(&store);
    return status;
}

void clickhouse_close(struct clickhouse_store **store_p)
{
    struct clickhouse_store *store = *store_p;
    if (!store)
        return;
    RS_CHECK(!store->cursor_count);
    for (size_t i = 0; i < TABLES_MAX; i++) {
        rs_buf_fini(&store->tables[i].bytes);
        rs_mem_free(store->tables[i].ends);
    }
    rs_mem_free(store->units);
    clickhouse_link_close(&store->link);
    rs_mem_free(store);
    *store_p = NULL;
}

enum rs_status rs_clickhouse_remove(const struct rs_clickhouse_options *options,
                                    const char *capture, struct rs_err *err)
{
    struct clickhouse_store *store = NULL;
    struct rs_buf sql = {0};
    enum rs_status status = open_tables(options, capture, RS_ROWS_READ, &store, err);
    if (status == RS_NOTFOUND)
        return RS_OK;
    /* Also when no unit counts: a first copy that was cut off has left rows. write_unit last: cut off in between, its name is still there to be removed again. */
    for (size_t i = 0; rs_tables[i] && status == RS_OK; i++) {
        rs_buf_reset(&sql);
        rs_buf_printf(&sql, "ALTER TABLE %s DROP PARTITION %" PRId64, rs_tables[i]->name,
                      store->capture);
        status = sql.failed ? no_memory(err)
                            : clickhouse_run(store->link, rs_buf_text(&sql), NULL, true, NULL, err);
    }
    rs_buf_fini(&sql);
    clickhouse_close(&store);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------------------------------------- */

enum rs_status clickhouse_begin(struct clickhouse_store *store, const struct rs_unit *unit,
                                struct clickhouse_writer **writer_p, struct rs_err *err)
{
    struct clickhouse_writer *writer = rs_mem_calloc(1, sizeof *writer);
    if (!writer)
        return no_memory(err);
    writer->store = store;
    writer->unit.unit = *unit;
    *writer_p = writer;
    return RS_OK;
}

static void patch(struct rs_buf *buf, size_t at, int64_t value)
{
    for (size_t i = 0; i < sizeof value; i++)
        buf->data[at + i] = (uint8_t)((uint64_t)value >> 8 * i);
}

/* The first column is the capture's number, and here it is another one. */
static enum rs_status put_row(const struct clickhouse_store *store, const struct rs_table *table,
                              const void *row, struct rs_buf *buf, int64_t generation,
                              struct rs_err *err)
{
    const size_t at = buf->length;
    const enum rs_status status = row_binary_put(table, row, generation, buf);
    if (status == RS_INVALID)
        return rs_err_set(err, RS_INVALID, "a row of %s lacks what every row of it has",
                          table->name);
    if (status == RS_LIMIT)
        return rs_err_set(err, RS_LIMIT, "a row of %s is too long", table->name);
    if (buf->failed)
        return no_memory(err);
    patch(buf, at, store->capture);
    return status;
}

enum rs_status clickhouse_put(struct clickhouse_writer *writer, const struct rs_table *table,
                              const void *rows, size_t count, struct rs_err *err)
{
    size_t place = 0;
    while (rs_tables[place] && rs_tables[place] != table)
        place++;
    RS_CHECK(rs_tables[place] && place < TABLES_MAX && table != &rs_table_write_unit);
    struct waiting *waiting = &writer->tables[place];
    if (rs_mem_grow((void **)&waiting->ends, &waiting->capacity, waiting->count + count,
                    sizeof *waiting->ends) < 0)
        return no_memory(err);
    for (size_t i = 0; i < count; i++) {
        const enum rs_status status =
            put_row(writer->store, table, (const char *)rows + i * table->row_bytes,
                    &waiting->bytes, 0, err);
        if (status != RS_OK)
            return status;
        waiting->ends[waiting->count++] = waiting->bytes.length;
    }
    writer->unit.rows += (int64_t)count;
    writer->unit.members += table == &rs_table_op_member ? (int64_t)count : 0;
    return RS_OK;
}

static enum rs_status insert(struct clickhouse_store *store, const struct rs_table *table,
                             const struct rs_buf *rows, struct rs_err *err)
{
    struct rs_buf sql = {0};
    rs_sql_insert(table, RS_CLICKHOUSE, &sql);
    const enum rs_status status =
        sql.failed ? no_memory(err)
                   : clickhouse_run(store->link, rs_buf_text(&sql), rows, true, NULL, err);
    rs_buf_fini(&sql);
    return status;
}

static enum rs_status insert_units(struct clickhouse_store *store, int64_t generation,
                                   struct rs_err *err)
{
    struct rs_buf buf = {0};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < store->unit_count && status == RS_OK; i++) {
        const struct held_unit *held = &store->units[i];
        const struct rs_row_write_unit row = {.unit_kind = held->unit.kind,
                                              .a = held->unit.a,
                                              .b = held->unit.b,
                                              .generation = generation,
                                              .rows = held->rows,
                                              .members = held->members};
        status = put_row(store, &rs_table_write_unit, &row, &buf, generation, err);
    }
    if (status == RS_OK)
        status = insert(store, &rs_table_write_unit, &buf, err);
    rs_buf_fini(&buf);
    return status;
}

static enum rs_status try_all(struct clickhouse_store *store, struct rs_err *err)
{
    const int64_t generation = next_generation(store);
    enum rs_status status = RS_OK;
    for (size_t i = 0; rs_tables[i] && status == RS_OK; i++) {
        struct waiting *waiting = &store->tables[i];
        for (size_t k = 0; k < waiting->count; k++)
            patch(&waiting->bytes, waiting->ends[k] - sizeof generation, generation);
        if (waiting->count)
            status = insert(store, rs_tables[i], &waiting->bytes, err);
    }
    return status == RS_OK ? insert_units(store, generation, err) : status;
}

static void forget_held(struct clickhouse_store *store)
{
    for (size_t i = 0; i < TABLES_MAX; i++) {
        rs_buf_reset(&store->tables[i].bytes);
        store->tables[i].count = 0;
    }
    store->unit_count = 0;
}

/* What was sent counts: as it is, it need not be sent again. Without memory for that it will be. */
static void know_held(struct clickhouse_store *store)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; store->known && i < store->unit_count && status == RS_OK; i++)
        status = unit_set_put(&store->known->units, &store->units[i].unit, store->units[i].digest);
    if (status != RS_OK)
        unit_set_fini(&store->known->units);
    if (store->known)
        store->known->generation = store->generation;
}

/* All that waits; when it fails, none of it counts as far as anybody knows, and none of it waits any more. It may count later, when a
 * request arrives after all: nothing is known then of what is there. */
static enum rs_status send_held(struct clickhouse_store *store, struct rs_err *err)
{
    enum rs_status status = store->unit_count ? RS_UNREACHABLE : RS_OK;
    for (unsigned tries = 0; status == RS_UNREACHABLE && tries < TRIES; tries++) {
        const rs_dur pause = tries ? store->retry_ns << (tries - 1) : 0;
        const struct timespec time = {.tv_sec = pause / RS_NS_PER_S,
                                      .tv_nsec = (long)(pause % RS_NS_PER_S)};
        if (tries)
            (void)nanosleep(&time, NULL);
        status = try_all(store, err);
    }
    if (status == RS_OK && store->unit_count)
        know_held(store);
    else if (status != RS_OK)
        forget_known(store);
    forget_held(store);
    return status;
}

static size_t held_bytes(const struct clickhouse_store *store)
{
    size_t bytes = 0;
    for (size_t i = 0; i < TABLES_MAX; i++)
        bytes += store->tables[i].bytes.length;
    return bytes;
}

/* The writer's rows behind those that wait. */
static enum rs_status hold(struct clickhouse_writer *writer, struct rs_err *err)
{
    struct clickhouse_store *store = writer->store;
    if (rs_mem_grow((void **)&store->units, &store->unit_capacity, store->unit_count + 1,
                    sizeof *store->units) < 0)
        return no_memory(err);
    for (size_t i = 0; i < TABLES_MAX; i++) {
        const struct waiting *from = &writer->tables[i];
        struct waiting *to = &store->tables[i];
        if (!from->count)
            continue;
        if (rs_mem_grow((void **)&to->ends, &to->capacity, to->count + from->count,
                        sizeof *to->ends) < 0)
            return no_memory(err);
        for (size_t k = 0; k < from->count; k++)
            to->ends[to->count + k] = to->bytes.length + from->ends[k];
        rs_buf_bytes(&to->bytes, from->bytes.data, from->bytes.length);
        if (to->bytes.failed)
            return no_memory(err);
        to->count += from->count;
    }
    store->units[store->unit_count++] = writer->unit;
    return RS_OK;
}

/* The same unit twice in what waits would count twice: what was there first goes ahead. */
static bool is_held(const struct clickhouse_store *store, const struct rs_unit *unit)
{
    for (size_t i = 0; i < store->unit_count; i++)
        if (store->units[i].unit.kind == unit->kind && store->units[i].unit.a == unit->a &&
            store->units[i].unit.b == unit->b)
            return true;
    return false;
}

/* Of all its rows, in the order in which they came. Their generations are 0 still. */
static struct unit_digest digest_of(const struct clickhouse_writer *writer)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    (void)XXH3_128bits_reset(&state);
    for (size_t i = 0; i < TABLES_MAX; i++) {
        const struct rs_buf *bytes = &writer->tables[i].bytes;
        const uint64_t head[] = {i, bytes->length};
        if (!bytes->length)
            continue;
        (void)XXH3_128bits_update(&state, head, sizeof head);
        (void)XXH3_128bits_update(&state, bytes->data, bytes->length);
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(&state);
    return (struct unit_digest){.low = hash.low64 | 1, .high = hash.high64};
}

static bool is_known(const struct clickhouse_store *store, const struct held_unit *held)
{
    const struct unit_item *item =
        store->known
            ? unit_set_find(&store->known->units, held->unit.kind, held->unit.a, held->unit.b)
            : NULL;
    return item && item->digest.low == held->digest.low && item->digest.high == held->digest.high;
}

enum rs_status clickhouse_remove(struct clickhouse_store *store, const struct rs_unit *unit,
                                 struct rs_err *err)
{
    enum rs_status status = is_held(store, unit) ? send_held(store, err) : RS_OK;
    if (status == RS_OK && rs_mem_grow((void **)&store->units, &store->unit_capacity,
                                       store->unit_count + 1, sizeof *store->units) < 0)
        status = no_memory(err);
    if (status != RS_OK)
        return status;
    store->units[store->unit_count++] = (struct held_unit){.unit = *unit, .rows = ROWS_GONE};
    return store->is_held ? RS_OK : send_held(store, err);
}

enum rs_status clickhouse_commit(struct clickhouse_writer *writer, struct rs_err *err)
{
    struct clickhouse_store *store = writer->store;
    enum rs_status status = RS_OK;
    const bool was_held = is_held(store, &writer->unit.unit);
    writer->unit.digest = digest_of(writer);
    if (!was_held && is_known(store, &writer->unit))
        return RS_OK;
    if (was_held)
        status = send_held(store, err);
    if (status == RS_OK) {
        status = hold(writer, err);
        if (status != RS_OK)
            forget_held(store); /* rows of half a unit may be among them */
    }
    if (status == RS_OK && (!store->is_held || held_bytes(store) > HELD_MAX_BYTES))
        status = send_held(store, err);
    return status;
}

void clickhouse_hold(struct clickhouse_store *store)
{
    store->is_held = true;
}

enum rs_status clickhouse_release(struct clickhouse_store *store, struct rs_err *err)
{
    store->is_held = false;
    return send_held(store, err);
}

void clickhouse_writer_free(struct clickhouse_writer **writer_p)
{
    struct clickhouse_writer *writer = *writer_p;
    if (!writer)
        return;
    for (size_t i = 0; i < TABLES_MAX; i++) {
        rs_buf_fini(&writer->tables[i].bytes);
        rs_mem_free(writer->tables[i].ends);
    }
    rs_mem_free(writer);
    *writer_p = NULL;
}

/* ---- reading: the statement ------------------------------------------------------------------------------------------------- */

static size_t word_length(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_')
        length++;
    return length;
}

static const struct rs_table *table_of_word(const char *word, size_t length)
{
    char name[64];
    if (!length || length >= sizeof name)
        return NULL;
    (void)snprintf(name, sizeof name, "%.*s", (int)length, word);
    return rs_table_named(name);
}

/* A read's statement: behind FROM and JOIN stands what counts of a table instead of the table, and numbers for parameters. Statements
 * are ours (reads.def): texts in them hold neither word. */
static void put_statement(const struct clickhouse_store *store, const char *sql, struct rs_buf *buf)
{
    static const char parameter[] = ":capture";
    bool is_table = false;
    for (const char *at = sql; *at;) {
        const size_t length = word_length(at);
        const struct rs_table *table = is_table ? table_of_word(at, length) : NULL;
        if (strncmp(at, parameter, sizeof parameter - 1) == 0) {
            rs_buf_printf(buf, "%" PRId64, store->capture);
            at += sizeof parameter - 1;
            continue;
        }
        if (!length) {
            is_table = is_table && *at == ' ';
            rs_buf_u8(buf, (uint8_t)*at++);
            continue;
        }
        if (table) {
            rs_buf_printf(buf, "(SELECT * FROM %s WHERE capture = %" PRId64 " AND ", table->name,
                          store->capture);
            put_unit_columns(table, buf);
            rs_buf_string(buf, " IN ");
            put_current(table, store->capture, store->snapshot, buf);
            rs_buf_string(buf, table == &rs_table_write_unit ? " AND rows >= 0)" : ")");
        } else {
            rs_buf_bytes(buf, at, length);
        }
        is_table = length == 4 && (memcmp(at, "FROM", 4) == 0 || memcmp(at, "JOIN", 4) == 0);
        at += length;
    }
}

/* ---- reading: columns ---------------------------------------------------------------------------------------------------- */

static enum rs_status other_columns(const struct clickhouse_cursor *cursor, struct rs_err *err)
{
    return rs_err_set(err, RS_FORMAT, "ClickHouse answers the read %s with other columns",
                      cursor->result->name);
}

/* Lines "name, type, ..." by tabs, in the order of the result. */
static enum rs_status take_types(struct clickhouse_cursor *cursor, const char *lines,
                                 struct rs_err *err)
{
    size_t at = 0;
    for (const char *line = lines; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const size_t name = strcspn(line, "\t\n");
        if (at == cursor->count || line[name] != '\t' ||
            strlen(cursor->columns[at]->name) != name ||
            memcmp(cursor->columns[at]->name, line, name) != 0)
            return other_columns(cursor, err);
        const char *type = line + name + 1;
        if (row_binary_type_of(rs_view_of(type, strcspn(type, "\t\n")), &cursor->types[at]) < 0 ||
            !row_binary_fits(cursor->columns[at], &cursor->types[at]))
            return other_columns(cursor, err);
        at++;
    }
    return at == cursor->count ? RS_OK : other_columns(cursor, err);
}

static enum rs_status begin_stream(struct clickhouse_cursor *cursor, const struct rs_buf *statement,
                                   struct rs_err *err)
{
    struct rs_buf sql = {0}, answer = {0};
    rs_buf_string(&sql, "DESCRIBE TABLE (");
    rs_buf_bytes(&sql, statement->data, statement->length);
    rs_buf_string(&sql, ") FORMAT TabSeparated");
    enum rs_status status = statement->failed || sql.failed ? no_memory(err) : RS_OK;
    if (status == RS_OK)
        status = clickhouse_ask(cursor->link, rs_buf_text(&sql), &answer, err);
    if (status == RS_OK)
        status = take_types(cursor, rs_buf_text(&answer), err);
    rs_buf_reset(&sql);
    rs_buf_bytes(&sql, statement->data, statement->length);
    rs_buf_string(&sql, " FORMAT RowBinary");
    if (status == RS_OK && sql.failed)
        status = no_memory(err);
    if (status == RS_OK)
        status = clickhouse_stream_begin(cursor->link, rs_buf_text(&sql), err);
    rs_buf_fini(&sql);
    rs_buf_fini(&answer);
    return status;
}

/* ---- reading: rows -------------------------------------------------------------------------------------------------------- */

static enum rs_status start_read(struct clickhouse_cursor *cursor, enum rs_read read,
                                 const struct rs_read_args *args, struct rs_err *err)
{
    struct rs_buf sql = {0}, statement = {0};
    if (rs_read_is_raw(read))
        return rs_err_set(err, RS_INVALID, "%s: raw events are no rows of a store",
                          rs_read_def(read)->name);
    enum rs_status status = rs_read_check_filter(read, &args->filter, err);
    if (status == RS_OK)
        status = clickhouse_link_twin(cursor->store->link, &cursor->link, err);
    if (status != RS_OK)
        return status;
    for (size_t i = 0; i < cursor->result->column_count; i++) {
        RS_CHECK(cursor->count < ROW_BINARY_COLUMNS_MAX);
        if (!(cursor->result->columns[i].flags & RS_COUNTED))
            cursor->columns[cursor->count++] = &cursor->result->columns[i];
    }
    rs_read_sql(read, &args->filter, &sql);
    put_statement(cursor->store, rs_buf_text(&sql), &statement);
    statement.failed = statement.failed || sql.failed;
    status = begin_stream(cursor, &statement, err);
    rs_buf_fini(&sql);
    rs_buf_fini(&statement);
    return status;
}

enum rs_status clickhouse_read(struct clickhouse_store *store, enum rs_read read,
                               const struct rs_read_args *args, struct clickhouse_cursor **cursor_p,
                               int64_t *generation_p, struct rs_err *err)
{
    struct clickhouse_cursor *cursor = rs_mem_calloc(1, sizeof *cursor);
    if (!cursor)
        return no_memory(err);
    *cursor = (struct clickhouse_cursor){.store = store,
                                         .result = rs_read_def(read)->result,
                                         .capture = args->capture,
                                         .counted = -1};
    enum rs_status status = RS_OK;
    if (store->unit_count) /* what was written through this handle is seen by it */
        status = send_held(store, err);
    if (!store->cursor_count++ && status == RS_OK)
        status = newest(store, &store->snapshot, err);
    if (status == RS_OK)
        status = start_read(cursor, read, args, err);
    *generation_p = store->snapshot;
    if (status == RS_OK)
        *cursor_p = cursor;
    else
        clickhouse_read_close(&cursor);
    return status;
}

void clickhouse_read_close(struct clickhouse_cursor **cursor_p)
{
    struct clickhouse_cursor *cursor = *cursor_p;
    if (!cursor)
        return;
    cursor->store->cursor_count--;
    clickhouse_link_close(&cursor->link);
    rs_buf_fini(&cursor->bytes);
    rs_mem_free(cursor);
    *cursor_p = NULL;
}

/* Counts operations, or whatever the key columns number. */
static void count_row(struct clickhouse_cursor *cursor, void *row)
{
    const struct rs_table *result = cursor->result;
    size_t keys = 0;
    bool is_new = cursor->counted < 0;
    for (size_t i = 0; i < result->column_count; i++) {
        const struct rs_column *column = &result->columns[i];
        if (!(column->flags & RS_KEY) || column->flags & RS_COUNTED || column->kind != RS_I64 ||
            keys == KEYS_MAX)
            continue;
        const int64_t key = rs_column_i64(column, row);
        is_new = is_new || cursor->keys[keys] != key;
        cursor->keys[keys++] = key;
    }
    cursor->counted += is_new;
    for (size_t i = 0; i < result->column_count; i++)
        if (result->columns[i].flags & RS_COUNTED)
            rs_column_set_i64(&result->columns[i], row, cursor->counted);
    const struct rs_column *capture = rs_table_column(result, "capture");
    if (capture && capture->kind == RS_I64)
        rs_column_set_i64(capture, row, cursor->capture);
}

/* More bytes behind those that are left: at least as many again, so that a long row is not looked through with every piece of it. */
static enum rs_status read_on(struct clickhouse_cursor *cursor, struct rs_err *err)
{
    struct rs_buf *bytes = &cursor->bytes;
    const size_t left = bytes->length - cursor->at;
    if (left && cursor->at)
        memmove(bytes->data, bytes->data + cursor->at, left);
    bytes->length = left;
    cursor->at = 0;
    if (left > ROW_BINARY_ROW_MAX)
        return rs_err_set(err, RS_LIMIT, "what ClickHouse answers to %s has a row that is too long",
                          cursor->result->name);
    enum rs_status status;
    do
        status = clickhouse_stream_next(cursor->link, bytes, err);
    while (status == RS_OK && bytes->length < 2 * left);
    if (status == RS_END && bytes->length > left)
        return RS_OK; /* it will say so again */
    if (status != RS_END)
        return status;
    cursor->is_over = true;
    return left ? rs_err_set(err, RS_FORMAT, "what ClickHouse answers to %s ends within a row",
                             cursor->result->name)
                : RS_OK;
}

/* A row of the block; RS_AGAIN: more bytes are needed. */
static enum rs_status take_row(struct clickhouse_cursor *cursor, struct rs_block *block)
{
    struct rs_view view =
        rs_view_of(cursor->bytes.data + cursor->at, cursor->bytes.length - cursor->at);
    if (!view.length)
        return RS_AGAIN;
    void *row = rs_block_add(block);
    if (!row)
        return RS_NOMEM;
    const size_t length = view.length, texts = block->texts.length;
    const enum rs_status status =
        row_binary_take(cursor->columns, cursor->types, cursor->count, &view, row, block);
    if (status != RS_OK) {
        block->count--;
        return status;
    }
    cursor->at += length - view.length;
    count_row(cursor, row);
    if (cursor->skip) {
        cursor->skip--;
        block->count--;
        block->texts.length = texts;
    }
    return RS_OK;
}

enum rs_status clickhouse_next(struct clickhouse_cursor *cursor, struct rs_block *block,
                               struct rs_err *err)
{
    enum rs_status status = RS_OK;
    rs_block_begin(block, cursor->result);
    while (status == RS_OK && !cursor->is_over && block->count < RS_CURSOR_ROWS &&
           block->texts.length < RS_BLOCK_BYTES_MAX) {
        status = take_row(cursor, block);
        if (status == RS_AGAIN)
            status = read_on(cursor, err);
        else if (status == RS_FORMAT)
            status = rs_err_set(err, RS_FORMAT, "what ClickHouse answers to %s is no row of it",
                                cursor->result->name);
        else if (status == RS_NOMEM)
            status = no_memory(err);
    }
    if (rs_block_end(block) != RS_OK && status == RS_OK)
        status = no_memory(err);
    if (status < 0)
        block->count = 0;
    return status == RS_OK && !block->count ? RS_END : status;
}

void clickhouse_skip(struct clickhouse_cursor *cursor, uint64_t rows)
{
    cursor->skip = rows;
}
