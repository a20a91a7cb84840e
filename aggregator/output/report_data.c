/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the views of report.html draw (dashboards/web/src/report.ts): the diagnosis as in report.json, and rows of the tables that the page
 * reads from an aggregator, by the same names, column by column.
 *
 *     {"title", "report": {findings, ..., coverage, arrivals, notes},
 *      "ranks":  {"rank": [..], "host": [..]},
 *      "tables": {"steps":       {"columns": {"rank": [..], "step": [..], "window_ns": [..], ...}},
 *                 "collectives": {"columns": {"last_rank": [..], "rank": [..], "wait_ns": [..]}},    summed by pair
 *                 "links":       {"columns": {...}, "cut": "Only the 4096 slowest ..."}},            "cut" where some are left out
 *      "sample": null, or {"per_rank", "per_step", "step_count", "columns": the first step of each, "ranks", "means",
 *                          "medians": [[step, ns], ..] of the steps that rows are of},
 *      "link_medians": null, or [["RDMA", bytes/s], ...]}
 *
 * The size is bounded, whatever the job's: 16,384 rows of steps (a sample: of each cell of the picture the worst; every rank's
 * means, and the median of each step that a row is of, are there all the same), 4,096 links (the slowest), and waiting between the 12 who caused most and the 12 who waited most
 * (-1: all others). 4,096 ranks come to some 2 MB.
 *
 * Names come from strangers: whatever they hold, nothing in here ends the element that the document stands in.
 */
#include "aggregator/output/report_data.h"

#include "aggregator/output/report_findings.h"
#include "aggregator/output/report_grid.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_ROWS = 256, CELL_COLUMNS = REPORT_STEP_ROWS_MAX / CELL_ROWS };
enum { ARRIVALS = 64, WAITERS = 12 };

static void put_int(struct rs_json_out *json, const char *key, int64_t value, bool is_known)
{
    rs_json_out_key(json, key);
    if (is_known)
        rs_json_out_int(json, value);
    else
        rs_json_out_null(json);
}

static void put_rate(struct rs_json_out *json, double bytes_per_s)
{
    if (bytes_per_s > 0)
        rs_json_out_int(json, bytes_per_s < 9e18 ? (int64_t)bytes_per_s : INT64_MAX);
    else
        rs_json_out_null(json);
}

static void begin(struct rs_json_out *json, const char *key, bool is_array)
{
    rs_json_out_key(json, key);
    if (is_array)
        rs_json_out_array(json);
    else
        rs_json_out_object(json);
}

/* ---- the report ------------------------------------------------------------------------------------------- */

static void put_title(struct rs_json_out *json, const struct report *report)
{
    char title[128];
    (void)snprintf(title, sizeof title, "Rankscope: %zu ranks, %" PRId64 " steps",
                   report->analysis->summary_count, report->steps);
    rs_json_out_key(json, "title");
    rs_json_out_string(json, title);
}

