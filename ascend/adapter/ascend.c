/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/adapter/ascend_priv.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROBES = 2 };

static struct trigger *own(struct rs_config_trigger *base)
{
    return (struct trigger *)(void *)base;
}

static const struct trigger *own_const(const struct rs_config_trigger *base)
{
    return (const struct trigger *)(const void *)base;
}

static struct member *find_member(const struct trigger *trigger,
                                  const struct rs_config_target *target)
{
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct rs_process *process = &trigger->members[i]->shown.process;
        if (process->pid == target->pid && process->start_ticks == target->start_ticks)
            return trigger->members[i];
    }
    return NULL;
}

/* ---- the table ------------------------------------------------------------------------------------------------ */

static int by_rank(const void *left, const void *right)
{
    const struct rs_config_rank *a = left;
    const struct rs_config_rank *b = right;
    const int order = strcmp(a->run, b->run);
    if (order)
        return order;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->process.pid > b->process.pid) - (a->process.pid < b->process.pid);
}

static void refresh(struct trigger *trigger)
{
    trigger->shown_count = 0;
    if (rs_mem_grow((void **)&trigger->shown, &trigger->shown_capacity, trigger->member_count + 1,
                    sizeof *trigger->shown) < 0)
        return;
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct member *member = trigger->members[i];
        struct rs_config_rank *shown = &trigger->shown[trigger->shown_count++];
        *shown = member->shown;
        shown->poll_period = member->config_dir->poll;
        shown->is_busy = member->is_profiling && member->phase != MEMBER_BEGAN;
        shown->step = member->config_dir->step;
        shown->step_at = member->config_dir->step_at;
        shown->step_ns = member->config_dir->step_ns;
    }
    if (trigger->shown_count)
        qsort(trigger->shown, trigger->shown_count, sizeof *trigger->shown, by_rank);
}

/* Those that are gone and were told so. */
static void forget(struct trigger *trigger)
{
    size_t kept = 0;
    for (size_t i = 0; i < trigger->member_count; i++) {
        struct member *member = trigger->members[i];
        if (member->shown.is_gone && !member->notice && member->shown.state == RS_CONFIG_STATE_IDLE)
            npu_member_free(member);
        else
            trigger->members[kept++] = member;
    }
    trigger->member_count = kept;
}

static void ascend_tick(struct rs_config_trigger *base)
{
    struct trigger *trigger = own(base);
    npu_find(trigger);
    npu_listen(trigger);
    npu_check_health(trigger, false);
    npu_move(trigger);
    forget(trigger);
    refresh(trigger);
}

