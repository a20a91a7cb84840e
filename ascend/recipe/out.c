/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables out: one transaction into cluster_analysis.db, or a folder of csv files.
 *
 * The database is the peer's: a table of the same name is replaced, others stay. Until
 * out_close() with `keep` nothing of it is visible; csv files are written whole by rename.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/check.h"
#include "common/base/csv_out.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COLUMNS_MAX = 40 };

/* A result that is written. */
struct page {
    struct table table;
    struct column columns[COLUMNS_MAX];
    char *names;       /* theirs */
    struct rs_buf csv; /* so far, in text form */
    uint64_t rows;
    bool is_open;
};

struct out {
    char *dir;   /* OUT/cluster_analysis_output[/FOLDER] */
    char *path;  /* the database; NULL in text form */
    sqlite3 *db; /* in text form in memory: the frames are its tables all the same */
    struct page pages[RESULTS_MAX];
    sqlite3_stmt *insert;
    struct rs_buf csv;
    const struct table *table;
    uint64_t rows;
};

static enum rs_status db_failed(struct out *out, struct rs_err *err)
{
    const int code = out->db ? sqlite3_errcode(out->db) & 0xff : SQLITE_NOMEM;
    const char *why = out->db ? sqlite3_errmsg(out->db) : "no memory";
    return rs_err_set(err,
                      code == SQLITE_NOMEM    ? RS_NOMEM
                      : code == SQLITE_NOTADB ? RS_FORMAT
                                              : RS_IO,
                      "cannot write %s: %s", out->path ? out->path : out->dir, why);
}

static enum rs_status exec(struct out *out, const char *sql, struct rs_err *err)
{
    return sqlite3_exec(out->db, sql, NULL, NULL, NULL) == SQLITE_OK ? RS_OK : db_failed(out, err);
}

/* The caller's thread alone uses it. */
static enum rs_status open_connection(struct run *run, const char *path, struct rs_err *err)
{
    enum { HOW = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX };
    sqlite3 **db = &run->out->db;
    return sqlite3_open_v2(path, db, HOW, NULL) == SQLITE_OK &&
                   select_functions(*db) == SQLITE_OK &&
                   select_group_functions(*db, run) == SQLITE_OK
               ? RS_OK
               : db_failed(run->out, err);
}

static enum rs_status open_database(struct run *run, struct rs_err *err)
{
    struct out *out = run->out;
    out->path = rs_file_join(out->dir, "cluster_analysis.db");
    if (!out->path)
        return rs_err_set(err, RS_NOMEM, "no memory for the name of the result");
    enum rs_status status = open_connection(run, out->path, err);
    if (status == RS_OK)
        status = rs_file_set_mode(out->path, err);
    if (status != RS_OK)
        return status;
    (void)sqlite3_busy_timeout(out->db, 5000);
    return exec(out, "BEGIN IMMEDIATE", err);
}

/* OUT, else the first path, or its folder when it is a file. Freshly allocated. */
static char *base_of(const struct run *run)
{
    struct stat st;
    const char *path = run->options->out ? run->options->out : run->paths[0];
    const char *slash = strrchr(path, '/');
    if (run->options->out || stat(path, &st) != 0 || S_ISDIR(st.st_mode))
        return rs_mem_strdup(path);
    return slash ? rs_mem_strndup(path, slash == path ? 1 : (size_t)(slash - path))
                 : rs_mem_strdup(".");
}

static bool is_folder(const struct run *run)
{
    return run->options->as_text || run->recipe->has_files;
}

enum rs_status out_open(struct run *run, struct rs_err *err)
{
    struct out *out = rs_mem_calloc(1, sizeof *out);
    char *base = base_of(run);
    char *top = base ? rs_file_join(base, "cluster_analysis_output") : NULL;
    rs_mem_free(base);
    run->out = out;
    if (out && top)
        out->dir = is_folder(run) ? rs_file_join(top, run->recipe->folder) : rs_mem_strdup(top);
    rs_mem_free(top);
    if (!out || !out->dir)
        return rs_err_set(err, RS_NOMEM, "no memory for the name of the result");
    enum rs_status status = rs_file_make_dirs(out->dir, RS_FOLDER_MODE, err);
    if (status == RS_OK)
        rs_file_sweep(out->dir);
    if (status == RS_OK)
        status = is_folder(run) ? open_connection(run, ":memory:", err) : open_database(run, err);
    return status;
}

enum rs_status out_add_frame(struct run *run, const char *name, struct frame_table *table,
                             struct rs_err *err)
{
    return select_frame(run->out->db, name, table) == SQLITE_OK ? RS_OK : db_failed(run->out, err);
}

