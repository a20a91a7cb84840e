/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parsed row becomes a row of the batch.
 *
 * Names, categories and lanes repeat: each has a small cache in front of the stream's tables.
 */
#include "collector/source/kineto_priv.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <stdlib.h>

/* Nobody records for so long. */
#define FAR_NS (INT64_C(60) * 86400 * 1000000000)

/* What the categories of all generations and backends mean. Those not here are OTHER, with their text. */
static const struct {
    const char *text;
    uint8_t kind;
    bool is_old;
} category_kinds[] = {
    {"cpu_op", RS_KIND_CPU_OP, false},
    {"user_annotation", RS_KIND_USER_ANNOTATION, false},
    {"gpu_user_annotation", RS_KIND_GPU_USER_ANNOTATION, false},
    {"kernel", RS_KIND_KERNEL, false},
    {"gpu_memcpy", RS_KIND_MEMCPY, false},
    {"gpu_memset", RS_KIND_MEMSET, false},
    {"cuda_runtime", RS_KIND_RUNTIME, false},
    {"cuda_driver", RS_KIND_DRIVER, false},
    {"cuda_sync", RS_KIND_SYNC, false},
    {"cuda_event", RS_KIND_DEVICE_EVENT, false},
    {"python_function", RS_KIND_PYTHON, false},
    {"overhead", RS_KIND_OVERHEAD, false},
    {"Trace", RS_KIND_TRACE_SPAN, false},
    {"mtia_ccp_events", RS_KIND_KERNEL, false},
    {"hpu_op", RS_KIND_KERNEL, false},
    {"mtia_runtime", RS_KIND_RUNTIME, false},
    {"xpu_runtime", RS_KIND_RUNTIME, false},
    {"xpu_driver", RS_KIND_DRIVER, false},
    {"xpu_sync", RS_KIND_SYNC, false},
    {"privateuse1_runtime", RS_KIND_RUNTIME, false},
    {"privateuse1_driver", RS_KIND_DRIVER, false},
    {"glow_runtime", RS_KIND_RUNTIME, false},
    {"Operator", RS_KIND_CPU_OP, true},
    {"Kernel", RS_KIND_KERNEL, true},
    {"Memcpy", RS_KIND_MEMCPY, true},
    {"Memset", RS_KIND_MEMSET, true},
    {"Runtime", RS_KIND_RUNTIME, true},
    {"Driver", RS_KIND_DRIVER, true},
};

/* "mlu_kernel", "gcu_memcpy": a device that is not in the table is a device all the same. */
static uint8_t kind_of_foreign_device(struct kineto *kineto, struct kineto_span text)
{
    static const struct {
        const char *tail;
        uint8_t kind;
    } tails[] = {
        {"_kernel", RS_KIND_KERNEL}, {"_memcpy", RS_KIND_MEMCPY}, {"_memset", RS_KIND_MEMSET}};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        const size_t length = strlen(tails[i].tail);
        if (text.length <= length ||
            memcmp(text.text + text.length - length, tails[i].tail, length) != 0)
            continue;
        (void)snprintf(kineto->foreign_device, sizeof kineto->foreign_device, "%.*s",
                       (int)(text.length < 48 ? text.length : 48), text.text);
        return tails[i].kind;
    }
    return RS_KIND_OTHER;
}

static bool kind_is_wanted(uint8_t kind)
{
    return kind != RS_KIND_PYTHON && kind != RS_KIND_DEVICE_EVENT;
}

static enum rs_status describe_category(struct kineto *kineto, struct kineto_category *category,
                                        const char *text, size_t length)
{
    const enum rs_status status =
        rs_strtab_add(&kineto->stream->strings, text, length, &category->id);
    if (status != RS_OK)
        return status;
    category->text = (struct kineto_span){
        .text = rs_strtab_text(&kineto->stream->strings, category->id), .length = length};
    category->kind = RS_KIND_OTHER;
    for (size_t i = 0; i < sizeof category_kinds / sizeof category_kinds[0]; i++) {
        if (span_is(category->text, category_kinds[i].text)) {
            category->kind = category_kinds[i].kind;
            kineto->has_old_names |= category_kinds[i].is_old;
        }
    }
    if (category->kind == RS_KIND_OTHER)
        category->kind = kind_of_foreign_device(kineto, category->text);
    category->is_wanted = kind_is_wanted(category->kind);
    return RS_OK;
}

