/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waited for whom, and how long?
 *
 * For member i with the starts D(i) that it depends on (contracts section 5):
 *
 *     wait     = clamp(max start over D(i) - start, 0, end - start)
 *     transfer = (end - start) - wait
 *
 *   batches with several peers: everybody needs its own partners
 *   all_reduce, all_gather, reduce_scatter, all_to_all, barrier, send_recv: everybody needs all
 *   broadcast, scatter: everybody needs the root
 *   reduce, gather: the root needs all, the others nobody
 *   recv needs its send; a send needs its recv on devices (rendezvous), not on the host
 *
 * LastRank is the member that starts last among those anyone needs; ties: the lowest rank. Members
 * missing: Wait is a lower bound (LastRank empty). Members whose clocks could not be aligned: nothing is said; where they were, nothing
 * that is smaller than what they are known to.
 */
#include "aggregator/analysis/analysis_priv.h"
#include "aggregator/analysis/batch.h"

struct members {
    const struct join *join;
    struct rs_job_op *op;
    struct rs_job_row *rows;
};

static const struct rs_comm_op *own(const struct members *ms, size_t i)
{
    return join_op(ms->join, ms->rows[i].summary, ms->rows[i].op_index);
}

/* When member i starts, on the reference's clock. */
static rs_ns start_of(const struct members *ms, size_t i)
{
    return join_time(ms->join, ms->rows[i].summary, own(ms, i)->start);
}

#define NOBODY SIZE_MAX

/* What member i waited for `needed` (NOBODY: it needs no one). Below what their clocks are known to, nothing is said. */
static void set_wait(const struct members *ms, size_t i, size_t needed)
{
    struct rs_job_row *row = &ms->rows[i];
    const struct rs_comm_op *op = own(ms, i);
    const rs_dur length = op->end - op->start;
    const rs_ns start = start_of(ms, i);
    const rs_ns from = needed == NOBODY ? start : start_of(ms, needed);
    const rs_dur bound =
        needed == NOBODY ? 0 : join_bound(ms->join, row->summary, ms->rows[needed].summary);
    rs_dur wait = from > start ? from - start : 0;
    row->has_wait = bound == 0 || wait >= bound || start - from >= bound;
    wait = wait < length ? wait : length;
    row->wait = wait;
    row->transfer = length - wait;
}

/* Index of the member that starts last; rows come by rank, so ties fall to the lowest. */
static size_t last_to_start(const struct members *ms)
{
    size_t last = 0;
    for (size_t i = 1; i < ms->op->row_count; i++) {
        if (start_of(ms, i) > start_of(ms, last)) {
            last = i;
        }
    }
    return last;
}

/* Its rank, if it started later than every other by more than their clocks may be off; else -1. */
static int32_t last_rank_of(const struct members *ms, size_t last)
{
    for (size_t i = 0; i < ms->op->row_count; i++) {
        const rs_dur bound = join_bound(ms->join, ms->rows[i].summary, ms->rows[last].summary);
        if (i != last && bound > 0 && start_of(ms, last) - start_of(ms, i) < bound) {
            return -1;
        }
    }
    return ms->rows[last].rank;
}

static int32_t global_root(const struct members *ms, size_t i)
{
    const struct rs_comm_op *op = own(ms, i);
    return (op->flags & RS_OP_ROOT_IN_GROUP) != 0
               ? group_global_rank(ms->join, ms->rows[i].summary, op, ms->op->group, op->root)
               : op->root;
}

/* Index of the root's row; SIZE_MAX when no member names it or it is not here. */
static size_t root_row(const struct members *ms)
{
    for (size_t i = 0; i < ms->op->row_count; i++) {
        const int32_t root = global_root(ms, i);
        for (size_t k = 0; root >= 0 && k < ms->op->row_count; k++) {
            if (ms->rows[k].rank == root) {
                return k;
            }
        }
        if (root >= 0) {
            break;
        }
    }
    return SIZE_MAX;
}

