/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bandwidth of operations as nccl-tests defines it (its doc/PERFORMANCE.md and the *GetBw functions of its
 * programs): size over time, and that times a factor, so that one link's speed can be read off whatever the operation
 * and the number of ranks n:
 *
 *     all_reduce                                             2 (n - 1) / n
 *     all_gather, reduce_scatter, all_to_all, gather, scatter  (n - 1) / n
 *     broadcast, reduce, send, recv, send_recv                 1
 *     barrier                                                  moves nothing: none
 *
 *     a hand-computed one: 4 ranks, all_reduce of 8,000,000 bytes, last start at 1.000 ms, last end at 1.400 ms:
 *     8e6 / 400e3 ns = 20 GB/s; times 2 * 3 / 4 = 30 GB/s
 *
 * Time is the longest transfer of a member: nobody's lateness is in it. Where not all members were
 * seen (coverage partial) it is an upper bound, and both bandwidths are lower bounds. Official tables are not
 * touched by any of this.
 */
#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_factor(struct op_bandwidth *band, enum rs_op_type type)
{
    switch (type) {
    case RS_OP_ALL_REDUCE:
        band->factor = 2 * (band->ranks - 1);
        band->factor_over = band->ranks;
        return;
    case RS_OP_ALL_GATHER:
    case RS_OP_REDUCE_SCATTER:
    case RS_OP_ALL_TO_ALL:
    case RS_OP_GATHER:
    case RS_OP_SCATTER:
        band->factor = band->ranks - 1;
        band->factor_over = band->ranks;
        return;
    case RS_OP_BROADCAST:
    case RS_OP_REDUCE:
    case RS_OP_SEND:
    case RS_OP_RECV:
    case RS_OP_SEND_RECV:
        band->factor = band->factor_over = 1;
        return;
    case RS_OP_UNKNOWN:
    case RS_OP_BARRIER:
    case RS_OP_TYPE_COUNT:
        break;
    }
}

static struct op_bandwidth bandwidth_of(struct op_bandwidth band, int64_t op)
{
    if (!band.transport)
        band.transport = "UNKNOWN";
    if (band.ranks > 0)
        set_factor(&band, (enum rs_op_type)op);
    return band;
}

struct op_bandwidth op_bandwidth_of(const struct rs_analysis *analysis, const struct rs_job_op *op)
{
    const struct rs_job_op_figures figures = rs_analysis_op_figures(analysis, op);
    return bandwidth_of(
        (struct op_bandwidth){.bytes = figures.bytes,
                              .ranks = op->ranks_expected,
                              .time = figures.longest_ns > 0 ? figures.longest_ns : 0,
                              .transport = figures.transport},
        op->type);
}

struct op_bandwidth op_bandwidth_of_row(const struct rs_row_job_op *row)
{
    return bandwidth_of(
        (struct op_bandwidth){.bytes = row->bytes == RS_NULL ? -1 : row->bytes,
                              .ranks = row->ranks_expected == RS_NULL ? -1 : row->ranks_expected,
                              .time = row->longest_ns > 0 ? row->longest_ns : 0,
                              .transport = row->transport},
        row->op);
}

bool op_bandwidth_has_bus(const struct op_bandwidth *band)
{
    return band->bytes >= 0 && band->time > 0 && band->factor_over > 0;
}

/* Nine digits: the slowest network and the fastest link fit one column. */
static void put_rate(char text[UNIT_TEXT_BYTES], double bytes, rs_dur time)
{
    (void)snprintf(text, UNIT_TEXT_BYTES, "%.9g", time > 0 ? bytes / (double)time : 0);
}

void op_bandwidth_algorithm(char text[UNIT_TEXT_BYTES], const struct op_bandwidth *band)
{
    put_rate(text, (double)band->bytes, band->time);
}

void op_bandwidth_bus(char text[UNIT_TEXT_BYTES], const struct op_bandwidth *band)
{
    put_rate(text,
             band->factor_over
                 ? (double)band->bytes * (double)band->factor / (double)band->factor_over
                 : 0,
             band->time);
}

/* ---- sums ---- */

static int by_kind(const void *a_, const void *b_)
{
    const struct bandwidth_sum *a = a_, *b = b_;
    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    const int group = strcmp(a->group, b->group);
    if (group)
        return group;
    if (a->ranks != b->ranks)
        return a->ranks < b->ranks ? -1 : 1;
    return strcmp(a->transport, b->transport);
}

static int by_time(const void *a_, const void *b_)
{
    const struct bandwidth_sum *a = a_, *b = b_;
    if (a->time != b->time)
        return a->time > b->time ? -1 : 1;
    return by_kind(a_, b_);
}

static void compact(struct bandwidth_sums *sums)
{
    size_t kept = 0;
    if (!sums->count)
        return;
    qsort(sums->items, sums->count, sizeof *sums->items, by_kind);
    for (size_t i = 1; i < sums->count; i++) {
        struct bandwidth_sum *last = &sums->items[kept];
        const struct bandwidth_sum *next = &sums->items[i];
        if (by_kind(last, next) != 0) {
            sums->items[++kept] = *next;
            continue;
        }
        last->count = sum_of(last->count, next->count);
        last->bytes = sum_of(last->bytes, next->bytes);
        last->time = sum_of(last->time, next->time);
        last->is_exact = last->is_exact && next->is_exact;
    }
    sums->count = kept + 1;
}

enum rs_status bandwidth_sums_build(const struct rs_analysis *analysis, struct bandwidth_sums *sums)
{
    size_t compact_at = 4096;
    *sums = (struct bandwidth_sums){0};
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        const struct op_bandwidth band = op_bandwidth_of(analysis, op);
        if (!op_bandwidth_has_bus(&band))
            continue;
        if (rs_mem_grow((void **)&sums->items, &sums->capacity, sums->count + 1,
                        sizeof *sums->items) != RS_OK) {
            rs_mem_free(sums->items);
            *sums = (struct bandwidth_sums){0};
            return RS_NOMEM;
        }
        sums->items[sums->count++] = (struct bandwidth_sum){
            .type = op->type,
            .group = op->group == RS_NO_GROUP || !analysis->groups[op->group].text
                         ? ""
                         : analysis->groups[op->group].text,
            .transport = band.transport,
            .ranks = band.ranks,
            .factor = band.factor,
            .factor_over = band.factor_over,
            .count = 1,
            .bytes = band.bytes,
            .time = band.time,
            .is_exact = op->coverage == RS_COVERAGE_EXACT};
        if (sums->count < compact_at)
            continue;
        compact(sums);
        compact_at = sums->count < 2048 ? 4096 : 2 * sums->count;
    }
    compact(sums);
    if (sums->count)
        qsort(sums->items, sums->count, sizeof *sums->items, by_time);
    return RS_OK;
}
