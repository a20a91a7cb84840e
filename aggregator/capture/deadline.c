/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What time moves: who is given up, and when what waits has its turn.
 */
#include "aggregator/capture/coord_priv.h"

#define RS_LOG_TAG "capture"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

/* A collector of ranks whose profiler writes files knows its deadline and tells its end; this much later it is not believed
 * any more. */
static const rs_dur files_grace_ns = 30 * (rs_dur)RS_NS_PER_S;
static const rs_dur files_patience_ns = 600 * (rs_dur)RS_NS_PER_S; /* deadline not known */
static const rs_dur queue_poll_ns = RS_NS_PER_S / 4;
/* Every message of thousands of ranks asks for a tick, and deadlines are seconds away: what may bring one forward (a link is gone, a process
 * has ended, it comes near its start) is seen so much later at most. */
static const rs_dur look_every_ns = RS_NS_PER_S;
/* A rank whose collector says that it holds the capture before would refuse the next one: parsing and packing a large result takes long. A
 * collector that never says otherwise holds nobody up for ever. */
static const rs_dur packed_after_ns = 120 * (rs_dur)RS_NS_PER_S;
/* However often a rank says that it has yet to find its step out. */
static const rs_dur arming_max_ns = 240 * (rs_dur)RS_NS_PER_S;

static void lose(struct rs_coord_capture *capture, struct rs_coord_rank *rank, const char *text,
                 rs_ns now)
{
    member_move(capture, rank, RS_PROGRESS_LOST, text, now);
}

/* With what its collector last had to say of it. */
static void lose_silent(struct rs_coord_capture *capture, struct rs_coord_rank *rank,
                        const char *why, rs_ns now)
{
    char text[RS_COORD_REASON_BYTES];
    (void)member_set_unreachable(capture, rank, false, 0, 0); /* it is said in other words now */
    (void)snprintf(text, sizeof text, "%s%s%.300s", why, *rank->text ? ": " : "", rank->text);
    lose(capture, rank, text, now);
}

static rs_ns later(rs_ns a, rs_ns b)
{
    return a > b ? a : b;
}

/* From the step it is in to the start: as long as its steps are, a month at most. */
static rs_dur way_to_start(const struct rs_coord_capture *capture, const struct rs_coord_seen *seen)
{
    const rs_dur month = (rs_dur)30 * 86400 * RS_NS_PER_S;
    const int64_t steps = seen ? capture->start_step - seen->step : 0;
    if (steps <= 0 || seen->step_duration_ns <= 0)
        return 0;
    return steps < month / seen->step_duration_ns ? steps * seen->step_duration_ns : month;
}

/* Ranks whose profiler writes files. */
static rs_ns files_give_up_at(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                              const struct rs_coord_rank *rank, const struct rs_coord_seen *seen,
                              const char **why_p)
{
    const rs_ns moved = later(rank->moved_at, seen ? seen->back_ns : 0);
    const rs_ns back = later(moved, seen ? seen_back_at(coord, seen) : 0);
    if (seen && !*seen->capture && rank->state < RS_PROGRESS_SENDING &&
        seen_link_at(coord, seen) > back + coord->options.gone_ns / 3) {
        *why_p = "its collector was started again in the middle and does not know of it; its "
                 "trace, if one is written, stays in the collector's trace folder";
        return back + coord->options.gone_ns;
    }
    *why_p = "nothing came from it in time";
    rs_dur timeout = capture->profile.timeout_ns ? capture->profile.timeout_ns : files_patience_ns;
    /* It may have far to go to its start. */
    if (seen && seen->step >= 0)
        timeout += 2 * way_to_start(capture, seen);
    return later(moved, capture->committed_at + timeout) + files_grace_ns;
}

