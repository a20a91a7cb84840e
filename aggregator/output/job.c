/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What documents of a job need beside its operations, read once: ranks and whose recordings have the vendor's own documents, groups and
 * their ranks, the vendor's rows.
 */
#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { SHELF_BYTES = 16 << 20 }; /* of steps that all documents read */

static enum rs_status no_memory(struct rs_err *err)
{
    return rs_err_set(err, RS_NOMEM, "no memory for the ranks and groups of a job");
}

/* All rows of a read, which fit into memory: they come of what is said once a rank or a group, or of documents that were in memory. */
static enum rs_status load(struct rs_row_store *rows, enum rs_read read, struct rs_block *block,
                           struct rs_err *err)
{
    struct rows_reading reading = {0};
    const void *row = NULL;
    const struct rs_table *table = rs_read_def(read)->result;
    rs_block_begin(block, table);
    enum rs_status status = rows_reading_open(&reading, rows, read, err);
    while (status == RS_OK && (status = rows_reading_next(&reading, &row, err)) == RS_OK && row) {
        void *copy = rs_block_add(block);
        if (!copy) {
            status = no_memory(err);
            break;
        }
        for (size_t i = 0; i < table->column_count; i++) {
            const struct rs_column *column = &table->columns[i];
            const char *text;
            if (column->kind == RS_I64)
                rs_column_set_i64(column, copy, rs_column_i64(column, row));
            else if (column->kind != RS_F64 && (text = rs_column_text(column, row)))
                rs_block_set_text(block, column, copy, text, strlen(text));
        }
    }
    rows_reading_close(&reading);
    if (status == RS_OK && rs_block_end(block) != RS_OK)
        status = no_memory(err);
    return status;
}

/* --- ranks ---------------------------------------------------------------------------------------------------- */

static int by_rank(const void *key, const void *rank_)
{
    const struct job_rank *rank = rank_;
    const int64_t wanted = *(const int64_t *)key;
    return (wanted > rank->rank) - (wanted < rank->rank);
}

struct job_rank *job_rank(const struct job *job, int64_t rank)
{
    return job->rank_count
               ? bsearch(&rank, job->ranks, job->rank_count, sizeof *job->ranks, by_rank)
               : NULL;
}

static enum rs_status load_ranks(struct job *job, struct rs_err *err)
{
    struct rows_reading reading = {0};
    const void *row = NULL;
    size_t capacity = 0;
    enum rs_status status = rows_reading_open(&reading, job->rows, RS_READ_RANKS, err);
    while (status == RS_OK && (status = rows_reading_next(&reading, &row, err)) == RS_OK && row) {
        const struct rs_row_rank *rank = row;
        if (rs_mem_grow((void **)&job->ranks, &capacity, job->rank_count + 1, sizeof *job->ranks) !=
            RS_OK)
            status = no_memory(err);
        else
            job->ranks[job->rank_count++] =
                (struct job_rank){.rank = (int32_t)rank->rank,
                                  .has_step_numbers = rank->step_origin != RS_STEPS_NONE};
    }
    rows_reading_close(&reading);
    return status;
}

/* Whose recordings have steps of their own: the rows themselves are read where they are written. */
static enum rs_status load_has_steps(struct job *job, struct rs_err *err)
{
    struct rows_reading reading = {0};
    const void *row = NULL;
    enum rs_status status = rows_reading_open(&reading, job->rows, RS_READ_VENDOR_STEPS, err);
    while (status == RS_OK && (status = rows_reading_next(&reading, &row, err)) == RS_OK && row) {
        struct job_rank *rank = job_rank(job, ((const struct rs_row_vendor_step *)row)->rank);
        if (rank)
            rank->has_steps = true;
    }
    rows_reading_close(&reading);
    return status;
}

/* --- the vendor's rows ---------------------------------------------------------------------------------------- */

static enum rs_status load_comms(struct job *job, struct rs_err *err)
{
    enum rs_status status = load(job->rows, RS_READ_VENDOR_COMM_TIMES, &job->comm_block, err);
    if (status == RS_OK)
        status = load(job->rows, RS_READ_VENDOR_BANDWIDTHS, &job->band_block, err);
    if (status != RS_OK)
        return status;
    job->comms = job->comm_block.rows;
    job->bands = job->band_block.rows;
    job->band_firsts = rs_mem_calloc(job->comm_block.count + 1, sizeof *job->band_firsts);
    if (!job->band_firsts)
        return no_memory(err);
    size_t band = 0;
    for (size_t i = 0; i < job->comm_block.count; i++) {
        const struct rs_row_vendor_comm_time *comm = &job->comms[i];
        struct job_rank *rank = job_rank(job, comm->rank);
        if (rank && !rank->comm_count++)
            rank->comm_first = i;
        job->band_firsts[i] = band;
        while (band < job->band_block.count && job->bands[band].rank == comm->rank &&
               job->bands[band].comm_no == comm->row_no)
            band++;
    }
    job->band_firsts[job->comm_block.count] = band;
    return RS_OK;
}

