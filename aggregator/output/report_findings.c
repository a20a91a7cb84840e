/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings as sentences an engineer can act on: who, what, since when, what it costs per step and per day,
 * how sure that is, where to look. Every sentence is made here, from typed evidence.
 */
#include "aggregator/output/report_findings.h"

#include "aggregator/output/output_priv.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FINDINGS_SHOWN = 8,
    SUBJECT_BYTES = 2048,
    LINE_BYTES = 2600,
    RANGES_SHOWN = 64, /* of ranks */
    LINKS_SHOWN = 4,
    CAUSES_SHOWN = 8
};

static const char *plural(int64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

static bool names(const struct rs_place *places, size_t count, int32_t rank)
{
    for (size_t i = 0; i < count; i++)
        if ((places[i].kind == RS_PLACE_RANK && places[i].rank == rank) ||
            (places[i].kind == RS_PLACE_PAIR && (places[i].src == rank || places[i].dst == rank)))
            return true;
    return false;
}

bool report_names_rank(const struct rs_analysis *analysis, int32_t rank)
{
    const struct rs_diagnosis *diagnosis = analysis->diagnosis;
    for (size_t i = 0; diagnosis && i < diagnosis->finding_count; i++) {
        const struct rs_finding *finding = &diagnosis->findings[i];
        if (finding->kind != RS_FINDING_IMBALANCE && finding->kind != RS_FINDING_JITTER &&
            (names(finding->places, finding->place_count, rank) ||
             (finding->kind == RS_FINDING_SLOW_STAGE &&
              names(finding->also, finding->also_count, rank))))
            return true;
    }
    return false;
}

/* ---- who --------------------------------------------------------------------------------- */

static void put_place(struct rs_buf *buf, const struct rs_place *place)
{
    const char *text = place->text ? place->text : "?";
    switch (place->kind) {
    case RS_PLACE_RANK:
        rs_buf_printf(buf, "rank %" PRId32, place->rank);
        return;
    case RS_PLACE_PAIR:
        rs_buf_printf(buf, "the link between ranks %" PRId32 " and %" PRId32, place->src,
                      place->dst);
        return;
    case RS_PLACE_LINK:
        rs_buf_printf(buf, "the link from rank %" PRId32 " to rank %" PRId32, place->src,
                      place->dst);
        return;
    case RS_PLACE_GROUP:
        rs_buf_printf(buf, "group %s", text);
        return;
    case RS_PLACE_STAGE:
        rs_buf_printf(buf, "pipeline stage %" PRId32, place->stage);
        return;
    case RS_PLACE_HOST:
        rs_buf_printf(buf, "host %s", text);
        return;
    case RS_PLACE_OP:
        rs_buf_printf(buf, "operation %s", text);
        return;
    case RS_PLACE_WORKER:
        rs_buf_printf(buf, "the worker of copy %" PRId32 ", stage %" PRId32, place->dp,
                      place->stage);
    }
}

/* "0-3,8 and 5 more", one rank after the other. */
struct rank_list {
    struct rs_buf *buf;
    int32_t first, last; /* the range that the next rank may go on with */
    size_t count, ranges, more;
};

static void put_range(struct rank_list *list)
{
    const size_t ranks = (size_t)(list->last - list->first) + 1;
    if (list->ranges == RANGES_SHOWN) {
        list->more += ranks;
        return;
    }
    rs_buf_printf(list->buf, "%s%" PRId32, list->ranges++ ? "," : "", list->first);
    if (ranks > 1)
        rs_buf_printf(list->buf, "-%" PRId32, list->last);
}

static void rank_list_add(struct rank_list *list, int32_t rank)
{
    if (list->count++ && rank == list->last + 1) {
        list->last = rank;
        return;
    }
    if (list->count > 1)
        put_range(list);
    list->first = list->last = rank;
}

static void rank_list_end(struct rank_list *list)
{
    if (list->count)
        put_range(list);
    if (list->more)
        rs_buf_printf(list->buf, " and %zu more", list->more);
}

/* Ranks as one list, everything else in words, of links the first few; "and" before the last. */
static void put_places(struct rs_buf *buf, const struct rs_place *places, size_t count)
{
    size_t rank_count = 0;
    for (size_t i = 0; i < count; i++)
        rank_count += places[i].kind == RS_PLACE_RANK;
    bool has_any = rank_count > 0;
    struct rank_list list = {.buf = buf};
    if (rank_count)
        rs_buf_string(buf, rank_count == 1 ? "rank " : "ranks ");
    for (size_t i = 0; i < count; i++)
        if (places[i].kind == RS_PLACE_RANK)
            rank_list_add(&list, places[i].rank);
    rank_list_end(&list);
    size_t links = 0;
    for (size_t i = 0; i < count; i++) {
        const bool is_link = places[i].kind == RS_PLACE_PAIR || places[i].kind == RS_PLACE_LINK;
        if (places[i].kind == RS_PLACE_RANK || (is_link && links++ >= LINKS_SHOWN))
            continue;
        rs_buf_string(buf, has_any ? " and " : "");
        put_place(buf, &places[i]);
        has_any = true;
    }
    if (links > LINKS_SHOWN)
        rs_buf_printf(buf, " and %zu more", links - LINKS_SHOWN);
}

static void subject_text(const struct rs_finding *finding, char *text, size_t size)
{
    struct rs_buf buf = {0};
    put_places(&buf, finding->places, finding->place_count);
    if (finding->also_count && finding->kind != RS_FINDING_JITTER) {
        rs_buf_string(&buf, finding->kind == RS_FINDING_SLOW_LINK ? " (all the links of " : " (");
        put_places(&buf, finding->also, finding->also_count);
        rs_buf_string(&buf, ")");
    }
    (void)snprintf(text, size, "%s", rs_buf_text(&buf));
    rs_buf_fini(&buf);
    if (text[0] >= 'a' && text[0] <= 'z')
        text[0] = (char)(text[0] - 'a' + 'A');
}

static bool is_many(const struct rs_finding *finding)
{
    return finding->place_count > 1;
}

/* What the rank runs more than its peers; NULL: nothing, or nobody counted. */
static const struct rs_evidence *operators_of(const struct rs_finding *finding, int64_t rank)
{
    for (size_t i = 0; i < finding->evidence_count; i++)
        if (finding->evidence[i].what == RS_EVIDENCE_KERNELS && finding->evidence[i].rank == rank)
            return &finding->evidence[i];
    return NULL;
}

/* Ranks that all run more operators than their peers. */
static bool has_more_to_do(const struct rs_finding *finding)
{
    for (size_t i = 0; i < finding->place_count; i++)
        if (finding->places[i].kind != RS_PLACE_RANK ||
            !operators_of(finding, finding->places[i].rank))
            return false;
    return finding->kind == RS_FINDING_SLOW_RANK && finding->place_count > 0;
}

/* "has more to do than its peers: 850 operators a step, 500 on them; that takes 1.50 times as long" */
static void more_to_do_text(const struct rs_finding *finding, const char *times, char *text,
                            size_t size)
{
    const bool many = is_many(finding);
    char numbers[128] = "", longer[96] = "";
    const struct rs_evidence *first = operators_of(finding, finding->places[0].rank);
    bool are_equal = first != NULL;
    for (size_t i = 1; are_equal && i < finding->place_count; i++) {
        const struct rs_evidence *own = operators_of(finding, finding->places[i].rank);
        are_equal = own != NULL && own->value == first->value && own->reference == first->reference;
    }
    if (are_equal) /* else the list below says it, rank by rank */
        (void)snprintf(numbers, sizeof numbers,
                       ": %" PRId64 " operators a step, %" PRId64 " on them", first->value,
                       first->reference);
    if (times[0])
        (void)snprintf(longer, sizeof longer, "; that takes %s as long", times);
    (void)snprintf(text, size, "%s more to do than %s peers%s%s", many ? "have" : "has",
                   many ? "their" : "its", numbers,
                   times[0] ? longer : "; it does not take measurably longer");
}

/* "has more to do than its peers: all_to_all brings it 1.45 times as much; that takes 1.27 times as long" */
static bool load_text(const struct rs_finding *finding, const char *times, char *text, size_t size)
{
    const struct rs_evidence *load = NULL;
    for (size_t i = 0; i < finding->evidence_count && load == NULL; i++)
        load = finding->evidence[i].what == RS_EVIDENCE_LOAD ? &finding->evidence[i] : NULL;
    if (load == NULL)
        return false;
    const bool many = is_many(finding);
    char brings[96], takes[96] = "longer";
    if (load->reference > 0)
        (void)snprintf(brings, sizeof brings, "%s %.2f times as much", many ? "them up to" : "it",
                       (double)load->value / (double)load->reference);
    else
        (void)snprintf(brings, sizeof brings, "%s data, and most of the others none",
                       many ? "them" : "it");
    if (times[0])
        (void)snprintf(takes, sizeof takes, "%s%s as long", many ? "up to " : "", times);
    (void)snprintf(text, size, "%s more to do than %s peers: %s brings %s; that takes %s",
                   many ? "have" : "has", many ? "their" : "its",
                   load->name ? load->name : "communication", brings, takes);
    return true;
}

/* "is slow: the same work takes 1.50 times as long as on its peers" */
static void predicate_text(const struct rs_finding *finding, char *text, size_t size)
{
    const double factor = finding->test.factor;
    const bool many = is_many(finding);
    char times[64] = "";
    if (factor > 1)
        (void)snprintf(times, sizeof times, "%.2f times", factor);
    if (has_more_to_do(finding)) {
        more_to_do_text(finding, times, text, size);
        return;
    }
    switch (finding->kind) {
    case RS_FINDING_SLOW_RANK:
    case RS_FINDING_SLOW_HOST:
        (void)snprintf(text, size, "%s slow: the same work takes %s as long as on %s",
                       many ? "are" : "is", times[0] ? times : "longer,",
                       many ? "the others that do it" : "its peers");
        return;
    case RS_FINDING_SLOW_STAGE:
        (void)snprintf(text, size, "%s the slowest of the pipeline: %s the work time of the others",
                       many ? "are" : "is", times[0] ? times : "longer than");
        return;
    case RS_FINDING_SLOW_LINK:
        (void)snprintf(text, size, "%s slow: transfers take %s as long as between other pairs",
                       many ? "are" : "is", times[0] ? times : "longer,");
        return;
    case RS_FINDING_SLOW_GROUP:
        (void)snprintf(text, size,
                       "communicate%s slowly: transfers take %s as long as in other groups",
                       many ? "" : "s", times[0] ? times : "longer,");
        return;
    case RS_FINDING_DATA_STALL:
        (void)snprintf(text, size, "%s for data %s", many ? "wait" : "waits",
                       finding->evidence_count > 0 &&
                               finding->evidence[0].figure == RS_FIGURE_HOST_INSIDE
                           ? "within a step"
                           : "before the first work of a step");
        return;
    case RS_FINDING_HOST_GAP:
        /* held against its own steps, there may be no others */
        (void)snprintf(text, size, "%s: time passes on %s in which nothing is computed or launched",
                       finding->test.peers == 0 ? (many ? "pause" : "pauses")
                       : many                   ? "let the others wait"
                                                : "lets the others wait",
                       many ? "their hosts" : "its host");
        return;
    case RS_FINDING_IMBALANCE:
        if (load_text(finding, times, text, size))
            return;
        if (finding->place_count > 0 && finding->places[0].kind == RS_PLACE_STAGE)
            (void)snprintf(text, size, "%s more to do than the rest of the pipeline",
                           many ? "have" : "has");
        else
            (void)snprintf(text, size, "%s not equally fast, by amounts that are usual among ranks",
                           many ? "are" : "is");
        return;
    case RS_FINDING_JITTER:
        (void)snprintf(text, size,
                       "pause now and then, none of them regularly more than the others");
        return;
    case RS_FINDING_HANG:
    case RS_FINDING_MISMATCH:
    case RS_FINDING_DEADLOCK:
    case RS_FINDING_SILENT_RANK: /* of rs_hang: hang_report.c */
    case RS_FINDING_OP:
        (void)snprintf(text, size, "%s more than it should", many ? "cost" : "costs");
    }
}

/* ---- when, how much, how sure --------------------------------------------------------------- */

/* 2nd, 3rd, 4th; 11th, 12th, 13th; 21st, 22nd. */
static const char *ordinal_ending(int64_t number)
{
    if (number / 10 % 10 == 1) {
        return "th";
    }
    switch (number % 10) {
    case 1:
        return "st";
    case 2:
        return "nd";
    case 3:
        return "rd";
    default:
        return "th";
    }
}

static void when_text(const struct rs_finding *finding, char *text, size_t size)
{
    const struct rs_finding_steps *steps = &finding->steps;
    if (finding->kind == RS_FINDING_JITTER || finding->kind == RS_FINDING_IMBALANCE) {
        (void)snprintf(text, size, "over %" PRId64 " steps", steps->seen);
    } else if (steps->began) {
        (void)snprintf(text, size,
                       "since step %" PRId64 " (healthy before), in %" PRId64 " of %" PRId64
                       " steps",
                       steps->first, steps->hit, steps->seen);
    } else if (steps->period > 1) {
        (void)snprintf(
            text, size,
            "in every %" PRId64 "%s step, first in step %" PRId64 " (%" PRId64 " of %" PRId64 ")",
            steps->period, ordinal_ending(steps->period), steps->first, steps->hit, steps->seen);
    } else if (steps->hit < steps->seen) {
        (void)snprintf(text, size, "in %" PRId64 " of %" PRId64 " steps", steps->hit, steps->seen);
    } else {
        (void)snprintf(text, size, "in all %" PRId64 " steps", steps->seen);
    }
}

static const char *sure_text(enum rs_confidence confidence)
{
    switch (confidence) {
    case RS_CONFIDENCE_EXACT:
        return "exact: at most 1 false alarm in 100 reports";
    case RS_CONFIDENCE_BOUNDED:
        return "bounded: the name is sure, the cost less so";
    case RS_CONFIDENCE_PARTIAL:
        return "partial: ranks or rows are missing, the cost may be higher";
    case RS_CONFIDENCE_WEAK:
        return "weak: a hint, not a verdict";
    }
    return "";
}

static void cost_text(const struct rs_finding *finding, rs_dur step, char *text, size_t size)
{
    char cost[UNIT_TEXT_BYTES], low[UNIT_TEXT_BYTES], high[UNIT_TEXT_BYTES], when[160];
    char whole[UNIT_TEXT_BYTES], more[64] = "";
    unit_people_time(cost, finding->cost_ns_per_step);
    unit_people_time(low, finding->cost_low_ns);
    unit_people_time(high, finding->cost_high_ns);
    unit_people_time(whole, step);
    when_text(finding, when, sizeof when);
    if (finding->more_steps > 0)
        (void)snprintf(more, sizeof more, "; about %" PRId64 " more %s would tell",
                       finding->more_steps, plural(finding->more_steps, "step", "steps"));
    /* What there is to do has to be done by somebody. */
    const bool is_share = finding->kind == RS_FINDING_IMBALANCE && finding->place_count > 0 &&
                          finding->places[0].kind == RS_PLACE_STAGE;
    (void)snprintf(text, size,
                   "%s %s per step (%s to %s), %.1f %% of a step of %s, %.1f of 24 hours a day; "
                   "seen %s. %s, %s%s.",
                   is_share ? "With no more to do than the others it would save"
                            : "Fixing it saves",
                   cost, low, high, finding->share * 100, whole, finding->share * 24, when,
                   rs_finding_kind_text(finding->kind), sure_text(finding->confidence), more);
}

/* ---- evidence ------------------------------------------------------------------------------ */

static void put_transfer(struct doc *doc, const struct rs_analysis *analysis,
                         const struct rs_evidence *evidence, const char *own, const char *peers)
{
    char who[160], bytes[UNIT_TEXT_BYTES + 8] = "";
    if (evidence->rank != RS_NULL)
        (void)snprintf(who, sizeof who, "Ranks %" PRId64 " and %" PRId64, evidence->rank,
                       evidence->peer);
    else
        (void)snprintf(
            who, sizeof who, "Group %s",
            evidence->group < analysis->group_count ? analysis->groups[evidence->group].text : "?");
    if (evidence->bytes != RS_NULL) {
        char size[UNIT_TEXT_BYTES];
        unit_people_bytes(size, evidence->bytes);
        (void)snprintf(bytes, sizeof bytes, " of %s", size);
    }
    doc_bullet(doc, "%s: %s%s takes %s, %s between its %" PRId64 " equals (%" PRId64 " %s).", who,
               evidence->name ? evidence->name : "a transfer", bytes, own, peers, evidence->of,
               evidence->seen, plural(evidence->seen, "transfer", "transfers"));
}

static void put_look_at(struct doc *doc, const struct rs_evidence *evidence)
{
    char time[UNIT_TEXT_BYTES];
    unit_people_time(time, evidence->dur_ns);
    if (evidence->name)
        doc_bullet(doc, "Look at rank %" PRId64 ", step %" PRId64 ", %s (%s, at %" PRId64 " ns).",
                   evidence->rank, evidence->step, evidence->name, time, evidence->start_ns);
    else
        doc_bullet(doc,
                   "Look at rank %" PRId64 ", step %" PRId64 ": the %s from %" PRId64 " ns on.",
                   evidence->rank, evidence->step, time, evidence->start_ns);
}

static void put_head(struct doc *doc, const struct rs_finding *finding,
                     const struct rs_evidence *evidence, const char *own, const char *peers)
{
    char input[UNIT_TEXT_BYTES], data[UNIT_TEXT_BYTES + 64] = "";
    /* a rank without peers is held against its own steps */
    const char *where = finding->test.peers == 0 ? "in its other steps" : "on its peers";
    if (evidence->bound != RS_NULL) {
        unit_people_time(input, evidence->bound);
        const bool is_all = evidence->bound >= evidence->value - evidence->value / 100;
        (void)snprintf(data, sizeof data, ", %s of it in the data loader", is_all ? "all" : input);
    }
    if (evidence->figure == RS_FIGURE_HOST_INSIDE) {
        doc_bullet(
            doc, "Rank %" PRId64 ": %s of a step pass without computing or communicating%s; %s %s.",
            evidence->rank, own, data, peers, where);
        return;
    }
    doc_bullet(doc,
               "Rank %" PRId64 ": %s pass on the host before the first launch of a step%s; %s %s.",
               evidence->rank, own, data, peers, where);
}

static void put_evidence(struct doc *doc, const struct rs_analysis *analysis,
                         const struct rs_finding *finding, const struct rs_evidence *evidence)
{
    char own[UNIT_TEXT_BYTES] = "?", peers[UNIT_TEXT_BYTES] = "?";
    if (evidence->value != RS_NULL)
        unit_people_time(own, evidence->value);
    if (evidence->reference != RS_NULL)
        unit_people_time(peers, evidence->reference);
    switch (evidence->what) {
    case RS_EVIDENCE_OWN_WORK:
        doc_bullet(doc, "Rank %" PRId64 ": own work of %s a step, %s on its healthy peers.",
                   evidence->rank, own, peers);
        return;
    case RS_EVIDENCE_STAGE_WORK:
        doc_bullet(doc, "Own work of %s a step, %s on the other stages.", own, peers);
        return;
    case RS_EVIDENCE_TRANSFER:
        put_transfer(doc, analysis, evidence, own, peers);
        return;
    case RS_EVIDENCE_HOST_HEAD:
        put_head(doc, finding, evidence, own, peers);
        return;
    case RS_EVIDENCE_WAITING:
        doc_bullet(doc, "It caused %s of the %s that ranks waited in all.", own, peers);
        return;
    case RS_EVIDENCE_LOOK_AT:
        put_look_at(doc, evidence);
        return;
    case RS_EVIDENCE_KERNELS:
        if (evidence->rank != RS_NULL)
            doc_bullet(doc,
                       "Rank %" PRId64 ": %" PRId64 " operators a step, %" PRId64 " on its peers.",
                       evidence->rank, evidence->value, evidence->reference);
        else
            doc_bullet(doc, "%" PRId64 " kernels a step, %" PRId64 " on the other stages.",
                       evidence->value, evidence->reference);
        return;
    case RS_EVIDENCE_REBALANCED:
        doc_bullet(doc, "Shared evenly among the stages it would save %s per step.", own);
        return;
    case RS_EVIDENCE_LOAD: {
        char most[UNIT_TEXT_BYTES], usual[UNIT_TEXT_BYTES];
        unit_people_bytes(most, evidence->value);
        unit_people_bytes(usual, evidence->reference);
        doc_bullet(doc, "%s: %s a step to rank %" PRId64 ", %s to one in the middle.",
                   evidence->name ? evidence->name : "communication", most, evidence->rank, usual);
        return;
    }
    case RS_EVIDENCE_SPREAD:
        doc_bullet(
            doc, "%" PRId64 " of %" PRId64 " ranks are slower than the fastest, by up to %.1f %%.",
            evidence->seen, evidence->of, (double)evidence->value / 1e4);
        return;
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
        return; /* of rs_hang: hang_report.c */
    }
}

/* ---- nobody ---------------------------------------------------------------------------------- */

static void put_undecided(struct rs_buf *buf, const struct rs_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->undecided_count; i++) {
        const struct rs_finding *finding = &diagnosis->undecided[i];
        char subject[SUBJECT_BYTES], cost[UNIT_TEXT_BYTES];
        subject_text(finding, subject, sizeof subject);
        unit_people_time(cost, finding->cost_ns_per_step);
        rs_buf_printf(
            buf,
            " Closest came %s%s: it may cost %s per step (%.1f %%), but so short a recording shows "
            "that by chance too often. About %" PRId64 " more %s would tell.",
            subject[0] == 'R' ? "r" : "", subject[0] == 'R' ? subject + 1 : subject, cost,
            finding->share * 100, finding->more_steps,
            plural(finding->more_steps, "step", "steps"));
    }
}

