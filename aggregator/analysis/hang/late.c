/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that come late again and again, from the calls that all members of a group still have.
 *
 * Lateness of a member in a call: its time_created minus the median of all members. A rank is named when it is last in nearly
 * all calls, by far more than the others differ among themselves. Three things look the same and are not:
 *
 *   a clock that is ahead   the end of a call is one instant for all members, so a rank whose *ends* are late by the same
 *                           amount has a clock that is. Ends are seen by a polling watchdog: their median difference counts
 *                           with its error. Where ends are not known (or only repeat the starts) clocks are taken as they
 *                           stand if the calls are possible so: nobody ends before the last has begun.
 *   another program         members that make more calls between two of this group's than others, or that exchange sends and
 *                           receives (stages of a pipeline), are late by design: such groups are left out. gloo does not
 *                           record sends: there only a job with one size of groups is looked at.
 *   a group of two          somebody is always last: three members are needed.
 *   a victim                whoever waits in one group comes late in its others: where the one it waits for is late, too, that one
 *                           is named.
 */
#include "aggregator/analysis/hang/hang_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { CALLS_MIN = 20, CALLS_MAX = 512, MEMBERS_MIN = 3 };
enum {
    VALUES_MAX = 4096 * CALLS_MAX
}; /* of one group: of more members fewer calls are looked at */
#define LATE_MIN_NS INT64_C(50000)

/* Who would be named. */
struct late_rank {
    uint32_t team, node;
    int64_t late, noise, last, calls;
    enum rs_confidence confidence;
};

struct late_ranks {
    struct late_rank *items;
    size_t count, capacity;
};

struct late_member {
    const struct hang_member *member;
    int64_t *late, *end; /* [calls] lateness of start and of end */
    int64_t median, spread, end_median, end_error;
    int64_t last; /* calls in which it came last */
};

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts its input. */
static int64_t median_of(int64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

/* Median distance from the median; values are changed. */
static int64_t spread_of(int64_t *values, size_t count, int64_t median)
{
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] > median ? values[i] - median : median - values[i];
    return median_of(values, count);
}

