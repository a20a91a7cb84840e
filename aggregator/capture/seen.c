/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every rank that a collector told of, found by run and number. A thousand ranks come with every heartbeat: the
 * table is hashed.
 */
#include "aggregator/capture/coord_priv.h"
#include "common/base/mem.h"
#include "common/base/thread.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

/* All that collectors may tell of at once: a table of some 400 MB. */
enum { SEEN_MAX = 4 * RS_COORD_RANKS_MAX };

int64_t reported_step(int64_t step)
{
    return step < 0 || step > INT64_C(1) << 53 ? -1 : step;
}

rs_dur reported_length(rs_dur length)
{
    const rs_dur longest = 3600 * (rs_dur)RS_NS_PER_S;
    return length < 0 ? 0 : length < longest ? length : longest;
}

rs_ns reported_instant(rs_ns instant, rs_ns latest)
{
    return instant < 0 ? 0 : instant < latest ? instant : latest;
}

static size_t hash_of(const char *run, uint32_t rank)
{
    uint64_t hash = UINT64_C(1469598103934665603);
    for (; *run; run++)
        hash = (hash ^ (uint8_t)*run) * UINT64_C(1099511628211);
    hash = (hash ^ rank) * UINT64_C(1099511628211);
    return (size_t)(hash ^ (hash >> 32));
}

/* Slots are a power of two, and at most half full. */
static void put_slot(struct seen_table *table, size_t index)
{
    const struct rs_coord_seen *item = &table->items[index];
    size_t at = hash_of(item->run, item->rank) & (table->slot_count - 1);
    while (table->slots[at])
        at = (at + 1) & (table->slot_count - 1);
    table->slots[at] = (uint32_t)index + 1;
}

static void refill(struct seen_table *table)
{
    if (table->slot_count)
        memset(table->slots, 0, table->slot_count * sizeof *table->slots);
    for (size_t i = 0; i < table->count; i++)
        put_slot(table, i);
}

static enum rs_status make_room(struct seen_table *table)
{
    if (rs_mem_grow((void **)&table->items, &table->capacity, table->count + 1,
                    sizeof *table->items) < 0)
        return RS_NOMEM;
    if (2 * (table->count + 1) <= table->slot_count)
        return RS_OK;
    const size_t wanted = table->slot_count ? 2 * table->slot_count : 64;
    uint32_t *slots = rs_mem_calloc(wanted, sizeof *slots);
    if (!slots)
        return RS_NOMEM;
    rs_mem_free(table->slots);
    table->slots = slots;
    table->slot_count = wanted;
    refill(table);
    return RS_OK;
}

/* Walks the items of (run, rank): *at_p is the slot to look at next, SIZE_MAX before the first. */
static struct rs_coord_seen *next_of(const struct seen_table *table, const char *run, uint32_t rank,
                                     size_t *at_p)
{
    if (!table->slot_count)
        return NULL;
    const size_t mask = table->slot_count - 1;
    size_t at = *at_p == SIZE_MAX ? hash_of(run, rank) & mask : *at_p;
    for (; table->slots[at]; at = (at + 1) & mask) {
        struct rs_coord_seen *item = &table->items[table->slots[at] - 1];
        if (item->rank != rank || strcmp(item->run, run) != 0)
            continue;
        *at_p = (at + 1) & mask;
        return item;
    }
    return NULL;
}

struct rs_coord_seen *seen_find(const struct rs_coord *coord, const char *run, uint32_t rank,
                                const char *incarnation)
{
    size_t at = SIZE_MAX;
    struct rs_coord_seen *seen = NULL;
    do
        seen = next_of(&coord->seen, run, rank, &at);
    while (seen && incarnation && strcmp(seen->incarnation, incarnation) != 0);
    return seen;
}

struct rs_coord_seen *seen_of(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                              struct rs_coord_rank *rank)
{
    const struct seen_table *table = &coord->seen;
    if (rank->seen_generation == table->generation)
        return &table->items[rank->seen_at];
    struct rs_coord_seen *seen = seen_find(coord, capture->run, rank->rank, rank->incarnation);
    if (seen) {
        rank->seen_at = (uint32_t)(seen - table->items);
        rank->seen_generation = table->generation;
    }
    return seen;
}