/* Where the replay explains too little of the run, or rows of ranks were lost, a cost that it does not see is none that is not there. */
static bool are_small_costs_known(const struct rs_diagnosis *diagnosis)
{
    return diagnosis->replay.unexplained_share <= 0.25 && diagnosis->lost_ops == 0;
}

static void put_why_unknown(struct rs_buf *buf, const struct rs_diagnosis *diagnosis)
{
    if (diagnosis->lost_ops)
        rs_buf_printf(buf, "rows of ranks are missing in %zu %s", diagnosis->lost_ops,
                      plural((int64_t)diagnosis->lost_ops, "operation", "operations"));
    else
        rs_buf_printf(buf, "%.0f %% of the critical path is unexplained",
                      diagnosis->replay.unexplained_share * 100);
}

/* Somebody does stand out, and yet there is next to nothing to win, or nobody knows. */
static void put_not_worth_first(struct rs_buf *buf, const struct rs_diagnosis *diagnosis)
{
    const struct rs_finding *finding = &diagnosis->not_worth_fixing[0];
    char subject[SUBJECT_BYTES], predicate[256], cost[UNIT_TEXT_BYTES];
    subject_text(finding, subject, sizeof subject);
    predicate_text(finding, predicate, sizeof predicate);
    unit_people_time(cost, finding->cost_ns_per_step);
    rs_buf_printf(buf, "Of %zu ranks that could be judged, in %" PRId64 " complete %s, ",
                  diagnosis->judged_ranks, diagnosis->judged_steps,
                  plural(diagnosis->judged_steps, "step", "steps"));
    if (!are_small_costs_known(diagnosis)) {
        rs_buf_printf(buf,
                      "nobody is named. %s %s; what fixing that would bring is not known, since ",
                      subject, predicate);
        put_why_unknown(buf, diagnosis);
        rs_buf_string(buf, ".");
        return;
    }
    rs_buf_printf(buf, "nobody is worth fixing. %s %s; yet without that a step would ", subject,
                  predicate);
    if (finding->cost_ns_per_step > 0)
        rs_buf_printf(buf, "be only %s (%.1f %%) shorter.", cost, finding->share * 100);
    else
        rs_buf_string(buf, "not be shorter.");
}

