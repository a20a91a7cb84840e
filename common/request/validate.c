/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request and a table of ranks to an answer per rank.
 *
 * The request's own notes are found once and count for every rank; a rank's answer is refused when either it or the request
 * violates a rule. A request that chooses nobody is told so and refused as a whole: nothing would happen.
 */
#include "common/base/mem.h"
#include "common/request/rank_expr_priv.h"
#include "common/request/validate_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rs_request_answer_fini(struct rs_request_answer *answer)
{
    rs_request_notes_fini(&answer->notes);
    for (size_t i = 0; i < answer->count; i++)
        rs_request_notes_fini(&answer->ranks[i].notes);
    rs_mem_free(answer->ranks);
    rs_rank_set_fini(&answer->chosen);
    *answer = (struct rs_request_answer){0};
}

const char *rs_decision_name(enum rs_decision decision)
{
    switch (decision) {
    case RS_DECISION_ACCEPTED:
        return "accepted";
    case RS_DECISION_QUEUED:
        return "queued";
    case RS_DECISION_INEFFECTIVE:
        return "ineffective";
    case RS_DECISION_REFUSED:
        return "refused";
    }
    return "?";
}

/* "0,3-7" of the ranges, as far as it fits. */
static void print_ranges(const struct rs_rank_range *ranges, size_t count, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        const char *comma = i ? "," : "";
        const int wrote = ranges[i].first == ranges[i].last
                              ? snprintf(text + used, size - used, "%s%u", comma, ranges[i].first)
                              : snprintf(text + used, size - used, "%s%u-%u", comma,
                                         ranges[i].first, ranges[i].last);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    if (used >= size && size > 4)
        memcpy(text + size - 4, "...", 4);
}

/* The chosen set keeps only what rank_list holds, too; members of the list that are not there become unknown. */
static enum rs_status apply_rank_list(const struct rs_request_ranks *list,
                                      const struct rs_rank_row *rows, size_t count,
                                      struct rs_rank_set *chosen)
{
    struct rs_rank_set all = {0};
    struct rs_err ignored;
    struct rs_rank_expr *expr = NULL;
    enum rs_status status = rs_rank_expr_parse("all", 3, &expr, &ignored);
    if (status == RS_OK)
        status = rs_rank_expr_eval(expr, rows, count, 0, &all, &ignored);
    size_t kept = 0;
    for (size_t i = 0, at = 0; i < list->count && status >= 0; i++) {
        const uint32_t rank = list->items[i];
        if (!rs_rank_set_has(&all, rank)) {
            status = rs_mem_grow((void **)&chosen->unknown, &chosen->unknown_capacity,
                                 chosen->unknown_count + 1, sizeof *chosen->unknown);
            if (status == RS_OK)
                chosen->unknown[chosen->unknown_count++] = (struct rs_rank_range){rank, rank};
            continue;
        }
        while (at < chosen->count && chosen->ranks[at] < rank)
            at++;
        if (at < chosen->count && chosen->ranks[at] == rank)
            chosen->ranks[kept++] = rank; /* both ascend: kept <= at */
    }
    chosen->count = kept;
    chosen->unknown_count = rank_ranges_merge(chosen->unknown, chosen->unknown_count);
    rs_rank_set_fini(&all);
    rs_rank_expr_free(&expr);
    return status < 0 ? status : RS_OK;
}

