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

enum { INFO_BYTES_MAX = 16 << 20 };

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

static void find_chip(struct inputs *in, struct frame *frame)
{
    (void)frame;
    in->status = read_chip(in->of->vendor->dir, &in->figure, &in->err);
}

/* clang-format off */

/* Operations per core and cycle of the first of "DT_BF16;FLOAT"; NULL: not known. */
#define CYCLE_OF(type) \
    "CASE WHEN " type " IN ('FLOAT', 'FLOAT16', 'BF16', 'DT_BF16') OR :compat AND " type " = '' THEN 8192.0 WHEN " \
    type " = 'INT8' THEN 16384.0 END"
#define FIRST_OF(types) "substr(" types ", 1, instr(" types ", ' ') - 1)"

/* What each kernel of an operator reaches. A kernel of several calls stands in `shaped` several times, and counts once. */
static const char shares_sql[] =
    "CREATE TEMP TABLE shaped AS SELECT task, start, end, upper(ltrim(replace(coalesce(types, ''), ';', ' '))) || ' "
    "' AS types, op_start FROM kernels WHERE task IS NOT NULL AND coalesce(inputs, '') <> 'N/A' AND "
    "coalesce(outputs, '') <> 'N/A' ORDER BY op_start, start, end, rowid; "
    "CREATE INDEX temp.shaped_start ON shaped (op_start); "
    "CREATE TEMP TABLE share AS WITH flop AS (SELECT rowid AS at, CAST(substr(text, 1, dash - 1) AS REAL) AS flops, "
    "substr(text, dash + 1) AS name, start, end FROM (SELECT rowid, *, instr(text, '-') AS dash FROM flops) WHERE "
    "dash BETWEEN 2 AND length(text) - 1 AND substr(text, 1, dash - 1) NOT GLOB '*[^0-9]*' AND end > start AND end "
    "< 9223372036854775807), "
    "own AS (SELECT at, flops, name, f.end - f.start AS length, task, s.start AS start, s.end AS end, first_value("
    FIRST_OF("types") ") OVER (PARTITION BY at ORDER BY s.rowid) AS type, row_number() OVER (PARTITION BY at, "
    "s.start, s.end ORDER BY s.rowid) AS turn FROM flop f CROSS JOIN shaped s WHERE op_start BETWEEN f.start AND "
    "f.end AND flops > 0 AND flops < 9e999), "
    "rated AS (SELECT *, :figure * " CYCLE_OF("type") " AS rate, iif(:compat, end - start, sum(max(end - start, 0)) "
    "OVER (PARTITION BY at)) * 1e-9 AS seconds FROM own WHERE turn = 1) "
    "SELECT task, start, end, flops / seconds / rate AS mfu, round_even(flops / seconds / 1e12, 2) AS tflops, "
    "round_even(rate / 1e12, 2) AS peak, flops, name, length FROM rated WHERE rate IS NOT NULL AND end > start "
    "ORDER BY at, start, end";

#define FROM_SHARES "FROM kernels k CROSS JOIN share s ON s.task = k.task AND s.start = k.start AND s.end = k.end "
static const char mfu_sql[] =
    "SELECT :rank, op, k.name, k.start, k.end, k.end - k.start, round_even(mfu, 4), tflops, peak, flops, s.name, "
    "inputs, outputs " FROM_SHARES "ORDER BY k.rowid, s.rowid";

/* In its module a kernel has the share of the shortest range. */
static const char own_sql[] =
    "CREATE TEMP TABLE own AS SELECT kernel, share FROM (SELECT k.rowid AS kernel, mfu AS share, row_number() OVER "
    "(PARTITION BY k.rowid ORDER BY length, s.rowid) AS turn " FROM_SHARES ") WHERE turn = 1";
/* clang-format on */

/* ---- all ranks ---- */

