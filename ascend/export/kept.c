/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables that only the vendor's machine can fill, as its own profiler had them: counters of networks, buses and memory, what
 * connects operators, their call chains, statistics. A recording of an Ascend profiler carries them whole, row by row
 * under the table's name (ascend/source); here they become tables again.
 *
 *     category "NIC",  extra {"deviceId":0,"timestampNs":...}            -> table NIC of the profiler's database
 *     category "nic",  extra {"Device_id":0,"Timestamp(us)":...}         -> nic.csv
 *
 * Columns and types of a database's table stand in a row of their own before it, those of a table of text are the members of its
 * first row; what a row does not say is NULL, or an empty cell. Texts are ids of STRING_IDS where the vendor has ids. Tables that we make of the
 * events are not taken twice, nor those that speak of tasks by the numbers that these had: ours have others.
 */
#include "ascend/export/export_priv.h"
#include "ascend/format/db.h"
#include "common/base/mem.h"

#include <jansson.h>
#include <sqlite3.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    COLUMNS_MAX = 512,
    TABLES_MAX = 128,
    NAME_MAX_BYTES = 64,
    COLUMN_MAX_BYTES = 256,
    TYPE_MAX_BYTES = 48
};

struct kept {
    char name[NAME_MAX_BYTES];
    bool is_left_out;
    char *columns[COLUMNS_MAX];
    char types[COLUMNS_MAX][TYPE_MAX_BYTES]; /* "INTEGER PRIMARY KEY" */
    int column_count;
    bool has_key, is_open;
    sqlite3_stmt *insert; /* a table of the database */
    FILE *file;           /* a table of text */
    char *path;
};

struct kept_tables {
    struct kept *items[TABLES_MAX];
    size_t count;
    struct kept *last;
};

/* ---- which ---- */

