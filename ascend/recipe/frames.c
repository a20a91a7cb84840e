/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes that say what they gather and what they make of it: each rank's answers to SELECTs become rows of frames, in the
 * order of ranks, and the results are SELECTs over those.
 *
 *     frames[i].sql  -->  a part: the rank's frames  -->  run->frames  -->  results[i].sql
 *
 * A rank lacks what a frame requires, or has no row where some have to be: it is left out, and the log says why.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <stdarg.h>
#include <stdio.h>

void in_fail(struct inputs *in, enum rs_status status, const char *format, ...)
{
    if (in->status != RS_OK)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(in->err.text, sizeof in->err.text, format, args);
    va_end(args);
    in->status = status;
}

void in_require(struct inputs *in, struct rs_ascend_db *db, const char *list)
{
    if (in->status == RS_OK)
        in->status = db_requires(db, list, &in->err);
}

bool in_has(const struct inputs *in, const char *list)
{
    return db_requires(in->profiler, list, NULL) == RS_OK;
}

sqlite3_stmt *in_ask(struct inputs *in, struct rs_ascend_db *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    if (in->status == RS_OK)
        in->status = rs_ascend_db_prepare(db, sql, &stmt, &in->err);
    if (in->status == RS_OK)
        select_bind(in->run, in, in->of->rank, stmt);
    return stmt;
}

bool in_step(struct inputs *in, struct rs_ascend_db *db, sqlite3_stmt *stmt)
{
    const enum rs_status status =
        in->status == RS_OK ? rs_ascend_db_step(db, stmt, &in->err) : in->status;
    in->status = status == RS_END ? RS_OK : status;
    return status == RS_OK;
}

void in_load(struct inputs *in, struct frame *frame, struct rs_ascend_db *db, const char *sql)
{
    sqlite3_stmt *stmt = in_ask(in, db, sql);
    while (in_step(in, db, stmt)) {
        const enum rs_status status = frame_take(frame, stmt);
        if (status != RS_OK)
            in_fail(in, status, "%s: row %zu: %s", rs_ascend_db_path(db), frame->count,
                    status == RS_FORMAT ? "a time or number is no whole number"
                                        : rs_status_text(status));
    }
    rs_ascend_db_finish(&stmt);
}

/* Statements on the way; what they answer, (is missing, text), is told. */
static void in_do(struct inputs *in, struct rs_ascend_db *db, const char *sql)
{
    while (*sql && in->status == RS_OK) {
        sqlite3_stmt *stmt = in_ask(in, db, sql);
        while (in_step(in, db, stmt))
            run_add_problem(in->run, in->of->rank, sqlite3_column_int(stmt, 0) != 0, "%s",
                            rs_ascend_column_text(stmt, 1));
        if (in->status == RS_OK)
            sql += strlen(sqlite3_sql(stmt)); /* of the first statement in it */
        rs_ascend_db_finish(&stmt);
    }
}

/* has('TABLE.column ...'), of one of the rank's databases. */
static void has(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const struct inputs *in = sqlite3_user_data(context);
    const char *list = (const char *)sqlite3_value_text(argv[0]);
    (void)argc;
    sqlite3_result_int(context,
                       list && ((in->profiler && in_has(in, list)) ||
                                (in->analysis && db_requires(in->analysis, list, NULL) == RS_OK)));
}

/* "a,b;c": statements find a table with these columns and no rows where the rank has none, and one with an empty c where it
 * lacks that. */
static void stand_in(struct inputs *in, struct rs_ascend_db *db, const char *table, char *columns)
{
    struct rs_buf sql = {0};
    char *spare = cut(columns, ';');
    const bool is_there = rs_ascend_db_has_table(db, table);
    if (!is_there)
        rs_buf_printf(&sql, "CREATE TEMP TABLE %s (%s%s%s)", table, columns,
                      *columns && spare ? "," : "", spare ? spare : "");
    for (char *at = spare, *rest; at && is_there; at = rest) {
        rest = cut(at, ',');
        if (rs_ascend_db_has_column(db, table, at))
            continue;
        if (!sql.length)
            rs_buf_printf(&sql, "CREATE TEMP VIEW %s AS SELECT rowid AS rowid, *", table);
        rs_buf_printf(&sql, ", NULL AS %s", at);
    }
    if (is_there && sql.length)
        rs_buf_printf(&sql, " FROM main.%s", table);
    in_do(in, db, rs_buf_text(&sql));
    rs_buf_fini(&sql);
}

