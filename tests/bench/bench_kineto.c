/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the Kineto reader turns a file into batches, nothing behind it.
 *
 *     bench_kineto [--lossless] [--runs N] FILE...
 *
 * One line of JSON per file: the best of N runs in CPU time of this thread, bytes of text per second, and the
 * largest resident set of the process so far.
 */
#include "collector/source/kineto.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

struct count {
    int64_t rows;
    int64_t sum; /* so that nothing is optimised away */
};

static enum rs_status take(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct count *count = self;
    (void)err;
    count->rows += (int64_t)batch->count;
    for (size_t i = 0; i < batch->count; i++)
        count->sum += batch->end[i] - batch->start[i];
    return RS_OK;
}

static double cpu_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int measure(const char *path, unsigned flags, int runs)
{
    double best = 1e9;
    struct count count = {0};
    int64_t raw = 0;
    int64_t events = 0;
    const char *status_name = "";
    for (int i = 0; i < runs; i++) {
        struct rs_source_stream stream;
        struct rs_err err = {0};
        count = (struct count){0};
        if (rs_source_stream_init(&stream) != RS_OK)
            return 1;
        const double start = cpu_seconds();
        const enum rs_status status = rs_kineto_read(
            path, flags, &stream, (struct rs_sink){.batch = take, .self = &count}, &err);
        const double seconds = cpu_seconds() - start;
        if (status < 0) {
            (void)fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        best = seconds < best ? seconds : best;
        raw = stream.info.raw_bytes;
        events = stream.info.events_read;
        status_name = rs_status_name(status);
        rs_source_stream_fini(&stream);
    }
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    printf("{\"bench\": \"kineto\", \"file\": \"%s\", \"status\": \"%s\", \"raw_bytes\": %" PRId64
           ", \"events\": %" PRId64 ", \"rows_emitted\": %" PRId64
           ", \"cpu_ms\": %.3f, \"mb_per_s\": %.0f, \"rss_mib\": %.1f, \"check\": %" PRId64 "}\n",
           path, status_name, raw, events, count.rows, best * 1e3, (double)raw / best / 1e6,
           (double)usage.ru_maxrss / 1024, count.sum);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned flags = 0;
    int runs = 5;
    int failures = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--lossless") == 0)
            flags = RS_SOURCE_LOSSLESS;
        else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            runs = (int)strtol(argv[++i], NULL, 10);
        else
            failures += measure(argv[i], flags, runs);
    }
    return failures != 0;
}
