/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's end of a control file: how far a process is, its names, and requests to record.
 * Believes nothing, like ring_read.h. One thread.
 */
#ifndef RS_LIB_CONTROL_READ_H
#define RS_LIB_CONTROL_READ_H

#include "collector/lib/layout.h"
#include "common/base/err.h"
#include "common/base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a process says of itself, as of its last step boundary. */
struct rs_lib_progress {
    bool is_finished; /* it called rankscope_fini() */
    uint64_t step;
    uint64_t step_count; /* boundaries; 0: no step yet, `step` means nothing */
    rs_dur mean_step_ns;
    rs_dur own_ns; /* of all steps before `step`, outside communication; 0 unknown */
    rs_ns heartbeat_ns;
    uint64_t request_seq;                    /* the request it has acted on */
    enum rs_lib_capture_state capture_state; /* of that request */
    uint32_t epoch;
    uint64_t first_step, next_step;
    uint64_t first_ticks;
    uint64_t step_start_ticks; /* of the step under way, 0 none */
    uint64_t lost_without_ring;
    uint32_t ring_count; /* made so far, those of threads that ended among them */
};

struct rs_lib_name {
    const char *text; /* of a name or a group; any bytes, NUL behind them */
    size_t length;
    unsigned flags;
    const int32_t *ranks; /* groups */
    size_t rank_count;
};

struct rs_control_reader;

/* `fd` stays the caller's and may be closed. RS_FORMAT, RS_VERSION, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status
rs_control_open(int fd, uint64_t bytes, struct rs_control_reader **reader_p, struct rs_err *err);
void rs_control_close(struct rs_control_reader **reader_p); /* of NULL is allowed */

void rs_control_progress(const struct rs_control_reader *reader, struct rs_lib_progress *p);

/* Reads names and groups that were registered since the last call. RS_FORMAT: an entry is not one; those before it stand.
 * RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_control_names(struct rs_control_reader *reader, struct rs_err *err);
/* Lent until rs_control_close(); NULL when there is no such id. Ids count from 1. */
const struct rs_lib_name *rs_control_name(const struct rs_control_reader *reader, uint32_t id);
const struct rs_lib_name *rs_control_group(const struct rs_control_reader *reader, uint32_t id);

/* Asks the process to record steps [start, stop) from its next boundary on; start RS_LIB_START_NEXT: the next `stop`
 * steps; stop 0: to stop at its next boundary. Returns the request's number. */
uint64_t rs_control_request(struct rs_control_reader *reader, uint64_t start, uint64_t stop);

#endif
