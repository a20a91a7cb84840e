/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling a job of MindSpore to record; the rules are in mindspore.h.
 *
 * One configuration folder ("config_dir") has one capture in hand:
 *
 *   FREE --arm(): pair written--> TOLD --all targets WRITTEN or FAILED--> FREE, file back to -1/-1
 *                                  | cancel(); or somebody records on past his deadline
 *                                  '--> LEAVING: a pair that is never reached stands in the file, because -1/-1 while a
 *                                       callback records makes it record to the end of the job
 *                                         '--nobody records, the block has the mindspore_parking pair--> FREE, file back to -1/-1
 *
 * A file that somebody else replaced is his: what we wrote is given up, and reported; nothing is written over it.
 */
#include "ascend/adapter/mindspore_priv.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const rs_dur find_every_ns = 3 * (rs_dur)RS_NS_PER_S;
static const rs_dur check_busy_ns = 500 * (rs_dur)RS_NS_PER_MS;

static struct mindspore_trigger *of(struct rs_config_trigger *trigger)
{
    return (struct mindspore_trigger *)trigger;
}

/* ---- arming ------------------------------------------------------------------------------------------------------- */

static struct mindspore_member *find_member(const struct mindspore_trigger *trigger,
                                            const struct rs_config_target *target)
{
    for (size_t i = 0; i < trigger->member_count; i++)
        if (trigger->members[i].hold.pid == target->pid &&
            trigger->members[i].hold.start_ticks == target->start_ticks)
            return &trigger->members[i];
    return NULL;
}

/* All of them are there, can be reported, and read one folder. */
static enum rs_status check_targets(const struct mindspore_trigger *trigger,
                                    const struct rs_config_arm *arm,
                                    struct mindspore_config_dir **config_dir_p, struct rs_err *err)
{
    struct mindspore_config_dir *config_dir = NULL;
    for (size_t i = 0; i < arm->target_count; i++) {
        const struct mindspore_member *member = find_member(trigger, &arm->targets[i]);
        if (!member || member->shown.is_gone)
            return rs_err_set(err, RS_NOTFOUND, "process %d is no rank of MindSpore (any more)",
                              (int)arm->targets[i].pid);
        if (member->shown.is_unresponsive)
            return rs_err_set(err, RS_REFUSED, "rank %d: %s", member->shown.rank,
                              member->shown.unresponsive_because);
        struct mindspore_config_dir *its = mindspore_config_dir_of(trigger, member);
        if (config_dir && its != config_dir)
            return rs_err_set(
                err, RS_REFUSED,
                "these ranks are notified by different files (%s, %s): one capture each",
                config_dir->path, its->path);
        config_dir = its;
    }
    if (!config_dir)
        return rs_err_set(err, RS_INVALID, "a capture of no rank");
    if (config_dir->phase == MINDSPORE_NOTIFIED)
        return rs_err_set(err, RS_EXISTS,
                          "capture %s is in hand at %s: a second pair of steps would cut it short",
                          config_dir->capture_id, config_dir->path);
    if (config_dir->phase == MINDSPORE_LEAVING)
        return rs_err_set(err, RS_EXISTS, "capture %s is not over yet at %s",
                          config_dir->capture_id, config_dir->path);
    *config_dir_p = config_dir;
    return RS_OK;
}

static bool is_target_of(const struct rs_config_arm *arm, const struct mindspore_member *member)
{
    for (size_t i = 0; i < arm->target_count; i++)
        if (arm->targets[i].pid == member->hold.pid &&
            arm->targets[i].start_ticks == member->hold.start_ticks)
            return true;
    return false;
}

/* Nobody is left out: who reads the file or its block records. */
static enum rs_status check_others(const struct mindspore_trigger *trigger,
                                   const struct mindspore_config_dir *config_dir,
                                   const struct rs_config_arm *arm, struct rs_err *err)
{
    char who[160] = "";
    size_t used = 0;
    bool is_other_job = false;
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct mindspore_member *member = &trigger->members[i];
        if (member->shown.is_gone || !mindspore_is_of(trigger, member, config_dir) ||
            is_target_of(arm, member))
            continue;
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): a folder that was found has its path */
        is_other_job |= member->own_dir[0] && strcmp(member->own_dir, config_dir->dir) != 0;
        const int more = snprintf(who + used, sizeof who - used, "%s%d (process %d)",
                                  used ? ", " : "", member->shown.rank, (int)member->hold.pid);
        used = more > 0 && used + (size_t)more < sizeof who ? used + (size_t)more : used;
    }
    if (!used || (is_other_job && arm->request->force))
        return RS_OK;
    if (is_other_job)
        return rs_err_set(err, RS_REFUSED,
                          "another job on this node shares the block of this one and would record "
                          "too: rank %s; --force does it all the same",
                          who);
    return rs_err_set(err, RS_REFUSED,
                      "MindSpore's monitor has no selection of ranks: rank %s of this job would "
                      "record too; capture all ranks",
                      who);
}

