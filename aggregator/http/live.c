/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is there now: ranks, runs, counters; and all three for Prometheus. Labels are bounded: a run has a fixed number of series,
 * and of its ranks only the slowest few have one each.
 */
#include "aggregator/http/api_priv.h"
#include "common/answer/answer.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { SCHEMA_VERSION = 1, RUNS_MAX = 64, SLOWEST = 5 };

/* ---- ranks, page by page ------------------------------------------------------------------------------------------ */

struct table {
    Rankscope__Reply **replies; /* that the ranks lie in */
    size_t reply_count, reply_capacity;
    Rankscope__RankState **ranks;
    size_t count, capacity;
};

static void table_fini(struct table *table)
{
    for (size_t i = 0; i < table->reply_count; i++)
        rankscope__reply__free_unpacked(table->replies[i], NULL);
    rs_mem_free(table->replies);
    rs_mem_free(table->ranks);
    *table = (struct table){0};
}

/* Takes the reply. */
static enum rs_status add_page(void *self, Rankscope__Reply *reply)
{
    struct table *table = self;
    const Rankscope__RankTable *page = reply->ranks;
    if (rs_mem_grow((void **)&table->replies, &table->reply_capacity, table->reply_count + 1,
                    sizeof(Rankscope__Reply *)) < 0) {
        rankscope__reply__free_unpacked(reply, NULL);
        return RS_NOMEM;
    }
    table->replies[table->reply_count++] = reply;
    if (rs_mem_grow((void **)&table->ranks, &table->capacity, table->count + page->n_ranks + 1,
                    sizeof(Rankscope__RankState *)) < 0)
        return RS_NOMEM;
    for (size_t i = 0; i < page->n_ranks; i++)
        table->ranks[table->count++] = page->ranks[i];
    return RS_OK;
}

/* By run and rank. False: the answer says why. */
static bool read_ranks(struct api_ask *ask, const char *run, struct table *table)
{
    Rankscope__AskRanks question = RANKSCOPE__ASK_RANKS__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    question.run = api_lend(run ? run : "");
    message.message_case = RANKSCOPE__ASK__MESSAGE_RANKS;
    message.ranks = &question;
    if (!api_each(ask, &message, RANKSCOPE__REPLY__MESSAGE_RANKS, add_page, table))
        return false;
    rs_answer_sort_ranks(table->ranks, table->count);
    return true;
}

void route_ranks(struct api_ask *ask)
{
    struct table table = {0};
    struct rs_buf body = {0};
    if (read_ranks(ask, rs_http_query(ask->request, "run"), &table)) {
        rs_answer_ranks((const Rankscope__RankState *const *)table.ranks, table.count, 0, &body);
        api_json(ask, &body);
    }
    table_fini(&table);
}

/* ---- following: server-sent events --------------------------------------------------------------------------------- */

static const rs_dur look_every_ns = RS_NS_PER_S;
static const rs_dur keep_alive_ns = 10 * (rs_dur)RS_NS_PER_S;

/* A rank as it was sent last. */
struct sent {
    uint64_t who, what; /* digests: run, rank, incarnation; everything but when it was heard of */
};

struct stream {
    struct rs_api *api;
    struct rs_http *listener;
    struct rs_identity who;
    char from[80], run[API_PARAMETER_BYTES];
    bool has_run;
    struct sent *sent; /* of the last look, in the table's order */
    size_t count;
    uint64_t event;
    rs_ns next_at, spoke_at; /* monotonic */
};

static uint64_t digest_of(const void *data, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, length, seed);
}

static struct sent digest_rank(const Rankscope__RankState *rank, struct rs_buf *scratch)
{
    Rankscope__RankState still = *rank;
    struct sent sent = {
        .who = digest_of(rank->run, strlen(rank->run),
                         digest_of(rank->incarnation, strlen(rank->incarnation), rank->rank))};
    still.seen_ns = 0;
    still.free_memory_bytes = 0;
    still.free_disk_bytes = 0; /* moves all the time, and tells nobody anything */
    rs_buf_reset(scratch);
    rs_wire_pack(&still.base, scratch);
    sent.what = digest_of(scratch->data, scratch->length, 0);
    return sent;
}

