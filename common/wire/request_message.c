/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that are plain numbers or switches stand in one list each, which both ways read; texts, lists
 * and what may be unsaid are written out.
 */
#include "common/wire/request_message.h"

#include "common/base/lend.h"
#include "common/base/mem.h"

#include <string.h>

/* clang-format off */
#define REQUEST_SCALARS(X) \
    X(is_rank) X(start_step) X(start_time_ns) X(duration_ms) X(activities) X(record_shapes) \
    X(with_stack) X(with_modules) X(with_flops) X(profile_memory) X(sample_hz) \
    X(timeline_limit_mb) X(analyse) X(async_mode) X(aggregate) X(use_gzip) X(pretty) \
    X(max_duration_s) X(headroom_factor) X(force) X(roundup) X(timeout_ms)
#define REQUEST_ENUMS(X) X(dialect, enum rs_dialect) X(origin, enum rs_origin) X(on_busy, enum rs_on_busy)
#define REQUEST_TEXTS(X) X(capture_id) X(job_id) X(ranks) X(prof_dir) X(spool_dir) X(worker_name)
#define SCHEDULE_SCALARS(X) X(wait) X(active) X(repeat) X(skip_first)
#define EXPERIMENTAL_SCALARS(X) \
    X(export_type) X(l2_cache) X(op_attr) X(record_op_args) X(sys_io) X(sys_interconnection) \
    X(data_simplification) X(mstx) X(host_sys)
#define EXPERIMENTAL_ENUMS(X) X(profiler_level, enum rs_profiler_level) X(aic_metrics, enum rs_aic_metrics)
#define MINDSPORE_SCALARS(X) \
    X(op_time) X(profile_communication) X(aicore_metrics) X(parallel_strategy) X(data_process) \
    X(start_profile) X(sync_enable) X(analyse_mode)
#define MINDSPORE_ENUMS(X) X(profile_framework, enum rs_profile_framework)
/* clang-format on */

/* All that a message consists of, in one piece but for the pairs. */
struct whole_message {
    Rankscope__CaptureRequest base; /* first */
    Rankscope__RequestSchedule schedule;
    Rankscope__RequestExperimental experimental;
    Rankscope__RequestMindspore mindspore;
    Rankscope__MaybeUint warmup, max_step;
    Rankscope__MaybeDouble gc;
    struct {
        Rankscope__RequestPair *items;
        Rankscope__RequestPair **pointers;
    } extra, metadata;
};

/* ---- to ------------------------------------------------------------------------------------------------ */

static bool lend_pairs(const struct rs_request_pairs *pairs, Rankscope__RequestPair **items_p,
                       Rankscope__RequestPair ***pointers_p)
{
    *items_p = rs_mem_calloc(pairs->count ? pairs->count : 1, sizeof **items_p);
    *pointers_p = rs_mem_calloc(pairs->count ? pairs->count : 1, sizeof(Rankscope__RequestPair *));
    if (!*items_p || !*pointers_p)
        return false;
    for (size_t i = 0; i < pairs->count; i++) {
        Rankscope__RequestPair *item = &(*items_p)[i];
        rankscope__request_pair__init(item);
        item->key = rs_lend(pairs->items[i].key);
        item->value = rs_lend(pairs->items[i].value);
        (*pointers_p)[i] = item;
    }
    return true;
}

static void fill_schedule(const struct rs_request_schedule *from, struct whole_message *whole)
{
    Rankscope__RequestSchedule *to = &whole->schedule;
    rankscope__request_schedule__init(to);
#define X(member) to->member = from->member;
    SCHEDULE_SCALARS(X)
#undef X
    rankscope__maybe_uint__init(&whole->warmup);
    whole->warmup.value = from->warmup.value;
    to->warmup = from->warmup.is_set ? &whole->warmup : NULL;
    whole->base.schedule = to;
}

static void fill_experimental(const struct rs_request_experimental *from,
                              struct whole_message *whole)
{
    Rankscope__RequestExperimental *to = &whole->experimental;
    rankscope__request_experimental__init(to);
#define X(member) to->member = from->member;
    EXPERIMENTAL_SCALARS(X)
#undef X
#define X(member, type) to->member = (uint32_t)from->member;
    EXPERIMENTAL_ENUMS(X)
#undef X
    rankscope__maybe_double__init(&whole->gc);
    whole->gc.value = from->gc_detect_threshold_ms.value;
    to->gc_detect_threshold_ms = from->gc_detect_threshold_ms.is_set ? &whole->gc : NULL;
    to->n_mstx_domain_include = from->mstx_domain_include.count;
    to->mstx_domain_include = from->mstx_domain_include.items;
    to->n_mstx_domain_exclude = from->mstx_domain_exclude.count;
    to->mstx_domain_exclude = from->mstx_domain_exclude.items;
    to->n_extra = from->extra.count;
    to->extra = whole->extra.pointers;
    whole->base.experimental = to;
}

