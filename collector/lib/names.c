/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and groups: an area of the control file that only grows. An entry is whole before
 * names_used passes it (release; pairs with the acquire in rs_control_names()), so the collector may read at any time.
 */
#include "collector/lib/client_priv.h"

#include <string.h>

enum { NAME_MAX_BYTES = RS_LIB_NAME_MAX_BYTES, GROUP_MAX_RANKS = 65536, CPU_BIT = 31 };

static char *names_area(void)
{
    return (char *)rankscope_priv_client.control + RS_CONTROL_HEADER_BYTES;
}

static const char *ranks_of(const struct rs_lib_entry *entry)
{
    return (const char *)(entry + 1) + ((entry->text_bytes + 3u) & ~3u);
}

static bool is_same(const struct rs_lib_entry *a, const struct rs_lib_entry *b, const char *text,
                    const int32_t *ranks)
{
    if (a->kind != b->kind || a->text_bytes != b->text_bytes || a->rank_count != b->rank_count ||
        a->flags & RS_LIB_ENTRY_METADATA)
        return false;
    if (memcmp(a + 1, text, a->text_bytes) != 0)
        return false;
    return a->rank_count == 0 ||
           memcmp(ranks_of(a), ranks, sizeof *ranks * (size_t)a->rank_count) == 0;
}

/* The id of an entry like this one, or 0. Flags of the first registration stand. */
static uint32_t find(const struct rs_lib_entry *wanted, const char *text, const int32_t *ranks,
                     uint16_t *flags_p)
{
    uint64_t used =
        atomic_load_explicit(&rankscope_priv_client.control->names_used, memory_order_relaxed);
    uint32_t id = 0;
    for (uint64_t at = 0; at < used;) {
        const struct rs_lib_entry *entry = (const void *)(names_area() + at);
        if (entry->kind == wanted->kind) {
            id++;
            if (is_same(entry, wanted, text, ranks)) {
                *flags_p = entry->flags;
                return id;
            }
        }
        at += entry->entry_bytes;
    }
    return 0;
}

static uint32_t append(struct rs_lib_entry *entry, const char *text, const int32_t *ranks)
{
    struct rankscope_priv_client *client = &rankscope_priv_client;
    uint64_t used = atomic_load_explicit(&client->control->names_used, memory_order_relaxed);
    if (RS_CONTROL_NAMES_BYTES - used < entry->entry_bytes)
        return 0;
    char *at = names_area() + used;
    memcpy(at, entry, sizeof *entry);
    memcpy(at + sizeof *entry, text, entry->text_bytes);
    if (entry->rank_count > 0)
        memcpy(at + sizeof *entry + ((entry->text_bytes + 3u) & ~3u), ranks,
               sizeof *ranks * (size_t)entry->rank_count);
    atomic_store_explicit(&client->control->names_used, used + entry->entry_bytes,
                          memory_order_release);
    return entry->kind == RS_LIB_ENTRY_NAME ? ++client->name_count : ++client->group_count;
}

static uint32_t add(struct rs_lib_entry *entry, const char *text, const int32_t *ranks,
                    uint16_t *flags_p)
{
    size_t bytes = sizeof *entry + ((entry->text_bytes + 3u) & ~3u) +
                   sizeof *ranks * (size_t)entry->rank_count;
    entry->entry_bytes = (uint32_t)((bytes + 7) & ~(size_t)7);
    *flags_p = entry->flags;
    rankscope_priv_lock();
    uint32_t id = 0;
    if (rankscope_priv_client.control != NULL) {
        id = find(entry, text, ranks, flags_p);
        if (id == 0)
            id = append(entry, text, ranks);
    }
    rankscope_priv_unlock();
    return id;
}

bool rankscope_priv_names_add(uint16_t flags, const char *text, size_t length)
{
    struct rs_lib_entry entry = {
        .kind = RS_LIB_ENTRY_NAME, .flags = flags, .text_bytes = (uint32_t)length};
    const size_t bytes = sizeof entry + ((entry.text_bytes + 3u) & ~3u);
    entry.entry_bytes = (uint32_t)((bytes + 7) & ~(size_t)7);
    rankscope_priv_lock();
    const bool is_there = rankscope_priv_client.control == NULL || append(&entry, text, NULL) != 0;
    rankscope_priv_unlock();
    return is_there;
}

uint32_t rankscope_name(const char *text, unsigned flags)
{
    if (text == NULL || text[0] == '\0')
        return 0;
    struct rs_lib_entry entry = {.kind = RS_LIB_ENTRY_NAME,
                                 .flags = (uint16_t)(flags & RANKSCOPE_CPU_TIME),
                                 .text_bytes = (uint32_t)strnlen(text, NAME_MAX_BYTES)};
    uint16_t kept = 0;
    uint32_t id = add(&entry, text, NULL, &kept);
    if (id != 0 && (kept & RANKSCOPE_CPU_TIME) != 0)
        id |= 1u << CPU_BIT; /* the hot path sees it without looking anything up */
    return id;
}

uint32_t rankscope_group(const char *name, const int32_t *ranks, size_t count)
{
    if (name == NULL || count > GROUP_MAX_RANKS || (count > 0 && ranks == NULL))
        return 0;
    struct rs_lib_entry entry = {.kind = RS_LIB_ENTRY_GROUP,
                                 .text_bytes = (uint32_t)strnlen(name, NAME_MAX_BYTES),
                                 .rank_count = (uint32_t)count};
    uint16_t kept = 0;
    return add(&entry, name, ranks, &kept);
}