static const struct rs_config_rank *ascend_ranks(const struct rs_config_trigger *base,
                                                 size_t *count_p)
{
    *count_p = own_const(base)->shown_count;
    return own_const(base)->shown;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static enum rs_status check_free(const struct trigger *trigger, const struct member *member,
                                 struct rs_err *err)
{
    const struct rs_config_rank *shown = &member->shown;
    if (shown->is_gone)
        return rs_err_set(err, RS_NOTFOUND, "its process has ended");
    if (shown->is_unresponsive)
        return rs_err_set(err, RS_REFUSED, "%s", shown->unresponsive_because);
    if (!member->is_up)
        return rs_err_set(err, RS_REFUSED, "its profiler has not started to listen yet");
    if (shown->state != RS_CONFIG_STATE_IDLE)
        return rs_err_set(err, RS_REFUSED, "it records for capture %s already", shown->capture_id);
    if (member->is_profiling && !member->notice)
        return rs_err_set(err, RS_REFUSED, "it is busy with a profile of its own");
    if (member->notice || npu_outstanding(trigger))
        return rs_err_set(err, RS_EXISTS, "another profiler_config.json waits to be taken");
    return RS_OK;
}

static enum rs_status fill_notice(struct trigger *trigger, struct notice *notice,
                                  const struct rs_config_arm *arm, struct rs_err *err)
{
    char note[RS_CONFIG_WHY_BYTES];
    npu_config_dir_note(trigger, notice->config_dir, note, sizeof note);
    for (size_t i = 0; i < arm->target_count; i++) {
        struct member *member = find_member(trigger, &arm->targets[i]);
        RS_CHECK(member); /* check_targets() has seen it, and nothing was forgotten since */
        if (i == 0)
            rs_user_of_process(member->shown.process.pid, member->shown.process.uid,
                               &notice->owner);
        notice->is_everybody |= member->has_no_rank;
        /* The file has one folder for all: that of the user they share. */
        const enum rs_status status = rs_config_result_folder(
            trigger->result_root, arm->capture_id, &member->shown.process, notice->result, err);
        if (status < 0)
            return status;
        npu_notice_add(notice, member);
        member->shown.parses = rs_request_parses(arm->request);
        (void)snprintf(member->shown.note, sizeof member->shown.note, "%s", note);
    }
    const enum rs_status status =
        npu_text(arm->request, arm->capture_id, notice->result, &notice->text, err);
    return status == RS_OK ? npu_write(trigger, notice, err) : status;
}

static enum rs_status check_targets(struct trigger *trigger, const struct rs_config_arm *arm,
                                    struct rs_err *err)
{
    const struct member *first = find_member(trigger, &arm->targets[0]);
    for (size_t i = 0; i < arm->target_count; i++) {
        const struct member *member = find_member(trigger, &arm->targets[i]);
        if (!member)
            return rs_err_set(err, RS_NOTFOUND, "its process is not there any more");
        const enum rs_status status = check_free(trigger, member, err);
        if (status < 0)
            return status;
        if (member->config_dir != first->config_dir)
            return rs_err_set(
                err, RS_INVALID,
                "ranks of one capture listen to %.200s and to %.200s: they are notified "
                "one folder at a time",
                first->config_dir->dir, member->config_dir->dir);
        if (member->shown.process.uid != first->shown.process.uid)
            return rs_err_set(err, RS_INVALID, "ranks of one file belong to two users");
    }
    return RS_OK;
}

static enum rs_status ascend_arm(struct rs_config_trigger *base, const struct rs_config_arm *arm,
                                 struct rs_err *err)
{
    struct trigger *trigger = own(base);
    npu_listen(trigger); /* lines of before do not answer this file */
    npu_check_health(trigger, true);
    enum rs_status status = check_targets(trigger, arm, err);
    if (status < 0)
        return status;
    const struct member *first = find_member(trigger, &arm->targets[0]);
    RS_CHECK(first);
    struct notice *notice =
        npu_notice_new(trigger, NOTICE_CAPTURE, arm->capture_id, first->config_dir);
    if (!notice)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    notice->start_step = arm->start_step;
    notice->may_move = arm->may_move;
    notice->deadline = trigger->monotonic() + arm->deadline;
    status = fill_notice(trigger, notice, arm, err);
    if (status < 0) {
        for (size_t i = 0; i < arm->target_count; i++) {
            struct member *member = find_member(trigger, &arm->targets[i]);
            RS_CHECK(member);
            member->shown.state = RS_CONFIG_STATE_IDLE;
        }
        npu_notice_free(trigger, notice);
    }
    refresh(trigger);
    return status;
}

static enum rs_status ascend_probe(struct rs_config_trigger *base,
                                   const struct rs_config_target *target, struct rs_err *err)
{
    struct trigger *trigger = own(base);
    struct member *member = find_member(trigger, target);
    if (!member)
        return rs_err_set(err, RS_NOTFOUND, "its process is not there any more");
    npu_listen(trigger);
    npu_check_health(trigger, true);
    enum rs_status status = check_free(trigger, member, err);
    if (status < 0)
        return status;
    member->probes_left = PROBES - 1;
    member->shown.why[0] = '\0';
    status = npu_ask_step(trigger, member, err);
    refresh(trigger);
    return status;
}

static enum rs_status ascend_cancel(struct rs_config_trigger *base, const char *capture_id,
                                    struct rs_err *err)
{
    struct trigger *trigger = own(base);
    enum rs_status status = RS_OK;
    (void)err;
    npu_listen(trigger);
    for (size_t i = 0; i < trigger->member_count; i++) {
        struct member *member = trigger->members[i];
        if (!member->notice || member->notice->kind != NOTICE_CAPTURE ||
            strcmp(member->notice->id, capture_id) != 0)
            continue;
        if (member->phase == MEMBER_NOTIFIED || member->phase == MEMBER_TAKEN)
            member->shown.state = RS_CONFIG_STATE_IDLE;
        else
            status = RS_AGAIN;
    }
    for (struct notice *notice = trigger->notices; notice; notice = notice->next)
        if (notice->kind == NOTICE_CAPTURE && strcmp(notice->id, capture_id) == 0)
            npu_call_back(trigger, notice);
    refresh(trigger);
    return status;
}

static void ascend_release(struct rs_config_trigger *base, const struct rs_config_target *target)
{
    struct trigger *trigger = own(base);
    struct member *member = find_member(trigger, target);
    if (!member || (member->shown.state != RS_CONFIG_STATE_WRITTEN &&
                    member->shown.state != RS_CONFIG_STATE_FAILED))
        return;
    member->shown.state = RS_CONFIG_STATE_IDLE;
    member->shown.capture_id[0] = '\0';
    refresh(trigger);
}

/* ---- life ----------------------------------------------------------------------------------------------------------- */

static void ascend_close(struct rs_config_trigger *base)
{
    struct trigger *trigger = own(base);
    while (trigger->notices)
        npu_notice_free(trigger, trigger->notices);
    for (size_t i = 0; i < trigger->member_count; i++)
        npu_member_free(trigger->members[i]);
    for (size_t i = 0; i < trigger->config_dir_count; i++)
        rs_mem_free(trigger->config_dirs[i]);
    for (size_t i = 0; i < trigger->monitor_count; i++)
        rs_process_release(&trigger->monitors[i].hold);
    for (size_t i = 0; i < trigger->dir_count; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as many as are counted */
        rs_mem_free(trigger->dirs[i]);
    rs_config_scan_free(&trigger->scan);
    rs_mem_free(trigger->members);
    rs_mem_free(trigger->config_dirs);
    rs_mem_free(trigger->monitors);
    rs_mem_free(trigger->dirs);
    rs_mem_free(trigger->shown);
    rs_mem_free(trigger->result_root);
    rs_mem_free(trigger);
}

static const struct rs_config_trigger_ops ascend_ops = {.name = "torch_npu",
                                                        .selects_ranks = true,
                                                        .tick = ascend_tick,
                                                        .ranks = ascend_ranks,
                                                        .arm = ascend_arm,
                                                        .probe = ascend_probe,
                                                        .cancel = ascend_cancel,
                                                        .release = ascend_release,
                                                        .close = ascend_close};

enum rs_status rs_ascend_trigger_open(const struct rs_config_trigger_options *options,
                                      struct rs_config_trigger **trigger_p, struct rs_err *err)
{
    struct trigger *trigger = rs_mem_calloc(1, sizeof *trigger);
    if (!trigger)
        return rs_err_set(err, RS_NOMEM, "no memory for the torch_npu trigger");
    trigger->base.ops = &ascend_ops;
    trigger->monotonic = options->monotonic ? options->monotonic : rs_time_monotonic;
    trigger->realtime = options->realtime ? options->realtime : rs_time_realtime;
    trigger->scan = rs_config_scan_new();
    trigger->result_root = rs_mem_strdup(options->result_root);
    trigger->dirs = rs_mem_calloc(options->dir_count + 1, sizeof *trigger->dirs);
    bool is_whole = trigger->scan && trigger->result_root && trigger->dirs;
    for (size_t i = 0; is_whole && i < options->dir_count; i++) {
        trigger->dirs[i] = rs_mem_strdup(options->dirs[i]);
        is_whole = trigger->dirs[i] != NULL;
        trigger->dir_count += is_whole;
    }
    if (!is_whole) {
        ascend_close(&trigger->base);
        return rs_err_set(err, RS_NOMEM, "no memory for the torch_npu trigger");
    }
    *trigger_p = &trigger->base;
    return RS_OK;
}
