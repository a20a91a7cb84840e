/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads for what takes long, so that the thread of the links never touches a disk: joining captures, reading pages of
 * documents.
 *
 *     rs_pool_put() --> bounded queue --> a thread: job->run(job) --> done(job)
 *
 * Jobs of one key run one at a time and in their order; others pass them. `done` is called on the pool's thread, once for
 * each job that was put; it hands the job back to its owner.
 */
#ifndef RS_SERVER_POOL_H
#define RS_SERVER_POOL_H

#include "common/base/err.h"
#include "common/base/thread.h"

#include <stdbool.h>
#include <stddef.h>

struct rs_pool;

enum { RS_POOL_KEY_BYTES = 64 };

struct rs_pool_job {
    struct rs_pool_job *next;    /* the pool's, then free for the owner */
    char key[RS_POOL_KEY_BYTES]; /* "": none */
    void (*run)(struct rs_pool_job *job);
    bool was_dropped; /* the pool stopped before its turn: run was not called */
};

struct rs_pool_options {
    const char *name;      /* of its threads: "rs-join"; copied */
    enum rs_thread thread; /* what they are */
    unsigned threads;      /* at least 1 */
    int nice;              /* of them, 0..19 */
    size_t queue_max;      /* jobs that wait */
    bool must_drain;       /* rs_pool_stop() does what waits instead of handing it back undone */
    void (*done)(void *self, struct rs_pool_job *job);
    void *self;
};

/* RS_NOMEM, RS_IO: no thread could be started. */
RS_MUST_CHECK enum rs_status rs_pool_start(const struct rs_pool_options *options,
                                           struct rs_pool **pool_p, struct rs_err *err);
/* Waits for the jobs that run; those that wait are handed back undone. Of NULL is allowed. */
void rs_pool_stop(struct rs_pool **pool_p);

/* Takes the job until `done`. RS_LIMIT: the queue is full, the job is still the caller's. Any thread. */
RS_MUST_CHECK enum rs_status rs_pool_put(struct rs_pool *pool, struct rs_pool_job *job);
/* The same, but waits until there is room. Not on a thread of the pool, not after rs_pool_stop(). */
void rs_pool_put_wait(struct rs_pool *pool, struct rs_pool_job *job);

#endif
