/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands where: each function below fills one row struct from the summaries and the join. A column that was
 * added to a table is filled here and nowhere else.
 *
 * Rows of one unit are collected into a block (texts are copied) and put when there are enough, so memory does
 * not grow with rows. Within a step, operations are numbered per group in the order of OpId, then put in the
 * order of the key, in which a segment wants its members.
 */
#include "aggregator/analysis/rows.h"

#include "aggregator/analysis/hang/hang.h"
#include "aggregator/analysis/rows_priv.h"
#include "aggregator/analysis/vendor_values.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { ROWS_AT_ONCE = 1024 };

/* --- tools ------------------------------------------------------------------------------------------- */

/* What is not known is absent. */
static int64_t known(int64_t value, bool is_known)
{
    return is_known ? value : RS_NULL;
}

/* Times and bytes come from strangers' files: sums stop at the largest number instead of wrapping. */
static int64_t sum_of(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : -INT64_MAX;
}

int64_t rs_group_id(const char *text)
{
    if (!*text)
        return 0;
    const int64_t id = (int64_t)XXH3_64bits(text, strlen(text));
    return id == 0 || id == RS_NULL ? 1 : id;
}

static const char *group_text(const struct rs_analysis *analysis, uint32_t group)
{
    const char *text = group == RS_NO_GROUP ? NULL : analysis->groups[group].text;
    return text ? text : "";
}

static const char *text_of(const struct rs_summary *summary, rs_str id)
{
    return id == RS_STR_NONE ? NULL : rs_strtab_text(&summary->strings, id);
}

static enum rs_status begin(struct rows_filler *filler, enum rs_unit_kind kind, int64_t a)
{
    const struct rs_unit unit = {.capture = filler->capture, .kind = kind, .a = a};
    return rs_store_begin(filler->store, &unit, &filler->writer, filler->err);
}

enum rs_status rows_flush(struct rows_filler *filler)
{
    const struct rs_table *table = filler->block.table;
    if (!table)
        return RS_OK;
    enum rs_status status = RS_OK;
    if (rs_block_end(&filler->block) != RS_OK)
        status = rs_err_set(filler->err, RS_NOMEM, "no memory for rows of %s", table->name);
    if (status == RS_OK)
        status = rs_writer_put(filler->writer, table, filler->block.rows, filler->block.count,
                               filler->err);
    rs_block_begin(&filler->block, table);
    return status;
}

/* From here on rows of this table. */
void rows_of(struct rows_filler *filler, const struct rs_table *table)
{
    rs_block_begin(&filler->block, table);
}

/* A row, all absent; NULL: what waited could not be put, or no memory (err says so). */
void *rows_add(struct rows_filler *filler)
{
    if (filler->block.count >= ROWS_AT_ONCE && rows_flush(filler) != RS_OK)
        return NULL;
    void *row = rs_block_add(&filler->block);
    if (!row)
        (void)rs_err_set(filler->err, RS_NOMEM, "no memory for rows of %s",
                         filler->block.table->name);
    return row;
}

/* Of the failure that add() met. */
enum rs_status rows_failed(const struct rows_filler *filler)
{
    return filler->err && filler->err->status != RS_OK ? filler->err->status : RS_NOMEM;
}

static enum rs_status commit(struct rows_filler *filler, enum rs_status status)
{
    if (status == RS_OK)
        return rs_writer_commit(&filler->writer, filler->err);
    rs_writer_abandon(&filler->writer);
    return status;
}

/* --- which waits of a step can be told ----------------------------------------------------------------- */

static const struct rs_comm_op *op_of(const struct rs_analysis *analysis,
                                      const struct rs_job_row *row)
{
    return &analysis->summaries[row->summary]->ops[row->op_index];
}

/* Forgets the steps of a summary that are numbered `step`. `*hint_p` is where the last one was: rows of
 * one step come together, so most calls end at once. */
static void forget_step(const struct rs_summary *summary, int64_t step, bool *known, size_t *hint_p)
{
    if (*hint_p < summary->step_count && summary->steps[*hint_p].step == step && !known[*hint_p])
        return;
    for (size_t k = 0; k < summary->step_count; k++) {
        if (summary->steps[k].step != step)
            continue;
        known[k] = false;
        *hint_p = k;
    }
}