void report_silence(const struct rs_analysis *analysis, struct rs_buf *buf)
{
    const struct rs_diagnosis *diagnosis = analysis->diagnosis;
    if (!diagnosis) {
        rs_buf_string(buf, "Nothing was diagnosed.");
        return;
    }
    switch (diagnosis->silence) {
    case RS_SILENCE_NONE:
        return;
    case RS_SILENCE_FEW_RANKS:
        rs_buf_string(buf,
                      "There is nothing to compare: fewer than two ranks with complete steps.");
        return;
    case RS_SILENCE_NO_STEP:
        rs_buf_string(buf, "No step is complete on all ranks.");
        return;
    case RS_SILENCE_NO_PEERS:
        rs_buf_string(
            buf,
            "No rank could be held against another: no two run the same program in the same groups");
        if (diagnosis->lost_ops)
            rs_buf_printf(buf, " as far as it was recorded, and rows are missing in %zu %s",
                          diagnosis->lost_ops,
                          plural((int64_t)diagnosis->lost_ops, "operation", "operations"));
        rs_buf_string(buf,
                      ". An earlier recording of the same job would be something to compare with.");
        return;
    case RS_SILENCE_NOTHING:
        break;
    }
    if (diagnosis->not_worth_count)
        put_not_worth_first(buf, diagnosis);
    else
        rs_buf_printf(
            buf, "Nobody stands out of %zu ranks that could be judged, in %" PRId64 " complete %s.",
            diagnosis->judged_ranks, diagnosis->judged_steps,
            plural(diagnosis->judged_steps, "step", "steps"));
    if (diagnosis->sensitivity.smallest_factor > 1)
        rs_buf_printf(buf, " A rank less than %.2f times slower would not have been seen.",
                      diagnosis->sensitivity.smallest_factor);
    if (analysis->missing_count) {
        rs_buf_string(buf, " Not recorded, and so not judged: ");
        rs_buf_string(buf, analysis->missing_count == 1 ? "rank " : "ranks ");
        report_put_ranks(buf, analysis->missing_ranks, analysis->missing_count);
        rs_buf_string(buf, "; others may wait for what was not recorded.");
    }
    put_undecided(buf, diagnosis);
}

