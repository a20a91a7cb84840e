/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order do operations stand, and what number does each bear?
 *
 * Seq counts a group's matched collectives from 0 in the order of its members' calls (point-to-point: per
 * pair, given by p2p.c). OpId is the place in the order of (Step, Group by bytes with the empty
 * one first, Seq with the empty one first, first member's rank, second's, start).
 */
#include "aggregator/analysis/analysis_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

struct order_key {
    int64_t step, seq;
    size_t group; /* place of its text; 0 empty */
    int32_t first, second;
    rs_ns start;
    size_t index;
};

struct seq_key {
    uint32_t group;
    rs_ns place; /* as matched; over several units of one group: earliest start */
    size_t index;
};

static int compare_seq(const void *left, const void *right)
{
    const struct seq_key *a = left, *b = right;
    if (a->group != b->group) {
        return a->group > b->group ? 1 : -1;
    }
    if (a->place != b->place) {
        return a->place > b->place ? 1 : -1;
    }
    return (a->index > b->index) - (a->index < b->index);
}

static rs_ns earliest_start(const struct join *join, const struct rs_job_op *op)
{
    rs_ns earliest = RS_NS_MAX;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct rs_job_row *row = &join->out->rows[r];
        const rs_ns start =
            join_time(join, row->summary, join_op(join, row->summary, row->op_index)->start);
        earliest = start < earliest ? start : earliest;
    }
    return earliest;
}

static enum rs_status number_collectives(struct join *join)
{
    struct rs_analysis *out = join->out;
    struct seq_key *keys = rs_mem_calloc(out->op_count + 1, sizeof *keys);
    uint32_t *units = rs_mem_calloc(out->group_count + 1, sizeof *units);
    if (keys == NULL || units == NULL) {
        rs_mem_free(keys);
        rs_mem_free(units);
        return RS_NOMEM;
    }
    for (size_t u = 0; u < join->unit_count; u++) {
        if (join->units[u].group != RS_NO_GROUP && join->units[u].member_count > 0) {
            units[join->units[u].group]++;
        }
    }
    size_t count = 0;
    for (size_t i = 0; i < out->op_count; i++) {
        const struct rs_job_op *op = &out->ops[i];
        if (op->is_matched && !op->is_p2p) {
            const bool is_single = op->group != RS_NO_GROUP && units[op->group] < 2;
            keys[count++] =
                (struct seq_key){op->group, is_single ? op->seq : earliest_start(join, op), i};
        }
    }
    qsort(keys, count, sizeof *keys, compare_seq);
    int64_t seq = 0;
    for (size_t k = 0; k < count; k++) {
        seq = k > 0 && keys[k].group == keys[k - 1].group ? seq + 1 : 0;
        out->ops[keys[k].index].seq = seq;
    }
    rs_mem_free(keys);
    rs_mem_free(units);
    return RS_OK;
}

struct named {
    const char *text;
    size_t group;
};

static int compare_texts(const void *left, const void *right)
{
    const struct named *a = left, *b = right;
    const int order = strcmp(a->text, b->text);
    return order != 0 ? order : (a->group > b->group) - (a->group < b->group);
}

/* [group] -> its place by text, from 1. Caller frees. */
static size_t *places_of_groups(const struct rs_analysis *out)
{
    struct named *sorted = rs_mem_calloc(out->group_count + 1, sizeof *sorted);
    size_t *places = rs_mem_calloc(out->group_count + 1, sizeof *places);
    if (sorted == NULL || places == NULL) {
        rs_mem_free(sorted);
        rs_mem_free(places);
        return NULL;
    }
    for (size_t g = 0; g < out->group_count; g++) {
        sorted[g] = (struct named){out->groups[g].text, g};
    }
    qsort(sorted, out->group_count, sizeof *sorted, compare_texts);
    for (size_t k = 0; k < out->group_count; k++) {
        places[sorted[k].group] = k + 1;
    }
    rs_mem_free(sorted);
    return places;
}

static int compare_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_keys(const void *left, const void *right)
{
    const struct order_key *a = left, *b = right;
    int order = compare_i64(a->step, b->step);
    order = order != 0 ? order : (a->group > b->group) - (a->group < b->group);
    order = order != 0 ? order : compare_i64(a->seq, b->seq);
    order = order != 0 ? order : compare_i64(a->first, b->first);
    order = order != 0 ? order : compare_i64(a->second, b->second);
    order = order != 0 ? order : compare_i64(a->start, b->start);
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

/* The step of the lowest member that is inside one. */
static int64_t step_of(const struct join *join, const struct rs_job_op *op)
{
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct rs_job_row *row = &join->out->rows[r];
        const int64_t step = join_op(join, row->summary, row->op_index)->step;
        if (step != RS_STEP_NONE) {
            return step;
        }
    }
    return RS_STEP_NONE;
}

static struct order_key key_of(const struct join *join, size_t index, const size_t *places)
{
    const struct rs_job_op *op = &join->out->ops[index];
    const struct rs_job_row *rows = &join->out->rows[op->row_first];
    return (struct order_key){
        .step = op->step,
        .seq = op->is_matched ? op->seq : -1,
        .group = op->group != RS_NO_GROUP ? places[op->group] : 0,
        .first = rows[0].rank,
        .second = op->row_count > 1 ? rows[1].rank : -1,
        .start = join_op(join, rows[0].summary, rows[0].op_index)->start,
        .index = index,
    };
}

static void permute(struct rs_analysis *out, const struct order_key *keys, struct rs_job_op *ops,
                    struct rs_job_row *rows)
{
    size_t row = 0;
    for (size_t k = 0; k < out->op_count; k++) {
        ops[k] = out->ops[keys[k].index];
        memcpy(&rows[row], &out->rows[ops[k].row_first], ops[k].row_count * sizeof *rows);
        ops[k].row_first = row;
        row += ops[k].row_count;
    }
}

enum rs_status order_ops(struct join *join)
{
    struct rs_analysis *out = join->out;
    if (number_collectives(join) != RS_OK) {
        return RS_NOMEM;
    }
    size_t *places = places_of_groups(out);
    struct order_key *keys = rs_mem_calloc(out->op_count + 1, sizeof *keys);
    struct rs_job_op *ops = rs_mem_calloc(out->op_count + 1, sizeof *ops);
    struct rs_job_row *rows = rs_mem_calloc(out->row_count + 1, sizeof *rows);
    if (places == NULL || keys == NULL || ops == NULL || rows == NULL) {
        rs_mem_free(places);
        rs_mem_free(keys);
        rs_mem_free(ops);
        rs_mem_free(rows);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < out->op_count; i++) {
        out->ops[i].step = step_of(join, &out->ops[i]);
        out->ops[i].seq = out->ops[i].is_matched ? out->ops[i].seq : -1;
        keys[i] = key_of(join, i, places);
    }
    qsort(keys, out->op_count, sizeof *keys, compare_keys);
    permute(out, keys, ops, rows);
    rs_mem_free(places);
    rs_mem_free(keys);
    rs_mem_free(out->ops);
    rs_mem_free(out->rows);
    out->ops = ops;
    out->rows = rows;
    return RS_OK;
}