/* The wait of a point-to-point row is unknown across clock domains, and when nobody is known to be its partner; then so is
 * the step's sum. */
static void mark_unknown(const struct rs_analysis *analysis, const size_t *first, size_t *hints,
                         bool *known)
{
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        if (!op->is_p2p || (op->has_wait && op->is_matched))
            continue;
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
            const uint32_t s = analysis->rows[r].summary;
            forget_step(analysis->summaries[s], op_of(analysis, &analysis->rows[r])->step,
                        known + first[s], &hints[s]);
        }
    }
}

enum rs_status rs_analysis_p2p_known(const struct rs_analysis *analysis, bool **known_p)
{
    size_t total = 0;
    size_t *first = rs_mem_calloc(2 * analysis->summary_count + 1, sizeof *first);
    if (!first)
        return RS_NOMEM;
    for (size_t i = 0; i < analysis->summary_count; i++) {
        first[i] = total;
        total += analysis->summaries[i]->step_count;
    }
    bool *known = rs_mem_calloc(total + 1, sizeof *known);
    if (known) {
        for (size_t i = 0; i < analysis->summary_count; i++)
            memset(known + first[i], analysis->ranks[i].takes_part,
                   analysis->summaries[i]->step_count);
        mark_unknown(analysis, first, first + analysis->summary_count, known);
        *known_p = known;
    }
    rs_mem_free(first);
    return known ? RS_OK : RS_NOMEM;
}

/* --- unit capture -------------------------------------------------------------------------------------- */

/* Runs of two or more as a-b. */
static void put_ranks(const struct rs_job_group *group, struct rs_buf *buf)
{
    rs_buf_reset(buf);
    for (size_t i = 0, end; i < group->rank_count; i = end) {
        end = i + 1;
        while (end < group->rank_count && group->ranks[end] == group->ranks[end - 1] + 1)
            end++;
        rs_buf_printf(buf, "%s%d", i ? "," : "", (int)group->ranks[i]);
        if (end - i > 1)
            rs_buf_printf(buf, "-%d", (int)group->ranks[end - 1]);
    }
}

static int by_text(const void *a_, const void *b_)
{
    const struct rs_job_group *const *a = a_, *const *b = b_;
    return strcmp((*a)->text ? (*a)->text : "", (*b)->text ? (*b)->text : "");
}

/* One row a text: the empty one, for operations whose group is unknown, is always there. */
static enum rs_status put_groups(struct rows_filler *filler)
{
    const struct rs_analysis *analysis = filler->analysis;
    static const struct rs_job_group unknown = {.size = -1};
    struct rs_buf ranks = {0};
    const struct rs_job_group **sorted =
        rs_mem_calloc(analysis->group_count + 1, sizeof(const struct rs_job_group *));
    if (!sorted)
        return rs_err_set(filler->err, RS_NOMEM, "no memory for groups");
    sorted[0] = &unknown;
    for (size_t i = 0; i < analysis->group_count; i++)
        sorted[i + 1] = &analysis->groups[i];
    qsort(sorted, analysis->group_count + 1, sizeof(const struct rs_job_group *), by_text);
    rows_of(filler, &rs_table_comm_group);
    enum rs_status status = RS_OK;
    for (size_t i = 0, end; i < analysis->group_count + 1 && status == RS_OK; i = end) {
        const struct rs_job_group *group = sorted[i]; /* of equal texts the one found first */
        for (end = i + 1; end < analysis->group_count + 1; end++) {
            if (by_text(&sorted[i], &sorted[end]) != 0)
                break;
            if (group == &unknown || (sorted[end] != &unknown && sorted[end] < group))
                group = sorted[end];
        }
        struct rs_row_comm_group *row = rows_add(filler);
        if (!row) {
            status = rows_failed(filler);
            break;
        }
        row->capture = filler->capture;
        row->group_id = rs_group_id(group->text ? group->text : "");
        rs_block_text(&filler->block, &row->name, group->text ? group->text : "");
        row->group_no = group == &unknown ? -1 : group - analysis->groups;
        if (group->ranks) {
            put_ranks(group, &ranks);
            rs_block_text(&filler->block, &row->ranks, rs_buf_text(&ranks));
        }
        row->size = rows_not_negative(group->size);
        row->is_inferred = group->is_inferred;
        row->is_ambiguous = group->is_ambiguous;
    }
    rs_buf_fini(&ranks);
    rs_mem_free(sorted);
    return status == RS_OK ? rows_flush(filler) : status;
}

