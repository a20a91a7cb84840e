/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/trace/memory.h"

#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- devices ------------------------------------------------------------------------------------------------------- */

static const struct {
    int32_t type; /* c10's DeviceType */
    const char *word;
} types[] = {{0, "cpu"}, {1, "cuda"}, {12, "xpu"}, {19, "mtia"}, {20, "npu"}};

bool rs_memory_device_named(const char *word, struct rs_memory_device *device_p)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const size_t length = strlen(types[i].word);
        char *end = NULL;
        if (strncmp(word, types[i].word, length) != 0)
            continue;
        if (!word[length]) {
            *device_p = (struct rs_memory_device){.type = types[i].type, .index = -1};
            return true;
        }
        if (word[length] != ':' || word[length + 1] < '0' || word[length + 1] > '9')
            return false;
        const long index = strtol(word + length + 1, &end, 10);
        if (*end || index > INT32_MAX || (types[i].type == 0 && index != 0))
            return false;
        /* The host's rows name no number. */
        *device_p = (struct rs_memory_device){.type = types[i].type,
                                              .index = types[i].type == 0 ? -1 : (int32_t)index};
        return true;
    }
    return false;
}

void rs_memory_device_text(const struct rs_memory_device *device, char *text, size_t size)
{
    const char *word = "an unknown device";
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].type == device->type)
            word = types[i].word;
    if (device->index < 0)
        (void)snprintf(text, size, "%s", word);
    else
        (void)snprintf(text, size, "%s:%" PRId32, word, device->index);
}

static struct rs_memory_device device_of(const struct rs_trace_memory *row)
{
    return (struct rs_memory_device){.type = row->device_type,
                                     .index = row->device_type == 0 ? -1 : row->device};
}

bool rs_memory_device_default(const struct rs_trace_calls *calls, struct rs_memory_device *device_p)
{
    for (size_t i = 0; i < calls->memory_count; i++) {
        *device_p = device_of(&calls->memory_rows[i]);
        if (device_p->type > 0)
            return true;
    }
    return calls->memory_count > 0;
}

static bool is_of(const struct rs_trace_memory *row, const struct rs_memory_device *device)
{
    const struct rs_memory_device own = device_of(row);
    return own.type == device->type && own.index == device->index;
}

/* The number of a device that was named without one. */
static void settle_index(const struct rs_trace_calls *calls, struct rs_memory_device *device)
{
    for (size_t i = 0; device->type > 0 && device->index < 0 && i < calls->memory_count; i++)
        if (calls->memory_rows[i].device_type == device->type)
            device->index = calls->memory_rows[i].device;
}

static enum rs_status say_which(const struct rs_trace_calls *calls,
                                const struct rs_memory_device *device, struct rs_err *err)
{
    char wanted[32], other[32];
    struct rs_memory_device is_there;
    rs_memory_device_text(device, wanted, sizeof wanted);
    if (!calls->memory_count)
        return rs_err_set(
            err, RS_NOTFOUND,
            "no allocation was recorded: record with profile_memory (capture --profile-memory)");
    is_there = device_of(&calls->memory_rows[0]);
    rs_memory_device_text(&is_there, other, sizeof other);
    return rs_err_set(err, RS_NOTFOUND, "nothing was recorded of %s: %s is there", wanted, other);
}

/* ---- what was allocated when --------------------------------------------------------------------------------------- */

static int by_address(const void *a_, const void *b_)
{
    const struct rs_trace_memory *a = *(const struct rs_trace_memory *const *)a_,
                                 *b = *(const struct rs_trace_memory *const *)b_;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return a < b ? -1 : a > b; /* they stand by time */
}

static int by_time(const void *a_, const void *b_)
{
    const struct rs_memory_event *a = a_, *b = b_;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (int)a->action - (int)b->action;
}

static enum rs_status add_event(struct rs_memory_timeline *timeline, rs_ns time,
                                enum rs_memory_action action, int64_t bytes)
{
    /* What is subtracted from it later must not overflow. */
    if (time < -1 || time > INT64_MAX / 2) {
        timeline->unknown++;
        return RS_OK;
    }
    if (rs_mem_grow((void **)&timeline->events, &timeline->capacity, timeline->count + 1,
                    sizeof *timeline->events) != RS_OK)
        return RS_NOMEM;
    timeline->events[timeline->count++] =
        (struct rs_memory_event){.time = time, .action = action, .bytes = bytes};
    return RS_OK;
}

