/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The csv: a heading line names the columns, quoted cells may hold commas and line ends.
 */
#include "ascend/format/step.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CSV_LIMIT_BYTES = 256 << 20, CELLS_MAX = 64, CELL_BYTES = 256 };

const char *const rs_ascend_step_headings[RS_ASCEND_STEP_FIELDS] = {
    "Computing",  "Communication(Not Overlapped)",
    "Overlapped", "Communication",
    "Free",       "Stage",
    "Bubble",     "Communication(Not Overlapped and Exclude Receive)",
    "Preparing"};

const char *const rs_ascend_step_columns[RS_ASCEND_STEP_FIELDS] = {
    "computing",  "communication_not_overlapped",
    "overlapped", "communication",
    "free",       "stage",
    "bubble",     "communication_not_overlapped_and_exclude_receive",
    "preparing"};

void rs_ascend_steps_fini(struct rs_ascend_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++)
        rs_mem_free(steps->rows[i].step);
    rs_mem_free(steps->rows);
    rs_buf_fini(&steps->flaws);
    *steps = (struct rs_ascend_steps){0};
}

/* Takes row->step in any case. */
static enum rs_status add_row(struct rs_ascend_steps *steps, const struct rs_ascend_step *row)
{
    if (!row->step || rs_mem_grow((void **)&steps->rows, &steps->capacity, steps->count + 1,
                                  sizeof *steps->rows) != RS_OK) {
        rs_mem_free(row->step);
        return RS_NOMEM;
    }
    steps->rows[steps->count++] = *row;
    return RS_OK;
}

static char *clean_copy(const char *text, size_t length)
{
    struct rs_buf scratch = {0};
    text = rs_utf8_clean(text, length, &scratch, &length);
    char *copy = rs_mem_strndup(text, length);
    rs_buf_fini(&scratch);
    return copy;
}

/* ---- csv ----------------------------------------------------------------------------------- */

