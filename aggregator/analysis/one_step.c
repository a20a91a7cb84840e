/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One or two steps only: what may be said?
 *
 * What happened in them is known exactly: who came last, and what the others waited for it. Whether it is a
 * habit is not. So at most one finding is given, always with confidence "weak", and it says so.
 *
 * Definition. The rank that was last in more than half of the symmetric operations (at least 4, of at
 * least 3 members), and whose lateness over the second last, summed, is 5 % of a step and twice that of any
 * other rank. The kind is the part of its own time in which it exceeds its peers most; "imbalance" when it
 * does in none.
 *
 * Threshold. With 8 ranks and 8 operations, 5 by chance: below 1 in 100 if operations were independent, which
 * within one step they are not; hence "weak". False alarms accepted: a rank that was late once.
 */
#include "aggregator/analysis/findings_priv.h"
#include "common/base/mem.h"

enum { OPS_MIN = 4, MEMBERS_MIN = 3 };

struct lateness {
    size_t last;
    rs_dur lead; /* sum of (own start - second last start) where it came last */
};

static const struct rs_comm_op *row_op(const struct rs_analysis *out, size_t row)
{
    return &out->summaries[out->rows[row].summary]->ops[out->rows[row].op_index];
}

static bool is_asked(const struct rs_job_op *op)
{
    return op->is_matched && op->has_wait && op->coverage == RS_COVERAGE_EXACT && !op->is_p2p &&
           op->row_count >= MEMBERS_MIN &&
           rs_op_type_dependency((enum rs_op_type)op->type) == RS_DEPENDS_ALL;
}

static size_t count_lateness(const struct rs_analysis *out, struct lateness *all)
{
    size_t asked = 0;
    for (size_t i = 0; i < out->op_count; i++) {
        const struct rs_job_op *op = &out->ops[i];
        rs_ns last = RS_NS_MIN, second = RS_NS_MIN;
        struct lateness *own = NULL;
        if (!is_asked(op)) {
            continue;
        }
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
            const rs_ns start = row_op(out, r)->start;
            if (start > last) {
                second = last;
                last = start;
            } else if (start > second) {
                second = start;
            }
            if (out->rows[r].rank == op->last_rank) {
                own = &all[out->rows[r].summary];
            }
        }
        if (own != NULL) {
            own->last++;
            own->lead += last - second;
        }
        asked++;
    }
    return asked;
}

/* The part of its own time in which this rank lies most above its peers. */
static enum rs_status kind_of(const struct figures *fg, size_t summary,
                              enum rs_finding_kind *kind_p)
{
    static const struct {
        enum figure figure;
        enum rs_finding_kind kind;
    } parts[] = {
        {FIGURE_COMPUTING, RS_FINDING_SLOW_RANK},
        {FIGURE_HEAD, RS_FINDING_DATA_STALL},
        {FIGURE_INSIDE, RS_FINDING_HOST_GAP},
    };
    rs_dur most = 0;
    *kind_p = RS_FINDING_IMBALANCE;
    for (size_t r = 0; r < fg->rank_count; r++) {
        for (size_t i = 0; i < sizeof parts / sizeof parts[0] && fg->summaries[r] == summary; i++) {
            struct excess excess;
            const enum rs_status status = excess_of(fg, r, parts[i].figure, &excess);
            if (status != RS_OK) {
                return status;
            }
            if (excess.typical > most) {
                most = excess.typical;
                *kind_p = parts[i].kind;
            }
        }
    }
    return RS_OK;
}

static enum rs_status name(const struct figures *fg, size_t summary, const struct lateness *own,
                           size_t asked, struct verdicts *verdicts)
{
    const struct rs_job_rank *rank = &fg->analysis->ranks[summary];
    const rs_dur cost = own->lead / (rs_dur)fg->step_count;
    enum rs_finding_kind kind;
    struct rs_finding *finding;
    enum rs_status status = kind_of(fg, summary, &kind);
    if (status == RS_OK) {
        status = verdict_add(verdicts, kind, &finding);
    }
    if (status != RS_OK) {
        return status;
    }
    finding->where = RS_WHERE_RANK;
    finding->rank = rank->rank;
    finding->cost_ns_per_step = cost;
    finding->share = (double)cost / (double)fg->mean_step;
    finding->confidence = RS_CONFIDENCE_WEAK;
    status = verdict_say(
        finding,
        "Rank %d was the last to arrive in %zu of %zu operations, %.3f ms after the second "
        "last in sum; the others waited %.3f ms in sum.",
        (int)rank->rank, own->last, asked, as_ms(own->lead), as_ms(rank->caused_wait));
    return status != RS_OK ? status
                           : verdict_say(finding, "%s only: whether it is a habit cannot be told.",
                                         fg->step_count == 1 ? "One step" : "Two steps");
}

enum rs_status one_step_ask(const struct figures *fg, struct verdicts *verdicts)
{
    const struct rs_analysis *out = fg->analysis;
    struct lateness *all = rs_mem_calloc(out->summary_count + 1, sizeof *all);
    if (all == NULL) {
        return RS_NOMEM;
    }
    const size_t asked = count_lateness(out, all);
    size_t worst = 0;
    rs_dur second = 0;
    for (size_t s = 1; s < out->summary_count; s++) {
        worst = all[s].lead > all[worst].lead ? s : worst;
    }
    for (size_t s = 0; s < out->summary_count; s++) {
        second = s != worst && all[s].lead > second ? all[s].lead : second;
    }
    const struct lateness *own = &all[worst];
    enum rs_status status = RS_OK;
    if (asked >= OPS_MIN && own->last * 2 > asked && own->lead >= second * 2 &&
        own->lead * 20 >= fg->mean_step * (rs_dur)fg->step_count) {
        status = name(fg, worst, own, asked, verdicts);
    } else if (asked > 0) {
        rs_buf_printf(
            &verdicts->reasons,
            " Most often last: rank %d, in %zu of %zu operations, %.3f ms after the second last in "
            "sum; %zu step%s prove%s no habit.",
            (int)out->ranks[worst].rank, own->last, asked, as_ms(own->lead), fg->step_count,
            fg->step_count == 1 ? "" : "s", fg->step_count == 1 ? "s" : "");
    }
    rs_mem_free(all);
    return status;
}
