/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of reduce: what rs_reduce_add() keeps and how rs_reduce_finish() works it up.
 *
 *   add      batches -> work (device rows), launches, calls, marks, cpu ops, comm columns
 *   finish   spans -> steps (steps.c) -> host work, on ranks without a device (host.c)
 *            -> place: device, launch and step of each work row (place.c)
 *            -> operations (comm_device.c, comm_gloo.c, comm_native.c; groups.c)
 *            -> figures (figures.c), statistics per name (kernels.c)
 *   take     a copy of the rows around the steps that have ended -> the same stages -> a slice (take_part.c)
 *
 * All instants in here are relative to the stream's time base and clamped to +-RS_REDUCE_NS_LIMIT; the base
 * is added when rows of the summary are final.
 */
#ifndef RS_REDUCE_REDUCE_PRIV_H
#define RS_REDUCE_REDUCE_PRIV_H

#include "common/reduce/classify.h"
#include "common/reduce/interval.h"
#include "common/reduce/reduce.h"

#define REDUCE_NONE UINT32_MAX

/* A row of device work; on ranks without a device, of work of the CPU. There are millions of them: 40 bytes each, so that what
 * links a row to its launch is kept once, as the number that both rows bear and, from place on, as the launch itself, which bears it. */
struct reduce_work {
    rs_ns start, end;
    union {
        int64_t correlation; /* while !is_launched; -1 none */
        uint32_t launch;     /* while is_launched: index into launches */
    };
    uint32_t lane;
    rs_str name;
    uint32_t
        step; /* set by place: index into steps of the host step it belongs to, or REDUCE_NONE */
    uint16_t slot : 15;       /* set by place: index into slots */
    uint16_t is_launched : 1; /* set by place */
    uint8_t work_class;       /* enum rs_work_class */
    uint8_t flags;            /* enum rs_event_flag */
};
_Static_assert(sizeof(struct reduce_work) == 40, "as said above");

/* What a communication row has beside. */
struct reduce_comm_row {
    uint32_t work;
    uint32_t comm; /* index into comms, or REDUCE_NONE */
    int64_t external_id;
};

struct reduce_launch {
    int64_t correlation;
    rs_ns start;
    uint32_t lane;
};

/* A call of the framework, its argument row, its annotation, or a gloo operation. */
struct reduce_call {
    rs_ns start, end;
    int64_t external_id;
    uint32_t lane;
    rs_str name, dims, types, concrete;
    uint32_t comm;     /* index into comms, or REDUCE_NONE */
    uint8_t host_name; /* enum rs_host_name */
    uint8_t type;      /* enum rs_op_type */
    uint8_t flags;     /* enum rs_event_flag */
    bool is_used;      /* an operation was made of it */
};

/* A call in which a host thread waits for its device. */
struct reduce_wait {
    rs_ns start, end;
    int64_t correlation; /* -1 none */
    uint32_t lane;
};

/* What the device side tells of such a call: for which stream it waited. */
struct reduce_sync {
    int64_t correlation;
    uint32_t lane;
};

/* A native COMM row, or a COMM_TASK row of anybody's. */
struct reduce_native {
    rs_ns start, end;
    int64_t correlation, external_id;
    uint32_t lane;
    rs_str name;
    uint32_t comm;
    uint8_t flags;
    bool is_taken; /* a task that found its operation */
};

/* A row that bounds steps. */
struct reduce_mark {
    rs_ns start, end;
    int64_t number;
    rs_str name;
    uint8_t flags;
};

/* An operator on a host thread. */
struct reduce_cpu_op {
    rs_ns start, end;
    uint32_t lane;
    rs_str name;
    bool is_call; /* c10d::*: never computing */
};

/* [START, END) of a step on a device, as the profiler itself defines it. */
struct reduce_step_window {
    struct interval window;
    int64_t number;
    int32_t device;
};

struct reduce_cpu_time {
    rs_ns start, end;
    int64_t cpu_ns;
    uint32_t lane;
};

/* A step on the host. Half-open for the search: (start, end] of optimizer steps is [start + 1, end + 1). */
struct reduce_step {
    int64_t number;
    rs_ns host_start, host_end;
    bool is_partial;
};