/* Stages of a pipeline: ranks that exchange sends and receives, joined (union-find with path halving). */
static uint32_t root_of(uint32_t *parent, uint32_t node)
{
    while (parent[node] != node) {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    return node;
}

static uint32_t *join_pipelines(const struct hang_work *work)
{
    uint32_t *parent = rs_mem_calloc(work->node_count + 1, sizeof *parent);
    for (uint32_t n = 0; parent && n < work->node_count; n++)
        parent[n] = n;
    for (uint32_t n = 0; parent && n < work->node_count; n++) {
        const struct rs_flight_dump *dump = hang_dump(work, &work->nodes[n]);
        for (size_t i = 0; dump && i < dump->entry_count; i++) {
            const struct rs_flight_entry *entry = &work->set->entries[dump->entry_first + i];
            const bool is_p2p = entry->op == RS_FLIGHT_SEND || entry->op == RS_FLIGHT_RECV;
            const uint32_t other = is_p2p ? hang_peer(work, &work->nodes[n], entry) : HANG_NO_NODE;
            if (other != HANG_NO_NODE)
                parent[root_of(parent, n)] = root_of(parent, other);
        }
    }
    return parent;
}

/* Calls of any kind between the first and last of the common ones, `ends`: equal for members that run the same program. No two are of one pipeline;
 * `has_member`: scratch, a flag for each node, false. */
static bool is_one_program(const struct hang_work *work, const struct late_member *members,
                           size_t count, const int64_t ends[2], uint32_t *pipelines,
                           bool *has_member)
{
    int64_t calls = -1;
    for (size_t i = 0; i < count; i++) {
        const struct rs_flight_entry *a = hang_call(work, members[i].member, ends[0]);
        const struct rs_flight_entry *b = hang_call(work, members[i].member, ends[1]);
        if (!a || !b || (calls >= 0 && b->record_id - a->record_id != calls))
            return false;
        calls = b->record_id - a->record_id;
        const uint32_t root = root_of(pipelines, members[i].member->node);
        if (has_member[root])
            return false;
        has_member[root] = true;
    }
    return true;
}

/* What is known of the ends of a group's calls. */
struct late_ends {
    bool is_known;  /* of all of them */
    bool is_own;    /* they say something of their own: not always the start and the same length */
    int64_t length; /* of the first; RS_FLIGHT_UNKNOWN */
};

static void look_at_end(struct late_ends *ends, const struct rs_flight_entry *call)
{
    if (call->completed_ns == RS_FLIGHT_UNKNOWN) {
        ends->is_known = false;
        return;
    }
    const int64_t length = call->completed_ns - call->created_ns;
    ends->is_own = ends->is_own || (ends->length != RS_FLIGHT_UNKNOWN && length != ends->length);
    ends->length = length;
}

/* Fills starts and ends of one call: false when a member lacks it. */
static bool read_call(const struct hang_work *work, struct late_member *members, size_t count,
                      int64_t seq, size_t at, struct late_ends *known, int64_t *scratch)
{
    for (int ends = 0; ends < 2; ends++) {
        for (size_t i = 0; i < count; i++) {
            const struct rs_flight_entry *call = hang_call(work, members[i].member, seq);
            if (!call || call->created_ns == RS_FLIGHT_UNKNOWN)
                return false;
            if (ends)
                look_at_end(known, call);
            scratch[i] = !ends                                     ? call->created_ns
                         : call->completed_ns == RS_FLIGHT_UNKNOWN ? 0
                                                                   : call->completed_ns;
            (ends ? members[i].end : members[i].late)[at] = scratch[i];
        }
        const int64_t median = median_of(scratch, count);
        size_t last = 0;
        for (size_t i = 0; i < count; i++) {
            int64_t *value = &(ends ? members[i].end : members[i].late)[at];
            *value -= median;
            last = !ends && *value > members[last].late[at] ? i : last;
        }
        if (!ends)
            members[last].last++;
    }
    return true;
}

static void summarise(struct late_member *member, size_t calls, bool has_ends, int64_t *scratch)
{
    memcpy(scratch, member->late, calls * sizeof *scratch);
    member->median = median_of(scratch, calls);
    member->spread = spread_of(scratch, calls, member->median);
    if (!has_ends)
        return;
    memcpy(scratch, member->end, calls * sizeof *scratch);
    member->end_median = median_of(scratch, calls);
    int64_t root = 1;
    while (root * root < (int64_t)calls)
        root++;
    member->end_error = 2 * spread_of(scratch, calls, member->end_median) / root; /* some 95 % */
}

static enum rs_status tell_late(struct hang_work *work, const struct late_rank *late)
{
    const int32_t rank = work->nodes[late->node].rank;
    for (size_t i = 0; i < work->hang->finding_count; i++)
        if (work->hang->findings[i].kind == RS_FINDING_SLOW_RANK &&
            work->hang->findings[i].places[0].rank == rank)
            return RS_OK; /* told for a larger group already */
    struct rs_finding *finding =
        hang_add_finding(work->hang, RS_FINDING_SLOW_RANK, late->confidence);
    if (!finding)
        return RS_NOMEM;
    struct rs_evidence evidence = hang_evidence(RS_EVIDENCE_LATE);
    evidence.rank = rank;
    evidence.group = late->team;
    evidence.value = late->late;
    evidence.bound = late->noise;
    evidence.seen = late->last;
    evidence.of = late->calls;
    const enum rs_status status = hang_add_rank(finding, rank);
    return status == RS_OK ? hang_add_evidence(finding, evidence, NULL) : status;
}

/* It waits, in another group, for somebody who is late there; at least by half of what it is late itself. Of two that would wait for
 * each other the later one stays. */
static bool is_victim(const struct hang_work *work, const struct late_ranks *ranks,
                      const struct late_rank *late)
{
    for (size_t i = 0; i < ranks->count; i++) {
        const struct late_rank *other = &ranks->items[i];
        const int32_t own = work->nodes[late->node].rank, its = work->nodes[other->node].rank;
        if (other->node == late->node || other->team == late->team ||
            !hang_member_of(work, other->team, own))
            continue;
        const bool is_mutual = hang_member_of(work, late->team, its);
        if (is_mutual ? other->late > late->late : other->late >= late->late / 2)
            return true;
    }
    return false;
}

/* From the others, by its lateness or by how that varies. */
static int64_t differs_by(const struct late_member *member)
{
    const int64_t late = member->median < 0 ? -member->median : member->median;
    return late > member->spread ? late : member->spread;
}

static enum rs_status judge_team(const struct hang_work *work, uint32_t team,
                                 struct late_member *members, size_t count, size_t calls,
                                 bool has_ends, int64_t *scratch, struct late_ranks *ranks)
{
    enum rs_status status = RS_OK;
    has_ends = has_ends && !work->options->assume_common_clock;
    int64_t most = 0, second = 0; /* what two of them differ by from the others */
    for (size_t i = 0; i < count; i++) {
        summarise(&members[i], calls, has_ends, scratch);
        const int64_t differs = differs_by(&members[i]);
        second = differs > most ? most : differs > second ? differs : second;
        most = differs > most ? differs : most;
    }
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        struct late_member *member = &members[i];
        const int64_t others = differs_by(member) == most ? second : most;
        int64_t noise = LATE_MIN_NS / 5;
        noise = member->spread > noise ? member->spread : noise;
        noise = others > noise ? others : noise;
        int64_t late = member->median;
        if (has_ends) {
            late -= member->end_median;
            noise = member->end_error > noise ? member->end_error : noise;
        }
        const bool is_last = member->last * 10 >= (int64_t)calls * 9;
        if (!is_last || late < LATE_MIN_NS || late < 3 * noise)
            continue;
        status = rs_mem_grow((void **)&ranks->items, &ranks->capacity, ranks->count + 1,
                             sizeof *ranks->items);
        if (status == RS_OK)
            ranks->items[ranks->count++] = (struct late_rank){
                .team = team,
                .node = member->member->node,
                .late = late,
                .noise = noise,
                .last = member->last,
                .calls = (int64_t)calls,
                .confidence = has_ends ? RS_CONFIDENCE_EXACT : RS_CONFIDENCE_BOUNDED};
    }
    return status;
}

