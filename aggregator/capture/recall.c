/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A start that somebody did not hear of is moved while nobody has begun.
 *
 *     COMMIT goes out                                  first step to record
 *       |------------ lead ------------------------------------|-- two steps --|
 *       |   ARMED of each rank: told   |  looked at  |  too late: it goes on   |
 *       0                             1/2           4/5        1
 *
 * A collector says ARMED again when a rank has its start. A link that broke, or a node that stands still, just when COMMIT was written
 * to it, is believed for seconds; without this its ranks would be told when the step has passed, and the others would have recorded
 * without them. So, half way to the start, whoever was not told and of whose link nothing has come since COMMIT is taken for out of
 * reach: all are called back (nobody has begun: nothing is left behind) and asked anew, and ARMING waits for them as it does for
 * whoever does not answer (deadline.c). What collectors still say of the first try is not of this one, and left unread until they
 * answer (is_recalled).
 *
 * The link may break between COMMIT's coming and the word that it came. Is it there again before the start, that rank is asked anew as
 * everybody, and its collector forgets the first start. Is it not, the rank begins alone, and is partial for it, with that reason: its
 * steps are not those of the others. That window is as long as a message takes, not as long as it takes to notice a silence.
 *
 * Only where all ranks are told a step and begin at once when they are told (no files, no polling: they could not be called back in
 * time), and where nobody chose the start.
 */
#include "aggregator/capture/coord_priv.h"

#define RS_LOG_TAG "capture"
#include "common/base/log.h"

enum { STARTS_MOVED_MAX = 8 }; /* then it goes on without them */

static bool can_be_recalled(const struct rs_coord *coord, const struct rs_coord_capture *capture)
{
    const struct rs_capture_request *request = capture->request;
    if (!coord->options.heartbeat_ns || !capture->lead_ns || capture->is_loaded ||
        capture->is_stopped || capture->recording_at || capture->moved_starts >= STARTS_MOVED_MAX)
        return false;
    return request && request->start_step <= 0 && !request->start_time_ns;
}

/* Told to begin, and its collector has not said that it knows. */
static bool is_untold(const struct rs_coord_rank *rank)
{
    return rank->state == RS_PROGRESS_ARMED && !rank->is_told;
}

static bool is_silent(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                      struct rs_coord_rank *rank)
{
    const struct rs_coord_seen *seen = seen_of(coord, capture, rank);
    if (seen && seen->state == RS_RANK_GONE)
        return false; /* it will not come back, whoever waits */
    /* A link that is new since then carried nothing of it: what was on the old one is gone. */
    return !seen || !seen->link || seen_link_at(coord, seen) < capture->committed_at ||
           seen->back_ns >= capture->committed_at;
}

/* Back to where everybody is asked. */
static void recall(struct rs_coord *coord, struct rs_coord_capture *capture, uint32_t silent,
                   rs_ns now)
{
    rs_log_warn("capture %s: nothing came of rank %u since it was told its start: all ranks "
                "are asked again",
                capture->id, silent);
    messages_cancel(coord, capture, 1u << RS_PROGRESS_ARMED,
                    "its start was moved: a node was out of reach");
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (rank->state != RS_PROGRESS_ARMED)
            continue;
        member_move(capture, rank, RS_PROGRESS_WAITING, "", now);
        rank->is_recalled = true;
    }
    capture->moved_starts++;
    capture->state = RS_CAPTURE_ARMING;
    capture->start_step = -1;
    capture->counted_steps = 0;
    capture->committed_at = 0;
    capture->asked_at = 0; /* with the next tick */
    capture->answer_ns = 0;
    capture->is_changed = true;
}

rs_ns tick_start(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    const rs_ns from = capture->committed_at + capture->lead_ns / 2;
    const rs_ns until = capture->committed_at + capture->lead_ns / 5 * 4;
    const struct rs_coord_rank *silent = NULL;
    bool is_any_untold = false;
    if (now > until || !can_be_recalled(coord, capture))
        return RS_NS_MAX;
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (rs_progress_is_final(rank->state))
            continue;
        if (rank->state > RS_PROGRESS_ARMED || !adapter_can(&rank->adapter, RS_CAP_KNOWS_STEP) ||
            adapter_can(&rank->adapter, RS_CAP_WRITES_FILES))
            return RS_NS_MAX;
        is_any_untold |= is_untold(rank);
        if (is_untold(rank) && is_silent(coord, capture, rank))
            silent = rank;
    }
    if (!is_any_untold)
        return RS_NS_MAX;
    if (now < from)
        return from;
    if (silent)
        recall(coord, capture, silent->rank, now);
    return silent ? now : now + capture->lead_ns / 10;
}
