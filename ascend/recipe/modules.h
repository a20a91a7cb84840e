/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a rank with the calls that launched them, and what each module of the network runs.
 */
#ifndef RS_RECIPE_MODULES_H
#define RS_RECIPE_MODULES_H

#include "ascend/recipe/recipe_priv.h"

/* A kernel and the framework call that launched it, ns. One kernel may have several calls, so several rows. */
enum {
    KERNEL_NAME,
    KERNEL_START,
    KERNEL_END,
    KERNEL_OP, /* the call */
    KERNEL_OP_START,
    KERNEL_OP_END,
    KERNEL_TASK, /* globalTaskId of a computing task, with_shapes only; else RS_NULL */
    KERNEL_TYPES,
    KERNEL_INPUTS,
    KERNEL_OUTPUTS,
    KERNEL_SHARE /* of the chip's peak, 0.45; NaN: not known. Filled by operator_mfu */
};
#define KERNEL_KINDS "tiitiiitttr"

/* Equal calls of one module over all its repetitions. */
enum {
    MODULE_PARENT, /* "outer/inner" */
    MODULE_NAME,
    MODULE_OP,
    MODULE_KERNELS, /* "a, b" */
    MODULE_TOTAL,   /* ns of its kernels */
    MODULE_MEAN,
    MODULE_COUNT,
    MODULE_RANK,
    MODULE_SHARES /* of the kernels; RS_STR_NONE: none is known */
};
#define MODULE_COLUMNS "parent:t name:t op:t kernels:t total:r mean:r calls:i rank:i shares:t"

struct modules_want {
    bool has_backward, has_shares, compat;
};

/* Appends to a frame of KERNEL_KINDS. RS_NOTFOUND: none has a framework call. */
RS_MUST_CHECK enum rs_status modules_kernels(const struct inputs *in, bool with_shapes,
                                             struct frame *kernels, struct rs_err *err);
/* Appends to a frame of MODULE_COLUMNS. RS_NOTFOUND: the rank has no ranges of the domain Module. */
RS_MUST_CHECK enum rs_status modules_sum(const struct inputs *in, const struct frame *kernels,
                                         const struct modules_want *want, struct frame *part,
                                         struct rs_err *err);
/* What module_statistic gathers, and calibrate_npu_gpu starts from: frames[0] of MODULE_COLUMNS. */
void modules_fill(struct inputs *in, struct frame *frames);

#endif