static const struct sent *find_sent(const struct stream *stream, uint64_t who)
{
    for (size_t i = 0; i < stream->count; i++)
        if (stream->sent[i].who == who)
            return &stream->sent[i];
    return NULL;
}

/* Ranks that are new or other than they were; the first time all of them. With them, ranks that are forgotten show by `count`. */
static enum rs_status put_changes(struct stream *stream, const struct table *table,
                                  struct rs_buf *buf)
{
    struct sent *now = rs_mem_calloc(table->count + 1, sizeof *now);
    const Rankscope__RankState **changed =
        rs_mem_calloc(table->count + 1, sizeof(Rankscope__RankState *));
    struct rs_buf scratch = {0};
    size_t count = 0, same = 0;
    for (size_t i = 0; now && changed && i < table->count; i++) {
        now[i] = digest_rank(table->ranks[i], &scratch);
        /* Mostly the table is as it was, and a rank where it was. */
        const struct sent *before = i < stream->count && stream->sent[i].who == now[i].who
                                        ? &stream->sent[i]
                                        : find_sent(stream, now[i].who);
        same += before != NULL;
        if (!before || before->what != now[i].what)
            changed[count++] = table->ranks[i];
    }
    const bool is_short = !now || !changed || scratch.failed;
    const bool has_lost = same < stream->count; /* some are forgotten: begin again */
    if (!is_short && (count || has_lost || !stream->event)) {
        const bool is_all = has_lost || !stream->event;
        rs_buf_printf(buf, "id: %llu\nevent: %s\ndata: ", (unsigned long long)++stream->event,
                      is_all ? "ranks" : "changed");
        if (is_all)
            rs_answer_ranks((const Rankscope__RankState *const *)table->ranks, table->count, 0,
                            buf);
        else
            rs_answer_ranks(changed, count, 0, buf);
        rs_buf_string(buf, "\n\n");
    }
    rs_buf_fini(&scratch);
    rs_mem_free(changed);
    rs_mem_free(stream->sent);
    stream->sent = now;
    stream->count = now ? table->count : 0;
    return is_short ? RS_NOMEM : RS_OK;
}

static enum rs_status next_ranks(void *self, struct rs_buf *buf)
{
    struct stream *stream = self;
    const struct rs_http_request request = {.who = &stream->who, .from = stream->from};
    struct rs_http_answer unused = {.status = 200};
    struct api_ask ask = {.api = stream->api, .request = &request, .answer = &unused};
    struct table table = {0};
    struct rs_err why = {0};
    enum rs_status status = RS_OK;
    while (status == RS_OK && !buf->length) {
        if (!api_sleep_until(stream->api, stream->next_at))
            return RS_UNREACHABLE;
        if (rs_http_check(stream->listener, &stream->who, &why) < 0)
            return RS_REFUSED; /* revoked meanwhile, or over */
        stream->next_at = rs_time_monotonic() + look_every_ns;
        status = read_ranks(&ask, stream->has_run ? stream->run : NULL, &table)
                     ? put_changes(stream, &table, buf)
                     : RS_UNREACHABLE; /* the service stops */
        table_fini(&table);
        if (!buf->length && rs_time_monotonic() - stream->spoke_at > keep_alive_ns)
            rs_buf_string(buf, ": nothing new\n\n");
    }
    stream->spoke_at = rs_time_monotonic();
    rs_buf_fini(&unused.body);
    return status;
}

static void end_ranks(void *self)
{
    struct stream *stream = self;
    rs_mem_free(stream->sent);
    rs_mem_free(stream);
}

