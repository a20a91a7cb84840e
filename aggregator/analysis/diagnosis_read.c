/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The diagnosis out of its rows: what diagnosis_rows.c writes, read in the same order. Words become codes again by asking each code for its
 * word, so that there is one list of them; a word that no code has is RS_FORMAT (rows of a newer program).
 */
#include "aggregator/analysis/from_rows_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <string.h>

/* A list of findings that grows: those of finding, or those of undecided. */
struct findings_read {
    struct rs_finding *items;
    size_t count, capacity, worth_count;
    size_t place_capacity, also_capacity, evidence_capacity; /* of the finding that is at `of` */
    int64_t of;
};

static int32_t small_or_none(int64_t value)
{
    return value >= 0 && value <= INT32_MAX ? (int32_t)value : -1;
}

/* The code whose word this is, below `count`; false: there is none. */
#define CODE_OF(name, enum_type, text_of, last)                                                    \
    static bool name(const char *word, enum_type *code_p)                                          \
    {                                                                                              \
        for (int code = 0; word && code <= (int)(last); code++)                                    \
            if (text_of((enum_type)code) && strcmp(text_of((enum_type)code), word) == 0) {         \
                *code_p = (enum_type)code;                                                         \
                return true;                                                                       \
            }                                                                                      \
        return false;                                                                              \
    }
CODE_OF(kind_of, enum rs_finding_kind, rs_finding_kind_text, RS_FINDING_SILENT_RANK)
CODE_OF(confidence_of, enum rs_confidence, rs_confidence_text, RS_CONFIDENCE_WEAK)
CODE_OF(evidence_of, enum rs_evidence_what, rs_evidence_text, RS_EVIDENCE_NOT_KNOWN)
CODE_OF(figure_of, enum rs_figure, rs_figure_text, RS_FIGURE_OWN)
CODE_OF(unjudged_of, enum rs_unjudged_why, rs_unjudged_text, RS_UNJUDGED_ONE_OF_ITS_KIND)
CODE_OF(silence_of, enum rs_silence, rs_silence_text, RS_SILENCE_NOTHING)
CODE_OF(place_of, enum rs_place_kind, rs_place_kind_text, RS_PLACE_WORKER)

/* UINT32_MAX: it names none. */
static bool group_of(const struct rows_reader *reader, int64_t group_id, uint32_t *group_p)
{
    *group_p = UINT32_MAX;
    return group_id == RS_NULL || rows_group_index(reader, group_id, group_p);
}

static enum rs_status take_finding(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_finding *row = row_;
    struct findings_read *list = reader->list;
    struct rs_finding finding = {
        .cost_ns_per_step = row->cost_ns_per_step,
        .cost_low_ns = row->cost_low_ns,
        .cost_high_ns = row->cost_high_ns,
        .share = row->share,
        .alone_ns_per_step = row->alone_ns,
        .left_ns_per_step = row->left_ns,
        .explains = row->explains,
        .steps = {.seen = row->steps_seen,
                  .hit = row->steps_hit,
                  .period = row->period,
                  .phase = row->phase,
                  .first = row->first_step,
                  .began = row->began == 1},
        .test = {.factor = row->factor,
                 .noise = row->noise,
                 .limit = row->called_above,
                 .peers = row->peers,
                 .level = row->level,
                 .p = row->p},
        .more_steps = row->more_steps,
    };
    if (row->finding_no != (int64_t)list->count + 1 || !kind_of(row->kind, &finding.kind) ||
        !confidence_of(row->confidence, &finding.confidence))
        return RS_FORMAT;
    if (rs_mem_grow((void **)&list->items, &list->capacity, list->count + 1, sizeof finding) !=
        RS_OK)
        return RS_NOMEM;
    list->worth_count += row->is_worth_fixing == 1;
    list->items[list->count++] = finding;
    return RS_OK;
}

/* The finding of that number, whose places or evidence come one after the other. */
static struct rs_finding *finding_at(struct findings_read *list, int64_t number)
{
    if (number < 1 || number > (int64_t)list->count)
        return NULL;
    if (list->of != number) {
        list->place_capacity = list->also_capacity = list->evidence_capacity = 0;
        list->of = number;
    }
    return &list->items[number - 1];
}