/* ---- for people -------------------------------------------------------------------------------- */

void rs_output_finding_line(const struct rs_finding *finding, struct rs_buf *buf)
{
    char subject[SUBJECT_BYTES], predicate[256];
    subject_text(finding, subject, sizeof subject);
    predicate_text(finding, predicate, sizeof predicate);
    rs_buf_printf(buf, "%s %s", subject, predicate);
    if (finding->share >=
        0.0005) /* of one that is not worth fixing, or costs who knows what, it says nothing */
        rs_buf_printf(buf, "; %.1f %% of a step", finding->share * 100);
}

static void put_findings(struct doc *doc, const struct rs_analysis *analysis)
{
    const struct rs_diagnosis *diagnosis = analysis->diagnosis;
    char subject[SUBJECT_BYTES], predicate[256], line[LINE_BYTES], cost[LINE_BYTES];
    for (size_t i = 0; i < diagnosis->finding_count && i < FINDINGS_SHOWN; i++) {
        const struct rs_finding *finding = &diagnosis->findings[i];
        subject_text(finding, subject, sizeof subject);
        predicate_text(finding, predicate, sizeof predicate);
        (void)snprintf(line, sizeof line, "%s %s.", subject, predicate);
        cost_text(finding, diagnosis->loss.step_ns, cost, sizeof cost);
        doc_finding(doc, i + 1, line, cost);
        for (size_t k = 0; k < finding->evidence_count; k++)
            put_evidence(doc, analysis, finding, &finding->evidence[k]);
    }
    if (diagnosis->finding_count > FINDINGS_SHOWN)
        doc_paragraph(doc, DOC_DIM, "%zu more are in report.json.",
                      diagnosis->finding_count - FINDINGS_SHOWN);
}

