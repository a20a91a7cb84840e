/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device did, as the tables of the text form name it:
 *
 *   kernel_details.csv   operators; beside a trace they are joined to its rows by start and name
 *   communication.json   without a trace: operations, and the steps they stand under
 *
 * Without a trace a step spans the work that the tables put into it, and more where the rank's step figures say so
 * (ascend_text_steps.c). Computing and communication are then what the tables say; the host, and where there are no figures
 * preparing too, and with communication.json alone computing, are not known: the rank is partial and says so.
 */
#include "ascend/source/ascend_text.h"
#include "ascend/source/csv.h"
#include "common/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static enum rs_status no_memory(const struct text_reader *reader, enum rs_status status,
                                struct rs_err *err)
{
    return ascend_text_fail(reader, status, err);
}

/* ---- without a trace ---- */

static struct host_step *guessed_step(struct text_reader *reader, int64_t number)
{
    for (size_t i = reader->steps.count; i-- > 0;)
        if (reader->steps.items[i].number == number)
            return &reader->steps.items[i];
    enum rs_status status;
    PUSH(&reader->steps, status,
         (struct host_step){number, RS_NS_MAX, RS_NS_MIN, RS_NS_MAX, RS_NS_MIN, true});
    return status == RS_OK ? &reader->steps.items[reader->steps.count - 1] : NULL;
}

static struct kineto_span name_of(const struct text_reader *reader, rs_str name)
{
    const char *text = rs_strtab_text(&reader->a.stream->strings, name);
    return (struct kineto_span){text, strlen(text)};
}

enum rs_status ascend_text_ops_of_json(struct text_reader *reader, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < reader->json.count && status == RS_OK; i++) {
        const struct json_op *reported = &reader->json.items[i];
        struct hccl_op made = {.op = {.name = reported->name,
                                      .start = reported->start,
                                      .end = reported->end,
                                      .device = 0,
                                      .connection = -1,
                                      .id = (int64_t)i,
                                      .group = ASCEND_NO_GROUP,
                                      .count = -1,
                                      .peer = -1,
                                      .transport = RS_STR_NONE},
                               .tid = -1,
                               .step = reported->step};
        /* what a send moved is its message; a collective moves what its algorithm wants */
        if (reported->moved > 0 &&
            trace_starts_with(name_of(reader, reported->name), "hcom_send")) {
            made.op.count = reported->moved;
            (void)snprintf(made.dtype, sizeof made.dtype, "BYTE");
        }
        struct host_step *step =
            reported->step == RS_ASCEND_NO_STEP ? NULL : guessed_step(reader, reported->step);
        if (step) {
            step->host_start =
                reported->start < step->host_start ? reported->start : step->host_start;
            step->host_end = reported->end > step->host_end ? reported->end : step->host_end;
        }
        ascend_text_widen(reader, reported->start, reported->end);
        PUSH(&reader->ops, status, made);
    }
    return no_memory(reader, status, err);
}

/* ---- operators ---- */

static int by_start(const void *a_, const void *b_)
{
    const struct device_row *a = a_, *b = b_;
    return (a->start > b->start) - (a->start < b->start);
}

