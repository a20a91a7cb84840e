/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The desk where the join is laid out: summaries by rank, then round by round.
 *
 *   clocks -> groups -> units (known, inferred) -> operations -> waits -> order -> links -> findings
 *
 * With several hosts, or files that name none, clocks are aligned first (clock_fit.c), and operations matched twice: the second time with
 * the clocks that the first taught.
 */
#include "aggregator/analysis/analysis.h"

#include "aggregator/analysis/analysis_priv.h"
#include "common/base/buf.h"
#include "common/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the other files build with ------------------------------------------------- */

enum rs_status join_pool(struct join *join, size_t count, uint32_t **pool_p)
{
    if (rs_mem_grow((void **)&join->pools, &join->pool_capacity, join->pool_count + 1,
                    sizeof *join->pools) != RS_OK) {
        return RS_NOMEM;
    }
    uint32_t *pool = rs_mem_calloc(count, sizeof *pool);
    if (pool == NULL) {
        return RS_NOMEM;
    }
    join->pools[join->pool_count++] = pool;
    *pool_p = pool;
    return RS_OK;
}

enum rs_status join_note(struct join *join, const char *format, ...)
{
    struct rs_analysis *out = join->out;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (rs_mem_grow((void **)&out->notes, &join->note_capacity, out->note_count + 1,
                    sizeof *out->notes) != RS_OK) {
        return RS_NOMEM;
    }
    char *note = rs_mem_strdup(text);
    if (note == NULL) {
        return RS_NOMEM;
    }
    out->notes[out->note_count++] = note;
    return RS_OK;
}

enum rs_status join_new_op(struct join *join, struct rs_job_op **op_p)
{
    struct rs_analysis *out = join->out;
    if (rs_mem_grow((void **)&out->ops, &join->op_capacity, out->op_count + 1, sizeof *out->ops) !=
        RS_OK) {
        return RS_NOMEM;
    }
    struct rs_job_op *op = &out->ops[out->op_count++];
    *op = (struct rs_job_op){
        .step = RS_STEP_NONE,
        .group = RS_NO_GROUP,
        .seq = -1,
        .last_rank = -1,
        .ranks_expected = -1,
        .row_first = out->row_count,
    };
    *op_p = op;
    return RS_OK;
}

enum rs_status join_row(struct join *join, size_t summary, uint32_t op_index)
{
    struct rs_analysis *out = join->out;
    if (rs_mem_grow((void **)&out->rows, &join->row_capacity, out->row_count + 1,
                    sizeof *out->rows) != RS_OK) {
        return RS_NOMEM;
    }
    out->rows[out->row_count++] = (struct rs_job_row){
        .summary = (uint32_t)summary,
        .op_index = op_index,
        .rank = out->ranks[summary].rank,
    };
    out->ops[out->op_count - 1].row_count++;
    join->op_done[join->op_base[summary] + op_index] = 1;
    return RS_OK;
}

/* ---- ranks --------------------------------------------------------------------------- */

/* What the door hands out, and the list behind its `summaries`, which is ours. */
struct whole {
    struct rs_analysis analysis; /* first: the two have one address */
    const struct rs_summary **summaries;
    struct rs_summary *owned; /* of an analysis that was read from rows; else NULL */
};

static int compare_summaries(const void *left, const void *right)
{
    const struct rs_summary *a = *(const struct rs_summary *const *)left;
    const struct rs_summary *b = *(const struct rs_summary *const *)right;
    return (a->trace.rank > b->trace.rank) - (a->trace.rank < b->trace.rank);
}

