/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process takes of its host while it is recorded: samples out of /proc, which become rows of counters in its recording.
 *
 *     cpu      process CPU %                          of one core, of all its threads
 *     mem      process memory bytes, process swap bytes
 *     disk     process disk read B/s, process disk write B/s
 *     network  host network receive B/s, host network transmit B/s     of the process's network namespace, without loopback
 *     sys_io   NIC eth0 receive B/s, NIC eth0 transmit B/s             each interface of that namespace, but loopback
 *              RDMA mlx5_0/1 receive B/s, ... transmit B/s             each port of the host: /sys/class/infiniband
 *
 * Nothing is installed and nobody is traced: a process of another user says all but `disk` to anybody, and `disk` to root. What cannot be
 * read has no rows. Values of a time (%, B/s) are of the stretch since the sample before, so the first sample has none.
 *
 * Samples are held until they are emitted, at most RS_HOST_SAMPLES_MAX of them: then the oldest go. One thread at a time.
 */
#ifndef RS_AGENT_HOST_SAMPLES_H
#define RS_AGENT_HOST_SAMPLES_H

#include "collector/source/source.h"
#include "common/request/request.h"
#include "proto/rankscope.pb-c.h"

enum { RS_HOST_SAMPLES_MAX = 8192 };

/* What is to be sampled, and how often. */
struct rs_host_plan {
    uint32_t set; /* of enum rs_host_sys */
    uint32_t hz;
    bool has_ports;       /* sys_io */
    const char *sys_root; /* lent while it is made; NULL: /sys */
};
bool rs_host_plan_is_empty(const struct rs_host_plan *plan);
/* What a request asks for; NULL: nothing. What cannot be sampled from here (osrt) is left out. */
struct rs_host_plan rs_host_plan_of(const Rankscope__CaptureRequest *request);

struct rs_host_samples;

/* RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_host_samples_new(int64_t pid, struct rs_host_plan plan,
                                                 struct rs_host_samples **samples_p);
void rs_host_samples_free(struct rs_host_samples **samples_p); /* of NULL is allowed */

/* Takes a sample when it is time for one. */
void rs_host_samples_look(struct rs_host_samples *samples);
/* Why a part of the plan has no rows, in a sentence; "": all of it can be read, as far as is known after a sample. Lent. */
const char *rs_host_samples_why(const struct rs_host_samples *samples);
/* Writes what is held to a file of this machine's own, and reads it back as samples that take no more. RS_NOTFOUND, RS_IO, RS_FORMAT,
 * RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_host_samples_save(const struct rs_host_samples *samples,
                                                  const char *path, struct rs_err *err);
RS_MUST_CHECK enum rs_status
rs_host_samples_load(const char *path, struct rs_host_samples **samples_p, struct rs_err *err);

/* What is emitted: from the one instant to the other (Unix ns), as times from `base_ns` on. */
struct rs_host_window {
    rs_ns base_ns, from_ns, to_ns;
};

/* Emits what is held and lies in the window, as rows of the stream, whose time base is the window's, and forgets it. RS_NOMEM, or the
 * sink's status. */
RS_MUST_CHECK enum rs_status rs_host_samples_emit(struct rs_host_samples *samples,
                                                  struct rs_source_stream *stream,
                                                  const struct rs_host_window *window,
                                                  struct rs_sink sink, struct rs_err *err);

#endif
