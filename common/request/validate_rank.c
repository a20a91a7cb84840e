/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of one rank: what it can be reported, whether it is free, whether the step is still ahead, whether there is room.
 */
#include "common/request/validate_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool can(const struct rs_request_rank *rank, enum rs_capability capability)
{
    return (rank->adapter->capabilities & capability) != 0;
}

static void validate_members(const struct validation *j, const struct rs_request_rank *rank,
                             struct rs_request_notes *notes)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct field *field = &request_fields[i];
        /* a recording by the clock has no steps before it */
        const bool is_moot =
            i == F_WARMUP && j->request->duration_ms && can(rank, RS_CAP_WALL_CLOCK);
        if ((rs_adapter_honours(rank->adapter, i) && !is_moot) ||
            field_equal(field, j->request, j->defaults))
            continue;
        note_add(notes, RS_RULE_NOT_HONOURED, i, "%s", rank->adapter->title);
    }
    if (j->request->experimental.host_sys & RS_HOST_SYS_OSRT &&
        adapter_is_sampled_here(rank->adapter))
        note_add(notes, RS_RULE_NOT_HONOURED, F_HOST_SYS,
                 "osrt: system calls are not followed, the others are sampled");
}

static void validate_trigger(const struct validation *j, const struct rs_request_rank *rank,
                             struct rs_request_notes *notes)
{
    const struct rs_capture_request *r = j->request;
    const bool takes_time = can(rank, RS_CAP_DURATION);
    if (r->duration_ms && !takes_time)
        note_add(notes, RS_RULE_NO_DURATION, FIELD_COUNT, "%s", rank->adapter->title);
    if (r->start_time_ns && !takes_time)
        note_add(notes, RS_RULE_NO_START_TIME, FIELD_COUNT, "%s", rank->adapter->title);
    if (!rank->is_busy)
        return;
    if (r->on_busy == RS_ON_BUSY_REFUSE)
        note_add(notes, RS_RULE_BUSY, FIELD_COUNT, NO_DETAIL);
    else if (rank->has_pending && (r->origin != RS_ORIGIN_CONFIG_FILE || rank->is_pending_other))
        note_add(notes, RS_RULE_QUEUE_FULL, FIELD_COUNT, NO_DETAIL);
    else
        note_add(notes, rank->has_pending ? RS_RULE_REPLACES : RS_RULE_QUEUED, FIELD_COUNT,
                 NO_DETAIL);
}

static void validate_step(const struct validation *j, const struct rs_request_rank *rank,
                          struct rs_request_notes *notes)
{
    const struct rs_capture_request *r = j->request;
    const int64_t start = r->start_step;
    if (start > 0 && !rank->is_step_known)
        note_add(notes, RS_RULE_STEP_UNKNOWN, FIELD_COUNT, NO_DETAIL);
    if (!rank->is_step_known)
        return;
    if (start > 0 && start <= rank->step)
        note_add(notes, RS_RULE_START_PASSED, FIELD_COUNT,
                 "start_step=%" PRId64 ", current_step=%" PRId64, start, rank->step);
    /* of a start that was asked for, the request's own rules speak */
    if (start != -1 || !r->max_step.is_set || r->duration_ms)
        return;
    const uint64_t first = (uint64_t)rank->step + 1, last = r->max_step.value;
    if (first > last || schedule_steps(&r->schedule) > last - first + 1)
        note_add(notes, RS_RULE_ENDS_EARLY, FIELD_COUNT,
                 "%" PRIu64 " steps from %" PRIu64 " on, max_step=%" PRIu64,
                 schedule_steps(&r->schedule), first, last);
}

static void validate_activities(const struct validation *j, const struct rs_request_rank *rank,
                                struct rs_request_notes *notes)
{
    const uint32_t wanted = j->request->activities;
    const uint32_t missing = rank->activities ? wanted & ~rank->activities : 0;
    char text[128];
    if (!missing)
        return;
    rs_request_activity_names(missing, text, sizeof text);
    note_add(notes, missing == wanted ? RS_RULE_NO_ACTIVITY : RS_RULE_ACTIVITY_MISSING, FIELD_COUNT,
             "%s", text);
}

