/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which form of a rank's directory is read, and what the forms have in common: rows on their way into
 * batches, communicators, what is known of the whole recording.
 */
#include "ascend/source/ascend.h"

#include "ascend/source/ascend_priv.h"
#include "ascend/source/mindspore.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    GROUPS_MAX = 4096,
    GROUP_STREAMS =
        1
        << 20, /* operations of a communicator stand on a stream of their own, no stream of the device */
    PLACES_MAX = 1 << 20,
    METADATA_MAX_BYTES = 64 << 20,
    SETTINGS_MAX_BYTES = 64 << 10
}; /* communicators of one rank; tens are usual */

/* ---- open and close ---- */

/* Groups of the metadata as the header of the recording. */
static enum rs_status report_groups(struct ascend *a)
{
    struct rs_trace_info *info = &a->stream->info;
    for (size_t i = 0; i < a->meta.group_count; i++) {
        const struct rs_ascend_group *group = &a->meta.groups[i];
        struct rs_group_info reported = {.name = RS_STR_NONE,
                                         .description = RS_STR_NONE,
                                         .size = group->count ? (int64_t)group->count : -1};
        enum rs_status status = ascend_text(a, group->hash, &reported.name);
        if (status == RS_OK)
            status = ascend_text(a, group->name, &reported.description);
        if (status == RS_OK)
            status = rs_mem_grow((void **)&info->groups, &info->group_capacity,
                                 info->group_count + 1, sizeof *info->groups);
        if (status == RS_OK) {
            reported.ranks = rs_mem_calloc(group->count + 1, sizeof *reported.ranks);
            status = reported.ranks ? RS_OK : RS_NOMEM;
        }
        if (status != RS_OK)
            return status;
        for (size_t k = 0; k < group->count && group->ranks[k] <= INT32_MAX; k++)
            reported.ranks[reported.rank_count++] = (int32_t)group->ranks[k];
        info->groups[info->group_count++] = reported;
    }
    return RS_OK;
}

/* ---- metadata ---- */

static bool is_setting(const char *name)
{
    return strcmp(name, "parallel_group_info") != 0 && strncmp(name, "SCHEMA_VERSION", 14) != 0;
}

enum rs_status ascend_setting(struct ascend *a, const char *name, const char *value)
{
    if (!is_setting(name) || json_object_get(a->settings, name))
        return RS_OK;
    if (!a->settings)
        a->settings = json_object();
    json_t *json = json_loads(value, JSON_DECODE_ANY, NULL);
    if (!json)
        json = json_string(value);
    /* text that is no UTF-8 is no value of JSON */
    return !json ? RS_OK : json_object_set_new(a->settings, name, json) == 0 ? RS_OK : RS_NOMEM;
}

static void load_settings(struct ascend *a)
{
    struct rs_buf buf = {0};
    if (a->rank->metadata &&
        rs_file_read_regular(a->rank->metadata, METADATA_MAX_BYTES, &buf, NULL) == RS_OK)
        a->settings = json_loadb((const char *)buf.data, buf.length, 0, NULL);
    rs_buf_fini(&buf);
    if (!json_is_object(a->settings)) {
        json_decref(a->settings);
        a->settings = NULL;
    }
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(a->settings, next, key, value)
    {
        if (!is_setting(key))
            (void)json_object_del(a->settings, key);
    }
}

/* ---- life ---- */

static enum rs_status no_memory_at_open(const struct ascend *a, enum rs_status status,
                                        struct rs_err *err)
{
    return status == RS_NOMEM ? rs_err_set(err, status, "%s: out of memory", a->rank->dir) : status;
}

