/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/export/export.h"

#include "aggregator/output/rank.h"
#include "ascend/export/export_priv.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- life ---- */

static enum rs_status make_dirs(struct rs_export_ascend *e, struct rs_err *err)
{
    char name[64];
    (void)snprintf(name, sizeof name, ".rankscope-export-%" PRId32 "-%ld", e->rank, (long)getpid());
    enum rs_status status = rs_file_make_dirs(e->options.out_dir, RS_FOLDER_MODE, err);
    if (status != RS_OK)
        return status;
    e->work_dir = rs_file_join(e->options.out_dir, name);
    e->output_dir = e->work_dir ? rs_file_join(e->work_dir, "ASCEND_PROFILER_OUTPUT") : NULL;
    if (!e->output_dir)
        return no_room(RS_NOMEM, err);
    if (mkdir(e->work_dir, RS_FOLDER_MODE) != 0 || chmod(e->work_dir, RS_FOLDER_MODE) != 0)
        return rs_err_errno(err, "cannot create %s", e->work_dir);
    return mkdir(e->output_dir, RS_FOLDER_MODE) == 0 && chmod(e->output_dir, RS_FOLDER_MODE) == 0
               ? RS_OK
               : rs_err_errno(err, "cannot create %s", e->output_dir);
}

static enum rs_status open_all(struct rs_export_ascend *e, struct rs_err *err)
{
    char name[64];
    enum rs_status status = no_room(rs_reduce_new(e->strings, e->lanes, &e->reduce), err);
    for (int i = 0; i < SPACE_COUNT && status == RS_OK; i++)
        status = no_room(rs_strtab_init(&e->texts[i], 0), err);
    if (status == RS_OK)
        status = make_dirs(e, err);
    (void)snprintf(name, sizeof name, "ascend_pytorch_profiler_%" PRId32 ".db", e->rank);
    if (status == RS_OK)
        status = db_create(&e->rows, e->output_dir, name, err);
    return status == RS_OK ? tables_create(e, err) : status;
}

enum rs_status rs_export_ascend_open(const struct rs_export_options *options,
                                     const struct rs_strtab *strings, const struct rs_lanes *lanes,
                                     struct rs_export_ascend **export_p, struct rs_err *err)
{
    struct rs_export_ascend *e = rs_mem_calloc(1, sizeof *e);
    if (!e)
        return no_room(RS_NOMEM, err);
    *e = (struct rs_export_ascend){
        .options = *options, .strings = strings, .lanes = lanes, .main_process = -1};
    e->rank = options->analysis->summaries[options->summary]->trace.rank;
    const enum rs_status status = open_all(e, err);
    if (status == RS_OK)
        *export_p = e;
    else
        rs_export_ascend_free(&e);
    return status;
}

/* Only what this export made lies in there: one folder deep. */
static void remove_folder(const char *path)
{
    DIR *dir = path ? opendir(path) : NULL;
    if (!dir)
        return;
    for (struct dirent *item; (item = rs_dir_next(dir));)
        (void)unlinkat(dirfd(dir), item->d_name, 0);
    (void)closedir(dir);
    (void)rmdir(path);
}

void rs_export_ascend_free(struct rs_export_ascend **export_p)
{
    struct rs_export_ascend *e = *export_p;
    if (!e)
        return;
    *export_p = NULL;
    kept_fini(e);
    db_discard(&e->rows);
    remove_folder(e->output_dir); /* NULL once it has its name */
    remove_folder(e->work_dir);
    rs_mem_free(e->output_dir);
    rs_mem_free(e->work_dir);
    rs_reduce_free(&e->reduce);
    if (e->has_own)
        rs_summary_fini(&e->own);
    for (int i = 0; i < SPACE_COUNT; i++) {
        rs_strtab_fini(&e->texts[i]);
        rs_mem_free(e->ids[i]);
    }
    if (e->has_stacks)
        rs_strtab_fini(&e->stacks);
    rs_mem_free(e->classes);
    rs_mem_free(e->pieces.items);
    rs_mem_free(e->launches.items);
    rs_mem_free(e->works.items);
    rs_mem_free(e->loose.items);
    rs_mem_free(e->host_ops.items);
    rs_mem_free(e->memory.items);
    rs_mem_free(e->unfinished.items);
    rs_mem_free(e->bounds.items);
    rs_mem_free(e->devices.items);
    rs_mem_free(e->result.dir);
    rs_mem_free(e);
}

/* ---- rows ---- */

enum { TYPE_OP = 50001, TYPE_TRACE = 50003 };