enum rs_status out_close(struct run *run, bool keep, struct rs_err *err)
{
    struct out *out = run->out;
    struct stat st;
    enum rs_status status = RS_OK;
    if (!out)
        return RS_OK;
    (void)sqlite3_finalize(out->insert);
    if (out->db && sqlite3_get_autocommit(out->db) == 0)
        status = exec(out, keep ? "COMMIT" : "ROLLBACK", err);
    (void)sqlite3_close(out->db);
    if (out->path && stat(out->path, &st) == 0 && st.st_size == 0)
        (void)unlink(out->path); /* it was made for this run, and no table came */
    if (keep && status == RS_OK) {
        run->result->out = rs_mem_strdup(out->path ? out->path : out->dir);
        if (!run->result->out)
            status = rs_err_set(err, RS_NOMEM, "no memory for the name of the result");
    }
    rs_buf_fini(&out->csv);
    for (size_t i = 0; i < RESULTS_MAX; i++) {
        rs_mem_free(out->pages[i].names);
        rs_buf_fini(&out->pages[i].csv);
    }
    rs_mem_free(out->path);
    rs_mem_free(out->dir);
    rs_mem_free(out);
    run->out = NULL;
    return status;
}

static const char *sql_type(char kind)
{
    return kind == 'i' ? "INTEGER" : kind == 'r' ? "REAL" : "TEXT";
}

static void append_names(struct rs_buf *sql, const struct table *table, size_t count)
{
    for (size_t c = 0; c < count; c++)
        rs_buf_printf(sql, "%s\"%s\"", c ? "," : "", table->columns[c].name);
}

static enum rs_status create_table(struct out *out, const struct table *table, struct rs_err *err)
{
    struct rs_buf sql = {0};
    rs_buf_printf(&sql, "DROP TABLE IF EXISTS \"%s\"; CREATE TABLE \"%s\" (\n", table->name,
                  table->name);
    for (size_t c = 0; c < table->column_count; c++)
        rs_buf_printf(&sql, "%s\"%s\" %s", c ? ",\n  " : "", table->columns[c].name,
                      sql_type(table->columns[c].kind));
    rs_buf_string(&sql, "\n);");
    if (table->index_columns) {
        rs_buf_printf(&sql, "CREATE INDEX \"ix_%s", table->name);
        for (size_t c = 0; c < table->index_columns; c++)
            rs_buf_printf(&sql, "_%s", table->columns[c].name);
        rs_buf_printf(&sql, "\"ON \"%s\" (", table->name);
        append_names(&sql, table, table->index_columns);
        rs_buf_string(&sql, ");");
    }
    enum rs_status status = sql.failed ? rs_err_set(err, RS_NOMEM, "no memory for a table")
                                       : exec(out, rs_buf_text(&sql), err);
    rs_buf_reset(&sql);
    rs_buf_printf(&sql, "INSERT INTO \"%s\" VALUES (", table->name);
    for (size_t c = 0; c < table->column_count; c++)
        rs_buf_string(&sql, c ? ",?" : "?");
    rs_buf_string(&sql, ")");
    if (status == RS_OK &&
        sqlite3_prepare_v2(out->db, rs_buf_text(&sql), -1, &out->insert, NULL) != SQLITE_OK)
        status = db_failed(out, err);
    rs_buf_fini(&sql);
    return status;
}

/* Columns that end in Ns are shown in us (or ms): factor and name change together. */
static bool is_scaled(const struct column *column)
{
    const size_t length = strlen(column->name);
    return !column->title && length > 2 && strcmp(column->name + length - 2, "Ns") == 0;
}

static void csv_header(struct out *out, const struct table *table)
{
    for (size_t c = 0; c < table->column_count; c++) {
        const struct column *column = &table->columns[c];
        if (c)
            rs_buf_u8(&out->csv, ',');
        if (!is_scaled(column)) {
            rs_csv_text(&out->csv, column->title ? column->title : column->name);
            continue;
        }
        rs_buf_bytes(&out->csv, column->name, strlen(column->name) - 2);
        rs_buf_string(&out->csv, table->is_ms ? "(Ms)" : "(Us)");
    }
    rs_buf_u8(&out->csv, '\n');
}

