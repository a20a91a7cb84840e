/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a row's name says: the class of device work, the type of a communication, and which host rows
 * mark steps or calls. Pure functions of bytes; whoever asks often keeps the answer per string id.
 */
#ifndef RS_REDUCE_CLASSIFY_H
#define RS_REDUCE_CLASSIFY_H

#include "common/reduce/summary.h"

enum rs_work_class {
    RS_WORK_NONE, /* no device work */
    RS_WORK_COMPUTING,
    RS_WORK_COMMUNICATION,
    RS_WORK_MEMORY,
    RS_WORK_WAITING, /* a device that waits: what a name may say, never the class of a row of work */
};
enum { RS_WORK_CLASS_COUNT = 4 }; /* of rows of work: without waiting */
const char *rs_work_class_text(enum rs_work_class work_class); /* "computing", ... */

/* The class of a kernel row by its name (memcpy and memset rows are memory whatever they are called): the user's own lines
 * (classes.h), then comm_names.def, else computing. */
enum rs_work_class rs_classify_kernel(const char *name, size_t length);

/* The operation that the words of a name tell: "ncclDevKernel_AllReduce_...", "_allgather_base",
 * "c10d::alltoall_base_", "gloo:reduce". RS_OP_UNKNOWN when none does. */
enum rs_op_type rs_op_type_of_name(const char *name, size_t length);
/* The type whose table name this is exactly ("all_reduce"), else as rs_op_type_of_name(). */
enum rs_op_type rs_op_type_of_text(const char *text, size_t length);

/* What a host row (cpu_op or user_annotation) is to us by its name. */
enum rs_host_name {
    RS_HOST_UNSEEN, /* not asked yet: for caches */
    RS_HOST_PLAIN,
    RS_HOST_CALL,       /* c10d::<operation>: the framework's call */
    RS_HOST_CALL_OTHER, /* c10d::* and functional collectives that are no operation: never computing */
    RS_HOST_PARAM_COMMS,    /* record_param_comms: carries a call's arguments */
    RS_HOST_ANNOTATION,     /* nccl:<operation> and the like, around the launch */
    RS_HOST_GLOO,           /* gloo:<operation>: the operation itself, on a CPU */
    RS_HOST_PROFILER_STEP,  /* ProfilerStep#N */
    RS_HOST_OPTIMIZER_STEP, /* Optimizer.step#Class.step */
};
enum rs_host_name rs_classify_host(const char *name, size_t length);

/* A runtime call in which the host stands until its device has come so far: cudaStreamSynchronize,
 * hipEventSynchronize, aclrtSynchronizeDevice, a blocking copy (cudaMemcpy). */
bool rs_classify_is_wait(const char *name, size_t length);

/* A runtime call after which a stream runs on only when another one has come so far: cudaStreamWaitEvent, hipStreamWaitEvent,
 * cuStreamWaitEvent, aclrtStreamWaitEvent. Recordings name neither the stream nor the event. */
bool rs_classify_is_stream_wait(const char *name, size_t length);

/* N of "ProfilerStep#N"; false when what follows is no number of 18 digits at most. */
bool rs_profiler_step_number(const char *name, size_t length, int64_t *number_p);

#endif
