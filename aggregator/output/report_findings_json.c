/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The diagnosis as JSON: findings with typed evidence, loss, replay, waiting, unjudged, sensitivity.
 */
#include "aggregator/output/output_priv.h"
#include "aggregator/output/report_findings.h"

#include <math.h>

static void put_int(struct rs_json_out *json, const char *key, int64_t value)
{
    rs_json_out_key(json, key);
    if (value == RS_NULL)
        rs_json_out_null(json);
    else
        rs_json_out_int(json, value);
}

/* What is not known is left out of evidence, so that an object has what its type has. */
static void put_known(struct rs_json_out *json, const char *key, int64_t value)
{
    if (value != RS_NULL)
        put_int(json, key, value);
}

/* Six digits: enough, and the same on every machine. */
static void put_double(struct rs_json_out *json, const char *key, double value)
{
    rs_json_out_key(json, key);
    rs_json_out_double(json, fabs(value) < 1e9 ? round(value * 1e6) / 1e6 : value);
}

static void put_text(struct rs_json_out *json, const char *key, const char *text)
{
    rs_json_out_key(json, key);
    rs_json_out_string(json, text);
}

static void put_place(struct rs_json_out *json, const struct rs_place *place)
{
    rs_json_out_object(json);
    switch (place->kind) {
    case RS_PLACE_RANK:
        put_int(json, "rank", place->rank);
        break;
    case RS_PLACE_PAIR:
        rs_json_out_key(json, "pair");
        rs_json_out_array(json);
        rs_json_out_int(json, place->src);
        rs_json_out_int(json, place->dst);
        rs_json_out_end(json);
        break;
    case RS_PLACE_LINK:
        rs_json_out_key(json, "link");
        rs_json_out_object(json);
        put_int(json, "src", place->src);
        put_int(json, "dst", place->dst);
        rs_json_out_end(json);
        break;
    case RS_PLACE_GROUP:
        put_text(json, "group", place->text ? place->text : "");
        break;
    case RS_PLACE_STAGE:
        put_int(json, "stage", place->stage);
        break;
    case RS_PLACE_HOST:
        put_text(json, "host", place->text ? place->text : "");
        break;
    case RS_PLACE_OP:
        put_text(json, "op", place->text ? place->text : "");
        break;
    case RS_PLACE_WORKER:
        rs_json_out_key(json, "worker");
        rs_json_out_object(json);
        put_int(json, "dp", place->dp);
        put_int(json, "pp", place->stage);
        rs_json_out_end(json);
        break;
    }
    rs_json_out_end(json);
}

static bool are_ranks(const struct rs_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (places[i].kind != RS_PLACE_RANK)
            return false;
    return true;
}

static void put_ranks(struct rs_json_out *json, const struct rs_place *places, size_t count)
{
    rs_json_out_object(json);
    rs_json_out_key(json, "ranks");
    rs_json_out_array(json);
    for (size_t i = 0; i < count; i++)
        rs_json_out_int(json, places[i].rank);
    rs_json_out_end(json);
    rs_json_out_end(json);
}

static void put_where(struct rs_json_out *json, const struct rs_finding *finding)
{
    rs_json_out_key(json, "where");
    if (finding->place_count == 1) {
        put_place(json, &finding->places[0]);
    } else if (are_ranks(finding->places, finding->place_count)) {
        put_ranks(json, finding->places, finding->place_count);
    } else {
        rs_json_out_object(json);
        rs_json_out_key(json, "all");
        rs_json_out_array(json);
        for (size_t i = 0; i < finding->place_count; i++)
            put_place(json, &finding->places[i]);
        rs_json_out_end(json);
        rs_json_out_end(json);
    }
    rs_json_out_key(json, "also");
    rs_json_out_array(json);
    if (finding->also_count > 1 && are_ranks(finding->also, finding->also_count))
        put_ranks(json, finding->also, finding->also_count);
    else
        for (size_t i = 0; i < finding->also_count; i++)
            put_place(json, &finding->also[i]);
    rs_json_out_end(json);
}