/* Ranks that send what they record while they record it. */
static rs_ns live_give_up_at(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                             const struct rs_coord_rank *rank, const struct rs_coord_seen *seen,
                             const char **why_p)
{
    /* Whoever comes back has things to send first. */
    const rs_ns moved = later(rank->moved_at, seen ? seen->back_ns : 0);
    if (capture->request && capture->request->timeout_ms) {
        *why_p = "it did not finish in time";
        return later(moved,
                     capture->committed_at + (rs_dur)capture->request->timeout_ms * RS_NS_PER_MS);
    }
    const rs_ns since =
        later(later(moved, capture->committed_at), seen ? seen_back_at(coord, seen) : 0);
    if (seen && !*seen->capture && rank->state < RS_PROGRESS_SENDING &&
        seen_link_at(coord, seen) > since + coord->options.gone_ns / 3) {
        *why_p = "its collector was started again in the middle and does not know of it";
        return since + coord->options.gone_ns / 3; /* the next capture of its node waits */
    }
    *why_p = "it stayed silent";
    /* An armed rank may have far to go to the start step. */
    rs_dur patience = coord->options.silence_ns;
    patience += 4 * way_to_start(capture, seen);
    if (rank->step_duration_ns > 0)
        patience += 20 * rank->step_duration_ns;
    return moved + patience;
}

/* Who was told to begin may have all that was asked for. A user who stops the capture wants no more of that. */
static bool is_waited_for(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                          const struct rs_coord_seen *seen)
{
    return capture->committed_at && !capture->was_stopped && seen_is_unreachable(coord, seen);
}

/* When this rank will be given up, if nothing comes; and why. */
static rs_ns give_up_at(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                        struct rs_coord_rank *rank, const char **why_p)
{
    const struct rs_coord_seen *seen = seen_of(coord, capture, rank);
    if (seen && is_waited_for(coord, capture, seen)) {
        *why_p = "its collector did not come back";
        return later(seen->last_seen_ns, rank->moved_at) + coord->options.unreachable_ns;
    }
    if (seen && !seen->link) {
        *why_p = "its collector is gone";
        return later(seen->last_seen_ns, rank->moved_at) + coord->options.gone_ns;
    }
    if (seen && seen->state == RS_RANK_GONE) {
        *why_p = "its process ended and nothing more came from it";
        return rank->moved_at + coord->options.gone_ns;
    }
    /* After a restart of this process only the collector knows the adapter. */
    const struct rs_adapter *adapter = seen ? &seen->adapter : &rank->adapter;
    return adapter_can(adapter, RS_CAP_WRITES_FILES)
               ? files_give_up_at(coord, capture, rank, seen, why_p)
               : live_give_up_at(coord, capture, rank, seen, why_p);
}

/* After this process stood still, what the others sent meanwhile is still to be read. */
static rs_ns not_before(const struct rs_coord *coord, rs_ns at, rs_dur patience)
{
    return coord->resumed_at ? later(at, coord->resumed_at + patience) : at;
}

static const char orphan_text[] = "the aggregator was started again before it began: ask again";

/* What the ranks had answered is gone with the process that asked. They are called back when their collectors are there again, so that
 * the next capture finds them free. */
static rs_ns tick_orphan(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    const bool is_patient = now < capture->opened_at + coord->options.gone_ns;
    for (size_t i = 0; i < capture->rank_count && is_patient; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        const struct rs_coord_seen *seen =
            rs_progress_is_final(rank->state) ? NULL : seen_of(coord, capture, rank);
        if (!rs_progress_is_final(rank->state) && (!seen || !seen->link))
            return now + queue_poll_ns;
    }
    messages_cancel_all(coord, capture, orphan_text);
    (void)snprintf(capture->remark, sizeof capture->remark, "%s", orphan_text);
    for (size_t i = 0; i < capture->rank_count; i++)
        if (!rs_progress_is_final(capture->ranks[i].state))
            lose(capture, &capture->ranks[i], orphan_text, now);
    capture_close(coord, capture);
    return now;
}

/* Nothing comes from its collector, neither an answer nor a heartbeat (these come every half second): a partition, or a node that
 * stands still, and not a collector that does not want to answer. */
static bool is_out_of_reach(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                            const struct rs_coord_seen *seen, rs_ns now)
{
    if (!seen || capture->was_stopped || seen->state == RS_RANK_GONE)
        return false;
    return seen->link ? now - seen_link_at(coord, seen) > coord->options.arm_timeout_ns / 5 * 3
                      : seen_is_unreachable(coord, seen);
}

