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
}

static void validate_trigger(const struct validation *j, const struct rs_request_rank *rank,
                             struct rs_request_notes *notes)
{
    const struct rs_capture_request *r = j->request;
    const bool takes_time = can(rank, RS_CAP_DURATION);
    if (!rank->can_capture)
        note_add(notes, RS_RULE_CANNOT_CAPTURE, FIELD_COUNT, "%.200s",
                 rank->cannot_why ? rank->cannot_why : "");
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
    if (!rank->last_step || r->duration_ms)
        return;
    const int64_t first = start > 0 ? start : rank->step + 1;
    if (start > 0 && start > rank->last_step)
        note_add(notes, RS_RULE_START_AFTER_LAST, FIELD_COUNT,
                 "start_step=%" PRId64 ", last_step=%" PRId64, start, rank->last_step);
    else if (start != 0 && (first > rank->last_step ||
                            schedule_steps(&r->schedule) > (uint64_t)(rank->last_step - first) + 1))
        note_add(notes, RS_RULE_ENDS_EARLY, FIELD_COUNT,
                 "%" PRIu64 " steps from %" PRId64 " on, last_step=%" PRId64,
                 schedule_steps(&r->schedule), first, rank->last_step);
}

static void list_names(const struct field_names *names, uint32_t bits, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < names->count; i++) {
        if (!(bits & names->items[i].value))
            continue;
        const int wrote =
            snprintf(text + used, size - used, "%s%s", used ? ", " : "", names->items[i].name);
        if (wrote < 0 || used + (size_t)wrote >= size)
            return;
        used += (size_t)wrote;
    }
}

static void validate_activities(const struct validation *j, const struct rs_request_rank *rank,
                                struct rs_request_notes *notes)
{
    const uint32_t wanted = j->request->activities;
    const uint32_t missing = rank->activities ? wanted & ~rank->activities : 0;
    char text[128];
    if (!missing)
        return;
    list_names(request_fields[F_ACTIVITIES].names, missing, text, sizeof text);
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

static void validate_mindspore(const struct validation *j, const struct rs_request_rank *rank,
                               struct rs_request_notes *notes)
{
    const struct rs_capture_request *r = j->request;
    if (r->dialect == RS_DIALECT_MINDSPORE && r->mindspore.profile_communication &&
        rank->world == 1)
        note_add(notes, RS_RULE_COMM_ONE_RANK, FIELD_COUNT, NO_DETAIL);
    if (r->dialect == RS_DIALECT_MINDSPORE && !r->mindspore.sync_enable &&
        rank->platform != RS_PLATFORM_GPU && rank->platform != RS_PLATFORM_UNKNOWN)
        note_add(notes, RS_RULE_SYNC_NOT_GPU, FIELD_COUNT, NO_DETAIL);
    if (r->dialect == RS_DIALECT_MINDSPORE && rank->platform == RS_PLATFORM_GPU) {
        static const size_t ascend_only[] = {F_COMMUNICATION, F_PROFILE_MEMORY, F_AICORE,
                                             F_L2_CACHE};
        for (size_t i = 0; i < sizeof ascend_only / sizeof ascend_only[0]; i++)
            if (!field_equal(&request_fields[ascend_only[i]], r, j->defaults))
                note_add(notes, RS_RULE_ASCEND_ONLY, ascend_only[i], NO_DETAIL);
    }
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
    validate_mindspore(validation, rank, notes);
    validate_room(validation, rank, notes);
    validate_members(validation, rank, notes);
}