static void validate_device(const struct validation *j, const struct rs_request_rank *rank,
                            struct rs_request_notes *notes)
{
    const bool is_old = rank->glibc_major && (rank->glibc_major < 2 ||
                                              (rank->glibc_major == 2 && rank->glibc_minor < 34));
    if (j->request->profile_memory && is_old)
        note_add(notes, RS_RULE_GLIBC, FIELD_COUNT, "found %u.%u", rank->glibc_major,
                 rank->glibc_minor);
}

/* Its file names the ranks whenever we write it: parsing goes on beside the training then, or not at all. */
static void validate_parsing(const struct validation *j, const struct rs_request_rank *rank,
                             struct rs_request_notes *notes)
{
    const struct rs_capture_request *r = j->request;
    if (!adapter_is_torch_npus(rank->adapter))
        return;
    if (r->analyse && !rs_request_parses(r))
        note_add(notes, RS_RULE_ANALYSE_IS_RANK, FIELD_COUNT, NO_DETAIL);
    else if (r->analyse && !r->async_mode && r->origin != RS_ORIGIN_CLI)
        note_add(notes, RS_RULE_PARSES_BESIDE, FIELD_COUNT, NO_DETAIL);
    else if (!r->analyse && r->origin == RS_ORIGIN_API) /* where it is on by default */
        note_add(notes, RS_RULE_NOT_HONOURED, F_ANALYSE, "what is not parsed cannot be read");
}

static void validate_mindspore(const struct validation *j, const struct rs_request_rank *rank,
                               struct rs_request_notes *notes)
{
    const struct rs_capture_request *r = j->request;
    if (can(rank, RS_CAP_WHOLE_JOB) && j->is_subset)
        note_add(notes, RS_RULE_MS_SUBSET, FIELD_COUNT, NO_DETAIL);
    if (!can(rank, RS_CAP_NO_REPEAT))
        return;
    if (r->start_step == -1)
        note_add(notes, RS_RULE_MS_NO_STEP, FIELD_COUNT, NO_DETAIL);
    if (r->start_step > 0 && r->start_step == rank->last_start &&
        r->start_step + r->schedule.active - 1 == rank->last_stop)
        note_add(notes, RS_RULE_MS_SAME_PAIR, FIELD_COUNT, "%" PRId64 " to %" PRId64,
                 rank->last_start, rank->last_stop);
}

/* `free` known and below `times` x estimated: no overflow whatever they are. */
static bool is_below(int64_t free, int64_t estimated, uint32_t times)
{
    return free > 0 && estimated > 0 && free / times < estimated;
}

static void validate_room(const struct validation *j, const struct rs_request_rank *rank,
                          struct rs_request_notes *notes)
{
    const struct rs_capture_request *r = j->request;
    const uint32_t factor = r->headroom_factor ? r->headroom_factor : 1;
    const bool is_disk_low = is_below(rank->free_disk_bytes, rank->estimated_bytes, factor);
    const bool is_memory_low = is_below(rank->free_memory_bytes, rank->estimated_bytes, factor);
    if (is_disk_low)
        note_add(notes, RS_RULE_HEADROOM_DISK, FIELD_COUNT,
                 "%" PRId64 " bytes free, %" PRId64 " estimated, factor %" PRIu32,
                 rank->free_disk_bytes, rank->estimated_bytes, factor);
    if (is_memory_low)
        note_add(notes, RS_RULE_HEADROOM_MEMORY, FIELD_COUNT,
                 "%" PRId64 " bytes free, %" PRId64 " estimated, factor %" PRIu32,
                 rank->free_memory_bytes, rank->estimated_bytes, factor);
    if (is_below(rank->free_disk_bytes, rank->estimated_bytes, 2))
        note_add(notes, RS_RULE_HEADROOM_NONE, FIELD_COUNT,
                 "%" PRId64 " bytes free, %" PRId64 " estimated", rank->free_disk_bytes,
                 rank->estimated_bytes);
}

void validate_rank(const struct validation *validation, const struct rs_request_rank *rank,
                   struct rs_request_notes *notes)
{
    validate_trigger(validation, rank, notes);
    validate_step(validation, rank, notes);
    validate_activities(validation, rank, notes);
    validate_device(validation, rank, notes);
    validate_parsing(validation, rank, notes);
    validate_mindspore(validation, rank, notes);
    validate_room(validation, rank, notes);
    validate_members(validation, rank, notes);
}
