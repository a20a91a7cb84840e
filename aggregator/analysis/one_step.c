/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One or two steps only: what may be said?
 *
 * What happened in them is known exactly: who came last, and what the others waited for it. Whether it is a
 * habit is not. So at most one finding is given, always with confidence "weak", and it says so.
 *
 * Definition. The rank that was last in more than half of the symmetric operations (at least 4, of at
 * least 3 members), and whose lateness over the second last is 5 % of a step and twice that of any
 * other rank. Lateness of a step is time, not a sum over operations: where two of them wait at once it counts
 * once. The kind is the part of its own time in which it exceeds its peers most; "imbalance" when it
 * does in none.
 *
 * Threshold. With 8 ranks and 8 operations, 5 by chance: below 1 in 100 if operations were independent, which
 * within one step they are not; hence "weak". False alarms accepted: a rank that was late once.
 *
 * Ranks whose work is on the CPU, and who do not tell their CPU time, compete for it: whoever the
 * scheduler left out is late in all operations of a step, by up to a third of it (12 captures of two innocent steps,
 * four ranks on two CPUs: last in all in 1, by 21 and 49 %). There one of two must be true:
 *  - it is last in every operation, and in each step by half of it;
 *  - it waited before its first work, which a scheduler hardly does: at least half of its lateness is that. Then the
 *    longest wait of each step must be for it, and a sixth of the step; operations behind that one begin
 *    anew, and somebody else may be late in them. (A planted sleep as long as half a step or a step: 21 to 75 %.)
 */
#include "aggregator/analysis/findings_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>

enum { OPS_MIN = 4, MEMBERS_MIN = 3 };

struct lateness {
    size_t last;
    rs_dur lead;    /* from the second last's start to its own, where it came last; of all steps */
    rs_dur least;   /* of one step */
    size_t longest; /* steps whose longest wait was for it */
};

/* One operation's wait for its last member. */
struct wait {
    uint32_t summary; /* who came last */
    int64_t step;
    rs_ns from, to;
};

struct waits {
    struct wait *items;
    size_t count; /* operations asked */
    size_t step_count;
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

static void take_wait(const struct rs_analysis *out, const struct rs_job_op *op,
                      struct waits *waits)
{
    struct wait wait = {.step = op->step, .from = RS_NS_MIN, .to = RS_NS_MIN};
    bool is_known = false;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const rs_ns start = row_op(out, r)->start;
        if (start > wait.to) {
            wait.from = wait.to;
            wait.to = start;
        } else if (start > wait.from) {
            wait.from = start;
        }
        if (out->rows[r].rank == op->last_rank) {
            wait.summary = (uint32_t)out->rows[r].summary;
            is_known = true;
        }
    }
    if (is_known) {
        waits->items[waits->count++] = wait;
    }
}

static int by_step(const void *left, const void *right)
{
    const struct wait *a = left, *b = right;
    if (a->step != b->step) {
        return a->step < b->step ? -1 : 1;
    }
    if (a->summary != b->summary) {
        return a->summary < b->summary ? -1 : 1;
    }
    return (a->from > b->from) - (a->from < b->from);
}

/* Waits of one step, sorted: what each rank was late in it. */
static void count_step(const struct wait *items, size_t count, size_t summary_count,
                       struct lateness *all, rs_dur *leads)
{
    rs_ns reached = RS_NS_MIN;
    const struct wait *longest = items;
    for (size_t s = 0; s < summary_count; s++) {
        leads[s] = 0;
    }
    for (size_t i = 0; i < count; i++) {
        const struct wait *wait = &items[i];
        if (i == 0 || items[i - 1].summary != wait->summary) {
            reached = RS_NS_MIN;
        }
        const rs_ns from = wait->from > reached ? wait->from : reached;
        if (wait->to > from) {
            leads[wait->summary] += wait->to - from;
            reached = wait->to;
        }
        if (wait->to - wait->from > longest->to - longest->from) {
            longest = wait;
        }
        all[wait->summary].last++;
    }
    all[longest->summary].longest++;
    for (size_t s = 0; s < summary_count; s++) {
        all[s].lead += leads[s];
        all[s].least = leads[s] < all[s].least ? leads[s] : all[s].least;
    }
}

static enum rs_status count_lateness(const struct rs_analysis *out, struct waits *waits,
                                     struct lateness *all)
{
    waits->items = rs_mem_calloc(out->op_count + 1, sizeof *waits->items);
    rs_dur *leads = rs_mem_calloc(out->summary_count + 1, sizeof *leads);
    if (waits->items == NULL || leads == NULL) {
        rs_mem_free(leads);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < out->op_count; i++) {
        if (is_asked(&out->ops[i])) {
            take_wait(out, &out->ops[i], waits);
        }
    }
    if (waits->count > 0) {
        qsort(waits->items, waits->count, sizeof *waits->items, by_step);
    }
    for (size_t s = 0; s < out->summary_count; s++) {
        all[s].least = RS_NS_MAX;
    }
    for (size_t i = 0; i < waits->count;) {
        size_t end = i + 1;
        while (end < waits->count && waits->items[end].step == waits->items[i].step) {
            end++;
        }
        count_step(waits->items + i, end - i, out->summary_count, all, leads);
        waits->step_count++;
        i = end;
    }
    rs_mem_free(leads);
    return RS_OK;
}

