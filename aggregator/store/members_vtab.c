/* SPDX-License-Identifier: Apache-2.0 */
/*
 * op_member in SQL: a read-only virtual table over the member segments.
 *
 * Equalities on step, group_id and op_no, in this order, are looked up: a segment by its step, a block by the first
 * and last key in its head, a row by its place in the decoded block. Everything else SQLite checks itself. Rows come
 * in the order of the key, which SQLite is told, so that reads ordered by it sort nothing.
 */
#include "aggregator/store/members_priv.h"
#include "aggregator/store/sqlite_priv.h"
#include "common/base/mem.h"

enum { COLUMN_CAPTURE, COLUMN_STEP, COLUMN_GROUP, COLUMN_OP, KEY_COLUMNS = 6 };
enum { BY_STEP = 1, BY_GROUP = 2, BY_OP = 4 };

struct vtab {
    sqlite3_vtab base; /* first: SQLite's */
    struct members *members;
};

struct vtab_cursor {
    sqlite3_vtab_cursor base; /* first: SQLite's */
    size_t segment, segment_end, block, row;
    int by;
    int64_t group, op;
    bool is_done;
};

static struct members *members_of(const sqlite3_vtab_cursor *cursor)
{
    return ((const struct vtab *)cursor->pVtab)->members;
}

static int connect(sqlite3 *db, void *members, int argc, const char *const *argv,
                   sqlite3_vtab **vtab_p, char **error_p)
{
    const struct rs_table *table = &rs_table_op_member;
    struct rs_buf sql = {0};
    (void)argc;
    (void)argv;
    (void)error_p;
    rs_buf_string(&sql, "CREATE TABLE x (");
    for (size_t i = 0; i < table->column_count; i++)
        rs_buf_printf(&sql, "%s%s %s", i ? ", " : "", table->columns[i].name,
                      table->columns[i].kind == RS_I64 ? "INTEGER" : "TEXT");
    rs_buf_u8(&sql, ')');
    struct vtab *vtab = rs_mem_calloc(1, sizeof *vtab);
    const int code =
        vtab && !sql.failed ? sqlite3_declare_vtab(db, rs_buf_text(&sql)) : SQLITE_NOMEM;
    rs_buf_fini(&sql);
    if (code != SQLITE_OK) {
        rs_mem_free(vtab);
        return code;
    }
    vtab->members = members;
    *vtab_p = &vtab->base;
    return SQLITE_OK;
}

static int disconnect(sqlite3_vtab *vtab)
{
    rs_mem_free(vtab);
    return SQLITE_OK;
}

/* Do the rows come in this order anyway? The key's columns in turn; one that is fixed may be left out. */
static bool is_key_order(const sqlite3_index_info *info, int by)
{
    const bool is_fixed[KEY_COLUMNS] = {true, by & BY_STEP, by & BY_GROUP, by & BY_OP};
    int at = 0;
    for (int i = 0; i < info->nOrderBy; i++) {
        if (info->aOrderBy[i].desc)
            return false;
        while (at < KEY_COLUMNS && at != info->aOrderBy[i].iColumn && is_fixed[at])
            at++;
        if (at == KEY_COLUMNS || at != info->aOrderBy[i].iColumn)
            return false;
        at++;
    }
    return info->nOrderBy > 0;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    static const double rows[] = {1e6, 1e4, 1e6, 100, 1e6, 1e4, 1e6, 10};
    int constraint[3] = {-1, -1, -1}, by = 0, arguments = 0;
    (void)vtab;
    for (int i = 0; i < info->nConstraint; i++) {
        const int column = info->aConstraint[i].iColumn - COLUMN_STEP;
        if (info->aConstraint[i].usable && info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ &&
            column >= 0 && column < 3)
            constraint[column] = i;
    }
    for (int column = 0; column < 3 && constraint[column] >= 0; column++) {
        info->aConstraintUsage[constraint[column]].argvIndex = ++arguments;
        by |= 1 << column;
    }
    info->idxNum = by;
    info->estimatedRows = (sqlite3_int64)rows[by];
    info->estimatedCost = rows[by];
    info->orderByConsumed = is_key_order(info, by);
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor_p)
{
    (void)vtab;
    struct vtab_cursor *cursor = rs_mem_calloc(1, sizeof *cursor);
    if (!cursor)
        return SQLITE_NOMEM;
    *cursor_p = &cursor->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *cursor)
{
    rs_mem_free(cursor);
    return SQLITE_OK;
}

/* -1, 0, 1: the key is before, at or behind what is looked for. */
static int place_of(const struct vtab_cursor *cursor, int64_t group, int64_t op)
{
    if (!(cursor->by & BY_GROUP))
        return 0;
    if (group != cursor->group)
        return group < cursor->group ? -1 : 1;
    if (!(cursor->by & BY_OP) || op == cursor->op)
        return 0;
    return op < cursor->op ? -1 : 1;
}

