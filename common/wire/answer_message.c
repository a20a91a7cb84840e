/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups are found by sorting the ranks by what they were answered: no rank is compared with all others.
 */
#include "common/wire/answer_message.h"

#include "common/base/lend.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message in few pieces: items and the pointers to them, each in one array. */
struct whole_answer {
    Rankscope__CaptureAnswer base; /* first */
    Rankscope__AnswerGroup *groups;
    Rankscope__AnswerGroup **group_pointers;
    Rankscope__AnswerNote *notes;
    Rankscope__AnswerNote **note_pointers;
    Rankscope__RankRange *ranges;
    Rankscope__RankRange **range_pointers;
    size_t note_count, range_count;
};

/* ---- to ------------------------------------------------------------------------------------------------ */

static int compare_notes(const struct rs_request_notes *a, const struct rs_request_notes *b)
{
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    for (size_t i = 0; i < a->count; i++) {
        const struct rs_request_note *x = &a->items[i];
        const struct rs_request_note *y = &b->items[i];
        int order = (x->rule > y->rule) - (x->rule < y->rule);
        if (!order)
            order = strcmp(x->field, y->field);
        if (!order)
            order = strcmp(x->text, y->text);
        if (order)
            return order;
    }
    return 0;
}

static int compare_answers(const struct rs_rank_answer *a, const struct rs_rank_answer *b)
{
    if (a->decision != b->decision)
        return a->decision < b->decision ? -1 : 1;
    return compare_notes(&a->notes, &b->notes);
}