const struct kineto_category *kineto_category_of(struct kineto *kineto, const char *text,
                                                 size_t length)
{
    for (size_t i = 0; i < kineto->category_count; i++) {
        const struct kineto_category *known = &kineto->categories[i];
        if (known->text.length == length && same_bytes(known->text.text, text, length))
            return known;
    }
    struct kineto_category *category = &kineto->spare_category;
    const bool has_room = kineto->category_count < KINETO_CATEGORIES;
    if (has_room)
        category = &kineto->categories[kineto->category_count];
    if (describe_category(kineto, category, text, length) != RS_OK)
        return NULL;
    kineto->category_count += has_room;
    return category;
}

static inline uint64_t load8(const char *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

/* Three words of the text and its length tell names apart well enough for a cache. The window's padding
 * makes reading past a short text harmless; its bytes are cut off. */
static inline size_t name_slot(const char *text, size_t length)
{
    uint64_t mix;
    if (length < 8) {
        mix = load8(text) << (8 * (8 - length)) | length;
    } else {
        mix = load8(text) * 0x9e3779b97f4a7c15U;
        mix ^= load8(text + length - 8) * 0xc2b2ae3d27d4eb4fU;
        mix ^= (load8(text + (length - 8) / 2) + length) * 0x165667b19e3779f9U;
    }
    mix *= 0x9e3779b97f4a7c15U;
    return mix >> 55;
}
_Static_assert(KINETO_NAME_CACHE == 1 << (64 - 55), "the slot is the top bits of the mix");

static enum rs_status intern_name(struct kineto *kineto, struct kineto_span name, rs_str *id_p)
{
    if (!name.length) {
        *id_p = RS_STR_EMPTY;
        return RS_OK;
    }
    struct kineto_name_slot *slot = &kineto->names[name_slot(name.text, name.length)];
    if (slot->length == name.length && same_bytes(slot->text, name.text, name.length)) {
        *id_p = slot->id;
        return RS_OK;
    }
    struct rs_strtab *strings = &kineto->stream->strings;
    const enum rs_status status = rs_strtab_add(strings, name.text, name.length, id_p);
    if (status == RS_OK)
        *slot = (struct kineto_name_slot){
            .text = rs_strtab_text(strings, *id_p), .length = (uint32_t)name.length, .id = *id_p};
    return status;
}

enum rs_status kineto_intern(struct kineto *kineto, struct kineto_span text, bool has_escape,
                             rs_str *id_p)
{
    if (!has_escape)
        return intern_name(kineto, text, id_p);
    rs_buf_reset(&kineto->scratch);
    text_decode(text, &kineto->scratch);
    if (kineto->scratch.failed)
        return RS_NOMEM;
    return rs_strtab_add(&kineto->stream->strings, (const char *)kineto->scratch.data,
                         kineto->scratch.length, id_p);
}

static uint8_t kind_of(const struct kineto_row *row)
{
    switch (row->phase) {
    case 'X':
        return row->category ? row->category->kind : RS_KIND_OTHER;
    case 'M':
        return RS_KIND_METADATA;
    case 's':
        return RS_KIND_FLOW_START;
    case 'f':
        return RS_KIND_FLOW_END;
    case 'C':
        return RS_KIND_COUNTER;
    case 'i':
        if (row->category && span_is(row->category->text, "cpu_instant_event"))
            return RS_KIND_MEMORY;
        return RS_KIND_INSTANT;
    default:
        return RS_KIND_OTHER;
    }
}

static bool kind_is_on_device(uint8_t kind)
{
    return kind == RS_KIND_KERNEL || kind == RS_KIND_MEMCPY || kind == RS_KIND_MEMSET ||
           kind == RS_KIND_SYNC || kind == RS_KIND_DEVICE_EVENT ||
           kind == RS_KIND_GPU_USER_ANNOTATION;
}

static bool kind_is_on_host(uint8_t kind)
{
    return kind == RS_KIND_CPU_OP || kind == RS_KIND_USER_ANNOTATION || kind == RS_KIND_RUNTIME ||
           kind == RS_KIND_DRIVER || kind == RS_KIND_PYTHON || kind == RS_KIND_OVERHEAD;
}

/* "24610", "stream 7" and "24610 (python)" are numbers to older writers. */
static int64_t number_in_text(struct kineto_span text)
{
    static const char stream[] = "stream ";
    const size_t prefix = sizeof stream - 1;
    if (text.length > prefix && memcmp(text.text, stream, prefix) == 0)
        text = (struct kineto_span){.text = text.text + prefix, .length = text.length - prefix};
    const char *blank = memchr(text.text, ' ', text.length);
    if (blank)
        text.length = (size_t)(blank - text.text);
    int64_t value;
    return text_plain_integer(text, &value) ? value : KINETO_NO_ID;
}

static enum rs_status text_of_id(struct kineto *kineto, const struct kineto_id *id, rs_str *text_p,
                                 int64_t *value_p)
{
    *value_p = id->value;
    *text_p = RS_STR_NONE;
    if (!id->text.text)
        return RS_OK;
    *value_p = number_in_text(id->text);
    return kineto_intern(kineto, id->text, id->has_escape, text_p);
}

static enum rs_status find_lane(struct kineto *kineto, const struct kineto_row *row, uint8_t kind,
                                uint32_t *index_p)
{
    struct rs_lane lane = {.kind = RS_LANE_OTHER, .device = -1};
    enum rs_status status = text_of_id(kineto, &row->pid, &lane.process_text, &lane.process);
    if (status == RS_OK)
        status = text_of_id(kineto, &row->tid, &lane.thread_text, &lane.thread);
    if (status != RS_OK)
        return status;
    const bool has_numbers = lane.process != KINETO_NO_ID && lane.thread != KINETO_NO_ID;
    if (has_numbers && kind_is_on_host(kind)) {
        lane.kind = RS_LANE_HOST;
    } else if (has_numbers && kind_is_on_device(kind) && lane.process >= 0 &&
               lane.process <= INT32_MAX) {
        lane.kind = RS_LANE_DEVICE;
        lane.device = (int32_t)lane.process;
    }
    return rs_lanes_find(&kineto->stream->lanes, &lane, index_p);
}

static enum rs_status lane_of(struct kineto *kineto, const struct kineto_row *row, uint8_t kind,
                              uint32_t *index_p)
{
    if (row->pid.text.text || row->tid.text.text)
        return find_lane(kineto, row, kind, index_p);
    const uint64_t mix = (uint64_t)row->pid.value * 31 + (uint64_t)row->tid.value * 7 + kind;
    struct kineto_lane_slot *slot = &kineto->lanes[mix % KINETO_LANE_CACHE];
    if (slot->is_used && slot->kind == kind && slot->process == row->pid.value &&
        slot->thread == row->tid.value) {
        *index_p = slot->index;
        return RS_OK;
    }
    const enum rs_status status = find_lane(kineto, row, kind, index_p);
    if (status == RS_OK)
        *slot = (struct kineto_lane_slot){.is_used = true,
                                          .kind = kind,
                                          .process = row->pid.value,
                                          .thread = row->tid.value,
                                          .index = *index_p};
    return status;
}

/* Device work that does not say on which device is nobody's. */
static bool is_homeless(const struct kineto *kineto, uint8_t kind, uint32_t lane)
{
    return (kind == RS_KIND_KERNEL || kind == RS_KIND_MEMCPY || kind == RS_KIND_MEMSET) &&
           kineto->stream->lanes.items[lane].kind != RS_LANE_DEVICE;
}

/* A host row whose thread is not told has one of its own: what it lies in, and what lies in it, is not known. */
static bool is_of_no_thread(const struct kineto *kineto, uint8_t kind, uint32_t lane)
{
    return (kind == RS_KIND_CPU_OP || kind == RS_KIND_USER_ANNOTATION || kind == RS_KIND_RUNTIME ||
            kind == RS_KIND_DRIVER) &&
           kineto->stream->lanes.items[lane].kind != RS_LANE_HOST;
}

/* The number in ns. False: it does not fit, or ns cannot say it exactly; *ns_p is as near as can be. */
static bool to_ns(const struct kineto *kineto, const struct kineto_decimal *decimal, int64_t *ns_p)
{
    int64_t value = decimal->whole;
    bool is_exact = decimal->is_exact && !kineto->is_unit_ns;
    if (!kineto->is_unit_ns) {
        if (value > INT64_MAX / 1000 - 1) {
            value = INT64_MAX / 2;
            is_exact = false;
        } else {
            value = value * 1000 + decimal->thousandths;
        }
    } else if (value > INT64_MAX / 2) {
        value = INT64_MAX / 2;
    }
    *ns_p = decimal->is_negative ? -value : value;
    return is_exact && !(decimal->is_negative && value == 0);
}

/* Numbers are us, unless they would overflow as such: then they can only be ns. */
static void learn_unit(struct kineto *kineto, const struct kineto_decimal *time)
{
    if (time->whole == 0)
        return;
    kineto->is_unit_known = true;
    kineto->is_unit_ns = time->whole >= INT64_MAX / 1000;
}

static void emit_times(struct kineto *kineto, const struct kineto_row *row, size_t at, bool *is_odd)
{
    struct rs_batch *batch = &kineto->batch;
    if (!row->has_time) {
        batch->flags[at] |= RS_EVENT_NO_TIME;
    } else {
        if (!kineto->is_unit_known)
            learn_unit(kineto, &row->time);
        kineto->has_fraction |= row->time.has_fraction;
        *is_odd |= !to_ns(kineto, &row->time, &batch->start[at]);
        if (batch->start[at] > kineto->latest)
            kineto->latest = batch->start[at];
    }
    batch->end[at] = batch->start[at];
    if (!row->has_duration) {
        batch->flags[at] |= RS_EVENT_NO_END;
        return;
    }
    int64_t duration;
    *is_odd |= !to_ns(kineto, &row->duration, &duration);
    if (duration < 0 || duration > FAR_NS ||
        __builtin_add_overflow(batch->start[at], duration, &batch->end[at])) {
        batch->end[at] = batch->start[at];
        batch->flags[at] |= RS_EVENT_DURATION_CLAMPED;
        kineto->rows_clamped += !row->category || row->category->is_wanted;
        *is_odd = true;
    }
}

static bool has_prefix(struct kineto_span name, const char *prefix)
{
    const size_t length = strlen(prefix);
    return name.length >= length && memcmp(name.text, prefix, length) == 0;
}

/* Whose arguments tell the reduction something. */
static bool args_are_wanted(const struct kineto *kineto, const struct kineto_row *row, uint8_t kind)
{
    if (!row->args.text)
        return false;
    if (kineto->is_lossless || row->has_finished)
        return true;
    switch (kind) {
    case RS_KIND_CPU_OP:
        return has_prefix(row->name, "c10d::") || has_prefix(row->name, "record_param_comms") ||
               has_prefix(row->name, "gloo:") || has_prefix(row->name, "nccl:");
    case RS_KIND_GPU_USER_ANNOTATION:
    case RS_KIND_OVERHEAD:
    case RS_KIND_TRACE_SPAN:
        return false;
    default:
        return true;
    }
}

static enum rs_status emit_flow_id(struct kineto *kineto, const struct kineto_row *row, size_t at,
                                   bool *is_odd)
{
    int64_t id;
    if (text_plain_integer(row->id, &id) && id >= 0)
        kineto->batch.correlation[at] = id;
    else
        *is_odd = true;
    return RS_OK;
}

static int by_instant(const void *left, const void *right)
{
    const rs_ns a = *(const rs_ns *)left, b = *(const rs_ns *)right;
    return (a > b) - (a < b);
}

/* The first batch tells when the recording was. */
static enum rs_status learn_middle(struct kineto *kineto)
{
    const struct rs_batch *batch = &kineto->batch;
    rs_ns *starts = rs_mem_calloc(batch->count, sizeof *starts);
    size_t count = 0;
    if (!starts)
        return RS_NOMEM;
    for (size_t i = 0; i < batch->count; i++) {
        if (!(batch->flags[i] & RS_EVENT_NO_END))
            starts[count++] = batch->start[i];
    }
    if (count > 2) {
        qsort(starts, count, sizeof *starts, by_instant);
        kineto->middle = starts[count / 2];
        kineto->has_middle = true;
    }
    rs_mem_free(starts);
    return RS_OK;
}

/* A row at time 0, or in another year, would stretch the recording over decades: it is set aside. */
static void set_aside_far(struct kineto *kineto)
{
    struct rs_batch *batch = &kineto->batch;
    for (size_t i = 0; i < batch->count; i++) {
        rs_dur distance;
        if (batch->flags[i] & RS_EVENT_NO_END)
            continue;
        const bool overflows = __builtin_sub_overflow(batch->start[i], kineto->middle, &distance);
        if (!overflows && distance < FAR_NS && distance > -FAR_NS)
            continue;
        batch->kind[i] = RS_KIND_OTHER;
        batch->flags[i] |= RS_EVENT_NO_TIME | RS_EVENT_NO_END;
        batch->start[i] = batch->end[i] = kineto->middle;
        kineto->rows_far++;
    }
}

enum rs_status kineto_emit_flush(struct kineto *kineto, struct rs_err *err)
{
    if (!kineto->batch.count)
        return RS_OK;
    if (!kineto->is_lossless && !kineto->has_middle && learn_middle(kineto) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "%s: out of memory", kineto->path);
    if (!kineto->is_lossless && kineto->has_middle)
        set_aside_far(kineto);
    const enum rs_status status = kineto->sink.batch(kineto->sink.self, &kineto->batch, err);
    rs_batch_reset(&kineto->batch);
    return status < 0 ? status : RS_OK;
}

/* The first one is told; what nobody named is a category, too. */
static void note_unknown(struct kineto *kineto, struct kineto_span category)
{
    enum { SHOWN = 48 };
    if (kineto->unknown_category[0])
        return;
    if (!category.length)
        category = (struct kineto_span){.text = "\"\"", .length = 2};
    (void)snprintf(kineto->unknown_category, sizeof kineto->unknown_category, "%.*s",
                   (int)(category.length < SHOWN ? category.length : SHOWN), category.text);
}

/* A newer profiler's category may hold what figures are made of: a row that looks like that is reported as not counted. */
static bool may_matter(const struct kineto *kineto, const struct kineto_row *row, size_t at)
{
    const struct rs_batch *batch = &kineto->batch;
    const struct rs_comm *comm =
        batch->comm[at] != RS_NO_COMM ? &batch->comms[batch->comm[at]] : NULL;
    const bool is_collective =
        comm && (comm->collective != RS_STR_NONE || comm->group_name != RS_STR_NONE);
    return batch->correlation[at] >= 0 || batch->external_id[at] >= 0 || is_collective ||
           has_prefix(row->name, "ProfilerStep#") || has_prefix(row->name, "c10d::") ||
           has_prefix(row->name, "gloo:") || has_prefix(row->name, "nccl:");
}

/* "args": {} */
static bool has_no_argument(const struct kineto_row *row)
{
    return row->args.text && scan_blanks(row->args.text) == row->args.text + row->args.length;
}

/* Fills batch row `at`. On failure the row is half there: the reading ends. */
static enum rs_status emit_row(struct kineto *kineto, const struct kineto_row *row, size_t at)
{
    struct rs_batch *batch = &kineto->batch;
    const uint8_t kind = kind_of(row);
    bool is_odd = row->other_count > 0;
    batch->kind[at] = kind;
    batch->phase[at] = (uint8_t)row->phase;
    batch->category[at] = row->category ? row->category->id : RS_STR_NONE;
    enum rs_status status = lane_of(kineto, row, kind, &batch->lane[at]);
    if (status == RS_OK && is_homeless(kineto, kind, batch->lane[at])) {
        batch->kind[at] = RS_KIND_OTHER;
        kineto->rows_homeless++;
    }
    if (status == RS_OK && is_of_no_thread(kineto, kind, batch->lane[at]))
        kineto->rows_threadless++;
    if (status == RS_OK && row->has_name)
        status = kineto_intern(kineto, row->name, row->name_has_escape, &batch->name[at]);
    if (!row->has_name)
        batch->flags[at] |= RS_EVENT_NO_NAME;
    emit_times(kineto, row, at, &is_odd);
    if (kind == RS_KIND_MEMORY)
        batch->bytes[at] = INT64_MIN;
    if (status == RS_OK && row->id.text && (kind == RS_KIND_FLOW_START || kind == RS_KIND_FLOW_END))
        status = emit_flow_id(kineto, row, at, &is_odd);
    if (status == RS_OK && args_are_wanted(kineto, row, kind))
        status = kineto_args(kineto, row, at);
    if (kind == RS_KIND_OTHER && row->phase == 'X' && row->category) {
        note_unknown(kineto, row->category->text);
        kineto->rows_foreign += row->has_name && may_matter(kineto, row, at);
    }
    if (status == RS_OK && kineto->is_lossless && (is_odd || has_no_argument(row)))
        status = kineto_others(kineto, row, at);
    return status;
}

enum rs_status kineto_emit(struct kineto *kineto, const struct kineto_row *row, struct rs_err *err)
{
    kineto->stream->info.rows_read++;
    kineto->stream->info.events_read += row->phase == 'X';
    if (kineto->batch.count == kineto->batch.capacity) {
        const enum rs_status status = kineto_emit_flush(kineto, err);
        if (status != RS_OK)
            return status;
    }
    size_t at;
    enum rs_status status = rs_batch_row(&kineto->batch, &at);
    if (status == RS_OK)
        status = emit_row(kineto, row, at);
    if (status < 0)
        return rs_err_set(err, status, "%s: %s while its rows were kept", kineto->path,
                          rs_status_text(status));
    return RS_OK;
}
