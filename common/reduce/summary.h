/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank summary: what remains of one rank's events when everything that needs this rank
 * alone has been computed. It travels ahead of the raw events, and the aggregator joins
 * summaries only: its work grows with communication operations, not with events.
 *
 *   trace info   who, when, from what
 *   devices[]    whole-capture figures per device             -> rank_breakdown.csv
 *   steps[]      per step and device: the nine official figures and the breakdown that adds up
 *                                                              -> step_trace_time.csv, step_breakdown.csv
 *   ops[]        communication operations                      -> matching, collectives.csv
 *   spans[]      the rank's own work between operations, and where its host waited -> diagnosis
 *   tasks[]      hops inside operations, in their order        -> links
 *   kernels[]    statistics per kernel or op name
 *   groups[]     process groups that ops refer to
 *
 * All instants are Unix epoch ns (trace.base_ns already added) when trace.has_time_base, else
 * relative to an unknown base; lengths are ns. A device of -1 is the host's CPU, on ranks that have
 * no device. The struct owns everything it points to. Order of rows is deterministic: the same
 * events give the same bytes from rs_summary_encode().
 */
#ifndef RS_REDUCE_SUMMARY_H
#define RS_REDUCE_SUMMARY_H

#include "common/base/buf.h"
#include "common/base/view.h"
#include "common/event/event.h"

enum rs_op_type {
#define X(name, code, text, dependency, is_p2p) RS_OP_##name = (code),
#include "common/reduce/op_types.def"
#undef X
    RS_OP_TYPE_COUNT
};
const char *rs_op_type_text(enum rs_op_type type);
bool rs_op_type_is_p2p(enum rs_op_type type);

enum rs_dependency {
    RS_DEPENDS_NONE,
    RS_DEPENDS_ALL,
    RS_DEPENDS_ROOT,
    RS_DEPENDS_TO_ROOT,
    RS_DEPENDS_SEND,
    RS_DEPENDS_RECV,
};
enum rs_dependency rs_op_type_dependency(enum rs_op_type type);

enum rs_step_origin {
    RS_STEPS_NONE,           /* the whole window is one unnamed step, number 0 */
    RS_STEPS_PROFILER_STEP,  /* ProfilerStep#N */
    RS_STEPS_OPTIMIZER_STEP, /* ends of Optimizer.step#*; numbered from 0 */
    RS_STEPS_NATIVE,
};
const char *rs_step_origin_text(enum rs_step_origin origin); /* "none", "profiler_step", ... */

/* Whole capture, one device. rank_breakdown.csv. Idle = window - busy. */
struct rs_device_row {
    int32_t device;
    rs_ns window_start, window_end; /* first device start, last device end */
    rs_dur busy;                    /* union of computing, communication and memory */
    rs_dur computing;               /* union of each class */
    rs_dur communication;
    rs_dur memory;
    rs_dur overlapped; /* |computing and communication| */
};

/* One step on one device. The official figures: ascend reference section 3.3; contracts section 4. */
struct rs_step_row {
    int64_t step;
    int32_t device;
    bool is_partial; /* its end is not in the recording: stays out of means */
    bool has_work;   /* any computing or communication was counted in it */
    rs_ns host_start, host_end;
    rs_dur computing, communication_not_overlapped, overlapped, communication, free, stage, bubble,
        communication_not_overlapped_exclude_receive, preparing;
    /* step_breakdown.csv; the six add up to window_end - window_start */
    rs_ns window_start, window_end;
    rs_dur window_computing, window_exposed, window_memory, idle_head, idle_inside, idle_tail;
    int64_t cpu_ns; /* CPU time inside its native ops; -1 unknown */
    /* Time inside data loader ranges (any thread) between host_start and the first launch or
     * communication call of the step. -1: the recording holds no such range at all; 0: it does, but none here. */
    rs_dur input_ns;
    rs_dur
        input_inside_ns; /* The same from there to host_end: of micro batches, or where something was launched before the loader was asked. */
};

enum rs_op_flag {
    RS_OP_UNFINISHED = 1, /* start valid; end clamped to the recording's end; transfer unknown */
    RS_OP_ON_DEVICE = 2,  /* a device's operation (rendezvous sends), not the host's */
    RS_OP_NO_CALL = 4,    /* a communication kernel without a call: stays unmatched, group empty */
    RS_OP_PEER_IN_GROUP = 8, /* `peer` is the rank within the group, not the global one */
    RS_OP_ROOT_IN_GROUP = 16,
    RS_OP_IS_BATCH = 32, /* a coalesced point-to-point batch */
};

#define RS_NO_GROUP UINT32_MAX