static enum rs_status lay_out(struct rs_analysis *out, const struct rs_summary *const *summaries,
                              size_t count, struct rs_err *err)
{
    const struct rs_summary **sorted = rs_mem_calloc(count + 1, sizeof(void *));
    if (sorted == NULL) {
        return RS_NOMEM;
    }
    ((struct whole *)out)->summaries = sorted;
    out->summaries = sorted;
    out->summary_count = count;
    out->ranks = rs_mem_calloc(count + 1, sizeof *out->ranks);
    out->clocks = rs_mem_calloc(count + 1, sizeof *out->clocks);
    if (out->ranks == NULL || out->clocks == NULL) {
        return RS_NOMEM;
    }
    for (size_t s = 0; s < count; s++) {
        sorted[s] = summaries[s];
    }
    qsort(sorted, count, sizeof(void *), compare_summaries);
    size_t step_rows = 0;
    for (size_t s = 0; s < count; s++) {
        const int32_t rank = sorted[s]->trace.rank;
        if (rank < 0 || (s > 0 && rank == sorted[s - 1]->trace.rank)) {
            return rs_err_set(err, RS_INVALID, "analysis: %s %d",
                              rank < 0 ? "no rank" : "two summaries of rank", (int)rank);
        }
        out->ranks[s] = (struct rs_job_rank){
            .rank = rank,
            .summary = (uint32_t)s,
            .takes_part = sorted[s]->trace.has_time_base,
            .step_base = step_rows,
        };
        step_rows += sorted[s]->step_count;
    }
    out->step_p2p_wait = rs_mem_calloc(step_rows + 1, sizeof *out->step_p2p_wait);
    return out->step_p2p_wait != NULL ? RS_OK : RS_NOMEM;
}

/* A world size beyond this is a broken file, not a job: its missing ranks are not listed one by one. */
enum { WORLD_MAX = 1 << 20 };

static enum rs_status count_world(struct rs_analysis *out)
{
    out->world_size = -1;
    for (size_t s = 0; s < out->summary_count; s++) {
        const int32_t world = out->summaries[s]->trace.world_size;
        out->world_sizes_differ = out->world_sizes_differ ||
                                  (world > 0 && out->world_size > 0 && world != out->world_size);
        out->world_size = world > out->world_size ? world : out->world_size;
    }
    if (out->world_size <= 0 || out->world_size > WORLD_MAX) {
        return RS_OK;
    }
    out->missing_ranks = rs_mem_calloc((size_t)out->world_size, sizeof *out->missing_ranks);
    if (out->missing_ranks == NULL) {
        return RS_NOMEM;
    }
    size_t s = 0;
    for (int32_t rank = 0; rank < out->world_size; rank++) {
        while (s < out->summary_count && out->ranks[s].rank < rank) {
            s++;
        }
        if (s == out->summary_count || out->ranks[s].rank != rank) {
            out->missing_ranks[out->missing_count++] = rank;
        }
    }
    return RS_OK;
}

/* ---- rounds -------------------------------------------------------------------------- */

static void drop_groups(struct join *join)
{
    struct rs_analysis *out = join->out;
    for (size_t g = 0; g < out->group_count; g++) {
        rs_mem_free(out->groups[g].text);
        rs_mem_free(out->groups[g].ranks);
    }
    rs_mem_free(out->groups);
    out->groups = NULL;
    out->group_count = join->group_capacity = join->key_capacity = 0;
    group_fini(join);
    join->group_slot_count = 0;
}

static void spread_known_groups(struct join *join)
{
    const struct rs_analysis *out = join->out;
    for (size_t s = 0; s < out->summary_count; s++) {
        const struct rs_summary *summary = out->summaries[s];
        for (size_t i = 0; i < summary->op_count; i++) {
            const uint32_t local = summary->ops[i].group;
            join->op_group[join->op_base[s] + i] =
                local < summary->group_count && (summary->ops[i].flags & RS_OP_NO_CALL) == 0
                    ? join->local_group[join->local_base[s] + local]
                    : RS_NO_GROUP;
        }
    }
}

/* Everything up to operations, with the clocks as they are known by now. */
static enum rs_status round_of(struct join *join)
{
    struct rs_analysis *out = join->out;
    units_fini(join);
    drop_groups(join);
    out->op_count = out->row_count = 0;
    memset(join->op_done, 0, join->op_base[out->summary_count]);
    enum rs_status status = group_collect(join);
    if (status == RS_OK) {
        spread_known_groups(join);
        status = match_known_units(join);
    }
    if (status == RS_OK) {
        status = infer_units(join);
    }
    if (status == RS_OK) {
        status = match_units(join);
    }
    return status == RS_OK ? match_p2p(join) : status;
}