void route_ranks_stream(struct api_ask *ask)
{
    const char *run = rs_http_query(ask->request, "run");
    struct stream *stream = rs_mem_calloc(1, sizeof *stream);
    if (!stream || (run && strlen(run) >= sizeof stream->run)) {
        rs_http_problem_as(ask->answer, stream ? 400 : 500,
                           stream ? "no run has such a name" : "out of memory");
        rs_mem_free(stream);
        return;
    }
    if (run && !rs_identity_is_of_run(ask->request->who, run)) {
        rs_http_problem_as(ask->answer, 403, "the token is of another run alone");
        rs_http_tell_refused(ask->request, ask->answer);
        rs_mem_free(stream);
        return;
    }
    stream->api = ask->api;
    stream->listener = ask->request->listener;
    stream->who = *ask->request->who;
    stream->has_run = run != NULL;
    (void)snprintf(stream->from, sizeof stream->from, "%s", ask->request->from);
    (void)snprintf(stream->run, sizeof stream->run, "%s", run ? run : "");
    ask->answer->type = "text/event-stream";
    ask->answer->next = next_ranks;
    ask->answer->end = end_ranks;
    ask->answer->self = stream;
}

/* ---- runs ---------------------------------------------------------------------------------------------------------- */

struct run {
    const char *name;
    Rankscope__RankState **ranks; /* in the table */
    size_t processes;             /* in the table: of a rank that was started again more than one */
    size_t count, gone, recording, capturable, hosts; /* ranks */
    uint32_t world;
    int64_t first_step, last_step; /* of ranks that are there; -1: nobody tells one */
    int64_t median_ns, worst_ns;   /* of their last step; 0: nobody tells one */
    uint64_t dropped;
};

