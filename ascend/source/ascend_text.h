/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form while it is read: what ascend_text.c (the trace, the directory), ascend_text_work.c (operators'
 * tables; what is known without a trace), ascend_text_steps.c (its steps) and ascend_links.c (its links) share.
 */
#ifndef RS_SOURCE_ASCEND_TEXT_H
#define RS_SOURCE_ASCEND_TEXT_H

#include "ascend/source/ascend_json.h"
#include "ascend/source/ascend_trace.h"
#include "common/base/mem.h"

#define LIST(type)                                                                                 \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t count, capacity;                                                                    \
    }

#define PUSH(list, status, ...)                                                                    \
    do {                                                                                           \
        (status) = rs_mem_grow((void **)&(list)->items, &(list)->capacity, (list)->count + 1,      \
                               sizeof *(list)->items);                                             \
        if ((status) == RS_OK)                                                                     \
            (list)->items[(list)->count++] = (__VA_ARGS__);                                        \
    } while (0)

struct host_step {
    int64_t number;
    rs_ns host_start, host_end, start, end;
    bool is_guess; /* no trace: from its operations */
};

/* A row of Ascend Hardware. */
struct device_row {
    rs_ns start, end;
    int64_t connection, device, stream;
    rs_str name;
    bool is_computing, is_copy, is_emitted;
};

struct node_row {
    int64_t connection;
    rs_ns start, end;
};

struct hccl_op {
    struct ascend_op op;
    int64_t pid, tid; /* its group's thread */
    int64_t step;     /* that a document puts it into; RS_ASCEND_NO_STEP: none does */
    char dtype[16];
};

/* An operator of kernel_details.csv, where there is no trace. */
struct listed_work {
    rs_ns start, end;
    int64_t step;
};

struct small_task {
    struct ascend_task task;
    int64_t pid, tid; /* its group's thread */
    char link[16];
};

/* What one operation, or all of a type (name NONE), sent over one link of this rank. */
struct link_row {
    rs_str step, group; /* of the stream: "step50", decimal hash */
    const char *type;   /* "allreduce": `type_length` bytes */
    size_t type_length;
    int32_t src, dst; /* within the group */
    rs_str name;
    int64_t bytes, ns;
    rs_str transport;
};

struct text_reader {
    struct ascend a;
    struct trace_names names;
    struct json_ops json;
    LIST(struct host_step) steps;
    LIST(struct device_row) rows;
    LIST(struct node_row) nodes;
    LIST(struct hccl_op) ops;
    LIST(struct small_task) tasks;
    LIST(struct listed_work) listed;
    LIST(struct link_row) links; /* of its own figures, by step, communicator, type and link */
    LIST(struct link_row) types; /* how many operations of each type there are */
    bool has_trace;
    bool has_inferred; /* work between operations was inferred from the step figures */
    bool has_table;    /* kernel_details.csv has rows */
    rs_ns first, last;
};

/* RS_OK, or the failure with the folder's name. */
RS_MUST_CHECK enum rs_status ascend_text_fail(const struct text_reader *reader,
                                              enum rs_status status, struct rs_err *err);
/* The recording goes at least from `start` to `end`. */
void ascend_text_widen(struct text_reader *reader, rs_ns start, rs_ns end);

/* Operators of kernel_details.csv or its slices; without a trace also the steps they name, and operations when
 * communication.json names none. */
RS_MUST_CHECK enum rs_status ascend_text_kernels(struct text_reader *reader, struct rs_err *err);
/* What no table names: copies, and operators by their type when there is no table. */
RS_MUST_CHECK enum rs_status ascend_text_rest(struct text_reader *reader, struct rs_err *err);
/* Without a trace: operations and steps of communication.json. */
RS_MUST_CHECK enum rs_status ascend_text_ops_of_json(struct text_reader *reader,
                                                     struct rs_err *err);
/* Without a trace: the links of the rank's own figures; then, of the operations that are known, how many are of each type; then
 * the transfers of one of them (ascend_links.c). */
RS_MUST_CHECK enum rs_status ascend_text_links(struct text_reader *reader, struct rs_err *err);
RS_MUST_CHECK enum rs_status ascend_text_count_types(struct text_reader *reader,
                                                     struct rs_err *err);
RS_MUST_CHECK enum rs_status ascend_text_link_hops(struct text_reader *reader, struct hccl_op *op,
                                                   struct rs_err *err);
/* Without a trace: which steps are whole, when they began, and the work that only sums tell of (ascend_text_steps.c). */
RS_MUST_CHECK enum rs_status ascend_text_settle_steps(struct text_reader *reader,
                                                      struct rs_err *err);
/* Without a trace: says what that leaves unknown. */
RS_MUST_CHECK enum rs_status ascend_text_report_no_trace(struct text_reader *reader,
                                                         struct rs_err *err);

#endif
