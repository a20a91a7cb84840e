/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of one step as four reads say them, put together: a step at a time, so that memory is that of a step.
 *
 *     job_op      step group op_no  ...                 --> ops[]       OpId's order
 *     job_member  step group op_no member_no ...        --> members[]   each op's behind each other
 *     job_packet  step group op_no member_no packet_no  --> packets[]   each member's
 *     job_link    step group op_no src dst              --> links[]     each op's
 *
 * The reads have one order, so each is stepped through once. Several documents are made of the same steps: the first one that
 * reads them leaves them on the job's shelf, and the others take them from there. Where they are more than its
 * limit, nothing is kept, and each document reads them again.
 */
#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <string.h>

enum { OPS, MEMBERS, PACKETS, LINKS, READS };

static const enum rs_read reads[READS] = {RS_READ_JOB_OPS, RS_READ_JOB_MEMBERS, RS_READ_JOB_PACKETS,
                                          RS_READ_JOB_LINKS};

/* A step with what its rows lie in. */
struct step_kept {
    struct step_rows rows;
    size_t op_capacity, member_capacity;
    struct rs_block blocks[READS]; /* rows of the step, and their texts */
};

struct step_reading {
    struct step_rows step;    /* first: what callers see */
    struct step_kept own;     /* what was read last */
    struct step_shelf *shelf; /* NULL: none */
    size_t at;                /* the next step, where they come from the shelf */
    bool is_shelved;          /* they do */
    bool shelves;             /* what is read goes onto the shelf */
    struct rows_reading readings[READS];
    const void *next[READS]; /* the first row that is not in the step; lent by its reading */
};

/* What rows of all four begin with. */
struct step_key {
    int64_t step, group_id, op_no;
};

static struct step_key key_of(const void *row)
{
    struct step_key key;
    memcpy(&key, row, sizeof key);
    return key;
}

static bool is_same(const struct step_key *a, const struct step_key *b)
{
    return a->step == b->step && a->group_id == b->group_id && a->op_no == b->op_no;
}

/* ---- the shelf ---- */

static void kept_fini(struct step_kept *kept)
{
    for (size_t i = 0; i < READS; i++)
        rs_block_fini(&kept->blocks[i]);
    rs_mem_free(kept->rows.ops);
    rs_mem_free(kept->rows.members);
    *kept = (struct step_kept){0};
}

static size_t kept_bytes(const struct step_kept *kept)
{
    size_t bytes = sizeof *kept + kept->op_capacity * sizeof *kept->rows.ops +
                   kept->member_capacity * sizeof *kept->rows.members;
    for (size_t i = 0; i < READS; i++)
        bytes += kept->blocks[i].capacity * kept->blocks[i].table->row_bytes +
                 kept->blocks[i].texts.capacity;
    return bytes;
}

void step_shelf_fini(struct step_shelf *shelf)
{
    for (size_t i = 0; i < shelf->count; i++)
        kept_fini(&shelf->steps[i]);
    rs_mem_free(shelf->steps);
    *shelf = (struct step_shelf){.limit_bytes = shelf->limit_bytes};
}

/* From now on every document reads for itself. */
static void close_shelf(struct step_reading *reading)
{
    step_shelf_fini(reading->shelf);
    reading->shelf->is_closed = true;
    reading->shelves = false;
}

/* What was read last is not lent any more. */
static void shelve(struct step_reading *reading)
{
    struct step_shelf *shelf = reading->shelf;
    if (!reading->shelves || !reading->own.rows.op_count)
        return;
    shelf->bytes += kept_bytes(&reading->own);
    if (shelf->bytes > shelf->limit_bytes ||
        rs_mem_grow((void **)&shelf->steps, &shelf->capacity, shelf->count + 1,
                    sizeof *shelf->steps) != RS_OK) {
        close_shelf(reading);
        return;
    }
    shelf->steps[shelf->count++] = reading->own;
    reading->own = (struct step_kept){0};
}

/* ---- reading ---- */

static enum rs_status open_reads(struct step_reading *reading, struct rs_row_store *rows,
                                 struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < READS && status == RS_OK; i++) {
        status = rows_reading_open(&reading->readings[i], rows, reads[i], err);
        if (status == RS_OK)
            status = rows_reading_next(&reading->readings[i], &reading->next[i], err);
    }
    return status;
}

enum rs_status step_rows_open(struct rs_row_store *rows, struct step_shelf *shelf,
                              struct step_rows **step_p, struct rs_err *err)
{
    struct step_reading *reading = rs_mem_calloc(1, sizeof *reading);
    *step_p = NULL;
    if (!reading)
        return rs_err_set(err, RS_NOMEM, "no memory to read the operations of a step");
    *step_p = &reading->step;
    reading->shelf = shelf;
    reading->is_shelved = shelf && shelf->is_whole;
    if (reading->is_shelved)
        return RS_OK;
    reading->shelves = shelf && !shelf->is_closed && !shelf->is_in_use;
    if (reading->shelves)
        shelf->is_in_use = true;
    const enum rs_status status = open_reads(reading, rows, err);
    if (status != RS_OK)
        step_rows_close(step_p);
    return status;
}

void step_rows_close(struct step_rows **step_p)
{
    struct step_reading *reading = (struct step_reading *)*step_p;
    if (!reading)
        return;
    if (reading->shelves && !reading->shelf->is_whole) /* it was not read to the end */
        step_shelf_fini(reading->shelf);
    else if (reading->shelves)
        reading->shelf->is_in_use = false;
    for (size_t i = 0; i < READS; i++)
        rows_reading_close(&reading->readings[i]);
    kept_fini(&reading->own);
    rs_mem_free(reading);
    *step_p = NULL;
}

