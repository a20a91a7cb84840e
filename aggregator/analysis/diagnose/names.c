/* SPDX-License-Identifier: Apache-2.0 */
/* How often and how long each rank ran each computing kernel: what stages can be compared by where their spans are not alike. Inside the room. */
#include "aggregator/analysis/diagnose/build.h"
#include "aggregator/analysis/diagnose/stages_priv.h"
#include "common/base/mem.h"
#include "common/reduce/classify.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum rs_status names_take(struct builder *builder)
{
    struct diag_model *model = builder->model;
    if (model->class_count < 2 || model->class_count > STAGES_GROUPED) {
        return RS_OK;
    }
    for (uint32_t w = 0; w < model->worker_count; w++) {
        const struct rs_summary *summary = builder->analysis->summaries[model->workers[w].summary];
        if (builder->programs[w].is_host) {
            continue;
        }
        if (rs_mem_grow((void **)&model->names, &model->name_capacity,
                        model->name_count + summary->kernel_count + 1,
                        sizeof *model->names) != RS_OK) {
            return RS_NOMEM;
        }
        for (size_t i = 0; i < summary->kernel_count; i++) {
            const struct rs_kernel_row *row = &summary->kernels[i];
            if (row->device < 0 || row->work_class != RS_WORK_COMPUTING || row->count <= 0) {
                continue;
            }
            model->names[model->name_count++] = (struct diag_name){
                .key = XXH3_64bits(rs_strtab_text(&summary->strings, row->name),
                                   rs_strtab_length(&summary->strings, row->name)),
                .worker = w,
                .count = (double)row->count,
                .ns = (double)row->total,
                .fastest_ns = (double)row->min};
        }
    }
    return RS_OK;
}
