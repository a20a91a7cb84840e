/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is there one rank whose own work holds the others up, and which part of it?
 *
 * Definition. Waiting for others happens inside communication; what a rank does besides is its own: computing,
 * gaps before the first work of a step (data, host) and gaps inside. A late rank that was itself made late by
 * an upstream one shows that in its communication, so comparing only the rank's own time names the
 * origin and not those it delayed. Each part is compared among peers (ranks that run the same
 * operations: the data-parallel copies of one pipeline stage):
 *
 *     slow_rank    CPU time of native ranks, which other processes on the core do not lengthen; else computing
 *     data_stall   idle time before the first work of a step
 *     host_gap     idle time inside a step
 *
 * Thresholds, all of which must hold:
 *   - in 4 of 5 steps the excess lies above the noise (excess.c)
 *   - the typical excess is twice the noise and 3 times its own wobble. Measured where it must not
 *     speak: 4 ranks on 2 cores, a 6 ms sleep in steps of 40 ms does not stand out (last 7/7/4/2 of
 *     20); and where it must: 20 ms in steps of 30 ms. With two steps only: 5 times the noise, at least
 *     two peers, and confidence "weak"; with one, one_step.c speaks
 *   - it is 3 % of a step (CPU time: 0.6 %, since on a crowded machine a step is much longer than the CPU
 *     time in it), and for computing 15 % above the peers': below that, machines differ by themselves
 *   - somebody waits for it: in 3 of 5 steps it is the last in the operation that made its group wait most
 *     (or, where another trouble makes the longest waits, it is last more often than any peer and the others'
 *     exposed communication exceeds its own by half of the excess; where clocks cannot be compared: the others' exposed communication exceeds its own by a quarter of the
 *     excess). Not asked of CPU time: that a rank works more than its peers stands by itself, and on a crowded
 *     machine chance decides who is last
 *
 * False alarms accepted: a rank that by design does more than its peers (an uneven partition) is named as
 * slow. Not seen: troubles that move from rank to rank, and slowness shared by all peers.
 */
#include "aggregator/analysis/findings_priv.h"

static const struct question {
    enum figure figure;
    enum rs_finding_kind kind;
    const char *what; /* of the sentences */
    bool is_computing;
} questions[] = {
    {FIGURE_CPU, RS_FINDING_SLOW_RANK, "CPU time of its own operations", true},
    {FIGURE_COMPUTING, RS_FINDING_SLOW_RANK, "computing", true},
    {FIGURE_HEAD, RS_FINDING_DATA_STALL, "waiting for data or host before the first work", false},
    {FIGURE_INSIDE, RS_FINDING_HOST_GAP, "gaps inside the step", false},
};

/* Mean over steps of (the others' mean exposed communication - own). */
static rs_dur others_wait(const struct figures *fg, const struct excess *excess)
{
    rs_dur sum = 0;
    for (size_t k = 0; k < fg->step_count; k++) {
        rs_dur others = 0;
        size_t count = 0;
        for (size_t i = fg->peer_first[excess->class]; i < fg->peer_first[excess->class + 1]; i++) {
            if (fg->peer_order[i] != excess->rank) {
                others += figure_of(fg, fg->peer_order[i], k, FIGURE_EXPOSED);
                count++;
            }
        }
        if (count > 0) {
            sum += others / (rs_dur)count - figure_of(fg, excess->rank, k, FIGURE_EXPOSED);
        }
    }
    return fg->step_count > 0 ? sum / (rs_dur)fg->step_count : 0;
}

static size_t count_last(const struct figures *fg, const struct excess *excess, enum last last)
{
    size_t count = 0;
    for (size_t k = 0; k < fg->step_count; k++) {
        count += fg->was_last[excess->rank * fg->step_count + k] == (uint8_t)last;
    }
    return count;
}

/* Last in more operations than any of its peers? */
static bool is_last_most(const struct figures *fg, const struct excess *excess)
{
    const struct rs_job_rank *ranks = fg->analysis->ranks;
    const int64_t own = ranks[fg->summaries[excess->rank]].ops_last;
    for (size_t i = fg->peer_first[excess->class]; i < fg->peer_first[excess->class + 1]; i++) {
        const size_t peer = fg->peer_order[i];
        if (peer != excess->rank && ranks[fg->summaries[peer]].ops_last >= own) {
            return false;
        }
    }
    return true;
}

static bool is_waited_for(const struct figures *fg, const struct excess *excess, rs_dur waited)
{
    if (count_last(fg, excess, LAST_UNKNOWN) == fg->step_count) {
        return waited * 4 >= excess->typical;
    }
    return count_last(fg, excess, LAST_SELF) * 5 >= fg->step_count * 3 ||
           (waited * 2 >= excess->typical && is_last_most(fg, excess));
}

/* Two steps of two ranks: which of them is the odd one cannot be told from them. */
static bool is_told_by_enough(const struct figures *fg, const struct excess *excess)
{
    const size_t ranks = fg->peer_first[excess->class + 1] - fg->peer_first[excess->class];
    return fg->step_count >= STEPS_FOR_A_HABIT || ranks > 2;
}

