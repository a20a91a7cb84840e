/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the vendor's own tool says of the rank: versions, step figures, times of operations. From its analysis
 * database where that has them, else from step_trace_time.csv and communication.json. Kept, never used.
 */
#include "collector/source/ascend_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/vendor/vendor_comm.h"
#include "common/vendor/vendor_step.h"

#include <math.h>

enum { SAID_ROWS_MAX = 1 << 20 }; /* of each table; thousands are usual */

static const double PS_PER_US = 1e6;
static const double PS_PER_MS = 1e9;

/* NULL and RS_OK: it does not say. */
static enum rs_status add_text(struct ascend *a, const char *text, rs_str *id_p)
{
    return text && *text ? ascend_text(a, text, id_p) : RS_OK;
}

static int64_t time_of(const struct rs_vendor_num *num, double ps_per_unit)
{
    return num->kind == RS_VENDOR_NUM_NONE ? RS_SAID_UNKNOWN
                                           : rs_said_ps(rs_vendor_num_double(num), ps_per_unit);
}

/* us since 1970 -> ns; a double of them is good to a quarter of a us. */
static int64_t start_of(const struct rs_vendor_num *num)
{
    const double us = rs_vendor_num_double(num);
    if (num->kind == RS_VENDOR_NUM_NONE || !(fabs(us) < (double)RS_SAID_LIMIT / 1e3))
        return RS_SAID_UNKNOWN;
    const double whole = floor(us);
    return (int64_t)whole * 1000 + llround((us - whole) * 1e3);
}

static enum rs_status told_too_much(struct ascend *a, size_t count)
{
    return rs_trace_info_drop(&a->stream->info, &a->stream->strings,
                              "a row of the vendor's own figures, beyond the limit",
                              (int64_t)(count - SAID_ROWS_MAX));
}

/* ---- steps ---- */

static enum rs_status take_steps(struct ascend *a, const struct rs_vendor_steps *steps)
{
    struct rs_provenance *said = a->stream->info.said;
    const size_t count = steps->count < SAID_ROWS_MAX ? steps->count : SAID_ROWS_MAX;
    enum rs_status status =
        rs_mem_grow((void **)&said->steps, &said->step_capacity, count, sizeof *said->steps);
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        struct rs_said_step row = {.device = steps->rows[i].device};
        for (int k = 0; k < RS_SAID_STEP_FIELDS; k++)
            row.ps[k] = time_of(&steps->rows[i].values[k], PS_PER_US);
        status = ascend_text(a, steps->rows[i].step, &row.step);
        if (status == RS_OK)
            said->steps[said->step_count++] = row;
    }
    return status == RS_OK && count < steps->count ? told_too_much(a, steps->count) : status;
}

/* ---- operations ---- */

static enum rs_status take_comms(struct ascend *a, const struct rs_vendor_comm *comm)
{
    struct rs_provenance *said = a->stream->info.said;
    const size_t count = comm->op_count < SAID_ROWS_MAX ? comm->op_count : SAID_ROWS_MAX;
    enum rs_status status =
        rs_mem_grow((void **)&said->comms, &said->comm_capacity, count, sizeof *said->comms);
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        const struct rs_vendor_comm_op *op = &comm->ops[i];
        struct rs_vendor_comm_cursor cursor;
        struct rs_vendor_num times[RS_VENDOR_COMM_TIMES];
        rs_vendor_comm_op_open(comm, op, &cursor, times);
        struct rs_said_comm row = {
            .is_p2p = op->is_p2p,
            .start = start_of(&times[RS_VENDOR_COMM_START]),
            .elapse = time_of(&times[RS_VENDOR_COMM_ELAPSE], PS_PER_MS),
            .transit = time_of(&times[RS_VENDOR_COMM_TRANSIT], PS_PER_MS),
            .wait = time_of(&times[RS_VENDOR_COMM_WAIT], PS_PER_MS),
            .synchronization = time_of(&times[RS_VENDOR_COMM_SYNC], PS_PER_MS),
            .idle = time_of(&times[RS_VENDOR_COMM_IDLE], PS_PER_MS),
        };
        status = ascend_text(a, rs_strtab_text(&comm->names, op->step), &row.step);
        if (status == RS_OK)
            status = ascend_text(a, rs_strtab_text(&comm->names, op->group), &row.group);
        if (status == RS_OK)
            status = ascend_text(a, rs_strtab_text(&comm->names, op->name), &row.name);
        if (status == RS_OK)
            said->comms[said->comm_count++] = row;
    }
    return status == RS_OK && count < comm->op_count ? told_too_much(a, comm->op_count) : status;
}

