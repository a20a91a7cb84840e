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

struct column {
    const char *name;
    char kind;         /* i INTEGER, r REAL, t TEXT */
    const char *title; /* in csv; NULL: the name */
};

/* A result that is written. */
struct page {
    const struct result *result;
    struct column columns[COLUMNS_MAX];
    size_t column_count;
    struct frame frame; /* of is_rows */
    struct frame_table table;
    char *names;       /* theirs */
    struct rs_buf csv; /* so far, in text form */
    uint64_t rows;
    bool is_open;
};

struct out {
    char *dir;   /* OUT/cluster_analysis_output[/FOLDER] */
    char *path;  /* the database; NULL in text form */
    sqlite3 *db; /* in text form in memory: the frames are its tables all the same */
    struct page pages[RESULTS_MAX + 1]; /* the last one is that of result_rows() */
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
    return sqlite3_open_v2(path, db, HOW, NULL) == SQLITE_OK && select_functions(*db) == SQLITE_OK
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
    return run->options->as_text || run->recipe->write;
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
    for (size_t i = 0; i <= RESULTS_MAX; i++) {
        select_forget(&out->pages[i].table);
        frame_fini(&out->pages[i].frame);
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

static enum rs_status create_table(struct out *out, const struct page *page, struct rs_err *err)
{
    struct rs_buf sql = {0};
    const char *name = page->result->name;
    rs_buf_printf(&sql, "DROP TABLE IF EXISTS \"%s\"; CREATE TABLE \"%s\" (\n", name, name);
    for (size_t c = 0; c < page->column_count; c++)
        rs_buf_printf(&sql, "%s\"%s\" %s", c ? ",\n  " : "", page->columns[c].name,
                      sql_type(page->columns[c].kind));
    rs_buf_string(&sql, "\n);");
    if (page->result->index_columns) {
        rs_buf_printf(&sql, "CREATE INDEX \"ix_%s", name);
        for (size_t c = 0; c < page->result->index_columns; c++)
            rs_buf_printf(&sql, "_%s", page->columns[c].name);
        rs_buf_printf(&sql, "\"ON \"%s\" (", name);
        for (size_t c = 0; c < page->result->index_columns; c++)
            rs_buf_printf(&sql, "%s\"%s\"", c ? "," : "", page->columns[c].name);
        rs_buf_string(&sql, ");");
    }
    const enum rs_status status = sql.failed ? rs_err_set(err, RS_NOMEM, "no memory for a table")
                                             : exec(out, rs_buf_text(&sql), err);
    rs_buf_fini(&sql);
    return status;
}

/* Columns that end in Ns are shown in us (or ms): factor and name change together. */
static bool is_scaled(const struct column *column)
{
    const size_t length = strlen(column->name);
    return !column->title && length > 2 && strcmp(column->name + length - 2, "Ns") == 0;
}

static void csv_header(struct page *page)
{
    for (size_t c = 0; c < page->column_count; c++) {
        const struct column *column = &page->columns[c];
        if (c)
            rs_buf_u8(&page->csv, ',');
        if (!is_scaled(column)) {
            rs_csv_text(&page->csv, column->title ? column->title : column->name);
            continue;
        }
        rs_buf_bytes(&page->csv, column->name, strlen(column->name) - 2);
        rs_buf_string(&page->csv, page->result->is_ms ? "(Ms)" : "(Us)");
    }
    rs_buf_u8(&page->csv, '\n');
}

static void csv_cell(struct page *page, sqlite3_stmt *stmt, int at)
{
    char text[400];
    const struct column *column = &page->columns[at];
    const double factor = !is_scaled(column) ? 1 : page->result->is_ms ? 1e6 : 1e3;
    switch (sqlite3_column_type(stmt, at)) {
    case SQLITE_NULL:
        return;
    case SQLITE_TEXT:
        rs_csv_text(&page->csv, (const char *)sqlite3_column_text(stmt, at));
        return;
    case SQLITE_INTEGER:
        if (!is_scaled(column) && column->kind != 'r') {
            rs_buf_printf(&page->csv, "%" PRId64, (int64_t)sqlite3_column_int64(stmt, at));
            return;
        }
        break;
    default:
        break;
    }
    stats_print(sqlite3_column_double(stmt, at) / factor, text, sizeof text);
    rs_buf_string(&page->csv, text);
}

enum rs_status out_note(struct run *run, const char *name, uint64_t rows, struct rs_err *err)
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

/* ---- results ---- */

/* "OpType:t|duration:r=Duration(us)" -> the page's columns. */
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
    page->column_count = count;
    return page->names ? RS_OK : RS_NOMEM;
}

typedef void answer_fn(struct run *run, sqlite3_stmt *stmt, struct page *page);

static void add_csv_row(struct run *run, sqlite3_stmt *stmt, struct page *page)
{
    (void)run;
    for (size_t c = 0; c < page->column_count; c++) {
        if (c)
            rs_buf_u8(&page->csv, ',');
        csv_cell(page, stmt, (int)c);
    }
    rs_buf_u8(&page->csv, '\n');
    page->rows++;
}

static void add_problem(struct run *run, sqlite3_stmt *stmt, struct page *page)
{
    (void)page;
    run_add_problem(run, sqlite3_column_int64(stmt, 0), sqlite3_column_int(stmt, 1) != 0, "%s",
                    (const char *)sqlite3_column_text(stmt, 2));
}

static void keep_row(struct run *run, sqlite3_stmt *stmt, struct page *page)
{
    (void)run;
    page->frame.failed |= frame_take(&page->frame, stmt) != RS_OK;
}

/* `row` gets each row of the answer; NULL: there is none. */
static enum rs_status run_statement(struct run *run, const char *sql, int64_t rank, answer_fn *row,
                                    struct page *page, struct rs_err *err)
{
    struct out *out = run->out;
    enum rs_status status = RS_OK;
    while (sql && *sql && status == RS_OK) {
        sqlite3_stmt *stmt = NULL;
        int code = sqlite3_prepare_v2(out->db, sql, -1, &stmt, &sql);
        if (code == SQLITE_OK) {
            select_bind(run, NULL, rank, stmt);
            while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
                if (row)
                    row(run, stmt, page);
        }
        status = code == SQLITE_DONE ? RS_OK : db_failed(out, err);
        (void)sqlite3_finalize(stmt);
    }
    return status;
}

static void keep_text(struct run *run, sqlite3_stmt *stmt, struct page *page)
{
    (void)run;
    if (!page->rows++)
        rs_buf_string(&page->csv, rs_ascend_column_text(stmt, 0));
}

enum rs_status result_text(struct run *run, const char *sql, int64_t rank, struct rs_buf *text_p,
                           struct rs_err *err)
{
    struct page page = {0};
    const enum rs_status status = run_statement(run, sql, rank, keep_text, &page, err);
    *text_p = page.csv;
    return status;
}

enum rs_status result_ask(struct run *run, const char *sql, int64_t rank, bool *is_any_p,
                          struct rs_err *err)
{
    struct rs_buf text = {0}, answer = {0};
    rs_buf_printf(&text, "SELECT 1 FROM (%s) LIMIT 1", sql);
    const enum rs_status status = result_text(run, rs_buf_text(&text), rank, &answer, err);
    *is_any_p = answer.length != 0;
    rs_buf_fini(&text);
    rs_buf_fini(&answer);
    return status;
}

static enum rs_status page_begin(struct run *run, struct page *page, const struct result *result,
                                 struct rs_err *err)
{
    rs_mem_free(page->names);
    rs_buf_reset(&page->csv);
    page->result = result;
    page->rows = 0;
    page->is_open = true;
    if (lay_columns(page, result) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for %s", result->name);
    if (run->out->path)
        return create_table(run->out, page, err);
    csv_header(page);
    return RS_OK;
}

/* Adds the answer to the page. */
static enum rs_status page_add(struct run *run, struct page *page, const char *sql, int64_t rank,
                               struct rs_err *err)
{
    struct rs_buf text = {0};
    if (!run->out->path)
        return run_statement(run, sql, rank, add_csv_row, page, err);
    rs_buf_printf(&text, "INSERT INTO \"%s\" %s", page->result->name, sql);
    const enum rs_status status =
        text.failed ? rs_err_set(err, RS_NOMEM, "no memory for a statement")
                    : run_statement(run, rs_buf_text(&text), rank, NULL, page, err);
    rs_buf_fini(&text);
    page->rows += (uint64_t)sqlite3_changes64(run->out->db);
    return status;
}

static enum rs_status page_end(struct run *run, struct page *page, struct rs_err *err)
{
    const char *name = run->out->path ? page->result->name : page->result->file;
    enum rs_status status = RS_OK;
    page->is_open = false;
    if (page->csv.failed) {
        status = rs_err_set(err, RS_NOMEM, "no memory for %s", name);
    } else if (!run->out->path) {
        char *path = rs_file_join(run->out->dir, name);
        status = path ? rs_file_replace(path, page->csv.data, page->csv.length, false, err)
                      : rs_err_set(err, RS_NOMEM, "no memory for %s", name);
        rs_mem_free(path);
    }
    return status == RS_OK ? out_note(run, name, page->rows, err) : status;
}

/* The recipe has it in text form, too, or this is the database. */
static bool is_wanted(const struct run *run, const struct result *result)
{
    return result->name && !result->is_rows &&
           !(run->out->path ? result->is_only_text : result->is_only_db);
}

bool results_stream(const struct run *run)
{
    bool is_any = false;
    for (size_t i = 0; i < run->recipe->result_count; i++)
        is_any |= run->recipe->results[i].rank_sql != NULL;
    return is_any;
}

enum rs_status results_begin(struct run *run, struct rs_err *err)
{
    const struct recipe *recipe = run->recipe;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < recipe->result_count && results_stream(run) && status == RS_OK; i++)
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

/* Rows on the way: a table of the statements behind it. */
static enum rs_status keep_rows(struct run *run, const struct result *result, const char *sql,
                                struct page *page, struct rs_err *err)
{
    if (frame_init(&page->frame, result->columns) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for rows");
    page->table = (struct frame_table){.columns = result->columns, .frame = &page->frame};
    const enum rs_status status = run_statement(run, sql, result->rank, keep_row, page, err);
    if (status == RS_OK && page->frame.failed)
        return rs_err_set(err, RS_NOMEM, "no memory for rows");
    return status == RS_OK ? out_add_frame(run, result->name, &page->table, err) : status;
}

enum rs_status result_rows(struct run *run, const struct result *result, struct frame **rows_p,
                           struct rs_err *err)
{
    struct page *page = &run->out->pages[RESULTS_MAX];
    *rows_p = &page->frame;
    return keep_rows(run, result, result->sql, page, err);
}

static enum rs_status write_one(struct run *run, const struct result *result, const char *sql,
                                struct page *page, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    bool is_any = true;
    if (result->when)
        status = result_ask(run, result->when, result->rank, &is_any, err);
    if (status == RS_OK && is_any &&
        (result->is_optional || (result->is_full_there && run->options->compat)))
        status = result_ask(run, sql, result->rank, &is_any, err);
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

static enum rs_status write_by_rank(struct run *run, const struct result *result, const char *sql,
                                    struct page *page, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < run->rank_count && status == RS_OK; i++) {
        char file[64], name[64];
        struct result one = *result;
        one.rank = run->ranks[i].rank;
        (void)snprintf(file, sizeof file, "%s_%" PRId64 ".csv", result->file, one.rank);
        (void)snprintf(name, sizeof name, "%s%" PRId64, result->name, one.rank);
        one.file = file;
        one.name = name;
        one.is_optional = true;
        status = write_one(run, &one, sql, page, err);
    }
    return status;
}

enum rs_status result_write(struct run *run, const struct result *result, struct rs_err *err)
{
    const struct recipe *recipe = run->recipe;
    const bool is_listed =
        result >= recipe->results && result < recipe->results + recipe->result_count;
    struct page *page = &run->out->pages[is_listed ? result - recipe->results : 0];
    const char *sql = run->options->compat && result->compat_sql ? result->compat_sql : result->sql;
    if (sql && !*sql)
        return RS_OK;
    if (!result->name)
        return run_statement(run, sql, 0, add_problem, page, err);
    if (result->is_rows)
        return keep_rows(run, result, sql, page, err);
    if (!is_wanted(run, result))
        return RS_OK;
    return (result->by_rank ? write_by_rank : write_one)(run, result, sql, page, err);
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

void rank_files_add(struct inputs *in, struct rank_files *files, const char *name, uint64_t rows)
{
    char *copy = in->status == RS_OK ? rs_mem_strdup(name) : NULL;
    RS_CHECK(files->count < COLUMN_COUNT(files->files));
    if (copy)
        files->files[files->count++] = (struct rs_recipe_written){copy, rows};
    else
        in_fail(in, RS_NOMEM, "no memory to note %s", name);
}
