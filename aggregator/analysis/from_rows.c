/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table by table, in the order in which one needs the other:
 *
 *     rank, coverage, input --> a summary for each rank --+
 *     step_device           --> its steps                 +--> what analyses count of summaries: world, means, complete steps
 *     comm_group --> groups       op, op_member --> operations and their rows, both read in the order of one key
 *     link, note                  finding, ..., undecided, diagnosis, wait_cause, unjudged --> the diagnosis (diagnosis_read.c)
 *
 * Rows may come from a database that others write, too: what does not fit together is RS_FORMAT, never a step outside of an array.
 */
#include "aggregator/analysis/from_rows.h"

#include "aggregator/analysis/analysis_priv.h"
#include "aggregator/analysis/from_rows_priv.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- tools -------------------------------------------------------------------------------------------------------- */

enum rs_status rows_read(struct rows_reader *reader, enum rs_read read, rows_take_fn *take)
{
    const struct rs_read_args args = {.capture = reader->capture};
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    enum rs_status status = rs_read_open(reader->store, read, &args, &cursor, reader->err);
    while (status == RS_OK) {
        status = rs_cursor_next(cursor, &block, reader->err);
        for (size_t i = 0; i < block.count && status == RS_OK; i++)
            status = take(reader, rs_block_row(&block, i));
    }
    if (status == RS_NOMEM)
        status =
            rs_err_set(reader->err, RS_NOMEM, "no memory for rows of %s", rs_read_def(read)->name);
    else if (status == RS_FORMAT)
        status = rs_err_set(reader->err, RS_FORMAT, "rows of %s do not fit those of other tables",
                            rs_read_def(read)->name);
    rs_block_fini(&block);
    rs_cursor_close(&cursor);
    return status == RS_END ? RS_OK : status;
}

bool rows_group_index(const struct rows_reader *reader, int64_t group_id, uint32_t *group_p)
{
    size_t low = 0, high = reader->group_id_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (reader->group_ids[middle].id < group_id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == reader->group_id_count || reader->group_ids[low].id != group_id)
        return false;
    *group_p = reader->group_ids[low].group;
    return true;
}

