/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the text form that no figure of a step is made of: memory, networks, buses, statistics.
 *
 *     with instants       memory_record, npu_module_mem, nic, roce, kernel_details, ...  COUNTER
 *     allocations         operator_memory                                                MEMORY, one up, one down
 *     of the whole time   pcie, hccs, op_statistic, api_statistic, l2_cache, ...         COUNTER over the recording
 *
 * Each is optional, split into NAME_slice_N.csv or not, and read by column names; its name is the category of its
 * rows, and all cells of a row that hold something stand in extra (of a table's first row all cells, so that its columns are
 * known). A row whose time is not known is there all the same, without one. They are emitted by a lossless reading only and
 * never counted as read; operators of kernel_details are events besides (ascend_text_work.c). A table that is not known is left
 * out, with a note in either reading.
 */
#include "ascend/format/num.h"
#include "ascend/source/ascend_priv.h"
#include "ascend/source/ascend_trace.h"
#include "ascend/source/csv.h"
#include "common/base/file.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum shape {
    TIMED,
    ALLOCATIONS,
    WHOLE,
    ELSEWHERE, /* other files of this room read it */
};

static const struct known {
    const char *stem;
    enum shape shape;
    bool is_of_host;
    const char *name; /* the column that names a row; NULL: the label does */
    const char *label;
} known_tables[] = {
    {"kernel_details", TIMED, false, "Name", "kernel"},
    {"step_trace_time", ELSEWHERE, false, NULL, NULL},
    {"memory_record", TIMED, false, NULL, "memory"},
    {"npu_module_mem", TIMED, false, NULL, "NPU module memory"},
    {"nic", TIMED, false, NULL, "NIC"},
    {"roce", TIMED, false, NULL, "RoCE"},
    {"data_preprocess", TIMED, true, "Node", "data preprocess"},
    {"operator_memory", ALLOCATIONS, false, "Name", "allocation"},
    {"pcie", WHOLE, false, "Mode", "PCIe"},
    {"hccs", WHOLE, false, "Mode", "HCCS"},
    {"op_statistic", WHOLE, false, "OP Type", "operators"},
    {"api_statistic", WHOLE, true, "API Name", "calls"},
    {"operator_details", WHOLE, true, "Name", "operator"},
    {"l2_cache", WHOLE, false, "Op Name", "L2 cache"},
    {"soc_pmu", WHOLE, false, NULL, "SoC PMU"},
};

/* Columns of MB whose value is a counter of its own, in bytes; named as those of a database are. */
static const struct {
    const char *stem, *column, *name;
} counted[] = {
    {"memory_record", "Total Allocated(MB)", "memory allocated"},
    {"memory_record", "Total Reserved(MB)", "memory reserved"},
    {"npu_module_mem", "Total Reserved(MB)", "NPU module memory"},
};

enum { NOTES_MAX = 16, NOTE_NAME_MAX = 80 };

struct tables {
    struct ascend *a;
    rs_ns first, last; /* of the recording; last < first: there is none */
    unsigned notes;
    const struct known *known; /* the table being read */
    struct csv csv;
    rs_str category;
    int time, device, name;
    bool is_first; /* no row of this table was emitted yet */
};

static enum rs_status with_path(const struct tables *tables, enum rs_status status,
                                struct rs_err *err)
{
    return status == RS_OK
               ? RS_OK
               : rs_err_set(err, status, "%s: %s", tables->a->rank->output, rs_status_text(status));
}

/* ---- cells ---- */

/* A number of units -> bytes; false when it is none, or too large. */
static bool bytes_of(const char *text, double unit, int64_t *bytes_p)
{
    char *end;
    const double value = strtod(text, &end) * unit;
    if (end == text || *end || !(fabs(value) < 9e18))
        return false;
    *bytes_p = llround(value);
    return true;
}

/* "NPU:3", "3"; 0 otherwise. */
static int64_t device_of(const struct tables *tables)
{
    const char *text = csv_cell(&tables->csv, tables->device);
    const char *colon = strrchr(text, ':');
    const char *digits = colon ? colon + 1 : text;
    char *end;
    errno = 0;
    const long long device = strtoll(digits, &end, 10);
    return end != digits && !*end && !errno && device >= 0 ? device : 0;
}