enum rs_status ascend_open(struct ascend *a, const struct rs_ascend_rank *rank, unsigned flags,
                           struct rs_source_stream *stream, struct rs_sink sink, struct rs_err *err)
{
    *a = (struct ascend){.rank = rank,
                         .is_lossless = (flags & RS_SOURCE_LOSSLESS) != 0,
                         .stream = stream,
                         .sink = sink,
                         .meta = {.tp = -1,
                                  .pp = -1,
                                  .dp = -1,
                                  .cp = -1,
                                  .ep = -1,
                                  .world_size = -1,
                                  .rank = -1,
                                  .microbatches = -1}};
    enum rs_status status =
        rs_batch_init(&a->batch, &stream->strings, &stream->lanes, ASCEND_BATCH_ROWS);
    if (status != RS_OK)
        return rs_err_set(err, status, "%s: out of memory", rank->dir);
    load_settings(a);
    if (!rank->metadata)
        return no_memory_at_open(a, ascend_report_provenance(a), err);
    struct rs_err why = {0};
    struct rs_ascend_metadata meta;
    status = rs_ascend_metadata_read(rank, &meta, &why);
    if (status == RS_OK)
        a->meta = meta;
    else if (status == RS_NOMEM)
        return rs_err_set(err, status, "%s", why.text);
    else if (status != RS_NOTFOUND) /* groups stay without ranks; the events are whole */
        ascend_flaw(a, why.text);
    if (status != RS_OK && status != RS_NOTFOUND)
        status = rs_trace_info_drop(&stream->info, &stream->strings,
                                    "profiler_metadata.json cannot be read", 1);
    if (status != RS_NOMEM)
        status = ascend_report_provenance(a);
    return no_memory_at_open(a, status, err);
}

void ascend_close(struct ascend *a)
{
    rs_batch_fini(&a->batch);
    rs_ascend_metadata_fini(&a->meta);
    rs_mem_free(a->groups);
    rs_mem_free(a->bounds);
    rs_buf_fini(&a->flaws);
    json_decref(a->settings);
    *a = (struct ascend){0};
}

/* ---- rows ---- */

enum rs_status ascend_text_bytes(struct ascend *a, const char *text, size_t length, rs_str *id_p)
{
    if (!length) { /* a row without a name has no text either */
        *id_p = RS_STR_EMPTY;
        return RS_OK;
    }
    struct rs_buf scratch = {0};
    text = rs_utf8_clean(text, length, &scratch, &length);
    const enum rs_status status = rs_strtab_add(&a->stream->strings, text, length, id_p);
    rs_buf_fini(&scratch);
    return status;
}

enum rs_status ascend_text(struct ascend *a, const char *text, rs_str *id_p)
{
    return ascend_text_bytes(a, text, strlen(text), id_p);
}

static enum rs_status flush(struct ascend *a, struct rs_err *err)
{
    if (!a->batch.count)
        return RS_OK;
    const enum rs_status status = a->sink.batch(a->sink.self, &a->batch, err);
    rs_batch_reset(&a->batch);
    return status < 0 ? status : RS_OK;
}

enum rs_status ascend_emit(struct ascend *a, const struct ascend_row *row, size_t *at_p,
                           struct rs_err *err)
{
    struct rs_batch *batch = &a->batch;
    if (batch->count == batch->capacity) {
        const enum rs_status status = flush(a, err);
        if (status < 0)
            return status;
    }
    size_t at;
    const enum rs_status status = rs_batch_row(batch, &at);
    if (status != RS_OK)
        return rs_err_set(err, status, "%s: %s", a->rank->dir, rs_status_text(status));
    batch->kind[at] = (uint8_t)row->kind;
    batch->flags[at] = row->flags;
    batch->lane[at] = row->lane;
    batch->name[at] = row->name;
    batch->category[at] = row->category;
    batch->start[at] = row->start;
    batch->end[at] = row->end;
    if (row->end < row->start) {
        batch->end[at] = row->start;
        batch->flags[at] |= RS_EVENT_DURATION_CLAMPED;
    }
    batch->correlation[at] = row->correlation;
    batch->external_id[at] = row->external_id;
    batch->bytes[at] = row->bytes;
    a->stream->info.rows_read += !a->is_counted;
    a->stream->info.events_read += !a->is_counted;
    *at_p = at;
    return RS_OK;
}

/* ---- lanes ---- */

static enum rs_status lane_of(struct ascend *a, struct rs_lane *lane, const char *process,
                              const char *thread, uint32_t *lane_p)
{
    enum rs_status status = RS_OK;
    lane->process_text = lane->thread_text = RS_STR_NONE;
    if (process)
        status = ascend_text(a, process, &lane->process_text);
    if (status == RS_OK && thread)
        status = ascend_text(a, thread, &lane->thread_text);
    return status == RS_OK ? rs_lanes_find(&a->stream->lanes, lane, lane_p) : status;
}

enum rs_status ascend_host_lane(struct ascend *a, int64_t pid, int64_t tid, uint32_t *lane_p)
{
    struct rs_lane lane = {.kind = RS_LANE_HOST, .device = -1, .process = pid, .thread = tid};
    return lane_of(a, &lane, NULL, NULL, lane_p);
}

