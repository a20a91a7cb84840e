/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a daemon counts, one line each in counters.def: name, kind, unit, sentence.
 *
 *     rs_count(RS_COUNT_..., n) --> one table per process --> the aggregator's answer to `rankscope counters`
 *                                             '--heartbeat--> the same of every collector
 *
 * A process is one daemon, so the table is the process's: any thread counts, without a lock. Values are of this process's life.
 */
#ifndef RS_BASE_COUNTERS_H
#define RS_BASE_COUNTERS_H

#include "common/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rs_counter {
#define X(suffix, name, kind, unit, who, help) RS_COUNT_##suffix,
#include "common/base/counters.def"
#undef X
    RS_COUNT_END /* how many there are */
};

enum rs_counter_who { RS_COUNT_AGGREGATOR = 1, RS_COUNT_COLLECTOR = 2, RS_COUNT_BOTH = 3 };

struct rs_counter_info {
    const char *name; /* "spool.lost_chunks" */
    const char *unit; /* "", "bytes", "seconds" */
    const char *help; /* one sentence, no full stop */
    bool is_gauge;
    unsigned who; /* bits of enum rs_counter_who */
};
const struct rs_counter_info *rs_counter_info(enum rs_counter counter);
/* RS_COUNT_END: there is none of this name. */
enum rs_counter rs_counter_find(const char *name);

void rs_count(enum rs_counter counter, uint64_t more);
/* A gauge, or a counter that somebody else adds up. */
void rs_count_set(enum rs_counter counter, uint64_t value);
uint64_t rs_count_read(enum rs_counter counter);
/* Sets what the system knows of this process (process.*). */
void rs_count_process(void);

/* One daemon's values: of counters without has[] nothing is known, and nothing is printed. */
struct rs_counter_set {
    const char *daemon;          /* "aggregator", "collector" */
    const char *node, *instance; /* of a collector; "" else */
    uint64_t values[RS_COUNT_END];
    bool has[RS_COUNT_END];
};
/* Appends name="value": quotes, backslashes and line ends are escaped, and so are bytes that are not UTF-8, for which a scrape would
 * be thrown away as a whole. */
void rs_prometheus_label(const char *name, const char *value, struct rs_buf *buf);
/* Prometheus' text format 0.0.4: rankscope_spool_lost_chunks_total{daemon="collector",node="n1",instance="..."} 3 */
void rs_counters_prometheus(const struct rs_counter_set *sets, size_t count, struct rs_buf *buf);

#endif