/* SIZE_MAX: the rank has no row. */
static size_t summary_of(const struct rows_reader *reader, int64_t rank)
{
    size_t low = 0, high = reader->summary_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (reader->summaries[middle].trace.rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < reader->summary_count && reader->summaries[low].trace.rank == rank ? low
                                                                                    : SIZE_MAX;
}

static enum rs_status keep_text(struct rs_summary *summary, const char *text, rs_str *id_p)
{
    *id_p = RS_STR_NONE;
    return text ? rs_strtab_add(&summary->strings, text, strlen(text), id_p) : RS_OK;
}

static int64_t value_or(int64_t value, int64_t unknown)
{
    return value == RS_NULL ? unknown : value;
}

static bool is_rank(int64_t value)
{
    return value >= 0 && value <= INT32_MAX;
}

/* ---- ranks ---------------------------------------------------------------------------------------------------------- */

static enum rs_status take_capture(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_capture *row = row_;
    reader->has_capture = true;
    (void)snprintf(reader->clock, sizeof reader->clock, "%s", row->clock ? row->clock : "");
    return RS_OK;
}

static enum rs_status take_rank(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_rank *row = row_;
    if (row->part != 0)
        return RS_OK;
    if (!is_rank(row->rank) || !rows_is_length(row->caused_wait_ns) ||
        !rows_is_length(row->own_wait_ns) || !rows_is_length(row->ops_last))
        return RS_FORMAT;
    if (rs_mem_grow((void **)&reader->summaries, &reader->summary_capacity,
                    reader->summary_count + 1, sizeof *reader->summaries) != RS_OK ||
        rs_mem_grow((void **)&reader->facts, &reader->fact_capacity, reader->summary_count + 1,
                    sizeof *reader->facts) != RS_OK)
        return RS_NOMEM;
    struct rs_summary *summary = &reader->summaries[reader->summary_count];
    if (reader->summary_count && summary[-1].trace.rank >= row->rank)
        return RS_FORMAT; /* they come in order, each once */
    if (rs_summary_init(summary) != RS_OK)
        return RS_NOMEM;
    reader->facts[reader->summary_count++] = (struct rank_facts){.takes_part = row->takes_part == 1,
                                                                 .ops_last = row->ops_last,
                                                                 .caused = row->caused_wait_ns,
                                                                 .own = row->own_wait_ns};
    summary->trace.rank = (int32_t)row->rank;
    summary->trace.world_size =
        row->world_size > 0 && row->world_size <= INT32_MAX ? (int32_t)row->world_size : -1;
    summary->trace.has_time_base = row->window_start_ns != RS_NULL;
    summary->span_start = value_or(row->window_start_ns, 0);
    summary->span_end = value_or(row->window_end_ns, 0);
    return keep_text(summary, row->host, &summary->trace.host);
}

static enum rs_status take_coverage(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_coverage *row = row_;
    const size_t index = summary_of(reader, row->rank);
    if (index == SIZE_MAX || !row->what)
        return RS_OK;
    struct rs_summary *summary = &reader->summaries[index];
    if (strcmp(row->what, "partial_rank") == 0) {
        summary->trace.is_partial = true;
        return keep_text(summary, row->reason, &summary->trace.partial_reason);
    }
    return strcmp(row->what, "dropped") == 0 && row->reason
               ? rs_trace_info_drop(&summary->trace, &summary->strings, row->reason,
                                    value_or(row->count, 0))
               : RS_OK;
}

static enum rs_status take_input(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_input *row = row_;
    const size_t index = summary_of(reader, row->rank);
    if (index != SIZE_MAX && row->events_read != RS_NULL)
        reader->summaries[index].trace.events_read =
            join_sum(reader->summaries[index].trace.events_read, row->events_read);
    return RS_OK;
}

static enum rs_status take_step(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_step_device *row = row_;
    const size_t index = summary_of(reader, row->rank);
    if (row->part != 0)
        return RS_OK;
    const int64_t lengths[] = {
        row->window_ns,    row->window_computing_ns, row->window_exposed_ns, row->window_memory_ns,
        row->idle_head_ns, row->idle_inside_ns,      row->idle_tail_ns};
    if (index == SIZE_MAX || row->device < INT32_MIN || row->device > INT32_MAX)
        return RS_FORMAT;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        if (!rows_is_length(lengths[i]))
            return RS_FORMAT;
    struct rs_summary *summary = &reader->summaries[index];
    if (rs_mem_grow((void **)&summary->steps, &summary->step_capacity, summary->step_count + 1,
                    sizeof *summary->steps) != RS_OK)
        return RS_NOMEM;
    reader->is_triggered = reader->is_triggered || row->is_inflated == 1;
    summary->steps[summary->step_count++] = (struct rs_step_row){
        .step = row->step,
        .device = (int32_t)row->device,
        .is_partial = row->is_partial == 1,
        .has_work = row->preparing_ns != RS_NULL,
        .computing = row->computing_ns,
        .communication_not_overlapped = row->communication_not_overlapped_ns,
        .overlapped = row->overlapped_ns,
        .communication = row->communication_ns,
        .free = row->free_ns,
        .stage = row->stage_ns,
        .bubble = row->bubble_ns,
        .communication_not_overlapped_exclude_receive =
            row->communication_not_overlapped_exclude_receive_ns,
        .preparing = value_or(row->preparing_ns, 0),
        .window_end = row->window_ns,
        .window_computing = row->window_computing_ns,
        .window_exposed = row->window_exposed_ns,
        .window_memory = row->window_memory_ns,
        .idle_head = row->idle_head_ns,
        .idle_inside = row->idle_inside_ns,
        .idle_tail = row->idle_tail_ns,
        .cpu_ns = value_or(row->cpu_ns, -1),
        .input_ns = -1,
    };
    return RS_OK;
}

/* ---- groups, links, notes --------------------------------------------------------------------------------------------- */

/* Indices are of here: a number in a row decides nothing but whether it stands for the unknown group. */
static enum rs_status take_group(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_comm_group *row = row_;
    struct rs_analysis *out = reader->out;
    if (reader->group_id_count && reader->group_ids[reader->group_id_count - 1].id >= row->group_id)
        return RS_FORMAT; /* they come in the order of their ids */
    if (rs_mem_grow((void **)&reader->group_ids, &reader->group_id_capacity,
                    reader->group_id_count + 1, sizeof *reader->group_ids) != RS_OK ||
        rs_mem_grow((void **)&out->groups, &reader->group_capacity, out->group_count + 1,
                    sizeof *out->groups) != RS_OK)
        return RS_NOMEM;
    reader->group_ids[reader->group_id_count++] = (struct group_id){
        .id = row->group_id, .group = row->group_no < 0 ? RS_NO_GROUP : (uint32_t)out->group_count};
    if (row->group_no < 0)
        return RS_OK;
    struct rs_job_group *group = &out->groups[out->group_count++];
    *group = (struct rs_job_group){.text = rs_mem_strdup(row->name ? row->name : ""),
                                   .size = value_or(row->size, -1),
                                   .is_inferred = row->is_inferred == 1,
                                   .is_ambiguous = row->is_ambiguous == 1};
    return group->text ? RS_OK : RS_NOMEM;
}

static enum rs_status take_link(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_link *row = row_;
    struct rs_analysis *out = reader->out;
    rs_str transport;
    if (!is_rank(row->src) || !is_rank(row->dst))
        return RS_FORMAT;
    if (rs_mem_grow((void **)&out->links, &reader->link_capacity, out->link_count + 1,
                    sizeof *out->links) != RS_OK ||
        keep_text(&reader->summaries[0], row->transport ? row->transport : "", &transport) != RS_OK)
        return RS_NOMEM;
    out->links[out->link_count++] = (struct rs_job_link){
        .src = (int32_t)row->src,
        .dst = (int32_t)row->dst,
        .transport = rs_strtab_text(&reader->summaries[0].strings, transport),
        .bytes = row->bytes,
        .count = row->messages,
        .busy = value_or(row->busy_ns, -1),
        .median_bytes_per_s = row->median_bytes_per_s > 0 ? row->median_bytes_per_s : 0,
        .fast_bytes_per_s = row->fast_bytes_per_s > 0 ? row->fast_bytes_per_s : 0,
        .is_estimated = row->is_estimated == 1};
    return RS_OK;
}

static enum rs_status take_note(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_note *row = row_;
    struct rs_analysis *out = reader->out;
    if (row->is_of_input)
        return RS_OK;
    if (rs_mem_grow((void **)&out->notes, &reader->note_capacity, out->note_count + 1,
                    sizeof *out->notes) != RS_OK)
        return RS_NOMEM;
    out->notes[out->note_count] = rs_mem_strdup(row->text ? row->text : "");
    return out->notes[out->note_count++] ? RS_OK : RS_NOMEM;
}

/* ---- operations -------------------------------------------------------------------------------------------------------- */

static bool is_op_type(int64_t type)
{
    return type >= 0 && type < RS_OP_TYPE_COUNT;
}

static enum rs_status take_op(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_op *row = row_;
    struct rs_analysis *out = reader->out;
    uint32_t group;
    rs_str transport;
    if (!is_op_type(row->op) || !rows_group_index(reader, row->group_id, &group) ||
        (row->last_rank != RS_NULL && !is_rank(row->last_rank)))
        return RS_FORMAT;
    if (rs_mem_grow((void **)&out->ops, &reader->op_capacity, out->op_count + 1,
                    sizeof *out->ops) != RS_OK ||
        rs_mem_grow((void **)&out->figures, &reader->figure_capacity, out->op_count + 1,
                    sizeof *out->figures) != RS_OK ||
        rs_mem_grow((void **)&reader->op_keys, &reader->op_key_capacity, out->op_count + 1,
                    sizeof *reader->op_keys) != RS_OK ||
        keep_text(&reader->summaries[0], row->transport, &transport) != RS_OK)
        return RS_NOMEM;
    reader->op_keys[out->op_count] =
        (struct op_key){.step = row->step, .group_id = row->group_id, .op_no = row->op_no};
    out->figures[out->op_count] = (struct rs_job_op_figures){
        .bytes = value_or(row->bytes, -1),
        .longest_ns = value_or(row->longest_ns, -1),
        .transport =
            row->transport ? rs_strtab_text(&reader->summaries[0].strings, transport) : NULL,
        .root_no = value_or(row->root_no, -1),
        .has_hops = row->has_hops == 1};
    out->ops[out->op_count++] =
        (struct rs_job_op){.step = row->step,
                           .group = group,
                           .type = (uint8_t)row->op,
                           .is_p2p = row->is_p2p == 1,
                           .is_matched = row->is_matched == 1,
                           .seq = value_or(row->seq, -1),
                           .last_rank = (int32_t)value_or(row->last_rank, -1),
                           .ranks_expected = value_or(row->ranks_expected, -1),
                           .coverage = row->is_partial ? RS_COVERAGE_PARTIAL : RS_COVERAGE_EXACT,
                           .has_wait = row->has_wait == 1};
    return RS_OK;
}

static bool is_key_of(const struct op_key *key, const struct rs_row_op_member *row)
{
    return key->step == row->step && key->group_id == row->group_id && key->op_no == row->op_no;
}

/* Both tables come in the order of (step, group_id, op_no). */
static enum rs_status take_member(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_op_member *row = row_;
    struct rs_analysis *out = reader->out;
    while (reader->at_op < out->op_count && !is_key_of(&reader->op_keys[reader->at_op], row))
        reader->at_op++;
    const size_t index = summary_of(reader, row->rank);
    if (reader->at_op == out->op_count || index == SIZE_MAX || !is_op_type(row->op))
        return RS_FORMAT;
    struct rs_summary *summary = &reader->summaries[index];
    struct rs_job_op *op = &out->ops[reader->at_op];
    if (rs_mem_grow((void **)&out->rows, &reader->row_capacity, out->row_count + 1,
                    sizeof *out->rows) != RS_OK ||
        rs_mem_grow((void **)&summary->ops, &summary->op_capacity, summary->op_count + 1,
                    sizeof *summary->ops) != RS_OK)
        return RS_NOMEM;
    if (op->row_count++ == 0)
        op->row_first = out->row_count;
    out->rows[out->row_count++] = (struct rs_job_row){.summary = (uint32_t)index,
                                                      .op_index = (uint32_t)summary->op_count,
                                                      .rank = (int32_t)row->rank,
                                                      .wait = value_or(row->wait_ns, 0),
                                                      .transfer = value_or(row->transfer_ns, 0),
                                                      .has_transfer = row->transfer_ns != RS_NULL,
                                                      .is_partial = row->is_partial != 0,
                                                      .has_wait = row->wait_ns != RS_NULL};
    summary->ops[summary->op_count++] = (struct rs_comm_op){.step = row->step,
                                                            .type = (uint8_t)row->op,
                                                            .device = -1,
                                                            .group = RS_NO_GROUP,
                                                            .peer = -1,
                                                            .root = -1,
                                                            .bytes = value_or(row->bytes, -1),
                                                            .seq = -1};
    return RS_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------------- */

static enum rs_status read_ranks(struct rows_reader *reader)
{
    static const struct {
        enum rs_read read;
        rows_take_fn *take;
    } tables[] = {{RS_READ_CAPTURE, take_capture},
                  {RS_READ_RANKS, take_rank},
                  {RS_READ_COVERAGE, take_coverage},
                  {RS_READ_INPUTS, take_input},
                  {RS_READ_STEP_DEVICES, take_step}};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && status == RS_OK; i++)
        status = rows_read(reader, tables[i].read, tables[i].take);
    if (status != RS_OK)
        return status;
    return reader->has_capture && reader->summary_count
               ? RS_OK
               : rs_err_set(reader->err, RS_NOTFOUND, "there are no rows of its ranks");
}

static enum rs_status read_join(struct rows_reader *reader)
{
    static const struct {
        enum rs_read read;
        rows_take_fn *take;
    } tables[] = {{RS_READ_COMM_GROUPS, take_group},
                  {RS_READ_LINKS, take_link},
                  {RS_READ_NOTES, take_note},
                  {RS_READ_OPS, take_op},
                  {RS_READ_OP_MEMBERS, take_member}};
    struct rs_analysis *out = reader->out;
    enum rs_status status = RS_OK;
    out->one_clock = strcmp(reader->clock, "several") != 0;
    out->clock_was_assumed = strcmp(reader->clock, "assumed") == 0;
    out->clock_was_aligned = strcmp(reader->clock, "aligned") == 0;
    for (size_t i = 0; i < out->summary_count; i++) {
        out->ranks[i].takes_part = reader->facts[i].takes_part;
        out->ranks[i].ops_last = reader->facts[i].ops_last;
        out->ranks[i].caused_wait = reader->facts[i].caused;
        out->ranks[i].own_wait = reader->facts[i].own;
    }
    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && status == RS_OK; i++)
        status = rows_read(reader, tables[i].read, tables[i].take);
    return status == RS_OK ? rows_read_diagnosis(reader) : status;
}

static void reader_fini(struct rows_reader *reader)
{
    for (size_t i = 0; i < reader->summary_count; i++)
        rs_summary_fini(&reader->summaries[i]);
    rs_mem_free(reader->summaries);
    rs_mem_free(reader->facts);
    rs_mem_free(reader->group_ids);
    rs_mem_free(reader->op_keys);
}

enum rs_status rs_analysis_read(struct rs_row_store *store, int64_t capture,
                                struct rs_analysis **analysis_p, struct rs_err *err)
{
    struct rows_reader reader = {.store = store, .capture = capture, .err = err};
    enum rs_status status = read_ranks(&reader);
    if (status == RS_OK)
        status = analysis_begin(reader.summaries, reader.summary_count, reader.is_triggered,
                                &reader.out, err);
    if (status == RS_OK) { /* from here on the summaries are the analysis's */
        status = read_join(&reader);
        reader.summaries = NULL;
        reader.summary_count = 0;
        if (status == RS_OK)
            *analysis_p = reader.out;
        else
            rs_analysis_free(&reader.out);
    }
    reader_fini(&reader);
    return status;
}