/* The verdict first: where nobody is named, that is it, and what is only a hint stands below. */
void report_put_findings(struct doc *doc, const struct report *report)
{
    const struct rs_analysis *analysis = report->analysis;
    const struct rs_diagnosis *diagnosis = analysis->diagnosis;
    if (!diagnosis || diagnosis->silence != RS_SILENCE_NONE) {
        struct rs_buf why = {0};
        report_silence(analysis, &why);
        doc_heading(doc,
                    diagnosis && diagnosis->silence == RS_SILENCE_NOTHING &&
                            diagnosis->not_worth_count && are_small_costs_known(diagnosis)
                        ? "Nobody is worth fixing"
                        : "Nobody is named",
                    "");
        doc_paragraph(doc, DOC_PLAIN, "%s", rs_buf_text(&why));
        rs_buf_fini(&why);
        if (diagnosis && diagnosis->finding_count) {
            doc_heading(doc, "Hints", "too weak to act on");
            put_findings(doc, analysis);
        }
        return;
    }
    put_findings(doc, analysis);
    if (!diagnosis->loss.single_culprit && diagnosis->loss.recoverable_ns > 0)
        doc_paragraph(doc, DOC_DIM,
                      "%.0f %% of what could be recovered is spread over all ranks and steps.",
                      diagnosis->loss.spread_share * 100);
}

