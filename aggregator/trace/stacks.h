/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of one recording as flame graphs want them: "outer;inner;innermost 123", a line a stack, 123 microseconds of its own.
 *
 * What torch.profiler's export_stacks() is for. A stack is the Python frames (where with_stack was on) and the operators and ranges in
 * them; stacks of device time end with the kernel's name. Blanks and semicolons in names become '_', as torch writes them.
 */
#ifndef RS_TRACE_STACKS_H
#define RS_TRACE_STACKS_H

#include "aggregator/trace/calls.h"
#include "common/base/buf.h"

enum rs_stack_metric { RS_STACK_SELF_CPU, RS_STACK_SELF_DEVICE };
/* "self_cpu", "self_device", and torch's words for them. False: none of them. */
bool rs_stack_metric_named(const char *word, enum rs_stack_metric *metric_p);

struct rs_stacks_form {
    enum rs_stack_metric metric;
    /* 0: 1 GiB. A line has the names of all who hold its stack: of rows that lie in each other a hundred thousand deep they would fill
     * any disk. */
    size_t limit_bytes;
};

/* Appends the lines, in the order in which the stacks were first seen on their threads; *lines_p of them, those under a microsecond in all
 * left out. `calls` are nested. RS_NOMEM, RS_LIMIT. */
RS_MUST_CHECK enum rs_status rs_stacks_write(const struct rs_trace_calls *calls,
                                             const struct rs_strtab *strings,
                                             const struct rs_stacks_form *how, struct rs_buf *out,
                                             uint64_t *lines_p, struct rs_err *err);

#endif
