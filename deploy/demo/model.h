/* SPDX-License-Identifier: Apache-2.0 */
/*
 * minitrain's model: real matrix products, forward and backward, of one pipeline stage.
 *
 *     token -> [embedding] -> linear(narrow -> hidden), relu ==> ... ==> linear(hidden -> narrow) -> loss
 *              first stage                          between stages        last stage
 *
 * Stages in between have linear(hidden -> narrow), linear(narrow -> hidden), relu. The wide tensor passes
 * between stages, so that links carry something. Every token has a target drawn once; the loss is the mean squared
 * distance. Weights of a stage depend on seed and stage alone: all its replicas begin equal.
 */
#ifndef MINITRAIN_MODEL_H
#define MINITRAIN_MODEL_H

#include "deploy/demo/job.h"

#include <stddef.h>

enum { TOKENS = 256, MAX_LINEARS = 2 };

/* Gradients of all parameters stand in one array, the loss behind them: what the group averages. */
struct linear {
    int in, out;
    bool has_relu;
    float scale;
    float *weights;   /* [in][out] */
    float *gradients; /* the same shape */
    float *inputs;    /* [micro-batch][batch][in] */
    float *outputs;   /* [micro-batch][batch][out] */
};

struct model {
    const struct options *options;
    bool is_first, is_last;
    size_t parameter_count;
    float *parameters;
    float *gradients; /* [parameter_count + 1] */
    float *momenta;
    float *embedding; /* [TOKENS][narrow], in parameters; first stage */
    float *embedding_gradients;
    float *targets; /* [TOKENS][narrow]; last stage */
    int *tokens;    /* [micro-batch][batch] of this step */
    struct linear linears[MAX_LINEARS];
    int linear_count;
    float *
        upstream; /* [batch][hidden]: gradient from the next stage, then of what this stage was given */
    float *spare;                 /* [batch][hidden] */
    float *waste;                 /* a slow rank's extra products go here */
    double factor;                /* of computing, 1: as it should be */
    const struct slow_rank *slow; /* NULL: never */
};

void model_init(struct model *model, const struct options *options, const struct place *place);
void model_fini(struct model *model);

/* The data of a step: the same tokens on all stages of a pipeline. */
void model_load(struct model *model, uint64_t step, int dp);

/* One micro-batch. `given`: [batch][hidden] of the stage before (NULL on the first). What the next stage gets. */
const float *model_forward(struct model *model, int micro, const float *given);
/* `upstream`: gradient of what model_forward() returned (NULL on the last stage, which knows the targets).
 * Returns the gradient for the stage before; NULL on the first. */
const float *model_backward(struct model *model, int micro, const float *upstream);
/* Weights follow the averaged gradients, which are cleared. */
void model_update(struct model *model);

uint64_t model_digest(const struct model *model);

#endif