static enum rs_status put_links(struct rows_filler *filler)
{
    const struct rs_analysis *analysis = filler->analysis;
    int64_t link_no = 0;
    rows_of(filler, &rs_table_link);
    for (size_t i = 0; i < analysis->link_count; i++) {
        const struct rs_job_link *link = &analysis->links[i];
        struct rs_row_link *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        link_no = i && link[-1].src == link->src && link[-1].dst == link->dst ? link_no + 1 : 0;
        row->capture = filler->capture;
        row->src = link->src;
        row->dst = link->dst;
        row->link_no = link_no;
        rs_block_text(&filler->block, &row->transport, link->transport);
        row->messages = link->count;
        row->bytes = link->bytes;
        if (link->busy >= 0)
            row->busy_ns = link->busy;
        if (link->median_bytes_per_s > 0)
            row->median_bytes_per_s = link->median_bytes_per_s;
        if (link->fast_bytes_per_s > 0)
            row->fast_bytes_per_s = link->fast_bytes_per_s;
        row->is_estimated = link->is_estimated;
    }
    return rows_flush(filler);
}

static enum rs_status put_notes(struct rows_filler *filler)
{
    rows_of(filler, &rs_table_note);
    for (size_t i = 0; i < filler->analysis->note_count; i++) {
        struct rs_row_note *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        row->capture = filler->capture;
        row->note_no = (int64_t)i;
        row->is_of_input = 0;
        rs_block_text(&filler->block, &row->text, filler->analysis->notes[i]);
    }
    return rows_flush(filler);
}

/* One row of what is missing; its number is the next. */
static struct rs_row_coverage *add_coverage(struct rows_filler *filler, int64_t *number_p,
                                            const char *what, int32_t rank)
{
    struct rs_row_coverage *row = rows_add(filler);
    if (!row)
        return NULL;
    row->capture = filler->capture;
    row->coverage_no = (*number_p)++;
    rs_block_text(&filler->block, &row->what, what);
    row->rank = rank;
    return row;
}

static enum rs_status put_coverage_of(struct rows_filler *filler, size_t index, int64_t *number_p)
{
    const struct rs_summary *summary = filler->analysis->summaries[index];
    const int32_t rank = summary->trace.rank;
    if (summary->trace.is_partial) {
        struct rs_row_coverage *row = add_coverage(filler, number_p, "partial_rank", rank);
        if (!row)
            return rows_failed(filler);
        rs_block_text(&filler->block, &row->reason,
                      text_of(summary, summary->trace.partial_reason));
    }
    if (!filler->analysis->ranks[index].takes_part &&
        !add_coverage(filler, number_p, "lost_time_base", rank))
        return rows_failed(filler);
    for (size_t k = 0; k < summary->step_count; k++) {
        if (!summary->steps[k].is_partial ||
            (k && summary->steps[k - 1].step == summary->steps[k].step &&
             summary->steps[k - 1].is_partial))
            continue;
        struct rs_row_coverage *row = add_coverage(filler, number_p, "partial_step", rank);
        if (!row)
            return rows_failed(filler);
        row->step = summary->steps[k].step;
    }
    return RS_OK;
}

static enum rs_status put_coverage(struct rows_filler *filler, int64_t *number_p)
{
    const struct rs_analysis *analysis = filler->analysis;
    enum rs_status status = RS_OK;
    rows_of(filler, &rs_table_coverage);
    for (size_t i = 0; i < analysis->missing_count; i++)
        if (!add_coverage(filler, number_p, "missing_rank", analysis->missing_ranks[i]))
            return rows_failed(filler);
    for (size_t i = 0; i < analysis->summary_count && status == RS_OK; i++)
        status = put_coverage_of(filler, i, number_p);
    return status == RS_OK ? rows_flush(filler) : status;
}

