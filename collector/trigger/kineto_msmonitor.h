/* SPDX-License-Identifier: Apache-2.0 */
/*
 * msMonitor's clients: torch_npu and MindSpore processes that ask the same kind of daemon, in a flavour of their own.
 *
 *   "ctxt"  device, pid, job 0     once; it does not read an answer then, and takes one for the answer to its first
 *                                  poll: all its answers lag by one from there on. So none is sent.
 *   "req"   mask 3 always          answered with an empty text. It never gets a Kineto configuration: a process can
 *                                  hold two clients, and Kineto's own is the other one.
 *   "npuTraceStatus", "npuMonitorStatus"   its profiler's state and steps: kept, not answered
 *   "data"  metrics                drained and counted, not answered
 *
 * They are told apart from Kineto's clients by the registration with job 0, which those do not send, or by the socket:
 * since 2025-11 they ask HOME/dynolog.sock of their user.
 *
 * Such a job is not captured over this socket: one process per host asks for all, and what it is told goes to
 * all ranks through the same shared block that PROF_CONFIG_PATH uses (config_trigger.h), which is how it is reported.
 *
 * One thread.
 */
#ifndef RS_TRIGGER_KINETO_MSMONITOR_H
#define RS_TRIGGER_KINETO_MSMONITOR_H

#include "collector/trigger/kineto_ipc.h"
#include "collector/trigger/kineto_socket.h"
#include "common/base/time.h"

#include <stdbool.h>

struct rs_msmonitor_client {
    pid_t pid;
    struct sockaddr_un address;
    socklen_t address_bytes;
    rs_ns last_seen_ns; /* monotonic */
    int32_t device;     /* as it registered; -1 unknown */
    /* As it said last; status -1 not set up, 0 idle, 1 running, 2 ready. */
    bool has_status;
    int32_t status, current_step, start_step, stop_step;
};

struct rs_msmonitor {
    struct rs_msmonitor_client *clients;
    size_t count, capacity;
    int64_t status_messages, data_messages, data_bytes;
};

void rs_msmonitor_fini(struct rs_msmonitor *monitor); /* of a zeroed one is allowed */

/* The client behind this address; NULL: it is none that is known. Lent until the next call. */
struct rs_msmonitor_client *rs_msmonitor_find(const struct rs_msmonitor *monitor,
                                              const struct rs_kineto_peer *peer);
/* Takes a message of such a client (it registered, or it came to the socket of this flavour); the client is made when it is
 * not known. What needs an answer is its owner's to answer. */
void rs_msmonitor_take(struct rs_msmonitor *monitor, const struct rs_kineto_peer *peer,
                       const struct rs_kineto_message *message, size_t bytes, rs_ns now);
/* Forgets who has not been seen for long. */
void rs_msmonitor_tick(struct rs_msmonitor *monitor, rs_ns now);

#endif
