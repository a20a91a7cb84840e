/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's text algorithm (reference 3.2): sums over the Overlap Analysis layer of trace_view.json.
 *
 * It counts in doubles of us, in the order of the rows; so do we, and the sums come out as in
 * step_trace_time.csv to the last digit. This is a check of a directory against itself: no table of ours is made of it.
 *
 *   window of a step   START: where the first flow from the step's host range to a device arrives, END: the later of
 *                      the end of the last such kernel and the host's; without flows the host's own
 *   an event           belongs, whole, to the first step with START <= ts < END
 */
#include "ascend/source/ascend.h"
#include "ascend/source/ascend_trace.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum part { PART_COMPUTING, PART_COMMUNICATION, PART_EXPOSED, PART_FREE, PART_RECEIVE, PARTS };

struct event {
    int64_t device;
    rs_ns start;
    double us, length;
    enum part part;
};

struct step {
    int64_t number;
    rs_ns host_start, host_end;
    double host_us;
    rs_ns first_call, last_call; /* flows that leave from it */
    rs_ns start, end;            /* of what they arrive at */
};

struct flow {
    int64_t id;
    rs_ns at;
};

struct kernel {
    rs_ns start, end;
};

#define LIST(type)                                                                                 \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t count, capacity;                                                                    \
    }

struct figures {
    struct trace_names names;
    LIST(struct event) events;
    LIST(struct step) steps;
    LIST(struct flow) calls;
    LIST(struct kernel) kernels; /* on devices, by start at the end */
    bool has_first;
    double first_us; /* of the first row of the framework */
    struct rs_ascend_figures *out;
    size_t out_count, out_capacity;
};

#define PUSH(list, status, ...)                                                                    \
    do {                                                                                           \
        (status) = rs_mem_grow((void **)&(list)->items, &(list)->capacity, (list)->count + 1,      \
                               sizeof *(list)->items);                                             \
        if ((status) == RS_OK)                                                                     \
            (list)->items[(list)->count++] = (__VA_ARGS__);                                        \
    } while (0)

/* As Python's float(): the number as written. */
static double number_of(struct kineto_span span)
{
    char text[64];
    const size_t skip = span.length && *span.text == '"';
    const size_t length = span.length - skip < sizeof text ? span.length - skip : sizeof text - 1;
    memcpy(text, span.text + skip, length);
    text[length] = '\0';
    return strtod(text, NULL);
}

static bool part_of(const struct trace_process *process, const struct kineto_row *row,
                    enum part *part_p)
{
    static const char *const names[] = {"Computing", "Communication",
                                        "Communication(Not Overlapped)", "Free"};
    if (process->layer == LAYER_HCCL && trace_starts_with(row->name, "hcom_receive")) {
        *part_p = PART_RECEIVE;
        return true;
    }
    for (unsigned i = 0; process->layer == LAYER_OVERLAP && i < PART_RECEIVE; i++)
        if (span_is(row->name, names[i])) {
            *part_p = (enum part)i;
            return true;
        }
    return false;
}

static enum rs_status take_x(struct figures *f, const struct trace_process *process,
                             const struct kineto_row *row)
{
    enum rs_status status = RS_OK;
    rs_ns start;
    int64_t number;
    enum part part;
    if (!trace_start(row, &start))
        return RS_OK;
    if (process->layer == LAYER_PYTHON) {
        const double us = number_of(row->time_text);
        f->first_us = !f->has_first || us < f->first_us ? us : f->first_us;
        f->has_first = true;
    }
    if (trace_step(row, &number))
        PUSH(&f->steps, status,
             (struct step){.number = number,
                           .host_start = start,
                           .host_end = start + trace_length(row),
                           .host_us = number_of(row->time_text),
                           .first_call = RS_NS_MAX,
                           .last_call = RS_NS_MIN,
                           .start = RS_NS_MAX,
                           .end = RS_NS_MIN});
    else if (part_of(process, row, &part))
        PUSH(&f->events, status,
             (struct event){process->device, start, number_of(row->time_text),
                            row->has_duration ? number_of(row->duration_text) : 0, part});
    if (status == RS_OK && (process->layer == LAYER_HARDWARE || process->layer == LAYER_HCCL))
        PUSH(&f->kernels, status, (struct kernel){start, start + trace_length(row)});
    return status;
}

