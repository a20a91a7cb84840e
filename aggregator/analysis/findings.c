/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/analysis/findings.h"

#include "common/base/mem.h"

const char *rs_finding_kind_text(enum rs_finding_kind kind)
{
    static const char *const texts[] = {
        [RS_FINDING_SLOW_RANK] = "slow_rank",
        [RS_FINDING_SLOW_LINK] = "slow_link",
        [RS_FINDING_SLOW_GROUP] = "slow_group",
        [RS_FINDING_SLOW_STAGE] = "slow_stage",
        [RS_FINDING_SLOW_HOST] = "slow_host",
        [RS_FINDING_DATA_STALL] = "data_stall",
        [RS_FINDING_HOST_GAP] = "host_gap",
        [RS_FINDING_IMBALANCE] = "imbalance",
        [RS_FINDING_JITTER] = "jitter",
        [RS_FINDING_OP] = "op",
        [RS_FINDING_HANG] = "hang",
        [RS_FINDING_MISMATCH] = "mismatch",
        [RS_FINDING_DEADLOCK] = "deadlock",
        [RS_FINDING_SILENT_RANK] = "silent_rank",
    };
    return texts[kind];
}

const char *rs_confidence_text(enum rs_confidence confidence)
{
    static const char *const texts[] = {
        [RS_CONFIDENCE_EXACT] = "exact",
        [RS_CONFIDENCE_BOUNDED] = "bounded",
        [RS_CONFIDENCE_PARTIAL] = "partial",
        [RS_CONFIDENCE_WEAK] = "weak",
    };
    return texts[confidence];
}

const char *rs_evidence_text(enum rs_evidence_what what)
{
    static const char *const texts[] = {
        [RS_EVIDENCE_OWN_WORK] = "own_work",
        [RS_EVIDENCE_STAGE_WORK] = "stage_work",
        [RS_EVIDENCE_TRANSFER] = "transfer",
        [RS_EVIDENCE_HOST_HEAD] = "host_head",
        [RS_EVIDENCE_WAITING] = "waiting",
        [RS_EVIDENCE_LOOK_AT] = "look_at",
        [RS_EVIDENCE_KERNELS] = "kernels",
        [RS_EVIDENCE_REBALANCED] = "rebalanced",
        [RS_EVIDENCE_LOAD] = "load",
        [RS_EVIDENCE_SPREAD] = "spread",
        [RS_EVIDENCE_NOT_CALLED] = "not_called",
        [RS_EVIDENCE_WAITS_FOR] = "waits_for",
        [RS_EVIDENCE_BLOCKED] = "blocked",
        [RS_EVIDENCE_LAST_CALL] = "last_call",
        [RS_EVIDENCE_STACK] = "stack",
        [RS_EVIDENCE_DIFFERS] = "differs",
        [RS_EVIDENCE_NO_DUMP] = "no_dump",
        [RS_EVIDENCE_OFF_COURSE] = "off_course",
        [RS_EVIDENCE_INSIDE] = "inside",
        [RS_EVIDENCE_LATE] = "late",
        [RS_EVIDENCE_WITNESS] = "witness",
        [RS_EVIDENCE_NOT_KNOWN] = "not_known",
    };
    return texts[what];
}

const char *rs_figure_text(enum rs_figure figure)
{
    static const char *const texts[] = {
        [RS_FIGURE_NONE] = "none",           [RS_FIGURE_COMPUTING] = "computing",
        [RS_FIGURE_HOST_HEAD] = "host_head", [RS_FIGURE_HOST_INSIDE] = "host_inside",
        [RS_FIGURE_TRANSFER] = "transfer",   [RS_FIGURE_OWN] = "own",
    };
    return texts[figure];
}

const char *rs_unjudged_text(enum rs_unjudged_why why)
{
    static const char *const texts[] = {
        [RS_UNJUDGED_NO_PEERS] = "no_peers",
        [RS_UNJUDGED_NO_STEPS] = "no_steps",
        [RS_UNJUDGED_NO_TIME_BASE] = "no_time_base",
        [RS_UNJUDGED_NO_WORK] = "no_work",
        [RS_UNJUDGED_NO_STAGE_ALIKE] = "no_stage_alike",
        [RS_UNJUDGED_ONE_OF_ITS_KIND] = "one_of_its_kind",
    };
    return texts[why];
}

const char *rs_place_kind_text(enum rs_place_kind kind)
{
    static const char *const texts[] = {
        [RS_PLACE_RANK] = "rank",   [RS_PLACE_PAIR] = "pair",     [RS_PLACE_LINK] = "link",
        [RS_PLACE_GROUP] = "group", [RS_PLACE_STAGE] = "stage",   [RS_PLACE_HOST] = "host",
        [RS_PLACE_OP] = "op",       [RS_PLACE_WORKER] = "worker",
    };
    return texts[kind];
}

const char *rs_silence_text(enum rs_silence silence)
{
    static const char *const texts[] = {
        [RS_SILENCE_NONE] = "none",       [RS_SILENCE_FEW_RANKS] = "few_ranks",
        [RS_SILENCE_NO_STEP] = "no_step", [RS_SILENCE_NO_PEERS] = "no_peers",
        [RS_SILENCE_NOTHING] = "nothing",
    };
    return texts[silence];
}

static void places_free(struct rs_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rs_mem_free(places[i].text);
    }
    rs_mem_free(places);
}

static void findings_free(struct rs_finding *findings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        places_free(findings[i].places, findings[i].place_count);
        places_free(findings[i].also, findings[i].also_count);
        for (size_t k = 0; k < findings[i].evidence_count; k++) {
            rs_mem_free(findings[i].evidence[k].name);
        }
        rs_mem_free(findings[i].evidence);
    }
    rs_mem_free(findings);
}

void rs_diagnosis_free(struct rs_diagnosis **diagnosis_p)
{
    struct rs_diagnosis *diagnosis = *diagnosis_p;
    if (diagnosis == NULL) {
        return;
    }
    findings_free(diagnosis->findings, diagnosis->finding_count);
    findings_free(diagnosis->not_worth_fixing, diagnosis->not_worth_count);
    findings_free(diagnosis->undecided, diagnosis->undecided_count);
    rs_mem_free(diagnosis->waiting.caused);
    rs_mem_free(diagnosis->unjudged);
    rs_mem_free(diagnosis);
    *diagnosis_p = NULL;
}
