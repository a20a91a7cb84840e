/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching a run for a hang: the states stand in hang_watch.h.
 */
#include "common/client/hang_watch.h"

#include "common/base/mem.h"
#include "common/client/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const rs_dur look_every_ns = RS_NS_PER_S;
static const rs_dur settle_ns =
    3 * (rs_dur)RS_NS_PER_S; /* ranks write their dumps one after the other */

/* ---- steps --------------------------------------------------------------------------------------------------- */

enum rs_status rs_hang_steps_see(struct rs_hang_steps *steps, uint32_t rank, int64_t step,
                                 rs_dur step_ns, rs_ns now)
{
    size_t at = 0, end = steps->count;
    if (step < 0)
        return RS_OK;
    while (at < end) {
        const size_t middle = at + (end - at) / 2;
        if (steps->items[middle].rank < rank)
            at = middle + 1;
        else
            end = middle;
    }
    if (at == steps->count || steps->items[at].rank != rank) {
        if (rs_mem_grow((void **)&steps->items, &steps->capacity, steps->count + 1,
                        sizeof *steps->items) < 0)
            return RS_NOMEM;
        memmove(&steps->items[at + 1], &steps->items[at],
                (steps->count - at) * sizeof *steps->items);
        steps->count++;
        steps->newest = now;
        steps->items[at] = (struct rs_hang_step){.rank = rank, .step = step, .step_ns = step_ns};
        return RS_OK;
    }
    struct rs_hang_step *item = &steps->items[at];
    if (item->step == step)
        return RS_OK;
    item->step = step; /* a smaller one, too: the job was started again */
    steps->newest = now;
    if (step_ns > 0)
        item->step_ns = step_ns;
    return RS_OK;
}

static int by_length(const void *a_, const void *b_)
{
    const rs_dur a = *(const rs_dur *)a_, b = *(const rs_dur *)b_;
    return (a > b) - (a < b);
}

rs_dur rs_hang_steps_still(const struct rs_hang_steps *steps, double ratio, rs_dur floor_ns,
                           rs_ns now, rs_dur *limit_p)
{
    rs_dur *lengths = rs_mem_calloc(steps->count + 1, sizeof *lengths);
    size_t known = 0;
    *limit_p = floor_ns;
    if (!lengths || !steps->count) {
        rs_mem_free(lengths);
        return 0;
    }
    for (size_t i = 0; i < steps->count; i++) {
        if (steps->items[i].step_ns > 0)
            lengths[known++] = steps->items[i].step_ns;
    }
    qsort(lengths, known, sizeof *lengths, by_length);
    /* NOLINTNEXTLINE(bugprone-integer-division): an index */
    const double limit = known ? ratio * (double)lengths[known / 2] : 0;
    rs_mem_free(lengths);
    if (limit > (double)floor_ns)
        *limit_p = limit < (double)INT64_MAX / 2 ? (rs_dur)limit : INT64_MAX / 2;
    /* Without the length of one step nobody can say what is long. */
    return known ? now - steps->newest : 0;
}

void rs_hang_steps_fini(struct rs_hang_steps *steps)
{
    rs_mem_free(steps->items);
    *steps = (struct rs_hang_steps){.items = NULL};
}

/* ---- asking --------------------------------------------------------------------------------------------------- */

struct watch {
    const struct rs_hang_watch_options *options;
    struct rs_hang_steps steps;
    rs_ns now;                /* of the table that is read */
    rs_ns dumps_since;        /* realtime: older dumps are known */
    size_t dumps;             /* ranks that wrote one since then */
    bool is_over, has_failed; /* this incident is kept; no memory */
    unsigned kept;
};

static bool on_table(void *self, const Rankscope__Reply *reply)
{
    struct watch *watch = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_RANKS)
        return false;
    for (size_t i = 0; i < reply->ranks->n_ranks; i++) {
        const Rankscope__RankState *rank = reply->ranks->ranks[i];
        if (rank->state != RS_RANK_GONE && rank->step_duration_ns > 0 &&
            rs_hang_steps_see(&watch->steps, rank->rank, rank->step, rank->step_duration_ns,
                              watch->now) < 0)
            watch->has_failed = true;
    }
    return true;
}

static enum rs_status look_at_steps(struct watch *watch, struct rs_err *err)
{
    Rankscope__AskRanks ranks = RANKSCOPE__ASK_RANKS__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    char *run = rs_mem_strdup(watch->options->run);
    if (!run)
        return rs_err_set(err, RS_NOMEM, "no memory to watch");
    ranks.run = run;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_RANKS;
    ask.ranks = &ranks;
    watch->now = rs_time_monotonic();
    const enum rs_status status =
        rs_client_ask(watch->options->address, &ask, on_table, watch, err);
    rs_mem_free(run);
    return watch->has_failed ? rs_err_set(err, RS_NOMEM, "no memory to watch") : status;
}

static bool on_dumps(void *self, const Rankscope__Reply *reply)
{
    struct watch *watch = self;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_CAPTURE)
        watch->dumps = reply->capture->n_ranks;
    return true;
}

