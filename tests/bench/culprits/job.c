/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of every rank and its run: see job.h.
 *
 * Nodes are launches, starts, meetings and ends; an item is run as soon as all that it waits for has run, so
 * no order of ranks is assumed (a program that cannot go on is a mistake of this file and aborts).
 */
#include "tests/bench/culprits/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAUNCH_NS = 4000, LAUNCH_DELAY_NS = 5000 };

static void *grown(void *list, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) {
        return list;
    }
    *capacity = *capacity * 2 > need ? *capacity * 2 : need + 64;
    void *more = realloc(list, *capacity * size);
    if (more == NULL) {
        abort();
    }
    return more;
}

static uint64_t hashed(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

double job_uniform(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t x = hashed(hashed(hashed(hashed(seed) ^ a) ^ b) ^ c);
    return ((double)(x >> 11) + 0.5) / 9007199254740992.0;
}

double job_normal(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    const double u = job_uniform(seed, a, b, 2 * c), v = job_uniform(seed, a, b, 2 * c + 1);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

uint32_t job_host(const struct job *job, uint32_t rank)
{
    return rank / job->host_size;
}

uint32_t job_stage(const struct job *job, uint32_t rank)
{
    return rank / (job->dp * job->tp);
}

uint32_t job_class_size(const struct job *job)
{
    return job->dp * job->tp;
}

int64_t job_clock(const struct job *job, uint32_t rank, int64_t at)
{
    double own = (double)at;
    const uint32_t host = job_host(job, rank);
    if (job->has_own_clocks && host > 0) {
        const double offset = (job_uniform(job->seed, 900, host, 0) - 0.5) * 4e6;
        const double drift = (job_uniform(job->seed, 901, host, 0) - 0.5) * 40e-6;
        own += offset + drift * (double)at;
    }
    const int64_t shown = (int64_t)llround(own);
    return shown / job->resolution * job->resolution;
}

uint32_t job_group_of(const struct job *job, uint32_t rank, int stream)
{
    for (size_t g = 0; g < job->group_count; g++) {
        for (size_t i = 0; job->groups[g].stream == stream && i < job->groups[g].count; i++) {
            if (job->groups[g].ranks[i] == rank) {
                return (uint32_t)g;
            }
        }
    }
    return NOBODY;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void add_group(struct job *job, const uint32_t *ranks, size_t count, int stream)
{
    if (count < 2) {
        return;
    }
    job->groups =
        grown(job->groups, &job->group_capacity, job->group_count + 1, sizeof *job->groups);
    struct group *group = &job->groups[job->group_count];
    *group = (struct group){.count = count, .stream = stream};
    (void)snprintf(group->name, sizeof group->name, "%zu", job->group_count);
    group->ranks = calloc(count, sizeof *ranks);
    if (group->ranks == NULL) {
        abort();
    }
    memcpy(group->ranks, ranks, count * sizeof *ranks);
    for (size_t i = 1; i < count; i++) {
        group->crosses = group->crosses || job_host(job, ranks[i]) != job_host(job, ranks[0]);
    }
    job->group_count++;
}

static void make_groups(struct job *job)
{
    uint32_t list[1024];
    for (uint32_t r = 0; r < job->ranks; r++) {
        list[r] = r;
    }
    add_group(job, list, job->ranks, STREAM_ALL);
    for (uint32_t s = 0; s < job->pp; s++) {
        for (uint32_t d = 0; d < job->dp; d++) {
            for (uint32_t t = 0; t < job->tp; t++) {
                list[t] = (s * job->dp + d) * job->tp + t;
            }
            add_group(job, list, job->tp, STREAM_TENSOR);
        }
        for (uint32_t t = 0; t < job->tp; t++) {
            for (uint32_t d = 0; d < job->dp; d++) {
                list[d] = (s * job->dp + d) * job->tp + t;
            }
            add_group(job, list, job->dp, STREAM_DATA);
        }
    }
}

/* ---- programs -------------------------------------------------------------------------------- */

struct writer {
    struct job *job;
    uint32_t rank, step, place;
    uint32_t needs[2]; /* of the next computing item */
    uint32_t tensor, data, all;
};

static uint32_t add_item(struct writer *writer, struct item item)
{
    struct job *job = writer->job;
    job->items = grown(job->items, &job->item_capacity, job->item_count + 1, sizeof *job->items);
    item.rank = writer->rank;
    item.step = writer->step;
    item.place = writer->place++;
    item.meeting = NOBODY;
    job->items[job->item_count] = item;
    return (uint32_t)job->item_count++;
}

/* The same on all ranks and in all stages: noise comes later. */
static void work(struct writer *writer, double ns, uint32_t kernels, uint32_t layer)
{
    const double shape = 0.6 + 0.8 * job_uniform(writer->job->seed, 10, kernels, layer);
    (void)add_item(writer, (struct item){.kind = ITEM_WORK,
                                         .stream = STREAM_WORK,
                                         .kernels = kernels,
                                         .needs = {writer->needs[0], writer->needs[1]},
                                         .base = (int64_t)(ns * shape)});
    writer->needs[0] = writer->needs[1] = NOBODY;
}

static void end_work(struct writer *writer, double ns, uint32_t kernels, uint32_t layer)
{
    work(writer, ns, kernels, layer);
    writer->job->items[writer->job->item_count - 1].is_end = true;
}

static int64_t transfer(int64_t bytes, size_t members, bool crosses)
{
    const double per_ns = crosses ? 25 : 150; /* bytes per ns */
    const double share = members > 2 ? 2.0 * (double)(members - 1) / (double)members : 1;
    return (int64_t)((crosses ? 25000 : 10000) + (double)bytes * share / per_ns);
}

static uint32_t collective(struct writer *writer, uint32_t group, enum op_kind op, int64_t bytes,
                           bool is_hidden)
{
    const struct group *own = &writer->job->groups[group];
    return add_item(writer, (struct item){.kind = ITEM_OP,
                                          .op = (uint8_t)op,
                                          .is_hidden = is_hidden,
                                          .stream = (uint8_t)own->stream,
                                          .group = group,
                                          .peer = NOBODY,
                                          .bytes = bytes,
                                          .base = transfer(bytes, own->count, own->crosses)});
}

static uint32_t message(struct writer *writer, enum op_kind op, uint32_t peer, bool is_forward)
{
    const struct job *job = writer->job;
    const bool crosses = job_host(job, writer->rank) != job_host(job, peer);
    const int64_t bytes = 4 << 20;
    return add_item(writer, (struct item){.kind = ITEM_OP,
                                          .op = (uint8_t)op,
                                          .stream = (uint8_t)(STREAM_MESSAGES +
                                                              2 * (op == OP_SEND) + is_forward),
                                          .group = NOBODY,
                                          .peer = peer,
                                          .bytes = bytes,
                                          .base = transfer(bytes, 2, crosses)});
}

static void tensor_op(struct writer *writer, bool may_hide)
{
    if (writer->tensor != NOBODY) {
        writer->needs[0] = collective(writer, writer->tensor, OP_ALL_REDUCE, 8 << 20,
                                      may_hide && writer->job->has_hidden);
    }
}

static void forward(struct writer *writer)
{
    const struct job *job = writer->job;
    const uint32_t stage = job_stage(job, writer->rank), width = job_class_size(job);
    if (stage > 0) {
        writer->needs[1] = message(writer, OP_RECV, writer->rank - width, true);
    }
    if (job->has_ends && stage == 0) {
        end_work(writer, 90000, 7, 96);
    }
    for (uint32_t l = 0; l < job->layers; l++) {
        work(writer, 250000, 4, l);
        tensor_op(writer, false);
        work(writer, 350000, 3, l);
        tensor_op(writer, true);
    }
    if (job->has_ends && stage + 1 == job->pp) {
        end_work(writer, 150000, 11, 95);
    }
    if (job->heavier_share > 0 && stage + 1 == job->pp) {
        work(writer, job->heavier_share * 600000 * job->layers, 9, 98);
    } else if (writer->tensor != NOBODY) {
        work(writer, 60000, 1, 99);
    }
    if (stage + 1 < job->pp) {
        (void)message(writer, OP_SEND, writer->rank + width, true);
    }
}

static void backward(struct writer *writer, bool is_last)
{
    const struct job *job = writer->job;
    const uint32_t stage = job_stage(job, writer->rank), width = job_class_size(job);
    if (stage + 1 < job->pp) {
        writer->needs[1] = message(writer, OP_RECV, writer->rank + width, false);
    }
    if (job->has_ends && stage + 1 == job->pp) {
        end_work(writer, 200000, 12, 94);
    }
    for (uint32_t l = 0; l < job->layers; l++) {
        work(writer, 700000, 5, l);
        tensor_op(writer, true);
        work(writer, 500000, 6, l);
        tensor_op(writer, false);
        if (is_last && job->has_overlap && writer->data != NOBODY) {
            (void)collective(writer, writer->data, OP_REDUCE_SCATTER, 16 << 20, false);
        }
    }
    if (writer->tensor != NOBODY) {
        work(writer, 60000, 1, 99);
    }
    if (stage > 0) {
        (void)message(writer, OP_SEND, writer->rank - width, false);
    }
}

static void write_step(struct writer *writer)
{
    const struct job *job = writer->job;
    const uint32_t stage = job_stage(job, writer->rank);
    const uint32_t ahead = job->pp - 1 - stage < job->micro ? job->pp - 1 - stage : job->micro;
    writer->place = 0;
    for (uint32_t m = 0; m < ahead; m++) {
        forward(writer);
    }
    for (uint32_t m = 0; m < job->micro; m++) {
        if (ahead + m < job->micro) {
            forward(writer);
        }
        backward(writer, m + 1 == job->micro);
    }
    if (writer->data != NOBODY) {
        writer->needs[0] = job->has_overlap
                               ? collective(writer, writer->data, OP_REDUCE_SCATTER, 4 << 20, false)
                               : collective(writer, writer->data, OP_ALL_REDUCE,
                                            (int64_t)(16 << 20) * job->layers, false);
    }
    work(writer, 40000, 2, 99);
    writer->needs[0] = collective(writer, writer->all, OP_ALL_REDUCE, 4, false);
    if (job->reads_norm) {
        (void)add_item(writer, (struct item){.kind = ITEM_SYNC});
    }
    work(writer, 400000, 6, 99);
    if (job->has_overlap && writer->data != NOBODY) {
        writer->needs[0] = collective(writer, writer->data, OP_ALL_GATHER, 16 << 20, false);
    }
    if (job->has_sync) {
        (void)add_item(writer, (struct item){.kind = ITEM_SYNC});
    }
}

static void write_programs(struct job *job)
{
    job->first = calloc(job->ranks + 1, sizeof *job->first);
    if (job->first == NULL) {
        abort();
    }
    for (uint32_t r = 0; r < job->ranks; r++) {
        struct writer writer = {.job = job,
                                .rank = r,
                                .needs = {NOBODY, NOBODY},
                                .tensor = job_group_of(job, r, STREAM_TENSOR),
                                .data = job_group_of(job, r, STREAM_DATA),
                                .all = job_group_of(job, r, STREAM_ALL)};
        job->first[r] = job->item_count;
        for (writer.step = 0; writer.step <= job->steps; writer.step++) {
            write_step(&writer);
        }
    }
    job->first[job->ranks] = job->item_count;
}

/* ---- meetings: the i-th of a group on each member; the i-th message of a pair and direction --------- */

struct call {
    uint64_t key;
    uint32_t item;
};

static int by_key(const void *left, const void *right)
{
    const struct call *a = left, *b = right;
    return a->key != b->key ? (a->key > b->key ? 1 : -1)
                            : (a->item > b->item) - (a->item < b->item);
}

static void make_meetings(struct job *job)
{
    struct call *calls = calloc(job->item_count + 1, sizeof *calls);
    uint32_t *seen = calloc((size_t)job->ranks * STREAM_COUNT, sizeof *seen);
    size_t count = 0;
    if (calls == NULL || seen == NULL) {
        abort();
    }
    for (size_t i = 0; i < job->item_count; i++) {
        const struct item *item = &job->items[i];
        if (item->kind != ITEM_OP) {
            continue;
        }
        const uint32_t number = seen[item->rank * STREAM_COUNT + item->stream]++;
        uint64_t key = (uint64_t)item->group << 32 | number;
        if (item->group == NOBODY) {
            const uint32_t from = item->op == OP_SEND ? item->rank : item->peer;
            const uint32_t to = item->op == OP_SEND ? item->peer : item->rank;
            key = (UINT64_C(1) << 63) | (uint64_t)from << 47 | (uint64_t)to << 31 | number;
        }
        calls[count++] = (struct call){key, (uint32_t)i};
    }
    qsort(calls, count, sizeof *calls, by_key);
    job->members = calloc(count + 1, sizeof *job->members);
    if (job->members == NULL) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || calls[i].key != calls[i - 1].key) {
            job->meetings = grown(job->meetings, &job->meeting_capacity, job->meeting_count + 1,
                                  sizeof *job->meetings);
            job->meetings[job->meeting_count++] = (struct meeting){.first = (uint32_t)i};
        }
        job->members[i] = calls[i].item;
        job->meetings[job->meeting_count - 1].count++;
        job->items[calls[i].item].meeting = (uint32_t)job->meeting_count - 1;
    }
    free(calls);
    free(seen);
}

void job_make(struct job *job)
{
    make_groups(job);
    write_programs(job);
    make_meetings(job);
    const size_t cells = (size_t)job->ranks * (job->steps + 1);
    job->heads = calloc(cells, sizeof *job->heads);
    job->inputs = calloc(cells, sizeof *job->inputs);
    job->step_start = calloc(cells, sizeof *job->step_start);
    job->step_end = calloc(cells, sizeof *job->step_end);
    job->step_done = calloc(job->steps + 1, sizeof *job->step_done);
    if (job->heads == NULL || job->inputs == NULL || job->step_start == NULL ||
        job->step_end == NULL || job->step_done == NULL) {
        abort();
    }
}

/* ---- one run --------------------------------------------------------------------------------- */

static bool is_among(const struct trouble *trouble, uint32_t rank)
{
    for (size_t i = 0; i < trouble->rank_count; i++) {
        if (trouble->ranks[i] == rank) {
            return true;
        }
    }
    return false;
}

static double trouble_factor(const struct job *job, unsigned with, const struct item *item)
{
    double factor = 1;
    for (size_t t = 0; t < job->trouble_count; t++) {
        const struct trouble *trouble = &job->troubles[t];
        if ((with >> t & 1) == 0 || item->step < trouble->first) {
            continue;
        }
        if (trouble->kind == TROUBLE_RANKS && item->kind == ITEM_WORK &&
            is_among(trouble, item->rank)) {
            factor *= trouble->factor;
        }
        if (trouble->kind == TROUBLE_GROUP && item->kind == ITEM_OP &&
            item->group == trouble->group) {
            factor *= trouble->factor;
        }
        if (trouble->kind == TROUBLE_MESSAGES && item->kind == ITEM_OP && item->group == NOBODY &&
            is_among(trouble, item->rank) && is_among(trouble, item->peer)) {
            const uint32_t from = item->op == OP_SEND ? item->rank : item->peer;
            factor *= trouble->way == 0 || from == trouble->ranks[0] ? trouble->factor : 1;
        }
    }
    return factor;
}

static void find_heads(struct job *job, unsigned with)
{
    for (uint32_t r = 0; r < job->ranks; r++) {
        for (uint32_t k = 0; k <= job->steps; k++) {
            const size_t at = (size_t)r * (job->steps + 1) + k;
            const double usual = 60000 * exp(0.15 * job_normal(job->seed, 20, r, k));
            int64_t input = (int64_t)usual;
            for (size_t t = 0; t < job->trouble_count; t++) {
                const struct trouble *trouble = &job->troubles[t];
                const uint32_t who =
                    job->stall_moves
                        ? (uint32_t)(job_uniform(job->seed, 21, k, 0) * (double)job->ranks)
                        : trouble->ranks[0];
                if (trouble->kind == TROUBLE_STALL && (with >> t & 1) != 0 && r == who &&
                    k % trouble->every == trouble->phase) {
                    input += (int64_t)((double)trouble->ns *
                                       (1 + 0.05 * job_normal(job->seed, 22, r, k)));
                }
            }
            int64_t pause = 0;
            if (job_uniform(job->seed, 23, r, k) < job->pause_share) {
                pause = (int64_t)((double)job->pause_ns * (0.5 + job_uniform(job->seed, 24, r, k)));
            }
            job->inputs[at] = input;
            job->heads[at] = input + 20000 + pause;
        }
    }
}

struct runner {
    struct job *job;
    unsigned with;
    size_t *next;          /* [rank] item that was not launched yet */
    int64_t *host;         /* [rank] */
    uint32_t *stream_last; /* [rank * streams] newest item put on it; NOBODY */
    uint32_t *before;      /* [item] the one before it on its stream */
    uint32_t *input;       /* [item] operations: newest computing item */
    uint8_t *state;        /* [item] 0 not launched, 1 launched, 2 started, 3 ended */
    uint32_t *arrived;     /* [meeting] */
    double *drift;         /* [rank] correlated noise */
};

static void end_item(struct runner *runner, uint32_t i)
{
    runner->state[i] = 3;
}

static double noise_of(struct runner *runner, const struct item *item)
{
    const struct job *job = runner->job;
    const uint64_t key = (uint64_t)item->step << 32 | item->place;
    const double own = job_normal(job->seed, 30, item->rank, key);
    double value = job->noise * own;
    if (job->correlation > 0) {
        double *drift = &runner->drift[item->rank];
        *drift = job->correlation * *drift +
                 sqrt(1 - job->correlation * job->correlation) * job->noise * own;
        value = *drift;
    }
    if (job_uniform(job->seed, 31, item->rank, key) < job->spikes) {
        value += 0.5;
    }
    return value + job->rank_spread * job_normal(job->seed, 32, item->rank, 0);
}

/* Everything that can go on does; false when nothing could. */
static bool try_item(struct runner *runner, uint32_t i)
{
    struct job *job = runner->job;
    struct item *item = &job->items[i];
    const uint32_t before = runner->before[i];
    if (runner->state[i] != 1 || (before != NOBODY && runner->state[before] != 3)) {
        return false;
    }
    int64_t start = item->launch + LAUNCH_DELAY_NS;
    start = before != NOBODY && job->items[before].end > start ? job->items[before].end : start;
    if (item->kind == ITEM_WORK) {
        for (size_t n = 0; n < 2; n++) {
            const uint32_t need = item->needs[n];
            if (need != NOBODY && runner->state[need] != 3) {
                return false;
            }
            start = need != NOBODY && job->items[need].end > start ? job->items[need].end : start;
        }
        item->start = start;
        const double factor = exp(noise_of(runner, item)) * trouble_factor(job, runner->with, item);
        item->end = start + (int64_t)((double)item->base * factor);
        end_item(runner, i);
        return true;
    }
    const uint32_t input = runner->input[i];
    if (input != NOBODY && runner->state[input] != 3) {
        return false;
    }
    start = input != NOBODY && job->items[input].end > start ? job->items[input].end : start;
    item->start = start;
    runner->state[i] = 2;
    struct meeting *meeting = &job->meetings[item->meeting];
    meeting->at = runner->arrived[item->meeting] == 0 || start > meeting->at ? start : meeting->at;
    if (++runner->arrived[item->meeting] < meeting->count) {
        return true;
    }
    const double noise = exp(0.03 * job_normal(job->seed, 40, item->meeting, 0));
    const int64_t took =
        (int64_t)((double)item->base * noise * trouble_factor(job, runner->with, item));
    for (uint32_t m = 0; m < meeting->count; m++) {
        const uint32_t other = job->members[meeting->first + m];
        const int64_t apart = (int64_t)(2000 * job_uniform(job->seed, 41, other, 0));
        job->items[other].end = meeting->at + took + apart;
        end_item(runner, other);
    }
    return true;
}

static void launch(struct runner *runner, uint32_t i)
{
    struct job *job = runner->job;
    struct item *item = &job->items[i];
    int64_t *host = &runner->host[item->rank];
    const size_t cell = (size_t)item->rank * (job->steps + 1) + item->step;
    if (item->place == 0) {
        job->step_start[cell] = *host;
        *host += job->heads[cell];
    } else {
        *host += LAUNCH_NS * (item->kind == ITEM_WORK ? item->kernels : 6);
    }
    item->launch = *host;
    runner->state[i] = 1;
    uint32_t *last = &runner->stream_last[item->rank * STREAM_COUNT + item->stream];
    runner->before[i] = *last;
    runner->input[i] = runner->stream_last[item->rank * STREAM_COUNT + STREAM_WORK];
    *last = i;
}

/* A wait of the host: over when all streams are. */
static bool try_sync(struct runner *runner, uint32_t i)
{
    struct job *job = runner->job;
    struct item *item = &job->items[i];
    int64_t latest = runner->host[item->rank] + LAUNCH_NS;
    item->start = latest;
    for (size_t s = 0; s < STREAM_COUNT; s++) {
        const uint32_t last = runner->stream_last[item->rank * STREAM_COUNT + s];
        if (last != NOBODY && runner->state[last] != 3) {
            return false;
        }
        latest = last != NOBODY && job->items[last].end > latest ? job->items[last].end : latest;
    }
    item->launch = item->start;
    item->end = runner->host[item->rank] = latest + 3000;
    runner->state[i] = 3;
    return true;
}

static bool walk(struct runner *runner, uint32_t rank)
{
    struct job *job = runner->job;
    bool went = false;
    while (runner->next[rank] < job->first[rank + 1]) {
        const uint32_t i = (uint32_t)runner->next[rank];
        const struct item *item = &job->items[i];
        if (item->kind == ITEM_SYNC && !try_sync(runner, i)) {
            break;
        }
        if (item->kind != ITEM_SYNC) {
            launch(runner, i);
        }
        runner->next[rank]++;
        went = true;
        if (runner->next[rank] == job->first[rank + 1] || job->items[i + 1].step != item->step) {
            job->step_end[(size_t)rank * (job->steps + 1) + item->step] = runner->host[rank] + 2000;
            runner->host[rank] += 4000;
        }
    }
    return went;
}

static void run_all(struct runner *runner)
{
    struct job *job = runner->job;
    size_t *open = calloc(job->ranks + 1, sizeof *open); /* items before it have ended */
    if (open == NULL) {
        abort();
    }
    for (uint32_t r = 0; r < job->ranks; r++) {
        open[r] = job->first[r];
    }
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (uint32_t r = 0; r < job->ranks; r++) {
            goes_on = walk(runner, r) || goes_on;
            size_t newest = open[r];
            for (size_t i = open[r]; i < runner->next[r]; i++) {
                goes_on = try_item(runner, (uint32_t)i) || goes_on;
                newest = i == newest && runner->state[i] == 3 ? i + 1 : newest;
            }
            open[r] = newest;
        }
    }
    for (uint32_t r = 0; r < job->ranks; r++) {
        if (open[r] < job->first[r + 1]) {
            (void)fprintf(stderr, "culprits: rank %u cannot go on at item %zu\n", r,
                          open[r] - job->first[r]);
            abort();
        }
    }
    free(open);
}