/* First window, in order of steps, that holds an instant. */
struct reduce_windows {
    struct interval *items; /* [count] half-open */
    rs_ns *latest_end;      /* [count] running maximum of ends */
    rs_ns *least_start;     /* [count] least start from here on */
    size_t count;
};

#define REDUCE_LIST(type)                                                                          \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t count;                                                                              \
        size_t capacity;                                                                           \
    }

/* Room for one more at the end of a list of the kind above; `status` is assigned. */
#define REDUCE_PUSH(list, status, ...)                                                             \
    do {                                                                                           \
        (status) = (list)->count < (list)->capacity                                                \
                       ? RS_OK                                                                     \
                       : rs_mem_grow((void **)&(list)->items, &(list)->capacity,                   \
                                     (list)->count + 1, sizeof *(list)->items);                    \
        if ((status) == RS_OK)                                                                     \
            (list)->items[(list)->count++] = (__VA_ARGS__);                                        \
    } while (0)

enum reduce_says { REDUCE_NOT_ASKED, REDUCE_NO, REDUCE_YES };

/* Who waits in a runtime call of a name. */
enum reduce_waits {
    REDUCE_WAITS_NOT_ASKED,
    REDUCE_WAITS_NOBODY,
    REDUCE_WAITS_HOST,
    REDUCE_WAITS_STREAM
};

/* What a name was found to be, by string id; 0: not asked yet. */
struct reduce_name {
    uint8_t host;       /* enum rs_host_name */
    uint8_t work_class; /* enum rs_work_class of kernels so called */
    uint8_t type;       /* enum rs_op_type, valid when host or work_class says communication */
    uint8_t wait;       /* enum reduce_waits */
    uint8_t input;      /* enum reduce_says: a range so named fetches input */
};

/* Groups found of late, by what named them. */
enum { GROUP_MEMORY = 64 };
struct group_memory {
    bool is_set;
    rs_str name, ranks;
    int64_t size;
    uint32_t group;
};

/* What rs_reduce_take_part() remembers. Of each list the rows before `*_from` had ended before the steps that the next part
 * looks at. */
struct reduce_taking {
    bool is_impossible; /* steps that cannot be told before the end, or device work */
    uint32_t count;     /* parts taken */
    size_t steps_done;  /* of native_steps: in parts */
    rs_ns until;        /* end of the last of them; valid when count > 0 */
    int64_t next_order; /* of the first operation or span of the next part */
    size_t cpu_ops_from, cpu_times_from, comms_from, tasks_from, losses_from, inputs_from;
};

struct rs_reduce {
    const struct rs_strtab *strings;
    const struct rs_lanes *lanes;

    /* what add keeps */
    struct reduce_name *names;
    size_t name_capacity;
    bool has_device_work;
    bool has_native;
    bool has_trace_span;
    bool has_rows;
    uint64_t row_count;
    struct reduce_taking taking;
    rs_ns trace_start, trace_end; /* of the Trace row */
    rs_ns first_start, last_end;  /* of all rows with a length */
    REDUCE_LIST(struct reduce_work) work;
    REDUCE_LIST(struct reduce_comm_row) comm_rows;
    REDUCE_LIST(struct reduce_launch) launches;
    REDUCE_LIST(struct reduce_call) calls;
    REDUCE_LIST(struct rs_comm) comms;
    REDUCE_LIST(struct reduce_native) native_comms;
    REDUCE_LIST(struct reduce_native) native_tasks;
    REDUCE_LIST(struct reduce_mark) profiler_steps;
    REDUCE_LIST(struct reduce_mark) optimizer_steps;
    REDUCE_LIST(struct reduce_mark) native_steps;
    REDUCE_LIST(struct reduce_step_window) step_windows;
    REDUCE_LIST(struct reduce_cpu_op) cpu_ops;
    REDUCE_LIST(struct reduce_cpu_time) cpu_times;
    REDUCE_LIST(struct interval) losses;
    REDUCE_LIST(struct reduce_wait) waits;
    REDUCE_LIST(rs_ns) stream_waits; /* starts of calls that make a stream wait for another */
    REDUCE_LIST(struct reduce_sync) syncs;
    struct intervals inputs; /* ranges in which input was fetched */