/* The first row at or behind what is looked for in the decoded block. */
static size_t first_row(const struct vtab_cursor *cursor, const struct rs_block *block)
{
    size_t low = 0, high = block->count;
    while (low < high && cursor->by & BY_GROUP) {
        const size_t middle = low + (high - low) / 2;
        const struct rs_row_op_member *row = rs_block_row(block, middle);
        if (place_of(cursor, row->group_id, row->op_no) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Moves on to the block that the row is in, and decodes it. Rows in vain end the search: they come in order. */
static int settle(struct vtab_cursor *cursor)
{
    struct members *members = members_of(&cursor->base);
    for (; cursor->segment < cursor->segment_end; cursor->segment++, cursor->block = 0) {
        const struct segment *segment = &members->segments[cursor->segment];
        for (; cursor->block < segment->block_count; cursor->block++, cursor->row = SIZE_MAX) {
            const struct segment_block *block = &segment->blocks[cursor->block];
            if (place_of(cursor, block->last_group, block->last_op) < 0)
                continue;
            if (place_of(cursor, block->first_group, block->first_op) > 0)
                break;
            if (members_decode(members, cursor->segment, cursor->block) != RS_OK)
                return SQLITE_CORRUPT;
            if (cursor->row == SIZE_MAX)
                cursor->row = first_row(cursor, &members->decoded);
            if (cursor->row >= members->decoded.count)
                continue;
            const struct rs_row_op_member *row = rs_block_row(&members->decoded, cursor->row);
            if (place_of(cursor, row->group_id, row->op_no) != 0)
                break;
            return SQLITE_OK;
        }
        cursor->row = SIZE_MAX;
    }
    cursor->is_done = true;
    return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                  sqlite3_value **argv)
{
    struct vtab_cursor *cursor = (struct vtab_cursor *)base;
    const struct members *members = members_of(base);
    (void)text;
    *cursor = (struct vtab_cursor){
        .base = cursor->base, .by = number, .row = SIZE_MAX, .segment_end = members->count};
    for (int i = 0; i < argc; i++)
        if (sqlite3_value_type(argv[i]) != SQLITE_INTEGER) {
            cursor->is_done = true; /* keys are integers: nothing equals another kind of value */
            return SQLITE_OK;
        }
    if (number & BY_STEP) {
        bool is_there;
        cursor->segment = members_find(members, sqlite3_value_int64(argv[0]), &is_there);
        cursor->segment_end = cursor->segment + is_there;
    }
    if (number & BY_GROUP)
        cursor->group = sqlite3_value_int64(argv[1]);
    if (number & BY_OP)
        cursor->op = sqlite3_value_int64(argv[2]);
    /* The block that the last lookup ended in is decoded still: begin there when it cannot lie before. */
    if ((number & BY_GROUP) && cursor->segment < cursor->segment_end &&
        members->decoded_segment == cursor->segment) {
        const struct segment_block *block =
            &members->segments[cursor->segment].blocks[members->decoded_block];
        if (place_of(cursor, block->first_group, block->first_op) < 0)
            cursor->block = members->decoded_block;
    }
    return settle(cursor);
}

static int next(sqlite3_vtab_cursor *base)
{
    struct vtab_cursor *cursor = (struct vtab_cursor *)base;
    cursor->row++;
    return settle(cursor);
}

static int eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct vtab_cursor *)cursor)->is_done;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int index)
{
    const struct vtab_cursor *cursor = (const struct vtab_cursor *)base;
    struct members *members = members_of(base);
    /* Another cursor of the same read may have decoded another block since. */
    if (members_decode(members, cursor->segment, cursor->block) != RS_OK)
        return SQLITE_CORRUPT;
    const struct rs_column *what = &rs_table_op_member.columns[index];
    const void *row = rs_block_row(&members->decoded, cursor->row);
    const struct rs_cell cell = cell_of(what, row);
    if (cell.kind ==
        RS_CELL_TEXT) /* the block goes when the next one is decoded, while SQLite may sort */
        sqlite3_result_text(context, cell.value.text, cell.length, SQLITE_TRANSIENT);
    else
        sqlite_answer(context, cell);
    return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid_p)
{
    const struct vtab_cursor *cursor = (const struct vtab_cursor *)base;
    *rowid_p = ((sqlite3_int64)cursor->segment << 42) + ((sqlite3_int64)cursor->block << 14) +
               (sqlite3_int64)cursor->row;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 1,
    .xConnect = connect,
    .xBestIndex = best_index,
    .xDisconnect = disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = eof,
    .xColumn = column,
    .xRowid = rowid,
};

int members_attach(sqlite3 *db, struct members *members)
{
    return sqlite3_create_module(db, "op_member", &module, members);
}