void report_put_waiting(struct doc *doc, const struct report *report)
{
    const struct rs_diagnosis *diagnosis = report->analysis->diagnosis;
    char aside[160], time[UNIT_TEXT_BYTES], part[UNIT_TEXT_BYTES];
    if (!diagnosis || diagnosis->waiting.total_ns <= 0) {
        doc_heading(doc, "Who caused the waiting", "");
        doc_paragraph(doc, DOC_PLAIN,
                      "Not known: no operation was matched with all its starts on one clock.");
        return;
    }
    unit_people_time(time, diagnosis->waiting.total_ns);
    (void)snprintf(aside, sizeof aside, "%s%s of waiting in operations, of all ranks and steps",
                   diagnosis->waiting.is_known ? "" : "at least ", time);
    doc_heading(doc, "Who caused the waiting", aside);
    doc_table_begin(doc);
    doc_column(doc, DOC_LEFT, "cause");
    doc_column(doc, DOC_RIGHT, "waiting");
    doc_column(doc, DOC_RIGHT, "share");
    doc_column(doc, DOC_RIGHT, "through others");
    const double total = (double)diagnosis->waiting.total_ns;
    for (size_t i = 0; i < diagnosis->waiting.cause_count && i < CAUSES_SHOWN; i++) {
        const struct rs_wait_cause *cause = &diagnosis->waiting.caused[i];
        char subject[SUBJECT_BYTES];
        subject_text(cause->finding < diagnosis->finding_count
                         ? &diagnosis->findings[cause->finding]
                         : &diagnosis->not_worth_fixing[cause->finding - diagnosis->finding_count],
                     subject, sizeof subject);
        unit_people_time(time, cause->caused_ns);
        unit_people_time(part, cause->indirect_ns);
        doc_cell(doc, DOC_ALARM, "%s", subject);
        doc_cell(doc, DOC_PLAIN, "%s", time);
        doc_cell(doc, DOC_PLAIN, "%.1f %%", 100 * (double)cause->caused_ns / total);
        doc_cell(doc, DOC_PLAIN, "%s", cause->indirect_ns ? part : "-");
    }
    rs_dur rest = 0;
    for (size_t i = CAUSES_SHOWN; i < diagnosis->waiting.cause_count; i++)
        rest += diagnosis->waiting.caused[i].caused_ns;
    if (rest > 0) {
        unit_people_time(time, rest);
        doc_cell(doc, DOC_PLAIN, "%zu other causes", diagnosis->waiting.cause_count - CAUSES_SHOWN);
        doc_cell(doc, DOC_PLAIN, "%s", time);
        doc_cell(doc, DOC_PLAIN, "%.1f %%", 100 * (double)rest / total);
        doc_cell(doc, DOC_PLAIN, "-");
    }
    /* What fixing everything would let others wait instead (absorbed, below 0) is part of the job's own: the rows add up. */
    const rs_dur own = diagnosis->waiting.by_design_ns + diagnosis->waiting.absorbed_ns;
    unit_people_time(time, own);
    doc_cell(doc, DOC_PLAIN, "the job's own schedule and ordinary variation");
    doc_cell(doc, DOC_PLAIN, "%s", time);
    doc_cell(doc, DOC_PLAIN, "%.1f %%", 100 * (double)own / total);
    doc_cell(doc, DOC_PLAIN, "-");
    doc_table_end(doc);
}

