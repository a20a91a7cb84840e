/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index: entries by id, the sequences they share, and the chunks that wait in order of put.
 */
#include "collector/spool/spool_priv.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <string.h>

/* ---- entries ------------------------------------------------------------------------------------- */

struct entry *spool_find_entry(const struct rs_spool *spool, uint32_t id)
{
    size_t low = 0;
    size_t high = spool->entry_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (spool->entries[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < spool->entry_count && spool->entries[low]->id == id)
        return spool->entries[low];
    return NULL;
}

struct sequence *spool_find_sequence(const struct rs_spool *spool, const char *run, uint32_t rank,
                                     const char *incarnation)
{
    for (size_t i = 0; i < spool->sequence_count; i++) {
        struct sequence *sequence = spool->sequences[i];
        if (sequence->rank == rank && strcmp(sequence->run, run) == 0 &&
            strcmp(sequence->incarnation, incarnation) == 0)
            return sequence;
    }
    return NULL;
}

void spool_free_sequence(struct sequence *sequence)
{
    if (!sequence)
        return;
    rs_mem_free(sequence->run);
    rs_mem_free(sequence->incarnation);
    rs_mem_free(sequence);
}

void spool_free_entry(struct entry *entry)
{
    if (!entry)
        return;
    rs_mem_free(entry->capture);
    rs_mem_free(entry->capture_key);
    rs_mem_free(entry->host);
    rs_mem_free(entry->origin);
    rs_mem_free(entry);
}

static struct sequence *add_sequence(struct rs_spool *spool, const struct rs_spool_source *source)
{
    struct sequence *sequence =
        spool_find_sequence(spool, source->run, source->rank, source->incarnation);
    if (sequence)
        return sequence;
    if (rs_mem_grow((void **)&spool->sequences, &spool->sequence_capacity,
                    spool->sequence_count + 1, sizeof(struct sequence *)) < 0)
        return NULL;
    sequence = rs_mem_calloc(1, sizeof *sequence);
    if (!sequence)
        return NULL;
    sequence->run = rs_mem_strdup(source->run);
    sequence->incarnation = rs_mem_strdup(source->incarnation);
    sequence->rank = source->rank;
    if (!sequence->run || !sequence->incarnation) {
        spool_free_sequence(sequence);
        return NULL;
    }
    spool->sequences[spool->sequence_count++] = sequence;
    return sequence;
}

void spool_remove_sequence(struct rs_spool *spool, struct sequence *sequence)
{
    for (size_t i = 0; i < spool->sequence_count; i++) {
        if (spool->sequences[i] == sequence) {
            spool->sequences[i] = spool->sequences[--spool->sequence_count];
            spool_free_sequence(sequence);
            return;
        }
    }
}

struct entry *spool_add_entry(struct rs_spool *spool, uint32_t id,
                              const struct rs_spool_source *source)
{
    if (rs_mem_grow((void **)&spool->entries, &spool->entry_capacity, spool->entry_count + 1,
                    sizeof(struct entry *)) < 0)
        return NULL;
    struct sequence *sequence = add_sequence(spool, source);
    struct entry *entry = sequence ? rs_mem_calloc(1, sizeof *entry) : NULL;
    if (!entry)
        return NULL;
    *entry = (struct entry){.id = id,
                            .sequence = sequence,
                            .capture = rs_mem_strdup(source->capture),
                            .capture_key = rs_mem_strdup(source->capture_key),
                            .host = rs_mem_strdup(source->host),
                            .origin = rs_mem_strdup(source->origin),
                            .world = source->world,
                            .settle_ns = source->settle_ns,
                            .keeps_sequence = source->keeps_sequence};
    if (!entry->capture || !entry->capture_key || !entry->host || !entry->origin) {
        spool_free_entry(entry);
        return NULL;
    }
    sequence->entry_count++;
    spool->entries[spool->entry_count++] = entry;
    return entry;
}

/* Whether nothing of an entry will be asked for any more. */
static bool may_retire(const struct entry *entry)
{
    const bool is_through =
        (entry->is_ended || entry->is_dropped) && entry->end_seq <= entry->sequence->acked;
    const bool is_newest = entry->end_seq == entry->sequence->last;
    return is_through && !(entry->keeps_sequence && is_newest);
}

void spool_retire_entries(struct rs_spool *spool)
{
    size_t kept = 0;
    for (size_t i = 0; i < spool->entry_count; i++) {
        struct entry *entry = spool->entries[i];
        if (!may_retire(entry)) {
            spool->entries[kept++] = entry;
            continue;
        }
        struct sequence *sequence = entry->sequence;
        spool_free_entry(entry);
        if (--sequence->entry_count == 0)
            spool_remove_sequence(spool, sequence);
    }
    spool->entry_count = kept;
}

/* ---- the index --------------------------------------------------------------------------------------- */

enum rs_status spool_add_item(struct rs_spool *spool, const struct item *item)
{
    if (spool->item_head && spool->item_head >= spool->item_count / 2 + 64) {
        spool->item_count -= spool->item_head;
        memmove(spool->items, spool->items + spool->item_head,
                spool->item_count * sizeof *spool->items);
        spool->item_head = 0;
    }
    if (rs_mem_grow((void **)&spool->items, &spool->item_capacity, spool->item_count + 1,
                    sizeof *spool->items) < 0)
        return RS_NOMEM;
    spool->items[spool->item_count++] = *item;
    spool->stats.waiting_chunks++;
    spool->stats.waiting_bytes += item->payload_length;
    return RS_OK;
}

void spool_settle_item(struct rs_spool *spool, struct item *item)
{
    if (item->is_acked)
        return;
    item->is_acked = true;
    spool->stats.waiting_chunks--;
    spool->stats.waiting_bytes -= item->payload_length;
    spool->stats.acked_chunks++;
    struct segment *segment = spool_find_segment(spool, item->segment);
    RS_CHECK(segment && segment->waiting_count > 0);
    segment->waiting_count--;
}

void spool_drop_head(struct rs_spool *spool)
{
    while (spool->item_head < spool->item_count && spool->items[spool->item_head].is_acked) {
        spool->item_head++;
        spool->first_position++;
    }
    if (spool->item_head == spool->item_count)
        spool->item_head = spool->item_count = 0;
    spool_free_segments(spool);
}