static enum rs_status take(void *self, const struct kineto_row *row, struct rs_err *err)
{
    struct figures *f = self;
    const struct trace_process *process = trace_process_of(&f->names, row);
    enum rs_status status = RS_OK;
    struct flow flow;
    if (process && row->phase == 'X')
        status = take_x(f, process, row);
    else if (row->phase == 's' && row->category && span_is(row->category->text, "async_npu") &&
             text_integer(row->id, &flow.id) && trace_start(row, &flow.at))
        PUSH(&f->calls, status, flow);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "figures: %s", rs_status_text(status));
}

/* ---- windows ---- */

static int by_kernel(const void *a_, const void *b_)
{
    const struct kernel *a = a_, *b = b_;
    return (a->start > b->start) - (a->start < b->start);
}

static int by_step(const void *a_, const void *b_)
{
    const struct step *a = a_, *b = b_;
    return (a->host_start > b->host_start) - (a->host_start < b->host_start);
}

/* The end of what starts there; a flow's id is the start of its kernel in ns. */
static rs_ns end_of_kernel(const struct figures *f, rs_ns start)
{
    rs_ns end = start;
    size_t low = 0, high = f->kernels.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (f->kernels.items[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < f->kernels.count && f->kernels.items[low].start == start; low++)
        end = f->kernels.items[low].end > end ? f->kernels.items[low].end : end;
    return end;
}

static struct step *step_at(const struct figures *f, rs_ns at)
{
    size_t low = 0, high = f->steps.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (f->steps.items[middle].host_start <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low && at <= f->steps.items[low - 1].host_end ? &f->steps.items[low - 1] : NULL;
}

static void build_windows(struct figures *f)
{
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < f->calls.count; i++) {
            const struct flow *call = &f->calls.items[i];
            struct step *step = step_at(f, call->at);
            if (!step)
                continue;
            if (pass == 0) {
                step->first_call = call->at < step->first_call ? call->at : step->first_call;
                step->last_call = call->at > step->last_call ? call->at : step->last_call;
                continue;
            }
            const rs_ns end = end_of_kernel(f, call->id);
            if (call->at == step->first_call && call->id < step->start)
                step->start = call->id;
            if (call->at == step->last_call && end > step->end)
                step->end = end;
        }
    }
    for (size_t i = 0; i < f->steps.count; i++) {
        struct step *step = &f->steps.items[i];
        step->start = step->start == RS_NS_MAX ? step->host_start : step->start;
        step->end = step->end > step->host_end ? step->end : step->host_end;
    }
}

/* ---- sums ---- */

struct sum {
    double parts[PARTS];
    double first, last, first_work; /* us */
    bool has_events, has_work;
};

static void add_event(struct sum *sum, const struct event *event)
{
    const double end = event->us + event->length;
    sum->parts[event->part] += event->length;
    sum->first = !sum->has_events || event->us < sum->first ? event->us : sum->first;
    sum->last = !sum->has_events || end > sum->last ? end : sum->last;
    sum->has_events = true;
    if (event->part != PART_COMPUTING && event->part != PART_COMMUNICATION)
        return;
    sum->first_work = !sum->has_work || event->us < sum->first_work ? event->us : sum->first_work;
    sum->has_work = true;
}