static void put_evidence(struct rs_json_out *json, const struct rs_analysis *analysis,
                         const struct rs_evidence *evidence)
{
    const bool is_count = evidence->what == RS_EVIDENCE_KERNELS;
    rs_json_out_object(json);
    put_text(json, "type", rs_evidence_text(evidence->what));
    if (evidence->figure != RS_FIGURE_NONE)
        put_text(json, "figure", rs_figure_text(evidence->figure));
    if (evidence->peer != RS_NULL) {
        rs_json_out_key(json, "unit");
        rs_json_out_array(json);
        rs_json_out_int(json, evidence->rank);
        rs_json_out_int(json, evidence->peer);
        rs_json_out_end(json);
    } else {
        put_known(json, "rank", evidence->rank);
    }
    if (evidence->group < analysis->group_count)
        put_text(json, "group", analysis->groups[evidence->group].text);
    put_known(json, "step", evidence->step);
    if (evidence->name)
        put_text(json,
                 evidence->what == RS_EVIDENCE_TRANSFER || evidence->what == RS_EVIDENCE_LOAD
                     ? "op"
                     : "name",
                 evidence->name);
    put_known(json, "bytes", evidence->bytes);
    switch (evidence->what) {
    case RS_EVIDENCE_WAITING:
        put_known(json, "caused_ns", evidence->value);
        put_known(json, "of_ns", evidence->reference);
        break;
    case RS_EVIDENCE_TRANSFER:
        put_known(json, "ns", evidence->value);
        put_known(json, "peers_ns", evidence->reference);
        put_known(json, "samples", evidence->seen);
        put_known(json, "units", evidence->of);
        break;
    case RS_EVIDENCE_LOAD:
        put_known(json, "bytes_per_step", evidence->value);
        put_known(json, "healthy_bytes_per_step", evidence->reference);
        break;
    case RS_EVIDENCE_SPREAD:
        put_known(json, "largest_ppm", evidence->value);
        put_known(json, "ranks_above", evidence->seen);
        put_known(json, "ranks", evidence->of);
        break;
    case RS_EVIDENCE_OWN_WORK:
    case RS_EVIDENCE_STAGE_WORK:
    case RS_EVIDENCE_HOST_HEAD:
    case RS_EVIDENCE_LOOK_AT:
    case RS_EVIDENCE_KERNELS:
    case RS_EVIDENCE_NOT_CALLED:
    case RS_EVIDENCE_WAITS_FOR:
    case RS_EVIDENCE_BLOCKED:
    case RS_EVIDENCE_LAST_CALL:
    case RS_EVIDENCE_STACK:
    case RS_EVIDENCE_DIFFERS:
    case RS_EVIDENCE_NO_DUMP:
    case RS_EVIDENCE_OFF_COURSE:
    case RS_EVIDENCE_INSIDE:
    case RS_EVIDENCE_LATE:
    case RS_EVIDENCE_WITNESS:
    case RS_EVIDENCE_NOT_KNOWN:
    case RS_EVIDENCE_REBALANCED:
        put_known(json, is_count ? "count" : "ns", evidence->value);
        put_known(json, is_count ? "healthy_count" : "healthy_ns", evidence->reference);
        put_known(json, "input_ns", evidence->bound);
        put_known(json, "steps_above", evidence->seen);
        put_known(json, "steps", evidence->of);
        put_known(json, "start_ns", evidence->start_ns);
        put_known(json, "dur_ns", evidence->dur_ns);
        break;
    }
    rs_json_out_end(json);
}

static void put_test(struct rs_json_out *json, const struct rs_finding *finding)
{
    const struct rs_finding_steps *steps = &finding->steps;
    const struct rs_finding_test *test = &finding->test;
    rs_json_out_key(json, "steps");
    rs_json_out_object(json);
    put_int(json, "seen", steps->seen);
    put_int(json, "hit", steps->hit);
    put_int(json, "period", steps->period);
    put_int(json, "phase", steps->phase);
    put_int(json, "first", steps->first);
    rs_json_out_key(json, "began");
    rs_json_out_bool(json, steps->began);
    rs_json_out_end(json);
    rs_json_out_key(json, "test");
    rs_json_out_object(json);
    put_double(json, "factor", test->factor);
    put_double(json, "noise", test->noise);
    put_double(json, "limit", test->limit);
    put_int(json, "peers", test->peers);
    put_double(json, "level", test->level);
    put_double(json, "p", test->p);
    rs_json_out_end(json);
}

