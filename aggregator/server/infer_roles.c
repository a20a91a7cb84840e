/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/server/infer_roles.h"

#include "aggregator/analysis/capture_data.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/reduce/summary.h"

#define RS_LOG_TAG "infer"
#include "common/base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX = 256 }; /* beyond it the oldest is forgotten */

struct task {
    struct task *next;
    char *run, *directory;
};

struct known {
    char *run;
    struct rs_roles roles;
};

struct rs_infer_roles {
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t wake;
    struct task *tasks, **last_p;
    struct known runs[RUNS_MAX]; /* oldest first */
    size_t run_count;
    bool must_stop;
};

/* ---- a capture's groups -------------------------------------------------------------------------------- */

static struct rs_rank_roles *entry_of(struct rs_roles *roles, uint32_t rank)
{
    size_t low = 0;
    size_t high = roles->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (roles->ranks[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < roles->count && roles->ranks[low].rank == rank)
        return &roles->ranks[low];
    if (rs_mem_grow((void **)&roles->ranks, &roles->capacity, roles->count + 1,
                    sizeof *roles->ranks) < 0)
        return NULL;
    memmove(&roles->ranks[low + 1], &roles->ranks[low],
            (roles->count - low) * sizeof *roles->ranks);
    roles->count++;
    roles->ranks[low] = (struct rs_rank_roles){.rank = rank, .role = {-1, -1, -1, -1, -1}};
    return &roles->ranks[low];
}

static enum rs_rank_role_kind role_of(const struct rs_summary *summary,
                                      const struct rs_group_info *group)
{
    enum rs_rank_role_kind role = RS_ROLE_COUNT;
    if (group->description != RS_STR_NONE)
        role = rs_role_of_group(rs_strtab_text(&summary->strings, group->description));
    if (role == RS_ROLE_COUNT && group->name != RS_STR_NONE)
        role = rs_role_of_group(rs_strtab_text(&summary->strings, group->name));
    return role;
}

/* The mean over its whole steps of what is its own: all of a step's window but the communication that nothing covers. 0 unknown. */
static int64_t self_time_of(const struct rs_summary *summary)
{
    int64_t sum = 0;
    int64_t count = 0;
    for (size_t i = 0; i < summary->step_count; i++) {
        const struct rs_step_row *step = &summary->steps[i];
        const rs_dur window = step->window_end - step->window_start;
        if (step->is_partial || !step->has_work || window <= 0 || window < step->window_exposed ||
            sum > INT64_MAX / 2 - window)
            continue;
        sum += window - step->window_exposed;
        count++;
    }
    return count ? sum / count : 0;
}

/* Only the rank's own place: of others its groups may be lists that were cut. */
static enum rs_status infer_rank(const struct rs_summary *summary, struct rs_roles *roles)
{
    if (summary->trace.rank < 0)
        return RS_OK;
    struct rs_rank_roles *entry = entry_of(roles, (uint32_t)summary->trace.rank);
    bool is_unclear[RS_ROLE_COUNT] = {false};
    if (!entry)
        return RS_NOMEM;
    entry->self_time_ns = self_time_of(summary);
    for (size_t g = 0; g < summary->group_count; g++) {
        const struct rs_group_info *group = &summary->groups[g];
        const enum rs_rank_role_kind role = role_of(summary, group);
        if (role == RS_ROLE_COUNT || (int64_t)group->rank_count != group->size)
            continue;
        for (size_t i = 0; i < group->rank_count; i++) {
            if (group->ranks[i] != summary->trace.rank)
                continue;
            /* Two groups that say different things of it say nothing. */
            is_unclear[role] =
                is_unclear[role] || (entry->role[role] >= 0 && entry->role[role] != (int32_t)i);
            entry->role[role] = (int32_t)i;
        }
    }
    for (size_t i = 0; i < RS_ROLE_COUNT; i++)
        if (is_unclear[i])
            entry->role[i] = -1;
    return RS_OK;
}

enum rs_status rs_infer_roles_read(const char *directory, struct rs_roles *roles,
                                   struct rs_err *err)
{
    struct rs_capture_data *data = NULL;
    enum rs_status status = rs_capture_data_open(directory, &data, err);
    const size_t count = status == RS_OK ? rs_capture_data_count(data) : 0;
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        struct rs_summary summary;
        /* A stream that cannot be read tells nothing; the report says why. */
        if (rs_capture_data_summary(data, i, false, &summary, NULL, NULL) != RS_OK)
            continue;
        status = infer_rank(&summary, roles);
        rs_summary_fini(&summary);
    }
    rs_capture_data_close(&data);
    return status == RS_NOMEM ? rs_err_set(err, status, "no memory to infer roles") : status;
}

/* ---- the table ------------------------------------------------------------------------------------------ */

static struct known *find_run(struct rs_infer_roles *infer, const char *run)
{
    for (size_t i = 0; i < infer->run_count; i++)
        if (strcmp(infer->runs[i].run, run) == 0)
            return &infer->runs[i];
    return NULL;
}

static struct known *add_run(struct rs_infer_roles *infer, const char *run)
{
    char *copy = rs_mem_strdup(run);
    if (!copy)
        return NULL;
    if (infer->run_count == RUNS_MAX) {
        rs_mem_free(infer->runs[0].run);
        rs_roles_fini(&infer->runs[0].roles);
        memmove(&infer->runs[0], &infer->runs[1], (RUNS_MAX - 1) * sizeof infer->runs[0]);
        infer->run_count--;
    }
    struct known *known = &infer->runs[infer->run_count++];
    *known = (struct known){.run = copy};
    return known;
}

