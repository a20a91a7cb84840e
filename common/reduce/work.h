/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces behind a summary's figures, for those who write the events down again: what was counted as
 * computing, communication or memory, where, and in which windows. There is one classification of
 * work, and this is how others get it.
 *
 * All of it after rs_reduce_finish() and before rs_reduce_free(); instants count from the stream's time base.
 */
#ifndef RS_REDUCE_WORK_H
#define RS_REDUCE_WORK_H

#include "common/reduce/classify.h"
#include "common/reduce/reduce.h"

struct rs_work {
    rs_ns start, end;
    int64_t correlation; /* -1 none */
    uint32_t lane;       /* of the stream */
    rs_str name;    /* of the stream; RS_STR_NONE: operators of a CPU, taken together per thread */
    int32_t device; /* -1: the CPU is the device */
    enum rs_work_class work_class;
};
typedef enum rs_status rs_work_fn(void *self, const struct rs_work *work, struct rs_err *err);
/* By (device, start); stops at the first failure of `visit` and returns that. */
RS_MUST_CHECK enum rs_status rs_reduce_work(const struct rs_reduce *reduce, rs_work_fn *visit,
                                            void *self, struct rs_err *err);

/* Where the official figures of a step look: operations that start in [start, end) on the device. */
struct rs_work_window {
    int64_t step;
    int32_t device;
    rs_ns host_start, host_end;
    rs_ns start, end; /* RS_NS_MIN, RS_NS_MAX: a recording without steps */
};
typedef enum rs_status rs_work_window_fn(void *self, const struct rs_work_window *window,
                                         struct rs_err *err);
/* By (step in time order, device). */
RS_MUST_CHECK enum rs_status rs_reduce_windows(const struct rs_reduce *reduce,
                                               rs_work_window_fn *visit, void *self,
                                               struct rs_err *err);

#endif
