/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/trace/averages.h"
#include "common/base/csv_out.h"
#include "common/base/json_out.h"
#include "common/base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- for programs -------------------------------------------------------------------------------------------------- */

/* In the order of columns. Unknown is an empty cell, and null. */
struct cell {
    const char *name;
    int64_t value;
    bool is_known;
};
enum { CELLS = 13 };

static void fill_cells(const struct rs_averages *averages, const struct rs_average *row,
                       struct cell cells[CELLS])
{
    const bool is_host = !row->is_device;
    const bool has_device = averages->has_device;
    const struct cell all[CELLS] = {
        {"count", (int64_t)row->count, true},
        {"self_cpu_ns", row->self_cpu, is_host},
        {"cpu_ns", row->cpu, is_host},
        {"self_device_ns", row->self_device, has_device},
        {"device_ns", row->device, has_device},
        {"mean_ns", row->count ? (is_host ? row->cpu : row->device) / (int64_t)row->count : 0,
         row->count > 0},
        {"min_ns", row->min, row->count > 0},
        {"max_ns", row->max, row->count > 0},
        {"self_cpu_memory_bytes", row->self_cpu_memory, is_host && averages->has_memory},
        {"cpu_memory_bytes", row->cpu_memory, is_host && averages->has_memory},
        {"self_device_memory_bytes", row->self_device_memory,
         is_host && averages->has_device_memory},
        {"device_memory_bytes", row->device_memory, is_host && averages->has_device_memory},
        {"flops", row->flops, row->flops >= 0},
    };
    memcpy(cells, all, sizeof all);
}

static void print_csv(const struct rs_averages *averages, const struct rs_average *row,
                      struct rs_buf *buf)
{
    struct cell cells[CELLS];
    fill_cells(averages, row, cells);
    rs_buf_printf(buf, "%" PRId32 ",%s,", row->rank, row->is_device ? "device" : "host");
    rs_csv_text(buf, rs_strtab_text(&averages->texts, row->name));
    rs_buf_u8(buf, ',');
    if (row->shapes != RS_STR_NONE)
        rs_csv_text(buf, rs_strtab_text(&averages->texts, row->shapes));
    rs_buf_u8(buf, ',');
    if (row->stack != RS_STR_NONE)
        rs_csv_text(buf, rs_strtab_text(&averages->texts, row->stack));
    for (size_t i = 0; i < CELLS; i++) {
        rs_buf_u8(buf, ',');
        if (cells[i].is_known)
            rs_buf_printf(buf, "%" PRId64, cells[i].value);
    }
    rs_buf_u8(buf, '\n');
}

static void print_csv_head(struct rs_buf *buf)
{
    static const struct rs_average none;
    static const struct rs_averages empty;
    struct cell cells[CELLS];
    fill_cells(&empty, &none, cells);
    rs_buf_string(buf, "rank,on,name,shapes,stack");
    for (size_t i = 0; i < CELLS; i++)
        rs_buf_printf(buf, ",%s", cells[i].name);
    rs_buf_u8(buf, '\n');
}

static void text_member(struct rs_json_out *json, const struct rs_averages *averages,
                        const char *key, rs_str id)
{
    rs_json_out_key(json, key);
    if (id == RS_STR_NONE)
        rs_json_out_null(json);
    else
        rs_json_out_bytes(json, rs_strtab_text(&averages->texts, id),
                          rs_strtab_length(&averages->texts, id));
}

static void print_json(const struct rs_averages *averages, const struct rs_average *row,
                       struct rs_json_out *json)
{
    struct cell cells[CELLS];
    fill_cells(averages, row, cells);
    rs_json_out_object(json);
    rs_json_out_key(json, "rank");
    rs_json_out_int(json, row->rank);
    rs_json_out_key(json, "on");
    rs_json_out_string(json, row->is_device ? "device" : "host");
    text_member(json, averages, "name", row->name);
    text_member(json, averages, "shapes", row->shapes);
    text_member(json, averages, "stack", row->stack);
    for (size_t i = 0; i < CELLS; i++) {
        rs_json_out_key(json, cells[i].name);
        if (cells[i].is_known)
            rs_json_out_int(json, cells[i].value);
        else
            rs_json_out_null(json);
    }
    rs_json_out_end(json);
}