static enum rs_status put_clocks(struct rows_filler *filler)
{
    const struct rs_analysis *analysis = filler->analysis;
    rows_of(filler, &rs_table_clock);
    for (size_t i = 0; analysis->clocks && i < analysis->summary_count; i++) {
        const struct rs_job_clock *clock = &analysis->clocks[i];
        const bool is_known = clock->method != RS_CLOCK_NONE && analysis->ranks[i].takes_part;
        struct rs_row_clock *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        row->capture = filler->capture;
        row->rank = analysis->ranks[i].rank;
        row->at_ns = known(clock->at_ns, is_known);
        row->offset_ns = known(clock->offset_ns, is_known);
        row->drift_ppb = known(clock->drift_ppb, is_known);
        row->bound_ns = known(clock->bound_ns, is_known);
        rs_block_text(
            &filler->block, &row->method,
            rs_clock_method_text(is_known ? (enum rs_clock_method)clock->method : RS_CLOCK_NONE));
    }
    return rows_flush(filler);
}

static enum rs_status put_capture(struct rows_filler *filler)
{
    enum rs_status status = begin(filler, RS_UNIT_CAPTURE, 0);
    if (status != RS_OK)
        return status;
    status = put_groups(filler);
    if (status == RS_OK)
        status = put_links(filler);
    if (status == RS_OK)
        status = put_notes(filler);
    int64_t coverage_no = 0;
    if (status == RS_OK)
        status = put_coverage(filler, &coverage_no);
    if (status == RS_OK)
        status = put_clocks(filler);
    if (status == RS_OK)
        status = rows_put_job_steps(filler);
    if (status == RS_OK)
        status = rows_put_diagnosis(filler);
    if (status == RS_OK && filler->more->put)
        status = filler->more->put(filler->more->self, filler->writer, coverage_no,
                                   (int64_t)filler->analysis->note_count, filler->err);
    return commit(filler, status);
}

/* --- unit rank ------------------------------------------------------------------------------------------ */

static enum rs_status put_rank_row(struct rows_filler *filler, size_t index)
{
    const struct rs_summary *summary = filler->analysis->summaries[index];
    const struct rs_job_rank *rank = &filler->analysis->ranks[index];
    rows_of(filler, &rs_table_rank);
    struct rs_row_rank *row = rows_add(filler);
    if (!row)
        return rows_failed(filler);
    row->capture = filler->capture;
    row->rank = summary->trace.rank;
    row->part = 0;
    rs_block_text(&filler->block, &row->host, text_of(summary, summary->trace.host));
    row->world_size = known(summary->trace.world_size, summary->trace.world_size > 0);
    row->window_start_ns = known(summary->span_start, summary->trace.has_time_base);
    row->window_end_ns = known(summary->span_end, summary->trace.has_time_base);
    row->step_origin = (int64_t)summary->step_origin;
    row->takes_part = rank->takes_part;
    row->ops_last = rank->ops_last;
    row->caused_wait_ns = rank->caused_wait;
    row->own_wait_ns = rank->own_wait;
    return rows_flush(filler);
}

static enum rs_status put_devices(struct rows_filler *filler, const struct rs_summary *summary)
{
    rows_of(filler, &rs_table_rank_device);
    for (size_t k = 0; k < summary->device_count; k++) {
        const struct rs_device_row *device = &summary->devices[k];
        struct rs_row_rank_device *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        row->capture = filler->capture;
        row->rank = summary->trace.rank;
        row->part = 0;
        row->device = device->device;
        row->window_ns = device->window_end - device->window_start;
        row->busy_ns = device->busy;
        row->computing_ns = device->computing;
        row->communication_ns = device->communication;
        row->memory_ns = device->memory;
        row->overlapped_ns = device->overlapped;
    }
    return rows_flush(filler);
}

