/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A capture's rows from one store into another, unit by unit, whichever engines they are.
 *
 *     write_unit of `from`: (kind, a, b) in order --> of every table of that kind the rows with this a, b --> a unit of `to`
 *
 * Tables begin with the columns of their unit in their key, so each is read once, from the front to the end. A unit says how many rows
 * it has, and a table is over when its units are: what is there and is not copied is no success. Units that `from` has not go last.
 */
#include "aggregator/store/clickhouse_priv.h"
#include "common/base/check.h"

#include <inttypes.h>
#include <string.h>

enum { TABLES_MAX = 64 };

struct reading {
    const struct rs_table *table;
    const struct rs_column *units[2];
    struct rs_cursor *cursor;
    struct rs_block block;
    size_t at;
};

struct copying {
    struct rs_row_store *from, *to;
    int64_t capture;
    struct reading readings[TABLES_MAX]; /* the tables of the kind of unit at hand */
    size_t count;
    uint64_t rows, members;
    struct rs_err *err;
};

/* A read that is a whole table, by the table. */
static enum rs_read read_of(const struct rs_table *table)
{
    unsigned read = 0;
    while (read < RS_READ_COUNT && (rs_read_def((enum rs_read)read)->sql ||
                                    rs_read_def((enum rs_read)read)->result != table))
        read++;
    RS_CHECK(read < RS_READ_COUNT); /* every table has a read of its own */
    return (enum rs_read)read;
}

static void close_readings(struct copying *copying)
{
    for (size_t i = 0; i < copying->count; i++) {
        rs_cursor_close(&copying->readings[i].cursor);
        rs_block_fini(&copying->readings[i].block);
    }
    memset(copying->readings, 0, sizeof copying->readings);
    copying->count = 0;
}

/* Every row was of a unit. */
static enum rs_status end_kind(struct copying *copying)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < copying->count && status == RS_OK; i++) {
        struct reading *reading = &copying->readings[i];
        status = reading->at < reading->block.count
                     ? RS_OK
                     : rs_cursor_next(reading->cursor, &reading->block, copying->err);
        if (status == RS_OK)
            status = rs_err_set(copying->err, RS_FORMAT, "rows of %s are of no unit",
                                reading->table->name);
        else if (status == RS_END)
            status = RS_OK;
    }
    close_readings(copying);
    return status;
}

static enum rs_status begin_kind(struct copying *copying, enum rs_unit_kind kind)
{
    const struct rs_read_args args = {.capture = copying->capture};
    enum rs_status status = end_kind(copying);
    for (size_t i = 0; rs_tables[i] && status == RS_OK; i++) {
        const struct rs_column *units[2] = {NULL, NULL};
        if (rs_tables[i] == &rs_table_write_unit || row_unit_kind(rs_tables[i], units) != kind)
            continue;
        RS_CHECK(copying->count < TABLES_MAX);
        struct reading *reading = &copying->readings[copying->count++];
        *reading = (struct reading){.table = rs_tables[i], .units = {units[0], units[1]}};
        status = rs_read_open(copying->from, read_of(rs_tables[i]), &args, &reading->cursor,
                              copying->err);
    }
    return status;
}

static bool is_of_unit(const struct reading *reading, const struct rs_row_write_unit *unit,
                       const void *row)
{
    return (!reading->units[0] || rs_column_i64(reading->units[0], row) == unit->a) &&
           (!reading->units[1] || rs_column_i64(reading->units[1], row) == unit->b);
}

/* As many rows of the block as are of this unit; *is_more_p: the block ended with them. */
static enum rs_status put_rows(struct copying *copying, struct reading *reading,
                               const struct rs_row_write_unit *unit, struct rs_writer *writer,
                               bool *is_more_p)
{
    const size_t first = reading->at;
    while (reading->at < reading->block.count &&
           is_of_unit(reading, unit, rs_block_row(&reading->block, reading->at)))
        reading->at++;
    const size_t count = reading->at - first;
    *is_more_p = reading->at == reading->block.count;
    copying->rows += count;
    copying->members += reading->table == &rs_table_op_member ? count : 0;
    return count ? rs_writer_put(writer, reading->table, rs_block_row(&reading->block, first),
                                 count, copying->err)
                 : RS_OK;
}