/* The rows of one address, in order of time: a block that is freed was allocated by the row before, or was there before. */
static enum rs_status add_address(struct rs_memory_timeline *timeline,
                                  const struct rs_trace_memory *const *rows, size_t count,
                                  rs_ns base_ns)
{
    bool is_live = false;
    rs_ns time;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        const struct rs_trace_memory *row = rows[i];
        if (__builtin_add_overflow(base_ns, row->time, &time)) {
            timeline->unknown++;
            continue;
        }
        if (row->bytes >= 0) {
            status = add_event(timeline, time, RS_MEMORY_CREATE, row->bytes);
            is_live = true;
            continue;
        }
        if (row->address < 0 || row->bytes == INT64_MIN) {
            timeline->unknown++;
            continue;
        }
        if (!is_live)
            status = add_event(timeline, -1, RS_MEMORY_PREEXISTING, -row->bytes);
        if (status == RS_OK)
            status = add_event(timeline, time, RS_MEMORY_DESTROY, row->bytes);
        is_live = false;
    }
    return status;
}

static void find_peak(struct rs_memory_timeline *timeline)
{
    uint64_t sum = 0; /* sums of what a stranger's file says may go round */
    for (size_t i = 0; i < timeline->count; i++) {
        sum += (uint64_t)timeline->events[i].bytes;
        const int64_t now = (int64_t)sum;
        timeline->peak_bytes = now > timeline->peak_bytes ? now : timeline->peak_bytes;
    }
}

enum rs_status rs_memory_timeline_new(const struct rs_trace_calls *calls, rs_ns base_ns,
                                      const struct rs_memory_device *device,
                                      struct rs_memory_timeline *timeline_p, struct rs_err *err)
{
    struct rs_memory_device wanted = *device;
    size_t count = 0;
    enum rs_status status = RS_OK;
    settle_index(calls, &wanted);
    *timeline_p = (struct rs_memory_timeline){0};
    const struct rs_trace_memory **rows =
        rs_mem_calloc(calls->memory_count + 1, sizeof(const struct rs_trace_memory *));
    if (!rows)
        return rs_err_set(err, RS_NOMEM, "no memory for a timeline of memory");
    for (size_t i = 0; i < calls->memory_count; i++)
        if (is_of(&calls->memory_rows[i], &wanted))
            rows[count++] = &calls->memory_rows[i];
    if (count)
        qsort(rows, count, sizeof(const struct rs_trace_memory *), by_address);
    for (size_t i = 0, end; i < count && status == RS_OK; i = end) {
        for (end = i + 1; end < count && rows[end]->address == rows[i]->address; end++)
            ;
        status = add_address(timeline_p, rows + i, end - i, base_ns);
    }
    rs_mem_free(rows);
    if (status != RS_OK) {
        rs_memory_timeline_fini(timeline_p);
        return rs_err_set(err, status, "no memory for a timeline of memory");
    }
    if (!timeline_p->count) {
        rs_memory_timeline_fini(timeline_p);
        return say_which(calls, device, err);
    }
    qsort(timeline_p->events, timeline_p->count, sizeof *timeline_p->events, by_time);
    find_peak(timeline_p);
    return RS_OK;
}

void rs_memory_timeline_fini(struct rs_memory_timeline *timeline)
{
    rs_mem_free(timeline->events);
    *timeline = (struct rs_memory_timeline){0};
}

/* ---- written ------------------------------------------------------------------------------------------------------- */

/* When the recording saw its first row: what was there before is shown from then on. */
static rs_ns first_time(const struct rs_memory_timeline *timeline)
{
    for (size_t i = 0; i < timeline->count; i++)
        if (timeline->events[i].action != RS_MEMORY_PREEXISTING)
            return timeline->events[i].time;
    return 0;
}

/* Rows of one microsecond are one. */
static bool ends_point(const struct rs_memory_timeline *timeline, size_t at, rs_ns first)
{
    if (at + 1 == timeline->count)
        return true;
    const struct rs_memory_event *this = &timeline->events[at], *next = &timeline->events[at + 1];
    const rs_ns now = this->action == RS_MEMORY_PREEXISTING ? first : this->time;
    const rs_ns then = next->action == RS_MEMORY_PREEXISTING ? first : next->time;
    return now / 1000 != then / 1000;
}

