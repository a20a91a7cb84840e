/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The standing watch: runs that hang while nobody looks, asked before somebody ends the job.
 *
 * Every second the ranks' steps are compared (as the collectors tell them), and the collectors are asked who wrote a dump.
 * Per run:
 *
 *   WATCHING --no rank that tells its steps moved for N median steps-----------------> INCIDENT <----------------+
 *      ^     \--ranks wrote dumps--> SETTLING: the others write theirs, too --3 s--------^                       |
 *      |                                                                                 | hang_begin()          |
 *      |                                              cool-down over, budget left: else it waits here            |
 *      |                                                                                 v                       |
 *      |                                                                        ASKING: hang.c keeps a capture   |
 *      |                                                                                 |                       |
 *      +-- a rank moves, or another dump is written after the cool-down -- OVER <--------+                       |
 *                                                                           |                                    |
 *                                    nothing was kept, and dumps are there now: they are all there is -----------+
 *
 * One capture an incident: what ranks write because they were asked, or while their steps still stand, is no news. Dumps are
 * told apart by their own node's clock only. The budget counts from the daemon's start: a restart forgets it.
 */
#include "common/client/hang_watch.h"

#include "aggregator/server/server_priv.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "hang-watch"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RUNS_MAX = 64, BUDGET_MAX = 1000 };

static const rs_dur look_every_ns = RS_NS_PER_S;
static const rs_dur settle_ns = 3 * (rs_dur)RS_NS_PER_S;
static const rs_dur day_ns = (rs_dur)24 * 3600 * RS_NS_PER_S;

struct watched {
    char run[RS_COORD_TEXT_BYTES];
    struct rs_hang_steps steps;
    bool tells_steps; /* a live rank does, now */
    bool is_asking;
    bool is_over;      /* this incident was asked for */
    bool has_nothing;  /* and nothing was kept of it */
    bool absorbs;      /* dumps that the next look finds came of asking */
    bool is_over_told; /* that the budget is spent */
    size_t fresh;      /* ranks with dumps newer than known_ns, by the last look */
    rs_ns newest_ns;   /* of all dumps of the last look */
    rs_ns known_ns;    /* dumps up to here are no news */
    rs_ns settled_at;  /* monotonic; 0: no dump was seen */
    rs_ns asked_at;    /* monotonic; a later step ends the incident */
    rs_ns cool_until;  /* monotonic */
};

struct hang_watch {
    struct rs_server_hang_rules rules; /* filled in */
    rs_ns since_ns;                    /* realtime: dumps before it are old */
    rs_ns next_look;
    bool is_looking;
    bool is_full_told; /* that there are more runs than places */
    struct watched *runs[RUNS_MAX];
    size_t run_count;
    rs_ns kept_at[BUDGET_MAX]; /* the last per_day captures, a ring */
    size_t kept_count;
};

enum rs_status hang_watch_start(struct rs_server *server, struct rs_err *err)
{
    const struct rs_server_hang_rules *rules = &server->options.hang;
    if (!rules->is_on)
        return RS_OK;
    struct hang_watch *watch = rs_mem_calloc(1, sizeof *watch);
    if (!watch)
        return rs_err_set(err, RS_NOMEM, "no memory to watch for hangs");
    watch->rules = *rules;
    if (!rules->steps)
        watch->rules.steps = 10;
    if (!rules->min_wait_ns)
        watch->rules.min_wait_ns = 10 * (rs_dur)RS_NS_PER_S;
    if (!rules->cool_down_ns)
        watch->rules.cool_down_ns = 600 * (rs_dur)RS_NS_PER_S;
    if (!rules->per_day)
        watch->rules.per_day = 20;
    RS_CHECK(watch->rules.per_day > 0 && watch->rules.per_day <= BUDGET_MAX);
    watch->since_ns = rs_time_realtime();
    server->hang_watch = watch;
    return RS_OK;
}

void hang_watch_fini(struct rs_server *server)
{
    struct hang_watch *watch = server->hang_watch;
    server->hang_watch = NULL;
    for (size_t i = 0; watch && i < watch->run_count; i++) {
        rs_hang_steps_fini(&watch->runs[i]->steps);
        rs_mem_free(watch->runs[i]);
    }
    rs_mem_free(watch);
}

/* ---- runs ------------------------------------------------------------------------------------------------------ */