static enum rs_status check_steps(const struct mindspore_trigger *trigger,
                                  const struct rs_config_arm *arm,
                                  const struct mindspore_pair *pair, struct rs_err *err)
{
    if (pair->start < 1)
        return rs_err_set(err, RS_INVALID,
                          "with dp.step() the first step that can be recorded is 2");
    if (arm->start_step > mindspore_parking.start - arm->request->schedule.active - 1)
        return rs_err_set(err, RS_INVALID, "step %" PRId64 " is beyond what MindSpore takes",
                          arm->start_step);
    for (size_t i = 0; i < arm->target_count; i++) {
        const struct mindspore_member *member = find_member(trigger, &arm->targets[i]);
        RS_CHECK(member); /* looked at before, and nothing was forgotten since */
        if (pair->start <= member->last.stop)
            return rs_err_set(err, RS_REFUSED,
                              "rank %d was asked to record from %" PRId64 " to %" PRId64
                              " already: MindSpore takes no pair twice, the next start has to lie "
                              "behind it",
                              member->shown.rank, member->last.start, member->last.stop);
        if (!arm->request->force && mindspore_step_at_least(trigger, member) > arm->start_step)
            return rs_err_set(err, RS_REFUSED,
                              "step %" PRId64 " is over: by its pace rank %d is in step %" PRId64
                              " or later; if it stood still meanwhile, --force asks all the same",
                              arm->start_step, member->shown.rank,
                              mindspore_step_at_least(trigger, member));
    }
    return RS_OK;
}

/* What stands in the file is kept for later; a pair of somebody else that may still be waited for is not taken away. */
static enum rs_status check_file(const struct mindspore_trigger *trigger,
                                 struct mindspore_config_dir *config_dir,
                                 const struct rs_config_arm *arm, struct rs_err *err)
{
    struct mindspore_pair pair;
    int64_t reached = -1;
    rs_buf_reset(&config_dir->original);
    const enum rs_status status =
        rs_config_read(config_dir->path, &config_dir->owner, MINDSPORE_FILE_LIMIT_BYTES,
                       &config_dir->original, err);
    if (status == RS_NOTFOUND || status == RS_LIMIT) {
        rs_buf_reset(&config_dir->original);
        return RS_OK;
    }
    if (status < 0)
        return status;
    const char *text = rs_buf_text(&config_dir->original);
    if (!mindspore_pair_read(text, &pair) || pair.start < 0 || pair.stop < 0 ||
        mindspore_is_same_pair(&pair, &mindspore_parking) || strstr(text, trigger->result_root))
        return RS_OK; /* nobody's, or what a collector of ours left behind */
    for (size_t i = 0; i < arm->target_count; i++) {
        const int64_t step =
            mindspore_step_at_least(trigger, find_member(trigger, &arm->targets[i]));
        if (i == 0 || step < reached)
            reached = step;
    }
    if (arm->request->force || reached - 1 > pair.stop)
        return RS_OK;
    return rs_err_set(
        err, RS_REFUSED,
        "%s asks for steps %" PRId64 " to %" PRId64
        ", and not by us: they may still be to come. If they are over, set start_step "
        "and stop_step to -1 there, or capture with --force",
        config_dir->path, pair.start, pair.stop);
}

static enum rs_status make_folder(const struct mindspore_trigger *trigger,
                                  struct mindspore_config_dir *config_dir,
                                  const struct rs_config_arm *arm, struct rs_err *err)
{
    for (size_t i = 0; i < arm->target_count; i++) {
        const struct mindspore_member *member = find_member(trigger, &arm->targets[i]);
        char folder[RS_CONFIG_PATH_BYTES];
        const enum rs_status status = rs_config_result_folder(trigger->result_root, arm->capture_id,
                                                              &member->shown.process, folder, err);
        if (status < 0)
            return status;
        if (i == 0)
            (void)snprintf(config_dir->folder, sizeof config_dir->folder, "%s", folder);
        else if (strcmp(folder, config_dir->folder) != 0)
            return rs_err_set(err, RS_REFUSED,
                              "ranks of several users cannot be notified by one file");
    }
    return RS_OK;
}

