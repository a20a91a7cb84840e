/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/output/rank.h"

#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- names ---- */

struct names {
    const struct rs_analysis *analysis;
    size_t summary;
    rs_output_rank_op_fn *visit;
    void *self;
};

static enum rs_status name_item(void *self, const struct comm_item *item, const char *hash,
                                struct rs_err *err)
{
    const struct names *names = self;
    const struct rs_job_row *row = &names->analysis->rows[item->row];
    char name[COMM_NAME_BYTES];
    if (row->summary != names->summary)
        return RS_OK;
    comm_item_official_name(names->analysis, item, hash, name);
    const struct rs_output_rank_op op = {
        .op = item->op,
        .own = row->op_index,
        .name = name,
        .group = comm_group_text(names->analysis, &names->analysis->ops[item->op]),
        .hash = hash};
    return names->visit(names->self, &op, err);
}

enum rs_status rs_output_rank_ops(const struct rs_analysis *analysis, size_t summary,
                                  rs_output_rank_op_fn *visit, void *self, struct rs_err *err)
{
    struct names names = {.analysis = analysis, .summary = summary, .visit = visit, .self = self};
    enum rs_status status = RS_OK;
    for (size_t i = 0, end; i < analysis->op_count && status == RS_OK; i = end) {
        end = comm_step_end(analysis, i);
        for (int p2p = 1; p2p >= 0 && status == RS_OK; p2p--)
            status = comm_walk(analysis, (struct comm_span){i, end, p2p}, name_item, &names, err);
    }
    return status;
}

/* ---- files ---- */

static void put_us(struct rs_buf *buf, int64_t ns)
{
    char text[UNIT_TEXT_BYTES];
    rs_unit_us(text, ns);
    rs_buf_printf(buf, ",%s", text);
}

static enum rs_status step_trace_time(const struct view *view, struct output_file *file,
                                      struct rs_err *err)
{
    const struct rs_summary *summary = view->analysis->summaries[view->summary];
    struct rs_buf *buf = &file->buf;
    rs_buf_string(buf, "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,"
                       "Communication,Free,Stage,Bubble,Communication(Not Overlapped and Exclude "
                       "Receive),Preparing\n");
    for (size_t i = 0; i < summary->step_count; i++) {
        const struct rs_step_row *step = &summary->steps[i];
        if (!step->has_work)
            continue; /* the vendor writes no row of a step that launched nothing */
        rs_buf_printf(buf, "%" PRId32 ",", view_device(view, step->device));
        if (view_has_steps(view, summary))
            rs_buf_printf(buf, "%" PRId64, step->step);
        put_us(buf, step->computing);
        put_us(buf, step->communication_not_overlapped);
        put_us(buf, step->overlapped);
        put_us(buf, step->communication);
        put_us(buf, step->free);
        put_us(buf, step->stage);
        put_us(buf, step->bubble);
        put_us(buf, step->communication_not_overlapped_exclude_receive);
        put_us(buf, step->preparing);
        rs_buf_u8(buf, '\n');
        const enum rs_status status = output_file_drain(file, err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
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

enum rs_status rs_output_rank_write(const struct rs_analysis *analysis, size_t summary,
                                    const char *dir, struct rs_err *err)
{
    const struct view view = {.analysis = analysis, .is_rank = true, .summary = summary};
    const bool has_ops = analysis->summaries[summary]->op_count > 0;
    enum rs_status status = write_file(&view, dir, "step_trace_time.csv", step_trace_time, err);
    if (status == RS_OK && has_ops)
        status = write_file(&view, dir, "communication.json", comm_document, err);
    if (status == RS_OK && has_ops)
        status = write_file(&view, dir, "communication_matrix.json", matrix_document, err);
    return status == RS_OK ? database_write(&view, NULL, dir, err) : status;
}
