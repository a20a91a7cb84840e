/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training loop of one rank, instrumented with librankscope.
 *
 *     data -> forward of all micro-batches -> backward of all -> all-reduce in the group -> optimizer
 *             activations go down the pipeline    gradients come back
 *
 * The all-reduce is a ring: dp - 1 hops that add, dp - 1 hops that spread; each hop is a task
 * inside the one collective.
 */
#include "collector/lib/rankscope.h"
#include "deploy/demo/model.h"
#include "deploy/demo/pipe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct rank {
    const struct options *options;
    struct place place;
    struct pipes pipes;
    struct model model;
    float *wire; /* [batch][hidden], what came over a link */
    float *sum;  /* a part of the gradients, as received */
    uint64_t collectives;
    uint64_t sent_next, sent_prev, got_next, got_prev; /* point-to-point, per direction */
    /* ids */
    uint32_t forward, backward, optimizer, data;
    uint32_t dp_group, pp_group;
};

static void name_things(struct rank *rank)
{
    const struct options *o = rank->options;
    int32_t members[MAX_WORLD];
    char name[16];
    rank->forward = rankscope_name("forward", RANKSCOPE_CPU_TIME);
    rank->backward = rankscope_name("backward", RANKSCOPE_CPU_TIME);
    rank->optimizer = rankscope_name("optimizer", RANKSCOPE_CPU_TIME);
    rank->data = rankscope_name("data_load", RANKSCOPE_CPU_TIME);
    for (int i = 0; i < o->dp; i++)
        members[i] = rank->place.pp * o->dp + i;
    snprintf(name, sizeof name, "dp%d", rank->place.pp);
    rank->dp_group = rankscope_group(name, members, (size_t)o->dp);
    for (int i = 0; i < o->pp; i++)
        members[i] = i * o->dp + rank->place.dp;
    snprintf(name, sizeof name, "pp%d", rank->place.dp);
    rank->pp_group = rankscope_group(name, members, (size_t)o->pp);
}

static void load_data(struct rank *rank, uint64_t step)
{
    rankscope_range_push(rank->data);
    for (int i = 0; i < rank->options->stall_count; i++) {
        const struct data_stall *stall = &rank->options->stalls[i];
        if (stall->rank != rank->place.rank)
            continue;
        int64_t ns = (int64_t)(stall->ms * 1e6);
        struct timespec nap = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
        while (nanosleep(&nap, &nap) != 0 && errno == EINTR)
            continue;
    }
    model_load(&rank->model, step, rank->place.dp);
    rankscope_range_pop();
}

static size_t activation_bytes(const struct rank *rank)
{
    return (size_t)rank->options->batch * (size_t)rank->options->hidden * sizeof(float);
}

static struct rankscope_comm point_to_point(const struct rank *rank, uint8_t type, int peer,
                                            uint64_t *sequence)
{
    return (struct rankscope_comm){.group = rank->pp_group,
                                   .sequence = (*sequence)++,
                                   .bytes = activation_bytes(rank),
                                   .peer = peer,
                                   .type = type,
                                   .transport = RANKSCOPE_TCP};
}

static void send_to(struct rank *rank, struct pipe_end *end, const float *values,
                    uint64_t *sequence)
{
    struct rankscope_comm comm = point_to_point(rank, RANKSCOPE_SEND, end->peer, sequence);
    rankscope_comm_begin(&comm);
    pipe_send(end, values, activation_bytes(rank));
    rankscope_comm_end();
}

static const float *receive_from(struct rank *rank, struct pipe_end *end, uint64_t *sequence)
{
    struct rankscope_comm comm = point_to_point(rank, RANKSCOPE_RECV, end->peer, sequence);
    rankscope_comm_begin(&comm);
    pipe_receive(end, rank->wire, activation_bytes(rank));
    rankscope_comm_end();
    return rank->wire;
}

static void forward(struct rank *rank, int micro)
{
    const float *given = NULL;
    if (rank->pipes.stage_prev.fd >= 0)
        given = receive_from(rank, &rank->pipes.stage_prev, &rank->got_prev);
    rankscope_op_begin(rank->forward);
    const float *result = model_forward(&rank->model, micro, given);
    rankscope_op_end();
    if (rank->pipes.stage_next.fd >= 0)
        send_to(rank, &rank->pipes.stage_next, result, &rank->sent_next);
}

static void backward(struct rank *rank, int micro)
{
    const float *upstream = NULL;
    if (rank->pipes.stage_next.fd >= 0)
        upstream = receive_from(rank, &rank->pipes.stage_next, &rank->got_next);
    rankscope_op_begin(rank->backward);
    const float *result = model_backward(&rank->model, micro, upstream);
    rankscope_op_end();
    if (rank->pipes.stage_prev.fd >= 0)
        send_to(rank, &rank->pipes.stage_prev, result, &rank->sent_prev);
}

/* ---- the ring ---- */

