/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links as the documents have them: global ranks, one row per (step, kind, group, source,
 * destination), sizes and times of the ranks that recorded it added up.
 */
#include "ascend/cluster/cluster_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

static const char *op_name_of(const struct rank_data *rank, const struct rs_ascend_comm_link *link)
{
    if (link->op_name == RS_STR_NONE)
        return rank->is_db ? NULL : "";
    return rs_strtab_text(&rank->comm.names, link->op_name);
}

static bool is_same_link(const struct link_ref *a, const struct link_ref *b)
{
    return a->key == b->key && a->step == b->step && a->name == b->name && a->group == b->group &&
           a->src == b->src && a->dst == b->dst;
}

bool next_link(const struct run *run, size_t *at_p, struct link_row *row_p)
{
    if (*at_p >= run->link_count)
        return false;
    const struct link_ref *first = &run->links[*at_p];
    *row_p = (struct link_row){.key = first->key,
                               .step = first->step,
                               .name = first->name,
                               .group = first->group,
                               .src = first->src,
                               .dst = first->dst};
    for (; *at_p < run->link_count && is_same_link(first, &run->links[*at_p]); ++*at_p) {
        const struct link_ref *ref = &run->links[*at_p];
        const struct rank_data *rank = &run->ranks[ref->rank];
        const struct rs_ascend_comm_link *link = &rank->comm.links[ref->index];
        struct rs_ascend_num fields[3];
        rs_ascend_comm_link_open(&rank->comm, link, fields);
        sum_add(&row_p->size, &fields[0], rank->skips_unknown);
        sum_add(&row_p->time, &fields[1], rank->skips_unknown);
        row_p->last_transport = rs_strtab_text(&rank->comm.names, link->transport);
        row_p->last_op = op_name_of(rank, link);
        if (!row_p->first_transport)
            row_p->first_transport = row_p->last_transport;
        if (!row_p->first_op)
            row_p->first_op = row_p->last_op;
    }
    return true;
}

bool counts_in_text(const char *name)
{
    return !strstr(name, "middle") && !strstr(name, "top") && !strstr(name, "bottom");
}

bool counts_in_table(const char *name)
{
    return strstr(name, "total") != NULL;
}

enum rs_status link_totals_add(struct link_totals *totals, const struct link_row *row)
{
    if (rs_mem_grow((void **)&totals->rows, &totals->capacity, totals->count + 1,
                    sizeof *totals->rows) != RS_OK)
        return RS_NOMEM;
    totals->rows[totals->count] = *row;
    totals->rows[totals->count].key = (uint32_t)totals->count; /* keeps the sort stable */
    totals->count++;
    return RS_OK;
}

static int by_pair(const void *a, const void *b)
{
    const struct link_row *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    if (x->dst != y->dst)
        return x->dst < y->dst ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

/* Sums of sums: what was plain stays plain, what was compensated stays so. */
static void add_sum(struct sum *to, const struct sum *from)
{
    struct sum plain = *to, kahan = *to;
    const struct rs_ascend_num text = sum_text(from), table = rs_ascend_num_of_double(from->kahan);
    sum_add(&plain, &text, false);
    sum_add(&kahan, &table, false);
    *to = plain;
    to->kahan = kahan.kahan;
    to->dirt = kahan.dirt;
}

void link_totals_fold(struct link_totals *totals)
{
    size_t kept = 0;
    if (totals->count)
        qsort(totals->rows, totals->count, sizeof *totals->rows, by_pair);
    for (size_t i = 0; i < totals->count; i++) {
        const struct link_row row = totals->rows[i];
        struct link_row *last = kept ? &totals->rows[kept - 1] : NULL;
        if (!last || last->group != row.group || last->src != row.src || last->dst != row.dst) {
            last = &totals->rows[kept++];
            *last = row;
            last->size = last->time = (struct sum){0};
        }
        add_sum(&last->size, &row.size);
        add_sum(&last->time, &row.time);
        last->last_transport = row.last_transport;
        last->last_op = row.last_op;
        if (!last->first_op)
            last->first_op = row.first_op;
    }
    totals->count = kept;
}
