/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster of made-up nodes against a real aggregator: thousands of ranks in one process.
 *
 *   bench_swarm --connect ADDR --dir DIR [--run NAME] [--ranks N] [--links N] [--ops N] [--certs DIR] [--step-ms N] [--slow-rank N]
 *
 * Each link is a node as the aggregator sees one: a spool, an uplink, an adapter's table and mailboxes, all of them the collector's
 * own code, on a thread of its own. Only the ranks are made up: they step by the clock, and what a recording of one holds is computed.
 *
 *   PREPARE --> armed    COMMIT --> waits for its last step --> packs the rows of those steps: summary and raw lane --> acked
 *
 * The job is tensor parallel in eights and data parallel across: in each step --ops (10) all-reduces, all but two in the eight, one among those of equal place
 * in 512 eights, and one among those of equal place in such blocks, as hybrid sharding has them; every rank computing before each of them, and one rank a fifth longer before the eights' last one.
 * Of the whole job the clock of every rank is followed through every operation, so waits are what they would be.
 *
 * With --certs each node shows the certificate in DIR/NODE (node0000, ...). Ends at end of file on stdin. Prints a line of JSON when all
 * links are up, one whenever so many ranks as there are have been packed, and one at the end.
 */
#include "collector/agent/adapter.h"
#include "collector/pack/pack.h"
#include "collector/source/source.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/wire/link.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    EIGHT = 8,
    BLOCK = 512 * EIGHT,
    ACROSS_OPS = 2, /* the last of a step */
    BATCH_ROWS = 512
};

static struct {
    const char *connect, *dir, *certs, *run;
    uint32_t ranks, links, ops, step_ms, slow_rank;
    rs_ns epoch; /* Unix ns of step 0 */
    atomic_bool must_stop;
    atomic_uint links_up, streams_written;
} swarm = {.run = "swarm",
           .ranks = 1000,
           .links = 25,
           .ops = 10,
           .step_ms = 1000,
           .slow_rank = UINT32_MAX};

static void fail_with(const char *what, const struct rs_err *err)
{
    fprintf(stderr, "bench_swarm: %s: %s\n", what, err ? err->text : "");
    exit(1);
}

/* ---- the job ------------------------------------------------------------------------------------------- */

/* Steps [first, first + steps) of all ranks. */
struct recording {
    struct recording *next;
    int64_t first;
    uint32_t steps;
    rs_ns *times; /* per rank, step and operation: compute begins, arrives, ends */
};

static struct {
    pthread_mutex_t lock;
    struct recording *all;
} recordings = {.lock = PTHREAD_MUTEX_INITIALIZER};

static rs_ns *times_of(const struct recording *recording, uint32_t rank, uint32_t step, unsigned op)
{
    return recording->times + (((size_t)rank * recording->steps + step) * swarm.ops + op) * 3;
}

