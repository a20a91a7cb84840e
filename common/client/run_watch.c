/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching a run: the two rules together, and what an alarm says. See run_watch.h.
 */
#include "common/client/run_watch.h"

#include "common/base/mem.h"
#include "common/client/client.h"
#include "common/client/probe_watch.h"
#include "common/request/adapter.h"
#include "common/request/rank_expr.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum rs_status rs_run_watch_add(struct rs_run_watch *watch, const struct rs_run_member *member)
{
    const struct rs_rank_look own = {
        .rank = member->rank, .step = member->step, .own_ns = member->own_ns};
    if (rs_mem_grow((void **)&watch->peers, &watch->peer_capacity, watch->peer_count + 1,
                    sizeof *watch->peers) < 0 ||
        rs_step_gather_add(&watch->gather, member->step, member->at, member->step_ns,
                           member->delay_ns, member->host) < 0)
        return RS_NOMEM;
    watch->peers[watch->peer_count++] =
        (struct rs_rank_peer){.rank = member->rank, .pp = member->pp, .tp = member->tp};
    return rs_rank_watch_add(&watch->ranks, &own);
}

/* What one rule noticed is usual for the other, too: it learns anew. */
static bool decide(struct rs_run_watch *watch, double above, struct rs_run_alarm *alarm)
{
    if (rs_rank_watch_see(&watch->ranks, watch->look.step_ns, above, &alarm->ranks)) {
        watch->steps = (struct rs_step_watch){
            .last = watch->look, .has_last = true, .learn = watch->steps.learn};
        if (!rs_rank_watch_chosen(&watch->ranks, &alarm->ranks, watch->peers, watch->peer_count,
                                  alarm->chosen, sizeof alarm->chosen))
            alarm->chosen[0] = '\0';
        return true;
    }
    return rs_step_watch_see(&watch->steps, &watch->look, above, &alarm->steps);
}

bool rs_run_watch_see(struct rs_run_watch *watch, bool is_recording, double above,
                      struct rs_run_alarm *alarm_p)
{
    const struct rs_step_look look = rs_step_gather_take(&watch->gather);
    if (!is_recording)
        return rs_run_watch_judge(watch, &look, above, alarm_p);
    watch->look = look;
    rs_run_watch_skip(watch);
    return false;
}

bool rs_run_watch_judge(struct rs_run_watch *watch, const struct rs_step_look *look, double above,
                        struct rs_run_alarm *alarm_p)
{
    struct rs_run_alarm alarm = {.chosen = ""};
    watch->look = *look;
    const bool is_alarm = decide(watch, above, &alarm);
    watch->peer_count = 0;
    if (is_alarm)
        *alarm_p = alarm;
    return is_alarm;
}

void rs_run_watch_skip(struct rs_run_watch *watch)
{
    rs_step_watch_skip(&watch->steps);
    rs_rank_watch_skip(&watch->ranks);
    watch->peer_count = 0;
}

void rs_run_watch_fini(struct rs_run_watch *watch)
{
    rs_step_gather_fini(&watch->gather);
    rs_rank_watch_fini(&watch->ranks);
    rs_mem_free(watch->peers);
    *watch = (struct rs_run_watch){.peers = NULL};
}

/* ---- what it says ------------------------------------------------------------------------------------------------ */

static double ms_of(rs_dur length)
{
    return (double)length / RS_NS_PER_MS;
}

static double times(rs_dur now, rs_dur before)
{
    return before > 0 ? (double)now / (double)before : 0;
}

/* "from step 204 on", "since 17:03:10 UTC". */
static void since_text(const struct rs_run_alarm *alarm, int64_t first_step, char *text,
                       size_t bytes)
{
    const time_t seconds = (time_t)(alarm->since_ns / RS_NS_PER_S);
    struct tm parts = {0};
    if (!alarm->since_ns || !gmtime_r(&seconds, &parts) ||
        !strftime(text, bytes, "since %H:%M:%S UTC", &parts))
        (void)snprintf(text, bytes, "from step %" PRId64 " on", first_step);
}

void rs_run_alarm_text(const struct rs_run_alarm *alarm, char *text, size_t bytes)
{
    const struct rs_rank_suspect *first = &alarm->ranks.suspects[0];
    char since[48];
    since_text(alarm, alarm->ranks.count ? first->first_step : alarm->steps.first_step, since,
               sizeof since);
    if (!alarm->ranks.count) {
        (void)snprintf(
            text, bytes, "steps take %.3f ms, %.2f times as long as before (%.3f ms), %s",
            ms_of(alarm->steps.now_ns), times(alarm->steps.now_ns, alarm->steps.before_ns),
            ms_of(alarm->steps.before_ns), since);
        return;
    }
    char others[48] = "";
    if (alarm->ranks.count > 1)
        (void)snprintf(others, sizeof others, " (and %zu more %s)", alarm->ranks.count - 1,
                       alarm->ranks.count == 2 ? "rank" : "ranks");
    (void)snprintf(text, bytes,
                   "rank %" PRIu32
                   " takes %.3f ms a step for its own work, %.2f times as long as before "
                   "(%.3f ms), %s%s",
                   first->rank, ms_of(first->now_ns), times(first->now_ns, first->before_ns),
                   ms_of(first->before_ns), since, others);
}