enum rs_status mindspore_pair_text(const struct mindspore_config_dir *config_dir,
                                   const struct rs_capture_request *request,
                                   const struct mindspore_pair *pair, struct rs_buf *text,
                                   struct rs_err *err)
{
    struct rs_capture_request said = *request; /* its lists stay the caller's */
    said.start_step = pair->start;
    said.schedule.active = (uint32_t)(pair->stop - pair->start + 1);
    said.analyse = config_dir->parses;
    said.is_rank = false;
    if (said.async_mode && said.mindspore.analyse_mode < 0)
        said.mindspore.analyse_mode = 1;
    if (snprintf(said.prof_dir, sizeof said.prof_dir, "%s", config_dir->folder) >=
        (int)sizeof said.prof_dir)
        return rs_err_set(err, RS_LIMIT, "%.200s... is too long a path", config_dir->folder);
    return rs_request_to_config(&said, RS_CONFIG_MINDSPORE, text, err);
}

static void begin_member(struct mindspore_member *member,
                         const struct mindspore_config_dir *config_dir, int64_t first)
{
    struct rs_config_rank *shown = &member->shown;
    member->is_target = true;
    member->result = (struct mindspore_result){0};
    member->said_start = member->said_stop = false;
    member->accepted_at = member->recorded_wait = 0;
    member->log_offset = mindspore_stdout_length(member->hold.pid);
    shown->state = RS_CONFIG_STATE_NOTIFIED;
    (void)snprintf(shown->capture_id, sizeof shown->capture_id, "%s", config_dir->capture_id);
    shown->start_step = first;
    shown->started_step = shown->stopped_step = -1;
    shown->rewrite_count = 0;
    shown->parses = false;
    shown->note[0] = shown->why[0] = shown->result_dir[0] = '\0';
}

static enum rs_status arm_checked(struct mindspore_trigger *trigger,
                                  struct mindspore_config_dir *config_dir,
                                  const struct rs_config_arm *arm, struct rs_err *err)
{
    const struct rs_capture_request *request = arm->request;
    const struct mindspore_pair pair =
        mindspore_pair_for(arm->start_step, request->schedule.active, config_dir->way);
    struct rs_buf text = {0};
    enum rs_status status = check_steps(trigger, arm, &pair, err);
    if (status == RS_OK)
        status = check_file(trigger, config_dir, arm, err);
    if (status == RS_OK)
        status = make_folder(trigger, config_dir, arm, err);
    if (status == RS_OK) {
        config_dir->parses = request->analyse || request->aggregate; /* is_rank is torch_npu's */
        config_dir->parses_beside = request->async_mode || request->mindspore.analyse_mode == 1;
        status = mindspore_pair_text(config_dir, request, &pair, &text, err);
    }
    if (status == RS_OK)
        status = mindspore_write(trigger, config_dir, &text, err);
    rs_buf_fini(&text);
    if (status < 0)
        return status;
    config_dir->phase = MINDSPORE_NOTIFIED;
    (void)snprintf(config_dir->capture_id, sizeof config_dir->capture_id, "%s", arm->capture_id);
    config_dir->pair = pair;
    config_dir->step_count = request->schedule.active;
    config_dir->may_move = arm->may_move;
    config_dir->reported_ns = trigger->realtime();
    config_dir->notified_at = trigger->monotonic();
    config_dir->is_taken = false;
    config_dir->deadline_at = config_dir->notified_at + arm->deadline;
    for (size_t i = 0; i < arm->target_count; i++) {
        struct mindspore_member *member = find_member(trigger, &arm->targets[i]);
        RS_CHECK(member);
        begin_member(member, config_dir, arm->start_step);
    }
    return RS_OK;
}

/* ---- the interface ---------------------------------------------------------------------------------------------------------- */

static int by_run_rank_pid(const void *left, const void *right)
{
    const struct rs_config_rank *a = left;
    const struct rs_config_rank *b = right;
    const int runs = strcmp(a->run, b->run);
    if (runs != 0)
        return runs;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->process.pid > b->process.pid) - (a->process.pid < b->process.pid);
}