static bool stands_out(const struct figures *fg, const struct question *question,
                       const struct excess *excess, rs_dur waited)
{
    if (!is_told_by_enough(fg, excess)) {
        return false;
    }
    const bool is_habit = excess->hits * 5 >= fg->step_count * 4;
    const rs_dur floor = excess->noise * (fg->step_count < STEPS_FOR_A_HABIT ? 5 : 2);
    const bool is_clear = excess->typical >= floor && excess->typical >= excess->wobble * 3;
    const bool matters =
        excess->typical * (question->figure == FIGURE_CPU ? 500 : 100) >= fg->mean_step * 3;
    const bool is_more_work =
        !question->is_computing || excess->typical * 100 >= excess->peers_typical * 15;
    return is_habit && is_clear && matters && is_more_work &&
           (question->figure == FIGURE_CPU || is_waited_for(fg, excess, waited));
}

static enum rs_status name(const struct figures *fg, const struct question *question,
                           const struct excess *excess, rs_dur waited, struct verdicts *verdicts)
{
    const struct rs_job_rank *rank = &fg->analysis->ranks[fg->summaries[excess->rank]];
    const size_t peers = fg->peer_first[excess->class + 1] - fg->peer_first[excess->class] - 1;
    struct rs_finding *finding;
    enum rs_status status = verdict_add(verdicts, question->kind, &finding);
    if (status != RS_OK) {
        return status;
    }
    finding->where = RS_WHERE_RANK;
    finding->rank = rank->rank;
    if (fg->step_count < STEPS_FOR_A_HABIT) {
        finding->confidence = RS_CONFIDENCE_WEAK;
    }
    finding->cost_ns_per_step = excess->mean > 0 ? excess->mean : excess->typical;
    finding->share =
        fg->mean_step > 0 ? (double)finding->cost_ns_per_step / (double)fg->mean_step : 0;
    status =
        verdict_say(finding,
                    "Rank %d: %s takes %.2f ms a step, %.2f ms more than the %zu rank%s that "
                    "do%s the same work (median %.2f ms).",
                    (int)rank->rank, question->what, as_ms(excess->peers_typical + excess->typical),
                    as_ms(excess->typical), peers, peers == 1 ? "" : "s", peers == 1 ? "es" : "",
                    as_ms(excess->peers_typical));
    if (status == RS_OK) {
        status =
            verdict_say(finding,
                        "So in %zu of %zu steps; 95 %% of the others' own deviations stay below "
                        "%.2f ms.",
                        excess->hits, fg->step_count, as_ms(excess->noise));
    }
    if (status == RS_OK && waited > 0) {
        status = verdict_say(finding,
                             "The others spend %.2f ms a step more in communication that nothing "
                             "covers.",
                             as_ms(waited));
    }
    if (status == RS_OK && rank->ops_last > 0) {
        status =
            verdict_say(finding,
                        "It was the last to arrive in %lld operations, in which the others "
                        "waited %.2f ms in sum; in %zu of %zu steps in the one that made its group "
                        "wait most.",
                        (long long)rank->ops_last, as_ms(rank->caused_wait),
                        count_last(fg, excess, LAST_SELF), fg->step_count);
    }
    return status;
}

static void say_not(const struct figures *fg, const struct question *question,
                    const struct excess *excess, struct verdicts *verdicts)
{
    rs_buf_printf(
        &verdicts->reasons,
        " Most %s: rank %d, %.2f ms a step above its peers (%.1f %% of a step; above the noise "
        "of %.2f ms in %zu of %zu steps; last to arrive in %zu).",
        question->what, (int)fg->analysis->ranks[fg->summaries[excess->rank]].rank,
        as_ms(excess->typical), as_percent((double)excess->typical, (double)fg->mean_step),
        as_ms(excess->noise), excess->hits, fg->step_count, count_last(fg, excess, LAST_SELF));
}

static enum rs_status ask(const struct figures *fg, const struct question *question,
                          struct verdicts *verdicts)
{
    struct excess most = {0};
    bool has_most = false;
    for (uint32_t class = 0; class < fg->peer_classes; class ++) {
        struct excess excess;
        bool found;
        enum rs_status status = excess_find(fg, class, question->figure, &found, &excess);
        if (status != RS_OK) {
            return status;
        }
        if (!found) {
            continue;
        }
        const rs_dur waited = others_wait(fg, &excess);
        if (stands_out(fg, question, &excess, waited)) {
            status = name(fg, question, &excess, waited, verdicts);
            if (status != RS_OK) {
                return status;
            }
        }
        if (!has_most || excess.typical > most.typical) {
            most = excess;
            has_most = true;
        }
    }
    if (has_most) {
        say_not(fg, question, &most, verdicts);
    }
    return RS_OK;
}

enum rs_status slow_rank_ask(const struct figures *fg, struct verdicts *verdicts)
{
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        const enum figure figure = questions[i].figure;
        if ((figure == FIGURE_CPU && !fg->has_cpu) || (figure == FIGURE_COMPUTING && fg->has_cpu)) {
            continue;
        }
        const enum rs_status status = ask(fg, &questions[i], verdicts);
        if (status != RS_OK) {
            return status;
        }
    }
    return RS_OK;
}
