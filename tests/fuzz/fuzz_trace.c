/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope trace` on any recording: Kineto JSON as the reader takes it, and what is made of its calls. Promises held here: no crash; who
 * holds a call stands before it, and it is held by nobody else's; sums are of no more calls than there are; every line of the stacks ends
 * with a number; what is meant for a terminal steers none; memory over time and operators as JSON are JSON.
 */
#include "aggregator/trace/averages.h"
#include "aggregator/trace/memory.h"
#include "aggregator/trace/stacks.h"
#include "collector/source/kineto.h"
#include "common/base/check.h"

#include <jansson.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum rs_status take(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    return rs_trace_calls_add(self, batch, err);
}

static bool is_json(const struct rs_buf *text)
{
    json_t *root =
        json_loadb((const char *)text->data, text->length,
                   JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | JSON_DISABLE_EOF_CHECK, NULL);
    json_decref(root);
    return root != NULL;
}

static void check_calls(const struct rs_trace_calls *calls)
{
    for (size_t i = 0; i < calls->count; i++) {
        const struct rs_trace_call *call = &calls->items[i];
        RS_CHECK(call->parent == RS_NO_CALL || call->parent < i);
        RS_CHECK(call->op == RS_NO_CALL || call->op < i);
        RS_CHECK(call->frame == RS_NO_CALL ||
                 (call->frame < i && calls->items[call->frame].kind == RS_KIND_PYTHON));
        RS_CHECK(call->self >= 0 && call->own >= 0 && call->self <= call->end - call->start);
    }
    for (size_t i = 0; i < calls->device_count; i++)
        RS_CHECK(calls->device_rows[i].call == RS_NO_CALL ||
                 calls->device_rows[i].call < calls->count);
}

static void sum_up(const struct rs_trace_calls *calls, const struct rs_strtab *strings,
                   unsigned seed)
{
    const struct rs_averages_options how = {.by_shapes = seed & 1, .stack_frames = seed & 2};
    const enum rs_average_sort sort = (enum rs_average_sort)(seed % RS_AVERAGE_SORT_COUNT);
    struct rs_averages_form form = {.row_limit = SIZE_MAX, .form = RS_AVERAGES_TEXT};
    struct rs_averages averages;
    struct rs_buf out = {0};
    uint64_t counted = 0;
    RS_CHECK(rs_averages_init(&averages, &how) == RS_OK);
    RS_CHECK(rs_averages_add(&averages, 1, calls, strings, NULL) == RS_OK);
    rs_averages_sort(&averages, sort);
    for (size_t i = 0; i < averages.count; i++)
        counted += averages.items[i].count;
    RS_CHECK(counted <= calls->count + calls->device_count);
    rs_averages_write(&averages, &form, &out);
    for (size_t i = 0; i < out.length; i++)
        RS_CHECK(out.data[i] == '\n' || (out.data[i] >= ' ' && out.data[i] != 0x7f));
    rs_buf_reset(&out);
    form.form = RS_AVERAGES_CSV;
    rs_averages_write(&averages, &form, &out);
    rs_buf_reset(&out);
    form.form = RS_AVERAGES_JSON;
    rs_averages_write(&averages, &form, &out);
    RS_CHECK(is_json(&out));
    rs_buf_fini(&out);
    rs_averages_fini(&averages);
}

static void stack_up(const struct rs_trace_calls *calls, const struct rs_strtab *strings,
                     enum rs_stack_metric metric)
{
    const struct rs_stacks_form how = {.metric = metric, .limit_bytes = 1 << 20};
    struct rs_buf out = {0};
    uint64_t lines = 0, seen = 0;
    const enum rs_status status = rs_stacks_write(calls, strings, &how, &out, &lines, NULL);
    RS_CHECK(status == RS_OK || status == RS_LIMIT);
    for (size_t i = 0; i < out.length; i++)
        if (out.data[i] == '\n') {
            RS_CHECK(i && out.data[i - 1] >= '0' && out.data[i - 1] <= '9');
            seen++;
        }
    RS_CHECK(seen == lines);
    rs_buf_fini(&out);
}

static void draw(const struct rs_trace_calls *calls, rs_ns base_ns)
{
    struct rs_memory_device device = {.type = 0, .index = -1};
    struct rs_memory_timeline timeline;
    struct rs_err err = {0};
    struct rs_buf out = {0};
    (void)rs_memory_device_default(calls, &device);
    if (rs_memory_timeline_new(calls, base_ns, &device, &timeline, &err) != RS_OK) {
        RS_CHECK(err.text[0]);
        return;
    }
    RS_CHECK(timeline.count <= 2 * calls->memory_count);
    rs_memory_write_sizes(&timeline, &out);
    RS_CHECK(is_json(&out));
    rs_buf_reset(&out);
    rs_memory_write_events(&timeline, &out);
    RS_CHECK(is_json(&out));
    rs_memory_write_page(&timeline, "<any>", &out);
    rs_buf_fini(&out);
    rs_memory_timeline_fini(&timeline);
}

/* Shapes and values of an operator's inputs are texts of the file, too. */
static void count_operations(const struct rs_trace_calls *calls, const struct rs_strtab *strings)
{
    static const char *const names[] = {"aten::mm", "aten::addmm", "aten::bmm", "aten::conv2d"};
    for (size_t i = 0; i < calls->count; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            if (calls->items[i].dims != RS_STR_NONE)
                RS_CHECK(rs_flops_of(names[k], rs_strtab_text(strings, calls->items[i].dims),
                                     rs_strtab_text(strings, calls->items[i].concrete)) >= -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct rs_source_stream stream;
    struct rs_trace_calls calls = {0};
    char path[64];
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    RS_CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    RS_CHECK(rs_source_stream_init(&stream) == RS_OK);
    const enum rs_status status =
        rs_kineto_read(path, size & 1 ? RS_SOURCE_LOSSLESS : 0, &stream,
                       (struct rs_sink){.batch = take, .self = &calls}, NULL);
    if (status >= 0 && (calls.count || calls.device_count || calls.memory_count)) {
        RS_CHECK(rs_trace_calls_nest(&calls, NULL) == RS_OK);
        check_calls(&calls);
        sum_up(&calls, &stream.strings, (unsigned)size);
        stack_up(&calls, &stream.strings, RS_STACK_SELF_CPU);
        stack_up(&calls, &stream.strings, RS_STACK_SELF_DEVICE);
        draw(&calls, stream.info.has_time_base ? stream.info.base_ns : 0);
        count_operations(&calls, &stream.strings);
    }
    rs_trace_calls_fini(&calls);
    rs_source_stream_fini(&stream);
    return 0;
}