/* One communication operation as this rank saw it. */
struct rs_comm_op {
    int64_t
        step; /* of the call that launched it, else the first window that holds its start; RS_STEP_NONE */
    uint8_t type;          /* enum rs_op_type */
    uint8_t flags;         /* enum rs_op_flag */
    int32_t device;        /* -1 on the host */
    int64_t stream;        /* device stream, or tid of the worker thread */
    int64_t caller_thread; /* tid of the calling thread; -1 unknown */
    uint32_t group;        /* index into groups; RS_NO_GROUP unknown */
    int32_t peer;          /* point-to-point: the other end; -1 unknown */
    int64_t bytes;         /* contracts section 5; -1 unknown */
    int64_t
        seq; /* framework's sequence number; of a batch with one peer: rs_comm_task_number(); -1 none */
    uint64_t comms_id; /* framework's id, equal on all ranks of a collective; 0 none */
    uint64_t
        shape_hash; /* of dtype and message shape; 0 unknown; equal on all members where the op is symmetric */
    int64_t call_order; /* place of the call in the rank's launch order: see rs_span_row.order */
    rs_ns call_start;   /* host time of the call; = start when unknown */
    rs_ns start, end;   /* device (or worker thread) time */
    rs_str name;        /* kernel or annotation name as recorded */
    rs_str transport;   /* "NVLINK", "NET", "TCP", ... only when known; RS_STR_NONE */
    rs_str op_text;     /* vendor's own op name where one exists; RS_STR_NONE */
    int32_t root;       /* broadcast, scatter, reduce, gather; -1 unknown */
    uint32_t task_first, task_count; /* its hops in tasks[] */
};

/* A batch that exchanges with several peers has peer -1, and what went to and came from each of them in tasks[]. */

#define RS_STEP_NONE INT64_MIN

enum rs_span_kind {
    RS_SPAN_COMPUTING, /* at least one computing row in it (copies and sets between them count as well) */
    RS_SPAN_MEMORY,    /* copies and sets only */
    RS_SPAN_HOST_WAIT, /* the host stood still until device work, or an operation, had ended */
};
enum { RS_SPAN_KIND_COUNT = 3 };

#define RS_SPAN_NO_LAUNCH (-1) /* launch_first, launch_last: not recorded */

/*
 * A run of the rank's own work between two *cuts*: communication calls (call_start), starts of host waits, calls that make a
 * stream wait for another one (in recordings without such calls: rows that show such a wait, spans.c), and bounds of steps,
 * taken over all threads in order of time; on devices also, between two of these, each launch at which computing goes on on
 * another stream than before. Communication is never part of a span, so spans and ops[] together are the program of the rank.
 *
 *   host     |step  k k k k  call  k k   sync [........]  k k  |step
 *   stream 7        [=span 1=]     [=2=]                [=4=]        k: launches of kernels of stream 7
 *   order            0        1     2    3               4           1: the op's call_order, 3: the host wait
 *
 * On a device (device >= 0): the rows of one stream that were launched between the same two cuts; one span
 * per (pair of cuts, device, stream). A row whose launch is not recorded is held to have been launched at its own start, or
 * with the next row of its stream that has a launch, whichever is earlier. `start` and `end` are those of the
 * first row to start and of the last to end, `busy` is the union of the rows, so end - start - busy is idleness of the stream
 * inside. Spans of one stream do not overlap. A communication kernel on that stream parts a span in two: what a call launches
 * before its own kernel (packing) is a span whose order is behind the call, but which starts before the operation does.
 *
 * A host wait on a rank with devices is one synchronising call (names with "Synchronize"; a blocking copy): device is that of
 * the stream waited for, -1 unknown; stream is the stream waited for, -1: all of them, or not known;
 * thread is the caller; start to end is the call; launch_first = launch_last = start; busy, count and signature 0; no top_name.
 *
 * On a rank without a device (device -1, stream -1): the rank's own time, all its threads together. A computing span is
 * a stretch between cuts in which the rank was not waiting; busy is the time in which at least one thread
 * computed, so end - start - busy is sleeping, Python outside of operators, input. launch_first = launch_last = start.
 * count, signature and top_name are of the operators that start in it, self time.
 * A host wait is inferred: from the moment when no thread computes any more and an operation called before is under way, to
 * the end of the last operation that ended before anything was computed or called again (or, of a long idle stretch, a
 * little later: spans_host.c). thread: that of the next operation's call; -1 unknown.
 */
