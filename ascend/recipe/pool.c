/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map on threads, reduce in order.
 *
 *     worker: take the next rank --> open --> map --> slot ready
 *     caller: wait for the slot of the next rank in order --> reduce --> free its window place
 *
 * At most WINDOW_PER_THREAD parts a thread wait for the caller, so memory does not grow with
 * the number of ranks. The lock guards `next`, `reduced` and the slots; a slot's part passes
 * to the caller when `is_ready` is seen under the lock.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 64, WINDOW_PER_THREAD = 2 };

struct slot {
    void *part;
    struct rs_err err;
    enum rs_status status;
    bool is_ready;
};

struct pool {
    struct run *run;
    struct slot *slots; /* [window], rank i uses slot i % window */
    size_t window;
    size_t next;    /* the next rank to be taken */
    size_t reduced; /* ranks the caller is done with */
    bool is_stopped;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

/* The step's window in this rank. */
static enum rs_status find_step(struct run *run, struct inputs *in, struct rs_err *err)
{
    const int64_t step = run->options->step_id;
    in->from = 0;
    in->to = INT64_MAX;
    if (step < 0 || !in->profiler)
        return RS_OK;
    if (!rs_ascend_db_has_column(in->profiler, "STEP_TIME", "startNs")) {
        run_add_problem(run, in->of->rank, false, "%s has no STEP_TIME; all of it is taken",
                        rs_ascend_db_path(in->profiler));
        return RS_OK;
    }
    sqlite3_stmt *stmt = NULL;
    enum rs_status status = rs_ascend_db_prepare(
        in->profiler, "SELECT startNs, endNs FROM STEP_TIME WHERE id = ?1 LIMIT 1", &stmt, err);
    if (status == RS_OK) {
        (void)sqlite3_bind_int64(stmt, 1, step);
        status = rs_ascend_db_step(in->profiler, stmt, err);
    }
    int64_t from = 0, to = 0;
    if (status == RS_OK && rs_ascend_column_int(stmt, 0, &from) &&
        rs_ascend_column_int(stmt, 1, &to)) {
        in->from = from;
        in->to = to;
    } else if (status == RS_END && run->options->compat) {
        run_add_problem(run, in->of->rank, false, "%s has no step %" PRId64 "; all of it is taken",
                        rs_ascend_db_path(in->profiler), step);
        status = RS_OK;
    } else if (status == RS_END || status == RS_OK) {
        status = rs_err_set(err, RS_NOTFOUND, "%s has no step %" PRId64,
                            rs_ascend_db_path(in->profiler), step);
    }
    rs_ascend_db_finish(&stmt);
    return status;
}

enum rs_status inputs_open(struct run *run, const struct recipe_rank *rank, struct inputs *in,
                           struct rs_err *err)
{
    const unsigned needs = run->recipe->needs;
    const struct rs_ascend_rank *vendor = rank->vendor;
    enum rs_status status = RS_OK;
    *in = (struct inputs){.of = rank, .run = run};
    if ((needs & NEED_PROFILER) && !vendor->profiler_db)
        return rs_err_set(err, RS_INVALID, "%s has no profiler database", vendor->dir);
    if ((needs & NEED_ANALYSIS) && !vendor->analysis_db)
        return rs_err_set(err, RS_INVALID, "%s has no analysis.db", vendor->dir);
    if ((needs & (NEED_PROFILER | MAY_PROFILER)) && vendor->profiler_db)
        status = rs_ascend_db_open(vendor->profiler_db, &in->profiler, err);
    if (status == RS_OK && (needs & (NEED_ANALYSIS | MAY_ANALYSIS)) && vendor->analysis_db)
        status = rs_ascend_db_open(vendor->analysis_db, &in->analysis, err);
    if (status == RS_OK)
        status = find_step(run, in, err);
    if (status == RS_OK) {
        in_prepare(in);
        status = in->status == RS_OK ? RS_OK : rs_err_set(err, in->status, "%s", in->err.text);
    }
    if (status != RS_OK)
        inputs_close(in);
    return status;
}

void inputs_close(struct inputs *in)
{
    rs_ascend_db_close(&in->profiler);
    rs_ascend_db_close(&in->analysis);
}

static enum rs_status map_one(struct run *run, size_t index, void **part_p, struct rs_err *err)
{
    struct inputs in;
    enum rs_status status = inputs_open(run, &run->ranks[index], &in, err);
    if (status != RS_OK)
        return status;
    status = frames_map(&in, part_p, err);
    inputs_close(&in);
    return status;
}

static void *work(void *argument)
{
    struct pool *pool = argument;
    (void)pthread_mutex_lock(&pool->lock);
    while (!pool->is_stopped && pool->next < pool->run->rank_count) {
        if (pool->next >= pool->reduced + pool->window) {
            (void)pthread_cond_wait(&pool->changed, &pool->lock);
            continue;
        }
        const size_t index = pool->next++;
        (void)pthread_mutex_unlock(&pool->lock);
        struct rs_err err = {0};
        void *part = NULL;
        const enum rs_status status = map_one(pool->run, index, &part, &err);
        (void)pthread_mutex_lock(&pool->lock);
        struct slot *slot = &pool->slots[index % pool->window];
        *slot = (struct slot){part, err, status, true};
        (void)pthread_cond_broadcast(&pool->changed);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Waits for the part of rank `index`, takes it and opens its place in the window. */
static struct slot await(struct pool *pool, size_t index)
{
    struct slot *slot = &pool->slots[index % pool->window];
    (void)pthread_mutex_lock(&pool->lock);
    while (!slot->is_ready)
        (void)pthread_cond_wait(&pool->changed, &pool->lock);
    struct slot taken = *slot;
    *slot = (struct slot){0};
    pool->reduced = index + 1;
    (void)pthread_cond_broadcast(&pool->changed);
    (void)pthread_mutex_unlock(&pool->lock);
    return taken;
}

static void drop_part(void *part)
{
    if (part)
        frames_drop(part);
}

static enum rs_status reduce_all(struct pool *pool, size_t *used_p, struct rs_err *err)
{
    struct run *run = pool->run;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < run->rank_count && status == RS_OK; i++) {
        struct slot slot = await(pool, i);
        if (slot.status < 0) {
            if (slot.status == RS_NOMEM)
                status = rs_err_set(err, RS_NOMEM, "%s", slot.err.text);
            run_add_problem(run, run->ranks[i].rank, true, "%s",
                            slot.err.text[0] ? slot.err.text : rs_status_text(slot.status));
            continue;
        }
        (*used_p)++;
        status = frames_reduce(run, &run->ranks[i], slot.part, err);
        drop_part(slot.part);
    }
    return status;
}

static unsigned thread_count(const struct run *run)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count =
        run->options->threads ? run->options->threads : (size_t)(online > 0 ? online : 1);
    if (count > run->rank_count)
        count = run->rank_count;
    return count > THREADS_MAX ? THREADS_MAX : (unsigned)(count ? count : 1);
}

static void drop_left(struct pool *pool)
{
    for (size_t i = 0; i < pool->window; i++)
        drop_part(pool->slots[i].part);
}

enum rs_status run_map(struct run *run, size_t *used_p, struct rs_err *err)
{
    pthread_t threads[THREADS_MAX];
    const unsigned count = thread_count(run);
    struct pool pool = {.run = run, .window = (size_t)count * WINDOW_PER_THREAD};
    pool.slots = rs_mem_calloc(pool.window, sizeof *pool.slots);
    if (!pool.slots)
        return rs_err_set(err, RS_NOMEM, "no memory for the threads");
    (void)pthread_mutex_init(&pool.lock, NULL);
    (void)pthread_cond_init(&pool.changed, NULL);
    unsigned started = 0;
    while (started < count && pthread_create(&threads[started], NULL, work, &pool) == 0)
        started++;
    enum rs_status status = started ? reduce_all(&pool, used_p, err)
                                    : rs_err_set(err, RS_LIMIT, "the system gives us no thread");
    (void)pthread_mutex_lock(&pool.lock);
    pool.is_stopped = true;
    (void)pthread_cond_broadcast(&pool.changed);
    (void)pthread_mutex_unlock(&pool.lock);
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    drop_left(&pool);
    (void)pthread_cond_destroy(&pool.changed);
    (void)pthread_mutex_destroy(&pool.lock);
    rs_mem_free(pool.slots);
    return status;
}