#define MODULE_HEAD                                                                                \
    "rank_id:i=Rank ID|parent_module:t=Parent Module|module:t=Module|op_name:t=Op Name|"           \
    "kernel_list:t=Kernel List|total_kernel_duration(ns):r=Total Kernel Duration(ns)|"             \
    "avg_kernel_duration(ns):r=Avg Kernel Duration(ns)|op_count:i=Op Count"
#define MODULE_ROWS "SELECT rank, parent, name, op, kernels, total, mean, calls"

/* the peer leaves the column out where it would be empty */
#define HAS_SHARES "SELECT 1 FROM modules WHERE shares <> '' OR NOT :compat"
#define HAS_NONE   "SELECT 1 WHERE NOT EXISTS (" HAS_SHARES ")"
/* Both forms tell the same; in text form those of one rank. */
#define BOTH(table, prefix, with, rows, condition)                                                 \
    {.name = table,                                                                                \
     .columns = with,                                                                              \
     .sql = rows,                                                                                  \
     .when = condition,                                                                            \
     .is_optional = true,                                                                          \
     .is_only_db = true},                                                                          \
    {                                                                                              \
        .name = table, .file = prefix, .columns = with, .sql = rows " WHERE rank = :rank",         \
        .when = condition, .by_rank = true, .is_only_text = true                                   \
    }

static const struct result results[] = {
    BOTH("OperatorMFU", "operator_mfu_kernel",
         "rank_id:i=Rank ID|op_name:t=Op Name|kernel_name:t=Kernel Name|"
         "kernel_start(ns):i=Kernel Start(ns)|kernel_end(ns):i=Kernel End(ns)|"
         "kernel_duration(ns):i=Kernel Duration(ns)|mfu:r=MFU|actual_tflops:r|chip_peak_tflops:r|"
         "flops:r|flops_op_name:t|input_shapes:t|output_shapes:t",
         "SELECT * FROM mfu", NULL),
    BOTH("ModuleMFU", "operator_mfu_module", MODULE_HEAD "|avg_mfu:t=Avg MFU",
         MODULE_ROWS ", shares FROM modules", HAS_SHARES),
    BOTH("ModuleMFU", "operator_mfu_module", MODULE_HEAD, MODULE_ROWS " FROM modules", HAS_NONE),
};

const struct recipe recipe_operator_mfu = {
    .info = {"operator_mfu", "which part of the chip's peak kernels and modules reach",
             "OperatorMFU, ModuleMFU"},
    .folder = "OperatorMfu",
    .needs = NEED_PROFILER,
    .optional = MODULES_OPTIONAL,
    .frames = {FRAME_KERNELS(" COMPUTE_TASK_INFO.inputDataTypes COMPUTE_TASK_INFO.inputShapes "
                             "COMPUTE_TASK_INFO.outputShapes",
                             modules_shaped_kernels_sql),
               {.name = "flops",
                .columns = "text:t start:i end:i",
                .requires = "MSTX_EVENTS.domainId MSTX_EVENTS.message MSTX_EVENTS.startNs "
                            "MSTX_EVENTS.endNs",
                .before = find_chip,
                .sql = "SELECT coalesce(m.value, ''), startNs, endNs FROM MSTX_EVENTS "
                       "LEFT JOIN STRING_IDS m ON m.id = message JOIN STRING_IDS d ON d.id = "
                       "domainId WHERE d.value = 'mfu_flops' AND startNs IS NOT NULL AND "
                       "endNs IS NOT NULL ORDER BY startNs",
                .missing = "no ranges of the domain mfu_flops",
                .is_passing = true,
                .is_apart = true}, /* modules have their times all the same */
               {.sql = shares_sql},
               {.name = "mfu",
                .columns = "rank:i op:t name:t start:i end:i duration:i mfu:r tflops:r peak:r "
                           "flops:r flops_name:t inputs:t outputs:t",
                .sql = mfu_sql},
               {.sql = own_sql},
               FRAME_RANGES(3),
               {.sql = modules_calls_sql},
               {.sql = modules_grouped_sql},
               {.sql = modules_shares_sql},
               FRAME_MODULES(modules_shared_sql)},
    RESULTS(results),
};
