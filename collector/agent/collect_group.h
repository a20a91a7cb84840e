/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files that appear belong to one capture: same trace id, else same folder.
 *
 * A trace id is one capture's only when whoever asked for the capture gave it to all ranks. torch.profiler
 * invents one per process, and some daemons one per rank. So a file whose id is new joins an open capture of its folder when
 * that one misses its rank and no id of it was seen twice; an id seen twice is the capture's own, and only that id
 * joins then. A capture stays open until nothing came for the settle time, as the aggregator closes it.
 *
 * One thread.
 */
#ifndef RS_AGENT_COLLECT_GROUP_H
#define RS_AGENT_COLLECT_GROUP_H

#include "common/base/status.h"
#include "common/base/time.h"

#include <stddef.h>
#include <stdint.h>

struct rs_collect_group; /* one open capture */

struct rs_collect_groups {
    struct rs_collect_group *items;
    size_t count, capacity;
};

void rs_collect_groups_fini(struct rs_collect_groups *groups);

/* The key of the capture that this file belongs to, in `key` of key_bytes: "trace:..." or "folder:...". `trace_id` "" is
 * none. `now` is monotonic. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_collect_group_key(struct rs_collect_groups *groups,
                                                  const char *folder, const char *trace_id,
                                                  int32_t rank, rs_ns now, rs_dur settle_ns,
                                                  char *key, size_t key_bytes);

#endif