static void put_not_worth(struct doc *doc, const struct rs_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->not_worth_count && i < FINDINGS_SHOWN; i++) {
        const struct rs_finding *finding = &diagnosis->not_worth_fixing[i];
        char subject[SUBJECT_BYTES], predicate[256], cost[UNIT_TEXT_BYTES];
        subject_text(finding, subject, sizeof subject);
        predicate_text(finding, predicate, sizeof predicate);
        unit_people_time(cost, finding->alone_ns_per_step);
        if (are_small_costs_known(diagnosis))
            doc_bullet(doc, "%s %s; fixing that brings %s per step: not worth it.", subject,
                       predicate, cost);
        else
            doc_bullet(doc, "%s %s; what fixing that brings is not known.", subject, predicate);
    }
}

/* So few steps do not tell an accident from a dependency. */
enum { FEW_STEPS = 3 };

/* Ranks that were not held against others for this reason. */
static void put_unjudged(struct doc *doc, const struct rs_diagnosis *diagnosis,
                         enum rs_unjudged_why why, const char *reason)
{
    struct rs_buf ranks = {0};
    struct rank_list list = {.buf = &ranks};
    for (size_t i = 0; i < diagnosis->unjudged_count; i++)
        if (diagnosis->unjudged[i].rank != RS_NULL && diagnosis->unjudged[i].why == why)
            rank_list_add(&list, (int32_t)diagnosis->unjudged[i].rank);
    rank_list_end(&list);
    if (list.count)
        doc_bullet(doc, "Not held against others, since %s: %s %s.", reason,
                   plural((int64_t)list.count, "rank", "ranks"), rs_buf_text(&ranks));
    rs_buf_fini(&ranks);
}

