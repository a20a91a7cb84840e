/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are missing: told once, when the others of their run have been there without them for a while.
 *
 *   WHOLE --a rank that was there is not--> MISSING --for missing_ns--> told: "rank_missing"; who is there now is whole
 *     ^                                        |                                        |
 *     +------- it is back, or all are gone ----+ <--------------------------------------+
 *
 * Whole is what was there once, not what the world size promises: ranks on nodes without a collector are nobody's news. A run
 * all of whose ranks are gone has ended. What was told is forgotten with the process: after a start, whole is what comes.
 */
#include "aggregator/server/server_priv.h"
#include "common/base/buf.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "missing"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX = 64, NAMED_MAX = 8 };

static const rs_dur look_every_ns = RS_NS_PER_S;
static const rs_dur missing_default_ns = 30 * (rs_dur)RS_NS_PER_S;

struct numbers {
    uint32_t *items; /* ascending, each once, after settle() */
    size_t count, capacity;
};

struct watched {
    char run[RS_COORD_TEXT_BYTES];
    struct numbers whole, here; /* `here` of this look */
    size_t away;                /* of this look: processes whose collector is away */
    rs_ns since;                /* monotonic: since when one is missing; 0 none */
};

struct missing_watch {
    rs_ns next_look;
    struct watched runs[RUNS_MAX];
    size_t run_count;
};

enum rs_status missing_watch_start(struct rs_server *server, struct rs_err *err)
{
    if (!server->options.on_alarm)
        return RS_OK;
    server->missing_watch = rs_mem_calloc(1, sizeof *server->missing_watch);
    return server->missing_watch ? RS_OK
                                 : rs_err_set(err, RS_NOMEM, "no memory to watch for ranks");
}

static void run_fini(struct watched *run)
{
    rs_mem_free(run->whole.items);
    rs_mem_free(run->here.items);
    *run = (struct watched){.since = 0};
}

void missing_watch_fini(struct rs_server *server)
{
    struct missing_watch *watch = server->missing_watch;
    server->missing_watch = NULL;
    for (size_t i = 0; watch && i < watch->run_count; i++)
        run_fini(&watch->runs[i]);
    rs_mem_free(watch);
}

/* NULL: more runs than are watched. */
static struct watched *find_run(struct missing_watch *watch, const char *name)
{
    for (size_t i = 0; i < watch->run_count; i++)
        if (strcmp(watch->runs[i].run, name) == 0)
            return &watch->runs[i];
    if (watch->run_count == RUNS_MAX)
        return NULL;
    struct watched *run = &watch->runs[watch->run_count++];
    *run = (struct watched){.since = 0}; /* what lies there was moved away when another run ended */
    (void)snprintf(run->run, sizeof run->run, "%s", name);
    return run;
}

static bool add(struct numbers *numbers, uint32_t rank)
{
    if (rs_mem_grow((void **)&numbers->items, &numbers->capacity, numbers->count + 1,
                    sizeof *numbers->items) < 0)
        return false;
    numbers->items[numbers->count++] = rank;
    return true;
}

static int by_number(const void *a_, const void *b_)
{
    const uint32_t a = *(const uint32_t *)a_, b = *(const uint32_t *)b_;
    return (a > b) - (a < b);
}

static void settle(struct numbers *numbers)
{
    size_t kept = 0;
    if (!numbers->count)
        return;
    qsort(numbers->items, numbers->count, sizeof *numbers->items, by_number);
    for (size_t i = 0; i < numbers->count; i++)
        if (!kept || numbers->items[kept - 1] != numbers->items[i])
            numbers->items[kept++] = numbers->items[i];
    numbers->count = kept;
}

/* False: no memory, so that this look says nothing. */
static bool gather(struct rs_server *server)
{
    struct missing_watch *watch = server->missing_watch;
    struct watched *run = NULL;
    for (size_t i = 0; i < watch->run_count; i++)
        watch->runs[i].here.count = watch->runs[i].away = 0;
    for (size_t i = 0; i < rs_coord_seen_count(server->coord); i++) {
        const struct rs_coord_seen *seen = rs_coord_seen(server->coord, i);
        if (!run || strcmp(run->run, seen->run) != 0)
            run = find_run(watch, seen->run);
        if (!run)
            continue;
        run->away += !seen->link && seen->state != RS_RANK_GONE;
        if (seen->link && seen->state != RS_RANK_GONE && !add(&run->here, seen->rank))
            return false;
    }
    return true;
}

/* Those of `whole` that are not here; what names them, the first ones. */
static size_t count_missing(const struct watched *run, char *text, size_t bytes)
{
    size_t missing = 0, at = 0, used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < run->whole.count; i++) {
        const uint32_t rank = run->whole.items[i];
        while (at < run->here.count && run->here.items[at] < rank)
            at++;
        if (at < run->here.count && run->here.items[at] == rank)
            continue;
        if (++missing <= NAMED_MAX)
            used +=
                (size_t)snprintf(text + used, bytes - used, "%s%" PRIu32, used ? ", " : "", rank);
    }
    if (missing > NAMED_MAX)
        (void)snprintf(text + used, bytes - used, ", ...");
    return missing;
}

/* What is here becomes whole. */
static void learn(struct watched *run)
{
    const struct numbers before = run->whole;
    run->whole = run->here;
    run->here = before;
    run->since = 0;
}

static void tell(struct rs_server *server, const struct watched *run, size_t missing,
                 const char *names)
{
    char text[600];
    (void)snprintf(text, sizeof text,
                   "Run %.200s: %zu of %zu ranks %s missing: %s%s; the others are there", run->run,
                   missing, run->whole.count, missing == 1 ? "is" : "are", names,
                   run->away ? " (a node's collector is away)" : "");
    rs_log_warn("%s", text);
    server->options.on_alarm(server->options.alarm_self, "rank_missing", run->run, "", text);
}

static void decide(struct rs_server *server, struct watched *run, rs_ns now)
{
    char names[NAMED_MAX * 12 + 8];
    const rs_dur patience =
        server->options.missing_ns ? server->options.missing_ns : missing_default_ns;
    settle(&run->here);
    const size_t missing = count_missing(run, names, sizeof names);
    if (!missing) {
        learn(run);
        return;
    }
    if (!run->since)
        run->since = now;
    if (now - run->since < patience)
        return;
    tell(server, run, missing, names);
    learn(run);
}

rs_ns missing_watch_tick(struct rs_server *server, rs_ns now)
{
    struct missing_watch *watch = server->missing_watch;
    if (!watch || server->is_draining)
        return RS_NS_MAX;
    if (now < watch->next_look)
        return watch->next_look;
    watch->next_look = now + look_every_ns;
    if (!gather(server))
        return watch->next_look;
    for (size_t i = 0; i < watch->run_count;) {
        if (watch->runs[i].here.count) {
            decide(server, &watch->runs[i++], now);
        } else { /* it ended; its place is another's */
            run_fini(&watch->runs[i]);
            watch->runs[i] = watch->runs[--watch->run_count];
        }
    }
    return watch->next_look;
}