/* What is new counts; what it does not say stays. */
static void merge(struct rs_infer_roles *infer, const char *run, const struct rs_roles *roles)
{
    struct known *known = find_run(infer, run);
    if (!known)
        known = add_run(infer, run);
    for (size_t i = 0; known && i < roles->count; i++) {
        struct rs_rank_roles *entry = entry_of(&known->roles, roles->ranks[i].rank);
        for (size_t k = 0; entry && k < RS_ROLE_COUNT; k++)
            if (roles->ranks[i].role[k] >= 0)
                entry->role[k] = roles->ranks[i].role[k];
        if (entry && roles->ranks[i].self_time_ns > 0)
            entry->self_time_ns = roles->ranks[i].self_time_ns;
    }
}

bool rs_infer_roles_of(struct rs_infer_roles *infer, const char *run, struct rs_roles *roles_p)
{
    bool is_known = false;
    *roles_p = (struct rs_roles){0};
    (void)pthread_mutex_lock(&infer->lock);
    const struct known *known = find_run(infer, run);
    if (known && known->roles.count &&
        rs_mem_grow((void **)&roles_p->ranks, &roles_p->capacity, known->roles.count,
                    sizeof *roles_p->ranks) == RS_OK) {
        roles_p->count = known->roles.count;
        memcpy(roles_p->ranks, known->roles.ranks, roles_p->count * sizeof *roles_p->ranks);
        is_known = true;
    }
    (void)pthread_mutex_unlock(&infer->lock);
    return is_known;
}

/* ---- the thread ------------------------------------------------------------------------------------------ */

static void free_task(struct task *task)
{
    rs_mem_free(task->run);
    rs_mem_free(task->directory);
    rs_mem_free(task);
}

static struct task *next_task(struct rs_infer_roles *infer)
{
    (void)pthread_mutex_lock(&infer->lock);
    while (!infer->tasks && !infer->must_stop)
        (void)pthread_cond_wait(&infer->wake, &infer->lock);
    struct task *task = infer->must_stop ? NULL : infer->tasks;
    if (task) {
        infer->tasks = task->next;
        if (!infer->tasks)
            infer->last_p = &infer->tasks;
    }
    (void)pthread_mutex_unlock(&infer->lock);
    return task;
}

static void *work(void *self)
{
    rs_thread_is(RS_THREAD_INFER);
    struct rs_infer_roles *infer = self;
    for (struct task *task = next_task(infer); task; task = next_task(infer)) {
        struct rs_roles roles = {0};
        struct rs_err err = {0};
        if (rs_infer_roles_read(task->directory, &roles, &err) < 0)
            rs_log_info("no roles from %s: %s", task->directory, err.text);
        (void)pthread_mutex_lock(&infer->lock);
        merge(infer, task->run, &roles);
        (void)pthread_mutex_unlock(&infer->lock);
        rs_roles_fini(&roles);
        free_task(task);
    }
    return NULL;
}

void rs_infer_roles_capture(struct rs_infer_roles *infer, const char *run, const char *directory)
{
    struct task *task = rs_mem_calloc(1, sizeof *task);
    if (!task)
        return;
    task->run = rs_mem_strdup(run);
    task->directory = rs_mem_strdup(directory);
    if (!task->run || !task->directory) {
        free_task(task);
        return;
    }
    (void)pthread_mutex_lock(&infer->lock);
    *infer->last_p = task;
    infer->last_p = &task->next;
    (void)pthread_cond_signal(&infer->wake);
    (void)pthread_mutex_unlock(&infer->lock);
}

enum rs_status rs_infer_roles_start(struct rs_infer_roles **infer_p, struct rs_err *err)
{
    struct rs_infer_roles *infer = rs_mem_calloc(1, sizeof *infer);
    if (!infer)
        return rs_err_set(err, RS_NOMEM, "no memory");
    infer->last_p = &infer->tasks;
    (void)pthread_mutex_init(&infer->lock, NULL);
    (void)pthread_cond_init(&infer->wake, NULL);
    if (pthread_create(&infer->thread, NULL, work, infer) != 0) {
        (void)pthread_cond_destroy(&infer->wake);
        (void)pthread_mutex_destroy(&infer->lock);
        rs_mem_free(infer);
        return rs_err_set(err, RS_IO, "cannot start a thread");
    }
    (void)pthread_setname_np(infer->thread, "rs-infer");
    *infer_p = infer;
    return RS_OK;
}

void rs_infer_roles_stop(struct rs_infer_roles **infer_p)
{
    struct rs_infer_roles *infer = *infer_p;
    if (!infer)
        return;
    *infer_p = NULL;
    (void)pthread_mutex_lock(&infer->lock);
    infer->must_stop = true;
    (void)pthread_cond_signal(&infer->wake);
    (void)pthread_mutex_unlock(&infer->lock);
    (void)pthread_join(infer->thread, NULL);
    while (infer->tasks) {
        struct task *task = infer->tasks;
        infer->tasks = task->next;
        free_task(task);
    }
    for (size_t i = 0; i < infer->run_count; i++) {
        rs_mem_free(infer->runs[i].run);
        rs_roles_fini(&infer->runs[i].roles);
    }
    (void)pthread_cond_destroy(&infer->wake);
    (void)pthread_mutex_destroy(&infer->lock);
    rs_mem_free(infer);
}
