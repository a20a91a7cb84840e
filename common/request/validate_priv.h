/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RS_REQUEST_VALIDATE_PRIV_H
#define RS_REQUEST_VALIDATE_PRIV_H

#include "common/request/request_priv.h"

/* skip_first + (wait + warmup + active) x repeat; without end counts as one round. */
uint64_t schedule_steps(const struct rs_request_schedule *schedule);

/* torch_npu's: it knows op_attr as no other profiler does. */
static inline bool adapter_is_torch_npus(const struct rs_adapter *adapter)
{
    return rs_adapter_honours(adapter, F_OP_ATTR);
}

/* What its process takes of the host is sampled by the collector, out of /proc: its own profiler has no such samples. */
static inline bool adapter_is_sampled_here(const struct rs_adapter *adapter)
{
    return rs_adapter_honours(adapter, F_HOST_SYS) && !rs_adapter_honours(adapter, F_LEVEL);
}

/* What a rank is held against. */
struct validation {
    const struct rs_capture_request *request;
    const struct rs_capture_request *defaults; /* of its dialect and origin */
    const struct rs_request_policy *policy;
    const struct rs_request_notes *of_profilers; /* each for the ranks whose profiler it concerns */
    bool is_subset;                              /* not every rank of the table was chosen */
    size_t chosen_count;
};

/* The rules of one rank, into its notes. */
void validate_rank(const struct validation *validation, const struct rs_request_rank *rank,
                   struct rs_request_notes *notes);

#endif
