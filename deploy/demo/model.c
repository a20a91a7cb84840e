/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/demo/model.h"

#include "deploy/demo/pipe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16 };
static const float learning_rate = 0.02f;
static const float momentum = 0.9f;

/* ---- numbers that are the same everywhere ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* About normal: the sum of four uniform numbers, variance 1. */
static float next_normal(uint64_t *state)
{
    float sum = 0.0f;
    for (int i = 0; i < 4; i++)
        sum += (float)(next_random(state) >> 40) / (float)(1 << 24) - 0.5f;
    return sum * 1.7320508f;
}

static void fill_normal(float *values, size_t count, uint64_t seed)
{
    uint64_t state = seed;
    for (size_t i = 0; i < count; i++)
        values[i] = next_normal(&state);
}

/* ---- products. Rows are samples. Sums go in a fixed order: results are the same in every run. ---- */

/* y[rows][n] = scale * x[rows][k] . w[k][n] */
static void product(float *restrict y, const float *restrict x, const float *restrict w, int rows,
                    const struct linear *linear)
{
    size_t k_count = (size_t)linear->in;
    size_t n_count = (size_t)linear->out;
    for (size_t r = 0; r < (size_t)rows; r++) {
        float *restrict row = y + r * n_count;
        memset(row, 0, n_count * sizeof *row);
        for (size_t k = 0; k < k_count; k++) {
            const float a = x[r * k_count + k] * linear->scale;
            const float *restrict line = w + k * n_count;
            for (size_t n = 0; n < n_count; n++)
                row[n] += a * line[n];
        }
    }
}

/* g[k][n] += scale * x[rows][k]^T . d[rows][n] */
static void product_of_weights(float *restrict g, const float *restrict x, const float *restrict d,
                               int rows, const struct linear *linear)
{
    size_t k_count = (size_t)linear->in;
    size_t n_count = (size_t)linear->out;
    for (size_t k = 0; k < k_count; k++)
        for (size_t r = 0; r < (size_t)rows; r++) {
            const float a = x[r * k_count + k] * linear->scale;
            const float *restrict line = d + r * n_count;
            float *restrict row = g + k * n_count;
            for (size_t n = 0; n < n_count; n++)
                row[n] += a * line[n];
        }
}

