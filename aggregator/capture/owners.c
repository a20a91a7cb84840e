/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a run is: the user of the processes that its collectors tell of. The first one who is named keeps the run as long as
 * ranks of it are known; another user's process under that name is refused, so that nobody can put ranks into somebody
 * else's report, or have his run captured with it, by giving his job its name.
 *
 * Runs stand in the order of their names: a thousand ranks come with every heartbeat.
 */
#include "aggregator/capture/coord_priv.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <string.h>

/* The first place whose run is not below `run`. */
static size_t lower_bound(const struct owner_table *table, const char *run)
{
    size_t low = 0;
    size_t high = table->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(table->items[middle]->run, run) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct owner *find(const struct owner_table *table, const char *run)
{
    const size_t at = lower_bound(table, run);
    return at < table->count && strcmp(table->items[at]->run, run) == 0 ? table->items[at] : NULL;
}

const char *rs_coord_owner(const struct rs_coord *coord, const char *run)
{
    const struct owner *owner = find(&coord->owners, run);
    return owner ? owner->user : "";
}

enum rs_status owner_claim(struct rs_coord *coord, const char *run, const char *user)
{
    struct owner_table *table = &coord->owners;
    const struct owner *known = *user ? find(table, run) : NULL;
    if (!*user)
        return RS_OK; /* collectors of an earlier version do not say */
    if (known)
        return strcmp(known->user, user) == 0 ? RS_OK : RS_EXISTS;
    if (rs_mem_grow((void **)&table->items, &table->capacity, table->count + 1,
                    sizeof(struct owner *)) < 0)
        return RS_NOMEM;
    struct owner *owner = rs_mem_calloc(1, sizeof *owner);
    if (!owner)
        return RS_NOMEM;
    const size_t at = lower_bound(table, run);
    memmove(&table->items[at + 1], &table->items[at], (table->count - at) * sizeof(struct owner *));
    (void)snprintf(owner->run, sizeof owner->run, "%s", run);
    (void)snprintf(owner->user, sizeof owner->user, "%s", user);
    table->items[at] = owner;
    table->count++;
    return RS_OK;
}

void owners_sweep(struct rs_coord *coord)
{
    struct owner_table *table = &coord->owners;
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++)
        table->items[i]->is_known = false;
    for (size_t i = 0; i < coord->seen.count; i++) {
        struct owner *owner = find(table, coord->seen.items[i].run);
        if (owner)
            owner->is_known = true;
    }
    for (size_t i = 0; i < table->count; i++)
        if (table->items[i]->is_known)
            table->items[kept++] = table->items[i];
        else
            rs_mem_free(table->items[i]);
    table->count = kept;
}

void owners_fini(struct owner_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        rs_mem_free(table->items[i]);
    rs_mem_free(table->items);
    *table = (struct owner_table){0};
}