static int by_answer(const void *left, const void *right)
{
    const struct rs_rank_answer *a = *(const struct rs_rank_answer *const *)left;
    const struct rs_rank_answer *b = *(const struct rs_rank_answer *const *)right;
    const int order = compare_answers(a, b);
    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

/* The next note's places in the arrays. */
static Rankscope__AnswerNote **put_notes(struct whole_answer *whole,
                                         const struct rs_request_notes *notes)
{
    Rankscope__AnswerNote **first = &whole->note_pointers[whole->note_count];
    for (size_t i = 0; i < notes->count; i++) {
        Rankscope__AnswerNote *note = &whole->notes[whole->note_count];
        rankscope__answer_note__init(note);
        note->rule = rs_lend(rs_request_rule(notes->items[i].rule)->name);
        note->field = rs_lend(notes->items[i].field);
        note->text = rs_lend(notes->items[i].text);
        whole->note_pointers[whole->note_count++] = note;
    }
    return first;
}

static void put_range(struct whole_answer *whole, uint32_t first, uint32_t last)
{
    Rankscope__RankRange *range = &whole->ranges[whole->range_count];
    rankscope__rank_range__init(range);
    range->first = first; /* NOLINT(clang-analyzer-core.NullDereference): as many as were counted */
    range->last = last;
    whole->range_pointers[whole->range_count++] = range;
}

/* One group for sorted[0] and those alike; how many they are. */
static size_t put_group(struct whole_answer *whole, const struct rs_rank_answer *const *sorted,
                        size_t count)
{
    Rankscope__AnswerGroup *group = &whole->groups[whole->base.n_groups];
    const size_t ranges_before = whole->range_count;
    size_t taken = 0;
    rankscope__answer_group__init(group);
    group->decision = sorted[0]->decision;
    group->n_notes = sorted[0]->notes.count;
    group->notes = put_notes(whole, &sorted[0]->notes);
    group->ranks = &whole->range_pointers[ranges_before];
    for (; taken < count && compare_answers(sorted[0], sorted[taken]) == 0; taken++) {
        Rankscope__RankRange *before =
            whole->range_count > ranges_before ? &whole->ranges[whole->range_count - 1] : NULL;
        if (before && before->last + 1 == sorted[taken]->rank)
            before->last = sorted[taken]->rank;
        else
            put_range(whole, sorted[taken]->rank, sorted[taken]->rank);
    }
    group->n_ranks = whole->range_count - ranges_before;
    whole->group_pointers[whole->base.n_groups++] = group;
    return taken;
}

static bool make_room(struct whole_answer *whole, const struct rs_request_answer *answer)
{
    size_t notes = answer->notes.count + 1;
    const size_t ranges = answer->count + answer->chosen.unknown_count + 1;
    for (size_t i = 0; i < answer->count; i++)
        notes += answer->ranks[i].notes.count;
    whole->groups = rs_mem_calloc(answer->count + 1, sizeof *whole->groups);
    whole->group_pointers = rs_mem_calloc(answer->count + 1, sizeof(Rankscope__AnswerGroup *));
    whole->notes = rs_mem_calloc(notes, sizeof *whole->notes);
    whole->note_pointers = rs_mem_calloc(notes, sizeof(Rankscope__AnswerNote *));
    whole->ranges = rs_mem_calloc(ranges, sizeof *whole->ranges);
    whole->range_pointers = rs_mem_calloc(ranges, sizeof(Rankscope__RankRange *));
    return whole->groups && whole->group_pointers && whole->notes && whole->note_pointers &&
           whole->ranges && whole->range_pointers;
}

enum rs_status rs_answer_to_message(const struct rs_request_answer *answer,
                                    Rankscope__CaptureAnswer **message_p, struct rs_err *err)
{
    struct whole_answer *whole = rs_mem_calloc(1, sizeof *whole);
    const struct rs_rank_answer **sorted =
        rs_mem_calloc(answer->count + 1, sizeof(const struct rs_rank_answer *));
    *message_p = NULL;
    if (!whole || !sorted || !make_room(whole, answer)) {
        Rankscope__CaptureAnswer *failed = whole ? &whole->base : NULL;
        rs_answer_message_free(&failed);
        rs_mem_free(sorted);
        return rs_err_set(err, RS_NOMEM, "no memory for an answer");
    }
    rankscope__capture_answer__init(&whole->base);
    for (size_t i = 0; i < answer->count; i++)
        sorted[i] = &answer->ranks[i];
    if (answer->count > 1)
        qsort(sorted, answer->count, sizeof(const struct rs_rank_answer *), by_answer);
    whole->base.n_notes = answer->notes.count;
    whole->base.notes = put_notes(whole, &answer->notes);
    whole->base.groups = whole->group_pointers;
    for (size_t at = 0; at < answer->count;)
        at += put_group(whole, sorted + at, answer->count - at);
    whole->base.n_unknown = answer->chosen.unknown_count;
    whole->base.unknown = &whole->range_pointers[whole->range_count];
    for (size_t i = 0; i < answer->chosen.unknown_count; i++)
        put_range(whole, answer->chosen.unknown[i].first, answer->chosen.unknown[i].last);
    rs_mem_free(sorted);
    *message_p = &whole->base;
    return RS_OK;
}

void rs_answer_message_free(Rankscope__CaptureAnswer **message_p)
{
    struct whole_answer *whole = (void *)*message_p;
    *message_p = NULL;
    if (!whole)
        return;
    rs_mem_free(whole->groups);
    rs_mem_free(whole->group_pointers);
    rs_mem_free(whole->notes);
    rs_mem_free(whole->note_pointers);
    rs_mem_free(whole->ranges);
    rs_mem_free(whole->range_pointers);
    rs_mem_free(whole);
}

/* ---- from ---------------------------------------------------------------------------------------------- */

static bool find_rule(const char *name, enum rs_request_rule *rule_p)
{
    for (int i = 0; i < RS_RULE_COUNT; i++)
        if (strcmp(rs_request_rule((enum rs_request_rule)i)->name, name) == 0) {
            *rule_p = (enum rs_request_rule)i;
            return true;
        }
    *rule_p = RS_RULE_OTHER_RULE;
    return false;
}

static enum rs_status take_notes(Rankscope__AnswerNote *const *from, size_t count,
                                 struct rs_request_notes *to)
{
    if (count > RS_REQUEST_NOTES_MAX)
        return RS_FORMAT;
    if (rs_mem_grow((void **)&to->items, &to->capacity, to->count + count, sizeof *to->items) < 0)
        return RS_NOMEM;
    for (size_t i = 0; i < count; i++) {
        struct rs_request_note *note = &to->items[to->count++];
        *note = (struct rs_request_note){0};
        const bool is_known = find_rule(from[i]->rule, &note->rule);
        const enum rs_severity severity = rs_request_rule(note->rule)->severity;
        to->refusal_count += severity == RS_SEVERITY_REFUSED;
        to->ineffective_count += severity == RS_SEVERITY_INEFFECTIVE;
        (void)snprintf(note->field, sizeof note->field, "%s", from[i]->field);
        if (is_known)
            (void)snprintf(note->text, sizeof note->text, "%s", from[i]->text);
        else
            (void)snprintf(note->text, sizeof note->text, "rule %.60s: %.150s", from[i]->rule,
                           from[i]->text);
    }
    return RS_OK;
}

static bool is_range(const Rankscope__RankRange *range)
{
    return range->first <= range->last && range->last <= RS_RANK_MAX;
}

enum { ANSWER_RANKS_MAX = 1 << 20, ANSWER_NOTES_MAX = 1 << 20 };

/* A few bytes may say "a million ranks, each with these notes": what all of them come to has a limit. */
static enum rs_status take_group(const Rankscope__AnswerGroup *group,
                                 struct rs_request_answer *answer, size_t *note_count)
{
    enum rs_status status = RS_OK;
    if (group->decision > RS_DECISION_REFUSED)
        return RS_FORMAT;
    for (size_t i = 0; i < group->n_ranks && status == RS_OK; i++) {
        const Rankscope__RankRange *range = group->ranks[i];
        if (!is_range(range) || range->last - range->first >= ANSWER_RANKS_MAX - answer->count)
            return RS_FORMAT;
        const size_t count = range->last - range->first + 1;
        if (group->n_notes > RS_REQUEST_NOTES_MAX ||
            group->n_notes * count > ANSWER_NOTES_MAX - *note_count)
            return RS_FORMAT;
        *note_count += group->n_notes * count;
        status = rs_mem_grow((void **)&answer->ranks, &answer->capacity, answer->count + count,
                             sizeof *answer->ranks);
        for (size_t k = 0; k < count && status == RS_OK; k++) {
            struct rs_rank_answer *one = &answer->ranks[answer->count++];
            *one = (struct rs_rank_answer){.rank = range->first + (uint32_t)k,
                                           .decision = (enum rs_decision)group->decision};
            answer->decision_count[one->decision]++;
            status = take_notes(group->notes, group->n_notes, &one->notes);
        }
    }
    return status;
}

static int by_rank(const void *left, const void *right)
{
    const struct rs_rank_answer *a = left;
    const struct rs_rank_answer *b = right;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static enum rs_status take_unknown(const Rankscope__CaptureAnswer *message,
                                   struct rs_rank_set *chosen)
{
    if (rs_mem_grow((void **)&chosen->unknown, &chosen->unknown_capacity, message->n_unknown + 1,
                    sizeof *chosen->unknown) < 0)
        return RS_NOMEM;
    for (size_t i = 0; i < message->n_unknown; i++) {
        if (!is_range(message->unknown[i]))
            return RS_FORMAT;
        chosen->unknown[chosen->unknown_count++] =
            (struct rs_rank_range){message->unknown[i]->first, message->unknown[i]->last};
    }
    return RS_OK;
}

enum rs_status rs_answer_from_message(const Rankscope__CaptureAnswer *message,
                                      struct rs_request_answer *answer, struct rs_err *err)
{
    *answer = (struct rs_request_answer){0};
    enum rs_status status = take_notes(message->notes, message->n_notes, &answer->notes);
    size_t note_count = 0;
    for (size_t i = 0; i < message->n_groups && status == RS_OK; i++)
        status = take_group(message->groups[i], answer, &note_count);
    if (status == RS_OK)
        status = take_unknown(message, &answer->chosen);
    if (status < 0) {
        rs_request_answer_fini(answer);
        return rs_err_set(err, status,
                          status == RS_NOMEM ? "no memory for an answer"
                                             : "the aggregator's answer is not right");
    }
    if (answer->count > 1)
        qsort(answer->ranks, answer->count, sizeof *answer->ranks, by_rank);
    return RS_OK;
}