/* All cells that hold something, as members of a JSON object. */
static enum rs_status put_extra(struct tables *tables, size_t at)
{
    const struct csv *csv = &tables->csv;
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_object(&json);
    for (size_t i = 0; i < csv->header_count; i++) {
        const char *cell = csv_cell(csv, (int)i);
        const size_t length = strlen(cell);
        if (!length && !tables->is_first)
            continue;
        rs_json_out_key(&json, csv->header[i]);
        if (length && rs_ascend_num_scan(cell, length) == length)
            rs_json_out_number(&json, cell);
        else
            rs_json_out_bytes(&json, cell, length);
    }
    rs_json_out_end(&json);
    tables->is_first = false;
    enum rs_status status = buf.failed ? RS_NOMEM : RS_OK;
    if (status == RS_OK && buf.length > 2) /* without its braces */
        status = rs_batch_extra(&tables->a->batch, at, (const char *)buf.data + 1, buf.length - 2);
    rs_buf_fini(&buf);
    return status;
}

/* ---- rows ---- */

static enum rs_status start_row(const struct tables *tables, struct ascend_row *row_p)
{
    const char *cell = csv_cell(&tables->csv, tables->name);
    *row_p = (struct ascend_row){.kind = RS_KIND_COUNTER,
                                 .flags = RS_EVENT_NO_END,
                                 .category = tables->category,
                                 .correlation = -1,
                                 .external_id = -1,
                                 .bytes = -1};
    const enum rs_status status =
        ascend_text(tables->a, *cell ? cell : tables->known->label, &row_p->name);
    if (status != RS_OK)
        return status;
    return tables->known->is_of_host
               ? ascend_host_lane(tables->a, 0, 0, &row_p->lane)
               : ascend_device_lane(tables->a, device_of(tables), 0, NULL, &row_p->lane);
}

static enum rs_status emit(struct tables *tables, const struct ascend_row *row, bool has_extra,
                           struct rs_err *err)
{
    size_t at;
    const enum rs_status status = ascend_emit(tables->a, row, &at, err);
    return status == RS_OK && has_extra ? with_path(tables, put_extra(tables, at), err) : status;
}

/* One counter per counted column, else one for the row; the first has the cells. */
static enum rs_status emit_timed(struct tables *tables, struct rs_err *err)
{
    struct ascend_row row;
    bool has_extra = true;
    enum rs_status status = with_path(tables, start_row(tables, &row), err);
    if (!trace_us(csv_cell(&tables->csv, tables->time), &row.start)) {
        row.start = 0;
        row.flags |= RS_EVENT_NO_TIME;
    }
    row.end = row.start;
    for (size_t i = 0; i < sizeof counted / sizeof counted[0] && status == RS_OK; i++) {
        const int column = csv_column(&tables->csv, counted[i].column);
        if (strcmp(counted[i].stem, tables->known->stem) != 0 ||
            !bytes_of(csv_cell(&tables->csv, column), 1048576, &row.bytes) || row.bytes < 0)
            continue;
        status = with_path(tables, ascend_text(tables->a, counted[i].name, &row.name), err);
        if (status == RS_OK)
            status = emit(tables, &row, has_extra, err);
        has_extra = false;
    }
    row.bytes = -1;
    return status == RS_OK && has_extra ? emit(tables, &row, true, err) : status;
}

static enum rs_status emit_allocation(struct tables *tables, struct rs_err *err)
{
    struct ascend_row row;
    int64_t bytes;
    bool has_extra = true;
    const int release = csv_column(&tables->csv, "Release Time(us)");
    const int size = csv_column(&tables->csv, "Size(KB)");
    enum rs_status status = with_path(tables, start_row(tables, &row), err);
    if (status != RS_OK)
        return status;
    const bool has_size = bytes_of(csv_cell(&tables->csv, size), 1024, &bytes);
    row.kind = RS_KIND_MEMORY;
    if (has_size && trace_us(csv_cell(&tables->csv, tables->time), &row.start)) {
        row.end = row.start;
        row.bytes = bytes;
        status = emit(tables, &row, has_extra, err);
        has_extra = false;
    }
    if (status == RS_OK && has_size && trace_us(csv_cell(&tables->csv, release), &row.start)) {
        row.end = row.start;
        row.bytes = -bytes;
        status = emit(tables, &row, has_extra, err);
        has_extra = false;
    }
    if (status != RS_OK || !has_extra)
        return status;
    row.kind = RS_KIND_COUNTER; /* nobody knows how much, or when */
    row.flags |= RS_EVENT_NO_TIME;
    row.start = row.end = 0;
    return emit(tables, &row, true, err);
}

