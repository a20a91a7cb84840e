/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index: entries by id, the sequences they share, and the chunks of each that wait.
 */
#include "collector/spool/spool_priv.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <string.h>

/* ---- entries ------------------------------------------------------------------------------------- */

/* Where the entry of this id is, or would be. */
static size_t place_of(const struct rs_spool *spool, uint32_t id)
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
    return low;
}

struct entry *spool_find_entry(const struct rs_spool *spool, uint32_t id)
{
    const size_t at = place_of(spool, id);
    return at < spool->entry_count && spool->entries[at]->id == id ? spool->entries[at] : NULL;
}

static struct sequence *find_sequence(const struct rs_spool *spool,
                                      const struct rs_spool_source *source)
{
    for (size_t i = 0; i < spool->sequence_count; i++) {
        struct sequence *sequence = spool->sequences[i];
        if (sequence->rank == source->rank && sequence->lane == source->lane &&
            strcmp(sequence->run, source->run) == 0 &&
            strcmp(sequence->incarnation, source->incarnation) == 0)
            return sequence;
    }
    return NULL;
}

static void free_sequence(struct sequence *sequence)
{
    if (!sequence)
        return;
    rs_mem_free(sequence->run);
    rs_mem_free(sequence->incarnation);
    rs_mem_free(sequence);
}

static void free_entry(struct entry *entry)
{
    if (!entry)
        return;
    rs_mem_free(entry->capture);
    rs_mem_free(entry->capture_key);
    rs_mem_free(entry->host);
    rs_mem_free(entry->origin);
    rs_mem_free(entry->items);
    rs_mem_free(entry);
}

static struct sequence *add_sequence(struct rs_spool *spool, const struct rs_spool_source *source)
{
    struct sequence *sequence = find_sequence(spool, source);
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
    sequence->lane = source->lane;
    if (!sequence->run || !sequence->incarnation) {
        free_sequence(sequence);
        return NULL;
    }
    spool->sequences[spool->sequence_count++] = sequence;
    return sequence;
}

static void release_sequence(struct rs_spool *spool, struct sequence *sequence)
{
    for (size_t i = 0; i < spool->sequence_count && sequence->entry_count == 0; i++) {
        if (spool->sequences[i] == sequence) {
            spool->sequences[i] = spool->sequences[--spool->sequence_count];
            free_sequence(sequence);
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
    if (!entry) {
        if (sequence)
            release_sequence(spool, sequence);
        return NULL;
    }
    *entry = (struct entry){.id = id,
                            .sequence = sequence,
                            .capture = rs_mem_strdup(source->capture),
                            .capture_key = rs_mem_strdup(source->capture_key),
                            .host = rs_mem_strdup(source->host),
                            .origin = rs_mem_strdup(source->origin),
                            .world = source->world,
                            .settle_ns = source->settle_ns,
                            .user = source->user,
                            .keeps_sequence = source->keeps_sequence};
    if (!entry->capture || !entry->capture_key || !entry->host || !entry->origin) {
        free_entry(entry);
        release_sequence(spool, sequence);
        return NULL;
    }
    sequence->entry_count++;
    size_t at = spool->entry_count++;
    for (; at > 0 && spool->entries[at - 1]->id > id; at--)
        spool->entries[at] = spool->entries[at - 1];
    spool->entries[at] = entry;
    return entry;
}

void spool_remove_entry(struct rs_spool *spool, struct entry *entry)
{
    const size_t at = place_of(spool, entry->id);
    RS_CHECK(at < spool->entry_count && spool->entries[at] == entry);
    memmove(&spool->entries[at], &spool->entries[at + 1],
            (spool->entry_count - at - 1) * sizeof(struct entry *));
    spool->entry_count--;
    struct sequence *sequence = entry->sequence;
    sequence->entry_count--;
    release_sequence(spool, sequence);
    free_entry(entry);
}

void spool_free_all(struct rs_spool *spool)
{
    for (size_t i = 0; i < spool->entry_count; i++) {
        if (spool->entries[i]->folder && spool->entries[i]->folder->is_raw)
            spool_folder_free(&spool->entries[i]->folder);
        free_entry(spool->entries[i]);
    }
    for (size_t i = 0; i < spool->sequence_count; i++)
        free_sequence(spool->sequences[i]);
    spool_folder_free(&spool->summary);
    spool_folder_free(&spool->earlier);
    rs_mem_free(spool->entries);
    rs_mem_free(spool->sequences);
}

/* Whether nothing of an entry will be asked for any more. */
static bool may_retire(const struct entry *entry)
{
    const bool is_through =
        entry->is_ended && (entry->is_dropped || entry->end_seq <= entry->acked_seq);
    const bool is_newest = entry->end_seq == entry->sequence->last;
    return is_through && !(entry->keeps_sequence && is_newest);
}

static void end_earlier(struct rs_spool *spool)
{
    for (size_t i = 0; i < spool->entry_count; i++)
        if (spool->entries[i]->folder == spool->earlier)
            return;
    spool_folder_remove(spool, &spool->earlier);
}

void spool_retire_entries(struct rs_spool *spool)
{
    for (size_t i = spool->entry_count; i-- > 0;) {
        struct entry *entry = spool->entries[i];
        if (!may_retire(entry))
            continue;
        if (entry->folder && entry->folder->is_raw)
            spool_folder_remove(spool, &entry->folder);
        spool_remove_entry(spool, entry);
    }
    if (spool->earlier)
        end_earlier(spool);
}

/* ---- items ------------------------------------------------------------------------------------------- */

enum rs_status spool_add_item(struct rs_spool *spool, struct entry *entry, const struct item *item)
{
    if (entry->item_head && entry->item_head >= entry->item_count / 2 + 64) {
        entry->item_count -= entry->item_head;
        memmove(entry->items, entry->items + entry->item_head,
                entry->item_count * sizeof *entry->items);
        entry->item_head = 0;
    }
    if (rs_mem_grow((void **)&entry->items, &entry->item_capacity, entry->item_count + 1,
                    sizeof *entry->items) < 0)
        return RS_NOMEM;
    entry->items[entry->item_count++] = *item;
    spool->stats.waiting_chunks++;
    spool->stats.waiting_bytes += item->payload_length;
    spool_find_segment(entry->folder, item->segment)->waiting_count++;
    return RS_OK;
}

static void settle_item(struct rs_spool *spool, const struct entry *entry, const struct item *item)
{
    struct segment *segment = spool_find_segment(entry->folder, item->segment);
    RS_CHECK(segment && segment->waiting_count > 0);
    segment->waiting_count--;
    spool->stats.waiting_chunks--;
    spool->stats.waiting_bytes -= item->payload_length;
}

uint64_t spool_settle(struct rs_spool *spool, struct entry *entry, rs_seq seq)
{
    uint64_t bytes = 0;
    while (entry->item_head < entry->item_count && entry->items[entry->item_head].seq <= seq) {
        const struct item *item = &entry->items[entry->item_head++];
        bytes += item->payload_length;
        settle_item(spool, entry, item);
    }
    if (entry->item_head == entry->item_count)
        entry->item_head = entry->item_count = 0;
    return bytes;
}

void spool_unput(struct rs_spool *spool, struct entry *entry, rs_seq seq)
{
    while (entry->item_count > entry->item_head && entry->items[entry->item_count - 1].seq >= seq)
        settle_item(spool, entry, &entry->items[--entry->item_count]);
}