static void show(struct mindspore_trigger *trigger)
{
    if (rs_mem_grow((void **)&trigger->table, &trigger->table_capacity, trigger->member_count + 1,
                    sizeof *trigger->table) < 0)
        return;
    for (size_t i = 0; i < trigger->member_count; i++) {
        mindspore_report_step(trigger, &trigger->members[i]);
        trigger->table[i] = trigger->members[i].shown;
    }
    trigger->table_count = trigger->member_count;
    if (trigger->table_count)
        qsort(trigger->table, trigger->table_count, sizeof *trigger->table, by_run_rank_pid);
}

static void look_around(struct mindspore_trigger *trigger, bool is_now)
{
    const rs_ns now = trigger->monotonic();
    bool is_busy = false;
    for (size_t i = 0; i < trigger->config_dir_count; i++)
        is_busy |= trigger->config_dirs[i].phase != MINDSPORE_FREE;
    if (now >= trigger->scanned_at + (is_now ? check_busy_ns : find_every_ns)) {
        mindspore_find(trigger);
        trigger->scanned_at = now;
        trigger->checked_at = 0;
    }
    if (!trigger->checked_at || (is_busy && now >= trigger->checked_at + check_busy_ns)) {
        mindspore_check_health(trigger);
        trigger->checked_at = now;
    }
}

static void mindspore_tick(struct rs_config_trigger *base)
{
    struct mindspore_trigger *trigger = of(base);
    look_around(trigger, false);
    for (size_t i = 0; i < trigger->config_dir_count; i++) {
        if (trigger->config_dirs[i].phase == MINDSPORE_NOTIFIED)
            mindspore_tick_notified(trigger, &trigger->config_dirs[i]);
        else if (trigger->config_dirs[i].phase == MINDSPORE_LEAVING)
            mindspore_tick_leaving(trigger, &trigger->config_dirs[i]);
    }
    show(trigger);
}

static const struct rs_config_rank *mindspore_ranks(const struct rs_config_trigger *base,
                                                    size_t *count_p)
{
    const struct mindspore_trigger *trigger = (const struct mindspore_trigger *)base;
    *count_p = trigger->table_count;
    return trigger->table;
}

static enum rs_status mindspore_arm(struct rs_config_trigger *base, const struct rs_config_arm *arm,
                                    struct rs_err *err)
{
    struct mindspore_trigger *trigger = of(base);
    struct mindspore_config_dir *config_dir = NULL;
    look_around(trigger, true);
    enum rs_status status = check_targets(trigger, arm, &config_dir, err);
    if (status == RS_OK)
        status = check_others(trigger, config_dir, arm, err);
    if (status == RS_OK)
        status = arm_checked(trigger, config_dir, arm, err);
    show(trigger);
    return status;
}

static enum rs_status mindspore_probe(struct rs_config_trigger *base,
                                      const struct rs_config_target *target, struct rs_err *err)
{
    (void)base;
    (void)target;
    return rs_err_set(
        err, RS_REFUSED,
        "a job of MindSpore does not report it before a first capture has: its training "
        "log may");
}

static enum rs_status mindspore_cancel(struct rs_config_trigger *base, const char *capture_id,
                                       struct rs_err *err)
{
    struct mindspore_trigger *trigger = of(base);
    struct mindspore_config_dir *config_dir = NULL;
    for (size_t i = 0; i < trigger->config_dir_count; i++)
        if (trigger->config_dirs[i].phase == MINDSPORE_NOTIFIED &&
            strcmp(trigger->config_dirs[i].capture_id, capture_id) == 0)
            config_dir = &trigger->config_dirs[i];
    (void)err;
    if (!config_dir)
        return RS_OK;                             /* nothing was written for it */
    mindspore_tick_notified(trigger, config_dir); /* who has begun by now? */
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct mindspore_member *member = &trigger->members[i];
        if (mindspore_is_of(trigger, member, config_dir) && mindspore_is_under_way(member) &&
            member->shown.state == RS_CONFIG_STATE_RECORDING) {
            show(trigger);
            return RS_AGAIN;
        }
    }
    for (size_t i = 0; i < trigger->member_count; i++) {
        struct mindspore_member *member = &trigger->members[i];
        if (mindspore_is_of(trigger, member, config_dir) && mindspore_is_under_way(member))
            member->shown.state = RS_CONFIG_STATE_IDLE;
    }
    if (config_dir->phase == MINDSPORE_NOTIFIED)
        mindspore_leave(trigger, config_dir);
    show(trigger);
    return RS_OK;
}