static enum rs_status no_memory(struct rs_err *err)
{
    return rs_err_set(err, RS_NOMEM, "no memory for the operations of a step");
}

static enum rs_status copy_row(struct rs_block *block, const void *from, struct rs_err *err)
{
    void *row = rs_block_add(block);
    if (!row)
        return no_memory(err);
    for (size_t i = 0; i < block->table->column_count; i++) {
        const struct rs_column *column = &block->table->columns[i];
        const char *text;
        if (column->kind == RS_I64)
            rs_column_set_i64(column, row, rs_column_i64(column, from));
        else if ((text = rs_column_text(column, from)))
            rs_block_set_text(block, column, row, text, strlen(text));
    }
    return RS_OK;
}

/* The rows of one read that lie in the step. */
static enum rs_status take(struct step_reading *reading, size_t which, struct rs_err *err)
{
    struct rs_block *block = &reading->own.blocks[which];
    enum rs_status status = RS_OK;
    rs_block_begin(block, rs_read_def(reads[which])->result);
    while (status == RS_OK && reading->next[which] &&
           key_of(reading->next[which]).step == reading->own.rows.step) {
        status = copy_row(block, reading->next[which], err);
        if (status == RS_OK)
            status = rows_reading_next(&reading->readings[which], &reading->next[which], err);
    }
    if (status == RS_OK && rs_block_end(block) != RS_OK)
        status = no_memory(err);
    return status;
}

/* The end of the rows from `first` on that have this key. */
static size_t run_end(const struct rs_block *block, size_t first, const struct step_key *key)
{
    size_t end = first;
    while (end < block->count) {
        const struct step_key own = key_of(rs_block_row(block, end));
        if (!is_same(&own, key))
            break;
        end++;
    }
    return end;
}

/* Members [first, end) of one operation, and which packets are whose. */
static void index_members(struct step_kept *kept, size_t first, size_t end, size_t packet_end,
                          size_t *packet_p)
{
    for (size_t m = first; m < end; m++) {
        struct step_member *member = &kept->rows.members[m];
        member->row = rs_block_row(&kept->blocks[MEMBERS], m);
        member->packet_first = *packet_p;
        while (*packet_p < packet_end &&
               kept->rows.packets[*packet_p].member_no == member->row->member_no)
            ++*packet_p;
        member->packet_end = *packet_p;
    }
}

static enum rs_status index_step(struct step_kept *kept, struct rs_err *err)
{
    struct step_rows *step = &kept->rows;
    const struct rs_block *blocks = kept->blocks;
    size_t member = 0, packet = 0, link = 0;
    step->op_count = blocks[OPS].count;
    step->member_count = blocks[MEMBERS].count;
    step->packets = blocks[PACKETS].rows;
    step->links = blocks[LINKS].rows;
    if (rs_mem_grow((void **)&step->ops, &kept->op_capacity, step->op_count, sizeof *step->ops) !=
            RS_OK ||
        rs_mem_grow((void **)&step->members, &kept->member_capacity, step->member_count,
                    sizeof *step->members) != RS_OK)
        return no_memory(err);
    for (size_t i = 0; i < step->op_count; i++) {
        struct step_op *op = &step->ops[i];
        op->row = rs_block_row(&blocks[OPS], i);
        const struct step_key key = key_of(op->row);
        op->member_first = member;
        op->member_end = run_end(&blocks[MEMBERS], member, &key);
        op->link_first = link;
        op->link_end = run_end(&blocks[LINKS], link, &key);
        index_members(kept, op->member_first, op->member_end,
                      run_end(&blocks[PACKETS], packet, &key), &packet);
        member = op->member_end;
        link = op->link_end;
    }
    return RS_OK;
}

enum rs_status step_rows_next(struct step_rows *step, bool *has_p, struct rs_err *err)
{
    struct step_reading *reading = (struct step_reading *)step;
    enum rs_status status = RS_OK;
    if (reading->is_shelved) {
        *has_p = reading->at < reading->shelf->count;
        if (*has_p)
            *step = reading->shelf->steps[reading->at++].rows;
        return RS_OK;
    }
    shelve(reading);
    *has_p = reading->next[OPS] != NULL;
    if (!*has_p) {
        if (reading->shelves)
            reading->shelf->is_whole = true;
        return RS_OK;
    }
    reading->own.rows.step = key_of(reading->next[OPS]).step;
    for (size_t i = 0; i < READS && status == RS_OK; i++)
        status = take(reading, i, err);
    if (status == RS_OK)
        status = index_step(&reading->own, err);
    if (status == RS_OK)
        *step = reading->own.rows;
    return status;
}

/* ---- the operations alone ---- */

enum rs_status ops_reading_open(struct ops_reading *ops, const struct job *job, struct rs_err *err)
{
    *ops = (struct ops_reading){.shelf = job->shelf->is_whole ? job->shelf : NULL};
    return ops->shelf ? RS_OK : rows_reading_open(&ops->reading, job->rows, reads[OPS], err);
}

enum rs_status ops_reading_next(struct ops_reading *ops, const struct rs_row_job_op **op_p,
                                struct rs_err *err)
{
    const void *row = NULL;
    if (!ops->shelf) {
        const enum rs_status status = rows_reading_next(&ops->reading, &row, err);
        *op_p = row;
        return status;
    }
    while (ops->step < ops->shelf->count && ops->op == ops->shelf->steps[ops->step].rows.op_count) {
        ops->step++;
        ops->op = 0;
    }
    *op_p =
        ops->step < ops->shelf->count ? ops->shelf->steps[ops->step].rows.ops[ops->op++].row : NULL;
    return RS_OK;
}

void ops_reading_close(struct ops_reading *ops)
{
    rows_reading_close(&ops->reading);
}
