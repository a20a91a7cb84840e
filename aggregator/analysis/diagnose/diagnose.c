/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of the diagnosis: joined operations and spans in, findings out.
 *
 *   build.c --> model --> effects.c --> elements --> decide.c --> sets in the order of fixing
 *                                                     blame.c  --> who caused the waiting
 *   here: places, evidence, confidence; who could not be judged; why nobody is named
 */
#include "aggregator/analysis/analysis.h"
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct speaker {
    const struct rs_analysis *analysis;
    const struct diag_model *model;
    const struct diag_effects *effects;
    const struct diag_verdict *verdict;
    const struct diag_blame *blame;
    struct rs_diagnosis *out;
};

/* ---- places ------------------------------------------------------------------------------- */

static struct rs_place place_new(enum rs_place_kind kind)
{
    return (struct rs_place){
        .kind = kind, .rank = -1, .src = -1, .dst = -1, .stage = -1, .dp = -1, .group = UINT32_MAX};
}

static enum rs_status place_add(struct rs_place **places_p, size_t *count_p,
                                const struct rs_place *place, const char *text)
{
    struct rs_place *places = rs_mem_realloc(*places_p, *count_p + 1, sizeof *places);
    if (places == NULL) {
        return RS_NOMEM;
    }
    *places_p = places;
    places[*count_p] = *place;
    if (text != NULL) {
        places[*count_p].text = rs_mem_strdup(text);
        if (places[*count_p].text == NULL) {
            return RS_NOMEM;
        }
    }
    (*count_p)++;
    return RS_OK;
}

static enum rs_status add_rank(const struct speaker *speaker, struct rs_place **places_p,
                               size_t *count_p, size_t worker)
{
    const struct diag_worker *own = &speaker->model->workers[worker];
    struct rs_place place = place_new(RS_PLACE_RANK);
    place.rank = own->rank;
    for (size_t i = 0; i < *count_p; i++) {
        if ((*places_p)[i].kind == RS_PLACE_RANK && (*places_p)[i].rank == own->rank) {
            return RS_OK;
        }
    }
    return place_add(places_p, count_p, &place, NULL);
}

static int by_rank(const void *left, const void *right)
{
    const struct rs_place *a = left, *b = right;
    if (a->kind != b->kind) {
        return a->kind > b->kind ? 1 : -1;
    }
    if (a->rank != b->rank) {
        return a->rank > b->rank ? 1 : -1;
    }
    return a->src != b->src ? (a->src > b->src ? 1 : -1) : (a->dst > b->dst) - (a->dst < b->dst);
}

static enum rs_status add_unit(const struct speaker *speaker, struct rs_finding *finding,
                               const struct diag_unit *unit, int way)
{
    struct rs_place place = place_new(unit->a < 0 ? RS_PLACE_GROUP
                                      : way == 0  ? RS_PLACE_PAIR
                                                  : RS_PLACE_LINK);
    if (unit->a >= 0) {
        place.src = speaker->model->workers[way < 0 ? unit->b : unit->a].rank;
        place.dst = speaker->model->workers[way < 0 ? unit->a : unit->b].rank;
        return place_add(&finding->places, &finding->place_count, &place, NULL);
    }
    place.group = unit->group;
    return place_add(&finding->places, &finding->place_count, &place,
                     speaker->analysis->groups[unit->group].text);
}