static void fill_step(struct rs_row_step_device *row, const struct rs_step_row *step)
{
    row->step = step->step;
    row->device = step->device;
    row->computing_ns = step->computing;
    row->communication_not_overlapped_ns = step->communication_not_overlapped;
    row->overlapped_ns = step->overlapped;
    row->communication_ns = step->communication;
    row->free_ns = step->free;
    row->stage_ns = step->stage;
    row->bubble_ns = step->bubble;
    row->communication_not_overlapped_exclude_receive_ns =
        step->communication_not_overlapped_exclude_receive;
    row->preparing_ns = known(step->preparing, step->has_work);
    row->window_ns = step->window_end - step->window_start;
    row->window_computing_ns = step->window_computing;
    row->window_exposed_ns = step->window_exposed;
    row->window_memory_ns = step->window_memory;
    row->idle_head_ns = step->idle_head;
    row->idle_inside_ns = step->idle_inside;
    row->idle_tail_ns = step->idle_tail;
    row->cpu_ns = rows_not_negative(step->cpu_ns);
    row->is_partial = step->is_partial;
}

static enum rs_status put_steps(struct rows_filler *filler, size_t index, const bool *p2p_is_known)
{
    const struct rs_summary *summary = filler->analysis->summaries[index];
    rows_of(filler, &rs_table_step_device);
    for (size_t k = 0; k < summary->step_count; k++) {
        struct rs_row_step_device *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        fill_step(row, &summary->steps[k]);
        row->capture = filler->capture;
        row->rank = summary->trace.rank;
        row->part = 0;
        row->row_no = (int64_t)k;
        row->p2p_wait_ns = known(rs_analysis_p2p_wait(filler->analysis, index, k), p2p_is_known[k]);
        row->is_inflated = rs_analysis_is_inflated(filler->analysis, index, k);
        row->is_in_means = rs_analysis_is_in_means(filler->analysis, index, k);
    }
    return rows_flush(filler);
}

/* The waits of ours that belong to a row of the vendor: those of its step, or of the only one there is. */
static int64_t vendor_wait(const struct rs_analysis *analysis, size_t index, const bool *is_known,
                           int64_t number)
{
    const struct rs_summary *summary = analysis->summaries[index];
    int64_t wait = RS_NULL;
    for (size_t k = 0; k < summary->step_count; k++) {
        if (number != RS_STEP_NONE ? summary->steps[k].step != number
                                   : summary->steps[k].step != summary->steps[0].step)
            continue;
        if (!is_known[k])
            return RS_NULL;
        wait = sum_of(wait == RS_NULL ? 0 : wait, rs_analysis_p2p_wait(analysis, index, k));
    }
    return wait;
}

static void fill_vendor_step(struct rows_filler *filler, const struct rs_summary *summary,
                             const struct rs_vendor_step *step, struct rs_row_vendor_step *row)
{
    const char **const fields[RS_VENDOR_STEP_FIELDS] = {
        &row->computing,  &row->communication_not_overlapped,
        &row->overlapped, &row->communication,
        &row->free,       &row->stage,
        &row->bubble,     &row->communication_not_overlapped_exclude_receive,
        &row->preparing};
    row->device = rows_not_negative(rs_vendor_device(summary, step));
    rs_block_text(&filler->block, &row->step, rs_vendor_text(summary, step->step));
    for (size_t k = 0; k < RS_VENDOR_STEP_FIELDS; k++)
        rs_block_text(&filler->block, fields[k], rs_vendor_digits(summary, step->digits[k]));
}

static enum rs_status put_vendor_steps(struct rows_filler *filler, size_t index,
                                       const bool *p2p_is_known)
{
    const struct rs_summary *summary = filler->analysis->summaries[index];
    rows_of(filler, &rs_table_vendor_step);
    for (size_t k = 0; rs_vendor_has_steps(summary) && k < summary->trace.vendor->step_count; k++) {
        const struct rs_vendor_step *step = &summary->trace.vendor->steps[k];
        struct rs_row_vendor_step *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        row->capture = filler->capture;
        row->rank = summary->trace.rank;
        row->part = 0;
        row->row_no = (int64_t)k;
        fill_vendor_step(filler, summary, step, row);
        row->p2p_wait_ns = vendor_wait(filler->analysis, index, p2p_is_known,
                                       rs_vendor_step_number(rs_vendor_text(summary, step->step)));
    }
    return rows_flush(filler);
}