static enum rs_status load_links(struct job *job, struct rs_err *err)
{
    const enum rs_status status = load(job->rows, RS_READ_VENDOR_MATRICES, &job->link_block, err);
    job->links = job->link_block.rows;
    for (size_t i = 0; status == RS_OK && i < job->link_block.count; i++) {
        struct job_rank *rank = job_rank(job, job->links[i].rank);
        if (rank && !rank->link_count++)
            rank->link_first = i;
    }
    return status;
}

/* --- groups ------------------------------------------------------------------------------------------------------ */

/* "0-3,8": what rows of comm_group hold, so it is ours and short. */
static enum rs_status take_ranks(const char *text, struct job_group *group)
{
    size_t capacity = 0;
    while (text && *text) {
        char *end;
        const long first = strtol(text, &end, 10);
        long last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (end == text || last < first || last - first >= INT32_MAX ||
            rs_mem_grow((void **)&group->ranks, &capacity,
                        group->rank_count + (size_t)(last - first) + 1,
                        sizeof *group->ranks) != RS_OK)
            return RS_NOMEM;
        for (long rank = first; rank <= last; rank++)
            group->ranks[group->rank_count++] = (int32_t)rank;
        text = *end == ',' ? end + 1 : end;
        if (*end && *end != ',')
            return RS_NOMEM;
    }
    return RS_OK;
}

static int by_id(const void *key, const void *group_)
{
    const struct job_group *group = group_;
    const int64_t wanted = *(const int64_t *)key;
    return (wanted > group->row->group_id) - (wanted < group->row->group_id);
}

const struct job_group *job_group(const struct job *job, int64_t group_id)
{
    return job->group_count
               ? bsearch(&group_id, job->groups, job->group_count, sizeof *job->groups, by_id)
               : NULL;
}

static enum rs_status load_groups(struct job *job, struct rs_err *err)
{
    enum rs_status status = load(job->rows, RS_READ_COMM_GROUPS, &job->group_block, err);
    if (status == RS_OK)
        job->groups = rs_mem_calloc(job->group_block.count + 1, sizeof *job->groups);
    if (status == RS_OK && !job->groups)
        status = no_memory(err);
    for (size_t i = 0; i < job->group_block.count && status == RS_OK; i++) {
        struct job_group *group = &job->groups[job->group_count++];
        group->row = rs_block_row(&job->group_block, i); /* by group_id */
        if (take_ranks(group->row->ranks, group) != RS_OK)
            status = no_memory(err);
    }
    return status;
}

/* --- life ---------------------------------------------------------------------------------------------------------- */

enum rs_status job_open(struct rs_row_store *rows, struct job **job_p, struct rs_err *err)
{
    struct job *job = rs_mem_calloc(1, sizeof *job);
    *job_p = job;
    if (!job)
        return no_memory(err);
    job->rows = rows;
    job->shelf = rs_mem_calloc(1, sizeof *job->shelf);
    enum rs_status status = job->shelf ? RS_OK : no_memory(err);
    if (status == RS_OK) {
        job->shelf->limit_bytes = SHELF_BYTES;
        status = load_ranks(job, err);
    }
    if (status == RS_OK)
        status = load_has_steps(job, err);
    if (status == RS_OK)
        status = load_comms(job, err);
    if (status == RS_OK)
        status = load_links(job, err);
    if (status == RS_OK)
        status = load_groups(job, err);
    if (status != RS_OK)
        job_close(job_p);
    return status;
}

void job_close(struct job **job_p)
{
    struct job *job = *job_p;
    if (!job)
        return;
    for (size_t i = 0; i < job->group_count; i++)
        rs_mem_free(job->groups[i].ranks);
    rs_block_fini(&job->comm_block);
    rs_block_fini(&job->band_block);
    rs_block_fini(&job->link_block);
    rs_block_fini(&job->group_block);
    if (job->shelf)
        step_shelf_fini(job->shelf);
    rs_mem_free(job->shelf);
    rs_mem_free(job->band_firsts);
    rs_mem_free(job->groups);
    rs_mem_free(job->ranks);
    rs_mem_free(job);
    *job_p = NULL;
}
