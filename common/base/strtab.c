/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/strtab.h"

#include "common/base/check.h"
#include "common/base/mem.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { LEAST_BLOCK_BYTES = 4 * 1024, MOST_BLOCK_BYTES = 64 * 1024, FIRST_SLOTS = 1024 };

struct rs_strtab_block {
    struct rs_strtab_block *next;
    size_t used;
    size_t size;
    char bytes[];
};

static uint32_t hash_of(const char *text, size_t length)
{
    return (uint32_t)XXH3_64bits(text, length);
}

static enum rs_status add_block(struct rs_strtab *table, size_t size)
{
    struct rs_strtab_block *block = rs_mem_calloc(1, sizeof *block + size);
    if (!block)
        return RS_NOMEM;
    block->size = size;
    block->next = table->blocks;
    table->blocks = block;
    return RS_OK;
}

/* Its slots are there, or could not be had. */
static enum rs_status begin(struct rs_strtab *table, enum rs_status status)
{
    rs_str empty;
    if (status == RS_OK)
        status = table->slots ? rs_strtab_add(table, "", 0, &empty) : RS_NOMEM;
    if (status != RS_OK)
        rs_strtab_fini(table);
    return status;
}

enum rs_status rs_strtab_init(struct rs_strtab *table, size_t limit_bytes)
{
    *table = (struct rs_strtab){.limit_bytes = limit_bytes ? limit_bytes : (size_t)256 << 20};
    table->slots = rs_mem_calloc(FIRST_SLOTS, sizeof *table->slots);
    table->slot_count = FIRST_SLOTS;
    return begin(table, RS_OK);
}

enum rs_status rs_strtab_init_for(struct rs_strtab *table, size_t count, size_t bytes)
{
    size_t slots = 8;
    while (slots < 2 * (count + 1))
        slots *= 2;
    *table = (struct rs_strtab){.limit_bytes = (size_t)256 << 20};
    table->slots = rs_mem_calloc(slots, sizeof *table->slots);
    table->slot_count = slots;
    table->entries = rs_mem_calloc(count + 1, sizeof *table->entries);
    table->capacity = count + 1;
    return begin(table, table->entries ? add_block(table, bytes + count + 1) : RS_NOMEM);
}

void rs_strtab_fini(struct rs_strtab *table)
{
    for (struct rs_strtab_block *block = table->blocks; block;) {
        struct rs_strtab_block *next = block->next;
        rs_mem_free(block);
        block = next;
    }
    rs_mem_free(table->entries);
    rs_mem_free(table->slots);
    *table = (struct rs_strtab){0};
}

void rs_strtab_reset(struct rs_strtab *table)
{
    struct rs_strtab_block *block = table->blocks;
    while (block && block->next) { /* the first one taken stays: it has the empty string in front */
        struct rs_strtab_block *next = block->next;
        rs_mem_free(block);
        block = next;
    }
    RS_CHECK(block); /* an initialised table has one */
    table->blocks = block;
    block->used = table->entries[RS_STR_EMPTY].length + 1;
    memset(table->slots, 0, table->slot_count * sizeof *table->slots);
    table->slots[table->entries[RS_STR_EMPTY].hash & (table->slot_count - 1)] = RS_STR_EMPTY + 1;
    table->count = 1;
    table->bytes = 0;
}

/* The slot that holds these bytes, or the free one where they belong. */
static size_t slot_of(const struct rs_strtab *table, const char *text, size_t length, uint32_t hash)
{
    const size_t mask = table->slot_count - 1;
    for (size_t slot = hash & mask;; slot = (slot + 1) & mask) {
        const uint32_t used = table->slots[slot];
        if (!used)
            return slot;
        const struct rs_strtab_entry *entry = &table->entries[used - 1];
        if (entry->hash == hash && entry->length == length &&
            memcmp(entry->text, text, length) == 0)
            return slot;
    }
}

static enum rs_status double_slots(struct rs_strtab *table)
{
    const size_t count = table->slot_count * 2;
    uint32_t *slots = rs_mem_calloc(count, sizeof *slots);
    if (!slots)
        return RS_NOMEM;
    for (size_t id = 0; id < table->count; id++) {
        size_t slot = table->entries[id].hash & (count - 1);
        while (slots[slot])
            slot = (slot + 1) & (count - 1);
        slots[slot] = (uint32_t)id + 1;
    }
    rs_mem_free(table->slots);
    table->slots = slots;
    table->slot_count = count;
    return RS_OK;
}

static char *take_bytes(struct rs_strtab *table, size_t length)
{
    struct rs_strtab_block *block = table->blocks;
    if (!block || block->size - block->used < length) {
        /* As much again as there is: many tables are small, and there may be one for each rank. */
        size_t size = table->bytes > LEAST_BLOCK_BYTES ? table->bytes : LEAST_BLOCK_BYTES;
        size = size < MOST_BLOCK_BYTES ? size : MOST_BLOCK_BYTES;
        if (add_block(table, length > size ? length : size) != RS_OK)
            return NULL;
        block = table->blocks;
    }
    char *bytes = block->bytes + block->used;
    block->used += length;
    return bytes;
}

enum rs_status rs_strtab_add(struct rs_strtab *table, const char *text, size_t length, rs_str *id_p)
{
    const uint32_t hash = hash_of(text, length);
    size_t slot = slot_of(table, text, length, hash);
    if (table->slots[slot]) {
        *id_p = table->slots[slot] - 1;
        return RS_OK;
    }
    if (length > table->limit_bytes - table->bytes || table->count >= UINT32_MAX - 1)
        return RS_LIMIT;
    if (rs_mem_grow((void **)&table->entries, &table->capacity, table->count + 1,
                    sizeof *table->entries) != RS_OK)
        return RS_NOMEM;
    if ((table->count + 1) * 2 > table->slot_count) {
        if (double_slots(table) != RS_OK)
            return RS_NOMEM;
        slot = slot_of(table, text, length, hash);
    }
    char *copy = take_bytes(table, length + 1);
    if (!copy)
        return RS_NOMEM;
    if (length)
        memcpy(copy, text, length);
    copy[length] = '\0';
    table->entries[table->count] =
        (struct rs_strtab_entry){.text = copy, .length = (uint32_t)length, .hash = hash};
    table->bytes += length;
    table->slots[slot] = (uint32_t)table->count + 1;
    *id_p = (rs_str)table->count++;
    return RS_OK;
}

rs_str rs_strtab_find(const struct rs_strtab *table, const char *text, size_t length)
{
    const size_t slot = slot_of(table, text, length, hash_of(text, length));
    return table->slots[slot] ? table->slots[slot] - 1 : RS_STR_NONE;
}

const char *rs_strtab_text(const struct rs_strtab *table, rs_str id)
{
    if (id == RS_STR_NONE)
        return "";
    RS_CHECK(id < table->count);
    return table->entries[id].text;
}

size_t rs_strtab_length(const struct rs_strtab *table, rs_str id)
{
    if (id == RS_STR_NONE)
        return 0;
    RS_CHECK(id < table->count);
    return table->entries[id].length;
}