struct question {
    Rankscope__AskHang hang;
    Rankscope__Ask ask;
    char *run, *ranks;
};

static enum rs_status question_init(struct question *question, const char *run, const char *ranks,
                                    struct rs_err *err)
{
    rankscope__ask_hang__init(&question->hang);
    rankscope__ask__init(&question->ask);
    question->run = rs_mem_strdup(run);
    question->ranks = rs_mem_strdup(ranks);
    question->hang.run = question->run;
    question->hang.ranks = question->ranks;
    question->ask.message_case = RANKSCOPE__ASK__MESSAGE_HANG;
    question->ask.hang = &question->hang;
    return question->run && question->ranks ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory to ask");
}

static void question_fini(struct question *question)
{
    rs_mem_free(question->run);
    rs_mem_free(question->ranks);
}

/* No collector there, or no such job yet: there is nothing to see. */
static enum rs_status look_for_dumps(struct watch *watch, struct rs_err *err)
{
    struct question question;
    enum rs_status status = question_init(&question, watch->options->run, "", err);
    watch->dumps = 0;
    question.hang.newer_than_ns = watch->dumps_since;
    if (status == RS_OK)
        status = rs_client_ask(watch->options->address, &question.ask, on_dumps, watch, err);
    question_fini(&question);
    return status == RS_REFUSED || status == RS_NOTFOUND ? RS_OK : status;
}

static bool on_capture(void *id, const Rankscope__Reply *reply)
{
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_CAPTURE)
        (void)snprintf(id, 64, "%s", reply->capture->id);
    return reply->message_case == RANKSCOPE__REPLY__MESSAGE_CAPTURE;
}

enum rs_status rs_client_hang(const struct rs_address *address, const char *run, const char *ranks,
                              char id[64], struct rs_err *err)
{
    struct question question;
    enum rs_status status = question_init(&question, run, ranks, err);
    id[0] = '\0';
    if (status == RS_OK)
        status = rs_client_ask(address, &question.ask, on_capture, id, err);
    question_fini(&question);
    if (status >= 0 && !*id)
        status = rs_err_set(err, RS_UNREACHABLE, "the aggregator did not tell of the capture");
    return status;
}

/* ---- the watch ----------------------------------------------------------------------------------------------------- */

static void pause_for(rs_dur length)
{
    const struct timespec time = {.tv_sec = length / RS_NS_PER_S, .tv_nsec = length % RS_NS_PER_S};
    (void)nanosleep(&time, NULL);
}

/* What happened, as a sentence; "" nothing. */
static void judge(struct watch *watch, char *what, size_t bytes)
{
    const struct rs_hang_watch_options *options = watch->options;
    rs_dur limit;
    const rs_dur still = rs_hang_steps_still(
        &watch->steps, options->ratio > 0 ? options->ratio : 10,
        options->floor_ns > 0 ? options->floor_ns : 10 * (rs_dur)RS_NS_PER_S, watch->now, &limit);
    const bool is_still = still > limit;
    what[0] = '\0';
    if (!is_still)
        watch->is_over =
            false; /* they go on, or tell no steps: the next time is another incident */
    if (watch->dumps)
        (void)snprintf(what, bytes, "%zu ranks wrote a flight recorder dump", watch->dumps);
    else if (is_still && !watch->is_over)
        (void)snprintf(what, bytes,
                       "no rank has made a step for %" PRId64 " s (limit %" PRId64 " s)",
                       still / RS_NS_PER_S, limit / RS_NS_PER_S);
}

static enum rs_status take(struct watch *watch, const char *what, struct rs_err *err)
{
    char id[64];
    struct rs_err why = {0};
    if (watch->dumps)
        pause_for(settle_ns);
    const enum rs_status status =
        rs_client_hang(watch->options->address, watch->options->run, "", id, &why);
    if (status == RS_CANCELLED)
        return rs_err_set(err, status, "%s", why.text);
    watch->options->on_incident(watch->options->self, what, status < 0 ? NULL : id, why.text);
    watch->is_over = true;
    watch->dumps_since = rs_time_realtime(); /* what asking made them write is no news */
    watch->kept++;
    return RS_OK;
}

enum rs_status rs_client_hang_watch(const struct rs_hang_watch_options *options, struct rs_err *err)
{
    struct watch watch = {.options = options, .dumps_since = rs_time_realtime()};
    const unsigned budget = options->budget ? options->budget : 5;
    enum rs_status status = RS_OK;
    while (status >= 0 && watch.kept < budget) {
        char what[160];
        status = look_at_steps(&watch, err);
        if (status >= 0)
            status = look_for_dumps(&watch, err);
        if (status < 0)
            break;
        judge(&watch, what, sizeof what);
        if (*what)
            status = take(&watch, what, err);
        else
            pause_for(look_every_ns);
    }
    rs_hang_steps_fini(&watch.steps);
    return status < 0 ? status : RS_OK;
}
