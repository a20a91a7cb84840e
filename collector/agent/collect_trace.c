/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/agent/collect_trace.h"

#include "collector/pack/pack.h"
#include "collector/source/kineto.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/user_file.h"

#define RS_LOG_TAG "kineto"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char step_prefix[] = "Optimizer.step#";
static const char backward_prefix[] = "autograd::engine::evaluate_function";
static const rs_dur by_time_ns = 500 * (rs_dur)RS_NS_PER_MS;

enum { OPTIMIZERS_MAX = 8 };

/* Stands between the source and the pack: looks, and hands on. */
/* A process that is older, and has not stepped, steps nothing. */
static const rs_dur time_to_step = 600 * (rs_dur)RS_NS_PER_S;

struct measure {
    int64_t events;
    struct rs_sink next;
    const struct rs_strtab *strings;
    rs_ns first, last;           /* of host work */
    rs_ns span_first, span_last; /* the profiler's own row */
    struct {
        rs_str name;
        int64_t count;
    } optimizers[OPTIMIZERS_MAX];
    size_t optimizer_count;
    size_t names_seen; /* ids below were looked at: an id is new only once */
    bool has_backward;
};

/* Names that are new among the strings: optimizers are noted, and that there is a backward pass. */
static void look_at_names(struct measure *measure, rs_str name)
{
    for (; measure->names_seen <= name; measure->names_seen++) {
        const char *text = rs_strtab_text(measure->strings, (rs_str)measure->names_seen);
        if (strncmp(text, step_prefix, sizeof step_prefix - 1) == 0 &&
            measure->optimizer_count < OPTIMIZERS_MAX)
            measure->optimizers[measure->optimizer_count++].name = (rs_str)measure->names_seen;
        measure->has_backward = measure->has_backward ||
                                strncmp(text, backward_prefix, sizeof backward_prefix - 1) == 0;
    }
}

static void count_step(struct measure *measure, rs_str name)
{
    for (size_t i = 0; i < measure->optimizer_count; i++) {
        if (measure->optimizers[i].name == name) {
            measure->optimizers[i].count++;
            return;
        }
    }
    /* Names that came before are known not to be steps. */
    if (name < measure->names_seen)
        return;
    look_at_names(measure, name);
    for (size_t i = 0; i < measure->optimizer_count; i++)
        measure->optimizers[i].count += measure->optimizers[i].name == name;
}

static enum rs_status on_batch(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct measure *measure = self;
    for (size_t i = 0; i < batch->count; i++) {
        const uint8_t kind = batch->kind[i];
        if (kind == RS_KIND_TRACE_SPAN) {
            measure->span_first = batch->start[i];
            measure->span_last = batch->end[i];
        }
        /* The profiler's own marks ("Record Window End") last no time; metadata and flows do not, either. */
        measure->events += kind != RS_KIND_TRACE_SPAN && batch->end[i] > batch->start[i];
        if (kind != RS_KIND_CPU_OP && kind != RS_KIND_USER_ANNOTATION)
            continue;
        if (batch->start[i] < measure->first)
            measure->first = batch->start[i];
        if (batch->end[i] > measure->last)
            measure->last = batch->end[i];
        if (kind == RS_KIND_USER_ANNOTATION)
            count_step(measure, batch->name[i]);
        else if (batch->name[i] >= measure->names_seen)
            look_at_names(measure, batch->name[i]);
    }
    return measure->next.batch ? measure->next.batch(measure->next.self, batch, err) : RS_OK;
}

static void take_facts(struct rs_trace_task *task, const struct measure *measure,
                       const struct rs_trace_info *info)
{
    const rs_ns base = info->has_time_base ? info->base_ns : 0;
    task->bytes = info->input_bytes;
    if (measure->span_last > measure->span_first) {
        task->window_start_ns = base + measure->span_first;
        task->window_end_ns = base + measure->span_last;
    } else if (measure->last > measure->first) {
        task->window_start_ns = base + measure->first;
        task->window_end_ns = base + measure->last;
    }
    task->events = measure->events;
    task->has_backward = measure->has_backward;
    for (size_t i = 0; i < measure->optimizer_count; i++) {
        task->counted_steps += measure->optimizers[i].count;
        if (measure->optimizers[i].count > task->optimizer_steps)
            task->optimizer_steps = measure->optimizers[i].count;
    }
}

