/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of ranks that wait for each other: which one left its program?
 *
 * Training repeats itself. Where a rank made the same few calls before, it then went on in some way; when it never went on
 * with one of its last calls, it is this rank that left the path, by an order of its own or by leaving a call out.
 */
#include "aggregator/analysis/hang/hang_priv.h"

enum { CONTEXT = 4, LAST_CALLS = 16 };

static bool is_alike(const struct rs_flight_entry *a, const struct rs_flight_entry *b)
{
    return a->group == b->group && a->op == b->op && a->peer_src == b->peer_src &&
           a->peer_dst == b->peer_dst;
}

/* The rounds in which it stood before entries[at], when it never went on as there; 0 else. */
static size_t rounds_before(const struct rs_flight_entry *entries, size_t at)
{
    size_t rounds = 0;
    for (size_t i = CONTEXT; i < at; i++) {
        bool is_same_place = true;
        for (size_t k = 1; k <= CONTEXT && is_same_place; k++)
            is_same_place = is_alike(&entries[i - k], &entries[at - k]);
        if (!is_same_place)
            continue;
        if (is_alike(&entries[i], &entries[at]))
            return 0;
        rounds++;
    }
    return rounds;
}

const struct rs_flight_entry *hang_off_course(const struct hang_work *work,
                                              const struct hang_node *node, size_t *rounds_p)
{
    const struct rs_flight_dump *dump = hang_dump(work, node);
    if (!dump)
        return NULL;
    const struct rs_flight_entry *entries = work->set->entries + dump->entry_first;
    const size_t count = dump->entry_count;
    for (size_t at = count > LAST_CALLS + CONTEXT ? count - LAST_CALLS : CONTEXT; at < count;
         at++) {
        *rounds_p = rounds_before(entries, at);
        if (*rounds_p)
            return &entries[at];
    }
    return NULL;
}
