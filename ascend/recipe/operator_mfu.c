/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operator_mfu: which part of the chip's peak the kernels of an operation reach (MFU).
 *
 * Peer: the job says how many operations an operator does by mstx ranges of the domain "mfu_flops" with the message
 * "FLOPS-NAME"; kernels are an operator's when the framework call that launched them starts in its range. Peak = AI cores x
 * MHz of PROF_.../device_N/info.json.N x 8192 (16384 for INT8), by the type of the first kernel's first input. Kernels by
 * row, and per module (modules.c, forward only) the mean of each kernel over all calls, in percent.
 *
 * Corrected: an operator's operations are divided by the time of all its kernels; the peer counts all of them for each kernel,
 * so that an operator of two kernels may be beyond the peak. A type whose peak is not known leaves its operator without a
 * value; the peer fails with it and loses the rank, and takes an unknown type for FLOAT16. In both modes a kernel of nested
 * ranges stands once in its module, with the shortest range's value.
 */
#include "ascend/recipe/modules.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <jansson.h>

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Ranges of the domain mfu_flops. */
enum { FLOPS_TEXT, FLOPS_START, FLOPS_END };
/* A kernel that lies in a range. */
enum { S_TASK, S_START, S_END, S_MFU, S_TFLOPS, S_PEAK, S_FLOPS, S_NAME, S_LENGTH };
#define SHARE_KINDS "iiirrrrti"
/* The result. */
enum {
    RANK,
    OP,
    NAME,
    START,
    END,
    DURATION,
    MFU,
    TFLOPS,
    PEAK,
    FLOPS,
    FLOPS_NAME,
    INPUTS,
    OUTPUTS
};
enum { INFO_BYTES_MAX = 16 << 20 };

enum { KERNELS, MODULES }; /* frames */

/* ---- the chip ---- */

static bool is_numbered(const char *name, const char *head)
{
    const size_t length = strlen(head);
    const size_t digits =
        strncmp(name, head, length) == 0 ? strspn(name + length, "0123456789") : 0;
    return digits > 0 && digits < 3 && !name[length + digits];
}

/* The first entry by name that starts with `head`, followed by a number or, without `numbered`, by anything. NULL: none. */
static char *find_entry(const char *dir, const char *head, bool numbered)
{
    char *best = NULL;
    DIR *stream = opendir(dir);
    for (const struct dirent *entry; stream && (entry = rs_dir_next(stream));) {
        const bool fits = numbered ? is_numbered(entry->d_name, head)
                                   : strncmp(entry->d_name, head, strlen(head)) == 0;
        if (!fits || (best && strcmp(best, entry->d_name) <= 0))
            continue;
        rs_mem_free(best);
        best = rs_mem_strdup(entry->d_name);
    }
    if (stream)
        (void)closedir(stream);
    char *path = best ? rs_file_join(dir, best) : NULL;
    rs_mem_free(best);
    return path;
}

static double number_of(const json_t *value)
{
    return json_is_string(value) ? strtod(json_string_value(value), NULL)
                                 : json_number_value(value);
}

/* Operations per second at one operation per core and cycle. RS_NOTFOUND, RS_FORMAT: nothing says it. */
static enum rs_status read_chip(const char *dir, double *rate_p, struct rs_err *err)
{
    char *prof = find_entry(dir, "PROF_", false);
    char *device = prof ? find_entry(prof, "device_", true) : NULL;
    char *path = device ? find_entry(device, "info.json.", true) : NULL;
    struct rs_buf text = {0};
    enum rs_status status =
        path ? rs_file_read_regular(path, INFO_BYTES_MAX, &text, err)
             : rs_err_set(err, RS_NOTFOUND,
                          "%s has no PROF_*/device_*/info.json.*, which says the chip's peak", dir);
    json_t *root = status == RS_OK ? json_loadb(rs_buf_text(&text), text.length, 0, NULL) : NULL;
    const json_t *chip = json_array_get(json_object_get(root, "DeviceInfo"), 0);
    const double cores = number_of(json_object_get(chip, "ai_core_num"));
    const double mhz = number_of(json_object_get(chip, "aic_frequency"));
    if (status == RS_OK && !(cores > 0 && mhz > 0 && cores < 1e6 && mhz < 1e6))
        status = rs_err_set(err, RS_FORMAT, "%s: DeviceInfo names no ai_core_num and aic_frequency",
                            path);
    *rate_p = cores * mhz * 1e6;
    json_decref(root);
    rs_buf_fini(&text);
    rs_mem_free(path);
    rs_mem_free(device);
    rs_mem_free(prof);
    return status;
}