/* On one host one round is enough. Else clocks are guessed, operations matched, and both once more with what that taught. */
static enum rs_status rounds(struct join *join)
{
    enum rs_status status = clock_domains(join);
    if (status != RS_OK || join->host_count < 2) {
        return status == RS_OK ? round_of(join) : status;
    }
    status = group_collect(join);
    if (status == RS_OK) {
        spread_known_groups(join);
        status = clock_align(join);
    }
    for (int round = 0; round < 2 && status == RS_OK; round++) {
        status = round_of(join);
        if (status == RS_OK) {
            status = clock_refine(join);
        }
    }
    return status;
}

/* ---- notes --------------------------------------------------------------------------- */

static void judge_clocks(struct join *join)
{
    struct rs_analysis *out = join->out;
    size_t first = SIZE_MAX;
    out->one_clock = true;
    for (size_t s = 0; s < out->summary_count; s++) {
        out->clocks[s].clock = join->host[s];
        out->clocks[s].domain = join->domain[s];
        if (!out->ranks[s].takes_part) {
            continue;
        }
        first = first == SIZE_MAX ? s : first;
        out->one_clock = out->one_clock && join->domain[s] == join->domain[first];
        out->clock_was_aligned = out->clock_was_aligned || out->clocks[s].method == RS_CLOCK_ENDS;
        if (join->domain[s] != join->domain[first]) {
            out->clocks[s].method = RS_CLOCK_NONE;
        }
    }
    out->clock_was_assumed = join->assume_common_clock;
}

static enum rs_status note_clocks(struct join *join)
{
    const struct rs_analysis *out = join->out;
    size_t apart = 0;
    rs_dur bound = 0;
    if (join->assume_common_clock) {
        return join_note(join, "All ranks were taken to share one clock, as asked for.");
    }
    for (size_t s = 0; s < out->summary_count; s++) {
        apart += out->clocks[s].method == RS_CLOCK_NONE;
        if (out->clocks[s].method == RS_CLOCK_ENDS && out->clocks[s].bound_ns > bound) {
            bound = out->clocks[s].bound_ns;
        }
    }
    if (apart > 0 &&
        join_note(
            join,
            "The clocks of %zu rank%s could not be aligned with the others: no Wait, Transfer "
            "or last rank between them (--assume-common-clock if they are known to be one).",
            apart, apart == 1 ? "" : "s") != RS_OK) {
        return RS_NOMEM;
    }
    if (!out->clock_was_aligned) {
        return RS_OK;
    }
    return join_note(join,
                     "Clocks of several hosts%s were aligned by the ends of their operations, to "
                     "within %lld.%03lld us: what is smaller than that is not said.",
                     join->unknown_hosts > 0 ? " (files that name none count as one each)" : "",
                     (long long)(bound / 1000), (long long)(bound % 1000));
}

static enum rs_status note_rows(struct join *join)
{
    const struct rs_analysis *out = join->out;
    size_t unmatched = 0, unfinished = 0;
    for (size_t i = 0; i < out->op_count; i++) {
        for (size_t r = out->ops[i].row_first; r < out->ops[i].row_first + out->ops[i].row_count;
             r++) {
            const struct rs_job_row *row = &out->rows[r];
            const bool is_unfinished =
                (join_op(join, row->summary, row->op_index)->flags & RS_OP_UNFINISHED) != 0;
            unfinished += is_unfinished;
            unmatched += !out->ops[i].is_matched;
        }
    }
    if (unmatched > 0 &&
        join_note(join, "%zu of %zu communication rows could not be matched with another rank's.",
                  unmatched, out->row_count) != RS_OK) {
        return RS_NOMEM;
    }
    return unfinished == 0
               ? RS_OK
               : join_note(join,
                           "%zu communication row%s unfinished when the recording ended: the "
                           "start is known, the transfer is not.",
                           unfinished, unfinished == 1 ? " was" : "s were");
}