/* ---- for people ---------------------------------------------------------------------------------------------------- */

enum { NAME_WIDTH = 48 };

/* "12.345 ms", and "" for what is not known. */
static void time_text(char text[32], rs_dur ns, bool is_known)
{
    text[0] = 0;
    if (!is_known)
        return;
    const double value = (double)ns;
    if (ns < 1000000)
        (void)snprintf(text, 32, "%.3f us", value / 1e3);
    else if (ns < 1000000000)
        (void)snprintf(text, 32, "%.3f ms", value / 1e6);
    else
        (void)snprintf(text, 32, "%.3f s", value / 1e9);
}

static void bytes_text(char text[32], int64_t bytes, bool is_known)
{
    const double value = (double)bytes, size = value < 0 ? -value : value;
    text[0] = 0;
    if (!is_known)
        return;
    if (size < 1024.0)
        (void)snprintf(text, 32, "%" PRId64 " B", bytes);
    else if (size < 1048576.0)
        (void)snprintf(text, 32, "%.2f KiB", value / 1024.0);
    else if (size < 1073741824.0)
        (void)snprintf(text, 32, "%.2f MiB", value / 1048576.0);
    else
        (void)snprintf(text, 32, "%.2f GiB", value / 1073741824.0);
}

/* A name from outside steers no terminal: as in CSV, without its quotes, cut. */
static void name_text(struct rs_buf *buf, const char *text)
{
    struct rs_buf cell = {0};
    rs_csv_text(&cell, text);
    const char *shown = rs_buf_text(&cell);
    size_t length = strlen(shown);
    if (length && shown[0] == '"' && length > 1) {
        shown++;
        length -= 2;
    }
    for (size_t i = 0; i < length && i < NAME_WIDTH; i++) {
        const unsigned char byte = (unsigned char)shown[i];
        rs_buf_u8(buf,
                  byte < ' ' || byte >= 0x7f ? (uint8_t)'?' : byte); /* CSV keeps ends of lines */
    }
    for (size_t i = length; i < NAME_WIDTH; i++)
        rs_buf_u8(buf, ' ');
    rs_buf_fini(&cell);
}

static void print_head(const struct rs_averages *averages, int32_t rank, struct rs_buf *buf)
{
    rs_buf_printf(buf, "RANK %" PRId32 "\n%-*s %12s %7s %12s %12s", rank, NAME_WIDTH, "name",
                  "self CPU", "", "CPU", "mean");
    if (averages->has_device)
        rs_buf_printf(buf, " %12s %7s %12s", "self device", "", "device");
    if (averages->has_memory)
        rs_buf_printf(buf, " %12s", "self memory");
    if (averages->has_device_memory)
        rs_buf_printf(buf, " %12s", "self dev mem");
    if (averages->has_flops)
        rs_buf_printf(buf, " %10s", "MFLOP");
    rs_buf_printf(buf, " %9s\n", "calls");
}

static void put_share(struct rs_buf *buf, int64_t part, int64_t all, bool is_known)
{
    if (is_known && all > 0)
        rs_buf_printf(buf, " %6.2f%%", (double)part / (double)all * 100.0);
    else
        rs_buf_printf(buf, " %7s", "");
}

struct sums {
    int64_t self_cpu, self_device;
};

/* A text of several lines below a row. */
static void print_lines(const struct rs_averages *averages, rs_str id, struct rs_buf *buf)
{
    const char *text = id == RS_STR_NONE ? "" : rs_strtab_text(&averages->texts, id);
    while (*text) {
        const size_t length = strcspn(text, "\n");
        rs_buf_string(buf, "    ");
        rs_utf8_escape(buf, text, length, "");
        rs_buf_u8(buf, '\n');
        text += length + (text[length] == '\n');
    }
}

