/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread is this? A struct says whose it is, a function that belongs to one thread asserts it:
 *
 *     a thread begins:   rs_thread_is(RS_THREAD_INGEST);
 *     its functions:     RS_ON_THREAD(INGEST);
 *
 * Debug builds end with the place where another thread came in. A thread that said nothing of itself (a test, a verb of the command
 * line, which do one thing after the other) may call everything: it is alone.
 */
#ifndef RS_BASE_THREAD_H
#define RS_BASE_THREAD_H

#include "common/base/check.h"

#include <stdbool.h>

enum rs_thread {
    RS_THREAD_ANY,       /* said nothing */
    RS_THREAD_LINKS,     /* the aggregator's links, sessions and capture state machine */
    RS_THREAD_INGEST,    /* appends to the logs */
    RS_THREAD_SYNC,      /* makes them durable */
    RS_THREAD_STORE,     /* writes captures down */
    RS_THREAD_JOIN,      /* joins, makes documents */
    RS_THREAD_READ,      /* pages of documents and tables */
    RS_THREAD_LEASE,     /* tells other aggregators that this one lives */
    RS_THREAD_CATALOGUE, /* tells them of captures */
    RS_THREAD_AUDIT,
    RS_THREAD_INFER,
    RS_THREAD_PROBE,
    RS_THREAD_UPLINK, /* the collector's link */
    RS_THREAD_NATIVE, /* native ranks: control and rings */
    RS_THREAD_KINETO,
    RS_THREAD_CONFIG, /* ranks whose profilers read files of configuration */
    RS_THREAD_WATCH   /* folders that are watched */
};

void rs_thread_is(enum rs_thread thread); /* of the calling thread, from here on */
enum rs_thread rs_thread_here(void);

static inline bool rs_thread_may(enum rs_thread thread)
{
    const enum rs_thread here = rs_thread_here();
    return here == thread || here == RS_THREAD_ANY;
}

#define RS_ON_THREAD(name) RS_DCHECK(rs_thread_may(RS_THREAD_##name))
/* The other way round: what takes long must not hold that thread up. */
#define RS_OFF_THREAD(name) RS_DCHECK(rs_thread_here() != RS_THREAD_##name)

#endif