/* 0 to 1, the same for the same place. */
static double noise(uint32_t rank, int64_t step, unsigned op)
{
    uint64_t x = ((uint64_t)rank << 40) ^ ((uint64_t)step << 8) ^ op;
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

/* The first operation of a step that is not within an eight. */
static unsigned first_across(void)
{
    return swarm.ops - ACROSS_OPS;
}

static bool is_across(unsigned op)
{
    return op >= first_across();
}

/* Ranks [first, end) that are `apart` from each other. */
struct group {
    uint32_t number, first, end, apart;
};

static struct group group_of(uint32_t rank, unsigned op)
{
    const uint32_t block = rank / BLOCK;
    struct group group = {rank / EIGHT, rank / EIGHT * EIGHT, rank / EIGHT * EIGHT + EIGHT, 1};
    if (is_across(op) && (op == first_across() || swarm.ranks <= BLOCK))
        group = (struct group){block * EIGHT + rank % EIGHT, block * BLOCK + rank % EIGHT,
                               (block + 1) * BLOCK, EIGHT};
    else if (is_across(op))
        group = (struct group){rank % BLOCK, rank % BLOCK, swarm.ranks, BLOCK};
    group.end = group.end < swarm.ranks ? group.end : swarm.ranks;
    return group;
}

static rs_dur own_work(uint32_t rank, int64_t step, unsigned op)
{
    const double share = 0.8 * (double)swarm.step_ms * 1e6 / swarm.ops;
    const bool is_slow = rank == swarm.slow_rank && op == first_across() - 1;
    return (rs_dur)(share * (0.99 + 0.02 * noise(rank, step, op)) +
                    (is_slow ? 0.1 * (double)swarm.step_ms * 1e6 : 0));
}

static void follow(struct recording *recording)
{
    const uint32_t groups = swarm.ranks / EIGHT + BLOCK + EIGHT; /* more than any operation has */
    rs_ns *clocks = rs_mem_calloc(swarm.ranks, sizeof *clocks);
    rs_ns *last = rs_mem_calloc(groups, sizeof *last);
    if (!clocks || !last)
        fail_with("out of memory", NULL);
    for (uint32_t step = 0; step < recording->steps; step++) {
        const int64_t number = recording->first + step;
        for (uint32_t rank = 0; rank < swarm.ranks; rank++)
            clocks[rank] = swarm.epoch + number * (int64_t)swarm.step_ms * RS_NS_PER_MS;
        for (unsigned op = 0; op < swarm.ops; op++) {
            memset(last, 0, groups * sizeof *last);
            for (uint32_t rank = 0; rank < swarm.ranks; rank++) {
                rs_ns *times = times_of(recording, rank, step, op);
                const uint32_t group = group_of(rank, op).number;
                times[0] = clocks[rank];
                times[1] = clocks[rank] + own_work(rank, number, op);
                last[group] = times[1] > last[group] ? times[1] : last[group];
            }
            for (uint32_t rank = 0; rank < swarm.ranks; rank++)
                times_of(recording, rank, step, op)[2] = clocks[rank] =
                    last[group_of(rank, op).number] + 200 * (rs_ns)RS_NS_PER_US;
        }
    }
    rs_mem_free(clocks);
    rs_mem_free(last);
}

/* The same of all ranks of a capture: the first to ask computes it. */
static const struct recording *recording_of(int64_t first, uint32_t steps)
{
    (void)pthread_mutex_lock(&recordings.lock);
    struct recording *found = recordings.all;
    while (found && (found->first != first || found->steps != steps))
        found = found->next;
    if (!found) {
        found = rs_mem_calloc(1, sizeof *found);
        if (!found)
            fail_with("out of memory", NULL);
        *found = (struct recording){.next = recordings.all, .first = first, .steps = steps};
        found->times =
            rs_mem_calloc((size_t)swarm.ranks * steps * swarm.ops * 3, sizeof *found->times);
        if (!found->times)
            fail_with("out of memory", NULL);
        follow(found);
        recordings.all = found;
    }
    (void)pthread_mutex_unlock(&recordings.lock);
    return found;
}

/* ---- one rank's rows -------------------------------------------------------------------------------------- */

static rs_str text_id(struct rs_strtab *strings, const char *text)
{
    rs_str id = RS_STR_EMPTY;
    if (rs_strtab_add(strings, text, strlen(text), &id) < 0)
        fail_with("out of memory", NULL);
    return id;
}

/* "[0, 8, 16]" */
static rs_str ranks_id(struct rs_strtab *strings, const struct group *group)
{
    struct rs_buf text = {0};
    for (uint32_t other = group->first; other < group->end; other += group->apart)
        rs_buf_printf(&text, "%s%" PRIu32, other == group->first ? "[" : ", ", other);
    rs_buf_string(&text, "]");
    const rs_str id = text_id(strings, rs_buf_text(&text));
    rs_buf_fini(&text);
    return id;
}

/* Of an operation: in the eight, in the block, across blocks. */
enum kind { IN_EIGHT, IN_BLOCK, ACROSS_BLOCKS, KINDS };

static enum kind kind_of(unsigned op)
{
    if (!is_across(op))
        return IN_EIGHT;
    return op == first_across() || swarm.ranks <= BLOCK ? IN_BLOCK : ACROSS_BLOCKS;
}

struct rows {
    struct rs_source_stream stream;
    struct rs_batch batch;
    struct rs_pack *pack;
    rs_str step, compute, all_reduce, transport, names[KINDS], members[KINDS];
    uint32_t lane, rank;
    int64_t sequence[KINDS];
    int64_t count;
};

static size_t add_row(struct rows *rows, enum rs_kind kind, rs_str name, rs_ns start, rs_ns end)
{
    struct rs_err err = {0};
    size_t row = 0;
    if (rows->batch.count == rows->batch.capacity) {
        const struct rs_sink sink = rs_pack_sink(rows->pack);
        if (sink.batch(sink.self, &rows->batch, &err) < 0)
            fail_with("cannot pack", &err);
        rs_batch_reset(&rows->batch);
    }
    if (rs_batch_row(&rows->batch, &row) != RS_OK)
        fail_with("no row in a batch", NULL);
    rows->batch.kind[row] = (uint8_t)kind;
    rows->batch.name[row] = name;
    rows->batch.lane[row] = rows->lane;
    rows->batch.start[row] = start;
    rows->batch.end[row] = end;
    rows->count++;
    return row;
}

static void add_op(struct rows *rows, unsigned op, const rs_ns times[3])
{
    const enum kind kind = kind_of(op);
    const struct group group = group_of(rows->rank, op);
    struct rs_comm *comm = NULL;
    (void)add_row(rows, RS_KIND_OP, rows->compute, times[0], times[1]);
    const size_t row = add_row(rows, RS_KIND_COMM, rows->all_reduce, times[1], times[2]);
    if (rs_batch_comm(&rows->batch, row, &comm) != RS_OK)
        fail_with("out of memory", NULL);
    comm->collective = rows->all_reduce;
    comm->transport = rows->transport;
    comm->group_name = rows->names[kind];
    comm->group_ranks = rows->members[kind];
    comm->group_size = (group.end - group.first + group.apart - 1) / group.apart;
    comm->seq = rows->sequence[kind]++;
    comm->bytes = kind == IN_EIGHT ? 1 << 20 : 8 << 20;
    comm->has |= RS_COMM_HAS_GROUP_SIZE | RS_COMM_HAS_SEQ | RS_COMM_HAS_BYTES;
}

static void begin_rows(struct rows *rows)
{
    static const struct rs_lane host = {.kind = RS_LANE_HOST,
                                        .device = -1,
                                        .process = 1,
                                        .thread = 1,
                                        .process_text = RS_STR_NONE,
                                        .thread_text = RS_STR_NONE};
    char name[32];
    if (rs_source_stream_init(&rows->stream) < 0 ||
        rs_lanes_find(&rows->stream.lanes, &host, &rows->lane) < 0 ||
        rs_batch_init(&rows->batch, &rows->stream.strings, &rows->stream.lanes, BATCH_ROWS) < 0)
        fail_with("out of memory", NULL);
    struct rs_strtab *strings = &rows->stream.strings;
    rows->step = text_id(strings, "step");
    rows->compute = text_id(strings, "compute");
    rows->all_reduce = text_id(strings, "all_reduce");
    rows->transport = text_id(strings, "TCP");
    for (unsigned op = first_across() - 1; op < swarm.ops; op++) {
        static const char *const prefixes[KINDS] = {"tp", "shard", "replica"};
        const enum kind kind = kind_of(op);
        const struct group group = group_of(rows->rank, op);
        (void)snprintf(name, sizeof name, "%s%" PRIu32, prefixes[kind], group.number);
        rows->names[kind] = text_id(strings, name);
        rows->members[kind] = ranks_id(strings, &group);
    }
}

/* Both lanes of a rank for a capture. */
static void write_rank(struct rs_spool *spool, const struct rs_spool_source *source,
                       const struct recording *recording)
{
    struct rs_err err = {0};
    struct rows *rows = rs_mem_calloc(1, sizeof *rows);
    if (!rows)
        fail_with("out of memory", NULL);
    rows->rank = source->rank;
    begin_rows(rows);
    const struct rs_pack_options options = {.spool = spool,
                                            .source = *source,
                                            .flags = RS_PACK_WAITS,
                                            .strings = &rows->stream.strings,
                                            .lanes = &rows->stream.lanes,
                                            .must_stop = &swarm.must_stop};
    if (rs_pack_new(&options, &rows->pack, &err) < 0)
        fail_with("cannot pack", &err);
    for (uint32_t step = 0; step < recording->steps; step++) {
        const rs_ns *first = times_of(recording, source->rank, step, 0);
        const rs_ns *last = times_of(recording, source->rank, step, swarm.ops - 1);
        const size_t row = add_row(rows, RS_KIND_STEP, rows->step, first[0], last[2]);
        rows->batch.correlation[row] = recording->first + step;
        for (unsigned kind = 0; kind < KINDS; kind++)
            rows->sequence[kind] =
                (recording->first + step) * swarm.ops; /* it rises: that is enough */
        for (unsigned op = 0; op < swarm.ops; op++)
            add_op(rows, op, times_of(recording, source->rank, step, op));
    }
    const struct rs_sink sink = rs_pack_sink(rows->pack);
    if (sink.batch(sink.self, &rows->batch, &err) < 0)
        fail_with("cannot pack", &err);
    struct rs_trace_info *info = &rows->stream.info;
    info->rank = (int32_t)source->rank;
    info->rank_source = RS_RANK_METADATA;
    info->world_size = (int32_t)swarm.ranks;
    info->host = text_id(&rows->stream.strings, source->host);
    info->has_time_base = true;
    info->events_read = info->rows_read = rows->count;
    if (rs_pack_finish(rows->pack, info, false, &err) < 0 && err.status != RS_CANCELLED)
        fail_with("cannot finish", &err);
    rs_pack_free(&rows->pack);
    rs_batch_fini(&rows->batch);
    rs_source_stream_fini(&rows->stream);
    rs_mem_free(rows);
    atomic_fetch_add(&swarm.streams_written, 1);
}

/* ---- one node ------------------------------------------------------------------------------------------------ */

struct job {
    struct job *next;
    char capture[65];
    uint32_t *ranks;
    size_t count;
    int64_t first;
    uint32_t steps;
};

struct node {
    struct rs_agent_adapter adapter; /* first */
    uint32_t first, count;           /* its ranks */
    char host[32];
    struct rs_address address;
    struct rs_loop *loop;
    struct rs_spool *spool;
    struct rs_uplink *uplink;
    struct job *jobs;
    rs_ns refreshed_at;
    bool is_up;
    pthread_t thread;
};

static int64_t step_now(void)
{
    return (rs_time_realtime() - swarm.epoch) / ((int64_t)swarm.step_ms * RS_NS_PER_MS);
}

static void incarnation_of(uint32_t rank, char text[32])
{
    (void)snprintf(text, 32, "made-up:%" PRIu32, rank);
}

static void on_prepare(void *self, const Rankscope__Prepare *prepare)
{
    struct node *node = self;
    for (size_t i = 0; i < prepare->n_ranks; i++) {
        char incarnation[32];
        incarnation_of(prepare->ranks[i], incarnation);
        Rankscope__ArmedRank armed = RANKSCOPE__ARMED_RANK__INIT;
        armed.rank = prepare->ranks[i];
        armed.incarnation = incarnation;
        armed.step = step_now();
        armed.step_duration_ns = (int64_t)swarm.step_ms * RS_NS_PER_MS;
        rs_agent_adapter_armed(&node->adapter, prepare->capture, &armed);
    }
}

static void report(struct node *node, const char *capture, uint32_t rank,
                   enum rs_progress_state state, int64_t steps)
{
    Rankscope__RankProgress progress = RANKSCOPE__RANK_PROGRESS__INIT;
    progress.rank = rank;
    progress.state = state;
    progress.steps_done = steps;
    rs_agent_adapter_progress(&node->adapter, capture, &progress);
}

static void on_commit(void *self, const Rankscope__Commit *commit)
{
    struct node *node = self;
    struct job *job = rs_mem_calloc(1, sizeof *job);
    if (!job)
        fail_with("out of memory", NULL);
    (void)snprintf(job->capture, sizeof job->capture, "%.64s", commit->capture);
    job->first = commit->start_step;
    job->steps = commit->steps;
    job->count = commit->n_ranks;
    job->ranks = rs_mem_calloc(commit->n_ranks + 1, sizeof *job->ranks);
    if (!job->ranks)
        fail_with("out of memory", NULL);
    for (size_t i = 0; i < commit->n_ranks; i++) {
        job->ranks[i] = commit->ranks[i];
        report(node, job->capture, job->ranks[i], RS_PROGRESS_ARMED, 0);
    }
    job->next = node->jobs;
    node->jobs = job;
}

static void free_job(struct node *node, struct job *job)
{
    struct job **at = &node->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    rs_mem_free(job->ranks);
    rs_mem_free(job);
}

static void on_cancel(void *self, const Rankscope__Cancel *cancel)
{
    struct node *node = self;
    for (struct job *job = node->jobs, *next; job; job = next) {
        next = job->next;
        if (strcmp(job->capture, cancel->capture) == 0)
            free_job(node, job);
    }
}

static void run_job(struct node *node, struct job *job)
{
    if (step_now() < job->first + (int64_t)job->steps)
        return;
    const struct recording *recording = recording_of(job->first, job->steps);
    for (size_t i = 0; i < job->count; i++) {
        char incarnation[32];
        incarnation_of(job->ranks[i], incarnation);
        report(node, job->capture, job->ranks[i], RS_PROGRESS_SENDING, job->steps);
        rs_agent_adapter_send(&node->adapter, node->uplink); /* before its last chunk */
        const struct rs_spool_source source = {.run = swarm.run,
                                               .rank = job->ranks[i],
                                               .incarnation = incarnation,
                                               .capture = job->capture,
                                               .capture_key = "",
                                               .world = swarm.ranks,
                                               .host = node->host,
                                               .origin = "native",
                                               .keeps_sequence = true};
        write_rank(node->spool, &source, recording);
    }
    free_job(node, job);
}

static void fill_table(struct node *node)
{
    for (uint32_t i = 0; i < node->count && rs_agent_adapter_grow(&node->adapter, node->count);
         i++) {
        struct rs_agent_row *row = &node->adapter.table[node->adapter.table_count++];
        char incarnation[32];
        incarnation_of(node->first + i, incarnation);
        rs_agent_adapter_fill(&node->adapter, row, swarm.run, node->host, incarnation, "");
        row->id = i + 1;
        row->state.rank = node->first + i;
        row->state.world = swarm.ranks;
        row->state.pid = i + 1;
        row->state.step_duration_ns = (int64_t)swarm.step_ms * RS_NS_PER_MS;
        row->state.state = RS_RANK_IDLE;
        row->state.can_capture = true;
    }
}

static void refresh(struct node *node)
{
    const rs_ns now = rs_time_realtime();
    (void)pthread_mutex_lock(&node->adapter.lock);
    if (!node->adapter.table_count)
        fill_table(node);
    for (size_t i = 0; i < node->adapter.table_count; i++) {
        node->adapter.table[i].state.step = step_now();
        node->adapter.table[i].state.seen_ns = now;
    }
    (void)pthread_mutex_unlock(&node->adapter.lock);
}

static void wake(void *self)
{
    rs_loop_wake(((struct node *)self)->loop);
}

static void step_node(struct node *node)
{
    static const struct rs_agent_handlers handlers = {on_prepare, on_commit, on_cancel};
    const rs_ns now = rs_time_monotonic();
    if (now >= node->refreshed_at + RS_NS_PER_S / 4) {
        node->refreshed_at = now;
        refresh(node);
    }
    rs_uplink_step(node->uplink, now + RS_NS_PER_S / 4);
    rs_agent_adapter_read(&node->adapter, &handlers);
    for (struct job *job = node->jobs, *next; job; job = next) {
        next = job->next;
        run_job(node, job);
    }
    rs_agent_adapter_send(&node->adapter, node->uplink);
    const bool is_up = rs_uplink_stats(node->uplink).is_up;
    if (is_up && !node->is_up)
        atomic_fetch_add(&swarm.links_up, 1);
    else if (!is_up && node->is_up)
        atomic_fetch_sub(&swarm.links_up, 1);
    node->is_up = is_up;
}

static size_t ranks_of(void *self, Rankscope__RankState ***states_p)
{
    return rs_agent_adapter_ranks(self, states_p);
}

static void before_chunk(void *self)
{
    struct node *node = self;
    rs_agent_adapter_send(&node->adapter, node->uplink);
}

static void take_prepare(void *self, const Rankscope__Prepare *prepare)
{
    rs_agent_adapter_put(self, &prepare->base);
}

static void take_commit(void *self, const Rankscope__Commit *commit)
{
    rs_agent_adapter_put(self, &commit->base);
}

static void take_cancel(void *self, const Rankscope__Cancel *cancel)
{
    rs_agent_adapter_put(self, &cancel->base);
}

static enum rs_status connect_node(void *self, const struct rs_link_user *user, void *user_self,
                                   struct rs_link **link_p, struct rs_err *err)
{
    const struct node *node = self;
    return rs_grpc_connect(node->loop, &node->address, RS_WIRE_METHOD_STREAM, user, user_self,
                           link_p, err);
}

static void *be_node(void *self)
{
    struct node *node = self;
    struct rs_err err = {0};
    char folder[4096];
    struct rs_agent_adapter_options options = {
        .run = swarm.run, .host = node->host, .wake = wake, .wake_self = node};
    const struct rs_spool_options spool = {.budget_bytes = (uint64_t)256 << 20};
    (void)snprintf(folder, sizeof folder, "%.3800s/%s", swarm.dir, node->host);
    char certs[1000] = "";
    if (swarm.certs)
        (void)snprintf(certs, sizeof certs, "%.900s/%s", swarm.certs, node->host);
    if (rs_address_parse(swarm.connect, &node->address, &err) < 0 ||
        rs_address_guard(&node->address, *certs ? certs : NULL, !*certs, &err) < 0)
        fail_with("cannot start", &err);
    if (!rs_adapter_known(RS_PROFILER_NATIVE, &options.what) ||
        rs_spool_open(folder, &spool, &node->spool, &err) < 0 ||
        rs_grpc_loop_new(&node->loop, &err) < 0)
        fail_with("cannot start", &err);
    options.spool = node->spool;
    if (rs_agent_adapter_init(&node->adapter, &options, &err) < 0)
        fail_with("cannot start", &err);
    const struct rs_uplink_options uplink = {.spool = node->spool,
                                             .loop = node->loop,
                                             .connect = connect_node,
                                             .connect_self = node,
                                             .node = node->host,
                                             .ranks = ranks_of,
                                             .before_chunk = before_chunk,
                                             .on_prepare = take_prepare,
                                             .on_commit = take_commit,
                                             .on_cancel = take_cancel,
                                             .self = node};
    if (rs_uplink_new(&uplink, &node->uplink, &err) < 0)
        fail_with("cannot start", &err);
    /* They step without a message, as the adapters of real ranks say of theirs. */
    rs_uplink_announce(node->uplink, NULL, 0, 1U << RS_PROFILER_NATIVE);
    rs_spool_on_put(node->spool, rs_uplink_wake, node->uplink);
    while (!atomic_load(&swarm.must_stop))
        step_node(node);
    rs_uplink_close(node->uplink);
    while (!rs_uplink_is_closed(node->uplink))
        rs_uplink_step(node->uplink, rs_time_monotonic() + RS_NS_PER_S / 10);
    while (node->jobs)
        free_job(node, node->jobs);
    rs_uplink_free(&node->uplink);
    rs_agent_adapter_fini(&node->adapter);
    rs_grpc_loop_free(&node->loop);
    rs_spool_close(&node->spool);
    return NULL;
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static bool take_option(const char *name, const char *value)
{
    static const struct {
        const char *name;
        const char **text;
        uint32_t *number;
    } options[] = {
        {"--connect", &swarm.connect, NULL},     {"--dir", &swarm.dir, NULL},
        {"--certs", &swarm.certs, NULL},         {"--ranks", NULL, &swarm.ranks},
        {"--links", NULL, &swarm.links},         {"--ops", NULL, &swarm.ops},
        {"--step-ms", NULL, &swarm.step_ms},     {"--run", &swarm.run, NULL},
        {"--slow-rank", NULL, &swarm.slow_rank},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (strcmp(name, options[i].name) != 0)
            continue;
        if (options[i].text)
            *options[i].text = value;
        else
            *options[i].number = (uint32_t)strtoul(value, NULL, 10);
        return true;
    }
    return false;
}

static double own_cpu(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* True: stdin is at its end. */
static bool is_over(int wait_ms)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    return poll(&input, 1, wait_ms) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

int main(int count, char **words)
{
    struct rs_err err = {0};
    bool is_right = count % 2 == 1;
    for (int i = 1; is_right && i + 1 < count; i += 2)
        is_right = take_option(words[i], words[i + 1]);
    if (!is_right || !swarm.connect || !swarm.dir || !swarm.links || !swarm.step_ms ||
        swarm.ops <= ACROSS_OPS || swarm.ranks < swarm.links) {
        fprintf(stderr,
                "usage: bench_swarm --connect ADDR --dir DIR [--run NAME] [--ranks N] [--links N] "
                "[--ops N] [--certs DIR] [--step-ms N] [--slow-rank N]\n");
        return 2;
    }
    if (rs_file_make_dirs(swarm.dir, 0700, &err) < 0)
        fail_with("cannot start", &err);
    swarm.epoch = rs_time_realtime();
    struct node *nodes = rs_mem_calloc(swarm.links, sizeof *nodes);
    if (!nodes)
        fail_with("out of memory", NULL);
    for (uint32_t i = 0; i < swarm.links; i++) {
        struct node *node = &nodes[i];
        node->first = (uint32_t)((uint64_t)swarm.ranks * i / swarm.links);
        node->count = (uint32_t)((uint64_t)swarm.ranks * (i + 1) / swarm.links) - node->first;
        (void)snprintf(node->host, sizeof node->host, "node%04" PRIu32, i);
        if (pthread_create(&node->thread, NULL, be_node, node) != 0)
            fail_with("cannot start a thread", NULL);
    }
    while (atomic_load(&swarm.links_up) < swarm.links && !is_over(100))
        ;
    printf("{\"links_up\": %u, \"cpu_s\": %.2f}\n", atomic_load(&swarm.links_up), own_cpu());
    (void)fflush(stdout);
    for (unsigned told = 0; !is_over(20);) {
        const unsigned written = atomic_load(&swarm.streams_written);
        if (written < told + swarm.ranks)
            continue;
        told += swarm.ranks;
        printf("{\"written\": %u, \"at_ns\": %" PRId64 "}\n", told, rs_time_realtime());
        (void)fflush(stdout);
    }
    atomic_store(&swarm.must_stop, true);
    for (uint32_t i = 0; i < swarm.links; i++)
        (void)pthread_join(nodes[i].thread, NULL);
    printf("{\"streams\": %u, \"cpu_s\": %.2f}\n", atomic_load(&swarm.streams_written), own_cpu());
    while (recordings.all) {
        struct recording *next = recordings.all->next;
        rs_mem_free(recordings.all->times);
        rs_mem_free(recordings.all);
        recordings.all = next;
    }
    rs_mem_free(nodes);
    return 0;
}
