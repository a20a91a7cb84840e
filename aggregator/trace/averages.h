/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of recordings, summed up by name: what torch.profiler's key_averages() has, out of what was recorded.
 *
 *     calls of one recording --> rs_averages_add() --> rows by rank, name and, when asked for, shapes and stack
 *
 * A row is an operator, a range, a call of a runtime, or a kernel of a device. An operator's total times hold those of the calls in it, so
 * they do not add up; its self times do. Numbered steps ("ProfilerStep#7") are one row. One thread at a time.
 */
#ifndef RS_TRACE_AVERAGES_H
#define RS_TRACE_AVERAGES_H

#include "aggregator/trace/calls.h"
#include "common/base/buf.h"
#include "common/base/slots.h"

enum rs_average_sort {
    RS_AVERAGE_SELF_CPU,
    RS_AVERAGE_CPU,
    RS_AVERAGE_SELF_DEVICE,
    RS_AVERAGE_DEVICE,
    RS_AVERAGE_SELF_CPU_MEMORY,
    RS_AVERAGE_CPU_MEMORY,
    RS_AVERAGE_SELF_DEVICE_MEMORY,
    RS_AVERAGE_DEVICE_MEMORY,
    RS_AVERAGE_FLOPS,
    RS_AVERAGE_COUNT,
    RS_AVERAGE_NAME,
    RS_AVERAGE_SORT_COUNT
};
/* "self_cpu", ... torch's words ("self_cuda_time_total") are understood, too. False: none of them. */
bool rs_average_sort_named(const char *word, enum rs_average_sort *sort_p);
const char *rs_average_sort_text(enum rs_average_sort sort);

struct rs_average {
    int32_t rank;
    rs_str name, shapes,
        stack; /* of rs_averages.texts; shapes, stack RS_STR_NONE when rows are not told apart by them */
    bool is_device; /* a kernel, a copy: it has no times of the host */
    uint64_t count;
    rs_dur self_cpu, cpu, self_device, device, min,
        max; /* min, max: of one call, of the host, or of the device */
    int64_t self_cpu_memory, cpu_memory, self_device_memory, device_memory; /* bytes */
    int64_t flops; /* by its inputs' shapes; -1: not known of any call */
};

struct rs_averages_options {
    bool by_shapes;
    uint32_t stack_frames; /* rows are told apart by so many innermost Python frames; 0: not */
};

struct rs_averages {
    struct rs_averages_options options;
    struct rs_strtab texts;
    struct rs_average *items;
    size_t count, capacity;
    struct rs_slots index;
    bool has_device, has_memory, has_device_memory, has_flops; /* columns that say something */
};

/* RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_averages_init(struct rs_averages *averages,
                                              const struct rs_averages_options *options);
void rs_averages_fini(struct rs_averages *averages); /* of a zeroed one is allowed */

/* One recording of the rank; its calls are nested. RS_NOMEM, RS_LIMIT. */
RS_MUST_CHECK enum rs_status rs_averages_add(struct rs_averages *averages, int32_t rank,
                                             const struct rs_trace_calls *calls,
                                             const struct rs_strtab *strings, struct rs_err *err);
/* By rank, then the largest first (names: alphabetically). */
void rs_averages_sort(struct rs_averages *averages, enum rs_average_sort sort);

struct rs_averages_form {
    size_t row_limit; /* of each rank */
    enum { RS_AVERAGES_TEXT, RS_AVERAGES_CSV, RS_AVERAGES_JSON } form;
};
/* Appends the rows as they are sorted: a table for people, CSV, or JSON. */
void rs_averages_write(const struct rs_averages *averages, const struct rs_averages_form *how,
                       struct rs_buf *buf);

/* Sums of what a stranger's file says stay at the ends of what can be said. */
void rs_averages_add_up(int64_t *sum, int64_t more);

/* Floating point operations of one call by torch's formulas: products of matrices and two-dimensional convolution. -1: another operator, or
 * its shapes do not say. */
int64_t rs_flops_of(const char *name, const char *dims, const char *concrete);

#endif
