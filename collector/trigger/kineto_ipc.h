/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of Kineto's IPC: bytes to struct and back, nothing else.
 *
 * One datagram is one message:
 *
 *     0        8                              40
 *     | size   | type, NUL-padded             | payload, `size` bytes
 *     | u64    | char[32]                     |
 *
 *     "req"   poll      i32 mask, i32 n, i64 job, i32 pids[n]    own pid first, then its ancestors
 *     "ctxt"  register  i32 gpu, i32 pid, i64 job
 *     "npuTraceStatus", "npuMonitorStatus"   i32 status, step, start, stop, i32 pid, 4 bytes, i64 job
 *     "data"  metrics                        both of the msMonitor flavour; accepted, not answered
 *
 * A poll is answered by a "req" whose payload is a configuration text, or nothing; a "ctxt" by an i32.
 * What clients say of themselves (pids, job) is a claim; the kernel's credentials are the identity.
 * Integers are little-endian on both machines we run on. Pure functions, any thread.
 */
#ifndef RS_TRIGGER_KINETO_IPC_H
#define RS_TRIGGER_KINETO_IPC_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/view.h"

#include <stdint.h>

enum {
    RS_KINETO_HEADER_BYTES = 40,
    RS_KINETO_TYPE_BYTES = 32,
    RS_KINETO_PIDS_MAX = 64,        /* real clients send at most 11 */
    RS_KINETO_DATAGRAM_MAX = 65536, /* longer ones are cut by the socket and refused here */
};

enum rs_kineto_message_kind {
    RS_KINETO_POLL,
    RS_KINETO_REGISTER,
    RS_KINETO_DATA,
    RS_KINETO_STATUS,
};

/* The mask says what the client can take now: older builds idle with both bits, newer with one;
 * without ACTIVITIES it is busy with a capture. */
enum { RS_KINETO_EVENTS = 1, RS_KINETO_ACTIVITIES = 2 };

struct rs_kineto_message {
    enum rs_kineto_message_kind kind;
    int32_t mask;   /* POLL */
    int32_t gpu;    /* REGISTER */
    int64_t job_id; /* POLL, REGISTER, STATUS */
    int32_t pids[RS_KINETO_PIDS_MAX];
    size_t pid_count;                                    /* POLL: >= 1; REGISTER, STATUS: 1 */
    int32_t status, current_step, start_step, stop_step; /* STATUS */
};

/* RS_FORMAT with a sentence that names the field. Trusts nothing. */
RS_MUST_CHECK enum rs_status rs_kineto_message_parse(struct rs_view datagram,
                                                     struct rs_kineto_message *message_p,
                                                     struct rs_err *err);

/* Appends the answer to a poll; text_length 0: nothing to do. The text gets no NUL. */
void rs_kineto_reply_config(struct rs_buf *buf, const char *text, size_t text_length);
/* Appends the answer to a registration. */
void rs_kineto_reply_register(struct rs_buf *buf, int32_t instance_count);

#endif