static enum rs_status copy_table(struct copying *copying, struct reading *reading,
                                 const struct rs_row_write_unit *unit, struct rs_writer *writer)
{
    bool is_more = true;
    enum rs_status status = put_rows(copying, reading, unit, writer, &is_more);
    while (status == RS_OK && is_more) {
        reading->at = 0;
        status = rs_cursor_next(reading->cursor, &reading->block, copying->err);
        if (status == RS_OK)
            status = put_rows(copying, reading, unit, writer, &is_more);
    }
    return status == RS_END ? RS_OK : status;
}

static enum rs_status copy_unit(struct copying *copying, const struct rs_row_write_unit *unit)
{
    const struct rs_unit of = {.capture = copying->capture,
                               .kind = (enum rs_unit_kind)unit->unit_kind,
                               .a = unit->a,
                               .b = unit->b};
    struct rs_writer *writer = NULL;
    const uint64_t rows = copying->rows, members = copying->members;
    enum rs_status status = rs_store_begin(copying->to, &of, &writer, copying->err);
    for (size_t i = 0; i < copying->count && status == RS_OK; i++)
        status = copy_table(copying, &copying->readings[i], unit, writer);
    if (status == RS_OK && (copying->rows - rows != (uint64_t)unit->rows ||
                            copying->members - members != (uint64_t)unit->members))
        status = rs_err_set(copying->err, RS_FORMAT,
                            "unit %s %" PRId64 " %" PRId64 " has %" PRIu64 " rows, not %" PRId64,
                            rs_unit_kind_text(unit->unit_kind), unit->a, unit->b,
                            copying->rows - rows, unit->rows);
    if (status == RS_OK)
        return rs_writer_commit(&writer, copying->err);
    rs_writer_abandon(&writer);
    return status;
}

/* When all units are copied (`status` RS_END): tables of kinds without a unit have no row, and the last kind's are at their ends. RS_END
 * again, or what is wrong. */
static enum rs_status end_copying(struct copying *copying, unsigned kinds, enum rs_status status)
{
    for (unsigned k = RS_UNIT_RANK; k <= RS_UNIT_CAPTURE && status == RS_END; k++)
        if (!(kinds & 1U << k) && (status = begin_kind(copying, (enum rs_unit_kind)k)) == RS_OK)
            status = RS_END;
    if (status == RS_END && (status = end_kind(copying)) == RS_OK)
        status = RS_END;
    return status;
}

enum rs_status rs_row_store_copy(struct rs_row_store *from, struct rs_row_store *to,
                                 int64_t capture, uint64_t *rows_p, struct rs_err *err)
{
    const struct rs_read_args args = {.capture = capture};
    struct copying copying = {.from = from, .to = to, .capture = capture, .err = err};
    struct rs_cursor *units = NULL;
    struct rs_block block = {0};
    int64_t kind = RS_NULL;
    unsigned kinds = 0; /* that there is a unit of; tables of the others have no row */
    rs_row_store_hold(to);
    enum rs_status status = rs_read_open(from, RS_READ_WRITE_UNITS, &args, &units, err);
    while (status == RS_OK && (status = rs_cursor_next(units, &block, err)) == RS_OK)
        for (size_t i = 0; i < block.count && status == RS_OK; i++) {
            const struct rs_row_write_unit *unit = rs_block_row(&block, i);
            if (unit->unit_kind < RS_UNIT_RANK || unit->unit_kind > RS_UNIT_CAPTURE)
                status = rs_err_set(err, RS_FORMAT, "rows hold a unit of no kind that is known");
            if (status == RS_OK && unit->unit_kind != kind)
                status = begin_kind(&copying, (enum rs_unit_kind)unit->unit_kind);
            kind = unit->unit_kind;
            kinds |= status == RS_OK ? 1U << kind : 0;
            if (status == RS_OK)
                status = copy_unit(&copying, unit);
        }
    status = end_copying(&copying, kinds, status);
    close_readings(&copying);
    rs_cursor_close(&units);
    rs_block_fini(&block);
    *rows_p = copying.rows;
    if (status == RS_END)
        status = rs_row_store_is_all(to, capture, err);
    return status == RS_OK ? rs_row_store_release(to, err) : status;
}