/* The device row that starts there, of this name if several do; NULL: none. */
static struct device_row *row_at(const struct text_reader *reader, rs_ns start, rs_str name)
{
    struct device_row *found = NULL;
    size_t low = 0, high = reader->rows.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (reader->rows.items[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < reader->rows.count && reader->rows.items[low].start == start; low++) {
        struct device_row *row = &reader->rows.items[low];
        if (row->is_emitted)
            continue;
        if (row->name == name)
            return row;
        if (!found || (row->is_computing && !found->is_computing))
            found = row;
    }
    return found;
}

static enum rs_status emit_work(struct text_reader *reader, const struct device_row *row,
                                struct rs_err *err)
{
    struct ascend *a = &reader->a;
    struct ascend_row made = {.kind = row->is_computing ? RS_KIND_KERNEL : RS_KIND_MEMCPY,
                              .flags = row->is_computing ? RS_EVENT_COMPUTING : 0,
                              .name = row->name,
                              .start = row->start,
                              .end = row->end,
                              .correlation = row->connection,
                              .external_id = -1,
                              .bytes = -1};
    enum rs_status status =
        ascend_text(a, row->is_computing ? "kernel" : "gpu_memcpy", &made.category);
    if (status == RS_OK)
        status = ascend_device_lane(a, row->device, row->stream, NULL, &made.lane);
    size_t at;
    return status == RS_OK ? ascend_emit(a, &made, &at, err) : no_memory(reader, status, err);
}

struct kernel_columns {
    int name, core, start, duration, device, stream, step;
};

/* Without a trace: the step of a row reaches at least around it. RS_ASCEND_NO_STEP: the cell names none. */
static int64_t reach_step(struct text_reader *reader, const char *cell, rs_ns start, rs_ns end)
{
    char *rest;
    errno = 0;
    const long long number = strtoll(cell, &rest, 10);
    struct host_step *step =
        rest == cell || *rest || errno ? NULL : guessed_step(reader, (int64_t)number);
    if (!step)
        return RS_ASCEND_NO_STEP;
    step->host_start = start < step->host_start ? start : step->host_start;
    step->host_end = end > step->host_end ? end : step->host_end;
    return (int64_t)number;
}

/* An operation that no other file tells of. */
static enum rs_status take_listed_op(struct text_reader *reader, const struct device_row *row,
                                     int64_t step)
{
    enum rs_status status;
    PUSH(&reader->ops, status,
         (struct hccl_op){.op = {.name = row->name,
                                 .start = row->start,
                                 .end = row->end,
                                 .device = row->device,
                                 .connection = -1,
                                 .id = (int64_t)reader->ops.count,
                                 .group = ASCEND_NO_GROUP,
                                 .count = -1,
                                 .peer = -1,
                                 .transport = RS_STR_NONE},
                          .tid = -1,
                          .step = step});
    return status;
}

/* The device's row of the trace is of the same clock as all else, and knows the launch. */
static void join_trace(struct text_reader *reader, struct device_row *made)
{
    struct device_row *known = row_at(reader, made->start, made->name);
    if (!known)
        return;
    known->is_emitted = true;
    made->connection = known->connection;
    made->end = known->end;
    made->device = known->device;
    made->stream = known->stream;
}

static enum rs_status emit_kernel(struct text_reader *reader, const struct csv *csv,
                                  const struct kernel_columns *columns, struct rs_err *err)
{
    const char *core = csv_cell(csv, columns->core);
    const char *name = csv_cell(csv, columns->name);
    const bool is_op = strcasecmp(core, "COMMUNICATION") == 0 || strcasecmp(core, "HCCL") == 0 ||
                       strncmp(name, "hcom_", 5) == 0;
    struct device_row made = {.connection = -1, .is_computing = true};
    int64_t step = RS_ASCEND_NO_STEP;
    rs_dur length;
    if (is_op && (reader->has_trace || reader->json.count))
        return RS_OK;
    if (!trace_us(csv_cell(csv, columns->start), &made.start) ||
        !trace_us(csv_cell(csv, columns->duration), &length) || made.start <= 0 || length < 0 ||
        length > RS_NS_MAX - made.start) {
        reader->a.rows_bad++;
        return RS_OK;
    }
    made.end = made.start + length;
    enum rs_status status = ascend_text(&reader->a, name, &made.name);
    if (status != RS_OK)
        return no_memory(reader, status, err);
    made.device = strtoll(csv_cell(csv, columns->device), NULL, 10);
    made.stream = strtoll(csv_cell(csv, columns->stream), NULL, 10);
    if (reader->has_trace)
        join_trace(reader, &made);
    else
        step = reach_step(reader, csv_cell(csv, columns->step), made.start, made.end);
    ascend_text_widen(reader, made.start, made.end);
    if (is_op)
        return no_memory(reader, take_listed_op(reader, &made, step), err);
    reader->has_table = true;
    if (!reader->has_trace)
        PUSH(&reader->listed, status, (struct listed_work){made.start, made.end, step});
    return status == RS_OK ? emit_work(reader, &made, err) : no_memory(reader, status, err);
}

static enum rs_status emit_kernel_table(struct text_reader *reader, const char *path,
                                        struct rs_err *err)
{
    struct csv csv;
    enum rs_status status = csv_open(&csv, path, err);
    if (status != RS_OK)
        return status;
    const struct kernel_columns columns = {.name = csv_column(&csv, "Name"),
                                           .core = csv_column(&csv, "Accelerator Core"),
                                           .start = csv_column(&csv, "Start Time(us)"),
                                           .duration = csv_column(&csv, "Duration(us)"),
                                           .device = csv_column(&csv, "Device_id"),
                                           .stream = csv_column(&csv, "Stream ID"),
                                           .step = csv_column(&csv, "Step Id")};
    const bool is_kernels = columns.name >= 0 && columns.start >= 0 && columns.duration >= 0;
    reader->a.stream->info.input_bytes += (int64_t)csv.text.length;
    while (status == RS_OK && is_kernels && csv_next(&csv))
        status = emit_kernel(reader, &csv, &columns, err);
    if (status == RS_OK && csv.is_cut)
        status =
            no_memory(reader, ascend_partial(&reader->a, "kernel_details.csv is cut off"), err);
    csv_close(&csv);
    return status;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* kernel_details.csv, or its slices of a million rows each. */
enum rs_status ascend_text_kernels(struct text_reader *reader, struct rs_err *err)
{
    const char *output = reader->a.rank->output;
    if (reader->rows.count)
        qsort(reader->rows.items, reader->rows.count, sizeof *reader->rows.items, by_start);
    LIST(char *) names = {0};
    DIR *dir = opendir(output);
    struct dirent *entry;
    enum rs_status status = RS_OK;
    while (dir && status == RS_OK && (entry = rs_dir_next(dir))) {
        const size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, "kernel_details", 14) != 0 || length < 18 ||
            strcmp(entry->d_name + length - 4, ".csv") != 0)
            continue;
        char *path = rs_file_join(output, entry->d_name);
        status = path ? RS_OK : RS_NOMEM;
        if (status == RS_OK)
            PUSH(&names, status, path);
        if (status != RS_OK)
            rs_mem_free(path);
    }
    if (dir)
        (void)closedir(dir);
    status = no_memory(reader, status, err);
    if (names.count)
        qsort(names.items, names.count, sizeof(char *), by_text);
    for (size_t i = 0; i < names.count; i++) {
        if (status == RS_OK)
            status = emit_kernel_table(reader, names.items[i], err);
        rs_mem_free(names.items[i]);
    }
    rs_mem_free(names.items);
    return status;
}