struct csv {
    const char *at, *end;
    char cells[CELLS_MAX][CELL_BYTES]; /* longer ones are cut: none of ours is long */
    size_t count;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void trim(char *cell)
{
    size_t length = strlen(cell), from = 0;
    while (length && is_blank(cell[length - 1]))
        cell[--length] = '\0';
    while (is_blank(cell[from]))
        from++;
    memmove(cell, cell + from, length - (from < length ? from : length) + 1);
}

/* One cell; true when another one follows in the line. */
static bool read_cell(struct csv *csv, char *cell)
{
    size_t used = 0;
    bool is_quoted = false;
    for (; csv->at < csv->end; csv->at++) {
        const char c = *csv->at;
        if (c == '"') {
            const bool is_double = is_quoted && csv->end - csv->at > 1 && csv->at[1] == '"';
            if (!is_double) {
                is_quoted = !is_quoted;
                continue;
            }
            csv->at++;
        } else if (!is_quoted && (c == ',' || c == '\n')) {
            break;
        }
        if (used + 1 < CELL_BYTES)
            cell[used++] = c;
    }
    cell[used] = '\0';
    trim(cell);
    const bool is_more = csv->at < csv->end && *csv->at == ',';
    if (csv->at < csv->end)
        csv->at++;
    return is_more;
}

/* The next line that is not empty; false at the end. */
static bool read_line(struct csv *csv)
{
    char beyond[CELL_BYTES];
    while (csv->at < csv->end) {
        bool is_more = true;
        csv->count = 0;
        while (is_more) {
            const bool fits = csv->count < CELLS_MAX;
            is_more = read_cell(csv, fits ? csv->cells[csv->count] : beyond);
            csv->count += fits;
        }
        if (csv->count > 1 || csv->cells[0][0])
            return true;
    }
    return false;
}

static int find_cell(const struct csv *csv, const char *heading)
{
    for (size_t i = 0; i < csv->count; i++)
        if (strcmp(csv->cells[i], heading) == 0)
            return (int)i;
    return -1;
}

struct columns {
    int step, device, fields[RS_ASCEND_STEP_FIELDS];
};

/* -1 is "not there" in every one of them. */
static const char *cell_at(const struct csv *csv, int column)
{
    return column >= 0 && (size_t)column < csv->count ? csv->cells[column] : "";
}

static enum rs_status read_row(const struct csv *csv, const struct columns *columns,
                               struct rs_ascend_steps *steps)
{
    struct rs_ascend_step row = {.device = -1};
    char *end = NULL;
    const char *device = cell_at(csv, columns->device);
    const long long number = strtoll(device, &end, 10);
    if (end != device && !*end && number >= 0)
        row.device = number;
    for (size_t i = 0; i < RS_ASCEND_STEP_FIELDS; i++) {
        const char *text = cell_at(csv, columns->fields[i]);
        const size_t length = strlen(text);
        if (length && (rs_ascend_num_scan(text, length) != length ||
                       rs_ascend_num_parse(text, length, &row.values[i]) != RS_OK))
            return RS_FORMAT;
    }
    row.step = clean_copy(cell_at(csv, columns->step), strlen(cell_at(csv, columns->step)));
    return add_row(steps, &row);
}

static enum rs_status parse_with(struct csv *csv, const char *name, struct rs_ascend_steps *steps,
                                 struct rs_err *err)
{
    struct columns columns;
    if (!read_line(csv))
        return rs_err_set(err, RS_FORMAT, "%s is empty", name);
    columns.step = find_cell(csv, "Step");
    columns.device = find_cell(csv, "Device_id");
    for (size_t i = 0; i < RS_ASCEND_STEP_FIELDS; i++)
        columns.fields[i] = find_cell(csv, rs_ascend_step_headings[i]);
    for (size_t i = 0; i < RS_ASCEND_STEP_FIELDS; i++)
        if (columns.fields[i] < 0)
            rs_buf_printf(&steps->flaws, "%sstep_trace_time.csv has no column %s",
                          steps->flaws.length ? "; " : "", rs_ascend_step_headings[i]);
    if (columns.fields[RS_ASCEND_STEP_COMPUTING] < 0 ||
        columns.fields[RS_ASCEND_STEP_COMMUNICATION] < 0)
        return rs_err_set(err, RS_FORMAT, "%s has not the columns of step_trace_time.csv", name);
    const size_t expected = csv->count;
    while (read_line(csv)) {
        const enum rs_status status =
            csv->count == expected ? read_row(csv, &columns, steps) : RS_FORMAT;
        if (status == RS_FORMAT)
            return rs_err_set(err, status, "%s: row %zu is not whole", name, steps->count + 1);
        if (status != RS_OK)
            return rs_err_set(err, status, "no memory to read %s", name);
    }
    return RS_OK;
}

enum rs_status rs_ascend_steps_parse(const void *text, size_t length, const char *name,
                                     struct rs_ascend_steps *steps_p, struct rs_err *err)
{
    struct rs_ascend_steps steps = {0};
    struct csv *csv = rs_mem_calloc(1, sizeof *csv);
    if (!csv)
        return rs_err_set(err, RS_NOMEM, "no memory to read %s", name);
    csv->at = text;
    csv->end = (const char *)text + length;
    const enum rs_status status = parse_with(csv, name, &steps, err);
    rs_mem_free(csv);
    if (status != RS_OK) {
        rs_ascend_steps_fini(&steps);
        return status;
    }
    *steps_p = steps;
    return RS_OK;
}

enum rs_status rs_ascend_steps_read_csv(const char *path, struct rs_ascend_steps *steps_p,
                                        struct rs_err *err)
{
    struct rs_buf buf = {0};
    enum rs_status status = rs_file_read_regular(path, CSV_LIMIT_BYTES, &buf, err);
    if (status == RS_OK)
        status = rs_ascend_steps_parse(buf.length ? (const void *)buf.data : "", buf.length, path,
                                       steps_p, err);
    rs_buf_fini(&buf);
    return status;
}

/* ---- database ------------------------------------------------------------------------------ */

enum { D_DEVICE, D_STEP, D_FIELDS, D_COLUMNS = D_FIELDS + RS_ASCEND_STEP_FIELDS };

static enum rs_status read_db_row(const struct rs_ascend_cell *cells, struct rs_ascend_steps *steps)
{
    struct rs_ascend_step row = {.device = -1};
    char digits[RS_ASCEND_NUM_TEXT_BYTES];
    const struct rs_ascend_num number = rs_ascend_cell_num(&cells[D_STEP]);
    if (!rs_ascend_cell_int(&cells[D_DEVICE], &row.device))
        row.device = -1;
    for (int i = 0; i < RS_ASCEND_STEP_FIELDS; i++)
        row.values[i] = rs_ascend_cell_num(&cells[D_FIELDS + i]);
    if (cells[D_STEP].kind == RS_ASCEND_CELL_TEXT)
        row.step = clean_copy(cells[D_STEP].text, cells[D_STEP].length);
    else if (number.kind == RS_ASCEND_NUM_NONE)
        row.step = rs_mem_strdup("");
    else
        row.step = rs_mem_strndup(digits, rs_ascend_num_print(&number, digits));
    return add_row(steps, &row);
}

enum rs_status rs_ascend_steps_read_db(struct rs_ascend_db *db, struct rs_ascend_steps *steps_p,
                                       struct rs_err *err)
{
    struct rs_ascend_steps steps = {0};
    struct rs_ascend_rows rows = {0};
    const char *columns[D_COLUMNS] = {"deviceId", "step"};
    memcpy(columns + D_FIELDS, rs_ascend_step_columns, sizeof rs_ascend_step_columns);
    enum rs_status status =
        rs_ascend_rows_open(&rows, db, "StepTraceTime", columns, D_COLUMNS, err);
    rows.expect = (struct rs_ascend_expect){
        .numbers = (1U << D_COLUMNS) - 1, .may_lack = 1U << D_DEVICE, .may_be_null = 1U << D_STEP};
    while (status == RS_OK && (status = rs_ascend_rows_next(&rows, err)) == RS_OK)
        if (read_db_row(rows.cells, &steps) != RS_OK)
            status = rs_err_set(err, RS_NOMEM, "no memory to read %s", rs_ascend_db_path(db));
    if (status == RS_END)
        rs_ascend_rows_flaws(&rows, "StepTraceTime", columns, &steps.flaws);
    rs_ascend_rows_close(&rows);
    if (status != RS_END) {
        rs_ascend_steps_fini(&steps);
        return status;
    }
    *steps_p = steps;
    return RS_OK;
}

enum rs_status rs_ascend_place_read(struct rs_ascend_db *db, struct rs_ascend_place *place_p,
                                    struct rs_err *err)
{
    struct rs_ascend_place place = {.device = -1};
    int64_t rank = 0;
    enum rs_status status = rs_ascend_db_host(db, &place.host_uid, &place.host_name, err);
    if (status == RS_OK || status == RS_NOTFOUND)
        status = rs_ascend_db_rank(db, &rank, &place.device, err);
    if (status != RS_OK && status != RS_NOTFOUND) {
        rs_ascend_place_fini(&place);
        return status;
    }
    *place_p = place;
    return RS_OK;
}

void rs_ascend_place_fini(struct rs_ascend_place *place)
{
    rs_mem_free(place->host_uid);
    rs_mem_free(place->host_name);
    *place = (struct rs_ascend_place){.device = -1};
}
