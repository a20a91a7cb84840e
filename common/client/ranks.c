/* SPDX-License-Identifier: Apache-2.0 */
#include "common/client/ranks.h"

#include "common/base/lend.h"
#include "common/base/mem.h"
#include "common/client/client.h"
#include "common/request/roles.h"
#include "common/wire/copy.h"

#include <stdio.h>
#include <string.h>

/* ---- asking ----------------------------------------------------------------------------------------------------- */

/* By copy: a reply is lent for its call. */
static bool keep_page(struct rs_client_ranks *ranks, const Rankscope__RankTable *table)
{
    Rankscope__RankTable *copy = (Rankscope__RankTable *)rs_wire_copy(&table->base);
    if (!copy || rs_mem_grow((void **)&ranks->pages, &ranks->page_capacity, ranks->page_count + 1,
                             sizeof(Rankscope__RankTable *)) < 0) {
        if (copy)
            rankscope__rank_table__free_unpacked(copy, NULL);
        return false;
    }
    ranks->pages[ranks->page_count++] = copy;
    if (rs_mem_grow((void **)&ranks->items, &ranks->capacity, ranks->count + copy->n_ranks + 1,
                    sizeof(Rankscope__RankState *)) < 0)
        return false;
    for (size_t i = 0; i < copy->n_ranks; i++)
        ranks->items[ranks->count++] = copy->ranks[i];
    return true;
}

struct asking {
    struct rs_client_ranks *ranks;
    bool has_failed;
};

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct asking *asking = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_RANKS)
        return false;
    asking->has_failed = !keep_page(asking->ranks, reply->ranks);
    return !asking->has_failed;
}

enum rs_status rs_client_ranks_ask(const struct rs_address *address, const char *run,
                                   struct rs_client_ranks *ranks, struct rs_err *err)
{
    struct asking asking = {.ranks = ranks};
    Rankscope__AskRanks question = RANKSCOPE__ASK_RANKS__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    question.run = rs_lend(run);
    ask.message_case = RANKSCOPE__ASK__MESSAGE_RANKS;
    ask.ranks = &question;
    const enum rs_status status = rs_client_ask(address, &ask, on_reply, &asking, err);
    return status == RS_OK && asking.has_failed ? rs_err_set(err, RS_NOMEM, "out of memory")
                                                : status;
}

void rs_client_ranks_fini(struct rs_client_ranks *ranks)
{
    for (size_t i = 0; i < ranks->page_count; i++)
        rankscope__rank_table__free_unpacked(ranks->pages[i], NULL);
    rs_mem_free(ranks->pages);
    rs_mem_free(ranks->items);
    *ranks = (struct rs_client_ranks){.count = 0};
}

/* ---- choosing --------------------------------------------------------------------------------------------------- */

/* How they are chosen, and who hears of those that are not there. */
struct choice {
    const struct rs_rank_expr *expr;
    struct rs_buf *roles;
    void (*print)(void *self, const char *line);
    void *self;
};

static struct rs_rank_row row_of(const Rankscope__RankState *state, const struct rs_roles *roles)
{
    struct rs_rank_row row = {.rank = state->rank,
                              .node = state->host,
                              .step_time_ns = state->step_duration_ns,
                              .self_time_ns = state->self_time_ns};
    for (size_t i = 0; i < RS_ROLE_COUNT; i++)
        row.role[i] = i < state->n_role ? state->role[i] : -1;
    rs_roles_apply(roles, &row);
    return row;
}

static void report_unknown(const struct choice *choice, const char *run,
                           const struct rs_rank_set *set)
{
    char line[1024];
    for (size_t i = 0; i < set->unknown_count && choice->print; i++) {
        const struct rs_rank_range *range = &set->unknown[i];
        if (range->first == range->last)
            (void)snprintf(line, sizeof line, "run %.60s has no rank %u", run, range->first);
        else
            (void)snprintf(line, sizeof line, "run %.60s has no ranks %u-%u", run, range->first,
                           range->last);
        choice->print(choice->self, line);
    }
    for (size_t i = 0; i < set->remark_count && choice->print; i++) {
        (void)snprintf(line, sizeof line, "run %.60s: %s", run, set->remarks[i]);
        choice->print(choice->self, line);
    }
}

/* Of one run's `count` ranks, sorted by rank: those the expression means go to `to`; how many. */
static enum rs_status choose(const struct choice *choice, Rankscope__RankState **states,
                             size_t count, Rankscope__RankState **to, size_t *count_p,
                             struct rs_err *err)
{
    struct rs_rank_set set = {0};
    struct rs_roles roles = {0};
    size_t row_count = 0;
    const char *run = states[0]->run;
    struct rs_rank_row *rows = rs_mem_calloc(count, sizeof *rows);
    enum rs_status status =
        rows ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory for %zu ranks", count);
    if (status == RS_OK && choice->roles->length)
        status = rs_roles_from_json(rs_buf_text(choice->roles), choice->roles->length,
                                    states[0]->world, &roles, err);
    for (size_t i = 0; i < count && status == RS_OK; i++)
        if (!row_count || rows[row_count - 1].rank != states[i]->rank)
            rows[row_count++] = row_of(states[i], &roles);
    if (status == RS_OK)
        status = rs_rank_expr_eval(choice->expr, rows, row_count, 0, &set, err);
    if (status == RS_PARTIAL)
        report_unknown(choice, run, &set);
    for (size_t i = 0; i < count && status >= 0; i++)
        if (rs_rank_set_has(&set, states[i]->rank))
            to[(*count_p)++] = states[i]; /* never ahead of what is read */
    rs_rank_set_fini(&set);
    rs_roles_fini(&roles);
    rs_mem_free(rows);
    return status;
}

enum rs_status rs_client_ranks_choose(struct rs_client_ranks *ranks,
                                      const struct rs_rank_expr *expr, struct rs_buf *roles,
                                      void (*print)(void *self, const char *line), void *self,
                                      struct rs_err *err)
{
    const struct choice choice = {.expr = expr, .roles = roles, .print = print, .self = self};
    Rankscope__RankState **items = ranks->items;
    const size_t count = ranks->count;
    bool is_partial = false;
    ranks->count = 0;
    for (size_t i = 0, end = 0; i < count; i = end) {
        for (end = i + 1; end < count && strcmp(items[end]->run, items[i]->run) == 0;)
            end++;
        const enum rs_status status =
            choose(&choice, items + i, end - i, items, &ranks->count, err);
        if (status < 0)
            return status;
        is_partial = is_partial || status == RS_PARTIAL;
    }
    return is_partial ? RS_PARTIAL : RS_OK;
}
