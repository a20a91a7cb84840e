/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/server/pool.h"

#include "common/base/check.h"
#include "common/base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

struct worker {
    struct rs_pool *pool;
    pthread_t thread;
    const struct rs_pool_job *running; /* guarded by the pool's lock */
};

struct rs_pool {
    struct rs_pool_options options;
    char name[12];
    struct worker *workers;
    unsigned worker_count;
    pthread_mutex_t lock; /* guards all below; never held over run or done */
    pthread_cond_t wake, has_room;
    struct rs_pool_job *waiting, **waiting_last_p;
    size_t waiting_count;
    bool must_stop;
};

static bool is_running(const struct rs_pool *pool, const char *key)
{
    for (unsigned i = 0; i < pool->worker_count; i++)
        if (pool->workers[i].running && strcmp(pool->workers[i].running->key, key) == 0)
            return true;
    return false;
}

/* The first whose key is free; NULL: none. */
static struct rs_pool_job *take_job(struct rs_pool *pool)
{
    for (struct rs_pool_job **at = &pool->waiting; *at; at = &(*at)->next) {
        struct rs_pool_job *job = *at;
        if (*job->key && is_running(pool, job->key))
            continue;
        *at = job->next;
        if (!*at)
            pool->waiting_last_p = at;
        job->next = NULL;
        pool->waiting_count--;
        (void)pthread_cond_signal(&pool->has_room);
        return job;
    }
    return NULL;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct rs_pool *pool = worker->pool;
    rs_thread_is(pool->options.thread);
    if (pool->options
            .nice) /* Linux: of this thread alone; without it the pool is only less polite */
        (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), pool->options.nice);
    (void)pthread_mutex_lock(&pool->lock);
    for (;;) {
        if (pool->must_stop && (!pool->options.must_drain || !pool->waiting))
            break;
        struct rs_pool_job *job = take_job(pool);
        if (!job) {
            (void)pthread_cond_wait(&pool->wake, &pool->lock);
            continue;
        }
        worker->running = job;
        (void)pthread_mutex_unlock(&pool->lock);
        job->run(job);
        (void)pthread_mutex_lock(&pool->lock);
        worker->running = NULL;
        /* A job of the same key may have been passed over by threads that sleep now. */
        (void)pthread_cond_broadcast(&pool->wake);
        (void)pthread_mutex_unlock(&pool->lock);
        pool->options.done(pool->options.self, job);
        (void)pthread_mutex_lock(&pool->lock);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

enum rs_status rs_pool_start(const struct rs_pool_options *options, struct rs_pool **pool_p,
                             struct rs_err *err)
{
    struct rs_pool *pool = rs_mem_calloc(1, sizeof *pool);
    struct worker *workers = rs_mem_calloc(options->threads, sizeof *workers);
    if (!pool || !workers) {
        rs_mem_free(pool);
        rs_mem_free(workers);
        return rs_err_set(err, RS_NOMEM, "no memory for threads");
    }
    pool->options = *options;
    pool->workers = workers;
    pool->waiting_last_p = &pool->waiting;
    (void)snprintf(pool->name, sizeof pool->name, "%s", options->name);
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->wake, NULL);
    (void)pthread_cond_init(&pool->has_room, NULL);
    (void)pthread_mutex_lock(&pool->lock); /* worker_count is whole before anybody looks */
    for (unsigned i = 0; i < options->threads; i++) {
        struct worker *worker = &workers[i];
        char name[16];
        worker->pool = pool;
        if (pthread_create(&worker->thread, NULL, work, worker) != 0)
            break;
        (void)snprintf(name, sizeof name, "%.9s-%hu", pool->name, (unsigned short)i);
        (void)pthread_setname_np(worker->thread, name);
        pool->worker_count++;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    if (!pool->worker_count) {
        rs_pool_stop(&pool);
        return rs_err_set(err, RS_IO, "cannot start a thread");
    }
    *pool_p = pool;
    return RS_OK;
}

void rs_pool_stop(struct rs_pool **pool_p)
{
    struct rs_pool *pool = *pool_p;
    if (!pool)
        return;
    *pool_p = NULL;
    (void)pthread_mutex_lock(&pool->lock);
    pool->must_stop = true;
    (void)pthread_cond_broadcast(&pool->wake);
    (void)pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->worker_count; i++)
        (void)pthread_join(pool->workers[i].thread, NULL);
    while (pool->waiting) {
        struct rs_pool_job *job = pool->waiting;
        pool->waiting = job->next;
        job->next = NULL;
        job->was_dropped = true;
        pool->options.done(pool->options.self, job);
    }
    (void)pthread_cond_destroy(&pool->has_room);
    (void)pthread_cond_destroy(&pool->wake);
    (void)pthread_mutex_destroy(&pool->lock);
    rs_mem_free(pool->workers);
    rs_mem_free(pool);
}

/* Under the lock. */
static void append_job(struct rs_pool *pool, struct rs_pool_job *job)
{
    job->next = NULL;
    job->was_dropped = false;
    *pool->waiting_last_p = job;
    pool->waiting_last_p = &job->next;
    pool->waiting_count++;
    (void)pthread_cond_signal(&pool->wake);
}

enum rs_status rs_pool_put(struct rs_pool *pool, struct rs_pool_job *job)
{
    (void)pthread_mutex_lock(&pool->lock);
    const bool is_full = pool->waiting_count >= pool->options.queue_max || pool->must_stop;
    if (!is_full)
        append_job(pool, job);
    (void)pthread_mutex_unlock(&pool->lock);
    return is_full ? RS_LIMIT : RS_OK;
}

void rs_pool_put_wait(struct rs_pool *pool, struct rs_pool_job *job)
{
    (void)pthread_mutex_lock(&pool->lock);
    RS_CHECK(!pool->must_stop);
    while (pool->waiting_count >= pool->options.queue_max)
        (void)pthread_cond_wait(&pool->has_room, &pool->lock);
    append_job(pool, job);
    (void)pthread_mutex_unlock(&pool->lock);
}
