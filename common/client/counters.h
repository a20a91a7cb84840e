/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemons count, asked from an aggregator. */
#ifndef RS_CLIENT_COUNTERS_H
#define RS_CLIENT_COUNTERS_H

#include "common/base/counters.h"
#include "common/wire/link.h"

/* Zeroed is empty. */
struct rs_client_counters {
    struct rs_counter_set *sets; /* a daemon each; owned, and their texts */
    size_t count, capacity;
    uint64_t unknown; /* counters of a newer daemon: left out */
};

/* As rs_client_ask(); RS_UNREACHABLE, too: it told none. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_client_counters_ask(const struct rs_address *address,
                                                    struct rs_client_counters *counters_p,
                                                    struct rs_err *err);
void rs_client_counters_fini(struct rs_client_counters *counters);

#endif
