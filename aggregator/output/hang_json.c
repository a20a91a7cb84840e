/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang.json: the findings in the form of report.json's, and what they rest on. Schema: docs/schema/hang.schema.json.
 */
#include "aggregator/output/hang_report.h"
#include "common/base/json_out.h"

#include <string.h>

static void put_int(struct rs_json_out *json, const char *key, int64_t value)
{
    if (value == RS_NULL)
        return;
    rs_json_out_key(json, key);
    rs_json_out_int(json, value);
}

static void put_text(struct rs_json_out *json, const char *key, const char *text)
{
    if (!text)
        return;
    rs_json_out_key(json, key);
    rs_json_out_string(json, text);
}

/* {"rank": 3}, {"ranks": [1, 2]}, {"group": "..."} */
static void put_where(struct rs_json_out *json, const struct rs_finding *finding)
{
    size_t ranks = 0;
    for (size_t i = 0; i < finding->place_count; i++)
        ranks += finding->places[i].kind == RS_PLACE_RANK;
    rs_json_out_key(json, "where");
    rs_json_out_object(json);
    if (ranks > 1) {
        rs_json_out_key(json, "ranks");
        rs_json_out_array(json);
    }
    for (size_t i = 0; i < finding->place_count && ranks; i++) {
        if (finding->places[i].kind != RS_PLACE_RANK)
            continue;
        if (ranks == 1)
            rs_json_out_key(json, "rank");
        rs_json_out_int(json, finding->places[i].rank);
    }
    if (ranks > 1)
        rs_json_out_end(json);
    if (!ranks && finding->place_count)
        put_text(json, "group", finding->places[0].text);
    rs_json_out_end(json);
}

/* Other names of the place: the group of a mismatch, the host of a rank. */
static void put_also(struct rs_json_out *json, const struct rs_finding *finding)
{
    rs_json_out_key(json, "also");
    rs_json_out_array(json);
    for (size_t i = 0; i < finding->place_count; i++) {
        if (finding->places[i].kind != RS_PLACE_GROUP || (i == 0 && finding->place_count == 1))
            continue;
        rs_json_out_object(json);
        put_text(json, "group", finding->places[i].text);
        rs_json_out_end(json);
    }
    for (size_t i = 0; i < finding->also_count; i++) {
        rs_json_out_object(json);
        put_text(json, "host", finding->also[i].text);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void put_evidence(struct rs_json_out *json, const struct rs_hang *hang,
                         const struct rs_evidence *evidence)
{
    rs_json_out_object(json);
    put_text(json, "type", rs_evidence_text(evidence->what));
    put_int(json, "rank", evidence->rank);
    put_int(json, "peer", evidence->peer);
    if (evidence->group < hang->group_count)
        put_text(json, "group", hang->groups[evidence->group].text);
    put_int(json, "seq", evidence->step);
    put_text(json, "name", evidence->name);
    put_int(json, "value", evidence->value);
    put_int(json, "reference", evidence->reference);
    put_int(json, "bound", evidence->bound);
    put_int(json, "seen", evidence->seen);
    put_int(json, "of", evidence->of);
    put_int(json, "start_ns", evidence->start_ns);
    put_int(json, "dur_ns", evidence->dur_ns);
    rs_json_out_end(json);
}

static void put_findings(struct rs_json_out *json, const struct rs_hang *hang)
{
    rs_json_out_key(json, "findings");
    rs_json_out_array(json);
    for (size_t i = 0; i < hang->finding_count; i++) {
        const struct rs_finding *finding = &hang->findings[i];
        rs_json_out_object(json);
        put_int(json, "order", (int64_t)i + 1);
        put_text(json, "kind", rs_finding_kind_text(finding->kind));
        put_where(json, finding);
        put_also(json, finding);
        put_text(json, "confidence", rs_confidence_text(finding->confidence));
        rs_json_out_key(json, "evidence");
        rs_json_out_array(json);
        for (size_t k = 0; k < finding->evidence_count; k++)
            put_evidence(json, hang, &finding->evidence[k]);
        rs_json_out_end(json);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void put_untold(struct rs_json_out *json, const struct rs_hang *hang)
{
    if (hang->untold_count)
        put_int(json, "more_causes", (int64_t)hang->untold_count);
}

static void put_waits(struct rs_json_out *json, const struct rs_hang *hang)
{
    rs_json_out_key(json, "waits");
    rs_json_out_array(json);
    for (size_t i = 0; i < hang->wait_count; i++) {
        const struct rs_hang_wait *wait = &hang->waits[i];
        rs_json_out_object(json);
        put_int(json, "rank", wait->rank);
        put_text(json, "group", hang->groups[wait->group].text);
        put_text(json, "op", rs_flight_op_text(wait->op));
        put_int(json, "seq", wait->seq);
        if (wait->for_count)
            put_int(json, "for_rank", wait->for_rank);
        put_int(json, "for_count", (int64_t)wait->for_count);
        put_int(json, "since_ns", wait->since_ns);
        put_int(json, "waited_ns", wait->waited_ns);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void put_coverage(struct rs_json_out *json, const struct rs_hang *hang)
{
    const struct rs_flight_set *set = hang->set;
    rs_json_out_key(json, "coverage");
    rs_json_out_object(json);
    put_int(json, "ranks_expected", hang->world_size);
    put_int(json, "dumps", (int64_t)set->dump_count);
    put_int(json, "calls", (int64_t)set->entry_count);
    put_int(json, "dropped_calls", hang->dropped_calls);
    put_int(json, "older_dumps", (int64_t)hang->stale_dumps);
    put_int(json, "truncated_dumps", (int64_t)hang->partial_dumps);
    put_int(json, "witnesses", (int64_t)set->witness_count);
    rs_json_out_key(json, "p2p_is_recorded");
    rs_json_out_bool(json, !hang->is_half_blind);
    rs_json_out_key(json, "silent_ranks");
    rs_json_out_array(json);
    for (size_t i = 0; i < hang->silent_count; i++)
        rs_json_out_int(json, hang->silent[i]);
    rs_json_out_end(json);
    rs_json_out_end(json);
}

enum rs_status rs_output_hang_json(const struct rs_hang *hang, struct rs_buf *buf,
                                   struct rs_err *err)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, 1);
    rs_json_out_object(&json);
    put_int(&json, "schema_version", RS_HANG_SCHEMA_VERSION);
    put_text(&json, "state", rs_hang_state_text(hang->state));
    put_findings(&json, hang);
    put_untold(&json, hang);
    put_waits(&json, hang);
    put_int(&json, "longest_wait_ns", hang->longest_wait_ns);
    put_int(&json, "limit_ns", hang->limit_ns);
    rs_json_out_key(&json, "has_timed_out");
    rs_json_out_bool(&json, hang->has_timed_out);
    put_coverage(&json, hang);
    rs_json_out_end(&json);
    rs_buf_u8(buf, '\n');
    return buf->failed ? rs_err_set(err, RS_NOMEM, "no memory for hang.json") : RS_OK;
}