static void *room(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

void job_run(struct job *job, unsigned with)
{
    struct runner runner = {.job = job, .with = with};
    runner.next = room(job->ranks, sizeof *runner.next);
    runner.host = room(job->ranks, sizeof *runner.host);
    runner.stream_last = room((size_t)job->ranks * STREAM_COUNT, sizeof *runner.stream_last);
    runner.before = room(job->item_count, sizeof *runner.before);
    runner.input = room(job->item_count, sizeof *runner.input);
    runner.state = room(job->item_count, 1);
    runner.arrived = room(job->meeting_count, sizeof *runner.arrived);
    runner.drift = room(job->ranks, sizeof *runner.drift);
    find_heads(job, with);
    for (uint32_t r = 0; r < job->ranks; r++) {
        runner.next[r] = job->first[r];
        runner.host[r] = 1000000 + (int64_t)(200000 * job_uniform(job->seed, 50, r, 0));
        runner.drift[r] = job->noise * job_normal(job->seed, 51, r, 0);
    }
    for (size_t i = 0; i < (size_t)job->ranks * STREAM_COUNT; i++) {
        runner.stream_last[i] = NOBODY;
    }
    run_all(&runner);
    memset(job->step_done, 0, (job->steps + 1) * sizeof *job->step_done);
    for (size_t i = 0; i < job->item_count; i++) {
        int64_t *done = &job->step_done[job->items[i].step];
        *done = job->items[i].end > *done ? job->items[i].end : *done;
    }
    free(runner.next);
    free(runner.host);
    free(runner.stream_last);
    free(runner.before);
    free(runner.input);
    free(runner.state);
    free(runner.arrived);
    free(runner.drift);
}

int64_t job_step_ns(const struct job *job)
{
    return (job->step_done[job->steps] - job->step_done[0]) / job->steps;
}

void job_free(struct job *job)
{
    for (size_t g = 0; g < job->group_count; g++) {
        free(job->groups[g].ranks);
    }
    free(job->groups);
    free(job->items);
    free(job->first);
    free(job->meetings);
    free(job->members);
    free(job->heads);
    free(job->inputs);
    free(job->step_start);
    free(job->step_end);
    free(job->step_done);
}
