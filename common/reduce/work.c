/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/work.h"

#include "common/reduce/reduce_priv.h"

enum rs_status rs_reduce_work(const struct rs_reduce *reduce, rs_work_fn *visit, void *self,
                              struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t slot = 0; slot < reduce->slot_count; slot++) {
        for (size_t i = reduce->slot_first[slot];
             status == RS_OK && i < reduce->slot_first[slot + 1]; i++) {
            const struct reduce_work *own = &reduce->work.items[reduce->order[i]];
            const struct rs_work work = {.start = own->start,
                                         .end = own->end,
                                         .correlation = work_correlation(reduce, own),
                                         .lane = own->lane,
                                         .name = own->name,
                                         .device = reduce->slots[slot],
                                         .work_class = (enum rs_work_class)own->work_class};
            status = visit(self, &work, err);
        }
    }
    return status;
}

enum rs_status rs_reduce_windows(const struct rs_reduce *reduce, rs_work_window_fn *visit,
                                 void *self, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t step = 0; step < reduce->steps.count; step++) {
        const struct reduce_step *own = &reduce->steps.items[step];
        for (size_t slot = 0; status == RS_OK && slot < reduce->slot_count; slot++) {
            const struct interval *window = &reduce->device_windows[slot].items[step];
            const struct rs_work_window reported = {.step = own->number,
                                                    .device = reduce->slots[slot],
                                                    .host_start = own->host_start,
                                                    .host_end = own->host_end,
                                                    .start = window->start,
                                                    .end = window->end};
            status = visit(self, &reported, err);
        }
    }
    return status;
}