static void print_line(const struct rs_averages *averages, const struct rs_average *row,
                       const struct sums *all, struct rs_buf *buf)
{
    const bool is_host = !row->is_device;
    char self[32], total[32], mean[32], text[32];
    time_text(self, row->self_cpu, is_host);
    time_text(total, row->cpu, is_host);
    time_text(mean, row->count ? (is_host ? row->cpu : row->device) / (int64_t)row->count : 0,
              row->count > 0);
    name_text(buf, rs_strtab_text(&averages->texts, row->name));
    rs_buf_printf(buf, " %12s", self);
    put_share(buf, row->self_cpu, all->self_cpu, is_host);
    rs_buf_printf(buf, " %12s %12s", total, mean);
    if (averages->has_device) {
        time_text(text, row->self_device, true);
        rs_buf_printf(buf, " %12s", text);
        put_share(buf, row->self_device, all->self_device, true);
        time_text(text, row->device, true);
        rs_buf_printf(buf, " %12s", text);
    }
    if (averages->has_memory) {
        bytes_text(text, row->self_cpu_memory, is_host);
        rs_buf_printf(buf, " %12s", text);
    }
    if (averages->has_device_memory) {
        bytes_text(text, row->self_device_memory, is_host);
        rs_buf_printf(buf, " %12s", text);
    }
    if (averages->has_flops && row->flops >= 0)
        rs_buf_printf(buf, " %10.3f", (double)row->flops / 1e6);
    else if (averages->has_flops)
        rs_buf_printf(buf, " %10s", "");
    rs_buf_printf(buf, " %9" PRIu64 "\n", row->count);
    print_lines(averages, row->shapes, buf);
    print_lines(averages, row->stack, buf);
}

/* Self times of the host add up to the time in which its threads were in some call; those of kernels to the device's. */
static struct sums sums_of(const struct rs_averages *averages, size_t first)
{
    struct sums sums = {0};
    for (size_t i = first;
         i < averages->count && averages->items[i].rank == averages->items[first].rank; i++) {
        const struct rs_average *row = &averages->items[i];
        if (row->is_device)
            rs_averages_add_up(&sums.self_device, row->self_device);
        else
            rs_averages_add_up(&sums.self_cpu, row->self_cpu);
    }
    return sums;
}

/* ---- all rows ------------------------------------------------------------------------------------------------------ */

static void print_rows(const struct rs_averages *averages, const struct rs_averages_form *how,
                       struct rs_json_out *json, struct rs_buf *buf)
{
    struct sums sums = {0};
    for (size_t i = 0, of_rank = 0; i < averages->count; i++, of_rank++) {
        const struct rs_average *row = &averages->items[i];
        const bool is_first = i == 0 || row[-1].rank != row->rank;
        if (is_first) {
            of_rank = 0;
            sums = sums_of(averages, i);
            if (how->form == RS_AVERAGES_TEXT) {
                rs_buf_string(buf, i ? "\n" : "");
                print_head(averages, row->rank, buf);
            }
        }
        if (of_rank >= how->row_limit)
            continue;
        switch (how->form) {
        case RS_AVERAGES_TEXT:
            print_line(averages, row, &sums, buf);
            break;
        case RS_AVERAGES_CSV:
            print_csv(averages, row, buf);
            break;
        case RS_AVERAGES_JSON:
            print_json(averages, row, json);
            break;
        }
    }
}

void rs_averages_write(const struct rs_averages *averages, const struct rs_averages_form *how,
                       struct rs_buf *buf)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, 2);
    if (how->form == RS_AVERAGES_JSON)
        rs_json_out_array(&json);
    else if (how->form == RS_AVERAGES_CSV)
        print_csv_head(buf);
    print_rows(averages, how, &json, buf);
    if (how->form == RS_AVERAGES_JSON) {
        rs_json_out_end(&json);
        rs_buf_u8(buf, '\n');
    }
}