static int32_t device_number(int64_t device)
{
    return device >= 0 && device <= INT32_MAX ? (int32_t)device : 0;
}

enum rs_status ascend_device_lane(struct ascend *a, int64_t device, int64_t stream,
                                  const char *name, uint32_t *lane_p)
{
    const int32_t number = device_number(device);
    struct rs_lane lane = {
        .kind = RS_LANE_DEVICE, .device = number, .process = number, .thread = stream};
    return lane_of(a, &lane, NULL, name, lane_p);
}

enum rs_status ascend_group_lane(struct ascend *a, int64_t device, size_t group, uint32_t *lane_p)
{
    char name[64];
    const size_t number = group == ASCEND_NO_GROUP ? 0 : group;
    if (group == ASCEND_NO_GROUP)
        (void)snprintf(name, sizeof name, "Communication");
    else
        (void)snprintf(name, sizeof name, "Group %s Communication", a->groups[group].hash);
    return ascend_device_lane(a, device, GROUP_STREAMS + (int64_t)number, name, lane_p);
}

/* ---- communicators ---- */

static enum rs_status write_ranks(struct ascend *a, const struct rs_ascend_group *known,
                                  rs_str *ranks_p)
{
    struct rs_buf buf = {0};
    rs_buf_u8(&buf, '[');
    for (size_t i = 0; i < known->count; i++)
        rs_buf_printf(&buf, "%s%" PRId64, i ? ", " : "", known->ranks[i]);
    rs_buf_u8(&buf, ']');
    const enum rs_status status =
        buf.failed ? RS_NOMEM : ascend_text_bytes(a, (const char *)buf.data, buf.length, ranks_p);
    rs_buf_fini(&buf);
    return status;
}

static struct ascend_bound *bound_of(const struct ascend *a, const char *hash)
{
    for (size_t i = 0; i < a->bound_count; i++)
        if (strcmp(a->bounds[i].hash, hash) == 0)
            return &a->bounds[i];
    return NULL;
}

enum rs_status ascend_group_has_place(struct ascend *a, const char *hash, int64_t place)
{
    if (!*hash || strlen(hash) >= RS_ASCEND_HASH_BYTES || place < 0 || place >= PLACES_MAX)
        return RS_OK;
    struct ascend_bound *bound = bound_of(a, hash);
    if (!bound) {
        if (a->bound_count >= GROUPS_MAX ||
            rs_mem_grow((void **)&a->bounds, &a->bound_capacity, a->bound_count + 1,
                        sizeof *a->bounds) != RS_OK)
            return a->bound_count >= GROUPS_MAX ? RS_OK : RS_NOMEM;
        bound = &a->bounds[a->bound_count++];
        *bound = (struct ascend_bound){0};
        (void)snprintf(bound->hash, sizeof bound->hash, "%s", hash);
    }
    bound->size = place + 1 > bound->size ? place + 1 : bound->size;
    return RS_OK;
}

static enum rs_status add_group(struct ascend *a, const char *hash, int64_t size)
{
    const struct ascend_bound *bound = bound_of(a, hash);
    if (size <= 0 && bound)
        size = bound->size;
    struct ascend_group group = {
        .size = size, .name = RS_STR_NONE, .description = RS_STR_NONE, .ranks = RS_STR_NONE};
    (void)snprintf(group.hash, sizeof group.hash, "%s", hash);
    enum rs_status status = a->group_count < GROUPS_MAX ? RS_OK : RS_LIMIT;
    if (status == RS_OK)
        status = rs_mem_grow((void **)&a->groups, &a->group_capacity, a->group_count + 1,
                             sizeof *a->groups);
    if (status == RS_OK)
        status = ascend_text(a, group.hash, &group.name);
    group.known = rs_ascend_group_find(&a->meta, hash);
    if (status == RS_OK && group.known && group.known->count) {
        group.size = (int64_t)group.known->count;
        status = write_ranks(a, group.known, &group.ranks);
        if (status == RS_OK)
            status = ascend_text(a, group.known->name, &group.description);
    }
    if (status == RS_OK)
        a->groups[a->group_count++] = group;
    return status;
}

enum rs_status ascend_group_find(struct ascend *a, const char *hash, int64_t size, size_t *group_p)
{
    *group_p = ASCEND_NO_GROUP;
    if (!*hash || strlen(hash) >= RS_ASCEND_HASH_BYTES)
        return RS_OK;
    size_t at = 0;
    while (at < a->group_count && strcmp(a->groups[at].hash, hash) != 0)
        at++;
    const enum rs_status status =
        at < a->group_count ? RS_OK : add_group(a, hash, size > 0 ? size : -1);
    if (status == RS_OK)
        *group_p = at;
    return status;
}