/* When a rank is given up that has not answered, or has and is out of reach since; RS_NS_MAX: it is not waited for. While it is out of
 * reach its row says so. */
static rs_ns arming_deadline(const struct rs_coord *coord, struct rs_coord_capture *capture,
                             struct rs_coord_rank *rank, rs_ns now)
{
    const struct rs_coord_seen *seen = seen_of(coord, capture, rank);
    const rs_dur timeout = coord->options.arm_timeout_ns;
    const rs_ns realtime = coord->options.realtime();
    const bool is_armed = rank->state == RS_PROGRESS_ARMED;
    rs_ns deadline = later(capture->opened_at, rank->moved_at) + timeout;
    if ((is_armed || now >= deadline) && is_out_of_reach(coord, capture, seen, now)) {
        const rs_ns since = seen->last_seen_ns - seen->silent_ns;
        deadline = later(capture->opened_at, since) + coord->options.unreachable_ns;
        deadline = not_before(coord, deadline, coord->options.gone_ns);
        (void)member_set_unreachable(capture, rank, true, realtime - (now - since),
                                     realtime + (deadline - now));
        return deadline;
    }
    /* It is heard again: its time begins anew. */
    const bool is_back = member_set_unreachable(capture, rank, false, 0, 0);
    /* A link that came after the question carried none: whoever was away shorter than it takes to call him out of reach, too. */
    const bool was_not_asked =
        !is_armed && seen && seen->link && capture->asked_at && seen->back_ns > capture->asked_at;
    if (is_back || was_not_asked) {
        rank->moved_at = rank->back_at = now;
        capture->asked_at = 0;
        deadline = now + timeout;
    }
    const rs_ns latest = later(capture->opened_at, rank->back_at) + arming_max_ns;
    if (is_armed)
        return RS_NS_MAX;
    return not_before(coord, deadline < latest ? deadline : latest, timeout);
}

/* Who was asked may have forgotten, and who comes back was never asked. */
static void ask_again(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    capture->asked_at = now;
    capture->answer_ns = 0; /* a partition is not slowness */
    messages_send(coord, capture, RS_PROGRESS_WAITING, coord->options.ops->prepare);
    messages_send(coord, capture, RS_PROGRESS_ARMED, coord->options.ops->prepare);
}

/* A rank that has yet to find something out (its step) says so now and then: its time begins anew with each word. */
rs_ns tick_arming(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    rs_ns next = RS_NS_MAX;
    bool is_waiting = false;
    if (capture->is_orphan)
        return tick_orphan(coord, capture, now);
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (rank->state != RS_PROGRESS_WAITING && rank->state != RS_PROGRESS_ARMED)
            continue;
        const rs_ns deadline = arming_deadline(coord, capture, rank, now);
        if (deadline != RS_NS_MAX && now >= deadline)
            lose_silent(capture, rank, "it did not answer in time", now);
        else if (deadline < next)
            next = deadline;
        is_waiting |= deadline != RS_NS_MAX && member_is_unreachable(rank);
    }
    /* While somebody is out of reach all are asked now and then, and once more when he is there again. */
    const rs_ns again = capture->asked_at ? capture->asked_at + coord->options.arm_timeout_ns : now;
    if (now >= again && (is_waiting || !capture->asked_at))
        ask_again(coord, capture, now);
    if (is_waiting)
        return next < now + RS_NS_PER_S ? next : now + RS_NS_PER_S;
    if (capture->counts[RS_PROGRESS_WAITING])
        return next;
    if (capture->counts[RS_PROGRESS_ARMED] == 0)
        capture_close(coord, capture);
    else
        capture_commit(coord, capture, now);
    return now;
}

/* From when on somebody who records for longer than until `limit` is known to. Who is out of reach, or was until a moment ago, may have
 * recorded all that was asked for long since; who sends has. A link that comes and goes without end is no excuse for longer than an
 * absence is waited for. RS_NS_MAX: nobody. */
