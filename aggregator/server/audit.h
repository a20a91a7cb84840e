/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log: who asked for what, from where, and what came of it. One JSON object a line, appended to DATA/audit.jsonl,
 * never rewritten:
 *
 *     {"time":"2026-11-23T14:05:06.123456789Z","who":"operator/alice","serial":"4f..","from":"ipv4:10.0.0.7:51234",
 *      "what":"capture.start","subject":"20261123-140506-a1b2c3","outcome":"asked"}
 *
 * `outcome` is "asked" (it may, and it was handed on: what became of it is the capture's own story) or "refused", with "why".
 * Written on a thread of its own: the thread of the links never waits for the disk. What the queue cannot hold any more is
 * counted and said in the log, and nothing is refused for it. Mode 0640; for logrotate: copytruncate.
 */
#ifndef RS_SERVER_AUDIT_H
#define RS_SERVER_AUDIT_H

#include "common/trust/identity.h"

struct rs_audit;

/* Opens the file for appending. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_audit_open(const char *path, struct rs_audit **audit_p,
                                           struct rs_err *err);
/* Writes what waits. Of NULL is allowed. */
void rs_audit_close(struct rs_audit **audit_p);

struct rs_audit_line {
    const struct rs_identity *who;
    const char *from;    /* address of the other side */
    const char *what;    /* "capture.start" */
    const char *subject; /* what it is about, often an id; "" nothing */
    const char *why;     /* it was refused; NULL: it was not */
};

/* Copies. Of NULL does nothing. Any thread. */
void rs_audit_put(struct rs_audit *audit, const struct rs_audit_line *line);

#endif