static void csv_cell(struct out *out, size_t c, const struct cell *cell)
{
    char text[400];
    const double factor = out->table->is_ms ? 1e6 : 1e3;
    const bool scaled = is_scaled(&out->table->columns[c]);
    switch (cell->kind) {
    case CELL_NULL:
        return;
    case CELL_TEXT:
        rs_csv_text(&out->csv, cell->of.t);
        return;
    case CELL_INT:
        if (!scaled && out->table->columns[c].kind != 'r') {
            rs_buf_printf(&out->csv, "%" PRId64, cell->of.i);
            return;
        }
        stats_print(scaled ? (double)cell->of.i / factor : (double)cell->of.i, text, sizeof text);
        break;
    case CELL_REAL:
        stats_print(scaled ? cell->of.r / factor : cell->of.r, text, sizeof text);
        break;
    }
    rs_buf_string(&out->csv, text);
}

enum rs_status table_begin(struct run *run, const struct table *table, struct rs_err *err)
{
    struct out *out = run->out;
    RS_CHECK(!out->table);
    out->table = table;
    out->rows = 0;
    if (out->path)
        return create_table(out, table, err);
    rs_buf_reset(&out->csv);
    csv_header(out, table);
    return RS_OK;
}

static void bind(sqlite3_stmt *stmt, int at, const struct cell *cell)
{
    switch (cell->kind) {
    case CELL_NULL:
        (void)sqlite3_bind_null(stmt, at);
        return;
    case CELL_INT:
        (void)sqlite3_bind_int64(stmt, at, cell->of.i);
        return;
    case CELL_REAL:
        (void)sqlite3_bind_double(stmt, at, cell->of.r);
        return;
    case CELL_TEXT:
        (void)sqlite3_bind_text(stmt, at, cell->of.t, -1, SQLITE_STATIC);
        return;
    }
}

enum rs_status table_row(struct run *run, const struct cell *cells, struct rs_err *err)
{
    struct out *out = run->out;
    out->rows++;
    if (out->path) {
        for (size_t c = 0; c < out->table->column_count; c++)
            bind(out->insert, (int)c + 1, &cells[c]);
        const int code = sqlite3_step(out->insert);
        (void)sqlite3_reset(out->insert);
        return code == SQLITE_DONE ? RS_OK : db_failed(out, err);
    }
    for (size_t c = 0; c < out->table->column_count; c++) {
        if (c)
            rs_buf_u8(&out->csv, ',');
        csv_cell(out, c, &cells[c]);
    }
    rs_buf_u8(&out->csv, '\n');
    return RS_OK;
}

static enum rs_status note_written(struct run *run, const char *name, uint64_t rows,
                                   struct rs_err *err)
{
    struct rs_recipe_result *result = run->result;
    char *copy = rs_mem_strdup(name);
    if (!copy || rs_mem_grow((void **)&result->written, &result->written_capacity,
                             result->written_count + 1, sizeof *result->written) != RS_OK) {
        rs_mem_free(copy);
        return rs_err_set(err, RS_NOMEM, "no memory to note %s", name);
    }
    result->written[result->written_count++] = (struct rs_recipe_written){copy, rows};
    return RS_OK;
}

enum rs_status table_end(struct run *run, struct rs_err *err)
{
    struct out *out = run->out;
    const char *name = out->path ? out->table->name : out->table->file;
    enum rs_status status = RS_OK;
    if (out->path) {
        (void)sqlite3_finalize(out->insert);
        out->insert = NULL;
    } else if (out->csv.failed) {
        status = rs_err_set(err, RS_NOMEM, "no memory for %s", name);
    } else {
        char *path = rs_file_join(out->dir, name);
        status = path ? rs_file_replace(path, out->csv.data, out->csv.length, false, err)
                      : rs_err_set(err, RS_NOMEM, "no memory for %s", name);
        rs_mem_free(path);
    }
    out->table = NULL;
    return status == RS_OK ? note_written(run, name, out->rows, err) : status;
}

/* ---- results ---- */

static char *cut(char *text,
                 char at) /* what stands behind the first `at`, which ends the text; NULL: none */
{
    char *found = strchr(text, at);
    if (!found)
        return NULL;
    *found = '\0';
    return found + 1;
}

/* "OpType:t|duration:r=Duration(us)" -> the page's table. */
static enum rs_status lay_columns(struct page *page, const struct result *result)
{
    size_t count = 0;
    page->names = rs_mem_strdup(result->columns);
    for (char *at = page->names, *rest; at; at = rest) {
        RS_CHECK(count < COLUMNS_MAX);
        rest = cut(at, '|');
        char *kind = cut(at, ':');
        char *title = cut(kind, '=');
        page->columns[count++] = (struct column){at, *kind, title};
    }
    page->table = (struct table){result->name, result->file,          page->columns,
                                 count,        result->index_columns, result->is_ms};
    return page->names ? RS_OK : RS_NOMEM;
}