/* One that says nothing and that nothing is remembered of: its place is another's. */
static bool is_idle(const struct watched *run, rs_ns now)
{
    return !run->tells_steps && !run->is_asking && !run->fresh && now >= run->cool_until;
}

/* NULL: more runs than are watched, or no memory. */
static struct watched *find_run(struct hang_watch *watch, const char *name, bool must_make)
{
    struct watched *run = NULL;
    const rs_ns now = rs_time_monotonic();
    for (size_t i = 0; i < watch->run_count; i++)
        if (strcmp(watch->runs[i]->run, name) == 0)
            return watch->runs[i];
    if (!must_make)
        return NULL;
    if (watch->run_count < RUNS_MAX) {
        run = rs_mem_calloc(1, sizeof *run);
        if (run)
            watch->runs[watch->run_count++] = run;
    }
    for (size_t i = 0; i < watch->run_count && watch->run_count == RUNS_MAX && !run; i++)
        if (is_idle(watch->runs[i], now)) {
            run = watch->runs[i];
            rs_hang_steps_fini(&run->steps);
            *run = (struct watched){.is_asking = false};
        }
    if (run) {
        (void)snprintf(run->run, sizeof run->run, "%s", name);
        run->known_ns = watch->since_ns;
        watch->is_full_told = false;
    } else if (!watch->is_full_told) {
        rs_log_warn("run %.100s, and others after it, are not watched: %d are", name, RUNS_MAX);
        watch->is_full_told = true;
    }
    return run;
}

static void look_at_steps(struct rs_server *server, rs_ns now)
{
    struct hang_watch *watch = server->hang_watch;
    struct watched *run = NULL;
    for (size_t i = 0; i < watch->run_count; i++)
        watch->runs[i]->tells_steps = false;
    for (size_t i = 0; i < rs_coord_seen_count(server->coord); i++) {
        const struct rs_coord_seen *seen = rs_coord_seen(server->coord, i);
        if (!seen->link || seen->state == RS_RANK_GONE || seen->step < 0 ||
            seen->step_duration_ns <= 0)
            continue;
        if (!run || strcmp(run->run, seen->run) != 0)
            run = find_run(watch, seen->run, true);
        if (!run)
            continue;
        if (rs_hang_steps_see(&run->steps, seen->rank, seen->step, seen->step_duration_ns, now) < 0)
            rs_log_error("no memory to watch rank %" PRIu32 " of %.100s", seen->rank, seen->run);
        run->tells_steps = true;
    }
    for (size_t i = 0; i < watch->run_count; i++)
        if (!watch->runs[i]->tells_steps) { /* it ended; the next of that name begins anew */
            rs_hang_steps_fini(&watch->runs[i]->steps);
            watch->runs[i]->is_over = false;
        }
}

/* ---- dumps ----------------------------------------------------------------------------------------------------- */

static void look_for_dumps(struct rs_server *server, rs_ns now)
{
    struct hang_watch *watch = server->hang_watch;
    struct rs_err err = {0};
    if (watch->is_looking || now < watch->next_look)
        return;
    watch->next_look = now + look_every_ns;
    for (size_t i = 0; i < watch->run_count; i++)
        watch->runs[i]->fresh = 0;
    /* Refused: no collector is there, or too many hangs are asked for. The next look is soon. */
    watch->is_looking = hang_begin(server, "", watch->since_ns, "", &err) == RS_OK;
}

void hang_watch_dump(struct rs_server *server, const char *name, rs_ns written_ns)
{
    struct hang_watch *watch = server->hang_watch;
    struct watched *run = watch ? find_run(watch, name, true) : NULL;
    if (!run)
        return;
    if (written_ns > run->newest_ns)
        run->newest_ns = written_ns;
    run->fresh += written_ns > run->known_ns;
}

static void absorb(struct watched *run)
{
    if (run->newest_ns > run->known_ns)
        run->known_ns = run->newest_ns;
    run->fresh = 0;
    run->settled_at = 0;
}