/* As in report.json, of which the views read so much. */
static void put_report(struct rs_json_out *json, const struct report *report)
{
    const struct rs_analysis *analysis = report->analysis;
    begin(json, "report", false);
    report_json_diagnosis(json, analysis);
    if (!analysis->diagnosis) {
        begin(json, "unjudged", true);
        rs_json_out_end(json);
    }
    begin(json, "coverage", false);
    put_int(json, "ranks_seen", (int64_t)analysis->summary_count, true);
    put_int(json, "ranks_expected", analysis->world_size, analysis->world_size >= 0);
    put_int(json, "steps", report->steps, true);
    put_int(json, "complete_steps", analysis->complete_steps, true);
    put_int(json, "events", report->events, true);
    put_int(json, "dropped", report->dropped, true);
    rs_json_out_key(json, "clock");
    rs_json_out_string(json, report_clock_text(analysis));
    rs_json_out_end(json);
    put_int(json, "mean_step_ns", analysis->mean_step_ns, analysis->mean_step_ns > 0);
    begin(json, "arrivals", true);
    for (size_t i = 0; i < report->arrival_count && i < ARRIVALS; i++) {
        const struct rs_job_rank *rank = &analysis->ranks[report->arrivals[i]];
        rs_json_out_object(json);
        put_int(json, "rank", rank->rank, true);
        put_int(json, "last_in", rank->ops_last, true);
        put_int(json, "caused_wait_ns", rank->caused_wait, true);
        put_int(json, "own_wait_ns", rank->own_wait, true);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
    begin(json, "notes", true);
    for (size_t i = 0; i < analysis->note_count; i++)
        rs_json_out_string(json, analysis->notes[i]);
    rs_json_out_end(json);
    rs_json_out_end(json);
}

static void put_ranks(struct rs_json_out *json, const struct rs_analysis *analysis)
{
    begin(json, "ranks", false);
    begin(json, "rank", true);
    for (size_t i = 0; i < analysis->summary_count; i++)
        rs_json_out_int(json, analysis->summaries[i]->trace.rank);
    rs_json_out_end(json);
    begin(json, "host", true);
    for (size_t i = 0; i < analysis->summary_count; i++) {
        const struct rs_summary *summary = analysis->summaries[i];
        if (summary->trace.host == RS_STR_NONE)
            rs_json_out_null(json);
        else
            rs_json_out_string(json, rs_strtab_text(&summary->strings, summary->trace.host));
    }
    rs_json_out_end(json);
    rs_json_out_end(json);
}

/* ---- steps ------------------------------------------------------------------------------------------------- */

/* A row of steps that is in the file, or a rank's mean over those that count. */
struct chosen {
    struct rs_step_row step;
    int32_t rank;
    int64_t steps; /* of a mean; 0: the row is of one step */
    bool is_in_means;
};

struct choice {
    struct chosen *rows;
    size_t count;
};

#define PART(name, member)                                                                         \
    {                                                                                              \
        name, offsetof(struct rs_step_row, member)                                                 \
    }
static const struct {
    const char *name;
    size_t at; /* an rs_dur of a row */
} parts[] = {
    PART("window_computing_ns", window_computing),
    PART("window_exposed_ns", window_exposed),
    PART("window_memory_ns", window_memory),
    PART("bubble_ns", bubble),
    PART("idle_head_ns", idle_head),
    PART("idle_inside_ns", idle_inside),
    PART("idle_tail_ns", idle_tail),
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static rs_dur *part_of(struct rs_step_row *row, size_t part)
{
    return (rs_dur *)(void *)((char *)row + parts[part].at);
}

static void put_columns(struct rs_json_out *json, const char *key, const struct choice *choice)
{
    begin(json, key, false);
    begin(json, "rank", true);
    for (size_t i = 0; i < choice->count; i++)
        rs_json_out_int(json, choice->rows[i].rank);
    rs_json_out_end(json);
    begin(json, "step", true);
    for (size_t i = 0; i < choice->count; i++)
        if (choice->rows[i].steps)
            rs_json_out_null(json);
        else
            rs_json_out_int(json, choice->rows[i].step.step);
    rs_json_out_end(json);
    begin(json, "steps", true);
    for (size_t i = 0; i < choice->count; i++)
        rs_json_out_int(json, choice->rows[i].steps ? choice->rows[i].steps : 1);
    rs_json_out_end(json);
    begin(json, "window_ns", true);
    for (size_t i = 0; i < choice->count; i++)
        rs_json_out_int(json, choice->rows[i].step.window_end - choice->rows[i].step.window_start);
    rs_json_out_end(json);
    for (size_t p = 0; p < PARTS; p++) {
        begin(json, parts[p].name, true);
        for (size_t i = 0; i < choice->count; i++)
            rs_json_out_int(json, *part_of(&choice->rows[i].step, p));
        rs_json_out_end(json);
    }
    begin(json, "is_in_means", true);
    for (size_t i = 0; i < choice->count; i++)
        rs_json_out_int(json, choice->rows[i].is_in_means);
    rs_json_out_end(json);
    rs_json_out_end(json);
}

static enum rs_status choose_all(const struct rs_analysis *analysis, size_t count,
                                 struct choice *choice)
{
    choice->rows = rs_mem_calloc(count + 1, sizeof *choice->rows);
    if (!choice->rows)
        return RS_NOMEM;
    for (size_t i = 0; i < analysis->summary_count; i++)
        for (size_t k = 0; k < analysis->summaries[i]->step_count; k++)
            choice->rows[choice->count++] = (struct chosen){
                .step = analysis->summaries[i]->steps[k],
                .rank = analysis->summaries[i]->trace.rank,
                .is_in_means = rs_analysis_is_in_means(analysis, i, k),
            };
    return RS_OK;
}

/* Of every cell, per_rank ranks by per_step steps, the row that is longest against the median of its step. */
static enum rs_status choose_worst(const struct grid *grid, const rs_dur *medians, size_t per_rank,
                                   size_t per_step, struct choice *choice)
{
    const size_t columns = (grid->step_count + per_step - 1) / per_step;
    const size_t cells = (grid->rank_count + per_rank - 1) / per_rank * columns;
    double *worst = rs_mem_calloc(cells + 1, sizeof *worst);
    choice->rows = rs_mem_calloc(cells + 1, sizeof *choice->rows);
    if (!worst || !choice->rows) {
        rs_mem_free(worst);
        return RS_NOMEM;
    }
    for (size_t r = 0; r < grid->rank_count; r++)
        for (size_t s = 0; s < grid->step_count; s++) {
            const struct rs_step_row *row = grid->rows[r * grid->step_count + s];
            const size_t cell = r / per_rank * columns + s / per_step;
            if (!row)
                continue;
            const double ratio =
                medians[s] > 0 ? (double)grid_own(grid, r, s) / (double)medians[s] : 0;
            if (choice->rows[cell].is_in_means && ratio <= worst[cell])
                continue;
            worst[cell] = ratio;
            choice->rows[cell] =
                (struct chosen){.step = *row, .rank = grid->ranks[r], .is_in_means = true};
        }
    for (size_t i = 0; i < cells; i++) /* cells that nobody has are left out */
        if (choice->rows[i].is_in_means)
            choice->rows[choice->count++] = choice->rows[i];
    rs_mem_free(worst);
    return RS_OK;
}

/* The mean of a rank's rows that count, as the view of all rows works it out. False: there is none. */
static bool mean_of(const struct rs_analysis *analysis, size_t index, struct chosen *mean_p)
{
    const struct rs_summary *summary = analysis->summaries[index];
    struct chosen mean = {.rank = summary->trace.rank, .is_in_means = true};
    double sums[PARTS] = {0}, window = 0;
    for (size_t k = 0; k < summary->step_count; k++) {
        struct rs_step_row row = summary->steps[k];
        if (!rs_analysis_is_in_means(analysis, index, k))
            continue;
        row.bubble = row.bubble < row.window_exposed ? row.bubble : row.window_exposed;
        for (size_t p = 0; p < PARTS; p++)
            sums[p] += (double)*part_of(&row, p);
        window += (double)(row.window_end - row.window_start);
        mean.steps++;
    }
    if (!mean.steps)
        return false;
    for (size_t p = 0; p < PARTS; p++)
        *part_of(&mean.step, p) = (rs_dur)(sums[p] / (double)mean.steps);
    mean.step.window_end = (rs_ns)(window / (double)mean.steps);
    *mean_p = mean;
    return true;
}

static enum rs_status put_means(struct rs_json_out *json, const struct rs_analysis *analysis)
{
    struct choice means = {.rows = rs_mem_calloc(analysis->summary_count + 1, sizeof *means.rows)};
    if (!means.rows)
        return RS_NOMEM;
    for (size_t i = 0; i < analysis->summary_count; i++)
        if (mean_of(analysis, i, &means.rows[means.count]))
            means.count++;
    put_columns(json, "means", &means);
    rs_mem_free(means.rows);
    return RS_OK;
}

static int by_step(const void *key, const void *element)
{
    const int64_t step = *(const int64_t *)key, other = *(const int64_t *)element;
    return (step > other) - (step < other);
}

/* Of the steps that rows were chosen of: of a long job's others nothing is drawn. */
static enum rs_status put_medians(struct rs_json_out *json, const struct grid *grid,
                                  const rs_dur *medians, const struct choice *choice)
{
    bool *is_drawn = rs_mem_calloc(grid->step_count + 1, sizeof *is_drawn);
    if (!is_drawn)
        return RS_NOMEM;
    for (size_t i = 0; i < choice->count; i++) {
        const int64_t *step = bsearch(&choice->rows[i].step.step, grid->steps, grid->step_count,
                                      sizeof *grid->steps, by_step);
        if (step)
            is_drawn[step - grid->steps] = true;
    }
    begin(json, "medians", true);
    for (size_t s = 0; s < grid->step_count; s++) {
        if (!is_drawn[s])
            continue;
        rs_json_out_array(json);
        rs_json_out_int(json, grid->steps[s]);
        rs_json_out_int(json, medians[s]);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
    rs_mem_free(is_drawn);
    return RS_OK;
}

static enum rs_status put_sample(struct rs_json_out *json, const struct rs_analysis *analysis,
                                 const struct grid *grid, const rs_dur *medians,
                                 const struct choice *choice, const size_t per[2])
{
    begin(json, "sample", false);
    put_int(json, "per_rank", (int64_t)per[0], true);
    put_int(json, "per_step", (int64_t)per[1], true);
    put_int(json, "step_count", (int64_t)grid->step_count, true);
    begin(json, "columns", true);
    for (size_t s = 0; s < grid->step_count; s += per[1])
        rs_json_out_int(json, grid->steps[s]);
    rs_json_out_end(json);
    begin(json, "ranks", true);
    for (size_t i = 0; i < grid->rank_count; i++)
        rs_json_out_int(json, grid->ranks[i]);
    rs_json_out_end(json);
    enum rs_status status = put_medians(json, grid, medians, choice);
    if (status == RS_OK)
        status = put_means(json, analysis);
    rs_json_out_end(json);
    return status;
}

/* Too many rows for a file: the worst of every cell, and what is needed beside them. */
static enum rs_status put_some_steps(struct rs_json_out *json, const struct rs_analysis *analysis,
                                     struct choice *choice)
{
    struct grid grid;
    rs_dur *medians = NULL;
    enum rs_status status = grid_init(&grid, analysis);
    const size_t per[2] = {(grid.rank_count + CELL_ROWS - 1) / CELL_ROWS,
                           (grid.step_count + CELL_COLUMNS - 1) / CELL_COLUMNS};
    if (status == RS_OK && grid.rank_count) {
        medians = rs_mem_calloc(grid.step_count + 1, sizeof *medians);
        status = medians ? grid_medians(&grid, true, medians) : RS_NOMEM;
        if (status == RS_OK)
            status = choose_worst(&grid, medians, per[0], per[1], choice);
        if (status == RS_OK)
            status = put_sample(json, analysis, &grid, medians, choice, per);
    } else if (status == RS_OK) { /* none counts */
        put_int(json, "sample", 0, false);
    }
    rs_mem_free(medians);
    grid_fini(&grid);
    return status;
}

/* "sample", then `choice_p` is what the table has; its rows are the caller's. */
static enum rs_status choose_steps(struct rs_json_out *json, const struct rs_analysis *analysis,
                                   struct choice *choice_p)
{
    size_t count = 0;
    for (size_t i = 0; i < analysis->summary_count; i++)
        count += analysis->summaries[i]->step_count;
    if (count > REPORT_STEP_ROWS_MAX)
        return put_some_steps(json, analysis, choice_p);
    put_int(json, "sample", 0, false);
    return choose_all(analysis, count, choice_p);
}

/* ---- who waited for whom ------------------------------------------------------------------------------------- */

struct waits {
    rs_dur *caused, *waited; /* by summary */
    int *causer, *waiter;    /* place among the most, -1: another */
    rs_dur flows[WAITERS + 1][WAITERS + 1];
    int32_t causers[WAITERS + 1], waiters[WAITERS + 1]; /* ranks; the last is -1, the others */
};

typedef void wait_fn(struct waits *waits, size_t last, size_t rank, rs_dur wait);

static void add_sums(struct waits *waits, size_t last, size_t rank, rs_dur wait)
{
    waits->caused[last] += wait;
    waits->waited[rank] += wait;
}

static void add_flow(struct waits *waits, size_t last, size_t rank, rs_dur wait)
{
    const int from = waits->causer[last], to = waits->waiter[rank];
    waits->flows[from < 0 ? WAITERS : from][to < 0 ? WAITERS : to] += wait;
}

static int by_rank(const void *key, const void *element)
{
    const int32_t rank = *(const int32_t *)key;
    const struct rs_job_rank *job_rank = element;
    return (rank > job_rank->rank) - (rank < job_rank->rank);
}

static void each_wait(const struct rs_analysis *analysis, struct waits *waits, wait_fn *take)
{
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        const struct rs_job_rank *last =
            op->has_wait && op->last_rank >= 0
                ? bsearch(&op->last_rank, analysis->ranks, analysis->summary_count,
                          sizeof *analysis->ranks, by_rank)
                : NULL;
        for (size_t k = 0; last && k < op->row_count; k++) {
            const struct rs_job_row *row = &analysis->rows[op->row_first + k];
            if (row->has_wait && row->wait > 0 && row->rank != op->last_rank)
                take(waits, (size_t)(last - analysis->ranks), row->summary, row->wait);
        }
    }
}

/* The WAITERS largest sums, the lower rank first of equal ones. */
static void find_most(const struct rs_analysis *analysis, const rs_dur *sums, int *place_p,
                      int32_t *ranks_p)
{
    for (size_t i = 0; i < analysis->summary_count; i++)
        place_p[i] = -1;
    for (int place = 0; place < WAITERS; place++) {
        size_t most = SIZE_MAX;
        for (size_t i = 0; i < analysis->summary_count; i++)
            if (place_p[i] < 0 && sums[i] > 0 && (most == SIZE_MAX || sums[i] > sums[most]))
                most = i;
        ranks_p[place] = most == SIZE_MAX ? -1 : analysis->ranks[most].rank;
        if (most != SIZE_MAX)
            place_p[most] = place;
    }
    ranks_p[WAITERS] = -1;
}

static void put_flows(struct rs_json_out *json, const struct waits *waits)
{
    static const char *const names[] = {"last_rank", "rank", "wait_ns"};
    begin(json, "collectives", false);
    begin(json, "columns", false);
    for (int column = 0; column < 3; column++) {
        begin(json, names[column], true);
        for (int from = 0; from <= WAITERS; from++)
            for (int to = 0; to <= WAITERS; to++)
                if (waits->flows[from][to])
                    rs_json_out_int(json, column == 0   ? waits->causers[from]
                                          : column == 1 ? waits->waiters[to]
                                                        : waits->flows[from][to]);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
    rs_json_out_end(json);
}

static enum rs_status put_waits(struct rs_json_out *json, const struct rs_analysis *analysis)
{
    const size_t count = analysis->summary_count + 1;
    struct waits waits = {
        .caused = rs_mem_calloc(count, sizeof *waits.caused),
        .waited = rs_mem_calloc(count, sizeof *waits.waited),
        .causer = rs_mem_calloc(count, sizeof *waits.causer),
        .waiter = rs_mem_calloc(count, sizeof *waits.waiter),
    };
    const bool is_there = waits.caused && waits.waited && waits.causer && waits.waiter;
    if (is_there) {
        each_wait(analysis, &waits, add_sums);
        find_most(analysis, waits.caused, waits.causer, waits.causers);
        find_most(analysis, waits.waited, waits.waiter, waits.waiters);
        each_wait(analysis, &waits, add_flow);
        put_flows(json, &waits);
    }
    rs_mem_free(waits.caused);
    rs_mem_free(waits.waited);
    rs_mem_free(waits.causer);
    rs_mem_free(waits.waiter);
    return is_there ? RS_OK : RS_NOMEM;
}

/* ---- links --------------------------------------------------------------------------------------------------- */

enum link_column {
    SRC,
    DST,
    TRANSPORT,
    MESSAGES,
    BYTES,
    BUSY,
    MEDIAN,
    FAST,
    ESTIMATED,
    LINK_COLUMNS
};

static void put_link(struct rs_json_out *json, const struct rs_job_link *link,
                     enum link_column column)
{
    switch (column) {
    case SRC:
        rs_json_out_int(json, link->src);
        return;
    case DST:
        rs_json_out_int(json, link->dst);
        return;
    case TRANSPORT:
        rs_json_out_string(json, link->transport ? link->transport : "UNKNOWN");
        return;
    case MESSAGES:
        rs_json_out_int(json, link->count);
        return;
    case BYTES:
        rs_json_out_int(json, link->bytes);
        return;
    case BUSY:
        if (link->busy >= 0)
            rs_json_out_int(json, link->busy);
        else
            rs_json_out_null(json);
        return;
    case MEDIAN:
        put_rate(json, link->median_bytes_per_s);
        return;
    case FAST:
        put_rate(json, link->fast_bytes_per_s);
        return;
    case ESTIMATED:
        rs_json_out_int(json, link->is_estimated);
        return;
    case LINK_COLUMNS:
        break;
    }
}

static int by_number(const void *left, const void *right)
{
    const size_t a = *(const size_t *)left, b = *(const size_t *)right;
    return (a > b) - (a < b);
}

static void put_links(struct rs_json_out *json, const struct rs_analysis *analysis,
                      const size_t *chosen, size_t count)
{
    static const char *const names[LINK_COLUMNS] = {
        "src",          "dst",     "transport",          "messages",
        "bytes",        "busy_ns", "median_bytes_per_s", "fast_bytes_per_s",
        "is_estimated",
    };
    char cut[128];
    begin(json, "links", false);
    begin(json, "columns", false);
    for (int column = 0; column < LINK_COLUMNS; column++) {
        begin(json, names[column], true);
        for (size_t i = 0; i < count; i++)
            put_link(json, &analysis->links[chosen[i]], (enum link_column)column);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
    if (count < analysis->link_count) {
        (void)snprintf(cut, sizeof cut, "The %zu slowest of %zu links are in this file.", count,
                       analysis->link_count);
        rs_json_out_key(json, "cut");
        rs_json_out_string(json, cut);
    }
    rs_json_out_end(json);
}

/* All of them, or, of too many, the slowest whose rate is known; by source and destination. `chosen_p` is the caller's. */
static enum rs_status choose_links(const struct report *report, size_t **chosen_p, size_t *count_p)
{
    const size_t all = report->analysis->link_count;
    const bool is_cut = all > REPORT_LINKS_MAX;
    size_t count = !is_cut                                 ? all
                   : report->link_count < REPORT_LINKS_MAX ? report->link_count
                                                           : REPORT_LINKS_MAX;
    size_t *chosen = rs_mem_calloc(count + 1, sizeof *chosen);
    if (!chosen)
        return RS_NOMEM;
    for (size_t i = 0; i < count; i++)
        chosen[i] = is_cut ? report->links[i] : i;
    if (count)
        qsort(chosen, count, sizeof *chosen, by_number);
    *chosen_p = chosen;
    *count_p = count;
    return RS_OK;
}

/* The median of all links of each kind, that those in the file are held against; they come in the order of their rates. */
static void put_link_medians(struct rs_json_out *json, const struct report *report)
{
    enum { KINDS_MAX = 64 };
    struct {
        const char *name;
        size_t count, seen;
    } kinds[KINDS_MAX];
    size_t count = 0;
    begin(json, "link_medians", true);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < report->link_count; i++) {
            const struct rs_job_link *link = &report->analysis->links[report->links[i]];
            const char *name = link->transport ? link->transport : "UNKNOWN";
            size_t k = 0;
            while (k < count && strcmp(kinds[k].name, name) != 0)
                k++;
            if (k == count && (pass || k == KINDS_MAX))
                continue; /* beyond all that exist; its links have no colour */
            if (k == count) {
                count++;
                kinds[k].name = name;
                kinds[k].count = kinds[k].seen = 0;
            }
            if (!pass) {
                kinds[k].count++;
            } else if (kinds[k].seen++ == kinds[k].count / 2) {
                rs_json_out_array(json);
                rs_json_out_string(json, name);
                put_rate(json, link->median_bytes_per_s);
                rs_json_out_end(json);
            }
        }
    rs_json_out_end(json);
}

/* ---- all of it ------------------------------------------------------------------------------------------------ */

static enum rs_status put_tables(struct rs_json_out *json, const struct report *report)
{
    struct choice steps = {.rows = NULL};
    size_t *links = NULL, link_count = 0;
    enum rs_status status = choose_steps(json, report->analysis, &steps);
    if (status == RS_OK)
        status = choose_links(report, &links, &link_count);
    if (status == RS_OK) {
        if (link_count < report->analysis->link_count)
            put_link_medians(json, report);
        else
            put_int(json, "link_medians", 0, false);
        begin(json, "tables", false);
        begin(json, "steps", false);
        put_columns(json, "columns", &steps);
        rs_json_out_end(json);
        put_links(json, report->analysis, links, link_count);
        status = put_waits(json, report->analysis);
        rs_json_out_end(json);
    }
    rs_mem_free(steps.rows);
    rs_mem_free(links);
    return status;
}

/* "<" is in strings of JSON only, where it may be written by its number. */
static void put_harmless(struct rs_buf *html, const uint8_t *text, size_t length)
{
    size_t from = 0;
    for (size_t i = 0; i < length; i++)
        if (text[i] == '<') {
            rs_buf_bytes(html, text + from, i - from);
            rs_buf_string(html, "\\u003c");
            from = i + 1;
        }
    rs_buf_bytes(html, text + from, length - from);
}

enum rs_status report_put_data(const struct report *report, struct rs_buf *html)
{
    struct rs_buf text = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &text, 0);
    rs_json_out_object(&json);
    put_title(&json, report);
    put_report(&json, report);
    put_ranks(&json, report->analysis);
    enum rs_status status = put_tables(&json, report);
    if (status == RS_OK) {
        rs_json_out_end(&json);
        put_harmless(html, text.data, text.length);
        status = text.failed || html->failed ? RS_NOMEM : RS_OK;
    }
    rs_buf_fini(&text);
    return status;
}