static void fill_mindspore(const struct rs_request_mindspore *from, struct whole_message *whole)
{
    Rankscope__RequestMindspore *to = &whole->mindspore;
    rankscope__request_mindspore__init(to);
#define X(member) to->member = from->member;
    MINDSPORE_SCALARS(X)
#undef X
#define X(member, type) to->member = (uint32_t)from->member;
    MINDSPORE_ENUMS(X)
#undef X
    whole->base.mindspore = to;
}

static void fill_request(const struct rs_capture_request *from, struct whole_message *whole)
{
    Rankscope__CaptureRequest *to = &whole->base;
    rankscope__capture_request__init(to);
#define X(member) to->member = from->member;
    REQUEST_SCALARS(X)
#undef X
#define X(member, type) to->member = (uint32_t)from->member;
    REQUEST_ENUMS(X)
#undef X
#define X(member) to->member = rs_lend(from->member);
    REQUEST_TEXTS(X)
#undef X
    to->n_rank_list = from->rank_list.count;
    to->rank_list = from->rank_list.items;
    rankscope__maybe_uint__init(&whole->max_step);
    whole->max_step.value = from->max_step.value;
    to->max_step = from->max_step.is_set ? &whole->max_step : NULL;
    to->n_metadata = from->metadata.count;
    to->metadata = whole->metadata.pointers;
    to->n_env_allow = from->env_allow.count;
    to->env_allow = from->env_allow.items;
    fill_schedule(&from->schedule, whole);
    fill_experimental(&from->experimental, whole);
    fill_mindspore(&from->mindspore, whole);
}

enum rs_status rs_request_to_message(const struct rs_capture_request *request,
                                     Rankscope__CaptureRequest **message_p, struct rs_err *err)
{
    struct whole_message *whole = rs_mem_calloc(1, sizeof *whole);
    *message_p = NULL;
    if (!whole ||
        !lend_pairs(&request->experimental.extra, &whole->extra.items, &whole->extra.pointers) ||
        !lend_pairs(&request->metadata, &whole->metadata.items, &whole->metadata.pointers)) {
        Rankscope__CaptureRequest *failed = whole ? &whole->base : NULL;
        rs_request_message_free(&failed);
        return rs_err_set(err, RS_NOMEM, "no memory for a request");
    }
    fill_request(request, whole);
    *message_p = &whole->base;
    return RS_OK;
}

void rs_request_message_free(Rankscope__CaptureRequest **message_p)
{
    /* The message is the first member of the whole. */
    struct whole_message *whole = (void *)*message_p;
    *message_p = NULL;
    if (!whole)
        return;
    rs_mem_free(whole->extra.items);
    rs_mem_free(whole->extra.pointers);
    rs_mem_free(whole->metadata.items);
    rs_mem_free(whole->metadata.pointers);
    rs_mem_free(whole);
}

/* ---- from ---------------------------------------------------------------------------------------------- */

/* What goes wrong on the way; the first one counts. */
struct taking {
    enum rs_status status;
    struct rs_err *err;
};

static bool may_take(struct taking *taking, size_t count, size_t limit, const char *what)
{
    if (taking->status == RS_OK && count > limit)
        taking->status = rs_err_set(taking->err, RS_INVALID, "%s is longer than %zu", what, limit);
    return taking->status == RS_OK;
}

static void *take_memory(struct taking *taking, void *memory)
{
    if (!memory)
        taking->status = rs_err_set(taking->err, RS_NOMEM, "no memory for a request");
    return memory;
}

static void take_text(struct taking *taking, const char *from, char *to, size_t bytes,
                      const char *what)
{
    const size_t length = strnlen(from, bytes);
    if (may_take(taking, length, bytes - 1, what))
        memcpy(to, from, length + 1);
}

static void take_texts(struct taking *taking, char *const *from, size_t count,
                       struct rs_request_texts *to, const char *what)
{
    if (!may_take(taking, count, RS_REQUEST_LIST_MAX, what) || !count)
        return;
    to->items = take_memory(taking, rs_mem_calloc(count, sizeof(char *)));
    to->capacity = to->items ? count : 0;
    while (to->count < to->capacity) {
        char *copy = take_memory(taking, rs_mem_strdup(from[to->count]));
        if (!copy)
            return;
        to->items[to->count++] = copy;
    }
}