static void wait_for_all(const struct members *ms)
{
    const size_t last = last_to_start(ms);
    for (size_t i = 0; i < ms->op->row_count; i++) {
        set_wait(ms, i, last);
    }
    ms->op->last_rank = last_rank_of(ms, last);
}

static bool is_of_batches(const struct members *ms)
{
    for (size_t i = 0; i < ms->op->row_count && ms->op->is_p2p; i++) {
        if (batch_has_peers(own(ms, i))) {
            return true;
        }
    }
    return false;
}

static void wait_for_partners(const struct members *ms)
{
    for (size_t i = 0; i < ms->op->row_count; i++) {
        set_wait(ms, i, batch_last_partner(ms->join, ms->op, i));
    }
    ms->op->last_rank = last_rank_of(ms, last_to_start(ms));
}

static void wait_for_nobody(const struct members *ms)
{
    for (size_t i = 0; i < ms->op->row_count; i++) {
        set_wait(ms, i, NOBODY);
    }
}

static void wait_with_root(const struct members *ms, bool root_waits)
{
    const size_t root = root_row(ms);
    wait_for_nobody(ms);
    if (root == SIZE_MAX) { /* nobody knows for whom: lower bounds */
        ms->op->coverage = RS_COVERAGE_PARTIAL;
        return;
    }
    if (root_waits) {
        const size_t last = last_to_start(ms);
        set_wait(ms, root, last);
        ms->op->last_rank = last_rank_of(ms, last);
        return;
    }
    for (size_t i = 0; i < ms->op->row_count; i++) {
        set_wait(ms, i, root);
    }
    ms->op->last_rank = ms->rows[root].rank;
}

static void wait_for_peer(const struct members *ms)
{
    for (size_t i = 0; i < ms->op->row_count; i++) {
        const struct rs_comm_op *op = own(ms, i);
        const bool depends = op->type == RS_OP_RECV || (op->flags & RS_OP_ON_DEVICE) != 0;
        set_wait(ms, i, depends ? 1 - i : NOBODY);
    }
    ms->op->last_rank = last_rank_of(ms, last_to_start(ms));
}

static void wait_of(const struct members *ms)
{
    if (is_of_batches(ms)) {
        wait_for_partners(ms);
        return;
    }
    switch (rs_op_type_dependency((enum rs_op_type)ms->op->type)) {
    case RS_DEPENDS_ALL:
        wait_for_all(ms);
        break;
    case RS_DEPENDS_ROOT:
        wait_with_root(ms, false);
        break;
    case RS_DEPENDS_TO_ROOT:
        wait_with_root(ms, true);
        break;
    case RS_DEPENDS_SEND:
    case RS_DEPENDS_RECV:
        wait_for_peer(ms);
        break;
    case RS_DEPENDS_NONE:
        wait_for_nobody(ms);
        break;
    }
}

static int64_t expected_ranks(const struct join *join, const struct rs_job_op *op)
{
    if (op->is_p2p) {
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
            const struct rs_job_row *row = &join->out->rows[r];
            if (join_op(join, row->summary, row->op_index)->peer >= 0) {
                return 2; /* one end is enough to know the pair */
            }
        }
        return -1;
    }
    if (op->group == RS_NO_GROUP || join->out->groups[op->group].size <= 0) {
        return -1;
    }
    return join->out->groups[op->group].size;
}