static enum rs_status push_figures(struct figures *f, int64_t device, int64_t number,
                                   const struct sum *sum, double host_us)
{
    const double *parts = sum->parts;
    const double rest = parts[PART_EXPOSED] - parts[PART_RECEIVE];
    const struct rs_ascend_figures figures = {
        .device = device,
        .step = number,
        .computing = parts[PART_COMPUTING],
        .communication_not_overlapped = parts[PART_EXPOSED],
        .overlapped = parts[PART_COMMUNICATION] - parts[PART_EXPOSED],
        .communication = parts[PART_COMMUNICATION],
        .free = parts[PART_FREE],
        .stage = sum->last - sum->first - parts[PART_RECEIVE],
        .bubble = parts[PART_RECEIVE],
        .communication_not_overlapped_exclude_receive = rest > 0 ? rest : 0,
        .preparing = sum->has_work ? sum->first_work - host_us : 0,
    };
    const enum rs_status status =
        rs_mem_grow((void **)&f->out, &f->out_capacity, f->out_count + 1, sizeof *f->out);
    if (status == RS_OK)
        f->out[f->out_count++] = figures;
    return status;
}

/* The first step whose window holds the event; steps.count: none. */
static size_t window_of(const struct figures *f, const struct event *event)
{
    size_t i = 0;
    while (i < f->steps.count &&
           !(f->steps.items[i].start <= event->start && event->start < f->steps.items[i].end))
        i++;
    return i;
}

static int by_device(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static enum rs_status sum_device(struct figures *f, int64_t device)
{
    const size_t count = f->steps.count ? f->steps.count : 1;
    struct sum *sums = rs_mem_calloc(count, sizeof *sums);
    if (!sums)
        return RS_NOMEM;
    for (size_t i = 0; i < f->events.count; i++) {
        const struct event *event = &f->events.items[i];
        const size_t at = f->steps.count ? window_of(f, event) : 0;
        if (event->device == device && at < count)
            add_event(&sums[at], event);
    }
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        const struct step *step = f->steps.count ? &f->steps.items[i] : NULL;
        if (sums[i].has_events)
            status = push_figures(f, device, step ? step->number : RS_ASCEND_NO_STEP, &sums[i],
                                  step ? step->host_us : f->first_us);
    }
    rs_mem_free(sums);
    return status;
}

static enum rs_status sum_all(struct figures *f)
{
    int64_t *devices = rs_mem_calloc(f->names.process_count + 1, sizeof *devices);
    size_t count = 0;
    if (!devices)
        return RS_NOMEM;
    for (size_t i = 0; i < f->names.process_count; i++)
        if (f->names.processes[i].layer == LAYER_OVERLAP)
            devices[count++] = f->names.processes[i].device;
    qsort(devices, count, sizeof *devices, by_device);
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++)
        if (!i || devices[i] != devices[i - 1])
            status = sum_device(f, devices[i]);
    rs_mem_free(devices);
    return status;
}

enum rs_status rs_ascend_text_figures(const char *path, struct rs_ascend_figures **figures_p,
                                      size_t *count_p, struct rs_err *err)
{
    struct figures f = {0};
    struct rs_source_stream scratch;
    enum rs_status status = rs_source_stream_init(&scratch);
    if (status != RS_OK)
        return rs_err_set(err, status, "%s: out of memory", path);
    status = trace_names_read(&f.names, path, err);
    if (status == RS_OK)
        status = kineto_rows(path, &scratch, take, &f, err);
    if (status == RS_OK) {
        if (f.steps.count)
            qsort(f.steps.items, f.steps.count, sizeof *f.steps.items, by_step);
        if (f.kernels.count)
            qsort(f.kernels.items, f.kernels.count, sizeof *f.kernels.items, by_kernel);
        build_windows(&f);
        status = sum_all(&f);
        if (status != RS_OK)
            (void)rs_err_set(err, status, "%s: %s", path, rs_status_text(status));
    }
    if (status == RS_OK) {
        *figures_p = f.out;
        *count_p = f.out_count;
        f.out = NULL;
    }
    trace_names_fini(&f.names);
    rs_source_stream_fini(&scratch);
    rs_mem_free(f.events.items);
    rs_mem_free(f.steps.items);
    rs_mem_free(f.calls.items);
    rs_mem_free(f.kernels.items);
    rs_mem_free(f.out);
    return status;
}
