/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/analysis/clock_partners.h"

#include "common/base/mem.h"
#include "common/base/slots.h"

/* Ranks of the island that each kind keeps: of an operation of all ranks any of them will do. */
enum { HELD_MOST = 512 };

/* Kinds while they get their numbers, from 0 on. */
struct numbering {
    struct rs_slots slots;
    uint64_t *kinds;   /* [number] */
    uint32_t *last_of; /* [number] summary + 1 that had it last */
    uint32_t count;
};

static bool is_kind(const void *self, uint32_t index, const void *wanted)
{
    const uint64_t *kinds = self;
    return kinds[index] == *(const uint64_t *)wanted;
}

static enum rs_status number_of(struct numbering *numbering, uint64_t kind, uint32_t *number_p)
{
    const uint64_t hash = rs_slots_mix(0, kind);
    *number_p = rs_slots_find(&numbering->slots, hash, is_kind, numbering->kinds, &kind);
    if (*number_p != RS_SLOTS_NONE) {
        return RS_OK;
    }
    *number_p = numbering->count++;
    numbering->kinds[*number_p] = kind;
    return rs_slots_put(&numbering->slots, hash, *number_p);
}

static enum rs_status number_rows(struct clock_partners *partners, const struct witnesses *rows,
                                  struct numbering *numbering)
{
    size_t count = 0;
    for (size_t s = 0; s < partners->count; s++) {
        partners->first[s] = count;
        for (size_t i = 0; i < rows[s].count; i++) {
            uint32_t number;
            const enum rs_status status = number_of(numbering, rows[s].items[i].kind, &number);
            if (status != RS_OK) {
                return status;
            }
            if (numbering->last_of[number] != s + 1) {
                numbering->last_of[number] = (uint32_t)s + 1;
                partners->numbers[count++] = number;
            }
        }
    }
    partners->first[partners->count] = count;
    partners->kinds = rs_mem_calloc((size_t)numbering->count + 1, sizeof *partners->kinds);
    partners->held = rs_mem_calloc(count + 1, sizeof *partners->held);
    return partners->kinds != NULL && partners->held != NULL ? RS_OK : RS_NOMEM;
}

enum rs_status clock_partners_init(struct clock_partners *partners, const struct witnesses *rows,
                                   size_t count)
{
    size_t room = 0;
    for (size_t s = 0; s < count; s++) {
        room += rows[s].count;
    }
    struct numbering numbering = {
        .kinds = rs_mem_calloc(room + 1, sizeof *numbering.kinds),
        .last_of = rs_mem_calloc(room + 1, sizeof *numbering.last_of),
    };
    *partners = (struct clock_partners){
        .count = count,
        .first = rs_mem_calloc(count + 1, sizeof *partners->first),
        .numbers = rs_mem_calloc(room + 1, sizeof *partners->numbers),
        .common = rs_mem_calloc(count + 1, sizeof *partners->common),
    };
    enum rs_status status = RS_NOMEM;
    if (numbering.kinds != NULL && numbering.last_of != NULL && partners->first != NULL &&
        partners->numbers != NULL && partners->common != NULL) {
        status = number_rows(partners, rows, &numbering);
    }
    rs_slots_fini(&numbering.slots);
    rs_mem_free(numbering.kinds);
    rs_mem_free(numbering.last_of);
    return status;
}

void clock_partners_fini(struct clock_partners *partners)
{
    rs_mem_free(partners->first);
    rs_mem_free(partners->numbers);
    rs_mem_free(partners->common);
    rs_mem_free(partners->kinds);
    rs_mem_free(partners->held);
    *partners = (struct clock_partners){0};
}

void clock_partners_begin(struct clock_partners *partners)
{
    partners->island++;
}

void clock_partners_add(struct clock_partners *partners, size_t s)
{
    for (size_t i = partners->first[s]; i < partners->first[s + 1]; i++) {
        struct clock_kind *kind = &partners->kinds[partners->numbers[i]];
        if (kind->island != partners->island) {
            *kind = (struct clock_kind){.island = partners->island};
        }
        if (kind->count < HELD_MOST) {
            partners->held[partners->held_count++] = (struct clock_held){(uint32_t)s, kind->newest};
            kind->newest = (uint32_t)partners->held_count;
            kind->count++;
        }
    }
}

/* Adds or clears, for every rank of the island, the kinds that it shares with s. */
static void count_common(struct clock_partners *partners, size_t s, bool is_clearing)
{
    for (size_t i = partners->first[s]; i < partners->first[s + 1]; i++) {
        const struct clock_kind *kind = &partners->kinds[partners->numbers[i]];
        uint32_t at = kind->island == partners->island ? kind->newest : 0;
        for (; at != 0; at = partners->held[at - 1].older) {
            uint32_t *common = &partners->common[partners->held[at - 1].summary];
            *common = is_clearing ? 0 : *common + 1;
        }
    }
}

size_t clock_partners_find(struct clock_partners *partners, size_t s, size_t found[PARTNERS_TRIED])
{
    const uint32_t *common = partners->common;
    size_t count = 0;
    count_common(partners, s, false);
    for (size_t t = 0; t < partners->count; t++) {
        if (common[t] == 0 || (count == PARTNERS_TRIED && common[t] <= common[found[count - 1]])) {
            continue;
        }
        size_t at = count < PARTNERS_TRIED ? count++ : count - 1;
        for (; at > 0 && common[found[at - 1]] < common[t]; at--) {
            found[at] = found[at - 1];
        }
        found[at] = t;
    }
    count_common(partners, s, true);
    return count;
}
