/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank's own profiler wrote, where official tables ask for it.
 *
 * One rule: per rank and document the vendor's rows if the recording has the document, else ours in the same shape, never
 * a mixture. Digits come out as they came in. They are a stranger's bytes, so what is no number of JSON is taken for
 * unknown here, once, and never reaches a document.
 *
 * Links name ranks within their group. Documents of a job have ranks of the job:
 *
 *     the group's ranks by the rank's metadata           -> that one
 *     i-i, a copy on one device, in the file of rank r   -> i of this group is r
 *     else, while nothing known of the group says that   -> the number within the group, as it stands
 *     places and ranks differ
 *     else                                               -> "?5": place 5 of the group, whoever that is
 */
#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool vendor_has_comms(const struct job *job, int32_t rank)
{
    const struct job_rank *found = job_rank(job, rank);
    return found && found->comm_count;
}

bool vendor_has_links(const struct job *job, int32_t rank)
{
    const struct job_rank *found = job_rank(job, rank);
    return found && found->link_count;
}

bool vendor_any_comms(const struct view *view)
{
    for (size_t i = 0; i < view->job->rank_count; i++)
        if (view_has(view, view->job->ranks[i].rank) && view->job->ranks[i].comm_count)
            return true;
    return false;
}

bool vendor_any_links(const struct view *view)
{
    for (size_t i = 0; i < view->job->rank_count; i++)
        if (view_has(view, view->job->ranks[i].rank) && view->job->ranks[i].link_count)
            return true;
    return false;
}

bool vendor_tells_link(const struct job *job, const struct matrix_entry *entry)
{
    const struct job_rank *noter = job_rank(job, entry->src);
    if (!noter)
        noter = job_rank(job, entry->dst);
    return noter && noter->link_count;
}

/* --- groups ------------------------------------------------------------------------------ */

struct member {
    const char *group; /* hash; lent by the job */
    int32_t local, rank;
};

struct vendor_groups {
    bool is_rank;
    struct member *members; /* by group, local */
    size_t count, capacity;
};

static int by_group_and_local(const void *a_, const void *b_)
{
    const struct member *a = a_, *b = b_;
    const int order = strcmp(a->group, b->group);
    return order ? order : (a->local > b->local) - (a->local < b->local);
}

static enum rs_status add_member(struct vendor_groups *groups,
                                 const struct rs_row_vendor_matrix *link)
{
    const struct member member = {
        .group = link->group_name, .local = (int32_t)link->src, .rank = (int32_t)link->rank};
    const struct member *last = groups->count ? &groups->members[groups->count - 1] : NULL;
    if (last && by_group_and_local(last, &member) == 0)
        return RS_OK;
    if (rs_mem_grow((void **)&groups->members, &groups->capacity, groups->count + 1,
                    sizeof *groups->members) != RS_OK)
        return RS_NOMEM;
    groups->members[groups->count++] = member;
    return RS_OK;
}

enum rs_status vendor_groups_new(const struct view *view, struct vendor_groups **groups_p)
{
    struct vendor_groups *groups = rs_mem_calloc(1, sizeof *groups);
    if (!groups)
        return RS_NOMEM;
    groups->is_rank = view->is_rank;
    for (size_t i = 0; !view->is_rank && i < view->job->link_block.count; i++) {
        const struct rs_row_vendor_matrix *link = &view->job->links[i];
        if (link->src == link->dst && link->global_src == RS_NULL &&
            add_member(groups, link) != RS_OK) {
            vendor_groups_free(&groups);
            return RS_NOMEM;
        }
    }
    if (groups->count)
        qsort(groups->members, groups->count, sizeof *groups->members, by_group_and_local);
    *groups_p = groups;
    return RS_OK;
}

void vendor_groups_free(struct vendor_groups **groups_p)
{
    if (*groups_p)
        rs_mem_free((*groups_p)->members);
    rs_mem_free(*groups_p);
    *groups_p = NULL;
}

/* Is some place of this group known to be another rank than its number? */
static bool is_shifted(const struct vendor_groups *groups, const char *group)
{
    const struct member lowest = {.group = group, .local = INT32_MIN};
    size_t low = 0, high = groups->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_group_and_local(&groups->members[middle], &lowest) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < groups->count && strcmp(groups->members[low].group, group) == 0; low++)
        if (groups->members[low].local != groups->members[low].rank)
            return true;
    return false;
}

static int32_t rank_of(const struct vendor_groups *groups, const char *group, int32_t local,
                       int64_t global)
{
    const struct member wanted = {.group = group, .local = local};
    if (groups->is_rank || global != RS_NULL)
        return groups->is_rank ? local : (int32_t)global;
    const struct member *found = groups->count
                                     ? bsearch(&wanted, groups->members, groups->count,
                                               sizeof *groups->members, by_group_and_local)
                                     : NULL;
    if (found)
        return found->rank;
    return is_shifted(groups, group) ? -1 - local : local;
}

void vendor_end_text(char text[UNIT_TEXT_BYTES], int32_t end)
{
    (void)snprintf(text, UNIT_TEXT_BYTES, "%s%" PRId32, end < 0 ? "?" : "",
                   end < 0 ? -1 - end : end);
}

struct vendor_ends vendor_ends_of(const struct vendor_groups *groups,
                                  const struct rs_row_vendor_matrix *link)
{
    return (struct vendor_ends){
        .src = rank_of(groups, link->group_name, (int32_t)link->src, link->global_src),
        .dst = rank_of(groups, link->group_name, (int32_t)link->dst, link->global_dst)};
}
