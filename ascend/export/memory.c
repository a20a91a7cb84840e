/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the framework's allocator and the collector of garbage did.
 *
 *   allocator events of a device   -> MEMORY_RECORD, one row each
 *   an allocation and its end      -> OP_MEMORY: joined by device and address in the order of time; what is still held at
 *                                     the end has no release, what was there before has no row
 *   collections of garbage         -> GC_RECORD
 *
 * An allocation's name is that of the innermost operator of its thread around it, found in PYTORCH_API; what the
 * device's own memory held is not in such a recording.
 */
#include "ascend/export/export_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* "1234" or 1234. */
static bool find_address(const struct rs_batch *batch, size_t at, int64_t *address_p)
{
    const char *text;
    size_t length;
    char digits[24];
    if (!extra_find(batch, at, "Addr", &text, &length))
        return false;
    const size_t quote = *text == '"';
    if (length <= 2 * quote || length - 2 * quote >= sizeof digits)
        return false;
    memcpy(digits, text + quote, length - 2 * quote);
    digits[length - 2 * quote] = '\0';
    char *end;
    const unsigned long long address = strtoull(digits, &end, 10);
    *address_p = (int64_t)address;
    return end != digits && !*end;
}

static enum rs_status put_record(struct rs_export_ascend *e, const struct memory_event *event,
                                 struct rs_err *err)
{
    int64_t component;
    const enum rs_status status = text_id(e, SPACE_MEMORY, "PTA", &component, err);
    if (status != RS_OK)
        return status;
    struct db_row row = db_row_begin(&e->rows, T_MEMORY_RECORD);
    db_row_int(&row, component, true);
    db_row_int(&row, event->at, true);
    db_row_int(&row, event->allocated, true);
    db_row_int(&row, event->reserved, event->reserved >= 0);
    db_row_int(&row, 0, false);
    db_row_int(&row, 0, false);
    db_row_int(&row, event->device, true);
    return db_row_end(&e->rows, &row, err);
}

enum rs_status memory_row(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                          struct rs_err *err)
{
    struct memory_event event = {.at = epoch_ns(e, batch->start[at]),
                                 .bytes = batch->bytes[at],
                                 .reserved = -1,
                                 .global_tid = global_tid(e, batch->lane[at])};
    if (!extra_int(batch, at, "Total Allocated", &event.allocated) ||
        !extra_int(batch, at, "Device Id", &event.device) || event.device < 0)
        return RS_OK;
    if (!extra_int(batch, at, "Total Reserved", &event.reserved) || event.reserved < 0)
        event.reserved = -1;
    enum rs_status status = put_record(e, &event, err);
    if (status != RS_OK || event.bytes == INT64_MIN || !find_address(batch, at, &event.address))
        return status;
    status = rs_mem_grow((void **)&e->memory.items, &e->memory.capacity, e->memory.count + 1,
                         sizeof *e->memory.items);
    if (status == RS_OK)
        e->memory.items[e->memory.count++] = event;
    return no_room(status, err);
}

enum rs_status memory_gc(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                         struct rs_err *err)
{
    if (batch->name[at] == RS_STR_NONE || strcmp(text_of(e, batch->name[at]), "GC") != 0)
        return RS_OK; /* the profiler's own time */
    e->has_gc = true;
    struct db_row row = db_row_begin(&e->rows, T_GC_RECORD);
    db_row_int(&row, epoch_ns(e, batch->start[at]), true);
    db_row_int(&row, epoch_ns(e, batch->end[at]), true);
    db_row_int(&row, global_tid(e, batch->lane[at]), true);
    return db_row_end(&e->rows, &row, err);
}

/* ---- allocations ---- */

/* By place, then time; at one instant what is given back comes first. */
static int by_place(const void *a_, const void *b_)
{
    const struct memory_event *a = a_, *b = b_;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* streamPtr holds the thread until names are found. */
static enum rs_status put_allocation(struct rs_export_ascend *e, const struct memory_event *taken,
                                     const struct memory_event *given, struct rs_err *err)
{
    struct db_row row = db_row_begin(&e->rows, T_OP_MEMORY);
    db_row_int(&row, 0, false);
    db_row_int(&row, taken->bytes, true);
    db_row_int(&row, taken->at, true);
    db_row_int(&row, given ? given->at : 0, given != NULL);
    db_row_int(&row, 0, false);
    db_row_int(&row, given ? given->at - taken->at : 0, given != NULL);
    db_row_int(&row, 0, false);
    db_row_int(&row, taken->allocated, true);
    db_row_int(&row, taken->reserved, taken->reserved >= 0);
    db_row_int(&row, 0, false);
    db_row_int(&row, given ? given->allocated : 0, given != NULL);
    db_row_int(&row, given ? given->reserved : 0, given && given->reserved >= 0);
    db_row_int(&row, 0, false);
    db_row_int(&row, taken->global_tid, true);
    db_row_int(&row, taken->device, true);
    return db_row_end(&e->rows, &row, err);
}

enum rs_status memory_settle(struct rs_export_ascend *e, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    const struct memory_event *items = e->memory.items;
    if (!e->memory.count)
        return RS_OK;
    qsort(e->memory.items, e->memory.count, sizeof *e->memory.items, by_place);
    for (size_t i = 0; i < e->memory.count && status == RS_OK; i++) {
        const bool has_next = i + 1 < e->memory.count && items[i + 1].bytes < 0 &&
                              items[i + 1].device == items[i].device &&
                              items[i + 1].address == items[i].address;
        if (items[i].bytes > 0)
            status = put_allocation(e, &items[i], has_next ? &items[i + 1] : NULL, err);
    }
    if (status != RS_OK)
        return status;
    /* The last operators that began before are asked, a bounded number of them. */
    return db_run(
        &e->rows,
        "CREATE INDEX MemoryNames ON PYTORCH_API (globalTid, startNs);"
        "UPDATE OP_MEMORY SET name = (SELECT name FROM (SELECT name, endNs, type FROM PYTORCH_API "
        "WHERE globalTid = OP_MEMORY.streamPtr AND startNs <= CAST(allocationTime AS TEXT) "
        "ORDER BY startNs DESC LIMIT 256) WHERE endNs >= CAST(allocationTime AS TEXT) "
        "AND type = 50001 LIMIT 1);"
        "UPDATE OP_MEMORY SET streamPtr = NULL;"
        "DROP INDEX MemoryNames;",
        err);
}
