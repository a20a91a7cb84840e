/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes that say what they gather and what they make of it: each rank's answers to SELECTs become rows of frames, in the
 * order of ranks, and the results are SELECTs over those.
 *
 *     frames[i].sql, then fill()  -->  a part: the rank's frames  -->  run->frames  -->  results[i].sql
 *
 * A rank lacks what a frame requires, or has no row where some have to be: it is left out, and why is told.
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

void in_load(struct inputs *in, struct frame *frame, struct rs_ascend_db *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    if (in->status == RS_OK)
        in->status = rs_ascend_db_prepare(db, sql, &stmt, &in->err);
    if (in->status == RS_OK) {
        select_bind(in->run, in, stmt);
        in->status = frame_load_rows(frame, db, stmt, &in->err);
    }
    rs_ascend_db_finish(&stmt);
}

static size_t frame_count(const struct recipe *recipe)
{
    size_t count = 0;
    while (count < FRAMES_MAX && recipe->frames[count].name)
        count++;
    return count;
}

static void load(struct inputs *in, const struct frame_spec *spec, struct frame *frame)
{
    struct rs_ascend_db *db = spec->is_analysis ? in->analysis : in->profiler;
    if (spec->requires)
        in_require(in, db, spec->requires);
    if (spec->sql)
        in_load(in, frame, db, spec->sql);
    if (spec->sql && spec->missing && !frame->count)
        in_fail(in, RS_NOTFOUND, "%s has no %s", rs_ascend_db_path(db), spec->missing);
}

enum rs_status frames_map(struct inputs *in, void **part_p, struct rs_err *err)
{
    const struct recipe *recipe = in->run->recipe;
    struct frame *part = rs_mem_calloc(FRAMES_MAX, sizeof *part);
    if (!part)
        return rs_err_set(err, RS_NOMEM, "no memory for a rank's rows");
    for (size_t i = 0; i < frame_count(recipe); i++)
        part[i].failed = frame_init(&part[i], recipe->frames[i].columns) != RS_OK;
    for (size_t i = 0; i < frame_count(recipe); i++)
        load(in, &recipe->frames[i], &part[i]);
    if (in->status == RS_OK && recipe->fill)
        recipe->fill(in, part);
    for (size_t i = 0; i < frame_count(recipe); i++)
        if (part[i].failed)
            in_fail(in, RS_NOMEM, "no memory for a rank's rows");
    if (in->status == RS_OK) {
        *part_p = part;
        return RS_OK;
    }
    frames_drop(part);
    return rs_err_set(err, in->status, "%s", in->err.text);
}

void frames_drop(void *data)
{
    struct frame *part = data;
    for (size_t i = 0; i < FRAMES_MAX; i++)
        frame_fini(&part[i]);
    rs_mem_free(part);
}

enum rs_status frames_start(struct run *run, struct rs_err *err)
{
    for (size_t i = 0; i < frame_count(run->recipe); i++) {
        const struct frame_spec *spec = &run->recipe->frames[i];
        run->tables[i] = (struct frame_table){spec->columns, &run->frames[i]};
        if (frame_init(&run->frames[i], spec->columns) != RS_OK)
            return rs_err_set(err, RS_NOMEM, "no memory for rows");
        const enum rs_status status = out_add_frame(run, spec->name, &run->tables[i], err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

enum rs_status frames_reduce(struct run *run, const struct recipe_rank *rank, void *data,
                             struct rs_err *err)
{
    const struct frame *part = data;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < frame_count(run->recipe) && status == RS_OK; i++)
        status = frame_append(&run->frames[i], &part[i]);
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
    for (size_t i = 0; i < FRAMES_MAX; i++)
        frame_fini(&run->frames[i]);
}
