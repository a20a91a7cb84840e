/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/output/rank.h"

#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- names ---- */

struct names {
    const struct step_rows *step;
    int32_t rank;
    rs_output_rank_op_fn *visit;
    void *self;
};

static enum rs_status name_item(void *self, const struct comm_item *item, const char *hash,
                                struct rs_err *err)
{
    const struct names *names = self;
    char name[COMM_NAME_BYTES];
    if (item->rank != names->rank)
        return RS_OK;
    comm_item_official_name(names->step, item, hash, name);
    const struct rs_row_job_op *row = names->step->ops[item->op].row;
    const struct rs_output_rank_op op = {.op_id = row->op_id,
                                         .member_no =
                                             names->step->members[item->row].row->member_no,
                                         .name = name,
                                         .group = row->group_name,
                                         .hash = hash};
    return names->visit(names->self, &op, err);
}

enum rs_status rs_output_rank_ops(struct rs_row_store *rows, int32_t rank,
                                  rs_output_rank_op_fn *visit, void *self, struct rs_err *err)
{
    struct names names = {.rank = rank, .visit = visit, .self = self};
    struct step_rows *step = NULL;
    bool has_step = false;
    enum rs_status status = step_rows_open(rows, NULL, &step, err);
    names.step = step;
    while (status == RS_OK && (status = step_rows_next(step, &has_step, err)) == RS_OK && has_step)
        for (int p2p = 1; p2p >= 0 && status == RS_OK; p2p--)
            status = comm_walk(step, p2p, name_item, &names, err);
    step_rows_close(&step);
    return status;
}

/* ---- files ---- */

static void put_us(struct rs_buf *buf, int64_t ns)
{
    char text[UNIT_TEXT_BYTES];
    rs_unit_us(text, ns);
    rs_buf_printf(buf, ",%s", text);
}

static void put_step(const struct view *view, const struct rs_row_step_device *step,
                     struct rs_buf *buf)
{
    rs_buf_printf(buf, "%" PRId64 ",", view_device(view, step->device));
    if (view_has_steps(view, job_rank(view->job, view->rank)))
        rs_buf_printf(buf, "%" PRId64, step->step);
    put_us(buf, step->computing_ns);
    put_us(buf, step->communication_not_overlapped_ns);
    put_us(buf, step->overlapped_ns);
    put_us(buf, step->communication_ns);
    put_us(buf, step->free_ns);
    put_us(buf, step->stage_ns);
    put_us(buf, step->bubble_ns);
    put_us(buf, step->communication_not_overlapped_exclude_receive_ns);
    put_us(buf, step->preparing_ns);
    rs_buf_u8(buf, '\n');
}

static enum rs_status step_trace_time(const struct view *view, struct output_file *file,
                                      struct rs_err *err)
{
    struct rows_reading steps = {0};
    const void *row = NULL;
    rs_buf_string(&file->buf, "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,"
                              "Communication,Free,Stage,Bubble,Communication(Not Overlapped and "
                              "Exclude Receive),Preparing\n");
    enum rs_status status = rows_reading_open(&steps, view->job->rows, RS_READ_STEP_DEVICES, err);
    while (status == RS_OK && (status = rows_reading_next(&steps, &row, err)) == RS_OK && row) {
        const struct rs_row_step_device *step = row;
        /* the vendor writes no row of a step that launched nothing */
        if (step->rank != view->rank || step->preparing_ns == RS_NULL)
            continue;
        put_step(view, step, &file->buf);
        status = output_file_drain(file, err);
    }
    rows_reading_close(&steps);
    return status;
}

typedef enum rs_status view_fn(const struct view *view, struct output_file *file,
                               struct rs_err *err);

static enum rs_status write_file(const struct view *view, const char *dir, const char *name,
                                 view_fn *write, struct rs_err *err)
{
    struct output_file file;
    const enum rs_status status = output_file_open(&file, dir, name, err);
    return status == RS_OK ? output_file_close(&file, write(view, &file, err), err) : status;
}

enum rs_status rs_output_rank_write(struct rs_row_store *rows, int32_t rank, bool has_ops,
                                    const char *dir, struct rs_err *err)
{
    struct job *job = NULL;
    enum rs_status status = job_open(rows, &job, err);
    const struct view view = {.job = job, .is_rank = true, .rank = rank};
    if (status == RS_OK && !job_rank(job, rank))
        status = rs_err_set(err, RS_NOTFOUND, "nobody read rank %" PRId32, rank);
    if (status == RS_OK)
        status = write_file(&view, dir, "step_trace_time.csv", step_trace_time, err);
    if (status == RS_OK && has_ops)
        status = write_file(&view, dir, "communication.json", comm_document, err);
    if (status == RS_OK && has_ops)
        status = write_file(&view, dir, "communication_matrix.json", matrix_document, err);
    if (status == RS_OK)
        status = database_write(&view, dir, err);
    job_close(&job);
    return status;
}