static struct cell cell_of_answer(sqlite3_stmt *stmt, int at)
{
    switch (sqlite3_column_type(stmt, at)) {
    case SQLITE_INTEGER:
        return cell_int(sqlite3_column_int64(stmt, at));
    case SQLITE_FLOAT:
        return cell_real(sqlite3_column_double(stmt, at));
    case SQLITE_NULL:
        return (struct cell){CELL_NULL, {0}};
    default:
        return cell_text((const char *)sqlite3_column_text(stmt, at));
    }
}

typedef void answer_fn(struct run *run, sqlite3_stmt *stmt);

static void add_csv_row(struct run *run, sqlite3_stmt *stmt)
{
    struct cell cells[COLUMNS_MAX];
    for (size_t c = 0; c < run->out->table->column_count; c++)
        cells[c] = cell_of_answer(stmt, (int)c);
    const enum rs_status status = table_row(run, cells, NULL);
    RS_CHECK(status == RS_OK); /* text fails at its end alone */
}

static void add_problem(struct run *run, sqlite3_stmt *stmt)
{
    run_add_problem(run, sqlite3_column_int64(stmt, 0), sqlite3_column_int(stmt, 1) != 0, "%s",
                    (const char *)sqlite3_column_text(stmt, 2));
}

static void count_row(struct run *run, sqlite3_stmt *stmt)
{
    (void)stmt;
    run->out->rows++;
}

/* `row` gets each row of the answer; NULL: there is none. */
static enum rs_status run_statement(struct run *run, const char *head, const char *sql,
                                    int64_t rank, answer_fn *row, struct rs_err *err)
{
    struct out *out = run->out;
    sqlite3_stmt *stmt = NULL;
    struct rs_buf text = {0};
    rs_buf_printf(&text, "%s%s", head, sql);
    int code = text.failed ? SQLITE_NOMEM
                           : sqlite3_prepare_v2(out->db, rs_buf_text(&text), -1, &stmt, NULL);
    rs_buf_fini(&text);
    if (code == SQLITE_OK) {
        select_bind(run, NULL, rank, stmt);
        while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
            row(run, stmt);
    }
    const enum rs_status status = code == SQLITE_DONE ? RS_OK : db_failed(out, err);
    (void)sqlite3_finalize(stmt);
    return status;
}

/* Does the statement have an answer at all? */
static enum rs_status ask_any(struct run *run, const char *sql, int64_t rank, bool *is_any_p,
                              struct rs_err *err)
{
    struct rs_buf text = {0};
    run->out->rows = 0;
    rs_buf_printf(&text, "SELECT 1 FROM (%s) LIMIT 1", sql);
    const enum rs_status status = run_statement(run, "", rs_buf_text(&text), rank, count_row, err);
    rs_buf_fini(&text);
    *is_any_p = run->out->rows != 0;
    return status;
}

static enum rs_status page_begin(struct run *run, struct page *page, const struct result *result,
                                 struct rs_err *err)
{
    struct out *out = run->out;
    rs_mem_free(page->names);
    if (lay_columns(page, result) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for %s", result->name);
    const enum rs_status status = table_begin(run, &page->table, err);
    (void)sqlite3_finalize(out->insert); /* statements insert by themselves */
    out->insert = NULL;
    out->table = NULL;
    page->csv = out->csv;
    out->csv = (struct rs_buf){0};
    page->rows = 0;
    page->is_open = status == RS_OK;
    return status;
}

/* Adds the answer to the page. */
static enum rs_status page_add(struct run *run, struct page *page, const char *sql, int64_t rank,
                               struct rs_err *err)
{
    struct out *out = run->out;
    char head[160];
    (void)snprintf(head, sizeof head, "INSERT INTO \"%s\" ", page->table.name);
    if (out->path) {
        const enum rs_status status = run_statement(run, head, sql, rank, NULL, err);
        page->rows += (uint64_t)sqlite3_changes64(out->db);
        return status;
    }
    out->table = &page->table;
    out->rows = page->rows;
    out->csv = page->csv;
    const enum rs_status status = run_statement(run, "", sql, rank, add_csv_row, err);
    page->csv = out->csv;
    page->rows = out->rows;
    out->csv = (struct rs_buf){0};
    out->table = NULL;
    return status;
}

static enum rs_status page_end(struct run *run, struct page *page, struct rs_err *err)
{
    struct out *out = run->out;
    out->table = &page->table;
    out->rows = page->rows;
    out->csv = page->csv;
    page->csv = (struct rs_buf){0};
    page->is_open = false;
    const enum rs_status status = table_end(run, err);
    rs_buf_fini(&out->csv);
    return status;
}

/* The recipe has it in text form, too, or this is the database. */
static bool is_wanted(const struct run *run, const struct result *result)
{
    return result->name && (run->out->path || !result->is_only_db);
}

enum rs_status results_begin(struct run *run, struct rs_err *err)
{
    const struct recipe *recipe = run->recipe;
    enum rs_status status = RS_OK;
    bool is_any = false;
    for (size_t i = 0; i < recipe->result_count; i++)
        is_any |= recipe->results[i].rank_sql != NULL;
    for (size_t i = 0; i < recipe->result_count && is_any && status == RS_OK; i++)
        if (is_wanted(run, &recipe->results[i]))
            status = page_begin(run, &run->out->pages[i], &recipe->results[i], err);
    return status;
}

enum rs_status results_add(struct run *run, int64_t rank, struct rs_err *err)
{
    const struct recipe *recipe = run->recipe;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < recipe->result_count && status == RS_OK; i++)
        if (recipe->results[i].rank_sql)
            status = page_add(run, &run->out->pages[i], recipe->results[i].rank_sql, rank, err);
    return status;
}