static enum rs_status add_row(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                              struct rs_err *err)
{
    bool is_kept = false;
    enum rs_status status = RS_OK;
    if (batch->kind[at] == RS_KIND_COUNTER || batch->kind[at] == RS_KIND_MEMORY ||
        batch->kind[at] == RS_KIND_METADATA)
        status = kept_row(e, batch, at, &is_kept, err);
    if (status != RS_OK || is_kept)
        return status;
    switch ((enum rs_kind)batch->kind[at]) {
    case RS_KIND_CPU_OP:
    case RS_KIND_USER_ANNOTATION:
    case RS_KIND_OP:
        return host_operator(e, batch, at, TYPE_OP, err);
    case RS_KIND_PYTHON:
        e->has_frames = true;
        return host_operator(e, batch, at, TYPE_TRACE, err);
    case RS_KIND_STEP:
        return host_step(e, batch, at, err);
    case RS_KIND_RUNTIME:
    case RS_KIND_DRIVER:
        return host_api(e, batch, at, err);
    case RS_KIND_RANGE:
    case RS_KIND_MARK:
        return host_mark(e, batch, at, err);
    case RS_KIND_COUNTER:
        return host_counter(e, batch, at, err);
    case RS_KIND_MEMORY:
        return memory_row(e, batch, at, err);
    case RS_KIND_OVERHEAD:
        return memory_gc(e, batch, at, err);
    case RS_KIND_KERNEL:
    case RS_KIND_MEMCPY:
    case RS_KIND_MEMSET:
        return device_row(e, batch, at, err);
    case RS_KIND_OTHER:
        return host_other(e, batch, at, err);
    case RS_KIND_GPU_USER_ANNOTATION: /* no table has a place for these */
    case RS_KIND_SYNC:
    case RS_KIND_DEVICE_EVENT:
    case RS_KIND_FLOW_START:
    case RS_KIND_FLOW_END:
    case RS_KIND_METADATA:
    case RS_KIND_INSTANT:
    case RS_KIND_TRACE_SPAN:
    case RS_KIND_LOSS:
    case RS_KIND_COMM:        /* from the summary: comm.c */
    case RS_KIND_COMM_TASK:   /* the same */
    case RS_KIND_STEP_WINDOW: /* from reduce: device.c */
    case RS_KIND_COUNT:
        break;
    }
    return RS_OK;
}

enum rs_status rs_export_ascend_add(struct rs_export_ascend *e, const struct rs_batch *batch,
                                    struct rs_err *err)
{
    enum rs_status status = rs_reduce_add(e->reduce, batch, err);
    if (status == RS_OK)
        status = room_for_strings(e, err);
    for (size_t i = 0; i < batch->count && status == RS_OK; i++)
        status = add_row(e, batch, i, err);
    return status;
}

/* ---- the end ---- */

static enum rs_status fill_tables(struct rs_export_ascend *e, struct rs_err *err)
{
    static enum rs_status (*const stages[])(struct rs_export_ascend *, struct rs_err *) = {
        device_host_work, comm_write,    device_settle, host_settle,    memory_settle,
        chains_settle,    kept_settle,   about_tables,  tables_strings, operators_settle,
        text_tables,      trace_overlap, trace_view,    tables_settle,
    };
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < sizeof stages / sizeof stages[0] && status == RS_OK; i++)
        status = stages[i](e, err);
    return status;
}

/* Gives the directory its name: the next free one, should two recordings begin in one ms of one process. */
static enum rs_status give_name(struct rs_export_ascend *e, struct rs_err *err)
{
    enum { TURNS = 1000 };
    char name[160];
    for (unsigned turn = 0; turn < TURNS; turn++) {
        about_name(e, turn, name, sizeof name);
        char *path = rs_file_join(e->options.out_dir, name);
        if (!path)
            return no_room(RS_NOMEM, err);
        if (access(path, F_OK) != 0 && rename(e->work_dir, path) == 0) {
            e->result.dir = path;
            rs_mem_free(e->work_dir);
            rs_mem_free(e->output_dir);
            e->work_dir = e->output_dir = NULL;
            return RS_OK;
        }
        const bool is_taken = access(path, F_OK) == 0;
        rs_mem_free(path);
        if (!is_taken)
            return rs_err_errno(err, "cannot rename to %s", name);
    }
    return rs_err_set(err, RS_EXISTS, "%s and %d names after it are taken", name, TURNS - 1);
}

enum rs_status rs_export_ascend_finish(struct rs_export_ascend *e, const struct rs_trace_info *info,
                                       struct rs_export_result *result_p, struct rs_err *err)
{
    e->info = info;
    if (!info->has_time_base || info->base_ns != e->options.base_ns)
        return rs_err_set(err, RS_INVALID,
                          "the recording of rank %" PRId32
                          " has lost its time base: its times are not known",
                          e->rank);
    enum rs_status status = room_for_strings(e, err);
    if (status == RS_OK)
        status = rs_reduce_finish(e->reduce, info, &e->own, err);
    if (status != RS_OK)
        return status;
    e->has_own = true;
    status = fill_tables(e, err);
    if (status != RS_OK)
        kept_fini(e); /* a database with a statement open is not closed */
    status = db_close(&e->rows, status, err);
    if (status == RS_OK)
        status = rs_output_rank_write(
            e->options.rows, e->rank,
            e->options.analysis->summaries[e->options.summary]->op_count > 0, e->output_dir, err);
    if (status == RS_OK)
        status = about_files(e, err);
    if (status == RS_OK)
        status = give_name(e, err);
    if (status == RS_OK) {
        *result_p = e->result;
        e->result = (struct rs_export_result){0};
    }
    return status;
}
