/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When an operation of HCCL was under way: two generations of the database tell it differently.
 *
 *   COMMUNICATION_OP      |-----------------------------|   until 2024: from the call on, until somebody noticed the end
 *   its rows in TASK          |=====|   |=========|
 *   emitted, since 2025   [=============================]   one row: the operation is its span
 *   emitted, until 2024       [=====]   [=========]         a row per stretch: what its tasks cover
 *
 * The profiler's own Communication is the union of what is emitted here, to the ns, in either generation. Which one a file is
 * of, its schema says: the older COMMUNICATION_OP has none of the columns that came with the newer meaning. A file that its own
 * step figures contradict is read as these say: they decide where all of them equal one reading and some do not the other.
 */
#include "ascend/source/ascend_db_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>

enum { COMMUNICATION = 3, PS_PER_NS = 1000 }; /* its place among the official figures */

enum rs_status db_stretch_op(struct db_reader *reader, struct db_op *op,
                             const struct ascend_task *tasks, size_t count)
{
    op->stretch_first = reader->stretch_count;
    for (size_t i = 0; i < count; i++) { /* by start */
        struct db_stretch *last = op->stretch_first < reader->stretch_count
                                      ? &reader->stretches[reader->stretch_count - 1]
                                      : NULL;
        if (last && tasks[i].start <= last->end) {
            last->end = tasks[i].end > last->end ? tasks[i].end : last->end;
            continue;
        }
        const enum rs_status status =
            rs_mem_grow((void **)&reader->stretches, &reader->stretch_capacity,
                        reader->stretch_count + 1, sizeof *reader->stretches);
        if (status != RS_OK)
            return status;
        reader->stretches[reader->stretch_count++] =
            (struct db_stretch){tasks[i].start, tasks[i].end};
    }
    op->stretch_count = reader->stretch_count - op->stretch_first;
    return RS_OK;
}

/* ---- which generation ---- */

static bool is_old_schema(const struct db_reader *reader)
{
    static const char *const newer[] = {"relay", "retry",  "dataType", "algType",
                                        "count", "opType", "deviceId", "rankSize"};
    for (size_t i = 0; i < sizeof newer / sizeof newer[0]; i++)
        if (rs_ascend_db_has_column(reader->db, "COMMUNICATION_OP", newer[i]))
            return false;
    return true;
}

static int by_start(const void *a_, const void *b_)
{
    const struct db_stretch *a = a_, *b = b_;
    return (a->start > b->start) - (a->start < b->start);
}

/* What a reading calls communication, in the order of time. */
struct reading {
    struct db_stretch *items;
    size_t count;
};

static enum rs_status reading_make(const struct db_reader *reader, bool by_tasks,
                                   struct reading *reading)
{
    size_t most = reader->stretch_count + reader->op_count;
    *reading = (struct reading){.items = rs_mem_calloc(most + 1, sizeof *reading->items)};
    if (!reading->items)
        return RS_NOMEM;
    for (size_t i = 0; i < reader->op_count; i++) {
        const struct db_op *op = &reader->ops[i];
        if (!by_tasks || !op->stretch_count)
            reading->items[reading->count++] = (struct db_stretch){op->op.start, op->op.end};
        for (size_t k = 0; by_tasks && k < op->stretch_count; k++)
            reading->items[reading->count++] = reader->stretches[op->stretch_first + k];
    }
    qsort(reading->items, reading->count, sizeof *reading->items, by_start);
    return RS_OK;
}

/* Length of the union of what starts in the window. */
static rs_dur covered(const struct reading *reading, rs_ns start, rs_ns end)
{
    rs_ns until = RS_NS_MIN;
    rs_dur sum = 0;
    for (size_t i = 0; i < reading->count && reading->items[i].start < end; i++) {
        const struct db_stretch *one = &reading->items[i];
        if (one->start < start || one->end <= until)
            continue;
        sum += one->end - (one->start > until ? one->start : until);
        until = one->end;
    }
    return sum;
}

static const struct db_step *step_of(const struct db_reader *reader, const char *number)
{
    char *end;
    const long long wanted = strtoll(number, &end, 10);
    for (size_t i = 0; *number && !*end && i < reader->step_count; i++)
        if (reader->steps[i].number == wanted)
            return &reader->steps[i];
    return NULL;
}

/* Do the profiler's own figures say it? *asked_p: how many there were. Figures have three decimals of us: to the ns. */
static bool is_own_figure(const struct db_reader *reader, const struct reading *reading,
                          size_t *asked_p)
{
    const struct rs_provenance *vendor = reader->a.stream->info.vendor;
    *asked_p = 0;
    for (size_t i = 0; vendor && i < vendor->step_count; i++) {
        const struct rs_vendor_step *own = &vendor->steps[i];
        const struct db_step *step =
            step_of(reader, rs_strtab_text(&reader->a.stream->strings, own->step));
        if (!step || own->ps[COMMUNICATION] < 0)
            continue;
        const rs_ns start = step->start == RS_NS_MAX ? step->host_start : step->start;
        const rs_ns end = step->end > step->host_end ? step->end : step->host_end;
        const rs_dur ours = covered(reading, start, end);
        ++*asked_p;
        if (llabs(own->ps[COMMUNICATION] / PS_PER_NS - ours) > 1)
            return false;
    }
    return true;
}

enum rs_status db_choose_stretches(struct db_reader *reader)
{
    struct reading ops = {0}, tasks = {0};
    enum rs_status status = RS_OK;
    size_t asked = 0;
    reader->has_stretches = reader->stretch_count > 0 && is_old_schema(reader);
    if (!reader->stretch_count || reader->device_count > 1)
        return RS_OK;
    status = reading_make(reader, false, &ops);
    if (status == RS_OK)
        status = reading_make(reader, true, &tasks);
    if (status == RS_OK) {
        const bool says_ops = is_own_figure(reader, &ops, &asked);
        const bool says_tasks = is_own_figure(reader, &tasks, &asked);
        if (asked && says_ops != says_tasks)
            reader->has_stretches = says_tasks;
    }
    rs_mem_free(ops.items);
    rs_mem_free(tasks.items);
    return status;
}