enum rs_status result_write(struct run *run, const struct result *result, struct rs_err *err)
{
    const struct recipe *recipe = run->recipe;
    const bool is_listed =
        result >= recipe->results && result < recipe->results + recipe->result_count;
    struct page *page = &run->out->pages[is_listed ? result - recipe->results : 0];
    const char *sql = run->options->compat && result->compat_sql ? result->compat_sql : result->sql;
    bool is_any = true;
    enum rs_status status = RS_OK;
    if (sql && !*sql)
        return RS_OK;
    if (!result->name)
        return run_statement(run, "", sql, 0, add_problem, err);
    if (!is_wanted(run, result))
        return RS_OK;
    if (result->is_optional)
        status = ask_any(run, sql, result->rank, &is_any, err);
    if (status != RS_OK || !is_any)
        return status;
    if (!page->is_open)
        status = page_begin(run, page, result, err);
    if (status == RS_OK && sql)
        status = page_add(run, page, sql, result->rank, err);
    if (status == RS_OK && result->then_sql)
        status = page_add(run, page, result->then_sql, 0, err);
    return status == RS_OK ? page_end(run, page, err) : status;
}

enum rs_status result_write_by_rank(struct run *run, const struct result *all,
                                    const struct result *each, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (run->out->path)
        return result_write(run, all, err);
    for (size_t i = 0; i < run->rank_count && status == RS_OK; i++) {
        char file[64];
        struct result one = *each;
        (void)snprintf(file, sizeof file, "%s_%" PRId64 ".csv", each->file, run->ranks[i].rank);
        one.file = file;
        one.rank = run->ranks[i].rank;
        one.is_optional = true;
        status = result_write(run, &one, err);
    }
    return status;
}

/* ---- files of each rank ---- */

enum rs_status rank_file_path(const struct run *run, const char *name, char **path_p,
                              struct rs_err *err)
{
    char *path = rs_file_join(run->out->dir, name);
    char *slash = path ? strrchr(path, '/') : NULL;
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for the name of %s", name);
    *slash = '\0';
    const enum rs_status status = rs_file_make_dirs(path, RS_FOLDER_MODE, err);
    *slash = '/';
    if (status != RS_OK) {
        rs_mem_free(path);
        return status;
    }
    *path_p = path;
    return RS_OK;
}

enum rs_status rank_files_add(struct rank_files *files, const char *name, uint64_t rows)
{
    RS_CHECK(files->count < sizeof files->files / sizeof files->files[0]);
    char *copy = rs_mem_strdup(name);
    if (!copy)
        return RS_NOMEM;
    files->files[files->count++] = (struct rs_recipe_written){copy, rows};
    return RS_OK;
}

enum rs_status rank_files_reduce(struct run *run, const struct recipe_rank *rank, void *part,
                                 struct rs_err *err)
{
    (void)rank;
    const struct rank_files *files = part;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < files->count && status == RS_OK; i++)
        status = note_written(run, files->files[i].name, files->files[i].rows, err);
    return status;
}

void rank_files_drop(void *part)
{
    struct rank_files *files = part;
    for (size_t i = 0; i < files->count; i++)
        rs_mem_free(files->files[i].name);
    rs_mem_free(files);
}
