/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What writing all deliverables costs, and that its memory does not grow with rows.
 *
 *     bench_output [RANKS [OPS [DIR]]]     default 64 ranks, 2000 operations each, a folder under /tmp
 *
 * One JSON line: rows, bytes written, seconds, rows per second, memory of the model (the summaries and the
 * analysis, which the caller holds anyway) and how much the peak grew above it while writing.
 */
#include "aggregator/output/output.h"
#include "common/base/mem.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BASE_NS INT64_C(1700000000000000000)

enum { OPS_PER_STEP = 100, STEP_NS = 100000000 };

static long peak_kib(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void fill_summary(struct rs_summary *summary, int32_t rank, size_t ops)
{
    const size_t steps = (ops + OPS_PER_STEP - 1) / OPS_PER_STEP;
    if (rs_strtab_init(&summary->strings, 0) != RS_OK)
        abort();
    rs_trace_info_init(&summary->trace);
    summary->trace.rank = rank;
    summary->trace.has_time_base = true;
    summary->steps = rs_mem_calloc(steps, sizeof *summary->steps);
    summary->ops = rs_mem_calloc(ops, sizeof *summary->ops);
    if (!summary->steps || !summary->ops)
        abort();
    for (size_t i = 0; i < steps; i++)
        summary->steps[summary->step_count++] = (struct rs_step_row){
            .step = (int64_t)i,
            .has_work = true,
            .computing = 60000000,
            .communication = 40000000,
            .window_start = BASE_NS + (int64_t)i * STEP_NS,
            .window_end = BASE_NS + (int64_t)(i + 1) * STEP_NS,
            .window_computing = 60000000,
            .window_exposed = 40000000,
        };
    for (size_t i = 0; i < ops; i++)
        summary->ops[summary->op_count++] = (struct rs_comm_op){
            .step = (int64_t)(i / OPS_PER_STEP),
            .type = RS_OP_ALL_REDUCE,
            .peer = -1,
            .root = -1,
            .bytes = 1 << 20,
            .start = BASE_NS + (int64_t)i * 1000000 + rank * 7,
            .end = BASE_NS + (int64_t)i * 1000000 + 900000,
            .transport = RS_STR_NONE,
            .op_text = RS_STR_NONE,
        };
}

static void fill_analysis(struct rs_analysis *analysis, const struct rs_summary **lent,
                          size_t ranks, size_t ops)
{
    static char group[] = "0";
    *analysis = (struct rs_analysis){.summaries = lent,
                                     .summary_count = ranks,
                                     .world_size = (int32_t)ranks,
                                     .group_count = 1,
                                     .op_count = ops,
                                     .row_count = ops * ranks,
                                     .one_clock = true};
    analysis->groups = rs_mem_calloc(1, sizeof *analysis->groups);
    analysis->ops = rs_mem_calloc(ops, sizeof *analysis->ops);
    analysis->rows = rs_mem_calloc(ops * ranks, sizeof *analysis->rows);
    analysis->ranks = rs_mem_calloc(ranks, sizeof *analysis->ranks);
    const size_t steps = (ops + OPS_PER_STEP - 1) / OPS_PER_STEP;
    analysis->step_p2p_wait = rs_mem_calloc(ranks * steps, sizeof *analysis->step_p2p_wait);
    if (!analysis->groups || !analysis->ops || !analysis->rows || !analysis->ranks ||
        !analysis->step_p2p_wait)
        abort();
    analysis->groups[0] = (struct rs_job_group){.text = group, .size = (int64_t)ranks};
    for (size_t i = 0; i < ranks; i++)
        analysis->ranks[i] = (struct rs_job_rank){
            .rank = (int32_t)i, .summary = (uint32_t)i, .takes_part = true, .step_base = i * steps};
    for (size_t i = 0; i < ops; i++) {
        analysis->ops[i] = (struct rs_job_op){.step = (int64_t)(i / OPS_PER_STEP),
                                              .type = RS_OP_ALL_REDUCE,
                                              .is_matched = true,
                                              .seq = (int64_t)i,
                                              .last_rank = (int32_t)(ranks - 1),
                                              .ranks_expected = (int64_t)ranks,
                                              .has_wait = true,
                                              .row_first = i * ranks,
                                              .row_count = ranks};
        for (size_t r = 0; r < ranks; r++)
            analysis->rows[i * ranks + r] = (struct rs_job_row){.summary = (uint32_t)r,
                                                                .op_index = (uint32_t)i,
                                                                .rank = (int32_t)r,
                                                                .wait = (int64_t)(ranks - r) * 7,
                                                                .transfer = 899000,
                                                                .has_transfer = true};
    }
}

static long long bytes_in(const char *dir)
{
    long long total = 0;
    DIR *folder = opendir(dir);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat info;
        if (fstatat(dirfd(folder), entry->d_name, &info, 0) == 0 && S_ISREG(info.st_mode))
            total += info.st_size;
    }
    if (folder)
        (void)closedir(folder);
    return total;
}

int main(int argc, char **argv)
{
    const size_t ranks = argc > 1 ? strtoul(argv[1], NULL, 10) : 64;
    const size_t ops = argc > 2 ? strtoul(argv[2], NULL, 10) : 2000;
    char made[] = "/tmp/rs-bench-output-XXXXXX";
    const char *dir = argc > 3 ? argv[3] : mkdtemp(made);
    struct rs_summary *summaries = rs_mem_calloc(ranks, sizeof *summaries);
    const struct rs_summary **lent = rs_mem_calloc(ranks, sizeof *lent);
    struct rs_analysis analysis;
    struct rs_err err = {0};
    if (!ranks || !ops || !dir || !summaries || !lent)
        return 1;
    for (size_t i = 0; i < ranks; i++) {
        fill_summary(&summaries[i], (int32_t)i, ops);
        lent[i] = &summaries[i];
    }
    fill_analysis(&analysis, lent, ranks, ops);
    const long before = peak_kib();
    const rs_ns start = rs_time_monotonic();
    const struct rs_output_input input = {.analysis = &analysis};
    if (rs_output_write(&input, dir, &err) != RS_OK) {
        fprintf(stderr, "bench_output: %s\n", err.text);
        return 1;
    }
    const double seconds = (double)(rs_time_monotonic() - start) / 1e9;
    printf("{\"bench\":\"output\",\"ranks\":%zu,\"rows\":%zu,\"bytes\":%lld,\"seconds\":%.3f,"
           "\"rows_per_s\":%.0f,\"model_kib\":%ld,\"growth_kib\":%ld}\n",
           ranks, analysis.row_count, bytes_in(dir), seconds, (double)analysis.row_count / seconds,
           before, peak_kib() - before);
    return 0;
}