static enum rs_status take_place(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_finding_place *row = row_;
    struct findings_read *list = reader->list;
    struct rs_finding *finding = finding_at(list, row->finding_no);
    struct rs_place place = {.rank = small_or_none(row->rank),
                             .src = small_or_none(row->src),
                             .dst = small_or_none(row->dst),
                             .stage = small_or_none(row->stage),
                             .dp = small_or_none(row->dp)};
    if (!finding || !place_of(row->where_kind, &place.kind) ||
        !group_of(reader, row->group_id, &place.group))
        return RS_FORMAT;
    const bool is_also = row->is_also == 1;
    struct rs_place **places = is_also ? &finding->also : &finding->places;
    size_t *count = is_also ? &finding->also_count : &finding->place_count;
    if (rs_mem_grow((void **)places, is_also ? &list->also_capacity : &list->place_capacity,
                    *count + 1, sizeof place) != RS_OK)
        return RS_NOMEM;
    place.text = row->name ? rs_mem_strdup(row->name) : NULL;
    (*places)[(*count)++] = place;
    return row->name && !place.text ? RS_NOMEM : RS_OK;
}

static enum rs_status take_evidence(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_evidence *row = row_;
    struct findings_read *list = reader->list;
    struct rs_finding *finding = finding_at(list, row->finding_no);
    struct rs_evidence evidence = {.rank = row->rank,
                                   .peer = row->peer,
                                   .step = row->step,
                                   .value = row->value,
                                   .reference = row->reference,
                                   .bound = row->bound,
                                   .bytes = row->bytes,
                                   .seen = row->seen,
                                   .of = row->out_of,
                                   .start_ns = row->start_ns,
                                   .dur_ns = row->dur_ns};
    if (!finding || !evidence_of(row->what, &evidence.what) ||
        !figure_of(row->figure, &evidence.figure) ||
        !group_of(reader, row->group_id, &evidence.group))
        return RS_FORMAT;
    if (rs_mem_grow((void **)&finding->evidence, &list->evidence_capacity,
                    finding->evidence_count + 1, sizeof evidence) != RS_OK)
        return RS_NOMEM;
    evidence.name = row->name ? rs_mem_strdup(row->name) : NULL;
    finding->evidence[finding->evidence_count++] = evidence;
    return row->name && !evidence.name ? RS_NOMEM : RS_OK;
}

/* Figures in ns are whole numbers below 2^53, or as near as a double is. */
static int64_t whole(double value)
{
    return value >= 9.2e18 ? INT64_MAX : value <= -9.2e18 ? -INT64_MAX : (int64_t)value;
}

/* Where a figure stands: in the diagnosis, or in the analysis. That it is there says that the others of its kind are known. */
enum figure_kind { FIGURE_I64, FIGURE_F64, FIGURE_SIZE, FIGURE_BOOL, FIGURE_I32 };
#define NOWHERE SIZE_MAX
#define FIGURE(name, kind, member)                                                                 \
    {                                                                                              \
        name, offsetof(struct rs_diagnosis, member), NOWHERE, FIGURE_##kind, false                 \
    }
#define FIGURE_AND(name, kind, member, known)                                                      \
    {                                                                                              \
        name, offsetof(struct rs_diagnosis, member), offsetof(struct rs_diagnosis, known),         \
            FIGURE_##kind, false                                                                   \
    }
#define FIGURE_OF_JOB(name, kind, member)                                                          \
    {                                                                                              \
        name, offsetof(struct rs_analysis, member), NOWHERE, FIGURE_##kind, true                   \
    }

