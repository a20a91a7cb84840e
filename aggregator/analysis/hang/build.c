/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making findings: places and evidence grow one by one, everything is owned by the result.
 */
#include "aggregator/analysis/hang/hang_priv.h"
#include "common/base/mem.h"

#include <string.h>

struct rs_evidence hang_evidence(enum rs_evidence_what what)
{
    return (struct rs_evidence){.what = what,
                                .rank = RS_NULL,
                                .peer = RS_NULL,
                                .step = RS_NULL,
                                .group = UINT32_MAX,
                                .value = RS_NULL,
                                .reference = RS_NULL,
                                .bound = RS_NULL,
                                .bytes = RS_NULL,
                                .seen = RS_NULL,
                                .of = RS_NULL,
                                .start_ns = RS_NULL,
                                .dur_ns = RS_NULL};
}

struct rs_finding *hang_add_finding(struct rs_hang *hang, enum rs_finding_kind kind,
                                    enum rs_confidence confidence)
{
    struct rs_finding *grown =
        rs_mem_realloc(hang->findings, hang->finding_count + 1, sizeof *grown);
    if (!grown)
        return NULL;
    hang->findings = grown;
    grown[hang->finding_count] = (struct rs_finding){.kind = kind,
                                                     .confidence = confidence,
                                                     .cost_ns_per_step = RS_NULL,
                                                     .cost_low_ns = RS_NULL,
                                                     .cost_high_ns = RS_NULL,
                                                     .alone_ns_per_step = RS_NULL,
                                                     .left_ns_per_step = RS_NULL};
    return &grown[hang->finding_count++];
}

static enum rs_status add_place(struct rs_finding *finding, struct rs_place place)
{
    struct rs_place *grown =
        rs_mem_realloc(finding->places, finding->place_count + 1, sizeof *grown);
    if (!grown)
        return RS_NOMEM;
    finding->places = grown;
    grown[finding->place_count++] = place;
    return RS_OK;
}

static struct rs_place nowhere(enum rs_place_kind kind)
{
    return (struct rs_place){
        .kind = kind, .rank = -1, .src = -1, .dst = -1, .stage = -1, .dp = -1, .group = UINT32_MAX};
}

enum rs_status hang_add_rank(struct rs_finding *finding, int32_t rank)
{
    struct rs_place place = nowhere(RS_PLACE_RANK);
    place.rank = rank;
    return add_place(finding, place);
}

/* Another name of the place. */
enum rs_status hang_add_host(struct rs_finding *finding, const char *host)
{
    struct rs_place *grown = rs_mem_realloc(finding->also, finding->also_count + 1, sizeof *grown);
    if (!grown)
        return RS_NOMEM;
    finding->also = grown;
    grown[finding->also_count] = nowhere(RS_PLACE_HOST);
    grown[finding->also_count].text = rs_mem_strdup(host);
    if (!grown[finding->also_count].text)
        return RS_NOMEM;
    finding->also_count++;
    return RS_OK;
}

enum rs_status hang_add_group(const struct rs_hang *hang, struct rs_finding *finding,
                              uint32_t group)
{
    struct rs_place place = nowhere(RS_PLACE_GROUP);
    place.group = group;
    place.text = rs_mem_strdup(hang->groups[group].text);
    if (!place.text)
        return RS_NOMEM;
    const enum rs_status status = add_place(finding, place);
    if (status != RS_OK)
        rs_mem_free(place.text);
    return status;
}

enum rs_status hang_add_evidence(struct rs_finding *finding, struct rs_evidence evidence,
                                 const char *name)
{
    evidence.name = name ? rs_mem_strdup(name) : NULL;
    struct rs_evidence *grown =
        name && !evidence.name
            ? NULL
            : rs_mem_realloc(finding->evidence, finding->evidence_count + 1, sizeof *grown);
    if (!grown) {
        rs_mem_free(evidence.name);
        return RS_NOMEM;
    }
    finding->evidence = grown;
    grown[finding->evidence_count++] = evidence;
    return RS_OK;
}

void hang_describe(const struct hang_work *work, const struct rs_flight_entry *entry,
                   struct rs_buf *text)
{
    const struct rs_strtab *strings = &work->set->strings;
    const char *full = rs_strtab_text(strings, entry->name);
    const char *colon = strrchr(full, ':');
    rs_buf_string(text, colon ? colon + 1 : full);
    if (entry->sizes)
        rs_buf_printf(text, " %.120s", rs_strtab_text(strings, entry->sizes));
    if (entry->dtypes)
        rs_buf_printf(text, " %.60s", rs_strtab_text(strings, entry->dtypes));
}