/* No step among the events: it has none, or has not come to its first. Imports alone take minutes on a busy node. */
static void say_no_step(const struct rs_trace_task *task, char *text, size_t bytes)
{
    const long long age_s = (long long)(task->age_ns / RS_NS_PER_S);
    if (task->age_ns && task->age_ns < time_to_step)
        (void)snprintf(
            text, bytes,
            "it has made no step in the %lld s since it was started, so its profiler recorded "
            "half a second instead of %u iterations: ask again, or use --duration if it "
            "steps no optimizer",
            age_s, task->wanted_steps);
    else
        (void)snprintf(
            text, bytes,
            "it steps no optimizer, so its profiler recorded half a second instead of %u "
            "iterations: use --duration",
            task->wanted_steps);
}

/* A profiler that knows no iteration of its process records half a second instead. The step in which it is switched on may be seen, too, and on a busy
 * machine the one in which it is switched off, so one or two more than were asked for are the half second only when they last so long. */
static bool was_by_time(const struct rs_trace_task *task)
{
    const rs_dur window = task->window_end_ns - task->window_start_ns;
    return task->optimizer_steps > (int64_t)task->wanted_steps + 2 ||
           (task->optimizer_steps > (int64_t)task->wanted_steps && window > by_time_ns / 5 * 4 &&
            window < by_time_ns / 5 * 6);
}

/* Why the trace is not all that was asked for; "" when it is. */
static void check_trace(const struct rs_trace_task *task, const struct rs_trace_info *info,
                        const struct rs_strtab *strings, char *text, size_t bytes)
{
    text[0] = '\0';
    if (info->is_partial)
        (void)snprintf(text, bytes, "its trace is damaged and stays at %.300s: %.150s", task->path,
                       info->partial_reason == RS_STR_NONE
                           ? "it ends early"
                           : rs_strtab_text(strings, info->partial_reason));
    else if (task->wanted_steps && task->optimizer_steps == 0)
        say_no_step(task, text, bytes);
    else if (task->wanted_steps && was_by_time(task))
        (void)snprintf(
            text, bytes,
            "it had not made a step yet when it was asked, so its profiler recorded half a "
            "second instead of %u iterations: ask again",
            task->wanted_steps);
    else if (task->wanted_steps && task->counted_steps + 1 < task->wanted_steps)
        /* The one at whose end the recording is switched off may be cut. */
        (void)snprintf(text, bytes, "its trace holds %lld of the %u iterations asked for",
                       (long long)task->counted_steps, task->wanted_steps);
    else if (!task->wanted_steps && task->events == 0)
        (void)snprintf(
            text, bytes,
            "nothing began and ended in the time that was recorded, so its trace is empty: "
            "its steps may be longer; use --steps, or a longer --duration");
}

/* The file, through `measure`. Its folder is the rank's user's, who may put a link there after we have looked: what is held is what is
 * read and, later, removed. On success the caller releases `held`. */
static enum rs_status read_held(const struct rs_trace_task *task, struct rs_source_stream *stream,
                                struct measure *measure, struct rs_held *held, struct rs_err *err)
{
    const struct rs_sink sink = {.batch = on_batch, .self = measure};
    struct rs_err failure = {0};
    *held = (struct rs_held){.fd = -1};
    enum rs_status status = rs_file_hold(task->path, RS_HOLD_ROOT_LINKS, held, &failure);
    if (status == RS_OK)
        status = rs_kineto_read(held->name, RS_SOURCE_LOSSLESS, stream, sink, &failure);
    if (status < 0)
        rs_held_release(held);
    if (status < 0)
        return rs_err_set(err, status, "%s",
                          failure.text[0] ? failure.text : "its trace cannot be read");
    return status;
}

/* The very file that was read, with its user's rights. */
static void remove_read(const char *path, const struct rs_held *held)
{
    struct rs_err err = {0};
    if (rs_held_remove(path, held, RS_HOLD_ROOT_LINKS, &err) < 0)
        rs_log_warn("a trace that was read stays: %s", err.text);
}