static const struct {
    const char *name;
    size_t offset, known_offset; /* the second of a bool in the diagnosis */
    enum figure_kind kind;
    bool is_of_analysis;
} figure_places[] = {
    FIGURE("loss_step_ns", I64, loss.step_ns),
    FIGURE_AND("loss_ideal_ns", I64, loss.ideal_ns, loss.is_known),
    FIGURE("loss_recoverable_ns", I64, loss.recoverable_ns),
    FIGURE("loss_slowdown", F64, loss.slowdown),
    FIGURE("loss_single_culprit", BOOL, loss.single_culprit),
    FIGURE("loss_spread_share", F64, loss.spread_share),
    FIGURE_AND("replay_error_share", F64, replay.error_share, replay.is_known),
    FIGURE("replay_unexplained_share", F64, replay.unexplained_share),
    FIGURE("replay_nodes", I64, replay.nodes),
    FIGURE("replay_edges", I64, replay.edges),
    FIGURE("replay_inferred_edges", I64, replay.inferred_edges),
    FIGURE("replay_refuted", I64, replay.refuted),
    FIGURE("replay_cycles", I64, replay.cycles),
    FIGURE("replay_clock_bound_ns", I64, replay.clock_bound_ns),
    FIGURE("replay_clock_meetings", F64, replay.clock_meetings),
    FIGURE_AND("waiting_total_ns", I64, waiting.total_ns, waiting.is_known),
    FIGURE("waiting_seen_total_ns", I64, waiting.total_ns),
    FIGURE("waiting_seen_by_design_ns", I64, waiting.by_design_ns),
    FIGURE("waiting_seen_absorbed_ns", I64, waiting.absorbed_ns),
    FIGURE("sensitivity_smallest_factor", F64, sensitivity.smallest_factor),
    FIGURE("sensitivity_smallest_cost_ns", I64, sensitivity.smallest_cost_ns),
    FIGURE("judged_ranks", SIZE, judged_ranks),
    FIGURE("judged_steps", I64, judged_steps),
    FIGURE("lost_operations", SIZE, lost_ops),
    FIGURE_OF_JOB("recording_ranks", SIZE, recording.rank_count),
    FIGURE_OF_JOB("recording_rank", I32, recording.rank),
    FIGURE_OF_JOB("recording_recorded_ns", I64, recording.recorded),
    FIGURE_OF_JOB("recording_writing_ns", I64, recording.writing),
    FIGURE_OF_JOB("unfinished_members", I64, unfinished_count),
};

static void set_figure(void *at, enum figure_kind kind, double value)
{
    switch (kind) {
    case FIGURE_I64:
        *(int64_t *)at = whole(value);
        return;
    case FIGURE_F64:
        *(double *)at = value;
        return;
    case FIGURE_SIZE:
        *(size_t *)at = value > 0 ? (size_t)whole(value) : 0;
        return;
    case FIGURE_BOOL:
        *(bool *)at = value != 0;
        return;
    case FIGURE_I32:
        *(int32_t *)at = small_or_none(whole(value));
        return;
    }
}

static enum rs_status take_figure(struct rows_reader *reader, const void *row_)
{
    static const char silence[] = "silence_";
    const struct rs_row_diagnosis *row = row_;
    struct rs_diagnosis *diagnosis = reader->out->diagnosis;
    if (!row->figure || isnan(row->value))
        return RS_OK;
    if (!rows_is_length(whole(row->value)))
        return RS_FORMAT;
    if (strncmp(row->figure, silence, sizeof silence - 1) == 0)
        return silence_of(row->figure + sizeof silence - 1, &diagnosis->silence) ? RS_OK
                                                                                 : RS_FORMAT;
    for (size_t i = 0; i < sizeof figure_places / sizeof figure_places[0]; i++) {
        if (strcmp(figure_places[i].name, row->figure) != 0)
            continue;
        char *base = figure_places[i].is_of_analysis ? (char *)reader->out : (char *)diagnosis;
        set_figure(base + figure_places[i].offset, figure_places[i].kind, row->value);
        if (figure_places[i].known_offset != NOWHERE)
            *(bool *)((char *)diagnosis + figure_places[i].known_offset) = true;
    }
    return RS_OK; /* one that a newer program added is not needed here */
}