/* The part of its own time in which this rank lies most above its peers. */
static enum rs_status kind_of(const struct figures *fg, size_t summary,
                              enum rs_finding_kind *kind_p, rs_dur *excess_p)
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
    *excess_p = most;
    return RS_OK;
}

/* Ranks that compute on the CPU and tell only how long it took, not how much of it they had. */
static bool compete_for_cpu(const struct figures *fg)
{
    for (size_t r = 0; r < fg->rank_count; r++) {
        const struct rs_summary *summary = fg->analysis->summaries[fg->summaries[r]];
        for (size_t d = 0; d < summary->device_count; d++) {
            if (summary->devices[d].device >= 0) {
                return false;
            }
        }
    }
    return !fg->has_cpu;
}

/* Late enough to be named? See the head of this file. */
static bool is_late(const struct figures *fg, const struct waits *waits, const struct lateness *own,
                    rs_dur second)
{
    return waits->count >= OPS_MIN && own->lead >= second * 2 &&
           own->lead * 20 >= fg->mean_step * (rs_dur)waits->step_count;
}

static bool is_habitual(const struct figures *fg, const struct waits *waits,
                        const struct lateness *own, enum rs_finding_kind kind, rs_dur excess)
{
    const rs_dur mean = own->lead / (rs_dur)waits->step_count;
    if (!compete_for_cpu(fg)) {
        return own->last * 2 > waits->count;
    }
    if (kind == RS_FINDING_DATA_STALL && excess * 2 >= mean) {
        return own->longest == waits->step_count && own->least * 6 >= fg->mean_step;
    }
    return own->last == waits->count && own->least * 2 >= fg->mean_step;
}

static enum rs_status name(const struct figures *fg, size_t summary, const struct lateness *own,
                           const struct waits *waits, enum rs_finding_kind kind,
                           struct verdicts *verdicts)
{
    const struct rs_job_rank *rank = &fg->analysis->ranks[summary];
    const rs_dur cost = own->lead / (rs_dur)waits->step_count;
    struct rs_finding *finding;
    enum rs_status status = verdict_add(verdicts, kind, &finding);
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
        (int)rank->rank, own->last, waits->count, as_ms(own->lead), as_ms(rank->caused_wait));
    return status != RS_OK ? status
                           : verdict_say(finding, "%s only: whether it is a habit cannot be told.",
                                         waits->step_count == 1 ? "One step" : "Two steps");
}

static enum rs_status judge(const struct figures *fg, const struct waits *waits,
                            const struct lateness *all, struct verdicts *verdicts)
{
    const struct rs_analysis *out = fg->analysis;
    size_t worst = 0;
    rs_dur second = 0;
    for (size_t s = 1; s < out->summary_count; s++) {
        worst = all[s].lead > all[worst].lead ? s : worst;
    }
    for (size_t s = 0; s < out->summary_count; s++) {
        second = s != worst && all[s].lead > second ? all[s].lead : second;
    }
    const struct lateness *own = &all[worst];
    enum rs_finding_kind kind;
    rs_dur excess;
    const enum rs_status status = kind_of(fg, worst, &kind, &excess);
    if (status != RS_OK || waits->count == 0) {
        return status;
    }
    if (is_late(fg, waits, own, second) && is_habitual(fg, waits, own, kind, excess)) {
        return name(fg, worst, own, waits, kind, verdicts);
    }
    rs_buf_printf(
        &verdicts->reasons,
        " Most often last: rank %d, in %zu of %zu operations, %.3f ms after the second last in "
        "sum; %zu step%s prove%s no habit.",
        (int)out->ranks[worst].rank, own->last, waits->count, as_ms(own->lead), waits->step_count,
        waits->step_count == 1 ? "" : "s", waits->step_count == 1 ? "s" : "");
    return RS_OK;
}

enum rs_status one_step_ask(const struct figures *fg, struct verdicts *verdicts)
{
    const struct rs_analysis *out = fg->analysis;
    struct lateness *all = rs_mem_calloc(out->summary_count + 1, sizeof *all);
    struct waits waits = {0};
    if (all == NULL) {
        return RS_NOMEM;
    }
    enum rs_status status = count_lateness(out, &waits, all);
    if (status == RS_OK) {
        status = judge(fg, &waits, all, verdicts);
    }
    rs_mem_free(waits.items);
    rs_mem_free(all);
    return status;
}
