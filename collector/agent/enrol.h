/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's certificate: got with an invite when there is none, renewed by a thread of its own before it ends.
 */
#ifndef RS_AGENT_ENROL_H
#define RS_AGENT_ENROL_H

#include "collector/agent/agent.h"
#include "collector/agent/aggregators.h"

/* Where the collector sends to, and its name: joins first when it is to and has no certificate. *node_p has the name of the certificate,
 * else the host's. RS_REFUSED, RS_UNREACHABLE, RS_IO: with the sentence. Thread: main, before the loop. */
RS_MUST_CHECK enum rs_status rs_enrol(const struct rs_agent_options *options,
                                      struct rs_aggregators *aggregators_p,
                                      char node_p[RS_IDENTITY_NAME_BYTES], struct rs_err *err);

struct rs_renewal;
/* Looks every now and then whether our certificate ends soon, and has it renewed by the first of the aggregators that does; NULL for addresses
 * without certificates. What does not work is logged and tried again. */
RS_MUST_CHECK enum rs_status rs_renewal_start(const struct rs_aggregators *aggregators,
                                              struct rs_renewal **renewal_p, struct rs_err *err);
void rs_renewal_stop(struct rs_renewal **renewal_p); /* of NULL is allowed */

#endif