/* ---- where it stands ---- */

/* RS_OK also when there is nothing; what cannot be read is one counted loss. */
static enum rs_status forgive(struct ascend *a, enum rs_status status)
{
    if (status >= 0 || status == RS_NOTFOUND)
        return RS_OK;
    if (status == RS_NOMEM)
        return status;
    return rs_trace_info_drop(&a->stream->info, &a->stream->strings,
                              "a file of the vendor's own figures that cannot be read", 1);
}

static enum rs_status read_db(struct ascend *a)
{
    struct rs_vendor_db *db = NULL;
    struct rs_vendor_rows_file file = {0};
    struct rs_vendor_steps steps;
    struct rs_vendor_comm comm;
    enum rs_status status = rs_vendor_db_open(a->rank->analysis_db, &db, NULL);
    if (status != RS_OK)
        return forgive(a, status);
    status = rs_vendor_steps_read_db(db, &file, &steps, NULL);
    if (status == RS_OK) {
        status = take_steps(a, &steps);
        rs_vendor_steps_fini(&steps);
    }
    status = forgive(a, status);
    if (status == RS_OK) {
        status = rs_vendor_comm_init(&comm);
        if (status == RS_OK)
            status = rs_vendor_comm_read_db(&comm, RS_VENDOR_COMM_OPS, db, &file, NULL);
        if (status == RS_OK)
            status = take_comms(a, &comm);
        rs_vendor_comm_fini(&comm);
        status = forgive(a, status);
    }
    rs_buf_fini(&file.bytes);
    rs_vendor_db_close(&db);
    return status;
}

static enum rs_status read_csv(struct ascend *a)
{
    struct rs_vendor_steps steps;
    char *path = rs_file_join(a->rank->output, "step_trace_time.csv");
    if (!path)
        return RS_NOMEM;
    enum rs_status status = rs_vendor_steps_read_csv(path, &steps, NULL);
    rs_mem_free(path);
    if (status == RS_OK) {
        status = take_steps(a, &steps);
        rs_vendor_steps_fini(&steps);
    }
    return forgive(a, status);
}

static enum rs_status read_json(struct ascend *a)
{
    struct rs_vendor_comm comm;
    struct rs_buf scratch = {0};
    char *path = rs_file_join(a->rank->output, "communication.json");
    enum rs_status status = path ? rs_vendor_comm_init(&comm) : RS_NOMEM;
    if (status == RS_OK) {
        status = rs_vendor_comm_read_text(&comm, RS_VENDOR_COMM_OPS, path, &scratch, NULL);
        if (status == RS_OK)
            status = take_comms(a, &comm);
        rs_vendor_comm_fini(&comm);
    }
    rs_buf_fini(&scratch);
    rs_mem_free(path);
    return forgive(a, status);
}

enum rs_status ascend_tell_provenance(struct ascend *a)
{
    const struct rs_vendor_rank *rank = a->rank;
    struct rs_provenance *said = rs_provenance_new();
    if (!said)
        return RS_NOMEM;
    rs_provenance_free(&a->stream->info.said);
    a->stream->info.said = said;
    enum rs_status status = add_text(a,
                                     rank->framework == RS_VENDOR_MINDSPORE   ? "MindSpore"
                                     : rank->framework == RS_VENDOR_MSMONITOR ? "msmonitor"
                                                                              : "torch_npu",
                                     &said->framework);
    if (status == RS_OK)
        status = add_text(a, rank->framework_version, &said->framework_version);
    if (status == RS_OK)
        status = add_text(a, rank->cann_version, &said->cann_version);
    if (status == RS_OK && rank->analysis_db)
        status = read_db(a);
    if (status == RS_OK && rank->output && !said->step_count)
        status = read_csv(a);
    if (status == RS_OK && rank->output && !said->comm_count)
        status = read_json(a);
    return status;
}