static enum rs_status put_kernels(struct rows_filler *filler, const struct rs_summary *summary)
{
    rows_of(filler, &rs_table_kernel);
    for (size_t k = 0; k < summary->kernel_count; k++) {
        const struct rs_kernel_row *kernel = &summary->kernels[k];
        const char *name = text_of(summary, kernel->name);
        struct rs_row_kernel *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        row->capture = filler->capture;
        row->rank = summary->trace.rank;
        row->part = 0;
        row->row_no = (int64_t)k;
        row->device = kernel->device;
        rs_block_text(&filler->block, &row->name, name ? name : "");
        row->work_class = kernel->work_class;
        row->count = kernel->count;
        row->total_ns = kernel->total;
        row->min_ns = kernel->min;
        row->max_ns = kernel->max;
    }
    return rows_flush(filler);
}

static enum rs_status put_rank(struct rows_filler *filler, size_t index, const bool *p2p_is_known)
{
    const struct rs_summary *summary = filler->analysis->summaries[index];
    enum rs_status status = begin(filler, RS_UNIT_RANK, summary->trace.rank);
    if (status != RS_OK)
        return status;
    status = put_rank_row(filler, index);
    if (status == RS_OK)
        status = put_devices(filler, summary);
    if (status == RS_OK)
        status = put_steps(filler, index, p2p_is_known);
    if (status == RS_OK)
        status = put_vendor_steps(filler, index, p2p_is_known);
    if (status == RS_OK)
        status = rows_put_vendor_comms(filler, summary);
    if (status == RS_OK)
        status = put_kernels(filler, summary);
    return commit(filler, status);
}

static enum rs_status put_ranks_of(struct rows_filler *filler)
{
    bool *is_known = NULL;
    size_t first = 0;
    enum rs_status status = rs_analysis_p2p_known(filler->analysis, &is_known);
    if (status != RS_OK)
        return rs_err_set(filler->err, status, "no memory for rows of steps");
    for (size_t i = 0; i < filler->analysis->summary_count && status == RS_OK; i++) {
        status = put_rank(filler, i, is_known + first);
        first += filler->analysis->summaries[i]->step_count;
    }
    rs_mem_free(is_known);
    return status;
}

/* --- unit step -------------------------------------------------------------------------------------------- */

static int by_key(const void *a_, const void *b_)
{
    const struct numbered *a = a_, *b = b_;
    if (a->group_id != b->group_id)
        return a->group_id < b->group_id ? -1 : 1;
    return a->op_no < b->op_no ? -1 : a->op_no > b->op_no;
}

/* What its members say together. */
static void fill_sums(const struct rs_analysis *analysis, const struct rs_job_op *op,
                      struct rs_row_op *row)
{
    bool has_wait = op->has_wait, has_transfer = op->has_wait;
    row->wait_ns = row->transfer_ns = 0;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct rs_job_row *member = &analysis->rows[r];
        const struct rs_comm_op *own = op_of(analysis, member);
        const bool is_first = r == op->row_first;
        if (own->bytes >= 0 && (row->bytes == RS_NULL || own->bytes > row->bytes))
            row->bytes = own->bytes;
        if (is_first || own->start < row->first_start_ns)
            row->first_start_ns = own->start;
        if (is_first || own->end > row->last_end_ns)
            row->last_end_ns = own->end;
        row->wait_ns = sum_of(row->wait_ns, member->wait);
        row->transfer_ns = sum_of(row->transfer_ns, member->transfer);
        has_wait = has_wait && member->has_wait;
        has_transfer = has_transfer && member->has_wait && member->has_transfer;
    }
    row->wait_ns = known(row->wait_ns, has_wait);
    row->transfer_ns = known(row->transfer_ns, has_transfer);
}