const char *ascend_group_by_tail(const struct ascend *a, const char *tail)
{
    const char *found = NULL;
    const size_t length = strlen(tail);
    for (size_t i = 0; i < a->meta.group_count && length; i++) {
        const char *hash = a->meta.groups[i].hash;
        const size_t whole = strlen(hash);
        if (whole < length || strcmp(hash + whole - length, tail) != 0)
            continue;
        if (found && strcmp(found, hash) != 0)
            return NULL;
        found = hash;
    }
    return found;
}

int64_t ascend_global_rank(const struct ascend *a, size_t group, int64_t rank_in_group)
{
    if (group == ASCEND_NO_GROUP || rank_in_group < 0 || !a->groups[group].known ||
        (uint64_t)rank_in_group >= a->groups[group].known->count)
        return -1;
    return a->groups[group].known->ranks[rank_in_group];
}

/* ---- operations ---- */

/* HCCL's name of an element type -> c10's; NULL: none has this size and meaning. */
static const char *c10_type(const char *dtype)
{
    static const char *const pairs[][2] = {
        {"INT8", "Char"},
        {"INT16", "Short"},
        {"INT32", "Int"},
        {"INT64", "Long"},
        {"UINT8", "Byte"},
        {"UINT16", "UInt16"},
        {"UINT32", "UInt32"},
        {"UINT64", "UInt64"},
        {"FP16", "Half"},
        {"FP32", "Float"},
        {"FP64", "Double"},
        {"BFP16", "BFloat16"},
        {"BF16", "BFloat16"},
        {"FP8E4M3", "Float8_e4m3fn"},
        {"FP8E5M2", "Float8_e5m2"},
        {"FP8E8M0", "Float8_e8m0fnu"},
        {"BYTE", "Byte"}}; /* our own export: only the size is known */
    for (size_t i = 0; dtype && i < sizeof pairs / sizeof pairs[0]; i++)
        if (strcasecmp(dtype, pairs[i][0]) == 0)
            return pairs[i][1];
    return NULL;
}

static bool starts_with(const char *text, const char *head)
{
    return strncasecmp(text, head, strlen(head)) == 0;
}

/* "allReduce" of "hcom_allReduce__606_0_1"; what has another shape is taken whole. */
static enum rs_status collective_of(struct ascend *a, const char *name, rs_str *id_p)
{
    const char *word = starts_with(name, "hcom_") ? name + 5 : name;
    const char *end = word != name ? strchr(word, '_') : NULL;
    return ascend_text_bytes(a, word, end && end > word ? (size_t)(end - word) : strlen(word),
                             id_p);
}

/* What HCCL counts: elements that a rank gives, but gets of reduceScatter and receive; all that it gives
 * of alltoallv. Of alltoall and batches the number is not one of these: unknown. */
static void set_count(struct rs_comm *comm, const char *name, int64_t count)
{
    if (count < 0 || starts_with(name, "hcom_batchSendRecv") ||
        (starts_with(name, "hcom_alltoall") && !starts_with(name, "hcom_alltoallv")))
        return;
    if (starts_with(name, "hcom_reduceScatter") || starts_with(name, "hcom_receive")) {
        comm->out_nelems = count;
        comm->has |= RS_COMM_HAS_OUT_NELEMS;
    } else {
        comm->in_nelems = count;
        comm->has |= RS_COMM_HAS_IN_NELEMS;
    }
}

static void set_peer(const struct ascend *a, const struct ascend_op *op, struct rs_comm *comm)
{
    const bool is_send = starts_with(op->name_text, "hcom_send");
    const bool is_recv = starts_with(op->name_text, "hcom_receive");
    int64_t peer = op->peer;
    const struct rs_ascend_group *known =
        op->group == ASCEND_NO_GROUP ? NULL : a->groups[op->group].known;
    if (peer < 0 && known && known->count == 2) /* a group of two leaves no choice */
        peer = known->ranks[known->ranks[0] == a->rank->rank];
    if (peer < 0)
        return;
    if (is_send) {
        comm->dst = peer;
        comm->has |= RS_COMM_HAS_DST;
    } else if (is_recv) {
        comm->src = peer;
        comm->has |= RS_COMM_HAS_SRC;
    }
}

