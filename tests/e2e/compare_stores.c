/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same rows written into SQLite and into ClickHouse; every read of both is the same, byte for byte.
 *
 *     compare_stores RANKS URL CAPTURE PASSWORD_FILE [CA_FILE]
 *     compare_stores FOLDER URL CAPTURE PASSWORD_FILE [CA_FILE]       rows of a job instead, which join_rows joined into FOLDER
 *
 * Without a folder rows are made up: every table has some, every column is absent here and there, texts hold what has to be quoted. Prints how many
 * rows were written and read, and how long each engine took; exit 1 and the first difference when there is one.
 */
#include "aggregator/analysis/rows.h"
#include "aggregator/store/clickhouse.h"
#include "common/base/mem.h"
#include "common/base/time.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, GROUPS = 3, OPS = 3, ROWS = 3, AT_ONCE = 512 };

static struct rs_err err;
static int64_t ranks;
static uint64_t written;

static void must(enum rs_status status, const char *what)
{
    if (status >= 0)
        return;
    fprintf(stderr, "compare_stores: %s: %s\n", what, err.text);
    exit(1);
}

/* ---- rows --------------------------------------------------------------------------------------------------------------- */

/* What a row is about; columns of these names say so. */
struct about {
    int64_t rank, step, group, op, i;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t chance_of(const struct rs_table *table, size_t column, const struct about *about)
{
    uint64_t hash = mix(mix(1, (uint64_t)table->name[0] << 8 | (uint64_t)table->name[1]), column);
    hash = mix(mix(mix(hash, (uint64_t)about->rank), (uint64_t)about->step), (uint64_t)about->i);
    return mix(mix(hash, (uint64_t)about->group), (uint64_t)about->op);
}

static int64_t key_of(const struct rs_table *table, const char *name, const struct about *about)
{
    const struct {
        const char *name;
        int64_t value;
    } known[] = {
        {"capture", RS_ROWS_CAPTURE},
        {"rank", about->rank},
        {"part", 0},
        {"step", table == &rs_table_step ? about->i : about->step}, /* said once of the capture */
        {"group_id", about->group * 7 - 7},
        {"op_no", about->op},
        {"member_no", about->rank},
        {"src", about->rank},
        {"dst", (about->rank + 1) % ranks}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].value;
    return about->i;
}

static const char *text_of(uint64_t chance)
{
    static const char *const texts[] = {"",
                                        "plain",
                                        "a,b \"c\"\nd",
                                        "\xc3\xa9\t\\ 'x'",
                                        "12.500",
                                        "a text that is somewhat longer than the others are"};
    return texts[chance % (sizeof texts / sizeof texts[0])];
}

static void fill_key(const struct rs_table *table, const struct rs_column *column, void *row,
                     const struct about *about)
{
    static const char *const texts[] = {"k0", "k1", "k2", "k3"};
    if (column->kind == RS_I64)
        rs_column_set_i64(column, row, key_of(table, column->name, about));
    else
        rs_column_set_text(column, row, texts[about->i & 3]);
}

static void fill(const struct rs_table *table, void *row, const struct about *about)
{
    rs_row_clear(table, row);
    for (size_t i = 0; i < table->column_count; i++) {
        const struct rs_column *column = &table->columns[i];
        const uint64_t chance = chance_of(table, i, about);
        if (column->flags & RS_KEY)
            fill_key(table, column, row, about);
        else if ((column->flags & RS_NULLABLE) && chance % 4 == 0)
            continue;
        else if (column->kind == RS_F64)
            rs_column_set_f64(column, row, (double)(chance >> 40) / 1024 - 1000);
        else if (column->kind != RS_I64)
            rs_column_set_text(column, row, text_of(chance >> 8));
        else if (strncmp(column->name, "is_", 3) == 0)
            rs_column_set_i64(column, row, (int64_t)(chance >> 8 & 1));
        else
            rs_column_set_i64(column, row, (int64_t)(chance >> 16) - (INT64_C(1) << 47));
    }
}

static bool has_key(const struct rs_table *table, const char *name)
{
    const struct rs_column *column = rs_table_column(table, name);
    return column && (column->flags & RS_KEY);
}

/* 0: a rank's; 1: a step's; 2: the capture's. */
static enum rs_unit_kind kind_of(const struct rs_table *table)
{
    int units = 0;
    for (size_t i = 0; i < table->column_count; i++)
        units += (table->columns[i].flags & RS_UNIT) != 0;
    return units == 2 ? RS_UNIT_RANK : units == 1 ? RS_UNIT_STEP : RS_UNIT_CAPTURE;
}

struct putting {
    const struct rs_table *table;
    struct rs_writer *writer;
    char *rows;
    size_t count;
};

static void put(struct putting *putting)
{
    must(rs_writer_put(putting->writer, putting->table, putting->rows, putting->count, &err),
         putting->table->name);
    written += putting->count;
    putting->count = 0;
}

static void add(struct putting *putting, const struct about *about)
{
    if (putting->count == AT_ONCE)
        put(putting);
    fill(putting->table, putting->rows + putting->count++ * putting->table->row_bytes, about);
}

/* Rows that the unit and `i` tell apart; a table without a key beside its unit has one. */
static void put_numbered(struct putting *putting, enum rs_unit_kind kind, struct about about)
{
    const struct rs_table *table = putting->table;
    size_t keys = 0;
    for (size_t i = 0; i < table->column_count; i++)
        keys += (table->columns[i].flags & RS_KEY) != 0;
    const size_t of_unit = kind == RS_UNIT_RANK ? 3 : 1; /* capture, rank, part */
    for (about.i = 0; about.i < (keys > of_unit ? ROWS : 1); about.i++) {
        about.group = about.i;
        if (kind == RS_UNIT_CAPTURE)
            about.rank = has_key(table, "src") ? about.i % ranks : about.i;
        add(putting, &about);
    }
}

/* In the order of keys. */
static void put_table(struct rs_writer *writer, const struct rs_table *table, struct about about)
{
    struct putting putting = {.table = table, .writer = writer};
    const enum rs_unit_kind kind = kind_of(table);
    const int64_t count = has_key(table, "member_no") || has_key(table, "src") ? ranks : 1;
    putting.rows = rs_mem_calloc(AT_ONCE, table->row_bytes);
    if (!putting.rows)
        exit(1);
    if (kind != RS_UNIT_STEP)
        put_numbered(&putting, kind, about);
    else
        for (about.group = 0; about.group < GROUPS; about.group++)
            for (about.op = 0; about.op < OPS; about.op++)
                for (about.rank = 0; about.rank < count; about.rank++)
                    add(&putting, &about);
    put(&putting);
    rs_mem_free(putting.rows);
}

static void put_unit(struct rs_row_store *store, enum rs_unit_kind kind, int64_t a)
{
    const struct rs_unit unit = {.capture = RS_ROWS_CAPTURE, .kind = kind, .a = a};
    struct rs_writer *writer = NULL;
    must(rs_store_begin(store, &unit, &writer, &err), "begin");
    for (size_t i = 0; rs_tables[i]; i++)
        if (rs_tables[i] != &rs_table_write_unit && kind_of(rs_tables[i]) == kind)
            put_table(writer, rs_tables[i], (struct about){.rank = a, .step = a});
    must(rs_writer_commit(&writer, &err), "commit");
}

/* The units that are written twice are replaced. */
static double put_all(struct rs_row_store *store)
{
    const rs_ns begin = rs_time_monotonic();
    rs_row_store_hold(store);
    put_unit(store, RS_UNIT_CAPTURE, 0);
    for (int64_t step = 0; step < STEPS; step++)
        put_unit(store, RS_UNIT_STEP, step == 0 ? RS_NULL : step);
    for (int64_t rank = 0; rank < ranks; rank++)
        put_unit(store, RS_UNIT_RANK, rank);
    put_unit(store, RS_UNIT_STEP, 1);
    put_unit(store, RS_UNIT_CAPTURE, 0);
    must(rs_row_store_release(store, &err), "release");
    put_unit(store, RS_UNIT_STEP, 2);
    return (double)(rs_time_monotonic() - begin) / 1e9;
}

/* ---- reads --------------------------------------------------------------------------------------------------------------- */

static struct rs_buf read_all(struct rs_row_store *store, enum rs_read read,
                              const struct rs_read_filter *filter, uint64_t stop, char *token,
                              uint64_t *rows_p)
{
    const struct rs_table *table = rs_read_def(read)->result;
    const struct rs_read_args args = {
        .capture = RS_ROWS_CAPTURE, .filter = *filter, .token = *token ? token : NULL};
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    struct rs_buf text = {0};
    const struct rs_column *generation = rs_table_column(table, "generation");
    must(rs_read_open(store, read, &args, &cursor, &err), table->name);
    enum rs_status status = RS_OK;
    uint64_t rows = 0;
    while (rows < stop && (status = rs_cursor_next(cursor, &block, &err)) == RS_OK)
        for (size_t i = 0; i < block.count; i++, rows++) {
            if (generation) /* of each engine's own */
                rs_column_set_i64(generation, (char *)block.rows + i * table->row_bytes, 0);
            rs_csv_row(table, rs_block_row(&block, i), &text);
        }
    must(status, table->name);
    rs_cursor_token_before(cursor, rows > 1 ? rows / 2 : 0, token);
    rs_cursor_close(&cursor);
    rs_block_fini(&block);
    *rows_p += rows;
    return text;
}

static bool is_same(enum rs_read read, const char *what, struct rs_buf *a, struct rs_buf *b)
{
    const bool is_it =
        a->length == b->length && (!a->length || memcmp(a->data, b->data, a->length) == 0);
    size_t at = 0;
    while (!is_it && at < a->length && at < b->length && a->data[at] == b->data[at])
        at++;
    if (!is_it)
        fprintf(
            stderr,
            "compare_stores: %s %s differs at byte %zu:\nSQLite     %.300s\nClickHouse %.300s\n",
            rs_read_def(read)->name, what, at, rs_buf_text(a) + (at > 60 ? at - 60 : 0),
            rs_buf_text(b) + (at > 60 ? at - 60 : 0));
    rs_buf_fini(a);
    rs_buf_fini(b);
    return is_it;
}

static bool compare(struct rs_row_store *stores[2], enum rs_read read,
                    const struct rs_read_filter *filter, const char *what, double seconds[2],
                    uint64_t rows[2])
{
    struct rs_buf texts[2];
    char tokens[2][RS_TOKEN_BYTES] = {"", ""};
    for (int i = 0; i < 2; i++) {
        const rs_ns begin = rs_time_monotonic();
        texts[i] = read_all(stores[i], read, filter, UINT64_MAX, tokens[i], &rows[i]);
        seconds[i] += (double)(rs_time_monotonic() - begin) / 1e9;
    }
    if (!is_same(read, what, &texts[0], &texts[1]))
        return false;
    uint64_t more = 0; /* the second half again, by where the first ended */
    for (int i = 0; i < 2; i++)
        texts[i] = read_all(stores[i], read, filter, UINT64_MAX, tokens[i], &more);
    return is_same(read, "from a cursor on", &texts[0], &texts[1]);
}

/* The rows of the folder into a store in memory, or into the database: both are written by the same copy. */
static double copy_all(const char *folder, struct rs_row_store *to)
{
    struct rs_row_store *from = NULL;
    must(rs_row_store_open(folder, RS_ROWS_READ, &from, &err), "rows of the folder");
    const rs_ns begin = rs_time_monotonic();
    must(rs_row_store_copy(from, to, RS_ROWS_CAPTURE, &written, &err), "copy");
    const double seconds = (double)(rs_time_monotonic() - begin) / 1e9;
    rs_row_store_close(&from);
    return seconds;
}

static void count_ranks(struct rs_row_store *store)
{
    const struct rs_read_args args = {.capture = RS_ROWS_CAPTURE};
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    must(rs_read_open(store, RS_READ_WRITE_UNITS, &args, &cursor, &err), "units");
    while (rs_cursor_next(cursor, &block, &err) == RS_OK)
        for (size_t i = 0; i < block.count; i++)
            ranks += ((const struct rs_row_write_unit *)rs_block_row(&block, i))->unit_kind ==
                     RS_UNIT_RANK;
    rs_cursor_close(&cursor);
    rs_block_fini(&block);
}

int main(int argc, char **argv)
{
    const struct rs_read_filter all = {0};
    const int64_t some_steps[] = {1, 2};
    const int32_t some_ranks[] = {0, 1};
    struct rs_row_store *stores[2] = {NULL, NULL};
    double puts[2], reads[2] = {0, 0};
    uint64_t rows[2] = {0, 0};
    bool is_fine = true;
    if (argc < 5)
        return 2;
    const char *folder = strchr(argv[1], '/') ? argv[1] : NULL;
    ranks = folder ? 0 : strtol(argv[1], NULL, 10);
    const struct rs_clickhouse_options options = {
        .url = argv[2], .password_file = argv[4], .ca_file = argc > 5 ? argv[5] : NULL};
    must(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &stores[0], &err), "SQLite");
    must(rs_clickhouse_open(&options, argv[3], RS_ROWS_WRITE, &stores[1], &err), "ClickHouse");
    for (int i = 0; i < 2; i++) {
        written = 0;
        puts[i] = folder ? copy_all(folder, stores[i]) : put_all(stores[i]);
    }
    if (folder)
        count_ranks(stores[0]);
    for (unsigned i = 0; i < RS_READ_COUNT && is_fine; i++) {
        const enum rs_read read = (enum rs_read)i;
        const struct rs_read_filter steps = {.steps = some_steps, .step_count = 2};
        const struct rs_read_filter of_ranks = {.ranks = some_ranks, .rank_count = 2};
        if (rs_read_is_raw(read))
            continue;
        is_fine = compare(stores, read, &all, "whole", reads, rows);
        if (is_fine && rs_read_check_filter(read, &steps, NULL) == RS_OK)
            is_fine = compare(stores, read, &steps, "of two steps", reads, rows);
        if (is_fine && rs_read_check_filter(read, &of_ranks, NULL) == RS_OK)
            is_fine = compare(stores, read, &of_ranks, "of two ranks", reads, rows);
    }
    printf("%" PRId64 " ranks: %" PRIu64 " rows, SQLite %.2f s, ClickHouse %.2f s; %" PRIu64
           " rows read, %.2f s, %.2f s: %s\n",
           ranks, written, puts[0], puts[1], rows[0], reads[0], reads[1],
           is_fine ? "equal" : "different");
    rs_row_store_close(&stores[0]);
    rs_row_store_close(&stores[1]);
    return is_fine ? 0 : 1;
}