static enum rs_status note_groups(struct join *join)
{
    const struct rs_analysis *out = join->out;
    for (size_t s = 0; s < out->summary_count; s++) {
        if (!out->ranks[s].takes_part &&
            join_note(join,
                      "Rank %d lost its time base (truncated file): it takes no part in matching.",
                      (int)out->ranks[s].rank) != RS_OK) {
            return RS_NOMEM;
        }
    }
    for (size_t g = 0; g < out->group_count; g++) {
        if (out->groups[g].is_ambiguous &&
            join_note(
                join,
                "Several communicators over the same ranks have no name to tell them apart; they "
                "stand as one group, %s.",
                out->groups[g].text) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

/* ---- the door ------------------------------------------------------------------------ */

static enum rs_status take_tables(struct join *join)
{
    const struct rs_analysis *out = join->out;
    const size_t count = out->summary_count;
    join->domain = rs_mem_calloc(count + 1, sizeof *join->domain);
    join->host = rs_mem_calloc(count + 1, sizeof *join->host);
    join->op_base = rs_mem_calloc(count + 1, sizeof *join->op_base);
    join->local_base = rs_mem_calloc(count + 1, sizeof *join->local_base);
    if (join->domain == NULL || join->host == NULL || join->op_base == NULL ||
        join->local_base == NULL) {
        return RS_NOMEM;
    }
    for (size_t s = 0; s < count; s++) {
        join->op_base[s + 1] = join->op_base[s] + out->summaries[s]->op_count;
        join->local_base[s + 1] = join->local_base[s] + out->summaries[s]->group_count;
    }
    join->op_group = rs_mem_calloc(join->op_base[count] + 1, sizeof *join->op_group);
    join->op_done = rs_mem_calloc(join->op_base[count] + 1, sizeof *join->op_done);
    join->local_group = rs_mem_calloc(join->local_base[count] + 1, sizeof *join->local_group);
    return join->op_group != NULL && join->op_done != NULL && join->local_group != NULL ? RS_OK
                                                                                        : RS_NOMEM;
}

static void join_fini(struct join *join)
{
    units_fini(join);
    group_fini(join);
    rs_mem_free(join->domain);
    rs_mem_free(join->host);
    rs_mem_free(join->op_base);
    rs_mem_free(join->local_base);
    rs_mem_free(join->op_group);
    rs_mem_free(join->op_done);
    rs_mem_free(join->local_group);
}

static enum rs_status run(struct join *join)
{
    enum rs_status (*const stages[])(struct join *) = {
        take_tables, rounds,       match_leftovers, group_texts, order_ops,
        wait_all,    note_clocks,  note_apart,      note_groups, note_rows,
        note_edges,  vendor_notes, settings_notes,
    };
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        if (stages[i] == note_clocks) {
            judge_clocks(join);
        }
        const enum rs_status status = stages[i](join);
        if (status != RS_OK) {
            return status;
        }
    }
    struct link_messages messages = {0};
    enum rs_status status = links_collect(join->out, &messages);
    if (status == RS_OK) {
        status = rs_diagnosis_new(join->out, &join->out->diagnosis);
    }
    rs_mem_free(messages.items);
    return status;
}

struct rs_job_recording rs_analysis_recording(const struct rs_summary *const *summaries,
                                              size_t count)
{
    struct rs_job_recording most = {.rank_count = 0};
    for (size_t i = 0; i < count; i++) {
        const struct rs_summary *summary = summaries[i];
        const struct rs_trace_info *trace = &summary->trace;
        if (!trace->has_time_base || trace->written_ns <= summary->span_end ||
            summary->span_end <= summary->span_start)
            continue;
        rs_dur recorded, writing, whole; /* what comes from outside may be as far apart as can be */
        if (__builtin_sub_overflow(summary->span_end, summary->span_start, &recorded) ||
            __builtin_sub_overflow(trace->written_ns, summary->span_end, &writing) ||
            __builtin_add_overflow(recorded, writing, &whole))
            continue;
        if (most.rank_count++ == 0 || whole > most.recorded + most.writing) {
            most.rank = trace->rank;
            most.recorded = recorded;
            most.writing = writing;
        }
    }
    return most;
}

static void count_unfinished(struct rs_analysis *out)
{
    for (size_t i = 0; i < out->row_count; i++) {
        const struct rs_job_row *row = &out->rows[i];
        out->unfinished_count +=
            (out->summaries[row->summary]->ops[row->op_index].flags & RS_OP_UNFINISHED) != 0;
    }
}

enum rs_status analysis_begin(struct rs_summary *summaries, size_t count, bool is_triggered,
                              struct rs_analysis **analysis_p, struct rs_err *err)
{
    struct rs_analysis *out = rs_mem_calloc(1, sizeof(struct whole));
    const struct rs_summary **list = rs_mem_calloc(count + 1, sizeof(void *));
    enum rs_status status = out && list ? RS_OK : RS_NOMEM;
    for (size_t s = 0; list && s < count; s++) {
        list[s] = &summaries[s];
    }
    if (status == RS_OK) {
        status = lay_out(out, list, count, err);
    }
    if (status == RS_OK) {
        status = count_world(out);
    }
    if (status == RS_OK) {
        status = count_steps(out, is_triggered);
    }
    rs_mem_free(list);
    if (status != RS_OK) {
        rs_analysis_free(&out);
        return status == RS_NOMEM ? rs_err_set(err, RS_NOMEM, "no memory for %zu ranks", count)
                                  : status;
    }
    ((struct whole *)out)->owned = summaries;
    *analysis_p = out;
    return RS_OK;
}

enum rs_status rs_analysis_new(const struct rs_summary *const *summaries, size_t summary_count,
                               const struct rs_analysis_options *options,
                               struct rs_analysis **analysis_p, struct rs_err *err)
{
    struct rs_analysis *out = rs_mem_calloc(1, sizeof(struct whole));
    struct join join = {.out = out, .assume_common_clock = options->assume_common_clock};
    enum rs_status status = RS_NOMEM;
    if (out != NULL) {
        out->options = *options;
        status = lay_out(out, summaries, summary_count, err);
    }
    if (status == RS_OK) {
        status = count_world(out);
    }
    if (status == RS_OK) {
        status = count_steps(out, options->is_triggered);
    }
    if (status == RS_OK) {
        status = run(&join);
    }
    join_fini(&join);
    if (status != RS_OK) {
        if (status == RS_NOMEM) {
            (void)rs_err_set(err, RS_NOMEM, "analysis: out of memory joining %zu ranks",
                             summary_count);
        }
        rs_analysis_free(&out);
        return status;
    }
    count_unfinished(out);
    out->recording = rs_analysis_recording(out->summaries, out->summary_count);
    *analysis_p = out;
    return RS_OK;
}

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rs_mem_free(texts[i]);
    }
}