static void mindspore_release(struct rs_config_trigger *base, const struct rs_config_target *target)
{
    struct mindspore_trigger *trigger = of(base);
    struct mindspore_member *member = find_member(trigger, target);
    if (!member || (member->shown.state != RS_CONFIG_STATE_WRITTEN &&
                    member->shown.state != RS_CONFIG_STATE_FAILED))
        return;
    member->shown.state = RS_CONFIG_STATE_IDLE;
    show(trigger);
}

static void mindspore_close(struct rs_config_trigger *base)
{
    struct mindspore_trigger *trigger = of(base);
    /* Who records goes on to his end; who does not, does not begin. */
    for (size_t i = 0; i < trigger->config_dir_count; i++)
        if (trigger->config_dirs[i].phase == MINDSPORE_NOTIFIED)
            mindspore_leave(trigger, &trigger->config_dirs[i]);
    for (size_t i = 0; i < trigger->member_count; i++)
        rs_process_release(&trigger->members[i].hold);
    for (size_t i = 0; i < trigger->config_dir_count; i++) {
        rs_buf_fini(&trigger->config_dirs[i].original);
        rs_buf_fini(&trigger->config_dirs[i].written);
    }
    for (size_t i = 0; i < trigger->dir_count; i++)
        rs_mem_free(trigger->dirs[i]);
    rs_config_scan_free(&trigger->scan);
    rs_mem_free(trigger->dirs);
    rs_mem_free(trigger->result_root);
    rs_mem_free(trigger->members);
    rs_mem_free(trigger->helpers);
    rs_mem_free(trigger->blocks);
    rs_mem_free(trigger->config_dirs);
    rs_mem_free(trigger->table);
    rs_mem_free(trigger);
}

static const struct rs_config_trigger_ops mindspore_ops = {
    .name = "MindSpore",
    .selects_ranks = false,
    .tick = mindspore_tick,
    .ranks = mindspore_ranks,
    .arm = mindspore_arm,
    .probe = mindspore_probe,
    .cancel = mindspore_cancel,
    .release = mindspore_release,
    .close = mindspore_close,
};

static enum rs_status copy_dirs(struct mindspore_trigger *trigger,
                                const struct rs_config_trigger_options *options)
{
    trigger->dirs = rs_mem_calloc(options->dir_count + 1, sizeof *trigger->dirs);
    if (!trigger->dirs)
        return RS_NOMEM;
    for (size_t i = 0; i < options->dir_count; i++) {
        char *real = realpath(options->dirs[i], NULL); /* as MindSpore does */
        trigger->dirs[i] = rs_mem_strdup(real ? real : options->dirs[i]);
        free(real);
        if (!trigger->dirs[i])
            return RS_NOMEM;
        trigger->dir_count++;
    }
    return RS_OK;
}

enum rs_status rs_mindspore_trigger_open(const struct rs_config_trigger_options *options,
                                         struct rs_config_trigger **trigger_p, struct rs_err *err)
{
    enum rs_mindspore_way way = RS_MINDSPORE_WAY_UNKNOWN;
    if (options->way && !rs_mindspore_way_from_text(options->way, &way))
        return rs_err_set(err, RS_INVALID, "--mindspore-way is step or callback, not \"%s\"",
                          options->way);
    struct mindspore_trigger *trigger = rs_mem_calloc(1, sizeof *trigger);
    if (!trigger)
        return rs_err_set(err, RS_NOMEM, "no memory for the MindSpore trigger");
    trigger->base.ops = &mindspore_ops;
    trigger->way = way;
    trigger->monotonic = options->monotonic ? options->monotonic : rs_time_monotonic;
    trigger->realtime = options->realtime ? options->realtime : rs_time_realtime;
    trigger->scan = rs_config_scan_new();
    trigger->result_root = rs_mem_strdup(options->result_root);
    trigger->scanned_at = -find_every_ns;
    if (!trigger->scan || !trigger->result_root || copy_dirs(trigger, options) < 0) {
        mindspore_close(&trigger->base);
        return rs_err_set(err, RS_NOMEM, "no memory for the MindSpore trigger");
    }
    *trigger_p = &trigger->base;
    return RS_OK;
}