static enum rs_status put_ops(struct rows_filler *filler, const struct numbered *ops, size_t count)
{
    rows_of(filler, &rs_table_op);
    for (size_t i = 0; i < count; i++) {
        const struct rs_job_op *op = &filler->analysis->ops[ops[i].op];
        struct rs_row_op *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        const struct rs_job_op_figures figures = rs_analysis_op_figures(filler->analysis, op);
        fill_sums(filler->analysis, op, row);
        row->longest_ns = rows_not_negative(figures.longest_ns);
        rs_block_text(&filler->block, &row->transport, figures.transport);
        row->root_no = rows_not_negative(figures.root_no);
        row->has_hops = figures.has_hops;
        row->capture = filler->capture;
        row->step = op->step;
        row->group_id = ops[i].group_id;
        row->op_no = ops[i].op_no;
        row->op = op->type;
        row->is_p2p = op->is_p2p;
        row->seq = rows_not_negative(op->seq);
        row->is_matched = op->is_matched;
        row->has_wait = op->has_wait;
        row->last_rank = rows_not_negative(op->last_rank);
        row->ranks_seen = (int64_t)op->row_count;
        row->ranks_expected = rows_not_negative(op->ranks_expected);
        row->is_partial = op->coverage != RS_COVERAGE_EXACT;
    }
    return rows_flush(filler);
}

static void fill_member(const struct rs_job_op *op, const struct rs_job_row *member,
                        const struct rs_comm_op *own, struct rs_row_op_member *row)
{
    row->step = op->step;
    row->rank = member->rank;
    row->op = own->type;
    row->device = rows_not_negative(own->device);
    row->stream = own->stream;
    row->call_order = own->call_order;
    row->call_ns = own->call_start;
    row->start_ns = own->start;
    row->end_ns = own->end;
    row->bytes = rows_not_negative(own->bytes);
    row->wait_ns = known(member->wait, member->has_wait);
    row->transfer_ns = known(member->transfer, member->has_wait && member->has_transfer);
    row->is_partial = member->is_partial;
}

static enum rs_status put_members(struct rows_filler *filler, const struct numbered *ops,
                                  size_t count)
{
    const struct rs_analysis *analysis = filler->analysis;
    rows_of(filler, &rs_table_op_member);
    for (size_t i = 0; i < count; i++) {
        const struct rs_job_op *op = &analysis->ops[ops[i].op];
        for (size_t r = 0; r < op->row_count; r++) {
            const struct rs_job_row *member = &analysis->rows[op->row_first + r];
            const struct rs_summary *summary = analysis->summaries[member->summary];
            const struct rs_comm_op *own = &summary->ops[member->op_index];
            struct rs_row_op_member *row = rows_add(filler);
            if (!row)
                return rows_failed(filler);
            fill_member(op, member, own, row);
            row->capture = filler->capture;
            row->group_id = ops[i].group_id;
            row->op_no = ops[i].op_no;
            row->member_no = (int64_t)r;
            rs_block_text(&filler->block, &row->transport, text_of(summary, own->transport));
            rs_block_text(&filler->block, &row->vendor_name, text_of(summary, own->op_text));
        }
    }
    return rows_flush(filler);
}

/* Operations [first, end) of one step: OpId's order is by group, so a group's numbers run on. */
static void number_ops(const struct rows_filler *filler, size_t first, size_t end,
                       struct numbered *ops)
{
    for (size_t i = first; i < end; i++) {
        const uint32_t group = filler->analysis->ops[i].group;
        struct numbered *one = &ops[i - first];
        *one = (struct numbered){.group_id = group == RS_NO_GROUP ? 0 : filler->group_ids[group],
                                 .op = i};
        if (i > first && one[-1].group_id == one->group_id)
            one->op_no = one[-1].op_no + 1;
    }
    qsort(ops, end - first, sizeof *ops, by_key);
}

static enum rs_status put_step(struct rows_filler *filler, size_t first, size_t end,
                               struct numbered *ops)
{
    number_ops(filler, first, end, ops);
    enum rs_status status = begin(filler, RS_UNIT_STEP, filler->analysis->ops[first].step);
    if (status != RS_OK)
        return status;
    status = put_ops(filler, ops, end - first);
    if (status == RS_OK)
        status = put_members(filler, ops, end - first);
    if (status == RS_OK)
        status = rows_put_packets(filler, ops, end - first);
    if (status == RS_OK)
        status = rows_put_op_links(filler, ops, end - first);
    return commit(filler, status);
}

