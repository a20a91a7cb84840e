/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/source/ascend_trace.h"

#include "collector/source/scan.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAMES_MAX = 1 << 20 };

bool trace_starts_with(struct kineto_span span, const char *head)
{
    const size_t length = strlen(head);
    return span.length >= length && memcmp(span.text, head, length) == 0;
}

/* ---- arguments ---- */

struct kineto_span trace_argument(const struct kineto_row *row, const char *key)
{
    const char *at = row->args.text;
    const char *end = at ? at + row->args.length : NULL;
    const size_t length = strlen(key);
    while (at && at < end) {
        at = scan_blanks(at);
        bool has_escape = false;
        const char *quote =
            at < end && *at == '"' ? scan_string_end(at + 1, end, &has_escape) : NULL;
        if (!quote)
            break;
        const char *name = at + 1;
        const size_t name_length = (size_t)(quote - name);
        at = scan_blanks(quote + 1);
        if (at >= end || *at != ':')
            break;
        at = scan_blanks(at + 1);
        const char *value_end = text_value_end(at, end + 1); /* the brace stands at `end` */
        if (!value_end)
            break;
        if (name_length == length && memcmp(name, key, length) == 0)
            return (struct kineto_span){at, (size_t)(value_end - at)};
        at = scan_blanks(value_end);
        at += at < end && *at == ',';
    }
    return (struct kineto_span){0};
}

int64_t trace_integer(const struct kineto_row *row, const char *key, int64_t absent)
{
    int64_t value;
    const struct kineto_span span = trace_argument(row, key);
    return span.text && text_integer(span, &value) ? value : absent;
}

void trace_string(const struct kineto_row *row, const char *key, char *text, size_t bytes)
{
    const struct kineto_span span = trace_argument(row, key);
    size_t length = 0;
    if (span.text && span.length >= 2 && *span.text == '"') {
        length = span.length - 2 < bytes - 1 ? span.length - 2 : bytes - 1;
        memcpy(text, span.text + 1, length);
    }
    text[length] = '\0';
}

/* ---- times ---- */

bool trace_us(const char *text, int64_t *ns_p)
{
    struct kineto_decimal decimal;
    const char *end = text_decimal(text, &decimal);
    int64_t ns;
    if (!end || __builtin_mul_overflow(decimal.whole, 1000, &ns) ||
        __builtin_add_overflow(ns, decimal.thousandths, &ns))
        return false;
    if (decimal.has_fraction && !decimal.is_exact) {
        const char *point = memchr(text, '.', (size_t)(end - text));
        unsigned places = 0;
        while (point && places < 4 && (unsigned)(point[places + 1] - '0') < 10)
            places++;
        if (places == 4 && point[4] >= '5' && !memchr(text, 'e', (size_t)(end - text)))
            ns++;
    }
    *ns_p = decimal.is_negative ? -ns : ns;
    return true;
}

bool trace_start(const struct kineto_row *row, rs_ns *start_p)
{
    return row->has_time && trace_us(row->time_text.text, start_p) && *start_p > 0;
}

rs_dur trace_length(const struct kineto_row *row)
{
    int64_t length;
    return row->has_duration && trace_us(row->duration_text.text, &length) && length > 0 ? length
                                                                                         : 0;
}

bool trace_step(const struct kineto_row *row, int64_t *number_p)
{
    const size_t head = sizeof "ProfilerStep#" - 1;
    if (!row->has_name || !trace_starts_with(row->name, "ProfilerStep#"))
        return false;
    return text_plain_integer((struct kineto_span){row->name.text + head, row->name.length - head},
                              number_p) &&
           *number_p >= 0;
}

/* ---- M rows ---- */

static struct trace_process *process_of(struct trace_names *names, int64_t pid)
{
    if (names->last && names->last->pid == pid)
        return names->last;
    for (size_t i = names->process_count; i-- > 0;)
        if (names->processes[i].pid == pid)
            return names->last = &names->processes[i];
    return NULL;
}

static enum rs_status add_process(struct trace_names *names, int64_t pid,
                                  struct trace_process **process_p)
{
    *process_p = process_of(names, pid);
    if (*process_p)
        return RS_OK;
    if (names->process_count >= 4096)
        return RS_LIMIT;
    const enum rs_status status = rs_mem_grow((void **)&names->processes, &names->process_capacity,
                                              names->process_count + 1, sizeof *names->processes);
    if (status != RS_OK)
        return status;
    names->last = *process_p = &names->processes[names->process_count++];
    **process_p = (struct trace_process){.pid = pid, .device = -1};
    return RS_OK;
}

