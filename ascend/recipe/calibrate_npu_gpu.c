/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calibrate_npu_gpu: the modules of a network on an NPU beside the same modules on a GPU.
 *
 * Peer: the NPU's side is module_statistic; the GPU's an SQLite export of Nsight Systems: push/pop ranges of
 * NVTX_EVENTS are a stack per thread, a kernel belongs to the ranges that are open where it was launched. Ranges whose name holds
 * one of a few words are modules, ranges with "::" are operations. Both sides by (parent, module, operation); modules match by
 * path and name without "Ascend", else by the most alike path; within a module the rows by time, side by side. A
 * rank is compared with the device of its number: CompareProfileReportRankR, compare_profile_report_R.csv.
 *
 * Corrected: a GPU's path has no "/" before it (the peer's has, so that below the outermost modules nothing matches by rule);
 * --fuzzy-threshold counts (the peer always takes 0.6); a [Backward] module is not matched with one that is
 * none; a range is a module too when the NPU has one of its name (the peer's words are those of one family of networks); the
 * mean of an operation is its time over its calls, not a mean of means; a launch and a kernel of one number
 * belong together within a process only; what a row does not have is empty, not a blank.
 */
#include "ascend/recipe/modules.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ranges and launches of the GPU's file, by thread and time. */
enum { G_THREAD, G_START, G_END, G_IS_KERNEL, G_NAME, G_TIME, G_DEVICE };
#define GPU_KINDS "iiiitii"
/* The GPU's kernels: MODULE_COLUMNS, and the time once more to sort by. */
enum { GPU_MINUS = MODULE_SHARES + 1 };
/* Operations of modules of both sides, us. MINUS: the time, to sort by. */
enum { KEY, IS_GPU, MINUS, PARENT, MODULE, OP, KERNELS, TOTAL, MEAN, COUNT, IS_FUZZY };
#define SIDE_KINDS "tirttttrrii"
/* Rows of the result before they are written: what they are sorted by, then places in the sides. */
enum { OUT_PARENT, OUT_MINUS_DIFF, OUT_MINUS_GPU, OUT_KEY, OUT_NPU, OUT_GPU, OUT_RATIO, OUT_DIFF };
#define OUT_KINDS "trrtiirr"
enum { MODULES, REPORT }; /* frames */
enum { DEPTH_MAX = 200, NOWHERE = -1 };

#define BACKWARD         "[Backward]"
#define COMPAT_THRESHOLD 0.6

/* ---- the GPU's side ---- */

static enum rs_status read_gpu(const char *path, struct frame *events, struct rs_err *err)
{
    struct rs_ascend_db *db = NULL;
    char sql[1200];
    const struct frame_query query = {.sql = sql};
    enum rs_status status = rs_ascend_db_open(path, &db, err);
    if (status != RS_OK)
        return status;
    status = db_requires(db,
                         "NVTX_EVENTS.start NVTX_EVENTS.end NVTX_EVENTS.text NVTX_EVENTS.textId "
                         "NVTX_EVENTS.globalTid NVTX_EVENTS.eventType StringIds.value "
                         "CUPTI_ACTIVITY_KIND_RUNTIME.globalTid "
                         "CUPTI_ACTIVITY_KIND_RUNTIME.correlationId "
                         "CUPTI_ACTIVITY_KIND_KERNEL.correlationId "
                         "CUPTI_ACTIVITY_KIND_KERNEL.demangledName "
                         "CUPTI_ACTIVITY_KIND_KERNEL.deviceId",
                         err);
    (void)snprintf(
        sql, sizeof sql,
        "SELECT n.globalTid, n.start, n.end, 0, coalesce(n.text, s.value, 'Unknown_Region'), 0, 0 "
        "FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId "
        "WHERE n.eventType = 59 AND n.start IS NOT NULL AND n.end IS NOT NULL "
        "UNION ALL SELECT r.globalTid, r.start, r.start, 1, s.value, k.end - k.start, k.deviceId "
        "FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN CUPTI_ACTIVITY_KIND_KERNEL k "
        "ON k.correlationId = r.correlationId %s JOIN StringIds s ON s.id = k.demangledName "
        "WHERE r.start IS NOT NULL AND k.end >= k.start ORDER BY 1, 2, 4, 3 DESC",
        rs_ascend_db_has_column(db, "CUPTI_ACTIVITY_KIND_KERNEL", "globalPid")
            ? "AND k.globalPid = r.globalTid / 16777216 * 16777216"
            : "");
    if (status == RS_OK)
        status = frame_load(events, db, &query, err);
    rs_ascend_db_close(&db);
    return status;
}

/* "AscendLinear" -> "Linear", wherever it stands. */
static void without_ascend(const char *text, struct rs_buf *out)
{
    static const char word[] = "Ascend";
    rs_buf_reset(out);
    for (const char *at = text; *at;) {
        const char *found = strstr(at, word);
        rs_buf_bytes(out, at, found ? (size_t)(found - at) : strlen(at));
        at = found ? found + sizeof word - 1 : at + strlen(at);
    }
}

enum { IS_MODULE = 1, IS_OP = 2 };

/* kinds_p[id]: what a range of this name is. */
static enum rs_status sort_names(const struct run *run, const struct frame *events,
                                 uint8_t **kinds_p)
{
    static const char *const words[] = {"Qwen",      "Attention", "Linear", "RMSNorm",
                                        "Embedding", "Sampler",   "Logits"};
    const struct frame *npu = &run->frames[MODULES];
    uint8_t *kinds = rs_mem_calloc(events->texts.count, sizeof *kinds);
    struct rs_buf name = {0};
    if (!kinds)
        return RS_NOMEM;
    for (size_t id = 0; id < events->texts.count; id++) {
        const char *text = frame_text(events, (rs_str)id);
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            kinds[id] |= strstr(text, words[i]) ? IS_MODULE : 0;
        kinds[id] |= strstr(text, "::") ? IS_OP : 0;
    }
    for (size_t i = 0; i < npu->count && !run->options->compat; i++) {
        without_ascend(frame_text(npu, frame_row(npu, i)[MODULE_NAME].t), &name);
        const rs_str id = rs_strtab_find(&events->texts, rs_buf_text(&name), name.length);
        if (id != RS_STR_NONE && id != RS_STR_EMPTY)
            kinds[id] |= IS_MODULE;
    }
    const bool has_failed = name.failed;
    rs_buf_fini(&name);
    if (has_failed) {
        rs_mem_free(kinds);
        return RS_NOMEM;
    }
    *kinds_p = kinds;
    return RS_OK;
}

/* The ranges that are open on a thread. */
struct open_ranges {
    const struct frame *events;
    const uint8_t *kinds; /* by name */
    bool compat;
    size_t rows[DEPTH_MAX], depth;
    struct rs_buf text;
};

/* A kernel, as a row of MODULE_COLUMNS with itself as the list; none when no module is open. */
static enum rs_status place_kernel(struct open_ranges *open, const union frame_cell *kernel,
                                   struct frame *placed)
{
    const struct frame *events = open->events;
    rs_str module = RS_STR_NONE, op = RS_STR_NONE;
    rs_buf_reset(&open->text);
    for (size_t i = 0; i < open->depth; i++) {
        const rs_str name = frame_row(events, open->rows[i])[G_NAME].t;
        if (open->kinds[name] & IS_OP)
            op = name;
        if (!(open->kinds[name] & IS_MODULE))
            continue;
        if (module != RS_STR_NONE)
            rs_buf_printf(&open->text, "%s%s", open->text.length || open->compat ? "/" : "",
                          frame_text(events, module));
        module = name;
    }
    if (module == RS_STR_NONE)
        return RS_OK;
    union frame_cell *row = frame_add(placed);
    if (!row || open->text.failed)
        return RS_NOMEM;
    row[MODULE_TOTAL].r = (double)kernel[G_TIME].i;
    row[MODULE_COUNT].i = 1;
    row[MODULE_RANK].i = kernel[G_DEVICE].i;
    row[MODULE_SHARES].t = RS_STR_NONE;
    const char *op_text = op == RS_STR_NONE ? "None" : frame_text(events, op);
    if (frame_text_id(placed, rs_buf_text(&open->text), &row[MODULE_PARENT].t) != RS_OK ||
        frame_text_of(placed, events, module, &row[MODULE_NAME].t) != RS_OK ||
        rs_strtab_add(&placed->texts, op_text, strcspn(op_text, ","), &row[MODULE_OP].t) != RS_OK)
        return RS_NOMEM;
    return frame_text_of(placed, events, kernel[G_NAME].t, &row[MODULE_KERNELS].t);
}

static enum rs_status place_kernels(struct open_ranges *open, struct frame *placed)
{
    enum rs_status status = RS_OK;
    int64_t thread = RS_NULL;
    for (size_t i = 0; i < open->events->count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(open->events, i);
        if (row[G_THREAD].i != thread)
            open->depth = 0;
        thread = row[G_THREAD].i;
        while (open->depth &&
               frame_row(open->events, open->rows[open->depth - 1])[G_END].i <= row[G_START].i)
            open->depth--;
        if (row[G_IS_KERNEL].i)
            status = place_kernel(open, row, placed);
        else if (open->depth < DEPTH_MAX)
            open->rows[open->depth++] = i;
    }
    rs_buf_fini(&open->text);
    return status;
}

/* Equal kernels of an operation together: what module_statistic is to the other side. */
static enum rs_status sum_kernels(struct frame *placed)
{
    struct frame_order order;
    size_t kept = 0;
    union frame_cell *cells = rs_mem_calloc(placed->count + 1, placed->columns * sizeof *cells);
    enum rs_status status =
        cells ? frame_order(placed,
                            (char[]){MODULE_RANK + 1, MODULE_PARENT + 1, MODULE_NAME + 1,
                                     MODULE_OP + 1, MODULE_KERNELS + 1, 0},
                            &order)
              : RS_NOMEM;
    if (status != RS_OK) {
        rs_mem_free(cells);
        return status;
    }
    for (size_t at = 0, end = 0; at < order.count; at = end) {
        union frame_cell *row = cells + kept++ * placed->columns;
        memcpy(row, frame_row(placed, order.rows[at]), placed->columns * sizeof *row);
        end = frame_group_end(placed, &order, at);
        for (size_t i = at + 1; i < end; i++)
            row[MODULE_TOTAL].r += frame_row(placed, order.rows[i])[MODULE_TOTAL].r;
        row[MODULE_COUNT].i = (int64_t)(end - at);
        row[MODULE_MEAN].r = row[MODULE_TOTAL].r / (double)row[MODULE_COUNT].i;
        row[GPU_MINUS].r = -row[MODULE_TOTAL].r;
    }
    frame_order_fini(&order);
    rs_mem_free(placed->cells);
    placed->cells = cells;
    placed->capacity = placed->count * placed->columns;
    placed->count = kept;
    return RS_OK;
}

static enum rs_status make_gpu(const struct run *run, struct frame *gpu, struct rs_err *err)
{
    struct frame events;
    uint8_t *kinds = NULL;
    enum rs_status status = frame_init(&events, GPU_KINDS);
    if (status == RS_OK)
        status = read_gpu(run->options->baseline, &events, err);
    if (status == RS_OK)
        status = sort_names(run, &events, &kinds);
    struct open_ranges open = {.events = &events, .kinds = kinds, .compat = run->options->compat};
    if (status == RS_OK)
        status = place_kernels(&open, gpu);
    if (status == RS_OK)
        status = sum_kernels(gpu);
    if (status == RS_OK && !gpu->count)
        status =
            rs_err_set(err, RS_NOTFOUND, "%s has no kernels under modules", run->options->baseline);
    rs_mem_free(kinds);
    frame_fini(&events);
    return status;
}

/* ---- both sides of a rank ---- */

/* Rows of all ranks of one side. */
struct half {
    const struct frame *rows;
    struct frame_order order; /* by rank, parent, module, operation */
    bool is_gpu;
};

static enum rs_status half_init(struct half *half, const struct frame *rows, bool is_gpu)
{
    *half = (struct half){.rows = rows, .is_gpu = is_gpu};
    const enum rs_status status =
        frame_order(rows,
                    (char[]){MODULE_RANK + 1, MODULE_PARENT + 1, MODULE_NAME + 1, MODULE_OP + 1,
                             is_gpu ? GPU_MINUS + 1 : 0, 0},
                    &half->order);
    frame_order_by(&half->order,
                   (char[]){MODULE_RANK + 1, MODULE_PARENT + 1, MODULE_NAME + 1, MODULE_OP + 1, 0});
    return status;
}

static int64_t half_rank(const struct half *half, size_t at)
{
    return frame_row(half->rows, half->order.rows[at])[MODULE_RANK].i;
}

/* One operation of a module: order positions from..end-1. */
static enum rs_status add_side(const struct half *half, size_t from, size_t end, bool compat,
                               struct frame *side)
{
    const struct frame *rows = half->rows;
    const union frame_cell *first = frame_row(rows, half->order.rows[from]);
    struct stats_sum total = {0, 0}, means = {0, 0};
    struct rs_buf kernels = {0}, key = {0}, path = {0};
    union frame_cell *row = frame_add(side);
    int64_t count = 0;
    for (size_t i = from; i < end; i++) {
        const union frame_cell *each = frame_row(rows, half->order.rows[i]);
        rs_buf_printf(&kernels, "%s%s", i == from ? "" : ", ",
                      frame_text(rows, each[MODULE_KERNELS].t));
        stats_add(&total, each[MODULE_TOTAL].r);
        stats_add(&means, each[MODULE_MEAN].r);
        count += each[MODULE_COUNT].i;
    }
    rs_buf_printf(&path, "%s/%s", frame_text(rows, first[MODULE_PARENT].t),
                  frame_text(rows, first[MODULE_NAME].t));
    if (half->is_gpu)
        rs_buf_string(&key, rs_buf_text(&path));
    else
        without_ascend(rs_buf_text(&path), &key);
    enum rs_status status =
        row && !key.failed && !kernels.failed && !path.failed ? RS_OK : RS_NOMEM;
    if (status == RS_OK) {
        row[IS_GPU].i = half->is_gpu;
        row[TOTAL].r = total.sum / 1000;
        row[MINUS].r = -row[TOTAL].r;
        row[MEAN].r =
            (compat ? means.sum / (double)(end - from) : total.sum / (double)count) / 1000;
        row[COUNT].i = count;
        if (frame_text_of(side, rows, first[MODULE_PARENT].t, &row[PARENT].t) != RS_OK ||
            frame_text_of(side, rows, first[MODULE_NAME].t, &row[MODULE].t) != RS_OK ||
            frame_text_of(side, rows, first[MODULE_OP].t, &row[OP].t) != RS_OK ||
            frame_text_id(side, rs_buf_text(&kernels), &row[KERNELS].t) != RS_OK ||
            frame_text_id(side, rs_buf_text(&key), &row[KEY].t) != RS_OK)
            status = RS_NOMEM;
    }
    rs_buf_fini(&kernels);
    rs_buf_fini(&key);
    rs_buf_fini(&path);
    return status;
}

/* The rank's rows, from *at_p on, which moves behind them. */
static enum rs_status add_half(const struct half *half, size_t *at_p, bool compat,
                               struct frame *side)
{
    const int64_t rank = half_rank(half, *at_p);
    enum rs_status status = RS_OK;
    for (size_t end; status == RS_OK && *at_p < half->order.count; *at_p = end) {
        if (half_rank(half, *at_p) != rank)
            break;
        end = frame_group_end(half->rows, &half->order, *at_p);
        status = add_side(half, *at_p, end, compat, side);
    }
    return status;
}

/* The GPU's key that is most like this one; RS_STR_NONE: none is alike enough, *failed_p: no memory. */
static rs_str find_alike(const struct run *run, const struct frame *side, const bool *is_of_gpu,
                         size_t keys, rs_str key, bool *failed_p)
{
    const double least = run->options->compat ? COMPAT_THRESHOLD : run->options->fuzzy_threshold;
    const char *text = frame_text(side, key);
    double most = 0;
    rs_str found = RS_STR_NONE;
    for (size_t id = 0; id < keys; id++) {
        const char *other = frame_text(side, (rs_str)id);
        if (!is_of_gpu[id] ||
            (!run->options->compat && !strstr(text, BACKWARD) != !strstr(other, BACKWARD)))
            continue;
        const double ratio = alike(other, text, least);
        *failed_p = *failed_p || ratio < 0;
        if (ratio >= least && (found == RS_STR_NONE || ratio > most ||
                               (ratio >= most && strcmp(other, frame_text(side, found)) > 0))) {
            most = ratio;
            found = (rs_str)id;
        }
    }
    return found;
}

/* Gives rows of the NPU whose module the GPU does not have the key of the most alike one. */
static enum rs_status match_keys(const struct run *run, struct frame *side)
{
    const size_t keys = side->texts.count;
    bool *is_of_gpu = rs_mem_calloc(keys, sizeof *is_of_gpu);
    rs_str *matches =
        rs_mem_calloc(keys, sizeof *matches); /* of a key, + 1; 0: not looked for yet */
    bool has_failed = !is_of_gpu || !matches;
    for (size_t i = 0; i < side->count && !has_failed; i++)
        if (frame_row(side, i)[IS_GPU].i)
            is_of_gpu[frame_row(side, i)[KEY].t] = true;
    for (size_t i = 0; i < side->count && !has_failed && run->options->fuzzy_threshold > 0; i++) {
        union frame_cell *row = side->cells + i * side->columns;
        const rs_str key = row[KEY].t;
        if (row[IS_GPU].i || is_of_gpu[key])
            continue;
        if (!matches[key]) {
            const rs_str found = find_alike(run, side, is_of_gpu, keys, key, &has_failed);
            matches[key] = found == RS_STR_NONE ? key + 1 : found + 1;
        }
        row[IS_FUZZY].i = matches[key] != key + 1;
        row[KEY].t = matches[key] - 1;
    }
    rs_mem_free(is_of_gpu);
    rs_mem_free(matches);
    return has_failed ? RS_NOMEM : RS_OK;
}

/* Its parent is the GPU's, where there is one. */
static enum rs_status name_module(const struct frame *side, const char *path, union frame_cell *row,
                                  struct frame *out)
{
    const char *slash = strrchr(path, '/');
    const enum rs_status status = frame_text_id(out, path, &row[OUT_KEY].t);
    if (status != RS_OK)
        return status;
    if (row[OUT_GPU].i == NOWHERE)
        return rs_strtab_add(&out->texts, path, (size_t)(slash - path), &row[OUT_PARENT].t);
    const union frame_cell *gpu = frame_row(side, (size_t)row[OUT_GPU].i);
    return frame_text_id(out, frame_text(side, gpu[PARENT].t), &row[OUT_PARENT].t);
}

/* Rows of one module side by side: order positions from..middle-1 are the NPU's, middle..end-1 the GPU's. */
static enum rs_status pair_module(const struct frame *side, const struct frame_order *order,
                                  size_t from, size_t middle, size_t end, struct frame *out)
{
    struct stats_sum npu = {0, 0}, gpu = {0, 0};
    const rs_str key = frame_row(side, order->rows[from])[KEY].t;
    const char *path = frame_text(side, key);
    for (size_t i = from; i < end; i++)
        stats_add(i < middle ? &npu : &gpu, frame_row(side, order->rows[i])[TOTAL].r);
    const bool both = from < middle && middle < end;
    for (size_t i = 0; i < middle - from || i < end - middle; i++) {
        union frame_cell *row = frame_add(out);
        if (!row)
            return RS_NOMEM;
        row[OUT_NPU].i = i < middle - from ? (int64_t)order->rows[from + i] : NOWHERE;
        row[OUT_GPU].i = i < end - middle ? (int64_t)order->rows[middle + i] : NOWHERE;
        row[OUT_DIFF].r = both ? npu.sum - gpu.sum : (double)NAN;
        row[OUT_RATIO].r = both && gpu.sum > 0 ? npu.sum / gpu.sum : (double)NAN;
        row[OUT_MINUS_DIFF].r = both ? -row[OUT_DIFF].r : -HUGE_VAL;
        row[OUT_MINUS_GPU].r = row[OUT_GPU].i == NOWHERE
                                   ? -HUGE_VAL
                                   : frame_row(side, (size_t)row[OUT_GPU].i)[MINUS].r;
        if (name_module(side, path, row, out) != RS_OK)
            return RS_NOMEM;
    }
    return RS_OK;
}

static enum rs_status pair_sides(const struct frame *side, struct frame *out)
{
    struct frame_order order;
    enum rs_status status = frame_order(side, (char[]){KEY + 1, IS_GPU + 1, MINUS + 1, 0}, &order);
    frame_order_by(&order, (char[]){KEY + 1, 0});
    for (size_t at = 0, end = 0; status == RS_OK && at < order.count; at = end) {
        end = frame_group_end(side, &order, at);
        size_t middle = at;
        while (middle < end && !frame_row(side, order.rows[middle])[IS_GPU].i)
            middle++;
        status = pair_module(side, &order, at, middle, end, out);
    }
    frame_order_fini(&order);
    return status;
}

/* ---- writing ---- */

/* The report: both modules, how they match; of each side SIDE_CELLS; ratio and difference. */
enum { R_GPU, R_NPU = 2, R_MATCH = 4, R_SIDES, SIDE_CELLS = 6, R_RATIO = 17, R_DIFF };
#define REPORT_COLUMNS                                                                              \
    "gpu_parent:t gpu_module:t npu_parent:t npu_module:t how:t npu_op:t npu_count:i npu_kernels:t " \
    "npu_total:r npu_share:t npu_mean:r gpu_op:t gpu_count:i gpu_kernels:t gpu_total:r "            \
    "gpu_share:t gpu_mean:r ratio:t diff:r"

/* Operation, count, kernels, time, share, mean. */
static void add_side_cells(const struct frame *side, const union frame_cell *row, double all,
                           struct frame *report, union frame_cell *cells)
{
    char share[32];
    (void)snprintf(share, sizeof share, "%.2f%%", row[TOTAL].r / all * 100);
    cells[0].t = frame_str_of(report, side, row[OP].t);
    cells[1].i = row[COUNT].i;
    cells[2].t = frame_str_of(report, side, row[KERNELS].t);
    cells[3].r = row[TOTAL].r;
    cells[4].t = all > 0 ? frame_str(report, share) : RS_STR_NONE;
    cells[5].r = row[MEAN].r;
}

static void leave_side_empty(union frame_cell *cells)
{
    cells[0].t = cells[2].t = cells[4].t = RS_STR_NONE;
    cells[1].i = RS_NULL;
    cells[3].r = cells[5].r = (double)NAN;
}

static void report_row(const struct frame *side, const struct frame *out,
                       const union frame_cell *row, const double all[2], struct frame *report)
{
    char ratio[32], parent[1200];
    union frame_cell *cells = frame_put(report);
    const char *path = frame_text(out, row[OUT_KEY].t), *slash = strrchr(path, '/');
    (void)snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    cells[R_MATCH].t = RS_STR_NONE;
    for (size_t i = 0; i < 2; i++) { /* the NPU, the GPU */
        const int64_t at = row[i ? OUT_GPU : OUT_NPU].i;
        const union frame_cell *own = at == NOWHERE ? NULL : frame_row(side, (size_t)at);
        union frame_cell *names = cells + (i ? R_GPU : R_NPU);
        names[0].t = frame_str(report, own ? frame_text(side, own[PARENT].t) : parent);
        names[1].t = frame_str(report, own ? frame_text(side, own[MODULE].t) : slash + 1);
        if (own)
            add_side_cells(side, own, all[i], report, cells + R_SIDES + i * SIDE_CELLS);
        else
            leave_side_empty(cells + R_SIDES + i * SIDE_CELLS);
        if (own && !i)
            cells[R_MATCH].t = frame_str(report, own[IS_FUZZY].i ? "fuzzy" : "rule");
    }
    (void)snprintf(ratio, sizeof ratio, "%.2f", row[OUT_RATIO].r);
    cells[R_RATIO].t = isnan(row[OUT_RATIO].r) ? RS_STR_NONE : frame_str(report, ratio);
    cells[R_DIFF].r = row[OUT_DIFF].r;
}

/* The peer writes a blank where nothing is known. */
#define OR_BLANK(column) "iif(:compat, coalesce(" column ", ' '), " column ")"

static enum rs_status write_rank(struct run *run, int64_t rank, const struct frame *side,
                                 const struct frame *out, struct rs_err *err)
{
    char name[64], file[64];
    struct frame *report = &run->frames[REPORT];
    struct frame_order order;
    double all[2] = {0, 0};
    (void)snprintf(name, sizeof name, "CompareProfileReportRank%" PRId64, rank);
    (void)snprintf(file, sizeof file, "compare_profile_report_%" PRId64 ".csv", rank);
    const struct
        result
            result =
                {.name = name,
                 .file = file,
                 .columns =
                     "(GPU) Parent Module:t|(GPU) Module:t|(NPU) Parent Module:t|(NPU) Module:t|"
                     "Match Type:t|(NPU) Op Name:t|(NPU) Op Count:i|(NPU) Kernel List:t|"
                     "(NPU) Total Kernel Duration(us):r|(NPU) Total Kernel Duration(%):t|"
                     "(NPU) Avg Kernel Duration(us):r|(GPU) Op Name:t|(GPU) Op Count:i|"
                     "(GPU) Kernel List:t|(GPU) Total Kernel Duration(us):r|"
                     "(GPU) Total Kernel Duration(%):t|(GPU) Avg Kernel Duration(us):r|"
                     "(NPU/GPU) Module Time Ratio:t|(NPU-GPU,us) Module Time Diff:r",
                 .sql = "SELECT gpu_parent, gpu_module, npu_parent, npu_module, " OR_BLANK("how") ", " OR_BLANK(
                     "npu_op") ", " OR_BLANK("npu_count") ", " OR_BLANK("npu_kernels") ", " OR_BLANK("npu_total") ", " OR_BLANK("npu_share") ", " OR_BLANK("npu_mean") ", " OR_BLANK("gpu_op") ", " OR_BLANK("gpu_count") ", " OR_BLANK("gpu_kernels") ", " OR_BLANK("gpu_total") ", " OR_BLANK("gpu_share") ", " OR_BLANK("gpu_mean") ", " OR_BLANK("ratio") ", " OR_BLANK("diff") " FROM report"};
    for (size_t i = 0; i < side->count; i++)
        all[frame_row(side, i)[IS_GPU].i] += frame_row(side, i)[TOTAL].r;
    report->count = 0; /* of the rank before */
    const enum rs_status status = frame_order(
        out, (char[]){OUT_PARENT + 1, OUT_MINUS_DIFF + 1, OUT_MINUS_GPU + 1, 0}, &order);
    for (size_t i = 0; i < order.count && status == RS_OK; i++)
        report_row(side, out, frame_row(out, order.rows[i]), all, report);
    frame_order_fini(&order);
    return status != RS_OK || report->failed
               ? rs_err_set(err, RS_NOMEM, "no memory to sort modules")
               : result_write(run, &result, err);
}

/* One rank, whose rows start at *npu_p; the GPU's at gpu_at, or nowhere. */
static enum rs_status compare_rank(struct run *run, const struct half *npu, size_t *npu_p,
                                   const struct half *gpu, size_t gpu_at, struct rs_err *err)
{
    struct frame side = {0}, out = {0};
    const int64_t rank = half_rank(npu, *npu_p);
    const bool is_there = gpu_at < gpu->order.count && half_rank(gpu, gpu_at) == rank;
    enum rs_status status = frame_init(&side, SIDE_KINDS);
    if (status == RS_OK)
        status = frame_init(&out, OUT_KINDS);
    if (status == RS_OK)
        status = add_half(npu, npu_p, run->options->compat, &side);
    if (status == RS_OK && is_there)
        status = add_half(gpu, &gpu_at, run->options->compat, &side);
    if (status == RS_OK && !is_there)
        run_add_problem(run, rank, true, "%s has no device %" PRId64 " to compare with",
                        run->options->baseline, rank);
    if (status == RS_OK && is_there)
        status = match_keys(run, &side);
    if (status == RS_OK && is_there)
        status = pair_sides(&side, &out);
    if (status == RS_OK && is_there)
        status = write_rank(run, rank, &side, &out, err);
    frame_fini(&side);
    frame_fini(&out);
    return status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    struct frame gpu = {0};
    struct half npus = {0}, gpus = {0};
    enum rs_status status = frame_init(&gpu, MODULE_COLUMNS " minus:r");
    if (status == RS_OK)
        status = make_gpu(run, &gpu, err);
    if (status == RS_OK)
        status = half_init(&npus, &run->frames[MODULES], false);
    if (status == RS_OK)
        status = half_init(&gpus, &gpu, true);
    for (size_t at = 0, gpu_at = 0; status == RS_OK && at < npus.order.count;) {
        while (gpu_at < gpus.order.count && half_rank(&gpus, gpu_at) < half_rank(&npus, at))
            gpu_at++;
        status = compare_rank(run, &npus, &at, &gpus, gpu_at, err);
    }
    frame_order_fini(&npus.order);
    frame_order_fini(&gpus.order);
    frame_fini(&gpu);
    return status == RS_NOMEM ? rs_err_set(err, RS_NOMEM, "no memory to compare modules") : status;
}

static enum rs_status start(struct run *run, struct rs_err *err)
{
    return run->options->baseline
               ? RS_OK
               : rs_err_set(
                     err, RS_INVALID,
                     "calibrate_npu_gpu needs --baseline-profiling-path, an SQLite export of "
                     "Nsight Systems (nsys export --type sqlite)");
}

const struct recipe recipe_calibrate_npu_gpu = {
    .info = {"calibrate_npu_gpu", "modules on an NPU beside the same on a GPU",
             "CompareProfileReportRankR"},
    .folder = "CalibrateNpuGpu",
    .needs = NEED_PROFILER,
    .frames = {{.name = "modules", .columns = MODULE_COLUMNS},
               {.name = "report", .columns = REPORT_COLUMNS}},
    .start = start,
    .fill = modules_fill,
    .finish = finish,
};