static void put_finding(struct rs_json_out *json, const struct rs_analysis *analysis,
                        const struct rs_finding *finding, size_t order)
{
    struct rs_buf sentence = {0};
    rs_json_out_object(json);
    put_int(json, "order", (int64_t)order);
    rs_output_finding_line(finding, &sentence);
    put_text(json, "sentence", rs_buf_text(&sentence));
    rs_buf_fini(&sentence);
    put_text(json, "kind", rs_finding_kind_text(finding->kind));
    put_where(json, finding);
    put_int(json, "cost_ns_per_step", finding->cost_ns_per_step);
    rs_json_out_key(json, "cost_interval_ns");
    rs_json_out_array(json);
    rs_json_out_int(json, finding->cost_low_ns);
    rs_json_out_int(json, finding->cost_high_ns);
    rs_json_out_end(json);
    put_double(json, "share", finding->share);
    put_int(json, "alone_ns_per_step", finding->alone_ns_per_step);
    put_int(json, "left_ns_per_step", finding->left_ns_per_step);
    put_double(json, "explains", finding->explains);
    put_text(json, "confidence", rs_confidence_text(finding->confidence));
    put_int(json, "more_steps", finding->more_steps);
    put_test(json, finding);
    rs_json_out_key(json, "evidence");
    rs_json_out_array(json);
    for (size_t k = 0; k < finding->evidence_count; k++)
        put_evidence(json, analysis, &finding->evidence[k]);
    rs_json_out_end(json);
    rs_json_out_end(json);
}

static void put_list(struct rs_json_out *json, const char *key, const struct rs_analysis *analysis,
                     const struct rs_finding *findings, size_t count)
{
    rs_json_out_key(json, key);
    rs_json_out_array(json);
    for (size_t i = 0; i < count; i++)
        put_finding(json, analysis, &findings[i], i + 1);
    rs_json_out_end(json);
}