static void prepare_one(struct inputs *in, struct rs_ascend_db *db)
{
    const char *list = in->run->recipe->optional;
    char *words = list ? rs_mem_strdup(list) : NULL;
    if ((list && !words) || select_functions(rs_ascend_db_sqlite(db)) != SQLITE_OK ||
        sqlite3_create_function(rs_ascend_db_sqlite(db), "has", 1,
                                SQLITE_UTF8 | SQLITE_DETERMINISTIC, in, has, NULL,
                                NULL) != SQLITE_OK)
        in_fail(in, RS_NOMEM, "no memory for the functions of SELECTs");
    for (char *at = words, *rest; at && *at && in->status == RS_OK; at = rest) {
        rest = cut(at, ' ');
        char *columns = cut(at, '(');
        (void)cut(columns, ')');
        if (strncmp(at, "CommAnalyzer", 12) == 0 ? db == in->analysis : db == in->profiler)
            stand_in(in, db, at, columns);
    }
    rs_mem_free(words);
}

void in_prepare(struct inputs *in)
{
    if (in->profiler)
        prepare_one(in, in->profiler);
    if (in->analysis)
        prepare_one(in, in->analysis);
}

static size_t frame_count(const struct recipe *recipe)
{
    size_t count = 0;
    while (count < FRAMES_MAX && (recipe->frames[count].name || recipe->frames[count].sql))
        count++;
    return count;
}

static const char *columns_of(const struct frame_spec *spec)
{
    return spec->columns ? spec->columns : ""; /* a statement has none */
}

/* What a rank gives. */
struct part {
    struct frame frames[FRAMES_MAX];
    struct frame_table tables[FRAMES_MAX]; /* of them, while the rank is mapped */
    struct rank_files files;
};

/* One frame of the rank, or a statement on the way to one. */
static void load(struct inputs *in, const struct frame_spec *spec, struct frame *frames,
                 struct frame *frame)
{
    struct rs_ascend_db *db = spec->is_analysis ? in->analysis : in->profiler;
    const char *sql = in->run->options->compat && spec->compat_sql ? spec->compat_sql : spec->sql;
    if (in->status != RS_OK)
        return;
    if (!db && spec->sql)
        return; /* the recipe can do without it */
    if (spec->requires)
        in_require(in, db, spec->requires);
    if (spec->before && in->status == RS_OK)
        spec->before(in, frame);
    if (spec->asks && in->status == RS_OK && db_requires(db, spec->asks, NULL) != RS_OK)
        sql = spec->else_sql;
    if (sql && *sql && spec->name)
        in_load(in, frame, db, sql);
    else if (sql && *sql)
        in_do(in, db, sql);
    if (spec->sql && spec->missing && !frame->count)
        in_fail(in, RS_NOTFOUND, "%s has %s", rs_ascend_db_path(db), spec->missing);
    if (in->status == RS_NOTFOUND && spec->spared_by && frames[spec->spared_by].count)
        in->status = RS_OK;
    if (spec->is_apart && in->status < 0 && in->status != RS_NOMEM) {
        run_add_problem(in->run, in->of->rank, true, "%s", in->err.text);
        in->status = RS_OK;
    }
}

/* The rank's own SELECTs may read the frames that are filled already. */
static void show_frame(struct inputs *in, const struct frame_spec *spec, struct frame_table *table)
{
    struct rs_ascend_db *const all[] = {in->profiler, in->analysis};
    for (size_t i = 0; i < 2; i++)
        if (all[i] && select_frame(rs_ascend_db_sqlite(all[i]), spec->name, table) != SQLITE_OK)
            in_fail(in, RS_NOMEM, "no memory for a rank's rows");
}

