/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated jobs with planted trouble: what the bench of the diagnosis runs on.
 *
 *   seed, kind --job_make()--> layout, programs, troubles --job_run()--> instants of every item
 *        job_run(without the troubles, the same noise)    --> true gain
 *        culprits_summary.c: summaries    culprits_trace.c: Kineto files
 *
 * A job is tensor x pipeline x data parallel (rank = (stage * dp + copy) * tp + column): per rank a 1F1B program of
 * items that one host thread launches in order onto streams. Collectives and messages are rendezvous: nobody's transfer
 * starts before the last member has started. Times are ns.
 *
 *   host      |head l l l l ......... l l sync [wait]|  l: launch of an item
 *   stream 0  computing, waits for operations it needs
 *   stream 1+ tensor parallel, data parallel, global; sends and receives of each direction
 */
#ifndef RS_BENCH_CULPRITS_JOB_H
#define RS_BENCH_CULPRITS_JOB_H

#include "common/event/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOBODY UINT32_MAX

enum item_kind { ITEM_WORK, ITEM_OP, ITEM_SYNC };
enum op_kind { OP_ALL_REDUCE, OP_REDUCE_SCATTER, OP_ALL_GATHER, OP_SEND, OP_RECV };
enum { STREAM_WORK, STREAM_TENSOR, STREAM_DATA, STREAM_ALL, STREAM_MESSAGES, STREAM_COUNT = 8 };

enum trouble_kind {
    TROUBLE_NONE,
    TROUBLE_RANKS,    /* computing of these ranks times `factor` */
    TROUBLE_STALL,    /* the host of one rank loads data `ns` longer, every `every`-th step */
    TROUBLE_MESSAGES, /* messages between two ranks take `factor` as long */
    TROUBLE_GROUP,    /* operations of one group do */
};

struct trouble {
    enum trouble_kind kind;
    uint32_t ranks[64];
    size_t rank_count;
    uint32_t group;
    double factor;
    int64_t ns;
    uint32_t every, phase;
    uint32_t first; /* step from which on */
    int way;        /* MESSAGES: 0 both, else only from ranks[0] to ranks[1] */
};

struct group {
    uint32_t *ranks;
    size_t count;
    char name[12];
    bool crosses; /* hosts */
    int stream;
};

struct item {
    uint8_t kind, op;
    bool is_end;    /* of an embedding or a loss */
    bool is_hidden; /* an operation that the recording shows as a kernel of unknown name */
    uint8_t stream;
    uint32_t rank, step, kernels;
    uint32_t place; /* in the rank's step */
    uint32_t group, peer;
    uint32_t meeting; /* operations */
    uint32_t needs[2];
    int64_t bytes;
    int64_t base; /* work, or transfer, before noise and trouble */
    int64_t launch, start, end;
};

struct meeting {
    uint32_t first, count; /* into members */
    int64_t at;
};

struct job {
    uint64_t seed;
    uint32_t tp, pp, dp, ranks, steps, micro, layers, host_size;
    double noise, correlation, rank_spread, spikes;
    bool
        has_ends; /* the first stage embeds, the last one has a loss: in the same spans as the layers beside them */
    double heavier_share; /* the last stage has so much more to do forward, by more kernels */
    int64_t resolution;
    bool has_sync, reads_norm; /* the host waits at the end of a step; before the optimizer */
    bool has_overlap, has_hidden;
    bool has_hosts, has_arguments, has_own_clocks;
    double pause_share; /* chance of a pause of a rank in a step */
    int64_t pause_ns;
    bool stall_moves;
    uint32_t missing; /* rank that was not recorded; NOBODY */
    struct trouble troubles[4];
    size_t trouble_count;
    struct group *groups;
    size_t group_count, group_capacity;
    struct item *items; /* by rank, then order of launches */
    size_t item_count, item_capacity;
    size_t *first; /* [rank + 1] */
    struct meeting *meetings;
    size_t meeting_count, meeting_capacity;
    uint32_t *members;              /* item ids by meeting */
    int64_t *heads;                 /* [rank * (steps + 1)] host time before the first launch */
    int64_t *inputs;                /* of it loading data */
    int64_t *step_start, *step_end; /* [rank * (steps + 1)] of the host */
    int64_t *step_done;             /* [steps + 1] end of all work of a step */
};

/* One step more than is recorded is simulated, before the recorded ones. */
void job_make(struct job *job);
/* with: bits of troubles that are there. */
void job_run(struct job *job, unsigned with);
int64_t job_step_ns(const struct job *job); /* of the last job_run() */
void job_free(struct job *job);

double job_uniform(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);
double job_normal(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);
uint32_t job_host(const struct job *job, uint32_t rank);
uint32_t job_stage(const struct job *job, uint32_t rank);
uint32_t job_class_size(const struct job *job);
/* What the rank's clock shows at an instant of the simulation, at the recording's resolution. */
int64_t job_clock(const struct job *job, uint32_t rank, int64_t at);
/* Group of this name's kind that the rank is in: stream STREAM_TENSOR, STREAM_DATA, STREAM_ALL; NOBODY. */
uint32_t job_group_of(const struct job *job, uint32_t rank, int stream);

#endif