    /* what finish works with */
    const struct rs_trace_info *info;
    rs_ns span_start, span_end;
    enum rs_step_origin step_origin;
    REDUCE_LIST(struct reduce_step) steps;
    struct reduce_windows host_windows;
    int64_t lost_tasks; /* without their operation */
    REDUCE_LIST(struct sort_item)
    kernel_ids;     /* external id -> operation, of those a vendor named */
    int32_t *slots; /* [slot_count] device numbers, ascending */
    size_t slot_count;
    size_t *slot_first;                    /* [slot_count + 1] bounds in `order` */
    uint32_t *order;                       /* work rows by (slot, start) */
    struct reduce_windows *device_windows; /* [slot_count] [START, END) of each step */
    struct group_memory group_memory[GROUP_MEMORY];
    struct rs_slots group_slots;  /* of summary->groups */
    struct rs_slots header_slots; /* of info->groups, by name */
    struct rs_summary *summary;   /* being built; rs_str in it are the stream's until renamed */
};

/* From place on: the launch of a row of work, or NULL. */
static inline const struct reduce_launch *work_launch(const struct rs_reduce *reduce,
                                                      const struct reduce_work *work)
{
    return work->is_launched ? &reduce->launches.items[work->launch] : NULL;
}

/* -1: none */
static inline int64_t work_correlation(const struct rs_reduce *reduce,
                                       const struct reduce_work *work)
{
    const struct reduce_launch *launch = work_launch(reduce, work);
    return launch ? launch->correlation : work->correlation;
}

/* It bears the number of a launch, whether that was recorded or not. */
static inline bool work_is_linked(const struct reduce_work *work)
{
    return work->is_launched || work->correlation >= 0;
}

/* reduce.c: the summary of what was added; of a window of steps as well */
RS_MUST_CHECK enum rs_status reduce_build(struct rs_reduce *reduce,
                                          const struct rs_trace_info *info,
                                          struct rs_summary *summary_p);

/* windows.c */
RS_MUST_CHECK enum rs_status windows_init(struct reduce_windows *windows, size_t count);
void windows_fini(struct reduce_windows *windows);
void windows_index(struct reduce_windows *windows); /* after items are set */
uint32_t windows_find(const struct reduce_windows *windows, rs_ns instant); /* or REDUCE_NONE */

/* steps.c: steps, host_windows, step_origin */
RS_MUST_CHECK enum rs_status steps_build(struct rs_reduce *reduce);

/* host.c: work rows of a rank without a device */
RS_MUST_CHECK enum rs_status host_work_build(struct rs_reduce *reduce);

/* place.c: slots, order, launch and step of each work row, device_windows */
RS_MUST_CHECK enum rs_status place_work(struct rs_reduce *reduce);

/* comm_*.c: summary->ops and tasks */
RS_MUST_CHECK enum rs_status comm_device_build(struct rs_reduce *reduce);
RS_MUST_CHECK enum rs_status comm_gloo_build(struct rs_reduce *reduce);
RS_MUST_CHECK enum rs_status comm_native_build(struct rs_reduce *reduce); /* and device tasks */
RS_MUST_CHECK enum rs_status comm_order(struct rs_reduce *reduce);

/* message.c: what a call's arguments say about its message */
struct message {
    int64_t in_elements,
        out_elements;      /* of the whole message this rank gives and gets; -1 unknown */
    int64_t element_bytes; /* 0 unknown */
    uint64_t type_id;      /* 0 unknown */
    int64_t peer, root;    /* rank within the group; -1 unknown */
    int64_t parts;         /* tensors in the list of a root's scatter; 0 unknown */
};
struct message message_none(void);
/* Fills what `message` does not know yet. */
void message_from_call(const struct rs_reduce *reduce, const struct reduce_call *call,
                       struct message *message);
void message_from_comm(const struct rs_reduce *reduce, const struct rs_comm *comm,
                       struct message *message);