bool seen_is_live(const struct rs_coord_seen *seen)
{
    return seen->link && seen->can_capture && seen->state != RS_RANK_GONE;
}

struct rs_coord_seen *seen_find_live(const struct rs_coord *coord, const char *run, uint32_t rank)
{
    struct rs_coord_seen *found = NULL;
    size_t at = SIZE_MAX;
    for (struct rs_coord_seen *seen = next_of(&coord->seen, run, rank, &at); seen;
         seen = next_of(&coord->seen, run, rank, &at))
        if (seen_is_live(seen) && (!found || seen > found)) /* later in the table is newer */
            found = seen;
    return found;
}

static void fit(struct rs_coord_seen *seen, rs_ns now)
{
    seen->last_seen_ns = now;
    seen->step = reported_step(seen->step);
    seen->step_duration_ns = reported_length(seen->step_duration_ns);
}

/* What its collector does not tell stays as it was known. */
static void renew(struct rs_coord_seen *known, const struct rs_coord_seen *seen, rs_ns now)
{
    const struct rs_coord_seen before = *known;
    *known = *seen;
    fit(known, now);
    known->last_start = before.last_start;
    known->last_stop = before.last_stop;
    known->silent_ns = before.silent_ns;
    known->self_time_ns = before.self_time_ns;
    known->step_bytes = before.step_bytes;
    if (!known->clock_bound_ns) { /* a new link has yet to measure */
        known->clock_offset_ns = before.clock_offset_ns;
        known->clock_bound_ns = before.clock_bound_ns;
    }
    /* Over another link: also where the old one has not been found broken yet. */
    known->back_ns = known->link && known->link != before.link ? now : before.back_ns;
    for (size_t i = 0; i < RS_ROLE_COUNT; i++)
        if (known->role[i] < 0)
            known->role[i] = before.role[i];
}

/* A process is on one host: while its collector is here, none of another node has it. */
static bool is_of_another(const struct rs_coord_seen *known, const char *node)
{
    return known->link && strcmp(known->node, node) != 0;
}

bool rs_coord_may_report(struct rs_coord *coord, const char *id, uint32_t rank, const char *node)
{
    const struct rs_coord_capture *capture = rs_coord_find(coord, id);
    const struct rs_coord_rank *member = capture ? member_find_open(capture, rank) : NULL;
    if (!member)
        return true;
    if (!capture->is_files && (*member->node || !capture->is_loaded))
        return strcmp(member->node, node) == 0;
    const struct rs_coord_seen *seen = seen_find(coord, capture->run, rank, member->incarnation);
    return !seen || !is_of_another(seen, node);
}

bool rs_coord_may_send(struct rs_coord *coord, const struct rs_coord_stream *stream,
                       const char *node)
{
    const struct rs_coord_capture *capture = rs_coord_find(coord, stream->capture);
    const struct rs_coord_rank *member =
        capture ? member_find(capture, stream->rank, stream->incarnation) : NULL;
    const struct rs_coord_seen *seen =
        seen_find(coord, stream->run, stream->rank, stream->incarnation);
    if (member && *member->node && strcmp(member->node, node) != 0)
        return false;
    return !seen || !is_of_another(seen, node);
}

bool rs_coord_knows(const struct rs_coord *coord, const struct rs_coord_seen *seen)
{
    return seen_find(coord, seen->run, seen->rank, seen->incarnation) != NULL;
}

enum rs_status rs_coord_see(struct rs_coord *coord, const struct rs_coord_seen *seen, rs_ns now)
{
    struct seen_table *table = &coord->seen;
    if (seen->rank > RS_RANK_MAX)
        return RS_INVALID;
    struct rs_coord_seen *known = seen_find(coord, seen->run, seen->rank, seen->incarnation);
    if (known && is_of_another(known, seen->node))
        return RS_REFUSED;
    if (!known && table->count >= SEEN_MAX)
        return RS_LIMIT;
    const enum rs_status claimed = owner_claim(coord, seen->run, seen->user);
    if (claimed < 0)
        return claimed;
    if (known) {
        renew(known, seen, now);
        return RS_OK;
    }
    if (make_room(table) < 0)
        return RS_NOMEM;
    table->items[table->count] = *seen;
    fit(&table->items[table->count], now);
    table->items[table->count].last_start = table->items[table->count].last_stop = 0;
    table->items[table->count].step_bytes = 0;
    table->items[table->count].silent_ns = table->items[table->count].back_ns = 0;
    put_slot(table, table->count++);
    return RS_OK;
}