static void take_pairs(struct taking *taking, Rankscope__RequestPair *const *from, size_t count,
                       struct rs_request_pairs *to, const char *what)
{
    if (!may_take(taking, count, RS_REQUEST_LIST_MAX, what) || !count)
        return;
    to->items = take_memory(taking, rs_mem_calloc(count, sizeof *to->items));
    to->capacity = to->items ? count : 0;
    while (to->count < to->capacity) {
        /* Counted before it is whole: rs_request_fini() frees what there is. */
        struct rs_request_pair *pair = &to->items[to->count++];
        pair->key = take_memory(taking, rs_mem_strdup(from[to->count - 1]->key));
        pair->value = take_memory(taking, rs_mem_strdup(from[to->count - 1]->value));
        if (!pair->key || !pair->value)
            return;
    }
}

static void take_ranks(struct taking *taking, const uint32_t *from, size_t count,
                       struct rs_request_ranks *to)
{
    if (!may_take(taking, count, RS_RANK_MAX, "rank_list") || !count)
        return;
    to->items = take_memory(taking, rs_mem_calloc(count, sizeof *to->items));
    if (!to->items)
        return;
    memcpy(to->items, from, count * sizeof *from);
    to->count = to->capacity = count;
}

static void take_schedule(struct taking *taking, const Rankscope__RequestSchedule *from,
                          struct rs_request_schedule *to)
{
    if (from->warmup && may_take(taking, from->warmup->value, UINT32_MAX, "schedule.warmup"))
        to->warmup =
            (struct rs_optional_u32){.is_set = true, .value = (uint32_t)from->warmup->value};
#define X(member) to->member = from->member;
    SCHEDULE_SCALARS(X)
#undef X
}

static void take_experimental(struct taking *taking, const Rankscope__RequestExperimental *from,
                              struct rs_request_experimental *to)
{
#define X(member) to->member = from->member;
    EXPERIMENTAL_SCALARS(X)
#undef X
#define X(member, type) to->member = (type)from->member;
    EXPERIMENTAL_ENUMS(X)
#undef X
    if (from->gc_detect_threshold_ms)
        to->gc_detect_threshold_ms = (struct rs_optional_double){
            .is_set = true, .value = from->gc_detect_threshold_ms->value};
    take_texts(taking, from->mstx_domain_include, from->n_mstx_domain_include,
               &to->mstx_domain_include, "mstx_domain_include");
    take_texts(taking, from->mstx_domain_exclude, from->n_mstx_domain_exclude,
               &to->mstx_domain_exclude, "mstx_domain_exclude");
    take_pairs(taking, from->extra, from->n_extra, &to->extra, "experimental.extra");
}

static void take_mindspore(const Rankscope__RequestMindspore *from, struct rs_request_mindspore *to)
{
#define X(member) to->member = from->member;
    MINDSPORE_SCALARS(X)
#undef X
#define X(member, type) to->member = (type)from->member;
    MINDSPORE_ENUMS(X)
#undef X
}

static void take_request(struct taking *taking, const Rankscope__CaptureRequest *from,
                         struct rs_capture_request *to)
{
#define X(member) to->member = from->member;
    REQUEST_SCALARS(X)
#undef X
#define X(member, type) to->member = (type)from->member;
    REQUEST_ENUMS(X)
#undef X
#define X(member) take_text(taking, from->member, to->member, sizeof to->member, #member);
    REQUEST_TEXTS(X)
#undef X
    if (from->max_step)
        to->max_step = (struct rs_optional_u64){.is_set = true, .value = from->max_step->value};
    take_ranks(taking, from->rank_list, from->n_rank_list, &to->rank_list);
    take_pairs(taking, from->metadata, from->n_metadata, &to->metadata, "metadata");
    take_texts(taking, from->env_allow, from->n_env_allow, &to->env_allow, "env_allow");
}

enum rs_status rs_request_from_message(const Rankscope__CaptureRequest *message,
                                       struct rs_capture_request *request, struct rs_err *err)
{
    struct taking taking = {.status = RS_OK, .err = err};
    memset(request, 0, sizeof *request);
    if (!message->schedule || !message->experimental || !message->mindspore)
        return rs_err_set(err, RS_INVALID, "a request without its parts");
    take_request(&taking, message, request);
    take_schedule(&taking, message->schedule, &request->schedule);
    take_experimental(&taking, message->experimental, &request->experimental);
    take_mindspore(message->mindspore, &request->mindspore);
    if (taking.status == RS_OK)
        taking.status = rs_request_is_sound(request, err);
    if (taking.status < 0)
        rs_request_fini(request);
    return taking.status;
}
