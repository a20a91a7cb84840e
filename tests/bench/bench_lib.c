/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What librankscope costs: ns per begin/end pair, against the same loop with an empty body.
 *
 * A collector in the same process drains the ring between rounds (not timed), so nothing is lost. Also: the
 * pair while nobody records, and what one read of each clock costs here. JSON lines on stdout; the best of
 * several rounds, because the machine is shared.
 */
#include "collector/lib/clock.h"
#include "collector/lib/rankscope.h"
#include "collector/source/native.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 200, PAIRS = 4096 };

typedef void body_fn(void);

static uint32_t plain_name;
static uint32_t timed_name;
static struct rankscope_comm comm;
static struct rankscope_task task;

static void keep_loop(void)
{
    __asm__ volatile("" ::: "memory");
}

static void empty_pairs(void)
{
    for (int i = 0; i < PAIRS; i++)
        keep_loop();
}

static void op_pairs(void)
{
    for (int i = 0; i < PAIRS; i++) {
        rankscope_op_begin(plain_name);
        keep_loop();
        rankscope_op_end();
    }
}

static void timed_pairs(void)
{
    for (int i = 0; i < PAIRS; i++) {
        rankscope_op_begin(timed_name);
        keep_loop();
        rankscope_op_end();
    }
}

static void comm_pairs(void)
{
    for (int i = 0; i < PAIRS; i++) {
        rankscope_comm_begin(&comm);
        keep_loop();
        rankscope_comm_end();
    }
}

static void task_pairs(void)
{
    for (int i = 0; i < PAIRS; i++) {
        int handle = rankscope_task_begin(&task);
        keep_loop();
        rankscope_task_end(handle);
    }
}

static void marks(void)
{
    for (int i = 0; i < PAIRS; i++)
        rankscope_mark(plain_name);
}

static void tick_reads(void)
{
    for (int i = 0; i < PAIRS; i++)
        (void)*(volatile uint64_t *)&(uint64_t){rankscope_priv_ticks()};
}

static void clock_reads(void)
{
    for (int i = 0; i < PAIRS; i++)
        (void)*(volatile uint64_t *)&(uint64_t){rankscope_priv_system_ns(CLOCK_MONOTONIC)};
}

static void cpu_clock_reads(void)
{
    for (int i = 0; i < PAIRS; i++)
        (void)*(volatile uint64_t *)&(uint64_t){rankscope_priv_system_ns(CLOCK_THREAD_CPUTIME_ID)};
}

struct rig {
    struct rs_native *native;
    struct rs_source_stream stream;
    uint64_t id;
    int64_t rows;
};

static enum rs_status count_rows(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct rig *rig = self;
    (void)err;
    rig->rows += (int64_t)batch->count;
    return RS_OK;
}

static void drain(struct rig *rig)
{
    struct rs_sink sink = {.batch = count_rows, .self = rig};
    struct rs_err err = {0};
    if (rs_native_poll(rig->native, 0, &err) < 0 ||
        rs_native_drain(rig->native, rig->id, sink, &err) < 0) {
        fprintf(stderr, "bench_lib: %s\n", err.text);
        exit(1);
    }
}

/* Best ns per pair over the rounds. */
static double best_of(body_fn *body, struct rig *rig)
{
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = rankscope_priv_system_ns(CLOCK_MONOTONIC);
        body();
        uint64_t took = rankscope_priv_system_ns(CLOCK_MONOTONIC) - start;
        best = took < best ? took : best;
        if (rig != NULL)
            drain(rig);
    }
    return (double)best / PAIRS;
}

static void report(const char *what, double ns, double empty_ns)
{
    printf("{\"bench\":\"lib\",\"what\":\"%s\",\"ns\":%.1f,\"above_empty_loop_ns\":%.1f}\n", what,
           ns, ns - empty_ns);
    fflush(stdout);
}

static void start(struct rig *rig, const char *path)
{
    struct rs_err err = {0};
    struct rankscope_config config = RANKSCOPE_CONFIG_INIT;
    config.rank = 0;
    config.run = "bench";
    config.socket_path = path;
    bool is_good =
        rs_native_open(path, &rig->native, &err) == RS_OK && rankscope_init(&config) == 0 &&
        rs_native_poll(rig->native, 1000, &err) == RS_OK &&
        rs_native_poll(rig->native, 100, &err) == RS_OK && rs_native_count(rig->native) == 1 &&
        rs_source_stream_init(&rig->stream) == RS_OK;
    if (!is_good) {
        fprintf(stderr, "bench_lib: no connection: %s\n", err.text);
        exit(1);
    }
    rig->id = rs_native_at(rig->native, 0)->id;
}

static void record(struct rig *rig)
{
    struct rs_native_request request = {.capture = "bench", .stop_step = 1000};
    struct rs_err err = {0};
    if (rs_native_arm(rig->native, rig->id, &request, &rig->stream, &err) != RS_OK) {
        fprintf(stderr, "bench_lib: %s\n", err.text);
        exit(1);
    }
    rankscope_step(1);
    if (!rankscope_is_recording()) {
        fprintf(stderr, "bench_lib: not recording\n");
        exit(1);
    }
}

int main(void)
{
    char path[64];
    static struct rig rig;
    snprintf(path, sizeof path, "/tmp/rankscope-bench-%d.sock", (int)getpid());
    start(&rig, path);
    plain_name = rankscope_name("op", 0);
    timed_name = rankscope_name("timed op", RANKSCOPE_CPU_TIME);
    const int32_t ranks[] = {0, 1, 2, 3};
    comm = (struct rankscope_comm){.group = rankscope_group("dp0", ranks, 4),
                                   .bytes = 1 << 20,
                                   .peer = RANKSCOPE_UNKNOWN,
                                   .type = RANKSCOPE_ALL_REDUCE};
    task = (struct rankscope_task){.bytes = 1 << 18, .peer = 1, .is_send = 1};
    printf("{\"bench\":\"lib\",\"clock\":\"%s\"}\n", rankscope_clock_name());
    double empty = best_of(empty_pairs, NULL);
    report("empty loop", empty, empty);
    report("read of the record clock", best_of(tick_reads, NULL), empty);
    report("clock_gettime monotonic", best_of(clock_reads, NULL), empty);
    report("clock_gettime thread cpu", best_of(cpu_clock_reads, NULL), empty);
    report("op pair, nobody records", best_of(op_pairs, NULL), empty);
    record(&rig);
    report("op pair", best_of(op_pairs, &rig), empty);
    report("comm pair", best_of(comm_pairs, &rig), empty);
    report("task pair", best_of(task_pairs, &rig), empty);
    report("mark", best_of(marks, &rig), empty);
    report("op pair with cpu time", best_of(timed_pairs, &rig), empty);
    rankscope_step(2);
    drain(&rig);
    printf("{\"bench\":\"lib\",\"rows\":%" PRId64 ",\"lost\":%" PRIu64 "}\n", rig.rows,
           rankscope_lost_count());
    rankscope_fini();
    rs_native_close(&rig.native);
    rs_source_stream_fini(&rig.stream);
    return 0;
}