/* Numbers that every member with a dump has: false when too few, or a member is missing. */
static bool common_calls(const struct hang_work *work, const struct hang_team *team, int64_t *first,
                         int64_t *last)
{
    *first = 0;
    *last = INT64_MAX;
    for (size_t m = 0; m < team->member_count; m++) {
        const struct hang_member *member = &team->members[m];
        if (!member->count || work->nodes[member->node].is_blind)
            return false;
        const uint32_t *calls = work->calls + member->first;
        const int64_t begin = work->set->entries[calls[0]].seq;
        const int64_t end = work->set->entries[calls[member->count - 1]].seq;
        *first = begin > *first ? begin : *first;
        *last = end < *last ? end : *last;
    }
    const int64_t each = (int64_t)(VALUES_MAX / team->member_count);
    const int64_t most = each < CALLS_MAX ? each : CALLS_MAX;
    if (*last - *first >= most)
        *first = *last - most + 1;
    return *last - *first >= CALLS_MIN;
}

static enum rs_status look_at_team(const struct hang_work *work, uint32_t index,
                                   uint32_t *pipelines, struct late_ranks *ranks)
{
    const struct hang_team *team = &work->teams[index];
    const size_t count = team->member_count;
    int64_t first, last;
    if (count < MEMBERS_MIN || !common_calls(work, team, &first, &last))
        return RS_OK;
    const size_t span = (size_t)(last - first + 1);
    struct late_member *members = rs_mem_calloc(count, sizeof *members);
    int64_t *values = rs_mem_calloc(2 * count * span, sizeof *values);
    int64_t *scratch = rs_mem_calloc(count > span ? count : span, sizeof *scratch);
    bool *has_member = rs_mem_calloc(work->node_count + 1, sizeof *has_member);
    enum rs_status status = members && values && scratch && has_member ? RS_OK : RS_NOMEM;
    size_t calls = 0;
    struct late_ends ends = {.is_known = true, .length = RS_FLIGHT_UNKNOWN};
    for (size_t i = 0; i < count && status == RS_OK; i++)
        members[i] = (struct late_member){.member = &team->members[i],
                                          .late = values + 2 * i * span,
                                          .end = values + (2 * i + 1) * span};
    const bool is_comparable =
        status == RS_OK &&
        is_one_program(work, members, count, (const int64_t[]){first, last}, pipelines, has_member);
    for (int64_t seq = first; is_comparable && seq <= last; seq++)
        calls += read_call(work, members, count, seq, calls, &ends, scratch);
    if (calls >= CALLS_MIN)
        status = judge_team(work, index, members, count, calls, ends.is_known && ends.is_own,
                            scratch, ranks);
    rs_mem_free(members);
    rs_mem_free(values);
    rs_mem_free(scratch);
    rs_mem_free(has_member);
    return status;
}

enum rs_status hang_find_late(struct hang_work *work)
{
    size_t size = 0;
    for (size_t t = 0; t < work->hang->group_count; t++) {
        const size_t ranks = work->hang->groups[t].rank_count;
        if (work->hang->is_half_blind && size && ranks != size)
            return RS_OK; /* groups of several sizes, and sends are not recorded: perhaps a pipeline */
        size = ranks;
    }
    uint32_t *pipelines = join_pipelines(work);
    struct late_ranks ranks = {.items = NULL};
    enum rs_status status = pipelines ? RS_OK : RS_NOMEM;
    for (uint32_t t = 0; t < work->hang->group_count && status == RS_OK; t++)
        status = look_at_team(work, t, pipelines, &ranks);
    for (size_t i = 0; i < ranks.count && status == RS_OK; i++)
        if (!is_victim(work, &ranks, &ranks.items[i]))
            status = tell_late(work, &ranks.items[i]);
    rs_mem_free(ranks.items);
    rs_mem_free(pipelines);
    return status;
}
