/* SPDX-License-Identifier: Apache-2.0 */
/*
 * minitrain's network: one TCP connection per neighbour, over the loopback interface.
 *
 * A sender with a planted limit really sends at that rate: pieces of 16 KiB, and sleep in between. All failures end
 * the process with a sentence: a rank alone is of no use.
 */
#ifndef MINITRAIN_PIPE_H
#define MINITRAIN_PIPE_H

#include "deploy/demo/job.h"

#include <stddef.h>

struct pipe_end {
    int fd;              /* -1: no such neighbour */
    int peer;            /* global rank */
    double bytes_per_ns; /* limit of what we send; 0: none */
};

enum pipe_use { PIPE_RING, PIPE_STAGES };

struct pipes {
    struct pipe_end ring_next, ring_prev;   /* within the data-parallel group */
    struct pipe_end stage_next, stage_prev; /* along the pipeline */
};

void pipes_open(struct pipes *pipes, const struct options *options, const struct place *place,
                int listener, const uint16_t *ports);
void pipes_close(struct pipes *pipes);

void pipe_send(struct pipe_end *end, const void *data, size_t bytes);
void pipe_receive(struct pipe_end *end, void *data, size_t bytes);

/* Sends and receives at the same time, and tells librankscope of both as hops of the open communication. */
struct hop {
    const void *out;
    size_t out_bytes;
    void *in;
    size_t in_bytes;
};
void pipe_hop(struct pipe_end *to, struct pipe_end *from, const struct hop *hop);

_Noreturn void pipe_fail(const char *what);

#endif