static void put_waiting(struct rs_json_out *json, const struct rs_diagnosis *diagnosis)
{
    rs_json_out_key(json, "waiting");
    rs_json_out_object(json);
    rs_json_out_key(json, "is_whole");
    rs_json_out_bool(json, diagnosis->waiting.is_known);
    put_int(json, "total_ns", diagnosis->waiting.total_ns);
    put_int(json, "by_design_ns", diagnosis->waiting.by_design_ns);
    put_int(json, "absorbed_ns", diagnosis->waiting.absorbed_ns);
    rs_json_out_key(json, "caused");
    rs_json_out_array(json);
    for (size_t i = 0; i < diagnosis->waiting.cause_count; i++) {
        const struct rs_wait_cause *cause = &diagnosis->waiting.caused[i];
        rs_json_out_object(json);
        if (cause->finding < diagnosis->finding_count)
            put_int(json, "finding", (int64_t)cause->finding + 1);
        else
            put_int(json, "not_worth_fixing",
                    (int64_t)(cause->finding - diagnosis->finding_count) + 1);
        put_int(json, "ns", cause->caused_ns);
        put_int(json, "indirect_ns", cause->indirect_ns);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
    rs_json_out_end(json);
}

static void put_unjudged(struct rs_json_out *json, const struct rs_analysis *analysis)
{
    const struct rs_diagnosis *diagnosis = analysis->diagnosis;
    rs_json_out_key(json, "unjudged");
    rs_json_out_array(json);
    for (size_t i = 0; i < diagnosis->unjudged_count; i++) {
        const struct rs_unjudged *unjudged = &diagnosis->unjudged[i];
        rs_json_out_object(json);
        if (unjudged->rank != RS_NULL)
            put_int(json, "rank", unjudged->rank);
        else
            put_text(json, "group", analysis->groups[unjudged->group].text);
        put_text(json, "why", rs_unjudged_text(unjudged->why));
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void put_loss(struct rs_json_out *json, const struct rs_diagnosis *diagnosis)
{
    const bool is_known = diagnosis->loss.is_known, is_replayed = diagnosis->replay.is_known;
    rs_json_out_key(json, "loss");
    rs_json_out_object(json);
    put_int(json, "step_ns", is_replayed ? diagnosis->loss.step_ns : RS_NULL);
    put_int(json, "ideal_ns", is_known ? diagnosis->loss.ideal_ns : RS_NULL);
    put_int(json, "recoverable_ns", is_known ? diagnosis->loss.recoverable_ns : RS_NULL);
    put_double(json, "slowdown",
               diagnosis->loss.slowdown > 0 ? diagnosis->loss.slowdown : (double)NAN);
    rs_json_out_key(json, "single_culprit");
    if (is_known)
        rs_json_out_bool(json, diagnosis->loss.single_culprit);
    else
        rs_json_out_null(json);
    put_double(json, "spread_share", is_known ? diagnosis->loss.spread_share : (double)NAN);
    rs_json_out_end(json);
    rs_json_out_key(json, "replay");
    rs_json_out_object(json);
    put_double(json, "error_share", is_replayed ? diagnosis->replay.error_share : (double)NAN);
    put_double(json, "unexplained_share",
               is_replayed ? diagnosis->replay.unexplained_share : (double)NAN);
    put_int(json, "nodes", is_replayed ? diagnosis->replay.nodes : RS_NULL);
    put_int(json, "edges", is_replayed ? diagnosis->replay.edges : RS_NULL);
    put_int(json, "inferred_edges", is_replayed ? diagnosis->replay.inferred_edges : RS_NULL);
    put_int(json, "refuted", is_replayed ? diagnosis->replay.refuted : RS_NULL);
    put_int(json, "cycles", is_replayed ? diagnosis->replay.cycles : RS_NULL);
    const bool is_unsure = diagnosis->replay.clock_bound_ns > 0;
    put_int(json, "clock_bound_ns", is_unsure ? diagnosis->replay.clock_bound_ns : RS_NULL);
    put_double(json, "clock_operations_per_step",
               is_unsure ? diagnosis->replay.clock_meetings : (double)NAN);
    rs_json_out_end(json);
}

void report_json_diagnosis(struct rs_json_out *json, const struct rs_analysis *analysis)
{
    static const struct rs_diagnosis nothing = {.silence = RS_SILENCE_FEW_RANKS};
    const struct rs_diagnosis *diagnosis = analysis->diagnosis ? analysis->diagnosis : &nothing;
    struct rs_buf why = {0};
    put_list(json, "findings", analysis, diagnosis->findings, diagnosis->finding_count);
    report_silence(analysis, &why);
    rs_json_out_key(json, "no_finding_because");
    if (diagnosis->silence == RS_SILENCE_NONE)
        rs_json_out_null(json);
    else
        rs_json_out_string(json, rs_buf_text(&why));
    rs_buf_fini(&why);
    put_list(json, "undecided", analysis, diagnosis->undecided, diagnosis->undecided_count);
    put_list(json, "not_worth_fixing", analysis, diagnosis->not_worth_fixing,
             diagnosis->not_worth_count);
    put_loss(json, diagnosis);
    put_waiting(json, diagnosis);
    if (analysis->diagnosis)
        put_unjudged(json, analysis);
    rs_json_out_key(json, "sensitivity");
    rs_json_out_object(json);
    const bool is_sensed = diagnosis->sensitivity.smallest_factor > 0;
    put_double(json, "smallest_factor",
               is_sensed ? diagnosis->sensitivity.smallest_factor : (double)NAN);
    put_int(json, "smallest_cost_ns",
            is_sensed ? diagnosis->sensitivity.smallest_cost_ns : RS_NULL);
    put_int(json, "judged_ranks", (int64_t)diagnosis->judged_ranks);
    put_int(json, "judged_steps", diagnosis->judged_steps);
    rs_json_out_end(json);
}
