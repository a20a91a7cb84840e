/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much work came to each rank, as far as its operations tell: experts compute for the tokens that an all_to_all brings, and how many
 * those are stands in the sizes of the calls around them.
 *
 *   step of one rank    all_to_all (gives 6 MB)   experts   all_to_all (gives back what had come: 9 MB)
 *
 * An all_to_all of a step at which all ranks of a class give the same in all steps says nothing and is left out. Inside the room.
 */
#include "aggregator/analysis/diagnose/build.h"
#include "common/base/mem.h"

#include <math.h>

/* Sizes of one place that differ by no more are the same. */
static const double same_size = 1.01;
/* Operations of a step that are asked: what a larger program says of loads its first part says, too. */
enum { PLACES_MAX = 4096 };

struct place {
    double least, most; /* bytes */
};

static enum rs_status add_load(struct diag_model *model, const struct line *line, uint32_t worker,
                               int64_t bytes)
{
    if (rs_mem_grow((void **)&model->loads, &model->load_capacity, model->load_count + 1,
                    sizeof *model->loads) != RS_OK) {
        return RS_NOMEM;
    }
    model->loads[model->load_count++] =
        (struct diag_load){worker, line->step, line->slot, (double)bytes};
    return RS_OK;
}

/* Over the all_to_alls of one rank: what sizes there are at each place, or those that differ. */
static enum rs_status count_rank(const struct builder *builder, const struct program *program,
                                 struct place *places, bool adds)
{
    enum rs_status status = RS_OK;
    uint32_t step = GRAPH_NONE;
    size_t n = 0;
    for (size_t i = 0; status == RS_OK && i < program->count; i++) {
        const struct line *line = &program->lines[i];
        if (!line_counts(line) || line->what == LINE_LOST || line->is_hidden ||
            program->step_signatures[line->step] != program->signature) {
            continue;
        }
        const struct rs_comm_op *op = line_op(builder, program, line);
        n = line->step != step ? 0 : n;
        step = line->step;
        if (op->type != RS_OP_ALL_TO_ALL || n++ >= PLACES_MAX || op->bytes < 0) {
            continue;
        }
        struct place *place = &places[n - 1];
        if (!adds) {
            place->least = fmin(place->least, (double)op->bytes);
            place->most = fmax(place->most, (double)op->bytes);
        } else if (place->most > place->least * same_size) {
            status = add_load(builder->model, line, program->worker, op->bytes);
        }
    }
    return status;
}

static enum rs_status count_class(const struct builder *builder, uint32_t class_id,
                                  struct place *places, bool adds)
{
    enum rs_status status = RS_OK;
    for (size_t w = 0; status == RS_OK && w < builder->model->worker_count; w++) {
        if (builder->model->workers[w].class_id == class_id) {
            status = count_rank(builder, &builder->programs[w], places, adds);
        }
    }
    return status;
}

enum rs_status loads_take(struct builder *builder)
{
    const struct diag_model *model = builder->model;
    struct place *places = rs_mem_calloc(PLACES_MAX, sizeof *places);
    enum rs_status status = places != NULL ? RS_OK : RS_NOMEM;
    for (uint32_t c = 0; status == RS_OK && c < model->class_count; c++) {
        for (size_t n = 0; n < PLACES_MAX; n++) {
            places[n] = (struct place){(double)INFINITY, 0};
        }
        status = count_class(builder, c, places, false);
        if (status == RS_OK) {
            status = count_class(builder, c, places, true);
        }
    }
    rs_mem_free(places);
    return status;
}
