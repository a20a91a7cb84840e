/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_view.json: whose rows are whose.
 *
 * Rows name a process (pid) and a thread (tid) by numbers; M rows, which may stand anywhere, say what these are: "CANN",
 * "Ascend Hardware" of "NPU 3", "Group 1 Communication". So the file is walked twice: first for the names.
 * Two generations: the layer of HCCL is called "HCCL" or "Communication", labels are "NPU" or "NPU 3".
 */
#ifndef RS_SOURCE_ASCEND_TRACE_H
#define RS_SOURCE_ASCEND_TRACE_H

#include "collector/source/trace_row.h"

enum trace_layer {
    LAYER_OTHER,
    LAYER_PYTHON,
    LAYER_CANN,
    LAYER_HARDWARE,
    LAYER_HCCL,
    LAYER_OVERLAP,
    LAYER_CPU_OP, /* MindSpore on a CPU: its operators, and nothing else */
};

struct trace_process {
    int64_t pid;
    enum trace_layer layer;
    int64_t device; /* of its label; -1: none, or without a number */
};

struct trace_thread {
    int64_t pid, tid;
    bool is_group, is_plane; /* "Group N Communication", "Plane N" */
    int64_t plane;
};

struct trace_names {
    struct trace_process *processes;
    size_t process_count, process_capacity;
    struct trace_thread *threads; /* sorted by (pid, tid) */
    size_t thread_count, thread_capacity;
    struct trace_process *last; /* found */
};

/* Walks the file for its M rows. Statuses as kineto_rows(). */
RS_MUST_CHECK enum rs_status trace_names_read(struct trace_names *names, const char *path,
                                              struct rs_err *err);
void trace_names_fini(struct trace_names *names);

/* NULL: no M row names it. */
const struct trace_process *trace_process_of(struct trace_names *names,
                                             const struct kineto_row *row);
const struct trace_thread *trace_thread_of(const struct trace_names *names, int64_t pid,
                                           int64_t tid);
/* The group thread above a plane: the last one of the same process before it. NULL: none. */
const struct trace_thread *trace_group_above(const struct trace_names *names,
                                             const struct trace_thread *plane);

/* Times in ns: us with up to three decimals, lengths rounded to the nearest ns. */
bool trace_start(const struct kineto_row *row, rs_ns *start_p);
rs_dur trace_length(const struct kineto_row *row);
/* us as text -> ns, rounded to the nearest; false when it is no number. 8 readable bytes follow the text. */
bool trace_us(const char *text, int64_t *ns_p);

/* An argument's value as written; .text NULL: not there. */
struct kineto_span trace_argument(const struct kineto_row *row, const char *key);
int64_t trace_integer(const struct kineto_row *row, const char *key, int64_t absent);
/* The text of a string argument (escapes stay), at most bytes - 1 of it. "" when it is none. */
void trace_string(const struct kineto_row *row, const char *key, char *text, size_t bytes);

/* N of "ProfilerStep#N". */
bool trace_step(const struct kineto_row *row, int64_t *number_p);
bool trace_starts_with(struct kineto_span span, const char *head);

#endif