/* What no table names: copies, and operators by their type when there is no table. */
enum rs_status ascend_text_rest(struct text_reader *reader, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < reader->rows.count && status == RS_OK; i++) {
        const struct device_row *row = &reader->rows.items[i];
        if (!row->is_emitted && (row->is_copy || (row->is_computing && !reader->has_table)))
            status = emit_work(reader, row, err);
    }
    return status;
}

enum rs_status ascend_text_report_no_trace(struct text_reader *reader, struct rs_err *err)
{
    const struct rs_provenance *vendor = reader->a.stream->info.vendor;
    const bool has_own = vendor && vendor->step_count;
    bool is_whole = reader->steps.count > 0, any_whole = false;
    char text[320];
    for (size_t i = 0; i < reader->steps.count; i++) {
        is_whole = is_whole && !reader->steps.items[i].is_guess;
        any_whole = any_whole || !reader->steps.items[i].is_guess;
    }
    (void)snprintf(text, sizeof text, "no trace_view.json: the host is not known%s%s%s",
                   is_whole ? "" : ", a step spans its work",
                   reader->has_inferred
                       ? ", and without kernel_details.csv computing is the time between "
                         "operations, as far as the step figures allow"
                   : reader->has_table ? ""
                                       : ", and without kernel_details.csv computing is not known",
                   has_own ? "; the official step figures are the profiler's own" : "");
    if (reader->a.stream->info.is_partial) { /* damaged, too: that comes first */
        ascend_flaw(&reader->a, text);
        return RS_OK;
    }
    const enum rs_status status = ascend_partial(&reader->a, text);
    reader->a.stream->info.has_whole_steps = any_whole;
    return no_memory(reader, status, err);
}