static rs_ns too_long_at(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                         rs_ns limit)
{
    const rs_dur timeout = coord->options.arm_timeout_ns;
    const rs_ns latest = limit + coord->options.unreachable_ns + timeout;
    rs_ns first = RS_NS_MAX;
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (rank->state != RS_PROGRESS_ARMED && rank->state != RS_PROGRESS_RECORDING)
            continue;
        const struct rs_coord_seen *seen = seen_of(coord, capture, rank);
        if (!seen || seen_is_unreachable(coord, seen))
            continue;
        const rs_ns back = seen_back_at(coord, seen);
        rs_ns at = back > capture->recording_at ? later(limit, back + timeout) : limit;
        at = not_before(coord, at < latest ? at : latest, timeout);
        first = at < first ? at : first;
    }
    return first;
}

/* A capture that goes on for too long is ended; what is recorded stays. */
static rs_ns tick_limit(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    if (!capture->request || !capture->recording_at || capture->is_stopped)
        return RS_NS_MAX;
    const uint32_t limit_s = capture->request->max_duration_s;
    rs_ns limit = capture->recording_at + (rs_dur)limit_s * RS_NS_PER_S;
    limit = now < limit ? limit : too_long_at(coord, capture, limit);
    if (now < limit)
        return limit;
    capture->is_stopped = true;
    capture->is_changed = true;
    (void)snprintf(capture->remark, sizeof capture->remark,
                   "stopped after %u s (max_duration_s; more than 300 needs --force)", limit_s);
    messages_cancel_all(coord, capture, capture->remark);
    return RS_NS_MAX;
}

/* The rank's row says so while it lasts. */
static void tell_unreachable(const struct rs_coord *coord, struct rs_coord_capture *capture,
                             struct rs_coord_rank *rank, rs_ns give_up, rs_ns now)
{
    const struct rs_coord_seen *seen = seen_of(coord, capture, rank);
    const bool is_unreachable = seen && is_waited_for(coord, capture, seen);
    if (is_unreachable == member_is_unreachable(rank))
        return;
    const rs_ns realtime = coord->options.realtime();
    const rs_ns since = is_unreachable ? seen->last_seen_ns - seen->silent_ns : now;
    (void)member_set_unreachable(capture, rank, is_unreachable, realtime - (now - since),
                                 realtime + (give_up - now));
}

/* Gives up whose time is over; when the next one's is. */
static rs_ns look_at_ranks(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    rs_ns next = RS_NS_MAX;
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (rs_progress_is_final(rank->state))
            continue;
        const char *why = "";
        const rs_ns at =
            not_before(coord, give_up_at(coord, capture, rank, &why), coord->options.gone_ns);
        tell_unreachable(coord, capture, rank, at, now);
        if (now >= at)
            lose_silent(capture, rank, why, now);
        else if (at < next)
            next = at;
    }
    return next;
}

rs_ns tick_recording(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    const rs_ns limit = tick_limit(coord, capture, now);
    const rs_ns start = tick_start(coord, capture, now);
    const rs_ns next = limit < start ? limit : start;
    if (capture->state == RS_CAPTURE_ARMING) /* it was taken back */
        return tick_arming(coord, capture, now);
    if (now >= capture->look_at) {
        const rs_ns at = look_at_ranks(coord, capture, now);
        capture->look_at = at < now + look_every_ns ? at : now + look_every_ns;
    }
    if (members_final(capture) == capture->rank_count)
        capture_close(coord, capture);
    return next < capture->look_at ? next : capture->look_at;
}

rs_ns tick_collecting(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    const size_t open_count = capture->rank_count - members_final(capture);
    if (!open_count && capture->world && members_distinct(capture) >= capture->world) {
        capture_close(coord, capture);
        return now;
    }
    rs_dur patience = capture->settle_ns;
    if (open_count && patience < coord->options.abandon_ns)
        patience = coord->options.abandon_ns;
    if (now < capture->moved_at + patience)
        return capture->moved_at + patience;
    for (size_t i = 0; i < capture->rank_count; i++)
        if (!rs_progress_is_final(capture->ranks[i].state))
            lose(capture, &capture->ranks[i], "its stream did not go on", now);
    capture_close(coord, capture);
    return now;
}