static enum rs_status choose_ranks(const struct rs_capture_request *request,
                                   const struct rs_rank_row *rows, size_t count, uint64_t seed,
                                   struct rs_request_answer *answer, struct rs_err *err)
{
    struct rs_rank_expr *expr = NULL;
    struct rs_err ignored;
    /* One that does not parse was noted by the check: the request is then validated for every rank. */
    enum rs_status status =
        rs_rank_expr_parse(request->ranks, strlen(request->ranks), &expr, &ignored);
    if (status < 0 && status != RS_NOMEM)
        status = rs_rank_expr_parse("all", 3, &expr, &ignored);
    if (status < 0)
        return rs_err_set(err, RS_NOMEM, "no memory to choose ranks");
    status = rs_rank_expr_eval(expr, rows, count, seed, &answer->chosen, err);
    rs_rank_expr_free(&expr);
    if (status >= 0 && request->is_rank &&
        apply_rank_list(&request->rank_list, rows, count, &answer->chosen) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory to choose ranks");
    return status < 0 ? status : RS_OK;
}

static void note_choice(const struct rs_capture_request *request, struct rs_request_answer *answer)
{
    const struct rs_rank_set *chosen = &answer->chosen;
    char text[200];
    if (chosen->unknown_count) {
        print_ranges(chosen->unknown, chosen->unknown_count, text, sizeof text);
        note_add(&answer->notes, RS_RULE_UNKNOWN_RANKS, request->is_rank ? FIELD_COUNT : F_RANKS,
                 "%s", text);
    }
    for (size_t i = 0; i < chosen->remark_count; i++)
        note_add(&answer->notes, RS_RULE_UNKNOWN_NAMES, FIELD_COUNT, "%.240s", chosen->remarks[i]);
    if (!chosen->count && !(request->is_rank && !request->rank_list.count))
        note_add(&answer->notes, RS_RULE_NO_RANKS, FIELD_COUNT, NO_DETAIL);
    if (chosen->count > 1 && *request->worker_name && !strstr(request->worker_name, "{rank}") &&
        !strstr(request->worker_name, "{pid}"))
        note_add(&answer->notes, RS_RULE_WORKER_NAME_SHARED, FIELD_COUNT, "\"%.60s\" for %zu ranks",
                 request->worker_name, chosen->count);
}

static bool has_rule(const struct rs_request_notes *notes, enum rs_request_rule rule)
{
    for (size_t i = 0; i < notes->count; i++)
        if (notes->items[i].rule == rule)
            return true;
    return false;
}

static enum rs_decision decision_of(const struct rs_request_notes *all,
                                    const struct rs_request_notes *own)
{
    if (all->refusal_count || own->refusal_count)
        return RS_DECISION_REFUSED;
    if (has_rule(own, RS_RULE_QUEUED) || has_rule(own, RS_RULE_REPLACES))
        return RS_DECISION_QUEUED;
    return all->ineffective_count || own->ineffective_count ? RS_DECISION_INEFFECTIVE
                                                            : RS_DECISION_ACCEPTED;
}

/* ---- whom a note concerns ---------------------------------------------------------------------------------------- */

/* A rule about what one profiler does with a member, not about the member's value. */
static bool is_of_a_profiler(const struct rs_request_note *note)
{
    const struct rs_rule *rule = rs_request_rule(note->rule);
    return rule->severity != RS_SEVERITY_REFUSED &&
           (note->rule == RS_RULE_FLOPS_NOT_PARSED || note->rule == RS_RULE_ANALYSE_IS_RANK ||
            strncmp(rule->field, "experimental.", strlen("experimental.")) == 0);
}

static bool concerns(const struct rs_request_note *note, const struct rs_adapter *adapter)
{
    const char *member = rs_request_rule(note->rule)->field;
    if (note->rule == RS_RULE_ANALYSE_IS_RANK)
        return false; /* validate_rank() says it, of ranks that do not parse */
    if (note->rule == RS_RULE_FLOPS_NOT_PARSED) /* with_flops itself is everybody's */
        return adapter_is_torch_npus(adapter);
    if (note->rule == RS_RULE_OSRT_HEAVY && adapter_is_sampled_here(adapter))
        return false; /* where it is not recorded, it loads nothing */
    char name[RS_REQUEST_MEMBER_BYTES];
    size_t i = 0;
    while (rs_request_member(i, name) && strcmp(name, member) != 0)
        i++;
    return rs_adapter_honours(adapter, i);
}

/* Notes of the request that are one profiler's go to the ranks that have it; without ranks they stay where they are. */
static void take_apart(struct rs_request_notes *notes, struct rs_request_notes *moved)
{
    size_t kept = 0;
    for (size_t i = 0; i < notes->count; i++) {
        const struct rs_request_note note = notes->items[i];
        if (is_of_a_profiler(&note)) {
            note_at(moved, note.rule, note.field, NULL, "%s", note.text);
            notes->ineffective_count -=
                rs_request_rule(note.rule)->severity == RS_SEVERITY_INEFFECTIVE;
        } else {
            notes->items[kept++] = note;
        }
    }
    notes->count = kept;
}

static void add_concerning(const struct rs_request_notes *moved, const struct rs_adapter *adapter,
                           struct rs_request_notes *notes)
{
    for (size_t i = 0; i < moved->count; i++)
        if (concerns(&moved->items[i], adapter))
            note_at(notes, moved->items[i].rule, moved->items[i].field, NULL, "%s",
                    moved->items[i].text);
}

static int by_rank(const void *left, const void *right)
{
    const struct rs_request_rank *a = *(const struct rs_request_rank *const *)left;
    const struct rs_request_rank *b = *(const struct rs_request_rank *const *)right;
    return (a->row.rank > b->row.rank) - (a->row.rank < b->row.rank);
}

/* `sorted`: every rank of the table, ascending. */
static enum rs_status validate_all(const struct validation *validation,
                                   const struct rs_request_rank *const *sorted, size_t count,
                                   struct rs_request_answer *answer)
{
    const struct rs_rank_set *chosen = &answer->chosen;
    if (chosen->count && rs_mem_grow((void **)&answer->ranks, &answer->capacity, chosen->count,
                                     sizeof *answer->ranks) < 0)
        return RS_NOMEM;
    for (size_t i = 0, at = 0; i < chosen->count; i++) {
        struct rs_rank_answer *one = &answer->ranks[i];
        *one = (struct rs_rank_answer){.rank = chosen->ranks[i]};
        answer->count++;
        while (at < count && sorted[at]->row.rank < chosen->ranks[i])
            at++;
        add_concerning(validation->of_profilers, sorted[at]->adapter, &one->notes);
        validate_rank(validation, sorted[at], &one->notes);
        if (one->notes.failed)
            return RS_NOMEM;
        one->decision = decision_of(&answer->notes, &one->notes);
        answer->decision_count[one->decision]++;
    }
    return RS_OK;
}

static enum rs_status decide(const struct rs_capture_request *request,
                             const struct rs_request_rank *ranks, size_t count,
                             const struct rs_request_policy *policy,
                             struct rs_request_answer *answer)
{
    struct rs_capture_request defaults;
    struct rs_request_notes of_profilers = {0};
    const struct rs_request_rank **sorted =
        rs_mem_calloc(count ? count : 1, sizeof(const struct rs_request_rank *));
    enum rs_status status = rs_request_init(&defaults, request->dialect, request->origin);
    if (!sorted)
        status = RS_NOMEM;
    for (size_t i = 0; i < count && status == RS_OK; i++)
        sorted[i] = &ranks[i];
    if (status == RS_OK) {
        const struct validation validation = {.request = request,
                                              .defaults = &defaults,
                                              .policy = policy,
                                              .of_profilers = &of_profilers,
                                              .is_subset = answer->chosen.count < count,
                                              .chosen_count = answer->chosen.count};
        if (answer->chosen.count)
            take_apart(&answer->notes, &of_profilers);
        if (of_profilers.failed)
            status = RS_NOMEM;
        if (count)
            qsort(sorted, count, sizeof(const struct rs_request_rank *), by_rank);
        if (status == RS_OK)
            status = validate_all(&validation, sorted, count, answer);
    }
    rs_request_notes_fini(&of_profilers);
    rs_request_fini(&defaults);
    rs_mem_free(sorted);
    return status;
}

static enum rs_status sum_up(const struct rs_request_answer *answer, struct rs_err *err)
{
    const size_t refused = answer->decision_count[RS_DECISION_REFUSED];
    if (!answer->count)
        return rs_err_set(err, RS_REFUSED, "no rank is chosen: nothing will be captured");
    if (refused == answer->count)
        return rs_err_set(err, RS_REFUSED, "all %zu ranks are refused", refused);
    if (refused || answer->chosen.unknown_count || answer->chosen.remark_count)
        return RS_PARTIAL;
    return RS_OK;
}

enum rs_status rs_request_validate(const struct rs_capture_request *request,
                                   const struct rs_request_rank *ranks, size_t count,
                                   const struct rs_request_policy *policy,
                                   struct rs_request_answer *answer, struct rs_err *err)
{
    rs_request_answer_fini(answer);
    struct rs_rank_row *rows = rs_mem_calloc(count ? count : 1, sizeof *rows);
    if (!rows)
        return rs_err_set(err, RS_NOMEM, "no memory for %zu ranks", count);
    for (size_t i = 0; i < count; i++)
        rows[i] = ranks[i].row;
    enum rs_status status = rs_request_check(request, policy, &answer->notes);
    if (status == RS_INVALID)
        status = RS_OK; /* the notes count */
    if (status == RS_OK)
        status = choose_ranks(request, rows, count, policy ? policy->sample_seed : 0, answer, err);
    if (status == RS_OK) {
        note_choice(request, answer);
        status = decide(request, ranks, count, policy, answer);
    }
    if (answer->notes.failed)
        status = RS_NOMEM;
    rs_mem_free(rows);
    if (status < 0) {
        rs_request_answer_fini(answer);
        return status == RS_INVALID ? status
                                    : rs_err_set(err, RS_NOMEM, "no memory to validate a request");
    }
    return sum_up(answer, err);
}