static void put_int(struct rs_json_out *json, const char *key, int64_t value)
{
    rs_json_out_key(json, key);
    rs_json_out_int(json, value);
}

static void put_step(struct rs_json_out *json, const char *key, int64_t step)
{
    rs_json_out_key(json, key);
    if (step < 0)
        rs_json_out_null(json);
    else
        rs_json_out_int(json, step);
}

void rs_run_alarm_put(const struct rs_run_alarm *alarm, struct rs_json_out *json)
{
    char text[300];
    rs_run_alarm_text(alarm, text, sizeof text);
    rs_json_out_object(json);
    rs_json_out_key(json, "reason");
    rs_json_out_string(json, text);
    if (alarm->since_ns)
        put_int(json, "since_ns", alarm->since_ns);
    if (!alarm->ranks.count) {
        put_int(json, "before_ns", alarm->steps.before_ns);
        put_int(json, "now_ns", alarm->steps.now_ns);
        put_step(json, "first_step", alarm->steps.first_step);
        put_step(json, "last_step", alarm->steps.last_step);
    }
    rs_json_out_key(json, "suspects");
    rs_json_out_array(json);
    for (size_t i = 0; i < alarm->ranks.count; i++) {
        const struct rs_rank_suspect *suspect = &alarm->ranks.suspects[i];
        rs_json_out_object(json);
        put_int(json, "rank", suspect->rank);
        put_int(json, "before_ns", suspect->before_ns);
        put_int(json, "now_ns", suspect->now_ns);
        put_step(json, "first_step", suspect->first_step);
        put_step(json, "last_step", suspect->last_step);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
    rs_json_out_end(json);
}

void rs_run_alarm_json(const struct rs_run_alarm *alarm, struct rs_buf *buf)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, 0);
    rs_run_alarm_put(alarm, &json);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

struct looking {
    struct rs_run_watch *watch;
    struct rs_probe_watch *probe;
    struct rs_run_look look;
    bool has_failed, are_several;
};

static int32_t role_of(const Rankscope__RankState *rank, enum rs_rank_role_kind kind)
{
    return rank->n_role > kind ? rank->role[kind] : -1;
}

static enum rs_status add_rank(struct looking *looking, const Rankscope__RankState *rank)
{
    const uint32_t can = *rank->adapter ? rank->capabilities
                                        : rs_adapter_capabilities_of(rs_adapter_name(rank->kind));
    /* A step that is reckoned from an earlier recording (torch_npu) says nothing of how long steps take now. */
    if (can & RS_CAP_TELLS_STEP) {
        const struct rs_run_member member = {.rank = rank->rank,
                                             .step = rank->step,
                                             .at = rank->seen_ns,
                                             .step_ns = rank->step_duration_ns,
                                             .own_ns = rank->own_ns,
                                             .delay_ns = rank->delay_ns,
                                             .host = rank->host,
                                             .pp = role_of(rank, RS_ROLE_PP),
                                             .tp = role_of(rank, RS_ROLE_TP)};
        looking->look.tells_steps = true;
        return rs_run_watch_add(looking->watch, &member);
    }
    if (!looking->probe || !rank->can_capture)
        return RS_OK;
    const struct rs_probe_member member = {.rank = rank->rank,
                                           .delay_ns = rank->delay_ns,
                                           .host = rank->host,
                                           .pp = role_of(rank, RS_ROLE_PP),
                                           .tp = role_of(rank, RS_ROLE_TP),
                                           .is_of_whole_jobs = (can & RS_CAP_WHOLE_JOB) != 0};
    return rs_probe_watch_add(looking->probe, &member);
}

static bool on_table(void *self, const Rankscope__Reply *reply)
{
    struct looking *looking = self;
    struct rs_run_look *look = &looking->look;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_RANKS)
        return false;
    for (size_t i = 0; i < reply->ranks->n_ranks; i++) {
        const Rankscope__RankState *rank = reply->ranks->ranks[i];
        if (rank->state == RS_RANK_GONE)
            continue;
        if (!*look->found)
            (void)snprintf(look->found, sizeof look->found, "%.63s", rank->run);
        looking->are_several = looking->are_several || strcmp(look->found, rank->run) != 0;
        look->is_recording = look->is_recording || *rank->capture;
        if (add_rank(looking, rank) < 0) {
            looking->has_failed = true;
            return false;
        }
    }
    return true;
}

enum rs_status rs_client_run_look(const struct rs_address *address, const char *run,
                                  struct rs_run_watch *watch, struct rs_probe_watch *probe,
                                  struct rs_run_look *look_p, struct rs_err *err)
{
    struct looking looking = {.watch = watch, .probe = probe};
    Rankscope__AskRanks ranks = RANKSCOPE__ASK_RANKS__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    char *lent = rs_mem_strdup(run);
    if (!lent)
        return rs_err_set(err, RS_NOMEM, "no memory to look at ranks");
    ranks.run = lent;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_RANKS;
    ask.ranks = &ranks;
    enum rs_status status = rs_client_ask(address, &ask, on_table, &looking, err);
    if (status >= 0 && looking.has_failed)
        status = rs_err_set(err, RS_NOMEM, "no memory to look at ranks");
    else if (status >= 0 && looking.are_several)
        status = rs_err_set(err, RS_INVALID, "several runs are there: say which one is meant");
    *look_p = looking.look;
    rs_mem_free(lent);
    return status;
}