void hang_watch_looked(struct rs_server *server)
{
    struct hang_watch *watch = server->hang_watch;
    if (!watch)
        return;
    watch->is_looking = false;
    const rs_ns now = rs_time_monotonic();
    for (size_t i = 0; i < watch->run_count; i++) {
        struct watched *run = watch->runs[i];
        const bool is_same =
            !run->has_nothing && (run->is_over || (!run->tells_steps && now < run->cool_until));
        /* The question itself made ranks write; or it is the incident that is kept already. */
        if (run->absorbs || is_same)
            absorb(run);
        run->absorbs = run->is_asking;
        if (!run->fresh) {
            run->settled_at = 0;
        } else if (!run->settled_at) {
            run->settled_at = now + settle_ns;
            rs_log_info("run %.100s: ranks write flight recorder dumps", run->run);
        }
    }
    server_tick_soon(server);
}

/* ---- incidents ------------------------------------------------------------------------------------------------- */

static bool has_budget(const struct hang_watch *watch, rs_ns now)
{
    const size_t per_day = (size_t)watch->rules.per_day;
    return watch->kept_count < per_day ||
           now - watch->kept_at[watch->kept_count % per_day] >= day_ns;
}

/* What happened, as a sentence; false: nothing that is to be asked for now. */
static bool judge(const struct hang_watch *watch, struct watched *run, rs_ns now, char *what,
                  size_t bytes)
{
    rs_dur limit = watch->rules.min_wait_ns, still = 0;
    if (run->tells_steps && now - run->steps.newest > limit)
        still = rs_hang_steps_still(&run->steps, (double)watch->rules.steps, limit, now, &limit);
    const bool is_still = still > limit;
    if (run->steps.newest > run->asked_at)
        run->is_over = false;
    if (run->fresh && now >= run->settled_at && (!run->is_over || run->has_nothing)) {
        (void)snprintf(what, bytes, "%zu %s wrote a flight recorder dump", run->fresh,
                       run->fresh == 1 ? "rank" : "ranks");
        return true;
    }
    if (!is_still || run->is_over || run->fresh)
        return false;
    (void)snprintf(what, bytes, "no rank has made a step for %" PRId64 " s (limit %" PRId64 " s)",
                   still / RS_NS_PER_S, limit / RS_NS_PER_S);
    return true;
}

static void take(struct rs_server *server, struct watched *run, const char *what, rs_ns now)
{
    struct hang_watch *watch = server->hang_watch;
    struct rs_err err = {0};
    if (!has_budget(watch, now)) {
        if (!run->is_over_told)
            rs_log_warn("run %.100s: %s; nothing is kept of it: %" PRId64
                        " captures were, in the last 24 h (--hang-per-day)",
                        run->run, what, watch->rules.per_day);
        run->is_over_told = true;
        return;
    }
    if (hang_begin(server, run->run, 0, what, &err) < 0)
        return; /* no collector is there any more, or too many questions: with the next tick */
    rs_log_warn("run %.100s: %s; its ranks are asked", run->run, what);
    run->is_asking = true;
    run->is_over_told = false;
}

void hang_watch_asked(struct rs_server *server, const char *name, const char *capture,
                      const char *text, bool has_dumps, bool is_own)
{
    struct hang_watch *watch = server->hang_watch;
    struct watched *run = watch ? find_run(watch, name, false) : NULL;
    if (!run)
        return;
    run->absorbs = true;
    if (!is_own)
        return;
    const rs_ns now = rs_time_monotonic();
    run->is_asking = false;
    run->has_nothing = !has_dumps;
    run->is_over = run->tells_steps;
    run->asked_at = now;
    if (has_dumps)
        run->cool_until = now + watch->rules.cool_down_ns;
    absorb(run);
    if (capture) {
        watch->kept_at[watch->kept_count++ % (size_t)watch->rules.per_day] = now;
        rs_log_warn("run %.100s: kept as capture %s (rankscope report %s)", name, capture, capture);
    } else {
        rs_log_warn("run %.100s: nothing could be kept: %.300s", name, text);
    }
}

rs_ns hang_watch_tick(struct rs_server *server, rs_ns now)
{
    struct hang_watch *watch = server->hang_watch;
    if (!watch || server->is_draining)
        return RS_NS_MAX;
    look_at_steps(server, now);
    for (size_t i = 0; i < watch->run_count; i++) {
        struct watched *run = watch->runs[i];
        char what[160];
        if (!run->is_asking && judge(watch, run, now, what, sizeof what) && now >= run->cool_until)
            take(server, run, what, now);
    }
    look_for_dumps(server, now);
    return now + look_every_ns;
}
