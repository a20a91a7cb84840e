/* SPDX-License-Identifier: Apache-2.0 */
/*
 * minitrain: what the command line says, and what its processes share.
 *
 * minitrain stands for a user's program: it knows librankscope and libc, nothing else of this project.
 */
#ifndef MINITRAIN_JOB_H
#define MINITRAIN_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { MAX_WORLD = 64, MAX_PLANTS = 16 };

/* Trouble that really happens. Unused: rank or src -1. */
struct slow_rank {
    int rank;
    double factor; /* of computing */
    uint64_t from; /* the first step of it */
};

struct slow_link {
    int src, dst;
    double mb_per_s; /* 10^6 bytes per second */
};

struct data_stall {
    int rank;
    double ms; /* in every step */
};

struct options {
    int dp, pp;
    uint64_t steps; /* 0: until SIGTERM */
    int micro_batches;
    int batch;  /* samples in one micro-batch */
    int hidden; /* width of what is passed between stages */
    int narrow; /* width of input and output */
    uint32_t seed;
    const char *run;
    bool only_links; /* print the links in use and end */
    struct slow_rank slow_ranks[MAX_PLANTS];
    int slow_rank_count;
    struct slow_link slow_links[MAX_PLANTS];
    int slow_link_count;
    struct data_stall stalls[MAX_PLANTS];
    int stall_count;
};

/* rank = pp * DP + dp */
struct place {
    int rank, dp, pp;
};

/* One page that all processes of the job see. */
struct board {
    _Atomic uint64_t step[MAX_WORLD]; /* under way */
    _Atomic uint64_t stop_at;         /* the first step not to run; UINT64_MAX: none */
    _Atomic uint64_t digest[MAX_WORLD];
    _Atomic uint64_t
        first_loss; /* in 10^-9, mean of the group, over the first and the last ten steps */
    _Atomic uint64_t last_loss;
    _Atomic uint64_t steps_done;
};

/* 0, or an exit code: the message was printed. */
int options_read(int count, char **arguments, struct options *options);
bool links_has(const struct options *options, int src, int dst);
void links_print(const struct options *options);

/* The training loop of one rank; listeners[rank] are listening sockets of all ranks. Returns the exit code. */
int rank_run(const struct options *options, int rank, const int *listeners, const uint16_t *ports,
             struct board *board);

#endif