/* ---- the queue ------------------------------------------------------------------------------------------- */

void queue_drop(struct rs_coord *coord, struct rs_coord_capture *capture, const char *why,
                rs_ns now)
{
    (void)snprintf(capture->remark, sizeof capture->remark, "%s", why);
    for (size_t i = 0; i < capture->rank_count; i++)
        if (capture->ranks[i].state == RS_PROGRESS_WAITING)
            member_move(capture, &capture->ranks[i], RS_PROGRESS_LOST, why, now);
    capture_close(coord, capture);
}

static void say_held(struct rs_coord_capture *capture, const struct rs_coord_seen *held)
{
    char reason[RS_COORD_REASON_BYTES];
    (void)snprintf(reason, sizeof reason,
                   "waits until the collector of rank %u has packed capture %.*s", held->rank,
                   RS_COORD_ID_BYTES - 1, held->capture);
    if (strcmp(reason, capture->reason) != 0) {
        memcpy(capture->reason, reason, sizeof reason);
        capture->is_changed = true;
    }
}

/* Its ranks are free when no capture has them; ranks that are not there are waited for a while, since after a
 * restart of this process their collectors have yet to come back. */
static rs_ns tick_queued(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    const rs_ns patience = capture->opened_at + coord->options.gone_ns;
    bool is_missing = false;
    const struct rs_coord_seen *held = NULL;
    if (!capture->request) {
        queue_drop(coord, capture,
                   "what it asked for was lost when the aggregator was started again", now);
        return now;
    }
    for (size_t i = 0; i < capture->rank_count; i++) {
        const struct rs_coord_rank *rank = &capture->ranks[i];
        if (rank->state != RS_PROGRESS_WAITING)
            continue;
        if (rank_is_busy(coord, capture->run, rank->rank, capture)) {
            capture->free_at = 0;
            return now + queue_poll_ns;
        }
        const struct rs_coord_seen *seen = seen_find_live(coord, capture->run, rank->rank);
        is_missing = is_missing || !seen;
        held = seen && *seen->capture ? seen : held;
    }
    if (!capture->free_at)
        capture->free_at = now;
    /* All that it sent is stored; its collector packs the rest of it, and says so with its next heartbeat. */
    if (held && now < capture->free_at + packed_after_ns) {
        say_held(capture, held);
        return now + queue_poll_ns;
    }
    if (is_missing && now < patience)
        return now + queue_poll_ns;
    queue_start(coord, capture, now);
    return now;
}

rs_ns rs_coord_tick(struct rs_coord *coord, rs_ns now)
{
    rs_ns next = RS_NS_MAX;
    const rs_dur gap = coord->ticked_at ? now - coord->ticked_at : 0;
    if (coord->options.tick_ns && gap > coord->options.tick_ns + coord->options.gone_ns / 3) {
        rs_log_warn("this process stood still for %.1f s: ranks are given time anew",
                    (double)gap / (double)RS_NS_PER_S);
        coord->resumed_at = now;
    }
    coord->ticked_at = now;
    seen_sweep(coord, now);
    for (size_t i = 0; i < coord->capture_count; i++) {
        struct rs_coord_capture *capture = coord->captures[i];
        if (capture->is_closing)
            continue;
        rs_ns at = RS_NS_MAX;
        if (capture->is_files)
            at = tick_collecting(coord, capture, now);
        else if (capture->state == RS_CAPTURE_QUEUED)
            at = tick_queued(coord, capture, now);
        else if (capture->state == RS_CAPTURE_ARMING)
            at = tick_arming(coord, capture, now);
        else
            at = tick_recording(coord, capture, now);
        if (!capture->is_closing)
            capture_save(coord, capture);
        if (capture->is_joining && !capture->is_closing)
            at = RS_NS_MAX; /* whoever joins it calls */
        if (at < next)
            next = at;
    }
    return next;
}