static enum rs_status fill_comm(struct ascend *a, const struct ascend_op *op, size_t at)
{
    struct rs_comm *comm;
    enum rs_status status = rs_batch_comm(&a->batch, at, &comm);
    if (status == RS_OK)
        status = collective_of(a, op->name_text, &comm->collective);
    const char *dtype = c10_type(op->dtype);
    if (status == RS_OK && dtype)
        status = ascend_text(a, dtype, &comm->dtype);
    if (status != RS_OK)
        return status;
    if (op->group != ASCEND_NO_GROUP) {
        const struct ascend_group *group = &a->groups[op->group];
        comm->group_name = group->name;
        comm->group_description = group->description;
        comm->group_ranks = group->ranks;
        if (group->size > 0) {
            comm->group_size = group->size;
            comm->has |= RS_COMM_HAS_GROUP_SIZE;
        }
    }
    comm->transport = op->transport;
    set_count(comm, op->name_text, op->count);
    set_peer(a, op, comm);
    return RS_OK;
}

enum rs_status ascend_emit_op(struct ascend *a, const struct ascend_op *op, struct rs_err *err)
{
    struct ascend_row row = {.kind = RS_KIND_KERNEL,
                             .flags = RS_EVENT_COMMUNICATION,
                             .name = op->name,
                             .category = RS_STR_NONE,
                             .start = op->start,
                             .end = op->end,
                             .correlation = op->connection,
                             .external_id = op->id,
                             .bytes = -1};
    size_t at = 0;
    enum rs_status status = ascend_group_lane(a, op->device, op->group, &row.lane);
    if (status == RS_OK) {
        status = ascend_emit(a, &row, &at, err);
        if (status != RS_OK)
            return status;
        status = fill_comm(a, op, at);
    }
    return status == RS_OK
               ? RS_OK
               : rs_err_set(err, status, "%s: %s", a->rank->dir, rs_status_text(status));
}

/* ---- the end ---- */

enum rs_status ascend_partial(struct ascend *a, const char *why)
{
    struct rs_trace_info *info = &a->stream->info;
    info->is_partial = true;
    info->has_whole_steps = false;
    return ascend_text(a, why, &info->partial_reason);
}

void ascend_flaw(struct ascend *a, const char *sentence)
{
    if (*sentence)
        rs_buf_printf(&a->flaws, "%s%s", a->flaws.length ? "; " : "", sentence);
}

/* The flaws stand behind a reason that is there already. */
static enum rs_status report_flaws(struct ascend *a)
{
    struct rs_trace_info *info = &a->stream->info;
    const bool is_whole = (!info->is_partial || info->has_whole_steps) && !a->flaws_touch_steps;
    if (!a->flaws.length && !a->flaws.failed)
        return RS_OK;
    if (info->is_partial && info->partial_reason != RS_STR_NONE) {
        struct rs_buf whole = {0};
        rs_buf_printf(&whole, "%s; %s", rs_strtab_text(&a->stream->strings, info->partial_reason),
                      rs_buf_text(&a->flaws));
        rs_buf_fini(&a->flaws);
        a->flaws = whole;
    }
    const enum rs_status status =
        a->flaws.failed ? RS_NOMEM : ascend_partial(a, rs_buf_text(&a->flaws));
    info->has_whole_steps = is_whole;
    return status;
}

static int32_t world_size(const struct ascend *a)
{
    int64_t world = a->meta.world_size;
    for (size_t i = 0; i < a->meta.group_count && world <= 0; i++)
        if (strcmp(a->meta.groups[i].name, "default_group") == 0 && a->meta.groups[i].count)
            world = (int64_t)a->meta.groups[i].count;
    return world > 0 && world <= INT32_MAX ? (int32_t)world : -1;
}

static enum rs_status report_versions(struct ascend *a, const char *form)
{
    char text[512];
    const struct rs_ascend_rank *rank = a->rank;
    const bool is_mindspore = rank->framework == RS_ASCEND_MINDSPORE;
    (void)snprintf(text, sizeof text, "%s %s%s%.100s%s%s%.100s",
                   is_mindspore                             ? "ascend_ms"
                   : rank->framework == RS_ASCEND_MSMONITOR ? "msmonitor"
                                                            : "ascend_pt",
                   form, *rank->cann_version ? ", CANN " : "", rank->cann_version,
                   *rank->framework_version ? ", " : "",
                   !*rank->framework_version ? ""
                   : is_mindspore            ? "MindSpore "
                                             : "torch_npu ",
                   rank->framework_version);
    return ascend_text(a, text, &a->stream->info.generation);
}