struct rs_span_row {
    int64_t step;   /* of its first launch; RS_STEP_NONE: outside every step */
    int32_t device; /* -1: see above */
    uint8_t kind;   /* enum rs_span_kind */
    int64_t stream;
    int64_t thread; /* tid of the first launch; -1 unknown */
    /* Place in the rank's launch order: one counter from 0 without gaps over ops[] (there call_order), spans
     * and host waits, by host time of the call, of launch_first, of the wait's start; at one instant the call leads, then the
     * wait. Recordings of one rank that are joined count on. */
    int64_t order;
    rs_ns launch_first, launch_last; /* host time; RS_SPAN_NO_LAUNCH when no row has its launch */
    rs_ns start, end;
    rs_dur busy;
    int64_t count; /* rows; operators on a rank without a device */
    /* Of the names of its rows, on a device in the order of their starts, else in any. Equal: the same work. The
     * same names on every rank give the same number. Shapes are not part of it: kernels do not carry them. */
    uint64_t signature;
    rs_str
        top_name; /* the name with most time in it, of equal ones the first by bytes; RS_STR_NONE none */
    rs_dur top_ns; /* its time: sum over its rows (self time of operators) */
};

/* A hop inside an operation: what went over one link. Of a coalesced batch with several peers, where the recording has no hops, what
 * was called for: the rank itself is -1 then, the other end as `peer` of the operation would be, and the times stand for a number. */
struct rs_comm_task {
    int32_t src, dst; /* global ranks */
    bool is_send;     /* recorded by src; else by dst */
    int64_t bytes;    /* -1 unknown */
    rs_ns start, end;
    rs_str transport; /* RS_STR_NONE unknown */
};
/* Of a call in a batch: how many batches with that peer its thread called before, also those whose rows were lost; -1 unknown. */
static inline int64_t rs_comm_task_number(const struct rs_comm_task *task)
{
    int64_t number;
    return __builtin_sub_overflow(task->end, task->start, &number) ? -1 : number - 1;
}
/* The end that is not the rank's own; -1 unknown. */
static inline int32_t rs_comm_task_peer(const struct rs_comm_task *task)
{
    return task->is_send ? task->dst : task->src;
}

/* Statistics of one name on one device. */
struct rs_kernel_row {
    rs_str name;
    int32_t device;
    uint8_t work_class; /* enum rs_work_class (classify.h) */
    int64_t count;
    rs_dur total, min, max;
};

struct rs_summary {
    bool
        is_of_older_format; /* read from bytes that hold less than rs_summary_encode() writes today */
    struct rs_strtab strings;
    struct rs_trace_info trace; /* its rs_str are ids of `strings` */
    enum rs_step_origin step_origin;
    rs_ns span_start, span_end; /* of the recording: the Trace row, else first and last row */

    struct rs_device_row *devices;
    size_t device_count, device_capacity;
    struct rs_step_row *steps; /* by (step in time order, device) */
    size_t step_count, step_capacity;
    struct rs_comm_op *ops; /* by (call_order) */
    size_t op_count, op_capacity;
    struct rs_comm_task *tasks;
    size_t task_count, task_capacity;
    struct rs_kernel_row *kernels; /* by (device, total descending, name) */
    size_t kernel_count, kernel_capacity;
    struct rs_span_row *spans; /* by order */
    size_t span_count, span_capacity;
    struct rs_group_info *groups;
    size_t group_count, group_capacity;
};

/* Its tasks are what was called for, peer by peer, and not what moved and when. */
static inline bool rs_comm_op_has_calls_only(const struct rs_summary *summary,
                                             const struct rs_comm_op *op)
{
    if ((op->flags & RS_OP_IS_BATCH) == 0 || op->peer >= 0 || op->task_count == 0)
        return false;
    const struct rs_comm_task *first = &summary->tasks[op->task_first];
    return (first->src < 0) != (first->dst < 0);
}

RS_MUST_CHECK enum rs_status rs_summary_init(struct rs_summary *summary);
void rs_summary_fini(struct rs_summary *summary); /* of a zeroed summary is allowed */

/* Puts tasks in the order of their operations, as rs_reduce_finish() does (an earlier program did not): a run of operations has a
 * run of tasks then. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_summary_order_tasks(struct rs_summary *summary);

/* Appends the summary's bytes: magic, version, length, checksum, then columns (SUMMARY.md).
 * Deterministic. */
RS_MUST_CHECK enum rs_status rs_summary_encode(const struct rs_summary *summary, struct rs_buf *buf,
                                               struct rs_err *err);
/* Trusts nothing. RS_FORMAT, RS_VERSION, RS_LIMIT, RS_NOMEM. `summary_p` is initialised on RS_OK. */
RS_MUST_CHECK enum rs_status rs_summary_decode(struct rs_view bytes, struct rs_summary *summary_p,
                                               struct rs_err *err);

#endif