static enum rs_status emit_whole(struct tables *tables, struct rs_err *err)
{
    struct ascend_row row;
    const enum rs_status status = with_path(tables, start_row(tables, &row), err);
    if (status != RS_OK)
        return status;
    if (tables->last < tables->first) {
        row.flags |= RS_EVENT_NO_TIME;
        return emit(tables, &row, true, err);
    }
    row.flags = 0;
    row.start = tables->first;
    row.end = tables->last;
    return emit(tables, &row, true, err);
}

/* ---- tables ---- */

static int column_of_device(const struct csv *csv)
{
    static const char *const names[] = {"Device_id", "Device Type", "Device"};
    int column = CSV_NO_COLUMN;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && column == CSV_NO_COLUMN; i++)
        column = csv_column(csv, names[i]);
    return column;
}

static enum rs_status emit_rows(struct tables *tables, struct rs_err *err)
{
    const struct known *known = tables->known;
    enum rs_status status =
        with_path(tables, ascend_text(tables->a, known->stem, &tables->category), err);
    tables->time = csv_column(&tables->csv, known->shape == ALLOCATIONS ? "Allocation Time(us)"
                                                                        : "Timestamp(us)");
    if (tables->time == CSV_NO_COLUMN && known->shape == TIMED)
        tables->time = csv_column(&tables->csv, "Start Time(us)");
    tables->is_first = true;
    tables->device = column_of_device(&tables->csv);
    tables->name = known->name ? csv_column(&tables->csv, known->name) : CSV_NO_COLUMN;
    while (status == RS_OK && csv_next(&tables->csv))
        status = known->shape == TIMED         ? emit_timed(tables, err)
                 : known->shape == ALLOCATIONS ? emit_allocation(tables, err)
                                               : emit_whole(tables, err);
    return status;
}

static enum rs_status note(struct tables *tables, const char *what, const char *name)
{
    char text[NOTE_NAME_MAX + 64];
    bool is_plain = strlen(name) <= NOTE_NAME_MAX && tables->notes++ < NOTES_MAX;
    for (const char *c = name; *c && is_plain; c++)
        is_plain = *c > ' ' && *c < 127;
    (void)snprintf(text, sizeof text, "%s%s%s", what, is_plain ? ": " : "", is_plain ? name : "");
    return rs_trace_info_drop(&tables->a->stream->info, &tables->a->stream->strings, text, 1);
}

static enum rs_status read_table(struct tables *tables, const char *name, struct rs_err *err)
{
    struct rs_err why = {0};
    char *path = rs_file_join(tables->a->rank->output, name);
    if (!path)
        return with_path(tables, RS_NOMEM, err);
    enum rs_status status = csv_open(&tables->csv, path, &why);
    rs_mem_free(path);
    if (status == RS_OK) {
        status = emit_rows(tables, err);
        csv_close(&tables->csv);
        return status;
    }
    if (status == RS_NOMEM)
        return rs_err_set(err, status, "%s", why.text);
    return with_path(tables, note(tables, "a table that cannot be read", name), err);
}

/* NULL: not known. STEM.csv or STEM_slice_N.csv. */
static const struct known *known_of(const char *name)
{
    const size_t length = strlen(name) - 4; /* of ".csv" */
    for (size_t i = 0; i < sizeof known_tables / sizeof known_tables[0]; i++) {
        const size_t stem = strlen(known_tables[i].stem);
        if (length >= stem && strncmp(name, known_tables[i].stem, stem) == 0 &&
            (length == stem || strncmp(name + stem, "_slice_", 7) == 0))
            return &known_tables[i];
    }
    return NULL;
}

static int is_table(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".csv") == 0;
}

enum rs_status ascend_emit_tables(struct ascend *a, rs_ns first, rs_ns last, struct rs_err *err)
{
    struct tables tables = {.a = a, .first = first, .last = last};
    struct dirent **entries = NULL;
    const bool was_counted = a->is_counted;
    const int count = scandir(a->rank->output, &entries, is_table, alphasort);
    enum rs_status status = RS_OK;
    a->is_counted = true;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        tables.known = known_of(name);
        if (status == RS_OK && !tables.known)
            status = with_path(&tables, note(&tables, "a table that is not known", name), err);
        else if (status == RS_OK && a->is_lossless && tables.known->shape != ELSEWHERE)
            status = read_table(&tables, name, err);
        free(entries[i]);
    }
    free(entries);
    a->is_counted = was_counted;
    return status;
}