/* Sets bytes and shape_hash of the op by its type (contracts section 5); group_size -1 unknown. */
void message_size(const struct message *message, int64_t group_size, struct rs_comm_op *op);

/* An operation with every member at its "unknown". */
struct rs_comm_op comm_op_none(void);
/* The step of an operation called at `call` (REDUCE_NS_UNKNOWN: no call) that starts at `start`. */
#define REDUCE_NS_UNKNOWN INT64_MIN
int64_t comm_step(const struct rs_reduce *reduce, rs_ns call, rs_ns start, int32_t device);
/* Peer or root, from the columns (may be NULL) or the call. The op's type and group are set. */
void comm_set_ends(const struct rs_reduce *reduce, const struct rs_comm *comm,
                   const struct message *message, struct rs_comm_op *op);
/* Sequence number and id, where the op has none yet. */
void comm_set_identity(const struct rs_comm *comm, struct rs_comm_op *op);
int64_t comm_group_size(const struct rs_reduce *reduce, uint32_t group); /* -1 unknown */
RS_MUST_CHECK enum rs_status comm_op_push(struct rs_reduce *reduce, const struct rs_comm_op *op);

/* groups.c: index into summary->groups of the group that these columns name, RS_NO_GROUP when none. */
RS_MUST_CHECK enum rs_status groups_find(struct rs_reduce *reduce, const struct rs_comm *comm,
                                         uint32_t *group_p);
/* The global rank of a rank within a group; -1 when the list does not tell. */
int32_t groups_global_rank(const struct rs_reduce *reduce, uint32_t group, int64_t rank_in_group);

/* figures.c: summary->devices and steps */
RS_MUST_CHECK enum rs_status figures_build(struct rs_reduce *reduce);

/* kernels.c: summary->kernels */
RS_MUST_CHECK enum rs_status kernels_build(struct rs_reduce *reduce);

/* spans.c: summary->spans, order of ops, input_ns of steps; spans_host.c: those of a rank without a device */
RS_MUST_CHECK enum rs_status spans_build(struct rs_reduce *reduce);
struct span_cuts { /* instants that part spans, ascending */
    struct sort_item *items;
    size_t count;
};
/* Index of the pair of cuts that holds an instant: how many cuts are not later. */
size_t span_cuts_at(const struct span_cuts *cuts, rs_ns instant);
RS_MUST_CHECK enum rs_status spans_of_host(struct rs_reduce *reduce, const struct span_cuts *cuts);
RS_MUST_CHECK enum rs_status span_push(struct rs_reduce *reduce, const struct rs_span_row *span);
struct rs_span_row span_none(void);
/* Time per name in the span at hand. */
struct span_names {
    rs_dur *time;    /* by string id */
    rs_str *touched; /* [count] names with a time */
    size_t count, capacity;
};
RS_MUST_CHECK enum rs_status span_names_init(struct span_names *names,
                                             const struct rs_reduce *reduce);
void span_names_fini(struct span_names *names);
RS_MUST_CHECK enum rs_status span_names_add(struct span_names *names, rs_str name, rs_dur length);
/* The heaviest into the span; then all is forgotten. */
void span_names_take(struct span_names *names, const struct rs_reduce *reduce,
                     struct rs_span_row *span);

/* seal.c: absolute time, the summary's own dictionary, info */
RS_MUST_CHECK enum rs_status seal_summary(struct rs_reduce *reduce);

static inline rs_ns ns_clamp(int64_t value)
{
    return value > RS_REDUCE_NS_LIMIT    ? RS_REDUCE_NS_LIMIT
           : value < -RS_REDUCE_NS_LIMIT ? -RS_REDUCE_NS_LIMIT
                                         : value;
}

/* A sum of lengths that stays within +-2^62 whatever strangers wrote. */
static inline int64_t sum_clamped(int64_t a, int64_t b)
{
    const int64_t limit = 2 * RS_REDUCE_NS_LIMIT;
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        sum = b > 0 ? limit : -limit;
    return sum > limit ? limit : sum < -limit ? -limit : sum;
}

#endif