static enum rs_status add_members(const struct speaker *speaker, uint32_t class_id,
                                  struct rs_place **places_p, size_t *count_p)
{
    for (size_t w = 0; w < speaker->model->worker_count; w++) {
        if (speaker->model->workers[w].class_id == class_id &&
            add_rank(speaker, places_p, count_p, w) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

static enum rs_status add_stage(const struct speaker *speaker, struct rs_finding *finding,
                                uint32_t class_id)
{
    struct rs_place place = place_new(RS_PLACE_STAGE);
    place.stage = (int32_t)class_id;
    if (place_add(&finding->places, &finding->place_count, &place, NULL) != RS_OK) {
        return RS_NOMEM;
    }
    return add_members(speaker, class_id, &finding->also, &finding->also_count);
}

static bool is_heavier(const struct speaker *speaker, size_t class_id)
{
    const struct diag_element *heavier = &speaker->effects->heavier;
    for (size_t i = 0; i < heavier->among_count; i++) {
        if (speaker->model->workers[heavier->among[i]].class_id == class_id) {
            return true;
        }
    }
    return false;
}

static enum rs_status add_places(const struct speaker *speaker, const struct diag_set *set,
                                 struct rs_finding *finding)
{
    const struct diag_element *common = set->is_spread   ? &speaker->effects->spread
                                        : set->is_loaded ? &speaker->effects->loaded
                                        : set->is_jitter ? &speaker->effects->jitter
                                                         : NULL;
    enum rs_status status = RS_OK;
    for (size_t c = 0; set->is_heavier && status == RS_OK && c < speaker->model->class_count; c++) {
        status = is_heavier(speaker, c) ? add_stage(speaker, finding, (uint32_t)c) : RS_OK;
    }
    for (size_t i = 0; common != NULL && status == RS_OK && i < common->among_count; i++) {
        status = add_rank(speaker, &finding->places, &finding->place_count, common->among[i]);
    }
    for (size_t i = 0; status == RS_OK && i < set->count; i++) {
        const struct diag_element *element = &speaker->effects->elements[set->members[i]];
        if (element->what == DIAG_STAGE && diag_is_stage(speaker->model, element->id)) {
            status = add_stage(speaker, finding, element->id);
        } else if (element->what == DIAG_STAGE) {
            status = add_members(speaker, element->id, &finding->places, &finding->place_count);
        } else if (element->what == DIAG_UNIT) {
            status = add_unit(speaker, finding, &speaker->model->units[element->id], element->way);
        } else {
            status = add_rank(speaker, &finding->places, &finding->place_count, element->id);
        }
    }
    if (status == RS_OK && finding->place_count > 1) {
        qsort(finding->places, finding->place_count, sizeof *finding->places, by_rank);
    }
    return status;
}

static bool names_rank(const struct rs_place *places, size_t count, int32_t rank)
{
    for (size_t i = 0; i < count; i++) {
        if (places[i].kind == RS_PLACE_RANK && places[i].rank == rank) {
            return true;
        }
    }
    return false;
}

/* Are the named ranks exactly those of which `of` (host or class) is `value`, and do others have another? */
static bool equals_part(const struct speaker *speaker, const struct rs_place *places, size_t count,
                        bool is_host, int64_t value)
{
    bool has_others = false;
    for (size_t w = 0; w < speaker->model->worker_count; w++) {
        const struct diag_worker *worker = &speaker->model->workers[w];
        const bool is_in = (is_host ? worker->host : (int64_t)worker->class_id) == value;
        if (is_in != names_rank(places, count, worker->rank)) {
            return false;
        }
        has_others = has_others || !is_in;
    }
    return has_others;
}

static const char *host_text(const struct speaker *speaker, int32_t host)
{
    for (size_t w = 0; w < speaker->model->worker_count; w++) {
        const struct rs_summary *summary =
            speaker->analysis->summaries[speaker->model->workers[w].summary];
        if (speaker->model->workers[w].host == host && summary->trace.host != RS_STR_NONE &&
            summary->trace.host != RS_STR_EMPTY) {
            return rs_strtab_text(&summary->strings, summary->trace.host);
        }
    }
    return NULL;
}

/* Are these links all that some host has in their fabric? Then it is another name of them. */
static enum rs_status add_host_of_links(const struct speaker *speaker, const struct diag_set *set,
                                        struct rs_finding *finding)
{
    const struct diag_model *model = speaker->model;
    const struct diag_element *first =
        set->count > 1 ? &speaker->effects->elements[set->members[0]] : NULL;
    if (first == NULL || first->what != DIAG_UNIT || model->units[first->id].a < 0) {
        return RS_OK;
    }
    const struct diag_unit *pair = &model->units[first->id];
    const int32_t ends[] = {model->workers[pair->a].host, model->workers[pair->b].host};
    for (size_t end = 0; end < 2; end++) {
        size_t links = 0, own = 0;
        for (size_t u = 0; u < model->unit_count; u++) {
            links += model->units[u].panel == pair->panel && diag_unit_touches(model, u, ends[end]);
        }
        for (size_t i = 0; i < set->count; i++) {
            own +=
                diag_unit_touches(model, speaker->effects->elements[set->members[i]].id, ends[end]);
        }
        const char *host = host_text(speaker, ends[end]);
        if (own == set->count && links == own && host != NULL) {
            const struct rs_place place = place_new(RS_PLACE_HOST);
            return place_add(&finding->also, &finding->also_count, &place, host);
        }
    }
    return RS_OK;
}

/* Other names of the same ranks. A whole stage that is a whole host, with the same kernels, is a slow host. */
static enum rs_status add_also(const struct speaker *speaker, struct rs_finding *finding)
{
    const bool is_stage = finding->kind == RS_FINDING_SLOW_STAGE;
    const bool is_ranks = finding->place_count > 1 && finding->places[0].kind == RS_PLACE_RANK &&
                          finding->kind != RS_FINDING_IMBALANCE &&
                          finding->kind != RS_FINDING_JITTER;
    if (!is_stage && !is_ranks) {
        return RS_OK;
    }
    const struct rs_place *ranks = is_stage ? finding->also : finding->places;
    const size_t count = is_stage ? finding->also_count : finding->place_count;
    for (size_t w = 0; w < speaker->model->worker_count; w++) {
        const struct diag_worker *worker = &speaker->model->workers[w];
        if (ranks[0].rank != worker->rank) {
            continue;
        }
        struct rs_place place = place_new(RS_PLACE_HOST);
        const char *host = worker->host >= 0 ? host_text(speaker, worker->host) : NULL;
        if (host != NULL && equals_part(speaker, ranks, count, true, worker->host)) {
            if (is_stage) {
                finding->kind = RS_FINDING_SLOW_HOST;
                struct rs_place *stage = finding->places;
                const size_t stages = finding->place_count;
                finding->places = finding->also;
                finding->place_count = finding->also_count;
                finding->also = stage;
                finding->also_count = stages;
            }
            return place_add(&finding->also, &finding->also_count, &place, host);
        }
        if (is_ranks && worker->stage >= 0 &&
            equals_part(speaker, ranks, count, false, worker->class_id)) {
            place.kind = RS_PLACE_STAGE;
            place.stage = worker->stage;
            return place_add(&finding->also, &finding->also_count, &place, NULL);
        }
        return RS_OK;
    }
    return RS_OK;
}

/* ---- evidence --------------------------------------------------------------------------------- */

static enum rs_status evidence_add(struct rs_finding *finding, enum rs_evidence_what what,
                                   struct rs_evidence **evidence_p)
{
    struct rs_evidence *list =
        rs_mem_realloc(finding->evidence, finding->evidence_count + 1, sizeof *list);
    if (list == NULL) {
        return RS_NOMEM;
    }
    finding->evidence = list;
    *evidence_p = &list[finding->evidence_count++];
    **evidence_p = (struct rs_evidence){.what = what,
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
    return RS_OK;
}

/* The place to open first: the longest of the items that the element is about. */
static enum rs_status add_look_at(const struct speaker *speaker, struct rs_finding *finding,
                                  const struct diag_element *element)
{
    const struct diag_model *model = speaker->model;
    const bool is_gap =
        element->what == DIAG_IDLE && model->workers[element->id].has_device; /* between launches */
    const uint8_t figure = element->what == DIAG_HEAD ? RS_FIGURE_HOST_HEAD
                           : is_gap                   ? RS_FIGURE_HOST_INSIDE
                                                      : RS_FIGURE_COMPUTING;
    const struct diag_item *longest = NULL;
    struct rs_evidence *evidence;
    for (size_t i = model->item_first[element->id]; i < model->item_first[element->id + 1]; i++) {
        const struct diag_item *item = &model->items[i];
        const bool is_meant =
            item->figure == figure &&
            (element->position == GRAPH_NONE || item->position == element->position) &&
            (element->by_step == NULL || element->by_step[item->step] > 0);
        if (is_meant &&
            (longest == NULL || model->graph.work[item->node] > model->graph.work[longest->node])) {
            longest = item;
        }
    }
    if (longest == NULL) {
        return RS_OK;
    }
    if (evidence_add(finding, RS_EVIDENCE_LOOK_AT, &evidence) != RS_OK) {
        return RS_NOMEM;
    }
    evidence->rank = model->workers[element->id].rank;
    evidence->step = model->steps[longest->step];
    evidence->dur_ns = model->graph.work[longest->node];
    evidence->start_ns = model->base + model->graph.seen[longest->node] - evidence->dur_ns;
    const struct rs_summary *summary =
        speaker->analysis->summaries[model->workers[element->id].summary];
    /* The longest operator is behind the head or the gap. */
    if (element->what != DIAG_HEAD && !is_gap && longest->name != RS_STR_NONE) {
        evidence->name = rs_mem_strdup(rs_strtab_text(&summary->strings, longest->name));
        return evidence->name != NULL ? RS_OK : RS_NOMEM;
    }
    return RS_OK;
}

static enum rs_status unit_evidence(const struct speaker *speaker, struct rs_finding *finding,
                                    const struct diag_element *element)
{
    const struct diag_model *model = speaker->model;
    const struct diag_unit *unit = &model->units[element->id];
    const struct diag_move *move = &model->moves[model->move_first[element->id]];
    struct rs_evidence *evidence;
    if (evidence_add(finding, RS_EVIDENCE_TRANSFER, &evidence) != RS_OK) {
        return RS_NOMEM;
    }
    evidence->figure = RS_FIGURE_TRANSFER;
    if (unit->a >= 0) {
        evidence->rank = model->workers[unit->a].rank;
        evidence->peer = model->workers[unit->b].rank;
    } else {
        evidence->group = unit->group;
    }
    evidence->value = (rs_dur)llround(element->own);
    evidence->reference = (rs_dur)llround(element->healthy);
    evidence->bytes = move->bytes >= 0 ? move->bytes : RS_NULL;
    evidence->seen = (int64_t)(model->move_first[element->id + 1] - model->move_first[element->id]);
    evidence->of = (int64_t)element->peers;
    evidence->name = rs_mem_strdup(rs_op_type_text((enum rs_op_type)move->type));
    return evidence->name != NULL ? RS_OK : RS_NOMEM;
}

/* A rank of what an element is of; RS_NULL: a stage. */
static int64_t rank_of(const struct speaker *speaker, const struct diag_element *element)
{
    const struct diag_worker *workers = speaker->model->workers;
    if (element->what != DIAG_STAGE) {
        return workers[element->id].rank;
    }
    for (size_t w = 0; w < speaker->model->worker_count; w++) {
        if (workers[w].class_id == element->id && workers[w].stage < 0) {
            return workers[w].rank;
        }
    }
    return RS_NULL;
}

static enum rs_status element_evidence(const struct speaker *speaker, struct rs_finding *finding,
                                       const struct diag_element *element)
{
    struct rs_evidence *evidence;
    const bool is_head = element->what == DIAG_HEAD || element->what == DIAG_IDLE;
    if (element->what == DIAG_UNIT) {
        return unit_evidence(speaker, finding, element);
    }
    const int64_t rank = rank_of(speaker, element);
    if (evidence_add(finding,
                     is_head           ? RS_EVIDENCE_HOST_HEAD
                     : rank == RS_NULL ? RS_EVIDENCE_STAGE_WORK
                                       : RS_EVIDENCE_OWN_WORK,
                     &evidence) != RS_OK) {
        return RS_NOMEM;
    }
    evidence->figure = element->what == DIAG_IDLE   ? RS_FIGURE_HOST_INSIDE
                       : element->what == DIAG_HEAD ? RS_FIGURE_HOST_HEAD
                                                    : RS_FIGURE_COMPUTING;
    evidence->rank = rank;
    evidence->value = (rs_dur)llround(element->own);
    evidence->reference = (rs_dur)llround(element->healthy);
    evidence->bound = element->input >= 0 ? (rs_dur)llround(element->input) : RS_NULL;
    evidence->seen = (int64_t)element->hits;
    evidence->of = (int64_t)speaker->model->step_count;
    if (element->operators > 0) {
        struct rs_evidence *more;
        if (evidence_add(finding, RS_EVIDENCE_KERNELS, &more) != RS_OK) {
            return RS_NOMEM;
        }
        more->rank = speaker->model->workers[element->id].rank;
        more->value = (int64_t)llround(element->operators);
        more->reference = (int64_t)llround(element->peers_operators);
    }
    return element->what == DIAG_STAGE ? RS_OK : add_look_at(speaker, finding, element);
}

enum { EVIDENCE_MEMBERS = 4 };

static enum rs_status add_evidence(const struct speaker *speaker, const struct diag_set *set,
                                   struct rs_finding *finding)
{
    struct rs_evidence *evidence;
    for (size_t i = 0; i < set->count && i < EVIDENCE_MEMBERS; i++) {
        if (element_evidence(speaker, finding, &speaker->effects->elements[set->members[i]]) !=
            RS_OK) {
            return RS_NOMEM;
        }
    }
    if (set->is_heavier) {
        const struct diag_element *heavier = &speaker->effects->heavier;
        if (evidence_add(finding, RS_EVIDENCE_KERNELS, &evidence) != RS_OK) {
            return RS_NOMEM;
        }
        evidence->value = (int64_t)llround(heavier->own);
        evidence->reference = (int64_t)llround(heavier->healthy);
        if (evidence_add(finding, RS_EVIDENCE_REBALANCED, &evidence) != RS_OK) {
            return RS_NOMEM;
        }
        evidence->value = set->rebalanced;
    }
    if (set->is_loaded) {
        if (evidence_add(finding, RS_EVIDENCE_LOAD, &evidence) != RS_OK) {
            return RS_NOMEM;
        }
        evidence->rank = speaker->model->workers[speaker->effects->loaded.id].rank;
        evidence->name = rs_mem_strdup(rs_op_type_text(RS_OP_ALL_TO_ALL));
        evidence->value = (int64_t)llround(speaker->effects->loaded.own);
        evidence->reference = (int64_t)llround(speaker->effects->loaded.healthy);
        if (evidence->name == NULL) {
            return RS_NOMEM;
        }
    }
    if (set->is_spread) {
        if (evidence_add(finding, RS_EVIDENCE_SPREAD, &evidence) != RS_OK) {
            return RS_NOMEM;
        }
        evidence->value = (int64_t)llround((exp(speaker->effects->spread.sum) - 1) * 1e6);
        evidence->seen = (int64_t)speaker->effects->spread.among_count;
        evidence->of = (int64_t)speaker->effects->judged_workers;
    }
    return RS_OK;
}

/* ---- one finding --------------------------------------------------------------------------- */

/* So many steps in turn are late before a rank that shares cores is said to be slow since then. */
enum { BEGAN_LEAST = 5 };

/* Ranks that share cores: what the scheduler did in all steps of a short recording looks like a slow rank, the more
 * often the more ranks are meant. */
/* What a crowd does to one rank lasts longer than a few steps, so these are no proof of each other: how many more are asked for, 0 none.
 * Who runs more operators does so in every step. */
static int64_t steps_short(const struct speaker *speaker, const struct diag_set *set)
{
    bool is_crowd = false;
    for (size_t i = 0; i < set->count; i++) {
        const struct diag_element *element = &speaker->effects->elements[set->members[i]];
        is_crowd = is_crowd || (element->what == DIAG_RANK && element->operators <= 0);
    }
    const double lacking = DIAG_CORES_STEPS - (double)speaker->model->step_count;
    return is_crowd && lacking > 0 ? (int64_t)lacking : 0;
}

static enum rs_confidence confidence_on_cores(const struct speaker *speaker,
                                              const struct diag_set *set, enum rs_confidence best)
{
    size_t slow = 0;
    double p = 0;
    bool is_odd = false;
    for (size_t i = 0; i < set->count; i++) {
        const struct diag_element *element = &speaker->effects->elements[set->members[i]];
        slow += element->what == DIAG_RANK;
        p = element->what == DIAG_RANK ? fmax(p, element->p_ordinary) : p;
        /* now and then, without a beat, one rank more often than others: so are schedulers. Few pauses are equally far apart by chance, and
         * one rank may be crowded when the recording ends */
        const bool has_form = element->has_beat || (element->began && element->hits >= BEGAN_LEAST);
        is_odd = is_odd || (element->by_step != NULL && !has_form);
    }
    if (set->is_spread || set->is_heavier || set->is_jitter || slow > 1 || is_odd) {
        return RS_CONFIDENCE_WEAK;
    }
    return p > DIAG_LEVEL_EXACT && best < RS_CONFIDENCE_BOUNDED ? RS_CONFIDENCE_BOUNDED : best;
}

/* Clocks may hide much of its cost. */
static bool is_doubted(const struct diag_set *set)
{
    return (double)set->clock_doubt > DIAG_CLOCK_DOUBT * (double)set->cost;
}

/* More work comes to one of its ranks, and how much of its time that takes is only supposed: twice the load may take up to four times as
 * long. What is beyond that is its own, and by how much is not sure. */
static enum rs_confidence best_beyond_load(const struct speaker *speaker,
                                           const struct diag_set *set)
{
    const struct diag_element *loaded = &speaker->effects->loaded;
    enum rs_confidence best = RS_CONFIDENCE_EXACT;
    for (size_t i = 0; i < set->count && loaded->p > DIAG_LEVEL_EXACT; i++) {
        const struct diag_element *element = &speaker->effects->elements[set->members[i]];
        for (size_t u = 0; u < loaded->among_count && element->what == DIAG_RANK; u++) {
            if (element->id == loaded->among[u]) {
                const bool is_far = element->effect > loaded->among_loads[u];
                best = !is_far                        ? RS_CONFIDENCE_WEAK
                       : best < RS_CONFIDENCE_BOUNDED ? RS_CONFIDENCE_BOUNDED
                                                      : best;
            }
        }
    }
    return best;
}

static enum rs_confidence confidence_of(const struct speaker *speaker, const struct diag_set *set,
                                        double p)
{
    const struct diag_verdict *verdict = speaker->verdict;
    enum rs_confidence best = speaker->model->best;
    if (verdict->error_share > DIAG_REPLAY_ERROR_MAX ||
        verdict->unexplained_share > DIAG_UNEXPLAINED_MAX || is_doubted(set)) {
        best = best > RS_CONFIDENCE_BOUNDED ? best : RS_CONFIDENCE_BOUNDED;
    }
    if (diag_may_share_cores(speaker->model)) {
        best = steps_short(speaker, set) > 0 ? RS_CONFIDENCE_WEAK
                                             : confidence_on_cores(speaker, set, best);
    }
    /* A fabric may be built so that one host is further away than the others. */
    if (set->count > 0 && speaker->effects->elements[set->members[0]].is_of_host &&
        best < RS_CONFIDENCE_BOUNDED) {
        best = RS_CONFIDENCE_BOUNDED;
    }
    const enum rs_confidence beyond_load = best_beyond_load(speaker, set);
    best = beyond_load > best ? beyond_load : best;
    return p > DIAG_LEVEL_EXACT || speaker->model->step_count < 2 ? RS_CONFIDENCE_WEAK : best;
}

/* By noise, and by what equal ranks differ by anyway: of ranks that share cores confidence_on_cores() judges that. */
static double set_p(const struct speaker *speaker, const struct diag_set *set)
{
    const bool are_equal = !diag_may_share_cores(speaker->model);
    double p = set->is_loaded    ? speaker->effects->loaded.p
               : set->is_heavier ? speaker->effects->heavier.p
                                 : 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct diag_element *element = &speaker->effects->elements[set->members[i]];
        p = fmax(p, are_equal ? fmax(element->p, element->p_ordinary) : element->p);
    }
    return fmin(1, fmax(p, 1e-12));
}

/* So many steps would tell of every member, where noise alone makes the finding weak; 0: it is not, or other things do as well. */
static int64_t more_steps_of(const struct speaker *speaker, const struct diag_set *set,
                             enum rs_confidence confidence)
{
    const bool are_equal = !diag_may_share_cores(speaker->model);
    double noise = 0, most = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct diag_element *element = &speaker->effects->elements[set->members[i]];
        if (element->by_step != NULL || (are_equal && element->p_ordinary > DIAG_LEVEL_EXACT)) {
            return 0;
        }
        noise = fmax(noise, element->p);
        most = fmax(most, element->more_steps);
    }
    const int64_t lacking = are_equal ? 0 : steps_short(speaker, set);
    most = fmax(most, (double)lacking);
    const bool is_noise =
        confidence == RS_CONFIDENCE_WEAK && (noise > DIAG_LEVEL_EXACT || lacking > 0);
    const bool is_weak_anyway =
        set->is_spread || set->is_heavier || set->is_jitter ||
        (!are_equal &&
         confidence_on_cores(speaker, set, RS_CONFIDENCE_EXACT) == RS_CONFIDENCE_WEAK);
    return is_noise && !is_weak_anyway ? (int64_t)most : 0;
}

static void set_test(const struct speaker *speaker, const struct diag_element *element, double p,
                     struct rs_finding *finding)
{
    const struct diag_model *model = speaker->model;
    /* An excess in one place is told as what it is of all the work: "the same work takes 1.2 times as long". */
    const bool is_of_all =
        element->position != GRAPH_NONE && element->own > element->healthy && element->healthy > 0;
    const double factor = is_of_all ? element->own / element->healthy : exp(element->effect);
    finding->test = (struct rs_finding_test){
        .factor = element->is_additive ? 0 : factor,
        .noise = element->noise,
        .limit = element->is_additive ? element->limit : exp(element->limit),
        .peers = (int64_t)element->peers,
        .level = p <= DIAG_LEVEL_EXACT ? DIAG_LEVEL_EXACT : DIAG_LEVEL_WEAK,
        .p = p};
    finding->steps = (struct rs_finding_steps){
        .seen = (int64_t)model->step_count,
        .hit = (int64_t)(element->hits < model->step_count ? element->hits : model->step_count),
        .period = (int64_t)element->period,
        .phase = (int64_t)element->phase,
        .first = element->first < model->step_count ? model->steps[element->first] : RS_NULL,
        .began = element->began};
}

static const struct diag_element *main_element(const struct speaker *speaker,
                                               const struct diag_set *set)
{
    return set->is_spread    ? &speaker->effects->spread
           : set->is_heavier ? &speaker->effects->heavier
           : set->is_loaded  ? &speaker->effects->loaded
           : set->is_jitter  ? &speaker->effects->jitter
                             : &speaker->effects->elements[set->members[0]];
}

static enum rs_status make_finding(const struct speaker *speaker, const struct diag_set *set,
                                   struct rs_finding *finding)
{
    const struct diag_verdict *verdict = speaker->verdict;
    const double step = (double)verdict->step_ns;
    const double loss = (double)(verdict->step_ns - verdict->ideal_ns);
    const double p = set_p(speaker, set);
    *finding = (struct rs_finding){.kind = set->kind,
                                   .cost_ns_per_step = set->cost,
                                   .cost_low_ns = set->low,
                                   .cost_high_ns = set->high,
                                   .share = step > 0 ? (double)set->cost / step : 0,
                                   .alone_ns_per_step = set->alone,
                                   .left_ns_per_step = set->left,
                                   .explains = loss > 0 ? (double)set->cost / loss : 0,
                                   .confidence = confidence_of(speaker, set, p)};
    const struct diag_element *element = main_element(speaker, set);
    set_test(speaker, element, p, finding);
    finding->more_steps = more_steps_of(speaker, set, finding->confidence);
    enum rs_status status = add_places(speaker, set, finding);
    if (status == RS_OK) {
        status = add_evidence(speaker, set, finding);
    }
    if (status == RS_OK) {
        status = add_host_of_links(speaker, set, finding);
    }
    return status == RS_OK ? add_also(speaker, finding) : status;
}

static enum rs_status make_findings(const struct speaker *speaker)
{
    const struct diag_verdict *verdict = speaker->verdict;
    struct rs_diagnosis *out = speaker->out;
    const size_t rest = verdict->count - verdict->worth_count;
    out->findings = rs_mem_calloc(verdict->worth_count + 1, sizeof *out->findings);
    out->not_worth_fixing = rs_mem_calloc(rest + 1, sizeof *out->not_worth_fixing);
    if (out->findings == NULL || out->not_worth_fixing == NULL) {
        return RS_NOMEM;
    }
    enum rs_status status = RS_OK;
    for (size_t i = 0; status == RS_OK && i < verdict->count; i++) {
        const bool is_worth = i < verdict->worth_count;
        struct rs_finding *finding = is_worth ? &out->findings[out->finding_count++]
                                              : &out->not_worth_fixing[out->not_worth_count++];
        status = make_finding(speaker, &verdict->sets[i], finding);
        if (is_worth && is_doubted(&verdict->sets[i])) {
            out->replay.clock_bound_ns = speaker->model->clock_bound;
            out->replay.clock_meetings = speaker->model->meetings;
        }
    }
    return status;
}

static enum rs_status make_undecided(const struct speaker *speaker)
{
    const struct diag_element *close = &speaker->effects->close;
    const double worth = DIAG_WORTH_SHARE * (double)speaker->verdict->step_ns;
    struct rs_diagnosis *out = speaker->out;
    bool has_hint = false;
    for (size_t i = 0; i < out->finding_count; i++) {
        const enum rs_finding_kind kind = out->findings[i].kind;
        has_hint = has_hint || (kind != RS_FINDING_JITTER && kind != RS_FINDING_IMBALANCE);
    }
    if (has_hint || !speaker->effects->has_close || (double)speaker->verdict->close_gain < worth) {
        return RS_OK;
    }
    out->undecided = rs_mem_calloc(1, sizeof *out->undecided);
    if (out->undecided == NULL) {
        return RS_NOMEM;
    }
    struct rs_finding *finding = &out->undecided[out->undecided_count++];
    finding->kind = close->what == DIAG_RANK ? RS_FINDING_SLOW_RANK : RS_FINDING_HOST_GAP;
    finding->confidence = RS_CONFIDENCE_WEAK;
    finding->cost_ns_per_step = finding->alone_ns_per_step = speaker->verdict->close_gain;
    finding->cost_high_ns = 2 * finding->cost_ns_per_step;
    finding->share = speaker->verdict->step_ns > 0
                         ? (double)finding->cost_ns_per_step / (double)speaker->verdict->step_ns
                         : 0;
    finding->more_steps =
        speaker->effects->close_more_steps > 0 ? (int64_t)speaker->effects->close_more_steps : 1;
    set_test(speaker, close, fmin(1, close->p), finding);
    return add_rank(speaker, &finding->places, &finding->place_count, close->id);
}

/* ---- the rest ---------------------------------------------------------------------------------- */

static enum rs_status unjudged_add(struct rs_diagnosis *out, int64_t rank, uint32_t group,
                                   enum rs_unjudged_why why)
{
    struct rs_unjudged *list = rs_mem_realloc(out->unjudged, out->unjudged_count + 1, sizeof *list);
    if (list == NULL) {
        return RS_NOMEM;
    }
    out->unjudged = list;
    list[out->unjudged_count++] = (struct rs_unjudged){rank, group, why};
    return RS_OK;
}

/* Held against another stage; a job of one stage has nothing to be held against. */
static bool is_stage_judged(const struct speaker *speaker, uint32_t class_id)
{
    const uint8_t *is_compared = speaker->effects->is_stage_compared;
    return speaker->model->class_count < 2 || is_compared == NULL || is_compared[class_id];
}

/* Why a rank, or its stage, was not held against others. False: it was. `worker`: NULL: it is none. */
static bool is_unjudged(const struct speaker *speaker, size_t s, const struct diag_worker *worker,
                        enum rs_unjudged_why *why_p)
{
    const struct diag_model *model = speaker->model;
    if (worker == NULL) {
        *why_p = speaker->analysis->ranks[s].takes_part ? RS_UNJUDGED_NO_STEPS
                                                        : RS_UNJUDGED_NO_TIME_BASE;
        return true;
    }
    if (model->step_count > 0 && worker->is_judged && model->class_is_judged[worker->class_id]) {
        *why_p = RS_UNJUDGED_NO_STAGE_ALIKE;
        return !is_stage_judged(speaker, worker->class_id);
    }
    *why_p = model->step_count == 0 ? RS_UNJUDGED_NO_STEPS
             : worker->is_judged    ? RS_UNJUDGED_NO_PEERS
                                    : RS_UNJUDGED_NO_WORK;
    return true;
}

static enum rs_status list_unjudged_groups(const struct speaker *speaker)
{
    const struct diag_model *model = speaker->model;
    for (size_t u = 0; u < model->unit_count; u++) {
        size_t others = 0;
        for (size_t v = 0; v < model->unit_count && others < 2; v++) {
            others += model->units[v].panel == model->units[u].panel ? 1U : 0U;
        }
        if (others < 2 && model->units[u].group != GRAPH_NONE &&
            unjudged_add(speaker->out, RS_NULL, model->units[u].group,
                         RS_UNJUDGED_ONE_OF_ITS_KIND) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

static enum rs_status list_unjudged(const struct speaker *speaker)
{
    const struct rs_analysis *analysis = speaker->analysis;
    const struct diag_model *model = speaker->model;
    size_t at = 0;
    for (size_t s = 0; s < analysis->summary_count; s++) {
        const int32_t rank = analysis->ranks[s].rank;
        const bool is_worker = at < model->worker_count && model->workers[at].rank == rank;
        enum rs_unjudged_why why;
        if (is_unjudged(speaker, s, is_worker ? &model->workers[at] : NULL, &why) &&
            unjudged_add(speaker->out, rank, UINT32_MAX, why) != RS_OK) {
            return RS_NOMEM;
        }
        at += is_worker;
    }
    return list_unjudged_groups(speaker);
}

static enum rs_status tell_waiting(const struct speaker *speaker)
{
    struct rs_diagnosis *out = speaker->out;
    const struct diag_blame *blame = speaker->blame;
    out->waiting.is_known = blame->is_known;
    out->waiting.total_ns = blame->total;
    out->waiting.by_design_ns = blame->by_design;
    out->waiting.absorbed_ns = blame->absorbed;
    out->waiting.caused = rs_mem_calloc(speaker->verdict->count + 1, sizeof *out->waiting.caused);
    if (out->waiting.caused == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < speaker->verdict->count; i++) {
        struct rs_evidence *evidence;
        struct rs_finding *finding = i < out->finding_count
                                         ? &out->findings[i]
                                         : &out->not_worth_fixing[i - out->finding_count];
        if (blame->caused[i] <= 0) {
            continue;
        }
        out->waiting.caused[out->waiting.cause_count++] =
            (struct rs_wait_cause){i, blame->caused[i], blame->indirect[i]};
        if (evidence_add(finding, RS_EVIDENCE_WAITING, &evidence) != RS_OK) {
            return RS_NOMEM;
        }
        evidence->value = blame->caused[i];
        evidence->reference = blame->total;
    }
    return RS_OK;
}

static void tell_loss(const struct speaker *speaker)
{
    struct rs_diagnosis *out = speaker->out;
    const struct diag_verdict *verdict = speaker->verdict;
    const struct graph *graph = &speaker->model->graph;
    double explained = 0;
    out->replay.is_known = true;
    out->loss.is_known = speaker->effects->judged_workers > 0;
    out->loss.step_ns = verdict->step_ns;
    out->loss.ideal_ns = verdict->ideal_ns;
    out->loss.recoverable_ns = verdict->step_ns - verdict->ideal_ns;
    out->loss.slowdown = out->loss.is_known && verdict->ideal_ns > 0
                             ? (double)verdict->step_ns / (double)verdict->ideal_ns
                             : 0;
    for (size_t i = 0; i < out->finding_count; i++) {
        explained += out->findings[i].explains;
    }
    out->loss.single_culprit = out->finding_count > 0 &&
                               out->findings[0].confidence != RS_CONFIDENCE_WEAK &&
                               out->findings[0].explains >= DIAG_CULPRIT_SHARE;
    out->loss.spread_share = out->loss.recoverable_ns > 0 && explained < 1 ? 1 - explained : 0;
    out->replay.error_share = verdict->error_share;
    out->replay.unexplained_share = verdict->unexplained_share;
    out->replay.nodes = (int64_t)graph->count;
    out->replay.edges = (int64_t)graph->edge_count;
    out->replay.inferred_edges = (int64_t)(graph->edge_count - graph->sure_count);
    out->replay.refuted = (int64_t)graph->refuted;
    out->replay.cycles = (int64_t)graph->cycles;
    out->sensitivity.smallest_factor = speaker->effects->smallest_factor;
    out->sensitivity.smallest_cost_ns =
        (rs_dur)llround(DIAG_WORTH_SHARE * (double)verdict->step_ns);
    out->judged_ranks = speaker->effects->judged_workers;
    out->judged_steps = (int64_t)speaker->model->step_count;
    out->lost_ops = speaker->model->lost_ops;
}

static void tell_silence(const struct speaker *speaker)
{
    struct rs_diagnosis *out = speaker->out;
    const struct diag_model *model = speaker->model;
    bool has_any = false;
    for (size_t i = 0; i < out->finding_count; i++) {
        has_any = has_any || out->findings[i].confidence != RS_CONFIDENCE_WEAK;
    }
    out->silence = has_any                   ? RS_SILENCE_NONE
                   : model->worker_count < 2 ? RS_SILENCE_FEW_RANKS
                   : model->step_count == 0  ? RS_SILENCE_NO_STEP
                   : out->judged_ranks == 0  ? RS_SILENCE_NO_PEERS
                                             : RS_SILENCE_NOTHING;
}

static enum rs_status diagnose(struct speaker *speaker, struct diag_model *model,
                               struct diag_effects *effects, struct diag_verdict *verdict,
                               struct diag_blame *blame)
{
    enum rs_status status = diag_build(speaker->analysis, model);
    if (status == RS_OK && model->step_count > 0 && model->graph.count > 0) {
        status = diag_effects_find(model, effects);
        if (status == RS_OK) {
            status = diag_decide(model, effects, verdict);
        }
        if (status == RS_OK) {
            status = make_findings(speaker);
        }
        if (status == RS_OK) {
            status = diag_blame_waits(model, effects, verdict, blame);
        }
        if (status == RS_OK) {
            tell_loss(speaker);
            status = tell_waiting(speaker);
        }
        if (status == RS_OK) {
            status = make_undecided(speaker);
        }
    }
    if (status == RS_OK) {
        status = list_unjudged(speaker);
        tell_silence(speaker);
    }
    return status;
}

enum rs_status rs_diagnosis_new(const struct rs_analysis *analysis,
                                struct rs_diagnosis **diagnosis_p)
{
    struct diag_model model = {0};
    struct diag_effects effects = {0};
    struct diag_verdict verdict = {0};
    struct diag_blame blame = {0};
    struct rs_diagnosis *out = rs_mem_calloc(1, sizeof *out);
    if (out == NULL) {
        return RS_NOMEM;
    }
    struct speaker speaker = {analysis, &model, &effects, &verdict, &blame, out};
    const enum rs_status status = diagnose(&speaker, &model, &effects, &verdict, &blame);
    diag_model_fini(&model);
    diag_effects_fini(&effects);
    diag_verdict_fini(&verdict);
    rs_mem_free(blame.caused);
    rs_mem_free(blame.indirect);
    if (status != RS_OK) {
        rs_diagnosis_free(&out);
        return status;
    }
    *diagnosis_p = out;
    return RS_OK;
}
