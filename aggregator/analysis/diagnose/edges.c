/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes and edges of a job, of all ranks in turn: edges_rank.c, edges_meetings.c, edges_lost.c, ghosts.c, edges_inputs.c, edges_outputs.c.
 *
 *   facts     stream order: work on one stream starts after what was launched there before
 *             launch: work starts after its launch; launches follow one another; a host wait ends after the
 *             latest work launched before it in its scope, and the next launch follows it
 *             input: an operation starts after the last computing span launched before its call that had ended
 *             meeting: contracts section 5, who waits for whom
 *   inferred  input of a span: it begins right where work of another stream ends that was launched before, and in no step before that
 *             output: who depends on an operation is the first later row at a place of the program that in no step
 *             and on no rank of the class starts before the operation's end. One counterexample refutes.
 *
 * Edges that the times contradict are left out and counted.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

/* Keeps of every operation what transfers ask for, and frees the lines. */
static enum rs_status drop_lines(struct builder *builder)
{
    const size_t ops = builder->op_base[builder->analysis->summary_count];
    builder->op_places = rs_mem_calloc(ops + 1, sizeof *builder->op_places);
    if (builder->op_places == NULL) {
        return RS_NOMEM;
    }
    for (size_t s = 0; s < builder->analysis->summary_count; s++) {
        const uint32_t worker = builder->worker_of[s];
        for (size_t i = builder->op_base[s]; i < builder->op_base[s + 1]; i++) {
            const struct line *line = worker != GRAPH_NONE && builder->op_line[i] != GRAPH_NONE
                                          ? &builder->programs[worker].lines[builder->op_line[i]]
                                          : NULL;
            builder->op_places[i] = line != NULL
                                        ? (struct op_place){line->end_node, line->step, line->slot}
                                        : (struct op_place){GRAPH_NONE, GRAPH_NONE, GRAPH_NONE};
        }
    }
    rs_mem_free(builder->lines);
    rs_mem_free(builder->op_line);
    builder->lines = NULL;
    builder->op_line = NULL;
    for (size_t w = 0; w < builder->model->worker_count; w++) {
        builder->programs[w].lines = NULL;
        builder->programs[w].count = builder->programs[w].most = 0;
    }
    return RS_OK;
}

/* What began right behind other work, as outputs and inputs have shown by now, waited for that and not for its host. */
static enum rs_status settle_issues(struct builder *builder)
{
    struct graph *graph = &builder->model->graph;
    if (builder->issue_count == 0) {
        return RS_OK;
    }
    rs_ns *latest = rs_mem_calloc(graph->count + 1, sizeof *latest);
    uint32_t *issue_of = rs_mem_calloc(graph->count + 1, sizeof *issue_of); /* and one; 0: none */
    if (latest == NULL || issue_of == NULL) {
        rs_mem_free(latest);
        rs_mem_free(issue_of);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < builder->issue_count; i++) {
        latest[builder->issues[i].to] = RS_NS_MIN;
        issue_of[builder->issues[i].to] = builder->issues[i].node + 1;
    }
    for (size_t e = 0; e < graph->edge_count; e++) {
        const uint32_t to = graph->to[e], from = graph->from[e];
        if (issue_of[to] != 0 && from + 1 != issue_of[to] && graph->seen[from] > latest[to]) {
            latest[to] = graph->seen[from];
        }
    }
    for (size_t i = 0; i < builder->issue_count; i++) {
        const struct issue *issue = &builder->issues[i];
        const rs_ns before = latest[issue->to], launch = graph->seen[issue->launch];
        if (before > launch && graph->seen[issue->node] - before < (rs_dur)DIAG_INPUT_AFTER_NS) {
            graph->seen[issue->node] = launch;
        }
    }
    rs_mem_free(latest);
    rs_mem_free(issue_of);
    return RS_OK;
}

enum rs_status edges_make(struct builder *builder)
{
    struct diag_model *model = builder->model;
    const struct rs_analysis_options *options = &builder->analysis->options;
    model->graph.tolerance = (rs_dur)DIAG_CLOCK_TOLERANCE_NS;
    enum rs_status status = RS_OK;
    for (size_t w = 0; status == RS_OK && w < model->worker_count; w++) {
        status = edges_of_rank(builder, &builder->programs[w]);
        if (options->spans_read != NULL) {
            options->spans_read(options->self,
                                builder->analysis->summaries[builder->programs[w].summary]);
        }
    }
    if (status == RS_OK) {
        status = edges_of_meetings(builder);
    }
    graph_infer(&model->graph);
    if (status == RS_OK && model->has_lost_rows) {
        status = edges_of_lost(builder);
    }
    if (status == RS_OK) {
        status = ghosts_make(builder);
    }
    if (status == RS_OK) {
        status = edges_of_inputs(builder);
    }
    if (status == RS_OK) {
        status = edges_of_outputs(builder);
    }
    if (status == RS_OK) {
        status = settle_issues(builder);
    }
    if (status == RS_OK) {
        status = drop_lines(builder);
    }
    status = status == RS_OK ? graph_seal(&model->graph) : status;
    if (status == RS_OK && model->has_lost_rows) {
        edges_loosen(builder);
    }
    return status;
}