static enum rs_status wait_one(struct join *join, struct rs_job_op *op)
{
    struct members ms = {join, op, &join->out->rows[op->row_first]};
    op->ranks_expected = expected_ranks(join, op);
    if (is_of_batches(&ms) && batch_ranks_of(join, op, &op->ranks_expected) != RS_OK) {
        return RS_NOMEM;
    }
    op->last_rank = -1;
    op->has_wait = true;
    op->coverage = op->is_matched && op->ranks_expected == (int64_t)op->row_count
                       ? RS_COVERAGE_EXACT
                       : RS_COVERAGE_PARTIAL;
    if (!op->is_matched) {
        wait_for_nobody(&ms);
    } else if (clock_crosses(join, op)) {
        wait_for_nobody(&ms);
        op->has_wait = false;
    } else {
        wait_of(&ms);
    }
    if (op->coverage == RS_COVERAGE_PARTIAL) {
        op->last_rank = -1;
    }
    for (size_t i = 0; i < op->row_count; i++) {
        const bool is_unfinished = (own(&ms, i)->flags & RS_OP_UNFINISHED) != 0;
        ms.rows[i].has_wait = ms.rows[i].has_wait && op->has_wait;
        ms.rows[i].has_transfer = !is_unfinished;
        ms.rows[i].is_partial = is_unfinished || op->coverage == RS_COVERAGE_PARTIAL;
    }
    return RS_OK;
}

/* The step row that an operation of this summary belongs to; SIZE_MAX none. Rows are few, in time order. */
static size_t step_row_of(const struct rs_summary *summary, const struct rs_comm_op *op)
{
    size_t same_step = SIZE_MAX;
    for (size_t i = 0; i < summary->step_count; i++) {
        if (summary->steps[i].step != op->step) {
            continue;
        }
        if (summary->steps[i].device == op->device) {
            return i;
        }
        same_step = same_step == SIZE_MAX ? i : same_step;
    }
    return same_step;
}

static void count_row(struct join *join, const struct rs_job_op *op, const struct rs_job_row *row)
{
    struct rs_analysis *out = join->out;
    struct rs_job_rank *rank = &out->ranks[row->summary];
    if (!row->has_wait) {
        return;
    }
    rank->own_wait = join_sum(rank->own_wait, row->wait);
    if (op->is_p2p && row->wait > 0) {
        const size_t step =
            step_row_of(out->summaries[row->summary], join_op(join, row->summary, row->op_index));
        rank->p2p_wait = join_sum(rank->p2p_wait, row->wait);
        if (step != SIZE_MAX) {
            rs_dur *of_step = &out->step_p2p_wait[rank->step_base + step];
            *of_step = join_sum(*of_step, row->wait);
        }
    }
}

/* Of a batch: the partner that a row waited for; -1 nobody. */
static int32_t rank_waited_for(const struct join *join, const struct rs_job_op *op, size_t row)
{
    const size_t at = batch_last_partner(join, op, row);
    return at == NOBODY ? -1 : join->out->rows[op->row_first + at].rank;
}

/* Who came last, and what the others waited for it. */
static void count_last(struct join *join, const struct rs_job_op *op)
{
    struct rs_analysis *out = join->out;
    struct rs_job_rank *last = NULL;
    rs_dur others = 0;
    if (op->last_rank < 0 || op->row_count < 2 ||
        rs_op_type_dependency((enum rs_op_type)op->type) != RS_DEPENDS_ALL) {
        return;
    }
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const bool is_partner = op->row_count == 2 || !op->is_p2p ||
                                rank_waited_for(join, op, r - op->row_first) == op->last_rank;
        if (out->rows[r].rank == op->last_rank) {
            last = &out->ranks[out->rows[r].summary];
        } else if (out->rows[r].has_wait && is_partner) {
            others = join_sum(others, out->rows[r].wait);
        }
    }
    if (last != NULL) {
        last->ops_last++;
        last->caused_wait = join_sum(last->caused_wait, others);
    }
}

enum rs_status wait_all(struct join *join)
{
    struct rs_analysis *out = join->out;
    for (size_t i = 0; i < out->op_count; i++) {
        struct rs_job_op *op = &out->ops[i];
        if (wait_one(join, op) != RS_OK) {
            return RS_NOMEM;
        }
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
            count_row(join, op, &out->rows[r]);
        }
        count_last(join, op);
    }
    return RS_OK;
}