static enum trace_layer layer_of(const char *name)
{
    static const struct {
        const char *name;
        enum trace_layer layer;
    } layers[] = {{"Python", LAYER_PYTHON},
                  {"CANN", LAYER_CANN},
                  {"Ascend Hardware", LAYER_HARDWARE},
                  {"HCCL", LAYER_HCCL},
                  {"Communication", LAYER_HCCL},
                  {"Overlap Analysis", LAYER_OVERLAP},
                  {"CPU OP", LAYER_CPU_OP}};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        if (strcasecmp(name, layers[i].name) == 0)
            return layers[i].layer;
    return LAYER_OTHER;
}

static enum rs_status add_thread(struct trace_names *names, const struct kineto_row *row)
{
    char name[128];
    trace_string(row, "name", name, sizeof name);
    struct trace_thread thread = {.pid = row->pid.value, .tid = row->tid.value, .plane = -1};
    thread.is_group = strncmp(name, "Group", 5) == 0 && strstr(name, "Communication") != NULL;
    thread.is_plane = strncmp(name, "Plane", 5) == 0;
    if (thread.is_plane)
        thread.plane = strtoll(name + 5, NULL, 10);
    if (!thread.is_group && !thread.is_plane)
        return RS_OK;
    if (names->thread_count >= NAMES_MAX)
        return RS_LIMIT;
    const enum rs_status status = rs_mem_grow((void **)&names->threads, &names->thread_capacity,
                                              names->thread_count + 1, sizeof *names->threads);
    if (status == RS_OK)
        names->threads[names->thread_count++] = thread;
    return status;
}

static enum rs_status take_name(void *self, const struct kineto_row *row, struct rs_err *err)
{
    struct trace_names *names = self;
    struct trace_process *process;
    char text[128] = "";
    if (row->phase != 'M' || !row->has_name || row->pid.value == KINETO_NO_ID)
        return RS_OK;
    enum rs_status status = RS_OK;
    if (span_is(row->name, "process_name")) {
        status = add_process(names, row->pid.value, &process);
        trace_string(row, "name", text, sizeof text);
        if (status == RS_OK)
            process->layer = layer_of(text);
    } else if (span_is(row->name, "process_labels")) {
        status = add_process(names, row->pid.value, &process);
        trace_string(row, "labels", text, sizeof text);
        if (status == RS_OK && strncmp(text, "NPU ", 4) == 0 && text[4] >= '0' && text[4] <= '9')
            process->device = strtoll(text + 4, NULL, 10);
    } else if (span_is(row->name, "thread_name")) {
        status = add_thread(names, row);
    }
    return status == RS_OK
               ? RS_OK
               : rs_err_set(err, status, "names of processes: %s", rs_status_text(status));
}

static int by_place(const void *a_, const void *b_)
{
    const struct trace_thread *a = a_, *b = b_;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    return (a->tid > b->tid) - (a->tid < b->tid);
}

enum rs_status trace_names_read(struct trace_names *names, const char *path, struct rs_err *err)
{
    struct rs_source_stream scratch;
    *names = (struct trace_names){0};
    enum rs_status status = rs_source_stream_init(&scratch);
    if (status != RS_OK)
        return rs_err_set(err, status, "%s: out of memory", path);
    status = kineto_rows(path, &scratch, take_name, names, err);
    rs_source_stream_fini(&scratch);
    names->last = NULL;
    if (names->thread_count)
        qsort(names->threads, names->thread_count, sizeof *names->threads, by_place);
    return status;
}

void trace_names_fini(struct trace_names *names)
{
    rs_mem_free(names->processes);
    rs_mem_free(names->threads);
    *names = (struct trace_names){0};
}

const struct trace_process *trace_process_of(struct trace_names *names,
                                             const struct kineto_row *row)
{
    return process_of(names, row->pid.value);
}

/* Index of the first thread at or behind a place. */
static size_t lower_bound(const struct trace_names *names, int64_t pid, int64_t tid)
{
    const struct trace_thread key = {.pid = pid, .tid = tid};
    size_t low = 0, high = names->thread_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_place(&names->threads[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct trace_thread *trace_thread_of(const struct trace_names *names, int64_t pid,
                                           int64_t tid)
{
    const size_t at = lower_bound(names, pid, tid);
    const bool is_there =
        at < names->thread_count && names->threads[at].pid == pid && names->threads[at].tid == tid;
    return is_there ? &names->threads[at] : NULL;
}

const struct trace_thread *trace_group_above(const struct trace_names *names,
                                             const struct trace_thread *plane)
{
    for (size_t at = lower_bound(names, plane->pid, plane->tid); at-- > 0;) {
        if (names->threads[at].pid != plane->pid)
            break;
        if (names->threads[at].is_group)
            return &names->threads[at];
    }
    return NULL;
}