void report_put_judged(struct doc *doc, const struct report *report)
{
    const struct rs_diagnosis *diagnosis = report->analysis->diagnosis;
    struct rs_buf staged = {0};
    struct rank_list stages = {.buf = &staged};
    size_t groups = 0;
    if (!diagnosis)
        return;
    put_not_worth(doc, diagnosis);
    for (size_t i = 0; i < diagnosis->unjudged_count; i++) {
        const struct rs_unjudged *one = &diagnosis->unjudged[i];
        if (one->rank == RS_NULL)
            groups++;
        else if (one->why == RS_UNJUDGED_NO_STAGE_ALIKE)
            rank_list_add(&stages, (int32_t)one->rank);
    }
    rank_list_end(&stages);
    put_unjudged(doc, diagnosis, RS_UNJUDGED_NO_PEERS, "nobody does the same work beside them");
    put_unjudged(doc, diagnosis, RS_UNJUDGED_NO_STEPS, "no step of their recording is complete");
    put_unjudged(doc, diagnosis, RS_UNJUDGED_NO_TIME_BASE,
                 "their recording does not say when it was made");
    put_unjudged(doc, diagnosis, RS_UNJUDGED_NO_WORK, "nothing of their own work was recorded");
    if (stages.count)
        doc_bullet(
            doc,
            "Whether %s %s are slow as whole stages is not known: no other stage does the same "
            "work. Each was held against the others of its own.",
            plural((int64_t)stages.count, "rank", "ranks"), rs_buf_text(&staged));
    rs_buf_fini(&staged);
    if (groups)
        doc_bullet(doc, "%zu %s no other of its size and place to compare with.", groups,
                   plural((int64_t)groups, "group has", "groups have"));
    if (diagnosis->replay.nodes > 0)
        doc_bullet(doc,
                   "Costs are from a replay of %" PRId64
                   " instants; it reproduces the run within %.3f %%, "
                   "and leaves %.1f %% of the critical path unexplained.",
                   diagnosis->replay.nodes, diagnosis->replay.error_share * 100,
                   diagnosis->replay.unexplained_share * 100);
    if (diagnosis->replay.clock_bound_ns > 0) {
        char bound[UNIT_TEXT_BYTES];
        unit_people_time(bound, diagnosis->replay.clock_bound_ns);
        doc_bullet(
            doc,
            "Clocks were put together from the ends of operations and are known to within %s, "
            "which counts at each of %.0f operations of a step: costs are that unsure. If all "
            "ranks ran on one host, --assume-common-clock says so.",
            bound, diagnosis->replay.clock_meetings);
    }
    if (diagnosis->replay.inferred_edges > 0 && diagnosis->judged_steps <= FEW_STEPS)
        doc_bullet(doc,
                   "%" PRId64 " of the %" PRId64
                   " dependencies in it are not recorded but inferred, from work that never "
                   "began before other work had ended. In %" PRId64 " %s an accident can look like "
                   "that, and make a cost too large: record more steps to be sure.",
                   diagnosis->replay.inferred_edges, diagnosis->replay.edges,
                   diagnosis->judged_steps, plural(diagnosis->judged_steps, "step", "steps"));
}