static int by_value(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* A rank that was started again is one rank: it is gone when all of its processes are. */
static void count_process(struct run *run, const Rankscope__RankState *rank,
                          const Rankscope__RankState *before, bool *is_there)
{
    const bool is_gone = rank->state == RS_RANK_GONE;
    const bool is_first = !before || before->rank != rank->rank;
    run->count += is_first;
    run->gone += is_first;
    if (is_first)
        *is_there = false;
    if (!is_gone && !*is_there) {
        *is_there = true;
        run->gone--;
    }
    run->recording += *rank->capture != '\0';
    run->capturable += rank->can_capture && !is_gone;
    run->dropped += rank->events_dropped;
    if (rank->world > run->world)
        run->world = rank->world;
    if (is_gone || rank->step < 0)
        return;
    if (run->first_step < 0 || rank->step < run->first_step)
        run->first_step = rank->step;
    if (rank->step > run->last_step)
        run->last_step = rank->step;
}

/* Median and worst of the steps of ranks that are there, and how many hosts they are on. */
static bool measure(struct run *run)
{
    int64_t *steps = rs_mem_calloc(run->processes + 1, sizeof *steps);
    const char **hosts = rs_mem_calloc(run->processes + 1, sizeof(char *));
    size_t step_count = 0, host_count = 0;
    for (size_t i = 0; steps && hosts && i < run->processes; i++) {
        const Rankscope__RankState *rank = run->ranks[i];
        if (rank->state == RS_RANK_GONE)
            continue;
        hosts[host_count++] = *rank->node ? rank->node : rank->host;
        if (rank->step_duration_ns > 0)
            steps[step_count++] = rank->step_duration_ns;
    }
    if (step_count) {
        qsort(steps, step_count, sizeof *steps, by_value);
        run->median_ns = steps[step_count / 2];
        run->worst_ns = steps[step_count - 1];
    }
    if (host_count)
        qsort(hosts, host_count, sizeof(char *), by_text);
    for (size_t i = 0; i < host_count; i++)
        run->hosts += i == 0 || strcmp(hosts[i], hosts[i - 1]) != 0;
    const bool is_fine = steps && hosts;
    rs_mem_free(steps);
    rs_mem_free(hosts);
    return is_fine;
}

/* The run that begins at rank `first` of the table. False: no memory. */
static bool read_run(const struct table *table, size_t first, struct run *run_p)
{
    struct run run = {.name = table->ranks[first]->run,
                      .ranks = &table->ranks[first],
                      .first_step = -1,
                      .last_step = -1};
    bool is_there = false;
    for (size_t i = first; i < table->count && strcmp(table->ranks[i]->run, run.name) == 0; i++) {
        count_process(&run, table->ranks[i], run.processes ? table->ranks[i - 1] : NULL, &is_there);
        run.processes++;
    }
    *run_p = run;
    return measure(run_p);
}

static void key_number(struct rs_json_out *json, const char *key, int64_t value, bool is_known)
{
    rs_json_out_key(json, key);
    if (is_known)
        rs_json_out_int(json, value);
    else
        rs_json_out_null(json);
}

static void put_run(struct rs_json_out *json, const struct run *run)
{
    rs_json_out_object(json);
    rs_json_out_key(json, "run");
    rs_json_out_string(json, run->name);
    key_number(json, "ranks", (int64_t)run->count, true);
    key_number(json, "world", run->world, run->world != 0);
    key_number(json, "gone", (int64_t)run->gone, true);
    key_number(json, "recording", (int64_t)run->recording, true);
    key_number(json, "can_capture", (int64_t)run->capturable, true);
    key_number(json, "nodes", (int64_t)run->hosts, true);
    key_number(json, "first_step", run->first_step, run->first_step >= 0);
    key_number(json, "last_step", run->last_step, run->last_step >= 0);
    key_number(json, "step_duration_median_ns", run->median_ns, run->median_ns > 0);
    key_number(json, "step_duration_max_ns", run->worst_ns, run->worst_ns > 0);
    rs_json_out_end(json);
}

void route_runs(struct api_ask *ask)
{
    struct table table = {0};
    struct rs_buf body = {0};
    struct rs_json_out json;
    if (!read_ranks(ask, rs_http_query(ask->request, "run"), &table)) {
        table_fini(&table);
        return;
    }
    rs_json_out_init(&json, &body, 0);
    rs_json_out_object(&json);
    key_number(&json, "schema_version", SCHEMA_VERSION, true);
    rs_json_out_key(&json, "runs");
    rs_json_out_array(&json);
    for (size_t first = 0; first < table.count;) {
        struct run run;
        body.failed |= !read_run(&table, first, &run);
        put_run(&json, &run);
        first += run.processes;
    }
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    api_json(ask, &body);
    table_fini(&table);
}

/* ---- counters ------------------------------------------------------------------------------------------------------ */

struct daemons {
    Rankscope__Reply **replies; /* that the texts lie in */
    struct rs_counter_set *sets;
    size_t count, capacity, reply_count, reply_capacity;
};

static void daemons_fini(struct daemons *daemons)
{
    for (size_t i = 0; i < daemons->reply_count; i++)
        rankscope__reply__free_unpacked(daemons->replies[i], NULL);
    rs_mem_free(daemons->replies);
    rs_mem_free(daemons->sets);
}

/* Takes the reply. */
static enum rs_status add_daemons(void *self, Rankscope__Reply *reply)
{
    struct daemons *daemons = self;
    const Rankscope__CounterTable *table = reply->counters;
    if (rs_mem_grow((void **)&daemons->replies, &daemons->reply_capacity, daemons->reply_count + 1,
                    sizeof(Rankscope__Reply *)) < 0) {
        rankscope__reply__free_unpacked(reply, NULL);
        return RS_NOMEM;
    }
    daemons->replies[daemons->reply_count++] = reply;
    for (size_t i = 0; i < table->n_daemons; i++) {
        const Rankscope__CounterSet *from = table->daemons[i];
        if (rs_mem_grow((void **)&daemons->sets, &daemons->capacity, daemons->count + 1,
                        sizeof *daemons->sets) < 0)
            return RS_NOMEM;
        struct rs_counter_set *set = &daemons->sets[daemons->count++];
        *set = (struct rs_counter_set){
            .daemon = from->daemon, .node = from->node, .instance = from->instance};
        for (size_t k = 0; k < from->n_counters; k++) {
            const enum rs_counter counter = rs_counter_find(from->counters[k]->name);
            if (counter == RS_COUNT_END)
                continue;
            set->values[counter] = from->counters[k]->value;
            set->has[counter] = true;
        }
    }
    return RS_OK;
}

static bool read_daemons(struct api_ask *ask, struct daemons *daemons)
{
    Rankscope__AskCounters question = RANKSCOPE__ASK_COUNTERS__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    message.message_case = RANKSCOPE__ASK__MESSAGE_COUNTERS;
    message.counters = &question;
    return api_each(ask, &message, RANKSCOPE__REPLY__MESSAGE_COUNTERS, add_daemons, daemons);
}

void route_counters(struct api_ask *ask)
{
    struct daemons daemons = {0};
    struct rs_buf body = {0};
    if (read_daemons(ask, &daemons)) {
        rs_answer_counters(daemons.sets, daemons.count, 0, &body);
        api_json(ask, &body);
    }
    daemons_fini(&daemons);
}

void route_aggregators(struct api_ask *ask)
{
    Rankscope__AskAggregators question = RANKSCOPE__ASK_AGGREGATORS__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    struct rs_buf body = {0};
    message.message_case = RANKSCOPE__ASK__MESSAGE_AGGREGATORS;
    message.aggregators = &question;
    Rankscope__Reply *reply = api_ask(ask, &message, RANKSCOPE__REPLY__MESSAGE_AGGREGATORS);
    if (!reply)
        return;
    rs_answer_aggregators(reply->aggregators, 0, &body);
    api_json(ask, &body);
    rankscope__reply__free_unpacked(reply, NULL);
}

/* ---- for Prometheus ------------------------------------------------------------------------------------------------ */

struct series {
    const char *name, *help;
    double (*value)(const struct run *run);
    bool (*is_known)(const struct run *run); /* NULL: always */
};

static double ranks_of(const struct run *run)
{
    return (double)run->count;
}

static double gone_of(const struct run *run)
{
    return (double)run->gone;
}

static double recording_of(const struct run *run)
{
    return (double)run->recording;
}

static double nodes_of(const struct run *run)
{
    return (double)run->hosts;
}

static double world_of(const struct run *run)
{
    return (double)run->world;
}

static double step_of(const struct run *run)
{
    return (double)run->last_step;
}

static double behind_of(const struct run *run)
{
    return (double)(run->last_step - run->first_step);
}

static double median_of(const struct run *run)
{
    return (double)run->median_ns / (double)RS_NS_PER_S;
}

static double worst_of(const struct run *run)
{
    return (double)run->worst_ns / (double)RS_NS_PER_S;
}

static double dropped_of(const struct run *run)
{
    return (double)run->dropped;
}

static bool has_world(const struct run *run)
{
    return run->world != 0;
}

static bool has_step(const struct run *run)
{
    return run->last_step >= 0;
}

static bool has_duration(const struct run *run)
{
    return run->median_ns > 0;
}

static const struct series all_series[] = {
    {"rankscope_run_ranks", "ranks of the run in the live table", ranks_of, NULL},
    {"rankscope_run_world", "ranks that the run says it has", world_of, has_world},
    {"rankscope_run_gone_ranks", "ranks of the run that ended or are not told of any more", gone_of,
     NULL},
    {"rankscope_run_recording_ranks", "ranks of the run that record now", recording_of, NULL},
    {"rankscope_run_nodes", "nodes that its ranks are on", nodes_of, NULL},
    {"rankscope_run_step", "the step of the rank that is furthest", step_of, has_step},
    {"rankscope_run_steps_behind", "steps between the first and the last of its ranks", behind_of,
     has_step},
    {"rankscope_run_step_seconds", "median over its ranks of how long the last step took",
     median_of, has_duration},
    {"rankscope_run_step_seconds_max", "the same of the slowest rank", worst_of, has_duration},
    {"rankscope_run_dropped_events", "events that its ranks could not keep", dropped_of, NULL},
};

static void put_series(const struct run *runs, size_t count, struct rs_buf *buf)
{
    for (size_t i = 0; i < sizeof all_series / sizeof all_series[0]; i++) {
        const struct series *series = &all_series[i];
        rs_buf_printf(buf, "# HELP %s %s.\n# TYPE %s gauge\n", series->name, series->help,
                      series->name);
        for (size_t k = 0; k < count; k++) {
            if (series->is_known && !series->is_known(&runs[k]))
                continue;
            rs_buf_printf(buf, "%s{", series->name);
            rs_prometheus_label("run", runs[k].name, buf);
            rs_buf_printf(buf, "} %.10g\n", series->value(&runs[k]));
        }
    }
}

static int by_duration(const void *left, const void *right)
{
    const Rankscope__RankState *a = *(Rankscope__RankState *const *)left;
    const Rankscope__RankState *b = *(Rankscope__RankState *const *)right;
    return (a->step_duration_ns < b->step_duration_ns) -
           (a->step_duration_ns > b->step_duration_ns);
}

/* The slowest ranks of each run; sorts them in place. */
static void put_slowest(const struct run *runs, size_t count, struct rs_buf *buf)
{
    static const char name[] = "rankscope_rank_step_seconds";
    rs_buf_printf(buf,
                  "# HELP %s How long the last step took, of the slowest %d ranks of each run.\n"
                  "# TYPE %s gauge\n",
                  name, SLOWEST, name);
    for (size_t k = 0; k < count; k++) {
        size_t put = 0;
        qsort(runs[k].ranks, runs[k].processes, sizeof(Rankscope__RankState *), by_duration);
        for (size_t i = 0; i < runs[k].processes && put < SLOWEST; i++) {
            const Rankscope__RankState *rank = runs[k].ranks[i];
            if (rank->state == RS_RANK_GONE || rank->step_duration_ns <= 0)
                continue;
            rs_buf_printf(buf, "%s{", name);
            rs_prometheus_label("run", runs[k].name, buf);
            rs_buf_printf(buf, ",rank=\"%u\",", rank->rank);
            rs_prometheus_label("node", *rank->node ? rank->node : rank->host, buf);
            rs_buf_printf(buf, "} %.10g\n", (double)rank->step_duration_ns / (double)RS_NS_PER_S);
            put++;
        }
    }
}

static void put_runs(const struct table *table, struct rs_buf *buf)
{
    struct run *runs = rs_mem_calloc(RUNS_MAX, sizeof *runs);
    size_t count = 0, left_out = 0;
    buf->failed |= !runs;
    for (size_t first = 0; runs && first < table->count;) {
        struct run run;
        buf->failed |= !read_run(table, first, &run);
        first += run.processes;
        if (count < RUNS_MAX)
            runs[count++] = run;
        else
            left_out++;
    }
    if (runs) {
        put_series(runs, count, buf);
        put_slowest(runs, count, buf);
    }
    rs_buf_printf(buf,
                  "# HELP rankscope_runs_left_out Runs beyond the first %d, which have no series.\n"
                  "# TYPE rankscope_runs_left_out gauge\nrankscope_runs_left_out %zu\n",
                  RUNS_MAX, left_out);
    rs_mem_free(runs);
}

void route_metrics(struct api_ask *ask)
{
    struct daemons daemons = {0};
    struct table table = {0};
    struct rs_buf body = {0};
    if (read_daemons(ask, &daemons) && read_ranks(ask, NULL, &table)) {
        rs_counters_prometheus(daemons.sets, daemons.count, &body);
        put_runs(&table, &body);
        ask->answer->type = "text/plain; version=0.0.4; charset=utf-8";
        ask->answer->body = body;
    }
    table_fini(&table);
    daemons_fini(&daemons);
}