/* Operations per core and cycle of the first of "DT_BF16;FLOAT"; NaN: not known. */
static double cycle_of(const char *types, bool compat)
{
    static const struct {
        const char *type;
        double operations;
    } known[] = {
        {"FLOAT", 8192}, {"FLOAT16", 8192}, {"BF16", 8192}, {"DT_BF16", 8192}, {"INT8", 16384}};
    const char *first = types + strspn(types, "; ");
    const size_t length = strcspn(first, "; ");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].type) == length && strncasecmp(first, known[i].type, length) == 0)
            return known[i].operations;
    return compat && !length ? 8192 : (double)NAN;
}

/* ---- the share of each kernel ---- */

/* "123-matmul": the number, and where the name starts. False: it is not of this shape. */
static bool parse_flops(const char *text, double *flops_p, const char **name_p)
{
    const size_t digits = strspn(text, "0123456789");
    if (!digits || text[digits] != '-' || !text[digits + 1])
        return false;
    *flops_p = strtod(text, NULL);
    *name_p = text + digits + 1;
    return *flops_p > 0 && isfinite(*flops_p);
}

struct sharing {
    struct frame *kernels;
    struct frame_order
        order; /* of computing tasks with shapes, by the call's start, then their own */
    struct frame *shares;
    double rate; /* of the chip */
    bool compat;
};

static bool has_shapes(const struct frame *kernels, const union frame_cell *row)
{
    return row[KERNEL_TASK].i != RS_NULL &&
           strcmp(frame_text(kernels, row[KERNEL_INPUTS].t), "N/A") != 0 &&
           strcmp(frame_text(kernels, row[KERNEL_OUTPUTS].t), "N/A") != 0;
}

