/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When ranks that ask for work begin together. Pure arithmetic over what they said when they were armed.
 *
 *     polls on the circle of one period:      A..BC..............D     told from D on: D A B C, spread D-C
 *                                                  `-- largest gap --'
 *
 * See the head of coordinator.h for the two ways and their reasons.
 */
#ifndef RS_CAPTURE_PLAN_H
#define RS_CAPTURE_PLAN_H

#include "aggregator/capture/coordinator.h"

/* Fills start_time_ns, or deliver_from_ns and profile.roundup, and profile.timeout_ns, for the ranks that begin at a
 * multiple of their own count and are ARMED. `realtime`: now, Unix ns. Without such ranks nothing changes. */
void rs_coord_plan(struct rs_coord_capture *capture, rs_ns realtime);

/* Names the ranks of an iteration capture whose window lies apart from the others' ("" when there is none): they
 * came to another multiple of the round-up. Returns how many. */
size_t rs_coord_strays(const struct rs_coord_capture *capture, char *text, size_t bytes);

#endif