static const char capitals[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

/* Tables of text that the vendor writes; names of them that are not here are other things of other profilers. */
static bool is_text_table(const char *name)
{
    static const char *const names[] = {
        "kernel_details",  "memory_record",    "npu_module_mem", "nic",     "roce",
        "data_preprocess", "operator_memory",  "pcie",           "hccs",    "op_statistic",
        "api_statistic",   "operator_details", "l2_cache",       "soc_pmu", "task_time"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* These two we make of other recordings' events, and never when they were kept. */
static bool is_ours_unless_kept(const char *name)
{
    return strcmp(name, "MEMORY_RECORD") == 0 || strcmp(name, "OP_MEMORY") == 0 ||
           strcmp(name, "CONNECTION_IDS") == 0 || strcmp(name, "PYTORCH_CALLCHAINS") == 0;
}

static bool is_database_table(const char *name)
{
    const size_t length = strlen(name);
    return length >= 2 && length < NAME_MAX_BYTES && strspn(name, capitals) == length &&
           (name[0] < '0' || name[0] > '9') && strncmp(name, "SQLITE_", 7) != 0 &&
           (is_ours_unless_kept(name) || !tables_has(name)) &&
           strcmp(name, "COMPUTE_TASK_INFO") != 0;
}

bool kept_has(const struct rs_export_ascend *e, const char *name)
{
    for (size_t i = 0; e->kept && i < e->kept->count; i++)
        if (strcmp(e->kept->items[i]->name, name) == 0)
            return e->kept->items[i]->is_open && !e->kept->items[i]->is_left_out;
    return false;
}

/* RS_LIMIT: it is one table too many. */
static enum rs_status find(struct rs_export_ascend *e, const char *name, struct kept **kept_p)
{
    struct kept_tables *kept = e->kept;
    if (!kept)
        e->kept = kept = rs_mem_calloc(1, sizeof *kept);
    if (!kept)
        return RS_NOMEM;
    for (size_t i = 0; i < kept->count && !(kept->last && strcmp(kept->last->name, name) == 0); i++)
        if (strcmp(kept->items[i]->name, name) == 0)
            kept->last = kept->items[i];
    if (!kept->last || strcmp(kept->last->name, name) != 0) {
        if (kept->count == TABLES_MAX)
            return RS_LIMIT;
        struct kept *made = rs_mem_calloc(1, sizeof *made);
        if (!made)
            return RS_NOMEM;
        (void)snprintf(made->name, sizeof made->name, "%s", name);
        kept->last = kept->items[kept->count++] = made;
    }
    *kept_p = kept->last;
    return RS_OK;
}

/* ---- cells ---- */

/* A cell of the row as it was written; false: it holds nothing. Text is decoded into `text`, which the next call writes
 * over. */
static bool find_cell(const struct rs_batch *batch, size_t at, const char *column,
                      struct rs_buf *text, bool *is_text_p)
{
    const char *value;
    size_t length;
    rs_buf_reset(text);
    if (!extra_find(batch, at, column, &value, &length) ||
        (length == 4 && memcmp(value, "null", 4) == 0))
        return false;
    *is_text_p = *value == '"';
    if (!*is_text_p) {
        rs_buf_bytes(text, value, length);
        return true;
    }
    return extra_text(batch, at, column, text);
}

/* What SQLite takes behind any column: of a declaration that is none of these, as of one that only a stranger would make, nothing is said of the
 * column's type. One is the key. */
static void take_type(struct kept *kept, const char *text)
{
    static const char *const known[] = {"INTEGER", "INT",   "BIGINT", "TEXT", "REAL",    "NUMERIC",
                                        "DOUBLE",  "FLOAT", "BLOB",   "CHAR", "VARCHAR", "BOOLEAN"};
    static const char key[] = " PRIMARY KEY";
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const size_t length = text ? strspn(text, alphabet) : 0;
    const bool is_key = length && strcasecmp(text + length, key) == 0 && !kept->has_key;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (length == strlen(known[i]) && strncasecmp(text, known[i], length) == 0)
            (void)snprintf(kept->types[kept->column_count], TYPE_MAX_BYTES, "%s%s", known[i],
                           is_key ? key : "");
    kept->has_key = kept->has_key || is_key;
}

/* The columns of a table are the members of the row that announces it, or of its first one. */
static enum rs_status take_columns(struct kept *kept, const struct rs_batch *batch, size_t at)
{
    struct rs_buf text = {0};
    rs_buf_u8(&text, '{');
    rs_buf_bytes(&text, batch->extra + batch->extra_offset[at], batch->extra_length[at]);
    rs_buf_u8(&text, '}');
    /* Of its values only that they are there counts: a number may be any. */
    json_t *root = text.failed ? NULL
                               : json_loadb((const char *)text.data, text.length,
                                            JSON_DECODE_INT_AS_REAL, NULL);
    enum rs_status status = text.failed ? RS_NOMEM : RS_OK;
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        if (kept->column_count == COLUMNS_MAX || status != RS_OK)
            break;
        char *copy = rs_mem_strdup(key);
        status = copy ? RS_OK : RS_NOMEM;
        if (copy && batch->kind[at] == RS_KIND_METADATA)
            take_type(kept, json_string_value(value));
        if (copy)
            kept->columns[kept->column_count++] = copy;
    }
    json_decref(root);
    rs_buf_fini(&text);
    return status;
}

/* ---- tables of the database ---- */

/* A name between double quotes, whatever stands in it. */
static void put_name(struct rs_buf *sql, const char *name)
{
    rs_buf_u8(sql, '"');
    for (; *name; name++) {
        if (*name == '"')
            rs_buf_u8(sql, '"');
        rs_buf_u8(sql, (uint8_t)*name);
    }
    rs_buf_u8(sql, '"');
}

/* Names that SQLite takes: each once, whatever its case. */
static bool has_sound_columns(const struct kept *kept)
{
    for (int i = 0; i < kept->column_count; i++) {
        if (!*kept->columns[i] || strlen(kept->columns[i]) > COLUMN_MAX_BYTES)
            return false;
        for (int k = 0; k < i; k++)
            if (strcasecmp(kept->columns[i], kept->columns[k]) == 0)
                return false;
    }
    return true;
}

/* Are all columns of our own table among its? Else ours is made, as of any recording: others rest on its columns. */
static enum rs_status has_our_columns(struct rs_export_ascend *e, struct kept *kept, bool *has_p,
                                      struct rs_err *err)
{
    sqlite3_stmt *columns = NULL;
    int code = sqlite3_prepare_v2(e->rows.handle, "SELECT name FROM pragma_table_info(?1)", -1,
                                  &columns, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(columns, 1, kept->name, -1, SQLITE_STATIC);
    *has_p = true;
    while (code == SQLITE_OK && (code = sqlite3_step(columns)) == SQLITE_ROW) {
        bool is_there = false;
        for (int i = 0; i < kept->column_count; i++)
            is_there = is_there ||
                       strcmp(kept->columns[i], (const char *)sqlite3_column_text(columns, 0)) == 0;
        *has_p = *has_p && is_there;
        code = SQLITE_OK;
    }
    (void)sqlite3_finalize(columns);
    return code == SQLITE_DONE
               ? RS_OK
               : rs_err_set(err, RS_IO, "%s: %s", e->rows.path, sqlite3_errmsg(e->rows.handle));
}

static enum rs_status open_table(struct rs_export_ascend *e, struct kept *kept, struct rs_err *err)
{
    struct rs_buf sql = {0}, insert = {0};
    if (is_ours_unless_kept(kept->name))
        rs_buf_printf(&sql, "DROP TABLE %s;", kept->name);
    /* A name may be a word of SQL: ORDER. */
    rs_buf_printf(&sql, "CREATE TABLE \"%s\" (", kept->name);
    rs_buf_printf(&insert, "INSERT OR IGNORE INTO \"%s\" VALUES (?", kept->name);
    for (int i = 0; i < kept->column_count; i++) {
        rs_buf_string(&sql, i ? "," : "");
        rs_buf_string(&insert, i ? ",?" : "");
        put_name(&sql, kept->columns[i]);
        rs_buf_printf(&sql, " %s", kept->types[i]);
    }
    rs_buf_bytes(&sql, ")", 2); /* with its end */
    rs_buf_bytes(&insert, ")", 2);
    enum rs_status status = sql.failed || insert.failed
                                ? no_room(RS_NOMEM, err)
                                : db_run(&e->rows, (const char *)sql.data, err);
    if (status == RS_OK && sqlite3_prepare_v2(e->rows.handle, (const char *)insert.data, -1,
                                              &kept->insert, NULL) != SQLITE_OK)
        status = rs_err_set(err, RS_IO, "%s: %s", e->rows.path, sqlite3_errmsg(e->rows.handle));
    rs_buf_fini(&sql);
    rs_buf_fini(&insert);
    return status;
}

static enum rs_status bind_cell(struct rs_export_ascend *e, struct kept *kept, int column,
                                struct rs_buf *text, bool is_text, struct rs_err *err)
{
    int64_t id;
    int code = SQLITE_OK;
    const char *digits = rs_buf_text(text);
    if (text->failed)
        return no_room(RS_NOMEM, err);
    if (is_text && rs_ascend_is_text_id(kept->name, kept->columns[column])) {
        const enum rs_status status = string_id(e, SPACE_DEVICE, digits, text->length, &id, err);
        if (status != RS_OK)
            return status;
        code = sqlite3_bind_int64(kept->insert, column + 1, id);
    } else if (is_text) {
        code = sqlite3_bind_text64(kept->insert, column + 1, digits, text->length, SQLITE_TRANSIENT,
                                   SQLITE_UTF8);
    } else if (strpbrk(digits, ".eE")) {
        code = sqlite3_bind_double(kept->insert, column + 1, strtod(digits, NULL));
    } else {
        code = sqlite3_bind_int64(kept->insert, column + 1, strtoll(digits, NULL, 10));
    }
    return code == SQLITE_OK ? RS_OK : no_room(RS_NOMEM, err);
}

static enum rs_status put_row(struct rs_export_ascend *e, struct kept *kept,
                              const struct rs_batch *batch, size_t at, struct rs_err *err)
{
    struct rs_buf text = {0};
    bool is_text = false;
    enum rs_status status = RS_OK;
    for (int i = 0; i < kept->column_count && status == RS_OK; i++)
        if (find_cell(batch, at, kept->columns[i], &text, &is_text))
            status = bind_cell(e, kept, i, &text, is_text, err);
        else if (text.failed)
            status = no_room(RS_NOMEM, err);
    if (status == RS_OK) {
        /* A text for a key that is a number: a row that is none. */
        const int code = sqlite3_step(kept->insert);
        if (code != SQLITE_DONE && code != SQLITE_MISMATCH)
            status = rs_err_set(err, RS_IO, "%s: %s", e->rows.path, sqlite3_errmsg(e->rows.handle));
    }
    (void)sqlite3_reset(kept->insert);
    (void)sqlite3_clear_bindings(kept->insert);
    rs_buf_fini(&text);
    return status;
}

/* ---- tables of text ---- */

static enum rs_status open_file(struct rs_export_ascend *e, struct kept *kept, struct rs_err *err)
{
    char name[NAME_MAX_BYTES + 4];
    (void)snprintf(name, sizeof name, "%s.csv", kept->name);
    return table_file_open(e, name, &kept->path, &kept->file, err);
}

/* The header, where there is no batch. */
static enum rs_status put_line(struct kept *kept, const struct rs_batch *batch, size_t at,
                               struct rs_err *err)
{
    struct rs_buf line = {0}, text = {0};
    bool is_text, is_whole = true;
    for (int i = 0; i < kept->column_count && is_whole; i++) {
        rs_buf_string(&line, i ? "," : "");
        if (!batch)
            table_file_cell(&line, kept->columns[i]);
        else if (find_cell(batch, at, kept->columns[i], &text, &is_text))
            table_file_cell(&line, rs_buf_text(&text));
        is_whole = !text.failed;
    }
    const enum rs_status status =
        is_whole ? table_file_line(kept->file, kept->path, &line, err) : no_room(RS_NOMEM, err);
    rs_buf_fini(&line);
    rs_buf_fini(&text);
    return status;
}

/* ---- rows ---- */

static enum rs_status start(struct rs_export_ascend *e, struct kept *kept,
                            const struct rs_batch *batch, size_t at, bool is_file,
                            struct rs_err *err)
{
    const char *value;
    size_t length;
    kept->is_left_out = !is_file && extra_find(batch, at, "globalTaskId", &value, &length);
    enum rs_status status = RS_OK;
    kept->is_open = true;
    if (!kept->is_left_out && !kept->column_count)
        status = no_room(take_columns(kept, batch, at), err);
    if (status != RS_OK || kept->is_left_out)
        return status;
    if (!kept->column_count) {
        kept->is_left_out = true; /* nothing that we could read */
        return RS_OK;
    }
    bool is_whole = is_file || has_sound_columns(kept);
    if (is_whole && !is_file && is_ours_unless_kept(kept->name))
        status = has_our_columns(e, kept, &is_whole, err);
    kept->is_left_out = !is_whole;
    if (status != RS_OK || kept->is_left_out)
        return status;
    status = is_file ? open_file(e, kept, err) : open_table(e, kept, err);
    return status == RS_OK && is_file ? put_line(kept, NULL, 0, err) : status;
}

enum rs_status kept_row(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                        bool *is_kept_p, struct rs_err *err)
{
    const rs_str category = batch->category[at];
    const char *name = category == RS_STR_NONE ? "" : text_of(e, category);
    const bool is_file = is_text_table(name);
    *is_kept_p = is_file || is_database_table(name);
    if (batch->kind[at] == RS_KIND_METADATA)
        *is_kept_p = *is_kept_p && strcmp(text_of(e, batch->name[at]), "vendor table") == 0;
    if (!*is_kept_p || !batch->extra_length[at])
        return RS_OK; /* the second counter of one row says nothing more */
    struct kept *kept = NULL;
    enum rs_status status = find(e, name, &kept);
    if (status == RS_LIMIT)
        return RS_OK; /* more tables than any profiler has */
    if (status != RS_OK)
        return no_room(status, err);
    if (batch->kind[at] == RS_KIND_METADATA)
        return no_room(kept->column_count ? RS_OK : take_columns(kept, batch, at), err);
    if (!kept->is_open)
        status = start(e, kept, batch, at, is_file, err);
    if (status != RS_OK || kept->is_left_out)
        return status;
    e->result.kept_rows++;
    return is_file ? put_line(kept, batch, at, err) : put_row(e, kept, batch, at, err);
}

enum rs_status kept_settle(struct rs_export_ascend *e, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; e->kept && i < e->kept->count; i++) {
        struct kept *kept = e->kept->items[i];
        (void)sqlite3_finalize(kept->insert);
        kept->insert = NULL;
        if (kept->file && fclose(kept->file) != 0 && status == RS_OK)
            status = rs_err_errno(err, "cannot write %s", kept->path);
        kept->file = NULL;
    }
    return status;
}

void kept_fini(struct rs_export_ascend *e)
{
    for (size_t i = 0; e->kept && i < e->kept->count; i++) {
        struct kept *kept = e->kept->items[i];
        (void)sqlite3_finalize(kept->insert);
        if (kept->file)
            (void)fclose(kept->file);
        for (int k = 0; k < kept->column_count; k++)
            rs_mem_free(kept->columns[k]);
        rs_mem_free(kept->path);
        rs_mem_free(kept);
    }
    rs_mem_free(e->kept);
    e->kept = NULL;
}