/* Heartbeats come every half second, and gRPC's own watch breaks a link after 15 to 30 s without a byte. */
bool seen_is_unreachable(const struct rs_coord *coord, const struct rs_coord_seen *seen)
{
    return !seen->link && seen->state != RS_RANK_GONE &&
           seen->silent_ns >= coord->options.gone_ns / 3 * 2;
}

/* The first place whose link is not below that one: thousands of ranks ask for theirs with every tick. */
static size_t link_place(const struct rs_coord *coord, const void *link)
{
    size_t low = 0, high = coord->link_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((uintptr_t)coord->links[middle].link < (uintptr_t)link)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct seen_link *link_find(const struct rs_coord *coord, const void *link)
{
    const size_t at = link_place(coord, link);
    return at < coord->link_count && coord->links[at].link == link ? &coord->links[at] : NULL;
}

/* NULL: no memory. */
static struct seen_link *link_add(struct rs_coord *coord, const void *link)
{
    const size_t at = link_place(coord, link);
    if (rs_mem_grow((void **)&coord->links, &coord->link_capacity, coord->link_count + 1,
                    sizeof *coord->links) != RS_OK)
        return NULL;
    memmove(&coord->links[at + 1], &coord->links[at],
            (coord->link_count - at) * sizeof *coord->links);
    coord->link_count++;
    coord->links[at] = (struct seen_link){.link = link};
    return &coord->links[at];
}

/* Either node has no core for it, or the way between them is slow. What is longer is a silence, and says nothing of the time after it. */
static const rs_dur lateness_max_ns = 2 * (rs_dur)RS_NS_PER_S;
static const rs_dur lateness_kept_ns = 20 * (rs_dur)RS_NS_PER_S;

/* The latest of the last while. */
static void note_lateness(const struct rs_coord *coord, struct seen_link *link, rs_ns now)
{
    const rs_dur late =
        now - link->last_seen_ns - (link->next_ns ? link->next_ns : coord->options.heartbeat_ns);
    if (!coord->options.heartbeat_ns || !link->last_seen_ns || late > lateness_max_ns)
        return;
    if (late > link->late_ns || now - link->late_at >= lateness_kept_ns) {
        link->late_ns = late > 0 ? late : 0;
        link->late_at = now;
    }
}

/* Who says that the next heartbeat follows in an hour would never be late. */
static const rs_dur next_max_ns = 10 * (rs_dur)RS_NS_PER_S;

static bool was_silent(const struct seen_link *link, rs_ns now)
{
    const rs_dur gap = link->last_seen_ns ? now - link->last_seen_ns : 0;
    return gap > lateness_max_ns && gap - link->next_ns > lateness_max_ns / 4;
}

void rs_coord_see_link(struct rs_coord *coord, const void *link, rs_dur next_ns, rs_ns now)
{
    struct seen_link *known = link_find(coord, link);
    if (!known) {
        known = link_add(coord, link);
        if (known)
            known->first_seen_ns = now;
    }
    if (known) { /* else its ranks speak for it */
        note_lateness(coord, known, now);
        if (was_silent(known, now))
            known->resumed_at = now;
        known->last_seen_ns = now;
        known->next_ns = next_ns > 0 && next_ns <= next_max_ns ? next_ns : 0;
    }
}

/* Of a link that is heard for less than that while nobody knows yet how late messages come over it, and its node has just started
 * things: it is taken to be so late. */
static const rs_dur unknown_lateness_ns = RS_NS_PER_S;

rs_dur seen_lateness(const struct rs_coord *coord, const struct rs_coord_seen *seen, rs_ns now)
{
    const struct seen_link *known = seen->link ? link_find(coord, seen->link) : NULL;
    if (!known || !coord->options.heartbeat_ns)
        return 0;
    const rs_dur late = now - known->late_at < lateness_kept_ns ? known->late_ns : 0;
    const bool is_new = now - known->first_seen_ns < lateness_kept_ns;
    return is_new && late < unknown_lateness_ns ? unknown_lateness_ns : late;
}

rs_ns seen_link_at(const struct rs_coord *coord, const struct rs_coord_seen *seen)
{
    const struct seen_link *known = seen->link ? link_find(coord, seen->link) : NULL;
    return known && known->last_seen_ns > seen->last_seen_ns ? known->last_seen_ns
                                                             : seen->last_seen_ns;
}

rs_ns seen_back_at(const struct rs_coord *coord, const struct rs_coord_seen *seen)
{
    const struct seen_link *known = seen->link ? link_find(coord, seen->link) : NULL;
    return known && known->resumed_at > seen->back_ns ? known->resumed_at : seen->back_ns;
}

bool rs_coord_is_idle(const struct rs_coord *coord, const void *link)
{
    RS_ON_THREAD(LINKS);
    for (size_t i = 0; i < coord->seen.count; i++) {
        const struct rs_coord_seen *seen = &coord->seen.items[i];
        if (seen->link != link)
            continue;
        if (*seen->capture || queue_find(coord, seen->run))
            return false;
        for (size_t k = 0; k < coord->capture_count; k++)
            if (strcmp(coord->captures[k]->run, seen->run) == 0 &&
                member_find(coord->captures[k], seen->rank, seen->incarnation))
                return false;
    }
    return true;
}

void rs_coord_link_gone(struct rs_coord *coord, const void *link, bool is_broken, rs_ns now)
{
    struct seen_link *known = link_find(coord, link);
    /* The link is silent only when nothing came over it. */
    rs_ns newest_ns = known ? known->last_seen_ns : 0;
    if (known) {
        const size_t behind = coord->link_count - (size_t)(known - coord->links) - 1;
        memmove(known, known + 1, behind * sizeof *known);
        coord->link_count--;
    }
    for (size_t i = 0; i < coord->seen.count; i++) {
        const struct rs_coord_seen *seen = &coord->seen.items[i];
        if (seen->link == link && seen->last_seen_ns > newest_ns)
            newest_ns = seen->last_seen_ns;
    }
    for (size_t i = 0; i < coord->seen.count; i++) {
        struct rs_coord_seen *seen = &coord->seen.items[i];
        if (seen->link == link) {
            seen->link = NULL;
            seen->silent_ns = is_broken ? now - newest_ns : 0;
            seen->last_seen_ns = now;
        }
    }
}

size_t rs_coord_seen_count(const struct rs_coord *coord)
{
    return coord->seen.count;
}

const struct rs_coord_seen *rs_coord_seen(const struct rs_coord *coord, size_t index)
{
    return index < coord->seen.count ? &coord->seen.items[index] : NULL;
}

void rs_coord_key_of(const struct rs_coord_seen *seen, struct rs_coord_key *key)
{
    (void)snprintf(key->run, sizeof key->run, "%s", seen->run);
    (void)snprintf(key->incarnation, sizeof key->incarnation, "%s", seen->incarnation);
    key->rank = seen->rank;
}

size_t rs_coord_seen_behind(const struct rs_coord *coord, const struct rs_coord_key *key,
                            size_t otherwise)
{
    const struct rs_coord_seen *seen =
        *key->run ? seen_find(coord, key->run, key->rank, key->incarnation) : NULL;
    if (seen)
        return (size_t)(seen - coord->seen.items) + 1;
    return otherwise < coord->seen.count ? otherwise : coord->seen.count;
}

/* What a table of many ranks took is given back when they are gone. */
static void shrink(struct seen_table *table)
{
    if (table->capacity < 1024 || table->count > table->capacity / 4)
        return;
    const size_t wanted = table->count + 64;
    struct rs_coord_seen *items = rs_mem_realloc(table->items, wanted, sizeof *items);
    size_t slot_count = table->slot_count;
    while (slot_count > 64 && slot_count > 4 * wanted)
        slot_count /= 2;
    if (items) {
        table->items = items;
        table->capacity = wanted;
    }
    uint32_t *slots = items ? rs_mem_calloc(slot_count, sizeof *slots) : NULL;
    if (slots) {
        rs_mem_free(table->slots);
        table->slots = slots;
        table->slot_count = slot_count;
    }
    (void)malloc_trim(0); /* what else was taken for them lies in pieces between what is kept */
}

void seen_sweep(struct rs_coord *coord, rs_ns now)
{
    struct seen_table *table = &coord->seen;
    size_t kept = 0;
    if (now - coord->seen_swept_at < RS_NS_PER_S)
        return;
    coord->seen_swept_at = now;
    for (size_t i = 0; i < table->count; i++) {
        const struct rs_coord_seen *seen = &table->items[i];
        const rs_dur kept_ns = seen_is_unreachable(coord, seen)
                                   ? coord->options.unreachable_ns + coord->options.gone_ns
                                   : 4 * coord->options.gone_ns;
        const bool is_old = now - seen->last_seen_ns > kept_ns;
        if (is_old && (!seen->link || seen->state == RS_RANK_GONE))
            continue;
        if (kept < i)
            table->items[kept] = *seen;
        kept++;
    }
    if (kept == table->count)
        return;
    table->count = kept;
    table->generation++;
    shrink(table);
    refill(table);
    owners_sweep(coord);
}

enum { RUNS_NAMED_MAX = 64 };

/* Runs with live ranks: lends their names. */
static size_t list_runs(const struct rs_coord *coord, const char *user,
                        const char *runs[RUNS_NAMED_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < coord->seen.count && count < RUNS_NAMED_MAX; i++) {
        const struct rs_coord_seen *seen = &coord->seen.items[i];
        size_t j = 0;
        while (j < count && strcmp(runs[j], seen->run) != 0)
            j++;
        if (j == count && seen_is_live(seen) && (!*user || strcmp(seen->user, user) == 0))
            runs[count++] = seen->run;
    }
    return count;
}

size_t seen_name_runs(const struct rs_coord *coord, const char *user, char *text, size_t bytes)
{
    const char *runs[RUNS_NAMED_MAX];
    const size_t count = list_runs(coord, user, runs);
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used + 80 < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%.60s", used ? ", " : "", runs[i]);
    return count;
}

/* The file of roles as it reads for a world of that size; kept until another size is asked for. */
const struct rs_roles *seen_roles(struct rs_coord *coord, uint32_t world)
{
    if (!coord->roles)
        return NULL;
    if (coord->is_parsed && coord->parsed_world == world)
        return &coord->parsed;
    rs_roles_fini(&coord->parsed);
    coord->is_parsed = rs_roles_from_json(coord->roles, strlen(coord->roles), world, &coord->parsed,
                                          NULL) == RS_OK;
    coord->parsed_world = world;
    return coord->is_parsed ? &coord->parsed : NULL;
}

void rs_coord_infer_roles(struct rs_coord *coord, const char *run)
{
    struct rs_roles roles = {0};
    const struct rs_coord_ops *ops = coord->options.ops;
    if (!ops->earlier_roles || !ops->earlier_roles(coord->options.self, run, &roles))
        return;
    for (size_t i = 0; i < coord->seen.count; i++) {
        struct rs_coord_seen *seen = &coord->seen.items[i];
        struct rs_rank_row row = {.rank = seen->rank};
        if (strcmp(seen->run, run) != 0)
            continue;
        memset(row.role, -1, sizeof row.role);
        rs_roles_apply(&roles, &row);
        for (size_t k = 0; k < RS_ROLE_COUNT; k++)
            if (seen->role[k] < 0)
                seen->role[k] = row.role[k];
        if (row.self_time_ns > 0)
            seen->self_time_ns = row.self_time_ns;
    }
    rs_roles_fini(&roles);
}

void rs_coord_infer_all_roles(struct rs_coord *coord)
{
    const char *runs[RUNS_NAMED_MAX];
    const size_t count = list_runs(coord, "", runs);
    for (size_t i = 0; i < count; i++)
        rs_coord_infer_roles(coord, runs[i]);
}

void rs_coord_add_roles(struct rs_coord *coord, const struct rs_coord_seen *seen,
                        int32_t role[RS_ROLE_COUNT])
{
    struct rs_rank_row row = {.rank = seen->rank};
    const struct rs_roles *roles = seen_roles(coord, seen->world);
    if (!roles)
        return;
    memcpy(row.role, role, sizeof row.role);
    rs_roles_apply(roles, &row);
    memcpy(role, row.role, sizeof row.role);
}

void seen_fini(struct seen_table *table)
{
    rs_mem_free(table->items);
    rs_mem_free(table->slots);
    *table = (struct seen_table){0};
}