static enum rs_status put_steps_of_job(struct rows_filler *filler)
{
    const struct rs_analysis *analysis = filler->analysis;
    struct numbered *ops = NULL;
    size_t capacity = 0;
    enum rs_status status = RS_OK;
    for (size_t i = 0, end; i < analysis->op_count && status == RS_OK; i = end) {
        for (end = i + 1; end < analysis->op_count; end++)
            if (analysis->ops[end].step != analysis->ops[i].step)
                break;
        status = rs_mem_grow((void **)&ops, &capacity, end - i, sizeof *ops);
        if (status == RS_OK)
            status = put_step(filler, i, end, ops);
        else
            (void)rs_err_set(filler->err, status, "no memory for the operations of a step");
    }
    rs_mem_free(ops);
    return status;
}

/* --- all --------------------------------------------------------------------------------------------------- */

enum rs_status rs_analysis_rows(const struct rs_analysis *analysis, int64_t capture,
                                struct rs_row_store *store, struct rs_err *err)
{
    return rs_analysis_rows_with(analysis, capture, store, &(struct rs_rows_more){.put = NULL},
                                 err);
}

enum rs_status rs_analysis_rows_with(const struct rs_analysis *analysis, int64_t capture,
                                     struct rs_row_store *store, const struct rs_rows_more *more,
                                     struct rs_err *err)
{
    struct rows_filler filler = {
        .analysis = analysis, .capture = capture, .store = store, .more = more, .err = err};
    filler.group_ids = rs_mem_calloc(analysis->group_count + 1, sizeof *filler.group_ids);
    if (!filler.group_ids)
        return rs_err_set(err, RS_NOMEM, "no memory for rows");
    for (size_t i = 0; i < analysis->group_count; i++)
        filler.group_ids[i] = rs_group_id(group_text(analysis, (uint32_t)i));
    enum rs_status status = put_capture(&filler);
    if (status == RS_OK)
        status = put_ranks_of(&filler);
    if (status == RS_OK)
        status = put_steps_of_job(&filler);
    rs_block_fini(&filler.block);
    rs_mem_free(filler.group_ids);
    return status;
}

/* Its groups and findings in the place of an analysis's: the same rows are made from them. */
enum rs_status rs_hang_rows(const struct rs_hang *hang, int64_t capture, struct rs_row_store *store,
                            struct rs_err *err)
{
    struct rs_diagnosis diagnosis = {.findings = hang->findings,
                                     .finding_count = hang->finding_count};
    struct rs_analysis analysis = {.diagnosis = &diagnosis, .group_count = hang->group_count};
    struct rows_filler filler = {
        .analysis = &analysis, .capture = capture, .store = store, .err = err};
    enum rs_status status = RS_OK;
    analysis.groups = rs_mem_calloc(hang->group_count + 1, sizeof *analysis.groups);
    filler.group_ids = rs_mem_calloc(hang->group_count + 1, sizeof *filler.group_ids);
    if (!analysis.groups || !filler.group_ids)
        status = rs_err_set(err, RS_NOMEM, "no memory for rows");
    for (size_t i = 0; i < hang->group_count && status == RS_OK; i++) {
        const struct rs_hang_group *group = &hang->groups[i];
        analysis.groups[i] = (struct rs_job_group){.text = group->text,
                                                   .ranks = group->ranks,
                                                   .rank_count = group->rank_count,
                                                   .size = (int64_t)group->rank_count,
                                                   .is_inferred = group->is_inferred};
        filler.group_ids[i] = rs_group_id(group->text);
    }
    if (status == RS_OK)
        status = begin(&filler, RS_UNIT_CAPTURE, 0);
    if (status == RS_OK) {
        status = put_groups(&filler);
        if (status == RS_OK)
            status = rows_put_findings(&filler);
        status = commit(&filler, status);
    }
    rs_block_fini(&filler.block);
    rs_mem_free(filler.group_ids);
    rs_mem_free(analysis.groups);
    return status;
}