void rs_analysis_free(struct rs_analysis **analysis_p)
{
    struct rs_analysis *out = *analysis_p;
    if (out == NULL) {
        return;
    }
    for (size_t g = 0; g < out->group_count; g++) {
        rs_mem_free(out->groups[g].text);
        rs_mem_free(out->groups[g].ranks);
    }
    free_texts(out->notes, out->note_count);
    struct whole *whole = (struct whole *)out;
    for (size_t s = 0; whole->owned && s < out->summary_count; s++) {
        rs_summary_fini(&whole->owned[s]);
    }
    rs_mem_free(whole->owned);
    rs_mem_free(whole->summaries);
    rs_mem_free(out->figures);
    rs_mem_free(out->ranks);
    rs_mem_free(out->clocks);
    rs_mem_free(out->missing_ranks);
    rs_mem_free(out->groups);
    rs_mem_free(out->ops);
    rs_mem_free(out->rows);
    rs_mem_free(out->step_p2p_wait);
    rs_mem_free(out->links);
    rs_diagnosis_free(&out->diagnosis);
    rs_mem_free(out->notes);
    rs_mem_free(out);
    *analysis_p = NULL;
}

rs_dur rs_analysis_p2p_wait(const struct rs_analysis *analysis, size_t summary_index,
                            size_t step_index)
{
    return analysis->step_p2p_wait[analysis->ranks[summary_index].step_base + step_index];
}