/* What whoever started the recording called it (a capture request, a monitor), and how it was set up. */
static enum rs_status report_settings(struct ascend *a)
{
    struct rs_trace_info *info = &a->stream->info;
    const char *text = json_string_value(json_object_get(a->settings, "trace_id"));
    enum rs_status status = text && *text ? ascend_text(a, text, &info->trace_id) : RS_OK;
    if (status != RS_OK || !json_object_size(a->settings))
        return status;
    char *whole = json_dumps(a->settings, JSON_COMPACT);
    if (whole && strlen(whole) <= SETTINGS_MAX_BYTES)
        status = ascend_text(a, whole, &info->metadata);
    else if (whole)
        status = rs_trace_info_drop(info, &a->stream->strings,
                                    "the profiler's metadata, beyond the limit", 1);
    free(whole);
    return status;
}

static enum rs_status report_losses(struct ascend *a)
{
    struct rs_source_stream *stream = a->stream;
    enum rs_status status = RS_OK;
    if (a->hops_lost)
        status =
            rs_trace_info_drop(&stream->info, &stream->strings,
                               "a transfer whose ends are not known as global ranks", a->hops_lost);
    if (status == RS_OK && a->rows_bad)
        status = rs_trace_info_drop(&stream->info, &stream->strings, "a row without usable times",
                                    a->rows_bad);
    return status;
}

enum rs_status ascend_finish(struct ascend *a, const char *form, struct rs_err *err)
{
    struct rs_trace_info *info = &a->stream->info;
    enum rs_status status = ascend_emit_documents(a, err);
    if (status == RS_NOMEM)
        return rs_err_set(err, status, "%s: out of memory", a->rank->dir);
    if (status == RS_OK)
        status = flush(a, err);
    if (status != RS_OK)
        return status;
    const int64_t rank = a->rank->rank;
    info->rank = rank >= 0 && rank <= INT32_MAX ? (int32_t)rank : -1;
    info->rank_source = info->rank >= 0 ? RS_RANK_METADATA : RS_RANK_UNKNOWN;
    info->world_size = world_size(a);
    info->has_time_base = true;
    info->base_ns = 0;
    info->raw_bytes = info->input_bytes;
    status = ascend_text(a, "hccl", &info->backend);
    if (status == RS_OK)
        status = report_groups(a);
    if (status == RS_OK)
        status = report_versions(a, form);
    if (status == RS_OK)
        status = report_settings(a);
    if (status == RS_OK)
        status = report_losses(a);
    if (status == RS_OK)
        status = report_flaws(a);
    if (status != RS_OK)
        return rs_err_set(err, status, "%s: %s", a->rank->dir, rs_status_text(status));
    return info->is_partial ? RS_PARTIAL : RS_OK;
}

/* ---- which form ---- */

static enum rs_status not_readable(const struct rs_ascend_rank *rank, struct rs_err *err)
{
    switch (rank->state) {
    case RS_ASCEND_UNPARSED:
        return rs_err_set(err, RS_NOTFOUND,
                          "%s holds raw data only, not parsed by the vendor's tool yet", rank->dir);
    case RS_ASCEND_UNFINISHED:
        return rs_err_set(err, RS_NOTFOUND,
                          "%s is not finished: it is still being recorded or parsed, or was broken "
                          "off",
                          rank->dir);
    case RS_ASCEND_FINISHED:
        break;
    }
    return rs_err_set(err, RS_NOTFOUND, "%s holds neither a database nor a trace of a rank",
                      rank->dir);
}

enum rs_status rs_ascend_read(const struct rs_ascend_rank *rank, unsigned flags,
                              struct rs_source_stream *stream, struct rs_sink sink,
                              struct rs_err *err)
{
    if (rank->state != RS_ASCEND_FINISHED)
        return not_readable(rank, err);
    if (rank->framework == RS_ASCEND_MINDSPORE)
        return rs_mindspore_read(rank, flags, stream, sink, err);
    if (rank->profiler_db)
        return rs_ascend_db_read(rank, flags, stream, sink, err);
    if (rank->forms & RS_ASCEND_F_TEXT || rank->analysis_db)
        return rs_ascend_text_read(rank, flags, stream, sink, err);
    return not_readable(rank, err);
}