/* The first place of the order whose call starts at `time` or later. */
static size_t find_call(const struct sharing *sharing, int64_t time)
{
    size_t low = 0, high = sharing->order.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int64_t start =
            frame_row(sharing->kernels, sharing->order.rows[middle])[KERNEL_OP_START].i;
        if (start < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int by_time(const void *a, const void *b, void *data)
{
    const union frame_cell *x = frame_row(data, *(const uint32_t *)a);
    const union frame_cell *y = frame_row(data, *(const uint32_t *)b);
    if (x[KERNEL_START].i != y[KERNEL_START].i)
        return x[KERNEL_START].i < y[KERNEL_START].i ? -1 : 1;
    return (x[KERNEL_END].i > y[KERNEL_END].i) - (x[KERNEL_END].i < y[KERNEL_END].i);
}

static double length_of(const union frame_cell *kernel)
{
    const int64_t length = kernel[KERNEL_END].i - kernel[KERNEL_START].i;
    return length > 0 ? (double)length : 0;
}

/* Leaves each kernel once: those of several calls stand there several times. The time of all of them, ns. */
static double make_unique(struct frame *kernels, uint32_t *rows, size_t *count_p)
{
    double all = 0;
    size_t kept = 0;
    qsort_r(rows, *count_p, sizeof *rows, by_time, kernels);
    for (size_t i = 0; i < *count_p; i++)
        if (!kept || by_time(&rows[kept - 1], &rows[i], kernels) != 0) {
            rows[kept++] = rows[i];
            all += length_of(frame_row(kernels, rows[i]));
        }
    *count_p = kept;
    return all;
}

/* One operator: what each of its kernels reaches. `rows` has room for all kernels. */
static enum rs_status share_range(const struct sharing *sharing, const union frame_cell *range,
                                  double flops, const char *name, uint32_t *rows)
{
    struct frame *kernels = sharing->kernels;
    const size_t from = find_call(sharing, range[FLOPS_START].i);
    size_t count = find_call(sharing, range[FLOPS_END].i + 1) - from;
    if (!count)
        return RS_OK;
    const double peak =
        sharing->rate *
        cycle_of(frame_text(kernels, frame_row(kernels, sharing->order.rows[from])[KERNEL_TYPES].t),
                 sharing->compat);
    memcpy(rows, sharing->order.rows + from, count * sizeof *rows);
    const double all = make_unique(kernels, rows, &count);
    for (size_t i = 0; i < count && !isnan(peak); i++) {
        const union frame_cell *row = frame_row(kernels, rows[i]);
        const double seconds = (sharing->compat ? length_of(row) : all) * 1e-9;
        union frame_cell *share = length_of(row) > 0 ? frame_add(sharing->shares) : NULL;
        if (!share && length_of(row) > 0)
            return RS_NOMEM;
        if (!share)
            continue;
        share[S_TASK].i = row[KERNEL_TASK].i;
        share[S_START].i = row[KERNEL_START].i;
        share[S_END].i = row[KERNEL_END].i;
        share[S_MFU].r = flops / seconds / peak;
        share[S_TFLOPS].r = stats_round(flops / seconds / 1e12, 2);
        share[S_PEAK].r = stats_round(peak / 1e12, 2);
        share[S_FLOPS].r = flops;
        share[S_LENGTH].i = range[FLOPS_END].i - range[FLOPS_START].i;
        if (frame_text_id(sharing->shares, name, &share[S_NAME].t) != RS_OK)
            return RS_NOMEM;
    }
    return RS_OK;
}

/* Rows of `shares` for the kernels of all ranges. */
static enum rs_status share_all(struct sharing *sharing, const struct frame *ranges)
{
    size_t kept = 0;
    enum rs_status status = frame_order(
        sharing->kernels, (char[]){KERNEL_OP_START + 1, KERNEL_START + 1, KERNEL_END + 1, 0},
        &sharing->order);
    uint32_t *rows = rs_mem_calloc(sharing->kernels->count, sizeof *rows);
    if (!rows)
        status = RS_NOMEM;
    for (size_t i = 0; status == RS_OK && i < sharing->order.count; i++)
        if (has_shapes(sharing->kernels, frame_row(sharing->kernels, sharing->order.rows[i])))
            sharing->order.rows[kept++] = sharing->order.rows[i];
    sharing->order.count = kept;
    for (size_t i = 0; status == RS_OK && i < ranges->count; i++) {
        const union frame_cell *range = frame_row(ranges, i);
        const char *name;
        double flops;
        if (range[FLOPS_END].i > range[FLOPS_START].i && range[FLOPS_END].i < INT64_MAX &&
            parse_flops(frame_text(ranges, range[FLOPS_TEXT].t), &flops, &name))
            status = share_range(sharing, range, flops, name, rows);
    }
    rs_mem_free(rows);
    frame_order_fini(&sharing->order);
    return status;
}

/* ---- one rank ---- */

static int by_kernel(const union frame_cell *kernel, const union frame_cell *share)
{
    if (kernel[KERNEL_TASK].i != share[S_TASK].i)
        return kernel[KERNEL_TASK].i < share[S_TASK].i ? -1 : 1;
    if (kernel[KERNEL_START].i != share[S_START].i)
        return kernel[KERNEL_START].i < share[S_START].i ? -1 : 1;
    return (kernel[KERNEL_END].i > share[S_END].i) - (kernel[KERNEL_END].i < share[S_END].i);
}

static enum rs_status add_row(struct frame *part, const struct frame *kernels,
                              const union frame_cell *kernel, const struct frame *shares,
                              const union frame_cell *share)
{
    union frame_cell *row = frame_add(part);
    if (!row)
        return RS_NOMEM;
    row[START].i = kernel[KERNEL_START].i;
    row[END].i = kernel[KERNEL_END].i;
    row[DURATION].i = row[END].i - row[START].i;
    row[MFU].r = stats_round(share[S_MFU].r, 4);
    row[TFLOPS].r = share[S_TFLOPS].r;
    row[PEAK].r = share[S_PEAK].r;
    row[FLOPS].r = share[S_FLOPS].r;
    if (frame_text_of(part, kernels, kernel[KERNEL_OP].t, &row[OP].t) != RS_OK ||
        frame_text_of(part, kernels, kernel[KERNEL_NAME].t, &row[NAME].t) != RS_OK ||
        frame_text_of(part, kernels, kernel[KERNEL_INPUTS].t, &row[INPUTS].t) != RS_OK ||
        frame_text_of(part, kernels, kernel[KERNEL_OUTPUTS].t, &row[OUTPUTS].t) != RS_OK)
        return RS_NOMEM;
    return frame_text_of(part, shares, share[S_NAME].t, &row[FLOPS_NAME].t);
}

/* Every row of a kernel gets what its ranges say; the shortest range's is the kernel's own. */
static enum rs_status join_shares(struct frame *kernels, const struct frame *shares,
                                  struct frame *part, int64_t rank)
{
    struct frame_order order;
    enum rs_status status =
        frame_order(shares, (char[]){S_TASK + 1, S_START + 1, S_END + 1, 0}, &order);
    for (size_t k = 0; status == RS_OK && k < kernels->count; k++) {
        union frame_cell *kernel = kernels->cells + k * kernels->columns;
        int64_t shortest = INT64_MAX;
        size_t low = 0, high = order.count;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            if (by_kernel(kernel, frame_row(shares, order.rows[middle])) > 0)
                low = middle + 1;
            else
                high = middle;
        }
        for (; status == RS_OK && low < order.count; low++) {
            const union frame_cell *share = frame_row(shares, order.rows[low]);
            if (by_kernel(kernel, share) != 0)
                break;
            if (share[S_LENGTH].i < shortest) {
                shortest = share[S_LENGTH].i;
                kernel[KERNEL_SHARE].r = share[S_MFU].r;
            }
            status = add_row(part, kernels, kernel, shares, share);
            if (status == RS_OK)
                part->cells[(part->count - 1) * part->columns + RANK].i = rank;
        }
    }
    frame_order_fini(&order);
    return status;
}

static enum rs_status find_shares(struct run *run, const struct inputs *in, struct frame *kernels,
                                  struct frame *part, struct rs_err *err)
{
    const struct frame_query query = {
        .sql = "SELECT coalesce(m.value, ''), startNs, endNs FROM MSTX_EVENTS "
               "LEFT JOIN STRING_IDS m ON m.id = message JOIN STRING_IDS d ON d.id = domainId "
               "WHERE d.value = 'mfu_flops' AND startNs IS NOT NULL AND endNs IS NOT NULL "
               "ORDER BY startNs"};
    struct sharing sharing = {.kernels = kernels, .compat = run->options->compat};
    struct frame ranges = {0}, shares = {0};
    sharing.shares = &shares;
    enum rs_status status = db_requires(
        in->profiler,
        "MSTX_EVENTS.domainId MSTX_EVENTS.message MSTX_EVENTS.startNs MSTX_EVENTS.endNs", err);
    if (status == RS_OK)
        status = read_chip(in->of->vendor->dir, &sharing.rate, err);
    if (status == RS_OK &&
        (frame_init(&ranges, "tii") != RS_OK || frame_init(&shares, SHARE_KINDS) != RS_OK))
        status = RS_NOMEM;
    if (status == RS_OK)
        status = frame_load(&ranges, in->profiler, &query, err);
    if (status == RS_OK && !ranges.count)
        status = rs_err_set(err, RS_NOTFOUND, "%s has no ranges of the domain mfu_flops",
                            rs_ascend_db_path(in->profiler));
    if (status == RS_OK)
        status = share_all(&sharing, &ranges);
    if (status == RS_OK)
        status = join_shares(kernels, &shares, part, in->of->rank);
    frame_fini(&ranges);
    frame_fini(&shares);
    return status;
}

static void fill(struct inputs *in, struct frame *frames)
{
    const struct modules_want want = {.has_shares = true, .compat = in->run->options->compat};
    struct frame kernels;
    struct rs_err why = {0};
    if (frame_init(&kernels, KERNEL_KINDS) != RS_OK)
        in_fail(in, RS_NOMEM, "no memory for kernels");
    if (in->status == RS_OK)
        in->status = modules_kernels(in, true, &kernels, &in->err);
    if (in->status == RS_OK) {
        in->status = find_shares(in->run, in, &kernels, &frames[KERNELS], &in->err);
        if (in->status == RS_NOTFOUND || in->status == RS_FORMAT) {
            run_add_problem(in->run, in->of->rank, true, "%s", in->err.text);
            in->status = RS_OK; /* modules have their times all the same */
        }
    }
    if (in->status == RS_OK) {
        const enum rs_status status = modules_sum(in, &kernels, &want, &frames[MODULES], &why);
        if (status != RS_NOTFOUND || !frames[KERNELS].count) /* modules are optional */
            in->status = status;
        in->err = why;
    }
    frame_fini(&kernels);
}

/* ---- all ranks ---- */

static bool has_any_share(const struct frame *modules)
{
    for (size_t i = 0; i < modules->count; i++) {
        const rs_str id = frame_row(modules, i)[MODULE_SHARES].t;
        if (id != RS_STR_NONE && rs_strtab_length(&modules->texts, id))
            return true;
    }
    return false;
}

#define MODULE_HEAD                                                                                \
    "rank_id:i=Rank ID|parent_module:t=Parent Module|module:t=Module|op_name:t=Op Name|"           \
    "kernel_list:t=Kernel List|total_kernel_duration(ns):r=Total Kernel Duration(ns)|"             \
    "avg_kernel_duration(ns):r=Avg Kernel Duration(ns)|op_count:i=Op Count"
#define MODULE_ROWS "SELECT rank, parent, name, op, kernels, total, mean, calls"

/* Both forms tell the same; in text form those of one rank. */
static enum rs_status write_both(struct run *run, const char *name, const char *file,
                                 const char *columns, const char *sql, struct rs_err *err)
{
    char of_rank[300];
    (void)snprintf(of_rank, sizeof of_rank, "%s WHERE rank = :rank", sql);
    const struct result all = {.name = name, .columns = columns, .sql = sql, .is_optional = true};
    const struct result each = {.name = name, .file = file, .columns = columns, .sql = of_rank};
    return result_write_by_rank(run, &all, &each, err);
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    /* the peer leaves the column out where it would be empty */
    const bool has_shares = !run->options->compat || has_any_share(&run->frames[MODULES]);
    const enum rs_status status = write_both(
        run, "OperatorMFU", "operator_mfu_kernel",
        "rank_id:i=Rank ID|op_name:t=Op Name|kernel_name:t=Kernel Name|"
        "kernel_start(ns):i=Kernel Start(ns)|kernel_end(ns):i=Kernel End(ns)|"
        "kernel_duration(ns):i=Kernel Duration(ns)|mfu:r=MFU|actual_tflops:r|chip_peak_tflops:r|"
        "flops:r|flops_op_name:t|input_shapes:t|output_shapes:t",
        "SELECT * FROM kernels", err);
    return status == RS_OK ? write_both(run, "ModuleMFU", "operator_mfu_module",
                                        has_shares ? MODULE_HEAD "|avg_mfu:t=Avg MFU" : MODULE_HEAD,
                                        has_shares ? MODULE_ROWS ", shares FROM modules"
                                                   : MODULE_ROWS " FROM modules",
                                        err)
                           : status;
}

const struct recipe recipe_operator_mfu = {
    .info = {"operator_mfu", "which part of the chip's peak kernels and modules reach",
             "OperatorMFU, ModuleMFU"},
    .folder = "OperatorMfu",
    .needs = NEED_PROFILER,
    .frames = {{.name = "kernels",
                .columns = "rank:i op:t name:t start:i end:i duration:i mfu:r tflops:r peak:r "
                           "flops:r flops_name:t inputs:t outputs:t"},
               {.name = "modules", .columns = MODULE_COLUMNS}},
    .fill = fill,
    .finish = finish,
};