static float dot(const float *restrict a, const float *restrict b, size_t count)
{
    float sums[LANES] = {0.0f};
    size_t whole = count - count % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    float sum = 0.0f;
    for (size_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    for (size_t i = whole; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* e[rows][k] = scale * d[rows][n] . w[k][n]^T */
static void product_of_inputs(float *restrict e, const float *restrict d, const float *restrict w,
                              int rows, const struct linear *linear)
{
    size_t k_count = (size_t)linear->in;
    size_t n_count = (size_t)linear->out;
    for (size_t r = 0; r < (size_t)rows; r++)
        for (size_t k = 0; k < k_count; k++)
            e[r * k_count + k] = linear->scale * dot(d + r * n_count, w + k * n_count, n_count);
}

/* How many rows a slow rank computes once more, round after round. */
static int wasted_rows(const struct model *model, double *left)
{
    int rows = model->options->batch;
    double now = *left < 1.0 ? *left : 1.0;
    *left -= now;
    return (int)(now * rows + 0.5);
}

/* ---- building ---- */

static float *allocate(size_t count)
{
    float *values = calloc(count, sizeof *values);
    if (values == NULL)
        pipe_fail("memory");
    return values;
}

static void shape_linears(struct model *model)
{
    const struct options *o = model->options;
    struct linear widen = {.in = o->narrow,
                           .out = o->hidden,
                           .has_relu = true,
                           .scale = 1.0f / sqrtf((float)o->narrow)};
    struct linear reduce = {
        .in = o->hidden, .out = o->narrow, .scale = 1.0f / sqrtf((float)o->hidden)};
    if (!model->is_first)
        model->linears[model->linear_count++] = reduce;
    if (!model->is_last || model->is_first)
        model->linears[model->linear_count++] = widen;
    if (model->is_last && model->is_first)
        model->linears[model->linear_count++] = reduce;
}

static void place_parameters(struct model *model)
{
    const struct options *o = model->options;
    size_t embedding = model->is_first ? (size_t)TOKENS * (size_t)o->narrow : 0;
    size_t count = embedding;
    for (int i = 0; i < model->linear_count; i++)
        count += (size_t)model->linears[i].in * (size_t)model->linears[i].out;
    model->parameter_count = count;
    model->parameters = allocate(count);
    model->gradients = allocate(count + 1);
    model->momenta = allocate(count);
    if (model->is_first) {
        model->embedding = model->parameters;
        model->embedding_gradients = model->gradients;
    }
    size_t at = embedding;
    size_t samples = (size_t)o->micro_batches * (size_t)o->batch;
    for (int i = 0; i < model->linear_count; i++) {
        struct linear *linear = &model->linears[i];
        linear->weights = model->parameters + at;
        linear->gradients = model->gradients + at;
        linear->inputs = allocate(samples * (size_t)linear->in);
        linear->outputs = allocate(samples * (size_t)linear->out);
        at += (size_t)linear->in * (size_t)linear->out;
    }
}

void model_init(struct model *model, const struct options *o, const struct place *place)
{
    *model = (struct model){
        .options = o, .is_first = place->pp == 0, .is_last = place->pp == o->pp - 1, .factor = 1.0};
    for (int i = 0; i < o->slow_rank_count; i++)
        if (o->slow_ranks[i].rank == place->rank)
            model->slow = &o->slow_ranks[i];
    shape_linears(model);
    place_parameters(model);
    fill_normal(model->parameters, model->parameter_count,
                ((uint64_t)o->seed << 32) + (uint64_t)place->pp);
    if (model->is_last) {
        model->targets = allocate((size_t)TOKENS * (size_t)o->narrow);
        fill_normal(model->targets, (size_t)TOKENS * (size_t)o->narrow,
                    ((uint64_t)o->seed << 32) + 1000);
    }
    size_t wide = (size_t)o->batch * (size_t)(o->hidden > o->narrow ? o->hidden : o->narrow);
    model->tokens = calloc((size_t)o->micro_batches * (size_t)o->batch, sizeof *model->tokens);
    if (model->tokens == NULL)
        pipe_fail("memory");
    model->upstream = allocate(wide);
    model->spare = allocate(wide);
    size_t weights = (size_t)o->narrow * (size_t)o->hidden;
    model->waste = allocate(weights > wide ? weights : wide);
}

void model_fini(struct model *model)
{
    for (int i = 0; i < model->linear_count; i++) {
        free(model->linears[i].inputs);
        free(model->linears[i].outputs);
    }
    free(model->parameters);
    free(model->gradients);
    free(model->momenta);
    free(model->targets);
    free(model->tokens);
    free(model->upstream);
    free(model->spare);
    free(model->waste);
}

void model_load(struct model *model, uint64_t step, int dp)
{
    const struct options *o = model->options;
    if (model->slow != NULL && step >= model->slow->from)
        model->factor = model->slow->factor;
    uint64_t state = ((uint64_t)o->seed << 48) + (step << 8) + (uint64_t)dp;
    for (int i = 0; i < o->micro_batches * o->batch; i++)
        model->tokens[i] = (int)(next_random(&state) % TOKENS);
}

/* ---- forward ---- */

static void look_up(const struct model *model, int micro, float *rows)
{
    size_t width = (size_t)model->options->narrow;
    for (int i = 0; i < model->options->batch; i++) {
        int token = model->tokens[micro * model->options->batch + i];
        memcpy(rows + (size_t)i * width, model->embedding + (size_t)token * width,
               width * sizeof *rows);
    }
}

static void relu(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] > 0.0f ? values[i] : 0.0f;
}

static float *sample_rows(const struct model *model, float *base, int micro, int width)
{
    return base + (size_t)micro * (size_t)model->options->batch * (size_t)width;
}

static void linear_forward(struct model *model, struct linear *linear, int micro)
{
    int rows = model->options->batch;
    float *x = sample_rows(model, linear->inputs, micro, linear->in);
    float *y = sample_rows(model, linear->outputs, micro, linear->out);
    product(y, x, linear->weights, rows, linear);
    for (double left = model->factor - 1.0; left > 0.0;)
        product(model->waste, x, linear->weights, wasted_rows(model, &left), linear);
    if (linear->has_relu)
        relu(y, (size_t)rows * (size_t)linear->out);
}

const float *model_forward(struct model *model, int micro, const float *given)
{
    const float *values = given;
    for (int i = 0; i < model->linear_count; i++) {
        struct linear *linear = &model->linears[i];
        float *x = sample_rows(model, linear->inputs, micro, linear->in);
        if (values != NULL)
            memcpy(x, values, (size_t)model->options->batch * (size_t)linear->in * sizeof *x);
        else
            look_up(model, micro, x);
        linear_forward(model, linear, micro);
        values = sample_rows(model, linear->outputs, micro, linear->out);
    }
    return values;
}

/* ---- backward ---- */

/* Gradient of the loss; adds the loss behind the gradients. */
static void from_targets(struct model *model, int micro, float *gradient)
{
    const struct options *o = model->options;
    const struct linear *last = &model->linears[model->linear_count - 1];
    const float *y = sample_rows(model, last->outputs, micro, last->out);
    size_t width = (size_t)o->narrow;
    float samples = (float)(o->batch * o->micro_batches);
    float loss = 0.0f;
    for (int i = 0; i < o->batch; i++) {
        const float *target = model->targets + (size_t)model->tokens[micro * o->batch + i] * width;
        for (size_t n = 0; n < width; n++) {
            float error = y[(size_t)i * width + n] - target[n];
            loss += error * error;
            gradient[(size_t)i * width + n] = error / samples;
        }
    }
    model->gradients[model->parameter_count] += loss / (samples * (float)width);
}

static void linear_backward(struct model *model, struct linear *linear, int micro)
{
    int rows = model->options->batch;
    const float *x = sample_rows(model, linear->inputs, micro, linear->in);
    const float *y = sample_rows(model, linear->outputs, micro, linear->out);
    float *d = model->upstream;
    size_t count = (size_t)rows * (size_t)linear->out;
    for (size_t i = 0; linear->has_relu && i < count; i++)
        d[i] = y[i] > 0.0f ? d[i] : 0.0f;
    product_of_weights(linear->gradients, x, d, rows, linear);
    product_of_inputs(model->spare, d, linear->weights, rows, linear);
    for (double left = model->factor - 1.0; left > 0.0;) {
        int again = wasted_rows(model, &left);
        product_of_weights(model->waste, x, d, again, linear);
        product_of_inputs(model->waste, d, linear->weights, again, linear);
    }
    model->upstream = model->spare;
    model->spare = d;
}

const float *model_backward(struct model *model, int micro, const float *upstream)
{
    const struct options *o = model->options;
    if (upstream == NULL)
        from_targets(model, micro, model->upstream);
    else
        memcpy(model->upstream, upstream, (size_t)o->batch * (size_t)o->hidden * sizeof *upstream);
    for (int i = model->linear_count; i-- > 0;)
        linear_backward(model, &model->linears[i], micro);
    if (!model->is_first)
        return model->upstream;
    size_t width = (size_t)o->narrow;
    for (int i = 0; i < o->batch; i++) {
        float *row =
            model->embedding_gradients + (size_t)model->tokens[micro * o->batch + i] * width;
        for (size_t n = 0; n < width; n++)
            row[n] += model->upstream[(size_t)i * width + n];
    }
    return NULL;
}

void model_update(struct model *model)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        model->momenta[i] = momentum * model->momenta[i] + model->gradients[i];
        model->parameters[i] -= learning_rate * model->momenta[i];
    }
    memset(model->gradients, 0, (model->parameter_count + 1) * sizeof *model->gradients);
}

uint64_t model_digest(const struct model *model)
{
    const unsigned char *bytes = (const unsigned char *)model->parameters;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < model->parameter_count * sizeof *model->parameters; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}