void rs_memory_write_sizes(const struct rs_memory_timeline *timeline, struct rs_buf *out)
{
    const rs_ns first = first_time(timeline);
    const char *comma = "";
    int64_t now = 0;
    rs_buf_string(out, "[[");
    for (size_t i = 0; i < timeline->count; i++) {
        const struct rs_memory_event *event = &timeline->events[i];
        if (!ends_point(timeline, i, first))
            continue;
        rs_buf_printf(out, "%s%" PRId64, comma,
                      (event->action == RS_MEMORY_PREEXISTING ? first : event->time) / 1000);
        comma = ", ";
    }
    rs_buf_string(out, "], [");
    comma = "";
    for (size_t i = 0; i < timeline->count; i++) {
        now = (int64_t)((uint64_t)now + (uint64_t)timeline->events[i].bytes);
        if (!ends_point(timeline, i, first))
            continue;
        rs_buf_printf(out, "%s[0", comma);
        for (unsigned category = 0; category < RS_MEMORY_CATEGORIES; category++)
            rs_buf_printf(out, ", %" PRId64, category == RS_MEMORY_NO_CATEGORY ? now : INT64_C(0));
        rs_buf_u8(out, ']');
        comma = ", ";
    }
    rs_buf_string(out, "]]\n");
}

void rs_memory_write_events(const struct rs_memory_timeline *timeline, struct rs_buf *out)
{
    rs_buf_u8(out, '[');
    for (size_t i = 0; i < timeline->count; i++) {
        const struct rs_memory_event *event = &timeline->events[i];
        rs_buf_printf(out, "%s[%" PRId64 ", %d, %" PRId64 ", %d]", i ? ", " : "", event->time,
                      (int)event->action, event->bytes, RS_MEMORY_NO_CATEGORY);
    }
    rs_buf_string(out, "]\n");
}

/* ---- a picture ----------------------------------------------------------------------------------------------------- */

enum { WIDTH = 1200, HEIGHT = 480 };

/* The most that was allocated in each column of the picture, so that no peak is lost however many rows there are. */
static void fill_columns(const struct rs_memory_timeline *timeline, int64_t columns[WIDTH])
{
    const rs_ns first = first_time(timeline);
    const rs_dur length = timeline->events[timeline->count - 1].time - first;
    int64_t now = 0;
    size_t column = 0;
    for (size_t i = 0; i < timeline->count; i++) {
        const struct rs_memory_event *event = &timeline->events[i];
        const rs_dur since = event->action == RS_MEMORY_PREEXISTING ? 0 : event->time - first;
        const size_t at =
            length > 0 ? (size_t)((double)since / (double)length * (WIDTH - 1)) : (size_t)0;
        for (; column < at && column < WIDTH - 1; column++)
            columns[column + 1] = now;
        now = (int64_t)((uint64_t)now + (uint64_t)event->bytes);
        columns[column] = now > columns[column] ? now : columns[column];
    }
}

static void write_escaped(struct rs_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            rs_buf_printf(out, "&#%d;", *text);
        else
            rs_buf_u8(out, (uint8_t)*text);
    }
}

void rs_memory_write_page(const struct rs_memory_timeline *timeline, const char *title,
                          struct rs_buf *out)
{
    int64_t columns[WIDTH] = {0};
    const double peak = timeline->peak_bytes > 0 ? (double)timeline->peak_bytes : 1.0;
    const rs_dur length = timeline->events[timeline->count - 1].time - first_time(timeline);
    fill_columns(timeline, columns);
    rs_buf_string(out, "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>");
    write_escaped(out, title);
    rs_buf_string(
        out, "</title>\n<body style=\"font-family: sans-serif\"><h1 style=\"font-size: 1.2em\">");
    write_escaped(out, title);
    rs_buf_printf(
        out,
        "</h1>\n<p>At most %.3f MiB allocated at a time, of what was seen; %.3f ms. What it was "
        "allocated for, a trace does not tell.</p>\n"
        "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n"
        "<path fill=\"grey\" d=\"M0 %d",
        (double)timeline->peak_bytes / 1048576.0, (double)length / 1e6, WIDTH, HEIGHT, WIDTH,
        HEIGHT, HEIGHT);
    for (size_t i = 0; i < WIDTH; i++) {
        const double share = columns[i] > 0 ? (double)columns[i] / peak : 0.0;
        rs_buf_printf(out, "V%.1fh1", HEIGHT * (1.0 - share));
    }
    rs_buf_printf(out, "V%dZ\"/>\n</svg></body></html>\n", HEIGHT);
}