/* Part `index` of the gradients: dp parts, the last one takes the rest. */
static float *part(const struct rank *rank, int index, size_t *count_p)
{
    size_t total = rank->model.parameter_count + 1;
    size_t parts = (size_t)rank->options->dp;
    size_t share = total / parts;
    size_t at = (((size_t)index + parts) % parts) * share;
    bool is_last = ((size_t)index + parts) % parts == parts - 1;
    *count_p = is_last ? total - at : share;
    return rank->model.gradients + at;
}

/* Hop `hop` of 2 (dp - 1): send the part that is furthest along, take the one behind it. */
static void ring_hop(struct rank *rank, int hop)
{
    int dp = rank->options->dp;
    bool is_adding = hop < dp - 1;
    int first = is_adding ? rank->place.dp - hop : rank->place.dp + 1 - (hop - (dp - 1));
    size_t out_count = 0;
    size_t in_count = 0;
    const float *out = part(rank, (first % dp + dp) % dp, &out_count);
    float *in = part(rank, ((first - 1) % dp + dp) % dp, &in_count);
    const struct hop both = {.out = out,
                             .out_bytes = out_count * sizeof *out,
                             .in = is_adding ? rank->sum : in,
                             .in_bytes = in_count * sizeof *in};
    pipe_hop(&rank->pipes.ring_next, &rank->pipes.ring_prev, &both);
    for (size_t i = 0; is_adding && i < in_count; i++)
        in[i] += rank->sum[i];
}

static void all_reduce(struct rank *rank)
{
    int dp = rank->options->dp;
    if (dp == 1)
        return;
    size_t total = rank->model.parameter_count + 1;
    const struct rankscope_comm comm = {.group = rank->dp_group,
                                        .sequence = rank->collectives++,
                                        .bytes = total * sizeof(float),
                                        .peer = RANKSCOPE_UNKNOWN,
                                        .type = RANKSCOPE_ALL_REDUCE,
                                        .transport = RANKSCOPE_TCP};
    rankscope_comm_begin(&comm);
    for (int hop = 0; hop < 2 * (dp - 1); hop++)
        ring_hop(rank, hop);
    rankscope_comm_end();
}

static void optimize(struct rank *rank)
{
    rankscope_op_begin(rank->optimizer);
    float share = 1.0f / (float)rank->options->dp;
    for (size_t i = 0; i < rank->model.parameter_count + 1; i++)
        rank->model.gradients[i] *= share;
    model_update(&rank->model);
    rankscope_op_end();
}

/* ---- the loop ---- */

struct losses {
    double first_sum, last[10];
    uint64_t count;
};

static void keep_loss(struct losses *losses, double loss)
{
    if (losses->count < 10)
        losses->first_sum += loss;
    losses->last[losses->count++ % 10] = loss;
}

static void report_losses(const struct losses *losses, struct board *board)
{
    uint64_t count = losses->count < 10 ? losses->count : 10;
    double last = 0.0;
    for (uint64_t i = 0; i < count; i++)
        last += losses->last[i];
    if (count == 0)
        return;
    double nano = 1e9 / (double)count;
    board->first_loss = (uint64_t)(losses->first_sum * nano);
    board->last_loss = (uint64_t)(last * nano);
}

static void train_step(struct rank *rank, uint64_t step, struct losses *losses)
{
    load_data(rank, step);
    for (int micro = 0; micro < rank->options->micro_batches; micro++)
        forward(rank, micro);
    for (int micro = 0; micro < rank->options->micro_batches; micro++)
        backward(rank, micro);
    all_reduce(rank);
    double loss = (double)rank->model.gradients[rank->model.parameter_count] / rank->options->dp;
    optimize(rank);
    keep_loss(losses, loss);
}

int rank_run(const struct options *options, int number, const int *listeners, const uint16_t *ports,
             struct board *board)
{
    struct rank rank = {.options = options,
                        .place = {number, number % options->dp, number / options->dp}};
    pipes_open(&rank.pipes, options, &rank.place, listeners[number], ports);
    model_init(&rank.model, options, &rank.place);
    rank.wire = calloc(1, activation_bytes(&rank));
    rank.sum = calloc(rank.model.parameter_count + 1, sizeof *rank.sum);
    if (rank.wire == NULL || rank.sum == NULL)
        pipe_fail("memory");
    struct rankscope_config config = RANKSCOPE_CONFIG_INIT;
    config.run = options->run;
    config.rank = number;
    config.world_size = options->dp * options->pp;
    config.dp = rank.place.dp;
    config.pp = rank.place.pp;
    (void)rankscope_init(&config); /* a job runs with or without a profiler */
    name_things(&rank);
    struct losses losses = {0};
    uint64_t step = 0;
    for (; options->steps == 0 || step < options->steps; step++) {
        board->step[number] = step;
        if (step >= board->stop_at)
            break;
        rankscope_step(step);
        train_step(&rank, step, &losses);
    }
    rankscope_fini();
    if (rank.model.is_last && rank.place.dp == 0)
        report_losses(&losses, board);
    board->steps_done = step;
    board->digest[number] = model_digest(&rank.model);
    pipes_close(&rank.pipes);
    model_fini(&rank.model);
    free(rank.wire);
    free(rank.sum);
    return 0;
}
