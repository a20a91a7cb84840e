/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics per name: device rows, or on a rank without a device its operators and communication rows.
 */
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

#include <stdlib.h>
#include <string.h>

/* Rows found by (name, device): the newest row of a name leads to the others of that name. */
struct table {
    uint32_t *newest; /* by name, index + 1 */
    uint32_t *older;  /* by row, index + 1 */
    size_t older_capacity;
};

static enum rs_status find_row(struct rs_summary *summary, struct table *table,
                               const struct rs_kernel_row *key, struct rs_kernel_row **row_p)
{
    uint32_t *head = &table->newest[key->name];
    for (uint32_t at = table->older ? *head : 0; at; at = table->older[at - 1]) {
        struct rs_kernel_row *row = &summary->kernels[at - 1];
        if (row->device == key->device && row->work_class == key->work_class) {
            *row_p = row;
            return RS_OK;
        }
    }
    if (summary->kernel_count >= UINT32_MAX - 1)
        return RS_LIMIT;
    enum rs_status status = rs_mem_grow((void **)&summary->kernels, &summary->kernel_capacity,
                                        summary->kernel_count + 1, sizeof *summary->kernels);
    if (status == RS_OK)
        status = rs_mem_grow((void **)&table->older, &table->older_capacity,
                             summary->kernel_count + 1, sizeof *table->older);
    if (status != RS_OK)
        return status;
    struct rs_kernel_row *row = &summary->kernels[summary->kernel_count];
    *row = *key;
    row->min = INT64_MAX;
    table->older[summary->kernel_count] = *head;
    *head = (uint32_t)++summary->kernel_count;
    *row_p = row;
    return RS_OK;
}

static enum rs_status count_row(struct rs_reduce *reduce, struct table *table,
                                const struct rs_kernel_row *key, rs_dur length)
{
    struct rs_kernel_row *row;
    const enum rs_status status = find_row(reduce->summary, table, key, &row);
    if (status != RS_OK)
        return status;
    row->count++;
    row->total = sum_clamped(row->total, length);
    row->min = length < row->min ? length : row->min;
    row->max = length > row->max ? length : row->max;
    return RS_OK;
}

static enum rs_status count_all(struct rs_reduce *reduce, struct table *table)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; status == RS_OK && i < reduce->work.count; i++) {
        const struct reduce_work *work = &reduce->work.items[i];
        if (work->name == RS_STR_NONE) /* a piece of an operator, counted below */
            continue;
        const struct rs_kernel_row key = {.name = work->name,
                                          .device = reduce->slots[work->slot],
                                          .work_class = work->work_class};
        status = count_row(reduce, table, &key, work->end - work->start);
    }
    if (reduce->has_device_work)
        return status;
    for (size_t i = 0; status == RS_OK && i < reduce->cpu_ops.count; i++) {
        const struct reduce_cpu_op *op = &reduce->cpu_ops.items[i];
        const struct rs_kernel_row key = {
            .name = op->name, .device = -1, .work_class = RS_WORK_COMPUTING};
        if (!op->is_call)
            status = count_row(reduce, table, &key, op->end - op->start);
    }
    return status;
}

/* qsort's order needs the names' bytes: each entry carries them. */
struct named {
    struct rs_kernel_row row;
    const char *text;
    size_t length;
};

static int by_weight(const void *a, const void *b)
{
    const struct named *x = a;
    const struct named *y = b;
    if (x->row.device != y->row.device)
        return x->row.device < y->row.device ? -1 : 1;
    if (x->row.total != y->row.total)
        return x->row.total > y->row.total ? -1 : 1;
    const size_t length = x->length < y->length ? x->length : y->length;
    const int order = length ? memcmp(x->text, y->text, length) : 0;
    if (order)
        return order;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return (int)x->row.work_class - (int)y->row.work_class;
}

static enum rs_status sort_rows(struct rs_reduce *reduce)
{
    struct rs_summary *summary = reduce->summary;
    const size_t count = summary->kernel_count;
    struct named *named = rs_mem_calloc(count + 1, sizeof *named);
    if (!named)
        return RS_NOMEM;
    for (size_t i = 0; i < count; i++) {
        named[i].row = summary->kernels[i];
        named[i].text = rs_strtab_text(reduce->strings, summary->kernels[i].name);
        named[i].length = rs_strtab_length(reduce->strings, summary->kernels[i].name);
    }
    qsort(named, count, sizeof *named, by_weight);
    for (size_t i = 0; i < count; i++)
        summary->kernels[i] = named[i].row;
    rs_mem_free(named);
    return RS_OK;
}

enum rs_status kernels_build(struct rs_reduce *reduce)
{
    struct table table = {0};
    table.newest = rs_mem_calloc(reduce->strings->count + 1, sizeof *table.newest);
    enum rs_status status = table.newest ? count_all(reduce, &table) : RS_NOMEM;
    if (status == RS_OK)
        status = sort_rows(reduce);
    rs_mem_free(table.newest);
    rs_mem_free(table.older);
    return status;
}