static enum rs_status take_cause(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_wait_cause *row = row_;
    struct rs_diagnosis *diagnosis = reader->out->diagnosis;
    const int64_t count = (int64_t)(diagnosis->finding_count + diagnosis->not_worth_count);
    if ((row->finding_no != RS_NULL && (row->finding_no < 1 || row->finding_no > count)) ||
        !rows_is_length(row->caused_ns) || !rows_is_length(row->indirect_ns))
        return RS_FORMAT;
    if (rs_mem_grow((void **)&diagnosis->waiting.caused, &reader->cause_capacity,
                    diagnosis->waiting.cause_count + 1, sizeof *diagnosis->waiting.caused) != RS_OK)
        return RS_NOMEM;
    diagnosis->waiting.caused[diagnosis->waiting.cause_count++] = (struct rs_wait_cause){
        .finding = row->finding_no == RS_NULL ? SIZE_MAX : (size_t)(row->finding_no - 1),
        .caused_ns = row->caused_ns,
        .indirect_ns = row->indirect_ns};
    return RS_OK;
}

static enum rs_status take_unjudged(struct rows_reader *reader, const void *row_)
{
    const struct rs_row_unjudged *row = row_;
    struct rs_diagnosis *diagnosis = reader->out->diagnosis;
    struct rs_unjudged one = {.rank = row->rank};
    if (!unjudged_of(row->why, &one.why) || !group_of(reader, row->group_id, &one.group) ||
        (one.rank == RS_NULL && one.group == UINT32_MAX))
        return RS_FORMAT;
    if (rs_mem_grow((void **)&diagnosis->unjudged, &reader->unjudged_capacity,
                    diagnosis->unjudged_count + 1, sizeof one) != RS_OK)
        return RS_NOMEM;
    diagnosis->unjudged[diagnosis->unjudged_count++] = one;
    return RS_OK;
}

static enum rs_status read_list(struct rows_reader *reader, struct findings_read *list,
                                enum rs_read findings, enum rs_read places, enum rs_read evidence)
{
    reader->list = list;
    enum rs_status status = rows_read(reader, findings, take_finding);
    if (status == RS_OK)
        status = rows_read(reader, places, take_place);
    list->of = 0;
    return status == RS_OK ? rows_read(reader, evidence, take_evidence) : status;
}

/* Those that are not worth fixing stand behind the others, as in the rows; here they are a list of their own. */
static enum rs_status split(struct rs_diagnosis *diagnosis, const struct findings_read *list)
{
    const size_t behind = list->count - list->worth_count;
    diagnosis->findings = list->items;
    diagnosis->finding_count = list->count; /* all of them, if the next line fails */
    diagnosis->not_worth_fixing = rs_mem_calloc(behind + 1, sizeof *list->items);
    if (!diagnosis->not_worth_fixing)
        return RS_NOMEM;
    if (behind)
        memcpy(diagnosis->not_worth_fixing, list->items + list->worth_count,
               behind * sizeof *list->items);
    diagnosis->finding_count = list->worth_count;
    diagnosis->not_worth_count = behind;
    return RS_OK;
}

enum rs_status rows_read_diagnosis(struct rows_reader *reader)
{
    struct findings_read found = {.count = 0}, undecided = {.count = 0};
    struct rs_diagnosis *diagnosis = rs_mem_calloc(1, sizeof *diagnosis);
    if (!diagnosis)
        return rs_err_set(reader->err, RS_NOMEM, "no memory for findings");
    reader->out->diagnosis = diagnosis;
    enum rs_status status =
        read_list(reader, &found, RS_READ_FINDINGS, RS_READ_FINDING_PLACES, RS_READ_EVIDENCE);
    if (split(diagnosis, &found) != RS_OK && status == RS_OK)
        status = rs_err_set(reader->err, RS_NOMEM, "no memory for findings");
    if (status == RS_OK)
        status = read_list(reader, &undecided, RS_READ_UNDECIDED, RS_READ_UNDECIDED_PLACES,
                           RS_READ_UNDECIDED_EVIDENCE);
    diagnosis->undecided = undecided.items;
    diagnosis->undecided_count = undecided.count;
    if (status == RS_OK)
        status = rows_read(reader, RS_READ_DIAGNOSIS, take_figure);
    if (status == RS_OK)
        status = rows_read(reader, RS_READ_WAIT_CAUSES, take_cause);
    return status == RS_OK ? rows_read(reader, RS_READ_UNJUDGED, take_unjudged) : status;
}