enum rs_status frames_map(struct inputs *in, void **part_p, struct rs_err *err)
{
    const struct recipe *recipe = in->run->recipe;
    const size_t count = frame_count(recipe);
    struct part *part = rs_mem_calloc(1, sizeof *part);
    if (!part)
        return rs_err_set(err, RS_NOMEM, "no memory for a rank's rows");
    for (size_t i = 0; i < count; i++)
        part->frames[i].failed =
            frame_init(&part->frames[i], columns_of(&recipe->frames[i])) != RS_OK;
    for (size_t i = 0; i < count; i++) {
        part->tables[i] =
            (struct frame_table){.columns = recipe->frames[i].columns, .frame = &part->frames[i]};
        load(in, &recipe->frames[i], part->frames, &part->frames[i]);
        if (i + 1 < count && recipe->frames[i].name)
            show_frame(in, &recipe->frames[i], &part->tables[i]);
    }
    if (in->status == RS_OK && recipe->write)
        recipe->write(in, &part->files);
    for (size_t i = 0; i < count; i++) {
        select_forget(&part->tables[i]);
        if (part->frames[i].failed)
            in_fail(in, RS_NOMEM, "no memory for a rank's rows");
        if (recipe->frames[i].is_passing && !results_stream(in->run))
            frame_fini(&part->frames[i]);
    }
    if (in->status == RS_OK) {
        *part_p = part;
        return RS_OK;
    }
    frames_drop(part);
    return rs_err_set(err, in->status, "%s", in->err.text);
}

void frames_drop(void *data)
{
    struct part *part = data;
    for (size_t i = 0; i < FRAMES_MAX; i++)
        frame_fini(&part->frames[i]);
    for (size_t i = 0; i < part->files.count; i++)
        rs_mem_free(part->files.files[i].name);
    rs_mem_free(part);
}

enum rs_status frames_start(struct run *run, struct rs_err *err)
{
    for (size_t i = 0; i < frame_count(run->recipe); i++) {
        const struct frame_spec *spec = &run->recipe->frames[i];
        run->tables[i] = (struct frame_table){.columns = spec->columns, .frame = &run->frames[i]};
        if (frame_init(&run->frames[i], columns_of(spec)) != RS_OK)
            return rs_err_set(err, RS_NOMEM, "no memory for rows");
        const enum rs_status status =
            spec->name ? out_add_frame(run, spec->name, &run->tables[i], err) : RS_OK;
        if (status != RS_OK)
            return status;
    }
    return results_begin(run, err);
}

/* The rows of one rank alone, for the statements that take them as they come. */
static enum rs_status add_passing(struct run *run, const struct part *part, int64_t rank,
                                  struct rs_err *err)
{
    for (size_t i = 0; i < frame_count(run->recipe); i++)
        if (run->recipe->frames[i].is_passing)
            run->tables[i].frame = &part->frames[i];
    const enum rs_status status = results_add(run, rank, err);
    for (size_t i = 0; i < frame_count(run->recipe); i++)
        if (run->recipe->frames[i].is_passing) {
            select_forget(&run->tables[i]);
            run->tables[i].frame = &run->frames[i];
        }
    return status;
}

enum rs_status frames_reduce(struct run *run, const struct recipe_rank *rank, void *data,
                             struct rs_err *err)
{
    const struct part *part = data;
    enum rs_status status = add_passing(run, part, rank->rank, err);
    for (size_t i = 0; i < part->files.count && status == RS_OK; i++)
        status = out_note(run, part->files.files[i].name, part->files.files[i].rows, err);
    if (status != RS_OK)
        return status;
    for (size_t i = 0; i < frame_count(run->recipe) && status == RS_OK; i++)
        if (!run->recipe->frames[i].is_passing)
            status = frame_append(&run->frames[i], &part->frames[i]);
    return status == RS_OK ? RS_OK
                           : rs_err_set(err, status, "the rows of rank %lld: %s",
                                        (long long)rank->rank, rs_status_text(status));
}

enum rs_status frames_finish(struct run *run, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < run->recipe->result_count && status == RS_OK; i++)
        status = result_write(run, &run->recipe->results[i], err);
    return status;
}

void frames_stop(struct run *run)
{
    for (size_t i = 0; i < FRAMES_MAX; i++) {
        select_forget(&run->tables[i]);
        frame_fini(&run->frames[i]);
    }
}