enum rs_status rs_trace_measure(struct rs_trace_task *task, struct rs_err *err)
{
    struct rs_source_stream stream;
    if (rs_source_stream_init(&stream) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory to read %s", task->path);
    struct measure measure = {.strings = &stream.strings, .first = RS_NS_MAX, .last = RS_NS_MIN};
    struct rs_held held;
    const enum rs_status status = read_held(task, &stream, &measure, &held, err);
    const bool is_read = status >= 0;
    if (is_read) {
        take_facts(task, &measure, &stream.info);
        remove_read(task->path, &held);
        rs_held_release(&held);
    }
    rs_source_stream_fini(&stream);
    return is_read ? RS_OK : status;
}

rs_ns rs_trace_written_ns(rs_ns changed_ns)
{
    return changed_ns > 0 && changed_ns <= rs_time_realtime() ? changed_ns : 0;
}

/* Its profiler is through with it since its last byte. */
static void take_written(struct rs_trace_info *info, const struct rs_held *held)
{
    struct stat about;
    if (fstat(held->fd, &about) == 0)
        info->written_ns = rs_trace_written_ns(rs_file_changed_ns(&about));
}

/* What was read, into the spool to its end. */
static enum rs_status finish(struct rs_trace_task *task, struct rs_source_stream *stream,
                             struct rs_pack *pack, struct rs_err *err)
{
    char text[512];
    stream->info.rank = (int32_t)task->rank;
    stream->info.rank_source = RS_RANK_PROCESS;
    if (stream->info.world_size < 0)
        stream->info.world_size = task->world;
    /* Hosts are clock domains, and Kineto's files name none: the collector stands on it. */
    if (stream->info.host == RS_STR_NONE && task->source.host &&
        rs_strtab_add(&stream->strings, task->source.host, strlen(task->source.host),
                      &stream->info.host) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory to read %s", task->path);
    check_trace(task, &stream->info, &stream->strings, text, sizeof text);
    task->before_end(task->self, text);
    return rs_pack_finish(pack, &stream->info, *text != '\0', err);
}

static enum rs_status emit(struct rs_trace_task *task, struct rs_source_stream *stream,
                           struct rs_pack *pack, struct rs_err *err)
{
    struct rs_held held;
    struct measure measure = {.next = rs_pack_sink(pack),
                              .strings = &stream->strings,
                              .first = RS_NS_MAX,
                              .last = RS_NS_MIN};
    const enum rs_status read_status = read_held(task, stream, &measure, &held, err);
    if (read_status < 0)
        return read_status;
    take_facts(task, &measure, &stream->info);
    take_written(&stream->info, &held);
    enum rs_status status = RS_OK;
    const struct rs_host_window window = {.base_ns = stream->info.base_ns,
                                          .from_ns = task->window_start_ns,
                                          .to_ns = task->window_end_ns};
    if (task->samples && stream->info.has_time_base)
        status = rs_host_samples_emit(task->samples, stream, &window, rs_pack_sink(pack), err);
    if (status == RS_OK)
        status = finish(task, stream, pack, err);
    if (status == RS_OK && read_status == RS_OK && !stream->info.is_partial) {
        if (task->on_packed)
            task->on_packed(task->self);
        remove_read(task->path, &held);
    }
    rs_held_release(&held);
    return status;
}

enum rs_status rs_trace_first_seq(const struct rs_trace_task *task, rs_seq *seq_p,
                                  struct rs_err *err)
{
    uint32_t entry = 0;
    struct rs_spool_entry facts;
    enum rs_status status = rs_spool_declare(task->spool, &task->source, &entry, err);
    if (status == RS_OK && rs_spool_entry_of(task->spool, entry, &facts) < 0)
        status = rs_err_set(err, RS_NOTFOUND, "its place in the spool is gone");
    if (status == RS_OK)
        *seq_p = facts.last_seq + 1;
    return status;
}

enum rs_status rs_trace_take(struct rs_trace_task *task, struct rs_err *err)
{
    struct rs_source_stream stream;
    struct rs_pack *pack = NULL;
    if (rs_source_stream_init(&stream) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory to read %s", task->path);
    const struct rs_pack_options options = {.spool = task->spool,
                                            .source = task->source,
                                            .flags = task->first_seq ? RS_PACK_REPEATABLE
                                                                     : RS_PACK_WAITS,
                                            .first_seq = task->first_seq,
                                            .strings = &stream.strings,
                                            .lanes = &stream.lanes,
                                            .must_stop = task->must_stop};
    enum rs_status status = rs_pack_new(&options, &pack, err);
    if (status == RS_OK)
        status = emit(task, &stream, pack, err);
    rs_pack_free(&pack);
    rs_source_stream_fini(&stream);
    if (status < 0 && !(status == RS_CANCELLED && task->first_seq)) {
        /* What is in the spool of it has no end: an end is put, so that nobody waits for one. */
        uint32_t entry = 0;
        struct rs_err ignored = {0};
        if (rs_spool_declare(task->spool, &task->source, &entry, NULL) == RS_OK &&
            rs_pack_cut_off(task->spool, entry, err->text, &ignored) < 0)
            rs_spool_drop(task->spool, entry);
    }
    return status;
}
